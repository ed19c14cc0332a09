/* TLS 1.3 with the lease's key as external PSK (psk_dhe_ke: forward secrecy, no certificates).
 *
 * One lock protects the SSL object and the buffer of encrypted bytes. Under it nothing waits: bytes
 * are read from the socket with MSG_DONTWAIT, and who waits for some does so without the lock. So one
 * thread can send while another receives.
 *
 * Sending: plaintext is cut into full records (small pieces gathered into one), encrypted into `out`,
 * up to OUT_TARGET bytes, and leaves with one write: a record per write() would cost half of the
 * throughput. Receiving: OpenSSL reads ahead 256 KiB per read(). The first bytes after a wait are
 * received by who waits, into `first`, and handed to OpenSSL from there: one system call wakes and
 * brings them. They are the receiver's and need no lock.
 *
 * The PSK's identity names the lease and the preamble's nonce, so that a handshake belongs to one
 * preamble and cannot be spliced onto another. */
#include "common/link/gb_link_impl.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "common/link/gb_socket.h"

enum {
    RECORD = 16 * 1024,
    OUT_TARGET = 256 * 1024,
    READ_AHEAD = 256 * 1024,
    FIRST = 4096, /* bytes; a small message, while large ones are not copied once more */
    RECEIVE_ROUND = 256 * 1024, /* longest stay under the lock, in bytes */
    IDENTITY = 16 + 1 + 2 * GB_NONCE_SIZE + 1,
};

/* What all connections of a process share, made at the first one: OpenSSL takes two milliseconds to look
 * its algorithms up, and has types for some hundred methods only. Never changed, and never freed: the
 * library may be unloaded in any order with OpenSSL. */
typedef struct {
    pthread_once_t once;
    SSL_CTX *ctx;
    BIO_METHOD *method; /* of the BIO that appends to `out` and takes from `first` and the socket */
} shared_t;

static shared_t shared[2] = {{.once = PTHREAD_ONCE_INIT}, {.once = PTHREAD_ONCE_INIT}};

struct gb_tls {
    pthread_mutex_t lock;
    SSL *ssl;
    int fd;
    int ended;   /* the socket has nothing more */
    int failure; /* errno of a receive into `first`, for OpenSSL to meet */
    uint8_t first[FIRST];
    size_t first_head;
    size_t first_tail;
    uint8_t *out;
    size_t out_head;
    size_t out_tail;
    size_t out_cap;
    atomic_size_t out_left; /* out_tail - out_head, for gb_link_unsent */
    int drained;            /* SSL_read wanted more from the socket: has_pending means nothing */
    int broken;
    uint8_t gather[RECORD];
    gb_key_t key; /* wiped after the handshake */
    char identity[IDENTITY];
};

/* ---- the BIO ---- */

static int out_reserve(gb_tls_t *t, size_t more)
{
    if (t->out_head == t->out_tail)
        t->out_head = t->out_tail = 0;
    if (t->out_tail + more <= t->out_cap)
        return 1;
    size_t cap = t->out_cap ? t->out_cap : 4096;
    while (cap < t->out_tail + more)
        cap *= 2;
    uint8_t *p = realloc(t->out, cap);
    if (!p)
        return 0;
    t->out = p;
    t->out_cap = cap;
    return 1;
}

static int out_write(BIO *bio, const char *data, int size)
{
    gb_tls_t *t = BIO_get_data(bio);
    if (size <= 0 || !out_reserve(t, (size_t)size))
        return -1;
    memcpy(t->out + t->out_tail, data, (size_t)size);
    t->out_tail += (size_t)size;
    atomic_store_explicit(&t->out_left, t->out_tail - t->out_head, memory_order_relaxed);
    return size;
}

static int first_read(BIO *bio, char *data, int size)
{
    gb_tls_t *t = BIO_get_data(bio);
    size_t n = t->first_tail - t->first_head;
    BIO_clear_retry_flags(bio);
    if (n > 0) {
        n = n < (size_t)size ? n : (size_t)size;
        memcpy(data, t->first + t->first_head, n);
        t->first_head += n;
        return (int)n;
    }
    ssize_t got = -1;
    if (t->failure)
        errno = t->failure;
    else
        got = t->ended ? 0 : recv(t->fd, data, (size_t)size, MSG_DONTWAIT);
    t->ended |= got == 0;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    return (int)got;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    const gb_tls_t *t = BIO_get_data(bio);
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH || (command == BIO_CTRL_EOF && t->ended);
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static BIO_METHOD *make_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gable");
    if (method && BIO_meth_set_write(method, out_write) && BIO_meth_set_read(method, first_read) &&
        BIO_meth_set_ctrl(method, bio_ctrl) && BIO_meth_set_create(method, bio_create))
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* Hands encrypted bytes to the socket. Under the lock. */
static gb_status_t out_flush(gb_link_t *link)
{
    gb_tls_t *t = link->tls;
    gb_status_t st = GB_OK;
    while (st == GB_OK && t->out_head < t->out_tail) {
        size_t n = 0;
        st = gb_plain_write(link, t->out + t->out_head, t->out_tail - t->out_head, &n);
        t->out_head += n;
    }
    atomic_store_explicit(&t->out_left, t->out_tail - t->out_head, memory_order_relaxed);
    return st;
}

/* ---- the pre-shared key ---- */

static SSL_SESSION *psk_session(SSL *ssl, const gb_tls_t *t)
{
    static const unsigned char aes_128_gcm_sha256[2] = {0x13, 0x01};
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
    SSL_SESSION *s = cipher ? SSL_SESSION_new() : NULL;
    if (s && SSL_SESSION_set1_master_key(s, t->key.bytes, GB_KEY_SIZE) &&
        SSL_SESSION_set_cipher(s, cipher) && SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION))
        return s;
    SSL_SESSION_free(s);
    return NULL;
}

static int psk_use(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_size,
                   SSL_SESSION **session)
{
    gb_tls_t *t = SSL_get_app_data(ssl);
    *session = NULL;
    if (md && md != EVP_sha256())
        return 1; /* another hash is asked for: no key for that */
    *session = psk_session(ssl, t);
    *id = (const unsigned char *)t->identity;
    *id_size = strlen(t->identity);
    return *session != NULL;
}

static int psk_find(SSL *ssl, const unsigned char *id, size_t id_size, SSL_SESSION **session)
{
    gb_tls_t *t = SSL_get_app_data(ssl);
    *session = NULL;
    if (id_size == strlen(t->identity) && !memcmp(id, t->identity, id_size))
        *session = psk_session(ssl, t);
    return 1; /* without a session the handshake fails for want of anything in common */
}

/* ---- the operation table ---- */

/* What OpenSSL says about a failure of `result`; GB_ERR_AGAIN = wants the socket. Under the lock. */
static gb_status_t explain(gb_link_t *link, int result, const char *doing)
{
    gb_tls_t *t = link->tls;
    int saved = errno;
    int what = SSL_get_error(t->ssl, result);
    if (what == SSL_ERROR_WANT_READ)
        return GB_ERR_AGAIN;
    if (what == SSL_ERROR_ZERO_RETURN)
        return gb_link_lose(link, 0, doing);
    t->broken = 1;
    unsigned long code = ERR_peek_last_error();
    if (what == SSL_ERROR_SYSCALL)
        return gb_link_lose(link, saved, doing);
    const char *reason = ERR_reason_error_string(code);
    return gb_fail(GB_ERR_LOST, "the connection to %s is lost while %s: TLS: %s", link->peer, doing,
                   reason ? reason : "unknown failure");
}

static gb_status_t encrypt(gb_link_t *link, const void *data, size_t size)
{
    ERR_clear_error();
    int n = SSL_write(link->tls->ssl, data, (int)size);
    if (n == (int)size)
        return GB_OK;
    gb_status_t st = explain(link, n, "sending");
    if (st != GB_ERR_AGAIN)
        return st;
    /* The outgoing BIO takes everything; wanting to read would mean a renegotiation. */
    link->tls->broken = 1;
    return gb_fail(GB_ERR_LOST, "the connection to %s is lost: TLS wants to renegotiate",
                   link->peer);
}

/* Encrypts one record's worth of the cursor. */
static gb_status_t encrypt_next(gb_link_t *link, gb_cursor_t *cursor, size_t *taken)
{
    gb_tls_t *t = link->tls;
    struct iovec next;
    size_t n = 0;
    if (!gb_cursor_window(cursor, &next, 1))
        return GB_OK;
    if (next.iov_len >= RECORD) {
        gb_status_t st = encrypt(link, next.iov_base, RECORD);
        if (st != GB_OK)
            return st;
        gb_cursor_advance(cursor, RECORD);
        *taken += RECORD;
        return GB_OK;
    }
    while (n < RECORD && gb_cursor_window(cursor, &next, 1)) {
        size_t step = next.iov_len < RECORD - n ? next.iov_len : RECORD - n;
        memcpy(t->gather + n, next.iov_base, step);
        gb_cursor_advance(cursor, step);
        n += step;
    }
    *taken += n;
    return encrypt(link, t->gather, n);
}

static gb_status_t tls_try_send(gb_link_t *link, gb_cursor_t *cursor, size_t *sent)
{
    gb_tls_t *t = link->tls;
    size_t taken = 0;
    pthread_mutex_lock(&t->lock);
    gb_status_t st = t->broken ? gb_link_lose(link, 0, "sending") : out_flush(link);
    while (st == GB_OK && !gb_cursor_done(cursor) && t->out_tail - t->out_head < OUT_TARGET)
        st = encrypt_next(link, cursor, &taken);
    if (st == GB_OK) {
        st = out_flush(link);
        if (st == GB_ERR_AGAIN && taken)
            st = GB_OK; /* taken, if not yet gone */
    }
    pthread_mutex_unlock(&t->lock);
    *sent = taken;
    return st;
}

static gb_status_t tls_try_flush(gb_link_t *link)
{
    pthread_mutex_lock(&link->tls->lock);
    gb_status_t st = out_flush(link);
    pthread_mutex_unlock(&link->tls->lock);
    return st;
}

static int tls_unsent(const gb_link_t *link)
{
    return atomic_load_explicit(&link->tls->out_left, memory_order_relaxed) != 0;
}

static gb_status_t tls_try_recv(gb_link_t *link, void *buffer, size_t cap, size_t *got)
{
    gb_tls_t *t = link->tls;
    size_t have = 0;
    gb_status_t st = GB_OK;
    if (cap > RECEIVE_ROUND)
        cap = RECEIVE_ROUND;
    pthread_mutex_lock(&t->lock);
    if (t->broken)
        st = gb_link_lose(link, 0, "receiving");
    while (st == GB_OK && have < cap) {
        ERR_clear_error();
        errno = 0;
        int n = SSL_read(t->ssl, (uint8_t *)buffer + have, (int)(cap - have));
        t->drained = n <= 0;
        if (n <= 0)
            st = explain(link, n, "receiving");
        else
            have += (size_t)n;
        if (n > 0 && !SSL_has_pending(t->ssl))
            break; /* do not ask the socket again for what the caller does not wait for */
    }
    /* An answer to a key update must not wait for our next message. */
    if (t->out_head != t->out_tail && !t->broken)
        (void)out_flush(link); /* a failure shows at the next call */
    pthread_mutex_unlock(&t->lock);
    if (!have)
        return st;
    *got = have; /* a failure behind these bytes shows at the next call */
    return GB_OK;
}

/* Receives into `first`, without the lock; 1 = there is something now, be it the end. */
static int fetch_first(gb_tls_t *t, int flags)
{
    if (t->first_head != t->first_tail || t->ended || t->failure)
        return 1;
    ssize_t n = recv(t->fd, t->first, sizeof t->first, flags);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    t->failure = n < 0 ? errno : 0;
    t->ended = n == 0;
    if (n <= 0)
        return 1;
    t->first_head = 0;
    t->first_tail = (size_t)n;
    return 1;
}

static int tls_ready(gb_link_t *link)
{
    return fetch_first(link->tls, MSG_DONTWAIT);
}

/* OpenSSL may have bytes that no socket tells of. */
static gb_status_t tls_recv_wait(gb_link_t *link, void *buffer, size_t cap, size_t *got)
{
    gb_status_t st = tls_try_recv(link, buffer, cap, got);
    if (st != GB_ERR_AGAIN || !fetch_first(link->tls, 0))
        return st;
    return tls_try_recv(link, buffer, cap, got);
}

static int tls_pending(gb_link_t *link)
{
    gb_tls_t *t = link->tls;
    pthread_mutex_lock(&t->lock);
    int pending = t->first_head != t->first_tail || (!t->drained && SSL_has_pending(t->ssl));
    pthread_mutex_unlock(&t->lock);
    return pending;
}

static void tls_free(gb_tls_t *t)
{
    SSL_free(t->ssl); /* with its BIOs; sends nothing */
    pthread_mutex_destroy(&t->lock);
    gb_wipe(&t->key, sizeof t->key);
    gb_wipe(t->gather, sizeof t->gather);
    free(t->out);
    free(t);
}

static void tls_release(gb_link_t *link)
{
    tls_free(link->tls);
    link->tls = NULL;
}

static const gb_link_ops_t tls_ops = {
    .name = "tls",
    .try_send = tls_try_send,
    .try_flush = tls_try_flush,
    .unsent = tls_unsent,
    .try_recv = tls_try_recv,
    .recv_wait = tls_recv_wait,
    .pending = tls_pending,
    .ready = tls_ready,
    .may_spin = gb_plain_may_spin,
    .wait = gb_plain_wait,
    .finish = gb_plain_finish,
    .wake = gb_plain_wake,
    .release = tls_release,
};

/* ---- the handshake ---- */

static SSL_CTX *make_context(int server)
{
    SSL_CTX *ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if (!ctx || !SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256") ||
        !SSL_CTX_set_num_tickets(ctx, 0)) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    /* An EOF ends the receiving half only, as on every link. Cutting the stream short gains nothing:
     * an end without a goodbye frame counts as a lost peer. */
    SSL_CTX_set_options(ctx,
                        SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx, READ_AHEAD);
    if (server)
        SSL_CTX_set_psk_find_session_callback(ctx, psk_find);
    else
        SSL_CTX_set_psk_use_session_callback(ctx, psk_use);
    /* A server that shows a certificate instead of knowing the key is refused: none is trusted. */
    if (!server)
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    return ctx;
}

static void make_shared(int server)
{
    shared[server].ctx = make_context(server);
    shared[server].method = make_method();
}

static void make_client(void)
{
    make_shared(0);
}

static void make_server(void)
{
    make_shared(1);
}

void gb_tls_warm(int server)
{
    pthread_once(&shared[server].once, server ? make_server : make_client);
}

static gb_status_t tls_create(int fd, int server, const gb_preamble_t *facts, const gb_key_t *key,
                              gb_tls_t **out)
{
    gb_tls_t *t = calloc(1, sizeof *t);
    BIO *bio = NULL;
    if (!t)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory for a TLS connection");
    pthread_mutex_init(&t->lock, NULL);
    t->fd = fd;
    t->key = *key;
    snprintf(t->identity, sizeof t->identity, "%016llx:", (unsigned long long)facts->lease);
    gb_hex_encode(facts->nonce, GB_NONCE_SIZE, t->identity + strlen(t->identity));

    gb_tls_warm(server);
    const shared_t *of = &shared[server];
    if (of->ctx && of->method && (t->ssl = SSL_new(of->ctx)) && (bio = BIO_new(of->method))) {
        BIO_set_data(bio, t);
        SSL_set_bio(t->ssl, bio, bio);
        SSL_set_app_data(t->ssl, t);
        if (server)
            SSL_set_accept_state(t->ssl);
        else
            SSL_set_connect_state(t->ssl);
        *out = t;
        return GB_OK;
    }
    tls_free(t);
    return gb_fail(GB_ERR_INTERNAL, "TLS cannot be set up: OpenSSL 3 with TLS 1.3 is needed");
}

static gb_status_t handshake_failed(gb_link_t *link, gb_status_t status)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(code);
    if (status == GB_ERR_TIMEOUT)
        return gb_fail(GB_ERR_TIMEOUT, "%s does not finish the TLS handshake in time", link->peer);
    if (!reason)
        return gb_fail(GB_ERR_LOST, "%s closed the connection during the TLS handshake",
                       link->peer);
    return gb_fail(GB_ERR_UNAUTHORISED, "TLS handshake with %s failed: %s: the keys differ",
                   link->peer, reason);
}

gb_status_t gb_tls_handshake(gb_link_t *link, int server, const gb_preamble_t *facts,
                             const gb_key_t *key, uint64_t deadline)
{
    gb_status_t st = tls_create(link->fd, server, facts, key, &link->tls);
    if (st != GB_OK)
        return st;
    gb_tls_t *t = link->tls;
    link->ops = &tls_ops;
    for (;;) {
        ERR_clear_error();
        errno = 0;
        int done = SSL_do_handshake(t->ssl);
        int what = done == 1 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, done);
        st = out_flush(link);
        while (st == GB_ERR_AGAIN) {
            st = gb_socket_wait(link->fd, GB_SOCKET_OUT, deadline);
            if (st == GB_OK)
                st = out_flush(link);
        }
        if (what == SSL_ERROR_NONE || st != GB_OK)
            break;
        if (what != SSL_ERROR_WANT_READ) {
            st = GB_ERR_LOST;
            break;
        }
        st = gb_socket_wait(link->fd, GB_SOCKET_IN, deadline);
        if (st != GB_OK)
            break;
    }
    gb_wipe(&t->key, sizeof t->key);
    return st == GB_OK ? GB_OK : handshake_failed(link, st);
}

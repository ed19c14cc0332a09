#include "bench/remoting_raw.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "common/core/gb_clock.h"

enum {
    BUFFER = 64 << 20,
    RING = 1 << 20,
    PIECE = 256 << 10,
    SMALL = 64,
    SPIN_NS = 100 * 1000,
    SOCKET_BUFFER = 1 << 20, /* what the links ask for */
};

/* One direction of the shared buffer. */
typedef struct {
    _Alignas(64) _Atomic uint64_t head; /* bytes ever put; its low half is the futex */
    _Alignas(64) _Atomic uint64_t tail; /* bytes ever taken */
    _Alignas(64) atomic_int asleep;     /* one of the two may be */
    _Alignas(64) uint8_t bytes[RING];
} ring_t;

struct raw {
    raw_kind_t kind;
    int spin;
    int fd;
    SSL *ssl;
    ring_t *put, *get;
    uint8_t *buffer;
    pid_t pid;
};

/* Goes before the bytes. */
typedef struct {
    uint64_t in, out, piece;
    uint64_t turns; /* of 64 bytes there and back, instead */
} order_t;

void raw_pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (cpu >= 0 && sched_setaffinity(0, sizeof(set), &set))
        fprintf(stderr, "remoting: no CPU %d: the placement does not hold\n", cpu);
}

/* ---- the shared buffer ---- */

/* Waits until *word differs from `seen`; 0 when the peer is gone. */
static int word_wait(const raw_t *r, ring_t *ring, _Atomic uint64_t *word, uint64_t seen)
{
    uint64_t end = gb_now_ns() + SPIN_NS;
    while (atomic_load(word) == seen && r->spin && gb_now_ns() < end)
        ;
    while (atomic_store(&ring->asleep, 1), atomic_load(word) == seen) {
        struct timespec nap = {1, 0};
        long slept = syscall(SYS_futex, word, FUTEX_WAIT, (uint32_t)seen, &nap, NULL, 0);
        if (slept && errno == ETIMEDOUT && r->pid && waitpid(r->pid, NULL, WNOHANG))
            return 0;
    }
    return 1;
}

static void word_move(ring_t *ring, _Atomic uint64_t *word, uint64_t by)
{
    atomic_fetch_add(word, by);
    if (atomic_load(&ring->asleep) && atomic_exchange(&ring->asleep, 0))
        syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static int ring_put(const raw_t *r, const uint8_t *bytes, uint64_t size)
{
    ring_t *ring = r->put;
    while (size > 0) {
        uint64_t head = atomic_load(&ring->head), tail = atomic_load(&ring->tail);
        uint64_t at = head % RING, n = RING - (head - tail);
        if (n == 0) {
            if (!word_wait(r, ring, &ring->tail, tail))
                return 0;
            continue;
        }
        n = n < size ? n : size;
        n = n < RING - at ? n : RING - at;
        n = n < PIECE ? n : PIECE;
        memcpy(ring->bytes + at, bytes, n);
        word_move(ring, &ring->head, n);
        bytes += n;
        size -= n;
    }
    return 1;
}

static int ring_get(const raw_t *r, uint8_t *bytes, uint64_t size)
{
    ring_t *ring = r->get;
    while (size > 0) {
        uint64_t head = atomic_load(&ring->head), tail = atomic_load(&ring->tail);
        uint64_t at = tail % RING, n = head - tail;
        if (n == 0) {
            if (!word_wait(r, ring, &ring->head, head))
                return 0;
            continue;
        }
        n = n < size ? n : size;
        n = n < RING - at ? n : RING - at;
        memcpy(bytes, ring->bytes + at, n);
        word_move(ring, &ring->tail, n);
        bytes += n;
        size -= n;
    }
    return 1;
}

/* ---- sockets ---- */

static void await(const raw_t *r)
{
    uint64_t end = gb_now_ns() + SPIN_NS;
    uint8_t byte;
    while (r->spin && recv(r->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && gb_now_ns() < end)
        ;
}

static int put(const raw_t *r, const void *bytes, uint64_t size, uint64_t piece)
{
    const uint8_t *from = bytes;
    if (r->put)
        return ring_put(r, from, size);
    while (size > 0) {
        uint64_t want = size < piece ? size : piece;
        ssize_t n = r->ssl ? SSL_write(r->ssl, from, (int)want) : write(r->fd, from, want);
        if (n <= 0)
            return 0;
        from += n;
        size -= (uint64_t)n;
    }
    return !r->ssl || BIO_flush(SSL_get_wbio(r->ssl)) == 1;
}

static int get(const raw_t *r, void *bytes, uint64_t size)
{
    uint8_t *to = bytes;
    if (r->get)
        return ring_get(r, to, size);
    if (size && size < PIECE && (!r->ssl || !SSL_has_pending(r->ssl)))
        await(r);
    while (size > 0) {
        uint64_t want = size < PIECE ? size : PIECE;
        ssize_t n = r->ssl ? SSL_read(r->ssl, to, (int)want) : read(r->fd, to, want);
        if (n <= 0)
            return 0;
        to += n;
        size -= (uint64_t)n;
    }
    return 1;
}

/* ---- TLS with a key that both ends have ---- */

static SSL_SESSION *session_of(SSL *ssl)
{
    static const unsigned char suite[2] = {0x13, 0x01}, key[32] = {7};
    SSL_SESSION *s = SSL_SESSION_new();
    SSL_SESSION_set1_master_key(s, key, sizeof(key));
    SSL_SESSION_set_cipher(s, SSL_CIPHER_find(ssl, suite));
    SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION);
    return s;
}

static int use_key(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *size,
                   SSL_SESSION **out)
{
    (void)md;
    *id = (const unsigned char *)"raw";
    *size = 3;
    *out = session_of(ssl);
    return 1;
}

static int find_key(SSL *ssl, const unsigned char *id, size_t size, SSL_SESSION **out)
{
    (void)id;
    (void)size;
    *out = session_of(ssl);
    return 1;
}

static int encrypt(raw_t *r, int server)
{
    SSL_CTX *ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_num_tickets(ctx, 0);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx, PIECE);
    SSL_CTX_set_psk_find_session_callback(ctx, find_key);
    SSL_CTX_set_psk_use_session_callback(ctx, use_key);
    r->ssl = SSL_new(ctx);
    SSL_CTX_free(ctx);
    BIO *socket = BIO_new_socket(r->fd, BIO_NOCLOSE), *buffer = BIO_new(BIO_f_buffer());
    BIO_set_write_buffer_size(buffer, PIECE);
    BIO_up_ref(socket);
    SSL_set_bio(r->ssl, socket, BIO_push(buffer, socket));
    return (server ? SSL_accept(r->ssl) : SSL_connect(r->ssl)) == 1;
}

/* ---- making ---- */

static int tcp_pair(int ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&at, size) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&at, &size) ||
        connect(ends[0], (struct sockaddr *)&at, size))
        return 0;
    ends[1] = accept(listener, NULL, NULL);
    close(listener);
    for (int i = 0; i < 2; i++)
        setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return ends[1] >= 0;
}

static int connect_pair(raw_t *r, int ends[2], ring_t **rings)
{
    int size = SOCKET_BUFFER;
    if (r->kind == RAW_SHM) {
        void *memory = mmap(NULL, 2 * sizeof(ring_t), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        *rings = memory == MAP_FAILED ? NULL : memory;
        return *rings != NULL;
    }
    if (r->kind != RAW_UNIX)
        return tcp_pair(ends);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return 0;
    for (int i = 0; i < 2; i++)
        setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    return 1;
}

/* Turns as the one who begins them, or as the other. */
static int turns(raw_t *r, uint64_t count, int first)
{
    int good = 1;
    for (uint64_t i = 0; i < count && good; i++)
        good = (!first || put(r, r->buffer, SMALL, SMALL)) && get(r, r->buffer, SMALL) &&
               (first || put(r, r->buffer, SMALL, SMALL));
    return good;
}

static void serve(raw_t *r)
{
    order_t o;
    if (r->kind == RAW_TLS && !encrypt(r, 1))
        _exit(1);
    while (get(r, &o, sizeof(o)) && turns(r, o.turns, 0) && get(r, r->buffer, o.in) &&
           put(r, r->buffer, o.out, o.piece))
        ;
    _exit(0);
}

raw_t *raw_open(raw_kind_t kind, int peer_cpu, int spin)
{
    int ends[2] = {-1, -1};
    ring_t *rings = NULL;
    raw_t *r = calloc(1, sizeof(*r));
    r->kind = kind;
    r->spin = spin;
    r->buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r->buffer == MAP_FAILED || !connect_pair(r, ends, &rings)) {
        perror("remoting: no socket for the floor");
        return NULL;
    }
    pid_t pid = fork();
    r->fd = ends[pid ? 0 : 1];
    r->put = rings ? &rings[pid ? 0 : 1] : NULL;
    r->get = rings ? &rings[pid ? 1 : 0] : NULL;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        raw_pin(peer_cpu);
        memset(r->buffer, 1, BUFFER);
        serve(r);
    }
    r->pid = pid;
    close(ends[1]);
    memset(r->buffer, 1, BUFFER);
    if (kind == RAW_TLS && !encrypt(r, 0)) {
        fprintf(stderr, "remoting: no TLS for the floor\n");
        return NULL;
    }
    return r;
}

void raw_close(raw_t *r)
{
    if (r->ssl)
        SSL_free(r->ssl);
    if (r->put)
        munmap(r->put, 2 * sizeof(ring_t));
    if (r->fd >= 0)
        close(r->fd);
    kill(r->pid, SIGKILL);
    waitpid(r->pid, NULL, 0);
    munmap(r->buffer, BUFFER);
    free(r);
}

double raw_exchange(raw_t *r, uint64_t in, uint64_t out, uint64_t piece)
{
    order_t order = {in, out, piece, 0};
    uint64_t start = gb_now_ns();
    int good = put(r, &order, sizeof(order), sizeof(order)) && put(r, r->buffer, in, piece) &&
               get(r, r->buffer, out);
    return good ? (double)(gb_now_ns() - start) / 1000 : NAN;
}

double raw_turns(raw_t *r, uint64_t count)
{
    order_t order = {.turns = count};
    if (!put(r, &order, sizeof(order), sizeof(order)))
        return NAN;
    uint64_t start = gb_now_ns();
    return turns(r, count, 1) ? (double)(gb_now_ns() - start) / 1000 / (double)count : NAN;
}

double raw_memcpy(raw_t *r, uint64_t bytes)
{
    uint64_t half = BUFFER / 2, done = 0;
    uint64_t start = gb_now_ns();
    for (; done < bytes; done += half)
        memcpy(r->buffer + half, r->buffer, half);
    return (double)(gb_now_ns() - start) / 1000 * ((double)bytes / (double)done);
}

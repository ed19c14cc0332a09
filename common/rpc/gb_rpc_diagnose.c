/* gb_rpc_diagnose.c - one TLS connection with OpenSSL alone, to learn why gRPC's failed. */
#include "common/rpc/gb_rpc_tls.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

static gb_status_t dial(const char *target, int timeout_ms, int *out)
{
    char host[160];
    snprintf(host, sizeof host, "%s", target);
    char *colon = strrchr(host, ':'), *name = host;
    if (!colon)
        return gb_fail(GB_ERR_INVALID, "'%s' is not an address: write HOST:PORT", target);
    *colon = 0;
    if (name[0] == '[' && colon > host && colon[-1] == ']') {
        colon[-1] = 0;
        name++;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    int error = getaddrinfo(name, colon + 1, &hints, &list);
    if (error)
        return gb_fail(GB_ERR_UNREACHABLE, "cannot find the host of %s: %s", target,
                       gai_strerror(error));
    struct timeval limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    int fd = -1;
    for (struct addrinfo *at = list; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (connect(fd, at->ai_addr, at->ai_addrlen) < 0) {
            error = errno;
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    if (fd < 0)
        return gb_fail(GB_ERR_UNREACHABLE,
                       "no server answers at %s (%s): is ps-server running there?", target,
                       strerror(error));
    *out = fd;
    return GB_OK;
}

static SSL_CTX *make_context(const gb_rpc_tls_t *tls)
{
    static const unsigned char H2[] = {2, 'h', '2'};
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    BIO *ca = BIO_new_mem_buf(gb_rpc_tls_ca(tls), -1);
    BIO *cert = BIO_new_mem_buf(gb_rpc_tls_cert(tls), -1);
    BIO *key = BIO_new_mem_buf(gb_rpc_tls_key(tls), -1);
    X509 *root = PEM_read_bio_X509(ca, NULL, NULL, NULL);
    X509 *own = PEM_read_bio_X509(cert, NULL, NULL, NULL);
    EVP_PKEY *own_key = PEM_read_bio_PrivateKey(key, NULL, NULL, NULL);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), root);
    SSL_CTX_use_certificate(ctx, own);
    SSL_CTX_use_PrivateKey(ctx, own_key);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_alpn_protos(ctx, H2, sizeof H2);
    X509_free(root);
    X509_free(own);
    EVP_PKEY_free(own_key);
    BIO_free(ca);
    BIO_free(cert);
    BIO_free(key);
    return ctx;
}

static gb_status_t explain_handshake(SSL *ssl, int result, const char *target)
{
    int why = SSL_get_error(ssl, result);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return GB_OK; /* no answer in time: nothing against the certificates */
    unsigned long error = ERR_peek_last_error();
    long verdict = SSL_get_verify_result(ssl);
    if (verdict != X509_V_OK)
        return gb_fail(GB_ERR_UNAUTHORISED,
                       "the certificate of the server at %s is not acceptable (%s): server and "
                       "client need certificates of one CA, the server's with --role server",
                       target, X509_verify_cert_error_string(verdict));
    if (!error || ERR_GET_REASON(error) == SSL_R_WRONG_VERSION_NUMBER ||
        ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        return gb_fail(GB_ERR_UNAUTHORISED,
                       "the server at %s does not speak TLS: is it started with --tls-dir?",
                       target);
    return gb_fail(GB_ERR_UNAUTHORISED, "TLS with the server at %s fails: %s", target,
                   ERR_reason_error_string(error));
}

/* With TLS 1.3 a client learns only from its first read that its certificate was refused. */
static gb_status_t read_verdict(SSL *ssl, const char *target)
{
    char byte;
    if (SSL_read(ssl, &byte, 1) > 0)
        return GB_OK;
    unsigned long error = ERR_peek_last_error();
    if (!error)
        return GB_OK; /* silence or an orderly end: nothing against the certificate */
    return gb_fail(GB_ERR_UNAUTHORISED,
                   "the server at %s refuses this certificate (%s): issue a new one with its CA",
                   target, ERR_reason_error_string(error));
}

/* A gRPC server in plain answers HTTP/2's opening with its settings. Silence tells nothing. */
static gb_status_t diagnose_plain(int fd, const char *target)
{
    static const char OPENING[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    enum { TYPE_AT = 3, SETTINGS = 4 };
    unsigned char head[TYPE_AT + 1];
    ssize_t got = -1;
    if (send(fd, OPENING, sizeof OPENING, MSG_NOSIGNAL) > 0)
        got = recv(fd, head, sizeof head, MSG_WAITALL);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return GB_OK;
    if (got == sizeof head && head[TYPE_AT] == SETTINGS)
        return GB_OK;
    return gb_fail(GB_ERR_UNAUTHORISED,
                   "%s answers, but not in plain gRPC: give --tls-dir if the server uses "
                   "certificates, or check the port",
                   target);
}

gb_status_t gb_rpc_tls_diagnose(const gb_rpc_tls_t *tls, const char *target, int timeout_ms)
{
    int fd = -1;
    gb_status_t status = dial(target, timeout_ms, &fd);
    if (status != GB_OK)
        return status;
    if (!tls) {
        status = diagnose_plain(fd, target);
        close(fd);
        return status;
    }
    ERR_clear_error();
    SSL_CTX *ctx = make_context(tls);
    SSL *ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    SSL_set1_host(ssl, GB_RPC_SERVER_NAME);
    SSL_set_tlsext_host_name(ssl, GB_RPC_SERVER_NAME);
    int result = SSL_connect(ssl);
    status = result == 1 ? read_verdict(ssl, target) : explain_handshake(ssl, result, target);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    close(fd);
    ERR_clear_error();
    return status;
}

/* The proof is checked before anything of it is believed: a stranger learns from the answer only
 * that this is a Gable port and its version. */
#include "common/link/gb_preamble.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/core/gb_clock.h"
#include "common/link/gb_socket.h"

static const char PREAMBLE_MAGIC[8] = "GABLELNK";
static const char ANSWER_MAGIC[8] = "GABLEANS";

typedef struct {
    char magic[8];
    uint16_t version;
    uint16_t service;
    uint32_t security;
    uint64_t lease;
    uint64_t session;
    uint32_t connection;
    uint32_t reserved;
    uint8_t nonce[GB_NONCE_SIZE];
    uint8_t mac[GB_MAC_SIZE];
} wire_preamble_t;

typedef struct {
    char magic[8];
    uint16_t version;
    uint16_t status;
    uint32_t reserved;
} wire_answer_t;

_Static_assert(sizeof(wire_preamble_t) == GB_PREAMBLE_SIZE, "layout");
_Static_assert(sizeof(wire_answer_t) == GB_ANSWER_SIZE, "layout");

gb_status_t gb_preamble_encode(const gb_preamble_t *facts, const gb_key_t *key,
                               uint8_t out[GB_PREAMBLE_SIZE])
{
    wire_preamble_t w = {.version = GB_PREAMBLE_VERSION,
                         .service = (uint16_t)facts->service,
                         .security = (uint32_t)facts->security,
                         .lease = facts->lease,
                         .session = facts->session,
                         .connection = facts->connection};
    memcpy(w.magic, PREAMBLE_MAGIC, sizeof w.magic);
    memcpy(w.nonce, facts->nonce, sizeof w.nonce);
    gb_status_t st = gb_hmac(key, &w, offsetof(wire_preamble_t, mac), w.mac);
    if (st == GB_OK)
        memcpy(out, &w, sizeof w);
    return st;
}

gb_status_t gb_peer_key(const gb_key_t *lease_key, uint64_t lease, uint64_t session,
                        uint32_t connection, gb_key_t *out)
{
    char info[64];
    snprintf(info, sizeof info, "%016llx/%016llx/%u", (unsigned long long)lease,
             (unsigned long long)session, connection >> 16);
    return gb_hkdf(lease_key, "gable peer 1", info, out);
}

gb_service_t gb_preamble_service(const uint8_t in[GB_PREAMBLE_SIZE])
{
    wire_preamble_t w;
    memcpy(&w, in, sizeof w);
    return w.service >= GB_SERVICE_SESSION && w.service <= GB_SERVICE_PEER ? w.service : 0;
}

gb_status_t gb_preamble_check(const uint8_t *in, size_t size)
{
    size_t n = size < sizeof PREAMBLE_MAGIC ? size : sizeof PREAMBLE_MAGIC;
    if (memcmp(in, PREAMBLE_MAGIC, n))
        return gb_fail(GB_ERR_PROTOCOL, "not a Gable client (no preamble)");
    return GB_OK;
}

gb_status_t gb_preamble_verify(const uint8_t in[GB_PREAMBLE_SIZE], gb_service_t service,
                               gb_key_lookup_t lookup, void *arg, gb_preamble_t *facts,
                               gb_key_t *key)
{
    wire_preamble_t w;
    gb_key_t k;
    uint8_t mac[GB_MAC_SIZE];
    gb_status_t st = gb_preamble_check(in, GB_PREAMBLE_SIZE);
    if (st != GB_OK)
        return st;
    memcpy(&w, in, sizeof w);
    if (w.version != GB_PREAMBLE_VERSION)
        return gb_fail(GB_ERR_VERSION,
                       "the client speaks version %u of the data channel, this is "
                       "version %u: install the same release on both sides",
                       w.version, GB_PREAMBLE_VERSION);

    gb_status_t found = lookup(arg, w.lease, &k);
    if (found != GB_OK)
        memset(&k, 0x5a, sizeof k); /* the same work for an unknown lease */
    st = service == GB_SERVICE_PEER ? gb_peer_key(&k, w.lease, w.session, w.connection, &k) : GB_OK;
    if (st == GB_OK)
        st = gb_hmac(&k, &w, offsetof(wire_preamble_t, mac), mac);
    int proved = st == GB_OK && gb_secret_equal(mac, w.mac, sizeof mac);
    if (st == GB_OK && found != GB_OK)
        st = gb_fail(GB_ERR_UNAUTHORISED, "lease %016llx is unknown, expired or revoked here",
                     (unsigned long long)w.lease);
    else if (st == GB_OK && !proved)
        st = gb_fail(GB_ERR_UNAUTHORISED, "wrong key for lease %016llx",
                     (unsigned long long)w.lease);
    else if (st == GB_OK && (w.security > GB_SECURITY_SHARED || w.reserved))
        st = gb_fail(GB_ERR_PROTOCOL, "preamble with security %u", w.security);
    else if (st == GB_OK && w.service != (uint16_t)service)
        st = gb_fail(GB_ERR_INVALID, "the client asks for service %u, this port is for service %u",
                     w.service, (unsigned)service);
    if (st == GB_OK) {
        *facts = (gb_preamble_t){.service = service,
                                 .security = (gb_security_t)w.security,
                                 .lease = w.lease,
                                 .session = w.session,
                                 .connection = w.connection};
        memcpy(facts->nonce, w.nonce, sizeof w.nonce);
        *key = k;
    }
    gb_wipe(&k, sizeof k);
    return st;
}

/* Fills the buffer; every piece is checked as it comes, so that garbage is refused at its first byte
 * and not at the deadline. */
static gb_status_t read_preamble(int fd, uint64_t deadline, uint8_t *buffer)
{
    size_t have = 0;
    while (have < GB_PREAMBLE_SIZE) {
        ssize_t n = recv(fd, buffer + have, GB_PREAMBLE_SIZE - have, MSG_DONTWAIT);
        if (n == 0)
            return gb_fail(GB_ERR_LOST, "closed before the preamble was complete");
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            return gb_fail_errno(GB_ERR_LOST, errno, "reading the preamble");
        if (n > 0) {
            have += (size_t)n;
            gb_status_t st = gb_preamble_check(buffer, have);
            if (st != GB_OK)
                return st;
            continue;
        }
        gb_status_t st = gb_socket_wait(fd, GB_SOCKET_IN, deadline);
        if (st != GB_OK)
            return gb_fail(GB_ERR_TIMEOUT, "no complete preamble in time");
    }
    return GB_OK;
}

gb_status_t gb_preamble_accept(int fd, uint64_t deadline, gb_service_t service,
                               gb_key_lookup_t lookup, void *arg, gb_preamble_t *facts,
                               gb_key_t *key)
{
    uint8_t buffer[GB_PREAMBLE_SIZE];
    gb_status_t st = read_preamble(fd, deadline, buffer);
    if (st != GB_OK)
        return st;
    st = gb_preamble_verify(buffer, service, lookup, arg, facts, key);
    if (st != GB_OK)
        (void)gb_preamble_answer(fd, st); /* the refusal matters, not whether it was heard */
    return st;
}

gb_status_t gb_preamble_allowed(int fd, const gb_preamble_t *facts, int allow_plain)
{
    if (facts->security == GB_SECURITY_SHARED && !gb_socket_is_unix(fd))
        return gb_fail(GB_ERR_UNSUPPORTED, "shared memory needs a Unix socket");
    if (facts->security == GB_SECURITY_TLS || allow_plain || gb_socket_is_unix(fd))
        return GB_OK;
    return gb_fail(GB_ERR_UNSUPPORTED, "plain TCP is refused: only --insecure allows it");
}

gb_status_t gb_preamble_answer(int fd, gb_status_t status)
{
    wire_answer_t w = {.version = GB_PREAMBLE_VERSION, .status = (uint16_t)status};
    memcpy(w.magic, ANSWER_MAGIC, sizeof w.magic);
    ssize_t n = send(fd, &w, sizeof w, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n != (ssize_t)sizeof w)
        return gb_fail(GB_ERR_LOST, "the client is gone before it was answered");
    return GB_OK;
}

gb_status_t gb_answer_decode(const uint8_t in[GB_ANSWER_SIZE], const char *where)
{
    wire_answer_t w;
    memcpy(&w, in, sizeof w);
    if (memcmp(w.magic, ANSWER_MAGIC, sizeof w.magic))
        return gb_fail(GB_ERR_PROTOCOL, "%s is not a Gable data port: check host and port", where);
    if (w.version != GB_PREAMBLE_VERSION || w.status == GB_ERR_VERSION)
        return gb_fail(GB_ERR_VERSION,
                       "%s speaks version %u of the data channel, this program "
                       "version %u: install the same release on both sides",
                       where, w.version, GB_PREAMBLE_VERSION);
    switch (w.status) {
    case GB_OK:
        return GB_OK;
    case GB_ERR_UNAUTHORISED:
        return gb_fail(GB_ERR_UNAUTHORISED,
                       "%s refuses the lease or its key: it has expired, was "
                       "revoked, or belongs to another proxy: get a new "
                       "lease, or check GABLE_KEY_FILE where GABLE_PROXIES names the proxy",
                       where);
    case GB_ERR_UNSUPPORTED:
        return gb_fail(GB_ERR_UNSUPPORTED,
                       "%s wants TLS: dial it with a lease's key, or start it "
                       "with --insecure",
                       where);
    case GB_ERR_INVALID:
        return gb_fail(GB_ERR_INVALID, "%s is a data port of another kind: check the port", where);
    case GB_ERR_LIMIT:
        return gb_fail(GB_ERR_LIMIT, "%s serves as many sessions as it may: try again later",
                       where);
    case GB_ERR_NOT_FOUND:
        return gb_fail(GB_ERR_NOT_FOUND, "the session at %s has ended", where);
    case GB_ERR_EXISTS:
        return gb_fail(GB_ERR_EXISTS, "%s already serves this session", where);
    default:
        if (w.status < GB_STATUS_COUNT)
            return gb_fail((gb_status_t)w.status,
                           "%s could not start a session (%s): its log says "
                           "why",
                           where, gb_status_name((gb_status_t)w.status));
        return gb_fail(GB_ERR_PROTOCOL, "%s answers with unknown status %u", where, w.status);
    }
}

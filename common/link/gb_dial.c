/* The two ways into a link: dialling a data port, and taking over a socket that proved its key. */
#include "common/link/gb_link_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/link/gb_emulate.h"
#include "common/link/gb_socket.h"

/* Exactly `size` bytes of a non-blocking socket that has nothing else to give yet. */
static gb_status_t read_answer(int fd, uint8_t *out, size_t size, uint64_t deadline,
                               const char *where)
{
    size_t have = 0;
    while (have < size) {
        ssize_t n = recv(fd, out + have, size - have, MSG_DONTWAIT);
        if (n > 0) {
            have += (size_t)n;
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            return gb_fail(GB_ERR_LOST,
                           "%s closed the connection without an answer: is it a Gable "
                           "data port?",
                           where);
        } else if (gb_socket_wait(fd, GB_SOCKET_IN, deadline) != GB_OK) {
            return gb_fail(GB_ERR_TIMEOUT, "%s takes the connection but does not answer", where);
        }
    }
    return GB_OK;
}

static gb_status_t introduce(int fd, const char *where, const gb_preamble_t *facts,
                             const gb_key_t *key, uint64_t deadline)
{
    uint8_t preamble[GB_PREAMBLE_SIZE];
    uint8_t answer[GB_ANSWER_SIZE];
    gb_status_t st = gb_preamble_encode(facts, key, preamble);
    if (st != GB_OK)
        return st;
    /* A fresh socket has room for 88 bytes. */
    if (send(fd, preamble, sizeof preamble, MSG_NOSIGNAL) != (ssize_t)sizeof preamble)
        return gb_fail_errno(GB_ERR_LOST, errno, "cannot talk to %s", where);
    if (facts->security == GB_SECURITY_TLS)
        gb_tls_warm(0); /* while the listener looks the lease up, and may have to start somebody */
    st = read_answer(fd, answer, sizeof answer, deadline, where);
    return st == GB_OK ? gb_answer_decode(answer, where) : st;
}

/* A session on this machine may go on in shared memory. An emulated line has to be a socket. */
static int wants_memory(const gb_endpoint_t *endpoint, const gb_credential_t *credential)
{
    const char *wish = getenv("GABLE_LINK_SHM"), *line = getenv("GABLE_LINK_EMULATE");
    return endpoint->kind == GB_ENDPOINT_UNIX && credential->service != GB_SERVICE_SHARD &&
           !credential->socket_only && (!wish || strcmp(wish, "0") != 0) && (!line || !*line);
}

/* Connects the link to memory that is passed or awaited over its socket. */
static gb_status_t share(gb_link_t *link, int side, uint64_t deadline, int memory)
{
    gb_status_t st =
        side == 0 ? gb_shm_send(link->fd, memory) : gb_shm_receive(link->fd, deadline, &memory);
    if (st == GB_OK)
        st = gb_shm_attach(link, memory, side);
    if (side == 1 && memory >= 0)
        close(memory);
    return st;
}

gb_status_t gb_link_dial(const gb_endpoint_t *endpoint, const gb_credential_t *credential,
                         uint64_t deadline, gb_link_t **out)
{
    char where[GB_ENDPOINT_TEXT];
    int fd;
    int memory = -1;
    gb_link_t *link;
    int tls = endpoint->kind == GB_ENDPOINT_TCP && !credential->insecure &&
              !gb_key_is_zero(&credential->key);
    if (wants_memory(endpoint, credential) && gb_shm_create(&memory) != GB_OK)
        memory = -1; /* the socket serves as well */
    gb_preamble_t facts = {.service = credential->service,
                           .security = tls           ? GB_SECURITY_TLS
                                       : memory >= 0 ? GB_SECURITY_SHARED
                                                     : GB_SECURITY_PLAIN,
                           .lease = credential->lease,
                           .session = credential->session,
                           .connection = credential->connection};
    gb_endpoint_format(endpoint, where);
    gb_status_t st = gb_random(facts.nonce, sizeof facts.nonce);
    if (st == GB_OK)
        st = gb_socket_connect(endpoint, deadline, &fd);
    if (st != GB_OK)
        goto done;
    st = gb_emulate_wrap(&fd);
    if (st == GB_OK)
        st = introduce(fd, where, &facts, &credential->key, deadline);
    if (st != GB_OK) {
        close(fd);
        goto done;
    }
    st = gb_link_make(fd, tls ? "tls" : "tcp", &link);
    if (st != GB_OK)
        goto done;
    if (tls)
        st = gb_tls_handshake(link, 0, &facts, &credential->key, deadline);
    else if (memory >= 0)
        st = share(link, 0, deadline, memory);
    if (st != GB_OK)
        gb_link_close(link);
    else
        *out = link;
done:
    if (memory >= 0)
        close(memory);
    return st;
}

void gb_link_warm(void)
{
    gb_tls_warm(1);
}

gb_status_t gb_link_adopt(int fd, const gb_preamble_t *facts, const gb_key_t *key,
                          uint64_t deadline, gb_link_t **out)
{
    gb_link_t *link;
    int tls = facts->security == GB_SECURITY_TLS;
    gb_status_t st = gb_link_make(fd, tls ? "tls" : "tcp", &link);
    if (st != GB_OK)
        return st;
    if (tls)
        st = gb_tls_handshake(link, 1, facts, key, deadline);
    else if (facts->security == GB_SECURITY_SHARED)
        st = share(link, 1, deadline, -1);
    if (st != GB_OK)
        gb_link_close(link);
    else
        *out = link;
    return st;
}

gb_status_t gb_link_accept(int fd, uint64_t deadline, gb_service_t service, int allow_plain,
                           gb_key_lookup_t lookup, void *arg, gb_preamble_t *facts, gb_link_t **out)
{
    gb_preamble_t f;
    gb_key_t key;
    gb_status_t st = gb_preamble_accept(fd, deadline, service, lookup, arg, &f, &key);
    if (st != GB_OK) {
        close(fd);
        return st;
    }
    st = gb_preamble_allowed(fd, &f, allow_plain);
    if (st != GB_OK)
        (void)gb_preamble_answer(fd, st); /* the refusal matters, not whether it was heard */
    else
        st = gb_preamble_answer(fd, GB_OK);
    if (st != GB_OK)
        close(fd);
    else
        st = gb_link_adopt(fd, &f, &key, deadline, out);
    gb_wipe(&key, sizeof key);
    if (st == GB_OK)
        *facts = f;
    return st;
}

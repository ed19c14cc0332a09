#include "gpu-proxy/daemon/px_halfopen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"

typedef struct {
    px_arrival_t arrival;
    size_t have;
    uint64_t deadline;
} entry_t;

struct px_halfopen {
    uint64_t preamble_ns;
    int limit;
    int count;
    entry_t list[]; /* oldest first */
};

gb_status_t px_halfopen_create(int limit, uint32_t preamble_ms, px_halfopen_t **out)
{
    px_halfopen_t *h = calloc(1, sizeof *h + (size_t)limit * sizeof h->list[0]);
    if (!h)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory for connections");
    h->limit = limit;
    h->preamble_ns = (uint64_t)preamble_ms * 1000000u;
    *out = h;
    return GB_OK;
}

static void take_out(px_halfopen_t *h, int i)
{
    memmove(&h->list[i], &h->list[i + 1], (size_t)(--h->count - i) * sizeof h->list[0]);
}

static void drop(px_halfopen_t *h, int i, const char *why)
{
    gb_log(GB_LOG_WARN, "connection from %s closed: %s", h->list[i].arrival.peer, why);
    close(h->list[i].arrival.fd);
    take_out(h, i);
}

void px_halfopen_destroy(px_halfopen_t *h)
{
    if (!h)
        return;
    for (int i = 0; i < h->count; i++)
        close(h->list[i].arrival.fd);
    free(h);
}

void px_halfopen_add(px_halfopen_t *h, int fd, const char *peer)
{
    if (h->count == h->limit)
        drop(h, 0, "too many connections wait for their preamble, and this is the oldest");
    entry_t *e = &h->list[h->count++];
    *e = (entry_t){.deadline = gb_now_ns() + h->preamble_ns};
    e->arrival.fd = fd;
    memcpy(e->arrival.peer, peer, strnlen(peer, GB_PEER_TEXT - 1));
}

int px_halfopen_poll(const px_halfopen_t *h, struct pollfd *out)
{
    for (int i = 0; i < h->count; i++)
        out[i] = (struct pollfd){h->list[i].arrival.fd, POLLIN, 0};
    return h->count;
}

uint64_t px_halfopen_deadline(const px_halfopen_t *h)
{
    return h->count ? h->list[0].deadline : UINT64_MAX;
}

/* NULL, or why the connection is to be dropped. */
static const char *read_some(entry_t *e)
{
    while (e->have < GB_PREAMBLE_SIZE) {
        ssize_t n = recv(e->arrival.fd, e->arrival.preamble + e->have, GB_PREAMBLE_SIZE - e->have,
                         MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return NULL;
        if (n <= 0)
            return "it ended before its preamble was complete";
        e->have += (size_t)n;
        if (gb_preamble_check(e->arrival.preamble, e->have) != GB_OK)
            return gb_why();
    }
    return NULL;
}

gb_status_t px_halfopen_next(px_halfopen_t *h, px_arrival_t *out)
{
    uint64_t now = gb_now_ns();
    for (int i = 0; i < h->count;) {
        const char *why = read_some(&h->list[i]);
        if (!why && h->list[i].have == GB_PREAMBLE_SIZE) {
            *out = h->list[i].arrival;
            take_out(h, i);
            return GB_OK;
        }
        if (!why && now >= h->list[i].deadline)
            why = "no complete preamble in time";
        if (why)
            drop(h, i, why);
        else
            i++;
    }
    return GB_ERR_AGAIN;
}

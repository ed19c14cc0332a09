#include "gpu-proxy/daemon/px_grants.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/core/gb_clock.h"

struct px_grants {
    pthread_mutex_t lock;
    int changed; /* eventfd */
    px_grant_t *list;
    size_t count;
    size_t cap;
};

gb_status_t px_grants_create(px_grants_t **out)
{
    px_grants_t *g = calloc(1, sizeof *g);
    if (!g)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory for the grants");
    g->changed = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (g->changed < 0) {
        gb_status_t st = gb_fail_errno(GB_ERR_IO, errno, "eventfd");
        free(g);
        return st;
    }
    pthread_mutex_init(&g->lock, NULL);
    *out = g;
    return GB_OK;
}

void px_grants_destroy(px_grants_t *g)
{
    if (!g)
        return;
    if (g->list)
        gb_wipe(g->list, g->cap * sizeof *g->list);
    free(g->list);
    close(g->changed);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

static void tell(px_grants_t *g)
{
    uint64_t one = 1;
    ssize_t n = write(g->changed, &one, sizeof one);
    (void)n; /* a full counter is readable already */
}

static px_grant_t *find(px_grants_t *g, uint64_t lease)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->list[i].lease == lease)
            return &g->list[i];
    return NULL;
}

static gb_status_t reserve(px_grants_t *g, size_t count)
{
    if (count > PX_GRANTS)
        return gb_fail(GB_ERR_LIMIT, "a proxy holds at most %d leases at a time", PX_GRANTS);
    if (count <= g->cap)
        return GB_OK;
    size_t cap = g->cap ? 2 * g->cap : 16;
    while (cap < count)
        cap *= 2;
    px_grant_t *list = calloc(cap, sizeof *list);
    if (!list)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory for the grants");
    if (g->count)
        memcpy(list, g->list, g->count * sizeof *list);
    if (g->list)
        gb_wipe(g->list, g->cap * sizeof *list); /* keys are not left in freed memory */
    free(g->list);
    g->list = list;
    g->cap = cap;
    return GB_OK;
}

static void remove_at(px_grants_t *g, size_t i)
{
    g->list[i] = g->list[--g->count];
    gb_wipe(&g->list[g->count], sizeof *g->list);
}

static int expired(const px_grant_t *grant, uint64_t now)
{
    return grant->expires_ms && now >= grant->expires_ms;
}

/* Expired grants make room for new ones. */
static void sweep(px_grants_t *g)
{
    uint64_t now = gb_wall_ms();
    for (size_t i = g->count; i-- > 0;)
        if (expired(&g->list[i], now))
            remove_at(g, i);
}

gb_status_t px_grants_add(px_grants_t *g, const px_grant_t *grant)
{
    gb_status_t st = GB_OK;
    pthread_mutex_lock(&g->lock);
    px_grant_t *old = find(g, grant->lease);
    if (!old) {
        sweep(g);
        st = reserve(g, g->count + 1);
        if (st == GB_OK)
            old = &g->list[g->count++];
    }
    if (st == GB_OK)
        *old = *grant;
    pthread_mutex_unlock(&g->lock);
    if (st == GB_OK)
        tell(g);
    return st;
}

gb_status_t px_grants_revoke(px_grants_t *g, uint64_t lease)
{
    pthread_mutex_lock(&g->lock);
    px_grant_t *old = find(g, lease);
    if (old)
        remove_at(g, (size_t)(old - g->list));
    pthread_mutex_unlock(&g->lock);
    if (!old)
        return gb_fail(GB_ERR_NOT_FOUND, "lease %016llx is not granted here",
                       (unsigned long long)lease);
    tell(g);
    return GB_OK;
}

gb_status_t px_grants_replace(px_grants_t *g, const px_grant_t *grants_in, size_t count)
{
    pthread_mutex_lock(&g->lock);
    gb_status_t st = reserve(g, count);
    if (st == GB_OK) {
        if (count)
            memcpy(g->list, grants_in, count * sizeof *g->list);
        if (g->count > count)
            gb_wipe(g->list + count, (g->count - count) * sizeof *g->list);
        g->count = count;
    }
    pthread_mutex_unlock(&g->lock);
    if (st == GB_OK)
        tell(g);
    return st;
}

gb_status_t px_grants_find(px_grants_t *g, uint64_t lease, px_grant_t *out)
{
    gb_status_t st = GB_ERR_NOT_FOUND;
    pthread_mutex_lock(&g->lock);
    const px_grant_t *grant = find(g, lease);
    if (grant && !expired(grant, gb_wall_ms())) {
        *out = *grant;
        st = GB_OK;
    }
    pthread_mutex_unlock(&g->lock);
    return st == GB_OK
               ? st
               : gb_fail(st, "lease %016llx is not granted here", (unsigned long long)lease);
}

gb_status_t px_grants_key(void *arg, uint64_t lease, gb_key_t *key)
{
    px_grant_t grant;
    gb_status_t st = px_grants_find(arg, lease, &grant);
    if (st == GB_OK) {
        *key = grant.key;
        gb_wipe(&grant, sizeof grant);
    }
    return st;
}

size_t px_grants_count(px_grants_t *g)
{
    size_t n = 0;
    uint64_t now = gb_wall_ms();
    pthread_mutex_lock(&g->lock);
    for (size_t i = 0; i < g->count; i++)
        n += !expired(&g->list[i], now);
    pthread_mutex_unlock(&g->lock);
    return n;
}

int px_grants_changed_fd(const px_grants_t *g)
{
    return g->changed;
}

uint64_t px_grants_next_expiry(px_grants_t *g)
{
    uint64_t next = 0;
    uint64_t now = gb_wall_ms();
    pthread_mutex_lock(&g->lock);
    for (size_t i = 0; i < g->count; i++) {
        uint64_t e = g->list[i].expires_ms;
        if (e > now && (!next || e < next))
            next = e;
    }
    pthread_mutex_unlock(&g->lock);
    return next;
}

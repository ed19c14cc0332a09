#include "server/params/ps_grants.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_clock.h"

typedef struct {
    uint64_t lease, expires_ms;
    gb_key_t key;
} grant_t;

struct ps_grants {
    pthread_mutex_t lock;
    int insecure;
    grant_t *list;
    uint32_t count, cap;
};

gb_status_t ps_grants_create(int insecure, ps_grants_t **out)
{
    ps_grants_t *grants = calloc(1, sizeof(*grants));
    if (!grants)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    pthread_mutex_init(&grants->lock, NULL);
    grants->insecure = insecure;
    *out = grants;
    return GB_OK;
}

void ps_grants_destroy(ps_grants_t *grants)
{
    if (!grants)
        return;
    if (grants->list)
        gb_wipe(grants->list, grants->count * sizeof(*grants->list));
    free(grants->list);
    pthread_mutex_destroy(&grants->lock);
    free(grants);
}

static grant_t *find(ps_grants_t *grants, uint64_t lease)
{
    for (uint32_t i = 0; i < grants->count; i++) {
        if (grants->list[i].lease == lease)
            return &grants->list[i];
    }
    return NULL;
}

static void remove_entry(ps_grants_t *grants, grant_t *grant)
{
    grant_t *last = &grants->list[--grants->count];
    if (grant != last)
        *grant = *last;
    gb_wipe(last, sizeof(*last));
}

/* Makes room: first by forgetting what has expired. */
static gb_status_t make_room(ps_grants_t *grants)
{
    uint64_t now = gb_wall_ms();
    for (uint32_t i = grants->count; i > 0; i--) {
        if (grants->list[i - 1].expires_ms && grants->list[i - 1].expires_ms <= now)
            remove_entry(grants, &grants->list[i - 1]);
    }
    if (grants->count < grants->cap)
        return GB_OK;
    /* Not realloc: the old keys must be wiped. */
    uint32_t cap = grants->cap ? grants->cap * 2 : 16;
    grant_t *grown = calloc(cap, sizeof(*grown));
    if (!grown)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    if (grants->list) {
        memcpy(grown, grants->list, grants->count * sizeof(*grown));
        gb_wipe(grants->list, grants->count * sizeof(*grown));
        free(grants->list);
    }
    grants->list = grown;
    grants->cap = cap;
    return GB_OK;
}

gb_status_t ps_grants_add(ps_grants_t *grants, uint64_t lease, const uint8_t key[GB_KEY_SIZE],
                          uint64_t expires_ms)
{
    gb_status_t st = GB_OK;
    pthread_mutex_lock(&grants->lock);
    grant_t *grant = find(grants, lease);
    if (!grant) {
        st = make_room(grants);
        if (st == GB_OK)
            grant = &grants->list[grants->count++];
    }
    if (st == GB_OK) {
        grant->lease = lease;
        grant->expires_ms = expires_ms;
        memcpy(grant->key.bytes, key, GB_KEY_SIZE);
    }
    pthread_mutex_unlock(&grants->lock);
    return st;
}

gb_status_t ps_grants_remove(ps_grants_t *grants, uint64_t lease)
{
    pthread_mutex_lock(&grants->lock);
    grant_t *grant = find(grants, lease);
    if (grant)
        remove_entry(grants, grant);
    pthread_mutex_unlock(&grants->lock);
    return grant ? GB_OK
                 : gb_fail(GB_ERR_NOT_FOUND, "lease %016llx is not known here",
                           (unsigned long long)lease);
}

gb_status_t ps_grants_lookup(void *arg, uint64_t lease, gb_key_t *key)
{
    ps_grants_t *grants = arg;
    if (lease == 0 && grants->insecure) {
        memset(key, 0, sizeof(*key));
        return GB_OK;
    }
    gb_status_t st = GB_ERR_NOT_FOUND;
    pthread_mutex_lock(&grants->lock);
    const grant_t *grant = find(grants, lease);
    int expired = grant && grant->expires_ms && grant->expires_ms <= gb_wall_ms();
    if (grant && !expired) {
        *key = grant->key;
        st = GB_OK;
    }
    pthread_mutex_unlock(&grants->lock);
    if (st != GB_OK)
        gb_fail(st, "lease %016llx %s", (unsigned long long)lease,
                expired ? "has expired" : "is not known here");
    return st;
}

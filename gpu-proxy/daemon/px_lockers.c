#include "gpu-proxy/daemon/px_lockers.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu-proxy/daemon/px_grants.h"

typedef struct {
    px_token_t token;
    uint8_t data[PX_LOCKER_DATA];
    int fd; /* -1: none */
    px_keeper_t session;
    uint64_t memory; /* number of px_kept.h; 0: it is none */
    char tenant[PX_HOLDER];
} item_t;

struct px_lockers {
    item_t *items;
    size_t count, room;
    px_kept_t *kept;
};

gb_status_t px_lockers_create(px_lockers_t **out)
{
    px_lockers_t *l = calloc(1, sizeof *l);
    if (l)
        l->kept = px_kept_create();
    if (!l || !l->kept) {
        free(l);
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    *out = l;
    return GB_OK;
}

static void remove_at(px_lockers_t *l, size_t i)
{
    if (l->items[i].fd >= 0)
        close(l->items[i].fd);
    px_kept_take(l->kept, l->items[i].memory);
    l->items[i] = l->items[--l->count];
}

void px_lockers_destroy(px_lockers_t *l)
{
    if (!l)
        return;
    while (l->count)
        remove_at(l, l->count - 1);
    free(l->items);
    px_kept_destroy(l->kept);
    free(l);
}

static bool is_of(const item_t *item, const px_lodger_t *who)
{
    return item->session.session == who->session.session &&
           item->session.lease == who->session.lease;
}

static bool may_see(const item_t *item, const px_lodger_t *who)
{
    if (*item->tenant || *who->tenant)
        return strcmp(item->tenant, who->tenant) == 0;
    return item->session.lease == who->session.lease;
}

/* NULL: nothing is left under the token that `who` may see. */
static item_t *find(px_lockers_t *l, const px_token_t *token, const px_lodger_t *who)
{
    for (size_t i = 0; i < l->count; i++)
        if (memcmp(&l->items[i].token, token, sizeof *token) == 0 && may_see(&l->items[i], who))
            return &l->items[i];
    return NULL;
}

/* Takes over the descriptor if it returns GB_OK. */
static gb_status_t put(px_lockers_t *l, const px_locker_request_t *r, int fd,
                       const px_lodger_t *who)
{
    size_t own = 0;
    for (size_t i = 0; i < l->count; i++) {
        own += is_of(&l->items[i], who);
        if (memcmp(&l->items[i].token, &r->token, sizeof r->token) == 0)
            return GB_ERR_EXISTS;
    }
    if (own >= PX_LOCKER_ITEMS)
        return GB_ERR_LIMIT;
    if (l->count == l->room) {
        size_t room = l->room ? 2 * l->room : 16;
        item_t *wider = realloc(l->items, room * sizeof *wider);
        if (!wider)
            return GB_ERR_NO_MEMORY;
        l->items = wider;
        l->room = room;
    }
    uint64_t memory = 0;
    if (r->memory.size && !(memory = px_kept_leave(l->kept, &who->session, &r->memory)))
        return GB_ERR_NO_MEMORY;
    item_t *item = &l->items[l->count++];
    *item = (item_t){.token = r->token, .fd = fd, .session = who->session, .memory = memory};
    memcpy(item->data, r->data, sizeof item->data);
    strncpy(item->tenant, who->tenant, sizeof item->tenant - 1);
    return GB_OK;
}

static gb_status_t get(px_lockers_t *l, const item_t *item, const px_lodger_t *who)
{
    if (!item)
        return GB_ERR_NOT_FOUND;
    if (item->memory && !px_kept_find(l->kept, item->memory, &who->session))
        return GB_ERR_NO_MEMORY;
    return GB_OK;
}

static gb_status_t drop(px_lockers_t *l, const item_t *item, const px_lodger_t *who)
{
    if (!item || !is_of(item, who))
        return GB_ERR_NOT_FOUND;
    remove_at(l, (size_t)(item - l->items));
    return GB_OK;
}

static void answer(px_lockers_t *l, int socket, const px_locker_request_t *r, int fd,
                   const px_lodger_t *who)
{
    const item_t *item = r->op == PX_LOCKER_PUT ? NULL : find(l, &r->token, who);
    px_locker_reply_t reply = {0};
    gb_status_t st = GB_ERR_INVALID;
    int found = -1;
    switch (r->op) {
    case PX_LOCKER_PUT:
        st = put(l, r, fd, who);
        if (st == GB_OK) {
            fd = -1;
            reply.number = l->items[l->count - 1].memory;
        }
        break;
    case PX_LOCKER_GET:
        st = get(l, item, who);
        if (st == GB_OK) {
            reply.number = item->memory;
            memcpy(reply.data, item->data, sizeof reply.data);
            found = item->fd;
        }
        break;
    case PX_LOCKER_DROP:
        st = drop(l, item, who);
        break;
    case PX_LOCKER_RELEASE:
        st = px_kept_release(l->kept, r->memory.number, &who->session) ? GB_OK : GB_ERR_NOT_FOUND;
        break;
    }
    reply.status = (uint32_t)st;
    px_locker_answer(socket, &reply, found);
    if (fd >= 0)
        close(fd);
}

gb_status_t px_lockers_serve(px_lockers_t *l, int socket, const px_lodger_t *who)
{
    px_locker_request_t request;
    int fd;
    gb_status_t st;
    while ((st = px_locker_receive(socket, &request, &fd)) == GB_OK)
        answer(l, socket, &request, fd, who);
    return st == GB_ERR_AGAIN ? GB_OK : st;
}

void px_lockers_leave(px_lockers_t *l, const px_lodger_t *who)
{
    for (size_t i = l->count; i-- > 0;)
        if (is_of(&l->items[i], who))
            remove_at(l, i);
    px_kept_end(l->kept, &who->session);
}

const px_kept_t *px_lockers_kept(const px_lockers_t *l)
{
    return l->kept;
}

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
    uint64_t session, lease;
    char tenant[PX_HOLDER];
} item_t;

struct px_lockers {
    item_t *items;
    size_t count, room;
};

gb_status_t px_lockers_create(px_lockers_t **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? GB_OK : gb_fail(GB_ERR_NO_MEMORY, "out of memory");
}

static void remove_at(px_lockers_t *l, size_t i)
{
    if (l->items[i].fd >= 0)
        close(l->items[i].fd);
    l->items[i] = l->items[--l->count];
}

void px_lockers_destroy(px_lockers_t *l)
{
    if (!l)
        return;
    while (l->count)
        remove_at(l, l->count - 1);
    free(l->items);
    free(l);
}

static bool is_of(const item_t *item, const px_lodger_t *who)
{
    return item->session == who->session && item->lease == who->lease;
}

static bool may_see(const item_t *item, const px_lodger_t *who)
{
    if (*item->tenant || *who->tenant)
        return strcmp(item->tenant, who->tenant) == 0;
    return item->lease == who->lease;
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
    item_t *item = &l->items[l->count++];
    *item = (item_t){.token = r->token, .fd = fd, .session = who->session, .lease = who->lease};
    memcpy(item->data, r->data, sizeof item->data);
    strncpy(item->tenant, who->tenant, sizeof item->tenant - 1);
    return GB_OK;
}

static void answer(px_lockers_t *l, int socket, const px_locker_request_t *r, int fd,
                   const px_lodger_t *who)
{
    item_t *item = r->op == PX_LOCKER_PUT ? NULL : find(l, &r->token, who);
    gb_status_t st = item ? GB_OK : GB_ERR_NOT_FOUND;
    switch (r->op) {
    case PX_LOCKER_PUT:
        st = put(l, r, fd, who);
        if (st == GB_OK)
            fd = -1;
        px_locker_answer(socket, st, NULL, -1);
        break;
    case PX_LOCKER_GET:
        px_locker_answer(socket, st, item ? item->data : NULL, item ? item->fd : -1);
        break;
    case PX_LOCKER_DROP:
        if (item && !is_of(item, who))
            st = GB_ERR_NOT_FOUND;
        else if (item)
            remove_at(l, (size_t)(item - l->items));
        px_locker_answer(socket, st, NULL, -1);
        break;
    default:
        px_locker_answer(socket, GB_ERR_INVALID, NULL, -1);
    }
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
}

#include "gpu-proxy/daemon/px_kept.h"

#include <stdlib.h>

#include "gpu-proxy/daemon/px_grants.h"

typedef struct {
    px_keeper_t who;
    size_t times;
} holder_t;

typedef struct {
    uint64_t number, size;
    uint32_t ordinal;
    px_keeper_t maker;
    size_t tokens; /* that it is left under */
    holder_t *holders;
    size_t count, room;
} memory_t;

struct px_kept {
    memory_t *list;
    size_t count, room;
    uint64_t last; /* number that was given */
};

px_kept_t *px_kept_create(void)
{
    return calloc(1, sizeof(px_kept_t));
}

void px_kept_destroy(px_kept_t *kept)
{
    if (!kept)
        return;
    for (size_t i = 0; i < kept->count; i++)
        free(kept->list[i].holders);
    free(kept->list);
    free(kept);
}

static int same(const px_keeper_t *a, const px_keeper_t *b)
{
    return a->session == b->session && a->lease == b->lease;
}

/* Room for one more of `size` bytes each; 0: out of memory. */
static int grow(void **list, size_t *room, size_t count, size_t size)
{
    if (count < *room)
        return 1;
    size_t wider = *room ? 2 * *room : 4;
    void *grown = realloc(*list, wider * size);
    if (!grown)
        return 0;
    *list = grown;
    *room = wider;
    return 1;
}

static memory_t *memory_of(px_kept_t *kept, uint64_t number)
{
    for (size_t i = 0; number && i < kept->count; i++)
        if (kept->list[i].number == number)
            return &kept->list[i];
    return NULL;
}

static void forget_unused(px_kept_t *kept, memory_t *m)
{
    if (m->tokens || m->count)
        return;
    free(m->holders);
    *m = kept->list[--kept->count];
}

uint64_t px_kept_leave(px_kept_t *kept, const px_keeper_t *maker, const px_locker_memory_t *memory)
{
    memory_t *m = memory_of(kept, memory->number);
    if (m && same(&m->maker, maker)) {
        m->tokens++;
        return m->number;
    }
    if (memory->ordinal >= PX_DEVICES ||
        !grow((void **)&kept->list, &kept->room, kept->count, sizeof *kept->list))
        return 0;
    kept->list[kept->count++] = (memory_t){.number = ++kept->last,
                                           .size = memory->size,
                                           .ordinal = memory->ordinal,
                                           .maker = *maker,
                                           .tokens = 1};
    return kept->last;
}

void px_kept_take(px_kept_t *kept, uint64_t number)
{
    memory_t *m = memory_of(kept, number);
    if (!m)
        return;
    m->tokens--;
    forget_unused(kept, m);
}

static holder_t *holder_of(const memory_t *m, const px_keeper_t *who)
{
    for (size_t i = 0; i < m->count; i++)
        if (same(&m->holders[i].who, who))
            return &m->holders[i];
    return NULL;
}

int px_kept_find(px_kept_t *kept, uint64_t number, const px_keeper_t *who)
{
    memory_t *m = memory_of(kept, number);
    holder_t *holder = m ? holder_of(m, who) : NULL;
    if (holder) {
        holder->times++;
        return 1;
    }
    if (!m || !grow((void **)&m->holders, &m->room, m->count, sizeof *m->holders))
        return 0;
    m->holders[m->count++] = (holder_t){*who, 1};
    return 1;
}

int px_kept_release(px_kept_t *kept, uint64_t number, const px_keeper_t *who)
{
    memory_t *m = memory_of(kept, number);
    holder_t *holder = m ? holder_of(m, who) : NULL;
    if (!holder)
        return 0;
    if (--holder->times == 0)
        *holder = m->holders[--m->count];
    forget_unused(kept, m);
    return 1;
}

void px_kept_end(px_kept_t *kept, const px_keeper_t *who)
{
    for (size_t i = kept->count; i-- > 0;) {
        memory_t *m = &kept->list[i];
        holder_t *holder = holder_of(m, who);
        if (holder)
            *holder = m->holders[--m->count];
        forget_unused(kept, m);
    }
}

void px_kept_count(const px_kept_t *kept,
                   void (*fn)(void *arg, const px_keeper_t *who, uint32_t ordinal, uint64_t bytes),
                   void *arg)
{
    for (size_t i = 0; i < kept->count; i++)
        if (!kept->list[i].tokens)
            fn(arg, &kept->list[i].holders[0].who, kept->list[i].ordinal, kept->list[i].size);
}

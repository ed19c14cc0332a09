#include "server/params/ps_members.h"

#include <stdlib.h>
#include <string.h>

const ps_segment_t *ps_members_at(const ps_members_t *members, uint64_t clock)
{
    for (uint32_t i = members->count; i > 0; i--) {
        if (members->segments[i - 1].clock_begin <= clock)
            return &members->segments[i - 1];
    }
    return NULL;
}

int ps_segment_has(const ps_segment_t *segment, uint32_t worker)
{
    for (uint32_t i = 0; segment && i < segment->count; i++) {
        if (segment->workers[i] == worker)
            return 1;
    }
    return 0;
}

static int by_id(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static void drop_front(ps_members_t *members)
{
    free(members->segments[0].workers);
    members->count--;
    memmove(members->segments, members->segments + 1, members->count * sizeof(*members->segments));
}

static gb_status_t sorted_copy(const uint32_t *workers, uint32_t count, uint32_t **out)
{
    uint32_t *copy = malloc((count + 1) * sizeof(*copy));
    if (!copy)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    if (count > 0)
        memcpy(copy, workers, count * sizeof(*copy));
    qsort(copy, count, sizeof(*copy), by_id);
    for (uint32_t i = 1; i < count; i++) {
        if (copy[i] == copy[i - 1]) {
            free(copy);
            return gb_fail(GB_ERR_INVALID, "worker %u is named twice", workers[i]);
        }
    }
    *out = copy;
    return GB_OK;
}

gb_status_t ps_members_set(ps_members_t *members, uint64_t clock_begin, const uint32_t *workers,
                           uint32_t count, uint64_t oldest)
{
    uint32_t *copy = NULL;
    gb_status_t st = sorted_copy(workers, count, &copy);
    if (st != GB_OK)
        return st;
    while (members->count > 0 && members->segments[members->count - 1].clock_begin >= clock_begin)
        free(members->segments[--members->count].workers);
    while (members->count > 1 && members->segments[1].clock_begin <= oldest)
        drop_front(members);
    if (members->count == members->cap) {
        uint32_t cap = members->cap ? members->cap * 2 : 4;
        ps_segment_t *grown = realloc(members->segments, cap * sizeof(*grown));
        if (!grown) {
            free(copy);
            return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
        }
        members->segments = grown;
        members->cap = cap;
    }
    members->segments[members->count++] = (ps_segment_t){clock_begin, copy, count};
    return GB_OK;
}

void ps_members_leave(ps_members_t *members, uint32_t worker)
{
    for (uint32_t i = 0; i < members->count; i++) {
        ps_segment_t *segment = &members->segments[i];
        uint32_t kept = 0;
        for (uint32_t k = 0; k < segment->count; k++) {
            if (segment->workers[k] != worker)
                segment->workers[kept++] = segment->workers[k];
        }
        segment->count = kept;
    }
}

void ps_members_clear(ps_members_t *members)
{
    for (uint32_t i = 0; i < members->count; i++)
        free(members->segments[i].workers);
    free(members->segments);
    memset(members, 0, sizeof(*members));
}

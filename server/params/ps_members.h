/* ps_members.h - who makes up a sum at which clock.
 *
 * A list of segments: from clock_begin on, until the next segment begins, exactly these workers. Each
 * owner thread has its own copy; no locks. */
#ifndef PS_MEMBERS_H
#define PS_MEMBERS_H

#include <stdint.h>

#include "common/core/gb_status.h"

typedef struct {
    uint64_t clock_begin;
    uint32_t *workers; /* ascending */
    uint32_t count;
} ps_segment_t;

typedef struct {
    ps_segment_t *segments; /* ascending clock_begin */
    uint32_t count, cap;
} ps_members_t;

/* The segment that a clock falls into, or NULL: nobody is a member then. */
const ps_segment_t *ps_members_at(const ps_members_t *members, uint64_t clock);

/* 1 if the worker belongs to the segment (NULL: nobody does). */
int ps_segment_has(const ps_segment_t *segment, uint32_t worker);

/* From clock_begin on, these workers; segments that end at or before `oldest` are forgotten.
 * GB_ERR_INVALID: a worker twice. */
gb_status_t ps_members_set(ps_members_t *members, uint64_t clock_begin, const uint32_t *workers,
                           uint32_t count, uint64_t oldest);

/* Takes a worker out of every segment. */
void ps_members_leave(ps_members_t *members, uint32_t worker);

void ps_members_clear(ps_members_t *members);

#endif

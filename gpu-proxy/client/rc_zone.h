/* rc_zone.h - what shared memory is made of, for its two files: rc_shared.c, which makes and ends it, and
 * rc_travel.c, which carries its pages. Everything here is under the zone's lock, but for what is atomic. */
#ifndef RC_ZONE_H
#define RC_ZONE_H

#include <string.h>

#include "gpu-proxy/client/rc_shared.h"

enum { RC_PAGE = 4096 };

typedef enum { RC_PAGE_DEVICE, RC_PAGE_BOTH, RC_PAGE_PROGRAM } rc_page_state_t;

/* A part of the zone that the session maps as a whole. */
typedef struct rc_segment {
    struct rc_segment *next;
    uint64_t base, size;
    rc_session_t *session;
    rc_object_t *context;
    int mapped;     /* at the session */
    int shared;     /* by small blocks */
    uint8_t *alias; /* of memory outside the zone */
    gb_ranges_t holes;
} rc_segment_t;

typedef struct {
    gb_range_t range; /* whole pages */
    rc_segment_t *segment;
    uint8_t *alias;         /* of its first byte */
    uint64_t device_offset; /* what of it is the device's memory: nothing else travels */
    uint64_t device_size;
    int open;
    int lost;        /* the session is: plain memory from now on */
    uint64_t here;   /* pages that are not the device's */
    uint8_t state[]; /* of each page */
} rc_paged_t;

typedef struct {
    pthread_mutex_t lock;
    uint64_t base, size; /* of the zone; 0 = not made yet */
    uint8_t *alias;
    gb_ranges_t space; /* without a segment */
    gb_ranges_t blocks;
    rc_segment_t *segments;
    atomic_ulong here;    /* pages of open blocks that are not the device's */
    atomic_ulong closed;  /* blocks that are not open */
    atomic_ulong outside; /* blocks outside the zone */
    atomic_int used;      /* there is or was any block */
} rc_zone_t;

extern rc_zone_t rc_zone;

/* Pages [first, end) of the block get a state. */
void rc_zone_set_state(rc_paged_t *block, uint64_t first, uint64_t end, rc_page_state_t state);

/* May a block have the address? */
static inline int rc_zone_may_have(uint64_t address)
{
    return address - rc_zone.base < rc_zone.size || atomic_load(&rc_zone.outside) != 0;
}

static inline uint64_t rc_zone_pages(const rc_paged_t *b)
{
    return b->range.size / RC_PAGE;
}

static inline rc_paged_t *rc_zone_at(uint64_t address)
{
    return (rc_paged_t *)gb_ranges_find(&rc_zone.blocks, address);
}

static inline uint64_t rc_zone_word(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return word;
}

/* The next word in [at, end) that is an address of the zone; NULL: there is none. */
static inline const uint8_t *rc_zone_next(const uint8_t *at, const uint8_t *end)
{
    uint64_t base = rc_zone.base, size = rc_zone.size;
    for (; end - at >= 8; at += 8)
        if (rc_zone_word(at) - base < size)
            return at;
    return NULL;
}

#endif

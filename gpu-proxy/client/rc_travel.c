/* Pages of shared memory on their way: to a session before the device works, and here when the program touches
 * them. */
#include "gpu-proxy/client/rc_zone.h"

#include "common/core/gb_log.h"
#include "gpu-proxy/client/rc_fault.h"
#include "gpu-proxy/client/rc_mirror.h"

enum { FETCH = 64 }; /* pages that one touch brings */

/* ---- with the lock held ---- */

static void lose(rc_paged_t *b)
{
    if (!b->lost)
        gb_log(GB_LOG_WARN, "managed memory at %#llx is not kept up to date any more",
               (unsigned long long)b->range.start);
    b->lost = 1;
    rc_zone_set_state(b, 0, rc_zone_pages(b), RC_PAGE_PROGRAM);
}

/* What of the pages [first, end) is memory of the device, and the same through the alias. */
static uint8_t *part_of(const rc_paged_t *b, uint64_t first, uint64_t end, uint64_t *at,
                        uint64_t *size)
{
    uint64_t from = first * RC_PAGE, to = end * RC_PAGE, last = b->device_offset + b->device_size;
    from = from > b->device_offset ? from : b->device_offset;
    to = to < last ? to : last;
    *at = b->range.start + from;
    *size = to > from ? to - from : 0;
    return b->alias + from;
}

/* Sends pages that the program has written. They are the device's already: nobody writes them. */
static CUresult send_pages(rc_paged_t *b, rc_lane_t *lane, uint64_t first, uint64_t end)
{
    uint64_t at, left;
    const uint8_t *bytes = part_of(b, first, end, &at, &left);
    CUresult result = CUDA_SUCCESS;
    while (left > 0 && !result) {
        px_wire_copy_t copy = {.dst = at, .size = left < PX_WIRE_PIECE ? left : PX_WIRE_PIECE};
        result = rc_send_bulk(b->segment->session, lane, b->segment->context, PX_OP_SHARED_UP,
                              &copy, sizeof(copy), bytes, copy.size);
        at += copy.size;
        bytes += copy.size;
        left -= copy.size;
    }
    return result;
}

static uint64_t run_end(const rc_paged_t *b, uint64_t first)
{
    uint64_t end = first + 1;
    while (end < rc_zone_pages(b) && b->state[end] == b->state[first])
        end++;
    return end;
}

static void give_to_device(rc_paged_t *b, rc_lane_t *lane)
{
    CUresult result = CUDA_SUCCESS;
    for (uint64_t i = 0, end; i < rc_zone_pages(b) && b->here && !result; i = end) {
        end = run_end(b, i);
        rc_page_state_t state = (rc_page_state_t)b->state[i];
        if (state == RC_PAGE_DEVICE)
            continue;
        rc_zone_set_state(b, i, end, RC_PAGE_DEVICE);
        if (state == RC_PAGE_PROGRAM)
            result = send_pages(b, lane, i, end);
    }
    if (result)
        lose(b);
}

static void give_all(rc_session_t *session, rc_lane_t *lane)
{
    pthread_mutex_lock(&rc_zone.lock);
    for (gb_range_t *node = gb_ranges_above(&rc_zone.blocks, 0); node;
         node = gb_ranges_above(&rc_zone.blocks, node->start)) {
        rc_paged_t *b = (rc_paged_t *)node;
        if (b->open && b->here && !b->lost && b->segment->session == session)
            give_to_device(b, lane);
    }
    pthread_mutex_unlock(&rc_zone.lock);
}

/* ---- addresses that the program has written into shared pages ---- */

enum { FOUND = 32 }; /* blocks that are opened at a time */

typedef struct {
    uint64_t at[FOUND];
    unsigned count;
} found_t;

static void note_closed(found_t *found, const rc_session_t *session, uint64_t address)
{
    const rc_paged_t *b = rc_zone_at(address);
    if (!b || b->open || b->segment->session != session || found->count == FOUND)
        return;
    for (unsigned i = 0; i < found->count; i++)
        if (found->at[i] == b->range.start)
            return;
    found->at[found->count++] = b->range.start;
}

/* With the lock held: closed blocks that the program's pages of the block name. */
static void look_through(const rc_paged_t *b, found_t *found)
{
    for (uint64_t i = 0, next; i < rc_zone_pages(b) && found->count < FOUND; i = next) {
        next = run_end(b, i);
        if (b->state[i] != RC_PAGE_PROGRAM)
            continue;
        uint64_t address, size;
        const uint8_t *at = part_of(b, i, next, &address, &size), *end = at + size;
        while ((at = rc_zone_next(at, end)) != NULL) {
            note_closed(found, b->segment->session, rc_zone_word(at));
            at += 8;
        }
    }
}

/* Page-locked memory that kernels can find from pages that are about to travel is opened, and what can be found
 * from there. A failure leaves it closed, which the kernel's fault tells. */
static void open_named(rc_session_t *session)
{
    for (found_t found = {.count = 1}; found.count && atomic_load(&rc_zone.closed);) {
        found.count = 0;
        pthread_mutex_lock(&rc_zone.lock);
        for (gb_range_t *node = gb_ranges_above(&rc_zone.blocks, 0); node;
             node = gb_ranges_above(&rc_zone.blocks, node->start)) {
            rc_paged_t *b = (rc_paged_t *)node;
            if (b->open && b->here && !b->lost && b->segment->session == session)
                look_through(b, &found);
        }
        pthread_mutex_unlock(&rc_zone.lock);
        for (unsigned i = 0; i < found.count; i++)
            if (rc_shared_open(found.at[i]))
                return;
    }
}

static CUresult fetch(rc_paged_t *b, uint64_t first)
{
    rc_lane_t *lane = rc_lane();
    uint64_t end = run_end(b, first);
    if (end > first + FETCH)
        end = first + FETCH;
    px_wire_copy_t copy = {0};
    uint8_t *bytes = part_of(b, first, end, (uint64_t *)&copy.src, (uint64_t *)&copy.size);
    rc_waiter_t waiter = {.dst = bytes, .dst_size = copy.size};
    if (!lane)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = rc_send_and_wait(b->segment->session, lane, b->segment->context,
                                       PX_OP_SHARED_DOWN, &copy, sizeof(copy), NULL, 0, &waiter);
    rc_waiter_done(&waiter);
    if (!result)
        rc_zone_set_state(b, first, end, RC_PAGE_BOTH);
    return result;
}

int rc_shared_touched(uint64_t address, int write)
{
    if (!rc_zone_may_have(address))
        return 0;
    pthread_mutex_lock(&rc_zone.lock);
    rc_paged_t *b = rc_zone_at(address);
    if (b) {
        uint64_t page = (address - b->range.start) / RC_PAGE;
        int was_here = b->state[page] != RC_PAGE_DEVICE;
        if (!was_here && fetch(b, page))
            lose(b);
        if (b->state[page] == RC_PAGE_BOTH && (write > 0 || (write < 0 && was_here)))
            rc_zone_set_state(b, page, page + 1, RC_PAGE_PROGRAM);
    }
    pthread_mutex_unlock(&rc_zone.lock);
    return b != NULL;
}

/* ---- when ---- */

typedef enum { OP_OTHER, OP_WORK, OP_WAIT } op_kind_t;

static op_kind_t kind_of(uint16_t op)
{
    switch (op) {
    case GB_OP_cuLaunchKernel:
    case GB_OP_cuGraphLaunch:
    case GB_OP_cuMemcpyHtoDAsync_v2:
    case GB_OP_cuMemcpyDtoDAsync_v2:
    case GB_OP_cuMemcpyDtoHAsync_v2:
    case GB_OP_cuMemcpy3DAsync_v2:
    case GB_OP_cuMemsetD8Async:
    case GB_OP_cuMemsetD16Async:
    case GB_OP_cuMemsetD32Async:
    case GB_OP_cuMemsetD2D8Async:
    case GB_OP_cuMemsetD2D16Async:
    case GB_OP_cuMemsetD2D32Async:
    case GB_OP_cuStreamWaitValue32_v2:
    case GB_OP_cuStreamWriteValue32_v2:
    case GB_OP_cuStreamWaitValue64_v2:
    case GB_OP_cuStreamWriteValue64_v2:
    case GB_OP_cuLaunchHostFunc:
    case GB_OP_cuStreamAddCallback:
    case PX_OP_HOST_DONE:
    case PX_OP_BOX_UP:
    case PX_OP_BOX_DOWN:
    case PX_OP_DOWN:
    case PX_OP_DOWN_BOX:
    case PX_OP_EXCHANGE_CALL:
    case PX_OP_EXCHANGE_POST:
    case PX_OP_PEER_SEND:
    case PX_OP_PEER_RECV:
        return OP_WORK;
    case GB_OP_cuCtxSynchronize:
    case GB_OP_cuStreamSynchronize:
    case GB_OP_cuStreamQuery:
    case GB_OP_cuEventSynchronize:
    case GB_OP_cuEventQuery:
        return OP_WAIT;
    default:
        return OP_OTHER;
    }
}

void rc_shared_before(rc_session_t *session, rc_lane_t *lane, uint16_t op)
{
    if (!atomic_load_explicit(&rc_zone.used, memory_order_relaxed))
        return;
    op_kind_t kind = kind_of(op);
    if (kind == OP_WORK)
        atomic_fetch_add(&session->work, 1);
    /* What the program has written must reach a device that waits for it. */
    if (atomic_load(&rc_zone.here) && kind != OP_OTHER &&
        atomic_load(&session->work) != atomic_load(&session->work_done)) {
        open_named(session);
        give_all(session, lane);
    }
    if (kind != OP_OTHER && atomic_load(&session->work) != atomic_load(&session->work_done))
        rc_mirror_send(session, lane);
}

void rc_shared_after(rc_session_t *session, uint16_t op, CUresult result)
{
    if (!atomic_load_explicit(&rc_zone.used, memory_order_relaxed) || kind_of(op) != OP_WAIT ||
        result)
        return;
    uint64_t work = atomic_load(&session->work);
    if (work == atomic_load(&session->work_done))
        return;
    /* What was touched meanwhile may be older than what the device has written since. */
    if (atomic_load(&rc_zone.here))
        give_all(session, rc_lane());
    rc_mirror_fetch(session, rc_lane());
    if (op == GB_OP_cuCtxSynchronize)
        atomic_store(&session->work_done, work);
}

/* The memory is the session's own, page-locked where the driver can: what a driver allocates belongs to
 * the context that happens to be current, and is gone with it. A lock ends with its context too; what is
 * used after that is locked again (copies through memory that is not are right, but slower). */
#include "gpu-proxy/session/px_staging.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "proto/px_wire.h"

enum {
    RING = 8 << 20,
    FLIGHTS = 256,
    CLOSE_AT = 256 << 10, /* bytes behind one event */
    LANE_BUFFERS = 16,    /* kept for the next copy to the host */
    PAGE = 4096,
};

/* Copies of one stream that end with one event; [.., end) of the ring is theirs. */
typedef struct {
    CUevent event;
    const void *context;
    uint64_t end;
} flight_t;

/* In front of a lane's buffer, on a page of its own. */
typedef struct lane_buffer {
    unsigned epoch; /* when it was locked */
    uint64_t until; /* the stream may send it again until that is confirmed */
    struct lane_buffer *next;
} lane_buffer_t;

struct px_staging {
    const gb_cuda_table_t *cuda;
    const gb_durable_t *stream;
    uint8_t *ring;
    unsigned ring_epoch;
    atomic_uint epoch;   /* counts contexts that have gone; 0 = none yet */
    uint64_t head, tail; /* bytes ever taken, bytes ever freed; position = value % RING */
    flight_t flights[FLIGHTS];
    unsigned first, count; /* flights under way, oldest at first */
    /* copies not yet behind an event */
    const void *open_context;
    CUstream open_stream;
    uint64_t open_bytes;
    int open;
    pthread_mutex_t lock;   /* of the buffers */
    lane_buffer_t *buffers; /* the one returned last first: it is in the processor's cache */
    int buffer_count;
};

px_staging_t *px_staging_create(const gb_cuda_table_t *cuda, const gb_durable_t *stream)
{
    px_staging_t *staging = calloc(1, sizeof(*staging));
    if (staging) {
        staging->cuda = cuda;
        staging->stream = stream;
        pthread_mutex_init(&staging->lock, NULL);
    }
    return staging;
}

/* Refused is fine: locked already, by a context that lives, or not possible here. */
static void lock_pages(px_staging_t *staging, uint8_t *memory, size_t size)
{
    (void)staging->cuda->cuMemHostRegister_v2(memory, size, CU_MEMHOSTREGISTER_PORTABLE);
}

/* `locked` is where the locked part of the block begins. */
static void drop(px_staging_t *staging, uint8_t *block, uint8_t *locked)
{
    (void)staging->cuda->cuMemHostUnregister(locked); /* refused where the lock has ended */
    free(block);
}

static CUresult need_ring(px_staging_t *staging)
{
    unsigned epoch = atomic_load(&staging->epoch);
    if (staging->ring && staging->ring_epoch == epoch)
        return CUDA_SUCCESS;
    if (!staging->ring) {
        void *memory;
        if (posix_memalign(&memory, PAGE, RING))
            return CUDA_ERROR_OUT_OF_MEMORY;
        staging->ring = memory;
    }
    lock_pages(staging, staging->ring, RING);
    staging->ring_epoch = epoch;
    return CUDA_SUCCESS;
}

void px_staging_destroy(px_staging_t *staging)
{
    if (!staging)
        return;
    while (staging->buffers) {
        lane_buffer_t *first = staging->buffers;
        staging->buffers = first->next;
        drop(staging, (uint8_t *)first, (uint8_t *)first + PAGE);
    }
    if (staging->ring)
        drop(staging, staging->ring, staging->ring);
    pthread_mutex_destroy(&staging->lock);
    free(staging);
}

/* Gives the oldest flight's bytes back; waits for it if told to. After a fault of its context nothing
 * reads them any more; the fault itself is reported by the calls that meet it. */
static CUresult land(px_staging_t *staging, int wait)
{
    flight_t *flight = &staging->flights[staging->first];
    CUresult result = wait ? staging->cuda->cuEventSynchronize(flight->event)
                           : staging->cuda->cuEventQuery(flight->event);
    if (result == CUDA_ERROR_NOT_READY)
        return result;
    staging->cuda->cuEventDestroy_v2(flight->event);
    staging->tail = flight->end;
    staging->first = (staging->first + 1) % FLIGHTS;
    staging->count--;
    return CUDA_SUCCESS;
}

static CUresult close_open(px_staging_t *staging)
{
    if (!staging->open)
        return CUDA_SUCCESS;
    flight_t *flight = &staging->flights[(staging->first + staging->count) % FLIGHTS];
    CUresult result = staging->cuda->cuEventCreate(&flight->event, CU_EVENT_DISABLE_TIMING);
    if (result)
        return result;
    result = staging->cuda->cuEventRecord(flight->event, staging->open_stream);
    if (result) {
        staging->cuda->cuEventDestroy_v2(flight->event);
        return result;
    }
    flight->context = staging->open_context;
    flight->end = staging->head;
    staging->count++;
    staging->open = 0;
    staging->open_bytes = 0;
    while (staging->count > 0 && land(staging, 0) == CUDA_SUCCESS)
        ;
    /* With nothing under way the beginning is used again: it is still in the processor's cache. */
    if (staging->count == 0)
        staging->head = staging->tail = (staging->head + RING - 1) / RING * RING;
    return CUDA_SUCCESS;
}

/* Room for `size` bytes in one piece at the head. */
static CUresult make_room(px_staging_t *staging, uint64_t size)
{
    uint64_t at = staging->head % RING;
    uint64_t skip = at + size > RING ? RING - at : 0;
    while (staging->head + skip + size - staging->tail > RING || staging->count >= FLIGHTS - 1) {
        CUresult result = close_open(staging);
        if (!result && staging->count > 0)
            result = land(staging, 1);
        else if (!result)
            staging->tail = staging->head; /* nothing is under way */
        if (result)
            return result;
        at = staging->head % RING;
        skip = at + size > RING ? RING - at : 0;
    }
    staging->head += skip;
    return CUDA_SUCCESS;
}

CUresult px_staging_begin(px_staging_t *staging, const void *context, CUstream stream,
                          uint64_t size, uint8_t **out)
{
    CUresult result = need_ring(staging);
    if (!result && staging->open &&
        (staging->open_stream != stream || staging->open_context != context ||
         staging->open_bytes >= CLOSE_AT))
        result = close_open(staging);
    if (!result)
        result = make_room(staging, size + 63);
    if (!result)
        *out = staging->ring + staging->head % RING;
    return result;
}

/* The bytes at the head are on their way: they stay until an event of the stream says so. */
static void under_way(px_staging_t *staging, const void *context, CUstream stream, uint64_t size)
{
    uint64_t room = (size + 63) & ~63ull;
    staging->head += room;
    staging->open = 1;
    staging->open_stream = stream;
    staging->open_context = context;
    staging->open_bytes += room;
}

CUresult px_staging_commit(px_staging_t *staging, const void *context, CUstream stream,
                           CUdeviceptr dst, uint64_t size)
{
    uint8_t *at = staging->ring + staging->head % RING;
    CUresult result = staging->cuda->cuMemcpyHtoDAsync_v2(dst, at, size, stream);
    if (!result)
        under_way(staging, context, stream, size);
    return result;
}

CUresult px_staging_box(px_staging_t *staging, const void *context, CUstream stream,
                        CUDA_MEMCPY3D *copy, const void *bytes, uint64_t size)
{
    uint8_t *at;
    CUresult result = px_staging_begin(staging, context, stream, size, &at);
    if (result)
        return result;
    memcpy(at, bytes, size);
    copy->srcMemoryType = CU_MEMORYTYPE_HOST;
    copy->srcHost = at;
    copy->srcPitch = copy->WidthInBytes;
    copy->srcHeight = copy->Height;
    result = staging->cuda->cuMemcpy3DAsync_v2(copy, stream);
    if (!result)
        under_way(staging, context, stream, size);
    return result;
}

void px_staging_stream_gone(px_staging_t *staging, CUstream stream)
{
    if (staging->open && staging->open_stream == stream)
        close_open(staging);
}

void px_staging_leave(px_staging_t *staging, const void *context)
{
    if (staging->open && staging->open_context == context)
        close_open(staging);
    atomic_fetch_add(&staging->epoch, 1);
    /* Flights land in order, so those of other contexts before it are waited for too. */
    for (unsigned left = staging->count; left > 0; left--) {
        unsigned last = (staging->first + left - 1) % FLIGHTS;
        if (staging->flights[last].context != context)
            continue;
        while (left-- > 0)
            if (land(staging, 1))
                break;
        break;
    }
}

/* Takes one out that nobody needs any more; NULL if there is none. With the lock. */
static lane_buffer_t *take_confirmed(px_staging_t *staging)
{
    uint64_t confirmed = gb_durable_confirmed(staging->stream);
    lane_buffer_t **at = &staging->buffers;
    while (*at && (*at)->until > confirmed)
        at = &(*at)->next;
    lane_buffer_t *found = *at;
    if (found) {
        *at = found->next;
        staging->buffer_count--;
    }
    return found;
}

CUresult px_staging_borrow(px_staging_t *staging, uint8_t **out)
{
    unsigned epoch = atomic_load(&staging->epoch);
    pthread_mutex_lock(&staging->lock);
    lane_buffer_t *header = take_confirmed(staging);
    pthread_mutex_unlock(&staging->lock);
    if (!header) {
        void *block;
        if (posix_memalign(&block, PAGE, PAGE + 2 * PX_WIRE_PIECE))
            return CUDA_ERROR_OUT_OF_MEMORY;
        header = block;
        header->epoch = epoch - 1; /* not locked yet */
    }
    uint8_t *buffer = (uint8_t *)header + PAGE;
    if (header->epoch != epoch)
        lock_pages(staging, buffer, 2 * PX_WIRE_PIECE);
    header->epoch = epoch;
    *out = buffer;
    return CUDA_SUCCESS;
}

void px_staging_return(px_staging_t *staging, uint8_t *buffer, uint64_t until)
{
    lane_buffer_t *header = (lane_buffer_t *)(void *)(buffer - PAGE), *surplus = NULL;
    header->until = until;
    pthread_mutex_lock(&staging->lock);
    header->next = staging->buffers;
    staging->buffers = header;
    if (++staging->buffer_count > LANE_BUFFERS)
        surplus = take_confirmed(staging);
    pthread_mutex_unlock(&staging->lock);
    if (surplus)
        drop(staging, (uint8_t *)surplus, (uint8_t *)surplus + PAGE);
}

#include "gpu-proxy/session/px_gate.h"

#include <pthread.h>
#include <stdlib.h>

enum { WORDS = 1024, CHUNKS = 64, EVENTS = 64, WAITERS = 16 };

typedef struct {
    CUdeviceptr memory;
    CUevent zeroed;         /* NULL once that is known */
    uint32_t values[WORDS]; /* of the last gate */
} chunk_t;

struct px_gates {
    const gb_cuda_table_t *cuda;
    CUstream stream, hold;
    pthread_mutex_t lock;
    chunk_t *chunks[CHUNKS];
    uint32_t chunk_count;
    uint32_t *free; /* words that no gate has */
    uint32_t free_count;
    CUevent events[EVENTS];
    int event_count;
    CUstream waiters[WAITERS];
    int waiter_count;
};

static void drop_chunk(px_gates_t *g, chunk_t *chunk)
{
    if (chunk && chunk->zeroed)
        g->cuda->cuEventDestroy_v2(chunk->zeroed);
    if (chunk && chunk->memory)
        g->cuda->cuMemFree_v2(chunk->memory);
    free(chunk);
}

/* With the lock held. */
static CUresult add_words(px_gates_t *g)
{
    if (g->chunk_count == CHUNKS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    chunk_t *chunk = calloc(1, sizeof(*chunk));
    uint32_t *room = realloc(g->free, (g->chunk_count + 1) * WORDS * sizeof(*room));
    g->free = room ? room : g->free;
    CUresult result = chunk && room ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        result = g->cuda->cuMemAlloc_v2(&chunk->memory, WORDS * sizeof(uint32_t));
    if (!result)
        result = g->cuda->cuMemsetD32Async(chunk->memory, 0, WORDS, g->stream);
    if (!result)
        result = g->cuda->cuEventCreate(&chunk->zeroed, CU_EVENT_DISABLE_TIMING);
    if (!result)
        result = g->cuda->cuEventRecord(chunk->zeroed, g->stream);
    if (result) {
        drop_chunk(g, chunk);
        return result;
    }
    for (uint32_t i = WORDS; i > 0; i--)
        g->free[g->free_count++] = g->chunk_count * WORDS + i - 1;
    g->chunks[g->chunk_count++] = chunk;
    return CUDA_SUCCESS;
}

CUresult px_gates_create(const gb_cuda_table_t *cuda, px_gates_t **out)
{
    px_gates_t *g = calloc(1, sizeof(*g));
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    g->cuda = cuda;
    pthread_mutex_init(&g->lock, NULL);
    CUresult result = cuda->cuStreamCreate(&g->stream, CU_STREAM_NON_BLOCKING);
    if (!result)
        result = cuda->cuStreamCreate(&g->hold, CU_STREAM_NON_BLOCKING);
    if (!result)
        result = add_words(g);
    if (result)
        px_gates_destroy(g);
    else
        *out = g;
    return result;
}

void px_gates_forget(px_gates_t *g)
{
    if (!g)
        return;
    for (uint32_t i = 0; i < g->chunk_count; i++)
        free(g->chunks[i]);
    free(g->free);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

void px_gates_destroy(px_gates_t *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->event_count; i++)
        g->cuda->cuEventDestroy_v2(g->events[i]);
    for (int i = 0; i < g->waiter_count; i++)
        g->cuda->cuStreamDestroy_v2(g->waiters[i]);
    for (uint32_t i = 0; i < g->chunk_count; i++)
        drop_chunk(g, g->chunks[i]);
    g->chunk_count = 0;
    if (g->hold)
        g->cuda->cuStreamDestroy_v2(g->hold);
    if (g->stream)
        g->cuda->cuStreamDestroy_v2(g->stream);
    px_gates_forget(g);
}

static CUdeviceptr address_of(const px_gates_t *g, uint32_t word)
{
    return g->chunks[word / WORDS]->memory + word % WORDS * sizeof(uint32_t);
}

static void give_word(px_gates_t *g, uint32_t word)
{
    pthread_mutex_lock(&g->lock);
    g->free[g->free_count++] = word;
    pthread_mutex_unlock(&g->lock);
}

/* With the lock held: the stream must not look at what was in the memory before. */
static CUresult await_zeroes(px_gates_t *g, chunk_t *chunk, CUstream stream)
{
    if (!chunk->zeroed)
        return CUDA_SUCCESS;
    CUresult result = g->cuda->cuEventQuery(chunk->zeroed);
    if (result == CUDA_ERROR_NOT_READY)
        return g->cuda->cuStreamWaitEvent(stream, chunk->zeroed, 0);
    if (!result) {
        g->cuda->cuEventDestroy_v2(chunk->zeroed);
        chunk->zeroed = NULL;
    }
    return result;
}

CUresult px_gate_close(px_gates_t *g, CUstream stream, px_gate_t *out)
{
    px_gate_t gate = {.gates = g};
    pthread_mutex_lock(&g->lock);
    CUresult result = g->free_count ? CUDA_SUCCESS : add_words(g);
    CUdeviceptr address = 0;
    if (!result) {
        gate.word = g->free[--g->free_count];
        chunk_t *chunk = g->chunks[gate.word / WORDS];
        gate.value = ++chunk->values[gate.word % WORDS];
        address = address_of(g, gate.word);
        result = await_zeroes(g, chunk, stream);
    }
    pthread_mutex_unlock(&g->lock);
    if (result && address)
        give_word(g, gate.word);
    if (result)
        return result;
    result = g->cuda->cuStreamWaitValue32_v2(stream, address, gate.value, CU_STREAM_WAIT_VALUE_GEQ);
    if (result)
        give_word(g, gate.word);
    else
        *out = gate;
    return result;
}

void px_gate_open(px_gate_t *gate)
{
    px_gates_t *g = gate->gates;
    if (!g)
        return;
    pthread_mutex_lock(&g->lock);
    CUdeviceptr address = address_of(g, gate->word);
    pthread_mutex_unlock(&g->lock);
    (void)g->cuda->cuStreamWriteValue32_v2(g->stream, address, gate->value,
                                           CU_STREAM_WRITE_VALUE_DEFAULT);
    give_word(g, gate->word);
    gate->gates = NULL;
}

CUstream px_gates_stream(px_gates_t *g)
{
    return g->stream;
}

CUstream px_gates_hold(px_gates_t *g)
{
    return g->hold;
}

CUresult px_gates_event(px_gates_t *g, CUevent *out)
{
    pthread_mutex_lock(&g->lock);
    CUevent event = g->event_count > 0 ? g->events[--g->event_count] : NULL;
    pthread_mutex_unlock(&g->lock);
    if (!event) {
        CUresult result =
            g->cuda->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
        if (result)
            return result;
    }
    *out = event;
    return CUDA_SUCCESS;
}

void px_gates_event_done(px_gates_t *g, CUevent event)
{
    pthread_mutex_lock(&g->lock);
    int keep = g->event_count < EVENTS;
    if (keep)
        g->events[g->event_count++] = event;
    pthread_mutex_unlock(&g->lock);
    if (!keep)
        g->cuda->cuEventDestroy_v2(event);
}

CUresult px_gates_waiter(px_gates_t *g, CUstream *out)
{
    pthread_mutex_lock(&g->lock);
    CUstream stream = g->waiter_count > 0 ? g->waiters[--g->waiter_count] : NULL;
    pthread_mutex_unlock(&g->lock);
    if (!stream) {
        CUresult result = g->cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
        if (result)
            return result;
    }
    *out = stream;
    return CUDA_SUCCESS;
}

void px_gates_waiter_done(px_gates_t *g, CUstream stream)
{
    pthread_mutex_lock(&g->lock);
    int keep = g->waiter_count < WAITERS;
    if (keep)
        g->waiters[g->waiter_count++] = stream;
    pthread_mutex_unlock(&g->lock);
    if (!keep)
        g->cuda->cuStreamDestroy_v2(stream);
}

#include "gpu-proxy/cpu/driver/cpu_cells.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGN = 64,
    SMALLEST_SHIFT = 7, /* 128, 256, 512 bytes; larger pieces come from the C library */
    SIZES = 3,
    BATCH = 32,
    KEEPS = 2 * BATCH, /* pieces that a thread keeps, of each size */
    STORES = 64,       /* batches in the store, of each size */
};

/* Sanitizers shall see every piece begin and end. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const int keeps = 0;
#else
static const int keeps = 1;
#endif

typedef struct {
    void *cells[KEEPS];
    int count;
} kept_t;

typedef struct {
    kept_t sizes[SIZES];
} thread_cells_t;

static struct {
    pthread_mutex_t lock;
    void *cells[SIZES][STORES * BATCH];
    int counts[SIZES];
} store = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __thread thread_cells_t *own __attribute__((tls_model("initial-exec")));

/* SIZES if pieces of that size are not kept. */
static int size_of(size_t bytes)
{
    int size = 0;
    while (size < SIZES && bytes > (size_t)1 << (SMALLEST_SHIFT + size))
        size++;
    return size;
}

static kept_t *kept(int size)
{
    if (!keeps || size == SIZES)
        return NULL;
    if (!own)
        own = calloc(1, sizeof(*own));
    return own ? &own->sizes[size] : NULL;
}

static void *fresh(size_t bytes)
{
    return aligned_alloc(ALIGN, (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1));
}

/* A batch for the thread, which has none; the store may be empty. */
static void fetch(kept_t *k, int size)
{
    pthread_mutex_lock(&store.lock);
    if (store.counts[size]) {
        store.counts[size] -= BATCH;
        memcpy(k->cells, &store.cells[size][store.counts[size]], BATCH * sizeof(void *));
        k->count = BATCH;
    }
    pthread_mutex_unlock(&store.lock);
}

/* Takes the batch that was given last off the thread's cells. */
static void put_away(kept_t *k, int size)
{
    k->count -= BATCH;
    void **batch = &k->cells[k->count];
    pthread_mutex_lock(&store.lock);
    int fits = store.counts[size] < STORES * BATCH;
    if (fits) {
        memcpy(&store.cells[size][store.counts[size]], batch, BATCH * sizeof(void *));
        store.counts[size] += BATCH;
    }
    pthread_mutex_unlock(&store.lock);
    for (int i = 0; !fits && i < BATCH; i++)
        free(batch[i]);
}

/* The piece that comes next was used by another thread: it takes a while until it is here. The compiler
 * knows no prefetch for writing on every target; processors without it do nothing. */
static void call_for(const void *cell, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += ALIGN)
        __asm__ volatile("prefetchw %0" : : "m"(*((const char *)cell + at)));
}

void *cpu_cells_take(size_t bytes)
{
    int size = size_of(bytes);
    kept_t *k = kept(size);
    if (!k)
        return fresh(bytes);
    if (k->count == 0) {
        fetch(k, size);
        if (k->count)
            call_for(k->cells[k->count - 1], bytes);
    }
    if (k->count == 0)
        return fresh((size_t)1 << (SMALLEST_SHIFT + size));
    void *cell = k->cells[--k->count];
    if (k->count)
        call_for(k->cells[k->count - 1], bytes);
    return cell;
}

void cpu_cells_give(void *cell, size_t bytes)
{
    int size = size_of(bytes);
    kept_t *k = cell ? kept(size) : NULL;
    if (!k) {
        free(cell);
        return;
    }
    k->cells[k->count++] = cell;
    if (k->count == KEEPS)
        put_away(k, size);
}

void cpu_cells_flush(void)
{
    for (int size = 0; own && size < SIZES; size++) {
        kept_t *k = &own->sizes[size];
        while (k->count)
            free(k->cells[--k->count]);
    }
    free(own);
    own = NULL;
}

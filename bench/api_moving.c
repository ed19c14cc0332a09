#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench/api_rows.h"
#include "bench/bench_line.h"
#include "common/core/gb_clock.h"

enum { BYTES = 64 << 20 };

static const double share = 0.95; /* of what plain threads reach: measuring is not more exact */

/* ---- moving memory with plain threads ---- */

typedef struct {
    char *to;
    const char *from; /* NULL: fill */
    size_t bytes;
} part_t;

static void *move_part(void *argument)
{
    part_t *part = argument;
    if (part->from)
        memcpy(part->to, part->from, part->bytes);
    else
        memset(part->to, 0x11, part->bytes);
    return NULL;
}

static double rate(uint64_t start)
{
    return (double)BYTES / (double)(gb_now_ns() - start);
}

static double plain_threads(char *to, const char *from, int threads)
{
    pthread_t ids[API_MAX_THREADS];
    part_t parts[API_MAX_THREADS];
    size_t each = BYTES / (size_t)threads;
    uint64_t start = gb_now_ns();
    for (int i = 0; i < threads; i++) {
        size_t at = each * (size_t)i;
        parts[i] = (part_t){to + at, from ? from + at : NULL, each};
        if (i)
            pthread_create(&ids[i], NULL, move_part, &parts[i]);
    }
    move_part(&parts[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(ids[i], NULL);
    return rate(start);
}

/* ---- and with the device ---- */

static double copy_pinned(CUdeviceptr device, const void *host)
{
    uint64_t start = gb_now_ns();
    NEED(cuMemcpyHtoDAsync_v2(device, host, BYTES, api_stream));
    NEED(cuStreamSynchronize(api_stream));
    return rate(start);
}

static double copy_pageable(CUdeviceptr device, const void *host)
{
    uint64_t start = gb_now_ns();
    NEED(cuMemcpyHtoD_v2(device, host, BYTES));
    return rate(start);
}

static double fill(CUdeviceptr device)
{
    uint64_t start = gb_now_ns();
    NEED(cuMemsetD32_v2(device, 0x11111111, BYTES / 4));
    NEED(cuCtxSynchronize_v2(NULL));
    return rate(start);
}

enum { PINNED, PAGEABLE, FILL, COPY_FLOOR, FILL_FLOOR, KINDS };

void api_measure_moving(const api_run_t *run)
{
    static double values[KINDS][API_MAX_ROUNDS];
    char *host = malloc(BYTES), *plain = malloc(BYTES);
    void *pinned;
    CUdeviceptr device;
    NEED(cuMemAlloc_v2(&device, BYTES));
    NEED(cuMemHostAlloc(&pinned, BYTES, 0));
    memset(pinned, 3, BYTES);
    memset(host, 1, BYTES);
    memset(plain, 2, BYTES);
    for (int r = -1; r < run->rounds; r++) { /* the first one touches the pages */
        int at = r < 0 ? 0 : r;
        values[PINNED][at] = copy_pinned(device, pinned);
        values[COPY_FLOOR][at] = plain_threads(plain, host, run->threads);
        values[PAGEABLE][at] = copy_pageable(device, host);
        values[FILL][at] = fill(device);
        values[FILL_FLOOR][at] = plain_threads(plain, NULL, run->threads);
    }
    double floor[KINDS];
    for (int k = 0; k < KINDS; k++)
        floor[k] = bench_median(values[k], run->rounds);
    double copies = floor[COPY_FLOOR], fills = floor[FILL_FLOOR];
    api_line(run, "memcpy_async", floor[PINNED], "GB/s", share * copies, copies, NAN);
    api_line(run, "memcpy_pageable", floor[PAGEABLE], "GB/s", share * copies, copies, NAN);
    api_line(run, "fill", floor[FILL], "GB/s", share * fills, fills, NAN);
    NEED(cuMemFree_v2(device));
    NEED(cuMemFreeHost(pinned));
    free(host);
    free(plain);
}

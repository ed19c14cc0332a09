#include "gpu-proxy/cpu/driver/cpu_resident.h"

#include <stdlib.h>

enum {
    SCRATCH_ALIGN = 64,
    MOST_BLOCKS = 4096,
    MOST_BYTES = 256 << 20, /* of scratch, in all blocks that are under way */
};

void cpu_residents_init(cpu_residents_t *residents, size_t bytes, uint32_t least)
{
    size_t room = MOST_BYTES / (bytes ? bytes : 1);
    pthread_mutex_init(&residents->lock, NULL);
    residents->first = residents->last = residents->spare = NULL;
    residents->most = room > MOST_BLOCKS ? MOST_BLOCKS : (uint32_t)room;
    if (residents->most < least)
        residents->most = least;
}

static void free_benches(cpu_bench_t *bench)
{
    while (bench) {
        cpu_bench_t *next = bench->next;
        cpu_memory_drop_ranges(bench->ranges);
        free(bench->memory);
        free(bench);
        bench = next;
    }
}

void cpu_residents_close(cpu_residents_t *residents)
{
    free_benches(residents->first);
    free_benches(residents->spare);
    pthread_mutex_destroy(&residents->lock);
}

static cpu_bench_t *take_spare(cpu_residents_t *residents)
{
    pthread_mutex_lock(&residents->lock);
    cpu_bench_t *bench = residents->spare;
    if (bench)
        residents->spare = bench->next;
    pthread_mutex_unlock(&residents->lock);
    return bench;
}

cpu_bench_t *cpu_bench_of(cpu_residents_t *residents, cpu_seat_t *seat, size_t bytes)
{
    cpu_bench_t *bench = seat->bench;
    if (!bench) {
        bench = take_spare(residents);
        if (!bench)
            bench = calloc(1, sizeof(*bench));
        if (!bench)
            return NULL;
        bench->next = NULL;
        seat->bench = bench;
    }
    if (bench->bytes < bytes) {
        free(bench->memory);
        bench->bytes = 0;
        bench->memory = aligned_alloc(SCRATCH_ALIGN, bytes);
        if (!bench->memory)
            return NULL;
        bench->bytes = bytes;
    }
    return bench;
}

void cpu_residents_park(cpu_residents_t *residents, cpu_seat_t *seat)
{
    cpu_bench_t *bench = seat->bench;
    seat->bench = NULL;
    bench->next = NULL;
    pthread_mutex_lock(&residents->lock);
    if (residents->last)
        residents->last->next = bench;
    else
        residents->first = bench;
    residents->last = bench;
    pthread_mutex_unlock(&residents->lock);
}

cpu_bench_t *cpu_residents_take(cpu_residents_t *residents, cpu_seat_t *seat)
{
    pthread_mutex_lock(&residents->lock);
    cpu_bench_t *bench = residents->first;
    if (bench) {
        residents->first = bench->next;
        if (!residents->first)
            residents->last = NULL;
        cpu_bench_t *idle = seat->bench;
        if (idle) {
            idle->next = residents->spare;
            residents->spare = idle;
        }
        bench->next = NULL;
        seat->bench = bench;
    }
    pthread_mutex_unlock(&residents->lock);
    return bench;
}

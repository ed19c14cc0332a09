/* cpu_resident.h - the memory that blocks run in, and the blocks of a launch that have begun and gave
 * way.
 *
 * A bench is what one block needs while it runs: its cpu_launch_t and scratch memory. A seat keeps one
 * from launch to launch. A block that only waits for others is parked with its bench, and the seat
 * takes another. So all blocks of a launch may be under way at the same time, up to a limit that
 * memory sets; as on a GPU, blocks beyond it begin when others have ended. Thread-safe but for benches,
 * which belong to whoever holds them. */
#ifndef CPU_RESIDENT_H
#define CPU_RESIDENT_H

#include <pthread.h>

#include "gpu-proxy/cpu/driver/cpu_memory.h"
#include "gpu-proxy/cpu/driver/cpu_sched.h"

typedef struct cpu_bench {
    cpu_launch_t launch;
    cpu_ranges_t *ranges;
    uint8_t *memory; /* scratch of a block */
    size_t bytes;
    struct cpu_bench *next;
} cpu_bench_t;

typedef struct {
    pthread_mutex_t lock;
    cpu_bench_t *first, *last; /* parked blocks, in the order in which they gave way */
    cpu_bench_t *spare;
    uint32_t most; /* blocks parked before no more begin */
} cpu_residents_t;

/* `bytes` of scratch per block; at least `least` blocks can be under way. */
void cpu_residents_init(cpu_residents_t *residents, size_t bytes, uint32_t least);

/* Drops all blocks and benches; no thread uses them any more. */
void cpu_residents_close(cpu_residents_t *residents);

/* The seat's bench with room for `bytes` of scratch; NULL if memory is out. */
cpu_bench_t *cpu_bench_of(cpu_residents_t *residents, cpu_seat_t *seat, size_t bytes);

/* Parks the seat's bench behind all others. */
void cpu_residents_park(cpu_residents_t *residents, cpu_seat_t *seat);

/* Gives the seat the bench of the block that has waited longest; NULL if there is none. */
cpu_bench_t *cpu_residents_take(cpu_residents_t *residents, cpu_seat_t *seat);

#endif

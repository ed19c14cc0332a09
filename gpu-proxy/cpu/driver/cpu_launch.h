/* cpu_launch.h - launching kernels. */
#ifndef CPU_LAUNCH_H
#define CPU_LAUNCH_H

#include "gpu-proxy/cpu/driver/cpu_module.h"

enum {
    CPU_MAX_THREADS = 1024, /* of a block */
    CPU_MAX_BLOCK_Z = 64,
    CPU_MAX_GRID_YZ = 65535,
    CPU_SHARED_DEFAULT = 48 << 10, /* bytes a block gets without asking */
    CPU_SHARED_MOST = 163 << 10,   /* bytes a block can ask for */
    CPU_SHARED_OF_CORE = 164 << 10,
    /* Blocks of a core are under way at the same time, though one runs: see cpu_resident.h. */
    CPU_BLOCKS_OF_CORE = 32,
    CPU_THREADS_OF_CORE = 2048,
};

typedef struct {
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t dynamic_shared; /* bytes */
    bool cooperative;        /* all blocks must run at the same time */
} cpu_shape_of_launch_t;

/* How many blocks of so many threads a core can have under way, as cuOccupancy...; 0: none fits. */
int cpu_launch_blocks_per_core(const cpu_function_t *function, int threads, size_t dynamic_shared);

/* The errors of a launch that its shape alone makes: CUDA_ERROR_INVALID_VALUE,
 * _LAUNCH_OUT_OF_RESOURCES, _COOPERATIVE_LAUNCH_TOO_LARGE. */
CUresult cpu_launch_check(const cpu_function_t *function, const cpu_shape_of_launch_t *shape);

/* Takes the parameters as a launch does, into `to`, which has room for the function's param_size. */
CUresult cpu_launch_pack(const cpu_function_t *function, void **params, void **extra, uint8_t *to);

/* Queues a launch. Parameters are taken at once: from `params`, one pointer each, or packed from
 * `extra`. Errors as cuLaunchKernel: CUDA_ERROR_INVALID_VALUE, _LAUNCH_OUT_OF_RESOURCES,
 * _COOPERATIVE_LAUNCH_TOO_LARGE, _INVALID_HANDLE (stream of another context), or from compiling. */
CUresult cpu_launch(cpu_function_t *function, cpu_stream_t *stream,
                    const cpu_shape_of_launch_t *shape, void **params, void **extra);

/* The same in two steps, so that several launches, linked by `next`, are queued at once. What is made
 * and not submitted ends with cpu_op_drop. */
CUresult cpu_launch_make(cpu_function_t *function, cpu_stream_t *stream,
                         const cpu_shape_of_launch_t *shape, void **params, void **extra,
                         cpu_op_t **op);
CUresult cpu_launch_submit(cpu_stream_t *stream, cpu_op_t *first, cpu_op_t *last, uint64_t *seq);

#endif

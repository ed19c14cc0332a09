#include "gpu-proxy/cpu/driver/cpu_launch.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "gpu-proxy/cpu/driver/cpu_guard.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"

typedef struct {
    cpu_op_t op;
    cpu_function_t *function; /* referenced */
    const cpu_variant_t *variant;
    uint32_t grid[3], block[3];
    uint32_t dynamic_shared;
    uint64_t id;
    uint8_t params[] __attribute__((aligned(16)));
} launch_op_t;

/* What a seat keeps between launches. */
typedef struct {
    cpu_launch_t launch;
    cpu_ranges_t *ranges;
    uint8_t *memory; /* scratch of a CTA */
    size_t bytes;
} bench_t;

enum { SCRATCH_ALIGN = 64, MAX_GRAIN = 16 };

static _Atomic uint64_t launch_ids;

static size_t align_up(size_t bytes)
{
    return (bytes + SCRATCH_ALIGN - 1) & ~(size_t)(SCRATCH_ALIGN - 1);
}

/* The seat's bench with room for `bytes` of scratch; NULL if memory is out. */
static bench_t *bench_of(cpu_seat_t *seat, size_t bytes)
{
    bench_t *bench = seat->bench;
    if (!bench) {
        bench = seat->bench = calloc(1, sizeof(*bench));
        if (!bench)
            return NULL;
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

static CUresult prepare(const launch_op_t *op, cpu_seat_t *seat, cpu_launch_t **out)
{
    cpu_scratch_t need = cpu_code_scratch(op->variant->code, op->block, op->dynamic_shared);
    size_t shared = align_up(need.shared_bytes), local = align_up(need.local_bytes);
    size_t bytes = shared + local + align_up(need.context_bytes) + SCRATCH_ALIGN;
    bench_t *bench = bench_of(seat, bytes);
    if (!bench)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_launch_t *launch = &bench->launch;
    *out = launch;
    if (launch->grid_id == op->id)
        return CUDA_SUCCESS;
    memset(launch, 0, sizeof(*launch));
    cpu_memory_refresh_ranges(&bench->ranges);
    launch->helpers = cpu_helpers();
    launch->params = op->params;
    launch->globals = op->variant->globals;
    launch->cancel = (const volatile uint32_t *)&op->op.stream->lanes->cancel;
    launch->window_base = bench->ranges->window.base;
    launch->window_bytes = bench->ranges->window.bytes;
    launch->ranges = bench->ranges->ranges;
    launch->range_count = bench->ranges->count;
    launch->param_bytes = op->function->ptx->param_size;
    memcpy(launch->grid, op->grid, sizeof(launch->grid));
    memcpy(launch->block, op->block, sizeof(launch->block));
    launch->dynamic_shared_bytes = op->dynamic_shared;
    launch->sm_count = (uint32_t)cpu_sched_seats();
    launch->grid_id = op->id;
    launch->shared = bench->memory;
    launch->shared_bytes = need.shared_bytes;
    launch->local = bench->memory + shared;
    launch->local_bytes = need.local_bytes;
    launch->context = bench->memory + shared + local;
    launch->sm_id = seat->index;
    launch->user = (void *)op;
    return CUDA_SUCCESS;
}

static void report(const launch_op_t *op, const cpu_fault_t *fault)
{
    static const char *const kinds[] = {"illegal address", "misaligned address"};
    if (fault->code == CPU_FAULT_ADDRESS || fault->code == CPU_FAULT_MISALIGNED) {
        gb_log(GB_LOG_WARN,
               "kernel %s: %s 0x%llx, %s of %u bytes by thread (%u,%u,%u) of block (%u,%u,%u)",
               op->function->ptx->name, kinds[fault->code == CPU_FAULT_MISALIGNED],
               (unsigned long long)fault->address, fault->write ? "write" : "read", fault->bytes,
               fault->tid[0], fault->tid[1], fault->tid[2], fault->ctaid[0], fault->ctaid[1],
               fault->ctaid[2]);
        return;
    }
    gb_log(GB_LOG_WARN, "kernel %s: %s in block (%u,%u,%u)", op->function->ptx->name,
           fault->code == CPU_FAULT_ASSERT ? "assertion failed" : "trap", fault->ctaid[0],
           fault->ctaid[1], fault->ctaid[2]);
}

static CUresult run(cpu_op_t *self, cpu_seat_t *seat, uint64_t first, uint64_t count)
{
    const launch_op_t *op = (const launch_op_t *)self;
    cpu_launch_t *launch;
    CUresult result = prepare(op, seat, &launch);
    if (result)
        return result;
    uint64_t plane = (uint64_t)op->grid[0] * op->grid[1];
    for (uint64_t cta = first; cta < first + count; cta++) {
        launch->ctaid[0] = (uint32_t)(cta % op->grid[0]);
        launch->ctaid[1] = (uint32_t)(cta / op->grid[0] % op->grid[1]);
        launch->ctaid[2] = (uint32_t)(cta / plane);
        cpu_run_t outcome = cpu_code_run_cta(op->variant->code, launch);
        if (outcome == CPU_RUN_FAULT) {
            if (atomic_load(&op->op.stream->lanes->fault) == CUDA_SUCCESS)
                report(op, &launch->fault);
            return (CUresult)launch->fault.code;
        }
        if (outcome == CPU_RUN_CANCELLED)
            break;
    }
    return CUDA_SUCCESS;
}

static void release(cpu_op_t *op)
{
    launch_op_t *launch = (launch_op_t *)op;
    cpu_object_put(&launch->function->object);
    free(launch);
}

static const cpu_op_ops_t launch_ops = {.name = "kernel", .run = run, .release = release};

static CUresult check_shape(const cpu_function_t *function, const cpu_shape_of_launch_t *shape)
{
    const uint32_t *g = shape->grid, *b = shape->block;
    for (int i = 0; i < 3; i++)
        if (g[i] == 0 || b[i] == 0)
            return CUDA_ERROR_INVALID_VALUE;
    if (g[0] > INT32_MAX || g[1] > CPU_MAX_GRID_YZ || g[2] > CPU_MAX_GRID_YZ ||
        b[0] > CPU_MAX_THREADS || b[1] > CPU_MAX_THREADS || b[2] > CPU_MAX_BLOCK_Z)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t threads = (uint64_t)b[0] * b[1] * b[2];
    if (threads > CPU_MAX_THREADS)
        return CUDA_ERROR_INVALID_VALUE;
    const uint32_t *exact = function->ptx->req_ntid;
    for (int i = 0; exact[0] && i < 3; i++)
        if (b[i] != (exact[i] ? exact[i] : 1))
            return CUDA_ERROR_INVALID_VALUE;
    if (threads > (uint64_t)cpu_function_max_threads(function))
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    int asked = atomic_load_explicit(&((cpu_function_t *)function)->max_dynamic_shared,
                                     memory_order_relaxed);
    uint64_t fixed = function->ptx->shared_size;
    uint64_t most = asked >= 0 && fixed + (uint64_t)asked > CPU_SHARED_DEFAULT
                        ? fixed + (uint64_t)asked
                        : CPU_SHARED_DEFAULT;
    if (shape->dynamic_shared && fixed + shape->dynamic_shared > most)
        return CUDA_ERROR_INVALID_VALUE;
    if (shape->cooperative && (uint64_t)g[0] * g[1] * g[2] > (uint64_t)cpu_sched_seats())
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return CUDA_SUCCESS;
}

/* CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE, in any order, until _END. */
static CUresult read_extra(void **extra, const void **buffer, size_t *size)
{
    *buffer = NULL;
    *size = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            *buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
            *size = *(const size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult take_params(const cpu_function_t *function, void **params, void **extra,
                            uint8_t *to)
{
    const ptx_function_t *ptx = function->ptx;
    const ptx_var_t *vars = &function->module->image->ptx->vars[ptx->param_first];
    if (params && extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (extra) {
        const void *buffer;
        size_t size;
        if (read_extra(extra, &buffer, &size) || size < ptx->param_size ||
            (!buffer && ptx->param_size))
            return CUDA_ERROR_INVALID_VALUE;
        if (ptx->param_size)
            memcpy(to, buffer, ptx->param_size);
        return CUDA_SUCCESS;
    }
    if (ptx->param_count && !params)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < ptx->param_count; i++) {
        if (!params[i])
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(to + vars[i].offset, params[i], vars[i].size);
    }
    return CUDA_SUCCESS;
}

/* Few blocks are taken one by one; of many tiny ones a thread takes some at a time. */
static uint64_t grain_of(uint64_t ctas)
{
    uint64_t grain = ctas / ((uint64_t)cpu_sched_seats() * 64);
    return grain < 1 ? 1 : grain > MAX_GRAIN ? MAX_GRAIN : grain;
}

/* Parameters are read as vectors: on cache lines of their own. */
static size_t launch_bytes(const cpu_function_t *function)
{
    return align_up(sizeof(launch_op_t) + function->ptx->param_size);
}

CUresult cpu_launch(cpu_function_t *function, cpu_stream_t *stream,
                    const cpu_shape_of_launch_t *shape, void **params, void **extra)
{
    const cpu_variant_t *variant;
    if (stream->context != function->module->context)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = check_shape(function, shape);
    if (!result)
        result = cpu_function_variant(function, shape->block, &variant);
    if (result)
        return result;
    launch_op_t *op = aligned_alloc(64, launch_bytes(function));
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = take_params(function, params, extra, op->params);
    if (result) {
        free(op);
        return result;
    }
    cpu_object_ref(&function->object);
    op->function = function;
    op->variant = variant;
    memcpy(op->grid, shape->grid, sizeof(op->grid));
    memcpy(op->block, shape->block, sizeof(op->block));
    op->dynamic_shared = shape->dynamic_shared;
    op->id = atomic_fetch_add_explicit(&launch_ids, 1, memory_order_relaxed) + 1;
    cpu_guard_install(false);
    uint64_t ctas = (uint64_t)shape->grid[0] * shape->grid[1] * shape->grid[2];
    cpu_op_init(&op->op, &launch_ops, ctas, shape->cooperative ? 1 : grain_of(ctas));
    return cpu_sched_submit(stream, &op->op, NULL);
}

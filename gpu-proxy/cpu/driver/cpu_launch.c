#include "gpu-proxy/cpu/driver/cpu_launch.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "gpu-proxy/cpu/driver/cpu_cells.h"
#include "gpu-proxy/cpu/driver/cpu_guard.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"
#include "gpu-proxy/cpu/driver/cpu_resident.h"

typedef struct {
    cpu_op_t op;
    cpu_function_t *function; /* referenced */
    cpu_variant_t *variant;   /* held */
    uint32_t grid[3], block[3];
    uint32_t dynamic_shared;
    uint64_t id;
    uint64_t workspace; /* of the grid's barrier: cooperative launches only, else 0 */
    cpu_residents_t residents;
    uint8_t params[] __attribute__((aligned(16)));
} launch_op_t;

enum { SCRATCH_ALIGN = 64, MAX_GRAIN = 16, WORKSPACE_BYTES = 256 };

static _Atomic uint64_t launch_ids;

static size_t align_up(size_t bytes)
{
    return (bytes + SCRATCH_ALIGN - 1) & ~(size_t)(SCRATCH_ALIGN - 1);
}

/* Parameters are read as vectors: on cache lines of their own. */
static size_t launch_bytes(const cpu_function_t *function)
{
    return align_up(sizeof(launch_op_t) + function->ptx->param_size);
}

static size_t scratch_bytes(const cpu_scratch_t *need)
{
    return align_up(need->shared_bytes) + align_up(need->local_bytes) +
           align_up(need->context_bytes) + SCRATCH_ALIGN;
}

static CUresult prepare(launch_op_t *op, cpu_seat_t *seat, cpu_launch_t **out)
{
    cpu_scratch_t need = cpu_code_scratch(op->variant->code, op->block, op->dynamic_shared);
    size_t shared = align_up(need.shared_bytes), local = align_up(need.local_bytes);
    cpu_bench_t *bench = cpu_bench_of(&op->residents, seat, scratch_bytes(&need));
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
    launch->grid_workspace = op->workspace;
    launch->shared = bench->memory;
    launch->shared_bytes = need.shared_bytes;
    launch->local = bench->memory + shared;
    launch->local_bytes = need.local_bytes;
    launch->context = bench->memory + shared + local;
    launch->sm_id = seat->index;
    launch->user = (void *)op;
    launch->services = cpu_context_services();
    launch->services_user = op->op.stream->context;
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
           fault->code == CPU_FAULT_ASSERT  ? "assertion failed"
           : fault->code == CPU_FAULT_STACK ? "stack overflow"
           : fault->code == CPU_FAULT_PC    ? "call of what is no function"
                                            : "trap",
           fault->ctaid[0], fault->ctaid[1], fault->ctaid[2]);
}

/* What became of a block: ended, parked or failed. */
static CUresult settle(launch_op_t *op, cpu_seat_t *seat, cpu_run_t outcome)
{
    cpu_bench_t *bench = seat->bench;
    switch (outcome) {
    case CPU_RUN_FAULT:
        if (atomic_load(&op->op.stream->lanes->fault) == CUDA_SUCCESS)
            report(op, &bench->launch.fault);
        return (CUresult)bench->launch.fault.code;
    case CPU_RUN_YIELDED:
        cpu_residents_park(&op->residents, seat);
        atomic_fetch_add_explicit(&op->op.parked, 1, memory_order_release);
        return CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
}

static CUresult resume(cpu_op_t *self, cpu_seat_t *seat, bool *moved)
{
    launch_op_t *op = (launch_op_t *)self;
    cpu_bench_t *bench = cpu_residents_take(&op->residents, seat);
    if (!bench) {
        *moved = true;
        return CUDA_SUCCESS;
    }
    atomic_fetch_sub_explicit(&op->op.parked, 1, memory_order_relaxed);
    cpu_run_t outcome = cpu_code_resume_cta(op->variant->code, &bench->launch);
    *moved = outcome != CPU_RUN_YIELDED || bench->launch.moved;
    return settle(op, seat, outcome);
}

static bool is_cancelled(const launch_op_t *op)
{
    return atomic_load_explicit(&op->op.stream->lanes->cancel, memory_order_relaxed) != 0;
}

/* Goes on with parked blocks until there is room for one more. */
static CUresult make_room(launch_op_t *op, cpu_seat_t *seat)
{
    CUresult result = CUDA_SUCCESS;
    while (!result && !is_cancelled(op) &&
           atomic_load_explicit(&op->op.parked, memory_order_relaxed) >= op->residents.most) {
        bool moved = false;
        result = resume(&op->op, seat, &moved);
        if (!moved)
            sched_yield();
    }
    return result;
}

/* Four rows of blocks at a time, column by column: blocks of a column and blocks of a row mostly read
 * the same, and so it is still in the cache. Blocks that may wait for others go in CUDA's order. */
static void place(const launch_op_t *op, uint64_t cta, uint32_t ctaid[3])
{
    enum { ROWS = 4 };
    uint64_t width = op->grid[0], plane = width * op->grid[1], at = cta % plane;
    bool in_order = op->workspace != 0 || cpu_code_header(op->variant->code)->spins;
    uint64_t band = in_order ? 1 : ROWS, first = at / (width * band) * band;
    uint64_t rows = op->grid[1] - first < band ? op->grid[1] - first : band;
    uint64_t rest = at - first * width;
    ctaid[0] = (uint32_t)(rest / rows);
    ctaid[1] = (uint32_t)(first + rest % rows);
    ctaid[2] = (uint32_t)(cta / plane);
}

static CUresult run(cpu_op_t *self, cpu_seat_t *seat, uint64_t first, uint64_t count)
{
    launch_op_t *op = (launch_op_t *)self;
    CUresult result = CUDA_SUCCESS;
    for (uint64_t cta = first; !result && cta < first + count; cta++) {
        cpu_launch_t *launch;
        result = make_room(op, seat);
        if (!result)
            result = prepare(op, seat, &launch);
        if (result || is_cancelled(op))
            break;
        place(op, cta, launch->ctaid);
        result = settle(op, seat, cpu_code_start_cta(op->variant->code, launch));
    }
    return result;
}

/* References of launches that this thread has released, of one kernel: dropped together, since other
 * threads are taking new ones all the time. */
static __thread struct {
    cpu_function_t *function;
    cpu_variant_t *variant;
    uint32_t count;
} kept __attribute__((tls_model("initial-exec")));

static void drop_kept(void)
{
    cpu_function_t *function = kept.function;
    uint32_t count = kept.count;
    if (count == 0)
        return;
    cpu_variant_put_many(kept.variant, count);
    kept.function = NULL; /* its end may release others */
    kept.variant = NULL;
    kept.count = 0;
    cpu_object_put_many(&function->object, (int)count);
}

static void release(cpu_op_t *op)
{
    launch_op_t *launch = (launch_op_t *)op;
    size_t bytes = launch_bytes(launch->function);
    cpu_residents_close(&launch->residents);
    if (launch->workspace)
        cpu_memory_free(CPU_MEMORY_GLOBAL, launch->workspace);
    if (kept.variant != launch->variant || kept.function != launch->function)
        drop_kept();
    kept.function = launch->function;
    kept.variant = launch->variant;
    kept.count++;
    cpu_cells_give(launch, bytes);
}

static const cpu_op_ops_t launch_ops = {
    .name = "kernel", .run = run, .resume = resume, .release = release, .released = drop_kept};

int cpu_launch_blocks_per_core(const cpu_function_t *function, int threads, size_t dynamic_shared)
{
    uint64_t shared = cpu_function_static_shared(function) + dynamic_shared;
    if (threads <= 0 || threads > cpu_function_max_threads(function) || shared > CPU_SHARED_MOST)
        return 0;
    int by_threads = CPU_THREADS_OF_CORE / ((threads + 31) / 32 * 32);
    uint64_t by_shared = shared ? CPU_SHARED_OF_CORE / shared : CPU_BLOCKS_OF_CORE;
    int blocks = by_threads < CPU_BLOCKS_OF_CORE ? by_threads : CPU_BLOCKS_OF_CORE;
    return (uint64_t)blocks < by_shared ? blocks : (int)by_shared;
}

CUresult cpu_launch_check(const cpu_function_t *function, const cpu_shape_of_launch_t *shape)
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
    uint64_t fixed = cpu_function_static_shared(function);
    uint64_t most = asked >= 0 && fixed + (uint64_t)asked > CPU_SHARED_DEFAULT
                        ? fixed + (uint64_t)asked
                        : CPU_SHARED_DEFAULT;
    if (shape->dynamic_shared && fixed + shape->dynamic_shared > most)
        return CUDA_ERROR_INVALID_VALUE;
    if (!shape->cooperative)
        return CUDA_SUCCESS;
    int resident = cpu_sched_seats() *
                   cpu_launch_blocks_per_core(function, (int)threads, shape->dynamic_shared);
    if ((uint64_t)g[0] * g[1] * g[2] > (uint64_t)resident)
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

CUresult cpu_launch_pack(const cpu_function_t *function, void **params, void **extra, uint8_t *to)
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

/* The grid barrier's counter lies in device memory, behind a word that holds the size, and starts
 * at 0. It belongs to no context: the launch frees it. */
static CUresult make_workspace(const cpu_context_t *context, uint64_t *workspace)
{
    CUresult result = cpu_memory_alloc(CPU_MEMORY_GLOBAL, context->device->index, NULL,
                                       WORKSPACE_BYTES, 0, workspace);
    if (!result) {
        uint32_t size = WORKSPACE_BYTES;
        memset((void *)(uintptr_t)*workspace, 0, WORKSPACE_BYTES);
        memcpy((void *)(uintptr_t)*workspace, &size, sizeof(size));
    }
    return result;
}

CUresult cpu_launch_make(cpu_function_t *function, cpu_stream_t *stream,
                         const cpu_shape_of_launch_t *shape, void **params, void **extra,
                         cpu_op_t **out)
{
    cpu_variant_t *variant;
    if (stream->context != function->module->context)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = cpu_launch_check(function, shape);
    if (!result)
        result = cpu_function_variant(function, shape->block, &variant);
    if (result)
        return result;
    launch_op_t *op = cpu_cells_take(launch_bytes(function));
    result = op ? cpu_launch_pack(function, params, extra, op->params) : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        op->workspace = 0;
        if (shape->cooperative)
            result = make_workspace(stream->context, &op->workspace);
    }
    if (result) {
        cpu_variant_put(variant);
        cpu_cells_give(op, launch_bytes(function));
        return result;
    }
    cpu_object_ref(&function->object);
    op->function = function;
    op->variant = variant;
    memcpy(op->grid, shape->grid, sizeof(op->grid));
    memcpy(op->block, shape->block, sizeof(op->block));
    op->dynamic_shared = shape->dynamic_shared;
    cpu_scratch_t need = cpu_code_scratch(variant->code, op->block, op->dynamic_shared);
    cpu_residents_init(&op->residents, scratch_bytes(&need),
                       (uint32_t)(cpu_sched_seats() * CPU_BLOCKS_OF_CORE));
    op->id = atomic_fetch_add_explicit(&launch_ids, 1, memory_order_relaxed) + 1;
    atomic_store_explicit(&variant->used, op->id + 1, memory_order_relaxed);
    uint64_t ctas = (uint64_t)shape->grid[0] * shape->grid[1] * shape->grid[2];
    cpu_op_init(&op->op, &launch_ops, ctas, shape->cooperative ? 1 : grain_of(ctas));
    *out = &op->op;
    return CUDA_SUCCESS;
}

CUresult cpu_launch_submit(cpu_stream_t *stream, cpu_op_t *first, cpu_op_t *last, uint64_t *seq)
{
    cpu_guard_install(false);
    cpu_console_flush(&stream->context->console);
    return cpu_sched_submit_list(stream, first, last, seq);
}

CUresult cpu_launch(cpu_function_t *function, cpu_stream_t *stream,
                    const cpu_shape_of_launch_t *shape, void **params, void **extra)
{
    cpu_op_t *op;
    CUresult result = cpu_launch_make(function, stream, shape, params, extra, &op);
    return result ? result : cpu_launch_submit(stream, op, op, NULL);
}

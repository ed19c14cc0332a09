#include "gpu-proxy/cpu/driver/cpu_work.h"

#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/driver/cpu_box.h"
#include "gpu-proxy/cpu/driver/cpu_graph.h"
#include "gpu-proxy/cpu/driver/cpu_host.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"
#include "gpu-proxy/cpu/driver/cpu_value.h"

void cpu_work_empty(cpu_work_t *work)
{
    memset(work, 0, sizeof(*work));
    work->type = CU_GRAPH_NODE_TYPE_EMPTY;
}

static void begin(cpu_work_t *work, CUgraphNodeType type, cpu_context_t *context)
{
    cpu_work_empty(work);
    work->type = type;
    work->context = context;
    if (context)
        cpu_object_ref(&context->object);
}

/* ---- memory ---- */

CUresult cpu_work_mem_alloc(CUDA_MEM_ALLOC_NODE_PARAMS *params, cpu_work_t *work)
{
    cpu_context_t *context;
    cpu_graph_memory_t *memory;
    CUresult result = cpu_thread_context(&context);
    if (!result)
        result = cpu_graph_memory_make(context, params, &memory);
    if (result)
        return result;
    begin(work, CU_GRAPH_NODE_TYPE_MEM_ALLOC, NULL);
    work->memory = memory;
    return CUDA_SUCCESS;
}

CUresult cpu_work_mem_free(uint64_t base, cpu_work_t *work)
{
    cpu_graph_memory_t *memory = cpu_graph_memory_at(base);
    if (!memory)
        return CUDA_ERROR_INVALID_VALUE;
    begin(work, CU_GRAPH_NODE_TYPE_MEM_FREE, NULL);
    work->memory = memory;
    return CUDA_SUCCESS;
}

/* ---- kernels ---- */

/* Memory for the parameters, with a pointer to each. */
static bool make_room(const cpu_function_t *function, cpu_kernel_work_t *kernel)
{
    const ptx_function_t *ptx = function->ptx;
    const ptx_var_t *vars = &function->module->image->ptx->vars[ptx->param_first];
    kernel->param_bytes = ptx->param_size;
    kernel->params = calloc(1, ptx->param_size + 16);
    kernel->pointers = calloc(ptx->param_count + 1, sizeof(*kernel->pointers));
    if (!kernel->params || !kernel->pointers) {
        free(kernel->params);
        free(kernel->pointers);
        return false;
    }
    for (uint32_t i = 0; i < ptx->param_count; i++)
        kernel->pointers[i] = kernel->params + vars[i].offset;
    return true;
}

CUresult cpu_work_launch(cpu_function_t *function, CUfunction handle,
                         const cpu_shape_of_launch_t *shape, void **params, void **extra,
                         cpu_work_t *work)
{
    cpu_kernel_work_t kernel = {.function = function, .func = handle, .shape = *shape};
    CUresult result = cpu_launch_check(function, shape);
    if (!result && !make_room(function, &kernel))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result)
        return result;
    result = cpu_launch_pack(function, params, extra, kernel.params);
    if (result) {
        free(kernel.params);
        free(kernel.pointers);
        return result;
    }
    begin(work, CU_GRAPH_NODE_TYPE_KERNEL, function->module->context);
    cpu_object_ref(&function->object);
    work->kernel = kernel;
    return CUDA_SUCCESS;
}

CUresult cpu_work_kernel(cpu_context_t *context, const CUDA_KERNEL_NODE_PARAMS *p, cpu_work_t *work)
{
    cpu_function_t *function;
    cpu_context_t *of = context;
    if (p->ctx) {
        CUresult result = cpu_context_get(p->ctx, &of);
        if (result)
            return result;
    } else {
        cpu_object_ref(&of->object);
    }
    CUresult result =
        cpu_function_get(of, p->func ? p->func : (CUfunction)(uintptr_t)p->kern, &function);
    if (!result) {
        cpu_shape_of_launch_t shape = {.grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
                                       .block = {p->blockDimX, p->blockDimY, p->blockDimZ},
                                       .dynamic_shared = p->sharedMemBytes};
        result = cpu_work_launch(function, p->func, &shape, p->kernelParams, p->extra, work);
        if (!result)
            work->kernel.kern = p->func ? NULL : p->kern;
        cpu_object_put(&function->object);
    }
    cpu_object_put(&of->object);
    return result;
}

static CUresult clone_kernel(const cpu_kernel_work_t *kernel, cpu_kernel_work_t *copy)
{
    *copy = *kernel;
    if (!make_room(kernel->function, copy))
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(copy->params, kernel->params, kernel->param_bytes);
    cpu_object_ref(&kernel->function->object);
    return CUDA_SUCCESS;
}

CUresult cpu_work_make_launch(const cpu_kernel_work_t *kernel, cpu_stream_t *stream, cpu_op_t **op)
{
    size_t bytes = kernel->param_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, kernel->params, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, CU_LAUNCH_PARAM_END};
    return cpu_launch_make(kernel->function, stream, &kernel->shape, NULL, extra, op);
}

static CUresult submit_kernel(const cpu_kernel_work_t *kernel, cpu_stream_t *stream)
{
    cpu_op_t *op;
    CUresult result = cpu_work_make_launch(kernel, stream, &op);
    return result ? result : cpu_launch_submit(stream, op, op, NULL);
}

/* ---- copies and fills ---- */

CUresult cpu_work_copy(cpu_context_t *context, const CUDA_MEMCPY3D *copy, cpu_work_t *work)
{
    cpu_side_t dst, src;
    cpu_box_t box;
    CUresult result = cpu_box_describe(copy, &dst, &src, &box);
    if (result)
        return result;
    cpu_side_drop(&dst);
    cpu_side_drop(&src);
    begin(work, CU_GRAPH_NODE_TYPE_MEMCPY, context);
    work->copy.copy = *copy;
    return CUDA_SUCCESS;
}

/* The sides are looked at again: the memory may be gone since. */
static CUresult submit_copy(const CUDA_MEMCPY3D *copy, cpu_stream_t *stream)
{
    cpu_side_t dst, src;
    cpu_box_t box;
    CUresult result = cpu_box_describe(copy, &dst, &src, &box);
    if (result)
        return result;
    result = cpu_copy(stream, &box, CPU_COPY_ASYNC);
    cpu_side_drop(&dst);
    cpu_side_drop(&src);
    return result;
}

static CUresult fill_of(const CUDA_MEMSET_NODE_PARAMS *p, cpu_fill_t *fill)
{
    size_t rows;
    cpu_fill_t f = {.dst = p->dst,
                    .pitch = p->pitch,
                    .height = p->height,
                    .value = p->value,
                    .element = p->elementSize};
    if ((p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || !p->width ||
        !p->height || p->dst % p->elementSize ||
        __builtin_mul_overflow(p->width, (size_t)p->elementSize, &f.width) ||
        (p->height > 1 && (p->pitch < f.width || p->pitch % p->elementSize)) ||
        __builtin_mul_overflow(p->height - 1, p->pitch, &rows) ||
        !cpu_memory_covers(CPU_MEMORY_ANY, p->dst, rows + f.width))
        return CUDA_ERROR_INVALID_VALUE;
    if (p->height == 1)
        f.pitch = f.width;
    *fill = f;
    return CUDA_SUCCESS;
}

CUresult cpu_work_fill(cpu_context_t *context, const CUDA_MEMSET_NODE_PARAMS *p, cpu_work_t *work)
{
    cpu_fill_t fill;
    CUresult result = fill_of(p, &fill);
    if (result)
        return result;
    begin(work, CU_GRAPH_NODE_TYPE_MEMSET, context);
    work->fill.fill = *p;
    return CUDA_SUCCESS;
}

static CUresult submit_fill(const CUDA_MEMSET_NODE_PARAMS *p, cpu_stream_t *stream)
{
    cpu_fill_t fill;
    CUresult result = fill_of(p, &fill); /* the memory may be gone since */
    return result ? result : cpu_fill(stream, &fill, false);
}

/* ---- the others ---- */

CUresult cpu_work_host(const CUDA_HOST_NODE_PARAMS *host, cpu_work_t *work)
{
    if (!host->fn)
        return CUDA_ERROR_INVALID_VALUE;
    begin(work, CU_GRAPH_NODE_TYPE_HOST, NULL);
    work->host = *host;
    return CUDA_SUCCESS;
}

CUresult cpu_work_event(CUgraphNodeType type, CUevent event, cpu_work_t *work)
{
    cpu_event_t *found;
    CUresult result = cpu_event_get(event, &found);
    if (result)
        return result;
    begin(work, type, found->context);
    work->event = found;
    return CUDA_SUCCESS;
}

CUresult cpu_work_values(cpu_context_t *context, const CUstreamBatchMemOpParams *ops,
                         unsigned count, cpu_work_t *work)
{
    CUstreamBatchMemOpParams *copy = malloc(count * sizeof(*copy));
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(copy, ops, count * sizeof(*copy));
    begin(work, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, context);
    work->values = (cpu_values_work_t){copy, count};
    return CUDA_SUCCESS;
}

static CUresult submit_value(const CUstreamBatchMemOpParams *op, cpu_stream_t *stream)
{
    switch (op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return cpu_value_wait(stream, op->waitValue.address, op->waitValue.value, 4,
                              op->waitValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return cpu_value_wait(stream, op->waitValue.address, op->waitValue.value64, 8,
                              op->waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return cpu_value_write(stream, op->writeValue.address, op->writeValue.value, 4);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return cpu_value_write(stream, op->writeValue.address, op->writeValue.value64, 8);
    case CU_STREAM_MEM_OP_BARRIER: /* operations of a stream are ordered anyway */
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUresult submit_values(const cpu_values_work_t *values, cpu_stream_t *stream)
{
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; !result && i < values->count; i++)
        result = submit_value(&values->ops[i], stream);
    return result;
}

/* ---- all ---- */

CUresult cpu_work_clone(const cpu_work_t *work, cpu_work_t *copy)
{
    cpu_work_t made = *work;
    CUresult result = CUDA_SUCCESS;
    switch (work->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        result = clone_kernel(&work->kernel, &made.kernel);
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        result = cpu_graph_clone(work->child, true, &made.child);
        if (!result)
            made.child->owned = true;
        break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        cpu_object_ref(&work->event->object);
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        cpu_object_ref(&work->memory->object);
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return cpu_work_values(work->context, work->values.ops, work->values.count, copy);
    default:
        break;
    }
    if (result)
        return result;
    if (made.context)
        cpu_object_ref(&made.context->object);
    *copy = made;
    return CUDA_SUCCESS;
}

static bool is_host(CUmemorytype type, uint64_t address)
{
    cpu_memory_t memory;
    if (type != CU_MEMORYTYPE_UNIFIED)
        return type == CU_MEMORYTYPE_HOST;
    return !cpu_memory_find(address, &memory) ||
           (memory.kind & (CPU_MEMORY_HOST | CPU_MEMORY_REGISTERED));
}

bool cpu_work_same_sides(const cpu_work_t *a, const cpu_work_t *b)
{
    const CUDA_MEMCPY3D *x = &a->copy.copy, *y = &b->copy.copy;
    return a->type != CU_GRAPH_NODE_TYPE_MEMCPY || b->type != CU_GRAPH_NODE_TYPE_MEMCPY ||
           (is_host(x->srcMemoryType, x->srcDevice) == is_host(y->srcMemoryType, y->srcDevice) &&
            is_host(x->dstMemoryType, x->dstDevice) == is_host(y->dstMemoryType, y->dstDevice));
}

void cpu_work_keep_attributes(cpu_work_t *work, const cpu_work_t *old)
{
    if (work->type != CU_GRAPH_NODE_TYPE_KERNEL || old->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return;
    work->kernel.shape.cooperative = old->kernel.shape.cooperative;
    work->kernel.priority = old->kernel.priority;
}

void cpu_work_drop(cpu_work_t *work)
{
    switch (work->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        free(work->kernel.params);
        free(work->kernel.pointers);
        cpu_object_put(&work->kernel.function->object);
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        cpu_graph_end(work->child);
        cpu_object_put(&work->child->object);
        break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        cpu_object_put(&work->event->object);
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        cpu_object_put(&work->memory->object);
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        free(work->values.ops);
        break;
    default:
        break;
    }
    if (work->context)
        cpu_object_put(&work->context->object);
    cpu_work_empty(work);
}

CUresult cpu_work_submit(const cpu_work_t *work, cpu_stream_t *stream)
{
    switch (work->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return submit_kernel(&work->kernel, stream);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return submit_copy(&work->copy.copy, stream);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return submit_fill(&work->fill.fill, stream);
    case CU_GRAPH_NODE_TYPE_HOST:
        return cpu_host_launch(stream, work->host.fn, work->host.userData);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cpu_event_wait_in(work->event, stream);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cpu_event_record(work->event, stream);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return submit_values(&work->values, stream);
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: /* the launch has seen to it */
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

#include "gpu-proxy/client/rc_work.h"

#include <stdlib.h>
#include <string.h>

#include "common/cuda/gb_cuda_shape.h"
#include "gpu-proxy/client/rc_array.h"
#include "gpu-proxy/client/rc_graph.h"
#include "gpu-proxy/client/rc_graph_memory.h"
#include "gpu-proxy/client/rc_launch.h"
#include "gpu-proxy/client/rc_shared.h"

void rc_work_empty(rc_work_t *work)
{
    memset(work, 0, sizeof(*work));
    work->type = CU_GRAPH_NODE_TYPE_EMPTY;
}

static void begin(rc_work_t *work, CUgraphNodeType type, CUcontext context)
{
    rc_work_empty(work);
    work->type = type;
    work->context = context;
}

/* The context that a handle means, NULL the current one. */
static CUresult context_of(rc_call_t *call, CUcontext handle, rc_object_t **context)
{
    *context = handle ? rc_object_get(RC_CONTEXT, handle) : call->context;
    return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* ---- kernels ---- */

CUresult rc_work_launch(rc_object_t *context, const rc_function_t *function,
                        const px_wire_launch_t *launch, const void *params, rc_work_t *work)
{
    rc_kernel_work_t kernel = {.launch = *launch, .count = function->param_count};
    kernel.launch.stream = 0;
    kernel.params = calloc(1, launch->params + 16);
    kernel.pointers = calloc(kernel.count + 1, sizeof(*kernel.pointers));
    if (!kernel.params || !kernel.pointers) {
        free(kernel.params);
        free(kernel.pointers);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(kernel.params, params, launch->params);
    for (uint32_t i = 0; i < kernel.count; i++)
        kernel.pointers[i] = kernel.params + function->params[i].offset;
    begin(work, CU_GRAPH_NODE_TYPE_KERNEL, rc_handle(context));
    work->kernel = kernel;
    return CUDA_SUCCESS;
}

CUresult rc_work_kernel(rc_call_t *call, const CUDA_KERNEL_NODE_PARAMS *p, rc_work_t *work)
{
    uint8_t buffer[PX_WIRE_PARAMS] __attribute__((aligned(16)));
    rc_object_t *context, *object;
    const void *bytes;
    CUresult result = p ? context_of(call, p->ctx, &context) : CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    rc_call_t there = *call; /* a kernel may be loaded into the node's context */
    there.context = context;
    there.session = context->session;
    result = rc_function_of(&there, p->func ? p->func : (CUfunction)(uintptr_t)p->kern, &object);
    if (!result && object->context != context)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result)
        return result;
    rc_function_t *function = object->function.function;
    px_wire_launch_t launch = {.function = function->wire,
                               .grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
                               .block = {p->blockDimX, p->blockDimY, p->blockDimZ},
                               .shared = p->sharedMemBytes};
    result = rc_launch_check(context, &launch, function);
    if (!result)
        result =
            rc_launch_pack(function, p->kernelParams, p->extra, buffer, &bytes, &launch.params);
    if (!result)
        result = rc_shared_open_all(bytes, launch.params);
    if (!result)
        result = rc_work_launch(context, function, &launch, bytes, work);
    if (!result) {
        work->kernel.func = p->func;
        work->kernel.kern = p->func ? NULL : p->kern;
    }
    return result;
}

static CUresult clone_kernel(const rc_kernel_work_t *kernel, rc_kernel_work_t *copy)
{
    *copy = *kernel;
    copy->params = calloc(1, kernel->launch.params + 16);
    copy->pointers = calloc(kernel->count + 1, sizeof(*copy->pointers));
    if (!copy->params || !copy->pointers) {
        free(copy->params);
        free(copy->pointers);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(copy->params, kernel->params, kernel->launch.params);
    for (uint32_t i = 0; i < kernel->count; i++)
        copy->pointers[i] = copy->params + ((uint8_t *)kernel->pointers[i] - kernel->params);
    return CUDA_SUCCESS;
}

/* ---- copies and fills ---- */

static int covers(uint64_t address, uint64_t bytes)
{
    return rc_block_reach(address, bytes) == bytes;
}

/* One side of a copy. */
typedef struct {
    CUmemorytype type;
    uint64_t base;
    size_t x, y, z, pitch, height;
    CUarray handle;
    uint64_t first;     /* address of the first byte */
    rc_object_t *array; /* or the array, which x, y and z are in */
} side_t;

/* Whole texels inside the array. */
static CUresult place_in_array(side_t *side, const CUDA_MEMCPY3D *c)
{
    side->array = rc_object_get(RC_ARRAY, side->handle);
    if (!side->array)
        return CUDA_ERROR_INVALID_HANDLE;
    const CUDA_ARRAY3D_DESCRIPTOR *d = &side->array->array.descriptor;
    uint64_t texel = gb_texel_bytes(d->Format, d->NumChannels), row = d->Width * texel;
    uint64_t height = d->Height ? d->Height : 1, depth = d->Depth ? d->Depth : 1;
    if (texel == 0) /* a format that only the driver knows */
        return CUDA_SUCCESS;
    int inside = side->x % texel == 0 && c->WidthInBytes % texel == 0 && side->x <= row &&
                 c->WidthInBytes <= row - side->x && side->y <= height &&
                 c->Height <= height - side->y && side->z <= depth && c->Depth <= depth - side->z;
    return inside ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult place(side_t *side, const CUDA_MEMCPY3D *c)
{
    if (side->type == CU_MEMORYTYPE_ARRAY)
        return place_in_array(side, c);
    if (side->type != CU_MEMORYTYPE_HOST && side->type != CU_MEMORYTYPE_DEVICE &&
        side->type != CU_MEMORYTYPE_UNIFIED)
        return CUDA_ERROR_INVALID_VALUE;
    side->pitch = side->pitch ? side->pitch : c->WidthInBytes + side->x; /* 0 is "packed" */
    side->height = side->height ? side->height : c->Height + side->y;
    if (!c->WidthInBytes || !c->Height || !c->Depth)
        return CUDA_SUCCESS;
    if ((c->Height > 1 && side->pitch < c->WidthInBytes) || side->pitch > (size_t)1 << 40 ||
        (c->Depth > 1 && side->height < c->Height))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t slice = side->pitch * side->height;
    side->first = side->base + side->z * slice + side->y * side->pitch + side->x;
    uint64_t end =
        side->first + (c->Depth - 1) * slice + (c->Height - 1) * side->pitch + c->WidthInBytes;
    if (!side->base || end < side->first)
        return CUDA_ERROR_INVALID_VALUE;
    int is_device = side->type == CU_MEMORYTYPE_DEVICE ||
                    (side->type == CU_MEMORYTYPE_UNIFIED && rc_is_device_address(side->first));
    if (is_device && !covers(side->first, end - side->first))
        return CUDA_ERROR_INVALID_VALUE;
    side->type = is_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    return CUDA_SUCCESS;
}

static CUresult place_both(const CUDA_MEMCPY3D *c, side_t *dst, side_t *src)
{
    if (c->srcLOD || c->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;
    *dst = (side_t){c->dstMemoryType,
                    c->dstMemoryType == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)c->dstHost
                                                           : c->dstDevice,
                    c->dstXInBytes,
                    c->dstY,
                    c->dstZ,
                    c->dstPitch,
                    c->dstHeight,
                    c->dstArray,
                    0,
                    NULL};
    *src = (side_t){c->srcMemoryType,
                    c->srcMemoryType == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)c->srcHost
                                                           : c->srcDevice,
                    c->srcXInBytes,
                    c->srcY,
                    c->srcZ,
                    c->srcPitch,
                    c->srcHeight,
                    c->srcArray,
                    0,
                    NULL};
    CUresult result = place(dst, c);
    return result ? result : place(src, c);
}

/* A graph is its session's: it reaches no memory of another one. */
static CUresult reaches(const rc_object_t *context, uint64_t address)
{
    rc_block_t block;
    return rc_block_find(address, &block) && rc_block_session(&block) != context->session
               ? CUDA_ERROR_NOT_SUPPORTED
               : CUDA_SUCCESS;
}

static CUresult side_reached(const rc_object_t *context, const side_t *side)
{
    if (side->array)
        return side->array->session == context->session ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    return side->type == CU_MEMORYTYPE_DEVICE && side->first ? reaches(context, side->first)
                                                             : CUDA_SUCCESS;
}

CUresult rc_work_copy(rc_call_t *call, const CUDA_MEMCPY3D *copy, CUcontext handle, rc_work_t *work)
{
    side_t dst, src;
    rc_object_t *context;
    CUresult result = copy ? context_of(call, handle, &context) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = place_both(copy, &dst, &src);
    if (!result)
        result = side_reached(context, &dst);
    if (!result)
        result = side_reached(context, &src);
    if (result)
        return result;
    begin(work, CU_GRAPH_NODE_TYPE_MEMCPY, rc_handle(context));
    work->copy = *copy;
    return CUDA_SUCCESS;
}

CUresult rc_work_sides(const rc_work_t *work, rc_copy_sides_t *out)
{
    const CUDA_MEMCPY3D *c = &work->copy;
    side_t dst, src;
    CUresult result = place_both(c, &dst, &src);
    if (result)
        return result;
    int nothing = !c->WidthInBytes || !c->Height || !c->Depth;
    *out = (rc_copy_sides_t){.dst = dst.first,
                             .dst_pitch = dst.pitch,
                             .dst_height = dst.height,
                             .src = src.first,
                             .src_pitch = src.pitch,
                             .src_height = src.height,
                             .width = nothing ? 0 : c->WidthInBytes,
                             .height = c->Height,
                             .depth = c->Depth,
                             .dst_array = dst.array ? dst.array->number : 0,
                             .src_array = src.array ? src.array->number : 0,
                             .dst_at = {dst.x, dst.y, dst.z},
                             .src_at = {src.x, src.y, src.z},
                             .dst_host = !nothing && dst.type == CU_MEMORYTYPE_HOST,
                             .src_host = !nothing && src.type == CU_MEMORYTYPE_HOST};
    return CUDA_SUCCESS;
}

static CUresult encode_copy(const rc_work_t *work, uint64_t token, rc_work_body_t *body)
{
    rc_copy_sides_t c;
    CUresult result = rc_work_sides(work, &c);
    if (result)
        return result;
    if (c.dst_host && c.src_host) { /* a matter of the client alone */
        body->type = CU_GRAPH_NODE_TYPE_HOST;
        body->number = token;
        body->head = &body->number;
        body->head_size = sizeof(body->number);
        return CUDA_SUCCESS;
    }
    body->copy = (px_wire_graph_copy_t){.dst = c.dst,
                                        .dst_pitch = c.dst_pitch,
                                        .dst_height = c.dst_height,
                                        .src = c.src,
                                        .src_pitch = c.src_pitch,
                                        .src_height = c.src_height,
                                        .width = c.width,
                                        .height = c.height,
                                        .depth = c.depth,
                                        .dst_array = c.dst_array,
                                        .src_array = c.src_array,
                                        .dst_at = {c.dst_at[0], c.dst_at[1], c.dst_at[2]},
                                        .src_at = {c.src_at[0], c.src_at[1], c.src_at[2]},
                                        .side = c.dst_host   ? PX_WIRE_TO_CLIENT
                                                : c.src_host ? PX_WIRE_FROM_CLIENT
                                                             : PX_WIRE_NO_CLIENT,
                                        .token = token};
    body->head = &body->copy;
    body->head_size = sizeof(body->copy);
    return CUDA_SUCCESS;
}

static CUresult check_fill(const CUDA_MEMSET_NODE_PARAMS *p)
{
    uint64_t row, rows;
    if ((p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || !p->width ||
        !p->height || p->dst % p->elementSize ||
        __builtin_mul_overflow(p->width, (uint64_t)p->elementSize, &row) ||
        (p->height > 1 && (p->pitch < row || p->pitch % p->elementSize)) ||
        __builtin_mul_overflow(p->height - 1, p->height > 1 ? p->pitch : row, &rows) ||
        rows + row < rows || !rc_is_device_address(p->dst) || !covers(p->dst, rows + row))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult rc_work_fill(rc_call_t *call, const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext handle,
                      rc_work_t *work)
{
    rc_object_t *context;
    CUresult result = fill ? context_of(call, handle, &context) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = check_fill(fill);
    if (!result)
        result = reaches(context, fill->dst);
    if (result)
        return result;
    begin(work, CU_GRAPH_NODE_TYPE_MEMSET, rc_handle(context));
    work->fill = *fill;
    return CUDA_SUCCESS;
}

static CUresult encode_fill(const CUDA_MEMSET_NODE_PARAMS *p, px_wire_graph_fill_t *wire)
{
    *wire = (px_wire_graph_fill_t){.dst = p->dst,
                                   .pitch = p->pitch,
                                   .width = p->width,
                                   .height = p->height,
                                   .value = p->value,
                                   .element = p->elementSize};
    return check_fill(p); /* the memory may be gone since */
}

/* ---- the others ---- */

CUresult rc_work_host(const CUDA_HOST_NODE_PARAMS *host, rc_work_t *work)
{
    if (!host || !host->fn)
        return CUDA_ERROR_INVALID_VALUE;
    begin(work, CU_GRAPH_NODE_TYPE_HOST, NULL);
    work->host = *host;
    return CUDA_SUCCESS;
}

CUresult rc_work_event(CUgraphNodeType type, CUevent event, rc_work_t *work)
{
    rc_object_t *object = rc_object_get(RC_EVENT, event);
    if (!object)
        return CUDA_ERROR_INVALID_HANDLE;
    begin(work, type, rc_handle(object->context));
    work->event = event;
    return CUDA_SUCCESS;
}

static int good_value(const CUstreamBatchMemOpParams *op)
{
    int wide = op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
               op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    unsigned bytes = wide ? 8 : 4;
    switch (op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: /* all have the address in one place */
        return op->waitValue.address % bytes == 0 && rc_is_device_address(op->waitValue.address) &&
               covers(op->waitValue.address, bytes);
    case CU_STREAM_MEM_OP_BARRIER:
        return 1;
    default:
        return 0;
    }
}

CUresult rc_work_values(rc_call_t *call, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, rc_work_t *work)
{
    rc_object_t *context;
    if (!p || !p->count || p->count > PX_WIRE_VALUES || !p->paramArray || p->flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < p->count; i++)
        if (!good_value(&p->paramArray[i]))
            return CUDA_ERROR_INVALID_VALUE;
    CUresult result = context_of(call, p->ctx, &context);
    for (unsigned i = 0; !result && i < p->count; i++)
        if (p->paramArray[i].operation != CU_STREAM_MEM_OP_BARRIER)
            result = reaches(context, p->paramArray[i].waitValue.address);
    if (result)
        return result;
    CUstreamBatchMemOpParams *copy = malloc(p->count * sizeof(*copy));
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(copy, p->paramArray, p->count * sizeof(*copy));
    begin(work, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, rc_handle(context));
    work->values = (rc_values_work_t){copy, p->count};
    return CUDA_SUCCESS;
}

static void encode_values(const rc_values_work_t *values, px_wire_value_t *wire)
{
    for (uint32_t i = 0; i < values->count; i++) {
        const CUstreamBatchMemOpParams *op = &values->ops[i];
        wire[i] = (px_wire_value_t){.operation = op->operation};
        if (op->operation == CU_STREAM_MEM_OP_BARRIER) {
            wire[i].flags = op->memoryBarrier.flags;
            continue;
        }
        int wide = op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                   op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
        wire[i].flags = op->waitValue.flags;
        wire[i].address = op->waitValue.address;
        wire[i].value = wide ? op->waitValue.value64 : op->waitValue.value;
    }
}

/* ---- memory ---- */

CUresult rc_work_mem_alloc(rc_call_t *call, CUDA_MEM_ALLOC_NODE_PARAMS *params, rc_work_t *work)
{
    rc_graph_memory_t *memory;
    CUresult result = rc_graph_memory_make(call, params, &memory);
    if (result)
        return result;
    begin(work, CU_GRAPH_NODE_TYPE_MEM_ALLOC, NULL);
    work->memory = memory;
    return CUDA_SUCCESS;
}

CUresult rc_work_mem_free(uint64_t address, rc_work_t *work)
{
    rc_graph_memory_t *memory = rc_graph_memory_at(address);
    if (!memory)
        return CUDA_ERROR_INVALID_VALUE;
    begin(work, CU_GRAPH_NODE_TYPE_MEM_FREE, NULL);
    work->memory = memory;
    memory->refs++;
    return CUDA_SUCCESS;
}

/* ---- all ---- */

CUresult rc_work_clone(const rc_work_t *work, rc_work_t *copy)
{
    rc_work_t made = *work;
    CUresult result = CUDA_SUCCESS;
    switch (work->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        result = clone_kernel(&work->kernel, &made.kernel);
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        result = rc_graph_clone(work->child, 1, &made.child);
        if (!result)
            made.child->owned = 1;
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        made.values.ops = malloc(work->values.count * sizeof(*made.values.ops));
        if (made.values.ops)
            memcpy(made.values.ops, work->values.ops,
                   work->values.count * sizeof(*made.values.ops));
        else
            result = CUDA_ERROR_OUT_OF_MEMORY;
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        work->memory->refs++;
        break;
    default:
        break;
    }
    if (!result)
        *copy = made;
    return result;
}

void rc_work_keep_attributes(rc_work_t *work, const rc_work_t *old)
{
    if (work->type != CU_GRAPH_NODE_TYPE_KERNEL || old->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return;
    work->kernel.launch.cooperative = old->kernel.launch.cooperative;
    work->kernel.priority = old->kernel.priority;
}

void rc_work_drop(rc_work_t *work)
{
    if (work->type == CU_GRAPH_NODE_TYPE_KERNEL) {
        free(work->kernel.params);
        free(work->kernel.pointers);
    } else if (work->type == CU_GRAPH_NODE_TYPE_GRAPH) {
        rc_graph_end(work->child);
    } else if (work->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
        free(work->values.ops);
    } else if (work->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
               work->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
        rc_graph_memory_put(work->memory);
    }
    rc_work_empty(work);
}

static int same_kernel(const rc_kernel_work_t *a, const rc_kernel_work_t *b)
{
    return memcmp(&a->launch, &b->launch, sizeof(a->launch)) == 0 && a->priority == b->priority &&
           memcmp(a->params, b->params, a->launch.params) == 0;
}

int rc_work_same(const rc_work_t *a, const rc_work_t *b)
{
    if (a->type != b->type || a->context != b->context)
        return 0;
    switch (a->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return same_kernel(&a->kernel, &b->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return memcmp(&a->copy, &b->copy, sizeof(a->copy)) == 0;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return memcmp(&a->fill, &b->fill, sizeof(a->fill)) == 0;
    case CU_GRAPH_NODE_TYPE_HOST:
        return a->host.fn == b->host.fn && a->host.userData == b->host.userData;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return a->event == b->event;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return a->values.count == b->values.count &&
               memcmp(a->values.ops, b->values.ops, a->values.count * sizeof(*a->values.ops)) == 0;
    default:
        return 1;
    }
}

CUresult rc_work_encode(const rc_work_t *work, uint64_t token, rc_work_body_t *body)
{
    const rc_object_t *event;
    CUresult result = CUDA_SUCCESS;
    body->head = body->tail = NULL;
    body->head_size = body->tail_size = 0;
    body->priority = 0;
    body->type = work->type;
    switch (work->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        body->head = &work->kernel.launch;
        body->head_size = sizeof(work->kernel.launch);
        body->tail = work->kernel.params;
        body->tail_size = work->kernel.launch.params;
        body->priority = work->kernel.priority;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return encode_copy(work, token, body);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        result = encode_fill(&work->fill, &body->fill);
        body->head = &body->fill;
        body->head_size = sizeof(body->fill);
        return result;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        event = rc_object_get(RC_EVENT, work->event);
        if (!event)
            return CUDA_ERROR_INVALID_HANDLE;
        body->number = event->number;
        body->head = &body->number;
        body->head_size = sizeof(body->number);
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_HOST:
        body->number = token;
        body->head = &body->number;
        body->head_size = sizeof(body->number);
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        encode_values(&work->values, body->values);
        body->head = body->values;
        body->head_size = work->values.count * sizeof(*body->values);
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: /* the launch sees to it */
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        body->type = CU_GRAPH_NODE_TYPE_EMPTY;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

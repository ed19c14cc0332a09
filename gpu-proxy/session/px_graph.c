/* Executable graphs: the nodes come one by one, then the graph is instantiated; after that it is launched
 * and changed. All of it runs on the dispatcher. */
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/session/px_host.h"
#include "gpu-proxy/session/px_state.h"
#include "proto/px_wire_graph.h"

/* A position: one node of the driver's, or two for a copy from or to the client. */
typedef struct {
    CUgraphNode first, last; /* what comes before it goes to the first, what follows to the last */
    CUgraphNode main;        /* the one whose parameters change */
    CUDA_HOST_NODE_PARAMS host; /* calls the client; fn NULL: there is none */
    uint64_t side;              /* of a copy: PX_WIRE_NO_CLIENT ... */
    uint8_t *buffer;            /* the client's side of the copy */
    uint64_t size;
    int followed; /* something depends on it */
} slot_t;

/* Buffers that launches under way may still use. */
typedef struct retired {
    struct retired *next;
    void *buffer;
} retired_t;

struct px_graph {
    CUgraph graph;    /* kept: its nodes name those of `exec` */
    CUgraphExec exec; /* NULL until instantiated */
    slot_t *slots;    /* by position */
    uint32_t count, room;
    CUresult failed; /* of a node; the answer to the instantiation */
    int hosted; /* calls the client; then it counts its launches, because they use its memory */
    pthread_mutex_t lock;
    uint64_t launched, ended;
    int forgotten;
    retired_t *retired;
};

static void graph_free(px_graph_t *graph)
{
    for (uint32_t i = 0; i < graph->count; i++) {
        if (graph->slots[i].host.fn)
            px_host_node_free(&graph->slots[i].host);
        free(graph->slots[i].buffer);
    }
    while (graph->retired) {
        retired_t *retired = graph->retired;
        graph->retired = retired->next;
        free(retired->buffer);
        free(retired);
    }
    pthread_mutex_destroy(&graph->lock);
    free(graph->slots);
    free(graph);
}

/* The last node of a graph that calls the client: no launch under way, no user of its memory. */
static void on_end(void *arg)
{
    px_graph_t *graph = arg;
    pthread_mutex_lock(&graph->lock);
    int last = ++graph->ended == graph->launched && graph->forgotten;
    pthread_mutex_unlock(&graph->lock);
    if (last)
        graph_free(graph);
}

void px_graph_forget(px_session_t *s, px_graph_t *graph)
{
    if (graph->exec)
        s->cuda->cuGraphExecDestroy(graph->exec);
    s->cuda->cuGraphDestroy(graph->graph);
    pthread_mutex_lock(&graph->lock);
    graph->forgotten = 1;
    int idle = graph->ended == graph->launched;
    pthread_mutex_unlock(&graph->lock);
    if (idle || !graph->hosted)
        graph_free(graph);
}

/* The graph of that number, new with its first node. */
static CUresult graph_for(px_call_t *call, const px_wire_node_t *node, px_graph_t **out)
{
    px_graph_t *graph = px_object_get(call->session, PX_GRAPH, node->exec);
    *out = graph;
    if (graph || node->position != 0)
        return graph && !graph->exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    graph = calloc(1, sizeof(*graph));
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_init(&graph->lock, NULL);
    CUresult result = call->cuda->cuGraphCreate(&graph->graph, 0);
    if (!result) {
        result = px_object_put(call, PX_GRAPH, node->exec, graph);
        if (result)
            call->cuda->cuGraphDestroy(graph->graph);
    }
    if (result)
        graph_free(graph);
    else
        *out = graph;
    return result;
}

/* ---- what a node does ---- */

/* Bytes of one copy from or to the client. */
#define BUFFER_MOST (4ull << 30)

/* A body in the driver's terms. */
typedef struct {
    CUgraphNodeParams params;
    uint64_t side, token; /* of a copy from or to the client; token also of a host function */
    size_t param_bytes;
    void *extra[5];
    CUstreamBatchMemOpParams ops[PX_WIRE_VALUES];
} decoded_t;

static CUresult decode_kernel(px_call_t *call, const px_wire_node_t *node, const uint8_t *body,
                              decoded_t *d)
{
    const px_wire_launch_t *l = (const void *)body;
    if (node->body < sizeof(*l) || l->params > node->body - sizeof(*l))
        return CUDA_ERROR_INVALID_VALUE;
    d->param_bytes = l->params;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)(body + sizeof(*l)),
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &d->param_bytes, CU_LAUNCH_PARAM_END};
    memcpy(d->extra, extra, sizeof(extra));
    d->params.kernel.func = px_function(call, l->function);
    d->params.kernel.gridDimX = l->grid[0];
    d->params.kernel.gridDimY = l->grid[1];
    d->params.kernel.gridDimZ = l->grid[2];
    d->params.kernel.blockDimX = l->block[0];
    d->params.kernel.blockDimY = l->block[1];
    d->params.kernel.blockDimZ = l->block[2];
    d->params.kernel.sharedMemBytes = l->shared;
    d->params.kernel.extra = l->params ? d->extra : NULL;
    return call->bad;
}

/* Room for the client's side of the copy. */
static CUresult make_buffer(px_graph_t *graph, slot_t *slot, const px_wire_graph_copy_t *c)
{
    uint64_t size;
    if (__builtin_mul_overflow(c->width, c->height, &size) ||
        __builtin_mul_overflow(size, c->depth, &size) || size > BUFFER_MOST)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (size <= slot->size && slot->buffer)
        return CUDA_SUCCESS;
    uint8_t *buffer = malloc(size ? size : 1);
    retired_t *retired = slot->buffer ? malloc(sizeof(*retired)) : NULL;
    if (!buffer || (slot->buffer && !retired)) {
        free(buffer);
        free(retired);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (retired) {
        *retired = (retired_t){graph->retired, slot->buffer};
        graph->retired = retired;
    }
    slot->buffer = buffer;
    slot->size = size;
    return CUDA_SUCCESS;
}

/* A side that is an array. */
static CUresult use_array(px_call_t *call, uint64_t number, CUmemorytype *type, CUarray *array)
{
    *array = px_object_get(call->session, PX_ARRAY, number);
    *type = CU_MEMORYTYPE_ARRAY;
    return *array ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult decode_copy(px_call_t *call, px_graph_t *graph, slot_t *slot,
                            const px_wire_node_t *node, const uint8_t *body, decoded_t *d)
{
    const px_wire_graph_copy_t *c = (const void *)body;
    if (node->body < sizeof(*c) || c->side > PX_WIRE_FROM_CLIENT)
        return CUDA_ERROR_INVALID_VALUE;
    d->side = c->side;
    d->token = c->token;
    CUresult result = c->side ? make_buffer(graph, slot, c) : CUDA_SUCCESS;
    if (result)
        return result;
    CUDA_MEMCPY3D *copy = &d->params.memcpy.copyParams;
    copy->srcMemoryType = copy->dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy->srcDevice = c->src;
    copy->srcPitch = c->src_pitch;
    copy->srcHeight = c->src_height;
    copy->dstDevice = c->dst;
    copy->dstPitch = c->dst_pitch;
    copy->dstHeight = c->dst_height;
    copy->WidthInBytes = c->width;
    copy->Height = c->height;
    copy->Depth = c->depth;
    if (c->side == PX_WIRE_TO_CLIENT) {
        copy->dstMemoryType = CU_MEMORYTYPE_HOST;
        copy->dstHost = slot->buffer;
        copy->dstPitch = c->width;
        copy->dstHeight = c->height;
    } else if (c->side == PX_WIRE_FROM_CLIENT) {
        copy->srcMemoryType = CU_MEMORYTYPE_HOST;
        copy->srcHost = slot->buffer;
        copy->srcPitch = c->width;
        copy->srcHeight = c->height;
    }
    if (c->dst_array) {
        result = use_array(call, c->dst_array, &copy->dstMemoryType, &copy->dstArray);
        copy->dstXInBytes = c->dst_at[0];
        copy->dstY = c->dst_at[1];
        copy->dstZ = c->dst_at[2];
    }
    if (!result && c->src_array) {
        result = use_array(call, c->src_array, &copy->srcMemoryType, &copy->srcArray);
        copy->srcXInBytes = c->src_at[0];
        copy->srcY = c->src_at[1];
        copy->srcZ = c->src_at[2];
    }
    return result;
}

static CUresult decode_fill(const px_wire_node_t *node, const uint8_t *body, decoded_t *d)
{
    const px_wire_graph_fill_t *f = (const void *)body;
    if (node->body < sizeof(*f))
        return CUDA_ERROR_INVALID_VALUE;
    d->params.memset.dst = f->dst;
    d->params.memset.pitch = f->pitch;
    d->params.memset.value = f->value;
    d->params.memset.elementSize = f->element;
    d->params.memset.width = f->width;
    d->params.memset.height = f->height;
    return CUDA_SUCCESS;
}

static CUresult decode_event(px_call_t *call, const px_wire_node_t *node, const uint8_t *body,
                             decoded_t *d)
{
    if (node->body < sizeof(uint64_t))
        return CUDA_ERROR_INVALID_VALUE;
    CUevent event = px_event(call, *(const uint64_t *)(const void *)body);
    if (node->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
        d->params.eventWait.event = event;
    else
        d->params.eventRecord.event = event;
    return call->bad;
}

static CUresult decode_values(const px_wire_node_t *node, const uint8_t *body, decoded_t *d)
{
    const px_wire_value_t *v = (const void *)body;
    uint32_t count = node->body / (uint32_t)sizeof(*v);
    if (!count || count > PX_WIRE_VALUES)
        return CUDA_ERROR_INVALID_VALUE;
    memset(d->ops, 0, count * sizeof(d->ops[0]));
    for (uint32_t i = 0; i < count; i++) {
        CUstreamBatchMemOpParams *op = &d->ops[i];
        op->operation = (CUstreamBatchMemOpType)v[i].operation;
        if (op->operation == CU_STREAM_MEM_OP_BARRIER) {
            op->memoryBarrier.flags = v[i].flags;
            continue;
        }
        op->waitValue.address = v[i].address; /* writes have the same in the same places */
        op->waitValue.value64 = v[i].value;
        op->waitValue.flags = v[i].flags;
    }
    d->params.memOp.count = count;
    d->params.memOp.paramArray = d->ops;
    return CUDA_SUCCESS;
}

static CUresult decode(px_call_t *call, px_graph_t *graph, slot_t *slot, const px_wire_node_t *node,
                       const uint8_t *body, decoded_t *d)
{
    memset(&d->params, 0, sizeof(d->params));
    d->side = d->token = 0;
    d->params.type = (CUgraphNodeType)node->type;
    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return decode_kernel(call, node, body, d);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return decode_copy(call, graph, slot, node, body, d);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return decode_fill(node, body, d);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return decode_event(call, node, body, d);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return decode_values(node, body, d);
    case CU_GRAPH_NODE_TYPE_HOST:
        if (node->body < sizeof(uint64_t))
            return CUDA_ERROR_INVALID_VALUE;
        d->token = *(const uint64_t *)(const void *)body;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- adding ---- */

static CUresult add_host(px_call_t *call, px_graph_t *graph, slot_t *slot, uint64_t token,
                         const CUgraphNode *deps, size_t count, CUgraphNode *out)
{
    CUresult result = px_host_node(call->session, token, &slot->host);
    if (!result)
        result = call->cuda->cuGraphAddHostNode(out, graph->graph, deps, count, &slot->host);
    graph->hosted = 1;
    return result;
}

/* A driver of before CUDA 12.3 has one call for each kind of node; so these are used with all. */
static CUresult add_driver_node(px_call_t *call, CUgraph graph, decoded_t *d,
                                const CUgraphNode *deps, size_t count, CUgraphNode *out)
{
    const gb_cuda_table_t *cuda = call->cuda;
    CUgraphNodeParams *p = &d->params;
    CUcontext context = call->context ? atomic_load(&call->context->handle) : NULL;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
        CUDA_KERNEL_NODE_PARAMS kernel;
        _Static_assert(sizeof(kernel) == sizeof(p->kernel), "the same under two names");
        memcpy(&kernel, &p->kernel, sizeof(kernel));
        return cuda->cuGraphAddKernelNode_v2(out, graph, deps, count, &kernel);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuda->cuGraphAddMemcpyNode(out, graph, deps, count, &p->memcpy.copyParams, context);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS fill = {p->memset.dst,         p->memset.pitch, p->memset.value,
                                        p->memset.elementSize, p->memset.width, p->memset.height};
        return cuda->cuGraphAddMemsetNode(out, graph, deps, count, &fill, context);
    }
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuda->cuGraphAddEventWaitNode(out, graph, deps, count, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuda->cuGraphAddEventRecordNode(out, graph, deps, count, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
        CUDA_BATCH_MEM_OP_NODE_PARAMS values = {context, p->memOp.count, p->memOp.paramArray, 0};
        return cuda->cuGraphAddBatchMemOpNode(out, graph, deps, count, &values);
    }
    default:
        return cuda->cuGraphAddEmptyNode(out, graph, deps, count);
    }
}

/* Attributes of a kernel that its parameters do not have. */
static CUresult set_attributes(px_call_t *call, CUgraphNode node, const px_wire_node_t *wire,
                               const uint8_t *body)
{
    const px_wire_launch_t *l = (const void *)body;
    CUkernelNodeAttrValue value;
    CUresult result = CUDA_SUCCESS;
    if (wire->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_SUCCESS;
    memset(&value, 0, sizeof(value));
    if (l->cooperative) {
        value.cooperative = 1;
        result = call->cuda->cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                                           &value);
    }
    if (!result && wire->priority) {
        value.priority = wire->priority;
        result =
            call->cuda->cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
    }
    return result;
}

/* The node or nodes of a position. */
static CUresult add_slot(px_call_t *call, px_graph_t *graph, slot_t *slot, decoded_t *d,
                         const CUgraphNode *deps, size_t count)
{
    CUresult result;
    if (d->params.type == CU_GRAPH_NODE_TYPE_HOST) {
        result = add_host(call, graph, slot, d->token, deps, count, &slot->main);
        slot->first = slot->last = slot->main;
        return result;
    }
    if (d->side == PX_WIRE_FROM_CLIENT) {
        result = add_host(call, graph, slot, d->token, deps, count, &slot->first);
        deps = &slot->first;
        count = 1;
        if (result)
            return result;
    }
    result = add_driver_node(call, graph->graph, d, deps, count, &slot->main);
    slot->last = slot->main;
    if (d->side != PX_WIRE_FROM_CLIENT)
        slot->first = slot->main;
    if (!result && d->side == PX_WIRE_TO_CLIENT)
        result = add_host(call, graph, slot, d->token, &slot->main, 1, &slot->last);
    slot->side = d->side;
    return result;
}

static int room_for_node(px_graph_t *graph)
{
    if (graph->count < graph->room)
        return 1;
    uint32_t room = graph->room * 2 + 16;
    slot_t *grown =
        graph->count < PX_WIRE_GRAPH_NODES ? realloc(graph->slots, room * sizeof(*grown)) : NULL;
    if (!grown)
        return 0;
    graph->slots = grown;
    graph->room = room;
    return 1;
}

static CUresult add_node(px_call_t *call, px_graph_t *graph, const px_wire_node_t *node,
                         const uint8_t *body)
{
    const uint32_t *at = (const void *)(call->payload + sizeof(*node));
    if (node->position != graph->count || !room_for_node(graph))
        return node->position != graph->count ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    decoded_t *d = malloc(sizeof(*d));
    CUgraphNode *deps = malloc((node->deps + 1) * sizeof(*deps));
    uint32_t before = graph->count;
    slot_t *slot = &graph->slots[before];
    memset(slot, 0, sizeof(*slot));
    graph->count++; /* also after a failure, which ends the graph: what the slot has goes with it */
    CUresult result =
        d && deps ? decode(call, graph, slot, node, body, d) : CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; !result && i < node->deps; i++) {
        if (at[i] < before) {
            deps[i] = graph->slots[at[i]].last;
            graph->slots[at[i]].followed = 1;
        } else {
            result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (!result)
        result = add_slot(call, graph, slot, d, deps, node->deps);
    if (!result)
        result = set_attributes(call, slot->main, node, body);
    free(d);
    free(deps);
    return result;
}

/* px_wire_node_t, dependencies, body. A failure is told when the graph is instantiated. */
CUresult px_graph_node(px_call_t *call)
{
    const px_wire_node_t *node = (const void *)call->payload;
    uint64_t left = call->frame.length - sizeof(*node);
    px_graph_t *graph;
    CUresult result = graph_for(call, node, &graph);
    if (result)
        return result;
    if (node->deps > left / 4 || px_wire_pad(node->deps * 4) > left ||
        node->body > left - px_wire_pad(node->deps * 4))
        result = CUDA_ERROR_INVALID_VALUE;
    else if (!graph->failed)
        result = add_node(call, graph, node,
                          call->payload + sizeof(*node) + px_wire_pad(node->deps * 4));
    if (result)
        graph->failed = result;
    call->bad = CUDA_SUCCESS;
    return CUDA_SUCCESS;
}

/* Behind everything else, see on_end(). */
static CUresult add_end(px_call_t *call, px_graph_t *graph)
{
    CUgraphNode end, *deps = malloc((graph->count + 1) * sizeof(*deps));
    size_t count = 0;
    if (!deps)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < graph->count; i++)
        if (!graph->slots[i].followed)
            deps[count++] = graph->slots[i].last;
    CUDA_HOST_NODE_PARAMS params = {on_end, graph};
    CUresult result = call->cuda->cuGraphAddHostNode(&end, graph->graph, deps, count, &params);
    free(deps);
    return result;
}

/* u64 exec, u64 number of nodes, u64 flags */
CUresult px_do_cuGraphInstantiateWithFlags(px_call_t *call)
{
    const gb_cuda_table_t *cuda = call->cuda;
    px_graph_t *graph = NULL;
    px_wire_node_t none = {.exec = (uint32_t)call->args[0]};
    if (call->args[0] > UINT32_MAX)
        return CUDA_ERROR_INVALID_HANDLE;
    none.position = call->args[1] != 0; /* a graph without nodes is made here */
    CUresult result = graph_for(call, &none, &graph);
    if (result)
        return result;
    if (graph->failed)
        result = graph->failed;
    else if (graph->count != call->args[1])
        result = CUDA_ERROR_INVALID_VALUE;
    else if (graph->hosted)
        result = add_end(call, graph);
    if (!result)
        result = cuda->cuGraphInstantiateWithFlags(&graph->exec, graph->graph, call->args[2]);
    if (result) {
        px_object_take(call->session, PX_GRAPH, call->args[0]);
        graph->exec = NULL;
        px_graph_forget(call->session, graph);
    }
    return result;
}

/* ---- using ---- */

static px_graph_t *executable(px_call_t *call, uint64_t number)
{
    px_graph_t *graph = px_object_get(call->session, PX_GRAPH, number);
    if (!graph || !graph->exec)
        call->bad = CUDA_ERROR_INVALID_HANDLE;
    return call->bad ? NULL : graph;
}

/* u64 exec, u64 stream */
CUresult px_do_cuGraphLaunch(px_call_t *call)
{
    px_graph_t *graph = executable(call, call->args[0]);
    CUstream stream = px_stream(call, call->args[1]);
    if (call->bad)
        return call->bad;
    if (!graph->hosted)
        return call->cuda->cuGraphLaunch(graph->exec, stream);
    pthread_mutex_lock(&graph->lock);
    graph->launched++;
    pthread_mutex_unlock(&graph->lock);
    CUresult result = call->cuda->cuGraphLaunch(graph->exec, stream);
    if (result) { /* it does not come to its end */
        pthread_mutex_lock(&graph->lock);
        graph->launched--;
        pthread_mutex_unlock(&graph->lock);
    }
    return result;
}

/* The buffer that the client may touch, with at least `size` bytes from `offset` on. */
static slot_t *buffer_of(px_call_t *call, uint64_t offset, uint64_t size)
{
    px_graph_t *graph = executable(call, call->args[0]);
    slot_t *slot = graph && call->args[1] < graph->count ? &graph->slots[call->args[1]] : NULL;
    return slot && slot->buffer && offset <= slot->size && size <= slot->size - offset ? slot
                                                                                       : NULL;
}

/* u64 exec, u64 node, u64 offset, u64 size, the bytes */
CUresult px_graph_bytes(px_call_t *call)
{
    uint64_t offset = call->args[2], size = call->args[3];
    slot_t *slot = buffer_of(call, offset, size);
    if (!slot || size > call->frame.length - 32)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(slot->buffer + offset, call->payload + 32, size);
    return CUDA_SUCCESS;
}

/* u64 exec, u64 node, u64 size -> pieces */
CUresult px_graph_fetch(px_call_t *call)
{
    uint64_t size = call->args[2];
    slot_t *slot = buffer_of(call, 0, size);
    if (!slot)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t done = 0; done < size;) {
        uint64_t piece = size - done < PX_WIRE_PIECE ? size - done : PX_WIRE_PIECE;
        if (px_send_piece(call, done, slot->buffer + done, (uint32_t)piece, NULL) != GB_OK)
            return CUDA_ERROR_UNKNOWN; /* nobody is there to read it: the session ends */
        done += piece;
    }
    return CUDA_SUCCESS;
}

/* u64 exec, u64 stream */
CUresult px_do_cuGraphUpload(px_call_t *call)
{
    px_graph_t *graph = executable(call, call->args[0]);
    CUstream stream = px_stream(call, call->args[1]);
    return call->bad ? call->bad : call->cuda->cuGraphUpload(graph->exec, stream);
}

/* u64 exec */
CUresult px_do_cuGraphExecDestroy(px_call_t *call)
{
    px_graph_t *graph = px_object_take(call->session, PX_GRAPH, call->args[0]);
    if (!graph)
        return CUDA_ERROR_INVALID_HANDLE;
    px_graph_forget(call->session, graph);
    return CUDA_SUCCESS;
}

/* u64 exec, u64 position, u64 enabled */
CUresult px_do_cuGraphNodeSetEnabled(px_call_t *call)
{
    px_graph_t *graph = executable(call, call->args[0]);
    if (!graph)
        return call->bad;
    if (call->args[1] >= graph->count)
        return CUDA_ERROR_INVALID_VALUE;
    return call->cuda->cuGraphNodeSetEnabled(graph->exec, graph->slots[call->args[1]].main,
                                             call->args[2] != 0);
}

/* In the graph that names the nodes: there are no calls for a node's attributes in an executable one, so
 * where they change it is updated from here. */
static CUresult set_template_node(px_call_t *call, CUgraphNode node, decoded_t *d)
{
    const gb_cuda_table_t *cuda = call->cuda;
    CUgraphNodeParams *p = &d->params;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
        CUDA_KERNEL_NODE_PARAMS kernel;
        memcpy(&kernel, &p->kernel, sizeof(kernel));
        return cuda->cuGraphKernelNodeSetParams_v2(node, &kernel);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuda->cuGraphMemcpyNodeSetParams(node, &p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS fill = {p->memset.dst,         p->memset.pitch, p->memset.value,
                                        p->memset.elementSize, p->memset.width, p->memset.height};
        return cuda->cuGraphMemsetNodeSetParams(node, &fill);
    }
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuda->cuGraphEventWaitNodeSetEvent(node, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuda->cuGraphEventRecordNodeSetEvent(node, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
        CUcontext context = call->context ? atomic_load(&call->context->handle) : NULL;
        CUDA_BATCH_MEM_OP_NODE_PARAMS values = {context, p->memOp.count, p->memOp.paramArray, 0};
        return cuda->cuGraphBatchMemOpNodeSetParams(node, &values);
    }
    default:
        return CUDA_SUCCESS;
    }
}

/* Sets the node's attributes; *changed tells whether they were others. */
static CUresult change_attributes(px_call_t *call, CUgraphNode node, const px_wire_node_t *wire,
                                  const uint8_t *body, int *changed)
{
    const px_wire_launch_t *l = (const void *)body;
    CUkernelNodeAttrValue value;
    *changed = 0;
    if (wire->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_SUCCESS;
    memset(&value, 0, sizeof(value));
    CUresult result =
        call->cuda->cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value);
    if (!result && !value.cooperative != !l->cooperative) {
        *changed = 1;
        value.cooperative = l->cooperative != 0;
        result = call->cuda->cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                                           &value);
    }
    memset(&value, 0, sizeof(value));
    if (!result)
        result =
            call->cuda->cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
    if (!result && value.priority != wire->priority) {
        *changed = 1;
        value.priority = wire->priority;
        result =
            call->cuda->cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
    }
    return result;
}

static CUresult set_driver_node(px_call_t *call, CUgraphExec exec, CUgraphNode node, decoded_t *d)
{
    const gb_cuda_table_t *cuda = call->cuda;
    CUgraphNodeParams *p = &d->params;
    CUcontext context = call->context ? atomic_load(&call->context->handle) : NULL;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
        CUDA_KERNEL_NODE_PARAMS kernel;
        memcpy(&kernel, &p->kernel, sizeof(kernel));
        return cuda->cuGraphExecKernelNodeSetParams_v2(exec, node, &kernel);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuda->cuGraphExecMemcpyNodeSetParams(exec, node, &p->memcpy.copyParams, context);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS fill = {p->memset.dst,         p->memset.pitch, p->memset.value,
                                        p->memset.elementSize, p->memset.width, p->memset.height};
        return cuda->cuGraphExecMemsetNodeSetParams(exec, node, &fill, context);
    }
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuda->cuGraphExecEventWaitNodeSetEvent(exec, node, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuda->cuGraphExecEventRecordNodeSetEvent(exec, node, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
        CUDA_BATCH_MEM_OP_NODE_PARAMS values = {context, p->memOp.count, p->memOp.paramArray, 0};
        return cuda->cuGraphExecBatchMemOpNodeSetParams(exec, node, &values);
    }
    default:
        return CUDA_SUCCESS; /* empty nodes have nothing to change */
    }
}

/* px_wire_node_t, body */
CUresult px_do_cuGraphExecNodeSetParams(px_call_t *call)
{
    const px_wire_node_t *node = (const void *)call->payload;
    px_graph_t *graph = executable(call, node->exec);
    if (!graph)
        return call->bad;
    if (node->position >= graph->count || node->deps ||
        node->body > call->frame.length - sizeof(*node))
        return CUDA_ERROR_INVALID_VALUE;
    decoded_t *d = malloc(sizeof(*d));
    slot_t *slot = &graph->slots[node->position];
    CUresult result = d ? decode(call, graph, slot, node, call->payload + sizeof(*node), d)
                        : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result && (d->side != slot->side || d->params.type == CU_GRAPH_NODE_TYPE_HOST))
        result = CUDA_ERROR_INVALID_VALUE;
    CUgraphNode at = slot->main;
    CUgraphExecUpdateResultInfo info;
    int changed = 0;
    if (!result)
        result = set_template_node(call, at, d);
    if (!result)
        result = change_attributes(call, at, node, call->payload + sizeof(*node), &changed);
    if (!result)
        result = changed ? call->cuda->cuGraphExecUpdate_v2(graph->exec, graph->graph, &info)
                         : set_driver_node(call, graph->exec, at, d);
    free(d);
    return result;
}

/* Executable graphs: the nodes come one by one, then the graph is instantiated; after that it is launched
 * and changed. All of it runs on the dispatcher. */
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/session/px_state.h"
#include "proto/px_wire_graph.h"

struct px_graph {
    CUgraph graph;      /* kept: its nodes name those of `exec` */
    CUgraphExec exec;   /* NULL until instantiated */
    CUgraphNode *nodes; /* by position */
    uint32_t count, room;
    CUresult failed; /* of a node; the answer to the instantiation */
};

void px_graph_forget(px_session_t *s, px_graph_t *graph)
{
    if (graph->exec)
        s->cuda->cuGraphExecDestroy(graph->exec);
    s->cuda->cuGraphDestroy(graph->graph);
    free(graph->nodes);
    free(graph);
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
    CUresult result = call->cuda->cuGraphCreate(&graph->graph, 0);
    if (!result) {
        result = px_object_put(call, PX_GRAPH, node->exec, graph);
        if (result)
            call->cuda->cuGraphDestroy(graph->graph);
    }
    if (result)
        free(graph);
    else
        *out = graph;
    return result;
}

/* ---- what a node does ---- */

/* A body in the driver's terms. */
typedef struct {
    CUgraphNodeParams params;
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

static CUresult decode_copy(const px_wire_node_t *node, const uint8_t *body, decoded_t *d)
{
    const px_wire_graph_copy_t *c = (const void *)body;
    if (node->body < sizeof(*c))
        return CUDA_ERROR_INVALID_VALUE;
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
    return CUDA_SUCCESS;
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

static CUresult decode(px_call_t *call, const px_wire_node_t *node, const uint8_t *body,
                       decoded_t *d)
{
    memset(&d->params, 0, sizeof(d->params));
    d->params.type = (CUgraphNodeType)node->type;
    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return decode_kernel(call, node, body, d);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return decode_copy(node, body, d);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return decode_fill(node, body, d);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return decode_event(call, node, body, d);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return decode_values(node, body, d);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- adding ---- */

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

static int room_for_node(px_graph_t *graph)
{
    if (graph->count < graph->room)
        return 1;
    uint32_t room = graph->room * 2 + 16;
    CUgraphNode *grown =
        graph->count < PX_WIRE_GRAPH_NODES ? realloc(graph->nodes, room * sizeof(*grown)) : NULL;
    if (!grown)
        return 0;
    graph->nodes = grown;
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
    CUresult result = d && deps ? decode(call, node, body, d) : CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; !result && i < node->deps; i++) {
        if (at[i] < graph->count)
            deps[i] = graph->nodes[at[i]];
        else
            result = CUDA_ERROR_INVALID_VALUE;
    }
    CUgraphNode made = NULL;
    if (!result)
        result = add_driver_node(call, graph->graph, d, deps, node->deps, &made);
    if (!result)
        result = set_attributes(call, made, node, body);
    if (!result)
        graph->nodes[graph->count++] = made;
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
    else
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
    return call->bad ? call->bad : call->cuda->cuGraphLaunch(graph->exec, stream);
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
    return call->cuda->cuGraphNodeSetEnabled(graph->exec, graph->nodes[call->args[1]],
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
    CUresult result =
        d ? decode(call, node, call->payload + sizeof(*node), d) : CUDA_ERROR_OUT_OF_MEMORY;
    CUgraphNode at = graph->nodes[node->position];
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

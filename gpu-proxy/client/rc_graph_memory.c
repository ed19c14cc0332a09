#include "gpu-proxy/client/rc_graph_memory.h"

#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/client/rc_graph.h"

typedef struct {
    uint64_t used, used_high, reserved, reserved_high;
} usage_t;

static rc_graph_memory_t *all; /* not referenced */
static usage_t usage[RC_DEVICES];
static atomic_int any; /* there has been some */

static usage_t *usage_of(const rc_graph_memory_t *m)
{
    return &usage[m->device - rc.devices];
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- beginning and end ---- */

static CUresult check(const CUDA_MEM_ALLOC_NODE_PARAMS *p, rc_device_t **device)
{
    if (!p || !p->bytesize || p->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        p->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (p->accessDescCount && !p->accessDescs) || p->accessDescCount > RC_DEVICES ||
        p->poolProps.handleTypes)
        return CUDA_ERROR_INVALID_VALUE;
    *device = rc_device(p->poolProps.location.id);
    return *device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult rc_graph_memory_make(rc_call_t *call, CUDA_MEM_ALLOC_NODE_PARAMS *params,
                              rc_graph_memory_t **memory)
{
    rc_device_t *device;
    CUresult result = check(params, &device);
    if (!result && !call->context)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result)
        return result;
    rc_object_t *context = rc_device_context(device);
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT; /* the device has none that the memory could be of */
    size_t size = params->accessDescCount * sizeof(*params->accessDescs);
    rc_graph_memory_t *m = calloc(1, sizeof(*m));
    CUmemAccessDesc *access = malloc(size + 1);
    rc_call_t there = {
        .lane = call->lane, .context = context, .owner = context, .session = context->session};
    uint64_t bytes = params->bytesize, base = 0;
    result = m && access ? rc_ask(&there, GB_OP_cuMemAlloc_v2, &bytes, 1, &base, 1)
                         : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        result = rc_block_add(RC_BLOCK_GRAPH, base, bytes, context, 0);
    if (result) {
        free(access);
        free(m);
        return result;
    }
    if (size)
        memcpy(access, params->accessDescs, size);
    params->dptr = base;
    *m = (rc_graph_memory_t){.refs = 1,
                             .device = device,
                             .context = rc_handle(context),
                             .base = base,
                             .bytes = (bytes + 255) & ~255ull,
                             .params = *params};
    m->params.accessDescs = access;
    rc_graph_lock();
    m->next = all;
    all = m;
    atomic_store_explicit(&any, 1, memory_order_release);
    usage_t *u = usage_of(m);
    u->reserved += m->bytes;
    u->reserved_high = larger(u->reserved_high, u->reserved);
    rc_graph_unlock();
    *memory = m;
    return CUDA_SUCCESS;
}

/* The session keeps it from others until the device has come past the work that uses it. */
static void give_back(const rc_graph_memory_t *m)
{
    rc_block_t block;
    rc_object_t *context = rc_object_get(RC_CONTEXT, m->context);
    if (!context || !rc_block_take(RC_BLOCK_GRAPH, m->base, &block))
        return;
    rc_call_t call = {.lane = rc_lane(), .owner = context, .session = context->session};
    uint64_t args[2] = {m->base, m->device->index};
    rc_post(&call, GB_OP_cuMemFree_v2, args, 2); /* a lost session has no memory */
}

void rc_graph_memory_put(rc_graph_memory_t *m)
{
    if (--m->refs)
        return;
    for (rc_graph_memory_t **at = &all; *at; at = &(*at)->next) {
        if (*at == m) {
            *at = m->next;
            break;
        }
    }
    usage_of(m)->reserved -= m->bytes;
    give_back(m);
    free((void *)(uintptr_t)m->params.accessDescs);
    free(m);
}

rc_graph_memory_t *rc_graph_memory_at(uint64_t base)
{
    rc_graph_memory_t *m = all;
    while (m && (m->base != base || !m->context))
        m = m->next;
    return m;
}

void rc_graph_memory_forget_context(const rc_object_t *context)
{
    CUcontext handle = rc_handle(context);
    rc_graph_lock();
    for (rc_graph_memory_t *m = all, *next; m; m = next) {
        next = m->next;
        if (m->context != handle)
            continue;
        m->context = NULL;
        if (m->live) {
            m->live = 0;
            usage_of(m)->used -= m->bytes;
            rc_graph_memory_put(m);
        }
    }
    rc_graph_unlock();
}

/* ---- launches ---- */

static int simulate(const rc_memory_step_t *steps, size_t count, int auto_free)
{
    int good = 1;
    for (size_t i = 0; i < count; i++)
        steps[i].memory->will = steps[i].memory->live;
    for (size_t i = 0; good && i < count; i++) {
        rc_graph_memory_t *m = steps[i].memory;
        good = m->context && (steps[i].frees ? m->will : !m->will || auto_free);
        m->will = !steps[i].frees;
    }
    return good;
}

/* The most that is in use while the graph runs. */
static void count_peak(const rc_memory_step_t *steps, size_t count)
{
    uint64_t now[RC_DEVICES];
    for (int i = 0; i < RC_DEVICES; i++)
        now[i] = usage[i].used;
    for (size_t i = 0; i < count; i++)
        steps[i].memory->will = steps[i].memory->live;
    for (size_t i = 0; i < count; i++) {
        rc_graph_memory_t *m = steps[i].memory;
        uint64_t *at = &now[m->device - rc.devices];
        if (steps[i].frees)
            *at -= m->bytes;
        else if (!m->will)
            *at += m->bytes;
        m->will = !steps[i].frees;
        usage_of(m)->used_high = larger(usage_of(m)->used_high, *at);
    }
}

CUresult rc_graph_memory_launch(const rc_memory_step_t *steps, size_t count, int auto_free)
{
    if (!simulate(steps, count, auto_free))
        return CUDA_ERROR_INVALID_VALUE;
    count_peak(steps, count);
    for (size_t i = 0; i < count; i++) {
        rc_graph_memory_t *m = steps[i].memory;
        if (m->will && !m->live) {
            m->refs++;
            usage_of(m)->used += m->bytes;
        }
        int freed = !m->will && m->live;
        m->live = m->will;
        if (freed) {
            usage_of(m)->used -= m->bytes;
            rc_graph_memory_put(m); /* the graph has a reference too */
        }
    }
    return CUDA_SUCCESS;
}

int rc_graph_memory_free(uint64_t base, CUresult *result)
{
    if (!atomic_load_explicit(&any, memory_order_acquire))
        return 0;
    rc_graph_lock();
    rc_graph_memory_t *m = rc_graph_memory_at(base);
    if (m && m->live) {
        m->live = 0;
        usage_of(m)->used -= m->bytes;
        rc_graph_memory_put(m);
        *result = CUDA_SUCCESS;
    } else if (m) {
        *result = CUDA_ERROR_INVALID_VALUE;
    }
    rc_graph_unlock();
    return m != NULL;
}

/* ---- attributes ---- */

static uint64_t *counter(const rc_device_t *device, CUgraphMem_attribute attribute)
{
    usage_t *u = &usage[device - rc.devices];
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        return &u->used;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        return &u->used_high;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        return &u->reserved;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        return &u->reserved_high;
    default:
        return NULL;
    }
}

CUresult rc_graph_memory_attribute(const rc_device_t *device, CUgraphMem_attribute attribute,
                                   uint64_t *value)
{
    const uint64_t *c = counter(device, attribute);
    if (c)
        *value = *c;
    return c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult rc_graph_memory_reset(const rc_device_t *device, CUgraphMem_attribute attribute,
                               uint64_t value)
{
    if ((attribute != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
         attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) ||
        value)
        return CUDA_ERROR_INVALID_VALUE;
    *counter(device, attribute) = *counter(device, attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH
                                                       ? CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT
                                                       : CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
    return CUDA_SUCCESS;
}

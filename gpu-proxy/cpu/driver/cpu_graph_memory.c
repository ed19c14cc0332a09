#include "gpu-proxy/cpu/driver/cpu_graph_memory.h"

#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/driver/cpu_cells.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"

typedef struct {
    uint64_t used, used_high, reserved, reserved_high;
} usage_t;

static struct {
    pthread_mutex_t lock;
    cpu_graph_memory_t *first; /* all, not referenced: the end of an object takes it out */
    usage_t usage[CPU_MAX_DEVICES];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- beginning and end ---- */

static void destroy(cpu_object_t *object)
{
    cpu_graph_memory_t *m = (cpu_graph_memory_t *)object;
    cpu_memory_t entry;
    pthread_mutex_lock(&all.lock);
    if (m->previous)
        m->previous->next = m->next;
    else
        all.first = m->next;
    if (m->next)
        m->next->previous = m->previous;
    all.usage[m->device].reserved -= m->bytes;
    bool ours = m->context && cpu_memory_find(m->base, &entry) && entry.id == m->id;
    pthread_mutex_unlock(&all.lock);
    if (ours)
        (void)cpu_memory_free(CPU_MEMORY_DEVICE, m->base);
    free((void *)(uintptr_t)m->params.accessDescs);
    free(m);
}

static CUresult check(const CUDA_MEM_ALLOC_NODE_PARAMS *p, cpu_device_t **device)
{
    if (!p || !p->bytesize || p->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        p->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (p->accessDescCount && !p->accessDescs) || p->accessDescCount > CPU_MAX_DEVICES)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->poolProps.handleTypes) /* memory of graphs is not for other processes */
        return CUDA_ERROR_INVALID_VALUE;
    return cpu_device_get(p->poolProps.location.id, device);
}

static void enter(cpu_graph_memory_t *m)
{
    usage_t *usage = &all.usage[m->device];
    pthread_mutex_lock(&all.lock);
    m->next = all.first;
    if (m->next)
        m->next->previous = m;
    all.first = m;
    usage->reserved += m->bytes;
    usage->reserved_high = larger(usage->reserved_high, usage->reserved);
    pthread_mutex_unlock(&all.lock);
}

CUresult cpu_graph_memory_make(cpu_context_t *context, CUDA_MEM_ALLOC_NODE_PARAMS *params,
                               cpu_graph_memory_t **memory)
{
    cpu_device_t *device;
    cpu_memory_t entry;
    CUresult result = check(params, &device);
    if (result)
        return result;
    size_t size = params->accessDescCount * sizeof(*params->accessDescs);
    cpu_graph_memory_t *m = calloc(1, sizeof(*m));
    CUmemAccessDesc *access = malloc(size + 1);
    if (!m || !access) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
        goto err_m;
    }
    result =
        cpu_memory_alloc(CPU_MEMORY_DEVICE, device->index, context, params->bytesize, 0, &m->base);
    if (result)
        goto err_m;
    cpu_memory_find(m->base, &entry);
    if (size)
        memcpy(access, params->accessDescs, size);
    params->dptr = m->base;
    m->params = *params;
    m->params.accessDescs = access;
    m->device = device->index;
    m->bytes = entry.node.size;
    m->id = entry.id;
    m->context = context;
    cpu_object_init(&m->object, CPU_KIND_NONE, destroy);
    enter(m);
    *memory = m;
    return CUDA_SUCCESS;
err_m:
    free(access);
    free(m);
    return result;
}

/* A reference unless the last one is just going. */
static bool revive(cpu_graph_memory_t *m)
{
    int refs = atomic_load(&m->object.refs);
    while (refs > 0 && !atomic_compare_exchange_weak(&m->object.refs, &refs, refs + 1))
        continue;
    return refs > 0;
}

cpu_graph_memory_t *cpu_graph_memory_at(uint64_t base)
{
    pthread_mutex_lock(&all.lock);
    cpu_graph_memory_t *m = all.first;
    while (m && (m->base != base || !m->context))
        m = m->next;
    if (m && !revive(m))
        m = NULL;
    pthread_mutex_unlock(&all.lock);
    return m;
}

void cpu_graph_memory_forget_context(const cpu_context_t *context)
{
    for (;;) {
        pthread_mutex_lock(&all.lock);
        cpu_graph_memory_t *m = all.first;
        while (m && m->context != context)
            m = m->next;
        bool held = m && m->live;
        if (m)
            m->context = NULL;
        if (held) {
            m->live = false;
            all.usage[m->device].used -= m->bytes;
        }
        pthread_mutex_unlock(&all.lock);
        if (!m)
            return;
        if (held)
            cpu_object_put(&m->object);
    }
}

/* ---- launches ---- */

/* With the lock: whether the steps follow from each other. */
static bool simulate(const cpu_graph_memory_step_t *steps, size_t count, bool auto_free)
{
    bool good = true;
    for (size_t i = 0; i < count; i++)
        steps[i].memory->will = steps[i].memory->live;
    for (size_t i = 0; good && i < count; i++) {
        cpu_graph_memory_t *m = steps[i].memory;
        good = m->context && (steps[i].frees ? m->will : !m->will || auto_free);
        m->will = !steps[i].frees;
    }
    return good;
}

/* With the lock: the most that is in use while the graph runs. */
static void count_peak(const cpu_graph_memory_step_t *steps, size_t count)
{
    uint64_t now[CPU_MAX_DEVICES];
    for (int i = 0; i < CPU_MAX_DEVICES; i++)
        now[i] = all.usage[i].used;
    for (size_t i = 0; i < count; i++)
        steps[i].memory->will = steps[i].memory->live;
    for (size_t i = 0; i < count; i++) {
        cpu_graph_memory_t *m = steps[i].memory;
        if (steps[i].frees)
            now[m->device] -= m->bytes;
        else if (!m->will)
            now[m->device] += m->bytes;
        m->will = !steps[i].frees;
        all.usage[m->device].used_high = larger(all.usage[m->device].used_high, now[m->device]);
    }
}

CUresult cpu_graph_memory_launch(const cpu_graph_memory_step_t *steps, size_t count, bool auto_free)
{
    pthread_mutex_lock(&all.lock);
    bool good = simulate(steps, count, auto_free);
    if (good)
        count_peak(steps, count);
    for (size_t i = 0; good && i < count; i++) {
        cpu_graph_memory_t *m = steps[i].memory;
        if (m->will && !m->live) {
            cpu_object_ref(&m->object);
            all.usage[m->device].used += m->bytes;
        } else if (!m->will && m->live) {
            /* The step holds a reference too: this is not the last one. */
            cpu_object_put(&m->object);
            all.usage[m->device].used -= m->bytes;
        }
        m->live = m->will;
    }
    pthread_mutex_unlock(&all.lock);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

typedef struct {
    cpu_op_t op;
    cpu_graph_memory_t *memory; /* referenced */
} hold_op_t;

static void do_nothing(cpu_op_t *op)
{
    (void)op;
}

static void release(cpu_op_t *op)
{
    hold_op_t *hold = (hold_op_t *)op;
    cpu_object_put(&hold->memory->object);
    cpu_cells_give(hold, sizeof(*hold));
}

static const cpu_op_ops_t hold_ops = {
    .name = "memory of a graph", .instant = do_nothing, .release = release, .after_fault = true};

CUresult cpu_graph_memory_hold(cpu_graph_memory_t *memory, cpu_stream_t *stream)
{
    hold_op_t *hold = cpu_cells_take(sizeof(*hold));
    if (!hold)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_op_init(&hold->op, &hold_ops, 0, 0);
    cpu_object_ref(&memory->object);
    hold->memory = memory;
    return cpu_sched_submit(stream, &hold->op, NULL);
}

bool cpu_graph_memory_instantiate(cpu_graph_memory_t *memory)
{
    pthread_mutex_lock(&all.lock);
    bool first = memory->instances == 0;
    if (first)
        memory->instances = 1;
    pthread_mutex_unlock(&all.lock);
    return first;
}

void cpu_graph_memory_end_instance(cpu_graph_memory_t *memory)
{
    pthread_mutex_lock(&all.lock);
    memory->instances = 0;
    pthread_mutex_unlock(&all.lock);
}

/* ---- attributes ---- */

static uint64_t *counter(int device, CUgraphMem_attribute attribute)
{
    usage_t *usage = &all.usage[device];
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        return &usage->used;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        return &usage->used_high;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        return &usage->reserved;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        return &usage->reserved_high;
    default:
        return NULL;
    }
}

CUresult cpu_graph_memory_attribute(int device, CUgraphMem_attribute attribute, uint64_t *value)
{
    pthread_mutex_lock(&all.lock);
    const uint64_t *c = counter(device, attribute);
    if (c)
        *value = *c;
    pthread_mutex_unlock(&all.lock);
    return c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cpu_graph_memory_reset(int device, CUgraphMem_attribute attribute, uint64_t value)
{
    bool high = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ||
                attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    if (!high || value)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&all.lock);
    *counter(device, attribute) = *counter(device, attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH
                                                       ? CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT
                                                       : CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
    pthread_mutex_unlock(&all.lock);
    return CUDA_SUCCESS;
}

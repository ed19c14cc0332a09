/* Virtual memory management for the client: address space that it has reserved on its side too, physical
 * memory, mappings. Memory counts against the quota until its handle is released and nothing maps it. */
#include "gpu-proxy/session/px_vmm.h"

#include <stdlib.h>
#include <string.h>

#include "common/cuda/gb_ranges.h"
#include "gpu-proxy/session/px_ipc.h"
#include "gpu-proxy/session/px_state.h"

typedef struct {
    gb_range_t range;
} reservation_t;

struct px_physical {
    CUmemGenericAllocationHandle handle;
    uint64_t size;
    int device;
    unsigned uses;   /* its handle and its mappings */
    int imported;    /* it counts against the quota of who has made it, while that is there */
    uint64_t number; /* of px_locker_memory_t */
    int shared;      /* other sessions find it under the token */
    px_token_t token;
};

typedef struct {
    gb_range_t range;
    px_physical_t *physical;
} mapping_t;

struct px_vmm {
    pthread_mutex_t lock; /* unmapping runs on lanes */
    gb_ranges_t reservations, mappings;
};

px_vmm_t *px_vmm_create(void)
{
    px_vmm_t *vmm = calloc(1, sizeof(*vmm));
    if (vmm)
        pthread_mutex_init(&vmm->lock, NULL);
    return vmm;
}

static px_vmm_t *vmm_of(px_call_t *call)
{
    return call->session->vmm;
}

static void put_physical(px_session_t *s, px_physical_t *p)
{
    if (--p->uses)
        return;
    if (p->shared)
        px_ipc_drop(s, &p->token);
    if (p->imported)
        px_ipc_release(s, p->number);
    else if (s->devices[p->device].heap)
        px_heap_uncharge(s->devices[p->device].heap, p->size);
    free(p);
}

void px_physical_forget(px_session_t *s, px_physical_t *p)
{
    s->cuda->cuMemRelease(p->handle);
    put_physical(s, p);
}

void px_vmm_destroy(px_session_t *s)
{
    px_vmm_t *vmm = s->vmm;
    if (!vmm)
        return;
    while (vmm->mappings.root) {
        mapping_t *m = (mapping_t *)vmm->mappings.root;
        gb_ranges_remove(&vmm->mappings, &m->range);
        s->cuda->cuMemUnmap(m->range.start, m->range.size);
        put_physical(s, m->physical);
        free(m);
    }
    while (vmm->reservations.root) {
        gb_range_t *r = vmm->reservations.root;
        gb_ranges_remove(&vmm->reservations, r);
        s->cuda->cuMemAddressFree(r->start, r->size);
        free(r);
    }
    pthread_mutex_destroy(&vmm->lock);
    free(vmm);
    s->vmm = NULL;
}

static px_device_slot_t *slot_of(px_call_t *call, uint64_t index)
{
    return index < (uint64_t)call->session->device_count ? &call->session->devices[index] : NULL;
}

static CUmemAllocationProp properties(const px_device_slot_t *slot)
{
    CUmemAllocationProp prop = {0};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = slot->ordinal;
    return prop;
}

/* u64 device, u64 option -> u64 bytes */
CUresult px_do_cuMemGetAllocationGranularity(px_call_t *call)
{
    px_device_slot_t *slot = slot_of(call, call->args[0]);
    size_t granularity = 0;
    if (!slot)
        return CUDA_ERROR_INVALID_DEVICE;
    CUmemAllocationProp prop = properties(slot);
    CUresult result = call->cuda->cuMemGetAllocationGranularity(
        &granularity, &prop, (CUmemAllocationGranularity_flags)call->args[1]);
    call->out[0] = granularity;
    call->outs = 1;
    return result;
}

/* u64 address, u64 bytes -> u64 the same address, or 0: it is taken here */
CUresult px_do_cuMemAddressReserve(px_call_t *call)
{
    px_vmm_t *vmm = vmm_of(call);
    uint64_t wanted = call->args[0], size = call->args[1];
    CUdeviceptr got = 0;
    call->out[0] = 0;
    call->outs = 1;
    if (!wanted || !size || wanted + size < wanted)
        return CUDA_ERROR_INVALID_VALUE;
    reservation_t *made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = call->cuda->cuMemAddressReserve(&got, size, 0, wanted, 0);
    if (!result && got != wanted)
        call->cuda->cuMemAddressFree(got, size);
    if (result || got != wanted) {
        free(made);
        return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result;
    }
    made->range.start = got;
    made->range.size = size;
    pthread_mutex_lock(&vmm->lock);
    gb_ranges_add(&vmm->reservations, &made->range);
    pthread_mutex_unlock(&vmm->lock);
    call->out[0] = got;
    return CUDA_SUCCESS;
}

/* u64 address, u64 bytes */
CUresult px_do_cuMemAddressFree(px_call_t *call)
{
    px_vmm_t *vmm = vmm_of(call);
    pthread_mutex_lock(&vmm->lock);
    gb_range_t *r = gb_ranges_find(&vmm->reservations, call->args[0]);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (r && r->start == call->args[0] && r->size == call->args[1])
        result = call->cuda->cuMemAddressFree(r->start, r->size);
    if (!result) {
        gb_ranges_remove(&vmm->reservations, r);
        free(r);
    }
    pthread_mutex_unlock(&vmm->lock);
    return result;
}

/* What was freed may count still, until the device has passed its use. */
static CUresult charge(px_call_t *call, px_device_slot_t *slot, uint64_t bytes)
{
    CUresult result = px_heap_charge(slot->heap, bytes);
    if (result != CUDA_ERROR_NOT_READY)
        return result;
    if (!call->may_block)
        return PX_WOULD_BLOCK;
    px_device_drain(call, (int)(slot - call->session->devices));
    result = px_heap_charge(slot->heap, bytes);
    return result == CUDA_ERROR_NOT_READY ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

/* Enters physical memory under the client's number: it outlives every context. */
static CUresult enter_physical(px_call_t *call, uint64_t number, px_physical_t *p)
{
    px_context_t *context = call->context;
    call->context = NULL;
    CUresult result = px_object_put(call, PX_PHYSICAL, number, p);
    call->context = context;
    if (result)
        call->cuda->cuMemRelease(p->handle);
    return result;
}

/* u64 number, u64 bytes, u64 device, u64 requested handle types */
CUresult px_do_cuMemCreate(px_call_t *call)
{
    px_device_slot_t *slot = slot_of(call, call->args[2]);
    if (!slot || !slot->heap)
        return CUDA_ERROR_INVALID_DEVICE;
    px_physical_t *p = calloc(1, sizeof(*p));
    CUresult result = p ? charge(call, slot, call->args[1]) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        free(p);
        return result;
    }
    p->size = call->args[1];
    p->device = (int)call->args[2];
    p->uses = 1;
    CUmemAllocationProp prop = properties(slot);
    prop.requestedHandleTypes = (CUmemAllocationHandleType)call->args[3];
    result = call->cuda->cuMemCreate(&p->handle, p->size, &prop, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) { /* what was freed may still be held */
        if (!call->may_block) {
            put_physical(call->session, p);
            return PX_WOULD_BLOCK;
        }
        px_device_drain(call, p->device);
        px_heap_trim(slot->heap);
        result = call->cuda->cuMemCreate(&p->handle, p->size, &prop, 0);
    }
    if (!result)
        result = enter_physical(call, call->args[0], p);
    if (result)
        put_physical(call->session, p);
    else
        px_report_memory(call->session);
    return result;
}

/* u64 number -> u64 token[2] */
CUresult px_do_cuMemExportToShareableHandle(px_call_t *call)
{
    px_physical_t *p = px_object_get(call->session, PX_PHYSICAL, call->args[0]);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    if (!p->shared) {
        px_locker_memory_t what = {.size = p->size,
                                   .ordinal = (uint32_t)call->session->devices[p->device].ordinal};
        result = px_ipc_leave(call->session, p->handle, &what, &p->token);
        p->shared = !result;
    }
    memcpy(call->out, &p->token, sizeof(p->token));
    call->outs = 2;
    return result;
}

/* The session's device that the driver says the memory is on; -1: none. */
static int device_of(px_call_t *call, CUmemGenericAllocationHandle handle)
{
    CUmemAllocationProp prop;
    if (call->cuda->cuMemGetAllocationPropertiesFromHandle(&prop, handle))
        return -1;
    for (int i = 0; i < call->session->device_count; i++)
        if (call->session->devices[i].ordinal == prop.location.id)
            return i;
    return -1;
}

/* u64 number, u64 bytes, u64 token[2] -> u64 device */
CUresult px_do_cuMemImportFromShareableHandle(px_call_t *call)
{
    px_token_t token;
    px_physical_t *p = calloc(1, sizeof(*p));
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(&token, &call->args[2], sizeof(token));
    CUresult result = px_ipc_find(call->session, &token, &p->handle, &p->number);
    if (result) {
        free(p);
        return result;
    }
    p->size = call->args[1];
    p->device = device_of(call, p->handle);
    p->uses = 1;
    p->imported = 1;
    result = p->device < 0 ? CUDA_ERROR_INVALID_DEVICE : enter_physical(call, call->args[0], p);
    if (p->device < 0)
        call->cuda->cuMemRelease(p->handle);
    if (result)
        px_ipc_release(call->session, p->number);
    call->out[0] = (uint64_t)p->device;
    call->outs = 1;
    if (result)
        free(p);
    return result;
}

/* u64 number */
CUresult px_do_cuMemRelease(px_call_t *call)
{
    px_vmm_t *vmm = vmm_of(call);
    pthread_mutex_lock(&vmm->lock);
    px_physical_t *p = px_object_take(call->session, PX_PHYSICAL, call->args[0]);
    if (p)
        px_physical_forget(call->session, p);
    pthread_mutex_unlock(&vmm->lock);
    px_report_memory(call->session);
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* u64 address, u64 bytes, u64 number */
CUresult px_do_cuMemMap(px_call_t *call)
{
    px_vmm_t *vmm = vmm_of(call);
    mapping_t *m = calloc(1, sizeof(*m));
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&vmm->lock);
    px_physical_t *p = px_object_get(call->session, PX_PHYSICAL, call->args[2]);
    const gb_range_t *r = gb_ranges_find(&vmm->reservations, call->args[0]);
    CUresult result =
        p && r && call->args[1] <= r->size && call->args[0] - r->start <= r->size - call->args[1]
            ? CUDA_SUCCESS
            : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = call->cuda->cuMemMap(call->args[0], call->args[1], 0, p->handle, 0);
    if (!result) {
        m->range.start = call->args[0];
        m->range.size = call->args[1];
        m->physical = p;
        p->uses++;
        gb_ranges_add(&vmm->mappings, &m->range);
    }
    pthread_mutex_unlock(&vmm->lock);
    if (result)
        free(m);
    return result;
}

/* Under the lock: whether whole mappings fill the range; the device of the first. */
static int filled(const px_vmm_t *vmm, uint64_t start, uint64_t size, int *device)
{
    uint64_t at = start, end = start + size;
    if (!size || end < start)
        return 0;
    while (at < end) {
        const mapping_t *m = (mapping_t *)gb_ranges_find(&vmm->mappings, at);
        if (!m || m->range.start != at)
            return 0;
        if (at == start)
            *device = m->physical->device;
        at += m->range.size;
    }
    return at == end;
}

/* u64 address, u64 bytes. Copies that the client takes for done may be under way: it is waited for them. */
CUresult px_do_cuMemUnmap(px_call_t *call)
{
    px_vmm_t *vmm = vmm_of(call);
    uint64_t start = call->args[0], size = call->args[1];
    int device = 0;
    if (!call->may_block)
        return PX_WOULD_BLOCK;
    pthread_mutex_lock(&vmm->lock);
    int good = filled(vmm, start, size, &device);
    pthread_mutex_unlock(&vmm->lock);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (good)
        result = px_device_drain(call, device);
    if (result)
        return result;
    pthread_mutex_lock(&vmm->lock);
    result = filled(vmm, start, size, &device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = start; !result && at < start + size;) {
        mapping_t *m = (mapping_t *)gb_ranges_find(&vmm->mappings, at);
        result = call->cuda->cuMemUnmap(m->range.start, m->range.size);
        if (result)
            break;
        at += m->range.size;
        gb_ranges_remove(&vmm->mappings, &m->range);
        put_physical(call->session, m->physical);
        free(m);
    }
    pthread_mutex_unlock(&vmm->lock);
    px_report_memory(call->session);
    return result;
}

/* u64 address, u64 bytes, u64 count, then pairs of u64 device, u64 flags */
CUresult px_do_cuMemSetAccess(px_call_t *call)
{
    px_vmm_t *vmm = vmm_of(call);
    uint64_t count = call->args[2], room = (call->frame.length - 24) / 16;
    int device;
    if (!count || count > room)
        return CUDA_ERROR_INVALID_VALUE;
    CUmemAccessDesc *desc = calloc(count, sizeof(*desc));
    CUresult result = desc ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (uint64_t i = 0; !result && i < count; i++) {
        const px_device_slot_t *slot = slot_of(call, call->args[3 + 2 * i]);
        if (!slot) {
            result = CUDA_ERROR_INVALID_DEVICE;
            break;
        }
        desc[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        desc[i].location.id = slot->ordinal;
        desc[i].flags = (CUmemAccess_flags)call->args[4 + 2 * i];
    }
    pthread_mutex_lock(&vmm->lock);
    if (!result && !filled(vmm, call->args[0], call->args[1], &device))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = call->cuda->cuMemSetAccess(call->args[0], call->args[1], desc, count);
    pthread_mutex_unlock(&vmm->lock);
    free(desc);
    return result;
}

/* Virtual memory management: address space, physical memory, and the one mapped into the other.
 *
 * Address space is reserved here first, so that it is unique over all sessions, and at a session when
 * something is mapped there. What is wrong with a call is mostly found here; mapping, access and
 * unmapping wait for the session's answer, because the driver has the last word about them. */
#include <stdlib.h>
#include <sys/mman.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_ipc.h"
#include "gpu-proxy/client/rc_vmm.h"

enum { GRAIN = 2 << 20, MAX_ACCESS_DESCRIPTIONS = 1024 };

/* Physical memory. */
typedef struct rc_physical {
    rc_object_t *object; /* NULL once released */
    uint32_t number;     /* on the wire, while it is not released */
    rc_device_t *device;
    uint64_t size;
    CUmemAllocationProp properties;
    unsigned holds;    /* calls that made or retained the handle, less releases */
    unsigned mappings; /* places where it is */
} physical_t;

typedef struct {
    gb_range_t range;
    uint8_t at[RC_SESSIONS]; /* sessions that have it too */
} reservation_t;

typedef struct {
    gb_range_t range;
    physical_t *physical;
    unsigned long long access[RC_DEVICES];
} mapping_t;

static struct {
    pthread_mutex_t lock; /* held over the round trips: mapping is rare, and its order matters */
    gb_ranges_t reservations, mappings;
    uint64_t granularity[RC_DEVICES][2]; /* asked for so far */
} vmm = {.lock = PTHREAD_MUTEX_INITIALIZER};

static CUresult enter(rc_call_t *call)
{
    CUresult result = rc_begin(call);
    if (!result)
        pthread_mutex_lock(&vmm.lock);
    return result;
}

static CUresult leave(CUresult result)
{
    pthread_mutex_unlock(&vmm.lock);
    return result;
}

/* The call goes to a session, in no context. */
static CUresult aim(rc_call_t *call, rc_session_t *session)
{
    call->session = session;
    return atomic_load(&session->lost) ? RC_LOST : CUDA_SUCCESS;
}

static CUresult device_of(const CUmemAllocationProp *prop, rc_device_t **device)
{
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    *device = rc_device(prop->location.id);
    return *device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    rc_call_t call;
    rc_device_t *device;
    uint64_t out = 0;
    CUresult result = rc_check();
    if (!result)
        result = device_of(prop, &device);
    if (!result && (!granularity || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = enter(&call);
    if (result)
        return result;
    uint64_t *known = &vmm.granularity[device - rc.devices][option];
    uint64_t args[2] = {device->index, option};
    if (!*known) {
        result = aim(&call, device->session);
        if (!result)
            result = rc_ask(&call, GB_OP_cuMemGetAllocationGranularity, args, 2, &out, 1);
        if (!result)
            *known = out;
    }
    if (!result)
        *granularity = *known;
    return leave(result);
}

/* ---- address space ---- */

/* What is wished, if it is free here and at the call's session; else the next place where it is. */
static CUresult find_place(rc_call_t *call, uint64_t size, uint64_t alignment, uint64_t wish,
                           uint64_t *base)
{
    uint64_t at = 0;
    CUresult result = CUDA_SUCCESS;
    for (int try = 0; !result && try < 256; try++) {
        at = rc_place(size, alignment, &wish, at);
        if (!at)
            return CUDA_ERROR_OUT_OF_MEMORY;
        uint64_t args[2] = {at, size}, got = 0;
        result = rc_ask(call, GB_OP_cuMemAddressReserve, args, 2, &got, 1);
        if (!result && got == at) {
            *base = at;
            return CUDA_SUCCESS;
        }
        munmap((void *)(uintptr_t)at, size);
    }
    return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult rc_vmm_place(rc_call_t *call, uint64_t bytes, uint64_t *base)
{
    return find_place(call, bytes, GRAIN, 0, base);
}

void rc_vmm_unplace(rc_call_t *call, uint64_t base, uint64_t bytes)
{
    uint64_t args[2] = {base, bytes};
    if (!atomic_load(&call->session->lost))
        (void)rc_post(call, GB_OP_cuMemAddressFree, args, 2);
    munmap((void *)(uintptr_t)base, bytes);
}

/* At the session of the current context, to begin with. */
static CUresult reserve(rc_call_t *call, uint64_t size, uint64_t alignment, uint64_t wish,
                        reservation_t *made)
{
    rc_session_t *session = call->context ? call->context->session : rc.sessions[0];
    CUresult result = aim(call, session);
    if (!result)
        result = find_place(call, size, alignment, wish, &made->range.start);
    made->range.size = size;
    made->at[session->number] = !result;
    return result;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags)
{
    rc_call_t call;
    CUresult result = enter(&call);
    if (result)
        return result;
    if (!ptr || flags || !size || size % GRAIN || (alignment & (alignment - 1)) || size >> 47 ||
        alignment >> 40)
        return leave(CUDA_ERROR_INVALID_VALUE);
    alignment = alignment < GRAIN ? GRAIN : alignment;
    reservation_t *made = calloc(1, sizeof(*made));
    result = made ? reserve(&call, size, alignment, addr & (alignment - 1) ? 0 : addr, made)
                  : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        free(made);
        return leave(result);
    }
    gb_ranges_add(&vmm.reservations, &made->range);
    *ptr = made->range.start;
    return leave(CUDA_SUCCESS);
}

static int is_mapped(uint64_t start, uint64_t size)
{
    const gb_range_t *above = gb_ranges_above(&vmm.mappings, start);
    return gb_ranges_find(&vmm.mappings, start) || (above && above->start - start < size);
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    rc_call_t call;
    CUresult result = enter(&call);
    if (result)
        return result;
    reservation_t *r = (reservation_t *)gb_ranges_find(&vmm.reservations, ptr);
    if (!r || r->range.start != ptr || r->range.size != size || is_mapped(ptr, size))
        return leave(CUDA_ERROR_INVALID_VALUE);
    uint64_t args[2] = {ptr, size};
    for (int i = 0; i < rc.session_count; i++)
        if (r->at[i] && aim(&call, rc.sessions[i]) == CUDA_SUCCESS)
            result = rc_post(&call, GB_OP_cuMemAddressFree, args, 2);
    gb_ranges_remove(&vmm.reservations, &r->range);
    munmap((void *)(uintptr_t)ptr, size);
    free(r);
    return leave(result);
}

/* ---- physical memory ---- */

static physical_t *physical_of(CUmemGenericAllocationHandle handle)
{
    rc_object_t *object = rc_object_get(RC_PHYSICAL, (void *)(uintptr_t)handle);
    return object ? object->physical : NULL;
}

static physical_t *new_physical(rc_session_t *session, uint64_t size,
                                const CUmemAllocationProp *prop)
{
    physical_t *p = calloc(1, sizeof(*p));
    rc_object_t *object = p ? rc_object_new(RC_PHYSICAL, session, NULL) : NULL;
    if (!object) {
        free(p);
        return NULL;
    }
    *p = (physical_t){
        .object = object, .number = object->number, .size = size, .properties = *prop, .holds = 1};
    object->physical = p;
    return p;
}

/* The handle, if the session has the memory; else it goes. */
static CUresult hand_out(physical_t *p, CUresult result, CUmemGenericAllocationHandle *handle)
{
    if (result) {
        rc_object_kill(p->object);
        rc_object_free(p->object);
        free(p);
    } else {
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)rc_handle(p->object);
    }
    return result;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    rc_call_t call;
    rc_device_t *device;
    CUresult result = rc_check();
    if (!result)
        result = device_of(prop, &device);
    if (!result && (!handle || flags || !size || size % GRAIN))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (!result)
        result = enter(&call);
    if (result)
        return result;
    physical_t *p = new_physical(device->session, size, prop);
    if (!p)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    p->device = device;
    uint64_t args[4] = {p->number, size, device->index, prop->requestedHandleTypes};
    result = aim(&call, device->session);
    if (!result)
        result = rc_ask(&call, GB_OP_cuMemCreate, args, 4, NULL, 0);
    return leave(hand_out(p, result, handle));
}

/* ---- physical memory of several processes: its name travels in a file ---- */

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType,
                                      unsigned long long flags)
{
    rc_call_t call;
    CUresult result = enter(&call);
    if (result)
        return result;
    physical_t *p = physical_of(handle);
    int known = handleType == CU_MEM_HANDLE_TYPE_WIN32 ||
                handleType == CU_MEM_HANDLE_TYPE_WIN32_KMT ||
                handleType == CU_MEM_HANDLE_TYPE_FABRIC;
    if (!shareableHandle || flags)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (known)
        return leave(CUDA_ERROR_NOT_SUPPORTED);
    if (!p || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        !(p->properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return leave(CUDA_ERROR_INVALID_VALUE);
    rc_ipc_handle_t facts = rc_ipc_handle(RC_IPC_PHYSICAL, p->device);
    uint64_t number = p->number;
    facts.mapping = facts.bytes = p->size;
    result = aim(&call, p->device->session);
    if (!result)
        result = rc_ask(&call, GB_OP_cuMemExportToShareableHandle, &number, 1, facts.token, 2);
    int fd = result ? -1 : rc_ipc_to_file(&facts);
    if (!result && fd < 0)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        *(int *)shareableHandle = fd;
    return leave(result);
}

/* Two proxies may have devices with the same name: whose memory it is, its daemon knows. */
static CUresult import(rc_call_t *call, const rc_ipc_handle_t *facts, physical_t *p)
{
    CUresult result = CUDA_ERROR_INVALID_DEVICE;
    for (int i = 0; i < rc.session_count; i++) {
        rc_device_t *device = rc_ipc_device(facts, rc.sessions[i]);
        uint64_t args[4] = {p->number, facts->mapping, facts->token[0], facts->token[1]}, index;
        if (!device)
            continue;
        result = aim(call, device->session);
        if (!result)
            result = rc_ask(call, GB_OP_cuMemImportFromShareableHandle, args, 4, &index, 1);
        p->device = device;
        p->object->session = device->session;
        if (result != CUDA_ERROR_INVALID_HANDLE)
            return result;
    }
    return result == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                        CUmemAllocationHandleType shHandleType)
{
    rc_call_t call;
    rc_ipc_handle_t facts;
    CUresult result = rc_check();
    if (!result && !handle)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result &&
        (shHandleType == CU_MEM_HANDLE_TYPE_WIN32 || shHandleType == CU_MEM_HANDLE_TYPE_WIN32_KMT ||
         shHandleType == CU_MEM_HANDLE_TYPE_FABRIC))
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (!result && (shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
                    !rc_ipc_from_file((int)(intptr_t)osHandle, RC_IPC_PHYSICAL, &facts)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = enter(&call);
    if (result)
        return result;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    physical_t *p = new_physical(rc.sessions[0], facts.mapping, &prop);
    if (!p)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    result = import(&call, &facts, p);
    if (!result)
        p->properties.location.id = (int)(p->device - rc.devices);
    return leave(hand_out(p, result, handle));
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    rc_call_t call;
    CUresult result = enter(&call);
    if (result)
        return result;
    physical_t *p = physical_of(handle);
    if (!p)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (--p->holds)
        return leave(CUDA_SUCCESS);
    uint64_t number = p->number;
    rc_object_kill(p->object);
    call.dropped = p->object;
    p->object = NULL;
    result = aim(&call, p->device->session);
    if (!result)
        result = rc_post(&call, GB_OP_cuMemRelease, &number, 1);
    if (!p->mappings)
        free(p);
    return leave(result);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle)
{
    rc_call_t call;
    CUresult result = enter(&call);
    if (result)
        return result;
    const physical_t *p = physical_of(handle);
    if (!prop || !p)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *prop = p->properties;
    return leave(CUDA_SUCCESS);
}

/* Memory whose last handle was released cannot get one again: the session has forgotten it. */
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    rc_call_t call;
    CUresult result = enter(&call);
    if (result)
        return result;
    const mapping_t *m = (mapping_t *)gb_ranges_find(&vmm.mappings, (uint64_t)(uintptr_t)addr);
    if (!handle || !m)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!m->physical->object)
        return leave(CUDA_ERROR_NOT_SUPPORTED);
    m->physical->holds++;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)rc_handle(m->physical->object);
    return leave(CUDA_SUCCESS);
}

/* ---- mappings ---- */

/* Makes sure that the session has the reservation that holds [ptr, ptr + size). */
static CUresult reserve_there(rc_call_t *call, uint64_t ptr, uint64_t size, rc_session_t *session)
{
    reservation_t *r = (reservation_t *)gb_ranges_find(&vmm.reservations, ptr);
    if (!r || size > r->range.size || ptr - r->range.start > r->range.size - size)
        return CUDA_ERROR_INVALID_VALUE;
    if (r->at[session->number])
        return CUDA_SUCCESS;
    uint64_t args[2] = {r->range.start, r->range.size}, got = 0;
    CUresult result = rc_ask(call, GB_OP_cuMemAddressReserve, args, 2, &got, 1);
    if (!result && got != r->range.start)
        result = CUDA_ERROR_OUT_OF_MEMORY; /* these addresses are taken there */
    r->at[session->number] = !result;
    return result;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    rc_call_t call;
    CUresult result = enter(&call);
    if (result)
        return result;
    physical_t *p = physical_of(handle);
    if (offset || flags || !p || ptr % GRAIN || size != p->size || is_mapped(ptr, size))
        return leave(CUDA_ERROR_INVALID_VALUE);
    result = aim(&call, p->device->session);
    if (!result)
        result = reserve_there(&call, ptr, size, p->device->session);
    mapping_t *m = result ? NULL : calloc(1, sizeof(*m));
    if (!m)
        return leave(result ? result : CUDA_ERROR_OUT_OF_MEMORY);
    uint64_t args[3] = {ptr, size, p->number};
    result = rc_ask(&call, GB_OP_cuMemMap, args, 3, NULL, 0);
    if (!result)
        result = rc_block_add_virtual(ptr, size, p->device);
    if (result) {
        free(m);
        return leave(result);
    }
    m->range.start = ptr;
    m->range.size = size;
    m->physical = p;
    p->mappings++;
    gb_ranges_add(&vmm.mappings, &m->range);
    return leave(CUDA_SUCCESS);
}

/* Whether whole mappings of one session fill the range without a gap. */
static rc_session_t *filled(uint64_t ptr, uint64_t size)
{
    rc_session_t *session = NULL;
    uint64_t at = ptr, end = ptr + size;
    if (size == 0 || end < ptr)
        return NULL;
    while (at < end) {
        const mapping_t *m = (mapping_t *)gb_ranges_find(&vmm.mappings, at);
        if (!m || m->range.start != at || (session && m->physical->device->session != session))
            return NULL;
        session = m->physical->device->session;
        at += m->range.size;
    }
    return at == end ? session : NULL;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    rc_call_t call;
    uint64_t args[2] = {ptr, size};
    CUresult result = enter(&call);
    if (result)
        return result;
    rc_session_t *session = filled(ptr, size);
    result = session ? aim(&call, session) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_ask(&call, GB_OP_cuMemUnmap, args, 2, NULL, 0);
    for (uint64_t at = ptr; !result && at < ptr + size;) {
        mapping_t *m = (mapping_t *)gb_ranges_find(&vmm.mappings, at);
        rc_block_t block;
        at += m->range.size;
        gb_ranges_remove(&vmm.mappings, &m->range);
        rc_block_take(RC_BLOCK_VIRTUAL, m->range.start, &block);
        if (--m->physical->mappings == 0 && !m->physical->object)
            free(m->physical);
        free(m);
    }
    return leave(result);
}

/* Devices of other sessions cannot be given access. */
static CUresult encode_access(const CUmemAccessDesc *desc, size_t count,
                              const rc_session_t *session, uint64_t *out)
{
    for (size_t i = 0; i < count; i++) {
        const rc_device_t *device = desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE
                                        ? rc_device(desc[i].location.id)
                                        : NULL;
        if (!device || device->session != session)
            return CUDA_ERROR_INVALID_DEVICE;
        if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
        out[2 * i] = device->index;
        out[2 * i + 1] = desc[i].flags;
    }
    return CUDA_SUCCESS;
}

static CUresult set_access(rc_call_t *call, uint64_t ptr, uint64_t size,
                           const CUmemAccessDesc *desc, size_t count)
{
    rc_session_t *session = filled(ptr, size);
    CUresult result = session ? aim(call, session) : CUDA_ERROR_INVALID_VALUE;
    uint64_t *args = result ? NULL : malloc((3 + 2 * count) * sizeof(*args));
    if (!args)
        return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    args[0] = ptr;
    args[1] = size;
    args[2] = count;
    result = encode_access(desc, count, session, args + 3);
    if (!result)
        result = rc_ask(call, GB_OP_cuMemSetAccess, args, (unsigned)(3 + 2 * count), NULL, 0);
    free(args);
    return result;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    rc_call_t call;
    CUresult result = enter(&call);
    if (result)
        return result;
    if (!desc || !count || count > MAX_ACCESS_DESCRIPTIONS)
        return leave(CUDA_ERROR_INVALID_VALUE);
    result = set_access(&call, ptr, size, desc, count);
    for (uint64_t at = ptr; !result && at < ptr + size;) {
        mapping_t *m = (mapping_t *)gb_ranges_find(&vmm.mappings, at);
        for (size_t i = 0; i < count; i++)
            m->access[desc[i].location.id] = desc[i].flags;
        at += m->range.size;
    }
    return leave(result);
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    rc_call_t call;
    CUresult result = enter(&call);
    if (result)
        return result;
    const mapping_t *m = (mapping_t *)gb_ranges_find(&vmm.mappings, ptr);
    if (!flags || !location || !m || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!rc_device(location->id))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    *flags = m->access[location->id];
    return leave(CUDA_SUCCESS);
}

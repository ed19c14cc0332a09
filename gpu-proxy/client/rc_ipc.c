#include "gpu-proxy/client/rc_ipc.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_pool.h"
#include "gpu-proxy/client/rc_vmm.h"

enum { MAGIC = 0x31504952 }; /* "RIP1" */

_Static_assert(sizeof(rc_ipc_handle_t) == sizeof(CUipcMemHandle), "what CUDA has room for");

/* Memory that was opened. */
typedef struct opened {
    struct opened *next;
    rc_session_t *session;
    rc_object_t *context; /* its end ends this */
    rc_ipc_handle_t handle;
    uint64_t base; /* of the mapping */
    unsigned count;
    CUevent after; /* the program has freed it in a stream, which may not have come so far */
} opened_t;

static struct {
    pthread_mutex_t lock; /* held over round trips: this is rare, and its order matters */
    opened_t *first;
    struct exported {
        uint64_t token[2], start; /* of an allocation of this process */
    } *exported;
    size_t exported_count;
    atomic_int any_exported;
} ipc = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- handles ---- */

rc_ipc_handle_t rc_ipc_handle(rc_ipc_kind_t kind, const rc_device_t *device)
{
    rc_ipc_handle_t handle = {.magic = MAGIC, .kind = kind};
    if (device)
        memcpy(handle.owner, device->info.uuid, sizeof(handle.owner));
    return handle;
}

int rc_ipc_read(const void *bytes, rc_ipc_kind_t kind, rc_ipc_handle_t *handle)
{
    memcpy(handle, bytes, sizeof(*handle));
    return handle->magic == MAGIC && handle->kind == (uint32_t)kind;
}

int rc_ipc_to_file(const rc_ipc_handle_t *handle)
{
    int fd = memfd_create("gable-handle", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 &&
        (write(fd, handle, sizeof(*handle)) != (ssize_t)sizeof(*handle) ||
         fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int rc_ipc_from_file(int fd, rc_ipc_kind_t kind, rc_ipc_handle_t *handle)
{
    rc_ipc_handle_t bytes;
    return pread(fd, &bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes) &&
           rc_ipc_read(&bytes, kind, handle);
}

rc_device_t *rc_ipc_device(const rc_ipc_handle_t *handle, const rc_session_t *session)
{
    for (int i = 0; i < rc.device_count; i++)
        if ((!session || rc.devices[i].session == session) &&
            memcmp(rc.devices[i].info.uuid, handle->owner, sizeof(handle->owner)) == 0)
            return &rc.devices[i];
    return NULL;
}

/* ---- exporting; with the lock ---- */

static int is_exported(const uint64_t token[2])
{
    for (size_t i = 0; i < ipc.exported_count; i++)
        if (memcmp(ipc.exported[i].token, token, sizeof(ipc.exported[i].token)) == 0)
            return 1;
    return 0;
}

static CUresult note_exported(const uint64_t token[2], uint64_t start)
{
    if (is_exported(token))
        return CUDA_SUCCESS;
    void *grown = realloc(ipc.exported, (ipc.exported_count + 1) * sizeof(*ipc.exported));
    if (!grown)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ipc.exported = grown;
    ipc.exported[ipc.exported_count++] = (struct exported){{token[0], token[1]}, start};
    atomic_store(&ipc.any_exported, 1);
    return CUDA_SUCCESS;
}

int rc_ipc_forget_exported(uint64_t start)
{
    int found = 0;
    if (!atomic_load_explicit(&ipc.any_exported, memory_order_relaxed))
        return 0;
    pthread_mutex_lock(&ipc.lock);
    for (size_t i = ipc.exported_count; i-- > 0;)
        if (ipc.exported[i].start == start) {
            ipc.exported[i] = ipc.exported[--ipc.exported_count];
            found = 1;
        }
    pthread_mutex_unlock(&ipc.lock);
    return found;
}

CUresult rc_ipc_export(rc_call_t *call, const rc_block_t *block, rc_ipc_kind_t kind,
                       rc_ipc_handle_t *handle)
{
    uint64_t start = block->arena ? rc_pool_slab(block) : block->range.start;
    uint64_t args[2] = {start, block->device->index}, outs[4] = {0};
    call->session = block->device->session;
    call->owner = block->context;
    CUresult result = rc_ask(call, GB_OP_cuIpcGetMemHandle, args, 2, outs, 4);
    if (result)
        return result;
    *handle = rc_ipc_handle(kind, block->device);
    memcpy(handle->token, outs, sizeof(handle->token));
    handle->mapping = outs[3];
    handle->offset = block->range.start - outs[2];
    handle->bytes = block->range.size;
    pthread_mutex_lock(&ipc.lock);
    result = note_exported(handle->token, start);
    pthread_mutex_unlock(&ipc.lock);
    return result;
}

/* ---- opening; with the lock ---- */

/* Maps all that the token names; the mapping alone keeps it. */
static CUresult map(rc_call_t *call, const rc_ipc_handle_t *h, const rc_device_t *own,
                    uint64_t base)
{
    rc_object_t *memory = rc_object_new(RC_PHYSICAL, call->session, NULL);
    uint64_t device = 0;
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t import[4] = {memory->number, h->mapping, h->token[0], h->token[1]};
    uint64_t mapping[3] = {base, h->mapping, memory->number};
    CUresult result = rc_ask(call, GB_OP_cuMemImportFromShareableHandle, import, 4, &device, 1);
    int imported = !result;
    if (!result)
        result = rc_ask(call, GB_OP_cuMemMap, mapping, 3, NULL, 0);
    int mapped = !result;
    uint64_t access[7] = {base,
                          h->mapping,
                          own->index == device ? 1 : 2,
                          device,
                          CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                          own->index,
                          CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (!result)
        result = rc_ask(call, GB_OP_cuMemSetAccess, access, 3 + 2 * (unsigned)access[2], NULL, 0);
    if (result && mapped)
        (void)rc_ask(call, GB_OP_cuMemUnmap, mapping, 2, NULL, 0);
    if (rc_object_kill(memory)) {
        uint64_t number = memory->number;
        if (imported) {
            call->dropped = memory;
            CUresult posted = rc_post(call, GB_OP_cuMemRelease, &number, 1);
            result = result ? result : posted;
            call->dropped = NULL;
        } else {
            rc_object_free(memory);
        }
    }
    return result;
}

static opened_t *find(const rc_object_t *context, const rc_ipc_handle_t *handle)
{
    opened_t *o = ipc.first;
    while (o &&
           (o->context != context || o->after || memcmp(&o->handle, handle, sizeof(*handle)) != 0))
        o = o->next;
    return o;
}

static opened_t *find_at(uint64_t address)
{
    opened_t *o = ipc.first;
    while (o && (o->after || o->base + o->handle.offset != address))
        o = o->next;
    return o;
}

/* At the session, and the addresses here. The list does not have it any more. */
static CUresult end(rc_lane_t *lane, opened_t *o)
{
    rc_call_t call = {.lane = lane, .session = o->session};
    uint64_t range[2] = {o->base, o->handle.mapping};
    CUresult result = atomic_load(&o->session->lost)
                          ? CUDA_SUCCESS
                          : rc_ask(&call, GB_OP_cuMemUnmap, range, 2, NULL, 0);
    rc_vmm_unplace(&call, o->base, o->handle.mapping);
    free(o);
    return result;
}

static void take_out(const opened_t *o)
{
    opened_t **at = &ipc.first;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
}

/* What streams have come past. */
static void sweep(rc_lane_t *lane)
{
    for (opened_t **at = &ipc.first; *at;) {
        opened_t *o = *at;
        if (!o->after || cuEventQuery(o->after) == CUDA_ERROR_NOT_READY) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        (void)cuEventDestroy_v2(o->after);
        (void)end(lane, o);
    }
}

static CUresult open_new(rc_call_t *call, const rc_device_t *device, const rc_ipc_handle_t *h,
                         uint64_t *address)
{
    opened_t *o = calloc(1, sizeof(*o));
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *o = (opened_t){.session = call->session, .context = call->context, .handle = *h, .count = 1};
    CUresult result = rc_vmm_place(call, h->mapping, &o->base);
    if (result)
        goto err_free;
    result = map(call, h, device, o->base);
    if (result)
        goto err_place;
    *address = o->base + h->offset;
    result = rc_block_add(RC_BLOCK_IMPORTED, *address, h->bytes, call->context, 0);
    if (result) {
        (void)end(call->lane, o);
        return result;
    }
    o->next = ipc.first;
    ipc.first = o;
    return CUDA_SUCCESS;
err_place:
    rc_vmm_unplace(call, o->base, h->mapping);
err_free:
    free(o);
    return result;
}

CUresult rc_ipc_open(rc_call_t *call, const rc_device_t *device, const rc_ipc_handle_t *handle,
                     uint64_t *address)
{
    CUresult result = CUDA_SUCCESS;
    if (!handle->mapping || !handle->bytes || handle->offset > handle->mapping ||
        handle->bytes > handle->mapping - handle->offset)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&ipc.lock);
    sweep(call->lane);
    opened_t *known = find(call->context, handle);
    if (known) {
        known->count++;
        *address = known->base + handle->offset;
    } else if (handle->kind == RC_IPC_MEMORY && is_exported(handle->token)) {
        result = CUDA_ERROR_INVALID_CONTEXT;
    } else {
        result = open_new(call, device, handle, address);
    }
    pthread_mutex_unlock(&ipc.lock);
    return result;
}

/* ---- closing ---- */

/* One use less. *last is out of the list and of the map of memory if there is none left, else NULL. */
static CUresult let_go(uint64_t address, rc_ipc_kind_t kind, opened_t **last)
{
    rc_block_t block;
    *last = NULL;
    pthread_mutex_lock(&ipc.lock);
    opened_t *o = find_at(address);
    int found = o && o->handle.kind == (uint32_t)kind;
    if (found && --o->count == 0) {
        rc_block_take(RC_BLOCK_IMPORTED, address, &block);
        take_out(o);
        *last = o;
    }
    pthread_mutex_unlock(&ipc.lock);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult rc_ipc_close(uint64_t address, rc_ipc_kind_t kind)
{
    rc_block_t block;
    opened_t *last;
    if (!rc_block_find(address, &block) || block.kind != RC_BLOCK_IMPORTED)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult waited = cuCtxSynchronize_v2(rc_handle(block.context));
    CUresult result = let_go(address, kind, &last);
    if (result || !last)
        return result;
    result = end(rc_lane(), last);
    return waited ? waited : result;
}

CUresult rc_ipc_close_in(uint64_t address, CUstream stream)
{
    opened_t *last;
    CUevent event;
    CUresult result = cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (!result)
        result = cuEventRecord(event, stream);
    if (!result)
        result = let_go(address, RC_IPC_POOL_POINTER, &last);
    if (result || !last) {
        (void)cuEventDestroy_v2(event);
        return result;
    }
    last->after = event;
    pthread_mutex_lock(&ipc.lock);
    last->next = ipc.first;
    ipc.first = last;
    sweep(rc_lane());
    pthread_mutex_unlock(&ipc.lock);
    return CUDA_SUCCESS;
}

void rc_ipc_drop(const rc_object_t *context)
{
    rc_lane_t *lane = rc_lane();
    pthread_mutex_lock(&ipc.lock);
    for (opened_t **at = &ipc.first; *at && lane;) {
        opened_t *o = *at;
        if (o->context != context) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        (void)end(lane, o);
    }
    pthread_mutex_unlock(&ipc.lock);
}

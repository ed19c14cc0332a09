#include "gpu-proxy/cpu/driver/cpu_ipc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu-proxy/cpu/driver/cpu_guard.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"

enum { MAGIC = 0x31434947 }; /* "GIC1" */

_Static_assert(sizeof(cpu_ipc_handle_t) == 64, "as large as CUDA's handles");

/* Memory that was opened with cuIpcOpenMemHandle. */
typedef struct opened {
    struct opened *next;
    const cpu_context_t *context; /* not referenced: its end forgets it */
    cpu_ipc_handle_t handle;
    uint64_t base;
    unsigned count;
} opened_t;

static struct {
    pthread_mutex_t lock;
    opened_t *first;
} list = {.lock = PTHREAD_MUTEX_INITIALIZER};

cpu_ipc_handle_t cpu_ipc_handle(cpu_ipc_kind_t kind, const cpu_file_t *file)
{
    return (cpu_ipc_handle_t){.magic = MAGIC, .kind = kind, .file = *file};
}

CUresult cpu_ipc_read(const void *bytes, cpu_ipc_kind_t kind, cpu_ipc_handle_t *handle)
{
    memcpy(handle, bytes, sizeof(*handle));
    return handle->magic == MAGIC && handle->kind == (uint32_t)kind ? CUDA_SUCCESS
                                                                    : CUDA_ERROR_INVALID_HANDLE;
}

int cpu_ipc_descriptor(const CUipcEventHandle *handle)
{
    cpu_ipc_handle_t facts;
    if (cpu_ipc_read(handle, CPU_IPC_EVENT, &facts) || facts.file.pid != (uint32_t)getpid())
        return -1;
    return (int)facts.file.fd;
}

void cpu_ipc_adopt(CUipcEventHandle *handle, int descriptor)
{
    cpu_ipc_handle_t facts;
    if (cpu_ipc_read(handle, CPU_IPC_EVENT, &facts))
        return;
    facts.file.pid = (uint32_t)getpid();
    facts.file.fd = (uint32_t)descriptor;
    memcpy(handle, &facts, sizeof(facts));
}

CUresult cpu_ipc_export(uint64_t address, cpu_ipc_kind_t kind, cpu_ipc_handle_t *handle)
{
    cpu_memory_t memory;
    cpu_segment_t segment;
    cpu_guard_install(true); /* threads that write to it meanwhile have to wait */
    CUresult result = cpu_memory_share(address, &memory, &segment);
    if (result)
        return result;
    const cpu_device_t *device = &cpu_driver()->devices[memory.device];
    *handle = cpu_ipc_handle(kind, &segment.file);
    handle->offset = (uint32_t)(memory.node.base - segment.base);
    handle->device = (uint32_t)device->ordinal;
    handle->bytes = memory.asked;
    memcpy(handle->owner, device->uuid.bytes, sizeof(handle->owner));
    return CUDA_SUCCESS;
}

CUresult cpu_ipc_import(cpu_context_t *context, int device, const cpu_ipc_handle_t *handle,
                        uint64_t *base)
{
    int fd = cpu_shared_open(&handle->file);
    if (fd < 0)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result =
        cpu_memory_import(device, context, fd, &handle->file, handle->offset, handle->bytes, base);
    close(fd);
    return result;
}

/* The device that the memory is on, if this process sees it, else the context's. */
static int device_of(const cpu_context_t *context, const cpu_ipc_handle_t *handle)
{
    const cpu_driver_t *driver = cpu_driver();
    for (int i = 0; i < driver->device_count; i++)
        if (memcmp(driver->devices[i].uuid.bytes, handle->owner, sizeof(handle->owner)) == 0)
            return i;
    return context->device->index;
}

static opened_t *find(const cpu_context_t *context, const cpu_ipc_handle_t *handle)
{
    opened_t *o = list.first;
    while (o && (o->context != context || memcmp(&o->handle, handle, sizeof(*handle)) != 0))
        o = o->next;
    return o;
}

CUresult cpu_ipc_open(cpu_context_t *context, const cpu_ipc_handle_t *handle, uint64_t *base)
{
    if (handle->file.pid == (uint32_t)getpid())
        return CUDA_ERROR_INVALID_CONTEXT; /* it is ours */
    opened_t *fresh = calloc(1, sizeof(*fresh));
    if (!fresh)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&list.lock);
    opened_t *known = find(context, handle);
    if (known) {
        known->count++;
        *base = known->base;
    } else {
        result = cpu_ipc_import(context, device_of(context, handle), handle, base);
    }
    if (!known && !result) {
        *fresh = (opened_t){list.first, context, *handle, *base, 1};
        list.first = fresh;
        fresh = NULL;
    }
    pthread_mutex_unlock(&list.lock);
    free(fresh);
    return result;
}

CUresult cpu_ipc_close(uint64_t base)
{
    bool end = false;
    pthread_mutex_lock(&list.lock);
    opened_t **at = &list.first;
    while (*at && (*at)->base != base)
        at = &(*at)->next;
    opened_t *found = *at;
    if (found && --found->count == 0) {
        *at = found->next;
        end = true;
    }
    pthread_mutex_unlock(&list.lock);
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    if (end) {
        free(found);
        return cpu_memory_free(CPU_MEMORY_IMPORTED, base);
    }
    return CUDA_SUCCESS;
}

void cpu_ipc_forget_context(const cpu_context_t *context)
{
    pthread_mutex_lock(&list.lock);
    for (opened_t **at = &list.first; *at;) {
        opened_t *o = *at;
        if (o->context == context) {
            *at = o->next;
            free(o);
        } else {
            at = &o->next;
        }
    }
    pthread_mutex_unlock(&list.lock);
}

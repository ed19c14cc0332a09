/* What the client learns at the start: the devices, and where their memory will be. */
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "gpu-proxy/session/px_ipc.h"
#include "gpu-proxy/session/px_state.h"

_Static_assert((int)PX_WIRE_ATTRIBUTES >= (int)CU_DEVICE_ATTRIBUTE_MAX,
               "the snapshot holds all attributes");

static CUresult describe(const gb_cuda_table_t *cuda, px_device_slot_t *slot, px_wire_device_t *out)
{
    size_t total = 0, granularity = 0;
    CUuuid uuid;
    CUmemAllocationProp prop = {0};
    CUresult result = cuda->cuDeviceGetName(out->name, sizeof(out->name), slot->ordinal);
    if (!result)
        result = cuda->cuDeviceTotalMem_v2(&total, slot->ordinal);
    if (!result)
        result = cuda->cuDeviceGetUuid_v2(&uuid, slot->ordinal);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = slot->ordinal;
    if (!result)
        result = cuda->cuMemGetAllocationGranularity(&granularity, &prop,
                                                     CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (result)
        return result;
    memcpy(out->uuid, &uuid, sizeof(out->uuid));
    out->total_memory = total;
    out->granularity = granularity;
    slot->granularity = granularity;
    for (int i = 1; i < CU_DEVICE_ATTRIBUTE_MAX; i++)
        if (cuda->cuDeviceGetAttribute(&out->attributes[i], (CUdevice_attribute)i, slot->ordinal))
            out->attributes[i] = 0;
    return CUDA_SUCCESS;
}

CUresult px_hello(px_call_t *call)
{
    px_session_t *s = call->session;
    const px_wire_hello_t *hello = (const void *)call->payload;
    px_wire_welcome_t welcome = {.version = PX_WIRE_VERSION,
                                 .late_copies = strcmp(s->config->driver_name, "null") != 0,
                                 .device_count = (uint32_t)s->device_count,
                                 .timeout_ms = s->config->timeout_ms};
    size_t size = sizeof(welcome) + (size_t)s->device_count * sizeof(px_wire_device_t);
    uint8_t *bytes = calloc(1, size);
    CUresult result = bytes ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t quota = s->config->memory_quota;
    int known = hello->version == PX_WIRE_VERSION;
    if (!known)
        gb_log(GB_LOG_WARN, "the client speaks version %u of the session protocol, this is %u",
               hello->version, PX_WIRE_VERSION);
    else
        gb_log(GB_LOG_INFO, "session of %.47s, process %u, on %s", hello->program, hello->pid,
               s->config->driver_name);
    if (known && hello->resumes && gb_durable_keep(s->stream) != GB_OK)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        result = s->cuda->cuDriverGetVersion(&welcome.driver_version);
    for (int i = 0; i < s->device_count && !result && known; i++) {
        px_wire_device_t *device = (void *)(bytes + sizeof(welcome) + (size_t)i * sizeof(*device));
        result = describe(s->cuda, &s->devices[i], device);
        if (quota && quota < device->total_memory)
            device->total_memory = quota;
    }
    if (result) {
        free(bytes);
        return result;
    }
    memcpy(bytes, &welcome, sizeof(welcome));
    s->greeted = known;
    call->extra = bytes;
    call->extra_size = (uint32_t)(known ? size : sizeof(welcome));
    return CUDA_SUCCESS;
}

static uint64_t allow(void *arg, uint64_t bytes, uint64_t *left)
{
    const px_device_slot_t *slot = arg;
    px_account_answer_t answer = px_account_want(slot->account, slot->ordinal, bytes);
    *left = answer.left;
    return answer.granted;
}

static void drop_shared(void *arg, const px_token_t *token)
{
    px_ipc_drop(arg, token);
}

/* px_wire_window_t: before there are contexts; an earlier window of the device is given up, unless memory counts
 * there already. */
CUresult px_window(px_call_t *call)
{
    px_session_t *s = call->session;
    const px_wire_window_t *wish = (const void *)call->payload;
    if (wish->device >= (uint64_t)s->device_count || wish->size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    px_device_slot_t *slot = &s->devices[wish->device];
    if (s->context_count > 0 || (slot->heap && px_heap_used(slot->heap)))
        return CUDA_ERROR_INVALID_VALUE;
    px_heap_destroy(slot->heap);
    slot->heap = NULL;
    uint64_t base = wish->base;
    CUresult result = px_heap_create(s->cuda, slot->ordinal, &base, wish->size,
                                     s->config->memory_quota, &slot->heap);
    slot->account = s->config->account;
    if (!result) {
        px_heap_on_gone(slot->heap, drop_shared, s);
        if (slot->account)
            px_heap_set_allow(slot->heap, allow, slot);
    }
    call->out[0] = wish->device;
    call->out[1] = result ? 0 : base;
    call->out[2] = wish->size;
    call->outs = 3;
    return CUDA_SUCCESS;
}

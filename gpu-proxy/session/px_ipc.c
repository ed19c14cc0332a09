#include "gpu-proxy/session/px_ipc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/cuda/gb_travel_abi.h"
#include "gpu-proxy/session/px_state.h"

_Static_assert(sizeof(px_token_t) == 2 * sizeof(uint64_t), "two words on the wire");
_Static_assert(sizeof(CUipcEventHandle) == PX_LOCKER_DATA, "what lies beside a descriptor");

/* An event that was left. */
typedef struct px_left {
    struct px_left *next;
    CUevent event;
    px_token_t token;
} left_t;

static CUresult result_of(gb_status_t st)
{
    switch (st) {
    case GB_OK:
        return CUDA_SUCCESS;
    case GB_ERR_NOT_FOUND:
        return CUDA_ERROR_INVALID_HANDLE;
    case GB_ERR_UNSUPPORTED:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
}

static CUresult put(px_session_t *s, const void *data, int fd, px_locker_memory_t *memory,
                    px_token_t *token)
{
    if (getrandom(token, sizeof(*token), 0) != sizeof(*token))
        return CUDA_ERROR_OPERATING_SYSTEM;
    pthread_mutex_lock(&s->locker_lock);
    gb_status_t st = px_locker_put(s->config->locker, token, data, fd, memory);
    pthread_mutex_unlock(&s->locker_lock);
    return result_of(st);
}

static CUresult get(px_session_t *s, const px_token_t *token, void *data, int *fd, uint64_t *number)
{
    pthread_mutex_lock(&s->locker_lock);
    gb_status_t st = px_locker_get(s->config->locker, token, data, fd, number);
    pthread_mutex_unlock(&s->locker_lock);
    return result_of(st);
}

void px_ipc_drop(px_session_t *s, const px_token_t *token)
{
    pthread_mutex_lock(&s->locker_lock);
    (void)px_locker_drop(s->config->locker, token);
    pthread_mutex_unlock(&s->locker_lock);
}

/* ---- memory ---- */

CUresult px_ipc_leave(px_session_t *s, CUmemGenericAllocationHandle memory,
                      px_locker_memory_t *what, px_token_t *token)
{
    int fd = -1;
    CUresult result = s->cuda->cuMemExportToShareableHandle(
        &fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result)
        return result == CUDA_ERROR_OUT_OF_MEMORY ? result : CUDA_ERROR_NOT_SUPPORTED;
    result = put(s, NULL, fd, what, token);
    close(fd);
    return result;
}

CUresult px_ipc_find(px_session_t *s, const px_token_t *token, CUmemGenericAllocationHandle *memory,
                     uint64_t *number)
{
    uint8_t data[PX_LOCKER_DATA];
    int fd;
    CUresult result = get(s, token, data, &fd, number);
    if (result)
        return result;
    if (fd < 0)
        return CUDA_ERROR_INVALID_HANDLE; /* it is an event */
    result = s->cuda->cuMemImportFromShareableHandle(memory, (void *)(intptr_t)fd,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    close(fd);
    if (result)
        px_ipc_release(s, *number);
    return result == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_INVALID_HANDLE : result;
}

void px_ipc_release(px_session_t *s, uint64_t number)
{
    if (!number)
        return;
    pthread_mutex_lock(&s->locker_lock);
    (void)px_locker_release(s->config->locker, number);
    pthread_mutex_unlock(&s->locker_lock);
}

/* u64 address of an allocation, u64 device -> u64 token[2], u64 base, u64 size of the mapping that it lies
 * in */
CUresult px_do_cuIpcGetMemHandle(px_call_t *call)
{
    px_session_t *s = call->session;
    px_heap_t *heap =
        call->args[1] < (uint64_t)s->device_count ? s->devices[call->args[1]].heap : NULL;
    px_heap_mapping_t mapping;
    if (!heap || !px_heap_mapping(heap, call->args[0], &mapping))
        return CUDA_ERROR_INVALID_VALUE;
    if (!mapping.shared) {
        px_locker_memory_t what = {.number = mapping.number,
                                   .size = mapping.size,
                                   .ordinal = (uint32_t)s->devices[call->args[1]].ordinal};
        CUresult result = px_ipc_leave(s, mapping.memory, &what, &mapping.token);
        if (result)
            return result;
        if (!px_heap_note_shared(heap, call->args[0], &mapping.token, what.number)) {
            px_ipc_drop(s, &mapping.token);
            /* Another lane was first, with this or with freeing it. */
            if (!px_heap_mapping(heap, call->args[0], &mapping) || !mapping.shared)
                return CUDA_ERROR_INVALID_VALUE;
        }
    }
    memcpy(call->out, &mapping.token, sizeof(mapping.token));
    call->out[2] = mapping.base;
    call->out[3] = mapping.size;
    call->outs = 4;
    return CUDA_SUCCESS;
}

/* ---- events ---- */

static const gb_travel_table_t *travel_of(const px_session_t *s)
{
    const void *table = NULL;
    return s->cuda->cuGetExportTable(&table, &gb_travel_uuid) == CUDA_SUCCESS ? table : NULL;
}

/* With the lock. */
static left_t *find_left(px_session_t *s, CUevent event)
{
    left_t *left = s->left_events;
    while (left && left->event != event)
        left = left->next;
    return left;
}

static CUresult leave_event(px_session_t *s, CUevent event, left_t *left)
{
    CUipcEventHandle handle;
    const gb_travel_table_t *travel = travel_of(s);
    CUresult result = s->cuda->cuIpcGetEventHandle(&handle, event);
    if (result)
        return result;
    *left = (left_t){.event = event};
    return put(s, &handle, travel ? travel->descriptor(&handle) : -1, NULL, &left->token);
}

/* u64 event -> u64 token[2] */
CUresult px_do_cuIpcGetEventHandle(px_call_t *call)
{
    px_session_t *s = call->session;
    CUevent event = px_event(call, call->args[0]);
    if (call->bad)
        return call->bad;
    pthread_mutex_lock(&s->lock);
    left_t *left = find_left(s, event);
    if (left)
        memcpy(call->out, &left->token, sizeof(left->token));
    pthread_mutex_unlock(&s->lock);
    call->outs = 2;
    if (left)
        return CUDA_SUCCESS;
    left = malloc(sizeof(*left));
    CUresult result = left ? leave_event(s, event, left) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        free(left);
        return result;
    }
    memcpy(call->out, &left->token, sizeof(left->token));
    pthread_mutex_lock(&s->lock);
    left->next = s->left_events;
    s->left_events = left;
    pthread_mutex_unlock(&s->lock);
    return CUDA_SUCCESS;
}

/* u64 number of the new event, u64 token[2] */
CUresult px_do_cuIpcOpenEventHandle(px_call_t *call)
{
    px_session_t *s = call->session;
    const gb_travel_table_t *travel = travel_of(s);
    CUipcEventHandle handle;
    px_token_t token;
    CUevent event;
    uint64_t number;
    int fd = -1;
    memcpy(&token, &call->args[1], sizeof(token));
    CUresult result = get(s, &token, &handle, &fd, &number);
    if (result)
        return result;
    px_ipc_release(s, number); /* if it is memory after all */
    if (travel && fd >= 0)
        travel->adopt(&handle, fd);
    result = s->cuda->cuIpcOpenEventHandle(&event, handle);
    if (fd >= 0)
        close(fd);
    if (result)
        return result == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_INVALID_HANDLE : result;
    result = px_object_put(call, PX_EVENT, call->args[0], event);
    if (result)
        s->cuda->cuEventDestroy_v2(event);
    return result;
}

void px_ipc_event_gone(px_session_t *s, CUevent event)
{
    left_t *found = NULL;
    pthread_mutex_lock(&s->lock);
    for (left_t **at = &s->left_events; *at; at = &(*at)->next)
        if ((*at)->event == event) {
            found = *at;
            *at = found->next;
            break;
        }
    pthread_mutex_unlock(&s->lock);
    if (found)
        px_ipc_drop(s, &found->token);
    free(found);
}

void px_ipc_end(px_session_t *s)
{
    while (s->left_events) {
        left_t *left = s->left_events;
        s->left_events = left->next;
        free(left);
    }
}

/* Linking at run time. A link is used by lanes, which may take long, so it counts who uses it. */
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/session/px_state.h"

struct px_link {
    CUlinkState state;
    unsigned users;       /* under the session's lock: the table, and calls under way */
    pthread_mutex_t lock; /* one call at a time */
    unsigned count;
    CUjit_option names[PX_WIRE_LINK_OPTIONS];
    void *values[PX_WIRE_LINK_OPTIONS];
    char error[PX_WIRE_LOG], info[PX_WIRE_LOG]; /* the driver writes them in every later step */
    const uint8_t *image;                       /* the driver's */
    size_t image_size;
};

static void put_link(px_session_t *s, px_link_t *link)
{
    pthread_mutex_lock(&s->lock);
    int last = --link->users == 0;
    pthread_mutex_unlock(&s->lock);
    if (!last)
        return;
    s->cuda->cuLinkDestroy(link->state);
    pthread_mutex_destroy(&link->lock);
    free(link);
}

void px_link_forget(px_session_t *s, px_link_t *link)
{
    put_link(s, link);
}

static px_link_t *link_for(px_call_t *call, uint64_t number)
{
    px_session_t *s = call->session;
    pthread_mutex_lock(&s->lock);
    px_link_t *link = px_object_get(s, PX_LINK, number);
    if (link)
        link->users++;
    pthread_mutex_unlock(&s->lock);
    return link;
}

/* Options that hold pointers get the session's own, or nothing: what came is the client's. */
static unsigned read_options(const px_wire_link_t *wire, px_link_t *link, CUjit_option *names,
                             void **values)
{
    unsigned count =
        wire->option_count < PX_WIRE_LINK_OPTIONS ? wire->option_count : PX_WIRE_LINK_OPTIONS;
    for (unsigned i = 0; i < count; i++) {
        uintptr_t value = wire->options[2 * i + 1];
        names[i] = (CUjit_option)wire->options[2 * i];
        switch (names[i]) {
        case CU_JIT_ERROR_LOG_BUFFER:
            values[i] = link->error;
            break;
        case CU_JIT_INFO_LOG_BUFFER:
            values[i] = link->info;
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            values[i] = (void *)(value < PX_WIRE_LOG ? value : PX_WIRE_LOG);
            break;
        case CU_JIT_GLOBAL_SYMBOL_NAMES:
        case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
        case CU_JIT_GLOBAL_SYMBOL_COUNT:
            values[i] = NULL;
            break;
        default:
            values[i] = (void *)value;
        }
    }
    return count;
}

/* The reply: the call's own result, so that logs travel with a failure too. */
static CUresult answer(px_call_t *call, const px_link_t *link, CUresult result)
{
    px_wire_linked_t head = {.values = link->count,
                             .error_log = (uint32_t)strnlen(link->error, PX_WIRE_LOG),
                             .info_log = (uint32_t)strnlen(link->info, PX_WIRE_LOG),
                             .image = result ? 0 : link->image_size};
    size_t size = sizeof(head) + link->count * sizeof(uint64_t) + head.error_log + head.info_log;
    uint8_t *bytes = malloc(size), *at = bytes;
    if (!bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(at, &head, sizeof(head));
    at += sizeof(head);
    for (unsigned i = 0; i < link->count; i++, at += sizeof(uint64_t)) {
        uint64_t value = (uint64_t)(uintptr_t)link->values[i];
        memcpy(at, &value, sizeof(value));
    }
    memcpy(at, link->error, head.error_log);
    memcpy(at + head.error_log, link->info, head.info_log);
    call->out[0] = result;
    call->outs = 1;
    call->extra = bytes;
    call->extra_size = (uint32_t)size;
    return CUDA_SUCCESS;
}

/* px_wire_link_t -> px_wire_linked_t */
CUresult px_do_cuLinkCreate_v2(px_call_t *call)
{
    const px_wire_link_t *wire = (const void *)call->payload;
    px_link_t *link = calloc(1, sizeof(*link));
    if (!link)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_init(&link->lock, NULL);
    link->users = 1;
    link->count = read_options(wire, link, link->names, link->values);
    CUresult result =
        call->cuda->cuLinkCreate_v2(link->count, link->names, link->values, &link->state);
    if (!result) {
        result = px_object_put(call, PX_LINK, wire->link, link);
        if (result)
            call->cuda->cuLinkDestroy(link->state);
    }
    CUresult told = answer(call, link, result);
    if (result) {
        pthread_mutex_destroy(&link->lock);
        free(link);
    }
    return told;
}

/* Takes over what the lane's image frames have brought. */
static CUresult take_image(px_lane_t *lane, uint8_t **image, uint64_t *size)
{
    int whole = lane->image && lane->image_got == lane->image_size;
    *image = lane->image;
    *size = lane->image_size;
    lane->image = NULL;
    lane->image_size = lane->image_got = 0;
    if (whole)
        return CUDA_SUCCESS;
    free(*image);
    *image = NULL;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* px_wire_link_t, the name -> px_wire_linked_t */
CUresult px_do_cuLinkAddData_v2(px_call_t *call)
{
    const px_wire_link_t *wire = (const void *)call->payload;
    CUjit_option names[PX_WIRE_LINK_OPTIONS];
    void *values[PX_WIRE_LINK_OPTIONS];
    char name[1024] = "";
    uint8_t *image;
    uint64_t size;
    if (!call->may_block)
        return PX_WOULD_BLOCK;
    CUresult result = take_image(call->lane, &image, &size);
    px_link_t *link = link_for(call, wire->link);
    if (!link || wire->name >= sizeof(name) || wire->name > call->frame.length - sizeof(*wire))
        result = link ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (!link) {
        free(image);
        return result;
    }
    pthread_mutex_lock(&link->lock);
    if (!result) {
        memcpy(name, wire + 1, wire->name);
        unsigned count = read_options(wire, link, names, values);
        result = call->cuda->cuLinkAddData_v2(link->state, (CUjitInputType)wire->type, image, size,
                                              wire->name ? name : NULL, count, names, values);
    }
    CUresult told = answer(call, link, result);
    pthread_mutex_unlock(&link->lock);
    put_link(call->session, link);
    free(image);
    return told;
}

/* px_wire_link_t -> px_wire_linked_t */
CUresult px_do_cuLinkComplete(px_call_t *call)
{
    const px_wire_link_t *wire = (const void *)call->payload;
    void *image = NULL;
    size_t size = 0;
    if (!call->may_block)
        return PX_WOULD_BLOCK;
    px_link_t *link = link_for(call, wire->link);
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&link->lock);
    CUresult result = call->cuda->cuLinkComplete(link->state, &image, &size);
    if (!result) {
        link->image = image;
        link->image_size = size;
    }
    CUresult told = answer(call, link, result);
    pthread_mutex_unlock(&link->lock);
    put_link(call->session, link);
    return told;
}

/* u64 link, u64 offset, u64 size -> the bytes */
CUresult px_link_read(px_call_t *call)
{
    uint64_t offset = call->args[1], size = call->args[2];
    px_link_t *link = link_for(call, call->args[0]);
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&link->lock);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (size && size <= PX_WIRE_PIECE && offset <= link->image_size &&
        size <= link->image_size - offset) {
        call->extra = malloc(size);
        result = call->extra ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!result) {
        memcpy(call->extra, link->image + offset, size);
        call->extra_size = (uint32_t)size;
    }
    pthread_mutex_unlock(&link->lock);
    put_link(call->session, link);
    return result;
}

/* u64 link */
CUresult px_do_cuLinkDestroy(px_call_t *call)
{
    px_link_t *link = px_object_take(call->session, PX_LINK, call->args[0]);
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    put_link(call->session, link);
    return CUDA_SUCCESS;
}

/* Linking at run time: the session's driver links, because it knows its device; the result comes here. */
#include <stdlib.h>
#include <string.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_image.h"
#include "gpu-proxy/client/rc_module.h"

enum { NAME_MOST = 1000 };

/* The options and their values stay the program's; every later step writes them. */
typedef struct rc_link {
    unsigned count;
    CUjit_option names[PX_WIRE_LINK_OPTIONS];
    void **values;
    char *error, *info;
    uint32_t error_size, info_size;
    uint8_t *image; /* what cuLinkComplete has handed out */
} link_t;

/* ---- options ---- */

static CUresult read_options(unsigned count, const CUjit_option *names, void *const *values,
                             px_wire_link_t *wire)
{
    if (count && (!names || !values))
        return CUDA_ERROR_INVALID_VALUE;
    if (count > PX_WIRE_LINK_OPTIONS)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        uint32_t value = (uint32_t)(uintptr_t)values[i];
        if (names[i] == CU_JIT_GLOBAL_SYMBOL_COUNT && value)
            return CUDA_ERROR_NOT_SUPPORTED; /* host addresses mean nothing to the device */
        if (names[i] == CU_JIT_ERROR_LOG_BUFFER || names[i] == CU_JIT_INFO_LOG_BUFFER)
            value = 0;
        wire->options[2 * i] = (uint32_t)names[i];
        wire->options[2 * i + 1] = value;
    }
    wire->option_count = count;
    return CUDA_SUCCESS;
}

static void note_buffers(link_t *link, unsigned count, const CUjit_option *names, void **values)
{
    link->count = count;
    link->values = values;
    for (unsigned i = 0; i < count; i++) {
        link->names[i] = names[i];
        uint32_t value = (uint32_t)(uintptr_t)values[i];
        switch (names[i]) {
        case CU_JIT_ERROR_LOG_BUFFER:
            link->error = values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            link->error_size = value;
            break;
        case CU_JIT_INFO_LOG_BUFFER:
            link->info = values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            link->info_size = value;
            break;
        default:
            break;
        }
    }
}

static void give_log(char *buffer, uint32_t size, const char *text, uint32_t length)
{
    if (!buffer || !size)
        return;
    if (length >= size)
        length = size - 1;
    memcpy(buffer, text, length);
    buffer[length] = 0;
}

/* Logs, their lengths and the time go to the program; returns the call's own result. */
static CUresult read_answer(const rc_waiter_t *waiter, link_t *link, uint64_t *image)
{
    gb_reader_t r = gb_reader(rc_waiter_bytes(waiter), waiter->more_size);
    px_wire_linked_t head;
    uint64_t result = gb_read_u64(&r);
    gb_read_into(&r, &head, sizeof(head));
    for (uint32_t i = 0; i < head.values && !r.failed; i++) {
        uint64_t value = gb_read_u64(&r);
        int told = i < link->count && (link->names[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES ||
                                       link->names[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
                                       link->names[i] == CU_JIT_WALL_TIME);
        if (told && !r.failed)
            link->values[i] = (void *)(uintptr_t)value;
    }
    const char *error = gb_read_bytes(&r, head.error_log);
    const char *info = gb_read_bytes(&r, head.info_log);
    if (r.failed)
        return CUDA_ERROR_UNKNOWN;
    give_log(link->error, link->error_size, error, head.error_log);
    give_log(link->info, link->info_size, info, head.info_log);
    *image = head.image;
    return (CUresult)result;
}

static CUresult ask(rc_call_t *call, link_t *link, uint16_t op, const px_wire_link_t *wire,
                    const char *name, uint64_t *image)
{
    rc_waiter_t waiter = {0};
    CUresult result =
        rc_ask_bytes(call, op, wire, sizeof(*wire), name, name ? wire->name : 0, &waiter);
    if (!result)
        result = read_answer(&waiter, link, image);
    rc_waiter_done(&waiter);
    return result;
}

/* ---- calls ---- */

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues,
                         CUlinkState *stateOut)
{
    rc_call_t call;
    px_wire_link_t wire = {0};
    uint64_t image;
    CUresult result = rc_begin_in_context(&call);
    if (!result && !stateOut)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = read_options(numOptions, options, optionValues, &wire);
    if (result)
        return result;
    link_t *link = calloc(1, sizeof(*link));
    rc_object_t *object = link ? rc_object_new(RC_LINK, call.session, call.context) : NULL;
    if (!object) {
        free(link);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    note_buffers(link, numOptions, options, optionValues);
    object->link = link;
    wire.link = object->number;
    result = ask(&call, link, GB_OP_cuLinkCreate_v2, &wire, NULL, &image);
    if (!result) {
        *stateOut = rc_handle(object);
        return CUDA_SUCCESS;
    }
    if (rc_object_kill(object)) {
        rc_object_free(object);
        free(link);
    }
    return result;
}

static CUresult find(CUlinkState state, rc_call_t *call, rc_object_t **object)
{
    CUresult result = rc_begin(call);
    if (result)
        return result;
    *object = rc_object_get(RC_LINK, state);
    if (!*object)
        return CUDA_ERROR_INVALID_HANDLE;
    call->session = (*object)->session;
    call->owner = (*object)->context;
    return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                          const char *name, unsigned int numOptions, CUjit_option *options,
                          void **optionValues)
{
    rc_call_t call;
    rc_object_t *object;
    px_wire_link_t wire = {.type = type};
    uint64_t image;
    CUresult result = find(state, &call, &object);
    if (!result && ((int)type < 0 || type >= CU_JIT_NUM_INPUT_TYPES))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = read_options(numOptions, options, optionValues, &wire);
    if (!result && (!data || !size))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_image_send(&call, data, size);
    if (result)
        return result;
    wire.link = object->number;
    wire.name = name ? (uint32_t)strnlen(name, NAME_MOST) : 0;
    return ask(&call, object->link, GB_OP_cuLinkAddData_v2, &wire, name, &image);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                          unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    rc_call_t call;
    rc_object_t *object;
    px_wire_link_t wire = {0};
    char *bytes;
    size_t size;
    CUresult result = find(state, &call, &object);
    if (!result && ((int)type < 0 || type >= CU_JIT_NUM_INPUT_TYPES))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = read_options(numOptions, options, optionValues, &wire);
    if (!result && !path)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_module_read_file(path, &bytes, &size);
    if (result)
        return result;
    result = cuLinkAddData_v2(state, type, bytes, size, path, numOptions, options, optionValues);
    free(bytes);
    return result;
}

static CUresult fetch(rc_call_t *call, uint64_t number, uint8_t *image, uint64_t size)
{
    CUresult result = CUDA_SUCCESS;
    for (uint64_t done = 0; done < size && !result;) {
        uint64_t piece = size - done < PX_WIRE_PIECE ? size - done : PX_WIRE_PIECE;
        uint64_t args[3] = {number, done, piece};
        rc_waiter_t waiter = {0};
        result = rc_ask_bytes(call, PX_OP_LINK_READ, args, sizeof(args), NULL, 0, &waiter);
        if (!result && waiter.more_size < piece)
            result = CUDA_ERROR_UNKNOWN;
        if (!result)
            memcpy(image + done, rc_waiter_bytes(&waiter), piece);
        rc_waiter_done(&waiter);
        done += piece;
    }
    return result;
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
    rc_call_t call;
    rc_object_t *object;
    px_wire_link_t wire = {0};
    uint64_t size = 0;
    CUresult result = find(state, &call, &object);
    if (!result && !cubinOut)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    wire.link = object->number;
    result = ask(&call, object->link, GB_OP_cuLinkComplete, &wire, NULL, &size);
    if (result)
        return result;
    uint8_t *image = malloc(size + 1);
    if (!image)
        return CUDA_ERROR_OUT_OF_MEMORY;
    image[size] = 0;
    result = fetch(&call, object->number, image, size);
    if (result) {
        free(image);
        return result;
    }
    free(object->link->image);
    object->link->image = image;
    *cubinOut = image;
    if (sizeOut)
        *sizeOut = size;
    return CUDA_SUCCESS;
}

void rc_link_dropped(rc_object_t *object)
{
    free(object->link->image);
    free(object->link);
}

CUresult cuLinkDestroy(CUlinkState state)
{
    rc_call_t call;
    rc_object_t *object;
    CUresult result = find(state, &call, &object);
    if (result)
        return result;
    if (!rc_object_kill(object))
        return CUDA_ERROR_INVALID_HANDLE;
    uint64_t number = object->number;
    rc_link_dropped(object);
    call.dropped = object;
    return rc_post(&call, GB_OP_cuLinkDestroy, &number, 1);
}

/* ---- programs of separately compiled parts ---- */

static CUresult link_parts(CUlinkState state, const void *const *parts, void **linked)
{
    CUresult result = CUDA_SUCCESS;
    void *image;
    size_t size;
    for (; *parts && !result; parts++) {
        const void *bytes;
        result = rc_image_size(*parts, &bytes, &size);
        if (!result)
            result = cuLinkAddData_v2(state, CU_JIT_INPUT_FATBINARY, (void *)(uintptr_t)bytes, size,
                                      NULL, 0, NULL, NULL);
    }
    if (!result)
        result = cuLinkComplete(state, &image, &size);
    if (result)
        return result;
    *linked = malloc(size + 1);
    if (!*linked)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(*linked, image, size);
    ((char *)*linked)[size] = 0;
    return CUDA_SUCCESS;
}

CUresult rc_module_link(const void *image, unsigned count, const CUjit_option *names,
                        void *const *values, void **linked)
{
    const void *const *parts = rc_image_parts(image);
    CUjit_option log_names[2] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *log[2] = {NULL, NULL};
    CUlinkState state;
    *linked = NULL;
    if (!parts)
        return CUDA_SUCCESS;
    for (unsigned i = 0; names && values && i < count; i++)
        for (int k = 0; k < 2; k++)
            if (names[i] == log_names[k])
                log[k] = values[i];
    CUresult result = cuLinkCreate_v2(log[0] && log[1] ? 2 : 0, log_names, log, &state);
    if (result)
        return result;
    result = link_parts(state, parts, linked);
    cuLinkDestroy(state);
    return result;
}

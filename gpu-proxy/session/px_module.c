/* Modules: the image comes once in pieces, is kept by hash, and the reply tells its functions. */
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/session/px_state.h"

#define IMAGE_MAX (1ull << 30)   /* bytes of one image */
#define IMAGES_MAX (64ull << 20) /* bytes kept for further loads of the same */
enum { NAME_MAX_BYTES = 8 << 10, FUNCTIONS_MAX = 64 << 10 };

/* Images seen, newest first. */
typedef struct px_image {
    struct px_image *next;
    int users; /* loads under way */
    uint8_t hash[PX_WIRE_HASH];
    uint64_t size;
    uint8_t bytes[];
} px_image_t;

/* A reply under construction. */
typedef struct {
    uint8_t *bytes;
    size_t size, room;
    int failed;
} text_t;

static void *append(text_t *text, const void *bytes, size_t size)
{
    if (text->size + size > text->room && !text->failed) {
        size_t room = (text->size + size) * 2 + 1024;
        uint8_t *grown = realloc(text->bytes, room);
        if (grown) {
            text->bytes = grown;
            text->room = room;
        } else {
            text->failed = 1;
        }
    }
    if (text->failed)
        return NULL;
    uint8_t *at = text->bytes + text->size;
    if (bytes)
        memcpy(at, bytes, size);
    else
        memset(at, 0, size);
    text->size += size;
    return at;
}

/* u64 total, u64 offset, bytes: pieces come in order */
CUresult px_image_piece(px_call_t *call)
{
    px_lane_t *lane = call->lane;
    uint64_t total = call->args[0], offset = call->args[1];
    uint64_t size = call->frame.length - 16;
    if (offset == 0) {
        free(lane->image);
        lane->image = total <= IMAGE_MAX ? malloc(total ? total : 1) : NULL;
        lane->image_size = lane->image ? total : 0;
        lane->image_got = 0;
    }
    /* The last piece is padded. What does not fit is noticed when the module is loaded. */
    if (offset != lane->image_got || offset > lane->image_size)
        return CUDA_SUCCESS;
    if (size > lane->image_size - offset)
        size = lane->image_size - offset;
    if (size)
        memcpy(lane->image + offset, call->payload + 16, size);
    lane->image_got += size;
    return CUDA_SUCCESS;
}

/* With the lock held. */
static px_image_t *image_find(px_session_t *s, const uint8_t *hash)
{
    for (px_image_t *image = s->images; image; image = image->next)
        if (memcmp(image->hash, hash, PX_WIRE_HASH) == 0)
            return image;
    return NULL;
}

/* Gives an image back after a load, and drops old ones beyond the limit. */
static void image_done(px_session_t *s, px_image_t *done)
{
    uint64_t kept = 0;
    if (!done)
        return;
    pthread_mutex_lock(&s->lock);
    done->users--;
    for (px_image_t **at = &s->images; *at;) {
        px_image_t *image = *at;
        kept += image->size;
        if (kept <= IMAGES_MAX || image->users > 0) {
            at = &image->next;
        } else {
            *at = image->next;
            free(image);
        }
    }
    pthread_mutex_unlock(&s->lock);
}

void px_images_free(px_session_t *s)
{
    while (s->images) {
        px_image_t *image = s->images;
        s->images = image->next;
        free(image);
    }
}

/* Takes the lane's bytes over as an image. */
static px_image_t *image_make(px_lane_t *lane, const uint8_t *hash)
{
    /* One byte more, so that text without its zero ends. */
    px_image_t *image = malloc(sizeof(*image) + lane->image_size + 1);
    if (!image)
        return NULL;
    memcpy(image->hash, hash, PX_WIRE_HASH);
    image->users = 0;
    image->size = lane->image_size;
    memcpy(image->bytes, lane->image, lane->image_size);
    image->bytes[lane->image_size] = 0;
    return image;
}

/* The image that the load names: sent just now, or seen before. CUDA_ERROR_FILE_NOT_FOUND: no longer
 * here, send it. The caller gives it back with image_done. */
static CUresult image_of(px_call_t *call, const px_wire_module_t *load, px_image_t **out)
{
    px_session_t *s = call->session;
    px_lane_t *lane = call->lane;
    uint8_t hash[PX_WIRE_HASH];
    int sent = load->image_size != 0;
    if (sent) {
        if (!lane->image || lane->image_got != load->image_size ||
            lane->image_size != load->image_size)
            return CUDA_ERROR_OUT_OF_MEMORY;
        SHA256(lane->image, load->image_size, hash);
        if (memcmp(hash, load->hash, sizeof(hash)) != 0)
            return CUDA_ERROR_INVALID_IMAGE;
    }
    pthread_mutex_lock(&s->lock);
    px_image_t *image = image_find(s, load->hash);
    if (!image && sent) {
        image = image_make(lane, load->hash);
        if (image) {
            image->next = s->images;
            s->images = image;
        }
    }
    if (image)
        image->users++;
    pthread_mutex_unlock(&s->lock);
    if (sent) {
        free(lane->image);
        lane->image = NULL;
        lane->image_size = lane->image_got = 0;
    }
    *out = image;
    if (image)
        return CUDA_SUCCESS;
    return sent ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_FILE_NOT_FOUND;
}

static int note_function(px_module_t *module, uint32_t number)
{
    if (module->count == module->room) {
        uint32_t room = module->room * 2 + 16;
        uint32_t *grown = realloc(module->functions, room * sizeof(*grown));
        if (!grown)
            return 0;
        module->functions = grown;
        module->room = room;
    }
    module->functions[module->count++] = number;
    return 1;
}

/* Appends a function's record and gives the function its number. */
static CUresult describe(px_call_t *call, px_module_t *module, CUfunction function,
                         const char *name, text_t *text)
{
    const gb_cuda_table_t *cuda = call->cuda;
    px_wire_function_t record = {0};
    size_t at = text->size, offset, size;
    uint32_t number = atomic_fetch_add(&call->session->next_function, 1);
    CUresult result = px_object_put(call, PX_FUNCTION, number, function);
    if (result)
        return result;
    if (!note_function(module, number))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < PX_WIRE_FUNCTION_ATTRIBUTES; i++)
        if (cuda->cuFuncGetAttribute(&record.attributes[i], (CUfunction_attribute)i, function))
            record.attributes[i] = 0;
    append(text, &record, sizeof(record));
    while (cuda->cuFuncGetParamInfo(function, record.params, &offset, &size) == CUDA_SUCCESS &&
           record.params < 4096) {
        uint32_t pair[2] = {(uint32_t)offset, (uint32_t)size};
        append(text, pair, sizeof(pair));
        record.params++;
    }
    record.function = number;
    record.name = (uint32_t)strlen(name);
    append(text, name, record.name);
    append(text, NULL, px_wire_pad(record.name) - record.name);
    if (text->failed)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(text->bytes + at, &record, sizeof(record));
    return CUDA_SUCCESS;
}

static CUresult describe_all(px_call_t *call, px_module_t *module, text_t *text,
                             uint32_t *described)
{
    unsigned count = 0;
    CUresult result = call->cuda->cuModuleGetFunctionCount(&count, module->handle);
    if (result || count > FUNCTIONS_MAX) {
        *described = PX_WIRE_UNKNOWN;
        return CUDA_SUCCESS;
    }
    CUfunction *functions = calloc(count + 1, sizeof(*functions));
    if (!functions)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = count ? call->cuda->cuModuleEnumerateFunctions(functions, count, module->handle)
                   : CUDA_SUCCESS;
    for (unsigned i = 0; i < count && !result; i++) {
        const char *name;
        result = call->cuda->cuFuncGetName(&name, functions[i]);
        if (!result)
            result = describe(call, module, functions[i], name, text);
    }
    free(functions);
    *described = count;
    return result;
}

/* JIT options: the client's scalar ones, and our own log buffers. */
typedef struct {
    CUjit_option names[PX_WIRE_JIT_OPTIONS + 4];
    void *values[PX_WIRE_JIT_OPTIONS + 4];
    unsigned count;
    char error[PX_WIRE_LOG], info[PX_WIRE_LOG];
} options_t;

static void add_option(options_t *options, CUjit_option name, uintptr_t value)
{
    options->names[options->count] = name;
    options->values[options->count++] = (void *)value;
}

static void fill_options(options_t *options, const px_wire_module_t *load)
{
    uint32_t log = load->log_size < PX_WIRE_LOG ? load->log_size : PX_WIRE_LOG;
    for (uint32_t i = 0; i < load->option_count && i < PX_WIRE_JIT_OPTIONS; i++)
        add_option(options, (CUjit_option)load->options[2 * i], load->options[2 * i + 1]);
    if (log == 0)
        return;
    add_option(options, CU_JIT_ERROR_LOG_BUFFER, (uintptr_t)options->error);
    add_option(options, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, log);
    add_option(options, CU_JIT_INFO_LOG_BUFFER, (uintptr_t)options->info);
    add_option(options, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, log);
}

void px_module_forget(px_session_t *s, px_module_t *module)
{
    for (uint32_t i = 0; i < module->count; i++)
        px_object_take(s, PX_FUNCTION, module->functions[i]);
    free(module->functions);
    free(module);
}

/* The reply carries the load's own result, so that logs travel with a failure too. */
CUresult px_do_cuModuleLoadDataEx(px_call_t *call)
{
    px_wire_module_t load;
    px_wire_loaded_t head = {0};
    px_image_t *image = NULL;
    text_t text = {0};
    if (!call->may_block)
        return PX_WOULD_BLOCK;
    memcpy(&load, call->payload, sizeof(load));
    px_module_t *module = calloc(1, sizeof(*module));
    options_t *options = calloc(1, sizeof(*options));
    CUresult result = module && options ? image_of(call, &load, &image) : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        fill_options(options, &load);
        result = call->cuda->cuModuleLoadDataEx(&module->handle, image->bytes, options->count,
                                                options->names, options->values);
    }
    append(&text, &head, sizeof(head));
    if (options) {
        head.error_log = (uint32_t)strnlen(options->error, PX_WIRE_LOG - 1);
        head.info_log = (uint32_t)strnlen(options->info, PX_WIRE_LOG - 1);
        append(&text, options->error, head.error_log);
        append(&text, options->info, head.info_log);
        append(&text, NULL, px_wire_pad((uint32_t)text.size) - text.size);
    }
    if (!result) {
        result = describe_all(call, module, &text, &head.functions);
        if (!result && text.size > PX_WIRE_MAX - 64)
            result = CUDA_ERROR_OUT_OF_MEMORY;
        if (!result)
            result = px_object_put(call, PX_MODULE, load.module, module);
        if (result)
            call->cuda->cuModuleUnload(module->handle);
    }
    free(options);
    image_done(call->session, image);
    if (result && module) {
        px_module_forget(call->session, module);
        text.size = sizeof(head) + head.error_log + head.info_log;
    }
    if (text.failed || !text.bytes) {
        free(text.bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(text.bytes, &head, sizeof(head));
    call->out[0] = result;
    call->outs = 1;
    call->extra = text.bytes;
    call->extra_size = (uint32_t)text.size;
    return CUDA_SUCCESS;
}

/* u64 module, then the name */
CUresult px_function_by_name(px_call_t *call)
{
    char name[NAME_MAX_BYTES];
    px_module_t *module = px_object_get(call->session, PX_MODULE, call->args[0]);
    size_t size = call->frame.length - 8;
    CUfunction function;
    text_t text = {0};
    if (!module || size >= sizeof(name))
        return module ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
    memcpy(name, call->payload + 8, size);
    name[size] = 0;
    CUresult result = call->cuda->cuModuleGetFunction(&function, module->handle, name);
    if (!result)
        result = describe(call, module, function, name, &text);
    if (result) {
        free(text.bytes);
        return result;
    }
    call->extra = text.bytes;
    call->extra_size = (uint32_t)text.size;
    return CUDA_SUCCESS;
}

/* u64 module */
CUresult px_do_cuModuleUnload(px_call_t *call)
{
    px_module_t *module = px_object_take(call->session, PX_MODULE, call->args[0]);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = call->cuda->cuModuleUnload(module->handle);
    px_module_forget(call->session, module);
    return result;
}

/* The driver's managed memory that the variable lies in; *size is 0 if it is none. */
static void managed_range(px_call_t *call, CUdeviceptr address, uint64_t *base, uint64_t *size)
{
    unsigned managed = 0;
    CUdeviceptr start = 0;
    size_t bytes = 0;
    CUresult result =
        call->cuda->cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
    if (!result && managed)
        result = call->cuda->cuMemGetAddressRange_v2(&start, &bytes, address);
    *base = start;
    *size = result ? 0 : bytes;
}

/* u64 module, then the name -> u64 address, u64 size, u64 base and u64 size of the managed memory that it
 * lies in, or 0. The client reaches that memory at the same addresses. */
CUresult px_do_cuModuleGetGlobal_v2(px_call_t *call)
{
    char name[NAME_MAX_BYTES];
    px_module_t *module = px_object_get(call->session, PX_MODULE, call->args[0]);
    size_t size = call->frame.length - 8, bytes = 0;
    CUdeviceptr address = 0;
    if (!module || size >= sizeof(name))
        return module ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
    memcpy(name, call->payload + 8, size);
    name[size] = 0;
    CUresult result = call->cuda->cuModuleGetGlobal_v2(&address, &bytes, module->handle, name);
    call->out[0] = address;
    call->out[1] = bytes;
    call->out[2] = call->out[3] = 0;
    call->outs = 4;
    if (!result)
        managed_range(call, address, &call->out[2], &call->out[3]);
    if (!result && call->out[3] && call->context && !call->context->pages)
        result = call->cuda->cuStreamCreate(&call->context->pages, CU_STREAM_NON_BLOCKING);
    return result;
}

/* u64 function, u64 attribute, u64 value */
CUresult px_do_cuFuncSetAttribute(px_call_t *call)
{
    CUfunction function = px_function(call, call->args[0]);
    int now = 0;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    CUfunction_attribute attribute = (CUfunction_attribute)call->args[1];
    CUresult result = call->cuda->cuFuncSetAttribute(function, attribute, (int)call->args[2]);
    if (!result)
        result = call->cuda->cuFuncGetAttribute(&now, attribute, function);
    call->out[0] = (uint64_t)(int64_t)now;
    call->outs = 1;
    return result;
}

/* u64 function, u64 config */
CUresult px_do_cuFuncSetCacheConfig(px_call_t *call)
{
    CUfunction function = px_function(call, call->args[0]);
    return call->bad ? call->bad
                     : call->cuda->cuFuncSetCacheConfig(function, (CUfunc_cache)call->args[1]);
}

/* u64 function, u64 dynamic bytes, u64 block size limit, u64 flags -> u64 grid, u64 block */
CUresult px_do_cuOccupancyMaxPotentialBlockSizeWithFlags(px_call_t *call)
{
    CUfunction function = px_function(call, call->args[0]);
    int grid = 0, block = 0;
    if (call->bad)
        return call->bad;
    CUresult result = call->cuda->cuOccupancyMaxPotentialBlockSizeWithFlags(
        &grid, &block, function, NULL, call->args[1], (int)call->args[2], (unsigned)call->args[3]);
    call->out[0] = (uint64_t)grid;
    call->out[1] = (uint64_t)block;
    call->outs = 2;
    return result;
}

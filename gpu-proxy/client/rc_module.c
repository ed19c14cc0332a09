#include "gpu-proxy/client/rc_module.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/client/rc_image.h"
#include "gpu-proxy/client/rc_shared.h"

static void function_free(rc_function_t *function)
{
    if (!function)
        return;
    free(function->params);
    free(function->name);
    free(function);
}

void rc_module_free(rc_module_t *module)
{
    if (!module)
        return;
    for (uint32_t i = 0; i < module->count; i++)
        function_free(module->functions[i]);
    free(module->functions);
    free(module->globals);
    pthread_mutex_destroy(&module->lock);
    free(module);
}

/* ---- decoding what the session says ---- */

/* A function record; gives it a handle. */
static CUresult read_function(gb_reader_t *r, rc_object_t *module, rc_function_t **out)
{
    px_wire_function_t record;
    gb_read_into(r, &record, sizeof(record));
    rc_function_t *f = r->failed ? NULL : calloc(1, sizeof(*f));
    if (!f)
        return CUDA_ERROR_OUT_OF_MEMORY;
    f->wire = record.function;
    f->param_count = record.params;
    size_t pairs = (size_t)record.params * sizeof(*f->params);
    const void *params = gb_read_bytes(r, pairs);
    const void *name = gb_read_bytes(r, record.name);
    gb_read_bytes(r, px_wire_pad(record.name) - record.name);
    if (r->failed)
        goto err_free;
    f->params = malloc(pairs ? pairs : 1);
    f->name = strndup(name, record.name);
    if (!f->params || !f->name)
        goto err_free;
    memcpy(f->params, params, pairs);
    for (uint32_t i = 0; i < f->param_count; i++) {
        uint64_t end = (uint64_t)f->params[i].offset + f->params[i].size;
        if (end > PX_WIRE_PARAMS)
            goto err_free;
        if (end > f->param_bytes)
            f->param_bytes = (uint32_t)end;
    }
    for (int i = 0; i < PX_WIRE_FUNCTION_ATTRIBUTES; i++)
        atomic_init(&f->attributes[i], record.attributes[i]);
    rc_object_t *object = rc_object_new(RC_FUNCTION, module->session, module->context);
    if (!object)
        goto err_free;
    object->function.function = f;
    object->function.module = module;
    f->handle = rc_handle(object);
    *out = f;
    return CUDA_SUCCESS;
err_free:
    function_free(f);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult keep_function(rc_module_t *m, rc_function_t *function)
{
    if (m->count == m->room) {
        uint32_t room = m->room * 2 + 16;
        rc_function_t **grown = realloc(m->functions, room * sizeof(*grown));
        if (!grown)
            return CUDA_ERROR_OUT_OF_MEMORY;
        m->functions = grown;
        m->room = room;
    }
    m->functions[m->count++] = function;
    return CUDA_SUCCESS;
}

static CUresult read_functions(gb_reader_t *r, rc_object_t *module, uint32_t count)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < count && !result; i++) {
        rc_function_t *function;
        result = read_function(r, module, &function);
        if (!result)
            result = keep_function(module->module, function);
    }
    return result;
}

/* ---- JIT options ---- */

/* The options of a load, and the log buffers among them. */
typedef struct {
    unsigned count;
    CUjit_option *names;
    void **values;
    char *error, *info;
    uint32_t error_size, info_size;
} request_t;

/* Sorts CUDA's options into numbers that travel and buffers that the logs go to. */
static CUresult read_options(request_t *request, px_wire_module_t *load)
{
    if (request->count > RC_JIT_OPTIONS ||
        (request->count && (!request->names || !request->values)))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < request->count; i++) {
        uint32_t value = (uint32_t)(uintptr_t)request->values[i];
        switch (request->names[i]) {
        case CU_JIT_ERROR_LOG_BUFFER:
            request->error = request->values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            request->error_size = value;
            break;
        case CU_JIT_INFO_LOG_BUFFER:
            request->info = request->values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            request->info_size = value;
            break;
        case CU_JIT_WALL_TIME: /* output only */
        case CU_JIT_GLOBAL_SYMBOL_NAMES:
        case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
            break;
        default:
            if (load->option_count == PX_WIRE_JIT_OPTIONS)
                return CUDA_ERROR_INVALID_VALUE;
            load->options[2 * load->option_count] = (uint32_t)request->names[i];
            load->options[2 * load->option_count + 1] = value;
            load->option_count++;
        }
    }
    load->log_size =
        request->error_size > request->info_size ? request->error_size : request->info_size;
    if (load->log_size > PX_WIRE_LOG)
        load->log_size = PX_WIRE_LOG;
    return CUDA_SUCCESS;
}

static void give_log(char *buffer, uint32_t size, const char *text, uint32_t length)
{
    if (!buffer || size == 0)
        return;
    if (length >= size)
        length = size - 1;
    if (length)
        memcpy(buffer, text, length);
    buffer[length] = 0;
}

static void *with_zero(uint32_t length)
{
    return (void *)(uintptr_t)(length ? length + 1 : 0);
}

/* CUDA writes the filled lengths back into the size options. */
static void give_logs(request_t *request, const px_wire_loaded_t *head, const char *error,
                      const char *info)
{
    give_log(request->error, request->error_size, error, head->error_log);
    give_log(request->info, request->info_size, info, head->info_log);
    for (unsigned i = 0; i < request->count; i++) {
        if (request->names[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            request->values[i] = with_zero(head->error_log);
        if (request->names[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)
            request->values[i] = with_zero(head->info_log);
    }
}

/* ---- loading ---- */

static int session_has(rc_session_t *s, const uint8_t *hash)
{
    int found = 0;
    pthread_mutex_lock(&s->hash_lock);
    for (size_t i = 0; i < s->hash_count && !found; i++)
        found = memcmp(s->hashes[i], hash, PX_WIRE_HASH) == 0;
    pthread_mutex_unlock(&s->hash_lock);
    return found;
}

static void session_forgets(rc_session_t *s, const uint8_t *hash)
{
    pthread_mutex_lock(&s->hash_lock);
    for (size_t i = 0; i < s->hash_count; i++)
        if (memcmp(s->hashes[i], hash, PX_WIRE_HASH) == 0)
            memcpy(s->hashes[i--], s->hashes[--s->hash_count], PX_WIRE_HASH);
    pthread_mutex_unlock(&s->hash_lock);
}

static void session_note(rc_session_t *s, const uint8_t *hash)
{
    if (session_has(s, hash))
        return;
    pthread_mutex_lock(&s->hash_lock);
    void *grown = realloc(s->hashes, (s->hash_count + 1) * PX_WIRE_HASH);
    if (grown) {
        s->hashes = grown;
        memcpy(s->hashes[s->hash_count++], hash, PX_WIRE_HASH);
    }
    pthread_mutex_unlock(&s->hash_lock);
}

CUresult rc_image_send(rc_call_t *call, const void *image, uint64_t size)
{
    const uint8_t *bytes = image;
    CUresult result = CUDA_SUCCESS;
    for (uint64_t done = 0; done < size && !result;) {
        uint64_t head[2] = {size, done};
        uint64_t piece = size - done < PX_WIRE_PIECE ? size - done : PX_WIRE_PIECE;
        result = rc_post_bulk(call, PX_OP_IMAGE, head, sizeof(head), bytes + done, piece);
        done += piece;
    }
    return result;
}

/* Reads the reply; its first number is the result of the load itself. */
static CUresult read_loaded(const rc_waiter_t *waiter, rc_object_t *module, request_t *request)
{
    gb_reader_t r = gb_reader(rc_waiter_bytes(waiter), waiter->more_size);
    px_wire_loaded_t head;
    uint64_t result = gb_read_u64(&r);
    gb_read_into(&r, &head, sizeof(head));
    const char *error = gb_read_bytes(&r, head.error_log);
    const char *info = gb_read_bytes(&r, head.info_log);
    if (r.failed)
        return CUDA_ERROR_UNKNOWN;
    if (result != CUDA_ERROR_FILE_NOT_FOUND)
        give_logs(request, &head, error, info);
    if (result)
        return (CUresult)result;
    uint32_t text = head.error_log + head.info_log;
    gb_read_bytes(&r, px_wire_pad(text) - text);
    module->module->complete = head.functions != PX_WIRE_UNKNOWN;
    return module->module->complete ? read_functions(&r, module, head.functions) : CUDA_SUCCESS;
}

static rc_object_t *new_module(rc_call_t *call)
{
    rc_module_t *m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    pthread_mutex_init(&m->lock, NULL);
    rc_object_t *module = rc_object_new(RC_MODULE, call->session, call->context);
    if (module)
        module->module = m;
    else
        rc_module_free(m);
    return module;
}

/* Ends the module's handle and those of its functions and variables. The object itself lasts until the
 * caller frees it. 0 if another thread was first. */
static int module_end(rc_object_t *module)
{
    if (!rc_object_kill(module))
        return 0;
    rc_module_t *m = module->module;
    for (uint32_t i = 0; i < m->count; i++) {
        rc_object_t *object = rc_object_get(RC_FUNCTION, m->functions[i]->handle);
        if (object && rc_object_kill(object))
            rc_object_free(object);
    }
    for (uint32_t i = 0; i < m->global_count; i++) {
        rc_block_t block;
        if (rc_block_take(RC_BLOCK_MANAGED_VARIABLE, m->globals[i], &block)) {
            rc_hints_drop(block.range.start, block.range.size);
            rc_shared_disown(block.range.start);
        } else {
            rc_block_take(RC_BLOCK_GLOBAL, m->globals[i], &block);
        }
    }
    rc_module_free(m);
    return 1;
}

/* One try: the image if load->image_size says so, then the load itself. */
static CUresult send_and_load(rc_call_t *call, const void *bytes, size_t size,
                              const px_wire_module_t *load, request_t *request, rc_object_t *module)
{
    rc_waiter_t waiter = {0};
    CUresult result = load->image_size ? rc_image_send(call, bytes, size) : CUDA_SUCCESS;
    if (!result)
        result =
            rc_ask_bytes(call, GB_OP_cuModuleLoadDataEx, load, sizeof(*load), NULL, 0, &waiter);
    if (!result)
        result = read_loaded(&waiter, module, request);
    rc_waiter_done(&waiter);
    return result;
}

CUresult rc_module_load(rc_call_t *call, const void *image, unsigned count, CUjit_option *names,
                        void **values, rc_object_t **out)
{
    px_wire_module_t load = {0};
    request_t request = {count, names, values};
    const void *bytes;
    size_t size;
    CUresult result = read_options(&request, &load);
    if (!result)
        result = rc_image_size(image, &bytes, &size);
    if (result)
        return result;
    rc_object_t *module = new_module(call);
    if (!module)
        return CUDA_ERROR_OUT_OF_MEMORY;
    SHA256(bytes, size, load.hash);
    load.module = module->number;
    load.image_size = session_has(call->session, load.hash) ? 0 : size;
    result = send_and_load(call, bytes, size, &load, &request, module);
    if (result == CUDA_ERROR_FILE_NOT_FOUND && load.image_size == 0) {
        session_forgets(call->session, load.hash); /* it kept newer ones: send it again */
        load.image_size = size;
        result = send_and_load(call, bytes, size, &load, &request, module);
    }
    if (!result)
        session_note(call->session, load.hash);
    if (!result)
        *out = module;
    else if (module_end(module))
        rc_object_free(module);
    return result;
}

CUresult rc_module_unload(rc_call_t *call, rc_object_t *module)
{
    uint64_t number = module->number;
    if (!module_end(module))
        return CUDA_ERROR_INVALID_HANDLE;
    call->session = module->session;
    call->owner = module->context;
    call->dropped = module;
    return rc_post(call, GB_OP_cuModuleUnload, &number, 1);
}

static rc_function_t *known_function(rc_module_t *m, const char *name)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (strcmp(m->functions[i]->name, name) == 0)
            return m->functions[i];
    return NULL;
}

CUresult rc_module_function(rc_call_t *call, rc_object_t *module, const char *name,
                            rc_function_t **out)
{
    rc_module_t *m = module->module;
    rc_waiter_t waiter = {0};
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&m->lock);
    rc_function_t *function = known_function(m, name);
    if (!function && m->complete)
        result = CUDA_ERROR_NOT_FOUND;
    if (!function && !result) {
        uint64_t number = module->number;
        result = rc_ask_bytes(call, PX_OP_FUNCTION, &number, sizeof(number), name, strlen(name),
                              &waiter);
        if (!result) {
            gb_reader_t r = gb_reader(rc_waiter_bytes(&waiter), waiter.more_size);
            result = read_function(&r, module, &function);
        }
        if (!result)
            result = keep_function(m, function);
        rc_waiter_done(&waiter);
    }
    pthread_mutex_unlock(&m->lock);
    if (!result)
        *out = function;
    return result;
}

static void note_global(rc_module_t *m, uint64_t address)
{
    pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; i < m->global_count; i++)
        if (m->globals[i] == address)
            goto out;
    uint64_t *grown = realloc(m->globals, (m->global_count + 1) * sizeof(*grown));
    if (grown) {
        m->globals = grown;
        m->globals[m->global_count++] = address;
    }
out:
    pthread_mutex_unlock(&m->lock);
}

CUresult rc_module_global(rc_call_t *call, rc_object_t *module, const char *name,
                          rc_global_t *global)
{
    uint64_t number = module->number, outs[4] = {0};
    rc_waiter_t waiter = {0};
    CUresult result = rc_ask_bytes(call, GB_OP_cuModuleGetGlobal_v2, &number, sizeof(number), name,
                                   strlen(name), &waiter);
    if (!result)
        memcpy(outs, rc_waiter_bytes(&waiter),
               waiter.more_size < sizeof(outs) ? waiter.more_size : sizeof(outs));
    rc_waiter_done(&waiter);
    int managed = outs[3] != 0;
    if (!result && outs[1] == 0)
        result = CUDA_ERROR_NOT_FOUND;
    if (!result && managed)
        result = rc_shared_adopt(module->context, outs[2], outs[3]);
    if (result)
        return result;
    result = rc_block_add(managed ? RC_BLOCK_MANAGED_VARIABLE : RC_BLOCK_GLOBAL, outs[0], outs[1],
                          module->context, 0);
    note_global(module->module, outs[0]);
    *global = (rc_global_t){outs[0], outs[1], managed};
    return result;
}

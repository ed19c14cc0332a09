/* Finding or making the code of a kernel for a block: memory, disk, compiler, in this order. */
#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "cpu_build_id.h"
#include "gpu-proxy/cpu/driver/cpu_cache.h"
#include "gpu-proxy/cpu/driver/cpu_code_cache.h"
#include "gpu-proxy/cpu/driver/cpu_module.h"
#include "gpu-proxy/cpu/driver/cpu_sha.h"
#include "gpu-proxy/cpu/jit/jit.h"

/* All that the code depends on. */
static cpu_cache_key_t make_key(const cpu_function_t *function, const cpu_jit_options_t *options)
{
    cpu_cache_key_t key;
    cpu_sha_t sha;
    struct {
        uint32_t version, width, strips, unchecked;
        cpu_shape_t shape;
        uint64_t stack;
    } facts = {CPU_CODE_VERSION,   options->width, options->strips,
               options->unchecked, options->shape, options->stack_bytes};
    cpu_sha_init(&sha);
    cpu_sha_add(&sha, CPU_BUILD_ID, sizeof(CPU_BUILD_ID));
    cpu_sha_add(&sha, &facts, sizeof(facts));
    cpu_sha_add(&sha, options->target, strlen(options->target) + 1);
    cpu_sha_add(&sha, function->ptx->name, strlen(function->ptx->name) + 1);
    cpu_sha_add(&sha, function->module->image->digest, sizeof(function->module->image->digest));
    cpu_sha_end(&sha, key.bytes);
    return key;
}

/* The compiler lies beside this library; else where the program is installed. */
static gb_status_t open_compiler(cpu_jit_compile_fn *compile)
{
    Dl_info self;
    char path[PATH_MAX];
    if (dladdr((void *)&open_compiler, &self) && self.dli_fname) {
        const char *slash = strrchr(self.dli_fname, '/');
        int folder = slash ? (int)(slash - self.dli_fname) : 0;
        snprintf(path, sizeof(path), "%.*s/libgable-jit.so", folder, self.dli_fname);
        if (slash && access(path, R_OK) == 0)
            return cpu_jit_open(path, compile);
    }
    return cpu_jit_open(NULL, compile);
}

/* LLVM ends the process when its memory is out, so that has to be found out before: what the compiler
 * takes is reserved for a moment. */
static gb_status_t check_room(const cpu_function_t *function)
{
    const size_t library = 160 << 20, least = 64 << 20, of_instruction = 32 << 10;
    static atomic_bool loaded;
    size_t bytes = least + of_instruction * function->ptx->instr_count;
    if (!atomic_exchange(&loaded, true))
        bytes += library;
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) {
        atomic_store(&loaded, false);
        return gb_fail(GB_ERR_NO_MEMORY, "less than %zu MiB of memory for the kernel compiler",
                       bytes >> 20);
    }
    munmap(room, bytes);
    return GB_OK;
}

static gb_status_t compile(const cpu_function_t *function, const cpu_jit_options_t *options,
                           void **blob, size_t *bytes)
{
    char text[2048] = "";
    cpu_jit_log_t log = {text, sizeof(text), 0};
    cpu_jit_compile_fn run;
    gb_status_t status = check_room(function);
    if (status == GB_OK)
        status = open_compiler(&run);
    if (status != GB_OK) {
        gb_log(GB_LOG_ERROR, "no compiler for kernels: %s", gb_why());
        return status;
    }
    uint64_t start = gb_now_ns();
    status = run(function->module->image->ptx, function->index, options, &log, blob, bytes);
    if (status != GB_OK)
        gb_log(GB_LOG_ERROR, "kernel %s: %s", function->ptx->name, log.used ? text : gb_why());
    else
        gb_log(GB_LOG_DEBUG, "kernel %s compiled in %.1f ms, %zu bytes", function->ptx->name,
               (double)(gb_now_ns() - start) * 1e-6, *bytes);
    return status;
}

static CUresult to_result(gb_status_t status)
{
    switch (status) {
    case GB_OK:
        return CUDA_SUCCESS;
    case GB_ERR_NO_MEMORY:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case GB_ERR_NOT_FOUND:
        return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
    case GB_ERR_UNSUPPORTED:
        return CUDA_ERROR_INVALID_PTX;
    default:
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
}

static gb_status_t load(const cpu_function_t *function, const cpu_jit_options_t *options,
                        cpu_code_t **code)
{
    cpu_cache_key_t key = make_key(function, options);
    void *blob;
    size_t bytes;
    if (cpu_cache_read(&key, &blob, &bytes) == GB_OK) {
        gb_status_t status = cpu_code_load(blob, bytes, code);
        free(blob);
        if (status == GB_OK)
            return GB_OK;
    }
    gb_status_t status = compile(function, options, &blob, &bytes);
    if (status != GB_OK)
        return status;
    status = cpu_code_load(blob, bytes, code);
    if (status == GB_OK)
        cpu_cache_write(&key, blob, bytes);
    free(blob);
    return status;
}

/* Addresses of the module variables that the code names. */
static CUresult link_globals(const cpu_function_t *function, const cpu_code_t *code, uint64_t **out)
{
    const cpu_module_t *module = function->module;
    uint32_t count = cpu_code_header(code)->symbol_count;
    uint64_t *globals = calloc(count + 1, sizeof(*globals));
    if (!globals)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t var = ptx_module_var(module->image->ptx, cpu_code_symbol(code, i));
        if (var == PTX_NONE) {
            gb_log(GB_LOG_ERROR, "kernel %s refers to %s, which its module does not have",
                   function->ptx->name, cpu_code_symbol(code, i));
            free(globals);
            return CUDA_ERROR_INVALID_PTX;
        }
        globals[i] = module->addresses[var];
    }
    *out = globals;
    return CUDA_SUCCESS;
}

/* Under the function's lock. */
static CUresult make(cpu_function_t *function, const uint32_t block[3], cpu_variant_t **variant)
{
    const cpu_config_t *config = &cpu_driver()->config;
    cpu_jit_options_t options = {.shape = cpu_shape_choose(block, function->variant_count),
                                 .target = config->target,
                                 .width = config->width,
                                 .stack_bytes = cpu_context_stack(function->module->context),
                                 .unchecked = config->unchecked};
    cpu_variant_t *made = cpu_object_memory(sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->shape = options.shape;
    gb_status_t status = load(function, &options, &made->code);
    if (status != GB_OK) {
        free(made);
        return to_result(status);
    }
    CUresult result = link_globals(function, made->code, &made->globals);
    if (result) {
        cpu_code_free(made->code);
        free(made);
        return result;
    }
    atomic_init(&made->used, 1);
    cpu_code_cache_add(function, made);
    *variant = made;
    return CUDA_SUCCESS;
}

CUresult cpu_function_variant(cpu_function_t *function, const uint32_t block[3],
                              cpu_variant_t **variant)
{
    *variant = cpu_code_cache_find(function, block);
    if (*variant)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&function->lock);
    /* Another thread may have made it meanwhile. */
    *variant = cpu_code_cache_find(function, block);
    if (!*variant)
        result = make(function, block, variant);
    pthread_mutex_unlock(&function->lock);
    if (!result)
        cpu_code_cache_trim();
    return result;
}

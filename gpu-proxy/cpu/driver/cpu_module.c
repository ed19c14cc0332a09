#include "gpu-proxy/cpu/driver/cpu_module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "gpu-proxy/cpu/driver/cpu_code_cache.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"

static void destroy_module(cpu_object_t *object)
{
    cpu_module_t *module = (cpu_module_t *)object;
    cpu_module_close_references(module);
    if (module->block)
        (void)cpu_memory_free(CPU_MEMORY_GLOBAL, module->block);
    cpu_managed_put(module->managed);
    cpu_image_put(module->image);
    pthread_mutex_destroy(&module->lock);
    free(module->addresses);
    free(module->functions);
    cpu_object_put(&module->context->object);
    free(module);
}

static void destroy_function(cpu_object_t *object)
{
    cpu_function_t *function = (cpu_function_t *)object;
    cpu_code_cache_drop(function);
    pthread_mutex_destroy(&function->lock);
    cpu_object_put(&function->module->object);
    free(function);
}

static bool in_memory(const ptx_var_t *var)
{
    return var->space == PTX_SPACE_GLOBAL || var->space == PTX_SPACE_CONST;
}

static void log_error(cpu_image_log_t *log, const char *what, const char *name)
{
    gb_log(GB_LOG_WARN, "module not loaded: %s '%s'", what, name);
    if (!log || !log->error || log->error_used + 1 >= log->error_size)
        return;
    int written = snprintf(log->error + log->error_used, log->error_size - log->error_used,
                           "%s '%s'\n", what, name);
    if (written > 0)
        log->error_used += (size_t)written < log->error_size - log->error_used
                               ? (size_t)written
                               : log->error_size - log->error_used - 1;
}

/* Gives every variable its place among those that are managed or not; the totals go to bytes[managed]. */
static CUresult lay_out(cpu_module_t *module, cpu_image_log_t *log, uint64_t bytes[2])
{
    const ptx_module_t *ptx = module->image->ptx;
    bytes[0] = bytes[1] = 0;
    for (uint32_t i = 0; i < ptx->var_count; i++) {
        const ptx_var_t *var = &ptx->vars[i];
        if (!in_memory(var))
            continue;
        if (var->linkage == PTX_LINK_EXTERN) {
            log_error(log, "unresolved external variable", var->name);
            return CUDA_ERROR_INVALID_PTX;
        }
        uint64_t align = var->align ? var->align : 1, *at = &bytes[var->managed];
        *at = (*at + align - 1) & ~(align - 1);
        module->addresses[i] = *at;
        *at += var->size ? var->size : 1;
    }
    return CUDA_SUCCESS;
}

static void relocate(const cpu_module_t *module, const ptx_var_t *var, uint8_t *bytes)
{
    const ptx_module_t *ptx = module->image->ptx;
    for (uint32_t i = 0; i < var->reloc_count; i++) {
        const ptx_reloc_t *reloc = &ptx->relocs[var->reloc_first + i];
        /* No code address ever leaves the device. */
        uint64_t address = reloc->var != PTX_NONE ? module->addresses[reloc->var]
                                                  : ptx_function_code(ptx, reloc->function);
        address = (address + (uint64_t)reloc->addend) >> reloc->shift;
        memcpy(bytes + reloc->offset, &address, reloc->size);
    }
}

static void initialise(const cpu_module_t *module, bool managed)
{
    const ptx_module_t *ptx = module->image->ptx;
    for (uint32_t i = 0; i < ptx->var_count; i++) {
        const ptx_var_t *var = &ptx->vars[i];
        if (!in_memory(var) || var->managed != managed || !var->init ||
            (var->type >= PTX_TEXREF && var->type <= PTX_SURFREF))
            continue;
        memcpy((void *)module->addresses[i], var->init, var->size);
        relocate(module, var, (uint8_t *)module->addresses[i]);
    }
}

/* Memory for the variables, with their initial values. */
static CUresult make_variables(cpu_module_t *module, cpu_managed_t *managed, cpu_image_log_t *log)
{
    const ptx_module_t *ptx = module->image->ptx;
    uint64_t bytes[2];
    int device = module->context->device->index;
    CUresult result = lay_out(module, log, bytes);
    if (!result && bytes[0])
        result = cpu_memory_alloc(CPU_MEMORY_GLOBAL, device, module->context, bytes[0], 0,
                                  &module->block);
    if (!result && bytes[1] && !managed)
        result = cpu_managed_open(device, bytes[1], &module->managed);
    if (result)
        return result;
    if (managed) {
        cpu_managed_ref(managed);
        module->managed = managed;
    }
    if (bytes[0])
        memset((void *)module->block, 0, bytes[0]);
    for (uint32_t i = 0; i < ptx->var_count; i++)
        if (in_memory(&ptx->vars[i]))
            module->addresses[i] += ptx->vars[i].managed ? module->managed->base : module->block;
    initialise(module, false);
    if (!managed)
        initialise(module, true);
    return CUDA_SUCCESS;
}

CUresult cpu_module_open(cpu_context_t *context, cpu_image_t *image, cpu_managed_t *managed,
                         cpu_image_log_t *log, cpu_module_t **module)
{
    cpu_console_flush(&context->console);
    cpu_module_t *made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_object_init(&made->object, CPU_KIND_MODULE, destroy_module);
    pthread_mutex_init(&made->lock, NULL);
    cpu_object_ref(&context->object);
    made->context = context;
    cpu_image_ref(image);
    made->image = image;
    made->addresses = calloc(image->ptx->var_count + 1, sizeof(*made->addresses));
    made->functions = calloc(image->ptx->function_count + 1, sizeof(*made->functions));
    CUresult result = made->addresses && made->functions ? make_variables(made, managed, log)
                                                         : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        result = cpu_module_open_references(made);
    if (!result && !cpu_handle_add(&made->object))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        cpu_object_put(&made->object);
        return result;
    }
    pthread_mutex_lock(&context->lock);
    made->next = context->modules; /* the list takes over our reference */
    context->modules = made;
    pthread_mutex_unlock(&context->lock);
    *module = made;
    return CUDA_SUCCESS;
}

/* Invalidates the handles of the module's functions. */
static void drop_functions(cpu_module_t *module)
{
    for (uint32_t i = 0; i < module->image->ptx->function_count; i++) {
        pthread_mutex_lock(&module->lock);
        cpu_function_t *function = module->functions[i];
        uint64_t handle = function ? function->object.handle : 0;
        module->functions[i] = NULL;
        pthread_mutex_unlock(&module->lock);
        if (handle)
            cpu_object_put(cpu_handle_remove(CPU_KIND_FUNCTION, handle));
    }
}

CUresult cpu_module_close(cpu_module_t *module)
{
    cpu_object_t *entered = cpu_handle_remove(CPU_KIND_MODULE, module->object.handle);
    if (!entered)
        return CUDA_ERROR_INVALID_HANDLE;
    cpu_context_t *context = module->context;
    cpu_console_flush(&context->console);
    cpu_module_t *listed = NULL;
    pthread_mutex_lock(&context->lock);
    for (cpu_module_t **at = &context->modules; *at; at = &(*at)->next) {
        if (*at == module) {
            listed = module;
            *at = module->next;
            break;
        }
    }
    pthread_mutex_unlock(&context->lock);
    drop_functions(module);
    if (listed)
        cpu_object_put(&listed->object);
    cpu_object_put(entered);
    return CUDA_SUCCESS;
}

void cpu_module_close_all(cpu_context_t *context)
{
    for (;;) {
        pthread_mutex_lock(&context->lock);
        cpu_module_t *module = context->modules;
        if (module)
            cpu_object_ref(&module->object);
        pthread_mutex_unlock(&context->lock);
        if (!module)
            return;
        (void)cpu_module_close(module);
        cpu_object_put(&module->object);
    }
}

const cpu_context_t *cpu_module_context(const cpu_object_t *object)
{
    if (object->kind == CPU_KIND_FUNCTION)
        return ((const cpu_function_t *)object)->module->context;
    return ((const cpu_module_t *)object)->context;
}

CUresult cpu_module_get(CUmodule handle, cpu_module_t **module)
{
    cpu_module_t *found =
        (cpu_module_t *)cpu_handle_get(CPU_KIND_MODULE, (uint64_t)(uintptr_t)handle);
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = cpu_context_state(found->context);
    if (result) {
        cpu_object_put(&found->object);
        return result;
    }
    *module = found;
    return CUDA_SUCCESS;
}

/* Under the module's lock. The handle table keeps the function, the caller gets a reference too. */
static CUresult make_function(cpu_module_t *module, uint32_t index, cpu_function_t **function)
{
    cpu_function_t *made = cpu_object_memory(sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_object_init(&made->object, CPU_KIND_FUNCTION, destroy_function);
    pthread_mutex_init(&made->lock, NULL);
    cpu_object_ref(&module->object);
    made->module = module;
    made->index = index;
    made->ptx = &module->image->ptx->functions[index];
    atomic_init(&made->max_dynamic_shared, -1);
    atomic_init(&made->carveout, -1);
    if (!cpu_handle_add(&made->object)) {
        cpu_object_put(&made->object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    module->functions[index] = made;
    *function = made;
    return CUDA_SUCCESS;
}

CUresult cpu_module_function(cpu_module_t *module, const char *name, cpu_function_t **function)
{
    const ptx_module_t *ptx = module->image->ptx;
    uint32_t index = ptx_module_function(ptx, name);
    if (index == PTX_NONE || !ptx->functions[index].is_kernel || !ptx->functions[index].defined)
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&module->lock);
    if (!module->object.handle || !cpu_context_alive(module->context)) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (module->functions[index]) {
        cpu_object_ref(&module->functions[index]->object);
        *function = module->functions[index];
    } else {
        result = make_function(module, index, function);
    }
    pthread_mutex_unlock(&module->lock);
    return result;
}

uint32_t cpu_image_kernels(const cpu_image_t *image)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < image->ptx->function_count; i++)
        count += image->ptx->functions[i].is_kernel && image->ptx->functions[i].defined;
    return count;
}

uint32_t cpu_image_kernel(const cpu_image_t *image, uint32_t n)
{
    for (uint32_t i = 0; i < image->ptx->function_count; i++)
        if (image->ptx->functions[i].is_kernel && image->ptx->functions[i].defined && n-- == 0)
            return i;
    return PTX_NONE;
}

CUresult cpu_module_variable(cpu_module_t *module, const char *name, uint64_t *address,
                             uint64_t *bytes)
{
    uint32_t index = ptx_module_var(module->image->ptx, name);
    if (index == PTX_NONE || !in_memory(&module->image->ptx->vars[index]))
        return CUDA_ERROR_NOT_FOUND;
    *address = module->addresses[index];
    *bytes = module->image->ptx->vars[index].size;
    return CUDA_SUCCESS;
}

uint64_t cpu_function_static_shared(const cpu_function_t *function)
{
    return function->ptx->shared_size - function->ptx->shared_reserved;
}

int cpu_function_max_threads(const cpu_function_t *function)
{
    const uint32_t *n =
        function->ptx->req_ntid[0] ? function->ptx->req_ntid : function->ptx->max_ntid;
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++)
        threads *= n[i] ? n[i] : 1;
    return n[0] && threads < 1024 ? (int)threads : 1024;
}

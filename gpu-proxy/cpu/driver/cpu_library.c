#include "gpu-proxy/cpu/driver/cpu_library.h"

#include <stdlib.h>

static void destroy_library(cpu_object_t *object)
{
    cpu_library_t *library = (cpu_library_t *)object;
    cpu_image_put(library->image);
    cpu_managed_put(library->managed);
    pthread_mutex_destroy(&library->lock);
    free(library->kernels);
    free(library);
}

static void destroy_kernel(cpu_object_t *object)
{
    cpu_kernel_t *kernel = (cpu_kernel_t *)object;
    cpu_object_put(&kernel->library->object);
    free(kernel);
}

CUresult cpu_library_open(cpu_image_t *image, cpu_library_t **library)
{
    cpu_library_t *made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_object_init(&made->object, CPU_KIND_LIBRARY, destroy_library);
    pthread_mutex_init(&made->lock, NULL);
    cpu_image_ref(image);
    made->image = image;
    made->kernels = calloc(image->ptx->function_count + 1, sizeof(*made->kernels));
    if (!made->kernels || !cpu_handle_add(&made->object)) {
        cpu_object_put(&made->object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    cpu_object_put(&made->object); /* the table holds it now */
    *library = made;
    return CUDA_SUCCESS;
}

CUresult cpu_library_get(CUlibrary handle, cpu_library_t **library)
{
    cpu_library_t *found =
        (cpu_library_t *)cpu_handle_get(CPU_KIND_LIBRARY, (uint64_t)(uintptr_t)handle);
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    *library = found;
    return CUDA_SUCCESS;
}

CUresult cpu_library_close(CUlibrary handle)
{
    cpu_library_t *library =
        (cpu_library_t *)cpu_handle_remove(CPU_KIND_LIBRARY, (uint64_t)(uintptr_t)handle);
    if (!library)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&library->lock);
    cpu_instance_t *instances = library->instances;
    library->instances = NULL;
    pthread_mutex_unlock(&library->lock);
    for (uint32_t i = 0; i < library->image->ptx->function_count; i++)
        if (library->kernels[i])
            cpu_object_put(cpu_handle_remove(CPU_KIND_KERNEL, library->kernels[i]->object.handle));
    while (instances) {
        cpu_instance_t *instance = instances;
        instances = instance->next;
        (void)cpu_module_close(instance->module);
        cpu_object_put(&instance->module->object);
        free(instance);
    }
    cpu_object_put(&library->object);
    return CUDA_SUCCESS;
}

/* Under the lock. */
static cpu_module_t *find_instance(cpu_library_t *library, const cpu_context_t *context)
{
    for (cpu_instance_t **at = &library->instances; *at;) {
        cpu_instance_t *instance = *at;
        if (instance->module->context == context)
            return instance->module;
        if (cpu_context_alive(instance->module->context)) {
            at = &instance->next;
            continue;
        }
        *at = instance->next;
        cpu_object_put(&instance->module->object);
        free(instance);
    }
    return NULL;
}

static CUresult make_instance(cpu_library_t *library, cpu_context_t *context, cpu_module_t **module)
{
    cpu_instance_t *instance = calloc(1, sizeof(*instance));
    if (!instance)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result =
        cpu_module_open(context, library->image, library->managed, NULL, &instance->module);
    if (result) {
        free(instance);
        return result;
    }
    if (!library->managed && instance->module->managed) {
        library->managed = instance->module->managed;
        cpu_managed_ref(library->managed);
    }
    cpu_object_ref(&instance->module->object);
    instance->next = library->instances;
    library->instances = instance;
    *module = instance->module;
    return CUDA_SUCCESS;
}

CUresult cpu_library_module(cpu_library_t *library, cpu_context_t *context, cpu_module_t **module)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&library->lock);
    cpu_module_t *found = find_instance(library, context);
    if (!found)
        result = make_instance(library, context, &found);
    if (!result) {
        cpu_object_ref(&found->object);
        *module = found;
    }
    pthread_mutex_unlock(&library->lock);
    return result;
}

CUresult cpu_library_kernel(cpu_library_t *library, uint32_t index, CUkernel *kernel)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&library->lock);
    if (!library->kernels[index]) {
        cpu_kernel_t *made = calloc(1, sizeof(*made));
        if (made) {
            cpu_object_init(&made->object, CPU_KIND_KERNEL, destroy_kernel);
            cpu_object_ref(&library->object);
            made->library = library;
            made->index = index;
            if (cpu_handle_add(&made->object))
                library->kernels[index] = made;
            cpu_object_put(&made->object);
        }
        if (!library->kernels[index])
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!result)
        *kernel = (CUkernel)library->kernels[index]->object.handle;
    pthread_mutex_unlock(&library->lock);
    return result;
}

CUresult cpu_kernel_get(CUkernel handle, cpu_library_t **library, uint32_t *index)
{
    cpu_kernel_t *kernel =
        (cpu_kernel_t *)cpu_handle_get(CPU_KIND_KERNEL, (uint64_t)(uintptr_t)handle);
    if (!kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    cpu_object_ref(&kernel->library->object);
    *library = kernel->library;
    *index = kernel->index;
    cpu_object_put(&kernel->object);
    return CUDA_SUCCESS;
}

CUresult cpu_kernel_function(CUkernel handle, cpu_context_t *context, cpu_function_t **function)
{
    cpu_library_t *library;
    cpu_module_t *module;
    uint32_t index;
    CUresult result = cpu_kernel_get(handle, &library, &index);
    if (result)
        return result;
    result = cpu_library_module(library, context, &module);
    if (!result) {
        result = cpu_module_function(module, library->image->ptx->functions[index].name, function);
        cpu_object_put(&module->object);
    }
    cpu_object_put(&library->object);
    return result;
}

CUresult cpu_function_get(cpu_context_t *context, CUfunction handle, cpu_function_t **function)
{
    cpu_function_t *found =
        (cpu_function_t *)cpu_handle_get(CPU_KIND_FUNCTION, (uint64_t)(uintptr_t)handle);
    if (!found)
        return cpu_kernel_function((CUkernel)handle, context, function);
    CUresult result = found->module->context == context ? CUDA_SUCCESS
                                                        : cpu_context_state(found->module->context);
    if (result) {
        cpu_object_put(&found->object);
        return result;
    }
    *function = found;
    return CUDA_SUCCESS;
}

/* Libraries and kernels: modules that belong to no context. The image is kept and loaded into a context
 * when a kernel is first used there; loading into the current one finds the errors at the call. */
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_image.h"
#include "gpu-proxy/client/rc_module.h"

struct rc_kernel {
    rc_object_t *library;
    char *name;
    CUkernel handle;
    struct rc_kernel *next;
};

struct rc_library {
    void *image;
    pthread_mutex_t lock;
    CUmodule *modules; /* at most one per context; stale ones are of contexts that are gone */
    int module_count;
    struct rc_kernel *kernels; /* asked for so far */
    CUmodule home;             /* whose managed variables the program has asked for; NULL: none */
    int retains;               /* the primary context of device 0, where it was loaded */
};

/* A library may be loaded before there is a context: what is wrong with it is found in the primary one of
 * the first device, which it keeps. */
static CUresult begin_anywhere(rc_call_t *call, int *retained)
{
    CUcontext context;
    CUresult result = rc_begin(call);
    *retained = 0;
    if (result || call->context)
        return result;
    result = cuDevicePrimaryCtxRetain(&context, 0);
    if (result)
        return result;
    *retained = 1;
    call->context = rc_object_get(RC_CONTEXT, context);
    if (!call->context)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    call->session = call->context->session;
    return CUDA_SUCCESS;
}

static CUresult end_anywhere(CUresult result, int retained)
{
    if (retained)
        cuDevicePrimaryCtxRelease_v2(0);
    return result;
}

static CUresult refuse_second(const rc_call_t *call)
{
    gb_log(GB_LOG_ERROR,
           "a program with managed variables cannot use device %d as well: the variables belong to "
           "another "
           "one, use managed memory of each device instead",
           call->context->context_.ordinal);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* The library's module in the call's context. With the library's lock held. */
static CUresult module_in(rc_call_t *call, struct rc_library *library, rc_object_t **out)
{
    for (int i = 0; i < library->module_count; i++) {
        rc_object_t *module = rc_object_get(RC_MODULE, library->modules[i]);
        if (!module) {
            library->modules[i--] = library->modules[--library->module_count];
        } else if (module->context == call->context) {
            *out = module;
            return CUDA_SUCCESS;
        }
    }
    if (library->home && rc_object_get(RC_MODULE, library->home))
        return refuse_second(call);
    CUmodule *grown =
        realloc(library->modules, (size_t)(library->module_count + 1) * sizeof(*library->modules));
    if (!grown)
        return CUDA_ERROR_OUT_OF_MEMORY;
    library->modules = grown;
    CUresult result = rc_module_load(call, library->image, 0, NULL, NULL, out);
    if (!result)
        library->modules[library->module_count++] = rc_handle(*out);
    return result;
}

static void library_free(struct rc_library *library)
{
    while (library->kernels) {
        struct rc_kernel *kernel = library->kernels;
        library->kernels = kernel->next;
        rc_object_t *object = rc_object_get(RC_KERNEL, kernel->handle);
        if (object && rc_object_kill(object))
            rc_object_free(object);
        free(kernel->name);
        free(kernel);
    }
    pthread_mutex_destroy(&library->lock);
    free(library->modules);
    free(library->image);
    free(library);
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                           void **jitOptionsValues, unsigned int numJitOptions,
                           CUlibraryOption *libraryOptions, void **libraryOptionValues,
                           unsigned int numLibraryOptions)
{
    rc_call_t call;
    rc_object_t *module;
    const void *bytes;
    size_t size;
    (void)libraryOptions; /* advice about how the driver keeps the image */
    (void)libraryOptionValues;
    (void)numLibraryOptions;
    int retained;
    CUresult result = rc_check();
    if (!result && (!library || !code))
        result = CUDA_ERROR_INVALID_VALUE;
    void *linked = NULL;
    if (!result)
        result = rc_module_link(code, numJitOptions, jitOptions, jitOptionsValues, &linked);
    if (!result)
        result = rc_image_size(linked ? linked : code, &bytes, &size);
    if (!result)
        result = begin_anywhere(&call, &retained);
    if (result) {
        free(linked);
        return result;
    }
    result = rc_module_load(&call, linked ? linked : code, numJitOptions, jitOptions,
                            jitOptionsValues, &module);
    if (result) {
        free(linked);
        return end_anywhere(result, retained);
    }
    struct rc_library *l = calloc(1, sizeof(*l));
    rc_object_t *object = l ? rc_object_new(RC_LIBRARY, call.session, NULL) : NULL;
    if (object) {
        pthread_mutex_init(&l->lock, NULL);
        l->image = malloc(size);
        l->modules = malloc(sizeof(*l->modules));
        l->retains = retained;
        object->library = l;
    }
    if (!object || !l->image || !l->modules) {
        rc_module_unload(&call, module);
        if (object && rc_object_kill(object)) {
            library_free(l);
            rc_object_free(object);
        } else {
            free(l);
        }
        free(linked);
        return end_anywhere(CUDA_ERROR_OUT_OF_MEMORY, retained);
    }
    memcpy(l->image, bytes, size);
    free(linked);
    l->modules[l->module_count++] = rc_handle(module);
    *library = rc_handle(object);
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                               void **jitOptionsValues, unsigned int numJitOptions,
                               CUlibraryOption *libraryOptions, void **libraryOptionValues,
                               unsigned int numLibraryOptions)
{
    char *bytes;
    size_t size;
    CUresult result = rc_check();
    if (!result && (!library || !fileName))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_module_read_file(fileName, &bytes, &size);
    if (result)
        return result;
    if (!rc_image_fits(bytes, size)) {
        free(bytes);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    result = cuLibraryLoadData(library, bytes, jitOptions, jitOptionsValues, numJitOptions,
                               libraryOptions, libraryOptionValues, numLibraryOptions);
    free(bytes);
    return result;
}

static CUresult find_library(CUlibrary handle, rc_call_t *call, rc_object_t **out)
{
    CUresult result = rc_begin_after_fault(call);
    if (result)
        return result;
    *out = rc_object_get(RC_LIBRARY, handle);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    rc_call_t call;
    rc_object_t *object;
    CUresult result = find_library(library, &call, &object);
    if (result)
        return result;
    if (!rc_object_kill(object))
        return CUDA_ERROR_INVALID_HANDLE;
    struct rc_library *l = object->library;
    for (int i = 0; i < l->module_count; i++) {
        rc_object_t *module = rc_object_get(RC_MODULE, l->modules[i]);
        if (module)
            rc_module_unload(&call, module);
        call.dropped = NULL;
    }
    int retained = l->retains;
    library_free(l);
    rc_object_free(object);
    return end_anywhere(result, retained);
}

/* Any module of the library that is loaded, else one loaded into the current context. */
static CUresult some_module(rc_call_t *call, struct rc_library *l, rc_object_t **out)
{
    for (int i = 0; i < l->module_count; i++) {
        *out = rc_object_get(RC_MODULE, l->modules[i]);
        if (*out) {
            call->session = (*out)->session;
            call->owner = (*out)->context;
            return CUDA_SUCCESS;
        }
    }
    return call->context ? module_in(call, l, out) : CUDA_ERROR_INVALID_CONTEXT;
}

/* With the lock held: the kernel of that name, which the library has. */
static CUresult kernel_for(rc_object_t *object, const char *name, CUkernel *out)
{
    struct rc_library *l = object->library;
    struct rc_kernel *kernel = l->kernels;
    while (kernel && strcmp(kernel->name, name) != 0)
        kernel = kernel->next;
    if (kernel) {
        *out = kernel->handle;
        return CUDA_SUCCESS;
    }
    kernel = calloc(1, sizeof(*kernel));
    char *copy = strdup(name);
    rc_object_t *made = kernel && copy ? rc_object_new(RC_KERNEL, object->session, NULL) : NULL;
    if (!made) {
        free(kernel);
        free(copy);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    kernel->library = object;
    kernel->name = copy;
    kernel->handle = rc_handle(made);
    kernel->next = l->kernels;
    l->kernels = kernel;
    made->kernel = kernel;
    *out = kernel->handle;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
    rc_call_t call;
    rc_object_t *object, *module;
    rc_function_t *function;
    CUresult result = find_library(library, &call, &object);
    if (!result && (!pKernel || !name || !*name))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    pthread_mutex_lock(&object->library->lock);
    result = some_module(&call, object->library, &module);
    if (!result)
        result = rc_module_function(&call, module, name, &function);
    if (!result)
        result = kernel_for(object, name, pKernel);
    pthread_mutex_unlock(&object->library->lock);
    return result;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
    rc_call_t call;
    rc_object_t *object, *module;
    CUresult result = find_library(lib, &call, &object);
    if (!result && !count)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    pthread_mutex_lock(&object->library->lock);
    result = some_module(&call, object->library, &module);
    if (!result && !module->module->complete)
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (!result)
        *count = module->module->count;
    pthread_mutex_unlock(&object->library->lock);
    return result;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    rc_call_t call;
    rc_object_t *object, *module;
    CUresult result = find_library(lib, &call, &object);
    if (!result && !kernels)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    pthread_mutex_lock(&object->library->lock);
    result = some_module(&call, object->library, &module);
    if (!result && !module->module->complete)
        result = CUDA_ERROR_NOT_SUPPORTED;
    for (unsigned i = 0; !result && i < numKernels && i < module->module->count; i++)
        result = kernel_for(object, module->module->functions[i]->name, &kernels[i]);
    pthread_mutex_unlock(&object->library->lock);
    return result;
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
    rc_call_t call;
    rc_object_t *object, *module;
    CUresult result = find_library(library, &call, &object);
    if (!result && !pMod)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && !call.context)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result)
        return result;
    pthread_mutex_lock(&object->library->lock);
    result = module_in(&call, object->library, &module);
    pthread_mutex_unlock(&object->library->lock);
    if (!result)
        *pMod = rc_handle(module);
    return result;
}

/* ---- variables ---- */

/* The module of the library that has its managed variables: they are the same in all contexts, and kernels
 * of one context only reach them here. With the lock held. */
static CUresult home_in(rc_call_t *call, struct rc_library *l, rc_object_t **out)
{
    rc_object_t *module = l->home ? rc_object_get(RC_MODULE, l->home) : NULL;
    if (module) {
        *out = module;
        return CUDA_SUCCESS;
    }
    l->home = NULL;
    CUresult result = module_in(call, l, out);
    for (int i = 0; i < l->module_count && !result; i++) {
        module = rc_object_get(RC_MODULE, l->modules[i]);
        if (module && module != *out)
            result = refuse_second(call);
    }
    return result;
}

static CUresult library_variable(CUlibrary library, const char *name, int managed, rc_global_t *out)
{
    rc_call_t call;
    rc_object_t *object, *module;
    CUresult result = find_library(library, &call, &object);
    if (!result && !call.context)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result)
        return result;
    struct rc_library *l = object->library;
    pthread_mutex_lock(&l->lock);
    result = managed ? home_in(&call, l, &module) : module_in(&call, l, &module);
    if (!result) {
        call.session = module->session;
        call.owner = module->context;
        result = rc_module_global(&call, module, name, out);
    }
    if (!result && out->managed)
        l->home = rc_handle(module);
    if (!result && out->managed != managed)
        result = CUDA_ERROR_NOT_FOUND;
    pthread_mutex_unlock(&l->lock);
    return result;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    rc_global_t global;
    CUresult result = rc_check();
    if (!result && (!name || (!dptr && !bytes)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = library_variable(library, name, 0, &global);
    if (!result && dptr)
        *dptr = global.address;
    if (!result && bytes)
        *bytes = global.size;
    return result;
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    rc_global_t global;
    CUresult result = rc_check();
    if (!result && (!name || (!dptr && !bytes)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = library_variable(library, name, 1, &global);
    if (!result && dptr)
        *dptr = global.address;
    if (!result && bytes)
        *bytes = global.size;
    return result;
}

/* Functions that host and device share do not exist here. */
CUresult cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol)
{
    CUmodule module;
    CUresult result = rc_check();
    if (!result && (!fptr || !symbol))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = cuLibraryGetModule(&module, library);
    return result ? result : CUDA_ERROR_NOT_FOUND;
}

/* ---- kernels ---- */

CUresult rc_kernel_function(rc_call_t *call, rc_object_t *kernel, rc_object_t **out)
{
    struct rc_library *l = kernel->kernel->library->library;
    rc_object_t *module;
    rc_function_t *function;
    if (!call->context)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&l->lock);
    CUresult result = module_in(call, l, &module);
    if (!result)
        result = rc_module_function(call, module, kernel->kernel->name, &function);
    pthread_mutex_unlock(&l->lock);
    if (result)
        return result;
    *out = rc_object_get(RC_FUNCTION, function->handle);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult find_kernel(CUkernel handle, rc_call_t *call, rc_object_t **out)
{
    CUresult result = rc_begin_after_fault(call);
    if (result)
        return result;
    *out = rc_object_get(RC_KERNEL, handle);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
    rc_call_t call;
    rc_object_t *object, *function;
    CUresult result = find_kernel(kernel, &call, &object);
    if (!result && !pFunc)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_kernel_function(&call, object, &function);
    if (!result)
        *pFunc = rc_handle(function);
    return result;
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc)
{
    rc_call_t call;
    rc_object_t *object;
    CUresult result = find_kernel(hfunc, &call, &object);
    if (!result && !name)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *name = object->kernel->name;
    return result;
}

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
    rc_call_t call;
    rc_object_t *object;
    CUresult result = find_kernel(kernel, &call, &object);
    if (!result && !pLib)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pLib = rc_handle(object->kernel->library);
    return result;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
                              size_t *paramSize)
{
    CUfunction function;
    CUresult result = cuKernelGetFunction(&function, kernel);
    return result ? result : cuFuncGetParamInfo(function, paramIndex, paramOffset, paramSize);
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
    CUfunction function;
    CUresult result = rc_check();
    if (!result && !rc_device(dev))
        result = CUDA_ERROR_INVALID_DEVICE;
    if (!result)
        result = cuKernelGetFunction(&function, kernel);
    return result ? result : cuFuncGetAttribute(pi, attrib, function);
}

/* Of the kernel's function in the current context, which is a context of the device. */
CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
    CUfunction function;
    CUdevice current;
    CUresult result = rc_check();
    if (!result && !rc_device(dev))
        result = CUDA_ERROR_INVALID_DEVICE;
    if (!result)
        result = cuKernelGetFunction(&function, kernel);
    if (!result)
        result = cuCtxGetDevice(&current);
    if (!result && current != dev)
        result = CUDA_ERROR_NOT_SUPPORTED;
    return result ? result : cuFuncSetAttribute(function, attrib, val);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    CUfunction function;
    CUresult result = rc_check();
    if (!result && !rc_device(dev))
        result = CUDA_ERROR_INVALID_DEVICE;
    if (!result)
        result = cuKernelGetFunction(&function, kernel);
    return result ? result : cuFuncSetCacheConfig(function, config);
}

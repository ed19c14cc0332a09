/* Entry points: modules, libraries and kernels. */
#include "common/core/gb_clock.h"
#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_library.h"
#include "gpu-proxy/cpu/driver/cpu_module.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

/* ---- modules ---- */

/* Puts the opened image into the current context; takes over the reference. */
static CUresult enter_image(cpu_context_t *context, cpu_image_t *image, cpu_image_log_t *log,
                            CUmodule *module)
{
    cpu_module_t *made;
    CUresult result = cpu_module_open(context, image, NULL, log, &made);
    cpu_image_put(image);
    if (!result)
        *module = (CUmodule)made->object.handle;
    return result;
}

static CUresult load(const void *data, cpu_image_log_t *log, CUmodule *module)
{
    cpu_context_t *context;
    cpu_image_t *image;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!module || !data)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_image_open(data, log, &image);
    return result ? result : enter_image(context, image, log, module);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                            CUjit_option *options, void **optionValues)
{
    cpu_options_t read;
    CUresult result = cpu_options_read(numOptions, options, optionValues, CPU_OPTIONS_LOAD, &read);
    if (result)
        return result;
    uint64_t start = gb_now_ns();
    result = load(image, &read.log, module);
    read.spent_ns = gb_now_ns() - start;
    cpu_options_write(numOptions, options, optionValues, &read);
    return result;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    return load(image, NULL, module);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
    return load(fatCubin, NULL, module);
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
    cpu_context_t *context;
    cpu_image_t *image;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!module || !fname)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_image_open_file(fname, NULL, &image);
    return result ? result : enter_image(context, image, NULL, module);
}

static CUresult enter_module(CUmodule handle, cpu_module_t **module)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    return result ? result : cpu_module_get(handle, module);
}

CUresult cuModuleUnload(CUmodule hmod)
{
    cpu_module_t *module;
    CUresult result = enter_module(hmod, &module);
    if (result)
        return result;
    /* Kernels under way may use its variables. */
    cpu_sched_wait_context(&module->context->lanes);
    result = cpu_module_close(module);
    cpu_object_put(&module->object);
    return result;
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    cpu_module_t *module;
    cpu_function_t *function;
    CUresult result = enter_module(hmod, &module);
    if (result)
        return result;
    result =
        hfunc && name ? cpu_module_function(module, name, &function) : CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        *hfunc = (CUfunction)function->object.handle;
        cpu_object_put(&function->object);
    }
    cpu_object_put(&module->object);
    return result;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    cpu_module_t *module;
    uint64_t address, size;
    CUresult result = enter_module(hmod, &module);
    if (result)
        return result;
    result = name ? cpu_module_variable(module, name, &address, &size) : CUDA_ERROR_INVALID_VALUE;
    if (!result && dptr)
        *dptr = address;
    if (!result && bytes)
        *bytes = size;
    cpu_object_put(&module->object);
    return result;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
    cpu_module_t *module;
    CUresult result = enter_module(mod, &module);
    if (result)
        return result;
    if (count)
        *count = cpu_image_kernels(module->image);
    cpu_object_put(&module->object);
    return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
    cpu_module_t *module;
    cpu_function_t *function;
    CUresult result = enter_module(mod, &module);
    if (result)
        return result;
    if (!functions || !numFunctions)
        result = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; !result && i < numFunctions; i++) {
        uint32_t index = cpu_image_kernel(module->image, i);
        if (index == PTX_NONE)
            break;
        result = cpu_module_function(module, module->image->ptx->functions[index].name, &function);
        if (!result) {
            functions[i] = (CUfunction)function->object.handle;
            cpu_object_put(&function->object);
        }
    }
    cpu_object_put(&module->object);
    return result;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    if (!cpu_driver())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

/* ---- libraries ---- */

/* `code` is an image in memory, or NULL for the file. */
static CUresult load_library(const void *code, const char *file, unsigned count,
                             const CUjit_option *options, void **values, CUlibrary *library)
{
    cpu_options_t read;
    cpu_image_t *image;
    cpu_library_t *made;
    CUresult result = cpu_options_read(count, options, values, CPU_OPTIONS_LOAD, &read);
    if (result)
        return result;
    uint64_t start = gb_now_ns();
    result = code ? cpu_image_open(code, &read.log, &image)
                  : cpu_image_open_file(file, &read.log, &image);
    read.spent_ns = gb_now_ns() - start;
    cpu_options_write(count, options, values, &read);
    if (result)
        return result;
    result = cpu_library_open(image, &made);
    cpu_image_put(image);
    if (!result)
        *library = (CUlibrary)made->object.handle;
    return result;
}

static CUresult check_library(const void *from, const CUlibrary *library, unsigned count,
                              const CUlibraryOption *options, void *const *values)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    return !from || !library || (count && (!options || !values)) ? CUDA_ERROR_INVALID_VALUE
                                                                 : CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                           void **jitOptionsValues, unsigned int numJitOptions,
                           CUlibraryOption *libraryOptions, void **libraryOptionValues,
                           unsigned int numLibraryOptions)
{
    CUresult result =
        check_library(code, library, numLibraryOptions, libraryOptions, libraryOptionValues);
    return result ? result
                  : load_library(code, NULL, numJitOptions, jitOptions, jitOptionsValues, library);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                               void **jitOptionsValues, unsigned int numJitOptions,
                               CUlibraryOption *libraryOptions, void **libraryOptionValues,
                               unsigned int numLibraryOptions)
{
    CUresult result =
        check_library(fileName, library, numLibraryOptions, libraryOptions, libraryOptionValues);
    return result
               ? result
               : load_library(NULL, fileName, numJitOptions, jitOptions, jitOptionsValues, library);
}

static CUresult enter_library(CUlibrary handle, cpu_library_t **library)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    return result ? result : cpu_library_get(handle, library);
}

CUresult cuLibraryUnload(CUlibrary library)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    return result ? result : cpu_library_close(library);
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
    cpu_library_t *found;
    CUresult result = enter_library(library, &found);
    if (result)
        return result;
    const ptx_module_t *ptx = found->image->ptx;
    uint32_t index = name ? ptx_module_function(ptx, name) : PTX_NONE;
    if (!pKernel || !name)
        result = CUDA_ERROR_INVALID_VALUE;
    else if (index == PTX_NONE || !ptx->functions[index].is_kernel ||
             !ptx->functions[index].defined)
        result = CUDA_ERROR_NOT_FOUND;
    else
        result = cpu_library_kernel(found, index, pKernel);
    cpu_object_put(&found->object);
    return result;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
    cpu_library_t *found;
    CUresult result = enter_library(lib, &found);
    if (result)
        return result;
    if (count)
        *count = cpu_image_kernels(found->image);
    cpu_object_put(&found->object);
    return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    cpu_library_t *found;
    CUresult result = enter_library(lib, &found);
    if (result)
        return result;
    if (!kernels || !numKernels)
        result = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; !result && i < numKernels; i++) {
        uint32_t index = cpu_image_kernel(found->image, i);
        if (index == PTX_NONE)
            break;
        result = cpu_library_kernel(found, index, &kernels[i]);
    }
    cpu_object_put(&found->object);
    return result;
}

/* The library's module in the current context. */
static CUresult current_module(CUlibrary library, cpu_module_t **module)
{
    cpu_context_t *context;
    cpu_library_t *found;
    CUresult result = cpu_thread_context(&context);
    if (!result)
        result = cpu_library_get(library, &found);
    if (result)
        return result;
    result = cpu_library_module(found, context, module);
    cpu_object_put(&found->object);
    return result;
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
    cpu_module_t *module;
    if (!pMod)
        return cpu_thread_refuse_here(CUDA_ERROR_INVALID_VALUE);
    CUresult result = current_module(library, &module);
    if (result)
        return result;
    *pMod = (CUmodule)module->object.handle;
    cpu_object_put(&module->object);
    return CUDA_SUCCESS;
}

/* A device without pointers that mean the same function on host and device has no unified functions. */
CUresult cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol)
{
    cpu_module_t *module;
    if (!fptr || !symbol)
        return cpu_thread_refuse_here(CUDA_ERROR_INVALID_VALUE);
    CUresult result = current_module(library, &module);
    if (result)
        return result;
    cpu_object_put(&module->object);
    return CUDA_ERROR_NOT_FOUND;
}

static CUresult library_variable(CUlibrary library, const char *name, bool managed,
                                 CUdeviceptr *dptr, size_t *bytes)
{
    cpu_module_t *module;
    uint64_t address, size;
    if (!name)
        return cpu_thread_refuse_here(CUDA_ERROR_INVALID_VALUE);
    CUresult result = current_module(library, &module);
    if (result)
        return result;
    const ptx_module_t *ptx = module->image->ptx;
    uint32_t index = ptx_module_var(ptx, name);
    result = index != PTX_NONE && ptx->vars[index].managed == managed
                 ? cpu_module_variable(module, name, &address, &size)
                 : CUDA_ERROR_NOT_FOUND;
    if (!result && dptr)
        *dptr = address;
    if (!result && bytes)
        *bytes = size;
    cpu_object_put(&module->object);
    return result;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    return library_variable(library, name, false, dptr, bytes);
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    return library_variable(library, name, true, dptr, bytes);
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
    cpu_context_t *context;
    cpu_function_t *function;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!pFunc)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_kernel_function(kernel, context, &function);
    if (result)
        return result;
    *pFunc = (CUfunction)function->object.handle;
    cpu_object_put(&function->object);
    return CUDA_SUCCESS;
}

static CUresult enter_kernel(CUkernel handle, cpu_library_t **library, uint32_t *index)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    return result ? result : cpu_kernel_get(handle, library, index);
}

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
    cpu_library_t *library;
    uint32_t index;
    CUresult result = enter_kernel(kernel, &library, &index);
    if (result)
        return result;
    if (pLib)
        *pLib = (CUlibrary)library->object.handle;
    cpu_object_put(&library->object);
    return pLib ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc)
{
    cpu_library_t *library;
    uint32_t index;
    CUresult result = enter_kernel(hfunc, &library, &index);
    if (result)
        return result;
    if (name)
        *name = library->image->ptx->functions[index].name;
    cpu_object_put(&library->object);
    return name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult param_info(const ptx_module_t *ptx, uint32_t index, size_t param, size_t *offset,
                           size_t *size)
{
    const ptx_function_t *function = &ptx->functions[index];
    if (!offset || param >= function->param_count)
        return CUDA_ERROR_INVALID_VALUE;
    const ptx_var_t *var = &ptx->vars[function->param_first + param];
    *offset = var->offset;
    if (size)
        *size = var->size;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
                              size_t *paramSize)
{
    cpu_library_t *library;
    uint32_t index;
    CUresult result = enter_kernel(kernel, &library, &index);
    if (result)
        return result;
    result = param_info(library->image->ptx, index, paramIndex, paramOffset, paramSize);
    cpu_object_put(&library->object);
    return result;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
                            size_t *paramSize)
{
    cpu_context_t *context;
    cpu_function_t *function;
    CUresult result = cpu_thread_context(&context);
    if (!result)
        result = cpu_function_get(context, func, &function);
    if (result)
        return result;
    result = param_info(function->module->image->ptx, function->index, paramIndex, paramOffset,
                        paramSize);
    cpu_object_put(&function->object);
    return result;
}

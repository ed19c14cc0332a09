/* Modules and functions. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_image.h"
#include "gpu-proxy/client/rc_module.h"

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                            CUjit_option *options, void **optionValues)
{
    rc_call_t call;
    rc_object_t *object;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    void *linked;
    result = rc_module_link(image, numOptions, options, optionValues, &linked);
    if (!result)
        result = rc_module_load(&call, linked ? linked : image, numOptions, options, optionValues,
                                &object);
    free(linked);
    if (!result)
        *module = rc_handle(object);
    return result;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
    return cuModuleLoadDataEx(module, fatCubin, 0, NULL, NULL);
}

CUresult rc_module_read_file(const char *name, char **out, size_t *size)
{
    struct stat facts;
    CUresult result = CUDA_ERROR_FILE_NOT_FOUND;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return result;
    if (fstat(fd, &facts) || !S_ISREG(facts.st_mode) || facts.st_size > 1 << 30)
        goto out;
    result = CUDA_ERROR_OUT_OF_MEMORY;
    char *bytes = calloc(1, (size_t)facts.st_size + 1);
    if (!bytes)
        goto out;
    size_t got = 0;
    ssize_t n = 1;
    while (got < (size_t)facts.st_size && n > 0) {
        n = read(fd, bytes + got, (size_t)facts.st_size - got);
        got += n > 0 ? (size_t)n : 0;
    }
    result = got == (size_t)facts.st_size ? CUDA_SUCCESS : CUDA_ERROR_FILE_NOT_FOUND;
    if (result)
        free(bytes);
    else
        *out = bytes;
    *size = got;
out:
    close(fd);
    return result;
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
    char *bytes;
    size_t size;
    rc_call_t call;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!module || !fname)
        return CUDA_ERROR_INVALID_VALUE;
    result = rc_module_read_file(fname, &bytes, &size);
    if (result)
        return result;
    if (rc_image_fits(bytes, size))
        result = cuModuleLoadDataEx(module, bytes, 0, NULL, NULL);
    else
        result = CUDA_ERROR_INVALID_IMAGE;
    free(bytes);
    return result;
}

static CUresult find_module(CUmodule handle, rc_call_t *call, rc_object_t **out)
{
    CUresult result = rc_begin(call);
    if (result)
        return result;
    *out = rc_object_get(RC_MODULE, handle);
    if (!*out)
        return CUDA_ERROR_INVALID_HANDLE;
    call->session = (*out)->session;
    call->owner = (*out)->context;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule hmod)
{
    rc_call_t call;
    rc_object_t *module;
    CUresult result = find_module(hmod, &call, &module);
    return result ? result : rc_module_unload(&call, module);
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    rc_call_t call;
    rc_object_t *module;
    rc_function_t *function;
    CUresult result = find_module(hmod, &call, &module);
    if (!result && (!hfunc || !name))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && !*name)
        result = CUDA_ERROR_NOT_FOUND;
    if (!result)
        result = rc_module_function(&call, module, name, &function);
    if (!result)
        *hfunc = function->handle;
    return result;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
    rc_call_t call;
    rc_object_t *module;
    CUresult result = find_module(mod, &call, &module);
    if (!result && !count)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && !module->module->complete)
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (!result)
        *count = module->module->count;
    return result;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
    rc_call_t call;
    rc_object_t *module;
    CUresult result = find_module(mod, &call, &module);
    if (!result && !functions)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && !module->module->complete)
        result = CUDA_ERROR_NOT_SUPPORTED;
    for (unsigned i = 0; !result && i < numFunctions && i < module->module->count; i++)
        functions[i] = module->module->functions[i]->handle;
    return result;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    rc_call_t call;
    rc_object_t *module;
    rc_global_t global;
    CUresult result = find_module(hmod, &call, &module);
    if (!result && (!name || !*name || (!dptr && !bytes)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_module_global(&call, module, name, &global);
    if (!result && dptr)
        *dptr = global.address;
    if (!result && bytes)
        *bytes = global.size;
    return result;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    CUresult result = rc_check();
    if (!result && !mode)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *mode = CU_MODULE_EAGER_LOADING;
    return result;
}

/* ---- functions ---- */

CUresult rc_function_of(rc_call_t *call, CUfunction function, rc_object_t **out)
{
    rc_object_t *object = rc_object_get(RC_FUNCTION, function);
    if (object) {
        *out = object;
        return CUDA_SUCCESS;
    }
    object = rc_object_get(RC_KERNEL, function);
    return object ? rc_kernel_function(call, object, out) : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult find_function(CUfunction handle, rc_call_t *call, rc_function_t **out)
{
    rc_object_t *object;
    CUresult result = rc_begin(call);
    if (!result)
        result = rc_function_of(call, handle, &object);
    if (!result)
        *out = object->function.function;
    return result;
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    rc_call_t call;
    rc_function_t *function;
    CUresult result = find_function(hfunc, &call, &function);
    if (!result && (!pi || (int)attrib < 0 || attrib >= CU_FUNC_ATTRIBUTE_MAX))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pi = atomic_load(&function->attributes[attrib]);
    return result;
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    rc_call_t call;
    rc_function_t *function;
    uint64_t args[3] = {0, (uint64_t)attrib, (uint64_t)(int64_t)value}, now = 0;
    CUresult result = find_function(hfunc, &call, &function);
    if (!result && ((int)attrib < 0 || attrib >= CU_FUNC_ATTRIBUTE_MAX))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_use_function(&call, hfunc, &args[0]);
    if (!result)
        result = rc_ask(&call, GB_OP_cuFuncSetAttribute, args, 3, &now, 1);
    if (!result)
        atomic_store(&function->attributes[attrib], (int)now);
    return result;
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc)
{
    rc_call_t call;
    rc_function_t *function;
    CUresult result = find_function(hfunc, &call, &function);
    if (!result && !name)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *name = function->name;
    return result;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
                            size_t *paramSize)
{
    rc_call_t call;
    rc_function_t *function;
    CUresult result = find_function(func, &call, &function);
    if (!result && (!paramOffset || paramIndex >= function->param_count))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    *paramOffset = function->params[paramIndex].offset;
    if (paramSize)
        *paramSize = function->params[paramIndex].size;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
    rc_call_t call;
    rc_object_t *object;
    CUresult result = rc_begin(&call);
    if (!result)
        result = rc_function_of(&call, hfunc, &object);
    if (!result && !hmod)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *hmod = rc_handle(object->function.module);
    return result;
}

/* Modules are loaded whole. */
CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    rc_call_t call;
    rc_function_t *f;
    CUresult result = find_function(function, &call, &f);
    if (!result && !state)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return result;
}

CUresult cuFuncLoad(CUfunction function)
{
    rc_call_t call;
    rc_function_t *f;
    return find_function(function, &call, &f);
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
    rc_call_t call;
    uint64_t args[2] = {0, config};
    CUresult result = rc_begin(&call);
    if (!result)
        result = rc_use_function(&call, hfunc, &args[0]);
    if (!result && (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        result = CUDA_ERROR_INVALID_VALUE;
    return result ? result : rc_post(&call, GB_OP_cuFuncSetCacheConfig, args, 2);
}

/* The program's own function says how much memory a block size needs, so the sizes are tried from here. */
static CUresult try_sizes(rc_function_t *f, CUfunction func, CUoccupancyB2DSize bytes_for,
                          int limit, unsigned flags, int *best, int *best_blocks)
{
    int most = atomic_load(&f->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK]);
    CUresult result = CUDA_SUCCESS;
    if (limit && limit < most)
        most = limit;
    *best = *best_blocks = 0;
    for (int size = most; size > 0 && !result; size = size > 32 ? (size - 1) / 32 * 32 : 0) {
        int blocks = 0;
        result = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, func, size,
                                                                      bytes_for(size), flags);
        if (blocks * size > *best_blocks * *best) {
            *best = size;
            *best_blocks = blocks;
        }
    }
    return result;
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize,
                                                   CUfunction func,
                                                   CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                   size_t dynamicSMemSize, int blockSizeLimit,
                                                   unsigned int flags)
{
    rc_call_t call;
    rc_function_t *f;
    uint64_t outs[2], args[4] = {0, dynamicSMemSize, (uint64_t)blockSizeLimit, flags};
    int best, blocks;
    CUresult result = find_function(func, &call, &f);
    if (!result && (!minGridSize || !blockSize || blockSizeLimit < 0 || (flags & ~1u)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_use_function(&call, func, &args[0]);
    if (result)
        return result;
    if (!blockSizeToDynamicSMemSize) {
        result = rc_ask(&call, GB_OP_cuOccupancyMaxPotentialBlockSizeWithFlags, args, 4, outs, 2);
        if (!result) {
            *minGridSize = (int)outs[0];
            *blockSize = (int)outs[1];
        }
        return result;
    }
    result = try_sizes(f, func, blockSizeToDynamicSMemSize, blockSizeLimit, flags, &best, &blocks);
    if (result)
        return result;
    *blockSize = best;
    *minGridSize =
        blocks *
        call.owner->context_.device->info.attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                          size_t dynamicSMemSize, int blockSizeLimit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func,
                                                     blockSizeToDynamicSMemSize, dynamicSMemSize,
                                                     blockSizeLimit, 0);
}

/* Entry points: linking PTX at run time. */
#include <stdlib.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_image.h"
#include "gpu-proxy/cpu/driver/cpu_link.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues,
                         CUlinkState *stateOut)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!stateOut)
        return CUDA_ERROR_INVALID_VALUE;
    return cpu_linker_open(numOptions, options, optionValues, stateOut);
}

static CUresult enter(CUlinkState state, cpu_linker_t **linker)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    return result ? result : cpu_linker_get(state, linker);
}

static CUresult check_input(CUjitInputType type, unsigned count, const CUjit_option *options,
                            void *const *values)
{
    cpu_options_t read;
    if ((int)type < 0 || type >= CU_JIT_NUM_INPUT_TYPES)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cpu_options_read(count, options, values, CPU_OPTIONS_INPUT, &read);
    /* LTO-IR of toolkits before 12.0: nothing here understands it. */
    return !result && type == CU_JIT_INPUT_NVVM ? CUDA_ERROR_NO_BINARY_FOR_GPU : result;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                          const char *name, unsigned int numOptions, CUjit_option *options,
                          void **optionValues)
{
    cpu_linker_t *linker;
    CUresult result = enter(state, &linker);
    if (result)
        return result;
    result = check_input(type, numOptions, options, optionValues);
    if (!result && (!data || !size))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = cpu_linker_add(linker, type, data, size, name);
    cpu_linker_put(linker);
    return result;
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                          unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    cpu_linker_t *linker;
    void *data;
    size_t size;
    CUresult result = enter(state, &linker);
    if (result)
        return result;
    result = check_input(type, numOptions, options, optionValues);
    if (!result && !path)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = cpu_image_read_file(path, &data, &size);
    if (!result) {
        result = cpu_linker_add(linker, type, data, size, path);
        free(data);
    }
    cpu_linker_put(linker);
    return result;
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
    cpu_linker_t *linker;
    CUresult result = enter(state, &linker);
    if (result)
        return result;
    result = cubinOut ? cpu_linker_finish(linker, cubinOut, sizeOut) : CUDA_ERROR_INVALID_VALUE;
    cpu_linker_put(linker);
    return result;
}

CUresult cuLinkDestroy(CUlinkState state)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    return result ? result : cpu_linker_close(state);
}

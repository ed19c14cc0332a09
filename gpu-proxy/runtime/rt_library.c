/* Libraries and their kernels as handles. */
#include "gpu-proxy/runtime/rt_module.h"
#include "gpu-proxy/runtime/rt_state.h"

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
                                enum cudaJitOption *jitOptions, void **jitOptionsValues,
                                unsigned int numJitOptions, enum cudaLibraryOption *libraryOptions,
                                void **libraryOptionValues, unsigned int numLibraryOptions)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuLibraryLoadData(
                                 library, code, (CUjit_option *)jitOptions, jitOptionsValues,
                                 numJitOptions, (CUlibraryOption *)libraryOptions,
                                 libraryOptionValues, numLibraryOptions));
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *fileName,
                                    enum cudaJitOption *jitOptions, void **jitOptionsValues,
                                    unsigned int numJitOptions,
                                    enum cudaLibraryOption *libraryOptions,
                                    void **libraryOptionValues, unsigned int numLibraryOptions)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuLibraryLoadFromFile(
                                 library, fileName, (CUjit_option *)jitOptions, jitOptionsValues,
                                 numJitOptions, (CUlibraryOption *)libraryOptions,
                                 libraryOptionValues, numLibraryOptions));
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuLibraryUnload(library));
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *pKernel, cudaLibrary_t library, const char *name)
{
    CUkernel kernel;
    int error = rt_enter();
    if (!error && !pKernel)
        error = cudaErrorInvalidValue;
    if (!error)
        error = (int)rt_cu->cuLibraryGetKernel(&kernel, library, name);
    if (!error) {
        rt_kernel_note(kernel);
        *pKernel = kernel;
    }
    return rt_result(error);
}

cudaError_t cudaLibraryGetKernelCount(unsigned int *count, cudaLibrary_t lib)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuLibraryGetKernelCount(count, lib));
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned int numKernels,
                                        cudaLibrary_t lib)
{
    unsigned int count = 0;
    int error = rt_enter();
    if (!error)
        error = (int)rt_cu->cuLibraryEnumerateKernels(kernels, numKernels, lib);
    if (!error)
        error = (int)rt_cu->cuLibraryGetKernelCount(&count, lib);
    for (unsigned i = 0; !error && i < numKernels && i < count; i++)
        rt_kernel_note(kernels[i]);
    return rt_result(error);
}

cudaError_t cudaLibraryGetGlobal(void **dptr, size_t *bytes, cudaLibrary_t library,
                                 const char *name)
{
    CUdeviceptr p;
    int error = rt_enter();
    if (!error)
        error = (int)rt_cu->cuLibraryGetGlobal(&p, bytes, library, name);
    if (!error && dptr)
        *dptr = (void *)(uintptr_t)p;
    return rt_result(error);
}

cudaError_t cudaLibraryGetManaged(void **dptr, size_t *bytes, cudaLibrary_t library,
                                  const char *name)
{
    CUdeviceptr p;
    int error = rt_enter();
    if (!error)
        error = (int)rt_cu->cuLibraryGetManaged(&p, bytes, library, name);
    if (!error && dptr)
        *dptr = (void *)(uintptr_t)p;
    return rt_result(error);
}

cudaError_t cudaLibraryGetUnifiedFunction(void **fptr, cudaLibrary_t library, const char *symbol)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuLibraryGetUnifiedFunction(fptr, library, symbol));
}

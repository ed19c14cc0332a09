#include "common/cuda/gb_cuda_default.h"

#include <string.h>

#include "common/core/gb_log.h"
#include "common/cuda/gb_cuda_error.h"
#include "gb_cuda_api.h"

CUresult gb_cuda_not_supported(int *told, const char *name)
{
    if (!__atomic_exchange_n(told, 1, __ATOMIC_RELAXED))
        gb_log(GB_LOG_WARN, "%s is not supported: CUDA_ERROR_NOT_SUPPORTED is returned", name);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* First symbol of `base`, or gb_cuda_symbol_count. */
static unsigned first_of(const char *base)
{
    unsigned low = 0, high = gb_cuda_symbol_count;
    while (low < high) {
        unsigned mid = low + (high - low) / 2;
        if (strcmp(gb_cuda_symbols[mid].base, base) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

void *gb_cuda_resolve(const char *base, int version, uint64_t flags,
                      CUdriverProcAddressQueryResult *status)
{
    const gb_cuda_symbol_t *legacy = NULL, *own = NULL;
    int known = 0;
    for (unsigned i = first_of(base); i < gb_cuda_symbol_count; i++) {
        const gb_cuda_symbol_t *s = &gb_cuda_symbols[i];
        if (strcmp(s->base, base) != 0)
            break;
        known = 1;
        if (s->version <= version)
            *(s->per_thread ? &own : &legacy) = s;
    }
    if (own && (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM))
        legacy = own;
    if (legacy)
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
    else
        *status = known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                        : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return legacy ? (void *)legacy->address : NULL;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, uint64_t flags,
                             CUdriverProcAddressQueryResult *symbolStatus)
{
    CUdriverProcAddressQueryResult status;
    if (!symbol || !pfn || cudaVersion > GB_CUDA_VERSION || flags > 2)
        return CUDA_ERROR_INVALID_VALUE;
    *pfn = gb_cuda_resolve(symbol, cudaVersion, flags, &status);
    if (symbolStatus)
        *symbolStatus = status;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, uint64_t flags)
{
    CUdriverProcAddressQueryResult status;
    CUresult result = cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, &status);
    if (!result && status != CU_GET_PROC_ADDRESS_SUCCESS)
        return CUDA_ERROR_NOT_FOUND;
    return result;
}

CUresult cuGetErrorName(CUresult error, const char **pStr)
{
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = gb_cuda_error_name(error);
    return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **pStr)
{
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = gb_cuda_error_text(error);
    return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

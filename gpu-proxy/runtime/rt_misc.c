/* Versions, entry points of the driver, profiling. */
#include "gpu-proxy/runtime/rt_state.h"

enum { VERSION = 13000 };

cudaError_t cudaRuntimeGetVersion(int *runtimeVersion)
{
    if (!runtimeVersion)
        return rt_result(cudaErrorInvalidValue);
    *runtimeVersion = VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *driverVersion)
{
    if (!driverVersion)
        return rt_result(cudaErrorInvalidValue);
    int error = rt_init();
    if (error == cudaErrorInsufficientDriver) { /* no driver is installed: CUDA says version 0 */
        *driverVersion = 0;
        return cudaSuccess;
    }
    if (!rt_cu)
        return rt_result(error);
    return rt_result((int)rt_cu->cuDriverGetVersion(driverVersion));
}

static cudaError_t entry_point(const char *symbol, void **funcPtr, unsigned int cudaVersion,
                               unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *driverStatus)
{
    CUdriverProcAddressQueryResult status = 0;
    int error = rt_init();
    if (!error && (!symbol || !funcPtr))
        error = cudaErrorInvalidValue;
    if (!error)
        error = (int)rt_cu->cuGetProcAddress_v2(symbol, funcPtr, (int)cudaVersion, flags, &status);
    if (!error && driverStatus)
        *driverStatus = (enum cudaDriverEntryPointQueryResult)status;
    else if (!error && status != CU_GET_PROC_ADDRESS_SUCCESS)
        error = cudaErrorSymbolNotFound;
    return rt_result(error);
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_point(symbol, funcPtr, VERSION, flags, driverStatus);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr,
                                             unsigned int cudaVersion, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_point(symbol, funcPtr, cudaVersion, flags, driverStatus);
}

/* A program with per-thread default streams gets the entry points that mean them, unless it asks. */
static unsigned long long thread_flags(unsigned long long flags)
{
    return flags ? flags : (unsigned long long)CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr,
                                         unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_point(symbol, funcPtr, VERSION, thread_flags(flags), driverStatus);
}

cudaError_t
cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **funcPtr, unsigned int cudaVersion,
                                      unsigned long long flags,
                                      enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_point(symbol, funcPtr, cudaVersion, thread_flags(flags), driverStatus);
}

/* There are no tables: NVIDIA's are for its own libraries. */
cudaError_t cudaGetExportTable(const void **ppExportTable, const cudaUUID_t *pExportTableId)
{
    (void)ppExportTable, (void)pExportTableId;
    return rt_result(cudaErrorInvalidValue);
}

cudaError_t cudaProfilerStart(void)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuProfilerStart());
}

cudaError_t cudaProfilerStop(void)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuProfilerStop());
}

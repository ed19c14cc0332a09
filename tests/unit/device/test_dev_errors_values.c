/* Errors that come from arguments: NULL where something is to be written, numbers and flags that do not
 * exist, sizes that overflow or reach beyond an allocation. */
#include "error_rows.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

enum { BYTES = 4096 };

static const size_t huge = SIZE_MAX / 2;

static void of_devices(void **state)
{
    CUdevice device;
    CUuuid uuid;
    CUcontext context;
    CUdevprop properties;
    CUctxCreateParams create = {0};
    int value, other;
    unsigned flags;
    size_t size;
    char name[16];
    const char *text;
    void *function;
    CUdriverProcAddressQueryResult status;
    (void)state;
    const error_row_t rows[] = {
        ROW(CUDA_ERROR_INVALID_VALUE, cuDriverGetVersion(NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuGetErrorName(CUDA_SUCCESS, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuGetErrorName((CUresult)12345, &text)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuGetErrorString(CUDA_SUCCESS, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuGetErrorString((CUresult)12345, &text)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2(NULL, &function, 13000, 0, &status)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", NULL, 13000, 0, &status)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuInit(1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceGet(NULL, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, -1)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 99)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceGetCount(NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceGetName(NULL, 16, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceGetName(name, 0, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetName(name, 16, 99)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceGetUuid_v2(NULL, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetUuid_v2(&uuid, -1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceTotalMem_v2(NULL, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDeviceTotalMem_v2(&size, 99)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, 10000, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE,
            cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceComputeCapability(NULL, &value, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceComputeCapability(&value, NULL, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDeviceComputeCapability(&value, &other, 99)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceGetProperties(NULL, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetProperties(&properties, 99)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceCanAccessPeer(NULL, 0, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDeviceCanAccessPeer(&value, 0, 99)),
        ROW(CUDA_ERROR_INVALID_DEVICE,
            cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 99)),
        ROW(CUDA_ERROR_INVALID_DEVICE,
            cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceGetPCIBusId(NULL, 16, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceGetPCIBusId(name, 0, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetPCIBusId(name, 16, 99)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceGetByPCIBusId(NULL, "0000:00:00.0")),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceGetByPCIBusId(&device, NULL)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetByPCIBusId(&device, "7fff:00:00.0")),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuDeviceGetTexture1DLinearMaxWidth(NULL, CU_AD_FORMAT_FLOAT, 1, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuDeviceGetTexture1DLinearMaxWidth(&size, (CUarray_format)99, 1, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE,
            cuDeviceGetTexture1DLinearMaxWidth(&size, CU_AD_FORMAT_FLOAT, 1, 99)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceGetLuid(NULL, &flags, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceGetLuid(name, NULL, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetLuid(name, &flags, 99)),
        ROW(CUDA_ERROR_NOT_SUPPORTED, cuDeviceGetLuid(name, &flags, 0)), /* but on Windows */
        ROW(CUDA_ERROR_NOT_SUPPORTED, cuProfilerInitialize("in", "out", CU_OUT_CSV)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceTotalMem(NULL, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDeviceTotalMem(&flags, 99)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDevicePrimaryCtxRetain(NULL, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRetain(&context, 99)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(0)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRelease_v2(99)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxReset_v2(99)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxSetFlags_v2(99, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDevicePrimaryCtxSetFlags_v2(0, 0x7000)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxGetState(99, &flags, &value)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDevicePrimaryCtxGetState(0, NULL, &value)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDevicePrimaryCtxGetState(0, &flags, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxCreate_v2(NULL, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxCreate_v2(&context, 0x7000, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate_v2(&context, 0, 99)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxCreate_v4(NULL, &create, 0, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate_v4(&context, &create, 0, 99)),
    };
    CHECK(rows);
}

static void of_contexts(void **state)
{
    CUcontext mine = *state, other;
    CUlimit no_limit = (CUlimit)99;
    size_t size;
    unsigned flags;
    unsigned long long id;
    CUexecAffinityParam affinity;
    const error_row_t rows[] = {
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxGetCurrent(NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxGetDevice(NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxGetFlags(NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxSetFlags(0x7000)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit(&size, no_limit)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(no_limit, 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxGetCacheConfig(NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxSetCacheConfig((CUfunc_cache)9)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxGetSharedMemConfig(NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxSetSharedMemConfig((CUsharedconfig)9)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuFlushGPUDirectRDMAWrites(1, 100)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuFlushGPUDirectRDMAWrites(0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuFlushGPUDirectRDMAWrites(0, 101)),
        ROW(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, cuCtxCreate_v3(&other, &affinity, 1, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxCreate_v3(NULL, NULL, 0, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxCreate_v3(&other, NULL, 0, 0x7000, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate_v3(&other, NULL, 0, 0, 99)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxGetApiVersion(mine, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetApiVersion((CUcontext)16, &flags)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxGetId(mine, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetId((CUcontext)16, &id)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxGetExecAffinity(&affinity, (CUexecAffinityType)9)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess((CUcontext)16, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuCtxEnablePeerAccess(mine, 1)),
        ROW(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(mine)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxDisablePeerAccess((CUcontext)16)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent((CUcontext)16)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent_v2((CUcontext)16)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2((CUcontext)16)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxDetach((CUcontext)16)),
    };
    CHECK(rows);
}

static void of_memory(void **state)
{
    CUdeviceptr at, ptr;
    size_t pitch, size, total;
    void *host, *plain = malloc(BYTES);
    unsigned flags;
    (void)state;
    OK(cu->cuMemAlloc_v2(&at, BYTES));
    OK(cu->cuMemHostAlloc(&host, BYTES, 0));
    const error_row_t rows[] = {
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(NULL, 64)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&ptr, 0)),
        ROW(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&ptr, SIZE_MAX)),
        ROW(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&ptr, SIZE_MAX - 100)),
        ROW(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&ptr, huge)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch_v2(NULL, &pitch, 64, 2, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch_v2(&ptr, NULL, 64, 2, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch_v2(&ptr, &pitch, 0, 2, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch_v2(&ptr, &pitch, 64, 0, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch_v2(&ptr, &pitch, 64, 2, 3)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(NULL, 64, CU_MEM_ATTACH_GLOBAL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&ptr, 0, CU_MEM_ATTACH_GLOBAL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&ptr, 64, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&ptr, 64, 3)),
        ROW(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocManaged(&ptr, huge, CU_MEM_ATTACH_GLOBAL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(at + 64)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(16)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2((CUdeviceptr)(uintptr_t)host)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemGetInfo_v2(NULL, &total)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemGetInfo_v2(&size, NULL)),
        ROW(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange_v2(&ptr, &size, 16)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAllocHost_v2(NULL, 64)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(NULL, 64, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(&host, 64, 0x100)),
        ROW(CUDA_ERROR_OUT_OF_MEMORY, cuMemHostAlloc(&host, huge, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(plain)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost((void *)(uintptr_t)at)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost((char *)host + 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2(NULL, 64, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2(plain, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2(plain, SIZE_MAX, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2(plain, 64, 0x100)),
        ROW(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(plain)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer_v2(NULL, host, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer_v2(&ptr, host, 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer_v2(&ptr, plain, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemHostGetFlags(NULL, host)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemHostGetFlags(&flags, plain)),
    };
    CHECK(rows);
    OK(cu->cuMemHostRegister_v2(plain, BYTES, 0));
    FAILS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cu->cuMemHostRegister_v2(plain, BYTES, 0));
    OK(cu->cuMemHostUnregister(plain));
    OK(cu->cuMemFree_v2(at));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFree_v2(at)); /* twice */
    OK(cu->cuMemFreeHost(host));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFreeHost(host));
    free(plain);
}

static void of_copies(void **state)
{
    CUdeviceptr at, end;
    char *host = calloc(1, BYTES);
    CUstream stream;
    CUcontext mine = *state;
    OK(cu->cuMemAlloc_v2(&at, BYTES));
    OK(cu->cuStreamCreate(&stream, 0));
    end = at + BYTES;
    const error_row_t rows[] = {
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(0, host, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(at, NULL, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(end - 2, host, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(at, host, BYTES + 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(at, host, SIZE_MAX)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(end, host, 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync_v2(0, host, 4, stream)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync_v2(at, NULL, 4, stream)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync_v2(at, host, BYTES + 1, stream)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(NULL, at, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(host, 0, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(host, end - 2, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(host, at, SIZE_MAX)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoHAsync_v2(NULL, at, 4, stream)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoHAsync_v2(host, at, BYTES + 1, stream)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD_v2(0, at, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD_v2(at, 0, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD_v2(at, end - 2, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync_v2(at, at, BYTES + 1, stream)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpy(0, at, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpy(at, 0, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpy(at, at, BYTES + 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync(end - 1, at, 4, stream)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyPeer(0, mine, at, mine, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemcpyPeer(at, mine, at, mine, BYTES + 1)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyPeer(at, (CUcontext)16, at, mine, 4)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyPeer(at, mine, at, (CUcontext)16, 4)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyPeerAsync(at, (CUcontext)16, at, mine, 4, stream)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(0, 1, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(at, 1, BYTES + 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(at, 1, SIZE_MAX)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD16_v2(at + 1, 1, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD16_v2(at, 1, BYTES / 2 + 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD16_v2(at, 1, SIZE_MAX / 2 + 2)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(at + 2, 1, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(at, 1, BYTES / 4 + 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(at, 1, SIZE_MAX / 4 + 2)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(end, 1, 1, stream)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD16Async(at + 1, 1, 1, stream)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD32Async(at + 2, 1, 1, stream)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8_v2(at, 16, 1, 32, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8_v2(at, 64, 1, 64, BYTES / 64 + 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D16_v2(at, 16, 1, 16, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D32_v2(at, 16, 1, 8, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D32_v2(at + 1, 64, 1, 8, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D32Async(at, SIZE_MAX, 1, 8, 4, stream)),
    };
    CHECK(rows);
    OK(cu->cuStreamDestroy_v2(stream));
    OK(cu->cuMemFree_v2(at));
    free(host);
}

static CUDA_MEMCPY2D flat(CUdeviceptr at, void *host)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = host,
                           .srcPitch = 64,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = at,
                           .dstPitch = 64,
                           .WidthInBytes = 64,
                           .Height = 4};
}

static void of_boxes(void **state)
{
    CUdeviceptr at;
    char *host = calloc(1, BYTES);
    CUDA_MEMCPY2D c;
    CUDA_MEMCPY3D box = {0};
    (void)state;
    OK(cu->cuMemAlloc_v2(&at, BYTES));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2D_v2(NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2DUnaligned_v2(NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2DAsync_v2(NULL, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy3D_v2(NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy3DAsync_v2(NULL, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy3DPeer(NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy3DPeerAsync(NULL, NULL));
    c = flat(at, host);
    OK(cu->cuMemcpy2D_v2(&c));
    c.srcPitch = 32; /* shorter than a row */
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2D_v2(&c));
    c = flat(at, host);
    c.dstPitch = 32;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2D_v2(&c));
    c = flat(at, host);
    c.Height = BYTES / 64 + 1; /* beyond the end */
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2D_v2(&c));
    c = flat(at, host);
    c.dstY = BYTES / 64 - 3;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2D_v2(&c));
    c = flat(at, host);
    c.dstXInBytes = SIZE_MAX - 8;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2D_v2(&c));
    c = flat(at, host);
    c.srcMemoryType = (CUmemorytype)77;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2D_v2(&c));
    c = flat(at, NULL);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2D_v2(&c));
    c = flat(0, host);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2DAsync_v2(&c, NULL));
    c = flat(at, host);
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    c.dstArray = (CUarray)16;
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuMemcpy2D_v2(&c));
    box.srcMemoryType = CU_MEMORYTYPE_HOST;
    box.srcHost = host;
    box.srcPitch = box.dstPitch = 64;
    box.srcHeight = box.dstHeight = 4;
    box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    box.dstDevice = at;
    box.WidthInBytes = 64;
    box.Height = 4;
    box.Depth = 4;
    OK(cu->cuMemcpy3D_v2(&box));
    box.Depth = BYTES / 256 + 1;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy3D_v2(&box));
    box.Depth = 2;
    box.dstHeight = 2; /* lower than a layer */
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy3D_v2(&box));
    box.dstHeight = 4;
    box.dstLOD = 1; /* must be zero */
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy3D_v2(&box));
    OK(cu->cuMemFree_v2(at));
    free(host);
}

static void of_arrays(void **state)
{
    CUarray array;
    CUmipmappedArray mipmap;
    CUtexObject texture;
    CUsurfObject surface;
    CUdeviceptr at;
    CUDA_ARRAY_DESCRIPTOR good = {16, 16, CU_AD_FORMAT_FLOAT, 1}, bad[5];
    CUDA_ARRAY3D_DESCRIPTOR deep = {16, 16, 16, CU_AD_FORMAT_FLOAT, 1, 0}, wrong[4];
    (void)state;
    for (int i = 0; i < 5; i++)
        bad[i] = good;
    bad[0].Width = 0;
    bad[1].NumChannels = 3;
    bad[2].Format = (CUarray_format)99;
    bad[3].Width = (size_t)1 << 40;
    bad[4].Height = (size_t)1 << 40;
    for (int i = 0; i < 4; i++)
        wrong[i] = deep;
    wrong[0].Width = 0;
    wrong[1].NumChannels = 0;
    wrong[2].Depth = (size_t)1 << 40;
    wrong[3].Flags = 0x10000;
    CUDA_RESOURCE_DESC none = {0}, linear = {.resType = CU_RESOURCE_TYPE_LINEAR};
    CUDA_TEXTURE_DESC how = {0};
    OK(cu->cuMemAlloc_v2(&at, BYTES));
    linear.res.linear.devPtr = at;
    linear.res.linear.format = CU_AD_FORMAT_FLOAT;
    linear.res.linear.numChannels = 1;
    linear.res.linear.sizeInBytes = 2 * BYTES;
    const error_row_t rows[] = {
        ROW(CUDA_ERROR_INVALID_VALUE, cuArrayCreate_v2(NULL, &good)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuArrayCreate_v2(&array, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuArrayCreate_v2(&array, &bad[0])),
        ROW(CUDA_ERROR_INVALID_VALUE, cuArrayCreate_v2(&array, &bad[1])),
        ROW(CUDA_ERROR_INVALID_VALUE, cuArrayCreate_v2(&array, &bad[2])),
        ROW(CUDA_ERROR_INVALID_VALUE, cuArrayCreate_v2(&array, &bad[3])),
        ROW(CUDA_ERROR_INVALID_VALUE, cuArrayCreate_v2(&array, &bad[4])),
        ROW(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate_v2(NULL, &deep)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate_v2(&array, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate_v2(&array, &wrong[0])),
        ROW(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate_v2(&array, &wrong[1])),
        ROW(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate_v2(&array, &wrong[2])),
        ROW(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate_v2(&array, &wrong[3])),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayCreate(NULL, &deep, 2)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayCreate(&mipmap, NULL, 2)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(NULL, &linear, &how, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, NULL, &how, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, &linear, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, &linear, &how, NULL)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuTexObjectCreate(&texture, &none, &how, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuSurfObjectCreate(NULL, &none)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuSurfObjectCreate(&surface, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuSurfObjectCreate(&surface, &linear)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuSurfObjectCreate(&surface, &none)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(16)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuSurfObjectDestroy(16)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuTexObjectGetResourceDesc(&none, 16)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuTexObjectGetTextureDesc(&how, 16)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuSurfObjectGetResourceDesc(&none, 16)),
    };
    CHECK(rows);
    OK(cu->cuMemFree_v2(at));
}

static void of_streams(void **state)
{
    CUstream stream;
    CUevent event, timed, untimed;
    CUdeviceptr at;
    CUstreamAttrValue value = {0};
    float ms;
    (void)state;
    OK(cu->cuStreamCreate(&stream, 0));
    OK(cu->cuEventCreate(&timed, 0));
    OK(cu->cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    OK(cu->cuMemAlloc_v2(&at, 64));
    const error_row_t rows[] = {
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(NULL, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&stream, 2)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamCreateWithPriority(NULL, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamCreateWithPriority(&stream, 2, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamGetPriority(stream, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamGetFlags(stream, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamGetId(stream, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamGetCtx(stream, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamGetDevice(stream, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuStreamGetAttribute(stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamSetAttribute(stream, (CUstreamAttrID)99, &value)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent(stream, timed, 8)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamAddCallback(stream, NULL, NULL, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamAddCallback(stream, (CUstreamCallback)1, NULL, 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc(stream, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32_v2(stream, at + 2, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32_v2(stream, 0, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32_v2(stream, at, 0, 0x100)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue64_v2(stream, at + 4, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32_v2(stream, at + 1, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32_v2(stream, at, 0, 0x100)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64_v2(stream, 16, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuEventCreate(NULL, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&event, 8)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&event, CU_EVENT_INTERPROCESS)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuEventRecordWithFlags(timed, stream, 4)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuEventElapsedTime_v2(NULL, timed, timed)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime_v2(&ms, timed, timed)), /* not recorded */
        ROW(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime_v2(&ms, untimed, untimed)),
    };
    CHECK(rows);
    OK(cu->cuStreamDestroy_v2(stream));
    OK(cu->cuEventDestroy_v2(timed));
    OK(cu->cuEventDestroy_v2(untimed));
    OK(cu->cuMemFree_v2(at));
}

static void of_pointers(void **state)
{
    CUdeviceptr at;
    unsigned type;
    CUpointer_attribute what = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    void *where = &type;
    int plain;
    (void)state;
    OK(cu->cuMemAlloc_v2(&at, 64));
    const error_row_t rows[] = {
        ROW(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(NULL, what, at)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, (CUpointer_attribute)0, at)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, (CUpointer_attribute)999, at)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuPointerGetAttribute(&type, what, (CUdeviceptr)(uintptr_t)&plain)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttributes(0, &what, &where, at)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttributes(1, NULL, &where, at)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttributes(1, &what, NULL, at)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuPointerSetAttribute(&type, what, at)), /* read only */
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuPointerSetAttribute(&type, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 16)),
    };
    CHECK(rows);
    OK(cu->cuMemFree_v2(at));
}

static void of_virtual_memory(void **state)
{
    enum { GRAIN = 2 << 20 };
    CUdeviceptr at, ptr;
    CUmemGenericAllocationHandle handle, none;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
                        far = prop, invalid = prop;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                    wrong = access;
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    unsigned long long flags;
    size_t size;
    (void)state;
    far.location.id = 99;
    invalid.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    wrong.flags = (CUmemAccess_flags)2;
    OK(cu->cuMemAddressReserve(&at, 2 * GRAIN, 0, 0, 0));
    OK(cu->cuMemCreate(&handle, GRAIN, &prop, 0));
    const error_row_t rows[] = {
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemGetAllocationGranularity(NULL, &prop, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemGetAllocationGranularity(&size, NULL, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemGetAllocationGranularity(&size, &prop, 7)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(NULL, GRAIN, 0, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&ptr, 0, 0, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&ptr, GRAIN + 1, 0, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&ptr, GRAIN, 3, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&ptr, GRAIN, 0, 0, 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(at, GRAIN)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(at + GRAIN, GRAIN)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemCreate(NULL, GRAIN, &prop, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&none, 0, &prop, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&none, GRAIN + 1, &prop, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&none, GRAIN, NULL, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&none, GRAIN, &invalid, 0)),
        ROW(CUDA_ERROR_INVALID_DEVICE, cuMemCreate(&none, GRAIN, &far, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&none, GRAIN, &prop, 1)),
        ROW(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&none, (size_t)1 << 46, &prop, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemMap(16 * (CUdeviceptr)GRAIN, GRAIN, 0, handle, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemMap(at, 2 * GRAIN, 0, handle, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemMap(at, GRAIN, 1, handle, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemMap(at, GRAIN, 0, handle, 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemMap(at, GRAIN, 0, 16, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(at, GRAIN)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(at, GRAIN, &access, 1)),
        ROW(CUDA_SUCCESS, cuMemMap(at, GRAIN, 0, handle, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemMap(at, GRAIN, 0, handle, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(at, GRAIN, NULL, 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(at, GRAIN, &access, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(at, GRAIN, &wrong, 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(at, 2 * GRAIN, &access, 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemGetAccess(NULL, &location, at)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemGetAccess(&flags, NULL, at)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemGetAccess(&flags, &location, at + GRAIN)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(at, 2 * GRAIN)), /* mapped still */
        ROW(CUDA_SUCCESS, cuMemUnmap(at, GRAIN)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(at, GRAIN)),
        ROW(CUDA_SUCCESS, cuMemRelease(handle)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemRelease(handle)),
        ROW(CUDA_SUCCESS, cuMemAddressFree(at, 2 * GRAIN)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(at, 2 * GRAIN)),
    };
    CHECK(rows);
}

/* Handles that processes give each other. */
static void of_several_processes(void **state)
{
    const CUmemAllocationHandleType fds = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUipcMemHandle memory = {0};
    CUipcEventHandle event = {0};
    CUmemPoolPtrExportData pointer = {0};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle physical, files, imported;
    CUmemoryPool pool, files_pool, other;
    CUdeviceptr at, pooled, managed, opened;
    CUevent plain, shared, made;
    int fd, not_one = open("/dev/null", O_RDONLY);
    (void)state;
    OK(cu->cuMemAlloc_v2(&at, BYTES));
    OK(cu->cuMemAllocAsync(&pooled, BYTES, NULL));
    OK(cu->cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    OK(cu->cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    OK(cu->cuEventCreate(&shared, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    OK(cu->cuMemCreate(&physical, 2 << 20, &prop, 0));
    prop.requestedHandleTypes = fds;
    OK(cu->cuMemCreate(&files, 2 << 20, &prop, 0));
    OK(cu->cuMemPoolCreate(&pool, &props));
    props.handleTypes = fds;
    OK(cu->cuMemPoolCreate(&files_pool, &props));
    props.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    const error_row_t rows[] = {
        ROW(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(NULL, at)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&memory, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&memory, pooled)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&memory, managed)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(NULL, memory, 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(&opened, memory, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(&opened, memory, 2)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle_v2(&opened, memory, 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(at)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuIpcGetEventHandle(NULL, shared)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuIpcGetEventHandle(&event, plain)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&event, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuIpcOpenEventHandle(NULL, event)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenEventHandle(&made, event)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&made, CU_EVENT_INTERPROCESS)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, physical, fds, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(NULL, files, fds, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, files, fds, 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, files, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, 0, fds, 0)),
        ROW(CUDA_ERROR_NOT_SUPPORTED,
            cuMemExportToShareableHandle(&fd, files, CU_MEM_HANDLE_TYPE_FABRIC, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(NULL, NULL, fds)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)not_one, fds)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)-1, fds)),
        ROW(CUDA_ERROR_NOT_SUPPORTED,
            cuMemImportFromShareableHandle(&imported, NULL, CU_MEM_HANDLE_TYPE_WIN32)),
        ROW(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolCreate(&other, &props)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&fd, pool, fds, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(NULL, files_pool, fds, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&fd, files_pool, fds, 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&fd, files_pool, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&fd, NULL, fds, 0)),
        ROW(CUDA_ERROR_NOT_SUPPORTED,
            cuMemPoolExportToShareableHandle(&fd, files_pool, CU_MEM_HANDLE_TYPE_WIN32, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuMemPoolImportFromShareableHandle(NULL, (void *)(intptr_t)not_one, fds, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuMemPoolImportFromShareableHandle(&other, (void *)(intptr_t)not_one, fds, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(NULL, pooled)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&pointer, pooled)), /* not shared */
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&pointer, at)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(NULL, files_pool, &pointer)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&opened, files_pool, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&opened, files_pool, &pointer)),
    };
    CHECK(rows);
    close(not_one);
    OK(cu->cuMemPoolDestroy(pool));
    OK(cu->cuMemPoolDestroy(files_pool));
    OK(cu->cuMemRelease(physical));
    OK(cu->cuMemRelease(files));
    OK(cu->cuEventDestroy_v2(plain));
    OK(cu->cuEventDestroy_v2(shared));
    OK(cu->cuMemFree_v2(at));
    OK(cu->cuMemFree_v2(pooled));
    OK(cu->cuMemFree_v2(managed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_devices),  IN_CONTEXT(of_contexts),
        IN_CONTEXT(of_memory),         IN_CONTEXT(of_copies),
        IN_CONTEXT(of_boxes),          IN_CONTEXT(of_arrays),
        IN_CONTEXT(of_streams),        IN_CONTEXT(of_pointers),
        IN_CONTEXT(of_virtual_memory), IN_CONTEXT(of_several_processes),
    };
    setenv("GABLE_LOG", "error", 1);
    return cmocka_run_group_tests(tests, device_setup, NULL);
}

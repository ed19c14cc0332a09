/* Virtual memory management over two proxies: one address space, memory of either device in it. */
#include "tests/e2e/remoting/graph_help.h"

enum { GRAIN = 2 << 20, N = 64 };

static CUmemAllocationProp memory_of(int device)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
}

static CUmemAccessDesc access_of(int device)
{
    return (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, device},
                             CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

/* One reservation holds memory of both devices; each is its own device's. */
static void both_devices_in_one_reservation(void **state)
{
    CUmemGenericAllocationHandle handles[2];
    CUdeviceptr window;
    CUcontext second;
    CUmemAccessDesc access[2] = {access_of(0), access_of(1)};
    uint32_t host[N], n = N;
    OK(cu->cuMemAddressReserve(&window, 4 * GRAIN, 0, 0, 0));
    for (int i = 0; i < 2; i++) {
        CUmemAllocationProp prop = memory_of(i);
        OK(cu->cuMemCreate(&handles[i], GRAIN, &prop, 0));
        OK(cu->cuMemMap(window + (CUdeviceptr)i * GRAIN, GRAIN, 0, handles[i], 0));
        OK(cu->cuMemRelease(handles[i]));
        FAILS(CUDA_ERROR_INVALID_DEVICE,
              cu->cuMemSetAccess(window + (CUdeviceptr)i * GRAIN, GRAIN, &access[!i], 1));
        OK(cu->cuMemSetAccess(window + (CUdeviceptr)i * GRAIN, GRAIN, &access[i], 1));
    }
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemSetAccess(window, 2 * GRAIN, access, 2));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemsetD8_v2(window + GRAIN - 4, 0, 8));
    OK(cu->cuCtxCreate_v2(&second, 0, 1));
    for (uint32_t i = 0; i < 2; i++) {
        CUdeviceptr at = window + i * GRAIN + GRAIN - sizeof(host);
        uint32_t bias = 10 * i;
        void *params[] = {&at, &bias, &n};
        OK(cu->cuCtxSetCurrent(i ? second : *state));
        OK(cu->cuLaunchKernel(kernel("count_up"), 1, 1, 1, N, 1, 1, 0, NULL, params, NULL));
        OK(cu->cuMemcpyDtoH_v2(host, at, sizeof(host)));
        assert_int_equal(host[N - 1], N - 1 + 10 * i);
    }
    OK(cu->cuMemUnmap(window, GRAIN));
    OK(cu->cuMemUnmap(window + GRAIN, GRAIN));
    OK(cu->cuMemAddressFree(window, 4 * GRAIN));
    OK(cu->cuCtxDestroy_v2(second));
    OK(cu->cuCtxSetCurrent(*state));
}

/* A growing array: mappings side by side are one memory for copies, fills, kernels and graphs. */
static void mappings_side_by_side(void **state)
{
    CUmemAllocationProp prop = memory_of(0);
    CUmemAccessDesc access = access_of(0);
    CUdeviceptr window;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    uint32_t got[2];
    (void)state;
    OK(cu->cuMemAddressReserve(&window, (size_t)1 << 30, 0, 0, 0));
    for (CUdeviceptr i = 0; i < 5; i++) {
        CUmemGenericAllocationHandle handle;
        OK(cu->cuMemCreate(&handle, GRAIN, &prop, 0));
        OK(cu->cuMemMap(window + i * GRAIN, GRAIN, 0, handle, 0));
        OK(cu->cuMemSetAccess(window + i * GRAIN, GRAIN, &access, 1));
        OK(cu->cuMemRelease(handle));
    }
    OK(cu->cuMemsetD32_v2(window, 3, 5 * GRAIN / 4));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemsetD32_v2(window, 3, 5 * GRAIN / 4 + 1));
    CUDA_MEMSET_NODE_PARAMS fill = {window + GRAIN - 4, 0, 9, 4, 2, 1};
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, NULL));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuMemcpyDtoH_v2(got, window + GRAIN - 4, 8));
    assert_true(got[0] == 9 && got[1] == 9);
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = window + GRAIN - 4,
                          .srcPitch = GRAIN,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = got,
                          .dstPitch = 4,
                          .WidthInBytes = 4,
                          .Height = 2};
    OK(cu->cuMemcpy2D_v2(&copy));
    assert_true(got[0] == 9 && got[1] == 3);
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuMemUnmap(window, 5 * GRAIN));
    OK(cu->cuMemAddressFree(window, (size_t)1 << 30));
}

/* Access is remembered for each device; copies that the program takes for done end before an unmap. */
static void access_and_unmapping(void **state)
{
    CUmemAllocationProp prop = memory_of(0);
    CUmemAccessDesc access = access_of(0);
    CUmemGenericAllocationHandle handle;
    CUdeviceptr window;
    unsigned long long flags = 77;
    uint8_t *bytes = malloc(4 * GRAIN);
    (void)state;
    memset(bytes, 5, 4 * GRAIN);
    OK(cu->cuMemAddressReserve(&window, 4 * GRAIN, 0, 0, 0));
    OK(cu->cuMemCreate(&handle, 4 * GRAIN, &prop, 0));
    for (int i = 0; i < 20; i++) {
        OK(cu->cuMemMap(window, 4 * GRAIN, 0, handle, 0));
        OK(cu->cuMemGetAccess(&flags, &access.location, window));
        assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
        OK(cu->cuMemSetAccess(window, 4 * GRAIN, &access, 1));
        OK(cu->cuMemGetAccess(&flags, &access.location, window + GRAIN));
        assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        OK(cu->cuMemcpyHtoD_v2(window, bytes, 4 * GRAIN));
        OK(cu->cuMemUnmap(window, 4 * GRAIN));
    }
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemGetAccess(&flags, &access.location, window));
    OK(cu->cuCtxSynchronize()); /* nothing has failed late */
    OK(cu->cuMemRelease(handle));
    OK(cu->cuMemAddressFree(window, 4 * GRAIN));
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cu->cuMemCreate(&handle, GRAIN, &prop, 0));
    free(bytes);
}

/* Memory that is mapped and memory that is allocated come out of one budget, in both directions. */
static void one_budget(void **state)
{
    CUmemAllocationProp prop = memory_of(0);
    CUmemGenericAllocationHandle handle, more;
    CUdeviceptr p;
    size_t left, total;
    (void)state;
    OK(cu->cuMemAlloc_v2(&p, 100 << 20));
    OK(cu->cuMemFree_v2(
        p)); /* kept by the session for the next one, until it is needed elsewhere */
    OK(cu->cuMemCreate(&handle, 200 << 20, &prop, 0));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cu->cuMemCreate(&more, 100 << 20, &prop, 0));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cu->cuMemAlloc_v2(&p, 100 << 20));
    OK(cu->cuMemGetInfo_v2(&left, &total));
    assert_true(left <= total - (200 << 20));
    OK(cu->cuMemRelease(handle));
    OK(cu->cuMemAlloc_v2(&p, 100 << 20));
    OK(cu->cuMemFree_v2(p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(both_devices_in_one_reservation),
        IN_CONTEXT(mappings_side_by_side),
        IN_CONTEXT(access_and_unmapping),
        IN_CONTEXT(one_budget),
    };
    return OVER_TWO_PROXIES(tests);
}

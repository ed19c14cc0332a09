/* Virtual memory management: reserve, create, map, access. */
#include "device_test.h"

enum { GRAIN = 2 << 20 };

static const CUmemAllocationProp pinned = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};
static const CUmemAccessDesc read_write = {
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

static void granularity_is_told(void **state)
{
    size_t grain;
    CUmemAllocationProp other = pinned;
    (void)state;
    OK(cu->cuMemGetAllocationGranularity(&grain, &pinned, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(grain, GRAIN);
    OK(cu->cuMemGetAllocationGranularity(&grain, &pinned, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    other.location.id = 9;
    FAILS(CUDA_ERROR_INVALID_DEVICE,
          cu->cuMemGetAllocationGranularity(&grain, &other, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    other = pinned;
    other.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuMemGetAllocationGranularity(&grain, &other, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

static void reservation_follows_the_hint(void **state)
{
    const CUdeviceptr wanted = 0x7e9000000000;
    CUdeviceptr window, other;
    (void)state;
    OK(cu->cuMemAddressReserve(&window, (size_t)1 << 30, 0, wanted, 0));
    assert_int_equal(window, wanted);
    /* Taken: another place. */
    OK(cu->cuMemAddressReserve(&other, GRAIN, 0, wanted, 0));
    assert_int_not_equal(other, wanted);
    OK(cu->cuMemAddressFree(other, GRAIN));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAddressFree(window, GRAIN));
    OK(cu->cuMemAddressFree(window, (size_t)1 << 30));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAddressFree(window, (size_t)1 << 30));
    OK(cu->cuMemAddressReserve(&window, GRAIN, (size_t)1 << 30, 0, 0));
    assert_int_equal(window % ((size_t)1 << 30), 0);
    OK(cu->cuMemAddressFree(window, GRAIN));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAddressReserve(&window, 1000, 0, 0, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAddressReserve(&window, 0, 0, 0, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAddressReserve(NULL, GRAIN, 0, 0, 0));
}

static void mapped_memory_keeps_its_contents_when_it_moves(void **state)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr window;
    uint32_t value = 0;
    (void)state;
    OK(cu->cuMemAddressReserve(&window, 8 * GRAIN, 0, 0, 0));
    OK(cu->cuMemCreate(&handle, 2 * GRAIN, &pinned, 0));
    OK(cu->cuMemMap(window + GRAIN, 2 * GRAIN, 0, handle, 0));
    OK(cu->cuMemSetAccess(window + GRAIN, 2 * GRAIN, &read_write, 1));
    OK(cu->cuMemsetD32_v2(window + GRAIN, 0xabcd1234, 2 * GRAIN / 4));
    OK(cu->cuCtxSynchronize_v2(NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemUnmap(window + GRAIN, GRAIN));
    OK(cu->cuMemUnmap(window + GRAIN, 2 * GRAIN));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemUnmap(window + GRAIN, 2 * GRAIN));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyDtoH_v2(&value, window + GRAIN, 4));
    OK(cu->cuMemMap(window + 4 * GRAIN, 2 * GRAIN, 0, handle, 0));
    OK(cu->cuMemSetAccess(window + 4 * GRAIN, 2 * GRAIN, &read_write, 1));
    OK(cu->cuMemcpyDtoH_v2(&value, window + 6 * GRAIN - 4, 4));
    assert_int_equal(value, 0xabcd1234);
    /* A released handle lives on in its mapping. */
    OK(cu->cuMemRelease(handle));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemRelease(handle));
    OK(cu->cuMemcpyDtoH_v2(&value, window + 4 * GRAIN, 4));
    assert_int_equal(value, 0xabcd1234);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAddressFree(window, 8 * GRAIN));
    OK(cu->cuMemUnmap(window + 4 * GRAIN, 2 * GRAIN));
    OK(cu->cuMemAddressFree(window, 8 * GRAIN));
}

static void copies_cross_neighbouring_mappings(void **state)
{
    CUmemGenericAllocationHandle handles[3];
    CUdeviceptr window;
    uint8_t *bytes = malloc(3 * GRAIN);
    (void)state;
    OK(cu->cuMemAddressReserve(&window, 3 * GRAIN, 0, 0, 0));
    for (int i = 0; i < 3; i++) {
        OK(cu->cuMemCreate(&handles[i], GRAIN, &pinned, 0));
        OK(cu->cuMemMap(window + (CUdeviceptr)i * GRAIN, GRAIN, 0, handles[i], 0));
        OK(cu->cuMemRelease(handles[i]));
    }
    OK(cu->cuMemSetAccess(window, 3 * GRAIN, &read_write, 1));
    for (int i = 0; i < 3 * GRAIN; i++)
        bytes[i] = (uint8_t)(i >> 12);
    OK(cu->cuMemcpyHtoD_v2(window, bytes, 3 * GRAIN));
    memset(bytes, 0, 3 * GRAIN);
    OK(cu->cuMemcpyDtoH_v2(bytes, window, 3 * GRAIN));
    for (int i = 0; i < 3 * GRAIN; i += 4096)
        assert_int_equal(bytes[i], (uint8_t)(i >> 12));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyDtoH_v2(bytes, window + GRAIN, 3 * GRAIN));
    OK(cu->cuMemUnmap(window, 3 * GRAIN));
    OK(cu->cuMemAddressFree(window, 3 * GRAIN));
    free(bytes);
}

static void wrong_mappings_are_refused(void **state)
{
    CUmemGenericAllocationHandle handle, again;
    CUdeviceptr window;
    (void)state;
    OK(cu->cuMemAddressReserve(&window, 4 * GRAIN, 0, 0, 0));
    OK(cu->cuMemCreate(&handle, 2 * GRAIN, &pinned, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemMap(window + 3 * GRAIN, 2 * GRAIN, 0, handle, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemMap(window + 4096, 2 * GRAIN, 0, handle, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemMap(window, GRAIN, 0, handle, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemMap(window, 2 * GRAIN, 0, 12345, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemSetAccess(window, 2 * GRAIN, &read_write, 1));
    OK(cu->cuMemMap(window, 2 * GRAIN, 0, handle, 0));
    OK(cu->cuMemRetainAllocationHandle(&again, (void *)(window + 100)));
    assert_int_equal(again, handle);
    OK(cu->cuMemRelease(again));
    OK(cu->cuMemRelease(handle));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemRelease(handle));
    OK(cu->cuMemUnmap(window, 2 * GRAIN));
    OK(cu->cuMemAddressFree(window, 4 * GRAIN));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemCreate(&handle, 1000, &pinned, 0));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cu->cuMemCreate(&handle, (size_t)1 << 40, &pinned, 0));
}

static void physical_memory_counts_against_the_limit(void **state)
{
    CUmemGenericAllocationHandle handle, more;
    size_t free_bytes, total;
    (void)state;
    OK(cu->cuMemCreate(&handle, 256 << 20, &pinned, 0));
    OK(cu->cuMemGetInfo_v2(&free_bytes, &total));
    assert_int_equal(free_bytes, 0);
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cu->cuMemCreate(&more, GRAIN, &pinned, 0));
    OK(cu->cuMemRelease(handle));
    OK(cu->cuMemGetInfo_v2(&free_bytes, &total));
    assert_int_equal(free_bytes, total);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(granularity_is_told),
        IN_CONTEXT(reservation_follows_the_hint),
        IN_CONTEXT(mapped_memory_keeps_its_contents_when_it_moves),
        IN_CONTEXT(copies_cross_neighbouring_mappings),
        IN_CONTEXT(wrong_mappings_are_refused),
        IN_CONTEXT(physical_memory_counts_against_the_limit),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}

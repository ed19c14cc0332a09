/* Allocations, host memory, pointer attributes. */
#include "device_test.h"

static void allocations_are_aligned_and_usable(void **state)
{
    CUdeviceptr pointers[64];
    unsigned char seen[4096];
    (void)state;
    for (unsigned i = 0; i < 64; i++) {
        OK(cu->cuMemAlloc_v2(&pointers[i], 1 + i * 61));
        assert_int_equal(pointers[i] % 256, 0);
        OK(cu->cuMemsetD8_v2(pointers[i], (unsigned char)i, 1 + i * 61));
    }
    for (unsigned i = 0; i < 64; i++) {
        OK(cu->cuMemcpyDtoH_v2(seen, pointers[i], 1 + i * 61));
        for (unsigned n = 0; n < 1 + i * 61; n++)
            assert_int_equal(seen[n], i);
        OK(cu->cuMemFree_v2(pointers[i]));
    }
}

static void wrong_frees_are_refused(void **state)
{
    CUdeviceptr pointer;
    int local;
    (void)state;
    OK(cu->cuMemAlloc_v2(&pointer, 1000));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFree_v2(pointer + 256));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFree_v2(pointer + 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFree_v2((CUdeviceptr)&local));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFree_v2(0xdeadbeef));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFree_v2(~0ull));
    OK(cu->cuMemFree_v2(pointer));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFree_v2(pointer));
    OK(cu->cuMemFree_v2(0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAlloc_v2(&pointer, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAlloc_v2(NULL, 10));
}

static void out_of_memory_leaves_everything_usable(void **state)
{
    CUdeviceptr pointers[300], last;
    size_t free_bytes, total, before;
    int count = 0;
    unsigned char byte;
    (void)state;
    OK(cu->cuMemGetInfo_v2(&before, &total));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cu->cuMemAlloc_v2(&last, total + 1));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cu->cuMemAlloc_v2(&last, ~(size_t)0));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cu->cuMemAlloc_v2(&last, (size_t)1 << 50));
    while (count < 300 && cu->cuMemAlloc_v2(&pointers[count], 1 << 20) == CUDA_SUCCESS)
        count++;
    assert_true(count == 256 || (device_is_remote() && count >= 120)); /* pages of 2 MiB there */
    OK(cu->cuMemGetInfo_v2(&free_bytes, &total));
    if (!device_is_remote())
        assert_int_equal(free_bytes, 0);
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cu->cuMemAlloc_v2(&last, device_is_remote() ? 1 << 20 : 1));
    OK(cu->cuMemsetD8_v2(pointers[100], 7, 1 << 20));
    OK(cu->cuMemcpyDtoH_v2(&byte, pointers[100] + 12345, 1));
    assert_int_equal(byte, 7);
    OK(cu->cuMemFree_v2(pointers[3]));
    OK(cu->cuMemAlloc_v2(&pointers[3], 1 << 20));
    while (count)
        OK(cu->cuMemFree_v2(pointers[--count]));
    OK(cu->cuMemGetInfo_v2(&free_bytes, &total));
    assert_int_equal(free_bytes, before);
    /* Nothing is left in pieces. */
    OK(cu->cuMemAlloc_v2(&last, total));
    OK(cu->cuMemFree_v2(last));
}

static void address_range_is_found_from_inside(void **state)
{
    CUdeviceptr pointer, base;
    size_t size;
    (void)state;
    OK(cu->cuMemAlloc_v2(&pointer, 5000));
    OK(cu->cuMemGetAddressRange_v2(&base, &size, pointer + 4999));
    assert_int_equal(base, pointer);
    assert_int_equal(size, 5000);
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuMemGetAddressRange_v2(&base, &size, 0x1000));
    OK(cu->cuMemFree_v2(pointer));
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuMemGetAddressRange_v2(&base, &size, pointer));
}

static void pitched_memory_has_an_aligned_pitch(void **state)
{
    CUdeviceptr pointer;
    size_t pitch;
    (void)state;
    OK(cu->cuMemAllocPitch_v2(&pointer, &pitch, 1000, 7, 4));
    assert_true(pitch >= 1000 && pitch % 256 == 0);
    OK(cu->cuMemFree_v2(pointer));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAllocPitch_v2(&pointer, &pitch, 1000, 7, 3));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY,
          cu->cuMemAllocPitch_v2(&pointer, &pitch, (size_t)1 << 40, (size_t)1 << 40, 4));
}

static void host_memory_is_the_devices_too(void **state)
{
    unsigned char *host;
    CUdeviceptr device;
    unsigned flags;
    (void)state;
    OK(cu->cuMemHostAlloc((void **)&host, 10000, CU_MEMHOSTALLOC_PORTABLE));
    memset(host, 5, 10000);
    OK(cu->cuMemHostGetDevicePointer_v2(&device, host + 100, 0));
    assert_int_equal(device, (CUdeviceptr)host + 100);
    OK(cu->cuMemHostGetFlags(&flags, host));
    assert_true(flags & CU_MEMHOSTALLOC_PORTABLE);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFree_v2((CUdeviceptr)host));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFreeHost(host + 1));
    OK(cu->cuMemFreeHost(host));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFreeHost(host));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemHostAlloc((void **)&host, 0, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemHostAlloc((void **)&host, 10, 0x80));
    OK(cu->cuMemAllocHost_v2((void **)&host, 1));
    OK(cu->cuMemFreeHost(host));
}

static void registered_memory_is_known(void **state)
{
    static char memory[65536];
    CUdeviceptr device;
    (void)state;
    int same, mapped = 0;
    OK(cu->cuDeviceGetAttribute(&same, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
                                0));
    OK(cu->cuDeviceGetAttribute(&mapped, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 0));
    assert_true(device_is_remote() || (same && mapped));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemHostGetDevicePointer_v2(&device, memory, 0));
    OK(cu->cuMemHostRegister_v2(memory, sizeof(memory), 0));
    FAILS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
          cu->cuMemHostRegister_v2(memory + 4096, 4096, 0));
    if (mapped)
        OK(cu->cuMemHostGetDevicePointer_v2(&device, memory + 5, 0));
    if (same)
        assert_int_equal(device, (CUdeviceptr)memory + 5);
    FAILS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cu->cuMemHostUnregister(memory + 5));
    OK(cu->cuMemHostUnregister(memory));
    FAILS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cu->cuMemHostUnregister(memory));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemHostRegister_v2(NULL, 10, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemHostRegister_v2(memory, 0, 0));
}

static void pointers_tell_their_attributes(void **state)
{
    CUdeviceptr device, address;
    void *host;
    unsigned type, managed;
    int ordinal, local;
    size_t size;
    CUcontext context;
    unsigned long long id;
    OK(cu->cuMemAlloc_v2(&device, 777));
    OK(cu->cuMemHostAlloc(&host, 888, 0));
    OK(cu->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 5));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    OK(cu->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)host));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    OK(cu->cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, device));
    assert_ptr_equal(context, *state);
    OK(cu->cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, device));
    assert_int_equal(ordinal, 0);
    OK(cu->cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, device + 700));
    assert_int_equal(address, device);
    OK(cu->cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, device));
    assert_int_equal(size, 777);
    OK(cu->cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, device));
    assert_true(id != 0);
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_HOST_POINTER, device));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)&local));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuPointerGetAttribute(&type, (CUpointer_attribute)99, device));
    /* The list form never fails on a foreign pointer: it clears. */
    CUpointer_attribute list[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                  CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *values[] = {&type, &ordinal, &managed};
    OK(cu->cuPointerGetAttributes(3, list, values, (CUdeviceptr)&local));
    assert_int_equal(type, 0);
    assert_int_equal(ordinal, -2);
    OK(cu->cuPointerGetAttributes(3, list, values, device));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    assert_int_equal(managed, 0);
    OK(cu->cuMemFree_v2(device));
    OK(cu->cuMemFreeHost(host));
}

static void managed_memory_is_read_by_the_host(void **state)
{
    CUdeviceptr pointer;
    unsigned managed;
    (void)state;
    OK(cu->cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL));
    OK(cu->cuMemsetD32_v2(pointer, 0x01020304, 1024));
    OK(cu->cuCtxSynchronize_v2(NULL));
    assert_int_equal(((uint32_t *)pointer)[1023], 0x01020304);
    OK(cu->cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer));
    assert_int_equal(managed, 1);
    OK(cu->cuMemFree_v2(pointer));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAllocManaged(&pointer, 10, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(allocations_are_aligned_and_usable),
        IN_CONTEXT(wrong_frees_are_refused),
        IN_CONTEXT(out_of_memory_leaves_everything_usable),
        IN_CONTEXT(address_range_is_found_from_inside),
        IN_CONTEXT(pitched_memory_has_an_aligned_pitch),
        IN_CONTEXT(host_memory_is_the_devices_too),
        IN_CONTEXT(registered_memory_is_known),
        IN_CONTEXT(pointers_tell_their_attributes),
        IN_CONTEXT(managed_memory_is_read_by_the_host),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}

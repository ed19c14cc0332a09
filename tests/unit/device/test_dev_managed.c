/* Managed variables: the program and kernels of all devices use them at the same addresses. */
#include "device_test.h"

#include <stdio.h>

static const char source[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .attribute(.managed) .align 4 .u32 total = 7;\n"
    ".visible .global .attribute(.managed) .align 8 .b8 room[20000];\n"
    ".visible .global .align 4 .u32 private = 5;\n"
    ".visible .global .attribute(.managed) .align 8 .u64 where = generic(private);\n"
    /* total += private, from every thread */
    ".visible .entry add()\n{\n    .reg .u32 %r<2>;\n"
    "    ld.global.u32 %r1, [private];\n    red.global.add.u32 [total], %r1;\n    ret;\n}\n"
    /* room[4 * i] = total + i */
    ".visible .entry fill()\n{\n    .reg .u32 %r<4>;\n    .reg .u64 %rd<4>;\n"
    "    ld.global.u32 %r1, [total];\n    mov.u32 %r2, %tid.x;\n    add.u32 %r3, %r1, %r2;\n"
    "    mov.u64 %rd1, room;\n    mul.wide.u32 %rd2, %r2, 4;\n    add.u64 %rd3, %rd1, %rd2;\n"
    "    st.global.u32 [%rd3], %r3;\n    ret;\n}\n";

static void launch(CUfunction function, unsigned threads)
{
    OK(cu->cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, NULL, NULL, NULL));
}

static CUfunction kernel_of(CUlibrary library, const char *name)
{
    CUkernel kernel;
    OK(cu->cuLibraryGetKernel(&kernel, library, name));
    return (CUfunction)kernel;
}

static void *variable(CUlibrary library, const char *name, size_t expected)
{
    CUdeviceptr at;
    size_t bytes;
    OK(cu->cuLibraryGetManaged(&at, &bytes, library, name));
    assert_int_equal(bytes, expected);
    return (void *)at;
}

static void program_and_kernels_share_them(void **state)
{
    CUlibrary library;
    CUdeviceptr private;
    size_t bytes;
    (void)state;
    OK(cu->cuLibraryLoadData(&library, source, NULL, NULL, 0, NULL, NULL, 0));
    CUfunction add = kernel_of(library, "add"), fill = kernel_of(library, "fill");
    launch(add, 3); /* before the program has asked for one */
    OK(cu->cuCtxSynchronize());
    volatile uint32_t *total = variable(library, "total", 4),
                      *room = variable(library, "room", 20000);
    assert_int_equal(*total, 7 + 3 * 5);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(room[i], 0);
    *total = 100;
    room[4999] = 77;
    launch(add, 2);
    launch(fill, 64);
    OK(cu->cuCtxSynchronize());
    assert_int_equal(*total, 110);
    for (int i = 0; i < 64; i++)
        assert_int_equal(room[i], 110 + i);
    assert_int_equal(room[4999], 77);
    /* Addresses of other variables in them. */
    OK(cu->cuLibraryGetGlobal(&private, &bytes, library, "private"));
    assert_int_equal(*(uint64_t *)variable(library, "where", 8), private);
    /* Copies and fills reach them as they reach any memory. */
    uint32_t word = 41;
    OK(cu->cuMemcpyHtoD_v2((CUdeviceptr)total, &word, 4));
    OK(cu->cuCtxSynchronize());
    assert_int_equal(*total, 41);
    OK(cu->cuMemsetD32_v2((CUdeviceptr)total, 42, 1));
    OK(cu->cuCtxSynchronize());
    assert_int_equal(*total, 42);
    OK(cu->cuMemcpyDtoH_v2(&word, (CUdeviceptr)total, 4));
    assert_int_equal(word, 42);
    OK(cu->cuMemcpyDtoD_v2((CUdeviceptr)(room + 200), (CUdeviceptr)room, 16));
    OK(cu->cuCtxSynchronize());
    assert_int_equal(room[203], 113);
    OK(cu->cuLibraryUnload(library));
}

static void they_are_managed_memory(void **state)
{
    CUlibrary library;
    CUdeviceptr at;
    size_t bytes;
    unsigned managed = 0, type = 0;
    void *host = NULL;
    int location = 0;
    (void)state;
    OK(cu->cuLibraryLoadData(&library, source, NULL, NULL, 0, NULL, NULL, 0));
    at = (CUdeviceptr)variable(library, "room", 20000);
    OK(cu->cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at + 100));
    OK(cu->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    OK(cu->cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at));
    assert_int_equal(managed, 1);
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    assert_ptr_equal(host, at);
    CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    OK(cu->cuMemPrefetchAsync_v2(at, 20000, device, 0, NULL));
    OK(cu->cuMemAdvise_v2(at, 20000, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
    OK(cu->cuMemRangeGetAttribute(&location, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at,
                                  20000));
    assert_int_equal(location, 0);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFree_v2(at)); /* the library's own */
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuLibraryGetManaged(&at, &bytes, library, "private"));
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuLibraryGetManaged(&at, &bytes, library, "missing"));
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuLibraryGetGlobal(&at, &bytes, library, "total"));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuLibraryGetManaged(&at, &bytes, library, NULL));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuLibraryGetManaged(&at, &bytes, NULL, "total"));
    OK(cu->cuLibraryUnload(library));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, (CUdeviceptr)host));
}

/* Those of a module are its own. */
static void modules_have_their_own(void **state)
{
    CUmodule modules[2];
    CUfunction add;
    CUdeviceptr at[2];
    size_t bytes;
    (void)state;
    for (int i = 0; i < 2; i++) {
        OK(cu->cuModuleLoadData(&modules[i], source));
        OK(cu->cuModuleGetGlobal_v2(&at[i], &bytes, modules[i], "total"));
        assert_int_equal(bytes, 4);
    }
    assert_true(at[0] != at[1]);
    *(volatile uint32_t *)at[0] = 1000;
    for (int i = 0; i < 2; i++) {
        OK(cu->cuModuleGetFunction(&add, modules[i], "add"));
        launch(add, 1);
    }
    OK(cu->cuCtxSynchronize());
    assert_int_equal(*(volatile uint32_t *)at[0], 1005);
    assert_int_equal(*(volatile uint32_t *)at[1], 12);
    OK(cu->cuModuleUnload(modules[0]));
    assert_int_equal(*(volatile uint32_t *)at[1], 12);
    OK(cu->cuModuleUnload(modules[1]));
}

/* Many loads leave nothing behind. */
static void memory_is_given_back(void **state)
{
    size_t before, after, total;
    (void)state;
    OK(cu->cuMemGetInfo_v2(&before, &total));
    for (int i = 0; i < 20; i++) {
        CUlibrary library;
        OK(cu->cuLibraryLoadData(&library, source, NULL, NULL, 0, NULL, NULL, 0));
        *(volatile uint32_t *)variable(library, "total", 4) = 3;
        OK(cu->cuLibraryUnload(library));
    }
    OK(cu->cuCtxSynchronize());
    OK(cu->cuMemGetInfo_v2(&after, &total));
    assert_int_equal(after, before);
}

/* All devices have the same ones in process; elsewhere they belong to the device that they were asked for
 * on, and another one refuses. */
static void all_devices_have_the_same(void **state)
{
    CUlibrary library;
    CUcontext other;
    CUdeviceptr again;
    size_t bytes;
    int devices;
    OK(cu->cuDeviceGetCount(&devices));
    if (devices < 2)
        skip();
    OK(cu->cuLibraryLoadData(&library, source, NULL, NULL, 0, NULL, NULL, 0));
    CUfunction add = kernel_of(library, "add");
    volatile uint32_t *total = variable(library, "total", 4);
    launch(add, 1);
    OK(cu->cuCtxSynchronize());
    OK(cu->cuCtxCreate_v2(&other, 0, 1));
    OK(cu->cuLibraryGetManaged(&again, &bytes, library, "total"));
    assert_int_equal(again, (CUdeviceptr)total);
    CUresult result = cu->cuLaunchKernel(add, 1, 1, 1, 2, 1, 1, 0, NULL, NULL, NULL);
    assert_int_equal(result, device_is_remote() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS);
    OK(cu->cuCtxSynchronize());
    OK(cu->cuCtxDestroy_v2(other));
    assert_int_equal(*total, device_is_remote() ? 12 : 22);
    OK(cu->cuCtxSetCurrent(*state));
    launch(add, 1);
    OK(cu->cuCtxSynchronize());
    assert_int_equal(*total, device_is_remote() ? 17 : 27);
    OK(cu->cuLibraryUnload(library));
}

/* In process they outlive the context: another one goes on with them. */
static void a_context_goes(void **state)
{
    CUlibrary library;
    CUcontext first;
    CUdeviceptr again;
    size_t bytes;
    if (device_is_remote())
        skip();
    OK(cu->cuCtxCreate_v2(&first, 0, 0));
    OK(cu->cuLibraryLoadData(&library, source, NULL, NULL, 0, NULL, NULL, 0));
    volatile uint32_t *total = variable(library, "total", 4);
    launch(kernel_of(library, "add"), 1);
    OK(cu->cuCtxSynchronize());
    OK(cu->cuCtxDestroy_v2(first));
    OK(cu->cuCtxSetCurrent(*state));
    assert_int_equal(*total, 12);
    launch(kernel_of(library, "add"), 1);
    OK(cu->cuCtxSynchronize());
    OK(cu->cuLibraryGetManaged(&again, &bytes, library, "total"));
    assert_int_equal(again, (CUdeviceptr)total);
    assert_int_equal(*total, 17);
    OK(cu->cuLibraryUnload(library));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(program_and_kernels_share_them), IN_CONTEXT(they_are_managed_memory),
        IN_CONTEXT(modules_have_their_own),         IN_CONTEXT(memory_is_given_back),
        IN_CONTEXT(all_devices_have_the_same),      IN_CONTEXT(a_context_goes),
    };
    setenv("GABLE_CPU_DEVICES", "2", 0);
    return cmocka_run_group_tests(tests, device_setup, NULL);
}

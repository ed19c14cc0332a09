/* Modules, libraries, kernels and their attributes. */
#include "device_test.h"

#include <stdio.h>
#include <unistd.h>

static const char text[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .global .align 4 .u32 counter = 41;\n"
    ".visible .const .align 8 .f64 ratio = 0d3FE0000000000000;\n"
    ".visible .global .align 8 .u64 where[2] = {counter, generic(counter)};\n"
    ".visible .global .align 16 .b8 room[100];\n"
    ".visible .entry one(.param .u64 p, .param .u32 n,\n"
    "    .param .align 8 .b8 s[24])\n"
    "{\n"
    "    .shared .align 4 .b8 buffer[512];\n"
    "    .reg .u32 %r<3>;\n"
    "    mov.u32 %r1, buffer;\n"
    "    st.shared.u32 [%r1], %r1;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry two() .maxntid 128, 2, 1\n"
    "{\n"
    "    ret;\n"
    "}\n";

static CUmodule module;
static CUfunction one, two;

static int module_setup(void **state)
{
    if (context_setup(state))
        return -1;
    return cu->cuModuleLoadData(&module, text) || cu->cuModuleGetFunction(&one, module, "one") ||
           cu->cuModuleGetFunction(&two, module, "two");
}

static void functions_are_found_by_name(void **state)
{
    CUfunction again;
    CUmodule back;
    const char *name;
    unsigned count;
    CUfunction all[4] = {0};
    (void)state;
    OK(cu->cuModuleGetFunction(&again, module, "one"));
    assert_ptr_equal(again, one);
    assert_ptr_not_equal(two, one);
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuModuleGetFunction(&again, module, "three"));
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuModuleGetFunction(&again, module, "counter"));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuModuleGetFunction(NULL, module, "one"));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuModuleGetFunction(&again, module, NULL));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuModuleGetFunction(&again, (CUmodule)one, "one"));
    OK(cu->cuFuncGetName(&name, one));
    assert_string_equal(name, "one");
    OK(cu->cuFuncGetModule(&back, two));
    assert_ptr_equal(back, module);
    OK(cu->cuModuleGetFunctionCount(&count, module));
    assert_int_equal(count, 2);
    OK(cu->cuModuleEnumerateFunctions(all, 4, module));
    assert_true((all[0] == one && all[1] == two) || (all[0] == two && all[1] == one));
}

static void parameters_have_their_layout(void **state)
{
    size_t offset, size;
    (void)state;
    OK(cu->cuFuncGetParamInfo(one, 0, &offset, &size));
    assert_int_equal(offset, 0);
    assert_int_equal(size, 8);
    OK(cu->cuFuncGetParamInfo(one, 1, &offset, &size));
    assert_int_equal(offset, 8);
    assert_int_equal(size, 4);
    OK(cu->cuFuncGetParamInfo(one, 2, &offset, &size));
    assert_int_equal(offset, 16);
    assert_int_equal(size, 24);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuFuncGetParamInfo(one, 3, &offset, &size));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuFuncGetParamInfo(two, 0, &offset, &size));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuFuncGetParamInfo((CUfunction)7, 0, &offset, &size));
}

static void variables_are_initialised_and_addressable(void **state)
{
    CUdeviceptr at, counter;
    size_t bytes;
    uint32_t value = 0;
    double ratio = 0;
    uint64_t where[2] = {0};
    uint8_t room[100];
    (void)state;
    OK(cu->cuModuleGetGlobal_v2(&counter, &bytes, module, "counter"));
    assert_int_equal(bytes, 4);
    OK(cu->cuMemcpyDtoH_v2(&value, counter, 4));
    assert_int_equal(value, 41);
    OK(cu->cuModuleGetGlobal_v2(&at, &bytes, module, "ratio"));
    OK(cu->cuMemcpyDtoH_v2(&ratio, at, 8));
    assert_true(ratio == 0.5);
    OK(cu->cuModuleGetGlobal_v2(&at, NULL, module, "where"));
    OK(cu->cuMemcpyDtoH_v2(where, at, 16));
    assert_int_equal(where[0], counter);
    assert_int_equal(where[1], counter);
    OK(cu->cuModuleGetGlobal_v2(&at, &bytes, module, "room"));
    assert_int_equal(at % 16, 0);
    assert_int_equal(bytes, 100);
    OK(cu->cuMemcpyDtoH_v2(room, at, 100));
    for (int i = 0; i < 100; i++)
        assert_int_equal(room[i], 0);
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuModuleGetGlobal_v2(&at, &bytes, module, "one"));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFree_v2(counter));
}

static void attributes_are_told_and_set(void **state)
{
    int value;
    (void)state;
    OK(cu->cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, one));
    assert_int_equal(value, 512);
    OK(cu->cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, one));
    assert_int_equal(value, 1024);
    OK(cu->cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, two));
    assert_int_equal(value, 256);
    OK(cu->cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_PTX_VERSION, one));
    assert_int_equal(value, 70);
    OK(cu->cuFuncSetAttribute(one, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
    OK(cu->cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, one));
    assert_int_equal(value, 100000);
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuFuncSetAttribute(one, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuFuncSetAttribute(one, CU_FUNC_ATTRIBUTE_NUM_REGS, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX, one));
    OK(cu->cuFuncSetCacheConfig(one, CU_FUNC_CACHE_PREFER_SHARED));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuFuncSetCacheConfig(one, (CUfunc_cache)17));
}

static size_t shared_for(int block)
{
    return (size_t)block * 1024;
}

static void occupancy_counts_blocks_under_way(void **state)
{
    int blocks, grid, block;
    size_t bytes;
    (void)state;
    /* by threads, by blocks, by shared memory (512 bytes are its own) */
    OK(cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, one, 256, 0));
    assert_int_equal(blocks, 8);
    OK(cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, one, 33, 0));
    assert_int_equal(blocks, 32);
    OK(cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, one, 64, 40 << 10));
    assert_int_equal(blocks, 4);
    OK(cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, two, 512, 0));
    assert_int_equal(blocks, 0);
    OK(cu->cuOccupancyMaxPotentialBlockSize(&grid, &block, two, NULL, 0, 0));
    assert_int_equal(grid, 16);
    assert_int_equal(block, 256);
    OK(cu->cuOccupancyMaxPotentialBlockSize(&grid, &block, one, shared_for, 0, 0));
    assert_true(block > 0 && block * 1024 + 512 <= 163 << 10);
    OK(cu->cuOccupancyAvailableDynamicSMemPerBlock(&bytes, one, 1, 128));
    assert_int_equal(bytes, (163 << 10) - 512);
    OK(cu->cuOccupancyAvailableDynamicSMemPerBlock(&bytes, one, 4, 128));
    assert_int_equal(bytes, (41 << 10) - 512);
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuOccupancyAvailableDynamicSMemPerBlock(&bytes, one, 33, 32));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, one, 0, 0));
}

/* A cluster is a block: what a launch takes is what is counted. */
static void clusters_have_one_block(void **state)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                   .value.clusterDim = {1, 1, 1}};
    CUlaunchConfig config = {8, 1, 1, 64, 4, 1, 0, NULL, &attribute, 1};
    CUcontext other;
    int size, clusters, blocks, cores, has;
    (void)state;
    OK(cu->cuDeviceGetAttribute(&cores, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    OK(cu->cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0));
    assert_int_equal(has, 0);
    OK(cu->cuOccupancyMaxPotentialClusterSize(&size, one, &config));
    assert_int_equal(size, 1);
    OK(cu->cuOccupancyMaxActiveClusters(&clusters, one, &config));
    OK(cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, one, 256, 0));
    assert_int_equal(clusters, cores * blocks);
    config.sharedMemBytes = 40 << 10;
    OK(cu->cuOccupancyMaxActiveClusters(&clusters, one, &config));
    assert_int_equal(clusters, cores * 4);
    config.sharedMemBytes = 1 << 20; /* no room for even one */
    OK(cu->cuOccupancyMaxPotentialClusterSize(&size, one, &config));
    assert_int_equal(size, 0);
    OK(cu->cuOccupancyMaxActiveClusters(&clusters, one, &config));
    assert_int_equal(clusters, 0);
    /* The stream's context counts. */
    config.sharedMemBytes = 0;
    OK(cu->cuStreamCreate(&config.hStream, 0));
    OK(cu->cuCtxCreate_v2(&other, 0, 0));
    OK(cu->cuOccupancyMaxPotentialClusterSize(&size, one, &config));
    assert_int_equal(size, 1);
    CUcontext current;
    OK(cu->cuCtxGetCurrent(&current));
    assert_ptr_equal(current, other);
    OK(cu->cuCtxDestroy_v2(other));
    OK(cu->cuStreamDestroy_v2(config.hStream));
}

static void unloading_ends_the_handles(void **state)
{
    CUfunction function;
    CUdeviceptr at;
    size_t before, after, total;
    int value;
    (void)state;
    OK(cu->cuMemGetInfo_v2(&before, &total));
    OK(cu->cuModuleGetGlobal_v2(&at, NULL, module, "counter"));
    OK(cu->cuModuleUnload(module));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuModuleUnload(module));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuModuleGetFunction(&function, module, "one"));
    FAILS(CUDA_ERROR_INVALID_HANDLE,
          cu->cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, one));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyDtoH_v2(&value, at, 4));
    OK(cu->cuMemGetInfo_v2(&after, &total));
    assert_true(after > before);
}

static void bad_images_say_why(void **state)
{
    CUmodule bad;
    char log[512];
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_OPTIMIZATION_LEVEL};
    void *values[] = {log, (void *)sizeof(log), (void *)4};
    static const char elf[64] = "\177ELF\2\1\1";
    (void)state;
    FAILS(CUDA_ERROR_INVALID_PTX,
          cu->cuModuleLoadDataEx(&bad,
                                 ".version 7.0\n.target sm_70\n.address_size 64\n"
                                 ".visible .entry k()\n{\n  frobnicate.u32 %r1;\n  ret;\n}\n",
                                 3, options, values));
    assert_non_null(strstr(log, "frobnicate"));
    assert_non_null(strstr(log, "6"));
    assert_int_equal((size_t)values[1], strlen(log) + 1);
    /* Right, but not done here: opcode and line are named. */
    values[1] = (void *)sizeof(log);
    FAILS(CUDA_ERROR_INVALID_PTX,
          cu->cuModuleLoadDataEx(
              &bad,
              ".version 7.0\n.target sm_70\n.address_size 64\n"
              ".visible .global .texref image;\n.visible .entry k()\n{\n"
              "  .reg .f32 %f<6>;\n  .reg .b32 %r<2>;\n"
              "  tex.2dms.v4.f32.s32 {%f1, %f2, %f3, %f4}, [image, {%r1, %r1, %r1, %r1}];\n"
              "  ret;\n}\n",
              3, options, values));
    assert_non_null(strstr(log, "tex.2dms"));
    assert_non_null(strstr(log, "9"));
    FAILS(CUDA_ERROR_INVALID_PTX, cu->cuModuleLoadData(&bad, "int main(void) { return 0; }"));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuModuleLoadData(&bad, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuModuleLoadData(NULL, text));
    FAILS(CUDA_ERROR_NO_BINARY_FOR_GPU, cu->cuModuleLoadData(&bad, elf));
    FAILS(CUDA_ERROR_INVALID_PTX,
          cu->cuModuleLoadData(&bad, ".version 7.0\n.target sm_70\n.address_size 64\n"
                                     ".extern .global .u32 elsewhere;\n"));
}

static void modules_come_from_files(void **state)
{
    char path[] = "/tmp/gable-module-XXXXXX";
    CUmodule loaded;
    CUfunction function;
    (void)state;
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, sizeof(text) - 1), sizeof(text) - 1);
    close(file);
    OK(cu->cuModuleLoad(&loaded, path));
    OK(cu->cuModuleGetFunction(&function, loaded, "two"));
    OK(cu->cuModuleUnload(loaded));
    unlink(path);
    FAILS(CUDA_ERROR_FILE_NOT_FOUND, cu->cuModuleLoad(&loaded, path));
}

static void libraries_work_in_every_context(void **state)
{
    CUlibrary library, back;
    CUkernel kernel, again, all[3] = {0};
    CUfunction here, there;
    CUcontext other;
    CUdeviceptr a, b;
    CUmodule inside;
    const char *name;
    unsigned count;
    size_t offset, size;
    int value;
    (void)state;
    OK(cu->cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    OK(cu->cuLibraryGetKernel(&kernel, library, "one"));
    OK(cu->cuLibraryGetKernel(&again, library, "one"));
    assert_ptr_equal(kernel, again);
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuLibraryGetKernel(&again, library, "none"));
    OK(cu->cuLibraryGetKernelCount(&count, library));
    assert_int_equal(count, 2);
    OK(cu->cuLibraryEnumerateKernels(all, 3, library));
    assert_true(all[0] && all[1] && !all[2]);
    OK(cu->cuKernelGetLibrary(&back, kernel));
    assert_ptr_equal(back, library);
    OK(cu->cuKernelGetName(&name, kernel));
    assert_string_equal(name, "one");
    OK(cu->cuKernelGetParamInfo(kernel, 2, &offset, &size));
    assert_int_equal(size, 24);
    OK(cu->cuKernelGetFunction(&here, kernel));
    OK(cu->cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel, 0));
    assert_int_equal(value, 512);
    /* A kernel may stand where a function is expected. */
    OK(cu->cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, (CUfunction)kernel));
    OK(cu->cuLibraryGetGlobal(&a, NULL, library, "counter"));
    OK(cu->cuLibraryGetModule(&inside, library));
    OK(cu->cuCtxCreate_v2(&other, 0, 0));
    OK(cu->cuKernelGetFunction(&there, kernel));
    assert_ptr_not_equal(here, there);
    OK(cu->cuLibraryGetGlobal(&b, NULL, library, "counter"));
    assert_int_not_equal(a, b);
    OK(cu->cuCtxDestroy_v2(other));
    OK(cu->cuLibraryUnload(library));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuLibraryUnload(library));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuKernelGetFunction(&here, kernel));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuLibraryGetKernel(&kernel, library, "one"));
}

int main(void)
{
#define IN_MODULE(test) cmocka_unit_test_setup_teardown(test, module_setup, context_teardown)
    const struct CMUnitTest tests[] = {
        IN_MODULE(functions_are_found_by_name),
        IN_MODULE(parameters_have_their_layout),
        IN_MODULE(variables_are_initialised_and_addressable),
        IN_MODULE(attributes_are_told_and_set),
        IN_MODULE(occupancy_counts_blocks_under_way),
        IN_MODULE(clusters_have_one_block),
        IN_MODULE(unloading_ends_the_handles),
        IN_MODULE(bad_images_say_why),
        IN_MODULE(modules_come_from_files),
        IN_MODULE(libraries_work_in_every_context),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}

/* cuGetProcAddress, default definitions and identity, on the shim as a loaded library. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <string.h>

#include "common/cuda/gb_cuda_error.h"
#include "common/cuda/gb_driver.h"
#include "common/cuda/gb_exchange_abi.h"

static const gb_driver_t *driver;
static void *library;

static int load(void **state)
{
    (void)state;
    library = dlopen(GABLE_BUILD_DIR "/lib/gable/remote/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return library == NULL ||
           gb_driver_open(GABLE_BUILD_DIR "/lib/gable/remote/libcuda.so.1", &driver) != GB_OK;
}

static void *resolve(const char *name, int version, uint64_t flags, int *status)
{
    void *address = (void *)1;
    CUdriverProcAddressQueryResult found = 99;
    assert_int_equal(driver->table.cuGetProcAddress_v2(name, &address, version, flags, &found), 0);
    *status = (int)found;
    return address;
}

static void versions(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int version;
        uint64_t flags;
        const char *symbol; /* NULL: not found */
        int status;
    } cases[] = {
        {"cuMemAlloc", 3010, 0, "cuMemAlloc", 0},
        {"cuMemAlloc", 3020, 0, "cuMemAlloc_v2", 0},
        {"cuMemAlloc", 13000, 0, "cuMemAlloc_v2", 0},
        {"cuMemcpy", 13000, 0, "cuMemcpy", 0},
        {"cuMemcpy", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, "cuMemcpy_ptds", 0},
        {"cuMemcpy", 4000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, "cuMemcpy", 0},
        {"cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, "cuLaunchKernel", 0},
        {"cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
         "cuLaunchKernel_ptsz", 0},
        {"cuCtxCreate", 11000, 0, "cuCtxCreate_v2", 0},
        {"cuCtxCreate", 12000, 0, "cuCtxCreate_v3", 0},
        {"cuCtxCreate", 13000, 0, "cuCtxCreate_v4", 0},
        {"cuCtxSynchronize", 12080, 0, "cuCtxSynchronize", 0},
        {"cuCtxSynchronize", 13000, 0, "cuCtxSynchronize_v2", 0},
        {"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2", 0},
        {"cuLaunchKernelEx", 11000, 0, NULL, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT},
        {"cuMemAlloc_v2", 13000, 0, NULL, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
        {"cuNothing", 13000, 0, NULL, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
        {"", 13000, 0, NULL, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int status;
        void *got = resolve(cases[i].name, cases[i].version, cases[i].flags, &status);
        void *want = cases[i].symbol ? dlsym(library, cases[i].symbol) : NULL;
        assert_true(!cases[i].symbol || want);
        if (got != want || status != cases[i].status)
            fail_msg("%s %d: status %d", cases[i].name, cases[i].version, status);
    }
}

static void bad_arguments(void **state)
{
    (void)state;
    void *address;
    CUdriverProcAddressQueryResult found;
    const gb_cuda_table_t *c = &driver->table;
    assert_int_equal(c->cuGetProcAddress_v2(NULL, &address, 13000, 0, &found), 1);
    assert_int_equal(c->cuGetProcAddress_v2("cuInit", NULL, 13000, 0, &found), 1);
    assert_int_equal(c->cuGetProcAddress_v2("cuInit", &address, 99000, 0, &found), 1);
    assert_int_equal(c->cuGetProcAddress_v2("cuInit", &address, 13000, 0, NULL), 0);
    assert_int_equal(c->cuGetProcAddress("cuNothing", &address, 13000, 0), CUDA_ERROR_NOT_FOUND);
}

static void what_is_not_done(void **state)
{
    (void)state;
    CUresult (*graphics)(void) = (CUresult(*)(void))dlsym(library, "cuGraphicsMapResources");
    assert_non_null(graphics);
    assert_int_equal(graphics(), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(driver->table.cuMemMapArrayAsync(NULL, 0, NULL), CUDA_ERROR_NOT_SUPPORTED);
}

static void before_init(void **state)
{
    (void)state;
    int count;
    CUdeviceptr address;
    assert_int_equal(driver->table.cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(driver->table.cuMemAlloc_v2(&address, 16), CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(driver->table.cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

/* NVIDIA's authentication table is neither offered nor relayed. */
static void export_tables(void **state)
{
    (void)state;
    static const CUuuid theirs = {{(char)0xd4, (char)0x08, 0x20, 0x55, (char)0xbd, (char)0xe6, 0x70,
                                   0x4b, (char)0x8d, 0x34, (char)0xba, 0x12, 0x3c, 0x66, (char)0xe1,
                                   (char)0xf2}};
    const void *table = NULL;
    assert_int_equal(driver->table.cuGetExportTable(&table, &theirs), CUDA_ERROR_INVALID_VALUE);
    assert_null(table);
    assert_int_equal(driver->table.cuGetExportTable(&table, &gb_exchange_uuid), 0);
    assert_int_equal(((const gb_exchange_table_t *)table)->version, 1);
    assert_int_equal(driver->table.cuGetExportTable(NULL, &gb_exchange_uuid), 1);
    assert_int_equal(driver->kind, GB_DRIVER_REMOTE);
    assert_string_equal(driver->kind_name, "gable-remote");
}

static void error_texts(void **state)
{
    (void)state;
    const char *text = NULL;
    assert_int_equal(driver->table.cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text), 0);
    assert_string_equal(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_int_equal(driver->table.cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text), 0);
    assert_string_equal(text, "invalid argument");
    assert_int_equal(driver->table.cuGetErrorName((CUresult)12345, &text), 1);
    assert_null(text);
    assert_int_equal(driver->table.cuGetErrorName(CUDA_SUCCESS, NULL), 1);
    assert_true(gb_cuda_error_sticks(CUDA_ERROR_ILLEGAL_ADDRESS));
    assert_false(gb_cuda_error_sticks(CUDA_ERROR_INVALID_VALUE));
}

static void no_driver_there(void **state)
{
    (void)state;
    const gb_driver_t *none;
    assert_int_equal(gb_driver_open("/nonexistent/libcuda.so.1", &none), GB_ERR_NOT_FOUND);
    assert_int_equal(gb_driver_open("libm.so.6", &none), GB_ERR_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions),         cmocka_unit_test(bad_arguments),
        cmocka_unit_test(what_is_not_done), cmocka_unit_test(before_init),
        cmocka_unit_test(export_tables),    cmocka_unit_test(error_texts),
        cmocka_unit_test(no_driver_there),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}

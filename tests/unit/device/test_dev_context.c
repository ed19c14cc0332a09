/* Devices, primary contexts, contexts and the per-thread stack. */
#include "device_test.h"

#include <pthread.h>

static void device_tells_what_it_is(void **state)
{
    int count, value, major, minor;
    char name[256];
    CUuuid uuid, again;
    CUdevice device;
    size_t bytes;
    (void)state;
    OK(cu->cuDeviceGetCount(&count));
    assert_int_equal(count, 1);
    OK(cu->cuDeviceGet(&device, 0));
    FAILS(CUDA_ERROR_INVALID_DEVICE, cu->cuDeviceGet(&device, 1));
    FAILS(CUDA_ERROR_INVALID_DEVICE, cu->cuDeviceGet(&device, -1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuDeviceGet(NULL, 0));
    OK(cu->cuDeviceGetName(name, sizeof(name), 0));
    assert_non_null(strstr(name, "Gable CPU device ("));
    assert_non_null(strstr(name, "2 cores)"));
    OK(cu->cuDeviceGetName(name, 6, 0));
    assert_string_equal(name, "Gable");
    OK(cu->cuDeviceGetUuid_v2(&uuid, 0));
    OK(cu->cuDeviceGetUuid_v2(&again, 0));
    assert_memory_equal(&uuid, &again, sizeof(uuid));
    OK(cu->cuDeviceTotalMem_v2(&bytes, 0));
    assert_int_equal(bytes, 256 << 20);
    OK(cu->cuDeviceComputeCapability(&major, &minor, 0));
    assert_true(major >= 7);
    OK(cu->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    assert_int_equal(value, 32);
    OK(cu->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    assert_int_equal(value, 2);
    OK(cu->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 0));
    assert_int_equal(value, 0);
    for (int a = 1; a < CU_DEVICE_ATTRIBUTE_MAX; a++)
        OK(cu->cuDeviceGetAttribute(&value, (CUdevice_attribute)a, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuDeviceGetAttribute(&value, (CUdevice_attribute)0, 0));
    FAILS(CUDA_ERROR_INVALID_DEVICE,
          cu->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 7));
}

static void pci_ids_lead_back(void **state)
{
    char id[32];
    CUdevice device = -1;
    (void)state;
    OK(cu->cuDeviceGetPCIBusId(id, sizeof(id), 0));
    OK(cu->cuDeviceGetByPCIBusId(&device, id));
    assert_int_equal(device, 0);
    FAILS(CUDA_ERROR_INVALID_DEVICE, cu->cuDeviceGetByPCIBusId(&device, "0000:7f:00.0"));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuDeviceGetByPCIBusId(&device, "rubbish"));
}

static void primary_context_is_counted(void **state)
{
    CUcontext one, two, current;
    CUdeviceptr pointer;
    unsigned flags;
    int active;
    (void)state;
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuDevicePrimaryCtxRelease_v2(0));
    OK(cu->cuDevicePrimaryCtxRetain(&one, 0));
    OK(cu->cuDevicePrimaryCtxRetain(&two, 0));
    assert_ptr_equal(one, two);
    OK(cu->cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 1);
    OK(cu->cuCtxSetCurrent(one));
    OK(cu->cuMemAlloc_v2(&pointer, 1000));
    OK(cu->cuDevicePrimaryCtxRelease_v2(0));
    OK(cu->cuMemFree_v2(pointer));
    OK(cu->cuMemAlloc_v2(&pointer, 1000));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuCtxDestroy_v2(one));
    OK(cu->cuDevicePrimaryCtxRelease_v2(0));
    OK(cu->cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
    FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu->cuMemAlloc_v2(&pointer, 1000));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuCtxSetCurrent(one));
    OK(cu->cuCtxSetCurrent(NULL));
    OK(cu->cuCtxGetCurrent(&current));
    assert_null(current);
    /* Reset ends it whatever the count, and does not release. */
    OK(cu->cuDevicePrimaryCtxRetain(&one, 0));
    OK(cu->cuDevicePrimaryCtxRetain(&one, 0));
    OK(cu->cuDevicePrimaryCtxReset_v2(0));
    OK(cu->cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuCtxSetCurrent(one));
    OK(cu->cuDevicePrimaryCtxRetain(&two, 0));
    OK(cu->cuCtxSetCurrent(two));
    OK(cu->cuMemAlloc_v2(&pointer, 1000));
    OK(cu->cuCtxSetCurrent(NULL));
    for (int i = 0; i < 3; i++)
        OK(cu->cuDevicePrimaryCtxRelease_v2(0));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuDevicePrimaryCtxRelease_v2(0));
}

static void contexts_stack_up(void **state)
{
    CUcontext a, b, current;
    CUdevice device;
    size_t bytes;
    (void)state;
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuCtxGetDevice(&device));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuMemGetInfo_v2(&bytes, &bytes));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuCtxPopCurrent_v2(&current));
    OK(cu->cuCtxCreate_v2(&a, 0, 0));
    OK(cu->cuCtxCreate_v2(&b, CU_CTX_MAP_HOST, 0));
    OK(cu->cuCtxGetCurrent(&current));
    assert_ptr_equal(current, b);
    OK(cu->cuCtxPopCurrent_v2(&current));
    assert_ptr_equal(current, b);
    OK(cu->cuCtxGetCurrent(&current));
    assert_ptr_equal(current, a);
    OK(cu->cuCtxPushCurrent_v2(b));
    OK(cu->cuCtxDestroy_v2(b)); /* current: popped */
    OK(cu->cuCtxGetCurrent(&current));
    assert_ptr_equal(current, a);
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuCtxDestroy_v2(b));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuCtxPushCurrent_v2(b));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuCtxSetCurrent((CUcontext)0x1234));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuCtxDestroy_v2((CUcontext)&bytes));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuCtxCreate_v2(NULL, 0, 0));
    FAILS(CUDA_ERROR_INVALID_DEVICE, cu->cuCtxCreate_v2(&b, 0, 3));
    OK(cu->cuCtxDestroy_v2(a));
    OK(cu->cuCtxGetCurrent(&current));
    assert_null(current);
}

static void *look(void *context)
{
    CUcontext current;
    if (cu->cuCtxGetCurrent(&current) != CUDA_SUCCESS || current)
        return (void *)1;
    if (cu->cuCtxSetCurrent(context) != CUDA_SUCCESS || cu->cuCtxSynchronize_v2(NULL))
        return (void *)2;
    return NULL;
}

static void current_context_belongs_to_the_thread(void **state)
{
    pthread_t thread;
    void *bad;
    pthread_create(&thread, NULL, look, *state);
    pthread_join(thread, &bad);
    assert_null(bad);
}

static void destruction_takes_everything_along(void **state)
{
    CUcontext context;
    CUdeviceptr pointer;
    CUstream stream;
    CUevent event;
    size_t before, after, total;
    OK(cu->cuMemGetInfo_v2(&before, &total));
    OK(cu->cuCtxCreate_v2(&context, 0, 0));
    OK(cu->cuMemAlloc_v2(&pointer, 10 << 20));
    OK(cu->cuStreamCreate(&stream, 0));
    OK(cu->cuEventCreate(&event, 0));
    OK(cu->cuCtxDestroy_v2(context));
    OK(cu->cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before, after);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFree_v2(pointer));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuStreamSynchronize(stream));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuStreamDestroy_v2(stream));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuEventQuery(event));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuEventDestroy_v2(event));
    (void)state;
}

static void limits_and_preferences_are_kept(void **state)
{
    size_t value;
    CUfunc_cache cache;
    int least, greatest;
    unsigned version;
    (void)state;
    OK(cu->cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
    OK(cu->cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    assert_int_equal(value, 4096);
    FAILS(CUDA_ERROR_UNSUPPORTED_LIMIT, cu->cuCtxGetLimit(&value, CU_LIMIT_CIG_ENABLED));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuCtxGetLimit(&value, CU_LIMIT_MAX));
    OK(cu->cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
    OK(cu->cuCtxGetCacheConfig(&cache));
    assert_int_equal(cache, CU_FUNC_CACHE_PREFER_L1);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuCtxSetCacheConfig((CUfunc_cache)9));
    OK(cu->cuCtxGetStreamPriorityRange(&least, &greatest));
    assert_true(greatest < least);
    OK(cu->cuCtxGetApiVersion(NULL, &version));
    OK(cu->cuProfilerStart());
    OK(cu->cuProfilerStop());
}

/* The old way to count users of a context. */
static void contexts_count_their_users(void **state)
{
    CUcontext first = *state, context, same, now;
    CUexecAffinityParam affinity;
    OK(cu->cuCtxCreate_v2(&context, 0, 0));
    OK(cu->cuCtxAttach(&same, 0));
    assert_ptr_equal(same, context);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuCtxAttach(NULL, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuCtxAttach(&same, 1));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuCtxDetach(first)); /* not the current one */
    FAILS(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
          cu->cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuCtxGetExecAffinity(NULL, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
    OK(cu->cuCtxDetach(context));
    OK(cu->cuCtxSynchronize_v2(context)); /* one user is left */
    OK(cu->cuCtxDetach(context));
    OK(cu->cuCtxGetCurrent(&now));
    assert_ptr_equal(now, first);
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuCtxDetach(context));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_tells_what_it_is),
        cmocka_unit_test(pci_ids_lead_back),
        cmocka_unit_test(primary_context_is_counted),
        cmocka_unit_test(contexts_stack_up),
        IN_CONTEXT(current_context_belongs_to_the_thread),
        IN_CONTEXT(destruction_takes_everything_along),
        IN_CONTEXT(limits_and_preferences_are_kept),
        IN_CONTEXT(contexts_count_their_users),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}

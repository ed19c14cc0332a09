/* Copies to page-locked memory that no call waits for, over the network.
 * usage: test_remote_down cpu [ENDPOINT] */
#include "tests/e2e/remoting/remote.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum { BIG = (8 << 20) + 12, SMALL = 4096, MANY = 40 };

/* A stream that stands still until the gate is opened. */
typedef struct {
    sem_t open;
    CUstream stream;
} gate_t;

static void wait_at(void *arg)
{
    gate_t *gate = arg;
    while (sem_wait(&gate->open) != 0)
        continue;
}

static void shut(gate_t *gate, unsigned flags)
{
    assert_int_equal(sem_init(&gate->open, 0, 0), 0);
    OK(cuda->cuStreamCreate(&gate->stream, flags));
    OK(cuda->cuLaunchHostFunc(gate->stream, wait_at, gate));
}

static void end(gate_t *gate)
{
    OK(cuda->cuStreamDestroy_v2(gate->stream));
    sem_destroy(&gate->open);
}

static void *open_later(void *arg)
{
    gate_t *gate = arg;
    CUresult result = cuda->cuCtxSetCurrent(context);
    sem_post(&gate->open);
    return (void *)(uintptr_t)result;
}

static uint8_t *locked(size_t size)
{
    void *at;
    OK(cuda->cuMemHostAlloc(&at, size, 0));
    memset(at, 0xee, size);
    return at;
}

static CUdeviceptr filled(size_t size, uint8_t with)
{
    CUdeviceptr at;
    OK(cuda->cuMemAlloc_v2(&at, size));
    OK(cuda->cuMemsetD8_v2(at, with, size));
    OK(cuda->cuCtxSynchronize());
    return at;
}

static int is_all(const uint8_t *bytes, uint8_t value, size_t size)
{
    return bytes[0] == value && memcmp(bytes, bytes + 1, size - 1) == 0;
}

/* The call comes back although the stream stands still; the bytes are those of the copy's turn. */
static void nobody_waits(void **state)
{
    static const size_t sizes[] = {1, 4, 1000, 256 << 10, (512 << 10) + 1, BIG};
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        gate_t gate;
        uint8_t *host = locked(sizes[i]);
        CUdeviceptr device = filled(sizes[i], 1);
        shut(&gate, CU_STREAM_NON_BLOCKING);
        OK(cuda->cuMemsetD8Async(device, 2, sizes[i], gate.stream));
        OK(cuda->cuMemcpyDtoHAsync_v2(host, device, sizes[i], gate.stream));
        OK(cuda->cuMemsetD8Async(device, 3, sizes[i], gate.stream));
        FAILS(cuda->cuStreamQuery(gate.stream), CUDA_ERROR_NOT_READY);
        assert_true(is_all(host, 0xee, sizes[i]));
        sem_post(&gate.open);
        OK(cuda->cuStreamSynchronize(gate.stream));
        assert_true(is_all(host, 2, sizes[i]));
        OK(cuda->cuMemcpyDtoH_v2(host, device, sizes[i]));
        assert_true(is_all(host, 3, sizes[i]));
        OK(cuda->cuMemFree_v2(device));
        OK(cuda->cuMemFreeHost(host));
        end(&gate);
    }
}

/* ---- boxes ---- */

typedef struct {
    size_t width, height, depth;
    size_t pitch,
        slice; /* of the host's rows and slices; of the device's: the widths and heights */
} shape_t;

static uint8_t at(size_t i)
{
    return (uint8_t)(i * 31 + i / 251 + 1) % 200;
}

static int box_is_there(const uint8_t *host, const shape_t *s, size_t size)
{
    size_t next = 0; /* of the box's bytes */
    for (size_t i = 0; i < size; i++) {
        size_t z = i / s->slice, y = i % s->slice / s->pitch, x = i % s->slice % s->pitch;
        int inside = z < s->depth && y < s->height && x < s->width;
        if (host[i] != (inside ? at(next) : 0xee))
            return 0;
        next += (size_t)inside;
    }
    return next == s->width * s->height * s->depth;
}

static CUDA_MEMCPY3D box_of(const shape_t *s, CUdeviceptr from, uint8_t *to)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = from,
                           .srcPitch = s->width,
                           .srcHeight = s->height,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = to,
                           .dstPitch = s->pitch,
                           .dstHeight = s->slice / s->pitch,
                           .WidthInBytes = s->width,
                           .Height = s->height,
                           .Depth = s->depth};
}

/* In the order of the stream, between what comes before and after; nobody waits for it. */
static void copy_box(const shape_t *s, int flat)
{
    size_t bytes = s->width * s->height * s->depth, size = s->slice * s->depth;
    uint8_t *host = locked(size), *pattern = malloc(bytes);
    CUdeviceptr device = filled(bytes, 1), source = filled(bytes, 1);
    CUDA_MEMCPY3D box = box_of(s, device, host);
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = device,
                          .srcPitch = s->width,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = host,
                          .dstPitch = s->pitch,
                          .WidthInBytes = s->width,
                          .Height = s->height};
    gate_t gate;
    for (size_t i = 0; i < bytes; i++)
        pattern[i] = at(i);
    OK(cuda->cuMemcpyHtoD_v2(source, pattern, bytes));
    OK(cuda->cuCtxSynchronize());
    shut(&gate, CU_STREAM_NON_BLOCKING);
    OK(cuda->cuMemcpyDtoDAsync_v2(device, source, bytes, gate.stream));
    OK(flat ? cuda->cuMemcpy2DAsync_v2(&rows, gate.stream)
            : cuda->cuMemcpy3DAsync_v2(&box, gate.stream));
    OK(cuda->cuMemsetD8Async(device, 3, bytes, gate.stream));
    FAILS(cuda->cuStreamQuery(gate.stream), CUDA_ERROR_NOT_READY);
    assert_true(is_all(host, 0xee, size));
    sem_post(&gate.open);
    OK(cuda->cuStreamSynchronize(gate.stream));
    assert_true(box_is_there(host, s, size));
    /* The other calls have copied when they return. */
    memset(host, 0xee, size);
    OK(cuda->cuMemcpyHtoD_v2(device, pattern, bytes));
    OK(flat ? cuda->cuMemcpy2D_v2(&rows) : cuda->cuMemcpy3D_v2(&box));
    assert_true(box_is_there(host, s, size));
    OK(cuda->cuMemFreeHost(host));
    OK(cuda->cuMemFree_v2(device));
    OK(cuda->cuMemFree_v2(source));
    free(pattern);
    end(&gate);
}

static void nobody_waits_for_boxes(void **state)
{
    static const shape_t shapes[] = {
        {1, 1, 1, 1, 1},
        {100, 7, 1, 100, 700},                               /* without gaps */
        {100, 7, 1, 128, 128 * 7},                           /* with gaps */
        {1000, 3000, 1, 1024, 3000 << 10},                   /* more than a piece */
        {(300 << 10) + 3, 5, 1, 400 << 10, 5 * (400 << 10)}, /* a row is longer than a piece */
        {64, 8, 20, 64, 64 * 8},
        {60, 8, 20, 64, 64 * 10},
        {513, 511, 9, 520, 520 * 512},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        copy_box(&shapes[i], 0);
        if (shapes[i].depth == 1)
            copy_box(&shapes[i], 1);
    }
}

/* Of an array; two copies to the same place, the later one of which stays; and what is copied on from there. */
static void boxes_of_arrays(void **state)
{
    enum { WIDTH = 512, HEIGHT = 300, PITCH = 600 };
    const CUDA_ARRAY_DESCRIPTOR what = {WIDTH, HEIGHT, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    const shape_t shape = {WIDTH, HEIGHT, 1, PITCH, PITCH * HEIGHT};
    uint8_t *host = locked(PITCH * HEIGHT), *pattern = malloc(WIDTH * HEIGHT), back[WIDTH];
    CUdeviceptr device = filled(WIDTH * HEIGHT, 9);
    CUarray array;
    gate_t gate;
    (void)state;
    for (size_t i = 0; i < WIDTH * HEIGHT; i++)
        pattern[i] = at(i);
    OK(cuda->cuArrayCreate_v2(&array, &what));
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = pattern,
                        .srcPitch = WIDTH,
                        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                        .dstArray = array,
                        .WidthInBytes = WIDTH,
                        .Height = HEIGHT};
    CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .srcArray = array,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = host,
                          .dstPitch = PITCH,
                          .WidthInBytes = WIDTH,
                          .Height = HEIGHT};
    CUDA_MEMCPY3D first = box_of(&shape, device, host);
    OK(cuda->cuMemcpy2D_v2(&up));
    shut(&gate, CU_STREAM_NON_BLOCKING);
    OK(cuda->cuMemcpy3DAsync_v2(&first, gate.stream));
    OK(cuda->cuMemcpy2DAsync_v2(&down, gate.stream));
    assert_true(is_all(host, 0xee, PITCH * HEIGHT));
    sem_post(&gate.open);
    OK(cuda->cuMemcpyHtoDAsync_v2(device, host + PITCH, WIDTH, gate.stream));
    OK(cuda->cuMemcpyDtoHAsync_v2(back, device, WIDTH, gate.stream));
    assert_memory_equal(back, pattern + WIDTH, WIDTH);
    assert_true(box_is_there(host, &shape, PITCH * HEIGHT));
    OK(cuda->cuArrayDestroy(array));
    OK(cuda->cuMemFree_v2(device));
    OK(cuda->cuMemFreeHost(host));
    free(pattern);
    end(&gate);
}

/* Memory that the session cannot send as it lies: it goes through a buffer, piece by piece. */
static void mapped_memory_goes_in_pieces(void **state)
{
    enum { SIZE = 4 << 20 };
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr device;
    uint8_t *host = locked(SIZE);
    gate_t gate;
    (void)state;
    OK(cuda->cuMemAddressReserve(&device, SIZE, 0, 0, 0));
    OK(cuda->cuMemCreate(&handle, SIZE, &prop, 0));
    OK(cuda->cuMemMap(device, SIZE, 0, handle, 0));
    OK(cuda->cuMemSetAccess(device, SIZE, &access, 1));
    shut(&gate, CU_STREAM_NON_BLOCKING);
    OK(cuda->cuMemsetD8Async(device, 2, SIZE / 2, gate.stream));
    OK(cuda->cuMemsetD8Async(device + SIZE / 2, 3, SIZE / 2, gate.stream));
    OK(cuda->cuMemcpyDtoHAsync_v2(host, device, SIZE - 1, gate.stream));
    OK(cuda->cuMemsetD8Async(device, 4, SIZE, gate.stream));
    assert_true(is_all(host, 0xee, SIZE));
    sem_post(&gate.open);
    OK(cuda->cuStreamSynchronize(gate.stream));
    assert_true(is_all(host, 2, SIZE / 2));
    assert_true(is_all(host + SIZE / 2, 3, SIZE / 2 - 1));
    assert_int_equal(host[SIZE - 1], 0xee);
    OK(cuda->cuMemUnmap(device, SIZE));
    OK(cuda->cuMemRelease(handle));
    OK(cuda->cuMemAddressFree(device, SIZE));
    OK(cuda->cuMemFreeHost(host));
    end(&gate);
}

/* Registered memory counts; the bytes are there when a question says so, without any wait. */
static void questions_tell(void **state)
{
    uint8_t *host = malloc(BIG);
    CUdeviceptr device = filled(BIG, 7);
    CUstream stream;
    CUevent event;
    CUresult result;
    (void)state;
    memset(host, 0, BIG);
    OK(cuda->cuMemHostRegister_v2(host, BIG, 0));
    OK(cuda->cuStreamCreate(&stream, 0));
    OK(cuda->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuda->cuMemcpyDtoHAsync_v2(host, device, BIG, stream));
    OK(cuda->cuEventRecord(event, stream));
    while ((result = cuda->cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
        continue;
    OK(result);
    assert_true(is_all(host, 7, BIG));
    OK(cuda->cuMemHostUnregister(host));
    OK(cuda->cuEventDestroy_v2(event));
    OK(cuda->cuStreamDestroy_v2(stream));
    OK(cuda->cuMemFree_v2(device));
    free(host);
}

/* What was copied there goes on to a device by the order of streams alone, and a kernel reads it there. */
static void others_use_it(void **state)
{
    uint8_t *host = locked(BIG);
    CUdeviceptr from = filled(BIG, 0), to = filled(BIG, 9);
    CUstream one, two;
    CUevent event;
    float *floats = (float *)(void *)host, got;
    unsigned count = BIG / 4;
    float a = 1;
    (void)state;
    OK(cuda->cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuda->cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    OK(cuda->cuEventCreate(&event, 0));
    OK(cuda->cuMemsetD32Async(from, 0x40400000, count, one)); /* 3.0 */
    OK(cuda->cuMemcpyDtoHAsync_v2(host, from, BIG, one));
    OK(cuda->cuEventRecord(event, one));
    OK(cuda->cuStreamWaitEvent(two, event, 0));
    OK(cuda->cuMemcpyHtoDAsync_v2(to, host, BIG, two));
    OK(cuda->cuStreamSynchronize(two));
    OK(cuda->cuMemcpyDtoH_v2(&got, to + BIG - 12 - 4, 4));
    assert_true(got == 3);
    /* The kernel gets the address of what is on its way. */
    OK(cuda->cuMemcpyDtoHAsync_v2(host, from, BIG, one));
    CUdeviceptr y = (CUdeviceptr)(uintptr_t)host;
    void *args[] = {&y, &from, &a, &count};
    OK(cuda->cuLaunchKernel(saxpy, (count + 255) / 256, 1, 1, 256, 1, 1, 0, one, args, NULL));
    OK(cuda->cuStreamSynchronize(one));
    for (unsigned i = 0; i < count; i++)
        assert_true(floats[i] == 6);
    OK(cuda->cuEventDestroy_v2(event));
    OK(cuda->cuStreamDestroy_v2(one));
    OK(cuda->cuStreamDestroy_v2(two));
    OK(cuda->cuMemFree_v2(from));
    OK(cuda->cuMemFree_v2(to));
    OK(cuda->cuMemFreeHost(host));
}

/* More than are kept under way at once, in two streams; and memory that is given back meanwhile. */
static void many_and_given_back(void **state)
{
    uint8_t *host[MANY];
    CUdeviceptr device = filled(MANY * SMALL, 5);
    CUstream other;
    pthread_t thread;
    gate_t gate;
    void *result;
    (void)state;
    OK(cuda->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < MANY; i++)
        host[i] = locked(SMALL);
    shut(&gate, CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 8; i++)
        OK(cuda->cuMemcpyDtoHAsync_v2(host[i], device, SMALL, gate.stream));
    for (int i = 8; i < MANY; i++) /* where there is no room for more the call waits */
        OK(cuda->cuMemcpyDtoHAsync_v2(host[i], device + (unsigned)i * SMALL, SMALL, other));
    OK(cuda->cuStreamSynchronize(other));
    for (int i = 8; i < MANY; i++)
        assert_true(is_all(host[i], 5, SMALL));
    assert_int_equal(pthread_create(&thread, NULL, open_later, &gate), 0);
    for (int i = 0; i < MANY; i++)
        OK(cuda->cuMemFreeHost(host[i]));
    pthread_join(thread, &result);
    assert_true(result == NULL);
    OK(cuda->cuStreamSynchronize(gate.stream));
    OK(cuda->cuStreamDestroy_v2(other));
    OK(cuda->cuMemFree_v2(device));
    end(&gate);
}

static void *copy_often(void *arg)
{
    uint8_t *host = NULL;
    CUdeviceptr device = 0;
    CUstream stream = NULL;
    uint8_t with = (uint8_t)(uintptr_t)arg;
    int good = cuda->cuCtxSetCurrent(context) == CUDA_SUCCESS &&
               cuda->cuMemHostAlloc((void **)&host, BIG, 0) == CUDA_SUCCESS &&
               cuda->cuMemAlloc_v2(&device, BIG) == CUDA_SUCCESS &&
               cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;
    for (unsigned i = 0; good && i < 40; i++) {
        size_t size = i % 4 ? 100 + i : BIG;
        uint8_t value = (uint8_t)(with + i);
        good = cuda->cuMemsetD8Async(device, value, size, stream) == CUDA_SUCCESS &&
               cuda->cuMemcpyDtoHAsync_v2(host, device, size, stream) == CUDA_SUCCESS &&
               cuda->cuStreamSynchronize(stream) == CUDA_SUCCESS && is_all(host, value, size);
    }
    good = good && cuda->cuMemFreeHost(host) == CUDA_SUCCESS &&
           cuda->cuMemFree_v2(device) == CUDA_SUCCESS &&
           cuda->cuStreamDestroy_v2(stream) == CUDA_SUCCESS;
    return good ? arg : NULL;
}

static void threads_copy(void **state)
{
    pthread_t threads[4];
    (void)state;
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, copy_often, (void *)(10 * i + 1)), 0);
    for (uintptr_t i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_true(result == (void *)(10 * i + 1));
    }
}

/* A context ends with its memory while bytes are on their way to it; others go on. */
static void context_ends(void **state)
{
    CUcontext other;
    CUdeviceptr device;
    uint8_t *host;
    (void)state;
    for (int i = 0; i < 5; i++) {
        OK(cuda->cuCtxCreate_v4(&other, NULL, 0, 0));
        host = locked(BIG);
        device = filled(BIG, 4);
        CUDA_MEMCPY3D box = box_of(&(shape_t){1000, 4000, 2, 1024, 1024 * 4000}, device, host);
        for (int k = 0; k < 4; k++)
            OK(k & 1 ? cuda->cuMemcpy3DAsync_v2(&box, NULL)
                     : cuda->cuMemcpyDtoHAsync_v2(host, device, BIG, NULL));
        OK(cuda->cuCtxDestroy_v2(other));
        OK(cuda->cuCtxSetCurrent(context));
    }
    host = locked(SMALL);
    device = filled(SMALL, 6);
    OK(cuda->cuMemcpyDtoHAsync_v2(host, device, SMALL, NULL));
    OK(cuda->cuStreamSynchronize(NULL));
    assert_true(is_all(host, 6, SMALL));
    OK(cuda->cuMemFreeHost(host));
    OK(cuda->cuMemFree_v2(device));
}

/* A context ends while a host function of its stream runs here. */
static void context_waits_for_functions(void **state)
{
    CUcontext other;
    pthread_t thread;
    gate_t gate;
    void *result;
    (void)state;
    OK(cuda->cuCtxCreate_v4(&other, NULL, 0, 0));
    shut(&gate, CU_STREAM_NON_BLOCKING);
    assert_int_equal(pthread_create(&thread, NULL, open_later, &gate), 0);
    OK(cuda->cuCtxDestroy_v2(other));
    pthread_join(thread, &result);
    assert_true(result == NULL);
    OK(cuda->cuCtxSetCurrent(context));
    sem_destroy(&gate.open);
}

/* After a fault nothing comes any more, and nothing waits for it; more often than are kept under way. */
static void fault_once(void)
{
    CUcontext other;
    CUmodule loaded;
    CUfunction function;
    CUdeviceptr device, nowhere = 8;
    uint8_t *host;
    float a = 1;
    unsigned count = 1;
    OK(cuda->cuCtxCreate_v4(&other, NULL, 0, 0));
    OK(cuda->cuModuleLoadData(&loaded, saxpy_ptx));
    OK(cuda->cuModuleGetFunction(&function, loaded, "saxpy"));
    host = locked(BIG);
    device = filled(BIG, 4);
    void *args[] = {&nowhere, &device, &a, &count};
    OK(cuda->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    CUresult late = cuda->cuMemcpyDtoHAsync_v2(host, device, BIG, NULL);
    assert_true(late == CUDA_SUCCESS || late == CUDA_ERROR_ILLEGAL_ADDRESS);
    FAILS(cuda->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    (void)cuda->cuMemFreeHost(host); /* the sticky error, but it comes back */
    OK(cuda->cuCtxDestroy_v2(other));
    OK(cuda->cuCtxSetCurrent(context));
}

static void fault_ends_them(void **state)
{
    gate_t gate;
    CUdeviceptr device;
    uint8_t *host = locked(SMALL);
    (void)state;
    for (int i = 0; i < 20; i++)
        fault_once();
    device = filled(SMALL, 6);
    shut(&gate, CU_STREAM_NON_BLOCKING);
    OK(cuda->cuMemcpyDtoHAsync_v2(host, device, SMALL, gate.stream));
    assert_true(is_all(host, 0xee, SMALL)); /* there is room still: it did not wait */
    sem_post(&gate.open);
    OK(cuda->cuStreamSynchronize(gate.stream));
    assert_true(is_all(host, 6, SMALL));
    OK(cuda->cuMemFreeHost(host));
    OK(cuda->cuMemFree_v2(device));
    end(&gate);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mapped_memory_goes_in_pieces),
        cmocka_unit_test(nobody_waits),
        cmocka_unit_test(nobody_waits_for_boxes),
        cmocka_unit_test(boxes_of_arrays),
        cmocka_unit_test(questions_tell),
        cmocka_unit_test(others_use_it),
        cmocka_unit_test(many_and_given_back),
        cmocka_unit_test(threads_copy),
        cmocka_unit_test(context_ends),
        cmocka_unit_test(context_waits_for_functions),
        cmocka_unit_test(fault_ends_them),
    };
    proxy_t proxy;
    remote_open(argc, argv, &proxy);
    int failed = cmocka_run_group_tests(tests, remote_set_up, NULL);
    proxy_stop(&proxy);
    return failed;
}

/* The runtime's asynchronous copies of rows and boxes to page-locked memory, over the network: none waits. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "rt_api.h"
#include "tests/e2e/remoting/proxy.h"

#define OK(call) assert_int_equal(call, cudaSuccess)

enum { WIDTH = 300, HEIGHT = 40, DEPTH = 6, PITCH = 512, SIZE = PITCH * HEIGHT * DEPTH };

static sem_t gate;
static cudaStream_t stream;
static uint8_t *host, *device;

static void wait_at(void *arg)
{
    while (sem_wait(arg) != 0)
        continue;
}

/* What follows in the stream stands still. */
static void shut(void)
{
    OK(cudaMemset(device, 1, SIZE));
    OK(cudaDeviceSynchronize());
    memset(host, 0xee, SIZE);
    OK(cudaLaunchHostFunc(stream, wait_at, &gate));
    OK(cudaMemsetAsync(device, 2, SIZE, stream));
}

/* Nothing has come before the gate is opened, and then `rows` rows as they were in between. */
static void expect(int rows)
{
    OK(cudaMemsetAsync(device, 3, SIZE, stream));
    assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
    for (size_t i = 0; i < SIZE; i++)
        assert_int_equal(host[i], 0xee);
    sem_post(&gate);
    OK(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < SIZE; i++)
        assert_int_equal(host[i], i % PITCH < WIDTH && i / PITCH < (size_t)rows ? 2 : 0xee);
}

static void rows(void **state)
{
    (void)state;
    shut();
    OK(cudaMemcpy2DAsync(host, PITCH, device, WIDTH, WIDTH, HEIGHT, cudaMemcpyDeviceToHost,
                         stream));
    expect(HEIGHT);
    shut();
    OK(cudaMemcpy2DAsync(host, PITCH, device, WIDTH, WIDTH, HEIGHT, cudaMemcpyDefault, stream));
    expect(HEIGHT);
}

static void boxes(void **state)
{
    struct cudaMemcpy3DParms box = {.srcPtr = {device, WIDTH, WIDTH, HEIGHT},
                                    .dstPtr = {host, PITCH, WIDTH, HEIGHT},
                                    .extent = {WIDTH, HEIGHT, DEPTH},
                                    .kind = cudaMemcpyDeviceToHost};
    (void)state;
    shut();
    OK(cudaMemcpy3DAsync(&box, stream));
    expect(HEIGHT * DEPTH);
}

static void arrays(void **state)
{
    const struct cudaChannelFormatDesc bytes = {8, 0, 0, 0, cudaChannelFormatKindUnsigned};
    cudaArray_t array;
    (void)state;
    OK(cudaMallocArray(&array, &bytes, WIDTH, HEIGHT, 0));
    shut();
    OK(cudaMemcpy2DToArrayAsync(array, 0, 0, device, WIDTH, WIDTH, HEIGHT, cudaMemcpyDeviceToDevice,
                                stream));
    OK(cudaMemcpy2DFromArrayAsync(host, PITCH, array, 0, 0, WIDTH, HEIGHT, cudaMemcpyDeviceToHost,
                                  stream));
    expect(HEIGHT);
    /* The other form has copied when it returns. */
    memset(host, 0xee, SIZE);
    OK(cudaMemcpy2DFromArray(host, PITCH, array, 0, 0, WIDTH, HEIGHT, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < PITCH * HEIGHT; i++)
        assert_int_equal(host[i], i % PITCH < WIDTH ? 2 : 0xee);
    OK(cudaFreeArray(array));
}

static int set_up(void **state)
{
    (void)state;
    return sem_init(&gate, 0, 0) || cudaStreamCreateWithFlags(&stream, 1 /* non-blocking */) ||
           cudaMalloc((void **)&device, SIZE) || cudaMallocHost((void **)&host, SIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(boxes),
        cmocka_unit_test(arrays),
    };
    proxy_t proxy;
    proxy_start(&proxy, "cpu");
    setenv("GABLE_PROXIES", proxy.endpoint, 1);
    int failed = cmocka_run_group_tests(tests, set_up, NULL);
    proxy_stop(&proxy);
    return failed;
}

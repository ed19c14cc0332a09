/* Streams and events: order within a stream, waits across streams, asynchronous copies, timing. */
#include <string.h>

#include "app.h"

enum { STREAMS = 4, N = 20000, ROUNDS = 50 };

int main(void)
{
    CUcontext ctx;
    CUmodule mod = app_open(0, &ctx);
    CUfunction fill = app_kernel(mod, "fill"), affine = app_kernel(mod, "affine");
    CUstream stream[STREAMS];
    CUevent done[STREAMS], begin, end;
    CUdeviceptr data[STREAMS];
    unsigned *host;
    unsigned n = N;
    app_check(cuMemAllocHost_v2((void **)&host, STREAMS * N * 4), "cuMemAllocHost");
    for (int s = 0; s < STREAMS; s++) {
        app_check(cuStreamCreate(&stream[s], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
        app_check(cuEventCreate(&done[s], CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        data[s] = app_alloc(N * 4);
    }
    app_check(cuEventCreate(&begin, CU_EVENT_DEFAULT), "cuEventCreate");
    app_check(cuEventCreate(&end, CU_EVENT_DEFAULT), "cuEventCreate");

    /* Each stream applies its own chain; a chain out of order gives other numbers. */
    app_check(cuEventRecord(begin, stream[0]), "cuEventRecord");
    for (int s = 0; s < STREAMS; s++) {
        unsigned start = (unsigned)s, step = 1;
        app_launch(fill, 20, 128, stream[s], (void *[]){&n, &start, &step, &data[s]});
        for (unsigned r = 0; r < ROUNDS; r++) {
            unsigned mul = 3, add = r + (unsigned)s;
            app_launch(affine, (N + 127) / 128, 128, stream[s],
                       (void *[]){&n, &mul, &add, &data[s]});
        }
        app_check(cuEventRecord(done[s], stream[s]), "cuEventRecord");
    }
    /* Stream 0 waits for the others, then takes their results over. */
    for (int s = 1; s < STREAMS; s++)
        app_check(cuStreamWaitEvent(stream[0], done[s], 0), "cuStreamWaitEvent");
    for (int s = 0; s < STREAMS; s++)
        app_check(cuMemcpyDtoHAsync_v2(host + s * N, data[s], N * 4, stream[0]),
                  "cuMemcpyDtoHAsync");
    app_check(cuEventRecord(end, stream[0]), "cuEventRecord");
    app_check(cuStreamSynchronize(stream[0]), "cuStreamSynchronize");
    float ms = -1;
    app_check(cuEventElapsedTime(&ms, begin, end), "cuEventElapsedTime");
    unsigned wrong = 0;
    for (unsigned s = 0; s < STREAMS; s++)
        for (unsigned i = 0; i < N; i++) {
            unsigned v = s + i;
            for (unsigned r = 0; r < ROUNDS; r++)
                v = v * 3 + r + s;
            wrong += host[s * N + i] != v;
        }
    printf("streams: %u wrong, time %s\n", wrong, ms > 0 ? "positive" : "not positive");
    for (int s = 1; s < STREAMS; s++)
        app_check(cuEventQuery(done[s]), "cuEventQuery");

    /* The legacy default stream waits for blocking streams and they for it. */
    CUstream blocking;
    app_check(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), "cuStreamCreate");
    app_check(cuMemsetD32Async(data[0], 1, N, blocking), "cuMemsetD32Async");
    unsigned mul = 5, add = 2;
    app_launch(affine, (N + 127) / 128, 128, NULL, (void *[]){&n, &mul, &add, &data[0]});
    mul = 7;
    app_launch(affine, (N + 127) / 128, 128, blocking, (void *[]){&n, &mul, &add, &data[0]});
    app_check(cuMemcpyDtoH_v2(host, data[0], N * 4), "cuMemcpyDtoH");
    wrong = 0;
    for (unsigned i = 0; i < N; i++)
        wrong += host[i] != (1 * 5 + 2) * 7 + 2;
    printf("default stream: %u wrong\n", wrong);

    for (int s = 0; s < STREAMS; s++) {
        app_check(cuStreamDestroy_v2(stream[s]), "cuStreamDestroy");
        app_check(cuEventDestroy_v2(done[s]), "cuEventDestroy");
        app_check(cuMemFree_v2(data[s]), "cuMemFree");
    }
    app_check(cuStreamDestroy_v2(blocking), "cuStreamDestroy");
    app_check(cuEventDestroy_v2(begin), "cuEventDestroy");
    app_check(cuEventDestroy_v2(end), "cuEventDestroy");
    app_check(cuMemFreeHost(host), "cuMemFreeHost");
    app_check(cuModuleUnload(mod), "cuModuleUnload");
    return 0;
}

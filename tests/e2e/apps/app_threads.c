/* Many threads on one context: each has a stream of its own, and a launch that one thread has issued is
 * visible to every later call of another. */
#include <pthread.h>
#include <stdatomic.h>

#include "app.h"

enum { THREADS = 8, ROUNDS = 100, N = 4096 };

typedef struct {
    CUcontext ctx;
    CUfunction affine;
    unsigned id, wrong;
} task_t;

static void *chain(void *arg)
{
    task_t *t = arg;
    unsigned n = N, host[N];
    app_check(cuCtxSetCurrent(t->ctx), "cuCtxSetCurrent");
    CUstream stream;
    app_check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    CUdeviceptr data = app_alloc(sizeof host);
    app_check(cuMemsetD32Async(data, t->id, N, stream), "cuMemsetD32Async");
    unsigned expected = t->id;
    for (unsigned r = 0; r < ROUNDS; r++) {
        unsigned mul = 3, add = r;
        app_launch(t->affine, N / 128, 128, stream, (void *[]){&n, &mul, &add, &data});
        expected = expected * mul + add;
        if (r % 10 == 9) {
            app_check(cuMemcpyDtoHAsync_v2(host, data, sizeof host, stream), "cuMemcpyDtoHAsync");
            app_check(cuStreamSynchronize(stream), "cuStreamSynchronize");
            for (int i = 0; i < N; i++)
                t->wrong += host[i] != expected;
        }
    }
    app_check(cuStreamDestroy_v2(stream), "cuStreamDestroy");
    app_check(cuMemFree_v2(data), "cuMemFree");
    return NULL;
}

/* One thread launches, the other copies back what the first has just issued. */
typedef struct {
    CUcontext ctx;
    CUfunction affine;
    CUdeviceptr data;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    unsigned issued, read, wrong;
} relay_t;

static void *reader(void *arg)
{
    relay_t *r = arg;
    app_check(cuCtxSetCurrent(r->ctx), "cuCtxSetCurrent");
    for (unsigned round = 1; round <= ROUNDS; round++) {
        pthread_mutex_lock(&r->lock);
        while (r->issued < round)
            pthread_cond_wait(&r->turn, &r->lock);
        pthread_mutex_unlock(&r->lock);
        unsigned first = 0;
        app_check(cuMemcpyDtoH_v2(&first, r->data, 4), "cuMemcpyDtoH");
        r->wrong += first != round;
        pthread_mutex_lock(&r->lock);
        r->read = round;
        pthread_cond_broadcast(&r->turn);
        pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

static unsigned relay(CUcontext ctx, CUfunction affine)
{
    relay_t r = {
        ctx, affine, app_alloc(N * 4), PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0,
        0,   0};
    app_check(cuMemsetD32_v2(r.data, 0, N), "cuMemsetD32");
    pthread_t t;
    pthread_create(&t, NULL, reader, &r);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        unsigned n = N, mul = 1, add = 1;
        app_launch(affine, N / 128, 128, NULL, (void *[]){&n, &mul, &add, &r.data});
        pthread_mutex_lock(&r.lock);
        r.issued = round;
        pthread_cond_broadcast(&r.turn);
        while (r.read < round)
            pthread_cond_wait(&r.turn, &r.lock);
        pthread_mutex_unlock(&r.lock);
    }
    pthread_join(t, NULL);
    app_check(cuMemFree_v2(r.data), "cuMemFree");
    return r.wrong;
}

int main(void)
{
    CUcontext ctx;
    CUmodule mod = app_open(0, &ctx);
    CUfunction affine = app_kernel(mod, "affine");
    task_t tasks[THREADS];
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        tasks[i] = (task_t){ctx, affine, i, 0};
        pthread_create(&threads[i], NULL, chain, &tasks[i]);
    }
    unsigned wrong = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        wrong += tasks[i].wrong;
    }
    printf("threads: %u wrong\n", wrong);
    printf("relay: %u stale\n", relay(ctx, affine));
    app_check(cuModuleUnload(mod), "cuModuleUnload");
    return 0;
}

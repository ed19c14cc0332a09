#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "bench/api_rows.h"
#include "bench/bench_line.h"
#include "common/core/gb_clock.h"

enum { NODES = 100, SMALL = 4096 };

static CUevent event;
static CUgraphExec graph_exec;

static void launch(void)
{
    NEED(cuLaunchKernel(api_nothing, 1, 1, 1, 32, 1, 1, 0, api_stream, NULL, NULL));
}

static void finish(void)
{
    NEED(cuStreamSynchronize(api_stream));
}

static double since(uint64_t start, int count)
{
    return (double)(gb_now_ns() - start) / count;
}

/* ---- memory ---- */

static double malloc_free(size_t bytes, int count)
{
    uint64_t start = gb_now_ns();
    for (int i = 0; i < count; i++) {
        CUdeviceptr at;
        NEED(cuMemAlloc_v2(&at, bytes));
        NEED(cuMemFree_v2(at));
    }
    return since(start, count);
}

static double malloc_free_small(void)
{
    return malloc_free(SMALL, 2000);
}

static double malloc_free_1m(void)
{
    return malloc_free(1 << 20, 500);
}

static double malloc_free_64m(void)
{
    return malloc_free(64 << 20, 100);
}

static double map_unmap(void)
{
    enum { COUNT = 2000 };
    uint64_t start = gb_now_ns();
    for (int i = 0; i < COUNT; i++) {
        void *at = mmap(NULL, SMALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(at, SMALL);
    }
    return since(start, COUNT);
}

static double malloc_async(void)
{
    enum { COUNT = 1000 };
    uint64_t start = gb_now_ns();
    for (int i = 0; i < COUNT; i++) {
        CUdeviceptr at;
        NEED(cuMemAllocAsync(&at, SMALL, api_stream));
        NEED(cuMemFreeAsync(at, api_stream));
    }
    double ns = since(start, 2 * COUNT);
    finish();
    return ns;
}

/* ---- streams ---- */

static double event_record(void)
{
    enum { COUNT = 2000 };
    uint64_t start = gb_now_ns();
    for (int i = 0; i < COUNT; i++)
        NEED(cuEventRecord(event, api_stream));
    double ns = since(start, COUNT);
    finish();
    return ns;
}

static double stream_sync_idle(void)
{
    enum { COUNT = 5000 };
    uint64_t start = gb_now_ns();
    for (int i = 0; i < COUNT; i++)
        NEED(cuStreamSynchronize(api_stream));
    return since(start, COUNT);
}

static double launch_async(void)
{
    enum { COUNT = 1000 };
    uint64_t start = gb_now_ns();
    for (int i = 0; i < COUNT; i++)
        launch();
    double ns = since(start, COUNT);
    finish();
    return ns;
}

static double launch_and_wait(int count, long rest_ns)
{
    uint64_t total = 0;
    for (int i = 0; i < count; i++) {
        if (rest_ns)
            nanosleep(&(struct timespec){0, rest_ns}, NULL);
        uint64_t start = gb_now_ns();
        launch();
        finish();
        total += gb_now_ns() - start;
    }
    return (double)total / count;
}

static double launch_sync(void)
{
    return launch_and_wait(200, 0);
}

static double launch_rested(void)
{
    return launch_and_wait(5, 1000000);
}

/* ---- graphs ---- */

static void make_graph(void)
{
    CUgraph graph;
    NEED(cuStreamBeginCapture_v2(api_stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < NODES; i++)
        launch();
    NEED(cuStreamEndCapture(api_stream, &graph));
    NEED(cuGraphInstantiateWithFlags(&graph_exec, graph, 0));
    NEED(cuGraphDestroy(graph));
}

static double graph_launches(bool wait)
{
    enum { COUNT = 20 };
    uint64_t total = 0;
    for (int i = 0; i < COUNT; i++) {
        uint64_t start = gb_now_ns();
        NEED(cuGraphLaunch(graph_exec, api_stream));
        if (wait)
            finish();
        total += gb_now_ns() - start;
        finish();
    }
    return (double)total / COUNT / NODES;
}

static double graph_launch(void)
{
    return graph_launches(false);
}

static double graph_run(void)
{
    return graph_launches(true);
}

/* ---- handing a job to another thread and back ---- */

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t change;
    int turn; /* 0: ours, 1: the other's, 2: end */
} hand_over_t;

static void *other_side(void *argument)
{
    hand_over_t *h = argument;
    pthread_mutex_lock(&h->lock);
    while (h->turn != 2) {
        while (h->turn == 0)
            pthread_cond_wait(&h->change, &h->lock);
        if (h->turn == 1) {
            h->turn = 0;
            pthread_cond_broadcast(&h->change);
        }
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static double hand_over(void)
{
    enum { COUNT = 100 };
    hand_over_t h = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    pthread_t thread;
    pthread_create(&thread, NULL, other_side, &h);
    uint64_t start = gb_now_ns();
    pthread_mutex_lock(&h.lock);
    for (int i = 0; i < COUNT; i++) {
        h.turn = 1;
        pthread_cond_broadcast(&h.change);
        while (h.turn == 1)
            pthread_cond_wait(&h.change, &h.lock);
    }
    double ns = since(start, COUNT);
    h.turn = 2;
    pthread_cond_broadcast(&h.change);
    pthread_mutex_unlock(&h.lock);
    pthread_join(thread, NULL);
    return ns;
}

/* ---- the rows ---- */

typedef struct {
    const char *name;
    double target; /* ns; NAN: none is promised */
    double (*measure)(void);
    double (*peer)(void);
} call_row_t;

void api_measure_calls(const api_run_t *run)
{
    const call_row_t rows[] = {
        {"malloc_free", 1000, malloc_free_small, map_unmap},
        {"malloc_free_1m", NAN, malloc_free_1m, NULL},
        {"malloc_free_64m", NAN, malloc_free_64m, NULL},
        {"event_record", 200, event_record, NULL},
        {"stream_sync_idle", 200, stream_sync_idle, NULL},
        {"launch_async", 500, launch_async, NULL},
        {"launch_sync", 5000, launch_sync, hand_over},
        {"launch_rested", NAN, launch_rested, NULL},
        {"graph_launch_per_node", 300, graph_launch, NULL},
        {"graph_run_per_node", NAN, graph_run, NULL},
        {"malloc_async", 500, malloc_async, NULL},
    };
    enum { ROWS = sizeof(rows) / sizeof(rows[0]) };
    static double values[ROWS][API_MAX_ROUNDS], peers[ROWS][API_MAX_ROUNDS];
    NEED(cuEventCreate(&event, 0));
    make_graph();
    for (int r = -1; r < run->rounds; r++) { /* the first one warms up */
        for (size_t i = 0; i < ROWS; i++) {
            values[i][r < 0 ? 0 : r] = rows[i].measure();
            peers[i][r < 0 ? 0 : r] = rows[i].peer ? rows[i].peer() : NAN;
        }
    }
    for (size_t i = 0; i < ROWS; i++)
        api_line(run, rows[i].name, bench_median(values[i], run->rounds), "ns", rows[i].target, NAN,
                 bench_median(peers[i], run->rounds));
    NEED(cuGraphExecDestroy(graph_exec));
    NEED(cuEventDestroy_v2(event));
}

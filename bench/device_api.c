/* device_api - what the software device's own engine costs, beside the kernels.
 *
 * launch_async   nanoseconds for a launch of an empty kernel to return, of many in a row
 * launch_sync    nanoseconds for a launch of an empty kernel and waiting for it; peer: handing a job
 *                to another thread and back, as a device without helping waiters would do
 * launch_rested  the same after 1 ms of rest, when the workers sleep
 * copy_in        GB/s of cuMemcpyHtoD, 64 MiB; floor: memcpy by as many threads
 * fill           GB/s of cuMemsetD32, 64 MiB; floor: memset by as many threads
 * scaling        times as fast with two threads as with one, arithmetic kernel; floor: 2
 * start_cached   milliseconds from process start to the first result, kernel cached; floor: a process
 *                that does nothing
 * ratio: value / peer for launch_sync, value / floor else; NAN where there is neither. Medians of
 * interleaved rounds. Promises: launch_async at most 500, launch_sync at most 5000, copy_in and fill
 * at least 0.9, scaling at least 0.85. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench_line.h"
#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "common/core/gb_opt.h"
#include "common/cuda/gb_driver.h"

enum { MAX_ROUNDS = 200, BYTES = 64 << 20, MAX_THREADS = 64 };

typedef struct {
    int json, smoke;
    int64_t threads, rounds;
    const char *child;
} options_t;

#define FIELD(name) offsetof(options_t, name)

static const gb_opt_t option_list[] = {
    {"json", GB_OPT_FLAG, FIELD(json), "0", NULL, NULL, "one JSON object a line"},
    {"smoke", GB_OPT_FLAG, FIELD(smoke), "0", NULL, NULL, "few short rounds"},
    {"threads", GB_OPT_INT, FIELD(threads), "2", NULL, "N", "threads of the device"},
    {"rounds", GB_OPT_INT, FIELD(rounds), "25", NULL, "N", "interleaved rounds"},
    {"child", GB_OPT_STRING, FIELD(child), NULL, NULL, "WHAT",
     "for the benchmark's own processes: nothing, start or work"},
    {NULL},
};

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry nothing()\n{\n    ret;\n}\n"
    ".visible .entry work(.param .u64 out, .param .u32 n)\n"
    "{\n"
    "    .reg .pred %p<2>;\n    .reg .u32 %r<8>;\n    .reg .u64 %rd<4>;\n    .reg .f32 %f<4>;\n"
    "    ld.param.u64 %rd1, [out];\n    ld.param.u32 %r1, [n];\n"
    "    mov.u32 %r2, %ctaid.x;\n    mov.u32 %r3, %ntid.x;\n    mov.u32 %r4, %tid.x;\n"
    "    mad.lo.s32 %r5, %r2, %r3, %r4;\n    cvt.rn.f32.u32 %f1, %r5;\n    mov.u32 %r6, 0;\n"
    "AGAIN:\n    fma.rn.f32 %f1, %f1, 0f3F7FFFFE, 0f3A83126F;\n    add.u32 %r6, %r6, 1;\n"
    "    setp.lt.u32 %p1, %r6, %r1;\n    @%p1 bra AGAIN;\n"
    "    mul.wide.u32 %rd2, %r5, 4;\n    add.u64 %rd3, %rd1, %rd2;\n"
    "    st.global.f32 [%rd3], %f1;\n    ret;\n}\n";

static const gb_cuda_table_t *cu;
static CUstream stream;
static CUfunction nothing, work;

static void need(CUresult result, const char *what)
{
    const char *name = "?";
    if (result == CUDA_SUCCESS)
        return;
    cu->cuGetErrorName(result, &name);
    gb_complain("%s: %s: run the device's tests", what, name);
    exit(1);
}

#define NEED(call) need(cu->call, #call)

static void open_device(void)
{
    const gb_driver_t *driver;
    CUcontext context;
    CUmodule module;
    if (gb_driver_choose("cpu", &driver) != GB_OK) {
        gb_complain("%s", gb_why());
        exit(1);
    }
    cu = &driver->table;
    NEED(cuInit(0));
    NEED(cuCtxCreate_v2(&context, 0, 0));
    NEED(cuModuleLoadData(&module, ptx));
    NEED(cuModuleGetFunction(&nothing, module, "nothing"));
    NEED(cuModuleGetFunction(&work, module, "work"));
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void launch(void)
{
    NEED(cuLaunchKernel(nothing, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

static void finish(void)
{
    NEED(cuStreamSynchronize(stream));
}

static double launches_in_a_row(void)
{
    enum { COUNT = 1000 };
    uint64_t start = gb_now_ns();
    for (int i = 0; i < COUNT; i++)
        launch();
    double ns = (double)(gb_now_ns() - start) / COUNT;
    finish();
    return ns;
}

static double launch_and_wait(int count, uint64_t rest_ns)
{
    uint64_t total = 0;
    for (int i = 0; i < count; i++) {
        if (rest_ns)
            nanosleep(&(struct timespec){0, (long)rest_ns}, NULL);
        uint64_t start = gb_now_ns();
        launch();
        finish();
        total += gb_now_ns() - start;
    }
    return (double)total / count;
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

static double hand_over(int count)
{
    hand_over_t h = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    pthread_t thread;
    pthread_create(&thread, NULL, other_side, &h);
    uint64_t start = gb_now_ns();
    pthread_mutex_lock(&h.lock);
    for (int i = 0; i < count; i++) {
        h.turn = 1;
        pthread_cond_broadcast(&h.change);
        while (h.turn == 1)
            pthread_cond_wait(&h.change, &h.lock);
    }
    double ns = (double)(gb_now_ns() - start) / count;
    h.turn = 2;
    pthread_cond_broadcast(&h.change);
    pthread_mutex_unlock(&h.lock);
    pthread_join(thread, NULL);
    return ns;
}

/* ---- moving memory with plain threads ---- */

typedef struct {
    char *to;
    const char *from; /* NULL: fill */
    size_t bytes;
} part_t;

static void *move_part(void *argument)
{
    part_t *part = argument;
    if (part->from)
        memcpy(part->to, part->from, part->bytes);
    else
        memset(part->to, 0x11, part->bytes);
    return NULL;
}

static double plain_threads(char *to, const char *from, int threads)
{
    pthread_t ids[MAX_THREADS];
    part_t parts[MAX_THREADS];
    size_t each = BYTES / (size_t)threads;
    uint64_t start = gb_now_ns();
    for (int i = 0; i < threads; i++) {
        size_t at = each * (size_t)i;
        parts[i] = (part_t){to + at, from ? from + at : NULL, each};
        if (i)
            pthread_create(&ids[i], NULL, move_part, &parts[i]);
    }
    move_part(&parts[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(ids[i], NULL);
    return (double)BYTES / (double)(gb_now_ns() - start);
}

static void moving(const options_t *options, int rounds)
{
    double in[MAX_ROUNDS], in_floor[MAX_ROUNDS], fill[MAX_ROUNDS], fill_floor[MAX_ROUNDS];
    char *host = malloc(BYTES), *plain = malloc(BYTES);
    int threads = (int)options->threads;
    CUdeviceptr device;
    NEED(cuMemAlloc_v2(&device, BYTES));
    memset(host, 1, BYTES);
    memset(plain, 2, BYTES);
    for (int r = -1; r < rounds; r++) { /* the first one touches the pages */
        int at = r < 0 ? 0 : r;
        uint64_t start = gb_now_ns();
        NEED(cuMemcpyHtoD_v2(device, host, BYTES));
        in[at] = (double)BYTES / (double)(gb_now_ns() - start);
        in_floor[at] = plain_threads(plain, host, threads);
        start = gb_now_ns();
        NEED(cuMemsetD32_v2(device, 0x11111111, BYTES / 4));
        NEED(cuCtxSynchronize_v2(NULL));
        fill[at] = (double)BYTES / (double)(gb_now_ns() - start);
        fill_floor[at] = plain_threads(plain, NULL, threads);
    }
    double v = bench_median(in, rounds), f = bench_median(in_floor, rounds);
    bench_line(options->json, "device_api", "copy_in", v, "GB/s", f, NAN, v / f);
    v = bench_median(fill, rounds);
    f = bench_median(fill_floor, rounds);
    bench_line(options->json, "device_api", "fill", v, "GB/s", f, NAN, v / f);
    NEED(cuMemFree_v2(device));
    free(host);
    free(plain);
}

/* ---- processes of our own ---- */

/* Runs this program as a child; seconds from start to end, or what it printed. */
static double run_child(const char *what, int threads, int printed)
{
    char self[512], count[32], line[64] = "";
    int out[2], status;
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[length > 0 ? length : 0] = 0;
    snprintf(count, sizeof(count), "%d", threads);
    if (pipe(out))
        return NAN;
    uint64_t start = gb_now_ns();
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out[1], 1);
        setenv("GABLE_CPU_THREADS", count, 1);
        execl(self, self, "--child", what, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    ssize_t got = read(out[0], line, sizeof(line) - 1);
    waitpid(pid, &status, 0);
    double seconds = (double)(gb_now_ns() - start) * 1e-9;
    close(out[0]);
    if (!WIFEXITED(status) || WEXITSTATUS(status) || (printed && got <= 0)) {
        gb_complain("the child for '%s' failed: run the device's tests", what);
        exit(1);
    }
    return printed ? strtod(line, NULL) : seconds;
}

static int child(const char *what)
{
    CUdeviceptr out;
    uint32_t n = strcmp(what, "work") ? 1 : 2000;
    unsigned blocks = strcmp(what, "work") ? 1 : 512;
    uint64_t best = UINT64_MAX;
    if (strcmp(what, "nothing") == 0)
        return 0;
    open_device();
    NEED(cuMemAlloc_v2(&out, 512 * 256 * 4));
    void *params[] = {&out, &n};
    for (int i = 0; i < (blocks > 1 ? 5 : 1); i++) {
        uint64_t start = gb_now_ns();
        NEED(cuLaunchKernel(work, blocks, 1, 1, 256, 1, 1, 0, stream, params, NULL));
        finish();
        uint64_t took = gb_now_ns() - start;
        best = took < best ? took : best;
    }
    printf("%llu\n", (unsigned long long)best);
    return 0;
}

static void processes(const options_t *options, int rounds)
{
    double one[MAX_ROUNDS], two[MAX_ROUNDS], start[MAX_ROUNDS], empty[MAX_ROUNDS];
    rounds = rounds > 9 ? 9 : rounds;
    (void)run_child("start", (int)options->threads, 0); /* fills the cache */
    (void)run_child("work", 1, 1);
    for (int r = 0; r < rounds; r++) {
        one[r] = run_child("work", 1, 1);
        two[r] = run_child("work", 2, 1);
        start[r] = run_child("start", (int)options->threads, 0) * 1e3;
        empty[r] = run_child("nothing", (int)options->threads, 0) * 1e3;
    }
    double speedup = bench_median(one, rounds) / bench_median(two, rounds);
    bench_line(options->json, "device_api", "scaling", speedup, "times", 2, NAN, speedup / 2);
    double v = bench_median(start, rounds), f = bench_median(empty, rounds);
    bench_line(options->json, "device_api", "start_cached", v, "ms", f, NAN, v / f);
}

static void launches(const options_t *options, int rounds)
{
    double async[MAX_ROUNDS], sync[MAX_ROUNDS], rested[MAX_ROUNDS], peer[MAX_ROUNDS];
    (void)launches_in_a_row();
    for (int r = 0; r < rounds; r++) {
        async[r] = launches_in_a_row();
        sync[r] = launch_and_wait(200, 0);
        rested[r] = launch_and_wait(5, 1000000);
        peer[r] = hand_over(100);
    }
    bench_line(options->json, "device_api", "launch_async", bench_median(async, rounds), "ns", NAN,
               NAN, NAN);
    double v = bench_median(sync, rounds), p = bench_median(peer, rounds);
    bench_line(options->json, "device_api", "launch_sync", v, "ns", NAN, p, v / p);
    bench_line(options->json, "device_api", "launch_rested", bench_median(rested, rounds), "ns",
               NAN, NAN, NAN);
}

int main(int argc, char **argv)
{
    static const gb_opt_table_t table = {
        "device_api", "device_api [options]",
        "Measures launches, copies, scaling and start of the software device.", option_list};
    options_t options;
    int first;
    char threads[32];
    gb_log_init("device_api", GB_LOG_WARN);
    gb_status_t status = gb_opt_parse(&table, argc, argv, 0, &options, &first);
    if (status == GB_ERR_CANCELLED)
        return 0;
    if (status != GB_OK || first < argc || options.rounds < 1 || options.rounds > MAX_ROUNDS ||
        options.threads < 1 || options.threads > MAX_THREADS) {
        gb_complain("%s", status != GB_OK ? gb_why() : "unexpected operand or number: see --help");
        return 2;
    }
    if (options.child)
        return child(options.child);
    snprintf(threads, sizeof(threads), "%d", (int)options.threads);
    setenv("GABLE_CPU_THREADS", threads, 1);
    int rounds = options.smoke ? 2 : (int)options.rounds;
    open_device();
    launches(&options, rounds);
    moving(&options, rounds);
    processes(&options, rounds);
    return 0;
}

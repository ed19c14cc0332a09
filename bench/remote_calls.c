/* remote_calls - what single calls cost through client, Unix socket and session, on the `null` driver,
 * which does nothing: pure remoting.
 *
 *   launch     us per queued kernel launch (synchronised once at the end); floor: the same bytes through
 *              a socket in batches of 32 KiB, read by another process
 *   sync       us of a synchronising call; floor: 64 bytes there and back over a socket, blocking
 *   step       us of 401 KB in, 30 launches, 4 bytes out; floor: those bytes over a socket
 *   h2d, d2h   GB/s of 64 MiB; floor: the same over a socket
 *
 * ratio: value / floor (for GB/s floor / value, so that more is worse everywhere). Medians of
 * interleaved rounds. No peer is installed by any package; field notes have Lupine at 4 us a launch,
 * 35 us a synchronous call, 613 us a step, 1.1-1.3 GB/s, Cricket at 18.6, 17, 723 and 0.9. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench_line.h"
#include "bench/bench_process.h"
#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "common/core/gb_opt.h"
#include "common/core/gb_path.h"
#include "common/cuda/gb_driver.h"
#include "tests/e2e/remoting/saxpy_ptx.h"

enum {
    MAX_ROUNDS = 64,
    READY_MS = 20000,
    LAUNCH_BYTES = 88,
    BATCH = 32 << 10,
    STEP_IN = 401 << 10
};

typedef struct {
    int json, smoke;
    int64_t rounds;
} options_t;

static const gb_opt_t option_list[] = {
    {"json", GB_OPT_FLAG, offsetof(options_t, json), "0", NULL, NULL, "one JSON object a line"},
    {"smoke", GB_OPT_FLAG, offsetof(options_t, smoke), "0", NULL, NULL, "two short rounds"},
    {"rounds", GB_OPT_INT, offsetof(options_t, rounds), "11", NULL, "N", "interleaved rounds"},
    {NULL},
};

/* ---- the floor: a process that reads, and answers when told to ---- */

typedef struct {
    int fd;
    pid_t pid;
    char *buffer;
} mirror_t;

typedef struct {
    uint64_t in;  /* bytes that follow */
    uint64_t out; /* bytes to answer */
} order_t;

static int all(int fd, char *buffer, uint64_t size, size_t piece, int writing)
{
    while (size > 0) {
        size_t n = size < piece ? size : piece;
        ssize_t got = writing ? write(fd, buffer, n) : read(fd, buffer, n);
        if (got <= 0)
            return 0;
        size -= (uint64_t)got;
    }
    return 1;
}

static void reflect(int fd, char *buffer)
{
    order_t order;
    while (all(fd, (char *)&order, sizeof(order), sizeof(order), 0) &&
           all(fd, buffer, order.in, 256 << 10, 0) && all(fd, buffer, order.out, 256 << 10, 1))
        ;
}

static int mirror_start(mirror_t *m)
{
    int ends[2];
    m->buffer = calloc(1, 256 << 10);
    if (!m->buffer || socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        return 0;
    m->pid = fork();
    if (m->pid == 0) {
        close(ends[0]);
        reflect(ends[1], m->buffer);
        _exit(0);
    }
    close(ends[1]);
    m->fd = ends[0];
    return m->pid > 0;
}

static void mirror_stop(mirror_t *m)
{
    close(m->fd);
    waitpid(m->pid, NULL, 0);
    free(m->buffer);
}

/* Microseconds of one exchange with the mirror. */
static double floor_us(mirror_t *m, uint64_t in, uint64_t out, size_t piece)
{
    order_t order = {in, out};
    uint64_t start = gb_now_ns();
    int good = all(m->fd, (char *)&order, sizeof(order), sizeof(order), 1) &&
               all(m->fd, m->buffer, in, piece, 1) && all(m->fd, m->buffer, out, piece, 0);
    return good ? (double)(gb_now_ns() - start) / 1000 : NAN;
}

/* ---- the calls ---- */

typedef struct {
    const gb_cuda_table_t *cuda;
    CUfunction function;
    CUdeviceptr memory;
    char *host;
    size_t bulk;
    int launches, syncs;
} target_t;

static CUresult launch(target_t *t, int count)
{
    float a = 1;
    unsigned n = 0;
    void *args[] = {&t->memory, &t->memory, &a, &n};
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < count && !result; i++)
        result = t->cuda->cuLaunchKernel(t->function, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL);
    return result;
}

static CUresult do_launches(target_t *t)
{
    CUresult result = launch(t, t->launches);
    return result ? result : t->cuda->cuCtxSynchronize();
}

static CUresult do_syncs(target_t *t)
{
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < t->syncs && !result; i++)
        result = t->cuda->cuStreamSynchronize(NULL);
    return result;
}

static CUresult do_step(target_t *t)
{
    CUresult result = t->cuda->cuMemcpyHtoD_v2(t->memory, t->host, STEP_IN);
    if (!result)
        result = launch(t, 30);
    return result ? result : t->cuda->cuMemcpyDtoH_v2(t->host, t->memory, 4);
}

static CUresult do_up(target_t *t)
{
    CUresult result = t->cuda->cuMemcpyHtoD_v2(t->memory, t->host, t->bulk);
    return result ? result : t->cuda->cuCtxSynchronize();
}

static CUresult do_down(target_t *t)
{
    return t->cuda->cuMemcpyDtoH_v2(t->host, t->memory, t->bulk);
}

static double call_us(target_t *t, CUresult (*body)(target_t *))
{
    uint64_t start = gb_now_ns();
    CUresult result = body(t);
    return result ? NAN : (double)(gb_now_ns() - start) / 1000;
}

static CUresult prepare(target_t *t)
{
    CUcontext context;
    CUmodule module;
    const gb_cuda_table_t *cuda = t->cuda;
    CUresult result = cuda->cuInit(0);
    if (!result)
        result = cuda->cuDevicePrimaryCtxRetain(&context, 0);
    if (!result)
        result = cuda->cuCtxSetCurrent(context);
    if (!result)
        result = cuda->cuModuleLoadData(&module, saxpy_ptx);
    if (!result)
        result = cuda->cuModuleGetFunction(&t->function, module, "saxpy");
    return result ? result : cuda->cuMemAlloc_v2(&t->memory, t->bulk);
}

/* ---- rounds ---- */

typedef struct {
    double value[MAX_ROUNDS], floor[MAX_ROUNDS];
} series_t;

static void report(const options_t *o, const char *metric, const char *unit, series_t *s,
                   int rounds, double scale, int rate)
{
    double value = bench_median(s->value, rounds), least = bench_median(s->floor, rounds);
    value = rate ? scale / value : value / scale;
    least = rate ? scale / least : least / scale;
    bench_line(o->json, "remote_calls", metric, value, unit, least, NAN,
               rate ? least / value : value / least);
}

static int measure(const options_t *o, target_t *t, mirror_t *m)
{
    static series_t launches, syncs, step, up, down;
    int rounds = o->smoke ? 2 : (int)(o->rounds < MAX_ROUNDS ? o->rounds : MAX_ROUNDS);
    uint64_t launch_bytes = (uint64_t)t->launches * LAUNCH_BYTES;
    for (int i = -1; i < rounds; i++) { /* one to warm up */
        int k = i < 0 ? 0 : i;
        launches.value[k] = call_us(t, do_launches);
        launches.floor[k] = floor_us(m, launch_bytes, 16, BATCH);
        syncs.value[k] = call_us(t, do_syncs);
        syncs.floor[k] = 0;
        for (int n = 0; n < t->syncs; n++)
            syncs.floor[k] += floor_us(m, 48, 64, 64);
        step.value[k] = call_us(t, do_step);
        step.floor[k] = floor_us(m, STEP_IN + 30 * LAUNCH_BYTES, 64, 256 << 10);
        up.value[k] = call_us(t, do_up);
        up.floor[k] = floor_us(m, t->bulk, 16, 256 << 10);
        down.value[k] = call_us(t, do_down);
        down.floor[k] = floor_us(m, 0, t->bulk, 256 << 10);
        if (isnan(launches.value[k] + syncs.value[k] + step.value[k] + up.value[k] + down.value[k]))
            return 0;
    }
    report(o, "launch", "us", &launches, rounds, t->launches, 0);
    report(o, "sync", "us", &syncs, rounds, t->syncs, 0);
    report(o, "step", "us", &step, rounds, 1, 0);
    report(o, "h2d", "GB/s", &up, rounds, (double)t->bulk / 1000, 1);
    report(o, "d2h", "GB/s", &down, rounds, (double)t->bulk / 1000, 1);
    return 1;
}

static int run(const options_t *o, const char *proxies)
{
    const gb_driver_t *driver;
    mirror_t mirror;
    target_t t = {.bulk = o->smoke ? 8u << 20 : 64u << 20,
                  .launches = o->smoke ? 2000 : 20000,
                  .syncs = o->smoke ? 50 : 500};
    setenv("GABLE_PROXIES", proxies, 1);
    if (!mirror_start(&mirror) || gb_driver_choose("remote", &driver)) {
        gb_complain("%s", gb_why());
        return 1;
    }
    t.cuda = &driver->table;
    t.host = calloc(1, t.bulk);
    int good = t.host && prepare(&t) == CUDA_SUCCESS && measure(o, &t, &mirror);
    if (!good)
        gb_complain("a call failed: see the lines above");
    free(t.host);
    mirror_stop(&mirror);
    return !good;
}

int main(int argc, char **argv)
{
    static const gb_opt_table_t table = {"remote_calls", "remote_calls [options]",
                                         "Costs of single calls through a session.", option_list};
    options_t o;
    int first;
    char dir[] = "/tmp/remote_calls.XXXXXX", path[512], socket_path[64], line[256], proxies[80];
    bench_process_t proxy;
    gb_log_init("remote_calls", GB_LOG_WARN);
    gb_status_t status = gb_opt_parse(&table, argc, argv, 0, &o, &first);
    if (status == GB_ERR_CANCELLED)
        return 0;
    if (status) {
        gb_complain("%s", gb_why());
        return 2;
    }
    if (!mkdtemp(dir) || gb_path_installed("bin/gpu-proxy", path, sizeof(path))) {
        gb_complain("bin/gpu-proxy is not there: build it first");
        return 1;
    }
    snprintf(socket_path, sizeof(socket_path), "%s/proxy", dir);
    snprintf(proxies, sizeof(proxies), "unix:%s", socket_path);
    char *const command[] = {path,        "--insecure", "--data-listen", "none", "--unix",
                             socket_path, "--driver",   "null",          NULL};
    int code = 1;
    status = bench_process_start(command, 1, &proxy);
    if (status == GB_OK) {
        status = bench_process_line(&proxy, "ready", READY_MS, line, sizeof(line));
        if (status == GB_OK)
            code = run(&o, proxies);
        bench_process_stop(&proxy);
    }
    if (status)
        gb_complain("%s", gb_why());
    unlink(socket_path);
    rmdir(dir);
    return code;
}

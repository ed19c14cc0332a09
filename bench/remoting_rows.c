/* Calls, copies and memory. */
#include "bench/remoting_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench_line.h"
#include "common/core/gb_clock.h"
#include "common/cuda/gb_driver.h"
#include "tests/e2e/remoting/saxpy_ptx.h"

enum {
    MAX_ROUNDS = 64,
    LAUNCH_BYTES = 88, /* a launch of saxpy on the wire */
    BATCH = 32 << 10,
    PIECE = 256 << 10,
    MIB = 1 << 20,
    STEP_IN = 401 << 10,
    STEP_LAUNCHES = 30,
    LAUNCHES = 1000,
};

typedef struct {
    const rows_t *o;
    const gb_cuda_table_t *cuda;
    CUfunction function;
    CUdeviceptr memory;
    uint8_t *host;
    uint64_t bulk;
    int syncs, launch_rounds, steps;
    raw_t *raw;
} target_t;

int rows_wanted(const rows_t *o, const char *what)
{
    return !*o->only || strstr(what, o->only) != NULL;
}

void rows_line(const rows_t *o, const char *what, double value, const char *unit, double floor)
{
    char metric[96];
    int rate = strcmp(unit, "GB/s") == 0;
    snprintf(metric, sizeof(metric), "%s.%s.%s", o->link_name, o->placement, what);
    bench_line(o->json, "remoting", metric, value, unit, floor, NAN,
               rate ? floor / value : value / floor);
}

/* ---- the calls ---- */

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

static CUresult do_syncs(target_t *t)
{
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < t->syncs && !result; i++)
        result = t->cuda->cuStreamSynchronize(NULL);
    return result;
}

static double floor_syncs(target_t *t)
{
    return raw_turns(t->raw, (uint64_t)t->syncs) * t->syncs;
}

static CUresult do_launches(target_t *t)
{
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < t->launch_rounds && !result; i++) {
        result = launch(t, LAUNCHES);
        if (!result)
            result = t->cuda->cuCtxSynchronize();
    }
    return result;
}

static double floor_launches(target_t *t)
{
    double us = 0;
    for (int i = 0; i < t->launch_rounds; i++)
        us += raw_exchange(t->raw, LAUNCHES * LAUNCH_BYTES, 64, BATCH);
    return us;
}

static CUresult do_steps(target_t *t)
{
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < t->steps && !result; i++) {
        result = t->cuda->cuMemcpyHtoD_v2(t->memory, t->host, STEP_IN);
        if (!result)
            result = launch(t, STEP_LAUNCHES);
        if (!result)
            result = t->cuda->cuMemcpyDtoH_v2(t->host, t->memory, 4);
    }
    return result;
}

static double floor_steps(target_t *t)
{
    double us = 0;
    for (int i = 0; i < t->steps; i++)
        us += raw_exchange(t->raw, STEP_IN + STEP_LAUNCHES * LAUNCH_BYTES, 64, PIECE);
    return us;
}

static CUresult do_up(target_t *t)
{
    CUresult result = t->cuda->cuMemcpyHtoD_v2(t->memory, t->host, t->bulk);
    return result ? result : t->cuda->cuCtxSynchronize();
}

static CUresult do_up_pieces(target_t *t)
{
    CUresult result = CUDA_SUCCESS;
    for (uint64_t at = 0; at < t->bulk && !result; at += MIB)
        result = t->cuda->cuMemcpyHtoDAsync_v2(t->memory + at, t->host + at, MIB, NULL);
    return result ? result : t->cuda->cuCtxSynchronize();
}

static double floor_up(target_t *t)
{
    return raw_exchange(t->raw, t->bulk, 64, PIECE);
}

static CUresult do_down(target_t *t)
{
    return t->cuda->cuMemcpyDtoH_v2(t->host, t->memory, t->bulk);
}

static double floor_down(target_t *t)
{
    return raw_exchange(t->raw, 0, t->bulk, PIECE);
}

static double floor_memcpy(target_t *t)
{
    return raw_memcpy(t->raw, t->bulk);
}

/* ---- rounds ---- */

typedef struct {
    const char *name, *unit;
    CUresult (*body)(target_t *);
    double (*floor)(target_t *);
    double scale; /* microseconds are divided by it; of rates: bytes in thousands */
    double value[MAX_ROUNDS], least[MAX_ROUNDS];
} row_t;

static gb_status_t prepare(target_t *t)
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
    if (!result)
        result = cuda->cuMemAlloc_v2(&t->memory, t->bulk);
    return result ? gb_fail(GB_ERR_IO, "the benchmark cannot begin: CUDA error %d", result) : GB_OK;
}

/* Bytes that no link could pack. */
static void fill(uint8_t *bytes, uint64_t size)
{
    uint64_t x = 88172645463325252ull;
    for (uint64_t i = 0; i + 8 <= size; i += 8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(bytes + i, &x, 8);
    }
}

static gb_status_t target_make(const rows_t *o, target_t *t)
{
    const gb_driver_t *driver;
    *t = (target_t){.o = o,
                    .bulk = o->smoke ? 8u << 20 : 64u << 20,
                    .syncs = o->smoke ? 50 : 1000,
                    .launch_rounds = o->smoke ? 1 : 10,
                    .steps = o->smoke ? 2 : 50};
    gb_status_t status = gb_driver_choose("remote", &driver);
    if (status)
        return status;
    t->cuda = &driver->table;
    t->raw = raw_open(o->link, o->there, strcmp(o->placement, "split") == 0);
    t->host = malloc(t->bulk);
    if (!t->host || !t->raw)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory, or no peer for the floor");
    fill(t->host, t->bulk);
    return prepare(t);
}

static gb_status_t measure(target_t *t, row_t *rows, int count)
{
    const rows_t *o = t->o;
    int rounds = o->smoke ? 2 : o->rounds;
    for (int i = -1; i < rounds; i++) /* one to warm up */
        for (int k = 0; k < count; k++) {
            row_t *r = &rows[k];
            if (!rows_wanted(o, r->name))
                continue;
            uint64_t start = gb_now_ns();
            CUresult result = r->body(t);
            r->value[i < 0 ? 0 : i] = (double)(gb_now_ns() - start) / 1000;
            r->least[i < 0 ? 0 : i] = r->floor(t);
            if (result || isnan(r->least[i < 0 ? 0 : i]))
                return gb_fail(GB_ERR_IO, "%s failed: CUDA error %d", r->name, result);
        }
    for (int k = 0; k < count; k++) {
        row_t *r = &rows[k];
        double value = bench_median(r->value, rounds), least = bench_median(r->least, rounds);
        int rate = strcmp(r->unit, "GB/s") == 0;
        if (rows_wanted(o, r->name))
            rows_line(o, r->name, rate ? r->scale / value : value / r->scale, r->unit,
                      rate ? r->scale / least : least / r->scale);
    }
    return GB_OK;
}

/* ---- memory ---- */

/* MiB of a line of /proc/PID/status. */
static double status_mib(pid_t pid, const char *key)
{
    char path[64], line[256];
    double kib = NAN;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f))
        if (!strncmp(line, key, strlen(key)))
            kib = atof(line + strlen(key) + 1);
    if (f)
        fclose(f);
    return kib / 1024;
}

/* Queues as much as a program can. */
static CUresult queue_much(target_t *t)
{
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < 4 && !result; i++) {
        result = launch(t, 20 * LAUNCHES);
        if (!result)
            result = do_up_pieces(t);
        if (!result)
            result = do_down(t);
    }
    return result;
}

static gb_status_t measure_memory(const rows_t *o, const site_t *site)
{
    target_t t;
    double before = status_mib(getpid(), "VmRSS");
    gb_status_t status = target_make(o, &t);
    if (status)
        return status;
    double own = (double)t.bulk / MIB + 64; /* the program's own buffer, and the floor's */
    if (queue_much(&t))
        return gb_fail(GB_ERR_IO, "queueing failed");
    pid_t session = site_session(site, 0);
    rows_line(o, "memory_client", status_mib(getpid(), "VmHWM") - before - own, "MiB", NAN);
    rows_line(o, "memory_session", status_mib(session, "VmHWM"), "MiB", NAN);
    return GB_OK;
}

/* ---- what the outside calls ---- */

gb_status_t rows_calls(const rows_t *o, const site_t *site)
{
    static row_t rows[] = {
        {.name = "sync", .unit = "us", .body = do_syncs, .floor = floor_syncs},
        {.name = "launch", .unit = "us", .body = do_launches, .floor = floor_launches},
        {.name = "step", .unit = "us", .body = do_steps, .floor = floor_steps},
        {.name = "h2d", .unit = "GB/s", .body = do_up, .floor = floor_up},
        {.name = "d2h", .unit = "GB/s", .body = do_down, .floor = floor_down},
        {.name = "h2d_async", .unit = "GB/s", .body = do_up_pieces, .floor = floor_up}};
    target_t t;
    if (site)
        return rows_wanted(o, "memory") ? measure_memory(o, site) : GB_OK;
    gb_status_t status = target_make(o, &t);
    if (status)
        return status;
    rows[0].scale = t.syncs;
    rows[1].scale = t.launch_rounds * LAUNCHES;
    rows[2].scale = t.steps;
    for (int i = 3; i < 6; i++)
        rows[i].scale = (double)t.bulk / 1000;
    return measure(&t, rows, 6);
}

gb_status_t rows_device(const rows_t *o)
{
    int shared = o->link == RAW_SHM;
    row_t *rows = calloc(2, sizeof(*rows));
    target_t t;
    gb_status_t status = rows ? target_make(o, &t) : GB_ERR_NO_MEMORY;
    if (status == GB_OK) {
        double scale = (double)t.bulk / 1000;
        rows[0] = (row_t){.name = "h2d_device", .unit = "GB/s", .body = do_up, .scale = scale};
        rows[1] = (row_t){.name = "d2h_device", .unit = "GB/s", .body = do_down, .scale = scale};
        rows[0].floor = shared ? floor_memcpy : floor_up;
        rows[1].floor = shared ? floor_memcpy : floor_down;
        status = measure(&t, rows, 2);
    }
    free(rows);
    return status;
}

gb_status_t rows_tiny(const rows_t *o)
{
    double seconds[5];
    int copies = o->smoke ? 10000 : 1000000, rounds = o->smoke ? 1 : 3;
    target_t t;
    setenv("GABLE_LINK_EMULATE", "rtt=1ms", 1);
    gb_status_t status = target_make(o, &t);
    for (int i = 0; i < rounds && status == GB_OK; i++) {
        uint64_t start = gb_now_ns();
        CUresult result = CUDA_SUCCESS;
        for (int k = 0; k < copies && !result; k++)
            result = t.cuda->cuMemcpyHtoD_v2(t.memory + (uint64_t)(k % 4096) * 64,
                                             t.host + (k % 4096) * 64, 64);
        if (!result)
            result = t.cuda->cuCtxSynchronize();
        seconds[i] = (double)(gb_now_ns() - start) / 1e9;
        if (result)
            status = gb_fail(GB_ERR_IO, "a copy failed: CUDA error %d", result);
    }
    if (status == GB_OK)
        rows_line(o, "tiny_copies", bench_median(seconds, rounds), "s",
                  (double)copies * (64 + 48) / 1e9);
    return status;
}

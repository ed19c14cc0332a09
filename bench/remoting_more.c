/* Opening, training and copies between proxies. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench_line.h"
#include "bench/remoting_rows.h"
#include "common/core/gb_clock.h"
#include "common/cuda/gb_driver.h"
#include "worker/data/wk_dataset.h"
#include "worker/train/wk_single.h"

enum { MAX_ROUNDS = 64, MANY = 64, COPY = 64 << 20 };

/* ---- opening ---- */

/* From cuInit to a context on every device that there is. */
static CUresult open_all(const gb_cuda_table_t *cuda)
{
    CUcontext context;
    int count = 0;
    CUresult result = cuda->cuInit(0);
    if (!result)
        result = cuda->cuDeviceGetCount(&count);
    for (int i = 0; i < count && !result; i++) {
        result = cuda->cuDevicePrimaryCtxRetain(&context, i);
        if (!result)
            result = cuda->cuCtxSetCurrent(context);
        if (!result)
            result = cuda->cuCtxSynchronize();
    }
    return result;
}

typedef struct {
    pid_t pid;
    int go, done; /* pipes: a byte to begin and one to end; the milliseconds */
} opener_t;

/* A program that opens all devices through `driver` when told to, and ends when told to. */
static gb_status_t opener_start(const char *name, opener_t *out)
{
    int go[2], done[2];
    char byte;
    if (pipe(go) || pipe(done))
        return gb_fail(GB_ERR_IO, "no pipe");
    pid_t pid = fork();
    if (pid == 0) {
        const gb_driver_t *driver;
        double ms = NAN;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(go[1]);
        close(done[0]);
        if (gb_driver_choose(name, &driver) == GB_OK && write(done[1], &ms, sizeof(ms)) > 0 &&
            read(go[0], &byte, 1) == 1) {
            uint64_t start = gb_now_ns();
            if (open_all(&driver->table) == CUDA_SUCCESS)
                ms = (double)(gb_now_ns() - start) / 1e6;
        }
        if (write(done[1], &ms, sizeof(ms)) > 0 && read(go[0], &byte, 1) >= 0)
            exit(0);
        _exit(1);
    }
    close(go[0]);
    close(done[1]);
    double loaded;
    *out = (opener_t){pid, go[1], done[0]};
    return pid > 0 && read(done[0], &loaded, sizeof(loaded)) == sizeof(loaded)
               ? GB_OK
               : gb_fail(GB_ERR_IO, "a program does not start");
}

static void opener_go(const opener_t *o)
{
    if (write(o->go, "", 1) != 1)
        perror("remoting");
}

static double opener_ms(const opener_t *o)
{
    double ms = NAN;
    return read(o->done, &ms, sizeof(ms)) == sizeof(ms) ? ms : NAN;
}

/* A byte, not the end of the pipe: later programs have copies of it. */
static void opener_stop(opener_t *o)
{
    opener_go(o);
    close(o->go);
    close(o->done);
    waitpid(o->pid, NULL, 0);
}

static double open_once(const char *driver)
{
    opener_t opener;
    if (opener_start(driver, &opener))
        return NAN;
    opener_go(&opener);
    double ms = opener_ms(&opener);
    opener_stop(&opener);
    return ms;
}

/* Milliseconds through two proxies, less those of the software device in process. */
static gb_status_t measure_open(const rows_t *o, const char *what, int spare)
{
    double remote[MAX_ROUNDS], direct[MAX_ROUNDS];
    int rounds = o->smoke ? 2 : o->rounds;
    site_t site;
    if (!rows_wanted(o, what))
        return GB_OK;
    const int cpus[SITE_PROXIES] = {o->there, o->there};
    gb_status_t status = site_start(&site, o->link, o->driver, SITE_PROXIES, spare, cpus, o->here);
    if (status)
        return status;
    for (int i = -1; i < rounds && status == GB_OK; i++) {
        int k = i < 0 ? 0 : i;
        setenv("GABLE_CPU_DEVICES", "2", 1);
        direct[k] = open_once(o->driver);
        unsetenv("GABLE_CPU_DEVICES");
        usleep(100000); /* what the last one left behind is over, and spares are ready again */
        remote[k] = open_once("remote");
        if (isnan(direct[k] + remote[k]))
            status = gb_fail(GB_ERR_IO, "a program could not open its devices");
    }
    site_stop(&site);
    if (status == GB_OK) {
        double least = bench_median(direct, rounds);
        rows_line(o, what, bench_median(remote, rounds) - least, "ms", least);
    }
    return status;
}

static gb_status_t measure_many(const rows_t *o)
{
    opener_t openers[MANY];
    double last = 0;
    int started = 0, many = o->smoke ? 4 : MANY;
    site_t site;
    if (!rows_wanted(o, "open64"))
        return GB_OK;
    const int cpus[SITE_PROXIES] = {o->there};
    gb_status_t status = site_start(&site, o->link, o->driver, 1, -1, cpus, o->here);
    if (status)
        return status;
    while (started < many && status == GB_OK) {
        status = opener_start("remote", &openers[started]);
        started += status == GB_OK;
    }
    uint64_t start = gb_now_ns();
    for (int i = 0; i < started; i++)
        opener_go(&openers[i]);
    for (int i = 0; i < started; i++)
        if (isnan(opener_ms(&openers[i])))
            status = gb_fail(GB_ERR_IO, "one of many programs could not open its device");
    last = (double)(gb_now_ns() - start) / 1e6;
    for (int i = 0; i < started; i++)
        opener_stop(&openers[i]);
    site_stop(&site);
    if (status == GB_OK)
        rows_line(o, "open64", last, "ms", NAN);
    return status;
}

gb_status_t rows_open(const rows_t *o)
{
    gb_status_t status = measure_open(o, "open", 4);
    if (status == GB_OK)
        status = measure_open(o, "open_cold", 0);
    return status ? status : measure_many(o);
}

/* ---- a training step ---- */

static const wk_single_config_t training = {
    .epochs = 1, .batch = 128, .lr = 0.05f, .momentum = 0.9f};

static gb_status_t round_ms(wk_trainer_t *t, int steps, double *out)
{
    wk_result_t result;
    uint32_t all = t->train.count;
    gb_status_t status = wk_device_bind(&t->device);
    if (status)
        return status;
    t->train.count = (uint32_t)steps * training.batch;
    status = wk_single_epoch(t, &training, 0, NULL, &result);
    t->train.count = all;
    *out = status == GB_OK ? result.seconds * 1000 / steps : NAN;
    return status;
}

/* Rounds of both sides by turns; the line is the median of the remote ones over that of the others. */
static gb_status_t compare(const rows_t *o, const char *what, wk_trainer_t *here,
                           wk_trainer_t *there)
{
    double here_ms[MAX_ROUNDS], there_ms[MAX_ROUNDS];
    int rounds = o->smoke ? 2 : o->rounds, steps = o->smoke ? 10 : 200;
    gb_status_t status = GB_OK;
    for (int i = -1; status == GB_OK && i < rounds; i++) {
        int at = i < 0 ? 0 : i;
        status = round_ms(i % 2 ? here : there, steps, i % 2 ? &here_ms[at] : &there_ms[at]);
        if (status == GB_OK)
            status = round_ms(i % 2 ? there : here, steps, i % 2 ? &there_ms[at] : &here_ms[at]);
    }
    if (status == GB_OK)
        rows_line(o, what, bench_median(there_ms, rounds), "ms", bench_median(here_ms, rounds));
    return status;
}

gb_status_t rows_train(const rows_t *o, const char *rtt, const char *what)
{
    const gb_driver_t *local, *remote;
    wk_dataset_t data = {0};
    wk_model_t model;
    wk_trainer_t here = {0}, there = {0};
    char line[32];
    snprintf(line, sizeof(line), "rtt=%s", rtt);
    setenv("GABLE_LINK_EMULATE", line, 1);
    gb_status_t status = gb_driver_choose(o->driver, &local);
    if (status == GB_OK)
        status = gb_driver_choose("remote", &remote);
    if (status == GB_OK)
        status = wk_dataset_load(o->data, 10, &data);
    if (status == GB_OK)
        status = wk_model_load("lenet5", &model);
    if (status == GB_OK)
        status = wk_trainer_make(local, 0, &model, &data, training.batch, 1, &here);
    if (status == GB_OK)
        status = wk_trainer_make(remote, 0, &model, &data, training.batch, 1, &there);
    if (status == GB_OK)
        status = compare(o, what, &here, &there);
    wk_dataset_free(&data);
    return status;
}

/* ---- between proxies ---- */

gb_status_t rows_p2p(const rows_t *o)
{
    const gb_driver_t *driver;
    double value[MAX_ROUNDS], least[MAX_ROUNDS];
    int rounds = o->smoke ? 2 : o->rounds;
    uint64_t size = o->smoke ? COPY / 8 : COPY;
    CUcontext context[2];
    CUdeviceptr memory[2];
    gb_status_t status = gb_driver_choose("remote", &driver);
    if (status)
        return status;
    const gb_cuda_table_t *cuda = &driver->table;
    raw_t *raw = raw_open(o->link, o->there, strcmp(o->placement, "split") == 0);
    CUresult result = raw ? cuda->cuInit(0) : CUDA_ERROR_UNKNOWN;
    for (int i = 0; i < 2 && !result; i++) {
        result = cuda->cuDevicePrimaryCtxRetain(&context[i], i);
        if (!result)
            result = cuda->cuCtxSetCurrent(context[i]);
        if (!result)
            result = cuda->cuMemAlloc_v2(&memory[i], size);
        if (!result)
            result = cuda->cuMemsetD8_v2(memory[i], (unsigned char)i, size);
    }
    for (int i = -1; i < rounds && !result; i++) {
        uint64_t start = gb_now_ns();
        result = cuda->cuMemcpyPeer(memory[1], context[1], memory[0], context[0], size);
        if (!result)
            result = cuda->cuCtxSynchronize();
        value[i < 0 ? 0 : i] = (double)(gb_now_ns() - start) / 1000;
        least[i < 0 ? 0 : i] = raw_exchange(raw, size, 64, 256 << 10);
    }
    if (result)
        return gb_fail(GB_ERR_IO, "p2p failed: CUDA error %d", result);
    rows_line(o, "p2p", (double)size / 1000 / bench_median(value, rounds), "GB/s",
              (double)size / 1000 / bench_median(least, rounds));
    return GB_OK;
}

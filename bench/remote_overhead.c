/* remote_overhead - what a session costs: time of a training step (batch 128, mode single) on a GPU
 * session over a Unix socket against the same on the software device in this process, with the same
 * number of device threads.
 *
 * value: milliseconds of a step through the session. floor: milliseconds in this process. ratio: the
 * median over interleaved rounds of remote / in process. Promise: at most 1.03 for lenet5 and mlp.
 * mlp_bsp (reported beside): one worker with ps-server and gpu-proxy, floor as for mlp. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench_line.h"
#include "bench/bench_process.h"
#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "common/core/gb_opt.h"
#include "common/core/gb_path.h"
#include "worker/data/wk_dataset.h"
#include "worker/train/wk_single.h"

#define MAX_ROUNDS 64
#define READY_MS 20000
#define EPOCH_MS 300000

typedef struct {
    int json, smoke;
    int64_t threads, rounds, steps;
    const char *data;
} options_t;

#define FIELD(name) offsetof(options_t, name)

static const gb_opt_t option_list[] = {
    {"json", GB_OPT_FLAG, FIELD(json), "0", NULL, NULL, "one JSON object a line"},
    {"smoke", GB_OPT_FLAG, FIELD(smoke), "0", NULL, NULL, "two short rounds, without mlp_bsp"},
    {"threads", GB_OPT_INT, FIELD(threads), "2", NULL, "N", "threads of each device"},
    {"rounds", GB_OPT_INT, FIELD(rounds), "11", NULL, "N", "interleaved rounds of each side"},
    {"steps", GB_OPT_INT, FIELD(steps), "50", NULL, "N", "steps of a round"},
    {"data", GB_OPT_STRING, FIELD(data), GABLE_SOURCE_DIR "/tests/data/mnist", NULL, "DIR",
     "folder of the MNIST files"},
    {NULL},
};

static const wk_single_config_t training = {
    .epochs = 1, .batch = 128, .lr = 0.05f, .momentum = 0.9f};

/* ---- the servers ---- */

typedef struct {
    char dir[64], socket[96];
    bench_process_t proxy;
} site_t;

static gb_status_t start_proxy(site_t *site)
{
    char path[512], line[256];
    snprintf(site->dir, sizeof(site->dir), "/tmp/remote_overhead.XXXXXX");
    if (!mkdtemp(site->dir))
        return gb_fail(GB_ERR_IO, "no folder in /tmp: free some space");
    snprintf(site->socket, sizeof(site->socket), "%s/proxy", site->dir);
    gb_status_t status = gb_path_installed("bin/gpu-proxy", path, sizeof(path));
    if (status != GB_OK)
        return status;
    char *argv[] = {path,         "--data-listen", "none", "--unix", site->socket,
                    "--insecure", "--driver",      "cpu",  NULL};
    status = bench_process_start(argv, 1, &site->proxy);
    if (status == GB_OK)
        status = bench_process_line(&site->proxy, "ready", READY_MS, line, sizeof(line));
    return status;
}

static void stop_proxy(site_t *site)
{
    bench_process_stop(&site->proxy);
    if (site->socket[0])
        unlink(site->socket);
    if (site->dir[0])
        rmdir(site->dir);
}

/* ---- steps of both sides ---- */

static gb_status_t round_ms(wk_trainer_t *t, int steps, double *out)
{
    wk_result_t result;
    uint32_t all = t->train.count;
    t->train.count = (uint32_t)steps * training.batch;
    gb_status_t status = wk_single_epoch(t, &training, 0, NULL, &result);
    t->train.count = all;
    *out = status == GB_OK ? result.seconds * 1000 / steps : NAN;
    return status;
}

static gb_status_t compare(const options_t *o, const gb_driver_t *local, const gb_driver_t *remote,
                           const wk_dataset_t *data, const char *name, double *local_ms)
{
    wk_model_t model;
    wk_trainer_t here = {0}, there = {0};
    double here_ms[MAX_ROUNDS], there_ms[MAX_ROUNDS], ratios[MAX_ROUNDS];
    int rounds = o->smoke ? 2 : (int)o->rounds, steps = o->smoke ? 10 : (int)o->steps;
    gb_status_t status = wk_model_load(name, &model);
    if (status == GB_OK)
        status = wk_trainer_make(local, 0, &model, data, training.batch, 1, &here);
    if (status == GB_OK)
        status = wk_trainer_make(remote, 0, &model, data, training.batch, 1, &there);
    for (int i = -2; status == GB_OK && i < rounds; i++) { /* two rounds to warm up */
        int at = i < 0 ? 0 : i;
        wk_trainer_t *first = i % 2 ? &here : &there, *second = i % 2 ? &there : &here;
        double first_ms = NAN, second_ms = NAN;
        status = wk_device_bind(&first->device);
        if (status == GB_OK)
            status = round_ms(first, steps, &first_ms);
        if (status == GB_OK)
            status = wk_device_bind(&second->device);
        if (status == GB_OK)
            status = round_ms(second, steps, &second_ms);
        here_ms[at] = i % 2 ? first_ms : second_ms;
        there_ms[at] = i % 2 ? second_ms : first_ms;
        ratios[at] = there_ms[at] / here_ms[at];
    }
    if (status == GB_OK) {
        *local_ms = bench_median(here_ms, rounds);
        bench_line(o->json, "remote_overhead", name, bench_median(there_ms, rounds), "ms",
                   *local_ms, NAN, bench_median(ratios, rounds));
    }
    wk_trainer_free(&there);
    wk_trainer_free(&here);
    return status;
}

/* ---- with a server ---- */

/* Milliseconds of a step in the last epoch of a worker that runs as a user would start it. */
static gb_status_t run_worker(const options_t *o, const char *server, double *out)
{
    char path[512], line[256], data[512], address[160];
    bench_process_t worker;
    snprintf(data, sizeof(data), "%s", o->data);
    snprintf(address, sizeof(address), "%s", server);
    gb_status_t status = gb_path_installed("bin/worker", path, sizeof(path));
    if (status != GB_OK)
        return status;
    setenv("GABLE_PROGRESS", "lines", 1);
    char *argv[] = {path, "--server", address, "--insecure", "--model", "mlp", "--data",
                    data, "--epochs", "2",     "--driver",   "remote",  NULL};
    status = bench_process_start(argv, 2, &worker);
    if (status != GB_OK)
        return status;
    status = bench_process_line(&worker, "epoch 2/2  loss", EPOCH_MS, line, sizeof(line));
    bench_process_stop(&worker);
    if (status != GB_OK)
        return status;
    const char *at = strstr(line, "accuracy ");
    double accuracy, rate;
    if (!at || sscanf(at, "accuracy %lf %lf samples/s", &accuracy, &rate) != 2 || rate <= 0)
        return gb_fail(GB_ERR_FORMAT, "the worker's line '%s' has no rate", line);
    *out = training.batch * 1000 / rate;
    return GB_OK;
}

static gb_status_t measure_bsp(const options_t *o, double local_ms)
{
    char server_path[512], proxy_path[512], line[256], address[160], dir[] = "/tmp/overhead.XXXXXX";
    bench_process_t server = {0}, proxy = {0};
    double ms = NAN;
    if (!mkdtemp(dir))
        return gb_fail(GB_ERR_IO, "no folder in /tmp: free some space");
    gb_status_t status = gb_path_installed("bin/ps-server", server_path, sizeof(server_path));
    if (status == GB_OK)
        status = gb_path_installed("bin/gpu-proxy", proxy_path, sizeof(proxy_path));
    if (status != GB_OK)
        return status;
    char *server_argv[] = {server_path,   "--listen",    "127.0.0.1:0", "--data-listen",
                           "127.0.0.1:0", "--state-dir", dir,           "--insecure",
                           NULL};
    status = bench_process_start(server_argv, 1, &server);
    if (status == GB_OK)
        status = bench_process_line(&server, "ready", READY_MS, line, sizeof(line));
    if (status == GB_OK && !bench_process_field(line, "grpc=", address, sizeof(address)))
        status = gb_fail(GB_ERR_FORMAT, "ps-server's ready line has no address: %s", line);
    char *proxy_argv[] = {proxy_path,    "--server",      address,       "--listen",
                          "127.0.0.1:0", "--data-listen", "127.0.0.1:0", "--insecure",
                          "--driver",    "cpu",           NULL};
    if (status == GB_OK)
        status = bench_process_start(proxy_argv, 1, &proxy);
    if (status == GB_OK)
        status = bench_process_line(&proxy, "ready", READY_MS, line, sizeof(line));
    if (status == GB_OK)
        status = run_worker(o, address, &ms);
    if (status == GB_OK)
        bench_line(o->json, "remote_overhead", "mlp_bsp", ms, "ms", local_ms, NAN, ms / local_ms);
    bench_process_stop(&proxy);
    bench_process_stop(&server);
    char command[64];
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    if (system(command) != 0 && status == GB_OK)
        status = gb_fail(GB_ERR_IO, "%s cannot be removed: remove it", dir);
    return status;
}

static gb_status_t run(const options_t *o)
{
    char threads[16], proxies[128];
    const gb_driver_t *local, *remote;
    wk_dataset_t data = {0};
    site_t site = {0};
    double ms = NAN;
    snprintf(threads, sizeof(threads), "%lld", (long long)o->threads);
    setenv("GABLE_CPU_THREADS", threads, 1);
    gb_status_t status = start_proxy(&site);
    snprintf(proxies, sizeof(proxies), "unix:%s", site.socket);
    setenv("GABLE_PROXIES", proxies, 1);
    unsetenv("GABLE_LEASE");
    if (status == GB_OK)
        status = gb_driver_choose("cpu", &local);
    if (status == GB_OK)
        status = gb_driver_choose("remote", &remote);
    if (status == GB_OK)
        status = wk_dataset_load(o->data, 10, &data);
    if (status == GB_OK)
        status = compare(o, local, remote, &data, "lenet5", &ms);
    if (status == GB_OK)
        status = compare(o, local, remote, &data, "mlp", &ms);
    wk_dataset_free(&data);
    stop_proxy(&site);
    unsetenv("GABLE_PROXIES");
    if (status == GB_OK && !o->smoke)
        status = measure_bsp(o, ms);
    return status;
}

int main(int argc, char **argv)
{
    static const gb_opt_table_t table = {
        .program = "remote_overhead",
        .usage = "remote_overhead [options]",
        .about = "Time of a training step through a GPU session against one in process.",
        .options = option_list,
    };
    options_t options = {0};
    int first;
    gb_log_init("remote_overhead", GB_LOG_WARN);
    gb_status_t status = gb_opt_parse(&table, argc, argv, 0, &options, &first);
    if (status == GB_ERR_CANCELLED)
        return 0;
    if (status == GB_OK &&
        (options.threads < 1 || options.rounds < 1 || options.rounds > MAX_ROUNDS ||
         options.steps < 1 || options.steps > 468))
        status = gb_fail(GB_ERR_INVALID, "use 1 to %d rounds of 1 to 468 steps", MAX_ROUNDS);
    if (status != GB_OK) {
        gb_complain("%s", gb_why());
        return 2;
    }
    status = run(&options);
    if (status != GB_OK)
        gb_complain("%s", gb_why());
    return status == GB_OK ? 0 : 1;
}

#include "worker/train/wk_config.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_opt.h"
#include "worker/nn/wk_net.h"

#define FIELD(name) offsetof(wk_config_t, name)

static const gb_opt_t options[] = {
    {"model", GB_OPT_STRING, FIELD(model), "lenet5", NULL, "NAME|FILE",
     "what to train: lenet5, mlp, or a JSON file with layers and sizes"},
    {"data", GB_OPT_STRING, FIELD(data), NULL, "GABLE_DATA", "DIR",
     "folder of the MNIST files (IDX, plain or gzip)"},
    {"epochs", GB_OPT_INT, FIELD(epochs), "3", NULL, "N", "passes over the training set"},
    {"batch", GB_OPT_INT, FIELD(batch), "128", NULL, "N",
     "samples of one step, over all workers together"},
    {"lr", GB_OPT_DOUBLE, FIELD(lr), "0.05", NULL, "X", "learning rate of the first epoch"},
    {"lr-end", GB_OPT_DOUBLE, FIELD(lr_end), "0.1", NULL, "X",
     "learning rate of the last epoch, as a part of the first one's: it falls by the\n"
     "same factor after each epoch; 1 keeps it"},
    {"momentum", GB_OPT_DOUBLE, FIELD(momentum), "0.9", NULL, "X", "momentum of SGD, 0 to below 1"},
    {"seed", GB_OPT_INT, FIELD(seed), "1", NULL, "N",
     "start of the random numbers; the same seed gives the same run"},
    {"mode", GB_OPT_STRING, FIELD(mode_name), NULL, NULL, "single|bsp",
     "single: one GPU, nothing shared; bsp: synchronous data parallel through the\n"
     "parameter server (default with --server)"},
    {"server", GB_OPT_STRING, FIELD(server), NULL, "GABLE_SERVER", "HOST:PORT",
     "ps-server to lease GPUs from and to share weights through"},
    {"tls-dir", GB_OPT_STRING, FIELD(tls_dir), NULL, "GABLE_TLS_DIR", "DIR",
     "folder with this worker's certificate (gable ca issue)"},
    {"insecure", GB_OPT_FLAG, FIELD(insecure), "0", NULL, NULL,
     "speak to the server without TLS: on a trusted network only"},
    {"job", GB_OPT_STRING, FIELD(job), NULL, NULL, "NAME",
     "workers of the same job train together (default: the model's name)"},
    {"workers", GB_OPT_INT, FIELD(workers), "1", NULL, "N",
     "bsp: the job's first epoch waits for so many workers"},
    {"gpus", GB_OPT_INT, FIELD(gpus), "1", NULL, "N", "GPUs that this worker uses"},
    {"driver", GB_OPT_STRING, FIELD(driver), NULL, NULL, "cpu|nvidia|remote|PATH",
     "where the GPU is: cpu is the software device in this process, remote the GPU of a\n"
     "lease (default with --server, GABLE_LEASE or GABLE_PROXIES; else auto)"},
    {"server-wait", GB_OPT_DOUBLE, FIELD(server_wait), "60", NULL, "SECONDS",
     "how long to wait for a server that went away"},
    {"out", GB_OPT_STRING, FIELD(out), NULL, NULL, "FILE", "write the weights there (safetensors)"},
    {"json", GB_OPT_FLAG, FIELD(json), "0", NULL, NULL, "end with one JSON line on stdout"},
    {NULL},
};

static const gb_opt_table_t table = {
    .program = "worker",
    .usage = "worker --data DIR [--server HOST:PORT (--tls-dir DIR | --insecure)] [options]",
    .about = "Trains a model on the GPU of this machine or on GPUs leased from a Gable cluster.\n"
             "With --server and --driver cpu it trains on its own software device and only shares\n"
             "the weights. Progress goes to stderr; GABLE_PROGRESS=bar|lines|none overrides the\n"
             "choice by terminal.",
    .options = options,
};

static gb_status_t check_range(const char *name, int64_t value, int64_t low, int64_t high)
{
    if (value >= low && value <= high)
        return GB_OK;
    return gb_fail(GB_ERR_INVALID, "--%s %lld: use %lld to %lld", name, (long long)value,
                   (long long)low, (long long)high);
}

static gb_status_t check_numbers(const wk_config_t *c)
{
    gb_status_t status = check_range("epochs", c->epochs, 1, 100000);
    if (status == GB_OK)
        status = check_range("batch", c->batch, 1, 1 << 20);
    if (status == GB_OK)
        status = check_range("gpus", c->gpus, 1, 64);
    if (status == GB_OK)
        status = check_range("workers", c->workers, 1, 1024);
    if (status != GB_OK)
        return status;
    if (!isfinite(c->lr) || c->lr <= 0)
        return gb_fail(GB_ERR_INVALID, "--lr %g: use a number above 0, e.g. 0.05", c->lr);
    if (!(c->lr_end > 0 && c->lr_end <= 1))
        return gb_fail(GB_ERR_INVALID, "--lr-end %g: use a number above 0 up to 1, e.g. 0.1",
                       c->lr_end);
    if (!(c->momentum >= 0 && c->momentum < 1))
        return gb_fail(GB_ERR_INVALID, "--momentum %g: use 0 to below 1, e.g. 0.9", c->momentum);
    if (!(c->server_wait >= 0 && c->server_wait <= 86400))
        return gb_fail(GB_ERR_INVALID, "--server-wait %g: use 0 to 86400 seconds", c->server_wait);
    return GB_OK;
}

static gb_status_t check_mode(wk_config_t *c)
{
    const char *name = c->mode_name ? c->mode_name : c->server ? "bsp" : "single";
    if (strcmp(name, "single") == 0)
        c->mode = WK_MODE_SINGLE;
    else if (strcmp(name, "bsp") == 0)
        c->mode = WK_MODE_BSP;
    else
        return gb_fail(GB_ERR_INVALID, "unknown mode '%s': known are single and bsp", name);
    if (c->mode == WK_MODE_BSP && !c->server)
        return gb_fail(GB_ERR_INVALID, "mode bsp needs a server: give --server HOST:PORT");
    if (c->mode == WK_MODE_SINGLE && c->gpus != 1)
        return gb_fail(GB_ERR_INVALID,
                       "mode single uses one GPU: give --gpus 1, or --mode bsp with a server");
    if (c->server && !c->tls_dir && !c->insecure)
        return gb_fail(GB_ERR_INVALID,
                       "no certificate: give --tls-dir DIR (see gable ca issue), or "
                       "--insecure on a trusted network");
    if (c->tls_dir && c->insecure)
        return gb_fail(GB_ERR_INVALID, "--tls-dir and --insecure exclude each other: give one");
    return GB_OK;
}

double wk_config_lr_gamma(const wk_config_t *c)
{
    return c->epochs > 1 ? pow(c->lr_end, 1.0 / (double)(c->epochs - 1)) : 1.0;
}

/* Where the GPU is, if the command line does not say. */
static const char *default_driver(const wk_config_t *c)
{
    return c->server || getenv("GABLE_LEASE") || getenv("GABLE_PROXIES") ? "remote" : "auto";
}

gb_status_t wk_config_parse(int argc, char **argv, wk_config_t *out)
{
    wk_config_t c = {0};
    int first;
    gb_status_t status = gb_opt_parse(&table, argc, argv, 0, &c, &first);
    if (status != GB_OK)
        return status;
    if (first < argc)
        return gb_fail(GB_ERR_INVALID, "'%s' is no option: see worker --help", argv[first]);
    status = check_numbers(&c);
    if (status == GB_OK)
        status = check_mode(&c);
    if (status != GB_OK)
        return status;
    if (!c.data)
        return gb_fail(GB_ERR_INVALID,
                       "no data: name the folder of the MNIST files with --data DIR");
    if (!c.driver)
        c.driver = default_driver(&c);
    *out = c;
    return GB_OK;
}

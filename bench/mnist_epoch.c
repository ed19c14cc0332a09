/* mnist_epoch - seconds of one training epoch of MNIST, mode single, on the software device in this
 * process, batch 128, for LeNet-5 and the MLP 784-512-512-10.
 *
 * floor: the model's floating-point operations at the processor's measured FMA peak, same threads.
 * peer:  PyTorch on the CPU (python3-torch), best of 1 and of as many threads as the device has.
 * ratio: value / peer, null where python3-torch is not installed. Promises: the MLP at most 1.0,
 *        LeNet-5 at most 0.4.
 * Rounds of ours and the peer's are interleaved; medians are printed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_line.h"
#include "bench/bench_peak.h"
#include "common/core/gb_log.h"
#include "common/core/gb_opt.h"
#include "worker/data/wk_dataset.h"
#include "worker/train/wk_single.h"

#define MAX_ROUNDS 16

typedef struct {
    int json, smoke;
    int64_t threads, rounds, batch;
    const char *data, *model;
} options_t;

#define FIELD(name) offsetof(options_t, name)

static const gb_opt_t option_list[] = {
    {"json", GB_OPT_FLAG, FIELD(json), "0", NULL, NULL, "one JSON object a line"},
    {"smoke", GB_OPT_FLAG, FIELD(smoke), "0", NULL, NULL, "one round, a part of the data, no peer"},
    {"threads", GB_OPT_INT, FIELD(threads), "2", NULL, "N", "threads of the device"},
    {"rounds", GB_OPT_INT, FIELD(rounds), "3", NULL, "N", "rounds to take the median of"},
    {"batch", GB_OPT_INT, FIELD(batch), "128", NULL, "N", "samples of a step"},
    {"model", GB_OPT_STRING, FIELD(model), "all", NULL, "lenet5|mlp|all", "what to measure"},
    {"data", GB_OPT_STRING, FIELD(data), GABLE_SOURCE_DIR "/tests/data/mnist", NULL, "DIR",
     "folder of the MNIST files"},
    {NULL},
};

/* Floating-point operations of one training step per sample: forward, and backward without the input
 * gradient of the first layer. */
static double flops_per_sample(const wk_model_t *m)
{
    double total = 0;
    for (uint32_t i = 0; i < m->layer_count; i++) {
        const wk_layer_t *l = &m->layers[i];
        double taps = l->kind == WK_CONV2D   ? (double)l->in.c * l->kernel * l->kernel
                      : l->kind == WK_LINEAR ? (double)wk_shape_count(l->in)
                                             : 0;
        total += 2 * taps * (double)wk_shape_count(l->out) * (i == 0 ? 2 : 3);
    }
    return total;
}

static double torch_epoch(const options_t *o, const char *model, int threads)
{
    char command[1024], line[64] = "";
    snprintf(command, sizeof(command),
             "/usr/bin/python3 %s/bench/mnist_epoch_torch.py %s '%s' %lld %d 2>/dev/null",
             GABLE_SOURCE_DIR, model, o->data, (long long)o->batch, threads);
    FILE *pipe = popen(command, "r");
    if (!pipe)
        return NAN;
    if (!fgets(line, sizeof(line), pipe))
        line[0] = 0;
    return pclose(pipe) == 0 ? strtod(line, NULL) : NAN;
}

static double torch_best(const options_t *o, const char *model)
{
    return fmin(torch_epoch(o, model, 1), torch_epoch(o, model, (int)o->threads));
}

static gb_status_t measure(const options_t *o, const gb_driver_t *driver, const wk_dataset_t *data,
                           const char *name, double peak)
{
    wk_model_t model;
    wk_trainer_t trainer;
    double ours[MAX_ROUNDS], peers[MAX_ROUNDS];
    int rounds = o->smoke ? 1 : (int)o->rounds;
    wk_single_config_t config = {
        .epochs = 1, .batch = (uint32_t)o->batch, .lr = 0.05f, .momentum = 0.9f};
    gb_status_t status = wk_model_load(name, &model);
    if (status == GB_OK)
        status = wk_trainer_make(driver, 0, &model, data, config.batch, 1, &trainer);
    if (status != GB_OK)
        return status;
    double accuracy;
    status = wk_trainer_test(&trainer, &accuracy); /* compiles the forward kernels */
    uint32_t all = trainer.train.count;
    trainer.train.count = 20 * config.batch;
    wk_result_t result;
    if (status == GB_OK)
        status = wk_single_epoch(&trainer, &config, 0, NULL, &result); /* and the others */
    trainer.train.count = all;
    int done = 0;
    for (; status == GB_OK && done < rounds; done++) {
        status = wk_single_epoch(&trainer, &config, (uint32_t)done, NULL, &result);
        ours[done] = result.seconds;
        peers[done] = o->smoke ? NAN : torch_best(o, name);
    }
    if (status == GB_OK) {
        char metric[32];
        double value = bench_median(ours, done), peer = bench_median(peers, done);
        snprintf(metric, sizeof(metric), "%s_epoch", name);
        bench_line(o->json, "mnist_epoch", metric, value, "s",
                   flops_per_sample(&model) * all / peak, peer, value / peer);
    }
    wk_trainer_free(&trainer);
    return status;
}

static gb_status_t run(const options_t *o)
{
    char threads[16];
    const gb_driver_t *driver;
    wk_dataset_t data;
    snprintf(threads, sizeof(threads), "%lld", (long long)o->threads);
    setenv("GABLE_CPU_THREADS", threads, 1);
    gb_status_t status = gb_driver_choose("cpu", &driver);
    if (status == GB_OK)
        status = wk_dataset_load(o->data, 10, &data);
    if (status != GB_OK)
        return status;
    if (o->smoke)
        data.train.count = 6400;
    double peak = bench_peak_flops((int)o->threads);
    static const char *const models[] = {"lenet5", "mlp"};
    for (size_t i = 0; status == GB_OK && i < 2; i++) {
        if (strcmp(o->model, "all") == 0 || strcmp(o->model, models[i]) == 0)
            status = measure(o, driver, &data, models[i], peak);
    }
    wk_dataset_free(&data);
    return status;
}

int main(int argc, char **argv)
{
    static const gb_opt_table_t table = {
        .program = "mnist_epoch",
        .usage = "mnist_epoch [options]",
        .about = "Seconds of one training epoch of MNIST on the software device.",
        .options = option_list,
    };
    options_t options = {0};
    int first;
    gb_log_init("mnist_epoch", GB_LOG_WARN);
    gb_status_t status = gb_opt_parse(&table, argc, argv, 0, &options, &first);
    if (status == GB_ERR_CANCELLED)
        return 0;
    if (status == GB_OK && (options.threads < 1 || options.rounds < 1 ||
                            options.rounds > MAX_ROUNDS || options.batch < 1))
        status = gb_fail(GB_ERR_INVALID, "threads, rounds (up to %d) and batch must be positive",
                         MAX_ROUNDS);
    if (status != GB_OK) {
        gb_complain("%s", gb_why());
        return 2;
    }
    status = run(&options);
    if (status != GB_OK)
        gb_complain("%s", gb_why());
    return status == GB_OK ? 0 : 1;
}

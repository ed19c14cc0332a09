#include "worker/train/wk_trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_clock.h"
#include "worker/train/wk_order.h"
#include "worker/train/wk_weights.h"

#define STEPS_BETWEEN_READINGS 50u

gb_status_t wk_trainer_make(const gb_driver_t *driver, int ordinal, const wk_model_t *model,
                            const wk_dataset_t *data, uint32_t batch, uint64_t seed,
                            wk_trainer_t *t)
{
    /* Made in place: the net points to the device in it. */
    *t = (wk_trainer_t){.model = model, .seed = seed};
    gb_status_t status = wk_device_open(driver, ordinal, &t->device);
    if (status != GB_OK)
        return status;
    status = wk_resident_make(&t->device, &data->train, &t->train);
    if (status == GB_OK)
        status = wk_resident_make(&t->device, &data->test, &t->test);
    if (status == GB_OK)
        status = wk_net_make(&t->device, model, batch, data->train.rows, data->train.cols, &t->net);
    t->order = malloc(data->train.count * sizeof(*t->order));
    if (status == GB_OK && !t->order)
        status = gb_fail(GB_ERR_NO_MEMORY, "no memory for the order of samples: free some");
    if (status == GB_OK)
        status = wk_trainer_reset(t);
    if (status != GB_OK)
        wk_trainer_free(t);
    return status;
}

void wk_trainer_free(wk_trainer_t *t)
{
    if (!t->device.cu)
        return;
    wk_net_free(t->net);
    wk_resident_free(&t->device, &t->train);
    wk_resident_free(&t->device, &t->test);
    free(t->order);
    wk_device_close(&t->device);
    memset(t, 0, sizeof(*t));
}

gb_status_t wk_trainer_reset(wk_trainer_t *t)
{
    float *flat = malloc(t->model->floats * sizeof(*flat));
    if (!flat)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for the weights: free some");
    wk_model_init(t->model, t->seed, flat);
    gb_status_t status = wk_net_set_params(t->net, flat);
    free(flat);
    return status;
}

/* Running state of an epoch. */
typedef struct {
    uint64_t start_ns;
    double loss_sum;
    uint32_t seen, seen_before; /* samples, now and at the last reading */
} tally_t;

/* Waits for the steps so far and reads their loss. */
static gb_status_t read_loss(wk_trainer_t *t, const wk_share_t *share, const wk_hooks_t *hooks,
                             wk_progress_t *progress, tally_t *tally)
{
    double loss, right;
    gb_status_t status = wk_net_totals(t->net, &loss, &right);
    if (status == GB_OK && hooks->check)
        status = hooks->check(hooks->context);
    if (status != GB_OK)
        return status;
    if (!isfinite(loss))
        return gb_fail(GB_ERR_INVALID,
                       "the loss is no number any more in epoch %u: use a smaller "
                       "--lr",
                       share->epoch + 1);
    double seconds = (double)(gb_now_ns() - tally->start_ns) * 1e-9;
    double rate = tally->seen / (seconds > 0 ? seconds : 1e-9);
    double epochs_left = share->epochs - share->epoch - (double)tally->seen / share->count;
    wk_progress_at_t at = {.epoch = share->epoch,
                           .done = (double)tally->seen / share->count,
                           .rate = rate * share->world,
                           .loss = loss / (tally->seen - tally->seen_before),
                           .left = epochs_left * share->count / rate};
    if (progress)
        wk_progress_show(progress, &at);
    tally->loss_sum += loss;
    tally->seen_before = tally->seen;
    return GB_OK;
}

static gb_status_t one_step(wk_trainer_t *t, const wk_hooks_t *hooks, uint32_t step, uint32_t first,
                            uint32_t valid)
{
    gb_status_t status = hooks->before ? hooks->before(hooks->context, step, valid) : GB_OK;
    if (status == GB_OK)
        status = wk_net_step(t->net, &t->train, first, valid, hooks->ready, hooks->context);
    return status == GB_OK ? hooks->after(hooks->context, step, valid) : status;
}

gb_status_t wk_trainer_epoch(wk_trainer_t *t, const wk_share_t *share, const wk_hooks_t *hooks,
                             wk_progress_t *progress, wk_result_t *out)
{
    tally_t tally = {.start_ns = gb_now_ns()};
    wk_order_shuffle(t->seed, share->epoch, share->first, share->count, t->order);
    gb_status_t status = wk_resident_order(&t->device, &t->train, t->order, share->count);
    for (uint32_t i = 0; status == GB_OK && i < share->iterations; i++) {
        uint32_t first = wk_order_start(share->count, share->iterations, i);
        uint32_t valid = wk_order_start(share->count, share->iterations, i + 1) - first;
        if (t->stop && *t->stop)
            return gb_fail(GB_ERR_CANCELLED, "interrupted");
        status = one_step(t, hooks, i, first, valid);
        tally.seen += valid;
        if (status == GB_OK && (i % STEPS_BETWEEN_READINGS == STEPS_BETWEEN_READINGS - 1 ||
                                i + 1 == share->iterations))
            status = read_loss(t, share, hooks, progress, &tally);
    }
    if (status != GB_OK)
        return status;
    double seconds = (double)(gb_now_ns() - tally.start_ns) * 1e-9;
    out->loss = tally.loss_sum / share->count;
    out->seconds = seconds;
    out->rate = share->count / (seconds > 0 ? seconds : 1e-9);
    return GB_OK;
}

gb_status_t wk_trainer_test(wk_trainer_t *t, double *accuracy)
{
    double loss, right;
    uint32_t batch = wk_net_batch(t->net);
    gb_status_t status = GB_OK;
    for (uint32_t first = 0; status == GB_OK && first < t->test.count; first += batch) {
        uint32_t left = t->test.count - first;
        status = wk_net_eval(t->net, &t->test, first, left < batch ? left : batch);
    }
    if (status == GB_OK)
        status = wk_net_totals(t->net, &loss, &right);
    if (status == GB_OK)
        *accuracy = right / t->test.count;
    return status;
}

gb_status_t wk_trainer_save(wk_trainer_t *t, const char *path)
{
    float *flat = malloc(t->model->floats * sizeof(*flat));
    if (!flat)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for the weights: free some");
    gb_status_t status = wk_net_get_params(t->net, flat);
    if (status == GB_OK)
        status = wk_weights_save(path, t->model, flat);
    free(flat);
    return status;
}

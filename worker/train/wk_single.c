#include "worker/train/wk_single.h"

#include "common/core/gb_clock.h"
#include "worker/train/wk_order.h"

typedef struct {
    wk_trainer_t *trainer;
    float lr, momentum;
} single_t;

static gb_status_t update(void *context, uint32_t t, uint32_t valid)
{
    single_t *s = context;
    (void)t;
    (void)valid;
    return wk_net_update(s->trainer->net, s->lr, s->momentum);
}

gb_status_t wk_single_epoch(wk_trainer_t *trainer, const wk_single_config_t *config, uint32_t epoch,
                            wk_progress_t *progress, wk_result_t *out)
{
    single_t single = {trainer, config->lr, config->momentum};
    for (uint32_t i = 0; i < epoch && config->lr_gamma > 0; i++)
        single.lr *= config->lr_gamma;
    wk_hooks_t hooks = {.context = &single, .after = update};
    uint32_t count = trainer->train.count;
    wk_share_t share = {.epoch = epoch,
                        .epochs = config->epochs,
                        .count = count,
                        .world = 1,
                        .iterations = wk_order_iterations(count, config->batch)};
    return wk_trainer_epoch(trainer, &share, &hooks, progress, out);
}

gb_status_t wk_single_run(wk_trainer_t *trainer, const wk_single_config_t *config,
                          wk_progress_t *progress, wk_result_t *out)
{
    uint64_t start = gb_now_ns();
    wk_result_t result = {0};
    for (uint32_t epoch = 0; epoch < config->epochs; epoch++) {
        gb_status_t status = wk_single_epoch(trainer, config, epoch, progress, &result);
        if (status == GB_OK)
            status = wk_trainer_test(trainer, &result.accuracy);
        if (status != GB_OK)
            return status;
        wk_progress_epoch(progress, epoch, result.loss, result.accuracy, result.rate,
                          result.seconds);
    }
    result.total = (double)(gb_now_ns() - start) * 1e-9;
    *out = result;
    return GB_OK;
}

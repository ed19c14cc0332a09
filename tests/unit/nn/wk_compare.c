#include "tests/unit/nn/wk_compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/nn/wk_net.h"
#include "worker/nn/wk_ref.h"
#include "worker/nn/wk_rng.h"

#define LR 0.05f
#define MOMENTUM 0.9f
#define SAMPLES 300u

typedef struct {
    const wk_model_t *model;
    uint32_t pixels;
    wk_samples_t samples;
    float *x; /* of one batch, as the kernels normalise them */
    float *params, *momenta, *grads, *got;
} side_t;

static int side_make(side_t *s, const wk_model_t *model, uint32_t batch)
{
    wk_shape_t in = model->layers[0].in;
    memset(s, 0, sizeof(*s));
    s->model = model;
    s->pixels = in.h * in.w;
    s->samples = (wk_samples_t){.count = SAMPLES, .rows = in.h, .cols = in.w};
    s->samples.images = malloc((size_t)SAMPLES * s->pixels);
    s->samples.labels = malloc(SAMPLES);
    s->x = malloc((size_t)batch * s->pixels * sizeof(float));
    float **flats[] = {&s->params, &s->momenta, &s->grads, &s->got};
    for (size_t i = 0; i < 4; i++)
        *flats[i] = calloc(model->floats, sizeof(float));
    if (!s->samples.images || !s->samples.labels || !s->x || !s->params || !s->momenta ||
        !s->grads || !s->got)
        return -1;
    for (size_t i = 0; i < (size_t)SAMPLES * s->pixels; i++)
        s->samples.images[i] = (uint8_t)wk_rng_below(1, 50, i, 256);
    for (uint32_t i = 0; i < SAMPLES; i++)
        s->samples.labels[i] = (uint8_t)wk_rng_below(1, 51, i, model->classes);
    wk_model_init(model, 9, s->params);
    return 0;
}

static void side_free(side_t *s)
{
    free(s->samples.images);
    free(s->samples.labels);
    free(s->x);
    free(s->params);
    free(s->momenta);
    free(s->grads);
    free(s->got);
}

static int compare_flat(const wk_model_t *m, const char *what, const float *want, const float *got)
{
    int differences = 0;
    for (uint32_t t = 0; t < m->tensor_count; t++) {
        const float *a = want + m->tensors[t].offset, *b = got + m->tensors[t].offset;
        float largest = 1e-6f, worst = 0;
        for (size_t i = 0; i < m->tensors[t].count; i++)
            largest = fmaxf(largest, fabsf(a[i]));
        for (size_t i = 0; i < m->tensors[t].count; i++)
            worst = isfinite(b[i]) ? fmaxf(worst, fabsf(a[i] - b[i])) : INFINITY;
        if (!(worst <= 1e-4f * largest)) {
            printf("%s of %s differ by %g (largest %g)\n", what, m->tensors[t].name, worst,
                   largest);
            differences++;
        }
    }
    return differences;
}

static int compare_step(side_t *s, wk_net_t *net, const wk_resident_t *set, const uint32_t *order,
                        uint32_t first, uint32_t valid)
{
    float loss;
    uint32_t right;
    double loss_sum, got_right;
    uint8_t labels[WK_MAX_BATCH];
    for (uint32_t n = 0; n < valid; n++) {
        const uint8_t *image = s->samples.images + (size_t)order[first + n] * s->pixels;
        labels[n] = s->samples.labels[order[first + n]];
        for (uint32_t p = 0; p < s->pixels; p++)
            s->x[(size_t)n * s->pixels + p] = (image[p] / 255.0f - 0.1307f) / 0.3081f;
    }
    if (wk_ref_step(s->model, s->params, s->x, labels, valid, s->grads, &loss, &right) != GB_OK ||
        wk_net_step(net, set, first, valid, NULL, NULL) != GB_OK ||
        wk_net_get_grads(net, s->got) != GB_OK ||
        wk_net_totals(net, &loss_sum, &got_right) != GB_OK) {
        printf("a step failed: %s\n", gb_why());
        return 1;
    }
    int differences = compare_flat(s->model, "gradients", s->grads, s->got);
    if (!(fabs(loss_sum / valid - loss) <= 1e-4 * fabs(loss)) || (uint32_t)got_right != right) {
        printf("loss %g and %g, right answers %u and %g\n", loss, loss_sum / valid, right,
               got_right);
        differences++;
    }
    wk_ref_sgd(s->params, s->momenta, s->grads, s->model->floats, LR, MOMENTUM);
    if (wk_net_update(net, LR, MOMENTUM) != GB_OK || wk_net_get_params(net, s->got) != GB_OK) {
        printf("an update failed: %s\n", gb_why());
        return 1;
    }
    return differences + compare_flat(s->model, "weights", s->params, s->got);
}

int wk_compare_steps(wk_device_t *device, const wk_model_t *model, uint32_t batch, uint32_t last,
                     uint32_t steps)
{
    side_t side;
    wk_net_t *net = NULL;
    wk_resident_t set = {0};
    uint32_t order[SAMPLES];
    int differences = 1;
    for (uint32_t i = 0; i < SAMPLES; i++)
        order[i] = (i * 7 + 3) % SAMPLES; /* 7 and 300 have no common factor */
    if (side_make(&side, model, batch) != 0 ||
        wk_resident_make(device, &side.samples, &set) != GB_OK ||
        wk_resident_order(device, &set, order, SAMPLES) != GB_OK ||
        wk_net_make(device, model, batch, set.rows, set.cols, &net) != GB_OK ||
        wk_net_set_params(net, side.params) != GB_OK) {
        printf("no set-up: %s\n", gb_why());
        goto done;
    }
    differences = 0;
    for (uint32_t i = 0; i < steps; i++)
        differences += compare_step(&side, net, &set, order, i * 5, i + 1 == steps ? last : batch);
done:
    wk_net_free(net);
    wk_resident_free(device, &set);
    side_free(&side);
    return differences;
}

/* The plain C reference is itself right: its gradients equal finite differences of its loss. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "worker/nn/wk_ref.h"
#include "worker/nn/wk_rng.h"

#define BATCH 3

static const char json[] =
    "{\"name\":\"small\",\"input\":[1,9,8],\"layers\":["
    "{\"type\":\"conv2d\",\"filters\":2,\"kernel\":3,\"pad\":1},{\"type\":\"relu\"},"
    "{\"type\":\"maxpool\",\"size\":2},{\"type\":\"conv2d\",\"filters\":3,\"kernel\":2},"
    "{\"type\":\"relu\"},{\"type\":\"linear\",\"units\":7},{\"type\":\"relu\"},"
    "{\"type\":\"linear\",\"units\":4},{\"type\":\"softmax_cross_entropy\"}]}";

static float loss_at(const wk_model_t *m, const float *params, const float *x,
                     const uint8_t *labels, float *scratch)
{
    float loss;
    uint32_t right;
    assert_int_equal(wk_ref_step(m, params, x, labels, BATCH, scratch, &loss, &right), GB_OK);
    return loss;
}

static void test_gradients_are_slopes(void **state)
{
    (void)state;
    static wk_model_t m;
    static const uint8_t labels[BATCH] = {0, 3, 1};
    float x[BATCH * 72];
    assert_int_equal(wk_model_parse(json, sizeof(json) - 1, "small", &m), GB_OK);
    float *params = malloc(m.floats * sizeof(float));
    float *grads = malloc(m.floats * sizeof(float)), *scratch = malloc(m.floats * sizeof(float));
    for (size_t i = 0; i < sizeof(x) / sizeof(*x); i++)
        x[i] = wk_rng_uniform(3, 77, i, 1.0f);
    wk_model_init(&m, 5, params);
    for (size_t i = 0; i < m.floats; i++)
        params[i] *= 2;
    loss_at(&m, params, x, labels, grads);
    const float step = 1e-2f;
    size_t checked = 0, far = 0;
    for (uint32_t t = 0; t < m.tensor_count; t++) {
        for (size_t i = 0; i < m.tensors[t].count; i++, checked++) {
            size_t at = m.tensors[t].offset + i;
            float keep = params[at];
            params[at] = keep + step;
            float up = loss_at(&m, params, x, labels, scratch);
            params[at] = keep - step;
            float down = loss_at(&m, params, x, labels, scratch);
            params[at] = keep;
            float slope = (up - down) / (2 * step);
            /* A kink of ReLU or max within the step makes a difference; it is rare. */
            far += fabsf(slope - grads[at]) > 2e-3f + 0.02f * fabsf(slope);
        }
    }
    assert_true(checked == m.parameters && checked > 100);
    if (far > checked / 20)
        fail_msg("%zu of %zu gradients differ from the slope", far, checked);
    free(params);
    free(grads);
    free(scratch);
}

static void test_softmax_of_known_logits(void **state)
{
    (void)state;
    const float z[6] = {1, 2, 3, 0, 0, 1000};
    const uint8_t labels[2] = {2, 1};
    float dz[6], loss;
    uint32_t right;
    wk_ref_softmax_xent(z, labels, dz, 2, 3, &loss, &right);
    assert_int_equal(right, 1);
    assert_true(fabs(loss - (0.40760596 + 1000) / 2) < 1e-3);
    assert_true(fabsf(dz[2] - (0.66524096f - 1) / 2) < 1e-6f);
    assert_true(fabsf(dz[4] + 0.5f) < 1e-6f);
}

static void test_sgd(void **state)
{
    (void)state;
    float w[2] = {1, 2}, v[2] = {0.5f, 0}, g[2] = {1, -2};
    wk_ref_sgd(w, v, g, 2, 0.1f, 0.9f);
    assert_true(fabsf(v[0] - 1.45f) < 1e-6f && fabsf(w[0] - 0.855f) < 1e-6f);
    assert_true(fabsf(v[1] + 2.0f) < 1e-6f && fabsf(w[1] - 2.2f) < 1e-6f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_are_slopes),
        cmocka_unit_test(test_softmax_of_known_logits),
        cmocka_unit_test(test_sgd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The arithmetic against a plain loop, bit for bit, and the rules of a chunk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/params/ps_chunk.h"
#include "server/params/ps_grants.h"

enum { N = 5003 }; /* not a multiple of anything */

static float value(uint32_t i, uint32_t seed)
{
    uint32_t x = (i + 1) * 2654435761u ^ seed * 40503u;
    return (float)(int32_t)(x >> 8) / 8388608.0f - 1.0f;
}

static void plain(const ps_step_t *s, uint32_t count, float *const *g, const float *scale, float *w,
                  float *v)
{
    for (uint32_t k = 0; k < N; k++) {
        float mean = 0;
        int first = 1;
        for (uint32_t i = 0; i < count; i++) {
            if (scale[i] == 0)
                continue;
            float part = scale[i] * g[i][k];
            mean = first ? part : mean + part;
            first = 0;
        }
        if (s->weight_decay != 0)
            mean = mean + s->weight_decay * w[k];
        float step = mean;
        if (s->momentum != 0) {
            v[k] = s->momentum * v[k] + mean;
            step = s->nesterov ? mean + s->momentum * v[k] : v[k];
        }
        w[k] = w[k] - s->lr * step;
    }
}

static void check_step(ps_step_t step, uint32_t count, const float *scale, int in_place)
{
    float *g[4], *w = malloc(N * 4), *v = malloc(N * 4);
    float *w2 = malloc(N * 4), *v2 = malloc(N * 4), *w3 = malloc(N * 4), *v3 = malloc(N * 4);
    for (uint32_t i = 0; i < 4; i++) {
        g[i] = malloc(N * 4);
        for (uint32_t k = 0; k < N; k++)
            g[i][k] = value(k, i + 1);
    }
    for (uint32_t k = 0; k < N; k++) {
        w[k] = w2[k] = value(k, 77);
        v[k] = v2[k] = value(k, 78);
    }
    plain(&step, count, g, scale, w, v);
    const float *gradients[4] = {g[0], g[1], g[2], g[3]};
    if (in_place) {
        ps_apply(&step, N, count, gradients, scale, w2, w2, v2, v2);
        assert_memory_equal(w2, w, N * 4);
        assert_memory_equal(v2, v, N * 4);
    } else {
        ps_apply(&step, N, count, gradients, scale, w2, w3, v2, v3);
        assert_memory_equal(w3, w, N * 4);
        if (step.momentum != 0)
            assert_memory_equal(v3, v, N * 4);
    }
    for (int i = 0; i < 4; i++)
        free(g[i]);
    free(w), free(v), free(w2), free(v2), free(w3), free(v3);
}

static void test_steps_have_the_plain_bits(void **state)
{
    (void)state;
    static const ps_step_t steps[] = {{0.1f, 0, 0, 0},
                                      {0.1f, 0.9f, 0, 0},
                                      {0.1f, 0.9f, 0.01f, 0},
                                      {0.1f, 0.9f, 0.01f, 1},
                                      {0.1f, 0, 0.01f, 0}};
    static const float scales[3][4] = {{1}, {0.25f, 0, 0.75f, 0}, {0.1f, 0.2f, 0.3f, 0.4f}};
    static const uint32_t counts[] = {1, 3, 4};
    print_message("kernels: %s\n", ps_kernels_name());
    for (int s = 0; s < 5; s++) {
        for (int c = 0; c < 3; c++) {
            check_step(steps[s], counts[c], scales[c], 0);
            check_step(steps[s], counts[c], scales[c], 1);
        }
    }
}

static void test_schedule(void **state)
{
    (void)state;
    ps_optimizer_t o = {.kind = PS_SGD, .lr = 0.8f};
    assert_true(ps_step_at(&o, 1000).lr == 0.8f);
    o.schedule = PS_LR_STEP;
    o.lr_step = 10;
    o.lr_gamma = 0.5f;
    assert_true(ps_step_at(&o, 9).lr == 0.8f);
    assert_true(ps_step_at(&o, 10).lr == 0.4f);
    assert_true(ps_step_at(&o, 35).lr == 0.1f);
}

/* Momentum must build up over steps as in the textbook: 1, 1.9, 2.71, ... times the rate. */
static void test_momentum_builds_up(void **state)
{
    (void)state;
    ps_step_t step = {1, 0.9f, 0, 0};
    float w[1] = {0}, v[1] = {0};
    const float one[1] = {1}, scale[1] = {1};
    const float *g[] = {one};
    const double expected[] = {-1, -2.9, -5.61, -9.049};
    for (int i = 0; i < 4; i++) {
        ps_apply(&step, 1, 1, g, scale, w, w, v, v);
        assert_true(fabs((double)w[0] - expected[i]) < 1e-5);
    }
}

static const ps_optimizer_t sgd = {.kind = PS_SGD, .lr = 1};

static void push(ps_chunk_t *chunk, const ps_members_t *members, uint32_t worker, float value_all,
                 uint32_t samples)
{
    float *data = NULL;
    assert_int_equal(ps_chunk_push_begin(chunk, members, worker, chunk->version, &data),
                     PS_PUSH_TAKE);
    for (uint32_t k = 0; k < chunk->elements; k++)
        data[k] = value_all;
    ps_chunk_push_end(chunk, worker, samples);
}

static void test_chunk_rules(void **state)
{
    (void)state;
    ps_chunk_t chunk;
    ps_members_t members = {0};
    float *data;
    const uint32_t both[] = {9, 2};
    assert_int_equal(ps_chunk_init(&chunk, 0, 100), GB_OK);
    assert_int_equal(ps_members_set(&members, 0, both, 2, 0), GB_OK);
    assert_int_equal(ps_chunk_push_begin(&chunk, &members, 2, 0, &data), PS_PUSH_UNREADY);
    chunk.ready = 1;
    assert_int_equal(ps_chunk_push_begin(&chunk, &members, 3, 0, &data), PS_PUSH_STRANGER);
    assert_int_equal(ps_chunk_push_begin(&chunk, &members, 2, 1, &data), PS_PUSH_AHEAD);
    push(&chunk, &members, 9, 1, 30);
    assert_int_equal(ps_chunk_push_begin(&chunk, &members, 9, 0, &data), PS_PUSH_REPEAT);
    assert_int_equal(ps_chunk_step(&chunk, &members, &sgd), 0);
    assert_int_equal(ps_chunk_push_begin(&chunk, &members, 2, 0, &data), PS_PUSH_TAKE);
    assert_int_equal(ps_chunk_step(&chunk, &members, &sgd), 0); /* half is not whole */
    assert_int_equal(ps_chunk_push_abort(&chunk, 2), 1);
    assert_int_equal(ps_chunk_push_abort(&chunk, 2), 0);
    push(&chunk, &members, 2, 5, 10);
    assert_int_equal(ps_chunk_step(&chunk, &members, &sgd), 1);
    assert_true(chunk.weights->data[50] == -(0.25f * 5 + 0.75f * 1));
    assert_int_equal(chunk.version, 1);
    assert_int_equal(ps_chunk_push_begin(&chunk, &members, 2, 0, &data), PS_PUSH_REPEAT);
    ps_chunk_clear(&chunk);
    ps_members_clear(&members);
}

/* Whoever holds a version keeps it while the next one is made. */
static void test_held_weights_do_not_change(void **state)
{
    (void)state;
    ps_chunk_t chunk;
    ps_members_t members = {0};
    const uint32_t one[] = {1};
    assert_int_equal(ps_chunk_init(&chunk, 0, 100), GB_OK);
    assert_int_equal(ps_members_set(&members, 0, one, 1, 0), GB_OK);
    chunk.ready = 1;
    push(&chunk, &members, 1, 1, 1);
    assert_int_equal(ps_chunk_step(&chunk, &members, &sgd), 1);
    ps_buf_t *held = ps_buf_ref(chunk.weights);
    push(&chunk, &members, 1, 1, 1);
    assert_int_equal(ps_chunk_step(&chunk, &members, &sgd), 1);
    assert_true(held->data[99] == -1 && chunk.weights->data[99] == -2);
    ps_buf_t *now = chunk.weights;
    ps_buf_unref(held);
    push(&chunk, &members, 1, 1, 1);
    assert_int_equal(ps_chunk_step(&chunk, &members, &sgd), 1);
    assert_ptr_equal(chunk.weights, now); /* nobody holds it: changed in place */
    ps_chunk_clear(&chunk);
    ps_members_clear(&members);
}

static void test_nobody_sent_samples(void **state)
{
    (void)state;
    ps_chunk_t chunk;
    ps_members_t members = {0};
    const uint32_t one[] = {1};
    assert_int_equal(ps_chunk_init(&chunk, 0, 100), GB_OK);
    assert_int_equal(ps_members_set(&members, 0, one, 1, 0), GB_OK);
    chunk.ready = 1;
    push(&chunk, &members, 1, NAN, 0);
    assert_int_equal(ps_chunk_step(&chunk, &members, &sgd), 1);
    assert_true(chunk.weights->data[0] == 0);
    ps_chunk_clear(&chunk);
    ps_members_clear(&members);
}

static void test_members(void **state)
{
    (void)state;
    ps_members_t m = {0};
    const uint32_t a[] = {3, 1, 2}, b[] = {5, 1}, twice[] = {4, 4};
    assert_null(ps_members_at(&m, 0));
    assert_int_equal(ps_members_set(&m, 10, a, 3, 0), GB_OK);
    assert_int_equal(ps_members_set(&m, 20, b, 2, 0), GB_OK);
    assert_int_equal(ps_members_set(&m, 30, twice, 2, 0), GB_ERR_INVALID);
    assert_null(ps_members_at(&m, 9));
    assert_int_equal(ps_members_at(&m, 19)->count, 3);
    assert_int_equal(ps_members_at(&m, 19)->workers[0], 1);
    assert_int_equal(ps_members_at(&m, 1000)->count, 2);
    ps_members_leave(&m, 1);
    assert_int_equal(ps_members_at(&m, 10)->count, 2);
    assert_int_equal(ps_members_at(&m, 20)->workers[0], 5);
    assert_int_equal(ps_members_set(&m, 15, b, 2, 0), GB_OK); /* replaces what came later */
    assert_int_equal(m.count, 2);
    assert_int_equal(ps_members_set(&m, 40, b, 2, 39), GB_OK); /* forgets what is over */
    assert_int_equal(m.count, 2);
    assert_int_equal(m.segments[0].clock_begin, 15);
    ps_members_clear(&m);
}

static void test_grants(void **state)
{
    (void)state;
    ps_grants_t *grants, *open;
    gb_key_t key;
    uint8_t secret[GB_KEY_SIZE] = {1, 2, 3};
    assert_int_equal(ps_grants_create(0, &grants), GB_OK);
    assert_int_equal(ps_grants_create(1, &open), GB_OK);
    assert_int_equal(ps_grants_lookup(grants, 0, &key), GB_ERR_NOT_FOUND);
    assert_int_equal(ps_grants_lookup(open, 0, &key), GB_OK);
    for (uint64_t lease = 1; lease < 100; lease++)
        assert_int_equal(ps_grants_add(grants, lease, secret, lease % 2 ? 0 : 1), GB_OK);
    assert_int_equal(ps_grants_lookup(grants, 51, &key), GB_OK);
    assert_memory_equal(key.bytes, secret, sizeof(secret));
    assert_int_equal(ps_grants_lookup(grants, 98, &key), GB_ERR_NOT_FOUND); /* expired */
    assert_int_equal(ps_grants_remove(grants, 51), GB_OK);
    assert_int_equal(ps_grants_remove(grants, 51), GB_ERR_NOT_FOUND);
    assert_int_equal(ps_grants_lookup(grants, 51, &key), GB_ERR_NOT_FOUND);
    ps_grants_destroy(grants);
    ps_grants_destroy(open);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_have_the_plain_bits),
        cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_momentum_builds_up),
        cmocka_unit_test(test_chunk_rules),
        cmocka_unit_test(test_held_weights_do_not_change),
        cmocka_unit_test(test_nobody_sent_samples),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_grants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Connections that are cut again and again while training runs: the exchange connects anew, the shard
 * takes nothing twice and nothing by halves, the weights have the reference's bits. The line is cut by
 * GABLE_LINK_EMULATE, set where the test is registered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "tests/unit/gbx/testkit.h"

enum { STEPS = 60 };

static const ps_optimizer_t momentum = {.kind = PS_SGD, .lr = 0.05f, .momentum = 0.9f};
static const uint32_t ids[] = {1, 2}, samples[] = {10, 20};

/* Returns how often the shard saw a repeat or half a push. */
static uint64_t check(const kit_shard_config_t *config, const kit_model_t *model, int layered)
{
    kit_shard_t shard;
    kit_worker_t workers[2];
    kit_reference_t ref;
    ps_params_info_t info;
    gbx_counters_t counters;
    uint64_t clock;
    kit_shard_start(&shard, config);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 2);
    for (uint32_t i = 0; i < 2; i++) {
        kit_worker_open(&workers[i], &shard, model, ids[i], samples[i], 1);
        kit_worker_fill(&workers[i], 31);
        assert_int_equal(gbx_init(workers[i].gbx, workers[i].stream, &clock), GB_OK);
    }
    for (int i = 0; i < 2; i++)
        kit_worker_steps(&workers[i], 0, STEPS, layered);
    kit_reference_init(&ref, model, 31);
    for (uint64_t c = 0; c < STEPS; c++)
        kit_reference_step(&ref, &momentum, c, ids, samples, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gbx_wait(workers[i].gbx, 30000), GB_OK);
        fake_cuda_table()->cuStreamSynchronize(workers[i].stream);
        assert_true(kit_same(&workers[i], &ref));
        assert_int_equal(gbx_counters(workers[i].gbx, &counters), GB_OK);
        assert_true(counters.shard_sent > 3u << 20); /* over several connections, then */
    }
    assert_int_equal(ps_params_info(shard.ps, "job", &info), GB_OK);
    assert_int_equal(info.clock, STEPS);
    assert_int_equal(info.pushes, 2 * STEPS * info.chunks);
    assert_int_equal(shard.left, 0);
    print_message("%llu repeats, %llu halves dropped\n", (unsigned long long)info.repeats,
                  (unsigned long long)info.dropped_halves);
    kit_reference_free(&ref);
    for (int i = 0; i < 2; i++)
        kit_worker_close(&workers[i]);
    kit_shard_stop(&shard, 1);
    return info.repeats + info.dropped_halves;
}

static void test_cut_lines(void **state)
{
    (void)state;
    const kit_shard_config_t one = {.threads = 1, .grace_ms = 10000};
    const kit_shard_config_t two = {.threads = 2, .grace_ms = 10000};
    assert_non_null(getenv("GABLE_LINK_EMULATE"));
    uint64_t seen = check(&one, &kit_lenet, 0);
    seen += check(&two, &kit_mixed, 1);
    assert_true(seen > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* One job over two shards: chunks are spread, tensors may lie on both, checkpoints hold each shard's part
 * and come back from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/tensor/gb_safetensors.h"
#include "tests/unit/gbx/testkit.h"

enum { SHARDS = 2, WORKERS = 2, STEPS = 12 };

static const ps_optimizer_t momentum = {.kind = PS_SGD, .lr = 0.05f, .momentum = 0.9f};
static const kit_shard_config_t configs[SHARDS] = {{.threads = 2}, {.threads = 1}};
static const uint32_t ids[] = {1, 2}, samples[] = {10, 20};

/* Opens the worker's exchange anew over both shards. */
static void open_over(kit_worker_t *worker, kit_shard_t *shards, int reopen)
{
    gbx_config_t config;
    gbx_shard_t one, both[SHARDS];
    kit_worker_config(worker, &config, &one);
    for (int s = 0; s < SHARDS; s++) {
        both[s] = one;
        both[s].endpoint = shards[s].endpoint;
    }
    config.shards = both;
    config.shard_count = SHARDS;
    if (reopen) {
        assert_int_equal(gbx_reopen(worker->gbx, &config), GB_OK);
        return;
    }
    gbx_tensor_t tensors[KIT_MAX_TENSORS];
    char names[KIT_MAX_TENSORS][16];
    for (uint32_t t = 0; t < worker->model->count; t++) {
        snprintf(names[t], sizeof(names[t]), "t%u", t);
        tensors[t] = (gbx_tensor_t){.name = names[t],
                                    .dims = 1,
                                    .shape = {worker->model->values[t]},
                                    .weights = worker->weights + worker->tensor_at[t] * 4,
                                    .gradients = worker->gradients + worker->tensor_at[t] * 4};
    }
    assert_int_equal(gbx_open(fake_cuda_table(), &config, &worker->gbx), GB_OK);
    assert_int_equal(gbx_declare(worker->gbx, tensors, worker->model->count, 0), GB_OK);
}

static void make_worker(kit_worker_t *worker, kit_shard_t *shards, uint32_t i)
{
    const gb_cuda_table_t *cuda = fake_cuda_table();
    memset(worker, 0, sizeof(*worker));
    worker->model = &kit_mixed;
    worker->shard = shards;
    worker->id = ids[i];
    worker->samples = samples[i];
    worker->generation = 1;
    for (uint32_t t = 0; t < kit_mixed.count; t++) {
        worker->tensor_at[t] = worker->total;
        worker->total += kit_mixed.values[t];
    }
    cuda->cuStreamCreate(&worker->stream, 0);
    cuda->cuMemAlloc_v2(&worker->weights, worker->total * 4);
    cuda->cuMemAlloc_v2(&worker->gradients, worker->total * 4);
    open_over(worker, shards, 0);
}

static void check_workers(kit_worker_t *workers, const kit_reference_t *ref)
{
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(gbx_wait(workers[i].gbx, 10000), GB_OK);
        fake_cuda_table()->cuStreamSynchronize(workers[i].stream);
        assert_true(kit_same(&workers[i], ref));
    }
}

static void test_two_shards(void **state)
{
    (void)state;
    kit_shard_t shards[SHARDS];
    kit_worker_t workers[WORKERS];
    kit_reference_t ref;
    uint64_t clock, total = 0;
    char path[SHARDS][300];
    for (int s = 0; s < SHARDS; s++) {
        kit_shard_start(&shards[s], &configs[s]);
        kit_job(&shards[s], 1, &momentum, 0);
        kit_members(&shards[s], 1, 0, WORKERS);
    }
    kit_reference_init(&ref, &kit_mixed, 50);
    for (uint32_t i = 0; i < WORKERS; i++) {
        make_worker(&workers[i], shards, i);
        kit_worker_fill(&workers[i], 50);
        assert_int_equal(gbx_init(workers[i].gbx, workers[i].stream, &clock), GB_OK);
    }
    for (int i = 0; i < WORKERS; i++)
        kit_worker_steps(&workers[i], 0, STEPS, i);
    for (uint64_t c = 0; c < STEPS; c++)
        kit_reference_step(&ref, &momentum, c, ids, samples, WORKERS);
    check_workers(workers, &ref);

    for (int s = 0; s < SHARDS; s++) {
        ps_params_info_t info;
        assert_int_equal(ps_params_info(shards[s].ps, "job", &info), GB_OK);
        assert_true(info.parameters > 4000); /* both hold a good part */
        total += info.parameters;
        assert_int_equal(
            ps_params_checkpoint_now(shards[s].ps, "job", 1, 10000, path[s], sizeof(path[s])),
            GB_OK);
    }
    assert_int_equal(total, ref.total);

    /* Back to the checkpoint, as after a restart. */
    for (int i = 0; i < WORKERS; i++)
        kit_worker_steps(&workers[i], STEPS, 3, 0);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(gbx_wait(workers[i].gbx, 10000), GB_OK);
    for (int s = 0; s < SHARDS; s++) {
        assert_int_equal(ps_params_job_remove(shards[s].ps, "job"), GB_OK);
        assert_int_equal(kit_job(&shards[s], 2, &momentum, 1), STEPS);
        kit_members(&shards[s], 2, STEPS, WORKERS);
    }
    for (int i = 0; i < WORKERS; i++) {
        workers[i].generation = 2;
        open_over(&workers[i], shards, 1);
        assert_int_equal(gbx_init(workers[i].gbx, workers[i].stream, &clock), GB_OK);
        assert_int_equal(clock, STEPS);
    }
    check_workers(workers, &ref);
    for (int i = 0; i < WORKERS; i++)
        kit_worker_steps(&workers[i], STEPS, STEPS, 0);
    for (uint64_t c = STEPS; c < 2 * STEPS; c++)
        kit_reference_step(&ref, &momentum, c, ids, samples, WORKERS);
    check_workers(workers, &ref);

    /* A tensor of 9000 values lies in three chunks; a file has it whole or in pieces. */
    int pieces = 0;
    for (int s = 0; s < SHARDS; s++) {
        gb_st_reader_t *reader;
        assert_int_equal(gb_st_reader_open(path[s], &reader), GB_OK);
        for (uint32_t t = 0; t < gb_st_reader_count(reader); t++)
            pieces += strchr(gb_st_reader_tensor(reader, t)->name, '@') != NULL;
        gb_st_reader_close(reader);
    }
    assert_true(pieces > 0);
    kit_reference_free(&ref);
    for (int i = 0; i < WORKERS; i++)
        kit_worker_close(&workers[i]);
    for (int s = 0; s < SHARDS; s++)
        kit_shard_stop(&shards[s], 1);
    assert_int_equal(fake_cuda_alive(), 0);
}

/* The second shard is lost: the exchange ends as if both were. */
static void test_one_of_two_is_lost(void **state)
{
    (void)state;
    kit_shard_t shards[SHARDS];
    kit_worker_t worker;
    gbx_state_t s;
    uint64_t clock;
    for (int i = 0; i < SHARDS; i++) {
        kit_shard_start(&shards[i], &configs[i]);
        kit_job(&shards[i], 1, &momentum, 0);
        kit_members(&shards[i], 1, 0, WORKERS);
    }
    make_worker(&worker, shards, 0);
    assert_int_equal(gbx_init(worker.gbx, worker.stream, &clock), GB_OK);
    kit_worker_steps(&worker, 0, 1, 0);
    kit_shard_stop(&shards[1], 1);
    assert_int_equal(gbx_wait(worker.gbx, 10000), GB_ERR_LOST);
    fake_cuda_table()->cuStreamSynchronize(worker.stream);
    assert_int_equal(gbx_status(worker.gbx, &s), GB_OK);
    assert_int_equal(s.poison, GBX_LOST);
    kit_worker_close(&worker);
    kit_shard_stop(&shards[0], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_shards),
        cmocka_unit_test(test_one_of_two_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

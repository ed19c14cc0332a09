/* The exchange with one and several workers against the plain reference, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_clock.h"
#include "tests/unit/gbx/testkit.h"

static const ps_optimizer_t sgd = {.kind = PS_SGD, .lr = 0.05f};
static const ps_optimizer_t momentum = {
    .kind = PS_SGD, .lr = 0.05f, .momentum = 0.9f, .weight_decay = 0.0005f};
static const ps_optimizer_t nesterov = {.kind = PS_SGD,
                                        .lr = 0.05f,
                                        .momentum = 0.9f,
                                        .nesterov = 1,
                                        .schedule = PS_LR_STEP,
                                        .lr_step = 3,
                                        .lr_gamma = 0.5f};

typedef struct {
    kit_worker_t *worker;
    kit_shard_t *shard;
    const kit_model_t *model;
    uint32_t id, samples, steps;
    int layered;
    gb_status_t status;
} run_t;

static void *run_worker(void *arg)
{
    run_t *run = arg;
    uint64_t clock = 99;
    kit_worker_open(run->worker, run->shard, run->model, run->id, run->samples, 1);
    kit_worker_fill(run->worker, 1000 + run->id);
    run->status = gbx_init(run->worker->gbx, run->worker->stream, &clock);
    if (run->status == GB_OK) {
        kit_worker_steps(run->worker, clock, run->steps, run->layered);
        run->status = gbx_wait(run->worker->gbx, 20000);
        fake_cuda_table()->cuStreamSynchronize(run->worker->stream);
    }
    return NULL;
}

/* `count` workers, `steps` clocks, against the reference. */
static void check_bsp(const kit_shard_config_t *config, const kit_model_t *model,
                      const ps_optimizer_t *optimizer, uint32_t count, uint32_t steps, int layered)
{
    static const uint32_t ids[] = {1, 2, 3}, samples[] = {64, 33, 31};
    kit_shard_t shard;
    kit_worker_t workers[3];
    run_t runs[3];
    pthread_t threads[3];
    kit_shard_start(&shard, config);
    kit_job(&shard, 1, optimizer, 0);
    kit_members(&shard, 1, 0, count);
    for (uint32_t i = 0; i < count; i++) {
        runs[i] = (run_t){&workers[i], &shard, model, ids[i], samples[i], steps, layered, GB_OK};
        pthread_create(&threads[i], NULL, run_worker, &runs[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);

    /* Whoever came first gave the initial weights. */
    int same = 0;
    for (uint32_t first = 1; first <= count && !same; first++) {
        kit_reference_t ref;
        kit_reference_init(&ref, model, 1000 + first);
        for (uint64_t c = 0; c < steps; c++)
            kit_reference_step(&ref, optimizer, c, ids, samples, count);
        same = 1;
        for (uint32_t i = 0; i < count; i++)
            same &= kit_same(&workers[i], &ref);
        kit_reference_free(&ref);
    }
    for (uint32_t i = 0; i < count; i++) {
        gbx_state_t state;
        assert_int_equal(runs[i].status, GB_OK);
        assert_int_equal(workers[i].kernel_clock, steps);
        assert_int_equal(gbx_status(workers[i].gbx, &state), GB_OK);
        assert_int_equal(state.poison, GBX_RUNNING);
        assert_int_equal(state.clock, steps);
        assert_int_equal(state.in_flight, 0);
    }
    for (uint32_t i = 0; i < count; i++)
        kit_worker_close(&workers[i]);
    kit_shard_stop(&shard, 1);
    assert_true(same);
    assert_int_equal(fake_cuda_alive(), 0);
}

static const kit_shard_config_t plain = {.threads = 1};
static const kit_shard_config_t several = {.threads = 3};
static const kit_shard_config_t tls = {.listen = "127.0.0.1:0", .threads = 2};

static void test_one_worker(void **state)
{
    (void)state;
    check_bsp(&plain, &kit_lenet, &sgd, 1, 20, 0);
    check_bsp(&plain, &kit_mixed, &momentum, 1, 20, 0);
}

static void test_two_workers(void **state)
{
    (void)state;
    check_bsp(&plain, &kit_lenet, &momentum, 2, 30, 0);
    check_bsp(&several, &kit_mixed, &nesterov, 2, 20, 0);
}

static void test_three_workers(void **state)
{
    (void)state;
    check_bsp(&plain, &kit_mixed, &momentum, 3, 20, 0);
    check_bsp(&several, &kit_mixed, &nesterov, 3, 20, 0);
}

static void test_layer_by_layer(void **state)
{
    (void)state;
    check_bsp(&plain, &kit_lenet, &momentum, 2, 10, 1);
    check_bsp(&several, &kit_mixed, &momentum, 3, 10, 1);
}

static void test_over_tls(void **state)
{
    (void)state;
    check_bsp(&tls, &kit_mixed, &momentum, 2, 15, 0);
}

static void test_counters_and_steady_state(void **state)
{
    (void)state;
    kit_shard_t shard;
    kit_worker_t worker;
    gbx_counters_t c;
    uint64_t clock;
    kit_shard_start(&shard, &plain);
    kit_job(&shard, 1, &sgd, 0);
    kit_members(&shard, 1, 0, 1);
    kit_worker_open(&worker, &shard, &kit_lenet, 1, 32, 1);
    kit_worker_fill(&worker, 5);
    assert_int_equal(gbx_init(worker.gbx, worker.stream, &clock), GB_OK);
    unsigned long before = fake_cuda_allocations();
    kit_worker_steps(&worker, 0, 50, 0);
    assert_int_equal(gbx_wait(worker.gbx, 20000), GB_OK);
    assert_int_equal(fake_cuda_allocations(), before); /* nothing in steady state */
    assert_int_equal(gbx_counters(worker.gbx, &c), GB_OK);
    uint64_t chunk = worker.total * 4; /* a slab in one chunk, gaps included */
    assert_int_equal(c.pushes, 50);
    assert_int_equal(c.pulls, 50);
    assert_int_equal(c.pushed, 51 * chunk); /* and the initial weights */
    assert_int_equal(c.pulled, 50 * chunk);
    assert_true(c.shard_sent >= c.pushed && c.shard_sent < c.pushed + 51 * 64 + 4096);
    assert_true(c.shard_received >= c.pulled && c.shard_received < c.pulled + 51 * 64 + 4096);
    assert_int_equal(c.remote, 0);
    ps_params_info_t info;
    assert_int_equal(ps_params_info(shard.ps, "job", &info), GB_OK);
    assert_int_equal(info.clock, 50);
    assert_int_equal(info.pushes, 50);
    assert_int_equal(info.bytes_pushed, 50 * chunk);
    assert_int_equal(info.parameters, 61706);
    assert_int_equal(info.repeats, 0);
    kit_worker_close(&worker);
    kit_shard_stop(&shard, 1);
}

static void test_fence_and_order_errors(void **state)
{
    (void)state;
    kit_shard_t shard;
    kit_worker_t worker;
    uint64_t clock;
    kit_shard_start(&shard, &plain);
    kit_job(&shard, 1, &sgd, 0);
    kit_members(&shard, 1, 0, 1);
    kit_worker_open(&worker, &shard, &kit_mixed, 1, 32, 1);
    assert_int_equal(gbx_push(worker.gbx, worker.stream, 0, 1, 0, 99), GB_ERR_INVALID);
    kit_worker_fill(&worker, 5);
    assert_int_equal(gbx_init(worker.gbx, worker.stream, &clock), GB_OK);
    assert_int_equal(gbx_push(worker.gbx, worker.stream, 0, 1, 3, 2), GB_OK);
    assert_int_equal(gbx_push(worker.gbx, worker.stream, 0, 1, 4, 1), GB_ERR_INVALID); /* twice */
    assert_int_equal(gbx_push(worker.gbx, worker.stream, 1, 1, 0, 1), GB_ERR_INVALID); /* open */
    assert_int_equal(gbx_push_pull(worker.gbx, worker.stream, 0, 1), GB_ERR_INVALID);
    assert_int_equal(gbx_push(worker.gbx, worker.stream, 0, 1, 5, 4), GB_OK);
    assert_int_equal(gbx_push(worker.gbx, worker.stream, 0, 1, 0, 3), GB_OK);
    assert_int_equal(gbx_fence(worker.gbx, worker.stream), GB_OK);
    fake_cuda_table()->cuStreamSynchronize(worker.stream);
    ps_params_info_t info;
    assert_int_equal(ps_params_info(shard.ps, "job", &info), GB_OK);
    assert_int_equal(info.clock, 1); /* the fence let the stream go only after all were taken */
    assert_int_equal(gbx_pull(worker.gbx, worker.stream, 1, 5, 1), GB_OK);
    assert_int_equal(gbx_wait(worker.gbx, 10000), GB_OK);
    kit_worker_close(&worker);
    kit_shard_stop(&shard, 1);
}

static void test_pull_that_can_never_come(void **state)
{
    (void)state;
    kit_shard_t shard;
    kit_worker_t worker;
    gbx_state_t s;
    uint64_t clock;
    kit_shard_start(&shard, &plain);
    kit_job(&shard, 1, &sgd, 0);
    kit_members(&shard, 1, 0, 1);
    kit_worker_open(&worker, &shard, &kit_lenet, 1, 32, 1);
    assert_int_equal(gbx_init(worker.gbx, worker.stream, &clock), GB_OK);
    assert_int_equal(gbx_pull(worker.gbx, worker.stream, 7, 0, 10), GB_OK);
    assert_int_equal(gbx_wait(worker.gbx, 10000), GB_ERR_INVALID);
    fake_cuda_table()->cuStreamSynchronize(worker.stream); /* released */
    assert_int_equal(gbx_status(worker.gbx, &s), GB_OK);
    assert_int_equal(s.poison, GBX_REFUSED);
    assert_non_null(strstr(s.why, "clock 7"));
    assert_int_equal(gbx_push_pull(worker.gbx, worker.stream, 0, 1), GB_ERR_INVALID);
    kit_worker_close(&worker);
    kit_shard_stop(&shard, 1);
}

static void test_refusals(void **state)
{
    (void)state;
    kit_shard_t shard;
    kit_worker_t worker = {.model = &kit_lenet, .id = 1, .generation = 1, .shard = &shard};
    gbx_config_t config;
    gbx_shard_t where;
    gbx_t *gbx;
    const gb_cuda_table_t *cuda = fake_cuda_table();
    kit_shard_start(&shard, &plain);
    kit_worker_config(&worker, &config, &where);
    assert_int_equal(gbx_open(cuda, &config, &gbx), GB_ERR_NOT_FOUND); /* no such job */
    kit_job(&shard, 5, &sgd, 0);
    assert_int_equal(gbx_open(cuda, &config, &gbx), GB_ERR_CANCELLED); /* old generation */
    config.generation = 5;
    where.key[3] ^= 1;
    assert_int_equal(gbx_open(cuda, &config, &gbx), GB_ERR_UNAUTHORISED);
    where.key[3] ^= 1;
    config.lease++;
    assert_int_equal(gbx_open(cuda, &config, &gbx), GB_ERR_UNAUTHORISED);
    config.lease--;
    where.endpoint = "unix:/nonexistent/socket";
    assert_int_equal(gbx_open(cuda, &config, &gbx), GB_ERR_UNREACHABLE);
    where.endpoint = shard.endpoint;
    config.chunk_bytes = 1000;
    assert_int_equal(gbx_open(cuda, &config, &gbx), GB_ERR_INVALID);
    config.chunk_bytes = 0;
    assert_int_equal(gbx_open(cuda, &config, &gbx), GB_OK);
    const gbx_tensor_t tensor = {.name = "a", .dims = 1, .shape = {100}};
    assert_int_equal(gbx_declare(gbx, &tensor, 1, 0), GB_OK);
    gbx_close(gbx);
    const gbx_tensor_t other = {.name = "a", .dims = 1, .shape = {101}};
    config.worker = 2;
    assert_int_equal(gbx_open(cuda, &config, &gbx), GB_OK);
    assert_int_equal(gbx_declare(gbx, &other, 1, 0), GB_ERR_INVALID);
    assert_non_null(strstr(gb_why(), "differs"));
    gbx_close(gbx);
    kit_shard_stop(&shard, 1);
    assert_int_equal(fake_cuda_alive(), 0);
}

static void test_device_failure_releases_streams(void **state)
{
    (void)state;
    static const char *names[] = {"cuEventRecord", "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2",
                                  "cuEventSynchronize", "cuStreamWaitEvent"};
    for (int i = 0; i < 5; i++) {
        for (int after = 0; after < 12; after += 5) {
            kit_shard_t shard;
            kit_worker_t worker;
            uint64_t clock;
            gbx_state_t s;
            kit_shard_start(&shard, &plain);
            kit_job(&shard, 1, &sgd, 0);
            kit_members(&shard, 1, 0, 1);
            kit_worker_open(&worker, &shard, &kit_mixed, 1, 32, 1);
            assert_int_equal(gbx_init(worker.gbx, worker.stream, &clock), GB_OK);
            fake_cuda_fail(names[i], after);
            /* No kernels: a released stream would race with copies that are under way. */
            for (uint64_t c = 0; c < 10; c++) {
                if (gbx_push_pull(worker.gbx, worker.stream, c, 32) != GB_OK)
                    break;
            }
            assert_int_equal(gbx_wait(worker.gbx, 10000), GB_ERR_INTERNAL);
            fake_cuda_table()->cuStreamSynchronize(worker.stream);
            fake_cuda_fail(NULL, 0);
            assert_int_equal(gbx_status(worker.gbx, &s), GB_OK);
            assert_int_equal(s.poison, GBX_DEVICE);
            kit_worker_close(&worker);
            kit_shard_stop(&shard, 1);
            assert_int_equal(fake_cuda_alive(), 0);
        }
    }
}

static void test_latency(void **state)
{
    (void)state;
    enum { ROUNDS = 300 };
    kit_shard_t shard;
    kit_worker_t worker;
    uint64_t clock;
    kit_shard_start(&shard, &plain);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 1);
    kit_worker_open(&worker, &shard, &kit_lenet, 1, 32, 1);
    assert_int_equal(gbx_init(worker.gbx, worker.stream, &clock), GB_OK);
    uint64_t start = gb_now_ns();
    for (uint64_t c = 0; c < ROUNDS; c++) {
        assert_int_equal(gbx_push_pull(worker.gbx, worker.stream, c, 32), GB_OK);
        fake_cuda_table()->cuStreamSynchronize(worker.stream);
    }
    double us = (double)(gb_now_ns() - start) / 1000.0 / ROUNDS;
    print_message("push and pull of LeNet-5: %.0f us\n", us);
    kit_worker_close(&worker);
    kit_shard_stop(&shard, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_worker),
        cmocka_unit_test(test_two_workers),
        cmocka_unit_test(test_three_workers),
        cmocka_unit_test(test_layer_by_layer),
        cmocka_unit_test(test_over_tls),
        cmocka_unit_test(test_counters_and_steady_state),
        cmocka_unit_test(test_fence_and_order_errors),
        cmocka_unit_test(test_pull_that_can_never_come),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_device_failure_releases_streams),
        cmocka_unit_test(test_latency),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

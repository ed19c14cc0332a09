/* Jobs: joining, the barrier, members that go, complete runs, restart. No weights are exchanged. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/core/gb_clock.h"
#include "tests/unit/registry/cluster_help.h"

enum { WAIT_MS = 10000 };

static const gb_job_spec_t SPEC = {.name = "job",
                                   .model = "mlp",
                                   .optimizer = "sgd lr=0.1",
                                   .mode = "bsp",
                                   .samples = 1001,
                                   .batch = 100,
                                   .iterations = 10,
                                   .epochs = 3,
                                   .workers = 2};

typedef struct {
    gb_cluster_t *cluster;
    gb_cluster_lease_t *lease;
    gb_job_t *job;
    uint32_t done;
    pthread_t thread;
    gb_status_t status;
    gb_epoch_t plan;
} worker_t;

static int set_up(void **state)
{
    help_server_t *server = calloc(1, sizeof *server);
    help_server_create(server);
    help_server_start(server);
    *state = server;
    return 0;
}

static int tear_down(void **state)
{
    help_server_destroy(*state);
    free(*state);
    return 0;
}

static void start(worker_t *worker, const help_server_t *server, const gb_job_spec_t *spec)
{
    gb_lease_request_t request = {.gpus = 0};
    memset(worker, 0, sizeof *worker);
    worker->cluster = help_connect(server, "worker");
    assert_int_equal(gb_cluster_lease_acquire(worker->cluster, &request, &worker->lease), GB_OK);
    assert_int_equal(gb_job_join(worker->cluster, worker->lease, spec, &worker->job), GB_OK);
}

static void end(worker_t *worker)
{
    gb_cluster_lease_release(worker->lease);
    gb_cluster_close(worker->cluster);
}

/* As if the process had died and its lease had run out. */
static void die(worker_t *worker)
{
    gb_job_abandon(worker->job);
    end(worker);
}

static void finish(worker_t *worker)
{
    assert_int_equal(gb_job_finish(worker->job, 0), GB_OK);
    end(worker);
}

static void *begin_main(void *arg)
{
    worker_t *worker = arg;
    worker->status = gb_job_begin_epoch(worker->job, worker->done, WAIT_MS, &worker->plan);
    return NULL;
}

static void begin(worker_t *worker, uint32_t done)
{
    worker->done = done;
    assert_int_equal(pthread_create(&worker->thread, NULL, begin_main, worker), 0);
}

static void arrive(worker_t *worker)
{
    pthread_join(worker->thread, NULL);
    assert_int_equal(worker->status, GB_OK);
}

static gb_cluster_job_t show(worker_t *worker)
{
    gb_cluster_job_t *list, job;
    uint32_t count;
    assert_int_equal(gb_cluster_jobs(worker->cluster, &list, &count), GB_OK);
    assert_true(count > 0);
    job = list[count - 1];
    gb_cluster_free(list);
    return job;
}

static void test_two_workers(void **state)
{
    worker_t a, b;
    start(&a, *state, &SPEC);
    start(&b, *state, &SPEC);
    assert_int_not_equal(gb_job_worker(a.job), gb_job_worker(b.job));
    assert_string_equal(gb_job_exchange(a.job), "job");
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        begin(&a, epoch);
        begin(&b, epoch);
        arrive(&a);
        arrive(&b);
        assert_int_equal(a.plan.epoch, epoch);
        assert_int_equal(a.plan.clock_begin, epoch * 10);
        assert_int_equal(a.plan.world, 2);
        assert_int_equal(a.plan.rank, 0);
        assert_int_equal(b.plan.rank, 1);
        assert_int_equal(a.plan.sample_first, 0);
        assert_int_equal(a.plan.sample_count, 500);
        assert_int_equal(b.plan.sample_first, 500);
        assert_int_equal(b.plan.sample_count, 501);
        assert_false(a.plan.complete);
    }
    gb_job_report_t report = {.epoch = 2, .loss = 0.5, .accuracy = NAN, .samples_per_second = 100};
    assert_int_equal(gb_job_report(a.job, &report), GB_OK);
    report.loss = 1.5;
    report.accuracy = 0.9;
    assert_int_equal(gb_job_report(b.job, &report), GB_OK);
    gb_cluster_job_t job = show(&a);
    assert_string_equal(job.state, "running");
    assert_int_equal(job.members, 2);
    assert_float_equal(job.loss, 1.0, 1e-9);
    assert_float_equal(job.accuracy, 0.9, 1e-9);
    assert_float_equal(job.samples_per_second, 200, 1e-9);
    begin(&a, 3);
    begin(&b, 3);
    arrive(&a);
    arrive(&b);
    assert_true(a.plan.complete);
    assert_true(b.plan.complete);
    assert_int_equal(gb_job_finish(b.job, 0), GB_OK);
    end(&b);
    assert_int_equal(gb_job_finish(a.job, 0), GB_OK);
    job = show(&a);
    assert_string_equal(job.state, "finished");
    assert_int_equal(job.epoch, 3);
    end(&a);
}

/* A lost answer is asked for again: the plan stays the same. */
static void test_asking_again(void **state)
{
    gb_job_spec_t spec = SPEC;
    worker_t a;
    gb_epoch_t again;
    spec.workers = 1;
    start(&a, *state, &spec);
    begin(&a, 0);
    arrive(&a);
    assert_int_equal(gb_job_begin_epoch(a.job, 0, WAIT_MS, &again), GB_OK);
    assert_memory_equal(&again, &a.plan, sizeof again);
    assert_int_equal(gb_job_begin_epoch(a.job, 2, WAIT_MS, &again), GB_ERR_INVALID);
    finish(&a);
}

static void test_waits_for_the_others(void **state)
{
    worker_t a;
    gb_epoch_t plan;
    start(&a, *state, &SPEC);
    assert_int_equal(gb_job_begin_epoch(a.job, 0, 300, &plan), GB_ERR_TIMEOUT);
    assert_non_null(strstr(gb_why(), "1 of 2"));
    /* The arrival still counts when the second one comes. */
    worker_t b;
    start(&b, *state, &SPEC);
    begin(&b, 0);
    arrive(&b);
    assert_int_equal(b.plan.world, 2);
    assert_int_equal(gb_job_begin_epoch(a.job, 0, WAIT_MS, &plan), GB_OK);
    assert_int_equal(plan.world, 2);
    finish(&a);
    finish(&b);
}

static void test_dead_worker_leaves(void **state)
{
    worker_t a, b;
    start(&a, *state, &SPEC);
    start(&b, *state, &SPEC);
    begin(&a, 0);
    begin(&b, 0);
    arrive(&a);
    arrive(&b);
    begin(&b, 1); /* waits for a, which dies */
    die(&a);
    arrive(&b);
    assert_int_equal(b.plan.world, 1);
    assert_int_equal(b.plan.epoch, 1);
    assert_int_equal(b.plan.sample_count, 1001);
    finish(&b);
}

/* The shard says that a worker's connection went. */
static void test_shard_drops_a_worker(void **state)
{
    help_server_t *server = *state;
    worker_t a, b;
    gb_epoch_t plan;
    start(&a, server, &SPEC);
    start(&b, server, &SPEC);
    begin(&a, 0);
    begin(&b, 0);
    arrive(&a);
    arrive(&b);
    ps_registry_on_leave(server->registry, "job", gb_job_worker(a.job), "its connection went");
    begin(&b, 1);
    arrive(&b);
    assert_int_equal(b.plan.world, 1);
    assert_int_equal(gb_job_begin_epoch(a.job, 1, WAIT_MS, &plan), GB_ERR_NOT_FOUND);
    /* It may join again, and takes part from the next epoch on. */
    gb_job_abandon(a.job);
    assert_int_equal(gb_job_join(a.cluster, a.lease, &SPEC, &a.job), GB_OK);
    /* A newcomer is waited for only once it has arrived: it asks first, in vain, and stays arrived. */
    assert_int_equal(gb_job_begin_epoch(a.job, 0, 10, &plan), GB_ERR_TIMEOUT);
    begin(&a, 0);
    begin(&b, 2);
    arrive(&a);
    arrive(&b);
    assert_int_equal(a.plan.epoch, 2);
    assert_int_equal(a.plan.world, 2);
    assert_int_equal(a.plan.rank, 1);
    finish(&a);
    finish(&b);
}

static void test_other_settings(void **state)
{
    worker_t a;
    gb_job_t *job;
    start(&a, *state, &SPEC);
    gb_job_spec_t spec = SPEC;
    spec.model = "lenet5";
    assert_int_equal(gb_job_join(a.cluster, a.lease, &spec, &job), GB_ERR_INVALID);
    assert_non_null(strstr(gb_why(), "trains model mlp, not lenet5"));
    spec = SPEC;
    spec.batch = 7;
    assert_int_equal(gb_job_join(a.cluster, a.lease, &spec, &job), GB_ERR_INVALID);
    spec = SPEC;
    spec.optimizer = "magic";
    assert_int_equal(gb_job_join(a.cluster, a.lease, &spec, &job), GB_ERR_INVALID);
    spec = SPEC;
    spec.mode = "ssp";
    assert_int_equal(gb_job_join(a.cluster, a.lease, &spec, &job), GB_ERR_UNSUPPORTED);
    spec = SPEC;
    spec.name = "no/name";
    assert_int_equal(gb_job_join(a.cluster, a.lease, &spec, &job), GB_ERR_INVALID);
    finish(&a);
}

/* A finished run makes room for another of the same name, with weights of its own. */
static void test_second_run(void **state)
{
    gb_job_spec_t spec = SPEC;
    worker_t a;
    spec.workers = 1;
    start(&a, *state, &spec);
    uint64_t first = gb_job_id(a.job);
    finish(&a);
    start(&a, *state, &spec);
    assert_int_not_equal(gb_job_id(a.job), first);
    assert_string_not_equal(gb_job_exchange(a.job), "job");
    begin(&a, 0);
    arrive(&a);
    assert_int_equal(a.plan.epoch, 0);
    finish(&a);
}

/* Nobody is left in the middle: who comes next goes on from the last checkpoint (here: none). */
static void test_abandoned_run_is_resumed(void **state)
{
    gb_job_spec_t spec = SPEC;
    worker_t a;
    spec.workers = 1;
    start(&a, *state, &spec);
    begin(&a, 0);
    arrive(&a);
    uint32_t generation = a.plan.generation;
    uint64_t id = gb_job_id(a.job);
    die(&a);
    start(&a, *state, &spec);
    assert_int_equal(gb_job_id(a.job), id);
    begin(&a, 0);
    arrive(&a);
    assert_int_equal(a.plan.generation, generation + 1);
    assert_int_equal(a.plan.epoch, 0);
    finish(&a);
}

static void test_restart(void **state)
{
    help_server_t *server = *state;
    worker_t a;
    gb_job_spec_t spec = SPEC;
    spec.workers = 1;
    start(&a, server, &spec);
    begin(&a, 0);
    arrive(&a);
    uint32_t generation = a.plan.generation;
    int port = gb_rpc_server_port(server->server);
    help_server_stop(server);
    gb_epoch_t plan;
    assert_int_equal(gb_job_begin_epoch(a.job, 1, 300, &plan), GB_ERR_UNREACHABLE);
    help_server_start(server);
    /* The test's server has another port now; a real one keeps its own. */
    assert_int_not_equal(port, 0);
    gb_job_abandon(a.job);
    gb_cluster_t *old = a.cluster;
    worker_t b;
    start(&b, server, &spec); /* joins beside the member that was kept */
    gb_cluster_job_t job = show(&b);
    assert_int_equal(job.generation, generation + 1);
    assert_int_equal(job.members, 2);
    assert_string_equal(job.state, "waiting");
    finish(&b);
    gb_cluster_lease_release(a.lease);
    gb_cluster_close(old);
}

/* A member of before the restart that never comes back is not waited for, although its lease lives. */
static void test_missing_after_restart(void **state)
{
    help_server_t *server = *state;
    worker_t a, b;
    gb_job_spec_t spec = SPEC;
    spec.workers = 1;
    start(&a, server, &spec);
    begin(&a, 0);
    arrive(&a);
    help_server_stop(server);
    help_server_start(server);
    start(&b, server, &spec);
    assert_int_equal(show(&b).members, 2);
    begin(&b, 0);
    arrive(&b);
    assert_int_equal(b.plan.world, 1);
    assert_int_equal(show(&b).members, 1);
    finish(&b);
    die(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_workers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_asking_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_waits_for_the_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dead_worker_leaves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shard_drops_a_worker, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_settings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_second_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_abandoned_run_is_resumed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_restart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_after_restart, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

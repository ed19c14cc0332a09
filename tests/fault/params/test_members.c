/* Workers that repeat, leave, vanish in the middle of a push, or fall silent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "tests/unit/gbx/rawclient.h"
#include "tests/unit/gbx/testkit.h"

enum { VALUES = 5000 };

static const ps_optimizer_t momentum = {.kind = PS_SGD, .lr = 0.05f, .momentum = 0.9f};
static const kit_model_t single = {.count = 1, .values = {VALUES}};
static const kit_shard_config_t plain = {.threads = 1, .grace_ms = 200};

static ps_params_info_t info_of(kit_shard_t *shard)
{
    ps_params_info_t info;
    assert_int_equal(ps_params_info(shard->ps, "job", &info), GB_OK);
    return info;
}

static void raw_of(raw_t *raw, kit_shard_t *shard, uint32_t worker)
{
    raw_open(raw, shard->endpoint, shard->lease, shard->key, worker, 1, VALUES);
}

static void fill(kit_reference_t *ref, float *gradient, uint32_t id, uint64_t clock)
{
    for (uint64_t i = 0; i < VALUES; i++)
        gradient[i] = kit_gradient(ref->weights[i], i, id, clock);
}

/* A push that comes again, on the same and on a new connection, before and after the step. */
static void test_repeats_are_applied_once(void **state)
{
    (void)state;
    static const uint32_t ids[] = {1, 2}, samples[] = {10, 30};
    static float g1[VALUES], g2[VALUES], w[VALUES];
    kit_shard_t shard;
    kit_reference_t ref;
    raw_t one, two;
    gbx_chunk_head_t head;
    gbx_poison_t error;
    kit_shard_start(&shard, &plain);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 2);
    kit_reference_init(&ref, &single, 7);
    fill(&ref, g1, 1, 0);
    fill(&ref, g2, 2, 0);
    raw_of(&one, &shard, 1);
    assert_int_equal(raw_give(&one, ref.weights), 1);
    raw_of(&two, &shard, 2);
    assert_int_equal(raw_give(&two, ref.weights), 0);

    raw_push(&one, GBX_OP_PUSH, 0, 10, g1, VALUES);
    raw_take(&one, &head, NULL, &error);
    assert_int_equal(head.repeat, 0);
    raw_push(&one, GBX_OP_PUSH, 0, 10, g2, VALUES); /* other bytes: must not be taken */
    raw_take(&one, &head, NULL, &error);
    assert_int_equal(head.repeat, 1);
    raw_close(&one);
    raw_of(&one, &shard, 1);
    raw_push(&one, GBX_OP_PUSH_PULL, 0, 10, g1, VALUES); /* repeat that waits for the step */
    raw_push(&two, GBX_OP_PUSH_PULL, 0, 30, g2, VALUES);
    raw_take(&two, &head, w, &error);
    assert_int_equal(head.clock, 1);
    raw_take(&one, &head, w, &error);
    assert_int_equal(head.clock, 1);
    kit_reference_step(&ref, &momentum, 0, ids, samples, 2);
    assert_memory_equal(w, ref.weights, sizeof(w));

    raw_push(&one, GBX_OP_PUSH_PULL, 0, 10, g1, VALUES); /* repeat after the step */
    raw_take(&one, &head, w, &error);
    assert_memory_equal(w, ref.weights, sizeof(w));
    ps_params_info_t info = info_of(&shard);
    assert_int_equal(info.clock, 1);
    assert_int_equal(info.repeats, 3);
    assert_int_equal(info.pushes, 2);
    raw_close(&one);
    raw_close(&two);
    kit_reference_free(&ref);
    kit_shard_stop(&shard, 1);
}

/* Pushes that are ahead, of strangers, before there are weights: a clear error each. */
static void test_pushes_that_cannot_be(void **state)
{
    (void)state;
    static float g[VALUES];
    kit_shard_t shard;
    raw_t raw, stranger;
    gbx_chunk_head_t head;
    gbx_poison_t error = GBX_RUNNING;
    kit_shard_start(&shard, &plain);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 1);
    raw_of(&raw, &shard, 1);
    raw_push(&raw, GBX_OP_PUSH, 0, 10, g, VALUES);
    assert_true(raw_take(&raw, &head, NULL, &error) & GB_FRAME_ERROR);
    assert_int_equal(error, GBX_REFUSED);
    assert_int_equal(raw_give(&raw, g), 1);
    raw_push(&raw, GBX_OP_PUSH, 3, 10, g, VALUES);
    assert_true(raw_take(&raw, &head, NULL, &error) & GB_FRAME_ERROR);
    assert_int_equal(error, GBX_REFUSED);
    raw_of(&stranger, &shard, 9);
    raw_push(&stranger, GBX_OP_PUSH, 0, 10, g, VALUES);
    assert_true(raw_take(&stranger, &head, NULL, &error) & GB_FRAME_ERROR);
    assert_int_equal(error, GBX_EVICTED);
    raw_push(&raw, GBX_OP_PUSH, 0, 10, g, VALUES); /* the connection is still good */
    assert_false(raw_take(&raw, &head, NULL, &error) & GB_FRAME_ERROR);
    raw_close(&raw);
    raw_close(&stranger);
    kit_shard_stop(&shard, 1);
}

static int left(void *arg)
{
    kit_shard_t *shard = arg;
    pthread_mutex_lock(&shard->lock);
    int n = shard->left;
    pthread_mutex_unlock(&shard->lock);
    return n > 0;
}

/* kill -9 in the middle of a push: dropped whole, the other goes on alone. */
static void test_killed_in_the_middle_of_a_push(void **state)
{
    (void)state;
    static float g[VALUES];
    static const uint32_t ids[] = {1}, samples[] = {64};
    int ready[2];
    char byte = 0;
    kit_shard_t shard;
    kit_worker_t worker;
    kit_reference_t ref;
    uint64_t clock;
    kit_shard_start(&shard, &plain);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 2);
    kit_worker_open(&worker, &shard, &single, 1, 64, 1);
    kit_worker_fill(&worker, 3);
    assert_int_equal(gbx_init(worker.gbx, worker.stream, &clock), GB_OK);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        raw_t raw;
        raw_of(&raw, &shard, 2);
        raw_push(&raw, GBX_OP_PUSH_PULL, 0, 1000, g, VALUES / 2);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    kit_worker_steps(&worker, 0, 5, 0);
    assert_int_equal(gbx_wait(worker.gbx, 50), GB_ERR_TIMEOUT); /* the barrier holds */
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(gbx_wait(worker.gbx, 10000), GB_OK);
    assert_true(kit_wait(left, &shard, 5));
    assert_int_equal(shard.last_left, 2);
    assert_int_equal(info_of(&shard).dropped_halves, 1);
    kit_reference_init(&ref, &single, 3);
    for (uint64_t c = 0; c < 5; c++)
        kit_reference_step(&ref, &momentum, c, ids, samples, 1);
    fake_cuda_table()->cuStreamSynchronize(worker.stream);
    assert_true(kit_same(&worker, &ref));
    kit_reference_free(&ref);
    kit_worker_close(&worker);
    kit_shard_stop(&shard, 1);
    close(ready[0]);
    close(ready[1]);
}

/* A member is taken out while the others wait for it. */
static void test_leave_in_the_middle_of_an_epoch(void **state)
{
    (void)state;
    static const uint32_t ids[] = {1, 2, 3}, samples[] = {10, 20, 30};
    kit_shard_t shard;
    kit_worker_t workers[3];
    kit_reference_t ref;
    gbx_state_t s;
    uint64_t clock;
    kit_shard_start(&shard, &plain);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 3);
    for (uint32_t i = 0; i < 3; i++) {
        kit_worker_open(&workers[i], &shard, &single, ids[i], samples[i], 1);
        kit_worker_fill(&workers[i], 11);
        assert_int_equal(gbx_init(workers[i].gbx, workers[i].stream, &clock), GB_OK);
    }
    for (int i = 0; i < 3; i++)
        kit_worker_steps(&workers[i], 0, 5, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(gbx_wait(workers[i].gbx, 10000), GB_OK);
    /* its gradient of clock 5 has come whole, and still is left out */
    fake_cuda_table()->cuStreamSynchronize(workers[2].stream);
    assert_int_equal(gbx_push(workers[2].gbx, workers[2].stream, 5, 30, 0, 1), GB_OK);
    assert_int_equal(gbx_wait(workers[2].gbx, 10000), GB_OK);
    kit_worker_steps(&workers[0], 5, 7, 0);
    assert_int_equal(gbx_wait(workers[0].gbx, 50), GB_ERR_TIMEOUT); /* worker 2 is missing */
    assert_int_equal(ps_params_leave(shard.ps, "job", 3), GB_OK);
    kit_worker_steps(&workers[1], 5, 7, 0);
    kit_reference_init(&ref, &single, 11);
    for (uint64_t c = 0; c < 12; c++)
        kit_reference_step(&ref, &momentum, c, ids, samples, c < 5 ? 3 : 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gbx_wait(workers[i].gbx, 10000), GB_OK);
        fake_cuda_table()->cuStreamSynchronize(workers[i].stream);
        assert_true(kit_same(&workers[i], &ref));
    }
    while (gbx_status(workers[2].gbx, &s) == GB_OK && s.poison == GBX_RUNNING)
        usleep(1000);
    assert_int_equal(s.poison, GBX_EVICTED);
    assert_int_equal(info_of(&shard).members, 2);
    kit_reference_free(&ref);
    for (uint32_t i = 0; i < 3; i++)
        kit_worker_close(&workers[i]);
    kit_shard_stop(&shard, 1);
}

/* gbx_close says goodbye: nobody waits for the grace. */
static void test_goodbye_needs_no_grace(void **state)
{
    (void)state;
    const kit_shard_config_t patient = {.threads = 2, .grace_ms = 60000};
    kit_shard_t shard;
    kit_worker_t workers[2];
    uint64_t clock;
    kit_shard_start(&shard, &patient);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 2);
    for (uint32_t i = 0; i < 2; i++) {
        kit_worker_open(&workers[i], &shard, &kit_mixed, i + 1, 8, 1);
        assert_int_equal(gbx_init(workers[i].gbx, workers[i].stream, &clock), GB_OK);
    }
    kit_worker_steps(&workers[0], 0, 3, 0);
    kit_worker_close(&workers[1]);
    assert_int_equal(gbx_wait(workers[0].gbx, 10000), GB_OK);
    assert_true(kit_wait(left, &shard, 10));
    assert_int_equal(shard.last_left, 2);
    kit_worker_close(&workers[0]);
    kit_shard_stop(&shard, 1);
}

/* A worker that lives but says nothing is gone after the silence. */
static void test_silence(void **state)
{
    (void)state;
    const kit_shard_config_t strict = {.threads = 1, .grace_ms = 50, .silence_ms = 400};
    kit_shard_t shard;
    raw_t mute;
    kit_shard_start(&shard, &strict);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 2);
    raw_of(&mute, &shard, 2);
    assert_true(kit_wait(left, &shard, 10));
    assert_int_equal(shard.last_left, 2);
    raw_close(&mute);
    kit_shard_stop(&shard, 1);
}

/* The others' epoch goes on while a new member joins at a later clock. */
static void test_join_at_a_later_clock(void **state)
{
    (void)state;
    static const uint32_t ids[] = {1, 2}, samples[] = {10, 20};
    kit_shard_t shard;
    kit_worker_t workers[2];
    kit_reference_t ref;
    uint64_t clock;
    kit_shard_start(&shard, &plain);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 1);
    kit_worker_open(&workers[0], &shard, &kit_mixed, 1, 10, 1);
    kit_worker_fill(&workers[0], 4);
    assert_int_equal(gbx_init(workers[0].gbx, workers[0].stream, &clock), GB_OK);
    kit_members(&shard, 1, 6, 2);
    assert_int_equal(ps_params_set_members(shard.ps, "job", 0, 6, ids, 2), GB_ERR_INVALID);
    kit_worker_open(&workers[1], &shard, &kit_mixed, 2, 20, 1);
    assert_int_equal(gbx_init(workers[1].gbx, workers[1].stream, &clock), GB_OK);
    assert_int_equal(gbx_pull(workers[1].gbx, workers[1].stream, 6, 0, 9), GB_OK);
    kit_worker_steps(&workers[1], 6, 4, 0);
    kit_worker_steps(&workers[0], 0, 10, 0);
    kit_reference_init(&ref, &kit_mixed, 4);
    for (uint64_t c = 0; c < 10; c++)
        kit_reference_step(&ref, &momentum, c, ids, samples, c < 6 ? 1 : 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gbx_wait(workers[i].gbx, 10000), GB_OK);
        fake_cuda_table()->cuStreamSynchronize(workers[i].stream);
        assert_true(kit_same(&workers[i], &ref));
    }
    /* a clock that has passed */
    assert_int_equal(ps_params_set_members(shard.ps, "job", 1, 5, ids, 2), GB_ERR_INVALID);
    kit_reference_free(&ref);
    kit_worker_close(&workers[0]);
    kit_worker_close(&workers[1]);
    kit_shard_stop(&shard, 1);
}

/* All members are gone: who waits for weights is told. */
static void test_nobody_left(void **state)
{
    (void)state;
    static float g[VALUES];
    kit_shard_t shard;
    raw_t member, reader;
    gbx_chunk_head_t head;
    gbx_poison_t error = GBX_RUNNING;
    kit_shard_start(&shard, &plain);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 1);
    raw_of(&member, &shard, 1);
    assert_int_equal(raw_give(&member, g), 1);
    raw_of(&reader, &shard, 7);
    raw_pull(&reader, 1);
    assert_int_equal(ps_params_leave(shard.ps, "job", 1), GB_OK);
    assert_true(raw_take(&reader, &head, g, &error) & GB_FRAME_ERROR);
    assert_int_equal(error, GBX_EVICTED);
    raw_close(&member);
    raw_close(&reader);
    kit_shard_stop(&shard, 1);
}

static void test_revoked_lease(void **state)
{
    (void)state;
    kit_shard_t shard;
    kit_worker_t worker;
    uint64_t clock;
    kit_shard_start(&shard, &plain);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 2);
    kit_worker_open(&worker, &shard, &single, 1, 64, 1);
    assert_int_equal(gbx_init(worker.gbx, worker.stream, &clock), GB_OK);
    kit_worker_steps(&worker, 0, 1, 0); /* waits for worker 2 */
    assert_int_equal(ps_params_revoke(shard.ps, shard.lease), GB_OK);
    assert_int_equal(ps_params_revoke(shard.ps, shard.lease), GB_ERR_NOT_FOUND);
    assert_int_equal(gbx_wait(worker.gbx, 10000), GB_ERR_INVALID);
    fake_cuda_table()->cuStreamSynchronize(worker.stream);
    assert_true(kit_wait(left, &shard, 5));
    gbx_config_t config;
    gbx_shard_t where;
    kit_worker_config(&worker, &config, &where);
    assert_int_equal(gbx_reopen(worker.gbx, &config), GB_ERR_UNAUTHORISED);
    kit_worker_close(&worker);
    kit_shard_stop(&shard, 1);
}

static void *init_worker(void *arg)
{
    kit_worker_t *worker = arg;
    uint64_t clock;
    if (gbx_init(worker->gbx, worker->stream, &clock) != GB_OK)
        abort();
    return NULL;
}

static int two_connections(void *arg)
{
    return info_of(arg).connections == 2;
}

/* The first to claim dies before it has given the weights: the next one gives. */
static void test_giver_dies(void **state)
{
    (void)state;
    static float w[VALUES];
    kit_shard_t shard;
    kit_worker_t worker;
    raw_t giver;
    uint8_t head[GB_FRAME_HEADER], payload[16];
    gb_frame_t frame = {.operation = GBX_OP_CLAIM};
    kit_shard_start(&shard, &plain);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 1);
    raw_of(&giver, &shard, 2);
    gb_frame_encode(&frame, head);
    assert_int_equal(gb_link_send(giver.link, head, sizeof(head)), GB_OK);
    uint64_t soon = gb_now_ns() + 10000000000u;
    assert_int_equal(gb_link_recv(giver.link, head, sizeof(head), soon), GB_OK);
    assert_int_equal(gb_link_recv(giver.link, payload, sizeof(payload), soon), GB_OK);
    assert_int_equal(payload[0], 1);
    kit_worker_open(&worker, &shard, &single, 1, 64, 1);
    kit_worker_fill(&worker, 21);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, init_worker, &worker), 0);
    assert_true(kit_wait(two_connections, &shard, 10));
    raw_close(&giver);
    pthread_join(thread, NULL);
    assert_int_equal(gbx_pull(worker.gbx, worker.stream, 0, 0, 1), GB_OK);
    assert_int_equal(gbx_wait(worker.gbx, 10000), GB_OK);
    memcpy(w, (void *)(uintptr_t)worker.weights, sizeof(w));
    kit_worker_fill(&worker, 21);
    assert_memory_equal(w, (void *)(uintptr_t)worker.weights, sizeof(w));
    kit_worker_close(&worker);
    kit_shard_stop(&shard, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeats_are_applied_once),
        cmocka_unit_test(test_pushes_that_cannot_be),
        cmocka_unit_test(test_killed_in_the_middle_of_a_push),
        cmocka_unit_test(test_leave_in_the_middle_of_an_epoch),
        cmocka_unit_test(test_goodbye_needs_no_grace),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_join_at_a_later_clock),
        cmocka_unit_test(test_nobody_left),
        cmocka_unit_test(test_revoked_lease),
        cmocka_unit_test(test_giver_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The way through the shim, with a shim of one function: the worker's calls become bytes, the host turns
 * them back. And garbage for the host, which comes from a client that nobody trusts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda/gb_exchange_abi.h"
#include "server/client/gbx_call.h"
#include "server/client/gbx_host.h"
#include "tests/unit/gbx/testkit.h"

static const ps_optimizer_t momentum = {.kind = PS_SGD, .lr = 0.05f, .momentum = 0.9f};
static const kit_shard_config_t plain = {.threads = 1, .grace_ms = 20000};

static gbx_host_t *host;
static int queued_calls, blocking_calls;

static CUresult shim_call(uint32_t op, CUstream stream, const void *req, uint32_t req_len,
                          void *rsp, uint32_t rsp_cap, uint32_t *rsp_len, int flags)
{
    if (flags & GB_EXCHANGE_BLOCKING) {
        assert_true(gbx_host_op_blocks(op));
        blocking_calls++;
    } else {
        assert_false(gbx_host_op_blocks(op));
        assert_null(rsp);
        queued_calls++;
    }
    return (CUresult)gbx_host_call(host, op, stream, req, req_len, rsp, rsp_cap, rsp_len);
}

static const gb_exchange_table_t exchange = {sizeof(exchange), 1, shim_call};

static CUresult export_table(const void **table, const CUuuid *id)
{
    if (memcmp(id, &gb_exchange_uuid, sizeof(*id)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *table = &exchange;
    return CUDA_SUCCESS;
}

/* The fake driver, looked at through the shim. */
static const gb_cuda_table_t *shim_table(void)
{
    static gb_cuda_table_t table;
    table = *fake_cuda_table();
    table.cuGetExportTable = export_table;
    return &table;
}

static gbx_t *open_remote(kit_worker_t *worker)
{
    gbx_config_t config;
    gbx_shard_t where;
    gbx_t *gbx;
    kit_worker_config(worker, &config, &where);
    assert_int_equal(gbx_open(shim_table(), &config, &gbx), GB_OK);
    return gbx;
}

static int has_left(void *arg)
{
    kit_shard_t *shard = arg;
    pthread_mutex_lock(&shard->lock);
    int n = shard->left;
    pthread_mutex_unlock(&shard->lock);
    return n > 0;
}

static void test_through_the_shim(void **state)
{
    (void)state;
    static const uint32_t ids[] = {1}, samples[] = {16};
    kit_shard_t shard;
    kit_worker_t worker;
    kit_reference_t ref;
    gbx_state_t s;
    gbx_counters_t c;
    uint64_t clock = 9;
    kit_shard_start(&shard, &plain);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 1);
    assert_int_equal(gbx_host_create(fake_cuda_table(), &host), GB_OK);
    kit_worker_open(&worker, &shard, &kit_mixed, 1, 16, 1);
    gbx_close(worker.gbx); /* that was the local one */
    assert_true(kit_wait(has_left, &shard, 10));
    kit_members(&shard, 1, 0, 1);
    worker.gbx = open_remote(&worker);
    gbx_tensor_t tensors[KIT_MAX_TENSORS];
    char names[KIT_MAX_TENSORS][16];
    for (uint32_t t = 0; t < kit_mixed.count; t++) {
        snprintf(names[t], sizeof(names[t]), "t%u", t);
        tensors[t] = (gbx_tensor_t){.name = names[t],
                                    .dims = 1,
                                    .shape = {kit_mixed.values[t]},
                                    .weights = worker.weights + worker.tensor_at[t] * 4,
                                    .gradients = worker.gradients + worker.tensor_at[t] * 4};
    }
    assert_int_equal(gbx_declare(worker.gbx, tensors, kit_mixed.count, 0), GB_OK);
    assert_int_equal(gbx_declare(worker.gbx, tensors, kit_mixed.count, 0), GB_ERR_EXISTS);
    assert_true(strlen(gb_why()) > 0);
    kit_worker_fill(&worker, 6);
    assert_int_equal(gbx_init(worker.gbx, worker.stream, &clock), GB_OK);
    assert_int_equal(clock, 0);
    queued_calls = blocking_calls = 0;
    kit_worker_steps(&worker, 0, 10, 0);
    assert_int_equal(queued_calls, 10); /* nothing waits */
    assert_int_equal(blocking_calls, 0);
    kit_worker_steps(&worker, 10, 5, 1);
    assert_int_equal(gbx_fence(worker.gbx, worker.stream), GB_OK);
    assert_int_equal(gbx_wait(worker.gbx, 10000), GB_OK);
    kit_reference_init(&ref, &kit_mixed, 6);
    for (uint64_t k = 0; k < 15; k++)
        kit_reference_step(&ref, &momentum, k, ids, samples, 1);
    assert_true(kit_same(&worker, &ref));
    assert_int_equal(gbx_status(worker.gbx, &s), GB_OK);
    assert_int_equal(s.poison, GBX_RUNNING);
    assert_int_equal(s.clock, 15);
    assert_int_equal(gbx_counters(worker.gbx, &c), GB_OK);
    assert_int_equal(c.remote, 1);
    assert_int_equal(c.pulls, 15);
    /* an order that cannot be: the caller has gone on and learns by the status */
    assert_int_equal(gbx_push(worker.gbx, worker.stream, 15, 1, 99, 1), GB_OK);
    assert_int_equal(gbx_status(worker.gbx, &s), GB_OK);
    assert_int_equal(s.poison, GBX_REFUSED);
    assert_non_null(strstr(s.why, "tensors 99"));
    gbx_config_t config;
    gbx_shard_t where;
    kit_worker_config(&worker, &config, &where);
    assert_int_equal(gbx_reopen(worker.gbx, &config), GB_OK);
    assert_int_equal(gbx_init(worker.gbx, worker.stream, &clock), GB_OK);
    assert_int_equal(clock, 15);
    kit_reference_free(&ref);
    kit_worker_close(&worker);
    gbx_host_destroy(host);
    kit_shard_stop(&shard, 1);
    assert_int_equal(fake_cuda_alive(), 0);
}

/* A host that ends releases the streams that wait. */
static void test_end_of_the_session(void **state)
{
    (void)state;
    kit_shard_t shard;
    kit_worker_t worker = {.shard = &shard, .model = &kit_lenet, .id = 1, .generation = 1};
    const gb_cuda_table_t *cuda = fake_cuda_table();
    CUdeviceptr memory;
    CUstream stream;
    uint64_t clock;
    kit_shard_start(&shard, &plain);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 2);
    assert_int_equal(gbx_host_create(cuda, &host), GB_OK);
    cuda->cuStreamCreate(&stream, 0);
    cuda->cuMemAlloc_v2(&memory, 800);
    gbx_t *gbx = open_remote(&worker);
    const gbx_tensor_t tensor = {
        .name = "a", .dims = 1, .shape = {100}, .weights = memory, .gradients = memory + 400};
    assert_int_equal(gbx_declare(gbx, &tensor, 1, 0), GB_OK);
    assert_int_equal(gbx_init(gbx, stream, &clock), GB_OK);
    assert_int_equal(gbx_push_pull(gbx, stream, 0, 1), GB_OK); /* worker 2 never comes */
    gbx_host_destroy(host);
    cuda->cuStreamSynchronize(stream);
    assert_int_equal(gbx_host_create(cuda, &host), GB_OK);
    gbx_state_t s;
    assert_int_equal(gbx_status(gbx, &s), GB_ERR_LOST); /* unknown to the new host */
    gbx_close(gbx);
    gbx_host_destroy(host);
    cuda->cuStreamDestroy_v2(stream);
    cuda->cuMemFree_v2(memory);
    kit_shard_stop(&shard, 1);
    assert_int_equal(fake_cuda_alive(), 0);
}

/* The goodbye is said whatever other threads send at that moment: nobody waits for the grace. */
static void test_goodbye_is_always_said(void **state)
{
    kit_shard_t shard;
    (void)state;
    kit_shard_start(&shard, &plain);
    kit_job(&shard, 1, &momentum, 0);
    for (int i = 0; i < 200; i++) {
        kit_worker_t worker;
        kit_members(&shard, 1, 0, 1);
        kit_worker_open(&worker, &shard, &kit_lenet, 1, 16, 1);
        kit_worker_close(&worker);
        assert_true(kit_wait(has_left, &shard, 10));
        pthread_mutex_lock(&shard.lock);
        shard.left = 0;
        pthread_mutex_unlock(&shard.lock);
    }
    kit_shard_stop(&shard, 1);
}

static void test_garbage(void **state)
{
    (void)state;
    uint8_t req[400], rsp[1024];
    uint64_t x = 99;
    uint32_t length;
    assert_int_equal(gbx_host_create(fake_cuda_table(), &host), GB_OK);
    for (int round = 0; round < 30000; round++) {
        for (size_t i = 0; i < sizeof(req); i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            req[i] = (uint8_t)(x >> 30);
        }
        if (round % 2) { /* a good beginning */
            gb_writer_t w = gb_writer(req, sizeof(req));
            gbx_call_begin(&w, round % 4 == 1 ? 0 : 1);
        }
        uint32_t op = (uint32_t)(round % 16), size = (uint32_t)(x % sizeof(req));
        length = 0;
        int result = gbx_host_call(host, op, NULL, req, size, rsp, sizeof(rsp), &length);
        assert_true(length <= sizeof(rsp));
        if (result == 0) { /* then the answer says no */
            assert_true(length >= 8);
            assert_int_not_equal(rsp[0], GB_OK);
        }
    }
    assert_int_equal(gbx_host_call(host, GBX_CALL_OPEN, NULL, req, 4, NULL, 0, NULL), 1);
    assert_int_equal(gbx_host_call(host, GBX_CALL_OPEN, NULL, req, 4, rsp, 2, &length), 1);
    assert_int_equal(
        gbx_host_call(host, GBX_CALL_OPEN, NULL, req, GBX_HOST_MAX_REQUEST + 1, rsp, 9, &length),
        1);
    gbx_host_destroy(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_through_the_shim),
        cmocka_unit_test(test_end_of_the_session),
        cmocka_unit_test(test_goodbye_is_always_said),
        cmocka_unit_test(test_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

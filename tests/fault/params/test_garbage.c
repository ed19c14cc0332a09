/* Garbage on the data port, before and after the preamble: the connection is closed, a training job
 * beside it is not disturbed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/client/gbx_plan.h"
#include "tests/unit/gbx/rawclient.h"
#include "tests/unit/gbx/testkit.h"

enum { VALUES = 5000 };

static const ps_optimizer_t momentum = {.kind = PS_SGD, .lr = 0.05f, .momentum = 0.9f};
static const kit_model_t single = {.count = 1, .values = {VALUES}};

static uint64_t seed = 88172645463325252ull;

static void noise(uint8_t *out, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        out[i] = (uint8_t)(seed >> 24);
    }
}

/* 1 if the peer closes within ten seconds. */
static int closed(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    uint8_t bytes[256];
    while (poll(&p, 1, 10000) == 1) {
        if (recv(fd, bytes, sizeof(bytes), 0) <= 0)
            return 1;
    }
    return 0;
}

static void garbage_before_the_preamble(const kit_shard_t *shard)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint8_t bytes[512];
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", shard->endpoint + 5);
    for (int i = 0; i < 20; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        noise(bytes, sizeof(bytes));
        size_t size = i < 10 ? sizeof(bytes) : 40; /* and some that stop in the middle */
        assert_true(send(fd, bytes, size, MSG_NOSIGNAL) > 0);
        if (i >= 10)
            shutdown(fd, SHUT_WR);
        assert_true(closed(fd));
        close(fd);
    }
}

static void expect_end(raw_t *raw)
{
    uint8_t bytes[256];
    size_t got;
    uint64_t until = gb_now_ns() + 10000000000u;
    gb_status_t st;
    do {
        st = gb_link_recv_some(raw->link, bytes, sizeof(bytes), until, &got);
    } while (st == GB_OK);
    assert_int_equal(st, GB_ERR_LOST);
}

static void send_raw(raw_t *raw, uint16_t operation, uint32_t length, const void *payload,
                     uint32_t size)
{
    uint8_t out[GB_FRAME_HEADER + 256];
    gb_frame_t frame = {.operation = operation, .length = length};
    gb_frame_encode(&frame, out);
    if (size > 0)
        memcpy(out + GB_FRAME_HEADER, payload, size);
    gb_link_send(raw->link, out, GB_FRAME_HEADER + size);
}

/* Worker 9 holds the right key and sends nonsense. */
static void garbage_after_the_preamble(kit_shard_t *shard)
{
    uint8_t bytes[GBX_CHUNK_HEAD];
    for (int i = 0; i < 60; i++) {
        raw_t raw;
        raw_open(&raw, shard->endpoint, shard->lease, shard->key, 9, 1, VALUES);
        gbx_chunk_head_t head = {.chunk = 77};
        switch (i % 6) {
        case 0: { /* a chunk that there is not */
            gbx_chunk_head_encode(&head, bytes);
            send_raw(&raw, GBX_OP_PULL, sizeof(bytes), bytes, sizeof(bytes));
            break;
        }
        case 1: /* a push of the wrong size */
            head.chunk = 0;
            gbx_chunk_head_encode(&head, bytes);
            send_raw(&raw, GBX_OP_PUSH, sizeof(bytes) + 8, bytes, sizeof(bytes));
            break;
        case 2: /* an operation that there is not */
            send_raw(&raw, 4711, 0, NULL, 0);
            break;
        case 3: /* a frame that is too long */
            send_raw(&raw, GBX_OP_DECLARE, GBX_MAX_PLAN_BYTES + 1, NULL, 0);
            break;
        case 4: /* a chunk frame without its head */
            send_raw(&raw, GBX_OP_PUSH, 3, bytes, 3);
            break;
        default: { /* noise */
            uint8_t junk[300];
            noise(junk, sizeof(junk));
            junk[7] = 200; /* surely no version of ours */
            gb_link_send(raw.link, junk, sizeof(junk));
            break;
        }
        }
        expect_end(&raw);
        raw_close(&raw);
    }
}

static void test_garbage_does_not_disturb(void **state)
{
    (void)state;
    static const uint32_t ids[] = {1}, samples[] = {64};
    const kit_shard_config_t config = {.threads = 1, .grace_ms = 50};
    kit_shard_t shard;
    kit_worker_t worker;
    kit_reference_t ref;
    uint64_t clock;
    kit_shard_start(&shard, &config);
    kit_job(&shard, 1, &momentum, 0);
    kit_members(&shard, 1, 0, 1);
    kit_worker_open(&worker, &shard, &single, 1, 64, 1);
    kit_worker_fill(&worker, 3);
    assert_int_equal(gbx_init(worker.gbx, worker.stream, &clock), GB_OK);
    kit_worker_steps(&worker, 0, 100, 0);
    garbage_before_the_preamble(&shard);
    garbage_after_the_preamble(&shard);
    kit_worker_steps(&worker, 100, 100, 0);
    assert_int_equal(gbx_wait(worker.gbx, 20000), GB_OK);
    fake_cuda_table()->cuStreamSynchronize(worker.stream);
    kit_reference_init(&ref, &single, 3);
    for (uint64_t c = 0; c < 200; c++)
        kit_reference_step(&ref, &momentum, c, ids, samples, 1);
    assert_true(kit_same(&worker, &ref));
    kit_reference_free(&ref);
    kit_worker_close(&worker);
    kit_shard_stop(&shard, 1);
}

/* Many connections that say nothing do not keep an honest worker out. */
static void test_silent_connections(void **state)
{
    (void)state;
    enum { SILENT = 150 };
    const kit_shard_config_t config = {.threads = 1};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fds[SILENT];
    static float weights[VALUES];
    kit_shard_t shard;
    raw_t raw;
    kit_shard_start(&shard, &config);
    kit_job(&shard, 1, &momentum, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/shard.sock", shard.folder);
    for (int i = 0; i < SILENT; i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fds[i], (struct sockaddr *)&address, sizeof(address)), 0);
    }
    uint64_t start = gb_now_ns();
    raw_open(&raw, shard.endpoint, shard.lease, shard.key, 1, 1, VALUES);
    assert_int_equal(raw_give(&raw, weights), 1);
    assert_true(gb_now_ns() - start < 4000000000u); /* a handshake's own limit is five seconds */
    raw_close(&raw);
    kit_shard_stop(&shard, 1); /* nor do they hold up the end */
    for (int i = 0; i < SILENT; i++)
        close(fds[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_garbage_does_not_disturb),
        cmocka_unit_test(test_silent_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

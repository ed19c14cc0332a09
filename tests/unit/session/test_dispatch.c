/* The session against a client that speaks the protocol by hand, well or badly; `null` driver. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <string.h>

#include "common/frame/gb_frame.h"
#include "gb_cuda_ops.h"
#include "gpu-proxy/session/px_session.h"
#include "proto/px_wire.h"

#define SECONDS(n) (gb_now_ns() + (n) * 1000000000ull)

static gb_cuda_table_t cuda;
static gb_link_t *mine, *theirs;
static gb_durable_t *served; /* over theirs */
static pthread_t thread;
static gb_status_t ended;

static void *session(void *arg)
{
    static px_session_config_t config;
    (void)arg;
    config.driver = &cuda;
    config.driver_name = "null";
    ended = px_session_run(&config, served);
    gb_link_shutdown(theirs);
    return NULL;
}

static int set_up(void **state)
{
    (void)state;
    px_null_driver(&cuda);
    if (gb_link_pair(&mine, &theirs) || gb_durable_create(theirs, NULL, NULL, &served))
        return 1;
    return pthread_create(&thread, NULL, session, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    gb_link_close(mine);
    gb_durable_free(served);
    return 0;
}

static void send_frame(uint16_t op, uint32_t lane, uint32_t sequence, const void *bytes,
                       uint32_t size)
{
    uint8_t header[GB_FRAME_HEADER];
    gb_frame_t frame = {.length = size, .operation = op, .lane = lane, .sequence = sequence};
    gb_frame_encode(&frame, header);
    struct iovec iov[2] = {{header, sizeof(header)}, {(void *)(uintptr_t)bytes, size}};
    assert_int_equal(gb_link_sendv(mine, iov, 2), GB_OK);
}

/* The next reply; its result. */
static uint32_t receive(gb_frame_t *frame, uint8_t *bytes, size_t cap)
{
    uint8_t header[GB_FRAME_HEADER];
    px_wire_result_t head;
    assert_int_equal(gb_link_recv(mine, header, sizeof(header), SECONDS(10)), GB_OK);
    assert_int_equal(gb_frame_decode(header, PX_WIRE_MAX, frame), GB_OK);
    assert_true(frame->length <= cap && frame->length >= sizeof(head));
    assert_int_equal(gb_link_recv(mine, bytes, frame->length, SECONDS(10)), GB_OK);
    memcpy(&head, bytes, sizeof(head));
    return head.result;
}

static uint8_t reply[64 << 10];

static void say_hello(uint32_t version)
{
    px_wire_hello_t hello = {.version = version, .pid = 1, .program = "test"};
    send_frame(PX_OP_HELLO, 0, 1, &hello, sizeof(hello));
}

static void greet(void)
{
    gb_frame_t frame;
    px_wire_welcome_t welcome;
    say_hello(PX_WIRE_VERSION);
    assert_int_equal(receive(&frame, reply, sizeof(reply)), 0);
    memcpy(&welcome, reply + sizeof(px_wire_result_t), sizeof(welcome));
    assert_int_equal(welcome.version, PX_WIRE_VERSION);
    assert_int_equal(welcome.device_count, 1);
    assert_int_equal(welcome.driver_version, 13000);
}

static void expect_end(gb_status_t status)
{
    uint8_t byte;
    size_t got;
    gb_status_t gone = GB_OK;
    while (gone == GB_OK)
        gone = gb_link_recv_some(mine, &byte, 1, SECONDS(10), &got);
    assert_int_equal(gone, GB_ERR_LOST);
    pthread_join(thread, NULL);
    assert_int_equal(ended, status);
}

static void goodbye(void **state)
{
    (void)state;
    greet();
    assert_int_equal(gb_link_goodbye(mine), GB_OK);
    expect_end(GB_OK);
}

static void end_without_goodbye(void **state)
{
    (void)state;
    greet();
    gb_link_shutdown(mine);
    pthread_join(thread, NULL);
    assert_int_equal(ended, GB_ERR_LOST);
}

static void foreign_version(void **state)
{
    (void)state;
    gb_frame_t frame;
    px_wire_welcome_t welcome;
    say_hello(PX_WIRE_VERSION + 1);
    assert_int_equal(receive(&frame, reply, sizeof(reply)), 0);
    memcpy(&welcome, reply + sizeof(px_wire_result_t), sizeof(welcome));
    assert_int_equal(welcome.version, PX_WIRE_VERSION);
    /* and nothing else is done for it */
    send_frame(GB_OP_cuCtxSynchronize, 0, 2, NULL, 0);
    expect_end(GB_ERR_PROTOCOL);
}

static void call_before_hello(void **state)
{
    (void)state;
    send_frame(GB_OP_cuCtxSynchronize, 0, 1, NULL, 0);
    expect_end(GB_ERR_PROTOCOL);
}

static void garbage(void **state)
{
    (void)state;
    uint8_t bytes[64];
    memset(bytes, 0xa5, sizeof(bytes));
    greet();
    assert_int_equal(gb_link_send(mine, bytes, sizeof(bytes)), GB_OK);
    pthread_join(thread, NULL);
    assert_true(ended == GB_ERR_PROTOCOL || ended == GB_ERR_VERSION);
}

static void unknown_operation(void **state)
{
    (void)state;
    greet();
    send_frame(GB_OP_CALL_END, 0, 2, NULL, 0);
    expect_end(GB_ERR_PROTOCOL);
}

static void short_payload(void **state)
{
    (void)state;
    uint64_t one = 1;
    greet();
    send_frame(GB_OP_cuLaunchKernel, 0, 2, &one, sizeof(one));
    expect_end(GB_ERR_PROTOCOL);
}

static void unknown_context(void **state)
{
    (void)state;
    uint64_t number = 4711;
    greet();
    send_frame(PX_OP_SET_CONTEXT, 0, 2, &number, sizeof(number));
    expect_end(GB_ERR_PROTOCOL);
}

static void lane_out_of_range(void **state)
{
    (void)state;
    greet();
    send_frame(GB_OP_cuCtxSynchronize, 1u << 30, 2, NULL, 0);
    expect_end(GB_ERR_PROTOCOL);
}

/* Numbers that stand for nothing give errors, not crashes; queued failures stick and are told. */
static void wrong_numbers(void **state)
{
    (void)state;
    gb_frame_t frame;
    uint64_t args[4] = {99, 0, 0, 0};
    uint64_t retain[3] = {16, 0, 0}, number = 16;
    greet();
    send_frame(GB_OP_cuStreamSynchronize, 0, 2, args, 8);
    assert_int_equal(receive(&frame, reply, sizeof(reply)), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(frame.sequence, 2);
    send_frame(GB_OP_cuModuleGetGlobal_v2, 0, 3, args, 16);
    assert_int_equal(receive(&frame, reply, sizeof(reply)), CUDA_ERROR_INVALID_HANDLE);
    send_frame(GB_OP_cuMemAlloc_v2, 0, 4, args, 8);
    assert_int_equal(receive(&frame, reply, sizeof(reply)), CUDA_ERROR_INVALID_CONTEXT);
    send_frame(GB_OP_cuDevicePrimaryCtxRetain, 0, 5, retain, sizeof(retain));
    assert_int_equal(receive(&frame, reply, sizeof(reply)), 0);
    send_frame(PX_OP_SET_CONTEXT, 0, 6, &number, sizeof(number));
    send_frame(GB_OP_cuEventRecord, 0, 7, args, 16); /* queued: no answer */
    send_frame(GB_OP_cuCtxSynchronize, 0, 8, NULL, 0);
    assert_int_equal(receive(&frame, reply, sizeof(reply)), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(frame.sequence, 8);
    assert_true(frame.flags & GB_FRAME_ERROR);
    assert_int_equal(gb_link_goodbye(mine), GB_OK);
    expect_end(GB_OK);
}

static unsigned memsets;

static CUresult count_memset(CUdeviceptr address, unsigned char value, size_t count,
                             CUstream stream)
{
    (void)address, (void)value, (void)count, (void)stream;
    memsets++;
    return CUDA_SUCCESS;
}

/* Once a queued call has failed, the work queued behind it does not run: it would use wrong data. */
static void nothing_runs_after_a_late_error(void **state)
{
    (void)state;
    gb_frame_t frame;
    uint64_t memset_args[4] = {4096, 1, 16, 0}, event_args[2] = {99, 0};
    uint64_t retain[3] = {16, 0, 0}, number = 16;
    cuda.cuMemsetD8Async = count_memset;
    memsets = 0;
    greet();
    send_frame(GB_OP_cuDevicePrimaryCtxRetain, 0, 2, retain, sizeof(retain));
    assert_int_equal(receive(&frame, reply, sizeof(reply)), 0);
    send_frame(PX_OP_SET_CONTEXT, 0, 3, &number, sizeof(number));
    send_frame(GB_OP_cuMemsetD8Async, 0, 4, memset_args, sizeof(memset_args));
    send_frame(GB_OP_cuEventRecord, 0, 5, event_args, sizeof(event_args));
    send_frame(GB_OP_cuMemsetD8Async, 0, 6, memset_args, sizeof(memset_args));
    send_frame(GB_OP_cuCtxSynchronize, 0, 7, NULL, 0);
    assert_int_equal(receive(&frame, reply, sizeof(reply)), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(memsets, 1);
    assert_int_equal(gb_link_goodbye(mine), GB_OK);
    expect_end(GB_OK);
}

/* ---- a call that waits holds up its lane only ---- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static CUresult wait_at_gate(void)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return CUDA_SUCCESS;
}

static void lanes(void **state)
{
    (void)state;
    gb_frame_t frame;
    uint64_t retain[3] = {16, 0, 0}, number = 16;
    cuda.cuCtxSynchronize = wait_at_gate;
    greet();
    send_frame(GB_OP_cuDevicePrimaryCtxRetain, 0, 2, retain, sizeof(retain));
    assert_int_equal(receive(&frame, reply, sizeof(reply)), 0);
    pthread_mutex_lock(&gate);
    for (uint32_t lane = 0; lane < 3; lane++) {
        send_frame(PX_OP_SET_CONTEXT, lane, 10 + lane, &number, sizeof(number));
        send_frame(GB_OP_cuCtxSynchronize, lane, 20 + lane, NULL, 0);
    }
    for (uint32_t i = 0; i < 10; i++) {
        send_frame(PX_OP_SET_CONTEXT, 7, 100 + i, &number, sizeof(number));
        send_frame(GB_OP_cuMemGetInfo_v2, 7, 200 + i, NULL, 0);
        receive(&frame, reply, sizeof(reply));
        assert_int_equal(frame.sequence, 200 + i);
    }
    pthread_mutex_unlock(&gate);
    unsigned seen = 0;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(receive(&frame, reply, sizeof(reply)), 0);
        assert_int_equal(frame.sequence, 20 + frame.lane);
        seen |= 1u << frame.lane;
    }
    assert_int_equal(seen, 7);
    assert_int_equal(gb_link_goodbye(mine), GB_OK);
    expect_end(GB_OK);
}

/* ---- frames with sound headers and senseless contents ---- */

static void *drain(void *arg)
{
    uint8_t bytes[4096];
    size_t got;
    (void)arg;
    while (gb_link_recv_some(mine, bytes, sizeof(bytes), GB_NEVER, &got) == GB_OK)
        ;
    return NULL;
}

static uint32_t seed = 20260101;

static uint32_t next(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* Mostly small numbers, so that some of them mean something. */
static uint64_t number(void)
{
    switch (next(8)) {
    case 0:
        return UINT64_MAX - next(3);
    case 1:
        return (uint64_t)next(1u << 20) << next(44);
    case 2:
        return 0x567000000000 + next(4096) * 512u;
    default:
        return next(24);
    }
}

static int send_senseless(uint32_t sequence)
{
    static const char ptx[] = ".entry f(.param .u64 a, .param .align 8 .b8 c[24]) { }";
    uint64_t words[32];
    uint16_t op = next(4) ? (uint16_t)(1 + next(GB_OP_CALL_END - 1))
                          : (uint16_t)(PX_OP_WINDOW + next(PX_OP_END - PX_OP_WINDOW));
    uint32_t size = next(6) ? 24 + next(8) : next(32);
    for (uint32_t i = 0; i < 32; i++)
        words[i] = number();
    if (op == PX_OP_IMAGE) {
        words[0] = next(4) ? sizeof(ptx) : number();
        words[1] = next(4) ? 0 : number();
        memcpy(&words[2], ptx, sizeof(ptx));
        size = 2 + (sizeof(ptx) + 7) / 8;
    }
    if (op == GB_OP_cuMemcpyDtoHAsync_v2)
        words[2] = next(1 << 20);
    if (op == PX_OP_SET_CONTEXT)
        words[0] = next(16) ? 16 : number();
    uint8_t header[GB_FRAME_HEADER];
    gb_frame_t frame = {.length = size * 8, .operation = op, .lane = next(3), .sequence = sequence};
    gb_frame_encode(&frame, header);
    struct iovec iov[2] = {{header, sizeof(header)}, {words, size * 8}};
    return gb_link_sendv(mine, iov, 2) == GB_OK;
}

/* The session may refuse and end, or go on; it must do no harm, which the sanitizers watch. */
static void senseless_frames(void **state)
{
    uint64_t retain[3] = {16, 0, 0}, context = 16;
    px_wire_window_t window = {0, 0x567000000000, 1ull << 30};
    int outlived = 0;
    for (int round = 0; round < 150; round++) {
        pthread_t drainer;
        uint32_t sequence = 10;
        if (round)
            assert_int_equal(set_up(state), 0);
        greet();
        send_frame(PX_OP_WINDOW, 0, 3, &window, sizeof(window));
        send_frame(GB_OP_cuDevicePrimaryCtxRetain, 0, 4, retain, sizeof(retain));
        for (uint32_t lane = 0; lane < 3; lane++)
            send_frame(PX_OP_SET_CONTEXT, lane, 5 + lane, &context, sizeof(context));
        assert_int_equal(pthread_create(&drainer, NULL, drain, NULL), 0);
        while (sequence < 60 && send_senseless(sequence))
            sequence++;
        outlived += sequence == 60;
        gb_link_shutdown(mine);
        pthread_join(thread, NULL);
        pthread_join(drainer, NULL);
        if (round < 149)
            tear_down(state);
    }
    assert_true(outlived > 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

/* A function is asked for by a name that the module has, or has not. */
static void functions_by_name(void **state)
{
    static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                              ".entry there(.param .u64 there_0) { ret; }";
    uint8_t image[16 + sizeof(ptx) + 8] = {sizeof(ptx)};
    px_wire_module_t load = {.module = 20, .image_size = sizeof(ptx)};
    const uint64_t context[3] = {16, 0, 0};
    gb_frame_t frame;
    px_wire_function_t found;
    uint64_t ask[2] = {20};
    (void)state;
    greet();
    send_frame(GB_OP_cuCtxCreate_v4, 0, 2, context, sizeof(context));
    assert_int_equal(receive(&frame, reply, sizeof(reply)), CUDA_SUCCESS);
    send_frame(PX_OP_SET_CONTEXT, 0, 3, context, 8);
    memcpy(image + 16, ptx, sizeof(ptx));
    SHA256((const uint8_t *)ptx, sizeof(ptx), load.hash);
    send_frame(PX_OP_IMAGE, 0, 4, image, px_wire_pad(16 + sizeof(ptx)));
    send_frame(GB_OP_cuModuleLoadDataEx, 0, 5, &load, sizeof(load));
    assert_int_equal(receive(&frame, reply, sizeof(reply)), CUDA_SUCCESS);
    memcpy(&ask[1], "there\0\0", 8);
    send_frame(PX_OP_FUNCTION, 0, 6, ask, sizeof(ask));
    assert_int_equal(receive(&frame, reply, sizeof(reply)), CUDA_SUCCESS);
    memcpy(&found, reply + sizeof(px_wire_result_t), sizeof(found));
    assert_int_equal(found.params, 1);
    memcpy(&ask[1], "nowhere", 8);
    send_frame(PX_OP_FUNCTION, 0, 7, ask, sizeof(ask));
    assert_int_equal(receive(&frame, reply, sizeof(reply)), CUDA_ERROR_NOT_FOUND);
    send_frame(GB_OP_cuModuleUnload, 0, 8, ask, 8);
    assert_int_equal(gb_link_goodbye(mine), GB_OK);
    expect_end(GB_OK);
}

/* The session of a client that breaks the protocol ends, although one of its lanes waits for an acknowledgement
 * that nobody would take any more. */
static void end_over_a_waiting_lane(void **state)
{
    px_wire_hello_t hello = {.version = PX_WIRE_VERSION, .pid = 1, .resumes = 1};
    const uint64_t context[3] = {16, 0, 0};
    const px_wire_copy_t copy = {.src = 0x400000000000, .size = 64 << 20};
    gb_status_t gone = GB_OK;
    gb_frame_t frame;
    size_t got;
    (void)state;
    send_frame(PX_OP_HELLO, 0, 1, &hello, sizeof(hello));
    assert_int_equal(receive(&frame, reply, sizeof(reply)), CUDA_SUCCESS);
    send_frame(GB_OP_cuCtxCreate_v4, 0, 2, context, sizeof(context));
    assert_int_equal(receive(&frame, reply, sizeof(reply)), CUDA_SUCCESS);
    send_frame(PX_OP_SET_CONTEXT, 0, 3, context, 8);
    send_frame(GB_OP_cuMemcpyDtoHAsync_v2, 0, 4, &copy, sizeof(copy));
    send_frame(GB_OP_cuCtxSynchronize, 0, 5, NULL, 0); /* in the middle of the copy */
    while (gone == GB_OK) /* what comes is read, and never acknowledged */
        gone = gb_link_recv_some(mine, reply, sizeof(reply), SECONDS(10), &got);
    assert_int_equal(gone, GB_ERR_LOST);
    pthread_join(thread, NULL);
    assert_int_equal(ended, GB_ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(goodbye),
        CASE(end_without_goodbye),
        CASE(foreign_version),
        CASE(call_before_hello),
        CASE(garbage),
        CASE(unknown_operation),
        CASE(short_payload),
        CASE(unknown_context),
        CASE(lane_out_of_range),
        CASE(wrong_numbers),
        CASE(nothing_runs_after_a_late_error),
        CASE(lanes),
        CASE(functions_by_name),
        CASE(end_over_a_waiting_lane),
        CASE(senseless_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

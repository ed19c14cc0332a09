/* A session's link to another session, which speaks the protocol by hand, well or badly; `null` driver. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/frame/gb_frame.h"
#include "gb_cuda_ops.h"
#include "gpu-proxy/session/px_peer.h"

#define SECONDS(n) (gb_now_ns() + (n) * 1000000000ull)

enum { CONTEXT = 16, PEER = 3, QUICK_MS = 600, SLOW_MS = 15000 };

static gb_cuda_table_t cuda;
static gb_link_t *mine, *theirs; /* of the client and the session */
static gb_link_t *other;         /* of the other session */
static gb_durable_t *served;
static px_peers_t *peers;
static px_session_config_t config;
static pthread_t thread;
static uint32_t sequence, attempt, lost_attempt;
static uint64_t next_token;
static gb_key_t secret = {{1, 2, 3}};

/* While set, no stream comes anywhere. */
static atomic_int held;

static CUresult await_event(CUevent event)
{
    (void)event;
    while (atomic_load(&held))
        poll(NULL, 0, 5);
    return CUDA_SUCCESS;
}

/* ---- the client ---- */

static void *session(void *arg)
{
    (void)arg;
    (void)px_session_run(&config, served);
    gb_link_shutdown(theirs);
    return NULL;
}

static void send_words(uint16_t op, const void *bytes, uint32_t size)
{
    uint8_t header[GB_FRAME_HEADER];
    gb_frame_t frame = {.length = size, .operation = op, .sequence = ++sequence};
    gb_frame_encode(&frame, header);
    struct iovec iov[2] = {{header, sizeof(header)}, {(void *)(uintptr_t)bytes, size}};
    assert_int_equal(gb_link_sendv(mine, iov, 2), GB_OK);
}

/* The result of the newest frame; notices are noted. */
static uint32_t answer(void)
{
    static uint8_t bytes[64 << 10];
    px_wire_result_t head;
    for (;;) {
        uint8_t header[GB_FRAME_HEADER];
        gb_frame_t frame;
        assert_int_equal(gb_link_recv(mine, header, sizeof(header), SECONDS(20)), GB_OK);
        assert_int_equal(gb_frame_decode(header, PX_WIRE_MAX, &frame), GB_OK);
        assert_true(frame.length <= sizeof(bytes) && frame.length >= sizeof(head));
        assert_int_equal(gb_link_recv(mine, bytes, frame.length, SECONDS(20)), GB_OK);
        if (frame.operation == PX_OP_PEER_LOST) {
            uint64_t words[2];
            memcpy(words, bytes, sizeof(words));
            assert_int_equal(words[0], PEER);
            lost_attempt = (uint32_t)words[1];
        } else if (frame.sequence == sequence) {
            memcpy(&head, bytes, sizeof(head));
            return head.result;
        }
    }
}

static uint32_t ask(uint16_t op, const void *bytes, uint32_t size)
{
    send_words(op, bytes, size);
    return answer();
}

static void begin(uint32_t timeout_ms)
{
    px_wire_hello_t hello = {.version = PX_WIRE_VERSION, .pid = 1, .program = "test"};
    uint64_t retain[3] = {CONTEXT, 0, 0}, number = CONTEXT;
    px_null_driver(&cuda);
    cuda.cuEventSynchronize = await_event;
    assert_int_equal(px_peers_create(timeout_ms, &peers), GB_OK);
    config = (px_session_config_t){
        .driver = &cuda, .driver_name = "null", .timeout_ms = timeout_ms, .peers = peers};
    sequence = attempt = lost_attempt = 0;
    assert_int_equal(gb_link_pair(&mine, &theirs), GB_OK);
    assert_int_equal(gb_durable_create(theirs, NULL, NULL, &served), GB_OK);
    assert_int_equal(pthread_create(&thread, NULL, session, NULL), 0);
    assert_int_equal(ask(PX_OP_HELLO, &hello, sizeof(hello)), 0);
    assert_int_equal(ask(GB_OP_cuDevicePrimaryCtxRetain, retain, sizeof(retain)), 0);
    send_words(PX_OP_SET_CONTEXT, &number, sizeof(number));
}

static void end(void)
{
    gb_link_close(other);
    other = NULL;
    assert_int_equal(gb_link_goodbye(mine), GB_OK);
    pthread_join(thread, NULL);
    gb_link_close(mine);
    gb_durable_free(served);
    px_peers_free(peers);
}

static void expect_peer(void)
{
    px_wire_pair_t pair = {.peer = PEER, .attempt = ++attempt};
    memcpy(pair.secret, secret.bytes, sizeof(pair.secret));
    assert_int_equal(ask(PX_OP_PEER_EXPECT, &pair, sizeof(pair)), 0);
}

/* Another session's connection, as the proxy passes it on. */
static gb_link_t *come_as(uint32_t number)
{
    int sv[2];
    gb_link_t *link;
    gb_preamble_t facts = {.service = GB_SERVICE_PEER, .connection = number << 16};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
    px_peers_offer(peers, sv[0], &facts, &secret);
    assert_int_equal(gb_link_adopt(sv[1], &facts, &secret, SECONDS(5), &link), GB_OK);
    return link;
}

static void link_up(void)
{
    gb_link_close(other);
    expect_peer();
    other = come_as(PEER);
    assert_int_equal(px_peer_introduce(other, &secret, 0, SECONDS(5)), GB_OK);
}

static uint64_t transfer(uint16_t op, uint64_t bytes)
{
    px_wire_transfer_t x = {.token = ++next_token,
                            .order = next_token,
                            .peer = PEER,
                            .hold = PX_WIRE_HOLD_STREAM,
                            .stream = 0,
                            .context = CONTEXT,
                            .side = {.address = 0x1000, .pitch = bytes, .height = 1},
                            .width = bytes,
                            .height = 1,
                            .depth = 1};
    send_words(op, &x, sizeof(x));
    return x.token;
}

static uint32_t state_of_context(void)
{
    return ask(GB_OP_cuCtxSynchronize, NULL, 0);
}

/* ---- the other session ---- */

static gb_status_t tell(uint16_t op, const void *a, size_t a_size, const void *b, size_t b_size)
{
    uint8_t header[GB_FRAME_HEADER];
    gb_frame_t frame = {.length = (uint32_t)(a_size + b_size), .operation = op};
    gb_frame_encode(&frame, header);
    struct iovec iov[3] = {
        {header, sizeof(header)}, {(void *)(uintptr_t)a, a_size}, {(void *)(uintptr_t)b, b_size}};
    return gb_link_sendv(other, iov, 3);
}

static gb_status_t say(uint16_t op, uint64_t token, uint64_t result)
{
    px_peer_word_t word = {token, result};
    return tell(op, &word, sizeof(word), NULL, 0);
}

static gb_status_t give(uint64_t token, size_t size)
{
    uint8_t *bytes = calloc(1, size);
    gb_status_t st = tell(PX_PEER_DATA, &token, sizeof(token), bytes, size);
    free(bytes);
    return st;
}

/* The next frame that is no sign of life; its payload, or how much of it for data. */
static uint16_t hear(px_peer_word_t *word, uint64_t *size)
{
    for (;;) {
        uint8_t header[GB_FRAME_HEADER];
        gb_frame_t frame;
        assert_int_equal(gb_link_recv(other, header, sizeof(header), SECONDS(20)), GB_OK);
        assert_int_equal(gb_frame_decode(header, PX_PEER_PIECE + 8, &frame), GB_OK);
        uint8_t *payload = malloc(frame.length + 1);
        assert_int_equal(gb_link_recv(other, payload, frame.length, SECONDS(20)), GB_OK);
        memset(word, 0, sizeof(*word));
        memcpy(word, payload, frame.operation == PX_PEER_DATA ? 8 : frame.length < 16 ? 0 : 16);
        *size = frame.length;
        free(payload);
        if (frame.operation != GB_OP_PING)
            return frame.operation;
    }
}

/* The last word; whether it asks before depends on who was quicker. */
static void hear_last(uint16_t op, uint64_t token, uint64_t result)
{
    px_peer_word_t word;
    uint64_t size;
    uint16_t heard = hear(&word, &size);
    assert_int_equal(word.token, token);
    if (heard == PX_PEER_ASK)
        heard = hear(&word, &size);
    assert_int_equal(heard, op);
    assert_int_equal(word.token, token);
    assert_int_equal(word.result, result);
}

static void hear_word(uint16_t op, uint64_t token, uint64_t result)
{
    px_peer_word_t word;
    uint64_t size;
    assert_int_equal(hear(&word, &size), op);
    assert_int_equal(word.token, token);
    assert_int_equal(word.result, result);
}

static void hear_end(void)
{
    uint8_t byte;
    size_t got;
    gb_status_t st = GB_OK;
    while (st == GB_OK)
        st = gb_link_recv_some(other, &byte, 1, SECONDS(20), &got);
    assert_int_equal(st, GB_ERR_LOST);
}

/* An error is about to stick. */
static void expect_late(CUresult result)
{
    for (uint64_t limit = SECONDS(10); state_of_context() == 0;)
        assert_true(gb_now_ns() < limit);
    assert_int_equal(state_of_context(), result);
}

/* The client is told; it may take a moment. */
static void expect_lost(void)
{
    uint64_t start = gb_now_ns();
    hear_end();
    while (lost_attempt != attempt && gb_now_ns() - start < 10000000000ull)
        (void)state_of_context();
    assert_int_equal(lost_attempt, attempt);
}

/* ---- coming in ---- */

static void only_who_knows_the_secret(void **state)
{
    gb_key_t wrong = secret;
    (void)state;
    begin(SLOW_MS);
    wrong.bytes[7] ^= 1;
    other = come_as(PEER); /* nobody is expected */
    assert_int_not_equal(px_peer_introduce(other, &secret, 0, SECONDS(5)), GB_OK);
    gb_link_close(other);
    expect_peer();
    other = come_as(PEER + 1); /* another one is */
    assert_int_not_equal(px_peer_introduce(other, &secret, 0, SECONDS(5)), GB_OK);
    gb_link_close(other);
    other = come_as(PEER);
    /* it sees through us, and we see that it does not know what we do */
    assert_int_equal(px_peer_introduce(other, &wrong, 0, SECONDS(5)), GB_ERR_UNAUTHORISED);
    gb_link_close(other);
    other = come_as(PEER);
    char garbage[128];
    memset(garbage, 'x', sizeof(garbage));
    assert_int_equal(gb_link_send(other, garbage, sizeof(garbage)), GB_OK);
    hear_end();
    gb_link_close(other);
    gb_link_t *silent = come_as(PEER);
    other = come_as(PEER); /* the right one still gets in */
    assert_int_equal(px_peer_introduce(other, &secret, 0, SECONDS(5)), GB_OK);
    gb_link_close(silent);
    gb_link_t *second = come_as(PEER); /* and nobody after it */
    assert_int_not_equal(px_peer_introduce(second, &secret, 0, SECONDS(5)), GB_OK);
    gb_link_close(second);
    uint64_t token = transfer(PX_OP_PEER_RECV, 10);
    hear_word(PX_PEER_ASK, token, 0);
    assert_int_equal(state_of_context(), 0);
    end();
}

/* ---- as it should be ---- */

static void receive_one(uint64_t total, size_t piece)
{
    uint64_t token = transfer(PX_OP_PEER_RECV, total);
    hear_word(PX_PEER_ASK, token, 0);
    for (uint64_t done = 0; done < total; done += piece)
        assert_int_equal(give(token, total - done < piece ? total - done : piece), GB_OK);
    assert_int_equal(say(PX_PEER_END, token, 0), GB_OK);
    hear_word(PX_PEER_DONE, token, 0);
}

static void send_one(uint64_t total, int early)
{
    uint64_t got = 0, size;
    px_peer_word_t word;
    if (early)
        assert_int_equal(say(PX_PEER_ASK, next_token + 1, 0), GB_OK);
    uint64_t token = transfer(PX_OP_PEER_SEND, total);
    if (!early)
        assert_int_equal(say(PX_PEER_ASK, token, 0), GB_OK);
    while (hear(&word, &size) == PX_PEER_DATA) {
        assert_int_equal(word.token, token);
        got += size - 8;
    }
    assert_int_equal(word.token, token);
    assert_int_equal(word.result, 0);
    assert_int_equal(got, total);
    assert_int_equal(say(PX_PEER_DONE, token, 0), GB_OK);
}

static void both_directions(void **state)
{
    uint64_t context = CONTEXT;
    (void)state;
    begin(SLOW_MS);
    link_up();
    receive_one(1, 1);
    receive_one(3000001, 100003);
    receive_one(8 << 20, PX_PEER_PIECE);
    send_one(1, 0);
    send_one(5000003, 0);
    send_one(100, 1);
    assert_int_equal(ask(PX_OP_PEER_SETTLE, &context, sizeof(context)), 0);
    assert_int_equal(state_of_context(), 0);
    end();
}

/* A signal is one word, before or after the client has told of it. */
static void signals(void **state)
{
    uint64_t event[2] = {20, 0};
    (void)state;
    begin(SLOW_MS);
    link_up();
    send_words(GB_OP_cuEventCreate, event, sizeof(event));
    px_wire_transfer_t x = {.token = ++next_token, .peer = PEER, .context = CONTEXT, .event = 20};
    send_words(PX_OP_PEER_SEND, &x, sizeof(x));
    hear_word(PX_PEER_END, x.token, 0);
    assert_int_equal(say(PX_PEER_DONE, x.token, 0), GB_OK);
    x.event = 0;
    x.hold = PX_WIRE_HOLD_STREAM;
    for (int early = 0; early < 2; early++) {
        x.token = ++next_token;
        if (early)
            assert_int_equal(say(PX_PEER_END, x.token, 0), GB_OK);
        send_words(PX_OP_PEER_RECV, &x, sizeof(x));
        if (!early)
            assert_int_equal(say(PX_PEER_END, x.token, 0), GB_OK);
        hear_word(PX_PEER_DONE, x.token, 0);
    }
    assert_int_equal(state_of_context(), 0);
    end();
}

/* ---- failures ---- */

/* The other end cannot: its reason sticks to the context whose stream waits. */
static void failures_are_told(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        begin(SLOW_MS);
        link_up();
        if (early)
            assert_int_equal(say(PX_PEER_END, next_token + 1, CUDA_ERROR_ILLEGAL_ADDRESS), GB_OK);
        uint64_t token = transfer(PX_OP_PEER_RECV, 1 << 20);
        if (!early) {
            hear_word(PX_PEER_ASK, token, 0);
            assert_int_equal(give(token, 1000), GB_OK);
            assert_int_equal(say(PX_PEER_END, token, CUDA_ERROR_ILLEGAL_ADDRESS), GB_OK);
        }
        hear_last(PX_PEER_DONE, token, CUDA_ERROR_ILLEGAL_ADDRESS);
        expect_late(CUDA_ERROR_ILLEGAL_ADDRESS);
        /* what this context has for the other end fails, too, and is told */
        token = transfer(PX_OP_PEER_SEND, 100);
        hear_word(PX_PEER_END, token, CUDA_ERROR_ILLEGAL_ADDRESS);
        end();
    }
}

/* The receiver gives up in the middle: the sender stops, and has the last word. */
static void receivers_give_up(void **state)
{
    px_peer_word_t word;
    uint64_t size;
    (void)state;
    begin(SLOW_MS);
    link_up();
    uint64_t token = transfer(PX_OP_PEER_SEND, 1ull << 32);
    assert_int_equal(say(PX_PEER_ASK, token, 0), GB_OK);
    assert_int_equal(hear(&word, &size), PX_PEER_DATA);
    assert_int_equal(say(PX_PEER_DONE, token, CUDA_ERROR_OUT_OF_MEMORY), GB_OK);
    uint64_t got = 0;
    while (hear(&word, &size) == PX_PEER_DATA)
        got += size;
    assert_true(got < 1ull << 30);
    assert_int_equal(word.result, CUDA_ERROR_OUT_OF_MEMORY);
    expect_late(CUDA_ERROR_OUT_OF_MEMORY);
    end();
}

/* Transfers that are under way on a link that ends, and those that come for it later. */
static void lost_links(void **state)
{
    (void)state;
    for (int when = 0; when < 3; when++) {
        begin(SLOW_MS);
        link_up();
        uint64_t token = when < 2 ? transfer(PX_OP_PEER_RECV, 1 << 20) : 0;
        if (when == 1) {
            hear_word(PX_PEER_ASK, token, 0);
            assert_int_equal(give(token, 1000), GB_OK);
        }
        gb_link_shutdown(other);
        expect_lost();
        if (when == 2) {
            assert_int_equal(state_of_context(), 0); /* nothing was under way */
            transfer(PX_OP_PEER_RECV, 1 << 20);
        }
        expect_late(CUDA_ERROR_DEVICE_UNAVAILABLE);
        end();
    }
}

static void silence(void **state)
{
    (void)state;
    begin(QUICK_MS);
    link_up();
    transfer(PX_OP_PEER_RECV, 1 << 20);
    /* as long as it says something it may take its time */
    for (uint64_t limit = SECONDS(2); gb_now_ns() < limit;) {
        assert_int_equal(tell(GB_OP_PING, NULL, 0, NULL, 0), GB_OK);
        assert_int_equal(state_of_context(), 0);
        poll(NULL, 0, QUICK_MS / 4);
    }
    uint64_t start = gb_now_ns();
    expect_lost();
    assert_true(gb_now_ns() - start < 5000000000ull);
    expect_late(CUDA_ERROR_DEVICE_UNAVAILABLE);
    end();
}

/* ---- no good will ---- */

static uint64_t asked_for(uint64_t bytes)
{
    uint64_t token = transfer(PX_OP_PEER_RECV, bytes);
    hear_word(PX_PEER_ASK, token, 0);
    return token;
}

static void data_for_nothing(void)
{
    give(4711, 100);
}

/* The stream has not come there: the memory is not the transfer's yet. */
static void data_before_it_is_asked_for(void)
{
    atomic_store(&held, 1);
    uint64_t token = transfer(PX_OP_PEER_RECV, 1000);
    (void)state_of_context(); /* the session knows of it */
    give(token, 1000);
    hear_end();
    atomic_store(&held, 0);
}

static void too_much_data(void)
{
    give(asked_for(1000), 1001);
}

static void data_after_the_end(void)
{
    uint64_t token = asked_for(1000);
    give(token, 1000);
    say(PX_PEER_END, token, 0);
    give(token, 1);
}

static void data_to_a_sender(void)
{
    give(transfer(PX_OP_PEER_SEND, 1000), 100);
}

static void words_twice(void)
{
    say(PX_PEER_ASK, 4711, 0);
    say(PX_PEER_ASK, 4711, 0);
}

static void words_of_the_wrong_end(void)
{
    say(PX_PEER_DONE, asked_for(1000), 0);
}

static void short_words(void)
{
    tell(PX_PEER_ASK, "12345678", 8, NULL, 0);
}

static void unknown_operations(void)
{
    tell(0x1234, NULL, 0, NULL, 0);
}

static void huge_frames(void)
{
    uint8_t header[GB_FRAME_HEADER];
    gb_frame_t frame = {.length = PX_PEER_PIECE + 16, .operation = PX_PEER_DATA};
    gb_frame_encode(&frame, header);
    assert_int_equal(gb_link_send(other, header, sizeof(header)), GB_OK);
}

static void noise(void)
{
    uint8_t bytes[64];
    memset(bytes, 0xa5, sizeof(bytes));
    assert_int_equal(gb_link_send(other, bytes, sizeof(bytes)), GB_OK);
}

static void acknowledgements_of_nothing(void)
{
    uint64_t received = 1ull << 40;
    tell(GB_OP_ACK, &received, sizeof(received), NULL, 0);
}

static void a_flood_of_unknown_transfers(void)
{
    gb_status_t st = GB_OK;
    for (uint64_t i = 0; i <= PX_PEER_UNKNOWN && st == GB_OK; i++)
        st = say(PX_PEER_ASK, 1000000 + i, 0);
}

static void hostile(void **state)
{
    static void (*const tricks[])(void) = {data_for_nothing,
                                           data_before_it_is_asked_for,
                                           too_much_data,
                                           data_after_the_end,
                                           data_to_a_sender,
                                           words_twice,
                                           words_of_the_wrong_end,
                                           short_words,
                                           unknown_operations,
                                           huge_frames,
                                           noise,
                                           acknowledgements_of_nothing,
                                           a_flood_of_unknown_transfers};
    (void)state;
    for (size_t i = 0; i < sizeof(tricks) / sizeof(tricks[0]); i++) {
        uint64_t destroy = CONTEXT, retain[3] = {CONTEXT, 0, 0};
        begin(SLOW_MS);
        link_up();
        tricks[i]();
        expect_lost();
        /* the session is well, and takes another link */
        send_words(GB_OP_cuDevicePrimaryCtxRelease_v2, &destroy, sizeof(destroy));
        assert_int_equal(ask(GB_OP_cuDevicePrimaryCtxRetain, retain, sizeof(retain)), 0);
        send_words(PX_OP_SET_CONTEXT, &destroy, sizeof(destroy));
        link_up();
        receive_one(1000, 1000);
        assert_int_equal(state_of_context(), 0);
        end();
    }
}

/* It says that this was all, and it was not: no wrong bytes without an error. */
static void less_than_promised(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        begin(SLOW_MS);
        link_up();
        if (early)
            assert_int_equal(say(PX_PEER_END, next_token + 1, 0), GB_OK);
        uint64_t token = early ? transfer(PX_OP_PEER_RECV, 1000) : asked_for(1000);
        if (!early) {
            assert_int_equal(give(token, 999), GB_OK);
            assert_int_equal(say(PX_PEER_END, token, 0), GB_OK);
        }
        hear_last(PX_PEER_DONE, token, CUDA_ERROR_UNKNOWN);
        expect_late(CUDA_ERROR_UNKNOWN);
        end();
    }
}

/* A client that means no good, either. */
static void wrong_commands(void **state)
{
    px_wire_pair_t pair = {.peer = PX_WIRE_PEERS, .attempt = 1};
    px_wire_transfer_t x = {.token = 1, .peer = 7, .context = CONTEXT, .width = 1};
    uint64_t nothing = 99;
    (void)state;
    begin(SLOW_MS);
    assert_int_equal(ask(PX_OP_PEER_EXPECT, &pair, sizeof(pair)), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(ask(PX_OP_PEER_DIAL, &pair, sizeof(pair)), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(ask(PX_OP_PEER_SETTLE, &nothing, sizeof(nothing)), CUDA_ERROR_INVALID_CONTEXT);
    pair.peer = PEER;
    memset(pair.endpoint, 'x', sizeof(pair.endpoint)); /* without an end */
    assert_int_equal(ask(PX_OP_PEER_DIAL, &pair, sizeof(pair)), 0);
    send_words(PX_OP_PEER_SEND, &x, sizeof(x)); /* no such link */
    assert_int_equal(state_of_context(), CUDA_ERROR_INVALID_VALUE);
    end();
    begin(SLOW_MS);
    link_up();
    x.token = ++next_token;
    x.peer = PEER;
    x.context = 99;
    send_words(PX_OP_PEER_SEND, &x, sizeof(x));
    hear_word(PX_PEER_END, x.token, CUDA_ERROR_INVALID_CONTEXT);
    x.context = CONTEXT;
    x.token = ++next_token;
    x.height = x.depth = UINT64_MAX / 2;
    send_words(PX_OP_PEER_RECV, &x, sizeof(x));
    hear_word(PX_PEER_DONE, x.token, CUDA_ERROR_INVALID_VALUE);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_who_knows_the_secret),
        cmocka_unit_test(both_directions),
        cmocka_unit_test(signals),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(receivers_give_up),
        cmocka_unit_test(lost_links),
        cmocka_unit_test(silence),
        cmocka_unit_test(hostile),
        cmocka_unit_test(less_than_promised),
        cmocka_unit_test(wrong_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

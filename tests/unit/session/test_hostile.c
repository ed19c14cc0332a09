/* The session on the software device against a client that knows the protocol and means no good: frames of
 * graphs, links and mappings with numbers that stand for nothing or for something else, absurd counts, cut
 * bodies. They give errors or end the session; the sanitizers watch that they do no harm. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda/gb_driver.h"
#include "common/frame/gb_frame.h"
#include "gb_cuda_ops.h"
#include "gpu-proxy/session/px_session.h"
#include "proto/px_wire.h"
#include "proto/px_wire_graph.h"

#define SECONDS(n) (gb_now_ns() + (n) * 1000000000ull)

enum { CONTEXT = 16, STREAM = 17, EVENT = 18, EXEC = 20, LINK = 30, MEMORY = 40 };
#define WINDOW 0x567000000000ull
#define SPACE 0x568000000000ull /* what the client reserves by itself */
#define GRAIN (2ull << 20)

static gb_link_t *mine, *theirs;
static gb_durable_t *served; /* over theirs */
static pthread_t thread;
static gb_status_t ended;
static uint32_t sequence;
static const gb_driver_t *driver;

static void *session(void *arg)
{
    static px_session_config_t config;
    (void)arg;
    config.driver = &driver->table;
    config.driver_name = "cpu";
    ended = px_session_run(&config, served);
    gb_link_shutdown(theirs);
    return NULL;
}

static int send_bytes(uint16_t op, const void *bytes, uint32_t size)
{
    static const uint8_t zeros[8];
    uint8_t header[GB_FRAME_HEADER];
    uint32_t padded = px_wire_pad(size);
    gb_frame_t frame = {.length = padded, .operation = op, .lane = 0, .sequence = ++sequence};
    gb_frame_encode(&frame, header);
    struct iovec iov[3] = {{header, sizeof(header)},
                           {(void *)(uintptr_t)bytes, size},
                           {(void *)(uintptr_t)zeros, padded - size}};
    return gb_link_sendv(mine, iov, 3) == GB_OK;
}

#define SEND(op, ...)                                                                              \
    do {                                                                                           \
        const uint64_t words_[] = {__VA_ARGS__};                                                   \
        assert_true(send_bytes(op, words_, sizeof(words_)));                                       \
    } while (0)

/* The result of the newest frame. */
static uint32_t answer(void)
{
    static uint8_t bytes[1 << 16];
    gb_frame_t frame;
    px_wire_result_t head;
    do {
        uint8_t header[GB_FRAME_HEADER];
        assert_int_equal(gb_link_recv(mine, header, sizeof(header), SECONDS(20)), GB_OK);
        assert_int_equal(gb_frame_decode(header, PX_WIRE_MAX, &frame), GB_OK);
        assert_true(frame.length <= sizeof(bytes) && frame.length >= sizeof(head));
        assert_int_equal(gb_link_recv(mine, bytes, frame.length, SECONDS(20)), GB_OK);
    } while (frame.sequence != sequence);
    memcpy(&head, bytes, sizeof(head));
    return head.result;
}

static void greet(void)
{
    px_wire_hello_t hello = {.version = PX_WIRE_VERSION, .pid = 1, .program = "hostile"};
    sequence = 0;
    assert_int_equal(gb_link_pair(&mine, &theirs), GB_OK);
    assert_int_equal(gb_durable_create(theirs, NULL, NULL, &served), GB_OK);
    assert_int_equal(pthread_create(&thread, NULL, session, NULL), 0);
    assert_true(send_bytes(PX_OP_HELLO, &hello, sizeof(hello)));
    assert_int_equal(answer(), CUDA_SUCCESS);
}

/* A session with a window, a context, a stream and an event. */
static void begin(void)
{
    greet();
    SEND(PX_OP_WINDOW, 0, WINDOW, 256 << 20);
    assert_int_equal(answer(), CUDA_SUCCESS);
    SEND(GB_OP_cuCtxCreate_v4, CONTEXT, 0, 0);
    assert_int_equal(answer(), CUDA_SUCCESS);
    SEND(PX_OP_SET_CONTEXT, CONTEXT);
    SEND(GB_OP_cuStreamCreateWithPriority, STREAM, 0, 0);
    SEND(GB_OP_cuEventCreate, EVENT, 0);
}

static void end(void)
{
    gb_link_shutdown(mine);
    pthread_join(thread, NULL);
    gb_link_close(mine);
    gb_durable_free(served);
}

/* The context has no late error, and the session answers. */
static void expect_sound(void)
{
    assert_true(send_bytes(GB_OP_cuCtxSynchronize, NULL, 0));
    assert_int_equal(answer(), CUDA_SUCCESS);
}

/* ---- one wrong thing at a time ---- */

typedef struct {
    px_wire_node_t node;
    uint32_t deps[8];
    uint64_t body[32];
} node_frame_t;

static node_frame_t empty_node(uint32_t position)
{
    return (node_frame_t){
        .node = {.exec = EXEC, .position = position, .type = CU_GRAPH_NODE_TYPE_EMPTY}};
}

/* The frame as a whole: header, no dependencies, body. */
static void send_node(const node_frame_t *f, uint32_t body)
{
    uint8_t bytes[sizeof(*f)];
    memcpy(bytes, &f->node, sizeof(f->node));
    memcpy(bytes + sizeof(f->node), f->body, body);
    assert_true(send_bytes(PX_OP_GRAPH_NODE, bytes, (uint32_t)sizeof(f->node) + body));
}

static void expect_instantiation(uint32_t nodes, CUresult result)
{
    SEND(GB_OP_cuGraphInstantiateWithFlags, EXEC, nodes, 0);
    assert_int_equal(answer(), result);
    expect_sound();
}

static void wrong_nodes(void **state)
{
    (void)state;
    begin();
    node_frame_t f = empty_node(0);
    send_node(&f, 0);
    expect_instantiation(7, CUDA_ERROR_INVALID_VALUE); /* another number than came */
    f.node.deps = 0x40000000;                          /* whose bytes overflow */
    send_node(&f, 0);
    expect_instantiation(1, CUDA_ERROR_INVALID_VALUE);
    f = empty_node(0);
    f.node.deps = 1;
    f.body[0] = 0; /* depends on itself */
    send_node(&f, 8);
    expect_instantiation(1, CUDA_ERROR_INVALID_VALUE);
    f = empty_node(0);
    f.node.body = UINT32_MAX;
    send_node(&f, 0);
    expect_instantiation(1, CUDA_ERROR_INVALID_VALUE);
    static const uint32_t types[] = {CU_GRAPH_NODE_TYPE_KERNEL,     CU_GRAPH_NODE_TYPE_MEMCPY,
                                     CU_GRAPH_NODE_TYPE_MEMSET,     CU_GRAPH_NODE_TYPE_HOST,
                                     CU_GRAPH_NODE_TYPE_WAIT_EVENT, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                                     CU_GRAPH_NODE_TYPE_GRAPH,      77};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        f = empty_node(0);
        f.node.type = types[i]; /* without its body */
        send_node(&f, 0);
        expect_instantiation(1, CUDA_ERROR_INVALID_VALUE);
    }
    f = empty_node(0);
    f.node.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    f.node.body = 8;
    f.body[0] = STREAM; /* is no event */
    send_node(&f, 8);
    expect_instantiation(1, CUDA_ERROR_INVALID_HANDLE);
    f.node.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    f.node.body = sizeof(px_wire_graph_copy_t);
    px_wire_graph_copy_t copy = {.dst = 16, .width = 1ull << 40, .height = 1ull << 30, .depth = 9};
    for (uint64_t side = 0; side < 4; side++) {
        copy.side = side;
        memcpy(f.body, &copy, sizeof(copy));
        send_node(&f, sizeof(copy));
        SEND(GB_OP_cuGraphInstantiateWithFlags, EXEC, 1, 0);
        assert_int_not_equal(answer(), CUDA_SUCCESS);
        expect_sound();
    }
    end();
}

/* Each of these sticks to the context, and the session goes on. */
static void expect_stuck(uint16_t op, const uint64_t *words, unsigned count, CUresult result)
{
    begin();
    node_frame_t f = empty_node(0);
    send_node(&f, 0);
    SEND(GB_OP_cuGraphInstantiateWithFlags, EXEC, 1, 0);
    assert_int_equal(answer(), CUDA_SUCCESS);
    assert_true(send_bytes(op, words, count * 8));
    assert_true(send_bytes(GB_OP_cuCtxSynchronize, NULL, 0));
    assert_int_equal(answer(), result);
    end();
}

static void wrong_uses(void **state)
{
    (void)state;
    expect_stuck(GB_OP_cuGraphLaunch, (uint64_t[]){99, STREAM}, 2, CUDA_ERROR_INVALID_HANDLE);
    expect_stuck(GB_OP_cuGraphLaunch, (uint64_t[]){EXEC, EVENT}, 2, CUDA_ERROR_INVALID_HANDLE);
    expect_stuck(GB_OP_cuGraphLaunch, (uint64_t[]){STREAM, STREAM}, 2, CUDA_ERROR_INVALID_HANDLE);
    expect_stuck(GB_OP_cuGraphUpload, (uint64_t[]){UINT64_MAX, 0}, 2, CUDA_ERROR_INVALID_HANDLE);
    expect_stuck(GB_OP_cuGraphExecDestroy, (uint64_t[]){CONTEXT}, 1, CUDA_ERROR_INVALID_HANDLE);
    expect_stuck(GB_OP_cuGraphNodeSetEnabled, (uint64_t[]){EXEC, 1, 1}, 3,
                 CUDA_ERROR_INVALID_VALUE);
    expect_stuck(PX_OP_GRAPH_BYTES, (uint64_t[]){EXEC, 0, 0, 8, 1}, 5, CUDA_ERROR_INVALID_VALUE);
    expect_stuck(PX_OP_GRAPH_BYTES, (uint64_t[]){EXEC, 0, UINT64_MAX, 16, 1}, 5,
                 CUDA_ERROR_INVALID_VALUE);
    expect_stuck(GB_OP_cuMemRelease, (uint64_t[]){EXEC}, 1, CUDA_ERROR_INVALID_HANDLE);
    expect_stuck(GB_OP_cuMemAddressFree, (uint64_t[]){WINDOW, 256 << 20}, 2,
                 CUDA_ERROR_INVALID_VALUE); /* the window is not the client's to free */
    expect_stuck(GB_OP_cuLinkDestroy, (uint64_t[]){STREAM}, 1, CUDA_ERROR_INVALID_HANDLE);
}

static void expect_error(uint16_t op, const uint64_t *words, unsigned count)
{
    assert_true(send_bytes(op, words, count * 8));
    assert_int_not_equal(answer(), CUDA_SUCCESS);
    expect_sound();
}

static void wrong_mappings(void **state)
{
    (void)state;
    begin();
    expect_error(GB_OP_cuMemAddressReserve, (uint64_t[]){0, GRAIN}, 2);
    expect_error(GB_OP_cuMemAddressReserve, (uint64_t[]){SPACE, UINT64_MAX - SPACE + 1}, 2);
    expect_error(GB_OP_cuMemCreate, (uint64_t[]){MEMORY, 1ull << 60, 0, 0}, 4);
    expect_error(GB_OP_cuMemCreate, (uint64_t[]){MEMORY, GRAIN, 9, 0}, 4);
    expect_error(GB_OP_cuMemCreate, (uint64_t[]){STREAM, GRAIN, 0, 0}, 4); /* the number is taken */
    SEND(GB_OP_cuMemAddressReserve, SPACE, 4 * GRAIN);
    assert_int_equal(answer(), CUDA_SUCCESS);
    SEND(GB_OP_cuMemCreate, MEMORY, 2 * GRAIN, 0, 0);
    assert_int_equal(answer(), CUDA_SUCCESS);
    expect_error(GB_OP_cuMemMap, (uint64_t[]){WINDOW, 2 * GRAIN, MEMORY}, 3);
    expect_error(GB_OP_cuMemMap, (uint64_t[]){SPACE + 3 * GRAIN, 2 * GRAIN, MEMORY}, 3);
    expect_error(GB_OP_cuMemMap, (uint64_t[]){SPACE, UINT64_MAX, MEMORY}, 3);
    expect_error(GB_OP_cuMemUnmap, (uint64_t[]){SPACE, 2 * GRAIN}, 2);
    expect_error(GB_OP_cuMemUnmap, (uint64_t[]){WINDOW, 256 << 20}, 2);
    SEND(GB_OP_cuMemMap, SPACE, 2 * GRAIN, MEMORY);
    assert_int_equal(answer(), CUDA_SUCCESS);
    expect_error(GB_OP_cuMemMap, (uint64_t[]){SPACE + GRAIN, 2 * GRAIN, MEMORY}, 3);
    expect_error(GB_OP_cuMemSetAccess, (uint64_t[]){SPACE, 2 * GRAIN, UINT64_MAX, 0, 3}, 5);
    expect_error(GB_OP_cuMemSetAccess, (uint64_t[]){SPACE, 2 * GRAIN, 1, 77, 3}, 5);
    expect_error(GB_OP_cuMemSetAccess, (uint64_t[]){SPACE, 4 * GRAIN, 1, 0, 3}, 5);
    /* Here is nobody to keep what is shared, and nothing of the kind. */
    expect_error(GB_OP_cuMemExportToShareableHandle, (uint64_t[]){MEMORY}, 1);
    expect_error(GB_OP_cuMemExportToShareableHandle, (uint64_t[]){STREAM}, 1);
    expect_error(GB_OP_cuMemImportFromShareableHandle, (uint64_t[]){MEMORY + 1, 0, 1, 2}, 4);
    expect_error(GB_OP_cuIpcGetMemHandle, (uint64_t[]){SPACE, 0}, 2);
    expect_error(GB_OP_cuIpcGetMemHandle, (uint64_t[]){WINDOW, UINT64_MAX}, 2);
    expect_error(GB_OP_cuIpcGetEventHandle, (uint64_t[]){STREAM}, 1);
    expect_error(GB_OP_cuIpcOpenEventHandle, (uint64_t[]){MEMORY + 1, 1, 2}, 3);
    end(); /* what is mapped goes with the session */
}

static void wrong_links(void **state)
{
    px_wire_link_t link = {.link = LINK, .option_count = UINT32_MAX, .name = UINT32_MAX};
    (void)state;
    begin();
    for (int i = 0; i < PX_WIRE_LINK_OPTIONS; i++) {
        link.options[2 * i] = (uint32_t)i;
        link.options[2 * i + 1] = 0x41414141;
    }
    assert_true(send_bytes(GB_OP_cuLinkAddData_v2, &link, sizeof(link))); /* of no link */
    assert_int_not_equal(answer(), CUDA_SUCCESS);
    assert_true(send_bytes(GB_OP_cuLinkCreate_v2, &link, sizeof(link)));
    answer(); /* its options are refused in the reply proper */
    link.option_count = 0;
    assert_true(send_bytes(GB_OP_cuLinkCreate_v2, &link, sizeof(link)));
    assert_int_equal(answer(), CUDA_SUCCESS);
    assert_true(
        send_bytes(GB_OP_cuLinkAddData_v2, &link, sizeof(link))); /* no image, a long name */
    answer();
    expect_error(PX_OP_LINK_READ, (uint64_t[]){LINK, 0, 16}, 3);
    expect_error(PX_OP_LINK_READ, (uint64_t[]){LINK, UINT64_MAX, 16}, 3);
    expect_error(PX_OP_LINK_READ, (uint64_t[]){EXEC, 0, 16}, 3);
    link.name = 0;
    assert_true(send_bytes(GB_OP_cuLinkComplete, &link, sizeof(link)));
    answer();
    expect_sound();
    end();
}

/* A device of which the client wants no memory has none to give. */
static void no_window(void **state)
{
    (void)state;
    greet();
    SEND(GB_OP_cuCtxCreate_v4, CONTEXT, 0, 0);
    assert_int_equal(answer(), CUDA_SUCCESS);
    SEND(PX_OP_SET_CONTEXT, CONTEXT);
    expect_error(PX_OP_SHARED_MAP, (uint64_t[]){SPACE, GRAIN, CONTEXT}, 3);
    expect_error(GB_OP_cuMemAlloc_v2, (uint64_t[]){GRAIN}, 1);
    expect_error(GB_OP_cuMemGetInfo_v2, NULL, 0);
    expect_error(GB_OP_cuMemCreate, (uint64_t[]){MEMORY, GRAIN, 0, 0}, 4);
    expect_error(GB_OP_cuIpcGetMemHandle, (uint64_t[]){WINDOW, 0}, 2);
    end();
}

/* Nor does it get another window once memory counts in the first. */
static void second_window(void **state)
{
    (void)state;
    greet();
    SEND(PX_OP_WINDOW, 0, WINDOW, 256 << 20);
    assert_int_equal(answer(), CUDA_SUCCESS);
    SEND(GB_OP_cuMemCreate, MEMORY, GRAIN, 0, 0);
    assert_int_equal(answer(), CUDA_SUCCESS);
    SEND(PX_OP_WINDOW, 0, WINDOW, 256 << 20);
    assert_int_equal(answer(), CUDA_ERROR_INVALID_VALUE);
    SEND(GB_OP_cuMemRelease, MEMORY);
    SEND(PX_OP_WINDOW, 0, WINDOW, 256 << 20);
    assert_int_equal(answer(), CUDA_SUCCESS);
    end();
}

/* What a client leaves behind goes with the session: the sanitizers tell of what does not. */
static void left_behind(void **state)
{
    static const char ptx[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n.entry left() { ret; }";
    uint64_t image[2 + sizeof(ptx) / 8 + 1] = {sizeof(ptx), 0};
    px_wire_module_t load = {.module = MEMORY, .image_size = sizeof(ptx)};
    px_wire_link_t link = {.link = LINK};
    (void)state;
    begin();
    memcpy(&image[2], ptx, sizeof(ptx));
    SHA256((const uint8_t *)ptx, sizeof(ptx), load.hash);
    assert_true(send_bytes(PX_OP_IMAGE, image, sizeof(image)));
    assert_true(send_bytes(GB_OP_cuModuleLoadDataEx, &load, sizeof(load)));
    assert_int_equal(answer(), CUDA_SUCCESS);
    assert_true(send_bytes(GB_OP_cuLinkCreate_v2, &link, sizeof(link)));
    assert_int_equal(answer(), CUDA_SUCCESS);
    SEND(GB_OP_cuMemCreate, MEMORY + 1, GRAIN, 0, 0);
    assert_int_equal(answer(), CUDA_SUCCESS);
    end();
}

/* ---- many at once ---- */

static uint32_t seed = 20261201;

static uint32_t next(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* Mostly numbers that mean something. */
static uint64_t number(void)
{
    switch (next(10)) {
    case 0:
        return UINT64_MAX - next(3);
    case 1:
        return (uint64_t)next(1u << 20) << next(44);
    case 2:
        return WINDOW + next(8) * GRAIN;
    case 3:
        return SPACE + next(8) * GRAIN;
    case 4:
        return next(4) * GRAIN;
    case 5:
        return MEMORY + next(2);
    case 6:
        return EXEC + next(3);
    default:
        return next(4) ? next(4) : 16 + next(6);
    }
}

static const uint16_t operations[] = {
    PX_OP_GRAPH_NODE,
    PX_OP_GRAPH_NODE,
    PX_OP_GRAPH_NODE,
    PX_OP_GRAPH_NODE,
    GB_OP_cuGraphInstantiateWithFlags,
    GB_OP_cuGraphInstantiateWithFlags,
    GB_OP_cuGraphLaunch,
    GB_OP_cuGraphLaunch,
    GB_OP_cuGraphUpload,
    GB_OP_cuGraphExecDestroy,
    GB_OP_cuGraphExecNodeSetParams,
    GB_OP_cuGraphNodeSetEnabled,
    PX_OP_GRAPH_BYTES,
    PX_OP_GRAPH_FETCH,
    GB_OP_cuMemAddressReserve,
    GB_OP_cuMemAddressFree,
    GB_OP_cuMemCreate,
    GB_OP_cuMemRelease,
    GB_OP_cuMemMap,
    GB_OP_cuMemUnmap,
    GB_OP_cuMemSetAccess,
    GB_OP_cuMemExportToShareableHandle,
    GB_OP_cuMemImportFromShareableHandle,
    GB_OP_cuIpcGetMemHandle,
    GB_OP_cuIpcGetEventHandle,
    GB_OP_cuIpcOpenEventHandle,
    GB_OP_cuLinkCreate_v2,
    GB_OP_cuLinkAddData_v2,
    GB_OP_cuLinkComplete,
    GB_OP_cuLinkDestroy,
    PX_OP_LINK_READ,
    PX_OP_IMAGE,
    GB_OP_cuMemsetD8Async,
    GB_OP_cuEventDestroy_v2,
    GB_OP_cuCtxSynchronize,
    GB_OP_cuMemAlloc_v2,
    GB_OP_cuMemFree_v2,
    PX_OP_HOST_DONE,
};

/* Positions that go on where the graph is, most of the time. */
static uint32_t positions[3];

static uint32_t fill_node(uint64_t *words)
{
    px_wire_node_t node = {.exec = EXEC + next(3), .type = next(14), .priority = (int32_t)next(3)};
    uint32_t deps = next(3), at = 0, which = node.exec - EXEC;
    node.position = next(10) ? positions[which]++ : (uint32_t)number();
    node.deps = next(20) ? deps : (uint32_t)number();
    node.body = next(20) ? 8 * (1 + next(12)) : (uint32_t)number();
    memcpy(words, &node, sizeof(node));
    at = sizeof(node) / 8;
    uint32_t list[4] = {next(3), next(3), 0, 0};
    memcpy(words + at, list, px_wire_pad(deps * 4));
    at += px_wire_pad(deps * 4) / 8;
    return at + next(14);
}

static int send_senseless(void)
{
    static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.entry f() { ret; }";
    uint64_t words[64];
    uint16_t op = operations[next(sizeof(operations) / sizeof(operations[0]))];
    uint32_t size = 3 + next(3);
    for (uint32_t i = 0; i < 64; i++)
        words[i] = number();
    if (op == PX_OP_GRAPH_NODE || op == GB_OP_cuGraphExecNodeSetParams)
        size = fill_node(words);
    if (op == GB_OP_cuGraphInstantiateWithFlags && next(8)) {
        uint32_t which = next(3);
        words[0] = EXEC + which;
        words[1] = positions[which];
        words[2] = 0;
        positions[which] = 0;
    }
    if (op == GB_OP_cuLinkCreate_v2 || op == GB_OP_cuLinkAddData_v2 || op == GB_OP_cuLinkComplete) {
        words[0] = LINK + next(2);
        size = sizeof(px_wire_link_t) / 8 + next(3);
    }
    if (op == PX_OP_IMAGE) {
        words[0] = next(4) ? sizeof(ptx) : number();
        words[1] = next(4) ? 0 : number();
        memcpy(&words[2], ptx, sizeof(ptx));
        size = 2 + (sizeof(ptx) + 7) / 8;
    }
    return send_bytes(op, words, size * 8);
}

static void *drain(void *arg)
{
    uint8_t bytes[4096];
    size_t got;
    (void)arg;
    while (gb_link_recv_some(mine, bytes, sizeof(bytes), GB_NEVER, &got) == GB_OK)
        ;
    return NULL;
}

static void senseless_frames(void **state)
{
    int outlived = 0;
    (void)state;
    for (int round = 0; round < 100; round++) {
        pthread_t drainer;
        int sent = 0;
        memset(positions, 0, sizeof(positions));
        begin();
        assert_int_equal(pthread_create(&drainer, NULL, drain, NULL), 0);
        while (sent < 100 && send_senseless())
            sent++;
        outlived += sent == 100;
        gb_link_shutdown(mine);
        pthread_join(thread, NULL);
        pthread_join(drainer, NULL);
        gb_link_close(mine);
        gb_durable_free(served);
    }
    assert_true(outlived > 0);
}

static int open_device(void **state)
{
    (void)state;
    setenv("GABLE_CPU_MEMORY", "64M", 1);
    setenv("GABLE_CPU_THREADS", "2", 1);
    setenv("GABLE_CPU_CACHE", "off", 1);
    return gb_driver_open(GABLE_BUILD_DIR "/lib/gable/cpu/libcuda.so.1", &driver) != GB_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_nodes),    cmocka_unit_test(wrong_uses),
        cmocka_unit_test(wrong_mappings), cmocka_unit_test(wrong_links),
        cmocka_unit_test(no_window),      cmocka_unit_test(second_window),
        cmocka_unit_test(left_behind),    cmocka_unit_test(senseless_frames),
    };
    return cmocka_run_group_tests(tests, open_device, NULL);
}

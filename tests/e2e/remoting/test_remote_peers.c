/* Copies and waits between the devices of two proxies: bytes, order, and what passes the client's link.
 * usage: test_remote_peers unix|shm|tcp|tls|through */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/e2e/remoting/relay.h"
#include "tests/e2e/remoting/remote.h"

#include <stdio.h>
#include <stdlib.h>

enum { MIB = 1 << 20, LARGEST = 64 * MIB };

static proxy_t proxies[2];
static relay_t *relay; /* in front of the first one, with Unix sockets */
static int through;    /* the client may not have links made */
static CUcontext contexts[2];
static CUfunction spin[2];
static CUstream streams[2];

static void use(int device)
{
    OK(cuda->cuCtxSetCurrent(contexts[device]));
}

static CUdeviceptr memory_on(int device, size_t bytes)
{
    CUdeviceptr p;
    use(device);
    OK(cuda->cuMemAlloc_v2(&p, bytes));
    return p;
}

static uint8_t *pattern(size_t bytes, unsigned seed)
{
    uint8_t *p = malloc(bytes);
    uint32_t x = seed * 2654435761u + 1;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 1664525 + 1013904223;
        p[i] = (uint8_t)(x >> 24);
    }
    return p;
}

static int set_up(void **state)
{
    (void)state;
    OK(cuda->cuInit(0));
    for (int i = 0; i < 2; i++) {
        OK(cuda->cuDevicePrimaryCtxRetain(&contexts[i], i));
        use(i);
        OK(cuda->cuModuleLoadData(&module, saxpy_ptx));
        OK(cuda->cuModuleGetFunction(&spin[i], module, "spin"));
        OK(cuda->cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    }
    return 0;
}

/* ---- bytes ---- */

typedef enum { SYNC, PEER, IN_SOURCE, IN_TARGET, UNIFIED, WAYS } way_t;

static void copy(way_t way, CUdeviceptr dst, CUdeviceptr src, size_t n, int from, int to)
{
    use(way == IN_TARGET ? to : from);
    switch (way) {
    case SYNC:
        OK(cuda->cuMemcpyDtoD_v2(dst, src, n));
        break;
    case PEER:
        OK(cuda->cuMemcpyPeer(dst, contexts[to], src, contexts[from], n));
        break;
    case UNIFIED:
        OK(cuda->cuMemcpyAsync(dst, src, n, NULL));
        break;
    default:
        OK(cuda->cuMemcpyPeerAsync(dst, contexts[to], src, contexts[from], n,
                                   streams[way == IN_TARGET ? to : from]));
        OK(cuda->cuStreamSynchronize(streams[way == IN_TARGET ? to : from]));
    }
}

/* One copy at odd places; the bytes around it stay. */
static void copy_and_compare(way_t way, size_t n, int from)
{
    static const unsigned before = 3, after = 5;
    int to = !from;
    size_t all = n + before + after;
    uint8_t *sent = pattern(all, (unsigned)n + 1), *kept = pattern(all, (unsigned)n + 2);
    uint8_t *got = malloc(all);
    CUdeviceptr src = memory_on(from, all), dst = memory_on(to, all);
    use(from);
    OK(cuda->cuMemcpyHtoD_v2(src, sent, all));
    use(to);
    OK(cuda->cuMemcpyHtoD_v2(dst, kept, all));
    OK(cuda->cuStreamSynchronize(NULL));
    copy(way, dst + before, src + 1, n, from, to);
    use(to);
    OK(cuda->cuMemcpyDtoH_v2(got, dst, all));
    assert_memory_equal(got, kept, before);
    assert_memory_equal(got + before, sent + 1, n);
    assert_memory_equal(got + before + n, kept + before + n, after);
    OK(cuda->cuMemFree_v2(src));
    OK(cuda->cuMemFree_v2(dst));
    free(sent);
    free(kept);
    free(got);
}

static void sizes(void **state)
{
    static const size_t some[] = {1,      2,       7,       4096,        65535,  262144,
                                  262145, MIB - 1, MIB + 1, 3 * MIB + 7, 9999991};
    (void)state;
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
        for (int way = 0; way < WAYS; way++)
            copy_and_compare((way_t)way, some[i], (int)(i + (size_t)way) % 2);
    copy_and_compare(IN_SOURCE, LARGEST, 0);
    copy_and_compare(IN_TARGET, LARGEST, 1);
}

/* ---- what passes the client's link ---- */

static int lines_with(const proxy_t *proxy, const char *text)
{
    char line[512];
    int count = 0;
    FILE *log = fopen(proxy->log, "r");
    while (log && fgets(line, sizeof(line), log))
        count += strstr(line, text) != NULL;
    if (log)
        fclose(log);
    return count;
}

static void only_commands_pass(void **state)
{
    (void)state;
    CUdeviceptr a = memory_on(0, LARGEST), b = memory_on(1, LARGEST);
    use(0);
    OK(cuda->cuMemsetD8_v2(a, 1, LARGEST));
    OK(cuda->cuCtxSynchronize());
    if (relay) {
        uint64_t up = relay_up(relay), down = relay_down(relay);
        for (int i = 0; i < 4; i++) {
            OK(cuda->cuMemcpyPeerAsync(i % 2 ? a : b, contexts[i % 2 ? 0 : 1], i % 2 ? b : a,
                                       contexts[i % 2], LARGEST, streams[0]));
            OK(cuda->cuStreamSynchronize(streams[0]));
        }
        up = relay_up(relay) - up;
        down = relay_down(relay) - down;
        if (through)
            assert_true(up + down >= 4ull * LARGEST);
        else
            assert_true(up <= 4 * 300 && down <= 4 * 100);
    }
    int dialled = 0;
    for (int i = 0; i < 2; i++)
        dialled += lines_with(&proxies[i], "is dialled by another session");
    assert_int_equal(dialled, !through); /* one link for both directions */
    OK(cuda->cuMemFree_v2(a));
    OK(cuda->cuMemFree_v2(b));
}

static void no_access_is_claimed(void **state)
{
    int can = 1;
    (void)state;
    OK(cuda->cuDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 0);
    use(0);
    FAILS(cuda->cuCtxEnablePeerAccess(contexts[1], 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}

/* ---- order ---- */

/* Keeps a stream of the device busy until `release`. */
typedef struct {
    int device;
    CUdeviceptr flag;
    CUstream side;
} gate_t;

static gate_t hold(int device, CUstream stream)
{
    gate_t gate = {.device = device, .flag = memory_on(device, 4)};
    OK(cuda->cuStreamCreate(&gate.side, CU_STREAM_NON_BLOCKING));
    OK(cuda->cuMemsetD32Async(gate.flag, 0, 1, gate.side));
    OK(cuda->cuStreamSynchronize(gate.side));
    void *args[] = {&gate.flag};
    OK(cuda->cuLaunchKernel(spin[device], 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    return gate;
}

static void release(gate_t *gate)
{
    use(gate->device);
    OK(cuda->cuStreamWriteValue32_v2(gate->side, gate->flag, 1, 0));
    OK(cuda->cuStreamSynchronize(gate->side));
}

static void drop(gate_t *gate)
{
    use(gate->device);
    OK(cuda->cuStreamDestroy_v2(gate->side));
    OK(cuda->cuMemFree_v2(gate->flag));
}

static uint32_t word_at(int device, CUdeviceptr p)
{
    uint32_t word;
    CUstream own;
    use(device);
    OK(cuda->cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    OK(cuda->cuMemcpyDtoHAsync_v2(&word, p, 4, own));
    OK(cuda->cuStreamDestroy_v2(own));
    return word;
}

/* A copy in a stream of the source (or of the target) comes after what is in it, and before what follows; the
 * call itself comes back at once. */
static void stream_order_at(int holder)
{
    enum { WORDS = 1 << 18 };
    CUdeviceptr a = memory_on(0, WORDS * 4), b = memory_on(1, WORDS * 4);
    CUevent after;
    use(0);
    OK(cuda->cuMemsetD32_v2(a, 1, WORDS));
    OK(cuda->cuCtxSynchronize());
    use(1);
    OK(cuda->cuMemsetD32_v2(b, 2, WORDS));
    OK(cuda->cuCtxSynchronize());
    gate_t gate = hold(holder, streams[holder]);
    if (holder == 0) /* behind the kernel, in front of the copy */
        OK(cuda->cuMemsetD32Async(a, 3, WORDS, streams[0]));
    OK(cuda->cuMemcpyPeerAsync(b, contexts[1], a, contexts[0], WORDS * 4, streams[holder]));
    if (holder == 1) /* behind the copy */
        OK(cuda->cuMemsetD32Async(b + 4, 4, 1, streams[1]));
    OK(cuda->cuEventCreate(&after, CU_EVENT_DISABLE_TIMING));
    OK(cuda->cuEventRecord(after, streams[holder]));
    poll(NULL, 0, 30);
    assert_int_equal(word_at(1, b), 2); /* nothing has come: the kernel still runs */
    use(holder);
    FAILS(cuda->cuEventQuery(after), CUDA_ERROR_NOT_READY);
    FAILS(cuda->cuStreamQuery(streams[holder]), CUDA_ERROR_NOT_READY);
    release(&gate);
    OK(cuda->cuEventSynchronize(after));
    assert_int_equal(word_at(1, b), holder == 0 ? 3 : 1);
    assert_int_equal(word_at(1, b + 4), holder == 0 ? 3 : 4);
    assert_int_equal(word_at(1, b + 4 * (WORDS - 1)), holder == 0 ? 3 : 1);
    OK(cuda->cuEventDestroy_v2(after));
    drop(&gate);
    OK(cuda->cuMemFree_v2(a));
    OK(cuda->cuMemFree_v2(b));
}

static void stream_order(void **state)
{
    (void)state;
    if (through) /* it waits for the stream by itself */
        skip();
    stream_order_at(0);
    stream_order_at(1);
}

/* A stream waits for an event of the other proxy's device. */
static void events_across(void **state)
{
    (void)state;
    for (int from = 0; from < 2 && !through; from++) {
        int to = !from;
        CUdeviceptr p = memory_on(to, 4);
        CUevent event, never;
        OK(cuda->cuMemsetD32_v2(p, 1, 1));
        OK(cuda->cuCtxSynchronize());
        use(from);
        OK(cuda->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        OK(cuda->cuEventCreate(&never, CU_EVENT_DISABLE_TIMING));
        OK(cuda->cuStreamWaitEvent(streams[to], never,
                                   0)); /* was not recorded: nothing to wait for */
        gate_t gate = hold(from, streams[from]);
        OK(cuda->cuEventRecord(event, streams[from]));
        use(to);
        OK(cuda->cuStreamWaitEvent(streams[to], event, 0));
        OK(cuda->cuMemsetD32Async(p, 2, 1, streams[to]));
        /* another record does not count for the wait that was before it */
        use(from);
        gate_t second = hold(from, gate.side);
        OK(cuda->cuEventRecord(event, gate.side));
        poll(NULL, 0, 30);
        assert_int_equal(word_at(to, p), 1);
        use(to);
        FAILS(cuda->cuStreamQuery(streams[to]), CUDA_ERROR_NOT_READY);
        use(from);
        OK(cuda->cuStreamWriteValue32_v2(second.side, gate.flag, 1, 0));
        use(to);
        OK(cuda->cuStreamSynchronize(streams[to]));
        assert_int_equal(word_at(to, p), 2);
        release(&second);
        use(from);
        OK(cuda->cuStreamSynchronize(gate.side));
        drop(&second);
        drop(&gate);
        use(from);
        OK(cuda->cuEventDestroy_v2(event));
        OK(cuda->cuEventDestroy_v2(never));
        use(to);
        OK(cuda->cuMemFree_v2(p));
    }
}

/* What passes to and fro in streams of both ends, without the program waiting in between. */
static void ping_pong(void **state)
{
    enum { WORDS = 1000, TURNS = 20 };
    CUdeviceptr a = memory_on(0, WORDS * 4), b = memory_on(1, WORDS * 4);
    CUevent events[2];
    uint32_t got[WORDS];
    (void)state;
    for (int i = 0; i < 2; i++) {
        use(i);
        OK(cuda->cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
    }
    use(0);
    for (int i = 0; i < TURNS; i++) {
        OK(cuda->cuMemsetD32Async(a + 4 * (unsigned)i, (unsigned)i, 1, streams[0]));
        OK(cuda->cuMemcpyDtoDAsync_v2(b, a, WORDS * 4, streams[0]));
        OK(cuda->cuEventRecord(events[0], streams[0]));
        OK(cuda->cuStreamWaitEvent(streams[1], events[0], 0));
        OK(cuda->cuMemsetD32Async(b + 4 * (unsigned)(i + TURNS), (unsigned)i, 1, streams[1]));
        OK(cuda->cuMemcpyDtoDAsync_v2(a, b, WORDS * 4, streams[1]));
        OK(cuda->cuEventRecord(events[1], streams[1]));
        OK(cuda->cuStreamWaitEvent(streams[0], events[1], 0));
    }
    OK(cuda->cuMemcpyDtoHAsync_v2(got, a, sizeof(got), streams[0]));
    for (unsigned i = 0; i < 2 * TURNS; i++)
        assert_int_equal(got[i], i % TURNS);
    for (int i = 0; i < 2; i++)
        OK(cuda->cuEventDestroy_v2(events[i]));
    OK(cuda->cuMemFree_v2(a));
    OK(cuda->cuMemFree_v2(b));
}

/* A copy that waits for its stream is in no other stream's way: natively this comes to an end, too. */
static void nobody_waits_for_others(void **state)
{
    CUdeviceptr a = memory_on(0, MIB), b = memory_on(1, MIB), c = memory_on(1, MIB);
    CUstream others[2];
    (void)state;
    if (through)
        skip();
    use(1);
    OK(cuda->cuStreamCreate(&others[1], CU_STREAM_NON_BLOCKING));
    use(0);
    OK(cuda->cuStreamCreate(&others[0], CU_STREAM_NON_BLOCKING));
    gate_t gate = hold(1, streams[1]);
    OK(cuda->cuMemcpyPeerAsync(b, contexts[1], a, contexts[0], MIB, streams[1]));
    for (int i = 0; i < 20; i++) {
        use(0);
        OK(cuda->cuMemcpyPeerAsync(c, contexts[1], a, contexts[0], MIB, others[i % 2]));
        OK(cuda->cuStreamSynchronize(others[i % 2]));
    }
    use(1);
    FAILS(cuda->cuStreamQuery(streams[1]), CUDA_ERROR_NOT_READY);
    release(&gate);
    OK(cuda->cuStreamSynchronize(streams[1]));
    drop(&gate);
    OK(cuda->cuStreamDestroy_v2(others[1]));
    use(0);
    OK(cuda->cuStreamDestroy_v2(others[0]));
    OK(cuda->cuMemFree_v2(a));
    OK(cuda->cuMemFree_v2(b));
    OK(cuda->cuMemFree_v2(c));
}

/* In the default stream a copy waits for both devices' streams, and both wait for it. */
static void default_stream(void **state)
{
    enum { WORDS = 1 << 16 };
    (void)state;
    for (int busy = 0; busy < 2 && !through; busy++) {
        CUdeviceptr a = memory_on(0, WORDS * 4), b = memory_on(1, WORDS * 4);
        CUstream blocking[2];
        for (int i = 0; i < 2; i++) {
            use(i);
            OK(cuda->cuStreamCreate(&blocking[i], CU_STREAM_DEFAULT));
            OK(cuda->cuMemsetD32_v2(i ? b : a, 7, WORDS));
            OK(cuda->cuCtxSynchronize());
        }
        gate_t gate = hold(busy, blocking[busy]);
        OK(cuda->cuMemsetD32Async(busy ? b : a, 8, WORDS, blocking[busy]));
        use(0);
        OK(cuda->cuMemcpyDtoDAsync_v2(b, a, WORDS * 4 - 4, NULL));
        use(1); /* behind the copy, on the other device */
        OK(cuda->cuMemsetD32Async(b, 9, 1, blocking[1]));
        poll(NULL, 0, 30);
        assert_int_equal(word_at(1, b), 7);
        release(&gate);
        use(1);
        OK(cuda->cuStreamSynchronize(blocking[1]));
        assert_int_equal(word_at(1, b), 9);
        assert_int_equal(word_at(1, b + 4), busy ? 7 : 8);
        assert_int_equal(word_at(1, b + 4 * (WORDS - 1)), busy ? 8 : 7);
        drop(&gate);
        for (int i = 0; i < 2; i++) {
            use(i);
            OK(cuda->cuStreamDestroy_v2(blocking[i]));
            OK(cuda->cuMemFree_v2(i ? b : a));
        }
    }
}

/* ---- boxes ---- */

static void check_box(const uint8_t *sent, const uint8_t *kept, const uint8_t *got,
                      const CUDA_MEMCPY3D_PEER *c, size_t src_rows, size_t dst_rows)
{
    for (size_t z = 0; z < 5; z++)
        for (size_t y = 0; y < dst_rows; y++)
            for (size_t x = 0; x < c->dstPitch; x++) {
                size_t at = (z * dst_rows + y) * c->dstPitch + x;
                int in = z - c->dstZ < c->Depth && y - c->dstY < c->Height &&
                         x - c->dstXInBytes < c->WidthInBytes;
                size_t from =
                    ((z - c->dstZ + c->srcZ) * src_rows + y - c->dstY + c->srcY) * c->srcPitch + x -
                    c->dstXInBytes + c->srcXInBytes;
                assert_int_equal(got[at], in ? sent[from] : kept[at]);
            }
}

static void boxes(void **state)
{
    enum { SRC_PITCH = 700, DST_PITCH = 1021, SRC_ROWS = 301, DST_ROWS = 233, DEPTH = 5 };
    size_t src_bytes = SRC_PITCH * SRC_ROWS * DEPTH, dst_bytes = DST_PITCH * DST_ROWS * DEPTH;
    uint8_t *sent = pattern(src_bytes, 5), *kept = pattern(dst_bytes, 6), *got = malloc(dst_bytes);
    (void)state;
    for (int from = 0; from < 2; from++) {
        int to = !from;
        CUdeviceptr src = memory_on(from, src_bytes), dst = memory_on(to, dst_bytes);
        use(from);
        OK(cuda->cuMemcpyHtoD_v2(src, sent, src_bytes));
        use(to);
        OK(cuda->cuMemcpyHtoD_v2(dst, kept, dst_bytes));
        OK(cuda->cuStreamSynchronize(NULL));
        CUDA_MEMCPY3D_PEER c = {.srcXInBytes = 13,
                                .srcY = 7,
                                .srcZ = 1,
                                .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = src,
                                .srcContext = contexts[from],
                                .srcPitch = SRC_PITCH,
                                .srcHeight = SRC_ROWS,
                                .dstXInBytes = 101,
                                .dstY = 3,
                                .dstZ = 2,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = dst,
                                .dstContext = contexts[to],
                                .dstPitch = DST_PITCH,
                                .dstHeight = DST_ROWS,
                                .WidthInBytes = 655,
                                .Height = 219,
                                .Depth = 3};
        use(from);
        OK(cuda->cuMemcpy3DPeerAsync(&c, streams[from]));
        OK(cuda->cuStreamSynchronize(streams[from]));
        use(to);
        OK(cuda->cuMemcpyDtoH_v2(got, dst, dst_bytes));
        check_box(sent, kept, got, &c, SRC_ROWS, DST_ROWS);
        OK(cuda->cuMemcpyHtoD_v2(dst, kept, dst_bytes));
        OK(cuda->cuMemcpy3DPeer(&c));
        OK(cuda->cuMemcpyDtoH_v2(got, dst, dst_bytes));
        check_box(sent, kept, got, &c, SRC_ROWS, DST_ROWS);
        OK(cuda->cuMemFree_v2(src));
        OK(cuda->cuMemFree_v2(dst));
    }
    free(sent);
    free(kept);
    free(got);
}

/* From an array of one device into an array of the other. */
static void arrays(void **state)
{
    enum { WIDTH = 333, HEIGHT = 301 };
    CUDA_ARRAY_DESCRIPTOR d = {WIDTH, HEIGHT, CU_AD_FORMAT_UNSIGNED_INT32, 1};
    uint8_t *sent = pattern(WIDTH * HEIGHT * 4, 9), *got = malloc(WIDTH * HEIGHT * 4);
    CUarray array[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        use(i);
        OK(cuda->cuArrayCreate_v2(&array[i], &d));
    }
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = sent,
                        .srcPitch = WIDTH * 4,
                        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                        .dstArray = array[0],
                        .WidthInBytes = WIDTH * 4,
                        .Height = HEIGHT};
    CUDA_MEMCPY2D across = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                            .srcArray = array[0],
                            .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                            .dstArray = array[1],
                            .WidthInBytes = WIDTH * 4,
                            .Height = HEIGHT};
    CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .srcArray = array[1],
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = got,
                          .dstPitch = WIDTH * 4,
                          .WidthInBytes = WIDTH * 4,
                          .Height = HEIGHT};
    use(0);
    OK(cuda->cuMemcpy2D_v2(&up));
    OK(cuda->cuMemcpy2D_v2(&across));
    use(1);
    OK(cuda->cuMemcpy2D_v2(&down));
    assert_memory_equal(got, sent, WIDTH * HEIGHT * 4);
    for (int i = 0; i < 2; i++) {
        use(i);
        OK(cuda->cuArrayDestroy(array[i]));
    }
    free(sent);
    free(got);
}

/* Managed memory of one device, as the program has written it, and back. */
static void managed(void **state)
{
    enum { BYTES = 300001 };
    CUdeviceptr shared, plain = memory_on(1, BYTES);
    uint8_t *sent = pattern(BYTES, 3);
    (void)state;
    use(0);
    OK(cuda->cuMemAllocManaged(&shared, BYTES, CU_MEM_ATTACH_GLOBAL));
    memcpy((void *)(uintptr_t)shared, sent, BYTES);
    OK(cuda->cuMemcpyDtoDAsync_v2(plain, shared, BYTES, streams[0]));
    OK(cuda->cuStreamSynchronize(streams[0]));
    memset((void *)(uintptr_t)shared, 0, BYTES);
    OK(cuda->cuMemcpyDtoDAsync_v2(shared, plain, BYTES, streams[0]));
    OK(cuda->cuStreamSynchronize(streams[0]));
    assert_memory_equal((void *)(uintptr_t)shared, sent, BYTES);
    OK(cuda->cuMemFree_v2(shared));
    OK(cuda->cuMemFree_v2(plain));
    free(sent);
}

/* Both sides at one proxy, in a stream of the other one. */
static void stream_of_neither(void **state)
{
    CUdeviceptr a = memory_on(1, 4096), b = memory_on(1, 4096);
    (void)state;
    use(1);
    OK(cuda->cuMemsetD8_v2(a, 5, 4096));
    OK(cuda->cuCtxSynchronize());
    use(0);
    uint64_t before = relay ? relay_down(relay) + relay_up(relay) : 0;
    OK(cuda->cuMemcpyDtoDAsync_v2(b, a, 4096, streams[0]));
    assert_true(!relay || relay_down(relay) + relay_up(relay) - before < 1000);
    assert_int_equal(word_at(1, b + 4092), 0x05050505);
    OK(cuda->cuMemFree_v2(a));
    OK(cuda->cuMemFree_v2(b));
}

/* ---- many at once ---- */

/* In threads: cmocka's assertions are for the main one. */
#define MUST(call)                                                                                 \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_) {                                                                             \
            fprintf(stderr, "%s:%d: %d\n", __FILE__, __LINE__, result_);                           \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static atomic_int wrong;

static CUdeviceptr threads_memory(int device, size_t bytes)
{
    CUdeviceptr p;
    MUST(cuda->cuCtxSetCurrent(contexts[device]));
    MUST(cuda->cuMemAlloc_v2(&p, bytes));
    return p;
}

static void *copying_thread(void *arg)
{
    enum { BYTES = 777777, TURNS = 12 };
    int n = (int)(intptr_t)arg, from = n % 2, to = !from;
    uint8_t *sent = pattern(BYTES, (unsigned)n), *got = malloc(BYTES);
    CUdeviceptr a = threads_memory(from, BYTES), b = threads_memory(to, BYTES),
                back = threads_memory(from, BYTES);
    CUstream stream;
    MUST(cuda->cuCtxSetCurrent(contexts[n % 3 ? from : to]));
    MUST(cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuda->cuCtxSetCurrent(contexts[from]));
    MUST(cuda->cuMemcpyHtoD_v2(a, sent, BYTES));
    MUST(cuda->cuStreamSynchronize(NULL));
    for (int i = 0; i < TURNS; i++) {
        CUstream in = n % 5 ? stream : CU_STREAM_PER_THREAD;
        MUST(cuda->cuMemcpyDtoDAsync_v2(b, a, BYTES, in));
        MUST(cuda->cuMemcpyDtoDAsync_v2(back, b, BYTES, in));
        MUST(cuda->cuStreamSynchronize(in));
    }
    MUST(cuda->cuMemcpyDtoH_v2(got, back, BYTES));
    if (memcmp(sent, got, BYTES) != 0)
        atomic_fetch_add(&wrong, 1);
    MUST(cuda->cuStreamDestroy_v2(stream));
    MUST(cuda->cuMemFree_v2(a));
    MUST(cuda->cuMemFree_v2(b));
    MUST(cuda->cuMemFree_v2(back));
    free(sent);
    free(got);
    return NULL;
}

static void threads(void **state)
{
    enum { THREADS = 12 };
    pthread_t all[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&all[i], NULL, copying_thread, (void *)(intptr_t)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i], NULL);
    assert_int_equal(atomic_load(&wrong), 0);
}

/* One stream of one device, used by several threads: both ends hear of its copies in the same order. */
static void *stream_thread(void *arg)
{
    CUdeviceptr *p = arg;
    MUST(cuda->cuCtxSetCurrent(contexts[0]));
    for (int i = 0; i < 200; i++)
        MUST(cuda->cuMemcpyDtoDAsync_v2(p[1], p[0], 100, streams[0]));
    return NULL;
}

static void one_stream_for_all(void **state)
{
    pthread_t all[4];
    CUdeviceptr p[2] = {memory_on(0, 100), memory_on(1, 100)};
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&all[i], NULL, stream_thread, p), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
    use(0);
    OK(cuda->cuStreamSynchronize(streams[0]));
    OK(cuda->cuMemFree_v2(p[0]));
    OK(cuda->cuMemFree_v2(p[1]));
}

/* ---- ends ---- */

/* Contexts end while copies of their memory are under way: they end after them. */
static void contexts_end(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        CUcontext context_, old;
        CUstream stream;
        /* each copy has memory of its own: they come in no order */
        CUdeviceptr a, b = memory_on(!own, 24 * MIB);
        OK(cuda->cuCtxCreate_v4(&context_, NULL, 0, own));
        OK(cuda->cuMemAlloc_v2(&a, 24 * MIB));
        OK(cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuda->cuMemcpyPeerAsync(b, contexts[!own], a, context_, 8 * MIB, streams[!own]));
        OK(cuda->cuMemcpyPeerAsync(a + 8 * MIB, context_, b + 8 * MIB, contexts[!own], 8 * MIB,
                                   stream));
        OK(cuda->cuMemcpyPeerAsync(b + 16 * MIB, contexts[!own], a + 16 * MIB, context_, 8 * MIB,
                                   NULL));
        OK(cuda->cuCtxDestroy_v2(context_));
        (void)cuda->cuCtxGetCurrent(&old);
        use(!own);
        OK(cuda->cuStreamSynchronize(streams[!own]));
        OK(cuda->cuCtxSynchronize());
        OK(cuda->cuMemFree_v2(b));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(only_commands_pass),
        cmocka_unit_test(no_access_is_claimed),
        cmocka_unit_test(stream_order),
        cmocka_unit_test(events_across),
        cmocka_unit_test(ping_pong),
        cmocka_unit_test(nobody_waits_for_others),
        cmocka_unit_test(default_stream),
        cmocka_unit_test(boxes),
        cmocka_unit_test(arrays),
        cmocka_unit_test(managed),
        cmocka_unit_test(stream_of_neither),
        cmocka_unit_test(threads),
        cmocka_unit_test(one_stream_for_all),
        cmocka_unit_test(contexts_end),
    };
    const char *kind = argc > 1 ? argv[1] : "unix";
    const gb_driver_t *driver;
    char both[256], path[128];
    proxy_link_t link = !strcmp(kind, "tcp")   ? PROXY_TCP
                        : !strcmp(kind, "tls") ? PROXY_TLS
                                               : PROXY_UNIX;
    need_compiler("cpu");
    through = !strcmp(kind, "through");
    setenv("GABLE_CPU_THREADS", "3", 0);
    setenv("GABLE_CPU_MEMORY", "400M", 0);
    for (int i = 0; i < 2; i++)
        proxy_start_on(&proxies[i], "cpu", link, NULL, NULL);
    snprintf(both, sizeof(both), "%s,%s", proxies[0].endpoint, proxies[1].endpoint);
    if (link == PROXY_UNIX && strcmp(kind, "shm") != 0) {
        /* the first copy of the tests is from the first device: its session dials the other one's proxy */
        snprintf(path, sizeof(path), "%s/relay", proxies[0].folder);
        snprintf(both, sizeof(both), "unix:%s,%s", path, proxies[1].endpoint);
        relay = relay_start(path, proxies[0].endpoint + strlen("unix:"));
        setenv("GABLE_LINK_SHM", "0", 1); /* the relay counts the bytes of a socket */
    }
    if (through)
        setenv("GABLE_LINK_PEERS", "0", 1);
    if (*proxies[0].key)
        setenv("GABLE_KEY_FILE", proxies[0].key, 1);
    setenv("GABLE_PROXIES", both, 1);
    if (gb_driver_open(GABLE_BUILD_DIR "/lib/gable/remote/libcuda.so.1", &driver)) {
        fprintf(stderr, "test: %s\n", gb_why());
        return 1;
    }
    cuda = &driver->table;
    int failed = cmocka_run_group_tests(tests, set_up, NULL);
    if (relay)
        relay_stop(relay);
    for (int i = 0; i < 2; i++)
        proxy_stop(&proxies[i]);
    return failed;
}

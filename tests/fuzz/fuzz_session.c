/* Whatever a client sends on its connection: a preamble, then frames. The bytes go through a socket to the
 * session's own code on the null driver, in this process: accepting, adopting, dispatching, ending. Nobody is
 * dialled: other sessions and shards are out of reach.
 *
 * The committed inputs are what programs of ours have sent (record_session.py). Mutations know where frames
 * begin: they change, repeat, move, drop and cut whole frames, make lengths absurd, mix the frames of two
 * programs, and seal the preamble again most of the time, so that what lies behind it is reached.
 *
 * With GABLE_FUZZ_STRICT=1 a session that ends otherwise than with its client is a failure: the committed
 * inputs must stay ones that programs of this version send. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/core/gb_log.h"
#include "common/frame/gb_frame.h"
#include "gb_cuda_ops.h"
#include "gpu-proxy/session/px_peer.h"
#include "gpu-proxy/session/px_session.h"
#include "gpu-proxy/session/px_state.h"
#include "proto/px_wire.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *one, size_t one_size, const uint8_t *two,
                                 size_t two_size, uint8_t *out, size_t max, unsigned seed);
/* In place of the dialling, by the linker. */
gb_status_t __wrap_gb_link_dial(const gb_endpoint_t *endpoint, const gb_credential_t *credential,
                                uint64_t deadline, gb_link_t **out);
const char *__asan_default_options(void);
const char *__lsan_default_suppressions(void);

enum { FRAMES = 512, WAIT_SECONDS = 20, TIMEOUT_MS = 15000, READABLE = 16 << 20 };

static gb_cuda_table_t cuda;
static int strict;

/* A client may ask for more memory than there is: that is an error of its call. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

/* The null driver never calls a host function, whose record waits for that. */
const char *__lsan_default_suppressions(void)
{
    return "leak:new_host";
}

gb_status_t __wrap_gb_link_dial(const gb_endpoint_t *endpoint, const gb_credential_t *credential,
                                uint64_t deadline, gb_link_t **out)
{
    (void)endpoint;
    (void)credential;
    (void)deadline;
    (void)out;
    return gb_fail(GB_ERR_UNREACHABLE, "nobody is there");
}

/* A driver's modules go with their context; the null driver has none to tell. So here they go with the input. */
static struct {
    pthread_mutex_t lock;
    CUmodule list[64];
    CUresult (*load)(CUmodule *, const void *, unsigned, CUjit_option *, void **);
    CUresult (*unload)(CUmodule);
} modules = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void change_module(CUmodule from, CUmodule to, CUmodule *out)
{
    pthread_mutex_lock(&modules.lock);
    for (size_t i = 0; i < sizeof(modules.list) / sizeof(modules.list[0]) && !*out; i++)
        if (modules.list[i] == from) {
            *out = from ? from : to;
            modules.list[i] = to;
        }
    pthread_mutex_unlock(&modules.lock);
}

static CUresult load_module(CUmodule *out, const void *image, unsigned count, CUjit_option *names,
                            void **values)
{
    CUmodule made = NULL, kept = NULL;
    CUresult result = modules.load(&made, image, count, names, values);
    if (result)
        return result;
    change_module(NULL, made, &kept);
    if (kept)
        *out = made;
    else
        modules.unload(made);
    return kept ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult unload_module(CUmodule module)
{
    CUmodule found = NULL;
    if (module)
        change_module(module, NULL, &found);
    return found ? modules.unload(found) : CUDA_ERROR_INVALID_HANDLE;
}

static void unload_modules(void)
{
    for (size_t i = 0; i < sizeof(modules.list) / sizeof(modules.list[0]); i++)
        (void)unload_module(modules.list[i]);
}

/* Memory that can be read ends somewhere, which the null driver does not know. */
static atomic_size_t readable;
static CUresult (*read_memory)(void *, CUdeviceptr, size_t, CUstream);

static CUresult (*copy_box)(const CUDA_MEMCPY3D *, CUstream);

static CUresult take_readable(size_t bytes)
{
    size_t left = atomic_load(&readable);
    do {
        if (bytes > left)
            return CUDA_ERROR_INVALID_VALUE;
    } while (!atomic_compare_exchange_weak(&readable, &left, left - bytes));
    return CUDA_SUCCESS;
}

static CUresult read_some(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    CUresult result = take_readable(bytes);
    return result ? result : read_memory(dst, src, bytes, stream);
}

static CUresult copy_some(const CUDA_MEMCPY3D *copy, CUstream stream)
{
    size_t bytes =
        copy->WidthInBytes * copy->Height * copy->Depth; /* no more than the staging memory */
    CUresult result =
        copy->dstMemoryType == CU_MEMORYTYPE_HOST ? take_readable(bytes) : CUDA_SUCCESS;
    return result ? result : copy_box(copy, stream);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    const char *set = getenv("GABLE_FUZZ_STRICT");
    strict = set && !strcmp(set, "1");
    if (!getenv("GABLE_LOG"))
        setenv("GABLE_LOG", "error", 1);
    gb_log_init("fuzz_session", GB_LOG_ERROR);
    px_null_driver(&cuda);
    modules.load = cuda.cuModuleLoadDataEx;
    modules.unload = cuda.cuModuleUnload;
    cuda.cuModuleLoadDataEx = load_module;
    cuda.cuModuleUnload = unload_module;
    read_memory = cuda.cuMemcpyDtoHAsync_v2;
    cuda.cuMemcpyDtoHAsync_v2 = read_some;
    copy_box = cuda.cuMemcpy3DAsync_v2;
    cuda.cuMemcpy3DAsync_v2 = copy_some;
    return 0;
}

/* ---- one input ---- */

static gb_status_t lookup(void *arg, uint64_t lease, gb_key_t *key)
{
    (void)arg;
    if (lease)
        return gb_fail(GB_ERR_NOT_FOUND, "no such lease");
    memset(key, 0, sizeof(*key));
    return GB_OK;
}

/* The client: sends frame after frame, and waits for a reply where a program waits for one, unless the
 * frame is marked with GB_FRAME_MORE, as no program's is. What comes is read at all times. */
typedef struct {
    int fd;
    const uint8_t *data;
    size_t size, sent, limit; /* up to `limit` may be sent now */
    px_peers_t *peers;
    int waits, answered; /* answered: to the preamble */
    px_wire_pair_t pair; /* what the session has been told to expect */
    int expects;
    uint32_t sequence; /* for whose reply it waits */
    uint8_t head[GB_FRAME_HEADER];
    size_t head_got, skip;   /* of what comes; skip: bytes without a meaning here */
    uint64_t received, told; /* of the session's stream, bytes */
} client_t;

static int has_reply(uint16_t operation)
{
    switch (operation) {
    case PX_OP_HELLO:
    case PX_OP_WINDOW:
    case PX_OP_FUNCTION:
    case PX_OP_EXCHANGE_CALL:
    case PX_OP_GRAPH_FETCH:
    case PX_OP_LINK_READ:
    case PX_OP_SHARED_MAP:
    case PX_OP_SHARED_DOWN:
    case PX_OP_BOX_DOWN:
    case PX_OP_PEER_EXPECT:
    case PX_OP_PEER_DIAL:
    case PX_OP_PEER_SETTLE:
        return 1;
    default:
        return operation < GB_OP_CALL_END && px_calls[operation].run && !px_calls[operation].queued;
    }
}

/* The next frame may go; 0 = that was all. What is no frame goes as a whole. */
static int go_on(client_t *c)
{
    gb_frame_t frame;
    size_t left = c->size - c->limit;
    if (!left)
        return 0;
    if (c->limit == 0 && left > GB_PREAMBLE_SIZE) {
        c->limit = GB_PREAMBLE_SIZE;
        return 1;
    }
    if (left < GB_FRAME_HEADER ||
        gb_frame_decode(c->data + c->limit, PX_WIRE_MAX, &frame) != GB_OK ||
        frame.length > left - GB_FRAME_HEADER) {
        c->limit = c->size;
        return 1;
    }
    c->limit += GB_FRAME_HEADER + frame.length;
    c->waits = has_reply(frame.operation) && !(frame.flags & GB_FRAME_MORE);
    c->sequence = frame.sequence;
    c->expects = frame.operation == PX_OP_PEER_EXPECT && frame.length >= sizeof(c->pair);
    if (c->expects)
        memcpy(&c->pair, c->data + c->limit - frame.length, sizeof(c->pair));
    return 1;
}

/* The other session comes, proves itself, and is lost: so transfers that wait for it end. */
static void come_and_go(client_t *c)
{
    gb_link_t *link;
    gb_key_t secret;
    int ends[2];
    uint64_t deadline = gb_now_ns() + WAIT_SECONDS * 1000000000ull;
    gb_preamble_t facts = {.service = GB_SERVICE_PEER, .connection = c->pair.peer << 16};
    static const gb_key_t none;
    memcpy(secret.bytes, c->pair.secret, sizeof(secret.bytes));
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        abort();
    px_peers_offer(c->peers, ends[0], &facts, &none);
    if (gb_link_adopt(ends[1], &facts, &none, deadline, &link) != GB_OK)
        abort();
    (void)px_peer_introduce(link, &secret, 0, deadline);
    gb_link_close(link);
}

static void take(client_t *c, const uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        size_t n = c->skip < size - at ? c->skip : size - at;
        at += n;
        c->skip -= n;
        c->received += c->answered ? n : 0;
        if (c->skip)
            return;
        c->answered = 1;
        n = sizeof(c->head) - c->head_got < size - at ? sizeof(c->head) - c->head_got : size - at;
        memcpy(c->head + c->head_got, bytes + at, n);
        at += n;
        c->head_got += n;
        c->received += n;
        if (c->head_got < sizeof(c->head))
            return;
        gb_frame_t frame;
        if (gb_frame_decode(c->head, PX_WIRE_MAX, &frame) != GB_OK)
            abort(); /* a session sends sense */
        c->head_got = 0;
        c->skip = frame.length;
        if ((frame.flags & GB_FRAME_REPLY) && !(frame.flags & GB_FRAME_MORE) &&
            frame.sequence == c->sequence)
            c->waits = 0;
    }
}

/* A session that can go on after a cut keeps what it has sent until the client has told that it is there. */
static void acknowledge(client_t *c)
{
    uint8_t frame[GB_FRAME_HEADER + sizeof(c->received)];
    const gb_frame_t head = {.length = sizeof(c->received), .operation = GB_OP_ACK};
    if (c->received - c->told < GB_DURABLE_ACK_EVERY || c->sent < c->limit)
        return;
    gb_frame_encode(&head, frame);
    memcpy(frame + GB_FRAME_HEADER, &c->received, sizeof(c->received));
    if (send(c->fd, frame, sizeof(frame), MSG_NOSIGNAL) == sizeof(frame))
        c->told = c->received;
}

static void *be_client(void *arg)
{
    static uint8_t bytes[64 << 10];
    client_t *c = arg;
    for (int open = 1;;) {
        if (c->expects && !c->waits && c->sent == c->limit) {
            c->expects = 0;
            come_and_go(c);
        }
        if (open && !c->waits && c->sent == c->limit && !go_on(c)) {
            shutdown(c->fd, SHUT_WR);
            open = 0;
        }
        struct pollfd p = {c->fd, (short)(POLLIN | (c->sent < c->limit ? POLLOUT : 0)), 0};
        (void)poll(&p, 1, -1);
        if (p.revents & POLLOUT) {
            ssize_t n =
                send(c->fd, c->data + c->sent, c->limit - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
            c->sent += n > 0 ? (size_t)n : 0;
        }
        if (p.revents & (POLLIN | POLLHUP | POLLERR)) {
            ssize_t n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
            if (n == 0 || (n < 0 && errno != EAGAIN))
                return NULL;
            take(c, bytes, n > 0 ? (size_t)n : 0);
            if (open)
                acknowledge(c);
        }
    }
}

/* The client does not come again. */
static gb_status_t stay_away(void *arg, uint64_t received, gb_link_t **link,
                             uint64_t *peer_received)
{
    (void)arg;
    (void)received;
    (void)link;
    (void)peer_received;
    return gb_fail(GB_ERR_LOST, "the client is gone");
}

static void serve(gb_link_t *link, px_peers_t *peers)
{
    gb_durable_t *stream;
    px_session_config_t config = {.driver = &cuda,
                                  .driver_name = "null",
                                  .timeout_ms = TIMEOUT_MS,
                                  .linger_ms = WAIT_SECONDS * 1000,
                                  .memory_quota = 8ull << 30,
                                  .peers = peers};
    if (gb_durable_create(link, stay_away, NULL, &stream))
        abort();
    atomic_store(&readable, READABLE);
    gb_status_t status = px_session_run(&config, stream);
    if (strict && status != GB_OK && status != GB_ERR_LOST) {
        fprintf(stderr, "the session ends with status %d\n", (int)status);
        abort();
    }
    gb_durable_free(stream);
    unload_modules();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int ends[2];
    gb_preamble_t facts;
    gb_link_t *link;
    pthread_t thread;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        abort();
    px_peers_t *peers;
    if (px_peers_create(TIMEOUT_MS, &peers))
        abort();
    client_t client = {
        .fd = ends[0], .peers = peers, .data = data, .size = size, .skip = GB_ANSWER_SIZE};
    if (pthread_create(&thread, NULL, be_client, &client))
        abort();
    uint64_t deadline = gb_now_ns() + WAIT_SECONDS * 1000000000ull;
    if (gb_link_accept(ends[1], deadline, GB_SERVICE_SESSION, 1, lookup, NULL, &facts, &link) ==
        GB_OK)
        serve(link, peers);
    else if (strict)
        abort();
    pthread_join(thread, NULL);
    close(ends[0]);
    px_peers_free(peers);
    return 0;
}

/* ---- mutations ---- */

typedef struct {
    size_t at, size; /* with the header */
} span_t;

static uint32_t state;

static uint32_t pick(uint32_t below)
{
    state = state * 1664525u + 1013904223u;
    return below ? (uint32_t)(((uint64_t)(state >> 8) * below) >> 24) : 0;
}

/* Whole frames behind the preamble; what follows the last one is left out. */
static int find_frames(const uint8_t *data, size_t size, span_t *out)
{
    int count = 0;
    for (size_t at = GB_PREAMBLE_SIZE; count < FRAMES && size >= at + GB_FRAME_HEADER;) {
        uint32_t length;
        memcpy(&length, data + at, sizeof(length));
        if (length > size - at - GB_FRAME_HEADER)
            break;
        out[count++] = (span_t){at, GB_FRAME_HEADER + length};
        at += GB_FRAME_HEADER + length;
    }
    return count;
}

static void seal(uint8_t *data)
{
    static const gb_key_t none;
    (void)gb_hmac(&none, data, GB_PREAMBLE_SIZE - GB_MAC_SIZE,
                  data + GB_PREAMBLE_SIZE - GB_MAC_SIZE);
}

/* Makes `size` bytes at `at` to `wanted`; 0 = no room. What is new is zero. */
static int resize(uint8_t *data, size_t *size, size_t max, size_t at, size_t old, size_t wanted)
{
    if (*size - old + wanted > max)
        return 0;
    memmove(data + at + wanted, data + at + old, *size - at - old);
    if (wanted > old)
        memset(data + at + old, 0, wanted - old);
    *size = *size - old + wanted;
    return 1;
}

static void change_payload(uint8_t *data, size_t *size, size_t max, span_t f)
{
    uint8_t bytes[4096];
    size_t old = f.size - GB_FRAME_HEADER, at = f.at + GB_FRAME_HEADER;
    if (old > sizeof(bytes) - 64)
        return;
    memcpy(bytes, data + at, old);
    size_t wanted = LLVMFuzzerMutate(bytes, old, old + 64);
    if (pick(16)) /* else its length is none that a session takes */
        while (wanted & 7)
            bytes[wanted++] = 0;
    if (!resize(data, size, max, at, old, wanted))
        return;
    memcpy(data + at, bytes, wanted);
    uint32_t length = (uint32_t)wanted;
    memcpy(data + f.at, &length, sizeof(length));
}

/* A word of one frame becomes one of another, or a number with a meaning of its own. */
static void change_word(uint8_t *data, span_t f, span_t other)
{
    static const uint64_t numbers[] = {0,           1,          2,          16,
                                       17,          64,         0xffff,     0xffffffff,
                                       0x100000000, 1ull << 40, 1ull << 63, UINT64_MAX,
                                       (2 << 20),   0x7fffffff, 0x80000000, UINT64_MAX - 7};
    uint32_t to = (uint32_t)(f.size - GB_FRAME_HEADER) / 8;
    uint32_t from = (uint32_t)(other.size - GB_FRAME_HEADER) / 8;
    uint64_t word = numbers[pick(sizeof(numbers) / sizeof(numbers[0]))];
    size_t half = pick(2) ? 8 : 4;
    if (!to)
        return;
    if (from && pick(2))
        memcpy(&word, data + other.at + GB_FRAME_HEADER + (size_t)8 * pick(from), sizeof(word));
    memcpy(data + f.at + GB_FRAME_HEADER + (size_t)8 * pick(to) + (half == 4 ? 4 * pick(2) : 0),
           &word, half);
}

static void change_header(uint8_t *data, size_t *size, size_t max, span_t f)
{
    gb_frame_t h;
    static const uint32_t lengths[] = {0,          7,         8, PX_WIRE_MAX, PX_WIRE_MAX + 8,
                                       0x7fffffff, UINT32_MAX};
    if (gb_frame_decode(data + f.at, UINT32_MAX, &h) != GB_OK)
        return;
    switch (pick(6)) {
    case 0:
        h.length = lengths[pick(sizeof(lengths) / sizeof(lengths[0]))];
        break;
    case 1: /* with what it needs at least */
        h.operation = (uint16_t)pick(GB_OP_CALL_END);
        if (h.length < px_calls[h.operation].args * 8u &&
            resize(data, size, max, f.at + f.size, 0, px_calls[h.operation].args * 8u - h.length))
            h.length = px_calls[h.operation].args * 8u;
        break;
    case 2:
        h.operation = (uint16_t)(PX_OP_HELLO + pick(PX_OP_END - PX_OP_HELLO));
        break;
    case 3:
        h.lane = pick(4) ? pick(3) : pick(1 << 24);
        break;
    case 4: /* the client does not wait for the reply */
        h.flags ^= GB_FRAME_MORE;
        break;
    default:
        LLVMFuzzerMutate(data + f.at, GB_FRAME_HEADER, GB_FRAME_HEADER);
        return;
    }
    gb_frame_encode(&h, data + f.at);
}

/* A copy of frame `f` stands in front of `to`. */
static void repeat(uint8_t *data, size_t *size, size_t max, span_t f, size_t to)
{
    uint8_t *copy = malloc(f.size);
    if (!copy)
        return;
    memcpy(copy, data + f.at, f.size);
    if (resize(data, size, max, to, 0, f.size))
        memcpy(data + to, copy, f.size);
    free(copy);
}

static void change_frames(uint8_t *data, size_t *size, size_t max, const span_t *frames, int count)
{
    span_t f = frames[pick((uint32_t)count)], other = frames[pick((uint32_t)count)];
    switch (pick(10)) {
    case 0:
    case 1:
        change_payload(data, size, max, f);
        break;
    case 2:
    case 3:
    case 4:
        change_word(data, f, other);
        break;
    case 5:
        change_header(data, size, max, f);
        break;
    case 6: /* dropped */
        (void)resize(data, size, max, f.at, f.size, 0);
        break;
    case 7: /* moved */
        repeat(data, size, max, f, other.at);
        if (other.at > f.at)
            (void)resize(data, size, max, f.at, f.size, 0);
        break;
    case 8:
        repeat(data, size, max, f, other.at);
        break;
    default: /* the connection ends in the middle of it */
        if (!pick(4))
            *size = f.at + pick((uint32_t)f.size);
        else
            change_payload(data, size, max, f);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    span_t frames[FRAMES];
    state = seed;
    int count = size < GB_PREAMBLE_SIZE ? 0 : find_frames(data, size, frames);
    if (!count || !pick(64))
        return LLVMFuzzerMutate(data, size, max);
    if (!pick(64))
        LLVMFuzzerMutate(data, GB_PREAMBLE_SIZE, GB_PREAMBLE_SIZE);
    for (uint32_t n = 1 + pick(4); n && count; n--) {
        change_frames(data, &size, max, frames, count);
        count = find_frames(data, size, frames);
    }
    if (size >= GB_PREAMBLE_SIZE && pick(64))
        seal(data);
    return size;
}

/* The first frames of one program, then some of another's. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *one, size_t one_size, const uint8_t *two,
                                 size_t two_size, uint8_t *out, size_t max, unsigned seed)
{
    span_t a[FRAMES], b[FRAMES];
    state = seed;
    int count = one_size < GB_PREAMBLE_SIZE ? 0 : find_frames(one, one_size, a);
    int others = two_size < GB_PREAMBLE_SIZE ? 0 : find_frames(two, two_size, b);
    if (!count || !others)
        return 0;
    span_t last = a[pick((uint32_t)count)], first = b[pick((uint32_t)others)];
    size_t head = last.at + last.size, tail = two_size - first.at;
    if (head > max)
        return 0;
    tail = tail < max - head ? tail : max - head;
    memcpy(out, one, head);
    memcpy(out + head, two + first.at, tail);
    return head + tail;
}

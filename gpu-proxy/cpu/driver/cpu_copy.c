#include "gpu-proxy/cpu/driver/cpu_copy.h"

#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/driver/cpu_context.h"

enum {
    PIECE_BYTES = 1 << 20,
    INLINE_BYTES = 256 << 10,   /* done at once by the caller, if nothing is before it */
    STAGE_MAX_BYTES = 64 << 20, /* larger sources are not copied aside: the caller waits */
};

typedef struct {
    cpu_op_t op;
    cpu_box_t box;
    uint64_t chunks; /* per row */
    void *staged;    /* owned */
} copy_op_t;

typedef struct {
    cpu_op_t op;
    cpu_fill_t fill;
    uint64_t chunks;
} fill_op_t;

/* Pieces are numbered through rows, and through the chunks of a row. */
static uint64_t chunks_of(uint64_t width)
{
    return (width + PIECE_BYTES - 1) / PIECE_BYTES;
}

/* Short rows are taken several at a time. */
static uint64_t grain_of(uint64_t width)
{
    return width >= PIECE_BYTES ? 1 : (PIECE_BYTES + width - 1) / width;
}

/* Aligned words are written at once: a stream or a kernel may be waiting for one of them. */
static void copy_bytes(uint64_t dst, uint64_t src, uint64_t bytes)
{
    if (bytes == 4 && (dst | src) % 4 == 0) {
        uint32_t word = __atomic_load_n((const uint32_t *)src, __ATOMIC_ACQUIRE);
        __atomic_store_n((uint32_t *)dst, word, __ATOMIC_RELEASE);
    } else if (bytes == 8 && (dst | src) % 8 == 0) {
        uint64_t word = __atomic_load_n((const uint64_t *)src, __ATOMIC_ACQUIRE);
        __atomic_store_n((uint64_t *)dst, word, __ATOMIC_RELEASE);
    } else {
        memmove((void *)dst, (const void *)src, bytes);
    }
}

static void copy_piece(const cpu_box_t *box, uint64_t chunks, uint64_t piece)
{
    uint64_t row = piece / chunks, from = piece % chunks * PIECE_BYTES;
    uint64_t layer = row / box->height;
    row %= box->height;
    uint64_t bytes = box->width - from < PIECE_BYTES ? box->width - from : PIECE_BYTES;
    copy_bytes(box->dst + layer * box->dst_slice + row * box->dst_pitch + from,
               box->src + layer * box->src_slice + row * box->src_pitch + from, bytes);
}

static CUresult run_copy(cpu_op_t *op, cpu_seat_t *seat, uint64_t first, uint64_t count)
{
    const copy_op_t *copy = (const copy_op_t *)op;
    (void)seat;
    for (uint64_t i = 0; i < count; i++)
        copy_piece(&copy->box, copy->chunks, first + i);
    return CUDA_SUCCESS;
}

static void release_copy(cpu_op_t *op)
{
    copy_op_t *copy = (copy_op_t *)op;
    free(copy->staged);
    free(copy);
}

static const cpu_op_ops_t copy_ops = {.name = "copy", .run = run_copy, .release = release_copy};

/* Nothing that the stream would have to wait for is under way. */
static bool is_idle(const cpu_stream_t *stream)
{
    const cpu_lanes_t *lanes = stream->lanes;
    if (stream->flags & CU_STREAM_NON_BLOCKING)
        return cpu_stream_passed(stream, stream->submitted);
    return atomic_load_explicit(&lanes->busy_blocking, memory_order_acquire) == 0;
}

/* A contiguous snapshot of the source, which the box then reads. */
static void *stage(cpu_box_t *box)
{
    uint8_t *staged = malloc(box->width * box->height * box->depth);
    if (!staged)
        return NULL;
    uint8_t *to = staged;
    for (uint64_t layer = 0; layer < box->depth; layer++) {
        for (uint64_t row = 0; row < box->height; row++) {
            memcpy(to, (const void *)(box->src + layer * box->src_slice + row * box->src_pitch),
                   box->width);
            to += box->width;
        }
    }
    box->src = (uint64_t)staged;
    box->src_pitch = box->width;
    box->src_slice = box->width * box->height;
    return staged;
}

/* Rows that lie one behind the other are one long row. */
static cpu_box_t normalise(const cpu_box_t *box)
{
    cpu_box_t b = *box;
    if (b.height == 1) { /* layers are rows */
        b.height = b.depth;
        b.dst_pitch = b.dst_slice;
        b.src_pitch = b.src_slice;
        b.depth = 1;
    }
    if (b.dst_pitch == b.width && b.src_pitch == b.width &&
        (b.depth == 1 || (b.dst_slice == b.width * b.height && b.src_slice == b.dst_slice))) {
        b.width *= b.height * b.depth;
        b.height = b.depth = 1;
    }
    return b;
}

static CUresult copy(cpu_stream_t *stream, const cpu_box_t *box, cpu_copy_mode_t mode)
{
    if (!box->width || !box->height || !box->depth)
        return CUDA_SUCCESS;
    cpu_box_t b = normalise(box);
    uint64_t bytes = b.width * b.height * b.depth;
    if (bytes <= INLINE_BYTES && is_idle(stream)) {
        for (uint64_t row = 0; row < b.height * b.depth; row++)
            copy_piece(&b, 1, row);
        cpu_sched_memory_written();
        return CUDA_SUCCESS;
    }
    copy_op_t *op = malloc(sizeof(*op));
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->staged = NULL;
    if (mode == CPU_COPY_STAGED) {
        op->staged = bytes <= STAGE_MAX_BYTES ? stage(&b) : NULL;
        if (!op->staged)
            mode = CPU_COPY_WAIT;
    }
    op->box = b;
    op->chunks = chunks_of(b.width);
    cpu_op_init(&op->op, &copy_ops, op->chunks * b.height * b.depth, grain_of(b.width));
    uint64_t seq;
    CUresult result = cpu_sched_submit(stream, &op->op, &seq);
    if (result || mode != CPU_COPY_WAIT)
        return result;
    cpu_sched_wait(stream, seq);
    return cpu_context_state(stream->context);
}

CUresult cpu_copy(cpu_stream_t *stream, const cpu_box_t *box, cpu_copy_mode_t mode)
{
    CUresult result = copy(stream, box, mode);
    if (mode != CPU_COPY_ASYNC) /* a blocking call: what kernels have printed comes out */
        cpu_console_flush(&stream->context->console);
    return result;
}

static void fill_bytes(uint64_t at, uint64_t bytes, uint32_t value, unsigned element)
{
    uint8_t low = (uint8_t)value;
    if (element == 4 && bytes == 4) {
        __atomic_store_n((uint32_t *)at, value, __ATOMIC_RELEASE);
    } else if (element == 1 || (element == 2 && (uint16_t)value == low * 0x101u) ||
               value == low * 0x01010101u) {
        memset((void *)at, low, bytes);
    } else if (element == 2) {
        for (uint16_t *p = (uint16_t *)at, *end = p + bytes / 2; p < end; p++)
            *p = (uint16_t)value;
    } else {
        for (uint32_t *p = (uint32_t *)at, *end = p + bytes / 4; p < end; p++)
            *p = value;
    }
}

static void fill_piece(const cpu_fill_t *fill, uint64_t chunks, uint64_t piece)
{
    uint64_t row = piece / chunks, from = piece % chunks * PIECE_BYTES;
    uint64_t bytes = fill->width - from < PIECE_BYTES ? fill->width - from : PIECE_BYTES;
    fill_bytes(fill->dst + row * fill->pitch + from, bytes, fill->value, fill->element);
}

static CUresult run_fill(cpu_op_t *op, cpu_seat_t *seat, uint64_t first, uint64_t count)
{
    const fill_op_t *fill = (const fill_op_t *)op;
    (void)seat;
    for (uint64_t i = 0; i < count; i++)
        fill_piece(&fill->fill, fill->chunks, first + i);
    return CUDA_SUCCESS;
}

static void release_fill(cpu_op_t *op)
{
    free(op);
}

static const cpu_op_ops_t fill_ops = {.name = "fill", .run = run_fill, .release = release_fill};

CUresult cpu_fill(cpu_stream_t *stream, const cpu_fill_t *fill, bool wait)
{
    cpu_fill_t f = *fill;
    if (!f.width || !f.height)
        return CUDA_SUCCESS;
    if (f.pitch == f.width) {
        f.width *= f.height;
        f.height = 1;
    }
    if (f.width * f.height <= INLINE_BYTES && is_idle(stream)) {
        for (uint64_t row = 0; row < f.height; row++)
            fill_piece(&f, 1, row);
        cpu_sched_memory_written();
        return CUDA_SUCCESS;
    }
    fill_op_t *op = malloc(sizeof(*op));
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->fill = f;
    op->chunks = chunks_of(f.width);
    cpu_op_init(&op->op, &fill_ops, op->chunks * f.height, grain_of(f.width));
    uint64_t seq;
    CUresult result = cpu_sched_submit(stream, &op->op, &seq);
    if (result || !wait)
        return result;
    cpu_sched_wait(stream, seq);
    return cpu_context_state(stream->context);
}

/* A box goes over the wire packed: rows without gaps, in pieces of whole rows where a row fits. The session
 * copies pieces between its staging memory and the device as boxes; here rows are gathered and scattered. */
#include "gpu-proxy/client/rc_box.h"

#include <stdlib.h>
#include <string.h>

#include "common/cuda/gb_cuda_shape.h"
#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_array.h"
#include "gpu-proxy/client/rc_down.h"
#include "gpu-proxy/client/rc_peer.h"
#include "gpu-proxy/client/rc_shared.h"

enum { BAND = 4 << 20 }; /* bytes that wait here on their way between two sessions or into rows */

/* ---- describing ---- */

/* Whole texels inside the array. */
static CUresult place_in_array(rc_side_t *side, CUarray handle, const rc_box_t *box)
{
    side->array = rc_object_get(RC_ARRAY, handle);
    if (!side->array)
        return CUDA_ERROR_INVALID_HANDLE;
    side->context = side->array->context;
    side->session = side->array->session;
    const CUDA_ARRAY3D_DESCRIPTOR *d = &side->array->array.descriptor;
    uint64_t texel = gb_texel_bytes(d->Format, d->NumChannels);
    uint64_t row = d->Width * texel, height = d->Height ? d->Height : 1;
    uint64_t depth = d->Depth ? d->Depth : 1;
    if (texel == 0) /* a format that only the driver knows */
        return CUDA_SUCCESS;
    int inside = side->x % texel == 0 && box->width % texel == 0 && side->x <= row &&
                 box->width <= row - side->x && side->y <= height &&
                 box->height <= height - side->y && side->z <= depth &&
                 box->depth <= depth - side->z;
    return inside ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Device memory must hold the whole side; addresses of unknown memory are the host's. */
static CUresult place_in_memory(rc_side_t *side, CUmemorytype type, const rc_box_t *box)
{
    uint64_t base = type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)side->host : side->device;
    uint64_t slice = side->pitch * side->height;
    uint64_t first = base + side->z * slice + side->y * side->pitch + side->x;
    uint64_t end = first + (box->depth - 1) * slice + (box->height - 1) * side->pitch + box->width;
    rc_block_t block;
    if (!base || end < first)
        return CUDA_ERROR_INVALID_VALUE;
    side->x = side->y = side->z = 0;
    side->host = NULL;
    side->device = 0;
    int known = rc_block_find(first, &block) && block.kind != RC_BLOCK_REGISTERED;
    if (known && block.kind == RC_BLOCK_HOST && type == CU_MEMORYTYPE_DEVICE) {
        CUresult result = rc_shared_open(first);
        if (result)
            return result;
    }
    /* Page-locked memory is copied like any other until kernels may write it. */
    int device = known && (block.kind != RC_BLOCK_HOST || rc_shared_is_open(first));
    if (type == CU_MEMORYTYPE_DEVICE && !device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device) {
        side->host = (uint8_t *)(uintptr_t)first;
        return CUDA_SUCCESS;
    }
    if (end - first > block.range.size - (first - block.range.start) &&
        rc_block_reach(first, end - first) < end - first)
        return CUDA_ERROR_INVALID_VALUE;
    side->device = first;
    side->context = block.context ? block.context : rc_device_context(block.device);
    side->session = rc_block_session(&block);
    return side->context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult place(rc_side_t *side, CUmemorytype type, CUarray array, const rc_box_t *box)
{
    if (type == CU_MEMORYTYPE_ARRAY)
        return place_in_array(side, array, box);
    if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED)
        return CUDA_ERROR_INVALID_VALUE;
    return place_in_memory(side, type, box);
}

static int pitches_fit(const rc_side_t *side, CUmemorytype type, const rc_box_t *box)
{
    return type == CU_MEMORYTYPE_ARRAY ||
           ((box->height <= 1 || side->pitch >= box->width) && side->pitch <= (uint64_t)1 << 40 &&
            (box->depth <= 1 || side->height >= box->height));
}

CUresult rc_box_describe(const CUDA_MEMCPY3D *c, rc_box_t *out)
{
    if (!c || c->srcLOD || c->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;
    rc_box_t box = {.width = c->WidthInBytes, .height = c->Height, .depth = c->Depth};
    rc_side_t *dst = &box.dst, *src = &box.src;
    *dst = (rc_side_t){c->dstHost,  c->dstDevice, NULL, c->dstXInBytes, c->dstY, c->dstZ,
                       c->dstPitch, c->dstHeight, NULL};
    *src = (rc_side_t){.host = (uint8_t *)(uintptr_t)c->srcHost,
                       .device = c->srcDevice,
                       .x = c->srcXInBytes,
                       .y = c->srcY,
                       .z = c->srcZ,
                       .pitch = c->srcPitch,
                       .height = c->srcHeight};
    dst->pitch = dst->pitch ? dst->pitch : box.width + dst->x; /* 0 means "packed" */
    src->pitch = src->pitch ? src->pitch : box.width + src->x;
    dst->height = dst->height ? dst->height : box.height + dst->y;
    src->height = src->height ? src->height : box.height + src->y;
    *out = box;
    if (!box.width || !box.height || !box.depth)
        return CUDA_SUCCESS;
    if (!pitches_fit(dst, c->dstMemoryType, &box) || !pitches_fit(src, c->srcMemoryType, &box))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = place(dst, c->dstMemoryType, c->dstArray, &box);
    if (!result)
        result = place(src, c->srcMemoryType, c->srcArray, &box);
    if (!result)
        *out = box;
    return result;
}

CUDA_MEMCPY3D rc_box_row(uint64_t bytes)
{
    return (CUDA_MEMCPY3D){.WidthInBytes = bytes, .Height = 1, .Depth = 1};
}

/* ---- parts of a box ---- */

/* A part that is packed in one piece: some columns of one row, some rows of a slice, or some slices. */
typedef struct {
    uint64_t x, y, z;
    uint64_t width, height, depth;
} part_t;

/* The part at a position (in packed bytes) of at most `most` bytes. */
static part_t part_at(const rc_box_t *box, uint64_t position, uint64_t most)
{
    uint64_t slice = box->width * box->height;
    part_t p = {.z = position / slice, .width = box->width, .height = box->height, .depth = 1};
    uint64_t rest = position % slice;
    p.y = rest / box->width;
    p.x = rest % box->width;
    if (p.x || box->width > most) {
        p.width = box->width - p.x < most ? box->width - p.x : most;
        p.height = 1;
    } else if (p.y || slice > most) {
        uint64_t rows = most / box->width;
        p.height = box->height - p.y < rows ? box->height - p.y : rows;
    } else {
        uint64_t slices = most / slice;
        p.depth = box->depth - p.z < slices ? box->depth - p.z : slices;
    }
    return p;
}

static uint64_t part_bytes(const part_t *p)
{
    return p->width * p->height * p->depth;
}

static uint8_t *host_at(const rc_side_t *side, const part_t *p, uint64_t y, uint64_t z)
{
    return side->host + (p->z + z) * side->pitch * side->height + (p->y + y) * side->pitch + p->x;
}

/* Its rows lie in host memory without gaps. */
static int is_packed(const rc_side_t *side, const part_t *p)
{
    return (p->height == 1 || side->pitch == p->width) &&
           (p->depth == 1 || (side->height == p->height && side->pitch == p->width));
}

static void gather(const rc_side_t *side, const part_t *p, uint8_t *packed)
{
    for (uint64_t z = 0; z < p->depth; z++)
        for (uint64_t y = 0; y < p->height; y++, packed += p->width)
            memcpy(packed, host_at(side, p, y, z), p->width);
}

static void scatter(const rc_side_t *side, const part_t *p, const uint8_t *packed)
{
    for (uint64_t z = 0; z < p->depth; z++)
        for (uint64_t y = 0; y < p->height; y++, packed += p->width)
            memcpy(host_at(side, p, y, z), packed, p->width);
}

static px_wire_side_t wire_side(const rc_side_t *side, const part_t *p)
{
    px_wire_side_t wire = {.pitch = side->pitch, .height = side->height};
    if (side->array) {
        wire.array = side->array->number;
        wire.x = side->x + p->x;
        wire.y = side->y + p->y;
        wire.z = side->z + p->z;
    } else {
        wire.address = side->device + p->z * side->pitch * side->height + p->y * side->pitch + p->x;
    }
    return wire;
}

px_wire_side_t rc_box_wire(const rc_side_t *side)
{
    return wire_side(side, &(part_t){0, 0, 0, 0, 0, 0});
}

/* ---- between the host and one session ---- */

static CUresult send_up(rc_call_t *call, const rc_box_t *box, const part_t *p, uint64_t stream,
                        const uint8_t *packed)
{
    px_wire_box_t wire = {.dst = wire_side(&box->dst, p),
                          .width = p->width,
                          .height = p->height,
                          .depth = p->depth,
                          .stream = stream};
    uint64_t bytes = part_bytes(p);
    if (box->width * box->height * box->depth <= RC_SHARED_SEEN && !box->dst.array) {
        CUresult result = rc_shared_open_copied(wire.dst.address, packed, bytes);
        if (result)
            return result;
    }
    return bytes <= PX_WIRE_INLINE
               ? rc_post_bytes(call, PX_OP_BOX_UP, &wire, sizeof(wire), packed, bytes)
               : rc_post_bulk(call, PX_OP_BOX_UP, &wire, sizeof(wire), packed, bytes);
}

/* Host memory to the device; a copy of it is on its way when this returns. */
static CUresult up(rc_call_t *call, const rc_box_t *box, uint64_t stream)
{
    uint64_t total = box->width * box->height * box->depth;
    uint8_t *scratch = NULL;
    CUresult result = CUDA_SUCCESS;
    for (uint64_t done = 0; done < total && !result;) {
        part_t p = part_at(box, done, PX_WIRE_PIECE);
        const uint8_t *packed = host_at(&box->src, &p, 0, 0);
        if (!is_packed(&box->src, &p)) {
            scratch = scratch ? scratch : malloc(PX_WIRE_PIECE);
            if (!scratch)
                return CUDA_ERROR_OUT_OF_MEMORY;
            gather(&box->src, &p, scratch);
            packed = scratch;
        }
        result = send_up(call, box, &p, stream, packed);
        done += part_bytes(&p);
    }
    free(scratch);
    return result;
}

static CUresult ask_down(rc_call_t *call, const rc_box_t *box, const part_t *p, uint64_t stream,
                         uint8_t *packed)
{
    px_wire_box_t wire = {.src = wire_side(&box->src, p),
                          .width = p->width,
                          .height = p->height,
                          .depth = p->depth,
                          .stream = stream};
    rc_waiter_t waiter = {.dst = packed, .dst_size = part_bytes(p)};
    CUresult result = rc_ask_bytes(call, PX_OP_BOX_DOWN, &wire, sizeof(wire), NULL, 0, &waiter);
    rc_waiter_done(&waiter);
    return result;
}

/* What is on its way to a side that is the host's has come before the program, or another copy, goes on there. */
static void settle(const rc_side_t *side, const rc_box_t *box)
{
    if (side->host)
        rc_down_settle((uint64_t)(uintptr_t)side->host,
                       (box->depth - 1) * side->pitch * side->height +
                           (box->height - 1) * side->pitch + box->width);
}

/* To page-locked memory: later. */
static CUresult queue_down(rc_call_t *call, const rc_box_t *box, uint64_t stream, int *queued)
{
    px_wire_box_t wire = {.src = rc_box_wire(&box->src),
                          .width = box->width,
                          .height = box->height,
                          .depth = box->depth,
                          .stream = stream};
    rc_rows_t rows = {.to = box->dst.host,
                      .width = box->width,
                      .height = box->height,
                      .depth = box->depth,
                      .pitch = box->dst.pitch,
                      .slice = box->dst.pitch * box->dst.height};
    return rc_down_post_box(call, &wire, &rows, queued);
}

static CUresult down(rc_call_t *call, const rc_box_t *box, uint64_t stream)
{
    part_t whole = {0, 0, 0, box->width, box->height, box->depth};
    uint64_t total = part_bytes(&whole);
    if (is_packed(&box->dst, &whole))
        return ask_down(call, box, &whole, stream, box->dst.host);
    uint8_t *scratch = malloc(total < BAND ? total : BAND);
    if (!scratch)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = CUDA_SUCCESS;
    for (uint64_t done = 0; done < total && !result;) {
        part_t p = part_at(box, done, BAND);
        result = ask_down(call, box, &p, stream, scratch);
        if (!result)
            scatter(&box->dst, &p, scratch);
        done += part_bytes(&p);
    }
    free(scratch);
    return result;
}

/* ---- between two sessions ---- */

/* A call in a side's own context and its legacy default stream, for a side that is not at the stream's
 * session. */
static CUresult begin_there(rc_call_t *call, const rc_side_t *side)
{
    CUresult result = rc_begin(call);
    if (result)
        return result;
    call->context = side->context;
    call->session = side->session;
    call->owner = side->context;
    return atomic_load(&call->session->lost) ? RC_LOST : CUDA_SUCCESS;
}

/* Through the client: the stream's earlier work is done before the copy, and the copy before this returns: so
 * its order holds for every observer. */
static CUresult across(const rc_box_t *box, CUstream stream)
{
    rc_call_t from, to;
    CUresult result = cuStreamSynchronize(stream);
    if (!result)
        result = begin_there(&from, &box->src);
    if (!result)
        result = begin_there(&to, &box->dst);
    if (result)
        return result;
    uint64_t total = box->width * box->height * box->depth;
    uint8_t *scratch = malloc(total < BAND ? total : BAND);
    if (!scratch)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint64_t done = 0; done < total && !result;) {
        part_t p = part_at(box, done, BAND);
        result = ask_down(&from, box, &p, 0, scratch);
        rc_box_t rest = *box;
        rest.dst.x += p.x, rest.dst.y += p.y, rest.dst.z += p.z;
        rest.dst.device += p.z * box->dst.pitch * box->dst.height + p.y * box->dst.pitch + p.x;
        if (box->dst.array)
            rest.dst.device = 0;
        rest.width = p.width, rest.height = p.height, rest.depth = p.depth;
        rest.src = (rc_side_t){.host = scratch, .pitch = p.width, .height = p.height};
        if (!result)
            result = up(&to, &rest, 0);
        done += part_bytes(&p);
    }
    free(scratch);
    return result ? result : rc_ask(&to, GB_OP_cuCtxSynchronize, NULL, 0, NULL, 0);
}

/* ---- for callers ---- */

/* Host to host: after what the stream has to do before. */
static CUresult here(const rc_box_t *box, CUstream stream)
{
    CUresult result = cuStreamSynchronize(stream);
    for (uint64_t z = 0; z < box->depth && !result; z++)
        for (uint64_t y = 0; y < box->height; y++) {
            part_t row = {0, y, z, box->width, 1, 1};
            memmove(host_at(&box->dst, &row, 0, 0), host_at(&box->src, &row, 0, 0), box->width);
        }
    return result;
}

static CUresult within(rc_call_t *call, const rc_box_t *box, uint64_t stream)
{
    part_t whole = {0, 0, 0, box->width, box->height, box->depth};
    px_wire_box_t wire = {.dst = wire_side(&box->dst, &whole),
                          .src = wire_side(&box->src, &whole),
                          .width = box->width,
                          .height = box->height,
                          .depth = box->depth,
                          .stream = stream};
    return rc_post_bytes(call, GB_OP_cuMemcpy3DAsync_v2, &wire, sizeof(wire), NULL, 0);
}

/* Both sides are at one session, and the stream at another one. */
static CUresult together(const rc_box_t *box, CUstream stream)
{
    rc_call_t from, to;
    CUresult result = cuStreamSynchronize(stream);
    if (!result)
        result = begin_there(&from, &box->src);
    if (!result)
        result = begin_there(&to, &box->dst);
    if (!result && from.context != to.context)
        result = rc_ask(&from, GB_OP_cuCtxSynchronize, NULL, 0, NULL, 0);
    if (!result)
        result = within(&to, box, 0);
    return result ? result : rc_ask(&to, GB_OP_cuCtxSynchronize, NULL, 0, NULL, 0);
}

/* One side is the host's and the other is not at the stream's session. */
static CUresult elsewhere(const rc_box_t *box, CUstream stream)
{
    rc_call_t call;
    CUresult result = cuStreamSynchronize(stream);
    if (!result)
        result = begin_there(&call, box->src.host ? &box->dst : &box->src);
    if (result)
        return result;
    if (!box->src.host)
        return down(&call, box, 0);
    result = up(&call, box, 0);
    return result ? result : rc_ask(&call, GB_OP_cuCtxSynchronize, NULL, 0, NULL, 0);
}

CUresult rc_box_copy(const rc_box_t *box, CUstream stream, int may_queue)
{
    rc_call_t call;
    uint64_t wire;
    int queued = 0;
    rc_session_t *dst = box->dst.session, *src = box->src.session;
    CUresult result = rc_begin(&call);
    if (!result)
        result = rc_use_stream(&call, stream, &wire);
    if (result || !box->width || !box->height || !box->depth)
        return result;
    if (may_queue && !dst && src == call.session)
        result = queue_down(&call, box, wire, &queued);
    if (result || queued)
        return result;
    settle(&box->src, box);
    settle(&box->dst, box);
    if (!dst && !src)
        return here(box, stream);
    if (dst && src && dst == src && dst != call.session)
        return together(box, stream);
    if (dst && src && dst != src)
        return rc_peer_copy(box, stream, &result) ? result : across(box, stream);
    if ((dst ? dst : src) != call.session)
        return elsewhere(box, stream);
    if (dst && src)
        return within(&call, box, wire);
    return dst ? up(&call, box, wire) : down(&call, box, wire);
}

/* Copies of boxes between device memory, arrays, and the staging memory, where rows lie without gaps. */
#include "gpu-proxy/session/px_state.h"

static void set_src(px_call_t *call, CUDA_MEMCPY3D *copy, const px_wire_side_t *side)
{
    copy->srcMemoryType = side->array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE;
    copy->srcArray = side->array ? px_array(call, side->array) : NULL;
    copy->srcDevice = side->address;
    copy->srcXInBytes = side->x;
    copy->srcY = side->y;
    copy->srcZ = side->z;
    copy->srcPitch = side->array ? 0 : side->pitch;
    copy->srcHeight = side->array ? 0 : side->height;
}

static void set_dst(px_call_t *call, CUDA_MEMCPY3D *copy, const px_wire_side_t *side)
{
    copy->dstMemoryType = side->array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE;
    copy->dstArray = side->array ? px_array(call, side->array) : NULL;
    copy->dstDevice = side->address;
    copy->dstXInBytes = side->x;
    copy->dstY = side->y;
    copy->dstZ = side->z;
    copy->dstPitch = side->array ? 0 : side->pitch;
    copy->dstHeight = side->array ? 0 : side->height;
}

static CUDA_MEMCPY3D extent(const px_wire_box_t *box)
{
    return (CUDA_MEMCPY3D){.WidthInBytes = box->width, .Height = box->height, .Depth = box->depth};
}

/* Bytes of a box, or UINT64_MAX where the sizes make no sense. */
static uint64_t bytes_of(const px_wire_box_t *box)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(box->width, box->height, &bytes) ||
        __builtin_mul_overflow(bytes, box->depth, &bytes))
        return UINT64_MAX;
    return bytes;
}

/* px_wire_box_t: both sides are this session's */
CUresult px_do_cuMemcpy3DAsync_v2(px_call_t *call)
{
    const px_wire_box_t *box = (const void *)call->payload;
    CUDA_MEMCPY3D copy = extent(box);
    CUstream stream = px_stream(call, box->stream);
    set_src(call, &copy, &box->src);
    set_dst(call, &copy, &box->dst);
    return call->bad ? call->bad : call->cuda->cuMemcpy3DAsync_v2(&copy, stream);
}

/* px_wire_box_t, then the bytes, packed */
CUresult px_box_up(px_call_t *call)
{
    const px_wire_box_t *box = (const void *)call->payload;
    CUDA_MEMCPY3D copy = extent(box);
    CUstream stream = px_stream(call, box->stream);
    uint64_t bytes = bytes_of(box);
    set_dst(call, &copy, &box->dst);
    if (call->bad || !call->context)
        return call->bad ? call->bad : CUDA_ERROR_INVALID_CONTEXT;
    if (bytes > call->frame.length - sizeof(*box) || bytes > PX_WIRE_PIECE)
        return CUDA_ERROR_INVALID_VALUE;
    return px_staging_box(call->session->staging, call->context, stream, &copy,
                          call->payload + sizeof(*box), bytes);
}

/* Whole rows, or a part of one where a row is longer than a piece. */
typedef struct {
    uint64_t x, row;
    uint64_t width, rows;
} band_t;

/* Rows count over all slices; a band stays within its slice. */
static band_t band_at(const px_wire_box_t *box, uint64_t position)
{
    band_t b = {position % box->width, position / box->width, box->width, 1};
    if (box->width > PX_WIRE_PIECE) {
        b.width = box->width - b.x < PX_WIRE_PIECE ? box->width - b.x : PX_WIRE_PIECE;
        return b;
    }
    uint64_t left = box->height - b.row % box->height, most = PX_WIRE_PIECE / box->width;
    b.rows = left < most ? left : most;
    return b;
}

static CUresult fetch(px_call_t *call, const px_wire_box_t *box, const band_t *band,
                      CUstream stream, uint8_t *to)
{
    uint64_t y = band->row % box->height, z = band->row / box->height;
    px_wire_side_t side = box->src;
    if (side.array) {
        side.x += band->x;
        side.y += y;
        side.z += z;
    } else {
        side.address += z * side.pitch * side.height + y * side.pitch + band->x;
    }
    CUDA_MEMCPY3D copy = {.WidthInBytes = band->width, .Height = band->rows, .Depth = 1};
    set_src(call, &copy, &side);
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = to;
    copy.dstPitch = band->width;
    return call->bad ? call->bad : call->cuda->cuMemcpy3DAsync_v2(&copy, stream);
}

/* One half of the buffer is sent while the other is filled. */
static CUresult stream_down(px_call_t *call, const px_wire_box_t *box, CUstream stream,
                            uint8_t *buffer)
{
    const gb_cuda_table_t *cuda = call->cuda;
    CUevent events[2] = {NULL, NULL};
    band_t bands[2];
    uint64_t total = bytes_of(box), asked = 0, sent = 0, begun = 0, ended = 0;
    CUresult result = cuda->cuEventCreate(&events[0], CU_EVENT_DISABLE_TIMING);
    if (!result)
        result = cuda->cuEventCreate(&events[1], CU_EVENT_DISABLE_TIMING);
    while (!result && sent < total) {
        while (!result && asked < total && begun - ended < 2) {
            int half = begun++ & 1;
            bands[half] = band_at(box, asked);
            result = fetch(call, box, &bands[half], stream, buffer + half * PX_WIRE_PIECE);
            if (!result)
                result = cuda->cuEventRecord(events[half], stream);
            asked += bands[half].width * bands[half].rows;
        }
        int half = ended++ & 1;
        uint64_t size = bands[half].width * bands[half].rows;
        if (!result)
            result = cuda->cuEventSynchronize(events[half]);
        if (!result &&
            px_send_piece(call, sent, buffer + half * PX_WIRE_PIECE, (uint32_t)size) != GB_OK)
            result = CUDA_ERROR_UNKNOWN; /* nobody is there to read it: the session ends */
        sent += size;
    }
    for (int i = 0; i < 2; i++)
        if (events[i])
            cuda->cuEventDestroy_v2(events[i]);
    return result;
}

/* px_wire_box_t -> pieces, packed */
CUresult px_box_down(px_call_t *call)
{
    const px_wire_box_t *box = (const void *)call->payload;
    uint8_t *buffer;
    if (!call->may_block)
        return PX_WOULD_BLOCK;
    CUstream stream = px_stream(call, box->stream);
    if (call->bad)
        return call->bad;
    uint64_t bytes = bytes_of(box);
    if (bytes == 0 || bytes == UINT64_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = px_staging_borrow(call->session->staging, &buffer);
    if (result)
        return result;
    result = stream_down(call, box, stream, buffer);
    if (result)
        call->cuda->cuStreamSynchronize(stream); /* the other half may still be written */
    px_staging_return(call->session->staging, buffer);
    return result;
}

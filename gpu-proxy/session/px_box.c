/* Copies of boxes between device memory, arrays, and the staging memory, where rows lie without gaps. */
#include "gpu-proxy/session/px_box.h"

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

uint64_t px_box_bytes(const px_extent_t *extent)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(extent->width, extent->height, &bytes) ||
        __builtin_mul_overflow(bytes, extent->depth, &bytes))
        return UINT64_MAX;
    return bytes;
}

px_band_t px_box_band(const px_extent_t *extent, uint64_t position)
{
    px_band_t b = {position % extent->width, position / extent->width, extent->width, 1};
    if (extent->width > PX_WIRE_PIECE) {
        b.width = extent->width - b.x < PX_WIRE_PIECE ? extent->width - b.x : PX_WIRE_PIECE;
        return b;
    }
    uint64_t left = extent->height - b.row % extent->height;
    uint64_t most = PX_WIRE_PIECE / extent->width;
    b.rows = left < most ? left : most;
    return b;
}

px_extent_t px_box_extent(const px_wire_box_t *box)
{
    return (px_extent_t){box->width, box->height, box->depth};
}

static uint64_t bytes_of(const px_wire_box_t *box)
{
    px_extent_t extent = px_box_extent(box);
    return px_box_bytes(&extent);
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

CUresult px_box_fetch(px_call_t *call, const px_wire_box_t *box, const px_band_t *band,
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
    px_band_t bands[2];
    px_extent_t size = px_box_extent(box);
    uint64_t total = bytes_of(box), asked = 0, sent = 0, begun = 0, ended = 0;
    CUresult result = cuda->cuEventCreate(&events[0], CU_EVENT_DISABLE_TIMING);
    if (!result)
        result = cuda->cuEventCreate(&events[1], CU_EVENT_DISABLE_TIMING);
    while (!result && sent < total) {
        while (!result && asked < total && begun - ended < 2) {
            int half = begun++ & 1;
            bands[half] = px_box_band(&size, asked);
            result = px_box_fetch(call, box, &bands[half], stream, buffer + half * PX_WIRE_PIECE);
            if (!result)
                result = cuda->cuEventRecord(events[half], stream);
            asked += bands[half].width * bands[half].rows;
        }
        int half = ended++ & 1;
        uint64_t bytes = bands[half].width * bands[half].rows;
        if (!result)
            result = cuda->cuEventSynchronize(events[half]);
        if (!result && px_send_piece(call, sent, buffer + half * PX_WIRE_PIECE, (uint32_t)bytes,
                                     NULL) != GB_OK)
            result = CUDA_ERROR_UNKNOWN; /* nobody is there to read it: the session ends */
        sent += bytes;
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
    px_staging_return(call->session->staging, buffer, 0);
    return result;
}

/* Copies and fills. With unified addressing a pointer tells where it points; an explicit direction is
 * still checked by the driver call that it leads to. */
#include "gpu-proxy/runtime/rt_copy.h"

#include "gpu-proxy/runtime/rt_module.h"
#include "gpu-proxy/runtime/rt_state.h"

static CUdeviceptr device_ptr(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

int rt_copy_kind(enum cudaMemcpyKind kind, CUmemorytype *src, CUmemorytype *dst)
{
    switch (kind) {
    case cudaMemcpyHostToHost:
        *src = *dst = CU_MEMORYTYPE_HOST;
        return 0;
    case cudaMemcpyHostToDevice:
        *src = CU_MEMORYTYPE_HOST, *dst = CU_MEMORYTYPE_DEVICE;
        return 0;
    case cudaMemcpyDeviceToHost:
        *src = CU_MEMORYTYPE_DEVICE, *dst = CU_MEMORYTYPE_HOST;
        return 0;
    case cudaMemcpyDeviceToDevice:
        *src = *dst = CU_MEMORYTYPE_DEVICE;
        return 0;
    case cudaMemcpyDefault:
        *src = *dst = CU_MEMORYTYPE_UNIFIED;
        return 0;
    default:
        return cudaErrorInvalidMemcpyDirection;
    }
}

/* ---- one dimension ---- */

static CUresult copy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return rt_cu->cuMemcpyHtoD_v2(device_ptr(dst), src, count);
    case cudaMemcpyDeviceToHost:
        return rt_cu->cuMemcpyDtoH_v2(dst, device_ptr(src), count);
    case cudaMemcpyDeviceToDevice:
        return rt_cu->cuMemcpyDtoD_v2(device_ptr(dst), device_ptr(src), count);
    default:
        return rt_cu->cuMemcpy(device_ptr(dst), device_ptr(src), count);
    }
}

static CUresult copy_async(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                           CUstream stream)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return rt_cu->cuMemcpyHtoDAsync_v2(device_ptr(dst), src, count, stream);
    case cudaMemcpyDeviceToHost:
        return rt_cu->cuMemcpyDtoHAsync_v2(dst, device_ptr(src), count, stream);
    case cudaMemcpyDeviceToDevice:
        return rt_cu->cuMemcpyDtoDAsync_v2(device_ptr(dst), device_ptr(src), count, stream);
    default:
        return rt_cu->cuMemcpyAsync(device_ptr(dst), device_ptr(src), count, stream);
    }
}

static int check_kind(enum cudaMemcpyKind kind)
{
    CUmemorytype src, dst;
    return rt_copy_kind(kind, &src, &dst);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
    int error = rt_enter();
    if (!error)
        error = check_kind(kind);
    if (!error && count)
        error = (int)copy(dst, src, count, kind);
    return rt_result(error);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    int error = rt_enter();
    if (!error)
        error = check_kind(kind);
    if (!error && count)
        error = (int)copy_async(dst, src, count, kind, stream);
    return rt_result(error);
}

/* The part of a variable that a copy means. */
static int symbol_part(const void *symbol, size_t count, size_t offset, char **part)
{
    CUdeviceptr address;
    size_t bytes;
    int error = rt_enter();
    if (!error)
        error = rt_symbol_of(symbol, &address, &bytes);
    if (!error && (offset > bytes || count > bytes - offset))
        error = cudaErrorInvalidValue;
    if (!error)
        *part = (char *)(uintptr_t)address + offset;
    return error;
}

/* A variable lies on the device, so that host-to-host is no direction for it. */
static int symbol_kind(enum cudaMemcpyKind kind, enum cudaMemcpyKind wrong)
{
    return kind == cudaMemcpyHostToHost || kind == wrong ? cudaErrorInvalidMemcpyDirection
                                                         : check_kind(kind);
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
                               enum cudaMemcpyKind kind)
{
    char *part;
    int error = symbol_part(symbol, count, offset, &part);
    if (!error)
        error = symbol_kind(kind, cudaMemcpyDeviceToHost);
    if (!error && count)
        error = (int)copy(part, src, count, kind);
    return rt_result(error);
}

cudaError_t cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset,
                                 enum cudaMemcpyKind kind)
{
    char *part;
    int error = symbol_part(symbol, count, offset, &part);
    if (!error)
        error = symbol_kind(kind, cudaMemcpyHostToDevice);
    if (!error && count)
        error = (int)copy(dst, part, count, kind);
    return rt_result(error);
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count,
                                    size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    char *part;
    int error = symbol_part(symbol, count, offset, &part);
    if (!error)
        error = symbol_kind(kind, cudaMemcpyDeviceToHost);
    if (!error && count)
        error = (int)copy_async(part, src, count, kind, stream);
    return rt_result(error);
}

cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t stream)
{
    char *part;
    int error = symbol_part(symbol, count, offset, &part);
    if (!error)
        error = symbol_kind(kind, cudaMemcpyHostToDevice);
    if (!error && count)
        error = (int)copy_async(dst, part, count, kind, stream);
    return rt_result(error);
}

/* ---- between devices ---- */

static int peers(int dst, int src, CUcontext *to, CUcontext *from)
{
    int error = rt_enter();
    if (!error && (dst < 0 || dst >= rt_device_count() || src < 0 || src >= rt_device_count()))
        error = cudaErrorInvalidDevice;
    if (!error)
        error = rt_primary_context(dst, to);
    return error ? error : rt_primary_context(src, from);
}

cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count)
{
    CUcontext to, from;
    int error = peers(dstDevice, srcDevice, &to, &from);
    if (!error && count)
        error = (int)rt_cu->cuMemcpyPeer(device_ptr(dst), to, device_ptr(src), from, count);
    return rt_result(error);
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
                                size_t count, cudaStream_t stream)
{
    CUcontext to, from;
    int error = peers(dstDevice, srcDevice, &to, &from);
    if (!error && count)
        error = (int)rt_cu->cuMemcpyPeerAsync(device_ptr(dst), to, device_ptr(src), from, count,
                                              stream);
    return rt_result(error);
}

/* ---- two dimensions ---- */

/* One side of a copy: an array, or a pointer with a pitch. */
typedef struct {
    CUarray array;
    const void *ptr;
    size_t pitch;
    size_t x, y; /* bytes, rows */
    CUmemorytype type;
} side_t;

static CUDA_MEMCPY2D descriptor(const side_t *dst, const side_t *src, size_t width, size_t height)
{
    CUDA_MEMCPY2D c = {.srcXInBytes = src->x,
                       .srcY = src->y,
                       .srcMemoryType = src->array ? CU_MEMORYTYPE_ARRAY : src->type,
                       .srcArray = src->array,
                       .srcPitch = src->pitch,
                       .dstXInBytes = dst->x,
                       .dstY = dst->y,
                       .dstMemoryType = dst->array ? CU_MEMORYTYPE_ARRAY : dst->type,
                       .dstArray = dst->array,
                       .dstPitch = dst->pitch,
                       .WidthInBytes = width,
                       .Height = height};
    if (src->type == CU_MEMORYTYPE_HOST)
        c.srcHost = src->ptr;
    else
        c.srcDevice = device_ptr(src->ptr);
    if (dst->type == CU_MEMORYTYPE_HOST)
        c.dstHost = (void *)(uintptr_t)dst->ptr;
    else
        c.dstDevice = device_ptr(dst->ptr);
    return c;
}

/* `stream` NULL-able; `async`: return before it is done. */
static int copy_2d(side_t dst, side_t src, size_t width, size_t height, enum cudaMemcpyKind kind,
                   int async, cudaStream_t stream)
{
    int error = rt_enter();
    if (!error)
        error = rt_copy_kind(kind, &src.type, &dst.type);
    if (error || width == 0 || height == 0)
        return error;
    if ((!src.array && src.pitch < width) || (!dst.array && dst.pitch < width))
        return cudaErrorInvalidPitchValue;
    CUDA_MEMCPY2D c = descriptor(&dst, &src, width, height);
    return (int)(async ? rt_cu->cuMemcpy2DAsync_v2(&c, stream) : rt_cu->cuMemcpy2DUnaligned_v2(&c));
}

static side_t linear(const void *ptr, size_t pitch)
{
    return (side_t){.ptr = ptr, .pitch = pitch};
}

static side_t in_array(cudaArray_const_t array, size_t x, size_t y)
{
    return (side_t){.array = (CUarray)(uintptr_t)array, .x = x, .y = y};
}

cudaError_t cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                         size_t height, enum cudaMemcpyKind kind)
{
    return rt_result(
        copy_2d(linear(dst, dpitch), linear(src, spitch), width, height, kind, 0, NULL));
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    return rt_result(
        copy_2d(linear(dst, dpitch), linear(src, spitch), width, height, kind, 1, stream));
}

static int need_array(cudaArray_const_t array)
{
    return array ? 0 : cudaErrorInvalidResourceHandle;
}

cudaError_t cudaMemcpy2DToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
                                size_t spitch, size_t width, size_t height,
                                enum cudaMemcpyKind kind)
{
    int error = need_array(dst);
    return rt_result(error ? error
                           : copy_2d(in_array(dst, wOffset, hOffset), linear(src, spitch), width,
                                     height, kind, 0, NULL));
}

cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset,
                                     const void *src, size_t spitch, size_t width, size_t height,
                                     enum cudaMemcpyKind kind, cudaStream_t stream)
{
    int error = need_array(dst);
    return rt_result(error ? error
                           : copy_2d(in_array(dst, wOffset, hOffset), linear(src, spitch), width,
                                     height, kind, 1, stream));
}

cudaError_t cudaMemcpy2DFromArray(void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset,
                                  size_t hOffset, size_t width, size_t height,
                                  enum cudaMemcpyKind kind)
{
    int error = need_array(src);
    return rt_result(error ? error
                           : copy_2d(linear(dst, dpitch), in_array(src, wOffset, hOffset), width,
                                     height, kind, 0, NULL));
}

cudaError_t cudaMemcpy2DFromArrayAsync(void *dst, size_t dpitch, cudaArray_const_t src,
                                       size_t wOffset, size_t hOffset, size_t width, size_t height,
                                       enum cudaMemcpyKind kind, cudaStream_t stream)
{
    int error = need_array(src);
    return rt_result(error ? error
                           : copy_2d(linear(dst, dpitch), in_array(src, wOffset, hOffset), width,
                                     height, kind, 1, stream));
}

static cudaError_t array_to_array(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
                                  cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc,
                                  size_t width, size_t height, enum cudaMemcpyKind kind, int async,
                                  cudaStream_t stream)
{
    int error = need_array(dst) ? need_array(dst) : need_array(src);
    return rt_result(error ? error
                           : copy_2d(in_array(dst, wOffsetDst, hOffsetDst),
                                     in_array(src, wOffsetSrc, hOffsetSrc), width, height, kind,
                                     async, stream));
}

cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
                                     cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc,
                                     size_t width, size_t height, enum cudaMemcpyKind kind)
{
    return array_to_array(dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc, width, height,
                          kind, 0, NULL);
}

cudaError_t cudaMemcpy2DArrayToArray_ptds(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
                                          cudaArray_const_t src, size_t wOffsetSrc,
                                          size_t hOffsetSrc, size_t width, size_t height,
                                          enum cudaMemcpyKind kind)
{
    cudaError_t error = array_to_array(dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc,
                                       width, height, kind, 1, cudaStreamPerThread);
    return error ? error : cudaStreamSynchronize(cudaStreamPerThread);
}

/* ---- runs of bytes in arrays, which go on in the next row ---- */

typedef struct {
    side_t array; /* where it begins */
    int to_array;
    const char *bytes; /* the other side, packed */
    size_t count, row_bytes;
    enum cudaMemcpyKind kind;
    int async;
    cudaStream_t stream;
} run_t;

static int run_part(run_t *run, size_t width, size_t rows)
{
    side_t packed = linear(run->bytes, width);
    int error = run->to_array
                    ? copy_2d(run->array, packed, width, rows, run->kind, run->async, run->stream)
                    : copy_2d(packed, run->array, width, rows, run->kind, run->async, run->stream);
    run->bytes += width * rows;
    run->count -= width * rows;
    run->array.x += width;
    if (run->array.x == run->row_bytes) {
        run->array.x = 0;
        run->array.y += rows;
    }
    return error;
}

static int copy_run(run_t *run)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    size_t element;
    int error = need_array(run->array.array);
    if (!error)
        error = rt_enter();
    if (!error)
        error = rt_array_element(run->array.array, &element);
    if (!error)
        error = (int)rt_cu->cuArray3DGetDescriptor_v2(&d, run->array.array);
    if (error)
        return error;
    run->row_bytes = d.Width * element;
    while (!error && run->count) {
        size_t rest = run->row_bytes - run->array.x;
        if (run->array.x >= run->row_bytes)
            return cudaErrorInvalidValue;
        if (run->array.x || run->count < rest)
            error = run_part(run, run->count < rest ? run->count : rest, 1);
        else
            error = run_part(run, run->row_bytes, run->count / run->row_bytes);
    }
    return error;
}

cudaError_t cudaMemcpyToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
                              size_t count, enum cudaMemcpyKind kind)
{
    run_t run = {in_array(dst, wOffset, hOffset), 1, src, count, 0, kind, 0, NULL};
    return rt_result(copy_run(&run));
}

cudaError_t cudaMemcpyToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
                                   size_t count, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    run_t run = {in_array(dst, wOffset, hOffset), 1, src, count, 0, kind, 1, stream};
    return rt_result(copy_run(&run));
}

cudaError_t cudaMemcpyFromArray(void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset,
                                size_t count, enum cudaMemcpyKind kind)
{
    run_t run = {in_array(src, wOffset, hOffset), 0, dst, count, 0, kind, 0, NULL};
    return rt_result(copy_run(&run));
}

cudaError_t cudaMemcpyFromArrayAsync(void *dst, cudaArray_const_t src, size_t wOffset,
                                     size_t hOffset, size_t count, enum cudaMemcpyKind kind,
                                     cudaStream_t stream)
{
    run_t run = {in_array(src, wOffset, hOffset), 0, dst, count, 0, kind, 1, stream};
    return rt_result(copy_run(&run));
}

/* A run between arrays has the same offsets in whole rows, or fits one row of both. */
cudaError_t cudaMemcpyArrayToArray(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
                                   cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc,
                                   size_t count, enum cudaMemcpyKind kind)
{
    return array_to_array(dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc, count, 1, kind,
                          0, NULL);
}

cudaError_t cudaMemcpyArrayToArray_ptds(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
                                        cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc,
                                        size_t count, enum cudaMemcpyKind kind)
{
    cudaError_t error = array_to_array(dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc,
                                       count, 1, kind, 1, cudaStreamPerThread);
    return error ? error : cudaStreamSynchronize(cudaStreamPerThread);
}

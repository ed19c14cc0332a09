/* Entry points: many copies in one call, each made as one. Part of both of our libcuda.so.1. */
#include <stddef.h>

#include "common/cuda/gb_cuda_shape.h"
#include "gb_cuda_api.h"

/* The default stream takes no batches. */
static CUresult check_stream(CUstream stream)
{
    unsigned flags;
    CUresult result = cuStreamGetFlags(stream, &flags); /* also tells whether there is a context */
    return !result && (!stream || stream == CU_STREAM_LEGACY) ? CUDA_ERROR_INVALID_VALUE : result;
}

/* Attribute k holds from copy indexes[k] up to the next one's. */
static CUresult check_attributes(const CUmemcpyAttributes *attrs, const size_t *indexes,
                                 size_t count, size_t copies)
{
    if (!count || count > copies || !attrs || !indexes || indexes[0] != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (attrs[i].srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
            attrs[i].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY ||
            (i && (indexes[i] <= indexes[i - 1] || indexes[i] >= copies)))
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                               CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
                               CUstream hStream)
{
    CUresult result = check_stream(hStream);
    if (!result && (!count || !dsts || !srcs || !sizes))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = check_attributes(attrs, attrsIdxs, numAttrs, count);
    for (size_t i = 0; !result && i < count; i++)
        if (!dsts[i] || !srcs[i] || !sizes[i])
            result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; !result && i < count; i++)
        result = cuMemcpyAsync(dsts[i], srcs[i], sizes[i], hStream);
    return result;
}

/* One side of a box: lengths of pointers count elements of one byte. */
static CUresult read_operand(const CUmemcpy3DOperand *o, CUmemorytype *type, CUdeviceptr *device,
                             CUarray *array, size_t at[3], size_t *pitch, size_t *height)
{
    switch (o->type) {
    case CU_MEMCPY_OPERAND_TYPE_POINTER:
        *type = CU_MEMORYTYPE_UNIFIED;
        *device = o->op.ptr.ptr;
        *pitch = o->op.ptr.rowLength;
        *height = o->op.ptr.layerHeight;
        return CUDA_SUCCESS;
    case CU_MEMCPY_OPERAND_TYPE_ARRAY:
        *type = CU_MEMORYTYPE_ARRAY;
        *array = o->op.array.array;
        at[0] = o->op.array.offset.x;
        at[1] = o->op.array.offset.y;
        at[2] = o->op.array.offset.z;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Offsets and extents count elements of the array that takes part. */
static CUresult element_of(const CUmemcpy3DOperand *o, size_t *bytes)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    if (o->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
        return CUDA_SUCCESS;
    CUresult result = cuArray3DGetDescriptor_v2(&d, o->op.array.array);
    if (result)
        return result;
    *bytes = gb_texel_bytes(d.Format, d.NumChannels);
    return *bytes ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult copy_one(const CUDA_MEMCPY3D_BATCH_OP *op, CUstream stream)
{
    size_t element = 1, from[3] = {0}, to[3] = {0};
    CUDA_MEMCPY3D c = {0};
    CUresult result = element_of(&op->src, &element);
    if (!result)
        result = element_of(&op->dst, &element);
    if (!result)
        result = read_operand(&op->src, &c.srcMemoryType, &c.srcDevice, &c.srcArray, from,
                              &c.srcPitch, &c.srcHeight);
    if (!result)
        result = read_operand(&op->dst, &c.dstMemoryType, &c.dstDevice, &c.dstArray, to,
                              &c.dstPitch, &c.dstHeight);
    if (result)
        return result;
    c.srcPitch *= element;
    c.dstPitch *= element;
    c.srcXInBytes = from[0] * element;
    c.srcY = from[1];
    c.srcZ = from[2];
    c.dstXInBytes = to[0] * element;
    c.dstY = to[1];
    c.dstZ = to[2];
    c.WidthInBytes = op->extent.width * element;
    c.Height = op->extent.height;
    c.Depth = op->extent.depth;
    return cuMemcpy3DAsync_v2(&c, stream);
}

CUresult cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                                 unsigned long long flags, CUstream hStream)
{
    CUresult result = check_stream(hStream);
    if (!result && (!numOps || !opList || flags))
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; !result && i < numOps; i++)
        result = copy_one(&opList[i], hStream);
    return result;
}

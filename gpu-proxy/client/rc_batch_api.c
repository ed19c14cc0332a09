/* Entry points: many copies or values in one call. */
#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_array.h"

/* The default stream takes no batches. */
CUresult rc_batch_stream(CUstream stream)
{
    rc_call_t call;
    uint64_t wire;
    CUresult result = rc_begin_in_context(&call);
    if (!result && (!stream || stream == CU_STREAM_LEGACY))
        result = CUDA_ERROR_INVALID_VALUE;
    return result ? result : rc_use_stream(&call, stream, &wire);
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
    CUresult result = rc_batch_stream(hStream);
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
    if (o->type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
        *type = CU_MEMORYTYPE_UNIFIED;
        *device = o->op.ptr.ptr;
        *pitch = o->op.ptr.rowLength;
        *height = o->op.ptr.layerHeight;
        return CUDA_SUCCESS;
    }
    if (o->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
        return CUDA_ERROR_INVALID_VALUE;
    *type = CU_MEMORYTYPE_ARRAY;
    *array = o->op.array.array;
    at[0] = o->op.array.offset.x;
    at[1] = o->op.array.offset.y;
    at[2] = o->op.array.offset.z;
    return CUDA_SUCCESS;
}

/* Offsets and extents count elements of the array that takes part. */
static CUresult element_of(const CUmemcpy3DOperand *o, size_t *bytes)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    if (o->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
        return CUDA_SUCCESS;
    CUresult result = cuArray3DGetDescriptor_v2(&d, o->op.array.array);
    if (!result)
        *bytes = rc_texel_bytes(d.Format, d.NumChannels);
    return !result && !*bytes ? CUDA_ERROR_NOT_SUPPORTED : result;
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
    CUresult result = rc_batch_stream(hStream);
    if (!result && (!numOps || !opList || flags))
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; !result && i < numOps; i++)
        result = copy_one(&opList[i], hStream);
    return result;
}

/* ---- values in memory ---- */

static CUresult value_one(CUstream stream, const CUstreamBatchMemOpParams *op)
{
    switch (op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return cuStreamWaitValue32_v2(stream, op->waitValue.address, op->waitValue.value,
                                      op->waitValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return cuStreamWaitValue64_v2(stream, op->waitValue.address, op->waitValue.value64,
                                      op->waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return cuStreamWriteValue32_v2(stream, op->writeValue.address, op->writeValue.value,
                                       op->writeValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return cuStreamWriteValue64_v2(stream, op->writeValue.address, op->writeValue.value64,
                                       op->writeValue.flags);
    case CU_STREAM_MEM_OP_BARRIER: /* operations of a stream are ordered anyway */
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                               CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
    CUresult result = rc_check();
    if (!result && (!count || count > 256 || !paramArray || flags))
        result = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && !result; i++)
        result = value_one(stream, &paramArray[i]);
    return result;
}

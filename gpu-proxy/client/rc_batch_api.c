/* Entry points: many values in one call. */
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

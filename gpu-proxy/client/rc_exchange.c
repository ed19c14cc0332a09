/* The way from the exchange library to the engine in the session; see common/cuda/gb_exchange_abi.h. */
#include <string.h>

#include "common/cuda/gb_cuda_default.h"
#include "common/cuda/gb_exchange_abi.h"
#include "gpu-proxy/client/rc_call.h"

static CUresult exchange_call(uint32_t op, CUstream stream, const void *req, uint32_t req_len,
                              void *rsp, uint32_t rsp_cap, uint32_t *rsp_len, int flags)
{
    rc_call_t call;
    rc_waiter_t waiter = {0};
    uint64_t wire;
    int blocking = flags & GB_EXCHANGE_BLOCKING;
    CUresult result = rc_begin_in_context(&call);
    if (!result)
        result = rc_use_stream(&call, stream, &wire);
    if (!result && (req_len > GB_EXCHANGE_MAX_REQUEST || (req_len && !req) || (!blocking && rsp)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    px_wire_exchange_t x = {.op = op, .stream = (uint32_t)wire, .size = req_len};
    uint16_t frame = blocking ? PX_OP_EXCHANGE_CALL : PX_OP_EXCHANGE_POST;
    if (!blocking)
        return req_len <= PX_WIRE_INLINE ? rc_post_bytes(&call, frame, &x, sizeof(x), req, req_len)
                                         : rc_post_bulk(&call, frame, &x, sizeof(x), req, req_len);
    result = rc_ask_bytes(&call, frame, &x, sizeof(x), req, req_len, &waiter);
    if (!result && waiter.more_size > rsp_cap)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        if (waiter.more_size)
            memcpy(rsp, rc_waiter_bytes(&waiter), waiter.more_size);
        if (rsp_len)
            *rsp_len = waiter.more_size;
    }
    rc_waiter_done(&waiter);
    return result;
}

static const gb_exchange_table_t table = {sizeof(gb_exchange_table_t), 1, exchange_call};

const void *gb_cuda_own_export_table(const CUuuid *id)
{
    return memcmp(id, &gb_exchange_uuid, sizeof(*id)) == 0 ? &table : NULL;
}

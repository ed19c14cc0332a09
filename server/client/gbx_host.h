/* gbx_host.h - the exchange engine as the GPU's session hosts it.
 *
 * The worker's gbx_* calls arrive over the shim's exchange table (gb_exchange_abi.h) as opaque
 * requests; the session hands each to gbx_host_call with the CUDA context of the calling lane current
 * on this thread and the stream handle already translated. One host per session; it holds any number
 * of exchanges. */
#ifndef GBX_HOST_H
#define GBX_HOST_H

#include <stdint.h>

#include "common/core/gb_status.h"

struct gb_cuda_table;
struct CUstream_st;

typedef struct gbx_host gbx_host_t;

enum {
    GBX_HOST_MAX_REQUEST = 1 << 20, /* bytes; larger ones are refused */
    GBX_HOST_MAX_RESPONSE = 1 << 16,
};

/* `cuda` is the session's driver table and must outlive the host. */
gb_status_t gbx_host_create(const struct gb_cuda_table *cuda, gbx_host_t **out);

/* Runs one request. Returns a CUresult: 0, or 1 (a malformed request), 201 (no context), 400 (no such
 * exchange), 999 (the exchange failed; only for calls whose errors stick). Failures that the worker
 * can handle travel in the response instead, with CUresult 0.
 *
 * Operations for which gbx_host_op_blocks is 0 neither block nor allocate in steady state and have an
 * empty response: the dispatcher calls them itself, in program order. The others run on their lane's
 * own thread. Several lanes may call at once; calls on one exchange must not overlap except for
 * status and counters. `*rsp_len` is written on success and at most rsp_cap. */
int gbx_host_call(gbx_host_t *host, uint32_t op, struct CUstream_st *stream, const void *req,
                  uint32_t req_len, void *rsp, uint32_t rsp_cap, uint32_t *rsp_len);

/* 1 if the operation may block and has a response (the shim marks it BLOCKING). */
int gbx_host_op_blocks(uint32_t op);

/* Closes every exchange: releases waiting streams, tells the shards. Call it before the contexts go.
 * NULL is fine. */
void gbx_host_destroy(gbx_host_t *host);

#endif

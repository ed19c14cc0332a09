/* gbx_call.h - the worker's calls as bytes, for the way through the shim to the session.
 *
 * Each request begins with u32 GBX_CALL_VERSION and u64 id of the exchange (0 for OPEN). A blocking
 * call's response begins with u32 gb_status_t and a text (gb_why); what follows depends on the call and
 * is there with GB_OK only. */
#ifndef GBX_CALL_H
#define GBX_CALL_H

#include "common/frame/gb_frame.h"
#include "server/client/gbx.h"

enum { GBX_CALL_VERSION = 1 };

enum {
    GBX_CALL_OPEN = 1,  /* configuration -> u64 id */
    GBX_CALL_DECLARE,   /* u32 count, u32 flags, tensors */
    GBX_CALL_INIT,      /* stream -> u64 clock */
    GBX_CALL_PUSH,      /* u64 clock, u32 samples, u32 first, u32 count; not blocking */
    GBX_CALL_PULL,      /* u64 version, u32 first, u32 count; not blocking */
    GBX_CALL_PUSH_PULL, /* u64 clock, u32 samples; not blocking */
    GBX_CALL_FENCE,     /* not blocking */
    GBX_CALL_WAIT,      /* u32 timeout_ms */
    GBX_CALL_STATUS,    /* -> u32 poison, text, u64 clock, u32 generation, u32 in_flight */
    GBX_CALL_COUNTERS,  /* -> 6 x u64 */
    GBX_CALL_REOPEN,    /* configuration */
    GBX_CALL_CLOSE,
};

void gbx_call_begin(gb_writer_t *w, uint64_t id);
/* Returns the id; sets r->failed on a foreign version. */
uint64_t gbx_call_id(gb_reader_t *r);

void gbx_config_encode(gb_writer_t *w, const gbx_config_t *config);

/* A decoded configuration owns its arrays. */
typedef struct {
    gbx_config_t config;
    gbx_shard_t shards[GBX_MAX_SHARDS];
    char endpoints[GBX_MAX_SHARDS][304];
    char job[64];
} gbx_config_copy_t;
gb_status_t gbx_config_decode(gb_reader_t *r, gbx_config_copy_t *out);

void gbx_tensors_encode(gb_writer_t *w, const gbx_tensor_t *tensors, uint32_t count,
                        uint32_t flags);
/* *tensors and *names are freed by the caller. */
gb_status_t gbx_tensors_decode(gb_reader_t *r, gbx_tensor_t **tensors, char **names,
                               uint32_t *count, uint32_t *flags);

void gbx_state_encode(gb_writer_t *w, const gbx_state_t *state);
void gbx_state_decode(gb_reader_t *r, gbx_state_t *out);
void gbx_counters_encode(gb_writer_t *w, const gbx_counters_t *counters);
void gbx_counters_decode(gb_reader_t *r, gbx_counters_t *out);

#endif

/* gbx.h - exchange of gradients and weights between device buffers and the parameter shards.
 *
 * A worker declares its tensors once and from then on enqueues pushes (gradients to the shards) and
 * pulls (weights into device memory) on a CUDA stream, like kernel launches. Nothing here blocks the
 * caller but the calls that say so. The bytes move where the device is: in this process over the
 * local driver, or, if the loaded libcuda is Gable's shim, in the GPU's session (which runs the same
 * engine); gradients then never cross the worker's own link.
 *
 * Clocks: weights of version c have had c updates. A gradient computed on weights of version c is
 * pushed with clock c and helps to make version c + 1. gbx_push_pull(clock c) = push with clock c,
 * then pull of version c + 1: one bsp iteration.
 *
 * Stream order: work enqueued on `stream` before the call is done before buffers are read or
 * written; work enqueued after a pull runs once the weights are there. Gradient buffers may be
 * overwritten by work enqueued after the next pull or gbx_fence on the same stream. A pull leaves for
 * the shards when the stream comes to it, so pull the whole model at once rather than layer by layer.
 *
 * A cut connection to a shard that lives is repaired unseen: the exchange connects anew and sends
 * again what was under way, the shard takes nothing twice.
 *
 * Failure: when a shard is lost, the generation changes or the worker is evicted, the exchange is
 * poisoned: every stream that waits is released (what it computes then is worthless), every later
 * call returns an error, and gbx_status tells why. gbx_reopen starts afresh. Over the shim push, pull
 * and fence are queued like launches: what goes wrong with them shows in the next gbx_status or
 * blocking call, so look at gbx_status every now and then (it costs a round trip to the session).
 *
 * A gbx_t is used by one thread at a time; gbx_status, gbx_counters may be called from any thread.
 * The CUDA context that was current at gbx_open must be current in every call. */
#ifndef GBX_H
#define GBX_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"

struct gb_cuda_table; /* gb_cuda_table.h */
struct CUstream_st;

typedef struct gbx gbx_t;

enum {
    GBX_KEY_BYTES = 32,
    GBX_MAX_SHARDS = 64,
    GBX_MAX_TENSORS = 4096,
    GBX_MAX_DIMS = 8,
    GBX_MAX_NAME = 128,
    GBX_MAX_IN_FLIGHT = 1024, /* exchanges enqueued and not yet done; then GB_ERR_BUSY */
};

typedef struct {
    const char *endpoint;       /* "host:port" or "unix:PATH" of the shard's data port */
    uint8_t key[GBX_KEY_BYTES]; /* from the lease; all zero with lease 0 on an insecure shard */
} gbx_shard_t;

typedef struct {
    const gbx_shard_t *shards; /* same order on every worker */
    uint32_t shard_count;
    uint64_t lease;       /* lease id that the keys belong to */
    int insecure;         /* TCP without TLS (measuring only) */
    const char *job;      /* job name as told by JoinJob */
    uint32_t worker;      /* worker id as told by JoinJob */
    uint32_t generation;  /* of the job, as told by JoinJob or BeginEpoch */
    uint32_t silence_ms;  /* a shard silent for so long is lost; 0 = 15000 */
    uint32_t chunk_bytes; /* size of a chunk, same on every worker; 0 = 1 MiB; at most 4 MiB */
} gbx_config_t;

typedef struct {
    const char *name; /* unique within the model, e.g. "conv1.weight" */
    uint32_t dims;
    uint64_t shape[GBX_MAX_DIMS];
    uint64_t weights;   /* device pointer, fp32, C order, 4-byte aligned */
    uint64_t gradients; /* device pointer, same shape */
} gbx_tensor_t;

typedef enum {
    GBX_RUNNING = 0,
    GBX_LOST,       /* a shard is gone or was silent for silence_ms */
    GBX_GENERATION, /* the job goes on from a checkpoint: rejoin, gbx_reopen, gbx_init */
    GBX_EVICTED,    /* the shard no longer counts this worker as a member of the job */
    GBX_REFUSED,    /* wrong key, unknown job, model that differs from the other workers' */
    GBX_DEVICE,     /* CUDA failed under the exchange */
} gbx_poison_t;

typedef struct {
    gbx_poison_t poison;
    char why[224];       /* one line for people; "" while running */
    uint64_t clock;      /* newest version that a finished pull has brought to the device */
    uint32_t generation; /* newest generation seen from a shard */
    uint32_t in_flight;  /* exchanges enqueued and not done */
} gbx_state_t;

typedef struct {
    uint64_t shard_sent;     /* bytes sent to the shards by the engine, headers included */
    uint64_t shard_received; /* bytes received from them */
    uint64_t pushed;         /* gradient bytes pushed */
    uint64_t pulled;         /* weight bytes pulled */
    uint64_t pushes, pulls;  /* exchanges done */
    int remote;              /* 1 if the engine runs in the GPU's session */
} gbx_counters_t;

/* Flags of gbx_declare. */
enum {
    /* All weights lie in one allocation and all gradients in another, every tensor at the same
     * multiple of 256 bytes from the base of both, in declared order without other gaps: whole
     * chunks are then copied at once, gaps included. The fast way for small tensors. */
    GBX_SLAB = 1,
};

/* Opens an exchange: connects to every shard and starts its threads. Blocks for at most the silence
 * timeout. The strings and keys are copied; `cuda` must outlive the exchange.
 * GB_ERR_UNREACHABLE, GB_ERR_UNAUTHORISED, GB_ERR_NOT_FOUND (no such job), GB_ERR_CANCELLED (another
 * generation), GB_ERR_INVALID, GB_ERR_NO_MEMORY. */
gb_status_t gbx_open(const struct gb_cuda_table *cuda, const gbx_config_t *config, gbx_t **out);

/* Declares the model's tensors, once, in the order of the layers, identically on every worker. Pinned
 * staging is allocated here. Blocks until the shards agree; a model that differs from what the job's
 * other workers declared gives GB_ERR_INVALID. */
gb_status_t gbx_declare(gbx_t *gbx, const gbx_tensor_t *tensors, uint32_t count, uint32_t flags);

/* Agrees on the initial weights: the job's first worker gives those on its device, the others (and
 * all after a restore) get the job's into theirs. Blocks; work on `stream` before it is done first.
 * *clock is the version that the weights have now. A worker that begins its epoch at a later clock
 * pulls that version first. */
gb_status_t gbx_init(gbx_t *gbx, struct CUstream_st *stream, uint64_t *clock);

/* Enqueues gradients of tensors [first, first + count) computed on weights of version `clock` from
 * `samples` samples (the gradient is the mean over them). Push the last layers first for overlap
 * with the backward pass; a chunk leaves once all its tensors were pushed at that clock. Every tensor
 * is pushed once per clock. The shard's mean is sum(samples_i * gradient_i) / sum(samples_i). */
gb_status_t gbx_push(gbx_t *gbx, struct CUstream_st *stream, uint64_t clock, uint32_t samples,
                     uint32_t first, uint32_t count);

/* Enqueues a pull of tensors [first, first + count) at a version of at least `version`; later work on
 * `stream` waits for it. Tensors that share a chunk with them come along. */
gb_status_t gbx_pull(gbx_t *gbx, struct CUstream_st *stream, uint64_t version, uint32_t first,
                     uint32_t count);

/* Push of the whole model at `clock` and pull of version clock + 1, in one. */
gb_status_t gbx_push_pull(gbx_t *gbx, struct CUstream_st *stream, uint64_t clock, uint32_t samples);

/* Later work on `stream` waits until every push so far is with the shards. Only needed where no pull
 * follows a push. */
gb_status_t gbx_fence(gbx_t *gbx, struct CUstream_st *stream);

/* Blocks until everything enqueued so far is done (then GB_OK), the exchange is poisoned
 * (GB_ERR_LOST, GB_ERR_CANCELLED) or timeout_ms has passed (GB_ERR_TIMEOUT). */
gb_status_t gbx_wait(gbx_t *gbx, uint32_t timeout_ms);

/* Never blocks for the network; over the shim it costs one round trip to the session. */
gb_status_t gbx_status(gbx_t *gbx, gbx_state_t *out);
gb_status_t gbx_counters(gbx_t *gbx, gbx_counters_t *out);

/* After a poisoning: connects anew, with a new generation, shards or keys, keeping declared tensors,
 * device pointers and staging. Call gbx_init next. Blocks like gbx_open. */
gb_status_t gbx_reopen(gbx_t *gbx, const gbx_config_t *config);

/* Says goodbye to the shards (the worker leaves the job at once: a push whose sum is not made yet does
 * not count any more, so gbx_wait for the last pull first), stops the threads, frees everything.
 * Streams that wait are released. NULL is fine. */
void gbx_close(gbx_t *gbx);

#endif

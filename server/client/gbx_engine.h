/* gbx_engine.h - the exchange engine: device buffers of one context <-> the shards.
 *
 * Private to the room; gbx.h and gbx_host.h are what others use. The same calls as gbx.h, run in this
 * process over a driver table. Calls on one engine must not overlap, except status, counters and wait.
 *
 * Two threads per engine, each with a non-blocking stream of its own:
 *   sender    takes requests in order, has gradients copied out (after the request's event) into
 *             pinned staging, sends them
 *   receiver  takes replies in any order, has weights copied in, and as soon as the oldest requests are
 *             done writes the gate's value on its stream, which releases the program's stream
 * The caller only records an event, fills a slot of a ring and makes its stream wait for the gate:
 * no lock, no allocation, no waiting. A request is complete in the order of issue; the gate is one
 * 32-bit word of device memory that counts up. */
#ifndef GBX_ENGINE_H
#define GBX_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/core/gb_status.h"
#include "common/link/gb_link.h"
#include "gb_cuda_table.h"
#include "server/client/gbx.h"
#include "server/client/gbx_plan.h"
#include "server/client/gbx_wire.h"

enum { GBX_RING = GBX_MAX_IN_FLIGHT, GBX_STAGES = 4 };

typedef enum {
    GBX_REQ_PUSH,
    GBX_REQ_PULL,
    GBX_REQ_PUSH_PULL,
    GBX_REQ_FENCE,
    GBX_REQ_INIT
} gbx_kind_t;

typedef struct {
    gbx_kind_t kind;
    uint32_t samples;
    uint64_t clock;              /* of the gradient; of a pull: least version */
    uint32_t chunk_lo, chunk_hi; /* [lo, hi) */
    uint32_t gate;               /* value to write when complete; 0 = none */
    CUevent event;               /* recorded on the program's stream */
    CUevent passed;              /* recorded behind the wait for the gate */
    /* of the receiver */
    atomic_uint remaining; /* replies that are still to come */
    int entered;           /* the copy-in stream waits for the event already */
} gbx_request_t;

/* A connection to one owner thread of one shard. */
typedef struct {
    gb_link_t *link;
    uint32_t shard, owner;
    pthread_mutex_t send_lock; /* sender, pings and control frames */
} gbx_lane_t;

/* Consecutive values in device memory and in a chunk. */
typedef struct {
    uint64_t weights, gradients; /* device addresses */
    uint32_t chunk_at, values;
} gbx_segment_t;

typedef struct {
    uint32_t lane, values;
    uint32_t first_segment, segments;
} gbx_chunk_t;

/* Pinned host memory for one chunk. */
typedef struct {
    uint8_t *host;
    CUevent copied;
    int busy; /* a copy out of it may be under way: wait for `copied` before reuse */
} gbx_stage_t;

typedef struct gbx_engine {
    const gb_cuda_table_t *cuda;
    CUcontext context;
    gbx_config_t config; /* strings and shards are copies */

    gbx_lane_t lanes[GBX_MAX_LANES];
    uint32_t lane_count;
    uint32_t owners[GBX_MAX_SHARDS];
    atomic_uint generation; /* newest seen */

    /* the model; constant while the threads run */
    gbx_tensor_t *tensors; /* as declared; names are copies */
    uint32_t tensor_count, declare_flags;
    gbx_plan_t plan;
    gbx_chunk_t *chunks;
    gbx_segment_t *segments;
    uint32_t chunk_values; /* of the largest chunk */

    /* device objects */
    CUstream out_stream, in_stream;
    CUdeviceptr gate;
    gbx_stage_t out_stages[GBX_STAGES], in_stages[GBX_STAGES];
    uint32_t out_next, in_next;

    /* the ring */
    gbx_request_t ring[GBX_RING];
    atomic_uint head; /* enqueued; written by the caller */
    atomic_uint sent; /* taken by the sender */
    atomic_uint done; /* completed by the receiver, in order */
    uint32_t gate_issued;
    /* which tensors have been pushed at push_clock; the caller's */
    uint64_t push_clock;
    uint32_t push_open;   /* tensors still to push at push_clock; 0 = none begun */
    uint32_t *chunk_left; /* pieces still to push */
    uint8_t *tensor_pushed;

    /* threads */
    pthread_t sender, receiver;
    int running;
    atomic_int
        stop; /* 1: the sender ends; 2: the receiver too, after it has released every stream */
    atomic_int closing; /* goodbye is being said: an end of the connection is no cut */
    atomic_int sender_sleeps;
    int sender_wake, receiver_wake; /* eventfds */

    /* A cut connection: the sender stops, the receiver connects anew and sends again what is not done.
     * Each repair begins a new epoch; what the sender began in an older one it begins again. `cut`
     * and `epoch` change under `lock` (and so does `sent`), so that nothing falls between. */
    atomic_int cut;
    atomic_uint epoch;
    unsigned cut_done, barren; /* `done` at the last cut; cuts in a row without progress */

    /* state, control replies, waiters */
    atomic_int poison; /* gbx_poison_t */
    atomic_ullong clock, pushed, pulled, pushes, pulls, old_sent, old_received;
    atomic_int waiters;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char why[224];
    uint32_t mail_left; /* control replies that are waited for */
    uint16_t mail_operation;
    uint8_t mail[16]; /* payload of the last one */
} gbx_engine_t;

gb_status_t gbx_engine_open(const gb_cuda_table_t *cuda, const gbx_config_t *config,
                            gbx_engine_t **out);
gb_status_t gbx_engine_declare(gbx_engine_t *engine, const gbx_tensor_t *tensors, uint32_t count,
                               uint32_t flags);
gb_status_t gbx_engine_init(gbx_engine_t *engine, CUstream stream, uint64_t *clock);
gb_status_t gbx_engine_push(gbx_engine_t *engine, CUstream stream, uint64_t clock, uint32_t samples,
                            uint32_t first, uint32_t count);
gb_status_t gbx_engine_pull(gbx_engine_t *engine, CUstream stream, uint64_t version, uint32_t first,
                            uint32_t count);
gb_status_t gbx_engine_push_pull(gbx_engine_t *engine, CUstream stream, uint64_t clock,
                                 uint32_t samples);
gb_status_t gbx_engine_fence(gbx_engine_t *engine, CUstream stream);
gb_status_t gbx_engine_wait(gbx_engine_t *engine, uint32_t timeout_ms);
gb_status_t gbx_engine_status(gbx_engine_t *engine, gbx_state_t *out);
gb_status_t gbx_engine_counters(gbx_engine_t *engine, gbx_counters_t *out);
gb_status_t gbx_engine_reopen(gbx_engine_t *engine, const gbx_config_t *config);
void gbx_engine_close(gbx_engine_t *engine);

/* ---- between the files of the engine ---- */

/* Ends the exchange: the first reason stays. Any thread. */
void gbx_engine_poison(gbx_engine_t *engine, gbx_poison_t code, const char *why);
/* The status that stands for the poisoning, with the reason as gb_why(). */
gb_status_t gbx_engine_poisoned(gbx_engine_t *engine);
static inline int gbx_engine_bad(gbx_engine_t *engine)
{
    return atomic_load(&engine->poison) != GBX_RUNNING;
}
/* A connection went: both threads stop what they do, the receiver repairs. Any thread. */
void gbx_engine_cut(gbx_engine_t *engine);
/* 1 if the threads must not go on with a request: poisoned, or cut. */
static inline int gbx_engine_halted(gbx_engine_t *engine)
{
    return gbx_engine_bad(engine) || atomic_load(&engine->cut);
}
/* Poisons with GBX_DEVICE unless `result` is success; returns 1 if it is. */
int gbx_cuda_ok(gbx_engine_t *engine, CUresult result, const char *what);
void gbx_wake(int fd);

/* gbx_connect.c */
gb_status_t gbx_connect(gbx_engine_t *engine, uint64_t deadline);
void gbx_disconnect(gbx_engine_t *engine);
/* GB_ERR_LOST also if the lane is being replaced. */
gb_status_t gbx_lane_send(gbx_lane_t *lane, uint16_t operation, uint32_t sequence,
                          const gbx_chunk_head_t *head, const void *data, uint32_t size);
/* The same for the sender: GB_ERR_CANCELLED if there is a cut, or was one since `epoch`. */
gb_status_t gbx_lane_send_in(gbx_engine_t *engine, unsigned epoch, gbx_lane_t *lane,
                             uint16_t operation, uint32_t sequence, const gbx_chunk_head_t *head,
                             const void *data, uint32_t size);
/* Sends a control frame on `count` lanes from the first and waits for the replies. */
gb_status_t gbx_control(gbx_engine_t *engine, uint16_t operation, uint32_t count,
                        const void *payload, uint32_t size);

/* gbx_device.c */
/* Has a chunk's gradients (or weights) copied into the stage on `stream`; poisons on failure. */
int gbx_copy_out(gbx_engine_t *engine, CUstream stream, uint32_t chunk, int weights,
                 gbx_stage_t *stage);
/* The operation of a request's frames, and the head of one chunk of it. */
uint16_t gbx_request_operation(const gbx_request_t *request);
gbx_chunk_head_t gbx_request_head(const gbx_engine_t *engine, const gbx_request_t *request,
                                  uint32_t chunk);
gb_status_t gbx_device_open(gbx_engine_t *engine);
gb_status_t gbx_device_stage(gbx_engine_t *engine);
gb_status_t gbx_device_map(gbx_engine_t *engine);
/* Waits a little for what is under way; what is still in use by the device then is left to it. */
void gbx_device_close(gbx_engine_t *engine);

/* gbx_repair.c: the receiver's thread, while there is a cut. */
void gbx_repair(gbx_engine_t *engine);

/* gbx_sender.c, gbx_receiver.c */
void *gbx_sender_run(void *engine);
void *gbx_receiver_run(void *engine);

#endif

/* rc_state.h - the parts of the remote client (libcuda.so.1), for the files of this room.
 *
 * One state per process, because the CUDA interface has no other. After cuInit its devices and
 * sessions do not change. Locks, outer before inner: a session's send_lock, its recv_lock; the memory
 * lock and the handle lock are innermost and alone. */
#ifndef RC_STATE_H
#define RC_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/cuda/gb_cuda.h"
#include "common/cuda/gb_ranges.h"
#include "common/frame/gb_frame.h"
#include "common/lease/gb_lease.h"
#include "common/link/gb_durable.h"
#include "common/link/gb_link.h"
#include "gb_cuda_ops.h"
#include "proto/px_wire.h"

enum {
    RC_DEVICES = 64,
    RC_SESSIONS = 64,
    RC_LANES = 4096,
    RC_BATCH = 64 << 10,    /* capacity of a session's batch, bytes */
    RC_FLUSH_AT = 32 << 10, /* it is sent when it holds this much */
    RC_FLUSH_US = 50,       /* or when its first frame is this old */
};

/* What every call on a lost session returns, for ever. */
#define RC_LOST CUDA_ERROR_DEVICE_UNAVAILABLE

typedef struct rc_session rc_session_t;
typedef struct rc_object rc_object_t;

typedef enum {
    RC_NONE,
    RC_CONTEXT,
    RC_STREAM,
    RC_EVENT,
    RC_MODULE,
    RC_FUNCTION,
    RC_LIBRARY,
    RC_KERNEL,
    RC_GRAPH,
    RC_NODE,
    RC_EXEC,
    RC_USER,
    RC_ARRAY,
    RC_MIPMAP,
    RC_POOL,
    RC_PHYSICAL,
    RC_LINK
} rc_kind_t;

/* A device of the program. */
typedef struct {
    rc_session_t *session;
    uint32_t index; /* at the session */
    px_wire_device_t info;
    uint64_t window, window_size;
    pthread_mutex_t lock; /* of the primary context */
    rc_object_t *primary; /* NULL while nobody retains it */
    unsigned retains;
    unsigned flags;
    uint64_t peers_known, peers; /* bit per index at the session: asked, and kernels reach it */
} rc_device_t;

/* A kernel function as the session described it. */
typedef struct {
    uint32_t wire;
    uint32_t param_count;
    uint32_t param_bytes;
    struct {
        uint32_t offset, size;
    } *params;
    char *name;
    struct {
        uint64_t threads, shared; /* of a block; 0 = nothing known */
        uint64_t most;            /* such blocks that the device holds at once */
    } together;
    atomic_int attributes[PX_WIRE_FUNCTION_ATTRIBUTES];
    CUfunction handle;
} rc_function_t;

/* A module's functions; `complete` = these are all, no need to ask by name. */
typedef struct {
    rc_function_t **functions;
    uint32_t count, room;
    int complete;
    uint64_t *globals; /* addresses of variables that were asked for */
    uint32_t global_count;
    pthread_mutex_t lock;
} rc_module_t;

/* What the program says about a stream; kept and told. */
typedef struct {
    CUaccessPolicyWindow window;
    CUsynchronizationPolicy policy;
    CUlaunchMemSyncDomainMap domains;
    CUlaunchMemSyncDomain domain;
} rc_hints_t;

/* What a handle stands for. Slots are never given back to the system, so that a stale handle is found
 * out by its tag and nothing else is touched. */
struct rc_object {
    atomic_uint tag; /* upper half of the handle; 0 = free */
    uint32_t number; /* lower half, and the number on the wire */
    uint32_t generation;
    rc_kind_t kind;
    rc_session_t *session;
    rc_object_t *context; /* it belongs to; NULL for contexts, libraries, kernels */
    rc_object_t *next_free;
    union {
        struct {
            rc_device_t *device;
            int ordinal;
            int primary;
            unsigned flags;
            uint64_t id;
            atomic_int fault; /* CUresult that sticks */
            atomic_uint attached;
            _Atomic uint64_t peers; /* bit per device ordinal: access is enabled */
            atomic_int moves; /* memory of it or streams have had part in a transfer (rc_peer.h) */
            CUsharedconfig shared_config;
            rc_hints_t hints; /* of the default streams */
        } context_;
        struct {
            unsigned flags;
            int priority;
            uint64_t id;
            rc_hints_t hints;
        } stream;
        struct {
            unsigned flags;
            atomic_int recorded;
            struct rc_captured *captured; /* recorded in a captured stream (rc_capture.h) */
            /* of the last record, for memory that was freed before it (rc_pool.h) */
            _Atomic uint64_t mark, stream;
        } event;
        rc_module_t *module;
        struct {
            rc_function_t *function;
            rc_object_t *module;
        } function;
        struct rc_library *library;
        struct rc_kernel *kernel;
        struct rc_graph *graph;
        struct rc_node *node;
        struct rc_exec *exec;
        struct rc_user *user;
        struct {
            CUDA_ARRAY3D_DESCRIPTOR descriptor;
            int is_level; /* of a mipmapped array, which ends it */
        } array;
        struct rc_mipmap *mipmap;
        struct rc_pool *pool;
        struct rc_physical *physical;
        struct rc_link *link;
    };
};

/* The calling thread. */
typedef struct {
    uint32_t id;
    CUcontext *stack; /* of current contexts; the last is current */
    int depth, room;
    uint64_t sent[RC_SESSIONS]; /* context last told to each session, its handle; 0 = none */
    uint8_t used[RC_SESSIONS];  /* it has sent frames there */
    int in_host;                /* it runs a host function: no call is permitted */
} rc_lane_t;

/* A thread that waits for a reply. */
typedef struct rc_waiter {
    struct rc_waiter *next;
    uint32_t sequence;
    int done;
    int late;         /* the result is a fault of the context */
    int listens;      /* for no reply: rc_session_listen */
    uint64_t noticed; /* when the progress thread first saw it, ns; 0 = not yet */
    CUresult result;
    uint8_t *dst; /* of pieces */
    uint64_t dst_size;
    uint64_t small[16]; /* what follows the result, if it fits */
    void *more;         /* otherwise malloc'ed */
    uint32_t more_size;
    pthread_cond_t wake;
} rc_waiter_t;

struct rc_session {
    int number;
    char where[GB_ENDPOINT_TEXT];
    gb_durable_t *stream;
    gb_endpoint_t endpoint; /* for dialling again */
    gb_credential_t credential;
    atomic_int lost;
    int driver_version;
    uint32_t timeout_ms;      /* the session ends if it hears nothing for so long */
    _Atomic uint64_t flushed; /* when something was last sent, ns */

    pthread_mutex_t send_lock;
    uint8_t *batch;
    atomic_uint used; /* bytes in the batch */
    int timer;        /* of rc_progress.c, -1 = none; under send_lock as well: */
    int timer_runs;
    uint32_t sequence;

    pthread_mutex_t recv_lock;
    rc_waiter_t *waiters;
    int reading;          /* some thread receives */
    pthread_cond_t acked; /* something was acknowledged, or nobody reads */
    uint8_t *buffer;
    size_t start, end;
    struct rc_down *downs; /* copies under way (rc_down.h) */
    atomic_uint down_count;
    int late_copies; /* the session can do them */
    uint32_t down_token;
    uint8_t *down_sink; /* for bytes of those that were given up */
    uint8_t *rest_at;   /* where the rest of a piece goes that has not come yet, past the buffer */
    size_t rest, rest_pad;
    uint8_t *rows;      /* of a piece that is not complete, or not yet where its rows belong */
    uint32_t row_token; /* of the copy that it is of; rows of no other are on their way */
    uint64_t row_offset, row_size;

    /* Counts frames that make the device work, and how many of them were done at the last wait for all:
     * kept while memory is shared (rc_shared.h). */
    _Atomic uint64_t work, work_done;

    pthread_mutex_t hash_lock;
    uint8_t (*hashes)[PX_WIRE_HASH]; /* images that the session has */
    size_t hash_count;
};

typedef enum { RC_FRESH, RC_READY, RC_OVER, RC_FORKED } rc_phase_t;

typedef struct {
    atomic_int phase;
    pthread_mutex_t init_lock;
    rc_session_t *sessions[RC_SESSIONS];
    int session_count;
    rc_device_t devices[RC_DEVICES];
    int device_count;
    int driver_version;
    pthread_mutex_t memory_lock;
    gb_ranges_t memory; /* rc_block_t */
} rc_state_t;

extern rc_state_t rc;

/* ---- handles (rc_handle.c): thread-safe ---- */
rc_object_t *rc_object_new(rc_kind_t kind, rc_session_t *session, rc_object_t *context);
/* NULL if the handle is none of this kind. */
rc_object_t *rc_object_get(rc_kind_t kind, const void *handle);
void *rc_handle(const rc_object_t *object);
/* Ends the handle; 0 if another thread was first. The slot is not used again before rc_object_free. */
int rc_object_kill(rc_object_t *object);
void rc_object_free(rc_object_t *object);
void rc_module_free(rc_module_t *module);
/* The event's slot is about to be given back. */
void rc_capture_forget_event(rc_object_t *event);
/* The same for what is being linked. */
void rc_link_dropped(rc_object_t *object);
/* The executable graph's context is gone; its handle too. */
void rc_exec_dropped(rc_object_t *object);
void rc_mipmap_free(struct rc_mipmap *mipmap);
/* Kills and frees all objects that belong to the context. */
void rc_objects_drop(rc_object_t *context);

/* ---- lanes (rc_lane.c) ---- */
/* The calling thread's lane; NULL beyond RC_LANES threads. */
rc_lane_t *rc_lane(void);
CUresult rc_lane_push(rc_lane_t *lane, CUcontext context);
static inline CUcontext rc_lane_current(const rc_lane_t *lane)
{
    return lane->depth ? lane->stack[lane->depth - 1] : NULL;
}

/* ---- sessions (rc_session.c) ---- */
gb_status_t rc_session_open(const gb_endpoint_t *endpoint, const gb_credential_t *credential,
                            int number, rc_session_t **out);
void rc_session_lose(rc_session_t *session, const char *why);
/* Says goodbye; other threads may still be inside. */
void rc_session_end(rc_session_t *session);
/* Of a session that nobody else knows: one of a start that failed. */
void rc_session_free(rc_session_t *session);
/* Gives a sign of life if nothing was sent for a third of the timeout. */
void rc_session_ping(rc_session_t *session);
/* A session at which a call waits gives signs of life: loses it if there were none for the timeout. */
void rc_session_check_silence(rc_session_t *session);
/* Sends what there is, acknowledgements too. With send_lock held. */
void rc_session_flush(rc_session_t *session);
/* Queues a frame of one or two parts. It runs in `context`, NULL = as is. */
CUresult rc_send(rc_session_t *session, rc_lane_t *lane, const rc_object_t *context, uint16_t op,
                 const void *a, size_t a_size, const void *b, size_t b_size);
/* The same, sent at once without a copy of `b`: for bulk. */
CUresult rc_send_bulk(rc_session_t *session, rc_lane_t *lane, const rc_object_t *context,
                      uint16_t op, const void *a, size_t a_size, const void *b, size_t b_size);
/* The same without a copy of `b` for the case of a cut: it must stay until rc_settle(*until). */
CUresult rc_send_reference(rc_session_t *session, rc_lane_t *lane, const rc_object_t *context,
                           uint16_t op, const void *a, size_t a_size, const void *b, size_t b_size,
                           uint64_t *until);
/* Waits until the session has what was sent before `until`; GB_DURABLE_ACK_EVERY bytes must follow. */
CUresult rc_settle(rc_session_t *session, uint64_t until);
/* The same, and waits for the reply; the result is the call's, or RC_LOST. The caller has zeroed the
 * waiter but for dst and dst_size, and calls rc_waiter_done afterwards. */
CUresult rc_send_and_wait(rc_session_t *session, rc_lane_t *lane, const rc_object_t *context,
                          uint16_t op, const void *a, size_t a_size, const void *b, size_t b_size,
                          rc_waiter_t *waiter);
static inline const void *rc_waiter_bytes(const rc_waiter_t *w)
{
    return w->more ? w->more : (const void *)w->small;
}
void rc_waiter_done(rc_waiter_t *waiter);
/* Receives what comes, unless others do, until somebody stops it or the session is lost. */
void rc_session_listen(rc_session_t *session, rc_waiter_t *listener);
void rc_session_stop_listening(rc_session_t *session, rc_waiter_t *listener);
/* Starts the thread that flushes batches by time and notices lost peers (rc_progress.c); wakes it. */
gb_status_t rc_progress_start(void);
void rc_progress_arm(void);
/* With send_lock held: a batch has got its first frame; it has gone out. */
void rc_progress_queued(rc_session_t *session);
void rc_progress_sent(rc_session_t *session);
/* With rc.phase RC_OVER: waits until that thread has ended, but not for a dial that gets no answer. */
void rc_progress_stop(void);

/* ---- start and end (rc_init.c, rc_config.c) ---- */
CUresult rc_connect(void);
/* 0 if calls are allowed, else the CUDA error that says why not. */
CUresult rc_check(void);
rc_device_t *rc_device(CUdevice device);

/* ---- memory (rc_memory.c): thread-safe ---- */
typedef enum {
    RC_BLOCK_DEVICE = 1,
    RC_BLOCK_HOST = 2,
    RC_BLOCK_GLOBAL = 4,
    RC_BLOCK_MANAGED = 8,
    RC_BLOCK_REGISTERED = 16,
    RC_BLOCK_VIRTUAL = 32, /* mapped by the program: of no context; neighbours are one memory */
    RC_BLOCK_GRAPH = 64,   /* allocated by graphs (rc_graph_memory.h) */
    RC_BLOCK_MANAGED_VARIABLE = 128,
    RC_BLOCK_IMPORTED = 256 /* of another process (rc_ipc.h) */
} rc_block_kind_t;

typedef struct {
    gb_range_t range;
    rc_block_kind_t kind;
    rc_object_t *context;
    rc_device_t *device; /* NULL for host memory */
    unsigned flags;
    struct rc_arena *arena; /* of a memory pool; NULL: of none */
    uint64_t id;            /* unique in the process */
} rc_block_t;

static inline int rc_block_is_managed(const rc_block_t *block)
{
    return block->kind == RC_BLOCK_MANAGED || block->kind == RC_BLOCK_MANAGED_VARIABLE;
}

static inline rc_session_t *rc_block_session(const rc_block_t *block)
{
    return block->context ? block->context->session : block->device->session;
}

CUresult rc_block_add(rc_block_kind_t kind, uint64_t start, uint64_t size, rc_object_t *context,
                      unsigned flags);
/* The same for device memory of a pool. */
CUresult rc_block_add_to(struct rc_arena *arena, uint64_t start, uint64_t size,
                         rc_object_t *context);
/* A context of the device that calls may run in: the current one, else the primary one; or NULL. */
rc_object_t *rc_device_context(const rc_device_t *device);
/* A mapping of the program's. */
CUresult rc_block_add_virtual(uint64_t start, uint64_t size, rc_device_t *device);
/* How much device memory there is from the address on, up to `size`, in one block or in mappings side by
 * side on one device. */
uint64_t rc_block_reach(uint64_t address, uint64_t size);
/* Copies the block that holds `address`; 0 if none does. */
int rc_block_find(uint64_t address, rc_block_t *out);
/* 1 if a block has one of these bytes. */
int rc_block_overlaps(uint64_t start, uint64_t size);
/* Takes out the block of `kind` that starts there; 0 if there is none. */
int rc_block_take(rc_block_kind_t kind, uint64_t start, rc_block_t *out);
void rc_blocks_drop(rc_object_t *context);
/* Forgets the advice about managed memory (rc_hint_api.c). */
void rc_hints_drop(uint64_t start, uint64_t size);
/* A window for a device of the session, agreed with it. */
CUresult rc_window_agree(rc_session_t *session, rc_lane_t *lane, rc_device_t *device);
/* Reserves `size` bytes here: at *wish if that is not 0 and free (it becomes 0), else at the next free
 * place above `after` where a session has good chances to have the same addresses. 0: there is none. */
uint64_t rc_place(uint64_t size, uint64_t alignment, uint64_t *wish, uint64_t after);
/* 1 if the address can only be a device's: it lies in a window or in a known block of a device. */
int rc_is_device_address(uint64_t address);

#endif

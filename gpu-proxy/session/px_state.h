/* px_state.h - the parts of a session, for the files of this room.
 *
 * Threads: any number of workers, one of which is the dispatcher at a time. The dispatcher takes the
 * frames in the order of issue and executes them itself; before a call that may block it hands its
 * role to another worker and goes on as the caller's lane, alone. So everything that frames change is
 * changed by the dispatcher only; what lanes read besides is atomic or has a lock of its own. */
#ifndef PX_STATE_H
#define PX_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/frame/gb_frame.h"
#include "gb_cuda_ops.h"
#include "gpu-proxy/session/px_heap.h"
#include "gpu-proxy/session/px_session.h"
#include "gpu-proxy/session/px_staging.h"
#include "gpu-proxy/session/px_vmm.h"
#include "proto/px_wire.h"

typedef enum {
    PX_NONE,
    PX_CONTEXT,  /* handle: px_context_t */
    PX_STREAM,   /* CUstream */
    PX_EVENT,    /* CUevent */
    PX_MODULE,   /* px_module_t */
    PX_GRAPH,    /* px_graph_t */
    PX_PHYSICAL, /* px_physical_t */
    PX_LINK,     /* px_link_t */
    PX_ARRAY,    /* CUarray */
    PX_MIPMAP,   /* CUmipmappedArray */
    PX_FUNCTION  /* CUfunction, in a table of its own */
} px_kind_t;

typedef struct {
    _Atomic(void *) handle;
    atomic_uint kind;
    uint32_t context; /* number of the context it belongs to */
} px_object_t;

enum { PX_SEGMENT = 1024, PX_SEGMENTS = 4096, PX_LANES = 4096, PX_OUTPUTS = 8 };

/* Objects by number: segments are made when needed and never move. */
typedef struct {
    _Atomic(px_object_t *) segments[PX_SEGMENTS];
} px_table_t;

/* Never freed before the session, so that a lane may look at one that is being destroyed. */
typedef struct px_context {
    _Atomic(CUcontext) handle; /* NULL once destroyed */
    uint32_t number;
    int device; /* index of the session's device */
    int primary;
    atomic_int late;        /* CUresult of a queued call that failed; sticks */
    CUstream pages;         /* shared pages travel on it; NULL while there are none */
    struct px_gates *gates; /* of transfers between sessions; NULL while there were none */
} px_context_t;

typedef struct {
    int ordinal;           /* the driver's */
    px_account_t *account; /* for the heap */
    px_heap_t *heap;
    uint64_t granularity;
} px_device_slot_t;

/* A loaded module and the numbers of its functions. */
typedef struct {
    CUmodule handle;
    uint32_t *functions;
    uint32_t count, room;
} px_module_t;

/* An executable graph, also one that is still being described. */
typedef struct px_graph px_graph_t;
/* What is being linked. */
typedef struct px_link px_link_t;

/* The client's thread. Its own default stream is made when first used, one per context. */
typedef struct {
    uint32_t id;
    px_context_t *context;
    atomic_int busy; /* a blocking call is under way */
    struct {
        px_context_t *context;
        CUstream stream;
    } own[4];
    int own_count;
    uint8_t *image; /* of the next module load */
    uint64_t image_size, image_got;
} px_lane_t;

typedef struct px_session {
    const px_session_config_t *config;
    const gb_cuda_table_t *cuda;
    gb_durable_t *stream;

    /* cuLaunchHostFunc; where the driver can, functions of different streams do not wait for each other. */
    CUresult (*launch_host)(CUstream stream, CUhostFn function, void *data);

    px_device_slot_t *devices;
    int device_count;
    int greeted;

    px_table_t objects;
    px_table_t functions;
    atomic_uint next_function;
    struct px_image *images; /* seen, by hash */
    px_lane_t **lanes;
    px_staging_t *staging;
    px_vmm_t *vmm;
    px_context_t *contexts[256]; /* live ones */
    int context_count;
    atomic_uint context_epoch; /* changes when one is destroyed */
    struct gbx_host *exchange;
    struct px_downs *downs;      /* px_down.c */
    atomic_uint moved;           /* px_moved */
    struct px_shared *shared;    /* memory that the client has at the same addresses */
    pthread_mutex_t locker_lock; /* px_ipc.c: one asks the daemon at a time */
    struct px_left *left_events;
    pthread_mutex_t
        lock; /* contexts[], images, shared memory, events left and the exchange against lanes */

    /* received bytes: [start, end) of buffer; the dispatcher's */
    uint8_t *buffer;
    size_t start, end;

    pthread_mutex_t send_lock;
    uint32_t send_sequence;

    pthread_mutex_t host_lock; /* px_host.c */
    pthread_cond_t host_done;
    struct px_host_run *host_runs; /* the client is at them */
    uint64_t host_tickets;
    int host_over;

    pthread_mutex_t role_lock;
    pthread_cond_t role_free; /* an idle worker may become dispatcher */
    pthread_cond_t finished;
    int idle, dispatching, workers;
    /* Frames are being executed, by the dispatcher and by lanes: the client may wait for that. */
    atomic_int executing, lanes_inside;
    int over; /* the session ends with `status`, because of `why` */
    gb_status_t status;
    char why[256];
} px_session_t;

/* One call being executed. */
typedef struct {
    px_session_t *session;
    const gb_cuda_table_t *cuda;
    px_lane_t *lane;
    px_context_t *context; /* of the lane when the call was taken */
    gb_frame_t frame;
    const uint8_t *payload; /* frame.length bytes */
    size_t here;            /* of these have been received; all, but for large copies */
    const uint64_t *args;   /* the same, checked to hold what a generated call needs */
    CUresult bad;           /* set by look-ups that fail */
    int replied;            /* the reply has gone out with what it answers */
    int may_block;          /* runs as its lane: it may wait for the device */
    uint64_t out[PX_OUTPUTS];
    int outs;
    void *extra; /* further bytes of the reply, malloc'ed; after the outs */
    uint32_t extra_size;
} px_call_t;

typedef CUresult (*px_handler_t)(px_call_t *call);

/* What a handler returns instead of waiting while it may not: it is called again as its lane. */
#define PX_WOULD_BLOCK ((CUresult) - 1)

typedef struct {
    px_handler_t run;
    uint8_t args;     /* u64 arguments that the payload must hold at least */
    uint8_t queued;   /* no reply */
    uint8_t blocking; /* may return PX_WOULD_BLOCK */
} px_entry_t;

/* Generated from the catalogue, by operation; run is NULL for a number that is none. */
extern const px_entry_t px_calls[GB_OP_CALL_END];

/* What this thread has done with device memory is about to be told to the client, or to another session, and so to
 * whoever does something with it next: that thread may be of this process, and learns of it by way of others. */
static inline void px_moved(px_session_t *session)
{
    atomic_fetch_add_explicit(&session->moved, 1, memory_order_release);
}

static inline void px_see_moved(px_session_t *session)
{
    (void)atomic_load_explicit(&session->moved, memory_order_acquire);
}

/* ---- objects (px_objects.c) ---- */
px_object_t *px_table_at(px_table_t *table, uint32_t number, int make);
void *px_object_get(px_session_t *session, px_kind_t kind, uint64_t number);
CUresult px_object_put(px_call_t *call, px_kind_t kind, uint64_t number, void *handle);
/* Takes the object out; NULL if there is none of that kind. */
void *px_object_take(px_session_t *session, px_kind_t kind, uint64_t number);

/* Handles of a call's arguments; a failed look-up sets call->bad to CUDA_ERROR_INVALID_HANDLE. */
CUstream px_stream(px_call_t *call, uint64_t number);
CUevent px_event(px_call_t *call, uint64_t number);
CUfunction px_function(px_call_t *call, uint64_t number);
CUarray px_array(px_call_t *call, uint64_t number);
CUstream px_take_stream(px_call_t *call, uint64_t number);
CUevent px_take_event(px_call_t *call, uint64_t number);

px_lane_t *px_lane(px_session_t *session, uint32_t id);
void px_lane_end(px_session_t *session, px_lane_t *lane);

/* ---- sending (px_send.c): thread-safe ---- */
/* Acknowledges what was received, if that is due. */
gb_status_t px_send_ack(px_session_t *session);
/* A sign of life, unless somebody sends or there is no room. */
void px_send_ping(px_session_t *session);
gb_status_t px_send_reply(px_call_t *call, CUresult result);
/* A frame that answers no call. */
gb_status_t px_send_notice(px_session_t *session, uint16_t op, const struct iovec *parts,
                           int count);
/* With `until` the bytes are not copied where the stream keeps what it has sent: they must stay until it has
 * confirmed offset *until (0: they need not). */
gb_status_t px_send_piece(px_call_t *call, uint64_t offset, const void *data, uint32_t size,
                          uint64_t *until);
/* The last piece and the reply of success, at once; nothing else is to be answered. */
gb_status_t px_send_last_piece(px_call_t *call, uint64_t offset, const void *data, uint32_t size,
                               uint64_t *until);
/* A piece of a copy that no call waits for; waits for room. */
gb_status_t px_send_down(px_session_t *session, uint32_t token, uint64_t offset, const void *data,
                         uint32_t size);

/* ---- calls written by hand ---- */
CUresult px_hello(px_call_t *call);
CUresult px_window(px_call_t *call);
CUresult px_image_piece(px_call_t *call);
CUresult px_function_by_name(px_call_t *call);
CUresult px_exchange(px_call_t *call);
CUresult px_shared_map(px_call_t *call);
CUresult px_shared_unmap(px_call_t *call);
CUresult px_shared_up(px_call_t *call);
CUresult px_shared_down(px_call_t *call);
CUresult px_host_done(px_call_t *call);
CUresult px_down(px_call_t *call);
CUresult px_down_box(px_call_t *call);
CUresult px_box_up(px_call_t *call);
CUresult px_box_down(px_call_t *call);
CUresult px_peer_expect(px_call_t *call);
CUresult px_peer_dial(px_call_t *call);
CUresult px_peer_move(px_call_t *call);
CUresult px_peer_settle(px_call_t *call);
/* No transfer uses the context any more. */
void px_peer_leave(px_session_t *session, px_context_t *context);
/* The links are lost; 1 if none of their threads runs any more, which is waited for so many milliseconds. */
int px_peers_end(px_peers_t *peers, int ms);
/* A failure that nobody waits for sticks to the context. */
void px_context_stick(px_context_t *context, CUresult result, const char *what);
void px_exchange_end(px_session_t *session);
void px_images_free(px_session_t *session);
void px_module_forget(px_session_t *session, px_module_t *module);
CUresult px_graph_node(px_call_t *call);
CUresult px_graph_bytes(px_call_t *call);
CUresult px_graph_fetch(px_call_t *call);
CUresult px_link_read(px_call_t *call);
void px_link_forget(px_session_t *session, px_link_t *link);
/* Ends it at the driver, too. */
void px_graph_forget(px_session_t *session, px_graph_t *graph);
/* Ends those of contexts that the driver has ended: nothing runs there any more. */
void px_downs_sweep(px_session_t *session);
void px_downs_free(px_session_t *session);
void px_session_free(px_session_t *session);
/* Forgets the objects of a context that is about to be destroyed. */
void px_context_clear(px_session_t *session, px_context_t *context);
/* Copies to the client in pieces, in the order of the stream; PX_WOULD_BLOCK. */
CUresult px_copy_down(px_call_t *call, const px_wire_copy_t *copy, CUstream stream);
/* Device memory that the client has, bytes. */
uint64_t px_memory_used(px_session_t *session);
/* Tells the daemon how much memory is held. */
void px_report_memory(px_session_t *session);
/* Waits for all work of the device's contexts; then what was freed before can be used again. */
CUresult px_device_drain(px_call_t *call, int device);
/* Makes the lane's context current on this thread. */
CUresult px_make_current(px_call_t *call);

#endif

/* rc_call.h - what a CUDA call goes through at the client: checks, then a frame. The generated stubs
 * and the files of this room use it. */
#ifndef RC_CALL_H
#define RC_CALL_H

#include "gpu-proxy/client/rc_state.h"

typedef struct {
    rc_lane_t *lane;
    rc_object_t *context;  /* current one, NULL if none */
    rc_session_t *session; /* whom the call goes to: the handles' session, else the context's */
    rc_object_t *owner;    /* context of the handles used, if any */
    rc_session_t *place;   /* session of the memory used, if any */
    rc_object_t *dropped;  /* handle that the call ends */
    CUstream stream;       /* used, if on_stream */
    int on_stream;
    rc_object_t *stream_context;
    rc_object_t *event; /* used, if any; the last one */
} rc_call_t;

/* Is CUDA initialised, has this thread a lane, and is its context without a fault? Does not demand a
 * context. */
CUresult rc_begin(rc_call_t *call);
/* The same for calls that work after a fault too. */
CUresult rc_begin_after_fault(rc_call_t *call);
/* The same as rc_begin, and demands a current context. */
CUresult rc_begin_in_context(rc_call_t *call);

/* Arguments: checks the handle or the address and writes what goes on the wire. A NULL or special
 * stream needs a current context. */
CUresult rc_use_stream(rc_call_t *call, CUstream stream, uint64_t *wire);
CUresult rc_use_event(rc_call_t *call, CUevent event, uint64_t *wire);
CUresult rc_use_function(rc_call_t *call, CUfunction function, uint64_t *wire);
/* All handles of a call must live at one session, which is the one called: adds a handle's. */
CUresult rc_belongs(rc_call_t *call, const rc_object_t *object);
/* `height` rows of width * unit bytes, `pitch` bytes apart: as rc_use_range of all of them. */
CUresult rc_use_rows(rc_call_t *call, CUdeviceptr address, uint64_t pitch, uint64_t width,
                     uint64_t unit, uint64_t height, uint64_t *wire);
/* count * unit bytes from `address`, a multiple of unit, must lie in one block of device memory; 0
 * bytes are fine. */
CUresult rc_use_range(rc_call_t *call, CUdeviceptr address, uint64_t count, uint64_t unit,
                      uint64_t *wire);
/* Ends the handle; of two threads one gets CUDA_ERROR_INVALID_HANDLE. */
CUresult rc_drop_stream(rc_call_t *call, CUstream stream);
CUresult rc_drop_event(rc_call_t *call, CUevent event);

/* Queues a generated call. */
CUresult rc_post(rc_call_t *call, uint16_t op, const uint64_t *args, unsigned count);
/* Queues a call with any payload. */
CUresult rc_post_bytes(rc_call_t *call, uint16_t op, const void *a, size_t a_size, const void *b,
                       size_t b_size);
/* The same, sent at once and without a copy of `b`: for bulk. */
CUresult rc_post_bulk(rc_call_t *call, uint16_t op, const void *a, size_t a_size, const void *b,
                      size_t b_size);
/* The same, and not even kept: see rc_send_reference. */
CUresult rc_post_reference(rc_call_t *call, uint16_t op, const void *a, size_t a_size,
                           const void *b, size_t b_size, uint64_t *until);
/* Asks and waits; writes the outputs on success. */
CUresult rc_ask(rc_call_t *call, uint16_t op, const uint64_t *args, unsigned count, uint64_t *outs,
                unsigned out_count);
/* Asks with any payload; the waiter holds the answer until rc_waiter_done. */
CUresult rc_ask_bytes(rc_call_t *call, uint16_t op, const void *a, size_t a_size, const void *b,
                      size_t b_size, rc_waiter_t *waiter);

/* May the stream take a batch of copies? */
CUresult rc_batch_stream(CUstream stream);

/* A function handle, or a kernel that stands for one in the current context. */
CUresult rc_function_of(rc_call_t *call, CUfunction function, rc_object_t **out);

#endif

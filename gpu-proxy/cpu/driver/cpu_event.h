/* cpu_event.h - events: points in streams, with a time. Thread-safe. */
#ifndef CPU_EVENT_H
#define CPU_EVENT_H

#include "gpu-proxy/cpu/driver/cpu_context.h"
#include "gpu-proxy/cpu/driver/cpu_ipc_event.h"

typedef struct cpu_event {
    cpu_object_t object;
    cpu_context_t *context; /* referenced */
    unsigned flags;
    pthread_mutex_t lock; /* of the point */
    cpu_stream_t *stream; /* where it was recorded last, referenced; NULL: never */
    uint64_t seq;
    _Atomic(cpu_captured_t *) captured; /* last recorded in a captured stream: cpu_capture.h's */
    _Atomic uint64_t serial;            /* of the last record */
    _Atomic uint64_t time_ns;           /* of the last record that is complete; monotonic clock */
    cpu_ipc_event_t *shared;            /* with CU_EVENT_INTERPROCESS: what other processes see */
    uint64_t shared_record;             /* under the lock: number of the last record of our own */
} cpu_event_t;

/* A new event; the caller has the only reference. `shared`: of an event of another process, which the
 * event takes over, also on an error; NULL: none. */
CUresult cpu_event_open(cpu_context_t *context, unsigned flags, cpu_ipc_event_t *shared,
                        cpu_event_t **event);

/* Drops what an event keeps of a capture; NULL is allowed. Of cpu_capture.c. */
void cpu_captured_free(cpu_captured_t *captured);

/* The event behind a handle, with a reference. CUDA_ERROR_INVALID_HANDLE, or its context's state. */
CUresult cpu_event_get(CUevent handle, cpu_event_t **event);

/* Queues a record in the stream. */
CUresult cpu_event_record(cpu_event_t *event, cpu_stream_t *stream);

/* The point of the last record, with a reference to the stream; false if never recorded. */
bool cpu_event_point(cpu_event_t *event, cpu_point_t *point);

/* Queues an operation that does nothing: after it, all that its stream waits for is complete. */
CUresult cpu_event_barrier(cpu_stream_t *stream);

/* Makes the stream wait for points of other streams. */
CUresult cpu_event_join(cpu_stream_t *stream, const cpu_point_t *points, uint32_t count);

/* Makes the stream wait for the last record. Events never recorded count as complete. */
CUresult cpu_event_wait_in(cpu_event_t *event, cpu_stream_t *stream);

/* Returns when the last record is complete. */
void cpu_event_wait(cpu_event_t *event);

/* CUDA_SUCCESS when the last record is complete, else CUDA_ERROR_NOT_READY. */
CUresult cpu_event_query(cpu_event_t *event);

CUresult cpu_event_elapsed(cpu_event_t *start, cpu_event_t *end, float *ms);

#endif

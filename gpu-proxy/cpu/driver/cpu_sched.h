/* cpu_sched.h - the engine: operations, streams as queues of them, and the threads that run them.
 *
 * One lock protects all queues. An operation at the head of its stream starts when the operations
 * that it depends on are complete and its own condition holds. Instant operations (event records,
 * value writes, barriers) are done there and then by whoever moves the stream on; work (kernels,
 * copies, fills) is cut into pieces that any number of threads take by an atomic ticket; host
 * functions run on a thread of their own. A stream that cannot go on holds no thread: it is on the
 * list of blocked streams, looked at again whenever an operation completes.
 *
 * Work is done by at most `seats` threads at a time: pool threads, and threads that wait for a
 * stream and run its pieces themselves meanwhile, so that a short launch costs no thread switch. */
#ifndef CPU_SCHED_H
#define CPU_SCHED_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/cuda/gb_cuda.h"
#include "gpu-proxy/cpu/driver/cpu_handle.h"

typedef struct cpu_op cpu_op_t;
typedef struct cpu_stream cpu_stream_t;
typedef struct cpu_context cpu_context_t;
typedef struct cpu_captured cpu_captured_t;

/* A place to work at: what a thread needs while it runs pieces. */
typedef struct cpu_seat {
    uint32_t index;
    void *bench;    /* the launch engine's: scratch memory of a CTA and what goes with it */
    double debt_ns; /* of a slowed-down device: time still to be slept */
    struct cpu_seat *next;
} cpu_seat_t;

enum { CPU_LINE = 64 }; /* bytes that two cores cannot write at the same time */

typedef struct {
    const char *name;
    /* Under the lock: may the operation start? NULL: always. */
    bool (*ready)(cpu_op_t *op);
    /* Under the lock: does the whole operation; NULL for work and host functions. */
    void (*instant)(cpu_op_t *op);
    /* Runs pieces [first, first + count), without the lock. An error goes to the context. */
    CUresult (*run)(cpu_op_t *op, cpu_seat_t *seat, uint64_t first, uint64_t count);
    /* Goes on with one of the parked pieces, if there is one: those that run() began and that gave
     * way, because they wait for others. *moved is set if it got further. NULL: none ever does. */
    CUresult (*resume)(cpu_op_t *op, cpu_seat_t *seat, bool *moved);
    /* Without the lock: drops what the operation holds and frees it. Called once, completed or
     * skipped. */
    void (*release)(cpu_op_t *op);
    /* After one or more calls of release(), on the same thread: drops what they kept back to drop it
     * at once. NULL: nothing. */
    void (*released)(void);
    bool hosted;      /* run() is a function of the program: on the callback thread */
    bool beside;      /* and may run while others do: on a thread that has nothing else to do */
    bool after_fault; /* also done when the context has failed */
} cpu_op_ops_t;

/* "Operation `seq` of that stream is complete." Holds a reference to the stream. */
typedef struct {
    cpu_stream_t *stream;
    uint64_t seq;
} cpu_point_t;

enum { CPU_OP_INLINE_POINTS = 2 };

struct cpu_op {
    const cpu_op_ops_t *ops;
    cpu_stream_t *stream; /* that it was submitted to; referenced as long as there are operations */
    uint64_t seq;
    cpu_op_t *next; /* in the stream */
    cpu_op_t *run_prev, *run_next;
    atomic_bool listed; /* on the run list; written under the lock */
    cpu_point_t inline_points[CPU_OP_INLINE_POINTS];
    cpu_point_t *points; /* it waits for these */
    uint32_t point_count;
    uint64_t pieces; /* of work */
    uint64_t grain;  /* pieces taken at a time */
    _Atomic uint64_t ticket;
    _Atomic uint32_t parked; /* pieces that gave way; counted by run() and resume() */
    uint32_t users;          /* threads inside run() */
    bool stuck;              /* all that is left waits: other work goes first */
    bool last; /* the stream was empty when it left: it drops the stream's reference */
};

/* A thread that waits for a stream. */
typedef struct cpu_waiter {
    struct cpu_waiter *next;
    uint64_t seq;
    bool done;
    pthread_cond_t wake;
} cpu_waiter_t;

/* What a program has said about a stream, to be told again. */
typedef struct {
    CUsynchronizationPolicy policy; /* 0: nothing */
    CUaccessPolicyWindow window;
    CUlaunchMemSyncDomainMap domains;
    CUlaunchMemSyncDomain domain;
} cpu_stream_hints_t;

struct cpu_stream {
    cpu_object_t object;
    cpu_context_t *context;  /* referenced */
    struct cpu_lanes *lanes; /* the context's */
    unsigned flags;          /* CU_STREAM_NON_BLOCKING */
    int priority;            /* smaller is more urgent */
    uint64_t id;
    /* Each group has cache lines of its own, since different threads write them. Under the lock: */
    alignas(CPU_LINE) cpu_op_t *head, *tail;
    _Atomic uint64_t submitted; /* read anywhere */
    bool busy;                  /* the head is being worked on */
    bool blocked;               /* on the list of blocked streams */
    bool dead;                  /* accepts nothing more */
    cpu_stream_t *blocked_next;
    cpu_stream_t *context_prev, *context_next;
    cpu_waiter_t *waiters;
    cpu_stream_hints_t hints;
    /* Under cpu_graph_lock: what cpu_capture.h keeps of a captured stream; else NULL. */
    cpu_captured_t *captured;
    /* Written by whoever works for the stream, read anywhere. */
    alignas(CPU_LINE) _Atomic uint64_t completed;
};

/* What the engine keeps per context. */
typedef struct cpu_lanes {
    cpu_stream_t *streams; /* of the context, linked */
    cpu_stream_t *legacy;  /* the default stream */
    /* Blocking streams (and the default stream) that have operations. */
    atomic_int busy_blocking;
    _Atomic CUresult fault;  /* first execution error; sticky */
    _Atomic uint32_t cancel; /* kernels of the context leave when it is not 0 */
} cpu_lanes_t;

/* Starts `threads` pool threads. Once per process. */
CUresult cpu_sched_start(int threads, double speed);

/* Number of seats. */
int cpu_sched_seats(void);

void cpu_op_init(cpu_op_t *op, const cpu_op_ops_t *ops, uint64_t pieces, uint64_t grain);

/* Makes the operation wait for a point as well. Before submission; takes a reference to the
 * stream. False if memory is out. */
bool cpu_op_wait_for(cpu_op_t *op, cpu_stream_t *stream, uint64_t seq);

/* Ends an operation that is not submitted after all. */
void cpu_op_drop(cpu_op_t *op);

/* Appends the operation, which then belongs to the engine, and tells its point in *seq (may be
 * NULL). Default-stream rules are applied here. On an error (the stream or its context is gone,
 * memory is out) the operation has been released. */
CUresult cpu_sched_submit(cpu_stream_t *stream, cpu_op_t *op, uint64_t *seq);

/* The same for operations that are linked by `next`, which follow each other: *seq is the last one's.
 * On an error all have been released. */
CUresult cpu_sched_submit_list(cpu_stream_t *stream, cpu_op_t *first, cpu_op_t *last,
                               uint64_t *seq);

/* Whether an instant operation that is submitted now would be done at once: the stream and all that it
 * would have to wait for are empty. Then *seq is the last operation, which is complete. */
bool cpu_sched_idle(cpu_stream_t *stream, uint64_t *seq);

/* Waits until operation `seq` of the stream is complete, running its pieces meanwhile. Says nothing
 * about faults: ask the context. */
void cpu_sched_wait(cpu_stream_t *stream, uint64_t seq);

/* Whether operation `seq` is complete. */
static inline bool cpu_stream_passed(const cpu_stream_t *stream, uint64_t seq)
{
    return atomic_load_explicit(&stream->completed, memory_order_acquire) >= seq;
}

/* The last operation that was submitted. */
uint64_t cpu_stream_last(cpu_stream_t *stream);

/* Waits for all that was submitted to any stream of the context before the call. */
void cpu_sched_wait_context(cpu_lanes_t *lanes);

/* Looks at blocked streams again: memory that they wait for may have changed. */
void cpu_sched_memory_written(void);

/* Registers a stream with its context's lanes. */
void cpu_sched_attach(cpu_stream_t *stream);

/* What is queued still runs, nothing more is accepted. */
void cpu_sched_detach(cpu_stream_t *stream);

/* Takes the stream off its context's list; for its destructor. */
void cpu_sched_unlink(cpu_stream_t *stream);

/* Records the context's first fault. The rest of its queues drains without being done. */
void cpu_sched_fault(cpu_lanes_t *lanes, CUresult fault);

/* Ends everything of the context: running kernels leave, queued operations are skipped. Returns
 * when its streams are empty. */
void cpu_sched_cancel(cpu_lanes_t *lanes);

#endif

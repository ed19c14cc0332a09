/* cpu_pool.h - the engine's state and its threads. Private to cpu_sched.c and cpu_pool.c.
 *
 * Threads: `seats` workers, started with the first operation; one callback thread for host functions
 * (and some for those that may run beside others) and one poller for streams that wait for values in memory, each started when first needed. All are
 * detached, take no signals of the program's, and stay until the process ends. */
#ifndef CPU_POOL_H
#define CPU_POOL_H

#include "gpu-proxy/cpu/driver/cpu_sched.h"

typedef struct cpu_worker {
    struct cpu_worker *next; /* sleeping */
    bool called;
    pthread_cond_t wake;
} cpu_worker_t;

/* Host functions and the threads that run them. */
typedef struct {
    cpu_op_t *head, *tail;
    pthread_cond_t wake;
    int threads, idle, most;
} cpu_callers_t;

typedef struct {
    pthread_mutex_t lock;
    /* Under the lock: */
    cpu_stream_t *blocked;
    bool recheck;   /* look at the blocked streams again before the lock is left */
    bool polling;   /* a blocked stream waits for memory */
    cpu_op_t *dead; /* completed, to be released without the lock */
    cpu_op_t *run_head, *run_tail;
    cpu_seat_t *free_seats;
    cpu_worker_t *sleepers;
    int spinners;                  /* workers that are about to look at the run list */
    cpu_callers_t in_turn, beside; /* one after the other; each on a thread that is free */
    bool workers_started, poller_started;
    pthread_cond_t poll_wake;
    /* Written under the lock, read by spinning workers: operations on the run list, threads that
     * run pieces. On a cache line that submitting does not write. */
    alignas(CPU_LINE) atomic_int runnable;
    atomic_int working;
    /* Threads that sleep and streams that are blocked until some operation completes: while there are
     * any, operations are completed one by one. */
    atomic_int watchers;
    alignas(CPU_LINE) int seat_count;
    double speed; /* 1: as fast as it goes; 2: half as fast */
} cpu_engine_t;

extern cpu_engine_t cpu_engine;

void cpu_engine_lock(void);

/* Settles what has changed, releases the lock and then the completed operations. */
void cpu_engine_unlock(void);

/* The following are called with the lock held. */

/* The operation is complete: it leaves its stream, which moves on. */
void cpu_engine_complete(cpu_op_t *op);

/* All operations before this one of its stream are complete; it is being worked on. */
void cpu_engine_complete_before(const cpu_op_t *op);

void cpu_engine_settle(void);

cpu_seat_t *cpu_pool_take_seat(void);
void cpu_pool_give_seat(cpu_seat_t *seat);

/* Puts work on the run list, by priority, and calls a worker. */
void cpu_pool_list(cpu_op_t *op);

/* Queues a host function. */
void cpu_pool_host(cpu_op_t *op);

/* A blocked stream waits for memory. */
void cpu_pool_poll(void);

/* Runs pieces of listed work until none are left to take, and tiny operations behind it. Returns how many
 * operations. Leaves and retakes the lock. */
uint32_t cpu_pool_work(cpu_op_t *op, cpu_seat_t *seat);

#endif

#include "gpu-proxy/cpu/driver/cpu_pool.h"

#include <immintrin.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "gpu-proxy/cpu/driver/cpu_guard.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

enum {
    SPIN_NS = 20000,       /* a worker looks for new work this long before it sleeps, */
    PATIENT_NS = 300000,   /* this long while others work: their end brings the next operation */
    TINY_NS = 1000,        /* operations of less than this are not worth fighting for: */
    FILL_NS = 5000,        /* their queue gets so long to fill, */
    FEW_OPS = 8,           /* as long as it is shorter than this */
    SLEEP_FROM_NS = 50000, /* a slowed-down device sleeps in pieces of at least this */
    POLL_NS = 100000,
    POLL_MAX_NS = 1000000,
    STACK_BYTES = 1 << 20,
    BESIDE = 64, /* threads for host functions that may wait */
};

cpu_engine_t cpu_engine = {.lock = PTHREAD_MUTEX_INITIALIZER,
                           .in_turn = {.wake = PTHREAD_COND_INITIALIZER, .most = 1},
                           .beside = {.wake = PTHREAD_COND_INITIALIZER, .most = BESIDE}};

/* The calling thread completes an operation and has a seat for the next one. */
static __thread bool seated __attribute__((tls_model("initial-exec")));

/* Starts a detached thread that takes none of the program's signals. */
static bool start_thread(void *(*run)(void *), void *arg)
{
    sigset_t all, old;
    pthread_attr_t attributes;
    pthread_t thread;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&thread, &attributes, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    if (error)
        gb_log(GB_LOG_ERROR, "cannot start a thread of the CPU device: raise the limit of threads");
    return error == 0;
}

CUresult cpu_sched_start(int threads, double speed)
{
    pthread_mutexattr_t kind;
    pthread_condattr_t clock;
    cpu_seat_t *seats = calloc((size_t)threads, sizeof(*seats));
    if (!seats)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&cpu_engine.lock, &kind);
    pthread_mutexattr_destroy(&kind);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&cpu_engine.poll_wake, &clock);
    pthread_condattr_destroy(&clock);
    for (int i = threads - 1; i >= 0; i--) {
        seats[i].index = (uint32_t)i;
        seats[i].next = cpu_engine.free_seats;
        cpu_engine.free_seats = &seats[i];
    }
    cpu_engine.seat_count = threads;
    cpu_engine.speed = speed;
    return CUDA_SUCCESS;
}

int cpu_sched_seats(void)
{
    return cpu_engine.seat_count;
}

cpu_seat_t *cpu_pool_take_seat(void)
{
    cpu_seat_t *seat = cpu_engine.free_seats;
    if (seat)
        cpu_engine.free_seats = seat->next;
    return seat;
}

/* Calls a sleeping worker if there is work, a seat, and nobody on the way already. */
static void call_worker(void)
{
    cpu_worker_t *worker = cpu_engine.sleepers;
    if (!worker || cpu_engine.spinners || !cpu_engine.run_head || !cpu_engine.free_seats)
        return;
    cpu_engine.sleepers = worker->next;
    cpu_engine.spinners++;
    worker->called = true;
    pthread_cond_signal(&worker->wake);
}

void cpu_pool_give_seat(cpu_seat_t *seat)
{
    seat->next = cpu_engine.free_seats;
    cpu_engine.free_seats = seat;
    call_worker();
}

static void unlist(cpu_op_t *op)
{
    if (op->run_prev)
        op->run_prev->run_next = op->run_next;
    else
        cpu_engine.run_head = op->run_next;
    if (op->run_next)
        op->run_next->run_prev = op->run_prev;
    else
        cpu_engine.run_tail = op->run_prev;
    atomic_store_explicit(&op->listed, false, memory_order_relaxed);
    atomic_fetch_sub_explicit(&cpu_engine.runnable, 1, memory_order_relaxed);
}

static uint64_t take_pieces(cpu_op_t *op)
{
    return atomic_fetch_add_explicit(&op->ticket, op->grain, memory_order_relaxed);
}

/* Sleeps off what a slowed-down device would have needed more. */
static void slow_down(cpu_seat_t *seat, uint64_t worked_ns)
{
    seat->debt_ns += (double)worked_ns * (cpu_engine.speed - 1.0);
    if (seat->debt_ns < SLEEP_FROM_NS)
        return;
    uint64_t ns = (uint64_t)seat->debt_ns;
    struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    uint64_t before = gb_now_ns();
    nanosleep(&time, NULL);
    seat->debt_ns -= (double)(gb_now_ns() - before);
}

/* What a thread that works at an operation whose pieces may wait for each other knows. */
typedef struct {
    uint32_t fruitless; /* pieces resumed in a row that got no further */
    bool stuck;         /* and other work is listed */
} patience_t;

static CUresult run_timed(cpu_op_t *op, cpu_seat_t *seat, uint64_t first)
{
    uint64_t count = op->pieces - first < op->grain ? op->pieces - first : op->grain;
    if (cpu_engine.speed <= 1.0)
        return op->ops->run(op, seat, first, count);
    uint64_t start = gb_now_ns();
    CUresult result = op->ops->run(op, seat, first, count);
    slow_down(seat, gb_now_ns() - start);
    return result;
}

static void list_last(cpu_op_t *op);

/* Goes on with a parked piece. Once all of them have been tried in vain, other threads get the core,
 * and other operations the seat. */
static CUresult run_parked(cpu_op_t *op, cpu_seat_t *seat, patience_t *patience)
{
    bool moved = false;
    CUresult result = op->ops->resume(op, seat, &moved);
    patience->fruitless = moved ? 0 : patience->fruitless + 1;
    if (patience->fruitless > atomic_load_explicit(&op->parked, memory_order_relaxed)) {
        patience->fruitless = 0;
        patience->stuck = atomic_load_explicit(&cpu_engine.runnable, memory_order_relaxed) >
                          (atomic_load_explicit(&op->listed, memory_order_relaxed) ? 1 : 0);
        sched_yield();
    }
    return result;
}

/* Several pieces are parked, and nobody finds them: others may help. */
static void offer_parked(cpu_op_t *op)
{
    if (atomic_load_explicit(&op->parked, memory_order_relaxed) < 2 ||
        atomic_load_explicit(&op->listed, memory_order_relaxed))
        return;
    cpu_engine_lock();
    if (!atomic_load_explicit(&op->listed, memory_order_relaxed))
        list_last(op);
    cpu_engine_unlock();
}

static bool is_cancelled(const cpu_op_t *op)
{
    return atomic_load_explicit(&op->stream->lanes->cancel, memory_order_relaxed) != 0;
}

static bool has_parked(const cpu_op_t *op)
{
    return atomic_load_explicit(&op->parked, memory_order_acquire) > 0;
}

static CUresult run_pieces(cpu_op_t *op, cpu_seat_t *seat, uint64_t first, bool *stuck)
{
    patience_t patience = {0};
    CUresult result = CUDA_SUCCESS;
    while (!result && !is_cancelled(op) && !patience.stuck) {
        if (first < op->pieces)
            result = run_timed(op, seat, first);
        else if (!has_parked(op))
            break;
        if (!result && has_parked(op)) {
            result = run_parked(op, seat, &patience);
            offer_parked(op);
        }
        if (!patience.stuck && first < op->pieces)
            first = take_pieces(op);
    }
    *stuck = patience.stuck;
    return result;
}

/* Kernels round and treat subnormal numbers as PTX says, whatever the program has set for the thread
 * that starts them, or that started this one. */
enum { FLOAT_MODE = 0x1f80, FLOAT_FLAGS = 0x3f };

static unsigned enter_float_mode(void)
{
    unsigned mode = _mm_getcsr();
    if ((mode & ~(unsigned)FLOAT_FLAGS) != FLOAT_MODE)
        _mm_setcsr(FLOAT_MODE);
    return mode;
}

static void leave_float_mode(unsigned mode)
{
    if ((mode & ~(unsigned)FLOAT_FLAGS) != FLOAT_MODE)
        _mm_setcsr(mode);
}

static CUresult run_guarded(cpu_op_t *op, cpu_seat_t *seat, uint64_t first, bool *stuck)
{
    cpu_guard_t guard;
    CUresult result;
    if (sigsetjmp(guard.jump, 0) == 0) {
        cpu_guard_set(&guard);
        result = run_pieces(op, seat, first, stuck);
        cpu_guard_set(NULL);
    } else {
        result = cpu_guard_result(&guard);
        gb_log(GB_LOG_WARN, "a %s was ended by signal %d at address %p", op->ops->name,
               guard.signal, guard.address);
    }
    return result;
}

/* Are there pieces to take, or to go on with? */
static bool has_work(const cpu_op_t *op)
{
    return !is_cancelled(op) &&
           (atomic_load_explicit(&op->ticket, memory_order_relaxed) < op->pieces || has_parked(op));
}

/* ---- operations in a row ---- */

enum { RUN_MOST = 64 };

/* Operations of one stream that a thread runs one after the other without asking the engine between
 * them: it does so for tiny ones while nobody waits, since asking costs more than they do. What was
 * queued when it began does not change any more, so it is looked at without the lock. */
typedef struct {
    cpu_op_t *op;        /* under way; all before it are complete */
    const cpu_op_t *end; /* no further than this */
    uint32_t count;
} run_t;

/* Nothing but a single piece, and nothing to wait for. */
static bool is_simple(const cpu_op_t *op)
{
    return !op->ops->instant && !op->ops->hosted && !op->ops->ready && op->point_count == 0 &&
           op->pieces <= op->grain;
}

/* With the lock: how far the operation's stream can be run. */
static run_t begin_run(cpu_op_t *op)
{
    bool alone = op->pieces <= op->grain && op->users == 1 && !has_parked(op) &&
                 !atomic_load_explicit(&op->listed, memory_order_relaxed);
    return (run_t){op, alone ? op->stream->tail : op, 1};
}

/* Goes on to the next operation if that can be done without asking. */
static bool go_on(run_t *run)
{
    cpu_op_t *op = run->op;
    if (op == run->end || run->count == RUN_MOST || !is_simple(op->next))
        return false;
    atomic_store(&op->stream->completed, op->seq);
    if (atomic_load(&cpu_engine.watchers) ||
        atomic_load_explicit(&cpu_engine.runnable, memory_order_relaxed))
        return false;
    run->op = op->next;
    run->op->users = 1;
    run->count++;
    return true;
}

static void run_all(run_t *run, cpu_seat_t *seat, uint64_t first, bool *stuck)
{
    for (;;) {
        cpu_op_t *op = run->op;
        CUresult result = run_guarded(op, seat, first, stuck);
        if (result)
            cpu_sched_fault(op->stream->lanes, result);
        if (result || *stuck || has_parked(op) || !go_on(run))
            return;
        first = take_pieces(run->op);
    }
}

uint32_t cpu_pool_work(cpu_op_t *op, cpu_seat_t *seat)
{
    uint64_t first = take_pieces(op);
    bool stuck = false;
    if (first + op->grain >= op->pieces && !has_parked(op))
        unlist(op);
    if (first >= op->pieces && !has_parked(op))
        return 1; /* others took the last piece meanwhile, and will complete it */
    op->users++;
    op->stuck = false;
    run_t run = begin_run(op);
    atomic_fetch_add_explicit(&cpu_engine.working, 1, memory_order_relaxed);
    call_worker();
    cpu_engine_unlock();
    unsigned mode = enter_float_mode();
    run_all(&run, seat, first, &stuck);
    leave_float_mode(mode);
    cpu_engine_lock();
    op = run.op;
    cpu_engine_complete_before(op);
    atomic_fetch_sub_explicit(&cpu_engine.working, 1, memory_order_relaxed);
    bool listed = atomic_load_explicit(&op->listed, memory_order_relaxed);
    op->stuck = stuck;
    if (listed && (stuck || !has_work(op))) {
        unlist(op);
        listed = false;
    }
    if (!listed && has_work(op)) {
        list_last(op);
        listed = true;
    }
    seated = true;
    if (--op->users == 0 && !listed)
        cpu_engine_complete(op);
    seated = false;
    return run.count;
}

/* With the lock: the most urgent work, or NULL. */
static cpu_op_t *next_work(void)
{
    return cpu_engine.run_head;
}

/* Without the lock, and with a seat to spare. */
static void look_for_work(void)
{
    uint64_t start = gb_now_ns(), now = start;
    do {
        for (int i = 0; i < 32; i++) {
            if (atomic_load_explicit(&cpu_engine.runnable, memory_order_relaxed))
                return;
            __builtin_ia32_pause();
        }
        now = gb_now_ns();
    } while (now - start < SPIN_NS);
    for (; now - start < PATIENT_NS; now = gb_now_ns()) {
        int working = atomic_load_explicit(&cpu_engine.working, memory_order_relaxed);
        if (working == 0 || working >= cpu_engine.seat_count ||
            atomic_load_explicit(&cpu_engine.runnable, memory_order_relaxed))
            return;
        sched_yield(); /* whoever else wants this core goes first */
    }
}

static void worker_sleep(cpu_worker_t *self)
{
    self->called = false;
    self->next = cpu_engine.sleepers;
    cpu_engine.sleepers = self;
    while (!self->called)
        pthread_cond_wait(&self->wake, &cpu_engine.lock);
    cpu_engine.spinners--; /* counted by the caller */
}

/* Somebody queues tiny operations, and nobody waits for them yet: who takes them one by one only fights
 * for the lock. */
static bool fills_quickly(const cpu_op_t *op)
{
    uint64_t queued = atomic_load_explicit(&op->stream->submitted, memory_order_relaxed) -
                      atomic_load_explicit(&op->stream->completed, memory_order_relaxed);
    return queued < FEW_OPS && is_simple(op) && !atomic_load(&cpu_engine.watchers);
}

/* Whoever begins to wait meanwhile finds the seat free, and runs them himself. */
static void let_queue_fill(cpu_seat_t *seat)
{
    cpu_engine.spinners++; /* so that giving the seat back calls nobody */
    if (seat)
        cpu_pool_give_seat(seat);
    cpu_engine_unlock();
    uint64_t end = gb_now_ns() + FILL_NS;
    while (gb_now_ns() < end)
        __builtin_ia32_pause();
    cpu_engine_lock();
    cpu_engine.spinners--;
}

static void *worker_main(void *unused)
{
    cpu_worker_t self = {.called = false};
    cpu_seat_t *seat = NULL; /* kept from operation to operation */
    bool spun = false;
    bool tiny = false; /* what it did last */
    (void)unused;
    pthread_cond_init(&self.wake, NULL);
    cpu_guard_thread_start();
    cpu_engine_lock();
    for (;;) {
        cpu_op_t *op = next_work();
        if (op && tiny && fills_quickly(op)) {
            let_queue_fill(seat);
            seat = NULL;
            tiny = false;
            continue;
        }
        if (op && !seat)
            seat = cpu_pool_take_seat();
        if (op && seat) {
            uint64_t start = gb_now_ns();
            uint32_t ran = cpu_pool_work(op, seat);
            cpu_engine_settle();
            tiny = gb_now_ns() - start < (uint64_t)TINY_NS * ran;
            spun = false;
            continue;
        }
        if (seat) {
            cpu_pool_give_seat(seat);
            seat = NULL;
        }
        if (!op && !spun && cpu_engine.free_seats) {
            spun = true;
            cpu_engine.spinners++;
            cpu_engine_unlock();
            look_for_work();
            cpu_engine_lock();
            cpu_engine.spinners--;
        } else {
            cpu_engine_settle();
            if (!cpu_engine.run_head || !cpu_engine.free_seats)
                worker_sleep(&self);
            spun = tiny = false;
        }
    }
    return NULL;
}

static void start_workers(void)
{
    cpu_engine.workers_started = true;
    for (int i = 0; i < cpu_engine.seat_count; i++)
        start_thread(worker_main, NULL);
}

/* Puts the operation on the list behind `after`, or at its head. A thread that has a seat takes what it
 * lists itself; whoever takes the first pieces calls others for the rest. */
static void list_behind(cpu_op_t *op, cpu_op_t *after)
{
    op->run_prev = after;
    op->run_next = after ? after->run_next : cpu_engine.run_head;
    if (op->run_prev)
        op->run_prev->run_next = op;
    else
        cpu_engine.run_head = op;
    if (op->run_next)
        op->run_next->run_prev = op;
    else
        cpu_engine.run_tail = op;
    atomic_store_explicit(&op->listed, true, memory_order_relaxed);
    atomic_fetch_add_explicit(&cpu_engine.runnable, 1, memory_order_relaxed);
    if (!seated)
        call_worker();
}

static void list_last(cpu_op_t *op)
{
    list_behind(op, cpu_engine.run_tail);
}

void cpu_pool_list(cpu_op_t *op)
{
    if (!cpu_engine.workers_started)
        start_workers();
    cpu_op_t *after = cpu_engine.run_tail;
    while (after && after->stream->priority > op->stream->priority)
        after = after->run_prev;
    list_behind(op, after);
}

static void *host_main(void *arg)
{
    cpu_callers_t *callers = arg;
    cpu_thread_enter_callback();
    cpu_engine_lock();
    for (;;) {
        cpu_op_t *op = callers->head;
        if (!op) {
            cpu_engine_settle();
            callers->idle++;
            if (!callers->head)
                pthread_cond_wait(&callers->wake, &cpu_engine.lock);
            callers->idle--;
            continue;
        }
        callers->head = op->run_next;
        if (!callers->head)
            callers->tail = NULL;
        cpu_engine_unlock();
        (void)op->ops->run(op, NULL, 0, 1);
        cpu_engine_lock();
        cpu_engine_complete(op);
    }
    return NULL;
}

void cpu_pool_host(cpu_op_t *op)
{
    cpu_callers_t *callers = op->ops->beside ? &cpu_engine.beside : &cpu_engine.in_turn;
    int waiting = 1;
    op->run_next = NULL;
    for (const cpu_op_t *o = callers->head; o; o = o->run_next)
        waiting++;
    if (callers->tail)
        callers->tail->run_next = op;
    else
        callers->head = op;
    callers->tail = op;
    if (callers->idle < waiting && callers->threads < callers->most)
        callers->threads += start_thread(host_main, callers);
    pthread_cond_signal(&callers->wake);
}

/* The net for values that the program's own threads write: no operation completes then, so somebody
 * has to look. Waits get longer while nothing happens. */
static void *poller_main(void *unused)
{
    uint64_t pause = POLL_NS;
    (void)unused;
    cpu_engine_lock();
    for (;;) {
        while (!cpu_engine.polling) {
            pthread_cond_wait(&cpu_engine.poll_wake, &cpu_engine.lock);
            pause = POLL_NS;
        }
        uint64_t until = gb_now_ns() + pause;
        struct timespec time = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
        pthread_cond_timedwait(&cpu_engine.poll_wake, &cpu_engine.lock, &time);
        pause = pause * 2 < POLL_MAX_NS ? pause * 2 : POLL_MAX_NS;
        cpu_engine.recheck = cpu_engine.recheck || cpu_engine.polling;
        cpu_engine_unlock();
        cpu_engine_lock();
    }
    return NULL;
}

void cpu_pool_poll(void)
{
    if (cpu_engine.polling)
        return;
    cpu_engine.polling = true;
    if (!cpu_engine.poller_started)
        cpu_engine.poller_started = start_thread(poller_main, NULL);
    /* A poller between two looks goes on by itself; one that sleeps needs the call. */
    pthread_cond_signal(&cpu_engine.poll_wake);
}

#include "gpu-proxy/cpu/driver/cpu_sched.h"

#include <stdlib.h>

#include "common/core/gb_clock.h"
#include "gpu-proxy/cpu/driver/cpu_pool.h"

enum { SPIN_NS = 10000, MAX_CHAIN = 4 };

void cpu_engine_lock(void)
{
    pthread_mutex_lock(&cpu_engine.lock);
}

static void bury(cpu_op_t *op)
{
    while (op) {
        cpu_op_t *next = op->next;
        cpu_stream_t *stream = op->stream;
        for (uint32_t i = 0; i < op->point_count; i++)
            cpu_object_put(&op->points[i].stream->object);
        if (op->points != op->inline_points)
            free(op->points);
        bool last = op->last;
        const cpu_op_ops_t *ops = op->ops;
        ops->release(op);
        if (ops->released && (!next || next->ops != ops))
            ops->released();
        if (last)
            cpu_object_put(&stream->object);
        op = next;
    }
}

void cpu_engine_unlock(void)
{
    cpu_engine_settle();
    cpu_op_t *dead = cpu_engine.dead;
    cpu_engine.dead = NULL;
    pthread_mutex_unlock(&cpu_engine.lock);
    bury(dead);
}

static bool points_passed(const cpu_op_t *op)
{
    for (uint32_t i = 0; i < op->point_count; i++)
        if (atomic_load(&op->points[i].stream->completed) < op->points[i].seq)
            return false;
    return true;
}

static void block(cpu_stream_t *stream)
{
    if (stream->blocked)
        return;
    stream->blocked = true;
    stream->blocked_next = cpu_engine.blocked;
    cpu_engine.blocked = stream;
    atomic_fetch_add(&cpu_engine.watchers, 1);
}

static void wake_waiters(cpu_stream_t *stream, uint64_t seq)
{
    for (cpu_waiter_t **at = &stream->waiters; *at;) {
        cpu_waiter_t *waiter = *at;
        if (waiter->seq > seq) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        waiter->done = true;
        pthread_cond_signal(&waiter->wake);
    }
}

static bool is_blocking(const cpu_stream_t *stream)
{
    return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/* Takes the head out of its stream. */
static void retire(cpu_op_t *op)
{
    cpu_stream_t *stream = op->stream;
    stream->head = op->next;
    if (!stream->head) {
        op->last = true;
        stream->tail = NULL;
        if (is_blocking(stream))
            atomic_fetch_sub_explicit(&stream->lanes->busy_blocking, 1, memory_order_release);
    }
    stream->busy = false;
    if (atomic_load_explicit(&stream->completed, memory_order_relaxed) < op->seq)
        atomic_store_explicit(&stream->completed, op->seq, memory_order_release);
    if (stream->waiters)
        wake_waiters(stream, op->seq);
    op->next = cpu_engine.dead;
    cpu_engine.dead = op;
    cpu_engine.recheck = true;
}

static bool skipped(const cpu_op_t *op)
{
    const cpu_lanes_t *lanes = op->stream->lanes;
    if (atomic_load_explicit(&lanes->cancel, memory_order_relaxed) == 0)
        return false;
    /* A fault cancels too; then operations that tell the program about it are still done. */
    return !(op->ops->after_fault &&
             atomic_load_explicit(&lanes->fault, memory_order_relaxed) != CUDA_SUCCESS);
}

/* Starts the head of the stream, and does everything that is instant. */
static void advance(cpu_stream_t *stream)
{
    cpu_op_t *op;
    while (!stream->busy && (op = stream->head) != NULL) {
        bool skip = skipped(op);
        if (!skip && !points_passed(op)) {
            block(stream);
            /* A worker that runs several operations in a row says what is complete first, and then looks
             * for watchers: so a watcher counts itself first, and then looks what is complete. */
            if (points_passed(op))
                cpu_engine.recheck = true;
            return;
        }
        if (!skip && op->ops->ready && !op->ops->ready(op)) {
            skip = skipped(op); /* looking at the memory may have been the fault */
            if (!skip) {
                block(stream);
                cpu_pool_poll();
                return;
            }
        }
        if (skip) {
            retire(op);
        } else if (op->ops->instant) {
            op->ops->instant(op);
            retire(op);
        } else {
            stream->busy = true;
            if (op->ops->hosted)
                cpu_pool_host(op);
            else
                cpu_pool_list(op);
        }
    }
}

void cpu_engine_settle(void)
{
    while (cpu_engine.recheck) {
        cpu_stream_t *list = cpu_engine.blocked;
        cpu_engine.recheck = false;
        cpu_engine.blocked = NULL;
        cpu_engine.polling = false;
        while (list) {
            cpu_stream_t *stream = list;
            list = stream->blocked_next;
            stream->blocked = false;
            atomic_fetch_sub(&cpu_engine.watchers, 1);
            advance(stream);
        }
    }
}

void cpu_engine_complete(cpu_op_t *op)
{
    cpu_stream_t *stream = op->stream;
    retire(op);
    advance(stream);
}

void cpu_engine_complete_before(const cpu_op_t *op)
{
    cpu_stream_t *stream = op->stream;
    while (stream->head != op)
        retire(stream->head);
    stream->busy = true;
}

void cpu_op_init(cpu_op_t *op, const cpu_op_ops_t *ops, uint64_t pieces, uint64_t grain)
{
    op->ops = ops;
    op->stream = NULL;
    op->seq = 0;
    op->next = op->run_prev = op->run_next = NULL;
    atomic_init(&op->listed, false);
    op->points = op->inline_points;
    op->point_count = 0;
    op->pieces = pieces;
    op->grain = grain;
    atomic_init(&op->ticket, 0);
    atomic_init(&op->parked, 0);
    op->users = 0;
    op->stuck = op->last = false;
}

bool cpu_op_wait_for(cpu_op_t *op, cpu_stream_t *stream, uint64_t seq)
{
    if (cpu_stream_passed(stream, seq))
        return true;
    if (op->point_count >= CPU_OP_INLINE_POINTS) {
        size_t bytes = (op->point_count + 1) * sizeof(*op->points);
        cpu_point_t *points = op->points == op->inline_points ? NULL : op->points;
        points = realloc(points, bytes);
        if (!points)
            return false;
        if (op->points == op->inline_points)
            for (uint32_t i = 0; i < op->point_count; i++)
                points[i] = op->inline_points[i];
        op->points = points;
    }
    cpu_object_ref(&stream->object);
    op->points[op->point_count++] = (cpu_point_t){stream, seq};
    return true;
}

void cpu_op_drop(cpu_op_t *op)
{
    op->next = NULL;
    bury(op);
}

/* Work in the default stream comes after all earlier work in the context's blocking streams, and
 * before all their later work. */
static bool apply_default_stream_rule(cpu_op_t *op, cpu_stream_t *stream)
{
    cpu_lanes_t *lanes = stream->lanes;
    if (!is_blocking(stream) ||
        atomic_load_explicit(&lanes->busy_blocking, memory_order_relaxed) == (stream->head != NULL))
        return true;
    if (stream != lanes->legacy)
        return !lanes->legacy->head || cpu_op_wait_for(op, lanes->legacy, lanes->legacy->submitted);
    for (cpu_stream_t *other = lanes->streams; other; other = other->context_next)
        if (other != stream && other->head && is_blocking(other) &&
            !cpu_op_wait_for(op, other, other->submitted))
            return false;
    return true;
}

CUresult cpu_sched_submit(cpu_stream_t *stream, cpu_op_t *op, uint64_t *seq)
{
    return cpu_sched_submit_list(stream, op, op, seq);
}

CUresult cpu_sched_submit_list(cpu_stream_t *stream, cpu_op_t *first, cpu_op_t *last, uint64_t *seq)
{
    last->next = NULL;
    cpu_engine_lock();
    CUresult error = stream->dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
    if (!error && !apply_default_stream_rule(first, stream))
        error = CUDA_ERROR_OUT_OF_MEMORY;
    if (error) {
        cpu_engine_unlock();
        bury(first);
        return error;
    }
    uint64_t submitted = atomic_load_explicit(&stream->submitted, memory_order_relaxed);
    for (cpu_op_t *op = first; op; op = op->next) {
        op->stream = stream;
        op->seq = ++submitted;
    }
    atomic_store_explicit(&stream->submitted, submitted, memory_order_relaxed);
    if (seq)
        *seq = last->seq;
    if (stream->tail) {
        stream->tail->next = first;
        stream->tail = last;
    } else {
        cpu_object_ref(&stream->object);
        stream->head = first;
        stream->tail = last;
        if (is_blocking(stream))
            atomic_fetch_add_explicit(&stream->lanes->busy_blocking, 1, memory_order_relaxed);
        advance(stream);
    }
    cpu_engine_unlock();
    return CUDA_SUCCESS;
}

bool cpu_sched_idle(cpu_stream_t *stream, uint64_t *seq)
{
    pthread_mutex_lock(&cpu_engine.lock);
    const cpu_lanes_t *lanes = stream->lanes;
    bool idle = !stream->head && !stream->dead &&
                !atomic_load_explicit(&lanes->cancel, memory_order_relaxed) &&
                (!is_blocking(stream) ||
                 atomic_load_explicit(&lanes->busy_blocking, memory_order_relaxed) == 0);
    *seq = atomic_load_explicit(&stream->submitted, memory_order_relaxed);
    pthread_mutex_unlock(&cpu_engine.lock);
    return idle;
}

uint64_t cpu_stream_last(cpu_stream_t *stream)
{
    cpu_engine_lock();
    uint64_t last = stream->submitted;
    cpu_engine_unlock();
    return last;
}

/* Work that a waiter for this stream can do: its head, or what its head waits for. */
static cpu_op_t *helpful_work(const cpu_stream_t *stream, int depth)
{
    cpu_op_t *head = stream->head;
    if (!head || depth > MAX_CHAIN)
        return NULL;
    if (stream->busy)
        return head->listed ? head : NULL;
    for (uint32_t i = 0; i < head->point_count; i++) {
        const cpu_point_t *point = &head->points[i];
        cpu_op_t *op = cpu_stream_passed(point->stream, point->seq)
                           ? NULL
                           : helpful_work(point->stream, depth + 1);
        if (op)
            return op;
    }
    return NULL;
}

static void spin(const cpu_stream_t *stream, uint64_t seq)
{
    uint64_t end = gb_now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < 32; i++) {
            if (cpu_stream_passed(stream, seq))
                return;
            __builtin_ia32_pause();
        }
    } while (gb_now_ns() < end);
}

static void sleep_until_passed(cpu_stream_t *stream, uint64_t seq)
{
    cpu_waiter_t waiter = {.seq = seq};
    pthread_cond_init(&waiter.wake, NULL);
    waiter.next = stream->waiters;
    stream->waiters = &waiter;
    atomic_fetch_add(&cpu_engine.watchers, 1);
    if (atomic_load(&stream->completed) >= seq)
        wake_waiters(stream, seq);
    while (!waiter.done)
        pthread_cond_wait(&waiter.wake, &cpu_engine.lock);
    atomic_fetch_sub(&cpu_engine.watchers, 1);
    pthread_cond_destroy(&waiter.wake);
}

void cpu_sched_wait(cpu_stream_t *stream, uint64_t seq)
{
    bool spun = cpu_engine.seat_count < 2;
    if (cpu_stream_passed(stream, seq))
        return;
    cpu_engine_lock();
    while (!cpu_stream_passed(stream, seq)) {
        cpu_op_t *op = helpful_work(stream, 0);
        if (op && op->stuck)
            op = cpu_engine.run_head; /* it waits for what others do, maybe this one */
        cpu_seat_t *seat = op ? cpu_pool_take_seat() : NULL;
        if (seat) {
            (void)cpu_pool_work(op, seat);
            cpu_pool_give_seat(seat);
            cpu_engine_settle();
            continue;
        }
        if (!spun) {
            spun = true;
            cpu_engine_unlock();
            spin(stream, seq);
            cpu_engine_lock();
            continue;
        }
        cpu_engine_settle();
        if (!cpu_stream_passed(stream, seq))
            sleep_until_passed(stream, seq);
    }
    cpu_engine_unlock();
}

/* The next stream of the context, in order of ids, that has work; with a reference. */
static cpu_stream_t *next_busy(cpu_lanes_t *lanes, uint64_t above, uint64_t *last)
{
    cpu_stream_t *found = NULL;
    cpu_engine_lock();
    for (cpu_stream_t *stream = lanes->streams; stream; stream = stream->context_next)
        if (stream->head && stream->id > above && (!found || stream->id < found->id))
            found = stream;
    if (found) {
        cpu_object_ref(&found->object);
        *last = found->submitted;
    }
    cpu_engine_unlock();
    return found;
}

void cpu_sched_wait_context(cpu_lanes_t *lanes)
{
    uint64_t id = 0, last;
    cpu_stream_t *stream;
    while ((stream = next_busy(lanes, id, &last)) != NULL) {
        cpu_sched_wait(stream, last);
        id = stream->id;
        cpu_object_put(&stream->object);
    }
}

void cpu_sched_memory_written(void)
{
    cpu_engine_lock();
    cpu_engine.recheck = cpu_engine.polling;
    cpu_engine_unlock();
}

void cpu_sched_attach(cpu_stream_t *stream)
{
    static uint64_t ids; /* under the lock */
    cpu_engine_lock();
    stream->id = ++ids;
    stream->context_prev = NULL;
    stream->context_next = stream->lanes->streams;
    if (stream->context_next)
        stream->context_next->context_prev = stream;
    stream->lanes->streams = stream;
    cpu_engine_unlock();
}

void cpu_sched_detach(cpu_stream_t *stream)
{
    cpu_engine_lock();
    stream->dead = true;
    cpu_engine_unlock();
}

void cpu_sched_unlink(cpu_stream_t *stream)
{
    cpu_engine_lock();
    if (stream->context_prev)
        stream->context_prev->context_next = stream->context_next;
    else
        stream->lanes->streams = stream->context_next;
    if (stream->context_next)
        stream->context_next->context_prev = stream->context_prev;
    cpu_engine_unlock();
}

void cpu_sched_fault(cpu_lanes_t *lanes, CUresult fault)
{
    CUresult none = CUDA_SUCCESS;
    atomic_compare_exchange_strong(&lanes->fault, &none, fault);
    atomic_store(&lanes->cancel, 1);
}

void cpu_sched_cancel(cpu_lanes_t *lanes)
{
    cpu_engine_lock();
    atomic_store(&lanes->cancel, 1);
    cpu_engine.recheck = true;
    cpu_engine_unlock();
    cpu_sched_wait_context(lanes);
}

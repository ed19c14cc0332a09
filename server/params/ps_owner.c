#include "server/params/ps_owner.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "server/params/ps_conn.h"
#include "server/params/ps_server.h"
#include "server/params/ps_view.h"

enum { PS_EVENTS = 64, PS_SPIN_MAX_NS = 40000, PS_SPIN_MIN_NS = 2500 };

static void wake(ps_owner_t *owner)
{
    uint64_t one = 1;
    while (write(owner->wake, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

void ps_owner_post(ps_owner_t *owner, ps_task_t *task)
{
    task->next = NULL;
    pthread_mutex_lock(&owner->lock);
    *owner->inbox_end = task;
    owner->inbox_end = &task->next;
    pthread_mutex_unlock(&owner->lock);
    wake(owner);
}

static int run_tasks(ps_owner_t *owner)
{
    uint64_t count;
    while (read(owner->wake, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&owner->lock);
    ps_task_t *task = owner->inbox;
    owner->inbox = NULL;
    owner->inbox_end = &owner->inbox;
    int stopping = owner->stopping;
    pthread_mutex_unlock(&owner->lock);
    while (task) {
        ps_task_t *next = task->next; /* the task may be gone once it has run */
        task->run(owner, task);
        task = next;
    }
    return stopping;
}

/* Frees what died in this round. */
static void reap(ps_owner_t *owner)
{
    int kick = 0;
    for (ps_conn_t **at = &owner->conns; *at;) {
        ps_conn_t *conn = *at;
        if (!conn->dead) {
            at = &conn->next;
            continue;
        }
        *at = conn->next;
        ps_job_went(conn->job, conn->hello.worker, conn->gone);
        kick |= conn->gone != PS_GONE_TOLD;
        ps_conn_free(conn);
    }
    if (kick)
        ps_keeper_kick(owner->ps);
}

static void check_silence(ps_owner_t *owner, uint64_t now)
{
    uint64_t limit = (uint64_t)owner->ps->config.silence_ms * 1000000u;
    for (ps_conn_t *conn = owner->conns; conn; conn = conn->next) {
        if (!conn->dead && gb_link_heard(conn->link) + limit < now)
            ps_conn_kill(conn, PS_GONE_LOST, "was silent for too long");
    }
    owner->next_check = now + limit / 4;
}

static int wait_events(ps_owner_t *owner, struct epoll_event *events)
{
    int n = epoll_wait(owner->epoll, events, PS_EVENTS, 0);
    if (n > 0 || owner->more)
        return n;
    /* Polling for as long as it pays off saves the two wake-ups of a round trip. */
    uint64_t start = gb_now_ns(), end = start + owner->spin_ns;
    while (owner->spin_ns > 0 && owner->conns && gb_now_ns() < end) {
        n = epoll_wait(owner->epoll, events, PS_EVENTS, 0);
        if (n > 0) {
            owner->spin_ns =
                owner->spin_ns * 2 < PS_SPIN_MAX_NS ? owner->spin_ns * 2 : PS_SPIN_MAX_NS;
            return n;
        }
    }
    if (owner->spin_ns > PS_SPIN_MIN_NS)
        owner->spin_ns /= 2;
    return epoll_wait(owner->epoll, events, PS_EVENTS, (int)(owner->ps->config.silence_ms / 4 + 1));
}

/* Connections whose link holds bytes that epoll does not see, or that were interrupted. */
static void read_rest(ps_owner_t *owner)
{
    for (ps_conn_t *conn = owner->conns; conn; conn = conn->next) {
        if (!conn->dead && !conn->paused && !conn->ending)
            ps_conn_read(conn);
    }
}

static void *run(void *arg)
{
    ps_owner_t *owner = arg;
    struct epoll_event events[PS_EVENTS];
    int stopping = 0;
    while (!stopping) {
        int n = wait_events(owner, events);
        int rest = owner->more;
        owner->more = 0;
        for (int i = 0; i < n; i++) {
            ps_conn_t *conn = events[i].data.ptr;
            if (!conn)
                stopping = run_tasks(owner);
            else if (!conn->dead && !conn->paused)
                ps_conn_read(conn);
        }
        if (rest)
            read_rest(owner);
        for (ps_conn_t *conn = owner->conns; conn; conn = conn->next)
            ps_conn_flush(conn);
        uint64_t now = gb_now_ns();
        if (now >= owner->next_check)
            check_silence(owner, now);
        reap(owner);
    }
    for (ps_conn_t *conn = owner->conns; conn; conn = conn->next)
        ps_conn_kill(conn, PS_GONE_TOLD, "the shard stops");
    reap(owner);
    while (owner->views) {
        ps_view_t *view = owner->views;
        owner->views = view->next;
        ps_view_free(view);
    }
    return NULL;
}

gb_status_t ps_owner_start(ps_params_t *ps, uint32_t index, ps_owner_t *owner)
{
    gb_status_t st = GB_OK;
    owner->ps = ps;
    owner->index = index;
    owner->inbox_end = &owner->inbox;
    owner->spin_ns = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? PS_SPIN_MAX_NS : 0;
    owner->next_check = gb_now_ns();
    owner->epoll = epoll_create1(EPOLL_CLOEXEC);
    owner->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
    if (owner->epoll < 0 || owner->wake < 0 ||
        epoll_ctl(owner->epoll, EPOLL_CTL_ADD, owner->wake, &ev) != 0) {
        st = gb_fail_errno(GB_ERR_IO, errno, "cannot make an event loop");
        goto err_close;
    }
    pthread_mutex_init(&owner->lock, NULL);
    int error = pthread_create(&owner->thread, NULL, run, owner);
    if (error != 0) {
        st = gb_fail_errno(GB_ERR_IO, error, "cannot start a thread");
        goto err_lock;
    }
    return GB_OK;

err_lock:
    pthread_mutex_destroy(&owner->lock);
err_close:
    if (owner->epoll >= 0)
        close(owner->epoll);
    if (owner->wake >= 0)
        close(owner->wake);
    return st;
}

void ps_owner_stop(ps_owner_t *owner)
{
    pthread_mutex_lock(&owner->lock);
    owner->stopping = 1;
    pthread_mutex_unlock(&owner->lock);
    wake(owner);
    pthread_join(owner->thread, NULL);
    close(owner->epoll);
    close(owner->wake);
    pthread_mutex_destroy(&owner->lock);
}

/* ---- calls to all ---- */

typedef struct {
    void (*fn)(ps_owner_t *owner, void *arg);
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t done;
    uint32_t left;
} call_t;

typedef struct {
    ps_task_t task;
    call_t *call;
} call_task_t;

static void call_run(ps_owner_t *owner, ps_task_t *task)
{
    call_t *call = ((call_task_t *)task)->call;
    call->fn(owner, call->arg);
    pthread_mutex_lock(&call->lock);
    if (--call->left == 0)
        pthread_cond_signal(&call->done);
    pthread_mutex_unlock(&call->lock);
}

void ps_owners_call(ps_params_t *ps, void (*fn)(ps_owner_t *owner, void *arg), void *arg)
{
    call_t call = {.fn = fn, .arg = arg, .left = ps->owner_count};
    call_task_t tasks[PS_MAX_OWNERS];
    pthread_mutex_init(&call.lock, NULL);
    pthread_cond_init(&call.done, NULL);
    for (uint32_t i = 0; i < ps->owner_count; i++) {
        tasks[i] = (call_task_t){{.run = call_run}, &call};
        ps_owner_post(&ps->owners[i], &tasks[i].task);
    }
    pthread_mutex_lock(&call.lock);
    while (call.left > 0)
        pthread_cond_wait(&call.done, &call.lock);
    pthread_mutex_unlock(&call.lock);
    pthread_cond_destroy(&call.done);
    pthread_mutex_destroy(&call.lock);
}

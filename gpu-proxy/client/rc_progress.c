/* The progress thread: sends batches that nobody has sent, and notices peers that have died.
 *
 * It sleeps in poll() on its own event, on a timer for each session, and on the ends of their sockets. Who
 * queues the first frame of a batch sets the session's timer, and who sends the batch stops it: both cost a
 * short system call and wake nobody, so that this thread sleeps through a program that waits often. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "common/core/gb_log.h"
#include "common/crypto/gb_crypto.h"
#include "gpu-proxy/client/rc_down.h"

static atomic_int armed; /* somebody has asked for a look at all sessions */
static int event = -1;
static pthread_mutex_t end_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t end_changed = PTHREAD_COND_INITIALIZER;
static int running;

void rc_progress_arm(void)
{
    uint64_t one = 1;
    if (atomic_load_explicit(&armed, memory_order_relaxed) ||
        atomic_exchange_explicit(&armed, 1, memory_order_acq_rel))
        return;
    ssize_t n = write(event, &one, sizeof(one));
    (void)n; /* a full counter wakes as well */
}

static void set_running(int value)
{
    pthread_mutex_lock(&end_lock);
    running = value;
    pthread_cond_broadcast(&end_changed);
    pthread_mutex_unlock(&end_lock);
}

void rc_progress_stop(void)
{
    const uint64_t one = 1;
    struct timespec until;
    ssize_t n = write(event, &one, sizeof(one));
    (void)n; /* a full counter wakes as well */
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    pthread_mutex_lock(&end_lock);
    while (running && pthread_cond_timedwait(&end_changed, &end_lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&end_lock);
}

/* With the session's send_lock held. */
static void set_timer(rc_session_t *s, long us)
{
    struct itimerspec when = {.it_value = {0, us * 1000}};
    if (s->timer >= 0)
        timerfd_settime(s->timer, 0, &when, NULL);
    s->timer_runs = us != 0;
}

void rc_progress_queued(rc_session_t *s)
{
    if (s->timer < 0)
        rc_progress_arm();
    else if (!s->timer_runs)
        set_timer(s, RC_FLUSH_US);
}

void rc_progress_sent(rc_session_t *s)
{
    if (s->timer_runs && atomic_load(&s->down_count) == 0) /* of those the thread takes care then */
        set_timer(s, 0);
}

/* Whoever holds the lock sends, or queues more: then the timer is to come again. */
static void send_old_batch(rc_session_t *s)
{
    uint64_t count;
    if (read(s->timer, &count, sizeof(count)) < 0)
        return; /* it was stopped just then */
    if (pthread_mutex_trylock(&s->send_lock) != 0) {
        struct itimerspec when = {.it_value = {0, RC_FLUSH_US * 1000}};
        timerfd_settime(s->timer, 0, &when, NULL);
        return;
    }
    s->timer_runs = 0;
    rc_session_flush(s);
    pthread_mutex_unlock(&s->send_lock);
    rc_down_watch(s);
}

/* What cannot be sent now is tried again, a moment later. */
static void look_at_all(void)
{
    int left = 0;
    atomic_store(&armed, 0);
    for (int i = 0; i < rc.session_count; i++) {
        rc_session_t *s = rc.sessions[i];
        if (pthread_mutex_trylock(&s->send_lock) == 0) {
            rc_session_flush(s);
            pthread_mutex_unlock(&s->send_lock);
        } else {
            left = left || gb_durable_unsent(s->stream) || gb_durable_ack_due(s->stream);
        }
        rc_down_watch(s);
    }
    if (left) {
        struct timespec nap = {0, RC_FLUSH_US * 1000};
        nanosleep(&nap, NULL);
        atomic_store(&armed, 1);
    }
}

/* The end of a session's socket: of shared memory it tells that the peer is gone; another connection is
 * made anew, so that it does not take a call to find out. 1 = it is over. */
static int end_of_socket(rc_session_t *session)
{
    if (!gb_durable_keeps(session->stream)) { /* of other links who sends or receives finds out */
        gb_link_peer_gone(gb_durable_link(session->stream));
        return 1;
    }
    if (gb_durable_revive(session->stream) == GB_OK)
        return 0;
    rc_session_lose(session, gb_why());
    return 1;
}

static void watch(void)
{
    struct pollfd fds[2 * RC_SESSIONS + 1];
    int over[RC_SESSIONS] = {0}, count = rc.session_count;
    int pause = 1 << 30;
    for (int i = 0; i < count; i++)
        if ((int)rc.sessions[i]->timeout_ms / 6 < pause)
            pause = (int)rc.sessions[i]->timeout_ms / 6;
    while (atomic_load(&rc.phase) != RC_OVER) {
        uint64_t rings;
        if (atomic_load(&armed)) {
            look_at_all();
            continue;
        }
        fds[0] = (struct pollfd){event, POLLIN, 0};
        for (int i = 0; i < count; i++) {
            int fd = over[i] ? -1 : gb_durable_fd(rc.sessions[i]->stream);
            fds[2 * i + 1] = (struct pollfd){fd, POLLRDHUP, 0};
            fds[2 * i + 2] = (struct pollfd){rc.sessions[i]->timer, POLLIN, 0};
        }
        gb_crypto_thread_end(); /* this thread outlives libcrypto */
        if (poll(fds, 2 * (nfds_t)count + 1, pause) < 0)
            continue; /* no signal comes here; whatever it is, look again */
        if (fds[0].revents && read(event, &rings, sizeof(rings)) < 0 && errno != EAGAIN)
            return;
        for (int i = 0; i < count; i++)
            rc_session_ping(rc.sessions[i]);
        for (int i = 0; i < count; i++)
            rc_session_check_silence(rc.sessions[i]);
        for (int i = 0; i < count; i++)
            if (fds[2 * i + 2].revents)
                send_old_batch(rc.sessions[i]);
        for (int i = 0; i < count; i++)
            if (fds[2 * i + 1].revents)
                over[i] = end_of_socket(rc.sessions[i]);
    }
}

static void *progress(void *arg)
{
    (void)arg;
    prctl(PR_SET_NAME, "gable-flush");
    prctl(PR_SET_TIMERSLACK, 1000ul);
    watch();
    gb_crypto_thread_end();
    set_running(0);
    return NULL;
}

gb_status_t rc_progress_start(void)
{
    sigset_t all, before;
    pthread_t thread;
    if (event < 0)
        event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event < 0)
        return gb_fail_errno(GB_ERR_IO, errno, "eventfd");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 0; i < rc.session_count; i++) /* without one the thread looks at all sessions */
        rc.sessions[i]->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    set_running(1);
    int error = pthread_create(&thread, NULL, progress, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        set_running(0);
        return gb_fail_errno(GB_ERR_IO, error, "cannot start a thread");
    }
    pthread_detach(thread);
    for (int i = 0; i < rc.session_count; i++)
        gb_link_set_watched(gb_durable_link(rc.sessions[i]->stream));
    return GB_OK;
}

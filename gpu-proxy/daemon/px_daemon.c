/* The loop of a proxy: accept, check the proof, start a session, watch it end.
 *
 * One thread does all of it, with poll(): nothing in the loop waits for a peer. Sessions are started
 * from this thread because they die with it (PR_SET_PDEATHSIG). What other threads ask for (list, kill,
 * stop) goes through the sessions table's lock or the wake descriptor. */
#include "gpu-proxy/daemon/px_daemon.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "common/link/gb_listener.h"
#include "common/link/gb_preamble.h"
#include "gpu-proxy/daemon/px_halfopen.h"
#include "gpu-proxy/daemon/px_process.h"
#include "gpu-proxy/daemon/px_sessions.h"
#include "gpu-proxy/daemon/px_spares.h"
#include "gpu-proxy/session/px_boot.h"

enum {
    PROBE_SECONDS = 60,
    FIXED_DESCRIPTORS = 5, /* two listeners, signals, grants, wake */
    ACCEPT_BATCH = 16,     /* per round, so that a flood does not starve the rest */
    PAUSE_MS = 100,        /* no accepting, after the descriptors ran out */
    REAP_MS = 200,         /* a second net below SIGCHLD, while sessions run */
    NONCES = 1024,         /* preambles remembered, so that a recorded one starts no process */
};

struct px_daemon {
    px_daemon_config_t config;
    px_grants_t *grants;
    px_inventory_t inventory;
    gb_listener_t *listeners[2]; /* TCP and Unix; NULL if not wanted */
    px_halfopen_t *halfopen;
    px_sessions_t *sessions;
    px_spares_t *spares;
    struct pollfd *fds;
    int signals;
    int wake;
    atomic_int stop;
    uint64_t accept_again;                 /* gb_now_ns() until which accepting pauses */
    uint8_t nonces[NONCES][GB_NONCE_SIZE]; /* of the preambles accepted last, a ring */
    unsigned next_nonce;
    char endpoint[GB_ENDPOINT_TEXT];
    void (*changed)(void *arg);
    void *changed_arg;
};

/* ---- making and ending ---- */

static gb_status_t open_one(px_daemon_t *d, int slot, const char *text)
{
    gb_endpoint_t e;
    if (!*text)
        return GB_OK;
    gb_status_t st = gb_endpoint_parse(text, 7072, &e);
    if (st == GB_OK && d->config.anonymous && !gb_endpoint_is_local(&e))
        st = gb_fail(GB_ERR_INVALID,
                     "%s can be reached from other machines and nobody would need a key: give "
                     "--server or --key-file, or listen on 127.0.0.1",
                     text);
    if (st == GB_OK)
        st = gb_listener_open(&e, d->config.anonymous, &d->listeners[slot]);
    return st;
}

static gb_status_t open_listeners(px_daemon_t *d)
{
    char path[GB_ENDPOINT_TEXT] = "";
    if (*d->config.unix_path)
        snprintf(path, sizeof path, "unix:%s", d->config.unix_path);
    gb_status_t st = open_one(d, 0, d->config.data_listen);
    if (st == GB_OK)
        st = open_one(d, 1, path);
    if (st == GB_OK && !d->listeners[0] && !d->listeners[1])
        st = gb_fail(GB_ERR_INVALID, "nothing to listen on: give --data-listen or --unix");
    if (st != GB_OK)
        return st;
    gb_endpoint_format(gb_listener_endpoint(d->listeners[d->listeners[0] ? 0 : 1]), d->endpoint);
    if (*d->config.advertise)
        snprintf(d->endpoint, sizeof d->endpoint, "%s", d->config.advertise);
    return GB_OK;
}

static gb_status_t open_descriptors(px_daemon_t *d)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    d->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    d->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (d->signals < 0 || d->wake < 0)
        return gb_fail_errno(GB_ERR_IO, errno, "signalfd, eventfd");
    d->fds = calloc((size_t)(FIXED_DESCRIPTORS + d->config.half_open_limit +
                             PX_SESSION_POLLS * d->config.session_limit),
                    sizeof *d->fds);
    return d->fds ? GB_OK : gb_fail(GB_ERR_NO_MEMORY, "out of memory");
}

/* The software device is one in each session's process: here it becomes one for all. NVIDIA's driver counts for
 * all processes itself. */
static void share_memory(px_daemon_t *d)
{
    uint64_t memory[PX_DEVICES] = {0};
    const px_inventory_t *found = &d->inventory;
    for (int i = 0; i < found->device_count && strcmp(found->driver_kind, "nvidia"); i++)
        if (found->devices[i].ordinal < PX_DEVICES)
            memory[found->devices[i].ordinal] = found->devices[i].memory;
    px_sessions_set_memory(d->sessions, memory);
}

gb_status_t px_daemon_create(const px_daemon_config_t *config, px_grants_t *grants,
                             px_daemon_t **out)
{
    px_daemon_t *d = calloc(1, sizeof *d);
    if (!d)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    d->config = *config;
    d->grants = grants;
    d->signals = d->wake = -1;
    gb_status_t st = open_descriptors(d);
    if (st == GB_OK)
        st = px_sessions_create(config->session_limit, &d->sessions);
    if (st == GB_OK)
        st = px_halfopen_create(config->half_open_limit, config->preamble_ms, &d->halfopen);
    if (st == GB_OK)
        st = px_spares_create(config->driver, *config->data_listen && !config->insecure,
                              config->spare_sessions, &d->spares);
    if (st == GB_OK)
        st = open_listeners(d);
    if (st == GB_OK)
        st = px_process_probe(config->driver, PROBE_SECONDS, &d->inventory);
    if (st == GB_OK)
        share_memory(d);
    if (st != GB_OK)
        px_daemon_destroy(d);
    else
        *out = d;
    return st;
}

void px_daemon_destroy(px_daemon_t *d)
{
    if (!d)
        return;
    gb_listener_close(d->listeners[0]);
    gb_listener_close(d->listeners[1]);
    px_halfopen_destroy(d->halfopen);
    px_sessions_destroy(d->sessions);
    px_spares_destroy(d->spares);
    if (d->signals >= 0)
        close(d->signals);
    if (d->wake >= 0)
        close(d->wake);
    free(d->fds);
    free(d);
}

/* ---- an arrival becomes a session ---- */

static void fill_boot(px_boot_t *boot, const px_daemon_t *d, const px_grant_t *grant,
                      const gb_preamble_t *facts, const gb_key_t *key, const char *peer)
{
    *boot = (px_boot_t){.timeout_ms = d->config.session_timeout_s * 1000,
                        .facts = *facts,
                        .key = *key,
                        .memory_quota = grant->memory,
                        .expires_ms = grant->expires_ms,
                        .device_count = grant->device_count};
    for (int i = 0; i < grant->device_count; i++)
        boot->devices[i] = grant->devices[i];
    snprintf(boot->peer, sizeof boot->peer, "%s", peer);
    snprintf(boot->tenant, sizeof boot->tenant, "%s", grant->tenant);
}

/* Starts the process, answers the client, hands the connection over. */
static gb_status_t start_session(px_daemon_t *d, const px_arrival_t *arrival,
                                 const gb_preamble_t *facts, const px_grant_t *grant)
{
    px_boot_t boot;
    pid_t pid;
    px_sockets_t ours, its;
    int control;
    gb_status_t st = px_sockets_pair(&ours, &its);
    if (st != GB_OK)
        return st;
    st = px_spares_take(d->spares, &pid, &control);
    if (st != GB_OK)
        st = px_process_session(d->config.driver, 0, &pid, &control);
    if (st != GB_OK) {
        px_sockets_close(&ours);
        px_sockets_close(&its);
        return st;
    }
    px_session_info_t info = {
        .id = facts->session, .lease = facts->lease, .pid = pid, .started_ms = gb_wall_ms()};
    snprintf(info.peer, sizeof info.peer, "%s", arrival->peer);
    snprintf(info.holder, sizeof info.holder, "%s", grant->holder);
    px_sessions_add(d->sessions, &info, grant, control, &ours);
    /* The answer goes out before the session can send anything on the same connection. */
    st = gb_preamble_answer(arrival->fd, GB_OK);
    fill_boot(&boot, d, grant, facts, &grant->key, arrival->peer);
    if (st == GB_OK)
        st = px_boot_send(control, &boot, arrival->fd, &its);
    px_sockets_close(&its);
    gb_wipe(&boot, sizeof boot);
    if (st != GB_OK)
        (void)px_sessions_kill(d->sessions, facts->session); /* it has no client */
    else
        gb_log(GB_LOG_INFO, "session %016llx of %s, lease %016llx, is process %d",
               (unsigned long long)facts->session, arrival->peer, (unsigned long long)facts->lease,
               (int)pid);
    return st;
}

/* A client whose connection was cut comes again, or another session of the client wants to talk to this one:
 * it waits for them. */
static gb_status_t pass_on(px_daemon_t *d, const px_arrival_t *arrival, const gb_preamble_t *facts,
                           const px_grant_t *grant, const gb_key_t *key)
{
    px_boot_t boot;
    fill_boot(&boot, d, grant, facts, key, arrival->peer);
    gb_status_t st = px_sessions_pass(d->sessions, &boot, arrival->fd);
    gb_wipe(&boot, sizeof boot);
    if (st == GB_OK)
        gb_log(GB_LOG_INFO, "session %016llx is %s %s", (unsigned long long)facts->session,
               facts->service == GB_SERVICE_PEER ? "dialled by another session, from"
                                                 : "resumed from",
               arrival->peer);
    return st;
}

/* A recorded preamble could not get through the handshake, but it would cost a process. */
static gb_status_t check_fresh(px_daemon_t *d, const gb_preamble_t *facts)
{
    for (int i = 0; i < NONCES; i++)
        if (!memcmp(d->nonces[i], facts->nonce, GB_NONCE_SIZE))
            return gb_fail(GB_ERR_UNAUTHORISED, "a preamble of lease %016llx comes a second time",
                           (unsigned long long)facts->lease);
    memcpy(d->nonces[d->next_nonce++ % NONCES], facts->nonce, GB_NONCE_SIZE);
    return GB_OK;
}

/* The checks in the order in which they reveal something: the proof comes first. */
static gb_status_t admit(px_daemon_t *d, const px_arrival_t *arrival)
{
    gb_preamble_t facts;
    gb_key_t key;
    px_grant_t grant = {0};
    gb_service_t service = gb_preamble_service(arrival->preamble) == GB_SERVICE_PEER
                               ? GB_SERVICE_PEER
                               : GB_SERVICE_SESSION;
    gb_status_t st =
        gb_preamble_verify(arrival->preamble, service, px_grants_key, d->grants, &facts, &key);
    if (st != GB_OK)
        return st;
    st = check_fresh(d, &facts);
    if (st == GB_OK)
        st = px_grants_find(d->grants, facts.lease, &grant);
    if (st == GB_OK)
        st = gb_preamble_allowed(arrival->fd, &facts, d->config.insecure);
    int runs = facts.connection || service == GB_SERVICE_PEER;
    if (st == GB_OK && runs)
        st = pass_on(d, arrival, &facts, &grant, &key);
    else if (st == GB_OK)
        st = px_sessions_check(d->sessions, facts.lease, facts.session);
    if (st == GB_OK && !runs)
        st = start_session(d, arrival, &facts, &grant);
    gb_wipe(&grant, sizeof grant);
    gb_wipe(&key, sizeof key);
    return st;
}

static void serve_arrivals(px_daemon_t *d)
{
    px_arrival_t arrival;
    int begun = 0;
    while (px_halfopen_next(d->halfopen, &arrival) == GB_OK) {
        gb_status_t st = admit(d, &arrival);
        if (st != GB_OK) {
            gb_log(GB_LOG_WARN, "connection from %s refused: %s", arrival.peer, gb_why());
            (void)gb_preamble_answer(arrival.fd, st); /* whether it is heard changes nothing */
        }
        begun += st == GB_OK;
        close(arrival.fd);
        gb_wipe(&arrival, sizeof arrival);
    }
    if (begun && d->changed)
        d->changed(d->changed_arg);
}

/* ---- the loop ---- */

static void accept_some(px_daemon_t *d, gb_listener_t *listener)
{
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        int fd;
        char peer[GB_PEER_TEXT];
        gb_status_t st = gb_listener_accept(listener, 0, &fd, peer);
        if (st == GB_OK) {
            px_halfopen_add(d->halfopen, fd, peer);
            continue;
        }
        if (st != GB_ERR_AGAIN) {
            gb_log(GB_LOG_ERROR, "%s", gb_why());
            d->accept_again = gb_now_ns() + PAUSE_MS * 1000000ull;
        }
        return;
    }
}

static void read_signals(px_daemon_t *d)
{
    struct signalfd_siginfo info;
    while (read(d->signals, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGCHLD)
            atomic_store(&d->stop, 1);
}

static void drain(int fd)
{
    uint64_t count;
    while (read(fd, &count, sizeof count) > 0)
        ;
}

/* Milliseconds until something is due without a descriptor telling; -1 = nothing is. */
static int next_timeout(px_daemon_t *d, int sessions)
{
    uint64_t now = gb_now_ns();
    uint64_t due = px_halfopen_deadline(d->halfopen);
    uint64_t expiry = px_grants_next_expiry(d->grants);
    if (d->accept_again > now && d->accept_again < due)
        due = d->accept_again;
    if (px_spares_due(d->spares) < due)
        due = px_spares_due(d->spares);
    if (sessions && now + REAP_MS * 1000000ull < due)
        due = now + REAP_MS * 1000000ull;
    if (expiry && sessions) {
        uint64_t wall = gb_wall_ms();
        uint64_t at = now + (expiry > wall ? expiry - wall : 0) * 1000000u;
        due = at < due ? at : due;
    }
    if (due == UINT64_MAX)
        return -1;
    return due <= now ? 0 : (int)((due - now) / 1000000u) + 1;
}

static void run_round(px_daemon_t *d)
{
    struct pollfd *p = d->fds;
    int n = 0;
    int accepting = gb_now_ns() >= d->accept_again;
    p[n++] = (struct pollfd){d->signals, POLLIN, 0};
    p[n++] = (struct pollfd){d->wake, POLLIN, 0};
    p[n++] = (struct pollfd){px_grants_changed_fd(d->grants), POLLIN, 0};
    for (int i = 0; i < 2; i++)
        p[n++] = (struct pollfd){
            accepting && d->listeners[i] ? gb_listener_fd(d->listeners[i]) : -1, POLLIN, 0};
    n += px_halfopen_poll(d->halfopen, p + n);
    int sessions = px_sessions_poll(d->sessions, p + n, PX_SESSION_POLLS * d->config.session_limit);
    n += sessions;
    int timeout = next_timeout(d, (int)px_sessions_list(d->sessions, NULL, 0));
    if (poll(p, (nfds_t)n, timeout) < 0 && errno != EINTR)
        gb_log(GB_LOG_ERROR, "poll: %s", strerror(errno));

    read_signals(d);
    drain(d->wake);
    drain(px_grants_changed_fd(d->grants));
    px_sessions_enforce(d->sessions, d->grants);
    px_sessions_read_reports(d->sessions);
    if (px_sessions_reap(d->sessions) && d->changed)
        d->changed(d->changed_arg);
    serve_arrivals(d);
    px_spares_fill(d->spares);
    for (int i = 0; i < 2; i++)
        if (accepting && d->listeners[i])
            accept_some(d, d->listeners[i]);
}

gb_status_t px_daemon_run(px_daemon_t *d)
{
    while (!atomic_load(&d->stop))
        run_round(d);
    return GB_OK;
}

void px_daemon_stop(px_daemon_t *d)
{
    uint64_t one = 1;
    atomic_store(&d->stop, 1);
    ssize_t n = write(d->wake, &one, sizeof one);
    (void)n; /* a full counter wakes as well */
}

/* ---- for the control plane ---- */

const px_inventory_t *px_daemon_inventory(const px_daemon_t *d)
{
    return &d->inventory;
}

const char *px_daemon_data_endpoint(const px_daemon_t *d)
{
    return d->endpoint;
}

const char *px_daemon_unix_path(const px_daemon_t *d)
{
    return d->config.unix_path;
}

size_t px_daemon_sessions(px_daemon_t *d, px_session_info_t *out, size_t cap)
{
    return px_sessions_list(d->sessions, out, cap);
}

gb_status_t px_daemon_session_kill(px_daemon_t *d, uint64_t id)
{
    return px_sessions_kill(d->sessions, id);
}

void px_daemon_on_sessions(px_daemon_t *d, void (*changed)(void *arg), void *arg)
{
    d->changed = changed;
    d->changed_arg = arg;
}

/* gpu-session: one client's process. Started by gpu-proxy only; see px_boot.h.
 *
 * It never outlives its proxy (PR_SET_PDEATHSIG, and EOF on the control socket) nor its client: a
 * watcher thread ends the process at most a second after the client's end of the connection, even
 * while the thread that serves it is stuck in the driver. Device memory goes with the process. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "common/core/gb_log.h"
#include "common/core/gb_opt.h"
#include "common/cuda/gb_driver.h"
#include "common/link/gb_link.h"
#include "gpu-proxy/session/px_boot.h"
#include "gpu-proxy/session/px_confine.h"
#include "gpu-proxy/session/px_output.h"
#include "gpu-proxy/session/px_probe.h"
#include "gpu-proxy/session/px_session.h"
#include "gpu-proxy/session/px_tenant.h"

enum { HANDSHAKE_SECONDS = 5, GRACE_MS = 1000, SETTLED_MS = 1000, LOCKER_SECONDS = 10 };

typedef struct {
    const char *driver;
    bool probe;
    bool tls;
} options_t;

static const gb_opt_t OPTIONS[] = {
    {"driver", GB_OPT_STRING, offsetof(options_t, driver), "auto", NULL, "NAME",
     "auto, nvidia, cpu (software device), null (does nothing), or the path of a libcuda"},
    {"probe", GB_OPT_FLAG, offsetof(options_t, probe), "false", NULL, NULL,
     "list and measure the devices on stdout, then end"},
    {"tls", GB_OPT_FLAG, offsetof(options_t, tls), "false", NULL, NULL,
     "be ready for a client that comes with TLS, before it comes"},
    {NULL},
};

static const gb_opt_table_t TABLE = {
    "gpu-session", "gpu-session --probe [--driver NAME]",
    "Executes one client's CUDA calls. Started by gpu-proxy for each client; by hand only with\n"
    "--probe, to see what a driver offers.",
    OPTIONS};

/* The driver table, its kind and where it comes from. */
typedef struct {
    gb_cuda_table_t null_table;
    const gb_cuda_table_t *table;
    const char *kind;
    const char *path;
} driver_t;

static gb_status_t open_driver(const char *choice, driver_t *out)
{
    const gb_driver_t *driver;
    if (!strcmp(choice, "null")) {
        px_null_driver(&out->null_table);
        out->table = &out->null_table;
        out->kind = "null";
        out->path = "-";
        return GB_OK;
    }
    gb_status_t st = gb_driver_choose(choice, &driver);
    if (st != GB_OK)
        return st;
    if (driver->kind == GB_DRIVER_REMOTE)
        return gb_fail(GB_ERR_INVALID,
                       "%s is Gable's own remote driver: give the path of a real "
                       "one, or --driver cpu",
                       driver->path);
    out->table = &driver->table;
    out->kind = driver->kind_name;
    out->path = driver->path;
    return GB_OK;
}

static int probe(const char *choice)
{
    static driver_t driver;
    gb_status_t st = open_driver(choice, &driver);
    if (st == GB_OK)
        st = px_probe_run(driver.table, driver.kind, driver.path, stdout);
    if (st == GB_OK)
        return 0;
    gb_complain("%s", gb_why());
    return 1;
}

/* ---- the watcher ---- */

/* The watcher ends the process, or goes on with a link that the client has dialled anew. */
typedef struct {
    gb_durable_t *stream;
    px_peers_t *peers;
    uint32_t timeout_ms;
    uint32_t connection; /* of the current link */
} watched_t;

/* Takes a new connection over from the daemon: the client's, or one of another session of the client. */
static gb_status_t take_connection(watched_t *w)
{
    px_boot_t boot;
    gb_link_t *link;
    uint64_t received, peer_received, deadline = gb_now_ns() + HANDSHAKE_SECONDS * 1000000000ull;
    px_sockets_t more;
    int fd;
    gb_status_t st = px_boot_receive(PX_BOOT_FD, &boot, &fd, &more);
    if (st == GB_OK)
        px_sockets_close(&more); /* there are some already */
    if (st == GB_ERR_LOST) {
        gb_log(GB_LOG_WARN, "gpu-proxy is gone: the session ends");
        _exit(1);
    }
    if (st != GB_OK)
        return st;
    if (boot.facts.service == GB_SERVICE_PEER) {
        px_peers_offer(w->peers, fd, &boot.facts, &boot.key);
        gb_wipe(&boot.key, sizeof boot.key);
        return GB_OK;
    }
    uint32_t connection = boot.facts.connection;
    st = gb_link_adopt(fd, &boot.facts, &boot.key, deadline, &link);
    gb_wipe(&boot.key, sizeof boot.key);
    if (st != GB_OK)
        return st;
    gb_link_set_silence(link, w->timeout_ms);
    if (connection <= w->connection)
        st = gb_fail(GB_ERR_PROTOCOL, "connection %u comes after %u", connection, w->connection);
    if (st == GB_OK)
        st = gb_durable_suspend(w->stream, &received);
    if (st == GB_OK)
        st = gb_durable_exchange(link, received, deadline, &peer_received);
    if (st != GB_OK) {
        gb_link_close(link);
        return st;
    }
    w->connection = connection;
    st = gb_durable_resume(w->stream, link, peer_received);
    if (st == GB_OK)
        gb_log(GB_LOG_INFO, "the client is here again: connection %u", connection);
    /* What the client has not got yet; the dispatcher reads meanwhile. Yet another cut shows in the
     * watcher's loop. */
    if (st == GB_OK)
        (void)gb_durable_push(w->stream, 0);
    return st;
}

/* The socket of the client has come to its end. Comes back if another one is on its way. */
static void end_of_client(const watched_t *w)
{
    struct pollfd p = {PX_BOOT_FD, POLLIN, 0};
    gb_link_peer_gone(gb_durable_link(w->stream));
    /* The serving thread sees the end as well, after what was sent before it. */
    if (poll(&p, 1, GRACE_MS) == 1)
        return;
    gb_log(GB_LOG_INFO, "the client is gone: the session ends in the middle of its work");
    _exit(0);
}

/* A client that is stopped, or whose machine has vanished without a word, sends no pings. Bytes that wait
 * for a busy dispatcher do count as a sign of life. */
static void check_silence(const watched_t *w)
{
    gb_link_t *link = gb_durable_link(w->stream);
    uint64_t heard = gb_link_heard(link),
             now = gb_now_ns(); /* in this order: it may be heard now */
    if (now - heard < w->timeout_ms * 1000000ull || gb_link_has_input(link))
        return;
    gb_log(GB_LOG_WARN, "the client has been silent for %u ms: the session ends", w->timeout_ms);
    _exit(0);
}

static void *watch_main(void *arg)
{
    watched_t *w = arg;
    int pause = (int)(w->timeout_ms / 4);
    for (int timeout = SETTLED_MS < pause ? SETTLED_MS : pause;;) {
        struct pollfd p[2] = {{PX_BOOT_FD, POLLIN, 0},
                              {gb_link_fd(gb_durable_link(w->stream)), POLLRDHUP, 0}};
        int ready = poll(p, 2, timeout);
        if (ready < 0)
            continue;
        if (ready == 0) { /* the client has begun: there is time to tidy up */
            timeout = pause;
            px_tenant_bound();
            check_silence(w);
            px_session_alive();
            continue;
        }
        if (p[0].revents) {
            if (take_connection(w) != GB_OK)
                gb_log(GB_LOG_WARN, "a new connection is of no use: %s", gb_why());
        } else if (p[1].revents) {
            end_of_client(w);
        }
    }
    return NULL;
}

static gb_status_t start_watcher(watched_t *w)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int error = pthread_create(&thread, &attributes, watch_main, w);
    pthread_attr_destroy(&attributes);
    if (!error)
        gb_link_set_watched(gb_durable_link(w->stream));
    return error ? gb_fail_errno(GB_ERR_IO, error, "cannot start a thread") : GB_OK;
}

/* ---- serving ---- */

static void report_used(void *arg, uint64_t bytes)
{
    (void)arg;
    px_boot_report(PX_BOOT_FD, bytes);
}

/* Opens and initialises the driver: before a client is there, if this is a spare session. A driver that
 * does not work is reported when the client comes. */
static gb_status_t prepare(const char *choice, bool tls, driver_t *driver)
{
    int count;
    gb_status_t st = open_driver(choice, driver);
    if (st != GB_OK)
        return st;
    /* Lazy loading may wait for a busy device in the middle of a queued launch. */
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    if (driver->table->cuInit(0) == CUDA_SUCCESS)
        (void)driver->table->cuDeviceGetCount(&count);
    gb_crypto_warm();
    if (tls)
        gb_link_warm();
    tzset(); /* of log lines */
    if (strcmp(driver->kind, "nvidia"))
        px_confine_calls();
    return GB_OK;
}

static gb_status_t serve(const options_t *o)
{
    static px_boot_t boot; /* wiped below; not on a stack that stays in use */
    static driver_t driver;
    static watched_t watched;
    gb_link_t *link;
    px_sockets_t sockets;
    int fd;
    gb_status_t prepared = prepare(o->driver, o->tls, &driver);
    gb_status_t st = px_boot_receive(PX_BOOT_FD, &boot, &fd, &sockets);
    if (st == GB_OK && prepared != GB_OK)
        return prepared;
    if (st != GB_OK)
        return st;
    st = gb_link_adopt(fd, &boot.facts, &boot.key, gb_now_ns() + HANDSHAKE_SECONDS * 1000000000ull,
                       &link);
    gb_wipe(&boot.key, sizeof boot.key);
    if (st != GB_OK)
        return st;
    gb_link_set_silence(link, boot.timeout_ms);
    if (sockets.locker >= 0) /* the daemon answers at once, or not at all */
        setsockopt(sockets.locker, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){LOCKER_SECONDS, 0},
                   sizeof(struct timeval));
    watched.timeout_ms = boot.timeout_ms;
    st = gb_durable_create(link, NULL, NULL, &watched.stream);
    if (st == GB_OK)
        st = px_peers_create(boot.timeout_ms, &watched.peers);
    if (st == GB_OK)
        st = px_tenant_cache(boot.tenant);
    if (st == GB_OK)
        st = start_watcher(&watched);
    if (st == GB_OK)
        st = px_output_capture();
    if (st != GB_OK)
        return st;
    px_account_t *account = px_account_open(sockets.account);
    if (!account)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    px_session_config_t config = {.driver = driver.table,
                                  .driver_name = driver.kind,
                                  .devices = boot.devices,
                                  .device_count = boot.device_count,
                                  .memory_quota = boot.memory_quota,
                                  .account = account,
                                  .timeout_ms = boot.timeout_ms,
                                  .reachable = !strcmp(driver.kind, "gable-cpu"),
                                  .used = report_used,
                                  .peers = watched.peers,
                                  .locker = sockets.locker};
    st = px_session_run(&config, watched.stream);
    px_tenant_bound();
    return st;
}

/* Whoever runs the client's code must not gain rights, nor outlive the daemon, nor see what the daemon
 * has open. */
static gb_status_t confine(void)
{
    int type = 0;
    socklen_t n = sizeof type;
    if (getsockopt(PX_BOOT_FD, SOL_SOCKET, SO_TYPE, &type, &n) || type != SOCK_SEQPACKET)
        return gb_fail(GB_ERR_INVALID, "this program is started by gpu-proxy: run that, or give "
                                       "--probe");
    gb_status_t st = px_confine_process(PX_BOOT_FD);
    if (st != GB_OK)
        return st;
    signal(SIGPIPE, SIG_IGN);
    return GB_OK;
}

int main(int argc, char **argv)
{
    options_t o;
    int first;
    gb_log_init("gpu-session", GB_LOG_INFO);
    gb_status_t st = gb_opt_parse(&TABLE, argc, argv, 0, &o, &first);
    if (st == GB_ERR_CANCELLED)
        return 0;
    if (st == GB_OK && o.probe)
        return probe(o.driver);
    if (st == GB_OK)
        st = confine();
    if (st != GB_OK) {
        gb_complain("%s", gb_why());
        return 2;
    }
    st = serve(&o);
    if (st != GB_OK && st != GB_ERR_LOST)
        gb_log(GB_LOG_WARN, "the session ends: %s", gb_why());
    /* No exit handlers: a driver that is still working would be waited for. */
    _exit(st == GB_OK || st == GB_ERR_LOST ? 0 : 1);
}

/* gpu-proxy: serves the GPUs of this machine to clients that hold a lease. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "common/core/gb_log.h"
#include "common/core/gb_opt.h"
#include "common/lease/gb_lease.h"
#include "gpu-proxy/daemon/px_control.h"
#include "gpu-proxy/daemon/px_daemon.h"
#include "gpu-proxy/daemon/px_spares.h"

typedef struct {
    const char *listen;
    const char *data_listen;
    const char *unix_path;
    const char *advertise;
    const char *driver;
    const char *server;
    const char *name;
    const char *tls_dir;
    const char *key_file;
    const char *config;
    bool insecure;
    int64_t timeout_s;
    int64_t sessions;
    int64_t spare;
    int64_t half_open;
    int64_t preamble_ms;
} options_t;

#define FIELD(field) offsetof(options_t, field)

static const gb_opt_t OPTIONS[] = {
    {"server", GB_OPT_STRING, FIELD(server), "", "GABLE_SERVER", "HOST:PORT",
     "the ps-server to register at; without one the proxy stands alone"},
    {"listen", GB_OPT_STRING, FIELD(listen), "127.0.0.1:7071", NULL, "HOST:PORT",
     "control port (gRPC), opened when there is a --server"},
    {"data-listen", GB_OPT_STRING, FIELD(data_listen), "127.0.0.1:7072", NULL, "HOST:PORT",
     "data port for clients (TLS with their lease's key); 'none' = no TCP port"},
    {"unix", GB_OPT_STRING, FIELD(unix_path), "", NULL, "PATH",
     "Unix socket for clients on this machine"},
    {"advertise", GB_OPT_STRING, FIELD(advertise), "", NULL, "HOST:PORT",
     "data endpoint told to clients, where the bound one cannot be reached"},
    {"driver", GB_OPT_STRING, FIELD(driver), "auto", "GABLE_DRIVER", "NAME",
     "auto, nvidia, cpu (software device), null (does nothing), or the path of a libcuda"},
    {"name", GB_OPT_STRING, FIELD(name), "", NULL, "NAME",
     "name of this proxy in the cluster; default: host name and data port"},
    {"tls-dir", GB_OPT_STRING, FIELD(tls_dir), "", "GABLE_TLS_DIR", "DIR",
     "certificates made by `gable ca`, for the control plane"},
    {"key-file", GB_OPT_STRING, FIELD(key_file), "", NULL, "FILE",
     "a key (64 hex digits) for clients without a lease (their GABLE_KEY_FILE)"},
    {"insecure", GB_OPT_FLAG, FIELD(insecure), "false", NULL, NULL,
     "allow plain TCP and gRPC; on loopback and Unix sockets, without --server and\n"
     "--key-file, let anybody in"},
    {"session-timeout", GB_OPT_INT, FIELD(timeout_s), "15", NULL, "SECONDS",
     "silence of a client after which its session ends"},
    {"sessions", GB_OPT_INT, FIELD(sessions), "256", NULL, "N", "sessions at a time"},
    {"spare", GB_OPT_INT, FIELD(spare), "1", NULL, "N",
     "sessions kept ready, so that a client does not wait for the driver to start"},
    {"half-open", GB_OPT_INT, FIELD(half_open), "64", NULL, "N",
     "connections at a time that have not proved their key yet"},
    {"preamble-timeout", GB_OPT_INT, FIELD(preamble_ms), "2000", NULL, "MS",
     "time in which a connection must prove its key"},
    {"config", GB_OPT_STRING, FIELD(config), "", NULL, "FILE",
     "these options as `name = value` lines; deploy/samples has one"},
    {NULL},
};

static const gb_opt_table_t TABLE = {
    "gpu-proxy", "gpu-proxy [options]",
    "Serves the GPUs of this machine, or the software device, to CUDA programs elsewhere. With\n"
    "--server it joins a cluster; alone it serves clients that name it in GABLE_PROXIES.",
    OPTIONS};

static gb_status_t check_range(const char *name, int64_t value, int64_t low, int64_t high)
{
    if (value >= low && value <= high)
        return GB_OK;
    return gb_fail(GB_ERR_INVALID, "--%s %lld: give a number from %lld to %lld", name,
                   (long long)value, (long long)low, (long long)high);
}

static gb_status_t check_options(options_t *o)
{
    gb_status_t st = check_range("session-timeout", o->timeout_s, 1, 86400);
    if (st == GB_OK)
        st = check_range("sessions", o->sessions, 1, 4096);
    if (st == GB_OK)
        st = check_range("spare", o->spare, 0, PX_SPARES_MAX);
    if (st == GB_OK)
        st = check_range("half-open", o->half_open, 1, 4096);
    if (st == GB_OK)
        st = check_range("preamble-timeout", o->preamble_ms, 10, 60000);
    if (!strcmp(o->data_listen, "none"))
        o->data_listen = "";
    if (st == GB_OK && !*o->server && !*o->key_file && !o->insecure)
        st = gb_fail(GB_ERR_INVALID,
                     "nobody could connect: give --server HOST:PORT, --key-file FILE, or "
                     "--insecure for this machine only");
    if (st == GB_OK && *o->server && !*o->tls_dir && !o->insecure)
        st = gb_fail(GB_ERR_INVALID, "--server needs certificates: give --tls-dir DIR (see 'gable "
                                     "ca'), or --insecure on a network you trust");
    return st;
}

/* The grant of clients without a lease: with the key of --key-file, or with none. */
static gb_status_t grant_standing(const options_t *o, px_grants_t *grants, int *anonymous)
{
    px_grant_t grant = {.holder = "anonymous"};
    gb_status_t st = GB_OK;
    *anonymous = !*o->server && !*o->key_file;
    if (*o->key_file) {
        snprintf(grant.holder, sizeof grant.holder, "key file");
        st = gb_key_load(o->key_file, &grant.key);
    }
    if (st == GB_OK && (*anonymous || *o->key_file))
        st = px_grants_add(grants, &grant);
    gb_wipe(&grant, sizeof grant);
    return st;
}

/* Sessions leave descriptors with the daemon. */
static void allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* as many as there were */
    }
}

static void block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* Only now: a script that starts a worker when it reads this line counts on the devices. */
static void print_ready(void *arg, px_control_t *control)
{
    const px_daemon_t *daemon = arg;
    const char *path = px_daemon_unix_path(daemon);
    printf("gpu-proxy: ready grpc=%s data=%s unix=%s\n", px_control_endpoint(control),
           px_daemon_data_endpoint(daemon), *path ? path : "-");
    fflush(stdout);
}

static gb_status_t serve(const options_t *o, px_grants_t *grants)
{
    px_daemon_t *daemon;
    px_control_t *control;
    px_daemon_config_t config = {.data_listen = o->data_listen,
                                 .unix_path = o->unix_path,
                                 .advertise = o->advertise,
                                 .driver = o->driver,
                                 .insecure = o->insecure,
                                 .session_timeout_s = (uint32_t)o->timeout_s,
                                 .preamble_ms = (uint32_t)o->preamble_ms,
                                 .half_open_limit = (int)o->half_open,
                                 .session_limit = (int)o->sessions,
                                 .spare_sessions = (int)o->spare};
    gb_status_t st = grant_standing(o, grants, &config.anonymous);
    if (st == GB_OK)
        st = px_daemon_create(&config, grants, &daemon);
    if (st != GB_OK)
        return st;
    px_control_config_t control_config = {.listen = o->listen,
                                          .server = o->server,
                                          .name = o->name,
                                          .tls_dir = o->tls_dir,
                                          .insecure = o->insecure,
                                          .grants = grants,
                                          .daemon = daemon,
                                          .usable = print_ready,
                                          .arg = daemon};
    st = px_control_start(&control_config, &control);
    if (st == GB_OK) {
        st = px_daemon_run(daemon);
        gb_status_t verdict = px_control_stop(control);
        st = st == GB_OK ? verdict : st;
    }
    px_daemon_destroy(daemon);
    return st;
}

int main(int argc, char **argv)
{
    options_t o;
    int first;
    px_grants_t *grants;
    gb_log_init("gpu-proxy", GB_LOG_INFO);
    gb_status_t st = gb_opt_parse(&TABLE, argc, argv, 0, &o, &first);
    if (st == GB_ERR_CANCELLED)
        return 0;
    if (st == GB_OK && first < argc)
        st = gb_fail(GB_ERR_INVALID, "unexpected argument '%s': see --help", argv[first]);
    if (st == GB_OK)
        st = check_options(&o);
    if (st != GB_OK) {
        gb_complain("%s", gb_why());
        return 2;
    }
    block_signals();
    allow_descriptors();
    st = px_grants_create(&grants);
    if (st == GB_OK) {
        st = serve(&o, grants);
        px_grants_destroy(grants);
    }
    if (st == GB_OK)
        return 0;
    gb_complain("%s", gb_why());
    return st == GB_ERR_INVALID || st == GB_ERR_FORMAT ? 2 : 1;
}

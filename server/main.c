/* ps-server: registry, leases, jobs and a parameter shard. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/core/gb_log.h"
#include "common/core/gb_opt.h"
#include "common/link/gb_endpoint.h"
#include "common/rpc/gb_rpc.h"
#include "server/admin/ps_admin.h"
#include "server/params/ps_params.h"
#include "server/registry/ps_registry.h"

typedef struct {
    const char *listen, *data_listen, *advertise;
    const char *tls_dir, *state_dir, *role, *config;
    bool insecure;
    int64_t share, ttl_ms, heartbeat_ms, lost_ms, threads;
} options_t;

#define FIELD(field) offsetof(options_t, field)

static const gb_opt_t OPTIONS[] = {
    {"listen", GB_OPT_STRING, FIELD(listen), "127.0.0.1:7070", NULL, "HOST:PORT",
     "control port (gRPC); port 0 takes a free one"},
    {"data-listen", GB_OPT_STRING, FIELD(data_listen), "", NULL, "HOST:PORT",
     "data port of the parameter shard; default: the host of --listen, port 7073"},
    {"advertise", GB_OPT_STRING, FIELD(advertise), "", NULL, "HOST[:PORT]",
     "data endpoint told to workers; needed when listening on all addresses"},
    {"tls-dir", GB_OPT_STRING, FIELD(tls_dir), "", "GABLE_TLS_DIR", "DIR",
     "certificates of this server (ca.pem, node.pem, node.key), made by `gable ca`"},
    {"insecure", GB_OPT_FLAG, FIELD(insecure), "false", NULL, NULL,
     "serve without certificates also beyond loopback: anybody may do anything"},
    {"state-dir", GB_OPT_STRING, FIELD(state_dir), "", "GABLE_STATE_DIR", "DIR",
     "leases, jobs and checkpoints; default /var/lib/gable for root, else\n"
     "~/.local/state/gable"},
    {"role", GB_OPT_STRING, FIELD(role), "all", NULL, "all",
     "what this process is: registry and shard in one"},
    {"leases-per-device", GB_OPT_INT, FIELD(share), "1", NULL, "N",
     "leases that may share one GPU"},
    {"lease-ttl", GB_OPT_INT, FIELD(ttl_ms), "15000", NULL, "MS",
     "a lease ends this long after its holder's last sign of life"},
    {"heartbeat", GB_OPT_INT, FIELD(heartbeat_ms), "1000", NULL, "MS",
     "interval of the proxies' heartbeats; one silent for five is lost"},
    {"proxy-return", GB_OPT_INT, FIELD(lost_ms), "3000", NULL, "MS",
     "time in which a lost proxy may come back before its leases end"},
    {"threads", GB_OPT_INT, FIELD(threads), "0", NULL, "N",
     "threads that own parameters; 0: half the CPUs"},
    {"config", GB_OPT_STRING, FIELD(config), "", NULL, "FILE",
     "these options as `name = value` lines; deploy/samples has one"},
    {NULL},
};

static const gb_opt_table_t TABLE = {
    "ps-server", "ps-server [options]",
    "Keeps a cluster together: proxies register their GPUs here, clients get leases on them, and\n"
    "training jobs keep their weights here. Prints one line when it is ready.",
    OPTIONS};

/* ---- options ---- */

static gb_status_t check_range(const char *name, int64_t value, int64_t low, int64_t high)
{
    if (value >= low && value <= high)
        return GB_OK;
    return gb_fail(GB_ERR_INVALID, "--%s %lld: give a number from %lld to %lld", name,
                   (long long)value, (long long)low, (long long)high);
}

static gb_status_t check_numbers(const options_t *o)
{
    gb_status_t status = check_range("leases-per-device", o->share, 1, 64);
    if (status == GB_OK)
        status = check_range("lease-ttl", o->ttl_ms, 1000, 86400000);
    if (status == GB_OK)
        status = check_range("heartbeat", o->heartbeat_ms, 50, 60000);
    if (status == GB_OK)
        status = check_range("proxy-return", o->lost_ms, 0, 600000);
    if (status == GB_OK)
        status = check_range("threads", o->threads, 0, 256);
    return status;
}

static gb_status_t check_exposed(const options_t *o, const gb_endpoint_t *endpoint,
                                 const char *option)
{
    if (gb_endpoint_is_local(endpoint) || *o->tls_dir || o->insecure)
        return GB_OK;
    return gb_fail(GB_ERR_INVALID,
                   "--%s beyond loopback needs certificates: give --tls-dir DIR (see `gable ca`), "
                   "or --insecure on a network you trust",
                   option);
}

/* The host of --listen with the data port, unless --data-listen says otherwise. */
static gb_status_t choose_data(const options_t *o, gb_endpoint_t *out)
{
    gb_endpoint_t control;
    gb_status_t status = gb_endpoint_parse(o->listen, 7070, &control);
    if (status == GB_OK)
        status = check_exposed(o, &control, "listen");
    if (status != GB_OK)
        return status;
    if (*o->data_listen) {
        status = gb_endpoint_parse(o->data_listen, 7073, out);
    } else {
        *out = control;
        out->port = control.port ? 7073 : 0;
    }
    return status == GB_OK ? check_exposed(o, out, "data-listen") : status;
}

static int is_wildcard(const gb_endpoint_t *endpoint)
{
    return endpoint->kind == GB_ENDPOINT_TCP &&
           (!strcmp(endpoint->name, "0.0.0.0") || !strcmp(endpoint->name, "::"));
}

static gb_status_t check_options(const options_t *o, gb_endpoint_t *data)
{
    if (strcmp(o->role, "all"))
        return gb_fail(GB_ERR_INVALID, "--role %s is not served: use all", o->role);
    gb_status_t status = check_numbers(o);
    if (status == GB_OK)
        status = choose_data(o, data);
    if (status == GB_OK && is_wildcard(data) && !*o->advertise)
        status = gb_fail(GB_ERR_INVALID, "listening on all addresses: give --advertise HOST, the "
                                         "name under which workers reach this machine");
    return status;
}

static gb_status_t make_state_dir(const options_t *o, char *out, size_t size)
{
    const char *home = getenv("HOME");
    if (*o->state_dir)
        snprintf(out, size, "%s", o->state_dir);
    else if (!geteuid())
        snprintf(out, size, "/var/lib/gable");
    else
        snprintf(out, size, "%s/.local/state/gable", home ? home : "/tmp");
    char part[4096];
    snprintf(part, sizeof part, "%s", out);
    for (char *at = strchr(part + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        mkdir(part, 0755); /* what cannot be made shows when the database is opened */
        *at = '/';
    }
    return GB_OK;
}

/* ---- serving ---- */

typedef struct {
    gb_rpc_tls_t *tls;
    ps_registry_t *registry;
    ps_params_t *params;
    gb_rpc_server_t *server;
    char data_text[GB_ENDPOINT_TEXT];
    char told[GB_ENDPOINT_TEXT]; /* data endpoint for workers */
} server_t;

static gb_status_t load_tls(const options_t *o, gb_rpc_tls_t **out)
{
    if (!*o->tls_dir)
        return GB_OK;
    gb_status_t status = gb_rpc_tls_load(o->tls_dir, out);
    if (status == GB_OK && !(gb_rpc_tls_roles(*out) & GB_ROLE_SERVER))
        status = gb_fail(GB_ERR_UNAUTHORISED,
                         "the certificate %s/node.pem has role %s: issue one with --role server",
                         o->tls_dir, gb_role_name(gb_rpc_tls_roles(*out)));
    return status;
}

/* What workers are told: --advertise, with the bound port if it names none. */
static gb_status_t choose_told(const options_t *o, server_t *s)
{
    gb_endpoint_t bound, told;
    const char *text = ps_params_endpoint(s->params);
    gb_status_t status = gb_endpoint_parse(text, 0, &bound);
    if (status != GB_OK || !*o->advertise) {
        snprintf(s->told, sizeof s->told, "%s", text);
        return status;
    }
    status = gb_endpoint_parse(o->advertise, bound.port, &told);
    if (status == GB_OK)
        gb_endpoint_format(&told, s->told);
    return status;
}

static gb_status_t start_shard(const options_t *o, const char *state_dir, server_t *s)
{
    char checkpoints[4200];
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", state_dir);
    ps_params_config_t config = {.listen = s->data_text,
                                 .insecure = o->insecure,
                                 .checkpoint_dir = checkpoints,
                                 .threads = (uint32_t)o->threads,
                                 .context = s->registry,
                                 .on_leave = ps_registry_on_leave,
                                 .on_checkpoint = ps_registry_on_checkpoint};
    gb_status_t status = ps_params_start(&config, &s->params);
    return status == GB_OK ? choose_told(o, s) : status;
}

static gb_status_t start_control(const options_t *o, server_t *s)
{
    gb_rpc_server_config_t config = {.listen = o->listen, .tls = s->tls};
    gb_status_t status = gb_rpc_server_create(&config, &s->server);
    if (status == GB_OK)
        status = ps_registry_serve(s->registry, s->server);
    if (status == GB_OK)
        status = ps_admin_serve(s->registry, s->server);
    if (status == GB_OK)
        status = gb_rpc_health_add(s->server);
    if (status == GB_OK)
        status = gb_rpc_reflection_add(s->server);
    if (status == GB_OK)
        status = gb_rpc_server_start(s->server);
    return status;
}

static gb_status_t start(const options_t *o, server_t *s)
{
    char state_dir[4096];
    gb_status_t status = load_tls(o, &s->tls);
    if (status == GB_OK)
        status = make_state_dir(o, state_dir, sizeof state_dir);
    ps_registry_config_t config = {.state_dir = state_dir,
                                   .share = (uint32_t)o->share,
                                   .ttl_ms = (uint32_t)o->ttl_ms,
                                   .heartbeat_ms = (uint32_t)o->heartbeat_ms,
                                   .lost_ms = (uint32_t)o->lost_ms};
    if (status == GB_OK)
        status = ps_registry_create(&config, &s->registry);
    if (status == GB_OK)
        status = start_shard(o, state_dir, s);
    if (status == GB_OK)
        status = ps_registry_start(s->registry, s->params, s->told);
    if (status == GB_OK)
        status = start_control(o, s);
    return status;
}

static void end(server_t *s)
{
    if (s->registry)
        ps_registry_stop(s->registry);
    if (s->server)
        gb_rpc_server_stop(s->server, 1000);
    gb_rpc_server_destroy(s->server);
    ps_params_stop(s->params);
    ps_registry_destroy(s->registry);
    gb_rpc_tls_free(s->tls);
}

/* The host of --listen with the port that was bound. */
static void print_ready(const options_t *o, const server_t *s)
{
    gb_endpoint_t control;
    char text[GB_ENDPOINT_TEXT];
    if (gb_endpoint_parse(o->listen, 7070, &control) != GB_OK)
        return;
    control.port = (uint16_t)gb_rpc_server_port(s->server);
    printf("ps-server: ready grpc=%s data=%s\n", gb_endpoint_format(&control, text), s->told);
    fflush(stdout);
}

static gb_status_t serve(const options_t *o, const gb_endpoint_t *data, const sigset_t *signals)
{
    server_t s;
    memset(&s, 0, sizeof s);
    gb_endpoint_format(data, s.data_text);
    gb_status_t status = start(o, &s);
    if (status == GB_OK) {
        int number;
        print_ready(o, &s);
        sigwait(signals, &number);
        gb_log(GB_LOG_INFO, "ending on signal %d", number);
    }
    end(&s);
    return status;
}

int main(int argc, char **argv)
{
    options_t o;
    int first;
    gb_endpoint_t data;
    sigset_t signals;
    gb_log_init("ps-server", GB_LOG_INFO);
    gb_status_t status = gb_opt_parse(&TABLE, argc, argv, 0, &o, &first);
    if (status == GB_ERR_CANCELLED)
        return 0;
    if (status == GB_OK && first < argc)
        status = gb_fail(GB_ERR_INVALID, "unexpected argument '%s': see --help", argv[first]);
    if (status == GB_OK)
        status = check_options(&o, &data);
    if (status != GB_OK) {
        gb_complain("%s", gb_why());
        return 2;
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    status = serve(&o, &data, &signals);
    if (status == GB_OK)
        return 0;
    gb_complain("%s", gb_why());
    return status == GB_ERR_INVALID || status == GB_ERR_FORMAT ? 2 : 1;
}

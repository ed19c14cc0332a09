/* px_control.c - the proxy at its server: one stream, opened again whenever it breaks.
 *
 * Two threads: the keeper opens the stream, says hello and acts on what comes down; the pulse sends
 * heartbeats, at the server's interval and at once when sessions change. While the server is away the
 * grants go on, so that a restart of it disturbs no session; after GRANTS_OUTLIVE_MS they end. */
#include "gpu-proxy/daemon/px_control.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "common/rpc/gb_rpc.h"
#include "gable.pb-c.h"

enum {
    PROTOCOL = 1,
    CONNECT_MS = 2000,
    FIRST_PAUSE_MS = 200,
    LAST_PAUSE_MS = 2000,
    GOODBYE_MS = 500,
    GRANTS_OUTLIVE_MS = 10 * 60 * 1000,
    MAX_SESSIONS = 1024,
    MAX_REFUSALS = 3,
};

struct px_control {
    px_control_config_t config;
    char name[64];
    char endpoint[GB_ENDPOINT_TEXT];
    char machine[64];
    char unix_endpoint[512];
    gb_rpc_tls_t *tls;
    gb_rpc_client_t *client;
    gb_rpc_server_t *server; /* own port: health for monitoring */
    pthread_t keeper, pulse;
    int threads;         /* how many run */
    uint64_t away_since; /* keeper only; 0: the server is there */
    int told;            /* keeper only: usable() has been called */
    int refusals;        /* keeper only: in a row, before the first registration */
    gb_status_t verdict; /* keeper's, for the end: the last refusal that it gave up on */
    char why[256];

    pthread_mutex_t send_lock; /* guards stream; held while sending */
    gb_rpc_stream_t *stream;

    pthread_mutex_t lock; /* all below */
    pthread_cond_t wake;
    int quit;
    int changed; /* sessions have */
    int welcomed;
    int ended; /* the keeper is through */
    uint32_t heartbeat_ms;
};

/* ---- waiting ---- */

static struct timespec after_ms(uint32_t ms)
{
    uint64_t end = gb_now_ns() + (uint64_t)ms * 1000000u;
    return (struct timespec){(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
}

/* Waits that long; 1 if the control plane ends. */
static int pause_or_quit(px_control_t *control, uint32_t ms)
{
    struct timespec until = after_ms(ms);
    pthread_mutex_lock(&control->lock);
    while (!control->quit && !pthread_cond_timedwait(&control->wake, &control->lock, &until)) {
    }
    int quit = control->quit;
    pthread_mutex_unlock(&control->lock);
    return quit;
}

/* ---- messages up ---- */

static gb_status_t send_up(px_control_t *control, Gable__V1__ProxyMessage *message)
{
    pthread_mutex_lock(&control->send_lock);
    gb_status_t status = control->stream ? gb_rpc_stream_send(control->stream, &message->base)
                                         : gb_fail(GB_ERR_LOST, "no stream to the server");
    pthread_mutex_unlock(&control->send_lock);
    return status;
}

static void fill_device(const px_device_t *from, Gable__V1__DeviceInfo *out)
{
    gable__v1__device_info__init(out);
    out->index = (uint32_t)from->ordinal;
    out->name = (char *)from->name;
    out->memory_bytes = from->memory;
    out->capability = (uint32_t)(from->cc_major * 10 + from->cc_minor);
    out->multiprocessors = (uint32_t)from->sm_count;
    out->clock_khz = (uint32_t)from->clock_khz;
}

static gb_status_t say_hello(px_control_t *control)
{
    const px_inventory_t *inventory = px_daemon_inventory(control->config.daemon);
    const char *data = px_daemon_data_endpoint(control->config.daemon);
    Gable__V1__DeviceInfo devices[PX_DEVICES], *list[PX_DEVICES];
    Gable__V1__ProxyMessage message = GABLE__V1__PROXY_MESSAGE__INIT;
    Gable__V1__ProxyHello hello = GABLE__V1__PROXY_HELLO__INIT;
    for (int i = 0; i < inventory->device_count; i++) {
        fill_device(&inventory->devices[i], &devices[i]);
        list[i] = &devices[i];
    }
    hello.protocol = PROTOCOL;
    hello.name = control->name;
    hello.data_endpoint = (char *)(strncmp(data, "unix:", 5) ? data : "");
    hello.unix_endpoint = control->unix_endpoint;
    hello.machine = control->machine;
    hello.driver = (char *)inventory->driver_kind;
    hello.n_devices = (size_t)inventory->device_count;
    hello.devices = list;
    message.message_case = GABLE__V1__PROXY_MESSAGE__MESSAGE_HELLO;
    message.hello = &hello;
    return send_up(control, &message);
}

static void fill_session(const px_session_info_t *from, uint64_t now, Gable__V1__SessionInfo *out)
{
    gable__v1__session_info__init(out);
    out->id = from->id;
    out->lease = from->lease;
    out->pid = (uint32_t)from->pid;
    out->memory_bytes = from->memory;
    out->age_ms = now > from->started_ms ? now - from->started_ms : 0;
    out->peer = (char *)from->peer;
}

static gb_status_t send_heartbeat(px_control_t *control)
{
    px_session_info_t *sessions = calloc(MAX_SESSIONS, sizeof *sessions);
    Gable__V1__SessionInfo *infos = calloc(MAX_SESSIONS, sizeof *infos);
    Gable__V1__SessionInfo **list = calloc(MAX_SESSIONS, sizeof *list);
    gb_status_t status = GB_ERR_NO_MEMORY;
    if (sessions && infos && list) {
        size_t count = px_daemon_sessions(control->config.daemon, sessions, MAX_SESSIONS);
        if (count > MAX_SESSIONS)
            count = MAX_SESSIONS;
        for (size_t i = 0; i < count; i++) {
            fill_session(&sessions[i], gb_wall_ms(), &infos[i]);
            list[i] = &infos[i];
        }
        Gable__V1__ProxyMessage message = GABLE__V1__PROXY_MESSAGE__INIT;
        Gable__V1__Heartbeat beat = GABLE__V1__HEARTBEAT__INIT;
        beat.n_sessions = count;
        beat.sessions = list;
        message.message_case = GABLE__V1__PROXY_MESSAGE__MESSAGE_HEARTBEAT;
        message.heartbeat = &beat;
        status = send_up(control, &message);
    }
    free(sessions);
    free(infos);
    free(list);
    return status;
}

static void answer_grant(px_control_t *control, uint64_t lease, gb_status_t accepted)
{
    Gable__V1__ProxyMessage message = GABLE__V1__PROXY_MESSAGE__INIT;
    Gable__V1__GrantResult result = GABLE__V1__GRANT_RESULT__INIT;
    result.lease = lease;
    result.accepted = accepted == GB_OK;
    result.reason = (char *)(accepted == GB_OK ? "" : gb_why());
    message.message_case = GABLE__V1__PROXY_MESSAGE__MESSAGE_GRANTED;
    message.granted = &result;
    send_up(control, &message); /* a lost answer shows as a lost stream */
}

/* ---- messages down ---- */

static gb_status_t read_grant(const Gable__V1__Grant *from, px_grant_t *out)
{
    memset(out, 0, sizeof *out);
    if (from->key.len != sizeof out->key.bytes || from->n_devices > PX_DEVICES || !from->lease)
        return gb_fail(GB_ERR_PROTOCOL, "a grant of the server makes no sense");
    out->lease = from->lease;
    memcpy(out->key.bytes, from->key.data, sizeof out->key.bytes);
    for (size_t i = 0; i < from->n_devices; i++)
        out->devices[i] = (int)from->devices[i];
    out->device_count = (int)from->n_devices;
    out->memory = from->memory_bytes;
    snprintf(out->holder, sizeof out->holder, "%s", from->client);
    snprintf(out->tenant, sizeof out->tenant, "%s", from->owner);
    return GB_OK;
}

static void take_grant(px_control_t *control, const Gable__V1__Grant *from)
{
    px_grant_t grant;
    gb_status_t status = read_grant(from, &grant);
    if (status == GB_OK)
        status = px_grants_add(control->config.grants, &grant);
    gb_wipe(&grant, sizeof grant);
    answer_grant(control, from->lease, status);
}

/* Makes `list` all that is granted, besides the standing grant of a proxy with a key file. */
static gb_status_t replace_grants(px_control_t *control, Gable__V1__Grant *const *list,
                                  size_t count)
{
    px_grant_t *grants = calloc(count + 1, sizeof *grants);
    if (!grants)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for %zu grants", count);
    gb_status_t status = GB_OK;
    for (size_t i = 0; status == GB_OK && i < count; i++)
        status = read_grant(list[i], &grants[i]);
    size_t all = count;
    if (px_grants_find(control->config.grants, 0, &grants[all]) == GB_OK)
        all++;
    if (status == GB_OK)
        status = px_grants_replace(control->config.grants, grants, all);
    gb_wipe(grants, (count + 1) * sizeof *grants);
    free(grants);
    return status;
}

static void tell_usable(px_control_t *control)
{
    if (!control->told && control->config.usable)
        control->config.usable(control->config.arg, control);
    control->told = 1;
}

static void take_welcome(px_control_t *control, const Gable__V1__Welcome *welcome)
{
    gb_log(GB_LOG_INFO, "registered at %s as %s", control->config.server, control->name);
    control->away_since = 0;
    pthread_mutex_lock(&control->lock);
    control->welcomed = 1;
    if (welcome->heartbeat_ms >= 10)
        control->heartbeat_ms = welcome->heartbeat_ms;
    control->changed = 1;
    pthread_cond_broadcast(&control->wake);
    pthread_mutex_unlock(&control->lock);
    gb_status_t status = replace_grants(control, welcome->grants, welcome->n_grants);
    for (size_t i = 0; i < welcome->n_grants; i++)
        answer_grant(control, welcome->grants[i]->lease, status);
    tell_usable(control);
}

static void take_revoke(px_control_t *control, const Gable__V1__Revoke *revoke)
{
    gb_log(GB_LOG_INFO, "lease %016llx ends: %s", (unsigned long long)revoke->lease,
           revoke->reason);
    if (revoke->lease)
        px_grants_revoke(control->config.grants, revoke->lease);
}

static void take_kill(px_control_t *control, uint64_t session)
{
    Gable__V1__ProxyMessage message = GABLE__V1__PROXY_MESSAGE__INIT;
    Gable__V1__KillResult result = GABLE__V1__KILL_RESULT__INIT;
    gb_log(GB_LOG_INFO, "session %016llx: killed on the server's request",
           (unsigned long long)session);
    result.session = session;
    result.found = px_daemon_session_kill(control->config.daemon, session) == GB_OK;
    message.message_case = GABLE__V1__PROXY_MESSAGE__MESSAGE_KILLED;
    message.killed = &result;
    send_up(control, &message);
}

static void take_message(px_control_t *control, const Gable__V1__ServerMessage *message)
{
    if (message->message_case == GABLE__V1__SERVER_MESSAGE__MESSAGE_WELCOME)
        take_welcome(control, message->welcome);
    else if (message->message_case == GABLE__V1__SERVER_MESSAGE__MESSAGE_GRANT)
        take_grant(control, message->grant);
    else if (message->message_case == GABLE__V1__SERVER_MESSAGE__MESSAGE_REVOKE)
        take_revoke(control, message->revoke);
    else if (message->message_case == GABLE__V1__SERVER_MESSAGE__MESSAGE_KILL)
        take_kill(control, message->kill->session);
}

/* ---- the keeper ---- */

static int is_ending(px_control_t *control)
{
    pthread_mutex_lock(&control->lock);
    int quit = control->quit;
    pthread_mutex_unlock(&control->lock);
    return quit;
}

static gb_status_t open_stream(px_control_t *control)
{
    gb_rpc_stream_t *stream;
    gb_status_t status = gb_rpc_stream_open(control->client, &gable__v1__cluster__descriptor,
                                            "Attach", CONNECT_MS, &stream);
    if (status == GB_ERR_UNREACHABLE) {
        gb_status_t reason = gb_rpc_tls_diagnose(control->tls, control->config.server, CONNECT_MS);
        return reason == GB_OK ? status : reason;
    }
    if (status != GB_OK)
        return status;
    pthread_mutex_lock(&control->send_lock);
    control->stream = stream;
    pthread_mutex_unlock(&control->send_lock);
    if (is_ending(control)) /* the end looked for a stream before there was one */
        return gb_fail(GB_ERR_CANCELLED, "ending");
    return say_hello(control);
}

static void close_stream(px_control_t *control)
{
    pthread_mutex_lock(&control->send_lock);
    gb_rpc_stream_t *stream = control->stream;
    control->stream = NULL;
    pthread_mutex_unlock(&control->send_lock);
    pthread_mutex_lock(&control->lock);
    control->welcomed = 0;
    pthread_mutex_unlock(&control->lock);
    gb_rpc_stream_close(stream);
}

/* Serves one stream until it ends. */
static gb_status_t serve_stream(px_control_t *control)
{
    gb_status_t status = open_stream(control);
    /* A send that fails is explained by what is received. */
    while (control->stream && (status == GB_OK || status == GB_ERR_LOST)) {
        ProtobufCMessage *message;
        status = gb_rpc_stream_recv(control->stream, &message);
        if (status != GB_OK)
            break;
        take_message(control, (Gable__V1__ServerMessage *)message);
        gb_rpc_message_free(message);
    }
    close_stream(control);
    return status;
}

/* Grants of a server that stays away do not live for ever. */
static void age_grants(px_control_t *control)
{
    uint64_t now = gb_now_ns() / 1000000u;
    if (!control->away_since)
        control->away_since = now;
    if (now - control->away_since < GRANTS_OUTLIVE_MS)
        return;
    if (px_grants_count(control->config.grants))
        gb_log(GB_LOG_WARN, "the server has been away for too long: all leases end");
    replace_grants(control, NULL, 0);
}

/* 1: the server has said often enough that it does not want this proxy; then the daemon ends. */
static int is_refused(px_control_t *control, gb_status_t status)
{
    int final = status == GB_ERR_UNAUTHORISED || status == GB_ERR_VERSION ||
                status == GB_ERR_INVALID || status == GB_ERR_UNSUPPORTED;
    control->refusals = final && !control->told ? control->refusals + 1 : 0;
    if (control->refusals < MAX_REFUSALS)
        return 0;
    control->verdict = status;
    snprintf(control->why, sizeof control->why, "%s", gb_why());
    px_daemon_stop(control->config.daemon);
    return 1;
}

static void *keeper_main(void *arg)
{
    px_control_t *control = arg;
    uint32_t pause = FIRST_PAUSE_MS;
    char said[256] = "";
    do {
        gb_status_t status = serve_stream(control);
        if (is_refused(control, status))
            break;
        if (!control->away_since) { /* it was up until now */
            pause = FIRST_PAUSE_MS;
            said[0] = 0;
        }
        if (!is_ending(control) && !control->refusals &&
            strncmp(said, gb_why(), sizeof said - 1)) { /* each reason once */
            snprintf(said, sizeof said, "%s", gb_why());
            gb_log(GB_LOG_WARN, "no connection to the server, trying again: %s", said);
        }
        age_grants(control);
        pause = pause * 2 < LAST_PAUSE_MS ? pause * 2 : LAST_PAUSE_MS;
    } while (!pause_or_quit(control, pause / 2));
    pthread_mutex_lock(&control->lock);
    control->ended = 1;
    pthread_cond_broadcast(&control->wake);
    pthread_mutex_unlock(&control->lock);
    return NULL;
}

/* ---- the pulse ---- */

static void on_sessions(void *arg)
{
    px_control_t *control = arg;
    pthread_mutex_lock(&control->lock);
    control->changed = 1;
    pthread_cond_broadcast(&control->wake);
    pthread_mutex_unlock(&control->lock);
}

/* Waits until a heartbeat is due; 0: the control plane ends. */
static int wait_beat(px_control_t *control, int *due)
{
    pthread_mutex_lock(&control->lock);
    struct timespec until = after_ms(control->heartbeat_ms);
    while (!control->quit && !control->changed &&
           !pthread_cond_timedwait(&control->wake, &control->lock, &until)) {
    }
    control->changed = 0;
    *due = control->welcomed;
    int quit = control->quit;
    pthread_mutex_unlock(&control->lock);
    return !quit;
}

static void *pulse_main(void *arg)
{
    px_control_t *control = arg;
    int due;
    while (wait_beat(control, &due))
        if (due)
            send_heartbeat(control); /* a failure is the keeper's to notice */
    return NULL;
}

/* ---- start and end ---- */

static void choose_name(px_control_t *control)
{
    if (*control->config.name) {
        snprintf(control->name, sizeof control->name, "%s", control->config.name);
        return;
    }
    char host[48] = "proxy";
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = 0;
    const char *data = px_daemon_data_endpoint(control->config.daemon);
    const char *port = strncmp(data, "unix:", 5) ? strrchr(data, ':') : NULL;
    snprintf(control->name, sizeof control->name, "%s-%s", host, port ? port + 1 : "local");
    for (char *at = control->name; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._:-", *at))
            *at = '-';
}

static void find_machine(px_control_t *control)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file)
        return;
    if (fgets(control->machine, sizeof control->machine, file))
        control->machine[strcspn(control->machine, "\n")] = 0;
    fclose(file);
    const char *path = px_daemon_unix_path(control->config.daemon);
    char *full = *path ? realpath(path, NULL) : NULL;
    if (full)
        snprintf(control->unix_endpoint, sizeof control->unix_endpoint, "unix:%s", full);
    free(full);
}

static gb_status_t load_tls(px_control_t *control)
{
    const char *dir = control->config.tls_dir;
    if (!*dir)
        return GB_OK;
    gb_status_t status = gb_rpc_tls_load(dir, &control->tls);
    if (status == GB_OK && !(gb_rpc_tls_roles(control->tls) & GB_ROLE_PROXY))
        status = gb_fail(GB_ERR_UNAUTHORISED,
                         "the certificate %s/node.pem has role %s: issue one with --role proxy",
                         dir, gb_role_name(gb_rpc_tls_roles(control->tls)));
    return status;
}

static gb_status_t open_port(px_control_t *control)
{
    gb_endpoint_t endpoint;
    snprintf(control->endpoint, sizeof control->endpoint, "-");
    if (!*control->config.listen)
        return GB_OK;
    gb_status_t status = gb_endpoint_parse(control->config.listen, 7071, &endpoint);
    if (status == GB_OK && !gb_endpoint_is_local(&endpoint) && !control->tls &&
        !control->config.insecure)
        status = gb_fail(GB_ERR_INVALID, "--listen beyond loopback needs --tls-dir or --insecure");
    gb_rpc_server_config_t config = {
        .listen = control->config.listen, .tls = control->tls, .threads = 1};
    if (status == GB_OK)
        status = gb_rpc_server_create(&config, &control->server);
    if (status == GB_OK)
        status = gb_rpc_health_add(control->server);
    if (status == GB_OK)
        status = gb_rpc_server_start(control->server);
    if (status != GB_OK)
        return status;
    endpoint.port = (uint16_t)gb_rpc_server_port(control->server);
    gb_endpoint_format(&endpoint, control->endpoint);
    return GB_OK;
}

static gb_status_t start_threads(px_control_t *control)
{
    if (pthread_create(&control->keeper, NULL, keeper_main, control))
        return gb_fail(GB_ERR_LIMIT, "cannot start a thread");
    control->threads = 1;
    if (pthread_create(&control->pulse, NULL, pulse_main, control))
        return gb_fail(GB_ERR_LIMIT, "cannot start a thread");
    control->threads = 2;
    return GB_OK;
}

gb_status_t px_control_start(const px_control_config_t *config, px_control_t **out)
{
    px_control_t *control = calloc(1, sizeof *control);
    if (!control)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for the control plane");
    control->config = *config;
    control->heartbeat_ms = 1000;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&control->wake, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&control->lock, NULL);
    pthread_mutex_init(&control->send_lock, NULL);
    snprintf(control->endpoint, sizeof control->endpoint, "-");
    if (!*config->server) {
        tell_usable(control);
        *out = control;
        return GB_OK;
    }
    choose_name(control);
    find_machine(control);
    gb_status_t status = load_tls(control);
    if (status == GB_OK)
        status = open_port(control);
    if (status == GB_OK)
        status = gb_rpc_client_open(config->server, control->tls, &control->client);
    if (status == GB_OK) {
        px_daemon_on_sessions(config->daemon, on_sessions, control);
        status = start_threads(control);
    }
    if (status != GB_OK) {
        px_control_stop(control);
        return status;
    }
    *out = control;
    return GB_OK;
}

const char *px_control_endpoint(const px_control_t *control)
{
    return control->endpoint;
}

/* Lets the server end the stream in good order, if it does so soon. */
static void say_goodbye(px_control_t *control)
{
    Gable__V1__ProxyMessage message = GABLE__V1__PROXY_MESSAGE__INIT;
    Gable__V1__Empty goodbye = GABLE__V1__EMPTY__INIT;
    message.message_case = GABLE__V1__PROXY_MESSAGE__MESSAGE_GOODBYE;
    message.goodbye = &goodbye;
    struct timespec until = after_ms(GOODBYE_MS);
    if (send_up(control, &message) == GB_OK) {
        pthread_mutex_lock(&control->lock);
        while (!control->ended && !pthread_cond_timedwait(&control->wake, &control->lock, &until)) {
        }
        pthread_mutex_unlock(&control->lock);
    }
    pthread_mutex_lock(&control->send_lock);
    if (control->stream)
        gb_rpc_stream_cancel(control->stream);
    pthread_mutex_unlock(&control->send_lock);
}

gb_status_t px_control_stop(px_control_t *control)
{
    if (!control)
        return GB_OK;
    pthread_mutex_lock(&control->lock);
    control->quit = 1;
    pthread_cond_broadcast(&control->wake);
    pthread_mutex_unlock(&control->lock);
    if (control->threads)
        say_goodbye(control);
    if (control->threads > 0)
        pthread_join(control->keeper, NULL);
    if (control->threads > 1)
        pthread_join(control->pulse, NULL);
    if (control->server)
        gb_rpc_server_stop(control->server, 200);
    gb_rpc_server_destroy(control->server);
    gb_rpc_client_close(control->client);
    gb_rpc_tls_free(control->tls);
    pthread_cond_destroy(&control->wake);
    pthread_mutex_destroy(&control->lock);
    pthread_mutex_destroy(&control->send_lock);
    gb_status_t verdict = control->verdict;
    if (verdict != GB_OK)
        gb_fail(verdict, "%s", control->why);
    free(control);
    return verdict;
}

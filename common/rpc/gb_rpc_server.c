/* gb_rpc_server.c - the server: port, registered methods, completion threads, the handlers' pool. */
#include "common/rpc/gb_rpc_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"

/* ---- pool ---- */

void gb_rpc_server_submit(gb_rpc_server_t *server, gb_rpc_job_t *job)
{
    job->next = NULL;
    pthread_mutex_lock(&server->lock);
    if (server->job_tail)
        server->job_tail->next = job;
    else
        server->job_head = job;
    server->job_tail = job;
    pthread_cond_signal(&server->wake);
    pthread_mutex_unlock(&server->lock);
}

void gb_rpc_server_live(gb_rpc_server_t *server, int delta)
{
    pthread_mutex_lock(&server->lock);
    server->live += delta;
    if (!server->live)
        pthread_cond_broadcast(&server->idle);
    pthread_mutex_unlock(&server->lock);
}

static gb_rpc_job_t *take_job(gb_rpc_server_t *server)
{
    pthread_mutex_lock(&server->lock);
    while (!server->job_head && !server->quit)
        pthread_cond_wait(&server->wake, &server->lock);
    gb_rpc_job_t *job = server->job_head;
    if (job) {
        server->job_head = job->next;
        if (!server->job_head)
            server->job_tail = NULL;
    }
    pthread_mutex_unlock(&server->lock);
    return job;
}

static void *pool_main(void *arg)
{
    gb_rpc_server_t *server = arg;
    for (gb_rpc_job_t *job; (job = take_job(server));) {
        gb_rpc_call_t *call = job->call;
        job->fn(call);
        gb_rpc_call_unref(call);
    }
    return NULL;
}

static void *cq_main(void *arg)
{
    gb_rpc_server_t *server = arg;
    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(server->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (event.tag == server) { /* shutdown_and_notify is through */
            pthread_mutex_lock(&server->lock);
            server->shutdown_done = 1;
            pthread_cond_broadcast(&server->idle);
            pthread_mutex_unlock(&server->lock);
            continue;
        }
        gb_rpc_tag_t *tag = event.tag;
        atomic_load_explicit(&tag->handed, memory_order_acquire);
        gb_rpc_call_t *call = tag->call;
        tag->fn(call, event.success);
        gb_rpc_call_unref(call);
    }
}

/* ---- set-up ---- */

static grpc_server *make_server(void)
{
    grpc_arg list[] = {
        {GRPC_ARG_INTEGER, GRPC_ARG_ALLOW_REUSEPORT, {.integer = 0}},
        {GRPC_ARG_INTEGER, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, {.integer = GB_RPC_MAX_MESSAGE}},
        {GRPC_ARG_INTEGER, GRPC_ARG_KEEPALIVE_TIME_MS, {.integer = 3000}},
        {GRPC_ARG_INTEGER, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, {.integer = 5000}},
        {GRPC_ARG_INTEGER, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, {.integer = 1}},
        {GRPC_ARG_INTEGER, GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, {.integer = 0}},
        {GRPC_ARG_INTEGER,
         GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
         {.integer = 1000}},
    };
    grpc_channel_args args = {sizeof list / sizeof list[0], list};
    return grpc_server_create(&args, NULL);
}

gb_status_t gb_rpc_server_create(const gb_rpc_server_config_t *config, gb_rpc_server_t **out)
{
    gb_rpc_server_t *server = calloc(1, sizeof *server);
    if (!server)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for a server");
    server->thread_count = config->threads ? config->threads : 4;
    server->threads = calloc(server->thread_count, sizeof *server->threads);
    if (!server->threads) {
        free(server);
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for a server");
    }
    snprintf(server->listen, sizeof server->listen, "%s", config->listen);
    server->tls = config->tls;
    atomic_init(&server->serving, 1);
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->wake, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&server->idle, &attr);
    pthread_condattr_destroy(&attr);
    gb_rpc_library_open(1);
    server->server = make_server();
    server->cq = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(server->server, server->cq, NULL);
    *out = server;
    return GB_OK;
}

gb_status_t gb_rpc_server_add(gb_rpc_server_t *server, const ProtobufCServiceDescriptor *service,
                              const gb_rpc_method_t *methods, void *ctx)
{
    if (server->service_count == GB_RPC_MAX_SERVICES)
        return gb_fail(GB_ERR_LIMIT, "too many services");
    server->services[server->service_count++] = service->name;
    for (; methods->name; methods++) {
        const ProtobufCMethodDescriptor *method =
            protobuf_c_service_descriptor_get_method_by_name(service, methods->name);
        if (!method || server->entry_count == GB_RPC_MAX_METHODS)
            return gb_fail(GB_ERR_INTERNAL, "cannot add method %s/%s", service->name,
                           methods->name);
        gb_rpc_entry_t *entry = &server->entries[server->entry_count++];
        snprintf(entry->path, sizeof entry->path, "/%s/%s", service->name, methods->name);
        entry->in = method->input;
        entry->out = method->output;
        entry->method = methods;
        entry->ctx = ctx;
        entry->registered = grpc_server_register_method(
            server->server, entry->path, NULL,
            methods->stream ? GRPC_SRM_PAYLOAD_NONE : GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
        if (!entry->registered)
            return gb_fail(GB_ERR_INTERNAL, "cannot register method %s", entry->path);
    }
    return GB_OK;
}

const char *gb_rpc_server_service(const gb_rpc_server_t *server, uint32_t index)
{
    return index < server->service_count ? server->services[index] : NULL;
}

int gb_rpc_server_port(const gb_rpc_server_t *server)
{
    return server->port;
}

static void hand_over(void *arg, int fd)
{
    gb_rpc_server_t *server = arg;
    grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
    grpc_server_add_channel_from_fd(server->server, fd, credentials);
    grpc_server_credentials_release(credentials);
}

/* gRPC's own listener only says that binding failed; a trial bind says why. */
static gb_status_t open_tls_port(gb_rpc_server_t *server)
{
    int fd, port;
    gb_status_t status = gb_rpc_listen(server->listen, &fd, &port);
    if (status != GB_OK)
        return status;
    close(fd);
    grpc_ssl_pem_key_cert_pair pair = {gb_rpc_tls_key(server->tls), gb_rpc_tls_cert(server->tls)};
    grpc_server_credentials *credentials = grpc_ssl_server_credentials_create_ex(
        gb_rpc_tls_ca(server->tls), &pair, 1,
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, NULL);
    server->port = grpc_server_add_http2_port(server->server, server->listen, credentials);
    grpc_server_credentials_release(credentials);
    if (server->port <= 0)
        return gb_fail(GB_ERR_IO, "cannot listen on %s", server->listen);
    return GB_OK;
}

static gb_status_t start_threads(gb_rpc_server_t *server)
{
    for (int i = 0; i < 2; i++)
        if (pthread_create(&server->cq_threads[i], NULL, cq_main, server))
            return gb_fail(GB_ERR_LIMIT, "cannot start a thread");
    for (uint32_t i = 0; i < server->thread_count; i++)
        if (pthread_create(&server->threads[i], NULL, pool_main, server))
            return gb_fail(GB_ERR_LIMIT, "cannot start a thread");
    return GB_OK;
}

gb_status_t gb_rpc_server_start(gb_rpc_server_t *server)
{
    int fd = -1;
    gb_status_t status =
        server->tls ? open_tls_port(server) : gb_rpc_listen(server->listen, &fd, &server->port);
    if (status != GB_OK)
        return status;
    grpc_server_start(server->server);
    status = start_threads(server);
    if (status != GB_OK)
        return status; /* the program ends: the threads and the socket with it */
    server->started = 1;
    for (uint32_t i = 0; i < server->entry_count && status == GB_OK; i++)
        for (int n = 0; n < 2 && status == GB_OK; n++)
            status = gb_rpc_call_arm(server, &server->entries[i]);
    if (status == GB_OK)
        status = gb_rpc_call_arm(server, NULL);
    if (status == GB_OK && fd >= 0)
        status = gb_rpc_acceptor_start(fd, hand_over, server, &server->acceptor);
    if (status != GB_OK && fd >= 0)
        close(fd);
    return status;
}

/* ---- end ---- */

/* Under lock: waits until no call is left, or the time is over. */
static void wait_idle(gb_rpc_server_t *server, int timeout_ms)
{
    uint64_t end = gb_now_ns() + (uint64_t)timeout_ms * 1000000u;
    struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    while (server->live && !pthread_cond_timedwait(&server->idle, &server->lock, &until)) {
    }
}

void gb_rpc_server_stop(gb_rpc_server_t *server, int grace_ms)
{
    if (!server->started || server->stopped)
        return;
    server->stopped = 1;
    gb_rpc_acceptor_stop(server->acceptor);
    atomic_store(&server->serving, 0);
    grpc_server_shutdown_and_notify(server->server, server->cq, server);
    pthread_mutex_lock(&server->lock);
    wait_idle(server, grace_ms);
    int rest = server->live;
    pthread_mutex_unlock(&server->lock);
    if (rest)
        grpc_server_cancel_all_calls(server->server);
    pthread_mutex_lock(&server->lock);
    while (server->live || !server->shutdown_done)
        pthread_cond_wait(&server->idle, &server->lock);
    server->quit = 1;
    pthread_cond_broadcast(&server->wake);
    pthread_mutex_unlock(&server->lock);
    for (uint32_t i = 0; i < server->thread_count; i++)
        pthread_join(server->threads[i], NULL);
    grpc_completion_queue_shutdown(server->cq);
    for (int i = 0; i < 2; i++)
        pthread_join(server->cq_threads[i], NULL);
}

/* A server that never started still has to be shut down before gRPC lets it go. */
static void shut_down_unstarted(gb_rpc_server_t *server)
{
    grpc_server_shutdown_and_notify(server->server, server->cq, server);
    grpc_completion_queue_next(server->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    grpc_completion_queue_shutdown(server->cq);
    while (grpc_completion_queue_next(server->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type !=
           GRPC_QUEUE_SHUTDOWN) {
    }
}

void gb_rpc_server_destroy(gb_rpc_server_t *server)
{
    if (!server)
        return;
    if (server->started)
        gb_rpc_server_stop(server, 0);
    else
        shut_down_unstarted(server);
    grpc_server_destroy(server->server);
    grpc_completion_queue_destroy(server->cq);
    gb_rpc_library_close(1);
    pthread_cond_destroy(&server->wake);
    pthread_cond_destroy(&server->idle);
    pthread_mutex_destroy(&server->lock);
    free(server->threads);
    free(server);
}

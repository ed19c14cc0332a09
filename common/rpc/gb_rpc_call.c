/* gb_rpc_call.c - one call on the server's side.
 *
 * Life of a call: armed (waiting for a request), accepted (on_new), handled on the pool, ended (the
 * status batch is queued), closed (gRPC says that it is over, on_close). Everything in flight holds a
 * reference: each completion tag, each job on the pool, each keeper. Completion threads never run
 * handlers; they only move the call on. */
#include "common/rpc/gb_rpc_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>

#include "common/core/gb_log.h"

static void call_free(gb_rpc_call_t *call)
{
    gb_rpc_server_t *server = call->server;
    int accepted = call->accepted;
    while (call->out_head) {
        gb_rpc_out_t *out = call->out_head;
        call->out_head = out->next;
        grpc_byte_buffer_destroy(out->bytes);
        free(out);
    }
    if (call->request)
        grpc_byte_buffer_destroy(call->request);
    grpc_metadata_array_destroy(&call->metadata);
    if (!call->entry)
        grpc_call_details_destroy(&call->details);
    if (call->call)
        grpc_call_unref(call->call);
    pthread_mutex_destroy(&call->serial);
    pthread_mutex_destroy(&call->lock);
    free(call);
    if (accepted)
        gb_rpc_server_live(server, -1);
}

void gb_rpc_call_unref(gb_rpc_call_t *call)
{
    if (atomic_fetch_sub(&call->refs, 1) == 1)
        call_free(call);
}

void gb_rpc_call_hold(gb_rpc_call_t *call)
{
    atomic_fetch_add(&call->refs, 1);
}

void gb_rpc_call_release(gb_rpc_call_t *call)
{
    gb_rpc_call_unref(call);
}

/* Starts a batch whose completion calls fn; the tag holds a reference. */
static int start_batch(gb_rpc_call_t *call, const grpc_op *ops, size_t count, gb_rpc_tag_t *tag,
                       void (*fn)(gb_rpc_call_t *, int))
{
    tag->fn = fn;
    tag->call = call;
    gb_rpc_call_hold(call);
    atomic_store_explicit(&tag->handed, 1, memory_order_release);
    grpc_call_error error = grpc_call_start_batch(call->call, ops, count, tag, NULL);
    if (error == GRPC_CALL_OK)
        return 1;
    gb_log(GB_LOG_ERROR, "grpc batch: %s", grpc_call_error_to_string(error));
    gb_rpc_call_unref(call);
    return 0;
}

static void submit(gb_rpc_call_t *call, gb_rpc_job_t *job, void (*fn)(gb_rpc_call_t *))
{
    gb_rpc_call_hold(call);
    job->fn = fn;
    job->call = call;
    gb_rpc_server_submit(call->server, job);
}

/* ---- who calls ---- */

static void find_property(const grpc_auth_context *auth, const char *property, char *out,
                          size_t size)
{
    grpc_auth_property_iterator it = grpc_auth_context_find_properties_by_name(auth, property);
    const grpc_auth_property *p = grpc_auth_property_iterator_next(&it);
    if (p)
        snprintf(out, size, "%.*s", (int)p->value_length, p->value);
}

static uint32_t roles_of(const grpc_auth_context *auth)
{
    uint32_t roles = 0;
    size_t prefix = strlen(GB_RPC_ROLE_PREFIX);
    grpc_auth_property_iterator it =
        grpc_auth_context_find_properties_by_name(auth, GRPC_PEER_URI_PROPERTY_NAME);
    for (const grpc_auth_property *p; (p = grpc_auth_property_iterator_next(&it));) {
        char text[64];
        if (p->value_length >= sizeof text || p->value_length < prefix ||
            memcmp(p->value, GB_RPC_ROLE_PREFIX, prefix) != 0)
            continue;
        snprintf(text, sizeof text, "%.*s", (int)(p->value_length - prefix), p->value + prefix);
        roles |= gb_role_parse(text);
    }
    return roles;
}

static void identify(gb_rpc_call_t *call)
{
    char *peer = grpc_call_get_peer(call->call);
    snprintf(call->peer, sizeof call->peer, "%s", peer ? peer : "");
    gpr_free(peer);
    if (!call->server->tls) {
        call->roles = GB_ROLE_ALL;
        return;
    }
    grpc_auth_context *auth = grpc_call_auth_context(call->call);
    if (auth && grpc_auth_context_peer_is_authenticated(auth)) {
        find_property(auth, GRPC_X509_CN_PROPERTY_NAME, call->name, sizeof call->name);
        call->roles = roles_of(auth);
    }
    grpc_auth_context_release(auth);
}

/* ---- sending ---- */

static void pump(gb_rpc_call_t *call);

static void on_sent(gb_rpc_call_t *call, int ok)
{
    (void)ok; /* a failed send is followed by on_close, which tells */
    pthread_mutex_lock(&call->lock);
    call->sending = 0;
    pump(call);
    pthread_mutex_unlock(&call->lock);
}

/* Under lock: starts the next batch if none is in flight. */
static void pump(gb_rpc_call_t *call)
{
    if (call->sending || call->status_queued)
        return;
    grpc_op ops[2];
    memset(ops, 0, sizeof ops);
    gb_rpc_out_t *out = call->out_head;
    size_t count = 0;
    grpc_slice details = grpc_empty_slice();
    if (out) {
        call->out_head = out->next;
        if (!call->out_head)
            call->out_tail = NULL;
        call->queued--;
        ops[count].op = GRPC_OP_SEND_MESSAGE;
        ops[count++].data.send_message.send_message = out->bytes;
    }
    if (!call->out_head && call->ended) {
        details = grpc_slice_from_copied_string(call->end_text);
        ops[count].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
        ops[count].data.send_status_from_server.status = call->end_code;
        ops[count++].data.send_status_from_server.status_details = &details;
        call->status_queued = 1;
    }
    if (count) {
        call->sending = 1;
        if (!start_batch(call, ops, count, &call->on_send, on_sent))
            call->sending = 0;
    }
    grpc_slice_unref(details);
    if (out) {
        grpc_byte_buffer_destroy(out->bytes);
        free(out);
    }
}

static gb_status_t queue_message(gb_rpc_call_t *call, const ProtobufCMessage *message)
{
    gb_rpc_out_t *out = calloc(1, sizeof *out);
    if (!out)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for a message");
    out->bytes = gb_rpc_pack(message);
    if (call->out_tail)
        call->out_tail->next = out;
    else
        call->out_head = out;
    call->out_tail = out;
    call->queued++;
    return GB_OK;
}

static void end_locked(gb_rpc_call_t *call, grpc_status_code code, const char *text)
{
    if (call->ended)
        return;
    call->ended = 1;
    call->end_code = code;
    snprintf(call->end_text, sizeof call->end_text, "%s", text);
}

gb_status_t gb_rpc_call_send(gb_rpc_call_t *call, const ProtobufCMessage *out)
{
    gb_status_t status = GB_OK;
    pthread_mutex_lock(&call->lock);
    if (call->ended || atomic_load(&call->closed))
        status = gb_fail(GB_ERR_CLOSED, "the call is over");
    else if (call->queued >= GB_RPC_QUEUE_LIMIT)
        status = gb_fail(GB_ERR_LIMIT, "%s does not read its messages", call->peer);
    else
        status = queue_message(call, out);
    if (status == GB_OK)
        pump(call);
    pthread_mutex_unlock(&call->lock);
    if (status == GB_ERR_LIMIT)
        grpc_call_cancel(call->call, NULL);
    return status;
}

void gb_rpc_call_reply(gb_rpc_call_t *call, const ProtobufCMessage *out)
{
    pthread_mutex_lock(&call->lock);
    if (!call->ended) {
        if (queue_message(call, out) == GB_OK)
            end_locked(call, GRPC_STATUS_OK, "");
        else
            end_locked(call, GRPC_STATUS_INTERNAL, gb_why());
        pump(call);
    }
    pthread_mutex_unlock(&call->lock);
}

void gb_rpc_call_finish(gb_rpc_call_t *call)
{
    pthread_mutex_lock(&call->lock);
    end_locked(call, GRPC_STATUS_OK, "");
    pump(call);
    pthread_mutex_unlock(&call->lock);
}

void gb_rpc_call_fail(gb_rpc_call_t *call, gb_status_t status, const char *format, ...)
{
    char text[sizeof call->end_text];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    pthread_mutex_lock(&call->lock);
    end_locked(call, gb_rpc_status_to_grpc(status), text);
    pump(call);
    pthread_mutex_unlock(&call->lock);
}

/* ---- receiving ---- */

static void receive(gb_rpc_call_t *call);

static void run_message(gb_rpc_call_t *call)
{
    const gb_rpc_entry_t *entry = call->entry;
    int end = call->request == NULL;
    ProtobufCMessage *in = end ? NULL : gb_rpc_unpack(entry->in, call->request);
    if (call->request)
        grpc_byte_buffer_destroy(call->request);
    call->request = NULL;
    if (!in && !(end && entry->method->stream)) {
        gb_log(GB_LOG_WARN, "%s from %s: the message does not parse", entry->path, call->peer);
        gb_rpc_call_fail(call, GB_ERR_INVALID, "the message is not a %s", entry->in->name);
        return;
    }
    pthread_mutex_lock(&call->serial);
    if (!call->closed_told)
        entry->method->handle(entry->ctx, call, in);
    pthread_mutex_unlock(&call->serial);
    gb_rpc_message_free(in);
    if (entry->method->stream && !end)
        receive(call);
}

static void run_closed(gb_rpc_call_t *call)
{
    pthread_mutex_lock(&call->serial);
    call->closed_told = 1;
    call->entry->method->closed(call->entry->ctx, call);
    pthread_mutex_unlock(&call->serial);
}

static void on_received(gb_rpc_call_t *call, int ok)
{
    if (ok && !atomic_load(&call->closed))
        submit(call, &call->job_message, run_message);
}

static void receive(gb_rpc_call_t *call)
{
    grpc_op op;
    memset(&op, 0, sizeof op);
    op.op = GRPC_OP_RECV_MESSAGE;
    op.data.recv_message.recv_message = &call->request;
    start_batch(call, &op, 1, &call->on_recv, on_received);
}

static void on_closed(gb_rpc_call_t *call, int ok)
{
    (void)ok;
    atomic_store(&call->closed, 1);
    if (call->entry && call->entry->method->closed)
        submit(call, &call->job_closed, run_closed);
}

/* ---- accepting ---- */

static void watch_close(gb_rpc_call_t *call)
{
    grpc_op op;
    memset(&op, 0, sizeof op);
    op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    op.data.recv_close_on_server.cancelled = &call->cancelled;
    start_batch(call, &op, 1, &call->on_close, on_closed);
}

static void send_headers(gb_rpc_call_t *call)
{
    grpc_op op;
    memset(&op, 0, sizeof op);
    op.op = GRPC_OP_SEND_INITIAL_METADATA;
    pthread_mutex_lock(&call->lock);
    call->sending = start_batch(call, &op, 1, &call->on_send, on_sent);
    pthread_mutex_unlock(&call->lock);
}

static int allowed(gb_rpc_call_t *call)
{
    const gb_rpc_entry_t *entry = call->entry;
    if (!entry) {
        char *path = grpc_slice_to_c_string(call->details.method);
        gb_log(GB_LOG_DEBUG, "%s: unknown method %s", call->peer, path);
        gb_rpc_call_fail(call, GB_ERR_UNSUPPORTED, "no method %.100s here", path);
        gpr_free(path);
        return 0;
    }
    if (call->roles & entry->method->roles)
        return 1;
    gb_log(GB_LOG_WARN, "refused %s to %s (%s, role %s)", entry->path, call->name, call->peer,
           gb_role_name(call->roles));
    gb_rpc_call_fail(call, GB_ERR_UNAUTHORISED, "the role %s of certificate %s may not call %s",
                     gb_role_name(call->roles), call->name, entry->method->name);
    return 0;
}

static void on_new(gb_rpc_call_t *call, int ok)
{
    if (!ok)
        return; /* the server shuts down */
    call->accepted = 1;
    gb_rpc_server_live(call->server, 1);
    gb_rpc_call_arm(call->server, call->entry);
    watch_close(call);
    identify(call);
    send_headers(call);
    if (!allowed(call))
        return;
    if (call->entry->method->stream)
        receive(call);
    else
        submit(call, &call->job_message, run_message);
}

gb_status_t gb_rpc_call_arm(gb_rpc_server_t *server, const gb_rpc_entry_t *entry)
{
    gb_rpc_call_t *call = calloc(1, sizeof *call);
    if (!call)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for a call");
    call->server = server;
    call->entry = entry;
    atomic_init(&call->refs, 1); /* the tag's */
    pthread_mutex_init(&call->serial, NULL);
    pthread_mutex_init(&call->lock, NULL);
    grpc_metadata_array_init(&call->metadata);
    call->on_new.fn = on_new;
    call->on_new.call = call;
    atomic_store_explicit(&call->on_new.handed, 1, memory_order_release);
    grpc_call_error error;
    if (entry) {
        int stream = entry->method->stream;
        error = grpc_server_request_registered_call(
            server->server, entry->registered, &call->call, &call->deadline, &call->metadata,
            stream ? NULL : &call->request, server->cq, server->cq, &call->on_new);
    } else {
        grpc_call_details_init(&call->details);
        error = grpc_server_request_call(server->server, &call->call, &call->details,
                                         &call->metadata, server->cq, server->cq, &call->on_new);
    }
    if (error == GRPC_CALL_OK)
        return GB_OK;
    gb_rpc_call_unref(call);
    return gb_fail(GB_ERR_INTERNAL, "grpc: %s", grpc_call_error_to_string(error));
}

/* ---- facts about a call ---- */

void gb_rpc_call_set_user(gb_rpc_call_t *call, void *user)
{
    atomic_store(&call->user, (uintptr_t)user);
}

void *gb_rpc_call_user(const gb_rpc_call_t *call)
{
    return (void *)atomic_load(&call->user);
}

uint32_t gb_rpc_call_roles(const gb_rpc_call_t *call)
{
    return call->roles;
}

const char *gb_rpc_call_name(const gb_rpc_call_t *call)
{
    return call->name;
}

const char *gb_rpc_call_peer(const gb_rpc_call_t *call)
{
    return call->peer;
}

int gb_rpc_call_closed(const gb_rpc_call_t *call)
{
    return atomic_load(&call->closed);
}

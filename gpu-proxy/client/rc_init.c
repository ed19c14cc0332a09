/* From cuInit to the end of the process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/core/gb_log.h"
#include "common/crypto/gb_crypto.h"
#include "common/cuda/gb_cuda_default.h"
#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_call.h"
#include "gpu-proxy/client/rc_config.h"

rc_state_t rc = {.init_lock = PTHREAD_MUTEX_INITIALIZER, .memory_lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- fork and exit ---- */

/* The child has copies of the sockets and of nobody's locks: it closes the former, so that the proxy
 * sees the parent's end, and never uses anything else. */
static void in_child(void)
{
    if (atomic_load(&rc.phase) != RC_READY)
        return;
    atomic_store(&rc.phase, RC_FORKED);
    for (int i = 0; i < rc.session_count; i++)
        gb_durable_abandon(rc.sessions[i]->stream);
}

/* The last of the three ends that a CUDA program has (atexit handlers and the runtime's unregistering
 * come before it and may still call). */
__attribute__((destructor)) void gb_cuda_leave(void)
{
    int ready = RC_READY;
    if (!atomic_compare_exchange_strong(&rc.phase, &ready, RC_OVER))
        return;
    for (int i = 0; i < rc.session_count; i++)
        rc_session_end(rc.sessions[i]);
    rc_progress_stop();
}

CUresult rc_check(void)
{
    switch (atomic_load_explicit(&rc.phase, memory_order_acquire)) {
    case RC_READY:
        return CUDA_SUCCESS;
    case RC_OVER:
        return CUDA_ERROR_DEINITIALIZED;
    default:
        return CUDA_ERROR_NOT_INITIALIZED;
    }
}

rc_device_t *rc_device(CUdevice device)
{
    return device >= 0 && device < rc.device_count ? &rc.devices[device] : NULL;
}

/* ---- connecting: one thread per proxy ---- */

typedef struct {
    const rc_target_t *target;
    int number;
    pthread_t thread;
    gb_status_t status;
    char why[256];
    rc_session_t *session;
    rc_device_t *devices;
    int count;
} connecting_t;

static gb_status_t greet(connecting_t *c, rc_lane_t *lane)
{
    rc_session_t *s = c->session;
    px_wire_hello_t hello = {.version = PX_WIRE_VERSION,
                             .pid = (uint32_t)getpid(),
                             .resumes = (uint32_t)gb_durable_keeps(s->stream)};
    px_wire_welcome_t welcome = {0};
    rc_waiter_t waiter = {0};
    snprintf(hello.program, sizeof(hello.program), "%s", program_invocation_short_name);
    CUresult result =
        rc_send_and_wait(s, lane, NULL, PX_OP_HELLO, &hello, sizeof(hello), NULL, 0, &waiter);
    const uint8_t *bytes = rc_waiter_bytes(&waiter);
    gb_status_t status = GB_OK;
    if (!result && waiter.more_size >= sizeof(welcome))
        memcpy(&welcome, bytes, sizeof(welcome));
    if (result)
        status =
            gb_fail(GB_ERR_LOST, "%s: the session ended at once: see the proxy's log", s->where);
    else if (welcome.version != PX_WIRE_VERSION)
        status =
            gb_fail(GB_ERR_VERSION,
                    "%s speaks version %u of the session protocol, this client %u: install the "
                    "same release on both sides",
                    s->where, welcome.version, PX_WIRE_VERSION);
    else if (welcome.device_count > RC_DEVICES ||
             waiter.more_size < sizeof(welcome) + welcome.device_count * sizeof(px_wire_device_t))
        status = gb_fail(GB_ERR_PROTOCOL, "%s: the welcome is cut off", s->where);
    if (status == GB_OK) {
        c->count = (int)welcome.device_count;
        s->driver_version = welcome.driver_version;
        s->timeout_ms = welcome.timeout_ms;
        s->late_copies = (int)welcome.late_copies;
        c->devices = calloc(welcome.device_count + 1, sizeof(*c->devices));
        if (!c->devices)
            status = gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    for (int i = 0; i < c->count && status == GB_OK; i++) {
        c->devices[i].session = s;
        c->devices[i].index = (uint32_t)i;
        memcpy(&c->devices[i].info, bytes + sizeof(welcome) + (size_t)i * sizeof(px_wire_device_t),
               sizeof(px_wire_device_t));
    }
    rc_waiter_done(&waiter);
    return status;
}

static gb_status_t agree_windows(connecting_t *c, rc_lane_t *lane)
{
    for (int i = 0; i < c->count; i++)
        if (rc_window_agree(c->session, lane, &c->devices[i]))
            return gb_fail(GB_ERR_NO_MEMORY,
                           "%s: no common range of addresses for device %d: set GABLE_WINDOW_BASE "
                           "and GABLE_WINDOW_SIZE",
                           c->session->where, i);
    return GB_OK;
}

static void *connect_one(void *arg)
{
    connecting_t *c = arg;
    rc_lane_t *lane = rc_lane();
    c->status = lane ? GB_OK : gb_fail(GB_ERR_LIMIT, "more than %d threads", RC_LANES);
    if (c->status == GB_OK)
        c->status =
            rc_session_open(&c->target->endpoint, &c->target->credential, c->number, &c->session);
    if (c->status == GB_OK)
        c->status = greet(c, lane);
    if (c->status == GB_OK)
        c->status = agree_windows(c, lane);
    if (c->status)
        snprintf(c->why, sizeof(c->why), "%s", gb_why());
    return NULL;
}

static void connect_all(connecting_t *all, int count)
{
    for (int i = 1; i < count; i++)
        if (pthread_create(&all[i].thread, NULL, connect_one, &all[i]) != 0) {
            all[i].thread = 0;
            connect_one(&all[i]);
        }
    connect_one(&all[0]);
    for (int i = 1; i < count; i++)
        if (all[i].thread)
            pthread_join(all[i].thread, NULL);
}

/* Lines all devices up and keeps those that the program shall see. */
static gb_status_t take_devices(connecting_t *all, int count)
{
    rc_device_t *found = calloc(RC_DEVICES, sizeof(*found));
    int order[RC_DEVICES], total = 0;
    if (!found)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    for (int i = 0; i < count; i++) {
        int only = all[i].target->endpoint.device;
        for (int k = 0; k < all[i].count && total < RC_DEVICES; k++)
            if (only == GB_ENDPOINT_ANY_DEVICE || only == k)
                found[total++] = all[i].devices[k];
        rc.sessions[i] = all[i].session;
        if (i == 0 || all[i].session->driver_version < rc.driver_version)
            rc.driver_version = all[i].session->driver_version;
    }
    rc.session_count = count;
    rc.device_count = rc_config_visible(found, total, order);
    for (int i = 0; i < rc.device_count; i++) {
        rc.devices[i] = found[order[i]];
        pthread_mutex_init(&rc.devices[i].lock, NULL);
    }
    free(found);
    return rc.device_count ? GB_OK
                           : gb_fail(GB_ERR_NOT_FOUND, "no device: the proxies have none, or "
                                                       "CUDA_VISIBLE_DEVICES hides them");
}

static CUresult connect_targets(const rc_targets_t *targets)
{
    connecting_t *all = calloc((size_t)targets->count, sizeof(*all));
    gb_status_t status = GB_OK;
    const char *why = gb_why();
    if (!all)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < targets->count; i++) {
        all[i].target = &targets->list[i];
        all[i].number = i;
    }
    connect_all(all, targets->count);
    for (int i = 0; i < targets->count && !status; i++) {
        status = all[i].status;
        why = all[i].why;
    }
    CUresult result = CUDA_SUCCESS;
    if (status == GB_OK) {
        status = take_devices(all, targets->count);
        why = gb_why();
        result = status ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
    } else {
        result = status == GB_ERR_UNAUTHORISED ? CUDA_ERROR_NOT_PERMITTED : RC_LOST;
    }
    if (status) {
        gb_log(GB_LOG_ERROR, "cuInit: %s", why);
        rc.session_count = rc.device_count = 0;
    }
    for (int i = 0; i < targets->count; i++) {
        if (status && all[i].session) {
            rc_session_end(all[i].session);
            rc_session_free(all[i].session);
        }
        free(all[i].devices);
    }
    free(all);
    return result;
}

CUresult rc_connect(void)
{
    rc_targets_t *targets = calloc(1, sizeof(*targets));
    if (!targets)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = CUDA_ERROR_NO_DEVICE;
    gb_crypto_outlive_exit();
    if (rc_config_targets(targets) == GB_OK)
        result = connect_targets(targets);
    else
        gb_log(GB_LOG_ERROR, "cuInit: %s", gb_why());
    gb_wipe(targets, sizeof(*targets));
    free(targets);
    return result;
}

CUresult cuInit(unsigned int Flags)
{
    static int forks_watched;
    if (Flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = rc_check();
    if (!result || result == CUDA_ERROR_DEINITIALIZED || atomic_load(&rc.phase) == RC_FORKED)
        return result;
    pthread_mutex_lock(&rc.init_lock);
    if (rc_check() != CUDA_SUCCESS) {
        result = rc_connect();
        if (!result) {
            if (!forks_watched)
                pthread_atfork(NULL, NULL, in_child);
            forks_watched = 1;
            if (rc_progress_start())
                gb_log(GB_LOG_WARN, "queued calls leave with the next waiting one only: %s",
                       gb_why());
            atomic_store_explicit(&rc.phase, RC_READY, memory_order_release);
        }
    } else {
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&rc.init_lock);
    return result;
}

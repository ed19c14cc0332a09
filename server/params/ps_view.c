/* Life of a view, membership, checkpoints. What requests mean stands in ps_requests.c. */
#include "server/params/ps_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "server/params/ps_requests.h"

ps_view_t *ps_view_find(ps_owner_t *owner, const ps_job_t *job)
{
    ps_view_t *view = owner->views;
    while (view && view->job != job)
        view = view->next;
    return view;
}

ps_view_t *ps_view_get(ps_owner_t *owner, ps_job_t *job)
{
    ps_view_t *view = ps_view_find(owner, job);
    if (view)
        return view;
    if (atomic_load(&job->removed)) {
        gb_fail(GB_ERR_NOT_FOUND, "job %s was removed", job->name);
        return NULL;
    }
    view = calloc(1, sizeof(*view));
    if (!view) {
        gb_fail(GB_ERR_NO_MEMORY, "out of memory");
        return NULL;
    }
    view->owner = owner;
    view->job = ps_job_ref(job);
    view->next = owner->views;
    owner->views = view;
    return view;
}

/* The checkpoint will not be had: says so for each chunk that it still waits for. */
static void ckpt_drop(ps_view_t *view, uint32_t i)
{
    ps_ckpt_t *ckpt = view->ckpts[i];
    for (uint32_t c = 0; c < view->chunk_count; c++) {
        if (view->chunks[c].version < ckpt->clock)
            ps_ckpt_capture(ckpt, NULL);
    }
    view->ckpts[i] = view->ckpts[--view->ckpt_count];
    ps_ckpt_unref(ckpt);
}

void ps_view_free(ps_view_t *view)
{
    while (view->ckpt_count > 0)
        ckpt_drop(view, view->ckpt_count - 1);
    for (uint32_t c = 0; c < view->chunk_count; c++)
        ps_chunk_clear(&view->chunks[c]);
    free(view->chunks);
    free(view->index);
    free(view->claims);
    ps_members_clear(&view->members);
    ps_job_unref(view->job);
    free(view);
}

/* ---- checkpoints ---- */

static int ckpt_open(const ps_view_t *view, const ps_ckpt_t *ckpt)
{
    for (uint32_t c = 0; c < view->chunk_count; c++) {
        if (view->chunks[c].version < ckpt->clock)
            return 1;
    }
    return 0;
}

/* Chunks past the clock, or at it without weights: there is no such checkpoint to be had. */
static int ckpt_late(const ps_view_t *view, const ps_ckpt_t *ckpt)
{
    for (uint32_t c = 0; c < view->chunk_count; c++) {
        const ps_chunk_t *chunk = &view->chunks[c];
        if (chunk->version > ckpt->clock || (chunk->version == ckpt->clock && !chunk->ready))
            return 1;
    }
    return 0;
}

static void ckpt_enter(ps_view_t *view, ps_ckpt_t *ckpt)
{
    if (ps_ckpt_arm(ckpt) != GB_OK) {
        gb_log(GB_LOG_ERROR, "job %s: no checkpoint at clock %llu: %s", view->job->name,
               (unsigned long long)ckpt->clock, gb_why());
        return;
    }
    int late = ckpt_late(view, ckpt);
    for (uint32_t c = 0; c < view->chunk_count; c++) {
        if (late || view->chunks[c].version == ckpt->clock)
            ps_ckpt_capture(ckpt, late ? NULL : &view->chunks[c]);
    }
    if (!late && ckpt_open(view, ckpt))
        view->ckpts[view->ckpt_count++] = ps_ckpt_ref(ckpt);
}

void ps_view_ckpt(ps_view_t *view, ps_ckpt_t *ckpt)
{
    if (view->ckpt_count == PS_MAX_CKPTS)
        ckpt_drop(view, 0);
    if (view->index)
        ckpt_enter(view, ckpt);
    else
        view->ckpts[view->ckpt_count++] = ps_ckpt_ref(ckpt);
}

void ps_view_declared(ps_view_t *view)
{
    ps_ckpt_t *waiting[PS_MAX_CKPTS];
    uint32_t count = view->ckpt_count;
    memcpy(waiting, view->ckpts, count * sizeof(waiting[0]));
    view->ckpt_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        ckpt_enter(view, waiting[i]);
        ps_ckpt_unref(waiting[i]);
    }
}

void ps_view_stepped(ps_view_t *view, const ps_chunk_t *chunk)
{
    for (uint32_t i = view->ckpt_count; i > 0; i--) {
        ps_ckpt_t *ckpt = view->ckpts[i - 1];
        if (chunk->version != ckpt->clock)
            continue;
        ps_ckpt_capture(ckpt, chunk);
        if (!ckpt_open(view, ckpt)) {
            view->ckpts[i - 1] = view->ckpts[--view->ckpt_count];
            ps_ckpt_unref(ckpt);
        }
    }
}

/* ---- members ---- */

/* What the worker is sending right now has no place any more. */
static void stop_receiving(ps_view_t *view, int all, uint32_t worker)
{
    for (ps_conn_t *conn = view->owner->conns; conn; conn = conn->next) {
        if (conn->view == view && (all || conn->hello.worker == worker) && conn->receiving) {
            conn->receiving = 0;
            conn->refused = 1;
            conn->into = NULL;
        }
    }
}

static gb_status_t check_begin(const ps_view_t *view, uint64_t clock_begin)
{
    for (uint32_t c = 0; c < view->chunk_count; c++) {
        if (view->chunks[c].version > clock_begin)
            return gb_fail(GB_ERR_INVALID,
                           "job %s: members from clock %llu on, but the weights are at %llu",
                           view->job->name, (unsigned long long)clock_begin,
                           (unsigned long long)view->chunks[c].version);
    }
    return GB_OK;
}

static uint64_t oldest(const ps_view_t *view)
{
    uint64_t clock = view->chunk_count ? UINT64_MAX : 0;
    for (uint32_t c = 0; c < view->chunk_count; c++)
        clock = view->chunks[c].version < clock ? view->chunks[c].version : clock;
    return clock;
}

/* Workers of an older generation computed on weights that are no more. */
void ps_view_new_generation(ps_view_t *view, uint32_t generation)
{
    stop_receiving(view, 1, 0);
    for (uint32_t c = 0; c < view->chunk_count; c++) {
        while (view->chunks[c].slot_count > 0)
            ps_chunk_drop(&view->chunks[c], view->chunks[c].slots[0].worker);
    }
    for (ps_conn_t *conn = view->owner->conns; conn; conn = conn->next) {
        if (conn->view == view && conn->hello.generation < generation)
            ps_conn_error(conn, GBX_OP_NOTICE, 0, GBX_GENERATION,
                          "the job has a new generation: join it again");
    }
}

gb_status_t ps_view_set_members(ps_view_t *view, uint64_t clock_begin, const uint32_t *workers,
                                uint32_t count)
{
    gb_status_t st = check_begin(view, clock_begin);
    if (st == GB_OK)
        st = ps_members_set(&view->members, clock_begin, workers, count, oldest(view));
    if (st != GB_OK)
        return st;
    ps_view_step_all(view);
    return GB_OK;
}

void ps_view_leave(ps_view_t *view, uint32_t worker)
{
    stop_receiving(view, 0, worker);
    for (uint32_t c = 0; c < view->chunk_count; c++)
        ps_chunk_drop(&view->chunks[c], worker);
    ps_members_leave(&view->members, worker);
    for (ps_conn_t *conn = view->owner->conns; conn; conn = conn->next) {
        if (conn->view == view && conn->hello.worker == worker)
            ps_conn_error(conn, GBX_OP_NOTICE, 0, GBX_EVICTED,
                          "this worker no longer takes part in the job: join it again");
    }
    ps_view_step_all(view);
}

void ps_view_notify_all(ps_view_t *view, gbx_poison_t code, const char *text)
{
    for (ps_conn_t *conn = view->owner->conns; conn; conn = conn->next) {
        if (conn->view == view)
            ps_conn_error(conn, GBX_OP_NOTICE, 0, code, text);
    }
}

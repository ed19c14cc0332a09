/* ps_view.h - an owner's part of a job: its chunks, its copy of the members, its connections' requests.
 *
 * Here the protocol gets its meaning. Belongs to its owner thread. */
#ifndef PS_VIEW_H
#define PS_VIEW_H

#include <stdint.h>

#include "server/params/ps_chunk.h"
#include "server/params/ps_ckpt.h"
#include "server/params/ps_conn.h"
#include "server/params/ps_job.h"

enum { PS_MAX_CKPTS = 8 };

typedef struct ps_view {
    struct ps_view *next;
    ps_owner_t *owner;
    ps_job_t *job;
    ps_members_t members;
    ps_chunk_t *chunks; /* this owner's */
    uint32_t chunk_count;
    uint32_t *index; /* chunk id -> index in chunks, or UINT32_MAX; NULL until declared */
    /* Who gives the initial weights; used on owner 0 of shard 0 only. */
    int ready;
    ps_conn_t *claimer;
    ps_waiter_t *claims; /* those who wait for the answer */
    uint32_t claim_count, claim_cap;
    ps_ckpt_t *ckpts[PS_MAX_CKPTS]; /* that wait for chunks of ours, or for the model */
    uint32_t ckpt_count;
} ps_view_t;

/* The owner's view of the job, made if need be. NULL: the job was removed, or out of memory. */
ps_view_t *ps_view_get(ps_owner_t *owner, ps_job_t *job);
ps_view_t *ps_view_find(ps_owner_t *owner, const ps_job_t *job);
void ps_view_free(ps_view_t *view);

/* A whole frame without chunk data: DECLARE (payload), CLAIM, READY. */
void ps_view_request(ps_view_t *view, ps_conn_t *conn, const void *payload);

/* A chunk head has come: says where its data go (*into NULL: thrown away). GB_ERR_PROTOCOL: the
 * connection must end. */
gb_status_t ps_view_chunk_begin(ps_view_t *view, ps_conn_t *conn, uint8_t **into);
/* All data of that frame are there (or there are none). */
void ps_view_chunk_end(ps_view_t *view, ps_conn_t *conn);

/* The connection is gone: drops what it was sending and waiting for. */
void ps_view_conn_gone(ps_view_t *view, ps_conn_t *conn);

gb_status_t ps_view_set_members(ps_view_t *view, uint64_t clock_begin, const uint32_t *workers,
                                uint32_t count);

/* The generation was raised to this one: drops every gradient that has come, tells older workers. */
void ps_view_new_generation(ps_view_t *view, uint32_t generation);

void ps_view_leave(ps_view_t *view, uint32_t worker);

/* Enters a checkpoint: captures chunks that are at its clock, waits for the others, and for the model
 * if that is not known yet. */
void ps_view_ckpt(ps_view_t *view, ps_ckpt_t *ckpt);

/* Ends all connections of the job with a notice. */
void ps_view_notify_all(ps_view_t *view, gbx_poison_t code, const char *text);

#endif

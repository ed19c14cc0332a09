/* ps_ckpt.h - checkpoints: captured chunk by chunk at one clock, written by a thread of their own.
 *
 * Capturing takes a reference to the chunk's weights and optimizer state; training goes on with new
 * buffers. Files: DIR/JOB/clock-<12 digits>.safetensors, with the tensors under their own names and
 * the optimizer's state as "optimizer.velocity/NAME". A tensor of which this shard holds a part only
 * stands as "NAME@FIRST_VALUE", one for each piece. */
#ifndef PS_CKPT_H
#define PS_CKPT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "server/params/ps_buf.h"
#include "server/params/ps_chunk.h"
#include "server/params/ps_job.h"

struct ps_params;

typedef struct ps_ckpt {
    struct ps_ckpt *next; /* in the writer's queue */
    struct ps_params *ps;
    atomic_uint refs;
    ps_job_t *job;
    uint64_t clock;
    uint32_t epoch;
    atomic_uint remaining; /* chunks of this shard not captured yet; counts once it is armed */
    int armed;             /* the model is known; under `lock` */
    atomic_int late;       /* a chunk was past the clock: there is no such checkpoint any more */
    struct {
        ps_buf_t *weights, *velocity;
    } *chunks; /* by chunk id */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int done; /* written, or failed */
    gb_status_t status;
    char path[512];
} ps_ckpt_t;

gb_status_t ps_ckpt_new(struct ps_params *ps, ps_job_t *job, uint64_t clock, uint32_t epoch,
                        ps_ckpt_t **out);
ps_ckpt_t *ps_ckpt_ref(ps_ckpt_t *ckpt);
void ps_ckpt_unref(ps_ckpt_t *ckpt);

/* Makes room for the chunks, once the job's model is known; any number of times. GB_ERR_NO_MEMORY. */
gb_status_t ps_ckpt_arm(ps_ckpt_t *ckpt);

/* Any owner thread, once per chunk of an armed checkpoint: captures it, or (chunk NULL) says that it cannot be had. The last
 * one hands the checkpoint to the writer. */
void ps_ckpt_capture(ps_ckpt_t *ckpt, const ps_chunk_t *chunk);

/* Waits until it is written. GB_ERR_TIMEOUT, or what went wrong; GB_ERR_AGAIN: the clock had passed. */
gb_status_t ps_ckpt_wait(ps_ckpt_t *ckpt, uint32_t timeout_ms);

gb_status_t ps_ckpt_writer_start(struct ps_params *ps);
/* Writes what is queued, then ends. */
void ps_ckpt_writer_stop(struct ps_params *ps);

/* Opens the newest good checkpoint of the job in the configured folder, into job->restore. GB_OK also
 * if there is none. */
gb_status_t ps_ckpt_find(struct ps_params *ps, ps_job_t *job);

/* Fills a fresh chunk from job->restore. */
gb_status_t ps_ckpt_load_chunk(ps_job_t *job, ps_chunk_t *chunk);

#endif

/* ps_job.h - what all threads of a shard share of a job: its rules, its model, who is connected.
 *
 * Nothing here is touched between the socket and the weights; the lock is for control only. */
#ifndef PS_JOB_H
#define PS_JOB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/tensor/gb_safetensors.h"
#include "server/client/gbx_plan.h"
#include "server/params/ps_params.h"

/* The connections of a worker. */
typedef struct {
    uint32_t worker;
    uint32_t open; /* connections that stand */
    uint64_t
        lost_at; /* gb_now_ns() when one went without a goodbye and was not replaced; 0 = none */
    int goodbye;
} ps_presence_t;

typedef struct ps_job {
    struct ps_job *next;
    atomic_uint refs;
    char name[PS_JOB_NAME];
    ps_optimizer_t optimizer;
    atomic_uint generation;
    atomic_int removed; /* connections that come late are sent away */

    atomic_ullong bytes_pushed, bytes_pulled, pushes, repeats, dropped_halves;

    pthread_mutex_t lock;
    ps_presence_t *presences;
    uint32_t presence_count, presence_cap;
    /* The model: set once by the first worker that declares it, then constant. */
    uint8_t *plan_bytes;
    uint32_t plan_size;
    gbx_plan_t plan;
    uint32_t shard, shards;
    /* The checkpoint to start from, or NULL. */
    gb_st_reader_t *restore;
    uint64_t restore_clock;
    uint32_t epoch; /* of the newest checkpoint */
    uint64_t checkpoint_clock;
} ps_job_t;

gb_status_t ps_job_new(const ps_params_job_t *config, ps_job_t **out);
ps_job_t *ps_job_ref(ps_job_t *job);
void ps_job_unref(ps_job_t *job);

/* Agrees on the model: the first plan is taken, a later one must have the same bytes.
 * GB_ERR_INVALID: it differs; GB_ERR_PROTOCOL: malformed. */
gb_status_t ps_job_declare(ps_job_t *job, const void *bytes, uint32_t size, uint32_t shard,
                           uint32_t shards);

/* A connection of the worker stands; `all` is how many make it complete. */
gb_status_t ps_job_came(ps_job_t *job, uint32_t worker, uint32_t all);

typedef enum {
    PS_GONE_TOLD,    /* we cut it and the worker knows */
    PS_GONE_GOODBYE, /* the worker said goodbye */
    PS_GONE_LOST,    /* neither */
} ps_gone_t;
void ps_job_went(ps_job_t *job, uint32_t worker, ps_gone_t how);

/* Takes one worker that must leave now: said goodbye, or lost for grace_ns. Returns 0 if there is
 * none; *next is then the time to look again, or UINT64_MAX. */
int ps_job_take_leaver(ps_job_t *job, uint64_t now, uint64_t grace_ns, uint32_t *worker,
                       int *goodbye, uint64_t *next);

/* 1 if `name` may name a job. */
int ps_job_name_ok(const char *name);

#endif

/* ps_params.h - one parameter shard: its store, its data port and its checkpoints.
 *
 * The registry tells it which leases may connect, which jobs there are, how they update weights and
 * who takes part from which clock on; workers' exchanges (gbx) bring gradients and take weights over
 * the data port. Every function is thread-safe and none waits for the network or the disk, except
 * where it says so. Job names are 1 to 63 bytes of [A-Za-z0-9._-], not starting with a dot. */
#ifndef PS_PARAMS_H
#define PS_PARAMS_H

#include <stdint.h>

#include "common/core/gb_status.h"

typedef struct ps_params ps_params_t;

enum { PS_MAX_WORKERS = 256, PS_JOB_NAME = 64, PS_KEY_BYTES = 32 };

typedef struct {
    const char *listen; /* "127.0.0.1:7073" or "unix:PATH"; port 0 takes a free one */
    int insecure;       /* TCP without TLS; lease 0 with the zero key is then accepted too */
    const char *checkpoint_dir; /* made if missing; NULL: no checkpoints */
    uint32_t keep;              /* newest checkpoints kept per job; 0 = 3 */
    uint32_t threads;           /* owner threads; 0 = half the CPUs, at least 1, at most 16 */
    uint32_t grace_ms;          /* after a cut connection, until the worker leaves; 0 = 1000 */
    uint32_t silence_ms;        /* a worker silent for so long is gone; 0 = 15000 */
    void *context;              /* handed to the callbacks */
    /* A worker left because its connection went: it said goodbye, or was cut or silent and did not
     * come back within the grace. Called on a thread of the shard without locks held; it may call
     * ps_params_*. The shard has already dropped the worker from its sums. NULL is fine. */
    void (*on_leave)(void *context, const char *job, uint32_t worker, const char *why);
    /* A checkpoint is on disk. NULL is fine. */
    void (*on_checkpoint)(void *context, const char *job, uint64_t clock, uint32_t epoch,
                          const char *path);
} ps_params_config_t;

typedef enum { PS_SGD = 1 } ps_optimizer_kind_t;
typedef enum { PS_LR_CONSTANT = 0, PS_LR_STEP = 1 } ps_schedule_kind_t;

/* v = momentum * v + (g + weight_decay * w);  w -= lr * (nesterov ? g' + momentum * v : v), g' being
 * the gradient with decay: what torch.optim.SGD does with dampening 0. Step schedule: lr is
 * multiplied by lr_gamma every lr_step clocks. */
typedef struct {
    ps_optimizer_kind_t kind;
    float lr, momentum, weight_decay;
    int nesterov;
    ps_schedule_kind_t schedule;
    uint64_t lr_step;
    float lr_gamma;
} ps_optimizer_t;

typedef struct {
    const char *name;
    uint32_t generation; /* what workers must name; raise it after a restart */
    ps_optimizer_t optimizer;
    int restore; /* take weights, optimizer state and clock from the job's newest checkpoint */
} ps_params_job_t;

typedef struct {
    char name[PS_JOB_NAME];
    uint32_t generation;
    uint64_t clock;            /* version that every chunk here has reached */
    uint32_t epoch;            /* of the newest checkpoint */
    uint64_t checkpoint_clock; /* 0 if there is none */
    uint32_t tensors, chunks, members, connections;
    uint64_t parameters;                      /* fp32 values held */
    uint64_t bytes_pushed, bytes_pulled;      /* payload since the job was made */
    uint64_t pushes, repeats, dropped_halves; /* pushed chunks; repeated ones; cut in half */
} ps_params_info_t;

typedef struct {
    char name[128];
    uint32_t dims;
    uint64_t shape[8];
    uint64_t version;
    double norm; /* L2 of the weights at `version` */
} ps_params_tensor_t;

/* Binds the port and starts the threads. GB_ERR_EXISTS: port in use. */
gb_status_t ps_params_start(const ps_params_config_t *config, ps_params_t **out);

/* Ends every connection (workers see the shard go), finishes checkpoints being written, frees all.
 * Blocks. NULL is fine. */
void ps_params_stop(ps_params_t *ps);

/* The endpoint really bound, e.g. "127.0.0.1:40123". Valid until ps_params_stop. */
const char *ps_params_endpoint(const ps_params_t *ps);

/* Lets a lease connect until expires_ms (wall clock, 0 = never ends). A repeated grant replaces. */
gb_status_t ps_params_grant(ps_params_t *ps, uint64_t lease, const uint8_t key[PS_KEY_BYTES],
                            uint64_t expires_ms);

/* Revokes and cuts the lease's connections. GB_ERR_NOT_FOUND. */
gb_status_t ps_params_revoke(ps_params_t *ps, uint64_t lease);

/* Makes a job. With `restore` and a checkpoint, *clock is its clock (workers start there) and *epoch
 * its epoch; else both are 0. May read the disk. GB_ERR_EXISTS, GB_ERR_INVALID, GB_ERR_FORMAT (a
 * checkpoint that does not parse; the next older one is tried first). */
gb_status_t ps_params_job_create(ps_params_t *ps, const ps_params_job_t *job, uint64_t *clock,
                                 uint32_t *epoch);

/* Forgets a job and cuts its connections; its checkpoints stay. Waits for the owner threads. */
gb_status_t ps_params_job_remove(ps_params_t *ps, const char *job);

/* From clock_begin on, exactly these workers make up a sum; earlier clocks keep their members. A
 * generation above the job's raises it (connections of the old one are told). Returns once the owner
 * threads act on it. GB_ERR_INVALID if clock_begin lies in the past. */
gb_status_t ps_params_set_members(ps_params_t *ps, const char *job, uint32_t generation,
                                  uint64_t clock_begin, const uint32_t *workers, uint32_t count);

/* The worker is left out of every sum not yet made, now; pending ones are completed without it. Its
 * connections are told and cut. Harmless if it is no member. */
gb_status_t ps_params_leave(ps_params_t *ps, const char *job, uint32_t worker);

/* Takes a checkpoint when the job reaches `clock` (the end of `epoch`), without stopping it: each
 * chunk is kept as it is at that clock and written by a thread of its own. The model need not be known
 * yet. At most 8 may be outstanding: the oldest is given up then. */
gb_status_t ps_params_checkpoint_at(ps_params_t *ps, const char *job, uint64_t clock,
                                    uint32_t epoch);

/* Takes a checkpoint at the newest clock that any chunk has and blocks until it is on disk or
 * timeout_ms has passed. `path` (may be NULL) gets its name. */
gb_status_t ps_params_checkpoint_now(ps_params_t *ps, const char *job, uint32_t epoch,
                                     uint32_t timeout_ms, char *path, uint32_t path_size);

/* Reports of a job; `info` by name. */
gb_status_t ps_params_info(ps_params_t *ps, const char *job, ps_params_info_t *out);

/* Calls `each` for every job, or for every tensor of a job in declared order (norms are computed
 * here, not on the owner threads). */
gb_status_t ps_params_each_job(ps_params_t *ps,
                               void (*each)(void *arg, const ps_params_info_t *info), void *arg);
gb_status_t ps_params_each_tensor(ps_params_t *ps, const char *job,
                                  void (*each)(void *arg, const ps_params_tensor_t *tensor),
                                  void *arg);

#endif

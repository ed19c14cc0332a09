/* gb_cluster.h - the control plane seen from a worker, a proxy's neighbour or the command line.
 *
 * One gb_cluster_t is a connection to ps-server (gRPC underneath; nothing of gRPC or protobuf shows
 * here). All functions may be called from any thread, also at the same time on one connection.
 * Every call is bounded by the connection's timeout, except gb_job_begin_epoch, which is bounded by
 * its own limit.
 *
 * Statuses that mean the same everywhere:
 *   GB_ERR_UNREACHABLE   the server does not answer (away, restarting, cut off). Nothing is lost: the
 *                        caller may repeat the same call until its own patience ends.
 *   GB_ERR_UNAUTHORISED  certificate refused, or its role may not do this
 *   GB_ERR_VERSION       the server speaks another version of the protocol
 *   GB_ERR_INVALID       the request can never succeed as it is
 * gb_why() has the line for people after every failure.
 *
 * Strings in results have fixed sizes and are always terminated; lists are one allocation, released
 * with gb_cluster_free(). */
#ifndef GB_CLUSTER_H
#define GB_CLUSTER_H

#include <stdint.h>

#include "common/core/gb_status.h"
#include "common/lease/gb_lease.h"

#define GB_CLUSTER_NAME_SIZE 64
#define GB_CLUSTER_ENDPOINT_SIZE 160
#define GB_CLUSTER_TEXT_SIZE 256
#define GB_CLUSTER_KEY_SIZE 32

typedef struct gb_cluster gb_cluster_t;
typedef struct gb_cluster_lease gb_cluster_lease_t;
typedef struct gb_job gb_job_t;

/* ---- connection ---- */

typedef struct {
    const char *server;  /* "HOST:PORT" of ps-server's gRPC port */
    const char *tls_dir; /* folder with ca.pem, node.pem, node.key; NULL: plain, no credential */
    const char *name;    /* shown in lists; NULL: "<program>@<host>:<pid>" */
    int timeout_ms;      /* per call; 0: 5000 */
} gb_cluster_config_t;

/* Connects and agrees on the version. UNREACHABLE, UNAUTHORISED, VERSION, INVALID (address, files). */
gb_status_t gb_cluster_connect(const gb_cluster_config_t *config, gb_cluster_t **out);

/* Leases and jobs of the connection must be released before. NULL is fine. */
void gb_cluster_close(gb_cluster_t *cluster);

/* Frees a list that a function below returned. NULL is fine. */
void gb_cluster_free(void *list);

/* ---- leases ---- */

typedef struct {
    uint32_t gpus;      /* remote devices wanted; 0: only the parameter shards */
    uint64_t memory;    /* bytes wanted on each device, also its quota; 0: all of it */
    uint32_t ttl_ms;    /* the lease ends this long after the last renewal; 0: 15000 */
    const char *job;    /* name of the job for lists, or NULL */
    const char *device; /* only this device ("PROXY/INDEX"), or NULL */
} gb_lease_request_t;

/* A parameter shard of the lease: what gbx needs to open its exchange. */
typedef struct {
    char endpoint[GB_CLUSTER_ENDPOINT_SIZE]; /* a gb_endpoint text, e.g. "10.0.0.1:7073" */
    uint8_t key[GB_CLUSTER_KEY_SIZE];
} gb_cluster_shard_t;

/* Asks for devices; every proxy and shard of the lease knows the key before this returns. A thread in
 * the background renews the lease until release; while the server is away it keeps trying.
 * GB_ERR_LIMIT: no devices free ("2 GPUs asked, 1 of 4 free"); GB_ERR_BUSY: a proxy did not answer.
 * The connection must outlive the lease. */
gb_status_t gb_cluster_lease_acquire(gb_cluster_t *cluster, const gb_lease_request_t *request,
                                     gb_cluster_lease_t **out);

/* Gives the lease back and frees it. Never fails for the caller: what the server does not hear, it
 * learns by expiry. NULL is fine. */
void gb_cluster_lease_release(gb_cluster_lease_t *lease);

uint64_t gb_cluster_lease_id(const gb_cluster_lease_t *lease);

/* Number of remote devices in the lease. */
uint32_t gb_cluster_lease_gpus(const gb_cluster_lease_t *lease);

/* Endpoints and keys as common/lease has them, owned by the lease. A proxy on this machine is named by
 * its Unix socket. It never expires by itself (renewal goes on): the server is the judge. */
const gb_lease_t *gb_cluster_lease_get(const gb_cluster_lease_t *lease);

/* Writes the lease file for GABLE_LEASE, mode 0600. GB_ERR_IO. */
gb_status_t gb_cluster_lease_write(const gb_cluster_lease_t *lease, const char *path);

/* Shards of the lease, owned by it; *count is at least 1 if the cluster has one. */
const gb_cluster_shard_t *gb_cluster_lease_shards(const gb_cluster_lease_t *lease, uint32_t *count);

/* GB_OK: alive. GB_ERR_UNREACHABLE: the server has not answered the last renewals; the lease may
 * still be served. GB_ERR_LOST: revoked or expired; gb_why() says why (e.g. "proxy NAME is gone"). */
gb_status_t gb_cluster_lease_state(gb_cluster_lease_t *lease);

/* ---- jobs: membership and epochs of a training run ----
 *
 * A worker joins a job by name, then calls gb_job_begin_epoch before each epoch. That call is the
 * barrier: it returns when every live member has arrived, with this member's place in the epoch.
 * After any failure of the exchange, or when gb_job_begin_epoch reports a new generation, the worker
 * pulls the weights at clock_begin and trains the epoch that the plan names; there is no other rule
 * to know for a server that was restarted. */

typedef struct {
    const char *name;      /* the job's name; workers with the same name train together */
    const char *model;     /* e.g. "lenet5"; all members must say the same */
    const char *optimizer; /* "sgd lr=0.1 momentum=0.9 weight_decay=0 nesterov=0", and optionally
                            * "lr_step=CLOCKS lr_gamma=0.5": every one but lr may be left out */
    const char *mode;      /* "bsp" */
    uint64_t samples;      /* samples in the whole training set */
    uint32_t batch;        /* global batch, samples per iteration over all members */
    uint32_t iterations;   /* iterations per epoch: the same for any number of members */
    uint32_t epochs;       /* the job is complete after these */
    uint32_t workers;      /* the first epoch waits until so many have joined; 0: 1 */
} gb_job_spec_t;

/* Joins (creates the job if its name is new or its last run is complete). The lease proves who asks
 * and gives access to the shards; it must outlive the job handle.
 * GB_ERR_INVALID: the job runs with another model, batch, ... (named in gb_why()). */
gb_status_t gb_job_join(gb_cluster_t *cluster, gb_cluster_lease_t *lease, const gb_job_spec_t *spec,
                        gb_job_t **out);

/* Identity for gbx: the server's number of this run of the job, and of this worker in it (1..). */
uint64_t gb_job_id(const gb_job_t *job);
uint32_t gb_job_worker(const gb_job_t *job);
/* The run's name on the shards: gbx_config_t.job. Not always the job's name: each further run of a name
 * has weights and checkpoints of its own. Owned by the handle. */
const char *gb_job_exchange(const gb_job_t *job);
/* Newest generation that this member has heard of. */
uint32_t gb_job_generation(const gb_job_t *job);

typedef struct {
    uint32_t
        complete;   /* 1: all epochs are done; nothing to train, the other fields are the end's */
    uint32_t epoch; /* 0.. ; after a restart it may be earlier than the one just finished */
    uint32_t generation;  /* grows by one with each restart of the server */
    uint32_t rank, world; /* this member's place: samples [N*rank/world, N*(rank+1)/world) */
    uint64_t clock_begin; /* version of the weights at the epoch's start = epoch * iterations */
    uint64_t sample_first, sample_count; /* the share above, as numbers */
} gb_epoch_t;

/* Arrives at the barrier before the next epoch. `done` is the number of epochs that this worker has
 * finished in the current generation's count (0 at first, else plan.epoch + 1 after an epoch trained
 * to its end, plan.epoch to repeat a broken one). Waits up to wait_ms for the others and, if it is
 * away, for the server. GB_ERR_TIMEOUT: others are missing; GB_ERR_UNREACHABLE: no server within
 * wait_ms; GB_ERR_NOT_FOUND: this worker was dropped (expired lease): join again. */
gb_status_t gb_job_begin_epoch(gb_job_t *job, uint32_t done, int wait_ms, gb_epoch_t *out);

typedef struct {
    uint32_t epoch;
    double loss;               /* mean training loss over the epoch's samples; NaN: not measured */
    double accuracy;           /* on the test set, 0..1; NaN: not measured */
    double samples_per_second; /* this worker's */
    double seconds;            /* wall time of the epoch */
} gb_job_report_t;

/* Progress for `gable jobs`. A lost report costs nothing: callers may ignore the status. */
gb_status_t gb_job_report(gb_job_t *job, const gb_job_report_t *report);

/* Leaves in good order, as finished (failed = 0) or given up, and frees the handle whatever the
 * status. The last member that finishes completes the job and its checkpoint is written. */
gb_status_t gb_job_finish(gb_job_t *job, int failed);

/* Frees the handle without telling the server: as if the process had died. NULL is fine. */
void gb_job_abandon(gb_job_t *job);

/* ---- lists for people and scripts ---- */

typedef struct {
    char version[GB_CLUSTER_NAME_SIZE]; /* of the server's program */
    char data_endpoint[GB_CLUSTER_ENDPOINT_SIZE];
    uint64_t uptime_ms;
    uint32_t generation; /* starts of this state folder */
    uint32_t proxies, devices, devices_free, leases, sessions, jobs_running, tls;
} gb_cluster_status_t;

gb_status_t gb_cluster_status(gb_cluster_t *cluster, gb_cluster_status_t *out);

typedef struct {
    char id[GB_CLUSTER_NAME_SIZE + 16]; /* "PROXY/INDEX" */
    char name[GB_CLUSTER_TEXT_SIZE];    /* the driver's name of the device */
    char endpoint[GB_CLUSTER_ENDPOINT_SIZE];
    char driver[GB_CLUSTER_NAME_SIZE];  /* "nvidia", "cpu", "null" */
    uint64_t memory_total, memory_used; /* bytes; used: by sessions of this proxy */
    uint32_t capability;                /* 10 * major + minor */
    uint32_t multiprocessors;
    uint32_t clock_khz;
    uint32_t leases; /* leases on the device now */
    uint32_t leases_max;
    uint32_t sessions;
} gb_cluster_device_t;

gb_status_t gb_cluster_devices(gb_cluster_t *cluster, gb_cluster_device_t **out, uint32_t *count);

typedef struct {
    uint64_t id;
    uint64_t lease;
    char proxy[GB_CLUSTER_NAME_SIZE];
    char devices[GB_CLUSTER_NAME_SIZE]; /* "0,1" on that proxy */
    char client[GB_CLUSTER_TEXT_SIZE];  /* name of the lease's holder */
    char peer[GB_CLUSTER_ENDPOINT_SIZE];
    uint64_t memory_used; /* bytes */
    uint64_t age_ms;
    uint32_t pid; /* of gpu-session on the proxy's machine */
} gb_cluster_session_t;

gb_status_t gb_cluster_sessions(gb_cluster_t *cluster, gb_cluster_session_t **out, uint32_t *count);

/* GB_ERR_NOT_FOUND: no such session. */
gb_status_t gb_cluster_session_kill(gb_cluster_t *cluster, uint64_t id);

typedef struct {
    char job[GB_CLUSTER_NAME_SIZE];
    char name[GB_CLUSTER_NAME_SIZE];  /* of the tensor */
    char shape[GB_CLUSTER_NAME_SIZE]; /* "6x1x5x5" */
    char type[16];                    /* "f32" */
    uint64_t elements, bytes;
    uint64_t version; /* clock */
    uint32_t chunks;
    double norm; /* L2 */
} gb_cluster_param_t;

/* Tensors of one job, or of all (job NULL). */
gb_status_t gb_cluster_params(gb_cluster_t *cluster, const char *job, gb_cluster_param_t **out,
                              uint32_t *count);

typedef struct {
    uint64_t id;
    char name[GB_CLUSTER_NAME_SIZE];
    char model[GB_CLUSTER_NAME_SIZE];
    char mode[16];
    char state[16];         /* "waiting", "running", "finished", "failed" */
    uint32_t epoch, epochs; /* epochs done, wanted */
    uint32_t members;       /* live workers */
    uint32_t generation;
    uint64_t clock;            /* version of the weights at the last barrier */
    double loss, accuracy;     /* last reported; NaN: none */
    double samples_per_second; /* sum over the members' last reports */
    uint64_t age_ms;
} gb_cluster_job_t;

gb_status_t gb_cluster_jobs(gb_cluster_t *cluster, gb_cluster_job_t **out, uint32_t *count);

#endif

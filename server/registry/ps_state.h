/* ps_state.h - the registry's tables, for the rooms that fill and show them.
 *
 * Everything is guarded by ps_registry_t.lock, which may be held while the shard is called (it never
 * waits for us: its callbacks only queue an event) and while SQLite writes. Times named *_at are
 * milliseconds of the monotonic clock. */
#ifndef PS_STATE_H
#define PS_STATE_H

#include <pthread.h>
#include <stdint.h>

#include "common/crypto/gb_crypto.h"
#include "gable.pb-c.h"
#include "server/registry/ps_registry.h"
#include "server/registry/ps_store.h"

enum {
    PS_NAME = 64,
    PS_CLIENT = 160,
    PS_ENDPOINT = 160,
    PS_LEASE_PARTS = 32,
    PS_PART_DEVICES = 64,
    PS_PROXY_DEVICES = 64,
    PS_ENDED_LEASES = 64,
    PS_WHY = 160,
};

/* ---- proxies ---- */

typedef struct {
    uint32_t index;
    char name[128];
    char uuid[40];
    uint64_t memory;
    uint32_t capability, multiprocessors, clock_khz;
} ps_device_t;

typedef struct {
    uint64_t id, lease;
    uint32_t pid;
    uint64_t memory;
    uint64_t begun_at;
    char peer[96];
} ps_session_t;

typedef struct ps_proxy {
    struct ps_proxy *next;
    char name[PS_NAME];
    char data_endpoint[PS_ENDPOINT], unix_endpoint[PS_ENDPOINT];
    char machine[64];
    char driver[64];
    ps_device_t devices[PS_PROXY_DEVICES];
    uint32_t device_count;
    gb_rpc_call_t *stream; /* NULL: away */
    uint64_t heard_at, away_at;
    ps_session_t *sessions;
    uint32_t session_count;
} ps_proxy_t;

/* ---- leases ---- */

typedef struct {
    char proxy[PS_NAME];
    uint32_t devices[PS_PART_DEVICES];
    uint32_t device_count;
    int granted; /* the proxy has said so */
} ps_part_t;

typedef struct ps_lease {
    struct ps_lease *next;
    uint64_t id;
    gb_key_t master;
    uint32_t ttl_ms;
    uint64_t memory;
    char client[PS_CLIENT];
    char owner[PS_NAME]; /* name in the holder's certificate; "" without TLS */
    char job[PS_NAME];
    ps_part_t *parts;
    uint32_t part_count;
    uint64_t expires_at;
    gb_rpc_call_t *waiting; /* Acquire that waits for the proxies */
    uint64_t waiting_until;
} ps_lease_t;

typedef struct {
    uint64_t id;
    char why[PS_WHY];
} ps_ended_t;

/* ---- jobs ---- */

typedef enum { PS_JOB_WAITING, PS_JOB_RUNNING, PS_JOB_FINISHED, PS_JOB_FAILED } ps_job_state_t;

typedef struct ps_member {
    struct ps_member *next;
    uint32_t worker;
    uint64_t lease;
    char client[PS_CLIENT];
    int active;  /* took part in the last epoch (or was a member before a restart): waited for */
    int arrived; /* at the next barrier */
    uint64_t missing_since; /* known from before a restart and not seen since; 0: it is here */
    uint32_t asked_done, asked_generation; /* with which it arrived last */
    int in_plan;
    uint32_t rank;
    double loss, samples_per_second;
    gb_rpc_call_t *waiting; /* BeginEpoch */
    uint64_t waiting_until;
} ps_member_t;

typedef struct ps_job {
    struct ps_job *next;
    uint64_t id;
    char name[PS_NAME], model[PS_NAME], mode[16];
    char exchange[PS_NAME]; /* the run's name on the shard: its weights, its checkpoints */
    char optimizer[256];
    uint64_t samples;
    uint32_t batch, iterations, epochs, workers;
    ps_job_state_t state;
    uint32_t generation;
    uint32_t epoch; /* to be trained next, or now */
    int planned;    /* the epoch has begun: a plan is out */
    int begun;      /* some epoch of this run has begun, ever */
    int dirty;      /* the weights may stand between two epochs */
    uint32_t world; /* of the plan */
    uint32_t next_worker;
    ps_member_t *members; /* live ones, by worker number */
    uint32_t finished;    /* members that ended well */
    double loss, accuracy;
    uint64_t begun_at;
} ps_job_t;

/* ---- all of it ---- */

typedef struct ps_kill {
    struct ps_kill *next;
    gb_rpc_call_t *call;
    uint64_t session;
    uint64_t until;
} ps_kill_t;

typedef struct ps_event {
    struct ps_event *next;
    char job[PS_NAME];
    uint32_t worker;
    char why[PS_WHY];
} ps_event_t;

struct ps_registry {
    pthread_mutex_t lock;
    ps_registry_config_t config;
    ps_store_t *store;
    ps_params_t *params;
    char endpoint[PS_ENDPOINT];
    uint32_t generation;
    uint64_t begun_at;
    ps_proxy_t *proxies;
    ps_lease_t *leases;
    ps_ended_t ended[PS_ENDED_LEASES];
    uint32_t ended_next;
    ps_job_t *jobs;
    uint64_t next_job;
    ps_kill_t *kills;

    pthread_mutex_t event_lock; /* events of the shard, and the clock's sleep */
    pthread_cond_t event_wake;
    ps_event_t *events;
    int quit, running;
    pthread_t clock;
};

uint64_t ps_now_ms(void);

/* ps_proxies.c */
extern const gb_rpc_method_t PS_CLUSTER_METHODS[];
ps_proxy_t *ps_proxy_find(ps_registry_t *registry, const char *name);
void ps_proxy_tick(ps_registry_t *registry, uint64_t now);
void ps_proxy_free_all(ps_registry_t *registry);
/* Tells a proxy (if it is there) of one part of a lease. */
void ps_proxy_grant(ps_registry_t *registry, const ps_lease_t *lease, const ps_part_t *part);
void ps_proxy_revoke(ps_registry_t *registry, const char *proxy, uint64_t lease, const char *why);
/* Ends a session; the call (kept here) is answered later. GB_ERR_NOT_FOUND. */
gb_status_t ps_proxy_kill(ps_registry_t *registry, uint64_t session, gb_rpc_call_t *call);

/* ps_leases.c */
extern const gb_rpc_method_t PS_LEASES_METHODS[];
ps_lease_t *ps_lease_find(ps_registry_t *registry, uint64_t id);
/* The lease, if the caller may use it: whoever got it, by certificate, or an admin. Ids stand in lists, so
 * that knowing one proves nothing. */
ps_lease_t *ps_lease_find_own(ps_registry_t *registry, uint64_t id, const gb_rpc_call_t *call);
uint32_t ps_lease_on_device(ps_registry_t *registry, const char *proxy, uint32_t device);
/* Ends a lease everywhere and frees it. */
void ps_lease_end(ps_registry_t *registry, ps_lease_t *lease, const char *why);
/* A proxy has answered a grant. */
void ps_lease_granted(ps_registry_t *registry, const char *proxy, uint64_t id, int accepted,
                      const char *why);
/* A proxy is gone: its leases end. */
void ps_lease_proxy_gone(ps_registry_t *registry, const char *proxy);
void ps_lease_tick(ps_registry_t *registry, uint64_t now);
gb_status_t ps_lease_load(ps_registry_t *registry);
void ps_lease_free_all(ps_registry_t *registry);

/* ps_jobs.c */
extern const gb_rpc_method_t PS_JOBS_METHODS[];
const char *ps_job_state_name(ps_job_state_t state);
ps_job_t *ps_job_find(ps_registry_t *registry, uint64_t id);
ps_member_t *ps_member_find(ps_job_t *job, uint32_t worker);
uint32_t ps_job_live(const ps_job_t *job);
/* Takes a member out, for whatever reason; the others go on. Frees it. */
void ps_member_drop(ps_registry_t *registry, ps_job_t *job, ps_member_t *member, const char *why);
void ps_job_lease_ended(ps_registry_t *registry, uint64_t lease, const char *why);
void ps_job_worker_left(ps_registry_t *registry, const char *name, uint32_t worker,
                        const char *why);
gb_status_t ps_job_load(ps_registry_t *registry);
void ps_job_free_all(ps_registry_t *registry);
void ps_job_save(ps_registry_t *registry, const ps_job_t *job);
/* Ends the run if nobody is left, else lets the others past the barrier if they may. */
void ps_job_after_change(ps_registry_t *registry, ps_job_t *job);

/* ps_barrier.c */
void ps_barrier_begin(ps_registry_t *registry, gb_rpc_call_t *call,
                      const Gable__V1__BeginEpochRequest *request);
void ps_barrier_try(ps_registry_t *registry, ps_job_t *job);
void ps_barrier_tick(ps_registry_t *registry, uint64_t now);
void ps_barrier_answer_waiting(ps_member_t *member, gb_status_t status, const char *why);

/* ps_optimizer.c: "sgd lr=0.1 momentum=0.9 ..." -> *out. GB_ERR_INVALID names the word. */
gb_status_t ps_optimizer_parse(const char *text, ps_optimizer_t *out);

#endif

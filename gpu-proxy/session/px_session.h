/* px_session.h - one client's session: executes its frames on a CUDA driver table.
 *
 * The process belongs to the session. px_session_run returns when the client has gone; the caller
 * then ends the process at once with _exit, whatever the device is doing. */
#ifndef PX_SESSION_H
#define PX_SESSION_H

#include <stdint.h>

#include "common/core/gb_status.h"
#include "common/link/gb_durable.h"
#include "gb_cuda_table.h"
#include "gpu-proxy/session/px_account.h"
#include "gpu-proxy/session/px_peers.h"

typedef struct {
    const gb_cuda_table_t *driver; /* not yet initialised: the session calls cuInit */
    const char *driver_name;       /* "nvidia", "gable-cpu", "null": for logs */
    const int *devices;            /* the driver's ordinals that the lease grants */
    int device_count;              /* 0: all that the driver has */
    uint64_t memory_quota;         /* bytes on each device; 0 = none */
    px_account_t *account;         /* who counts it; NULL: nobody */
    uint32_t timeout_ms;           /* told to the client, which is heard of more often than that */
    int reachable; /* device memory can be written by this process, at the same addresses */
    void (*used)(void *arg, uint64_t); /* told the device memory held, bytes; may be NULL */
    void *used_arg;
    px_peers_t *peers; /* links to other sessions of the client; NULL: none can be made */
    int locker;        /* socket for px_locker.h; 0 or less: there is none */
    int linger_ms; /* how long lanes have to come back at the end; 0: a moment. A process that does not
                        * end with its session must be sure that they do */
} px_session_config_t;

/* Serves `stream` until its client says goodbye (GB_OK), is gone (GB_ERR_LOST) or breaks the protocol
 * (GB_ERR_PROTOCOL, GB_ERR_VERSION). If the client asked for it, what is sent is kept, and a cut is waited
 * out until the caller offers another link. Does not free the stream. */
gb_status_t px_session_run(const px_session_config_t *config, gb_durable_t *stream);

/* Gives the client a sign of life if it may be waiting; never waits itself. Any thread, a few times in the time
 * after which the client takes a silent session for dead. */
void px_session_alive(void);

/* The `null` driver: one device that accepts everything and does nothing; copies to the host give
 * zeros. Measures pure remoting. */
void px_null_driver(gb_cuda_table_t *out);

#endif

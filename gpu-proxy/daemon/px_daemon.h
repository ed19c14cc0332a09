/* px_daemon.h - a running proxy, as the control plane and main() see it.
 *
 * One loop (px_daemon_run, the thread that starts sessions) owns listeners, half-open connections and
 * session processes. The functions below are thread-safe unless they say otherwise; they never wait
 * for the network. */
#ifndef PX_DAEMON_H
#define PX_DAEMON_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"
#include "common/link/gb_endpoint.h"
#include "gpu-proxy/daemon/px_grants.h"
#include "gpu-proxy/daemon/px_inventory.h"

typedef struct px_daemon px_daemon_t;

typedef struct {
    const char *data_listen;    /* TCP endpoint text, or "" */
    const char *unix_path;      /* Unix socket path, or "" */
    const char *advertise;      /* data endpoint told to clients; "" = the bound one */
    const char *driver;         /* auto|nvidia|cpu|null|PATH, passed to the sessions */
    int insecure;               /* plain TCP is allowed */
    int anonymous;              /* lease 0 with the zero key is granted: local listeners only */
    uint32_t session_timeout_s; /* silence after which a session gives its client up */
    uint32_t preamble_ms;       /* time to bring the preamble */
    int half_open_limit;        /* connections that have not brought it */
    int session_limit;
    int spare_sessions; /* kept ready */
} px_daemon_config_t;

/* Opens the listeners, probes the devices. Strings must live as long as the daemon. GB_ERR_INVALID: a
 * bad address, or one that is not local with `anonymous`; GB_ERR_EXISTS: in use. SIGTERM, SIGINT and
 * SIGCHLD must be blocked in every thread, before the first one is started. */
gb_status_t px_daemon_create(const px_daemon_config_t *config, px_grants_t *grants,
                             px_daemon_t **out);

/* Serves until px_daemon_stop, SIGTERM or SIGINT. The calling thread starts the sessions: they die
 * with it, so it must be the one that lives as long as the process. */
gb_status_t px_daemon_run(px_daemon_t *daemon);
void px_daemon_stop(px_daemon_t *daemon);

/* Ends all sessions; px_daemon_run has returned and no other thread uses the daemon. */
void px_daemon_destroy(px_daemon_t *daemon);

const px_inventory_t *px_daemon_inventory(const px_daemon_t *daemon);

/* Text of the endpoint to tell clients: advertise, else the bound TCP endpoint, else the Unix socket. */
const char *px_daemon_data_endpoint(const px_daemon_t *daemon);
const char *px_daemon_unix_path(const px_daemon_t *daemon); /* "" if none */

typedef struct {
    uint64_t id; /* of the session: random, chosen by the client */
    uint64_t lease;
    int pid;
    uint64_t memory;     /* bytes of device memory held, over all its devices */
    uint64_t started_ms; /* gb_wall_ms() */
    char peer[96];
    char holder[PX_HOLDER];
} px_session_info_t;

/* Copies at most `cap` rows; returns how many sessions there are. */
size_t px_daemon_sessions(px_daemon_t *daemon, px_session_info_t *out, size_t cap);

/* Ends a session at once; its memory is free within 2 s. GB_ERR_NOT_FOUND. */
gb_status_t px_daemon_session_kill(px_daemon_t *daemon, uint64_t id);

/* The daemon calls `changed(arg)` from its loop after a session has begun or ended. Set before
 * px_daemon_run. */
void px_daemon_on_sessions(px_daemon_t *daemon, void (*changed)(void *arg), void *arg);

#endif

/* px_control.h - the proxy's side of the control plane: registers at the server, keeps one stream
 * open to it, turns what comes down it into grants, reports sessions. */
#ifndef PX_CONTROL_H
#define PX_CONTROL_H

#include "common/core/gb_status.h"
#include "gpu-proxy/daemon/px_daemon.h"

typedef struct px_control px_control_t;

typedef struct {
    const char *listen;  /* own gRPC endpoint, HOST:PORT; "" = none */
    const char *server;  /* HOST:PORT of ps-server; "" = none: a stand-alone proxy */
    const char *name;    /* of this proxy in the registry; "" = host name and data port */
    const char *tls_dir; /* certificates; "" = none */
    int insecure;        /* gRPC without TLS */
    px_grants_t *grants; /* filled by the control plane */
    px_daemon_t *daemon; /* inventory, sessions, kill */
    /* Called once, on a thread of the control plane, when the server first knows this proxy and its
     * devices can be leased; without a server when the control plane starts. NULL: nobody asks. */
    void (*usable)(void *arg, px_control_t *control);
    void *arg;
} px_control_config_t;

/* Starts the threads of the control plane; an unreachable server is no error: it goes on trying.
 * Strings must live as long as the control plane. SIGTERM and SIGINT are blocked by the caller. */
gb_status_t px_control_start(const px_control_config_t *config, px_control_t **out);

/* The bound gRPC endpoint, "-" if there is none; valid until px_control_stop. */
const char *px_control_endpoint(const px_control_t *control);

/* Tells the server goodbye and joins the threads. NULL is allowed. Returns GB_OK, or why the server did
 * not want this proxy (certificates of another CA, another version, a wrong name): then the control
 * plane had stopped the daemon. That happens only before the first registration: later it goes on
 * trying. */
gb_status_t px_control_stop(px_control_t *control);

#endif

/* ps_admin.h - the service Admin: what people and scripts ask about the cluster. */
#ifndef PS_ADMIN_H
#define PS_ADMIN_H

#include "common/rpc/gb_rpc.h"
#include "server/registry/ps_registry.h"

/* Adds the service; the registry must outlive the server. */
gb_status_t ps_admin_serve(ps_registry_t *registry, gb_rpc_server_t *server);

#endif

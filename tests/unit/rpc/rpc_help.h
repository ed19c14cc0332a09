/* rpc_help.h - servers and certificates for the tests of common/rpc. */
#ifndef RPC_HELP_H
#define RPC_HELP_H

#include <stdint.h>

#include "common/rpc/gb_rpc.h"

/* Starts a server with the test's Admin, Leases and Cluster handlers on a free port; "127.0.0.1:PORT"
 * goes to `target`. */
gb_rpc_server_t *help_server(const gb_rpc_tls_t *tls, char *target);

/* A folder made by mkdtemp, removed with all in it by help_remove. */
void help_folder(char *out);
void help_remove(const char *folder);

/* Makes a CA in FOLDER/CA. */
void help_ca(const char *folder, const char *ca);

/* Issues FOLDER/NAME from FOLDER/CA. */
void help_issue(const char *folder, const char *ca, const char *name, uint32_t role,
                int64_t lifetime_s);

/* Loads FOLDER/NAME; must succeed. */
gb_rpc_tls_t *help_load(const char *folder, const char *name);

#endif

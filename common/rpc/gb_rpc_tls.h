/* gb_rpc_tls.h - certificates and roles for mTLS.
 *
 * A node's folder holds ca.pem (whom it trusts), node.pem and node.key. The role stands in the
 * certificate as the SAN URI "gable:role:ROLE". Certificates of role server also carry the DNS name
 * GB_RPC_SERVER_NAME, and clients insist on it: so no worker's certificate can pose as the server,
 * and the server's address may change without a new certificate. */
#ifndef GB_RPC_TLS_H
#define GB_RPC_TLS_H

#include <stdint.h>

#include "common/core/gb_status.h"

#define GB_RPC_SERVER_NAME "server.gable"
#define GB_RPC_ROLE_PREFIX "gable:role:"

typedef enum {
    GB_ROLE_ADMIN = 1,
    GB_ROLE_WORKER = 2,
    GB_ROLE_PROXY = 4,
    GB_ROLE_SERVER = 8,
    GB_ROLE_ALL = 15,
} gb_role_t;

/* 0 for an unknown name. */
uint32_t gb_role_parse(const char *name);
/* "admin", ...; "none" or "several" for other masks. */
const char *gb_role_name(uint32_t roles);

typedef struct gb_rpc_tls gb_rpc_tls_t;

/* Reads and checks a node's folder: files there, key fits, certificate from that CA, valid today, with
 * a role. GB_ERR_NOT_FOUND, GB_ERR_FORMAT, GB_ERR_UNAUTHORISED; gb_why() names file and remedy. */
gb_status_t gb_rpc_tls_load(const char *dir, gb_rpc_tls_t **out);
void gb_rpc_tls_free(gb_rpc_tls_t *tls);

const char *gb_rpc_tls_ca(const gb_rpc_tls_t *tls);   /* PEM */
const char *gb_rpc_tls_cert(const gb_rpc_tls_t *tls); /* PEM */
const char *gb_rpc_tls_key(const gb_rpc_tls_t *tls);  /* PEM */
const char *gb_rpc_tls_name(const gb_rpc_tls_t *tls); /* common name of the certificate */
uint32_t gb_rpc_tls_roles(const gb_rpc_tls_t *tls);

/* Why does a TLS connection to `target` fail? Tries one and explains in gb_why(): GB_ERR_UNAUTHORISED
 * for certificates, GB_ERR_UNREACHABLE when nobody answers there, GB_OK if nothing is wrong. With
 * tls NULL it only tells a server that wants TLS from none. */
gb_status_t gb_rpc_tls_diagnose(const gb_rpc_tls_t *tls, const char *target, int timeout_ms);

#endif

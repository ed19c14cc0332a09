/* ca.h - the cluster's certificate authority: one key that signs, certificates with roles. */
#ifndef GABLE_CA_H
#define GABLE_CA_H

#include <stdint.h>

#include "common/core/gb_status.h"

/* Makes DIR/ca.pem and DIR/ca.key (mode 0600), ECDSA P-256. GB_ERR_EXISTS: there is one already. */
gb_status_t ca_create(const char *dir, const char *name, int64_t lifetime_s);

typedef struct {
    const char *ca_dir; /* with ca.pem and ca.key */
    const char *out;    /* new or empty folder: gets ca.pem, node.pem, node.key */
    const char *name;   /* common name */
    uint32_t role;      /* one gb_role_t */
    const char *hosts;  /* further names and addresses, separated by commas; "" */
    int64_t lifetime_s; /* from now; negative: already over (for tests) */
} ca_request_t;

/* Issues a certificate. GB_ERR_EXISTS: the folder has one; GB_ERR_NOT_FOUND: no CA there. */
gb_status_t ca_issue(const ca_request_t *request);

#endif

/* gb_rpc_tls.c - a node's certificate folder: reading, checking before use, explaining failures.
 *
 * gRPC tells the refused side nothing but "Socket closed", so the folder is checked before it is used
 * and a failed connection is tried once more with OpenSSL alone, which can say why. */
#include "common/rpc/gb_rpc_tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

struct gb_rpc_tls {
    char *ca, *cert, *key;
    char name[64];
    uint32_t roles;
};

static const struct {
    const char *name;
    uint32_t role;
} ROLES[] = {
    {"admin", GB_ROLE_ADMIN},
    {"worker", GB_ROLE_WORKER},
    {"proxy", GB_ROLE_PROXY},
    {"server", GB_ROLE_SERVER},
};

uint32_t gb_role_parse(const char *name)
{
    for (size_t i = 0; i < sizeof ROLES / sizeof ROLES[0]; i++)
        if (!strcmp(name, ROLES[i].name))
            return ROLES[i].role;
    return 0;
}

const char *gb_role_name(uint32_t roles)
{
    for (size_t i = 0; i < sizeof ROLES / sizeof ROLES[0]; i++)
        if (roles == ROLES[i].role)
            return ROLES[i].name;
    return roles ? "several" : "none";
}

static gb_status_t read_text(const char *dir, const char *name, char **out)
{
    enum { LIMIT = 1 << 20 };
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return gb_fail(GB_ERR_NOT_FOUND,
                       "cannot read %s (%s): make the folder with `gable ca init` and `gable ca "
                       "issue`",
                       path, strerror(errno));
    char *text = malloc(LIMIT);
    size_t size = text ? fread(text, 1, LIMIT - 1, file) : 0;
    fclose(file);
    if (!text)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for %s", path);
    text[size] = 0;
    *out = text;
    return GB_OK;
}

static X509 *parse_cert(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    BIO_free(bio);
    return cert;
}

static EVP_PKEY *parse_key(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    BIO_free(bio);
    return key;
}

static void time_text(const ASN1_TIME *time, char *out, size_t size)
{
    struct tm tm;
    if (ASN1_TIME_to_tm(time, &tm) != 1 || !strftime(out, size, "%Y-%m-%d %H:%M UTC", &tm))
        snprintf(out, size, "an unknown time");
}

static uint32_t cert_roles(X509 *cert)
{
    uint32_t roles = 0;
    size_t prefix = strlen(GB_RPC_ROLE_PREFIX);
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type != GEN_URI)
            continue;
        char text[64];
        const ASN1_STRING *uri = name->d.uniformResourceIdentifier;
        snprintf(text, sizeof text, "%.*s", ASN1_STRING_length(uri),
                 (const char *)ASN1_STRING_get0_data(uri));
        if (!strncmp(text, GB_RPC_ROLE_PREFIX, prefix))
            roles |= gb_role_parse(text + prefix);
    }
    GENERAL_NAMES_free(names);
    return roles;
}

static gb_status_t check_times(X509 *cert, const char *dir)
{
    char when[64];
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0) {
        time_text(X509_get0_notAfter(cert), when, sizeof when);
        return gb_fail(GB_ERR_UNAUTHORISED,
                       "the certificate %s/node.pem expired on %s: make a new one with `gable ca "
                       "issue`",
                       dir, when);
    }
    if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0) {
        time_text(X509_get0_notBefore(cert), when, sizeof when);
        return gb_fail(GB_ERR_UNAUTHORISED,
                       "the certificate %s/node.pem is valid only from %s on: check this machine's "
                       "clock",
                       dir, when);
    }
    return GB_OK;
}

static gb_status_t check_issuer(X509 *cert, X509 *ca, const char *dir)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    int ok = store && ctx && X509_STORE_add_cert(store, ca) == 1 &&
             X509_STORE_CTX_init(ctx, store, cert, NULL) == 1 && X509_verify_cert(ctx) == 1;
    int error = ctx ? X509_STORE_CTX_get_error(ctx) : X509_V_ERR_OUT_OF_MEM;
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    if (ok)
        return GB_OK;
    return gb_fail(GB_ERR_UNAUTHORISED,
                   "the certificate %s/node.pem was not issued by %s/ca.pem (%s): take both from "
                   "the same CA",
                   dir, dir, X509_verify_cert_error_string(error));
}

static gb_status_t check(gb_rpc_tls_t *tls, const char *dir)
{
    gb_status_t status = GB_OK;
    X509 *ca = parse_cert(tls->ca), *cert = parse_cert(tls->cert);
    EVP_PKEY *key = parse_key(tls->key);
    if (!ca || !cert || !key)
        status = gb_fail(GB_ERR_FORMAT, "%s/%s is not PEM: make it anew with `gable ca issue`", dir,
                         !ca     ? "ca.pem"
                         : !cert ? "node.pem"
                                 : "node.key");
    else if (X509_check_private_key(cert, key) != 1)
        status =
            gb_fail(GB_ERR_UNAUTHORISED,
                    "%s/node.key does not belong to %s/node.pem: copy the pair again", dir, dir);
    if (status == GB_OK)
        status = check_times(cert, dir);
    if (status == GB_OK)
        status = check_issuer(cert, ca, dir);
    if (status == GB_OK) {
        X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, tls->name,
                                  sizeof tls->name);
        tls->roles = cert_roles(cert);
        if (!tls->roles)
            status = gb_fail(GB_ERR_UNAUTHORISED,
                             "the certificate %s/node.pem names no role: issue it with `gable ca "
                             "issue NAME --role ...`",
                             dir);
    }
    X509_free(ca);
    X509_free(cert);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return status;
}

gb_status_t gb_rpc_tls_load(const char *dir, gb_rpc_tls_t **out)
{
    gb_rpc_tls_t *tls = calloc(1, sizeof *tls);
    if (!tls)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for certificates");
    gb_status_t status = read_text(dir, "ca.pem", &tls->ca);
    if (status == GB_OK)
        status = read_text(dir, "node.pem", &tls->cert);
    if (status == GB_OK)
        status = read_text(dir, "node.key", &tls->key);
    if (status == GB_OK)
        status = check(tls, dir);
    if (status != GB_OK) {
        gb_rpc_tls_free(tls);
        return status;
    }
    *out = tls;
    return GB_OK;
}

void gb_rpc_tls_free(gb_rpc_tls_t *tls)
{
    if (!tls)
        return;
    free(tls->ca);
    free(tls->cert);
    if (tls->key)
        OPENSSL_cleanse(tls->key, strlen(tls->key));
    free(tls->key);
    free(tls);
}

const char *gb_rpc_tls_ca(const gb_rpc_tls_t *tls)
{
    return tls->ca;
}

const char *gb_rpc_tls_cert(const gb_rpc_tls_t *tls)
{
    return tls->cert;
}

const char *gb_rpc_tls_key(const gb_rpc_tls_t *tls)
{
    return tls->key;
}

const char *gb_rpc_tls_name(const gb_rpc_tls_t *tls)
{
    return tls->name;
}

uint32_t gb_rpc_tls_roles(const gb_rpc_tls_t *tls)
{
    return tls->roles;
}

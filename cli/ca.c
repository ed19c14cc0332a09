/* ca.c - certificates with OpenSSL's C API. */
#include "cli/ca.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "common/rpc/gb_rpc_tls.h"

enum { BACKDATE_S = 300 }; /* clocks of a laboratory differ a little */

static gb_status_t openssl_failed(const char *what)
{
    unsigned long error = ERR_peek_last_error();
    gb_fail(GB_ERR_INTERNAL, "cannot %s: %s", what,
            error ? ERR_reason_error_string(error) : "unknown reason");
    ERR_clear_error();
    return GB_ERR_INTERNAL;
}

/* ---- files ---- */

static FILE *open_new(const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        if (error == EEXIST)
            gb_fail(GB_ERR_EXISTS, "%s is there already: choose another folder, or remove it first",
                    path);
        else
            gb_fail_errno(GB_ERR_IO, error, "cannot write %s", path);
    }
    return file;
}

static gb_status_t finish(FILE *file, int written, const char *name)
{
    if (fflush(file) || fsync(fileno(file)))
        written = 0;
    fclose(file);
    return written ? GB_OK : gb_fail(GB_ERR_IO, "cannot write %s", name);
}

static gb_status_t open_status(const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) ? GB_ERR_IO : GB_ERR_EXISTS;
}

static gb_status_t write_cert(const char *dir, const char *name, X509 *cert)
{
    FILE *file = open_new(dir, name);
    if (!file)
        return open_status(dir, name);
    return finish(file, PEM_write_X509(file, cert) == 1, name);
}

static gb_status_t write_key(const char *dir, const char *name, EVP_PKEY *key)
{
    FILE *file = open_new(dir, name);
    if (!file)
        return open_status(dir, name);
    return finish(file, PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1, name);
}

static FILE *open_old(const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "re");
    if (!file)
        gb_fail(GB_ERR_NOT_FOUND, "cannot read %s (%s): make the CA with `gable ca init`", path,
                strerror(errno));
    return file;
}

static gb_status_t make_dir(const char *dir)
{
    if (mkdir(dir, 0700) && errno != EEXIST)
        return gb_fail_errno(GB_ERR_IO, errno, "cannot make the folder %s", dir);
    return GB_OK;
}

/* ---- parts of a certificate ---- */

static int set_serial(X509 *cert)
{
    unsigned char bytes[16];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return 0;
    bytes[0] &= 0x7f;
    bytes[0] |= 0x40; /* positive and of full length */
    BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
    int ok = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert));
    BN_free(number);
    return ok;
}

static int set_name(X509_NAME *name, const char *common)
{
    return X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, (const unsigned char *)"Gable", -1,
                                      -1, 0) == 1 &&
           X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)common, -1,
                                      -1, 0) == 1;
}

static int add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    int ok = extension && X509_add_ext(cert, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return ok;
}

/* Key, serial, names and times; NULL after a failure. */
static X509 *make_cert(EVP_PKEY *key, const char *name, X509 *issuer, int64_t lifetime_s)
{
    X509 *cert = X509_new();
    if (cert && X509_set_version(cert, 2) == 1 && set_serial(cert) &&
        set_name(X509_get_subject_name(cert), name) &&
        X509_set_issuer_name(cert, X509_get_subject_name(issuer ? issuer : cert)) == 1 &&
        X509_gmtime_adj(X509_getm_notBefore(cert),
                        (long)(lifetime_s < 0 ? lifetime_s * 2 : -BACKDATE_S)) &&
        X509_gmtime_adj(X509_getm_notAfter(cert), (long)lifetime_s) &&
        X509_set_pubkey(cert, key) == 1)
        return cert;
    X509_free(cert);
    return NULL;
}

/* ---- alternative names ---- */

static int push_name(GENERAL_NAMES *names, int type, const char *text)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_IA5STRING *string = ASN1_IA5STRING_new();
    if (!name || !string || ASN1_STRING_set(string, text, -1) != 1 ||
        !sk_GENERAL_NAME_push(names, name)) {
        GENERAL_NAME_free(name);
        ASN1_IA5STRING_free(string);
        return 0;
    }
    GENERAL_NAME_set0_value(name, type, string);
    return 1;
}

static int push_address(GENERAL_NAMES *names, const unsigned char *bytes, int size)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_OCTET_STRING *string = ASN1_OCTET_STRING_new();
    if (!name || !string || ASN1_OCTET_STRING_set(string, bytes, size) != 1 ||
        !sk_GENERAL_NAME_push(names, name)) {
        GENERAL_NAME_free(name);
        ASN1_OCTET_STRING_free(string);
        return 0;
    }
    GENERAL_NAME_set0_value(name, GEN_IPADD, string);
    return 1;
}

static gb_status_t push_host(GENERAL_NAMES *names, const char *host)
{
    unsigned char address[16];
    int ok;
    if (inet_pton(AF_INET, host, address) == 1) {
        ok = push_address(names, address, 4);
    } else if (inet_pton(AF_INET6, host, address) == 1) {
        ok = push_address(names, address, 16);
    } else {
        for (const char *at = host; *at; at++)
            if (!isalnum((unsigned char)*at) && !strchr(".-*", *at))
                return gb_fail(GB_ERR_INVALID, "--host: '%s' is neither a name nor an address",
                               host);
        if (!strcasecmp(host, GB_RPC_SERVER_NAME))
            return gb_fail(GB_ERR_INVALID, "--host: %s belongs to certificates of role server",
                           host);
        ok = push_name(names, GEN_DNS, host);
    }
    return ok ? GB_OK : openssl_failed("add a host name");
}

static gb_status_t push_hosts(GENERAL_NAMES *names, const char *hosts)
{
    char copy[2048], *rest = NULL;
    if (strlen(hosts) >= sizeof copy)
        return gb_fail(GB_ERR_INVALID, "--host: too many names");
    strcpy(copy, hosts);
    gb_status_t status = GB_OK;
    for (char *host = strtok_r(copy, ",", &rest); host && status == GB_OK;
         host = strtok_r(NULL, ",", &rest))
        status = push_host(names, host);
    return status;
}

static gb_status_t add_names(X509 *cert, const ca_request_t *request)
{
    char role[64];
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    snprintf(role, sizeof role, "%s%s", GB_RPC_ROLE_PREFIX, gb_role_name(request->role));
    gb_status_t status = GB_OK;
    if (!names || !push_name(names, GEN_URI, role) ||
        (request->role == GB_ROLE_SERVER && !push_name(names, GEN_DNS, GB_RPC_SERVER_NAME)))
        status = openssl_failed("add the role");
    if (status == GB_OK)
        status = push_hosts(names, request->hosts);
    if (status == GB_OK &&
        X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) != 1)
        status = openssl_failed("add names");
    GENERAL_NAMES_free(names);
    return status;
}

/* ---- the two commands ---- */

gb_status_t ca_create(const char *dir, const char *name, int64_t lifetime_s)
{
    gb_status_t status = make_dir(dir);
    if (status != GB_OK)
        return status;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = key ? make_cert(key, name, NULL, lifetime_s) : NULL;
    if (!cert || !add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
        !add_extension(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") ||
        !add_extension(cert, cert, NID_subject_key_identifier, "hash") ||
        !X509_sign(cert, key, EVP_sha256()))
        status = openssl_failed("make the CA's certificate");
    if (status == GB_OK)
        status = write_key(dir, "ca.key", key);
    if (status == GB_OK)
        status = write_cert(dir, "ca.pem", cert);
    X509_free(cert);
    EVP_PKEY_free(key);
    return status;
}

static gb_status_t load_ca(const char *dir, X509 **cert, EVP_PKEY **key)
{
    FILE *file = open_old(dir, "ca.pem");
    if (!file)
        return GB_ERR_NOT_FOUND;
    *cert = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    file = open_old(dir, "ca.key");
    if (!file)
        return GB_ERR_NOT_FOUND;
    *key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    fclose(file);
    ERR_clear_error();
    if (!*cert || !*key || X509_check_private_key(*cert, *key) != 1)
        return gb_fail(GB_ERR_FORMAT, "%s/ca.pem and ca.key are not a certificate and its key",
                       dir);
    return GB_OK;
}

static gb_status_t sign(const ca_request_t *request, EVP_PKEY *key, X509 *ca, EVP_PKEY *ca_key,
                        X509 **out)
{
    X509 *cert = make_cert(key, request->name, ca, request->lifetime_s);
    if (!cert || !add_extension(cert, ca, NID_basic_constraints, "critical,CA:FALSE") ||
        !add_extension(cert, ca, NID_key_usage, "critical,digitalSignature") ||
        !add_extension(cert, ca, NID_ext_key_usage, "serverAuth,clientAuth") ||
        !add_extension(cert, ca, NID_subject_key_identifier, "hash") ||
        !add_extension(cert, ca, NID_authority_key_identifier, "keyid")) {
        X509_free(cert);
        return openssl_failed("make the certificate");
    }
    gb_status_t status = add_names(cert, request);
    if (status == GB_OK && !X509_sign(cert, ca_key, EVP_sha256()))
        status = openssl_failed("sign the certificate");
    if (status == GB_OK)
        *out = cert;
    else
        X509_free(cert);
    return status;
}

gb_status_t ca_issue(const ca_request_t *request)
{
    X509 *ca = NULL, *cert = NULL;
    EVP_PKEY *ca_key = NULL, *key = NULL;
    gb_status_t status = load_ca(request->ca_dir, &ca, &ca_key);
    if (status == GB_OK && !(key = EVP_EC_gen("P-256")))
        status = openssl_failed("make a key");
    if (status == GB_OK)
        status = sign(request, key, ca, ca_key, &cert);
    if (status == GB_OK)
        status = make_dir(request->out);
    if (status == GB_OK)
        status = write_key(request->out, "node.key", key);
    if (status == GB_OK)
        status = write_cert(request->out, "node.pem", cert);
    if (status == GB_OK)
        status = write_cert(request->out, "ca.pem", ca);
    X509_free(ca);
    X509_free(cert);
    EVP_PKEY_free(ca_key);
    EVP_PKEY_free(key);
    return status;
}

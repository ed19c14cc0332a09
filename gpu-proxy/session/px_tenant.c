#include "gpu-proxy/session/px_tenant.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/evp.h>

#include "common/core/gb_log.h"
#include "common/core/gb_path.h"

static gb_status_t make_private(const char *path)
{
    if (mkdir(path, 0700) && errno != EEXIST)
        return gb_fail_errno(GB_ERR_IO, errno, "cannot create %s", path);
    return GB_OK;
}

/* The folder that all tenants' are in. */
static gb_status_t base_folder(char *out, size_t size)
{
    const char *set = getenv("GABLE_CPU_CACHE");
    if (set && *set) {
        if (strlen(set) >= size)
            return gb_fail(GB_ERR_LIMIT, "GABLE_CPU_CACHE is too long a path");
        strcpy(out, set);
        return make_private(out);
    }
    gb_status_t st = gb_path_cache_dir(out, size - 16);
    if (st != GB_OK)
        return st;
    strcat(out, "/kernels");
    return make_private(out);
}

/* Names are anybody's choice, folders' names are not. */
static gb_status_t folder_of(const char *tenant, const char *base, char *out, size_t size)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    char hex[33];
    if (!EVP_Digest(tenant, strlen(tenant), digest, NULL, EVP_sha256(), NULL))
        return gb_fail(GB_ERR_NO_MEMORY, "cannot make a digest");
    for (int i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    if (snprintf(out, size, "%s/tenant-%s", base, hex) >= (int)size)
        return gb_fail(GB_ERR_LIMIT, "%s is too long a path", base);
    return make_private(out);
}

gb_status_t px_tenant_cache(const char *tenant)
{
    char base[PATH_MAX - 64], folder[PATH_MAX];
    const char *set = getenv("GABLE_CPU_CACHE");
    if (set && !strcmp(set, "off"))
        return GB_OK;
    gb_status_t st = base_folder(base, sizeof base);
    if (st == GB_OK)
        st = folder_of(tenant, base, folder, sizeof folder);
    if (st != GB_OK)
        gb_log(GB_LOG_WARN, "kernels are not cached: %s", gb_why());
    if (setenv("GABLE_CPU_CACHE", st == GB_OK ? folder : "off", 1))
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    return GB_OK;
}

#include "gpu-proxy/session/px_tenant.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "common/core/gb_log.h"
#include "common/core/gb_path.h"

#define PREFIX "tenant-"

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
    if (snprintf(out, size, "%s/" PREFIX "%s", base, hex) >= (int)size)
        return gb_fail(GB_ERR_LIMIT, "%s is too long a path", base);
    return make_private(out);
}

/* The tenant's folder whose last session began longest ago, but for `own`; returns how many there are
 * besides that one. */
static int oldest(int base, const char *own, char name[NAME_MAX + 1])
{
    struct timespec least = {0};
    struct stat info;
    int count = 0;
    DIR *dir = fdopendir(dup(base));
    if (!dir)
        return 0;
    rewinddir(dir);
    for (struct dirent *item = readdir(dir); item; item = readdir(dir)) {
        if (strncmp(item->d_name, PREFIX, strlen(PREFIX)) || !strcmp(item->d_name, own) ||
            fstatat(base, item->d_name, &info, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(info.st_mode))
            continue;
        bool older = info.st_mtim.tv_sec < least.tv_sec ||
                     (info.st_mtim.tv_sec == least.tv_sec && info.st_mtim.tv_nsec < least.tv_nsec);
        if (count++ == 0 || older) {
            least = info.st_mtim;
            strcpy(name, item->d_name);
        }
    }
    closedir(dir);
    return count;
}

/* Kernels only: a folder with anything else in it stays. */
static bool remove_folder(int base, const char *name)
{
    int folder = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = folder >= 0 ? fdopendir(folder) : NULL;
    if (!dir) {
        if (folder >= 0)
            close(folder);
        return false;
    }
    for (struct dirent *item = readdir(dir); item; item = readdir(dir))
        if (strstr(item->d_name, ".kernel"))
            (void)unlinkat(folder, item->d_name, 0);
    closedir(dir);
    return unlinkat(base, name, AT_REMOVEDIR) == 0;
}

static void bound(const char *base, const char *folder)
{
    char name[NAME_MAX + 1];
    const char *own = strrchr(folder, '/') + 1;
    int at = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return;
    (void)utimensat(at, own, NULL, AT_SYMLINK_NOFOLLOW);
    while (oldest(at, own, name) >= PX_TENANTS && remove_folder(at, name))
        gb_log(GB_LOG_INFO, "the kernel cache of a tenant long unseen is removed: %s", name);
    close(at);
}

/* Kept for px_tenant_bound. */
static char the_base[PATH_MAX - 64], the_folder[PATH_MAX];
static atomic_flag bounded = ATOMIC_FLAG_INIT;

gb_status_t px_tenant_cache(const char *tenant)
{
    char base[PATH_MAX - 64], folder[PATH_MAX];
    const char *set = getenv("GABLE_CPU_CACHE");
    if (set && !strcmp(set, "off"))
        return GB_OK;
    gb_status_t st = base_folder(base, sizeof base);
    if (st == GB_OK)
        st = folder_of(tenant, base, folder, sizeof folder);
    if (st != GB_OK) {
        gb_log(GB_LOG_WARN, "kernels are not cached: %s", gb_why());
    } else {
        strcpy(the_base, base);
        strcpy(the_folder, folder);
    }
    if (setenv("GABLE_CPU_CACHE", st == GB_OK ? folder : "off", 1))
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    return GB_OK;
}

void px_tenant_bound(void)
{
    if (*the_folder && !atomic_flag_test_and_set(&bounded))
        bound(the_base, the_folder);
}

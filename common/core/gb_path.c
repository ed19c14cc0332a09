#include "common/core/gb_path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_leaf_folder(const char *name)
{
    return !strcmp(name, "bin") || !strcmp(name, "tests") || !strcmp(name, "bench");
}

/* Cuts `path` down to the installation's root. Returns 0 if there is none. */
static int cut_to_root(char *path)
{
    char *slash = strrchr(path, '/');
    while (slash && slash != path) {
        *slash = 0;
        char *folder = strrchr(path, '/');
        if (!folder)
            return 0;
        if (is_leaf_folder(folder + 1)) {
            *folder = 0;
            return 1;
        }
        slash = folder;
    }
    return 0;
}

gb_status_t gb_path_installed(const char *relative, char *out, size_t size)
{
    char root[PATH_MAX];
    const char *home = getenv("GABLE_HOME");
    if (home) {
        snprintf(root, sizeof root, "%s", home);
    } else {
        ssize_t n = readlink("/proc/self/exe", root, sizeof root - 1);
        if (n < 0)
            return gb_fail_errno(GB_ERR_IO, errno, "cannot read /proc/self/exe");
        root[n] = 0;
        if (!cut_to_root(root))
            return gb_fail(GB_ERR_NOT_FOUND,
                           "%s does not lie in a bin folder: set GABLE_HOME to Gable's folder",
                           relative);
    }
    char path[PATH_MAX + 256];
    snprintf(path, sizeof path, "%s/%s", root, relative);
    if (access(path, F_OK))
        return gb_fail(GB_ERR_NOT_FOUND, "%s is missing: build it, or set GABLE_HOME", path);
    if (strlen(path) >= size)
        return gb_fail(GB_ERR_LIMIT, "%s is too long a path", path);
    strcpy(out, path);
    return GB_OK;
}

static gb_status_t make_private(const char *path)
{
    if (mkdir(path, 0700) && errno != EEXIST)
        return gb_fail_errno(GB_ERR_IO, errno, "cannot create %s", path);
    return GB_OK;
}

gb_status_t gb_path_cache_dir(char *out, size_t size)
{
    char path[PATH_MAX];
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (xdg && *xdg) {
        snprintf(path, sizeof path, "%s/gable", xdg);
    } else if (home && *home) {
        snprintf(path, sizeof path, "%s/.cache", home);
        gb_status_t st = make_private(path);
        if (st)
            return st;
        snprintf(path, sizeof path, "%s/.cache/gable", home);
    } else {
        snprintf(path, sizeof path, "/tmp/gable-%u", (unsigned)getuid());
    }
    gb_status_t st = make_private(path);
    if (st)
        return st;
    if (strlen(path) >= size)
        return gb_fail(GB_ERR_LIMIT, "%s is too long a path", path);
    strcpy(out, path);
    return GB_OK;
}

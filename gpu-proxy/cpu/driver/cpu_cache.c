#include "gpu-proxy/cpu/driver/cpu_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/core/gb_log.h"
#include "common/core/gb_opt.h"
#include "common/core/gb_path.h"
#include "gpu-proxy/cpu/driver/cpu_sha.h"

#define MAGIC 0x454b4247u /* "GBKE" */
#define VERSION 1u
#define SUFFIX ".kernel"

enum { ENTRY_MOST = 256 << 20 }; /* bytes: no kernel is larger */

typedef struct {
    uint32_t magic, version;
    uint64_t bytes; /* of the blob behind this header */
    cpu_cache_key_t key;
    uint8_t digest[32]; /* of the blob */
} entry_header_t;

/* The folder, made if need be; GB_ERR_NOT_FOUND if the cache is off or not safe to use. */
static gb_status_t open_folder(int *out)
{
    char path[PATH_MAX - 64];
    struct stat info;
    const char *set = getenv("GABLE_CPU_CACHE");
    if (set && strcmp(set, "off") == 0)
        return GB_ERR_NOT_FOUND;
    if (set && *set) {
        snprintf(path, sizeof(path), "%s", set);
    } else {
        if (gb_path_cache_dir(path, sizeof(path) - 16) != GB_OK)
            return GB_ERR_NOT_FOUND;
        strcat(path, "/kernels");
    }
    if (mkdir(path, 0700) && errno != EEXIST)
        return GB_ERR_NOT_FOUND;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return GB_ERR_NOT_FOUND;
    if (fstat(folder, &info) || info.st_uid != geteuid() || (info.st_mode & 022)) {
        gb_log(GB_LOG_WARN, "%s can be written by others: kernels are not cached there; chmod 700",
               path);
        close(folder);
        return GB_ERR_NOT_FOUND;
    }
    *out = folder;
    return GB_OK;
}

static void entry_name(const cpu_cache_key_t *key, char out[80])
{
    for (int i = 0; i < 32; i++)
        sprintf(out + 2 * i, "%02x", key->bytes[i]);
    strcpy(out + 64, SUFFIX);
}

static int read_all(int file, void *to, size_t bytes)
{
    uint8_t *at = to;
    while (bytes) {
        ssize_t got = read(file, at, bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        at += got;
        bytes -= (size_t)got;
    }
    return 1;
}

static int write_all(int file, const void *from, size_t bytes)
{
    const uint8_t *at = from;
    while (bytes) {
        ssize_t put = write(file, at, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return 0;
        at += put;
        bytes -= (size_t)put;
    }
    return 1;
}

/* The entry's blob if everything about it is as it must be. */
static void *read_entry(int file, const cpu_cache_key_t *key, size_t *bytes)
{
    entry_header_t header;
    struct stat info;
    uint8_t digest[32];
    if (fstat(file, &info) || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
        (info.st_mode & 022) || info.st_nlink != 1 || info.st_size > ENTRY_MOST ||
        !read_all(file, &header, sizeof(header)))
        return NULL;
    if (header.magic != MAGIC || header.version != VERSION ||
        memcmp(&header.key, key, sizeof(*key)) ||
        header.bytes != (uint64_t)info.st_size - sizeof(header) || header.bytes == 0)
        return NULL;
    void *blob = malloc(header.bytes);
    if (!blob)
        return NULL;
    if (read_all(file, blob, header.bytes)) {
        cpu_sha(blob, header.bytes, digest);
        if (memcmp(digest, header.digest, sizeof(digest)) == 0) {
            *bytes = header.bytes;
            return blob;
        }
    }
    free(blob);
    return NULL;
}

gb_status_t cpu_cache_read(const cpu_cache_key_t *key, void **blob, size_t *bytes)
{
    char name[80];
    int folder;
    if (open_folder(&folder) != GB_OK)
        return GB_ERR_NOT_FOUND;
    entry_name(key, name);
    /* Not waiting: somebody may have put a pipe there. */
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    close(folder);
    if (file < 0)
        return GB_ERR_NOT_FOUND;
    void *read = read_entry(file, key, bytes);
    if (read)
        futimens(file, NULL); /* recently used: the last to go */
    else
        gb_log(GB_LOG_INFO, "cached kernel %.16s is damaged or foreign: compiled anew", name);
    close(file);
    if (!read)
        return GB_ERR_NOT_FOUND;
    *blob = read;
    return GB_OK;
}

typedef struct {
    char name[80];
    int64_t used_ns;
    uint64_t bytes;
} listed_t;

static int older_first(const void *a, const void *b)
{
    const listed_t *x = a, *y = b;
    return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

/* All entries of the folder; the caller frees the list. */
static listed_t *list_entries(int folder, size_t *count, uint64_t *total)
{
    listed_t *list = NULL;
    size_t room = 0;
    struct stat info;
    *count = 0;
    *total = 0;
    DIR *dir = fdopendir(dup(folder));
    for (struct dirent *item = dir ? readdir(dir) : NULL; item; item = readdir(dir)) {
        size_t length = strlen(item->d_name);
        if (length < 8 || length >= sizeof(list->name) || !strstr(item->d_name, SUFFIX) ||
            fstatat(folder, item->d_name, &info, AT_SYMLINK_NOFOLLOW))
            continue;
        if (*count == room) {
            room = room ? room * 2 : 64;
            listed_t *grown = realloc(list, room * sizeof(*list));
            if (!grown)
                break;
            list = grown;
        }
        listed_t *entry = &list[(*count)++];
        strcpy(entry->name, item->d_name);
        entry->used_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
        entry->bytes = (uint64_t)info.st_size;
        *total += entry->bytes;
    }
    if (dir)
        closedir(dir);
    return list;
}

/* Bytes that the folder may hold. */
static uint64_t limit_of(void)
{
    const char *text = getenv("GABLE_CPU_CACHE_BYTES");
    int64_t bytes;
    if (!text || !*text)
        return (uint64_t)CPU_CACHE_LIMIT_MIB << 20;
    if (gb_parse_int(text, &bytes) == GB_OK && bytes >= 0)
        return (uint64_t)bytes;
    gb_log(GB_LOG_WARN, "GABLE_CPU_CACHE_BYTES is '%.40s': use a size such as 64M", text);
    return (uint64_t)CPU_CACHE_LIMIT_MIB << 20;
}

/* Beyond the limit the oldest go until a quarter is free. */
static void bound(int folder)
{
    const uint64_t limit = limit_of();
    uint64_t total;
    size_t count;
    listed_t *list = list_entries(folder, &count, &total);
    if (list && total > limit) {
        qsort(list, count, sizeof(*list), older_first);
        for (size_t i = 0; i < count && total > limit / 4 * 3; i++) {
            if (unlinkat(folder, list[i].name, 0) == 0)
                total -= list[i].bytes;
        }
    }
    free(list);
}

/* Whatever has the name goes, be it an empty folder. */
static int put_in_place(int folder, const char *aside, const char *name)
{
    if (renameat(folder, aside, folder, name) == 0)
        return 1;
    return errno == EISDIR && unlinkat(folder, name, AT_REMOVEDIR) == 0 &&
           renameat(folder, aside, folder, name) == 0;
}

void cpu_cache_write(const cpu_cache_key_t *key, const void *blob, size_t bytes)
{
    static _Atomic unsigned counter;
    char name[80], aside[80];
    int folder;
    if (open_folder(&folder) != GB_OK)
        return;
    entry_name(key, name);
    snprintf(aside, sizeof(aside), "new-%d-%u%s", (int)getpid(), counter++, SUFFIX);
    entry_header_t header = {.magic = MAGIC, .version = VERSION, .bytes = bytes, .key = *key};
    cpu_sha(blob, bytes, header.digest);
    int file = openat(folder, aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0) {
        int good = write_all(file, &header, sizeof(header)) && write_all(file, blob, bytes);
        if (close(file) || !good || !put_in_place(folder, aside, name))
            unlinkat(folder, aside, 0);
        bound(folder);
    }
    close(folder);
}

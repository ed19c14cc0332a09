#include "common/lease/gb_lease.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEASE_FILE_MAX = 1024 * 1024, LINE_MAX_LENGTH = 2048, WORDS = 8 };

/* ---- parsing ---- */

typedef struct {
    gb_lease_t lease;
    int line; /* number of the line, for messages */
    int seen_header;
    int seen_id;
} parser_t;

static gb_status_t bad(const parser_t *p, const char *what)
{
    /* The line itself is not shown: it may hold a key. */
    return gb_fail(GB_ERR_FORMAT, "lease file, line %d: %s: get a new lease", p->line, what);
}

static int parse_u64(const char *text, uint64_t *out)
{
    char *end;
    if (*text < '0' || *text > '9')
        return 0;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || *end)
        return 0;
    *out = v;
    return 1;
}

static gb_status_t parse_devices(const parser_t *p, const char *text, gb_lease_proxy_t *proxy)
{
    const char *at = text;
    for (;;) {
        char *end;
        if (*at < '0' || *at > '9')
            return bad(p, "'devices' wants ordinals with commas, e.g. 0,1");
        long v = strtol(at, &end, 10);
        if (v > 65535 || proxy->device_count == GB_LEASE_DEVICES)
            return bad(p, "too many devices, or an ordinal that is too large");
        proxy->devices[proxy->device_count++] = (int)v;
        if (!*end)
            return GB_OK;
        if (*end != ',')
            return bad(p, "'devices' wants ordinals with commas, e.g. 0,1");
        at = end + 1;
    }
}

/* <endpoint> key <hex> */
static gb_status_t parse_target(const parser_t *p, char **word, int count, gb_endpoint_t *endpoint,
                                gb_key_t *key)
{
    if (count < 4 || strcmp(word[2], "key"))
        return bad(p, "expected: proxy|shard ENDPOINT key HEX ...");
    if (gb_endpoint_parse(word[1], 0, endpoint) != GB_OK)
        return bad(p, "bad endpoint");
    if (gb_hex_decode(word[3], key, sizeof *key) != GB_OK)
        return bad(p, "the key is not 64 hexadecimal digits");
    return GB_OK;
}

static gb_status_t parse_proxy(parser_t *p, char **word, int count)
{
    gb_lease_proxy_t proxy = {0};
    gb_status_t st = parse_target(p, word, count, &proxy.endpoint, &proxy.key);
    for (int i = 4; st == GB_OK && i < count; i += 2) {
        if (i + 1 == count)
            st = bad(p, "a word without its value");
        else if (!strcmp(word[i], "devices"))
            st = parse_devices(p, word[i + 1], &proxy);
        else if (strcmp(word[i], "memory") || !parse_u64(word[i + 1], &proxy.memory))
            st = bad(p, "expected: devices 0,1 or memory BYTES");
    }
    if (st == GB_OK)
        st = gb_lease_add_proxy(&p->lease, &proxy);
    gb_wipe(&proxy, sizeof proxy);
    return st;
}

static gb_status_t parse_shard(parser_t *p, char **word, int count)
{
    gb_lease_shard_t shard = {0};
    gb_status_t st = parse_target(p, word, count, &shard.endpoint, &shard.key);
    if (st == GB_OK && count != 4)
        st = bad(p, "words too many");
    if (st == GB_OK)
        st = gb_lease_add_shard(&p->lease, &shard);
    gb_wipe(&shard, sizeof shard);
    return st;
}

static gb_status_t parse_id(parser_t *p, const char *text)
{
    uint8_t bytes[8];
    if (p->seen_id++ || gb_hex_decode(text, bytes, sizeof bytes) != GB_OK)
        return bad(p, "expected once: lease <16 hexadecimal digits>");
    for (int i = 0; i < 8; i++)
        p->lease.id = p->lease.id << 8 | bytes[i];
    return GB_OK;
}

static gb_status_t parse_words(parser_t *p, char **word, int count)
{
    if (!p->seen_header) {
        if (count != 2 || strcmp(word[0], "gable-lease"))
            return gb_fail(GB_ERR_FORMAT,
                           "not a lease file: its first line is not 'gable-lease 1'");
        if (strcmp(word[1], "1"))
            return gb_fail(GB_ERR_VERSION,
                           "lease file of version %.20s, this program reads version 1: "
                           "install the same release everywhere",
                           word[1]);
        p->seen_header = 1;
        return GB_OK;
    }
    if (!strcmp(word[0], "proxy"))
        return parse_proxy(p, word, count);
    if (!strcmp(word[0], "shard"))
        return parse_shard(p, word, count);
    if (!strcmp(word[0], "lease") && count == 2)
        return parse_id(p, word[1]);
    if (!strcmp(word[0], "expires") && count == 2 && parse_u64(word[1], &p->lease.expires_ms))
        return GB_OK;
    return bad(p, "unknown statement");
}

static gb_status_t parse_line(parser_t *p, const char *begin, size_t size)
{
    char copy[LINE_MAX_LENGTH];
    char *word[WORDS + 1];
    char *rest = NULL;
    int count = 0;
    p->line++;
    if (size >= sizeof copy || memchr(begin, 0, size))
        return bad(p, "too long, or not text");
    memcpy(copy, begin, size);
    copy[size] = 0;
    for (char *w = strtok_r(copy, " \t\r", &rest); w; w = strtok_r(NULL, " \t\r", &rest)) {
        if (count == WORDS)
            return bad(p, "words too many");
        word[count++] = w;
    }
    gb_status_t st = GB_OK;
    if (count && word[0][0] != '#')
        st = parse_words(p, word, count);
    gb_wipe(copy, sizeof copy);
    return st;
}

gb_status_t gb_lease_parse(const char *text, size_t size, gb_lease_t *out)
{
    parser_t p = {{0}, 0, 0, 0};
    const char *end = text + size;
    gb_status_t st = GB_OK;
    while (st == GB_OK && text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop)
            stop = end;
        st = parse_line(&p, text, (size_t)(stop - text));
        text = stop + 1;
    }
    if (st == GB_OK && !p.seen_header)
        st = gb_fail(GB_ERR_FORMAT, "the lease file is empty");
    if (st == GB_OK && !p.seen_id)
        st = gb_fail(GB_ERR_FORMAT, "the lease file has no 'lease' line: get a new lease");
    if (st == GB_OK)
        *out = p.lease;
    else
        gb_lease_free(&p.lease);
    return st;
}

/* ---- files ---- */

/* Reads a file that holds secrets; the caller wipes and frees. */
static gb_status_t read_secret_file(const char *path, const char *what, char **text, size_t *size)
{
    struct stat sb;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return gb_fail(errno == ENOENT ? GB_ERR_NOT_FOUND : GB_ERR_IO, "cannot read the %s %s: %s",
                       what, path, strerror(errno));
    gb_status_t st = GB_OK;
    char *p = NULL;
    ssize_t n = 0;
    if (fstat(fd, &sb) || !S_ISREG(sb.st_mode) || sb.st_size > LEASE_FILE_MAX)
        st = gb_fail(GB_ERR_FORMAT, "%s is no %s", path, what);
    else if (sb.st_mode & 077)
        st = gb_fail(GB_ERR_UNAUTHORISED, "the %s %s can be read by others: chmod 600 it", what,
                     path);
    else if (!(p = malloc((size_t)sb.st_size + 1)))
        st = gb_fail(GB_ERR_NO_MEMORY, "out of memory for %s", path);
    else if ((n = read(fd, p, (size_t)sb.st_size)) < 0)
        st = gb_fail_errno(GB_ERR_IO, errno, "cannot read %s", path);
    close(fd);
    if (st != GB_OK) {
        free(p);
        return st;
    }
    p[n] = 0;
    *text = p;
    *size = (size_t)n;
    return GB_OK;
}

gb_status_t gb_lease_load(const char *path, gb_lease_t *out)
{
    char *text;
    size_t size;
    gb_status_t st = read_secret_file(path, "lease file", &text, &size);
    if (st != GB_OK)
        return st;
    st = gb_lease_parse(text, size, out);
    gb_wipe(text, size);
    free(text);
    return st;
}

gb_status_t gb_key_load(const char *path, gb_key_t *out)
{
    char *text;
    size_t size;
    gb_status_t st = read_secret_file(path, "key file", &text, &size);
    if (st != GB_OK)
        return st;
    const char *hex = text + strspn(text, " \t\r\n");
    size_t digits = strspn(hex, "0123456789abcdefABCDEF");
    if (digits != 2 * GB_KEY_SIZE || hex[digits + strspn(hex + digits, " \t\r\n")])
        st = gb_fail(GB_ERR_FORMAT, "%s does not hold 64 hexadecimal digits", path);
    else
        st = gb_hex_decode(hex, out, sizeof *out);
    gb_wipe(text, size);
    free(text);
    return st;
}

static void print_proxy(FILE *f, const gb_lease_proxy_t *proxy)
{
    char text[GB_ENDPOINT_TEXT];
    char hex[2 * GB_KEY_SIZE + 1];
    gb_hex_encode(&proxy->key, sizeof proxy->key, hex);
    fprintf(f, "proxy %s key %s", gb_endpoint_format(&proxy->endpoint, text), hex);
    for (int i = 0; i < proxy->device_count; i++)
        fprintf(f, "%s%d", i ? "," : " devices ", proxy->devices[i]);
    if (proxy->memory)
        fprintf(f, " memory %" PRIu64, proxy->memory);
    fputc('\n', f);
    gb_wipe(hex, sizeof hex);
}

static void print_shard(FILE *f, const gb_lease_shard_t *shard)
{
    char text[GB_ENDPOINT_TEXT];
    char hex[2 * GB_KEY_SIZE + 1];
    gb_hex_encode(&shard->key, sizeof shard->key, hex);
    fprintf(f, "shard %s key %s\n", gb_endpoint_format(&shard->endpoint, text), hex);
    gb_wipe(hex, sizeof hex);
}

gb_status_t gb_lease_save(const gb_lease_t *lease, const char *path)
{
    char aside[4096];
    if ((size_t)snprintf(aside, sizeof aside, "%s.%d.part", path, (int)getpid()) >= sizeof aside)
        return gb_fail(GB_ERR_INVALID, "the path of the lease file is too long");
    unlink(aside); /* a leftover of a process with the same number */
    int fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!f) {
        gb_status_t st = gb_fail_errno(GB_ERR_IO, errno, "cannot write the lease file %s", aside);
        if (fd >= 0)
            close(fd);
        return st;
    }
    fprintf(f, "gable-lease 1\nlease %016" PRIx64 "\nexpires %" PRIu64 "\n", lease->id,
            lease->expires_ms);
    for (size_t i = 0; i < lease->proxy_count; i++)
        print_proxy(f, &lease->proxies[i]);
    for (size_t i = 0; i < lease->shard_count; i++)
        print_shard(f, &lease->shards[i]);
    int failed = ferror(f);
    failed |= fclose(f);
    if (failed || rename(aside, path)) {
        gb_status_t st = gb_fail_errno(GB_ERR_IO, errno, "cannot write the lease file %s", path);
        unlink(aside);
        return st;
    }
    return GB_OK;
}

/* ---- the object ---- */

/* Room for one more; the old array is wiped, as it holds keys. */
static gb_status_t grow(void **array, size_t count, size_t element)
{
    if (count >= GB_LEASE_ENDPOINTS)
        return gb_fail(GB_ERR_LIMIT, "a lease has at most %d proxies and as many shards",
                       GB_LEASE_ENDPOINTS);
    void *p = calloc(count + 1, element);
    if (!p)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory for a lease");
    if (count) {
        memcpy(p, *array, count * element);
        gb_wipe(*array, count * element);
    }
    free(*array);
    *array = p;
    return GB_OK;
}

gb_status_t gb_lease_add_proxy(gb_lease_t *lease, const gb_lease_proxy_t *proxy)
{
    void *array = lease->proxies;
    gb_status_t st = grow(&array, lease->proxy_count, sizeof *proxy);
    if (st != GB_OK)
        return st;
    lease->proxies = array;
    lease->proxies[lease->proxy_count++] = *proxy;
    return GB_OK;
}

gb_status_t gb_lease_add_shard(gb_lease_t *lease, const gb_lease_shard_t *shard)
{
    void *array = lease->shards;
    gb_status_t st = grow(&array, lease->shard_count, sizeof *shard);
    if (st != GB_OK)
        return st;
    lease->shards = array;
    lease->shards[lease->shard_count++] = *shard;
    return GB_OK;
}

int gb_lease_expired(const gb_lease_t *lease, uint64_t now_ms)
{
    return lease->expires_ms && now_ms >= lease->expires_ms;
}

void gb_lease_free(gb_lease_t *lease)
{
    if (lease->proxies)
        gb_wipe(lease->proxies, lease->proxy_count * sizeof *lease->proxies);
    if (lease->shards)
        gb_wipe(lease->shards, lease->shard_count * sizeof *lease->shards);
    free(lease->proxies);
    free(lease->shards);
    memset(lease, 0, sizeof *lease);
}

gb_status_t gb_lease_master_key(gb_key_t *out)
{
    return gb_random(out, sizeof *out);
}

gb_status_t gb_lease_derive_key(const gb_key_t *master, uint64_t lease, const char *role,
                                const char *name, gb_key_t *out)
{
    char info[512];
    /* The lease's number has a fixed length, so that no two triples give the same text. */
    int n = snprintf(info, sizeof info, "%016" PRIx64 "/%s/%s", lease, role, name);
    if (n < 0 || (size_t)n >= sizeof info)
        return gb_fail(GB_ERR_INVALID, "the name of the %s is too long", role);
    return gb_hkdf(master, "gable lease 1", info, out);
}

/* Writing a safetensors file.
 *
 * The file appears under its name only once it is whole and on disk: it is written aside, synced,
 * renamed, and then the folder is synced, so that a crash leaves the old file or the new one. */
#include "common/tensor/gb_st_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct gb_st_writer {
    char *path, *scrap;
    int fd;
    uint64_t left; /* bytes of data still to come */
    gb_status_t failed;
};

static gb_status_t write_all(int fd, const void *data, size_t bytes, const char *path)
{
    const char *p = data;
    while (bytes > 0) {
        ssize_t n = write(fd, p, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gb_fail_errno(GB_ERR_IO, errno, "cannot write %s", path);
        p += n;
        bytes -= (size_t)n;
    }
    return GB_OK;
}

static json_t *describe_tensor(const gb_st_tensor_t *tensor, uint64_t begin, uint64_t end)
{
    json_t *shape = json_array();
    for (uint32_t d = 0; d < tensor->dims; d++)
        json_array_append_new(shape, json_integer((json_int_t)tensor->shape[d]));
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", gb_st_dtype_name(tensor->dtype), "shape",
                     shape, "data_offsets", (json_int_t)begin, (json_int_t)end);
}

static gb_status_t add_meta(json_t *root, const gb_st_meta_t *meta, uint32_t count)
{
    if (count == 0)
        return GB_OK;
    json_t *object = json_object();
    for (uint32_t i = 0; i < count; i++) {
        if (json_object_set_new(object, meta[i].key, json_string(meta[i].value)) != 0) {
            json_decref(object);
            return gb_fail(GB_ERR_INVALID, "metadata %s is not UTF-8", meta[i].key);
        }
    }
    return json_object_set_new(root, "__metadata__", object) == 0
               ? GB_OK
               : gb_fail(GB_ERR_NO_MEMORY, "out of memory");
}

static gb_status_t add_tensors(json_t *root, const gb_st_tensor_t *tensors, uint32_t count,
                               uint64_t *total)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        int overflow;
        uint64_t bytes = gb_st_tensor_bytes(&tensors[i], &overflow);
        if (overflow || tensors[i].dims > GB_ST_MAX_DIMS || at + bytes > INT64_MAX)
            return gb_fail(GB_ERR_INVALID, "tensor %s is too large", tensors[i].name);
        if (json_object_get(root, tensors[i].name) || strcmp(tensors[i].name, "__metadata__") == 0)
            return gb_fail(GB_ERR_INVALID, "tensor name %s is taken", tensors[i].name);
        json_t *entry = describe_tensor(&tensors[i], at, at + bytes);
        if (!entry || json_object_set_new(root, tensors[i].name, entry) != 0)
            return gb_fail(GB_ERR_INVALID, "tensor name %s is not UTF-8", tensors[i].name);
        at += bytes;
    }
    *total = at;
    return GB_OK;
}

/* The header with its length, padded with spaces so that the data are aligned to 8 bytes. */
static gb_status_t make_header(const gb_st_tensor_t *tensors, uint32_t count,
                               const gb_st_meta_t *meta, uint32_t meta_count, uint64_t *total,
                               char **out, size_t *out_bytes)
{
    json_t *root = json_object();
    if (!root)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    gb_status_t st = add_meta(root, meta, meta_count);
    if (st == GB_OK)
        st = add_tensors(root, tensors, count, total);
    char *text = st == GB_OK ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (st != GB_OK)
        return st;
    if (!text)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    char *header = malloc(GB_ST_PREFIX + padded);
    if (!header) {
        free(text);
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    uint64_t prefix = padded;
    memcpy(header, &prefix, GB_ST_PREFIX);
    memcpy(header + GB_ST_PREFIX, text, length);
    memset(header + GB_ST_PREFIX + length, ' ', padded - length);
    free(text);
    *out = header;
    *out_bytes = GB_ST_PREFIX + padded;
    return GB_OK;
}

static void writer_free(gb_st_writer_t *writer)
{
    free(writer->path);
    free(writer->scrap);
    free(writer);
}

void gb_st_writer_abort(gb_st_writer_t *writer)
{
    if (!writer)
        return;
    close(writer->fd);
    unlink(writer->scrap);
    writer_free(writer);
}

gb_status_t gb_st_writer_open(const char *path, const gb_st_tensor_t *tensors, uint32_t count,
                              const gb_st_meta_t *meta, uint32_t meta_count, gb_st_writer_t **out)
{
    char *header = NULL;
    size_t header_bytes = 0;
    uint64_t total = 0;
    gb_status_t st = make_header(tensors, count, meta, meta_count, &total, &header, &header_bytes);
    if (st != GB_OK)
        return st;

    gb_st_writer_t *writer = calloc(1, sizeof(*writer));
    size_t scrap_size = strlen(path) + 32;
    if (!writer || !(writer->path = strdup(path)) || !(writer->scrap = malloc(scrap_size))) {
        st = gb_fail(GB_ERR_NO_MEMORY, "out of memory");
        goto err_free;
    }
    snprintf(writer->scrap, scrap_size, "%s.tmp-%ld", path, (long)getpid());
    writer->left = total;
    writer->fd = open(writer->scrap, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (writer->fd < 0) {
        st = gb_fail_errno(GB_ERR_IO, errno, "cannot create %s", writer->scrap);
        goto err_free;
    }
    st = write_all(writer->fd, header, header_bytes, writer->scrap);
    if (st != GB_OK) {
        gb_st_writer_abort(writer);
        free(header);
        return st;
    }
    free(header);
    *out = writer;
    return GB_OK;

err_free:
    if (writer)
        writer_free(writer);
    free(header);
    return st;
}

gb_status_t gb_st_write(gb_st_writer_t *writer, const void *data, size_t bytes)
{
    if (writer->failed != GB_OK)
        return writer->failed;
    if (bytes > writer->left)
        writer->failed = gb_fail(GB_ERR_INVALID, "%s: more data than declared", writer->path);
    else
        writer->failed = write_all(writer->fd, data, bytes, writer->scrap);
    if (writer->failed == GB_OK)
        writer->left -= bytes;
    return writer->failed;
}

static gb_status_t sync_folder(const char *path)
{
    char *copy = strdup(path);
    if (!copy)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    gb_status_t st = GB_OK;
    if (fd < 0 || fsync(fd) != 0)
        st = gb_fail_errno(GB_ERR_IO, errno, "cannot sync the folder of %s", path);
    if (fd >= 0)
        close(fd);
    free(copy);
    return st;
}

gb_status_t gb_st_writer_commit(gb_st_writer_t *writer)
{
    gb_status_t st = writer->failed;
    if (st == GB_OK && writer->left > 0)
        st = gb_fail(GB_ERR_INVALID, "%s: %llu bytes of data are missing", writer->path,
                     (unsigned long long)writer->left);
    if (st == GB_OK && fsync(writer->fd) != 0)
        st = gb_fail_errno(GB_ERR_IO, errno, "cannot sync %s", writer->scrap);
    if (st == GB_OK && rename(writer->scrap, writer->path) != 0)
        st = gb_fail_errno(GB_ERR_IO, errno, "cannot rename %s", writer->scrap);
    if (st != GB_OK) {
        gb_st_writer_abort(writer);
        return st;
    }
    st = sync_folder(writer->path);
    close(writer->fd);
    writer_free(writer);
    return st;
}

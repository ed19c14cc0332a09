#include "common/tensor/gb_st_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    gb_st_tensor_t tensor;
    uint64_t begin, end; /* within the data */
} entry_t;

struct gb_st_reader {
    int fd;
    char *path;
    json_t *header; /* owns the names and the metadata */
    const json_t *meta;
    entry_t *entries;
    uint32_t count;
    uint64_t data_at, data_bytes;
};

static gb_status_t bad(const gb_st_reader_t *reader, const char *what, const char *name)
{
    return gb_fail(GB_ERR_FORMAT, "%s is not a safetensors file: %s%s%s", reader->path, what,
                   name ? " " : "", name ? name : "");
}

static gb_status_t read_at(const gb_st_reader_t *reader, void *out, size_t bytes, uint64_t offset)
{
    char *p = out;
    while (bytes > 0) {
        ssize_t n = pread(reader->fd, p, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gb_fail_errno(GB_ERR_IO, errno, "cannot read %s", reader->path);
        if (n == 0)
            return gb_fail(GB_ERR_FORMAT, "%s was cut short", reader->path);
        p += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return GB_OK;
}

static gb_status_t parse_shape(const gb_st_reader_t *reader, const json_t *shape, entry_t *entry)
{
    const char *name = entry->tensor.name;
    size_t dims = json_array_size(shape);
    if (!json_is_array(shape) || dims > GB_ST_MAX_DIMS)
        return bad(reader, "bad shape of tensor", name);
    entry->tensor.dims = (uint32_t)dims;
    for (size_t d = 0; d < dims; d++) {
        const json_t *extent = json_array_get(shape, d);
        if (!json_is_integer(extent) || json_integer_value(extent) < 0)
            return bad(reader, "bad shape of tensor", name);
        entry->tensor.shape[d] = (uint64_t)json_integer_value(extent);
    }
    return GB_OK;
}

static gb_status_t parse_offsets(const gb_st_reader_t *reader, const json_t *offsets,
                                 entry_t *entry)
{
    const char *name = entry->tensor.name;
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return bad(reader, "bad data_offsets of tensor", name);
    json_int_t b = json_integer_value(begin), e = json_integer_value(end);
    if (b < 0 || e < b || (uint64_t)e > reader->data_bytes)
        return bad(reader, "data outside the file, tensor", name);
    int overflow;
    uint64_t bytes = gb_st_tensor_bytes(&entry->tensor, &overflow);
    if (overflow || bytes != (uint64_t)(e - b))
        return bad(reader, "shape and data differ in size, tensor", name);
    entry->begin = (uint64_t)b;
    entry->end = (uint64_t)e;
    return GB_OK;
}

static gb_status_t parse_entry(const gb_st_reader_t *reader, const json_t *value, entry_t *entry)
{
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    if (!dtype || gb_st_dtype_parse(dtype, &entry->tensor.dtype) != 0)
        return bad(reader, "unknown dtype of tensor", entry->tensor.name);
    gb_status_t st = parse_shape(reader, json_object_get(value, "shape"), entry);
    return st == GB_OK ? parse_offsets(reader, json_object_get(value, "data_offsets"), entry) : st;
}

static gb_status_t parse_meta(gb_st_reader_t *reader, json_t *value)
{
    const char *key;
    json_t *text;
    if (!json_is_object(value))
        return bad(reader, "__metadata__ is no object", NULL);
    json_object_foreach(value, key, text)
    {
        if (!json_is_string(text))
            return bad(reader, "metadata is no text:", key);
    }
    reader->meta = value;
    return GB_OK;
}

static int by_begin(const void *a, const void *b)
{
    const entry_t *const *x = a, *const *y = b;
    if ((*x)->begin != (*y)->begin)
        return (*x)->begin < (*y)->begin ? -1 : 1;
    return (*x)->end<(*y)->end ? -1 : (*x)->end>(*y)->end;
}

/* The tensors must tile the data: no overlap, no hole, no rest. */
static gb_status_t check_tiling(const gb_st_reader_t *reader)
{
    const entry_t **sorted = malloc((reader->count + 1) * sizeof(*sorted));
    if (!sorted)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < reader->count; i++)
        sorted[i] = &reader->entries[i];
    qsort(sorted, reader->count, sizeof(*sorted), by_begin);
    uint64_t at = 0;
    gb_status_t st = GB_OK;
    for (uint32_t i = 0; i < reader->count && st == GB_OK; i++) {
        if (sorted[i]->begin != at)
            st = bad(reader, "overlap or hole before tensor", sorted[i]->tensor.name);
        at = sorted[i]->end;
    }
    if (st == GB_OK && at != reader->data_bytes)
        st = bad(reader, "bytes after the last tensor", NULL);
    free(sorted);
    return st;
}

static gb_status_t parse_header(gb_st_reader_t *reader)
{
    if (!json_is_object(reader->header))
        return bad(reader, "the header is no object", NULL);
    reader->entries = calloc(json_object_size(reader->header) + 1, sizeof(*reader->entries));
    if (!reader->entries)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    const char *name;
    json_t *value;
    json_object_foreach(reader->header, name, value)
    {
        gb_status_t st;
        if (strcmp(name, "__metadata__") == 0) {
            st = parse_meta(reader, value);
        } else {
            entry_t *entry = &reader->entries[reader->count++];
            entry->tensor.name = name;
            st = parse_entry(reader, value, entry);
        }
        if (st != GB_OK)
            return st;
    }
    return check_tiling(reader);
}

static gb_status_t load_header(gb_st_reader_t *reader)
{
    struct stat info;
    if (fstat(reader->fd, &info) != 0)
        return gb_fail_errno(GB_ERR_IO, errno, "cannot read %s", reader->path);
    if (!S_ISREG(info.st_mode) || info.st_size < GB_ST_PREFIX + 2)
        return bad(reader, "too short", NULL);
    uint64_t length, size = (uint64_t)info.st_size;
    gb_status_t st = read_at(reader, &length, sizeof(length), 0);
    if (st != GB_OK)
        return st;
    if (length > GB_ST_MAX_HEADER || length > size - GB_ST_PREFIX)
        return bad(reader, "the header is longer than the file allows", NULL);
    char *text = malloc(length + 1);
    if (!text)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    st = read_at(reader, text, length, GB_ST_PREFIX);
    if (st != GB_OK) {
        free(text);
        return st;
    }
    json_error_t error;
    reader->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (!reader->header)
        return bad(reader, error.text, NULL);
    reader->data_at = GB_ST_PREFIX + length;
    reader->data_bytes = size - reader->data_at;
    return parse_header(reader);
}

gb_status_t gb_st_reader_open(const char *path, gb_st_reader_t **out)
{
    gb_st_reader_t *reader = calloc(1, sizeof(*reader));
    if (!reader || !(reader->path = strdup(path))) {
        free(reader);
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    /* O_NONBLOCK: a name that is a pipe must not hang us. */
    reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    gb_status_t st;
    if (reader->fd < 0)
        st = gb_fail_errno(errno == ENOENT ? GB_ERR_NOT_FOUND : GB_ERR_IO, errno, "cannot open %s",
                           path);
    else
        st = load_header(reader);
    if (st != GB_OK) {
        gb_st_reader_close(reader);
        return st;
    }
    *out = reader;
    return GB_OK;
}

void gb_st_reader_close(gb_st_reader_t *reader)
{
    if (!reader)
        return;
    if (reader->fd >= 0)
        close(reader->fd);
    json_decref(reader->header);
    free(reader->entries);
    free(reader->path);
    free(reader);
}

uint32_t gb_st_reader_count(const gb_st_reader_t *reader)
{
    return reader->count;
}

const gb_st_tensor_t *gb_st_reader_tensor(const gb_st_reader_t *reader, uint32_t index)
{
    return &reader->entries[index].tensor;
}

int32_t gb_st_reader_find(const gb_st_reader_t *reader, const char *name)
{
    for (uint32_t i = 0; i < reader->count; i++) {
        if (strcmp(reader->entries[i].tensor.name, name) == 0)
            return (int32_t)i;
    }
    return -1;
}

const char *gb_st_reader_meta(const gb_st_reader_t *reader, const char *key)
{
    return json_string_value(json_object_get(reader->meta, key));
}

gb_status_t gb_st_reader_read(const gb_st_reader_t *reader, uint32_t index, uint64_t offset,
                              void *out, size_t bytes)
{
    if (index >= reader->count)
        return gb_fail(GB_ERR_NOT_FOUND, "%s has no tensor %u", reader->path, index);
    const entry_t *entry = &reader->entries[index];
    uint64_t size = entry->end - entry->begin;
    if (offset > size || bytes > size - offset)
        return gb_fail(GB_ERR_INVALID, "%s: read past the end of tensor %s", reader->path,
                       entry->tensor.name);
    return read_at(reader, out, bytes, reader->data_at + entry->begin + offset);
}

#include "worker/data/wk_idx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define WK_IDX_MAX_BYTES ((size_t)2 << 30)

static uint32_t load_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Reads exactly `size` bytes; *got tells how many there were. */
static gb_status_t read_exact(gzFile file, const char *path, void *to, size_t size)
{
    uint8_t *at = to;
    size_t got = 0;
    while (got < size) {
        size_t want = size - got < (1u << 30) ? size - got : (1u << 30);
        int n = gzread(file, at + got, (unsigned)want);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    if (got == size)
        return GB_OK;
    int code = Z_OK;
    const char *text = gzerror(file, &code);
    if (code == Z_DATA_ERROR || code == Z_STREAM_ERROR)
        return gb_fail(GB_ERR_FORMAT, "%s: damaged gzip data (%s): copy the file again", path,
                       text);
    return gb_fail(GB_ERR_FORMAT,
                   "%s: truncated, %zu of %zu bytes are missing: copy the file again", path,
                   size - got, size);
}

static gb_status_t read_header(gzFile file, const char *path, wk_idx_t *idx)
{
    uint8_t word[4];
    gb_status_t status = read_exact(file, path, word, sizeof(word));
    if (status != GB_OK)
        return status;
    if (word[0] || word[1] || word[2] != 0x08 || word[3] < 1 || word[3] > WK_IDX_MAX_RANK)
        return gb_fail(GB_ERR_FORMAT,
                       "%s: wrong magic 0x%08x, this is no IDX file of unsigned bytes: "
                       "put the original MNIST file there",
                       path, load_be32(word));
    idx->rank = word[3];
    idx->size = 1;
    for (uint32_t i = 0; i < idx->rank; i++) {
        status = read_exact(file, path, word, sizeof(word));
        if (status != GB_OK)
            return status;
        idx->dims[i] = load_be32(word);
        if (idx->dims[i] == 0)
            return gb_fail(GB_ERR_FORMAT, "%s: dimension %u is zero: copy the file again", path, i);
        if (idx->size > WK_IDX_MAX_BYTES / idx->dims[i])
            return gb_fail(GB_ERR_LIMIT, "%s: claims more than 2 GiB: copy the file again", path);
        idx->size *= idx->dims[i];
    }
    return GB_OK;
}

static gb_status_t read_body(gzFile file, const char *path, wk_idx_t *idx)
{
    idx->bytes = malloc(idx->size);
    if (!idx->bytes)
        return gb_fail(GB_ERR_NO_MEMORY, "%s: no memory for %zu bytes: free some", path, idx->size);
    gb_status_t status = read_exact(file, path, idx->bytes, idx->size);
    if (status != GB_OK)
        return status;
    uint8_t extra;
    int n = gzread(file, &extra, 1); /* also makes zlib check the CRC at the end */
    if (n < 0)
        return gb_fail(GB_ERR_FORMAT, "%s: damaged gzip data (wrong checksum): copy the file again",
                       path);
    if (n > 0)
        return gb_fail(GB_ERR_FORMAT,
                       "%s: longer than its dimensions say (%zu bytes): copy the file again", path,
                       idx->size);
    return GB_OK;
}

gb_status_t wk_idx_load(const char *path, wk_idx_t *out)
{
    wk_idx_t idx = {0};
    errno = 0;
    gzFile file = gzopen(path, "rb");
    if (!file)
        return gb_fail_errno(errno == ENOENT ? GB_ERR_NOT_FOUND : GB_ERR_IO, errno ? errno : ENOMEM,
                             "%s: cannot be opened: name the folder of the MNIST files with --data",
                             path);
    gb_status_t status = read_header(file, path, &idx);
    if (status == GB_OK)
        status = read_body(file, path, &idx);
    if (gzclose(file) == Z_BUF_ERROR && status == GB_OK) /* the end of the gzip stream is missing */
        status = gb_fail(GB_ERR_FORMAT, "%s: truncated at its end: copy the file again", path);
    if (status != GB_OK) {
        wk_idx_free(&idx);
        return status;
    }
    *out = idx;
    return GB_OK;
}

void wk_idx_free(wk_idx_t *idx)
{
    free(idx->bytes);
    memset(idx, 0, sizeof(*idx));
}

/* gb_safetensors.h - reading and writing safetensors files.
 *
 * The format: u64 little-endian length of a JSON header, the header ({name: {dtype, shape,
 * data_offsets}, "__metadata__": {text: text}}), then the bytes of the tensors. Not thread-safe per
 * object. A reader trusts nothing in the file: lengths, offsets, overlaps, sizes and types are
 * checked at open. */
#ifndef GB_SAFETENSORS_H
#define GB_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"

enum { GB_ST_MAX_DIMS = 8 };

typedef enum {
    GB_ST_F32,
    GB_ST_F16,
    GB_ST_BF16,
    GB_ST_F64,
    GB_ST_I32,
    GB_ST_I64,
    GB_ST_U8
} gb_st_dtype_t;

typedef struct {
    const char *name; /* in UTF-8 */
    gb_st_dtype_t dtype;
    uint32_t dims;
    uint64_t shape[GB_ST_MAX_DIMS];
} gb_st_tensor_t;

typedef struct {
    const char *key, *value;
} gb_st_meta_t;

/* Bytes of a tensor's data; 0 with *overflow set if that does not fit into 63 bits. */
uint64_t gb_st_tensor_bytes(const gb_st_tensor_t *tensor, int *overflow);

typedef struct gb_st_writer gb_st_writer_t;

/* Starts PATH (through PATH.tmp-<pid> beside it). The tensors' data follow in the same order through
 * gb_st_write, in pieces of any size. */
gb_status_t gb_st_writer_open(const char *path, const gb_st_tensor_t *tensors, uint32_t count,
                              const gb_st_meta_t *meta, uint32_t meta_count, gb_st_writer_t **out);
gb_status_t gb_st_write(gb_st_writer_t *writer, const void *data, size_t bytes);

/* Checks that all bytes came, makes the file durable (fsync, rename, fsync of the folder) and frees
 * the writer, also on failure: then PATH is untouched and the scrap is removed. */
gb_status_t gb_st_writer_commit(gb_st_writer_t *writer);

/* Gives up: removes the scrap. NULL is fine. */
void gb_st_writer_abort(gb_st_writer_t *writer);

typedef struct gb_st_reader gb_st_reader_t;

/* GB_ERR_NOT_FOUND, GB_ERR_IO, GB_ERR_FORMAT (says what is wrong). */
gb_status_t gb_st_reader_open(const char *path, gb_st_reader_t **out);
void gb_st_reader_close(gb_st_reader_t *reader);

/* The tensors in the order of the file; valid until close. */
uint32_t gb_st_reader_count(const gb_st_reader_t *reader);
const gb_st_tensor_t *gb_st_reader_tensor(const gb_st_reader_t *reader, uint32_t index);

/* Index of a name, or -1. */
int32_t gb_st_reader_find(const gb_st_reader_t *reader, const char *name);

/* Value of a metadata key, or NULL. */
const char *gb_st_reader_meta(const gb_st_reader_t *reader, const char *key);

/* Reads `bytes` bytes of tensor `index` from byte `offset` of its data. */
gb_status_t gb_st_reader_read(const gb_st_reader_t *reader, uint32_t index, uint64_t offset,
                              void *out, size_t bytes);

#endif

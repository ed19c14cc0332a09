/* gb_st_internal.h - what reader and writer of safetensors share. */
#ifndef GB_ST_INTERNAL_H
#define GB_ST_INTERNAL_H

#include "common/tensor/gb_safetensors.h"

enum {
    GB_ST_MAX_HEADER = 100 * 1000 * 1000, /* what other readers accept */
    GB_ST_PREFIX = 8,                     /* the u64 length before the header */
};

/* Name in the file, e.g. "F32". */
const char *gb_st_dtype_name(gb_st_dtype_t dtype);
uint32_t gb_st_dtype_bytes(gb_st_dtype_t dtype);

/* Returns 0 and the type, or -1 if the name is unknown. */
int gb_st_dtype_parse(const char *name, gb_st_dtype_t *out);

#endif

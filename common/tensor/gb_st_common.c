#include "common/tensor/gb_st_internal.h"

#include <string.h>

typedef struct {
    const char *name;
    uint32_t bytes;
} dtype_info_t;

static const dtype_info_t dtypes[] = {
    [GB_ST_F32] = {"F32", 4}, [GB_ST_F16] = {"F16", 2}, [GB_ST_BF16] = {"BF16", 2},
    [GB_ST_F64] = {"F64", 8}, [GB_ST_I32] = {"I32", 4}, [GB_ST_I64] = {"I64", 8},
    [GB_ST_U8] = {"U8", 1},
};

enum { DTYPES = sizeof(dtypes) / sizeof(dtypes[0]) };

const char *gb_st_dtype_name(gb_st_dtype_t dtype)
{
    return dtypes[dtype].name;
}

uint32_t gb_st_dtype_bytes(gb_st_dtype_t dtype)
{
    return dtypes[dtype].bytes;
}

int gb_st_dtype_parse(const char *name, gb_st_dtype_t *out)
{
    for (int i = 0; i < DTYPES; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            *out = (gb_st_dtype_t)i;
            return 0;
        }
    }
    return -1;
}

uint64_t gb_st_tensor_bytes(const gb_st_tensor_t *tensor, int *overflow)
{
    uint64_t bytes = gb_st_dtype_bytes(tensor->dtype);
    int bad = 0;
    for (uint32_t d = 0; d < tensor->dims; d++)
        bad |= __builtin_mul_overflow(bytes, tensor->shape[d], &bytes);
    bad |= bytes > INT64_MAX;
    *overflow = bad;
    return bad ? 0 : bytes;
}

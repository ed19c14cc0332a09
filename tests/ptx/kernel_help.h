/* kernel_help.h - memory of kernel tests: filled arrays that live on both sides. */
#ifndef KERNEL_HELP_H
#define KERNEL_HELP_H

#include "tests/ptx/pt_device.h"

/* An array of `count` 4-byte items on host and device. */
typedef struct {
    union {
        int32_t *i;
        uint32_t *u;
        float *f;
        void *data;
    };
    size_t count;
    CUdeviceptr device;
} kt_array_t;

kt_array_t kt_zeros(size_t count);
kt_array_t kt_ints(size_t count, uint32_t seed, int32_t low, int32_t high); /* low to high */
kt_array_t kt_floats(size_t count, uint32_t seed);                          /* -1 to 1 */
void kt_fetch(kt_array_t *a);                                               /* device to host */
void kt_free(kt_array_t *a);

/* A kernel of kernels.cu; the module is loaded once. */
CUfunction kt_kernel(const char *name);

void kt_expect_ints(const char *what, const kt_array_t *got, const int32_t *want);
void kt_expect_floats(const char *what, const kt_array_t *got, const float *want, float tolerance);

static inline pt_dim_t kt_dim(unsigned x, unsigned y, unsigned z)
{
    return (pt_dim_t){x, y, z};
}

#endif

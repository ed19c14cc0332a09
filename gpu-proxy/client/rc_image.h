/* rc_image.h - how long a module image is: PTX text, a fat binary, the wrapper of one, or an ELF. */
#ifndef RC_IMAGE_H
#define RC_IMAGE_H

#include <stddef.h>

#include "common/cuda/gb_cuda.h"

/* *bytes and *size = what has to travel (the wrapper's contents for a wrapper). CUDA passes images
 * without their size, so this trusts their headers, as the driver does. CUDA_ERROR_INVALID_IMAGE: none
 * of these, or longer than 1 GiB. */
CUresult rc_image_size(const void *image, const void **bytes, size_t *size);

/* Whether a file of `size` bytes holds all of the image that its headers tell of. Bytes[size] is 0. */
int rc_image_fits(const void *bytes, size_t size);

/* The parts of a wrapper whose program was compiled in parts (nvcc -rdc), ending with NULL; NULL if the
 * image is no such wrapper. */
const void *const *rc_image_parts(const void *image);

#endif

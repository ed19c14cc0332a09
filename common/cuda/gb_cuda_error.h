/* gb_cuda_error.h - names and texts of CUDA result codes. Thread-safe, static strings. */
#ifndef GB_CUDA_ERROR_H
#define GB_CUDA_ERROR_H

#include "common/cuda/gb_cuda.h"

/* "CUDA_ERROR_INVALID_VALUE"; NULL for a number that is no result code. */
const char *gb_cuda_error_name(CUresult result);

/* "invalid argument"; NULL for a number that is no result code. */
const char *gb_cuda_error_text(CUresult result);

/* True for the execution faults, which stick to their context: every later call returns them. */
int gb_cuda_error_sticks(CUresult result);

#endif

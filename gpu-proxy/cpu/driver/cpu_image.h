/* cpu_image.h - what a program hands in as a module: PTX text or a fat binary, parsed once.
 *
 * An image never changes after it is made and is shared by reference count between modules of several
 * contexts. Thread-safe. */
#ifndef CPU_IMAGE_H
#define CPU_IMAGE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cuda/gb_cuda.h"
#include "gpu-proxy/cpu/ptx/ptx_ir.h"

/* The compute capability whose PTX is preferred in a fat binary: what the device shows. */
enum { CPU_IMAGE_SM = 80 };

typedef struct {
    atomic_int refs;
    ptx_module_t *ptx;
    uint8_t digest[32]; /* of the PTX text */
} cpu_image_t;

/* The JIT options that matter here: where messages go. Both buffers may be NULL. */
typedef struct {
    char *error;
    size_t error_size;
    size_t error_used; /* out, without the NUL */
    char *info;
    size_t info_size;
    size_t info_used;
} cpu_image_log_t;

/* Reads an image in memory: PTX text that ends in a NUL, a fat binary or its wrapper. Everything that
 * the compiler does not cover is found here. CUDA_ERROR_INVALID_PTX, _INVALID_IMAGE,
 * _NO_BINARY_FOR_GPU (machine code only), _NOT_SUPPORTED (needs linking) or _OUT_OF_MEMORY. */
CUresult cpu_image_open(const void *data, cpu_image_log_t *log, cpu_image_t **image);

void cpu_image_ref(cpu_image_t *image);
void cpu_image_put(cpu_image_t *image);

#endif

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
#include "gpu-proxy/cpu/driver/cpu_options.h"
#include "gpu-proxy/cpu/ptx/ptx_ir.h"

/* The compute capability whose PTX is preferred in a fat binary: what the device shows. */
enum { CPU_IMAGE_SM = 80 };

typedef struct {
    atomic_int refs;
    ptx_module_t *ptx;
    uint8_t digest[32]; /* of the PTX text */
} cpu_image_t;

/* Reads an image in memory: PTX text that ends in a NUL, a fat binary or its wrapper. Everything that
 * the compiler does not cover is found here; of the texts in a fat binary the best one that is covered
 * is taken. CUDA_ERROR_INVALID_PTX, _INVALID_IMAGE, _NO_BINARY_FOR_GPU (machine code only) or
 * _OUT_OF_MEMORY. */
CUresult cpu_image_open(const void *data, cpu_image_log_t *log, cpu_image_t **image);

/* The same of a file, whose contents need not be trusted. Also CUDA_ERROR_FILE_NOT_FOUND,
 * _OPERATING_SYSTEM. */
CUresult cpu_image_open_file(const char *name, cpu_image_log_t *log, cpu_image_t **image);

/* A file's bytes, with 16 zeros behind them; the caller frees. CUDA_ERROR_FILE_NOT_FOUND,
 * _OPERATING_SYSTEM, _OUT_OF_MEMORY. */
CUresult cpu_image_read_file(const char *name, void **data, size_t *length);

void cpu_image_ref(cpu_image_t *image);
void cpu_image_put(cpu_image_t *image);

#endif

/* kernels_device.h - the software device, as bench/kernels uses it. Failures end the program with a
 * message. One thread at a time. */
#ifndef KERNELS_DEVICE_H
#define KERNELS_DEVICE_H

#include "bench/kernels_row.h"
#include "common/cuda/gb_driver.h"

typedef struct {
    CUmodule module;
    CUfunction function;
    CUdeviceptr memory[ROW_BUFFERS];
} device_row_t;

/* Opens the device with so many threads, for "v4" (AVX-512) or "v3" (AVX2); NULL: as it chooses. */
void device_open(int threads, const char *target);

/* Loads the row's kernel, and copies its buffers to the device. */
void device_row_open(const row_t *row, void **buffers, device_row_t *out);

/* Launches the kernel `count` times and waits for it. */
void device_row_run(const row_t *row, const device_row_t *d, int count);

void device_row_read(const row_t *row, const device_row_t *d, void *result);
void device_row_close(device_row_t *d);

/* Nanoseconds from cuModuleLoadData to the end of the first launch of the kernel `first`, whose
 * results are checked. */
double device_first_launch(void);

/* Nanoseconds of a launch of an empty kernel and waiting for it, of `count` in a row. */
double device_empty_launch(int count);

#endif

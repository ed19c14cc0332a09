/* pt_device.h - the device that the tests run on, through its driver API.
 *
 * The device is the software one of this build; PT_DRIVER names another (a path, "nvidia"), which
 * shows whether the references are right. Every step fails the running test with the CUDA error. */
#ifndef PT_DEVICE_H
#define PT_DEVICE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/cuda/gb_driver.h"

typedef struct {
    unsigned x, y, z;
} pt_dim_t;

/* A CUDA call that must succeed. */
#define PT_CHECK(call) pt_check((call), #call, __FILE__, __LINE__)
void pt_check(CUresult result, const char *call, const char *file, int line);

/* The driver's table, with a current context; opened on first use. */
const gb_cuda_table_t *pt_cuda(void);

CUmodule pt_load(const char *ptx);
/* Loads, and gives NULL if the image is refused; `log` gets the JIT's error log. */
CUmodule pt_try_load(const char *ptx, char *log, size_t size);
void pt_unload(CUmodule module);
CUfunction pt_function(CUmodule module, const char *name);

/* Launches on the null stream and waits. The result is that of the launch or of the wait. */
CUresult pt_run(CUfunction f, pt_dim_t grid, pt_dim_t block, unsigned shared, void **params);
/* The same, and it must succeed. */
void pt_launch(CUfunction f, pt_dim_t grid, pt_dim_t block, unsigned shared, void **params);

/* Device memory with these bytes (zeros if NULL). */
CUdeviceptr pt_upload(const void *data, size_t bytes);
void pt_download(void *out, CUdeviceptr from, size_t bytes);
void pt_free(CUdeviceptr ptr);

/* After a fault the context is lost: makes a fresh one. */
void pt_new_context(void);

/* A pseudo-random number, the same sequence in every run. */
uint32_t pt_random(uint32_t *state);

#endif

/* fake_cuda.h - a driver table for tests: streams are threads, device memory is host memory.
 *
 * Only what the exchange uses; asynchronous like the real thing, so that order and waiting are put to
 * the test. One context, always current. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include "gb_cuda_table.h"

/* The table; the same on every call. */
const gb_cuda_table_t *fake_cuda_table(void);

/* Runs a function in stream order, as a kernel would be. `arg` stays the caller's. */
void fake_cuda_launch(CUstream stream, void (*kernel)(void *arg), void *arg);

/* The next call of this name ("cuEventRecord", ...) after `after` further ones fails with
 * CUDA_ERROR_LAUNCH_FAILED, and all later ones of it, until name NULL. */
void fake_cuda_fail(const char *name, int after);

/* Objects that are alive: streams, events, allocations. */
int fake_cuda_alive(void);

/* Bytes allocated so far by device and pinned allocations: shows allocation in steady state. */
unsigned long fake_cuda_allocations(void);

#endif

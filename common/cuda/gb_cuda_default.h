/* gb_cuda_default.h - what the generated parts of a libcuda.so.1 of ours rest on.
 *
 * Internal to the CUDA libraries (software device and shim); programs use gb_driver.h. */
#ifndef GB_CUDA_DEFAULT_H
#define GB_CUDA_DEFAULT_H

#include "common/cuda/gb_cuda.h"

/* Answer of a function that is exported but not done: CUDA_ERROR_NOT_SUPPORTED, and one log line the
 * first time (*told is the function's own flag). Thread-safe. */
CUresult gb_cuda_not_supported(int *told, const char *name);

/* What a per-thread variant passes on for a stream: NULL is the calling thread's own stream. */
static inline CUstream gb_cuda_thread_stream(CUstream stream)
{
    return stream ? stream : CU_STREAM_PER_THREAD;
}

/* An exported symbol as the resolver sees it. Sorted by base name, then legacy before per-thread, then
 * by version (1000 * major + 10 * minor of the CUDA release that introduced it). */
typedef struct {
    const char *base;
    int version;
    int per_thread;
    void (*address)(void);
} gb_cuda_symbol_t;

extern const gb_cuda_symbol_t gb_cuda_symbols[];
extern const unsigned gb_cuda_symbol_count;

/* The rule of cuGetProcAddress: the newest symbol of `base` that is not newer than `version`; with
 * CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM the per-thread one is preferred. NULL if there is none;
 * *status tells why. */
void *gb_cuda_resolve(const char *base, int version, uint64_t flags,
                      CUdriverProcAddressQueryResult *status);

/* A library's own export tables, asked for by cuGetExportTable after the identity: returns NULL if the
 * id is none of them. Weak; the shim defines it to offer its exchange table. */
const void *gb_cuda_own_export_table(const CUuuid *id);
/* The same for gb_identity_t's leave. */
void gb_cuda_leave(void);

#endif

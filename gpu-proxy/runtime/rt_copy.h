/* rt_copy.h - the runtime's copies as the driver's descriptors. */
#ifndef RT_COPY_H
#define RT_COPY_H

#include "gpu-proxy/runtime/rt_types.h"

/* Bytes of an array's element; needs rt_enter. */
int rt_array_element(CUarray array, size_t *bytes);

/* A three-dimensional copy; cudaErrorInvalidValue, cudaErrorInvalidMemcpyDirection. */
int rt_copy_3d(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *out);

/* The memory types of source and destination pointers. */
int rt_copy_kind(enum cudaMemcpyKind kind, CUmemorytype *src, CUmemorytype *dst);

/* A copy of `count` bytes between pointers as a one-row descriptor. */
int rt_copy_1d(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
               CUDA_MEMCPY3D *out);

#endif

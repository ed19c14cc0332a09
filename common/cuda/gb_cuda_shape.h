/* gb_cuda_shape.h - what arguments of CUDA calls mean, wherever the call runs. Pure functions: any thread. */
#ifndef GB_CUDA_SHAPE_H
#define GB_CUDA_SHAPE_H

#include <stdbool.h>

#include "common/cuda/gb_cuda.h"

/* Can cuPointerGetAttribute(s) be asked for it? */
bool gb_pointer_attribute_known(CUpointer_attribute attribute);
/* Writes what cuPointerGetAttributes gives for an attribute that a pointer does not have: 8 or 4 bytes. */
void gb_pointer_attribute_clear(CUpointer_attribute attribute, void *data);

/* Bytes of an element of an array; 0: not a format of plain channels, or not 1, 2 or 4 of them. */
unsigned gb_texel_bytes(CUarray_format format, unsigned channels);

/* May blocks be launched in clusters of this shape (CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)? One block is all
 * that a cluster has here: else CUDA_ERROR_INVALID_CLUSTER_SIZE. */
CUresult gb_cluster_check(const CUlaunchAttributeValue *value);

/* CUDA_SUCCESS for file descriptors, which are what memory can be exported as; CUDA_ERROR_NOT_SUPPORTED for what
 * CUDA has besides, CUDA_ERROR_INVALID_VALUE for what it has not. */
CUresult gb_export_type_check(CUmemAllocationHandleType type);

/* A copy of rows as the box that it is. */
CUDA_MEMCPY3D gb_box_of_rows(const CUDA_MEMCPY2D *rows);

/* The box of a copy between contexts, where its addresses tell the contexts. */
CUDA_MEMCPY3D gb_box_of_peer(const CUDA_MEMCPY3D_PEER *peer);

#endif

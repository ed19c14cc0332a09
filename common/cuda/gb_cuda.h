/* gb_cuda.h - the types of the CUDA driver API, as the ABI of CUDA 13 has them.
 *
 * Names, values and layouts are those of the driver's public interface, so a program compiled against
 * this header works with any libcuda.so.1; where a CUDA toolkit is installed a test compares every
 * value and size with the toolkit's header. Never include it beside the toolkit's cuda.h.
 * The functions are declared in the generated gb_cuda_api.h, their table in gb_cuda_table.h. */
#ifndef GB_CUDA_H
#define GB_CUDA_H

#include "common/cuda/gb_cuda_base.h"
#include "common/cuda/gb_cuda_enums.h"
#include "common/cuda/gb_cuda_structs.h"
#include "common/cuda/gb_cuda_graph.h"

/* The CUDA version whose interface these types describe. */
#define GB_CUDA_VERSION 13000

#endif

/* wk_kernels.cu - every layer forward and backward, the input gather and the optimizer.
 *
 * A thread keeps a tile of independent sums in registers; the tile's sizes are the template arguments
 * and stand in the kernel's name. Where a tile sticks out, indices are clamped for reading and stores
 * are guarded by conditions that are the same for the whole thread block. No atomics: every sum has a
 * fixed order, so that a seed gives the same bits on every run. */
#include "common/cuda/gb_device.cuh"
#include "worker/kernels/wk_kernels.h"

#define L WK_LANES

/* Block of samples that this thread works on. */
GB_DEVICE int sample_block(int groups)
{
    return (int)(blockIdx.x % (unsigned)groups) * blockDim.y + threadIdx.y;
}

/* Tile of the grid's x direction. */
GB_DEVICE int tile_index(int groups)
{
    return (int)(blockIdx.x / (unsigned)groups);
}

#include "worker/kernels/wk_input.cuh"
#include "worker/kernels/wk_conv.cuh"
#include "worker/kernels/wk_pool.cuh"
#include "worker/kernels/wk_linear.cuh"
#include "worker/kernels/wk_loss.cuh"

/* wk_kernels.h - arguments of the kernels in wk_kernels.cu, shared by host and device.
 *
 * Layout of activations on the device: [block][channel][row][column][lane], where a block is 16 samples
 * and a lane one of them. So accesses fill whole cache lines, neighbouring columns are a constant
 * distance apart, and weights are the same for all lanes. Samples beyond the batch are computed too
 * and have gradient zero. The other strides are given in floats (x_n from block to block, x_c, x_row),
 * so that a tensor with a border of zeroes, for a padded convolution, looks like any other. Weights
 * keep the conventional layout.
 *
 * Unless said otherwise a thread block is (16, B): 16 lanes of B blocks of samples, B at most 8, and
 * grid.x counts `groups` such thread blocks for each of the tiles named as X below. */
#ifndef WK_KERNELS_H
#define WK_KERNELS_H

#define WK_LANES 16
#define WK_HEIGHT 8 /* largest B */
#define WK_SLACK 8

#ifdef __CUDA__
#define WK_DEVICE_POINTER(type) type *
#else
#include <stdint.h>
/* On the host a device pointer is a number. */
#define WK_DEVICE_POINTER(type) uint64_t
#endif

/* Gathers samples of a permutation into the input: y[row][col] = image[order[n]] * scale + shift for
 * sample n. wk_gather takes four pixels a thread: X = columns / 4, grid.y = rows; wk_gather_single one:
 * X = columns. */
typedef struct {
    WK_DEVICE_POINTER(const unsigned char) images; /* [count][image_stride], 4-byte aligned */
    WK_DEVICE_POINTER(const unsigned) order;       /* sample numbers of this batch */
    WK_DEVICE_POINTER(float) y;                    /* first pixel inside the border */
    int valid;                                     /* samples in the batch; the others are zero */
    int image_stride, image_row;                   /* bytes */
    int y_n, y_row, groups;
    float scale, shift;
} wk_gather_args_t;

/* The same for the weight gradient of a first linear layer, in the order of wk_transpose.
 * Grid (ceil(pixels / 16), samples), block (16). */
typedef struct {
    WK_DEVICE_POINTER(const unsigned char) images;
    WK_DEVICE_POINTER(const unsigned) order;
    WK_DEVICE_POINTER(float) y;
    int valid, image_stride, pixels, samples;
    float scale, shift;
} wk_gather_rows_args_t;

/* Convolution with stride 1, used forward and for the input gradient:
 *   y[o][r][q] = bias[o] + sum over c, i, j of
 *                w[o * w_o + c * w_c + i * w_i + j * w_j] * x[c][r + i][q + j]
 * where rows r + i outside [row_first, row_end) are left out. relu: negative results become 0.
 * mask: results become 0 where mask (of y's shape) is not positive.
 * X = ceil(width / TX), grid.y = rows, grid.z = ceil(outs / span): a thread goes through `span` (a
 * multiple of TO) outputs. Kernel wk_conv_<TO>x<TX>_k<K> for w_j = 1, with _back for w_j = -1; K = 0
 * takes kernel and w_j from the arguments. */
typedef struct {
    WK_DEVICE_POINTER(const float) x; /* row 0, column 0, which may lie in front of the buffer */
    WK_DEVICE_POINTER(const float) w;
    WK_DEVICE_POINTER(const float) bias; /* or 0 */
    WK_DEVICE_POINTER(const float) mask; /* or 0 */
    WK_DEVICE_POINTER(float) y;
    int x_n, x_c, x_row, y_n, y_c, y_row, mask_n, mask_c, mask_row;
    int w_o, w_c, w_i, w_j;
    int channels, kernel, row_first, row_end;
    int outs, span, width, relu, groups;
} wk_conv_args_t;

/* Weight and bias gradient of a convolution:
 *   dw[o][c][i][j] = sum over r, q and samples of dy[o][r][q] * x[c][r + i][q + j]
 *   db[o] = sum of dy[o]
 * One thread block (16, B) goes through all samples in `groups` rounds; the last row of the grid makes
 * db. wk_conv_dw_5 (5x5): grid (1, channels + 1, ceil(outs / 2)); wk_conv_dw_3 (3x3): grid (1,
 * channels + 1, ceil(outs / 4)); wk_conv_dw_any: grid (kernel * kernel, channels + 1, ceil(outs / 4)). */
typedef struct {
    WK_DEVICE_POINTER(const float) dy;
    WK_DEVICE_POINTER(const float) x;
    WK_DEVICE_POINTER(float) dw;
    WK_DEVICE_POINTER(float) db;
    int dy_n, dy_c, dy_row, x_n, x_c, x_row;
    int channels, outs, kernel, rows, width, groups;
} wk_conv_dw_args_t;

/* Max-pooling with window = stride = size; `which` gets the place of the maximum in the window
 * ([block][channel][row][column][lane] without borders). X = 1, grid.y = rows, grid.z = channels. */
typedef struct {
    WK_DEVICE_POINTER(const float) x;
    WK_DEVICE_POINTER(float) y;
    WK_DEVICE_POINTER(unsigned char) which;
    int x_n, x_c, x_row, y_n, y_c, y_row;
    int width, size, relu, groups;
} wk_pool_args_t;

/* dx = dy at the place of the maximum, 0 at the others. Gradients of samples whose maximum `y` was not
 * positive are 0 too if `mask` is set. Grid and block as forward. */
typedef struct {
    WK_DEVICE_POINTER(const float) dy;
    WK_DEVICE_POINTER(const float) y;
    WK_DEVICE_POINTER(const unsigned char) which;
    WK_DEVICE_POINTER(float) dx;
    int dy_n, dy_c, dy_row, y_n, y_c, y_row, dx_n, dx_c, dx_row;
    int width, size, mask, groups;
} wk_pool_dx_args_t;

/* y[a] = bias[a] + sum over b of w[a * w_stride + b] * x[b], relu and mask as above; a block of samples
 * has features without gaps. For the input gradient w are the turned weights. A thread works on T
 * outputs of N blocks of samples, the number of blocks is N * B * groups. X = ceil(outs / T), kernel
 * wk_linear_<T>x<N>. */
typedef struct {
    WK_DEVICE_POINTER(const float) x;
    WK_DEVICE_POINTER(const float) w;
    WK_DEVICE_POINTER(const float) bias;
    WK_DEVICE_POINTER(const float) mask;
    WK_DEVICE_POINTER(float) y;
    int outs, depth, w_stride, relu, groups;
} wk_linear_args_t;

/* Turns a matrix round: y[c * y_row + r] = x[r * columns + c]. Grid (ceil(columns / 16), ceil(rows /
 * 16)), block (16, 8). */
typedef struct {
    WK_DEVICE_POINTER(const float) x;
    WK_DEVICE_POINTER(float) y;
    int rows, columns, y_row;
} wk_turn_args_t;

/* Copies a tensor into one with other strides. X = width, grid.y = rows, grid.z = channels. */
typedef struct {
    WK_DEVICE_POINTER(const float) x;
    WK_DEVICE_POINTER(float) y;
    int x_n, x_c, x_row, y_n, y_c, y_row, groups;
} wk_copy_args_t;

/* Turns a linear layer's input round, for its weight gradient: y[f / 16][n][f % 16] = x[f] of sample n.
 * Features from `features` on are left alone. Grid (ceil(features / 16), blocks of samples), block
 * (16, 8). */
typedef struct {
    WK_DEVICE_POINTER(const float) x;
    WK_DEVICE_POINTER(float) y;
    int features, samples;
} wk_transpose_args_t;

/* Weight and bias gradient of a linear layer, from its turned input with a feature behind the last
 * that is 1: dw[o][i] = sum over n of dy[o] * x[i] of sample n, db[o] from that feature. dy must have
 * WK_SLACK rows of 16 readable floats behind its last. Grid (ceil((inputs + 1) / 32), ceil(outs / 6)),
 * block (16): a thread works on 6 outputs of two features. */
typedef struct {
    WK_DEVICE_POINTER(const float) dy;
    WK_DEVICE_POINTER(const float) xt;
    WK_DEVICE_POINTER(float) dw;
    WK_DEVICE_POINTER(float) db;
    int inputs, outs, blocks;
} wk_linear_dw_args_t;

/* Softmax and cross-entropy over `classes` logits: dz = (p - target) * scale, 0 for samples from
 * `valid` on; adds the sum of the losses and the number of right answers to total[0] and total[1].
 * One thread block (16, B), `groups` rounds. */
typedef struct {
    WK_DEVICE_POINTER(const float) z;
    WK_DEVICE_POINTER(const unsigned char) labels;
    WK_DEVICE_POINTER(const unsigned) order;
    WK_DEVICE_POINTER(float) dz;
    WK_DEVICE_POINTER(float) total;
    int classes, valid, groups;
    float scale; /* usually 1 / valid */
} wk_softmax_args_t;

/* SGD with momentum over `count` floats: v = momentum * v + g; w -= lr * v. Block (256). */
typedef struct {
    WK_DEVICE_POINTER(float) w;
    WK_DEVICE_POINTER(float) v;
    WK_DEVICE_POINTER(const float) g;
    int count;
    float lr, momentum;
} wk_sgd_args_t;

#endif

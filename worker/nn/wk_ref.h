/* wk_ref.h - plain C reference of every layer, forward and backward, and of a whole training step.
 *
 * Written to be obviously right, not fast: the kernels are compared with it. All arrays are fp32 in
 * the conventional order: activations [n][c][h][w], conv2d weights [out][in][ky][kx], linear weights
 * [out][in]. Gradients are written, not added. Pure functions, thread-safe. */
#ifndef WK_REF_H
#define WK_REF_H

#include <stdint.h>

#include "worker/nn/wk_model.h"

void wk_ref_conv2d_forward(const float *x, const float *w, const float *b, float *y, uint32_t n,
                           wk_shape_t in, wk_shape_t out, uint32_t kernel, uint32_t pad);

/* dx may be NULL. */
void wk_ref_conv2d_backward(const float *dy, const float *x, const float *w, float *dx, float *dw,
                            float *db, uint32_t n, wk_shape_t in, wk_shape_t out, uint32_t kernel,
                            uint32_t pad);

/* Window = stride = size; rows and columns that do not fill a window are left out. The gradient goes
 * to the first of equal maxima. */
void wk_ref_maxpool_forward(const float *x, float *y, uint32_t n, wk_shape_t in, wk_shape_t out,
                            uint32_t size);
void wk_ref_maxpool_backward(const float *dy, const float *x, float *dx, uint32_t n, wk_shape_t in,
                             wk_shape_t out, uint32_t size);

void wk_ref_relu_forward(const float *x, float *y, size_t count);
void wk_ref_relu_backward(const float *dy, const float *x, float *dx, size_t count);

void wk_ref_linear_forward(const float *x, const float *w, const float *b, float *y, uint32_t n,
                           uint32_t inputs, uint32_t outputs);
/* dx may be NULL. */
void wk_ref_linear_backward(const float *dy, const float *x, const float *w, float *dx, float *dw,
                            float *db, uint32_t n, uint32_t inputs, uint32_t outputs);

/* Mean loss over the batch, number of right answers (first maximum), gradient of the mean loss. */
void wk_ref_softmax_xent(const float *logits, const uint8_t *labels, float *dlogits, uint32_t n,
                         uint32_t classes, float *loss, uint32_t *right);

/* One forward and backward pass over x [n][input]: mean loss, right answers, gradients in the flat
 * layout of the model's parameters (gaps are 0). GB_ERR_NO_MEMORY. */
gb_status_t wk_ref_step(const wk_model_t *model, const float *params, const float *x,
                        const uint8_t *labels, uint32_t n, float *grads, float *loss,
                        uint32_t *right);

/* SGD with momentum: v = momentum * v + g, w = w - lr * v. */
void wk_ref_sgd(float *w, float *v, const float *g, size_t count, float lr, float momentum);

#endif

/* wk_net.h - a model on a device: its buffers, and a training step as a list of kernel launches.
 *
 * The lists are made once; a step only changes which samples the input gather reads. Parameters,
 * gradients and momenta are flat buffers in the layout of wk_model_t (tensors at multiples of 256
 * bytes). A wk_net_t belongs to one thread at a time, that of its device. */
#ifndef WK_NET_H
#define WK_NET_H

#include <stdint.h>

#include "worker/data/wk_dataset.h"
#include "worker/nn/wk_device.h"
#include "worker/nn/wk_model.h"

#define WK_MAX_BATCH 1024 /* samples of one step on one device */

/* A data set on the device. */
typedef struct {
    CUdeviceptr images; /* [count][stride] bytes */
    CUdeviceptr labels; /* [count] */
    CUdeviceptr order;  /* [count] u32: a permutation of the samples, or a part of one */
    uint32_t count, rows, cols, stride;
} wk_resident_t;

typedef struct wk_net wk_net_t;

/* Copies the samples to the device; the order is 0, 1, 2, ... GB_ERR_NO_MEMORY, GB_ERR_LOST. */
gb_status_t wk_resident_make(wk_device_t *device, const wk_samples_t *samples, wk_resident_t *out);
void wk_resident_free(wk_device_t *device, wk_resident_t *set);

/* Writes a new order of `count` (at most set->count) samples. */
gb_status_t wk_resident_order(wk_device_t *device, wk_resident_t *set, const uint32_t *order,
                              uint32_t count);

/* Makes buffers and launch lists for batches of up to `batch` samples of rows x cols pixels.
 * GB_ERR_INVALID: the data do not fit the model's input, or the batch is too large. */
gb_status_t wk_net_make(wk_device_t *device, const wk_model_t *model, uint32_t batch, uint32_t rows,
                        uint32_t cols, wk_net_t **out);
/* Changes the size of a batch; parameters, momenta and their addresses stay. After a failure only
 * wk_net_free is allowed. */
gb_status_t wk_net_resize(wk_net_t *net, uint32_t batch);

/* NULL is fine. */
void wk_net_free(wk_net_t *net);

/* Called after the launches that complete the gradients of tensors [first, first + count). */
typedef gb_status_t (*wk_net_ready_t)(void *context, uint32_t first, uint32_t count);

/* Enqueues one forward and backward pass over samples order[first .. first + valid): gradients of the
 * mean loss over `valid` samples, and loss and right answers into the running totals. Tensors become
 * ready last layer first; `ready` may be NULL. */
gb_status_t wk_net_step(wk_net_t *net, const wk_resident_t *set, uint32_t first, uint32_t valid,
                        wk_net_ready_t ready, void *context);

/* Enqueues a forward pass only; adds to the totals. */
gb_status_t wk_net_eval(wk_net_t *net, const wk_resident_t *set, uint32_t first, uint32_t valid);

/* Enqueues v = momentum * v + g, w = w - lr * v over all parameters. */
gb_status_t wk_net_update(wk_net_t *net, float lr, float momentum);

/* Reads and clears the totals since the last call: sum of losses, right answers. Waits. */
gb_status_t wk_net_totals(wk_net_t *net, double *loss_sum, double *right);

/* Copies between the device and flat host buffers of model->floats floats. Downloads wait. */
gb_status_t wk_net_set_params(wk_net_t *net, const float *flat);
gb_status_t wk_net_get_params(wk_net_t *net, float *flat);
gb_status_t wk_net_get_grads(wk_net_t *net, float *flat);

/* Device addresses of the flat buffers, for an exchange. */
CUdeviceptr wk_net_params(const wk_net_t *net);
CUdeviceptr wk_net_grads(const wk_net_t *net);

/* Samples that one step can take. */
uint32_t wk_net_batch(const wk_net_t *net);

/* Kernel launches of one step with update, for reports. */
uint32_t wk_net_launches(const wk_net_t *net);

#endif

/* wk_net_internal.h - inside of wk_net: groups of layers, their buffers, and the making of launches. */
#ifndef WK_NET_INTERNAL_H
#define WK_NET_INTERNAL_H

#include "worker/kernels/wk_kernels.h"
#include "worker/nn/wk_net.h"

/* A tensor on the device: [block][channel][row][column][lane] with strides in floats; columns are
 * WK_LANES apart. `base` is the first element inside the border. */
typedef struct {
    CUdeviceptr memory; /* the allocation; 0 for a view of another's */
    CUdeviceptr base;
    uint32_t n_stride, c_stride, row_stride;
} wk_view_t;

/* A layer with what is fused into it, in the order of execution. */
typedef struct {
    wk_layer_kind_t kind;
    wk_shape_t in, out;
    uint32_t kernel, pad;
    int relu;          /* a ReLU at its output */
    int positive;      /* the output has no negative values and its zeroes pass no gradient */
    int weight;        /* tensor index or -1 */
    wk_view_t x;       /* input, with a border of `pad` for a convolution */
    wk_view_t dx;      /* gradient of x, where one is needed */
    wk_view_t dy;      /* gradient of the output, as this layer reads it */
    CUdeviceptr which; /* max-pooling: places of the maxima */
    CUdeviceptr xt;    /* linear: turned input with a feature that is 1 */
    CUdeviceptr wt;    /* linear: turned weights, [inputs][wt_row], for the input gradient */
    uint32_t wt_row;
} wk_group_t;

#define WK_MAX_LAUNCHES (6 * WK_MAX_LAYERS)

/* A launch and, once it has run, the tensors whose gradients are complete. */
typedef struct {
    wk_launch_t launch;
    uint32_t ready_first, ready_count;
} wk_node_t;

struct wk_net {
    wk_device_t *device;
    const wk_model_t *model;
    uint32_t blocks; /* of WK_LANES samples */
    uint32_t height; /* B: blocks of samples of one thread block */
    uint32_t rounds; /* blocks / height */
    int wide;        /* few threads, each with much work: a CPU; else many with little */
    uint32_t rows, cols;
    uint32_t group_count; /* without the loss */
    wk_group_t groups[WK_MAX_LAYERS];
    CUdeviceptr params, grads, momenta, totals, logits_grad;
    wk_view_t logits;
    int gather_quads; /* images are gathered four pixels at a time */
    wk_launch_t gather, gather_rows, softmax, update;
    int has_gather_rows;
    uint32_t forward_count, backward_count;
    wk_node_t *forward, *backward; /* WK_MAX_LAUNCHES each */
};

/* Appends the launches of one group to the lists. */
gb_status_t wk_build_forward(wk_net_t *net, uint32_t group);
gb_status_t wk_build_backward(wk_net_t *net, uint32_t group);

/* Input of the first group, loss and update. */
gb_status_t wk_build_ends(wk_net_t *net);

/* Output of a group: the input of the next one, or the logits. */
const wk_view_t *wk_group_output(const wk_net_t *net, uint32_t group);

#endif

/* wk_net_build.c - makes the launches of a layer: picks the kernel's tile and fills its arguments. */
#include <math.h>
#include <stdio.h>

#include "worker/nn/wk_net_internal.h"

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* Address of the float `index` floats from `base`; index may be negative. */
static CUdeviceptr floats(CUdeviceptr base, int64_t index)
{
    return base + (CUdeviceptr)(index * 4);
}

static CUdeviceptr tensor(CUdeviceptr flat, const wk_net_t *net, int index)
{
    return floats(flat, (int64_t)net->model->tensors[index].offset);
}

static gb_status_t append(wk_net_t *net, wk_node_t *list, uint32_t *count, const char *kernel,
                          const unsigned grid[3], unsigned block_x, unsigned block_y,
                          const void *args, size_t size)
{
    if (*count == WK_MAX_LAUNCHES)
        return gb_fail(GB_ERR_LIMIT, "%s has too many layers: use a smaller model",
                       net->model->name);
    wk_node_t *node = &list[*count];
    *node = (wk_node_t){0};
    gb_status_t status =
        wk_launch_make(net->device, kernel, grid, block_x, block_y, args, size, &node->launch);
    if (status == GB_OK)
        (*count)++;
    return status;
}

static gb_status_t forward(wk_net_t *net, const char *kernel, const unsigned grid[3],
                           const void *args, size_t size)
{
    return append(net, net->forward, &net->forward_count, kernel, grid, WK_LANES, net->height, args,
                  size);
}

static gb_status_t backward_block(wk_net_t *net, const char *kernel, const unsigned grid[3],
                                  unsigned block_x, unsigned block_y, const void *args, size_t size)
{
    return append(net, net->backward, &net->backward_count, kernel, grid, block_x, block_y, args,
                  size);
}

static gb_status_t backward(wk_net_t *net, const char *kernel, const unsigned grid[3],
                            const void *args, size_t size)
{
    return backward_block(net, kernel, grid, WK_LANES, net->height, args, size);
}

/* ---- tiles ---- */

typedef struct {
    uint32_t outs, columns;
} tile_t;

/* The tile with the least work, overhanging parts included. An output costs as many loads as it shares
 * with its neighbours, so that small tiles count more. */
static tile_t choose_tile(const tile_t *tiles, size_t count, uint32_t outs, uint32_t columns)
{
    tile_t best = {1, 1};
    double best_work = INFINITY;
    for (size_t i = 0; i < count; i++) {
        tile_t t = tiles[i];
        if (t.columns > columns)
            continue;
        double area =
            (double)divide_up(outs, t.outs) * t.outs * divide_up(columns, t.columns) * t.columns;
        double work = area * (1.0 + 1.0 / t.outs + 1.0 / t.columns);
        if (work < best_work) {
            best = t;
            best_work = work;
        }
    }
    return best;
}

/* Name and tile of a convolution kernel; `back`: the weights run backwards. */
static tile_t conv_tile(uint32_t outs, uint32_t columns, uint32_t kernel, int back, char *name,
                        size_t size)
{
    static const tile_t tiles[] = {{1, 1}, {2, 4}, {2, 5}};
    int special = kernel == 3 || kernel == 5;
    tile_t tile = choose_tile(tiles, special ? 3 : 2, outs, columns);
    snprintf(name, size, "wk_conv_%ux%u_k%u%s", tile.outs, tile.columns, special ? kernel : 0,
             special && back ? "_back" : "");
    return tile;
}

/* Outputs that one thread goes through: all on a CPU, so that its input stays in the cache; one tile on
 * a GPU, which wants many threads. */
static uint32_t conv_span(const wk_net_t *net, uint32_t outs, uint32_t tile)
{
    return net->wide ? divide_up(outs, tile) * tile : tile;
}

/* Outputs and blocks of samples of one thread in a linear layer: twelve sums leave a processor with
 * sixteen registers what it needs beside them. */
static tile_t linear_tile(const wk_net_t *net, uint32_t outs)
{
    if (net->wide && net->blocks % 2 == 0 && outs >= 6)
        return (tile_t){6, 2};
    return outs >= 8 ? (tile_t){8, 1} : (tile_t){1, 1};
}

/* A thread block has B of the net's height where N blocks of samples a thread leave so many. */
static uint32_t linear_height(const wk_net_t *net, uint32_t each)
{
    uint32_t blocks = net->blocks / each, height = net->height;
    while (blocks % height != 0)
        height--;
    return height;
}

/* ---- convolution ---- */

static gb_status_t conv_forward(wk_net_t *net, wk_group_t *g, const wk_view_t *y)
{
    char kernel[48];
    tile_t tile = conv_tile(g->out.c, g->out.w, g->kernel, 0, kernel, sizeof(kernel));
    uint32_t taps = g->kernel * g->kernel, span = conv_span(net, g->out.c, tile.outs);
    wk_conv_args_t args = {
        .x = floats(g->x.base, -(int64_t)g->pad * (g->x.row_stride + WK_LANES)),
        .w = tensor(net->params, net, g->weight),
        .bias = tensor(net->params, net, g->weight + 1),
        .y = y->base,
        .x_n = (int)g->x.n_stride,
        .x_c = (int)g->x.c_stride,
        .x_row = (int)g->x.row_stride,
        .y_n = (int)y->n_stride,
        .y_c = (int)y->c_stride,
        .y_row = (int)y->row_stride,
        .w_o = (int)(g->in.c * taps),
        .w_c = (int)taps,
        .w_i = (int)g->kernel,
        .w_j = 1,
        .channels = (int)g->in.c,
        .kernel = (int)g->kernel,
        .row_end = (int)(g->in.h + 2 * g->pad),
        .outs = (int)g->out.c,
        .span = (int)span,
        .width = (int)g->out.w,
        .relu = g->relu,
        .groups = (int)net->rounds,
    };
    unsigned grid[3] = {divide_up(g->out.w, tile.columns) * net->rounds, g->out.h,
                        divide_up(g->out.c, span)};
    return forward(net, kernel, grid, &args, sizeof(args));
}

static gb_status_t conv_dw(wk_net_t *net, wk_group_t *g)
{
    const char *kernel = g->kernel == 5   ? "wk_conv_dw_5"
                         : g->kernel == 3 ? "wk_conv_dw_3"
                                          : "wk_conv_dw_any";
    uint32_t outs = g->kernel == 5 ? 2 : 4; /* filters a block */
    wk_conv_dw_args_t args = {
        .dy = g->dy.base,
        .x = floats(g->x.base, -(int64_t)g->pad * (g->x.row_stride + WK_LANES)),
        .dw = tensor(net->grads, net, g->weight),
        .db = tensor(net->grads, net, g->weight + 1),
        .dy_n = (int)g->dy.n_stride,
        .dy_c = (int)g->dy.c_stride,
        .dy_row = (int)g->dy.row_stride,
        .x_n = (int)g->x.n_stride,
        .x_c = (int)g->x.c_stride,
        .x_row = (int)g->x.row_stride,
        .channels = (int)g->in.c,
        .outs = (int)g->out.c,
        .kernel = (int)g->kernel,
        .rows = (int)g->out.h,
        .width = (int)g->out.w,
        .groups = (int)net->rounds,
    };
    unsigned parts = g->kernel == 5 || g->kernel == 3 ? 1 : g->kernel * g->kernel;
    unsigned grid[3] = {parts, g->in.c + 1, divide_up(g->out.c, outs)};
    return backward(net, kernel, grid, &args, sizeof(args));
}

/* The input gradient is a convolution of dy with the kernel turned round, channels and filters
 * exchanged; dy has a border of kernel - 1 - pad columns, rows are left out by their number. */
static gb_status_t conv_dx(wk_net_t *net, wk_group_t *g, int mask)
{
    char kernel[48];
    tile_t tile = conv_tile(g->in.c, g->in.w, g->kernel, 1, kernel, sizeof(kernel));
    uint32_t taps = g->kernel * g->kernel, border = g->kernel - 1 - g->pad;
    uint32_t span = conv_span(net, g->in.c, tile.outs);
    wk_conv_args_t args = {
        .x = floats(g->dy.base, -(int64_t)border * (g->dy.row_stride + WK_LANES)),
        .w = floats(tensor(net->params, net, g->weight), (int64_t)taps - 1),
        .mask = mask ? g->x.base : 0,
        .y = g->dx.base,
        .x_n = (int)g->dy.n_stride,
        .x_c = (int)g->dy.c_stride,
        .x_row = (int)g->dy.row_stride,
        .y_n = (int)g->dx.n_stride,
        .y_c = (int)g->dx.c_stride,
        .y_row = (int)g->dx.row_stride,
        .mask_n = (int)g->x.n_stride,
        .mask_c = (int)g->x.c_stride,
        .mask_row = (int)g->x.row_stride,
        .w_o = (int)taps,
        .w_c = (int)(g->in.c * taps),
        .w_i = -(int)g->kernel,
        .w_j = -1,
        .channels = (int)g->out.c,
        .kernel = (int)g->kernel,
        .row_first = (int)border,
        .row_end = (int)(border + g->out.h),
        .outs = (int)g->in.c,
        .span = (int)span,
        .width = (int)g->in.w,
        .groups = (int)net->rounds,
    };
    unsigned grid[3] = {divide_up(g->in.w, tile.columns) * net->rounds, g->in.h,
                        divide_up(g->in.c, span)};
    return backward(net, kernel, grid, &args, sizeof(args));
}

/* ---- max-pooling ---- */

static gb_status_t pool_forward(wk_net_t *net, wk_group_t *g, const wk_view_t *y)
{
    wk_pool_args_t args = {
        .x = g->x.base,
        .y = y->base,
        .which = g->which,
        .x_n = (int)g->x.n_stride,
        .x_c = (int)g->x.c_stride,
        .x_row = (int)g->x.row_stride,
        .y_n = (int)y->n_stride,
        .y_c = (int)y->c_stride,
        .y_row = (int)y->row_stride,
        .width = (int)g->out.w,
        .size = (int)g->kernel,
        .relu = g->relu,
        .groups = (int)net->rounds,
    };
    unsigned grid[3] = {net->rounds, g->out.h, g->out.c};
    return forward(net, g->kernel == 2 ? "wk_pool_2" : "wk_pool", grid, &args, sizeof(args));
}

static gb_status_t pool_dx(wk_net_t *net, wk_group_t *g, const wk_view_t *y)
{
    wk_pool_dx_args_t args = {
        .dy = g->dy.base,
        .y = y->base,
        .which = g->which,
        .dx = g->dx.base,
        .dy_n = (int)g->dy.n_stride,
        .dy_c = (int)g->dy.c_stride,
        .dy_row = (int)g->dy.row_stride,
        .y_n = (int)y->n_stride,
        .y_c = (int)y->c_stride,
        .y_row = (int)y->row_stride,
        .dx_n = (int)g->dx.n_stride,
        .dx_c = (int)g->dx.c_stride,
        .dx_row = (int)g->dx.row_stride,
        .width = (int)g->out.w,
        .size = (int)g->kernel,
        .mask = g->positive,
        .groups = (int)net->rounds,
    };
    unsigned grid[3] = {net->rounds, g->out.h, g->out.c};
    return backward(net, g->kernel == 2 ? "wk_pool_dx_2" : "wk_pool_dx", grid, &args, sizeof(args));
}

/* ---- linear ---- */

/* Launch of a linear layer's product, forward or for the input gradient. */
static gb_status_t linear_product(wk_net_t *net, wk_node_t *list, uint32_t *count,
                                  const wk_linear_args_t *product)
{
    wk_linear_args_t args = *product;
    tile_t tile = linear_tile(net, (uint32_t)args.outs);
    uint32_t height = linear_height(net, tile.columns);
    char kernel[48];
    snprintf(kernel, sizeof(kernel), "wk_linear_%ux%u", tile.outs, tile.columns);
    args.groups = (int)(net->blocks / tile.columns / height);
    unsigned grid[3] = {divide_up((uint32_t)args.outs, tile.outs) * (unsigned)args.groups, 1, 1};
    return append(net, list, count, kernel, grid, WK_LANES, height, &args, sizeof(args));
}

static gb_status_t linear_forward(wk_net_t *net, wk_group_t *g, const wk_view_t *y)
{
    uint32_t inputs = (uint32_t)wk_shape_count(g->in);
    wk_linear_args_t args = {
        .x = g->x.base,
        .w = tensor(net->params, net, g->weight),
        .bias = tensor(net->params, net, g->weight + 1),
        .y = y->base,
        .outs = (int)g->out.c,
        .depth = (int)inputs,
        .w_stride = (int)inputs,
        .relu = g->relu,
    };
    return linear_product(net, net->forward, &net->forward_count, &args);
}

static gb_status_t linear_transpose(wk_net_t *net, wk_group_t *g)
{
    uint32_t inputs = (uint32_t)wk_shape_count(g->in);
    wk_transpose_args_t args = {
        .x = g->x.base,
        .y = g->xt,
        .features = (int)inputs,
        .samples = (int)(net->blocks * WK_LANES),
    };
    unsigned grid[3] = {divide_up(inputs, WK_LANES), net->blocks, 1};
    return backward_block(net, "wk_transpose", grid, WK_LANES, 8, &args, sizeof(args));
}

static gb_status_t linear_dw(wk_net_t *net, wk_group_t *g)
{
    uint32_t inputs = (uint32_t)wk_shape_count(g->in);
    wk_linear_dw_args_t args = {
        .dy = g->dy.base,
        .xt = g->xt,
        .dw = tensor(net->grads, net, g->weight),
        .db = tensor(net->grads, net, g->weight + 1),
        .inputs = (int)inputs,
        .outs = (int)g->out.c,
        .blocks = (int)net->blocks,
    };
    unsigned grid[3] = {divide_up(inputs + 1, 2 * WK_LANES), divide_up(g->out.c, 6), 1};
    return backward_block(net, "wk_linear_dw", grid, WK_LANES, 1, &args, sizeof(args));
}

static gb_status_t linear_dx(wk_net_t *net, wk_group_t *g, int mask)
{
    uint32_t inputs = (uint32_t)wk_shape_count(g->in);
    wk_turn_args_t turn = {
        .x = tensor(net->params, net, g->weight),
        .y = g->wt,
        .rows = (int)g->out.c,
        .columns = (int)inputs,
        .y_row = (int)g->wt_row,
    };
    unsigned grid[3] = {divide_up(inputs, WK_LANES), divide_up(g->out.c, WK_LANES), 1};
    gb_status_t status = backward_block(net, "wk_turn", grid, WK_LANES, 8, &turn, sizeof(turn));
    if (status != GB_OK)
        return status;
    wk_linear_args_t args = {
        .x = g->dy.base,
        .w = g->wt,
        .mask = mask ? g->x.base : 0,
        .y = g->dx.base,
        .outs = (int)inputs,
        .depth = (int)g->out.c,
        .w_stride = (int)g->wt_row,
    };
    return linear_product(net, net->backward, &net->backward_count, &args);
}

/* Copies the next layer's dx into this layer's dy, where that needs a border. */
static gb_status_t copy_dy(wk_net_t *net, wk_group_t *g, const wk_view_t *from)
{
    wk_copy_args_t args = {
        .x = from->base,
        .y = g->dy.base,
        .x_n = (int)from->n_stride,
        .x_c = (int)from->c_stride,
        .x_row = (int)from->row_stride,
        .y_n = (int)g->dy.n_stride,
        .y_c = (int)g->dy.c_stride,
        .y_row = (int)g->dy.row_stride,
        .groups = (int)net->rounds,
    };
    unsigned grid[3] = {g->out.w * net->rounds, g->out.h, g->out.c};
    return backward(net, "wk_copy", grid, &args, sizeof(args));
}

/* ---- groups ---- */

gb_status_t wk_build_forward(wk_net_t *net, uint32_t group)
{
    wk_group_t *g = &net->groups[group];
    const wk_view_t *y = wk_group_output(net, group);
    switch (g->kind) {
    case WK_CONV2D:
        return conv_forward(net, g, y);
    case WK_MAXPOOL:
        return pool_forward(net, g, y);
    case WK_LINEAR:
        return linear_forward(net, g, y);
    case WK_RELU:
    case WK_SOFTMAX_XENT:
        break;
    }
    return gb_fail(GB_ERR_INTERNAL, "layer %s is no group: report this",
                   wk_layer_kind_name(g->kind));
}

/* Marks the tensors of a group as complete after the last launch in the list. */
static void mark_ready(wk_net_t *net, const wk_group_t *g)
{
    wk_node_t *node = &net->backward[net->backward_count - 1];
    node->ready_first = (uint32_t)g->weight;
    node->ready_count = 2;
}

gb_status_t wk_build_backward(wk_net_t *net, uint32_t group)
{
    wk_group_t *g = &net->groups[group];
    gb_status_t status = GB_OK;
    /* A pooling layer masks its own gradient, by its output; others get theirs masked. */
    int mask =
        group > 0 && net->groups[group - 1].kind != WK_MAXPOOL && net->groups[group - 1].relu;
    if (g->dy.memory)
        status = copy_dy(net, g, &net->groups[group + 1].dx);
    if (status != GB_OK)
        return status;
    switch (g->kind) {
    case WK_CONV2D:
        status = conv_dw(net, g);
        break;
    case WK_LINEAR:
        status = group > 0 ? linear_transpose(net, g) : GB_OK;
        if (status == GB_OK)
            status = linear_dw(net, g);
        break;
    default:
        break;
    }
    if (status != GB_OK)
        return status;
    if (g->weight >= 0)
        mark_ready(net, g);
    if (group == 0)
        return GB_OK;
    if (g->kind == WK_CONV2D)
        return conv_dx(net, g, mask);
    if (g->kind == WK_LINEAR)
        return linear_dx(net, g, mask);
    return pool_dx(net, g, wk_group_output(net, group));
}

static gb_status_t build_gather(wk_net_t *net)
{
    wk_group_t *g = &net->groups[0];
    const float scale = 1.0f / (255.0f * 0.3081f), shift = -0.1307f / 0.3081f;
    uint32_t stride = (net->rows * net->cols + 3) / 4 * 4;
    net->gather_quads = net->cols % 4 == 0;
    wk_gather_args_t args = {
        .y = g->x.base,
        .image_stride = (int)stride,
        .image_row = (int)net->cols,
        .y_n = (int)g->x.n_stride,
        .y_row = (int)g->x.row_stride,
        .groups = (int)net->rounds,
        .scale = scale,
        .shift = shift,
    };
    unsigned grid[3] = {(net->gather_quads ? net->cols / 4 : net->cols) * net->rounds, net->rows,
                        1};
    gb_status_t status =
        wk_launch_make(net->device, net->gather_quads ? "wk_gather" : "wk_gather_single", grid,
                       WK_LANES, net->height, &args, sizeof(args), &net->gather);
    if (status != GB_OK || g->kind != WK_LINEAR)
        return status;
    wk_gather_rows_args_t rows = {
        .y = g->xt,
        .image_stride = (int)stride,
        .pixels = (int)(net->rows * net->cols),
        .samples = (int)(net->blocks * WK_LANES),
        .scale = scale,
        .shift = shift,
    };
    unsigned rows_grid[3] = {divide_up(net->rows * net->cols, WK_LANES), net->blocks * WK_LANES, 1};
    net->has_gather_rows = 1;
    return wk_launch_make(net->device, "wk_gather_rows", rows_grid, WK_LANES, 1, &rows,
                          sizeof(rows), &net->gather_rows);
}

gb_status_t wk_build_ends(wk_net_t *net)
{
    gb_status_t status = build_gather(net);
    if (status != GB_OK)
        return status;
    wk_softmax_args_t softmax = {
        .z = net->logits.base,
        .dz = net->logits_grad,
        .total = net->totals,
        .classes = (int)net->model->classes,
        .groups = (int)net->rounds,
    };
    unsigned one[3] = {1, 1, 1};
    status = wk_launch_make(net->device, "wk_softmax", one, WK_LANES, net->height, &softmax,
                            sizeof(softmax), &net->softmax);
    if (status != GB_OK)
        return status;
    wk_sgd_args_t sgd = {
        .w = net->params, .v = net->momenta, .g = net->grads, .count = (int)net->model->floats};
    unsigned grid[3] = {divide_up((uint32_t)net->model->floats, 256), 1, 1};
    return wk_launch_make(net->device, "wk_sgd", grid, 256, 1, &sgd, sizeof(sgd), &net->update);
}

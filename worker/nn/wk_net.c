#include "worker/nn/wk_net.h"

#include <stdlib.h>
#include <string.h>

#include "worker/nn/wk_net_internal.h"

/* ---- data on the device ---- */

gb_status_t wk_resident_make(wk_device_t *d, const wk_samples_t *samples, wk_resident_t *out)
{
    wk_resident_t set = {.count = samples->count, .rows = samples->rows, .cols = samples->cols};
    uint32_t pixels = samples->rows * samples->cols;
    uint32_t *order = malloc(samples->count * sizeof(*order));
    gb_status_t status = GB_OK;
    set.stride = (pixels + 3) / 4 * 4;
    if (!order)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for %u samples: free some", samples->count);
    for (uint32_t i = 0; i < samples->count; i++)
        order[i] = i;
    status = wk_device_alloc(d, (size_t)set.count * set.stride, &set.images);
    if (status == GB_OK)
        status = wk_device_alloc(d, set.count, &set.labels);
    if (status == GB_OK)
        status = wk_device_alloc(d, (size_t)set.count * sizeof(uint32_t), &set.order);
    if (status == GB_OK)
        status = wk_device_upload(d, set.labels, samples->labels, set.count);
    if (status == GB_OK && set.stride == pixels)
        status = wk_device_upload(d, set.images, samples->images, (size_t)set.count * pixels);
    for (uint32_t i = 0; status == GB_OK && set.stride != pixels && i < set.count; i++)
        status = wk_device_upload(d, set.images + (CUdeviceptr)i * set.stride,
                                  samples->images + (size_t)i * pixels, pixels);
    if (status == GB_OK)
        status = wk_resident_order(d, &set, order, set.count);
    free(order);
    if (status == GB_OK)
        *out = set;
    else
        wk_resident_free(d, &set);
    return status;
}

void wk_resident_free(wk_device_t *d, wk_resident_t *set)
{
    wk_device_free(d, set->images);
    wk_device_free(d, set->labels);
    wk_device_free(d, set->order);
    memset(set, 0, sizeof(*set));
}

gb_status_t wk_resident_order(wk_device_t *d, wk_resident_t *set, const uint32_t *order,
                              uint32_t count)
{
    return wk_device_upload(d, set->order, order, count * sizeof(*order));
}

/* ---- planning ---- */

/* Joins layers into groups: a ReLU belongs to the layer before it. */
static void make_groups(wk_net_t *net)
{
    const wk_model_t *m = net->model;
    for (uint32_t i = 0; i < m->layer_count; i++) {
        const wk_layer_t *l = &m->layers[i];
        if (l->kind == WK_SOFTMAX_XENT)
            break;
        if (l->kind == WK_RELU) {
            net->groups[net->group_count - 1].relu = 1;
            net->groups[net->group_count - 1].positive = 1;
            continue;
        }
        wk_group_t *g = &net->groups[net->group_count++];
        *g = (wk_group_t){.kind = l->kind,
                          .in = l->in,
                          .out = l->out,
                          .kernel = l->kernel,
                          .pad = l->pad,
                          .weight = l->weight};
        if (l->kind == WK_MAXPOOL && net->group_count > 1)
            g->positive = g[-1].positive; /* the maximum of values that a ReLU has cut */
    }
}

/* A tensor with `rows` zero rows above and below and `columns` zero columns left and right. */
static gb_status_t alloc_view(wk_net_t *net, wk_shape_t shape, uint32_t rows, uint32_t columns,
                              wk_view_t *out)
{
    wk_view_t v = {0};
    uint64_t row = (uint64_t)(shape.w + 2 * columns) * WK_LANES;
    uint64_t channel = row * (shape.h + 2 * rows), block = channel * shape.c;
    if (block * net->blocks > INT32_MAX)
        return gb_fail(GB_ERR_INVALID,
                       "%s: a layer has more than 2^31 values for a batch of %u: use a smaller "
                       "--batch",
                       net->model->name, net->blocks * WK_LANES);
    v.row_stride = (uint32_t)row;
    v.c_stride = (uint32_t)channel;
    v.n_stride = (uint32_t)block;
    uint64_t slack = WK_SLACK * WK_LANES; /* what a tile of rows may read beyond the last */
    gb_status_t status = wk_device_alloc(net->device, (block * net->blocks + slack) * 4, &v.memory);
    if (status != GB_OK)
        return status;
    v.base = v.memory + (rows * row + (uint64_t)columns * WK_LANES) * 4;
    *out = v;
    return GB_OK;
}

/* Turned input of a linear layer, with a feature behind the last that is 1 for every sample. */
static gb_status_t alloc_turned(wk_net_t *net, wk_group_t *g)
{
    size_t inputs = wk_shape_count(g->in), samples = (size_t)net->blocks * WK_LANES;
    size_t chunks = inputs / WK_LANES + 1, bytes = chunks * samples * WK_LANES * sizeof(float);
    float *host = calloc(1, bytes);
    if (!host)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for a layer of %zu inputs: free some", inputs);
    for (size_t n = 0; n < samples; n++)
        host[((chunks - 1) * samples + n) * WK_LANES + inputs % WK_LANES] = 1.0f;
    gb_status_t status = wk_device_alloc(net->device, bytes, &g->xt);
    if (status == GB_OK)
        status = wk_device_upload(net->device, g->xt, host, bytes);
    free(host);
    return status;
}

/* Columns of zeroes that a group wants around its dy. */
static uint32_t dy_border(const wk_net_t *net, uint32_t group)
{
    const wk_group_t *g = &net->groups[group];
    return group > 0 && g->kind == WK_CONV2D ? g->kernel - 1 - g->pad : 0;
}

static gb_status_t alloc_group(wk_net_t *net, uint32_t index)
{
    wk_group_t *g = &net->groups[index];
    uint32_t pad = g->kind == WK_CONV2D ? g->pad : 0;
    gb_status_t status = alloc_view(net, g->in, pad, pad, &g->x);
    /* A linear layer writes its dx without a border. */
    uint32_t border = index > 0 && g->kind != WK_LINEAR ? dy_border(net, index - 1) : 0;
    if (status == GB_OK && index > 0)
        status = alloc_view(net, g->in, 0, border, &g->dx);
    if (status == GB_OK && g->kind == WK_LINEAR)
        status = alloc_turned(net, g);
    if (status == GB_OK && g->kind == WK_LINEAR && index > 0) {
        /* Rows that are no power of two apart do not compete for the same places in a cache. */
        g->wt_row = (g->out.c + 15) / 16 * 16 + 16;
        status =
            wk_device_alloc(net->device, wk_shape_count(g->in) * g->wt_row * sizeof(float), &g->wt);
    }
    if (status == GB_OK && g->kind == WK_MAXPOOL)
        status = wk_device_alloc(net->device, wk_shape_count(g->out) * net->blocks * WK_LANES,
                                 &g->which);
    return status;
}

static wk_view_t view_of(const wk_view_t *v)
{
    wk_view_t view = *v;
    view.memory = 0;
    return view;
}

/* Connects each group's dy with the dx of the next, or with a bordered copy of it. */
static gb_status_t connect_gradients(wk_net_t *net)
{
    for (uint32_t i = 0; i + 1 < net->group_count; i++) {
        wk_group_t *g = &net->groups[i];
        if (dy_border(net, i) > 0 && g[1].kind == WK_LINEAR) {
            gb_status_t status = alloc_view(net, g->out, 0, dy_border(net, i), &g->dy);
            if (status != GB_OK)
                return status;
        } else {
            g->dy = view_of(&g[1].dx);
        }
    }
    net->groups[net->group_count - 1].dy = (wk_view_t){.base = net->logits_grad,
                                                       .n_stride = net->model->classes * WK_LANES,
                                                       .c_stride = WK_LANES,
                                                       .row_stride = WK_LANES};
    return GB_OK;
}

/* What does not depend on the batch. */
static gb_status_t alloc_flat(wk_net_t *net)
{
    size_t flat = net->model->floats * sizeof(float);
    gb_status_t status = wk_device_alloc(net->device, flat, &net->params);
    if (status == GB_OK)
        status = wk_device_alloc(net->device, flat, &net->grads);
    if (status == GB_OK)
        status = wk_device_alloc(net->device, flat, &net->momenta);
    if (status == GB_OK)
        status = wk_device_alloc(net->device, 2 * sizeof(float), &net->totals);
    return status;
}

static gb_status_t alloc_batch(wk_net_t *net)
{
    wk_shape_t logits = {net->model->classes, 1, 1};
    gb_status_t status = alloc_view(net, logits, 0, 0, &net->logits);
    if (status == GB_OK)
        status =
            wk_device_alloc(net->device, ((size_t)logits.c * net->blocks + WK_SLACK) * WK_LANES * 4,
                            &net->logits_grad);
    for (uint32_t i = 0; status == GB_OK && i < net->group_count; i++)
        status = alloc_group(net, i);
    return status == GB_OK ? connect_gradients(net) : status;
}

static void free_batch(wk_net_t *net)
{
    wk_device_t *d = net->device;
    for (uint32_t i = 0; i < net->group_count; i++) {
        wk_group_t *g = &net->groups[i];
        wk_device_free(d, g->x.memory);
        wk_device_free(d, g->dx.memory);
        wk_device_free(d, g->dy.memory);
        wk_device_free(d, g->which);
        wk_device_free(d, g->xt);
        wk_device_free(d, g->wt);
    }
    wk_device_free(d, net->logits.memory);
    wk_device_free(d, net->logits_grad);
    net->logits = (wk_view_t){0};
    net->logits_grad = 0;
    net->group_count = net->forward_count = net->backward_count = 0;
}

static uint32_t blocks_of(uint32_t batch)
{
    return (batch + WK_LANES - 1) / WK_LANES;
}

static gb_status_t build(wk_net_t *net, uint32_t batch)
{
    net->blocks = blocks_of(batch);
    net->height = WK_HEIGHT;
    while (net->blocks % net->height != 0)
        net->height--;
    net->rounds = net->blocks / net->height;
    net->wide = strstr(net->device->name, "CPU") != NULL; /* the software device says so */
    make_groups(net);
    gb_status_t status = alloc_batch(net);
    for (uint32_t i = 0; status == GB_OK && i < net->group_count; i++)
        status = wk_build_forward(net, i);
    for (uint32_t i = net->group_count; status == GB_OK && i-- > 0;)
        status = wk_build_backward(net, i);
    return status == GB_OK ? wk_build_ends(net) : status;
}

const wk_view_t *wk_group_output(const wk_net_t *net, uint32_t group)
{
    return group + 1 < net->group_count ? &net->groups[group + 1].x : &net->logits;
}

static gb_status_t check_request(const wk_model_t *model, uint32_t batch, uint32_t rows,
                                 uint32_t cols)
{
    wk_shape_t in = model->layers[0].in;
    if (in.c != 1 || in.h != rows || in.w != cols)
        return gb_fail(GB_ERR_INVALID,
                       "%s wants images of %ux%u, the data have %ux%u: use another model or other "
                       "data",
                       model->name, in.h, in.w, rows, cols);
    if (batch < 1 || batch > WK_MAX_BATCH)
        return gb_fail(GB_ERR_INVALID, "a batch of %u for one GPU: use 1 to %d", batch,
                       WK_MAX_BATCH);
    return GB_OK;
}

gb_status_t wk_net_make(wk_device_t *device, const wk_model_t *model, uint32_t batch, uint32_t rows,
                        uint32_t cols, wk_net_t **out)
{
    gb_status_t status = check_request(model, batch, rows, cols);
    if (status != GB_OK)
        return status;
    wk_net_t *net = calloc(1, sizeof(*net));
    if (!net)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for the model: free some");
    net->device = device;
    net->model = model;
    net->rows = rows;
    net->cols = cols;
    net->forward = calloc(WK_MAX_LAUNCHES, sizeof(*net->forward));
    net->backward = calloc(WK_MAX_LAUNCHES, sizeof(*net->backward));
    if (net->forward && net->backward) {
        status = alloc_flat(net);
        if (status == GB_OK)
            status = build(net, batch);
    } else {
        status = gb_fail(GB_ERR_NO_MEMORY, "no memory for the model: free some");
    }
    if (status == GB_OK)
        *out = net;
    else
        wk_net_free(net);
    return status;
}

gb_status_t wk_net_resize(wk_net_t *net, uint32_t batch)
{
    gb_status_t status = check_request(net->model, batch, net->rows, net->cols);
    if (status != GB_OK || net->blocks == blocks_of(batch))
        return status;
    free_batch(net);
    return build(net, batch);
}

void wk_net_free(wk_net_t *net)
{
    if (!net)
        return;
    free_batch(net);
    wk_device_free(net->device, net->params);
    wk_device_free(net->device, net->grads);
    wk_device_free(net->device, net->momenta);
    wk_device_free(net->device, net->totals);
    free(net->forward);
    free(net->backward);
    free(net);
}

/* ---- running ---- */

/* Points the input and the loss at samples order[first .. first + valid). */
static void aim(wk_net_t *net, const wk_resident_t *set, uint32_t first, uint32_t valid)
{
    CUdeviceptr order = set->order + (CUdeviceptr)first * sizeof(uint32_t);
    wk_gather_args_t *gather = (void *)net->gather.args;
    wk_gather_rows_args_t *rows = (void *)net->gather_rows.args;
    wk_softmax_args_t *softmax = (void *)net->softmax.args;
    gather->images = rows->images = set->images;
    gather->order = rows->order = softmax->order = order;
    gather->valid = rows->valid = softmax->valid = (int)valid;
    softmax->labels = set->labels;
    softmax->scale = 1.0f / (float)valid;
}

static gb_status_t run_forward(wk_net_t *net)
{
    gb_status_t status = wk_launch_run(net->device, &net->gather);
    for (uint32_t i = 0; status == GB_OK && i < net->forward_count; i++)
        status = wk_launch_run(net->device, &net->forward[i].launch);
    return status == GB_OK ? wk_launch_run(net->device, &net->softmax) : status;
}

gb_status_t wk_net_step(wk_net_t *net, const wk_resident_t *set, uint32_t first, uint32_t valid,
                        wk_net_ready_t ready, void *context)
{
    aim(net, set, first, valid);
    gb_status_t status = run_forward(net);
    if (status == GB_OK && net->has_gather_rows)
        status = wk_launch_run(net->device, &net->gather_rows);
    for (uint32_t i = 0; status == GB_OK && i < net->backward_count; i++) {
        wk_node_t *node = &net->backward[i];
        status = wk_launch_run(net->device, &node->launch);
        if (status == GB_OK && ready && node->ready_count)
            status = ready(context, node->ready_first, node->ready_count);
    }
    return status;
}

gb_status_t wk_net_eval(wk_net_t *net, const wk_resident_t *set, uint32_t first, uint32_t valid)
{
    aim(net, set, first, valid);
    return run_forward(net);
}

gb_status_t wk_net_update(wk_net_t *net, float lr, float momentum)
{
    wk_sgd_args_t *args = (void *)net->update.args;
    args->lr = lr;
    args->momentum = momentum;
    return wk_launch_run(net->device, &net->update);
}

gb_status_t wk_net_totals(wk_net_t *net, double *loss_sum, double *right)
{
    float totals[2];
    gb_status_t status = wk_device_download(net->device, totals, net->totals, sizeof(totals));
    if (status != GB_OK)
        return status;
    status = wk_device_check(
        net->device, net->device->cu->cuMemsetD32Async(net->totals, 0, 2, net->device->stream),
        "clearing memory");
    if (status != GB_OK)
        return status;
    *loss_sum = totals[0];
    *right = totals[1];
    return GB_OK;
}

gb_status_t wk_net_set_params(wk_net_t *net, const float *flat)
{
    return wk_device_upload(net->device, net->params, flat, net->model->floats * sizeof(*flat));
}

gb_status_t wk_net_get_params(wk_net_t *net, float *flat)
{
    return wk_device_download(net->device, flat, net->params, net->model->floats * sizeof(*flat));
}

gb_status_t wk_net_get_grads(wk_net_t *net, float *flat)
{
    return wk_device_download(net->device, flat, net->grads, net->model->floats * sizeof(*flat));
}

CUdeviceptr wk_net_params(const wk_net_t *net)
{
    return net->params;
}

CUdeviceptr wk_net_grads(const wk_net_t *net)
{
    return net->grads;
}

uint32_t wk_net_batch(const wk_net_t *net)
{
    return net->blocks * WK_LANES;
}

uint32_t wk_net_launches(const wk_net_t *net)
{
    return 3 + (uint32_t)net->has_gather_rows + net->forward_count + net->backward_count;
}

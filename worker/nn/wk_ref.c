#include "worker/nn/wk_ref.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Index of an element in [n][c][h][w]. */
static size_t at(wk_shape_t s, uint32_t n, uint32_t c, uint32_t y, uint32_t x)
{
    return (((size_t)n * s.c + c) * s.h + y) * s.w + x;
}

/* One output element of a convolution, or with `dw` its share of the gradients. */
typedef struct {
    wk_shape_t in, out;
    uint32_t kernel, pad;
} conv_t;

/* Calls for each tap of output (y, x) that lies inside the input: *in_y, *in_x are its place. */
static int conv_tap(const conv_t *cv, uint32_t y, uint32_t x, uint32_t ky, uint32_t kx,
                    uint32_t *in_y, uint32_t *in_x)
{
    *in_y = y + ky - cv->pad; /* wraps below zero, which the comparison catches */
    *in_x = x + kx - cv->pad;
    return *in_y < cv->in.h && *in_x < cv->in.w;
}

static float conv_element(const conv_t *cv, const float *x, const float *w, uint32_t n, uint32_t o,
                          uint32_t oy, uint32_t ox)
{
    double sum = 0;
    uint32_t iy, ix;
    for (uint32_t c = 0; c < cv->in.c; c++)
        for (uint32_t ky = 0; ky < cv->kernel; ky++)
            for (uint32_t kx = 0; kx < cv->kernel; kx++)
                if (conv_tap(cv, oy, ox, ky, kx, &iy, &ix))
                    sum += (double)x[at(cv->in, n, c, iy, ix)] *
                           w[((o * cv->in.c + c) * cv->kernel + ky) * cv->kernel + kx];
    return (float)sum;
}

void wk_ref_conv2d_forward(const float *x, const float *w, const float *b, float *y, uint32_t n,
                           wk_shape_t in, wk_shape_t out, uint32_t kernel, uint32_t pad)
{
    conv_t cv = {in, out, kernel, pad};
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t o = 0; o < out.c; o++)
            for (uint32_t oy = 0; oy < out.h; oy++)
                for (uint32_t ox = 0; ox < out.w; ox++)
                    y[at(out, i, o, oy, ox)] = b[o] + conv_element(&cv, x, w, i, o, oy, ox);
}

void wk_ref_conv2d_backward(const float *dy, const float *x, const float *w, float *dx, float *dw,
                            float *db, uint32_t n, wk_shape_t in, wk_shape_t out, uint32_t kernel,
                            uint32_t pad)
{
    conv_t cv = {in, out, kernel, pad};
    uint32_t iy, ix;
    memset(dw, 0, (size_t)out.c * in.c * kernel * kernel * sizeof(*dw));
    memset(db, 0, out.c * sizeof(*db));
    if (dx)
        memset(dx, 0, n * wk_shape_count(in) * sizeof(*dx));
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t o = 0; o < out.c; o++)
            for (uint32_t oy = 0; oy < out.h; oy++)
                for (uint32_t ox = 0; ox < out.w; ox++) {
                    float g = dy[at(out, i, o, oy, ox)];
                    db[o] += g;
                    for (uint32_t c = 0; c < in.c; c++)
                        for (uint32_t ky = 0; ky < kernel; ky++)
                            for (uint32_t kx = 0; kx < kernel; kx++) {
                                size_t k = ((o * in.c + c) * kernel + ky) * kernel + kx;
                                if (!conv_tap(&cv, oy, ox, ky, kx, &iy, &ix))
                                    continue;
                                dw[k] += g * x[at(in, i, c, iy, ix)];
                                if (dx)
                                    dx[at(in, i, c, iy, ix)] += g * w[k];
                            }
                }
}

/* Place in x of the first maximum of a window. */
static size_t pool_argmax(const float *x, wk_shape_t in, uint32_t size, uint32_t n, uint32_t c,
                          uint32_t oy, uint32_t ox)
{
    size_t best = at(in, n, c, oy * size, ox * size);
    for (uint32_t i = 0; i < size; i++)
        for (uint32_t j = 0; j < size; j++) {
            size_t here = at(in, n, c, oy * size + i, ox * size + j);
            if (x[here] > x[best])
                best = here;
        }
    return best;
}

void wk_ref_maxpool_forward(const float *x, float *y, uint32_t n, wk_shape_t in, wk_shape_t out,
                            uint32_t size)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < out.c; c++)
            for (uint32_t oy = 0; oy < out.h; oy++)
                for (uint32_t ox = 0; ox < out.w; ox++)
                    y[at(out, i, c, oy, ox)] = x[pool_argmax(x, in, size, i, c, oy, ox)];
}

void wk_ref_maxpool_backward(const float *dy, const float *x, float *dx, uint32_t n, wk_shape_t in,
                             wk_shape_t out, uint32_t size)
{
    memset(dx, 0, n * wk_shape_count(in) * sizeof(*dx));
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < out.c; c++)
            for (uint32_t oy = 0; oy < out.h; oy++)
                for (uint32_t ox = 0; ox < out.w; ox++)
                    dx[pool_argmax(x, in, size, i, c, oy, ox)] += dy[at(out, i, c, oy, ox)];
}

void wk_ref_relu_forward(const float *x, float *y, size_t count)
{
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] > 0 ? x[i] : 0;
}

void wk_ref_relu_backward(const float *dy, const float *x, float *dx, size_t count)
{
    for (size_t i = 0; i < count; i++)
        dx[i] = x[i] > 0 ? dy[i] : 0;
}

void wk_ref_linear_forward(const float *x, const float *w, const float *b, float *y, uint32_t n,
                           uint32_t inputs, uint32_t outputs)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t o = 0; o < outputs; o++) {
            double sum = b[o];
            for (uint32_t k = 0; k < inputs; k++)
                sum += (double)w[(size_t)o * inputs + k] * x[(size_t)i * inputs + k];
            y[(size_t)i * outputs + o] = (float)sum;
        }
}

void wk_ref_linear_backward(const float *dy, const float *x, const float *w, float *dx, float *dw,
                            float *db, uint32_t n, uint32_t inputs, uint32_t outputs)
{
    memset(dw, 0, (size_t)inputs * outputs * sizeof(*dw));
    memset(db, 0, outputs * sizeof(*db));
    if (dx)
        memset(dx, 0, (size_t)n * inputs * sizeof(*dx));
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t o = 0; o < outputs; o++) {
            float g = dy[(size_t)i * outputs + o];
            db[o] += g;
            for (uint32_t k = 0; k < inputs; k++) {
                dw[(size_t)o * inputs + k] += g * x[(size_t)i * inputs + k];
                if (dx)
                    dx[(size_t)i * inputs + k] += g * w[(size_t)o * inputs + k];
            }
        }
}

void wk_ref_softmax_xent(const float *logits, const uint8_t *labels, float *dlogits, uint32_t n,
                         uint32_t classes, float *loss, uint32_t *right)
{
    double total = 0;
    uint32_t hits = 0;
    for (uint32_t i = 0; i < n; i++) {
        const float *z = logits + (size_t)i * classes;
        float *dz = dlogits + (size_t)i * classes;
        uint32_t best = 0;
        double sum = 0;
        for (uint32_t c = 1; c < classes; c++)
            best = z[c] > z[best] ? c : best;
        for (uint32_t c = 0; c < classes; c++)
            sum += exp((double)z[c] - z[best]);
        for (uint32_t c = 0; c < classes; c++)
            dz[c] = (float)((exp((double)z[c] - z[best]) / sum - (c == labels[i])) / n);
        total += log(sum) + z[best] - z[labels[i]];
        hits += best == labels[i];
    }
    *loss = (float)(total / n);
    *right = hits;
}

static void layer_forward(const wk_layer_t *l, const wk_model_t *m, const float *params,
                          const float *x, float *y, uint32_t n)
{
    const float *w = l->weight < 0 ? NULL : params + m->tensors[l->weight].offset;
    const float *b = l->weight < 0 ? NULL : params + m->tensors[l->weight + 1].offset;
    switch (l->kind) {
    case WK_CONV2D:
        wk_ref_conv2d_forward(x, w, b, y, n, l->in, l->out, l->kernel, l->pad);
        break;
    case WK_MAXPOOL:
        wk_ref_maxpool_forward(x, y, n, l->in, l->out, l->kernel);
        break;
    case WK_RELU:
        wk_ref_relu_forward(x, y, n * wk_shape_count(l->in));
        break;
    case WK_LINEAR:
        wk_ref_linear_forward(x, w, b, y, n, (uint32_t)wk_shape_count(l->in), l->out.c);
        break;
    case WK_SOFTMAX_XENT:
        break;
    }
}

static void layer_backward(const wk_layer_t *l, const wk_model_t *m, const float *params,
                           const float *dy, const float *x, float *dx, float *grads, uint32_t n)
{
    const float *w = l->weight < 0 ? NULL : params + m->tensors[l->weight].offset;
    float *dw = l->weight < 0 ? NULL : grads + m->tensors[l->weight].offset;
    float *db = l->weight < 0 ? NULL : grads + m->tensors[l->weight + 1].offset;
    switch (l->kind) {
    case WK_CONV2D:
        wk_ref_conv2d_backward(dy, x, w, dx, dw, db, n, l->in, l->out, l->kernel, l->pad);
        break;
    case WK_MAXPOOL:
        wk_ref_maxpool_backward(dy, x, dx, n, l->in, l->out, l->kernel);
        break;
    case WK_RELU:
        wk_ref_relu_backward(dy, x, dx, n * wk_shape_count(l->in));
        break;
    case WK_LINEAR:
        wk_ref_linear_backward(dy, x, w, dx, dw, db, n, (uint32_t)wk_shape_count(l->in), l->out.c);
        break;
    case WK_SOFTMAX_XENT:
        break;
    }
}

gb_status_t wk_ref_step(const wk_model_t *model, const float *params, const float *x,
                        const uint8_t *labels, uint32_t n, float *grads, float *loss,
                        uint32_t *right)
{
    uint32_t last = model->layer_count - 1; /* the loss */
    size_t widest = wk_shape_count(model->layers[0].in), total = 0;
    for (uint32_t i = 0; i < last; i++) {
        size_t out = wk_shape_count(model->layers[i].out);
        widest = out > widest ? out : widest;
        total += out;
    }
    float *values = calloc(n * total, sizeof(*values));
    float *slopes = calloc(2 * n * widest, sizeof(*slopes));
    if (!values || !slopes) {
        free(values);
        free(slopes);
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for a reference step: use a smaller batch");
    }
    const float *inputs[WK_MAX_LAYERS + 1] = {x};
    float *next = values;
    for (uint32_t i = 0; i < last; i++) {
        layer_forward(&model->layers[i], model, params, inputs[i], next, n);
        inputs[i + 1] = next;
        next += n * wk_shape_count(model->layers[i].out);
    }
    float *dy = slopes, *dx = slopes + n * widest;
    memset(grads, 0, model->floats * sizeof(*grads));
    wk_ref_softmax_xent(inputs[last], labels, dy, n, model->classes, loss, right);
    for (uint32_t i = last; i-- > 0;) {
        if (i == 0 && model->layers[i].weight < 0)
            break; /* nobody wants the gradient of the data */
        layer_backward(&model->layers[i], model, params, dy, inputs[i], i ? dx : NULL, grads, n);
        float *swap = dy;
        dy = dx;
        dx = swap;
    }
    free(values);
    free(slopes);
    return GB_OK;
}

void wk_ref_sgd(float *w, float *v, const float *g, size_t count, float lr, float momentum)
{
    for (size_t i = 0; i < count; i++) {
        v[i] = momentum * v[i] + g[i];
        w[i] -= lr * v[i];
    }
}

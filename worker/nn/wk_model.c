#include "worker/nn/wk_model.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/nn/wk_rng.h"

#define MAX_DIMENSION 65536
#define MAX_PARAMETERS ((size_t)1 << 30)

extern const char wk_model_lenet5_json[], wk_model_lenet5_json_end[];
extern const char wk_model_mlp_json[], wk_model_mlp_json_end[];

static const char *const kind_names[] = {
    [WK_CONV2D] = "conv2d",
    [WK_MAXPOOL] = "maxpool",
    [WK_RELU] = "relu",
    [WK_LINEAR] = "linear",
    [WK_SOFTMAX_XENT] = "softmax_cross_entropy",
};
#define KIND_COUNT (sizeof(kind_names) / sizeof(kind_names[0]))

const char *wk_layer_kind_name(wk_layer_kind_t kind)
{
    return kind_names[kind];
}

/* ---- building: what the parser calls for each layer ---- */

typedef struct {
    wk_model_t *model;
    const char *origin;
    uint32_t index; /* of the layer at hand */
    wk_shape_t shape;
    uint32_t convs, linears;
} builder_t;

static gb_status_t add_tensor(builder_t *b, const char *layer, uint32_t number, const char *part,
                              uint32_t rank, const uint32_t *shape, uint32_t fan_in)
{
    wk_model_t *m = b->model;
    wk_tensor_t *t = &m->tensors[m->tensor_count];
    size_t count = 1;
    snprintf(t->name, sizeof(t->name), "%s%u.%s", layer, number, part);
    t->rank = rank;
    for (uint32_t i = 0; i < rank; i++) {
        t->shape[i] = shape[i];
        if (count > MAX_PARAMETERS / shape[i])
            return gb_fail(GB_ERR_INVALID,
                           "%s: layer %u has more than 2^30 weights: make it smaller", b->origin,
                           b->index);
        count *= shape[i];
    }
    t->count = count;
    t->fan_in = fan_in;
    t->offset = m->floats;
    m->floats += (count + WK_TENSOR_ALIGN - 1) / WK_TENSOR_ALIGN * WK_TENSOR_ALIGN;
    m->parameters += count;
    if (m->parameters > MAX_PARAMETERS)
        return gb_fail(GB_ERR_INVALID, "%s: the model has more than 2^30 weights: make it smaller",
                       b->origin);
    m->tensor_count++;
    return GB_OK;
}

static gb_status_t add_conv2d(builder_t *b, wk_layer_t *l, uint32_t filters)
{
    wk_shape_t in = l->in;
    if (l->kernel > in.h + 2 * l->pad || l->kernel > in.w + 2 * l->pad || l->pad >= l->kernel)
        return gb_fail(GB_ERR_INVALID,
                       "%s: layer %u: a %ux%u kernel with pad %u does not fit an input of %ux%u: "
                       "change kernel or pad",
                       b->origin, b->index, l->kernel, l->kernel, l->pad, in.h, in.w);
    l->out =
        (wk_shape_t){filters, in.h + 2 * l->pad - l->kernel + 1, in.w + 2 * l->pad - l->kernel + 1};
    l->weight = (int)b->model->tensor_count;
    uint32_t number = ++b->convs, fan_in = in.c * l->kernel * l->kernel;
    uint32_t shape[4] = {filters, in.c, l->kernel, l->kernel};
    gb_status_t status = add_tensor(b, "conv", number, "weight", 4, shape, fan_in);
    return status == GB_OK ? add_tensor(b, "conv", number, "bias", 1, shape, fan_in) : status;
}

static gb_status_t add_linear(builder_t *b, wk_layer_t *l, uint32_t units)
{
    size_t inputs = wk_shape_count(l->in);
    if (inputs > MAX_PARAMETERS)
        return gb_fail(GB_ERR_INVALID, "%s: layer %u has more than 2^30 inputs: make it smaller",
                       b->origin, b->index);
    l->out = (wk_shape_t){units, 1, 1};
    l->weight = (int)b->model->tensor_count;
    uint32_t number = ++b->linears, shape[2] = {units, (uint32_t)inputs};
    gb_status_t status = add_tensor(b, "fc", number, "weight", 2, shape, (uint32_t)inputs);
    return status == GB_OK ? add_tensor(b, "fc", number, "bias", 1, shape, (uint32_t)inputs)
                           : status;
}

static gb_status_t add_maxpool(builder_t *b, wk_layer_t *l)
{
    if (l->kernel > l->in.h || l->kernel > l->in.w || l->kernel > 15)
        return gb_fail(
            GB_ERR_INVALID,
            "%s: layer %u: a pooling window of %ux%u does not fit an input of %ux%u (and "
            "at most 15x15): change size",
            b->origin, b->index, l->kernel, l->kernel, l->in.h, l->in.w);
    l->out = (wk_shape_t){l->in.c, l->in.h / l->kernel, l->in.w / l->kernel};
    return GB_OK;
}

/* A ReLU runs inside the layer before it, so there must be one that can take it in. */
static gb_status_t add_relu(builder_t *b)
{
    wk_layer_kind_t before = b->index ? b->model->layers[b->index - 1].kind : WK_RELU;
    if (before == WK_CONV2D || before == WK_LINEAR || before == WK_MAXPOOL)
        return GB_OK;
    return gb_fail(GB_ERR_INVALID,
                   "%s: layer %u: relu must follow conv2d, maxpool or linear: move or remove it",
                   b->origin, b->index);
}

static gb_status_t add_softmax(builder_t *b)
{
    if (b->index == 0 || b->model->layers[b->index - 1].kind != WK_LINEAR)
        return gb_fail(
            GB_ERR_INVALID,
            "%s: layer %u: softmax_cross_entropy must follow a linear layer: add one with "
            "a unit for each class",
            b->origin, b->index);
    if (b->shape.c > 256)
        return gb_fail(GB_ERR_INVALID, "%s: %u classes, labels are bytes: use at most 256 units",
                       b->origin, b->shape.c);
    b->model->classes = b->shape.c;
    return GB_OK;
}

/* ---- JSON ---- */

static gb_status_t get_size(builder_t *b, json_t *object, const char *key, int64_t fallback,
                            uint32_t *out)
{
    json_t *value = json_object_get(object, key);
    if (!value && fallback >= 0) {
        *out = (uint32_t)fallback;
        return GB_OK;
    }
    json_int_t n = json_is_integer(value) ? json_integer_value(value) : -1;
    if (n < (fallback == 0 ? 0 : 1) || n > MAX_DIMENSION)
        return gb_fail(GB_ERR_INVALID, "%s: layer %u needs \"%s\" as a whole number from %d to %d",
                       b->origin, b->index, key, fallback == 0 ? 0 : 1, MAX_DIMENSION);
    *out = (uint32_t)n;
    return GB_OK;
}

/* "a, b and c", cut where `text` ends. */
static const char *join_keys(const char *const *keys, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; keys[i] && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i == 0        ? ""
                                 : keys[i + 1] ? ", "
                                               : " and ",
                                 keys[i]);
    return text;
}

static gb_status_t check_keys(builder_t *b, json_t *object, const char *kind,
                              const char *const *known)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0)
            i++;
        char text[80];
        if (!known[i])
            return gb_fail(GB_ERR_INVALID,
                           "%s: layer %u (%s) has an unknown key '%s': known are %s", b->origin,
                           b->index, kind, key, join_keys(known, text, sizeof(text)));
    }
    return GB_OK;
}

static gb_status_t find_kind(builder_t *b, json_t *object, wk_layer_kind_t *out)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    if (!type)
        return gb_fail(GB_ERR_INVALID, "%s: layer %u has no \"type\": add one", b->origin,
                       b->index);
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (strcmp(type, kind_names[i]) == 0) {
            *out = (wk_layer_kind_t)i;
            return GB_OK;
        }
    }
    return gb_fail(GB_ERR_INVALID,
                   "unknown layer '%s' in %s: known are conv2d, maxpool, relu, linear and "
                   "softmax_cross_entropy",
                   type, b->origin);
}

static gb_status_t parse_layer(builder_t *b, json_t *object)
{
    static const char *const keys[KIND_COUNT][5] = {
        [WK_CONV2D] = {"type", "filters", "kernel", "pad", NULL},
        [WK_MAXPOOL] = {"type", "size", NULL},
        [WK_RELU] = {"type", NULL},
        [WK_LINEAR] = {"type", "units", NULL},
        [WK_SOFTMAX_XENT] = {"type", NULL},
    };
    wk_layer_t *l = &b->model->layers[b->index];
    uint32_t width = 0;
    gb_status_t status = find_kind(b, object, &l->kind);
    if (status == GB_OK)
        status = check_keys(b, object, kind_names[l->kind], keys[l->kind]);
    if (status != GB_OK)
        return status;
    l->in = l->out = b->shape;
    l->weight = -1;
    switch (l->kind) {
    case WK_CONV2D:
        status = get_size(b, object, "filters", -1, &width);
        if (status == GB_OK)
            status = get_size(b, object, "kernel", -1, &l->kernel);
        if (status == GB_OK)
            status = get_size(b, object, "pad", 0, &l->pad);
        return status == GB_OK ? add_conv2d(b, l, width) : status;
    case WK_MAXPOOL:
        status = get_size(b, object, "size", -1, &l->kernel);
        return status == GB_OK ? add_maxpool(b, l) : status;
    case WK_LINEAR:
        status = get_size(b, object, "units", -1, &width);
        return status == GB_OK ? add_linear(b, l, width) : status;
    case WK_RELU:
        return add_relu(b);
    case WK_SOFTMAX_XENT:
        return add_softmax(b);
    }
    return gb_fail(GB_ERR_INTERNAL, "%s: layer %u has no kind: report this", b->origin, b->index);
}

static gb_status_t parse_input(builder_t *b, json_t *root)
{
    json_t *input = json_object_get(root, "input");
    uint32_t dims[3];
    for (size_t i = 0; i < 3; i++) {
        json_t *value = json_array_get(input, i);
        json_int_t n = json_is_integer(value) ? json_integer_value(value) : 0;
        if (json_array_size(input) != 3 || n < 1 || n > MAX_DIMENSION)
            return gb_fail(GB_ERR_INVALID,
                           "%s: \"input\" must be [channels, rows, columns], e.g. [1, 28, 28]",
                           b->origin);
        dims[i] = (uint32_t)n;
    }
    if (dims[0] != 1)
        return gb_fail(GB_ERR_INVALID, "%s: %u input channels, the data have 1: say [1, %u, %u]",
                       b->origin, dims[0], dims[1], dims[2]);
    b->shape = (wk_shape_t){dims[0], dims[1], dims[2]};
    return GB_OK;
}

static gb_status_t parse_root(builder_t *b, json_t *root)
{
    wk_model_t *m = b->model;
    const char *name = json_string_value(json_object_get(root, "name"));
    json_t *layers = json_object_get(root, "layers");
    size_t count = json_array_size(layers);
    if (!name || !*name || strlen(name) >= sizeof(m->name))
        return gb_fail(GB_ERR_INVALID, "%s: \"name\" must be a text of 1 to %zu letters", b->origin,
                       sizeof(m->name) - 1);
    strcpy(m->name, name);
    gb_status_t status = parse_input(b, root);
    if (status != GB_OK)
        return status;
    if (count < 2 || count > WK_MAX_LAYERS)
        return gb_fail(GB_ERR_INVALID, "%s: \"layers\" must be a list of 2 to %d layers", b->origin,
                       WK_MAX_LAYERS);
    for (size_t i = 0; i < count; i++) {
        b->index = (uint32_t)i;
        if (m->classes)
            return gb_fail(GB_ERR_INVALID,
                           "%s: layer %zu comes after softmax_cross_entropy: that "
                           "must be the last",
                           b->origin, i);
        status = parse_layer(b, json_array_get(layers, i));
        if (status != GB_OK)
            return status;
        b->shape = m->layers[i].out;
        m->layer_count++;
    }
    if (!m->classes)
        return gb_fail(GB_ERR_INVALID, "%s: the last layer must be softmax_cross_entropy: add it",
                       b->origin);
    return GB_OK;
}

gb_status_t wk_model_parse(const char *text, size_t size, const char *origin, wk_model_t *out)
{
    json_error_t error;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return gb_fail(GB_ERR_FORMAT, "%s: line %d is no JSON (%s): correct it", origin, error.line,
                       error.text);
    wk_model_t *model = calloc(1, sizeof(*model));
    gb_status_t status;
    if (model) {
        builder_t builder = {.model = model, .origin = origin};
        status = parse_root(&builder, root);
    } else {
        status = gb_fail(GB_ERR_NO_MEMORY, "%s: no memory for the model: free some", origin);
    }
    json_decref(root);
    if (status == GB_OK)
        *out = *model;
    free(model);
    return status;
}

static gb_status_t load_file(const char *path, wk_model_t *out)
{
    static const size_t limit = 1 << 20;
    FILE *file = fopen(path, "rb");
    if (!file)
        return gb_fail_errno(GB_ERR_NOT_FOUND, errno,
                             "%s: no built-in model (lenet5, mlp) and no readable file", path);
    char *text = malloc(limit);
    size_t size = text ? fread(text, 1, limit, file) : 0;
    gb_status_t status;
    if (!text)
        status = gb_fail(GB_ERR_NO_MEMORY, "%s: no memory for the model: free some", path);
    else if (ferror(file))
        status = gb_fail_errno(GB_ERR_IO, errno, "%s: cannot be read: name a model file", path);
    else if (size == limit)
        status = gb_fail(GB_ERR_FORMAT, "%s: more than 1 MiB: name a model file", path);
    else
        status = wk_model_parse(text, size, path, out);
    free(text);
    fclose(file);
    return status;
}

gb_status_t wk_model_load(const char *name_or_path, wk_model_t *out)
{
    if (strcmp(name_or_path, "lenet5") == 0)
        return wk_model_parse(wk_model_lenet5_json,
                              (size_t)(wk_model_lenet5_json_end - wk_model_lenet5_json), "lenet5",
                              out);
    if (strcmp(name_or_path, "mlp") == 0)
        return wk_model_parse(wk_model_mlp_json,
                              (size_t)(wk_model_mlp_json_end - wk_model_mlp_json), "mlp", out);
    return load_file(name_or_path, out);
}

void wk_model_init(const wk_model_t *model, uint64_t seed, float *flat)
{
    memset(flat, 0, model->floats * sizeof(*flat));
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const wk_tensor_t *tensor = &model->tensors[t];
        float limit = 1.0f / sqrtf((float)tensor->fan_in);
        for (size_t i = 0; i < tensor->count; i++)
            flat[tensor->offset + i] = wk_rng_uniform(seed, WK_RNG_INIT + t, i, limit);
    }
}

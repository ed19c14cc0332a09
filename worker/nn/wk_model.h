/* wk_model.h - description of a model: layers, sizes, and the tensors of its parameters.
 *
 * A model file is JSON:
 *   { "name": "lenet5", "input": [1, 28, 28],
 *     "layers": [ { "type": "conv2d", "filters": 6, "kernel": 5, "pad": 2 }, { "type": "relu" },
 *                 { "type": "maxpool", "size": 2 }, { "type": "linear", "units": 10 },
 *                 { "type": "softmax_cross_entropy" } ] }
 * Sizes follow from the input; they are checked here, so that everything behind may rely on them. */
#ifndef WK_MODEL_H
#define WK_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"

#define WK_MAX_LAYERS 64
#define WK_MAX_TENSORS (2 * WK_MAX_LAYERS)
#define WK_TENSOR_ALIGN 64 /* floats between the starts of tensors are a multiple of this */

typedef enum { WK_CONV2D, WK_MAXPOOL, WK_RELU, WK_LINEAR, WK_SOFTMAX_XENT } wk_layer_kind_t;

/* Channels, rows, columns. After a linear layer rows and columns are 1. */
typedef struct {
    uint32_t c, h, w;
} wk_shape_t;

typedef struct {
    wk_layer_kind_t kind;
    wk_shape_t in, out;
    uint32_t kernel; /* conv2d: square kernel; maxpool: window and stride */
    uint32_t pad;    /* conv2d: zero rows and columns around the input */
    int weight;      /* index of the weight tensor, the bias is the next; -1 if there is none */
} wk_layer_t;

/* A parameter tensor; fp32, row-major. Weights: conv2d [out][in][ky][kx], linear [out][in]. */
typedef struct {
    char name[48]; /* "conv1.weight" */
    uint32_t rank;
    uint32_t shape[4];
    size_t count;  /* elements */
    size_t offset; /* of the first element in the flat parameter buffer, in floats */
    uint32_t fan_in;
} wk_tensor_t;

typedef struct {
    char name[48];
    uint32_t layer_count, tensor_count;
    wk_layer_t layers[WK_MAX_LAYERS];
    wk_tensor_t tensors[WK_MAX_TENSORS];
    size_t parameters; /* elements of all tensors */
    size_t floats;     /* size of the flat buffer: tensors with their gaps */
    uint32_t classes;
} wk_model_t;

/* Loads a built-in model by name ("lenet5", "mlp") or a JSON file by path. Errors name the file, the
 * layer and the remedy: GB_ERR_NOT_FOUND, GB_ERR_FORMAT (JSON), GB_ERR_INVALID (unknown layer, sizes
 * that do not fit). */
gb_status_t wk_model_load(const char *name_or_path, wk_model_t *out);

/* Parses JSON text; `origin` names it in messages. */
gb_status_t wk_model_parse(const char *text, size_t size, const char *origin, wk_model_t *out);

/* Fills `flat` (model->floats floats) with initial weights: uniform in +-1/sqrt(fan in); gaps are 0. */
void wk_model_init(const wk_model_t *model, uint64_t seed, float *flat);

/* Elements of a shape. */
static inline size_t wk_shape_count(wk_shape_t shape)
{
    return (size_t)shape.c * shape.h * shape.w;
}

const char *wk_layer_kind_name(wk_layer_kind_t kind);

#endif

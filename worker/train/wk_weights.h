/* wk_weights.h - a model's weights as a safetensors file. */
#ifndef WK_WEIGHTS_H
#define WK_WEIGHTS_H

#include "common/core/gb_status.h"
#include "worker/nn/wk_model.h"

/* Writes every tensor of the flat buffer under its name and shape; atomically. GB_ERR_IO. */
gb_status_t wk_weights_save(const char *path, const wk_model_t *model, const float *flat);

/* Can a file be written at that path? Asked before the training, not after it. GB_ERR_INVALID. */
gb_status_t wk_weights_check(const char *path);

#endif

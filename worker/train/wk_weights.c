#include "worker/train/wk_weights.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/tensor/gb_safetensors.h"

gb_status_t wk_weights_save(const char *path, const wk_model_t *model, const float *flat)
{
    gb_st_tensor_t tensors[WK_MAX_TENSORS];
    gb_st_meta_t meta[] = {{"format", "pt"}, {"model", model->name}};
    gb_st_writer_t *writer;
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const wk_tensor_t *from = &model->tensors[t];
        tensors[t] = (gb_st_tensor_t){.name = from->name, .dtype = GB_ST_F32, .dims = from->rank};
        for (uint32_t i = 0; i < from->rank; i++)
            tensors[t].shape[i] = from->shape[i];
    }
    gb_status_t status = gb_st_writer_open(path, tensors, model->tensor_count, meta, 2, &writer);
    if (status != GB_OK)
        return status;
    for (uint32_t t = 0; status == GB_OK && t < model->tensor_count; t++)
        status = gb_st_write(writer, flat + model->tensors[t].offset,
                             model->tensors[t].count * sizeof(*flat));
    if (status != GB_OK) {
        gb_st_writer_abort(writer);
        return status;
    }
    return gb_st_writer_commit(writer);
}

gb_status_t wk_weights_check(const char *path)
{
    char folder[4096];
    struct stat info;
    const char *slash = strrchr(path, '/');
    int size = slash ? (int)(slash - path) + 1 : 2;
    if (!*path || size >= (int)sizeof(folder))
        return gb_fail(GB_ERR_INVALID, "--out '%.80s' is no name for a file", path);
    snprintf(folder, sizeof(folder), "%.*s", size, slash ? path : "./");
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return gb_fail(GB_ERR_INVALID, "--out %s is a folder: name a file in it", path);
    if (access(folder, W_OK | X_OK) != 0)
        return gb_fail(GB_ERR_INVALID,
                       "--out %s: cannot write to the folder %s (%s): make it or "
                       "choose another",
                       path, folder, strerror(errno));
    return GB_OK;
}

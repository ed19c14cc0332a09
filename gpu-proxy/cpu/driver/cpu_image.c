#include "gpu-proxy/cpu/driver/cpu_image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "gpu-proxy/cpu/driver/cpu_link.h"
#include "gpu-proxy/cpu/driver/cpu_sha.h"
#include "gpu-proxy/cpu/jit/jit.h"
#include "gpu-proxy/cpu/ptx/ptx_image.h"
#include "gpu-proxy/cpu/ptx/ptx_parse.h"

enum {
    LOG_BYTES = 4096,
    MAX_TEXTS = 8, /* of a fat binary, tried one after the other */
};

static CUresult fail(cpu_image_log_t *log, const char *text, CUresult result)
{
    cpu_log_error(log, text);
    gb_log(GB_LOG_WARN, "module not loaded: %.*s", (int)strcspn(text, "\n"), text);
    return result;
}

/* `lines` (LOG_BYTES) gets what is wrong with the text. */
static CUresult parse(const char *text, size_t size, char *lines, ptx_module_t **out)
{
    ptx_log_t ptx_log = {.text = lines, .size = LOG_BYTES};
    gb_status_t status = ptx_parse(text, size, &ptx_log, out);
    if (status == GB_ERR_NO_MEMORY)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (status != GB_OK) {
        if (!ptx_log.used)
            snprintf(lines, LOG_BYTES, "%s\n", gb_why());
        return CUDA_ERROR_INVALID_PTX;
    }
    cpu_jit_log_t jit_log = {lines, LOG_BYTES, 0};
    status = cpu_jit_covers(*out, &jit_log);
    if (status == GB_OK)
        return CUDA_SUCCESS;
    ptx_module_free(*out);
    if (!jit_log.used)
        snprintf(lines, LOG_BYTES, "%s\n", gb_why());
    return status == GB_ERR_NO_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_PTX;
}

static CUresult open_text(const char *text, size_t size, char *lines, cpu_image_t **image)
{
    cpu_image_t *made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_init(&made->refs, 1);
    lines[0] = 0;
    CUresult result = parse(text, size, lines, &made->ptx);
    if (result) {
        free(made);
        return result;
    }
    cpu_sha(text, size, made->digest);
    *image = made;
    return CUDA_SUCCESS;
}

static CUresult to_result(gb_status_t status)
{
    switch (status) {
    case GB_ERR_NO_MEMORY:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case GB_ERR_NOT_FOUND:
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case GB_ERR_INVALID:
        return CUDA_ERROR_INVALID_VALUE;
    case GB_ERR_UNSUPPORTED:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_IMAGE;
    }
}

static CUresult open_parts(const void *const *parts, cpu_image_log_t *log, cpu_image_t **image)
{
    char lines[LOG_BYTES];
    char *text;
    size_t size;
    CUresult result = cpu_link_parts(parts, log, &text, &size);
    if (result)
        return result;
    result = open_text(text, size, lines, image);
    free(text);
    return result == CUDA_ERROR_INVALID_PTX ? fail(log, lines, result) : result;
}

/* The best text of the image whose instructions are all covered. If there is none, what is wrong with
 * the best one. */
static CUresult open_best(const ptx_image_t *found, cpu_image_log_t *log, cpu_image_t **image)
{
    char first[LOG_BYTES] = "", lines[LOG_BYTES];
    CUresult result = CUDA_ERROR_INVALID_PTX;
    for (unsigned rank = 0; rank < MAX_TEXTS; rank++) {
        char *text;
        size_t size;
        gb_status_t status =
            ptx_image_text(found->data, found->size, CPU_IMAGE_SM, rank, &text, &size);
        if (status != GB_OK && rank > 0)
            break;
        if (status != GB_OK)
            return fail(log, gb_why(), to_result(status));
        result = open_text(text, size, rank ? lines : first, image);
        free(text);
        if (result != CUDA_ERROR_INVALID_PTX)
            return result;
    }
    return fail(log, first, result);
}

CUresult cpu_image_open(const void *data, cpu_image_log_t *log, cpu_image_t **image)
{
    ptx_image_t found;
    const void *const *parts = ptx_image_parts(data);
    if (parts)
        return open_parts(parts, log, image);
    gb_status_t status = ptx_image_locate(data, &found);
    if (status != GB_OK)
        return fail(log, gb_why(), to_result(status));
    return open_best(&found, log, image);
}

CUresult cpu_image_read_file(const char *name, void **data, size_t *length)
{
    FILE *file = fopen(name, "re");
    if (!file)
        return errno == ENOENT ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_OPERATING_SYSTEM;
    CUresult result = CUDA_ERROR_OPERATING_SYSTEM;
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    char *bytes = size >= 0 ? malloc((size_t)size + 16) : NULL;
    if (bytes && fseek(file, 0, SEEK_SET) == 0 &&
        fread(bytes, 1, (size_t)size, file) == (size_t)size) {
        memset(bytes + size, 0, 16);
        *data = bytes;
        *length = (size_t)size;
        bytes = NULL;
        result = CUDA_SUCCESS;
    }
    free(bytes);
    fclose(file);
    return result;
}

CUresult cpu_image_open_file(const char *name, cpu_image_log_t *log, cpu_image_t **image)
{
    void *data;
    size_t size;
    CUresult result = cpu_image_read_file(name, &data, &size);
    if (result)
        return result;
    const ptx_image_t found = {.data = data, .size = size};
    result = open_best(&found, log, image);
    free(data);
    return result;
}

void cpu_image_ref(cpu_image_t *image)
{
    atomic_fetch_add_explicit(&image->refs, 1, memory_order_relaxed);
}

void cpu_image_put(cpu_image_t *image)
{
    if (atomic_fetch_sub_explicit(&image->refs, 1, memory_order_acq_rel) != 1)
        return;
    ptx_module_free(image->ptx);
    free(image);
}

#include "gpu-proxy/cpu/driver/cpu_image.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "gpu-proxy/cpu/driver/cpu_sha.h"
#include "gpu-proxy/cpu/jit/jit.h"
#include "gpu-proxy/cpu/ptx/ptx_image.h"
#include "gpu-proxy/cpu/ptx/ptx_parse.h"

enum { LOG_BYTES = 4096 };

/* Appends to the program's error log, cutting what does not fit. */
static void to_log(cpu_image_log_t *log, const char *text)
{
    if (!log || !log->error || log->error_used + 1 >= log->error_size)
        return;
    size_t room = log->error_size - log->error_used - 1, length = strlen(text);
    if (length > room)
        length = room;
    memcpy(log->error + log->error_used, text, length);
    log->error_used += length;
    log->error[log->error_used] = 0;
}

static CUresult fail(cpu_image_log_t *log, const char *text, CUresult result)
{
    to_log(log, text);
    gb_log(GB_LOG_WARN, "module not loaded: %.*s", (int)strcspn(text, "\n"), text);
    return result;
}

static CUresult parse(const char *text, size_t size, cpu_image_log_t *log, ptx_module_t **out)
{
    char lines[LOG_BYTES] = "";
    ptx_log_t ptx_log = {.text = lines, .size = sizeof(lines)};
    gb_status_t status = ptx_parse(text, size, &ptx_log, out);
    if (status == GB_ERR_NO_MEMORY)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (status != GB_OK)
        return fail(log, ptx_log.used ? lines : gb_why(), CUDA_ERROR_INVALID_PTX);
    lines[0] = 0;
    cpu_jit_log_t jit_log = {lines, sizeof(lines), 0};
    if (cpu_jit_covers(*out, &jit_log) != GB_OK) {
        ptx_module_free(*out);
        return fail(log, jit_log.used ? lines : gb_why(), CUDA_ERROR_INVALID_PTX);
    }
    return CUDA_SUCCESS;
}

static CUresult open_text(const char *text, size_t size, cpu_image_log_t *log, cpu_image_t **image)
{
    cpu_image_t *made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_init(&made->refs, 1);
    CUresult result = parse(text, size, log, &made->ptx);
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

CUresult cpu_image_open(const void *data, cpu_image_log_t *log, cpu_image_t **image)
{
    ptx_image_t found;
    char *text;
    size_t size;
    gb_status_t status = ptx_image_locate(data, &found);
    if (status == GB_OK)
        status = ptx_image_text(found.data, found.size, CPU_IMAGE_SM, &text, &size);
    if (status != GB_OK)
        return fail(log, gb_why(), to_result(status));
    CUresult result = open_text(text, size, log, image);
    free(text);
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

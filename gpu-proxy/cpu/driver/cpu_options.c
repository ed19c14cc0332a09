#include "gpu-proxy/cpu/driver/cpu_options.h"

#include <string.h>

enum { MAX_OPTIONS = 1024 }; /* more is a mistake */

static bool is_target(uint32_t target)
{
    static const uint8_t known[] = {30, 32, 35, 37, 50, 52, 53,  60,  61,  62,  70, 72,
                                    75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121};
    if (target >> 16 > 2 || (target >> 16 && (target & 0xffff) < 90))
        return false;
    for (size_t i = 0; i < sizeof(known); i++)
        if (known[i] == (target & 0xffff))
            return true;
    return false;
}

/* An option that is only looked at. */
static CUresult check(CUjit_option option, uint32_t value, cpu_options_use_t use)
{
    switch (option) {
    case CU_JIT_OPTIMIZATION_LEVEL:
        return value <= 4 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_JIT_TARGET:
        return use != CPU_OPTIONS_INPUT && is_target(value) ? CUDA_SUCCESS
                                                            : CUDA_ERROR_INVALID_VALUE;
    case CU_JIT_TARGET_FROM_CUCONTEXT:
        return use != CPU_OPTIONS_INPUT ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_JIT_FALLBACK_STRATEGY:
        return use == CPU_OPTIONS_LOAD && value <= CU_PREFER_BINARY ? CUDA_SUCCESS
                                                                    : CUDA_ERROR_INVALID_VALUE;
    case CU_JIT_CACHE_MODE:
        return value <= CU_JIT_CACHE_OPTION_CA ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_JIT_GLOBAL_SYMBOL_COUNT:
        return value == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    default:
        return (int)option >= 0 && option < CU_JIT_NUM_OPTIONS ? CUDA_SUCCESS
                                                               : CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult read_one(CUjit_option option, void *value, cpu_options_use_t use,
                         cpu_options_t *out)
{
    uint32_t number = (uint32_t)(uintptr_t)value;
    bool input = use == CPU_OPTIONS_INPUT;
    switch (option) {
    case CU_JIT_ERROR_LOG_BUFFER:
        out->log.error = value;
        return input ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        out->log.error_size = number;
        return CUDA_SUCCESS;
    case CU_JIT_INFO_LOG_BUFFER:
        out->log.info = value;
        return input ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        out->log.info_size = number;
        return CUDA_SUCCESS;
    case CU_JIT_WALL_TIME:
        return input ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_JIT_LOG_VERBOSE:
        out->verbose = number != 0;
        return CUDA_SUCCESS;
    default:
        return check(option, number, use);
    }
}

CUresult cpu_options_read(unsigned count, const CUjit_option *options, void *const *values,
                          cpu_options_use_t use, cpu_options_t *out)
{
    bool target = false, threads = false;
    *out = (cpu_options_t){0};
    if ((count && (!options || !values)) || count > MAX_OPTIONS)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        CUresult result = read_one(options[i], values[i], use, out);
        if (result)
            return result;
        target |= options[i] == CU_JIT_TARGET;
        threads |= options[i] == CU_JIT_THREADS_PER_BLOCK;
    }
    if (target && threads)
        return CUDA_ERROR_INVALID_VALUE;
    if (out->log.error && out->log.error_size)
        out->log.error[0] = 0;
    if (out->log.info && out->log.info_size)
        out->log.info[0] = 0;
    return CUDA_SUCCESS;
}

void cpu_options_write(unsigned count, const CUjit_option *options, void **values,
                       const cpu_options_t *in)
{
    const cpu_image_log_t *log = &in->log;
    float ms = (float)((double)in->spent_ns * 1e-6);
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            values[i] = (void *)(uintptr_t)(log->error_used ? log->error_used + 1 : 0);
        else if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)
            values[i] = (void *)(uintptr_t)(log->info_used ? log->info_used + 1 : 0);
        else if (options[i] == CU_JIT_WALL_TIME)
            memcpy(&values[i], &ms, sizeof(ms));
    }
}

static void append(char *to, size_t size, size_t *used, const char *text)
{
    if (!to || *used + 1 >= size)
        return;
    size_t room = size - *used - 1, length = strlen(text);
    if (length > room)
        length = room;
    memcpy(to + *used, text, length);
    *used += length;
    to[*used] = 0;
}

void cpu_log_error(cpu_image_log_t *log, const char *text)
{
    if (log)
        append(log->error, log->error_size, &log->error_used, text);
}

void cpu_log_info(cpu_image_log_t *log, const char *text)
{
    if (log)
        append(log->info, log->info_size, &log->info_used, text);
}

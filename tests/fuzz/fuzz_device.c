/* PTX that the device accepts is compiled and run: whatever it does, the process lives, kernels end
 * within their time or with their context, and the next one works. Slow: each input that gets through
 * costs a compilation. Built without AddressSanitizer, which the compiler's library does not go with. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_clock.h"
#include "common/cuda/gb_driver.h"
#include "gpu-proxy/cpu/ptx/ptx_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BUFFER = 1 << 16, KERNELS = 4, INSTRUCTIONS = 400, LIMIT_MS = 50 };

static const gb_cuda_table_t *cu;

static void need(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s gives %d\n", what, (int)result);
    abort();
}

static void open_device(void)
{
    const gb_driver_t *driver;
    setenv("GABLE_CPU_CACHE", "off", 1);
    setenv("GABLE_CPU_THREADS", "1", 1);
    setenv("GABLE_CPU_MEMORY", "64M", 1);
    setenv("GABLE_LOG", "error", 1);
    if (gb_driver_choose("cpu", &driver) != GB_OK) {
        fprintf(stderr, "%s\n", gb_why());
        exit(1);
    }
    cu = &driver->table;
    need(cu->cuInit(0), "cuInit");
}

/* Parameters of 8 bytes are pointers to the buffer, others small numbers. */
static void launch(CUfunction function, const ptx_module_t *m, const ptx_function_t *f,
                   CUdeviceptr buffer)
{
    uint64_t words[64] = {0};
    void *params[64];
    const unsigned block[3] = {f->req_ntid[0] ? f->req_ntid[0] : 33,
                               f->req_ntid[1] ? f->req_ntid[1] : 2,
                               f->req_ntid[2] ? f->req_ntid[2] : 1};
    if (f->param_count > 32)
        return;
    for (uint32_t i = 0; i < f->param_count; i++) {
        const ptx_var_t *v = &m->vars[f->param_first + i];
        if (v->size > 256)
            return;
        params[i] = &words[i];
        words[i] = v->size == 8 ? buffer : 40 + i;
    }
    CUresult result = cu->cuLaunchKernel(function, 2, 1, 1, block[0], block[1], block[2], 256, NULL,
                                         params, NULL);
    /* What was accepted compiles, unless the block is none for the kernel. */
    uint64_t most = f->max_ntid[0];
    for (int i = 1; i < 3 && most; i++)
        most *= f->max_ntid[i] ? f->max_ntid[i] : 1;
    bool fits = most == 0 || (uint64_t)block[0] * block[1] * block[2] <= most;
    if (result == CUDA_ERROR_INVALID_PTX || (result == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES && fits))
        abort();
}

/* Runs the module's kernels in a context of their own, which ends with them. */
static void run(const char *text, const ptx_module_t *m)
{
    CUcontext context;
    CUmodule module;
    CUdeviceptr buffer;
    need(cu->cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate");
    need(cu->cuMemAlloc_v2(&buffer, BUFFER), "cuMemAlloc");
    need(cu->cuMemsetD8_v2(buffer, 0, BUFFER), "cuMemset");
    if (cu->cuModuleLoadData(&module, text) == CUDA_SUCCESS) {
        unsigned done = 0;
        for (uint32_t i = 0; i < m->function_count && done < KERNELS; i++) {
            const ptx_function_t *f = &m->functions[i];
            CUfunction function;
            if (!f->is_kernel || !f->defined || f->instr_count > INSTRUCTIONS)
                continue;
            done++;
            CUresult result = cu->cuModuleGetFunction(&function, module, f->name);
            if (result == CUDA_ERROR_NOT_FOUND || result == CUDA_ERROR_INVALID_VALUE)
                abort();
            if (result) /* an earlier kernel's fault stays with the context */
                break;
            launch(function, m, f, buffer);
        }
        uint64_t end = gb_now_ns() + LIMIT_MS * 1000000ull;
        while (cu->cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY && gb_now_ns() < end)
            ;
    }
    need(cu->cuCtxDestroy_v2(context), "cuCtxDestroy");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ptx_module_t *m = NULL;
    if (!cu)
        open_device();
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (ptx_parse(text, size, NULL, &m) == GB_OK)
        run(text, m);
    ptx_module_free(m);
    free(text);
    return 0;
}

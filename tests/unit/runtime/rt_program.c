#include "tests/unit/runtime/rt_program.h"

#include <stdlib.h>
#include <string.h>

extern const char rt_kernels_ptx[], rt_kernels_ptx_end[];

/* Stubs have an address and are never called: launches go by it. */
void rt_add(const float *a, const float *b, float *c, int n)
{
    (void)a, (void)b, (void)c, (void)n;
}
void rt_scale(float *x, int n)
{
    (void)x, (void)n;
}
void rt_count(void) {}
void rt_touch(int *p)
{
    (void)p;
}
int rt_counter;
float rt_factors[4];

/* A fat binary with one uncompressed PTX entry: header of 16 bytes, entry header of 80. */
static void *fat_binary(void)
{
    size_t text = (size_t)(rt_kernels_ptx_end - rt_kernels_ptx) + 1, padded = (text + 7) & ~7u;
    uint8_t *b = calloc(1, 16 + 80 + padded);
    if (!b)
        abort();
    memcpy(b, (uint32_t[]){0xBA55ED50u, 16u << 16 | 1u}, 8);
    memcpy(b + 8, (uint64_t[]){80 + padded}, 8);
    uint8_t *e = b + 16;
    memcpy(e, (uint32_t[]){0x0101u << 16 | 1u, 80}, 8);
    memcpy(e + 8, (uint64_t[]){padded}, 8);
    memcpy(e + 24, (uint16_t[]){0, 7}, 4);
    memcpy(e + 28, (uint32_t[]){70}, 4);
    memcpy(e + 40, (uint64_t[]){0x11}, 8);
    memcpy(e + 80, rt_kernels_ptx, text);
    return b;
}

static struct {
    uint32_t magic, version;
    void *data, *extra;
} wrapper = {0x466243B1u, 1, NULL, NULL};
static void **handle;

__attribute__((constructor)) static void register_all(void)
{
    static const struct {
        const char *name;
        void (*host)(void);
    } kernels[] = {{"rt_add", (void (*)(void))rt_add},
                   {"rt_scale", (void (*)(void))rt_scale},
                   {"rt_count", rt_count},
                   {"rt_touch", (void (*)(void))rt_touch}};
    wrapper.data = fat_binary();
    handle = __cudaRegisterFatBinary(&wrapper);
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
        __cudaRegisterFunction(handle, (const char *)kernels[i].host, (char *)kernels[i].name,
                               kernels[i].name, -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterVar(handle, (char *)&rt_counter, "rt_counter", "rt_counter", 0, 4, 0, 0);
    __cudaRegisterVar(handle, (char *)rt_factors, "rt_factors", "rt_factors", 0, 16, 1, 0);
    __cudaRegisterFatBinaryEnd(handle);
}

__attribute__((destructor)) static void unregister_all(void)
{
    __cudaUnregisterFatBinary(handle);
    free(wrapper.data);
}

cudaError_t rt_launch(const void *kernel, dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                      void **args)
{
    dim3 g, b;
    size_t s;
    cudaStream_t on;
    cudaKernel_t k;
    if (__cudaPushCallConfiguration(grid, block, shared, stream))
        return cudaErrorLaunchOutOfResources;
    cudaError_t error = __cudaGetKernel(&k, kernel);
    if (!error)
        error = __cudaPopCallConfiguration(&g, &b, &s, &on);
    return error ? error : __cudaLaunchKernel(k, g, b, args, s, on);
}

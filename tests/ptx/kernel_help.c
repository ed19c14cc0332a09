#include "tests/ptx/kernel_help.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

extern const char kernels_ptx[];

static kt_array_t make(size_t count)
{
    kt_array_t a = {.count = count};
    a.data = calloc(count, 4);
    assert_non_null(a.data);
    return a;
}

kt_array_t kt_zeros(size_t count)
{
    kt_array_t a = make(count);
    a.device = pt_upload(NULL, count * 4);
    return a;
}

kt_array_t kt_ints(size_t count, uint32_t seed, int32_t low, int32_t high)
{
    kt_array_t a = make(count);
    for (size_t i = 0; i < count; i++)
        a.i[i] = (int32_t)(low + (int64_t)(pt_random(&seed) % (uint32_t)((int64_t)high - low + 1)));
    a.device = pt_upload(a.data, count * 4);
    return a;
}

kt_array_t kt_floats(size_t count, uint32_t seed)
{
    kt_array_t a = make(count);
    for (size_t i = 0; i < count; i++)
        a.f[i] = (float)(int32_t)pt_random(&seed) * 0x1p-31f;
    a.device = pt_upload(a.data, count * 4);
    return a;
}

void kt_fetch(kt_array_t *a)
{
    pt_download(a->data, a->device, a->count * 4);
}

void kt_free(kt_array_t *a)
{
    pt_free(a->device);
    free(a->data);
    *a = (kt_array_t){0};
}

/* PT_KERNELS names the PTX that another compiler made of kernels.cu. */
static CUmodule load_kernels(void)
{
    const char *path = getenv("PT_KERNELS");
    if (!path)
        return pt_load(kernels_ptx);
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 4 << 20);
    if (!f || !text || fread(text, 1, (4 << 20) - 1, f) == 0)
        fail_msg("%s cannot be read", path);
    fclose(f);
    CUmodule module = pt_load(text);
    free(text);
    return module;
}

CUfunction kt_kernel(const char *name)
{
    static CUmodule module; /* of the process's one device */
    if (!module)
        module = load_kernels();
    return pt_function(module, name);
}

void kt_expect_ints(const char *what, const kt_array_t *got, const int32_t *want)
{
    unsigned bad = 0;
    for (size_t i = 0; i < got->count; i++) {
        if (got->i[i] != want[i] && bad++ < 4)
            print_error("%s: [%zu] is %d, must be %d\n", what, i, got->i[i], want[i]);
    }
    if (bad)
        fail_msg("%s: %u of %zu differ", what, bad, got->count);
}

void kt_expect_floats(const char *what, const kt_array_t *got, const float *want, float tolerance)
{
    unsigned bad = 0;
    for (size_t i = 0; i < got->count; i++) {
        float off = fabsf(got->f[i] - want[i]);
        if (!(off <= tolerance * fmaxf(1.0f, fabsf(want[i]))) && bad++ < 4)
            print_error("%s: [%zu] is %.9g, must be %.9g\n", what, i, (double)got->f[i],
                        (double)want[i]);
    }
    if (bad)
        fail_msg("%s: %u of %zu differ", what, bad, got->count);
}

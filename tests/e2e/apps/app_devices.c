/* All devices together: each sums its part of a range; the total does not depend on their number. */
#include "app.h"

enum { N = 600000, MAX_DEVICES = 16 };

int main(void)
{
    int count = 0;
    app_check(cuInit(0), "cuInit");
    app_check(cuDeviceGetCount(&count), "cuDeviceGetCount");
    if (count < 1 || count > MAX_DEVICES)
        return 1;
    CUcontext ctx[MAX_DEVICES];
    CUdeviceptr out[MAX_DEVICES];
    for (int d = 0; d < count; d++) {
        CUmodule mod = app_open(d, &ctx[d]);
        unsigned first = (unsigned)(N * (long long)d / count);
        unsigned n = (unsigned)(N * (long long)(d + 1) / count) - first, step = 1;
        CUdeviceptr data = app_alloc(n * 4);
        out[d] = app_alloc(4);
        app_launch(app_kernel(mod, "fill"), 8, 128, 0, (void *[]){&n, &first, &step, &data});
        app_check(cuMemsetD32_v2(out[d], 0, 1), "cuMemsetD32");
        app_launch(app_kernel(mod, "sum"), 8, 128, 0, (void *[]){&n, &data, &out[d]});
    }
    unsigned total = 0;
    for (int d = 0; d < count; d++) {
        unsigned part = 0;
        app_check(cuCtxSetCurrent(ctx[d]), "cuCtxSetCurrent");
        app_check(cuMemcpyDtoH_v2(&part, out[d], 4), "cuMemcpyDtoH");
        total += part;
        for (int e = 0; e < d; e++)
            if (out[e] == out[d])
                printf("two devices gave one address\n");
    }
    unsigned expected = 0;
    for (unsigned i = 0; i < N; i++)
        expected += i;
    printf("total: %u, expected %u\n", total, expected);
    return 0;
}

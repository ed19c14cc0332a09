#include "gpu-proxy/session/px_probe.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/core/gb_clock.h"

enum { COPY_BYTES = 16 * 1024 * 1024, COPY_ROUNDS = 3 };

static gb_status_t check(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return GB_OK;
    return gb_fail(GB_ERR_NOT_FOUND, "%s fails with CUDA error %d: is the driver loaded?", call,
                   (int)result);
}

static int attribute(const gb_cuda_table_t *t, CUdevice device, CUdevice_attribute which)
{
    int value = 0;
    if (t->cuDeviceGetAttribute(&value, which, device) != CUDA_SUCCESS)
        return 0;
    return value;
}

static gb_status_t describe(const gb_cuda_table_t *t, int ordinal, FILE *out)
{
    CUdevice device;
    char name[128] = "unknown";
    size_t memory = 0;
    gb_status_t st = check(t->cuDeviceGet(&device, ordinal), "cuDeviceGet");
    if (st == GB_OK)
        st = check(t->cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
    if (st == GB_OK)
        st = check(t->cuDeviceTotalMem_v2(&memory, device), "cuDeviceTotalMem");
    if (st != GB_OK)
        return st;
    for (char *p = name; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
    fprintf(out, "device %d cc %d.%d sm %d clock %d memory %zu name %s\n", ordinal,
            attribute(t, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            attribute(t, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
            attribute(t, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            attribute(t, device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE), memory, name);
    return GB_OK;
}

/* Best of some rounds, bytes per second; 0 if it cannot be measured. */
static double copy_rate(const gb_cuda_table_t *t, CUdeviceptr at, void *host, int to_device)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < COPY_ROUNDS; i++) {
        uint64_t start = gb_now_ns();
        CUresult r = to_device ? t->cuMemcpyHtoD_v2(at, host, COPY_BYTES)
                               : t->cuMemcpyDtoH_v2(host, at, COPY_BYTES);
        uint64_t ns = gb_now_ns() - start;
        if (r != CUDA_SUCCESS)
            return 0;
        best = ns < best ? ns : best;
    }
    return best ? COPY_BYTES * 1e9 / (double)best : 0;
}

static void measure_copies(const gb_cuda_table_t *t, int ordinal, FILE *out)
{
    CUdeviceptr at;
    void *host = calloc(1, COPY_BYTES);
    if (!host)
        return;
    if (t->cuMemAlloc_v2(&at, COPY_BYTES) == CUDA_SUCCESS) {
        double in = copy_rate(t, at, host, 1);
        double back = copy_rate(t, at, host, 0);
        if (in > 0 && back > 0)
            fprintf(out, "measured %d h2d_bytes_per_s %.4g\nmeasured %d d2h_bytes_per_s %.4g\n",
                    ordinal, in, ordinal, back);
        t->cuMemFree_v2(at);
    }
    free(host);
}

/* What cannot be measured is left out: the scheduler has a catalogue to fall back on. */
static void measure(const gb_cuda_table_t *t, int ordinal, FILE *out)
{
    CUdevice device;
    CUcontext context;
    if (t->cuDeviceGet(&device, ordinal) != CUDA_SUCCESS ||
        t->cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        return;
    if (t->cuCtxSetCurrent(context) == CUDA_SUCCESS)
        measure_copies(t, ordinal, out);
    t->cuDevicePrimaryCtxRelease_v2(device);
}

gb_status_t px_probe_run(const gb_cuda_table_t *t, const char *kind, const char *path, FILE *out)
{
    int count = 0;
    int version = 0;
    gb_status_t st = check(t->cuInit(0), "cuInit");
    if (st == GB_OK)
        st = check(t->cuDriverGetVersion(&version), "cuDriverGetVersion");
    if (st == GB_OK)
        st = check(t->cuDeviceGetCount(&count), "cuDeviceGetCount");
    if (st == GB_OK && count == 0)
        st = gb_fail(GB_ERR_NOT_FOUND, "the driver %s has no device", path);
    if (st != GB_OK)
        return st;
    fprintf(out, "gable-probe 1\ndriver %s %d %s\n", kind, version, path);
    for (int i = 0; st == GB_OK && i < count; i++)
        st = describe(t, i, out);
    for (int i = 0; st == GB_OK && i < count; i++)
        measure(t, i, out);
    if (st == GB_OK)
        fprintf(out, "end\n");
    if (st == GB_OK && fflush(out))
        st = gb_fail(GB_ERR_IO, "cannot write the report");
    return st;
}

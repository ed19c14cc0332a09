#include "bench/kernels_peer.h"

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"

extern const char kernels_cl[]; /* gable_embed */

/* What is needed of OpenCL's ABI; objects are opaque pointers, numbers as the standard says. */
enum { CL_DEVICE_CPU = 1 << 1, CL_MEM_READ_WRITE = 1, CL_BUILD_LOG = 0x1183, CL_TRUE = 1 };

static struct {
    int32_t (*clGetPlatformIDs)(uint32_t, void **, uint32_t *);
    int32_t (*clGetDeviceIDs)(void *, uint64_t, uint32_t, void **, uint32_t *);
    void *(*clCreateContext)(const intptr_t *, uint32_t, void *const *, void *, void *, int32_t *);
    void *(*clCreateCommandQueue)(void *, void *, uint64_t, int32_t *);
    void *(*clCreateProgramWithSource)(void *, uint32_t, const char **, const size_t *, int32_t *);
    int32_t (*clBuildProgram)(void *, uint32_t, void *const *, const char *, void *, void *);
    int32_t (*clGetProgramBuildInfo)(void *, void *, uint32_t, size_t, void *, size_t *);
    void *(*clCreateKernel)(void *, const char *, int32_t *);
    void *(*clCreateBuffer)(void *, uint64_t, size_t, void *, int32_t *);
    int32_t (*clEnqueueWriteBuffer)(void *, void *, uint32_t, size_t, size_t, const void *,
                                    uint32_t, void *, void *);
    int32_t (*clEnqueueReadBuffer)(void *, void *, uint32_t, size_t, size_t, void *, uint32_t,
                                   void *, void *);
    int32_t (*clSetKernelArg)(void *, uint32_t, size_t, const void *);
    int32_t (*clEnqueueNDRangeKernel)(void *, void *, uint32_t, const size_t *, const size_t *,
                                      const size_t *, uint32_t, void *, void *);
    int32_t (*clFinish)(void *);
    int32_t (*clReleaseMemObject)(void *);
    int32_t (*clReleaseKernel)(void *);
} cl;

static const struct {
    const char *name;
    void *where;
} functions[] = {
    {"clGetPlatformIDs", &cl.clGetPlatformIDs},
    {"clGetDeviceIDs", &cl.clGetDeviceIDs},
    {"clCreateContext", &cl.clCreateContext},
    {"clCreateCommandQueue", &cl.clCreateCommandQueue},
    {"clCreateProgramWithSource", &cl.clCreateProgramWithSource},
    {"clBuildProgram", &cl.clBuildProgram},
    {"clGetProgramBuildInfo", &cl.clGetProgramBuildInfo},
    {"clCreateKernel", &cl.clCreateKernel},
    {"clCreateBuffer", &cl.clCreateBuffer},
    {"clEnqueueWriteBuffer", &cl.clEnqueueWriteBuffer},
    {"clEnqueueReadBuffer", &cl.clEnqueueReadBuffer},
    {"clSetKernelArg", &cl.clSetKernelArg},
    {"clEnqueueNDRangeKernel", &cl.clEnqueueNDRangeKernel},
    {"clFinish", &cl.clFinish},
    {"clReleaseMemObject", &cl.clReleaseMemObject},
    {"clReleaseKernel", &cl.clReleaseKernel},
};

static void *device, *context, *queue, *program;
static int hopeless; /* it has failed to compile the kernels */

static int find_functions(void)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return 0;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *f = dlsym(library, functions[i].name);
        if (!f)
            return 0;
        memcpy(functions[i].where, &f, sizeof(f));
    }
    return 1;
}

int peer_open(int threads)
{
    void *platforms[8];
    uint32_t count = 0, devices = 0;
    int32_t error = 0;
    char text[16];
    snprintf(text, sizeof(text), "%d", threads);
    setenv("POCL_MAX_PTHREAD_COUNT", text, 1);
    if (!find_functions() || cl.clGetPlatformIDs(8, platforms, &count) || count == 0)
        return 0;
    for (uint32_t i = 0; i < count && devices == 0; i++)
        if (cl.clGetDeviceIDs(platforms[i], CL_DEVICE_CPU, 1, &device, &devices))
            devices = 0;
    if (devices == 0)
        return 0;
    context = cl.clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    queue = error ? NULL : cl.clCreateCommandQueue(context, device, 0, &error);
    return error == 0 && queue != NULL;
}

static int build(void)
{
    static char log[4096];
    const char *source = kernels_cl;
    int32_t error = 0;
    if (program || hopeless)
        return program != NULL;
    program = cl.clCreateProgramWithSource(context, 1, &source, NULL, &error);
    if (!error)
        error = cl.clBuildProgram(program, 1, &device, "", NULL, NULL);
    if (error) {
        cl.clGetProgramBuildInfo(program, device, CL_BUILD_LOG, sizeof(log) - 1, log, NULL);
        gb_complain("the OpenCL device does not compile the kernels (%d): %s", error, log);
        program = NULL;
        hopeless = 1;
    }
    return program != NULL;
}

int peer_row_open(const row_t *row, void **buffers, peer_row_t *out)
{
    int32_t error = 0;
    memset(out, 0, sizeof(*out));
    if (!build())
        return 0;
    out->kernel = cl.clCreateKernel(program, row->name, &error);
    for (int i = 0; i < ROW_BUFFERS && !error; i++) {
        if (!row->bytes[i])
            continue;
        out->memory[i] = cl.clCreateBuffer(context, CL_MEM_READ_WRITE, row->bytes[i], NULL, &error);
        if (!error)
            error = cl.clEnqueueWriteBuffer(queue, out->memory[i], CL_TRUE, 0, row->bytes[i],
                                            buffers[i], 0, NULL, NULL);
    }
    for (int i = 0; i < ROW_ARGS && row->args[i].kind && !error; i++) {
        const row_arg_t *a = &row->args[i];
        error = a->kind == 'b' ? cl.clSetKernelArg(out->kernel, (uint32_t)i, sizeof(void *),
                                                   &out->memory[a->integer])
                : a->kind == 'i'
                    ? cl.clSetKernelArg(out->kernel, (uint32_t)i, sizeof(int), &a->integer)
                    : cl.clSetKernelArg(out->kernel, (uint32_t)i, sizeof(float), &a->number);
    }
    if (error) {
        gb_complain("%s: the OpenCL device answers %d", row->name, error);
        peer_row_close(out);
    }
    return error == 0;
}

int peer_row_run(const row_t *row, const peer_row_t *p, int count)
{
    size_t local[3], global[3];
    int32_t error = 0;
    for (int i = 0; i < 3; i++) {
        local[i] = row->block[i];
        global[i] = (size_t)row->block[i] * row->grid[i];
    }
    for (int i = 0; i < count && !error; i++)
        error = cl.clEnqueueNDRangeKernel(queue, p->kernel, 3, NULL, global, local, 0, NULL, NULL);
    return !error && !cl.clFinish(queue);
}

int peer_row_read(const row_t *row, const peer_row_t *p, void *result)
{
    return !cl.clEnqueueReadBuffer(queue, p->memory[row->result], CL_TRUE, 0,
                                   row->bytes[row->result], result, 0, NULL, NULL);
}

void peer_row_close(peer_row_t *p)
{
    for (int i = 0; i < ROW_BUFFERS; i++)
        if (p->memory[i])
            cl.clReleaseMemObject(p->memory[i]);
    if (p->kernel)
        cl.clReleaseKernel(p->kernel);
    memset(p, 0, sizeof(*p));
}

/* A launch of a kernel of the first launches: `first`, or `nothing` without arguments. */
static row_t first_row(const char *name)
{
    enum { COUNT = 1000 };
    row_t row = {.name = name, .grid = {1, 1, 1}, .block = {256, 1, 1}, .result = 2};
    if (strcmp(name, "first"))
        return row;
    row_arg_t args[] = {{'i', COUNT, 0}, {'f', 0, 0.5f}, {'b', 0, 0}, {'b', 1, 0}, {'b', 2, 0}};
    memcpy(row.args, args, sizeof(args));
    row.bytes[0] = row.bytes[1] = COUNT * sizeof(float);
    row.bytes[2] = 3 * sizeof(float);
    return row;
}

double peer_first_launch(void)
{
    row_t row = first_row("first");
    peer_row_t p;
    void *buffers[ROW_BUFFERS] = {0};
    for (int i = 0; i < 3; i++)
        buffers[i] = calloc(1, row.bytes[i]);
    uint64_t start = gb_now_ns();
    int fine = peer_row_open(&row, buffers, &p) && peer_row_run(&row, &p, 1);
    double ns = (double)(gb_now_ns() - start);
    for (int i = 0; i < 3; i++)
        free(buffers[i]);
    return fine ? ns : NAN;
}

double peer_empty_launch(int count)
{
    row_t row = first_row("nothing");
    void *buffers[ROW_BUFFERS] = {0};
    peer_row_t p;
    if (!peer_row_open(&row, buffers, &p) || !peer_row_run(&row, &p, 1))
        return NAN;
    uint64_t start = gb_now_ns();
    int fine = 1;
    for (int i = 0; i < count && fine; i++)
        fine = peer_row_run(&row, &p, 1);
    double ns = (double)(gb_now_ns() - start) / count;
    peer_row_close(&p);
    return fine ? ns : NAN;
}

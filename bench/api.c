/* api - what a call of the CUDA driver costs, software device in process, queue not full.
 *
 * metric (promise)
 * malloc_free (1 us)            cuMemAlloc and cuMemFree of 4 KiB together; peer: mmap and munmap
 * malloc_free_1m, _64m          the same for larger pieces, which begin on pages of their own
 * event_record (0.2 us)         cuEventRecord in an idle stream
 * stream_sync_idle (0.2 us)     cuStreamSynchronize of an idle stream
 * launch_async (0.5 us)         cuLaunchKernel of an empty kernel, of 1000 in a row
 * launch_sync (5 us)            the same and cuStreamSynchronize; peer: handing a job to another
 *                               thread and back, as a device without helping waiters would do
 * launch_rested                 the same after 1 ms of rest, when the workers sleep
 * graph_launch_per_node (0.3 us)  cuGraphLaunch of 100 empty kernels in a row, by nodes
 * graph_run_per_node            the same until the graph has run
 * malloc_async (0.5 us)         cuMemAllocAsync and cuMemFreeAsync of 4 KiB, half of the pair
 * memcpy_async (floor)          GB/s of cuMemcpyHtoDAsync of 64 MiB of page-locked memory and waiting;
 *                               floor: memcpy by as many threads
 * memcpy_pageable, fill         cuMemcpyHtoD of pageable memory, cuMemsetD32; floor: memcpy, memset
 * scaling (1.75)                times as fast with two threads as with one, arithmetic kernel
 * program_start (40 ms)         a process: init, context, a launch from the disk cache, exit; floor: a
 *                               process that does nothing
 * ratio: value / target. Medians of interleaved rounds. For bytes and for scaling larger is better, the
 * target of copies is 0.95 of the floor. */
#include "bench/api_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_line.h"
#include "common/core/gb_log.h"
#include "common/core/gb_opt.h"

typedef struct {
    int json, smoke;
    int64_t threads, rounds;
    const char *child;
} options_t;

#define FIELD(name) offsetof(options_t, name)

static const gb_opt_t option_list[] = {
    {"json", GB_OPT_FLAG, FIELD(json), "0", NULL, NULL, "one JSON object a line"},
    {"smoke", GB_OPT_FLAG, FIELD(smoke), "0", NULL, NULL, "few short rounds"},
    {"threads", GB_OPT_INT, FIELD(threads), "2", NULL, "N", "threads of the device"},
    {"rounds", GB_OPT_INT, FIELD(rounds), "25", NULL, "N", "interleaved rounds"},
    {"child", GB_OPT_STRING, FIELD(child), NULL, NULL, "WHAT",
     "for the benchmark's own processes: nothing, start or work"},
    {NULL},
};

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry nothing()\n{\n    ret;\n}\n"
    ".visible .entry work(.param .u64 out, .param .u32 n)\n"
    "{\n"
    "    .reg .pred %p<2>;\n    .reg .u32 %r<8>;\n    .reg .u64 %rd<4>;\n    .reg .f32 %f<4>;\n"
    "    ld.param.u64 %rd1, [out];\n    ld.param.u32 %r1, [n];\n"
    "    mov.u32 %r2, %ctaid.x;\n    mov.u32 %r3, %ntid.x;\n    mov.u32 %r4, %tid.x;\n"
    "    mad.lo.s32 %r5, %r2, %r3, %r4;\n    cvt.rn.f32.u32 %f1, %r5;\n    mov.u32 %r6, 0;\n"
    "AGAIN:\n    fma.rn.f32 %f1, %f1, 0f3F7FFFFE, 0f3A83126F;\n    add.u32 %r6, %r6, 1;\n"
    "    setp.lt.u32 %p1, %r6, %r1;\n    @%p1 bra AGAIN;\n"
    "    mul.wide.u32 %rd2, %r5, 4;\n    add.u64 %rd3, %rd1, %rd2;\n"
    "    st.global.f32 [%rd3], %f1;\n    ret;\n}\n";

const gb_cuda_table_t *api_cu;
CUstream api_stream;
CUfunction api_nothing, api_work;

void api_need(CUresult result, const char *what)
{
    const char *name = "?";
    if (result == CUDA_SUCCESS)
        return;
    api_cu->cuGetErrorName(result, &name);
    gb_complain("%s: %s: run the device's tests", what, name);
    exit(1);
}

void api_open(void)
{
    const gb_driver_t *driver;
    CUcontext context;
    CUmodule module;
    if (gb_driver_choose("cpu", &driver) != GB_OK) {
        gb_complain("%s", gb_why());
        exit(1);
    }
    api_cu = &driver->table;
    NEED(cuInit(0));
    NEED(cuCtxCreate_v2(&context, 0, 0));
    NEED(cuModuleLoadData(&module, ptx));
    NEED(cuModuleGetFunction(&api_nothing, module, "nothing"));
    NEED(cuModuleGetFunction(&api_work, module, "work"));
    NEED(cuStreamCreate(&api_stream, CU_STREAM_NON_BLOCKING));
}

void api_line(const api_run_t *run, const char *metric, double value, const char *unit,
              double target, double floor, double peer)
{
    bench_promise(run->json, "api", metric, value, unit, target, floor, peer);
}

int main(int argc, char **argv)
{
    static const gb_opt_table_t table = {
        "api", "api [options]", "Measures calls of the CUDA driver on the software device.",
        option_list};
    options_t options;
    int first;
    char threads[32];
    gb_log_init("api", GB_LOG_WARN);
    gb_status_t status = gb_opt_parse(&table, argc, argv, 0, &options, &first);
    if (status == GB_ERR_CANCELLED)
        return 0;
    if (status != GB_OK || first < argc || options.rounds < 1 || options.rounds > API_MAX_ROUNDS ||
        options.threads < 1 || options.threads > API_MAX_THREADS) {
        gb_complain("%s", status != GB_OK ? gb_why() : "unexpected operand or number: see --help");
        return 2;
    }
    if (options.child)
        return api_child(options.child);
    snprintf(threads, sizeof(threads), "%d", (int)options.threads);
    setenv("GABLE_CPU_THREADS", threads, 1);
    api_run_t run = {options.json, options.smoke ? 2 : (int)options.rounds, (int)options.threads};
    api_open();
    api_measure_calls(&run);
    api_measure_moving(&run);
    api_measure_processes(&run);
    return 0;
}

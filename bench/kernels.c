/* kernels - what kernels run at on the software device, beside what a user would have instead.
 *
 * One core unless said otherwise; --row takes these names:
 *   naive tile16 tile32 reg4 reg8   GFLOP/s of sgemm, N = 512; reference: OpenBLAS on one core;
 *                                   floor: the core's measured peak
 *   saxpy reduction copy            GB/s by bytes moved, 64 MiB per array; reference (and floor):
 *   copy_streaming                  memcpy of 64 MiB, which moves each byte twice. copy_streaming
 *                                   stores with the hint .cs
 *   softmax layernorm               Gelem/s over rows of 1024 and 768, one warp a row; mandelbrot:
 *   mandelbrot histogram            Giter/s; histogram: Gelem/s, shared atomics, 256 bins; reference: the
 *                                   plain C loop at -O3
 *   scaling                         times as fast with two cores as with one; reference and floor: 2. A
 *                                   line for each kernel, then the smallest of them
 *   first_launch                    first_launch_cold and first_launch_cached: milliseconds from
 *                                   cuModuleLoadData to the end of the first launch of a kernel of
 *                                   some 85 instructions in a new process, all cores; the former with
 *                                   an empty cache, including loading LLVM, the latter is checked
 *                                   never to load it; reference: the peer
 *   empty_launch                    microseconds of a launch and waiting for it, all cores; reference: the
 *                                   peer
 *
 * peer: PoCL with the same kernels in OpenCL C, where it is installed. ratio: ours over the reference;
 * without a reference null. Each row for AVX-512 and, as NAME_v3, for AVX2; references use what the
 * processor has in both. Results are checked before anything is timed. Medians of interleaved rounds.
 *
 * Promises (AVX-512, ratio): naive 0.95, tile16 0.70, tile32 0.80, reg4 0.72, reg8 0.45, saxpy and
 * reduction 0.90, copy 0.65, copy_streaming 0.90, softmax 8, layernorm 4, mandelbrot 8, histogram
 * 1.2, scaling 1.75 times; 40 ms, 3 ms and 5 us; and ahead of the peer in every row. */
#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench_line.h"
#include "bench/bench_peak.h"
#include "bench/kernels_child.h"
#include "bench/kernels_device.h"
#include "bench/kernels_peer.h"
#include "bench/kernels_row.h"
#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "common/core/gb_opt.h"

enum { MAX_ROUNDS = 64, MOST_RUNS = 64 };

typedef struct {
    int json, smoke, nopeer;
    int64_t rounds;
    const char *row, *target, *child;
} options_t;

#define FIELD(name) offsetof(options_t, name)

static const gb_opt_t option_list[] = {
    {"json", GB_OPT_FLAG, FIELD(json), "0", NULL, NULL, "one JSON object a line"},
    {"smoke", GB_OPT_FLAG, FIELD(smoke), "0", NULL, NULL, "one short round, without the peer"},
    {"no-peer", GB_OPT_FLAG, FIELD(nopeer), "0", NULL, NULL, "do not run the peer"},
    {"rounds", GB_OPT_INT, FIELD(rounds), "11", NULL, "N", "interleaved rounds"},
    {"row", GB_OPT_STRING, FIELD(row), NULL, NULL, "NAME", "only this row"},
    {"target", GB_OPT_STRING, FIELD(target), NULL, NULL, "v3|v4", "only AVX2 or AVX-512"},
    {"child", GB_OPT_STRING, FIELD(child), NULL, NULL, "WHAT", "for the benchmark's own processes"},
    {NULL},
};

static void pin_to_first_core(void)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof(all), &all))
        return;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
            break;
        }
    }
    (void)sched_setaffinity(0, sizeof(one), &one);
}

/* ---- one row ---- */

typedef struct {
    const row_t *row;
    device_row_t device;
    peer_row_t peer;
    void *buffers[ROW_BUFFERS];
    int has_peer;
} bench_t;

static double run_ours(bench_t *b, int count)
{
    uint64_t start = gb_now_ns();
    device_row_run(b->row, &b->device, count);
    return (double)(gb_now_ns() - start) / count;
}

static double run_peer(bench_t *b)
{
    uint64_t start = gb_now_ns();
    if (!b->has_peer || !peer_row_run(b->row, &b->peer, 1))
        return NAN;
    return (double)(gb_now_ns() - start);
}

static double run_reference(bench_t *b, int count)
{
    const row_t *row = b->row;
    if (!row->reference && !row->reference_is_expect)
        return NAN;
    uint64_t start = gb_now_ns();
    for (int i = 0; i < count; i++) {
        if (row->reference)
            row->reference(row, b->buffers);
        else
            (void)row->expect(row, b->buffers);
    }
    return (double)(gb_now_ns() - start) / count;
}

/* Opens the row everywhere, runs each once and compares with the plain loop. */
static void open_row(bench_t *b, row_t *row, int peer)
{
    *b = (bench_t){.row = row};
    void *result = malloc(row->bytes[row->result]);
    if (!result) {
        gb_complain("out of memory");
        exit(1);
    }
    bench_row_buffers(row, b->buffers);
    device_row_open(row, b->buffers, &b->device);
    b->has_peer = peer && peer_row_open(row, b->buffers, &b->peer);
    row->work = row->expect(row, b->buffers);
    if (row->reference_work == 0)
        row->reference_work = row->work;
    device_row_run(row, &b->device, 1);
    device_row_read(row, &b->device, result);
    if (!bench_row_check(row, result, b->buffers[row->result], "the device"))
        exit(1);
    if (b->has_peer) {
        b->has_peer = peer_row_run(row, &b->peer, 1) && peer_row_read(row, &b->peer, result) &&
                      bench_row_check(row, result, b->buffers[row->result], "the peer");
    }
    free(result);
}

static void close_row(bench_t *b)
{
    device_row_close(&b->device);
    if (b->has_peer)
        peer_row_close(&b->peer);
    bench_row_free(b->row, b->buffers);
}

/* How often to run for a time that can be measured. */
static int runs_for(double ns, const options_t *o)
{
    double wanted = o->smoke ? 1e6 : 8e6, runs = wanted / ns;
    return runs < 1 ? 1 : runs > MOST_RUNS ? MOST_RUNS : (int)runs;
}

static void measure_row(row_t *row, const options_t *o, int peer, double peak, const char *suffix)
{
    enum { PEER_ROUNDS = 3 };
    double ours[MAX_ROUNDS], reference[MAX_ROUNDS], others[PEER_ROUNDS];
    int rounds = o->smoke ? 1 : (int)o->rounds, peers = rounds < PEER_ROUNDS ? rounds : PEER_ROUNDS;
    char metric[64];
    bench_t b;
    open_row(&b, row, peer);
    int count = runs_for(run_ours(&b, 1), o), reference_count = 1;
    double once = run_reference(&b, 1);
    if (!isnan(once))
        reference_count = runs_for(once, o);
    for (int r = 0; r < rounds; r++) {
        ours[r] = row->work / run_ours(&b, count);
        reference[r] = row->reference_work / run_reference(&b, reference_count);
        if (r < peers)
            others[r] = row->work / run_peer(&b);
    }
    close_row(&b);
    double value = bench_median(ours, rounds), against = bench_median(reference, rounds);
    double floor = row->floor == FLOOR_FLOPS    ? peak * 1e-9
                   : row->floor == FLOOR_MEMCPY ? against
                                                : NAN;
    snprintf(metric, sizeof(metric), "%s%s", row->name, suffix);
    bench_line(o->json, "kernels", metric, value, row->unit, floor, bench_median(others, peers),
               value / against);
}

/* ---- all rows of a target ---- */

static int measure_target(const options_t *o)
{
    const char *suffix = strcmp(o->target, "v3") == 0 ? "_v3" : "";
    child_options_t children = {o->target, o->json, o->smoke ? 1 : (int)o->rounds, 0};
    row_t *rows = bench_rows(), *only = NULL;
    for (row_t *row = rows; o->row && row->name; row++)
        if (strcmp(row->name, o->row) == 0)
            only = row;
    if (o->row && !only && !bench_child_row(o->row)) {
        gb_complain("no row '%s': see the head of bench/kernels.c", o->row);
        return 2;
    }
    children.peer = !o->smoke && !o->nopeer;
    if (!o->row || !only)
        bench_children(&children, o->row, suffix); /* before this process is pinned */
    if (o->row && !only)
        return 0;
    pin_to_first_core();
    device_open(1, o->target);
    int peer = children.peer && peer_open(1);
    double peak = bench_peak_flops(1);
    for (row_t *row = only ? only : rows; row->name; row++) {
        measure_row(row, o, peer, peak, suffix);
        if (only)
            break;
    }
    return 0;
}

/* A target is chosen once per process. */
static int measure_in_child(char **argv, const char *target)
{
    char self[512];
    int count = 0, status = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[length > 0 ? length : 0] = 0;
    while (argv[count])
        count++;
    char **with = calloc((size_t)count + 3, sizeof(*with));
    if (!with)
        return 1;
    memcpy(with, argv, (size_t)count * sizeof(*with));
    with[count] = "--target";
    with[count + 1] = (char *)(uintptr_t)target;
    pid_t pid = fork();
    if (pid == 0) {
        execv(self, with);
        _exit(127);
    }
    free(with);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

int main(int argc, char **argv)
{
    static const gb_opt_table_t table = {
        "kernels", "kernels [options]",
        "Measures kernels on the software device against libraries and plain C.", option_list};
    options_t o;
    int first;
    gb_log_init("kernels", GB_LOG_WARN);
    gb_status_t status = gb_opt_parse(&table, argc, argv, 0, &o, &first);
    if (status == GB_ERR_CANCELLED)
        return 0;
    if (status != GB_OK || first < argc || o.rounds < 1 || o.rounds > MAX_ROUNDS ||
        (o.target && strcmp(o.target, "v3") && strcmp(o.target, "v4"))) {
        gb_complain("%s", status != GB_OK ? gb_why() : "unexpected operand or value: see --help");
        return 2;
    }
    if (o.child)
        return bench_child_main(o.child, o.row, o.target);
    if (o.target)
        return measure_target(&o);
    int code = 0;
    if (has_avx512())
        code = measure_in_child(argv, "v4");
    else
        fprintf(stderr, "kernels: this processor has no AVX-512: only the rows for AVX2\n");
    return code ? code : measure_in_child(argv, "v3");
}

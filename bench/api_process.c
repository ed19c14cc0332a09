#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/api_rows.h"
#include "bench/bench_line.h"
#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"

enum { MAX_PROCESS_ROUNDS = 9 };

/* Runs this program as a child; seconds from start to end, or what it printed. */
static double run_child(const char *what, int threads, int printed)
{
    char self[512], count[32], line[64] = "";
    int out[2], status;
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[length > 0 ? length : 0] = 0;
    snprintf(count, sizeof(count), "%d", threads);
    if (pipe(out))
        return NAN;
    uint64_t start = gb_now_ns();
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out[1], 1);
        setenv("GABLE_CPU_THREADS", count, 1);
        execl(self, self, "--child", what, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    ssize_t got = read(out[0], line, sizeof(line) - 1);
    waitpid(pid, &status, 0);
    double seconds = (double)(gb_now_ns() - start) * 1e-9;
    close(out[0]);
    if (!WIFEXITED(status) || WEXITSTATUS(status) || (printed && got <= 0)) {
        gb_complain("the child for '%s' failed: run the device's tests", what);
        exit(1);
    }
    return printed ? strtod(line, NULL) : seconds;
}

int api_child(const char *what)
{
    CUdeviceptr out;
    uint32_t n = strcmp(what, "work") ? 1 : 2000;
    unsigned blocks = strcmp(what, "work") ? 1 : 512;
    uint64_t best = UINT64_MAX;
    if (strcmp(what, "nothing") == 0)
        return 0;
    api_open();
    NEED(cuMemAlloc_v2(&out, 512 * 256 * 4));
    void *params[] = {&out, &n};
    for (int i = 0; i < (blocks > 1 ? 5 : 1); i++) {
        uint64_t start = gb_now_ns();
        NEED(cuLaunchKernel(api_work, blocks, 1, 1, 256, 1, 1, 0, api_stream, params, NULL));
        NEED(cuStreamSynchronize(api_stream));
        uint64_t took = gb_now_ns() - start;
        best = took < best ? took : best;
    }
    printf("%llu\n", (unsigned long long)best);
    return 0;
}

void api_measure_processes(const api_run_t *run)
{
    double one[MAX_PROCESS_ROUNDS], two[MAX_PROCESS_ROUNDS];
    double start[MAX_PROCESS_ROUNDS], empty[MAX_PROCESS_ROUNDS];
    int rounds = run->rounds > MAX_PROCESS_ROUNDS ? MAX_PROCESS_ROUNDS : run->rounds;
    (void)run_child("start", run->threads, 0); /* fills the cache */
    (void)run_child("work", 1, 1);
    for (int r = 0; r < rounds; r++) {
        one[r] = run_child("work", 1, 1);
        two[r] = run_child("work", 2, 1);
        start[r] = run_child("start", run->threads, 0) * 1e3;
        empty[r] = run_child("nothing", run->threads, 0) * 1e3;
    }
    double speedup = bench_median(one, rounds) / bench_median(two, rounds);
    api_line(run, "scaling", speedup, "times", 1.75, 2, NAN);
    api_line(run, "program_start", bench_median(start, rounds), "ms", 40,
             bench_median(empty, rounds), NAN);
}

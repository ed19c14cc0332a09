#include "bench/kernels_child.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench_line.h"
#include "bench/kernels_device.h"
#include "bench/kernels_peer.h"
#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"

enum { MAX_ROUNDS = 64, TWO = 2, LAUNCHES = 200 };

static const char *const scaled[] = {"tile32", "mandelbrot", "naive"};
enum { SCALED = 3 };

/* ---- the child's side ---- */

static int maps_contain(const char *text)
{
    char line[1024];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps))
        found |= strstr(line, text) != NULL;
    if (maps)
        fclose(maps);
    return found;
}

/* Runs the row once for every line that comes in, and answers with nanoseconds. */
static int serve_row(const char *name, const char *target, int threads)
{
    row_t *row = bench_rows();
    void *buffers[ROW_BUFFERS];
    device_row_t d;
    char line[16];
    while (row->name && strcmp(row->name, name))
        row++;
    device_open(threads, target);
    bench_row_buffers(row, buffers);
    device_row_open(row, buffers, &d);
    device_row_run(row, &d, 2);
    while (fgets(line, sizeof(line), stdin)) {
        uint64_t start = gb_now_ns();
        device_row_run(row, &d, 2);
        printf("%llu\n", (unsigned long long)(gb_now_ns() - start));
        fflush(stdout);
    }
    device_row_close(&d);
    bench_row_free(row, buffers);
    return 0;
}

int bench_child_main(const char *what, const char *row, const char *target)
{
    if (strcmp(what, "one") == 0 || strcmp(what, "two") == 0)
        return serve_row(row, target, strcmp(what, "one") ? TWO : 1);
    if (strcmp(what, "first") == 0) {
        device_open(TWO, target);
        double ns = device_first_launch();
        printf("%.0f %d\n", ns, maps_contain("libgable-jit"));
    } else if (strcmp(what, "empty") == 0) {
        device_open(TWO, target);
        (void)device_empty_launch(LAUNCHES);
        printf("%.0f 0\n", device_empty_launch(LAUNCHES));
    } else if (!peer_open(TWO)) {
        return 1;
    } else {
        printf("%.0f 0\n",
               strcmp(what, "peer-first") ? peer_empty_launch(LAUNCHES) : peer_first_launch());
    }
    return 0;
}

/* ---- the parent's side ---- */

typedef struct {
    pid_t pid;
    FILE *to, *from;
} child_t;

static child_t start_child(const char *what, const char *row, const char *target, const char *cache)
{
    char self[512];
    int in[2], out[2];
    child_t child;
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[length > 0 ? length : 0] = 0;
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || (child.pid = fork()) < 0) {
        gb_complain("cannot start a process: raise the limits");
        exit(1);
    }
    if (child.pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        if (cache) {
            setenv("GABLE_CPU_CACHE", cache, 1);
            setenv("POCL_CACHE_DIR", cache, 1);
        }
        execl(self, self, "--child", what, "--row", row, "--target", target, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    child.to = fdopen(in[1], "w");
    child.from = fdopen(out[0], "r");
    return child;
}

/* Two numbers of the child's answer; 0: there is none. */
static int read_child(child_t *child, double *value, int *flag)
{
    char line[64], *end;
    if (!fgets(line, sizeof(line), child->from))
        return 0;
    *value = strtod(line, &end);
    *flag = (int)strtol(end, NULL, 10);
    return end != line;
}

static int end_child(child_t *child)
{
    int status = 1;
    fclose(child->to);
    fclose(child->from);
    waitpid(child->pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void give_up(const char *what)
{
    gb_complain("the process for '%s' failed: run the device's tests", what);
    exit(1);
}

static double one_child(const child_options_t *o, const char *what, const char *cache, int *flag)
{
    double value = NAN;
    child_t child = start_child(what, "-", o->target, cache);
    int fine = read_child(&child, &value, flag);
    fine = end_child(&child) && fine;
    if (!fine && strncmp(what, "peer", 4))
        give_up(what);
    return fine ? value : NAN;
}

static void make_folder(char *folder, size_t size)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, size, "%s/gable-kernels-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder)) {
        gb_complain("cannot make a folder below %s: set TMPDIR", base ? base : "/tmp");
        exit(1);
    }
}

static void remove_folder(const char *folder)
{
    pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", "--", folder, (char *)NULL);
        _exit(127);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

/* Milliseconds of a first launch without and with a filled cache. */
static void first_pair(const child_options_t *o, const char *what, double *cold, double *cached)
{
    char folder[256];
    int loaded = 0, again = 0, is_peer = strncmp(what, "peer", 4) == 0;
    make_folder(folder, sizeof(folder));
    *cold = one_child(o, what, folder, &loaded) * 1e-6;
    *cached = one_child(o, what, folder, &again) * 1e-6;
    remove_folder(folder);
    if (!is_peer && (!loaded || again)) {
        gb_complain(loaded ? "a cached kernel still loads LLVM" : "a new kernel needs no LLVM?");
        exit(1);
    }
}

static void print(const child_options_t *o, const char *name, const char *suffix, double value,
                  const char *unit, double floor, double peer, double ratio)
{
    char metric[64];
    snprintf(metric, sizeof(metric), "%s%s", name, suffix);
    bench_line(o->json, "kernels", metric, value, unit, floor, peer, ratio);
}

static void first_launches(const child_options_t *o, const char *suffix)
{
    double cold[MAX_ROUNDS], cached[MAX_ROUNDS], peer_cold[MAX_ROUNDS], peer_cached[MAX_ROUNDS];
    for (int r = 0; r < o->rounds; r++) {
        first_pair(o, "first", &cold[r], &cached[r]);
        peer_cold[r] = peer_cached[r] = NAN;
        if (o->peer)
            first_pair(o, "peer-first", &peer_cold[r], &peer_cached[r]);
    }
    double v = bench_median(cold, o->rounds), p = bench_median(peer_cold, o->rounds);
    print(o, "first_launch_cold", suffix, v, "ms", NAN, p, v / p);
    v = bench_median(cached, o->rounds);
    p = bench_median(peer_cached, o->rounds);
    print(o, "first_launch_cached", suffix, v, "ms", NAN, p, v / p);
}

static void empty_launches(const child_options_t *o, const char *suffix)
{
    double ours[MAX_ROUNDS], peer[MAX_ROUNDS];
    int unused;
    for (int r = 0; r < o->rounds; r++) {
        ours[r] = one_child(o, "empty", NULL, &unused) * 1e-3;
        peer[r] = o->peer ? one_child(o, "peer-empty", NULL, &unused) * 1e-3 : NAN;
    }
    double v = bench_median(ours, o->rounds), p = bench_median(peer, o->rounds);
    print(o, "empty_launch", suffix, v, "us", NAN, p, v / p);
}

static double ask(child_t *child)
{
    double ns;
    int unused;
    fputs("go\n", child->to);
    fflush(child->to);
    if (!read_child(child, &ns, &unused))
        give_up("scaling");
    return ns;
}

static double scaling_of(const child_options_t *o, const char *row)
{
    double one[MAX_ROUNDS], two[MAX_ROUNDS];
    child_t first = start_child("one", row, o->target, NULL);
    child_t second = start_child("two", row, o->target, NULL);
    (void)ask(&first);
    (void)ask(&second);
    for (int r = 0; r < o->rounds; r++) {
        one[r] = ask(&first);
        two[r] = ask(&second);
    }
    if (!end_child(&first) || !end_child(&second))
        give_up("scaling");
    return bench_median(one, o->rounds) / bench_median(two, o->rounds);
}

static void scaling(const child_options_t *o, const char *suffix)
{
    double smallest = INFINITY;
    char name[64];
    for (int i = 0; i < SCALED; i++) {
        double times = scaling_of(o, scaled[i]);
        smallest = times < smallest ? times : smallest;
        snprintf(name, sizeof(name), "scaling_%s", scaled[i]);
        print(o, name, suffix, times, "times", TWO, NAN, times / TWO);
    }
    print(o, "scaling", suffix, smallest, "times", TWO, NAN, smallest / TWO);
}

static const struct {
    const char *name;
    void (*run)(const child_options_t *, const char *);
} groups[] = {
    {"scaling", scaling}, {"first_launch", first_launches}, {"empty_launch", empty_launches}};

int bench_child_row(const char *name)
{
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        if (strcmp(groups[i].name, name) == 0)
            return 1;
    return 0;
}

void bench_children(const child_options_t *options, const char *name, const char *suffix)
{
    child_options_t o = *options;
    o.rounds = o.rounds > MAX_ROUNDS ? MAX_ROUNDS : o.rounds;
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        if (!name || strcmp(groups[i].name, name) == 0)
            groups[i].run(&o, suffix);
}

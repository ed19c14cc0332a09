/* link_speed - what the links of common/link cost: round trips, batches and bulk, per kind of link, with
 * both ends on one CPU and on two.
 *
 * floor = the same exchange over a bare blocking socket of that kind (for TLS: of TCP), same placement,
 * same run. ratio = value over floor for times, floor over value for rates: 1 = no cost at all. Rows
 * "spin" have the busy poll that links use by default, rows "block" have none. */
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench_line.h"
#include "common/core/gb_log.h"
#include "common/core/gb_opt.h"
#include "common/link/gb_link.h"
#include "common/link/gb_listener.h"

enum {
    SMALL = 64,
    BATCH = 100 * 216, /* a hundred calls of 200 bytes with their headers */
    BULK = 64 * 1024 * 1024,
    PIECE = 256 * 1024,
    ROUNDS = 5,
};

typedef enum { KIND_UNIX, KIND_TCP, KIND_TLS, KINDS } kind_t;

typedef struct {
    bool json;
    bool smoke;
    const char *kind;
} options_t;

/* What the client asks of its peer. */
typedef struct {
    uint64_t receive; /* bytes that follow */
    uint64_t reply;   /* bytes wanted back */
} request_t;

/* A link, or the bare socket under it. */
typedef struct {
    gb_link_t *link;
    int fd;
} end_t;

static const gb_key_t KEY = {{1, 2, 3}};
static uint8_t *memory;

static void die(const char *what)
{
    gb_complain("%s: %s", what, gb_why());
    exit(1);
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)sched_setaffinity(0, sizeof set,
                            &set); /* a container may forbid it; the run is still valid */
}

static void put(end_t *e, const void *head, size_t head_size, const void *body, size_t size)
{
    struct iovec v[2] = {{(void *)(uintptr_t)head, head_size}, {(void *)(uintptr_t)body, size}};
    if (e->link) {
        if (gb_link_sendv(e->link, v, 2) != GB_OK)
            die("send");
        return;
    }
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    while (v[0].iov_len + v[1].iov_len) {
        ssize_t n = sendmsg(e->fd, &m, MSG_NOSIGNAL);
        if (n < 0)
            die("sendmsg");
        for (int i = 0; i < 2; i++) {
            size_t step = (size_t)n < v[i].iov_len ? (size_t)n : v[i].iov_len;
            v[i].iov_base = (uint8_t *)v[i].iov_base + step;
            v[i].iov_len -= step;
            n -= (ssize_t)step;
        }
    }
}

static int get(end_t *e, void *out, size_t size)
{
    uint8_t *p = out;
    if (e->link)
        return gb_link_recv(e->link, out, size, GB_NEVER) == GB_OK;
    while (size) {
        ssize_t n = recv(e->fd, p, size, 0);
        if (n <= 0)
            return 0;
        p += n;
        size -= (size_t)n;
    }
    return 1;
}

static void serve(end_t *e)
{
    request_t r;
    while (get(e, &r, sizeof r)) {
        if (!get(e, memory, r.receive))
            break;
        if (r.reply)
            put(e, NULL, 0, memory, r.reply);
    }
    _exit(0);
}

static gb_status_t lookup(void *arg, uint64_t lease, gb_key_t *key)
{
    (void)arg;
    (void)lease;
    *key = KEY;
    return GB_OK;
}

/* Leaves the link to be and uses its socket, blocking. Nothing is buffered yet. */
static void make_bare(end_t *e)
{
    e->fd = gb_link_fd(e->link);
    (void)fcntl(e->fd, F_SETFL, 0);
    e->link = NULL;
}

/* Starts the peer process and connects to it. */
static pid_t open_pair(kind_t kind, bool bare, int peer_cpu, uint32_t spin_us, end_t *out)
{
    char text[64];
    gb_endpoint_t at;
    gb_listener_t *listener;
    snprintf(text, sizeof text, "127.0.0.1:0");
    if (kind == KIND_UNIX)
        snprintf(text, sizeof text, "unix:/tmp/gable-link-speed-%d", (int)getpid());
    if (gb_endpoint_parse(text, 0, &at) != GB_OK || gb_listener_open(&at, 1, &listener) != GB_OK)
        die("listen");
    at = *gb_listener_endpoint(listener);
    pid_t pid = fork();
    if (pid == 0) {
        end_t e = {NULL, -1};
        char peer[GB_PEER_TEXT];
        gb_preamble_t facts;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(peer_cpu);
        if (gb_listener_accept(listener, GB_NEVER, &e.fd, peer) != GB_OK ||
            gb_link_accept(e.fd, GB_NEVER, GB_SERVICE_SHARD, 1, lookup, NULL, &facts, &e.link) !=
                GB_OK)
            die("accept");
        gb_link_set_spin(e.link, spin_us);
        if (bare)
            make_bare(&e);
        serve(&e);
    }
    gb_credential_t c = {
        .service = GB_SERVICE_SHARD, .lease = 1, .key = KEY, .insecure = kind != KIND_TLS};
    if (gb_link_dial(&at, &c, gb_now_ns() + 10000000000ull, &out->link) != GB_OK)
        die("dial");
    gb_link_set_spin(out->link, spin_us);
    gb_listener_close(listener);
    if (bare)
        make_bare(out);
    return pid;
}

static double now(void)
{
    return (double)gb_now_ns() / 1e3;
}

/* Median microseconds of one exchange: `send` bytes there, `reply` bytes back. */
static double exchange(end_t *e, uint64_t send, uint64_t reply, int count)
{
    double *times = malloc((size_t)count * sizeof *times);
    request_t r = {send, reply};
    if (!times)
        die("memory");
    for (int i = 0; i < count; i++) {
        double start = now();
        put(e, &r, sizeof r, memory, send);
        if (!get(e, memory, reply))
            die("the peer is gone");
        times[i] = now() - start;
    }
    double median = bench_median(times, count);
    free(times);
    return median;
}

/* Seconds for BULK bytes in pieces, and the answer that they have come. */
static double bulk(end_t *e)
{
    double start = now();
    for (size_t at = 0; at < BULK; at += PIECE) {
        request_t r = {PIECE, at + PIECE == BULK};
        put(e, &r, sizeof r, memory + at, PIECE);
    }
    uint8_t byte;
    if (!get(e, &byte, 1))
        die("the peer is gone");
    return (now() - start) / 1e6;
}

typedef struct {
    double pingpong_us;
    double batch_us;
    double bulk_gb_s;
} figures_t;

static figures_t measure(kind_t kind, bool bare, int cpus, uint32_t spin_us, bool smoke)
{
    end_t e = {NULL, -1};
    figures_t f;
    double rates[ROUNDS];
    int rounds = smoke ? 1 : ROUNDS;
    pin(0);
    pid_t pid = open_pair(bare && kind == KIND_TLS ? KIND_TCP : kind, bare, cpus - 1, spin_us, &e);
    (void)exchange(&e, SMALL, SMALL, smoke ? 10 : 1000);
    f.pingpong_us = exchange(&e, SMALL, SMALL, smoke ? 100 : 5000);
    f.batch_us = exchange(&e, BATCH, 16, smoke ? 20 : 1000);
    for (int i = 0; i < rounds; i++)
        rates[i] = BULK / bulk(&e) / 1e9;
    f.bulk_gb_s = bench_median(rates, rounds);
    if (e.link)
        gb_link_close(e.link);
    else
        close(e.fd);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return f;
}

static const char *const names[KINDS] = {"unix", "tcp", "tls"};

static void report(const options_t *o, kind_t kind, int cpus, int spin)
{
    char metric[64];
    figures_t floor = measure(kind, true, cpus, 0, o->smoke);
    figures_t f = measure(kind, false, cpus, spin ? 100 : 0, o->smoke);
    const char *how = spin ? "spin" : "block";
    snprintf(metric, sizeof metric, "%s_%dcpu_%s_pp64", names[kind], cpus, how);
    bench_line(o->json, "link_speed", metric, f.pingpong_us, "us", floor.pingpong_us, NAN,
               f.pingpong_us / floor.pingpong_us);
    snprintf(metric, sizeof metric, "%s_%dcpu_%s_batch100", names[kind], cpus, how);
    bench_line(o->json, "link_speed", metric, f.batch_us, "us", floor.batch_us, NAN,
               f.batch_us / floor.batch_us);
    snprintf(metric, sizeof metric, "%s_%dcpu_%s_bulk64M", names[kind], cpus, how);
    bench_line(o->json, "link_speed", metric, f.bulk_gb_s, "GB/s", floor.bulk_gb_s, NAN,
               floor.bulk_gb_s / f.bulk_gb_s);
}

static const gb_opt_t OPTIONS[] = {
    {"json", GB_OPT_FLAG, offsetof(options_t, json), "false", NULL, NULL, "one JSON line a row"},
    {"smoke", GB_OPT_FLAG, offsetof(options_t, smoke), "false", NULL, NULL,
     "a short run that only shows that it works"},
    {"kind", GB_OPT_STRING, offsetof(options_t, kind), "", NULL, "KIND", "only unix, tcp or tls"},
    {NULL},
};

int main(int argc, char **argv)
{
    static const gb_opt_table_t table = {"link_speed", "link_speed [options]",
                                         "Measures the links of common/link.", OPTIONS};
    options_t o;
    int first;
    gb_status_t st = gb_opt_parse(&table, argc, argv, 0, &o, &first);
    if (st == GB_ERR_CANCELLED)
        return 0;
    if (st != GB_OK) {
        gb_complain("%s", gb_why());
        return 2;
    }
    memory = calloc(1, BULK);
    if (!memory)
        die("memory");
    int cpus = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 2 : 1;
    for (kind_t kind = 0; kind < KINDS; kind++)
        for (int n = 1; n <= cpus; n++)
            for (int spin = 0; spin < 2; spin++)
                if (!*o.kind || !strcmp(o.kind, names[kind]))
                    report(&o, kind, n, spin);
    free(memory);
    return 0;
}

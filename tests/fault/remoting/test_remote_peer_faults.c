/* Copies between two proxies when something goes wrong: processes that die or are silent in the middle, lines
 * that are cut, sessions that do not reach each other, strangers that want to get in. Each case runs in a child of its
 * own, because the client library has one state per process.
 * usage: test_remote_peer_faults [PATTERN of the cases] */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/cuda/gb_driver.h"
#include "common/link/gb_link.h"
#include "tests/e2e/remoting/proxy.h"
#include "tests/e2e/remoting/saxpy_ptx.h"

enum { MIB = 1 << 20, LARGE = 32 * MIB, PATIENCE_MS = 8000, PROXIES = 3 };

static const gb_cuda_table_t *cuda;
static proxy_t proxies[PROXIES]; /* the third one is in nobody's way */
static CUcontext contexts[PROXIES];
static CUstream streams[PROXIES];
static CUdeviceptr memory[PROXIES]; /* LARGE bytes each */

/* In children: ends the process with a message. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define OK(call) MUST((call) == CUDA_SUCCESS)

static void use(int device)
{
    OK(cuda->cuCtxSetCurrent(contexts[device]));
}

static void start(void)
{
    const gb_driver_t *driver;
    MUST(gb_driver_open(GABLE_BUILD_DIR "/lib/gable/remote/libcuda.so.1", &driver) == GB_OK);
    cuda = &driver->table;
    OK(cuda->cuInit(0));
    for (int i = 0; i < PROXIES; i++) {
        OK(cuda->cuDevicePrimaryCtxRetain(&contexts[i], i));
        use(i);
        OK(cuda->cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        OK(cuda->cuMemAlloc_v2(&memory[i], LARGE));
        OK(cuda->cuMemsetD8_v2(memory[i], (unsigned char)i, LARGE));
        OK(cuda->cuCtxSynchronize());
    }
}

/* The proxies' sessions get the emulated line, the client does not. */
static void start_proxies(proxy_link_t link, const char *line, const char *option,
                          const char *value)
{
    if (line)
        setenv("GABLE_LINK_EMULATE", line, 1);
    for (int i = 0; i < PROXIES; i++)
        proxy_start_on(&proxies[i], "cpu", link, option, value);
    unsetenv("GABLE_LINK_EMULATE");
}

static void stop_proxies(void)
{
    for (int i = 0; i < PROXIES; i++)
        proxy_stop(&proxies[i]);
}

/* What they have to say, where something went wrong. */
static void show_logs(void)
{
    for (int i = 0; i < PROXIES; i++) {
        char line[512];
        FILE *log = fopen(proxies[i].log, "r");
        while (log && fgets(line, sizeof(line), log))
            fprintf(stderr, "proxy %d: %s", i, line);
        if (log)
            fclose(log);
    }
}

/* Runs `body` in a child that finds the proxies at `endpoints` (NULL: theirs); 1 if it ends with 0. */
static int in_child(const char *endpoints, void (*body)(void *), void *arg)
{
    int status = -1;
    char all[400];
    snprintf(all, sizeof(all), "%s,%s,%s", proxies[0].endpoint, proxies[1].endpoint,
             proxies[2].endpoint);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        setenv("GABLE_PROXIES", endpoints ? endpoints : all, 1);
        if (*proxies[0].key)
            setenv("GABLE_KEY_FILE", proxies[0].key, 1);
        body(arg);
        exit(0);
    }
    waitpid(child, &status, 0);
    int good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!good)
        show_logs();
    return good;
}

static int lines_with(const char *file, const char *text)
{
    char line[512];
    int count = 0;
    FILE *f = fopen(file, "r");
    while (f && fgets(line, sizeof(line), f))
        count += strstr(line, text) != NULL;
    if (f)
        fclose(f);
    return count;
}

static uint8_t *pattern(size_t bytes, unsigned seed)
{
    uint8_t *p = malloc(bytes);
    uint32_t x = seed * 2654435761u + 1;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 1664525 + 1013904223;
        p[i] = (uint8_t)(x >> 24);
    }
    return p;
}

/* Bytes go from one device to another and come out the same. */
static void round_trip(int from, int to, size_t bytes, unsigned seed)
{
    uint8_t *sent = pattern(bytes, seed), *got = malloc(bytes);
    use(from);
    OK(cuda->cuMemcpyHtoDAsync_v2(memory[from], sent, bytes, streams[from]));
    OK(cuda->cuMemcpyDtoDAsync_v2(memory[to], memory[from], bytes, streams[from]));
    OK(cuda->cuStreamSynchronize(streams[from]));
    use(to);
    OK(cuda->cuMemcpyDtoHAsync_v2(got, memory[to], bytes, streams[to]));
    OK(cuda->cuStreamSynchronize(streams[to]));
    MUST(memcmp(sent, got, bytes) == 0);
    free(sent);
    free(got);
}

/* ---- the end in the middle ---- */

typedef enum { SESSION, PROXY, SILENCE } death_t;

typedef struct {
    death_t death;
    int victim; /* 0 = source, 1 = target */
    int holder; /* whose stream the copy is in */
} murder_t;

static void kill_one(const murder_t *m)
{
    pid_t session = proxy_session(&proxies[m->victim], 0);
    MUST(kill(m->death == PROXY ? proxies[m->victim].pid : session,
              m->death == SILENCE ? SIGSTOP : SIGKILL) == 0);
}

/* Everything else goes on: another context of the survivor's device, and a device of neither. */
static void others_go_on(CUcontext other)
{
    CUdeviceptr p;
    uint32_t word = 0;
    OK(cuda->cuCtxSetCurrent(other));
    OK(cuda->cuMemAlloc_v2(&p, LARGE));
    OK(cuda->cuMemsetD32_v2(p, 77, 100));
    OK(cuda->cuMemcpyPeer(memory[2], contexts[2], p, other, 400));
    use(2);
    OK(cuda->cuMemcpyDtoH_v2(&word, memory[2] + 396, 4));
    MUST(word == 77);
    OK(cuda->cuCtxDestroy_v2(other));
}

static void die_in_the_middle(void *arg)
{
    const murder_t *m = arg;
    int survivor = !m->victim;
    CUcontext other;
    CUdeviceptr p;
    CUevent event;
    start();
    round_trip(0, 1, 1000, 1);
    OK(cuda->cuCtxCreate_v4(&other, NULL, 0, survivor));
    use(m->holder);
    OK(cuda->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuda->cuMemcpyPeerAsync(memory[1], contexts[1], memory[0], contexts[0], LARGE,
                               streams[m->holder]));
    OK(cuda->cuEventRecord(event, streams[m->holder]));
    poll(NULL, 0, 300);
    MUST(cuda->cuEventQuery(event) == CUDA_ERROR_NOT_READY);
    uint64_t begin = gb_now_ns();
    kill_one(m);
    CUresult result = cuda->cuEventSynchronize(event);
    MUST(result == CUDA_ERROR_DEVICE_UNAVAILABLE || m->death == SILENCE);
    if (m->holder == survivor) { /* it sticks */
        MUST(result == CUDA_ERROR_DEVICE_UNAVAILABLE);
        MUST(cuda->cuStreamSynchronize(streams[survivor]) == CUDA_ERROR_DEVICE_UNAVAILABLE);
        MUST(cuda->cuMemAlloc_v2(&p, 100) == CUDA_ERROR_DEVICE_UNAVAILABLE);
    } else { /* nothing of the survivor's waited for it */
        use(survivor);
        OK(cuda->cuMemAlloc_v2(&p, 100));
        OK(cuda->cuCtxSynchronize());
        round_trip(survivor, 2, 1000, 2);
    }
    MUST(gb_now_ns() - begin < PATIENCE_MS * 1000000ull);
    others_go_on(other);
    if (m->death != SILENCE) {
        use(m->victim);
        MUST(cuda->cuCtxSynchronize() == CUDA_ERROR_DEVICE_UNAVAILABLE);
        use(2); /* a copy to the dead device fails at the call, and sticks to nobody */
        MUST(cuda->cuMemcpyDtoDAsync_v2(memory[m->victim], memory[2], 100, streams[2]) ==
             CUDA_ERROR_DEVICE_UNAVAILABLE);
        OK(cuda->cuCtxSynchronize());
    }
}

static void murders(death_t death, proxy_link_t link)
{
    for (int victim = 0; victim < 2; victim++)
        for (int holder = 0; holder < 2; holder++) {
            murder_t m = {death, victim, holder};
            if (death == SILENCE && holder == victim)
                continue; /* who is silent does not answer the client either */
            start_proxies(link, "bw=100Mbit", death == SILENCE ? "--session-timeout" : NULL, "2");
            assert_true(in_child(NULL, die_in_the_middle, &m));
            stop_proxies();
        }
}

static void sessions_are_killed(void **state)
{
    (void)state;
    murders(SESSION, PROXY_UNIX);
    murders(SESSION, PROXY_TLS);
}

static void proxies_are_killed(void **state)
{
    (void)state;
    murders(PROXY, PROXY_TCP);
}

static void sessions_are_silent(void **state)
{
    (void)state;
    murders(SILENCE, PROXY_TCP);
}

/* ---- honest work takes its time ---- */

static void slow_kernel(void *arg)
{
    CUmodule module;
    CUfunction spin;
    CUdeviceptr flag;
    CUstream side;
    int busy = *(const int *)arg;
    start();
    use(busy);
    OK(cuda->cuModuleLoadData(&module, saxpy_ptx));
    OK(cuda->cuModuleGetFunction(&spin, module, "spin"));
    OK(cuda->cuMemAlloc_v2(&flag, 4));
    OK(cuda->cuMemsetD32_v2(flag, 0, 1));
    OK(cuda->cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    OK(cuda->cuCtxSynchronize());
    void *args[] = {&flag};
    OK(cuda->cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, streams[busy], args, NULL));
    OK(cuda->cuMemcpyPeerAsync(memory[1], contexts[1], memory[0], contexts[0], LARGE,
                               streams[busy]));
    poll(NULL, 0, 4000); /* four times the session timeout */
    MUST(cuda->cuStreamQuery(streams[busy]) == CUDA_ERROR_NOT_READY);
    OK(cuda->cuStreamWriteValue32_v2(side, flag, 1, 0));
    OK(cuda->cuStreamSynchronize(streams[busy]));
    round_trip(0, 1, 1000, 3);
}

static void a_long_kernel_is_no_silence(void **state)
{
    (void)state;
    for (int busy = 0; busy < 2; busy++) {
        start_proxies(busy ? PROXY_TCP : PROXY_UNIX, NULL, "--session-timeout", "1");
        assert_true(in_child(NULL, slow_kernel, &busy));
        stop_proxies();
    }
}

/* ---- lines that are cut ---- */

static void copies_both_ways(void *arg)
{
    (void)arg;
    start();
    for (unsigned i = 0; i < 4; i++)
        round_trip((int)i % 2, !(i % 2), LARGE - i, i);
    for (unsigned i = 0; i < 30; i++)
        round_trip((int)i % 2, !(i % 2), 300000 + i, i);
}

static void lines_are_cut_again_and_again(void **state)
{
    static const proxy_link_t links[] = {PROXY_UNIX, PROXY_TCP, PROXY_TLS};
    (void)state;
    for (int i = 0; i < 3; i++) {
        start_proxies(links[i], "cut=3M", NULL, NULL);
        assert_true(in_child(NULL, copies_both_ways, NULL));
        int dialled = lines_with(proxies[0].log, "is dialled by another session") +
                      lines_with(proxies[1].log, "is dialled by another session");
        assert_true(dialled >= 20); /* 128 MiB in pieces of three */
        stop_proxies();
    }
}

/* ---- nobody reaches anybody ---- */

static void copies_in(void *arg)
{
    const char *folder = arg;
    int log = open("log", O_WRONLY | O_CREAT, 0600);
    MUST(chdir(folder) == 0 && log >= 0 && dup2(log, 2) == 2);
    copies_both_ways(NULL);
}

/* The client's addresses mean nothing to the sessions: copies go through the client, which says so once. */
static void sessions_do_not_reach_each_other(void **state)
{
    char folder[] = "/tmp/gable-test-XXXXXX", path[64], here[512];
    (void)state;
    start_proxies(PROXY_UNIX, NULL, NULL, NULL);
    assert_non_null(mkdtemp(folder));
    assert_non_null(getcwd(here, sizeof(here)));
    assert_int_equal(chdir(folder), 0);
    for (int i = 0; i < PROXIES; i++) {
        snprintf(path, sizeof(path), "s%d", i);
        assert_int_equal(symlink(proxies[i].endpoint + strlen("unix:"), path), 0);
    }
    assert_true(in_child("unix:s0,unix:s1,unix:s2", copies_in, folder));
    assert_int_equal(lines_with("log", "go through this program"), 1);
    for (int i = 0; i < PROXIES; i++)
        assert_int_equal(lines_with(proxies[i].log, "is dialled by another session"), 0);
    unlink("s0");
    unlink("s1");
    unlink("s2");
    unlink("log");
    assert_int_equal(chdir(here), 0);
    rmdir(folder);
    stop_proxies();
}

/* ---- strangers ---- */

/* The id of the proxy's first session. */
static uint64_t session_of(const proxy_t *proxy)
{
    char line[512];
    unsigned long long id = 0;
    FILE *log = fopen(proxy->log, "r");
    while (log && fgets(line, sizeof(line), log)) {
        const char *at = strstr(line, "session ");
        if (at && strstr(line, "is process") && sscanf(at, "session %llx", &id) == 1)
            break;
    }
    if (log)
        fclose(log);
    MUST(id);
    return id;
}

/* Dials a session as another one would. */
static gb_status_t intrude(const proxy_t *proxy, uint32_t number, int with_key)
{
    gb_endpoint_t endpoint;
    gb_link_t *link;
    gb_key_t zero = {{0}};
    uint8_t bytes[48] = "GABLEP2P\1"; /* a hello */
    uint64_t received;
    gb_credential_t c = {.service = GB_SERVICE_PEER,
                         .session = session_of(proxy),
                         .connection = number << 16,
                         .insecure = 1};
    MUST(gb_endpoint_parse(proxy->endpoint, 0, &endpoint) == GB_OK);
    if (with_key)
        MUST(gb_peer_key(&zero, 0, c.session, c.connection, &c.key) == GB_OK);
    gb_status_t st = gb_link_dial(&endpoint, &c, gb_now_ns() + 5000000000ull, &link);
    if (st != GB_OK)
        return st;
    st = gb_link_send(link, bytes, sizeof(bytes));
    if (st == GB_OK)
        st = gb_link_recv(link, &received, sizeof(received), gb_now_ns() + 5000000000ull);
    gb_link_close(link);
    return st;
}

static void strangers(void *arg)
{
    (void)arg;
    start();
    round_trip(0, 1, 100000, 1);
    for (int i = 0; i < 2; i++) {
        /* without the key it does not get past the proxy; with it (an insecure proxy has none to keep) not past
         * the session, which expects nobody: neither as the session that it is linked with, nor as another */
        MUST(intrude(&proxies[i], (uint32_t)!i, 0) == GB_ERR_UNAUTHORISED);
        MUST(intrude(&proxies[i], (uint32_t)!i, 1) == GB_ERR_LOST);
        MUST(intrude(&proxies[i], 7, 1) == GB_ERR_LOST);
        MUST(intrude(&proxies[i], 63, 1) == GB_ERR_LOST);
        MUST(intrude(&proxies[i], 65535, 1) == GB_ERR_LOST);
        uint64_t end = gb_now_ns() + 5000000000ull;
        while (lines_with(proxies[i].log, "refused: ") < 5 && gb_now_ns() < end)
            poll(NULL, 0, 5);
        MUST(lines_with(proxies[i].log, "refused: ") == 5);
        round_trip(0, 1, 100000, 2);
        round_trip(1, 0, 100000, 2);
    }
}

static void strangers_are_refused(void **state)
{
    (void)state;
    start_proxies(PROXY_UNIX, NULL, NULL, NULL);
    assert_true(in_child(NULL, strangers, NULL));
    stop_proxies();
    start_proxies(PROXY_TCP, NULL, NULL, NULL);
    assert_true(in_child(NULL, strangers, NULL));
    stop_proxies();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(sessions_do_not_reach_each_other),
        cmocka_unit_test(lines_are_cut_again_and_again),
        cmocka_unit_test(sessions_are_killed),
        cmocka_unit_test(proxies_are_killed),
        cmocka_unit_test(sessions_are_silent),
        cmocka_unit_test(a_long_kernel_is_no_silence),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    need_compiler("cpu");
    setenv("GABLE_CPU_THREADS", "2", 0);
    setenv("GABLE_CPU_MEMORY", "256M", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

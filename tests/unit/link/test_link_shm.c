/* The link in shared memory: a peer that writes nonsense, memory that is none, sleeping and waking, and a
 * peer that dies. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/link/gb_link_impl.h"
#include "tests/unit/link/test_support.h"

/* Both ends in this process, and the memory between them. */
static int pair(gb_link_t **a, gb_link_t **b)
{
    int memory;
    assert_int_equal(gb_link_pair(a, b), GB_OK);
    assert_int_equal(gb_shm_create(&memory), GB_OK);
    assert_int_equal(gb_shm_attach(*a, memory, 0), GB_OK);
    assert_int_equal(gb_shm_attach(*b, memory, 1), GB_OK);
    return memory;
}

static void waiting(void **state)
{
    gb_link_t *a, *b;
    int ready = 0, wake[2];
    char text[4];
    (void)state;
    close(pair(&a, &b));
    assert_int_equal(pipe(wake), 0);
    assert_int_equal(gb_link_wait(a, GB_LINK_READABLE, -1, 0, &ready), GB_ERR_AGAIN);
    assert_int_equal(gb_link_wait(a, GB_LINK_READABLE, wake[0], 0, &ready), GB_ERR_UNSUPPORTED);
    assert_int_equal(gb_link_wait(a, GB_LINK_READABLE, -1, in_seconds(0.01), &ready),
                     GB_ERR_TIMEOUT);
    assert_int_equal(gb_link_wait(a, GB_LINK_WRITABLE, -1, GB_NEVER, &ready), GB_OK);
    assert_int_equal(ready, GB_LINK_WRITABLE);
    assert_int_equal(gb_link_send(b, "abcd", 4), GB_OK);
    assert_int_equal(gb_link_wait(a, GB_LINK_READABLE, -1, GB_NEVER, &ready), GB_OK);
    assert_int_equal(ready, GB_LINK_READABLE);
    assert_int_equal(gb_link_recv(a, text, 1, 0), GB_OK);
    assert_int_equal(gb_link_wait(a, GB_LINK_READABLE, -1, 0, &ready), GB_OK);
    assert_int_equal(gb_link_recv(a, text, 3, 0), GB_OK);
    gb_link_close(a);
    gb_link_close(b);
    close(wake[0]);
    close(wake[1]);
}

/* Whatever the peer writes over counters and bells: an error, no read or write outside the rings. */
static void nonsense_is_refused(void **state)
{
    char text[4096];
    size_t got;
    struct stat facts;
    (void)state;
    for (int value = 1; value < 255; value += 126) {
        gb_link_t *a, *b;
        int memory = pair(&a, &b);
        assert_int_equal(fstat(memory, &facts), 0);
        uint8_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
        assert_true(shared != MAP_FAILED);
        memset(shared, value, 4096);
        assert_int_equal(gb_link_recv_some(a, text, sizeof(text), 0, &got), GB_ERR_PROTOCOL);
        assert_int_equal(gb_link_recv_some(a, text, sizeof(text), 0, &got), GB_ERR_LOST);
        /* the sender looks again only when what it knows to be free is used up */
        gb_status_t status = GB_OK;
        for (int i = 0; i < 1000 && status == GB_OK; i++)
            status = gb_link_send(b, text, sizeof(text));
        assert_int_equal(status, GB_ERR_PROTOCOL);
        assert_int_equal(gb_link_send(b, text, sizeof(text)), GB_ERR_LOST);
        munmap(shared, 4096);
        close(memory);
        gb_link_close(a);
        gb_link_close(b);
    }
}

static gb_status_t attach(int memory)
{
    gb_link_t *a, *b;
    assert_int_equal(gb_link_pair(&a, &b), GB_OK);
    gb_status_t status = gb_shm_attach(a, memory, 1);
    gb_link_close(a);
    gb_link_close(b);
    return status;
}

/* Memory whose size could change would let the peer kill this process (SIGBUS). */
static void only_sealed_memory(void **state)
{
    struct stat facts;
    int good;
    (void)state;
    assert_int_equal(gb_shm_create(&good), GB_OK);
    assert_int_equal(fstat(good, &facts), 0);
    assert_int_equal(attach(good), GB_OK);
    assert_int_equal(ftruncate(good, 0), -1);
    int open = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(open, facts.st_size), 0);
    assert_int_equal(attach(open), GB_ERR_PROTOCOL);
    int small = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(small, 4096), 0);
    assert_int_equal(fcntl(small, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    assert_int_equal(attach(small), GB_ERR_PROTOCOL);
    int file = fileno(tmpfile());
    assert_int_equal(ftruncate(file, facts.st_size), 0);
    assert_int_equal(attach(file), GB_ERR_PROTOCOL);
    close(good);
    close(open);
    close(small);
}

static void memory_must_come(void **state)
{
    int ends[2], memory;
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(gb_shm_receive(ends[0], in_seconds(0.01), &memory), GB_ERR_TIMEOUT);
    assert_int_equal(send(ends[1], "m", 1, 0), 1);
    assert_int_equal(gb_shm_receive(ends[0], in_seconds(5), &memory), GB_ERR_PROTOCOL);
    close(ends[1]);
    assert_int_equal(gb_shm_receive(ends[0], in_seconds(5), &memory), GB_ERR_LOST);
    close(ends[0]);
}

static long switches(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
    return usage.ru_nvcsw + usage.ru_nivcsw;
}

typedef struct {
    gb_link_t *link;
    gb_status_t status;
    long slept;
} sleeper_t;

static void *sleep_main(void *arg)
{
    sleeper_t *s = arg;
    uint8_t byte;
    long before = switches();
    s->status = gb_link_recv(s->link, &byte, 1, GB_NEVER);
    s->slept = switches() - before;
    return NULL;
}

/* Who is watched sleeps through: one sleep, however long, and a byte wakes it. */
static void idle_uses_no_cpu(void **state)
{
    gb_link_t *a, *b;
    pthread_t thread;
    (void)state;
    close(pair(&a, &b));
    gb_link_set_watched(a);
    sleeper_t s = {.link = a};
    assert_int_equal(pthread_create(&thread, NULL, sleep_main, &s), 0);
    poll(NULL, 0, 500);
    assert_int_equal(gb_link_send(b, "x", 1), GB_OK);
    pthread_join(thread, NULL);
    assert_int_equal(s.status, GB_OK);
    assert_true(s.slept <= 3); /* the start of the thread may be interrupted */
    gb_link_close(a);
    gb_link_close(b);
}

typedef struct {
    gb_link_t *link;
    gb_status_t status;
    size_t size;
    long slept;
    uint8_t *bytes;
} reader_t;

static void *read_main(void *arg)
{
    reader_t *r = arg;
    r->status = gb_link_recv(r->link, r->bytes, 1, GB_NEVER);
    long before = switches();
    if (r->status == GB_OK)
        r->status = gb_link_recv(r->link, r->bytes, r->size, GB_NEVER);
    r->slept = switches() - before;
    return NULL;
}

/* Who is woken takes the core from a thread of this class at once. */
static void set_class(int policy)
{
    const struct sched_param none = {0};
    assert_int_equal(pthread_setschedparam(pthread_self(), policy, &none), 0);
}

/* A long message to a receiver on the same core interrupts the sender at its end, not after every stride. */
static void one_core_is_rung_once(void **state)
{
    enum { SIZE = 768 << 10 };
    static uint8_t sent[SIZE], got[SIZE];
    cpu_set_t all, one;
    gb_link_t *a, *b;
    pthread_t thread;
    long least = LONG_MAX;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0); /* the thread inherits it */
    close(pair(&a, &b));
    gb_link_set_watched(a);
    fill_bytes(sent, SIZE, 5);
    for (int i = 0; i < 20 && least > 3; i++) { /* others may interrupt both */
        reader_t r = {.link = a, .size = SIZE, .bytes = got};
        assert_int_equal(pthread_create(&thread, NULL, read_main, &r), 0);
        assert_int_equal(gb_link_send(b, sent, 1), GB_OK);
        poll(NULL, 0, 10);
        set_class(SCHED_IDLE);
        assert_int_equal(gb_link_send(b, sent, SIZE), GB_OK);
        set_class(SCHED_OTHER);
        pthread_join(thread, NULL);
        assert_int_equal(r.status, GB_OK);
        assert_memory_equal(got, sent, SIZE);
        least = r.slept < least ? r.slept : least;
    }
    assert_true(least <= 3);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    gb_link_close(a);
    gb_link_close(b);
}

/* A peer process that dies without a word: the sleeper finds out, by itself or told by its watcher. */
static void peer_is_killed(void **state)
{
    (void)state;
    for (int watched = 0; watched < 2; watched++) {
        ends_t e = ends_open(LINE_SHARED);
        pthread_t thread;
        sleeper_t s = {.link = e.client};
        char text[4] = "";
        pid_t pid = fork();
        if (pid == 0) { /* holds the other end of the socket; the memory is not for children */
            gb_link_abandon(e.client);
            for (;;)
                pause();
        }
        assert_int_equal(gb_link_send(e.server, "last", 4), GB_OK);
        close(gb_link_fd(e.server));
        e.server->fd = -1;
        if (watched)
            gb_link_set_watched(e.client);
        assert_int_equal(gb_link_recv(e.client, text, 4, in_seconds(5)), GB_OK);
        assert_int_equal(pthread_create(&thread, NULL, sleep_main, &s), 0);
        uint64_t start = gb_now_ns();
        assert_int_equal(kill(pid, SIGKILL), 0);
        if (watched) {
            struct pollfd p = {gb_link_fd(e.client), POLLRDHUP, 0};
            assert_int_equal(poll(&p, 1, 5000), 1);
            gb_link_peer_gone(e.client);
        }
        pthread_join(thread, NULL);
        assert_int_equal(s.status, GB_ERR_LOST);
        assert_true(gb_now_ns() - start < 2000000000ull);
        assert_int_equal(gb_link_send(e.client, "x", 1), GB_ERR_LOST);
        waitpid(pid, NULL, 0);
        ends_close(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(only_sealed_memory),
        cmocka_unit_test(memory_must_come),
        cmocka_unit_test(idle_uses_no_cpu),
        cmocka_unit_test(one_core_is_rung_once),
        cmocka_unit_test(peer_is_killed),
    };
    return cmocka_run_group_tests_name("link_shm", tests, NULL, NULL);
}

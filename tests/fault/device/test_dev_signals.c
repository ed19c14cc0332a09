/* The program's own signals beside the device's: faults of the program go where they went without it,
 * however its handler came to be, and kernels never end the program. Each case is a process. */
#include "device_kernels.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HANDLED = 33, WRONG = 44 };

static volatile char *nowhere;
static volatile int on_alternate_stack;
static char alternate[64 << 10];

/* The program's handler: knows its own fault by the address. */
static void on_segv(int number, siginfo_t *info, void *context)
{
    char here;
    (void)number;
    (void)context;
    on_alternate_stack = &here >= alternate && &here < alternate + sizeof(alternate);
    _exit(info->si_addr == nowhere ? HANDLED + on_alternate_stack : WRONG);
}

static void on_segv_plain(int number)
{
    _exit(number == SIGSEGV ? HANDLED : WRONG);
}

static void install(int flags, int plain)
{
    struct sigaction mine = {.sa_flags = flags};
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
    if (plain)
        mine.sa_handler = on_segv_plain;
    else
        mine.sa_sigaction = on_segv;
    if (flags & SA_ONSTACK)
        sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &mine, NULL);
}

static void use_device(void)
{
    CUcontext context;
    void *none = NULL;
    OK(device_setup(&none));
    OK(cu->cuCtxCreate_v2(&context, 0, 0));
    OK(run_one(kernel("nothing"), NULL));
    OK(cu->cuCtxSynchronize_v2(NULL));
}

/* A kernel's wild store: 700, and a new context works. */
static void fault_on_device(void)
{
    CUcontext context, old;
    CUdeviceptr wild = 64;
    void *params[] = {&wild};
    OK(cu->cuCtxGetCurrent(&old));
    OK(cu->cuCtxCreate_v2(&context, 0, 0));
    OK(run_one(kernel("poke"), params));
    FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cu->cuCtxSynchronize_v2(NULL));
    OK(cu->cuCtxDestroy_v2(context));
    OK(cu->cuCtxSetCurrent(old));
    OK(run_one(kernel("nothing"), NULL));
    OK(cu->cuCtxSynchronize_v2(NULL));
}

static void own_fault(void)
{
    *nowhere = 1;
    _exit(WRONG);
}

static int run(void (*body)(int), int argument, int *signal_out)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        body(argument);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    *signal_out = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

typedef struct {
    int flags;
    int plain;
    int want;
} handler_t;

static const handler_t handlers[] = {
    {SA_SIGINFO, 0, HANDLED},
    {SA_SIGINFO | SA_ONSTACK, 0, HANDLED + 1},
    {SA_SIGINFO | SA_RESTART | SA_NODEFER, 0, HANDLED},
    {0, 1, HANDLED},
};
enum { HANDLERS = sizeof(handlers) / sizeof(handlers[0]) };

static void before(int i)
{
    install(handlers[i].flags, handlers[i].plain);
    use_device();
    fault_on_device();
    own_fault();
}

static void after(int i)
{
    use_device();
    install(handlers[i].flags, handlers[i].plain);
    fault_on_device();
    own_fault();
}

static void *fault_in_thread(void *argument)
{
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
    if (argument)
        sigaltstack(&stack, NULL);
    own_fault();
    return NULL;
}

/* The fault comes in a thread that the device knows nothing of, while kernels run. */
static void in_a_thread(int i)
{
    pthread_t thread;
    install(handlers[i].flags, handlers[i].plain);
    use_device();
    for (int n = 0; n < 8; n++)
        OK(run_one(kernel("add_up"), NULL));
    pthread_create(&thread, NULL, fault_in_thread,
                   handlers[i].flags & SA_ONSTACK ? alternate : NULL);
    pthread_join(thread, NULL);
}

static void handlers_keep_their_faults(void **state)
{
    static void (*const bodies[])(int) = {before, after, in_a_thread};
    (void)state;
    for (int b = 0; b < 3; b++) {
        for (int i = 0; i < HANDLERS; i++) {
            int signal_number, code = run(bodies[b], i, &signal_number);
            if (code != handlers[i].want)
                fail_msg("case %d, handler %d: exit code %d, signal %d", b, i, code, signal_number);
        }
    }
}

static void without_handler(int ignored)
{
    struct sigaction none = {.sa_handler = ignored ? SIG_IGN : SIG_DFL};
    sigaction(SIGSEGV, &none, NULL);
    use_device();
    fault_on_device();
    own_fault();
}

/* Without a handler a fault of the program ends it, as ever. */
static void without_a_handler_the_program_ends(void **state)
{
    int signal_number;
    (void)state;
    for (int ignored = 0; ignored < 2; ignored++) {
        assert_int_equal(run(without_handler, ignored, &signal_number), -1);
        assert_int_equal(signal_number, SIGSEGV);
    }
}

/* Unchecked code that faults is caught by the second net: with the program's handler above it too. */
static void unchecked(int late)
{
    setenv("GABLE_CPU_CHECKS", "off", 1);
    if (!late)
        install(SA_SIGINFO, 0);
    use_device();
    if (late)
        install(SA_SIGINFO, 0);
    for (int i = 0; i < 20; i++)
        fault_on_device();
    own_fault();
}

static void page_faults_of_kernels_are_errors(void **state)
{
    int signal_number;
    (void)state;
    for (int late = 0; late < 2; late++)
        assert_int_equal(run(unchecked, late, &signal_number), HANDLED);
}

/* A handler that goes on: the signal was sent by somebody, not by an instruction. */
static volatile sig_atomic_t received;

static void count(int number)
{
    (void)number;
    received++;
}

static void sent_signals(int unused)
{
    struct sigaction mine = {.sa_handler = count};
    (void)unused;
    sigaction(SIGSEGV, &mine, NULL);
    use_device();
    for (int i = 1; i <= 3; i++) {
        OK(run_one(kernel("nothing"), NULL));
        raise(SIGSEGV);
        if (received != i)
            _exit(WRONG);
        OK(cu->cuCtxSynchronize_v2(NULL));
    }
    _exit(HANDLED);
}

static void signals_that_are_sent_are_the_programs(void **state)
{
    int signal_number;
    (void)state;
    assert_int_equal(run(sent_signals, 0, &signal_number), HANDLED);
}

/* Every kind of error in turn, each followed by a new context in which kernels run: the process that
 * has seen a hundred faults is as good as new. */
static void all_errors(int unused)
{
    static const struct {
        const char *name;
        CUdeviceptr at;
        CUresult error;
    } table[] = {{"poke", 0, CUDA_ERROR_ILLEGAL_ADDRESS},
                 {"poke", ~(CUdeviceptr)0 - 3, CUDA_ERROR_ILLEGAL_ADDRESS},
                 {"give_up", 0, CUDA_ERROR_LAUNCH_FAILED},
                 {"poke", 2, CUDA_ERROR_MISALIGNED_ADDRESS}};
    (void)unused;
    use_device();
    for (int i = 0; i < 100; i++) {
        CUcontext context;
        CUdeviceptr memory, at = table[i % 4].at;
        OK(cu->cuCtxCreate_v2(&context, 0, 0));
        OK(cu->cuMemAlloc_v2(&memory, 64));
        if (table[i % 4].error == CUDA_ERROR_MISALIGNED_ADDRESS)
            at += memory;
        void *params[] = {&at};
        OK(run_one(kernel(table[i % 4].name), params));
        FAILS(table[i % 4].error, cu->cuCtxSynchronize_v2(NULL));
        OK(cu->cuCtxDestroy_v2(context));
        OK(cu->cuCtxCreate_v2(&context, 0, 0));
        OK(cu->cuMemAlloc_v2(&memory, 64));
        params[0] = &memory;
        OK(run_one(kernel("poke"), params));
        OK(cu->cuCtxSynchronize_v2(NULL));
        assert_int_equal(*(uint32_t *)memory, 7);
        OK(cu->cuCtxDestroy_v2(context));
    }
    _exit(HANDLED);
}

static void a_hundred_faults(void **state)
{
    int signal_number;
    (void)state;
    assert_int_equal(run(all_errors, 0, &signal_number), HANDLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handlers_keep_their_faults),
        cmocka_unit_test(without_a_handler_the_program_ends),
        cmocka_unit_test(page_faults_of_kernels_are_errors),
        cmocka_unit_test(signals_that_are_sent_are_the_programs),
        cmocka_unit_test(a_hundred_faults),
    };
    setenv("GABLE_LOG", "error", 1);
    nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

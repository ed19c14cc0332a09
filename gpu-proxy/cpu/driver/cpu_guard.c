#include "gpu-proxy/cpu/driver/cpu_guard.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include "gpu-proxy/cpu/driver/cpu_shared.h"

static const int guarded[] = {SIGSEGV, SIGBUS, SIGFPE};
enum { GUARDED = sizeof(guarded) / sizeof(guarded[0]), STACK_BYTES = 64 << 10 };

static struct sigaction previous[GUARDED];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of installing */
static _Atomic int64_t looked;                           /* when; 0: never */
static __thread cpu_guard_t *current __attribute__((tls_model("initial-exec")));
static __thread int passing; /* a handler of the program's is under way */
static __thread void *own_stack;

/* Hands the signal to whoever had it before us. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    const struct sigaction *old = &previous[0];
    for (int i = 0; i < GUARDED; i++)
        if (guarded[i] == number)
            old = &previous[i];
    /* A handler that hands on to ours, which it found in its place, must not get it back for ever. */
    int again = passing++;
    if (again || old->sa_handler == SIG_DFL || old->sa_handler == SIG_IGN) {
        /* The default action: the faulting instruction runs again and ends the process. */
        signal(number, SIG_DFL);
    } else if (old->sa_flags & SA_SIGINFO) {
        old->sa_sigaction(number, info, context);
    } else {
        old->sa_handler(number);
    }
    passing--;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    cpu_guard_t *guard = current;
    if (number == SIGSEGV && info->si_code > 0 && cpu_shared_wait((uint64_t)info->si_addr))
        return;
    /* si_code <= 0: sent by a process, not by an instruction of ours. */
    if (!guard || info->si_code <= 0) {
        pass_on(number, info, context);
        return;
    }
    current = NULL;
    /* The jump leaves the handler for good: with the mask that the work had. */
    pthread_sigmask(SIG_SETMASK, &((const ucontext_t *)context)->uc_sigmask, NULL);
    guard->signal = number;
    guard->address = info->si_addr;
    siglongjmp(guard->jump, 1);
}

static void put_in_place(int i)
{
    struct sigaction action, found;
    if (sigaction(guarded[i], NULL, &found) == 0 && (found.sa_flags & SA_SIGINFO) &&
        found.sa_sigaction == on_signal)
        return;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    previous[i] = found;
    sigaction(guarded[i], &action, NULL);
}

void cpu_guard_install(bool now)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time); /* ticks every few milliseconds */
    int64_t tick = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
    if (!now && atomic_load_explicit(&looked, memory_order_relaxed) == tick)
        return;
    atomic_store_explicit(&looked, tick, memory_order_relaxed);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < GUARDED; i++)
        put_in_place(i);
    pthread_mutex_unlock(&lock);
}

void cpu_guard_thread_start(void)
{
    stack_t stack = {.ss_size = STACK_BYTES};
    stack.ss_sp = own_stack = malloc(STACK_BYTES);
    if (stack.ss_sp)
        sigaltstack(&stack, NULL);
}

void cpu_guard_thread_end(void)
{
    stack_t off = {.ss_flags = SS_DISABLE};
    sigaltstack(&off, NULL);
    free(own_stack);
    own_stack = NULL;
}

void cpu_guard_set(cpu_guard_t *guard)
{
    current = guard;
}

CUresult cpu_guard_result(const cpu_guard_t *guard)
{
    return guard->signal == SIGFPE ? CUDA_ERROR_LAUNCH_FAILED : CUDA_ERROR_ILLEGAL_ADDRESS;
}

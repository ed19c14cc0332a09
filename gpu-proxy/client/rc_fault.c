/* The handler runs on the thread that touched the page, in the middle of the program's own code, so that
 * none of this library's locks is held by it; that is why it may send frames and wait for the answer. */
#include "gpu-proxy/client/rc_fault.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before; /* the handler that was there */

static int is_write(const void *context)
{
#if defined(__x86_64__)
    const ucontext_t *u = context;
    return (u->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
    (void)context;
    return -1; /* not known: a page that can be read was written */
#endif
}

/* As if ours were not there. */
static void chain(int number, siginfo_t *info, void *context)
{
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
        /* Back to the instruction, which faults again and ends the process. */
        struct sigaction plain = {.sa_handler = SIG_DFL};
        sigaction(number, &plain, NULL);
    } else {
        before.sa_handler(number);
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    int ours = info->si_code == SEGV_ACCERR &&
               rc_shared_touched((uint64_t)(uintptr_t)info->si_addr, is_write(context));
    errno = saved;
    if (!ours)
        chain(number, info, context);
}

CUresult rc_fault_watch(void)
{
    struct sigaction now, own = {.sa_sigaction = on_fault};
    /* Not deferred: what the handler does may fault in its turn, as any code of the program may. */
    own.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&own.sa_mask);
    pthread_mutex_lock(&lock);
    int failed = sigaction(SIGSEGV, NULL, &now);
    if (!failed && !((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault)) {
        before = now;
        own.sa_flags |= now.sa_flags & SA_ONSTACK; /* what the program's needs */
        failed = sigaction(SIGSEGV, &own, NULL);
    }
    pthread_mutex_unlock(&lock);
    return failed ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

/* The filter is a list of what is refused, not of what is allowed: the session uses LLVM, OpenSSL, sockets
 * and threads, whose needs differ from release to release, while what an intruder wants does not. */
#include "gpu-proxy/session/px_confine.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/core/gb_log.h"

#if defined(__x86_64__)
#define PX_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define PX_ARCH AUDIT_ARCH_AARCH64
#else
#error "px_confine: name this machine's audit architecture"
#endif

gb_status_t px_confine_process(int last_fd)
{
    if (close_range((unsigned)last_fd + 1, ~0u, 0))
        return gb_fail_errno(GB_ERR_IO, errno, "close_range");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_DUMPABLE, 0))
        return gb_fail_errno(GB_ERR_IO, errno, "prctl");
    return GB_OK;
}

static const int REFUSED[] = {
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setgroups,
    SYS_capset,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_open_by_handle_at,
    SYS_swapon,
    SYS_swapoff,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_sethostname,
    SYS_setdomainname,
};

/* The signals that kill() may send: none, which asks whether a process is there. */
enum { KILL_STEPS = 4 };

enum { REFUSED_COUNT = sizeof REFUSED / sizeof REFUSED[0], FIXED = 5 + KILL_STEPS };

static size_t build(struct sock_filter *out)
{
    size_t n = 0;
    const struct sock_filter load_arch =
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    const struct sock_filter load_number =
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    out[n++] = load_arch;
    /* calls of another architecture have other numbers: all refused */
    out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PX_ARCH, 0,
                                            (unsigned char)(REFUSED_COUNT + KILL_STEPS + 2));
    out[n++] = load_number;
    out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 0, 3);
    out[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                            offsetof(struct seccomp_data, args[1]));
    out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0,
                                            (unsigned char)(REFUSED_COUNT + 2));
    out[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    for (size_t i = 0; i < REFUSED_COUNT; i++)
        out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)REFUSED[i],
                                                (unsigned char)(REFUSED_COUNT - i), 0);
    out[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    out[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    return n;
}

void px_confine_calls(void)
{
    struct sock_filter filter[REFUSED_COUNT + FIXED + 1];
    struct sock_fprog program = {.filter = filter};
    program.len = (unsigned short)build(filter);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
        gb_log(GB_LOG_WARN, "no system call filter for this session: %s", strerror(errno));
}

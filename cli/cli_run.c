/* cli_run.c - runs a program with leased GPUs: lease, environment, signals, exit code.
 *
 * The program is a child and not an exec, because the lease has to be renewed while it runs and given
 * back at its end. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "common/core/gb_path.h"

extern char **environ;

typedef struct {
    cli_connection_t connection;
    int64_t gpus, memory, wait_s;
    const char *device;
    bool local;
} options_t;

static const gb_opt_t OPTIONS[] = {
    {"server", GB_OPT_STRING, offsetof(options_t, connection.server), "127.0.0.1:7070",
     "GABLE_SERVER", "HOST:PORT", "control port of ps-server"},
    {"tls-dir", GB_OPT_STRING, offsetof(options_t, connection.tls_dir), "", "GABLE_TLS_DIR", "DIR",
     "certificates made by `gable ca issue`"},
    {"timeout", GB_OPT_INT, offsetof(options_t, connection.timeout_ms), "5000", NULL, "MS",
     "longest wait for an answer"},
    {"gpus", GB_OPT_INT, offsetof(options_t, gpus), "1", NULL, "N", "how many GPUs"},
    {"memory", GB_OPT_INT, offsetof(options_t, memory), "0", NULL, "BYTES",
     "needed on each GPU, and its limit there; 0: all"},
    {"device", GB_OPT_STRING, offsetof(options_t, device), "", NULL, "PROXY/INDEX",
     "this GPU and no other (see gable devices)"},
    {"wait", GB_OPT_INT, offsetof(options_t, wait_s), "0", NULL, "SECONDS",
     "wait so long for GPUs to become free"},
    {"local", GB_OPT_FLAG, offsetof(options_t, local), "false", NULL, NULL,
     "no server, no lease: the software device of this machine"},
    {NULL},
};

static const gb_opt_table_t TABLE = {"gable run", "gable run [options] -- PROGRAM [arguments]",
                                     "Runs any CUDA program on GPUs of the cluster. The program "
                                     "sees them as its devices 0, 1, ...;\n"
                                     "its exit code is passed on.",
                                     OPTIONS};

/* ---- environment ---- */

/* Puts the folder of an installed library in front of LD_LIBRARY_PATH. */
static gb_status_t prepend_library(const char *library)
{
    char path[4096], value[16384];
    gb_status_t status = gb_path_installed(library, path, sizeof path);
    if (status != GB_OK)
        return status;
    *strrchr(path, '/') = 0;
    const char *old = getenv("LD_LIBRARY_PATH");
    int size =
        snprintf(value, sizeof value, "%s%s%s", path, old && *old ? ":" : "", old ? old : "");
    if (size < 0 || (size_t)size >= sizeof value)
        return gb_fail(GB_ERR_LIMIT, "LD_LIBRARY_PATH is too long");
    if (setenv("LD_LIBRARY_PATH", value, 1))
        return gb_fail_errno(GB_ERR_IO, errno, "cannot set LD_LIBRARY_PATH");
    return GB_OK;
}

static gb_status_t set_libraries(const options_t *o)
{
    /* The CUDA runtime is an extra: many programs bring their own. */
    if (prepend_library("lib/gable/runtime/libcudart.so.13") == GB_ERR_LIMIT)
        return GB_ERR_LIMIT;
    return prepend_library(o->local ? "lib/gable/cpu/libcuda.so.1"
                                    : "lib/gable/remote/libcuda.so.1");
}

/* ---- lease ---- */

typedef struct {
    gb_cluster_t *cluster;
    gb_cluster_lease_t *lease;
    char folder[64], file[80];
} grant_t;

/* Waits half a second, or until one of the signals that ends the wait for GPUs. */
static gb_status_t nap(const sigset_t *all)
{
    sigset_t ending = *all;
    sigdelset(&ending, SIGCHLD);
    struct timespec half = {0, 500000000};
    int number = sigtimedwait(&ending, NULL, &half);
    if (number > 0)
        return gb_fail(GB_ERR_CANCELLED, "interrupted (%s) while waiting for GPUs",
                       strsignal(number));
    return GB_OK;
}

static gb_status_t acquire(const options_t *o, const sigset_t *all, grant_t *grant)
{
    gb_lease_request_t request = {.gpus = (uint32_t)o->gpus,
                                  .memory = (uint64_t)o->memory,
                                  .device = *o->device ? o->device : NULL};
    uint64_t end = gb_now_ns() + (uint64_t)o->wait_s * 1000000000u;
    for (;;) {
        gb_status_t status = gb_cluster_lease_acquire(grant->cluster, &request, &grant->lease);
        if ((status != GB_ERR_LIMIT && status != GB_ERR_BUSY) || gb_now_ns() >= end)
            return status;
        status = nap(all);
        if (status != GB_OK)
            return status;
    }
}

static gb_status_t make_folder(grant_t *grant)
{
    snprintf(grant->folder, sizeof grant->folder, "/tmp/gable-run-XXXXXX");
    if (!mkdtemp(grant->folder)) {
        grant->folder[0] = 0;
        return gb_fail_errno(GB_ERR_IO, errno, "cannot make a folder in /tmp");
    }
    snprintf(grant->file, sizeof grant->file, "%s/lease", grant->folder);
    /* Before any thread runs: the environment is not theirs to read then. */
    if (setenv("GABLE_LEASE", grant->file, 1))
        return gb_fail_errno(GB_ERR_IO, errno, "cannot set GABLE_LEASE");
    return GB_OK;
}

static gb_status_t take_lease(const options_t *o, const sigset_t *all, grant_t *grant)
{
    gb_status_t status = cli_connect(&o->connection, &grant->cluster);
    if (status == GB_OK)
        status = acquire(o, all, grant);
    if (status == GB_OK)
        status = gb_cluster_lease_write(grant->lease, grant->file);
    return status;
}

static void give_back(grant_t *grant)
{
    gb_cluster_lease_release(grant->lease);
    gb_cluster_close(grant->cluster);
    if (*grant->folder) {
        unlink(grant->file);
        rmdir(grant->folder);
    }
}

/* ---- the program ---- */

static const int FORWARDED[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

/* Blocked in every thread, so that one place takes them all. */
static void block_signals(sigset_t *all, sigset_t *before)
{
    sigemptyset(all);
    sigaddset(all, SIGCHLD);
    for (size_t i = 0; i < sizeof FORWARDED / sizeof FORWARDED[0]; i++)
        sigaddset(all, FORWARDED[i]);
    pthread_sigmask(SIG_BLOCK, all, before);
}

/* The environment as it is now, for the program: libraries of this process add to theirs later. */
static char **copy_environment(void)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **copy = calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy && i < count; i++)
        copy[i] = environ[i];
    return copy;
}

static int spawn(char **argv, char **environment, const sigset_t *mask, pid_t *out)
{
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE); /* ignored here, not there */
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, mask);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int error = posix_spawnp(out, argv[0], NULL, &attributes, argv, environment);
    posix_spawnattr_destroy(&attributes);
    return error;
}

/* The exit code of a shell: 128 + signal for a program that one ended. */
static int exit_code(int state)
{
    return WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
}

static int wait_for(pid_t child, const sigset_t *all)
{
    for (;;) {
        siginfo_t info;
        int number = sigwaitinfo(all, &info), state;
        if (number == SIGCHLD && waitpid(child, &state, WNOHANG) == child)
            return exit_code(state);
        /* The terminal's own signals reach the child without us: pass on only what was sent here. */
        if (number > 0 && number != SIGCHLD && info.si_code != SI_KERNEL)
            kill(child, number);
    }
}

static int run_program(char **argv, char **environment, const sigset_t *all, const sigset_t *before)
{
    pid_t child;
    int error = spawn(argv, environment, before, &child);
    if (!error)
        return wait_for(child, all);
    gb_complain("cannot run %s: %s", argv[0], strerror(error));
    return error == ENOENT ? 127 : 126;
}

static gb_status_t check(const options_t *o, int operands)
{
    if (!operands)
        return gb_fail(GB_ERR_INVALID, "no program: write gable run [options] -- PROGRAM");
    if (o->gpus < 1 || o->gpus > 1024)
        return gb_fail(GB_ERR_INVALID, "--gpus: give a number from 1 to 1024");
    if (o->memory < 0 || o->wait_s < 0)
        return gb_fail(GB_ERR_INVALID, "--memory and --wait cannot be negative");
    return GB_OK;
}

static void set_local(const options_t *o)
{
    char count[24];
    snprintf(count, sizeof count, "%lld", (long long)o->gpus);
    setenv("GABLE_CPU_DEVICES", count, 1);
    unsetenv("GABLE_LEASE");
}

int cli_run(int argc, char **argv)
{
    options_t o;
    int first, code;
    sigset_t all, before;
    grant_t grant;
    memset(&grant, 0, sizeof grant);
    if (cli_parse(&TABLE, argc, argv, 1, &o, &first, &code))
        return code;
    gb_status_t status = check(&o, argc - first);
    if (status == GB_OK)
        status = set_libraries(&o);
    if (status != GB_OK)
        return cli_failed(status);
    block_signals(&all, &before);
    if (o.local)
        set_local(&o);
    else
        status = make_folder(&grant);
    char **environment = copy_environment();
    if (!environment)
        status = gb_fail(GB_ERR_NO_MEMORY, "no memory for the environment");
    if (status == GB_OK && !o.local)
        status = take_lease(&o, &all, &grant);
    code = status == GB_OK ? run_program(argv + first, environment, &all, &before)
                           : cli_failed(status);
    give_back(&grant);
    free(environment);
    return code;
}

/* The kernel cache on disk: what is cached needs no compiler, what is damaged or foreign is made anew.
 * Every step is a process of its own, as users have it. */
#include "device_kernels.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/gable-cache-XXXXXX";

enum { COMPILED = 10, LOADED = 11, WRONG = 12 };

static int llvm_is_loaded(void)
{
    char line[512];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps))
        found |= strstr(line, "libLLVM") != NULL || strstr(line, "libgable-jit") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

/* Runs a kernel from the start; tells by its exit code whether the compiler was needed. */
static void child(unsigned block)
{
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUdeviceptr out;
    uint32_t bias = 3, n = 64, host[64];
    void *none = NULL;
    if (device_setup(&none) || cu->cuCtxCreate_v2(&context, 0, 0) ||
        cu->cuModuleLoadData(&module, device_kernels) ||
        cu->cuModuleGetFunction(&function, module, "count_up") ||
        cu->cuMemAlloc_v2(&out, sizeof(host)))
        _exit(WRONG);
    void *params[] = {&out, &bias, &n};
    if (cu->cuLaunchKernel(function, 64 / block, 1, 1, block, 1, 1, 0, NULL, params, NULL) ||
        cu->cuMemcpyDtoH_v2(host, out, sizeof(host)))
        _exit(WRONG);
    for (uint32_t i = 0; i < 64; i++)
        if (host[i] != i + 3)
            _exit(WRONG);
    _exit(llvm_is_loaded() ? COMPILED : LOADED);
}

static int run_program(unsigned block)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        child(block);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Path of the n-th entry, in no order; returns how many there are. */
static int entries(int n, char *path)
{
    int count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *item = readdir(dir); item; item = readdir(dir)) {
        if (!strstr(item->d_name, ".kernel"))
            continue;
        if (count++ == n && path)
            snprintf(path, 512, "%s/%s", folder, item->d_name);
    }
    closedir(dir);
    return count;
}

static void second_start_needs_no_compiler(void **state)
{
    (void)state;
    assert_int_equal(run_program(32), COMPILED);
    assert_int_equal(entries(0, NULL), 1);
    assert_int_equal(run_program(32), LOADED);
    assert_int_equal(entries(0, NULL), 1);
    assert_int_equal(run_program(16), COMPILED); /* another shape */
    assert_int_equal(entries(0, NULL), 2);
    assert_int_equal(run_program(16), LOADED);
}

static void flip(const char *path, long at)
{
    int file = open(path, O_RDWR);
    char byte;
    assert_true(file >= 0);
    if (at < 0)
        at += lseek(file, 0, SEEK_END);
    assert_int_equal(pread(file, &byte, 1, at), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    close(file);
}

static void damaged_entries_are_replaced(void **state)
{
    char path[512];
#ifdef GABLE_SANITIZED /* where compiling takes long */
    static const long places[] = {0, 300};
#else
    static const long places[] = {0, 5, 9, 20, 50, 100, 300, -1};
#endif
    (void)state;
    assert_int_equal(run_program(32), LOADED);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        for (int n = 0; n < 2; n++) {
            entries(n, path);
            flip(path, places[i]);
        }
        assert_int_equal(run_program(32), COMPILED);
        assert_int_equal(run_program(32), LOADED);
        assert_int_equal(run_program(16), COMPILED);
    }
    for (int n = 0; n < 2; n++) {
        entries(n, path);
        assert_int_equal(truncate(path, n ? 0 : 200), 0);
    }
    assert_int_equal(run_program(32), COMPILED);
    assert_int_equal(run_program(32), LOADED);
    assert_int_equal(run_program(16), COMPILED);
    assert_int_equal(run_program(16), LOADED);
}

static void entries_that_others_may_write_are_not_used(void **state)
{
    char path[512];
    struct stat info;
    (void)state;
    for (int n = 0; n < 2; n++) {
        entries(n, path);
        assert_int_equal(chmod(path, 0666), 0);
    }
    assert_int_equal(run_program(32), COMPILED);
    assert_int_equal(run_program(16), COMPILED);
    for (int n = 0; n < 2; n++) {
        entries(n, path);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 077, 0);
    }
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(run_program(32), COMPILED);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(run_program(32), LOADED);
}

static void an_entry_under_a_wrong_name_is_not_used(void **state)
{
    char one[512], two[512];
    (void)state;
    entries(0, one);
    entries(1, two);
    assert_int_equal(rename(one, two), 0);
    int first = run_program(32), second = run_program(16);
    assert_true(first == COMPILED && second == COMPILED);
    assert_int_equal(run_program(32), LOADED);
}

static void the_cache_can_be_switched_off(void **state)
{
    (void)state;
    setenv("GABLE_CPU_CACHE", "off", 1);
    assert_int_equal(run_program(32), COMPILED);
    setenv("GABLE_CPU_CACHE", "/proc/no-such-place", 1);
    assert_int_equal(run_program(32), COMPILED);
    setenv("GABLE_CPU_CACHE", folder, 1);
    assert_int_equal(run_program(32), LOADED);
}

/* Beyond GABLE_CPU_CACHE_BYTES the entries used longest ago go. */
static void the_folder_is_bounded(void **state)
{
    char path[512], kept[512] = "";
    struct stat info;
    uint64_t largest = 0;
    char limit[32];
    (void)state;
    assert_int_equal(run_program(32), LOADED);
    while (entries(0, path))
        unlink(path);
    static const unsigned blocks[] = {1, 2, 4, 8, 16};
    for (int i = 0; i < 5; i++)
        assert_int_equal(run_program(blocks[i]), COMPILED);
    for (int n = 0; entries(n, path) > n; n++) {
        assert_int_equal(stat(path, &info), 0);
        largest = (uint64_t)info.st_size > largest ? (uint64_t)info.st_size : largest;
    }
    /* Room for three of the largest after a quarter is free; the first one is used again. */
    assert_int_equal(run_program(1), LOADED);
    snprintf(limit, sizeof(limit), "%llu", (unsigned long long)(largest * 4 + largest / 2));
    setenv("GABLE_CPU_CACHE_BYTES", limit, 1);
    assert_int_equal(run_program(32), COMPILED);
    assert_true(entries(0, kept) >= 2 && entries(0, NULL) <= 4);
    assert_int_equal(run_program(32), LOADED);
    assert_int_equal(run_program(1), LOADED);
    assert_int_equal(run_program(2), COMPILED); /* the oldest had to go */
    setenv("GABLE_CPU_CACHE_BYTES", "nonsense", 1);
    assert_int_equal(run_program(32), LOADED);
    setenv("GABLE_CPU_CACHE_BYTES", "1", 1);
    assert_int_equal(run_program(64), COMPILED);
    assert_int_equal(entries(0, NULL), 0);
    unsetenv("GABLE_CPU_CACHE_BYTES");
    assert_int_equal(run_program(32), COMPILED);
}

/* Names of entries that lead elsewhere: nothing is read through them and nothing written. */
static void names_that_lead_elsewhere(void **state)
{
    char path[512], aside[600];
    static const char text[] = "somebody's letter";
    char read_back[64] = "";
    (void)state;
    while (entries(0, path))
        unlink(path);
    assert_int_equal(run_program(32), COMPILED);
    assert_int_equal(entries(0, path), 1);
    snprintf(aside, sizeof(aside), "%s/letter", folder);
    for (int i = 0; i < 4; i++) {
        int file = open(aside, O_CREAT | O_TRUNC | O_RDWR, 0600);
        assert_int_equal(write(file, text, sizeof(text)), sizeof(text));
        assert_int_equal(unlink(path), 0);
        if (i == 0)
            assert_int_equal(symlink(aside, path), 0);
        else if (i == 1)
            assert_int_equal(link(aside, path), 0);
        else if (i == 2)
            assert_int_equal(mkfifo(path, 0600), 0);
        else
            assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(run_program(32), COMPILED);
        assert_int_equal(run_program(32), LOADED);
        assert_int_equal(pread(file, read_back, sizeof(read_back), 0), sizeof(text));
        assert_string_equal(read_back, text);
        close(file);
    }
    unlink(aside);
    /* A good entry with a second name is somebody's too: it may change under us. */
    assert_int_equal(link(path, aside), 0);
    assert_int_equal(run_program(32), COMPILED);
    unlink(aside);
    assert_int_equal(run_program(32), LOADED);
    /* An entry of incredible size. */
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    assert_int_equal(run_program(32), COMPILED);
    assert_int_equal(run_program(32), LOADED);
}

/* Eight programs at once, with room for a few entries only: each gets its kernels. */
static void several_processes_at_once(void **state)
{
    pid_t pids[8];
    int status;
    (void)state;
    setenv("GABLE_CPU_CACHE_BYTES", "40K", 1);
    for (int i = 0; i < 8; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            child(1u << (i % 4 + 2));
        assert_true(pids[i] > 0);
    }
    for (int i = 0; i < 8; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) != WRONG);
    }
    unsetenv("GABLE_CPU_CACHE_BYTES");
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    return setenv("GABLE_CPU_CACHE", folder, 1);
}

static int teardown(void **state)
{
    char path[512];
    (void)state;
    while (entries(0, path))
        unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_start_needs_no_compiler),
        cmocka_unit_test(damaged_entries_are_replaced),
        cmocka_unit_test(entries_that_others_may_write_are_not_used),
        cmocka_unit_test(an_entry_under_a_wrong_name_is_not_used),
        cmocka_unit_test(the_cache_can_be_switched_off),
        cmocka_unit_test(the_folder_is_bounded),
        cmocka_unit_test(names_that_lead_elsewhere),
        cmocka_unit_test(several_processes_at_once),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* What does not grow: memory and mappings over thousands of modules and launches, and the code that a
 * process keeps. */
#include "device_kernels.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* Pages of this process in memory, bytes of it that are anonymous and executable, and mappings. */
typedef struct {
    long pages;
    long code;
    int all;
} use_t;

static use_t use_now(void)
{
    use_t use = {0, 0, 0};
    char line[512];
    long size;
    unsigned long from, to;
    FILE *statm = fopen("/proc/self/statm", "r");
    assert_int_equal(fscanf(statm, "%ld %ld", &size, &use.pages), 2);
    fclose(statm);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof(line), maps)) {
        use.all++;
        if (strstr(line, " r-xp 00000000 00:00 0") && !strchr(line, '[') &&
            sscanf(line, "%lx-%lx", &from, &to) == 2)
            use.code += (long)(to - from);
    }
    fclose(maps);
    return use;
}

static int files_open(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static CUfunction load(CUmodule *module, const char *name)
{
    CUfunction function;
    OK(cu->cuModuleLoadData(module, device_kernels));
    OK(cu->cuModuleGetFunction(&function, *module, name));
    return function;
}

static void run(CUfunction function, unsigned block, CUdeviceptr out)
{
    uint32_t bias = block, n = 64, host[64];
    void *params[] = {&out, &bias, &n};
    OK(cu->cuLaunchKernel(function, (64 + block - 1) / block, 1, 1, block, 1, 1, 0, NULL, params,
                          NULL));
    OK(cu->cuMemcpyDtoH_v2(host, out, sizeof(host)));
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(host[i], i + bias);
}

static void unloading_frees_code(void **state)
{
    CUmodule module;
    CUdeviceptr out;
    (void)state;
    OK(cu->cuMemAlloc_v2(&out, 256));
    use_t before = use_now();
    CUfunction function = load(&module, "count_up");
    run(function, 32, out);
    long one = use_now().code;
    assert_true(one > before.code);
    run(function, 64, out);
    assert_true(use_now().code > one);
    OK(cu->cuModuleUnload(module));
    assert_int_equal(use_now().code, before.code);
}

/* The same with the context that it was loaded into. */
static void contexts_take_code_along(void **state)
{
    CUcontext context;
    CUmodule module;
    CUdeviceptr out;
    (void)state;
    use_t before = use_now();
    OK(cu->cuCtxCreate_v2(&context, 0, 0));
    OK(cu->cuMemAlloc_v2(&out, 256));
    run(load(&module, "count_up"), 32, out);
    OK(cu->cuCtxDestroy_v2(context));
    assert_int_equal(use_now().code, before.code);
}

static void ten_thousand_modules_and_launches(void **state)
{
#ifdef GABLE_SANITIZED
    enum { ROUNDS = 400, WARM = 100 }; /* sanitizers keep 256 MiB of freed memory */
    const long most = 80000;
#else
    enum { ROUNDS = 10000, WARM = 1000 };
    const long most = 600; /* pages: a byte for each round */
#endif
    use_t warm = {0, 0, 0};
    int files = 0;
    CUdeviceptr out;
    (void)state;
    OK(cu->cuMemAlloc_v2(&out, 256));
    for (int i = 0; i < ROUNDS; i++) {
        CUmodule module;
        CUlinkState link;
        run(load(&module, "count_up"), 32, out);
        OK(cu->cuModuleUnload(module));
        OK(cu->cuLinkCreate_v2(0, NULL, NULL, &link));
        OK(cu->cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)device_kernels,
                                sizeof(device_kernels), "k", 0, NULL, NULL));
        OK(cu->cuLinkDestroy(link));
        FAILS(CUDA_ERROR_INVALID_PTX, cu->cuModuleLoadData(&module, "not PTX"));
        if (i == WARM) {
            warm = use_now();
            files = files_open();
        }
    }
    use_t now = use_now();
    assert_int_equal(now.code, warm.code);
    assert_int_equal(files_open(), files);
    assert_true(now.all <= warm.all + 8);
    if (now.pages > warm.pages + most)
        fail_msg("%ld pages more", now.pages - warm.pages);
    OK(cu->cuMemFree_v2(out));
}

/* GABLE_CPU_CODE_BYTES is 48 KiB here: of many variants only a few stay, and all go on working. */
static void code_in_memory_is_bounded(void **state)
{
    enum { MODULES = 12, MOST = 64 << 10 };
    CUmodule modules[MODULES];
    CUfunction functions[MODULES];
    CUdeviceptr out;
    (void)state;
    OK(cu->cuMemAlloc_v2(&out, 256));
    use_t before = use_now();
    for (int i = 0; i < MODULES; i++) {
        functions[i] = load(&modules[i], "count_up");
        run(functions[i], 32, out);
        run(functions[i], 64, out);
    }
    long kept = use_now().code - before.code;
    assert_true(kept > 0 && kept <= MOST);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < MODULES; i++)
            run(functions[i], 16u << (unsigned)(i + round) % 3, out);
    kept = use_now().code - before.code;
    assert_true(kept > 0 && kept <= MOST);
    for (int i = 0; i < MODULES; i++)
        OK(cu->cuModuleUnload(modules[i]));
    assert_int_equal(use_now().code, before.code);
}

/* Threads that launch each other's kernels while code comes and goes. */
enum { THREADS = 4 };

typedef struct {
    CUcontext context;
    const CUfunction *functions; /* THREADS of them, shared */
    unsigned number;
    int wrong;
} job_t;

static void *launch_all(void *argument)
{
    job_t *job = argument;
    CUdeviceptr out;
    CUstream stream;
    uint32_t host[64];
    job->wrong = cu->cuCtxSetCurrent(job->context) || cu->cuMemAlloc_v2(&out, sizeof(host)) ||
                 cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < 60 && !job->wrong; i++) {
        uint32_t bias = i + job->number, n = 64, block = 1u << (2 + (i * 7 + job->number) % 5);
        void *params[] = {&out, &bias, &n};
        CUmodule own;
        CUfunction function = job->functions[(i + job->number) % THREADS];
        if (i % 10 == 9 && (cu->cuModuleLoadData(&own, device_kernels) ||
                            cu->cuModuleGetFunction(&function, own, "count_up")))
            job->wrong = 1;
        job->wrong |=
            cu->cuLaunchKernel(function, 64 / block, 1, 1, block, 1, 1, 0, stream, params, NULL) ||
            cu->cuMemcpyDtoHAsync_v2(host, out, sizeof(host), stream) ||
            cu->cuStreamSynchronize(stream);
        for (uint32_t k = 0; k < 64; k++)
            job->wrong |= host[k] != k + bias;
        if (i % 10 == 9)
            job->wrong |= cu->cuModuleUnload(own) != CUDA_SUCCESS;
    }
    return NULL;
}

static void threads_launch_while_code_is_evicted(void **state)
{
    pthread_t threads[THREADS];
    job_t jobs[THREADS];
    CUfunction functions[THREADS];
    CUmodule modules[THREADS];
    for (int i = 0; i < THREADS; i++)
        functions[i] = load(&modules[i], "count_up");
    for (unsigned i = 0; i < THREADS; i++) {
        jobs[i] = (job_t){*state, functions, i, 0};
        pthread_create(&threads[i], NULL, launch_all, &jobs[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].wrong, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(unloading_frees_code),
        IN_CONTEXT(contexts_take_code_along),
        IN_CONTEXT(ten_thousand_modules_and_launches),
        IN_CONTEXT(code_in_memory_is_bounded),
        IN_CONTEXT(threads_launch_while_code_is_evicted),
    };
    static char folder[] = "/tmp/gable-leaks-XXXXXX";
    if (!mkdtemp(folder))
        return 1;
    setenv("GABLE_LOG", "error", 1);
    setenv("GABLE_CPU_CACHE", folder, 1);
    setenv("GABLE_CPU_CODE_BYTES", "48K", 1);
    int failed = cmocka_run_group_tests(tests, device_setup, NULL);
    DIR *dir = opendir(folder);
    for (struct dirent *item = readdir(dir); item; item = readdir(dir))
        if (item->d_name[0] != '.')
            unlinkat(dirfd(dir), item->d_name, 0);
    closedir(dir);
    rmdir(folder);
    return failed;
}

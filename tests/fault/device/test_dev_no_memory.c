/* Memory runs out, in each place where it can: every allocation of an operation fails once, in turn.
 * The operation says CUDA_ERROR_OUT_OF_MEMORY or does without, and afterwards everything works. */
#include "device_kernels.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- an allocator that fails when told to; the device's own calls come here too ---- */

#define SHOWN __attribute__((visibility("default")))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);

static atomic_long countdown; /* allocations until one fails; 0: none will */
static atomic_int failed;     /* how many have */

static int fails(void)
{
    if (atomic_load(&countdown) <= 0 || atomic_fetch_sub(&countdown, 1) != 1)
        return 0;
    atomic_fetch_add(&failed, 1);
    errno = ENOMEM;
    return 1;
}

SHOWN void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

SHOWN void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

SHOWN void *realloc(void *old, size_t size)
{
    return fails() ? NULL : __libc_realloc(old, size);
}

SHOWN void *aligned_alloc(size_t align, size_t size)
{
    return fails() ? NULL : __libc_memalign(align, size);
}

SHOWN int posix_memalign(void **out, size_t align, size_t size)
{
    *out = fails() ? NULL : __libc_memalign(align, size);
    return *out ? 0 : ENOMEM;
}

/* ---- operations: each leaves nothing behind, however far it comes ---- */

#define TRY(call)                                                                                  \
    do {                                                                                           \
        result = (call);                                                                           \
        if (result)                                                                                \
            goto end;                                                                              \
    } while (0)

static CUresult load(void)
{
    CUmodule module = NULL;
    CUfunction function;
    CUdeviceptr at;
    size_t bytes;
    CUresult result;
    TRY(cu->cuModuleLoadData(&module, device_kernels));
    TRY(cu->cuModuleGetFunction(&function, module, "count_up"));
    TRY(cu->cuModuleGetGlobal_v2(&at, &bytes, module, "total"));
end:
    if (module)
        cu->cuModuleUnload(module);
    return result;
}

static CUresult load_library(void)
{
    CUlibrary library = NULL;
    CUkernel kernel;
    CUfunction function;
    CUresult result;
    TRY(cu->cuLibraryLoadData(&library, device_kernels, NULL, NULL, 0, NULL, NULL, 0));
    TRY(cu->cuLibraryGetKernel(&kernel, library, "count_up"));
    TRY(cu->cuKernelGetFunction(&function, kernel));
end:
    if (library)
        cu->cuLibraryUnload(library);
    return result;
}

static CUresult launch(void)
{
    CUmodule module = NULL;
    CUfunction function;
    CUdeviceptr out = 0;
    uint32_t bias = 3, n = 64, host[64] = {0};
    CUresult result;
    TRY(cu->cuModuleLoadData(&module, device_kernels));
    TRY(cu->cuModuleGetFunction(&function, module, "count_up"));
    TRY(cu->cuMemAlloc_v2(&out, sizeof(host)));
    void *params[] = {&out, &bias, &n};
    TRY(cu->cuLaunchKernel(function, 2, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    TRY(cu->cuMemcpyDtoH_v2(host, out, sizeof(host)));
    for (uint32_t i = 0; i < 64; i++)
        if (host[i] != i + 3)
            result = CUDA_ERROR_UNKNOWN; /* success with wrong numbers is the worst */
end:
    if (out)
        cu->cuMemFree_v2(out);
    if (module)
        cu->cuModuleUnload(module);
    return result;
}

static CUresult link_two(void)
{
    static char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                         ".visible .global .u32 x = 1;\n.global .u32 y = 2;\n"
                         ".weak .entry k() { ret; }";
    static char more[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                         ".extern .global .u32 x;\n.global .u32 y = 2;\n"
                         ".weak .entry k() { .reg .u64 %d; mov.u64 %d, x; ret; }";
    CUlinkState state = NULL;
    CUmodule module = NULL;
    void *image;
    CUresult result;
    TRY(cu->cuLinkCreate_v2(0, NULL, NULL, &state));
    TRY(cu->cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, text, sizeof(text), "a", 0, NULL, NULL));
    TRY(cu->cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, more, sizeof(more), "b", 0, NULL, NULL));
    TRY(cu->cuLinkComplete(state, &image, NULL));
    TRY(cu->cuModuleLoadData(&module, image));
end:
    if (module)
        cu->cuModuleUnload(module);
    if (state)
        cu->cuLinkDestroy(state);
    return result;
}

static CUresult copy(void)
{
    CUstream stream = NULL;
    CUevent event = NULL;
    CUdeviceptr a = 0, b = 0;
    void *pinned = NULL;
    uint32_t host[256], back[256] = {0};
    CUresult result;
    for (int i = 0; i < 256; i++)
        host[i] = (uint32_t)i * 3;
    TRY(cu->cuMemAlloc_v2(&a, sizeof(host)));
    TRY(cu->cuMemAlloc_v2(&b, sizeof(host)));
    TRY(cu->cuMemHostAlloc(&pinned, 4096, 0));
    TRY(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cu->cuEventCreate(&event, 0));
    TRY(cu->cuMemcpyHtoDAsync_v2(a, host, sizeof(host), stream));
    TRY(cu->cuMemsetD32Async(b, 7, 256, stream));
    TRY(cu->cuMemcpyDtoDAsync_v2(b, a, sizeof(host), stream));
    TRY(cu->cuEventRecord(event, stream));
    TRY(cu->cuStreamWaitEvent(NULL, event, 0));
    TRY(cu->cuMemcpyDtoHAsync_v2(back, b, sizeof(back), stream));
    TRY(cu->cuStreamSynchronize(stream));
    if (memcmp(host, back, sizeof(host)))
        result = CUDA_ERROR_UNKNOWN;
end:
    cu->cuCtxSynchronize_v2(NULL);
    if (event)
        cu->cuEventDestroy_v2(event);
    if (stream)
        cu->cuStreamDestroy_v2(stream);
    if (pinned)
        cu->cuMemFreeHost(pinned);
    if (a)
        cu->cuMemFree_v2(a);
    if (b)
        cu->cuMemFree_v2(b);
    return result;
}

static CUresult new_context(void)
{
    CUcontext context = NULL, old = NULL;
    CUresult result;
    TRY(cu->cuCtxGetCurrent(&old));
    TRY(cu->cuCtxCreate_v2(&context, 0, 0));
    TRY(cu->cuCtxSynchronize_v2(NULL));
end:
    if (context)
        cu->cuCtxDestroy_v2(context);
    cu->cuCtxSetCurrent(old);
    return result;
}

/* The n-th allocation fails, for each n that there is. */
static void exhaust(const char *name, CUresult (*run)(void))
{
    long n = 0, refused = 0;
    OK(run());
    for (;;) {
        atomic_store(&failed, 0);
        atomic_store(&countdown, ++n);
        CUresult result = run();
        atomic_store(&countdown, 0);
        if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY)
            fail_msg("%s, allocation %ld: %d", name, n, (int)result);
        if (result != CUDA_SUCCESS && !atomic_load(&failed))
            fail_msg("%s, allocation %ld: nothing failed, and yet", name, n);
        refused += result != CUDA_SUCCESS;
        CUresult again = run();
        if (again != CUDA_SUCCESS)
            fail_msg("%s does not work after allocation %ld: %d", name, n, (int)again);
        if (!atomic_load(&failed))
            break;
        assert_true(n < 100000);
    }
    print_message("%s: %ld allocations, %ld refused\n", name, n - 1, refused);
    assert_true(refused > 0);
}

static void loading(void **state)
{
    (void)state;
    exhaust("a module", load);
    exhaust("a library", load_library);
}

static void launching(void **state)
{
    (void)state;
    exhaust("a launch", launch);
}

static void linking(void **state)
{
    (void)state;
    exhaust("linking", link_two);
}

static void copying(void **state)
{
    (void)state;
    exhaust("copies", copy);
}

static void making_contexts(void **state)
{
    (void)state;
    exhaust("a context", new_context);
}

/* The address space has an end: a child that may map `more` MiB beyond what it has, and no cached
 * code. Says whether the memory was enough. */
static int compile_with_little(long more)
{
    struct rlimit old;
    long pages = 0;
    CUcontext context;
    if (device_setup(NULL) || cu->cuCtxCreate_v2(&context, 0, 0))
        return 10;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld", &pages) != 1)
        return 11;
    fclose(file);
    getrlimit(RLIMIT_AS, &old);
    const struct rlimit limit = {(rlim_t)pages * 4096 + ((rlim_t)more << 20), old.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
    CUresult result = launch();
    setrlimit(RLIMIT_AS, &old);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY)
        return 12;
    if (launch() != CUDA_SUCCESS)
        return 13;
    return result == CUDA_SUCCESS ? 0 : 1;
}

static void compiling(void **state)
{
    static const long more[] = {8, 40, 80, 120, 160, 200, 240, 300, 1000};
    int status, last = -1;
    (void)state;
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        pid_t pid = fork();
        if (pid == 0) {
            setenv("GABLE_CPU_CACHE", "off", 1);
            _exit(compile_with_little(more[i]));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFEXITED(status))
            fail_msg("with %ld MiB: ended by signal %d", more[i], WTERMSIG(status));
        last = WEXITSTATUS(status);
        if (last > 1 || (i == 0 && last == 0))
            fail_msg("with %ld MiB: %d", more[i], last);
    }
    assert_int_equal(last, 0);
}

int main(void)
{
    const struct CMUnitTest first[] = {cmocka_unit_test(compiling)};
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(loading), IN_CONTEXT(launching),       IN_CONTEXT(linking),
        IN_CONTEXT(copying), IN_CONTEXT(making_contexts),
    };
    static char folder[] = "/tmp/gable-memory-XXXXXX";
    char command[64];
    setenv("GABLE_LOG", "error", 1);
    setenv("GABLE_CPU_THREADS", "1", 1);
    if (!mkdtemp(folder) || setenv("GABLE_CPU_CACHE", folder, 1))
        return 1;
    int bad = cmocka_run_group_tests(first, NULL, NULL);
    bad += cmocka_run_group_tests(tests, device_setup, NULL);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command) ? 1 : bad;
}

/* Memory that program and kernels share over the network: managed, page-locked, registered.
 * usage: test_remote_shared cpu */
#include "tests/e2e/remoting/remote.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N = 300000 }; /* floats: some 290 pages */

static void run(CUdeviceptr y, CUdeviceptr x, float a, unsigned n)
{
    void *args[] = {&y, &x, &a, &n};
    OK(cuda->cuLaunchKernel(saxpy, (n + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
}

static float *managed(size_t count)
{
    CUdeviceptr at;
    OK(cuda->cuMemAllocManaged(&at, count * sizeof(float), CU_MEM_ATTACH_GLOBAL));
    return (float *)(uintptr_t)at;
}

static CUdeviceptr address(const void *at)
{
    return (CUdeviceptr)(uintptr_t)at;
}

/* Each side sees what the other has written, also where it has written a part of a page only. */
static void both_sides_see_each_other(void **state)
{
    float *x = managed(N), *y = managed(N);
    (void)state;
    for (unsigned i = 0; i < N; i++) {
        x[i] = (float)(i % 1000);
        y[i] = 1;
    }
    run(address(y), address(x), 2, N);
    OK(cuda->cuCtxSynchronize());
    for (unsigned i = 0; i < N; i++)
        assert_true(y[i] == 1 + 2 * (float)(i % 1000));
    x[5] = 7;
    y[N - 1] = 100;
    run(address(y), address(x), 1, N);
    OK(cuda->cuStreamSynchronize(NULL));
    assert_true(y[5] == 11 + 7 && y[4] == 9 + 4);
    assert_true(y[N - 1] == 100 + (float)((N - 1) % 1000));
    OK(cuda->cuMemFree_v2(address(x)));
    OK(cuda->cuMemFree_v2(address(y)));
}

/* Copies and fills by the driver count as the device's. */
static void copies_are_seen(void **state)
{
    float *m = managed(N), *host = numbers(N), got[2];
    CUdeviceptr d;
    (void)state;
    OK(cuda->cuMemAlloc_v2(&d, N * 4));
    m[0] = 3;
    OK(cuda->cuMemcpyHtoD_v2(address(m) + 4, host, (N - 1) * 4));
    assert_true(m[0] == 3 && m[1] == 0 && m[500] == 499);
    m[1] = 8;
    OK(cuda->cuMemcpyDtoD_v2(d, address(m), N * 4));
    OK(cuda->cuCtxSynchronize()); /* such a copy does not wait for itself */
    m[1] = 9;
    OK(cuda->cuMemcpyDtoH_v2(got, d, sizeof(got)));
    assert_true(got[0] == 3 && got[1] == 8);
    OK(cuda->cuMemcpyDtoH_v2(m + 100, d, sizeof(got))); /* the host's side of a copy */
    assert_true(m[100] == 3 && m[101] == 8 && m[102] == 101);
    OK(cuda->cuMemcpyHtoD_v2(d, m + 1, 4));
    OK(cuda->cuMemcpy(address(got), d, 4));
    assert_true(got[0] == 9);
    OK(cuda->cuMemsetD8_v2(address(m), 0, 8));
    assert_true(m[0] == 0 && m[1] == 0 && m[2] == 1);
    OK(cuda->cuMemFree_v2(d));
    OK(cuda->cuMemFree_v2(address(m)));
    free(host);
}

/* Page-locked memory is found among a kernel's parameters; registered memory has another address. */
static void host_memory_is_reached(void **state)
{
    float *pinned, *plain = numbers(N);
    CUdeviceptr device;
    (void)state;
    OK(cuda->cuMemHostAlloc((void **)&pinned, N * 4, 0));
    for (unsigned i = 0; i < N; i++)
        pinned[i] = 1;
    OK(cuda->cuMemHostRegister_v2(plain, N * 4, 0));
    OK(cuda->cuMemHostGetDevicePointer_v2(&device, plain, 0));
    run(address(pinned), device, 1, N);
    OK(cuda->cuCtxSynchronize());
    assert_true(pinned[0] == 1 && pinned[999] == 1000 && pinned[N - 1] == 1 + (N - 1) % 1000);
    plain[3] = 50;
    run(device, address(pinned), 1, N);
    OK(cuda->cuCtxSynchronize());
    assert_true(plain[3] == 54 && plain[10] == 21);
    OK(cuda->cuMemHostUnregister(plain));
    OK(cuda->cuMemFreeHost(pinned));
    free(plain);
}

/* A list whose elements and numbers may lie in any memory: each number grows by 1, and their sum goes to `out`. */
typedef struct node {
    unsigned *numbers;
    uint64_t count;
    struct node *next;
} node_t;

/* walk(node_t head, uint64_t *out) */
static const char walk_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry walk(.param .align 8 .b8 head[24], .param .u64 out)\n"
    "{\n"
    ".reg .u64 %n, %c, %x, %o, %s, %v;\n"
    ".reg .u32 %w;\n"
    ".reg .pred %p;\n"
    "ld.param.u64 %n, [head];\n"
    "ld.param.u64 %c, [head+8];\n"
    "ld.param.u64 %x, [head+16];\n"
    "ld.param.u64 %o, [out];\n"
    "mov.u64 %s, 0;\n"
    "NUMBER:\n"
    "setp.eq.u64 %p, %c, 0;\n"
    "@%p bra NEXT;\n"
    "ld.u32 %w, [%n];\n"
    "add.u32 %w, %w, 1;\n"
    "st.u32 [%n], %w;\n"
    "cvt.u64.u32 %v, %w;\n"
    "add.u64 %s, %s, %v;\n"
    "add.u64 %n, %n, 4;\n"
    "sub.u64 %c, %c, 1;\n"
    "bra NUMBER;\n"
    "NEXT:\n"
    "setp.eq.u64 %p, %x, 0;\n"
    "@%p bra END;\n"
    "ld.u64 %n, [%x];\n"
    "ld.u64 %c, [%x+8];\n"
    "ld.u64 %x, [%x+16];\n"
    "bra NUMBER;\n"
    "END:\n"
    "st.u64 [%o], %s;\n"
    "ret;\n"
    "}\n";

enum { COUNT = 3000 };

static CUfunction walk;
static CUdeviceptr sum;

static uint64_t walk_from(node_t head)
{
    uint64_t got;
    void *args[] = {&head, &sum};
    OK(cuda->cuLaunchKernel(walk, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    OK(cuda->cuMemcpyDtoH_v2(&got, sum, sizeof(got)));
    return got;
}

/* Page-locked numbers, all `value`; nobody asks for their device address. */
static unsigned *pinned_numbers(unsigned value)
{
    unsigned *numbers;
    OK(cuda->cuMemHostAlloc((void **)&numbers, COUNT * sizeof(*numbers),
                            CU_MEMHOSTALLOC_DEVICEMAP));
    for (unsigned i = 0; i < COUNT; i++)
        numbers[i] = value;
    return numbers;
}

static node_t *pinned_node(unsigned *numbers, node_t *next)
{
    node_t *node;
    OK(cuda->cuMemHostAlloc((void **)&node, sizeof(*node), 0));
    *node = (node_t){numbers, COUNT, next};
    return node;
}

/* The kernel sees what the program has written, twice, and the program what the kernel has. */
static void expect_walks(node_t head, unsigned *numbers, unsigned value)
{
    OK(cuda->cuCtxSynchronize());
    assert_int_equal(walk_from(head), (uint64_t)COUNT * (value + 1));
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(numbers[i], value + 1);
    numbers[COUNT - 1] += 5;
    assert_int_equal(walk_from(head), (uint64_t)COUNT * (value + 2) + 5);
    assert_int_equal(numbers[COUNT - 1], value + 7);
}

/* In a structure among the parameters, and in one in device memory that was copied there as bytes or rows. */
static void found_in_what_travels(void **state)
{
    node_t node = {.count = COUNT}, other;
    CUdeviceptr there;
    (void)state;
    node.numbers = pinned_numbers(1);
    expect_walks(node, node.numbers, 1);
    OK(cuda->cuMemFreeHost(node.numbers));
    OK(cuda->cuMemAlloc_v2(&there, 4096));
    node_t *device = (node_t *)(uintptr_t)there;

    node.numbers = pinned_numbers(2);
    OK(cuda->cuMemcpyHtoD_v2(there, &node, sizeof(node)));
    expect_walks((node_t){NULL, 0, device}, node.numbers, 2);
    OK(cuda->cuMemFreeHost(node.numbers));

    /* Words lie where they do on the device, wherever the program has them. */
    char *bytes = malloc(4 + sizeof(node));
    node.numbers = pinned_numbers(3);
    memset(bytes, 0, 4);
    memcpy(bytes + 4, &node, sizeof(node));
    OK(cuda->cuMemcpyHtoDAsync_v2(there + 4, bytes, 4 + sizeof(node), NULL));
    expect_walks((node_t){NULL, 0, (node_t *)(uintptr_t)(there + 8)}, node.numbers, 3);
    OK(cuda->cuMemFreeHost(node.numbers));
    free(bytes);

    other = (node_t){pinned_numbers(4), COUNT, NULL};
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = &other,
                          .srcPitch = 8,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = there,
                          .dstPitch = 8,
                          .WidthInBytes = 8,
                          .Height = 3};
    OK(cuda->cuMemcpy2D_v2(&rows));
    expect_walks((node_t){NULL, 0, device}, other.numbers, 4);
    OK(cuda->cuMemFreeHost(other.numbers));
    OK(cuda->cuMemFree_v2(there));
}

/* In memory that is shared itself: page-locked and managed, through several steps of either. */
static void found_in_shared_memory(void **state)
{
    unsigned *numbers = pinned_numbers(1), *more = pinned_numbers(100);
    node_t *last = pinned_node(numbers, NULL), *first = pinned_node(NULL, last);
    node_t *far = (node_t *)(void *)managed(64);
    (void)state;
    first->count = 0;
    expect_walks((node_t){NULL, 0, first}, numbers, 1);

    /* What was written into pages that kernels have used already. */
    last->numbers = more;
    expect_walks((node_t){NULL, 0, first}, more, 100);

    unsigned *rest = pinned_numbers(7);
    node_t *pinned = pinned_node(rest, NULL);
    *far = (node_t){NULL, 0, pinned};
    last->count = 0;
    last->next = far;
    expect_walks((node_t){NULL, 0, first}, rest, 7);
    OK(cuda->cuMemFree_v2(address(far)));
    void *all[] = {numbers, more, rest, last, first, pinned};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        OK(cuda->cuMemFreeHost(all[i]));
}

/* Among the parameters of a graph's node that was no call to launch before. */
static void found_in_graphs(void **state)
{
    node_t head = {pinned_numbers(9), COUNT, NULL};
    void *args[] = {&head, &sum};
    CUDA_KERNEL_NODE_PARAMS what = {.func = walk,
                                    .gridDimX = 1,
                                    .gridDimY = 1,
                                    .gridDimZ = 1,
                                    .blockDimX = 1,
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .kernelParams = args};
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    uint64_t got;
    (void)state;
    OK(cuda->cuGraphCreate(&graph, 0));
    OK(cuda->cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &what));
    OK(cuda->cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (unsigned i = 0; i < 2; i++) {
        OK(cuda->cuGraphLaunch(exec, NULL));
        OK(cuda->cuMemcpyDtoH_v2(&got, sum, sizeof(got)));
        assert_int_equal(got, COUNT * (uint64_t)(10 + i));
        assert_int_equal(head.numbers[7], 10 + i);
    }
    OK(cuda->cuGraphExecDestroy(exec));
    OK(cuda->cuGraphDestroy(graph));
    OK(cuda->cuMemFreeHost(head.numbers));
}

/* More blocks than are opened at a time. */
static void found_in_long_lists(void **state)
{
    enum { NODES = 100 };
    node_t *nodes[NODES];
    unsigned *numbers = pinned_numbers(0);
    uint64_t *table = (uint64_t *)(void *)managed(2 * NODES);
    (void)state;
    for (int i = 0; i < NODES; i++) {
        nodes[i] = pinned_node(i ? NULL : numbers, i ? nodes[i - 1] : NULL);
        nodes[i]->count = i ? 0 : COUNT;
        table[i] = (uint64_t)(uintptr_t)nodes[i]; /* all are named at once */
    }
    /* The kernel is given the table's memory, and finds the list in its last element. */
    node_t *head = (node_t *)(void *)managed(64);
    *head = (node_t){NULL, 0, nodes[NODES - 1]};
    expect_walks((node_t){(unsigned *)(void *)table, 0, head}, numbers, 0);
    for (int i = 0; i < NODES; i++)
        OK(cuda->cuMemFreeHost(nodes[i]));
    OK(cuda->cuMemFreeHost(numbers));
    OK(cuda->cuMemFree_v2(address(table)));
    OK(cuda->cuMemFree_v2(address(head)));
}

static int set_up(void **state)
{
    CUmodule loaded;
    return remote_set_up(state) || cuda->cuModuleLoadData(&loaded, walk_ptx) ||
           cuda->cuModuleGetFunction(&walk, loaded, "walk") || cuda->cuMemAlloc_v2(&sum, 8);
}

static volatile sig_atomic_t own_faults;
static char *own_page;

static void on_fault(int number, siginfo_t *info, void *unused)
{
    (void)unused;
    if (info->si_addr != own_page)
        _exit(number);
    own_faults++;
    mprotect(own_page, 4096, PROT_READ | PROT_WRITE);
}

/* A handler that the program has, or puts in place later, keeps what is its own. */
static void own_handlers_go_on(void **state)
{
    struct sigaction own = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before;
    (void)state;
    own_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    float *m = managed(N);
    sigaction(SIGSEGV, &own, &before);
    /* The next call that changes pages puts the library's handler in front again. */
    OK(cuda->cuMemsetD32_v2(address(m), 0, N));
    assert_true(m[7] == 0);
    *(volatile char *)own_page = 1;
    assert_int_equal(own_faults, 1);
    m[8] = 2;
    assert_true(m[8] == 2);
    OK(cuda->cuMemFree_v2(address(m)));
    sigaction(SIGSEGV, &before, NULL);
    munmap(own_page, 4096);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_see_each_other), cmocka_unit_test(copies_are_seen),
        cmocka_unit_test(host_memory_is_reached),    cmocka_unit_test(found_in_what_travels),
        cmocka_unit_test(found_in_shared_memory),    cmocka_unit_test(found_in_graphs),
        cmocka_unit_test(found_in_long_lists),       cmocka_unit_test(own_handlers_go_on),
    };
    proxy_t proxy;
    remote_open(argc, argv, &proxy);
    int failed = cmocka_run_group_tests(tests, set_up, NULL);
    proxy_stop(&proxy);
    return failed;
}

/* Memory, pools, physical memory and events of two processes: this one and a child that runs the same
 * program with the name of what it is to do. They talk through a socket. */
#include "device_kernels.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N = 1 << 16, CHILD_SOCKET = 10 };

/* ---- the socket ---- */

static void send_bytes(int to, const void *bytes, size_t size)
{
    assert_int_equal(send(to, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
}

static void receive_bytes(int from, void *bytes, size_t size)
{
    assert_int_equal(recv(from, bytes, size, MSG_WAITALL), (ssize_t)size);
}

static void tell(int to, char what)
{
    send_bytes(to, &what, 1);
}

static void await(int from, char what)
{
    char got = 0;
    receive_bytes(from, &got, 1);
    assert_int_equal(got, what);
}

static void send_fd(int to, int fd)
{
    char byte = 'f', space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    assert_int_equal(sendmsg(to, &message, MSG_NOSIGNAL), 1);
}

static int receive_fd(int from)
{
    char byte, space[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
    int fd;
    assert_int_equal(recvmsg(from, &message, 0), 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

/* ---- the child ---- */

static pid_t start_child(const char *what, int *socket)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], CHILD_SOCKET);
        execl("/proc/self/exe", "test_dev_ipc", what, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *socket = ends[0];
    return pid;
}

static void end_child(pid_t pid, int socket)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(socket);
}

static void count_up(CUdeviceptr out, uint32_t bias, uint32_t n, CUstream stream)
{
    static CUcontext of;
    static CUfunction function;
    CUcontext current;
    OK(cu->cuCtxGetCurrent(&current));
    if (current != of)
        function = kernel("count_up");
    of = current;
    void *params[] = {&out, &bias, &n};
    OK(cu->cuLaunchKernel(function, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, params, NULL));
}

static void expect(CUdeviceptr at, uint32_t bias, uint32_t n)
{
    uint32_t *host = malloc(n * sizeof(*host));
    OK(cu->cuMemcpyDtoH_v2(host, at, n * sizeof(*host)));
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(host[i], i + bias);
    free(host);
}

/* ---- memory ---- */

typedef struct {
    CUipcMemHandle large, small;
} memory_handles_t;

static void child_memory(int s)
{
    memory_handles_t handles;
    CUdeviceptr large, again, small;
    CUdeviceptr base;
    size_t size;
    receive_bytes(s, &handles, sizeof(handles));
    OK(cu->cuIpcOpenMemHandle_v2(&large, handles.large, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cu->cuIpcOpenMemHandle_v2(&again, handles.large, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    assert_int_equal(large, again);
    OK(cu->cuIpcOpenMemHandle_v2(&small, handles.small, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cu->cuMemGetAddressRange_v2(&base, &size, large + 100));
    assert_int_equal(base, large);
    assert_int_equal(size, N * 4);
    expect(large, 1, N);
    expect(small, 2, 8);
    count_up(large, 5, N, NULL);
    count_up(small, 6, 8, NULL);
    OK(cu->cuCtxSynchronize_v2(NULL));
    tell(s, 'w');
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFree_v2(large)); /* it is not ours */
    OK(cu->cuIpcCloseMemHandle(large));
    expect(large, 5, N); /* opened twice */
    OK(cu->cuIpcCloseMemHandle(large));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuIpcCloseMemHandle(large));
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuMemGetAddressRange_v2(NULL, NULL, large));
    await(s, 'r');
    expect(small, 9, 8);
    tell(s, 'd');
    await(s, 'f'); /* the exporter has freed both */
    FAILS(CUDA_ERROR_INVALID_HANDLE,
          cu->cuIpcOpenMemHandle_v2(&again, handles.large, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    expect(small, 9, 8); /* what is open stays */
    OK(cu->cuIpcCloseMemHandle(small));
}

static void two_processes_use_the_same_memory(void **state)
{
    CUdeviceptr large, small, neighbour;
    memory_handles_t handles;
    int s;
    (void)state;
    pid_t child = start_child("memory", &s);
    OK(cu->cuMemAlloc_v2(&large, N * 4));
    OK(cu->cuMemAlloc_v2(&small, 32));
    OK(cu->cuMemAlloc_v2(&neighbour, 64));
    count_up(large, 1, N, NULL);
    count_up(small, 2, 8, NULL);
    count_up(neighbour, 77, 16, NULL);
    OK(cu->cuCtxSynchronize_v2(NULL));
    OK(cu->cuIpcGetMemHandle(&handles.large, large));
    OK(cu->cuIpcGetMemHandle(&handles.small, small + 4));
    send_bytes(s, &handles, sizeof(handles));
    await(s, 'w');
    expect(large, 5, N);
    expect(small, 6, 8);
    expect(neighbour, 77, 16); /* it has moved with the small one */
    count_up(small, 9, 8, NULL);
    count_up(neighbour, 78, 16, NULL);
    OK(cu->cuCtxSynchronize_v2(NULL));
    tell(s, 'r');
    await(s, 'd');
    CUdeviceptr opened;
    FAILS(CUDA_ERROR_INVALID_CONTEXT,
          cu->cuIpcOpenMemHandle_v2(&opened, handles.large, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cu->cuMemFree_v2(large));
    OK(cu->cuMemFree_v2(small));
    tell(s, 'f');
    end_child(child, s);
    expect(neighbour, 78, 16);
    OK(cu->cuMemFree_v2(neighbour));
    OK(cu->cuMemAlloc_v2(&large, N * 4)); /* the place is ordinary memory again */
    count_up(large, 3, N, NULL);
    expect(large, 3, N);
    OK(cu->cuMemFree_v2(large));
}

/* Memory moves while kernels write to it: nothing is lost. */
static void memory_moves_under_kernels(void **state)
{
    enum { BLOCKS = 64, LAUNCHES = 200 };
    CUdeviceptr words;
    CUstream stream;
    CUipcMemHandle handle;
    uint32_t got;
    CUfunction add = kernel("add_at");
    (void)state;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int round = 0; round < 20; round++) {
        OK(cu->cuMemAlloc_v2(&words, 1 << 20));
        OK(cu->cuMemsetD32_v2(words, 0, (1 << 20) / 4));
        OK(cu->cuCtxSynchronize_v2(NULL));
        void *params[] = {&words};
        for (int i = 0; i < LAUNCHES; i++)
            OK(cu->cuLaunchKernel(add, BLOCKS, 1, 1, 32, 1, 1, 0, stream, params, NULL));
        OK(cu->cuIpcGetMemHandle(&handle, words));
        OK(cu->cuStreamSynchronize(stream));
        OK(cu->cuMemcpyDtoH_v2(&got, words, 4));
        assert_int_equal(got, BLOCKS * 32 * LAUNCHES);
        OK(cu->cuMemFree_v2(words));
    }
    OK(cu->cuStreamDestroy_v2(stream));
}

static void wrong_memory_handles(void **state)
{
    CUdeviceptr at, managed;
    CUipcMemHandle handle, bad;
    CUmemoryPool pool;
    (void)state;
    OK(cu->cuMemAlloc_v2(&at, 4096));
    OK(cu->cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuIpcGetMemHandle(NULL, at));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuIpcGetMemHandle(&handle, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuIpcGetMemHandle(&handle, managed));
    OK(cu->cuIpcGetMemHandle(&handle, at));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuIpcOpenMemHandle_v2(NULL, handle, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuIpcOpenMemHandle_v2(&at, handle, 0));
    memset(&bad, 0, sizeof(bad));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuIpcOpenMemHandle_v2(&managed, bad, 1));
    bad = handle;
    bad.reserved[8] ^= 1; /* another process */
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuIpcOpenMemHandle_v2(&managed, bad, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuIpcCloseMemHandle(at));
    OK(cu->cuMemFree_v2(at));
    OK(cu->cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cu->cuMemAllocAsync(&at, 4096, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuIpcGetMemHandle(&handle, at)); /* its pool exports it */
    OK(cu->cuMemFreeAsync(at, NULL));
    OK(cu->cuStreamSynchronize(NULL));
}

/* ---- events ---- */

typedef struct {
    CUipcMemHandle flag;
    CUipcEventHandle event, answer;
} event_handles_t;

static void child_events(int s)
{
    event_handles_t handles;
    CUdeviceptr data;
    CUevent event, answer;
    CUstream stream;
    receive_bytes(s, &handles, sizeof(handles));
    OK(cu->cuIpcOpenMemHandle_v2(&data, handles.flag, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cu->cuIpcOpenEventHandle(&event, handles.event));
    OK(cu->cuIpcOpenEventHandle(&answer, handles.answer));
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    FAILS(CUDA_ERROR_NOT_READY, cu->cuEventQuery(event)); /* recorded, behind a kernel that waits */
    OK(cu->cuStreamWaitEvent(stream, event, 0));
    count_up(data + 64, 20, 8, stream); /* after the parent's kernel */
    OK(cu->cuEventRecord(answer, stream));
    FAILS(CUDA_ERROR_NOT_READY, cu->cuStreamQuery(stream));
    tell(s, 'q');
    OK(cu->cuEventSynchronize(event));
    OK(cu->cuEventQuery(event));
    OK(cu->cuStreamSynchronize(stream));
    await(s, 'e');
    OK(cu->cuEventDestroy_v2(event));
    OK(cu->cuEventDestroy_v2(answer));
    OK(cu->cuIpcCloseMemHandle(data));
}

static void events_order_two_processes(void **state)
{
    event_handles_t handles;
    CUdeviceptr data;
    CUevent event, answer, plain;
    CUstream stream, other;
    int s;
    (void)state;
    pid_t child = start_child("events", &s);
    OK(cu->cuMemAlloc_v2(&data, 4096));
    OK(cu->cuMemsetD32_v2(data, 0, 1024));
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuEventCreate(&event, CU_EVENT_INTERPROCESS));
    OK(cu->cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    OK(cu->cuEventCreate(&answer, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    OK(cu->cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    OK(cu->cuEventQuery(event)); /* never recorded */
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuIpcGetEventHandle(&handles.event, plain));
    OK(cu->cuIpcGetEventHandle(&handles.event, event));
    OK(cu->cuIpcGetEventHandle(&handles.answer, answer));
    OK(cu->cuIpcGetMemHandle(&handles.flag, data));
    OK(cu->cuStreamWaitValue32_v2(stream, data, 1, CU_STREAM_WAIT_VALUE_EQ));
    count_up(data + 64, 10, 8, stream);
    OK(cu->cuEventRecord(event, stream));
    send_bytes(s, &handles, sizeof(handles));
    await(s, 'q');
    FAILS(CUDA_ERROR_NOT_READY, cu->cuEventQuery(answer)); /* the child waits for us */
    FAILS(CUDA_ERROR_NOT_READY, cu->cuEventQuery(event));
    OK(cu->cuStreamWriteValue32_v2(other, data, 1, 0));
    OK(cu->cuEventSynchronize(answer));
    OK(cu->cuEventQuery(answer));
    expect(data + 64, 20, 8);
    tell(s, 'e');
    end_child(child, s);
    OK(cu->cuStreamDestroy_v2(stream));
    OK(cu->cuStreamDestroy_v2(other));
    OK(cu->cuEventDestroy_v2(event));
    OK(cu->cuEventDestroy_v2(answer));
    OK(cu->cuEventDestroy_v2(plain));
    OK(cu->cuMemFree_v2(data));
}

static void child_dies(int s)
{
    CUipcEventHandle handle;
    CUevent event;
    CUstream stream;
    CUdeviceptr flag;
    receive_bytes(s, &handle, sizeof(handle));
    OK(cu->cuIpcOpenEventHandle(&event, handle));
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuMemAlloc_v2(&flag, 4));
    OK(cu->cuMemsetD32_v2(flag, 0, 1));
    OK(cu->cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu->cuEventRecord(event, stream)); /* never complete */
    tell(s, 'r');
    await(s, 'x');
}

/* A process that dies takes its records with it: nobody waits for them for ever. */
static void dead_processes_keep_nobody_waiting(void **state)
{
    CUipcEventHandle handle;
    CUevent event;
    CUstream stream;
    int s, status;
    (void)state;
    pid_t child = start_child("dies", &s);
    OK(cu->cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    OK(cu->cuIpcGetEventHandle(&handle, event));
    send_bytes(s, &handle, sizeof(handle));
    await(s, 'r');
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamWaitEvent(stream, event, 0));
    FAILS(CUDA_ERROR_NOT_READY, cu->cuEventQuery(event));
    FAILS(CUDA_ERROR_NOT_READY, cu->cuStreamQuery(stream));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    OK(cu->cuEventSynchronize(event));
    OK(cu->cuStreamSynchronize(stream));
    close(s);
    OK(cu->cuStreamDestroy_v2(stream));
    OK(cu->cuEventDestroy_v2(event));
}

/* ---- pools ---- */

static void child_pool(int s)
{
    CUmemoryPool pool;
    CUmemPoolPtrExportData data, wrong;
    CUdeviceptr at, other;
    CUstream stream;
    int fd = receive_fd(s);
    OK(cu->cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    close(fd);
    receive_bytes(s, &data, sizeof(data));
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuMemPoolImportPointer(&at, pool, &data));
    wrong = data;
    wrong.reserved[60] ^= 1; /* another pool's */
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemPoolImportPointer(&other, pool, &wrong));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAllocFromPoolAsync(&other, 64, pool, stream));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemPoolExportToShareableHandle(
                                        &fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    expect(at, 30, 1000);
    count_up(at, 31, 1000, stream);
    OK(cu->cuMemFreeAsync(at, stream)); /* behind the kernel */
    OK(cu->cuStreamSynchronize(stream));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFreeAsync(at, stream));
    OK(cu->cuMemPoolDestroy(pool));
    tell(s, 'd');
}

static void pools_are_shared(void **state)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemoryPool pool, own;
    CUmemPoolPtrExportData data;
    CUdeviceptr at, unshared;
    int s, fd = -1;
    (void)state;
    pid_t child = start_child("pool", &s);
    OK(cu->cuMemPoolCreate(&pool, &props));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemPoolExportToShareableHandle(
                                        NULL, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    FAILS(CUDA_ERROR_NOT_SUPPORTED,
          cu->cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_WIN32, 0));
    OK(cu->cuDeviceGetDefaultMemPool(&own, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemPoolExportToShareableHandle(
                                        &fd, own, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cu->cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                            0));
    OK(cu->cuMemAllocFromPoolAsync(&at, 4000, pool, NULL));
    OK(cu->cuMemAllocAsync(&unshared, 4000, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemPoolExportPointer(&data, unshared));
    count_up(at, 30, 1000, NULL);
    OK(cu->cuMemPoolExportPointer(&data, at));
    OK(cu->cuStreamSynchronize(NULL));
    send_fd(s, fd);
    close(fd);
    send_bytes(s, &data, sizeof(data));
    await(s, 'd');
    end_child(child, s);
    expect(at, 31, 1000);
    OK(cu->cuMemFreeAsync(at, NULL));
    OK(cu->cuMemFreeAsync(unshared, NULL));
    OK(cu->cuMemPoolDestroy(pool));
}

/* ---- physical memory ---- */

static CUdeviceptr map_memory(CUmemGenericAllocationHandle handle, size_t bytes)
{
    CUdeviceptr at;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cu->cuMemAddressReserve(&at, bytes, 0, 0, 0));
    OK(cu->cuMemMap(at, bytes, 0, handle, 0));
    OK(cu->cuMemSetAccess(at, bytes, &access, 1));
    return at;
}

static void unmap_memory(CUdeviceptr at, size_t bytes)
{
    OK(cu->cuMemUnmap(at, bytes));
    OK(cu->cuMemAddressFree(at, bytes));
}

static void child_physical(int s)
{
    enum { BYTES = 4 << 20 };
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop;
    int fd = receive_fd(s);
    OK(cu->cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    OK(cu->cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    assert_int_equal(prop.requestedHandleTypes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUdeviceptr one = map_memory(handle, BYTES), two = map_memory(handle, BYTES);
    expect(one, 40, N);
    count_up(two, 41, N, NULL);
    OK(cu->cuCtxSynchronize_v2(NULL));
    expect(one, 41, N); /* the same memory twice */
    unmap_memory(one, BYTES);
    unmap_memory(two, BYTES);
    OK(cu->cuMemRelease(handle));
}

static void physical_memory_is_shared(void **state)
{
    enum { BYTES = 4 << 20 };
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle, own, wrong;
    CUdeviceptr scratch;
    size_t before, after, total;
    int s, fd = -1;
    (void)state;
    pid_t child = start_child("physical", &s);
    OK(cu->cuMemAlloc_v2(&scratch, 64));
    count_up(scratch, 0, 1, NULL); /* the module is loaded */
    OK(cu->cuMemGetInfo_v2(&before, &total));
    OK(cu->cuMemCreate(&handle, BYTES, &prop, 0));
    CUdeviceptr at = map_memory(handle, BYTES);
    count_up(at, 40, N, NULL);
    OK(cu->cuCtxSynchronize_v2(NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemExportToShareableHandle(
                                        NULL, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_NONE, 0));
    OK(cu->cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    send_fd(s, fd);
    end_child(child, s);
    expect(at, 41, N);
    unmap_memory(at, BYTES);
    at = map_memory(handle, BYTES); /* what it holds stays */
    expect(at, 41, N);
    unmap_memory(at, BYTES);
    OK(cu->cuMemRelease(handle));
    OK(cu->cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before, after);
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    OK(cu->cuMemCreate(&own, BYTES, &prop, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuMemExportToShareableHandle(&fd, own, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuMemImportFromShareableHandle(&wrong, (void *)(intptr_t)0,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuMemImportFromShareableHandle(&wrong, (void *)(intptr_t)-1,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    OK(cu->cuMemRelease(own));
    close(fd);
}

/* ---- */

/* What the other process does; cmocka's asserts end it with an error. */
static void be_child(void **state)
{
    static const struct {
        const char *name;
        void (*run)(int s);
    } kinds[] = {{"memory", child_memory},
                 {"events", child_events},
                 {"dies", child_dies},
                 {"pool", child_pool},
                 {"physical", child_physical}};
    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(getenv("GABLE_TEST_CHILD"), kinds[i].name) == 0)
            kinds[i].run(CHILD_SOCKET);
}

/* It moves into a file when it is exported, or mapped a second time, and kernels go on. */
static void physical_memory_moves_under_kernels(void **state)
{
    enum { BYTES = 2 << 20, BLOCKS = 64, LAUNCHES = 100 };
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUfunction add = kernel("add_at");
    uint32_t got;
    (void)state;
    for (int round = 0; round < 10; round++) {
        CUmemGenericAllocationHandle handle;
        CUdeviceptr second = 0;
        int fd = -1;
        OK(cu->cuMemCreate(&handle, BYTES, &prop, 0));
        CUdeviceptr words = map_memory(handle, BYTES);
        OK(cu->cuMemsetD32_v2(words, 0, BYTES / 4));
        void *params[] = {&words};
        for (int i = 0; i < LAUNCHES; i++)
            OK(cu->cuLaunchKernel(add, BLOCKS, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
        if (round % 2)
            second = map_memory(handle, BYTES);
        else
            OK(cu->cuMemExportToShareableHandle(&fd, handle,
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        OK(cu->cuCtxSynchronize());
        OK(cu->cuMemcpyDtoH_v2(&got, second ? second : words, 4));
        assert_int_equal(got, BLOCKS * 32 * LAUNCHES);
        if (second)
            unmap_memory(second, BYTES);
        else
            close(fd);
        unmap_memory(words, BYTES);
        OK(cu->cuMemRelease(handle));
    }
}

/* What was written before the memory had a place of its own again is still there. */
static void parked_memory_is_exported(void **state)
{
    enum { BYTES = 2 << 20 };
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle, imported;
    int fd;
    (void)state;
    OK(cu->cuMemCreate(&handle, BYTES, &prop, 0));
    CUdeviceptr at = map_memory(handle, BYTES);
    count_up(at, 7, N, NULL);
    OK(cu->cuCtxSynchronize());
    unmap_memory(at, BYTES);
    OK(cu->cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cu->cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    at = map_memory(imported, BYTES);
    expect(at, 7, N);
    CUdeviceptr again = map_memory(handle, BYTES);
    count_up(again, 8, N, NULL);
    OK(cu->cuCtxSynchronize());
    expect(at, 8, N);
    unmap_memory(at, BYTES);
    unmap_memory(again, BYTES);
    OK(cu->cuMemRelease(imported));
    OK(cu->cuMemRelease(handle));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest child[] = {IN_CONTEXT(be_child)};
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(two_processes_use_the_same_memory),
        IN_CONTEXT(memory_moves_under_kernels),
        IN_CONTEXT(wrong_memory_handles),
        IN_CONTEXT(events_order_two_processes),
        IN_CONTEXT(dead_processes_keep_nobody_waiting),
        IN_CONTEXT(pools_are_shared),
        IN_CONTEXT(physical_memory_is_shared),
        IN_CONTEXT(physical_memory_moves_under_kernels),
        IN_CONTEXT(parked_memory_is_exported),
    };
    if (argc > 1) {
        setenv("GABLE_TEST_CHILD", argv[1], 1);
        return cmocka_run_group_tests(child, device_setup, NULL);
    }
    return cmocka_run_group_tests(tests, device_setup, NULL);
}

// Two processes: memory, events and a pool of one, used by the other. The child is this program again.
#include "check.h"
#include <cstring>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 100000, SOCKET = 10 };

__global__ void add(int *x, int n, int by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] += by;
}

static void run_add(int *x, int by, cudaStream_t stream)
{
    add<<<(N + 255) / 256, 256, 0, stream>>>(x, N, by);
    OK(cudaGetLastError());
}

struct handles {
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t ready, done;
    cudaMemPoolPtrExportData pointer;
};

static void send_all(const void *data, size_t size, int to, int fd)
{
    char space[CMSG_SPACE(sizeof(int))] = {};
    iovec part = {const_cast<void *>(data), size};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof(space);
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    EXPECT(sendmsg(to, &message, 0) == (ssize_t)size);
}

static int receive_all(void *data, size_t size, int from)
{
    char space[CMSG_SPACE(sizeof(int))] = {};
    iovec part = {data, size};
    msghdr message = {};
    int fd;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof(space);
    EXPECT(recvmsg(from, &message, MSG_WAITALL) == (ssize_t)size);
    std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

static int child()
{
    handles h;
    cudaStream_t stream;
    cudaEvent_t ready, done;
    cudaMemPool_t pool;
    int *memory, *pooled;
    int fd = receive_all(&h, sizeof(h), SOCKET);
    OK(cudaStreamCreate(&stream));
    OK(cudaIpcOpenMemHandle((void **)&memory, h.memory, cudaIpcMemLazyEnablePeerAccess));
    OK(cudaIpcOpenEventHandle(&ready, h.ready));
    OK(cudaIpcOpenEventHandle(&done, h.done));
    OK(cudaMemPoolImportFromShareableHandle(&pool, (void *)(long)fd,
                                            cudaMemHandleTypePosixFileDescriptor, 0));
    OK(cudaMemPoolImportPointer((void **)&pooled, pool, &h.pointer));
    OK(cudaStreamWaitEvent(stream, ready, 0));
    run_add(memory, 10, stream);
    run_add(pooled, 20, stream);
    OK(cudaEventRecord(done, stream));
    OK(cudaFreeAsync(pooled, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaIpcCloseMemHandle(memory));
    OK(cudaMemPoolDestroy(pool));
    char byte = 'd';
    EXPECT(write(SOCKET, &byte, 1) == 1);
    EXPECT(read(SOCKET, &byte, 1) == 1); // the parent has seen the event
    return 0;
}

static void expect_all(const int *at, int value)
{
    static int host[N];
    OK(cudaMemcpy(host, at, sizeof(host), cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++)
        EXPECT(host[i] == value);
}

static void parent(int s)
{
    handles h;
    int *memory, *pooled, fd;
    cudaStream_t stream;
    cudaEvent_t ready, done;
    cudaMemPool_t pool;
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    props.location.type = cudaMemLocationTypeDevice;
    OK(cudaStreamCreate(&stream));
    OK(cudaMemPoolCreate(&pool, &props));
    OK(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    OK(cudaMalloc(&memory, N * sizeof(int)));
    OK(cudaMallocFromPoolAsync(&pooled, N * sizeof(int), pool, stream));
    OK(cudaMemsetAsync(memory, 0, N * sizeof(int), stream));
    OK(cudaMemsetAsync(pooled, 0, N * sizeof(int), stream));
    OK(cudaEventCreateWithFlags(&ready, cudaEventInterprocess | cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&done, cudaEventInterprocess | cudaEventDisableTiming));
    OK(cudaIpcGetMemHandle(&h.memory, memory));
    OK(cudaIpcGetEventHandle(&h.ready, ready));
    OK(cudaIpcGetEventHandle(&h.done, done));
    OK(cudaMemPoolExportPointer(&h.pointer, pooled));
    run_add(memory, 1, stream);
    run_add(pooled, 2, stream);
    OK(cudaEventRecord(ready, stream));
    send_all(&h, sizeof(h), s, fd);
    char byte;
    EXPECT(read(s, &byte, 1) == 1);
    OK(cudaEventSynchronize(done));
    expect_all(memory, 11);
    expect_all(pooled, 22);
    EXPECT(write(s, &byte, 1) == 1);
    OK(cudaFree(memory));
    OK(cudaFreeAsync(pooled, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemPoolDestroy(pool));
}

int main(int argc, char **argv)
{
    int ends[2], status;
    if (argc > 1)
        return child();
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    pid_t pid = fork(); // before this process uses CUDA
    if (pid == 0) {
        dup2(ends[1], SOCKET);
        execl("/proc/self/exe", argv[0], "child", (char *)nullptr);
        _exit(127);
    }
    close(ends[1]);
    parent(ends[0]);
    EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 0;
}

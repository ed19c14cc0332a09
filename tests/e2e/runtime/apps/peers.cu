// Two devices: peer access, copies between them, per-device contexts. Needs two devices to say more
// than that one cannot be its own peer.
#include "check.h"

__global__ void fill(int *x, int v)
{
    x[threadIdx.x] = v + threadIdx.x;
}
__global__ void add(int *x, const int *y)
{
    x[threadIdx.x] += y[threadIdx.x];
}

int main()
{
    int count, can;
    OK(cudaGetDeviceCount(&count));
    OK(cudaDeviceCanAccessPeer(&can, 0, 0));
    EXPECT(can == 0);
    EXPECT(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorInvalidDevice);
    cudaGetLastError();
    if (count < 2)
        return 0;
    int *a, *b, h[64];
    OK(cudaSetDevice(0));
    OK(cudaMalloc(&a, sizeof(h)));
    fill<<<1, 64>>>(a, 100);
    OK(cudaDeviceSynchronize());
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&b, sizeof(h)));
    fill<<<1, 64>>>(b, 1000);
    OK(cudaDeviceCanAccessPeer(&can, 1, 0));
    if (can) {
        OK(cudaDeviceEnablePeerAccess(0, 0));
        EXPECT(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorPeerAccessAlreadyEnabled);
        cudaGetLastError();
        add<<<1, 64>>>(b, a);
        OK(cudaDeviceSynchronize());
        OK(cudaDeviceDisablePeerAccess(0));
    }
    OK(cudaMemcpy(h, b, sizeof(h), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 64; i++)
        EXPECT(h[i] == 1000 + i + (can ? 100 + i : 0));
    OK(cudaMemcpyPeer(a, 0, b, 1, sizeof(h)));
    int back[64];
    OK(cudaMemcpy(back, a, sizeof(h), cudaMemcpyDefault));
    for (int i = 0; i < 64; i++)
        EXPECT(back[i] == h[i]);
    cudaPointerAttributes p;
    OK(cudaPointerGetAttributes(&p, b));
    EXPECT(p.device == 1 && p.type == cudaMemoryTypeDevice);
    return 0;
}

// A device-side assertion that fails: 710, sticky, until the device is reset.
#include "check.h"
#include <cassert>

__global__ void fail(int n)
{
    assert(n > 5);
}

__global__ void nothing() {}

int main()
{
    fail<<<1, 1>>>(6);
    OK(cudaDeviceSynchronize());
    fail<<<1, 1>>>(5);
    EXPECT(cudaDeviceSynchronize() == cudaErrorAssert);
    EXPECT(cudaGetLastError() == cudaErrorAssert);
    nothing<<<1, 1>>>();
    EXPECT(cudaGetLastError() == cudaErrorAssert);
    OK(cudaDeviceReset());
    nothing<<<1, 1>>>();
    OK(cudaDeviceSynchronize());
    return 0;
}

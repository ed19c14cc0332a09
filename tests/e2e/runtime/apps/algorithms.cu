// The toolkit's own device library: sort, scan, reduce and histogram through Thrust and CUB.
#include "check.h"
#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <algorithm>
#include <numeric>
#include <vector>

int main()
{
    const int n = 20000;
    std::vector<int> h(n);
    unsigned r = 1;
    for (int &v : h) {
        r = r * 1664525 + 1013904223;
        v = (int)(r >> 8) % 1000;
    }
    thrust::device_vector<int> d(h.begin(), h.end());
    EXPECT(thrust::reduce(d.begin(), d.end()) == std::accumulate(h.begin(), h.end(), 0));
    thrust::device_vector<int> sums(n);
    thrust::inclusive_scan(d.begin(), d.end(), sums.begin());
    std::vector<int> want(n);
    std::partial_sum(h.begin(), h.end(), want.begin());
    std::vector<int> got(n);
    thrust::copy(sums.begin(), sums.end(), got.begin());
    EXPECT(got == want);
    thrust::sort(d.begin(), d.end());
    std::sort(h.begin(), h.end());
    thrust::copy(d.begin(), d.end(), got.begin());
    EXPECT(got == h);

    int *bins, hb[11];
    OK(cudaMalloc(&bins, 10 * sizeof(int)));
    void *temp = nullptr;
    size_t bytes = 0;
    const int *in = thrust::raw_pointer_cast(d.data());
    OK(cub::DeviceHistogram::HistogramEven(temp, bytes, in, bins, 11, 0, 1000, n));
    OK(cudaMalloc(&temp, bytes));
    OK(cub::DeviceHistogram::HistogramEven(temp, bytes, in, bins, 11, 0, 1000, n));
    OK(cudaMemcpy(hb, bins, 10 * sizeof(int), cudaMemcpyDeviceToHost));
    for (int b = 0; b < 10; b++)
        EXPECT(hb[b] == std::count_if(h.begin(), h.end(), [b](int v) { return v / 100 == b; }));
    return 0;
}

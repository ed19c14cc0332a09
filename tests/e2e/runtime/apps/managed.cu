// Managed memory: hints, prefetch, attributes, and plain host access.
#include "check.h"

struct node {
    int value;
    node *next;
};

__global__ void sum_list(const node *first, int *sum)
{
    int s = 0;
    for (const node *p = first; p; p = p->next)
        s += p->value;
    *sum = s;
}

int main()
{
    int *sum, device;
    node *all;
    OK(cudaGetDevice(&device));
    OK(cudaMallocManaged(&sum, sizeof(int)));
    OK(cudaMallocManaged(&all, 100 * sizeof(node)));
    for (int i = 0; i < 100; i++) {
        all[i].value = i;
        all[i].next = i < 99 ? &all[i + 1] : nullptr;
    }
    cudaMemLocation here = {cudaMemLocationTypeDevice, device};
    cudaMemLocation host = {cudaMemLocationTypeHost, 0};
    OK(cudaMemAdvise(all, 100 * sizeof(node), cudaMemAdviseSetReadMostly, here));
    OK(cudaMemPrefetchAsync(all, 100 * sizeof(node), here, 0, 0));
    sum_list<<<1, 1>>>(all, sum);
    OK(cudaDeviceSynchronize());
    EXPECT(*sum == 4950);
    OK(cudaMemPrefetchAsync(sum, sizeof(int), host, 0, 0));
    OK(cudaDeviceSynchronize());
    int read_mostly = 0;
    OK(cudaMemRangeGetAttribute(&read_mostly, sizeof(int), cudaMemRangeAttributeReadMostly, all,
                                100 * sizeof(node)));
    EXPECT(read_mostly == 1);
    cudaPointerAttributes a;
    OK(cudaPointerGetAttributes(&a, all));
    EXPECT(a.type == cudaMemoryTypeManaged && a.devicePointer == all && a.hostPointer == all);
    OK(cudaFree(all));
    OK(cudaFree(sum));
    return 0;
}

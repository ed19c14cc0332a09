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

__global__ void count_up(int *x)
{
    x[threadIdx.x] += 1;
}

// Several pieces at once, on a stream; what is discarded may be anything afterwards.
static void batches(int device)
{
    enum { N = 3, LENGTH = 64 };
    void *pieces[N];
    size_t sizes[N], places[] = {0, 1};
    cudaMemLocation to[] = {{cudaMemLocationTypeDevice, device}, {cudaMemLocationTypeHost, 0}};
    cudaStream_t s;
    OK(cudaStreamCreate(&s));
    for (int i = 0; i < N; i++) {
        sizes[i] = LENGTH * sizeof(int);
        OK(cudaMallocManaged(&pieces[i], sizes[i]));
        for (int k = 0; k < LENGTH; k++)
            ((int *)pieces[i])[k] = 10 * i;
    }
    OK(cudaMemPrefetchBatchAsync(pieces, sizes, N, to, places, 2, 0, s));
    for (int i = 0; i < N; i++)
        count_up<<<1, LENGTH, 0, s>>>((int *)pieces[i]);
    OK(cudaStreamSynchronize(s));
    for (int i = 0; i < N; i++)
        EXPECT(((int *)pieces[i])[LENGTH - 1] == 10 * i + 1);
    OK(cudaMemDiscardBatchAsync(pieces, sizes, 1, 0, s));
    OK(cudaMemDiscardAndPrefetchBatchAsync(pieces + 1, sizes + 1, 1, to, places, 1, 0, s));
    OK(cudaStreamSynchronize(s));
    EXPECT(((int *)pieces[2])[0] == 21);
    places[0] = 1; // the first piece has no place then
    EXPECT(cudaMemPrefetchBatchAsync(pieces, sizes, N, to, places, 2, 0, s) ==
           cudaErrorInvalidValue);
    EXPECT(cudaMemDiscardBatchAsync(pieces, sizes, N, 5, s) == cudaErrorInvalidValue);
    (void)cudaGetLastError();

    int mostly = 7;
    cudaMemLocation preferred = to[0];
    int last_type = 7;
    OK(cudaMemAdvise(pieces[2], sizes[2], cudaMemAdviseSetPreferredLocation, preferred));
    void *answers[] = {&mostly, &last_type};
    size_t lengths[] = {sizeof(mostly), sizeof(last_type)};
    cudaMemRangeAttribute asked[] = {cudaMemRangeAttributeReadMostly,
                                     cudaMemRangeAttributePreferredLocationType};
    OK(cudaMemRangeGetAttributes(answers, lengths, asked, 2, pieces[2], sizes[2]));
    EXPECT(mostly == 0 && last_type == cudaMemLocationTypeDevice);
    EXPECT(cudaMemRangeGetAttributes(answers, lengths, asked, 0, pieces[2], sizes[2]) ==
           cudaErrorInvalidValue);
    OK(cudaStreamAttachMemAsync(s, pieces[0], 0, cudaMemAttachSingle));
    OK(cudaStreamSynchronize(s));
    count_up<<<1, LENGTH, 0, s>>>((int *)pieces[0]);
    OK(cudaStreamSynchronize(s));
    EXPECT(cudaStreamAttachMemAsync(s, pieces[0], 0, 77) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    for (void *piece : pieces)
        OK(cudaFree(piece));
    OK(cudaStreamDestroy(s));
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
    batches(device);
    OK(cudaFree(all));
    OK(cudaFree(sum));
    return 0;
}

// Copies and fills of every kind: rectangles, boxes, arrays, batches, between devices, to symbols; on streams.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "check.h"
#include <cstring>

enum { W = 24, H = 6, D = 3 };

__constant__ int table[8];
__device__ int copied[8];

__global__ void read_table(int *out)
{
    out[threadIdx.x] = table[threadIdx.x] + copied[threadIdx.x];
}

static cudaStream_t s;
static unsigned char box[D][H][W], got[D][H][W];

static void clear()
{
    std::memset(got, 0, sizeof(got));
}

static void rectangles()
{
    unsigned char *d;
    size_t pitch;
    OK(cudaMallocPitch(&d, &pitch, W, H));
    OK(cudaMemset2DAsync(d, pitch, 9, W, H, s));
    OK(cudaMemcpy2DAsync(d + 2 * pitch + 4, pitch, box[1], W, 10, 3, cudaMemcpyHostToDevice, s));
    clear();
    OK(cudaMemcpy2DAsync(got[0], W, d, pitch, W, H, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            EXPECT(got[0][y][x] ==
                   (y >= 2 && y < 5 && x >= 4 && x < 14 ? box[1][y - 2][x - 4] : 9));
    EXPECT(cudaMemcpy2DAsync(d, 4, box, W, 10, 3, cudaMemcpyHostToDevice, s) ==
           cudaErrorInvalidPitchValue);
    EXPECT(cudaMemset2DAsync(d, 4, 0, 10, 3, s) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    OK(cudaFree(d));
}

static void boxes(int other)
{
    cudaPitchedPtr d;
    cudaExtent all = make_cudaExtent(W, H, D);
    OK(cudaMalloc3D(&d, all));
    OK(cudaMemset3DAsync(d, 3, all, s));
    cudaMemcpy3DParms up = {};
    up.srcPtr = make_cudaPitchedPtr(box, W, W, H);
    up.dstPtr = d;
    up.srcPos = make_cudaPos(1, 2, 0);
    up.dstPos = make_cudaPos(5, 0, 1);
    up.extent = make_cudaExtent(7, 4, 2);
    up.kind = cudaMemcpyHostToDevice;
    OK(cudaMemcpy3DAsync(&up, s));
    OK(cudaStreamSynchronize(s));
    cudaPitchedPtr there = d;
    OK(cudaSetDevice(other));
    if (other)
        OK(cudaMalloc3D(&there, all));
    OK(cudaSetDevice(0));
    cudaMemcpy3DPeerParms over = {};
    over.srcPtr = d, over.srcDevice = 0;
    over.dstPtr = there, over.dstDevice = other;
    over.extent = all;
    if (other) {
        OK(cudaMemcpy3DPeerAsync(&over, s));
        OK(cudaStreamSynchronize(s));
        OK(cudaMemcpy3DPeer(&over));
    }
    cudaMemcpy3DParms back = {};
    back.srcPtr = there;
    back.dstPtr = make_cudaPitchedPtr(got, W, W, H);
    back.extent = all;
    back.kind = cudaMemcpyDeviceToHost;
    clear();
    OK(cudaMemcpy3D(&back));
    for (int z = 0; z < D; z++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                bool inside = z >= 1 && y < 4 && x >= 5 && x < 12;
                EXPECT(got[z][y][x] == (inside ? box[z - 1][y + 2][x - 4] : 3));
            }
    if (other)
        OK(cudaFree(there.ptr));
    OK(cudaFree(d.ptr));
    up.extent.width = W;
    EXPECT(cudaMemcpy3DAsync(&up, s) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

static void arrays()
{
    cudaChannelFormatDesc f = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned),
                          seen;
    cudaArray_t a, b, plane;
    cudaExtent extent;
    unsigned flags;
    unsigned char *linear;
    OK(cudaMallocArray(&a, &f, W, H, cudaArraySurfaceLoadStore));
    OK(cudaMallocArray(&b, &f, W, H));
    OK(cudaArrayGetInfo(&seen, &extent, &flags, a));
    EXPECT(seen.x == 8 && seen.y == 0 && seen.f == cudaChannelFormatKindUnsigned);
    EXPECT(extent.width == W && extent.height == H && extent.depth == 0);
    EXPECT(flags == cudaArraySurfaceLoadStore);
    OK(cudaGetChannelDesc(&seen, b));
    EXPECT(seen.x == 8);
    OK(cudaMemcpy2DToArrayAsync(a, 0, 0, box[2], W, W, H, cudaMemcpyHostToDevice, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaMemcpy2DArrayToArray(b, 2, 1, a, 4, 0, 12, 3, cudaMemcpyDeviceToDevice));
    clear();
    OK(cudaMemcpy2DFromArrayAsync(got[0], W, b, 2, 1, 12, 3, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    for (int y = 0; y < 3; y++)
        EXPECT(std::memcmp(&got[0][y][0], &box[2][y][4], 12) == 0);
    // Rows one after the other, from the place on.
    OK(cudaMalloc(&linear, W * H));
    OK(cudaMemcpyToArray(a, 5, 1, box[0], 2 * W, cudaMemcpyHostToDevice));
    OK(cudaMemcpyFromArray(linear, a, 5, 1, 2 * W, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpyToArrayAsync(b, 0, 0, linear, 2 * W, cudaMemcpyDeviceToDevice, s));
    clear();
    OK(cudaMemcpyFromArrayAsync(got[0], b, 0, 0, 2 * W, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    EXPECT(std::memcmp(got[0], box[0], 2 * W) == 0);
    OK(cudaMemcpyArrayToArray(a, 0, 0, b, 0, 0, W, cudaMemcpyDeviceToDevice));
    clear();
    OK(cudaMemcpy2DFromArray(got[0], W, a, 0, 0, W, 2, cudaMemcpyDeviceToHost));
    EXPECT(std::memcmp(got[0][0], box[0], W) == 0);
    EXPECT(std::memcmp(&got[0][1][5], box[0], W - 5) == 0); // what was put there before
    EXPECT(cudaMemcpy2DToArrayAsync(a, 20, 0, box, W, 12, 3, cudaMemcpyHostToDevice, s) ==
           cudaErrorInvalidValue);
    EXPECT(cudaArrayGetPlane(&plane, a, 0) == cudaErrorInvalidValue); // it has no planes
    cudaArraySparseProperties sparse;
    cudaArrayMemoryRequirements needs;
    EXPECT(cudaArrayGetSparseProperties(&sparse, a) == cudaErrorInvalidValue);
    EXPECT(cudaArrayGetSparseProperties(nullptr, a) == cudaErrorInvalidValue);
    EXPECT(cudaArrayGetMemoryRequirements(&needs, a, 0) ==
           cudaErrorInvalidValue); // no deferred mapping
    OK(cudaFree(linear));
    OK(cudaFreeArray(a));
    OK(cudaFreeArray(b));
    (void)cudaGetLastError();
}

static void mipmaps()
{
    cudaChannelFormatDesc f = cudaCreateChannelDesc<uchar4>();
    cudaMipmappedArray_t m;
    cudaArray_t level;
    cudaExtent extent;
    cudaArraySparseProperties sparse;
    cudaArrayMemoryRequirements needs;
    OK(cudaMallocMipmappedArray(&m, &f, make_cudaExtent(16, 8, 0), 3));
    OK(cudaGetMipmappedArrayLevel(&level, m, 2));
    OK(cudaArrayGetInfo(nullptr, &extent, nullptr, level));
    EXPECT(extent.width == 4 && extent.height == 2);
    EXPECT(cudaMipmappedArrayGetSparseProperties(&sparse, m) == cudaErrorInvalidValue);
    EXPECT(cudaMipmappedArrayGetMemoryRequirements(&needs, m, 0) == cudaErrorInvalidValue);
    OK(cudaFreeMipmappedArray(m));
    (void)cudaGetLastError();
}

static void descriptions()
{
    cudaChannelFormatDesc f = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    cudaTextureObject_t t;
    cudaSurfaceObject_t surface;
    OK(cudaMallocArray(&array, &f, W, H, cudaArraySurfaceLoadStore));
    cudaResourceDesc r = {}, r2;
    r.resType = cudaResourceTypeArray;
    r.res.array.array = array;
    cudaTextureDesc d = {}, d2;
    d.addressMode[0] = cudaAddressModeWrap;
    d.addressMode[1] = cudaAddressModeMirror;
    d.filterMode = cudaFilterModeLinear;
    d.readMode = cudaReadModeElementType;
    d.normalizedCoords = 1;
    d.borderColor[2] = 0.5f;
    cudaResourceViewDesc v = {}, v2;
    v.format = cudaResViewFormatFloat1;
    v.width = W, v.height = H;
    OK(cudaCreateTextureObject(&t, &r, &d, &v));
    OK(cudaGetTextureObjectResourceDesc(&r2, t));
    EXPECT(r2.resType == cudaResourceTypeArray && r2.res.array.array == array);
    OK(cudaGetTextureObjectTextureDesc(&d2, t));
    EXPECT(d2.addressMode[0] == cudaAddressModeWrap && d2.addressMode[1] == cudaAddressModeMirror);
    EXPECT(d2.filterMode == cudaFilterModeLinear && d2.normalizedCoords == 1);
    EXPECT(d2.readMode == cudaReadModeElementType && d2.borderColor[2] == 0.5f);
    OK(cudaGetTextureObjectResourceViewDesc(&v2, t));
    EXPECT(v2.format == cudaResViewFormatFloat1 && v2.width == W && v2.height == H);
    OK(cudaDestroyTextureObject(t));
    OK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    EXPECT(cudaGetTextureObjectResourceViewDesc(&v2, t) == cudaErrorInvalidValue); // it has no view
    OK(cudaDestroyTextureObject(t));
    OK(cudaCreateSurfaceObject(&surface, &r));
    OK(cudaGetSurfaceObjectResourceDesc(&r2, surface));
    EXPECT(r2.res.array.array == array);
    OK(cudaDestroySurfaceObject(surface));
    OK(cudaFreeArray(array));
    (void)cudaGetLastError();
}

static void batches()
{
    unsigned char *d;
    OK(cudaMalloc(&d, sizeof(box)));
    void *to[] = {d, d + W * H, d + 2 * W * H};
    const void *from[] = {box[2], box[1], box[0]};
    size_t sizes[] = {W * H, W * H, W * H}, places[] = {0, 2};
    cudaMemcpyAttributes how[2] = {};
    how[0].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    how[1].srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
    OK(cudaMemcpyBatchAsync((void *const *)to, from, sizes, 3, how, places, 2, s));
    clear();
    OK(cudaMemcpyAsync(got, d, sizeof(got), cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    for (int i = 0; i < 3; i++)
        EXPECT(std::memcmp(got[i], box[2 - i], W * H) == 0);
    places[0] = 1; // the first entry has no attributes then
    EXPECT(cudaMemcpyBatchAsync((void *const *)to, from, sizes, 3, how, places, 2, s) ==
           cudaErrorInvalidValue);
    EXPECT(cudaMemcpyBatchAsync((void *const *)to, from, sizes, 3, how, places, 2, 0) !=
           cudaSuccess);
    OK(cudaFree(d));
    (void)cudaGetLastError();
}

static void symbols_and_peers(int other)
{
    int values[8], host[8], *d, *there;
    for (int i = 0; i < 8; i++)
        values[i] = 3 * i;
    OK(cudaMalloc(&d, sizeof(values)));
    OK(cudaMemcpyToSymbolAsync(table, values, sizeof(values), 0, cudaMemcpyHostToDevice, s));
    OK(cudaMemcpyToSymbolAsync(copied, values, 16, 16, cudaMemcpyHostToDevice, s));
    read_table<<<1, 8, 0, s>>>(d);
    OK(cudaMemcpyFromSymbolAsync(host, copied, 16, 16, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    EXPECT(std::memcmp(host, values, 16) == 0);
    OK(cudaSetDevice(other));
    OK(cudaMalloc(&there, sizeof(values)));
    OK(cudaSetDevice(0));
    OK(cudaMemcpyPeerAsync(there, other, d, 0, sizeof(values), s));
    OK(cudaStreamSynchronize(s));
    OK(cudaMemcpy(host, there, sizeof(host), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 8; i++)
        EXPECT(host[i] == 3 * i + (i >= 4 ? 3 * (i - 4) : 0));
    OK(cudaFree(there));
    OK(cudaFree(d));
}

int main()
{
    int count;
    OK(cudaGetDeviceCount(&count));
    for (int z = 0; z < D; z++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                box[z][y][x] = (unsigned char)(z * 100 + y * 30 + x);
    OK(cudaStreamCreate(&s));
    rectangles();
    boxes(count - 1);
    arrays();
    mipmaps();
    descriptions();
    batches();
    symbols_and_peers(count - 1);
    OK(cudaStreamDestroy(s));
    return 0;
}

// Arrays, texture objects with filtering and address modes, surfaces, layered and 3-D.
#include "check.h"
#include <cmath>

__global__ void sample(cudaTextureObject_t t, float *out, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h)
        out[y * w + x] = tex2D<float>(t, x + 0.5f, y + 0.5f);
}

__global__ void between(cudaTextureObject_t t, float *out)
{
    out[threadIdx.x] = tex2D<float>(t, threadIdx.x + 1.0f, 0.5f);
}

__global__ void invert(cudaSurfaceObject_t s, int w, int h)
{
    int x = threadIdx.x, y = threadIdx.y;
    if (x < w && y < h) {
        float v;
        surf2Dread(&v, s, x * 4, y);
        surf2Dwrite(-v, s, x * 4, y);
    }
}

__global__ void volume(cudaTextureObject_t t, uchar4 *out)
{
    out[threadIdx.x] = tex3D<uchar4>(t, threadIdx.x, 1, 2);
}

int main()
{
    const int w = 16, h = 8;
    float in[w * h], out[w * h], *d;
    for (int i = 0; i < w * h; i++)
        in[i] = (float)i;
    cudaChannelFormatDesc f = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    OK(cudaMallocArray(&array, &f, w, h, cudaArraySurfaceLoadStore));
    OK(cudaMemcpy2DToArray(array, 0, 0, in, w * 4, w * 4, h, cudaMemcpyHostToDevice));
    OK(cudaMalloc(&d, sizeof(out)));
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeArray, r.res.array.array = array;
    cudaTextureDesc td = {};
    td.addressMode[0] = td.addressMode[1] = cudaAddressModeClamp;
    td.filterMode = cudaFilterModeLinear, td.readMode = cudaReadModeElementType;
    cudaTextureObject_t t;
    OK(cudaCreateTextureObject(&t, &r, &td, nullptr));
    sample<<<dim3(2, 1), dim3(8, 8)>>>(t, d, w, h);
    OK(cudaMemcpy(out, d, sizeof(out), cudaMemcpyDeviceToHost));
    for (int i = 0; i < w * h; i++)
        EXPECT(out[i] == in[i]);
    between<<<1, w>>>(t, d);
    OK(cudaMemcpy(out, d, w * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < w; i++)
        EXPECT(out[i] == (i < w - 1 ? i + 0.5f : 15.0f));
    cudaSurfaceObject_t s;
    OK(cudaCreateSurfaceObject(&s, &r));
    invert<<<1, dim3(w, h)>>>(s, w, h);
    OK(cudaMemcpy2DFromArray(out, w * 4, array, 0, 0, w * 4, h, cudaMemcpyDeviceToHost));
    for (int i = 0; i < w * h; i++)
        EXPECT(out[i] == -in[i]);
    OK(cudaDestroySurfaceObject(s));
    OK(cudaDestroyTextureObject(t));
    OK(cudaFreeArray(array));

    cudaExtent e = make_cudaExtent(8, 4, 4);
    uchar4 box[4][4][8], got[8], *g;
    for (int z = 0; z < 4; z++)
        for (int y = 0; y < 4; y++)
            for (int x = 0; x < 8; x++)
                box[z][y][x] = make_uchar4(x, y, z, 255);
    cudaChannelFormatDesc c = cudaCreateChannelDesc<uchar4>();
    cudaArray_t a3;
    OK(cudaMalloc3DArray(&a3, &c, e));
    cudaMemcpy3DParms p = {};
    p.srcPtr = make_cudaPitchedPtr(box, 8 * 4, 8, 4), p.dstArray = a3, p.extent = e;
    p.kind = cudaMemcpyHostToDevice;
    OK(cudaMemcpy3D(&p));
    r.res.array.array = a3;
    td.filterMode = cudaFilterModePoint;
    OK(cudaCreateTextureObject(&t, &r, &td, nullptr));
    OK(cudaMalloc(&g, sizeof(got)));
    volume<<<1, 8>>>(t, g);
    OK(cudaMemcpy(got, g, sizeof(got), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 8; i++)
        EXPECT(got[i].x == i && got[i].y == 1 && got[i].z == 2 && got[i].w == 255);
    return 0;
}

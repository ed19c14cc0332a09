// Textures and surfaces as programs use them, against plain loops on the host.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t e = (call);                                                                    \
        if (e != cudaSuccess) {                                                                    \
            std::printf("%s: %s\n", #call, cudaGetErrorString(e));                                 \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

static int failures;

static void near(const char *what, int i, float got, float want, float tolerance)
{
    if (!(std::fabs(got - want) <= tolerance) && failures++ < 10)
        std::printf("%s[%d]: got %g, expected %g\n", what, i, got, want);
}

enum { W = 32, H = 16, D = 4, COUNT = 256 };

__device__ __host__ inline float at_x(int i)
{
    return (i * 37 % 1000) / 1000.0f * 40 - 4 + 1.0f / 1024;
}
__device__ __host__ inline float at_y(int i)
{
    return (i * 91 % 1000) / 1000.0f * 20 - 2 + 1.0f / 1024;
}

__global__ void plain(cudaTextureObject_t t, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = tex2D<float>(t, at_x(i), at_y(i));
}

__global__ void bytes(cudaTextureObject_t t, float4 *out, uchar4 *raw, cudaTextureObject_t ints)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = tex2D<float4>(t, at_x(i) / W, at_y(i) / H);
    raw[i] = tex2D<uchar4>(ints, at_x(i), at_y(i));
}

__global__ void volume(cudaTextureObject_t t, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = tex3D<float>(t, at_x(i), at_y(i), (i % 13) / 3.0f);
}

__global__ void layered(cudaTextureObject_t t, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = tex2DLayered<float>(t, at_x(i), at_y(i), i % D);
}

__global__ void linear(cudaTextureObject_t t, int2 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = tex1Dfetch<int2>(t, i - 8);
}

__global__ void gathered(cudaTextureObject_t t, float4 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = tex2Dgather<float4>(t, i % W + 1, i / W + 1, 0);
}

__global__ void levels(cudaTextureObject_t t, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = tex2DLod<float>(t, 0.5f, 0.5f, i % 4);
}

__global__ void cube(cudaTextureObject_t t, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, f = i % 6;
    float3 d = {f == 0   ? 1.f
                : f == 1 ? -1.f
                         : .1f,
                f == 2   ? 1.f
                : f == 3 ? -1.f
                         : .1f,
                f == 4   ? 1.f
                : f == 5 ? -1.f
                         : .1f};
    out[i] = texCubemap<float>(t, d.x, d.y, d.z);
}

__global__ void transpose(cudaSurfaceObject_t from, cudaSurfaceObject_t to)
{
    int x = threadIdx.x, y = blockIdx.x;
    float2 v;
    surf2Dread(&v, from, x * 8, y);
    surf2Dwrite(make_float2(v.y, v.x), to, y * 8, x, cudaBoundaryModeTrap);
    uchar4 outside = surf2Dread<uchar4>(from, -4, y, cudaBoundaryModeZero);
    if (outside.x | outside.y | outside.z | outside.w)
        surf2Dwrite(make_float2(-1, -1), to, y * 8, x);
}

static int clamp(int i, int n)
{
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

static float bilinear(const float *t, float x, float y)
{
    x -= 0.5f, y -= 0.5f;
    int i = (int)std::floor(x), j = (int)std::floor(y);
    float a = std::round((x - i) * 256) / 256, b = std::round((y - j) * 256) / 256;
    auto at = [&](int p, int q) { return t[clamp(q, H) * W + clamp(p, W)]; };
    return (1 - a) * (1 - b) * at(i, j) + a * (1 - b) * at(i + 1, j) + (1 - a) * b * at(i, j + 1) +
           a * b * at(i + 1, j + 1);
}

template <typename T> static std::vector<T> download(const T *from, size_t n)
{
    std::vector<T> v(n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(v.data(), from, n * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
}

static cudaTextureObject_t object(cudaArray_t array, cudaTextureFilterMode filter,
                                  cudaTextureReadMode read, bool normalised)
{
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeArray;
    r.res.array.array = array;
    cudaTextureDesc d = {};
    for (int i = 0; i < 3; i++)
        d.addressMode[i] = cudaAddressModeClamp;
    d.filterMode = filter;
    d.readMode = read;
    d.normalizedCoords = normalised;
    cudaTextureObject_t t;
    CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    return t;
}

static void copy_volume(cudaArray_t array, float *from, int w, int h, int d, cudaMemcpyKind kind)
{
    cudaMemcpy3DParms p = {};
    p.srcPtr = make_cudaPitchedPtr(from, w * 4, w, h);
    p.dstArray = array;
    p.extent = make_cudaExtent(w, h, d);
    p.kind = kind;
    CHECK(cudaMemcpy3D(&p));
}

int main()
{
    std::vector<float> texels(W * H * D);
    for (size_t i = 0; i < texels.size(); i++)
        texels[i] = (float)(i * 2654435761u % 1000) / 100;
    float *out;
    CHECK(cudaMalloc(&out, COUNT * 16));
    cudaChannelFormatDesc f1 = cudaCreateChannelDesc<float>();

    cudaArray_t flat;
    CHECK(cudaMallocArray(&flat, &f1, W, H, cudaArrayTextureGather));
    CHECK(cudaMemcpy2DToArray(flat, 0, 0, texels.data(), W * 4, W * 4, H, cudaMemcpyHostToDevice));
    cudaTextureObject_t t = object(flat, cudaFilterModeLinear, cudaReadModeElementType, false);
    plain<<<4, 64>>>(t, out);
    auto r = download(out, COUNT);
    for (int i = 0; i < COUNT; i++)
        near("plain", i, r[i], bilinear(texels.data(), at_x(i), at_y(i)), 0.08f);
    gathered<<<4, 64>>>(t, (float4 *)out);
    auto g = download((float4 *)out, COUNT);
    for (int i = 0; i < COUNT; i++) {
        auto at = [&](int x, int y) { return texels[clamp(y, H) * W + clamp(x, W)]; };
        near("gather x", i, g[i].x, at(i % W, i / W + 1), 0);
        near("gather y", i, g[i].y, at(i % W + 1, i / W + 1), 0);
        near("gather z", i, g[i].z, at(i % W + 1, i / W), 0);
        near("gather w", i, g[i].w, at(i % W, i / W), 0);
    }
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFreeArray(flat));

    std::vector<uchar4> colours(W * H);
    for (int i = 0; i < W * H; i++)
        colours[i] = make_uchar4(i % 256, i * 7 % 256, i * 13 % 256, i * 29 % 256);
    cudaChannelFormatDesc u4 = cudaCreateChannelDesc<uchar4>();
    CHECK(cudaMallocArray(&flat, &u4, W, H));
    CHECK(cudaMemcpy2DToArray(flat, 0, 0, colours.data(), W * 4, W * 4, H, cudaMemcpyHostToDevice));
    t = object(flat, cudaFilterModePoint, cudaReadModeNormalizedFloat, true);
    cudaTextureObject_t ints = object(flat, cudaFilterModePoint, cudaReadModeElementType, false);
    uchar4 *raw;
    CHECK(cudaMalloc(&raw, COUNT * 4));
    bytes<<<4, 64>>>(t, (float4 *)out, raw, ints);
    auto c = download((float4 *)out, COUNT);
    auto u = download(raw, COUNT);
    for (int i = 0; i < COUNT; i++) {
        uchar4 want =
            colours[clamp((int)std::floor(at_y(i)), H) * W + clamp((int)std::floor(at_x(i)), W)];
        near("bytes", i, u[i].y, want.y, 0);
        near("colour", i, c[i].z, want.z / 255.0f, 1e-6f);
        near("alpha", i, c[i].w, want.w / 255.0f, 1e-6f);
    }
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaDestroyTextureObject(ints));
    CHECK(cudaFreeArray(flat));

    cudaArray_t deep;
    CHECK(cudaMalloc3DArray(&deep, &f1, make_cudaExtent(W, H, D)));
    copy_volume(deep, texels.data(), W, H, D, cudaMemcpyHostToDevice);
    t = object(deep, cudaFilterModePoint, cudaReadModeElementType, false);
    volume<<<4, 64>>>(t, out);
    r = download(out, COUNT);
    for (int i = 0; i < COUNT; i++)
        near("volume", i, r[i],
             texels[(clamp(i % 13 / 3, D) * H + clamp((int)std::floor(at_y(i)), H)) * W +
                    clamp((int)std::floor(at_x(i)), W)],
             0);
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFreeArray(deep));

    CHECK(cudaMalloc3DArray(&deep, &f1, make_cudaExtent(W, H, D), cudaArrayLayered));
    copy_volume(deep, texels.data(), W, H, D, cudaMemcpyHostToDevice);
    t = object(deep, cudaFilterModeLinear, cudaReadModeElementType, false);
    layered<<<4, 64>>>(t, out);
    r = download(out, COUNT);
    for (int i = 0; i < COUNT; i++)
        near("layered", i, r[i], bilinear(texels.data() + i % D * W * H, at_x(i), at_y(i)), 0.08f);
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFreeArray(deep));

    CHECK(cudaMalloc3DArray(&deep, &f1, make_cudaExtent(8, 8, 6), cudaArrayCubemap));
    std::vector<float> sides(8 * 8 * 6);
    for (size_t i = 0; i < sides.size(); i++)
        sides[i] = (float)(i / 64) + 1;
    copy_volume(deep, sides.data(), 8, 8, 6, cudaMemcpyHostToDevice);
    t = object(deep, cudaFilterModeLinear, cudaReadModeElementType, true);
    cube<<<4, 64>>>(t, out);
    r = download(out, COUNT);
    for (int i = 0; i < COUNT; i++)
        near("cube", i, r[i], (float)(i % 6) + 1, 1e-5f);
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFreeArray(deep));

    cudaMipmappedArray_t mips;
    CHECK(cudaMallocMipmappedArray(&mips, &f1, make_cudaExtent(16, 16, 0), 4));
    for (int l = 0; l < 4; l++) {
        cudaArray_t level;
        std::vector<float> same((16 >> l) * (16 >> l), 10.0f * l);
        CHECK(cudaGetMipmappedArrayLevel(&level, mips, l));
        CHECK(cudaMemcpy2DToArray(level, 0, 0, same.data(), (16 >> l) * 4, (16 >> l) * 4, 16 >> l,
                                  cudaMemcpyHostToDevice));
    }
    cudaResourceDesc mr = {};
    mr.resType = cudaResourceTypeMipmappedArray;
    mr.res.mipmap.mipmap = mips;
    cudaTextureDesc md = {};
    md.normalizedCoords = 1;
    md.filterMode = cudaFilterModeLinear;
    md.mipmapFilterMode = cudaFilterModePoint;
    md.maxMipmapLevelClamp = 10;
    CHECK(cudaCreateTextureObject(&t, &mr, &md, nullptr));
    levels<<<4, 64>>>(t, out);
    r = download(out, COUNT);
    for (int i = 0; i < COUNT; i++)
        near("level", i, r[i], 10.0f * (i % 4), 0);
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFreeMipmappedArray(mips));

    int2 *pairs;
    std::vector<int2> numbers(100);
    for (int i = 0; i < 100; i++)
        numbers[i] = make_int2(i, -i);
    CHECK(cudaMalloc(&pairs, 800));
    CHECK(cudaMemcpy(pairs, numbers.data(), 800, cudaMemcpyHostToDevice));
    cudaResourceDesc lr = {};
    lr.resType = cudaResourceTypeLinear;
    lr.res.linear.devPtr = pairs;
    lr.res.linear.desc = cudaCreateChannelDesc<int2>();
    lr.res.linear.sizeInBytes = 800;
    cudaTextureDesc ld = {};
    CHECK(cudaCreateTextureObject(&t, &lr, &ld, nullptr));
    linear<<<4, 64>>>(t, (int2 *)out);
    auto n = download((int2 *)out, COUNT);
    for (int i = 0; i < COUNT; i++)
        near("linear", i, (float)n[i].y, i >= 8 && i < 108 ? (float)(8 - i) : 0, 0);
    CHECK(cudaDestroyTextureObject(t));

    cudaChannelFormatDesc f2 = cudaCreateChannelDesc<float2>();
    cudaArray_t from, to;
    CHECK(cudaMallocArray(&from, &f2, W, H, cudaArraySurfaceLoadStore));
    CHECK(cudaMallocArray(&to, &f2, H, W, cudaArraySurfaceLoadStore));
    CHECK(cudaMemcpy2DToArray(from, 0, 0, texels.data(), W * 8, W * 8, H, cudaMemcpyHostToDevice));
    cudaResourceDesc sr = {};
    sr.resType = cudaResourceTypeArray;
    sr.res.array.array = from;
    cudaSurfaceObject_t s1, s2;
    CHECK(cudaCreateSurfaceObject(&s1, &sr));
    sr.res.array.array = to;
    CHECK(cudaCreateSurfaceObject(&s2, &sr));
    transpose<<<H, W>>>(s1, s2);
    std::vector<float2> turned(W * H);
    CHECK(cudaMemcpy2DFromArray(turned.data(), H * 8, to, 0, 0, H * 8, W, cudaMemcpyDeviceToHost));
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            near("transpose", y * W + x, turned[x * H + y].x, texels[(y * W + x) * 2 + 1], 0);
    CHECK(cudaDestroySurfaceObject(s1));
    CHECK(cudaDestroySurfaceObject(s2));
    std::printf(failures ? "%d differences\n" : "sampling: all as expected\n", failures);
    return failures != 0;
}

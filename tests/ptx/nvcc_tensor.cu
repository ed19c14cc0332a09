/* What CUDA's own headers make of tensor cores, asynchronous copies and barriers: kernels with <mma.h>,
 * <cuda/barrier>, <cuda/pipeline>, cooperative groups and cuda::atomic_ref. Run by nvcc_tensor.sh with
 * the driver API; every kernel has its check beside it. */
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

/* shared barriers are set up by init() */
#pragma nv_diag_suppress static_var_with_dynamic_init

namespace cg = cooperative_groups;
using namespace nvcuda;
using block_barrier = cuda::barrier<cuda::thread_scope_block>;

enum { N = 64, THREADS = 96, STEPS = 5 };

template <typename T, typename Acc> __device__ void product(const T *a, const T *b, Acc *c)
{
    int tile_row = threadIdx.x / 32 % 4 * 16;
    for (int tile_col = 0; tile_col < N; tile_col += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> fb;
        wmma::fragment<wmma::accumulator, 16, 16, 16, Acc> fc;
        wmma::fill_fragment(fc, Acc(0));
        for (int k = 0; k < N; k += 16) {
            wmma::load_matrix_sync(fa, a + tile_row * N + k, N);
            wmma::load_matrix_sync(fb, b + tile_col * N + k, N);
            wmma::mma_sync(fc, fa, fb, fc);
        }
        for (int i = 0; i < fc.num_elements; i++) {
            fc.x[i] = fc.x[i] + fc.x[i];
        }
        wmma::store_matrix_sync(c + tile_row * N + tile_col, fc, N, wmma::mem_row_major);
    }
}

extern "C" __global__ void product_half(const half *a, const half *b, float *c)
{
    product(a, b, c);
}

extern "C" __global__ void product_bf16(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c)
{
    product(a, b, c);
}

extern "C" __global__ void product_s8(const signed char *a, const signed char *b, int *c)
{
    product(a, b, c);
}

/* Sums of STEPS rows, each fetched while the one before is used, and read by another warp. */
extern "C" __global__ void pipeline_primitives(const int *in, int *out)
{
    __shared__ int stage[2][THREADS];
    int t = threadIdx.x, sum = 0;
    __pipeline_memcpy_async(&stage[0][t], &in[t], 4);
    __pipeline_commit();
    for (int s = 0; s < STEPS; s++) {
        if (s + 1 < STEPS) {
            __pipeline_memcpy_async(&stage[(s + 1) % 2][t], &in[(s + 1) * THREADS + t], 4);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        sum = sum * 3 + stage[s % 2][(t + 40) % THREADS];
        __syncthreads();
    }
    out[t] = sum;
}

extern "C" __global__ void pipeline_object(const int *in, int *out)
{
    __shared__ int stage[2][THREADS];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int t = threadIdx.x, sum = 0;
    pipe.producer_acquire();
    cuda::memcpy_async(block, stage[0], in, sizeof stage[0], pipe);
    pipe.producer_commit();
    for (int s = 0; s < STEPS; s++) {
        if (s + 1 < STEPS) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, stage[(s + 1) % 2], in + (s + 1) * THREADS, sizeof stage[0],
                               pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum = sum * 3 + stage[s % 2][(t + 40) % THREADS];
        pipe.consumer_release();
    }
    out[t] = sum;
}

extern "C" __global__ void barriers(const int *in, int *out)
{
    __shared__ block_barrier bar;
    __shared__ int stage[THREADS];
    int t = threadIdx.x, sum = 0;
    if (t == 0) {
        init(&bar, THREADS);
    }
    __syncthreads();
    for (int s = 0; s < STEPS; s++) {
        cuda::memcpy_async(&stage[t], &in[s * THREADS + t], sizeof(int), bar);
        bar.arrive_and_wait();
        sum = sum * 3 + stage[(t + 40) % THREADS];
        auto token = bar.arrive();
        bar.wait(std::move(token));
    }
    out[t] = sum;
}

extern "C" __global__ void groups(const int *in, int *out)
{
    __shared__ int stage[THREADS];
    auto block = cg::this_thread_block();
    int t = threadIdx.x, sum = 0;
    for (int s = 0; s < STEPS; s++) {
        cg::memcpy_async(block, stage, in + s * THREADS, sizeof stage);
        cg::wait(block);
        sum = sum * 3 + stage[(t + 40) % THREADS];
        block.sync();
    }
    out[t] = sum;
}

/* Every thread adds to cells by way of atomic references, of several types and scopes. */
extern "C" __global__ void atomics(const int *in, int *out)
{
    int t = threadIdx.x;
    cuda::atomic_ref<int, cuda::thread_scope_device> sum(out[0]);
    cuda::atomic_ref<int, cuda::thread_scope_system> most(out[1]);
    cuda::atomic_ref<float, cuda::thread_scope_block> real(*reinterpret_cast<float *>(out + 2));
    sum.fetch_add(in[t], cuda::memory_order_relaxed);
    most.fetch_max(in[t], cuda::memory_order_acq_rel);
    real.fetch_add(1.0f);
    atomicAdd(reinterpret_cast<half2 *>(out + 3), __floats2half2_rn(1.0f, 2.0f));
    atomicAdd(reinterpret_cast<__nv_bfloat16 *>(out + 4), __float2bfloat16(0.5f));
    cuda::atomic_ref<int, cuda::thread_scope_device> chain(out[5]);
    int expected = chain.load(cuda::memory_order_acquire);
    while (!chain.compare_exchange_weak(expected, expected + in[t])) {
    }
}

/* ---- host ---- */

static void check(CUresult r, const char *what)
{
    if (r != CUDA_SUCCESS) {
        fprintf(stderr, "%s gives %d\n", what, (int)r);
        exit(1);
    }
}
#define CHECK(call) check(call, #call)

static CUmodule module;
static int bad;

template <typename T> static CUdeviceptr upload(const std::vector<T> &v)
{
    CUdeviceptr p;
    CHECK(cuMemAlloc(&p, v.size() * sizeof(T)));
    CHECK(cuMemcpyHtoD(p, v.data(), v.size() * sizeof(T)));
    return p;
}

static void launch(const char *name, int threads, std::vector<CUdeviceptr> arguments)
{
    CUfunction f;
    std::vector<void *> params;
    for (auto &a : arguments) {
        params.push_back(&a);
    }
    CHECK(cuModuleGetFunction(&f, module, name));
    CHECK(cuLaunchKernel(f, 1, 1, 1, threads, 1, 1, 0, 0, params.data(), 0));
    CHECK(cuCtxSynchronize());
}

static void expect(const char *name, bool fine)
{
    if (!fine) {
        fprintf(stderr, "%s: wrong result\n", name);
        bad++;
    }
}

template <typename T, typename Acc> static void test_product(const char *name, T (*make)(int))
{
    std::vector<T> a(N * N), b(N * N);
    std::vector<int> x(N * N), y(N * N);
    std::vector<Acc> c(N * N);
    srand(7);
    for (int i = 0; i < N * N; i++) {
        a[i] = make(x[i] = rand() % 15 - 7);
        b[i] = make(y[i] = rand() % 15 - 7);
    }
    CUdeviceptr pc = upload(c);
    launch(name, 128, {upload(a), upload(b), pc});
    CHECK(cuMemcpyDtoH(c.data(), pc, c.size() * sizeof(Acc)));
    bool fine = true;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            int sum = 0;
            for (int k = 0; k < N; k++) {
                sum += x[i * N + k] * y[j * N + k];
            }
            fine &= c[i * N + j] == Acc(2 * sum);
        }
    }
    expect(name, fine);
}

static void test_stages(const char *name, const std::vector<int> &in)
{
    std::vector<int> out(THREADS);
    CUdeviceptr p = upload(out);
    launch(name, THREADS, {upload(in), p});
    CHECK(cuMemcpyDtoH(out.data(), p, sizeof(int) * THREADS));
    bool fine = true;
    for (int t = 0; t < THREADS; t++) {
        unsigned sum = 0;
        for (int s = 0; s < STEPS; s++) {
            sum = sum * 3 + unsigned(in[s * THREADS + (t + 40) % THREADS]);
        }
        fine &= out[t] == int(sum);
    }
    expect(name, fine);
}

static void test_atomics(const std::vector<int> &in)
{
    std::vector<int> out(6);
    CUdeviceptr p = upload(out);
    launch("atomics", THREADS, {upload(in), p});
    CHECK(cuMemcpyDtoH(out.data(), p, sizeof(int) * 6));
    int sum = 0, most = 0;
    for (int t = 0; t < THREADS; t++) {
        sum += in[t];
        most = in[t] > most ? in[t] : most;
    }
    float real;
    memcpy(&real, &out[2], 4);
    /* 96 and 192 as f16; 48 as bf16 */
    expect("atomics", out[0] == sum && out[1] == most && real == THREADS && out[3] == 0x5a005600 &&
                          (out[4] & 0xffff) == 0x4240 && out[5] == sum);
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    if (argc != 2) {
        return 2;
    }
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    char log[4096] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)sizeof log};
    FILE *file = fopen(argv[1], "r");
    std::vector<char> text(1 << 22);
    if (file == NULL || fread(text.data(), 1, text.size() - 1, file) == 0) {
        return 2;
    }
    fclose(file);
    if (cuModuleLoadDataEx(&module, text.data(), 2, options, values) != CUDA_SUCCESS) {
        fprintf(stderr, "%s: not loaded: %s\n", argv[1], log);
        return 1;
    }
    std::vector<int> in(STEPS * THREADS);
    for (auto &v : in) {
        v = rand() % 10000;
    }
    test_product<half, float>("product_half", [](int v) { return __float2half(float(v)); });
    test_product<__nv_bfloat16, float>("product_bf16",
                                       [](int v) { return __float2bfloat16(float(v)); });
    test_product<signed char, int>("product_s8", [](int v) { return (signed char)v; });
    for (const char *name : {"pipeline_primitives", "pipeline_object", "barriers", "groups"}) {
        test_stages(name, in);
    }
    test_atomics(in);
    return bad != 0;
}

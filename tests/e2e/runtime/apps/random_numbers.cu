// The toolkit's random numbers in kernels (headers alone): the same numbers as on the host, bit by bit
// where they are whole, and distributions with the right moments.
#define QUALIFIERS static inline __host__ __device__
#include "check.h"
#include <curand_kernel.h>
#include <cmath>
#include <vector>

enum { THREADS = 256, WORDS = 8, REALS = 4 };

struct Drawn {
    unsigned words[WORDS];
    float floats[REALS];
    double doubles[REALS];
};

template <class State> __host__ __device__ void draw(int thread, Drawn *d)
{
    State s;
    curand_init(1234ull, thread, thread * 3, &s);
    for (unsigned &w : d->words)
        w = curand(&s);
    for (float &f : d->floats)
        f = curand_uniform(&s);
    for (double &f : d->doubles)
        f = curand_uniform_double(&s);
}

template <class State> __global__ void draw_all(Drawn *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    draw<State>(i, out + i);
}

struct Sums {
    double normal, square;
    unsigned poisson;
};

template <class State> __global__ void distribute(Sums *sums, int each)
{
    State s;
    curand_init(99ull, blockIdx.x * blockDim.x + threadIdx.x, 0, &s);
    double normal = 0, square = 0;
    unsigned poisson = 0;
    for (int k = 0; k < each; k++) {
        float2 n = curand_normal2(&s);
        normal += n.x + n.y;
        square += n.x * n.x + n.y * n.y;
        poisson += curand_poisson(&s, 4.5);
    }
    atomicAdd(&sums->normal, normal);
    atomicAdd(&sums->square, square);
    atomicAdd(&sums->poisson, poisson);
}

template <class State> void check()
{
    Drawn *drawn;
    OK(cudaMalloc(&drawn, THREADS * sizeof *drawn));
    draw_all<State><<<2, THREADS / 2>>>(drawn);
    std::vector<Drawn> got(THREADS);
    OK(cudaMemcpy(got.data(), drawn, THREADS * sizeof *drawn, cudaMemcpyDeviceToHost));
    for (int i = 0; i < THREADS; i++) {
        Drawn want;
        draw<State>(i, &want);
        for (int k = 0; k < WORDS; k++)
            EXPECT(got[i].words[k] == want.words[k]);
        for (int k = 0; k < REALS; k++) {
            EXPECT(std::fabs(got[i].floats[k] - want.floats[k]) < 1e-6f);
            EXPECT(std::fabs(got[i].doubles[k] - want.doubles[k]) < 1e-12);
        }
    }

    const int each = 40;
    const double count = THREADS * each;
    Sums *sums, s;
    OK(cudaMalloc(&sums, sizeof *sums));
    OK(cudaMemset(sums, 0, sizeof *sums));
    distribute<State><<<2, THREADS / 2>>>(sums, each);
    OK(cudaMemcpy(&s, sums, sizeof s, cudaMemcpyDeviceToHost));
    EXPECT(std::fabs(s.normal / (2 * count)) < 0.05);
    EXPECT(std::fabs(s.square / (2 * count) - 1) < 0.05);
    EXPECT(std::fabs(s.poisson / count - 4.5) < 0.15);
    OK(cudaFree(drawn));
    OK(cudaFree(sums));
}

int main()
{
    check<curandStateXORWOW_t>();
    check<curandStatePhilox4_32_10_t>();
    check<curandStateMRG32k3a_t>();
    return 0;
}

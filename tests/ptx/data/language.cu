// Constructs that compilers turn into the rarer directives of PTX: initialised data with
// addresses, device functions, indirect calls, jump tables, local arrays, half precision.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __constant__ __attribute__((constant))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

struct entry_t {
    int number;
    double value;
    const char *name;
    int *target;
};

__device__ int counter = 7;
__device__ int cells[4] = {1, -2, 3};
__constant__ float coefficients[2][3] = {{1.5f, 2.5f}, {-0.25f, 4.0f, 8.0f}};
__device__ entry_t entries[2] = {{1, 0.5, "one", &counter}, {2, 2.5, "two", &cells[2]}};
__device__ unsigned short halves[3] = {0x3c00, 0xffff, 1};
__device__ long long *far_pointer = nullptr;
extern __shared__ float dynamic[];
__shared__ int tile[64];

typedef float (*unary_t)(float);
__device__ __attribute__((noinline)) float twice(float x)
{
    return x + x;
}
__device__ __attribute__((noinline)) float squared(float x)
{
    return x * x;
}
__device__ __attribute__((noinline)) float shared_sum(int n)
{
    return (float)tile[n] + dynamic[n];
}
__device__ unary_t functions[2] = {twice, squared};

extern "C" __global__ void __launch_bounds__(128, 2) call_indirect(float *x, int which)
{
    x[0] = functions[which & 1](x[0]);
}

extern "C" __global__ void call_direct(float *x, int n)
{
    tile[n] = n;
    dynamic[n] = x[1];
    x[0] = twice(x[0]) + shared_sum(n);
}

extern "C" __global__ void jump(int *x)
{
    switch (x[0]) {
    case 0:
        x[1] = 5;
        break;
    case 1:
        x[2] = x[7] * 3;
        break;
    case 2:
        x[0] /= x[4];
        break;
    case 3:
        x[6] %= 5;
        break;
    case 4:
        x[3] = x[4] - x[5];
        break;
    case 5:
        x[8] ^= x[9];
        break;
    case 6:
        x[10] = x[11] >> 2;
        break;
    default:
        x[12] = -1;
        break;
    }
}

struct big_t {
    float v[10];
    char c;
};

extern "C" __global__ void by_value(big_t b, float *x, char tag)
{
    int local[16];
    for (int i = 0; i < 16; i++)
        local[i] = (int)b.v[i % 10] + tag;
    x[0] = (float)local[(int)x[1] & 15] + b.c;
}

extern "C" __global__ void data(double *x, int i)
{
    x[0] = entries[i & 1].value + (double)coefficients[1][i % 3] + (double)counter +
           (double)entries[0].name[i & 3] + (double)*entries[i & 1].target + (double)halves[i % 3];
    far_pointer = (long long *)x;
}

extern "C" __global__ void half_precision(__fp16 *x)
{
    x[0] = (__fp16)((float)x[1] * (float)x[2] + 1.0f);
}

extern "C" __global__ void assembly(int *x)
{
    int v = x[0];
    asm volatile("{\n .reg .pred p;\n .reg .s32 t;\n setp.eq.s32 p, %0, 0;\n @!p bra Skip;\n"
                 " mov.s32 t, 5;\n add.s32 %0, %0, t;\nSkip:\n}"
                 : "+r"(v));
    asm volatile("{\n .reg .pred p;\n setp.gt.s32 p, %0, 9;\n @p bra Skip;\n"
                 " add.s32 %0, %0, 1;\nSkip:\n}"
                 : "+r"(v));
    x[0] = v;
}

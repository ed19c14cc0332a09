// Kernels that use the device's runtime and call functions as C++ does; test_ptx_runtime.c has a plain
// C reference for each.
#include "common/cuda/gb_device.cuh"

#ifdef __NVCC__
#include <cassert>
#include <cstdio>
#else
extern "C" __device__ int printf(const char *, ...);
extern "C" __device__ void *malloc(size_t);
extern "C" __device__ void free(void *);
extern "C" __device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);
__device__ void *operator new(size_t bytes)
{
    return malloc(bytes);
}
__device__ void operator delete(void *p) noexcept
{
    free(p);
}
__device__ void operator delete(void *p, size_t) noexcept
{
    free(p);
}
#define assert(e) ((e) ? (void)0 : __assertfail(#e, __FILE__, __LINE__, __func__, 1))
#endif

#define KERNEL extern "C" __global__ void

// ---- output ----

KERNEL print_conversions(const char *text, int *results)
{
    int r = 0;
    results[r++] = printf("plain text, 100%%\n");
    results[r++] = printf("[%d] [%5d] [%-5d] [%05d] [%+d] [% d] [%i]\n", -7, 42, 42, 42, 42, 42, 7);
    results[r++] = printf("[%u] [%x] [%X] [%#x] [%o] [%#o] [%08x]\n", 4000000000u, 0xbeefu, 0xbeefu,
                          0xbeefu, 8u, 8u, 0x1234u);
    results[r++] = printf("[%c] [%3c] [%-3c] [%s] [%8s] [%-8s] [%.2s]\n", 'a', 'b', 'c', "text",
                          "right", "left", "cut");
    results[r++] =
        printf("[%ld] [%lld] [%lu] [%llx] [%hd] [%hhd] [%hu]\n", -5000000000l, -6000000000ll,
               18446744073709551615ul, 0x123456789abcdefll, 70000, 300, 65537);
    results[r++] = printf("[%f] [%.2f] [%10.3f] [%-10.1f] [%e] [%.3E] [%g] [%G] [%a]\n", 1.5, 2.345,
                          3.14159, 2.5, 12345.678, 0.00012, 0.0001, 1e20, 1.0);
    results[r++] = printf("[%*d] [%.*f] [%-*d] [%s]\n", 6, 42, 2, 3.14159, 4, 7, text);
    results[r++] = printf("[%p] [%5.1f%%] [%s]\n", (void *)0x1234, 99.5, (const char *)0);
    results[r++] = printf("");
    const char *nothing = 0;
    asm volatile("" : "+l"(nothing));
    results[r++] = printf(nothing, 1);
}

// Some threads of each block, two lines each
KERNEL print_order(int from)
{
    if (threadIdx.x % 5 < 2) {
        printf("block %d thread %d first\n", blockIdx.x, threadIdx.x);
        __syncthreads();
        printf("block %d thread %d second %d\n", blockIdx.x, threadIdx.x, from);
    } else {
        __syncthreads();
    }
}

KERNEL print_lines(int lines)
{
    for (int i = 0; i < lines; i++)
        printf("line %05d of a text that is as long as others\n", i);
}

KERNEL check_positive(const int *values, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        assert(values[i] > 0);
}

// ---- the heap ----

struct node {
    node *next;
    int value;
};

// A list per thread, kept over launches
KERNEL list_build(node **heads, int length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    node *head = 0;
    for (int k = 0; k < length; k++) {
        node *n = (node *)malloc(sizeof(node));
        n->next = head;
        n->value = i * 100 + k;
        head = n;
    }
    heads[i] = head;
}

KERNEL list_sum(node **heads, int *sums)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    for (node *n = heads[i]; n; n = n->next)
        sum += n->value;
    sums[i] = sum;
}

KERNEL list_free(node **heads)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (node *n = heads[i], *next; n; n = next) {
        next = n->next;
        free(n);
    }
    heads[i] = 0;
}

// What fits into the heap, in pieces; then all of it again in one
KERNEL heap_fill(int bytes, int *counts)
{
    char *kept[512];
    int n = 0;
    while (n < 512 && (kept[n] = (char *)malloc(bytes))) {
        kept[n][0] = (char)n;
        kept[n][bytes - 1] = (char)n;
        n++;
    }
    int wrong = 0;
    for (int k = 0; k < n; k++) {
        wrong += kept[k][0] != (char)k || kept[k][bytes - 1] != (char)k || ((size_t)kept[k] & 15);
        free(kept[k]);
    }
    free(0);
    if (n)
        free(kept[0]); // twice
    char *all = (char *)malloc((size_t)bytes * n);
    counts[0] = n;
    counts[1] = wrong;
    counts[2] = all != 0;
    free(all);
}

// ---- functions ----

struct shape {
    int id;
    __device__ shape(int id) : id(id) {}
    __device__ virtual int area() const = 0;
    __device__ virtual int scaled(int by)
    {
        return area() * by + id;
    }
    __device__ virtual ~shape() {}
};

struct square : shape {
    int side;
    __device__ square(int id, int side) : shape(id), side(side) {}
    __device__ int area() const override
    {
        return side * side;
    }
};

struct box : shape {
    int w, h;
    __device__ box(int id, int w, int h) : shape(id), w(w), h(h) {}
    __device__ int area() const override
    {
        return w * h;
    }
    __device__ int scaled(int by) override
    {
        return area() * by * by - id;
    }
};

__device__ __noinline__ shape *make_shape(int kind, int id, int a, int b)
{
    return kind % 2 ? (shape *)new square(id, a) : (shape *)new box(id, a, b);
}

KERNEL virtual_shapes(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    shape *s = make_shape(in[i], i, in[i] % 17, in[i] % 5);
    int sum = 0;
    for (int k = 0; k < in[i] % 4 + 1; k++)
        sum += s->scaled(k + 1);
    out[i] = sum;
    delete s;
}

// Sorts 32 numbers per thread, by recursion
__device__ __noinline__ void quick_sort(int *a, int low, int high)
{
    if (low >= high)
        return;
    int pivot = a[(low + high) / 2], l = low, h = high;
    while (l <= h) {
        while (a[l] < pivot)
            l++;
        while (a[h] > pivot)
            h--;
        if (l <= h) {
            int t = a[l];
            a[l++] = a[h];
            a[h--] = t;
        }
    }
    quick_sort(a, low, h);
    quick_sort(a, l, high);
}

KERNEL sort_rows(int *rows, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, own[32];
    if (i >= n)
        return;
    for (int k = 0; k < 32; k++)
        own[k] = rows[i * 32 + k];
    quick_sort(own, 0, 31);
    for (int k = 0; k < 32; k++)
        rows[i * 32 + k] = own[k];
}

// A function object by value, called through a template that is not inlined
struct wide {
    int v[40];
};

template <typename F> __device__ __noinline__ wide apply(F f, wide w, short k, char c, bool twice)
{
    for (int n = 0; n < 40; n++)
        w.v[n] = f(w.v[n], n) + k * c;
    if (twice)
        w.v[c & 31] *= 2;
    return w;
}

KERNEL function_objects(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int a = in[i], b = i;
    wide w;
    for (int k = 0; k < 40; k++)
        w.v[k] = a + k;
    w = apply([=](int x, int k) { return x * (a & 7) + k * b; }, w, (short)(a * 300), (char)a,
              (i & 1) != 0);
    w = apply([&](int x, int k) { return x ^ (k + b); }, w, (short)-i, (char)(i * 7), (a & 2) != 0);
    int sum = 0;
    for (int k = 0; k < 40; k++)
        sum = sum * 31 + w.v[k];
    out[i] = sum;
}

typedef float (*unary)(float);
__device__ __noinline__ float twice(float x)
{
    return x * 2;
}
__device__ __noinline__ float plus_one(float x)
{
    return x + 1;
}
__device__ __noinline__ float square_of(float x)
{
    return x * x;
}
__constant__ unary operations[3] = {twice, plus_one, square_of};
__device__ unary chosen = square_of;

KERNEL function_pointers(const int *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = (float)(in[i] % 100);
    for (int k = 0; k < 3; k++)
        x = operations[(in[i] + k) % 3](x);
    out[i] = chosen(x) - x;
}

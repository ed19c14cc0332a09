/* The plain C loops of bench/kernels, compiled with -O3 (see kernels.cmake): what a user writes who
 * has no device. */
#include "bench/kernels_plain.h"

#include <math.h>

void plain_matmul(int n, const float *a, const float *b, float *c)
{
    for (int row = 0; row < n; row++) {
        for (int col = 0; col < n; col++)
            c[row * n + col] = 0;
        for (int k = 0; k < n; k++)
            for (int col = 0; col < n; col++)
                c[row * n + col] += a[row * n + k] * b[k * n + col];
    }
}

void plain_saxpy(int n, float a, const float *x, float *y)
{
    for (int i = 0; i < n; i++)
        y[i] = a * x[i] + y[i];
}

double plain_sum(int n, const float *x)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)x[i];
    return sum;
}

void plain_softmax(int rows, int columns, const float *x, float *out)
{
    for (int row = 0; row < rows; row++) {
        const float *in = x + row * columns;
        float *o = out + row * columns;
        float top = in[0], sum = 0;
        for (int i = 1; i < columns; i++)
            top = in[i] > top ? in[i] : top;
        for (int i = 0; i < columns; i++) {
            o[i] = expf(in[i] - top);
            sum += o[i];
        }
        float scale = 1 / sum;
        for (int i = 0; i < columns; i++)
            o[i] *= scale;
    }
}

void plain_layernorm(int rows, int columns, const float *x, const float *weight, const float *bias,
                     float *out)
{
    for (int row = 0; row < rows; row++) {
        const float *in = x + row * columns;
        float *o = out + row * columns;
        float sum = 0, square = 0;
        for (int i = 0; i < columns; i++)
            sum += in[i];
        float mean = sum / (float)columns;
        for (int i = 0; i < columns; i++) {
            float d = in[i] - mean;
            square += d * d;
        }
        float scale = 1 / sqrtf(square / (float)columns + 1e-5f);
        for (int i = 0; i < columns; i++)
            o[i] = (in[i] - mean) * scale * weight[i] + bias[i];
    }
}

long long plain_mandelbrot(int width, int height, int limit, int *out)
{
    long long rounds = 0;
    for (int py = 0; py < height; py++) {
        for (int px = 0; px < width; px++) {
            float cx = -2.0f + 3.0f / (float)width * (float)px;
            float cy = -1.5f + 3.0f / (float)height * (float)py, x = 0, y = 0;
            int i = 0;
            while (i < limit && x * x + y * y <= 4.0f) {
                float next = x * x - y * y + cx;
                y = 2.0f * x * y + cy;
                x = next;
                i++;
            }
            out[py * width + px] = i;
            rounds += i;
        }
    }
    return rounds;
}

void plain_histogram(int n, const uint8_t *x, uint32_t *bins)
{
    for (int i = 0; i < n; i++)
        bins[x[i]]++;
}

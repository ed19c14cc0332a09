/* kernels_plain.h - the kernels of bench/kernels as plain C loops. */
#ifndef KERNELS_PLAIN_H
#define KERNELS_PLAIN_H

#include <stdint.h>

void plain_matmul(int n, const float *a, const float *b, float *c);
void plain_saxpy(int n, float a, const float *x, float *y);
double plain_sum(int n, const float *x);
void plain_softmax(int rows, int columns, const float *x, float *out);
void plain_layernorm(int rows, int columns, const float *x, const float *weight, const float *bias,
                     float *out);
/* Gives the number of iterations of all pixels together. */
long long plain_mandelbrot(int width, int height, int limit, int *out);
void plain_histogram(int n, const uint8_t *x, uint32_t *bins);

#endif

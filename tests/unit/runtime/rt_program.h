/* rt_program.h - what nvcc would have made of rt_kernels.cu: stubs, shadows and their registration. */
#ifndef RT_PROGRAM_H
#define RT_PROGRAM_H

#include "rt_api.h"

/* Host addresses of the kernels and variables, as a program names them. */
void rt_add(const float *a, const float *b, float *c, int n);
void rt_scale(float *x, int n);
void rt_count(void);
void rt_touch(int *p);
extern int rt_counter;
extern float rt_factors[4];

/* A chevron launch on a stream; returns what the stub's launch returned. */
cudaError_t rt_launch(const void *kernel, dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                      void **args);

#endif

/* matrix_help.h - what the two files of matrix helpers share. */
#ifndef CPU_MATRIX_HELP_H
#define CPU_MATRIX_HELP_H

#include "gpu-proxy/cpu/jit/matrix.h"

/* D = A * B + C on slots (helpers_mma.c). */
void cpu_matrix_multiply(const cpu_matrix_t *what, uint8_t *slots);

#endif

/* kernels_row.h - what bench/kernels measures: a kernel, its arguments, and what it must compute.
 *
 * Buffers are described once; the device, the peer and the reference each have a copy of their own.
 * Read-only but for `work`, which bench_row_expect sets. */
#ifndef KERNELS_ROW_H
#define KERNELS_ROW_H

#include <stddef.h>
#include <stdint.h>

enum { ROW_BUFFERS = 4, ROW_ARGS = 8 };

typedef struct {
    char kind; /* 'i': integer, 'f': float, 'b': buffer */
    int integer;
    float number;
} row_arg_t;

typedef struct row {
    const char *name; /* also the kernel's */
    const char *unit; /* value = work per nanosecond */
    double work;      /* of a run; 0: expect tells */
    double reference_work;
    unsigned grid[3], block[3];
    row_arg_t args[ROW_ARGS]; /* up to the first of kind 0 */
    size_t bytes[ROW_BUFFERS];
    int result; /* buffer that the kernel writes; cleared before the run that is checked */
    int keeps;  /* 1: the result's old contents matter, it is not cleared */
    enum { RESULT_FLOATS, RESULT_INTEGERS } type;
    double tolerance; /* of floats: relative to 1 or to the value, whichever is larger */
    double wrong;     /* share of results that may differ (chaotic kernels); else 0 */
    void (*fill)(const struct row *row, void **buffers);
    double (*expect)(const struct row *row, void **buffers); /* writes the result; gives the work */
    void (*reference)(const struct row *row, void **buffers); /* NULL: none installed, or expect */
    enum { FLOOR_NONE, FLOOR_FLOPS, FLOOR_MEMCPY } floor;
    int reference_is_expect; /* 1: the plain C loop is what we are measured against */
} row_t;

/* All rows; ends with a NULL name. Looks for what references need (OpenBLAS). */
row_t *bench_rows(void);

/* A row's buffers, filled. The program ends if memory is out. */
void bench_row_buffers(const row_t *row, void **buffers);
void bench_row_free(const row_t *row, void **buffers);

/* Compares a result with the expected one; 1: as it should be, else a message. */
int bench_row_check(const row_t *row, const void *got, const void *expected, const char *whose);

#endif

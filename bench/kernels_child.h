/* kernels_child.h - what bench/kernels measures in processes of its own: first launches, launches with
 * all threads, and one core against two. */
#ifndef KERNELS_CHILD_H
#define KERNELS_CHILD_H

#include "bench/kernels_row.h"

typedef struct {
    const char *target; /* "v3", "v4" */
    int json, rounds, peer;
} child_options_t;

/* Is it a row of this file? */
int bench_child_row(const char *name);

/* Measures the rows of this file, or only `name`, and prints their lines. */
void bench_children(const child_options_t *options, const char *name, const char *suffix);

/* The child's own main: 0, or an exit code. */
int bench_child_main(const char *what, const char *row, const char *target);

#endif

/* error_rows.h - tables of calls and the errors that they must return. Every row is made; all that is
 * not as it should be is told. */
#ifndef ERROR_ROWS_H
#define ERROR_ROWS_H

#include <stdio.h>

#include "device_kernels.h"

typedef struct {
    const char *call;
    CUresult expected, got;
} error_row_t;

#define ROW(error, call) {#call, (error), cu->call}

static inline void check_rows(const error_row_t *rows, size_t count)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        const char *expected = "?", *got = "?";
        if (rows[i].expected == rows[i].got)
            continue;
        (void)cu->cuGetErrorName(rows[i].expected, &expected);
        (void)cu->cuGetErrorName(rows[i].got, &got);
        fprintf(stderr, "%s: %s instead of %s\n", rows[i].call, got, expected);
        wrong++;
    }
    if (wrong)
        fail_msg("%zu of %zu calls", wrong, count);
}

#define CHECK(rows) check_rows(rows, sizeof(rows) / sizeof((rows)[0]))

#endif

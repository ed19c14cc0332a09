/* call_help.h - programs that call device functions, against a C function of the thread's number and
 * input. */
#ifndef CALL_HELP_H
#define CALL_HELP_H

#include "tests/ptx/pt_device.h"

typedef struct {
    const char *name;
    const char *functions; /* module scope */
    const char *code;      /* %r9 from %r1 (tid) and %r3 (input); .param variables in { } */
    uint32_t (*ref)(uint32_t tid, uint32_t x);
} call_case_t;

/* Runs every case with blocks of several shapes and compares. Inputs are below `limit`. */
void call_check(const call_case_t *cases, size_t count, uint32_t limit);

/* The text of a program; the kernel is `k(in, out)`. */
void call_program(char *text, size_t size, const char *functions, const char *code);

/* One block of 64 threads with inputs 0, 1, 2...; the result of launch or wait. `out` may be NULL. */
CUresult call_run(const char *functions, const char *code, uint32_t *out);

#endif

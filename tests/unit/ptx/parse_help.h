/* parse_help.h - small steps of the parser's tests. */
#ifndef PARSE_HELP_H
#define PARSE_HELP_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu-proxy/cpu/ptx/ptx_parse.h"

/* A kernel `k(.param .u64 a, .param .u32 b)` with registers of every type around `body`:
 * %p %h %r %d (b16, b32, b64) %f %g (f32, f64) %x (f16), 30 of each; .shared s, .global g0. */
void make_kernel(char *out, size_t size, const char *body);

/* Parses text that must be right; fails the test with the log otherwise. */
ptx_module_t *parse_ok(const char *text);
ptx_module_t *parse_kernel(const char *body);

/* Parses text that must be wrong; the log is in `log` (1024 bytes). */
gb_status_t parse_bad(const char *text, char *log);

const ptx_function_t *function_of(const ptx_module_t *m, const char *name);
const ptx_var_t *var_of(const ptx_module_t *m, const char *name);

#endif

/* ptx_parse.h - PTX text to the typed form of ptx_ir.h.
 *
 * Understood: PTX ISA 1.x to 9.x as nvcc and clang write it, every opcode of ptx_op_t, any .target.
 * Debug information (.loc, .file, .section, @@dwarf) and .pragma are skipped.
 * Never trusts the text: any bytes give a module or an error, in time about linear in the size.
 * Thread-safe: calls share nothing. */
#ifndef PTX_PARSE_H
#define PTX_PARSE_H

#include <stddef.h>

#include "common/core/gb_status.h"
#include "gpu-proxy/cpu/ptx/ptx_ir.h"

/* Limits; beyond them parsing fails with GB_ERR_LIMIT. */
enum {
    PTX_MAX_TEXT = 256 << 20,       /* bytes of PTX */
    PTX_MAX_ERRORS = 16,            /* logged before the parser gives up */
    PTX_MAX_SCOPES = 64,            /* nested { } and parentheses in expressions */
    PTX_MAX_PARAM_BYTES = 32764,    /* of a kernel */
    PTX_MAX_VAR_BYTES = 1 << 30,    /* of one variable */
    PTX_MAX_INIT_BYTES = 256 << 20, /* initial values of a module, together */
    PTX_MAX_OPERANDS = 64,          /* of an instruction or vector; 255 arguments of a call */
};

/* Where error lines go, in the style of CUDA's JIT error log: one line each,
 * "ptx: line 17: unknown opcode 'foo.bar'". The caller owns the buffer. */
typedef struct {
    char *text;  /* always NUL-terminated after a call, if size > 0 */
    size_t size; /* bytes of the buffer; what does not fit is cut */
    size_t used; /* out: bytes written without the NUL */
} ptx_log_t;

/* Appends a line, cut where the buffer ends. `log` may be NULL. */
void ptx_log_add(ptx_log_t *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Parses `size` bytes of PTX (a NUL ends the text early). `log` may be NULL. On success the caller
 * owns *out. GB_ERR_FORMAT: the text is wrong; GB_ERR_UNSUPPORTED: right, but of a kind not done
 * here (32-bit addresses, unknown opcode); GB_ERR_LIMIT; GB_ERR_NO_MEMORY. gb_why() has the first
 * line of the log. */
gb_status_t ptx_parse(const char *text, size_t size, ptx_log_t *log, ptx_module_t **out);

void ptx_module_free(ptx_module_t *module);

#endif

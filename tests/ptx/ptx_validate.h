/* ptx_validate.h - checks that a parsed module keeps what ptx_ir.h promises. */
#ifndef PTX_VALIDATE_H
#define PTX_VALIDATE_H

#include "gpu-proxy/cpu/ptx/ptx_ir.h"

/* The first broken promise as a line of text; NULL if there is none. */
const char *ptx_validate(const ptx_module_t *m);

#endif

/* Any bytes as PTX: a module that keeps what ptx_ir.h promises, or an error with a log line. */
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_parse.h"
#include "tests/ptx/ptx_validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char log[256];
    ptx_log_t sink = {.text = log, .size = sizeof log};
    ptx_module_t *m = NULL;
    gb_status_t status = ptx_parse((const char *)data, size, &sink, &m);
    if (status == GB_OK ? ptx_validate(m) != NULL : m != NULL || strncmp(log, "ptx: ", 5) != 0)
        abort();
    ptx_module_free(m);
    return 0;
}

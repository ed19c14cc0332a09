/* helpers_runtime.h - between helpers_runtime.c and helpers_printf.c. */
#ifndef CPU_HELPERS_RUNTIME_H
#define CPU_HELPERS_RUNTIME_H

#include "gpu-proxy/cpu/jit/helpers_lane.h"
#include "gpu-proxy/cpu/ptx/ptx_ir.h"

/* The thread that calls: whose local memory is meant. */
typedef struct {
    cpu_launch_t *launch;
    uint32_t strip;
    unsigned lane;
} cpu_caller_t;

/* Text under construction. Starts in place, goes to the heap when it grows; free with cpu_text_free. */
typedef struct {
    char *data;
    size_t used, capacity;
    bool failed; /* out of memory: what did not fit is lost */
    char small[1024];
} cpu_text_t;

void cpu_text_init(cpu_text_t *text);
void cpu_text_free(cpu_text_t *text);
void cpu_text_add(cpu_text_t *text, const char *bytes, size_t count);

/* Appends the kernel's string at a generic address; false after a fault has been recorded. */
bool cpu_text_add_string(cpu_text_t *text, const cpu_caller_t *caller, uint64_t address);

/* Formats as printf in a kernel does: arguments lie in memory at their natural alignment. False after
 * a fault has been recorded; *result is what vprintf gives. */
bool cpu_format(cpu_text_t *text, const cpu_caller_t *caller, uint64_t format, uint64_t arguments,
                int32_t *result);

#endif

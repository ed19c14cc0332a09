/* jit_rig.h - compiles PTX text for a block shape and runs grids of it in a window of test memory. */
#ifndef JIT_RIG_H
#define JIT_RIG_H

#include "gpu-proxy/cpu/jit/cpu_code.h"
#include "gpu-proxy/cpu/jit/jit.h"
#include "gpu-proxy/cpu/ptx/ptx_parse.h"

enum { RIG_WINDOW = 8 << 20 };

typedef struct {
    ptx_module_t *module;
    cpu_code_t *code;
    cpu_launch_t launch;
    uint8_t *scratch;
    volatile uint32_t cancel;
    char log[4096];
} rig_t;

/* Memory that kernels may touch: RIG_WINDOW bytes, zeroed by rig_begin, with unmapped pages around. */
uint8_t *rig_memory(void);
void rig_clear(void);

/* Compiles `kernel` of the text for one shape; width 0 chooses. Fails the test on any error. */
void rig_begin(rig_t *rig, const char *ptx, const char *kernel, cpu_shape_t shape, unsigned width);
void rig_begin_strips(rig_t *rig, const char *ptx, const char *kernel, cpu_shape_t shape,
                      unsigned width, unsigned strips);
void rig_end(rig_t *rig);

/* Runs every CTA of a grid; stops at the first that does not end well. */
cpu_run_t rig_run(rig_t *rig, const uint32_t grid[3], const uint32_t block[3], const void *params,
                  uint32_t dynamic_shared);

cpu_shape_t rig_exact(uint32_t x, uint32_t y, uint32_t z);

/* Text of a kernel "k" with one u64 parameter p, and registers %p0-9, %r0-39, %rd0-39, %f0-39,
 * %h0-9 (b16), %d0-9 (f64). %rd0 holds p, %r0 the thread's linear number in the grid's x order. */
char *rig_kernel(const char *declarations, const char *body);

#endif

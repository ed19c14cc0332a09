/* tex_fast.h - the frequent fetches for many lanes at once: one, two or three dimensions, any format and
 * mode, without mipmaps, cubes and offsets. Results are those of cpu_tex_sample, bit by bit. */
#ifndef CPU_TEX_FAST_H
#define CPU_TEX_FAST_H

#include "gpu-proxy/cpu/jit/tex_op.h"

/* False: it is none of these, nothing has been done. `_v3` needs AVX2 and F16C, `_v4` AVX-512. */
bool cpu_tex_fast_v3(const cpu_tex_image_t *image, const cpu_tex_sampler_t *sampler,
                     const cpu_tex_what_t *what, uint32_t mask, cpu_tex_args_t *args);
bool cpu_tex_fast_v4(const cpu_tex_image_t *image, const cpu_tex_sampler_t *sampler,
                     const cpu_tex_what_t *what, uint32_t mask, cpu_tex_args_t *args);

#endif

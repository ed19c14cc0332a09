/* helpers_tex.h - the helpers behind texture and surface instructions. */
#ifndef CPU_HELPERS_TEX_H
#define CPU_HELPERS_TEX_H

#include "gpu-proxy/cpu/jit/helpers.h"
#include "gpu-proxy/cpu/jit/tex_op.h"

/* cpu_helpers_t.texture. */
int32_t cpu_help_texture(cpu_launch_t *launch, const cpu_tex_what_t *what, uint32_t mask,
                         uint32_t strip, cpu_tex_args_t *args);

/* suld, sust and sured for the lanes of the mask, which mean this surface. Returns 0 or the fault's
 * code; *lane is the lane that caused it. */
int32_t cpu_surface_access(const cpu_tex_image_t *image, const cpu_tex_what_t *what, uint32_t mask,
                           cpu_tex_args_t *args, unsigned *lane);

#endif

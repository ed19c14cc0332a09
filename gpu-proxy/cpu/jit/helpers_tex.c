/* Texture and surface instructions of a strip: handles to objects, then lane by lane. */
#include "gpu-proxy/cpu/jit/helpers_tex.h"
#include "gpu-proxy/cpu/jit/tex_fast.h"

#include <string.h>

static float float_of(uint32_t w)
{
    float f;
    memcpy(&f, &w, 4);
    return f;
}

static int32_t fault(cpu_launch_t *l, int32_t code, uint64_t handle, unsigned lane, uint32_t strip)
{
    int32_t state = l->helpers->fault(l, (uint32_t)code, 1u << lane, strip);
    l->fault.address = handle;
    l->fault.space = PTX_SPACE_TEX;
    return state;
}

static cpu_tex_point_t point_of(const cpu_tex_what_t *what, const cpu_tex_args_t *args,
                                unsigned lane)
{
    cpu_tex_point_t p = {.layer = 0};
    unsigned n = what->op.coordinates;
    for (unsigned d = 0; d < n; d++) {
        p.at.i[d] = (int32_t)args->args[CPU_TEX_ARG_AT + d][lane];
    }
    if (what->op.layered) {
        p.layer = args->args[CPU_TEX_ARG_LAYER][lane];
    }
    if (what->op.how == CPU_TEX_LEVEL) {
        uint32_t level = args->args[CPU_TEX_ARG_GRADIENT][lane];
        p.level = what->op.integer ? (float)(int32_t)level : float_of(level);
    }
    for (unsigned d = 0; d < n && what->op.how == CPU_TEX_GRADIENT; d++) {
        p.dx[d] = float_of(args->args[CPU_TEX_ARG_GRADIENT + d][lane]);
        p.dy[d] = float_of(args->args[CPU_TEX_ARG_GRADIENT + 3 + d][lane]);
    }
    for (unsigned d = 0; d < n && what->offset; d++) {
        p.offset[d] = (int32_t)args->args[CPU_TEX_ARG_OFFSET + d][lane];
    }
    return p;
}

static void read_lanes(const cpu_texture_t *t, const cpu_tex_sampler_t *s,
                       const cpu_tex_what_t *what, uint32_t mask, cpu_tex_args_t *args)
{
    const cpu_tex_read_t read = {what->op.how, what->op.geometry, what->op.component,
                                 what->op.integer};
    if ((mask & (mask - 1)) != 0 &&
        (what->wide ? cpu_tex_fast_v4(&t->image, s, what, mask, args)
                    : cpu_tex_fast_v3(&t->image, s, what, mask, args))) {
        return;
    }
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        uint32_t out[4];
        cpu_tex_point_t p = point_of(what, args, lane);
        cpu_tex_sample(&t->image, s, &read, &p, out);
        for (unsigned c = 0; c < 4; c++) {
            args->args[c][lane] = out[c];
        }
    }
}

/* ---- txq and suq ---- */

/* OpenCL's numbers, as the PTX manual says. */
static uint32_t data_type(const cpu_texture_t *t)
{
    enum { SNORM8 = 0x10d0, UNORM8 = 0x10d2, SIGNED8 = 0x10d7, UNSIGNED8 = 0x10da, HALF = 0x10dd };
    switch (t->image.texel) {
    case CPU_TEXEL_U8:
    case CPU_TEXEL_U16:
        return (t->sampler.to_float ? UNORM8 : UNSIGNED8) + (t->image.texel - CPU_TEXEL_U8);
    case CPU_TEXEL_U32:
        return UNSIGNED8 + 2;
    case CPU_TEXEL_S8:
    case CPU_TEXEL_S16:
        return (t->sampler.to_float ? SNORM8 : SIGNED8) + (t->image.texel - CPU_TEXEL_S8);
    case CPU_TEXEL_S32:
        return SIGNED8 + 2;
    default:
        return HALF + (t->image.texel - CPU_TEXEL_F16);
    }
}

static uint32_t order_of(unsigned channels)
{
    enum { R = 0x10b0, RG = 0x10b2, RGBA = 0x10b5 };
    return channels == 1 ? R : channels == 2 ? RG : RGBA;
}

/* wrap, mirror, clamp_ogl, clamp_to_edge, clamp_to_border */
static uint32_t address_mode(unsigned mode)
{
    static const uint8_t numbers[] = {[CPU_ADDRESS_WRAP] = 0,
                                      [CPU_ADDRESS_CLAMP] = 3,
                                      [CPU_ADDRESS_MIRROR] = 1,
                                      [CPU_ADDRESS_BORDER] = 4};
    return numbers[mode];
}

static uint32_t answer(const cpu_texture_t *t, const cpu_tex_what_t *what, int32_t n)
{
    const cpu_tex_image_t *image = &t->image;
    const cpu_tex_level_t *l = &image->level[n < 0                         ? 0
                                             : (uint32_t)n < image->levels ? (uint32_t)n
                                                                           : image->levels - 1];
    switch (what->op.query) {
    case CPU_QUERY_WIDTH:
        return l->width;
    case CPU_QUERY_HEIGHT:
        return image->dimensions > 1 ? l->height : 0;
    case CPU_QUERY_DEPTH:
        return image->dimensions > 2 ? l->depth : 0;
    case CPU_QUERY_DATA_TYPE:
        return data_type(t);
    case CPU_QUERY_ORDER:
        return order_of(image->channels);
    case CPU_QUERY_NORMALISED:
        return t->sampler.normalised;
    case CPU_QUERY_UNNORMALISED:
        return !t->sampler.normalised;
    case CPU_QUERY_LAYERS:
        return image->layered ? l->depth / (image->cube ? 6 : 1) : 0;
    case CPU_QUERY_LEVELS:
        return image->levels;
    case CPU_QUERY_SAMPLES:
        return 1;
    case CPU_QUERY_FILTER:
        return t->sampler.linear;
    case CPU_QUERY_ADDRESS_0:
    case CPU_QUERY_ADDRESS_1:
    case CPU_QUERY_ADDRESS_2:
        return address_mode(t->sampler.address[what->op.query - CPU_QUERY_ADDRESS_0]);
    default:
        return 0; /* memory_layout: row by row */
    }
}

static void answer_lanes(const cpu_texture_t *t, const cpu_tex_what_t *what, uint32_t mask,
                         cpu_tex_args_t *args)
{
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        uint32_t level = what->op.of_level ? args->args[CPU_TEX_ARG_GRADIENT][lane] : 0;
        args->args[0][lane] = answer(t, what, (int32_t)level);
    }
}

/* ---- handles ---- */

/* istypep: 1 where the handle is such an object. */
static int32_t ask_type(const cpu_tex_what_t *what, uint32_t mask, cpu_tex_args_t *args)
{
    cpu_texture_kind_t kind = what->type == PTX_TEXREF       ? CPU_TEXTURE
                              : what->type == PTX_SAMPLERREF ? CPU_SAMPLER
                                                             : CPU_SURFACE;
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        uint64_t handle = args->handles[what->one_handle ? 0 : lane];
        args->args[0][lane] = cpu_texture_at(kind, handle) != NULL;
    }
    return 0;
}

static bool is_surface(const cpu_tex_what_t *what)
{
    return what->op.op == PTX_OP_SULD || what->op.op == PTX_OP_SUST ||
           what->op.op == PTX_OP_SURED || what->op.op == PTX_OP_SUQ;
}

/* An object of the kind; a query may ask a sampler too. An unbound reference has no image. */
static const cpu_texture_t *object_at(const cpu_tex_what_t *what, uint64_t handle)
{
    const cpu_texture_t *t = cpu_texture_at(is_surface(what) ? CPU_SURFACE : CPU_TEXTURE, handle);
    if (t == NULL && what->op.op == PTX_OP_TXQ && what->op.query >= CPU_QUERY_FILTER) {
        return cpu_texture_at(CPU_SAMPLER, handle);
    }
    return t == NULL || t->image.levels == 0 ? NULL : t;
}

static int32_t one_object(cpu_launch_t *l, const cpu_tex_what_t *what, uint32_t mask,
                          uint32_t strip, cpu_tex_args_t *args, uint64_t handle, uint64_t sampler)
{
    unsigned lane = (unsigned)__builtin_ctz(mask);
    const cpu_texture_t *t = object_at(what, handle), *own = t;
    if (t == NULL) {
        return fault(l, CPU_FAULT_ADDRESS, handle, lane, strip);
    }
    if (what->sampler) {
        own = cpu_texture_at(CPU_SAMPLER, sampler);
        if (own == NULL) {
            return fault(l, CPU_FAULT_ADDRESS, sampler, lane, strip);
        }
    }
    switch (what->op.op) {
    case PTX_OP_TEX:
    case PTX_OP_TLD4:
        read_lanes(t, &own->sampler, what, mask, args);
        return 0;
    case PTX_OP_TXQ:
    case PTX_OP_SUQ:
        answer_lanes(t, what, mask, args);
        return 0;
    default: {
        int32_t code = cpu_surface_access(&t->image, what, mask, args, &lane);
        return code == CPU_FAULT_NONE ? 0 : fault(l, code, handle, lane, strip);
    }
    }
}

int32_t cpu_help_texture(cpu_launch_t *l, const cpu_tex_what_t *what, uint32_t mask, uint32_t strip,
                         cpu_tex_args_t *args)
{
    if (what->op.op == PTX_OP_ISTYPEP) {
        return ask_type(what, mask, args);
    }
    int32_t state = 0;
    while (mask != 0 && state == 0) { /* lanes that mean the same object together */
        unsigned first = (unsigned)__builtin_ctz(mask);
        uint64_t handle = args->handles[what->one_handle ? 0 : first];
        uint64_t sampler = what->sampler ? args->samplers[what->one_handle ? 0 : first] : 0;
        uint32_t same = what->one_handle ? mask : 0;
        for (uint32_t m = what->one_handle ? 0 : mask; m != 0; m &= m - 1) {
            unsigned lane = (unsigned)__builtin_ctz(m);
            bool fits = args->handles[lane] == handle &&
                        (!what->sampler || args->samplers[lane] == sampler);
            same |= fits ? 1u << lane : 0;
        }
        state = one_object(l, what, same, strip, args, handle, sampler);
        mask &= ~same;
    }
    return state;
}

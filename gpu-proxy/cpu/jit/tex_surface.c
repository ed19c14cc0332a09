/* Surfaces: reads, writes and reductions of texels by coordinates, without sampling. */
#include "gpu-proxy/cpu/jit/helpers_tex.h"

#include <string.h>

/* Where a lane's access goes; NULL with *code 0: nowhere, reads 0. */
typedef struct {
    const cpu_tex_image_t *image;
    const cpu_tex_what_t *what;
    unsigned bytes; /* of the access */
} access_t;

/* A coordinate within [0, most]; false: outside, and the bound is not clamp. */
static bool bring_in(int64_t *at, int64_t most, unsigned bound)
{
    if (*at >= 0 && *at <= most) {
        return true;
    }
    if (bound != CPU_SURF_CLAMP) {
        return false;
    }
    *at = *at < 0 ? 0 : most;
    return true;
}

static uint8_t *locate(const access_t *a, const cpu_tex_args_t *args, unsigned lane, int32_t *code)
{
    const cpu_tex_level_t *l = &a->image->level[0];
    const cpu_tex_op_t *op = &a->what->op;
    int64_t x = (int32_t)args->args[CPU_TEX_ARG_AT][lane], y = 0, z = 0;
    int64_t row = (int64_t)l->width * a->image->bytes;
    *code = CPU_FAULT_NONE;
    if (op->coordinates > 1) {
        y = (int32_t)args->args[CPU_TEX_ARG_AT + 1][lane];
    }
    if (op->layered) {
        z = (int32_t)args->args[CPU_TEX_ARG_LAYER][lane];
    } else if (op->coordinates > 2) {
        z = (int32_t)args->args[CPU_TEX_ARG_AT + 2][lane];
    }
    if (op->formatted) {
        x *= a->image->bytes;
    } else if (x % a->bytes != 0) {
        *code = CPU_FAULT_MISALIGNED;
        return NULL;
    }
    if (a->bytes <= row && bring_in(&x, (row - a->bytes) / a->bytes * a->bytes, op->bound) &&
        bring_in(&y, (int64_t)l->height - 1, op->bound) &&
        bring_in(&z, (int64_t)l->depth - 1, op->bound)) {
        return l->data + (uint64_t)z * l->slice + (uint64_t)y * l->row + (uint64_t)x;
    }
    *code = op->bound == CPU_SURF_TRAP ? CPU_FAULT_TRAP : CPU_FAULT_NONE;
    return NULL;
}

/* ---- elements: words of a lane ---- */

static void load(const access_t *a, const uint8_t *at, cpu_tex_args_t *args, unsigned lane)
{
    unsigned size = ptx_type_size((ptx_type_t)a->what->type), words = size == 8 ? 2 : 1;
    for (unsigned n = 0; n < a->what->count; n++) {
        uint32_t w[2] = {0, 0};
        if (at != NULL) {
            memcpy(w, at + n * size, size);
        }
        for (unsigned k = 0; k < words; k++) {
            args->args[n * words + k][lane] = w[k];
        }
    }
}

static void store(const access_t *a, uint8_t *at, const cpu_tex_args_t *args, unsigned lane)
{
    unsigned size = ptx_type_size((ptx_type_t)a->what->type), words = size == 8 ? 2 : 1;
    for (unsigned n = 0; n < a->what->count; n++) {
        uint32_t w[2] = {args->args[n * words][lane], words > 1 ? args->args[n * 2 + 1][lane] : 0};
        memcpy(at + n * size, w, size);
    }
}

/* sust.p: channels that the instruction lacks are written as 0. */
static void store_texel(const access_t *a, uint8_t *at, const cpu_tex_args_t *args, unsigned lane)
{
    uint32_t w[4] = {0, 0, 0, 0};
    for (unsigned n = 0; n < a->what->count; n++) {
        w[n] = args->args[n][lane];
    }
    cpu_texel_write(a->image, w, a->what->type == PTX_F32, at);
}

/* ---- reductions ---- */

static uint64_t combine(unsigned mode, bool is_signed, unsigned size, uint64_t old, uint64_t v)
{
    int64_t a = size == 4 ? (int32_t)old : (int64_t)old, b = size == 4 ? (int32_t)v : (int64_t)v;
    bool less = is_signed ? a < b : old < v;
    switch (mode) {
    case PTX_ATOM_ADD:
        return old + v;
    case PTX_ATOM_MIN:
        return less ? old : v;
    case PTX_ATOM_MAX:
        return less ? v : old;
    case PTX_ATOM_AND:
        return old & v;
    default:
        return old | v;
    }
}

static void reduce(const access_t *a, uint8_t *at, const cpu_tex_args_t *args, unsigned lane)
{
    const cpu_tex_what_t *w = a->what;
    bool is_signed = w->type == PTX_S32 || w->type == PTX_S64 ||
                     (w->op.formatted && a->image->texel == CPU_TEXEL_S32);
    if (a->bytes == 4) {
        uint32_t v = args->args[0][lane], old = __atomic_load_n((uint32_t *)at, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n((uint32_t *)at, &old,
                                            (uint32_t)combine(w->op.atom, is_signed, 4, old, v),
                                            true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        }
        return;
    }
    uint64_t v = args->args[0][lane] | (uint64_t)args->args[1][lane] << 32;
    uint64_t old = __atomic_load_n((uint64_t *)at, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n((uint64_t *)at, &old,
                                        combine(w->op.atom, is_signed, 8, old, v), true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

/* ---- words side by side in a row: all lanes at once ---- */

static bool same_in_all(const uint32_t *v, unsigned lanes)
{
    uint32_t differs = 0;
    for (unsigned l = 1; l < lanes; l++) {
        differs |= v[l] ^ v[0];
    }
    return differs == 0;
}

/* The first of `lanes` words in a row, if the access is no more than that; else NULL. */
static uint8_t *row_of_words(const access_t *a, const cpu_tex_args_t *args, unsigned lanes)
{
    const cpu_tex_op_t *op = &a->what->op;
    const uint32_t *x = args->args[CPU_TEX_ARG_AT];
    uint32_t differs = 0;
    int32_t code;
    if (a->bytes != 4 || a->what->count != 1 || op->formatted || op->op == PTX_OP_SURED) {
        return NULL;
    }
    for (unsigned l = 1; l < lanes; l++) {
        differs |= x[l] ^ (x[0] + 4 * l);
    }
    if (differs != 0 ||
        (op->coordinates > 1 && !same_in_all(args->args[CPU_TEX_ARG_AT + 1], lanes)) ||
        (op->coordinates > 2 && !same_in_all(args->args[CPU_TEX_ARG_AT + 2], lanes)) ||
        (op->layered && !same_in_all(args->args[CPU_TEX_ARG_LAYER], lanes)) || (int32_t)x[0] < 0 ||
        (uint64_t)x[0] + 4 * lanes > (uint64_t)a->image->level[0].width * a->image->bytes) {
        return NULL;
    }
    return locate(a, args, 0, &code); /* outside in y or z, or not aligned: one by one */
}

int32_t cpu_surface_access(const cpu_tex_image_t *image, const cpu_tex_what_t *what, uint32_t mask,
                           cpu_tex_args_t *args, unsigned *lane)
{
    access_t a = {image, what, what->count * ptx_type_size((ptx_type_t)what->type)};
    if (what->op.formatted) {
        a.bytes = image->bytes;
        if (what->op.op == PTX_OP_SURED && image->bytes != 4) {
            *lane = (unsigned)__builtin_ctz(mask);
            return CPU_FAULT_TRAP;
        }
    }
    unsigned lanes = (unsigned)__builtin_popcount(mask);
    if (lanes > 1 && (mask & (mask + 1)) == 0) { /* from the first lane on without a gap */
        uint8_t *row = row_of_words(&a, args, lanes);
        if (row != NULL && what->op.op == PTX_OP_SULD) {
            memcpy(args->args[0], row, 4 * (size_t)lanes);
            return CPU_FAULT_NONE;
        }
        if (row != NULL) {
            memcpy(row, args->args[0], 4 * (size_t)lanes);
            return CPU_FAULT_NONE;
        }
    }
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        int32_t code;
        *lane = (unsigned)__builtin_ctz(m);
        uint8_t *at = locate(&a, args, *lane, &code);
        if (code != CPU_FAULT_NONE) {
            return code;
        }
        if (what->op.op == PTX_OP_SULD) {
            load(&a, at, args, *lane);
        } else if (at != NULL && what->op.op == PTX_OP_SURED) {
            reduce(&a, at, args, *lane);
        } else if (at != NULL && what->op.formatted) {
            store_texel(&a, at, args, *lane);
        } else if (at != NULL) {
            store(&a, at, args, *lane);
        }
    }
    return CPU_FAULT_NONE;
}

/* Loads of every second to eighth element: x[4 * lane], x[4 * lane + 1]... Loading the whole stretch
 * once and picking from it is much cheaper than W single loads, and the accesses through one register
 * share the stretch. Where the stretch as a whole is not fine, a helper makes a copy of what the lanes
 * really read. */
#include "gpu-proxy/cpu/jit/gen.h"

#define B gen->b

typedef struct {
    val_t from; /* pointer to the first element */
    type_t elem;
    unsigned spacing, elements, align;
} stretch_t;

static val_t load(cpu_gen_t *gen, const stretch_t *s, unsigned first, unsigned count)
{
    unsigned bytes = LLVMGetTypeKind(s->elem) == LLVMIntegerTypeKind
                         ? LLVMGetIntTypeWidth(s->elem) / 8
                     : s->elem == gen->f64 ? 8
                                           : 4;
    val_t p = gen_offset(gen, s->from, (uint64_t)first * bytes);
    val_t v = LLVMBuildLoad2(B, LLVMVectorType(s->elem, count), p, "");
    LLVMSetAlignment(v, s->align);
    return v;
}

/* Elements k * W to k * W + W - 1, as far as there are such. */
static val_t part(cpu_gen_t *gen, const stretch_t *s, unsigned k)
{
    unsigned left = s->elements - k * gen->W;
    if (left >= gen->W) {
        return load(gen, s, k * gen->W, gen->W);
    }
    val_t v = load(gen, s, k * gen->W, left);
    uint32_t at[32];
    for (unsigned l = 0; l < gen->W; l++) {
        at[l] = l < left ? l : 0;
    }
    return LLVMBuildShuffleVector(B, v, LLVMGetPoison(LLVMTypeOf(v)), gen_iota(gen, at, gen->W),
                                  "");
}

/* Every second element of two vectors, from the first or the second on; and so on until one is left.
 * What the accesses have in common is the same code, which the optimiser joins. */
static val_t halve(cpu_gen_t *gen, const stretch_t *s, unsigned skip)
{
    val_t v[8];
    unsigned n = s->spacing;
    for (unsigned k = 0; k < n; k++) {
        v[k] = k * gen->W < s->elements ? part(gen, s, k) : LLVMGetPoison(gen_vector(gen, s->elem));
    }
    for (; n > 1; n /= 2, skip /= 2) {
        uint32_t at[32];
        for (unsigned l = 0; l < gen->W; l++) {
            at[l] = 2 * l + skip % 2;
        }
        for (unsigned k = 0; k < n / 2; k++) {
            v[k] = LLVMBuildShuffleVector(B, v[2 * k], v[2 * k + 1], gen_iota(gen, at, gen->W), "");
        }
    }
    return v[0];
}

static val_t pick(cpu_gen_t *gen, const stretch_t *s, unsigned skip)
{
    if ((s->spacing & (s->spacing - 1)) == 0 && s->spacing <= 8) {
        return halve(gen, s, skip);
    }
    val_t all = load(gen, s, 0, s->elements);
    uint32_t at[32];
    for (unsigned l = 0; l < gen->W; l++) {
        at[l] = l * s->spacing + skip;
    }
    return LLVMBuildShuffleVector(B, all, LLVMGetPoison(LLVMTypeOf(all)), gen_iota(gen, at, gen->W),
                                  "");
}

bool gen_load_spaced(cpu_gen_t *gen, const gen_addr_t *a, type_t elem, val_t *out)
{
    unsigned spacing = gen_address_spacing(gen, a);
    if (spacing == 0 || gen->options->unchecked ||
        spacing * gen->W * a->bytes > GEN_STRETCH_BYTES) {
        return false;
    }
    const gen_verified_t *v = gen_verify(gen, a);
    if (v == NULL || v->stretch == NULL || v->high - v->low > a->stride - (int64_t)v->size) {
        return false;
    }
    stretch_t s = {.from = v->stretch,
                   .elem = elem,
                   .spacing = spacing,
                   .elements =
                       (unsigned)(v->high - v->low + v->size) / a->bytes + spacing * (gen->W - 1),
                   .align = gen_align(gen, a->bytes)};
    unsigned skip = (unsigned)(ptx_operand_offset(a->o) - v->low) / a->bytes;
    for (unsigned n = 0; n < a->count; n++) {
        out[n] = pick(gen, &s, skip + n);
    }
    return true;
}

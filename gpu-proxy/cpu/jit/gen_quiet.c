/* Registers that never hold a signalling NaN, as far as f32 goes. PTX knows no such NaN, but the
 * processor's minimum and maximum do, and take them for results. Arithmetic never gives one; what comes
 * from memory, or was put together from bits, may be one. */
#include "gpu-proxy/cpu/jit/gen_float.h"

#include <string.h>

typedef struct {
    cpu_gen_t *gen;
    bool yes, changed;
} look_t;

static bool quiet_bits(uint64_t bits)
{
    bool nan = (bits & 0x7fffffff) > 0x7f800000;
    return !nan || (bits & 0x00400000) != 0;
}

static bool quiet_operand(const cpu_gen_t *gen, const ptx_operand_t *o)
{
    switch (o->kind) {
    case PTX_OPERAND_REG:
        return gen->quiet[o->index];
    case PTX_OPERAND_IMM:
        return quiet_bits(o->value);
    default:
        return false;
    }
}

/* Sources [first, last) are. */
static bool quiet_sources(const cpu_gen_t *gen, const ptx_instr_t *i, unsigned first, unsigned last)
{
    bool all = true;
    for (unsigned n = first; n < last && n < i->src_count; n++) {
        all = all && quiet_operand(gen, ptx_src(gen->f, i, n));
    }
    return all;
}

static bool by_zmm(const cpu_gen_t *gen, const ptx_instr_t *i)
{
    return gen->avx512 && gen->W % GEN_ZMM == 0 &&
           cpu_instr_form(gen->a, i).tag == CPU_FORM_VARYING;
}

static bool gives_quiet(const cpu_gen_t *gen, const ptx_instr_t *i)
{
    switch (i->op) {
    case PTX_OP_ADD:
    case PTX_OP_SUB:
    case PTX_OP_MUL:
    case PTX_OP_DIV:
    case PTX_OP_FMA:
    case PTX_OP_MAD:
    case PTX_OP_RCP:
    case PTX_OP_SQRT:
    case PTX_OP_RSQRT:
    case PTX_OP_EX2:
        return i->type == PTX_F32;
    case PTX_OP_MIN:
    case PTX_OP_MAX: /* vectors of AVX-512: operands are made quiet */
        return i->type == PTX_F32 && (quiet_sources(gen, i, 0, i->src_count) || by_zmm(gen, i));
    case PTX_OP_ABS:
    case PTX_OP_NEG:
        return i->type == PTX_F32 && quiet_sources(gen, i, 0, i->src_count);
    case PTX_OP_MOV:
    case PTX_OP_SHFL:
        return ptx_type_size((ptx_type_t)i->type) == 4 && quiet_sources(gen, i, 0, 1);
    case PTX_OP_SELP:
        return ptx_type_size((ptx_type_t)i->type) == 4 && quiet_sources(gen, i, 0, 2);
    default:
        return false;
    }
}

static void drop(void *context, uint32_t reg)
{
    look_t *l = context;
    if (!l->yes && l->gen->quiet[reg]) {
        l->gen->quiet[reg] = false;
        l->changed = true;
    }
}

static void find(cpu_gen_t *gen)
{
    const ptx_function_t *f = gen->f;
    look_t l = {.gen = gen};
    gen->quiet = cpu_arena_alloc(gen->arena, f->reg_count + 1, sizeof *gen->quiet);
    memset(gen->quiet, 1, f->reg_count);
    do {
        l.changed = false;
        for (uint32_t k = 0; k < f->instr_count; k++) {
            l.yes = gives_quiet(gen, &f->instrs[k]);
            cpu_visit_defs(f, &f->instrs[k], drop, &l);
        }
    } while (l.changed);
}

bool gen_source_is_quiet(cpu_gen_t *gen, unsigned n)
{
    if (gen->quiet == NULL) {
        find(gen);
    }
    return quiet_operand(gen, ptx_src(gen->f, gen->i, n));
}

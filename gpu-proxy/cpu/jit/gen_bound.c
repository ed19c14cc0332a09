/* Branches on the bound of a loop: `i < n`, where i grows by the same from lane to lane and n is alike in all
 * of them. Two comparisons of scalars, of the first lane and the last, tell whether all lanes go the same
 * way; only if they do not is each lane's predicate made. `i == n` holds in no lane if n is not between
 * the first and the last, and never in all of them. */
#include "gpu-proxy/cpu/jit/gen_state.h"

#define B gen->b

typedef struct {
    uint32_t reg;
    bool found;
} search_t;

static void is_it(void *context, uint32_t reg)
{
    search_t *s = context;
    s->found |= s->reg == reg;
}

static bool defines(const cpu_gen_t *gen, const ptx_instr_t *i, uint32_t reg)
{
    search_t s = {reg, false};
    cpu_visit_defs(gen->f, i, is_it, &s);
    return s.found;
}

static bool uses(const cpu_gen_t *gen, const ptx_instr_t *i, uint32_t reg)
{
    search_t s = {reg, false};
    cpu_visit_uses(gen->f, i, is_it, &s);
    return s.found;
}

static bool is_order(unsigned cmp)
{
    switch (cmp) {
    case PTX_CMP_LT:
    case PTX_CMP_LE:
    case PTX_CMP_GT:
    case PTX_CMP_GE:
    case PTX_CMP_LO:
    case PTX_CMP_LS:
    case PTX_CMP_HI:
    case PTX_CMP_HS:
        return true;
    default:
        return false;
    }
}

static bool is_equality(unsigned cmp)
{
    return cmp == PTX_CMP_EQ || cmp == PTX_CMP_NE;
}

static bool is_whole(unsigned type)
{
    return type == PTX_B32 || type == PTX_B64 || type == PTX_S32 || type == PTX_U32 ||
           type == PTX_S64 || type == PTX_U64;
}

/* Grows by a constant, and by less than half of the numbers over the lanes. */
static bool grows(const cpu_gen_t *gen, const cpu_form_t *form, unsigned bits)
{
    int64_t most = (bits == 32 ? INT32_MAX : INT64_MAX) / (int64_t)gen->W;
    return form->tag == CPU_FORM_AFFINE && form->scale == 0 && form->stride != 0 &&
           form->stride <= most && form->stride >= -most;
}

static bool is_bound(cpu_gen_t *gen, const ptx_instr_t *i, gen_bound_t *bound)
{
    if (i->op != PTX_OP_SETP || i->guard != PTX_NONE || i->boolop != PTX_BOOL_NONE ||
        i->dst_count != 1 || !(is_order(i->cmp) || is_equality(i->cmp)) || !is_whole(i->type)) {
        return false;
    }
    cpu_form_t form[2];
    for (unsigned n = 0; n < 2; n++) {
        form[n] = cpu_operand_form(gen->a, ptx_src(gen->f, i, n));
    }
    unsigned bits = ptx_type_size((ptx_type_t)i->type) * 8;
    bool first = grows(gen, &form[0], bits) && cpu_form_uniform(&form[1]);
    bool second = grows(gen, &form[1], bits) && cpu_form_uniform(&form[0]);
    *bound = (gen_bound_t){.setp = i, .growing = second ? 1 : 0};
    bound->stride = form[bound->growing].stride;
    return first || second;
}

/* No operand changes between the comparison and the end of the node. */
static bool stays(const cpu_gen_t *gen, const cpu_node_t *n, uint32_t at)
{
    const ptx_instr_t *setp = &gen->f->instrs[at];
    for (uint32_t k = at + 1; k < n->first + n->count; k++) {
        for (unsigned s = 0; s < 2; s++) {
            const ptx_operand_t *o = ptx_src(gen->f, setp, s);
            if (o->kind == PTX_OPERAND_REG && defines(gen, &gen->f->instrs[k], o->index)) {
                return false;
            }
        }
    }
    return true;
}

/* Does only the branch look at the predicate? */
static bool is_private(const cpu_gen_t *gen, const cpu_node_t *n, uint32_t at)
{
    for (uint32_t k = at + 1; k < n->first + n->count; k++) {
        if (uses(gen, &gen->f->instrs[k], n->guard)) {
            return false;
        }
    }
    for (unsigned s = 0; s < 2; s++) {
        if (n->succ[s] != CPU_NODE_EXIT && cpu_bits_has(gen->a->live_in[n->succ[s]], n->guard)) {
            return false;
        }
    }
    return true;
}

bool gen_bound_find(cpu_gen_t *gen, uint32_t b, gen_bound_t *bound)
{
    const cpu_node_t *n = &gen->a->nodes[b];
    if (n->end != CPU_END_BRANCH || !gen->a->divergent[b] || gen->W == 1) {
        return false;
    }
    for (uint32_t k = n->first + n->count; k-- > n->first;) {
        if (defines(gen, &gen->f->instrs[k], n->guard)) {
            return is_bound(gen, &gen->f->instrs[k], bound) && stays(gen, n, k) &&
                   is_private(gen, n, k);
        }
    }
    return false;
}

static bool is_less(unsigned cmp)
{
    return cmp == PTX_CMP_LT || cmp == PTX_CMP_LE || cmp == PTX_CMP_LO || cmp == PTX_CMP_LS;
}

/* The same for equality: the way from the first lane to the limit is longer than the one to the last. */
static void equality(cpu_gen_t *gen, const gen_bound_t *bound, val_t first, val_t limit, val_t *all,
                     val_t *none)
{
    bool down = bound->stride < 0;
    uint64_t reach = (uint64_t)(down ? -bound->stride : bound->stride) * (gen->W - 1);
    val_t way = LLVMBuildSub(B, down ? first : limit, down ? limit : first, "");
    val_t outside = LLVMBuildICmp(B, LLVMIntUGT, way, gen_like(way, reach), "");
    val_t never = LLVMConstInt(gen->i1, 0, 0);
    bool equal = bound->setp->cmp == PTX_CMP_EQ;
    *all = equal ? never : outside;
    *none = equal ? outside : never;
}

/* Strip gen->g: i1 whether all lanes compare so, and whether none does. */
static void strip(cpu_gen_t *gen, const gen_bound_t *bound, val_t *all, val_t *none)
{
    const ptx_instr_t *i = bound->setp;
    bool sign = ptx_type_is_signed((ptx_type_t)i->type), less = is_less(i->cmp);
    type_t t = gen_int(gen, ptx_type_size((ptx_type_t)i->type) * 8);
    val_t first = gen_base(gen, ptx_src(gen->f, i, bound->growing), t);
    val_t limit = gen_base(gen, ptx_src(gen->f, i, 1 - bound->growing), t);
    if (is_equality(i->cmp)) {
        equality(gen, bound, first, limit, all, none);
        return;
    }
    val_t reach = LLVMConstInt(t, (uint64_t)bound->stride * (gen->W - 1), 1);
    val_t last = LLVMBuildAdd(B, first, reach, "");
    val_t low = bound->stride > 0 ? first : last, high = bound->stride > 0 ? last : first;
    val_t whole = LLVMBuildICmp(B, sign ? LLVMIntSLE : LLVMIntULE, low, high, "");
    val_t ends[2] = {low, high}, is[2];
    for (unsigned n = 0; n < 2; n++) {
        val_t x = bound->growing == 0 ? ends[n] : limit, y = bound->growing == 0 ? limit : ends[n];
        is[n] = LLVMBuildICmp(B, gen_int_predicate(i->cmp, sign), x, y, "");
    }
    bool by_high = less == (bound->growing == 0); /* if it holds for the highest, then for all */
    *all = LLVMBuildAnd(B, whole, is[by_high], "");
    *none = LLVMBuildAnd(B, whole, LLVMBuildNot(B, is[!by_high], ""), "");
}

bool gen_bound_can(const gen_bound_t *bound, bool negated, bool all)
{
    bool never_all = bound->setp->cmp == PTX_CMP_EQ, never_none = bound->setp->cmp == PTX_CMP_NE;
    return !(all != negated ? never_all : never_none);
}

void gen_bound_test(cpu_gen_t *gen, const gen_bound_t *bound, bool negated, val_t *all, val_t *none)
{
    const ptx_operand_t *o = ptx_src(gen->f, bound->setp, bound->growing);
    const ptx_operand_t *limit = ptx_src(gen->f, bound->setp, 1 - bound->growing);
    bool each = cpu_operand_per_strip(gen->a, o) || cpu_operand_per_strip(gen->a, limit);
    gen->i = bound->setp;
    for (unsigned g = 0; g < (each ? gen->G : 1); g++) {
        val_t yes, no;
        gen->g = g;
        strip(gen, bound, &yes, &no);
        *all = g == 0 ? yes : LLVMBuildAnd(B, *all, yes, "");
        *none = g == 0 ? no : LLVMBuildAnd(B, *none, no, "");
    }
    if (negated) {
        val_t swap = *all;
        *all = *none;
        *none = swap;
    }
}

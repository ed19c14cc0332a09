/* Facts about integers that hold in every lane: constants, alignment of the base, largest value. */
#include "gpu-proxy/cpu/jit/analysis/analysis.h"

static const uint64_t ALIGN_MAX = (uint64_t)1 << 31;
static const uint64_t UNKNOWN = UINT64_MAX;

/* The power of two that divides v. */
static uint64_t align_of(uint64_t v)
{
    return v == 0 || (v & (0 - v)) > ALIGN_MAX ? ALIGN_MAX : v & (0 - v);
}

static uint64_t block_length(const cpu_analysis_t *a, unsigned d)
{
    return a->config.shape.kind == CPU_SHAPE_EXACT             ? a->config.shape.block[d]
           : a->config.shape.kind == CPU_SHAPE_LINEAR && d > 0 ? 1
                                                               : 0;
}

bool cpu_operand_constant(const cpu_analysis_t *a, const ptx_operand_t *o, uint64_t *value)
{
    if (o->kind == PTX_OPERAND_IMM) {
        *value = o->value;
        return true;
    }
    if (o->kind == PTX_OPERAND_REG && a->values[o->index].is_constant) {
        *value = a->values[o->index].constant;
        return true;
    }
    if (o->kind == PTX_OPERAND_SREG && o->index >= PTX_SREG_NTID_X && o->index <= PTX_SREG_NTID_Z &&
        block_length(a, o->index - PTX_SREG_NTID_X) != 0) {
        *value = block_length(a, o->index - PTX_SREG_NTID_X);
        return true;
    }
    return false;
}

static uint64_t sreg_align(const cpu_analysis_t *a, uint32_t sreg)
{
    switch (sreg) {
    case PTX_SREG_TID_X:
        return a->config.layout == CPU_LAYOUT_WARPS ? 1 : a->config.width;
    case PTX_SREG_TID_Y:
    case PTX_SREG_TID_Z:
        return block_length(a, sreg - PTX_SREG_TID_X) == 1 && a->config.strips == 1 ? ALIGN_MAX : 1;
    case PTX_SREG_LANEID:
        return a->config.width == 1 ? 1 : ALIGN_MAX;
    case PTX_SREG_NTID_X:
    case PTX_SREG_NTID_Y:
    case PTX_SREG_NTID_Z: {
        uint64_t n = block_length(a, sreg - PTX_SREG_NTID_X);
        return n == 0 ? 1 : align_of(n);
    }
    default:
        return 1;
    }
}

static const cpu_rest_t NOTHING = {1, 0};

/* A static variable's place in shared memory. */
static bool shared_place(const cpu_analysis_t *a, const ptx_operand_t *o, uint64_t *at)
{
    if (o->kind != PTX_OPERAND_VAR || a->module->vars[o->index].space != PTX_SPACE_SHARED) {
        return false;
    }
    *at = ptx_shared_offset(a->module, a->f, o->index);
    if (*at >= a->f->shared_size || o->value > a->f->shared_size) {
        return false; /* a dynamic one, or far away */
    }
    *at += o->value;
    return true;
}

static cpu_rest_t rest(uint64_t modulus, uint64_t value)
{
    modulus = modulus > ALIGN_MAX ? ALIGN_MAX : modulus;
    return (cpu_rest_t){modulus, value & (modulus - 1)};
}

cpu_rest_t cpu_operand_rest(const cpu_analysis_t *a, const ptx_operand_t *o)
{
    uint64_t c;
    if (cpu_operand_constant(a, o, &c)) {
        return rest(ALIGN_MAX, c);
    }
    if (o->kind == PTX_OPERAND_REG) {
        const cpu_value_t *v = &a->values[o->index];
        /* without a value so far (or for ever): zero, as registers begin */
        return v->high == 0 || v->rest.modulus == 0 ? rest(ALIGN_MAX, 0) : v->rest;
    }
    if (shared_place(a, o, &c)) {
        return rest(ALIGN_MAX, c);
    }
    return o->kind == PTX_OPERAND_SREG ? rest(sreg_align(a, o->index), 0) : NOTHING;
}

/* The power of two that is sure to divide it. */
static uint64_t divisor(cpu_rest_t x)
{
    return x.rest == 0 ? x.modulus : x.rest & (0 - x.rest);
}

uint64_t cpu_operand_align(const cpu_analysis_t *a, const ptx_operand_t *o)
{
    return divisor(cpu_operand_rest(a, o));
}

static uint64_t sreg_high(const cpu_analysis_t *a, uint32_t sreg)
{
    uint64_t w = a->config.width;
    switch (sreg) {
    case PTX_SREG_TID_X: { /* lanes behind the end of a row count too */
        uint64_t n = block_length(a, 0);
        return ((n == 0 ? 1024 : n) + w - 1) / w * w - 1;
    }
    case PTX_SREG_TID_Y:
    case PTX_SREG_TID_Z: {
        uint64_t n = block_length(a, sreg - PTX_SREG_TID_X);
        return (n == 0 ? 1024 : n) - 1 + (w == 1 && a->config.strips == 1 ? 0 : 32);
    }
    case PTX_SREG_NTID_X:
    case PTX_SREG_NTID_Y:
    case PTX_SREG_NTID_Z: {
        uint64_t n = block_length(a, sreg - PTX_SREG_NTID_X);
        return n == 0 ? 1024 : n;
    }
    case PTX_SREG_CTAID_X:
    case PTX_SREG_NCTAID_X:
        return INT32_MAX;
    case PTX_SREG_CTAID_Y:
    case PTX_SREG_CTAID_Z:
    case PTX_SREG_NCTAID_Y:
    case PTX_SREG_NCTAID_Z:
        return 65535;
    case PTX_SREG_LANEID:
        return 31;
    case PTX_SREG_WARPID:
    case PTX_SREG_NWARPID:
        return 64;
    default:
        return UNKNOWN;
    }
}

uint64_t cpu_operand_high(const cpu_analysis_t *a, const ptx_operand_t *o)
{
    uint64_t c;
    if (cpu_operand_constant(a, o, &c)) {
        return c;
    }
    if (shared_place(a, o, &c)) {
        return c;
    }
    if (o->kind == PTX_OPERAND_REG) {
        return a->values[o->index].high;
    }
    return o->kind == PTX_OPERAND_SREG ? sreg_high(a, o->index) : UNKNOWN;
}

static uint64_t smaller(uint64_t x, uint64_t y)
{
    return x < y ? x : y;
}

static uint64_t larger(uint64_t x, uint64_t y)
{
    return x > y ? x : y;
}

static uint64_t product(uint64_t x, uint64_t y)
{
    uint64_t p;
    return __builtin_mul_overflow(x, y, &p) ? UNKNOWN : p;
}

static uint64_t total(uint64_t x, uint64_t y)
{
    uint64_t s;
    return __builtin_add_overflow(x, y, &s) ? UNKNOWN : s;
}

static bool is_integer_bits(const ptx_instr_t *i, unsigned *bits)
{
    *bits = ptx_type_size((ptx_type_t)i->type) * 8;
    return !ptx_type_is_float((ptx_type_t)i->type) && i->type != PTX_PRED;
}

/* What is known of one or the other. */
static cpu_rest_t either(cpu_rest_t x, cpu_rest_t y)
{
    uint64_t modulus = smaller(x.modulus, y.modulus), differ = (x.rest ^ y.rest) & (modulus - 1);
    return rest(differ == 0 ? modulus : differ & (0 - differ), x.rest);
}

static cpu_rest_t rest_sum(cpu_rest_t x, cpu_rest_t y, bool minus)
{
    return rest(smaller(x.modulus, y.modulus), minus ? x.rest - y.rest : x.rest + y.rest);
}

static cpu_rest_t rest_product(cpu_rest_t x, cpu_rest_t y)
{
    uint64_t modulus = smaller(product(divisor(x), y.modulus), product(divisor(y), x.modulus));
    return rest(modulus, x.rest * y.rest);
}

/* Bits that the mask clears are known too. */
static cpu_rest_t rest_masked(cpu_rest_t x, uint64_t mask)
{
    uint64_t above = mask & (0 - x.modulus);
    return rest(above == 0 ? ALIGN_MAX : above & (0 - above), x.rest & mask);
}

static cpu_rest_t instr_rest(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    const ptx_operand_t *s[3] = {NULL, NULL, NULL};
    cpu_rest_t x[3] = {NOTHING, NOTHING, NOTHING};
    uint64_t c;
    unsigned bits;
    for (unsigned n = 0; n < 3 && n < i->src_count; n++) {
        s[n] = ptx_src(a->f, i, n);
        x[n] = cpu_operand_rest(a, s[n]);
    }
    if (!is_integer_bits(i, &bits) || (i->flags & (PTX_F_SAT | PTX_F_CC)) != 0 ||
        (i->op == PTX_OP_CVT && ptx_type_is_float((ptx_type_t)i->type2))) {
        return NOTHING;
    }
    switch (i->op) {
    case PTX_OP_MOV:
    case PTX_OP_CVT: /* what is cut or added lies above */
        return bits < 31 ? rest(smaller(x[0].modulus, (uint64_t)1 << bits), x[0].rest) : x[0];
    case PTX_OP_ADD:
    case PTX_OP_SUB:
        return rest_sum(x[0], x[1], i->op == PTX_OP_SUB);
    case PTX_OP_OR:
        return rest(smaller(x[0].modulus, x[1].modulus), x[0].rest | x[1].rest);
    case PTX_OP_XOR:
        return rest(smaller(x[0].modulus, x[1].modulus), x[0].rest ^ x[1].rest);
    case PTX_OP_AND:
        return cpu_operand_constant(a, s[1], &c)   ? rest_masked(x[0], c)
               : cpu_operand_constant(a, s[0], &c) ? rest_masked(x[1], c)
                                                   : rest(larger(divisor(x[0]), divisor(x[1])), 0);
    case PTX_OP_MUL:
        return i->mode == PTX_MUL_HI ? NOTHING : rest_product(x[0], x[1]);
    case PTX_OP_MAD:
        return i->mode == PTX_MUL_HI ? NOTHING : rest_sum(rest_product(x[0], x[1]), x[2], false);
    case PTX_OP_SHL:
        return cpu_operand_constant(a, s[1], &c) && c < 32
                   ? rest(product(x[0].modulus, (uint64_t)1 << c), x[0].rest << c)
                   : NOTHING;
    case PTX_OP_SHR:
        return cpu_operand_constant(a, s[1], &c) && c < 31 && x[0].modulus >> c > 1
                   ? rest(x[0].modulus >> c, x[0].rest >> c)
                   : NOTHING;
    case PTX_OP_MIN:
    case PTX_OP_MAX:
    case PTX_OP_SELP:
        return either(x[0], x[1]);
    default:
        return NOTHING;
    }
}

static uint64_t ones_up_to(uint64_t v)
{
    return v == 0 ? 0 : v >> 63 ? UNKNOWN : ((uint64_t)1 << (64 - __builtin_clzll(v))) - 1;
}

static uint64_t cvt_high(const ptx_instr_t *i, uint64_t high)
{
    unsigned from = ptx_type_size((ptx_type_t)i->type2) * 8;
    bool negative = ptx_type_is_signed((ptx_type_t)i->type2) && high >> (from - 1) != 0;
    return ptx_type_is_float((ptx_type_t)i->type2) || negative ? UNKNOWN : high;
}

/* To the right, by less than all bits. */
static uint64_t shifted(const ptx_instr_t *i, uint64_t high, unsigned bits, uint64_t by)
{
    bool sign = ptx_type_is_signed((ptx_type_t)i->type);
    return high != UNKNOWN   ? high >> by
           : by == 0 || sign ? UNKNOWN /* a negative number is a large unsigned one */
                             : (UINT64_MAX >> (64 - bits)) >> by;
}

/* No carries out of 31 (63) bits may occur, else nothing is known. */
static uint64_t instr_high(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    const ptx_operand_t *s[3] = {NULL, NULL, NULL};
    uint64_t h[3] = {UNKNOWN, UNKNOWN, UNKNOWN}, c;
    unsigned bits;
    for (unsigned n = 0; n < 3 && n < i->src_count; n++) {
        s[n] = ptx_src(a->f, i, n);
        h[n] = cpu_operand_high(a, s[n]);
    }
    if (!is_integer_bits(i, &bits)) {
        return UNKNOWN;
    }
    switch (i->op) {
    case PTX_OP_MOV:
        return h[0];
    case PTX_OP_ADD:
        return total(h[0], h[1]);
    case PTX_OP_MUL:
        return i->mode == PTX_MUL_HI ? UNKNOWN : product(h[0], h[1]);
    case PTX_OP_MAD:
        return i->mode == PTX_MUL_HI ? UNKNOWN : total(product(h[0], h[1]), h[2]);
    case PTX_OP_SHL:
        return cpu_operand_constant(a, s[1], &c) && c < 32 ? product(h[0], (uint64_t)1 << c)
                                                           : UNKNOWN;
    case PTX_OP_SHR:
        return cpu_operand_constant(a, s[1], &c) && c < bits ? shifted(i, h[0], bits, c) : UNKNOWN;
    case PTX_OP_AND:
        return smaller(h[0], h[1]);
    case PTX_OP_OR:
    case PTX_OP_XOR:
        return ones_up_to(larger(h[0], h[1]));
    case PTX_OP_MIN: /* a negative number is a large unsigned one */
        return ptx_type_is_signed((ptx_type_t)i->type) && (h[0] == UNKNOWN || h[1] == UNKNOWN)
                   ? UNKNOWN
                   : smaller(h[0], h[1]);
    case PTX_OP_MAX:
    case PTX_OP_SELP:
        return larger(h[0], h[1]);
    case PTX_OP_REM:
        return h[0] != UNKNOWN && h[1] != UNKNOWN ? h[0] : UNKNOWN;
    case PTX_OP_DIV:
        return h[1] != UNKNOWN ? h[0] : UNKNOWN;
    case PTX_OP_CVT:
        return cvt_high(i, h[0]);
    case PTX_OP_LD:
    case PTX_OP_LDU:
        return i->type == PTX_U8 || i->type == PTX_B8     ? 255
               : i->type == PTX_U16 || i->type == PTX_B16 ? 65535
                                                          : UNKNOWN;
    case PTX_OP_POPC:
    case PTX_OP_CLZ:
        return 64;
    default:
        return UNKNOWN;
    }
}

typedef struct {
    cpu_analysis_t *a;
    const ptx_instr_t *i;
    cpu_rest_t rest;
    uint64_t high;
    bool changed, widen;
} fact_t;

static void take(void *context, uint32_t reg)
{
    fact_t *t = context;
    cpu_value_t *v = &t->a->values[reg];
    uint64_t bits = cpu_reg_bits(t->a->f, reg);
    uint64_t limit = bits >= 64 ? INT64_MAX : bits == 32 ? INT32_MAX : bits == 16 ? INT16_MAX : 0;
    uint64_t high = t->high > limit ? UNKNOWN : t->high;
    if (high > v->high) {
        v->high = t->widen ? UNKNOWN : high;
        t->changed = true;
    }
    cpu_rest_t now = v->rest.modulus == 0 ? t->rest : either(v->rest, t->rest);
    if (now.modulus != v->rest.modulus || now.rest != v->rest.rest) {
        v->rest = now;
        t->changed = true;
    }
}

static void find_constants(cpu_analysis_t *a)
{
    for (uint32_t b = 0; b < a->node_count; b++) {
        for (uint32_t k = 0; k < a->nodes[b].count; k++) {
            const ptx_instr_t *i = &a->f->instrs[a->nodes[b].first + k];
            if (i->op != PTX_OP_MOV || i->guard != PTX_NONE) {
                continue;
            }
            const ptx_operand_t *d = ptx_dst(a->f, i, 0), *s = ptx_src(a->f, i, 0);
            uint64_t c;
            if (d->kind == PTX_OPERAND_REG && s->kind != PTX_OPERAND_REG &&
                a->values[d->index].defs == 1 && cpu_operand_constant(a, s, &c)) {
                a->values[d->index].is_constant = true;
                a->values[d->index].constant = c;
            }
        }
    }
}

enum { ROUNDS_BEFORE_WIDENING = 4 };

void cpu_facts_compute(cpu_analysis_t *a)
{
    find_constants(a);
    for (uint32_t r = 0; r < a->f->reg_count; r++) {
        a->values[r].rest = (cpu_rest_t){0, 0}; /* not yet seen */
        a->values[r].high = 0;
    }
    bool changed = true;
    for (unsigned round = 0; changed; round++) {
        changed = false;
        for (uint32_t b = 0; b < a->node_count; b++) {
            const cpu_node_t *n = &a->nodes[b];
            uint32_t count = n->count + (n->end == CPU_END_BARRIER);
            for (uint32_t k = 0; k < count; k++) {
                const ptx_instr_t *i = &a->f->instrs[k < n->count ? n->first + k : n->last];
                if (i->dst_count == 0) {
                    continue;
                }
                fact_t t = {.a = a,
                            .i = i,
                            .rest = i->dst_count == 1 ? instr_rest(a, i) : NOTHING,
                            .high = i->dst_count == 1 ? instr_high(a, i) : UNKNOWN,
                            .widen = round >= ROUNDS_BEFORE_WIDENING};
                cpu_visit_defs(a->f, i, take, &t);
                changed |= t.changed;
            }
        }
    }
}

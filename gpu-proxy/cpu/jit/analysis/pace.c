/* Grid-stride loops: `for (i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)`.
 *
 * They are found by the paces of registers: how much larger a register is in the next CTA, and how much
 * larger if the grid had one more CTA. An address whose pace is p in a loop that steps by p times the
 * grid's length reads what nobody else reads, and the next CTA reads what lies just behind. To the
 * processor it looks like jumps: it fetches nothing ahead by itself.
 *
 * Paces are only used to fetch ahead and to choose the configuration: where they are wrong nothing is
 * lost but time. */
#include "gpu-proxy/cpu/jit/analysis/analysis.h"

static const cpu_pace_t UNKNOWN = {.tag = {CPU_PACE_UNKNOWN, CPU_PACE_UNKNOWN}};
static const cpu_pace_t STILL = {.tag = {CPU_PACE_KNOWN, CPU_PACE_KNOWN}};

static cpu_pace_t sreg_pace(uint32_t sreg)
{
    cpu_pace_t p = STILL;
    p.by[CPU_PACE_CTA] = sreg == PTX_SREG_CTAID_X;
    p.by[CPU_PACE_GRID] = sreg == PTX_SREG_NCTAID_X;
    return p;
}

cpu_pace_t cpu_operand_pace(const cpu_analysis_t *a, const ptx_operand_t *o)
{
    switch (o->kind) {
    case PTX_OPERAND_REG:
        return a->paces[o->index];
    case PTX_OPERAND_SREG:
        return sreg_pace(o->index);
    case PTX_OPERAND_ADDRESS:
        return o->base == PTX_OPERAND_REG ? a->paces[o->index] : STILL;
    case PTX_OPERAND_VECTOR:
        return UNKNOWN;
    default:
        return STILL;
    }
}

static cpu_pace_t scaled(cpu_pace_t x, uint64_t factor)
{
    for (unsigned v = 0; v < CPU_PACES; v++) {
        x.by[v] = (int64_t)((uint64_t)x.by[v] * factor);
    }
    return x;
}

static cpu_pace_t sum(cpu_pace_t x, cpu_pace_t y, bool minus)
{
    y = minus ? scaled(y, UINT64_MAX) : y;
    for (unsigned v = 0; v < CPU_PACES; v++) {
        x.by[v] = (int64_t)((uint64_t)x.by[v] + (uint64_t)y.by[v]);
        bool unknown = x.tag[v] == CPU_PACE_UNKNOWN || y.tag[v] == CPU_PACE_UNKNOWN;
        bool none = x.tag[v] == CPU_PACE_NONE || y.tag[v] == CPU_PACE_NONE; /* wait for it */
        x.tag[v] = unknown ? CPU_PACE_UNKNOWN : none ? CPU_PACE_NONE : CPU_PACE_KNOWN;
    }
    return x;
}

/* What depends on sources in ways that are not followed: still if all of them are. */
static cpu_pace_t mixed(cpu_pace_t x, cpu_pace_t y)
{
    for (unsigned v = 0; v < CPU_PACES; v++) {
        bool moves = (x.tag[v] == CPU_PACE_KNOWN && x.by[v] != 0) ||
                     (y.tag[v] == CPU_PACE_KNOWN && y.by[v] != 0);
        uint8_t tag = x.tag[v] > y.tag[v] ? x.tag[v] : y.tag[v];
        x.tag[v] = moves ? CPU_PACE_UNKNOWN : tag;
        x.by[v] = 0;
    }
    return x;
}

static cpu_pace_t product(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    const ptx_operand_t *s = ptx_src(a->f, i, 0), *t = ptx_src(a->f, i, 1);
    cpu_pace_t x = cpu_operand_pace(a, s), y = cpu_operand_pace(a, t);
    uint64_t c;
    return i->mode == PTX_MUL_HI            ? mixed(x, y)
           : cpu_operand_constant(a, t, &c) ? scaled(x, c)
           : cpu_operand_constant(a, s, &c) ? scaled(y, c)
                                            : mixed(x, y);
}

static bool is_whole(unsigned type)
{
    unsigned bytes = ptx_type_size((ptx_type_t)type);
    return type != PTX_PRED && !ptx_type_is_float((ptx_type_t)type) && bytes >= 4;
}

static cpu_pace_t instr_pace(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    cpu_pace_t all = STILL, x = i->src_count > 0 ? cpu_operand_pace(a, ptx_src(a->f, i, 0)) : STILL;
    uint64_t c;
    if (i->dst_count != 1) {
        return UNKNOWN;
    }
    if (is_whole(i->type)) {
        switch (i->op) {
        case PTX_OP_MOV:
        case PTX_OP_CVTA:
            return x;
        case PTX_OP_CVT:
            if (is_whole(i->type2) && i->src_count == 1) {
                return x;
            }
            break;
        case PTX_OP_ADD:
        case PTX_OP_SUB:
        case PTX_OP_OR: /* of bits that are apart, or else it is no address */
            return sum(x, cpu_operand_pace(a, ptx_src(a->f, i, 1)), i->op == PTX_OP_SUB);
        case PTX_OP_MUL:
            return product(a, i);
        case PTX_OP_MAD:
            return sum(product(a, i), cpu_operand_pace(a, ptx_src(a->f, i, 2)), false);
        case PTX_OP_SHL:
            if (cpu_operand_constant(a, ptx_src(a->f, i, 1), &c) && c < 64) {
                return scaled(x, (uint64_t)1 << c);
            }
            break;
        default:
            break;
        }
    }
    for (unsigned n = 0; n < i->src_count; n++) {
        all = mixed(all, cpu_operand_pace(a, ptx_src(a->f, i, n)));
    }
    return all;
}

typedef struct {
    cpu_analysis_t *a;
    cpu_pace_t pace;
    bool changed;
} update_t;

static void update(void *context, uint32_t reg)
{
    update_t *u = context;
    cpu_pace_t *p = &u->a->paces[reg];
    for (unsigned v = 0; v < CPU_PACES; v++) {
        uint8_t tag = u->pace.tag[v];
        if (tag == CPU_PACE_NONE || p->tag[v] == CPU_PACE_UNKNOWN ||
            (tag == p->tag[v] && u->pace.by[v] == p->by[v])) {
            continue;
        }
        p->tag[v] = p->tag[v] == CPU_PACE_NONE ? tag : CPU_PACE_UNKNOWN;
        p->by[v] = u->pace.by[v];
        u->changed = true;
    }
}

void cpu_analyse_paces(cpu_analysis_t *a)
{
    a->paces = cpu_arena_alloc(a->arena, a->f->reg_count + 1, sizeof *a->paces);
    for (bool changed = true; changed;) { /* a register changes twice at most */
        changed = false;
        for (uint32_t b = 0; b < a->node_count; b++) {
            const cpu_node_t *n = &a->nodes[b];
            uint32_t count = n->count + (n->end == CPU_END_BARRIER);
            for (uint32_t k = 0; k < count; k++) {
                const ptx_instr_t *i = &a->f->instrs[k < n->count ? n->first + k : n->last];
                update_t u = {.a = a, .pace = instr_pace(a, i)};
                cpu_visit_defs(a->f, i, update, &u);
                changed |= u.changed;
            }
        }
    }
}

int64_t cpu_pace_of(const cpu_analysis_t *a, const ptx_operand_t *o, unsigned which)
{
    cpu_pace_t p = cpu_operand_pace(a, o);
    return p.tag[which] == CPU_PACE_KNOWN ? p.by[which] : 0;
}

typedef struct {
    const cpu_analysis_t *a;
    uint32_t loop, reg;
    bool found;
} search_t;

static void is_it(void *context, uint32_t reg)
{
    search_t *s = context;
    s->found |= s->reg == reg;
}

static bool changes(const cpu_analysis_t *a, uint32_t l, uint32_t reg)
{
    search_t s = {.a = a, .reg = reg};
    for (uint32_t b = a->loops[l].header; b <= a->loops[l].last && !s.found; b++) {
        for (uint32_t k = 0; k < a->nodes[b].count; k++) {
            cpu_visit_defs(a->f, &a->f->instrs[a->nodes[b].first + k], is_it, &s);
        }
    }
    return s.found;
}

/* Is the register the same in all iterations, and larger in a larger grid? */
static void steps(void *context, uint32_t reg)
{
    search_t *s = context;
    const cpu_pace_t *p = &s->a->paces[reg];
    bool grows = p->tag[CPU_PACE_GRID] == CPU_PACE_KNOWN && p->by[CPU_PACE_GRID] != 0;
    s->found |= grows && !changes(s->a, s->loop, reg);
}

bool cpu_loop_strides_grid(const cpu_analysis_t *a, uint32_t l)
{
    search_t s = {.a = a, .loop = l};
    for (uint32_t b = a->loops[l].header; b <= a->loops[l].last; b++) {
        const cpu_node_t *n = &a->nodes[b];
        for (uint32_t k = 0; n->loop == l && k < n->count; k++) {
            const ptx_instr_t *i = &a->f->instrs[n->first + k];
            if (i->op == PTX_OP_ADD || i->op == PTX_OP_SUB || i->op == PTX_OP_MAD) {
                cpu_visit_uses(a->f, i, steps, &s);
            }
        }
    }
    return s.found;
}

/* The finished list of instructions to basic blocks.
 *
 * A loop that can be entered at several places gets a dispatcher: whoever goes to one of its entries
 * notes which in a selector and goes to the dispatcher, the loop's only header from then on. Inner
 * loops are looked at without the header of the outer one. */
#include "gpu-proxy/cpu/lower/lower_state.h"

#include <string.h>

typedef struct {
    uint32_t first, count; /* in the list */
    uint32_t succ[2], succ_count;
    bool reachable;
} block_t;

typedef struct {
    lw_t *lw;
    const lw_vec_t *code;
    uint32_t n;
    block_t *blocks;
    uint32_t *block_of; /* per label */
} graph_t;

static bool ends_block(const ptx_instr_t *i)
{
    return i->op == PTX_OP_BRA || i->op == PTX_OP_RET || i->op == PTX_OP_EXIT ||
           i->op == PTX_OP_TRAP || i->op == PTX_OP_BAR;
}

static bool goes_on(const ptx_instr_t *i)
{
    return !ends_block(i) || i->op == PTX_OP_BAR || i->op == PTX_OP_TRAP || i->guard != PTX_NONE;
}

static uint32_t label_at(const lw_t *lw, const ptx_instr_t *i)
{
    return (uint32_t)lw_operands(lw, i)->value;
}

static uint32_t target(const lw_t *lw, const ptx_instr_t *i)
{
    return lw_operands(lw, i)->index;
}

/* Jumps to where control goes anyway, and labels that nobody names, go. */
static void tidy(lw_t *lw, lw_vec_t *code)
{
    uint8_t *used = cpu_arena_alloc(lw->arena, lw->labels + 1, 1);
    uint32_t out = 0;
    for (uint32_t n = 0; n < code->count; n++) {
        const ptx_instr_t *i = lw_at(code, n);
        bool needless = false;
        for (uint32_t k = n + 1; i->op == PTX_OP_BRA && k < code->count && !needless; k++) {
            if (lw_at(code, k)->op != LW_LABEL) {
                break;
            }
            needless = label_at(lw, lw_at(code, k)) == target(lw, i);
        }
        if (!needless) {
            if (i->op == PTX_OP_BRA) {
                used[target(lw, i)] = 1;
            }
            *lw_at(code, out++) = *i;
        }
    }
    code->count = out;
    out = 0;
    for (uint32_t n = 0; n < code->count; n++) {
        const ptx_instr_t *i = lw_at(code, n);
        if (i->op != LW_LABEL || used[label_at(lw, i)]) {
            *lw_at(code, out++) = *i;
        }
    }
    code->count = out;
    if (out == 0 || lw_at(code, out - 1)->op == LW_LABEL || goes_on(lw_at(code, out - 1))) {
        lw->out = code;
        lw_emit(lw, PTX_OP_EXIT, PTX_TYPE_NONE, NULL, 0, 0);
    }
}

static void mark_reachable(graph_t *g)
{
    uint32_t *stack = cpu_arena_alloc(g->lw->arena, g->n + 1, sizeof *stack), depth = 0;
    stack[depth++] = 0;
    g->blocks[0].reachable = true;
    while (depth > 0) {
        const block_t *b = &g->blocks[stack[--depth]];
        for (uint32_t s = 0; s < b->succ_count; s++) {
            if (!g->blocks[b->succ[s]].reachable) {
                g->blocks[b->succ[s]].reachable = true;
                stack[depth++] = b->succ[s];
            }
        }
    }
}

static graph_t cut(lw_t *lw, const lw_vec_t *code)
{
    graph_t g = {.lw = lw, .code = code};
    g.blocks = cpu_arena_alloc(lw->arena, code->count + 1, sizeof *g.blocks);
    g.block_of = cpu_arena_alloc(lw->arena, lw->labels + 1, sizeof *g.block_of);
    bool begin = true;
    for (uint32_t n = 0; n < code->count; n++) {
        const ptx_instr_t *i = lw_at(code, n);
        if (i->op == LW_LABEL) {
            bool open = !begin && g.blocks[g.n - 1].count == 0;
            if (!open) {
                g.blocks[g.n++].first = n + 1;
            } else {
                g.blocks[g.n - 1].first = n + 1;
            }
            g.block_of[label_at(lw, i)] = g.n - 1;
            begin = false;
            continue;
        }
        if (begin) {
            g.blocks[g.n++].first = n;
        }
        g.blocks[g.n - 1].count++;
        begin = ends_block(i);
    }
    for (uint32_t b = 0; b < g.n; b++) {
        block_t *own = &g.blocks[b];
        const ptx_instr_t *last = lw_at(code, own->first + own->count - 1);
        if (last->op == PTX_OP_BRA) {
            own->succ[own->succ_count++] = g.block_of[target(lw, last)];
        }
        if (goes_on(last) && b + 1 < g.n) {
            own->succ[own->succ_count++] = b + 1;
        }
    }
    mark_reachable(&g);
    return g;
}

/* ---- loops with several entries ---- */

typedef struct {
    graph_t *g;
    const bool *in;         /* blocks that are looked at */
    uint32_t *number, *low; /* 0: not seen */
    uint32_t *component;    /* per block; 0: none yet */
    uint32_t *stack, depth;
    uint32_t *path, *at; /* the walk: block, next successor */
    uint32_t numbers, components;
} scc_t;

static void walk(scc_t *w, uint32_t from)
{
    uint32_t depth = 0;
    w->path[depth] = from;
    w->at[depth++] = 0;
    w->number[from] = w->low[from] = ++w->numbers;
    w->stack[w->depth++] = from;
    while (depth > 0) {
        uint32_t b = w->path[depth - 1];
        const block_t *own = &w->g->blocks[b];
        if (w->at[depth - 1] < own->succ_count) {
            uint32_t s = own->succ[w->at[depth - 1]++];
            if (!w->in[s]) {
                continue;
            }
            if (w->number[s] == 0) {
                w->path[depth] = s;
                w->at[depth++] = 0;
                w->number[s] = w->low[s] = ++w->numbers;
                w->stack[w->depth++] = s;
            } else if (w->component[s] == 0 && w->number[s] < w->low[b]) {
                w->low[b] = w->number[s];
            }
            continue;
        }
        if (w->low[b] == w->number[b]) {
            uint32_t member;
            w->components++;
            do {
                member = w->stack[--w->depth];
                w->component[member] = w->components;
            } while (member != b);
        }
        depth--;
        if (depth > 0 && w->low[b] < w->low[w->path[depth - 1]]) {
            w->low[w->path[depth - 1]] = w->low[b];
        }
    }
}

static void find_components(scc_t *w, graph_t *g, const bool *in)
{
    cpu_arena_t *arena = g->lw->arena;
    *w = (scc_t){.g = g, .in = in};
    uint32_t **arrays[] = {&w->number, &w->low, &w->component, &w->stack, &w->path, &w->at};
    for (unsigned k = 0; k < sizeof arrays / sizeof arrays[0]; k++) {
        *arrays[k] = cpu_arena_alloc(arena, g->n + 1, sizeof(uint32_t));
    }
    for (uint32_t b = 0; b < g->n; b++) {
        if (in[b] && w->number[b] == 0) {
            walk(w, b);
        }
    }
}

/* Blocks of component c where control comes in from outside of it. */
static uint32_t find_entries(const scc_t *w, uint32_t c, bool *is_entry, bool *is_loop)
{
    const graph_t *g = w->g;
    uint32_t count = 0;
    memset(is_entry, 0, g->n);
    *is_loop = false;
    if (w->component[0] == c) {
        is_entry[0] = true;
        count++;
    }
    for (uint32_t b = 0; b < g->n; b++) {
        for (uint32_t s = 0; g->blocks[b].reachable && s < g->blocks[b].succ_count; s++) {
            uint32_t t = g->blocks[b].succ[s];
            if (w->component[t] != c) {
                continue;
            }
            if (w->component[b] == c) {
                *is_loop = true;
            } else if (!is_entry[t]) {
                is_entry[t] = true;
                count++;
            }
        }
    }
    return count;
}

/* Looks for a loop with several entries among the blocks in `in`, which then tells its blocks; false
 * if there is none. */
static bool find_bad_loop(graph_t *g, bool *in, bool *is_entry)
{
    bool *all = in;
    cpu_arena_t *arena = g->lw->arena;
    for (bool peeled = true; peeled;) { /* all loops of one level, then without their headers */
        scc_t w;
        bool *next = cpu_arena_alloc(arena, g->n + 1, 1);
        peeled = false;
        find_components(&w, g, in);
        for (uint32_t c = 1; c <= w.components; c++) {
            bool is_loop;
            uint32_t entries = find_entries(&w, c, is_entry, &is_loop);
            if (!is_loop) {
                continue;
            }
            if (entries > 1) {
                for (uint32_t b = 0; b < g->n; b++) {
                    all[b] = w.component[b] == c;
                }
                return true;
            }
            peeled = true;
            for (uint32_t b = 0; b < g->n; b++) {
                next[b] |= w.component[b] == c && !is_entry[b];
            }
        }
        in = next;
    }
    return false;
}

typedef struct {
    uint32_t *own;     /* per block: label of the block itself */
    uint32_t *stub[2]; /* of an entry: where who comes from outside (1: from inside) goes */
} labels_t;

static labels_t make_labels(graph_t *g, const bool *is_entry)
{
    labels_t l;
    cpu_arena_t *arena = g->lw->arena;
    l.own = cpu_arena_alloc(arena, g->n + 1, sizeof *l.own);
    l.stub[0] = cpu_arena_alloc(arena, g->n + 1, sizeof *l.own);
    l.stub[1] = cpu_arena_alloc(arena, g->n + 1, sizeof *l.own);
    for (uint32_t b = 0; b < g->n; b++) {
        l.own[b] = lw_label(g->lw);
        l.stub[0][b] = is_entry[b] ? lw_label(g->lw) : l.own[b];
        l.stub[1][b] = is_entry[b] ? lw_label(g->lw) : l.own[b];
    }
    return l;
}

/* The block as it was, but for where it goes. */
static void copy_block(graph_t *g, uint32_t b, const labels_t *l, const uint32_t *stub,
                       lw_vec_t *out)
{
    lw_t *lw = g->lw;
    const block_t *block = &g->blocks[b];
    lw_here(lw, l->own[b]);
    for (uint32_t n = 0; n < block->count; n++) {
        ptx_instr_t i = *lw_at(g->code, block->first + n);
        if (i.op == PTX_OP_BRA) {
            ptx_operand_t o = *lw_operands(lw, &i);
            o.index = stub[g->block_of[o.index]];
            i.operand_first = lw->operands.count;
            *(ptx_operand_t *)lw_push(lw, &lw->operands, sizeof o, 1) = o;
        }
        *(ptx_instr_t *)lw_push(lw, out, sizeof i, 1) = i;
    }
    if (goes_on(lw_at(out, out->count - 1)) && b + 1 < g->n) {
        lw_bra(lw, stub[b + 1]);
    }
}

/* Sends whoever goes to one of the entries through a dispatcher. Who comes from outside does not pass
 * the loop's own blocks before it, so that the dispatcher is the only entry. */
static void add_dispatcher(graph_t *g, const bool *inside, const bool *is_entry, lw_vec_t *out)
{
    lw_t *lw = g->lw;
    uint32_t selector = lw_reg(lw, PTX_B32, "%entry"), dispatcher = lw_label(lw), count = 0;
    uint32_t *labels = cpu_arena_alloc(lw->arena, g->n + 1, sizeof *labels);
    uint64_t *keys = cpu_arena_alloc(lw->arena, g->n + 1, sizeof *keys);
    labels_t l = make_labels(g, is_entry);
    lw->out = out;
    if (is_entry[0]) {
        lw_bra(lw, l.stub[0][0]);
    }
    for (uint32_t b = 0; b < g->n; b++) {
        if (g->blocks[b].reachable) {
            copy_block(g, b, &l, l.stub[inside[b]], out);
        }
    }
    for (uint32_t b = 0; b < g->n; b++) {
        for (unsigned k = 0; is_entry[b] && k < 2; k++) {
            lw_here(lw, l.stub[k][b]);
            lw_mov(lw, PTX_B32, selector, lw_of_imm(count));
            lw_bra(lw, dispatcher);
        }
        if (is_entry[b]) {
            keys[count] = count;
            labels[count++] = l.own[b];
        }
    }
    lw_here(lw, dispatcher);
    lw_tree(lw, selector, keys, labels, count);
}

void lw_reduce(lw_t *lw, lw_vec_t *code)
{
    for (;;) {
        tidy(lw, code);
        graph_t g = cut(lw, code);
        bool *in = cpu_arena_alloc(lw->arena, g.n + 1, 1);
        bool *is_entry = cpu_arena_alloc(lw->arena, g.n + 1, 1);
        for (uint32_t b = 0; b < g.n; b++) {
            in[b] = g.blocks[b].reachable;
        }
        if (!find_bad_loop(&g, in, is_entry)) {
            return;
        }
        lw_vec_t out = {0};
        add_dispatcher(&g, in, is_entry, &out);
        *code = out;
        if (lw->trouble != NULL) {
            return;
        }
    }
}

void lw_finish(lw_t *lw, const lw_vec_t *code, ptx_function_t *f)
{
    graph_t g = cut(lw, code);
    uint32_t *number = cpu_arena_alloc(lw->arena, g.n + 1, sizeof *number), blocks = 0;
    ptx_block_t *out = cpu_arena_alloc(lw->arena, g.n + 1, sizeof *out);
    lw_vec_t instrs = {0};
    for (uint32_t b = 0; b < g.n; b++) {
        number[b] = g.blocks[b].reachable ? blocks++ : PTX_NONE;
    }
    f->has_barrier = false;
    for (uint32_t b = 0; b < g.n; b++) {
        const block_t *own = &g.blocks[b];
        if (!own->reachable) {
            continue;
        }
        ptx_block_t *to = &out[number[b]];
        *to = (ptx_block_t){.first = instrs.count,
                            .count = own->count,
                            .succ_count = own->succ_count,
                            .succ_table = PTX_NONE};
        for (uint32_t s = 0; s < own->succ_count; s++) {
            to->succ[s] = number[own->succ[s]];
        }
        for (uint32_t n = 0; n < own->count; n++) {
            ptx_instr_t i = *lw_at(g.code, own->first + n);
            f->has_barrier |= i.op == PTX_OP_BAR;
            if (i.op == PTX_OP_BRA) { /* operands may be shared between copies */
                ptx_operand_t o = *lw_operands(lw, &i);
                o.index = number[g.block_of[o.index]];
                i.operand_first = lw->operands.count;
                *(ptx_operand_t *)lw_push(lw, &lw->operands, sizeof o, 1) = o;
            }
            *(ptx_instr_t *)lw_push(lw, &instrs, sizeof i, 1) = i;
        }
    }
    f->reg_count = lw->regs.count;
    f->regs = lw->regs.data;
    f->instr_count = instrs.count;
    f->instrs = instrs.data;
    f->operand_count = lw->operands.count;
    f->operands = lw->operands.data;
    f->block_count = blocks;
    f->blocks = out;
    f->table_count = f->proto_count = f->callee_count = 0;
    f->calls_indirect = false;
}

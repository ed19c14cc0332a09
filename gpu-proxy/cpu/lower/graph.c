/* The call graph: what is reached, what is recursive, what is spliced into its callers. */
#include "gpu-proxy/cpu/lower/lower_state.h"

#include <stdlib.h>

enum { SMALL = 48, MOST_COPIED = 1000 };

static const ptx_function_t *function(const lw_t *lw, uint32_t index)
{
    return &lw->module->functions[index];
}

/* ---- functions whose address is taken ---- */

static void take(lw_t *lw, uint32_t index)
{
    index = lw->canonical[index];
    const ptx_function_t *f = function(lw, index);
    if (!lw->fns[index].taken && f->defined && !f->is_kernel) {
        lw->fns[index].taken = true;
        *(uint32_t *)lw_push(lw, &lw->taken, sizeof(uint32_t), 1) = index;
    }
}

static void take_operands(lw_t *lw, const ptx_function_t *f)
{
    for (uint32_t n = 0; n < f->instr_count; n++) {
        const ptx_instr_t *i = &f->instrs[n];
        for (unsigned k = i->op == PTX_OP_CALL ? 1 : 0; k < i->src_count; k++) {
            const ptx_operand_t *o = ptx_src(f, i, k);
            if (o->kind == PTX_OPERAND_FUNC) {
                take(lw, o->index);
            }
            for (unsigned e = 0; o->kind == PTX_OPERAND_VECTOR && e < o->count; e++) {
                if (ptx_element(f, o, e)->kind == PTX_OPERAND_FUNC) {
                    take(lw, ptx_element(f, o, e)->index);
                }
            }
        }
    }
    for (uint32_t t = 0; t < f->table_count; t++) {
        for (uint32_t n = 0; f->tables[t].of_functions && n < f->tables[t].count; n++) {
            take(lw, f->tables[t].entries[n]);
        }
    }
}

static int by_number(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

static void find_taken(lw_t *lw)
{
    lw->taken_known = true;
    for (uint32_t n = 0; n < lw->module->reloc_count; n++) {
        if (lw->module->relocs[n].function != PTX_NONE) {
            take(lw, lw->module->relocs[n].function);
        }
    }
    for (uint32_t n = 0; n < lw->module->function_count; n++) {
        take_operands(lw, function(lw, n));
    }
    if (lw->taken.count > 1) {
        qsort(lw->taken.data, lw->taken.count, sizeof(uint32_t), by_number);
    }
}

/* ---- what a call may reach ---- */

static bool sizes_fit(const lw_t *lw, const ptx_function_t *f, const ptx_operand_t *list,
                      uint32_t first, uint32_t count)
{
    if (list->kind != PTX_OPERAND_VECTOR) {
        return count == 0;
    }
    for (uint32_t n = 0; n < list->count && n < count; n++) {
        const ptx_operand_t *o = ptx_element(f, list, n);
        if (o->kind == PTX_OPERAND_VAR &&
            lw->module->vars[o->index].size != lw->module->vars[first + n].size) {
            return false;
        }
    }
    return list->count == count;
}

static bool fits(const lw_t *lw, const ptx_function_t *f, const ptx_instr_t *i,
                 const ptx_function_t *t)
{
    return sizes_fit(lw, f, ptx_dst(f, i, 0), t->result_first, t->result_count) &&
           sizes_fit(lw, f, ptx_src(f, i, 1), t->param_first, t->param_count);
}

static bool listed(const lw_t *lw, const ptx_function_t *f, const ptx_instr_t *i, uint32_t index)
{
    if (i->src_count < 3 || ptx_src(f, i, 2)->kind != PTX_OPERAND_TABLE) {
        return true;
    }
    const ptx_table_t *t = &f->tables[ptx_src(f, i, 2)->index];
    for (uint32_t n = 0; n < t->count; n++) {
        if (lw->canonical[t->entries[n]] == index) {
            return true;
        }
    }
    return false;
}

const uint32_t *lw_targets(lw_t *lw, const ptx_function_t *f, const ptx_instr_t *i, uint32_t *count)
{
    const ptx_operand_t *callee = ptx_src(f, i, 0);
    if (callee->kind == PTX_OPERAND_FUNC) {
        const uint32_t *own = &lw->canonical[callee->index];
        *count = function(lw, *own)->defined;
        return own;
    }
    if (!lw->taken_known) {
        find_taken(lw);
    }
    uint32_t *all = cpu_arena_alloc(lw->arena, lw->taken.count + 1, sizeof *all), n = 0;
    for (uint32_t k = 0; k < lw->taken.count; k++) {
        uint32_t index = ((uint32_t *)lw->taken.data)[k];
        if (fits(lw, f, i, function(lw, index)) && listed(lw, f, i, index)) {
            all[n++] = index;
        }
    }
    *count = n;
    return all;
}

/* ---- components ---- */

/* Tarjan's algorithm, without recursion: a text can nest calls as deep as it likes. */
typedef struct {
    uint32_t function, at; /* the next call to look at: instruction, target */
    uint32_t target;
} frame_t;

typedef struct {
    lw_t *lw;
    uint32_t *number, *low; /* 0: not seen */
    bool *open;
    lw_vec_t frames, stack;
    uint32_t numbers, components;
} walk_t;

static void enter(walk_t *w, uint32_t index)
{
    w->number[index] = w->low[index] = ++w->numbers;
    w->open[index] = true;
    *(uint32_t *)lw_push(w->lw, &w->stack, sizeof(uint32_t), 1) = index;
    *(frame_t *)lw_push(w->lw, &w->frames, sizeof(frame_t), 1) = (frame_t){.function = index};
}

static void close_component(walk_t *w, uint32_t index)
{
    uint32_t members = 0, member;
    do {
        member = ((uint32_t *)w->stack.data)[--w->stack.count];
        w->open[member] = false;
        w->lw->fns[member].component = w->components;
        *(uint32_t *)lw_push(w->lw, &w->lw->order, sizeof(uint32_t), 1) = member;
        members++;
    } while (member != index);
    for (uint32_t n = w->lw->order.count - members; members > 1 && n < w->lw->order.count; n++) {
        w->lw->fns[((uint32_t *)w->lw->order.data)[n]].recursive = true;
    }
    w->components++;
}

/* The next function that the frame's function may call, or PTX_NONE. */
static uint32_t next_callee(walk_t *w, frame_t *fr)
{
    const ptx_function_t *f = function(w->lw, fr->function);
    for (; fr->at < f->instr_count; fr->at++, fr->target = 0) {
        const ptx_instr_t *i = &f->instrs[fr->at];
        if (i->op != PTX_OP_CALL) {
            continue;
        }
        uint32_t count;
        const uint32_t *targets = lw_targets(w->lw, f, i, &count);
        if (fr->target < count) {
            uint32_t t = targets[fr->target++];
            w->lw->fns[t].sites += ptx_src(f, i, 0)->kind == PTX_OPERAND_FUNC;
            w->lw->fns[t].called |= ptx_src(f, i, 0)->kind != PTX_OPERAND_FUNC;
            return t;
        }
    }
    return PTX_NONE;
}

static void find_components(lw_t *lw, uint32_t kernel)
{
    uint32_t n = lw->module->function_count;
    walk_t w = {.lw = lw};
    w.number = cpu_arena_alloc(lw->arena, n, sizeof *w.number);
    w.low = cpu_arena_alloc(lw->arena, n, sizeof *w.low);
    w.open = cpu_arena_alloc(lw->arena, n, 1);
    enter(&w, kernel);
    while (w.frames.count > 0) {
        frame_t *fr = (frame_t *)w.frames.data + w.frames.count - 1;
        uint32_t own = fr->function, t = next_callee(&w, fr);
        if (t == PTX_NONE) {
            if (w.low[own] == w.number[own]) {
                close_component(&w, own);
            }
            w.frames.count--;
            if (w.frames.count > 0) {
                uint32_t caller = ((frame_t *)w.frames.data + w.frames.count - 1)->function;
                w.low[caller] = w.low[own] < w.low[caller] ? w.low[own] : w.low[caller];
            }
        } else if (w.number[t] == 0) {
            enter(&w, t);
        } else if (w.open[t]) {
            w.low[own] = w.number[t] < w.low[own] ? w.number[t] : w.low[own];
            lw->fns[t].recursive |= t == own;
        }
    }
}

/* ---- splicing ---- */

/* Callees come first in the order, so their sizes are known. */
static void decide(lw_t *lw, uint32_t index)
{
    lw_fn_t *fn = &lw->fns[index];
    const ptx_function_t *f = function(lw, index);
    uint64_t size = f->instr_count;
    for (uint32_t n = 0; n < f->instr_count; n++) {
        const ptx_instr_t *i = &f->instrs[n];
        if (i->op != PTX_OP_CALL || ptx_src(f, i, 0)->kind != PTX_OPERAND_FUNC) {
            continue;
        }
        const lw_fn_t *callee = &lw->fns[lw->canonical[ptx_src(f, i, 0)->index]];
        if (callee->inlined) {
            size += callee->size;
            fn->depth = callee->depth + 1 > fn->depth ? callee->depth + 1 : fn->depth;
        }
    }
    fn->size = size > LW_MAX_INSTRS ? LW_MAX_INSTRS : (uint32_t)size;
    fn->reached = true;
    fn->inlined =
        !fn->recursive && !f->is_kernel && fn->depth < LW_MAX_DEPTH &&
        (fn->sites == 1 || fn->size <= SMALL || (uint64_t)fn->size * fn->sites <= MOST_COPIED);
    fn->called |= fn->sites != 0 && !fn->inlined;
    lw->recursion |= fn->recursive;
}

void lw_graph(lw_t *lw)
{
    uint32_t n = lw->module->function_count;
    lw->fns = cpu_arena_alloc(lw->arena, n + 1, sizeof *lw->fns);
    lw->canonical = cpu_arena_alloc(lw->arena, n + 1, sizeof *lw->canonical);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t aliased = lw->module->functions[k].aliased;
        lw->canonical[k] = aliased != 0 ? aliased - 1 : k;
    }
    find_components(lw, (uint32_t)(lw->kernel - lw->module->functions));
    for (uint32_t k = 0; k < lw->order.count; k++) {
        decide(lw, ((uint32_t *)lw->order.data)[k]);
    }
}

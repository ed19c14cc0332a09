/* Calls of functions that are there once: where to go on, what survives, frames. */
#include "gpu-proxy/cpu/lower/lower_state.h"

#include "gpu-proxy/cpu/jit/analysis/analysis.h"

#include <string.h>

enum { LEAST_FRAME = 16 }; /* of a recursive function, so that endless recursion ends */

void lw_site(lw_t *lw, lw_body_t *body, const ptx_instr_t *i)
{
    lw_site_t *s = cpu_arena_alloc(lw->arena, 1, sizeof *s);
    const ptx_operand_t *callee = ptx_src(body->f, i, 0);
    *s = (lw_site_t){.body = body, .i = i, .callee_reg = PTX_NONE};
    s->targets = lw_targets(lw, body->f, i, &s->target_count);
    if (callee->kind == PTX_OPERAND_REG) {
        s->callee_reg = body->reg_base + callee->index;
    }
    ptx_operand_t o = lw_of_imm(lw->sites.count);
    *(lw_site_t **)lw_push(lw, &lw->sites, sizeof s, 1) = s;
    lw_emit(lw, LW_CALL, PTX_TYPE_NONE, &o, 0, 1);
}

static lw_site_t *site_of(const lw_t *lw, const ptx_instr_t *i)
{
    return ((lw_site_t **)lw->sites.data)[lw_operands(lw, i)->value];
}

/* ---- what is alive behind a call of a recursive function ---- */

typedef struct {
    lw_t *lw;
    lw_root_t *root;
    ptx_function_t view; /* so that operands can be looked up */
    uint32_t regs, starts;
    uint32_t *start;    /* positions where blocks begin, and the end */
    uint32_t *block_of; /* per label */
    cpu_bits_t *live_in;
    cpu_bits_t live, at_ret;
} live_t;

static void add(void *context, uint32_t reg)
{
    live_t *l = context;
    if (reg >= l->root->reg_first && reg < l->root->reg_end) {
        cpu_bits_add(l->live, reg - l->root->reg_first);
    }
}

static void drop(void *context, uint32_t reg)
{
    live_t *l = context;
    if (reg >= l->root->reg_first && reg < l->root->reg_end) {
        cpu_bits_drop(l->live, reg - l->root->reg_first);
    }
}

static void visit_list(live_t *l, const lw_body_t *body, const ptx_operand_t *list,
                       void (*visit)(void *, uint32_t))
{
    for (unsigned n = 0; list->kind == PTX_OPERAND_VECTOR && n < list->count; n++) {
        lw_visit_pieces(l->lw, body, ptx_element(body->f, list, n), visit, l);
    }
}

static void call_back(live_t *l, lw_site_t *s, bool note)
{
    visit_list(l, s->body, ptx_dst(s->body->f, s->i, 0), drop);
    bool again = false;
    for (uint32_t n = 0; n < s->target_count; n++) {
        again |= l->lw->fns[s->targets[n]].component == l->root->fn->component;
    }
    if (note && again) {
        cpu_bits_t kept = cpu_bits_new(l->lw->arena, l->regs);
        cpu_bits_or(kept, l->live, l->regs);
        s->saved = kept;
    }
    visit_list(l, s->body, ptx_src(s->body->f, s->i, 1), add);
    if (s->callee_reg != PTX_NONE) {
        add(l, s->callee_reg);
    }
}

static bool falls_through(const ptx_instr_t *i)
{
    bool ends = i->op == PTX_OP_BRA || i->op == PTX_OP_RET || i->op == PTX_OP_EXIT;
    return !ends || i->guard != PTX_NONE;
}

static void block_back(live_t *l, uint32_t b, bool note)
{
    const lw_vec_t *code = &l->root->code;
    memset(l->live, 0, cpu_bits_words(l->regs) * 8);
    for (uint32_t n = l->start[b + 1]; n-- > l->start[b];) {
        const ptx_instr_t *i = lw_at(code, n);
        if (n + 1 == l->start[b + 1] && falls_through(i) && b + 1 < l->starts) {
            cpu_bits_or(l->live, l->live_in[b + 1], l->regs);
        }
        if (i->op == PTX_OP_BRA) {
            uint32_t label = lw_operands(l->lw, i)->index;
            cpu_bits_or(l->live, label == l->root->ret ? l->at_ret : l->live_in[l->block_of[label]],
                        l->regs);
        }
        if (i->op == LW_CALL) {
            call_back(l, site_of(l->lw, i), note);
        } else if (i->op != LW_LABEL) {
            if (i->guard == PTX_NONE) {
                cpu_visit_defs(&l->view, i, drop, l);
            }
            cpu_visit_uses(&l->view, i, add, l);
        }
    }
}

static void find_blocks(live_t *l)
{
    const lw_vec_t *code = &l->root->code;
    l->start = cpu_arena_alloc(l->lw->arena, code->count + 2, sizeof *l->start);
    l->block_of = cpu_arena_alloc(l->lw->arena, l->lw->labels, sizeof *l->block_of);
    for (uint32_t n = 0; n < code->count; n++) {
        const ptx_instr_t *i = lw_at(code, n);
        bool behind = n > 0 && lw_at(code, n - 1)->op == PTX_OP_BRA;
        if (n == 0 || behind || (i->op == LW_LABEL && lw_at(code, n - 1)->op != LW_LABEL)) {
            l->start[l->starts++] = n;
        }
        if (i->op == LW_LABEL) {
            l->block_of[lw_operands(l->lw, i)->value] = l->starts - 1;
        }
    }
    l->start[l->starts] = code->count;
}

/* What the function's end needs: where to go back to, and its results. */
static void find_at_ret(live_t *l)
{
    const lw_root_t *r = l->root;
    add(l, r->selector);
    for (uint32_t n = 0; n < r->f->result_count; n++) {
        ptx_operand_t o = {.kind = PTX_OPERAND_VAR, .index = r->f->result_first + n};
        lw_visit_pieces(l->lw, r->body, &o, add, l);
    }
    cpu_bits_or(l->at_ret, l->live, l->regs);
}

static void give_places(live_t *l)
{
    lw_root_t *r = l->root;
    r->save = cpu_arena_alloc(l->lw->arena, l->regs + 1, sizeof *r->save);
    for (uint32_t n = 0; n < r->code.count; n++) {
        const ptx_instr_t *i = lw_at(&r->code, n);
        const lw_site_t *s = i->op == LW_CALL ? site_of(l->lw, i) : NULL;
        for (uint32_t reg = 0; s != NULL && s->saved != NULL && reg < l->regs; reg++) {
            if (cpu_bits_has(s->saved, reg) && r->save[reg] == 0) {
                unsigned bytes = lw_reg_bytes(l->lw, r->reg_first + reg);
                bytes = bytes < 4 ? 4 : bytes;
                r->frame = (r->frame + bytes - 1) & ~(uint64_t)(bytes - 1);
                r->save[reg] = r->frame + 1;
                r->frame += bytes;
            }
        }
    }
}

static void find_saved(lw_t *lw, lw_root_t *root)
{
    live_t l = {.lw = lw, .root = root, .regs = root->reg_end - root->reg_first};
    l.view.operands = lw->operands.data;
    find_blocks(&l);
    l.live = cpu_bits_new(lw->arena, l.regs);
    l.at_ret = cpu_bits_new(lw->arena, l.regs);
    find_at_ret(&l);
    l.live_in = cpu_arena_alloc(lw->arena, l.starts + 1, sizeof *l.live_in);
    for (uint32_t b = 0; b < l.starts; b++) {
        l.live_in[b] = cpu_bits_new(lw->arena, l.regs);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t b = l.starts; b-- > 0;) {
            block_back(&l, b, false);
            changed |= cpu_bits_or(l.live_in[b], l.live, l.regs);
        }
    }
    for (uint32_t b = 0; b < l.starts; b++) {
        block_back(&l, b, true);
    }
    give_places(&l);
}

/* ---- frames ---- */

static void find_need(lw_t *lw, lw_root_t *root)
{
    uint64_t below = 0;
    for (uint32_t n = 0; n < root->code.count; n++) {
        const ptx_instr_t *i = lw_at(&root->code, n);
        const lw_site_t *s = i->op == LW_CALL ? site_of(lw, i) : NULL;
        for (uint32_t k = 0; s != NULL && k < s->target_count; k++) {
            uint64_t need = lw->fns[s->targets[k]].root->need;
            below = need > below ? need : below;
        }
    }
    root->need = root->frame + below;
}

uint64_t lw_stack_room(const lw_t *lw)
{
    return (lw->stack_bytes + 15) & ~(uint64_t)15;
}

void lw_plan(lw_t *lw)
{
    lw_root_t **roots = lw->roots.data;
    for (uint32_t n = 0; n < lw->roots.count; n++) {
        lw_root_t *r = roots[n];
        if (r->fn->recursive) {
            r->frame = r->frame < LEAST_FRAME ? LEAST_FRAME : r->frame;
            find_saved(lw, r);
        }
        r->frame = (r->frame + 15) & ~(uint64_t)15;
    }
    for (uint32_t n = 0; n < lw->order.count; n++) {
        lw_root_t *r = lw->fns[((uint32_t *)lw->order.data)[n]].root;
        if (r != NULL) {
            find_need(lw, r);
        }
    }
    lw->limit = roots[0]->need + (lw->recursion ? lw_stack_room(lw) : 0);
}

/* ---- expansion ---- */

static void trap(lw_t *lw, unsigned mode)
{
    lw_emit(lw, PTX_OP_TRAP, PTX_TYPE_NONE, NULL, 0, 0)->mode = (uint8_t)mode;
}

/* sp += by, or -= by. */
static void move_sp(lw_t *lw, const lw_root_t *root, bool down)
{
    if (root->f == lw->kernel) {
        if (!down) {
            lw_mov(lw, PTX_B64, lw->sp, lw_of_imm(root->frame));
        }
    } else if (root->frame != 0) {
        ptx_operand_t o[3] = {lw_of_reg(lw->sp), lw_of_reg(lw->sp), lw_of_imm(root->frame)};
        lw_emit(lw, down ? PTX_OP_SUB : PTX_OP_ADD, PTX_U64, o, 1, 2);
    }
}

static void save_one(lw_t *lw, const lw_root_t *root, uint32_t reg, bool restore)
{
    ptx_operand_t at = lw_local(lw, root, root->save[reg - root->reg_first] - 1);
    unsigned bytes = lw_reg_bytes(lw, reg);
    bool pred = ((const ptx_reg_t *)lw->regs.data)[reg].type == PTX_PRED;
    uint32_t word = pred ? lw_reg(lw, PTX_B32, "%saved") : reg;
    unsigned type = pred ? PTX_B32 : lw_piece_type(bytes);
    if (pred && !restore) {
        ptx_operand_t o[4] = {lw_of_reg(word), lw_of_imm(1), lw_of_imm(0), lw_of_reg(reg)};
        lw_emit(lw, PTX_OP_SELP, PTX_B32, o, 1, 3);
    }
    ptx_operand_t o[2] = {restore ? lw_of_reg(word) : at, restore ? at : lw_of_reg(word)};
    ptx_instr_t *i = lw_emit(lw, restore ? PTX_OP_LD : PTX_OP_ST, type, o, restore, 2 - restore);
    i->space = PTX_SPACE_LOCAL;
    if (pred && restore) {
        ptx_operand_t p[3] = {lw_of_reg(reg), lw_of_reg(word), lw_of_imm(0)};
        lw_emit(lw, PTX_OP_SETP, PTX_U32, p, 1, 2)->cmp = PTX_CMP_NE;
    }
}

static void save(lw_t *lw, const lw_root_t *root, const lw_site_t *s, bool restore)
{
    uint32_t regs = root->reg_end - root->reg_first;
    for (uint32_t r = 0; s->saved != NULL && r < regs; r++) {
        if (cpu_bits_has(s->saved, r)) {
            save_one(lw, root, root->reg_first + r, restore);
        }
    }
}

/* To one target and back. */
static void go(lw_t *lw, lw_root_t *root, const lw_site_t *s, lw_root_t *target)
{
    const ptx_function_t *f = s->body->f;
    const ptx_operand_t *results = ptx_dst(f, s->i, 0), *list = ptx_src(f, s->i, 1);
    for (unsigned n = 0; list->kind == PTX_OPERAND_VECTOR && n < list->count; n++) {
        lw_pass(lw, s->body, ptx_element(f, list, n), target->body, n, root->frame);
    }
    uint32_t back = lw_label(lw);
    lw_mov(lw, PTX_B32, target->selector, lw_of_imm(target->returns.count));
    *(uint32_t *)lw_push(lw, &target->returns, sizeof back, 1) = back;
    move_sp(lw, root, false);
    lw_bra(lw, target->entry);
    lw_here(lw, back);
    move_sp(lw, root, true);
    for (unsigned n = 0; results->kind == PTX_OPERAND_VECTOR && n < results->count; n++) {
        lw_fetch(lw, s->body, ptx_element(f, results, n), target->body, n, root->frame);
    }
}

static void go_indirect(lw_t *lw, lw_root_t *root, const lw_site_t *s)
{
    uint32_t n = s->target_count, bad = lw_label(lw), join = lw_label(lw);
    uint64_t *keys = cpu_arena_alloc(lw->arena, n + 1, sizeof *keys);
    uint32_t *labels = cpu_arena_alloc(lw->arena, n + 1, sizeof *labels);
    for (uint32_t k = 0; k < n; k++) {
        keys[k] = ptx_function_code(lw->module, s->targets[k]);
        labels[k] = lw_label(lw);
    }
    if (n > 0) {
        lw_tree(lw, s->callee_reg, keys, labels, n);
    }
    for (uint32_t k = 0; k < n; k++) {
        uint32_t p = lw_reg(lw, PTX_PRED, "%other");
        ptx_operand_t o[3] = {lw_of_reg(p), lw_of_reg(s->callee_reg), lw_of_imm(keys[k])};
        lw_here(lw, labels[k]);
        unsigned type = lw_reg_bytes(lw, s->callee_reg) == 8 ? PTX_U64 : PTX_U32;
        lw_emit(lw, PTX_OP_SETP, type, o, 1, 2)->cmp = PTX_CMP_NE;
        lw_bra_if(lw, p, false, bad);
        go(lw, root, s, lw->fns[s->targets[k]].root);
        lw_bra(lw, join);
    }
    lw_here(lw, bad);
    trap(lw, PTX_TRAP_PC);
    lw_emit(lw, PTX_OP_EXIT, PTX_TYPE_NONE, NULL, 0, 0);
    lw_here(lw, join);
}

static void expand_call(lw_t *lw, lw_root_t *root, const lw_site_t *s)
{
    lw->line = s->i->line;
    save(lw, root, s, false);
    if (s->callee_reg == PTX_NONE) {
        go(lw, root, s, lw->fns[s->targets[0]].root);
    } else {
        go_indirect(lw, root, s);
    }
    save(lw, root, s, true);
}

/* Is there room for the frame? */
static void check_room(lw_t *lw, const lw_root_t *root)
{
    uint32_t p = lw_reg(lw, PTX_PRED, "%full"), on = lw_label(lw);
    uint64_t last = lw->limit - root->frame;
    ptx_operand_t o[3] = {lw_of_reg(p), lw_of_reg(lw->sp), lw_of_imm(last)};
    lw_emit(lw, PTX_OP_SETP, PTX_U64, o, 1, 2)->cmp = PTX_CMP_LE;
    lw_bra_if(lw, p, false, on);
    trap(lw, PTX_TRAP_STACK);
    lw_emit(lw, PTX_OP_EXIT, PTX_TYPE_NONE, NULL, 0, 0);
    lw_here(lw, on);
}

static void expand_root(lw_t *lw, lw_root_t *root)
{
    if (root->f != lw->kernel) {
        lw->line = root->f->line;
        lw_here(lw, root->entry);
        if (lw->recursion) {
            check_room(lw, root);
        }
    }
    if (root->f == lw->kernel) {
        lw_alloca_begin(lw);
    }
    for (uint32_t n = 0; n < root->code.count && lw->trouble == NULL; n++) {
        const ptx_instr_t *i = lw_at(&root->code, n);
        if (i->op == LW_CALL) {
            expand_call(lw, root, site_of(lw, i));
        } else {
            *(ptx_instr_t *)lw_push(lw, lw->out, sizeof *i, 1) = *i;
        }
    }
}

static void expand_returns(lw_t *lw, lw_root_t *root)
{
    uint32_t n = root->returns.count;
    uint64_t *keys = cpu_arena_alloc(lw->arena, n + 1, sizeof *keys);
    for (uint32_t k = 0; k < n; k++) {
        keys[k] = k;
    }
    lw_here(lw, root->ret);
    if (n > 0) {
        lw_tree(lw, root->selector, keys, root->returns.data, n);
    } else {
        lw_emit(lw, PTX_OP_EXIT, PTX_TYPE_NONE, NULL, 0, 0);
    }
}

void lw_expand(lw_t *lw)
{
    lw_root_t **roots = lw->roots.data;
    for (uint32_t n = 0; n < lw->roots.count; n++) {
        expand_root(lw, roots[n]);
    }
    for (uint32_t n = 1; n < lw->roots.count; n++) {
        expand_returns(lw, roots[n]);
    }
}

#include "gpu-proxy/cpu/lower/lower_state.h"

static bool needs_lowering(const ptx_function_t *f, const ptx_instr_t *i)
{
    switch (i->op) {
    case PTX_OP_CALL:
    case PTX_OP_BRX:
    case PTX_OP_ALLOCA:
    case PTX_OP_STACKSAVE:
    case PTX_OP_STACKRESTORE:
        return true;
    default:
        break;
    }
    for (unsigned n = 0; n < i->src_count; n++) {
        if (ptx_src(f, i, n)->kind == PTX_OPERAND_FUNC) {
            return true;
        }
    }
    return false;
}

bool cpu_lower_needed(const ptx_function_t *f)
{
    for (uint32_t n = 0; n < f->instr_count; n++) {
        if (needs_lowering(f, &f->instrs[n])) {
            return true;
        }
    }
    return false;
}

static void make_root(lw_t *lw, uint32_t index)
{
    lw_root_t *r = cpu_arena_alloc(lw->arena, 1, sizeof *r);
    r->f = &lw->module->functions[index];
    r->fn = &lw->fns[index];
    r->fn->root = r;
    r->entry = lw_label(lw);
    r->ret = lw_label(lw);
    *(lw_root_t **)lw_push(lw, &lw->roots, sizeof r, 1) = r;
}

static void flatten_root(lw_t *lw, lw_root_t *r)
{
    lw->out = &r->code;
    r->reg_first = lw->regs.count;
    r->selector = lw_reg(lw, PTX_B32, "%back");
    r->body = lw_body(lw, r->f, r, 0, 0);
    uint32_t note = r->f->is_kernel ? PTX_NONE : lw_alloca_enter(lw, r->body);
    uint32_t out = note == PTX_NONE ? r->ret : lw_label(lw);
    r->body->ret_label = r->f->is_kernel ? PTX_NONE : out;
    lw_flatten(lw, r->body);
    if (note != PTX_NONE) {
        lw_here(lw, out);
        lw_alloca_leave(lw, note);
        lw_bra(lw, r->ret);
    }
    r->reg_end = lw->regs.count;
}

static void make_roots(lw_t *lw)
{
    make_root(lw, (uint32_t)(lw->kernel - lw->module->functions));
    for (uint32_t n = 0; n < lw->order.count; n++) {
        uint32_t index = ((uint32_t *)lw->order.data)[n];
        if (lw->fns[index].called) {
            make_root(lw, index);
        }
    }
    lw_root_t **roots = lw->roots.data;
    for (uint32_t n = 0; n < lw->roots.count && lw->trouble == NULL; n++) {
        flatten_root(lw, roots[n]);
    }
}

cpu_lowered_t cpu_lower(cpu_arena_t *arena, const ptx_module_t *module,
                        const ptx_function_t *kernel, uint64_t stack_bytes)
{
    lw_t lw = {.arena = arena, .module = module, .kernel = kernel, .stack_bytes = stack_bytes};
    lw_vec_t code = {0};
    lw.sp = lw_reg(&lw, PTX_B64, "%sp");
    lw.ap = lw_reg(&lw, PTX_B64, "%ap");
    lw.ap_end = lw_reg(&lw, PTX_B64, "%ap_end");
    lw_graph(&lw);
    lw_params(&lw);
    if (lw.trouble == NULL) {
        make_roots(&lw);
    }
    if (lw.trouble == NULL) {
        lw_plan(&lw);
        lw.out = &code;
        lw_expand(&lw);
    }
    uint64_t local = lw.limit + (lw.allocates ? lw_stack_room(&lw) : 0);
    if (lw.trouble == NULL && local > UINT32_MAX / 1024) {
        lw_trouble(&lw, "too much local memory");
    }
    if (lw.trouble == NULL) {
        lw_reduce(&lw, &code);
    }
    cpu_lowered_t result = {
        .trouble = lw.trouble, .line = lw.trouble_line, .grows = lw.recursion || lw.allocates};
    if (lw.trouble == NULL) {
        ptx_function_t *f = cpu_arena_alloc(arena, 1, sizeof *f);
        *f = *kernel;
        lw_finish(&lw, &code, f);
        f->local_size = local;
        f->local_align = 16;
        result.f = f;
    }
    return result;
}

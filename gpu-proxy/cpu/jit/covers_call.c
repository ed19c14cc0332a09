/* Coverage of calls: which functions are reached, and whether a call can be lowered. */
#include "gpu-proxy/cpu/jit/gaps.h"

#include <stdlib.h>

typedef struct {
    const ptx_module_t *module;
    uint8_t *reached;
    uint32_t *stack, depth;
    bool all_taken; /* some call is indirect */
} reach_t;

static void reach(reach_t *r, uint32_t index)
{
    uint32_t aliased = r->module->functions[index].aliased;
    index = aliased != 0 ? aliased - 1 : index;
    if (!r->reached[index] && r->module->functions[index].defined) {
        r->reached[index] = 1;
        r->stack[r->depth++] = index;
    }
}

/* Callees are functions that are called or whose address is taken. */
static void reach_all(reach_t *r)
{
    while (r->depth > 0) {
        const ptx_function_t *f = &r->module->functions[r->stack[--r->depth]];
        for (uint32_t n = 0; n < f->callee_count; n++) {
            reach(r, f->callees[n]);
        }
        if (f->calls_indirect && !r->all_taken) {
            r->all_taken = true;
            for (uint32_t n = 0; n < r->module->reloc_count; n++) {
                if (r->module->relocs[n].function != PTX_NONE) {
                    reach(r, r->module->relocs[n].function);
                }
            }
        }
    }
}

uint8_t *cpu_reached_functions(const ptx_module_t *module)
{
    reach_t r = {.module = module};
    r.reached = calloc(module->function_count + 1, 1);
    r.stack = calloc(module->function_count + 1, sizeof *r.stack);
    if (r.reached == NULL || r.stack == NULL) {
        free(r.reached);
        free(r.stack);
        return NULL;
    }
    for (uint32_t n = 0; n < module->function_count; n++) {
        if (module->functions[n].is_kernel) {
            reach(&r, n);
        }
    }
    reach_all(&r);
    free(r.stack);
    return r.reached;
}

bool cpu_is_argument(const ptx_function_t *f, const ptx_instr_t *i)
{
    (void)f;
    return i->op == PTX_OP_ST && i->space == PTX_SPACE_PARAM;
}

/* A thread's local memory begins at multiples of 16, no more. */
bool cpu_alloca_covered(const ptx_function_t *f, const ptx_instr_t *i)
{
    if (i->src_count < 2) {
        return true;
    }
    const ptx_operand_t *align = ptx_src(f, i, 1);
    return align->kind == PTX_OPERAND_IMM && align->value != 0 && align->value <= 16 &&
           (align->value & (align->value - 1)) == 0;
}

static unsigned arguments(const ptx_operand_t *list)
{
    return list->kind == PTX_OPERAND_VECTOR ? list->count : 0;
}

/* Arguments are variables of the function itself: not a kernel's parameters, nor anybody else's. */
static bool own_variables(const ptx_module_t *module, const ptx_function_t *f,
                          const ptx_operand_t *list)
{
    for (unsigned n = 0; n < arguments(list); n++) {
        const ptx_operand_t *o = ptx_element(f, list, n);
        if (o->kind != PTX_OPERAND_VAR) {
            continue;
        }
        uint32_t owner = module->vars[o->index].owner;
        if (owner == PTX_NONE || module->functions[owner].instrs != f->instrs ||
            (f->is_kernel && o->index >= f->param_first &&
             o->index - f->param_first < f->param_count)) {
            return false;
        }
    }
    return true;
}

bool cpu_call_covered(const ptx_module_t *module, const ptx_function_t *f, const ptx_instr_t *i)
{
    if (i->op != PTX_OP_CALL) {
        return i->type != PTX_B128;
    }
    const ptx_operand_t *callee = ptx_src(f, i, 0);
    if (!own_variables(module, f, ptx_src(f, i, 1)) ||
        !own_variables(module, f, ptx_dst(f, i, 0))) {
        return false;
    }
    if (callee->kind != PTX_OPERAND_FUNC) {
        return true;
    }
    const ptx_function_t *t = &module->functions[callee->index];
    if (t->defined) {
        return arguments(ptx_src(f, i, 1)) == t->param_count &&
               arguments(ptx_dst(f, i, 0)) == t->result_count;
    }
    switch (ptx_runtime_by_name(t->name)) {
    case PTX_RT_VPRINTF:
        return arguments(ptx_src(f, i, 1)) == 2;
    case PTX_RT_ASSERTFAIL:
        return arguments(ptx_src(f, i, 1)) == 5;
    case PTX_RT_MALLOC:
    case PTX_RT_FREE:
        return arguments(ptx_src(f, i, 1)) == 1;
    default:
        return false;
    }
}

#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_parser.h"

/* Walks the calls from one kernel. Steps are counted over all kernels: a text can make the sum of
 * these walks quadratic. */
enum { MAX_STEPS = 50 << 20 };

typedef struct {
    ptx_parser_t *p;
    uint32_t *seen_functions; /* kernel + 1 */
    uint32_t *seen_vars;
    uint32_t *stack;
    uint32_t depth;
    ptx_vec_t vars; /* uint32_t: shared variables of this kernel */
    uint64_t steps;
} walk_t;

static void visit(walk_t *w, uint32_t kernel, uint32_t function)
{
    if (w->seen_functions[function] == kernel + 1)
        return;
    w->seen_functions[function] = kernel + 1;
    w->stack[w->depth++] = function;
}

static bool take_vars(walk_t *w, uint32_t kernel, uint32_t function)
{
    const ptx_shared_use_t *use = (const ptx_shared_use_t *)w->p->shared_uses.data + function;
    for (uint32_t i = 0; i < use->count; i++) {
        if (w->seen_vars[use->vars[i]] == kernel + 1)
            continue;
        w->seen_vars[use->vars[i]] = kernel + 1;
        uint32_t *own = ptx_vec_push(&w->vars, sizeof *own, 1);
        if (!own)
            return ptx_p_no_memory(w->p);
        *own = use->vars[i];
    }
    w->steps += use->count;
    return true;
}

static bool collect(walk_t *w, uint32_t kernel)
{
    w->vars.count = 0;
    w->depth = 0;
    visit(w, kernel, kernel);
    while (w->depth > 0) {
        uint32_t function = w->stack[--w->depth];
        const ptx_function_t *f = ptx_p_function(w->p, function);
        if (!take_vars(w, kernel, function))
            return false;
        for (uint32_t i = 0; i < f->callee_count; i++)
            visit(w, kernel, f->callees[i]);
        w->steps += f->callee_count + 1;
        if (f->calls_indirect) {
            w->steps += w->p->taken.count;
            for (uint32_t i = 0; i < w->p->taken.count; i++)
                visit(w, kernel, ((const uint32_t *)w->p->taken.data)[i]);
        }
        if (w->steps > MAX_STEPS)
            return ptx_p_fail(w->p, GB_ERR_LIMIT, ptx_p_function(w->p, kernel)->line,
                              "too many calls between functions");
    }
    return true;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static bool layout(walk_t *w, uint32_t kernel)
{
    ptx_function_t *f = ptx_p_function(w->p, kernel);
    const uint32_t *vars = w->vars.data;
    ptx_shared_slot_t *slots = ptx_arena_alloc(w->p->arena, w->vars.count * sizeof *slots);
    if (!slots)
        return ptx_p_no_memory(w->p);
    f->shared_align = 16;
    f->dynamic_align = 16;
    if (w->vars.count)
        qsort(w->vars.data, w->vars.count, sizeof *vars, by_number);
    for (uint32_t i = 0; i < w->vars.count; i++) {
        const ptx_var_t *var = ptx_p_var(w->p, vars[i]);
        slots[i].var = vars[i];
        if (var->dynamic) {
            f->uses_dynamic_shared = true;
            if (f->dynamic_align < var->align)
                f->dynamic_align = var->align;
        } else if (!ptx_p_layout(&f->shared_size, &f->shared_align, var->size, var->align,
                                 UINT32_MAX, &slots[i].offset)) {
            return ptx_p_fail(w->p, GB_ERR_LIMIT, f->line, "'%s' has too much shared memory",
                              f->name);
        }
    }
    if (w->p->reserved != 0 && w->seen_vars[w->p->reserved - 1] == kernel + 1)
        f->shared_reserved = PTX_RESERVED_SHARED;
    uint64_t dynamic = (f->shared_size + f->dynamic_align - 1) & ~(uint64_t)(f->dynamic_align - 1);
    for (uint32_t i = 0; i < w->vars.count; i++) {
        if (ptx_p_var(w->p, vars[i])->dynamic)
            slots[i].offset = dynamic;
    }
    f->shared = slots;
    f->shared_count = w->vars.count;
    return true;
}

static bool walk_kernels(walk_t *w)
{
    for (uint32_t i = 0; i < w->p->functions.count; i++) {
        const ptx_function_t *f = ptx_p_function(w->p, i);
        if (f->is_kernel && f->defined && (!collect(w, i) || !layout(w, i)))
            return false;
    }
    return true;
}

bool ptx_p_layout_shared(ptx_parser_t *p)
{
    uint32_t functions = p->functions.count, vars = p->vars.count;
    walk_t w = {.p = p};
    w.seen_functions = calloc(functions + 1, sizeof(uint32_t));
    w.seen_vars = calloc(vars + 1, sizeof(uint32_t));
    w.stack = calloc(functions + 1, sizeof(uint32_t));
    bool ok = (w.seen_functions && w.seen_vars && w.stack) || ptx_p_no_memory(p);
    ok = ok && walk_kernels(&w);
    free(w.seen_functions);
    free(w.seen_vars);
    free(w.stack);
    ptx_vec_free(&w.vars);
    return ok;
}

uint64_t ptx_shared_offset(const ptx_module_t *m, const ptx_function_t *kernel, uint32_t var)
{
    (void)m;
    uint32_t low = 0, high = kernel->shared_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (kernel->shared[mid].var == var)
            return kernel->shared[mid].offset;
        if (kernel->shared[mid].var < var)
            low = mid + 1;
        else
            high = mid;
    }
    return UINT64_MAX;
}

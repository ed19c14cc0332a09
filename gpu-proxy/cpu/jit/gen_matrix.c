/* wmma, mma, ldmatrix, stmatrix and movmatrix: registers to slots, the helper, and back. The matrices
 * of a warp are in its registers lane by lane: to work on them they are put side by side in memory. */
#include "gpu-proxy/cpu/jit/gen_packet.h"
#include "gpu-proxy/cpu/jit/matrix.h"

static void put_all(cpu_gen_t *gen, unsigned slot, const ptx_operand_t *o, unsigned count,
                    uint32_t elem)
{
    for (unsigned n = 0; n < count; n++) {
        gen_packet_put(gen, slot + n, gen_packet_element(gen, o, n),
                       elem == CPU_ELEM_F64 ? PTX_B64 : PTX_B32);
    }
}

static void get_all(cpu_gen_t *gen, unsigned slot, const ptx_operand_t *o, unsigned count,
                    uint32_t elem)
{
    for (unsigned n = 0; n < count; n++) {
        gen_packet_get(gen, slot + n, gen_packet_element(gen, o, n),
                       elem == CPU_ELEM_F64 ? 64 : 32);
    }
}

static void call(cpu_gen_t *gen, const cpu_matrix_t *x)
{
    gen_packet_call(gen, offsetof(cpu_helpers_t, matrix), x, sizeof *x);
}

typedef struct {
    const cpu_gen_t *gen;
    const ptx_operand_t *o;
    bool hit;
} written_t;

static void look_at(void *context, uint32_t reg)
{
    written_t *w = context;
    unsigned n = w->o->kind == PTX_OPERAND_VECTOR ? w->o->count : 1;
    for (unsigned k = 0; k < n; k++) {
        const ptx_operand_t *e =
            w->o->kind == PTX_OPERAND_VECTOR ? ptx_element(w->gen->f, w->o, k) : w->o;
        w->hit |= e->index == reg;
    }
}

static bool same_registers(const cpu_gen_t *gen, const ptx_operand_t *x, const ptx_operand_t *y)
{
    if (x->kind != y->kind || (x->kind == PTX_OPERAND_VECTOR && x->count != y->count)) {
        return false;
    }
    for (unsigned k = 0; x->kind == PTX_OPERAND_VECTOR && k < x->count; k++) {
        if (ptx_element(gen->f, x, k)->index != ptx_element(gen->f, y, k)->index) {
            return false;
        }
    }
    return x->kind == PTX_OPERAND_VECTOR || x->index == y->index;
}

/* Is source n the one of the product before, unchanged since? The product before is in the same
 * straight piece of code if it is in the same node and of the same strip, and nothing branches around
 * it. */
static bool is_kept(const cpu_gen_t *gen, unsigned n)
{
    const ptx_instr_t *last = gen->product;
    if (last == NULL || gen->product_node != gen->node || gen->product_masked != gen->masked ||
        gen->product_g != gen->g || last >= gen->i ||
        !same_registers(gen, ptx_src(gen->f, last, n), ptx_src(gen->f, gen->i, n))) {
        return false;
    }
    written_t w = {.gen = gen, .o = ptx_src(gen->f, gen->i, n)};
    for (const ptx_instr_t *i = last; i < gen->i; i++) {
        cpu_visit_defs(gen->f, i, look_at, &w);
    }
    return !w.hit;
}

static void note_product(cpu_gen_t *gen, const cpu_matrix_t *x)
{
    bool through_f32 = x->op == CPU_MATRIX_MMA && x->a != CPU_ELEM_F64 && x->a != CPU_ELEM_B1;
    gen->product = through_f32 && gen->i->guard == PTX_NONE && gen->G == 1 ? gen->i : NULL;
    gen->product_node = gen->node;
    gen->product_masked = gen->masked;
    gen->product_g = gen->g;
}

static bool same_types(const cpu_matrix_t *x, const cpu_matrix_t *y)
{
    return x->op == y->op && x->m == y->m && x->n == y->n && x->k == y->k && x->a == y->a &&
           x->b == y->b;
}

static void multiply(cpu_gen_t *gen, cpu_matrix_t *x)
{
    const ptx_instr_t *i = gen->i;
    cpu_matrix_t before;
    if (gen->product != NULL && cpu_matrix_parse(gen->f, gen->product, &before) &&
        same_types(&before, x)) {
        x->keep_a = is_kept(gen, 0);
        x->keep_b = is_kept(gen, 1);
    }
    if (!x->keep_a) {
        put_all(gen, CPU_MATRIX_A, ptx_src(gen->f, i, 0), x->a_regs, x->a);
    }
    if (!x->keep_b) {
        put_all(gen, CPU_MATRIX_B, ptx_src(gen->f, i, 1), x->b_regs, x->b);
    }
    put_all(gen, CPU_MATRIX_C, ptx_src(gen->f, i, 2), x->c_regs, x->c);
    call(gen, x);
    note_product(gen, x);
    get_all(gen, CPU_MATRIX_D, ptx_dst(gen->f, i, 0), x->d_regs, x->d);
}

static void touch_memory(cpu_gen_t *gen, const cpu_matrix_t *x)
{
    const ptx_instr_t *i = gen->i;
    bool store = x->op == CPU_MATRIX_STORE || x->op == CPU_MATRIX_STMATRIX;
    gen_packet_put_address(gen, CPU_MATRIX_ADDRESS, ptx_src(gen->f, i, 0));
    if (x->has_stride) {
        gen_packet_put(gen, CPU_MATRIX_STRIDE, ptx_src(gen->f, i, store ? 2 : 1), PTX_U32);
    }
    if (store) {
        put_all(gen, 0, ptx_src(gen->f, i, 1), x->a_regs, x->a);
    }
    call(gen, x);
    if (!store) {
        get_all(gen, 0, ptx_dst(gen->f, i, 0), x->a_regs, x->a);
    }
}

void gen_matrix(cpu_gen_t *gen)
{
    cpu_matrix_t x;
    if (!cpu_matrix_parse(gen->f, gen->i, &x)) {
        gen_fail(gen, gen->i->mnemonic);
        return;
    }
    switch (x.op) {
    case CPU_MATRIX_MMA:
    case CPU_MATRIX_QUADS:
        multiply(gen, &x);
        break;
    case CPU_MATRIX_MOVE:
        put_all(gen, CPU_MATRIX_A, ptx_src(gen->f, gen->i, 0), 1, CPU_ELEM_F16);
        call(gen, &x);
        get_all(gen, CPU_MATRIX_D, ptx_dst(gen->f, gen->i, 0), 1, CPU_ELEM_F16);
        break;
    default:
        touch_memory(gen, &x);
    }
}

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

static void multiply(cpu_gen_t *gen, const cpu_matrix_t *x)
{
    const ptx_instr_t *i = gen->i;
    put_all(gen, CPU_MATRIX_A, ptx_src(gen->f, i, 0), x->a_regs, x->a);
    put_all(gen, CPU_MATRIX_B, ptx_src(gen->f, i, 1), x->b_regs, x->b);
    put_all(gen, CPU_MATRIX_C, ptx_src(gen->f, i, 2), x->c_regs, x->c);
    call(gen, x);
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

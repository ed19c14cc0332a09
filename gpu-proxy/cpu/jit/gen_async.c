/* cp.async, cp.async.bulk and mbarrier: operands for the helper (helpers_async.c). */
#include "gpu-proxy/cpu/jit/gen_packet.h"

static void put_address(cpu_gen_t *gen, unsigned slot, unsigned n)
{
    gen_packet_put_address(gen, slot, ptx_src(gen->f, gen->i, n));
}

static void put(cpu_gen_t *gen, unsigned slot, unsigned n, unsigned type)
{
    gen_packet_put(gen, slot, ptx_src(gen->f, gen->i, n), type);
}

static void copy_operands(cpu_gen_t *gen, const cpu_async_t *w)
{
    put_address(gen, CPU_ASYNC_SLOT_A, 0);
    put_address(gen, CPU_ASYNC_SLOT_B, 1);
    if (w->op != CPU_ASYNC_COPY) {
        put(gen, CPU_ASYNC_SLOT_SIZE, 2, PTX_U32);
    } else if (w->flags & CPU_ASYNC_HAS_SIZE) {
        put(gen, CPU_ASYNC_SLOT_SIZE, 3, PTX_U32);
    } else if (w->flags & CPU_ASYNC_HAS_IGNORE) {
        put(gen, CPU_ASYNC_SLOT_IGNORE, 3, PTX_PRED);
    }
    if (w->flags & CPU_ASYNC_HAS_BARRIER) {
        put_address(gen, CPU_ASYNC_SLOT_BARRIER, 3);
    }
}

static void mbarrier_operands(cpu_gen_t *gen, const cpu_async_t *w)
{
    if (w->op == CPU_MBARRIER_PENDING) {
        put(gen, CPU_ASYNC_SLOT_STATE, 0, PTX_U64);
        return;
    }
    put_address(gen, CPU_ASYNC_SLOT_A, 0);
    if (w->flags & (CPU_ASYNC_HAS_SIZE | CPU_ASYNC_PARITY)) {
        put(gen, CPU_ASYNC_SLOT_SIZE, 1, PTX_U32);
    } else if (w->op == CPU_MBARRIER_TEST) {
        put(gen, CPU_ASYNC_SLOT_STATE, 1, PTX_U64);
    }
}

void gen_asynchronous(cpu_gen_t *gen)
{
    const ptx_instr_t *i = gen->i;
    cpu_async_t w;
    if (!cpu_async_parse(gen->f, i, &w)) {
        gen_fail(gen, i->mnemonic);
        return;
    }
    if (w.op == CPU_ASYNC_NOTHING) {
        return;
    }
    if (w.op == CPU_ASYNC_COPY || w.op == CPU_ASYNC_BULK || w.op == CPU_ASYNC_REDUCE) {
        copy_operands(gen, &w);
    } else {
        mbarrier_operands(gen, &w);
    }
    gen_packet_call(gen, offsetof(cpu_helpers_t, async), &w, sizeof w);
    if (i->dst_count == 0) {
        return;
    }
    const ptx_operand_t *d = ptx_dst(gen->f, i, 0);
    if (w.op == CPU_MBARRIER_TEST) {
        gen_packet_get_pred(gen, CPU_ASYNC_SLOT_RESULT, d);
    } else if (w.op == CPU_MBARRIER_PENDING) {
        gen_packet_get(gen, CPU_ASYNC_SLOT_RESULT, d, 32);
    } else if (w.op == CPU_MBARRIER_ARRIVE) {
        gen_packet_get(gen, CPU_ASYNC_SLOT_STATE, d, 64);
    }
}

/* Instructions for which the lanes of a warp meet, thread by thread (W = 1): what the thread brings goes
 * to its context, and what it gets comes from there; exchange.c does the rest. */
#include "gpu-proxy/cpu/jit/exchange.h"
#include "gpu-proxy/cpu/jit/gen_state.h"

static val_t place(cpu_gen_t *gen, size_t offset)
{
    return gen_context_at(gen, sizeof(cpu_context_head_t) + offset);
}

static void put(cpu_gen_t *gen, size_t offset, val_t v)
{
    LLVMBuildStore(gen->b, v, place(gen, offset));
}

static void put_value(cpu_gen_t *gen, unsigned type)
{
    val_t v = gen_src(gen, 0, type, false);
    if (type != PTX_PRED) {
        v = gen_bitcast(gen, v, gen_int(gen, ptx_type_size((ptx_type_t)type) * 8));
    }
    put(gen, offsetof(cpu_exchange_t, value), LLVMBuildZExt(gen->b, v, gen->i64, ""));
}

void gen_exchange_stop(cpu_gen_t *gen, const ptx_instr_t *i)
{
    unsigned members = 0;
    bool sync = cpu_instr_syncs_warp(i, &members);
    gen->i = i;
    gen->g = 0;
    uint32_t what = cpu_exchange_pack(i->op, i->mode, i->type, sync);
    put(gen, offsetof(cpu_exchange_t, node), LLVMConstInt(gen->i32, gen->node, 0));
    put(gen, offsetof(cpu_exchange_t, what), LLVMConstInt(gen->i32, what, 0));
    put(gen, offsetof(cpu_exchange_t, members),
        sync ? gen_src(gen, members, PTX_U32, false) : LLVMConstInt(gen->i32, UINT32_MAX, 0));
    switch (i->op) {
    case PTX_OP_SHFL:
        put_value(gen, PTX_B32);
        put(gen, offsetof(cpu_exchange_t, b), gen_src(gen, 1, PTX_U32, false));
        put(gen, offsetof(cpu_exchange_t, c), gen_src(gen, 2, PTX_U32, false));
        break;
    case PTX_OP_VOTE:
        put_value(gen, PTX_PRED);
        break;
    case PTX_OP_MATCH:
    case PTX_OP_REDUX:
        put_value(gen, i->type);
        break;
    default:
        break;
    }
}

static unsigned result_type(const ptx_instr_t *i)
{
    switch (i->op) {
    case PTX_OP_VOTE:
        return i->mode == PTX_VOTE_BALLOT ? PTX_B32 : PTX_PRED;
    case PTX_OP_REDUX:
        return i->type;
    default:
        return PTX_B32;
    }
}

void gen_exchange_take(cpu_gen_t *gen, const ptx_instr_t *i)
{
    gen->i = i;
    gen->g = 0;
    gen->mask = gen->guard = NULL;
    if (i->dst_count > 0) {
        val_t v =
            LLVMBuildLoad2(gen->b, gen->i64, place(gen, offsetof(cpu_exchange_t, result)), "");
        unsigned type = result_type(i);
        v = LLVMBuildTrunc(gen->b, v, type == PTX_PRED ? gen->i1 : gen->i32, "");
        gen_write(gen, ptx_dst(gen->f, i, 0), v, type);
    }
    if (i->dst_count > 1) {
        val_t v = LLVMBuildLoad2(gen->b, gen->i32, place(gen, offsetof(cpu_exchange_t, flag)), "");
        gen_write(gen, ptx_dst(gen->f, i, 1), LLVMBuildTrunc(gen->b, v, gen->i1, ""), PTX_PRED);
    }
}

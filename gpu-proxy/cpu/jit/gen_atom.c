/* Atomic operations that are not done in line (gen_atom_fast.c): a helper goes through the active
 * lanes in order. */
#include "gpu-proxy/cpu/jit/gen_packet.h"

#define B gen->b

static unsigned plain_type(unsigned type)
{
    switch (ptx_type_size((ptx_type_t)type)) {
    case 2:
        return PTX_U16;
    case 4:
        return PTX_U32;
    default:
        return PTX_U64;
    }
}

/* A source as 64-bit lanes in the buffer, zero-extended. */
static void store_source(cpu_gen_t *gen, const ptx_operand_t *o, unsigned type, uint64_t offset)
{
    bool vec = gen->W > 1;
    val_t v = gen_read(gen, o, type, vec);
    unsigned bits = ptx_type_size((ptx_type_t)type) * 8;
    v = gen_bitcast(gen, v, gen_int(gen, bits));
    if (bits < 64) {
        v = LLVMBuildZExt(B, v, gen_shape(gen, gen->i64, vec), "");
    }
    LLVMSetAlignment(LLVMBuildStore(B, v, gen_buffer(gen, offset)), 64);
}

void gen_atomic(cpu_gen_t *gen)
{
    const ptx_instr_t *i = gen->i;
    cpu_rare_t rare;
    if (cpu_atomic_rare(i, &rare)) {
        gen_atomic_rare(gen, &rare);
        return;
    }
    if (gen_atomic_fast(gen)) {
        return;
    }
    bool compares = i->mode == PTX_ATOM_CAS; /* what else follows is a cache policy */
    gen_addr_t a = gen_address(gen, ptx_src(gen->f, i, 0), i->type, 1, true);
    val_t addresses = gen_addresses(gen, &a);
    LLVMSetAlignment(LLVMBuildStore(B, addresses, gen_buffer(gen, BUFFER_ADDRESSES)), 64);
    store_source(gen, ptx_src(gen->f, i, 1), i->type, BUFFER_A);
    if (compares) {
        store_source(gen, ptx_src(gen->f, i, 2), i->type, BUFFER_B);
    }
    type_t params[9] = {gen->ptr, gen->ptr, gen->i32, gen->i32, gen->i32,
                        gen->i32, gen->ptr, gen->ptr, gen->ptr};
    type_t type = LLVMFunctionType(gen->i32, params, 9, 0);
    val_t args[9] = {gen->launch,
                     gen_buffer(gen, BUFFER_ADDRESSES),
                     gen_mask_i32(gen),
                     LLVMConstInt(gen->i32, gen_access(&a), 0),
                     gen_strip_number(gen, gen->g),
                     LLVMConstInt(gen->i32, cpu_atomic_pack(i->mode, i->type), 0),
                     gen_buffer(gen, BUFFER_A),
                     gen_buffer(gen, BUFFER_B),
                     gen_buffer(gen, BUFFER_OLD)};
    val_t st = gen_helper(gen, offsetof(cpu_helpers_t, atomic), &type, args, 9);
    gen_return_if(gen, LLVMBuildICmp(B, LLVMIntSLT, st, gen_like(st, 0), ""), st);
    if (i->op == PTX_OP_RED || i->dst_count == 0) {
        return;
    }
    bool vec = gen->W > 1;
    val_t old = LLVMBuildLoad2(B, gen_shape(gen, gen->i64, vec), gen_buffer(gen, BUFFER_OLD), "");
    LLVMSetAlignment(old, 64);
    unsigned bits = ptx_type_size((ptx_type_t)i->type) * 8;
    if (bits < 64) {
        old = LLVMBuildTrunc(B, old, gen_shape(gen, gen_int(gen, bits), vec), "");
    }
    gen_write(gen, ptx_dst(gen->f, i, 0), old, plain_type(i->type));
}

/* Calls of helpers that do an instruction for a whole strip: operands to slots, results from them. */
#include "gpu-proxy/cpu/jit/gen_packet.h"

#include <string.h>

#define B gen->b

static val_t slot(cpu_gen_t *gen, unsigned n)
{
    if (gen->packet == NULL) {
        type_t room = LLVMArrayType2(gen->i8, CPU_PACKET_SLOTS * CPU_PACKET_SLOT + CPU_PACKET_KEPT);
        gen->packet = gen_alloca(gen, room, 64);
    }
    return gen_offset(gen, gen->packet, (uint64_t)n * CPU_PACKET_SLOT);
}

static void store(cpu_gen_t *gen, unsigned n, val_t v)
{
    LLVMSetAlignment(LLVMBuildStore(B, v, slot(gen, n)), 64);
}

void gen_packet_put(cpu_gen_t *gen, unsigned n, const ptx_operand_t *o, unsigned ptx_type)
{
    val_t v = gen_read(gen, o, ptx_type, gen->W > 1);
    if (ptx_type == PTX_PRED) {
        v = LLVMBuildZExt(B, v, gen_shape(gen, gen->i32, gen->W > 1), "");
    }
    store(gen, n, v);
}

void gen_packet_put_wide(cpu_gen_t *gen, unsigned n, const ptx_operand_t *o)
{
    val_t v = gen_read(gen, o, PTX_B128, gen->W > 1);
    type_t half = gen_shape(gen, gen->i64, gen->W > 1);
    store(gen, n, LLVMBuildTrunc(B, v, half, ""));
    v = LLVMBuildLShr(B, v, gen_like(v, 64), "");
    store(gen, n + 1, LLVMBuildTrunc(B, v, half, ""));
}

void gen_packet_put_address(cpu_gen_t *gen, unsigned n, const ptx_operand_t *o)
{
    gen_addr_t a = {.o = o};
    store(gen, n, gen_addresses(gen, &a));
}

void gen_packet_call(cpu_gen_t *gen, size_t helper, const void *what, size_t bytes)
{
    uint32_t words[64];
    val_t all[64];
    unsigned count = (unsigned)(bytes / sizeof *words);
    memcpy(words, what, bytes);
    for (unsigned n = 0; n < count; n++) {
        all[n] = LLVMConstInt(gen->i32, words[n], 0);
    }
    val_t value = LLVMConstArray2(gen->i32, all, count);
    val_t global = LLVMAddGlobal(gen->module, LLVMTypeOf(value), "packet");
    LLVMSetInitializer(global, value);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    LLVMSetGlobalConstant(global, 1);
    LLVMSetUnnamedAddress(global, LLVMGlobalUnnamedAddr);
    type_t params[5] = {gen->ptr, gen->ptr, gen->i32, gen->i32, gen->ptr};
    type_t type = LLVMFunctionType(gen->i32, params, 5, 0);
    val_t args[5] = {gen->launch, global, gen_mask_i32(gen), gen_strip_number(gen, gen->g),
                     slot(gen, 0)};
    val_t st = gen_helper(gen, helper, &type, args, 5);
    gen_return_if(gen, LLVMBuildICmp(B, LLVMIntSLT, st, gen_like(st, 0), ""), st);
}

/* `lanes` lanes from slot n on. Volatile: see load(). */
static val_t load_part(cpu_gen_t *gen, unsigned n, unsigned bits, unsigned first, unsigned lanes)
{
    type_t element = gen_int(gen, bits), t = gen->W > 1 ? LLVMVectorType(element, lanes) : element;
    val_t v = LLVMBuildLoad2(B, t, gen_offset(gen, slot(gen, n), (uint64_t)first * bits / 8), "");
    LLVMSetAlignment(v, lanes * bits / 8 < 64 ? lanes * bits / 8 : 64);
    LLVMSetVolatile(v, 1);
    return v;
}

/* A helper stores 32 bytes at a time, and a load that is wider than the store before it waits until that
 * has left the store buffer. So such loads are not wider either, and kept from being joined. */
static val_t load(cpu_gen_t *gen, unsigned n, unsigned bits)
{
    unsigned lanes = 256 / bits;
    if (gen->W <= lanes) {
        return load_part(gen, n, bits, 0, gen->W);
    }
    val_t parts[8];
    unsigned count = gen->W / lanes;
    for (unsigned k = 0; k < count; k++) {
        parts[k] = load_part(gen, n, bits, k * lanes, lanes);
    }
    for (; count > 1; count /= 2, lanes *= 2) {
        uint32_t at[32];
        for (unsigned l = 0; l < 2 * lanes; l++) {
            at[l] = l;
        }
        for (unsigned k = 0; k < count / 2; k++) {
            parts[k] = LLVMBuildShuffleVector(B, parts[2 * k], parts[2 * k + 1],
                                              gen_iota(gen, at, 2 * lanes), "");
        }
    }
    return parts[0];
}

void gen_packet_get(cpu_gen_t *gen, unsigned n, const ptx_operand_t *dst, unsigned bits)
{
    static const uint8_t types[5] = {PTX_U8, PTX_U16, PTX_U32, PTX_TYPE_NONE, PTX_U64};
    gen_write(gen, dst, load(gen, n, bits), types[bits / 16]);
}

void gen_packet_get_pred(cpu_gen_t *gen, unsigned n, const ptx_operand_t *dst)
{
    val_t v = load(gen, n, 32);
    gen_write(gen, dst, LLVMBuildICmp(B, LLVMIntNE, v, gen_like(v, 0), ""), PTX_PRED);
}

void gen_packet_get_wide(cpu_gen_t *gen, unsigned n, const ptx_operand_t *dst)
{
    type_t wide = gen_shape(gen, gen_int(gen, 128), gen->W > 1);
    val_t low = LLVMBuildZExt(B, load(gen, n, 64), wide, "");
    val_t high = LLVMBuildZExt(B, load(gen, n + 1, 64), wide, "");
    high = LLVMBuildShl(B, high, gen_like(high, 64), "");
    gen_write(gen, dst, LLVMBuildOr(B, low, high, ""), PTX_B128);
}

const ptx_operand_t *gen_packet_element(cpu_gen_t *gen, const ptx_operand_t *o, unsigned n)
{
    return o->kind == PTX_OPERAND_VECTOR ? ptx_element(gen->f, o, n) : o;
}

/* ---- atomic operations of rare types ---- */

void gen_atomic_rare(cpu_gen_t *gen, const cpu_rare_t *w)
{
    const ptx_instr_t *i = gen->i;
    bool wide = w->type == PTX_B128, old = i->op == PTX_OP_ATOM && i->dst_count > 0;
    unsigned bits = ptx_type_size((ptx_type_t)w->type) * 8;
    gen_packet_put_address(gen, 0, ptx_src(gen->f, i, 0));
    for (unsigned s = 1; s <= (w->mode == PTX_ATOM_CAS ? 2 : 1); s++) {
        unsigned first = s == 1 ? CPU_RARE_A : CPU_RARE_B;
        const ptx_operand_t *o = ptx_src(gen->f, i, s);
        if (wide) {
            gen_packet_put_wide(gen, first, o);
        }
        for (unsigned n = 0; !wide && n < w->count; n++) {
            gen_packet_put(gen, first + n, gen_packet_element(gen, o, n), w->type);
        }
    }
    gen_packet_call(gen, offsetof(cpu_helpers_t, atomic_rare), w, sizeof *w);
    if (old && wide) {
        gen_packet_get_wide(gen, CPU_RARE_OLD, ptx_dst(gen->f, i, 0));
    }
    for (unsigned n = 0; old && !wide && n < w->count; n++) {
        const ptx_operand_t *d = gen_packet_element(gen, ptx_dst(gen->f, i, 0), n);
        gen_packet_get(gen, CPU_RARE_OLD + n, d, bits);
    }
}

/* What lanes of a warp find out together: votes, matches, reductions, elections. A strip is a warp here
 * (W = 32). Those lanes meet that execute the instruction together and name each other as members. */
#include "gpu-proxy/cpu/jit/gen.h"

#define B gen->b

enum { LANES = 32 };

/* What a set of members gets: the same for each of them. */
typedef struct {
    val_t value; /* i32; of votes other than ballot i1 */
    val_t flag;  /* i1: match's predicate; or NULL */
} finding_t;

/* What the members of `m` (i32) find out of what the lanes bring. */
typedef finding_t (*find_t)(cpu_gen_t *gen, val_t brought, val_t m);

static val_t lowest(cpu_gen_t *gen, val_t bits)
{
    val_t args[2] = {bits, LLVMConstInt(gen->i1, 0, 0)};
    val_t n = gen_call(gen, "llvm.cttz", &gen->i32, 1, args, 2);
    return LLVMBuildAnd(B, n, gen_like(n, LANES - 1), "");
}

/* `brought`: the lanes' predicates as bits. */
static finding_t vote(cpu_gen_t *gen, val_t brought, val_t m)
{
    val_t yes = LLVMBuildAnd(B, brought, m, "");
    val_t all = LLVMBuildICmp(B, LLVMIntEQ, yes, m, "");
    val_t any = LLVMBuildICmp(B, LLVMIntNE, yes, gen_like(yes, 0), "");
    switch (gen->i->mode) {
    case PTX_VOTE_BALLOT:
        return (finding_t){yes, NULL};
    case PTX_VOTE_ALL:
        return (finding_t){all, NULL};
    case PTX_VOTE_ANY:
        return (finding_t){any, NULL};
    default:
        return (finding_t){LLVMBuildOr(B, all, LLVMBuildNot(B, any, ""), ""), NULL};
    }
}

static finding_t match_all(cpu_gen_t *gen, val_t v, val_t m)
{
    val_t first = LLVMBuildExtractElement(B, v, lowest(gen, m), "");
    val_t same = LLVMBuildICmp(B, LLVMIntEQ, v, gen_splat(gen, first), "");
    val_t bits = LLVMBuildAnd(B, gen_bits(gen, same), m, "");
    val_t all = LLVMBuildICmp(B, LLVMIntEQ, bits, m, "");
    return (finding_t){LLVMBuildSelect(B, all, m, gen_like(m, 0), ""), all};
}

/* Min or max of f32: as integers that order as the floats do. Without .NaN a NaN counts only if there is
 * nothing else; then, and with .NaN if there is one, the result is PTX's canonical NaN. */
static finding_t reduce_f32(cpu_gen_t *gen, val_t v, val_t m)
{
    enum { CANONICAL = 0x7fffffff };
    const ptx_instr_t *i = gen->i;
    bool max = i->mode == PTX_ATOM_MAX;
    val_t lanes = gen_from_bits(gen, m), magnitude = LLVMBuildAnd(B, v, gen_like(v, CANONICAL), "");
    val_t nan = LLVMBuildICmp(B, LLVMIntUGT, magnitude, gen_like(v, 0x7f800000), "");
    v = i->flags & PTX_F_ABS ? magnitude : v;
    val_t sign = LLVMBuildAShr(B, v, gen_like(v, 31), "");
    val_t key = LLVMBuildXor(B, v, LLVMBuildAnd(B, sign, gen_like(v, CANONICAL), ""), "");
    val_t counts = LLVMBuildAnd(B, lanes, LLVMBuildNot(B, nan, ""), "");
    key = LLVMBuildSelect(B, counts, key,
                          gen_like(key, max ? (uint32_t)INT32_MIN : (uint32_t)INT32_MAX), "");
    val_t r = gen_call1(gen, max ? "llvm.vector.reduce.smax" : "llvm.vector.reduce.smin", key);
    sign = LLVMBuildAShr(B, r, gen_like(r, 31), "");
    r = LLVMBuildXor(B, r, LLVMBuildAnd(B, sign, gen_like(r, CANONICAL), ""), "");
    val_t none = LLVMBuildNot(B, gen_any(gen, counts), "");
    if (i->flags & PTX_F_NAN) {
        none = LLVMBuildOr(B, none, gen_any(gen, LLVMBuildAnd(B, lanes, nan, "")), "");
    }
    return (finding_t){LLVMBuildSelect(B, none, gen_like(r, CANONICAL), r, ""), NULL};
}

static finding_t reduce(cpu_gen_t *gen, val_t v, val_t m)
{
    const ptx_instr_t *i = gen->i;
    bool sign = ptx_type_is_signed((ptx_type_t)i->type);
    const char *name;
    uint64_t neutral = 0;
    switch (i->mode) {
    case PTX_ATOM_ADD:
        name = "llvm.vector.reduce.add";
        break;
    case PTX_ATOM_MIN:
        name = sign ? "llvm.vector.reduce.smin" : "llvm.vector.reduce.umin";
        neutral = sign ? INT32_MAX : UINT32_MAX;
        break;
    case PTX_ATOM_MAX:
        name = sign ? "llvm.vector.reduce.smax" : "llvm.vector.reduce.umax";
        neutral = sign ? (uint32_t)INT32_MIN : 0;
        break;
    case PTX_ATOM_AND:
        name = "llvm.vector.reduce.and";
        neutral = UINT32_MAX;
        break;
    case PTX_ATOM_OR:
        name = "llvm.vector.reduce.or";
        break;
    default:
        name = "llvm.vector.reduce.xor";
    }
    v = LLVMBuildSelect(B, gen_from_bits(gen, m), v, gen_like(v, neutral), "");
    return (finding_t){gen_call1(gen, name, v), NULL};
}

static finding_t elect(cpu_gen_t *gen, val_t brought, val_t m)
{
    (void)brought;
    return (finding_t){lowest(gen, m), NULL};
}

/* ---- who the members are ---- */

/* The operand that names the members, if it differs between the lanes; else NULL. */
static val_t varying_members(cpu_gen_t *gen, unsigned source, bool named)
{
    if (!named) {
        return NULL;
    }
    const ptx_operand_t *o = ptx_src(gen->f, gen->i, source);
    cpu_form_t form = cpu_operand_form(gen->a, o);
    return cpu_form_uniform(&form) ? NULL : gen_read(gen, o, PTX_U32, true);
}

/* The active lanes that the operand, the same in all of them, names: i32. */
static val_t common_members(cpu_gen_t *gen, unsigned source, bool named)
{
    val_t active = gen_mask_i32(gen);
    uint64_t c;
    if (!named) {
        return active;
    }
    const ptx_operand_t *o = ptx_src(gen->f, gen->i, source);
    if (cpu_operand_constant(gen->a, o, &c) && (uint32_t)c == UINT32_MAX) {
        return active;
    }
    return LLVMBuildAnd(B, active, gen_read(gen, o, PTX_U32, false), "");
}

static val_t chosen(cpu_gen_t *gen, val_t lanes, val_t scalar, val_t old)
{
    return LLVMBuildSelect(B, lanes, gen_splat(gen, scalar), old, "");
}

/* Lanes with different masks are different sets, which meet one after the other (cooperative groups make
 * such masks out of a warp). A loop over the sets: those lanes are left whose set has not met. */
static finding_t find_by_set(cpu_gen_t *gen, find_t find, val_t brought, val_t masks)
{
    block_t turn = gen_block(gen, "set"), done = gen_block(gen, ""), test = gen_block(gen, "");
    val_t first = gen_mask_i32(gen);
    block_t before = LLVMGetInsertBlock(B);
    bool bit = gen->i->op == PTX_OP_VOTE && gen->i->mode != PTX_VOTE_BALLOT;
    bool flagged = gen->i->op == PTX_OP_MATCH;
    type_t type = gen_vector(gen, bit ? gen->i1 : gen->i32), flags = gen_vector(gen, gen->i1);
    gen_goto(gen, test);
    val_t left = LLVMBuildPhi(B, gen->i32, ""), value = LLVMBuildPhi(B, type, "");
    val_t flag = flagged ? LLVMBuildPhi(B, flags, "") : NULL;
    LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntNE, left, gen_like(left, 0), ""), turn, done);
    LLVMPositionBuilderAtEnd(B, turn);
    val_t mask = LLVMBuildExtractElement(B, masks, lowest(gen, left), "");
    val_t lanes = LLVMBuildICmp(B, LLVMIntEQ, masks, gen_splat(gen, mask), "");
    val_t set = LLVMBuildAnd(B, gen_bits(gen, lanes), left, "");
    finding_t one = find(gen, brought, LLVMBuildAnd(B, set, mask, ""));
    val_t values = chosen(gen, lanes, one.value, value), rest = LLVMBuildXor(B, left, set, "");
    val_t all_flags = flagged ? chosen(gen, lanes, one.flag, flag) : NULL;
    block_t end = LLVMGetInsertBlock(B);
    LLVMAddIncoming(left, (val_t[]){first, rest}, (block_t[]){before, end}, 2);
    LLVMAddIncoming(value, (val_t[]){LLVMConstNull(type), values}, (block_t[]){before, end}, 2);
    if (flagged) {
        LLVMAddIncoming(flag, (val_t[]){LLVMConstNull(flags), all_flags}, (block_t[]){before, end},
                        2);
    }
    LLVMBuildBr(B, test);
    LLVMPositionBuilderAtEnd(B, done);
    return (finding_t){value, flag};
}

static finding_t find_out(cpu_gen_t *gen, find_t find, val_t brought, unsigned source)
{
    unsigned at;
    bool named = cpu_instr_syncs_warp(gen->i, &at);
    val_t masks = varying_members(gen, source, named);
    return masks != NULL ? find_by_set(gen, find, brought, masks)
                         : find(gen, brought, common_members(gen, source, named));
}

/* Each lane's answer is its own: the members that bring what it brings. */
static val_t match_any(cpu_gen_t *gen, val_t v)
{
    val_t masks = varying_members(gen, 1, true);
    val_t m = masks != NULL ? gen_mask_i32(gen) : common_members(gen, 1, true);
    val_t r = LLVMGetPoison(gen_vector(gen, gen->i32));
    for (unsigned l = 0; l < LANES; l++) {
        val_t lane = LLVMConstInt(gen->i64, l, 0);
        val_t mine = gen_splat(gen, LLVMBuildExtractElement(B, v, lane, ""));
        val_t bits = gen_bits(gen, LLVMBuildICmp(B, LLVMIntEQ, v, mine, ""));
        r = LLVMBuildInsertElement(B, r, LLVMBuildAnd(B, bits, m, ""), lane, "");
    }
    return masks != NULL ? LLVMBuildAnd(B, r, masks, "") : r;
}

static void write_elected(cpu_gen_t *gen, val_t first)
{
    gen_write(gen, ptx_dst(gen->f, gen->i, 0), first, PTX_B32);
    if (gen->i->dst_count > 1) {
        val_t lane = gen_lanes(gen, gen->i32, 1);
        first = gen_is_vector(first) ? first : gen_splat(gen, first);
        gen_write(gen, ptx_dst(gen->f, gen->i, 1), LLVMBuildICmp(B, LLVMIntEQ, lane, first, ""),
                  PTX_PRED);
    }
}

void gen_vote(cpu_gen_t *gen)
{
    const ptx_instr_t *i = gen->i;
    const ptx_operand_t *dst = ptx_dst(gen->f, i, 0);
    finding_t r;
    switch (i->op) {
    case PTX_OP_VOTE:
        r = find_out(gen, vote, gen_bits(gen, gen_src(gen, 0, PTX_PRED, true)), 1);
        gen_write(gen, dst, r.value, i->mode == PTX_VOTE_BALLOT ? PTX_B32 : PTX_PRED);
        break;
    case PTX_OP_MATCH:
        if (i->mode != PTX_VOTE_ALL) {
            gen_write(gen, dst, match_any(gen, gen_src(gen, 0, i->type, true)), PTX_B32);
            break;
        }
        r = find_out(gen, match_all, gen_src(gen, 0, i->type, true), 1);
        gen_write(gen, dst, r.value, PTX_B32);
        if (i->dst_count > 1) {
            gen_write(gen, ptx_dst(gen->f, i, 1), r.flag, PTX_PRED);
        }
        break;
    case PTX_OP_REDUX:
        r = i->type == PTX_F32 ? find_out(gen, reduce_f32, gen_src(gen, 0, PTX_U32, true), 1)
                               : find_out(gen, reduce, gen_src(gen, 0, i->type, true), 1);
        gen_write(gen, dst, r.value, i->type == PTX_F32 ? PTX_U32 : i->type);
        break;
    default:
        write_elected(gen, find_out(gen, elect, NULL, 0).value);
    }
}

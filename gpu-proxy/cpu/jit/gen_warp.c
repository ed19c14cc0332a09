/* What lanes of a warp do together: a strip is a warp here (W = 32). Only lanes that execute the
 * instruction together take part; the member mask narrows that further. */
#include "gpu-proxy/cpu/jit/gen.h"

#define B gen->b

enum { LANES = 32 };

/* Members among the active lanes, as i32. */
static val_t members(cpu_gen_t *gen, unsigned mask_source)
{
    val_t active = gen_mask_i32(gen);
    if ((gen->i->flags & PTX_F_SYNC) == 0 && gen->i->op != PTX_OP_REDUX &&
        gen->i->op != PTX_OP_ELECT) {
        return active;
    }
    const ptx_operand_t *o = ptx_src(gen->f, gen->i, mask_source);
    cpu_form_t form = cpu_operand_form(gen->a, o);
    uint64_t c;
    if (cpu_operand_constant(gen->a, o, &c) && (uint32_t)c == UINT32_MAX) {
        return active;
    }
    if (cpu_form_uniform(&form)) {
        return LLVMBuildAnd(B, active, gen_read(gen, o, PTX_U32, false), "");
    }
    return active; /* differs between lanes: whoever is here has been named by somebody */
}

typedef struct {
    uint32_t j, in_range;
} source_lane_t;

/* PTX's rule for where a lane reads from. */
static source_lane_t source_lane(unsigned mode, uint32_t lane, uint32_t b, uint32_t c)
{
    uint32_t clamp = c & 31, seg = c >> 8 & 31, high = (lane & seg) | (clamp & ~seg & 31), j;
    bool in;
    b &= 31;
    switch (mode) {
    case PTX_SHFL_UP:
        in = (int32_t)(lane - b) >= (int32_t)high;
        j = lane - b;
        break;
    case PTX_SHFL_DOWN:
        j = lane + b;
        in = j <= high;
        break;
    case PTX_SHFL_BFLY:
        j = lane ^ b;
        in = j <= high;
        break;
    default:
        j = (lane & seg) | (b & ~seg & 31);
        in = j <= high;
    }
    return (source_lane_t){in ? j : lane, in};
}

static void write_in_range(cpu_gen_t *gen, val_t in)
{
    if (gen->i->dst_count > 1) {
        gen_write(gen, ptx_dst(gen->f, gen->i, 1), in, PTX_PRED);
    }
}

static void shuffle_constant(cpu_gen_t *gen, uint32_t b, uint32_t c)
{
    const ptx_instr_t *i = gen->i;
    uint32_t at[LANES];
    val_t in[LANES];
    for (uint32_t l = 0; l < LANES; l++) {
        source_lane_t s = source_lane(i->mode, l, b, c);
        at[l] = s.j;
        in[l] = LLVMConstInt(gen->i1, s.in_range, 0);
    }
    val_t v = gen_src(gen, 0, PTX_B32, true);
    v = LLVMBuildShuffleVector(B, v, LLVMGetPoison(LLVMTypeOf(v)), gen_iota(gen, at, LANES), "");
    gen_write(gen, ptx_dst(gen->f, i, 0), v, PTX_B32);
    write_in_range(gen, LLVMConstVector(in, LANES));
}

/* v[at[lane]] through memory. */
static val_t pick_lanes(cpu_gen_t *gen, val_t v, val_t at)
{
    LLVMSetAlignment(LLVMBuildStore(B, v, gen_buffer(gen, BUFFER_DATA)), 64);
    val_t r = LLVMGetPoison(LLVMTypeOf(v)), base = gen_buffer(gen, BUFFER_DATA);
    for (unsigned l = 0; l < LANES; l++) {
        val_t lane = LLVMConstInt(gen->i64, l, 0);
        val_t index = LLVMBuildZExt(B, LLVMBuildExtractElement(B, at, lane, ""), gen->i64, "");
        val_t p = LLVMBuildGEP2(B, gen->i32, base, &index, 1, "");
        r = LLVMBuildInsertElement(B, r, LLVMBuildLoad2(B, gen->i32, p, ""), lane, "");
    }
    return r;
}

static void shuffle_variable(cpu_gen_t *gen)
{
    const ptx_instr_t *i = gen->i;
    val_t v = gen_src(gen, 0, PTX_B32, true), b = gen_src(gen, 1, PTX_U32, true);
    val_t c = gen_src(gen, 2, PTX_U32, true), lane = gen_lanes(gen, gen->i32, 1), j, in;
    val_t k31 = gen_like(c, 31);
    val_t seg = LLVMBuildAnd(B, LLVMBuildLShr(B, c, gen_like(c, 8), ""), k31, "");
    val_t free = LLVMBuildXor(B, seg, k31, "");
    val_t low = LLVMBuildAnd(B, lane, seg, "");
    val_t high = LLVMBuildOr(B, low, LLVMBuildAnd(B, LLVMBuildAnd(B, c, k31, ""), free, ""), "");
    b = LLVMBuildAnd(B, b, k31, "");
    switch (i->mode) {
    case PTX_SHFL_UP:
        j = LLVMBuildSub(B, lane, b, "");
        break;
    case PTX_SHFL_DOWN:
        j = LLVMBuildAdd(B, lane, b, "");
        break;
    case PTX_SHFL_BFLY:
        j = LLVMBuildXor(B, lane, b, "");
        break;
    default:
        j = LLVMBuildOr(B, low, LLVMBuildAnd(B, b, free, ""), "");
    }
    in = LLVMBuildICmp(B, i->mode == PTX_SHFL_UP ? LLVMIntSGE : LLVMIntSLE, j, high, "");
    j = LLVMBuildAnd(B, LLVMBuildSelect(B, in, j, lane, ""), k31, "");
    gen_write(gen, ptx_dst(gen->f, i, 0), pick_lanes(gen, v, j), PTX_B32);
    write_in_range(gen, in);
}

static void shuffle(cpu_gen_t *gen)
{
    uint64_t b, c;
    if (cpu_operand_constant(gen->a, ptx_src(gen->f, gen->i, 1), &b) &&
        cpu_operand_constant(gen->a, ptx_src(gen->f, gen->i, 2), &c)) {
        shuffle_constant(gen, (uint32_t)b, (uint32_t)c);
    } else {
        shuffle_variable(gen);
    }
}

static void vote(cpu_gen_t *gen)
{
    const ptx_instr_t *i = gen->i;
    val_t m = members(gen, 1);
    val_t yes = LLVMBuildAnd(B, gen_bits(gen, gen_src(gen, 0, PTX_PRED, true)), m, "");
    val_t none = gen_like(yes, 0), r;
    val_t all = LLVMBuildICmp(B, LLVMIntEQ, yes, m, "");
    val_t any = LLVMBuildICmp(B, LLVMIntNE, yes, none, "");
    switch (i->mode) {
    case PTX_VOTE_BALLOT:
        gen_write(gen, ptx_dst(gen->f, i, 0), yes, PTX_B32);
        return;
    case PTX_VOTE_ALL:
        r = all;
        break;
    case PTX_VOTE_ANY:
        r = any;
        break;
    default:
        r = LLVMBuildOr(B, all, LLVMBuildNot(B, any, ""), "");
    }
    gen_write(gen, ptx_dst(gen->f, i, 0), r, PTX_PRED);
}

static val_t lowest(cpu_gen_t *gen, val_t bits)
{
    val_t args[2] = {bits, LLVMConstInt(gen->i1, 0, 0)};
    val_t n = gen_call(gen, "llvm.cttz", &gen->i32, 1, args, 2);
    return LLVMBuildAnd(B, n, gen_like(n, LANES - 1), "");
}

static void match(cpu_gen_t *gen)
{
    const ptx_instr_t *i = gen->i;
    val_t v = gen_src(gen, 0, i->type, true), m = members(gen, 1);
    if (i->mode == PTX_VOTE_ALL) {
        val_t first = LLVMBuildExtractElement(B, v, lowest(gen, m), "");
        val_t same = LLVMBuildICmp(B, LLVMIntEQ, v, gen_splat(gen, first), "");
        val_t bits = LLVMBuildAnd(B, gen_bits(gen, same), m, "");
        val_t all = LLVMBuildICmp(B, LLVMIntEQ, bits, m, "");
        gen_write(gen, ptx_dst(gen->f, i, 0), LLVMBuildSelect(B, all, m, gen_like(m, 0), ""),
                  PTX_B32);
        write_in_range(gen, all);
        return;
    }
    val_t r = LLVMGetPoison(gen_vector(gen, gen->i32));
    for (unsigned l = 0; l < LANES; l++) {
        val_t lane = LLVMConstInt(gen->i64, l, 0);
        val_t mine = gen_splat(gen, LLVMBuildExtractElement(B, v, lane, ""));
        val_t bits = gen_bits(gen, LLVMBuildICmp(B, LLVMIntEQ, v, mine, ""));
        r = LLVMBuildInsertElement(B, r, LLVMBuildAnd(B, bits, m, ""), lane, "");
    }
    gen_write(gen, ptx_dst(gen->f, i, 0), r, PTX_B32);
}

/* Min or max of f32: as integers that order as the floats do. Without .NaN a NaN counts only if there is
 * nothing else; then, and with .NaN if there is one, the result is PTX's canonical NaN. */
static void reduce_f32(cpu_gen_t *gen)
{
    enum { CANONICAL = 0x7fffffff };
    const ptx_instr_t *i = gen->i;
    bool max = i->mode == PTX_ATOM_MAX;
    val_t v = gen_src(gen, 0, PTX_U32, true), lanes = gen_from_bits(gen, members(gen, 1));
    val_t magnitude = LLVMBuildAnd(B, v, gen_like(v, CANONICAL), "");
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
    r = LLVMBuildSelect(B, none, gen_like(r, CANONICAL), r, "");
    gen_write(gen, ptx_dst(gen->f, i, 0), r, PTX_U32);
}

static void reduce(cpu_gen_t *gen)
{
    const ptx_instr_t *i = gen->i;
    if (i->type == PTX_F32) {
        reduce_f32(gen);
        return;
    }
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
    val_t v = gen_src(gen, 0, i->type, true);
    v = LLVMBuildSelect(B, gen_from_bits(gen, members(gen, 1)), v, gen_like(v, neutral), "");
    gen_write(gen, ptx_dst(gen->f, i, 0), gen_call1(gen, name, v), i->type);
}

static void elect(cpu_gen_t *gen)
{
    const ptx_instr_t *i = gen->i;
    val_t first = lowest(gen, members(gen, 0));
    gen_write(gen, ptx_dst(gen->f, i, 0), first, PTX_B32);
    if (i->dst_count > 1) {
        val_t lane = gen_lanes(gen, gen->i32, 1);
        gen_write(gen, ptx_dst(gen->f, i, 1),
                  LLVMBuildICmp(B, LLVMIntEQ, lane, gen_splat(gen, first), ""), PTX_PRED);
    }
}

void gen_warp(cpu_gen_t *gen)
{
    switch (gen->i->op) {
    case PTX_OP_SHFL:
        shuffle(gen);
        break;
    case PTX_OP_VOTE:
        vote(gen);
        break;
    case PTX_OP_MATCH:
        match(gen);
        break;
    case PTX_OP_REDUX:
        reduce(gen);
        break;
    case PTX_OP_ACTIVEMASK:
        gen_write(gen, ptx_dst(gen->f, gen->i, 0), gen_mask_i32(gen), PTX_B32);
        break;
    default:
        elect(gen);
    }
}

/* Shuffles: a strip is a warp here (W = 32). */
#include "gpu-proxy/cpu/jit/gen.h"

#define B gen->b

enum { LANES = 32 };

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

void gen_warp(cpu_gen_t *gen)
{
    switch (gen->i->op) {
    case PTX_OP_SHFL:
        shuffle(gen);
        break;
    case PTX_OP_ACTIVEMASK:
        gen_write(gen, ptx_dst(gen->f, gen->i, 0), gen_mask_i32(gen), PTX_B32);
        break;
    default:
        gen_vote(gen);
    }
}

/* Logic by table, permutation of bytes, sums of small products, masks and bit positions. */
#include "gpu-proxy/cpu/jit/gen.h"

#define B gen->b

static val_t extend64(cpu_gen_t *gen, val_t v)
{
    return LLVMBuildZExt(B, v, gen_same(v, gen->i64), "");
}

static val_t equal(cpu_gen_t *gen, val_t x, uint64_t c)
{
    return LLVMBuildICmp(B, LLVMIntEQ, x, gen_like(x, c), "");
}

static val_t choose(cpu_gen_t *gen, val_t p, val_t x, val_t y)
{
    return LLVMBuildSelect(B, p, x, y, "");
}

/* Any function of three bits: the table's bits select the minterms. */
static val_t table3(cpu_gen_t *gen, bool vec)
{
    const ptx_operand_t *o = ptx_src(gen->f, gen->i, 3);
    val_t v[3], table = NULL;
    uint64_t constant = 0;
    for (unsigned n = 0; n < 3; n++) {
        v[n] = gen_src(gen, n, PTX_B32, vec);
    }
    if (!cpu_operand_constant(gen->a, o, &constant)) {
        table = gen_read(gen, o, PTX_B32, vec);
    }
    val_t r = gen_like(v[0], 0);
    for (unsigned row = 0; row < 8; row++) {
        if (table == NULL && !(constant >> row & 1)) {
            continue;
        }
        val_t term = gen_like(v[0], UINT64_MAX);
        for (unsigned n = 0; n < 3; n++) {
            val_t x = row >> (2 - n) & 1 ? v[n] : LLVMBuildNot(B, v[n], "");
            term = LLVMBuildAnd(B, term, x, "");
        }
        if (table != NULL) {
            val_t bit = LLVMBuildLShr(B, table, gen_like(table, row), "");
            bit = LLVMBuildNeg(B, LLVMBuildAnd(B, bit, gen_like(bit, 1), ""), "");
            term = LLVMBuildAnd(B, term, bit, "");
        }
        r = LLVMBuildOr(B, r, term, "");
    }
    return r;
}

/* lop3.or.b32 d|p, a, b, c, table, q: p = (d != 0) or q */
static void logic3(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    val_t r = table3(gen, vec), p = NULL;
    if (i->boolop != PTX_BOOL_NONE) {
        val_t q = gen_src(gen, 4, PTX_PRED, vec);
        p = LLVMBuildNot(B, equal(gen, r, 0), "");
        p = i->boolop == PTX_BOOL_AND  ? LLVMBuildAnd(B, p, q, "")
            : i->boolop == PTX_BOOL_OR ? LLVMBuildOr(B, p, q, "")
                                       : LLVMBuildXor(B, p, q, "");
    }
    gen_write(gen, ptx_dst(gen->f, i, 0), r, PTX_B32);
    if (p != NULL && i->dst_count > 1) {
        gen_write(gen, ptx_dst(gen->f, i, 1), p, PTX_PRED);
    }
}

/* ---- prmt ---- */

/* Number of the byte that result byte n takes in a mode with a control of two bits. */
static unsigned mode_byte(unsigned mode, unsigned control, unsigned n)
{
    switch (mode) {
    case PTX_PRMT_F4E:
        return control + n;
    case PTX_PRMT_B4E:
        return (control - n) & 7;
    case PTX_PRMT_RC8:
        return control;
    case PTX_PRMT_ECL:
        return control > n ? control : n;
    case PTX_PRMT_ECR:
        return control < n ? control : n;
    default: /* RC16 */
        return (control & 1) * 2 + (n & 1);
    }
}

/* What `prmt` without a mode takes as its selector for the same. */
static uint64_t mode_selector(unsigned mode, uint64_t c)
{
    uint64_t all = 0;
    for (unsigned n = 0; n < 4; n++) {
        all |= (uint64_t)mode_byte(mode, c & 3, n) << 4 * n;
    }
    return all;
}

/* A known selector: a shuffle of bytes. The top bit of a nibble spreads the byte's sign. */
static val_t permute_known(cpu_gen_t *gen, val_t lo, val_t hi, uint64_t sel)
{
    unsigned lanes = gen_is_vector(lo) ? gen->W : 1, count = 4 * lanes;
    uint32_t at[4 * 32];
    val_t spread[4 * 32];
    for (unsigned k = 0; k < count; k++) {
        unsigned nibble = (unsigned)(sel >> 4 * (k % 4)) & 15, byte = nibble & 7;
        at[k] = k / 4 * 4 + (byte < 4 ? byte : count + byte - 4);
        spread[k] = LLVMConstInt(gen->i1, nibble >> 3, 0);
    }
    type_t bytes = LLVMVectorType(gen->i8, count), whole = LLVMTypeOf(lo);
    lo = LLVMBuildBitCast(B, lo, bytes, "");
    hi = LLVMBuildBitCast(B, hi, bytes, "");
    val_t r = LLVMBuildShuffleVector(B, lo, hi, gen_iota(gen, at, count), "");
    if ((sel & 0x8888) != 0) {
        val_t sign = LLVMBuildAShr(B, r, gen_like(r, 7), "");
        r = choose(gen, LLVMConstVector(spread, count), sign, r);
    }
    return LLVMBuildBitCast(B, r, whole, "");
}

/* The selector of a mode, for controls that are known at run time only. */
static val_t mode_selectors(cpu_gen_t *gen, val_t c)
{
    val_t control = LLVMBuildAnd(B, c, gen_like(c, 3), "");
    val_t r = gen_like(c, mode_selector(gen->i->mode, 0));
    for (unsigned k = 1; k < 4; k++) {
        r = choose(gen, equal(gen, control, k), gen_like(c, mode_selector(gen->i->mode, k)), r);
    }
    return r;
}

static val_t permute_bytes(cpu_gen_t *gen, bool vec)
{
    bool indexed = gen->i->mode == PTX_PRMT_INDEX;
    val_t lo = gen_src(gen, 0, PTX_B32, vec), hi = gen_src(gen, 1, PTX_B32, vec);
    uint64_t known;
    if (cpu_operand_constant(gen->a, ptx_src(gen->f, gen->i, 2), &known)) {
        return permute_known(gen, lo, hi, indexed ? known : mode_selector(gen->i->mode, known));
    }
    val_t sel = gen_src(gen, 2, PTX_B32, vec);
    sel = extend64(gen, indexed ? sel : mode_selectors(gen, sel));
    val_t x = LLVMBuildShl(B, extend64(gen, hi), gen_const(gen, gen->i64, vec, 32), "");
    x = LLVMBuildOr(B, x, extend64(gen, lo), "");
    val_t r = gen_like(x, 0);
    for (unsigned n = 0; n < 4; n++) {
        val_t s = LLVMBuildLShr(B, sel, gen_like(sel, 4 * n), "");
        val_t at = LLVMBuildShl(B, LLVMBuildAnd(B, s, gen_like(s, 7), ""), gen_like(s, 3), "");
        val_t byte = LLVMBuildAnd(B, LLVMBuildLShr(B, x, at, ""), gen_like(x, 255), "");
        val_t top = LLVMBuildLShr(B, byte, gen_like(byte, 7), "");
        val_t spread = LLVMBuildMul(B, top, gen_like(top, 255), "");
        val_t plain = equal(gen, LLVMBuildAnd(B, s, gen_like(s, 8), ""), 0);
        byte = choose(gen, plain, byte, spread);
        r = LLVMBuildOr(B, r, LLVMBuildShl(B, byte, gen_like(byte, 8 * n), ""), "");
    }
    return LLVMBuildTrunc(B, r, gen_same(r, gen->i32), "");
}

/* ---- sums of products ---- */

/* Bits [at, at + bits) of a word, extended. */
static val_t field(cpu_gen_t *gen, val_t x, unsigned at, unsigned bits, bool sign)
{
    x = LLVMBuildShl(B, x, gen_like(x, 32 - bits - at), "");
    return sign ? LLVMBuildAShr(B, x, gen_like(x, 32 - bits), "")
                : LLVMBuildLShr(B, x, gen_like(x, 32 - bits), "");
}

/* dp4a: four bytes with four bytes; dp2a: two halves with two bytes. */
static val_t dot(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    val_t a = gen_src(gen, 0, PTX_B32, vec), b = gen_src(gen, 1, PTX_B32, vec);
    val_t sum = gen_src(gen, 2, PTX_B32, vec);
    bool sa = ptx_type_is_signed((ptx_type_t)i->type), four = i->op == PTX_OP_DP4A;
    bool sb = ptx_type_is_signed((ptx_type_t)i->type2);
    unsigned bits = four ? 8 : 16, from = !four && i->mode == PTX_MUL_HI ? 16 : 0;
    for (unsigned n = 0; n < 32 / bits; n++) {
        val_t x = field(gen, a, bits * n, bits, sa), y = field(gen, b, from + 8 * n, 8, sb);
        sum = LLVMBuildAdd(B, sum, LLVMBuildMul(B, x, y, ""), "");
    }
    return sum;
}

/* ---- masks and positions ---- */

/* x << n for n below 32, else 0 */
static val_t shift_left(cpu_gen_t *gen, val_t x, val_t n)
{
    val_t far = LLVMBuildICmp(B, LLVMIntUGE, n, gen_like(n, 32), "");
    n = choose(gen, far, gen_like(n, 0), n);
    return choose(gen, far, gen_like(x, 0), LLVMBuildShl(B, x, n, ""));
}

static val_t make_mask(cpu_gen_t *gen, bool vec)
{
    val_t a = gen_src(gen, 0, PTX_U32, vec), b = gen_src(gen, 1, PTX_U32, vec);
    val_t ones = gen_like(a, UINT64_MAX);
    if ((gen->i->flags & PTX_F_CLAMP) == 0) {
        a = LLVMBuildAnd(B, a, gen_like(a, 31), "");
        b = LLVMBuildAnd(B, b, gen_like(b, 31), "");
    }
    val_t width = gen_call2(gen, "llvm.umin", b, gen_like(b, 32));
    val_t end = LLVMBuildAdd(B, gen_call2(gen, "llvm.umin", a, gen_like(a, 32)), width, "");
    return LLVMBuildAnd(B, shift_left(gen, ones, a),
                        LLVMBuildNot(B, shift_left(gen, ones, end), ""), "");
}

/* The low n bits, extended. */
static val_t extend_low(cpu_gen_t *gen, bool vec)
{
    val_t x = gen_src(gen, 0, PTX_B32, vec), n = gen_src(gen, 1, PTX_U32, vec);
    bool clamp = (gen->i->flags & PTX_F_CLAMP) != 0;
    n = clamp ? gen_call2(gen, "llvm.umin", n, gen_like(n, 32))
              : LLVMBuildAnd(B, n, gen_like(n, 31), "");
    val_t none = equal(gen, n, 0), by = LLVMBuildSub(B, gen_like(n, 32), n, "");
    by = choose(gen, none, gen_like(n, 0), by);
    val_t r = LLVMBuildShl(B, x, by, "");
    r = ptx_type_is_signed((ptx_type_t)gen->i->type) ? LLVMBuildAShr(B, r, by, "")
                                                     : LLVMBuildLShr(B, r, by, "");
    return choose(gen, none, gen_like(x, 0), r);
}

/* fns: the n-th set bit from a position upwards, or with a negative n downwards. */
static val_t find_nth(cpu_gen_t *gen, bool vec)
{
    val_t mask = gen_src(gen, 0, PTX_B32, vec), base = gen_src(gen, 1, PTX_B32, vec);
    val_t n = gen_src(gen, 2, PTX_B32, vec), none = gen_like(mask, UINT64_MAX);
    base = LLVMBuildAnd(B, base, gen_like(base, 31), "");
    val_t down = LLVMBuildICmp(B, LLVMIntSLT, n, gen_like(n, 0), "");
    val_t count = choose(gen, down, LLVMBuildNeg(B, n, ""), n);
    /* downwards is upwards in the mirror */
    val_t m = choose(gen, down, gen_call1(gen, "llvm.bitreverse", mask), mask);
    val_t from = choose(gen, down, LLVMBuildSub(B, gen_like(base, 31), base, ""), base);
    m = LLVMBuildAnd(B, m, LLVMBuildShl(B, none, from, ""), "");
    for (unsigned k = 1; k <= 32; k++) {
        val_t more = LLVMBuildICmp(B, LLVMIntUGT, count, gen_like(count, k), "");
        val_t less = LLVMBuildAnd(B, m, LLVMBuildSub(B, m, gen_like(m, 1), ""), "");
        m = choose(gen, more, less, m);
    }
    type_t t = LLVMTypeOf(m);
    val_t at = gen_call(gen, "llvm.cttz", &t, 1, (val_t[]){m, LLVMConstInt(gen->i1, 0, 0)}, 2);
    at = choose(gen, down, LLVMBuildSub(B, gen_like(at, 31), at, ""), at);
    val_t r = choose(gen, equal(gen, m, 0), none, at);
    val_t here = LLVMBuildAnd(B, LLVMBuildLShr(B, mask, base, ""), gen_like(mask, 1), "");
    return choose(gen, equal(gen, n, 0), choose(gen, equal(gen, here, 1), base, none), r);
}

void gen_bits32(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    val_t r;
    switch (i->op) {
    case PTX_OP_LOP3:
        logic3(gen, vec);
        return;
    case PTX_OP_PRMT:
        r = permute_bytes(gen, vec);
        break;
    case PTX_OP_FNS:
        r = find_nth(gen, vec);
        break;
    case PTX_OP_SZEXT:
        r = extend_low(gen, vec);
        break;
    case PTX_OP_BMSK:
        r = make_mask(gen, vec);
        break;
    default: /* DP4A, DP2A */
        r = dot(gen, vec);
    }
    gen_write(gen, ptx_dst(gen->f, i, 0), r, PTX_B32);
}

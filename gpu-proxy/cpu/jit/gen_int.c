/* Integer arithmetic, logic, shifts and bit fields. */
#include "gpu-proxy/cpu/jit/gen.h"

#define B gen->b

static bool is_signed(const ptx_instr_t *i)
{
    return ptx_type_is_signed((ptx_type_t)i->type);
}

static val_t extend(cpu_gen_t *gen, val_t v, unsigned bits, bool sign)
{
    type_t t = gen_shape(gen, gen_int(gen, bits), gen_is_vector(v));
    return sign ? LLVMBuildSExt(B, v, t, "") : LLVMBuildZExt(B, v, t, "");
}

static val_t cut(cpu_gen_t *gen, val_t v, unsigned bits)
{
    return LLVMBuildTrunc(B, v, gen_shape(gen, gen_int(gen, bits), gen_is_vector(v)), "");
}

static unsigned width_of(val_t v)
{
    return LLVMGetIntTypeWidth(gen_element(v));
}

/* u32 division through f64, which is exact: the quotient's distance from the next integer is at
 * least 2^-33 of it. Vector units have no integer division. */
static val_t divide_u32(cpu_gen_t *gen, val_t x, val_t y)
{
    type_t wide = gen_vector(gen, gen->f64);
    val_t q =
        LLVMBuildFDiv(B, LLVMBuildUIToFP(B, x, wide, ""), LLVMBuildUIToFP(B, y, wide, ""), "");
    /* truncation by adding 2^52 after floor: the integer is in the low bits */
    q = gen_call1(gen, "llvm.trunc", q);
    q = LLVMBuildFAdd(B, q, gen_flike(q, 4503599627370496.0), "");
    q = LLVMBuildBitCast(B, q, gen_vector(gen, gen->i64), "");
    return cut(gen, q, 32);
}

static val_t abs_of(cpu_gen_t *gen, val_t x)
{
    type_t t = LLVMTypeOf(x);
    return gen_call(gen, "llvm.abs", &t, 1, (val_t[]){x, LLVMConstInt(gen->i1, 0, 0)}, 2);
}

static val_t divide_vector32(cpu_gen_t *gen, val_t x, val_t y, bool sign, bool remainder)
{
    if (!sign) {
        val_t q = divide_u32(gen, x, y);
        return remainder ? LLVMBuildSub(B, x, LLVMBuildMul(B, q, y, ""), "") : q;
    }
    val_t q = divide_u32(gen, abs_of(gen, x), abs_of(gen, y));
    val_t negative = LLVMBuildICmp(B, LLVMIntSLT, LLVMBuildXor(B, x, y, ""), gen_like(x, 0), "");
    q = LLVMBuildSelect(B, negative, LLVMBuildNeg(B, q, ""), q, "");
    return remainder ? LLVMBuildSub(B, x, LLVMBuildMul(B, q, y, ""), "") : q;
}

/* PTX: a division by zero gives some value, never a trap; nor does the smallest number by -1. */
val_t gen_divide(cpu_gen_t *gen, val_t x, val_t y, bool sign, bool remainder)
{
    unsigned bits = width_of(x);
    if (LLVMIsConstant(y) && !LLVMIsNull(y) &&
        y != gen_like(y, UINT64_MAX)) { /* becomes a multiplication */
        return sign ? (remainder ? LLVMBuildSRem(B, x, y, "") : LLVMBuildSDiv(B, x, y, ""))
                    : (remainder ? LLVMBuildURem(B, x, y, "") : LLVMBuildUDiv(B, x, y, ""));
    }
    val_t zero = LLVMBuildICmp(B, LLVMIntEQ, y, gen_like(y, 0), ""), r;
    y = LLVMBuildSelect(B, zero, gen_like(y, 1), y, "");
    if (gen_is_vector(x) && bits <= 32) {
        val_t x32 = bits < 32 ? extend(gen, x, 32, sign) : x;
        val_t y32 = bits < 32 ? extend(gen, y, 32, sign) : y;
        r = divide_vector32(gen, x32, y32, sign, remainder);
        r = bits < 32 ? cut(gen, r, bits) : r;
    } else if (sign) {
        val_t minus = LLVMBuildICmp(B, LLVMIntEQ, y, gen_like(y, UINT64_MAX), "");
        y = LLVMBuildSelect(B, minus, gen_like(y, 1), y, "");
        r = remainder ? LLVMBuildSRem(B, x, y, "") : LLVMBuildSDiv(B, x, y, "");
        if (!remainder) {
            r = LLVMBuildSelect(B, minus, LLVMBuildNeg(B, r, ""), r, "");
        }
    } else {
        r = remainder ? LLVMBuildURem(B, x, y, "") : LLVMBuildUDiv(B, x, y, "");
    }
    return LLVMBuildSelect(B, zero, remainder ? x : gen_like(r, UINT64_MAX), r, "");
}

val_t gen_multiply(cpu_gen_t *gen, val_t x, val_t y)
{
    const ptx_instr_t *i = gen->i;
    unsigned bits = width_of(x);
    bool sign = is_signed(i);
    if (i->mode == PTX_MUL_WIDE) {
        return LLVMBuildMul(B, extend(gen, x, bits * 2, sign), extend(gen, y, bits * 2, sign), "");
    }
    if (i->mode != PTX_MUL_HI) {
        return LLVMBuildMul(B, x, y, "");
    }
    val_t p = LLVMBuildMul(B, extend(gen, x, bits * 2, sign), extend(gen, y, bits * 2, sign), "");
    return cut(gen, LLVMBuildLShr(B, p, gen_like(p, bits), ""), bits);
}

static val_t multiply24(cpu_gen_t *gen, val_t x, val_t y)
{
    bool sign = is_signed(gen->i);
    val_t eight = gen_like(x, 8);
    x = LLVMBuildShl(B, x, eight, "");
    y = LLVMBuildShl(B, y, eight, "");
    x = sign ? LLVMBuildAShr(B, x, eight, "") : LLVMBuildLShr(B, x, eight, "");
    y = sign ? LLVMBuildAShr(B, y, eight, "") : LLVMBuildLShr(B, y, eight, "");
    if (gen->i->mode == PTX_MUL_LO) {
        return LLVMBuildMul(B, x, y, "");
    }
    val_t p = LLVMBuildMul(B, extend(gen, x, 64, sign), extend(gen, y, 64, sign), "");
    return cut(gen, LLVMBuildLShr(B, p, gen_like(p, 16), ""), 32);
}

/* Shifts of PTX clamp their amount, which is always 32 bits. */
static val_t shift(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    val_t x = gen_src(gen, 0, i->type, vec), n = gen_src(gen, 1, PTX_U32, vec);
    unsigned bits = width_of(x);
    bool arithmetic = i->op == PTX_OP_SHR && is_signed(i);
    val_t far = LLVMBuildICmp(B, LLVMIntUGE, n, gen_like(n, bits), "");
    n = LLVMBuildSelect(B, far, gen_like(n, arithmetic ? bits - 1 : 0), n, "");
    n = bits > 32 ? extend(gen, n, bits, false) : bits < 32 ? cut(gen, n, bits) : n;
    if (arithmetic) {
        return LLVMBuildAShr(B, x, n, "");
    }
    val_t r = i->op == PTX_OP_SHL ? LLVMBuildShl(B, x, n, "") : LLVMBuildLShr(B, x, n, "");
    return LLVMBuildSelect(B, far, gen_like(r, 0), r, "");
}

static val_t funnel(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    val_t lo = gen_src(gen, 0, PTX_B32, vec), hi = gen_src(gen, 1, PTX_B32, vec);
    val_t n = gen_src(gen, 2, PTX_U32, vec);
    bool left = i->mode == PTX_SHF_L_CLAMP || i->mode == PTX_SHF_L_WRAP;
    bool clamp = i->mode == PTX_SHF_L_CLAMP || i->mode == PTX_SHF_R_CLAMP;
    val_t x = LLVMBuildOr(
        B, LLVMBuildShl(B, extend(gen, hi, 64, false), gen_const(gen, gen->i64, vec, 32), ""),
        extend(gen, lo, 64, false), "");
    n = clamp ? gen_call2(gen, "llvm.umin", n, gen_like(n, 32))
              : LLVMBuildAnd(B, n, gen_like(n, 31), "");
    n = extend(gen, n, 64, false);
    val_t r = left ? LLVMBuildLShr(B, LLVMBuildShl(B, x, n, ""), gen_like(x, 32), "")
                   : LLVMBuildLShr(B, x, n, "");
    return cut(gen, r, 32);
}

/* Ones in the low n bits, n <= bits. */
static val_t low_ones(cpu_gen_t *gen, val_t n)
{
    unsigned bits = width_of(n);
    val_t full = LLVMBuildICmp(B, LLVMIntUGE, n, gen_like(n, bits), "");
    val_t m = LLVMBuildSelect(B, full, gen_like(n, 0), n, "");
    m = LLVMBuildSub(B, LLVMBuildShl(B, gen_like(n, 1), m, ""), gen_like(n, 1), "");
    return LLVMBuildSelect(B, full, gen_like(n, UINT64_MAX), m, "");
}

static val_t field_operand(cpu_gen_t *gen, unsigned n, unsigned bits, bool vec)
{
    val_t v = gen_src(gen, n, PTX_U32, vec);
    v = LLVMBuildAnd(B, v, gen_like(v, 255), "");
    return bits == 64 ? extend(gen, v, 64, false) : v;
}

static val_t safe_shift(cpu_gen_t *gen, val_t x, val_t n, bool left)
{
    val_t far = LLVMBuildICmp(B, LLVMIntUGE, n, gen_like(n, width_of(x)), "");
    n = LLVMBuildSelect(B, far, gen_like(n, 0), n, "");
    val_t r = left ? LLVMBuildShl(B, x, n, "") : LLVMBuildLShr(B, x, n, "");
    return LLVMBuildSelect(B, far, gen_like(r, 0), r, "");
}

static val_t extract_field(cpu_gen_t *gen, bool vec)
{
    val_t x = gen_src(gen, 0, gen->i->type, vec);
    unsigned bits = width_of(x);
    val_t pos = field_operand(gen, 1, bits, vec), len = field_operand(gen, 2, bits, vec);
    val_t field = LLVMBuildAnd(B, safe_shift(gen, x, pos, false), low_ones(gen, len), "");
    if (!is_signed(gen->i)) {
        return field;
    }
    /* the sign bit is the field's last one, or the word's if the field reaches beyond */
    val_t last = LLVMBuildSub(B, LLVMBuildAdd(B, pos, len, ""), gen_like(pos, 1), "");
    last = gen_call2(gen, "llvm.umin", last, gen_like(last, bits - 1));
    val_t sign = LLVMBuildAnd(B, LLVMBuildLShr(B, x, last, ""), gen_like(x, 1), "");
    val_t empty = LLVMBuildICmp(B, LLVMIntEQ, len, gen_like(len, 0), "");
    sign = LLVMBuildSelect(B, empty, gen_like(sign, 0), sign, "");
    val_t inside = gen_call2(gen, "llvm.usub.sat", gen_like(pos, bits), pos);
    inside = low_ones(gen, gen_call2(gen, "llvm.umin", len, inside));
    val_t fill = LLVMBuildAnd(B, LLVMBuildNeg(B, sign, ""), LLVMBuildNot(B, inside, ""), "");
    return LLVMBuildOr(B, field, fill, "");
}

static val_t insert_field(cpu_gen_t *gen, bool vec)
{
    val_t f = gen_src(gen, 0, gen->i->type, vec), x = gen_src(gen, 1, gen->i->type, vec);
    unsigned bits = width_of(x);
    val_t pos = field_operand(gen, 2, bits, vec), len = field_operand(gen, 3, bits, vec);
    val_t mask = safe_shift(gen, low_ones(gen, len), pos, true);
    f = LLVMBuildAnd(B, safe_shift(gen, f, pos, true), mask, "");
    return LLVMBuildOr(B, LLVMBuildAnd(B, x, LLVMBuildNot(B, mask, ""), ""), f, "");
}

static val_t find_leading(cpu_gen_t *gen, val_t x)
{
    unsigned bits = width_of(x);
    if (is_signed(gen->i)) {
        val_t sign = LLVMBuildAShr(B, x, gen_like(x, bits - 1), "");
        x = LLVMBuildXor(B, x, sign, "");
    }
    type_t t = LLVMTypeOf(x);
    val_t n = gen_call(gen, "llvm.ctlz", &t, 1, (val_t[]){x, LLVMConstInt(gen->i1, 0, 0)}, 2);
    if ((gen->i->flags & PTX_F_SHIFTAMT) == 0) {
        n = LLVMBuildSub(B, gen_like(n, bits - 1), n, "");
    }
    val_t none = LLVMBuildICmp(B, LLVMIntEQ, x, gen_like(x, 0), "");
    n = LLVMBuildSelect(B, none, gen_like(n, UINT64_MAX), n, "");
    return bits == 64 ? cut(gen, n, 32) : n;
}

static val_t count_leading(cpu_gen_t *gen, val_t x)
{
    type_t t = LLVMTypeOf(x);
    val_t n = gen_call(gen, "llvm.ctlz", &t, 1, (val_t[]){x, LLVMConstInt(gen->i1, 0, 0)}, 2);
    return width_of(x) == 64 ? cut(gen, n, 32) : n;
}

static val_t saturated(cpu_gen_t *gen, val_t x, val_t y)
{
    return gen_call2(gen, gen->i->op == PTX_OP_ADD ? "llvm.sadd.sat" : "llvm.ssub.sat", x, y);
}

static val_t relu(cpu_gen_t *gen, val_t x)
{
    return gen->i->flags & PTX_F_RELU ? gen_call2(gen, "llvm.smax", x, gen_like(x, 0)) : x;
}

static val_t binary(cpu_gen_t *gen, val_t x, val_t y)
{
    const ptx_instr_t *i = gen->i;
    bool sign = is_signed(i);
    switch (i->op) {
    case PTX_OP_ADD:
        return i->flags & PTX_F_SAT ? saturated(gen, x, y) : LLVMBuildAdd(B, x, y, "");
    case PTX_OP_SUB:
        return i->flags & PTX_F_SAT ? saturated(gen, x, y) : LLVMBuildSub(B, x, y, "");
    case PTX_OP_MUL:
        return gen_multiply(gen, x, y);
    case PTX_OP_MUL24:
        return multiply24(gen, x, y);
    case PTX_OP_DIV:
    case PTX_OP_REM:
        return gen_divide(gen, x, y, sign, i->op == PTX_OP_REM);
    case PTX_OP_MIN:
        return relu(gen, gen_call2(gen, sign ? "llvm.smin" : "llvm.umin", x, y));
    case PTX_OP_MAX:
        return relu(gen, gen_call2(gen, sign ? "llvm.smax" : "llvm.umax", x, y));
    case PTX_OP_AND:
        return LLVMBuildAnd(B, x, y, "");
    case PTX_OP_OR:
        return LLVMBuildOr(B, x, y, "");
    case PTX_OP_XOR:
        return LLVMBuildXor(B, x, y, "");
    default:
        gen_fail(gen, i->mnemonic);
        return x;
    }
}

static val_t unary(cpu_gen_t *gen, val_t x)
{
    switch (gen->i->op) {
    case PTX_OP_NOT:
        return LLVMBuildNot(B, x, "");
    case PTX_OP_NEG:
        return LLVMBuildNeg(B, x, "");
    case PTX_OP_ABS:
        return abs_of(gen, x);
    case PTX_OP_CNOT:
        return extend(gen, LLVMBuildICmp(B, LLVMIntEQ, x, gen_like(x, 0), ""), width_of(x), false);
    case PTX_OP_POPC:
        x = gen_call1(gen, "llvm.ctpop", x);
        return width_of(x) == 64 ? cut(gen, x, 32) : x;
    case PTX_OP_CLZ:
        return count_leading(gen, x);
    case PTX_OP_BFIND:
        return find_leading(gen, x);
    case PTX_OP_BREV:
        return gen_call1(gen, "llvm.bitreverse", x);
    default:
        gen_fail(gen, gen->i->mnemonic);
        return x;
    }
}

static val_t multiply_add(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    val_t x = gen_src(gen, 0, i->type, vec), y = gen_src(gen, 1, i->type, vec);
    val_t p = i->op == PTX_OP_MAD24 ? multiply24(gen, x, y) : gen_multiply(gen, x, y);
    unsigned wide = i->type == PTX_U16 || i->type == PTX_S16 ? PTX_U32 : PTX_U64;
    unsigned type = i->op == PTX_OP_MAD && i->mode == PTX_MUL_WIDE ? wide : i->type;
    val_t z = gen_src(gen, 2, type, vec);
    return i->flags & PTX_F_SAT ? gen_call2(gen, "llvm.sadd.sat", p, z) : LLVMBuildAdd(B, p, z, "");
}

static val_t absolute_difference(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    val_t x = gen_src(gen, 0, i->type, vec), y = gen_src(gen, 1, i->type, vec);
    val_t less = LLVMBuildICmp(B, is_signed(i) ? LLVMIntSLT : LLVMIntULT, x, y, "");
    val_t d = LLVMBuildSelect(B, less, LLVMBuildSub(B, y, x, ""), LLVMBuildSub(B, x, y, ""), "");
    return LLVMBuildAdd(B, d, gen_src(gen, 2, i->type, vec), "");
}

/* Pairs of 16-bit integers: vectors of twice as many elements. */
static void packed16(cpu_gen_t *gen, bool vec)
{
    val_t v[2];
    for (unsigned n = 0; n < 2; n++) {
        v[n] = gen_src(gen, n, PTX_B32, vec);
        v[n] = LLVMBuildBitCast(B, v[n], LLVMVectorType(gen->i16, vec ? 2 * gen->W : 2), "");
    }
    val_t r = binary(gen, v[0], v[1]);
    r = LLVMBuildBitCast(B, r, gen_shape(gen, gen->i32, vec), "");
    gen_write(gen, ptx_dst(gen->f, gen->i, 0), r, PTX_B32);
}

static unsigned result_type(const ptx_instr_t *i)
{
    bool sign = is_signed(i);
    switch (i->op) {
    case PTX_OP_POPC:
    case PTX_OP_CLZ:
    case PTX_OP_BFIND:
        return PTX_U32;
    case PTX_OP_MUL:
    case PTX_OP_MAD:
        if (i->mode == PTX_MUL_WIDE) {
            return ptx_type_size((ptx_type_t)i->type) == 2 ? (sign ? PTX_S32 : PTX_U32)
                                                           : (sign ? PTX_S64 : PTX_U64);
        }
        return i->type;
    default:
        return i->type;
    }
}

void gen_integer(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    val_t r;
    if ((i->flags & PTX_F_CC) != 0) {
        gen_carry(gen, vec);
        return;
    }
    if (i->type == PTX_S16X2 || i->type == PTX_U16X2) {
        packed16(gen, vec);
        return;
    }
    switch (i->op) {
    case PTX_OP_SHL:
    case PTX_OP_SHR:
        r = shift(gen, vec);
        break;
    case PTX_OP_SHF:
        r = funnel(gen, vec);
        break;
    case PTX_OP_BFE:
        r = extract_field(gen, vec);
        break;
    case PTX_OP_BFI:
        r = insert_field(gen, vec);
        break;
    case PTX_OP_LOP3:
    case PTX_OP_PRMT:
    case PTX_OP_DP4A:
    case PTX_OP_DP2A:
    case PTX_OP_FNS:
    case PTX_OP_SZEXT:
    case PTX_OP_BMSK:
        gen_bits32(gen, vec);
        return;
    case PTX_OP_ADDC:
    case PTX_OP_SUBC:
    case PTX_OP_MADC:
        gen_carry(gen, vec);
        return;
    case PTX_OP_MAD:
    case PTX_OP_MAD24:
        r = multiply_add(gen, vec);
        break;
    case PTX_OP_SAD:
        r = absolute_difference(gen, vec);
        break;
    default:
        r = gen_src(gen, 0, i->type, vec);
        r = i->src_count == 1 ? unary(gen, r) : binary(gen, r, gen_src(gen, 1, i->type, vec));
    }
    gen_write(gen, ptx_dst(gen->f, i, 0), r, result_type(i));
}

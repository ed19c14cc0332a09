/* Comparisons, selections and moves. */
#include "gpu-proxy/cpu/jit/gen_float.h"

#define B gen->b

static LLVMRealPredicate float_predicate(unsigned cmp)
{
    switch (cmp) {
    case PTX_CMP_EQ:
        return LLVMRealOEQ;
    case PTX_CMP_NE:
        return LLVMRealONE;
    case PTX_CMP_LT:
        return LLVMRealOLT;
    case PTX_CMP_LE:
        return LLVMRealOLE;
    case PTX_CMP_GT:
        return LLVMRealOGT;
    case PTX_CMP_GE:
        return LLVMRealOGE;
    case PTX_CMP_EQU:
        return LLVMRealUEQ;
    case PTX_CMP_NEU:
        return LLVMRealUNE;
    case PTX_CMP_LTU:
        return LLVMRealULT;
    case PTX_CMP_LEU:
        return LLVMRealULE;
    case PTX_CMP_GTU:
        return LLVMRealUGT;
    case PTX_CMP_GEU:
        return LLVMRealUGE;
    case PTX_CMP_NUM:
        return LLVMRealORD;
    default:
        return LLVMRealUNO;
    }
}

LLVMIntPredicate gen_int_predicate(unsigned cmp, bool sign)
{
    switch (cmp) {
    case PTX_CMP_EQ:
        return LLVMIntEQ;
    case PTX_CMP_NE:
        return LLVMIntNE;
    case PTX_CMP_LT:
        return sign ? LLVMIntSLT : LLVMIntULT;
    case PTX_CMP_LE:
        return sign ? LLVMIntSLE : LLVMIntULE;
    case PTX_CMP_GT:
        return sign ? LLVMIntSGT : LLVMIntUGT;
    case PTX_CMP_GE:
        return sign ? LLVMIntSGE : LLVMIntUGE;
    case PTX_CMP_LO:
        return LLVMIntULT;
    case PTX_CMP_LS:
        return LLVMIntULE;
    case PTX_CMP_HI:
        return LLVMIntUGT;
    default:
        return LLVMIntUGE;
    }
}

static val_t compare(cpu_gen_t *gen, unsigned type, val_t x, val_t y)
{
    const ptx_instr_t *i = gen->i;
    if (ptx_type_is_float((ptx_type_t)type)) {
        return LLVMBuildFCmp(B, float_predicate(i->cmp), x, y, "");
    }
    return LLVMBuildICmp(B, gen_int_predicate(i->cmp, ptx_type_is_signed((ptx_type_t)type)), x, y,
                         "");
}

static val_t combine(cpu_gen_t *gen, val_t r, val_t p)
{
    switch (gen->i->boolop) {
    case PTX_BOOL_AND:
        return LLVMBuildAnd(B, r, p, "");
    case PTX_BOOL_OR:
        return LLVMBuildOr(B, r, p, "");
    case PTX_BOOL_XOR:
        return LLVMBuildXor(B, r, p, "");
    default:
        return r;
    }
}

static bool is_pair(unsigned type)
{
    return type == PTX_F16X2 || type == PTX_BF16X2;
}

/* What the operands' comparison gives: one predicate, or one for each half of a pair. */
static void comparison(cpu_gen_t *gen, unsigned type, bool vec, val_t r[2])
{
    val_t x[2], y[2];
    if (gen_is_half(type)) {
        gen_half_operands(gen, type, vec, x, y);
        r[1] = is_pair(type) ? compare(gen, type, x[1], y[1]) : NULL;
    } else {
        x[0] = gen_src(gen, 0, type, vec);
        y[0] = gen_src(gen, 1, type, vec);
        if (type == PTX_F32 && (gen->i->flags & PTX_F_FTZ) != 0) {
            x[0] = gen_flush(gen, x[0]);
            y[0] = gen_flush(gen, y[0]);
        }
        r[1] = NULL;
    }
    r[0] = compare(gen, type, x[0], y[0]);
}

/* p = (a cmp b) op c;  q = !(a cmp b) op c, of pairs: that of the upper halves */
static void set_predicate(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    val_t r[2];
    comparison(gen, i->type, vec, r);
    r[1] = r[1] != NULL ? r[1] : LLVMBuildNot(B, r[0], "");
    val_t c = i->boolop != PTX_BOOL_NONE ? gen_src(gen, 2, PTX_PRED, vec) : NULL;
    for (unsigned n = 0; n < i->dst_count; n++) { /* a result may be an operand, too: read first */
        r[n] = combine(gen, r[n], c);
    }
    for (unsigned n = 0; n < i->dst_count; n++) {
        gen_write(gen, ptx_dst(gen->f, i, n), r[n], PTX_PRED);
    }
}

/* What `set` gives for true, as bits. */
static uint64_t truth(unsigned type)
{
    switch (type) {
    case PTX_F32:
        return 0x3f800000;
    case PTX_F16:
        return 0x3c00;
    case PTX_BF16:
        return 0x3f80;
    case PTX_F16X2:
        return 0x3c003c00;
    case PTX_BF16X2:
        return 0x3f803f80;
    default:
        return UINT64_MAX;
    }
}

/* set: all ones or 1.0; of pairs in each half. */
static void set_value(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    unsigned bits = ptx_type_size((ptx_type_t)i->type) * 8;
    val_t r[2], c = NULL, one = gen_const(gen, gen_int(gen, bits), vec, truth(i->type));
    comparison(gen, i->type2, vec, r);
    if (i->boolop != PTX_BOOL_NONE) {
        c = gen_src(gen, 2, PTX_PRED, vec);
    }
    val_t v = LLVMBuildSExt(B, combine(gen, r[0], c), LLVMTypeOf(one), "");
    if (r[1] != NULL) {
        val_t hi = LLVMBuildSExt(B, combine(gen, r[1], c), LLVMTypeOf(one), "");
        v = LLVMBuildAnd(B, v, gen_like(v, 0xffff), "");
        v = LLVMBuildOr(B, v, LLVMBuildShl(B, hi, gen_like(hi, 16), ""), "");
    }
    v = LLVMBuildAnd(B, v, one, "");
    gen_write(gen, ptx_dst(gen->f, i, 0), v,
              ptx_type_is_float((ptx_type_t)i->type) ? (bits == 16 ? PTX_B16 : PTX_B32) : i->type);
}

static void select_by_sign(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    val_t c = gen_src(gen, 2, i->type2, vec), p;
    if (i->type2 == PTX_F32) {
        c = i->flags & PTX_F_FTZ ? gen_flush(gen, c) : c;
        p = LLVMBuildFCmp(B, LLVMRealOGE, c, gen_flike(c, 0.0), "");
    } else {
        p = LLVMBuildICmp(B, LLVMIntSGE, c, gen_like(c, 0), "");
    }
    val_t v =
        LLVMBuildSelect(B, p, gen_src(gen, 0, i->type, vec), gen_src(gen, 1, i->type, vec), "");
    gen_write(gen, ptx_dst(gen->f, i, 0), v, i->type);
}

static void test_property(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    bool single = i->type == PTX_F32;
    val_t x = gen_src(gen, 0, i->type, vec), a = gen_call1(gen, "llvm.fabs", x), r;
    val_t infinite = gen_flike(x, __builtin_inf());
    val_t tiny = gen_flike(x, single ? 0x1p-126 : 0x1p-1022), zero = gen_flike(x, 0.0);
    switch (i->mode) {
    case PTX_TESTP_FINITE:
        r = LLVMBuildFCmp(B, LLVMRealOLT, a, infinite, "");
        break;
    case PTX_TESTP_INFINITE:
        r = LLVMBuildFCmp(B, LLVMRealOEQ, a, infinite, "");
        break;
    case PTX_TESTP_NUMBER:
        r = LLVMBuildFCmp(B, LLVMRealORD, x, x, "");
        break;
    case PTX_TESTP_NOTANUMBER:
        r = LLVMBuildFCmp(B, LLVMRealUNO, x, x, "");
        break;
    case PTX_TESTP_NORMAL:
        r = LLVMBuildAnd(B, LLVMBuildFCmp(B, LLVMRealOGE, a, tiny, ""),
                         LLVMBuildFCmp(B, LLVMRealOLT, a, infinite, ""), "");
        break;
    default:
        r = LLVMBuildAnd(B, LLVMBuildFCmp(B, LLVMRealOLT, a, tiny, ""),
                         LLVMBuildFCmp(B, LLVMRealOGT, a, zero, ""), "");
    }
    gen_write(gen, ptx_dst(gen->f, i, 0), r, PTX_PRED);
}

void gen_compare(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    switch (i->op) {
    case PTX_OP_SETP:
        set_predicate(gen, vec);
        break;
    case PTX_OP_SET:
        set_value(gen, vec);
        break;
    case PTX_OP_SLCT:
        select_by_sign(gen, vec);
        break;
    case PTX_OP_TESTP:
        test_property(gen, vec);
        break;
    default: {
        val_t p = gen_src(gen, 2, PTX_PRED, vec);
        val_t x = gen_src(gen, 0, i->type, vec), y = gen_src(gen, 1, i->type, vec);
        gen_write(gen, ptx_dst(gen->f, i, 0), LLVMBuildSelect(B, p, x, y, ""), i->type);
    }
    }
}

/* ---- moves ---- */

static unsigned unsigned_type(unsigned bytes)
{
    return bytes == 1   ? PTX_U8
           : bytes == 2 ? PTX_U16
           : bytes == 4 ? PTX_U32
           : bytes == 8 ? PTX_U64
                        : PTX_B128;
}

/* mov.b64 d, {a, b}: the first element is the lowest. */
static void pack(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    const ptx_operand_t *s = ptx_src(gen->f, i, 0);
    unsigned bytes = ptx_type_size((ptx_type_t)i->type), part = bytes / s->count;
    type_t t = gen_shape(gen, gen_int(gen, bytes * 8), vec);
    val_t all = LLVMConstNull(t);
    for (unsigned n = 0; n < s->count; n++) {
        val_t v = gen_read(gen, ptx_element(gen->f, s, n), unsigned_type(part), vec);
        v = LLVMBuildZExt(B, v, t, "");
        v = LLVMBuildShl(B, v, gen_like(v, (uint64_t)n * part * 8), "");
        all = LLVMBuildOr(B, all, v, "");
    }
    gen_write(gen, ptx_dst(gen->f, i, 0), all, unsigned_type(bytes));
}

static void unpack(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    const ptx_operand_t *d = ptx_dst(gen->f, i, 0);
    unsigned bytes = ptx_type_size((ptx_type_t)i->type), part = bytes / d->count;
    val_t x = gen_src(gen, 0, unsigned_type(bytes), vec);
    type_t t = gen_shape(gen, gen_int(gen, part * 8), vec);
    for (unsigned n = 0; n < d->count; n++) {
        val_t v = LLVMBuildLShr(B, x, gen_like(x, (uint64_t)n * part * 8), "");
        v = LLVMBuildTrunc(B, v, t, "");
        gen_write(gen, ptx_element(gen->f, d, n), v, unsigned_type(part));
    }
}

/* The generic space holds host addresses. */
static void cross_space(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    val_t x = gen_src(gen, 0, PTX_U64, vec), window = NULL;
    if (i->space == PTX_SPACE_SHARED) {
        window = LLVMBuildPtrToInt(B, gen->shared, gen->i64, "");
    } else if (i->space == PTX_SPACE_LOCAL) {
        uint64_t frame = (gen->f->local_size + 15) & ~(uint64_t)15;
        gen->uses_local = true;
        window = LLVMBuildZExt(B, gen->linear[gen->g], gen->i64, "");
        window = LLVMBuildMul(B, window, gen_like(window, frame), "");
        window = LLVMBuildAdd(B, window, LLVMBuildPtrToInt(B, gen->local, gen->i64, ""), "");
        if (vec) {
            window = LLVMBuildAdd(B, gen_splat(gen, window),
                                  gen_lanes(gen, gen->i64, (int64_t)frame), "");
        }
    }
    if (window != NULL) {
        window = vec ? gen_splat(gen, window) : window;
        x = i->flags & PTX_F_TO ? LLVMBuildSub(B, x, window, "") : LLVMBuildAdd(B, x, window, "");
    }
    gen_write(gen, ptx_dst(gen->f, i, 0), x, PTX_U64);
}

void gen_move(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    if (i->op == PTX_OP_CVTA) {
        cross_space(gen, vec);
    } else if (ptx_src(gen->f, i, 0)->kind == PTX_OPERAND_VECTOR) {
        pack(gen, vec);
    } else if (ptx_dst(gen->f, i, 0)->kind == PTX_OPERAND_VECTOR) {
        unpack(gen, vec);
    } else {
        gen_write(gen, ptx_dst(gen->f, i, 0), gen_src(gen, 0, i->type, vec), i->type);
    }
}

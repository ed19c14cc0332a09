/* Video instructions, scalar and with two or four elements side by side. They are rare: everything is
 * computed on 64 bits, where no sum or difference overflows; vmad on 128. */
#include "gpu-proxy/cpu/jit/gen.h"
#include "gpu-proxy/cpu/jit/video.h"

#include <string.h>

#define B gen->b

static val_t to64(cpu_gen_t *gen, val_t x, bool sign)
{
    type_t t = gen_same(x, gen->i64);
    return sign ? LLVMBuildSExt(B, x, t, "") : LLVMBuildZExt(B, x, t, "");
}

/* Bits [at, at + bits) of an i64, extended. */
static val_t field(cpu_gen_t *gen, val_t x, unsigned at, unsigned bits, bool sign)
{
    x = LLVMBuildShl(B, x, gen_like(x, 64 - at - bits), "");
    return sign ? LLVMBuildAShr(B, x, gen_like(x, 64 - bits), "")
                : LLVMBuildLShr(B, x, gen_like(x, 64 - bits), "");
}

/* All 32 bits of a source, without what its operand says of parts and signs. */
static val_t whole(cpu_gen_t *gen, unsigned n, bool vec)
{
    ptx_operand_t o = *ptx_src(gen->f, gen->i, n);
    o.negated = 0;
    return to64(gen, gen_read(gen, &o, PTX_B32, vec), false);
}

static val_t limit(cpu_gen_t *gen, val_t x, unsigned bits, bool sign)
{
    int64_t high = ((int64_t)1 << (sign ? bits - 1 : bits)) - 1, low = sign ? -high - 1 : 0;
    x = gen_call2(gen, "llvm.smax", x, gen_like(x, (uint64_t)low));
    return gen_call2(gen, "llvm.smin", x, gen_like(x, (uint64_t)high));
}

static val_t compare(cpu_gen_t *gen, const char *cmp, val_t x, val_t y)
{
    static const struct {
        char name[3];
        LLVMIntPredicate predicate;
    } table[] = {{"eq", LLVMIntEQ},  {"ne", LLVMIntNE},  {"lt", LLVMIntSLT},
                 {"le", LLVMIntSLE}, {"gt", LLVMIntSGT}, {"ge", LLVMIntSGE}};
    unsigned n = 0;
    while (n < 5 && strcmp(table[n].name, cmp) != 0) {
        n++;
    }
    val_t r = LLVMBuildICmp(B, table[n].predicate, x, y, "");
    return LLVMBuildZExt(B, r, LLVMTypeOf(x), "");
}

/* Amounts above 32 are as 32, or their low five bits count. A shift by 32 is one by 31 and one more
 * that saturates, so that what lies beyond 64 bits is not lost. */
static val_t shift(cpu_gen_t *gen, const video_t *v, val_t x, val_t n)
{
    n = v->wrap ? LLVMBuildAnd(B, n, gen_like(n, 31), "")
                : gen_call2(gen, "llvm.umin", n, gen_like(n, 32));
    if (v->op == VIDEO_SHR) {
        return LLVMBuildAShr(B, x, n, "");
    }
    val_t far = LLVMBuildICmp(B, LLVMIntUGT, n, gen_like(n, 31), "");
    val_t r = LLVMBuildShl(B, x, gen_call2(gen, "llvm.umin", n, gen_like(n, 31)), "");
    val_t twice = v->sat ? gen_call2(gen, "llvm.sadd.sat", r, r) : LLVMBuildAdd(B, r, r, "");
    return LLVMBuildSelect(B, far, twice, r, "");
}

static val_t average(cpu_gen_t *gen, val_t x, val_t y)
{
    val_t s = LLVMBuildAdd(B, x, y, "");
    val_t up = LLVMBuildICmp(B, LLVMIntSGE, s, gen_like(s, 0), "");
    s = LLVMBuildAdd(B, s, LLVMBuildZExt(B, up, LLVMTypeOf(s), ""), "");
    return LLVMBuildAShr(B, s, gen_like(s, 1), "");
}

static val_t operate(cpu_gen_t *gen, const video_t *v, val_t x, val_t y)
{
    switch (v->op) {
    case VIDEO_ADD:
        return LLVMBuildAdd(B, x, y, "");
    case VIDEO_SUB:
        return LLVMBuildSub(B, x, y, "");
    case VIDEO_ABSDIFF: {
        val_t d = LLVMBuildSub(B, x, y, "");
        type_t t = LLVMTypeOf(d);
        return gen_call(gen, "llvm.abs", &t, 1, (val_t[]){d, LLVMConstInt(gen->i1, 0, 0)}, 2);
    }
    case VIDEO_MIN:
        return gen_call2(gen, "llvm.smin", x, y);
    case VIDEO_MAX:
        return gen_call2(gen, "llvm.smax", x, y);
    case VIDEO_SHL:
    case VIDEO_SHR:
        return shift(gen, v, x, y);
    case VIDEO_SET:
        return compare(gen, v->cmp, x, y);
    default:
        return average(gen, x, y);
    }
}

/* ---- scalar ---- */

static val_t scalar_source(cpu_gen_t *gen, unsigned n, bool sign, bool vec)
{
    const ptx_operand_t *o = ptx_src(gen->f, gen->i, n);
    val_t x = whole(gen, n, vec);
    if (o->kind != PTX_OPERAND_REG || o->base == 0) {
        return field(gen, x, 0, 32, sign);
    }
    unsigned bits = o->base == 'b' ? 8 : 16;
    return field(gen, x, (unsigned)o->value * bits, bits, sign);
}

static val_t second(cpu_gen_t *gen, const video_t *v, val_t x, val_t c)
{
    if (v->second == '+') {
        return LLVMBuildAdd(B, x, c, "");
    }
    x = field(gen, x, 0, 32, v->signed_d);
    c = field(gen, c, 0, 32, v->signed_d);
    return gen_call2(gen, v->second == '<' ? "llvm.smin" : "llvm.smax", x, c);
}

static val_t multiply_add(cpu_gen_t *gen, const video_t *v, bool vec)
{
    const ptx_instr_t *i = gen->i;
    bool minus_ab = ptx_src(gen->f, i, 0)->negated != ptx_src(gen->f, i, 1)->negated;
    bool minus_c = ptx_src(gen->f, i, 2)->negated != 0;
    bool sign = v->signed_a || v->signed_b || minus_ab || minus_c;
    val_t a = scalar_source(gen, 0, v->signed_a, vec), b = scalar_source(gen, 1, v->signed_b, vec);
    val_t c = field(gen, whole(gen, 2, vec), 0, 32, sign);
    type_t t = gen_same(a, gen_int(gen, 128));
    val_t p = LLVMBuildMul(B, LLVMBuildSExt(B, a, t, ""), LLVMBuildSExt(B, b, t, ""), "");
    c = LLVMBuildSExt(B, c, t, "");
    if (v->plus_one) {
        p = LLVMBuildAdd(B, LLVMBuildAdd(B, p, c, ""), gen_like(p, 1), "");
    } else {
        p = minus_ab ? LLVMBuildNeg(B, p, "") : p;
        p = !minus_ab && minus_c ? LLVMBuildSub(B, p, c, "") : LLVMBuildAdd(B, p, c, "");
    }
    p = LLVMBuildAShr(B, p, gen_like(p, v->scale), "");
    val_t r = LLVMBuildTrunc(B, p, LLVMTypeOf(a), "");
    if (v->sat) {
        r = sign ? limit(gen, r, 32, true)
                 : gen_call2(gen, "llvm.umin", r, gen_like(r, UINT32_MAX));
    }
    return r;
}

static val_t scalar(cpu_gen_t *gen, const video_t *v, bool vec)
{
    const ptx_operand_t *d = ptx_dst(gen->f, gen->i, 0);
    if (v->op == VIDEO_MAD) {
        return multiply_add(gen, v, vec);
    }
    val_t x = scalar_source(gen, 0, v->signed_a, vec);
    val_t r = operate(gen, v, x, scalar_source(gen, 1, v->signed_b, vec));
    unsigned bits = d->kind != PTX_OPERAND_REG || d->base == 0 ? 32 : d->base == 'b' ? 8 : 16;
    r = v->sat ? limit(gen, r, bits, v->signed_d) : r;
    if (gen->i->src_count < 3) {
        return r;
    }
    val_t c = whole(gen, 2, vec);
    if (v->second != 0) {
        return second(gen, v, r, c);
    }
    unsigned at = (unsigned)d->value * bits;
    uint64_t mask = (((uint64_t)1 << bits) - 1) << at;
    r = LLVMBuildAnd(B, LLVMBuildShl(B, r, gen_like(r, at), ""), gen_like(r, mask), "");
    return LLVMBuildOr(B, r, LLVMBuildAnd(B, c, gen_like(c, ~mask), ""), "");
}

/* ---- two or four elements ---- */

/* Element n of a source: one of those of both a and b, which are one behind the other in `pair`. */
static val_t element(cpu_gen_t *gen, const video_t *v, val_t pair, unsigned source, unsigned n)
{
    const ptx_operand_t *o = ptx_src(gen->f, gen->i, source);
    unsigned bits = 32 / v->parts, which = source * v->parts + n;
    if (o->kind == PTX_OPERAND_REG && o->base != 0) {
        which = (unsigned)(o->value >> 4 * n) & 15;
    }
    return field(gen, pair, which * bits, bits, source == 0 ? v->signed_a : v->signed_b);
}

/* Is element n written (or added)? */
static bool in_mask(const ptx_operand_t *d, unsigned n)
{
    bool any = d->kind != PTX_OPERAND_REG || d->base == 0;
    for (unsigned k = 0; !any && k < d->count; k++) {
        any = (d->value >> 4 * k & 15) == n;
    }
    return any;
}

static val_t side_by_side(cpu_gen_t *gen, const video_t *v, bool vec)
{
    const ptx_operand_t *d = ptx_dst(gen->f, gen->i, 0);
    unsigned bits = 32 / v->parts;
    val_t a = whole(gen, 0, vec), b = whole(gen, 1, vec), c = whole(gen, 2, vec);
    val_t pair = LLVMBuildOr(B, a, LLVMBuildShl(B, b, gen_like(b, 32), ""), ""), r = c;
    for (unsigned n = 0; n < v->parts; n++) {
        if (!in_mask(d, n)) {
            continue;
        }
        val_t t = operate(gen, v, element(gen, v, pair, 0, n), element(gen, v, pair, 1, n));
        if (v->second == '+') {
            r = LLVMBuildAdd(B, r, t, "");
            continue;
        }
        t = v->sat ? limit(gen, t, bits, v->signed_d) : t;
        uint64_t mask = (((uint64_t)1 << bits) - 1) << bits * n;
        t = LLVMBuildAnd(B, LLVMBuildShl(B, t, gen_like(t, bits * n), ""), gen_like(t, mask), "");
        r = LLVMBuildOr(B, LLVMBuildAnd(B, r, gen_like(r, ~mask), ""), t, "");
    }
    return r;
}

void gen_video(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    video_t v;
    if (!cpu_video_decode(i->mnemonic, &v)) {
        gen_fail(gen, i->mnemonic);
        return;
    }
    val_t r = v.parts == 1 ? scalar(gen, &v, vec) : side_by_side(gen, &v, vec);
    r = LLVMBuildTrunc(B, r, gen_same(r, gen->i32), "");
    gen_write(gen, ptx_dst(gen->f, i, 0), r, PTX_B32);
}

/* Integer, logic and comparison instructions against the semantics of the PTX ISA manual. */
#include "tests/ptx/pt_device.h"

#include <stdio.h>
#include <string.h>

#include "tests/ptx/pt_row.h"

static const char *const int_types[] = {"u16", "s16", "u32", "s32", "u64", "s64"};
static const char *const bit_types[] = {"b16", "b32", "b64"};

/* The register of a type: "s16" h, "u32" w, "s64" d. */
static char reg_of(const char *type)
{
    return strcmp(type + 1, "16") == 0 ? 'h' : strcmp(type + 1, "64") == 0 ? 'd' : 'w';
}

/* "t=tt" for the type; other letters stay. The text lives through the next three calls. */
static const char *shaped(const char *type, const char *shape)
{
    static char texts[4][8];
    static unsigned turn;
    char *out = texts[turn++ % 4];
    snprintf(out, sizeof texts[0], "%s", shape);
    for (char *c = out; *c; c++) {
        if (*c == 't')
            *c = reg_of(type);
    }
    return out;
}

static int64_t s(const pt_op_t *op, uint64_t v)
{
    return pt_signed(v, op->bits);
}

static uint64_t u(const pt_op_t *op, uint64_t v)
{
    return pt_low(v, op->bits);
}

static uint64_t ref_add(const pt_op_t *op, const uint64_t *in)
{
    if (op->sat) {
        int64_t sum = s(op, in[0]) + s(op, in[1]);
        return (uint64_t)(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
    }
    return in[0] + in[1];
}

static uint64_t ref_sub(const pt_op_t *op, const uint64_t *in)
{
    if (op->sat) {
        int64_t sum = s(op, in[0]) - s(op, in[1]);
        return (uint64_t)(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
    }
    return in[0] - in[1];
}

static unsigned __int128 product(const pt_op_t *op, const uint64_t *in)
{
    return op->is_signed ? (unsigned __int128)((__int128)s(op, in[0]) * s(op, in[1]))
                         : (unsigned __int128)u(op, in[0]) * u(op, in[1]);
}

static uint64_t ref_mul_lo(const pt_op_t *op, const uint64_t *in)
{
    return (uint64_t)product(op, in);
}

static uint64_t ref_mul_hi(const pt_op_t *op, const uint64_t *in)
{
    return (uint64_t)(product(op, in) >> op->bits);
}

static uint64_t ref_mad_lo(const pt_op_t *op, const uint64_t *in)
{
    return (uint64_t)product(op, in) + in[2];
}

static uint64_t ref_mad_hi(const pt_op_t *op, const uint64_t *in)
{
    return (uint64_t)(product(op, in) >> op->bits) + in[2];
}

static uint64_t product24(const pt_op_t *op, const uint64_t *in)
{
    return op->is_signed ? (uint64_t)(pt_signed(in[0], 24) * pt_signed(in[1], 24))
                         : pt_low(in[0], 24) * pt_low(in[1], 24);
}

static uint64_t ref_mul24_lo(const pt_op_t *op, const uint64_t *in)
{
    return product24(op, in);
}

static uint64_t ref_mul24_hi(const pt_op_t *op, const uint64_t *in)
{
    return product24(op, in) >> 16;
}

static uint64_t ref_mad24_lo(const pt_op_t *op, const uint64_t *in)
{
    return product24(op, in) + in[2];
}

static uint64_t saturated(int64_t v)
{
    return (uint64_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}

static uint64_t ref_mad24_hi(const pt_op_t *op, const uint64_t *in)
{
    uint64_t high = product24(op, in) >> 16;
    return op->sat ? saturated(pt_signed(high, 32) + pt_signed(in[2], 32)) : high + in[2];
}

static uint64_t ref_mad_hi_sat(const pt_op_t *op, const uint64_t *in)
{
    return saturated(pt_signed((uint64_t)(product(op, in) >> 32), 32) + pt_signed(in[2], 32));
}

static uint64_t ref_sad(const pt_op_t *op, const uint64_t *in)
{
    bool less = op->is_signed ? s(op, in[0]) < s(op, in[1]) : u(op, in[0]) < u(op, in[1]);
    return in[2] + (less ? in[1] - in[0] : in[0] - in[1]);
}

static bool zero_divisor(const uint64_t *in)
{
    return in[1] == 0;
}

static uint64_t ref_div(const pt_op_t *op, const uint64_t *in)
{
    return op->is_signed ? (uint64_t)(__int128)((__int128)s(op, in[0]) / s(op, in[1]))
                         : u(op, in[0]) / u(op, in[1]);
}

static uint64_t ref_rem(const pt_op_t *op, const uint64_t *in)
{
    return op->is_signed ? (uint64_t)(__int128)((__int128)s(op, in[0]) % s(op, in[1]))
                         : u(op, in[0]) % u(op, in[1]);
}

static uint64_t ref_abs(const pt_op_t *op, const uint64_t *in)
{
    return s(op, in[0]) < 0 ? 0 - in[0] : in[0];
}

static uint64_t ref_neg(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return 0 - in[0];
}

static uint64_t ref_min(const pt_op_t *op, const uint64_t *in)
{
    bool less = op->is_signed ? s(op, in[0]) < s(op, in[1]) : u(op, in[0]) < u(op, in[1]);
    return less ? in[0] : in[1];
}

static uint64_t ref_max(const pt_op_t *op, const uint64_t *in)
{
    bool less = op->is_signed ? s(op, in[0]) < s(op, in[1]) : u(op, in[0]) < u(op, in[1]);
    return less ? in[1] : in[0];
}

static uint64_t ref_popc(const pt_op_t *op, const uint64_t *in)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < op->bits; i++)
        count += in[0] >> i & 1;
    return count;
}

static uint64_t ref_clz(const pt_op_t *op, const uint64_t *in)
{
    unsigned count = 0;
    while (count < op->bits && !(in[0] >> (op->bits - 1 - count) & 1))
        count++;
    return count;
}

static uint64_t ref_bfind(const pt_op_t *op, const uint64_t *in)
{
    uint64_t v = op->is_signed && s(op, in[0]) < 0 ? ~in[0] : in[0];
    for (unsigned i = op->bits; i-- > 0;) {
        if (v >> i & 1)
            return i;
    }
    return UINT32_MAX;
}

static uint64_t ref_bfind_shift(const pt_op_t *op, const uint64_t *in)
{
    uint64_t found = ref_bfind(op, in);
    return found == UINT32_MAX ? found : op->bits - 1 - found;
}

static uint64_t ref_brev(const pt_op_t *op, const uint64_t *in)
{
    uint64_t out = 0;
    for (unsigned i = 0; i < op->bits; i++)
        out |= (in[0] >> i & 1) << (op->bits - 1 - i);
    return out;
}

static uint64_t ref_bfe(const pt_op_t *op, const uint64_t *in)
{
    unsigned pos = in[1] & 255, len = in[2] & 255, msb = op->bits - 1;
    unsigned last = pos + len - 1 < msb ? pos + len - 1 : msb;
    uint64_t sign = op->is_signed && len ? in[0] >> last & 1 : 0, out = 0;
    for (unsigned i = 0; i <= msb; i++)
        out |= (i < len && pos + i <= msb ? in[0] >> (pos + i) & 1 : sign) << i;
    return out;
}

static uint64_t ref_bfi(const pt_op_t *op, const uint64_t *in)
{
    unsigned pos = in[2] & 255, len = in[3] & 255, msb = op->bits - 1;
    uint64_t out = in[1];
    for (unsigned i = 0; i < len && pos + i <= msb; i++)
        out = (out & ~((uint64_t)1 << (pos + i))) | (in[0] >> i & 1) << (pos + i);
    return out;
}

static uint64_t ref_dp4a(const pt_op_t *op, const uint64_t *in)
{
    uint64_t sum = in[2];
    for (unsigned i = 0; i < 4; i++) {
        uint64_t a = in[0] >> 8 * i & 255, b = in[1] >> 8 * i & 255;
        sum += (op->is_signed ? (uint64_t)pt_signed(a, 8) : a) *
               (op->is_signed2 ? (uint64_t)pt_signed(b, 8) : b);
    }
    return sum;
}

static uint64_t ref_and(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return in[0] & in[1];
}

static uint64_t ref_or(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return in[0] | in[1];
}

static uint64_t ref_xor(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return in[0] ^ in[1];
}

static uint64_t ref_not(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return ~in[0];
}

static uint64_t ref_cnot(const pt_op_t *op, const uint64_t *in)
{
    return u(op, in[0]) == 0;
}

static uint64_t lop3(uint64_t table, const uint64_t *in)
{
    uint64_t out = 0;
    for (unsigned i = 0; i < 32; i++) {
        unsigned row = (in[0] >> i & 1) << 2 | (in[1] >> i & 1) << 1 | (in[2] >> i & 1);
        out |= (table >> row & 1) << i;
    }
    return out;
}

static uint64_t ref_lop3_e8(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return lop3(0xe8, in);
}

static uint64_t ref_lop3_1d(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return lop3(0x1d, in);
}

static uint64_t ref_shl(const pt_op_t *op, const uint64_t *in)
{
    return in[1] >= op->bits ? 0 : in[0] << in[1];
}

static uint64_t ref_shr(const pt_op_t *op, const uint64_t *in)
{
    if (op->is_signed)
        return (uint64_t)(s(op, in[0]) >> (in[1] >= op->bits ? op->bits - 1 : in[1]));
    return in[1] >= op->bits ? 0 : u(op, in[0]) >> in[1];
}

/* d = the upper (l) or lower (r) half of the pair b:a, shifted. */
static uint64_t funnel(const uint64_t *in, bool right, bool wrap)
{
    uint64_t pair = in[1] << 32 | in[0];
    uint64_t n = wrap ? in[2] & 31 : in[2] > 32 ? 32 : in[2];
    return right ? pair >> n : (n == 32 ? pair << 32 : pair << n) >> 32;
}

static uint64_t ref_shf_lw(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return funnel(in, false, true);
}

static uint64_t ref_shf_lc(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return funnel(in, false, false);
}

static uint64_t ref_shf_rw(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return funnel(in, true, true);
}

static uint64_t ref_shf_rc(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return funnel(in, true, false);
}

static uint64_t pick_byte(const uint64_t *in, unsigned selector)
{
    uint64_t pair = in[1] << 32 | in[0], byte = pair >> 8 * (selector & 7) & 255;
    return selector & 8 ? (byte & 128 ? 255 : 0) : byte;
}

static uint64_t ref_prmt(const pt_op_t *op, const uint64_t *in)
{
    uint64_t out = 0;
    (void)op;
    for (unsigned i = 0; i < 4; i++)
        out |= pick_byte(in, in[2] >> 4 * i & 15) << 8 * i;
    return out;
}

static void test_arithmetic(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        const char *t = int_types[i];
        pt_add(shaped(t, "t=tt"), ref_add, "add.%s", t);
        pt_add(shaped(t, "t=tt"), ref_sub, "sub.%s", t);
        pt_add(shaped(t, "t=tt"), ref_mul_lo, "mul.lo.%s", t);
        pt_add(shaped(t, "t=tt"), ref_mul_hi, "mul.hi.%s", t);
        pt_add(shaped(t, "t=ttt"), ref_mad_lo, "mad.lo.%s", t);
        pt_add(shaped(t, "t=ttt"), ref_mad_hi, "mad.hi.%s", t);
        pt_add(shaped(t, "t=ttt"), ref_sad, "sad.%s", t);
        pt_add(shaped(t, "t=tt"), ref_div, "div.%s", t)->is_open = zero_divisor;
        pt_add(shaped(t, "t=tt"), ref_rem, "rem.%s", t)->is_open = zero_divisor;
        pt_add(shaped(t, "t=tt"), ref_min, "min.%s", t);
        pt_add(shaped(t, "t=tt"), ref_max, "max.%s", t);
        if (t[0] == 's') {
            pt_add(shaped(t, "t=t"), ref_abs, "abs.%s", t);
            pt_add(shaped(t, "t=t"), ref_neg, "neg.%s", t);
        }
    }
    pt_add("w=hh", ref_mul_lo, "mul.wide.u16");
    pt_add("w=hh", ref_mul_lo, "mul.wide.s16");
    pt_add("d=ww", ref_mul_lo, "mul.wide.u32");
    pt_add("d=ww", ref_mul_lo, "mul.wide.s32");
    pt_add("w=hhw", ref_mad_lo, "mad.wide.u16");
    pt_add("w=hhw", ref_mad_lo, "mad.wide.s16");
    pt_add("d=wwd", ref_mad_lo, "mad.wide.u32");
    pt_add("d=wwd", ref_mad_lo, "mad.wide.s32");
    pt_add("w=ww", ref_add, "add.sat.s32");
    pt_add("w=ww", ref_sub, "sub.sat.s32");
    pt_add("w=ww", ref_mul24_lo, "mul24.lo.u32");
    pt_add("w=ww", ref_mul24_lo, "mul24.lo.s32");
    pt_add("w=ww", ref_mul24_hi, "mul24.hi.u32");
    pt_add("w=ww", ref_mul24_hi, "mul24.hi.s32");
    pt_add("w=www", ref_mad24_lo, "mad24.lo.u32");
    pt_add("w=www", ref_mad24_lo, "mad24.lo.s32");
    pt_add("w=www", ref_mad24_hi, "mad24.hi.u32");
    pt_add("w=www", ref_mad24_hi, "mad24.hi.s32");
    pt_add("w=www", ref_mad24_hi, "mad24.hi.sat.s32");
    pt_add("w=www", ref_mad_hi_sat, "mad.hi.sat.s32");
    pt_add("w=www", ref_dp4a, "dp4a.u32.u32");
    pt_add("w=www", ref_dp4a, "dp4a.s32.s32");
    pt_add("w=www", ref_dp4a, "dp4a.s32.u32");
    pt_run_rows();
}

static pt_row_t *with_sources(pt_row_t *row, const char *sources)
{
    snprintf(row->sources, sizeof row->sources, "%s", sources);
    return row;
}

static void test_bits(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        const char *t = bit_types[i];
        pt_add(shaped(t, "t=tt"), ref_and, "and.%s", t);
        pt_add(shaped(t, "t=tt"), ref_or, "or.%s", t);
        pt_add(shaped(t, "t=tt"), ref_xor, "xor.%s", t);
        pt_add(shaped(t, "t=t"), ref_not, "not.%s", t);
        pt_add(shaped(t, "t=t"), ref_cnot, "cnot.%s", t);
        with_sources(pt_add(shaped(t, "t=tw"), ref_shl, "shl.%s", t), shaped(t, "ts"));
    }
    for (unsigned i = 0; i < 6; i++) {
        const char *t = int_types[i];
        with_sources(pt_add(shaped(t, "t=tw"), ref_shr, "shr.%s", t), shaped(t, "ts"));
        if (t[0] == 'u')
            with_sources(pt_add(shaped(t, "t=tw"), ref_shr, "shr.b%s", t + 1), shaped(t, "ts"));
    }
    for (unsigned i = 1; i < 3; i++) {
        const char *t = bit_types[i];
        pt_add(shaped(t, "w=t"), ref_popc, "popc.%s", t);
        pt_add(shaped(t, "w=t"), ref_clz, "clz.%s", t);
        pt_add(shaped(t, "t=t"), ref_brev, "brev.%s", t);
        with_sources(pt_add(shaped(t, "t=ttww"), ref_bfi, "bfi.%s", t), shaped(t, "ttss"));
    }
    for (unsigned i = 2; i < 6; i++) {
        const char *t = int_types[i];
        pt_add(shaped(t, "w=t"), ref_bfind, "bfind.%s", t);
        pt_add(shaped(t, "w=t"), ref_bfind_shift, "bfind.shiftamt.%s", t);
        with_sources(pt_add(shaped(t, "t=tww"), ref_bfe, "bfe.%s", t), shaped(t, "tss"));
    }
    pt_add("p=pp", ref_and, "and.pred");
    pt_add("p=pp", ref_or, "or.pred");
    pt_add("p=pp", ref_xor, "xor.pred");
    pt_add("p=p", ref_not, "not.pred");
    snprintf(pt_add("w=www", ref_lop3_e8, "lop3.b32")->fixed, 8, "0xE8");
    snprintf(pt_add("w=www", ref_lop3_1d, "lop3.b32")->fixed, 8, "0x1D");
    with_sources(pt_add("w=www", ref_shf_lw, "shf.l.wrap.b32"), "wws");
    with_sources(pt_add("w=www", ref_shf_lc, "shf.l.clamp.b32"), "wws");
    with_sources(pt_add("w=www", ref_shf_rw, "shf.r.wrap.b32"), "wws");
    with_sources(pt_add("w=www", ref_shf_rc, "shf.r.clamp.b32"), "wws");
    pt_add("w=www", ref_prmt, "prmt.b32");
    pt_run_rows();
}

/* ---- comparisons ---- */

#define COMPARISON(name, operator)                                                                 \
    static uint64_t ref_##name(const pt_op_t *op, const uint64_t *in)                              \
    {                                                                                              \
        return op->is_signed ? s(op, in[0]) operator s(op, in[1])                                  \
                             : u(op, in[0]) operator u(op, in[1]);                                 \
    }
COMPARISON(eq, ==)
COMPARISON(ne, !=)
COMPARISON(lt, <)
COMPARISON(le, <=)
COMPARISON(gt, >)
COMPARISON(ge, >=)

static uint64_t ref_lt_and(const pt_op_t *op, const uint64_t *in)
{
    return ref_lt(op, in) & in[2];
}

static uint64_t ref_ge_or(const pt_op_t *op, const uint64_t *in)
{
    return ref_ge(op, in) | in[2];
}

static uint64_t ref_eq_xor(const pt_op_t *op, const uint64_t *in)
{
    return ref_eq(op, in) ^ in[2];
}

static uint64_t ref_selp(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return in[2] ? in[0] : in[1];
}

static uint64_t ref_slct(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return pt_signed(in[2], 32) >= 0 ? in[0] : in[1];
}

/* set.CmpOp.dtype.stype: all ones for integers */
static uint64_t ref_set_lt(const pt_op_t *op, const uint64_t *in)
{
    bool less = op->is_signed2 ? pt_signed(in[0], op->bits2) < pt_signed(in[1], op->bits2)
                               : pt_low(in[0], op->bits2) < pt_low(in[1], op->bits2);
    if (op->is_float)
        return less ? pt_bits32(1.0f) : 0;
    return less ? UINT64_MAX : 0;
}

static uint64_t ref_mov(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return in[0];
}

static void test_comparisons(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        const char *t = int_types[i];
        pt_add(shaped(t, "p=tt"), ref_eq, "setp.eq.%s", t);
        pt_add(shaped(t, "p=tt"), ref_ne, "setp.ne.%s", t);
        pt_add(shaped(t, "p=tt"), ref_lt, "setp.lt.%s", t);
        pt_add(shaped(t, "p=tt"), ref_le, "setp.le.%s", t);
        pt_add(shaped(t, "p=tt"), ref_gt, "setp.gt.%s", t);
        pt_add(shaped(t, "p=tt"), ref_ge, "setp.ge.%s", t);
        pt_add(shaped(t, "p=ttp"), ref_lt_and, "setp.lt.and.%s", t);
        pt_add(shaped(t, "p=ttp"), ref_ge_or, "setp.ge.or.%s", t);
        pt_add(shaped(t, "p=ttp"), ref_eq_xor, "setp.eq.xor.%s", t);
        pt_add(shaped(t, "w=tt"), ref_set_lt, "set.lt.u32.%s", t);
    }
    pt_add("p=ww", ref_lt, "setp.lo.u32");
    pt_add("p=ww", ref_le, "setp.ls.u32");
    pt_add("p=dd", ref_gt, "setp.hi.u64");
    pt_add("p=dd", ref_ge, "setp.hs.u64");
    pt_add("p=hh", ref_ne, "setp.ne.b16");
    pt_add("p=dd", ref_eq, "setp.eq.b64");
    pt_add("f=ww", ref_set_lt, "set.lt.f32.s32");
    pt_add("h=hhp", ref_selp, "selp.b16");
    pt_add("w=wwp", ref_selp, "selp.u32");
    pt_add("d=ddp", ref_selp, "selp.s64");
    pt_add("f=ffp", ref_selp, "selp.f32");
    pt_add("g=ggp", ref_selp, "selp.f64");
    pt_add("w=www", ref_slct, "slct.u32.s32");
    pt_add("d=ddw", ref_slct, "slct.b64.s32");
    pt_add("h=h", ref_mov, "mov.u16");
    pt_add("w=w", ref_mov, "mov.b32");
    pt_add("d=d", ref_mov, "mov.s64");
    pt_add("f=f", ref_mov, "mov.f32");
    pt_add("g=g", ref_mov, "mov.f64");
    pt_add("p=p", ref_mov, "mov.pred");
    pt_run_rows();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_comparisons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

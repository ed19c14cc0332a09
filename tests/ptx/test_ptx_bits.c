/* Carry chains, logic by table, permutations of bytes, small dot products, masks, pairs of 16 bits. */
#include "tests/ptx/pt_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ptx/pt_row.h"

/* ---- carry chains: 64 bits (128) out of two words, and what is left over ---- */

static uint64_t low_of(const uint64_t *in)
{
    return in[0] | in[1] << 32;
}

static uint64_t high_of(const uint64_t *in)
{
    return in[2] | in[3] << 32;
}

static uint64_t ref_wide_add(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return low_of(in) + high_of(in);
}

static uint64_t ref_wide_sub(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return low_of(in) - high_of(in);
}

static uint64_t ref_wide_mul(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return (uint64_t)(((unsigned __int128)low_of(in) * high_of(in)) >> 64);
}

static uint64_t ref_carry(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return (low_of(in) + high_of(in)) < low_of(in);
}

static uint64_t ref_borrow(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return low_of(in) < high_of(in) ? UINT32_MAX : 0;
}

static uint64_t ref_add128(const pt_op_t *op, const uint64_t *in)
{
    unsigned __int128 a = (unsigned __int128)in[1] << 64 | in[0];
    unsigned __int128 b = (unsigned __int128)in[3] << 64 | in[2];
    (void)op;
    return (uint64_t)((a + b) >> 64);
}

static uint64_t ref_sub128(const pt_op_t *op, const uint64_t *in)
{
    unsigned __int128 a = (unsigned __int128)in[1] << 64 | in[0];
    unsigned __int128 b = (unsigned __int128)in[3] << 64 | in[2];
    (void)op;
    return (uint64_t)((a - b) >> 64);
}

/* The product's upper half, and the carry of what is added to the lower one: signed. */
static uint64_t ref_mad128(const pt_op_t *op, const uint64_t *in)
{
    __int128 p = (__int128)(int64_t)in[0] * (int64_t)in[1];
    unsigned __int128 sum = (uint64_t)p + (unsigned __int128)in[2];
    (void)op;
    return (uint64_t)(p >> 64) + in[3] + (uint64_t)(sum >> 64);
}

static uint64_t ref_mad128_unsigned(const pt_op_t *op, const uint64_t *in)
{
    unsigned __int128 p = (unsigned __int128)in[0] * in[1];
    unsigned __int128 sum = (uint64_t)p + (unsigned __int128)in[2];
    (void)op;
    return (uint64_t)(p >> 64) + in[3] + (uint64_t)(sum >> 64);
}

static uint64_t carry128(const uint64_t *in, bool borrow)
{
    unsigned __int128 a = (unsigned __int128)in[1] << 64 | in[0];
    unsigned __int128 b = (unsigned __int128)in[3] << 64 | in[2];
    return borrow ? (a < b ? UINT64_MAX : 0) : (unsigned __int128)(a + b) < a;
}

static uint64_t ref_carry128(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return carry128(in, false);
}

static uint64_t ref_borrow128(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return carry128(in, true);
}

/* The carry of (low product + in[3] + (the carry of (high product + in[2]))). */
static uint64_t two_carries(uint64_t high, uint64_t low, const uint64_t *in, unsigned bits)
{
    unsigned __int128 first = (unsigned __int128)pt_low(high, bits) + in[2];
    unsigned __int128 second = (unsigned __int128)pt_low(low, bits) + in[3] + (first >> bits);
    return (uint64_t)(second >> bits);
}

static uint64_t ref_hi_carry_u(const pt_op_t *op, const uint64_t *in)
{
    uint64_t p = in[0] * in[1];
    (void)op;
    return two_carries(p >> 32, p, in, 32);
}

static uint64_t ref_hi_carry_s(const pt_op_t *op, const uint64_t *in)
{
    uint64_t p = (uint64_t)(pt_signed(in[0], 32) * pt_signed(in[1], 32));
    (void)op;
    return two_carries(p >> 32, p, in, 32);
}

static uint64_t ref_hi_carry_u64(const pt_op_t *op, const uint64_t *in)
{
    unsigned __int128 p = (unsigned __int128)in[0] * in[1];
    (void)op;
    return two_carries((uint64_t)(p >> 64), (uint64_t)p, in, 64);
}

static uint64_t ref_hi_carry_s64(const pt_op_t *op, const uint64_t *in)
{
    unsigned __int128 p = (unsigned __int128)((__int128)(int64_t)in[0] * (int64_t)in[1]);
    (void)op;
    return two_carries((uint64_t)(p >> 64), (uint64_t)p, in, 64);
}

static void add_body(const char *shape, pt_ref_t ref, const char *name, const char *body)
{
    pt_row_t *row = pt_add(shape, ref, "%s", name);
    row->body = body;
}

/* `name` and `body` with a type in place of every @. */
static void add_typed(const char *shape, pt_ref_t ref, const char *name, const char *body,
                      const char *type)
{
    static char texts[64][512];
    static unsigned used;
    char *out = texts[used++], words[64];
    for (unsigned k = 0; k < 2; k++) {
        const char *from = k ? body : name;
        char *to = k ? out : words;
        for (; *from; from++) {
            if (*from == '@') {
                memcpy(to, type, 3);
                to += 3;
            } else {
                *to++ = *from;
            }
        }
        *to = 0;
    }
    add_body(shape, ref, words, out);
}

static void test_carry(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 2; k++) {
        const char *type = k ? "s32" : "u32", *wide = k ? "s64" : "u64";
        add_typed("d=wwww", ref_wide_add, "add.cc.@ addc.@",
                  "add.cc.@ %w5, %w1, %w3; addc.@ %w6, %w2, %w4; mov.b64 %d0, {%w5, %w6};", type);
        add_typed("d=wwww", ref_wide_sub, "sub.cc.@ subc.@",
                  "sub.cc.@ %w5, %w1, %w3; subc.@ %w6, %w2, %w4; mov.b64 %d0, {%w5, %w6};", type);
        add_typed("w=wwww", ref_carry, "addc.cc.@",
                  "add.cc.@ %w5, %w1, %w3; addc.cc.@ %w6, %w2, %w4; addc.@ %w0, 0, 0;", type);
        add_typed("w=wwww", ref_borrow, "subc.cc.@",
                  "sub.cc.@ %w5, %w1, %w3; subc.cc.@ %w6, %w2, %w4; subc.@ %w0, 0, 0;", type);
        add_typed("d=dddd", ref_add128, "add.cc.@ addc.@",
                  "add.cc.@ %d5, %d1, %d3; addc.@ %d0, %d2, %d4;", wide);
        add_typed("d=dddd", ref_sub128, "sub.cc.@ subc.@",
                  "sub.cc.@ %d5, %d1, %d3; subc.@ %d0, %d2, %d4;", wide);
        add_typed("d=dddd", ref_carry128, "addc.cc.@",
                  "add.cc.@ %d5, %d1, %d3; addc.cc.@ %d6, %d2, %d4; addc.@ %d0, 0, 0;", wide);
        add_typed("d=dddd", ref_borrow128, "subc.cc.@",
                  "sub.cc.@ %d5, %d1, %d3; subc.cc.@ %d6, %d2, %d4; subc.@ %d0, 0, 0;", wide);
        add_typed("d=dddd", k ? ref_mad128 : ref_mad128_unsigned, "mad.lo.cc.@ madc.hi.@",
                  "mad.lo.cc.@ %d5, %d1, %d2, %d3; madc.hi.@ %d0, %d1, %d2, %d4;", wide);
        /* Carries out of the upper and of the lower half of a product. */
        add_typed("w=wwww", k ? ref_hi_carry_s : ref_hi_carry_u,
                  "mad.hi.cc.@ madc.lo.@ madc.lo.cc.@",
                  "mad.hi.cc.@ %w5, %w1, %w2, %w3; madc.lo.cc.@ %w6, %w1, %w2, %w4;"
                  "madc.lo.@ %w0, 0, 0, 0;",
                  type);
        add_typed("d=dddd", k ? ref_hi_carry_s64 : ref_hi_carry_u64,
                  "mad.hi.cc.@ madc.lo.@ madc.lo.cc.@ madc.hi.cc.@",
                  "mad.hi.cc.@ %d5, %d1, %d2, %d3; madc.lo.cc.@ %d6, %d1, %d2, %d4;"
                  "madc.hi.cc.@ %d7, 0, 0, 0; madc.lo.@ %d8, 0, 0, 0; add.s64 %d0, %d7, %d8;",
                  wide);
    }
    /* The example of the manual: the upper words of a product of four. */
    add_body("d=wwww", ref_wide_mul, "mad.lo.cc.u32 madc.hi.u32 madc.hi.cc.u32",
             "mul.hi.u32 %w6, %w1, %w3; mad.lo.cc.u32 %w6, %w2, %w3, %w6;"
             "madc.hi.u32 %w7, %w2, %w3, 0; mad.lo.cc.u32 %w6, %w1, %w4, %w6;"
             "madc.hi.cc.u32 %w7, %w1, %w4, %w7; addc.u32 %w8, 0, 0;"
             "mad.lo.cc.u32 %w7, %w2, %w4, %w7; madc.hi.u32 %w8, %w2, %w4, %w8;"
             "mov.b64 %d0, {%w7, %w8};");
    /* The code outlives a branch that only some lanes take. */
    add_body("d=wwww", ref_wide_add, "add.cc.u32 addc.u32",
             "{ add.cc.u32 %w5, %w1, %w3; setp.lt.u32 %p5, %w1, 32; @%p5 bra Over;"
             "mov.u32 %w6, 3; Over: addc.u32 %w6, %w2, %w4; mov.b64 %d0, {%w5, %w6}; }");
    pt_run_rows();
}

/* ---- logic by table ---- */

static uint64_t lop3(uint64_t table, const uint64_t *in)
{
    uint64_t out = 0;
    for (unsigned i = 0; i < 32; i++) {
        unsigned row = (in[0] >> i & 1) << 2 | (in[1] >> i & 1) << 1 | (in[2] >> i & 1);
        out |= (table >> row & 1) << i;
    }
    return out;
}

/* "lop3.b32" with its table in the name's last two digits */
static uint64_t ref_lop3(const pt_op_t *op, const uint64_t *in)
{
    return lop3(strtoul(strrchr(op->mnemonic, ' ') + 1, NULL, 16), in);
}

static uint64_t ref_lop3_pred(const pt_op_t *op, const uint64_t *in)
{
    bool set = lop3(0x96, in) != 0, q = (in[0] & 1) != 0;
    return strstr(op->mnemonic, ".and") ? set && q : set || q;
}

static void test_lop3(void **state)
{
    static char bodies[256][48];
    (void)state;
    for (unsigned table = 0; table < 256; table += 5) { /* all rows in all combinations of two */
        snprintf(bodies[table], sizeof bodies[table], "lop3.b32 %%w0, %%w1, %%w2, %%w3, %u;",
                 table);
        pt_add("w=www", ref_lop3, "lop3.b32 %02x", table)->body = bodies[table];
    }
    add_body("w=www", ref_lop3_pred, "lop3.or.b32",
             "and.b32 %w5, %w1, 1; setp.ne.u32 %p5, %w5, 0;"
             "lop3.or.b32 %w5|%p6, %w1, %w2, %w3, 0x96, %p5; selp.u32 %w0, 1, 0, %p6;");
    add_body("w=www", ref_lop3_pred, "lop3.and.b32",
             "and.b32 %w5, %w1, 1; setp.eq.u32 %p5, %w5, 0;"
             "lop3.and.b32 _|%p6, %w1, %w2, %w3, 0x96, !%p5; selp.u32 %w0, 1, 0, %p6;");
    pt_run_rows();
}

/* ---- permutation of bytes ---- */

static uint64_t ref_prmt(const pt_op_t *op, const uint64_t *in)
{
    static const char *const modes[] = {".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"};
    /* The manual's tables: the source byte of each result byte, the upper one first. */
    static const unsigned tables[6][4] = {
        {0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
        {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
        {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
    uint64_t source = in[1] << 32 | in[0], selector = in[2], out = 0;
    for (unsigned m = 0; m < 6; m++) {
        if (strstr(op->mnemonic, modes[m]))
            selector = tables[m][in[2] & 3];
    }
    for (unsigned n = 0; n < 4; n++) {
        unsigned nibble = selector >> 4 * n & 15;
        uint64_t byte = source >> 8 * (nibble & 7) & 255;
        if (nibble & 8)
            byte = byte >> 7 ? 255 : 0;
        out |= byte << 8 * n;
    }
    return out;
}

static void test_prmt(void **state)
{
    static const char *const modes[] = {"", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"};
    (void)state;
    for (unsigned m = 0; m < 7; m++) {
        pt_row_t *row = pt_add("w=www", ref_prmt, "prmt.b32%s", modes[m]);
        snprintf(row->sources, sizeof row->sources, "MMM");
        row = pt_add("w=www", ref_prmt, "prmt.b32%s", modes[m]);
        snprintf(row->sources, sizeof row->sources, "MMw"); /* and immediates */
    }
    pt_run_rows();
}

/* ---- sums of products ---- */

static uint64_t ref_dp2a(const pt_op_t *op, const uint64_t *in)
{
    uint64_t sum = in[2];
    for (unsigned i = 0; i < 2; i++) {
        uint64_t a = in[0] >> 16 * i & 0xffff;
        uint64_t b = in[1] >> (8 * i + (strstr(op->mnemonic, ".hi") ? 16 : 0)) & 255;
        sum += (op->is_signed ? (uint64_t)pt_signed(a, 16) : a) *
               (op->is_signed2 ? (uint64_t)pt_signed(b, 8) : b);
    }
    return sum;
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

static void test_dot(void **state)
{
    static const char *const types[] = {"u32", "s32"};
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        pt_add("w=www", ref_dp4a, "dp4a.%s.%s", types[i / 2], types[i % 2]);
        pt_add("w=www", ref_dp2a, "dp2a.lo.%s.%s", types[i / 2], types[i % 2]);
        pt_add("w=www", ref_dp2a, "dp2a.hi.%s.%s", types[i / 2], types[i % 2]);
    }
    pt_run_rows();
}

/* ---- masks and positions ---- */

static uint64_t ref_fns(const pt_op_t *op, const uint64_t *in)
{
    int64_t offset = (int32_t)in[2], base = (int64_t)in[1], count = llabs(offset) - 1;
    (void)op;
    if (offset == 0)
        return in[0] >> base & 1 ? in[1] : UINT32_MAX;
    for (int64_t pos = base; pos >= 0 && pos < 32; pos += offset > 0 ? 1 : -1) {
        if ((in[0] >> pos & 1) && count-- == 0)
            return (uint64_t)pos;
    }
    return UINT32_MAX;
}

static bool base_too_large(const uint64_t *in)
{
    return in[1] > 31;
}

static uint64_t ref_bmsk(const pt_op_t *op, const uint64_t *in)
{
    bool clamp = strstr(op->mnemonic, "clamp") != NULL;
    uint64_t a = clamp ? in[0] : in[0] & 31, b = clamp ? in[1] : in[1] & 31, out = 0;
    for (uint64_t i = 0; i < 32; i++)
        out |= (uint64_t)(i >= a && i - a < b) << i;
    return out;
}

static uint64_t ref_szext(const pt_op_t *op, const uint64_t *in)
{
    uint64_t n = strstr(op->mnemonic, "clamp") && in[1] >= 32 ? 32 : in[1] & 31;
    if (n == 0)
        return 0;
    return op->is_signed ? (uint64_t)pt_signed(in[0], (unsigned)n) : pt_low(in[0], (unsigned)n);
}

static void test_masks(void **state)
{
    static const char *const modes[] = {"clamp", "wrap"};
    (void)state;
    pt_row_t *row = pt_add("w=www", ref_fns, "fns.b32");
    snprintf(row->sources, sizeof row->sources, "Msw");
    row->is_open = base_too_large;
    row = pt_add("w=www", ref_fns, "fns.b32");
    snprintf(row->sources, sizeof row->sources, "wsw");
    row->is_open = base_too_large;
    for (unsigned m = 0; m < 2; m++) {
        row = pt_add("w=ww", ref_bmsk, "bmsk.%s.b32", modes[m]);
        snprintf(row->sources, sizeof row->sources, "ss");
        row = pt_add("w=ww", ref_szext, "szext.%s.u32", modes[m]);
        snprintf(row->sources, sizeof row->sources, "ws");
        row = pt_add("w=ww", ref_szext, "szext.%s.s32", modes[m]);
        snprintf(row->sources, sizeof row->sources, "ws");
    }
    pt_run_rows();
}

/* ---- pairs of 16 bits, and minima that are never negative ---- */

static uint64_t small_result(const pt_op_t *op, uint64_t a, uint64_t b, unsigned bits)
{
    bool sign = strstr(op->mnemonic, ".s") != NULL, max = strncmp(op->mnemonic, "max", 3) == 0;
    int64_t x = sign ? pt_signed(a, bits) : (int64_t)pt_low(a, bits);
    int64_t y = sign ? pt_signed(b, bits) : (int64_t)pt_low(b, bits);
    if (strncmp(op->mnemonic, "add", 3) == 0)
        return pt_low(a + b, bits);
    int64_t r = (x < y) == max ? y : x;
    return pt_low((uint64_t)(strstr(op->mnemonic, "relu") && r < 0 ? 0 : r), bits);
}

static uint64_t ref_small(const pt_op_t *op, const uint64_t *in)
{
    return small_result(op, in[0], in[1], 16) | small_result(op, in[0] >> 16, in[1] >> 16, 16)
                                                    << 16;
}

static uint64_t ref_word(const pt_op_t *op, const uint64_t *in)
{
    return small_result(op, in[0], in[1], 32);
}

static void test_pairs(void **state)
{
    static const char *const names[] = {"add.u16x2",      "add.s16x2",     "min.u16x2",
                                        "min.s16x2",      "max.u16x2",     "max.s16x2",
                                        "min.relu.s16x2", "max.relu.s16x2"};
    (void)state;
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        pt_add("w=ww", ref_small, "%s", names[i]);
    for (unsigned i = 0; i < 2; i++) {
        pt_row_t *row = pt_add("w=ww", ref_small, "%s", names[i + 4]);
        snprintf(row->sources, sizeof row->sources, "MM");
    }
    pt_add("w=ww", ref_word, "min.relu.s32");
    pt_add("w=ww", ref_word, "max.relu.s32");
    pt_run_rows();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_carry), cmocka_unit_test(test_lop3),  cmocka_unit_test(test_prmt),
        cmocka_unit_test(test_dot),   cmocka_unit_test(test_masks), cmocka_unit_test(test_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

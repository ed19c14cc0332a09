/* mma, ldmatrix, stmatrix and movmatrix: registers are filled and read by the PTX ISA's tables of matrix
 * fragments, and the product is computed here. wmma: through memory, as its fragments are opaque. */
#include "tests/ptx/pt_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD ".version 8.6\n.target sm_90\n.address_size 64\n"

enum { WARPS = 2, LANES = 32, MAX_REGS = 8, MAX_K = 256 };

static const pt_dim_t one = {1, 1, 1};

/* Matrices have no scalar form: W = 1 refuses them. */
static void needs_warp(void)
{
    const char *width = getenv("GABLE_CPU_WIDTH");
    if (width && strcmp(width, "32") != 0)
        skip();
}

/* ---- elements ---- */

typedef enum { F16, BF16, TF32, F32, F64, S8, U8, S4, U4, B1, S32, E4M3, E5M2 } elem_t;

static const char *const elem_names[] = {"f16", "bf16", "tf32", "f32", "f64",  "s8",  "u8",
                                         "s4",  "u4",   "b1",   "s32", "e4m3", "e5m2"};

static unsigned elem_bits(elem_t e)
{
    static const uint8_t bits[] = {16, 16, 32, 32, 64, 8, 8, 4, 4, 1, 32, 8, 8};
    return bits[e];
}

/* Of numbers that the type can hold exactly. */
static uint64_t encode(elem_t e, double x)
{
    float f = (float)x;
    uint32_t w;
    uint64_t d;
    memcpy(&w, &f, 4);
    memcpy(&d, &x, 8);
    unsigned sign = signbit(x) ? 1 : 0;
    int exponent;
    double m = frexp(fabs(x), &exponent);
    unsigned digits = e == F16 ? 10 : e == E4M3 ? 3 : 2, bias = e == F16 || e == E5M2 ? 15 : 7;
    switch (e) {
    case F64:
        return d;
    case F32:
    case TF32:
        return w;
    case BF16:
        return w >> 16;
    case F16:
    case E4M3:
    case E5M2: {
        unsigned total = e == F16 ? 15 : 7;
        if (x == 0)
            return sign << total;
        int biased = exponent - 1 + (int)bias;
        assert_true(biased > 0);
        unsigned mantissa = (unsigned)ldexp(m * 2 - 1, (int)digits);
        return sign << total | (unsigned)biased << digits | mantissa;
    }
    default:
        return (uint64_t)(int64_t)x & (elem_bits(e) == 32 ? UINT32_MAX : (1u << elem_bits(e)) - 1);
    }
}

static double decode(elem_t e, uint64_t v)
{
    double d;
    float f;
    uint32_t w = (uint32_t)v;
    if (e == F64) {
        memcpy(&d, &v, 8);
        return d;
    }
    if (e == F16) {
        int exponent = (int)(v >> 10 & 31), m = (int)(v & 0x3ff);
        d = exponent ? ldexp(m + 1024, exponent - 25) : ldexp(m, -24);
        return v >> 15 & 1 ? -d : d;
    }
    if (e == S32)
        return (int32_t)w;
    memcpy(&f, &w, 4);
    return (double)f;
}

/* A number of the type, such that no sum of products is rounded (in f16 too). */
static double pick(elem_t e, uint32_t *seed)
{
    uint32_t r = pt_random(seed) >> 4;
    switch (e) {
    case B1:
        return r & 1;
    case S4:
        return (int)(r % 16) - 8;
    case U4:
        return r % 16;
    case S8:
        return r % 7 == 0 ? -128 : (int)(r % 255) - 127;
    case U8:
        return r % 256;
    case S32:
        return (int)(r % 2000001) - 1000000;
    case F64:
        return ((int)(r % 2001) - 1000) / 64.0;
    default:
        return ((int)(r % 9) - 4) / 2.0;
    }
}

/* ---- mma ---- */

typedef struct {
    const char *words; /* behind mma.sync.aligned */
    unsigned m, n, k;
    elem_t d, a, b, c;
} mma_t;

static const mma_t mmas[] = {
    {"m16n8k8.row.col.f32.f16.f16.f32", 16, 8, 8, F32, F16, F16, F32},
    {"m16n8k8.row.col.f16.f16.f16.f16", 16, 8, 8, F16, F16, F16, F16},
    {"m16n8k16.row.col.f32.f16.f16.f32", 16, 8, 16, F32, F16, F16, F32},
    {"m16n8k16.row.col.f16.f16.f16.f16", 16, 8, 16, F16, F16, F16, F16},
    {"m16n8k8.row.col.f32.bf16.bf16.f32", 16, 8, 8, F32, BF16, BF16, F32},
    {"m16n8k16.row.col.f32.bf16.bf16.f32", 16, 8, 16, F32, BF16, BF16, F32},
    {"m16n8k4.row.col.f32.tf32.tf32.f32", 16, 8, 4, F32, TF32, TF32, F32},
    {"m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 8, F32, TF32, TF32, F32},
    {"m8n8k4.row.col.f64.f64.f64.f64", 8, 8, 4, F64, F64, F64, F64},
    {"m16n8k4.row.col.f64.f64.f64.f64", 16, 8, 4, F64, F64, F64, F64},
    {"m16n8k8.row.col.f64.f64.f64.f64", 16, 8, 8, F64, F64, F64, F64},
    {"m16n8k16.row.col.f64.f64.f64.f64", 16, 8, 16, F64, F64, F64, F64},
    {"m8n8k16.row.col.s32.s8.s8.s32", 8, 8, 16, S32, S8, S8, S32},
    {"m8n8k16.row.col.satfinite.s32.u8.s8.s32", 8, 8, 16, S32, U8, S8, S32},
    {"m16n8k16.row.col.s32.s8.u8.s32", 16, 8, 16, S32, S8, U8, S32},
    {"m16n8k16.row.col.satfinite.s32.u8.u8.s32", 16, 8, 16, S32, U8, U8, S32},
    {"m16n8k32.row.col.s32.s8.s8.s32", 16, 8, 32, S32, S8, S8, S32},
    {"m16n8k32.row.col.s32.u8.u8.s32", 16, 8, 32, S32, U8, U8, S32},
    {"m8n8k32.row.col.s32.s4.s4.s32", 8, 8, 32, S32, S4, S4, S32},
    {"m16n8k32.row.col.s32.u4.s4.s32", 16, 8, 32, S32, U4, S4, S32},
    {"m16n8k64.row.col.s32.u4.u4.s32", 16, 8, 64, S32, U4, U4, S32},
    {"m16n8k64.row.col.satfinite.s32.s4.u4.s32", 16, 8, 64, S32, S4, U4, S32},
    {"m8n8k128.row.col.s32.b1.b1.s32.xor.popc", 8, 8, 128, S32, B1, B1, S32},
    {"m16n8k128.row.col.s32.b1.b1.s32.and.popc", 16, 8, 128, S32, B1, B1, S32},
    {"m16n8k256.row.col.s32.b1.b1.s32.xor.popc", 16, 8, 256, S32, B1, B1, S32},
    {"m16n8k32.row.col.f32.e4m3.e4m3.f32", 16, 8, 32, F32, E4M3, E4M3, F32},
    {"m16n8k32.row.col.f32.e5m2.e4m3.f32", 16, 8, 32, F32, E5M2, E4M3, F32},
    {"m16n8k16.row.col.f16.e4m3.e5m2.f16", 16, 8, 16, F16, E4M3, E5M2, F16},
    {"m16n8k16.row.col.f32.e5m2.e5m2.f32", 16, 8, 16, F32, E5M2, E5M2, F32},
};

typedef struct {
    unsigned row, col;
} at_t;

/* How many elements a register of A or B, or of C or D, has. */
static unsigned per_reg(elem_t e)
{
    return e == F64 ? 1 : 32 / elem_bits(e);
}

/* The tables of PTX: groupID = lane / 4, and the thread's number within the group. Element i of a lane
 * of A: rows alternate register by register between groupID and groupID + 8 where there are 16. */
static at_t place_a(const mma_t *x, unsigned lane, unsigned i)
{
    unsigned group = lane >> 2, in_group = lane % 4, e = per_reg(x->a), reg = i / e;
    unsigned wide = x->m == 16 ? reg / 2 : reg;
    return (at_t){group + (x->m == 16 && reg % 2 ? 8 : 0), in_group * e + i % e + wide * 4 * e};
}

static at_t place_b(const mma_t *x, unsigned lane, unsigned i)
{
    unsigned e = per_reg(x->b);
    return (at_t){lane % 4 * e + i % e + i / e * 4 * e, lane >> 2};
}

static at_t place_c(unsigned lane, unsigned i)
{
    return (at_t){(lane >> 2) + (i >= 2 ? 8 : 0), lane % 4 * 2 + (i & 1)};
}

typedef struct {
    double a[32][MAX_K], b[MAX_K][32], c[32][32], d[32][32];
} matrices_t;

static double product(elem_t e, const char *words, double x, double y)
{
    if (e != B1)
        return x * y;
    return strstr(words, "and.popc") ? (x != 0 && y != 0) : (x != 0) != (y != 0);
}

static void reference(matrices_t *x, unsigned m, unsigned n, unsigned k, elem_t e,
                      const char *words)
{
    bool saturate = strstr(words, "satfinite") != NULL;
    for (unsigned r = 0; r < m; r++) {
        for (unsigned c = 0; c < n; c++) {
            double sum = x->c[r][c];
            for (unsigned j = 0; j < k; j++)
                sum += product(e, words, x->a[r][j], x->b[j][c]);
            if (saturate)
                sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
            x->d[r][c] = sum;
        }
    }
}

static void random_matrices(matrices_t *x, unsigned m, unsigned n, unsigned k, const elem_t e[3],
                            bool extreme, uint32_t *seed)
{
    for (unsigned r = 0; r < m; r++) {
        for (unsigned j = 0; j < k; j++)
            x->a[r][j] = pick(e[0], seed);
    }
    for (unsigned j = 0; j < k; j++) {
        for (unsigned c = 0; c < n; c++)
            x->b[j][c] = pick(e[1], seed);
    }
    for (unsigned r = 0; r < m; r++) {
        for (unsigned c = 0; c < n; c++) {
            x->c[r][c] = pick(e[2], seed);
            if (extreme && (r + c) % 3 == 0)
                x->c[r][c] = c % 2 ? INT32_MAX - 5 : INT32_MIN + 7;
        }
    }
}

/* Registers of a warp, one after the other, of 8 bytes each. */
typedef uint64_t regs_t[MAX_REGS][LANES];

static void set_element(regs_t regs, unsigned lane, unsigned i, elem_t e, double x)
{
    regs[i / per_reg(e)][lane] |= encode(e, x) << i % per_reg(e) * elem_bits(e);
}

static unsigned registers(unsigned rows, unsigned cols, elem_t e)
{
    return rows * cols / LANES / per_reg(e);
}

static void list(char *out, char kind, unsigned first, unsigned n)
{
    strcpy(out, "{");
    for (unsigned k = 0; k < n; k++)
        sprintf(out + strlen(out), "%s%%%c%u", k ? ", " : "", kind, first + k);
    strcat(out, "}");
}

static char reg_kind(elem_t e)
{
    return e == F64 ? 'd' : e == F32 ? 'f' : 'r';
}

static void load_regs(char *text, elem_t e, unsigned first, unsigned n, const char *base)
{
    for (unsigned k = 0; k < n; k++)
        sprintf(text + strlen(text), "ld.global.%s %%%c%u, [%s+%u];\n",
                e == F64   ? "f64"
                : e == F32 ? "f32"
                           : "b32",
                reg_kind(e), first + k, base, k * LANES * 8);
}

static const char declare[] =
    ".reg .b32 %r<80>; .reg .b64 %q<40>; .reg .f32 %f<80>; .reg .f64 %d<80>; .reg .pred %p<4>;\n";

/* Each thread's place in arrays of registers: %q1 A, %q2 B, %q3 C, %q4 D. */
static const char arrays[] =
    "ld.param.u64 %q1, [a]; ld.param.u64 %q2, [b]; ld.param.u64 %q3, [c]; ld.param.u64 %q4, [d];\n"
    "mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 31; mul.lo.u32 %r2, %r2, 2048;\n"
    "mad.lo.u32 %r2, %r3, 8, %r2; cvt.u64.u32 %q5, %r2; add.s64 %q1, %q1, %q5;\n"
    "add.s64 %q2, %q2, %q5; add.s64 %q3, %q3, %q5; add.s64 %q4, %q4, %q5;\n";

static void run_registers(const char *text, regs_t *a, regs_t *b, regs_t *c, regs_t *d)
{
    size_t bytes = WARPS * sizeof(regs_t);
    CUmodule module = pt_load(text);
    CUdeviceptr at[4] = {pt_upload(a, bytes), pt_upload(b, bytes), pt_upload(c, bytes),
                         pt_upload(NULL, bytes)};
    void *params[] = {&at[0], &at[1], &at[2], &at[3]};
    pt_dim_t block = {WARPS * LANES, 1, 1};
    pt_launch(pt_function(module, "k"), one, block, 0, params);
    pt_download(d, at[3], bytes);
    for (unsigned k = 0; k < 4; k++)
        pt_free(at[k]);
    pt_unload(module);
}

static void mma_text(char *text, size_t size, const char *words, const elem_t e[4],
                     const unsigned n[4])
{
    char lists[4][128];
    for (unsigned k = 0; k < 4; k++)
        list(lists[k], reg_kind(e[k]), 10 * (k + 1), n[k]);
    snprintf(text, size,
             HEAD
             ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n{\n"
             "%s%s",
             declare, arrays);
    load_regs(text, e[1], 20, n[1], "%q1");
    load_regs(text, e[2], 30, n[2], "%q2");
    load_regs(text, e[3], 40, n[3], "%q3");
    sprintf(text + strlen(text), "mma.sync.aligned.%s\n%s, %s, %s, %s;\n", words, lists[0],
            lists[1], lists[2], lists[3]);
    for (unsigned k = 0; k < n[0]; k++)
        sprintf(text + strlen(text), "st.global.%s [%%q4+%u], %%%c%u;\n",
                e[0] == F64   ? "f64"
                : e[0] == F32 ? "f32"
                              : "b32",
                k * LANES * 8, reg_kind(e[0]), 10 + k);
    strcat(text, "ret;\n}\n");
}

static uint64_t element(regs_t regs, unsigned lane, unsigned i, elem_t e)
{
    uint64_t v = regs[i / per_reg(e)][lane] >> i % per_reg(e) * elem_bits(e);
    return elem_bits(e) == 64 ? v : v & ((1ull << elem_bits(e)) - 1);
}

static bool wraps_to(elem_t e, double got, double want)
{
    return e == S32 ? (int32_t)(uint32_t)(int64_t)want == (int32_t)got : got == want;
}

static void check_mma(const mma_t *x, bool extreme)
{
    static matrices_t m[WARPS];
    static regs_t a[WARPS], b[WARPS], c[WARPS], d[WARPS];
    uint32_t seed = (uint32_t)(x - mmas) * 7 + 1;
    const elem_t in[3] = {x->a, x->b, x->c}, all[4] = {x->d, x->a, x->b, x->c};
    unsigned n[4] = {registers(x->m, x->n, x->d), registers(x->m, x->k, x->a),
                     registers(x->k, x->n, x->b), registers(x->m, x->n, x->c)};
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    memset(c, 0, sizeof c);
    for (unsigned w = 0; w < WARPS; w++) {
        random_matrices(&m[w], x->m, x->n, x->k, in, extreme, &seed);
        reference(&m[w], x->m, x->n, x->k, x->a, x->words);
        for (unsigned lane = 0; lane < LANES; lane++) {
            for (unsigned i = 0; i < x->m * x->k / LANES; i++) {
                at_t at = place_a(x, lane, i);
                set_element(a[w], lane, i, x->a, m[w].a[at.row][at.col]);
            }
            for (unsigned i = 0; i < x->k * x->n / LANES; i++) {
                at_t at = place_b(x, lane, i);
                set_element(b[w], lane, i, x->b, m[w].b[at.row][at.col]);
            }
            for (unsigned i = 0; i < x->m * x->n / LANES; i++) {
                at_t at = place_c(lane, i);
                set_element(c[w], lane, i, x->c, m[w].c[at.row][at.col]);
            }
        }
    }
    char text[8192];
    mma_text(text, sizeof text, x->words, all, n);
    run_registers(text, a, b, c, d);
    for (unsigned w = 0; w < WARPS; w++) {
        for (unsigned lane = 0; lane < LANES; lane++) {
            for (unsigned i = 0; i < x->m * x->n / LANES; i++) {
                at_t at = place_c(lane, i);
                double got = decode(x->d, element(d[w], lane, i, x->d));
                double want = m[w].d[at.row][at.col];
                if (!wraps_to(x->d, got, want))
                    fail_msg("mma %s: warp %u, row %u, column %u is %g, must be %g", x->words, w,
                             at.row, at.col, got, want);
            }
        }
    }
}

static void test_mma(void **state)
{
    (void)state;
    needs_warp();
    for (size_t k = 0; k < sizeof mmas / sizeof mmas[0]; k++) {
        check_mma(&mmas[k], false);
        if (mmas[k].c == S32)
            check_mma(&mmas[k], true);
    }
}

/* NaN and infinity among the elements, and rounding of an f16 result. */
static void test_mma_special(void **state)
{
    static regs_t a[WARPS], b[WARPS], c[WARPS], d[WARPS];
    static const elem_t e32[4] = {F32, F16, F16, F32}, e16[4] = {F16, F16, F16, F16};
    static const elem_t e8[4] = {F32, E4M3, E4M3, F32};
    char text[8192];
    (void)state;
    needs_warp();
    /* row 0: infinity * 1; row 1: infinity * 1 - infinity * 1; row 2: NaN; column k of B: all 1 */
    memset(a, 0, sizeof a);
    memset(c, 0, sizeof c);
    for (unsigned lane = 0; lane < LANES; lane++)
        b[0][0][lane] = b[0][1][lane] = 0x3c003c00;
    a[0][0][0] = 0x7c00;
    a[0][0][4] = 0xfc007c00;
    a[0][0][8] = 0x7e00;
    a[0][0][12] = 0x0001; /* 2^-24: subnormals count */
    mma_text(text, sizeof text, "m16n8k16.row.col.f32.f16.f16.f32", e32, (unsigned[]){4, 4, 2, 4});
    run_registers(text, a, b, c, d);
    assert_true(isinf(decode(F32, d[0][0][0])));
    assert_true(isnan(decode(F32, d[0][0][4])));
    assert_true(isnan(decode(F32, d[0][1][8])));
    assert_true(decode(F32, d[0][0][12]) == 0x1p-24);
    assert_true(decode(F32, d[0][0][16]) == 0);
    /* 2048 + 1 is a tie in f16, to even; 2048 + 3 goes up; 65504 + 16 is infinity */
    memset(a, 0, sizeof a);
    a[0][0][0] = 0x3c00;
    a[0][0][4] = 0x4200;
    a[0][0][8] = 0x4c00;
    for (unsigned lane = 0; lane < LANES; lane++)
        c[0][0][lane] = lane / 4 < 2 ? 0x68006800 : 0x7bff7bff;
    mma_text(text, sizeof text, "m16n8k16.row.col.f16.f16.f16.f16", e16, (unsigned[]){2, 4, 2, 2});
    run_registers(text, a, b, c, d);
    assert_int_equal(d[0][0][0], 0x68006800);
    assert_int_equal(d[0][0][4], 0x68026802);
    assert_int_equal(d[0][0][8], 0x7c007c00);
    /* e4m3: 0x7f is NaN, 0x7e is 448, 0x01 is 2^-9 */
    memset(a, 0, sizeof a);
    memset(c, 0, sizeof c);
    for (unsigned lane = 0; lane < LANES; lane++)
        b[0][0][lane] = b[0][1][lane] = 0x38383838;
    a[0][0][0] = 0x7f;
    a[0][0][4] = 0x7e00;
    a[0][0][8] = 0x810000;
    mma_text(text, sizeof text, "m16n8k32.row.col.f32.e4m3.e4m3.f32", e8, (unsigned[]){4, 4, 2, 4});
    run_registers(text, a, b, c, d);
    assert_true(isnan(decode(F32, d[0][0][0])));
    assert_true(decode(F32, d[0][0][4]) == 448);
    assert_true(decode(F32, d[0][0][8]) == -0x1p-9);
}

/* Products one after the other that share operands, some of which change in between: D += A * B, twice;
 * then with another B, with an A that one register has changed, and with both again, in a branch that
 * one warp takes. */
static void test_shared_operands(void **state)
{
    static matrices_t m[WARPS];
    static regs_t a[WARPS], b[WARPS], c[WARPS], d[WARPS];
    static const mma_t x = {"", 16, 8, 16, F32, F16, F16, F32};
    static const elem_t in[3] = {F16, F16, F32};
    static const char product[] =
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f10, %f11, %f12, %f13}, {%r20, %r21, "
        "%r22, %r23}, {%r30, %r31}, {%f10, %f11, %f12, %f13};\n";
    char text[8192];
    uint32_t seed = 99;
    (void)state;
    needs_warp();
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    memset(c, 0, sizeof c);
    for (unsigned w = 0; w < WARPS; w++) {
        random_matrices(&m[w], 16, 8, 16, in, false, &seed);
        for (unsigned lane = 0; lane < LANES; lane++) {
            for (unsigned i = 0; i < 8; i++) {
                at_t at = place_a(&x, lane, i);
                set_element(a[w], lane, i, F16, m[w].a[at.row][at.col]);
            }
            for (unsigned i = 0; i < 4; i++) {
                at_t at = place_b(&x, lane, i);
                set_element(b[w], lane, i, F16, m[w].b[at.row][at.col]);
                set_element(c[w], lane, i, F32, m[w].c[place_c(lane, i).row][place_c(lane, i).col]);
            }
        }
    }
    snprintf(text, sizeof text,
             HEAD
             ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n{\n"
             "%s%s",
             declare, arrays);
    load_regs(text, F16, 20, 4, "%q1");
    load_regs(text, F16, 30, 2, "%q2");
    load_regs(text, F32, 10, 4, "%q3");
    strcat(text, product);
    strcat(text, product);
    strcat(text, "xor.b32 %r30, %r30, 0x80008000;\n"); /* rows 0 to 7 of B change sign */
    strcat(text, product);
    strcat(text, "mov.b32 %r23, 0;\n"); /* rows 8 to 15, columns 8 to 15 of A */
    strcat(text, product);
    strcat(text, "setp.ge.u32 %p1, %r1, 32; @%p1 mov.b32 %r31, 0; @%p1 bra Over;\n");
    strcat(text, product);
    strcat(text, "Over:\n");
    strcat(text, product);
    for (unsigned k = 0; k < 4; k++)
        sprintf(text + strlen(text), "st.global.f32 [%%q4+%u], %%f%u;\n", k * LANES * 8, 10 + k);
    strcat(text, "ret;\n}\n");
    run_registers(text, a, b, c, d);
    for (unsigned w = 0; w < WARPS; w++) {
        for (unsigned step = 0; step < 6; step++) {
            for (unsigned r = 0; step == 2 && r < 8; r++) {
                for (unsigned n = 0; n < 8; n++)
                    m[w].b[r][n] = -m[w].b[r][n];
            }
            for (unsigned r = 8; step == 3 && r < 16; r++)
                memset(&m[w].a[r][8], 0, 8 * sizeof m[w].a[r][8]);
            for (unsigned r = 8; step == 4 && w == 1 && r < 16; r++)
                memset(m[w].b[r], 0, sizeof m[w].b[r]);
            if (step == 4 && w == 1)
                continue;
            reference(&m[w], 16, 8, 16, F16, "");
            memcpy(m[w].c, m[w].d, sizeof m[w].c);
        }
        for (unsigned lane = 0; lane < LANES; lane++) {
            for (unsigned i = 0; i < 4; i++) {
                at_t at = place_c(lane, i);
                assert_true(decode(F32, element(d[w], lane, i, F32)) == m[w].c[at.row][at.col]);
            }
        }
    }
}

/* ---- mma.m8n8k4 on f16: four products, by lanes 0-3 and 16-19, 4-7 and 20-23... ---- */

static void check_quads(bool a_col, bool b_col, elem_t dt, elem_t ct)
{
    static matrices_t m[4];
    static regs_t a[WARPS], b[WARPS], c[WARPS], d[WARPS];
    static const elem_t in[3] = {F16, F16, F16};
    const elem_t all[4] = {dt, F16, F16, ct};
    uint32_t seed = 5;
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    memset(c, 0, sizeof c);
    for (unsigned q = 0; q < 4; q++) {
        random_matrices(&m[q], 8, 8, 4, in, false, &seed);
        reference(&m[q], 8, 8, 4, F16, "");
    }
    for (unsigned lane = 0; lane < LANES; lane++) {
        unsigned q = lane % 16 / 4, low = lane % 4, high = lane < 16 ? 0 : 4;
        for (unsigned i = 0; i < 4; i++) {
            double va = a_col ? m[q].a[i + high][low] : m[q].a[low + high][i];
            double vb = b_col ? m[q].b[i][low + high] : m[q].b[low][i + high];
            set_element(a[0], lane, i, F16, va);
            set_element(b[0], lane, i, F16, vb);
        }
        for (unsigned i = 0; i < 8; i++) {
            unsigned row = ct == F16 ? low + high : (lane & 1) + (i & 2) + high;
            unsigned col = ct == F16 ? i : (i & 4) + (lane & 2) + (i & 1);
            set_element(c[0], lane, i, ct, m[q].c[row][col]);
        }
    }
    char words[128], text[8192];
    snprintf(words, sizeof words, "m8n8k4.%s.%s.%s.f16.f16.%s", a_col ? "col" : "row",
             b_col ? "col" : "row", elem_names[dt], elem_names[ct]);
    mma_text(text, sizeof text, words, all,
             (unsigned[]){dt == F16 ? 4 : 8, 2, 2, ct == F16 ? 4 : 8});
    run_registers(text, a, b, c, d);
    for (unsigned lane = 0; lane < LANES; lane++) {
        unsigned q = lane % 16 / 4, low = lane % 4, high = lane < 16 ? 0 : 4;
        for (unsigned i = 0; i < 8; i++) {
            unsigned row = dt == F16 ? low + high : (lane & 1) + (i & 2) + high;
            unsigned col = dt == F16 ? i : (i & 4) + (lane & 2) + (i & 1);
            double got = decode(dt, element(d[0], lane, i, dt));
            if (got != m[q].d[row][col])
                fail_msg("mma %s: product %u, row %u, column %u is %g, must be %g", words, q, row,
                         col, got, m[q].d[row][col]);
        }
    }
}

static void test_quads(void **state)
{
    (void)state;
    needs_warp();
    for (unsigned k = 0; k < 4; k++) {
        check_quads(k & 1, k & 2, F32, F32);
        check_quads(k & 1, k & 2, F16, F16);
    }
    check_quads(false, true, F32, F16);
}

/* ---- wmma ---- */

typedef struct {
    unsigned m, n, k;
    elem_t a, b, c, d;
    const char *words; /* behind the layouts and the shape */
    unsigned a_regs, b_regs;
} wmma_t;

static const wmma_t wmmas[] = {
    {16, 16, 16, F16, F16, F32, F32, "f32.f32", 8, 8},
    {16, 16, 16, F16, F16, F16, F16, "f16.f16", 8, 8},
    {16, 16, 16, F16, F16, F32, F16, "f16.f32", 8, 8},
    {16, 16, 16, F16, F16, F16, F32, "f32.f16", 8, 8},
    {32, 8, 16, F16, F16, F32, F32, "f32.f32", 8, 8},
    {32, 8, 16, F16, F16, F16, F16, "f16.f16", 8, 8},
    {8, 32, 16, F16, F16, F32, F32, "f32.f32", 8, 8},
    {8, 32, 16, F16, F16, F16, F16, "f16.f16", 8, 8},
    {16, 16, 16, BF16, BF16, F32, F32, "f32.bf16.bf16.f32", 4, 4},
    {32, 8, 16, BF16, BF16, F32, F32, "f32.bf16.bf16.f32", 8, 2},
    {8, 32, 16, BF16, BF16, F32, F32, "f32.bf16.bf16.f32", 2, 8},
    {16, 16, 8, TF32, TF32, F32, F32, "f32.tf32.tf32.f32", 4, 4},
    {8, 8, 4, F64, F64, F64, F64, "f64.f64.f64.f64", 1, 1},
    {16, 16, 16, S8, S8, S32, S32, "s32.s8.s8.s32", 2, 2},
    {16, 16, 16, U8, U8, S32, S32, "s32.u8.u8.s32.satfinite", 2, 2},
    {32, 8, 16, S8, S8, S32, S32, "s32.s8.s8.s32", 4, 1},
    {8, 32, 16, U8, U8, S32, S32, "s32.u8.u8.s32", 1, 4},
    {8, 8, 32, S4, S4, S32, S32, "s32.s4.s4.s32", 1, 1},
    {8, 8, 32, U4, U4, S32, S32, "s32.u4.u4.s32.satfinite", 1, 1},
    {8, 8, 128, B1, B1, S32, S32, "s32.b1.b1.s32", 1, 1},
};

/* A matrix of rows by cols in memory, row- or column-major with a stride in elements. */
static void set_memory(uint8_t *memory, elem_t e, bool col_major, unsigned stride, unsigned row,
                       unsigned col, double x)
{
    size_t at = (col_major ? (size_t)col * stride + row : (size_t)row * stride + col);
    uint64_t v = encode(e, x);
    unsigned bits = elem_bits(e);
    if (bits >= 8)
        memcpy(memory + at * bits / 8, &v, bits / 8);
    else
        memory[at * bits / 8] |= (uint8_t)(v << at * bits % 8);
}

static double get_memory(const uint8_t *memory, elem_t e, bool col_major, unsigned stride,
                         unsigned row, unsigned col)
{
    size_t at = (col_major ? (size_t)col * stride + row : (size_t)row * stride + col);
    uint64_t v = 0;
    memcpy(&v, memory + at * elem_bits(e) / 8, elem_bits(e) / 8);
    return decode(e, v);
}

static unsigned c_regs(const wmma_t *x, elem_t e)
{
    return x->m * x->n / LANES / (e == F16 ? 2 : 1);
}

/* Layouts: bit 0 A, 1 B, 2 C, 3 D column-major. `shared`: A and B by way of shared memory. */
static void wmma_text(char *text, size_t size, const wmma_t *x, unsigned layouts,
                      const unsigned strides[4], bool shared, bool natural)
{
    char a[128], b[128], c[128], d[128], shape[32], s[4][24];
    const char *layout[4], *space = shared ? ".shared" : ".global";
    for (unsigned k = 0; k < 4; k++) {
        layout[k] = layouts >> k & 1 ? "col" : "row";
        snprintf(s[k], sizeof s[k], natural ? "" : ", %u", strides[k]);
    }
    list(a, reg_kind(x->a), 10, x->a_regs);
    list(b, reg_kind(x->b), 20, x->b_regs);
    list(c, reg_kind(x->c), 30, c_regs(x, x->c));
    list(d, reg_kind(x->d), 40, c_regs(x, x->d));
    snprintf(shape, sizeof shape, "m%un%uk%u", x->m, x->n, x->k);
    snprintf(text, size,
             HEAD
             ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n{\n"
             "%s.shared .align 128 .b8 sa[8192]; .shared .align 128 .b8 sb[8192];\n"
             "ld.param.u64 %%q1, [a]; ld.param.u64 %%q2, [b]; ld.param.u64 %%q3, [c];\n"
             "ld.param.u64 %%q4, [d]; mov.u32 %%r1, %%tid.x; shr.u32 %%r2, %%r1, 5;\n"
             "mul.wide.u32 %%q5, %%r2, 4096; add.s64 %%q1, %%q1, %%q5;\n"
             "add.s64 %%q2, %%q2, %%q5; add.s64 %%q3, %%q3, %%q5; add.s64 %%q4, %%q4, %%q5;\n",
             declare);
    if (shared) /* every thread copies its part of the warp's 4096 bytes */
        strcat(text, "mov.u64 %q6, sa; mov.u64 %q7, sb; add.s64 %q6, %q6, %q5;\n"
                     "add.s64 %q7, %q7, %q5; and.b32 %r3, %r1, 31; mov.u32 %r4, 0;\n"
                     "Copy: mad.lo.u32 %r5, %r4, 32, %r3; mul.wide.u32 %q8, %r5, 4;\n"
                     "add.s64 %q9, %q1, %q8; ld.global.u32 %r6, [%q9]; add.s64 %q9, %q6, %q8;\n"
                     "st.shared.u32 [%q9], %r6; add.s64 %q9, %q2, %q8;\n"
                     "ld.global.u32 %r6, [%q9]; add.s64 %q9, %q7, %q8; st.shared.u32 [%q9], %r6;\n"
                     "add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 32; @%p1 bra Copy; bar.sync 0;\n"
                     "mov.b64 %q1, %q6; mov.b64 %q2, %q7;\n");
    sprintf(text + strlen(text), "wmma.load.a.sync.aligned.%s.%s%s.%s %s, [%%q1]%s;\n", layout[0],
            shape, space, elem_names[x->a], a, s[0]);
    sprintf(text + strlen(text), "wmma.load.b.sync.aligned.%s.%s%s.%s %s, [%%q2]%s;\n", layout[1],
            shape, space, elem_names[x->b], b, s[1]);
    sprintf(text + strlen(text), "wmma.load.c.sync.aligned.%s.%s.%s %s, [%%q3]%s;\n", layout[2],
            shape, elem_names[x->c], c, s[2]);
    sprintf(text + strlen(text), "wmma.mma%s.sync.aligned.%s.%s.%s.%s\n%s, %s, %s, %s;\n",
            x->a == B1 ? ".xor.popc" : "", layout[0], layout[1], shape, x->words, d, a, b, c);
    sprintf(text + strlen(text),
            "wmma.store.d.sync.aligned.%s.%s.global.%s [%%q4], %s%s;\nret;\n}\n", layout[3], shape,
            elem_names[x->d], d, s[3]);
}

static void check_wmma(const wmma_t *x, unsigned layouts, bool shared, bool natural)
{
    static matrices_t m[WARPS];
    static uint8_t memory[4][WARPS][4096];
    const elem_t in[3] = {x->a, x->b, x->c};
    bool col[4];
    uint32_t seed = (uint32_t)(x - wmmas) * 3 + layouts;
    unsigned more = natural ? 0 : x->a == B1 ? 128 : x->a == S4 || x->a == U4 ? 32 : 16;
    unsigned strides[4];
    const unsigned rows[4] = {x->m, x->k, x->m, x->m}, cols[4] = {x->k, x->n, x->n, x->n};
    for (unsigned k = 0; k < 4; k++) {
        col[k] = layouts >> k & 1;
        strides[k] = (col[k] ? rows[k] : cols[k]) + more;
    }
    memset(memory, 0, sizeof memory);
    for (unsigned w = 0; w < WARPS; w++) {
        random_matrices(&m[w], x->m, x->n, x->k, in, strstr(x->words, "satfinite") != NULL, &seed);
        reference(&m[w], x->m, x->n, x->k, x->a, x->words);
        for (unsigned r = 0; r < 32; r++) {
            for (unsigned c = 0; c < MAX_K; c++) {
                if (r < x->m && c < x->k)
                    set_memory(memory[0][w], x->a, col[0], strides[0], r, c, m[w].a[r][c]);
                if (r < x->n && c < x->k)
                    set_memory(memory[1][w], x->b, col[1], strides[1], c, r, m[w].b[c][r]);
                if (r < x->m && c < x->n)
                    set_memory(memory[2][w], x->c, col[2], strides[2], r, c, m[w].c[r][c]);
            }
        }
    }
    char text[8192];
    wmma_text(text, sizeof text, x, layouts, strides, shared, natural);
    CUmodule module = pt_load(text);
    CUdeviceptr at[4];
    void *params[4];
    for (unsigned k = 0; k < 4; k++) {
        at[k] = pt_upload(memory[k], sizeof memory[k]);
        params[k] = &at[k];
    }
    pt_dim_t block = {WARPS * LANES, 1, 1};
    pt_launch(pt_function(module, "k"), one, block, 0, params);
    pt_download(memory[3], at[3], sizeof memory[3]);
    for (unsigned w = 0; w < WARPS; w++) {
        for (unsigned r = 0; r < x->m; r++) {
            for (unsigned c = 0; c < x->n; c++) {
                double got = get_memory(memory[3][w], x->d, col[3], strides[3], r, c);
                if (!wraps_to(x->d, got, m[w].d[r][c]))
                    fail_msg(
                        "wmma m%un%uk%u %s, layouts %x: warp %u, row %u, column %u is %g, must "
                        "be %g",
                        x->m, x->n, x->k, x->words, layouts, w, r, c, got, m[w].d[r][c]);
            }
        }
    }
    for (unsigned k = 0; k < 4; k++)
        pt_free(at[k]);
    pt_unload(module);
}

static void test_wmma(void **state)
{
    (void)state;
    needs_warp();
    for (size_t k = 0; k < sizeof wmmas / sizeof wmmas[0]; k++) {
        const wmma_t *x = &wmmas[k];
        bool fixed = elem_bits(x->a) < 8; /* only row by column */
        /* all layouts of the first, some of the others */
        for (unsigned layouts = k % 5; layouts < 16; layouts += k == 0 ? 1 : 5) {
            unsigned l = fixed ? (layouts & 12) | 2 : layouts;
            check_wmma(x, l, false, layouts % 3 == 0);
        }
        check_wmma(x, 2, true, true);
        check_wmma(x, 2, true, false);
    }
}

/* ---- ldmatrix, stmatrix, movmatrix ---- */

/* Tiles of 8 rows by 8 halves lie in shared memory with a row every 48 bytes, last row first. */
static void check_rows(unsigned count, bool trans, bool generic)
{
    char regs[64], text[8192];
    static uint16_t in[32][8], out[4][LANES][2], back[32][8];
    uint32_t seed = count;
    for (unsigned k = 0; k < 256; k++)
        in[k / 8][k % 8] = (uint16_t)pt_random(&seed);
    list(regs, 'r', 20, count);
    snprintf(text, sizeof text,
             HEAD
             ".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 back)\n{\n"
             "%s.shared .align 128 .b8 s[1536]; .shared .align 128 .b8 t[1536];\n"
             "ld.param.u64 %%q1, [in]; ld.param.u64 %%q2, [out]; ld.param.u64 %%q3, [back];\n"
             "mov.u32 %%r1, %%tid.x; mul.wide.u32 %%q4, %%r1, 16; add.s64 %%q1, %%q1, %%q4;\n"
             "add.s64 %%q3, %%q3, %%q4; mul.wide.u32 %%q5, %%r1, 4; add.s64 %%q2, %%q2, %%q5;\n"
             "sub.u32 %%r2, 31, %%r1; mov.u32 %%r3, s; mad.lo.u32 %%r3, %%r2, 48, %%r3;\n"
             "mov.u32 %%r4, t; mad.lo.u32 %%r4, %%r2, 48, %%r4;\n"
             "ld.global.v4.u32 {%%r10, %%r11, %%r12, %%r13}, [%%q1];\n"
             "st.shared.v4.u32 [%%r3], {%%r10, %%r11, %%r12, %%r13}; bar.sync 0;\n"
             "mul.wide.u32 %%q6, %%r2, 48; mov.u64 %%q7, s; add.s64 %%q7, %%q7, %%q6;\n"
             "cvta.shared.u64 %%q7, %%q7;\n"
             "ldmatrix.sync.aligned.m8n8.x%u%s%s.b16 %s, [%s];\n"
             "stmatrix.sync.aligned.m8n8.x%u%s.shared.b16 [%%r4], %s; bar.sync 0;\n"
             "ld.shared.v4.u32 {%%r10, %%r11, %%r12, %%r13}, [%%r4];\n"
             "st.global.v4.u32 [%%q3], {%%r10, %%r11, %%r12, %%r13};\n",
             declare, count, trans ? ".trans" : "", generic ? "" : ".shared", regs,
             generic ? "%q7" : "%r3", count, trans ? ".trans" : "", regs);
    for (unsigned k = 0; k < count; k++)
        sprintf(text + strlen(text), "st.global.u32 [%%q2+%u], %%r%u;\n", k * 128, 20 + k);
    strcat(text, "ret;\n}\n");
    CUmodule module = pt_load(text);
    CUdeviceptr d_in = pt_upload(in, sizeof in), d_out = pt_upload(NULL, sizeof out);
    CUdeviceptr d_back = pt_upload(NULL, sizeof back);
    void *params[] = {&d_in, &d_out, &d_back};
    pt_dim_t block = {LANES, 1, 1};
    pt_launch(pt_function(module, "k"), one, block, 0, params);
    pt_download(out, d_out, sizeof out);
    pt_download(back, d_back, sizeof back);
    for (unsigned n = 0; n < count; n++) {
        for (unsigned lane = 0; lane < LANES; lane++) {
            for (unsigned h = 0; h < 2; h++) {
                unsigned row = lane / 4, col = lane % 4 * 2 + h;
                unsigned want = trans ? in[8 * n + col][row] : in[8 * n + row][col];
                if (out[n][lane][h] != want)
                    fail_msg("ldmatrix x%u trans %d: matrix %u, lane %u, half %u is %x, must be %x",
                             count, trans, n, lane, h, out[n][lane][h], want);
            }
        }
    }
    assert_memory_equal(back, in, count * 128);
    pt_free(d_in);
    pt_free(d_out);
    pt_free(d_back);
    pt_unload(module);
}

static void test_rows(void **state)
{
    (void)state;
    needs_warp();
    for (unsigned count = 1; count <= 4; count *= 2) {
        check_rows(count, false, false);
        check_rows(count, true, false);
        check_rows(count, true, true);
    }
}

static void test_movmatrix(void **state)
{
    static const char text[] =
        HEAD ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
             ".reg .b32 %r<8>; .reg .b64 %q<8>; ld.param.u64 %q1, [in]; ld.param.u64 %q2, [out];\n"
             "mov.u32 %r1, %tid.x; mul.wide.u32 %q3, %r1, 4; add.s64 %q1, %q1, %q3;\n"
             "add.s64 %q2, %q2, %q3; ld.global.u32 %r2, [%q1];\n"
             "movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r2; st.global.u32 [%q2], %r3; ret;\n}\n";
    uint16_t in[WARPS][8][8], out[WARPS][8][8];
    (void)state;
    needs_warp();
    for (unsigned k = 0; k < WARPS * 64; k++)
        in[k / 64][k / 8 % 8][k % 8] = (uint16_t)(k * 77);
    CUmodule module = pt_load(text);
    CUdeviceptr d_in = pt_upload(in, sizeof in), d_out = pt_upload(NULL, sizeof out);
    void *params[] = {&d_in, &d_out};
    pt_dim_t block = {WARPS * LANES, 1, 1};
    pt_launch(pt_function(module, "k"), one, block, 0, params);
    pt_download(out, d_out, sizeof out);
    for (unsigned k = 0; k < WARPS * 64; k++)
        assert_int_equal(out[k / 64][k / 8 % 8][k % 8], in[k / 64][k % 8][k / 8 % 8]);
    pt_free(d_in);
    pt_free(d_out);
    pt_unload(module);
}

/* ---- what is refused ---- */

static void test_refused(void **state)
{
    static const char *const bad[] = {
        "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, "
        "{%r3, %r4}, {%f1, %f2, %f3, %f4}, %r5, 0x0;",
        "mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, "
        "%r4}, {%r1, %r2}, {%f1, %f2, %f3, %f4};",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r1, "
        "%r2}, {%f1, %f2, %f3, %f4};",
        "mma.sync.aligned.m16n8k8.col.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r1}, "
        "{%f1, %f2, %f3, %f4};",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, "
        "{%r1}, {%f1, %f2, %f3, %f4};",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%r3];",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[1024], log[2048];
        snprintf(text, sizeof text,
                 HEAD
                 ".visible .entry k()\n{\n.reg .b32 %%r<8>; .reg .f32 %%f<6>;\n\n%s\nret;\n}\n",
                 bad[i]);
        if (pt_try_load(text, log, sizeof log))
            fail_msg("'%s' is accepted", bad[i]);
        if (!strstr(log, "line 8"))
            fail_msg("%s: %s", bad[i], log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mma),         cmocka_unit_test(test_shared_operands),
        cmocka_unit_test(test_mma_special), cmocka_unit_test(test_quads),
        cmocka_unit_test(test_wmma),        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_movmatrix),   cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

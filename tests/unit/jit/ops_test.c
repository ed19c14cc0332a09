/* Instructions one by one: integers and conversions against plain C, scalar against vector; the
 * approximations against the C library within PTX's bounds. */
#include "tests/unit/jit/jit_rig.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 256 };

static const uint32_t ONE[3] = {1, 1, 1};

/* Input words: bit patterns that are interesting as integers and as floats. */
static uint32_t input(uint32_t n)
{
    static const uint32_t SPECIAL[] = {
        0,          1,          0xffffffff, 0x7fffffff, 0x80000000, 0x80000001, 0x3f800000,
        0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x00000010, 0x80000010, 0x00800000,
        0x4f000000, 0x4effffff, 0xcf000000, 0x4f800000, 0x3f000000, 0x3fc00000, 0x40200000,
        0x33800000, 0x477fe000, 0x477ff000, 0x7f7fffff, 0x5f000000, 0x3effffff, 0x00007fff};
    if (n < sizeof SPECIAL / sizeof SPECIAL[0]) {
        return SPECIAL[n];
    }
    uint32_t x = n * 2654435761u;
    x ^= x >> 15;
    return n % 3 == 0 ? x : n % 3 == 1 ? x % 100 : 0x3f000000 + (x >> 6); /* any, small, float */
}

typedef struct {
    uint32_t a[N], b[N], c[N];
    uint64_t out[N];
} cells_t;

static cells_t *cells(void)
{
    return (cells_t *)(void *)rig_memory();
}

/* %r10, %r11, %r12 = a, b, c (also %f10.. and %rd10..); the result is %rd20. */
static void run(const char *body, unsigned width)
{
    static const char LOAD[] =
        "mul.wide.u32 %%rd1, %%r0, 4;\nadd.s64 %%rd1, %%rd1, %%rd0;\n"
        "ld.global.u32 %%r10, [%%rd1];\nld.global.u32 %%r11, [%%rd1+%u];\n"
        "ld.global.u32 %%r12, [%%rd1+%u];\nmov.b32 %%f10, %%r10;\nmov.b32 %%f11, %%r11;\n"
        "mov.b32 %%f12, %%r12;\nmov.b64 %%rd10, {%%r10, %%r11};\nmov.b64 %%rd11, {%%r12, %%r10};\n"
        "cvt.f64.f32 %%d1, %%f10;\ncvt.f64.f32 %%d2, %%f11;\n%s\n"
        "mul.wide.u32 %%rd2, %%r0, 8;\nadd.s64 %%rd2, %%rd2, %%rd0;\nst.global.u64 [%%rd2+%u], "
        "%%rd20;\n";
    char text[4096];
    rig_t rig;
    uint32_t block[3] = {N, 1, 1};
    uint64_t p = (uintptr_t)rig_memory();
    snprintf(text, sizeof text, LOAD, N * 4, N * 8, body, N * 12);
    char *kernel = rig_kernel("", text);
    rig_clear();
    for (uint32_t n = 0; n < N; n++) {
        cells()->a[n] = input(n);
        cells()->b[n] = input((n * 7 + 3) % N);
        cells()->c[n] = input((n * 13 + 5) % N);
    }
    rig_begin(&rig, kernel, "k", rig_exact(N, 1, 1), width);
    assert_int_equal(rig_run(&rig, ONE, block, &p, 0), CPU_RUN_OK);
    rig_end(&rig);
    free(kernel);
}

typedef uint64_t (*reference_fn)(uint32_t a, uint32_t b, uint32_t c);

static float as_float(uint32_t w)
{
    float f;
    memcpy(&f, &w, 4);
    return f;
}

static uint32_t as_word(float f)
{
    uint32_t w;
    memcpy(&w, &f, 4);
    return w;
}

static uint64_t wide(uint32_t a, uint32_t b)
{
    return a | (uint64_t)b << 32;
}

static void expect(const char *body, reference_fn want)
{
    for (unsigned w = 0; w < 2; w++) {
        run(body, w);
        for (uint32_t n = 0; n < N; n++) {
            uint32_t a = cells()->a[n], b = cells()->b[n], c = cells()->c[n];
            if (cells()->out[n] != want(a, b, c)) {
                fail_msg("width %u: %s: a %08x b %08x c %08x gives %llx, want %llx", w, body, a, b,
                         c, (unsigned long long)cells()->out[n], (unsigned long long)want(a, b, c));
            }
        }
    }
}

/* Result of 32 bits in %r20. */
#define R32 "cvt.u64.u32 %rd20, %r20;"
#define F32 "mov.b32 %r20, %f20;\ncvt.u64.u32 %rd20, %r20;"

static uint64_t mul_hi_u(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return (uint64_t)a * b >> 32;
}
static uint64_t mul_hi_s(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return (uint32_t)((int64_t)(int32_t)a * (int32_t)b >> 32);
}
static uint64_t mad_wide(uint32_t a, uint32_t b, uint32_t c)
{
    return (uint64_t)((int64_t)(int32_t)a * (int32_t)b) + wide(c, a);
}
static uint64_t mul_hi_64(uint32_t a, uint32_t b, uint32_t c)
{
    return (uint64_t)((unsigned __int128)wide(a, b) * wide(c, a) >> 64);
}
static uint64_t div_u(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return b != 0 ? a / b : UINT32_MAX;
}
static uint64_t rem_u(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return b != 0 ? a % b : a;
}
static uint64_t div_s(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return b == 0 ? UINT32_MAX : b == UINT32_MAX ? 0 - a : (uint32_t)((int32_t)a / (int32_t)b);
}
static uint64_t rem_s(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return b == 0 ? a : b == UINT32_MAX ? 0 : (uint32_t)((int32_t)a % (int32_t)b);
}
static uint64_t div_64(uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t y = wide(c, a) >> 7;
    return y != 0 ? wide(a, b) / y : UINT64_MAX;
}
static uint64_t shifts(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    uint32_t l = b < 32 ? a << b : 0, r = b < 32 ? a >> b : 0;
    uint32_t s = (uint32_t)((int32_t)a >> (b < 32 ? b : 31));
    return wide(l ^ r, s);
}
static uint64_t bfe_u(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t pos = b & 255, len = c & 255;
    uint32_t v = pos < 32 ? a >> pos : 0;
    return len >= 32 ? v : v & ((1u << len) - 1);
}
static uint64_t bfe_s(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t pos = b & 255, len = c & 255, v = 0;
    uint32_t last = pos + len - 1 < 31 ? pos + len - 1 : 31;
    uint32_t sign = len != 0 ? a >> last & 1 : 0;
    for (uint32_t k = 0; k < 32; k++) {
        v |= (k < len && pos + k <= 31 ? a >> (pos + k) & 1 : sign) << k;
    }
    return v;
}
static uint64_t bfi(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t pos = c & 255, len = c >> 8 & 255, v = b;
    for (uint32_t k = 0; k < len && pos + k < 32 && k < 32; k++) {
        v = (v & ~(1u << (pos + k))) | (a >> k & 1) << (pos + k);
    }
    return v;
}
static uint64_t bit_counts(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    uint32_t clz = a != 0 ? (uint32_t)__builtin_clz(a) : 32;
    uint32_t folded = b >> 31 ? ~b : b;
    uint32_t find = folded != 0 ? 31 - (uint32_t)__builtin_clz(folded) : UINT32_MAX;
    return wide((uint32_t)__builtin_popcount(a) * 100 + clz, find);
}
static uint64_t bit_reverse(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b, (void)c;
    uint32_t r = 0;
    for (unsigned k = 0; k < 32; k++) {
        r |= (a >> k & 1) << (31 - k);
    }
    return r;
}
static uint64_t lop3(uint32_t a, uint32_t b, uint32_t c)
{
    return (uint32_t)((a & b) ^ c) | 0;
}
static uint64_t funnel(uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t v = wide(a, b);
    return wide((uint32_t)(v << (c & 31) >> 32), (uint32_t)(v >> (c < 32 ? c : 32)));
}
static uint64_t prmt(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r = 0;
    for (unsigned k = 0; k < 4; k++) {
        uint32_t sel = c >> (4 * k) & 15;
        uint32_t byte = (uint32_t)(wide(a, b) >> (8 * (sel & 7))) & 255;
        byte = sel & 8 ? (byte >> 7 ? 255 : 0) : byte;
        r |= byte << (8 * k);
    }
    return r;
}
static uint64_t saturating(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    int64_t s = (int64_t)(int32_t)a + (int32_t)b;
    s = s > INT32_MAX ? INT32_MAX : s < INT32_MIN ? INT32_MIN : s;
    return (uint32_t)s;
}
static uint64_t sad(uint32_t a, uint32_t b, uint32_t c)
{
    int64_t d = (int64_t)(int32_t)a - (int32_t)b;
    return (uint32_t)((uint32_t)(d < 0 ? -d : d) + c);
}

static void integers(void **state)
{
    (void)state;
    expect("mul.hi.u32 %r20, %r10, %r11;\n" R32, mul_hi_u);
    expect("mul.hi.s32 %r20, %r10, %r11;\n" R32, mul_hi_s);
    expect("mad.wide.s32 %rd20, %r10, %r11, %rd11;\nmov.b64 %rd11, {%r12, %r10};\n"
           "mov.b64 %rd20, {%r12, %r10};\nmad.wide.s32 %rd20, %r10, %r11, %rd20;",
           mad_wide);
    expect("mul.hi.u64 %rd20, %rd10, %rd11;", mul_hi_64);
    expect("div.u32 %r20, %r10, %r11;\n" R32, div_u);
    expect("rem.u32 %r20, %r10, %r11;\n" R32, rem_u);
    expect("div.s32 %r20, %r10, %r11;\n" R32, div_s);
    expect("rem.s32 %r20, %r10, %r11;\n" R32, rem_s);
    expect("shr.u64 %rd11, %rd11, 7;\ndiv.u64 %rd20, %rd10, %rd11;", div_64);
    expect("shl.b32 %r20, %r10, %r11;\nshr.u32 %r21, %r10, %r11;\nxor.b32 %r20, %r20, %r21;\n"
           "shr.s32 %r21, %r10, %r11;\nmov.b64 %rd20, {%r20, %r21};",
           shifts);
    expect("bfe.u32 %r20, %r10, %r11, %r12;\n" R32, bfe_u);
    expect("bfe.s32 %r20, %r10, %r11, %r12;\n" R32, bfe_s);
    expect("shr.u32 %r13, %r12, 8;\nbfi.b32 %r20, %r10, %r11, %r12, %r13;\n" R32, bfi);
    expect("popc.b32 %r20, %r10;\nclz.b32 %r21, %r10;\nmad.lo.s32 %r20, %r20, 100, %r21;\n"
           "bfind.s32 %r21, %r11;\nmov.b64 %rd20, {%r20, %r21};",
           bit_counts);
    expect("brev.b32 %r20, %r10;\n" R32, bit_reverse);
    expect("lop3.b32 %r20, %r10, %r11, %r12, 0x6a;\n" R32, lop3);
    expect("shf.l.wrap.b32 %r20, %r10, %r11, %r12;\nshf.r.clamp.b32 %r21, %r10, %r11, %r12;\n"
           "mov.b64 %rd20, {%r20, %r21};",
           funnel);
    expect("prmt.b32 %r20, %r10, %r11, %r12;\n" R32, prmt);
    expect("add.sat.s32 %r20, %r10, %r11;\n" R32, saturating);
    expect("sad.s32 %r20, %r10, %r11, %r12;\n" R32, sad);
}

/* ---- conversions ---- */

static uint64_t clamp_s(double v, double low, double high)
{
    return isnan(v) ? 0 : (uint64_t)(int64_t)(v < low ? low : v > high ? high : v);
}
static uint64_t f32_to_s32(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b, (void)c;
    return (uint32_t)clamp_s(rint(as_float(a)), INT32_MIN, INT32_MAX);
}
static uint64_t f32_to_u32(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b, (void)c;
    return clamp_s(trunc(as_float(a)), 0, UINT32_MAX);
}
static uint64_t f32_to_u8_floor(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b, (void)c;
    return clamp_s(floor(as_float(a)), 0, 255);
}
static uint64_t s32_to_f32(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b, (void)c;
    return wide(as_word((float)(int32_t)a), as_word((float)a));
}
static uint64_t s64_to_f32(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return wide(as_word((float)(int64_t)wide(a, b)), as_word((float)wide(a, b)));
}
static uint64_t narrow_sat(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    int32_t s = (int32_t)a;
    uint32_t u = b > 65535 ? 65535 : b;
    return wide((uint32_t)(s < -128 ? -128 : s > 127 ? 127 : s), u);
}
static uint64_t f64_back(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    float r = (float)((double)as_float(a) * (double)as_float(b));
    return isnan(r) ? 0x7fffffff : as_word(r);
}
static uint64_t bf16_pair(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    uint32_t w[2] = {a, b}, r[2];
    for (unsigned k = 0; k < 2; k++) {
        r[k] = isnan(as_float(w[k])) ? 0x7fff : (w[k] + 0x7fff + (w[k] >> 16 & 1)) >> 16;
    }
    return r[0] << 16 | r[1];
}

#define NO_NAN                                                                                     \
    "setp.nan.f32 %p1, %f20, %f20;\nmov.b32 %r20, %f20;\nselp.b32 %r20, 0x7fffffff, %r20, %p1;\n"  \
    "cvt.u64.u32 %rd20, %r20;"

static void conversions(void **state)
{
    (void)state;
    expect("cvt.rni.s32.f32 %r20, %f10;\n" R32, f32_to_s32);
    expect("cvt.rzi.u32.f32 %r20, %f10;\n" R32, f32_to_u32);
    expect("cvt.rmi.u8.f32 %r20, %f10;\n" R32, f32_to_u8_floor);
    expect("cvt.rn.f32.s32 %f20, %r10;\ncvt.rn.f32.u32 %f21, %r10;\nmov.b32 %r20, %f20;\n"
           "mov.b32 %r21, %f21;\nmov.b64 %rd20, {%r20, %r21};",
           s32_to_f32);
    expect("cvt.rn.f32.s64 %f20, %rd10;\ncvt.rn.f32.u64 %f21, %rd10;\nmov.b32 %r20, %f20;\n"
           "mov.b32 %r21, %f21;\nmov.b64 %rd20, {%r20, %r21};",
           s64_to_f32);
    expect("cvt.sat.s8.s32 %r20, %r10;\ncvt.sat.u16.u32 %r21, %r11;\nmov.b64 %rd20, {%r20, %r21};",
           narrow_sat);
    expect("mul.f64 %d1, %d1, %d2;\ncvt.rn.f32.f64 %f20, %d1;\n" NO_NAN, f64_back);
    expect("cvt.rn.bf16x2.f32 %r20, %f10, %f11;\n" R32, bf16_pair);
}

/* ---- floating point ---- */

static uint64_t result(float f)
{
    return isnan(f) ? 0x7fffffff : as_word(f);
}
static float flush(float f)
{
    return fabsf(f) < 0x1p-126f ? copysignf(0, f) : f;
}
static uint64_t fma_rn(uint32_t a, uint32_t b, uint32_t c)
{
    return result(fmaf(as_float(a), as_float(b), as_float(c)));
}
static uint64_t add_ftz(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return result(flush(flush(as_float(a)) + flush(as_float(b))));
}
static uint64_t mul_sat(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    float v = as_float(a) * as_float(b);
    return as_word(!(v > 0) ? 0 : v < 1 ? v : 1);
}
static uint64_t div_rn(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return result(as_float(a) / as_float(b));
}
static uint64_t sqrt_rn(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b, (void)c;
    return result(sqrtf(as_float(a)));
}
static uint64_t min_ieee(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    float x = as_float(a), y = as_float(b);
    if (x == 0 && y == 0) {
        return a | b;
    }
    return result(isnan(x) ? y : isnan(y) ? x : x < y ? x : y);
}
static uint64_t max_nan(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    float x = as_float(a), y = as_float(b);
    if (x == 0 && y == 0) {
        return a & b;
    }
    return isnan(x) || isnan(y) ? 0x7fffffff : result(x > y ? x : y);
}

/* Directed rounding, from the long double (64-bit mantissa) and its remainder. */
static float toward(long double exact, int rest, int direction)
{
    float r = (float)exact;
    long double back = r;
    bool above = back > exact || (back == exact && rest < 0);
    bool below = back < exact || (back == exact && rest > 0);
    if (direction < 0 && above) {
        r = nextafterf(r, -INFINITY);
    } else if (direction > 0 && below) {
        r = nextafterf(r, INFINITY);
    } else if (direction == 0 && r > 0 && above) {
        r = nextafterf(r, -INFINITY);
    } else if (direction == 0 && r < 0 && below) {
        r = nextafterf(r, INFINITY);
    }
    return r;
}
static uint64_t mul_rm(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return result(toward((long double)as_float(a) * as_float(b), 0, -1));
}
static uint64_t mul_rz(uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    return result(toward((long double)as_float(a) * as_float(b), 0, 0));
}
static uint64_t fma_rm_small(uint32_t a, uint32_t b, uint32_t c)
{
    /* operands cut to 20 bits and near 1: the long double sum is exact */
    float x = as_float((a & 0x007ff000) | 0x3f800000), y = as_float((b & 0x007ff000) | 0x3f800000);
    float z = as_float((c & 0x807ff000) | 0x3f800000);
    long double sum = (long double)x * y + z;
    return sum == 0 && z < 0 ? 0x80000000u : result(toward(sum, 0, -1));
}
static uint64_t cvt_rz(uint32_t a, uint32_t b, uint32_t c)
{
    (void)b, (void)c;
    return result(toward((long double)(int32_t)a, 0, 0));
}

static uint64_t clamped(uint32_t a, uint32_t b, uint32_t c)
{
    float x = as_float(a);
    (void)b;
    (void)c;
    return as_word(!(x > -87.0f) ? -87.0f : x < 88.0f ? x : 88.0f);
}

/* The zero that a limit yields to. */
static uint64_t zero_limits(uint32_t a, uint32_t b, uint32_t c)
{
    float x = as_float(a), y = as_float(b);
    (void)c;
    return wide(isnan(x) || x > 0 ? 0
                : x == 0          ? a
                                  : as_word(x),
                isnan(y) || y < 0 ? 0x80000000
                : y == 0          ? b
                                  : as_word(y));
}

/* Signalling NaNs before and behind it are as if they were not there. */
static uint64_t beside_nan(uint32_t a, uint32_t b, uint32_t c)
{
    (void)a;
    (void)c;
    return isnan(as_float(b)) ? 0xff800000 : b;
}

static void floats(void **state)
{
    (void)state;
    expect("fma.rn.f32 %f20, %f10, %f11, %f12;\n" NO_NAN, fma_rn);
    expect("add.ftz.f32 %f20, %f10, %f11;\n" NO_NAN, add_ftz);
    expect("mul.sat.f32 %f20, %f10, %f11;\n" F32, mul_sat);
    expect("div.rn.f32 %f20, %f10, %f11;\n" NO_NAN, div_rn);
    expect("sqrt.rn.f32 %f20, %f10;\n" NO_NAN, sqrt_rn);
    expect("min.f32 %f20, %f10, %f11;\n" NO_NAN, min_ieee);
    expect("max.NaN.f32 %f20, %f10, %f11;\n" F32, max_nan);
    expect("max.f32 %f20, %f10, 0fC2AE0000;\nmin.f32 %f20, 0f42B00000, %f20;\n" F32, clamped);
    expect("min.f32 %f20, %f10, 0f00000000;\nmax.f32 %f21, 0f80000000, %f11;\n"
           "mov.b32 %r20, %f20;\nmov.b32 %r21, %f21;\nmov.b64 %rd20, {%r20, %r21};",
           zero_limits);
    expect("and.b32 %r13, %r10, 0x803fffff;\nor.b32 %r13, %r13, 0x7f800001;\nmov.b32 %f13, %r13;\n"
           "mov.f32 %f14, 0fFF800000;\nmax.f32 %f14, %f14, %f13;\nmax.f32 %f14, %f14, %f11;\n"
           "max.f32 %f20, %f14, %f13;\n" F32,
           beside_nan);
    expect("mul.rm.f32 %f20, %f10, %f11;\n" NO_NAN, mul_rm);
    expect("mul.rz.f32 %f20, %f10, %f11;\n" NO_NAN, mul_rz);
    expect("and.b32 %r13, %r10, 0x007ff000;\nor.b32 %r13, %r13, 0x3f800000;\nmov.b32 %f13, %r13;\n"
           "and.b32 %r14, %r11, 0x007ff000;\nor.b32 %r14, %r14, 0x3f800000;\nmov.b32 %f14, %r14;\n"
           "and.b32 %r15, %r12, 0x807ff000;\nor.b32 %r15, %r15, 0x3f800000;\nmov.b32 %f15, %r15;\n"
           "fma.rm.f32 %f20, %f13, %f14, %f15;\n" NO_NAN,
           fma_rm_small);
    expect("cvt.rz.f32.s32 %f20, %r10;\n" NO_NAN, cvt_rz);
}

/* ---- approximations ---- */

typedef double (*function_fn)(double);

static double sin_of(double x)
{
    return sin(x);
}

static double reciprocal_root(double x)
{
    return 1 / sqrt(x);
}

static void within(const char *op, function_fn f, double low, double high, double absolute,
                   double relative)
{
    for (unsigned w = 0; w < 2; w++) {
        /* a: 24 random bits spread over [low, high] */
        char body[1024];
        snprintf(body, sizeof body,
                 "mul.lo.u32 %%r13, %%r0, 0x9e3779b1;\nshr.u32 %%r13, %%r13, 8;\n"
                 "cvt.rn.f32.u32 %%f13, %%r13;\nmov.f32 %%f14, 0f%08X;\nmov.f32 %%f15, 0f%08X;\n"
                 "fma.rn.f32 %%f16, %%f13, %%f14, %%f15;\n%s.f32 %%f20, %%f16;\n"
                 "mov.b32 %%r20, %%f20;\nmov.b32 %%r21, %%f16;\nmov.b64 %%rd20, {%%r20, %%r21};",
                 as_word((float)((high - low) / 0x1p24)), as_word((float)low), op);
        run(body, w);
        for (uint32_t n = 0; n < N; n++) {
            double x = as_float((uint32_t)(cells()->out[n] >> 32));
            double got = as_float((uint32_t)cells()->out[n]), want = f(x);
            if (!(fabs(got - want) <= absolute + relative * fabs(want))) {
                fail_msg("%s(%.9g) = %.9g, want %.9g", op, x, got, want);
            }
        }
    }
}

static void special(const char *op, uint32_t in, uint32_t want)
{
    for (unsigned w = 0; w < 2; w++) {
        char body[512];
        snprintf(body, sizeof body,
                 "mov.b32 %%r13, %u;\nmov.b32 %%f13, %%r13;\nadd.f32 %%f13, %%f13, 0f80000000;\n"
                 "%s.f32 %%f20, %%f13;\n%s",
                 in, op, NO_NAN);
        run(body, w);
        if (cells()->out[5] != want) {
            fail_msg("%s of %08x gives %08llx, want %08x", op, in,
                     (unsigned long long)cells()->out[5], want);
        }
    }
}

static void approximations(void **state)
{
    (void)state;
    const double ULP = 0x1p-23;
    within("ex2.approx", exp2, -20, 20, 0, 2 * ULP);
    within("ex2.approx", exp2, -140, -120, 0x1p-149, 2 * ULP);
    within("lg2.approx", log2, 0.5, 2, 0x1p-22, 0);
    within("lg2.approx", log2, 2, 1e6, 0, 2 * ULP);
    within("sin.approx", sin_of, -3.14159, 3.14159, 0x1.6p-21, 0);
    within("cos.approx", cos, -3.14159, 3.14159, 0x1.6p-21, 0);
    within("tanh.approx", tanh, -9, 9, 0, 0x1p-18);
    within("tanh.approx", tanh, -0.6, 0.6, 0, 0x1p-14);
    within("rsqrt.approx", reciprocal_root, 0.001, 1000, 0, 2 * ULP);
    special("ex2.approx", 0x7f800000, 0x7f800000);
    special("ex2.approx", 0xff800000, 0);
    special("ex2.approx", 0x7fc00000, 0x7fffffff);
    special("ex2.approx", 0, 0x3f800000);
    special("lg2.approx", 0, 0xff800000);
    special("lg2.approx", 0x7f800000, 0x7f800000);
    special("lg2.approx", 0xbf800000, 0x7fffffff);
    special("lg2.approx", 1, as_word(-149));
    special("lg2.approx", 0x3f800000, 0);
    special("tanh.approx", 0x7f800000, 0x3f800000);
}

static void not_covered_is_said(void **state)
{
    (void)state;
    static const char TEXT[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                               ".visible .entry k()\n{\n.reg .b16 %h<5>;\n"
                               "fma.rn.oob.f16 %h1, %h2, %h3, %h4;\nret;\n}\n";
    ptx_module_t *module;
    char text[512] = "";
    cpu_jit_log_t log = {text, sizeof text, 0};
    assert_int_equal(ptx_parse(TEXT, strlen(TEXT), NULL, &module), GB_OK);
    assert_int_equal(cpu_jit_covers(module, &log), GB_ERR_UNSUPPORTED);
    assert_non_null(strstr(text, "line 7"));
    assert_non_null(strstr(text, "fma.rn.oob.f16"));
    ptx_module_free(module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),
        cmocka_unit_test(conversions),
        cmocka_unit_test(floats),
        cmocka_unit_test(approximations),
        cmocka_unit_test(not_covered_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

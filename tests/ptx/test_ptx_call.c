/* Calls of device functions that are known where they are called: every way to pass arguments and
 * results, and what callees may do. */
#include "tests/ptx/call_help.h"

#include <string.h>

/* ---- arguments and results ---- */

static const char F_SCALARS[] =
    ".func (.param .b32 ret) mix(.param .b32 a, .param .b64 b, .param .b32 c, .param .b32 d)\n"
    "{ .reg .b32 %r<9>; .reg .b64 %d<3>; .reg .b16 %h<3>; .reg .f32 %f<3>;\n"
    "ld.param.u32 %r1, [a]; ld.param.u64 %d1, [b]; ld.param.s8 %h1, [c]; ld.param.u16 %r4, [d];\n"
    "cvt.u32.u64 %r2, %d1; shr.u64 %d2, %d1, 32; cvt.u32.u64 %r3, %d2; add.s32 %r1, %r1, %r2;\n"
    "xor.b32 %r1, %r1, %r3; cvt.s32.s16 %r5, %h1; mad.lo.s32 %r1, %r5, 3, %r1;\n"
    "mad.lo.s32 %r1, %r4, 7, %r1; st.param.b32 [ret+0], %r1; ret; }\n";

static uint32_t mix(uint32_t a, uint64_t b, uint32_t c, uint32_t d)
{
    uint32_t r = a + (uint32_t)b;
    r ^= (uint32_t)(b >> 32);
    r += (uint32_t)(int32_t)(int8_t)c * 3;
    return r + (d & 0xffff) * 7;
}

static uint32_t ref_scalars(uint32_t tid, uint32_t x)
{
    return mix(x, (uint64_t)x * tid + ((uint64_t)tid << 40), x * 5, x * 70000);
}

static const char C_SCALARS[] =
    "cvt.u64.u32 %d6, %r1; shl.b64 %d7, %d6, 40; mul.wide.u32 %d8, %r3, %r1; add.s64 %d7, %d7, "
    "%d8;\n"
    "mul.lo.s32 %r4, %r3, 5; mul.lo.s32 %r5, %r3, 70000;\n"
    "{ .param .b32 p0; st.param.b32 [p0+0], %r3; .param .b64 p1; st.param.b64 [p1+0], %d7;\n"
    ".param .b32 p2; st.param.b32 [p2+0], %r4; .param .b32 p3; st.param.b32 [p3+0], %r5;\n"
    ".param .b32 r0; call.uni (r0), mix, (p0, p1, p2, p3); ld.param.b32 %r9, [r0+0]; }";

/* Bytes and halves, stored as such and read with both signs into wider registers */
static const char F_SMALL[] =
    ".func (.param .b32 ret) small(.param .b8 a, .param .b16 b, .param .b8 c, .param .b16 d)\n"
    "{ .reg .b32 %r<9>; .reg .b16 %h<9>; .reg .b64 %d<3>;\n"
    "ld.param.u8 %h1, [a]; ld.param.s16 %r2, [b]; ld.param.s8 %r3, [c]; ld.param.u16 %d1, [d];\n"
    "cvt.u32.u16 %r1, %h1; cvt.u32.u64 %r4, %d1; mad.lo.s32 %r1, %r2, 3, %r1;\n"
    "mad.lo.s32 %r1, %r3, 5, %r1; mad.lo.s32 %r1, %r4, 11, %r1; st.param.b32 [ret], %r1; ret; }\n";

static uint32_t ref_small(uint32_t tid, uint32_t x)
{
    uint32_t v = x * 0x9e3779b9u + tid;
    uint32_t r = v & 0xff;
    r += (uint32_t)(int32_t)(int16_t)v * 3;
    r += (uint32_t)(int32_t)(int8_t)(v >> 8) * 5;
    return r + (v >> 16) * 11;
}

static const char C_SMALL[] =
    "mov.u32 %r4, 0x9e3779b9; mad.lo.s32 %r4, %r4, %r3, %r1; cvt.u16.u32 %h1, %r4;\n"
    "shr.u16 %h2, %h1, 8; shr.u32 %r5, %r4, 16; cvt.u16.u32 %h3, %r5;\n"
    "{ .param .b8 p0; st.param.b8 [p0], %h1; .param .b16 p1; st.param.b16 [p1], %h1;\n"
    ".param .b8 p2; st.param.b8 [p2], %h2; .param .b16 p3; st.param.b16 [p3], %h3;\n"
    ".param .b32 r0; call (r0), small, (p0, p1, p2, p3); ld.param.b32 %r9, [r0]; }";

static const char F_FLOAT[] =
    ".func (.param .f64 ret) poly(.param .f32 x, .param .f64 y)\n"
    "{ .reg .f32 %f<4>; .reg .f64 %fd<4>; ld.param.f32 %f1, [x]; ld.param.f64 %fd1, [y];\n"
    "mul.f32 %f2, %f1, %f1; cvt.f64.f32 %fd2, %f2; sub.f64 %fd3, %fd2, %fd1;\n"
    "st.param.f64 [ret+0], %fd3; ret; }\n";

static uint32_t ref_float(uint32_t tid, uint32_t x)
{
    float f = (float)x;
    double r = (double)(f * f) - (double)tid;
    return (uint32_t)(int32_t)r;
}

static const char C_FLOAT[] =
    "cvt.rn.f32.u32 %f1, %r3; cvt.rn.f64.u32 %fd1, %r1;\n"
    "{ .param .f32 p0; st.param.f32 [p0], %f1; .param .f64 p1; st.param.f64 [p1], %fd1;\n"
    ".param .f64 r0; call (r0), poly, (p0, p1); ld.param.f64 %fd2, [r0]; }\n"
    "cvt.rzi.s32.f64 %r9, %fd2;";

/* A structure by value, in and out, in pieces of one kind on both sides */
static const char F_STRUCT[] =
    ".func (.param .align 8 .b8 ret[24]) turn(.param .align 8 .b8 s[24], .param .b32 k)\n"
    "{ .reg .b32 %r<9>; .reg .b64 %d<3>; ld.param.v2.u32 {%r1, %r2}, [s];\n"
    "ld.param.u64 %d1, [s+8]; ld.param.u32 %r3, [s+16]; ld.param.u32 %r4, [s+20];\n"
    "ld.param.u32 %r5, [k]; add.s32 %r1, %r1, %r5; cvt.u64.u32 %d2, %r5; mul.lo.s64 %d1, %d1, "
    "%d2;\n"
    "st.param.v2.b32 [ret], {%r2, %r1}; st.param.b64 [ret+8], %d1; st.param.b32 [ret+16], %r4;\n"
    "st.param.b32 [ret+20], %r3; ret; }\n";

static uint32_t ref_struct(uint32_t tid, uint32_t x)
{
    uint64_t d = ((uint64_t)tid << 32 | x) * (tid & 7);
    return x + 31 * (tid + (tid & 7)) + (uint32_t)d + (uint32_t)(d >> 32) + 5 * (x + 2) +
           7 * (tid + 1);
}

static const char C_STRUCT[] =
    "and.b32 %r4, %r1, 7; mov.b64 %d6, {%r3, %r1}; add.s32 %r5, %r1, 1; add.s32 %r6, %r3, 2;\n"
    "{ .param .align 8 .b8 p0[24]; st.param.v2.b32 [p0], {%r1, %r3}; st.param.b64 [p0+8], %d6;\n"
    "st.param.b32 [p0+16], %r5; st.param.b32 [p0+20], %r6; .param .b32 p1; st.param.b32 [p1], "
    "%r4;\n"
    ".param .align 8 .b8 r0[24]; call.uni (r0), turn, (p0, p1);\n"
    "ld.param.v2.b32 {%r10, %r11}, [r0]; ld.param.b64 %d7, [r0+8]; ld.param.b32 %r12, [r0+16];\n"
    "ld.param.b32 %r13, [r0+20]; }\n"
    "mov.b64 {%r14, %r15}, %d7; mad.lo.s32 %r9, %r11, 31, %r10; add.s32 %r9, %r9, %r14;\n"
    "add.s32 %r9, %r9, %r15; mad.lo.s32 %r9, %r12, 5, %r9; mad.lo.s32 %r9, %r13, 7, %r9;";

/* 400 bytes, and its address taken: the callee adds up what an index picks, and writes into its copy */
static const char F_LARGE[] =
    ".func (.param .b32 ret) pick(.param .align 4 .b8 s[400], .param .b32 k)\n"
    "{ .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<2>; mov.b64 %d1, s; ld.param.u32 %r1, [k];\n"
    "mul.wide.u32 %d2, %r1, 4; add.s64 %d2, %d1, %d2; ld.local.u32 %r2, [%d2];\n"
    "st.local.u32 [%d2], 1; ld.local.u32 %r3, [%d2]; cvta.local.u64 %d3, %d1;\n"
    "ld.u32 %r4, [%d3+396]; mad.lo.s32 %r2, %r3, 1000, %r2; add.s32 %r2, %r2, %r4;\n"
    "st.param.b32 [ret], %r2; ret; }\n";

static uint32_t ref_large(uint32_t tid, uint32_t x)
{
    uint32_t k = tid % 99, s = k == 1 ? x + 1 : k == 98 ? x + 98 : 0;
    return s + 1000 + x + 99 + (x + 99);
}

/* The caller's own copy is untouched: it passes the same variable twice. */
static const char C_LARGE[] =
    "rem.u32 %r4, %r1, 99; add.s32 %r5, %r3, 1; add.s32 %r6, %r3, 98; add.s32 %r7, %r3, 99;\n"
    "{ .param .align 4 .b8 p0[400]; .param .b32 p1; .param .b32 r0; mov.b32 %r8, 0;\n"
    "mov.u64 %d6, p0; mov.u32 %r10, 0;\n"
    "Fill: cvt.u64.u32 %d7, %r10; add.s64 %d7, %d7, %d6; st.local.u32 [%d7], %r8;\n"
    "add.s32 %r10, %r10, 4; setp.lt.u32 %p1, %r10, 400; @%p1 bra Fill;\n"
    "st.param.b32 [p0+4], %r5; st.param.b32 [p0+392], %r6; st.param.b32 [p0+396], %r7;\n"
    "st.param.b32 [p1], %r4; call (r0), pick, (p0, p1); ld.param.b32 %r9, [r0];\n"
    "ld.param.b32 %r11, [p0+396]; }\n add.s32 %r9, %r9, %r11;";

/* One element stored, two halves loaded; and bytes stored, a word loaded */
static const char F_HALVES[] =
    ".func (.param .b64 ret) swap(.param .b64 a, .param .align 4 .b8 b[4])\n"
    "{ .reg .b32 %r<9>; ld.param.u32 %r1, [a]; ld.param.u32 %r2, [a+4]; ld.param.u32 %r3, [b];\n"
    "add.s32 %r1, %r1, %r3; st.param.v2.b32 [ret], {%r2, %r1}; ret; }\n";

static uint32_t ref_halves(uint32_t tid, uint32_t x)
{
    uint32_t b = (tid & 0xff) | (x & 0xff) << 8 | ((tid + 1) & 0xff) << 16 | 7u << 24;
    return (x + b) * 3 + tid;
}

static const char C_HALVES[] =
    "mov.b64 %d6, {%r3, %r1}; cvt.u16.u32 %h1, %r1; cvt.u16.u32 %h2, %r3; add.s16 %h3, %h1, 1;\n"
    "{ .param .b64 p0; st.param.b64 [p0], %d6; .param .align 4 .b8 p1[4];\n"
    "st.param.b8 [p1], %h1; st.param.b8 [p1+1], %h2; st.param.b8 [p1+2], %h3;\n"
    "st.param.b8 [p1+3], 7; .param .b64 r0; call (r0), swap, (p0, p1);\n"
    "ld.param.b64 %d7, [r0]; }\n mov.b64 {%r4, %r5}, %d7; mad.lo.s32 %r9, %r5, 3, %r4;";

/* Neither argument nor result: a store through a global variable's address */
static const char F_NOTHING[] =
    ".global .align 4 .b8 words[512];\n"
    ".func note() { .reg .b32 %r<4>; .reg .b64 %d<4>; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y;\n"
    "mov.u32 %r3, %ntid.x; mad.lo.s32 %r1, %r2, %r3, %r1; mul.wide.u32 %d1, %r1, 4;\n"
    "mov.u64 %d2, words; add.s64 %d2, %d2, %d1; mul.lo.s32 %r2, %r1, 3;\n"
    "st.global.u32 [%d2], %r2; ret; }\n";

static uint32_t ref_nothing(uint32_t tid, uint32_t x)
{
    return tid * 3 + x;
}

static const char C_NOTHING[] =
    "call.uni note;\n mov.u64 %d6, words; mul.wide.u32 %d7, %r1, 4; add.s64 %d6, %d6, %d7;\n"
    "ld.global.u32 %r4, [%d6]; add.s32 %r9, %r4, %r3;";

/* Registers and constants as arguments, a register as result */
static const char F_PLAIN[] =
    ".func (.param .b32 ret) sub3(.param .b32 a, .param .b32 b, .param .b32 c)\n"
    "{ .reg .b32 %r<4>; ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b]; ld.param.u32 %r3, [c];\n"
    "sub.s32 %r1, %r1, %r2; mul.lo.s32 %r1, %r1, %r3; st.param.b32 [ret], %r1; ret; }\n";

static uint32_t ref_plain(uint32_t tid, uint32_t x)
{
    return (x - tid) * 9;
}

static const char C_PLAIN[] = "call (%r9), sub3, (%r3, %r1, 9);";

/* ---- what callees do ---- */

static const char F_EARLY[] =
    ".func (.param .b32 ret) early(.param .b32 a)\n"
    "{ .reg .b32 %r<4>; .reg .pred %p<4>; ld.param.u32 %r1, [a]; st.param.b32 [ret], 5;\n"
    "setp.lt.u32 %p1, %r1, 50; @%p1 ret; and.b32 %r2, %r1, 1; setp.eq.u32 %p2, %r2, 0;\n"
    "@%p2 bra Even; st.param.b32 [ret], %r1; ret;\n"
    "Even: shl.b32 %r1, %r1, 1; st.param.b32 [ret], %r1; ret; }\n";

static uint32_t early(uint32_t a)
{
    return a < 50 ? 5 : a & 1 ? a : 2 * a;
}

/* Called under a predicate and in a divergent loop */
static uint32_t ref_early(uint32_t tid, uint32_t x)
{
    uint32_t sum = tid & 1 ? early(x) : 0;
    for (uint32_t n = 0; n < (tid & 7); n++)
        sum = sum * 3 + early(x + n);
    return sum;
}

static const char C_EARLY[] =
    "mov.u32 %r9, 0; and.b32 %r4, %r1, 1; setp.ne.u32 %p1, %r4, 0; and.b32 %r5, %r1, 7;\n"
    "@%p1 call (%r9), early, (%r3);\n mov.u32 %r6, 0;\n"
    "Head: setp.ge.u32 %p2, %r6, %r5; @%p2 bra Out; add.s32 %r7, %r3, %r6;\n"
    "{ .param .b32 p0; st.param.b32 [p0], %r7; .param .b32 r0; call (r0), early, (p0);\n"
    "ld.param.b32 %r8, [r0]; }\n mad.lo.s32 %r9, %r9, 3, %r8; add.s32 %r6, %r6, 1;\n"
    "bra.uni Head; Out:";

/* Local variables of nested functions do not meet. */
static const char F_FRAMES[] =
    ".func (.param .b32 ret) inner(.param .b32 a)\n"
    "{ .local .align 4 .b8 box[16]; .reg .b32 %r<4>; .reg .b64 %d<4>; ld.param.u32 %r1, [a];\n"
    "mov.u64 %d1, box; and.b32 %r2, %r1, 3; mul.wide.u32 %d2, %r2, 4; add.s64 %d2, %d1, %d2;\n"
    "st.local.v4.u32 [box], {%r1, %r1, %r1, %r1}; st.local.u32 [%d2], 100;\n"
    "ld.local.u32 %r2, [box+4]; ld.local.u32 %r3, [box+12]; mad.lo.s32 %r2, %r2, 10, %r3;\n"
    "st.param.b32 [ret], %r2; ret; }\n"
    ".func (.param .b32 ret) outer(.param .b32 a)\n"
    "{ .local .align 8 .b8 box[24]; .reg .b32 %r<9>; .reg .b64 %d<4>; ld.param.u32 %r1, [a];\n"
    "cvta.local.u64 %d1, box; add.s32 %r2, %r1, 1; st.u32 [%d1+8], %r2; st.local.u32 [box], %r1;\n"
    "{ .param .b32 p0; st.param.b32 [p0], %r1; .param .b32 r0; call (r0), inner, (p0);\n"
    "ld.param.b32 %r3, [r0]; }\n ld.local.u32 %r4, [box+8]; ld.u32 %r5, [%d1];\n"
    "mad.lo.s32 %r3, %r3, 7, %r4; mad.lo.s32 %r3, %r3, 7, %r5; st.param.b32 [ret], %r3; ret; }\n";

static uint32_t inner(uint32_t a)
{
    uint32_t box[4] = {a, a, a, a};
    box[a & 3] = 100;
    return box[1] * 10 + box[3];
}

static uint32_t ref_frames(uint32_t tid, uint32_t x)
{
    uint32_t a = x + tid, outer = (inner(a) * 7 + a + 1) * 7 + a;
    return outer + inner(x) * 13 + tid;
}

static const char C_FRAMES[] =
    ".local .align 4 .b8 own[8]; st.local.u32 [own+4], %r1; add.s32 %r4, %r3, %r1;\n"
    "call (%r5), outer, (%r4); call (%r6), inner, (%r3); ld.local.u32 %r7, [own+4];\n"
    "mad.lo.s32 %r9, %r6, 13, %r5; add.s32 %r9, %r9, %r7;";

/* A barrier and shared memory in a function that is called twice */
static const char F_BARRIER[] =
    ".shared .align 4 .b8 words[512];\n"
    ".func (.param .b32 ret) reversed(.param .b32 a, .param .b32 at, .param .b32 n)\n"
    "{ .reg .b32 %r<9>; ld.param.u32 %r1, [a]; ld.param.u32 %r2, [at]; ld.param.u32 %r3, [n];\n"
    "mov.u32 %r4, words; shl.b32 %r5, %r2, 2; add.s32 %r5, %r5, %r4; bar.sync 0;\n"
    "st.shared.u32 [%r5], %r1; bar.sync 0; sub.s32 %r6, %r3, %r2; shl.b32 %r6, %r6, 2;\n"
    "add.s32 %r6, %r6, %r4; ld.shared.u32 %r7, [%r6+-4]; st.param.b32 [ret], %r7; ret; }\n";

static uint32_t ref_barrier(uint32_t tid, uint32_t x)
{
    return tid + x; /* reversed twice */
}

static const char C_BARRIER[] =
    "mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y; mul.lo.s32 %r4, %r4, %r5; add.s32 %r6, %r3, %r1;\n"
    "call (%r7), reversed, (%r6, %r1, %r4); call (%r9), reversed, (%r7, %r1, %r4);";

/* A function that ends the thread */
static const char F_EXIT[] =
    ".func leave(.param .b64 at, .param .b32 v) .noreturn\n"
    "{ .reg .b32 %r<4>; .reg .b64 %d<4>; ld.param.u64 %d1, [at]; ld.param.u32 %r1, [v];\n"
    "st.global.u32 [%d1], %r1; exit; }\n";

static uint32_t ref_exit(uint32_t tid, uint32_t x)
{
    return tid % 3 == 0 ? x + 1000 : x;
}

static const char C_EXIT[] =
    "mov.u32 %r9, %r3; rem.u32 %r4, %r1, 3; setp.ne.u32 %p1, %r4, 0; @%p1 bra Stay;\n"
    "add.s32 %r5, %r3, 1000;\n"
    "{ .param .b64 p0; st.param.b64 [p0], %d5; .param .b32 p1; st.param.b32 [p1], %r5;\n"
    "call.uni leave, (p0, p1); }\nStay:";

/* brx.idx: indices of a dense and of a repeating table, also guarded */
static uint32_t ref_indexed(uint32_t tid, uint32_t x)
{
    static const uint32_t add[] = {10, 20, 30, 10, 10, 40, 20};
    uint32_t r = add[x % 7];
    return tid % 5 != 0 ? r + (tid % 5 == 1 ? 100 : tid % 5 == 2 ? 200 : 300) : r;
}

static const char C_INDEXED[] =
    "rem.u32 %r4, %r3, 7; rem.u32 %r5, %r1, 5; setp.ne.u32 %p1, %r5, 0; mov.u32 %r9, 0;\n"
    "T: .branchtargets A, B, C, A, A, D, B; U: .branchtargets E0, E1, E2, E3, E3;\n"
    "brx.idx %r4, T;\nA: mov.u32 %r9, 10; bra J;\nB: mov.u32 %r9, 20; bra J;\n"
    "C: mov.u32 %r9, 30; bra J;\nD: mov.u32 %r9, 40;\nJ: @%p1 brx.idx %r5, U;\n"
    "bra E0;\nE1: add.s32 %r9, %r9, 100; bra E0;\nE2: add.s32 %r9, %r9, 200; bra E0;\n"
    "E3: add.s32 %r9, %r9, 300;\nE0:";

/* A loop that is entered at two places, with a loop inside that is, too */
static uint32_t ref_irreducible(uint32_t tid, uint32_t x)
{
    uint32_t n = 0, v = x + 1, guard = 0;
    int at = tid & 1 ? 1 : 0;
    while (guard++ < 500) {
        if (at == 0) {
            n += 1;
            v = v * 5 + tid;
            at = v & 2 ? 2 : 1;
        } else if (at == 1) {
            n += 10;
            v = v / 3;
            at = v & 1 ? 2 : 3;
        } else if (at == 2) {
            n += 100;
            v = v / 2;
            at = v & 4 ? 1 : 3;
        } else {
            n += 1000;
            if (v < 100 || n > 30000)
                break;
            at = 0;
        }
    }
    return n + v;
}

static const char C_IRREDUCIBLE[] =
    "mov.u32 %r4, 0; add.s32 %r5, %r3, 1; and.b32 %r6, %r1, 1; setp.ne.u32 %p1, %r6, 0;\n"
    "@%p1 bra B;\n"
    "A: add.s32 %r4, %r4, 1; mad.lo.s32 %r5, %r5, 5, %r1; and.b32 %r6, %r5, 2;\n"
    "setp.ne.u32 %p1, %r6, 0; @%p1 bra C; bra B;\n"
    "B: add.s32 %r4, %r4, 10; div.u32 %r5, %r5, 3; and.b32 %r6, %r5, 1;\n"
    "setp.ne.u32 %p1, %r6, 0; @%p1 bra C; bra D;\n"
    "C: add.s32 %r4, %r4, 100; shr.u32 %r5, %r5, 1; and.b32 %r6, %r5, 4;\n"
    "setp.ne.u32 %p1, %r6, 0; @%p1 bra B;\n"
    "D: add.s32 %r4, %r4, 1000; setp.lt.u32 %p1, %r5, 100; @%p1 bra E;\n"
    "setp.gt.u32 %p1, %r4, 30000; @!%p1 bra A;\nE: add.s32 %r9, %r4, %r5;";

static void test_forms(void **state)
{
    static const call_case_t cases[] = {
        {"scalars", F_SCALARS, C_SCALARS, ref_scalars},
        {"bytes and halves", F_SMALL, C_SMALL, ref_small},
        {"floats", F_FLOAT, C_FLOAT, ref_float},
        {"a structure", F_STRUCT, C_STRUCT, ref_struct},
        {"a large structure", F_LARGE, C_LARGE, ref_large},
        {"parts of elements", F_HALVES, C_HALVES, ref_halves},
        {"nothing", F_NOTHING, C_NOTHING, ref_nothing},
        {"registers and constants", F_PLAIN, C_PLAIN, ref_plain},
    };
    (void)state;
    call_check(cases, sizeof cases / sizeof cases[0], 1000);
}

static void test_callees(void **state)
{
    static const call_case_t cases[] = {
        {"early returns", F_EARLY, C_EARLY, ref_early},
        {"frames", F_FRAMES, C_FRAMES, ref_frames},
        {"barriers", F_BARRIER, C_BARRIER, ref_barrier},
        {"exit", F_EXIT, C_EXIT, ref_exit},
        {"brx.idx", "", C_INDEXED, ref_indexed},
        {"irreducible", "", C_IRREDUCIBLE, ref_irreducible},
    };
    (void)state;
    call_check(cases, sizeof cases / sizeof cases[0], 1000);
}

/* What cannot run is refused when it is loaded, with the line: also where only a callee has it. */
static void test_refused(void **state)
{
    static const char *const functions[] = {
        ".extern .func (.param .b32 r) unknown(.param .b32 a);\n",
        ".extern .func unknown();\n.func bad() { call unknown; ret; }\n",
    };
    static const char *const codes[] = {"call (%r9), unknown, (%r3);", "call bad; mov.u32 %r9, 0;"};
    static const char *const lines[] = {"line 15:", "line 5:"};
    char text[4096], log[1024];
    (void)state;
    for (unsigned n = 0; n < 2; n++) {
        call_program(text, sizeof text, functions[n], codes[n]);
        assert_null(pt_try_load(text, log, sizeof log));
        assert_non_null(strstr(log, lines[n]));
        assert_non_null(strstr(log, "call"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_callees),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Calls that cannot be spliced: recursion of every kind, and calls through addresses. */
#include "tests/ptx/call_help.h"

#include <string.h>

/* ---- recursion ---- */

#define ONE_TO_ONE(name, arg, result)                                                              \
    "{ .param .b32 p0; st.param.b32 [p0], " arg "; .param .b32 r0; call.uni (r0), " name           \
    ", (p0);\nld.param.b32 " result ", [r0]; }\n"

static const char F_FACT[] =
    ".func (.param .b32 ret) fact(.param .b32 n)\n"
    "{ .reg .b32 %r<9>; .reg .pred %p<2>; ld.param.u32 %r1, [n]; mov.u32 %r4, 1;\n"
    "setp.lt.u32 %p1, %r1, 2; @%p1 bra Done; add.s32 %r2, %r1, -1;\n" ONE_TO_ONE(
        "fact", "%r2", "%r3") "mul.lo.s32 %r4, %r3, %r1;\nDone: st.param.b32 [ret], %r4; ret; }\n";

static uint32_t fact(uint32_t n)
{
    return n < 2 ? 1 : fact(n - 1) * n;
}

static uint32_t ref_fact(uint32_t tid, uint32_t x)
{
    return fact(x) + tid;
}

static const char C_FACT[] = "call (%r4), fact, (%r3); add.s32 %r9, %r4, %r1;";

static const char F_FIB[] =
    ".func (.param .b32 ret) fib(.param .b32 n)\n"
    "{ .reg .b32 %r<9>; .reg .pred %p<2>; ld.param.u32 %r1, [n]; setp.lt.u32 %p1, %r1, 2;\n"
    "st.param.b32 [ret], %r1; @%p1 ret; add.s32 %r2, %r1, -1;\n" ONE_TO_ONE(
        "fib", "%r2",
        "%r3") "add.s32 %r4, %r1, -2;\n" ONE_TO_ONE("fib", "%r4",
                                                    "%r5") "add.s32 %r3, %r3, %r5; st.param.b32 "
                                                           "[ret], %r3; ret; }\n";

static uint32_t fib(uint32_t n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static uint32_t ref_fib(uint32_t tid, uint32_t x)
{
    return fib(x) * 3 + fib(tid & 7);
}

/* Two sites in the kernel, the first under a predicate */
static const char C_FIB[] =
    "and.b32 %r4, %r1, 7; mov.u32 %r5, 1; setp.ne.u32 %p1, %r3, 1; @%p1 call (%r5), fib, (%r3);\n"
    "call (%r6), fib, (%r4); mad.lo.s32 %r9, %r5, 3, %r6;";

static const char F_ACK[] =
    ".func (.param .b32 ret) ack(.param .b32 m, .param .b32 n)\n"
    "{ .reg .b32 %r<9>; .reg .pred %p<3>; ld.param.u32 %r1, [m]; ld.param.u32 %r2, [n];\n"
    "setp.ne.u32 %p1, %r1, 0; @%p1 bra Some; add.s32 %r3, %r2, 1; bra Done;\n"
    "Some: add.s32 %r4, %r1, -1; mov.u32 %r5, 1; setp.eq.u32 %p2, %r2, 0; @%p2 bra Outer;\n"
    "add.s32 %r6, %r2, -1; call (%r5), ack, (%r1, %r6);\n"
    "Outer: call (%r3), ack, (%r4, %r5);\nDone: st.param.b32 [ret], %r3; ret; }\n";

static uint32_t ack(uint32_t m, uint32_t n)
{
    return m == 0 ? n + 1 : ack(m - 1, n == 0 ? 1 : ack(m, n - 1));
}

static uint32_t ref_ack(uint32_t tid, uint32_t x)
{
    return ack(tid % 3, x % 4);
}

static const char C_ACK[] =
    "rem.u32 %r4, %r1, 3; and.b32 %r5, %r3, 3; call (%r9), ack, (%r4, %r5);";

/* Two functions that call each other, with predicates, 64-bit values and local memory alive */
static const char F_MUTUAL[] =
    ".func (.param .b32 ret) odd(.param .b32 n, .param .b64 sum);\n"
    ".func (.param .b32 ret) even(.param .b32 n, .param .b64 sum)\n"
    "{ .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<3>; .local .align 4 .b8 own[8];\n"
    "ld.param.u32 %r1, [n]; ld.param.u64 %d1, [sum]; st.local.u32 [own+4], %r1;\n"
    "and.b32 %r2, %r1, 2; setp.ne.u32 %p1, %r2, 0; cvt.u64.u32 %d2, %r1; add.s64 %d2, %d2, %d1;\n"
    "cvt.u32.u64 %r3, %d1; setp.eq.u32 %p2, %r1, 0; @%p2 bra Done; add.s32 %r4, %r1, -1;\n"
    "{ .param .b32 p0; st.param.b32 [p0], %r4; .param .b64 p1; st.param.b64 [p1], %d2;\n"
    ".param .b32 r0; call (r0), odd, (p0, p1); ld.param.b32 %r3, [r0]; }\n"
    "@%p1 add.s32 %r3, %r3, 1000; ld.local.u32 %r5, [own+4]; add.s32 %r3, %r3, %r5;\n"
    "cvt.u32.u64 %r6, %d2; xor.b32 %r3, %r3, %r6;\nDone: st.param.b32 [ret], %r3; ret; }\n"
    ".func (.param .b32 ret) odd(.param .b32 n, .param .b64 sum)\n"
    "{ .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<3>;\n"
    "ld.param.u32 %r1, [n]; ld.param.u64 %d1, [sum]; mov.u32 %r3, 77; setp.eq.u32 %p2, %r1, 0;\n"
    "@%p2 bra Done; add.s32 %r4, %r1, -1; shl.b64 %d2, %d1, 1;\n"
    "{ .param .b32 p0; st.param.b32 [p0], %r4; .param .b64 p1; st.param.b64 [p1], %d2;\n"
    ".param .b32 r0; call (r0), even, (p0, p1); ld.param.b32 %r3, [r0]; }\n"
    "mad.lo.s32 %r3, %r3, 3, %r1;\nDone: st.param.b32 [ret], %r3; ret; }\n";

static uint32_t odd(uint32_t n, uint64_t sum);

static uint32_t even(uint32_t n, uint64_t sum)
{
    if (n == 0)
        return (uint32_t)sum;
    uint32_t r = odd(n - 1, sum + n);
    r += n & 2 ? 1000 : 0;
    return (r + n) ^ (uint32_t)(sum + n);
}

static uint32_t odd(uint32_t n, uint64_t sum)
{
    return n == 0 ? 77 : even(n - 1, sum * 2) * 3 + n;
}

static uint32_t ref_mutual(uint32_t tid, uint32_t x)
{
    return even(x, tid) + odd(tid & 3, x);
}

static const char C_MUTUAL[] =
    "cvt.u64.u32 %d6, %r1; cvt.u64.u32 %d7, %r3; and.b32 %r4, %r1, 3;\n"
    "call (%r5), even, (%r3, %d6); call (%r6), odd, (%r4, %d7); add.s32 %r9, %r5, %r6;";

/* A loop that calls the function that it is in: the number of ways down a tree */
static const char F_TREE[] =
    ".func (.param .b32 ret) ways(.param .b32 n, .param .b32 limit)\n"
    "{ .reg .b32 %r<9>; .reg .pred %p<3>; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [limit];\n"
    "mov.u32 %r3, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra Done; mov.u32 %r3, 0; mov.u32 %r4, 1;\n"
    "Loop: setp.gt.u32 %p1, %r4, %r2; @%p1 bra Done; setp.gt.u32 %p1, %r4, %r1; @%p1 bra Done;\n"
    "sub.s32 %r5, %r1, %r4; call (%r6), ways, (%r5, %r4); add.s32 %r3, %r3, %r6;\n"
    "add.s32 %r4, %r4, 1; bra Loop;\nDone: st.param.b32 [ret], %r3; ret; }\n";

static uint32_t ways(uint32_t n, uint32_t limit)
{
    uint32_t sum = 0;
    if (n == 0)
        return 1;
    for (uint32_t k = 1; k <= limit && k <= n; k++)
        sum += ways(n - k, k);
    return sum;
}

static uint32_t ref_tree(uint32_t tid, uint32_t x)
{
    return ways(x, x) + tid;
}

static const char C_TREE[] = "call (%r4), ways, (%r3, %r3); add.s32 %r9, %r4, %r1;";

/* Recursion that branches between recursions, reached from loops that make the whole irreducible; with
 * a structure by value whose address is taken */
static const char F_BOX[] =
    ".func (.param .align 8 .b8 ret[24]) walk(.param .align 8 .b8 s[24], .param .b32 n)\n"
    "{ .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>; ld.param.u32 %r1, [n];\n"
    "mov.b64 %d1, s; cvta.local.u64 %d2, %d1; ld.u32 %r2, [%d2+4]; add.s32 %r2, %r2, %r1;\n"
    "st.local.u32 [%d1+4], %r2; setp.eq.u32 %p1, %r1, 0; @%p1 bra Out; add.s32 %r3, %r1, -1;\n"
    "ld.local.u64 %d3, [%d1+8]; ld.local.v2.u32 {%r4, %r5}, [%d1];\n"
    "{ .param .align 8 .b8 p0[24]; st.param.v2.b32 [p0], {%r5, %r4}; st.param.b64 [p0+8], %d3;\n"
    "st.param.b64 [p0+16], 3; .param .b32 p1; st.param.b32 [p1], %r3;\n"
    ".param .align 8 .b8 r0[24]; call (r0), walk, (p0, p1); ld.param.b32 %r6, [r0+4];\n"
    "ld.param.b64 %d4, [r0+8]; }\n"
    "ld.local.u32 %r7, [%d1+4]; add.s32 %r6, %r6, %r7; st.local.u32 [%d1+4], %r6;\n"
    "add.s64 %d4, %d4, 1; st.local.u64 [%d1+8], %d4;\n"
    "Out: ld.local.v2.u32 {%r4, %r5}, [%d1]; ld.local.u64 %d3, [%d1+8];\n"
    "st.param.v2.b32 [ret], {%r4, %r5}; st.param.b64 [ret+8], %d3; st.param.b64 [ret+16], 0;\n"
    "ret; }\n";

typedef struct {
    uint32_t a, b;
    uint64_t c;
} box_t;

static box_t box_walk(box_t s, uint32_t n)
{
    s.b += n;
    if (n != 0) {
        box_t r = box_walk((box_t){s.b, s.a, s.c}, n - 1);
        s.b += r.b;
        s.c = r.c + 1;
    }
    return s;
}

static uint32_t ref_box(uint32_t tid, uint32_t x)
{
    box_t r = box_walk((box_t){tid, x, 5}, x);
    return r.a + r.b * 3 + (uint32_t)r.c * 7;
}

static const char C_BOX[] =
    "{ .param .align 8 .b8 p0[24]; st.param.v2.b32 [p0], {%r1, %r3}; st.param.b64 [p0+8], 5;\n"
    "st.param.b64 [p0+16], 0; .param .b32 p1; st.param.b32 [p1], %r3;\n"
    ".param .align 8 .b8 r0[24]; call (r0), walk, (p0, p1);\n"
    "ld.param.v2.b32 {%r4, %r5}, [r0]; ld.param.b64 %d6, [r0+8]; }\n"
    "cvt.u32.u64 %r6, %d6; mad.lo.s32 %r4, %r5, 3, %r4; mad.lo.s32 %r9, %r6, 7, %r4;";

/* Barriers on the way down: all threads go equally deep. */
static const char F_DOWN[] =
    ".shared .align 4 .b8 words[512];\n"
    ".func (.param .b32 ret) down(.param .b32 v, .param .b32 at, .param .b32 n, .param .b32 "
    "depth)\n"
    "{ .reg .b32 %r<12>; .reg .pred %p<3>; ld.param.u32 %r1, [v]; ld.param.u32 %r2, [at];\n"
    "ld.param.u32 %r3, [n]; ld.param.u32 %r4, [depth]; setp.eq.u32 %p1, %r4, 0; @%p1 bra Out;\n"
    "mov.u32 %r5, words; shl.b32 %r6, %r2, 2; add.s32 %r6, %r6, %r5; bar.sync 0;\n"
    "st.shared.u32 [%r6], %r1; bar.sync 0; add.s32 %r7, %r2, 1; setp.eq.u32 %p2, %r7, %r3;\n"
    "selp.b32 %r7, 0, %r7, %p2; shl.b32 %r7, %r7, 2; add.s32 %r7, %r7, %r5;\n"
    "ld.shared.u32 %r8, [%r7]; add.s32 %r4, %r4, -1; call (%r1), down, (%r8, %r2, %r3, %r4);\n"
    "add.s32 %r1, %r1, 1;\nOut: st.param.b32 [ret], %r1; ret; }\n";

static uint32_t ref_down(uint32_t tid, uint32_t x)
{
    (void)x;
    return tid;
}

/* Passed on as many times as there are threads, each value is back where it was; 1 for each call. */
static const char C_DOWN[] =
    "mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y; mul.lo.s32 %r4, %r4, %r5; min.u32 %r6, %r4, 33;\n"
    "setp.gt.u32 %p1, %r4, 33; mov.u32 %r9, %r1; @%p1 bra Skip;\n"
    "call (%r9), down, (%r1, %r1, %r4, %r4); sub.s32 %r9, %r9, %r4;\nSkip:";

static void test_recursion(void **state)
{
    static const call_case_t cases[] = {
        {"factorial", F_FACT, C_FACT, ref_fact},
        {"Fibonacci", F_FIB, C_FIB, ref_fib},
        {"Ackermann", F_ACK, C_ACK, ref_ack},
        {"mutual recursion", F_MUTUAL, C_MUTUAL, ref_mutual},
        {"a call in a loop", F_TREE, C_TREE, ref_tree},
        {"structures", F_BOX, C_BOX, ref_box},
        {"barriers", F_DOWN, C_DOWN, ref_down},
    };
    (void)state;
    call_check(cases, sizeof cases / sizeof cases[0], 11);
}

/* ---- addresses ---- */

#define OPERATORS                                                                                  \
    ".func (.param .b32 ret) plus(.param .b32 a, .param .b32 b)\n"                                 \
    "{ .reg .b32 %r<4>; ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b]; add.s32 %r1, %r1, %r2;\n"    \
    "st.param.b32 [ret], %r1; ret; }\n"                                                            \
    ".func (.param .b32 ret) times(.param .b32 a, .param .b32 b)\n"                                \
    "{ .reg .b32 %r<4>; ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b]; mul.lo.s32 %r1, %r1, "       \
    "%r2;\nst.param.b32 [ret], %r1; ret; }\n"                                                      \
    ".func (.param .b32 ret) minus(.param .b32 a, .param .b32 b)\n"                                \
    "{ .reg .b32 %r<4>; ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b]; sub.s32 %r1, %r1, %r2;\n"    \
    "st.param.b32 [ret], %r1; ret; }\n"

#define CALL_TWO(callee, last)                                                                     \
    "{ .param .b32 p0; st.param.b32 [p0], %r3; .param .b32 p1; st.param.b32 [p1], %r1;\n"          \
    ".param .b32 r0; call (r0), " callee ", (p0, p1), " last ";\nld.param.b32 %r9, [r0]; }\n"

static uint32_t operate(unsigned which, uint32_t a, uint32_t b)
{
    return which == 0 ? a + b : which == 1 ? a * b : a - b;
}

static uint32_t ref_table(uint32_t tid, uint32_t x)
{
    return operate(x % 3, x, tid);
}

static const char F_GLOBAL[] = OPERATORS ".global .align 8 .u64 table[3] = {plus, times, minus};\n";

static const char C_GLOBAL[] =
    "rem.u32 %r4, %r3, 3; mul.wide.u32 %d6, %r4, 8; mov.u64 %d7, table; add.s64 %d6, %d6, %d7;\n"
    "ld.global.u64 %d8, [%d6];\n"
    "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);\n" CALL_TWO("%d8", "P");

static const char F_CONST[] =
    OPERATORS ".const .align 8 .u64 table[3] = {plus, times, minus};\n"
              /* of another shape: never a target */
              ".func other(.param .b64 a) { ret; }\n.global .align 8 .u64 spare = other;\n";

static const char C_CONST[] =
    "rem.u32 %r4, %r3, 3; mul.wide.u32 %d6, %r4, 8; mov.u64 %d7, table; add.s64 %d6, %d6, %d7;\n"
    "ld.const.u64 %d8, [%d6];\n"
    "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);\n" CALL_TWO("%d8", "P");

/* Addresses in registers, with a list of targets */
static const char C_TARGETS[] =
    "mov.u64 %d6, plus; mov.u64 %d7, times; mov.u64 %d8, minus; rem.u32 %r4, %r3, 3;\n"
    "setp.eq.u32 %p1, %r4, 1; setp.eq.u32 %p2, %r4, 2; selp.b64 %d9, %d7, %d6, %p1;\n"
    "selp.b64 %d9, %d8, %d9, %p2;\nT: .calltargets plus, times, minus;\n" CALL_TWO("%d9", "T");

/* Objects with tables of functions, as compilers lay them out: the object points at the table, whose
 * entries take the object. */
static const char F_VIRTUAL[] =
    ".func (.param .b32 ret) area1(.param .b64 self)\n"
    "{ .reg .b32 %r<4>; .reg .b64 %d<2>; ld.param.u64 %d1, [self]; ld.u32 %r1, [%d1+8];\n"
    "mul.lo.s32 %r1, %r1, %r1; st.param.b32 [ret], %r1; ret; }\n"
    ".func (.param .b32 ret) area2(.param .b64 self)\n"
    "{ .reg .b32 %r<4>; .reg .b64 %d<2>; ld.param.u64 %d1, [self]; ld.u32 %r1, [%d1+8];\n"
    "ld.u32 %r2, [%d1+12]; mul.lo.s32 %r1, %r1, %r2; st.param.b32 [ret], %r1; ret; }\n"
    ".func grow(.param .b64 self)\n"
    "{ .reg .b32 %r<4>; .reg .b64 %d<2>; ld.param.u64 %d1, [self]; ld.u32 %r1, [%d1+8];\n"
    "add.s32 %r1, %r1, 5; st.u32 [%d1+8], %r1; ret; }\n"
    ".func shrink(.param .b64 self)\n"
    "{ .reg .b32 %r<4>; .reg .b64 %d<2>; ld.param.u64 %d1, [self]; ld.u32 %r1, [%d1+8];\n"
    "shr.u32 %r1, %r1, 1; st.u32 [%d1+8], %r1; ret; }\n"
    ".global .align 8 .u64 _ZTV1A[4] = {0, 0, area1, grow};\n"
    ".global .align 8 .u64 _ZTV1B[4] = {0, 0, area2, shrink};\n";

static uint32_t ref_virtual(uint32_t tid, uint32_t x)
{
    uint32_t side = x, other = tid + 1;
    bool first = (tid + x) % 2 == 0;
    uint32_t sum = 0;
    for (int n = 0; n < 3; n++) {
        sum += first ? side * side : side * other;
        side = first ? side + 5 : side / 2;
    }
    return sum;
}

static const char C_VIRTUAL[] =
    ".local .align 8 .b8 object[16]; mov.u64 %d6, object; cvta.local.u64 %d6, %d6;\n"
    "add.s32 %r4, %r1, %r3; and.b32 %r4, %r4, 1; setp.eq.u32 %p1, %r4, 0; mov.u64 %d7, _ZTV1A;\n"
    "mov.u64 %d8, _ZTV1B; selp.b64 %d7, %d7, %d8, %p1; cvta.global.u64 %d7, %d7;\n"
    "add.s64 %d7, %d7, 16; st.u64 [%d6], %d7; st.u32 [%d6+8], %r3; add.s32 %r5, %r1, 1;\n"
    "st.u32 [%d6+12], %r5; mov.u32 %r6, 0; mov.u32 %r9, 0;\n"
    "Area: .callprototype (.param .b32 _) _ (.param .b64 _);\n"
    "Size: .callprototype ()_ (.param .b64 _);\n"
    "Loop: ld.u64 %d9, [%d6]; ld.u64 %d10, [%d9];\n"
    "{ .param .b64 p0; st.param.b64 [p0], %d6; .param .b32 r0; call (r0), %d10, (p0), Area;\n"
    "ld.param.b32 %r7, [r0]; }\n add.s32 %r9, %r9, %r7; ld.u64 %d9, [%d6]; ld.u64 %d10, [%d9+8];\n"
    "{ .param .b64 p0; st.param.b64 [p0], %d6; call %d10, (p0), Size; }\n"
    "add.s32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 3; @%p2 bra Loop;";

/* A function that is given one to call, which is sometimes itself */
static const char F_HIGHER[] =
    ".func (.param .b32 ret) leaf(.param .b64 f, .param .b32 n)\n"
    "{ .reg .b32 %r<4>; ld.param.u32 %r1, [n]; mad.lo.s32 %r1, %r1, 10, 1;\n"
    "st.param.b32 [ret], %r1; ret; }\n"
    ".func (.param .b32 ret) node(.param .b64 f, .param .b32 n)\n"
    "{ .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<2>; ld.param.u64 %d1, [f];\n"
    "ld.param.u32 %r1, [n]; mov.u64 %d2, leaf; add.s32 %r2, %r1, -1; setp.gt.u32 %p1, %r2, 1;\n"
    "selp.b64 %d3, %d1, %d2, %p1;\n"
    "P: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _);\n"
    "{ .param .b64 p0; st.param.b64 [p0], %d1; .param .b32 p1; st.param.b32 [p1], %r2;\n"
    ".param .b32 r0; call (r0), %d3, (p0, p1), P; ld.param.b32 %r3, [r0]; }\n"
    "mad.lo.s32 %r3, %r3, 3, %r1; st.param.b32 [ret], %r3; ret; }\n";

static uint32_t higher(bool self, uint32_t n)
{
    if (!self)
        return n * 10 + 1;
    return higher(n - 1 > 1, n - 1) * 3 + n;
}

static uint32_t ref_higher(uint32_t tid, uint32_t x)
{
    return higher(true, x + 2) + tid;
}

static const char C_HIGHER[] =
    "mov.u64 %d6, node; add.s32 %r4, %r3, 2;\n"
    "P: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _);\n"
    "{ .param .b64 p0; st.param.b64 [p0], %d6; .param .b32 p1; st.param.b32 [p1], %r4;\n"
    ".param .b32 r0; call (r0), %d6, (p0, p1), P; ld.param.b32 %r5, [r0]; }\n"
    "add.s32 %r9, %r5, %r1;";

/* Two names of one function are one function. */
static const char F_ALIAS[] =
    OPERATORS ".func (.param .b32 ret) sum(.param .b32 a, .param .b32 b);\n.alias sum, plus;\n"
              ".global .align 8 .u64 table[3] = {sum, times, minus};\n";

static void test_addresses(void **state)
{
    static const call_case_t cases[] = {
        {"a table in global memory", F_GLOBAL, C_GLOBAL, ref_table},
        {"a table in constant memory", F_CONST, C_CONST, ref_table},
        {"a list of targets", OPERATORS, C_TARGETS, ref_table},
        {"virtual functions", F_VIRTUAL, C_VIRTUAL, ref_virtual},
        {"functions as arguments", F_HIGHER, C_HIGHER, ref_higher},
        {"an alias", F_ALIAS, C_GLOBAL, ref_table},
    };
    (void)state;
    call_check(cases, sizeof cases / sizeof cases[0], 9);
}

/* ---- what goes wrong ---- */

static const char C_WILD[] =
    "mov.u64 %d8, 0; setp.eq.u32 %p1, %r1, 5; mov.u64 %d9, plus; selp.b64 %d8, %d8, %d9, %p1;\n"
    "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);\n" CALL_TWO("%d8", "P");

static void test_wild_call(void **state)
{
    (void)state;
    assert_int_equal(call_run(OPERATORS, C_WILD, NULL), CUDA_ERROR_INVALID_PC);
    pt_new_context();
}

/* No function has such a shape. */
static void test_no_target(void **state)
{
    static const char code[] = "mov.u64 %d6, plus;\nP: .callprototype _ (.param .b64 _);\n"
                               "{ .param .b64 p0; st.param.b64 [p0], %d6; call %d6, (p0), P; }\n"
                               "mov.u32 %r9, 0;";
    (void)state;
    assert_int_equal(call_run(OPERATORS, code, NULL), CUDA_ERROR_INVALID_PC);
    pt_new_context();
}

static const char F_ENDLESS[] =
    ".func (.param .b32 ret) deep(.param .b32 n)\n"
    "{ .reg .b32 %r<4>; .reg .pred %p<2>; ld.param.u32 %r1, [n]; setp.eq.u32 %p1, %r1, 0;\n"
    "@%p1 bra Out; add.s32 %r2, %r1, -1; call (%r3), deep, (%r2); add.s32 %r1, %r3, 1;\n"
    "Out: st.param.b32 [ret], %r1; ret; }\n"
    ".func forever() { call forever; call forever; ret; }\n";

static void test_stack(void **state)
{
    uint32_t out[64];
    size_t bytes;
    (void)state;
    assert_int_equal(call_run(F_ENDLESS, "call forever; mov.u32 %r9, 0;", NULL),
                     CUDA_ERROR_HARDWARE_STACK_ERROR);
    pt_new_context();
    /* 1000 activations need more than the default, and run with a larger limit. */
    assert_int_equal(call_run(F_ENDLESS, "call (%r9), deep, (1000);", NULL),
                     CUDA_ERROR_HARDWARE_STACK_ERROR);
    pt_new_context();
    PT_CHECK(pt_cuda()->cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 64 << 10));
    PT_CHECK(pt_cuda()->cuCtxGetLimit(&bytes, CU_LIMIT_STACK_SIZE));
    assert_int_equal(bytes, 64 << 10);
    assert_int_equal(call_run(F_ENDLESS, "call (%r9), deep, (1000);", out), CUDA_SUCCESS);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(out[i], 1000);
    assert_int_equal(call_run(F_ENDLESS, "call (%r9), deep, (10);", out), CUDA_SUCCESS);
    assert_int_equal(out[63], 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recursion), cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_wild_call), cmocka_unit_test(test_no_target),
        cmocka_unit_test(test_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Address arithmetic as compilers write it: sums, products, shifts, masks, parts of numbers and
 * comparisons of thread numbers. However a value varies over the lanes, vector code must give what
 * the scalar oracle gives. */
#include "tests/unit/jit/jit_rig.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 24, FIRST = 10, SLOTS = 24, KERNELS = 40 };

typedef struct {
    uint32_t seed;
    char text[16384];
    size_t used;
    unsigned count; /* %r10.. that have values */
    unsigned wide;  /* %rd10.. */
} maker_t;

static uint32_t pick(maker_t *m, uint32_t n)
{
    m->seed = m->seed * 1664525u + 1013904223u;
    return (m->seed >> 10) % n;
}

__attribute__((format(printf, 2, 3))) static void emit(maker_t *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    m->used += (size_t)vsnprintf(m->text + m->used, sizeof m->text - m->used, format, args);
    va_end(args);
    assert_true(m->used < sizeof m->text);
}

static unsigned some(maker_t *m)
{
    return FIRST + pick(m, m->count);
}

static uint32_t constant(maker_t *m)
{
    static const uint32_t C[] = {0,   1,    2,       3,          4,          7,   8,   15,
                                 16,  31,   32,      63,         64,         127, 255, 256,
                                 768, 1023, 0x1ff00, 0xfffffff0, 0xffffffc0, 272};
    return C[pick(m, sizeof C / sizeof C[0])];
}

static void value(maker_t *m)
{
    static const char *const PLAIN[] = {"add.s32", "sub.s32", "and.b32", "or.b32", "xor.b32"};
    static const char *const SHIFT[] = {"shl.b32", "shr.u32", "shr.s32"};
    static const char *const CMP[] = {"lt.s32", "le.s32", "gt.s32", "ge.s32", "eq.s32",
                                      "ne.u32", "lo.u32", "ls.u32", "hi.u32", "hs.u32"};
    unsigned x = some(m), y = some(m), to = FIRST + m->count;
    switch (pick(m, 10)) {
    case 0:
    case 1:
        emit(m, "%s %%r%u, %%r%u, %%r%u;\n", PLAIN[pick(m, 5)], to, x, y);
        break;
    case 2:
    case 3:
        emit(m, "%s %%r%u, %%r%u, %u;\n", PLAIN[pick(m, 5)], to, x, constant(m));
        break;
    case 4:
        emit(m, "%s %%r%u, %%r%u, %u;\n", SHIFT[pick(m, 3)], to, x,
             pick(m, 8) == 0 ? 31 : pick(m, 9));
        break;
    case 5:
        emit(m, "mad.lo.s32 %%r%u, %%r%u, %u, %%r%u;\n", to, x, constant(m), y);
        break;
    case 6:
        emit(m,
             "cvt.u16.u32 %%h0, %%r%u;\nshl.b16 %%h1, %%h0, %u;\ncvt.u16.u32 %%h2, %%r%u;\n"
             "add.s16 %%h3, %%h1, %%h2;\ncvt.%s %%r%u, %%h3;\n",
             x, pick(m, 6), y, pick(m, 2) ? "u32.u16" : "s32.s16", to);
        break;
    case 7:
        emit(m,
             "mul.wide.%s %%rd5, %%r%u, %u;\nmad.wide.%s %%rd6, %%r%u, %u, %%rd5;\n"
             "cvt.u32.u64 %%r%u, %%rd6;\n",
             pick(m, 2) ? "s32" : "u32", x, constant(m) & 0xffff, pick(m, 2) ? "s32" : "u32", y,
             constant(m) & 0xff, to);
        if (m->wide < 10) {
            emit(m, "add.s64 %%rd%u, %%rd6, %u;\n", 10 + m->wide++, constant(m));
        }
        break;
    default:
        emit(m, "setp.%s %%p1, %%r%u, ", CMP[pick(m, 10)], x);
        if (pick(m, 3) == 0) {
            emit(m, "%%r%u;\n", y);
        } else {
            emit(m, "%u;\n", constant(m));
        }
        if (pick(m, 2)) {
            emit(m, "selp.b32 %%r%u, %%r%u, %u, %%p1;\n", to, y, constant(m));
        } else {
            emit(m, "mov.u32 %%r%u, %u;\n@%%p1 bra $L%u;\nadd.s32 %%r%u, %%r%u, 5;\n$L%u:\n", to,
                 constant(m), to, to, y, to);
        }
    }
    m->count++;
}

static char *make(uint32_t seed)
{
    static const char *const START[] = {"%tid.x", "%tid.y", "%ctaid.x", "%ntid.x", "%r0", "%r4"};
    maker_t m = {.seed = seed * 2654435761u + 77};
    emit(&m, "mul.wide.u32 %%rd1, %%r0, %u;\nadd.s64 %%rd1, %%rd1, %%rd0;\n", (SLOTS + 20) * 4);
    for (unsigned n = 0; n < 5; n++) {
        emit(&m, "mov.u32 %%r%u, %s;\n", FIRST + m.count++, START[n < 2 ? n : pick(&m, 6)]);
    }
    while (m.count < VALUES) {
        value(&m);
    }
    for (unsigned n = 0; n < VALUES; n++) {
        emit(&m, "st.global.u32 [%%rd1+%u], %%r%u;\n", n * 4, FIRST + n);
    }
    for (unsigned n = 0; n < m.wide; n++) {
        emit(&m, "st.global.u64 [%%rd1+%u], %%rd%u;\n", SLOTS * 4 + n * 8, 10 + n);
    }
    return rig_kernel("", m.text);
}

static void run_one(const char *text, const uint32_t block[3], unsigned width, unsigned strips,
                    uint8_t *out, size_t bytes)
{
    rig_t rig;
    uint64_t p = (uintptr_t)rig_memory();
    rig_clear();
    for (uint32_t n = 0; n < 4096; n++) {
        uint32_t word = n * 2654435761u;
        memcpy(rig_memory() + 1048576 + n * 4, &word, 4);
    }
    rig_begin_strips(&rig, text, "k", rig_exact(block[0], block[1], block[2]), width, strips);
    assert_int_equal(rig_run(&rig, (uint32_t[]){3, 1, 1}, block, &p, 0), CPU_RUN_OK);
    memcpy(out, rig_memory(), bytes);
    rig_end(&rig);
}

static void sums_like_the_oracle(void **state)
{
    (void)state;
    static const struct {
        uint32_t block[3];
        unsigned width, strips;
    } SHAPES[] = {{{256, 1, 1}, 16, 1}, {{16, 16, 1}, 16, 1}, {{16, 16, 1}, 16, 4},
                  {{32, 8, 1}, 0, 0},   {{8, 8, 2}, 8, 2},    {{20, 3, 1}, 0, 0},
                  {{64, 2, 1}, 32, 1},  {{128, 1, 1}, 0, 4}};
    const char *wanted = getenv("JIT_RANDOM_KERNELS");
    uint32_t kernels = wanted != NULL ? (uint32_t)atoi(wanted) * 4 : KERNELS;
    for (uint32_t seed = 1; seed <= kernels; seed++) {
        char *text = make(seed);
        unsigned s = seed % (sizeof SHAPES / sizeof SHAPES[0]);
        const uint32_t *b = SHAPES[s].block;
        size_t bytes = (size_t)b[0] * b[1] * b[2] * 3 * (SLOTS + 20) * 4;
        uint8_t *want = malloc(bytes), *got = malloc(bytes);
        assert_true(want != NULL && got != NULL);
        run_one(text, b, 1, 0, want, bytes);
        run_one(text, b, SHAPES[s].width, SHAPES[s].strips, got, bytes);
        for (size_t at = 0; at < bytes; at += 4) {
            if (memcmp(want + at, got + at, 4) != 0) {
                size_t thread = at / ((SLOTS + 20) * 4), slot = at % ((SLOTS + 20) * 4) / 4;
                fail_msg("seed %u: thread %zu, value %zu differs\n%s", seed, thread, slot, text);
            }
        }
        free(want);
        free(got);
        free(text);
    }
}

/* Many sums in one stretch of code, more than fit the registers: it is generated in another order, and
 * what depends on what must be kept, also where names are used again. */
static char *make_sums(uint32_t seed)
{
    enum { SUMS = 28, STATEMENTS = 220 };
    maker_t m = {.seed = seed * 2654435761u + 5};
    emit(&m, "mul.wide.u32 %%rd1, %%r0, %u;\nadd.s64 %%rd1, %%rd1, %%rd0;\n", (SLOTS + 20) * 4);
    emit(&m, "mul.wide.u32 %%rd2, %%r4, 4;\nadd.s64 %%rd2, %%rd2, %%rd0;\nmov.u32 %%r3, 0;\n");
    for (unsigned n = 0; n < SUMS; n++) {
        emit(&m, "mad.lo.s32 %%r%u, %%r0, %u, %u;\n", 10 + n, 2 * n + 1, pick(&m, 1000));
    }
    emit(&m, "mov.u32 %%r6, 1;\nmov.u32 %%r7, %%r10;\nmov.u32 %%r8, %%r0;\n$L:\n");
    for (unsigned n = 0; n < STATEMENTS; n++) {
        unsigned sum = 10 + n % SUMS, other = 10 + pick(&m, SUMS), temp = 6 + pick(&m, 3);
        switch (pick(&m, 7)) {
        case 0:
            emit(&m, "mov.u32 %%r%u, %%r%u;\n", temp, other);
            break;
        case 1:
            emit(&m, "ld.global.u32 %%r%u, [%%rd2+%u];\n", temp, 1048576 + pick(&m, 64) * 4);
            break;
        case 2:
            emit(&m, "xor.b32 %%r%u, %%r%u, %%r%u;\n", sum, sum, other);
            break;
        case 3:
            emit(&m, pick(&m, 4) ? "add.s32 %%r%u, %%r%u, 3;\n" : "mov.u32 %%r%u, %%r%u;\n", temp,
                 sum);
            break;
        default:
            emit(&m, "mad.lo.s32 %%r%u, %%r%u, %u, %%r%u;\n", sum, temp, 3 + pick(&m, 9), sum);
        }
        if (pick(&m, 50) == 0) {
            emit(&m, "add.s64 %%rd2, %%rd2, %u;\n", pick(&m, 9) * 4);
        }
    }
    emit(&m, "add.s32 %%r3, %%r3, 1;\nsetp.lt.u32 %%p1, %%r3, 3;\n@%%p1 bra $L;\n");
    for (unsigned n = 0; n < SUMS; n++) {
        emit(&m, "st.global.u32 [%%rd1+%u], %%r%u;\n", n * 4, 10 + n);
    }
    return rig_kernel("", m.text);
}

static void sums_in_lots_like_the_oracle(void **state)
{
    (void)state;
    static const struct {
        uint32_t block[3];
        unsigned width, strips;
    } SHAPES[] = {{{32, 2, 1}, 0, 0}, {{16, 4, 1}, 16, 2}, {{20, 3, 1}, 0, 0}, {{64, 1, 1}, 8, 1}};
    for (uint32_t seed = 1; seed <= 16; seed++) {
        char *text = make_sums(seed);
        const uint32_t *b = SHAPES[seed % 4].block;
        size_t bytes = (size_t)b[0] * b[1] * b[2] * 3 * (SLOTS + 20) * 4;
        uint8_t *out[2] = {malloc(bytes), malloc(bytes)};
        for (unsigned k = 0; k < 2; k++) {
            assert_non_null(out[k]);
            run_one(text, b, k == 0 ? 1 : SHAPES[seed % 4].width,
                    k == 0 ? 0 : SHAPES[seed % 4].strips, out[k], bytes);
        }
        if (memcmp(out[0], out[1], bytes) != 0) {
            fail_msg("seed %u\n%s", seed, text);
        }
        free(out[0]);
        free(out[1]);
        free(text);
    }
}

/* A product whose lanes cannot wrap is added to a sum whose lanes can. */
static void products_of_both_kinds(void **state)
{
    (void)state;
    enum { N = 64 };
    rig_t rig;
    uint64_t p = (uintptr_t)rig_memory();
    char *text = rig_kernel("", "mov.u32 %r10, %tid.x;\nld.global.u32 %r11, [%rd0];\n"
                                "add.s32 %r12, %r10, %r11;\nmul.wide.s32 %rd1, %r12, 8;\n"
                                "mad.wide.u32 %rd2, %r10, 4, %rd1;\nmul.wide.u32 %rd3, %r10, 8;\n"
                                "add.s64 %rd3, %rd3, %rd0;\nst.global.u64 [%rd3+64], %rd2;\n");
    rig_clear();
    rig_memory()[0] = 9;
    rig_begin(&rig, text, "k", rig_exact(N, 1, 1), 0);
    assert_int_equal(rig_run(&rig, (uint32_t[]){1, 1, 1}, (uint32_t[]){N, 1, 1}, &p, 0),
                     CPU_RUN_OK);
    for (uint64_t t = 0; t < N; t++) {
        uint64_t v;
        memcpy(&v, rig_memory() + 64 + 8 * t, 8);
        assert_int_equal(v, (t + 9) * 8 + t * 4);
    }
    rig_end(&rig);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_like_the_oracle),
        cmocka_unit_test(sums_in_lots_like_the_oracle),
        cmocka_unit_test(products_of_both_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

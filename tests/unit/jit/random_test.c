/* Random structured kernels: nested conditions and loops with break and continue, whose conditions
 * differ per lane, per row or not at all. Vector code must give what the scalar oracle gives, for
 * every block shape, width and number of strips. Seeds are fixed. */
#include "tests/unit/jit/jit_rig.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 16, VALUES = 6, FIRST = 10, SLOTS = 8 };

typedef struct {
    uint32_t seed;
    char text[ROOM];
    size_t used;
    unsigned labels, budget;
    bool barriers; /* between statements, and neighbours exchange values there */
    bool divided;  /* also within statements, for whoever comes there */
    bool warps;    /* lanes of a warp exchange values between statements */
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
    m->used += (size_t)vsnprintf(m->text + m->used, ROOM - m->used, format, args);
    va_end(args);
    assert_true(m->used < ROOM);
}

/* Values live in %r10..%r15. */
static unsigned value(maker_t *m)
{
    return FIRST + pick(m, VALUES);
}

static void operand(maker_t *m)
{
    static const char *const SPECIAL[] = {"%tid.x", "%tid.y", "%ctaid.x", "%ntid.x"};
    switch (pick(m, 6)) {
    case 0:
        emit(m, "%u", pick(m, 40));
        break;
    case 1:
        emit(m, "%s", SPECIAL[pick(m, 4)]);
        break;
    default:
        emit(m, "%%r%u", value(m));
    }
}

static void assignment(maker_t *m)
{
    static const char *const OPS[] = {"add.s32", "sub.s32", "mul.lo.s32", "xor.b32", "and.b32",
                                      "or.b32",  "min.s32", "max.u32",    "shr.u32"};
    if (pick(m, 5) == 0) {
        emit(m, "setp.lt.u32 %%p1, %%r%u, ", value(m));
        operand(m);
        emit(m, ";\n@%s%%p1 ", pick(m, 2) ? "!" : "");
    }
    unsigned op = pick(m, 9);
    emit(m, "%s %%r%u, %%r%u, ", OPS[op], value(m), value(m));
    if (op == 8) {
        emit(m, "%u", pick(m, 8));
    } else {
        operand(m);
    }
    emit(m, ";\n");
}

static void memory(maker_t *m)
{
    /* the thread's own cells, so that no order between threads matters */
    unsigned cell = pick(m, SLOTS);
    if (pick(m, 2)) {
        emit(m, "st.global.u32 [%%rd1+%u], %%r%u;\n", cell * 4, value(m));
    } else {
        emit(m, "ld.global.u32 %%r%u, [%%rd1+%u];\n", value(m), cell * 4);
    }
}

static void condition(maker_t *m)
{
    static const char *const CMP[] = {"lt.s32", "ge.u32", "eq.s32", "ne.s32", "gt.u32"};
    emit(m, "setp.%s %%p0, ", CMP[pick(m, 5)]);
    if (pick(m, 3) == 0) {
        emit(m, "%%tid.%s, ", pick(m, 2) ? "x" : "y");
    } else {
        emit(m, "%%r%u, ", value(m));
    }
    operand(m);
    emit(m, ";\n");
}

static void statements(maker_t *m, unsigned depth, int out, int next);

static void branch(maker_t *m, unsigned depth, int out, int next)
{
    unsigned other = m->labels++, end = m->labels++;
    condition(m);
    emit(m, "@%%p0 bra $L%u;\n", other);
    statements(m, depth + 1, out, next);
    emit(m, "bra $L%u;\n$L%u:\n", end, other);
    if (pick(m, 2)) {
        statements(m, depth + 1, out, next);
    }
    emit(m, "$L%u:\n", end);
}

/* At most some rounds: a counter of the loop's own depth, %r20 + depth. */
static void loop(maker_t *m, unsigned depth)
{
    unsigned head = m->labels++, next = m->labels++, end = m->labels++, counter = 20 + depth;
    emit(m, "mov.u32 %%r%u, 0;\n$L%u:\n", counter, head);
    statements(m, depth + 1, (int)end, (int)next);
    emit(m, "$L%u:\nadd.s32 %%r%u, %%r%u, 1;\n", next, counter, counter);
    emit(m, "add.s32 %%r%u, %%r%u, %%r%u;\n", value(m), value(m), counter);
    emit(m, "setp.ge.u32 %%p2, %%r%u, %u;\n@%%p2 bra $L%u;\n", counter, 2 + pick(m, 4), end);
    condition(m);
    emit(m, "@%%p0 bra $L%u;\n$L%u:\n", head, end);
}

static void leave(maker_t *m, int out, int next)
{
    if (out < 0) {
        return;
    }
    condition(m);
    emit(m, "@%%p0 bra $L%d;\n", pick(m, 2) ? out : next);
}

static void statements(maker_t *m, unsigned depth, int out, int next)
{
    unsigned n = 1 + pick(m, 4);
    for (unsigned k = 0; k < n && m->budget > 0; k++) {
        m->budget--;
        switch (depth < 5 ? pick(m, 10) : pick(m, 6)) {
        case 0:
        case 1:
        case 2:
        case 3:
            assignment(m);
            break;
        case 4:
            memory(m);
            break;
        case 5:
            leave(m, out, next);
            break;
        case 6:
        case 7:
            branch(m, depth, out, next);
            break;
        case 8:
            loop(m, depth);
            break;
        default:
            condition(m);
            if (m->divided) {
                emit(m, pick(m, 2) ? "bar.sync 0;\n" : "@%%p0 bar.sync 0;\n");
            }
            if (pick(m, 4) == 0 && !m->barriers && !m->warps) {
                emit(m, "@%%p0 ret;\n");
            }
        }
    }
}

/* What lanes of a warp do together; from a lane that is not there, a thread takes nothing. */
static void warp_operation(maker_t *m)
{
    unsigned from = value(m), to = value(m), by = 1u << pick(m, 5);
    switch (pick(m, 5)) {
    case 0:
        emit(m, "shfl.sync.bfly.b32 %%r33, %%r%u, %u, 31, -1;\nxor.b32 %%r34, %%r4, %u;\n", from,
             by, by);
        emit(m, "setp.lt.u32 %%p3, %%r34, %%r2;\nselp.b32 %%r%u, %%r33, %%r%u, %%p3;\n", to, from);
        break;
    case 1:
        emit(m, "shfl.sync.up.b32 %%r33|%%p3, %%r%u, %u, 0, -1;\n", from, by);
        emit(m, "selp.b32 %%r%u, %%r33, 7, %%p3;\n", to);
        break;
    case 2:
        condition(m);
        emit(m, "vote.sync.ballot.b32 %%r%u, %%p0, -1;\n", to);
        break;
    case 3:
        emit(m, "and.b32 %%r33, %%r%u, 3;\nmatch.any.sync.b32 %%r%u, %%r33, -1;\n", from, to);
        break;
    default:
        condition(m);
        emit(m, "vote.sync.any.pred %%p3, %%p0, -1;\nselp.b32 %%r%u, 5, %%r%u, %%p3;\n", to, from);
    }
}

static char *make(uint32_t seed, const maker_t *kind)
{
    maker_t *m = malloc(sizeof *m);
    assert_non_null(m);
    *m = *kind;
    m->seed = seed * 2654435761u + 12345;
    m->budget = 60;
    bool barriers = m->barriers;
    emit(m, "mul.wide.s32 %%rd1, %%r0, %u;\nadd.s64 %%rd1, %%rd1, %%rd0;\n", SLOTS * 4);
    for (unsigned v = 0; v < VALUES; v++) {
        emit(m,
             v % 3 == 0   ? "mov.u32 %%r%u, %%tid.x;\n"
             : v % 3 == 1 ? "mad.lo.s32 %%r%u, %%r5, 7, %%tid.y;\n"
                          : "add.s32 %%r%u, %%r0, 3;\n",
             FIRST + v);
    }
    for (unsigned k = 0; k < 4; k++) {
        statements(m, 0, -1, -1);
        if (m->warps) {
            warp_operation(m);
        }
        if (barriers) { /* leave something for the neighbour, and take it behind the barrier */
            emit(m, "mad.lo.s32 %%r30, %%r4, 4, s;\nst.shared.u32 [%%r30], %%r%u;\nbar.sync 0;\n",
                 value(m));
            emit(m,
                 "xor.b32 %%r31, %%r4, 1;\nmin.u32 %%r31, %%r31, %%r32;\n"
                 "mad.lo.s32 %%r31, %%r31, 4, s;\nld.shared.u32 %%r%u, [%%r31];\nbar.sync 0;\n",
                 value(m));
        }
    }
    for (unsigned v = 0; v < VALUES; v++) {
        emit(m, "st.global.u32 [%%rd1+%u], %%r%u;\n", v * 4, FIRST + v);
    }
    char *body = malloc(ROOM * 2);
    assert_non_null(body);
    snprintf(body, ROOM * 2, "%s%s", barriers ? "sub.s32 %r32, %r2, 1;\n" : "", m->text);
    char *text = rig_kernel(barriers ? ".shared .align 4 .b8 s[4096];" : "", body);
    free(body);
    free(m);
    return text;
}

static void run_one(const char *text, const uint32_t block[3], cpu_shape_t shape, unsigned width,
                    unsigned strips, uint8_t *out, size_t bytes)
{
    rig_t rig;
    uint32_t grid[3] = {2, 1, 1};
    uint64_t p = (uintptr_t)rig_memory();
    rig_clear();
    rig_begin_strips(&rig, text, "k", shape, width, strips);
    cpu_run_t r = rig_run(&rig, grid, block, &p, 0);
    assert_int_equal(r, CPU_RUN_OK);
    memcpy(out, rig_memory(), bytes);
    rig_end(&rig);
}

typedef struct {
    uint32_t block[3];
    unsigned kind, width, strips;
} variant_t;

static const variant_t VARIANTS[] = {
    {{64, 1, 1}, CPU_SHAPE_EXACT, 0, 0},
    {{37, 1, 1}, CPU_SHAPE_EXACT, 0, 0},
    {{37, 1, 1}, CPU_SHAPE_LINEAR, 0, 0},
    {{16, 8, 1}, CPU_SHAPE_EXACT, 0, 0},
    {{16, 6, 1}, CPU_SHAPE_EXACT, 8, 4},
    {{5, 7, 3}, CPU_SHAPE_EXACT, 0, 2},
    {{28, 5, 1}, CPU_SHAPE_EXACT, 16, 1},
    {{5, 7, 3}, CPU_SHAPE_ANY, 0, 0},
    {{32, 4, 2}, CPU_SHAPE_EXACT, 32, 2},
    {{1, 9, 1}, CPU_SHAPE_EXACT, 4, 0},
    /* the block in one group: barriers are nothing, where all lanes reach them together */
    {{16, 16, 1}, CPU_SHAPE_EXACT, 16, 16},
    {{20, 2, 1}, CPU_SHAPE_EXACT, 16, 4},
    {{32, 1, 1}, CPU_SHAPE_EXACT, 32, 1},
};

enum { KERNELS = 6, VARIANT_COUNT = sizeof VARIANTS / sizeof VARIANTS[0] };

static void compare_seed(uint32_t seed, const maker_t *kind)
{
    char *text = make(seed, kind);
    for (unsigned k = 0; k < 3; k++) {
        const variant_t *v = &VARIANTS[(seed * 3 + k) % VARIANT_COUNT];
        size_t bytes = (size_t)v->block[0] * v->block[1] * v->block[2] * 2 * SLOTS * 4;
        uint8_t *want = malloc(bytes), *got = malloc(bytes);
        cpu_shape_t exact = rig_exact(v->block[0], v->block[1], v->block[2]), shape = exact;
        if (v->kind != CPU_SHAPE_EXACT) {
            shape = (cpu_shape_t){v->kind, {0, 0, 0}};
        }
        run_one(text, v->block, exact, 1, 0, want, bytes);
        run_one(text, v->block, shape, v->width, v->strips, got, bytes);
        if (memcmp(want, got, bytes) != 0) {
            size_t at = 0;
            while (want[at] == got[at]) {
                at++;
            }
            fail_msg("seed %u variant %zu: byte %zu (thread %zu) differs\n%s", seed,
                     (size_t)(v - VARIANTS), at, at / (SLOTS * 4), text);
        }
        free(want);
        free(got);
    }
    free(text);
}

static unsigned kernels(void)
{
    const char *n = getenv("JIT_RANDOM_KERNELS");
    return n != NULL ? (unsigned)atoi(n) : KERNELS;
}

static void compare_seeds(uint32_t first, unsigned count, maker_t kind)
{
    for (uint32_t seed = first; seed < first + count; seed++) {
        compare_seed(seed, &kind);
    }
}

static void control_flow_like_the_oracle(void **state)
{
    (void)state;
    compare_seeds(1, kernels(), (maker_t){.barriers = false});
}

static void barriers_like_the_oracle(void **state)
{
    (void)state;
    compare_seeds(1001, kernels() / 3, (maker_t){.barriers = true});
}

/* Threads wait in divergent code, at several places at once. */
static void divided_barriers_like_the_oracle(void **state)
{
    (void)state;
    compare_seeds(2001, kernels() / 3, (maker_t){.divided = true});
}

static void warps_like_the_oracle(void **state)
{
    (void)state;
    compare_seeds(3001, kernels() / 3, (maker_t){.warps = true});
    compare_seeds(4001, kernels() / 6, (maker_t){.warps = true, .barriers = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_flow_like_the_oracle),
        cmocka_unit_test(barriers_like_the_oracle),
        cmocka_unit_test(divided_barriers_like_the_oracle),
        cmocka_unit_test(warps_like_the_oracle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

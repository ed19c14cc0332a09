/* Forms that hand-written and old PTX has: vector registers, parts of registers, functions that take
 * and give values in registers, special registers as vectors, sums and negations as operands. */
#include "tests/unit/ptx/parse_help.h"

#include <stdio.h>
#include <string.h>

#define HEAD ".version 8.7\n.target sm_90\n.address_size 64\n"

static const ptx_instr_t *instr(const ptx_function_t *f, uint32_t n)
{
    if (n >= f->instr_count)
        fail_msg("only %u instructions", f->instr_count);
    return &f->instrs[n];
}

static void test_vector_registers(void **state)
{
    (void)state;
    ptx_module_t *m = parse_kernel(".reg .v4 .f32 %v; .reg .v2 .b32 %w<3>;\n"
                                   "ld.global.v4.f32 %v, [%d1];\n"
                                   "add.f32 %v.y, %v.x, %v.w;\n"
                                   "mul.f32 %v.r, %v.g, %v.a;\n"
                                   "st.global.v2.b32 [%d1], %w2;\n"
                                   "mov.b64 %d2, %w0;\n"
                                   "tex.2d.v4.f32.f32 %v, [%d1, {%f1, %f2}];");
    const ptx_function_t *f = function_of(m, "k");
    const ptx_operand_t *v = ptx_dst(f, instr(f, 0), 0);
    assert_int_equal(v->kind, PTX_OPERAND_VECTOR);
    assert_int_equal(v->count, 4);
    uint32_t first = ptx_element(f, v, 0)->index;
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(ptx_element(f, v, i)->index, first + i);
        assert_int_equal(f->regs[first + i].type, PTX_F32);
    }
    assert_int_equal(ptx_dst(f, instr(f, 1), 0)->index, first + 1);
    assert_int_equal(ptx_src(f, instr(f, 1), 0)->index, first);
    assert_int_equal(ptx_src(f, instr(f, 1), 1)->index, first + 3);
    assert_int_equal(ptx_dst(f, instr(f, 2), 0)->index, first);
    assert_int_equal(ptx_src(f, instr(f, 2), 0)->index, first + 1);
    assert_int_equal(ptx_src(f, instr(f, 2), 1)->index, first + 3);
    assert_int_equal(ptx_src(f, instr(f, 3), 1)->count, 2);
    assert_int_equal(ptx_src(f, instr(f, 4), 0)->count, 2);
    ptx_module_free(m);
}

/* Sources are read before any destination is written. */
static void test_vector_moves(void **state)
{
    (void)state;
    ptx_module_t *m = parse_kernel("mov.v2.b32 {%r1, %r2}, {%r2, %r1}; mov.v4.u32 {%r1, %r2, %r3, "
                                   "_}, %ctaid;");
    const ptx_function_t *f = function_of(m, "k");
    uint32_t r1 = ptx_dst(f, instr(f, 2), 0)->index, r2 = ptx_dst(f, instr(f, 3), 0)->index;
    assert_int_equal(ptx_src(f, instr(f, 0), 0)->index, r2);
    assert_int_equal(ptx_src(f, instr(f, 1), 0)->index, r1);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(ptx_src(f, instr(f, 2 + i), 0)->index, ptx_dst(f, instr(f, i), 0)->index);
    static const ptx_sreg_t want[] = {PTX_SREG_CTAID_X, PTX_SREG_CTAID_Y, PTX_SREG_CTAID_Z};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ptx_src(f, instr(f, 4 + i), 0)->kind, PTX_OPERAND_SREG);
        assert_int_equal(ptx_src(f, instr(f, 4 + i), 0)->index, want[i]);
    }
    assert_int_equal(ptx_src(f, instr(f, 7), 0)->kind, PTX_OPERAND_IMM);
    assert_int_equal(ptx_src(f, instr(f, 7), 0)->value, 0);
    assert_int_equal(f->instr_count, 12); /* 2 + 2, 4 + 3, ret: nothing is stored into _ */
    ptx_module_free(m);
}

static void test_sums_and_negations(void **state)
{
    (void)state;
    ptx_module_t *m =
        parse_kernel("mov.b64 %d1, %d2+16; mov.u32 %r1, %r2+-4;\n"
                     "and.pred %p1, %p2, !%p3; mov.pred %p4, !%p1; mov.u32 %r1, %tid.w;");
    const ptx_function_t *f = function_of(m, "k");
    assert_int_equal(instr(f, 0)->op, PTX_OP_ADD);
    assert_int_equal(instr(f, 0)->type, PTX_U64);
    assert_int_equal(ptx_src(f, instr(f, 0), 1)->value, 16);
    assert_int_equal(instr(f, 1)->op, PTX_OP_ADD);
    assert_int_equal((int64_t)ptx_src(f, instr(f, 1), 1)->value, -4);
    assert_int_equal(instr(f, 2)->op, PTX_OP_NOT);
    assert_int_equal(instr(f, 3)->op, PTX_OP_AND);
    assert_int_equal(ptx_src(f, instr(f, 3), 1)->index, ptx_dst(f, instr(f, 2), 0)->index);
    assert_int_equal(ptx_src(f, instr(f, 3), 1)->negated, 0);
    assert_int_equal(instr(f, 4)->op, PTX_OP_NOT);
    assert_int_equal(ptx_src(f, instr(f, 4), 0)->index, ptx_dst(f, instr(f, 3), 0)->index);
    assert_int_equal(instr(f, 5)->op, PTX_OP_MOV);
    assert_int_equal(ptx_src(f, instr(f, 6), 0)->kind, PTX_OPERAND_IMM);
    assert_int_equal(ptx_src(f, instr(f, 6), 0)->value, 0);
    ptx_module_free(m);
}

static void expect_part(const ptx_operand_t *o, char kind, unsigned count, unsigned value)
{
    assert_int_equal(o->kind, PTX_OPERAND_REG);
    assert_int_equal(o->base, kind);
    assert_int_equal(o->count, count);
    assert_int_equal(o->value, value);
}

static void test_parts(void **state)
{
    (void)state;
    ptx_module_t *m = parse_kernel("vadd.u32.u32.u32.sat %r0.b2, %r1.b0, %r2.h1, %r3;\n"
                                   "vadd4.u32.u32.u32 %r0.b210, %r1.b7654, %r2, %r3;\n"
                                   "vsub2.s32.s32.s32 %r0.h10, %r1.h32, %r2.h10, %r3;\n"
                                   "vmad.s32.s32.u32.sat.shr7 %r0, %r1.h0, -%r2.h0, %r3;");
    const ptx_function_t *f = function_of(m, "k");
    expect_part(ptx_dst(f, instr(f, 0), 0), 'b', 1, 2);
    expect_part(ptx_src(f, instr(f, 0), 0), 'b', 1, 0);
    expect_part(ptx_src(f, instr(f, 0), 1), 'h', 1, 1);
    expect_part(ptx_src(f, instr(f, 0), 2), 0, 0, 0);
    expect_part(ptx_dst(f, instr(f, 1), 0), 'b', 3, 0x210);
    expect_part(ptx_src(f, instr(f, 1), 0), 'b', 4, 0x7654);
    expect_part(ptx_dst(f, instr(f, 2), 0), 'h', 2, 0x10);
    expect_part(ptx_src(f, instr(f, 2), 0), 'h', 2, 0x32);
    assert_int_equal(ptx_src(f, instr(f, 3), 0)->negated, 0);
    assert_int_equal(ptx_src(f, instr(f, 3), 1)->negated, 1);
    ptx_module_free(m);
}

/* add(a, b) with everything in registers: parameters are loaded, the result is stored before every
 * return. */
static void test_register_parameters(void **state)
{
    (void)state;
    ptx_module_t *m =
        parse_ok(HEAD ".func (.reg .u32 r) f (.reg .u32 a, .reg .v2 .u32 b)\n{\n"
                      ".reg .pred %p; setp.eq.u32 %p, a, b.y; add.u32 r, a, b.x;\n"
                      "{ .reg .u64 r; @!%p ret; }\n"
                      "add.u32 r, r, 1;\n}\n"
                      ".func (.reg .u32 r0, .reg .f64 r1) two ()\n"
                      "{ mov.u32 r0, 1; mov.f64 r1, 1.0; ret; }\n"
                      ".entry k()\n{ .reg .u32 %r<4>; .reg .v2 .u32 %v; .reg .f64 %g;\n"
                      "call (%r0), f, (%r1, %v); call (%r0, %g), two; ret; }\n");
    const ptx_function_t *f = function_of(m, "f"), *k = function_of(m, "k");
    assert_int_equal(f->param_count, 3);
    assert_int_equal(f->result_count, 1);
    static const ptx_op_t want[] = {PTX_OP_LD, PTX_OP_LD,  PTX_OP_LD,  PTX_OP_SETP, PTX_OP_ADD,
                                    PTX_OP_ST, PTX_OP_RET, PTX_OP_ADD, PTX_OP_ST,   PTX_OP_RET};
    assert_int_equal(f->instr_count, sizeof want / sizeof want[0]);
    for (uint32_t i = 0; i < f->instr_count; i++)
        assert_int_equal(f->instrs[i].op, want[i]);
    uint32_t r = ptx_dst(f, instr(f, 4), 0)->index;
    for (uint32_t at = 5; at <= 8; at += 3) {
        assert_int_equal(ptx_src(f, instr(f, at), 0)->index, f->result_first);
        assert_int_equal(ptx_src(f, instr(f, at), 1)->index, r);
    }
    assert_int_equal(instr(f, 5)->guard, instr(f, 6)->guard);
    assert_int_equal(instr(f, 5)->guard_negated, 1);
    assert_int_equal(instr(f, 8)->guard, PTX_NONE);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(ptx_src(f, instr(f, i), 0)->index, f->param_first + i);
    assert_int_equal(ptx_src(k, instr(k, 0), 1)->count, 3);
    assert_int_equal(ptx_dst(k, instr(k, 1), 0)->count, 2);
    assert_int_equal(function_of(m, "two")->instr_count, 5); /* nothing behind the ret */
    ptx_module_free(m);
}

static void test_refused(void **state)
{
    static const struct {
        const char *body, *why;
    } table[] = {
        {"add.u32 %r1.b0, %r2, %r3;", "must be a whole register"},
        {"add.u32 %r1, %r2.h1, %r3;", "must be a whole register"},
        {"ld.global.u32 %r1, [%d1.b0];", "neither vectors nor parts"},
        {"mov.b64 %d1, {%r1.b0, %r2};", "neither vectors nor parts"},
        {"vadd.u32.u32.u32 %r1, %r2.b4294967295, %r3;", "has no part '.b4294967295'"},
        {"vadd.u32.u32.u32 %r1, %r2.q0, %r3;", "has no part '.q0'"},
        {"vadd2.u32.u32.u32 %r1, %r2.h210, %r3, %r4;", "has no part '.h210'"},
        {"vadd2.u32.u32.u32 %r1, %r2.h4, %r3, %r4;", "has no part '.h4'"},
        {".reg .v2 .f32 %v; add.f32 %f1, %v.z, %f2;", "has no part '.z'"},
        {".reg .v2 .f32 %v; add.f32 %f1, %v, %f2;", "must not be a vector"},
        {".reg .v2 .f32 %v; ld.global.v4.f32 %v, [%d1];", "wrong number of elements"},
        {".reg .v2 .f32 %v; mov.b64 %d1, {%v, %f1};", "neither vectors nor parts"},
        {".reg .v2 .pred %v;", "the type of a register"},
        {".reg .v3 .f32 %v;", "the type of a register"},
        {"mov.v2.b32 {%r1, %r2}, %r3;", "must be a vector"},
        {"mov.v2.b32 {%r1, %r2}, {%r3, %d4};", "wrong type"},
        {"mov.u32 %r1, %tid;", "wrong number of elements"},
        {"mov.f32 %f1, %f2+4;", "cannot have an offset"},
        {"mov.pred %p1, %p2+1;", "cannot have an offset"},
        {"and.b32 %r1, %r2, !%r3;", "cannot be negated"},
        {"st.param.u64 [a], %d1;", "writes a kernel's parameter"},
        {"st.const.u32 [%d1], %r1;", "writes constants"},
        {"ld.shared.u32 %r1, [g0];", "'ld.shared.u32' of 'g0', which is in .global"},
        {"st.global.u32 [s], %r1;", "'st.global.u32' of 's', which is in .shared"},
        {"red.local.add.u32 [s], 1;", "'red.local.add.u32' of 's', which is in .shared"},
        {"ld.param.u32 %r1, [s];", "'ld.param.u32' of 's', which is in .shared"},
        {"bar.sync 16;", "is no barrier"},
        {"ld.param.u64 %d1, [a+8];", "reads outside the parameters"},
        {"ld.param.u32 %r1, [b+4];", "reads outside the parameters"},
        {"ld.param.u32 %r1, [a-4];", "reads outside the parameters"},
        {"ld.param.v2.u64 {%d1, %d2}, [a];", "reads outside the parameters"},
    };
    char text[2048], log[1024];
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        make_kernel(text, sizeof text, table[i].body);
        parse_bad(text, log);
        if (!strstr(log, table[i].why))
            fail_msg("%s: %s", table[i].body, log);
    }
    static const struct {
        const char *text, *why;
    } modules[] = {
        {".func (.reg .pred r) f () { ret; }", "predicates as parameters"},
        {".func f (.reg .u32 a, .reg .u32 a) { ret; }", "'a' is declared twice"},
        {".entry k(.reg .u32 a) { ret; }", "expected .param"},
        {".func f (.param .u32 a) { ret; } .entry k() { call f, (1, 2); ret; }",
         "'f' has 1 parameters and 0 results, not 2 and 0"},
        {".func f () { ret; } .entry k() { .reg .u32 r; call (r), f; ret; }",
         "'f' has 0 parameters and 0 results, not 0 and 1"},
        {".global .samplerref s = { addr_mode_0 = clamp_ogl };", "clamp_ogl is not supported"},
    };
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
        snprintf(text, sizeof text, HEAD "%s\n", modules[i].text);
        parse_bad(text, log);
        if (!strstr(log, modules[i].why))
            fail_msg("%s: %s", modules[i].text, log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector_registers),    cmocka_unit_test(test_vector_moves),
        cmocka_unit_test(test_sums_and_negations),  cmocka_unit_test(test_parts),
        cmocka_unit_test(test_register_parameters), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

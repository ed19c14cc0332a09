/* Instructions: what parses, what the fields and operands say, and what is refused how. */
#include "tests/unit/ptx/parse_help.h"

#include <stdio.h>
#include <string.h>

/* Every line must parse, as an assembler takes them. %p predicate, %h 16, %r 32, %d 64 bits, %f
 * f32, %g f64. */
static const char *const accepted[] = {
    "add.s32 %r1, %r2, -5;",
    "add.cc.u32 %r1, %r2, %r3;",
    "addc.cc.u32 %r1, %r2, %r3;",
    "addc.u32 %r1, %r2, 0;",
    "sub.u16 %h1, %h2, %h3;",
    "sub.cc.s32 %r1, %r2, %r3;",
    "subc.s32 %r1, %r2, %r3;",
    "add.sat.s32 %r1, %r2, %r3;",
    "mul.lo.s32 %r1, %r2, 12;",
    "mul.hi.u64 %d1, %d2, %d3;",
    "mul.wide.u16 %r1, %h1, %h2;",
    "mul.wide.s32 %d1, %r1, 4;",
    "mul24.lo.u32 %r1, %r2, %r3;",
    "mad.lo.s32 %r1, %r2, %r3, %r4;",
    "mad.wide.u32 %d1, %r1, %r2, %d2;",
    "mad.lo.cc.u32 %r1, %r2, %r3, %r4;",
    "madc.hi.u32 %r1, %r2, %r3, %r4;",
    "mad24.hi.s32 %r1, %r2, %r3, %r4;",
    "sad.u32 %r1, %r2, %r3, %r4;",
    "div.s32 %r1, %r2, %r3;",
    "rem.u64 %d1, %d2, 10;",
    "abs.s64 %d1, %d2;",
    "neg.s16 %h1, %h2;",
    "min.u32 %r1, %r2, %r3;",
    "max.s64 %d1, %d2, %d3;",
    "popc.b64 %r1, %d1;",
    "clz.b32 %r1, %r2;",
    "bfind.shiftamt.s64 %r1, %d1;",
    "bfind.u32 %r1, %r2;",
    "fns.b32 %r1, 0xaaaaaaaa, 3, 1;",
    "brev.b64 %d1, %d2;",
    "bfe.s64 %d1, %d2, %r1, 5;",
    "bfi.b32 %r1, %r2, %r3, 8, %r4;",
    "szext.wrap.u32 %r1, %r2, %r3;",
    "bmsk.clamp.b32 %r1, %r2, %r3;",
    "dp4a.u32.s32 %r1, %r2, %r3, %r4;",
    "dp2a.lo.u32.u32 %r1, %r2, %r3, %r4;",
    "and.pred %p1, %p2, %p3;",
    "or.b16 %h1, %h2, 0xff;",
    "xor.b64 %d1, %d2, -1;",
    "not.pred %p1, %p2;",
    "cnot.b32 %r1, %r2;",
    "lop3.b32 %r1, %r2, %r3, %r4, 0x40;",
    "shl.b64 %d1, %d2, %r1;",
    "shr.s16 %h1, %h2, 3;",
    "shf.l.wrap.b32 %r1, %r2, %r3, %r4;",
    "shf.r.clamp.b32 %r1, %r2, %r3, 16;",
    "prmt.b32 %r1, %r2, %r3, 0x3210;",
    "prmt.b32.rc16 %r1, %r2, %r3, %r4;",
    "add.f32 %f1, %f2, 0f3F800000;",
    "add.rz.ftz.sat.f32 %f1, %f2, %f3;",
    "sub.rp.f64 %g1, %g2, 0d3FF0000000000000;",
    "mul.rn.f32 %f1, %f2, 1.5;",
    "fma.rm.ftz.f32 %f1, %f2, %f3, %f4;",
    "fma.rn.f64 %g1, %g2, %g3, 1.0e-3;",
    "mad.rn.f32 %f1, %f2, %f3, %f4;",
    "div.approx.ftz.f32 %f1, %f2, %f3;",
    "div.full.f32 %f1, %f2, %f3;",
    "div.rn.f64 %g1, %g2, %g3;",
    "rcp.approx.ftz.f32 %f1, %f2;",
    "rcp.rn.f64 %g1, %g2;",
    "sqrt.rn.f32 %f1, %f2;",
    "rsqrt.approx.f64 %g1, %g2;",
    "sin.approx.f32 %f1, %f2;",
    "cos.approx.ftz.f32 %f1, %f2;",
    "lg2.approx.f32 %f1, %f2;",
    "ex2.approx.ftz.f32 %f1, %f2;",
    "tanh.approx.f32 %f1, %f2;",
    "min.NaN.f32 %f1, %f2, %f3;",
    "max.ftz.f32 %f1, %f2, %f3;",
    "copysign.f32 %f1, %f2, %f3;",
    "testp.subnormal.f32 %p1, %f1;",
    "fma.rn.f16x2 %r1, %r2, %r3, %r4;",
    "add.f16 %h1, %h2, %h3;",
    "setp.lt.s32 %p1, %r1, %r2;",
    "setp.ltu.ftz.f32 %p1|%p2, %f1, 0f00000000;",
    "setp.ge.and.u64 %p1, %d1, %d2, !%p3;",
    "set.eq.u32.s32 %r1, %r2, %r3;",
    "set.gt.or.f32.f32 %f1, %f2, %f3, %p1;",
    "selp.b64 %d1, %d2, %d3, %p1;",
    "selp.f32 %f1, 0f3F800000, 0f00000000, %p1;",
    "slct.u32.s32 %r1, %r2, %r3, %r4;",
    "slct.f32.f32 %f1, %f2, %f3, %f4;",
    "mov.u32 %r1, %tid.x;",
    "mov.u64 %d1, %clock64;",
    "mov.u64 %d1, g0+8;",
    "mov.u32 %r1, s;",
    "mov.pred %p1, %p2;",
    "mov.b64 %d1, {%r1, %r2};",
    "mov.b64 {%r1, _}, %d1;",
    "mov.b32 {%h1, %h2}, %r1;",
    "mov.b64 {%h1, %h2, %h3, %h4}, %d1;",
    "mov.f32 %f1, 0fFF800000;",
    "mov.f64 %g1, -1.0;",
    "mov.u32 %r1, WARP_SZ;",
    "mov.u32 %r1, (1 << 4) + 3 * 2;",
    "mov.u32 %r1, %envreg3;",
    "cvt.u64.u32 %d1, %r1;",
    "cvt.s32.s8 %r1, %r2;",
    "cvt.u8.u32 %r1, %r2;",
    "cvt.rn.f32.s32 %f1, %r1;",
    "cvt.rzi.sat.u16.f32 %h1, %f1;",
    "cvt.rni.ftz.f32.f32 %f1, %f2;",
    "cvt.rn.f16.f32 %h1, %f1;",
    "cvt.f32.f16 %f1, %h1;",
    "cvt.rn.f16x2.f32 %r1, %f1, %f2;",
    "cvt.sat.f32.f32 %f1, %f2;",
    "cvta.to.global.u64 %d1, %d2;",
    "cvta.shared.u64 %d1, %d2;",
    "isspacep.shared %p1, %d1;",
    "ld.param.u64 %d1, [a];",
    "ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%d1+16];",
    "ld.global.L1::no_allocate.b32 %r1, [%d1];",
    "ld.volatile.shared.u32 %r1, [s+4];",
    "ld.acquire.gpu.global.u32 %r1, [%d1];",
    "ld.shared.u8 %h1, [%r1-1];",
    "ld.const.s16 %r1, [%d1];",
    "ld.b64 %d1, [%d2];",
    "ld.global.u32 %r1, [4096];",
    "ldu.global.f32 %f1, [%d1];",
    "st.global.v2.b64 [%d1], {%d2, %d3};",
    "st.shared.b8 [%r1], 255;",
    "st.release.sys.global.u32 [%d1], %r1;",
    "st.global.cs.f32 [%d1], 0f40000000;",
    "prefetch.global.L2 [%d1];",
    "atom.global.add.u32 %r1, [%d1], 1;",
    "atom.shared.cas.b32 %r1, [s], %r2, %r3;",
    "atom.acq_rel.gpu.global.exch.b64 %d1, [%d2], %d3;",
    "atom.add.f32 _, [%d1], 0f3F800000;",
    "red.relaxed.cta.shared.inc.u32 [%r1], 7;",
    "red.global.add.f64 [%d1], %g1;",
    "bra $L0;",
    "@%p1 bra.uni $L0;",
    "@!%p1 ret;",
    "exit;",
    "trap;",
    "bar.sync 0;",
    "bar.sync %r1, 64;",
    "bar.arrive 1, 128;",
    "bar.red.popc.u32 %r1, 0, %p1;",
    "bar.red.and.pred %p1, 0, 64, !%p2;",
    "barrier.sync.aligned 0;",
    "barrier.cta.red.or.pred %p1, 1, %p2;",
    "barrier.cluster.arrive.release.aligned;",
    "bar.warp.sync 0xffffffff;",
    "membar.gl;",
    "fence.acq_rel.cluster;",
    "fence.sc.sys;",
    "shfl.sync.down.b32 %r1|%p1, %r2, 16, 31, -1;",
    "shfl.bfly.b32 %r1, %r2, %r3, 0x1f;",
    "vote.sync.ballot.b32 %r1, %p1, -1;",
    "vote.sync.uni.pred %p1, !%p2, %r1;",
    "vote.all.pred %p1, %p2;",
    "match.any.sync.b64 %r1, %d1, -1;",
    "match.all.sync.b32 %r1|%p1, %r2, -1;",
    "redux.sync.add.s32 %r1, %r2, -1;",
    "activemask.b32 %r1;",
    "elect.sync _|%p1, -1;",
    "nanosleep.u32 100;",
    "pmevent 3;",
    "tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%d1, {%r1, %r2}];",
    "tex.level.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%d1, %d2, {%f5}], %f6;",
    "suld.b.2d.b32.trap {%r1}, [%d1, {%r2, %r3}];",
    "sust.b.1d.v2.b32.zero [%d1, {%r1}], {%r2, %r3};",
    "txq.width.b32 %r1, [%d1];",
    "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r1, %r2}, [%d1], %r3;",
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r3}, "
    "{%f5, %f6, %f7, %f8};",
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r2}, [%r3];",
    "cp.async.ca.shared.global [%r1], [%d1], 16;",
    "cp.async.commit_group;",
    "cp.async.wait_group 0;",
    "mbarrier.init.shared.b64 [%r1], 128;",
    "mbarrier.arrive.shared.b64 %d1, [%r1];",
    "mbarrier.try_wait.shared.b64 %p1, [%r1], %d1;",
};

static void test_accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++) {
        char body[1024];
        snprintf(body, sizeof body, "%s\n$L0: ret;", accepted[i]);
        ptx_module_t *m = parse_kernel(body);
        const ptx_instr_t *in = &function_of(m, "k")->instrs[0];
        const char *opcode = accepted[i][0] == '@' ? strchr(accepted[i], ' ') + 1 : accepted[i];
        assert_memory_equal(in->mnemonic, opcode, strcspn(opcode, " ;"));
        ptx_module_free(m);
    }
}

static void test_guard_prefix(void **state)
{
    (void)state;
    ptx_module_t *m = parse_kernel("@%p1 add.s32 %r1, %r1, 1;\n@!%p2 add.s32 %r2, %r2, 1; ret;");
    const ptx_function_t *f = function_of(m, "k");
    char name[16];
    assert_int_equal(f->instr_count, 3);
    assert_false(f->instrs[0].guard_negated);
    ptx_reg_name(f, f->instrs[0].guard, name, sizeof name);
    assert_string_equal(name, "%p1");
    assert_true(f->instrs[1].guard_negated);
    assert_int_equal(f->instrs[2].guard, PTX_NONE);
    ptx_module_free(m);
}

/* Fields of one instruction in a row: op type type2 mode round cmp bool space vec cache sem scope
 * flags dsts srcs */
static void expect_fields(const char *text, const char *fields)
{
    char have[256];
    ptx_module_t *m = parse_kernel(text);
    const ptx_instr_t *in = &function_of(m, "k")->instrs[0];
    snprintf(have, sizeof have, "%s %s %s m%u r%u c%u b%u %s v%u k%u s%u o%u f%x %u=%u",
             ptx_op_name(in->op), ptx_type_name(in->type), ptx_type_name(in->type2), in->mode,
             in->round, in->cmp, in->boolop, ptx_space_name(in->space), in->vec, in->cache, in->sem,
             in->scope, in->flags, in->dst_count, in->src_count);
    assert_string_equal(have, fields);
    ptx_module_free(m);
}

static void test_fields(void **state)
{
    (void)state;
    expect_fields("fma.rm.ftz.sat.f32 %f1, %f2, %f3, %f4;",
                  "fma f32 none m0 r3 c0 b0 generic v1 k0 s0 o0 f3 1=3");
    expect_fields("mul.wide.s32 %d1, %r1, 4;",
                  "mul s32 none m3 r0 c0 b0 generic v1 k0 s0 o0 f0 1=2");
    expect_fields("setp.lo.or.u32 %p1|%p2, %r1, %r2, %p3;",
                  "setp u32 none m0 r0 c7 b2 generic v1 k0 s0 o0 f0 2=3");
    expect_fields("set.ne.s32.f32 %r1, %f1, %f2;",
                  "set s32 f32 m0 r0 c2 b0 generic v1 k0 s0 o0 f0 1=2");
    expect_fields("cvt.rzi.s64.f32 %d1, %f1;",
                  "cvt s64 f32 m0 r7 c0 b0 generic v1 k0 s0 o0 f0 1=1");
    expect_fields("ld.global.nc.v2.f64 {%g1, %g2}, [%d1];",
                  "ld f64 none m0 r0 c0 b0 global v2 k0 s0 o0 f100 1=1");
    expect_fields("ld.acquire.sys.global.u8 %h1, [%d1];",
                  "ld u8 none m0 r0 c0 b0 global v1 k0 s3 o4 f0 1=1");
    expect_fields("st.volatile.shared.b16 [s], %h1;",
                  "st b16 none m0 r0 c0 b0 shared v1 k0 s1 o0 f0 0=2");
    expect_fields("st.global.wt.b32 [%d1], %r1;",
                  "st b32 none m0 r0 c0 b0 global v1 k7 s0 o0 f0 0=2");
    expect_fields("atom.relaxed.gpu.global.and.b32 %r1, [%d1], %r2;",
                  "atom b32 none m4 r0 c0 b0 global v1 k0 s2 o3 f0 1=2");
    expect_fields("atom.global.cas.b64 %d1, [%d2], %d3, %d4;",
                  "atom b64 none m8 r0 c0 b0 global v1 k0 s0 o0 f0 1=3");
    expect_fields("shfl.sync.up.b32 %r1|%p1, %r2, 1, 0, -1;",
                  "shfl b32 none m1 r0 c0 b0 generic v1 k0 s0 o0 f40 2=4");
    expect_fields("vote.sync.any.pred %p1, %p2, -1;",
                  "vote pred none m2 r0 c0 b0 generic v1 k0 s0 o0 f40 1=2");
    expect_fields("shf.r.wrap.b32 %r1, %r2, %r3, 7;",
                  "shf b32 none m4 r0 c0 b0 generic v1 k0 s0 o0 f0 1=3");
    expect_fields("bar.sync 0;", "bar none none m0 r0 c0 b0 generic v1 k0 s0 o0 f0 0=1");
    expect_fields("bar.arrive 1, 64;", "bar none none m1 r0 c0 b0 generic v1 k0 s0 o0 f0 0=2");
    expect_fields("bar.red.or.pred %p1, 0, %p2;",
                  "bar pred none m2 r0 c0 b0 generic v1 k0 s0 o0 f0 1=2");
    expect_fields("membar.sys;", "membar none none m0 r0 c0 b0 generic v1 k0 s0 o4 f0 0=0");
    expect_fields("fence.acq_rel.gpu;", "membar none none m0 r0 c0 b0 generic v1 k0 s5 o3 f0 0=0");
    expect_fields("cvta.to.shared.u64 %d1, %d2;",
                  "cvta u64 none m0 r0 c0 b0 shared v1 k0 s0 o0 f200 1=1");
    expect_fields("mov.b64 {%r1, %r2}, %d1;",
                  "mov b64 none m0 r0 c0 b0 generic v1 k0 s0 o0 f0 1=1");
}

static uint64_t immediate_of(const char *text)
{
    ptx_module_t *m = parse_kernel(text);
    const ptx_function_t *f = function_of(m, "k");
    const ptx_operand_t *o = ptx_src(f, &f->instrs[0], f->instrs[0].src_count - 1u);
    assert_int_equal(o->kind, PTX_OPERAND_IMM);
    uint64_t value = o->value;
    ptx_module_free(m);
    return value;
}

static void test_immediates(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } cases[] = {
        {"mov.u32 %r1, 0x1F;", 31},
        {"mov.u32 %r1, 017;", 15},
        {"mov.u32 %r1, 0b101;", 5},
        {"mov.u32 %r1, 4294967295U;", 0xffffffff},
        {"mov.u64 %d1, 0xFFFFFFFFFFFFFFFF;", UINT64_MAX},
        {"mov.s32 %r1, -1;", UINT64_MAX},
        {"mov.s32 %r1, ~0;", UINT64_MAX},
        {"mov.s32 %r1, !5;", 0},
        {"mov.s32 %r1, 1 + 2 * 3 - 4 / 2;", 5},
        {"mov.s32 %r1, (1 + 2) * 3 % 5;", 4},
        {"mov.s32 %r1, 1 << 3 | 1;", 9},
        {"mov.s32 %r1, -8 >> 1;", (uint64_t)-4},
        {"mov.u32 %r1, 7 > 3 && 2 == 2;", 1},
        {"mov.u32 %r1, 0 ? 5 : 1 ? 6 : 7;", 6},
        {"mov.u64 %d1, (.u64)(-1) / 2;", UINT64_MAX / 2},
        {"mov.s64 %d1, -9223372036854775807 - 1;", (uint64_t)1 << 63},
        {"mov.f32 %f1, 0f3F800000;", 0x3f800000},
        {"mov.f32 %f1, 1.5;", 0x3fc00000},
        {"mov.f32 %f1, -0.0;", 0x80000000},
        {"mov.f32 %f1, 0d3FF0000000000000;", 0x3f800000},
        {"mov.f64 %g1, 0f3F800000;", 0x3ff0000000000000},
        {"mov.f64 %g1, 1e3;", 0x408f400000000000},
        {"mov.f64 %g1, 1.0 / 4.0;", 0x3fd0000000000000},
        {"mov.b32 %f1, 0f40490FDB;", 0x40490fdb},
        {"mov.b64 %g1, 2.0;", 0x4000000000000000},
        {"add.f16 %h1, %h2, 0x3C00;", 0x3c00},
        {"add.f16 %h1, %h2, 1.0;", 0x3c00},
        {"add.f16 %h1, %h2, 65520.0;", 0x7c00},
        {"add.f16 %h1, %h2, 5.9604644775390625e-8;", 1},
        {"add.bf16 %h1, %h2, -2.0;", 0xc000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t value = immediate_of(cases[i].text);
        if (value != cases[i].value)
            fail_msg("%s gives %#llx", cases[i].text, (unsigned long long)value);
    }
}

static void test_operands(void **state)
{
    (void)state;
    ptx_module_t *m = parse_kernel("ld.global.v4.f32 {%f1, _, %f3, %f4}, [%d7+-16];\n"
                                   "st.shared.u32 [s+4+8], %r3;\n"
                                   "ld.global.u32 %r1, [64];\n"
                                   "mov.u32 %r1, %ctaid.y;\n"
                                   "mov.u64 %d1, g0+24;\n"
                                   "tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%d1, {%f5}];\n"
                                   "selp.u32 %r1, %r2, %r3, !%p1;");
    const ptx_function_t *f = function_of(m, "k");
    const ptx_operand_t *o = ptx_dst(f, &f->instrs[0], 0);
    assert_int_equal(o->kind, PTX_OPERAND_VECTOR);
    assert_int_equal(o->count, 4);
    assert_int_equal(ptx_element(f, o, 1)->kind, PTX_OPERAND_SINK);
    o = ptx_src(f, &f->instrs[0], 0);
    assert_int_equal(o->kind, PTX_OPERAND_ADDRESS);
    assert_int_equal(o->base, PTX_OPERAND_REG);
    assert_int_equal(ptx_operand_offset(o), -16);
    o = ptx_src(f, &f->instrs[1], 0);
    assert_int_equal(o->base, PTX_OPERAND_VAR);
    assert_string_equal(m->vars[o->index].name, "s");
    assert_int_equal(ptx_operand_offset(o), 12);
    o = ptx_src(f, &f->instrs[2], 0);
    assert_int_equal(o->base, PTX_OPERAND_IMM);
    assert_int_equal(o->value, 64);
    o = ptx_src(f, &f->instrs[3], 0);
    assert_int_equal(o->kind, PTX_OPERAND_SREG);
    assert_int_equal(o->index, PTX_SREG_CTAID_Y);
    o = ptx_src(f, &f->instrs[4], 0);
    assert_int_equal(o->kind, PTX_OPERAND_VAR);
    assert_int_equal(o->value, 24);
    assert_int_equal(f->instrs[5].src_count, 3);
    assert_int_equal(ptx_src(f, &f->instrs[5], 1)->kind, PTX_OPERAND_NONE);
    assert_int_equal(ptx_src(f, &f->instrs[5], 2)->kind, PTX_OPERAND_VECTOR);
    assert_true(ptx_src(f, &f->instrs[6], 2)->negated);
    assert_int_equal(f->instrs[6].line, 15);
    ptx_module_free(m);
}

/* Wrong bodies, the body's first line being line 9, and the line that the log must have. */
static const struct {
    const char *body, *log;
} refused[] = {
    {"foo.bar %r1, %r2;", "ptx: line 9: unknown opcode 'foo.bar'"},
    {"add.u32.wibble %r1, %r2, %r3;",
     "ptx: line 9: unknown modifier '.wibble' of 'add.u32.wibble'"},
    {"\nadd.sat.approx.s32 %r1, %r2, %r3;",
     "ptx: line 10: unknown modifier '.approx' of 'add.sat.approx.s32'"},
    {"add %r1, %r2, %r3;", "ptx: line 9: 'add' lacks a type or a mode"},
    {"mul.s32 %r1, %r2, %r3;", "ptx: line 9: 'mul.s32' lacks a type or a mode"},
    {"setp.s32 %p1, %r2, %r3;", "ptx: line 9: 'setp.s32' lacks a type or a mode"},
    {"add.u32 %r1, %r2;", "ptx: line 9: operand 3 of 'add.u32' is missing"},
    {"add.u32 %r1, %r2, %r3, %r4;", "ptx: line 9: expected ';' before ','"},
    {"add.u32 %r1, %r2, %d3;",
     "ptx: line 9: operand 3 of 'add.u32' is a register of the wrong type"},
    {"add.u32 %r1, %p1, %r3;",
     "ptx: line 9: operand 2 of 'add.u32' is a register of the wrong type"},
    {"add.u32 5, %r1, %r3;", "ptx: line 9: operand 1 of 'add.u32' is not a register"},
    {"add.u32 %r1, %r2, 1.5;", "ptx: line 9: a floating-point constant where an integer is wanted"},
    {"add.f32 %f1, %f2, 1;", "ptx: line 9: an integer where a floating-point constant is wanted"},
    {"add.u32 %r1, %r99, 1;", "ptx: line 9: unknown name '%r99'"},
    {"add.u32 %r1, %r01, 1;", "ptx: line 9: unknown name '%r01'"},
    {"mov.u32 %r1, %tid.q;", "ptx: line 9: unknown name '%tid'"},
    {"mov.u32 %r1, nothing;", "ptx: line 9: unknown name 'nothing'"},
    {"bra nowhere;", "ptx: line 9: unknown label 'nowhere'"},
    {"ld.global.u32 %r1, [%h1];",
     "ptx: line 9: operand 2 of 'ld.global.u32' is an address in a register of neither 32 nor 64 "
     "bits"},
    {"ld.global.v2.u32 %r1, [%d1];",
     "ptx: line 9: operand 1 of 'ld.global.v2.u32' must be a vector"},
    {"ld.global.v2.u32 {%r1, %r2, %r3, %r4}, [%d1];",
     "ptx: line 9: operand 1 of 'ld.global.v2.u32' has the wrong number of elements"},
    {"ld.global.u64 %r1, [%d1];",
     "ptx: line 9: operand 1 of 'ld.global.u64' is a register of the wrong type"},
    {"mov.b64 %d1, {%r1, %d2};",
     "ptx: line 9: operand 2 of 'mov.b64' is a register of the wrong type"},
    {"mov.u32 %r1, 1 / 0;", "ptx: line 9: division by zero in a constant"},
    {"mov.u32 %r1, 0x;", "ptx: line 9: expected a constant before '0x'"},
    {"mov.u64 %d1, 0x10000000000000000;",
     "ptx: line 9: expected a constant before '0x10000000000000000'"},
    {"@%r1 ret;", "ptx: line 9: expected a predicate before '%r1'"},
    {"setp.eq.and.s32 %p1, %r1, %r2;", "ptx: line 9: operand 4 of 'setp.eq.and.s32' is missing"},
    {"setp.eq.s32 %p1, %r1, %r2, %p2;", "ptx: line 9: operand 5 of 'setp.eq.s32' is one too many"},
    {".reg .b32 %q; .reg .b32 %q;", "ptx: line 9: '%q' is declared twice"},
    {"L: ret; L: ret;", "ptx: line 9: 'L' is declared twice"},
    {"{ .reg .b32 inner; } mov.u32 inner, 0;", "ptx: line 9: unknown name 'inner'"},
    {"{ L: ret; } bra L;", "ptx: line 9: unknown label 'L'"},
    {"shfl.sync.up.b32 %r1, %r2, 1, 0;",
     "ptx: line 9: operand 5 of 'shfl.sync.up.b32' is missing: the member mask"},
    {"call nothing;", "ptx: line 9: unknown name 'nothing'"},
    {"mov.u32 \x01\x02;", "ptx: line 9: expected a constant before '?'"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char text[2048], log[1024];
        make_kernel(text, sizeof text, refused[i].body);
        parse_bad(text, log);
        size_t n = strcspn(log, "\n");
        if (strlen(refused[i].log) != n || strncmp(log, refused[i].log, n) != 0)
            fail_msg("'%s' gives: %s", refused[i].body, log);
        assert_memory_equal(gb_why(), log, n);
    }
}

static void test_several_errors(void **state)
{
    (void)state;
    char text[4096], log[1024];
    make_kernel(text, sizeof text, "foo.u32 %r1;\nadd.u32 %r1, %r2, %r3;\nbaz.u32 %r1;\nret;");
    assert_int_equal(parse_bad(text, log), GB_ERR_UNSUPPORTED);
    assert_string_equal(log, "ptx: line 9: unknown opcode 'foo.u32'\n"
                             "ptx: line 11: unknown opcode 'baz.u32'\n");
    char tiny[8];
    ptx_log_t sink = {.text = tiny, .size = sizeof tiny};
    ptx_module_t *m = NULL;
    assert_int_equal(ptx_parse(text, strlen(text), &sink, &m), GB_ERR_UNSUPPORTED);
    assert_string_equal(tiny, "ptx: li");
    assert_int_equal(ptx_parse(text, strlen(text), NULL, &m), GB_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),       cmocka_unit_test(test_guard_prefix),
        cmocka_unit_test(test_fields),         cmocka_unit_test(test_immediates),
        cmocka_unit_test(test_operands),       cmocka_unit_test(test_refused),
        cmocka_unit_test(test_several_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

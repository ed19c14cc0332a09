/* PTX as people write it by hand, run: vector registers, special registers as vectors, sums and
 * negated predicates as operands. */
#include "tests/ptx/pt_device.h"

#include <stdio.h>

static const char head[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                           ".visible .entry k(.param .u64 out)\n{\n"
                           ".reg .b32 %r<20>; .reg .b64 %d<4>; .reg .pred %p<8>;\n"
                           ".reg .v4 .u32 %v, %t; .reg .v2 .u32 %w<2>;\n"
                           "ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x;\n"
                           "mul.wide.u32 %d2, %r1, 16; add.s64 %d1, %d1, %d2;\n";

typedef struct {
    const char *code; /* sets %v; %r1 is the thread, %d1 where four words go */
    void (*ref)(uint32_t tid, uint32_t v[4]);
} case_t;

static void ref_components(uint32_t tid, uint32_t v[4])
{
    v[0] = tid + 1;
    v[1] = (tid + 1) * 3;
    v[2] = v[0] ^ v[1];
    v[3] = v[2] + v[0];
}

static void ref_memory(uint32_t tid, uint32_t v[4])
{
    v[0] = tid * 2;
    v[1] = tid * 2 + 7;
    v[2] = tid * 3;
    v[3] = tid * 3 + 9;
}

/* a, b = b, a; then a wide register is packed from a vector and unpacked into one. */
static void ref_swap(uint32_t tid, uint32_t v[4])
{
    v[0] = 77;
    v[1] = tid;
    v[2] = 78;
    v[3] = tid;
}

static void ref_special(uint32_t tid, uint32_t v[4])
{
    v[0] = tid;
    v[1] = 0;
    v[2] = 128 + 1;
    v[3] = 0;
}

static void ref_operands(uint32_t tid, uint32_t v[4])
{
    v[0] = tid + 40;
    v[1] = tid - 8;
    v[2] = (tid & 1) && !(tid & 2);
    v[3] = !(tid & 2);
}

/* Lanes leave the loop one by one and still need the shift that is set in it. */
static void ref_constant(uint32_t tid, uint32_t v[4])
{
    uint32_t rounds = (tid & 7) + 1;
    v[0] = rounds * (128 << 3);
    v[1] = rounds;
    v[2] = tid << 3;
    v[3] = 3;
}

static const case_t cases[] = {
    {"add.u32 %v.x, %r1, 1; mul.lo.u32 %v.g, %v.r, 3; xor.b32 %v.z, %v.x, %v.y;\n"
     "add.u32 %v.a, %v.b, %v.x;",
     ref_components},
    {"shl.b32 %t.x, %r1, 1; add.u32 %t.y, %t.x, 7; mul.lo.u32 %t.z, %r1, 3;\n"
     "add.u32 %t.w, %t.z, 9; st.global.v4.u32 [%d1], %t; ld.global.v4.u32 %v, [%d1];",
     ref_memory},
    {"mov.u32 %w1.x, %r1; mov.u32 %w1.y, 77; mov.v2.u32 {%w1.x, %w1.y}, {%w1.y, %w1.x};\n"
     "mov.b64 %d2, %w1; add.u64 %d2, %d2, 1; mov.v2.b32 {%v.x, %v.y}, %w1;\n"
     "mov.b64 {%v.z, %v.w}, %d2;",
     ref_swap},
    {"mov.v4.u32 %v, %tid; mov.v4.u32 %t, %ntid; add.u32 %v.z, %t.x, %t.y;", ref_special},
    {"mov.u32 %v.x, %r1+40; mov.b32 %v.y, %r1+-8; and.b32 %r2, %r1, 1; and.b32 %r3, %r1, 2;\n"
     "setp.ne.u32 %p1, %r2, 0; setp.ne.u32 %p2, %r3, 0; and.pred %p3, %p1, !%p2;\n"
     "selp.u32 %v.z, 1, 0, %p3; mov.pred %p4, !%p2; selp.u32 %v.w, 1, 0, %p4;",
     ref_operands},
    {"and.b32 %r2, %r1, 7; mov.u32 %r3, 0; mov.u32 %r4, 0;\n"
     "Again: mov.u32 %r5, 3; mov.u32 %r6, %ntid.x; shl.b32 %r7, %r6, %r5;\n"
     "add.u32 %r3, %r3, %r7; add.u32 %r4, %r4, 1; setp.le.u32 %p1, %r4, %r2; @%p1 bra Again;\n"
     "mov.b32 %v.x, %r3; mov.b32 %v.y, %r4; shl.b32 %v.z, %r1, %r5; mov.b32 %v.w, %r5;",
     ref_constant},
};

static void test_forms(void **state)
{
    enum { THREADS = 128 };
    uint32_t out[THREADS][4], want[4];
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        char text[4096];
        snprintf(text, sizeof text, "%s%s\nst.global.v4.u32 [%%d1], %%v; ret;\n}\n", head,
                 cases[c].code);
        CUmodule module = pt_load(text);
        CUdeviceptr d_out = pt_upload(NULL, sizeof out);
        pt_dim_t one = {1, 1, 1}, block = {THREADS, 1, 1};
        void *params[] = {&d_out};
        pt_launch(pt_function(module, "k"), one, block, 0, params);
        pt_download(out, d_out, sizeof out);
        for (uint32_t i = 0; i < THREADS; i++) {
            cases[c].ref(i, want);
            for (int k = 0; k < 4; k++) {
                if (out[i][k] != want[k])
                    fail_msg("case %zu: word %d of thread %u is %u, must be %u", c, k, i, out[i][k],
                             want[k]);
            }
        }
        pt_free(d_out);
        pt_unload(module);
    }
}

/* A register that nothing writes has any value, and what it goes into too: the rest must be right. */
static void test_undefined(void **state)
{
    static const char text[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        ".visible .entry k(.param .u64 out)\n{\n"
        ".reg .b32 %r<10>; .reg .b64 %d<9>; .reg .pred %p<4>; .reg .f32 %f<4>; .reg .b16 %h<2>;\n"
        "ld.param.u64 %d1, [out]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;\n"
        "add.u32 %r3, %r1, %r2; mul.wide.u32 %d2, %r3, 4; add.u64 %d3, %d8, %d2;\n"
        "mad.lo.u32 %r4, %r8, %r2, %r3; fma.rn.f32 %f1, %f2, %f3, %f2; setp.lt.u32 %p1, %r8, %r2;\n"
        "selp.u64 %d4, %d3, %d8, %p2; cvt.u32.u64 %r5, %d4; @%p1 add.u32 %r4, %r4, %r5;\n"
        "mov.u32 %r6, %tid.y; mad.lo.u32 %r6, %r6, 33, %r2; mad.lo.u32 %r6, %r1, 66, %r6;\n"
        "prmt.b32 %r7, %r6, %r8, 0x123; prmt.b32 %r7, %r7, %r8, 0x123;\n"
        "xor.b32 %r5, %r8, %r7; prmt.b32 %r5, %r5, %r9, 50; cvt.u16.u32 %h1, %r5;\n"
        "mad.wide.u32 %d1, %r6, 4, %d1; st.global.u32 [%d1], %r7; ret;\n}\n";
    uint32_t out[132];
    (void)state;
    CUmodule module = pt_load(text);
    CUdeviceptr d_out = pt_upload(NULL, sizeof out);
    pt_dim_t grid = {2, 1, 1}, block = {33, 2, 1};
    void *params[] = {&d_out};
    pt_launch(pt_function(module, "k"), grid, block, 0, params);
    pt_download(out, d_out, sizeof out);
    for (uint32_t i = 0; i < 132; i++)
        assert_int_equal(out[i], i);
    pt_free(d_out);
    pt_unload(module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_undefined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

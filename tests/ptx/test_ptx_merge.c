/* Bits put into a register in some of the lanes only: the others keep what they had. Old value and new
 * bits in both orders, the new ones from a register and from memory, by every instruction that does it. */
#include "tests/ptx/pt_device.h"

#include <stdio.h>

enum { THREADS = 192 };

/* %r1 or %d1 is the old value, %r2 or %d2 the new bits: in a register ([%d9]: in memory, too). */
typedef struct {
    const char
        *code;     /* changes %r1 (%d1 if `wide`), where %p1 is true; else `selp` is the code's */
    uint64_t keep; /* bits of the old value that stay */
    bool wide, selects;
    unsigned shift; /* the new bits are shifted left by so much */
} case_t;

#define LOAD32 "ld.global.u32 %r2, [%d9]; "
#define LOAD64 "ld.global.u64 %d2, [%d9]; "
static const case_t cases[] = {
    {"and.b32 %r3, %r1, -32; and.b32 %r4, %r2, 31; or.b32 %r1, %r3, %r4;", 0xffffffe0, 0, 0, 0},
    {"and.b32 %r3, %r1, -32; and.b32 %r4, %r2, 31; or.b32 %r1, %r4, %r3;", 0xffffffe0, 0, 0, 0},
    {LOAD32 "and.b32 %r3, %r1, -32; and.b32 %r4, %r2, 31; or.b32 %r1, %r3, %r4;", 0xffffffe0, 0, 0,
     0},
    {LOAD32 "and.b32 %r3, %r1, -32; and.b32 %r4, %r2, 31; or.b32 %r1, %r4, %r3;", 0xffffffe0, 0, 0,
     0},
    {"and.b32 %r3, %r1, 0xff00ff; and.b32 %r4, %r2, 0xff00ff00; add.s32 %r1, %r3, %r4;", 0xff00ff,
     0, 0, 0},
    {LOAD32 "and.b32 %r3, %r1, 0xff00ff; and.b32 %r4, %r2, 0xff00ff00; xor.b32 %r1, %r4, %r3;",
     0xff00ff, 0, 0, 0},
    {"and.b32 %r3, %r1, 0xf0f0f0f0; and.b32 %r4, %r2, 0x0f0f0f0f; or.b32 %r5, %r3, %r4;\n"
     "selp.b32 %r1, %r5, %r1, %p1;",
     0xf0f0f0f0, 0, 1, 0},
    {LOAD32 "and.b32 %r3, %r1, 0xf0f0f0f0; and.b32 %r4, %r2, 0x0f0f0f0f; or.b32 %r5, %r4, %r3;\n"
            "selp.b32 %r1, %r1, %r5, %p2;",
     0xf0f0f0f0, 0, 1, 0},
    {"bfi.b32 %r1, %r2, %r1, 0, 11;", 0xfffff800, 0, 0, 0},
    {LOAD32 "bfi.b32 %r1, %r2, %r1, 0, 11;", 0xfffff800, 0, 0, 0},
    {"bfi.b32 %r1, %r2, %r1, 7, 9;", 0xffff007f, 0, 0, 7},
    {LOAD32 "bfi.b32 %r1, %r2, %r1, 7, 9;", 0xffff007f, 0, 0, 7},
    {"cvt.u16.u32 %h1, %r1; mov.b32 {%h2, %h3}, %r2; mov.b32 %r1, {%h1, %h3};", 0xffff, 0, 0, 0},
    {LOAD32 "cvt.u16.u32 %h1, %r2; mov.b32 {%h2, %h3}, %r1; mov.b32 %r1, {%h1, %h3};", 0xffff0000,
     0, 0, 0},
    {"shr.u32 %r3, %r1, 12; shl.b32 %r3, %r3, 12; and.b32 %r4, %r2, 0xfff; or.b32 %r1, %r3, %r4;",
     0xfffff000, 0, 0, 0},
    {LOAD32 "shl.b32 %r3, %r1, 12; shr.u32 %r3, %r3, 12; and.b32 %r4, %r2, 0xfff00000;\n"
            "or.b32 %r1, %r4, %r3;",
     0xfffff, 0, 0, 0},
    {"prmt.b32 %r1, %r1, %r2, 0x3254;", 0xffff0000, 0, 0, 0},
    {LOAD32 "prmt.b32 %r1, %r1, %r2, 0x7610;", 0xffff, 0, 0, 0},
    {"lop3.b32 %r1, %r1, %r2, 0x33333333, 0xe4;", 0x33333333, 0, 0, 0},
    {LOAD32 "lop3.b32 %r1, %r1, %r2, 0x33333333, 0xe4;", 0x33333333, 0, 0, 0},
    {"mov.b32 %f1, %r1; mov.b32 %f2, %r2; copysign.f32 %f1, %f2, %f1; mov.b32 %r1, %f1;",
     0x7fffffff, 0, 0, 0},
    {LOAD32 "mov.b32 %f1, %r1; mov.b32 %f2, %r2; copysign.f32 %f1, %f1, %f2; mov.b32 %r1, %f1;",
     0x80000000, 0, 0, 0},
    {"and.b64 %d3, %d1, -32; and.b64 %d4, %d2, 31; or.b64 %d1, %d3, %d4;", ~(uint64_t)31, 1, 0, 0},
    {LOAD64 "and.b64 %d3, %d1, -32; and.b64 %d4, %d2, 31; or.b64 %d1, %d4, %d3;", ~(uint64_t)31, 1,
     0, 0},
    {"bfi.b64 %d1, %d2, %d1, 0, 40;", 0xffffff0000000000, 1, 0, 0},
    {LOAD64 "bfi.b64 %d1, %d2, %d1, 0, 40;", 0xffffff0000000000, 1, 0, 0},
    {"mov.b64 {%r3, %r4}, %d1; mov.b64 {%r5, %r6}, %d2; mov.b64 %d1, {%r3, %r6};", 0xffffffff, 1, 0,
     0},
};

static uint64_t reference(const case_t *c, uint32_t thread, uint64_t old, uint64_t bits)
{
    uint64_t all = c->wide ? UINT64_MAX : UINT32_MAX;
    bool taken = (thread * 5 & 4) != 0;
    uint64_t merged = (old & c->keep) | (bits << c->shift & ~c->keep);
    return (taken ? merged : old) & all;
}

static void make_text(const case_t *c, char *text, size_t size)
{
    snprintf(text, size,
             ".version 7.0\n.target sm_70\n.address_size 64\n"
             ".visible .entry k(.param .u64 old, .param .u64 bits)\n{\n"
             ".reg .b32 %%r<12>; .reg .b64 %%d<12>; .reg .b16 %%h<4>; .reg .f32 %%f<3>;\n"
             ".reg .pred %%p<3>;\n"
             "ld.param.u64 %%d8, [old]; ld.param.u64 %%d9, [bits]; mov.u32 %%r8, %%tid.x;\n"
             "mov.u32 %%r10, %%ctaid.x; mov.u32 %%r11, %%ntid.x;\n"
             "mad.lo.u32 %%r8, %%r10, %%r11, %%r8;\n"
             "mul.wide.u32 %%d10, %%r8, 8; add.s64 %%d8, %%d8, %%d10; add.s64 %%d9, %%d9, %%d10;\n"
             "mul.lo.u32 %%r9, %%r8, 5; and.b32 %%r9, %%r9, 4; setp.ne.u32 %%p1, %%r9, 0;\n"
             "not.pred %%p2, %%p1;\n"
             "ld.global.u64 %%d1, [%%d8]; ld.global.u64 %%d2, [%%d9]; cvt.u32.u64 %%r1, %%d1;\n"
             "cvt.u32.u64 %%r2, %%d2;\n"
             "%s%s\nDONE:\n%sst.global.u64 [%%d8], %%d1; ret;\n}\n",
             c->selects ? "" : "@%p2 bra DONE;\n", c->code,
             c->wide ? "" : "cvt.u64.u32 %d1, %r1; ");
}

typedef struct {
    uint64_t old[THREADS], bits[THREADS];
} values_t;

/* In blocks of that many threads: how wide the strips are, and how many, decides what code is made. */
static void run_case(const case_t *c, const values_t *v, unsigned block)
{
    char text[2048];
    uint64_t out[THREADS];
    make_text(c, text, sizeof text);
    CUmodule module = pt_load(text);
    CUdeviceptr d_old = pt_upload(v->old, sizeof v->old), d_bits = pt_upload(v->bits, sizeof out);
    void *params[] = {&d_old, &d_bits};
    pt_launch(pt_function(module, "k"), (pt_dim_t){THREADS / block, 1, 1}, (pt_dim_t){block, 1, 1},
              0, params);
    pt_download(out, d_old, sizeof out);
    for (uint32_t t = 0; t < THREADS; t++) {
        uint64_t want = reference(c, t, v->old[t], v->bits[t]);
        if (out[t] != want)
            fail_msg("%s: thread %u of blocks of %u has %llx, must be %llx", c->code, t, block,
                     (unsigned long long)out[t], (unsigned long long)want);
    }
    pt_free(d_old);
    pt_free(d_bits);
    pt_unload(module);
}

static void test_merges(void **state)
{
    static const unsigned blocks[] = {8, 16, 192};
    static values_t v;
    uint32_t seed = 7;
    (void)state;
    for (unsigned t = 0; t < THREADS; t++) {
        v.old[t] = (uint64_t)pt_random(&seed) << 32 | pt_random(&seed);
        v.bits[t] = (uint64_t)pt_random(&seed) << 32 | pt_random(&seed);
    }
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        for (size_t b = 0; b < sizeof blocks / sizeof blocks[0]; b++)
            run_case(&cases[n], &v, blocks[b]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_merges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Special registers, clusters (of one CTA), address windows, redux, and the hints of loads and stores. */
#include "tests/ptx/pt_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD ".version 8.8\n.target sm_100a\n.address_size 64\n"

enum { THREADS = 75 };

static const pt_dim_t one = {1, 1, 1}, block = {THREADS, 1, 1};

static bool is_scalar(void)
{
    const char *width = getenv("GABLE_CPU_WIDTH");
    return width && strcmp(width, "32") != 0;
}

static void run(const char *text, pt_dim_t grid, pt_dim_t threads, unsigned shared, const void *in,
                size_t in_bytes, void *out, size_t out_bytes)
{
    CUmodule module = pt_load(text);
    CUdeviceptr d_in = pt_upload(in, in_bytes), d_out = pt_upload(NULL, out_bytes);
    void *params[] = {&d_in, &d_out};
    pt_launch(pt_function(module, "k"), grid, threads, shared, params);
    pt_download(out, d_out, out_bytes);
    pt_free(d_in);
    pt_free(d_out);
    pt_unload(module);
}

/* ---- special registers ---- */

typedef struct {
    unsigned tid[3], ctaid[3], linear;
} thread_t;

static const pt_dim_t grid3 = {2, 3, 2},
                      block3 = {20, 3, 2}; /* 120 threads: 4 warps, one partial */

typedef struct {
    const char *name;
    uint32_t (*want)(const thread_t *t); /* NULL: anything */
    bool warp;                           /* has no scalar form */
} sreg_t;

static uint32_t zero(const thread_t *t)
{
    (void)t;
    return 0;
}

static uint32_t is_one(const thread_t *t)
{
    (void)t;
    return 1;
}

static uint32_t tid_x(const thread_t *t)
{
    return t->tid[0];
}

static uint32_t tid_y(const thread_t *t)
{
    return t->tid[1];
}

static uint32_t tid_z(const thread_t *t)
{
    return t->tid[2];
}

static uint32_t ntid_y(const thread_t *t)
{
    (void)t;
    return block3.y;
}

static uint32_t cta_x(const thread_t *t)
{
    return t->ctaid[0];
}

static uint32_t cta_y(const thread_t *t)
{
    return t->ctaid[1];
}

static uint32_t cta_z(const thread_t *t)
{
    return t->ctaid[2];
}

static uint32_t grid_x(const thread_t *t)
{
    (void)t;
    return grid3.x;
}

static uint32_t grid_y(const thread_t *t)
{
    (void)t;
    return grid3.y;
}

static uint32_t grid_z(const thread_t *t)
{
    (void)t;
    return grid3.z;
}

static uint32_t lane(const thread_t *t)
{
    return t->linear % 32;
}

static uint32_t warp(const thread_t *t)
{
    return t->linear / 32;
}

static uint32_t warps(const thread_t *t)
{
    (void)t;
    return 4;
}

static uint32_t mask_eq(const thread_t *t)
{
    return 1u << t->linear % 32;
}

static uint32_t mask_lt(const thread_t *t)
{
    return mask_eq(t) - 1;
}

static uint32_t mask_le(const thread_t *t)
{
    return mask_lt(t) | mask_eq(t);
}

static uint32_t mask_gt(const thread_t *t)
{
    return ~mask_le(t);
}

static uint32_t mask_ge(const thread_t *t)
{
    return ~mask_lt(t);
}

static uint32_t dynamic_bytes(const thread_t *t)
{
    (void)t;
    return 256;
}

static uint32_t reserved_bytes(const thread_t *t)
{
    (void)t;
    return 1024;
}

static const sreg_t sregs[] = {
    {"%tid.x", tid_x, false},
    {"%tid.y", tid_y, false},
    {"%tid.z", tid_z, false},
    {"%ntid.y", ntid_y, false},
    {"%ctaid.x", cta_x, false},
    {"%ctaid.y", cta_y, false},
    {"%ctaid.z", cta_z, false},
    {"%nctaid.x", grid_x, false},
    {"%clusterid.x", cta_x, false},
    {"%clusterid.y", cta_y, false},
    {"%clusterid.z", cta_z, false},
    {"%nclusterid.x", grid_x, false},
    {"%nclusterid.y", grid_y, false},
    {"%nclusterid.z", grid_z, false},
    {"%cluster_ctaid.x", zero, false},
    {"%cluster_ctaid.y", zero, false},
    {"%cluster_ctaid.z", zero, false},
    {"%cluster_nctaid.x", is_one, false},
    {"%cluster_nctaid.y", is_one, false},
    {"%cluster_nctaid.z", is_one, false},
    {"%cluster_ctarank", zero, false},
    {"%cluster_nctarank", is_one, false},
    {"%smid", NULL, false},
    {"%nsmid", NULL, false},
    {"%nwarpid", warps, false},
    {"%envreg0", NULL, false},
    {"%envreg31", NULL, false},
    {"%pm0", NULL, false},
    {"%pm7", NULL, false},
    {"%clock", NULL, false},
    {"%clock_hi", NULL, false},
    {"%globaltimer_lo", NULL, false},
    {"%globaltimer_hi", NULL, false},
    {"%dynamic_smem_size", dynamic_bytes, false},
    {"%total_smem_size", NULL, false},
    {"%aggr_smem_size", NULL, false},
    {"%reserved_smem_offset_begin", zero, false},
    {"%reserved_smem_offset_0", zero, false},
    {"%reserved_smem_offset_1", NULL, false},
    {"%reserved_smem_offset_end", reserved_bytes, false},
    {"%reserved_smem_offset_cap", reserved_bytes, false},
    {"%laneid", lane, true},
    {"%warpid", warp, true},
    {"%lanemask_eq", mask_eq, true},
    {"%lanemask_lt", mask_lt, true},
    {"%lanemask_le", mask_le, true},
    {"%lanemask_gt", mask_gt, true},
    {"%lanemask_ge", mask_ge, true},
};

/* Whole grid: %r1 is the thread's number in it. */
static const char place[] =
    "ld.param.u64 %d2, [out]; mov.u32 %r10, %tid.x; mov.u32 %r11, %tid.y; mov.u32 %r12, %tid.z;\n"
    "mad.lo.u32 %r13, %r12, 3, %r11; mad.lo.u32 %r13, %r13, 20, %r10;\n"
    "mov.u32 %r14, %ctaid.x; mov.u32 %r15, %ctaid.y; mov.u32 %r16, %ctaid.z;\n"
    "mad.lo.u32 %r17, %r16, 3, %r15; mad.lo.u32 %r17, %r17, 2, %r14;\n"
    "mad.lo.u32 %r1, %r17, 120, %r13; mul.wide.u32 %d3, %r1, 4; add.s64 %d2, %d2, %d3;\n";

static void check_sreg(const sreg_t *s)
{
    enum { COUNT = 12 * 120 };
    char text[2048];
    uint32_t out[COUNT], in = 0;
    snprintf(text, sizeof text,
             HEAD ".extern .shared .align 4 .b8 dyn[];\n"
                  ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
                  ".reg .b32 %%r<20>; .reg .b64 %%d<8>; mov.u32 %%r18, dyn;\n%s"
                  "mov.u32 %%r2, %s; st.global.u32 [%%d2], %%r2; ret;\n}\n",
             place, s->name);
    run(text, grid3, block3, 256, &in, sizeof in, out, sizeof out);
    for (unsigned i = 0; s->want && i < COUNT; i++) {
        unsigned cta = i / 120, t = i % 120;
        thread_t thread = {{t % 20, t / 20 % 3, t / 60}, {cta % 2, cta / 2 % 3, cta / 6}, t};
        if (out[i] != s->want(&thread))
            fail_msg("%s of thread %u in block %u is %x, must be %x", s->name, t, cta, out[i],
                     s->want(&thread));
    }
}

static void test_registers(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof sregs / sizeof sregs[0]; k++) {
        if (!sregs[k].warp || !is_scalar())
            check_sreg(&sregs[k]);
    }
}

/* Registers of 64 bits and predicates; what stands in relation to something else. */
static void test_relations(void **state)
{
    static const char text[] = HEAD
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
        ".reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<8>; .shared .align 4 .b8 s[100];\n"
        "ld.param.u64 %d1, [out]; mov.u64 %d2, %clock64; mov.u64 %d3, %globaltimer;\n"
        "mov.u64 %d4, %clock64; mov.u64 %d5, %globaltimer; setp.ge.u64 %p1, %d4, %d2;\n"
        "setp.ge.u64 %p2, %d5, %d3; mov.u32 %r1, %smid; mov.u32 %r2, %nsmid;\n"
        "setp.lt.u32 %p3, %r1, %r2; mov.u32 %r3, %total_smem_size; setp.ge.u32 %p4, %r3, 100;\n"
        "mov.pred %p5, %is_explicit_cluster; mov.u64 %d6, %pm0_64; mov.u64 %d7, %gridid;\n"
        "mov.u64 %d8, %current_graph_exec; mov.u32 %r7, s; st.shared.u32 [%r7], %r1;\n"
        "selp.u32 %r4, 1, 0, %p1; selp.u32 %r5, 2, 0, %p2; or.b32 %r4, %r4, %r5;\n"
        "selp.u32 %r5, 4, 0, %p3; or.b32 %r4, %r4, %r5; selp.u32 %r5, 8, 0, %p4;\n"
        "or.b32 %r4, %r4, %r5; selp.u32 %r5, 16, 0, %p5; or.b32 %r4, %r4, %r5;\n"
        "st.global.u32 [%d1], %r4; st.global.u64 [%d1+8], %d8; ret;\n}\n";
    (void)state;
    uint64_t out[2], in = 0;
    run(text, one, one, 0, &in, sizeof in, out, sizeof out);
    assert_int_equal((uint32_t)out[0], 15);
    assert_int_equal(out[1], 0);
}

/* ---- clusters ---- */

/* Neighbours exchange values by way of the cluster's addresses and its barrier. */
static void test_cluster(void **state)
{
    static const char text[] = HEAD
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
        ".reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<8>; .shared .align 4 .b8 s[300];\n"
        "ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; mov.u32 %r1, %tid.x;\n"
        "mul.wide.u32 %d3, %r1, 4; add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3;\n"
        "mov.u32 %r2, s; mov.u32 %r3, %cluster_ctarank; mapa.shared::cluster.u32 %r4, %r2, %r3;\n"
        "cvta.shared.u64 %d4, %d3; mov.u64 %d5, s; cvta.shared::cta.u64 %d5, %d5;\n"
        "mapa.u64 %d6, %d5, %r3; getctarank.u64 %r5, %d6; getctarank.shared::cluster.u32 %r6, "
        "%r4;\n"
        "ld.global.u32 %r7, [%d1]; shl.b32 %r8, %r1, 2; add.u32 %r9, %r4, %r8;\n"
        "st.shared::cluster.u32 [%r9], %r7;\n"
        "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n"
        "sub.u32 %r10, 74, %r1; mul.wide.u32 %d7, %r10, 4; add.s64 %d7, %d6, %d7;\n"
        "ld.u32 %r11, [%d7]; barrier.cluster.arrive; barrier.cluster.wait;\n"
        "st.shared.u32 [%r9], %r11; barrier.cluster.arrive.relaxed; barrier.cluster.wait.acquire;\n"
        "ld.shared::cluster.u32 %r12, [%r9]; add.u32 %r12, %r12, %r5; add.u32 %r12, %r12, %r6;\n"
        "st.global.u32 [%d2], %r12; ret;\n}\n";
    (void)state;
    uint32_t in[THREADS], out[THREADS], seed = 3;
    for (unsigned i = 0; i < THREADS; i++)
        in[i] = pt_random(&seed);
    run(text, one, block, 0, in, sizeof in, out, sizeof out);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(out[i], in[THREADS - 1 - i]);
}

/* ---- address windows ---- */

/* Bits: isspacep of .const .global .local .shared .shared::cluster .param for a generic address. */
/* Reserved shared memory lies apart from a kernel's own, static and dynamic, and does not count as its
 * own: a kernel may still have all that a block can get. */
static void test_reserved_shared(void **state)
{
    enum { LANES = 64, DYNAMIC = 48 * 1024 - 4 * LANES };
    static const char text[] =
        HEAD ".extern .shared .align 16 .b8 dyn[]; .shared .align 4 .b8 fixed[256];\n"
             ".visible .entry k(.param .u64 out)\n{\n"
             ".reg .b32 %r<20>; .reg .b64 %d<8>; ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x;\n"
             "mul.lo.u32 %r2, %r1, 4; mul.wide.u32 %d2, %r1, 8; add.s64 %d1, %d1, %d2;\n"
             "mov.u32 %r3, fixed; add.u32 %r3, %r3, %r2; st.shared.u32 [%r3], %r1;\n"
             "mov.u32 %r4, dyn; add.u32 %r4, %r4, %r2; st.shared.u32 [%r4], %r1;\n"
             "bar.sync 0;\n"
             "mov.u32 %r5, %reserved_smem_offset_1; add.u32 %r5, %r5, %r2;\n"
             "mov.u32 %r6, 77; st.shared.u32 [%r5], %r6;\n"
             "mov.u32 %r7, %reserved_smem_offset_begin; add.u32 %r7, %r7, %r2;\n"
             "st.shared.u32 [%r7], %r6;\nbar.sync 0;\n"
             "ld.shared.u32 %r8, [%r3]; ld.shared.u32 %r9, [%r4];\n"
             "st.global.v2.u32 [%d1], {%r8, %r9}; ret;\n}\n";
    uint32_t out[LANES][2];
    int bytes;
    (void)state;
    CUmodule module = pt_load(text);
    CUfunction f = pt_function(module, "k");
    assert_int_equal(pt_cuda()->cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f),
                     0);
    assert_int_equal(bytes, 256);
    CUdeviceptr d_out = pt_upload(NULL, sizeof out);
    void *params[] = {&d_out};
    pt_launch(f, (pt_dim_t){1, 1, 1}, (pt_dim_t){LANES, 1, 1}, DYNAMIC, params);
    pt_download(out, d_out, sizeof out);
    for (unsigned i = 0; i < LANES; i++) {
        assert_int_equal(out[i][0], i);
        assert_int_equal(out[i][1], i);
    }
    pt_free(d_out);
    pt_unload(module);
}

static void check_space(const char *address, uint32_t want)
{
    char text[2048];
    uint32_t out[THREADS], in = 0;
    snprintf(text, sizeof text,
             HEAD
             ".const .align 4 .u32 c[4] = {1, 2, 3, 4};\n.const .align 4 .u32 e;\n"
             ".global .align 4 .u32 g[4];\n"
             ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
             ".reg .b32 %%r<20>; .reg .b64 %%d<20>; .reg .pred %%p<8>;\n"
             ".shared .align 4 .b8 s[300]; .local .align 4 .b8 l[16];\n"
             "ld.param.u64 %%d1, [in]; ld.param.u64 %%d2, [out]; mov.u32 %%r1, %%tid.x;\n"
             "mul.wide.u32 %%d3, %%r1, 4; add.s64 %%d2, %%d2, %%d3; and.b64 %%d9, %%d3, 12;\n"
             "%s\n"
             "isspacep.const %%p1, %%d4; isspacep.global %%p2, %%d4; isspacep.local %%p3, %%d4;\n"
             "isspacep.shared::cta %%p4, %%d4; isspacep.shared::cluster %%p5, %%d4;\n"
             "isspacep.param::entry %%p6, %%d4; isspacep.shared %%p7, %%d4; mov.u32 %%r2, 0;\n"
             "@%%p1 or.b32 %%r2, %%r2, 1; @%%p2 or.b32 %%r2, %%r2, 2;\n"
             "@%%p3 or.b32 %%r2, %%r2, 4; @%%p4 or.b32 %%r2, %%r2, 8;\n"
             "@%%p5 or.b32 %%r2, %%r2, 16; @%%p6 or.b32 %%r2, %%r2, 32;\n"
             "@%%p7 or.b32 %%r2, %%r2, 64; st.global.u32 [%%d2], %%r2; ret;\n}\n",
             address);
    run(text, one, block, 0, &in, sizeof in, out, sizeof out);
    for (unsigned i = 0; i < THREADS; i++) {
        if (out[i] != want)
            fail_msg("%s: thread %u gets %x, must be %x", address, i, out[i], want);
    }
}

static void test_spaces(void **state)
{
    (void)state;
    check_space("mov.u64 %d4, c; cvta.const.u64 %d4, %d4; add.s64 %d4, %d4, %d9;", 1);
    check_space("mov.u64 %d4, e; cvta.const.u64 %d4, %d4;", 1);
    check_space("mov.b64 %d4, %d1;", 2);
    check_space("mov.u64 %d4, g; cvta.global.u64 %d4, %d4; add.s64 %d4, %d4, %d9;", 2);
    check_space("mov.u64 %d4, l; cvta.local.u64 %d4, %d4; add.s64 %d4, %d4, %d9;", 4);
    check_space("mov.u64 %d4, s; cvta.shared.u64 %d4, %d4; add.s64 %d4, %d4, %d3;", 8 + 16 + 64);
    check_space("mov.u64 %d4, s; cvta.shared::cluster.u64 %d4, %d4;", 8 + 16 + 64);
    check_space("mov.b64 %d4, in; cvta.param.u64 %d4, %d4;", 32);
    /* and back */
    check_space("mov.u64 %d4, s; cvta.shared.u64 %d4, %d4; cvta.to.shared.u64 %d5, %d4;\n"
                "st.shared.u32 [%d5], %r1; cvta.shared.u64 %d4, %d5;",
                8 + 16 + 64);
    check_space("mov.u64 %d4, c; cvta.const.u64 %d5, %d4; cvta.to.const.u64 %d5, %d5;\n"
                "ld.const.u32 %r3, [%d5+4]; sub.u32 %r3, %r3, 2; cvt.u64.u32 %d6, %r3;\n"
                "add.s64 %d4, %d5, %d6; cvta.const.u64 %d4, %d4;",
                1);
    check_space("mov.b64 %d4, in; cvta.param.u64 %d5, %d4; cvta.to.param.u64 %d4, %d5;\n"
                "ld.param.u64 %d6, [in]; ld.u64 %d7, [%d5]; sub.s64 %d7, %d7, %d6;\n"
                "add.s64 %d4, %d4, %d7; cvta.param.u64 %d4, %d4;",
                32);
}

/* ---- hints ---- */

/* Copies 32 bytes per thread from in (%d1) to out (%d2) with what is given; %d3 is a policy. */
static void check_hints(const char *code)
{
    char text[4096];
    uint8_t in[THREADS][32], out[THREADS][32];
    for (unsigned i = 0; i < sizeof in; i++)
        in[i / 32][i % 32] = (uint8_t)(i * 13 + 7);
    snprintf(text, sizeof text,
             HEAD
             ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
             ".reg .b32 %%r<20>; .reg .b64 %%d<20>; .reg .f32 %%f<10>; .reg .b128 %%q<4>;\n"
             ".reg .pred %%p<4>;\n"
             "ld.param::entry.u64 %%d1, [in]; ld.param.u64 %%d2, [out]; mov.u32 %%r1, %%tid.x;\n"
             "mul.wide.u32 %%d5, %%r1, 32; add.s64 %%d1, %%d1, %%d5; add.s64 %%d2, %%d2, %%d5;\n"
             "createpolicy.fractional.L2::evict_last.b64 %%d3, 0.5;\n%s\nret;\n}\n",
             code);
    run(text, one, block, 0, in, sizeof in, out, sizeof out);
    for (unsigned i = 0; i < THREADS; i++) {
        if (memcmp(in[i], out[i], 32) != 0)
            fail_msg("%s: thread %u", code, i);
    }
}

static void test_hints(void **state)
{
    static const char *const pairs[][2] = {
        {"ld.global.ca", "st.global.wb"},
        {"ld.global.cg", "st.global.cg"},
        {"ld.global.cs", "st.global.cs"},
        {"ld.global.lu", "st.global.wt"},
        {"ld.global.cv", "st.cs"},
        {"ld.global.nc", "st.weak.global"},
        {"ld.global.nc.L1::no_allocate.L2::128B", "st.global.L1::no_allocate"},
        {"ld.global.L1::evict_last.L2::256B", "st.global.L1::evict_last"},
        {"ld.global.L1::evict_first.L2::64B", "st.global.L1::evict_first"},
        {"ld.global.L1::evict_unchanged", "st.global.L1::evict_unchanged"},
        {"ld.global.L1::evict_normal", "st.global.L1::evict_normal"},
        {"ld.volatile.global", "st.volatile.global"},
        {"ld.relaxed.cta.global", "st.relaxed.cta.global"},
        {"ld.acquire.gpu.global", "st.release.gpu.global"},
        {"ld.relaxed.sys", "st.relaxed.sys"},
        {"ld.acquire.cluster", "st.release.cluster"},
        {"ld.mmio.relaxed.sys.global", "st.mmio.relaxed.sys.global"},
        {"ldu.global", "st.global"},
        {"ld.weak.global.ca", "st"},
    };
    (void)state;
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        char code[2048] = "";
        for (unsigned n = 0; n < 8; n++)
            sprintf(code + strlen(code), "%s.u32 %%r10, [%%d1+%u]; %s.u32 [%%d2+%u], %%r10;\n",
                    pairs[k][0], n * 4, pairs[k][1], n * 4);
        check_hints(code);
    }
    check_hints("ld.global.L2::cache_hint.v4.u32 {%r10, %r11, %r12, %r13}, [%d1], %d3;\n"
                "st.global.L2::cache_hint.v4.u32 [%d2], {%r10, %r11, %r12, %r13}, %d3;\n"
                "ld.global.nc.L1::evict_last.L2::cache_hint.v2.f32 {%f1, %f2}, [%d1+16], %d3;\n"
                "st.global.L1::no_allocate.L2::cache_hint.v2.f32 [%d2+16], {%f1, %f2}, %d3;\n"
                "ld.global.L2::cache_hint.b64 %d6, [%d1+24], %d3;\n"
                "st.global.L2::cache_hint.b64 [%d2+24], %d6, %d3;");
    /* 32 bytes at once, and 16 */
    check_hints("ld.global.v8.b32 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [%d1];\n"
                "st.global.v8.b32 [%d2], {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17};");
    check_hints(
        "ld.global.L2::evict_last.v8.f32 {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, [%d1];\n"
        "st.global.L2::evict_first.v8.f32 [%d2], {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8};");
    check_hints("ld.global.nc.v4.b64 {%d10, %d11, %d12, %d13}, [%d1];\n"
                "st.global.v4.b64 [%d2], {%d10, %d11, %d12, %d13};");
    check_hints("ld.global.v4.u64 {%d10, %d11, _, %d13}, [%d1]; ld.global.u64 %d12, [%d1+16];\n"
                "st.global.v4.u64 [%d2], {%d10, %d11, %d12, %d13};");
    check_hints("ld.global.b128 %q1, [%d1]; ld.relaxed.gpu.b128 %q2, [%d1+16];\n"
                "st.global.b128 [%d2], %q1; st.release.sys.b128 [%d2+16], %q2;");
    /* no more than hints */
    check_hints(
        "createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %d4, [%d1], 32, 64;\n"
        "createpolicy.fractional.L2::evict_first.b64 %d6;\n"
        "createpolicy.cvt.L2.b64 %d7, 0;\n"
        "prefetch.global.L1 [%d1]; prefetch.global.L2 [%d1]; prefetchu.L1 [%d1];\n"
        "prefetch.global.L2::evict_last [%d1]; prefetch.L2 [0];\n"
        "applypriority.global.L2::evict_normal [%d1], 128; discard.global.L2 [%d2], 128;\n"
        "nanosleep.u32 20; pmevent 3; pmevent.mask 0x3; griddepcontrol.wait;\n"
        "griddepcontrol.launch_dependents; setmaxnreg.inc.sync.aligned.u32 64;\n"
        "fence.proxy.async; fence.proxy.alias; fence.acq_rel.cluster; fence.sc.sys;\n"
        "membar.gl; bar.warp.sync 0xffffffff;\n"
        "ld.global.v8.b32 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [%d1];\n"
        "st.global.v8.b32 [%d2], {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17};");
}

/* ---- redux ---- */

static uint32_t fold(const char *words, const uint32_t *in, uint32_t members)
{
    bool is_float = strstr(words, ".f32") != NULL, any = false, nan = false;
    uint32_t r = 0;
    double best = 0;
    for (unsigned l = 0; l < 32; l++) {
        if ((members >> l & 1) == 0)
            continue;
        uint32_t v = in[l];
        if (is_float) {
            float f;
            if (strstr(words, ".abs"))
                v &= 0x7fffffff;
            memcpy(&f, &v, 4);
            if (isnan(f)) {
                nan = true;
                continue;
            }
            bool max = strstr(words, "max") != NULL;
            double d = (double)f;
            bool less = d < best || (d == best && signbit(d) && !signbit(best));
            bool more = d > best || (d == best && !signbit(d) && signbit(best));
            if (!any || (max ? more : less)) {
                best = d;
                r = v;
            }
        } else if (!any) {
            r = v;
        } else if (strncmp(words, "add", 3) == 0) {
            r += v;
        } else if (strncmp(words, "and", 3) == 0) {
            r &= v;
        } else if (strncmp(words, "xor", 3) == 0) {
            r ^= v;
        } else if (strncmp(words, "or", 2) == 0) {
            r |= v;
        } else {
            bool less = strstr(words, ".s32") ? (int32_t)v < (int32_t)r : v < r;
            if (less == (strncmp(words, "min", 3) == 0))
                r = v;
        }
        any = true;
    }
    return is_float && (!any || (nan && strstr(words, ".NaN"))) ? 0x7fffffff : r;
}

/* Lanes whose bit is set take part, in two warps; the others have gone another way. */
static void check_redux(const char *words, uint32_t members, uint32_t seed)
{
    static const uint32_t special[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000,
                                       0xffc00001, 0x3f800000, 0xbf800000, 1,          0x80000001};
    char text[2048];
    uint32_t in[64], out[64];
    bool is_float = strstr(words, ".f32") != NULL;
    for (unsigned i = 0; i < 64; i++) {
        in[i] = pt_random(&seed);
        if (i % 4 == 0)
            in[i] = special[in[i] % 10];
        if (is_float && i >= 32 && seed % 2 == 0) /* a warp of NaN only */
            in[i] |= 0x7fc00000;
    }
    snprintf(text, sizeof text,
             HEAD
             ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
             ".reg .b32 %%r<20>; .reg .b64 %%d<20>; .reg .f32 %%f<4>; .reg .pred %%p<4>;\n"
             "ld.param.u64 %%d1, [in]; ld.param.u64 %%d2, [out]; mov.u32 %%r1, %%tid.x;\n"
             "mul.wide.u32 %%d5, %%r1, 4; add.s64 %%d1, %%d1, %%d5; add.s64 %%d2, %%d2, %%d5;\n"
             "ld.global.u32 %%r2, [%%d1]; mov.b32 %%f1, %%r2; mov.u32 %%r4, %%laneid;\n"
             "shr.u32 %%r5, 0x%x, %%r4; and.b32 %%r5, %%r5, 1; setp.eq.u32 %%p1, %%r5, 0;\n"
             "mov.b32 %%r3, 77; @%%p1 bra Over;\nredux.sync.%s %%%s, %%%s, 0x%x;\n%s\nOver:\n"
             "st.global.u32 [%%d2], %%r3; ret;\n}\n",
             members, words, is_float ? "f2" : "r3", is_float ? "f1" : "r2", members,
             is_float ? "mov.b32 %r3, %f2;" : "");
    run(text, one, (pt_dim_t){64, 1, 1}, 0, in, sizeof in, out, sizeof out);
    for (unsigned i = 0; i < 64; i++) {
        uint32_t want = members >> (i % 32) & 1 ? fold(words, in + i / 32 * 32, members) : 77;
        if (out[i] != want)
            fail_msg("redux.sync.%s of %x: thread %u gets %x, must be %x", words, members, i,
                     out[i], want);
    }
}

static void test_redux(void **state)
{
    static const char *const words[] = {
        "add.s32",         "add.u32",        "min.s32",     "min.u32",     "max.s32",
        "max.u32",         "and.b32",        "or.b32",      "xor.b32",     "min.f32",
        "max.f32",         "min.abs.f32",    "max.abs.f32", "min.NaN.f32", "max.NaN.f32",
        "min.abs.NaN.f32", "max.abs.NaN.f32"};
    static const uint32_t members[] = {0xffffffff, 0x0000ffff, 0x80000001, 0x55555555, 0x00000400};
    (void)state;
    if (is_scalar())
        skip();
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        for (unsigned m = 0; m < 5; m++)
            check_redux(words[k], members[m], (uint32_t)k * 5 + m);
    }
}

/* ---- what is refused ---- */

static void test_refused(void **state)
{
    static const char text[] =
        HEAD ".visible .entry k(.param .u64 out)\n.reqnctapercluster 2, 1, 1\n{\nret;\n}\n";
    char log[2048];
    (void)state;
    assert_null(pt_try_load(text, log, sizeof log));
    assert_non_null(strstr(log, "clusters of several thread blocks"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reserved_shared), cmocka_unit_test(test_registers),
        cmocka_unit_test(test_relations),       cmocka_unit_test(test_cluster),
        cmocka_unit_test(test_spaces),          cmocka_unit_test(test_hints),
        cmocka_unit_test(test_redux),           cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

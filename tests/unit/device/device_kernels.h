/* device_kernels.h - small kernels for the tests that launch. */
#ifndef DEVICE_KERNELS_H
#define DEVICE_KERNELS_H

#include "device_test.h"

static const char device_kernels[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .global .align 4 .u32 total = 5;\n"
    /* Does nothing. */
    ".visible .entry nothing()\n{\n    ret;\n}\n"
    /* out[i] = i + bias for i < n */
    ".visible .entry count_up(.param .u64 out, .param .u32 bias, .param .u32 n)\n"
    "{\n"
    "    .reg .pred %p<2>;\n    .reg .u32 %r<8>;\n    .reg .u64 %rd<5>;\n"
    "    ld.param.u64 %rd1, [out];\n    ld.param.u32 %r1, [bias];\n    ld.param.u32 %r2, [n];\n"
    "    mov.u32 %r3, %ctaid.x;\n    mov.u32 %r4, %ntid.x;\n    mov.u32 %r5, %tid.x;\n"
    "    mad.lo.u32 %r6, %r3, %r4, %r5;\n"
    "    setp.ge.u32 %p1, %r6, %r2;\n    @%p1 bra DONE;\n"
    "    cvta.to.global.u64 %rd2, %rd1;\n"
    "    mul.wide.u32 %rd3, %r6, 4;\n    add.u64 %rd4, %rd2, %rd3;\n"
    "    add.u32 %r7, %r6, %r1;\n    st.global.u32 [%rd4], %r7;\n"
    "DONE:\n    ret;\n}\n"
    /* Reverses blocks of ntid.x words through dynamic shared memory. */
    ".extern .shared .align 4 .b8 space[];\n"
    ".visible .entry reverse(.param .u64 data)\n"
    "{\n"
    "    .reg .u32 %r<12>;\n    .reg .u64 %rd<5>;\n"
    "    ld.param.u64 %rd1, [data];\n"
    "    mov.u32 %r1, %ctaid.x;\n    mov.u32 %r2, %ntid.x;\n    mov.u32 %r3, %tid.x;\n"
    "    mad.lo.u32 %r4, %r1, %r2, %r3;\n"
    "    mul.wide.u32 %rd2, %r4, 4;\n    add.u64 %rd3, %rd1, %rd2;\n"
    "    ld.global.u32 %r5, [%rd3];\n"
    "    mov.u32 %r6, space;\n    shl.b32 %r7, %r3, 2;\n    add.u32 %r8, %r6, %r7;\n"
    "    st.shared.u32 [%r8], %r5;\n    bar.sync 0;\n"
    "    sub.u32 %r9, %r2, %r3;\n    add.u32 %r9, %r9, -1;\n    shl.b32 %r9, %r9, 2;\n"
    "    add.u32 %r10, %r6, %r9;\n    ld.shared.u32 %r11, [%r10];\n"
    "    st.global.u32 [%rd3], %r11;\n    ret;\n}\n"
    /* total += 1 from every thread */
    ".visible .entry add_up()\n"
    "{\n    .reg .u64 %rd<2>;\n"
    "    mov.u64 %rd1, total;\n    red.global.add.u32 [%rd1], 1;\n    ret;\n}\n"
    /* Adds 1 to *at from every thread. */
    ".visible .entry add_at(.param .u64 at)\n"
    "{\n    .reg .u64 %rd<2>;\n"
    "    ld.param.u64 %rd1, [at];\n    red.global.add.u32 [%rd1], 1;\n    ret;\n}\n"
    /* Writes the word at any address. */
    ".visible .entry poke(.param .u64 at)\n"
    "{\n    .reg .u64 %rd<2>;\n    .reg .u32 %r<2>;\n"
    "    ld.param.u64 %rd1, [at];\n    mov.u32 %r1, 7;\n    st.global.u32 [%rd1], %r1;\n"
    "    ret;\n}\n"
    ".visible .entry give_up()\n{\n    trap;\n    ret;\n}\n"
    ".visible .entry for_ever()\n{\nAGAIN:\n    bra AGAIN;\n}\n"
    /* Waits until *at is not 0. */
    ".visible .entry until(.param .u64 at)\n"
    "{\n    .reg .u64 %rd<2>;\n    .reg .u32 %r<2>;\n    .reg .pred %p<2>;\n"
    "    ld.param.u64 %rd1, [at];\n"
    "AGAIN:\n    ld.volatile.global.u32 %r1, [%rd1];\n"
    "    setp.eq.u32 %p1, %r1, 0;\n    @%p1 bra AGAIN;\n    ret;\n}\n"
    /* A block waits until the word of the next one is not 0, and then sets its own; the last begins. */
    ".visible .entry after_next(.param .u64 words)\n"
    "{\n    .reg .u64 %rd<4>;\n    .reg .u32 %r<6>;\n    .reg .pred %p<3>;\n"
    "    ld.param.u64 %rd1, [words];\n    mov.u32 %r1, %ctaid.x;\n    mov.u32 %r2, %nctaid.x;\n"
    "    mul.wide.u32 %rd2, %r1, 4;\n    add.u64 %rd3, %rd1, %rd2;\n"
    "    add.u32 %r3, %r1, 1;\n    setp.eq.u32 %p1, %r3, %r2;\n    @%p1 bra SET;\n"
    "AGAIN:\n    ld.acquire.gpu.u32 %r4, [%rd3+4];\n"
    "    setp.eq.u32 %p2, %r4, 0;\n    @%p2 bra AGAIN;\n"
    "SET:\n    bar.sync 0;\n    sub.u32 %r5, %r2, %r1;\n    st.release.gpu.u32 [%rd3], %r5;\n"
    "    ret;\n}\n"
    ".visible .entry bounded() .maxntid 64, 1, 1\n{\n    ret;\n}\n"
    /* Parameters of several sizes: *out = a + b + c + d[1] */
    ".visible .entry gather(.param .u64 out, .param .u8 a, .param .u16 b, .param .u32 c,\n"
    "    .param .align 8 .b8 d[16])\n"
    "{\n    .reg .u64 %rd<8>;\n    .reg .u16 %h<4>;\n    .reg .u32 %r<4>;\n"
    "    ld.param.u64 %rd1, [out];\n    ld.param.u8 %h1, [a];\n    ld.param.u16 %h2, [b];\n"
    "    ld.param.u32 %r1, [c];\n    ld.param.u64 %rd2, [d+8];\n"
    "    cvt.u64.u16 %rd3, %h1;\n    cvt.u64.u16 %rd4, %h2;\n    cvt.u64.u32 %rd5, %r1;\n"
    "    add.u64 %rd6, %rd3, %rd4;\n    add.u64 %rd6, %rd6, %rd5;\n"
    "    add.u64 %rd6, %rd6, %rd2;\n    st.global.u64 [%rd1], %rd6;\n    ret;\n}\n";

/* The kernel of that name in the current context. */
static inline CUfunction kernel(const char *name)
{
    CUmodule module;
    CUfunction function;
    OK(cu->cuModuleLoadData(&module, device_kernels));
    OK(cu->cuModuleGetFunction(&function, module, name));
    return function;
}

/* One thread, default stream. */
static inline CUresult run_one(CUfunction function, void **params)
{
    return cu->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
}

#endif

/* saxpy_ptx.h - kernels of the remoting tests, as PTX text. */
#ifndef SAXPY_PTX_H
#define SAXPY_PTX_H

/* saxpy(float *y, const float *x, float a, unsigned n): y += a * x
 * wild(int *unused): writes to address 16
 * spin(unsigned *flag): loops until *flag is not 0 */
static const char saxpy_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 4 .u32 counter = 7;\n"
    ".visible .entry saxpy(.param .u64 py, .param .u64 px, .param .f32 pa, .param .u32 pn)\n"
    "{\n"
    "  .reg .pred %p<2>;\n  .reg .f32 %f<5>;\n  .reg .b32 %r<6>;\n  .reg .b64 %rd<8>;\n"
    "  ld.param.u64 %rd1, [py];\n  ld.param.u64 %rd2, [px];\n"
    "  ld.param.f32 %f1, [pa];\n  ld.param.u32 %r1, [pn];\n"
    "  mov.u32 %r2, %ctaid.x;\n  mov.u32 %r3, %ntid.x;\n  mov.u32 %r4, %tid.x;\n"
    "  mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "  setp.ge.u32 %p1, %r5, %r1;\n  @%p1 bra done;\n"
    "  cvta.to.global.u64 %rd3, %rd1;\n  cvta.to.global.u64 %rd4, %rd2;\n"
    "  mul.wide.u32 %rd5, %r5, 4;\n  add.s64 %rd6, %rd4, %rd5;\n  add.s64 %rd7, %rd3, %rd5;\n"
    "  ld.global.f32 %f2, [%rd6];\n  ld.global.f32 %f3, [%rd7];\n"
    "  fma.rn.f32 %f4, %f1, %f2, %f3;\n  st.global.f32 [%rd7], %f4;\n"
    "done:\n  ret;\n}\n"
    ".visible .entry wild(.param .u64 p)\n"
    "{\n  .reg .b32 %r<2>;\n  .reg .b64 %rd<2>;\n"
    "  mov.u32 %r1, 1;\n  mov.u64 %rd1, 16;\n  st.global.u32 [%rd1], %r1;\n  ret;\n}\n"
    ".visible .entry spin(.param .u64 p)\n"
    "{\n  .reg .pred %p<2>;\n  .reg .b32 %r<2>;\n  .reg .b64 %rd<3>;\n"
    "  ld.param.u64 %rd1, [p];\n  cvta.to.global.u64 %rd2, %rd1;\n"
    "again:\n  ld.volatile.global.u32 %r1, [%rd2];\n  setp.eq.u32 %p1, %r1, 0;\n"
    "  @%p1 bra again;\n  ret;\n}\n";

#endif

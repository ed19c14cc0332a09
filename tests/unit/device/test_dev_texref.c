/* Texture and surface references: variables of a module that the host binds. */
#include "device_test.h"

enum { INTEGER = 1, NORMALISED = 2, OVERRIDE = 1, SURFACE = 2, N = 64 };

/* Through the reference by name, through its address in a register, and with a sampler. */
static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .texref image;\n"
    ".visible .global .texref started = { addr_mode_0 = wrap, filter_mode = linear,"
    " normalized_coords = 1 };\n"
    ".visible .global .surfref plane;\n"
    ".visible .global .samplerref wrapped = { addr_mode_0 = wrap, filter_mode = nearest };\n"
    ".visible .global .samplerref plain = { addr_mode_0 = clamp_to_border,"
    " force_unnormalized_coords = 1 };\n"
    ".visible .global .u32 other;\n"
    ".visible .entry by_name(.param .u64 out, .param .f32 scale)\n{\n"
    " .reg .f32 %f<8>; .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
    " mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %f1, %r1; ld.param.f32 %f2, [scale];\n"
    " mul.f32 %f1, %f1, %f2;\n"
    " tex.1d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [image, {%f1}];\n"
    " ld.param.u64 %d1, [out]; mad.wide.u32 %d1, %r1, 4, %d1; st.global.f32 [%d1], %f4; ret;\n}\n"
    ".visible .entry by_address(.param .u64 out, .param .f32 scale)\n{\n"
    " .reg .f32 %f<8>; .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
    " mov.u32 %r1, %tid.x; mov.u64 %d2, image;\n"
    " tex.1d.v4.f32.s32 {%f4, %f5, %f6, %f7}, [%d2, {%r1}];\n"
    " ld.param.u64 %d1, [out]; mad.wide.u32 %d1, %r1, 4, %d1; st.global.f32 [%d1], %f4; ret;\n}\n"
    ".visible .entry sampled(.param .u64 out, .param .f32 scale)\n{\n"
    " .reg .f32 %f<12>; .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
    " mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %f1, %r1; ld.param.f32 %f2, [scale];\n"
    " mul.f32 %f3, %f1, %f2;\n"
    " tex.1d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [image, wrapped, {%f3}];\n"
    " tex.1d.v4.f32.f32 {%f8, %f9, %f10, %f11}, [image, plain, {%f1}];\n"
    " add.f32 %f4, %f4, %f8;\n"
    " ld.param.u64 %d1, [out]; mad.wide.u32 %d1, %r1, 4, %d1; st.global.f32 [%d1], %f4; ret;\n}\n"
    ".visible .entry write()\n{\n"
    " .reg .b32 %r<4>;\n mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; add.u32 %r3, %r1, 1000;\n"
    " sust.b.1d.b32.trap [plane, {%r2}], {%r3}; ret;\n}\n";

static CUarray make_array(const float *texels, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {N, 0, 0, CU_AD_FORMAT_FLOAT, 1, flags};
    CUarray array;
    OK(cu->cuArray3DCreate_v2(&array, &d));
    if (texels)
        OK(cu->cuMemcpyHtoA_v2(array, 0, texels, N * 4));
    return array;
}

static CUresult launch(CUmodule module, const char *name, CUdeviceptr memory, float scale,
                       float *out)
{
    CUfunction f;
    void *params[] = {&memory, &scale};
    OK(cu->cuModuleGetFunction(&f, module, name));
    OK(cu->cuLaunchKernel(f, 1, 1, 1, N, 1, 1, 0, NULL, params, NULL));
    CUresult result = cu->cuStreamSynchronize(NULL);
    if (result == CUDA_SUCCESS && out)
        OK(cu->cuMemcpyDtoH_v2(out, memory, N * 4));
    return result;
}

static void numbers(float *to, float first)
{
    for (int i = 0; i < N; i++)
        to[i] = first + (float)i;
}

static void arrays_are_read_through_references(void **state)
{
    float one[N], two[N], got[N];
    CUmodule module;
    CUtexref ref;
    CUdeviceptr memory;
    (void)state;
    numbers(one, 10);
    numbers(two, 500);
    CUarray first = make_array(one, 0), second = make_array(two, 0), told;
    OK(cu->cuModuleLoadData(&module, ptx));
    OK(cu->cuMemAlloc_v2(&memory, N * 4));
    OK(cu->cuModuleGetTexRef(&ref, module, "image"));
    OK(cu->cuTexRefSetArray(ref, first, OVERRIDE));
    OK(launch(module, "by_name", memory, 1, got));
    assert_memory_equal(got, one, sizeof(one));
    OK(launch(module, "by_address", memory, 1, got));
    assert_memory_equal(got, one, sizeof(one));
    OK(cu->cuTexRefSetArray(ref, second, OVERRIDE)); /* bound anew */
    OK(launch(module, "by_name", memory, 1, got));
    assert_memory_equal(got, two, sizeof(two));
    OK(cu->cuTexRefGetArray(&told, ref));
    assert_ptr_equal(told, second);
    /* normalised, mirrored, filtered */
    OK(cu->cuTexRefSetFlags(ref, NORMALISED));
    OK(cu->cuTexRefSetAddressMode(ref, 0, CU_TR_ADDRESS_MODE_MIRROR));
    OK(cu->cuTexRefSetFilterMode(ref, CU_TR_FILTER_MODE_LINEAR));
    OK(launch(module, "by_name", memory, 2.0f / N, got));
    for (int i = 1; i < N; i++) { /* texel edges: the mean of two */
        float x = (float)(2 * i), want = x < N   ? x - 0.5f
                                         : x > N ? (float)(2 * N) - x - 0.5f
                                                 : N - 1;
        assert_true(got[i] == 500 + want);
    }
    OK(cu->cuArrayDestroy(first));
    OK(cu->cuModuleUnload(module));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuTexRefSetFlags(ref, 0));
    OK(cu->cuArrayDestroy(second));
}

static void samplers_say_how(void **state)
{
    float texels[N], got[N];
    CUmodule module;
    CUtexref ref;
    CUdeviceptr memory;
    (void)state;
    numbers(texels, 1);
    CUarray array = make_array(texels, 0);
    OK(cu->cuModuleLoadData(&module, ptx));
    OK(cu->cuMemAlloc_v2(&memory, N * 4));
    OK(cu->cuModuleGetTexRef(&ref, module, "image"));
    OK(cu->cuTexRefSetArray(ref, array, OVERRIDE));
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuModuleGetTexRef(&ref, module, "wrapped"));
    OK(launch(module, "sampled", memory, 4.0f / N, got));
    for (int i = 0; i < N; i++)
        assert_true(got[i] == texels[i * 4 % N] + texels[i]);
    OK(cu->cuModuleUnload(module));
    OK(cu->cuArrayDestroy(array));
}

static void memory_is_read_through_references(void **state)
{
    float texels[4 * N], got[N];
    CUDA_ARRAY_DESCRIPTOR rows = {N, 2, CU_AD_FORMAT_FLOAT, 1};
    CUmodule module;
    CUtexref ref;
    CUdeviceptr source, memory, told;
    CUdeviceptr_v1 narrow;
    const CUDA_ARRAY_DESCRIPTOR_v1 narrow_rows = {N, 1, CU_AD_FORMAT_FLOAT, 1};
    CUarray none;
    size_t offset = 7;
    (void)state;
    for (int i = 0; i < 4 * N; i++)
        texels[i] = (float)i;
    OK(cu->cuModuleLoadData(&module, ptx));
    OK(cu->cuMemAlloc_v2(&memory, N * 4));
    OK(cu->cuMemAlloc_v2(&source, sizeof(texels)));
    OK(cu->cuMemcpyHtoD_v2(source, texels, sizeof(texels)));
    OK(cu->cuModuleGetTexRef(&ref, module, "image"));
    OK(cu->cuTexRefSetFormat(ref, CU_AD_FORMAT_FLOAT, 1));
    OK(cu->cuTexRefSetAddress_v2(&offset, ref, source, N * 2));
    assert_int_equal(offset, 0);
    OK(launch(module, "by_address", memory, 1, got));
    for (int i = 0; i < N; i++)
        assert_true(got[i] == (i < N / 2 ? (float)i : 0)); /* outside: 0 */
    OK(cu->cuTexRefGetAddress_v2(&told, ref));
    assert_int_equal(told, source);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexRefGetArray(&none, ref));
    /* In the form of CUDA 2: device memory lies beyond 32 bits. */
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuTexRefGetAddress(&narrow, ref));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexRefSetAddress(&narrow, ref, (unsigned)source, N * 2));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuTexRefSetAddress2D(ref, &narrow_rows, (unsigned)source, N * 4));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexRefSetAddress_v2(NULL, ref, source + 16, N));
    OK(cu->cuTexRefSetAddress_v2(&offset, ref, source + 16, N * 4));
    assert_int_equal(offset, 16); /* to be added by the kernel */
    OK(launch(module, "by_address", memory, 1, got));
    assert_true(got[4] == 4);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexRefSetAddress_v2(&offset, ref, source, 1 << 20));
    OK(cu->cuTexRefSetAddress2D_v3(ref, &rows, source, N * 4));
    OK(launch(module, "by_name", memory, 1, got));
    for (int i = 0; i < N; i++)
        assert_true(got[i] == (float)i);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexRefSetAddress2D_v3(ref, &rows, source, N * 4 + 4));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexRefSetAddress2D_v3(ref, NULL, source, N * 4));
    OK(cu->cuModuleUnload(module));
}

static void surfaces_are_written_through_references(void **state)
{
    uint32_t got[N];
    CUarray array = make_array(NULL, SURFACE), plain = make_array(NULL, 0), told;
    CUmodule module;
    CUsurfref ref;
    (void)state;
    OK(cu->cuModuleLoadData(&module, ptx));
    OK(cu->cuModuleGetSurfRef(&ref, module, "plane"));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuSurfRefGetArray(&told, ref));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuSurfRefSetArray(ref, plain, 0));
    OK(cu->cuSurfRefSetArray(ref, array, 0));
    OK(cu->cuSurfRefGetArray(&told, ref));
    assert_ptr_equal(told, array);
    OK(launch(module, "write", 0, 0, NULL));
    OK(cu->cuMemcpyAtoH_v2(got, array, 0, sizeof(got)));
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(got[i], 1000 + i);
    OK(cu->cuModuleUnload(module));
    OK(cu->cuArrayDestroy(array));
    OK(cu->cuArrayDestroy(plain));
}

static void references_tell_their_state(void **state)
{
    CUmodule module;
    CUtexref ref, made;
    CUsurfref surface;
    CUaddress_mode mode;
    CUfilter_mode filter;
    CUarray_format format;
    float a, b, border[4] = {1, 2, 3, 4}, told[4];
    int channels;
    unsigned flags;
    (void)state;
    OK(cu->cuModuleLoadData(&module, ptx));
    OK(cu->cuModuleGetTexRef(&ref, module, "started"));
    OK(cu->cuTexRefGetAddressMode(&mode, ref, 0));
    assert_int_equal(mode, CU_TR_ADDRESS_MODE_WRAP);
    OK(cu->cuTexRefGetFilterMode(&filter, ref));
    assert_int_equal(filter, CU_TR_FILTER_MODE_LINEAR);
    OK(cu->cuTexRefGetFlags(&flags, ref));
    assert_int_equal(flags, NORMALISED);
    OK(cu->cuTexRefSetFormat(ref, CU_AD_FORMAT_SIGNED_INT16, 2));
    OK(cu->cuTexRefGetFormat(&format, &channels, ref));
    assert_int_equal(format, CU_AD_FORMAT_SIGNED_INT16);
    assert_int_equal(channels, 2);
    OK(cu->cuTexRefSetMipmapFilterMode(ref, CU_TR_FILTER_MODE_LINEAR));
    OK(cu->cuTexRefGetMipmapFilterMode(&filter, ref));
    assert_int_equal(filter, CU_TR_FILTER_MODE_LINEAR);
    OK(cu->cuTexRefSetMipmapLevelBias(ref, 0.5f));
    OK(cu->cuTexRefGetMipmapLevelBias(&a, ref));
    assert_true(a == 0.5f);
    OK(cu->cuTexRefSetMipmapLevelClamp(ref, 1, 3));
    OK(cu->cuTexRefGetMipmapLevelClamp(&a, &b, ref));
    assert_true(a == 1 && b == 3);
    OK(cu->cuTexRefSetMaxAnisotropy(ref, 4));
    OK(cu->cuTexRefGetMaxAnisotropy(&channels, ref));
    assert_int_equal(channels, 4);
    OK(cu->cuTexRefSetBorderColor(ref, border));
    OK(cu->cuTexRefGetBorderColor(told, ref));
    assert_memory_equal(told, border, sizeof(border));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexRefSetAddressMode(ref, 3, CU_TR_ADDRESS_MODE_WRAP));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexRefSetFilterMode(ref, (CUfilter_mode)7));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexRefSetFormat(ref, CU_AD_FORMAT_FLOAT, 3));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexRefSetArray(ref, NULL, 0));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuTexRefSetArray(ref, NULL, OVERRIDE));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuTexRefSetFlags((CUtexref)module, 0));
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuModuleGetTexRef(&ref, module, "other"));
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuModuleGetTexRef(&ref, module, "nothing"));
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuModuleGetSurfRef(&surface, module, "image"));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuModuleGetTexRef(NULL, module, "image"));
    OK(cu->cuTexRefCreate(&made));
    OK(cu->cuTexRefSetFlags(made, INTEGER));
    OK(cu->cuTexRefDestroy(made));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuTexRefDestroy(made));
    OK(cu->cuModuleUnload(module));
}

static void unbound_references_fault(void **state)
{
    CUmodule module;
    CUdeviceptr memory;
    (void)state;
    OK(cu->cuModuleLoadData(&module, ptx));
    OK(cu->cuMemAlloc_v2(&memory, N * 4));
    FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, launch(module, "by_name", memory, 1, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(arrays_are_read_through_references),
        IN_CONTEXT(samplers_say_how),
        IN_CONTEXT(memory_is_read_through_references),
        IN_CONTEXT(surfaces_are_written_through_references),
        IN_CONTEXT(references_tell_their_state),
        IN_CONTEXT(unbound_references_fault),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}

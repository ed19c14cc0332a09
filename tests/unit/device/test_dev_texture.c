/* Texture and surface objects, and references of a module: what they accept, what they tell, how long
 * they live, and that kernels read through them. */
#include "device_test.h"

enum { INTEGER = 1, NORMALISED = 2, OVERRIDE = 1, SURFACE = 2, CUBE = 4, LAYERED = 1 };

static CUarray make_array(size_t width, size_t height, size_t depth, CUarray_format format,
                          unsigned channels, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {width, height, depth, format, channels, flags};
    CUarray array;
    OK(cu->cuArray3DCreate_v2(&array, &d));
    return array;
}

static CUDA_RESOURCE_DESC of_array(CUarray array)
{
    CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_ARRAY};
    d.res.array.hArray = array;
    return d;
}

static CUDA_RESOURCE_DESC of_memory(CUdeviceptr at, CUarray_format format, unsigned channels,
                                    size_t bytes)
{
    CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_LINEAR};
    d.res.linear.devPtr = at;
    d.res.linear.format = format;
    d.res.linear.numChannels = channels;
    d.res.linear.sizeInBytes = bytes;
    return d;
}

static CUDA_RESOURCE_DESC of_rows(CUdeviceptr at, size_t width, size_t height, size_t pitch)
{
    CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_PITCH2D};
    d.res.pitch2D.devPtr = at;
    d.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
    d.res.pitch2D.numChannels = 1;
    d.res.pitch2D.width = width;
    d.res.pitch2D.height = height;
    d.res.pitch2D.pitchInBytes = pitch;
    return d;
}

static CUresult try_object(const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *texture,
                           const CUDA_RESOURCE_VIEW_DESC *view)
{
    CUtexObject object;
    CUresult result = cu->cuTexObjectCreate(&object, resource, texture, view);
    if (result == CUDA_SUCCESS)
        OK(cu->cuTexObjectDestroy(object));
    return result;
}

static void objects_tell_what_they_are(void **state)
{
    CUarray array = make_array(16, 8, 0, CU_AD_FORMAT_FLOAT, 1, SURFACE);
    CUDA_RESOURCE_DESC resource = of_array(array), told;
    CUDA_TEXTURE_DESC how = {.addressMode = {0, 3, 1}, .filterMode = 1, .flags = NORMALISED}, said;
    CUDA_RESOURCE_VIEW_DESC view = {
        .format = CU_RES_VIEW_FORMAT_UINT_1X32, .width = 16, .height = 8};
    CUDA_TEXTURE_DESC plain = {.flags = INTEGER};
    CUDA_RESOURCE_VIEW_DESC seen;
    CUtexObject object, viewed;
    CUsurfObject surface;
    (void)state;
    OK(cu->cuTexObjectCreate(&object, &resource, &how, NULL));
    OK(cu->cuTexObjectGetResourceDesc(&told, object));
    assert_int_equal(told.resType, CU_RESOURCE_TYPE_ARRAY);
    assert_ptr_equal(told.res.array.hArray, array);
    OK(cu->cuTexObjectGetTextureDesc(&said, object));
    assert_memory_equal(&said, &how, sizeof(how));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexObjectGetResourceViewDesc(&seen, object));
    OK(cu->cuTexObjectCreate(&viewed, &resource, &plain, &view));
    OK(cu->cuTexObjectGetResourceViewDesc(&seen, viewed));
    assert_int_equal(seen.format, CU_RES_VIEW_FORMAT_UINT_1X32);
    OK(cu->cuSurfObjectCreate(&surface, &resource));
    OK(cu->cuSurfObjectGetResourceDesc(&told, surface));
    assert_ptr_equal(told.res.array.hArray, array);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexObjectGetResourceDesc(NULL, object));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexObjectGetTextureDesc(NULL, object));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuSurfObjectGetResourceDesc(&told, object));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexObjectDestroy(surface));
    OK(cu->cuTexObjectDestroy(object));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexObjectDestroy(object));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexObjectGetResourceDesc(&told, object));
    OK(cu->cuTexObjectDestroy(viewed));
    OK(cu->cuSurfObjectDestroy(surface));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuSurfObjectDestroy(surface));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexObjectDestroy(0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuSurfObjectDestroy(~0ull));
    OK(cu->cuArrayDestroy(array));
}

static void arrays_that_fit(void **state)
{
    CUarray floats = make_array(16, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0);
    CUarray bytes = make_array(16, 8, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0);
    CUDA_RESOURCE_DESC resource = of_array(floats), none = of_array((CUarray)(uintptr_t)16);
    CUDA_TEXTURE_DESC how = {.addressMode = {1, 1, 1}};
    CUsurfObject surface;
    CUtexObject object;
    (void)state;
    OK(try_object(&resource, &how, NULL));
    how.filterMode = CU_TR_FILTER_MODE_LINEAR;
    OK(try_object(&resource, &how, NULL));
    resource = of_array(bytes);
    OK(try_object(&resource, &how, NULL)); /* read as [0, 1] */
    how.flags = INTEGER;
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&resource, &how, NULL)); /* integers: no filter */
    how.filterMode = CU_TR_FILTER_MODE_POINT;
    OK(try_object(&resource, &how, NULL));
    how.filterMode = (CUfilter_mode)2;
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&resource, &how, NULL));
    how.filterMode = CU_TR_FILTER_MODE_POINT;
    how.addressMode[1] = (CUaddress_mode)4;
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&resource, &how, NULL));
    how.addressMode[1] = CU_TR_ADDRESS_MODE_BORDER;
    how.flags = 0x100;
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&resource, &how, NULL));
    how.flags = 0;
    resource.flags = 1;
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&resource, &how, NULL));
    resource.flags = 0;
    FAILS(CUDA_ERROR_INVALID_HANDLE, try_object(&none, &how, NULL));
    none.resType = (CUresourcetype)9;
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&none, &how, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexObjectCreate(NULL, &resource, &how, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexObjectCreate(&object, NULL, &how, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexObjectCreate(&object, &resource, NULL, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuSurfObjectCreate(&surface, &resource)); /* not made for it */
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuSurfObjectCreate(&surface, NULL));
    OK(cu->cuArrayDestroy(floats));
    OK(cu->cuArrayDestroy(bytes));
}

static void memory_that_fits(void **state)
{
    CUDA_TEXTURE_DESC how = {.addressMode = {1, 1, 1}};
    CUDA_RESOURCE_DESC d;
    CUdeviceptr at;
    (void)state;
    OK(cu->cuMemAlloc_v2(&at, 8192));
    d = of_memory(at, CU_AD_FORMAT_FLOAT, 1, 8192);
    OK(try_object(&d, &how, NULL));
    d = of_memory(at + 4, CU_AD_FORMAT_FLOAT, 1, 64); /* not aligned */
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&d, &how, NULL));
    d = of_memory(at, CU_AD_FORMAT_FLOAT, 1, 9000); /* not all there */
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&d, &how, NULL));
    d = of_memory(at, CU_AD_FORMAT_FLOAT, 4, 8); /* no texel */
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&d, &how, NULL));
    d = of_memory(at, CU_AD_FORMAT_FLOAT, 3, 96);
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&d, &how, NULL));
    d = of_memory(0, CU_AD_FORMAT_FLOAT, 1, 96);
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&d, &how, NULL));
    d = of_rows(at, 20, 10, 128);
    OK(try_object(&d, &how, NULL));
    d = of_rows(at, 20, 10, 100); /* pitch not aligned */
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&d, &how, NULL));
    d = of_rows(at, 33, 10, 128); /* rows longer than the pitch */
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&d, &how, NULL));
    d = of_rows(at, 20, 100, 128); /* more rows than memory */
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&d, &how, NULL));
    OK(cu->cuMemFree_v2(at));
}

static void views_that_fit(void **state)
{
    CUarray array = make_array(16, 8, 5, CU_AD_FORMAT_UNSIGNED_INT8, 4, LAYERED);
    CUDA_RESOURCE_DESC resource = of_array(array);
    CUDA_TEXTURE_DESC how = {.flags = INTEGER};
    CUDA_RESOURCE_VIEW_DESC v = {.format = CU_RES_VIEW_FORMAT_UINT_1X32,
                                 .width = 16,
                                 .height = 8,
                                 .firstLayer = 1,
                                 .lastLayer = 3};
    (void)state;
    OK(try_object(&resource, &how, &v));
    v.format = CU_RES_VIEW_FORMAT_UINT_1X16; /* another size */
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&resource, &how, &v));
    v.format = CU_RES_VIEW_FORMAT_UNSIGNED_BC1;
    FAILS(CUDA_ERROR_NOT_SUPPORTED, try_object(&resource, &how, &v));
    v.format = CU_RES_VIEW_FORMAT_NONE;
    v.lastLayer = 5;
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&resource, &how, &v));
    v.lastLayer = 0;
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&resource, &how, &v));
    v.firstLayer = 0;
    OK(try_object(&resource, &how, &v));
    v.width = 8;
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&resource, &how, &v));
    v.width = 16;
    v.lastMipmapLevel = 1;
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&resource, &how, &v));
    OK(cu->cuArrayDestroy(array));
}

static void mipmaps_need_normalised_coordinates(void **state)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {16, 16, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY};
    CUDA_TEXTURE_DESC how = {.flags = NORMALISED, .maxMipmapLevelClamp = 9};
    CUmipmappedArray mipmap;
    (void)state;
    OK(cu->cuMipmappedArrayCreate(&mipmap, &d, 3));
    resource.res.mipmap.hMipmappedArray = mipmap;
    OK(try_object(&resource, &how, NULL));
    how.flags = 0;
    FAILS(CUDA_ERROR_INVALID_VALUE, try_object(&resource, &how, NULL));
    OK(cu->cuMipmappedArrayDestroy(mipmap));
    how.flags = NORMALISED;
    FAILS(CUDA_ERROR_INVALID_HANDLE, try_object(&resource, &how, NULL));
}

static void objects_end_with_their_context(void **state)
{
    CUDA_TEXTURE_DESC how = {.addressMode = {1, 1, 1}};
    CUDA_RESOURCE_DESC told;
    CUtexObject object;
    CUcontext other;
    size_t before, after, total;
    (void)state;
    OK(cu->cuMemGetInfo_v2(&before, &total));
    OK(cu->cuCtxCreate_v2(&other, 0, 0));
    CUDA_RESOURCE_DESC resource = of_array(make_array(1000, 1000, 0, CU_AD_FORMAT_FLOAT, 1, 0));
    OK(cu->cuTexObjectCreate(&object, &resource, &how, NULL));
    OK(cu->cuCtxDestroy_v2(other));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuTexObjectGetResourceDesc(&told, object));
    OK(cu->cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before, after);
    /* Many come and go. */
    CUarray array = make_array(4, 4, 0, CU_AD_FORMAT_FLOAT, 1, 0);
    resource = of_array(array);
    for (int i = 0; i < 10000; i++)
        OK(try_object(&resource, &how, NULL));
    OK(cu->cuArrayDestroy(array));
}

static void attributes(void **state)
{
    static const struct {
        CUdevice_attribute attribute;
        int least;
    } table[] = {{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 65536},
                 {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 65536},
                 {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65535},
                 {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 2048},
                 {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS, 2048},
                 {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH, 16384},
                 {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH, 32768},
                 {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 1},
                 {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 1}};
    size_t width;
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        int value = 0;
        OK(cu->cuDeviceGetAttribute(&value, table[i].attribute, 0));
        assert_true(value >= table[i].least);
    }
    OK(cu->cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 4, 0));
    assert_true(width >= 1 << 27);
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 3, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(objects_tell_what_they_are),
        IN_CONTEXT(arrays_that_fit),
        IN_CONTEXT(memory_that_fits),
        IN_CONTEXT(views_that_fit),
        IN_CONTEXT(mipmaps_need_normalised_coordinates),
        IN_CONTEXT(objects_end_with_their_context),
        IN_CONTEXT(attributes),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}

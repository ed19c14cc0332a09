/* The `null` driver: accepts everything, does nothing. One device; addresses are the ones asked for;
 * copies to the host give zeros. It knows functions by scanning PTX text for entries, because clients
 * need their parameter layouts. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda/gb_driver.h"
#include "gpu-proxy/session/px_session.h"

enum { FUNCTIONS = 64, PARAMETERS = 64 };

typedef struct {
    char name[128];
    int count;
    size_t offset[PARAMETERS], size[PARAMETERS];
} null_function_t;

typedef struct {
    int count;
    null_function_t functions[FUNCTIONS];
} null_module_t;

static int driver_dummy;
static atomic_ulong next_address = 0x400000000000;

static CUresult fine(void)
{
    return CUDA_SUCCESS;
}

static CUresult make_handle(void **out)
{
    *out = &driver_dummy;
    return CUDA_SUCCESS;
}

static CUresult one(int *count)
{
    *count = 1;
    return CUDA_SUCCESS;
}

static CUresult version(int *out)
{
    *out = GB_CUDA_VERSION;
    return CUDA_SUCCESS;
}

static CUresult device_get(CUdevice *out, int ordinal)
{
    if (ordinal != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *out = 0;
    return CUDA_SUCCESS;
}

static CUresult device_name(char *name, int size, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)size, "Gable null device");
    return CUDA_SUCCESS;
}

static CUresult device_uuid(CUuuid *uuid, CUdevice device)
{
    (void)device;
    memcpy(uuid->bytes, "gable-null-devic", 16);
    return CUDA_SUCCESS;
}

static CUresult device_memory(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = (size_t)16 << 30;
    return CUDA_SUCCESS;
}

static CUresult device_attribute(int *out, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        *out = 1024;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        *out = 64;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        *out = 0x7fffffff;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        *out = 65535;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *out = 48 << 10;
        break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        *out = 32;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *out = 9;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        *out = 1;
        break;
    default:
        *out = 0;
    }
    return CUDA_SUCCESS;
}

static CUresult granularity(size_t *out, const CUmemAllocationProp *prop,
                            CUmemAllocationGranularity_flags flags)
{
    (void)prop;
    (void)flags;
    *out = 2 << 20;
    return CUDA_SUCCESS;
}

static CUresult reserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr hint,
                        unsigned long long flags)
{
    (void)alignment;
    (void)flags;
    *out = hint ? hint : atomic_fetch_add(&next_address, size);
    return CUDA_SUCCESS;
}

static CUresult mem_create(CUmemGenericAllocationHandle *out, size_t size,
                           const CUmemAllocationProp *prop, unsigned long long flags)
{
    (void)size;
    (void)prop;
    (void)flags;
    *out = 1;
    return CUDA_SUCCESS;
}

static CUresult mem_info(size_t *left, size_t *total)
{
    *total = (size_t)16 << 30;
    *left = *total;
    return CUDA_SUCCESS;
}

static CUresult host_alloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    *out = calloc(1, bytes);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult host_free(void *memory)
{
    free(memory);
    return CUDA_SUCCESS;
}

static CUresult to_host(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    (void)src;
    (void)stream;
    memset(dst, 0, bytes);
    return CUDA_SUCCESS;
}

static CUresult elapsed(float *out, CUevent from, CUevent to)
{
    (void)from;
    (void)to;
    *out = 0;
    return CUDA_SUCCESS;
}

static CUresult get_int(int *out)
{
    *out = 0;
    return CUDA_SUCCESS;
}

static size_t type_size(const char *text)
{
    static const struct {
        const char *name;
        size_t size;
    } types[] = {{".u64", 8}, {".s64", 8}, {".b64", 8}, {".f64", 8}, {".u32", 4},
                 {".s32", 4}, {".b32", 4}, {".f32", 4}, {".u16", 2}, {".s16", 2},
                 {".b16", 2}, {".f16", 2}, {".u8", 1},  {".s8", 1},  {".b8", 1}};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strncmp(text, types[i].name, strlen(types[i].name)) == 0)
            return types[i].size;
    return 0;
}

/* One `.param [.align N] .type name[count]`, up to a comma or the end of the list. */
static void scan_parameter(const char *at, const char *end, null_function_t *f, size_t *next)
{
    size_t size = 0, align = 0;
    for (const char *p = at; p < end; p++) {
        if (strncmp(p, ".align", 6) == 0)
            align = strtoul(p + 6, NULL, 10);
        else if (*p == '.' && type_size(p) && !size)
            size = type_size(p);
        else if (*p == '[' && size)
            size *= strtoul(p + 1, NULL, 10);
    }
    align = align ? align : size;
    if (!size || !align || f->count == PARAMETERS)
        return;
    *next = (*next + align - 1) / align * align;
    f->offset[f->count] = *next;
    f->size[f->count++] = size;
    *next += size;
}

static void scan_entry(const char *at, null_function_t *f)
{
    size_t next = 0;
    sscanf(at, ".entry %127[A-Za-z0-9_$]", f->name);
    const char *open = strpbrk(at, "({");
    if (!open || *open != '(')
        return;
    const char *close = strchr(open, ')');
    for (const char *p = strstr(open, ".param"); p && close && p < close;) {
        const char *comma = strchr(p, ',');
        const char *end = comma && comma < close ? comma : close;
        scan_parameter(p + 6, end, f, &next);
        p = end == close ? NULL : strstr(end, ".param");
    }
}

static CUresult module_load(CUmodule *out, const void *image, unsigned count, CUjit_option *names,
                            void **values)
{
    (void)count;
    (void)names;
    (void)values;
    null_module_t *module = calloc(1, sizeof(*module));
    if (!module)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (const char *p = strstr(image, ".entry"); p && module->count < FUNCTIONS;
         p = strstr(p + 6, ".entry"))
        scan_entry(p, &module->functions[module->count++]);
    *out = (CUmodule)module;
    return CUDA_SUCCESS;
}

static CUresult module_unload(CUmodule module)
{
    free(module);
    return CUDA_SUCCESS;
}

static CUresult function_count(unsigned *out, CUmodule module)
{
    *out = (unsigned)((null_module_t *)module)->count;
    return CUDA_SUCCESS;
}

static CUresult functions(CUfunction *out, unsigned count, CUmodule module)
{
    null_module_t *m = (null_module_t *)module;
    for (unsigned i = 0; i < count; i++)
        out[i] = (CUfunction)&m->functions[i];
    return CUDA_SUCCESS;
}

static CUresult function_get(CUfunction *out, CUmodule module, const char *name)
{
    null_module_t *m = (null_module_t *)module;
    for (int i = 0; i < m->count; i++)
        if (strcmp(m->functions[i].name, name) == 0) {
            *out = (CUfunction)&m->functions[i];
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

static CUresult function_name(const char **out, CUfunction function)
{
    *out = ((null_function_t *)function)->name;
    return CUDA_SUCCESS;
}

static CUresult function_parameter(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    null_function_t *f = (null_function_t *)function;
    if (index >= (size_t)f->count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = f->offset[index];
    *size = f->size[index];
    return CUDA_SUCCESS;
}

static CUresult function_attribute(int *out, CUfunction_attribute attribute, CUfunction function)
{
    (void)function;
    *out = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
    return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *out, unsigned flags)
{
    (void)flags;
    return make_handle((void **)out);
}

static CUresult stream_create(CUstream *out, unsigned flags)
{
    (void)flags;
    return make_handle((void **)out);
}

static CUresult stream_create_priority(CUstream *out, unsigned flags, int priority)
{
    (void)flags;
    (void)priority;
    return make_handle((void **)out);
}

static CUresult context_retain(CUcontext *out, CUdevice device)
{
    (void)device;
    return make_handle((void **)out);
}

static CUresult context_create(CUcontext *out, CUctxCreateParams *params, unsigned flags,
                               CUdevice device)
{
    (void)params;
    (void)flags;
    (void)device;
    return make_handle((void **)out);
}

static CUresult context_pop(CUcontext *out)
{
    return make_handle((void **)out);
}

static CUresult two_ints(int *a, int *b)
{
    *a = *b = 0;
    return CUDA_SUCCESS;
}

void px_null_driver(gb_cuda_table_t *out)
{
    void (**slot)(void) = (void (**)(void))out;
    for (int i = 0; i < GB_CUDA_TABLE_COUNT; i++)
        slot[i] = (void (*)(void))fine;
    out->cuDeviceGetCount = one;
    out->cuDriverGetVersion = version;
    out->cuDeviceGet = device_get;
    out->cuDeviceGetName = device_name;
    out->cuDeviceGetUuid_v2 = device_uuid;
    out->cuDeviceTotalMem_v2 = device_memory;
    out->cuDeviceGetAttribute = device_attribute;
    out->cuMemGetAllocationGranularity = granularity;
    out->cuMemAddressReserve = reserve;
    out->cuMemCreate = mem_create;
    out->cuMemGetInfo_v2 = mem_info;
    out->cuMemHostAlloc = host_alloc;
    out->cuMemFreeHost = host_free;
    out->cuMemcpyDtoHAsync_v2 = to_host;
    out->cuEventElapsedTime_v2 = elapsed;
    out->cuModuleLoadDataEx = module_load;
    out->cuModuleUnload = module_unload;
    out->cuModuleGetFunction = function_get;
    out->cuModuleGetFunctionCount = function_count;
    out->cuModuleEnumerateFunctions = functions;
    out->cuFuncGetName = function_name;
    out->cuFuncGetParamInfo = function_parameter;
    out->cuFuncGetAttribute = function_attribute;
    out->cuEventCreate = event_create;
    out->cuStreamCreate = stream_create;
    out->cuStreamCreateWithPriority = stream_create_priority;
    out->cuDevicePrimaryCtxRetain = context_retain;
    out->cuCtxCreate_v4 = context_create;
    out->cuCtxPopCurrent_v2 = context_pop;
    out->cuCtxGetStreamPriorityRange = two_ints;
    out->cuOccupancyAvailableDynamicSMemPerBlock =
        (CUresult(*)(size_t *, CUfunction, int, int))(void (*)(void))get_int;
}

/* A module's texture, sampler and surface references: opaque variables whose memory holds what kernels
 * look up. */
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "gpu-proxy/cpu/driver/cpu_module.h"

static bool is_opaque(const ptx_var_t *var)
{
    return var->type >= PTX_TEXREF && var->type <= PTX_SURFREF &&
           (var->space == PTX_SPACE_GLOBAL || var->space == PTX_SPACE_CONST);
}

static cpu_texture_kind_t kind_of(const ptx_var_t *var)
{
    return var->type == PTX_TEXREF       ? CPU_TEXTURE
           : var->type == PTX_SAMPLERREF ? CPU_SAMPLER
                                         : CPU_SURFACE;
}

/* PTX's order to CUDA's numbers. */
static CUaddress_mode address_mode(uint8_t mode)
{
    static const uint8_t modes[] = {
        [PTX_ADDRESS_WRAP] = CU_TR_ADDRESS_MODE_WRAP,
        [PTX_ADDRESS_MIRROR] = CU_TR_ADDRESS_MODE_MIRROR,
        [PTX_ADDRESS_CLAMP_OGL] = CU_TR_ADDRESS_MODE_CLAMP,
        [PTX_ADDRESS_CLAMP_TO_EDGE] = CU_TR_ADDRESS_MODE_CLAMP,
        [PTX_ADDRESS_CLAMP_TO_BORDER] = CU_TR_ADDRESS_MODE_BORDER,
    };
    return (CUaddress_mode)(mode < sizeof(modes) ? modes[mode] : CU_TR_ADDRESS_MODE_CLAMP);
}

static void take_initial(const ptx_var_t *var, cpu_binding_t *binding)
{
    ptx_opaque_t initial;
    if (!var->init)
        return;
    memcpy(&initial, var->init, sizeof(initial));
    for (int i = 0; i < 3; i++)
        if (initial.address[i] != PTX_OPAQUE_UNSET)
            binding->texture.addressMode[i] = address_mode(initial.address[i]);
    if (initial.filter != PTX_OPAQUE_UNSET)
        binding->texture.filterMode =
            initial.filter ? CU_TR_FILTER_MODE_LINEAR : CU_TR_FILTER_MODE_POINT;
    if (initial.normalised == 1)
        binding->texture.flags |= 2;
}

/* A sampler has no host side: what its initial value says is what it is. Coordinates are normalised
 * unless it says otherwise. */
static void make_sampler(const cpu_texref_t *ref, const cpu_binding_t *binding,
                         const ptx_var_t *var)
{
    cpu_texture_t texture = {.image = {.levels = 0}};
    ptx_opaque_t initial = {.unnormalised = 0};
    if (var->init)
        memcpy(&initial, var->init, sizeof(initial));
    for (int i = 0; i < 3; i++)
        texture.sampler.address[i] = (uint8_t)binding->texture.addressMode[i];
    texture.sampler.linear = binding->texture.filterMode == CU_TR_FILTER_MODE_LINEAR;
    texture.sampler.normalised = initial.unnormalised != 1;
    texture.sampler.max_level = CPU_TEX_LEVELS;
    cpu_texture_set(ref->number, &texture);
}

static CUresult open_one(cpu_module_t *module, uint32_t index)
{
    const ptx_var_t *var = &module->image->ptx->vars[index];
    cpu_texref_t *ref;
    if (var->size != sizeof(uint64_t)) {
        gb_log(GB_LOG_WARN, "module not loaded: '%s' is an array of references", var->name);
        return CUDA_ERROR_INVALID_PTX;
    }
    CUresult result = cpu_texref_open(module->context, kind_of(var), &ref);
    if (result)
        return result;
    module->references[index] = ref;
    memcpy((void *)module->addresses[index], &ref->number, sizeof(ref->number));
    cpu_binding_t binding = cpu_texref_binding(ref);
    take_initial(var, &binding);
    if (ref->kind == CPU_SAMPLER)
        make_sampler(ref, &binding, var);
    else
        result = cpu_texref_bind(ref, &binding);
    return result;
}

CUresult cpu_module_open_references(cpu_module_t *module)
{
    const ptx_module_t *ptx = module->image->ptx;
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < ptx->var_count && !result; i++) {
        if (!is_opaque(&ptx->vars[i]))
            continue;
        if (!module->references)
            module->references = calloc(ptx->var_count, sizeof(*module->references));
        result = module->references ? open_one(module, i) : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result;
}

void cpu_module_close_references(cpu_module_t *module)
{
    for (uint32_t i = 0; module->references && i < module->image->ptx->var_count; i++) {
        if (!module->references[i])
            continue;
        cpu_texref_close(module->references[i]);
        cpu_object_put(&module->references[i]->object);
    }
    free(module->references);
}

CUresult cpu_module_reference(cpu_module_t *module, const char *name, cpu_texture_kind_t kind,
                              uint64_t *handle)
{
    uint32_t index = ptx_module_var(module->image->ptx, name);
    if (index == PTX_NONE || !module->references || !module->references[index] ||
        module->references[index]->kind != kind)
        return CUDA_ERROR_NOT_FOUND;
    *handle = module->references[index]->object.handle;
    return CUDA_SUCCESS;
}

/* Calls of the helpers that look at every lane of an access. They are cold, so they are made small:
 * what is known at compile time stands in a constant that the helper reads. */
#include "gpu-proxy/cpu/jit/gen.h"

#define B gen->b

static val_t u32(cpu_gen_t *gen, uint64_t v)
{
    return LLVMConstInt(gen->i32, v, 0);
}

/* A cpu_strip_access_t among the function's constants. */
static val_t description(cpu_gen_t *gen, const gen_addr_t *a, uint32_t access,
                         const int64_t *offsets, unsigned count)
{
    val_t *all = cpu_arena_alloc(gen->arena, count, sizeof *all);
    for (unsigned n = 0; n < count; n++) {
        all[n] = LLVMConstInt(gen->i64, (uint64_t)offsets[n], 1);
    }
    bool one = gen_address_uniform(gen, a);
    uint64_t pitch = gen_address_spacing(gen, a) != 0 ? (uint64_t)a->stride : a->bytes * a->count;
    val_t fields[10] = {LLVMConstInt(gen->i64, (uint64_t)a->form.stride, 1),
                        LLVMConstInt(gen->i64, (uint64_t)a->form.scale, 1),
                        LLVMConstInt(gen->i32, (uint64_t)(int64_t)a->form.step, 1),
                        u32(gen, a->form.sign),
                        u32(gen, gen_address_bits(gen, a->o)),
                        u32(gen, access),
                        u32(gen, pitch),
                        u32(gen, one),
                        u32(gen, count),
                        LLVMConstArray2(gen->i64, all, count)};
    val_t value = LLVMConstStructInContext(gen->context, fields, 10, 0);
    val_t global = LLVMAddGlobal(gen->module, LLVMTypeOf(value), "access");
    LLVMSetInitializer(global, value);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    LLVMSetGlobalConstant(global, 1);
    LLVMSetUnnamedAddress(global, LLVMGlobalUnnamedAddr);
    return global;
}

/* Calls for the active lanes; strip by strip if the instruction runs once for all strips, so that a
 * fault names the right thread. `mask_at` and `strip_at` say where the arguments are. */
static void call(cpu_gen_t *gen, size_t helper, val_t *args, unsigned count, unsigned mask_at,
                 unsigned strip_at)
{
    type_t params[8];
    val_t all = gen->mask;
    bool each = gen->once && gen->masked && all != NULL;
    args[mask_at] = args[strip_at] = u32(gen, 0);
    for (unsigned n = 0; n < count; n++) {
        params[n] = LLVMTypeOf(args[n]);
    }
    type_t type = LLVMFunctionType(gen->i32, params, count, 0);
    for (unsigned g = each ? 0 : gen->g; g < (each ? gen->G : gen->g + 1); g++) {
        gen->mask = each ? LLVMBuildAnd(B, all, gen->masks[g], "") : all;
        args[mask_at] = gen_mask_i32(gen);
        args[strip_at] = gen_strip_number(gen, g);
        val_t st = gen_helper(gen, helper, &type, args, count);
        gen_return_if(gen, LLVMBuildICmp(B, LLVMIntSLT, st, gen_like(st, 0), ""), st);
    }
    gen->mask = all;
}

static void call_strip(cpu_gen_t *gen, const gen_addr_t *a, size_t helper, val_t what, val_t buffer)
{
    ptx_operand_t reg = {.kind = PTX_OPERAND_REG, .index = a->o->index};
    val_t index = a->form.scale != 0 ? gen_index(gen, &reg) : u32(gen, 0);
    val_t args[7] = {gen->launch, what, gen_address_base(gen, a->o, false), index};
    args[6] = buffer;
    call(gen, helper, args, buffer == NULL ? 6 : 7, 4, 5);
}

void gen_slow_strip(cpu_gen_t *gen, const gen_addr_t *a, size_t helper)
{
    int64_t offset = ptx_operand_offset(a->o);
    bool checks = helper == offsetof(cpu_helpers_t, check_strip);
    call_strip(gen, a, helper, description(gen, a, gen_access(a), &offset, 1),
               checks ? NULL : gen_buffer(gen, BUFFER_DATA));
}

void gen_slow_offsets(cpu_gen_t *gen, const gen_addr_t *a, bool write, const int64_t *offsets,
                      unsigned count)
{
    gen_addr_t all = *a;
    all.write = write;
    /* what the strips share is checked for all of them */
    bool once = gen->once;
    val_t before = gen->mask;
    if (before != NULL && gen->masked && !gen->a->values[a->o->index].per_strip) {
        gen->once = true;
        gen->mask = gen->masks[0];
        for (unsigned g = 1; g < gen->G; g++) {
            gen->mask = LLVMBuildOr(B, gen->mask, gen->masks[g], "");
        }
    }
    call_strip(gen, a, offsetof(cpu_helpers_t, check_strip),
               description(gen, a, gen_access(&all), offsets, count), NULL);
    gen->mask = before;
    gen->once = once;
}

void gen_slow_stretch(cpu_gen_t *gen, const gen_addr_t *a, const int64_t *offsets, unsigned count,
                      val_t copy)
{
    call_strip(gen, a, offsetof(cpu_helpers_t, gather),
               description(gen, a, gen_access(a), offsets, count), copy);
}

void gen_slow_lanes(cpu_gen_t *gen, const gen_addr_t *a, val_t addresses)
{
    LLVMSetAlignment(LLVMBuildStore(B, addresses, gen_buffer(gen, BUFFER_ADDRESSES)), 64);
    val_t args[5] = {gen->launch, gen_buffer(gen, BUFFER_ADDRESSES)};
    args[3] = u32(gen, gen_access(a));
    call(gen, offsetof(cpu_helpers_t, check), args, 5, 2, 4);
}

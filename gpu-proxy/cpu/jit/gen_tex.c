/* Textures and surfaces: arguments go to the function's buffer, a helper does the strip, results come
 * back from there. What the instruction asks for is a constant that the helper reads. */
#include "gpu-proxy/cpu/jit/gen.h"
#include "gpu-proxy/cpu/jit/tex_op.h"

#include <string.h>

#define B gen->b

_Static_assert(sizeof(cpu_tex_args_t) <= BUFFER_BYTES, "the buffer holds the arguments");

typedef struct {
    cpu_tex_what_t what;
    bool vec; /* the lanes differ */
} tex_t;

static val_t arg_place(cpu_gen_t *gen, unsigned n)
{
    return gen_buffer(gen, offsetof(cpu_tex_args_t, args) + n * 32 * sizeof(uint32_t));
}

static void put(cpu_gen_t *gen, val_t v, val_t place)
{
    LLVMSetAlignment(LLVMBuildStore(B, v, place), 64);
}

static void put_word(cpu_gen_t *gen, const tex_t *t, const ptx_operand_t *o, unsigned n)
{
    put(gen, gen_read(gen, o, PTX_B32, t->vec), arg_place(gen, n));
}

static val_t get_word(cpu_gen_t *gen, const tex_t *t, unsigned n)
{
    val_t v = LLVMBuildLoad2(B, gen_shape(gen, gen->i32, t->vec), arg_place(gen, n), "");
    LLVMSetAlignment(v, 64);
    return v;
}

static const ptx_operand_t *element(cpu_gen_t *gen, const ptx_operand_t *o, unsigned n)
{
    return o->kind == PTX_OPERAND_VECTOR ? ptx_element(gen->f, o, n) : o;
}

/* ---- objects ---- */

static bool is_varying(cpu_gen_t *gen, unsigned source)
{
    if (source >= gen->i->src_count) {
        return false;
    }
    cpu_form_t form = cpu_operand_form(gen->a, ptx_src(gen->f, gen->i, source));
    return gen->W > 1 && !cpu_form_uniform(&form);
}

/* The objects' handles; with one for all lanes in the first place. */
static void put_handles(cpu_gen_t *gen, tex_t *t, bool has_sampler)
{
    const ptx_operand_t *sampler = has_sampler ? ptx_src(gen->f, gen->i, 1) : NULL;
    t->what.sampler = sampler != NULL && sampler->kind != PTX_OPERAND_NONE;
    bool vec = is_varying(gen, 0) || (t->what.sampler && is_varying(gen, 1));
    t->what.one_handle = !vec;
    put(gen, gen_read(gen, ptx_src(gen->f, gen->i, 0), PTX_B64, vec),
        gen_buffer(gen, offsetof(cpu_tex_args_t, handles)));
    if (t->what.sampler) {
        put(gen, gen_read(gen, sampler, PTX_B64, vec),
            gen_buffer(gen, offsetof(cpu_tex_args_t, samplers)));
    }
}

static val_t constant(cpu_gen_t *gen, const cpu_tex_what_t *what)
{
    val_t text = LLVMConstStringInContext(gen->context, (const char *)what, sizeof *what, 1);
    val_t global = LLVMAddGlobal(gen->module, LLVMTypeOf(text), "texture");
    LLVMSetInitializer(global, text);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    LLVMSetGlobalConstant(global, 1);
    LLVMSetAlignment(global, 4);
    LLVMSetUnnamedAddress(global, LLVMGlobalUnnamedAddr);
    return global;
}

/* The first lane stands for all if none differs. */
static val_t lanes_taking_part(cpu_gen_t *gen, const tex_t *t)
{
    val_t mask = gen_mask_i32(gen);
    if (t->vec || gen->W == 1) {
        return mask;
    }
    val_t any = LLVMBuildICmp(B, LLVMIntNE, mask, gen_like(mask, 0), "");
    return LLVMBuildZExt(B, any, gen->i32, "");
}

static void call(cpu_gen_t *gen, const tex_t *t)
{
    type_t params[5] = {gen->ptr, gen->ptr, gen->i32, gen->i32, gen->ptr};
    type_t type = LLVMFunctionType(gen->i32, params, 5, 0);
    val_t args[5] = {gen->launch, constant(gen, &t->what), lanes_taking_part(gen, t),
                     gen_strip_number(gen, gen->g), gen_buffer(gen, 0)};
    val_t st = gen_helper(gen, offsetof(cpu_helpers_t, texture), &type, args, 5);
    gen_return_if(gen, LLVMBuildICmp(B, LLVMIntSLT, st, gen_like(st, 0), ""), st);
}

static void put_coordinates(cpu_gen_t *gen, const tex_t *t)
{
    const ptx_operand_t *at = ptx_src(gen->f, gen->i, 2);
    unsigned n = 0;
    if (t->what.op.layered) {
        put_word(gen, t, element(gen, at, n++), CPU_TEX_ARG_LAYER);
    }
    for (unsigned d = 0; d < t->what.op.coordinates; d++) {
        put_word(gen, t, element(gen, at, n++), CPU_TEX_ARG_AT + d);
    }
}

/* ---- tex, tld4 ---- */

static void put_vector(cpu_gen_t *gen, const tex_t *t, unsigned source, unsigned first)
{
    for (unsigned d = 0; d < t->what.op.coordinates; d++) {
        put_word(gen, t, element(gen, ptx_src(gen->f, gen->i, source), d), first + d);
    }
}

static void put_extras(cpu_gen_t *gen, tex_t *t)
{
    unsigned n = 3;
    if (t->what.op.how == CPU_TEX_LEVEL) {
        put_word(gen, t, ptx_src(gen->f, gen->i, n++), CPU_TEX_ARG_GRADIENT);
    } else if (t->what.op.how == CPU_TEX_GRADIENT) {
        put_vector(gen, t, n++, CPU_TEX_ARG_GRADIENT);
        put_vector(gen, t, n++, CPU_TEX_ARG_GRADIENT + 3);
    }
    t->what.offset = gen->i->src_count > n;
    if (t->what.offset) {
        put_vector(gen, t, n, CPU_TEX_ARG_OFFSET);
    }
}

static void get_results(cpu_gen_t *gen, const tex_t *t)
{
    const ptx_operand_t *dst = ptx_dst(gen->f, gen->i, 0);
    unsigned type = gen->i->type;
    val_t v[4];
    for (unsigned n = 0; n < 4; n++) {
        v[n] = get_word(gen, t, n);
        if (type == PTX_F16 || type == PTX_F16X2) {
            v[n] = gen_from_f32(gen, gen_bitcast(gen, v[n], gen->f32), PTX_F16, false);
        }
    }
    if (type == PTX_F16X2) { /* the first one in the low half */
        for (unsigned n = 0; n < 2; n++) {
            type_t shape = gen_shape(gen, gen->i32, t->vec);
            val_t low = LLVMBuildZExt(B, v[2 * n], shape, "");
            val_t high = LLVMBuildZExt(B, v[2 * n + 1], shape, "");
            high = LLVMBuildShl(B, high, gen_like(high, 16), "");
            gen_write(gen, element(gen, dst, n), LLVMBuildOr(B, low, high, ""), PTX_B32);
        }
        return;
    }
    for (unsigned n = 0; n < 4; n++) {
        gen_write(gen, element(gen, dst, n), v[n], type == PTX_F16 ? PTX_B16 : PTX_B32);
    }
}

static void sample(cpu_gen_t *gen, tex_t *t)
{
    put_handles(gen, t, true);
    put_coordinates(gen, t);
    put_extras(gen, t);
    call(gen, t);
    get_results(gen, t);
    if (gen->i->dst_count > 1) { /* every texel is there */
        gen_write(gen, ptx_dst(gen->f, gen->i, 1), gen_const(gen, gen->i1, t->vec, 1), PTX_PRED);
    }
}

/* ---- surfaces ---- */

static void put_element(cpu_gen_t *gen, const tex_t *t, const ptx_operand_t *o, unsigned n)
{
    unsigned size = ptx_type_size((ptx_type_t)gen->i->type);
    type_t word = gen_shape(gen, gen->i32, t->vec);
    if (size < 4) {
        val_t v = gen_read(gen, o, size == 1 ? PTX_B8 : PTX_B16, t->vec);
        put(gen, LLVMBuildZExt(B, v, word, ""), arg_place(gen, n));
    } else if (size == 4) {
        put_word(gen, t, o, n);
    } else {
        val_t v = gen_read(gen, o, PTX_B64, t->vec);
        put(gen, LLVMBuildTrunc(B, v, word, ""), arg_place(gen, 2 * n));
        v = LLVMBuildLShr(B, v, gen_like(v, 32), "");
        put(gen, LLVMBuildTrunc(B, v, word, ""), arg_place(gen, 2 * n + 1));
    }
}

static void get_element(cpu_gen_t *gen, const tex_t *t, const ptx_operand_t *dst, unsigned n)
{
    unsigned size = ptx_type_size((ptx_type_t)gen->i->type);
    if (size < 4) {
        unsigned type = size == 1 ? PTX_B8 : PTX_B16;
        val_t v = get_word(gen, t, n);
        gen_write(gen, dst, LLVMBuildTrunc(B, v, gen_shape(gen, gen_type(gen, type), t->vec), ""),
                  type);
    } else if (size == 4) {
        gen_write(gen, dst, get_word(gen, t, n), PTX_B32);
    } else {
        type_t wide = gen_shape(gen, gen->i64, t->vec);
        val_t low = LLVMBuildZExt(B, get_word(gen, t, 2 * n), wide, "");
        val_t high = LLVMBuildZExt(B, get_word(gen, t, 2 * n + 1), wide, "");
        high = LLVMBuildShl(B, high, gen_like(high, 32), "");
        gen_write(gen, dst, LLVMBuildOr(B, low, high, ""), PTX_B64);
    }
}

static void surface(cpu_gen_t *gen, tex_t *t)
{
    const ptx_instr_t *i = gen->i;
    put_handles(gen, t, false);
    put_coordinates(gen, t);
    if (i->op != PTX_OP_SULD) {
        for (unsigned n = 0; n < t->what.count; n++) {
            put_element(gen, t, element(gen, ptx_src(gen->f, i, 3), n), n);
        }
    }
    call(gen, t);
    for (unsigned n = 0; i->op == PTX_OP_SULD && n < t->what.count; n++) {
        get_element(gen, t, element(gen, ptx_dst(gen->f, i, 0), n), n);
    }
}

/* ---- questions ---- */

static void query(cpu_gen_t *gen, tex_t *t)
{
    put_handles(gen, t, false);
    if (t->what.op.of_level) {
        put_word(gen, t, ptx_src(gen->f, gen->i, 1), CPU_TEX_ARG_GRADIENT);
    }
    call(gen, t);
    val_t v = get_word(gen, t, 0);
    if (gen->i->op == PTX_OP_ISTYPEP) {
        gen_write(gen, ptx_dst(gen->f, gen->i, 0),
                  LLVMBuildICmp(B, LLVMIntNE, v, gen_like(v, 0), ""), PTX_PRED);
    } else {
        gen_write(gen, ptx_dst(gen->f, gen->i, 0), v, PTX_B32);
    }
}

/* Reductions and stores of all lanes to one place happen lane by lane. */
static bool lanes_differ(cpu_gen_t *gen)
{
    cpu_form_t form = cpu_instr_form(gen->a, gen->i);
    return gen->W > 1 && (!cpu_form_uniform(&form) || gen->i->op == PTX_OP_SURED);
}

void gen_texture(cpu_gen_t *gen)
{
    const ptx_instr_t *i = gen->i;
    tex_t t = {.vec = lanes_differ(gen)};
    memset(&t.what, 0, sizeof t.what);
    if (i->op == PTX_OP_ISTYPEP) {
        t.what.op.op = PTX_OP_ISTYPEP;
    } else if (!cpu_tex_op(i, &t.what.op)) {
        gen_fail(gen, "texture instruction");
        return;
    }
    t.what.wide = gen->avx512;
    t.what.type = i->type;
    t.what.count = i->op == PTX_OP_SURED ? 1 : i->vec;
    switch (i->op) {
    case PTX_OP_TEX:
    case PTX_OP_TLD4:
        sample(gen, &t);
        break;
    case PTX_OP_SULD:
    case PTX_OP_SUST:
    case PTX_OP_SURED:
        surface(gen, &t);
        break;
    default:
        query(gen, &t);
    }
}

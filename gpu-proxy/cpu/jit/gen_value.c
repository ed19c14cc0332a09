/* Registers and operands as LLVM values. */
#include "gpu-proxy/cpu/jit/gen.h"

#include <string.h>

type_t gen_int(cpu_gen_t *gen, unsigned bits)
{
    return LLVMIntTypeInContext(gen->context, bits);
}

/* f16 and bf16 values travel as their bits. */
type_t gen_type(cpu_gen_t *gen, unsigned ptx_type)
{
    switch (ptx_type) {
    case PTX_PRED:
        return gen->i1;
    case PTX_F32:
    case PTX_TF32:
        return gen->f32;
    case PTX_F64:
        return gen->f64;
    default:
        return gen_int(gen, ptx_type_size((ptx_type_t)ptx_type) * 8);
    }
}

type_t gen_vector(cpu_gen_t *gen, type_t element)
{
    return LLVMVectorType(element, gen->W);
}

type_t gen_shape(cpu_gen_t *gen, type_t element, bool vec)
{
    return vec ? gen_vector(gen, element) : element;
}

/* Not always W elements: packed types have two per lane. */
type_t gen_same(val_t v, type_t element)
{
    return gen_is_vector(v) ? LLVMVectorType(element, LLVMGetVectorSize(LLVMTypeOf(v))) : element;
}

bool gen_is_vector(val_t v)
{
    return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind;
}

type_t gen_element(val_t v)
{
    return gen_is_vector(v) ? LLVMGetElementType(LLVMTypeOf(v)) : LLVMTypeOf(v);
}

static val_t splat_constant(cpu_gen_t *gen, val_t scalar)
{
    val_t all[32];
    for (unsigned l = 0; l < gen->W; l++) {
        all[l] = scalar;
    }
    return LLVMConstVector(all, gen->W);
}

val_t gen_const(cpu_gen_t *gen, type_t element, bool vec, uint64_t bits)
{
    val_t c = LLVMConstInt(element, bits, 0);
    return vec ? splat_constant(gen, c) : c;
}

val_t gen_float(cpu_gen_t *gen, type_t element, bool vec, double value)
{
    val_t c = LLVMConstReal(element, value);
    return vec ? splat_constant(gen, c) : c;
}

static val_t repeat(val_t like, val_t scalar)
{
    if (!gen_is_vector(like)) {
        return scalar;
    }
    val_t all[4 * 32]; /* bytes of the widest strip */
    unsigned n = LLVMGetVectorSize(LLVMTypeOf(like));
    for (unsigned l = 0; l < n; l++) {
        all[l] = scalar;
    }
    return LLVMConstVector(all, n);
}

val_t gen_like(val_t v, uint64_t bits)
{
    return repeat(v, LLVMConstInt(gen_element(v), bits, 0));
}

val_t gen_flike(val_t v, double value)
{
    return repeat(v, LLVMConstReal(gen_element(v), value));
}

val_t gen_splat(cpu_gen_t *gen, val_t scalar)
{
    if (gen_is_vector(scalar)) {
        return scalar;
    }
    if (LLVMIsConstant(scalar)) {
        return splat_constant(gen, scalar);
    }
    type_t t = gen_vector(gen, LLVMTypeOf(scalar));
    val_t zero = LLVMConstInt(gen->i64, 0, 0);
    val_t one = LLVMBuildInsertElement(gen->b, LLVMGetPoison(t), scalar, zero, "");
    return LLVMBuildShuffleVector(gen->b, one, LLVMGetPoison(t),
                                  LLVMConstNull(gen_vector(gen, gen->i32)), "");
}

val_t gen_lanes(cpu_gen_t *gen, type_t element, int64_t stride)
{
    val_t all[32];
    for (unsigned l = 0; l < gen->W; l++) {
        all[l] = LLVMConstInt(element, (uint64_t)stride * l, 1);
    }
    return LLVMConstVector(all, gen->W);
}

val_t gen_bitcast(cpu_gen_t *gen, val_t v, type_t element)
{
    if (gen_element(v) == element) {
        return v;
    }
    return LLVMBuildBitCast(gen->b, v, gen_same(v, element), "");
}

val_t gen_call(cpu_gen_t *gen, const char *intrinsic, type_t *over, unsigned over_count,
               val_t *args, unsigned count)
{
    unsigned id = LLVMLookupIntrinsicID(intrinsic, strlen(intrinsic));
    if (id == 0) {
        gen_fail(gen, intrinsic);
        return args[0];
    }
    val_t fn = LLVMGetIntrinsicDeclaration(gen->module, id, over, over_count);
    type_t type = LLVMIntrinsicGetType(gen->context, id, over, over_count);
    return LLVMBuildCall2(gen->b, type, fn, args, count, "");
}

val_t gen_call1(cpu_gen_t *gen, const char *intrinsic, val_t x)
{
    type_t t = LLVMTypeOf(x);
    return gen_call(gen, intrinsic, &t, 1, &x, 1);
}

val_t gen_call2(cpu_gen_t *gen, const char *intrinsic, val_t x, val_t y)
{
    type_t t = LLVMTypeOf(x);
    return gen_call(gen, intrinsic, &t, 1, (val_t[]){x, y}, 2);
}

val_t gen_call3(cpu_gen_t *gen, const char *intrinsic, val_t x, val_t y, val_t z)
{
    type_t t = LLVMTypeOf(x);
    return gen_call(gen, intrinsic, &t, 1, (val_t[]){x, y, z}, 3);
}

val_t gen_iota(cpu_gen_t *gen, const uint32_t *indices, unsigned count)
{
    val_t all[32 * 8];
    for (unsigned l = 0; l < count; l++) {
        all[l] = LLVMConstInt(gen->i32, indices[l], 0);
    }
    return LLVMConstVector(all, count);
}

val_t gen_bits(cpu_gen_t *gen, val_t mask)
{
    if (!gen_is_vector(mask)) {
        return LLVMBuildZExt(gen->b, mask, gen->i32, "");
    }
    val_t bits = LLVMBuildBitCast(gen->b, mask, gen_int(gen, gen->W), "");
    return gen->W == 32 ? bits : LLVMBuildZExt(gen->b, bits, gen->i32, "");
}

val_t gen_any(cpu_gen_t *gen, val_t mask)
{
    if (!gen_is_vector(mask)) {
        return mask;
    }
    val_t bits = LLVMBuildBitCast(gen->b, mask, gen_int(gen, gen->W), "");
    return LLVMBuildICmp(gen->b, LLVMIntNE, bits, gen_like(bits, 0), "");
}

val_t gen_mask_i32(cpu_gen_t *gen)
{
    if (gen->mask == NULL) {
        uint64_t all = gen->W == 32 ? UINT32_MAX : ((uint64_t)1 << gen->W) - 1;
        return LLVMConstInt(gen->i32, all, 0);
    }
    return gen_bits(gen, gen->mask);
}

val_t gen_from_bits(cpu_gen_t *gen, val_t bits)
{
    if (gen->W != 32) {
        bits = LLVMBuildTrunc(gen->b, bits, gen_int(gen, gen->W), "");
    }
    return gen->W == 1 ? bits : LLVMBuildBitCast(gen->b, bits, gen_vector(gen, gen->i1), "");
}

/* ---- registers ---- */

type_t gen_reg_type(cpu_gen_t *gen, uint32_t reg)
{
    return gen_type(gen, gen->f->regs[reg].type);
}

/* Scalar or vector of a register's own type to the type asked for (as wide, or narrower). */
static val_t narrow(cpu_gen_t *gen, val_t v, type_t want)
{
    type_t have = gen_element(v);
    if (have == want) {
        return v;
    }
    if (LLVMGetTypeKind(have) != LLVMIntegerTypeKind) {
        have = gen_int(gen, have == gen->f32 ? 32 : 64);
        v = gen_bitcast(gen, v, have);
    }
    type_t integer = want;
    if (LLVMGetTypeKind(want) != LLVMIntegerTypeKind) {
        integer = gen_int(gen, want == gen->f32 ? 32 : 64);
    }
    unsigned from = LLVMGetIntTypeWidth(have), to = LLVMGetIntTypeWidth(integer);
    type_t shape = gen_shape(gen, integer, gen_is_vector(v));
    if (to < from) {
        v = LLVMBuildTrunc(gen->b, v, shape, "");
    } else if (to > from) {
        v = LLVMBuildZExt(gen->b, v, shape, "");
    }
    return gen_bitcast(gen, v, want);
}

static val_t read_reg(cpu_gen_t *gen, uint32_t reg, type_t want, bool vec)
{
    const cpu_form_t *form = &gen->a->values[reg].form;
    type_t own = gen_reg_type(gen, reg);
    if (form->tag == CPU_FORM_VARYING) {
        return narrow(gen, gen_load_slot(gen, reg, gen_vector(gen, own)), want);
    }
    val_t base = gen_load_slot(gen, reg, own);
    if (!vec) {
        return narrow(gen, base, want);
    }
    if (cpu_form_uniform(form)) {
        return gen_splat(gen, narrow(gen, base, want));
    }
    val_t index = form->scale == 0 ? NULL : gen_load_index(gen, reg);
    base = gen_bitcast(gen, base, gen_int(gen, cpu_reg_bits(gen->f, reg)));
    return narrow(gen, gen_materialise(gen, form, base, index), want);
}

val_t gen_materialise(cpu_gen_t *gen, const cpu_form_t *form, val_t base, val_t index)
{
    type_t t = LLVMTypeOf(base);
    val_t v = gen_splat(gen, base);
    if (form->stride != 0) {
        v = LLVMBuildAdd(gen->b, v, gen_lanes(gen, t, form->stride), "");
    }
    if (form->scale != 0) {
        val_t inner =
            LLVMBuildAdd(gen->b, gen_splat(gen, index), gen_lanes(gen, gen->i32, form->step), "");
        type_t wide = gen_vector(gen, gen->i64);
        inner = form->sign ? LLVMBuildSExt(gen->b, inner, wide, "")
                           : LLVMBuildZExt(gen->b, inner, wide, "");
        inner = LLVMBuildMul(gen->b, inner, gen_like(inner, (uint64_t)form->scale), "");
        v = LLVMBuildAdd(gen->b, v, inner, "");
    }
    return v;
}

/* ---- other operands ---- */

val_t gen_thread_vector(cpu_gen_t *gen, val_t scalar, int64_t stride)
{
    return LLVMBuildAdd(gen->b, gen_splat(gen, scalar), gen_lanes(gen, gen->i32, stride), "");
}

static val_t launch_field(cpu_gen_t *gen, size_t offset, type_t type)
{
    val_t at = LLVMConstInt(gen->i64, offset, 0);
    val_t p = LLVMBuildGEP2(gen->b, gen->i8, gen->launch, &at, 1, "");
    return LLVMBuildLoad2(gen->b, type, p, "");
}

static val_t udiv(cpu_gen_t *gen, val_t x, uint64_t by, bool remainder)
{
    return remainder ? LLVMBuildURem(gen->b, x, gen_like(x, by), "")
                     : LLVMBuildUDiv(gen->b, x, gen_like(x, by), "");
}

/* tid of WARPS: from linear numbers. */
static val_t warp_tid(cpu_gen_t *gen, unsigned d)
{
    val_t lin = gen_thread_vector(gen, gen->linear[gen->g], 1);
    val_t nx = gen_splat(gen, gen->ntid[0]);
    if (d == 0) {
        return LLVMBuildURem(gen->b, lin, nx, "");
    }
    val_t row = LLVMBuildUDiv(gen->b, lin, nx, "");
    val_t ny = gen_splat(gen, gen->ntid[1]);
    return d == 1 ? LLVMBuildURem(gen->b, row, ny, "") : LLVMBuildUDiv(gen->b, row, ny, "");
}

static val_t tid(cpu_gen_t *gen, unsigned d)
{
    if (gen->a->config.layout == CPU_LAYOUT_WARPS) {
        return warp_tid(gen, d);
    }
    return d == 0 ? gen->column[gen->g] : d == 1 ? gen->row_y[gen->g] : gen->row_z[gen->g];
}

static val_t lane_mask(cpu_gen_t *gen, uint32_t sreg)
{
    if (gen->W == 1) {
        val_t bit = udiv(gen, gen->linear[gen->g], 32, true);
        bit = LLVMBuildShl(gen->b, gen_like(bit, 1), bit, "");
        val_t below = LLVMBuildSub(gen->b, bit, gen_like(bit, 1), "");
        val_t up_to = LLVMBuildOr(gen->b, below, bit, "");
        return sreg == PTX_SREG_LANEMASK_EQ   ? bit
               : sreg == PTX_SREG_LANEMASK_LT ? below
               : sreg == PTX_SREG_LANEMASK_LE ? up_to
               : sreg == PTX_SREG_LANEMASK_GE ? LLVMBuildNot(gen->b, below, "")
                                              : LLVMBuildNot(gen->b, up_to, "");
    }
    val_t all[32];
    for (unsigned l = 0; l < gen->W; l++) {
        uint32_t bit = 1u << l, below = bit - 1;
        uint32_t m = sreg == PTX_SREG_LANEMASK_EQ   ? bit
                     : sreg == PTX_SREG_LANEMASK_LT ? below
                     : sreg == PTX_SREG_LANEMASK_LE ? below | bit
                     : sreg == PTX_SREG_LANEMASK_GE ? ~below
                                                    : ~(below | bit);
        all[l] = LLVMConstInt(gen->i32, m, 0);
    }
    return LLVMConstVector(all, gen->W);
}

static val_t clock_of(cpu_gen_t *gen, uint32_t sreg)
{
    type_t type = LLVMFunctionType(gen->i64, NULL, 0, 0);
    val_t ns = gen_helper(gen, offsetof(cpu_helpers_t, nanoseconds), &type, NULL, 0);
    if (sreg == PTX_SREG_CLOCK64 || sreg == PTX_SREG_GLOBALTIMER) {
        return ns;
    }
    if (sreg == PTX_SREG_CLOCK_HI || sreg == PTX_SREG_GLOBALTIMER_HI) {
        ns = LLVMBuildLShr(gen->b, ns, gen_like(ns, 32), "");
    }
    return LLVMBuildTrunc(gen->b, ns, gen->i32, "");
}

static val_t threads_in_warps(cpu_gen_t *gen)
{
    val_t n = LLVMBuildMul(gen->b, gen->ntid[0], gen->ntid[1], "");
    n = LLVMBuildMul(gen->b, n, gen->ntid[2], "");
    return udiv(gen, LLVMBuildAdd(gen->b, n, gen_like(n, 31), ""), 32, false);
}

static val_t read_sreg(cpu_gen_t *gen, uint32_t sreg)
{
    switch (sreg) {
    case PTX_SREG_TID_X:
    case PTX_SREG_TID_Y:
    case PTX_SREG_TID_Z:
        return tid(gen, sreg - PTX_SREG_TID_X);
    case PTX_SREG_NTID_X:
    case PTX_SREG_NTID_Y:
    case PTX_SREG_NTID_Z:
        return gen->ntid[sreg - PTX_SREG_NTID_X];
    case PTX_SREG_CTAID_X:
    case PTX_SREG_CTAID_Y:
    case PTX_SREG_CTAID_Z:
        return gen->ctaid[sreg - PTX_SREG_CTAID_X];
    case PTX_SREG_NCTAID_X:
    case PTX_SREG_NCTAID_Y:
    case PTX_SREG_NCTAID_Z:
        return gen->nctaid[sreg - PTX_SREG_NCTAID_X];
    case PTX_SREG_LANEID:
        return gen->W == 1 ? udiv(gen, gen->linear[gen->g], 32, true)
                           : LLVMConstInt(gen->i32, 0, 0);
    case PTX_SREG_WARPID:
        return udiv(gen, gen->linear[gen->g], 32, false);
    case PTX_SREG_NWARPID:
        return threads_in_warps(gen);
    case PTX_SREG_SMID:
        return launch_field(gen, offsetof(cpu_launch_t, sm_id), gen->i32);
    case PTX_SREG_NSMID:
        return launch_field(gen, offsetof(cpu_launch_t, sm_count), gen->i32);
    case PTX_SREG_GRIDID:
        return launch_field(gen, offsetof(cpu_launch_t, grid_id), gen->i64);
    case PTX_SREG_LANEMASK_EQ:
    case PTX_SREG_LANEMASK_LE:
    case PTX_SREG_LANEMASK_LT:
    case PTX_SREG_LANEMASK_GE:
    case PTX_SREG_LANEMASK_GT:
        return lane_mask(gen, sreg);
    case PTX_SREG_TOTAL_SMEM_SIZE:
    case PTX_SREG_AGGR_SMEM_SIZE:
        return LLVMBuildTrunc(gen->b, gen->shared_bytes, gen->i32, "");
    case PTX_SREG_DYNAMIC_SMEM_SIZE:
        return launch_field(gen, offsetof(cpu_launch_t, dynamic_shared_bytes), gen->i32);
    case PTX_SREG_CLOCK:
    case PTX_SREG_CLOCK_HI:
    case PTX_SREG_CLOCK64:
    case PTX_SREG_GLOBALTIMER:
    case PTX_SREG_GLOBALTIMER_LO:
    case PTX_SREG_GLOBALTIMER_HI:
        return clock_of(gen, sreg);
    default:
        return gen_rare_register(gen, sreg);
    }
}

/* The driver's registers: 1 and 2 are the high and low half of the address of a cooperative grid's
 * workspace, as the device library of cooperative groups reads them. */
static val_t read_envreg(cpu_gen_t *gen, uint64_t number)
{
    val_t v = launch_field(gen, offsetof(cpu_launch_t, grid_workspace), gen->i64);
    if (number != 1 && number != 2) {
        return LLVMConstInt(gen->i32, 0, 0);
    }
    v = number == 1 ? LLVMBuildLShr(gen->b, v, gen_like(v, 32), "") : v;
    return LLVMBuildTrunc(gen->b, v, gen->i32, "");
}

static unsigned symbol_index(cpu_gen_t *gen, const char *name)
{
    for (unsigned n = 0; n < gen->symbol_count; n++) {
        if (strcmp(gen->symbols[n], name) == 0) {
            return n;
        }
    }
    gen->symbols[gen->symbol_count] = name;
    return gen->symbol_count++;
}

/* Address of a variable within its space. */
static val_t var_address(cpu_gen_t *gen, uint32_t index, uint64_t offset)
{
    const ptx_var_t *v = &gen->a->module->vars[index];
    switch (v->space) {
    case PTX_SPACE_SHARED:
        return LLVMConstInt(gen->i64, ptx_shared_offset(gen->a->module, gen->f, index) + offset, 0);
    case PTX_SPACE_LOCAL:
        gen->uses_local = true;
        return LLVMConstInt(gen->i64, v->offset + offset, 0);
    case PTX_SPACE_PARAM: {
        if (v->type >= PTX_TEXREF && v->type <= PTX_SURFREF) { /* the argument: a handle */
            val_t at = LLVMConstInt(gen->i64, v->offset, 0);
            at = LLVMBuildGEP2(gen->b, gen->i8, gen->params, &at, 1, "");
            return LLVMBuildLoad2(gen->b, gen->i64, at, "");
        }
        val_t p = LLVMBuildPtrToInt(gen->b, gen->params, gen->i64, "");
        return LLVMBuildAdd(gen->b, p, gen_like(p, v->offset + offset), "");
    }
    default: {
        val_t n = LLVMConstInt(gen->i64, symbol_index(gen, v->name), 0);
        val_t p = LLVMBuildGEP2(gen->b, gen->i64, gen->globals, &n, 1, "");
        p = LLVMBuildLoad2(gen->b, gen->i64, p, "");
        if (v->type >= PTX_TEXREF && v->type <= PTX_SURFREF) { /* what it holds: a handle */
            p = LLVMBuildIntToPtr(gen->b, p, gen->ptr, "");
            return LLVMBuildLoad2(gen->b, gen->i64, p, "");
        }
        return LLVMBuildAdd(gen->b, p, gen_like(p, offset), "");
    }
    }
}

val_t gen_var_address(cpu_gen_t *gen, uint32_t var)
{
    return var_address(gen, var, 0);
}

static val_t immediate(cpu_gen_t *gen, uint64_t bits, type_t want)
{
    if (LLVMGetTypeKind(want) == LLVMIntegerTypeKind) {
        return LLVMConstInt(want, bits, 0);
    }
    val_t c = LLVMConstInt(gen_int(gen, want == gen->f32 ? 32 : 64), bits, 0);
    return LLVMConstBitCast(c, want);
}

static val_t read_as(cpu_gen_t *gen, const ptx_operand_t *o, type_t want, bool vec)
{
    val_t v;
    switch (o->kind) {
    case PTX_OPERAND_REG:
        v = read_reg(gen, o->index, want, vec);
        break;
    case PTX_OPERAND_IMM:
        v = immediate(gen, o->value, want);
        break;
    case PTX_OPERAND_SREG: {
        cpu_form_t form = cpu_operand_form(gen->a, o);
        v = o->index == PTX_SREG_ENVREG ? read_envreg(gen, o->value) : read_sreg(gen, o->index);
        if (vec && form.stride != 0) {
            v = gen_thread_vector(gen, v, form.stride);
        }
        v = narrow(gen, v, want);
        break;
    }
    case PTX_OPERAND_VAR:
        v = narrow(gen, var_address(gen, o->index, o->value), want);
        break;
    case PTX_OPERAND_SINK:
        v = LLVMConstNull(want);
        break;
    default:
        gen_fail(gen, "operand");
        v = LLVMConstNull(want);
    }
    if (o->kind == PTX_OPERAND_REG && o->negated) {
        v = LLVMBuildNot(gen->b, v, "");
    }
    return vec ? gen_splat(gen, v) : v;
}

val_t gen_read(cpu_gen_t *gen, const ptx_operand_t *o, unsigned ptx_type, bool vec)
{
    return read_as(gen, o, gen_type(gen, ptx_type), vec);
}

val_t gen_src(cpu_gen_t *gen, unsigned n, unsigned ptx_type, bool vec)
{
    return gen_read(gen, ptx_src(gen->f, gen->i, n), ptx_type, vec);
}

val_t gen_base(cpu_gen_t *gen, const ptx_operand_t *o, type_t integer)
{
    return read_as(gen, o, integer, false);
}

val_t gen_index(cpu_gen_t *gen, const ptx_operand_t *o)
{
    return gen_load_index(gen, o->index);
}

/* ---- results ---- */

/* Extends a value of a PTX type to the register it goes to. */
static val_t widen(cpu_gen_t *gen, val_t v, unsigned ptx_type, uint32_t reg)
{
    type_t own = gen_reg_type(gen, reg), have = gen_element(v);
    if (own == have) {
        return v;
    }
    unsigned to = cpu_reg_bits(gen->f, reg);
    if (LLVMGetTypeKind(have) != LLVMIntegerTypeKind) {
        have = gen_int(gen, have == gen->f32 ? 32 : 64);
        v = gen_bitcast(gen, v, have);
    }
    unsigned from = LLVMGetIntTypeWidth(have);
    type_t shape = gen_shape(gen, gen_int(gen, to), gen_is_vector(v));
    if (to > from) {
        v = ptx_type_is_signed((ptx_type_t)ptx_type) ? LLVMBuildSExt(gen->b, v, shape, "")
                                                     : LLVMBuildZExt(gen->b, v, shape, "");
    } else if (to < from) {
        v = LLVMBuildTrunc(gen->b, v, shape, "");
    }
    return gen_bitcast(gen, v, own);
}

/* Where the old value must stay: guard of a pure instruction, and lanes that wait elsewhere. */
static val_t keep_old(cpu_gen_t *gen, uint32_t reg, val_t v, bool index)
{
    const cpu_value_t *value = &gen->a->values[reg];
    val_t take = gen->guard;
    if (gen->mask != NULL && value->forced && gen->a->crowded[gen->node]) {
        take = take == NULL ? gen->mask : LLVMBuildAnd(gen->b, gen_splat(gen, take), gen->mask, "");
    }
    if (gen->mask != NULL && gen->guard == NULL && gen->i->guard != PTX_NONE &&
        gen_is_vector(v)) { /* guarded instruction with side effects: the mask has the guard */
        take = gen->mask;
    }
    if (take == NULL) {
        return v;
    }
    val_t old = index ? gen_load_index(gen, reg) : gen_load_slot(gen, reg, LLVMTypeOf(v));
    return LLVMBuildSelect(gen->b, take, v, old, "");
}

void gen_write(cpu_gen_t *gen, const ptx_operand_t *dst, val_t v, unsigned ptx_type)
{
    if (dst->kind != PTX_OPERAND_REG) {
        return;
    }
    v = widen(gen, v, ptx_type, dst->index);
    if (gen->a->values[dst->index].form.tag == CPU_FORM_VARYING) {
        v = gen_splat(gen, v);
    }
    gen_store_slot(gen, dst->index, keep_old(gen, dst->index, v, false));
}

void gen_write_affine(cpu_gen_t *gen, const ptx_operand_t *dst, const cpu_form_t *form, val_t base,
                      val_t index)
{
    const cpu_form_t *own = &gen->a->values[dst->index].form;
    if (own->tag == CPU_FORM_VARYING) {
        val_t v = gen_materialise(gen, form, base, index);
        v = gen_bitcast(gen, v, gen_reg_type(gen, dst->index));
        gen_store_slot(gen, dst->index, keep_old(gen, dst->index, v, false));
        return;
    }
    base = gen_bitcast(gen, base, gen_reg_type(gen, dst->index));
    gen_store_slot(gen, dst->index, keep_old(gen, dst->index, base, false));
    if (form->scale != 0) {
        gen_store_index(gen, dst->index, keep_old(gen, dst->index, index, true));
    }
}

/* Loads and stores: one element for all lanes, neighbouring elements of a strip, or lane by lane.
 *
 * A strong access (volatile, relaxed, acquire, release) of a vector of up to 16 bytes is one access of
 * memory. PTX promises that for single elements only, but a GPU does it, and programs that publish a
 * value together with its state count on it (decoupled look-back in CUB). Aligned moves of 16 bytes are
 * atomic on every processor with AVX. */
#include "gpu-proxy/cpu/jit/gen_state.h"

#define B gen->b

enum { MAX_COUNT = 8, FAR = 32 /* bytes from lane to lane of one stretch */ };

static unsigned elements_of(const ptx_instr_t *i)
{
    return i->vec > 1 ? i->vec : 1;
}

static const ptx_operand_t *element(cpu_gen_t *gen, const ptx_operand_t *o, unsigned n)
{
    return o->kind == PTX_OPERAND_VECTOR ? ptx_element(gen->f, o, n) : o;
}

static bool is_volatile(const ptx_instr_t *i)
{
    return i->sem != PTX_SEM_NONE;
}

static val_t plain_load(cpu_gen_t *gen, type_t t, val_t p, unsigned align)
{
    val_t v = LLVMBuildLoad2(B, t, p, "");
    LLVMSetAlignment(v, align);
    LLVMSetVolatile(v, is_volatile(gen->i));
    return v;
}

static void plain_store(cpu_gen_t *gen, val_t v, val_t p, unsigned align)
{
    val_t s = LLVMBuildStore(B, v, p);
    LLVMSetAlignment(s, align);
    LLVMSetVolatile(s, is_volatile(gen->i));
}

/* Keeps the compiler from joining volatile accesses; costs nothing on x86. */
static void order(cpu_gen_t *gen, LLVMAtomicOrdering ordering)
{
    if (is_volatile(gen->i)) {
        LLVMBuildFence(B, ordering, 0, "");
    }
}

/* The mask of W lanes for W * count elements in lane order. */
static val_t mask_of_elements(cpu_gen_t *gen, unsigned count)
{
    uint32_t at[32 * MAX_COUNT];
    for (unsigned n = 0; n < gen->W * count; n++) {
        at[n] = n / count;
    }
    return count == 1 ? gen->mask
                      : LLVMBuildShuffleVector(B, gen->mask, LLVMGetPoison(LLVMTypeOf(gen->mask)),
                                               gen_iota(gen, at, gen->W * count), "");
}

static val_t load_strip(cpu_gen_t *gen, type_t elem, unsigned count, val_t p, unsigned align)
{
    type_t t = LLVMVectorType(elem, gen->W * count);
    if (gen->mask == NULL) {
        return plain_load(gen, t, p, align);
    }
    type_t over[2] = {t, gen->ptr};
    val_t args[4] = {p, LLVMConstInt(gen->i32, align, 0), mask_of_elements(gen, count),
                     LLVMConstNull(t)};
    return gen_call(gen, "llvm.masked.load", over, 2, args, 4);
}

static void store_strip(cpu_gen_t *gen, val_t v, unsigned count, val_t p, unsigned align)
{
    if (gen->mask == NULL) {
        plain_store(gen, v, p, align);
        return;
    }
    type_t over[2] = {LLVMTypeOf(v), gen->ptr};
    val_t args[4] = {v, p, LLVMConstInt(gen->i32, align, 0), mask_of_elements(gen, count)};
    gen_call(gen, "llvm.masked.store", over, 2, args, 4);
}

/* Every count-th element from n on. */
static val_t pick(cpu_gen_t *gen, val_t strip, unsigned count, unsigned n)
{
    uint32_t at[32];
    for (unsigned l = 0; l < gen->W; l++) {
        at[l] = l * count + n;
    }
    return count == 1 ? strip
                      : LLVMBuildShuffleVector(B, strip, LLVMGetPoison(LLVMTypeOf(strip)),
                                               gen_iota(gen, at, gen->W), "");
}

static val_t concatenate(cpu_gen_t *gen, val_t x, val_t y)
{
    uint32_t at[32 * MAX_COUNT];
    unsigned n = LLVMGetVectorSize(LLVMTypeOf(x)) * 2;
    for (unsigned k = 0; k < n; k++) {
        at[k] = k;
    }
    return LLVMBuildShuffleVector(B, x, y, gen_iota(gen, at, n), "");
}

/* Elements of all lanes in the order of memory. */
static val_t interleave(cpu_gen_t *gen, val_t *v, unsigned count)
{
    for (unsigned n = count; n > 1; n /= 2) {
        for (unsigned k = 0; k < n / 2; k++) {
            v[k] = concatenate(gen, v[2 * k], v[2 * k + 1]);
        }
    }
    uint32_t at[32 * MAX_COUNT];
    for (unsigned k = 0; k < gen->W * count; k++) {
        at[k] = k % count * gen->W + k / count;
    }
    return count == 1 ? v[0]
                      : LLVMBuildShuffleVector(B, v[0], LLVMGetPoison(LLVMTypeOf(v[0])),
                                               gen_iota(gen, at, gen->W * count), "");
}

static val_t lane_pointers(cpu_gen_t *gen, val_t addresses, uint64_t offset)
{
    if (offset != 0) {
        addresses = LLVMBuildAdd(B, addresses, gen_like(addresses, offset), "");
    }
    return LLVMBuildIntToPtr(B, addresses, gen_vector(gen, gen->ptr), "");
}

static val_t mask_or_all(cpu_gen_t *gen)
{
    return gen->mask != NULL ? gen->mask : gen_const(gen, gen->i1, true, 1);
}

static val_t pointer_of_lane(cpu_gen_t *gen, val_t addresses, unsigned lane, uint64_t offset)
{
    val_t p = LLVMBuildExtractElement(B, addresses, LLVMConstInt(gen->i64, lane, 0), "");
    return gen_offset(gen, LLVMBuildIntToPtr(B, p, gen->ptr, ""), offset);
}

/* Do vector instructions gather and scatter such elements? */
static bool has_gather(const cpu_gen_t *gen, type_t elem)
{
    return gen->avx512 &&
           (elem == gen->i32 || elem == gen->i64 || elem == gen->f32 || elem == gen->f64);
}

/* AVX-512 gathers; elsewhere single loads are faster, and inactive lanes have a harmless address. */
static val_t gather(cpu_gen_t *gen, type_t elem, val_t addresses, uint64_t offset, unsigned align)
{
    type_t t = gen_vector(gen, elem);
    if (has_gather(gen, elem)) {
        type_t over[2] = {t, gen_vector(gen, gen->ptr)};
        val_t args[4] = {lane_pointers(gen, addresses, offset), LLVMConstInt(gen->i32, align, 0),
                         mask_or_all(gen), LLVMConstNull(t)};
        return gen_call(gen, "llvm.masked.gather", over, 2, args, 4);
    }
    val_t v = LLVMGetPoison(t);
    for (unsigned l = 0; l < gen->W; l++) {
        val_t x = plain_load(gen, elem, pointer_of_lane(gen, addresses, l, offset), align);
        v = LLVMBuildInsertElement(B, v, x, LLVMConstInt(gen->i64, l, 0), "");
    }
    return v;
}

static void scatter(cpu_gen_t *gen, val_t v, val_t addresses, uint64_t offset, unsigned align)
{
    type_t elem = gen_element(v);
    if (has_gather(gen, elem)) {
        type_t over[2] = {LLVMTypeOf(v), gen_vector(gen, gen->ptr)};
        val_t args[4] = {v, lane_pointers(gen, addresses, offset), LLVMConstInt(gen->i32, align, 0),
                         mask_or_all(gen)};
        gen_call(gen, "llvm.masked.scatter", over, 2, args, 4);
        return;
    }
    for (unsigned l = 0; l < gen->W; l++) {
        val_t x = LLVMBuildExtractElement(B, v, LLVMConstInt(gen->i64, l, 0), "");
        plain_store(gen, x, pointer_of_lane(gen, addresses, l, offset), align);
    }
}

/* Must a thread's elements be moved as one? */
static bool is_one_access(const cpu_gen_t *gen, unsigned count)
{
    return count > 1 && is_volatile(gen->i) &&
           count * ptx_type_size((ptx_type_t)gen->i->type) <= 16;
}

/* Can or must a lane's elements be moved as one? Inactive lanes have harmless addresses. */
static bool moves_whole(const cpu_gen_t *gen, type_t elem, unsigned count)
{
    return is_one_access(gen, count) ||
           ((count == 2 || count == 4) && (elem == gen->i32 || elem == gen->f32) && gen->W <= 16);
}

/* Each lane's elements with one load; then all of them as if they had been neighbours. */
static void gather_whole(cpu_gen_t *gen, type_t elem, unsigned count, val_t addresses,
                         unsigned align, val_t *out)
{
    val_t part[32];
    for (unsigned l = 0; l < gen->W; l++) {
        part[l] = plain_load(gen, LLVMVectorType(elem, count),
                             pointer_of_lane(gen, addresses, l, 0), align);
    }
    for (unsigned n = gen->W; n > 1; n /= 2) {
        for (unsigned k = 0; k < n / 2; k++) {
            part[k] = concatenate(gen, part[2 * k], part[2 * k + 1]);
        }
    }
    for (unsigned n = 0; n < count; n++) {
        out[n] = pick(gen, part[0], count, n);
    }
}

static void scatter_whole(cpu_gen_t *gen, val_t all, unsigned count, val_t addresses,
                          unsigned align)
{
    for (unsigned l = 0; l < gen->W; l++) {
        uint32_t at[4] = {l * count, l * count + 1, l * count + 2, l * count + 3};
        val_t v = LLVMBuildShuffleVector(B, all, LLVMGetPoison(LLVMTypeOf(all)),
                                         gen_iota(gen, at, count), "");
        plain_store(gen, v, pointer_of_lane(gen, addresses, l, 0), align);
    }
}

void gen_prefetch(cpu_gen_t *gen, val_t pointer, unsigned near)
{
    enum { READ = 0, DATA = 1 };
    val_t args[4] = {pointer, LLVMConstInt(gen->i32, READ, 0), LLVMConstInt(gen->i32, near, 0),
                     LLVMConstInt(gen->i32, DATA, 0)};
    gen_call(gen, "llvm.prefetch", &gen->ptr, 1, args, 4);
}

/* ---- loads ---- */

/* Element n of what a load of a parameter reads. */
static val_t parameter(cpu_gen_t *gen, const ptx_instr_t *i, unsigned n)
{
    const ptx_operand_t *o = ptx_src(gen->f, i, 0);
    unsigned kind = LLVMGetMDKindIDInContext(gen->context, "invariant.load", 14);
    val_t none = LLVMMetadataAsValue(gen->context, LLVMMDNodeInContext2(gen->context, NULL, 0));
    uint64_t at = gen->a->module->vars[o->index].offset + o->value;
    val_t p = gen_offset(gen, gen->params, at + n * ptx_type_size((ptx_type_t)i->type));
    val_t v = LLVMBuildLoad2(B, gen_type(gen, i->type), p, "");
    LLVMSetAlignment(v, 1);
    LLVMSetMetadata(v, kind, none);
    return v;
}

val_t gen_given(cpu_gen_t *gen, uint32_t reg)
{
    val_t v = parameter(gen, gen->a->given[reg], 0);
    return gen_bitcast(gen, v, gen_reg_type(gen, reg));
}

/* One address for all lanes. */
static void load_uniform(cpu_gen_t *gen, const gen_addr_t *a, type_t elem, const ptx_operand_t *dst)
{
    const ptx_instr_t *i = gen->i;
    val_t p = gen_checked_scalar(gen, a), whole = NULL;
    unsigned align = gen_align(gen, a->bytes);
    if (is_one_access(gen, a->count)) {
        whole = plain_load(gen, LLVMVectorType(elem, a->count), p, align);
    }
    for (unsigned n = 0; n < a->count; n++) {
        val_t v = whole != NULL
                      ? LLVMBuildExtractElement(B, whole, LLVMConstInt(gen->i64, n, 0), "")
                      : plain_load(gen, elem, gen_offset(gen, p, n * a->bytes), align);
        gen_write(gen, element(gen, dst, n), v, i->type);
    }
}

static void load_param(cpu_gen_t *gen, const ptx_operand_t *o, const ptx_operand_t *dst)
{
    const ptx_instr_t *i = gen->i;
    uint64_t at = gen->a->module->vars[o->index].offset + o->value;
    unsigned bytes = ptx_type_size((ptx_type_t)i->type);
    for (unsigned n = 0; n < elements_of(i); n++) {
        if (at + (n + 1) * bytes > gen->f->param_size) {
            gen_fail(gen, "parameter read beyond its end");
            return;
        }
        gen_write(gen, element(gen, dst, n), parameter(gen, i, n), i->type);
    }
}

/* What the strip will load in the next iteration of a loop with barriers. */
static void fetch_next(cpu_gen_t *gen, const gen_addr_t *a)
{
    bool stretch = a->first != NULL && a->stride > 0 && a->stride <= FAR;
    val_t next = stretch ? gen_tiles_next(gen, gen->i) : NULL;
    if (next != NULL) {
        gen_tiles_fetch(gen, gen_to_pointer(gen, a, a->first), next,
                        (uint64_t)a->stride * (gen->W - 1) + (uint64_t)a->bytes * a->count);
    }
}

void gen_load(cpu_gen_t *gen)
{
    const ptx_instr_t *i = gen->i;
    const ptx_operand_t *o = ptx_src(gen->f, i, 0), *dst = ptx_dst(gen->f, i, 0);
    unsigned count = elements_of(i);
    type_t elem = gen_type(gen, i->type);
    if (i->space == PTX_SPACE_PARAM && o->base == PTX_OPERAND_VAR) {
        load_param(gen, o, dst);
        return;
    }
    gen_addr_t a = gen_address(gen, o, i->type, count, false);
    unsigned align = gen_align(gen, a.bytes);
    if (gen_address_uniform(gen, &a)) {
        load_uniform(gen, &a, elem, dst);
    } else if (gen_address_contiguous(gen, &a)) {
        val_t p = gen_checked_strip(gen, &a);
        gen_ahead_fetch(gen, i, p, (uint64_t)count * a.bytes * gen->W);
        fetch_next(gen, &a);
        val_t strip = load_strip(gen, elem, count, p, align);
        for (unsigned n = 0; n < count; n++) {
            gen_write(gen, element(gen, dst, n), pick(gen, strip, count, n), i->type);
        }
    } else {
        val_t v[MAX_COUNT];
        if (gen->mask != NULL || is_volatile(i) || !gen_load_spaced(gen, &a, elem, v)) {
            val_t at = gen_checked_lanes(gen, &a);
            if (moves_whole(gen, elem, count)) {
                gather_whole(gen, elem, count, at, align, v);
            } else {
                for (unsigned n = 0; n < count; n++) {
                    v[n] = gather(gen, elem, at, n * a.bytes, align);
                }
            }
        }
        fetch_next(gen, &a);
        for (unsigned n = 0; n < count; n++) {
            gen_write(gen, element(gen, dst, n), v[n], i->type);
        }
    }
    order(gen, LLVMAtomicOrderingAcquire);
}

/* ---- stores ---- */

/* All lanes store to one address: the last active one wins. */
static val_t last_active(cpu_gen_t *gen, val_t v)
{
    if (!gen_is_vector(v)) {
        return v;
    }
    val_t lane = LLVMConstInt(gen->i32, gen->W - 1, 0);
    if (gen->mask != NULL) {
        val_t bits = gen_mask_i32(gen);
        val_t args[2] = {bits, LLVMConstInt(gen->i1, 0, 0)};
        val_t zeros = gen_call(gen, "llvm.ctlz", &gen->i32, 1, args, 2);
        lane = LLVMBuildSub(B, LLVMConstInt(gen->i32, 31, 0), zeros, "");
        lane = LLVMBuildAnd(B, lane, gen_like(lane, gen->W - 1), "");
    }
    return LLVMBuildExtractElement(B, v, lane, "");
}

static val_t read_value(cpu_gen_t *gen, const ptx_operand_t *o, bool vec)
{
    return gen_read(gen, o, gen->i->type, vec);
}

static void store_uniform(cpu_gen_t *gen, const gen_addr_t *a, const ptx_operand_t *values)
{
    val_t p = gen_checked_scalar(gen, a), whole = NULL;
    unsigned align = gen_align(gen, a->bytes);
    if (is_one_access(gen, a->count)) {
        whole = LLVMGetPoison(LLVMVectorType(gen_type(gen, gen->i->type), a->count));
    }
    for (unsigned n = 0; n < a->count; n++) {
        const ptx_operand_t *o = element(gen, values, n);
        cpu_form_t form = cpu_operand_form(gen->a, o);
        val_t v = read_value(gen, o, gen->W > 1 && !cpu_form_uniform(&form));
        v = last_active(gen, v);
        if (whole != NULL) {
            whole = LLVMBuildInsertElement(B, whole, v, LLVMConstInt(gen->i64, n, 0), "");
        } else {
            plain_store(gen, v, gen_offset(gen, p, n * a->bytes), align);
        }
    }
    if (whole != NULL) {
        plain_store(gen, whole, p, align);
    }
}

void gen_store(cpu_gen_t *gen)
{
    const ptx_instr_t *i = gen->i;
    const ptx_operand_t *values = ptx_src(gen->f, i, 1);
    gen_addr_t a = gen_address(gen, ptx_src(gen->f, i, 0), i->type, elements_of(i), true);
    unsigned align = gen_align(gen, a.bytes);
    order(gen, LLVMAtomicOrderingRelease);
    if (gen_address_uniform(gen, &a)) {
        block_t then = NULL, done = NULL;
        if (gen->mask != NULL && gen->G > 1) { /* this strip may have no active lane */
            then = gen_block(gen, "");
            done = gen_block(gen, "");
            LLVMBuildCondBr(B, gen_any(gen, gen->mask), then, done);
            LLVMPositionBuilderAtEnd(B, then);
        }
        store_uniform(gen, &a, values);
        if (done != NULL) {
            gen_goto(gen, done);
        }
        return;
    }
    val_t v[MAX_COUNT];
    for (unsigned n = 0; n < a.count; n++) {
        v[n] = read_value(gen, element(gen, values, n), true);
    }
    if (gen_address_contiguous(gen, &a)) {
        val_t all = interleave(gen, v, a.count);
        block_t done = gen_block(gen, "");
        val_t p = gen_checked_store(gen, &a, all, done);
        store_strip(gen, all, a.count, p, align);
        gen_goto(gen, done);
        return;
    }
    val_t at = gen_checked_lanes(gen, &a);
    if (moves_whole(gen, gen_element(v[0]), a.count)) {
        scatter_whole(gen, interleave(gen, v, a.count), a.count, at, align);
        return;
    }
    for (unsigned n = 0; n < a.count; n++) {
        scatter(gen, v[n], at, n * a.bytes, align);
    }
}

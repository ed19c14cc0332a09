/* Addresses of loads and stores, and their checks.
 *
 * The fast check is one comparison: (address - base) rotated right by the alignment's bits is below a
 * limit only if the address is aligned and inside. An affine access is checked once for the strip. What
 * fails the fast check goes to a helper that looks at every active lane exactly: it may be in another
 * valid range, lie partly outside where no lane is active, or have an index that wraps. */
#include "gpu-proxy/cpu/jit/gen_state.h"

#define B gen->b

unsigned gen_align(const cpu_gen_t *gen, unsigned bytes)
{
    return gen->options->unchecked ? 1 : bytes;
}

val_t gen_offset(cpu_gen_t *gen, val_t pointer, uint64_t offset)
{
    val_t at = LLVMConstInt(gen->i64, offset, 0);
    return offset == 0 ? pointer : LLVMBuildGEP2(B, gen->i8, pointer, &at, 1, "");
}

val_t gen_buffer(cpu_gen_t *gen, uint64_t offset)
{
    return gen_offset(gen, gen->buffer, offset);
}

val_t gen_helper(cpu_gen_t *gen, size_t offset, type_t *type, val_t *args, unsigned count)
{
    /* read here, as calls are rare: a value at the function's start would occupy a register */
    val_t table = gen_offset(gen, gen->launch, offsetof(cpu_launch_t, helpers));
    table = LLVMBuildLoad2(B, gen->ptr, table, "");
    val_t p = LLVMBuildLoad2(B, gen->ptr, gen_offset(gen, table, offset), "");
    return LLVMBuildCall2(B, *type, p, args, count, "");
}

uint32_t gen_access(const gen_addr_t *a)
{
    return cpu_access_pack((cpu_access_t){.bytes = (uint8_t)a->bytes,
                                          .count = (uint8_t)a->count,
                                          .space = (uint8_t)a->space,
                                          .write = a->write});
}

static unsigned size_of(const gen_addr_t *a)
{
    return a->bytes * a->count;
}

static uint64_t frame_bytes(const cpu_gen_t *gen)
{
    return (gen->f->local_size + 15) & ~(uint64_t)15;
}

unsigned gen_address_bits(const cpu_gen_t *gen, const ptx_operand_t *o)
{
    return o->base == PTX_OPERAND_REG ? cpu_reg_bits(gen->f, o->index) : 64;
}

/* The base register (or variable) as i64, scalar or vector. */
val_t gen_address_base(cpu_gen_t *gen, const ptx_operand_t *o, bool vec)
{
    ptx_operand_t base = {.kind = o->base == PTX_OPERAND_IMM ? PTX_OPERAND_IMM : o->base,
                          .index = o->index};
    if (gen_address_bits(gen, o) == 32) {
        val_t v = gen_read(gen, &base, PTX_U32, vec);
        return LLVMBuildZExt(B, v, gen_shape(gen, gen->i64, vec), "");
    }
    return gen_read(gen, &base, PTX_U64, vec);
}

static val_t plus_constant(cpu_gen_t *gen, val_t v, uint64_t c)
{
    return c == 0 ? v : LLVMBuildAdd(B, v, gen_like(v, c), "");
}

/* Adds the inner sum of lane 0, and finds whether it wraps before the last lane. */
static void add_index(cpu_gen_t *gen, gen_addr_t *a)
{
    ptx_operand_t base = {.kind = PTX_OPERAND_REG, .index = a->o->index};
    val_t index = gen_index(gen, &base), whole;
    val_t wide = a->form.sign ? LLVMBuildSExt(B, index, gen->i64, "")
                              : LLVMBuildZExt(B, index, gen->i64, "");
    int64_t reach = (int64_t)a->form.step * (gen->W - 1);
    if (a->form.sign) {
        int64_t edge = reach >= 0 ? INT32_MAX - reach : INT32_MIN - reach;
        whole = LLVMBuildICmp(B, reach >= 0 ? LLVMIntSLE : LLVMIntSGE, index,
                              gen_like(index, (uint64_t)edge), "");
    } else {
        int64_t edge = reach >= 0 ? UINT32_MAX - reach : -reach;
        whole = LLVMBuildICmp(B, reach >= 0 ? LLVMIntULE : LLVMIntUGE, index,
                              gen_like(index, (uint64_t)edge), "");
    }
    if (reach > INT32_MAX || reach < INT32_MIN) {
        whole = LLVMConstInt(gen->i1, 0, 0);
    }
    val_t scaled = LLVMBuildMul(B, wide, gen_like(wide, (uint64_t)a->form.scale), "");
    a->first = LLVMBuildAdd(B, a->first, scaled, "");
    a->whole = whole;
    a->stride = (int64_t)((uint64_t)a->form.stride +
                          (uint64_t)a->form.scale * (uint64_t)(int64_t)a->form.step);
}

/* Are all lanes' addresses certainly aligned and in the kernel's own shared variables? */
static bool is_in_static_shared(const cpu_gen_t *gen, const gen_addr_t *a)
{
    ptx_operand_t base = {.kind = a->o->base, .index = a->o->index};
    int64_t offset = ptx_operand_offset(a->o);
    uint64_t size = size_of(a), high;
    if (a->space != PTX_SPACE_SHARED || a->form.tag != CPU_FORM_AFFINE || a->form.scale != 0 ||
        offset < 0 || offset > INT32_MAX || gen->W == 1) {
        return false;
    }
    high = cpu_operand_high(gen->a, &base);
    cpu_rest_t rest = cpu_operand_rest(gen->a, &base);
    return high <= INT32_MAX && high + (uint64_t)offset + size <= gen->f->shared_size &&
           rest.modulus >= size && ((rest.rest + (uint64_t)offset) & (size - 1)) == 0 &&
           (uint64_t)a->form.stride % size == 0;
}

gen_addr_t gen_address(cpu_gen_t *gen, const ptx_operand_t *o, unsigned ptx_type, unsigned count,
                       bool write)
{
    gen_addr_t a = {.o = o,
                    .form = cpu_operand_form(gen->a, o),
                    .space = gen->i->space,
                    .bytes = ptx_type_size((ptx_type_t)ptx_type),
                    .count = count,
                    .write = write};
    a.covered = gen_ahead_covers(gen, gen->i) || is_in_static_shared(gen, &a);
    if (a.form.tag == CPU_FORM_AFFINE) {
        a.first = gen_address_base(gen, o, false);
        a.stride = a.form.stride;
        if (a.form.scale != 0) {
            add_index(gen, &a);
        }
        a.whole = a.covered ? NULL : a.whole;
        a.first = plus_constant(gen, a.first, o->value);
    }
    return a;
}

bool gen_address_uniform(const cpu_gen_t *gen, const gen_addr_t *a)
{
    return gen->W == 1 || (cpu_form_uniform(&a->form) && a->space != PTX_SPACE_LOCAL);
}

bool gen_address_contiguous(const cpu_gen_t *gen, const gen_addr_t *a)
{
    return gen->W > 1 && a->form.tag == CPU_FORM_AFFINE && a->space != PTX_SPACE_LOCAL &&
           a->stride == (int64_t)size_of(a);
}

unsigned gen_address_spacing(const cpu_gen_t *gen, const gen_addr_t *a)
{
    int64_t spacing = a->stride / (int64_t)a->bytes;
    if (gen->W == 1 || a->form.tag != CPU_FORM_AFFINE || a->form.scale != 0 ||
        a->space == PTX_SPACE_LOCAL || a->stride <= (int64_t)size_of(a) ||
        a->stride % a->bytes != 0 || a->bytes < 4) {
        return 0;
    }
    bool few = spacing <= 4 ? a->count == 1 || spacing == 4 : spacing == 8;
    return few ? (unsigned)spacing : 0;
}

val_t gen_addresses(cpu_gen_t *gen, const gen_addr_t *a)
{
    return plus_constant(gen, gen_address_base(gen, a->o, gen->W > 1), a->o->value);
}

/* ---- limits ---- */

static unsigned log2_of(uint64_t v)
{
    return (unsigned)__builtin_ctzll(v);
}

/* rotated offset < limit: aligned, and `extent` bytes fit. Computed once per function. */
static val_t limit_of(cpu_gen_t *gen, bool shared, uint64_t extent, uint64_t align)
{
    for (unsigned n = 0; n < gen->limit_count; n++) {
        gen_limit_t *l = &gen->limits[n];
        if (l->shared == shared && l->extent == extent && l->align == align) {
            return l->limit;
        }
    }
    block_t now = LLVMGetInsertBlock(B);
    bool keep = gen->limit_count < GEN_MAX_EXTENTS;
    if (keep) {
        LLVMPositionBuilderAtEnd(B, gen->setup);
    }
    val_t bytes = shared ? gen->shared_bytes : gen->window_bytes;
    val_t room =
        gen_call2(gen, "llvm.usub.sat", plus_constant(gen, bytes, 1), gen_like(bytes, extent));
    room = plus_constant(gen, room, align - 1);
    room = LLVMBuildLShr(B, room, gen_like(room, log2_of(align)), "");
    if (keep) {
        LLVMPositionBuilderAtEnd(B, now);
        gen->limits[gen->limit_count++] = (gen_limit_t){extent, align, shared, room};
    }
    return room;
}

/* Offset from the beginning of the range that the fast check knows, and its limit. */
static val_t offset_in_range(cpu_gen_t *gen, const gen_addr_t *a, val_t address, uint64_t extent,
                             val_t *limit)
{
    uint64_t align = size_of(a), room;
    val_t base = NULL;
    switch (a->space) {
    case PTX_SPACE_SHARED:
        *limit = limit_of(gen, true, extent, align);
        return address;
    case PTX_SPACE_LOCAL:
    case PTX_SPACE_PARAM:
        room = a->space == PTX_SPACE_LOCAL ? frame_bytes(gen) : gen->f->param_size;
        room = room + 1 > extent ? room + 1 - extent : 0;
        *limit = LLVMConstInt(gen->i64, (room + align - 1) / align, 0);
        if (a->space == PTX_SPACE_LOCAL) {
            return address;
        }
        base = LLVMBuildPtrToInt(B, gen->params, gen->i64, "");
        break;
    default:
        base = gen->window_base;
        *limit = limit_of(gen, false, extent, align);
    }
    base = gen_is_vector(address) ? gen_splat(gen, base) : base;
    return LLVMBuildSub(B, address, base, "");
}

/* i1 (per lane): the access is fine. */
val_t gen_fast_check(cpu_gen_t *gen, const gen_addr_t *a, val_t address, uint64_t extent)
{
    val_t limit, t = offset_in_range(gen, a, address, extent, &limit);
    uint64_t align = size_of(a);
    if (align > 1) {
        t = gen_call3(gen, "llvm.fshr", t, t, gen_like(t, log2_of(align)));
    }
    limit = gen_is_vector(t) ? gen_splat(gen, limit) : limit;
    return LLVMBuildICmp(B, LLVMIntULT, t, limit, "");
}

val_t gen_to_pointer(cpu_gen_t *gen, const gen_addr_t *a, val_t address)
{
    if (a->space == PTX_SPACE_SHARED) {
        return LLVMBuildGEP2(B, gen->i8, gen->shared, &address, 1, "");
    }
    if (a->space == PTX_SPACE_LOCAL) { /* W = 1: one thread's frame */
        val_t at = LLVMBuildZExt(B, gen->linear[gen->g], gen->i64, "");
        at = LLVMBuildMul(B, at, gen_like(at, frame_bytes(gen)), "");
        at = LLVMBuildAdd(B, at, address, "");
        gen->uses_local = true;
        return LLVMBuildGEP2(B, gen->i8, gen->local, &at, 1, "");
    }
    return LLVMBuildIntToPtr(B, address, gen->ptr, "");
}

/* ---- one access for all lanes, and a strip's ---- */

/* With several strips, one may have no active lane and hold no address worth the name. */
static val_t harmless_if_idle(cpu_gen_t *gen, val_t p)
{
    if (gen->mask == NULL || gen->G == 1) {
        return p;
    }
    return LLVMBuildSelect(B, gen_any(gen, gen->mask), p, gen_buffer(gen, BUFFER_DATA), "");
}

val_t gen_checked_scalar(cpu_gen_t *gen, const gen_addr_t *a)
{
    val_t p = gen_to_pointer(gen, a, a->first);
    if (gen->options->unchecked || a->covered) {
        return harmless_if_idle(gen, p);
    }
    if (gen_verify(gen, a) != NULL) {
        return harmless_if_idle(gen, p);
    }
    val_t ok = gen_fast_check(gen, a, a->first, size_of(a));
    block_t fast = LLVMGetInsertBlock(B), slow = gen_block(gen, "slow"), on = gen_block(gen, "");
    gen_unlikely(gen, LLVMBuildCondBr(B, LLVMBuildNot(B, ok, ""), slow, on));
    LLVMPositionBuilderAtEnd(B, slow);
    gen_slow_strip(gen, a, offsetof(cpu_helpers_t, check_strip));
    val_t same = harmless_if_idle(gen, p);
    block_t from = LLVMGetInsertBlock(B);
    gen_goto(gen, on);
    if (same == p) {
        return p;
    }
    val_t phi = LLVMBuildPhi(B, gen->ptr, "");
    LLVMAddIncoming(phi, (val_t[]){p, same}, (block_t[]){fast, from}, 2);
    return phi;
}

/* NULL: certainly fine. */
static val_t strip_is_fine(cpu_gen_t *gen, const gen_addr_t *a)
{
    if (gen->options->unchecked || a->covered) {
        return a->whole;
    }
    const gen_verified_t *v = gen_verify(gen, a);
    if (v != NULL) {
        return v->fine;
    }
    val_t ok = gen_fast_check(gen, a, a->first, (uint64_t)size_of(a) * gen->W);
    return a->whole != NULL ? LLVMBuildAnd(B, ok, a->whole, "") : ok;
}

val_t gen_checked_strip(cpu_gen_t *gen, const gen_addr_t *a)
{
    val_t p = gen_to_pointer(gen, a, a->first), ok = strip_is_fine(gen, a);
    if (ok == NULL) {
        return p;
    }
    block_t fast = LLVMGetInsertBlock(B), slow = gen_block(gen, "slow"), on = gen_block(gen, "");
    gen_unlikely(gen, LLVMBuildCondBr(B, LLVMBuildNot(B, ok, ""), slow, on));
    LLVMPositionBuilderAtEnd(B, slow);
    gen_slow_strip(gen, a, offsetof(cpu_helpers_t, gather));
    val_t copy = gen_buffer(gen, BUFFER_DATA);
    block_t from = LLVMGetInsertBlock(B);
    gen_goto(gen, on);
    val_t phi = LLVMBuildPhi(B, gen->ptr, "");
    LLVMAddIncoming(phi, (val_t[]){p, copy}, (block_t[]){fast, from}, 2);
    return phi;
}

val_t gen_checked_store(cpu_gen_t *gen, const gen_addr_t *a, val_t values, block_t done)
{
    val_t p = gen_to_pointer(gen, a, a->first), ok = strip_is_fine(gen, a);
    if (ok == NULL) {
        return p;
    }
    block_t slow = gen_block(gen, "slow"), on = gen_block(gen, "");
    gen_unlikely(gen, LLVMBuildCondBr(B, LLVMBuildNot(B, ok, ""), slow, on));
    LLVMPositionBuilderAtEnd(B, slow);
    LLVMSetAlignment(LLVMBuildStore(B, values, gen_buffer(gen, BUFFER_DATA)), 64);
    gen_slow_strip(gen, a, offsetof(cpu_helpers_t, scatter));
    LLVMBuildBr(B, done);
    LLVMPositionBuilderAtEnd(B, on);
    return p;
}

/* ---- lane by lane ---- */

static val_t lanes_to_host(cpu_gen_t *gen, const gen_addr_t *a, val_t v)
{
    val_t base;
    if (a->space == PTX_SPACE_SHARED) {
        base = gen_splat(gen, LLVMBuildPtrToInt(B, gen->shared, gen->i64, ""));
    } else if (a->space == PTX_SPACE_LOCAL) {
        gen->uses_local = true;
        val_t at = LLVMBuildZExt(B, gen->linear[gen->g], gen->i64, "");
        at = LLVMBuildMul(B, at, gen_like(at, frame_bytes(gen)), "");
        at = LLVMBuildAdd(B, at, LLVMBuildPtrToInt(B, gen->local, gen->i64, ""), "");
        base = LLVMBuildAdd(B, gen_splat(gen, at),
                            gen_lanes(gen, gen->i64, (int64_t)frame_bytes(gen)), "");
    } else {
        return v;
    }
    return LLVMBuildAdd(B, v, base, "");
}

void gen_check_lanes(cpu_gen_t *gen, const gen_addr_t *a, val_t addresses)
{
    if (gen->options->unchecked || a->covered) {
        return;
    }
    val_t bad = LLVMBuildNot(B, gen_fast_check(gen, a, addresses, size_of(a)), "");
    bad = gen->mask != NULL ? LLVMBuildAnd(B, bad, gen->mask, "") : bad;
    block_t slow = gen_block(gen, "slow"), on = gen_block(gen, "");
    gen_unlikely(gen, LLVMBuildCondBr(B, gen_any(gen, bad), slow, on));
    LLVMPositionBuilderAtEnd(B, slow);
    gen_slow_lanes(gen, a, addresses);
    gen_goto(gen, on);
}

val_t gen_checked_lanes(cpu_gen_t *gen, const gen_addr_t *a)
{
    val_t v = gen_addresses(gen, a);
    gen_check_lanes(gen, a, v);
    v = lanes_to_host(gen, a, v);
    if (gen->mask != NULL) {
        val_t harmless = LLVMBuildPtrToInt(B, gen_buffer(gen, BUFFER_DATA), gen->i64, "");
        v = LLVMBuildSelect(B, gen->mask, v, gen_splat(gen, harmless), "");
    }
    return v;
}

val_t gen_strip_number(cpu_gen_t *gen, unsigned g)
{
    val_t first = LLVMBuildMul(B, gen->group, LLVMConstInt(gen->i32, gen->G, 0), "");
    return LLVMBuildAdd(B, first, LLVMConstInt(gen->i32, g, 0), "");
}

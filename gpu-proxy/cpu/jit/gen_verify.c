/* One check for several accesses.
 *
 * Unrolled code reads x[0], x[32], x[64]... through one register. The first such access of a node is
 * checked over the extent of all that follow it: they will happen, or the function is left. If that
 * fails, a helper looks at every access exactly. What remains to be asked at each access is only
 * whether an inner index wraps, where there is one. */
#include "gpu-proxy/cpu/jit/gen.h"

#include <limits.h>

#define B gen->b

enum { MAX_MEMBERS = 128 };

typedef struct {
    int64_t offsets[MAX_MEMBERS];
    unsigned count;
    int64_t low, high;
    bool write;
    const ptx_instr_t *end; /* of spaced ones: where a copy of them may be old */
} family_t;

void gen_verify_reset(cpu_gen_t *gen)
{
    gen->verified_count = 0;
}

void gen_verify_forget(cpu_gen_t *gen, uint32_t reg)
{
    unsigned kept = 0;
    for (unsigned n = 0; n < gen->verified_count; n++) {
        if (gen->verified[n].reg != reg) {
            gen->verified[kept++] = gen->verified[n];
        }
    }
    gen->verified_count = kept;
}

static unsigned slot_of(const cpu_gen_t *gen, uint32_t reg)
{
    return gen->a->values[reg].per_strip ? gen->g : 0;
}

static gen_verified_t *find(cpu_gen_t *gen, const gen_addr_t *a, unsigned size)
{
    int64_t offset = ptx_operand_offset(a->o);
    for (unsigned n = 0; n < gen->verified_count; n++) {
        gen_verified_t *v = &gen->verified[n];
        if (v->reg == a->o->index && v->g == slot_of(gen, v->reg) && v->size == size &&
            v->space == a->space && offset >= v->low && offset <= v->high &&
            (offset - v->low) % size == 0 && (v->write || !a->write) &&
            (v->stretch == NULL || gen->i < v->end)) {
            return v;
        }
    }
    return NULL;
}

static void note_def(void *context, uint32_t reg)
{
    uint32_t *wanted = context;
    if (reg == *wanted) {
        *wanted = PTX_NONE;
    }
}

/* Do the offsets stay within one lane's share of a stretch? */
static bool fits(const family_t *f, int64_t at, int64_t size, int64_t stride)
{
    int64_t low = at < f->low ? at : f->low, high = at > f->high ? at : f->high;
    return high - low <= stride - size;
}

/* Instructions behind which memory may be another. */
static bool may_store(const ptx_instr_t *i)
{
    switch (i->op) {
    case PTX_OP_ST:
    case PTX_OP_ATOM:
    case PTX_OP_RED:
    case PTX_OP_MEMBAR:
    case PTX_OP_CP:
    case PTX_OP_MBARRIER:
    case PTX_OP_WMMA:
    case PTX_OP_STMATRIX:
    case PTX_OP_SUST:
    case PTX_OP_SURED:
    case PTX_OP_RUNTIME:
    case PTX_OP_BAR:
    case PTX_OP_BAR_CLUSTER:
    case PTX_OP_BAR_WARP:
        return true;
    default:
        return false;
    }
}

/* The accesses from the present one on that go through the same register in the same way. */
static void gather_family(const cpu_gen_t *gen, const gen_addr_t *a, unsigned size, family_t *f)
{
    const cpu_node_t *n = &gen->a->nodes[gen->node];
    int64_t first = ptx_operand_offset(a->o);
    f->low = f->high = first;
    f->end = gen->i;
    bool spaced = gen_address_spacing(gen, a) != 0;
    for (const ptx_instr_t *i = gen->i; i < &gen->f->instrs[n->first + n->count]; i++) {
        bool load = i->op == PTX_OP_LD || i->op == PTX_OP_LDU, store = i->op == PTX_OP_ST;
        if (spaced && may_store(i) && i != gen->i) {
            return;
        }
        if ((load || store) && i->guard == PTX_NONE && i->space == a->space &&
            f->count < MAX_MEMBERS) {
            const ptx_operand_t *o = ptx_src(gen->f, i, 0);
            unsigned bytes = ptx_type_size((ptx_type_t)i->type) * (i->vec > 1 ? i->vec : 1);
            int64_t at = ptx_operand_offset(o);
            if (o->base == PTX_OPERAND_REG && o->index == a->o->index && bytes == size &&
                (at - first) % (int64_t)size == 0 && (!spaced || fits(f, at, size, a->stride))) {
                f->offsets[f->count++] = at;
                f->low = at < f->low ? at : f->low;
                f->high = at > f->high ? at : f->high;
                f->write |= store;
            }
        }
        if (spaced && may_store(i)) {
            return;
        }
        uint32_t reg = a->o->index;
        cpu_visit_defs(gen->f, i, note_def, &reg);
        if (reg == PTX_NONE || i->op == PTX_OP_TRAP) {
            return;
        }
        f->end = i + 1;
    }
}

static uint64_t span_of(const cpu_gen_t *gen, const gen_addr_t *a, unsigned size)
{
    return gen_address_uniform(gen, a) ? size : (uint64_t)a->stride * (gen->W - 1) + size;
}

enum { NO_COPY = UINT_MAX };

static bool is_taken(const cpu_gen_t *gen, unsigned copy)
{
    for (unsigned k = 0; k < gen->verified_count; k++) {
        if (gen->verified[k].copy == copy) {
            return true;
        }
    }
    return false;
}

/* A buffer for the copy of a stretch that several accesses read: between them others may be copied. */
static unsigned free_copy(cpu_gen_t *gen)
{
    unsigned n = 0;
    while (is_taken(gen, n)) {
        n++;
    }
    if (gen->copies[n] == NULL) {
        gen->copies[n] = gen_alloca(gen, LLVMArrayType2(gen->i8, GEN_STRETCH_BYTES), 64);
    }
    return n;
}

/* One check for the whole family, from `low` on. Where spaced elements begin: `stretch`, or their copy. */
static val_t check_family(cpu_gen_t *gen, const gen_addr_t *a, const family_t *f, val_t low,
                          val_t stretch, unsigned number)
{
    uint64_t extent = (uint64_t)(f->high - f->low) + span_of(gen, a, a->bytes * a->count);
    val_t ok = gen_fast_check(gen, a, low, extent);
    block_t fast = LLVMGetInsertBlock(B), slow = gen_block(gen, "slow"), on = gen_block(gen, "");
    gen_unlikely(gen, LLVMBuildCondBr(B, LLVMBuildNot(B, ok, ""), slow, on));
    LLVMPositionBuilderAtEnd(B, slow);
    val_t copy = number != NO_COPY ? gen->copies[number] : gen_buffer(gen, BUFFER_DATA);
    if (stretch != NULL) {
        gen_slow_stretch(gen, a, f->offsets, f->count, copy);
    } else {
        gen_slow_offsets(gen, a, f->write, f->offsets, f->count);
    }
    block_t from = LLVMGetInsertBlock(B);
    gen_goto(gen, on);
    if (stretch == NULL) {
        return NULL;
    }
    val_t phi = LLVMBuildPhi(B, gen->ptr, "");
    LLVMAddIncoming(phi, (val_t[]){stretch, copy}, (block_t[]){fast, from}, 2);
    return phi;
}

const gen_verified_t *gen_verify(cpu_gen_t *gen, const gen_addr_t *a)
{
    unsigned size = a->bytes * a->count;
    bool spaced = gen_address_spacing(gen, a) != 0;
    if (a->o->base != PTX_OPERAND_REG || gen->i->guard != PTX_NONE) {
        return NULL;
    }
    gen_verified_t *v = find(gen, a, size);
    if (v != NULL) {
        return v;
    }
    family_t f = {.count = 0};
    gather_family(gen, a, size, &f);
    if ((f.count < 2 && !spaced) || gen->verified_count == GEN_MAX_VERIFIED) {
        return NULL;
    }
    int64_t back = ptx_operand_offset(a->o) - f.low;
    val_t low = LLVMBuildSub(B, a->first, gen_like(a->first, (uint64_t)back), "");
    val_t stretch = spaced ? gen_to_pointer(gen, a, low) : NULL;
    unsigned copy = NO_COPY;
    if (!a->covered) {
        copy = spaced && f.count > 1 ? free_copy(gen) : NO_COPY;
        stretch = check_family(gen, a, &f, low, stretch, copy);
    }
    v = &gen->verified[gen->verified_count++];
    *v = (gen_verified_t){.reg = a->o->index,
                          .g = slot_of(gen, a->o->index),
                          .size = size,
                          .space = a->space,
                          .low = f.low,
                          .high = f.high,
                          .write = f.write,
                          .fine = a->whole,
                          .stretch = stretch,
                          .end = f.end,
                          .copy = copy};
    return v;
}

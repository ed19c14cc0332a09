/* Loops whose addresses are checked ahead.
 *
 * Where the addresses of a loop go on in lines (gen_lines.c), the first and the last one of many
 * iterations say that all between are fine. So a loop has two forms:
 *
 *   fast[header]   how many iterations are to come (a guess); are all their addresses fine?
 *                  then credit = that many, and on with quick[header], else one careful iteration
 *   careful        the body with its checks; the next iteration asks again
 *   quick          the body without them; each iteration takes one off the credit, and the one that
 *                  takes the last looks whether the launch is cancelled, and asks again
 *
 * Nothing is touched before its iteration comes: only addresses are computed early. */
#include "gpu-proxy/cpu/jit/gen_ahead.h"

#define B gen->b

enum {
    MOST_ITERATIONS = 4096, /* between two looks at the cancel flag */
    GUESS = 32,             /* iterations, where nothing is known */
    MOST_SPANS = 100,       /* pairs of addresses fit the buffer */
    MOST_INSTRS = 400,      /* of a loop: its code doubles */
    MOST_GROUP_INSTRS = 2400,
    STEP_BITS = 40
};

/* Accesses that go through one register in the same way. */
typedef struct {
    uint32_t reg;
    uint8_t base; /* ptx_operand_kind_t of what reg means */
    bool moved;   /* behind the register's own step */
    unsigned g, size, space;
    int64_t low, high; /* offsets */
    uint64_t extent;   /* of the lanes, from the first one's address */
    val_t first, step; /* i64 */
} span_t;

typedef struct {
    span_t spans[MOST_SPANS];
    unsigned count;
    val_t low[2], high[2]; /* of the window (0) and of shared memory (1) */
    val_t odd;             /* bits that should be 0 */
} survey_t;

/* ---- which loops ---- */

static bool is_access(const ptx_instr_t *i)
{
    bool memory = i->op == PTX_OP_LD || i->op == PTX_OP_LDU || i->op == PTX_OP_ST;
    return memory && i->space != PTX_SPACE_LOCAL && i->space != PTX_SPACE_PARAM;
}

static uint32_t loop_of_header(const cpu_analysis_t *a, uint32_t b)
{
    uint32_t l = a->nodes[b].loop;
    if (l == CPU_NO_LOOP || a->loops[l].header != b || a->loops[l].deferred) {
        return CPU_NO_LOOP;
    }
    for (uint32_t x = b; x <= a->loops[l].last; x++) {
        if (a->nodes[x].loop != l || a->nodes[x].end == CPU_END_BARRIER) {
            return CPU_NO_LOOP; /* another one inside */
        }
    }
    return l;
}

static bool worth_it(const cpu_gen_t *gen, const cpu_loop_t *l)
{
    uint32_t count = 0;
    bool any = false;
    for (uint32_t b = l->header; b <= l->last; b++) {
        const cpu_node_t *n = &gen->a->nodes[b];
        count += n->count;
        for (uint32_t k = 0; k < n->count; k++) {
            const ptx_instr_t *i = &gen->f->instrs[n->first + k];
            any |= is_access(i) &&
                   cpu_operand_form(gen->a, ptx_src(gen->f, i, 0)).tag == CPU_FORM_AFFINE;
        }
    }
    return any && count <= MOST_INSTRS && count * gen->G <= MOST_GROUP_INSTRS;
}

typedef struct {
    gen_ahead_t *h;
    uint64_t place;
} note_t;

static void note_def(void *context, uint32_t reg)
{
    note_t *n = context;
    n->h->defs[reg] += n->h->defs[reg] < 2;
    n->h->def[reg] = n->place;
}

/* Atomic operations on shared memory: an iteration with such is so long that the loads of the next one do
 * not begin before it ends. */
static bool goes_lane_by_lane(const ptx_instr_t *i)
{
    return (i->op == PTX_OP_ATOM || i->op == PTX_OP_RED) && i->space == PTX_SPACE_SHARED;
}

gen_ahead_t *gen_ahead_describe(cpu_gen_t *gen, uint32_t loop)
{
    const cpu_loop_t *l = &gen->a->loops[loop];
    gen_ahead_t *h = cpu_arena_alloc(gen->arena, 1, sizeof *h);
    h->header = l->header;
    h->end = l->last;
    h->latch = PTX_NONE;
    h->grid = cpu_loop_strides_grid(gen->a, loop);
    h->defs = cpu_arena_alloc(gen->arena, gen->f->reg_count + 1, sizeof *h->defs);
    h->def = cpu_arena_alloc(gen->arena, gen->f->reg_count + 1, sizeof *h->def);
    for (uint32_t b = l->header; b <= l->last; b++) {
        const cpu_node_t *n = &gen->a->nodes[b];
        uint32_t count = n->count + (n->end == CPU_END_BARRIER);
        for (uint32_t k = 0; k < count; k++) {
            uint32_t at = k < n->count ? n->first + k : n->last;
            note_t note = {h, gen_place(b, at)};
            cpu_visit_defs(gen->f, &gen->f->instrs[at], note_def, &note);
            h->busy |= goes_lane_by_lane(&gen->f->instrs[at]);
        }
        for (unsigned s = 0; s < (n->end == CPU_END_BRANCH ? 2 : 1); s++) {
            if (n->succ[s] == l->header) {
                h->latch = h->latch == PTX_NONE ? b : CPU_NODE_EXIT;
            }
        }
    }
    return h;
}

/* With what a loop that has a quick form needs more. */
static gen_ahead_t *describe(cpu_gen_t *gen, uint32_t loop)
{
    gen_ahead_t *h = gen_ahead_describe(gen, loop);
    h->covered = cpu_arena_alloc(gen->arena, gen->f->instr_count + 1, sizeof *h->covered);
    h->step = cpu_arena_alloc(gen->arena, gen->f->instr_count + 1, sizeof *h->step);
    h->far = cpu_arena_alloc(gen->arena, gen->f->instr_count + 1, sizeof *h->far);
    h->quick = cpu_arena_alloc(gen->arena, gen->a->node_count, sizeof *h->quick);
    h->credit = gen_alloca(gen, gen->i32, 4);
    for (uint32_t b = h->header; b <= h->end; b++) {
        h->quick[b] = gen_block(gen, "quick");
    }
    return h;
}

/* ---- how many iterations ---- */

static val_t to_i64(cpu_gen_t *gen, val_t v, bool sign)
{
    return LLVMTypeOf(v) == gen->i64 ? v
           : sign                    ? LLVMBuildSExt(B, v, gen->i64, "")
                                     : LLVMBuildZExt(B, v, gen->i64, "");
}

/* |distance| / |step|, rounded up if `up`; both i64. */
static val_t steps_to(cpu_gen_t *gen, val_t distance, val_t step, bool up)
{
    val_t by = step;
    if (LLVMIsAConstantInt(step) != NULL) {
        int64_t s = LLVMConstIntGetSExtValue(step);
        if (s == 0) {
            return NULL;
        }
        if (s < 0) {
            distance = LLVMBuildNeg(B, distance, "");
        }
        by = gen_like(step, (uint64_t)(s < 0 ? -s : s));
    } else { /* steps that programs have fit 32 bits, and such divisions are quick */
        val_t negative = LLVMBuildICmp(B, LLVMIntSLT, step, gen_like(step, 0), "");
        distance = LLVMBuildSelect(B, negative, LLVMBuildNeg(B, distance, ""), distance, "");
        by = LLVMBuildSelect(B, negative, LLVMBuildNeg(B, step, ""), step, "");
        by = gen_call2(gen, "llvm.umax", by, gen_like(by, 1));
        by = gen_call2(gen, "llvm.umin", by, gen_like(by, INT32_MAX));
    }
    distance = gen_call2(gen, "llvm.smax", distance, gen_like(distance, 0));
    distance = gen_call2(gen, "llvm.smin", distance, gen_like(distance, INT32_MAX));
    if (up) {
        distance = LLVMBuildAdd(B, distance, LLVMBuildSub(B, by, gen_like(by, 1), ""), "");
    }
    val_t d = LLVMBuildTrunc(B, distance, gen->i32, "");
    return LLVMBuildUDiv(B, d, LLVMBuildTrunc(B, by, gen->i32, ""), "");
}

/* From the comparison that ends the loop at node b: how often it holds from now on, as i32. */
static val_t times_it_holds(cpu_gen_t *gen, gen_ahead_t *h, uint32_t b)
{
    const cpu_node_t *n = &gen->a->nodes[b];
    if (h->defs[n->guard] != 1) {
        return NULL;
    }
    uint64_t place = h->def[n->guard];
    const ptx_instr_t *i = &gen->f->instrs[(uint32_t)place];
    unsigned bits = ptx_type_size((ptx_type_t)i->type) * 8;
    if (i->op != PTX_OP_SETP || i->boolop != PTX_BOOL_NONE || i->guard != PTX_NONE || bits < 32 ||
        ptx_type_is_float((ptx_type_t)i->type)) {
        return NULL;
    }
    val_t kept = h->fine; /* a guess has no conditions */
    gen->g = 0;
    gen_line_t x = gen_line(gen, h, ptx_src(gen->f, i, 0), place, bits);
    gen_line_t y = gen_line(gen, h, ptx_src(gen->f, i, 1), place, bits);
    h->fine = kept;
    if (!x.known || !y.known || x.index != NULL || y.index != NULL) {
        return NULL;
    }
    if (gen_line_still(&x)) {
        gen_line_t swap = x;
        x = y;
        y = swap;
    }
    if (gen_line_still(&x) || !gen_line_still(&y)) {
        return NULL;
    }
    bool sign = ptx_type_is_signed((ptx_type_t)i->type);
    val_t distance = LLVMBuildSub(B, to_i64(gen, y.base, sign), to_i64(gen, x.base, sign), "");
    bool goes_on = (n->succ[0] >= h->header && n->succ[0] <= h->end) != (n->negated != 0);
    bool with_equal = i->cmp == PTX_CMP_LE || i->cmp == PTX_CMP_GE || i->cmp == PTX_CMP_LS ||
                      i->cmp == PTX_CMP_HS;
    bool equality = i->cmp == PTX_CMP_EQ || i->cmp == PTX_CMP_NE;
    bool up = equality || with_equal != goes_on; /* equal: it ends */
    val_t count = steps_to(gen, distance, to_i64(gen, x.base_step, true), up);
    return count == NULL || up ? count : LLVMBuildAdd(B, count, gen_like(count, 1), "");
}

/* Iterations to come, from 1 to MOST_ITERATIONS. May be wrong: it is only what will be checked. */
static val_t guess(cpu_gen_t *gen, gen_ahead_t *h)
{
    val_t count = NULL;
    for (uint32_t b = h->header; b <= h->end; b++) {
        const cpu_node_t *n = &gen->a->nodes[b];
        bool leaves = false;
        for (unsigned s = 0; s < 2; s++) {
            leaves |= n->succ[s] < h->header || n->succ[s] > h->end;
        }
        if (n->end != CPU_END_BRANCH || !leaves) {
            continue;
        }
        val_t more = times_it_holds(gen, h, b);
        if (more == NULL) {
            continue;
        }
        if (b == h->latch) { /* the iteration before the comparison counts too */
            more = LLVMBuildAdd(B, more, gen_like(more, 1), "");
        }
        count = count == NULL ? more : gen_call2(gen, "llvm.umin", count, more);
    }
    if (count == NULL) {
        return LLVMConstInt(gen->i32, GUESS, 0);
    }
    count = gen_call2(gen, "llvm.umax", count, gen_like(count, 1));
    return gen_call2(gen, "llvm.umin", count, gen_like(count, MOST_ITERATIONS));
}

/* ---- the addresses ---- */

static bool same_way(const span_t *x, const span_t *y)
{
    return x->reg == y->reg && x->base == y->base && x->moved == y->moved && x->g == y->g &&
           x->size == y->size && x->space == y->space;
}

static bool step_is_sane(cpu_gen_t *gen, gen_ahead_t *h, val_t step)
{
    uint64_t most = (uint64_t)1 << STEP_BITS;
    if (LLVMIsAConstantInt(step) != NULL) {
        int64_t s = LLVMConstIntGetSExtValue(step);
        return s > -(int64_t)most && s < (int64_t)most;
    }
    val_t t = LLVMBuildAdd(B, step, gen_like(step, most), "");
    gen_line_need(gen, h, LLVMBuildICmp(B, LLVMIntULT, t, gen_like(t, 2 * most), ""));
    return true;
}

/* Lane 0's address, without offset, and what an iteration adds to it. */
static bool follow(cpu_gen_t *gen, gen_ahead_t *h, const ptx_operand_t *o, uint64_t place,
                   const cpu_form_t *form, span_t *s)
{
    s->step = gen_line_address(gen, h, o, place, form, &s->first);
    return s->step != NULL && step_is_sane(gen, h, s->step);
}

/* Takes one access of strip gen->g into the survey; false if it must be checked when it comes. */
static bool take(cpu_gen_t *gen, gen_ahead_t *h, survey_t *v, const ptx_instr_t *i, uint64_t place)
{
    enum { FAR = 1 << 20 };
    const ptx_operand_t *o = ptx_src(gen->f, i, 0);
    cpu_form_t form = cpu_operand_form(gen->a, o);
    int64_t offset = ptx_operand_offset(o);
    bool reg = o->base == PTX_OPERAND_REG;
    if (form.tag != CPU_FORM_AFFINE || (!reg && o->base != PTX_OPERAND_VAR)) {
        return false;
    }
    int64_t stride =
        (int64_t)((uint64_t)form.stride + (uint64_t)form.scale * (uint64_t)(int64_t)form.step);
    span_t s = {.reg = o->index,
                .base = o->base,
                .moved = reg && h->defs[o->index] != 0 && place > h->def[o->index],
                .g = reg && gen->a->values[o->index].per_strip ? gen->g : 0,
                .size = ptx_type_size((ptx_type_t)i->type) * (i->vec > 1 ? i->vec : 1),
                .space = i->space,
                .low = offset,
                .high = offset};
    if (stride < 0 || stride > FAR || stride % s.size != 0 || offset > FAR || offset < -FAR) {
        return false;
    }
    for (unsigned n = 0; n < v->count; n++) {
        span_t *t = &v->spans[n];
        if (same_way(t, &s) && (offset - t->low) % (int64_t)s.size == 0) {
            t->low = offset < t->low ? offset : t->low;
            t->high = offset > t->high ? offset : t->high;
            h->step[(uint32_t)place] = t->step;
            return true;
        }
    }
    s.extent = (uint64_t)stride * (gen->W - 1) + s.size;
    if (v->count == MOST_SPANS || !follow(gen, h, o, place, &form, &s)) {
        return false;
    }
    h->step[(uint32_t)place] = s.step;
    v->spans[v->count++] = s;
    return true;
}

/* Every access in every strip; true if some are covered. */
static bool survey(cpu_gen_t *gen, gen_ahead_t *h, survey_t *v)
{
    bool any = false;
    for (uint32_t b = h->header; b <= h->end; b++) {
        const cpu_node_t *n = &gen->a->nodes[b];
        for (uint32_t k = 0; k < n->count; k++) {
            const ptx_instr_t *i = &gen->f->instrs[n->first + k];
            if (!is_access(i)) {
                continue;
            }
            bool all = true;
            for (gen->g = 0; all && gen->g < gen->G; gen->g++) {
                all = take(gen, h, v, i, gen_place(b, n->first + k));
            }
            h->covered[n->first + k] = all;
            any |= all;
        }
    }
    gen->g = 0;
    return any;
}

/* Where the span begins, and the end behind it, over all iterations. */
static void bounds(cpu_gen_t *gen, const gen_ahead_t *h, const span_t *s, val_t *low, val_t *high)
{
    val_t first = LLVMBuildAdd(B, s->first, gen_like(s->first, (uint64_t)s->low), "");
    val_t last = LLVMBuildAdd(B, first, LLVMBuildMul(B, h->last, s->step, ""), "");
    bool fixed = LLVMIsAConstantInt(s->step) != NULL;
    int64_t step = fixed ? LLVMConstIntGetSExtValue(s->step) : 0;
    *low = !fixed ? gen_call2(gen, "llvm.umin", first, last) : step < 0 ? last : first;
    *high = !fixed ? gen_call2(gen, "llvm.umax", first, last) : step < 0 ? first : last;
    uint64_t extent = (uint64_t)(s->high - s->low) + s->extent;
    *high = gen_call2(gen, "llvm.uadd.sat", *high, gen_like(*high, extent));
}

static void add_span(cpu_gen_t *gen, const gen_ahead_t *h, survey_t *v, const span_t *s)
{
    val_t low, high;
    unsigned where = s->space == PTX_SPACE_SHARED;
    bounds(gen, h, s, &low, &high);
    v->low[where] = v->low[where] == NULL ? low : gen_call2(gen, "llvm.umin", v->low[where], low);
    v->high[where] =
        v->high[where] == NULL ? high : gen_call2(gen, "llvm.umax", v->high[where], high);
    if (s->size > 1) {
        val_t odd = LLVMBuildAdd(B, s->first, gen_like(s->first, (uint64_t)s->low), "");
        odd = LLVMBuildAnd(B, LLVMBuildOr(B, odd, s->step, ""), gen_like(odd, s->size - 1), "");
        v->odd = v->odd == NULL ? odd : LLVMBuildOr(B, v->odd, odd, "");
    }
}

/* Both sums that the spans have made are inside; the rest is in h->fine. */
static val_t inside_window(cpu_gen_t *gen, const survey_t *v)
{
    val_t end = LLVMBuildAdd(B, gen->window_base, gen->window_bytes, "");
    val_t low = LLVMBuildICmp(B, LLVMIntUGE, v->low[0], gen->window_base, "");
    return LLVMBuildAnd(B, low, LLVMBuildICmp(B, LLVMIntULE, v->high[0], end, ""), "");
}

/* Calls the helper that knows all ranges. */
static val_t ask(cpu_gen_t *gen, const gen_ahead_t *h, const survey_t *v)
{
    uint32_t count = 0;
    for (unsigned n = 0; n < v->count; n++) {
        val_t low, high;
        if (v->spans[n].space == PTX_SPACE_SHARED) {
            continue;
        }
        bounds(gen, h, &v->spans[n], &low, &high);
        LLVMBuildStore(B, low, gen_buffer(gen, BUFFER_DATA + 16 * count));
        LLVMBuildStore(B, high, gen_buffer(gen, BUFFER_DATA + 16 * count + 8));
        count++;
    }
    val_t args[3] = {gen->launch, gen_buffer(gen, BUFFER_DATA), LLVMConstInt(gen->i32, count, 0)};
    type_t params[3] = {gen->ptr, gen->ptr, gen->i32};
    type_t type = LLVMFunctionType(gen->i32, params, 3, 0);
    val_t yes = gen_helper(gen, offsetof(cpu_helpers_t, spans), &type, args, 3);
    return LLVMBuildICmp(B, LLVMIntNE, yes, gen_like(yes, 0), "");
}

/* Branches to the quick form if all that the survey found is fine, else to `careful`. */
static void decide(cpu_gen_t *gen, gen_ahead_t *h, survey_t *v, block_t careful)
{
    block_t quick = h->quick[h->header];
    for (unsigned n = 0; n < v->count; n++) {
        add_span(gen, h, v, &v->spans[n]);
    }
    if (v->odd != NULL) {
        gen_line_need(gen, h, LLVMBuildICmp(B, LLVMIntEQ, v->odd, gen_like(v->odd, 0), ""));
    }
    if (v->high[1] != NULL) {
        gen_line_need(gen, h, LLVMBuildICmp(B, LLVMIntULE, v->high[1], gen->shared_bytes, ""));
    }
    if (h->fine != NULL) {
        block_t on = gen_block(gen, "");
        gen_unlikely(gen, LLVMBuildCondBr(B, LLVMBuildNot(B, h->fine, ""), careful, on));
        LLVMPositionBuilderAtEnd(B, on);
    }
    if (v->high[0] == NULL) {
        LLVMBuildBr(B, quick);
        return;
    }
    block_t outside = gen_block(gen, "ask");
    gen_unlikely(gen,
                 LLVMBuildCondBr(B, LLVMBuildNot(B, inside_window(gen, v), ""), outside, quick));
    LLVMPositionBuilderAtEnd(B, outside);
    LLVMBuildCondBr(B, ask(gen, h, v), quick, careful);
}

/* ---- fetching ahead ---- */

/* How far ahead of its address the load should fetch, if at all. */
static val_t distance(cpu_gen_t *gen, const gen_ahead_t *h, const ptx_instr_t *i)
{
    enum { ITERATIONS = 2, CTAS = 2, MANY = 4 };
    val_t step = h->step[i - gen->f->instrs];
    int64_t pace =
        h->grid && !h->busy ? cpu_pace_of(gen->a, ptx_src(gen->f, i, 0), CPU_PACE_CTA) : 0;
    /* an iteration may be over before memory has answered */
    val_t iterations = LLVMBuildMul(B, step, gen_like(step, h->busy ? ITERATIONS : 0), "");
    if (pace == 0) {
        return h->busy ? iterations : NULL;
    }
    ptx_operand_t length = {.kind = PTX_OPERAND_SREG, .index = PTX_SREG_NCTAID_X};
    val_t grid = LLVMBuildZExt(B, gen_base(gen, &length, gen->i32), gen->i64, "");
    grid = LLVMBuildMul(B, grid, gen_like(grid, (uint64_t)pace), "");
    unsigned ctas = gen->G < MANY ? 1 : CTAS; /* few strips come back to a page soon */
    val_t strides = LLVMBuildICmp(B, LLVMIntEQ, step, grid, "");
    return LLVMBuildSelect(B, strides, gen_like(step, (uint64_t)pace * ctas), iterations, "");
}

/* Loads of strips that come too late by themselves, where the quick form is decided. */
static void find_distances(cpu_gen_t *gen, gen_ahead_t *h)
{
    for (uint32_t b = h->header; b <= h->end; b++) {
        const cpu_node_t *n = &gen->a->nodes[b];
        for (uint32_t k = n->first; k < n->first + n->count; k++) {
            const ptx_instr_t *i = &gen->f->instrs[k];
            if (h->covered[k] && i->op != PTX_OP_ST && i->space != PTX_SPACE_SHARED) {
                h->far[k] = distance(gen, h, i);
            }
        }
    }
}

static void drop_quick_blocks(const gen_ahead_t *h)
{
    for (uint32_t b = h->header; b <= h->end; b++) {
        LLVMDeleteBasicBlock(h->quick[b]);
    }
}

gen_ahead_t *gen_ahead_begin(cpu_gen_t *gen, uint32_t b)
{
    uint32_t l = gen->options->unchecked || gen->W == 1 ? CPU_NO_LOOP : loop_of_header(gen->a, b);
    if (l == CPU_NO_LOOP || !worth_it(gen, &gen->a->loops[l])) {
        return NULL;
    }
    gen_ahead_t *h = describe(gen, l);
    block_t careful = gen_block(gen, "careful");
    survey_t *v = cpu_arena_alloc(gen->arena, 1, sizeof *v);
    val_t count = guess(gen, h);
    h->last = LLVMBuildZExt(B, LLVMBuildSub(B, count, gen_like(count, 1), ""), gen->i64, "");
    LLVMBuildStore(B, count, h->credit);
    if (survey(gen, h, v)) {
        find_distances(gen, h);
        decide(gen, h, v, careful);
    } else {
        LLVMBuildBr(B, careful);
        drop_quick_blocks(h);
        h = NULL;
    }
    LLVMPositionBuilderAtEnd(B, careful);
    return h;
}

bool gen_ahead_covers(const cpu_gen_t *gen, const ptx_instr_t *i)
{
    return gen->ahead != NULL && i >= gen->f->instrs && i < gen->f->instrs + gen->f->instr_count &&
           gen->ahead->covered[i - gen->f->instrs];
}

void gen_ahead_fetch(cpu_gen_t *gen, const ptx_instr_t *i, val_t strip, uint64_t bytes)
{
    enum { LINE = 64 };
    const gen_ahead_t *h = gen->ahead;
    if (!gen_ahead_covers(gen, i) || h->far[i - gen->f->instrs] == NULL) {
        return;
    }
    val_t next = LLVMBuildGEP2(B, gen->i8, strip, &h->far[i - gen->f->instrs], 1, "");
    for (uint64_t at = 0; at < bytes; at += LINE) {
        gen_prefetch(gen, gen_offset(gen, next, at), h->busy ? GEN_ALL_CACHES : GEN_SECOND_CACHE);
    }
}

void gen_ahead_next(cpu_gen_t *gen)
{
    const gen_ahead_t *h = gen->ahead;
    block_t again = gen_block(gen, "");
    val_t left = LLVMBuildLoad2(B, gen->i32, h->credit, "");
    left = LLVMBuildSub(B, left, gen_like(left, 1), "");
    LLVMBuildStore(B, left, h->credit);
    LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntNE, left, gen_like(left, 0), ""),
                    h->quick[h->header], again);
    LLVMPositionBuilderAtEnd(B, again);
    gen_poll_cancel(gen);
    LLVMBuildBr(B, gen_fast_block(gen, h->header, h->header));
}

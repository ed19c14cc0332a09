/* The order in which a node's instructions are generated.
 *
 * Unrolled code that adds to many sums goes round all of them again and again. Where they do not fit
 * the vector registers together, each round would load and store every one of them. So the sums are
 * taken in lots that do fit: first all that the first lot needs, in the order of the program, then what
 * the second one needs beside that, and so on. Only stretches of instructions that neither store nor
 * depend on who takes part are treated so; what depends on what is kept. */
#include "gpu-proxy/cpu/jit/gen_state.h"

enum { FEW = 4, NONE = 0x7fffffff };

typedef struct use {
    uint32_t instr;
    struct use *next;
} use_t;

typedef struct {
    cpu_gen_t *gen;
    uint32_t first, count; /* the stretch */
    use_t **before;        /* per instruction: those that must come before it */
    uint32_t *def;         /* per register: its last definition so far */
    use_t **readers;       /* per register: since then */
    bool *wanted, *done;
    uint32_t now;
} order_t;

/* Does it look at something that changes by itself? */
static bool reads_clock(const ptx_function_t *f, const ptx_instr_t *i)
{
    for (unsigned n = 0; n < i->src_count; n++) {
        const ptx_operand_t *o = ptx_src(f, i, n);
        if (o->kind == PTX_OPERAND_SREG && o->index >= PTX_SREG_CLOCK &&
            o->index <= PTX_SREG_GLOBALTIMER_HI) {
            return true;
        }
    }
    return false;
}

static bool may_move(const cpu_gen_t *gen, const ptx_instr_t *i)
{
    bool load = (i->op == PTX_OP_LD || i->op == PTX_OP_LDU) && i->sem == PTX_SEM_NONE &&
                i->space != PTX_SPACE_LOCAL;
    bool simple = load || (gen_instr_is_pure(i) && (i->flags & PTX_F_CC) == 0);
    return gen->W > 1 && i->guard == PTX_NONE && simple && !reads_clock(gen->f, i);
}

static use_t *link_to(order_t *o, uint32_t instr, use_t *next)
{
    use_t *u = cpu_arena_alloc(o->gen->arena, 1, sizeof *u);
    u->instr = instr;
    u->next = next;
    return u;
}

static void after(order_t *o, uint32_t earlier)
{
    if (earlier != NONE && earlier != o->now) {
        o->before[o->now] = link_to(o, earlier, o->before[o->now]);
    }
}

static void note_use(void *context, uint32_t reg)
{
    order_t *o = context;
    after(o, o->def[reg]);
    o->readers[reg] = link_to(o, o->now, o->readers[reg]);
}

static void note_def(void *context, uint32_t reg)
{
    order_t *o = context;
    after(o, o->def[reg]);
    for (const use_t *u = o->readers[reg]; u != NULL; u = u->next) {
        after(o, u->instr);
    }
    o->def[reg] = o->now;
    o->readers[reg] = NULL;
}

static void find_dependences(order_t *o)
{
    cpu_arena_t *arena = o->gen->arena;
    const ptx_function_t *f = o->gen->f;
    o->before = cpu_arena_alloc(arena, o->count, sizeof *o->before);
    o->def = cpu_arena_alloc(arena, f->reg_count + 1, sizeof *o->def);
    o->readers = cpu_arena_alloc(arena, f->reg_count + 1, sizeof *o->readers);
    o->wanted = cpu_arena_alloc(arena, o->count, 1);
    o->done = cpu_arena_alloc(arena, o->count, 1);
    for (uint32_t r = 0; r < f->reg_count; r++) {
        o->def[r] = NONE;
    }
    for (o->now = 0; o->now < o->count; o->now++) {
        const ptx_instr_t *i = &f->instrs[o->first + o->now];
        cpu_visit_uses(f, i, note_use, o);
        cpu_visit_defs(f, i, note_def, o);
    }
}

/* Marks an instruction and all that must come before it. Those have smaller numbers. */
static void want(order_t *o, uint32_t instr)
{
    o->wanted[instr] = true;
    for (uint32_t k = instr + 1; k-- > 0;) {
        for (const use_t *u = o->wanted[k] ? o->before[k] : NULL; u != NULL; u = u->next) {
            o->wanted[u->instr] = true;
        }
    }
}

static void generate(order_t *o, bool all)
{
    for (uint32_t k = 0; k < o->count && !o->gen->failed; k++) {
        if ((all || o->wanted[k]) && !o->done[k]) {
            o->done[k] = true;
            gen_instr(o->gen, &o->gen->f->instrs[o->first + k]);
        }
    }
}

/* Is the register alive behind the node? */
static bool lives_on(const cpu_gen_t *gen, const cpu_node_t *n, uint32_t reg)
{
    for (unsigned s = 0; s < (n->end == CPU_END_BRANCH ? 2 : 1); s++) {
        if (n->succ[s] != CPU_NODE_EXIT && cpu_bits_has(gen->a->live_in[n->succ[s]], reg)) {
            return true;
        }
    }
    return false;
}

/* Vectors that fit the registers together, beside what the sums are made of. */
static unsigned lot_size(const cpu_gen_t *gen)
{
    unsigned lanes = gen->avx512 ? 16 : 8, registers = gen->avx512 ? 16 : 8;
    unsigned each = gen->W > lanes ? gen->W / lanes * gen->G : gen->G;
    return registers / each > 0 ? registers / each : 1;
}

static void generate_stretch(cpu_gen_t *gen, const cpu_node_t *n, uint32_t first, uint32_t count)
{
    order_t o = {.gen = gen, .first = first, .count = count};
    uint32_t regs = gen->f->reg_count, sums = 0;
    uint32_t *sum = cpu_arena_alloc(gen->arena, count + 1, sizeof *sum);
    if (count > lot_size(gen) * FEW) {
        find_dependences(&o);
        bool *last = cpu_arena_alloc(gen->arena, count, 1);
        for (uint32_t r = 0; r < regs; r++) {
            if (o.def[r] != NONE && gen->a->values[r].form.tag == CPU_FORM_VARYING &&
                gen->f->regs[r].type != PTX_PRED && lives_on(gen, n, r)) {
                last[o.def[r]] = true;
            }
        }
        for (uint32_t k = 0; k < count; k++) {
            if (last[k]) {
                sum[sums++] = k;
            }
        }
    }
    if (sums <= lot_size(gen) || count < sums * FEW) {
        for (uint32_t k = 0; k < count && !gen->failed; k++) {
            gen_instr(gen, &gen->f->instrs[first + k]);
        }
        return;
    }
    for (uint32_t s = 0; s < sums; s++) {
        want(&o, sum[s]);
        if ((s + 1) % lot_size(gen) == 0) {
            generate(&o, false);
        }
    }
    generate(&o, true);
}

void gen_node_body(cpu_gen_t *gen, const cpu_node_t *n)
{
    uint32_t end = n->first + n->count;
    gen_verify_reset(gen);
    for (uint32_t k = n->first; k < end && !gen->failed;) {
        uint32_t first = k;
        while (k < end && may_move(gen, &gen->f->instrs[k])) {
            k++;
        }
        if (k > first) {
            generate_stretch(gen, n, first, k - first);
        } else {
            gen_instr(gen, &gen->f->instrs[k++]);
        }
    }
}

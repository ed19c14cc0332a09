/* Where a group may split, and what that forces.
 *
 * A divergent branch d sends some lanes to one side and some to the other, until both meet at its
 * immediate postdominator p - or outside of the loop, if a side can come to p by way of the next
 * iteration: lanes that wait for that see the others pass p. While node b of one side runs, lanes of
 * the other side wait at nodes of theirs, or at p. A register that b writes and that is alive where
 * they wait must be kept apart per lane (forced), if they can hold another value of it: if it has
 * other definitions, or if b can run again while they wait, that is if it is in a loop that they have
 * left, or if lanes of a side may be left behind and come later. A constant is the same each time;
 * forms of instructions count on it (a shift by it of what is uniform is uniform). */
#include "gpu-proxy/cpu/jit/analysis/analysis.h"

#include <string.h>

typedef struct {
    cpu_analysis_t *a;
    uint32_t d, p;
    cpu_bits_t side[2];
    bool left; /* lanes may be left behind: nodes run again for those that come later */
} split_t;

static bool loop_contains(const cpu_analysis_t *a, uint32_t loop, uint32_t node)
{
    return node != CPU_NODE_EXIT && node >= a->loops[loop].header && node <= a->loops[loop].last;
}

/* Nodes reachable from `from` without passing p. */
static void reach(const cpu_analysis_t *a, uint32_t from, uint32_t p, cpu_bits_t out,
                  uint32_t *stack)
{
    uint32_t depth = 0;
    if (from == CPU_NODE_EXIT || from == p) {
        return;
    }
    cpu_bits_add(out, from);
    stack[depth++] = from;
    while (depth > 0) {
        const cpu_node_t *n = &a->nodes[stack[--depth]];
        for (unsigned s = 0; s < (n->end == CPU_END_BRANCH ? 2 : 1); s++) {
            uint32_t t = n->succ[s];
            if (t != CPU_NODE_EXIT && t != p && !cpu_bits_has(out, t)) {
                cpu_bits_add(out, t);
                stack[depth++] = t;
            }
        }
    }
}

/* Is there a back-edge to h from a node of the set (or d) before b? Then lanes may wait at h. */
static bool early_latch(const split_t *t, unsigned other, uint32_t h, uint32_t b)
{
    const cpu_analysis_t *a = t->a;
    for (uint32_t u = h; u < b; u++) {
        const cpu_node_t *n = &a->nodes[u];
        for (unsigned s = 0; s < (n->end == CPU_END_BRANCH ? 2 : 1); s++) {
            if (n->succ[s] == h && (u == t->d || cpu_bits_has(t->side[other], u))) {
                return true;
            }
        }
    }
    return false;
}

/* What lanes of one side need that wait while a node of the other side runs, as sets of registers. The
 * nodes are looked at from the last one on. */
typedef struct {
    split_t *t;
    unsigned other;    /* the side that waits */
    uint32_t b;        /* the node that runs */
    bool again;        /* it can run again while they wait */
    cpu_bits_t always; /* wherever b is: at p, behind barriers, where lanes are held */
    cpu_bits_t later;  /* at nodes behind b */
    cpu_bits_t early;  /* at headers of b's loops, for the next iteration */
} wait_t;

static void begin_waits(wait_t *w)
{
    const cpu_analysis_t *a = w->t->a;
    cpu_bits_t side = w->t->side[w->other];
    w->always = cpu_bits_new(a->arena, a->f->reg_count);
    w->later = cpu_bits_new(a->arena, a->f->reg_count);
    w->early = cpu_bits_new(a->arena, a->f->reg_count);
    if (w->t->p != CPU_NODE_EXIT) {
        cpu_bits_or(w->always, a->live_in[w->t->p], a->f->reg_count);
    }
    for (uint32_t x = 0; x < a->node_count; x++) {
        const cpu_node_t *n = &a->nodes[x];
        if (!cpu_bits_has(side, x)) {
            continue;
        }
        if (n->end == CPU_END_BARRIER && n->succ[0] != CPU_NODE_EXIT) {
            cpu_bits_or(w->always, a->live_in[n->succ[0]], a->f->reg_count);
        }
        if (a->held[x]) {
            cpu_bits_or(w->always, a->live_in[x], a->f->reg_count);
        }
    }
}

static void wait_early(wait_t *w)
{
    const cpu_analysis_t *a = w->t->a;
    memset(w->early, 0, cpu_bits_words(a->f->reg_count) * sizeof *w->early);
    for (uint32_t l = a->nodes[w->b].loop; l != CPU_NO_LOOP; l = a->loops[l].parent) {
        uint32_t x = a->loops[l].header;
        if (cpu_bits_has(w->t->side[w->other], x) && early_latch(w->t, w->other, x, w->b)) {
            cpu_bits_or(w->early, a->live_in[x], a->f->reg_count);
        }
    }
}

/* Does a deferred loop before b hold lanes that need the register? */
static bool waits_in_deferred(const wait_t *w, uint32_t reg)
{
    const cpu_analysis_t *a = w->t->a;
    for (uint32_t l = 0; l < a->loop_count; l++) {
        uint32_t x = a->loops[l].header;
        if (a->loops[l].deferred && w->b > a->loops[l].last &&
            cpu_bits_has(w->t->side[w->other], x) && cpu_bits_has(a->live_in[x], reg)) {
            return true;
        }
    }
    return false;
}

static void force(void *context, uint32_t reg)
{
    wait_t *w = context;
    cpu_value_t *v = &w->t->a->values[reg];
    if (v->forced || v->is_constant || (v->defs <= 1 && !w->again)) {
        return;
    }
    if (cpu_bits_has(w->always, reg) || cpu_bits_has(w->later, reg) ||
        cpu_bits_has(w->early, reg) || waits_in_deferred(w, reg)) {
        v->forced = true;
        v->per_strip = w->t->a->config.strips > 1;
        v->form = (cpu_form_t){.tag = CPU_FORM_VARYING};
    }
}

static void force_side(split_t *t, unsigned side)
{
    cpu_analysis_t *a = t->a;
    wait_t w = {.t = t, .other = 1 - side};
    begin_waits(&w);
    for (uint32_t b = a->node_count; b-- > 0;) {
        const cpu_node_t *n = &a->nodes[b];
        if (cpu_bits_has(t->side[side], b)) {
            w.b = b;
            w.again = t->left || (n->loop != CPU_NO_LOOP && !loop_contains(a, n->loop, t->p));
            wait_early(&w);
            for (uint32_t k = 0; k < n->count; k++) {
                cpu_visit_defs(a->f, &a->f->instrs[n->first + k], force, &w);
            }
            if (n->end == CPU_END_BARRIER) { /* written when the wait is over */
                cpu_visit_defs(a->f, &a->f->instrs[n->last], force, &w);
            }
        }
        if (cpu_bits_has(t->side[1 - side], b)) {
            cpu_bits_or(w.later, a->live_in[b], a->f->reg_count);
        }
    }
}

static void find_sides(split_t *t, bool *empty)
{
    cpu_analysis_t *a = t->a;
    uint32_t *stack = cpu_arena_alloc(a->arena, a->node_count + 1, sizeof *stack);
    for (unsigned s = 0; s < 2; s++) {
        t->side[s] = cpu_bits_new(a->arena, a->node_count);
        reach(a, a->nodes[t->d].succ[s], t->p, t->side[s], stack);
        empty[s] = a->nodes[t->d].succ[s] == CPU_NODE_EXIT || a->nodes[t->d].succ[s] == t->p;
    }
}

/* The innermost loop around d and p whose next iteration can begin before p. */
static uint32_t bypassing_loop(const split_t *t)
{
    const cpu_analysis_t *a = t->a;
    for (uint32_t l = a->nodes[t->d].loop; l != CPU_NO_LOOP; l = a->loops[l].parent) {
        uint32_t h = a->loops[l].header;
        if (loop_contains(a, l, t->p) &&
            (cpu_bits_has(t->side[0], h) || cpu_bits_has(t->side[1], h))) {
            return l;
        }
    }
    return CPU_NO_LOOP;
}

static bool on_a_side(const split_t *t, uint32_t node)
{
    return cpu_bits_has(t->side[0], node) || cpu_bits_has(t->side[1], node);
}

static bool passes_barrier(const split_t *t)
{
    for (uint32_t b = 0; b < t->a->node_count; b++) {
        if (t->a->nodes[b].end == CPU_END_BARRIER && on_a_side(t, b)) {
            return true;
        }
    }
    return false;
}

/* Can lanes of a side be left behind, in a deferred loop or where they wait for others? Then nothing
 * is sure to join them but a barrier. */
static bool leaves_behind(const split_t *t)
{
    for (uint32_t b = 0; b < t->a->node_count; b++) {
        if (t->a->held[b] && on_a_side(t, b)) {
            return true;
        }
    }
    for (uint32_t l = 0; l < t->a->loop_count; l++) {
        if (t->a->loops[l].deferred && on_a_side(t, t->a->loops[l].header)) {
            return true;
        }
    }
    return passes_barrier(t);
}

/* Does node q end with the barrier of the whole CTA? */
static bool ends_with_full_barrier(const cpu_analysis_t *a, uint32_t q)
{
    const cpu_node_t *n = &a->nodes[q];
    if (n->end != CPU_END_BARRIER || n->succ[0] == CPU_NODE_EXIT) {
        return false;
    }
    const ptx_instr_t *i = &a->f->instrs[n->last];
    return i->src_count == (i->mode == PTX_BAR_RED ? 2 : 1);
}

/* Where all lanes are together again whoever was left behind: the first node on all ways at which the
 * warp waits for every lane, or behind the first barrier that counts every thread, if no lane can wait
 * at another one before. */
static uint32_t meeting_place(split_t *t, bool *empty)
{
    const cpu_analysis_t *a = t->a;
    for (uint32_t q = a->nodes[t->d].ipdom; q != CPU_NODE_EXIT; q = a->nodes[q].ipdom) {
        uint32_t behind = a->nodes[q].succ[0];
        t->p = q;
        find_sides(t, empty);
        if (passes_barrier(t) || bypassing_loop(t) != CPU_NO_LOOP) {
            continue;
        }
        if (a->nodes[q].sync == CPU_SYNC_ALL) {
            a->held[q] = true;
            return q;
        }
        if (!ends_with_full_barrier(a, q) || behind == t->d || on_a_side(t, behind)) {
            continue;
        }
        t->p = behind;
        find_sides(t, empty);
        if (bypassing_loop(t) == CPU_NO_LOOP) {
            return behind;
        }
    }
    return CPU_NODE_EXIT;
}

static void split_at(cpu_analysis_t *a, uint32_t d)
{
    split_t t = {.a = a, .d = d, .p = a->nodes[d].ipdom};
    bool empty[2];
    find_sides(&t, empty);
    for (uint32_t l = bypassing_loop(&t); l != CPU_NO_LOOP; l = bypassing_loop(&t)) {
        while (loop_contains(a, l, t.p)) {
            t.p = a->nodes[t.p].ipdom;
        }
        find_sides(&t, empty);
    }
    t.left = leaves_behind(&t);
    if (t.left && t.p != CPU_NODE_EXIT) {
        t.p = meeting_place(&t, empty);
        find_sides(&t, empty);
    }
    for (uint32_t b = 0; t.p == CPU_NODE_EXIT && b < a->node_count; b++) {
        a->thinned[b] |= cpu_bits_has(t.side[0], b) || cpu_bits_has(t.side[1], b);
    }
    /* If one side ends at once, nobody waits for the other. */
    if (t.p == CPU_NODE_EXIT && (empty[0] || empty[1])) {
        return;
    }
    for (uint32_t b = 0; b < a->node_count; b++) {
        a->crowded[b] |= cpu_bits_has(t.side[0], b) || cpu_bits_has(t.side[1], b);
    }
    force_side(&t, 0);
    force_side(&t, 1);
}

/* Marks the sync nodes that can be reached from a loop's header before a place where all come
 * together: those at which lanes may be missing that are still in the loop. */
static bool hold_behind(cpu_analysis_t *a, uint32_t header)
{
    bool grown = false;
    uint32_t depth = 0, *stack = cpu_arena_alloc(a->arena, a->node_count + 1, sizeof *stack);
    cpu_bits_t seen = cpu_bits_new(a->arena, a->node_count);
    cpu_bits_add(seen, header);
    stack[depth++] = header;
    while (depth > 0) {
        uint32_t b = stack[--depth];
        const cpu_node_t *n = &a->nodes[b];
        grown |= n->sync != CPU_SYNC_NONE && !a->held[b];
        a->held[b] |= n->sync != CPU_SYNC_NONE;
        if (n->sync == CPU_SYNC_ALL || ends_with_full_barrier(a, b)) {
            continue;
        }
        for (unsigned s = 0; s < (n->end == CPU_END_BRANCH ? 2 : 1); s++) {
            uint32_t t = n->succ[s];
            if (t != CPU_NODE_EXIT && !cpu_bits_has(seen, t)) {
                cpu_bits_add(seen, t);
                stack[depth++] = t;
            }
        }
    }
    return grown;
}

/* True if there are new ones. */
static bool find_held(cpu_analysis_t *a)
{
    bool grown = false;
    for (uint32_t l = 0; l < a->loop_count; l++) {
        bool parts = a->crowded[a->loops[l].header];
        for (uint32_t b = a->loops[l].header; b <= a->loops[l].last; b++) {
            parts |= a->divergent[b];
        }
        if (a->loops[l].deferred && parts) {
            grown |= hold_behind(a, a->loops[l].header);
        }
    }
    return grown;
}

bool cpu_regions_update(cpu_analysis_t *a)
{
    bool changed = false;
    for (uint32_t b = 0; b < a->node_count; b++) {
        const cpu_node_t *n = &a->nodes[b];
        if (n->end != CPU_END_BRANCH || a->divergent[b] ||
            a->config.width * a->config.strips == 1) {
            continue;
        }
        const cpu_value_t *guard = &a->values[n->guard];
        bool splits = guard->form.tag == CPU_FORM_VARYING || guard->per_strip;
        if (splits) {
            a->divergent[b] = true;
            a->any_divergent = true;
            split_at(a, b);
            changed = true;
        }
    }
    if (!changed && find_held(a)) { /* lanes of a side may stop there: look at all again */
        memset(a->divergent, 0, a->node_count);
        changed = true;
    }
    return changed;
}

/* Control flow: nodes, loops, order, postdominators. */
#include "gpu-proxy/cpu/jit/analysis/analysis.h"

#include <string.h>

typedef struct {
    cpu_analysis_t *a;
    bool cut;   /* nodes where the lanes of a warp wait for each other */
    uint32_t n; /* nodes */
    cpu_node_t *nodes;
    cpu_bits_t *dom;
    cpu_bits_t reachable;
    uint32_t *post; /* nodes in post order */
    uint32_t post_count;
    uint32_t header_count;
    uint32_t *headers;
    cpu_bits_t *bodies; /* per header */
} flow_t;

static uint32_t succ_count(const cpu_node_t *n)
{
    return n->end == CPU_END_BRANCH ? 2 : 1;
}

static bool splits_node(const ptx_instr_t *i)
{
    return i->op == PTX_OP_BAR && i->mode != PTX_BAR_ARRIVE && i->guard != PTX_NONE;
}

typedef struct {
    uint32_t reg;
    unsigned count;
} defs_of_t;

static void count_def(void *context, uint32_t reg)
{
    defs_of_t *d = context;
    d->count += reg == d->reg;
}

static bool is_all_ones(const ptx_function_t *f, const ptx_operand_t *o)
{
    defs_of_t d = {.reg = o->index};
    const ptx_operand_t *value = o;
    for (uint32_t k = 0; o->kind == PTX_OPERAND_REG && k < f->instr_count; k++) {
        const ptx_instr_t *i = &f->instrs[k];
        unsigned before = d.count;
        cpu_visit_defs(f, i, count_def, &d);
        if (d.count != before) {
            value = i->op == PTX_OP_MOV && i->guard == PTX_NONE ? ptx_src(f, i, 0) : o;
        }
    }
    return d.count <= 1 && value->kind == PTX_OPERAND_IMM && (uint32_t)value->value == UINT32_MAX;
}

static cpu_sync_t sync_of(const ptx_function_t *f, const ptx_instr_t *i)
{
    unsigned members;
    if (!cpu_instr_syncs_warp(i, &members)) {
        return CPU_SYNC_NONE;
    }
    bool all = i->guard == PTX_NONE && is_all_ones(f, ptx_src(f, i, members));
    return all ? CPU_SYNC_ALL : CPU_SYNC_SOME;
}

static uint32_t count_syncs(const ptx_function_t *f)
{
    uint32_t n = 0;
    unsigned members;
    for (uint32_t k = 0; k < f->instr_count; k++) {
        n += cpu_instr_syncs_warp(&f->instrs[k], &members);
    }
    return n;
}

/* Cuts nodes so that each instruction at which a warp comes together begins one; the parts become
 * nodes `extra` and on. */
static uint32_t cut_at_syncs(flow_t *w, uint32_t b, uint32_t extra)
{
    const ptx_function_t *f = w->a->f;
    for (uint32_t k = 0; k < w->nodes[b].count; k++) {
        cpu_sync_t sync = sync_of(f, &f->instrs[w->nodes[b].first + k]);
        if (sync == CPU_SYNC_NONE) {
            continue;
        }
        if (k > 0) {
            cpu_node_t *n = &w->nodes[b], *rest = &w->nodes[extra];
            *rest = *n;
            rest->first += k;
            rest->count -= k;
            n->count = k;
            n->last = n->guard = PTX_NONE;
            n->end = CPU_END_JUMP;
            n->succ[0] = n->succ[1] = extra;
            b = extra++;
            k = 0;
        }
        w->nodes[b].sync = (uint8_t)sync;
    }
    return extra;
}

/* Thread by thread: each instruction for which lanes meet ends a node, as a barrier does. */
static uint32_t cut_at_exchanges(flow_t *w, uint32_t b, uint32_t extra)
{
    const ptx_function_t *f = w->a->f;
    for (uint32_t k = 0; k < w->nodes[b].count;) {
        cpu_node_t *n = &w->nodes[b], *rest = &w->nodes[extra];
        uint32_t at = n->first + k;
        const ptx_instr_t *i = &f->instrs[at];
        if (!cpu_instr_exchanges(i)) {
            k++;
            continue;
        }
        *rest = *n;
        rest->first = at + 1;
        rest->count -= k + 1;
        n->count = k;
        n->end = CPU_END_BARRIER;
        n->last = at;
        n->guard = PTX_NONE;
        n->succ[0] = n->succ[1] = extra;
        b = extra++;
        if (i->guard != PTX_NONE) {
            w->nodes[extra] = *n;
            w->nodes[extra].first = at;
            w->nodes[extra].count = 0;
            n->end = CPU_END_BRANCH;
            n->last = PTX_NONE;
            n->guard = i->guard;
            n->negated = i->guard_negated;
            n->succ[0] = extra++;
        }
        w->a->exchanges = true;
        k = 0;
    }
    return extra;
}

static uint32_t count_exchanges(const ptx_function_t *f)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < f->instr_count; k++) {
        n += cpu_instr_exchanges(&f->instrs[k]);
    }
    return n;
}

/* One node per block, and one more for each guarded barrier; cut as need be. */
static void make_nodes(flow_t *w)
{
    const ptx_function_t *f = w->a->f;
    uint32_t extra = w->a->scalar ? 2 * count_exchanges(f) : w->cut ? count_syncs(f) : 0;
    for (uint32_t b = 0; b < f->block_count; b++) {
        extra += splits_node(&f->instrs[f->blocks[b].first + f->blocks[b].count - 1]);
    }
    w->n = f->block_count + extra;
    w->nodes = cpu_arena_alloc(w->a->arena, w->n, sizeof *w->nodes);
    extra = f->block_count;
    for (uint32_t b = 0; b < f->block_count; b++) {
        const ptx_block_t *block = &f->blocks[b];
        cpu_node_t *n = &w->nodes[b];
        uint32_t last = block->first + block->count - 1;
        const ptx_instr_t *i = &f->instrs[last];
        uint32_t next = b + 1 < f->block_count ? b + 1 : CPU_NODE_EXIT;
        bool guarded = i->guard != PTX_NONE;
        *n = (cpu_node_t){.first = block->first,
                          .count = block->count - 1,
                          .last = last,
                          .negated = i->guard_negated,
                          .guard = i->guard,
                          .succ = {next, next},
                          .loop = CPU_NO_LOOP};
        switch (i->op) {
        case PTX_OP_BRA:
            n->end = guarded ? CPU_END_BRANCH : CPU_END_JUMP;
            n->succ[0] = ptx_src(f, i, 0)->index;
            break;
        case PTX_OP_RET:
        case PTX_OP_EXIT:
            n->end = guarded ? CPU_END_BRANCH : CPU_END_JUMP;
            n->succ[0] = CPU_NODE_EXIT;
            break;
        case PTX_OP_BAR:
            if (i->mode == PTX_BAR_ARRIVE) {
                n->count++;
                n->last = PTX_NONE;
            } else if (guarded) {
                n->end = CPU_END_BRANCH;
                n->succ[0] = extra;
                w->nodes[extra++] = (cpu_node_t){.first = last,
                                                 .last = last,
                                                 .end = CPU_END_BARRIER,
                                                 .guard = PTX_NONE,
                                                 .succ = {next, next},
                                                 .loop = CPU_NO_LOOP};
                n->last = PTX_NONE;
            } else {
                n->end = CPU_END_BARRIER;
            }
            break;
        case PTX_OP_BRX:
            w->a->trouble = "brx.idx is not covered";
            break;
        default:
            n->count++;
            n->last = PTX_NONE;
        }
        if (n->end == CPU_END_BRANCH && n->succ[0] == n->succ[1]) {
            n->end = CPU_END_JUMP;
        }
        if (w->a->scalar) {
            extra = cut_at_exchanges(w, b, extra);
        } else if (w->cut) {
            extra = cut_at_syncs(w, b, extra);
        }
    }
    w->n = extra;
}

static void find_post_order(flow_t *w)
{
    uint32_t *stack = cpu_arena_alloc(w->a->arena, w->n + 1, sizeof *stack);
    uint8_t *next = cpu_arena_alloc(w->a->arena, w->n, 1);
    uint32_t depth = 0;
    w->reachable = cpu_bits_new(w->a->arena, w->n);
    w->post = cpu_arena_alloc(w->a->arena, w->n, sizeof *w->post);
    stack[depth++] = 0;
    cpu_bits_add(w->reachable, 0);
    while (depth > 0) {
        uint32_t b = stack[depth - 1];
        if (next[b] < succ_count(&w->nodes[b])) {
            uint32_t s = w->nodes[b].succ[next[b]++];
            if (s != CPU_NODE_EXIT && !cpu_bits_has(w->reachable, s)) {
                cpu_bits_add(w->reachable, s);
                stack[depth++] = s;
            }
        } else {
            w->post[w->post_count++] = b;
            depth--;
        }
    }
}

static void find_dominators(flow_t *w)
{
    size_t words = cpu_bits_words(w->n);
    w->dom = cpu_arena_alloc(w->a->arena, w->n, sizeof *w->dom);
    for (uint32_t b = 0; b < w->n; b++) {
        w->dom[b] = cpu_bits_new(w->a->arena, w->n);
        memset(w->dom[b], b == 0 ? 0 : 0xff, words * 8);
    }
    cpu_bits_add(w->dom[0], 0);
    for (bool changed = true; changed;) {
        changed = false;
        /* Pushes each node's set into its successors, in reverse post order. */
        for (uint32_t k = w->post_count; k-- > 0;) {
            uint32_t b = w->post[k];
            for (uint32_t s = 0; s < succ_count(&w->nodes[b]); s++) {
                uint32_t t = w->nodes[b].succ[s];
                if (t == CPU_NODE_EXIT || t == 0) {
                    continue;
                }
                for (size_t q = 0; q < words; q++) {
                    uint64_t keep = w->dom[b][q];
                    if (q == t / 64) {
                        keep |= (uint64_t)1 << (t % 64);
                    }
                    if ((w->dom[t][q] & ~keep) != 0) {
                        w->dom[t][q] &= keep;
                        changed = true;
                    }
                }
            }
        }
    }
}

static cpu_bits_t loop_body(flow_t *w, uint32_t header)
{
    for (uint32_t k = 0; k < w->header_count; k++) {
        if (w->headers[k] == header) {
            return w->bodies[k];
        }
    }
    cpu_bits_t body = cpu_bits_new(w->a->arena, w->n);
    cpu_bits_add(body, header);
    w->headers[w->header_count] = header;
    w->bodies[w->header_count++] = body;
    return body;
}

/* Natural loops; a retreating edge that is no back-edge means irreducible control flow. */
static void find_loops(flow_t *w)
{
    uint32_t *position = cpu_arena_alloc(w->a->arena, w->n, sizeof *position);
    for (uint32_t k = 0; k < w->post_count; k++) {
        position[w->post[k]] = k;
    }
    w->headers = cpu_arena_alloc(w->a->arena, w->n, sizeof *w->headers);
    w->bodies = cpu_arena_alloc(w->a->arena, w->n, sizeof *w->bodies);
    for (uint32_t k = 0; k < w->post_count; k++) {
        uint32_t b = w->post[k];
        for (uint32_t s = 0; s < succ_count(&w->nodes[b]); s++) {
            uint32_t h = w->nodes[b].succ[s];
            if (h == CPU_NODE_EXIT || position[h] < k) {
                continue;
            }
            if (!cpu_bits_has(w->dom[b], h)) {
                w->a->trouble = "irreducible control flow is not covered";
                return;
            }
            cpu_bits_t body = loop_body(w, h);
            /* everything that reaches b without passing h */
            cpu_bits_add(body, b);
            for (bool changed = true; changed;) {
                changed = false;
                for (uint32_t j = 0; j < w->post_count; j++) {
                    uint32_t c = w->post[j];
                    if (cpu_bits_has(body, c)) {
                        continue;
                    }
                    for (uint32_t q = 0; q < succ_count(&w->nodes[c]); q++) {
                        uint32_t t = w->nodes[c].succ[q];
                        if (t != CPU_NODE_EXIT && t != h && cpu_bits_has(body, t)) {
                            cpu_bits_add(body, c);
                            changed = true;
                            break;
                        }
                    }
                }
            }
        }
    }
}

static uint32_t bits_count(const uint64_t *b, size_t n)
{
    uint32_t c = 0;
    for (size_t i = 0; i < cpu_bits_words(n); i++) {
        c += (uint32_t)__builtin_popcountll(b[i]);
    }
    return c;
}

/* Index in headers of the innermost loop around b other than one headed by b when `outer`. */
static uint32_t innermost(const flow_t *w, uint32_t b)
{
    uint32_t best = CPU_NO_LOOP, size = UINT32_MAX;
    for (uint32_t k = 0; k < w->header_count; k++) {
        if (cpu_bits_has(w->bodies[k], b)) {
            uint32_t c = bits_count(w->bodies[k], w->n);
            if (c < size) {
                size = c;
                best = k;
            }
        }
    }
    return best;
}

static bool is_back_edge(const flow_t *w, uint32_t b, uint32_t h)
{
    return cpu_bits_has(w->dom[b], h);
}

/* Topological order in which the nodes of the innermost unfinished loop go first: so every loop is
 * contiguous. Returns new numbers. */
static uint32_t *order_nodes(flow_t *w)
{
    cpu_arena_t *arena = w->a->arena;
    uint32_t *waits = cpu_arena_alloc(arena, w->n, sizeof *waits);
    uint32_t *number = cpu_arena_alloc(arena, w->n, sizeof *number);
    uint32_t *left = cpu_arena_alloc(arena, w->header_count + 1, sizeof *left);
    bool *placed = cpu_arena_alloc(arena, w->n, 1);
    for (uint32_t k = 0; k < w->header_count; k++) {
        left[k] = bits_count(w->bodies[k], w->n);
    }
    for (uint32_t k = 0; k < w->post_count; k++) {
        const cpu_node_t *n = &w->nodes[w->post[k]];
        for (uint32_t s = 0; s < succ_count(n); s++) {
            if (n->succ[s] != CPU_NODE_EXIT && !is_back_edge(w, w->post[k], n->succ[s])) {
                waits[n->succ[s]]++;
            }
        }
    }
    uint32_t done = 0, previous = UINT32_MAX;
    while (done < w->post_count) {
        /* the smallest begun and unfinished loop */
        const uint64_t *within = NULL;
        uint32_t size = UINT32_MAX;
        for (uint32_t k = 0; k < w->header_count; k++) {
            uint32_t c = bits_count(w->bodies[k], w->n);
            if (left[k] != 0 && left[k] < c && c < size) {
                size = c;
                within = w->bodies[k];
            }
        }
        uint32_t best = UINT32_MAX;
        for (uint32_t b = 0; b < w->n; b++) {
            if (!placed[b] && cpu_bits_has(w->reachable, b) && waits[b] == 0 &&
                (within == NULL || cpu_bits_has(within, b)) &&
                (best == UINT32_MAX || b == previous + 1)) {
                best = b;
            }
        }
        if (best == UINT32_MAX) {
            w->a->trouble = "irreducible control flow is not covered";
            return number;
        }
        placed[best] = true;
        number[best] = done++;
        previous = best;
        for (uint32_t k = 0; k < w->header_count; k++) {
            left[k] -= cpu_bits_has(w->bodies[k], best);
        }
        const cpu_node_t *n = &w->nodes[best];
        for (uint32_t s = 0; s < succ_count(n); s++) {
            if (n->succ[s] != CPU_NODE_EXIT && !is_back_edge(w, best, n->succ[s])) {
                waits[n->succ[s]]--;
            }
        }
    }
    return number;
}

static void publish(flow_t *w, const uint32_t *number)
{
    cpu_analysis_t *a = w->a;
    a->node_count = w->post_count;
    a->nodes = cpu_arena_alloc(a->arena, a->node_count, sizeof *a->nodes);
    a->loop_count = w->header_count;
    a->loops = cpu_arena_alloc(a->arena, a->loop_count + 1, sizeof *a->loops);
    for (uint32_t k = 0; k < w->header_count; k++) {
        cpu_loop_t *l = &a->loops[k];
        l->header = number[w->headers[k]];
        l->parent = CPU_NO_LOOP;
        uint32_t size = UINT32_MAX, own = bits_count(w->bodies[k], w->n);
        for (uint32_t j = 0; j < w->header_count; j++) {
            uint32_t c = bits_count(w->bodies[j], w->n);
            if (j != k && c > own && c < size && cpu_bits_has(w->bodies[j], w->headers[k])) {
                size = c;
                l->parent = j;
            }
        }
    }
    for (uint32_t b = 0; b < w->n; b++) {
        if (!cpu_bits_has(w->reachable, b)) {
            continue;
        }
        cpu_node_t *n = &a->nodes[number[b]];
        *n = w->nodes[b];
        for (uint32_t s = 0; s < 2; s++) {
            if (n->succ[s] != CPU_NODE_EXIT) {
                n->succ[s] = number[n->succ[s]];
            }
        }
        n->loop = innermost(w, b);
        for (uint32_t k = 0; k < w->header_count; k++) {
            if (cpu_bits_has(w->bodies[k], b) && number[b] > a->loops[k].last) {
                a->loops[k].last = number[b];
            }
        }
    }
}

static void find_postdominators(cpu_analysis_t *a)
{
    uint32_t n = a->node_count;
    size_t words = cpu_bits_words(n);
    cpu_bits_t *pd = cpu_arena_alloc(a->arena, n, sizeof *pd);
    cpu_bits_t meet = cpu_bits_new(a->arena, n);
    for (uint32_t b = 0; b < n; b++) {
        pd[b] = cpu_bits_new(a->arena, n);
        memset(pd[b], 0xff, words * 8);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t b = n; b-- > 0;) {
            memset(meet, 0xff, words * 8);
            for (uint32_t s = 0; s < succ_count(&a->nodes[b]); s++) {
                uint32_t t = a->nodes[b].succ[s];
                for (size_t q = 0; q < words; q++) {
                    meet[q] &= t == CPU_NODE_EXIT ? 0 : pd[t][q];
                }
            }
            cpu_bits_add(meet, b);
            if (memcmp(meet, pd[b], words * 8) != 0) {
                memcpy(pd[b], meet, words * 8);
                changed = true;
            }
        }
    }
    for (uint32_t b = 0; b < n; b++) {
        uint32_t own = bits_count(pd[b], n);
        a->nodes[b].ipdom = CPU_NODE_EXIT;
        for (uint32_t c = 0; c < n; c++) {
            if (c != b && cpu_bits_has(pd[b], c) && bits_count(pd[c], n) == own - 1) {
                a->nodes[b].ipdom = c;
                break;
            }
        }
    }
}

/* True if there are spin loops. */
static bool analyse(cpu_analysis_t *a, bool cut)
{
    flow_t w = {.a = a, .cut = cut};
    make_nodes(&w);
    if (a->trouble != NULL) {
        return false;
    }
    find_post_order(&w);
    find_dominators(&w);
    find_loops(&w);
    if (a->trouble != NULL) {
        return false;
    }
    const uint32_t *number = order_nodes(&w);
    if (a->trouble != NULL) {
        return false;
    }
    publish(&w, number);
    find_postdominators(a);
    return cpu_analyse_spin(a);
}

void cpu_analyse_flow(cpu_analysis_t *a)
{
    if (analyse(a, false) && !a->scalar && count_syncs(a->f) > 0) {
        analyse(a, true);
    }
}

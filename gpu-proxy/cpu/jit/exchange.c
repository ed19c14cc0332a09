#include "gpu-proxy/cpu/jit/exchange.h"

#include "gpu-proxy/cpu/ptx/ptx_ir.h"

enum { WARP = 32 };

/* A warp, while one of its exchanges is looked at. */
typedef struct {
    cpu_context_head_t *heads[WARP];
    cpu_exchange_t *lanes[WARP];
    uint32_t living;  /* bit per lane */
    uint32_t here;    /* that wait for an exchange */
    uint32_t running; /* that may still come to one */
} warp_t;

static void look_at_warp(const cpu_code_t *code, const cpu_launch_t *launch, uint32_t first,
                         uint32_t groups, warp_t *w)
{
    *w = (warp_t){.living = 0};
    for (uint32_t l = 0; l < WARP && first + l < groups; l++) {
        uint8_t *context = launch->context + (size_t)(first + l) * code->header.context_bytes;
        cpu_context_head_t *h = (void *)context;
        w->heads[l] = h;
        w->lanes[l] = (void *)(context + sizeof *h);
        if (h->state < 0) {
            continue;
        }
        uint32_t bit = (uint32_t)1 << l, open = h->waits & ~h->released;
        w->living |= bit;
        w->here |= open & CPU_WAITS_EXCHANGE ? bit : 0;
        w->running |= h->yielded || open == 0 ? bit : 0;
    }
}

/* Lanes that wait for the same exchange as lane l. */
static uint32_t companions(const warp_t *w, uint32_t l, bool sync)
{
    uint32_t set = 0;
    for (uint32_t k = 0; k < WARP; k++) {
        if ((w->here >> k & 1) != 0 && w->lanes[k]->what == w->lanes[l]->what &&
            w->lanes[k]->members == w->lanes[l]->members &&
            (sync || w->lanes[k]->node == w->lanes[l]->node)) {
            set |= (uint32_t)1 << k;
        }
    }
    return set;
}

static void shuffle(const warp_t *w, uint32_t set, uint32_t mode)
{
    for (uint32_t l = 0; l < WARP; l++) {
        cpu_exchange_t *x = w->lanes[l];
        if ((set >> l & 1) == 0) {
            continue;
        }
        uint32_t seg = x->c >> 8 & 31, clamp = x->c & 31, b = x->b & 31;
        int32_t high = (int32_t)((l & seg) | (clamp & ~seg)), j;
        bool in;
        switch (mode) {
        case PTX_SHFL_UP:
            j = (int32_t)l - (int32_t)b;
            in = j >= high;
            break;
        case PTX_SHFL_DOWN:
            j = (int32_t)(l + b);
            in = j <= high;
            break;
        case PTX_SHFL_BFLY:
            j = (int32_t)(l ^ b);
            in = j <= high;
            break;
        default:
            j = (int32_t)((l & seg) | (b & ~seg & 31));
            in = j <= high;
        }
        uint32_t from = in ? (uint32_t)j & 31 : l;
        from = set >> from & 1 ? from : l; /* from a lane that takes no part: undefined */
        x->result = w->lanes[from]->value;
        x->flag = in;
    }
}

static uint32_t lanes_with(const warp_t *w, uint32_t set, uint64_t value)
{
    uint32_t same = 0;
    for (uint32_t l = 0; l < WARP; l++) {
        same |= (uint32_t)((set >> l & 1) != 0 && w->lanes[l]->value == value) << l;
    }
    return same;
}

static void vote(const warp_t *w, uint32_t set, uint32_t mode)
{
    uint32_t yes = lanes_with(w, set, 1);
    uint32_t r = mode == PTX_VOTE_BALLOT ? yes
                 : mode == PTX_VOTE_ALL  ? yes == set
                 : mode == PTX_VOTE_ANY  ? yes != 0
                                         : yes == 0 || yes == set;
    for (uint32_t l = 0; l < WARP; l++) {
        if (set >> l & 1) {
            w->lanes[l]->result = r;
        }
    }
}

static void match(const warp_t *w, uint32_t set, uint32_t mode)
{
    for (uint32_t l = 0; l < WARP; l++) {
        if (set >> l & 1) {
            uint32_t same = lanes_with(w, set, w->lanes[l]->value);
            w->lanes[l]->flag = same == set;
            w->lanes[l]->result = mode == PTX_VOTE_ALL && same != set ? 0 : same;
        }
    }
}

static uint32_t reduced(uint32_t a, uint32_t b, uint32_t mode, bool sign)
{
    bool less = sign ? (int32_t)a < (int32_t)b : a < b;
    switch (mode) {
    case PTX_ATOM_ADD:
        return a + b;
    case PTX_ATOM_MIN:
        return less ? a : b;
    case PTX_ATOM_MAX:
        return less ? b : a;
    case PTX_ATOM_AND:
        return a & b;
    case PTX_ATOM_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

static void reduce(const warp_t *w, uint32_t set, uint32_t mode, bool sign)
{
    uint32_t first = (uint32_t)__builtin_ctz(set), r = (uint32_t)w->lanes[first]->value;
    for (uint32_t l = first + 1; l < WARP; l++) {
        if (set >> l & 1) {
            r = reduced(r, (uint32_t)w->lanes[l]->value, mode, sign);
        }
    }
    for (uint32_t l = 0; l < WARP; l++) {
        if (set >> l & 1) {
            w->lanes[l]->result = r;
        }
    }
}

static void give(const warp_t *w, uint32_t set, uint32_t what)
{
    uint32_t mode = what >> 16 & 255, type = what >> 24 & 127;
    switch (what & 0xffff) {
    case PTX_OP_SHFL:
        shuffle(w, set, mode);
        break;
    case PTX_OP_VOTE:
        vote(w, set, mode);
        break;
    case PTX_OP_MATCH:
        match(w, set, mode);
        break;
    case PTX_OP_REDUX:
        reduce(w, set, mode, ptx_type_is_signed((ptx_type_t)type));
        break;
    default: /* activemask, elect, bar.warp.sync */
        for (uint32_t l = 0; l < WARP; l++) {
            if (set >> l & 1) {
                bool elect = (what & 0xffff) == PTX_OP_ELECT;
                w->lanes[l]->result = elect ? (uint32_t)__builtin_ctz(set) : set;
                w->lanes[l]->flag = l == (uint32_t)__builtin_ctz(set);
            }
        }
    }
    for (uint32_t l = 0; l < WARP; l++) {
        if (set >> l & 1) {
            w->heads[l]->released |= CPU_WAITS_EXCHANGE;
        }
    }
}

/* The lane of those in `set` that is furthest behind. */
static uint32_t furthest_behind(const warp_t *w, uint32_t set)
{
    uint32_t best = (uint32_t)__builtin_ctz(set);
    for (uint32_t l = best + 1; l < WARP; l++) {
        if ((set >> l & 1) != 0 && w->lanes[l]->node < w->lanes[best]->node) {
            best = l;
        }
    }
    return best;
}

static bool advance_warp(warp_t *w, bool force)
{
    bool advanced = false;
    uint32_t free = 0; /* wait for nobody */
    for (uint32_t l = 0; l < WARP; l++) {
        if ((w->here >> l & 1) == 0) {
            continue;
        }
        if ((w->lanes[l]->what >> 31) == 0) {
            free |= (uint32_t)1 << l;
            continue;
        }
        uint32_t set = companions(w, l, true);
        if ((w->lanes[l]->members & w->living & ~set) == 0) {
            give(w, set, w->lanes[l]->what);
            w->here &= ~set;
            advanced = true;
        }
    }
    if (!advanced && w->here != 0 && ((free != 0 && w->running == 0) || force)) {
        uint32_t l = furthest_behind(w, free != 0 ? free : w->here);
        give(w, companions(w, l, (w->lanes[l]->what >> 31) != 0), w->lanes[l]->what);
        advanced = true;
    }
    return advanced;
}

bool cpu_exchange_advance(const cpu_code_t *code, cpu_launch_t *launch, uint32_t groups, bool force)
{
    bool advanced = false;
    for (uint32_t first = 0; first < groups; first += WARP) {
        warp_t w;
        look_at_warp(code, launch, first, groups, &w);
        advanced |= advance_warp(&w, force);
    }
    return advanced;
}

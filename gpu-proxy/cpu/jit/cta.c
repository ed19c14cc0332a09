/* Runs one CTA: groups one after the other, round by round.
 *
 * A group runs until all of its threads have ended or wait at barriers, or until it gives way in a
 * loop that waits for others; and then says in its context who waits where. A barrier that counts all
 * threads is complete when no thread of any living group is elsewhere: whoever is not waiting has
 * ended. A barrier with a count is complete when that many threads have come, a warp of which no
 * thread is elsewhere counting as a whole; such kernels are compiled with one warp per group. When
 * some rounds have passed in which all groups only gave way, the CTA does.
 *
 * While all groups are at the same place with all their threads, the code does all of this by itself
 * (gen_step.c), and comes back when they no longer are. */
#include "gpu-proxy/cpu/jit/code.h"
#include "gpu-proxy/cpu/jit/exchange.h"

#include <string.h>

enum {
    WARP = 32,
    PATIENCE = 256,  /* back-edges of spin loops before a group gives way, */
    IMPATIENCE = 32, /* if nothing moved in the round before */
    IDLE_ROUNDS = 2, /* before the CTA gives way; */
    ROUNDS = 2048,   /* and after so many in any case: all of it may wait, barrier by barrier */
    BARRIER_BITS = 0x1ffff /* 16, and the one of barrier.cluster */
};

static cpu_context_head_t *head_of(const cpu_code_t *code, const cpu_launch_t *launch,
                                   uint32_t group)
{
    return (void *)(launch->context + (size_t)group * code->header.context_bytes);
}

static cpu_run_t run_result(cpu_launch_t *launch, int32_t state)
{
    if (state == CPU_STATE_CANCELLED) {
        return CPU_RUN_CANCELLED;
    }
    memcpy(launch->fault.ctaid, launch->ctaid, sizeof launch->fault.ctaid);
    return CPU_RUN_FAULT;
}

static uint32_t group_count(const cpu_code_t *code, const cpu_launch_t *launch)
{
    const cpu_code_header_t *h = &code->header;
    return cpu_grouping(h->layout, h->width, h->strips, launch->block).groups;
}

/* Lets the waiters of one barrier go on. */
static void barrier_release(const cpu_code_t *code, cpu_launch_t *launch, uint32_t barrier,
                            uint32_t groups)
{
    launch->bar_out_popc[barrier] = launch->bar_red_popc[barrier];
    launch->bar_out_all[barrier] = launch->bar_red_all[barrier];
    launch->bar_red_popc[barrier] = launch->bar_red_all[barrier] = 0;
    launch->bar_arrived[barrier] = 0;
    for (uint32_t g = 0; g < groups; g++) {
        cpu_context_head_t *h = head_of(code, launch, g);
        if (h->state >= 0) {
            h->released |= h->waits & (uint32_t)1 << barrier;
        }
    }
}

/* Threads that wait at the barrier among groups [first, last): those of one warp, or one group. All that
 * live count as a whole warp. */
static uint32_t warp_came(const cpu_code_t *code, const cpu_launch_t *launch, uint32_t barrier,
                          uint32_t first, uint32_t last, uint32_t *expected)
{
    uint32_t came = 0, living = 0;
    for (uint32_t g = first; g < last; g++) {
        const cpu_context_head_t *h = head_of(code, launch, g);
        if (h->state < 0) {
            continue;
        }
        bool here = (h->waits >> barrier & 1) != 0;
        living += here || code->header.width > 1 ? h->living : 1;
        came += here ? h->barriers[barrier].came : 0;
        *expected = here ? h->barriers[barrier].expected : *expected;
    }
    return came != 0 && came == living ? WARP : came;
}

/* Have as many threads come as the barrier counts? */
static bool barrier_counted(const cpu_code_t *code, const cpu_launch_t *launch, uint32_t barrier,
                            uint32_t groups)
{
    uint32_t came = launch->bar_arrived[barrier], expected = 0;
    uint32_t step = code->header.width == 1 ? WARP : 1;
    for (uint32_t g = 0; g < groups; g += step) {
        uint32_t last = g + step < groups ? g + step : groups;
        came += warp_came(code, launch, barrier, g, last, &expected);
    }
    return came >= expected;
}

/* Where threads wait. */
typedef struct {
    uint32_t some;  /* bit per barrier: of some group */
    uint32_t all;   /* of every living group */
    bool elsewhere; /* some are not at a barrier */
    uint32_t counted;
} waiting_t;

static waiting_t look_at_groups(const cpu_code_t *code, const cpu_launch_t *launch, uint32_t groups)
{
    waiting_t w = {.all = UINT32_MAX};
    for (uint32_t g = 0; g < groups; g++) {
        const cpu_context_head_t *h = head_of(code, launch, g);
        if (h->state < 0) {
            continue;
        }
        uint32_t waits = h->waits & BARRIER_BITS;
        w.some |= waits;
        w.all &= waits;
        w.elsewhere |=
            h->yielded != 0 || waits == 0 || h->barriers[__builtin_ctz(waits)].came != h->living;
        for (uint32_t left = waits; left != 0; left &= left - 1) {
            uint32_t b = (uint32_t)__builtin_ctz(left);
            w.counted |= (uint32_t)(h->barriers[b].expected != 0) << b;
        }
    }
    return w;
}

/* Releases what is complete; false if nothing is. */
static bool barriers_advance(const cpu_code_t *code, cpu_launch_t *launch, uint32_t groups)
{
    waiting_t w = look_at_groups(code, launch, groups);
    bool advanced = false;
    for (uint32_t left = w.some; left != 0; left &= left - 1) {
        uint32_t b = (uint32_t)__builtin_ctz(left);
        bool complete = w.counted >> b & 1
                            ? barrier_counted(code, launch, b, groups)
                            : !w.elsewhere && w.all == w.some && (w.some & (w.some - 1)) == 0;
        if (complete) {
            barrier_release(code, launch, b, groups);
            advanced = true;
        }
    }
    return advanced;
}

/* Runs a group until it stops; false if the CTA must be left. */
static int32_t run_group(const cpu_code_t *code, cpu_launch_t *launch, uint32_t g,
                         uint32_t patience)
{
    cpu_context_head_t *h = head_of(code, launch, g);
    for (uint32_t left = h->waits & BARRIER_BITS; left != 0; left &= left - 1) {
        h->barriers[__builtin_ctz(left)].came = 0;
    }
    h->waits = 0;
    h->patience = patience;
    int32_t s = code->entry(launch, (uint8_t *)h, g, (uint32_t)h->state);
    h->released = 0;
    h->yielded = s >= 0 && (s & CPU_STATE_YIELD) != 0;
    h->state = s < 0 ? s : s & ~CPU_STATE_YIELD;
    return s;
}

/* May the group run? Not if it only waits at barriers. */
static bool can_run(const cpu_context_head_t *h)
{
    return h->state >= 0 && (h->waits == 0 || h->yielded || h->released != 0);
}

static bool exchanges_advance(const cpu_code_t *code, cpu_launch_t *launch, uint32_t groups,
                              bool others)
{
    return code->header.exchanges &&
           (cpu_exchange_advance(code, launch, groups, false) ||
            (!others && cpu_exchange_advance(code, launch, groups, true)));
}

/* Do all groups wait with all their threads at the same place, or have not begun? */
static bool is_in_step(const cpu_code_t *code, const cpu_launch_t *launch, uint32_t groups)
{
    const cpu_code_header_t *c = &code->header;
    int32_t state = head_of(code, launch, 0)->state, parted = (int32_t)c->state_count - 1;
    if (!c->steps || state < 0 || state >= parted) {
        return false;
    }
    for (uint32_t g = 0; g < groups; g++) {
        const cpu_context_head_t *h = head_of(code, launch, g);
        if (h->state != state || (state != 0) != (h->waits != 0) || h->yielded) {
            return false;
        }
    }
    return true;
}

/* What the code has left out while groups ran in step: who waits where. */
static void settle_groups(const cpu_code_t *code, cpu_launch_t *launch, uint32_t groups, int32_t s)
{
    uint32_t threads = code->header.width * code->header.strips;
    for (uint32_t g = 0; g < groups; g++) {
        cpu_context_head_t *h = head_of(code, launch, g);
        if (g == launch->step_group) {
            h->state = s;
            continue;
        }
        bool stopped = g < launch->step_group;
        h->state = stopped ? launch->step_after : launch->step_before;
        h->waits = stopped && h->state >= 0;
        h->living = h->barriers[0].came = h->waits ? threads : 0;
        h->barriers[0].expected = 0;
    }
}

/* Runs groups that are in step, until they no longer are. Gives CPU_STATE_DONE if all have ended, 0 if not. */
static int32_t run_in_step(const cpu_code_t *code, cpu_launch_t *launch, uint32_t groups)
{
    uint32_t state = (uint32_t)head_of(code, launch, 0)->state;
    for (uint32_t g = 0; g < groups; g++) {
        cpu_context_head_t *h = head_of(code, launch, g);
        h->waits = h->released = h->barriers[0].came = 0;
    }
    launch->step_groups = groups;
    launch->step_group = 0;
    launch->step_before = launch->step_after = (int32_t)state;
    int32_t s = code->entry(launch, launch->context, 0, state);
    launch->step_groups = 0;
    if (s < CPU_STATE_DONE || (s == CPU_STATE_DONE && launch->step_group == groups)) {
        return s;
    }
    settle_groups(code, launch, groups, s);
    return 0;
}

static cpu_run_t run_rounds(const cpu_code_t *code, cpu_launch_t *launch, uint32_t patience)
{
    uint32_t groups = group_count(code, launch), idle = 0;
    launch->moved = launch->step_groups = 0;
    launch->step_rounds = ROUNDS;
    for (uint32_t round = 1;; round++) {
        uint32_t living = 0, gave_way = 0;
        bool moved = false;
        if (is_in_step(code, launch, groups)) {
            int32_t s = run_in_step(code, launch, groups);
            if (s != 0) {
                return s == CPU_STATE_DONE ? CPU_RUN_OK : run_result(launch, s);
            }
            launch->moved = 1;
            if (launch->step_rounds == 0) {
                return CPU_RUN_YIELDED;
            }
        }
        for (uint32_t g = 0; g < groups; g++) {
            cpu_context_head_t *h = head_of(code, launch, g);
            if (can_run(h)) {
                int32_t s = run_group(code, launch, g, patience);
                if (s < CPU_STATE_DONE) {
                    return run_result(launch, s);
                }
                moved |= !h->yielded;
            }
            living += h->state >= 0;
            gave_way += h->state >= 0 && h->yielded;
        }
        if (living == 0) {
            return CPU_RUN_OK;
        }
        if (__atomic_load_n(launch->cancel, __ATOMIC_RELAXED)) { /* others set it */
            return CPU_RUN_CANCELLED;
        }
        moved |= barriers_advance(code, launch, groups);
        moved |= exchanges_advance(code, launch, groups, moved || gave_way > 0);
        if (!moved && gave_way == 0) {
            return run_result(launch, launch->helpers->fault(launch, CPU_FAULT_TRAP, 1, 0));
        }
        launch->moved |= moved;
        patience = moved ? PATIENCE : IMPATIENCE;
        idle = moved ? 0 : idle + 1;
        if (idle == IDLE_ROUNDS || round == ROUNDS) {
            return CPU_RUN_YIELDED;
        }
    }
}

static cpu_run_t run_without_states(const cpu_code_t *code, cpu_launch_t *launch)
{
    uint32_t groups = group_count(code, launch);
    for (uint32_t g = 0; g < groups; g++) {
        int32_t s = code->entry(launch, launch->context, g, 0);
        if (s != CPU_STATE_DONE) {
            return run_result(launch, s);
        }
    }
    return CPU_RUN_OK;
}

cpu_run_t cpu_code_start_cta(const cpu_code_t *code, cpu_launch_t *launch)
{
    launch->code = code;
    if (code->header.state_count == 1) {
        return run_without_states(code, launch);
    }
    memset(launch->bar_arrived, 0, sizeof launch->bar_arrived);
    memset(launch->bar_red_popc, 0, sizeof launch->bar_red_popc);
    memset(launch->bar_red_all, 0, sizeof launch->bar_red_all);
    for (uint32_t g = 0, groups = group_count(code, launch); g < groups; g++) {
        memset(head_of(code, launch, g), 0, sizeof(cpu_context_head_t));
    }
    return run_rounds(code, launch, PATIENCE);
}

cpu_run_t cpu_code_resume_cta(const cpu_code_t *code, cpu_launch_t *launch)
{
    return run_rounds(code, launch, IMPATIENCE);
}

cpu_run_t cpu_code_run_cta(const cpu_code_t *code, cpu_launch_t *launch)
{
    cpu_run_t r = cpu_code_start_cta(code, launch);
    while (r == CPU_RUN_YIELDED) {
        r = cpu_code_resume_cta(code, launch);
    }
    return r;
}

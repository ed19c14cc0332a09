/* Runs one CTA: groups one after the other, barrier by barrier.
 *
 * A group runs until all of its threads have ended or wait at a barrier, and then says in its
 * context which one. A barrier that counts all threads is complete when every living group waits at
 * it: whoever is not waiting has ended. A barrier with a count is complete when that many threads,
 * counted in whole warps, have come; such kernels are compiled with one warp per group. */
#include "gpu-proxy/cpu/jit/code.h"

#include <string.h>

enum { WARP = 32 };

static const cpu_context_head_t *head_of(const cpu_code_t *code, const cpu_launch_t *launch,
                                         uint32_t group)
{
    return (const void *)(launch->context + (size_t)group * code->header.context_bytes);
}

static cpu_run_t run_result(cpu_launch_t *launch, int32_t state)
{
    if (state == CPU_STATE_CANCELLED) {
        return CPU_RUN_CANCELLED;
    }
    memcpy(launch->fault.ctaid, launch->ctaid, sizeof launch->fault.ctaid);
    return CPU_RUN_FAULT;
}

/* Lets the waiters of one barrier go on. */
static void barrier_release(const cpu_code_t *code, cpu_launch_t *launch, uint32_t barrier,
                            const int32_t *states, uint8_t *waits, uint32_t groups)
{
    launch->bar_out_popc[barrier] = launch->bar_red_popc[barrier];
    launch->bar_out_all[barrier] = launch->bar_red_all[barrier];
    launch->bar_red_popc[barrier] = launch->bar_red_all[barrier] = 0;
    launch->bar_arrived[barrier] = 0;
    for (uint32_t g = 0; g < groups; g++) {
        if (states[g] >= 0 && waits[g] && head_of(code, launch, g)->barrier == barrier) {
            waits[g] = 0;
        }
    }
}

/* Releases what is complete; false if nothing is. */
static bool barriers_advance(const cpu_code_t *code, cpu_launch_t *launch, const int32_t *states,
                             uint8_t *waits, uint32_t groups)
{
    uint32_t came[CPU_BARRIERS] = {0}, expected[CPU_BARRIERS] = {0}, waiting[CPU_BARRIERS] = {0};
    uint32_t living = 0;
    bool advanced = false;
    for (uint32_t g = 0; g < groups; g++) {
        if (states[g] < 0) {
            continue;
        }
        living++;
        if (waits[g]) {
            const cpu_context_head_t *h = head_of(code, launch, g);
            uint32_t b = h->barrier % CPU_BARRIERS;
            waiting[b]++;
            came[b] += WARP;
            expected[b] = h->expected;
        }
    }
    for (uint32_t b = 0; b < CPU_BARRIERS; b++) {
        if (waiting[b] == 0) {
            continue;
        }
        bool complete = expected[b] == 0 ? waiting[b] == living
                                         : came[b] + launch->bar_arrived[b] >= expected[b];
        if (complete) {
            barrier_release(code, launch, b, states, waits, groups);
            advanced = true;
        }
    }
    return advanced;
}

static cpu_run_t run_with_barriers(const cpu_code_t *code, cpu_launch_t *launch, uint32_t groups)
{
    int32_t states[CPU_MAX_GROUPS];
    uint8_t waits[CPU_MAX_GROUPS];
    memset(states, 0, groups * sizeof *states);
    memset(waits, 0, groups);
    memset(launch->bar_arrived, 0, sizeof launch->bar_arrived);
    memset(launch->bar_red_popc, 0, sizeof launch->bar_red_popc);
    memset(launch->bar_red_all, 0, sizeof launch->bar_red_all);
    for (;;) {
        uint32_t living = 0, ready = 0;
        for (uint32_t g = 0; g < groups; g++) {
            if (states[g] < 0) {
                continue;
            }
            if (!waits[g]) {
                uint8_t *context = launch->context + (size_t)g * code->header.context_bytes;
                int32_t s = code->entry(launch, context, g, (uint32_t)states[g]);
                if (s < CPU_STATE_DONE) {
                    return run_result(launch, s);
                }
                waits[g] = s >= 0 && (s & CPU_STATE_YIELD) == 0;
                states[g] = s < 0 ? s : s & ~CPU_STATE_YIELD;
            }
            living += states[g] >= 0;
            ready += states[g] >= 0 && !waits[g];
        }
        if (living == 0) {
            return CPU_RUN_OK;
        }
        if (*launch->cancel) {
            return CPU_RUN_CANCELLED;
        }
        if (!barriers_advance(code, launch, states, waits, groups) && ready == 0) {
            return run_result(launch, launch->helpers->fault(launch, CPU_FAULT_TRAP, 1, 0));
        }
    }
}

cpu_run_t cpu_code_run_cta(const cpu_code_t *code, cpu_launch_t *launch)
{
    const cpu_code_header_t *h = &code->header;
    uint32_t groups = cpu_grouping(h->layout, h->width, h->strips, launch->block).groups;
    launch->code = code;
    if (h->state_count > 1) {
        return run_with_barriers(code, launch, groups);
    }
    for (uint32_t g = 0; g < groups; g++) {
        int32_t s = code->entry(launch, launch->context, g, 0);
        if (s != CPU_STATE_DONE) {
            return run_result(launch, s);
        }
    }
    return CPU_RUN_OK;
}

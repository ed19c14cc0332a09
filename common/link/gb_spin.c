#include "common/link/gb_spin.h"

enum {
    LEAST = 2000, /* shorter polls find nothing */
    MOST_RETRY = 4096,
};

void gb_spin_init(gb_spin_t *spin, uint32_t max)
{
    *spin = (gb_spin_t){.max = max, .budget = max, .retry = 1};
}

uint32_t gb_spin_budget(const gb_spin_t *spin)
{
    return spin->budget == 0 && spin->passed >= spin->retry ? spin->max : spin->budget;
}

/* Less next time. A try that is found late leaves half: the peer may just have been woken. */
static void shrink(gb_spin_t *spin)
{
    spin->budget = gb_spin_budget(spin) / 2;
    spin->passed = 0;
    if (spin->budget >= LEAST)
        return;
    spin->budget = 0;
    if (spin->retry < MOST_RETRY)
        spin->retry *= 2;
}

void gb_spin_hit(gb_spin_t *spin, uint64_t after)
{
    if (after > spin->max / 2) {
        shrink(spin);
        return;
    }
    uint64_t twice = 2 * (uint64_t)gb_spin_budget(spin);
    spin->budget = twice < spin->max ? (uint32_t)twice : spin->max;
    spin->passed = 0;
    spin->retry = 1;
}

/* A try in vain ends at once: there is nothing to unlearn step by step. */
void gb_spin_miss(gb_spin_t *spin)
{
    if (spin->budget == 0)
        spin->passed = 0;
    if (spin->budget == 0 && spin->retry < MOST_RETRY)
        spin->retry *= 2;
    if (spin->budget > 0)
        shrink(spin);
}

void gb_spin_slept(gb_spin_t *spin, uint64_t waited)
{
    if (spin->budget == 0 && waited >= LEAST && waited < spin->max && spin->passed < MOST_RETRY)
        spin->passed++;
}

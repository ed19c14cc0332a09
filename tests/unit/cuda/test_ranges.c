/* The range map against a plain array, over random operations with a fixed seed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "common/cuda/gb_ranges.h"

enum { SLOTS = 256, STEPS = 20000, WIDTH = 100 };

/* Slot i may hold one range inside [i * WIDTH, (i + 1) * WIDTH). */
static gb_range_t nodes[SLOTS];
static int used[SLOTS];
static uint32_t seed = 4711;

static uint32_t next(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static void check(const gb_ranges_t *map, uint64_t address)
{
    gb_range_t *find = NULL, *below = NULL, *above = NULL;
    for (int i = 0; i < SLOTS; i++) {
        if (!used[i])
            continue;
        if (address >= nodes[i].start && address < nodes[i].start + nodes[i].size)
            find = &nodes[i];
        if (nodes[i].start <= address)
            below = &nodes[i];
        if (nodes[i].start > address && !above)
            above = &nodes[i];
    }
    assert_ptr_equal(gb_ranges_find(map, address), find);
    assert_ptr_equal(gb_ranges_below(map, address), below);
    assert_ptr_equal(gb_ranges_above(map, address), above);
}

static void check_fit(const gb_ranges_t *map, uint64_t size)
{
    gb_range_t *fit = NULL;
    for (int i = 0; i < SLOTS && !fit; i++)
        if (used[i] && nodes[i].size >= size)
            fit = &nodes[i];
    assert_ptr_equal(gb_ranges_fit(map, size), fit);
}

static void random_operations(void **state)
{
    (void)state;
    gb_ranges_t map = {0};
    size_t count = 0;
    for (int step = 0; step < STEPS; step++) {
        int i = (int)next(SLOTS);
        if (used[i]) {
            gb_ranges_remove(&map, &nodes[i]);
            count--;
        } else {
            uint32_t from = next(WIDTH - 1);
            nodes[i].start = (uint64_t)i * WIDTH + from;
            nodes[i].size = 1 + next(WIDTH - from);
            gb_ranges_add(&map, &nodes[i]);
            count++;
        }
        used[i] = !used[i];
        assert_int_equal(map.count, count);
        if (step % 16 == 0) {
            check(&map, next(SLOTS * WIDTH));
            check_fit(&map, 1 + next(WIDTH + 10));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_operations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The plan: every value in exactly one place, the same on all workers, hostile bytes refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/client/gbx_plan.h"

static const uint64_t lenet[] = {150, 6, 2400, 16, 48000, 120, 10080, 84, 840, 10};

static gbx_plan_t make(const uint64_t *values, uint32_t count, uint32_t limit,
                       const uint32_t *owners, uint32_t shards)
{
    static char names[64][8];
    gbx_tensor_t tensors[64];
    for (uint32_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof(names[i]), "t%u", i);
        tensors[i] = (gbx_tensor_t){.name = names[i], .dims = 1, .shape = {values[i]}};
    }
    gbx_plan_t plan;
    assert_int_equal(gbx_plan_make(tensors, count, limit, owners, shards, &plan), GB_OK);
    return plan;
}

static void check_cover(const gbx_plan_t *plan, uint32_t limit)
{
    uint32_t tensor = 0;
    uint64_t at = 0;
    for (uint32_t c = 0; c < plan->chunk_count; c++) {
        uint32_t end = 0;
        assert_true(plan->chunks[c].values <= limit);
        for (uint32_t i = 0; i < plan->chunks[c].pieces; i++) {
            const gbx_piece_t *p = &plan->pieces[plan->chunks[c].first_piece + i];
            assert_int_equal(p->tensor, tensor);
            assert_int_equal(p->tensor_at, at);
            assert_int_equal(p->chunk_at % GBX_ALIGN, 0);
            assert_true(p->chunk_at >= end);
            end = p->chunk_at + p->values;
            assert_true(end <= plan->chunks[c].values);
            at += p->values;
            if (at == plan->tensors[tensor].values)
                tensor++, at = 0;
        }
    }
    assert_int_equal(tensor, plan->tensor_count);
}

static void test_lenet_is_one_chunk(void **state)
{
    (void)state;
    const uint32_t owners[] = {1};
    gbx_plan_t plan = make(lenet, 10, 262144, owners, 1);
    assert_int_equal(plan.chunk_count, 1);
    check_cover(&plan, 262144);
    gbx_plan_free(&plan);
}

static void test_large_tensors_are_cut_and_spread(void **state)
{
    (void)state;
    const uint64_t values[] = {100, 1000000, 7, 64, 262144, 300000};
    const uint32_t owners[] = {2, 1};
    gbx_plan_t plan = make(values, 6, 262144, owners, 2);
    check_cover(&plan, 262144);
    uint64_t load[3] = {0};
    for (uint32_t c = 0; c < plan.chunk_count; c++)
        load[plan.chunks[c].shard * 2 + plan.chunks[c].owner] += plan.chunks[c].values;
    assert_int_equal(plan.chunks[0].shard + plan.chunks[0].owner, 0);
    for (int i = 0; i < 3; i++)
        assert_true(load[i] > 200000);
    gbx_plan_free(&plan);
}

static void test_roundtrip(void **state)
{
    (void)state;
    const uint32_t owners[] = {3};
    const uint64_t values[] = {5, 70000, 64, 4096, 1, 9000};
    gbx_plan_t plan = make(values, 6, 4096, owners, 1), back;
    uint8_t *bytes, *again;
    uint32_t size, size_again;
    assert_int_equal(gbx_plan_encode(&plan, &bytes, &size), GB_OK);
    assert_int_equal(gbx_plan_decode(bytes, size, &back), GB_OK);
    check_cover(&back, 4096);
    for (uint32_t t = 0; t < plan.tensor_count; t++) {
        assert_int_equal(back.tensors[t].first_chunk, plan.tensors[t].first_chunk);
        assert_int_equal(back.tensors[t].last_chunk, plan.tensors[t].last_chunk);
    }
    assert_int_equal(gbx_plan_encode(&back, &again, &size_again), GB_OK);
    assert_int_equal(size, size_again);
    assert_memory_equal(bytes, again, size);
    free(bytes);
    free(again);
    gbx_plan_free(&plan);
    gbx_plan_free(&back);
}

static void test_bad_models(void **state)
{
    (void)state;
    const uint32_t owners[] = {1};
    gbx_plan_t plan;
    gbx_tensor_t t[2] = {{.name = "a", .dims = 1, .shape = {4}},
                         {.name = "a", .dims = 1, .shape = {4}}};
    assert_int_equal(gbx_plan_make(t, 2, 4096, owners, 1, &plan), GB_ERR_INVALID);
    t[1] = (gbx_tensor_t){.name = "b", .dims = 2, .shape = {4, 0}};
    assert_int_equal(gbx_plan_make(t, 2, 4096, owners, 1, &plan), GB_ERR_INVALID);
    t[1] = (gbx_tensor_t){.name = "b", .dims = 2, .shape = {1ull << 40, 1ull << 40}};
    assert_int_equal(gbx_plan_make(t, 2, 4096, owners, 1, &plan), GB_ERR_INVALID);
    assert_int_equal(gbx_plan_make(t, 0, 4096, owners, 1, &plan), GB_ERR_INVALID);
    assert_int_equal(gbx_plan_make(t, 1, 100, owners, 1, &plan), GB_ERR_INVALID);
}

/* Every mutation either is refused or gives a plan that covers the model. */
static void test_hostile_bytes(void **state)
{
    (void)state;
    const uint32_t owners[] = {2};
    const uint64_t values[] = {5, 9000, 64, 4096, 1};
    gbx_plan_t plan = make(values, 5, 4096, owners, 1), back;
    uint8_t *bytes;
    uint32_t size;
    uint64_t x = 1234567;
    assert_int_equal(gbx_plan_encode(&plan, &bytes, &size), GB_OK);
    for (uint32_t cut = 0; cut < size; cut++)
        assert_int_not_equal(gbx_plan_decode(bytes, cut, &back), GB_OK);
    uint8_t *copy = malloc(size);
    int refused = 0;
    for (int round = 0; round < 20000; round++) {
        memcpy(copy, bytes, size);
        for (int k = 0; k < 1 + round % 3; k++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            copy[x % size] = (uint8_t)(x >> 32);
        }
        if (gbx_plan_decode(copy, size, &back) == GB_OK) {
            for (uint32_t p = 0; p < back.piece_count; p++)
                assert_true(back.pieces[p].tensor < back.tensor_count);
            gbx_plan_free(&back);
        } else {
            refused++;
        }
    }
    assert_true(refused > 5000);
    free(copy);
    free(bytes);
    gbx_plan_free(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lenet_is_one_chunk),
        cmocka_unit_test(test_large_tensors_are_cut_and_spread),
        cmocka_unit_test(test_roundtrip),
        cmocka_unit_test(test_bad_models),
        cmocka_unit_test(test_hostile_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

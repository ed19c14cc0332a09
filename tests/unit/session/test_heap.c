/* The window heap over a driver double that counts and can run out of memory. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/cuda/gb_driver.h"
#include "gpu-proxy/session/px_heap.h"
#include "gpu-proxy/session/px_session.h"

enum { MIB = 1 << 20, WINDOW = 256 * MIB };

static uint64_t physical, physical_limit;
static int mapped;
static uint64_t sizes[1024];
static int handles;

static CUresult create(CUmemGenericAllocationHandle *out, size_t size,
                       const CUmemAllocationProp *prop, unsigned long long flags)
{
    (void)prop;
    (void)flags;
    assert_int_equal(size % (2 * MIB), 0);
    if (physical + size > physical_limit)
        return CUDA_ERROR_OUT_OF_MEMORY;
    physical += size;
    sizes[++handles] = size;
    *out = (CUmemGenericAllocationHandle)handles;
    return CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    physical -= sizes[handle];
    return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags)
{
    (void)at;
    (void)offset;
    (void)flags;
    assert_int_equal(size, sizes[handle]);
    mapped++;
    return CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr at, size_t size)
{
    (void)at;
    (void)size;
    mapped--;
    return CUDA_SUCCESS;
}

static gb_cuda_table_t cuda;
static px_heap_t *heap;

static px_heap_t *make(uint64_t limit, uint64_t quota)
{
    uint64_t base = 0x567000000000;
    px_null_driver(&cuda);
    cuda.cuMemCreate = create;
    cuda.cuMemRelease = release;
    cuda.cuMemMap = map;
    cuda.cuMemUnmap = unmap;
    physical = 0;
    handles = mapped = 0;
    physical_limit = limit;
    assert_int_equal(px_heap_create(&cuda, 0, &base, WINDOW, quota, &heap), 0);
    assert_int_equal(base, 0x567000000000);
    return heap;
}

static int end(void **state)
{
    (void)state;
    px_heap_destroy(heap);
    assert_int_equal(physical, 0);
    assert_int_equal(mapped, 0);
    return 0;
}

static void pieces_are_disjoint(void **state)
{
    (void)state;
    uint64_t at[200], size[200];
    make(WINDOW, 0);
    for (int i = 0; i < 200; i++) {
        size[i] = 1 + (uint64_t)i * 977;
        assert_int_equal(px_heap_take(heap, size[i], 1, &at[i]), 0);
        assert_int_equal(at[i] % 512, 0);
        for (int k = 0; k < i; k++)
            assert_true(at[i] + size[i] <= at[k] || at[k] + size[k] <= at[i]);
    }
    assert_true(px_heap_used(heap) >= 200 * 977 * 99);
    for (int i = 0; i < 200; i++)
        assert_int_equal(px_heap_give(heap, at[i]), 0);
    assert_int_equal(px_heap_used(heap), 0);
    assert_int_equal(px_heap_give(heap, at[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(px_heap_give(heap, at[0] + 1), CUDA_ERROR_INVALID_VALUE);
}

/* A freed piece is not handed out before the device has passed the work of its time. */
static void frees_wait(void **state)
{
    (void)state;
    uint64_t a, b, c;
    make(WINDOW, 0);
    assert_int_equal(px_heap_take(heap, 1000, 1, &a), 0);
    uint64_t early = px_heap_mark(heap);
    assert_int_equal(px_heap_give(heap, a), 0);
    assert_int_equal(px_heap_take(heap, 1000, 1, &b), 0);
    assert_int_not_equal(a, b);
    px_heap_passed(heap, early); /* taken before the free: says nothing about it */
    assert_int_equal(px_heap_take(heap, 1000, 1, &c), 0);
    assert_int_not_equal(a, c);
    px_heap_passed(heap, px_heap_mark(heap));
    assert_int_equal(px_heap_take(heap, 1000, 1, &c), 0);
    assert_int_equal(a, c);
}

static void out_of_memory(void **state)
{
    (void)state;
    uint64_t a, b;
    make(8 * MIB, 0);
    assert_int_equal(px_heap_take(heap, 6 * MIB, 1, &a), 0);
    assert_int_equal(px_heap_take(heap, 6 * MIB, 1, &b), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(px_heap_give(heap, a), 0);
    assert_int_equal(px_heap_take(heap, 6 * MIB, 1, &b), CUDA_ERROR_NOT_READY);
    px_heap_passed(heap, px_heap_mark(heap));
    assert_int_equal(px_heap_take(heap, 8 * MIB, 1, &b), 0); /* the spare mapping was given back */
    assert_int_equal(px_heap_take(heap, 0, 1, &a), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(px_heap_take(heap, UINT64_MAX, 1, &a), CUDA_ERROR_OUT_OF_MEMORY);
}

static void quota(void **state)
{
    (void)state;
    uint64_t a, b;
    make(WINDOW, 10 * MIB);
    assert_int_equal(px_heap_take(heap, 6 * MIB, 1, &a), 0);
    assert_int_equal(px_heap_take(heap, 6 * MIB, 1, &b), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(px_heap_take(heap, 4 * MIB, 1, &b), 0);
    assert_int_equal(px_heap_give(heap, a), 0);
    assert_int_equal(px_heap_take(heap, 6 * MIB, 1, &a), CUDA_ERROR_NOT_READY);
    px_heap_passed(heap, px_heap_mark(heap));
    assert_int_equal(px_heap_take(heap, 6 * MIB, 1, &a), 0);
    assert_int_equal(px_heap_used(heap), 10 * MIB);
}

static void owners(void **state)
{
    (void)state;
    uint64_t a, b, c;
    make(WINDOW, 0);
    assert_int_equal(px_heap_take(heap, 3000, 1, &a), 0);
    assert_int_equal(px_heap_take(heap, 3000, 2, &b), 0);
    assert_int_equal(px_heap_take(heap, 3 * MIB, 1, &c), 0);
    px_heap_give_all(heap, 1);
    assert_int_equal(px_heap_give(heap, a), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(px_heap_give(heap, c), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(px_heap_give(heap, b), 0);
}

static px_token_t gone[4];
static int gone_count;

static void note_gone(void *arg, const px_token_t *token)
{
    assert_ptr_equal(arg, &gone_count);
    gone[gone_count++] = *token;
}

/* What other sessions have been told of is taken back when it is freed, not before and once. */
static void shared_pieces(void **state)
{
    (void)state;
    uint64_t small, neighbour, large;
    px_heap_mapping_t a, b, c;
    px_token_t one = {{1}}, two = {{2}};
    make(WINDOW, 0);
    gone_count = 0;
    px_heap_on_gone(heap, note_gone, &gone_count);
    assert_int_equal(px_heap_take(heap, 1000, 1, &small), 0);
    assert_int_equal(px_heap_take(heap, 1000, 1, &neighbour), 0);
    assert_int_equal(px_heap_take(heap, 3 * MIB, 7, &large), 0);
    assert_true(px_heap_mapping(heap, small, &a));
    assert_true(px_heap_mapping(heap, neighbour, &b));
    assert_true(px_heap_mapping(heap, large, &c));
    assert_int_equal(a.base, b.base); /* they lie in one mapping */
    assert_int_equal(a.memory, b.memory);
    assert_int_equal(a.size, 4 * MIB);
    assert_int_equal(c.base, large);
    assert_int_equal(c.size, 4 * MIB);
    assert_int_equal(a.shared, 0);
    assert_false(px_heap_mapping(heap, small + 512, &a)); /* not the beginning of one */
    assert_int_equal(a.number, 0);
    assert_true(px_heap_note_shared(heap, small, &one, 5));
    assert_false(px_heap_note_shared(heap, small, &two, 6));
    assert_true(px_heap_mapping(heap, small, &a));
    assert_int_equal(a.shared, 1);
    assert_memory_equal(&a.token, &one, sizeof(one));
    assert_true(px_heap_mapping(heap, neighbour, &b));
    assert_int_equal(b.shared, 0);
    assert_int_equal(b.number, 5); /* of the mapping */
    assert_true(px_heap_note_shared(heap, large, &two, 7));
    assert_int_equal(px_heap_give(heap, neighbour), 0);
    assert_int_equal(gone_count, 0);
    assert_int_equal(px_heap_give(heap, small), 0);
    assert_int_equal(gone_count, 1);
    assert_memory_equal(&gone[0], &one, sizeof(one));
    assert_false(px_heap_mapping(heap, small, &a));
    assert_false(px_heap_note_shared(heap, small, &one, 5));
    px_heap_give_all(heap, 7);
    assert_int_equal(gone_count, 2);
    assert_memory_equal(&gone[1], &two, sizeof(two));
    px_heap_passed(heap, px_heap_mark(heap));
    assert_int_equal(px_heap_take(heap, 3 * MIB, 7, &large), 0);
    assert_true(px_heap_mapping(heap, large, &c));
    assert_int_equal(c.shared, 0); /* the mapping is used again, by another piece */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(pieces_are_disjoint, end),
        cmocka_unit_test_teardown(frees_wait, end),
        cmocka_unit_test_teardown(out_of_memory, end),
        cmocka_unit_test_teardown(quota, end),
        cmocka_unit_test_teardown(owners, end),
        cmocka_unit_test_teardown(shared_pieces, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

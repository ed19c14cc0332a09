/* The parts below the API: the ordered map, the heap of a window, handles, SHA-256. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sys/mman.h>

#include "gpu-proxy/cpu/driver/cpu_handle.h"
#include "gpu-proxy/cpu/driver/cpu_heap.h"
#include "gpu-proxy/cpu/driver/cpu_sha.h"
#include "gpu-proxy/cpu/driver/cpu_tree.h"

static void tree_finds_by_address_and_by_size(void **state)
{
    cpu_tree_t tree = {0};
    cpu_node_t nodes[100];
    (void)state;
    for (int i = 0; i < 100; i++) {
        int n = i * 37 % 100;
        nodes[n].base = (uint64_t)n * 1000 + 100;
        nodes[n].size = (uint64_t)n + 1;
        cpu_tree_insert(&tree, &nodes[n]);
    }
    assert_int_equal(tree.count, 100);
    assert_ptr_equal(cpu_tree_find(&tree, 5100), &nodes[5]);
    assert_ptr_equal(cpu_tree_find(&tree, 5105), &nodes[5]);
    assert_null(cpu_tree_find(&tree, 5106));
    assert_null(cpu_tree_find(&tree, 99));
    assert_ptr_equal(cpu_tree_floor(&tree, 5999), &nodes[5]);
    assert_ptr_equal(cpu_tree_ceiling(&tree, 5101), &nodes[6]);
    assert_ptr_equal(cpu_tree_fit(&tree, 50), &nodes[49]);
    assert_null(cpu_tree_fit(&tree, 101));
    assert_true(cpu_tree_overlaps(&tree, 5105, 10));
    assert_true(cpu_tree_overlaps(&tree, 5000, 101));
    assert_false(cpu_tree_overlaps(&tree, 5106, 994));
    for (int i = 0; i < 100; i += 2)
        cpu_tree_remove(&tree, &nodes[i]);
    assert_int_equal(tree.count, 50);
    assert_null(cpu_tree_find(&tree, 4100));
    assert_ptr_equal(cpu_tree_fit(&tree, 51), &nodes[51]);
}

enum { WINDOW = 64 << 20 };

static uint64_t reserve(void)
{
    void *at = mmap(NULL, WINDOW + (2 << 20), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    return ((uint64_t)at + (2 << 20) - 1) & ~(uint64_t)((2 << 20) - 1);
}

static void heap_hands_out_disjoint_aligned_pieces(void **state)
{
    cpu_heap_t heap;
    uint64_t base = reserve(), pieces[200], sizes[200];
    unsigned seed = 1;
    (void)state;
    assert_int_equal(cpu_heap_init(&heap, base, WINDOW), GB_OK);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 200; i++) {
            sizes[i] = (uint64_t)(rand_r(&seed) % 400 + 1) * 256;
            uint64_t align = 256u << (rand_r(&seed) % 8);
            assert_int_equal(cpu_heap_take(&heap, sizes[i], align, &pieces[i]), GB_OK);
            assert_int_equal(pieces[i] % align, 0);
            assert_true(pieces[i] >= base && pieces[i] + sizes[i] <= base + WINDOW);
            memset((void *)pieces[i], i, sizes[i]);
        }
        for (int i = 0; i < 200; i++) {
            assert_int_equal(*(uint8_t *)pieces[i], i);
            assert_int_equal(*(uint8_t *)(pieces[i] + sizes[i] - 1), i);
        }
        for (int i = 0; i < 200; i++) {
            int n = i * 77 % 200;
            cpu_heap_give(&heap, pieces[n], sizes[n]);
        }
        assert_int_equal(heap.free.count, 1);
    }
    assert_int_equal(cpu_heap_take(&heap, WINDOW, 256, &pieces[0]), GB_OK);
    assert_int_equal(cpu_heap_take(&heap, 256, 256, &pieces[1]), GB_ERR_NO_MEMORY);
    cpu_heap_give(&heap, pieces[0], WINDOW);
    cpu_heap_close(&heap);
}

static void heap_gives_pages_back(void **state)
{
    cpu_heap_t heap;
    uint64_t base = reserve(), piece;
    unsigned char resident[16];
    (void)state;
    assert_int_equal(cpu_heap_init(&heap, base, WINDOW), GB_OK);
    assert_int_equal(cpu_heap_take(&heap, 2 << 16, 65536, &piece), GB_OK);
    memset((void *)piece, 1, 2 << 16);
    assert_int_equal(mincore((void *)piece, 65536, resident), 0);
    assert_true(resident[0] & 1);
    cpu_heap_give(&heap, piece, 2 << 16);
    assert_int_equal(mincore((void *)piece, 65536, resident), 0);
    assert_false(resident[0] & 1);
    cpu_heap_close(&heap);
}

static int is_resident(uint64_t page)
{
    unsigned char resident = 0;
    assert_int_equal(mincore((void *)page, 4096, &resident), 0);
    return resident & 1;
}

/* Of blocks that become empty one by one, the last stays open, and only that one. */
static void heap_keeps_one_block(void **state)
{
    cpu_heap_t heap;
    uint64_t base = reserve(), piece[3], again;
    (void)state;
    assert_int_equal(cpu_heap_init(&heap, base, WINDOW), GB_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cpu_heap_take(&heap, 65536, 65536, &piece[i]), GB_OK);
        memset((void *)piece[i], 1, 65536);
    }
    cpu_heap_give(&heap, piece[0], 65536);
    cpu_heap_give(&heap, piece[2], 65536);
    assert_false(is_resident(piece[0]));
    assert_true(is_resident(piece[2]));
    assert_int_equal(cpu_heap_take(&heap, 65536, 65536, &again), GB_OK);
    assert_int_equal(again, piece[0]);
    memset((void *)again, 2, 65536);
    cpu_heap_give(&heap, again, 65536);
    assert_false(is_resident(piece[2]));
    cpu_heap_give(&heap, piece[1], 65536);
    assert_int_equal(cpu_heap_take(&heap, WINDOW, 65536, &again), GB_OK); /* all of it works */
    memset((void *)again, 3, WINDOW);
    cpu_heap_give(&heap, again, WINDOW);
    cpu_heap_close(&heap);
}

static int destroyed;

static void count_destroyed(cpu_object_t *object)
{
    (void)object;
    destroyed++;
}

static void handles_die_with_their_object(void **state)
{
    cpu_object_t a, b;
    (void)state;
    destroyed = 0;
    cpu_object_init(&a, CPU_KIND_STREAM, count_destroyed);
    uint64_t first = cpu_handle_add(&a);
    assert_int_not_equal(first, 0);
    assert_null(cpu_handle_get(CPU_KIND_EVENT, first));
    assert_ptr_equal(cpu_handle_get(CPU_KIND_STREAM, first), &a);
    cpu_object_put(&a);
    assert_ptr_equal(cpu_handle_remove(CPU_KIND_STREAM, first), &a);
    assert_null(cpu_handle_remove(CPU_KIND_STREAM, first));
    assert_null(cpu_handle_get(CPU_KIND_STREAM, first));
    /* The slot is used again, the old handle stays dead. */
    cpu_object_init(&b, CPU_KIND_STREAM, count_destroyed);
    uint64_t second = cpu_handle_add(&b);
    assert_int_not_equal(first, second);
    assert_null(cpu_handle_get(CPU_KIND_STREAM, first));
    cpu_object_put(&a);
    assert_int_equal(destroyed, 0);
    cpu_object_put(&a);
    assert_int_equal(destroyed, 1);
    cpu_object_put(cpu_handle_remove(CPU_KIND_STREAM, second));
    cpu_object_put(&b);
    assert_int_equal(destroyed, 2);
}

static void invented_handles_are_refused(void **state)
{
    static const uint64_t invented[] = {0,          1,          2,     0xdeadbeef, UINT64_MAX,
                                        1ull << 63, 0x7fff0000, 42ull, ~0ull << 42};
    (void)state;
    for (size_t i = 0; i < sizeof(invented) / sizeof(invented[0]); i++)
        for (int kind = CPU_KIND_CONTEXT; kind <= CPU_KIND_PHYSICAL; kind++)
            assert_null(cpu_handle_get((cpu_kind_t)kind, invented[i]));
}

static void free_object(cpu_object_t *object)
{
    free(object);
}

static void *add_and_remove(void *argument)
{
    (void)argument;
    for (int i = 0; i < 2000; i++) {
        cpu_object_t *object = calloc(1, sizeof(*object));
        cpu_object_init(object, CPU_KIND_EVENT, free_object);
        uint64_t handle = cpu_handle_add(object);
        cpu_object_put(object);
        cpu_object_t *got = cpu_handle_get(CPU_KIND_EVENT, handle);
        if (got != object)
            return (void *)1;
        cpu_object_put(got);
        cpu_object_put(cpu_handle_remove(CPU_KIND_EVENT, handle));
    }
    return NULL;
}

static void handles_are_thread_safe(void **state)
{
    pthread_t threads[8];
    void *bad;
    (void)state;
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, add_and_remove, NULL);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
}

static void sha_matches_the_standard(void **state)
{
    static const uint8_t abc[32] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea,
                                    0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
                                    0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c,
                                    0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    static const uint8_t two_blocks[32] = {0x24, 0x8d, 0x6a, 0x61, 0xd2, 0x06, 0x38, 0xb8,
                                           0xe5, 0xc0, 0x26, 0x93, 0x0c, 0x3e, 0x60, 0x39,
                                           0xa3, 0x3c, 0xe4, 0x59, 0x64, 0xff, 0x21, 0x67,
                                           0xf6, 0xec, 0xed, 0xd4, 0x19, 0xdb, 0x06, 0xc1};
    static const char text[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    uint8_t digest[32], again[32];
    cpu_sha_t sha;
    (void)state;
    cpu_sha("abc", 3, digest);
    assert_memory_equal(digest, abc, 32);
    cpu_sha(text, strlen(text), digest);
    assert_memory_equal(digest, two_blocks, 32);
    /* In pieces of every length up to 130 bytes. */
    uint8_t bytes[300];
    for (int i = 0; i < 300; i++)
        bytes[i] = (uint8_t)(i * 7);
    cpu_sha(bytes, sizeof(bytes), digest);
    for (size_t step = 1; step < 130; step++) {
        cpu_sha_init(&sha);
        for (size_t at = 0; at < sizeof(bytes); at += step)
            cpu_sha_add(&sha, bytes + at, at + step > sizeof(bytes) ? sizeof(bytes) - at : step);
        cpu_sha_end(&sha, again);
        assert_memory_equal(digest, again, 32);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree_finds_by_address_and_by_size),
        cmocka_unit_test(heap_hands_out_disjoint_aligned_pieces),
        cmocka_unit_test(heap_gives_pages_back),
        cmocka_unit_test(heap_keeps_one_block),
        cmocka_unit_test(handles_die_with_their_object),
        cmocka_unit_test(invented_handles_are_refused),
        cmocka_unit_test(handles_are_thread_safe),
        cmocka_unit_test(sha_matches_the_standard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * Protects memory: nothing overlaps, everything comes back, an empty pool refuses.
 */
#include "base/arena.h"
#include "base/check.h"
#include "test_case.h"

#define CHUNKS 64
static char *memory;
static struct pool pool;

static void open_pool(void) {
    size_t bytes = CHUNKS * (POOL_CHUNK_BYTES + 1);
    memory = malloc(bytes);
    assert_non_null(memory);
    arena_pool_open(&pool, memory, bytes);
    assert_int_equal(pool.chunk_count, CHUNKS);
}

TEST(memory_is_aligned_and_apart) {
    struct arena arena;
    char *taken[500];
    open_pool();
    arena_open(&arena, &pool);
    for (size_t i = 0; i < ARRAY_COUNT(taken); i++) {
        taken[i] = arena_take(&arena, i);
        assert_non_null(taken[i]);
        assert_int_equal((uintptr_t)taken[i] % 16, 0);
        memset(taken[i], (int)(i & 0xFF), i);
    }
    for (size_t i = 0; i < ARRAY_COUNT(taken); i++)
        for (size_t k = 0; k < i; k++)
            assert_int_equal((uint8_t)taken[i][k], i & 0xFF);
    arena_clear(&arena);
    assert_int_equal(pool.free_count, CHUNKS);
    free(memory);
}

TEST(an_empty_pool_refuses_and_recovers) {
    struct arena one, two;
    open_pool();
    arena_open(&one, &pool);
    arena_open(&two, &pool);
    assert_non_null(arena_take(&one, (CHUNKS - 3) * POOL_CHUNK_BYTES));
    assert_null(arena_take(&two, 4 * POOL_CHUNK_BYTES));
    assert_non_null(arena_take(&two, 3 * POOL_CHUNK_BYTES));
    assert_null(arena_take(&two, 1));
    assert_null(arena_take(&two, SIZE_MAX)); /* no overflow into a small take */
    arena_clear(&one);
    assert_non_null(arena_take(&two, 1));
    arena_clear(&two);
    assert_int_equal(pool.free_count, CHUNKS);
    assert_non_null(arena_take(&one, CHUNKS * POOL_CHUNK_BYTES)); /* nothing fragmented for good */
    arena_clear(&one);
    free(memory);
}

/* A server's memory is as large as what it needs at once, however long it runs. */
TEST(the_lowest_memory_is_used_again) {
    struct arena held, passing;
    open_pool();
    arena_open(&held, &pool);
    arena_open(&passing, &pool);
    assert_ptr_equal(arena_take(&held, POOL_CHUNK_BYTES), memory);
    for (int i = 0; i < 3 * CHUNKS; i++) {
        assert_ptr_equal(arena_take(&passing, 1), memory + POOL_CHUNK_BYTES);
        arena_clear(&passing);
    }
    arena_clear(&held);
    assert_ptr_equal(arena_take(&passing, 2 * POOL_CHUNK_BYTES), memory);
    arena_clear(&passing);
    free(memory);
}

TEST(zeroed_memory_is_zero_after_use) {
    struct arena arena;
    open_pool();
    memset(memory, 0xEE, CHUNKS * POOL_CHUNK_BYTES);
    arena_open(&arena, &pool);
    uint8_t *zeroed = arena_take_zeroed(&arena, 3000);
    for (size_t i = 0; i < 3000; i++)
        assert_int_equal(zeroed[i], 0);
    arena_clear(&arena);
    free(memory);
}

TEST(lines_begin_where_the_caches_do) {
    struct arena arena;
    open_pool();
    arena_open(&arena, &pool);
    for (size_t i = 0; i < 100; i++) {
        char *other = arena_take(&arena, i), *lines = arena_take_lines(&arena, 3 * i);
        assert_non_null(lines);
        assert_int_equal((uintptr_t)lines % ARENA_LINE_BYTES, 0);
        assert_true(lines >= other + i && lines + 3 * i <= arena.at);
    }
    assert_null(arena_take_lines(&arena, CHUNKS * POOL_CHUNK_BYTES));
    assert_null(arena_take_lines(&arena, SIZE_MAX));
    arena_clear(&arena);
    free(memory);
}

TEST(plain_memory_ends_where_it_ends) {
    _Alignas(16) char plain[64];
    struct arena arena;
    arena_over(&arena, plain, sizeof plain);
    assert_non_null(arena_take(&arena, 64));
    assert_null(arena_take(&arena, 1));
    arena_clear(&arena);
    assert_ptr_equal(arena_take(&arena, 1), plain);
    struct bytes copy = arena_copy(&arena, BYTES_LITERAL("a\0b"));
    assert_int_equal(copy.count, 3);
    assert_memory_equal(copy.data, "a\0b", 4);
    assert_null(arena_copy(&arena, (struct bytes){plain, 64}).data);
}

TEST(arrays_grow_and_keep_their_items) {
    static char small[4096];
    struct arena arena;
    uint32_t *items = NULL, capacity = 0, count = 0;
    arena_over(&arena, small, sizeof small);
    for (; arena_reserve(&arena, &items, count, &capacity, sizeof *items); count++)
        items[count] = count;
    assert_int_equal(count, capacity); /* 32, 64, 128, ...: the next one does not fit */
    assert_int_equal(count, 512);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(items[i], i);
}

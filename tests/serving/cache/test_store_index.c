/* SPDX-License-Identifier: Apache-2.0
 * The storage's index against a plain list, over many random additions, moves and losses.
 */
#include "serving/cache/store_index.h"

#include "base/random.h"
#include "base/sha256.h"
#include "test_case.h"

#define CAPACITY 500
#define KEYS 900

static struct store_index index_of(uint32_t capacity, void **memory_out) {
    struct arena arena;
    struct store_index index;
    *memory_out = malloc(store_index_bytes(capacity));
    assert_non_null(*memory_out);
    arena_over(&arena, *memory_out, store_index_bytes(capacity));
    assert_int_equal(store_index_open(&index, &arena, capacity), STATUS_OK);
    return index;
}

static struct block_key key_of(uint32_t number) {
    struct block_key key;
    sha256_digest(&number, sizeof number, key.bytes);
    if (number % 5 == 0) memset(key.bytes + 4, 0xFF, 4); /* one home for many */
    return key;
}

static uint32_t roll(uint32_t i, uint32_t below) {
    uint32_t counter[4] = {i, 0, 0, 0}, key[2] = {1, 2}, out[4];
    random_philox(counter, key, out);
    return out[0] % below;
}

TEST(it_agrees_with_a_list) {
    void *memory;
    struct store_index index = index_of(CAPACITY, &memory);
    struct {
        uint32_t segment, frame;
    } list[KEYS];
    memset(list, 0xFF, sizeof list);
    uint32_t count = 0, refused = 0;
    for (uint32_t i = 0; i < 60000; i++) {
        uint32_t number = roll(2 * i, KEYS), what = roll(2 * i + 1, 100);
        struct block_key key = key_of(number);
        uint32_t block = store_index_find(&index, &key);
        bool there = list[number].segment != STORE_NONE || list[number].frame != STORE_NONE;
        assert_int_equal(block != STORE_NONE, there);
        uint32_t *place = what % 2 ? &list[number].segment : &list[number].frame;
        uint32_t to = what < 55 ? what % 7 : STORE_NONE;
        if (what == 99) {
            store_index_drop_segment(&index, 3);
            for (uint32_t k = 0; k < KEYS; k++) {
                if (list[k].segment != 3) continue;
                list[k].segment = STORE_NONE;
                count -= list[k].frame == STORE_NONE;
            }
            continue;
        }
        if (!there && to == STORE_NONE) continue;
        if (!there) block = store_index_add(&index, &key, &key, 0);
        if (block == STORE_NONE) {
            assert_int_equal(count, CAPACITY);
            refused++;
            continue;
        }
        *place = to;
        count += !there;
        if (list[number].segment == STORE_NONE && list[number].frame == STORE_NONE) count--;
        if (what % 2)
            store_index_set_disk(&index, block, to, i);
        else
            store_index_set_frame(&index, block, to);
        assert_int_equal(index.count, count);
        if (i % 1000 == 0) store_index_audit(&index);
    }
    assert_true(refused > 0);
    store_index_audit(&index);
    free(memory);
}

TEST(leading_blocks_end_at_the_first_gap) {
    void *memory;
    struct store_index index = index_of(16, &memory);
    struct block_key keys[6];
    for (uint32_t i = 0; i < 6; i++) {
        keys[i] = key_of(i);
        if (i == 4) continue;
        uint32_t block = store_index_add(&index, &keys[i], &keys[i], i);
        store_index_set_disk(&index, block, 0, i);
        if (i % 2) store_index_set_frame(&index, block, i);
    }
    uint32_t host;
    assert_int_equal(store_index_match_prefix(&index, keys, 6, &host), 4);
    assert_int_equal(host, 2);
    assert_int_equal(store_index_match_prefix(&index, keys, 3, NULL), 3);
    assert_int_equal(store_index_match_prefix(&index, keys + 4, 2, &host), 0);
    free(memory);
}

TEST(heat_halves_with_every_half_life) {
    void *memory;
    struct store_index index = index_of(64, &memory);
    struct block_key key = key_of(1), other = key_of(2);
    uint32_t block = store_index_add(&index, &key, &key, 0);
    store_index_set_disk(&index, block, 0, 0);
    uint32_t second = store_index_add(&index, &other, &other, 0);
    store_index_set_disk(&index, second, 0, 1);
    store_index_touch(&index, block);
    assert_true(store_index_heat(&index, block) > 1.9);
    double before = store_index_heat(&index, block);
    for (int i = 0; i < 33; i++)
        store_index_touch(&index, second);
    double after = store_index_heat(&index, block);
    assert_true(after > 0.49 * before && after < 0.51 * before);
    assert_true(store_index_heat(&index, second) > 16);
    free(memory);
}

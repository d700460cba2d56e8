/* SPDX-License-Identifier: Apache-2.0
 * The storage's bytes: what was sealed is believed, and nothing that differs in a bit.
 */
#include "serving/cache/store_format.h"

#include "base/checksum.h"
#include "test_case.h"

static const struct kv_format format = KV_FORMAT_MLA(KV_ELEMENT_F32, 20, 3, 1);

static char *sealed_as(const struct kv_format *of, struct block_key *key_out) {
    struct block_key key, parent;
    char *block = aligned_alloc(STORE_PAGE_BYTES, kv_format_block_bytes(of));
    assert_non_null(block);
    memset(block, 7, kv_format_block_bytes(of));
    memset(&key, 1, sizeof key);
    memset(&parent, 2, sizeof parent);
    store_format_seal(block, block, of, &key, &parent, 5);
    *key_out = key;
    return block;
}

static char *sealed(struct block_key *key_out) {
    return sealed_as(&format, key_out);
}

TEST(what_was_sealed_is_sound) {
    struct block_key key;
    char *block = sealed(&key);
    assert_int_equal(store_format_verify(block, &format, &key), STORE_SOUND);
    assert_int_equal(store_format_verify(block, &format, NULL), STORE_SOUND);
    assert_int_equal(store_format_mark(block)->position, 5);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(store_format_slice_sound(
            block, block + STORE_PAGE_BYTES + i * kv_format_slice_bytes(&format), &format, i));
    assert_false(store_format_slice_sound(block, block + STORE_PAGE_BYTES, &format, 3));
    free(block);
}

/* Other builds wrote and will read these bytes. */
TEST(files_of_version_1_have_the_same_bytes) {
    struct block_key key;
    char *block = sealed(&key);
    struct store_segment segment = store_format_segment(&format, 77, 9);
    struct store_entry entry = store_format_entry(STORE_ENTRY_BLOCK, &key, &key, 8, 2);
    assert_int_equal(checksum_of(block, kv_format_block_bytes(&format)), 0xb3f8799e67dd4fa5);
    assert_int_equal(checksum_of(&segment, sizeof segment), 0x2670078708f8271d);
    assert_int_equal(checksum_of(&entry, sizeof entry), 0xaa37c84e3b300805);
    free(block);
}

TEST(no_bit_of_a_header_may_differ) {
    struct block_key key;
    char *block = sealed(&key);
    for (size_t bit = 0; bit < 8 * STORE_PAGE_BYTES; bit++) {
        block[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(store_format_verify(block, &format, &key), STORE_TORN);
        block[bit / 8] ^= (char)(1 << bit % 8);
    }
    char *row = block + STORE_PAGE_BYTES + kv_format_slice_bytes(&format);
    row[100] ^= 1;
    assert_false(store_format_slice_sound(block, row, &format, 1));
    free(block);
}

/* With an indexer: each byte of each key, scales included. */
TEST(no_byte_of_an_index_key_may_differ) {
    static const struct kv_format sparse = {
        3, 1, 2, {{KV_ELEMENT_F32, 20, 1}, {KV_ELEMENT_E4M3, 32, 1}}};
    struct block_key key;
    char *block = sealed_as(&sparse, &key);
    size_t keys = kv_format_group_offset(&sparse, 1), end = kv_format_slice_bytes(&sparse);
    for (uint32_t slice = 0; slice < sparse.slice_count; slice++) {
        char *rows = block + kv_format_slice_offset(&sparse, slice);
        for (size_t i = keys; i < end; i++) {
            rows[i] ^= 1;
            assert_int_equal(store_format_slice_sound(block, rows, &sparse, slice),
                             i >= keys + 64 * 36); /* padding */
            rows[i] ^= 1;
        }
    }
    free(block);
}

TEST(others_are_reported_apart) {
    struct block_key key;
    char *block = sealed(&key);
    key.bytes[31] ^= 1;
    assert_int_equal(store_format_verify(block, &format, &key), STORE_OTHER_KEY);
    struct kv_format wider = format;
    wider.groups[0].width++;
    assert_int_equal(store_format_verify(block, &wider, NULL), STORE_OTHER_KIND);
    memset(block, 0, STORE_PAGE_BYTES);
    assert_int_equal(store_format_verify(block, &format, NULL), STORE_EMPTY);
    free(block);
}

TEST(folders_have_names) {
    char name[STORE_NAME_BYTES];
    struct kv_format read;
    store_format_folder(&format, name);
    assert_string_equal(name, "v1-f32-20-3-1");
    assert_true(store_format_parse_folder(name, &read));
    assert_memory_equal(&read, &format, sizeof format);
    static const char *const wrong[] = {"",
                                        "v1-f32-20-3",
                                        "v1-f32-20-3-1x",
                                        "v1-f32--3-1",
                                        "v1-f16-20-3-1",
                                        "v2-f32-20-3-1",
                                        "v1-f32-020-3-1",
                                        "v1-f32-20-3-4",
                                        "v1-f32-99999999999999999999-3-1",
                                        "v1-f32-20-0-0",
                                        "v1-f32-20-257-0"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(store_format_parse_folder(wrong[i], &read));
}

TEST(segments_and_entries_prove_themselves) {
    struct store_segment segment = store_format_segment(&format, 77, 9);
    struct block_key key = {{3}}, parent = {{4}};
    struct store_entry entry = store_format_entry(STORE_ENTRY_BLOCK, &key, &parent, 8, 2);
    assert_true(store_format_segment_valid(&segment));
    assert_true(store_format_entry_valid(&entry, 9));
    assert_false(store_format_entry_valid(&entry, 8));
    for (size_t bit = 0; bit < 8 * sizeof segment; bit++) {
        ((char *)&segment)[bit / 8] ^= (char)(1 << bit % 8);
        assert_false(store_format_segment_valid(&segment));
        ((char *)&segment)[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * sizeof entry; bit++) {
        ((char *)&entry)[bit / 8] ^= (char)(1 << bit % 8);
        assert_false(store_format_entry_valid(&entry, UINT32_MAX));
        ((char *)&entry)[bit / 8] ^= (char)(1 << bit % 8);
    }
    segment = store_format_segment(&format, 1, 0);
    assert_false(store_format_segment_valid(&segment));
}

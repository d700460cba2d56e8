/* SPDX-License-Identifier: Apache-2.0
 * The rows that a block of a sequence has, and where the rows of each group are in a block.
 */
#include "contract/kv_block.h"

#include "test_case.h"

TEST(rows_of_all_blocks_are_the_sequence) {
    for (uint32_t tokens = 0; tokens < 300; tokens++) {
        uint32_t sum = 0;
        for (uint32_t block = 0; block < 7; block++) {
            uint32_t rows = kv_block_rows(tokens, block);
            assert_true(rows <= KV_BLOCK_TOKENS);
            if (block > 0 && rows > 0)
                assert_int_equal(kv_block_rows(tokens, block - 1), KV_BLOCK_TOKENS);
            sum += rows;
        }
        assert_int_equal(sum, tokens);
    }
    assert_int_equal(kv_block_rows(UINT32_MAX, UINT32_MAX), 0); /* far behind it */
}

TEST(a_format_of_mla_alone_is_version_1) {
    const struct kv_format v3 = KV_FORMAT_MLA(KV_ELEMENT_BF16, 576, 62, 1);
    struct kv_block_header header;
    assert_true(kv_format_is_valid(&v3));
    assert_int_equal(kv_format_slice_bytes(&v3), 73728);
    assert_int_equal(kv_format_filled_bytes(&v3, 5), 5 * 1152);
    assert_int_equal(kv_format_slice_offset(&v3, 1), 4096 + 73728);
    assert_int_equal(kv_format_block_bytes(&v3), 4096 + 62 * 73728);
    assert_int_equal(kv_format_token_bytes(&v3), 62 * 1152);
    kv_block_describe(&header, &v3, 17);
    assert_memory_equal(header.magic, KV_BLOCK_MAGIC, sizeof header.magic);
    const uint32_t fields[] = {1, KV_ELEMENT_BF16, 17, 576, 62, 1};
    assert_memory_equal(&header.version, fields, sizeof fields);
    assert_int_equal(header.slice_bytes, 73728);
    assert_int_equal(header.checksum_valid, 0);
}

TEST(only_a_header_of_the_same_format_matches) {
    const struct kv_format v3 = KV_FORMAT_MLA(KV_ELEMENT_BF16, 576, 62, 1);
    struct kv_format other = v3;
    struct kv_block_header header;
    kv_block_describe(&header, &v3, 64);
    assert_true(kv_block_is_described(&header, &v3, 64));
    assert_false(kv_block_is_described(&header, &v3, 63));
    other.mtp_count = 0;
    assert_false(kv_block_is_described(&header, &other, 64));
}

TEST(an_indexer_adds_a_group_to_the_same_header) {
    struct kv_format v32 = KV_FORMAT_MLA(KV_ELEMENT_BF16, 576, 62, 1), read;
    struct kv_block_header header;
    char name[KV_SHAPE_NAME_BYTES];
    v32.group_count = 2;
    v32.groups[1] = (struct kv_group){KV_ELEMENT_E4M3, 128, 1};
    assert_true(kv_format_is_valid(&v32));
    assert_int_equal(kv_group_row_bytes(&v32.groups[1]), 128 + 4);
    assert_int_equal(kv_format_group_offset(&v32, 1), 73728);
    assert_int_equal(kv_format_slice_bytes(&v32), 73728 + 12288);
    assert_int_equal(kv_format_filled_bytes(&v32, 5), 73728 + 5 * 132);
    assert_int_equal(kv_format_token_bytes(&v32), 62 * (1152 + 132));
    kv_block_describe(&header, &v32, 17);
    const uint16_t fields[] = {1, 0, KV_ELEMENT_BF16, KV_ELEMENT_E4M3, 17, 0, 576, 0, 62, 128, 1};
    assert_memory_equal(&header.version, fields, sizeof fields);
    const struct kv_shape shape = kv_shape_of(&v32);
    kv_block_shape_name(&shape, name);
    assert_string_equal(name, "bf16-576-62-1-e4m3-128");
    assert_true(kv_block_parse_shape_name(name, &read));
    assert_memory_equal(&read, &v32, sizeof v32);
    const struct kv_format back = kv_format_of(&shape);
    assert_memory_equal(&back, &v32, sizeof v32);
    const char *wrong[] = {"bf16-576-62-1-e4m3",       "bf16-576-62-1-e4m3-0",
                           "bf16-576-62-1-",           "e4m3-576-62-1",
                           "bf16-576-62-1-e4m3-65536", "bf16-576-62-1-e4m3-128-1"};
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++)
        assert_false(kv_block_parse_shape_name(wrong[i], &read));
}

TEST(names_of_shapes_are_read_back) {
    const struct kv_format v3 = KV_FORMAT_MLA(KV_ELEMENT_BF16, 576, 62, 1);
    const struct kv_shape shape = kv_shape_of(&v3);
    struct kv_format read;
    char name[KV_SHAPE_NAME_BYTES];
    kv_block_shape_name(&shape, name);
    assert_string_equal(name, "bf16-576-62-1");
    assert_true(kv_block_parse_shape_name(name, &read));
    assert_memory_equal(&read, &v3, sizeof v3);
    assert_false(kv_block_parse_shape_name("bf16", &read));
    assert_false(kv_block_parse_shape_name("bf-576-62-1", &read));
    assert_false(
        kv_block_parse_shape_name("bf16-576-62-63", &read)); /* more MTP slices than slices */
}

/* A latent row a token, a smaller key row a token, and a row for four tokens. */
TEST(groups_follow_each_other_in_a_slice) {
    const struct kv_format format = {
        .slice_count = 3,
        .group_count = 3,
        .groups = {{KV_ELEMENT_BF16, 576, 1}, {KV_ELEMENT_BF16, 20, 1}, {KV_ELEMENT_F32, 512, 4}}};
    assert_int_equal(kv_format_group_offset(&format, 0), 0);
    assert_int_equal(kv_format_group_offset(&format, 1), 73728);
    assert_int_equal(kv_format_group_offset(&format, 2), 73728 + 4096); /* 2560 bytes of rows */
    assert_int_equal(kv_format_slice_bytes(&format), 73728 + 4096 + 16 * 2048);
    assert_int_equal(kv_group_rows_bytes(&format.groups[2], 11), 2 * 2048); /* whole rows */
    assert_int_equal(kv_format_filled_bytes(&format, 11), 73728 + 4096 + 2 * 2048);
    assert_int_equal(kv_format_token_bytes(&format), 3 * (1152 + 40 + 512));
    assert_false(kv_format_is_valid(&format)); /* version 1 cannot name it */
}

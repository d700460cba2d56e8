/* SPDX-License-Identifier: Apache-2.0
 * Protects the places of V4's rows in pages: each entry and key has bytes of its own, within the
 * block that the format describes, in the page of its group's last token; layers that make no
 * entries take no room.
 */
#include <string.h>

#include "test_case.h"

#include "compute/model/compressed_rows.h"

static struct shape make_shape(void) {
    struct shape shape = {.layers = 5, .kv_rank = 24, .rope_dim = 8, .index_dim = 16};
    static const uint16_t ratios[] = {0, 4, 128, 2, 1};
    for (uint16_t i = 0; i < 5; i++)
        shape.layer_kinds[i] =
            (struct layer_kind){.attention = ATTENTION_COMPRESSED,
                                .ratio = ratios[i],
                                .entry_source = ratios[i] ? i : LAYER_NONE,
                                .index_source = i != 2 && ratios[i] ? i : LAYER_NONE};
    return shape;
}

TEST(every_entry_of_a_page_has_its_own_bytes) {
    const struct shape shape = make_shape();
    const struct compressed_rows rows = compressed_rows_place(&shape, KV_ELEMENT_F32);
    const struct kv_format format = compressed_rows_format(&shape, KV_ELEMENT_F32);
    static char bytes[1 << 16];
    assert_true(rows.bytes <= kv_format_slice_bytes(&format) && rows.bytes <= sizeof bytes);
    assert_true(kv_format_is_valid(&format));
    memset(bytes, 0, sizeof bytes);
    for (uint32_t layer = 1; layer < 5; layer++)
        for (uint32_t kind = 0; kind < COMPRESSED_KINDS; kind++) {
            const uint32_t ratio = shape.layer_kinds[layer].ratio;
            if (kind == COMPRESSED_KEY && layer == 2) continue;
            for (uint32_t entry = 0; entry < compressed_rows_each(ratio); entry++) {
                char *row = bytes + compressed_rows_at(&rows, layer, kind, ratio, entry);
                for (uint32_t i = 0; i < rows.width[kind] * 4; i++)
                    assert_int_equal(row[i]++, 0);
            }
        }
}

TEST(an_entry_is_in_the_page_of_its_last_token) {
    assert_int_equal(compressed_rows_page(4, 15), 0);
    assert_int_equal(compressed_rows_page(4, 16), 1);
    assert_int_equal(compressed_rows_page(128, 0), 1);
    assert_int_equal(compressed_rows_page(128, 1), 3);
    assert_int_equal(compressed_rows_page(1, 64), 1);
    assert_int_equal(compressed_rows_page(2, 31), 0);
}

TEST(a_model_of_windows_alone_has_a_block) {
    struct shape shape = make_shape();
    for (uint32_t i = 0; i < 5; i++)
        shape.layer_kinds[i].ratio = 0;
    const struct kv_format format = compressed_rows_format(&shape, KV_ELEMENT_BF16);
    assert_true(kv_format_is_valid(&format));
}

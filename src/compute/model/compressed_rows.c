/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/compressed_rows.h"

struct compressed_rows compressed_rows_place(const struct shape *shape, enum kv_element element) {
    struct compressed_rows rows = {
        .width = {shape_kv_width(shape), shape->index_dim},
        .element_bytes = element == KV_ELEMENT_BF16 ? 2 : 4,
    };
    size_t at = 0;
    for (uint32_t layer = 0; layer < shape->layers; layer++) {
        const struct layer_kind *kind = &shape->layer_kinds[layer];
        if (!kind->ratio || kind->entry_source != layer) continue;
        for (uint32_t i = 0; i < COMPRESSED_KINDS; i++) {
            if (i == COMPRESSED_KEY && kind->index_source != layer) continue;
            rows.offset[layer][i] = (uint32_t)at;
            at += round_up(compressed_rows_each(kind->ratio) * rows.width[i] * rows.element_bytes,
                           64);
        }
    }
    rows.bytes = at;
    return rows;
}

struct kv_format compressed_rows_format(const struct shape *shape, enum kv_element element) {
    const struct compressed_rows rows = compressed_rows_place(shape, element);
    const size_t row = divide_up(rows.bytes, KV_BLOCK_TOKENS * rows.element_bytes);
    struct kv_format format = KV_FORMAT_MLA(element, row ? (uint32_t)row : 1, 1, 0);
    return format;
}

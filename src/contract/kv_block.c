/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/kv_block.h"

#include "base/format.h"

static const char *const element_names[KV_ELEMENT_COUNT] = {
    [KV_ELEMENT_BF16] = "bf16", [KV_ELEMENT_F32] = "f32"};

void kv_block_shape_name(const struct kv_shape *shape, char name_out[KV_SHAPE_NAME_BYTES]) {
    bool known = shape->element < KV_ELEMENT_COUNT;
    format_text(name_out, KV_SHAPE_NAME_BYTES, "%s-%u-%u-%u",
                known ? element_names[shape->element] : "unknown", shape->width, shape->slice_count,
                shape->mtp_count);
}

/* Parses a dash and a number without leading zeros. Returns false if there is none. */
static bool parse_number(const char **at, uint32_t *out) {
    uint64_t value = 0;
    const char *start = *at + 1;
    if (*(*at)++ != '-') return false;
    for (; **at >= '0' && **at <= '9' && value <= UINT32_MAX; ++*at)
        value = value * 10 + (uint64_t)(**at - '0');
    *out = (uint32_t)value;
    return *at > start && value <= UINT32_MAX && !(*start == '0' && *at > start + 1);
}

bool kv_block_parse_shape_name(const char *name, struct kv_format *format_out) {
    struct kv_shape shape = {.element = KV_ELEMENT_COUNT};
    const char *at = name + strcspn(name, "-");
    for (uint32_t i = 0; i < KV_ELEMENT_COUNT; i++)
        if (bytes_equal((struct bytes){name, (size_t)(at - name)}, bytes_of(element_names[i])))
            shape.element = i;
    if (!parse_number(&at, &shape.width) || !parse_number(&at, &shape.slice_count) ||
        !parse_number(&at, &shape.mtp_count) || *at)
        return false;
    struct kv_format format = kv_format_of(&shape);
    if (!kv_format_is_valid(&format)) return false;
    *format_out = format;
    return true;
}

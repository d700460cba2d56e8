/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/kv_block.h"

#include "base/format.h"

static const char *const element_names[KV_ELEMENT_COUNT] = {
    [KV_ELEMENT_BF16] = "bf16", [KV_ELEMENT_F32] = "f32", [KV_ELEMENT_E4M3] = "e4m3"};

static const char *kv_block_element_name(uint32_t element) {
    return element < KV_ELEMENT_COUNT ? element_names[element] : "unknown";
}

void kv_block_shape_name(const struct kv_shape *shape, char name_out[KV_SHAPE_NAME_BYTES]) {
    size_t count = format_text(name_out, KV_SHAPE_NAME_BYTES, "%s-%u-%u-%u",
                               kv_block_element_name(shape->element), shape->width,
                               shape->slice_count, shape->mtp_count);
    if (shape->index_width || shape->index_element)
        format_text(name_out + count, KV_SHAPE_NAME_BYTES - count, "-%s-%u",
                    kv_block_element_name(shape->index_element), shape->index_width);
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

/* Parses the name of an element type, up to a dash or the end. */
static bool parse_element(const char **at, uint32_t *out) {
    size_t count = strcspn(*at, "-");
    for (*out = 0; *out < KV_ELEMENT_COUNT; ++*out)
        if (bytes_equal((struct bytes){*at, count}, bytes_of(element_names[*out]))) break;
    *at += count;
    return *out < KV_ELEMENT_COUNT;
}

bool kv_block_parse_shape_name(const char *name, struct kv_format *format_out) {
    struct kv_format format = KV_FORMAT_MLA(0, 0, 0, 0);
    struct kv_group *index = &format.groups[1];
    const char *at = name;
    if (!parse_element(&at, &format.groups[0].element) ||
        !parse_number(&at, &format.groups[0].width) || !parse_number(&at, &format.slice_count) ||
        !parse_number(&at, &format.mtp_count))
        return false;
    if (*at == '-') {
        at++;
        format.group_count = 2;
        index->tokens = 1;
        if (!parse_element(&at, &index->element) || !parse_number(&at, &index->width)) return false;
    }
    if (*at || !kv_format_is_valid(&format)) return false;
    *format_out = format;
    return true;
}

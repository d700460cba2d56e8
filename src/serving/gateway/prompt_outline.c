/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/prompt_outline.h"

#include <string.h>

#include "base/checksum.h"
#include "base/number.h"

/* The hash of a value's JSON. False: the arena is full. */
static bool hash_value(struct arena *arena, const struct tree *value, uint64_t *out) {
    struct bytes text = value ? tree_text(arena, value) : (struct bytes){"", 0};
    if (!text.data) return false;
    *out = checksum_of(text.data, text.count);
    return true;
}

/* The hash of a content, the same for a string and for parts that have its text. */
static bool hash_content(struct arena *arena, const struct tree *content, uint64_t *out) {
    struct bytes text;
    size_t total = 0, used = 0;
    if (tree_kind(content) != TREE_ARRAY) return hash_value(arena, content, out);
    for (size_t i = 0; i < tree_count(content); i++)
        if (tree_get_string(tree_member(tree_at(content, i), "text"), &text)) total += text.count;
    char *joined = arena_take(arena, total + 1);
    if (!joined) return false;
    for (size_t i = 0; i < tree_count(content); i++) {
        if (!tree_get_string(tree_member(tree_at(content, i), "text"), &text)) continue;
        if (text.count) memcpy(joined + used, text.data, text.count);
        used += text.count;
    }
    const struct tree *string = tree_make_string(arena, (struct bytes){joined, used});
    return string && hash_value(arena, string, out);
}

/* The sum of the hashes of a message's members, in any order. */
static bool hash_message(struct arena *arena, const struct tree *message, uint64_t *out) {
    struct tree_cursor cursor = {0};
    struct bytes key;
    const struct tree *member;
    uint64_t sum = 0, pair[2];
    while (tree_next_member(message, &cursor, &key, &member)) {
        bool is_content = bytes_equal(key, BYTES_LITERAL("content"));
        if (!(is_content ? hash_content : hash_value)(arena, member, &pair[1])) return false;
        pair[0] = checksum_of(key.data, key.count);
        sum += checksum_of(pair, sizeof pair);
    }
    *out = sum;
    return true;
}

bool prompt_outline_of(struct arena *arena, struct tenant_salt tenant, const struct tree *tools,
                       const struct tree *messages, struct prompt_outline *out) {
    *out = (struct prompt_outline){.tenant = tenant};
    size_t count = tree_count(messages);
    if (count > PROMPT_OUTLINE_PARTS - 1) count = PROMPT_OUTLINE_PARTS - 1;
    if (!hash_value(arena, tools, &out->parts[0])) return false;
    for (size_t i = 0; i < count; i++)
        if (!hash_message(arena, tree_at(messages, i), &out->parts[1 + i])) return false;
    out->count = 1 + (uint32_t)count;
    return true;
}

/* Counts the parts in common, by position. *first_out: 1 + the first that is not; 0: none. */
static uint32_t count_common(const struct prompt_outline *a, const struct prompt_outline *b,
                             uint32_t *first_out) {
    uint32_t common = 0, first = 0;
    for (uint32_t i = 0; i < min_u32(a->count, b->count); i++)
        if (a->parts[i] == b->parts[i])
            common++;
        else if (first == 0)
            first = 1 + i;
    *first_out = first;
    return common;
}

uint32_t prompt_outline_compare(struct prompt_outlines *outlines,
                                const struct prompt_outline *outline) {
    uint32_t most = 0, differs = 0;
    struct prompt_outline *place = NULL;              /* the outline that this one continues */
    for (uint32_t i = 1; i <= PROMPT_OUTLINES; i++) { /* from the newest on */
        struct prompt_outline *kept =
            &outlines->kept[(outlines->next + PROMPT_OUTLINES - i) % PROMPT_OUTLINES];
        uint32_t first = 0, common = 0;
        if (kept->count && !memcmp(&kept->tenant, &outline->tenant, sizeof kept->tenant))
            common = count_common(kept, outline, &first);
        if (common <= most) continue;
        most = common;
        differs = first;
        place = first == 0 && kept->count <= outline->count ? kept : NULL;
    }
    if (!place) {
        place = &outlines->kept[outlines->next];
        outlines->next = (outlines->next + 1) % PROMPT_OUTLINES;
    }
    *place = *outline;
    return differs;
}

/* SPDX-License-Identifier: Apache-2.0
 * How large a tree will be, before it is parsed: exactly what the parser then finds, whatever is
 * inside strings; the pass ends at the first excess; and it reads no byte beyond any text.
 */
#include "base/tree_extent.h"

#include "base/random.h"
#include "base/tree.h"
#include "test_case.h"

static const struct tree_extent any = {{SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX}};

static void expect(const char *text, size_t depth, size_t keys, size_t integers, size_t values) {
    struct tree_extent extent;
    assert_int_equal(tree_extent_measure(bytes_of(text), &any, &extent), TREE_PART_COUNT);
    const struct tree_extent expected = {{depth, keys, integers, values}};
    if (memcmp(&extent, &expected, sizeof extent))
        fail_msg("%s: %zu %zu %zu %zu", text, extent.counts[0], extent.counts[1], extent.counts[2],
                 extent.counts[3]);
}

TEST(counts_are_those_of_the_text) {
    expect("", 0, 0, 0, 0);
    expect(" \n\t\r ", 0, 0, 0, 0);
    expect("7", 0, 0, 1, 0);
    expect("[1,-2, 3.5,1e3, 12345678901234567890,123456789012345678901]", 1, 0, 3, 4);
    expect("{\"a\" : \"b\",\"c\":{\"d\":[null,true,false,{}]}}", 4, 3, 0, 8);
    expect("\"[{\\\"a\\\":1,\\\\\"", 0, 0, 0, 1); /* a string, and nothing in it */
    expect("[\"12345678\",\"1234567\\\"\",\"\",\"\\\\\"]", 1, 0, 0, 5);
    expect("[[],[[]]]", 3, 0, 0, 4);
    expect("]]]}", 0, 0, 0, 0); /* no JSON: a parser ends at the first character */
    expect("\"never ends \\", 0, 0, 0, 1);
}

/* The tree's own parts. */
static void count(const struct tree *value, size_t depth, struct tree_extent *extent) {
    struct tree_cursor cursor = {NULL};
    struct bytes key;
    const struct tree *member;
    enum tree_kind kind = tree_kind(value);
    extent->counts[kind == TREE_INTEGER ? TREE_PART_INTEGERS : TREE_PART_VALUES]++;
    if (kind != TREE_OBJECT && kind != TREE_ARRAY) return;
    if (depth + 1 > extent->counts[TREE_PART_DEPTH]) extent->counts[TREE_PART_DEPTH] = depth + 1;
    for (size_t i = 0; i < tree_count(value); i++)
        count(tree_at(value, i), depth + 1, extent);
    if (kind != TREE_OBJECT) return;
    while (tree_next_member(value, &cursor, &key, &member)) {
        extent->counts[TREE_PART_KEYS]++;
        count(member, depth + 1, extent);
    }
}

static uint64_t draws;

static uint32_t below(uint32_t count) {
    return (uint32_t)(random_uniform(7, draws++, 0) * count);
}

static size_t write_some(char *out, uint32_t depth) {
    static const char *const scalars[] = {"0",    "-17",     "1.5",      "2e9",  "\"\"",
                                          "null", "\"a,b\"", "\"\\\\\"", "true", "\"\\\"{[:\""};
    uint32_t kind = below(depth < 6 ? 4 : 2), parts = below(5);
    size_t at = 0;
    while (below(4) == 0)
        out[at++] = " \n\t\r"[below(4)];
    if (kind < 2) {
        const char *text = scalars[below(10)];
        memcpy(out + at, text, strlen(text));
        return at + strlen(text);
    }
    out[at++] = kind == 2 ? '[' : '{';
    for (uint32_t i = 0; i < parts; i++) {
        const char key[] = {'"', (char)('a' + i), '\\', '"', '"', ' ', ':'};
        if (i) out[at++] = ',';
        if (kind == 3) memcpy(out + at, key, sizeof key), at += sizeof key;
        at += write_some(out + at, depth + 1);
    }
    out[at++] = kind == 2 ? ']' : '}';
    return at;
}

TEST(counts_are_those_of_the_tree) {
    static char text[1 << 18];
    static _Alignas(16) char memory[1 << 22];
    for (uint32_t round = 0; round < 3000; round++) {
        size_t bytes = write_some(text, 0);
        struct tree_extent extent, found = {{0}};
        struct arena arena;
        const struct tree *root;
        struct error error;
        arena_over(&arena, memory, sizeof memory);
        if (tree_parse(&arena, (struct bytes){text, bytes}, "text", &root, &error))
            fail_msg("%s: %.*s", error.text, (int)bytes, text);
        count(root, 0, &found);
        char *copy = malloc(bytes + 1); /* of its own size, so that a read beyond is seen */
        memcpy(copy, text, bytes);
        assert_int_equal(tree_extent_measure((struct bytes){copy, bytes}, &any, &extent),
                         TREE_PART_COUNT);
        free(copy);
        assert_memory_equal(&extent, &found, sizeof extent);
        for (int part = 0; part < TREE_PART_COUNT; part++) { /* just enough, and one too few */
            struct tree_extent most = extent, seen;
            assert_int_equal(tree_extent_measure((struct bytes){text, bytes}, &most, &seen),
                             TREE_PART_COUNT);
            if (most.counts[part]-- == 0) continue;
            assert_int_equal(tree_extent_measure((struct bytes){text, bytes}, &most, &seen), part);
            assert_int_equal(seen.counts[part], extent.counts[part]);
        }
    }
}

TEST(parts_have_names) {
    for (int part = 0; part < TREE_PART_COUNT; part++)
        assert_true(strlen(tree_extent_part_name((enum tree_part)part)) > 3);
}

/* SPDX-License-Identifier: Apache-2.0
 * The trie holds each token once, in an order that a walk can follow, and knows what strings do.
 */
#include "matcher_cases.h"

TEST(each_token_is_found_at_the_end_of_its_bytes) {
    struct arena arena, scratch;
    static char memory[2 << 20];
    arena_over(&arena, memory, 1 << 20);
    arena_over(&scratch, memory + (1 << 20), 1 << 20);
    const struct token_trie *trie = case_trie(&arena, &scratch);
    char path[TOKEN_TRIE_BYTES_MAX];
    uint32_t found = 0;
    for (uint32_t i = 1; i < trie->node_count; i++) {
        path[trie->nodes[i].depth - 1] = (char)trie->nodes[i].byte;
        for (uint32_t t = trie->nodes[i].token; t != TOKEN_NONE; t = trie->same_bytes[t], found++) {
            assert_int_equal(trie->tokens[t].count, trie->nodes[i].depth);
            assert_memory_equal(trie->tokens[t].data, path, trie->nodes[i].depth);
        }
        assert_true(i + trie->nodes[i].size <= trie->node_count);
    }
    assert_int_equal(found, trie->token_count - 1); /* one is empty */
}

TEST(it_knows_how_many_characters_a_token_needs) {
    struct arena arena, scratch;
    static char memory[2 << 20];
    arena_over(&arena, memory, 1 << 20);
    arena_over(&scratch, memory + (1 << 20), 1 << 20);
    const struct token_trie *trie = case_trie(&arena, &scratch);
    for (size_t i = 0; i < ARRAY_COUNT(case_texts); i++) {
        uint32_t needs = trie->needs[256 + i];
        const char *text = case_texts[i];
        if (!strcmp(text, "the ")) assert_int_equal(needs, 4);
        if (!strcmp(text, "\\u0061") || !strcmp(text, "\xE2\x82")) assert_int_equal(needs, 1);
        if (!strcmp(text, "x\\")) assert_int_equal(needs, 2);
        if (!strcmp(text, "\",") || !strcmp(text, "\x82\xAC")) assert_int_equal(needs, UINT8_MAX);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 * A matcher over a small vocabulary: each byte is a token, and so are texts that begin, end and
 * cross strings, keys and numbers.
 */
#pragma once

#include "base/check.h"
#include "schema_cases.h"
#include "serving/grammar/matcher/matcher.h"
#include "serving/grammar/rules/form.h"
#include "serving/grammar/rules/grammar_program.h"

#define MATCHER_CASE_BYTES ((size_t)32 << 20)

struct matcher_case {
    struct schema_case schema;
    struct arena arena, scratch;
    const struct grammar_program *program;
    const struct token_trie *trie;
    struct grammar *grammar;
    struct matcher *matcher;
    struct error error;
};

static const char *const case_texts[] = {"\"a",
                                         "\"a\"",
                                         "\":",
                                         "\": ",
                                         "\": \"",
                                         "\",",
                                         "\", \"",
                                         "\"}",
                                         "\"]",
                                         "\"}}",
                                         "{\"",
                                         "[\"",
                                         "ab",
                                         "abc",
                                         "the ",
                                         "a\"",
                                         "b\",\"",
                                         "\\n",
                                         "\\u00",
                                         "\\u0061",
                                         "\\ud8",
                                         "\\\"",
                                         "x\\",
                                         "\xC3",
                                         "\xC3\xA9",
                                         "\xE2\x82",
                                         "\xE2\x82\xAC",
                                         "\xF0\x9F",
                                         "\xF0\x9F\x98\x80",
                                         "\x82\xAC",
                                         "12",
                                         "123",
                                         "1,",
                                         "1}",
                                         "0.",
                                         ".5",
                                         "e1",
                                         "-1",
                                         "10]",
                                         "true",
                                         "false}",
                                         "null,",
                                         "tr",
                                         "  ",
                                         "\n  ",
                                         ",\n",
                                         "{}",
                                         "[]",
                                         "[[",
                                         "]]",
                                         "}}",
                                         "]}",
                                         "},",
                                         ": ",
                                         ", ",
                                         "{\"a\":1",
                                         "a",
                                         "b"};

static inline const struct token_trie *case_trie(struct arena *arena, struct arena *scratch) {
    static char bytes[256];
    struct bytes tokens[256 + ARRAY_COUNT(case_texts) + 1];
    const struct token_trie *trie = NULL;
    for (uint32_t i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = (struct bytes){&bytes[i], 1};
    }
    for (size_t i = 0; i < ARRAY_COUNT(case_texts); i++)
        tokens[256 + i] = bytes_of(case_texts[i]);
    tokens[256 + ARRAY_COUNT(case_texts)] = (struct bytes){"", 0};
    assert_false(token_trie_build(arena, scratch, tokens, ARRAY_COUNT(tokens), &trie));
    return trie;
}

/* Of the form {"schema": schema}, or of `schema` as a form itself. */
static inline void case_open_as(struct matcher_case *one, const char *schema, bool is_form) {
    static char memory[2 * MATCHER_CASE_BYTES]; /* one case at a time */
    *one = (struct matcher_case){0};
    const struct tree *form = case_form(&one->schema, schema, is_form);
    arena_over(&one->arena, memory, MATCHER_CASE_BYTES);
    arena_over(&one->scratch, memory + MATCHER_CASE_BYTES, MATCHER_CASE_BYTES);
    if (form_compile(&one->schema.kept, &one->schema.scratch, form, NULL, &schema_limits_usual,
                     &one->program, &one->error))
        fail_msg("%s: %s", schema, one->error.text);
    one->trie = case_trie(&one->arena, &one->scratch);
    if (matcher_grammar_open(&one->arena, one->program, one->trie, &one->grammar, &one->error))
        fail_msg("%s: %s", schema, one->error.text);
    assert_false(matcher_open(&one->arena, one->grammar, &one->matcher));
}

static inline void case_open(struct matcher_case *one, const char *schema) {
    case_open_as(one, schema, false);
}

/* How far `matcher` lets a text through; one more than its bytes: it may end. */
static inline size_t matcher_reach(struct matcher *matcher, const char *text) {
    struct grammar_position at = matcher_begin(matcher);
    size_t count = 0, bytes = strlen(text);
    while (count < bytes) {
        at = matcher_push(matcher, at, (struct bytes){text + count, 1});
        if (!at.number) break;
        count++;
    }
    if (count == bytes) count += matcher_may_end(matcher, at);
    return count;
}

static inline size_t form_reach(const char *form, const char *text) {
    struct matcher_case one;
    case_open_as(&one, form, true);
    return matcher_reach(one.matcher, text);
}

static inline size_t case_reach(const char *schema, const char *text) {
    struct matcher_case one;
    case_open(&one, schema);
    return matcher_reach(one.matcher, text);
}

static inline void compare_masks(struct matcher_case *one, struct grammar_position at,
                                 const char *text) {
    uint64_t fast[16] = {0}, slow[16] = {0};
    matcher_mask(one->matcher, at, fast);
    matcher_mask_slowly(one->matcher, at, slow);
    for (uint32_t t = 0; t < one->trie->token_count; t++)
        if ((fast[t / 64] ^ slow[t / 64]) >> t % 64 & 1)
            fail_msg("behind '%s' the mask %s '%.*s'", text,
                     fast[t / 64] >> t % 64 & 1 ? "wrongly holds" : "lacks",
                     (int)one->trie->tokens[t].count, one->trie->tokens[t].data);
}

#define lets_through(schema, text) assert_int_equal(case_reach((schema), (text)), strlen(text) + 1)
/* The text breaks the grammar at its last byte, or may not end behind it. */
#define stops(schema, text) assert_true(case_reach((schema), (text)) <= strlen(text))
#define stops_before_last(schema, text)                                                            \
    assert_int_equal(case_reach((schema), (text)), strlen(text) - 1)

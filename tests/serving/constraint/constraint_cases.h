/* SPDX-License-Identifier: Apache-2.0
 * Constraints over the vocabulary of the model that comes with Fathom, whose thinking stands
 * between <think> and </think>.
 */
#pragma once

#include "base/check.h"
#include "base/file.h"
#include "serving/constraint/constraint.h"
#include "test_case.h"

enum { CASE_ROWS = 4096, CASE_WORDS = CASE_ROWS / 64, CASE_STOP = 1 };

static struct tokenizer *case_tokenizer;
static const struct token_trie *case_trie;
static struct arena case_arena, case_scratch;

static inline void case_take(struct arena *arena, size_t bytes) {
    void *memory = malloc(bytes);
    assert_non_null(memory);
    arena_over(arena, memory, bytes);
}

static inline int case_open(void **state) {
    char path[4096];
    const char *source = getenv("FATHOM_SOURCE");
    struct bytes json;
    struct error error;
    struct arena arena;
    (void)state;
    snprintf(path, sizeof path, "%s/models/tiny-r1/tokenizer.json", source ? source : ".");
    if (file_take(path, (size_t)16 << 20, &json, &error)) fail_msg("%s", error.text);
    case_take(&arena, tokenizer_arena_bytes(json.count) + ((size_t)16 << 20));
    case_take(&case_scratch, tokenizer_open_scratch_bytes(json.count) + ((size_t)64 << 20));
    case_take(&case_arena, (size_t)64 << 20);
    if (tokenizer_open(&arena, &case_scratch, json, path, &case_tokenizer, &error))
        fail_msg("%s", error.text);
    arena_clear(&case_scratch);
    free((void *)(uintptr_t)json.data);
    assert_false(
        token_trie_of_tokenizer(&arena, &case_scratch, case_tokenizer, CASE_ROWS, &case_trie));
    arena_clear(&case_scratch);
    assert_int_equal(case_trie->word_count, CASE_WORDS);
    return 0;
}

static inline uint32_t case_token(const char *text) {
    uint32_t token;
    assert_true(tokenizer_find(case_tokenizer, bytes_of(text), &token));
    return token;
}

static inline const struct constraint *case_compile(const char *text) {
    const struct constraint *constraint;
    struct error error;
    if (constraint_compile(&case_arena, &case_scratch, bytes_of(text), case_tokenizer, &constraint,
                           &error))
        fail_msg("%s: %s", text, error.text);
    return constraint;
}

static inline struct matcher *case_matcher(const struct constraint *constraint) {
    struct grammar *grammar;
    struct matcher *matcher;
    struct error error;
    if (matcher_grammar_open(&case_arena, constraint->form, case_trie, &grammar, &error))
        fail_msg("%s", error.text);
    assert_false(matcher_open(&case_arena, grammar, &matcher));
    return matcher;
}

static inline bool case_holds(const uint64_t *mask, uint32_t token) {
    return mask[token / 64] >> token % 64 & 1;
}

static inline uint32_t case_count(const uint64_t *mask) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < CASE_WORDS; i++)
        count += (uint32_t)__builtin_popcountll(mask[i]);
    return count;
}

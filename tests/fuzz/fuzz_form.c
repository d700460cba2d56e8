/* SPDX-License-Identifier: Apache-2.0
 * A form as JSON, or else a grammar in GBNF, a byte 0xFF, and choices: each byte chooses among the
 * tokens that the mask holds. Every mask holds what can be pushed and nothing else, and no place is
 * a dead end. What is refused says why.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/tree.h"
#include "parts.h"
#include "serving/grammar/form.h"
#include "serving/grammar/matcher.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARENA_BYTES ((size_t)32 << 20)
#define CHOICES_MAX 24

static const char *const texts[] = {
    "\"a",      "\": ", "\",\"", "\"}", "{\"",  "[\"", "ab", "aa",       "ba",  "12",
    "1,",       "0.",   "e1",    "10]", "= ",   "((",  "))", " a",       "a ",  "\xC3",
    "\xE2\x82", "a\n",  "\n ",   "- ",  "true", "abc", "-1", "\xC3\xA9", "x\"", "+1"};

static struct arena kept, arena, scratch;
static const struct token_trie *trie;

static void open_arena(struct arena *out) {
    void *memory = malloc(ARENA_BYTES);
    check(memory);
    arena_over(out, memory, ARENA_BYTES);
}

static void prepare(void) {
    static char bytes[256];
    struct bytes tokens[256 + ARRAY_COUNT(texts)];
    for (uint32_t i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = (struct bytes){&bytes[i], 1};
    }
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        tokens[256 + i] = bytes_of(texts[i]);
    open_arena(&kept);
    open_arena(&arena);
    open_arena(&scratch);
    check(!token_trie_build(&kept, &scratch, tokens, ARRAY_COUNT(tokens), &trie));
}

static void follow(struct matcher *matcher, struct bytes choices) {
    uint64_t fast[8], slow[8];
    struct grammar_position at = matcher_begin(matcher);
    for (size_t i = 0; i < choices.count && i < CHOICES_MAX; i++) {
        uint32_t live[ARRAY_COUNT(texts) + 256], count = 0;
        matcher_mask(matcher, at, fast);
        matcher_mask_slowly(matcher, at, slow);
        check(!memcmp(fast, slow, trie->word_count * sizeof *fast));
        for (uint32_t t = 0; t < trie->token_count; t++)
            if (fast[t / 64] >> t % 64 & 1) live[count++] = t;
        check(count > 0 || matcher_may_end(matcher, at));
        if (count == 0) return;
        at = matcher_push_token(matcher, at, live[(uint8_t)choices.data[i] % count]);
        check(at.number);
        if (!matcher_settle(matcher, &at)) return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct schema_limits limits = {
        .states_max = 2000, .steps_max = 200000, .shapes_max = 500, .depth_max = 50};
    const struct tree *form = NULL;
    const struct grammar_program *program = NULL;
    struct grammar *grammar = NULL;
    struct matcher *matcher = NULL;
    struct error error = {""};
    struct bytes rest = {(const char *)data, size};
    if (!trie) prepare();
    arena_clear(&arena);
    arena_clear(&scratch);
    struct bytes text = next_part(&rest);
    if (tree_parse(&arena, text, "form", &form, &error)) {
        struct tree *made = tree_make_object(&arena);
        if (!made || !tree_set(&arena, made, "gbnf", tree_make_string(&arena, text))) return 0;
        form = made;
    }
    error.text[0] = 0;
    if (form_compile(&arena, &scratch, form, NULL, &limits, &program, &error)) {
        check(error.text[0]);
        return 0;
    }
    if (grammar_open(&arena, program, trie, &grammar, &error)) return 0;
    if (matcher_open(&arena, grammar, &matcher)) return 0;
    follow(matcher, rest);
    return 0;
}

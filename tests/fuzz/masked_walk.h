/* SPDX-License-Identifier: Apache-2.0
 * A walk under a form, for the targets that make one of their bytes: each choice takes one of the
 * tokens that the mask holds. Every mask holds what can be pushed and nothing else, and no place is
 * a dead end. What is refused says why.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/tree.h"
#include "serving/grammar/matcher/matcher.h"
#include "serving/grammar/rules/form.h"

#define WALK_ARENA_BYTES ((size_t)32 << 20)
#define WALK_CHOICES_MAX 24
#define WALK_TEXTS_MAX 64

struct masked_walk {
    struct arena kept, arena, scratch;
    const struct token_trie *trie; /* NULL: not open yet */
};

static void walk_open_arena(struct arena *out) {
    void *memory = malloc(WALK_ARENA_BYTES);
    check(memory);
    arena_over(out, memory, WALK_ARENA_BYTES);
}

/* The tokens are every byte, and these texts; or, if it is open, what the last walk took is given
 * back. */
static void walk_begin(struct masked_walk *walk, const char *const *texts, size_t text_count) {
    static char bytes[256];
    struct bytes tokens[256 + WALK_TEXTS_MAX];
    if (walk->trie) {
        arena_clear(&walk->arena);
        arena_clear(&walk->scratch);
        return;
    }
    check(text_count <= WALK_TEXTS_MAX);
    for (uint32_t i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = (struct bytes){&bytes[i], 1};
    }
    for (size_t i = 0; i < text_count; i++)
        tokens[256 + i] = bytes_of(texts[i]);
    walk_open_arena(&walk->kept);
    walk_open_arena(&walk->arena);
    walk_open_arena(&walk->scratch);
    check(!token_trie_build(&walk->kept, &walk->scratch, tokens, (uint32_t)(256 + text_count),
                            &walk->trie));
    arena_clear(&walk->scratch);
}

static void walk_follow(const struct token_trie *trie, struct matcher *matcher,
                        struct bytes choices) {
    uint64_t fast[8], slow[8];
    struct grammar_position at = matcher_begin(matcher);
    for (size_t i = 0; i < choices.count && i < WALK_CHOICES_MAX; i++) {
        uint32_t live[256 + WALK_TEXTS_MAX], count = 0;
        matcher_mask(matcher, at, fast);
        matcher_mask_slowly(matcher, at, slow);
        check(!memcmp(fast, slow, trie->word_count * sizeof *fast));
        for (uint32_t t = 0; t < trie->token_count; t++)
            if (fast[t / 64] >> t % 64 & 1) live[count++] = t;
        check(count > 0 || matcher_may_end(matcher, at));
        if (count == 0) return;
        at = matcher_push_token(matcher, at, live[(uint8_t)choices.data[i] % count]);
        check(at.number);
        if (!matcher_compact(matcher, &at)) return;
    }
}

/* Compiles the form, if it can be, and goes where the choices lead. */
static void walk_under(struct masked_walk *walk, const struct tree *form, struct bytes choices) {
    static const struct schema_limits limits = {
        .states_max = 2000, .steps_max = 200000, .shapes_max = 500, .depth_max = 50};
    const struct grammar_program *program = NULL;
    struct grammar *grammar = NULL;
    struct matcher *matcher = NULL;
    struct error error = {""};
    if (form_compile(&walk->arena, &walk->scratch, form, NULL, &limits, &program, &error)) {
        check(error.text[0]);
        return;
    }
    if (matcher_grammar_open(&walk->arena, program, walk->trie, &grammar, &error)) return;
    if (matcher_open(&walk->arena, grammar, &matcher)) return;
    walk_follow(walk->trie, matcher, choices);
}

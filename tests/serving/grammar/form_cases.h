/* SPDX-License-Identifier: Apache-2.0
 * A matcher of a form over a tokenizer whose tokens are the bytes, and two added ones.
 */
#pragma once

#include "../text/support.h"
#include "serving/grammar/matcher/matcher.h"
#include "serving/grammar/rules/form.h"

#define CALL 256   /* <call> */
#define CALLED 257 /* </call> */

struct form_case {
    struct arena *arena, *scratch;
    struct tokenizer *tokenizer;
    const struct token_trie *trie;
    const struct grammar_program *program;
    struct grammar *grammar;
    struct matcher *matcher;
    struct error error;
};

static inline enum status form_read(struct form_case *one, const struct tree *form) {
    static struct form_case kept;
    if (!kept.tokenizer) {
        static const char added[] = "{\"id\":256,\"content\":\"<call>\",\"special\":false},"
                                    "{\"id\":257,\"content\":\"</call>\",\"special\":true}";
        kept.tokenizer = test_tokenizer(test_json((struct test_parts){.added = added}), "t");
        kept.arena = test_arena((size_t)64 << 20);
        kept.scratch = test_arena((size_t)128 << 20);
        if (token_trie_of_tokenizer(test_arena(8 << 20), test_arena(8 << 20), kept.tokenizer, 258,
                                    &kept.trie))
            fail_msg("no memory for a trie");
    }
    arena_clear(kept.arena);
    arena_clear(kept.scratch);
    *one = kept;
    return form_compile(one->arena, one->scratch, form, one->tokenizer, &schema_limits_usual,
                        &one->program, &one->error);
}

/* `text` is a form as JSON. */
static inline enum status form_try(struct form_case *one, const char *text) {
    return form_read(one, test_tree(bytes_of(text)));
}

/* The form {"gbnf": text}. */
static inline enum status form_try_gbnf(struct form_case *one, const char *text) {
    static char memory[1 << 20];
    struct arena arena;
    arena_over(&arena, memory, sizeof memory);
    struct tree *form = tree_make_object(&arena);
    assert_true(tree_set(&arena, form, "gbnf", tree_make_string(&arena, bytes_of(text))));
    return form_read(one, form);
}

static inline void form_run(struct form_case *one, const char *text) {
    bool is_form = text[0] == '{';
    if (is_form ? form_try(one, text) : form_try_gbnf(one, text))
        fail_msg("%s: %s", text, one->error.text);
    if (matcher_grammar_open(one->arena, one->program, one->trie, &one->grammar, &one->error))
        fail_msg("%s: %s", text, one->error.text);
    assert_false(matcher_open(one->arena, one->grammar, &one->matcher));
}

static inline void form_compare_masks(struct form_case *one, struct grammar_position at,
                                      const char *text) {
    uint64_t fast[5], slow[5];
    matcher_mask(one->matcher, at, fast);
    matcher_mask_slowly(one->matcher, at, slow);
    if (memcmp(fast, slow, sizeof fast) != 0) fail_msg("masks differ within '%s'", text);
}

/* Pushes a text, in which <call> and </call> are the added tokens. */
static inline struct grammar_position form_push(struct form_case *one, const char *text) {
    struct grammar_position at = matcher_begin(one->matcher);
    for (const char *rest = text; *rest && at.number;) {
        bool call = !strncmp(rest, "<call>", 6), called = !strncmp(rest, "</call>", 7);
        uint32_t token = call ? CALL : called ? CALLED : (uint8_t)*rest;
        form_compare_masks(one, at, text);
        at = matcher_push_token(one->matcher, at, token);
        rest += call ? 6 : called ? 7 : 1;
    }
    if (at.number) form_compare_masks(one, at, text);
    return at;
}

enum form_end { FORM_BREAKS, FORM_GOES_ON, FORM_ENDS };

/* Of a form, or of a grammar in GBNF. */
static inline enum form_end form_takes(const char *form, const char *text) {
    struct form_case one;
    form_run(&one, form);
    struct grammar_position at = form_push(&one, text);
    if (!at.number) return FORM_BREAKS;
    return matcher_may_end(one.matcher, at) ? FORM_ENDS : FORM_GOES_ON;
}

#define takes(form, text) assert_int_equal(form_takes((form), (text)), FORM_ENDS)
#define goes_on(form, text) assert_int_equal(form_takes((form), (text)), FORM_GOES_ON)
#define breaks(form, text) assert_int_equal(form_takes((form), (text)), FORM_BREAKS)

/* `message` is the message's beginning. */
static inline void form_refuses(const char *form, enum status expected, const char *message) {
    struct form_case one;
    bool is_form = form[0] == '{' || form[0] == '[';
    enum status status = is_form ? form_try(&one, form) : form_try_gbnf(&one, form);
    if (status != expected) fail_msg("%s: %s: %s", form, status_name(status), one.error.text);
    if (strncmp(one.error.text, message, strlen(message)) != 0)
        fail_msg("'%s' does not begin with '%s'", one.error.text, message);
}

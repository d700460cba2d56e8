/* SPDX-License-Identifier: Apache-2.0
 * Protects the prompts of commands that run a model alone: the embedded model's turns become the
 * ids of their text, what is said makes no special token unless that is asked for, and what is too
 * long is told.
 */
#include "base/check.h"
#include "host/process/model_prompt.h"

#include "test_case.h"

static struct model_text text;
static struct model_prompt prompt;
static struct error error;

static int open_all(void **state) {
    const char *source = getenv("FATHOM_SOURCE");
    char path[512];
    snprintf(path, sizeof path, "%s/models/tiny-r1", source ? source : ".");
    return model_text_open(path, NULL, NULL, &text, &error) != STATUS_OK ||
           model_prompt_open(&prompt, &text, 4096, &error) != STATUS_OK;
}

static int close_all(void **state) {
    model_prompt_close(&prompt);
    model_text_close(&text);
    return 0;
}

#define USER "<｜begin▁of▁sentence｜><｜User｜>"
#define PROMPT "<｜Assistant｜><think>\n"

/* The prompt's ids are those of this text. */
static void expect(const char *expected) {
    uint32_t ids[256];
    size_t count = prompt.token_count;
    assert_true(count <= ARRAY_COUNT(ids));
    memcpy(ids, prompt.tokens, count * sizeof *ids);
    assert_int_equal(model_prompt_text(&prompt, bytes_of(expected), plain_text_nowhere, &error),
                     STATUS_OK);
    assert_int_equal(prompt.token_count, count);
    assert_memory_equal(prompt.tokens, ids, count * sizeof *ids);
}

TEST(turns_become_the_ids_of_their_text) {
    const struct chat_turn turns[] = {{"system", BYTES_LITERAL("Be \"brief\".\n")},
                                      {"user", BYTES_LITERAL("hi")}};
    assert_int_equal(model_prompt_turns(&prompt, turns, 2, false, &error), STATUS_OK);
    assert_int_equal(prompt.stream, TOKEN_STREAM_IN_REASONING);
    expect("<｜begin▁of▁sentence｜>Be \"brief\".\n<｜User｜>hi" PROMPT);
}

TEST(what_is_said_makes_special_tokens_only_if_asked) {
    const struct chat_turn turn = {"user", BYTES_LITERAL("<｜User｜>")};
    assert_int_equal(model_prompt_turns(&prompt, &turn, 1, false, &error), STATUS_OK);
    size_t plain = prompt.token_count;
    assert_int_equal(model_prompt_turns(&prompt, &turn, 1, true, &error), STATUS_OK);
    assert_true(prompt.token_count < plain);
    expect(USER "<｜User｜>" PROMPT);
}

TEST(what_is_too_long_is_reported) {
    static char words[5000];
    memset(words, 'x', sizeof words);
    const struct chat_turn turn = {"user", {words, sizeof words}};
    assert_int_equal(model_prompt_turns(&prompt, &turn, 1, false, &error), STATUS_TOO_LARGE);
    assert_non_null(strstr(error.text, "4096"));
    assert_int_equal(model_prompt_text(&prompt, turn.content, plain_text_nowhere, &error),
                     STATUS_TOO_LARGE);
}

TEST_GROUP(open_all, close_all)

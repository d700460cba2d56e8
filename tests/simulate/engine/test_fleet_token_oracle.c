/* SPDX-License-Identifier: Apache-2.0
 * Protects the invented tongues: what a client expects its prompt to be is what the gateway makes
 * of it, and answers of each tongue have calls in them.
 */
#include "simulate/engine/fleet_token_oracle.h"

#include "base/random.h"
#include "test_case.h"

enum { STOP = 1, MEMORY_BYTES = 112 << 20 };

static struct arena arena;

static struct fleet_token_oracle open_token_oracle(uint32_t which) {
    struct fleet_token_oracle token_oracle = {0};
    arena_clear(&arena);
    assert_true(fleet_token_oracle_open(&token_oracle, &arena, which));
    return token_oracle;
}

TEST(prompts_are_those_of_the_template) {
    for (uint32_t which = 0; which < FLEET_TONGUES; which++) {
        struct fleet_token_oracle token_oracle = open_token_oracle(which);
        const struct tree *messages, *tools;
        struct error error;
        struct chat_rendering out;
        uint32_t expected[64], ids[64];
        size_t count;
        const char said[] = "[{\"role\":\"user\",\"content\":\"hello\"}]";
        assert_int_equal(tree_parse(&arena, bytes_of(said), "chat", &messages, &error), STATUS_OK);
        assert_int_equal(
            tree_parse(&arena, bytes_of(fleet_token_oracle_tools), "tools", &tools, &error),
            STATUS_OK);
        struct chat_ask ask = {.messages = messages, .tools = tools, .prompts = true};
        assert_int_equal(
            chat_template_render(&token_oracle.chat_template, &ask, &arena, &out, &error),
            STATUS_OK);
        assert_int_equal(out.stream, TOKEN_STREAM_PLAIN);
        assert_int_equal(tokenizer_encode(token_oracle.tokenizer,
                                          tokenizer_scratch_create(&arena, 1024), out.text,
                                          (struct plain_text){out.contents, out.content_count}, ids,
                                          64, &count),
                         STATUS_OK);
        assert_int_equal(fleet_token_oracle_prompt("hello", true, expected), count);
        assert_memory_equal(ids, expected, count * sizeof *ids);
        fleet_token_oracle_close(&token_oracle);
    }
}

TEST(answers_have_calls) {
    static struct fleet_speech speech;
    for (uint32_t which = 0; which < FLEET_TONGUES; which++) {
        struct fleet_token_oracle token_oracle = open_token_oracle(which);
        uint32_t tokens[120], last = 0, calls = 0, all = 0;
        for (uint64_t answer = 0; answer < 50; answer++) {
            for (uint32_t i = 0; i < 120; i++)
                last = tokens[i] = fleet_token_oracle_follow(
                    (uint64_t)(random_uniform(answer, 1, i) * 8), last, STOP, false);
            speech = (struct fleet_speech){0};
            assert_int_equal(fleet_token_oracle_listen(&token_oracle, true, tokens, 120, &speech),
                             120);
            calls += speech.call_count;
            speech = (struct fleet_speech){.one_call = true};
            uint32_t count = fleet_token_oracle_listen(&token_oracle, true, tokens, 120, &speech);
            assert_true(speech.call_count <= 1 && (count == 120) >= !speech.ended);
            speech = (struct fleet_speech){0};
            assert_int_equal(fleet_token_oracle_listen(&token_oracle, false, tokens, 120, &speech),
                             120);
            assert_int_equal(speech.call_count, 0);
            all++;
        }
        assert_true(calls > all);
        fleet_token_oracle_close(&token_oracle);
    }
}

static void *memory;

static int open_group(void **state) {
    (void)state;
    memory = malloc(MEMORY_BYTES);
    assert_non_null(memory);
    arena_over(&arena, memory, MEMORY_BYTES);
    return 0;
}

static int close_group(void **state) {
    (void)state;
    free(memory);
    return 0;
}

TEST_GROUP(open_group, close_group)

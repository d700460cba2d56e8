/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator_words.h"

#include "serving/text/tokenizer.h"
#include "test_case.h"

enum { VOCAB = 129280, TOKENS = 1000 };

TEST(equal_blocks_are_equal_tokens_and_the_rest_is_ones_own) {
    const uint64_t ids[] = {7, 9};
    struct simulator_request request = {
        .prompt_tokens = TOKENS, .blocks = ids, .block_count = 2, .block_tokens = 256};
    uint32_t one[TOKENS], other[TOKENS], same = 0;
    simulator_words_prompt(&request, 1, VOCAB, one);
    simulator_words_prompt(&request, 2, VOCAB, other);
    assert_memory_equal(one, other, 512 * sizeof *one);
    for (uint32_t i = 512; i < TOKENS; i++)
        same += one[i] == other[i];
    assert_true(same < 5);
    for (uint32_t i = 0; i < TOKENS; i++)
        assert_true(one[i] >= SIMULATOR_WORDS_FIRST && one[i] < VOCAB);
    request.prompt_tokens = 300; /* the second block is cut */
    simulator_words_prompt(&request, 3, VOCAB, other);
    assert_memory_equal(one, other, 300 * sizeof *one);
}

TEST(an_answer_reports_its_request_and_place) {
    uint32_t same = 0;
    for (uint32_t place = 0; place < 10000; place++) {
        uint32_t token = simulator_words_answer(5, place, VOCAB);
        assert_int_equal(token, simulator_words_answer(5, place, VOCAB));
        same += token == simulator_words_answer(6, place, VOCAB);
        same += token == simulator_words_answer(5, place + 1, VOCAB);
    }
    assert_true(same < 5);
}

TEST(drafts_are_right_in_their_share) {
    uint32_t right = 0;
    for (uint32_t place = 0; place < 100000; place++)
        right += simulator_words_draft(3, place, 0.85);
    assert_in_range(right, 84500, 85500);
}

/* So that whole answers cost a gateway nothing but their ends. */
TEST(no_token_of_an_answer_has_a_text) {
    struct arena arena;
    struct error error;
    struct tokenizer *tokenizer;
    size_t bytes = simulator_words_bytes();
    void *memory = malloc(bytes);
    arena_over(&arena, memory, bytes);
    assert_int_equal(simulator_words_open(&arena, &tokenizer, &error), STATUS_OK);
    assert_int_equal(tokenizer_token_bytes(tokenizer, '#').count, 1);
    for (uint32_t token = SIMULATOR_WORDS_FIRST; token < VOCAB; token += 97)
        assert_int_equal(tokenizer_token_bytes(tokenizer, token).count, 0);
    simulator_words_close(tokenizer);
    free(memory);
}

/* SPDX-License-Identifier: Apache-2.0
 * Several prompts in one completion: each is answered as if it came alone, whatever way it takes to
 * its tokens, and they come and go together: nobody goes on before all are tokenized, and one that
 * cannot be answered refuses them all, by its place.
 */

#include "base/check.h"
#include "base/format.h"
#include "base/tree.h"
#include "hands.h"
#include "serving/gateway/gateway_state.h"
#include "test_case.h"

enum { INLINE = 1000 };

static const uint32_t others[] = {21, 22};

static uint32_t post(struct world *world, const char *body) {
    uint32_t client = world_post(world, COMPLETIONS, body);
    world_settle(world);
    return client;
}

/* The request of one of the client's choices, as its unit knows it. */
static struct request_id id_of(struct world *world, uint32_t client, uint32_t index) {
    const struct request *leader =
        request_of_connection(world->gateway, (struct connection_id){client});
    assert_non_null(leader);
    assert_true(index < leader->choice_count);
    return leader->choices[index]->id;
}

static void answer(struct world *world, uint32_t unit, uint32_t client, uint32_t index,
                   const uint32_t *tokens, uint32_t count) {
    struct request_id id = id_of(world, client, index);
    report_tokens(world, unit, id, 0, tokens, count);
    report_finished(world, unit, id, FINISH_LENGTH, count);
}

static void assert_choice(const struct tree *body, uint32_t place, const uint32_t *tokens,
                          size_t count) {
    const struct tree *choice = tree_at(tree_member(body, "choices"), place);
    const struct tree *reported = tree_member(choice, "token_ids");
    int64_t number = -1;
    assert_true(tree_get_integer(tree_member(choice, "index"), &number));
    assert_int_equal(number, place);
    assert_int_equal(tree_count(reported), count);
    for (size_t i = 0; i < count; i++) {
        assert_true(tree_get_integer(tree_at(reported, i), &number));
        assert_int_equal(number, tokens[i]);
    }
}

static int64_t usage_of(const struct tree *body, const char *name) {
    int64_t number = -1;
    assert_true(tree_get_integer(tree_member(tree_member(body, "usage"), name), &number));
    return number;
}

TEST(answers_stand_prompt_by_prompt) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = post(world, "{\"prompt\":[[5,6,7],[8,9,4]],\"max_tokens\":6,\"n\":2}");
    assert_int_equal(world->submits, 4);
    assert_int_equal(world->last_submit->prompt_count, 3);
    assert_int_equal(submit_tokens(world->last_submit)[0], 8);
    assert_int_equal(world->last_submit->sampling.choice, 1);
    answer(world, 1, client, 3, others, 2);
    answer(world, 1, client, 0, ids, 6);
    answer(world, 1, client, 2, ids, 1);
    assert_false(world->clients[client].ended);
    answer(world, 1, client, 1, others, 1);
    const struct tree *body = read_body(world, client);
    assert_int_equal(tree_count(tree_member(body, "choices")), 4);
    assert_choice(body, 0, ids, 6);
    assert_choice(body, 1, others, 1);
    assert_choice(body, 2, ids, 1);
    assert_choice(body, 3, others, 2);
    assert_int_equal(usage_of(body, "prompt_tokens"), 6);
    assert_int_equal(usage_of(body, "completion_tokens"), 10);
    close_empty(world);
}

/* Who gives a seed can have the same answer from any place; who gives none gets no two alike. */
TEST(only_a_seed_makes_equal_prompts_equal) {
    struct world *world = open_with(1, (struct gateway_options){0});
    const struct request *leader;
    uint32_t client = post(world, "{\"prompt\":[[5],[5]],\"seed\":7}");
    leader = request_of_connection(world->gateway, (struct connection_id){client});
    assert_int_equal(leader->choices[0]->asked.sampling.seed, 7);
    assert_int_equal(leader->choices[1]->asked.sampling.seed, 7);
    client = post(world, "{\"prompt\":[[5],[5]]}");
    leader = request_of_connection(world->gateway, (struct connection_id){client});
    assert_true(leader->choices[0]->asked.sampling.seed != leader->choices[1]->asked.sampling.seed);
    world_close(world);
}

TEST(a_lost_unit_interrupts_all_of_them) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = post(world, "{\"prompt\":[[5,6,7],[8,9,4]],\"max_tokens\":6}");
    report_tokens(world, 1, id_of(world, client, 1), 0, ids, 2);
    lose(world, 1);
    join(world, 2);
    assert_int_equal(world->submits, 4);
    report_tokens(world, 2, id_of(world, client, 1), 2, ids + 2, 4);
    report_finished(world, 2, id_of(world, client, 1), FINISH_LENGTH, 6);
    answer(world, 2, client, 0, others, 2);
    const struct tree *body = read_body(world, client);
    assert_choice(body, 0, others, 2);
    assert_choice(body, 1, ids, 6);
    close_empty(world);
}

TEST(who_leaves_cancels_all_of_them) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = post(world, "{\"prompt\":[[5],[6],[7]]}");
    struct request_id gone[3];
    for (uint32_t i = 0; i < 3; i++)
        gone[i] = id_of(world, client, i);
    world_hang_up(world, client);
    world_settle(world);
    assert_int_equal(world->cancels, 3);
    for (uint32_t i = 0; i < 3; i++)
        report_finished(world, 1, gone[i], FINISH_CANCELLED, 0);
    close_empty(world);
}

TEST(a_prompt_that_cannot_be_is_named) {
    static char long_body[8192] = "{\"prompt\":[[5";
    for (uint32_t i = 1; i < 2048; i++)
        strcat(long_body, ",5");
    strcat(long_body, "],[5]]}");
    const struct {
        const char *body, *param, *code;
        uint32_t status;
    } cases[] = {
        {"{\"prompt\":[[5],[6,4096]]}", "prompt[1]", "out_of_range", 422},
        {"{\"prompt\":[[5],[]]}", "prompt[1]", "invalid_value", 400},
        {long_body, "prompt[0]", "context_length_exceeded", 400},
        {"{\"prompt\":[[5],[6]],\"n\":9}", NULL, "out_of_range", 422},
    };
    struct world *world = open_with(1, (struct gateway_options){0});
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        uint32_t client = post(world, cases[i].body);
        struct bytes param = {0};
        assert_refused(world, client, cases[i].status, cases[i].code);
        const struct tree *error = tree_member(read_body(world, client), "error");
        bool named = tree_get_string(tree_member(error, "param"), &param);
        assert_int_equal(named, cases[i].param != NULL);
        if (named) assert_true(bytes_equal(param, bytes_of(cases[i].param)));
    }
    assert_int_equal(world->submits, 0);
    close_empty(world);
}

/* ---- texts ---- */

static struct world *open_texts(void) {
    struct world_options options = {
        .gateway = {.inline_text_bytes = INLINE, .requests_max = 64, .body_bytes_max = 1 << 20},
        .unit = {.requests_max = 64}};
    return world_open(&options);
}

/* A prompt of so many words for each count. */
static uint32_t post_words(struct world *world, const uint32_t *words, uint32_t count) {
    static char body[1 << 20];
    size_t at = (size_t)format_text(body, sizeof body, "{\"max_tokens\":1,\"prompt\":[");
    for (uint32_t i = 0; i < count; i++) {
        at += (size_t)format_text(body + at, sizeof body - at, i ? ",\"" : "\"");
        for (uint32_t w = 0; w < words[i]; w++)
            at += (size_t)format_text(body + at, sizeof body - at, " instrumentality");
        at += (size_t)format_text(body + at, sizeof body - at, "\"");
    }
    format_text(body + at, sizeof body - at, "]}");
    return world_post(world, COMPLETIONS, body);
}

TEST(all_wait_for_the_last_text) {
    struct world *world = open_texts();
    uint32_t client = post_words(world, (const uint32_t[]){1000, 1, 800}, 3);
    world_deliver_all(world);
    assert_int_equal(world->submits, 0);
    assert_true(world_tokenize(world));
    world_deliver_all(world);
    assert_int_equal(world->submits, 0);
    assert_int_equal(gateway_request_count(world->gateway), 3);
    assert_true(world_tokenize(world));
    world_deliver_all(world);
    assert_int_equal(world->submits, 3);
    world_settle(world);
    assert_int_equal(tree_count(tree_member(read_body(world, client), "choices")), 3);
    assert_int_equal(usage_of(read_body(world, client), "prompt_tokens"), 1801);
    close_empty(world);
}

/* What is tokenized at once holds up everybody: it has the bound of one prompt, for all of them. */
TEST(many_short_texts_hold_up_nobody) {
    struct world *world = open_texts();
    uint32_t words[8];
    for (uint32_t i = 0; i < 8; i++)
        words[i] = 40; /* 640 bytes */
    uint32_t client = post_words(world, words, 8);
    world_deliver_all(world);
    uint32_t texts = 0;
    while (world_tokenize(world)) {
        assert_int_equal(world->submits, 0);
        world_deliver_all(world);
        texts++;
    }
    assert_int_equal(texts, 7);
    world_settle(world);
    assert_int_equal(usage_of(read_body(world, client), "prompt_tokens"), 8 * 40);
    close_empty(world);
}

/* A request with many texts is one client of the tokenizer. */
TEST(others_pass_a_request_of_many_texts) {
    struct world *world = open_texts();
    uint32_t words[6];
    for (uint32_t i = 0; i < 6; i++)
        words[i] = 300;
    uint32_t many = post_words(world, words, 6), one = post_words(world, words, 1);
    world_deliver_all(world);
    assert_true(world_tokenize(world)); /* it was in work already */
    world_deliver_all(world);
    assert_true(world_tokenize(world));
    world_deliver_all(world);
    if (world->submits == 0) assert_true(world_tokenize(world));
    world_deliver_all(world);
    assert_int_equal(world->submits, 1);
    assert_int_equal(world->last_submit->request.high, 0x1000 + one);
    world_settle(world);
    assert_int_equal(world->clients[many].http_status, 200);
    close_empty(world);
}

TEST(one_text_too_long_refuses_all) {
    struct world *world = open_texts();
    uint32_t client = post_words(world, (const uint32_t[]){1000, 1, 2500}, 3);
    world_settle(world);
    assert_refused(world, client, 400, "context_length_exceeded");
    assert_non_null(strstr(world->clients[client].data, "prompt[2]"));
    assert_int_equal(world->submits, 0);
    client = post_words(world, (const uint32_t[]){1000, 90000 / 16}, 2); /* seen at once */
    world_settle(world);
    assert_refused(world, client, 400, "context_length_exceeded");
    assert_non_null(strstr(world->clients[client].data, "prompt[1]"));
    client = post_words(world, (const uint32_t[]){1000, 1000}, 2); /* the tokenizer is free */
    world_settle(world);
    assert_int_equal(world->clients[client].http_status, 200);
    close_empty(world);
}

TEST(who_leaves_takes_all_texts_along) {
    struct world *world = open_texts();
    uint32_t client = post_words(world, (const uint32_t[]){1000, 900, 800}, 3);
    world_deliver_all(world);
    world_hang_up(world, client);
    world_deliver_all(world);
    assert_int_equal(gateway_request_count(world->gateway), 0);
    assert_true(world_tokenize(world)); /* what was in work */
    world_deliver_all(world);
    assert_false(world_tokenize(world));
    close_empty(world);
}

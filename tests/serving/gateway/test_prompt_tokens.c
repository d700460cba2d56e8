/* SPDX-License-Identifier: Apache-2.0
 * A text's tokens and back: as a completion's prompt has them, without any unit, and a long text
 * waits for the tokenizer like everybody's.
 */

#include "base/check.h"
#include "base/format.h"
#include "base/tree.h"
#include "hands.h"
#include "test_case.h"

static struct world *open_world(void) {
    struct world_options options = {.no_unit = true,
                                    .gateway = {.inline_text_bytes = 1000,
                                                .body_bytes_max = 1 << 20,
                                                .frame = {{3}, 1, {4}, 1}}};
    return world_open(&options);
}

static uint32_t post(struct world *world, const char *path, const char *body) {
    uint32_t client = world_post(world, path, body);
    world_settle(world);
    return client;
}

static uint32_t count_of(struct world *world, uint32_t client) {
    const struct tree *root = read_body(world, client);
    int64_t count = -1;
    assert_int_equal(world->clients[client].http_status, 200);
    assert_true(tree_get_integer(tree_member(root, "count"), &count));
    assert_int_equal(tree_count(tree_member(root, "tokens")), count);
    return (uint32_t)count;
}

TEST(a_text_goes_there_and_back) {
    struct world *world = open_world();
    char body[512];
    uint32_t client = post(world, "/tokenize",
                           "{\"model\":\"tiny-r1\",\"prompt\":\"caf\\u00e9, \\\"quoted\\\"\","
                           "\"add_special_tokens\":false}");
    assert_true(count_of(world, client) > 2);
    const char *tokens = strstr(world->clients[client].data, "\"tokens\":");
    format_text(body, sizeof body, "{%s", tokens);
    client = post(world, "/v1/detokenize", body);
    assert_string_equal(world->clients[client].data, "{\"prompt\":\"café, \\\"quoted\\\"\"}");
    close_empty(world);
}

TEST(the_tokens_around_a_prompt_are_there_if_it_would_have_them) {
    struct world *world = open_world();
    uint32_t client = post(world, "/tokenize", "{\"prompt\":\"\"}");
    assert_string_equal(world->clients[client].data, "{\"count\":2,\"tokens\":[3,4]}");
    client = post(world, "/tokenize", "{\"prompt\":\"\",\"add_special_tokens\":false}");
    assert_string_equal(world->clients[client].data, "{\"count\":0,\"tokens\":[]}");
    client = post(world, "/detokenize", "{\"tokens\":[]}");
    assert_string_equal(world->clients[client].data, "{\"prompt\":\"\"}");
    close_empty(world);
}

static uint32_t ask_long(struct world *world, uint32_t words) {
    static char body[1 << 20];
    size_t at = (size_t)format_text(body, sizeof body, "{\"prompt\":\"");
    for (uint32_t i = 0; i < words; i++)
        at += (size_t)format_text(body + at, sizeof body - at, " instrumentality");
    format_text(body + at, sizeof body - at, "\"}");
    return world_post(world, "/tokenize", body);
}

TEST(long_texts_wait_for_the_tokenizer) {
    struct world *world = open_world();
    uint32_t first = ask_long(world, 500), second = ask_long(world, 700);
    uint32_t gone = ask_long(world, 600);
    uint32_t quick = world_post(world, "/detokenize", "{\"tokens\":[70]}");
    world_deliver_all(world);
    assert_non_null(world->to_tokenize);
    assert_int_equal(world->clients[quick].http_status, 200);
    world_hang_up(world, gone);
    world_settle(world);
    assert_int_equal(count_of(world, first), 502);
    assert_int_equal(count_of(world, second), 702);
    assert_false(world->clients[gone].ended);
    close_empty(world);
}

TEST(what_cannot_be_is_refused_by_name) {
    static const struct {
        const char *path, *body, *param, *code;
        uint32_t status;
    } cases[] = {
        {"/tokenize", "{}", "prompt", "missing_required_parameter", 400},
        {"/tokenize", "{\"prompt\":[1]}", "prompt", "invalid_type", 400},
        {"/tokenize", "{\"prompt\":\"a\",\"add_special_tokens\":1}", "add_special_tokens",
         "invalid_type", 400},
        {"/tokenize", "{\"messages\":[{}]}", "messages", "unsupported_parameter", 400},
        {"/tokenize", "{\"prompt\":\"a\",\"model\":\"b\"}", "model", "model_not_found", 404},
        {"/tokenize", "[", NULL, "invalid_json", 400},
        {"/detokenize", "{}", "tokens", "missing_required_parameter", 400},
        {"/detokenize", "{\"tokens\":\"a\"}", "tokens", "invalid_type", 400},
        {"/detokenize", "{\"tokens\":[1,\"a\"]}", "tokens", "invalid_type", 400},
        {"/detokenize", "{\"tokens\":[-1]}", "tokens", "out_of_range", 422},
        {"/detokenize", "{\"tokens\":[1,4096]}", "tokens", "out_of_range", 422},
        {"/detokenize", "{\"tokens\":[4294967295]}", "tokens", "out_of_range", 422},
        {"/detokenize", "{\"tokens\":[1],\"model\":\"b\"}", "model", "model_not_found", 404},
    };
    struct world *world = open_world();
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        uint32_t client = post(world, cases[i].path, cases[i].body);
        struct bytes param = {0};
        assert_refused(world, client, cases[i].status, cases[i].code);
        const struct tree *error = tree_member(read_body(world, client), "error");
        assert_int_equal(tree_get_string(tree_member(error, "param"), &param),
                         cases[i].param != NULL);
        if (cases[i].param) assert_true(bytes_equal(param, bytes_of(cases[i].param)));
    }
    close_empty(world);
}

TEST(without_a_tokenizer_there_are_none) {
    struct world *world = open_empty((struct gateway_options){0});
    assert_refused(world, post(world, "/tokenize", "{\"prompt\":\"a\"}"), 400, "no_tokenizer");
    assert_refused(world, post(world, "/detokenize", "{\"tokens\":[1]}"), 400, "no_tokenizer");
    close_empty(world);
}

/* They want as much room as they need, and no more than there is. */
TEST(an_answer_too_long_for_all_is_refused) {
    struct world *world = open_world();
    world->gateway_machine.outbox->capacity = 76 << 10;
    uint32_t client = ask_long(world, 3000);
    world_settle(world);
    assert_refused(world, client, 413, "request_too_large");
    close_empty(world);
}

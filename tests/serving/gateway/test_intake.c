/* SPDX-License-Identifier: Apache-2.0
 * Protects the way of a request to the units: what reaches them is what was asked for, and what can
 * never run, or has no room now, is refused with its reason before any unit has it.
 */
#include "serving/gateway/intake.h"

#include "base/check.h"
#include "base/format.h"
#include "dialects/speech.h"
#include "serving/gateway/gateway_state.h"
#include "test_case.h"

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define CHAT "/v1/chat/completions"

/* A prompt of so many token ids. */
static uint32_t ask_ids(struct world *world, uint32_t count, const char *more) {
    static char body[16384];
    size_t at = (size_t)format_text(body, sizeof body, "{\"prompt\":[5");
    for (uint32_t i = 1; i < count; i++)
        at += (size_t)format_text(body + at, sizeof body - at, ",5");
    format_text(body + at, sizeof body - at, "]%s}", more);
    return speech_ask(world, COMPLETIONS, body);
}

TEST(the_unit_gets_what_was_asked_for) {
    uint32_t chosen[64];
    struct world *world = speech_open_small((struct gateway_options){.frame = {{0}, 1, {7}, 1}});
    speech_ask(world, COMPLETIONS, "{\"prompt\":\"hello there\",\"max_tokens\":9}");
    uint32_t count = speech_encode(world, "hello there", chosen);
    const struct record_submit *submit = world->last_submit;
    const uint32_t *prompt = submit_tokens(submit);
    assert_int_equal(submit->prompt_count, count + 2);
    assert_true(prompt[0] == 0 && prompt[1 + count] == 7);
    assert_memory_equal(prompt + 1, chosen, count * sizeof *chosen);
    assert_int_equal(submit->new_tokens_max, 9);
    assert_int_equal(submit->stop_token_count, 1);
    assert_true(submit->sampling.temperature == 0.6f && submit->sampling.top_p == 0.95f);
    uint64_t drawn = submit->sampling.seed;
    speech_ask(world, COMPLETIONS, "{\"prompt\":\"hello there\",\"add_special_tokens\":false}");
    assert_int_equal(world->last_submit->prompt_count, count);
    assert_memory_equal(submit_tokens(world->last_submit), chosen, count * sizeof *chosen);

    speech_ask(world, COMPLETIONS,
               "{\"prompt\":[5,6],\"seed\":42,\"ignore_eos\":true,\"temperature\":0}");
    submit = world->last_submit;
    assert_int_equal(submit->prompt_count, 2); /* ids are taken as they are */
    assert_int_equal(submit->sampling.seed, 42);
    assert_int_not_equal(drawn, 42);
    assert_int_equal(submit->stop_token_count, 0);
    assert_true(submit->sampling.temperature == 0.0f);
    assert_int_equal(submit->new_tokens_max, 2046); /* what is left of the context */

    speech_ask(world, CHAT, "{" HI "}");
    submit = world->last_submit;
    prompt = submit_tokens(submit);
    count =
        speech_encode(world, "<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜><think>\n", chosen);
    assert_int_equal(submit->prompt_count, count); /* the template writes bos itself */
    assert_memory_equal(prompt, chosen, count * sizeof *chosen);
    world_close(world);
}

TEST(long_text_is_tokenized_elsewhere) {
    static char body[20000];
    struct world_options options = {.gateway = {.inline_text_bytes = 1000}};
    struct world *world = world_open(&options);
    size_t at_byte = (size_t)format_text(body, sizeof body, "{\"max_tokens\":3,\"prompt\":\"");
    for (int i = 0; i < 400; i++)
        at_byte += format_text(body + at_byte, sizeof body - at_byte, "word%d ", i % 10);
    format_text(body + at_byte, sizeof body - at_byte, "\"}");
    uint32_t first = world_post(world, COMPLETIONS, body),
             gone = world_post(world, COMPLETIONS, body);
    while (world_deliver_to_gateway(world)) {
    }
    world_carry(world);
    assert_int_equal(world->submits, 0);
    assert_non_null(world->to_tokenize);
    world_hang_up(world, gone);
    while (world_deliver_to_gateway(world)) {
    }
    world_settle(world);
    assert_int_equal(world->submits, 1);
    assert_int_equal(world->clients[first].http_status, 200);
    assert_false(world->clients[gone].ended);
    assert_int_equal(gateway_request_count(world->gateway), 0);

    uint32_t failed = world_post(world, COMPLETIONS, body);
    while (world_deliver_to_gateway(world)) {
    }
    struct record_tokenized *none = make(RECORD_TOKENIZED, NULL);
    world_carry(world);
    none->request.high = 0x1000 + failed;
    none->request.low = 77;
    world_report_gateway(world, none);
    world_deliver_to_gateway(world);
    world_carry(world);
    assert_refused(world, failed, 400, "invalid_value");
    world_close(world);
}

TEST(what_cannot_fit_is_refused_with_numbers) {
    struct world_options options = {.unit = {.page_count = 10}}; /* 640 tokens */
    struct world *world = world_open(&options);
    uint32_t client = ask_ids(world, 640, "");
    assert_refused(world, client, 400, "context_length_exceeded");
    assert_non_null(strstr(world->clients[client].data,
                           "maximum context length is 640 tokens here, as many as this server's KV "
                           "memory holds. However, the request has 641 tokens: 640 "));
    client = ask_ids(world, 639, "");
    assert_int_equal(world->clients[client].http_status, 200);
    world_close(world);

    world = world_open(&(struct world_options){0});
    client = ask_ids(world, 2048, "");
    assert_refused(world, client, 400, "context_length_exceeded");
    assert_non_null(strstr(world->clients[client].data, "maximum context length is 2048 tokens"));
    assert_refused(world, speech_ask(world, COMPLETIONS, "{\"prompt\":\"\"}"), 400,
                   "invalid_value");
    assert_refused(world, speech_ask(world, COMPLETIONS, "{\"prompt\":[4096]}"), 422,
                   "out_of_range");
    assert_refused(world, speech_ask(world, CHAT, "{" HI ",\"model\":\"x\"}"), 404,
                   "model_not_found");
    assert_int_equal(world->submits, 0);
    world_close(world);
}

/* Embedded as text, the placeholder of an image would give a wrong answer. */
TEST(the_token_of_an_image_is_refused_by_name) {
    struct world *world = speech_open_small((struct gateway_options){.image_token = 39});
    const uint32_t client = speech_ask(world, COMPLETIONS, "{\"prompt\":[5,39]}");
    assert_refused(world, client, 400, "unsupported_parameter");
    assert_non_null(strstr(world->clients[client].data,
                           "Token 1 of the prompt is 39, which stands for an image"));
    assert_int_equal(world->submits, 0);
    speech_ask(world, COMPLETIONS, "{\"prompt\":[0,5]}");
    assert_int_equal(world->submits, 1);
    world_close(world);
}

/* More tokens than there is room for are as many as there is room for. */
TEST(long_answers_are_as_long_as_fits) {
    struct world *world = speech_open_small((struct gateway_options){0});
    ask_ids(world, 2000, ",\"max_tokens\":49");
    assert_int_equal(world->last_submit->new_tokens_max, 48);
    ask_ids(world, 2000, ",\"max_tokens\":2000000000");
    assert_int_equal(world->last_submit->new_tokens_max, 48);
    uint32_t client = ask_ids(world, 2000, ",\"max_tokens\":60,\"min_tokens\":49");
    assert_refused(world, client, 422, "out_of_range");
    world_close(world);
}

TEST(full_tables_and_queues_say_try_again) {
    struct world *world = speech_open_small((struct gateway_options){.requests_max = 2});
    speech_ask(world, CHAT, "{" HI "}");
    uint32_t second = speech_ask(world, CHAT, "{" HI "}");
    assert_refused(world, speech_ask(world, CHAT, "{" HI "}"), 429, "queue_full");
    speech_end(world, FINISH_REFUSED_QUEUE);
    assert_refused(world, second, 429, "queue_full");
    uint32_t third = speech_ask(world, CHAT, "{" HI ",\"stream\":true}");
    speech_end(world, FINISH_REFUSED_TOO_LARGE);
    assert_refused(world, third, 400, "context_length_exceeded"); /* the stream had not begun */
    world_close(world);
}

TEST(without_a_tokenizer_ids_go_in_and_out) {
    struct world *world = open_with(1, (struct gateway_options){0});
    static const uint32_t chosen[] = {9, 4095, 0};
    uint32_t client = speech_ask(world, COMPLETIONS, "{\"prompt\":[5,6]}");
    speech_say_ids(world, chosen, 1);
    speech_say_ids(world, chosen + 1, 2);
    speech_end(world, FINISH_LENGTH);
    const struct tree *root = read_body(world, client);
    assert_int_equal(tree_count(tree_path(root, "choices.0.token_ids")), 3);
    assert_number_at(root, "choices.0.token_ids.1", 4095);
    client = speech_ask(world, COMPLETIONS, "{\"prompt\":[5,6],\"stream\":true}");
    speech_say_ids(world, chosen, 1);
    speech_say_ids(world, chosen + 1, 2);
    speech_end(world, FINISH_LENGTH);
    assert_int_equal(read_events(world, client), 3);
    assert_number_at(events[0], "choices.0.token_ids.0", 9);
    assert_number_at(events[1], "choices.0.token_ids.1", 0);
    assert_refused(world, speech_ask(world, CHAT, "{" HI "}"), 400, "no_chat_template");
    assert_refused(world, speech_ask(world, COMPLETIONS, "{\"prompt\":\"a\"}"), 400,
                   "no_tokenizer");
    assert_refused(world, speech_ask(world, COMPLETIONS, "{\"prompt\":[1],\"stop\":\"a\"}"), 400,
                   "unsupported_parameter");
    assert_refused(world, speech_ask(world, COMPLETIONS, "{\"prompt\":[1],\"echo\":true}"), 400,
                   "unsupported_parameter");
    world_close(world);
}

TEST(tokens_of_another_model_are_refused) {
    struct world *world = speech_open_small((struct gateway_options){0});
    assert_refused(world,
                   speech_ask(world, COMPLETIONS, "{\"prompt\":[1],\"logit_bias\":{\"4096\":1}}"),
                   422, "out_of_range");
    assert_refused(world,
                   speech_ask(world, COMPLETIONS, "{\"prompt\":[1],\"stop_token_ids\":[4096]}"),
                   422, "out_of_range");
    assert_refused(world, speech_ask(world, COMPLETIONS, "{\"prompt\":[1],\"min_tokens\":2048}"),
                   422, "out_of_range");
    speech_ask(
        world, COMPLETIONS,
        "{\"prompt\":[1,2],\"logit_bias\":{\"7\":-100},\"stop_token_ids\":[9],\"min_tokens\":3,"
        "\"min_p\":0.5,\"frequency_penalty\":1,\"presence_penalty\":-1,"
        "\"repetition_penalty\":1.5}");
    const struct record_submit *submit = world->last_submit;
    const uint32_t *stops = submit_stop_tokens(submit);
    const struct token_bias *biases = submit_biases(submit);
    assert_int_equal(submit->stop_token_count, 2);
    assert_true(stops[0] == 1 && stops[1] == 9);
    assert_int_equal(submit->bias_count, 1);
    assert_true(biases[0].token == 7 && biases[0].bias == -100.0f);
    assert_int_equal(submit->sampling.min_tokens, 3);
    assert_true(submit->sampling.min_p == 0.5f && submit->sampling.frequency_penalty == 1.0f &&
                submit->sampling.presence_penalty == -1.0f &&
                submit->sampling.repetition_penalty == 1.5f);
    world_close(world);
}

TEST(too_large_bodies_are_refused) {
    static char body[5000];
    struct world_options options = {.gateway = {.body_bytes_max = 4096}};
    struct world *world = world_open(&options);
    memset(body, ' ', sizeof body);
    uint32_t client = world_request(world, HTTP_POST, CHAT, body, 4097);
    world_settle(world);
    assert_refused(world, client, 413, "request_too_large");
    world_close(world);
}

/* A request is in the state that its text and the fleet allow. */
TEST(a_request_goes_on_as_far_as_it_can) {
    struct world_options options = {.no_unit = true, .gateway = {.inline_text_bytes = 8}};
    struct world *world = world_open(&options);
    uint32_t first = world_post(world, COMPLETIONS, "{\"prompt\":\"longer than that\"}");
    uint32_t second = world_post(world, COMPLETIONS, "{\"prompt\":\"short\"}");
    while (world_deliver_to_gateway(world))
        continue;
    const struct request *of_first =
        request_of_connection(world->gateway, (struct connection_id){first});
    const struct request *of_second =
        request_of_connection(world->gateway, (struct connection_id){second});
    assert_int_equal(of_first->life.state, REQUEST_TOKENIZING);
    assert_int_equal(of_second->life.state, REQUEST_UNCHECKED); /* no unit has come yet */
    world_settle(world);
    assert_int_equal(of_first->life.state, REQUEST_UNCHECKED);
    join(world, 1);
    assert_int_equal(of_first->life.state, REQUEST_ANSWERING);
    assert_int_equal(of_second->life.state, REQUEST_ANSWERING);
    lose(world, 1);
    assert_int_equal(of_first->life.state, REQUEST_WAITING);
    world_hang_up(world, first);
    world_hang_up(world, second);
    world_settle(world);
    close_empty(world);
}

/* Asked before a body is read, too. */
TEST(a_gateway_that_cannot_take_more_says_why) {
    struct world *world = open_with(1, (struct gateway_options){.body_bytes_max = 4096});
    struct api_error error;
    assert_true(intake_ready(world->gateway, 4096, &error));
    assert_false(intake_ready(world->gateway, 4097, &error));
    assert_int_equal(error.http_status, 413);
    world_drain(world);
    world_settle(world);
    assert_false(intake_ready(world->gateway, 1, &error));
    assert_int_equal(error.http_status, 503);
    assert_int_equal(error.retry_after_seconds, 1);
    close_empty(world);
}

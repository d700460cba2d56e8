/* SPDX-License-Identifier: Apache-2.0
 * Protects the way of new tokens to their client: whole and streamed answers have the same text and
 * log probabilities, end at stop strings and limits, and have nothing twice. A unit that sends what
 * cannot be of its request is put out. Units are played by hand.
 */
#include "serving/gateway/answer.h"

#include "base/check.h"
#include "base/format.h"
#include "dialects/speech.h"
#include "serving/gateway/gateway_state.h"
#include "test_case.h"

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define CHAT "/v1/chat/completions"

/* Tokens of one choice of a client's request, each with the two likeliest: itself and 65. */
static void report_choice(struct world *world, uint32_t client, uint32_t choice, uint32_t position,
                          const uint32_t *chosen, uint32_t count, uint32_t each) {
    struct record_tokens *record =
        make(RECORD_TOKENS,
             &(struct record_tokens){.token_count = count, .logprobs_each = each, .work_count = 1});
    struct token_logprob *logprobs = tokens_logprobs(record);
    record->request = (struct request_id){.high = 0x1000 + client, .low = 77 + choice};
    record->first_output_position = position;
    tokens_work(record)->prompt_miss_tokens = world->last_submit->prompt_count;
    memcpy(tokens_chosen(record), chosen, count * sizeof *chosen);
    for (uint32_t i = 0; i < count * each; i++)
        logprobs[i] = (struct token_logprob){i % each < 2 ? chosen[i / each] : 65,
                                             i % each == 2 ? -12345 : -0.25f};
    world_report_gateway(world, record);
    world_settle(world);
}

static void end_choice(struct world *world, uint32_t client, uint32_t choice,
                       enum finish_reason reason, uint32_t count) {
    struct record_finished *record = make(RECORD_FINISHED, NULL);
    record->request = (struct request_id){.high = 0x1000 + client, .low = 77 + choice};
    record->reason = reason;
    record->output_tokens = count;
    record->work.prompt_miss_tokens = world->last_submit->prompt_count;
    world_report_gateway(world, record);
    world_settle(world);
}

TEST(a_chat_is_answered_whole) {
    struct world *world = speech_open_small((struct gateway_options){0});
    uint32_t client = speech_ask(world, CHAT, "{" HI "}");
    speech_say(world, "Hm, \"x\"\n</think>\n\nHi \xF0\x9F\x98\x80!", false);
    uint32_t tokens = speech_said;
    speech_end(world, FINISH_LENGTH);
    const struct tree *root = read_body(world, client);
    assert_int_equal(world->clients[client].http_status, 200);
    assert_text_at(root, "object", "chat.completion");
    assert_text_at(root, "id", "chatcmpl-0000000000001000000000000000004d");
    assert_text_at(root, "model", "tiny-r1");
    assert_text_at(root, "system_fingerprint", "fathom-0.1.0-test.v1");
    assert_number_at(root, "created", 1700000001);
    assert_text_at(root, "choices.0.message.role", "assistant");
    assert_text_at(root, "choices.0.message.reasoning_content", "Hm, \"x\"");
    assert_text_at(root, "choices.0.message.content", "Hi \xF0\x9F\x98\x80!");
    assert_text_at(root, "choices.0.finish_reason", "length");
    int64_t prompt = world->last_submit->prompt_count;
    assert_number_at(root, "usage.prompt_tokens", prompt);
    assert_number_at(root, "usage.completion_tokens", tokens);
    assert_number_at(root, "usage.total_tokens", prompt + tokens);
    assert_number_at(root, "usage.prompt_cache_hit_tokens", 0);
    assert_number_at(root, "usage.prompt_cache_miss_tokens", prompt);
    assert_true(tree_path(root, "usage.completion_tokens_details.reasoning_tokens") != NULL);
    assert_number_at(root, "usage.completion_tokens_details.accepted_prediction_tokens",
                     tokens / 2 - 1);
    assert_number_at(root, "usage.completion_tokens_details.rejected_prediction_tokens", 1);
    assert_int_equal(gateway_request_count(world->gateway), 0);
    world_close(world);
}

/* R1-0528: the prompt ends before "<think>", which the model writes itself, or leaves out. */
TEST(a_model_may_open_its_thought_itself) {
    struct world *world = speech_open_small((struct gateway_options){0});
    world_use_template(world, "{{ bos_token }}{% for m in messages %}<｜User｜>{{ m.content }}"
                              "<｜Assistant｜>{{ '</think>' in m.content or '' }}{% endfor %}");
    uint32_t chosen[64];
    uint32_t client = speech_ask(world, CHAT, "{" HI "}");
    size_t count =
        speech_encode(world, "<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜>", chosen);
    assert_int_equal(world->last_submit->prompt_count, count);
    speech_say(world, "<think>\nHm\n</think>\n\nHi", false);
    speech_end(world, FINISH_STOP_TOKEN);
    const struct tree *root = read_body(world, client);
    assert_text_at(root, "choices.0.message.reasoning_content", "Hm");
    assert_text_at(root, "choices.0.message.content", "Hi");
    client = speech_ask(world, CHAT, "{" HI "}");
    speech_say(world, "Hi <think>", false);
    speech_end(world, FINISH_STOP_TOKEN);
    root = read_body(world, client);
    assert_true(tree_path(root, "choices.0.message.reasoning_content") == NULL);
    assert_text_at(root, "choices.0.message.content", "Hi <think>");
    client = speech_ask(world, CHAT, "{" HI ",\"stream\":true}");
    speech_say(world, "<think>", true);
    speech_say(world, "\nHm", true);
    speech_say(world, "</think>\n\nHi", true);
    speech_end(world, FINISH_STOP_TOKEN);
    assert_int_equal(read_events(world, client), 4);
    assert_text_at(events[0], "choices.0.delta.role", "assistant");
    assert_text_at(events[1], "choices.0.delta.reasoning_content", "Hm");
    assert_null_at(events[1], "choices.0.delta.content");
    assert_text_at(events[2], "choices.0.delta.content", "Hi");
    assert_text_at(events[3], "choices.0.finish_reason", "stop");
    world_close(world);
}

TEST(a_chat_is_streamed) {
    struct world *world = speech_open_small((struct gateway_options){0});
    uint32_t client = speech_ask(
        world, CHAT, "{" HI ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    assert_false(world->clients[client].begun); /* a refusal could still get its own status */
    speech_say(world, "Hm", true);
    assert_true(world->clients[client].begun);
    speech_say(world, " so</think>\n\nYes", true); /* one step with both parts */
    speech_say(world, "!", true);
    speech_end(world, FINISH_STOP_TOKEN);
    assert_int_equal(read_events(world, client), 7);
    for (uint32_t i = 0; i < 6; i++) {
        assert_text_at(events[i], "object", "chat.completion.chunk");
        assert_null_at(events[i], "usage");
        if (i < 5) assert_null_at(events[i], "choices.0.finish_reason");
    }
    assert_text_at(events[0], "choices.0.delta.role", "assistant");
    assert_null_at(events[0], "choices.0.delta.content");
    assert_text_at(events[1], "choices.0.delta.reasoning_content", "Hm");
    assert_null_at(events[1], "choices.0.delta.content");
    assert_text_at(events[2], "choices.0.delta.reasoning_content", " so");
    assert_text_at(events[3], "choices.0.delta.content", "Yes");
    assert_null_at(events[3], "choices.0.delta.reasoning_content");
    assert_text_at(events[4], "choices.0.delta.content", "!");
    assert_text_at(events[5], "choices.0.finish_reason", "stop");
    assert_int_equal(tree_count(tree_path(events[6], "choices")), 0);
    assert_number_at(events[6], "usage.prompt_tokens", world->last_submit->prompt_count);
    world_close(world);
}

TEST(plain_text_is_completed) {
    struct world *world = speech_open_small((struct gateway_options){0});
    uint32_t client = speech_ask(world, COMPLETIONS, "{\"prompt\":\"Once\",\"echo\":true}");
    speech_say(world, " upon</think> a", false);
    speech_end(world, FINISH_LENGTH);
    const struct tree *root = read_body(world, client);
    assert_text_at(root, "object", "text_completion");
    assert_text_at(root, "choices.0.text", "Once upon</think> a"); /* nothing is reasoning here */
    client = speech_ask(world, COMPLETIONS, "{\"prompt\":\"Once\",\"echo\":true,\"stream\":true}");
    speech_say(world, " upon", true);
    speech_end(world, FINISH_LENGTH);
    assert_int_equal(read_events(world, client), 3);
    assert_text_at(events[0], "choices.0.text", "Once");
    assert_text_at(events[1], "choices.0.text", " upon");
    assert_null_at(events[1], "choices.0.finish_reason");
    assert_null(tree_path(events[1], "usage"));
    assert_text_at(events[2], "choices.0.finish_reason", "length");
    world_close(world);
}

/* The text ends before the stop string, the unit is told, and the account waits for its last word.
 */
TEST(stop_strings_end_the_answer) {
    struct world *world = speech_open_small((struct gateway_options){0});
    for (int stream = 0; stream < 2; stream++) {
        uint32_t cancels = world->cancels;
        uint32_t client =
            speech_ask(world, COMPLETIONS,
                       stream ? "{\"prompt\":\"a\",\"stop\":[\"zz\",\"END\"],\"stream\":true}"
                              : "{\"prompt\":\"a\",\"stop\":[\"zz\",\"END\"]}");
        speech_say(world, "one two ENDthree", false);
        assert_int_equal(world->cancels, cancels + 1);
        assert_false(world->clients[client].ended);
        speech_end(world, FINISH_CANCELLED);
        if (stream) {
            uint32_t count = read_events(world, client);
            char text[64] = "";
            for (uint32_t i = 0; i < count; i++) {
                struct bytes piece;
                assert_true(tree_get_string(tree_path(events[i], "choices.0.text"), &piece));
                strncat(text, piece.data, piece.count);
            }
            assert_string_equal(text, "one two ");
            assert_text_at(events[count - 1], "choices.0.finish_reason", "stop");
        } else {
            assert_text_at(read_body(world, client), "choices.0.text", "one two ");
            assert_text_at(read_body(world, client), "choices.0.finish_reason", "stop");
        }
    }
    world_close(world);
}

/* An answer that outgrows its memory is cut with a reason; it does not take the server along. */
TEST(endless_answers_are_cut) {
    struct world *world = speech_open_small((struct gateway_options){0});
    world->gateway_machine.outbox->capacity = 70768; /* 5,232 bytes of answer */
    uint32_t client = speech_ask(world, COMPLETIONS, "{\"prompt\":\"a\"}");
    for (int i = 0; i < 2000 && world->cancels == 0; i++)
        speech_say(world, "words and words ", true);
    assert_int_equal(world->cancels, 1);
    speech_end(world, FINISH_CANCELLED);
    assert_text_at(read_body(world, client), "choices.0.finish_reason",
                   "insufficient_system_resource");
    assert_true(world->clients[client].count > 5000);
    world_close(world);
}

/* A late repeat of tokens (a resubmitted request) is not speech_said twice. */
TEST(repeated_tokens_are_dropped) {
    struct world *world = speech_open_small((struct gateway_options){0});
    uint32_t client = speech_ask(world, COMPLETIONS, "{\"prompt\":\"a\"}"), chosen[16];
    uint32_t count = speech_encode(world, "one two three", chosen);
    assert_true(count >= 3);
    speech_say_ids(world, chosen, 2);
    speech_said = 0;
    speech_say_ids(world, chosen, 2);
    speech_said = 1;
    speech_say_ids(world, chosen + 1, count - 1);
    speech_end(world, FINISH_LENGTH);
    assert_text_at(read_body(world, client), "choices.0.text", "one two three");
    world_close(world);
}

TEST(chats_report_log_probabilities) {
    struct world *world = speech_open_small((struct gateway_options){0});
    uint32_t chosen[64], count = speech_encode(world, "Hm</think>Good", chosen);
    uint32_t reasoning = speech_encode(world, "Hm</think>", chosen);
    count = speech_encode(world, "Hm</think>Good", chosen);
    for (int stream = 0; stream < 2; stream++) {
        uint32_t client = speech_ask(
            world, CHAT,
            stream ? "{" HI ",\"logprobs\":true,\"top_logprobs\":2,\"stream\":true}"
                   : "{" HI ",\"logprobs\":true,\"top_logprobs\":2,\"return_token_ids\":true}");
        assert_int_equal(world->last_submit->sampling.top_logprobs, 2);
        assert_int_equal(world->last_submit->sampling.flags, SAMPLING_LOGPROBS);
        for (uint32_t i = 0; i < count; i++)
            report_choice(world, client, 0, i, &chosen[i], 1, 3);
        end_choice(world, client, 0, FINISH_LENGTH, count);
        if (!stream) {
            const struct tree *root = read_body(world, client);
            const struct tree *content = tree_path(root, "choices.0.logprobs.content");
            assert_int_equal(tree_count(content), count - reasoning);
            assert_int_equal(tree_count(tree_path(root, "choices.0.logprobs.reasoning_content")),
                             reasoning);
            assert_int_equal(tree_count(tree_path(root, "choices.0.token_ids")), count);
            assert_fraction_at(content, "0.logprob", -0.25);
            assert_fraction_at(content, "0.top_logprobs.0.logprob", -0.25);
            assert_fraction_at(content, "0.top_logprobs.1.logprob", -9999);
            assert_int_equal(tree_count(tree_path(content, "0.top_logprobs")), 2);
            struct bytes token;
            assert_true(tree_get_string(tree_path(content, "0.token"), &token));
            assert_int_equal(tree_count(tree_path(content, "0.bytes")), token.count);
            assert_number_at(content, "0.bytes.0", token.data[0]);
            assert_null_at(root, "choices.0.logprobs.refusal");
            continue;
        }
        uint32_t events_count = read_events(world, client), thought = 0, said_tokens = 0;
        for (uint32_t i = 0; i < events_count; i++) {
            const struct tree *reported = tree_path(events[i], "choices.0.logprobs");
            if (!reported || tree_is_null(reported)) continue;
            said_tokens += (uint32_t)tree_count(tree_path(reported, "content"));
            if (tree_path(reported, "reasoning_content"))
                thought += (uint32_t)tree_count(tree_path(reported, "reasoning_content"));
            assert_null(tree_path(events[i], "choices.0.token_ids"));
        }
        assert_int_equal(thought, reasoning);
        assert_int_equal(said_tokens, count - reasoning);
    }
    world_close(world);
}

TEST(completions_report_log_probabilities) {
    struct world *world = speech_open_small((struct gateway_options){0});
    uint32_t chosen[64], count = speech_encode(world, "one two\xc3\xa9 three", chosen), offsets = 0;
    for (int stream = 0; stream < 2; stream++) {
        uint32_t client =
            speech_ask(world, COMPLETIONS,
                       stream ? "{\"prompt\":\"a\",\"logprobs\":2,\"stream\":true}"
                              : "{\"prompt\":\"a\",\"logprobs\":2,\"return_token_ids\":true}");
        for (uint32_t i = 0; i < count; i += 2)
            report_choice(world, client, 0, i, &chosen[i], count - i < 2 ? 1 : 2, 3);
        end_choice(world, client, 0, FINISH_LENGTH, count);
        uint32_t reported = 0, events_count = stream ? read_events(world, client) : 1;
        for (uint32_t e = 0; e < events_count; e++) {
            const struct tree *root = stream ? events[e] : read_body(world, client);
            const struct tree *logprobs = tree_path(root, "choices.0.logprobs");
            if (tree_is_null(logprobs)) continue;
            size_t here = tree_count(tree_path(logprobs, "tokens"));
            assert_int_equal(tree_count(tree_path(logprobs, "token_logprobs")), here);
            assert_int_equal(tree_count(tree_path(logprobs, "top_logprobs")), here);
            assert_int_equal(tree_count(tree_path(logprobs, "text_offset")), here);
            assert_fraction_at(logprobs, "token_logprobs.0", -0.25);
            for (size_t i = 0; i < here; i++, reported++) {
                int64_t offset;
                struct bytes name;
                assert_true(
                    tree_get_integer(tree_at(tree_path(logprobs, "text_offset"), i), &offset));
                assert_true(tree_get_string(tree_at(tree_path(logprobs, "tokens"), i), &name));
                const struct tree *top = tree_at(tree_path(logprobs, "top_logprobs"), i);
                struct tree_cursor cursor = {0};
                struct bytes other;
                const struct tree *value;
                assert_true(tree_next_member(top, &cursor, &other, &value));
                assert_true(bytes_equal(other, name)); /* the likeliest is the token itself */
                assert_true(tree_next_member(top, &cursor, &other, &value));
                assert_false(tree_next_member(top, &cursor, &other, &value));
                if (reported == 0) assert_int_equal(offset, 0);
                if (reported == count - 1 && !stream) offsets = (uint32_t)offset;
                if (reported == count - 1) assert_int_equal(offset, offsets); /* in streams alike */
            }
        }
        assert_int_equal(reported, count);
        if (!stream)
            assert_int_equal(tree_count(tree_path(read_body(world, client), "choices.0.token_ids")),
                             count);
    }
    assert_true(offsets > 5 && offsets < 14);
    world_close(world);
}

TEST(several_answers_come_together) {
    struct world *world = speech_open_small((struct gateway_options){0});
    uint32_t chosen[64],
        client = speech_ask(world, COMPLETIONS, "{\"prompt\":\"a\",\"n\":3,\"echo\":true}");
    assert_int_equal(world->submits, 3);
    assert_int_equal(world->last_submit->sampling.choice, 2);
    assert_int_equal(gateway_request_count(world->gateway), 3);
    uint32_t count = speech_encode(world, "xyz", chosen);
    for (uint32_t choice = 0; choice < 3; choice++)
        for (uint32_t i = 0; i < choice + 1 && i < count; i++)
            report_choice(world, client, choice, i, &chosen[0], 1, 0);
    static const uint32_t order[] = {1, 2, 0};
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(world->clients[client].ended);
        uint32_t reported = order[i] + 1 < count ? order[i] + 1 : count;
        end_choice(world, client, order[i], order[i] ? FINISH_LENGTH : FINISH_STOP_TOKEN, reported);
    }
    const struct tree *root = read_body(world, client);
    assert_int_equal(tree_count(tree_path(root, "choices")), 3);
    assert_number_at(root, "choices.2.index", 2);
    assert_text_at(root, "choices.0.finish_reason", "stop");
    assert_text_at(root, "choices.1.finish_reason", "length");
    assert_number_at(root, "usage.completion_tokens", 1 + 2 + (count < 3 ? count : 3));
    assert_number_at(root, "usage.prompt_tokens", 1);
    for (uint32_t choice = 0; choice < 3; choice++) {
        struct bytes text;
        char path[32];
        format_text(path, sizeof path, "choices.%u.text", choice);
        assert_true(tree_get_string(tree_path(root, path), &text));
        assert_true(bytes_start_with(text, BYTES_LITERAL("a"))); /* each echoes */
    }
    assert_int_equal(gateway_request_count(world->gateway), 0);

    client = speech_ask(world, CHAT,
                        "{" HI ",\"n\":2,\"stream\":true,"
                        "\"stream_options\":{\"include_usage\":true}}");
    report_choice(world, client, 1, 0, chosen, 1, 0);
    report_choice(world, client, 0, 0, chosen, 1, 0);
    end_choice(world, client, 0, FINISH_LENGTH, 1);
    report_choice(world, client, 1, 1, chosen, 1, 0);
    end_choice(world, client, 1, FINISH_LENGTH, 2);
    uint32_t roles[2] = {0}, finishes[2] = {0}, events_count = read_events(world, client);
    for (uint32_t i = 0; i + 1 < events_count; i++) {
        int64_t index;
        assert_true(tree_get_integer(tree_path(events[i], "choices.0.index"), &index));
        roles[index] += tree_path(events[i], "choices.0.delta.role") != NULL;
        finishes[index] += !tree_is_null(tree_path(events[i], "choices.0.finish_reason"));
        assert_null_at(events[i], "usage");
    }
    assert_true(roles[0] == 1 && roles[1] == 1 && finishes[0] == 1 && finishes[1] == 1);
    assert_int_equal(tree_count(tree_path(events[events_count - 1], "choices")), 0);
    assert_number_at(events[events_count - 1], "usage.completion_tokens", 3);
    world_close(world);
}

/* A request fails as a whole; its other choices are cancelled, and nothing is speech_said twice. */
TEST(choices_fail_and_leave_together) {
    struct world *world = speech_open_small((struct gateway_options){.requests_max = 4});
    uint32_t id = 70, client = speech_ask(world, COMPLETIONS, "{\"prompt\":\"a\",\"n\":3}");
    assert_refused(world, speech_ask(world, COMPLETIONS, "{\"prompt\":\"a\",\"n\":2}"), 429,
                   "queue_full");
    report_choice(world, client, 0, 0, &id, 1, 0);
    end_choice(world, client, 1, FINISH_REFUSED_QUEUE, 0);
    assert_int_equal(world->cancels, 2);
    end_choice(world, client, 0, FINISH_CANCELLED, 1);
    assert_false(world->clients[client].ended);
    end_choice(world, client, 2, FINISH_CANCELLED, 0);
    assert_refused(world, client, 429, "queue_full");
    assert_int_equal(gateway_request_count(world->gateway), 0);

    client = speech_ask(world, COMPLETIONS, "{\"prompt\":\"a\",\"n\":2,\"stream\":true}");
    report_choice(world, client, 0, 0, &id, 1, 0);
    end_choice(world, client, 1, FINISH_CANCELLED, 0);
    end_choice(world, client, 0, FINISH_CANCELLED, 1);
    uint32_t events_count = read_events(world, client);
    assert_text_at(events[events_count - 1], "error.code", "engine_failed");

    client = speech_ask(world, COMPLETIONS, "{\"prompt\":\"a\",\"n\":4}");
    end_choice(world, client, 0, FINISH_LENGTH, 0); /* the leader is done and stays */
    world_hang_up(world, client);
    world_settle(world);
    assert_int_equal(world->cancels, 2 + 1 + 3);
    for (uint32_t i = 1; i < 4; i++)
        end_choice(world, client, i, FINISH_CANCELLED, 0);
    assert_int_equal(gateway_request_count(world->gateway), 0);
    world_close(world);
}

/* What no correct unit would send is refused, and the request has not changed. */
TEST(tokens_that_cannot_be_of_a_request_are_refused) {
    static const struct {
        uint32_t first, count, each, token, work;
        enum status status;
    } rows[] = {
        {1, 1, 0, 5, 1, STATUS_INVALID},     /* leaves one out */
        {0, 7, 0, 5, 1, STATUS_INVALID},     /* more than was asked for */
        {0, 1, 1, 5, 1, STATUS_INVALID},     /* log probabilities that were not asked for */
        {0, 1, 0, VOCAB, 1, STATUS_INVALID}, /* no token of the model */
        {0, 1, 0, 5, 0, STATUS_INVALID},     /* nothing of the prompt's work yet */
        {0, 6, 0, 5, 1, STATUS_OK},
    };
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask(world, "");
    struct request_id id = world->last_submit->request;
    struct request *request = request_find(world->gateway, id);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct record_tokens *record =
            make(RECORD_TOKENS, &(struct record_tokens){.token_count = rows[i].count,
                                                        .logprobs_each = rows[i].each,
                                                        .work_count = rows[i].work});
        record->request = id;
        record->first_output_position = rows[i].first;
        if (rows[i].work) tokens_work(record)->prompt_miss_tokens = 3;
        for (uint32_t token = 0; token < rows[i].count; token++)
            tokens_chosen(record)[token] = rows[i].token;
        uint32_t unit = request_speaker(request);
        assert_int_equal(answer_tokens(world->gateway, unit + 1, record, 0),
                         STATUS_OK); /* not its */
        assert_int_equal(request->answered.output_tokens, 0);
        assert_int_equal(answer_tokens(world->gateway, unit, record, 0), rows[i].status);
        assert_int_equal(request->answered.output_tokens, rows[i].status ? 0 : rows[i].count);
    }
    report_finished(world, 1, id, FINISH_LENGTH, 6);
    assert_ids(world, client, (const uint32_t[]){5, 5, 5, 5, 5, 5}, 6);
    close_empty(world);
}

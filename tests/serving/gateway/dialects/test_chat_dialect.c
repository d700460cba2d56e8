/* SPDX-License-Identifier: Apache-2.0
 * Protects the words of chat answers to the byte: calls of tools, whole and in streams, the null
 * content beside them, each reason to end, and failures.
 */
#include "serving/gateway/dialects/chat_dialect.h"

#include "base/check.h"
#include "test_case.h"

static _Alignas(16) char memory[1 << 16];
static struct arena arena;
static char said[1 << 14];
static struct answer_text text;
static struct answer_calls calls;
static struct token_list tokens;

static const struct api_answer answer = {
    .dialect = &chat_dialect,
    .include_usage = true,
    .id = {.high = 0x12, .low = 0xab},
    .created = 5,
    .model = {"m", 1},
    .fingerprint = {"f", 1},
};

#define HEAD(object)                                                                               \
    "{\"id\":\"chatcmpl-000000000000001200000000000000ab\",\"object\":\"" object                   \
    "\",\"created\":5,\"model\":\"m\",\"system_fingerprint\":\"f\",\"choices\":["
#define CHUNK(delta, finish)                                                                       \
    "data: " HEAD("chat.completion.chunk") "{\"index\":3,\"delta\":" delta                         \
                                           ",\"logprobs\":null,\"finish_reason\":" finish          \
                                           "}],\"usage\":null}\n\n"
#define USAGE                                                                                      \
    "\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":4,\"total_tokens\":11,"                  \
    "\"prompt_cache_hit_tokens\":2,\"prompt_cache_miss_tokens\":5,"                                \
    "\"prompt_tokens_details\":{\"cached_tokens\":2},"                                             \
    "\"completion_tokens_details\":{\"reasoning_tokens\":1,\"accepted_prediction_tokens\":0,"      \
    "\"rejected_prediction_tokens\":0}}"

static const struct api_usage usage = {
    .prompt_tokens = 7, .prompt_hit_tokens = 2, .completion_tokens = 4, .reasoning_tokens = 1};

static void begin(void) {
    arena_over(&arena, memory, sizeof memory);
    text = (struct answer_text){0};
    calls = (struct answer_calls){0};
    tokens = (struct token_list){0};
}

static void say_call(const char *id, const char *name, const char *arguments) {
    assert_true(answer_calls_add(&calls, &arena, bytes_of(id), bytes_of(name), 0, 0));
    assert_true(answer_calls_add_arguments(&calls, &arena, bytes_of(arguments)));
}

static void assert_said(struct json_writer *writer, const char *expected) {
    assert_true(json_writer_fits(writer) && writer->count < sizeof said);
    said[writer->count] = 0;
    assert_string_equal(said, expected);
}

static void assert_whole(enum api_finish finish, const char *expected) {
    struct json_writer writer = {.out = said, .room = sizeof said};
    struct api_choice choice = {
        .text = &text, .calls = &calls, .tokens = &tokens, .finish = finish};
    chat_dialect.write_whole(&writer, &answer, &choice, 1, &usage);
    assert_said(&writer, expected);
}

#define WHOLE(message, finish)                                                                     \
    HEAD("chat.completion")                                                                        \
    "{\"index\":0,\"message\":{\"role\":\"assistant\"," message                                    \
    "},\"logprobs\":null,\"finish_reason\":" finish "}]," USAGE "}"

TEST(whole_answers_report_calls) {
    begin();
    say_call("call_1", "look", "{\"at\":\"\u00e9\"}");
    say_call("call_2", "wait", "{}");
    assert_whole(API_FINISH_CALLS,
                 WHOLE("\"content\":null,\"tool_calls\":[{\"id\":\"call_1\",\"type\":\"function\","
                       "\"function\":{\"name\":\"look\",\"arguments\":\"{\\\"at\\\":\\\"\u00e9\\\"}"
                       "\"}},{\"id\":\"call_2\",\"type\":\"function\",\"function\":{\"name\":"
                       "\"wait\",\"arguments\":\"{}\"}}]",
                       "\"tool_calls\""));
    assert_true(
        answer_text_add_part(&text, &arena, TOKEN_STREAM_REASONING, 0, BYTES_LITERAL("hm")));
    assert_true(answer_text_add_part(&text, &arena, TOKEN_STREAM_CONTENT, 0, BYTES_LITERAL("so")));
    calls.first->next = NULL;
    assert_whole(API_FINISH_LENGTH,
                 WHOLE("\"content\":\"so\",\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":"
                       "\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"look\","
                       "\"arguments\":\"{\\\"at\\\":\\\"\u00e9\\\"}\"}}]",
                       "\"length\""));
}

TEST(an_answer_without_text_or_calls_is_empty) {
    begin();
    assert_whole(API_FINISH_STOP, WHOLE("\"content\":\"\"", "\"stop\""));
    assert_whole(API_FINISH_STOP_STRING, WHOLE("\"content\":\"\"", "\"stop\""));
    assert_whole(API_FINISH_CUT, WHOLE("\"content\":\"\"", "\"insufficient_system_resource\""));
}

static void assert_event(struct api_event event, const char *expected) {
    struct json_writer writer = {.out = said, .room = sizeof said};
    struct dialect_place place = {0};
    event.choice = 3;
    chat_dialect.write_event(&writer, &answer, &place, &event);
    assert_said(&writer, expected);
}

static void assert_piece(struct api_piece piece, const char *expected) {
    assert_event((struct api_event){.kind = API_EVENT_PIECE, .piece = piece}, expected);
}

TEST(streams_report_calls_piece_by_piece) {
    assert_event(
        (struct api_event){.kind = API_EVENT_BEGIN},
        CHUNK("{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":null}", "null"));
    assert_piece((struct api_piece){.part = TOKEN_STREAM_REASONING, .text = {"hm", 2}},
                 CHUNK("{\"content\":null,\"reasoning_content\":\"hm\"}", "null"));
    assert_piece((struct api_piece){.part = TOKEN_STREAM_CONTENT, .text = {"so", 2}},
                 CHUNK("{\"content\":\"so\",\"reasoning_content\":null}", "null"));
    assert_piece(
        (struct api_piece){
            .part = TOKEN_STREAM_CALL, .text = {"look", 4}, .call = 1, .call_id = {"call_9", 6}},
        CHUNK("{\"tool_calls\":[{\"index\":1,\"id\":\"call_9\",\"type\":\"function\","
              "\"function\":{\"name\":\"look\",\"arguments\":\"\"}}]}",
              "null"));
    assert_piece(
        (struct api_piece){.part = TOKEN_STREAM_ARGUMENTS, .text = {"{\"a", 3}, .call = 1},
        CHUNK("{\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"{\\\"a\"}}]}", "null"));
    assert_event((struct api_event){.kind = API_EVENT_FINISH, .finish = API_FINISH_CALLS},
                 CHUNK("{\"content\":\"\",\"reasoning_content\":null}", "\"tool_calls\""));
    assert_event((struct api_event){.kind = API_EVENT_DONE, .usage = usage},
                 "data: " HEAD("chat.completion.chunk") "]," USAGE "}\n\ndata: [DONE]\n\n");
}

TEST(a_stream_that_fails_says_why) {
    struct api_error error = {0};
    api_error_set(&error, 503, NULL, "engine_failed", "It failed.");
    assert_event((struct api_event){.kind = API_EVENT_FAILED, .error = &error},
                 "data: {\"error\":{\"message\":\"It failed.\",\"type\":\"server_error\",\"param\":"
                 "null,\"code\":\"engine_failed\"}}\n\ndata: [DONE]\n\n");
}

/* The inputs of two calls, one behind the other; the last one's comes with the end. */
TEST(a_call_of_a_custom_tool_has_its_input_whole) {
    static const struct tool_alias edit = {
        .name = {"edit", 4}, .own = {"edit", 4}, .namespace = {"", 0}, .takes_text = true};
    struct api_answer custom = answer;
    custom.aliases = (struct tool_aliases){&edit, 1};
    begin();
    say_call("call_1", "edit", "{\"input\":\"a\\n\"}");
    say_call("call_2", "look", "{}");
    struct api_choice whole = {.text = &text, .calls = &calls, .tokens = &tokens};
    struct json_writer writer = {.out = said, .room = sizeof said};
    whole.finish = API_FINISH_CALLS;
    chat_dialect.write_whole(&writer, &custom, &whole, 1, &usage);
    assert_said(
        &writer,
        WHOLE("\"content\":null,\"tool_calls\":[{\"id\":\"call_1\",\"type\":\"custom\","
              "\"custom\":{\"name\":\"edit\",\"input\":\"a\\n\"}},{\"id\":\"call_2\",\"type\":"
              "\"function\",\"function\":{\"name\":\"look\",\"arguments\":\"{}\"}}]",
              "\"tool_calls\""));
    const struct api_event events[] = {
        {.kind = API_EVENT_PIECE,
         .piece = {.part = TOKEN_STREAM_CALL, .text = {"edit", 4}, .call_id = {"call_1", 6}}},
        {.kind = API_EVENT_PIECE, .piece = {.part = TOKEN_STREAM_ARGUMENTS, .text = {"{\"in", 4}}},
        {.kind = API_EVENT_PIECE,
         .piece =
             {.part = TOKEN_STREAM_CALL, .text = {"look", 4}, .call = 1, .call_id = {"call_2", 6}}},
        {.kind = API_EVENT_FINISH, .finish = API_FINISH_CALLS},
    };
    static const char input[] =
        CHUNK("{\"tool_calls\":[{\"index\":0,\"custom\":{\"input\":\"a\\n\"}}]}", "null");
    writer = (struct json_writer){.out = said, .room = sizeof said};
    struct dialect_place place = {0};
    for (size_t i = 0; i < ARRAY_COUNT(events); i++) {
        struct api_event event = events[i];
        event.choice = 3;
        event.whole = &whole;
        chat_dialect.write_event(&writer, &custom, &place, &event);
    }
    said[writer.count] = 0;
    const char *second = strstr(said, input);
    assert_non_null(second);
    static const char first[] = CHUNK("{\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"type\":"
                                      "\"custom\",\"custom\":{\"name\":\"edit\",\"input\":\"\"}}]}",
                                      "null");
    assert_int_equal(strncmp(said, first, sizeof first - 1), 0);
    assert_ptr_equal(second, said + sizeof first - 1); /* no arguments between */
    assert_non_null(strstr(second, "{\"index\":1,\"id\":\"call_2\",\"type\":\"function\""));
    assert_null(strstr(second + 1, input)); /* once */
}

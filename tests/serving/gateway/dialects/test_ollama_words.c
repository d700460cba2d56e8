/* SPDX-License-Identifier: Apache-2.0
 * Protects the words of Ollama's answers: whole ones and streams to the byte, one JSON object a
 * line, calls with whole arguments, and lists of models.
 */
#include "serving/gateway/dialects/ollama_words.h"

#include "answer_parts.h"
#include "serving/gateway/dialects/ollama_dialect.h"
#include "test_case.h"

static char said[1 << 16];

static const struct api_answer chat = {
    .dialect = &ollama_chat_dialect, .created = 1709251199, .model = {"tiny-r1", 7}};
static const struct api_answer generated = {
    .dialect = &ollama_generate_dialect, .created = 1709251199, .model = {"tiny-r1", 7}};

static const struct part parts[] = {
    {TOKEN_STREAM_REASONING, "hm \"so\""}, {TOKEN_STREAM_CONTENT, "I\nlook"},
    {TOKEN_STREAM_CALL, "look"},           {TOKEN_STREAM_ARGUMENTS, "{\n\"at\": \"\\n\"}"},
    {TOKEN_STREAM_CALL, "wait"},           {TOKEN_STREAM_CONTENT, "and"},
};

static const struct api_usage usage = {.prompt_tokens = 10,
                                       .prompt_hit_tokens = 4,
                                       .completion_tokens = 7,
                                       .prompt_ns = 2000,
                                       .answer_ns = 300};

#define HEAD "{\"model\":\"tiny-r1\",\"created_at\":\"2024-02-29T23:59:59Z\","
#define MESSAGE(rest) HEAD "\"message\":{\"role\":\"assistant\",\"content\":" rest
#define LINE(rest) MESSAGE(rest) "},\"done\":false}\n"
#define LOOK                                                                                       \
    "{\"id\":\"call_0\",\"function\":{\"index\":0,\"name\":\"look\",\"arguments\":"                \
    "{ \"at\": \"\\n\"}}}"
#define WAIT "{\"id\":\"call_1\",\"function\":{\"index\":1,\"name\":\"wait\",\"arguments\":{}}}"
#define END(reason)                                                                                \
    ",\"done\":true,\"done_reason\":\"" reason "\",\"total_duration\":2300,\"load_duration\":0,"   \
    "\"prompt_eval_count\":10,\"prompt_eval_duration\":2000,\"eval_count\":7,"                     \
    "\"eval_duration\":300"

static const char *whole(const struct api_answer *answer, size_t count, enum api_finish finish) {
    keep_parts(parts, count, "call_");
    struct api_choice choice = {
        .text = &text, .calls = &calls, .tokens = &tokens, .finish = finish};
    struct json_writer writer = {.out = said, .room = sizeof said - 1};
    ollama_words_whole(&writer, answer, &choice, 1, &usage);
    assert_true(json_writer_fits(&writer));
    said[writer.count] = '\0';
    return said;
}

struct stream {
    const struct api_answer *answer;
    struct json_writer writer;
    struct dialect_place place;
};

/* Each event is written twice, as the gateway does. */
static void report(struct stream *stream, struct api_event *event) {
    struct json_writer counter = {0};
    struct dialect_place place = stream->place;
    size_t before = stream->writer.count;
    struct api_choice choice = {.text = &text, .calls = &calls, .tokens = &tokens};
    event->whole = &choice;
    ollama_words_event(&counter, stream->answer, &place, event);
    ollama_words_event(&stream->writer, stream->answer, &stream->place, event);
    assert_int_equal(counter.count, stream->writer.count - before);
    assert_true(counter.count <= OLLAMA_WORDS_FRAME_BYTES + 6 * event->piece.text.count);
}

static void report_piece(void *context, const struct api_piece *piece) {
    struct api_event event = {.kind = API_EVENT_PIECE, .piece = *piece};
    keep(piece->part, piece->text, piece->call_id);
    event.piece.call = calls.count - 1;
    report(context, &event);
}

static const char *stream_of(const struct api_answer *answer, size_t count, enum api_finish finish,
                             struct bytes receipt) {
    struct stream stream = {.answer = answer, .writer = {.out = said, .room = sizeof said - 1}};
    forget_answer();
    report(&stream, &(struct api_event){.kind = API_EVENT_BEGIN});
    say_parts(parts, count, "call_", 99, report_piece, &stream);
    report(&stream, &(struct api_event){.kind = API_EVENT_FINISH, .finish = finish});
    report(&stream,
           &(struct api_event){
               .kind = API_EVENT_DONE, .finish = finish, .usage = usage, .receipt = receipt});
    assert_true(json_writer_fits(&stream.writer));
    said[stream.writer.count] = '\0';
    return said;
}

TEST(a_whole_answer_has_text_thoughts_and_calls) {
    assert_string_equal(
        whole(&chat, ARRAY_COUNT(parts), API_FINISH_CALLS),
        MESSAGE("\"I\\nlookand\",\"thinking\":\"hm \\\"so\\\"\",\"tool_calls\":[" LOOK "," WAIT
                "]}" END("stop") "}"));
    assert_string_equal(
        whole(&generated, 2, API_FINISH_LENGTH),
        HEAD "\"response\":\"I\\nlook\",\"thinking\":\"hm \\\"so\\\"\"" END("length") "}");
    assert_string_equal(whole(&chat, 0, API_FINISH_CUT), MESSAGE("\"\"}" END("error") "}"));
}

TEST(a_stream_is_lines_and_calls_are_whole) {
    assert_string_equal(stream_of(&chat, ARRAY_COUNT(parts), API_FINISH_CALLS, BYTES_LITERAL("")),
                        LINE("\"\",\"thinking\":\"hm \\\"so\\\"\"") LINE("\"I\\nlook\"")
                            LINE("\"\",\"tool_calls\":[" LOOK "]")
                                LINE("\"\",\"tool_calls\":[" WAIT "]") LINE("\"and\"")
                                    MESSAGE("\"\"}" END("stop") "}\n"));
    assert_string_equal(stream_of(&chat, 4, API_FINISH_CALLS, BYTES_LITERAL("{\"r\":1}")),
                        LINE("\"\",\"thinking\":\"hm \\\"so\\\"\"") LINE("\"I\\nlook\"")
                            LINE("\"\",\"tool_calls\":[" LOOK "]")
                                MESSAGE("\"\"}" END("stop") ",\"receipt\":{\"r\":1}}\n"));
    assert_string_equal(stream_of(&generated, 2, API_FINISH_STOP_STRING, BYTES_LITERAL("")), HEAD
                        "\"response\":\"\",\"thinking\":\"hm \\\"so\\\"\",\"done\":false}\n" HEAD
                        "\"response\":\"I\\nlook\",\"done\":false}\n" HEAD
                        "\"response\":\"\"" END("stop") "}\n");
}

TEST(an_error_is_a_text) {
    struct api_error error;
    struct stream stream = {.answer = &chat, .writer = {.out = said, .room = sizeof said - 1}};
    forget_answer();
    api_error_set(&error, 404, "model", "model_not_found", "no \"x\"");
    report(&stream, &(struct api_event){.kind = API_EVENT_FAILED, .error = &error});
    said[stream.writer.count] = '\0';
    assert_string_equal(said, "{\"error\":\"no \\\"x\\\"\"}\n");
}

TEST(the_model_is_listed_and_shown) {
    static const struct api_model models[] = {{.name = {"a", 1}}, {.name = {"b", 1}}};
    struct ollama_models listed = {.models = models,
                                   .count = 2,
                                   .created = 0,
                                   .model_id = "\xff\x01                              ",
                                   .tokens_max = 4096,
                                   .thinks = true,
                                   .calls = true};
    struct json_writer writer = {.out = said, .room = sizeof said - 1};
    ollama_words_tags(&writer, &listed);
    said[writer.count] = '\0';
    assert_non_null(strstr(said, "{\"models\":[{\"name\":\"a\",\"model\":\"a\",\"modified_at\":"
                                 "\"1970-01-01T00:00:00Z\",\"size\":0,\"digest\":\"ff0120"));
    assert_non_null(strstr(said, ",{\"name\":\"b\",\"model\":\"b\","));
    writer.count = 0;
    ollama_words_show(&writer, &listed);
    said[writer.count] = '\0';
    assert_non_null(strstr(said, "\"model_info\":{\"general.architecture\":\"fathom\","
                                 "\"fathom.context_length\":4096},\"capabilities\":[\"completion\","
                                 "\"tools\",\"thinking\"],"));
}

TEST(times_are_those_of_the_calendar) {
    static const struct {
        int64_t seconds;
        const char *expected;
    } cases[] = {{951782400, "2000-02-29T00:00:00Z"},
                 {1735689599, "2024-12-31T23:59:59Z"},
                 {1735689600, "2025-01-01T00:00:00Z"},
                 {1772323200, "2026-03-01T00:00:00Z"},
                 {4107542400, "2100-03-01T00:00:00Z"}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct ollama_models listed = {.created = cases[i].seconds};
        struct json_writer writer = {.out = said, .room = sizeof said - 1};
        ollama_words_show(&writer, &listed);
        said[writer.count] = '\0';
        if (!strstr(said, cases[i].expected)) fail_msg("%s is not in %s", cases[i].expected, said);
    }
}

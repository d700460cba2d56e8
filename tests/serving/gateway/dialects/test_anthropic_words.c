/* SPDX-License-Identifier: Apache-2.0
 * Protects the words of Anthropic's answers: whole ones and streams to the byte, and that however
 * an answer's text is cut into pieces, its stream says what the whole answer says.
 */
#include "serving/gateway/dialects/anthropic_words.h"

#include "answer_parts.h"
#include "serving/gateway/dialects/anthropic_dialect.h"
#include "test_case.h"

static _Alignas(16) char tree_memory[1 << 20];
static char said[1 << 16];

static const struct api_answer answer = {
    .dialect = &anthropic_dialect,
    .id = {.high = 0x12, .low = 0xab},
    .model = {"tiny-r1", 7},
};

static const struct part parts[] = {
    {TOKEN_STREAM_REASONING, "hm \"so\""}, {TOKEN_STREAM_CONTENT, "I\nlook"},
    {TOKEN_STREAM_CALL, "look"},           {TOKEN_STREAM_ARGUMENTS, " {\"at\": [1, \"\xc3\xa9\"]}"},
    {TOKEN_STREAM_CALL, "wait"},           {TOKEN_STREAM_CONTENT, "and"},
    {TOKEN_STREAM_CALL, "tell"},           {TOKEN_STREAM_ARGUMENTS, "{\"a\": \"cu"},
};

/* ---- the answer as a choice ---- */

static struct api_choice choice_of(const struct part *list, size_t count, enum api_finish finish) {
    keep_parts(list, count, "toolu_");
    return (struct api_choice){.text = &text,
                               .calls = &calls,
                               .tokens = &tokens,
                               .finish = finish,
                               .stop = BYTES_LITERAL("E\"D")};
}

static const struct api_usage usage = {
    .prompt_tokens = 10, .prompt_hit_tokens = 4, .completion_tokens = 7};

static const char *whole(const struct part *list, size_t count, enum api_finish finish) {
    struct api_choice choice = choice_of(list, count, finish);
    struct json_writer writer = {.out = said, .room = sizeof said - 1};
    anthropic_words_whole(&writer, &answer, &choice, 1, &usage);
    assert_true(json_writer_fits(&writer));
    said[writer.count] = '\0';
    return said;
}

/* ---- the answer as a stream ---- */

struct stream {
    struct json_writer writer;
    struct dialect_place place;
};

/* Each event is written twice, as the gateway does. */
static void report(struct stream *stream, const struct api_event *event) {
    struct json_writer counter = {0};
    struct dialect_place place = stream->place;
    size_t before = stream->writer.count;
    anthropic_words_event(&counter, &answer, &place, event);
    anthropic_words_event(&stream->writer, &answer, &stream->place, event);
    assert_int_equal(counter.count, stream->writer.count - before);
    assert_true(counter.count <= ANTHROPIC_WORDS_FRAME_BYTES + 6 * event->piece.text.count);
}

static void report_piece(void *context, const struct api_piece *piece) {
    report(context, &(struct api_event){.kind = API_EVENT_PIECE, .piece = *piece});
}

/* All calls were asked for by the model. */
static const char *stream_of(const struct part *list, size_t count, enum api_finish finish,
                             size_t most) {
    struct stream stream = {.writer = {.out = said, .room = sizeof said - 1}};
    report(&stream, &(struct api_event){.kind = API_EVENT_BEGIN,
                                        .usage = {.prompt_tokens = 10, .prompt_hit_tokens = 4}});
    say_parts(list, count, "toolu_", most, report_piece, &stream);
    report(&stream, &(struct api_event){.kind = API_EVENT_FINISH, .finish = finish});
    report(&stream, &(struct api_event){.kind = API_EVENT_DONE,
                                        .finish = finish,
                                        .stop = BYTES_LITERAL("E\"D"),
                                        .usage = usage});
    assert_true(json_writer_fits(&stream.writer));
    said[stream.writer.count] = '\0';
    return said;
}

/* ---- what a client makes of a stream ---- */

struct block {
    char type[16], head[256], text[512]; /* head: id and name */
    bool closed;
};

static struct {
    struct block blocks[16];
    size_t count;
    char end[256];
} client;

static void copy_text(char *out, size_t room, const struct tree *value) {
    struct bytes found = BYTES_LITERAL("");
    (void)tree_get_string(value, &found);
    size_t before = strlen(out);
    assert_true(before + found.count < room);
    memcpy(out + before, found.data, found.count);
    out[before + found.count] = '\0';
}

static void add_block(const struct tree *block) {
    struct block *added = &client.blocks[client.count++];
    assert_true(client.count <= ARRAY_COUNT(client.blocks));
    *added = (struct block){0};
    copy_text(added->type, sizeof added->type, tree_member(block, "type"));
    copy_text(added->head, sizeof added->head, tree_member(block, "id"));
    copy_text(added->head, sizeof added->head, tree_member(block, "name"));
}

static void take_delta(struct block *block, const struct tree *delta) {
    static const char *const members[] = {"text", "thinking", "partial_json"};
    for (size_t i = 0; i < ARRAY_COUNT(members); i++)
        copy_text(block->text, sizeof block->text, tree_member(delta, members[i]));
}

static void keep_end(const struct tree *stop, const struct tree *counts) {
    struct arena room;
    arena_over(&room, memory + (sizeof memory) / 2, 4096);
    struct bytes reason = tree_text(&room, tree_member(stop, "stop_reason"));
    struct bytes sequence = tree_text(&room, tree_member(stop, "stop_sequence"));
    struct bytes used = tree_text(&room, counts);
    (void)snprintf(client.end, sizeof client.end, "%.*s %.*s %.*s", (int)reason.count, reason.data,
                   (int)sequence.count, sequence.data, (int)used.count, used.data);
}

static const struct tree *parse(struct bytes json) {
    struct arena room;
    struct error error;
    const struct tree *root;
    arena_over(&room, tree_memory, sizeof tree_memory);
    if (tree_parse(&room, json, "event", &root, &error)) fail_msg("%s", error.text);
    return root;
}

static void take_event(struct bytes name, struct bytes json) {
    const struct tree *data = parse(json);
    int64_t index = -1;
    struct bytes type;
    assert_true(tree_get_string(tree_member(data, "type"), &type) && bytes_equal(type, name));
    if (tree_get_integer(tree_member(data, "index"), &index)) {
        bool begins = bytes_equal(name, BYTES_LITERAL("content_block_start"));
        if (begins) {
            assert_true(client.count == 0 || client.blocks[client.count - 1].closed);
            add_block(tree_member(data, "content_block"));
        }
        assert_int_equal(index, client.count - 1); /* one is open, the last */
        assert_false(client.blocks[index].closed);
        take_delta(&client.blocks[index], tree_member(data, "delta"));
        client.blocks[index].closed = bytes_equal(name, BYTES_LITERAL("content_block_stop"));
    }
    if (bytes_equal(name, BYTES_LITERAL("message_delta")))
        keep_end(tree_member(data, "delta"), tree_member(data, "usage"));
}

static void read_stream(const char *stream) {
    client.count = 0;
    walk_events(stream, take_event);
}

/* Arguments of the call so and so far among the leading parts. */
static const char *arguments_of(size_t call, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (parts[i].part == TOKEN_STREAM_CALL && call-- == 0)
            return i + 1 < count && parts[i + 1].part == TOKEN_STREAM_ARGUMENTS ? parts[i + 1].text
                                                                                : "";
    return NULL;
}

/* The same of a whole answer with so many parts; of its calls' input, which are values, the
 * text. */
static void read_whole(const char *body, size_t count) {
    const struct tree *root = parse(bytes_of(body));
    const struct tree *content = tree_member(root, "content");
    size_t calls_seen = 0;
    client.count = 0;
    for (size_t i = 0; i < tree_count(content); i++) {
        const struct tree *block = tree_at(content, i);
        struct block *added = &client.blocks[i];
        add_block(block);
        take_delta(added, block);
        if (tree_member(block, "input")) strcpy(added->text, arguments_of(calls_seen++, count));
        added->closed = true;
    }
    keep_end(root, tree_member(root, "usage"));
}

/* ---- tests ---- */

TEST(a_whole_answer_has_all_blocks_in_order) {
    assert_string_equal(
        whole(parts, ARRAY_COUNT(parts), API_FINISH_CALLS),
        "{\"id\":\"msg_000000000000001200000000000000ab\",\"type\":\"message\",\"role\":"
        "\"assistant\",\"model\":\"tiny-r1\",\"content\":["
        "{\"type\":\"thinking\",\"thinking\":\"hm \\\"so\\\"\",\"signature\":\"\"},"
        "{\"type\":\"text\",\"text\":\"I\\nlook\"},"
        "{\"type\":\"tool_use\",\"id\":\"toolu_0\",\"name\":\"look\",\"input\": {\"at\": [1, "
        "\"\xc3\xa9\"]}},"
        "{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"wait\",\"input\":{}},"
        "{\"type\":\"text\",\"text\":\"and\"},"
        "{\"type\":\"tool_use\",\"id\":\"toolu_2\",\"name\":\"tell\",\"input\":"
        "{\"INVALID_JSON\":\"{\\\"a\\\": \\\"cu\"}}],"
        "\"stop_reason\":\"tool_use\",\"stop_sequence\":null,\"usage\":{\"input_tokens\":6,"
        "\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":4,\"output_tokens\":7}}");
}

TEST(an_answer_can_be_empty) {
    const char *body = whole(NULL, 0, API_FINISH_STOP_STRING);
    assert_non_null(strstr(body, "\"content\":[],\"stop_reason\":\"stop_sequence\","
                                 "\"stop_sequence\":\"E\\\"D\","));
}

TEST(arguments_that_are_no_object_are_kept_as_text) {
    static const char *const wrong[] = {"[1]", "7", "{\"a\":1}x", "{", "\"{}\"", "{} {}"};
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        struct part list[] = {{TOKEN_STREAM_CALL, "f"}, {TOKEN_STREAM_ARGUMENTS, wrong[i]}};
        const struct tree *root = parse(bytes_of(whole(list, 2, API_FINISH_LENGTH)));
        const struct tree *input = tree_member(tree_at(tree_member(root, "content"), 0), "input");
        struct bytes kept;
        assert_true(tree_get_string(tree_member(input, "INVALID_JSON"), &kept));
        assert_true(bytes_equal(kept, bytes_of(wrong[i])));
    }
}

TEST(a_stream_opens_fills_and_closes_its_blocks) {
    static const struct part list[] = {{TOKEN_STREAM_REASONING, "hm"},
                                       {TOKEN_STREAM_CALL, "look"},
                                       {TOKEN_STREAM_ARGUMENTS, "{}"},
                                       {TOKEN_STREAM_CONTENT, "so"}};
    assert_string_equal(
        stream_of(list, ARRAY_COUNT(list), API_FINISH_STOP, 99),
        "event: message_start\n"
        "data: {\"type\":\"message_start\",\"message\":{\"id\":"
        "\"msg_000000000000001200000000000000ab\",\"type\":\"message\",\"role\":\"assistant\","
        "\"model\":\"tiny-r1\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,"
        "\"usage\":{\"input_tokens\":6,\"cache_creation_input_tokens\":0,"
        "\"cache_read_input_tokens\":4,\"output_tokens\":0}}}\n\n"
        "event: content_block_start\n"
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":"
        "\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n"
        "event: content_block_delta\n"
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
        "\"thinking_delta\",\"thinking\":\"hm\"}}\n\n"
        "event: content_block_delta\n"
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
        "\"signature_delta\",\"signature\":\"\"}}\n\n"
        "event: content_block_stop\n"
        "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
        "event: content_block_start\n"
        "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":"
        "\"tool_use\",\"id\":\"toolu_0\",\"name\":\"look\",\"input\":{}}}\n\n"
        "event: content_block_delta\n"
        "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":"
        "\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n"
        "event: content_block_stop\n"
        "data: {\"type\":\"content_block_stop\",\"index\":1}\n\n"
        "event: content_block_start\n"
        "data: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":"
        "\"text\",\"text\":\"\"}}\n\n"
        "event: content_block_delta\n"
        "data: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":"
        "\"text_delta\",\"text\":\"so\"}}\n\n"
        "event: content_block_stop\n"
        "data: {\"type\":\"content_block_stop\",\"index\":2}\n\n"
        "event: message_delta\n"
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\","
        "\"stop_sequence\":null},\"usage\":{\"input_tokens\":6,"
        "\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":4,\"output_tokens\":7}}\n\n"
        "event: message_stop\n"
        "data: {\"type\":\"message_stop\"}\n\n");
}

TEST(every_cut_of_the_text_says_what_the_whole_answer_says) {
    static const enum api_finish finishes[] = {API_FINISH_STOP, API_FINISH_STOP_STRING,
                                               API_FINISH_LENGTH, API_FINISH_CALLS, API_FINISH_CUT};
    for (size_t f = 0; f < ARRAY_COUNT(finishes); f++)
        for (size_t count = 0; count <= ARRAY_COUNT(parts); count++)
            for (size_t most = 1; most < 12; most++) {
                read_whole(whole(parts, count, finishes[f]), count);
                typeof(client) expected = client;
                read_stream(stream_of(parts, count, finishes[f], most));
                assert_int_equal(client.count, expected.count);
                for (size_t i = 0; i < client.count; i++)
                    assert_memory_equal(&client.blocks[i], &expected.blocks[i],
                                        sizeof client.blocks[i]);
                assert_string_equal(client.end, expected.end);
            }
}

TEST(tokens_without_text_are_not_reported) {
    struct json_writer writer = {0};
    struct dialect_place place = {0};
    struct api_event event = {.kind = API_EVENT_PIECE,
                              .piece = {.part = TOKEN_STREAM_CONTENT, .text = {"", 0}}};
    anthropic_words_event(&writer, &answer, &place, &event);
    assert_int_equal(writer.count, 0);
}

TEST(a_receipt_stands_in_the_last_event) {
    struct json_writer writer = {.out = said, .room = sizeof said - 1};
    struct dialect_place place = {0};
    struct api_event event = {.kind = API_EVENT_DONE,
                              .finish = API_FINISH_STOP,
                              .receipt = BYTES_LITERAL("{\"output\":1}")};
    anthropic_words_event(&writer, &answer, &place, &event);
    said[writer.count] = '\0';
    assert_non_null(strstr(said, "{\"type\":\"message_stop\",\"receipt\":{\"output\":1}}\n\n"));
}

TEST(errors_are_of_anthropics_types) {
    static const struct {
        uint32_t http_status;
        const char *type;
    } types[] = {
        {400, "invalid_request_error"}, {401, "authentication_error"},  {403, "permission_error"},
        {404, "not_found_error"},       {405, "invalid_request_error"}, {413, "request_too_large"},
        {422, "invalid_request_error"}, {429, "rate_limit_error"},      {500, "api_error"},
        {503, "overloaded_error"}};
    for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
        struct api_error error;
        char expected[256];
        (void)api_error_set(&error, types[i].http_status, NULL, NULL, "no \"x\"\xff");
        struct json_writer writer = {.out = said, .room = sizeof said - 1};
        struct dialect_place place = {0};
        struct api_event event = {.kind = API_EVENT_FAILED, .error = &error};
        anthropic_words_event(&writer, &answer, &place, &event);
        said[writer.count] = '\0';
        (void)snprintf(expected, sizeof expected,
                       "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"%s\","
                       "\"message\":\"no \\\"x\\\"\xef\xbf\xbd\"}}\n\n",
                       types[i].type);
        assert_string_equal(said, expected);
    }
}

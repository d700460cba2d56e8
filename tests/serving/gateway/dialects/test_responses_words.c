/* SPDX-License-Identifier: Apache-2.0
 * Protects the words of OpenAI's Responses: whole ones and streams to the byte, and that however an
 * answer's text is cut into pieces, its stream's deltas, its items' last events and its last event
 * say what the whole answer says.
 */
#include "serving/gateway/dialects/responses_words.h"

#include "answer_parts.h"
#include "serving/gateway/dialects/responses_dialect.h"
#include "test_case.h"

static _Alignas(16) char tree_memory[4 << 20];
static struct arena trees;
static char said[1 << 17], other[1 << 16];

static struct api_answer answer = {
    .dialect = &responses_dialect,
    .id = {.high = 0x12, .low = 0xab},
    .created = 1700000000,
    .model = {"tiny-r1", 7},
    .reported = {"\"instructions\":null,", 20},
};

/* Tools that the client knows by other words than the model, and reasoning that is sealed. */
static const struct tool_alias aliases[] = {
    {.name = {"look", 4}, .own = {"see", 3}, .namespace = {"eyes", 4}},
    {.name = {"tell", 4}, .own = {"tell", 4}, .namespace = {"", 0}, .takes_text = true},
};

static void ask_in_other_words(bool asked) {
    answer.aliases = (struct tool_aliases){aliases, asked ? ARRAY_COUNT(aliases) : 0};
    answer.seals_reasoning = asked;
}

static const struct part parts[] = {
    {TOKEN_STREAM_REASONING, "hm \"so\""}, {TOKEN_STREAM_CONTENT, "I\nlook"},
    {TOKEN_STREAM_CALL, "look"},           {TOKEN_STREAM_ARGUMENTS, "{\"at\": \"\xc3\xa9\"}"},
    {TOKEN_STREAM_CALL, "wait"},           {TOKEN_STREAM_CONTENT, "and"},
    {TOKEN_STREAM_CALL, "tell"},           {TOKEN_STREAM_ARGUMENTS, "{\"a\": \"cu"},
};

/* ---- the answer, as it is kept ---- */

static struct api_choice choice_of(enum api_finish finish) {
    return (struct api_choice){.text = &text, .calls = &calls, .tokens = &tokens, .finish = finish};
}

static const struct api_usage usage = {
    .prompt_tokens = 10, .prompt_hit_tokens = 4, .completion_tokens = 7, .reasoning_tokens = 2};

/* ---- whole, and as a stream ---- */

static const char *whole(size_t count, enum api_finish finish) {
    keep_parts(parts, count, "call_");
    struct api_choice choice = choice_of(finish);
    struct json_writer writer = {.out = said, .room = sizeof said - 1};
    responses_words_whole(&writer, &answer, &choice, 1, &usage);
    assert_true(json_writer_fits(&writer));
    said[writer.count] = '\0';
    return said;
}

struct stream {
    struct json_writer writer;
    struct dialect_place place;
};

/* Each event is written twice, as the gateway does. */
static void report(struct stream *stream, struct api_event event) {
    struct api_choice choice = choice_of(event.finish);
    struct json_writer counter = {0};
    struct dialect_place place = stream->place;
    size_t before = stream->writer.count;
    event.whole = &choice;
    responses_words_event(&counter, &answer, &place, &event);
    responses_words_event(&stream->writer, &answer, &stream->place, &event);
    assert_int_equal(counter.count, stream->writer.count - before);
    size_t kept = text.escaped_count + calls.escaped_count + calls.count * DIALECT_CALL_BYTES;
    assert_true(counter.count <=
                RESPONSES_WORDS_FRAME_BYTES + RESPONSES_WORDS_REPORTS * answer.reported.count +
                    6 * event.piece.text.count +
                    (RESPONSES_WORDS_REPEATS + (answer.seals_reasoning ? 2 : 0)) * kept);
}

static void report_piece(void *context, const struct api_piece *piece) {
    keep_piece(NULL, piece);
    report(context, (struct api_event){.kind = API_EVENT_PIECE, .piece = *piece});
}

static const char *stream_of(size_t count, enum api_finish finish, size_t most) {
    struct stream stream = {.writer = {.out = said, .room = sizeof said - 1}};
    forget_answer();
    report(&stream, (struct api_event){.kind = API_EVENT_BEGIN});
    say_parts(parts, count, "call_", most, report_piece, &stream);
    report(&stream, (struct api_event){.kind = API_EVENT_FINISH, .finish = finish});
    report(&stream, (struct api_event){.kind = API_EVENT_DONE, .finish = finish, .usage = usage});
    assert_true(json_writer_fits(&stream.writer));
    said[stream.writer.count] = '\0';
    return said;
}

/* ---- what a client makes of a stream ---- */

enum { ITEMS_MAX = 16 };

struct client_item {
    char delta[512], done[512], item[1024]; /* joined deltas; the text repeated; the item at last */
    bool open;
};

static struct {
    struct client_item items[ITEMS_MAX];
    size_t count;
    int64_t events;
    const struct tree *response; /* of the last event */
} client;

static const struct tree *parse(struct bytes json) {
    struct error error;
    const struct tree *root;
    if (tree_parse(&trees, json, "event", &root, &error)) fail_msg("%s", error.text);
    return root;
}

static void copy(char *out, size_t room, struct bytes more) {
    size_t before = strlen(out);
    assert_true(before + more.count < room);
    memcpy(out + before, more.data, more.count);
    out[before + more.count] = '\0';
}

static bool ends_with(struct bytes name, const char *end) {
    size_t count = strlen(end);
    return name.count >= count && memcmp(name.data + name.count - count, end, count) == 0;
}

static void take_item_event(struct bytes name, const struct tree *data, int64_t index) {
    static const char *const texts[] = {"text", "arguments", "input"};
    struct bytes found;
    if (ends_with(name, "output_item.added")) {
        assert_true(client.count < ITEMS_MAX && (size_t)index == client.count);
        assert_true(client.count == 0 || !client.items[client.count - 1].open);
        client.items[client.count++] = (struct client_item){.open = true};
    }
    struct client_item *item = &client.items[index];
    assert_true((size_t)index + 1 == client.count && item->open);
    if (tree_get_string(tree_member(data, "delta"), &found))
        copy(item->delta, sizeof item->delta, found);
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        if (tree_get_string(tree_member(data, texts[i]), &found))
            copy(item->done, sizeof item->done, found);
    if (!ends_with(name, "output_item.done")) return;
    copy(item->item, sizeof item->item, tree_text(&trees, tree_member(data, "item")));
    item->open = false;
}

static void take_event(struct bytes name, struct bytes json) {
    const struct tree *data = parse(json);
    struct bytes type;
    int64_t number, index;
    assert_true(tree_get_string(tree_member(data, "type"), &type) && bytes_equal(type, name));
    assert_true(tree_get_integer(tree_member(data, "sequence_number"), &number));
    assert_int_equal(number, client.events++);
    client.response = tree_member(data, "response");
    if (tree_get_integer(tree_member(data, "output_index"), &index))
        take_item_event(name, data, index);
}

static void read_stream(const char *stream) {
    arena_over(&trees, tree_memory, sizeof tree_memory);
    client.count = 0;
    client.events = 0;
    walk_events(stream, take_event);
}

/* ---- tests ---- */

#define ID "_000000000000001200000000000000ab"
#define HEAD(status, error, details)                                                               \
    "{\"id\":\"resp" ID                                                                            \
    "\",\"object\":\"response\",\"created_at\":1700000000,\"status\":\"" status                    \
    "\",\"error\":" error ",\"incomplete_details\":" details                                       \
    ",\"model\":\"tiny-r1\",\"instructions\":null,"                                                \
    "\"truncation\":\"disabled\",\"background\":false,\"store\":false,"                            \
    "\"previous_response_id\":null,\"output\":["
#define TAIL                                                                                       \
    "],\"usage\":{\"input_tokens\":10,\"input_tokens_details\":{\"cached_tokens\":4},"             \
    "\"output_tokens\":7,\"output_tokens_details\":{\"reasoning_tokens\":2},\"total_tokens\":17}}"

TEST(a_whole_answer_has_all_items_in_order) {
    assert_string_equal(
        whole(ARRAY_COUNT(parts), API_FINISH_LENGTH),
        HEAD("incomplete", "null",
             "{\"reason\":\"max_output_tokens\"}") "{\"id\":\"rs" ID
                                                   "0000\",\"type\":\"reasoning\",\"status\":"
                                                   "\"completed\",\"summary\":[],"
                                                   "\"content\":[{\"type\":\"reasoning_text\","
                                                   "\"text\":\"hm \\\"so\\\"\"}]},"
                                                   "{\"id\":\"msg" ID
                                                   "0001\",\"type\":\"message\",\"status\":"
                                                   "\"completed\",\"role\":"
                                                   "\"assistant\",\"content\":[{\"type\":\"output_"
                                                   "text\",\"text\":\"I\\nlook\","
                                                   "\"annotations\":[],\"logprobs\":[]}]},"
                                                   "{\"id\":\"fc" ID
                                                   "0002\",\"type\":\"function_call\",\"status\":"
                                                   "\"completed\","
                                                   "\"call_id\":\"call_0\",\"name\":\"look\","
                                                   "\"arguments\":\"{\\\"at\\\": "
                                                   "\\\"\xc3\xa9\\\"}\"},"
                                                   "{\"id\":\"fc" ID
                                                   "0003\",\"type\":\"function_call\",\"status\":"
                                                   "\"completed\","
                                                   "\"call_id\":\"call_1\",\"name\":\"wait\","
                                                   "\"arguments\":\"\"},"
                                                   "{\"id\":\"msg" ID
                                                   "0004\",\"type\":\"message\",\"status\":"
                                                   "\"completed\",\"role\":"
                                                   "\"assistant\",\"content\":[{\"type\":\"output_"
                                                   "text\",\"text\":\"and\","
                                                   "\"annotations\":[],\"logprobs\":[]}]},"
                                                   "{\"id\":\"fc" ID
                                                   "0005\",\"type\":\"function_call\",\"status\":"
                                                   "\"incomplete\","
                                                   "\"call_id\":\"call_2\",\"name\":\"tell\","
                                                   "\"arguments\":\"{\\\"a\\\": \\\"cu\"}" TAIL);
    assert_string_equal(whole(0, API_FINISH_STOP), HEAD("completed", "null", "null") TAIL);
    assert_non_null(strstr(whole(0, API_FINISH_CUT), "\"status\":\"failed\",\"error\":{\"code\":"
                                                     "\"server_error\",\"message\":\""));
}

TEST(a_stream_numbers_its_events) {
    const char *stream = stream_of(1, API_FINISH_STOP, 99);
    static const char expected[] =
        "event: response.created\n"
        "data: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":" HEAD(
            "in_progress", "null",
            "null") "],\"usage\":null}}\n\n"
                    "event: response.in_progress\n"
                    "data: "
                    "{\"type\":\"response.in_progress\",\"sequence_number\":1,\"response\":" HEAD(
                        "in_progress", "null",
                        "null") "],\"usage\":null}}\n\n"
                                "event: response.output_item.added\n"
                                "data: "
                                "{\"type\":\"response.output_item.added\",\"sequence_number\":2,"
                                "\"output_index\":0,"
                                "\"item\":{\"id\":\"rs" ID
                                "0000\",\"type\":\"reasoning\",\"status\":\"in_progress\","
                                "\"summary\":[],\"content\":[]}}\n\n"
                                "event: response.content_part.added\n"
                                "data: "
                                "{\"type\":\"response.content_part.added\",\"sequence_number\":3,"
                                "\"item_id\":\"rs" ID "0000\",\"output_index\":0,\"content_index\":"
                                "0,\"part\":{\"type\":\"reasoning_text\","
                                "\"text\":\"\"}}\n\n"
                                "event: response.reasoning_text.delta\n"
                                "data: "
                                "{\"type\":\"response.reasoning_text.delta\",\"sequence_number\":4,"
                                "\"item_id\":"
                                "\"rs" ID
                                "0000\",\"output_index\":0,\"content_index\":0,\"delta\":\"hm "
                                "\\\"so\\\"\"}\n\n"
                                "event: response.reasoning_text.done\n"
                                "data: "
                                "{\"type\":\"response.reasoning_text.done\",\"sequence_number\":5,"
                                "\"item_id\":"
                                "\"rs" ID "0000\",\"output_index\":0,\"content_index\":0,\"text\":"
                                "\"hm \\\"so\\\"\"}\n\n"
                                "event: response.content_part.done\n"
                                "data: "
                                "{\"type\":\"response.content_part.done\",\"sequence_number\":6,"
                                "\"item_id\":\"rs" ID "0000\",\"output_index\":0,\"content_index\":"
                                "0,\"part\":{\"type\":\"reasoning_text\","
                                "\"text\":\"hm \\\"so\\\"\"}}\n\n"
                                "event: response.output_item.done\n"
                                "data: "
                                "{\"type\":\"response.output_item.done\",\"sequence_number\":7,"
                                "\"output_index\":0,"
                                "\"item\":{\"id\":\"rs" ID
                                "0000\",\"type\":\"reasoning\",\"status\":\"completed\","
                                "\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":"
                                "\"hm "
                                "\\\"so\\\"\"}]}}\n\n"
                                "event: response.completed\n"
                                "data: "
                                "{\"type\":\"response.completed\",\"sequence_number\":8,"
                                "\"response\":" HEAD(
                                    "completed", "null",
                                    "null") "{\"id\":\"rs" ID "0000\",\"type\":\"reasoning\","
                                            "\"status\":\"completed\","
                                            "\"summary\":[],\"content\":[{\"type\":"
                                            "\"reasoning_text\",\"text\":\"hm \\\"so\\\"\"}]}" TAIL
                                            "}\n\n";
    assert_string_equal(stream, expected);
}

TEST(calls_are_reported_with_their_name_first) {
    const char *stream = stream_of(4, API_FINISH_CALLS, 99);
    assert_non_null(
        strstr(stream, "\"output_index\":2,\"item\":{\"id\":\"fc" ID
                       "0002\",\"type\":\"function_call\",\"status\":\"in_progress\",\"call_id\":"
                       "\"call_0\",\"name\":\"look\",\"arguments\":\"\"}}\n\n"));
    assert_non_null(strstr(stream, "event: response.function_call_arguments.delta\n"));
    assert_non_null(strstr(stream, "\"item_id\":\"fc" ID
                                   "0002\",\"output_index\":2,\"delta\":\"{\\\"at\\\": "));
    assert_non_null(strstr(stream, "\"output_index\":2,\"name\":\"look\",\"arguments\":\"{"));
    assert_non_null(strstr(stream, "event: response.completed\n"));
}

static void check_items(const struct tree *output) {
    assert_int_equal(tree_count(output), client.count);
    for (size_t i = 0; i < client.count; i++) {
        struct client_item *item = &client.items[i];
        struct bytes listed = tree_text(&trees, tree_at(output, i));
        assert_false(item->open);
        assert_string_equal(item->delta, item->done);
        assert_true(bytes_equal(bytes_of(item->item), listed));
        if (item->done[0]) /* the item has it, too */
            assert_true(listed.count > strlen(item->done));
    }
}

static void check_every_cut(void) {
    static const enum api_finish finishes[] = {API_FINISH_STOP, API_FINISH_STOP_STRING,
                                               API_FINISH_LENGTH, API_FINISH_CALLS, API_FINISH_CUT};
    for (size_t f = 0; f < ARRAY_COUNT(finishes); f++)
        for (size_t count = 0; count <= ARRAY_COUNT(parts); count++)
            for (size_t most = 1; most < 12; most++) {
                strcpy(other, whole(count, finishes[f]));
                const char *stream = stream_of(count, finishes[f], most);
                read_stream(stream);
                struct bytes last = tree_text(&trees, client.response);
                assert_true(bytes_equal(last, bytes_of(other)));
                check_items(tree_member(client.response, "output"));
            }
}

TEST(every_cut_of_the_text_says_what_the_whole_answer_says) {
    check_every_cut();
    ask_in_other_words(true);
    check_every_cut();
    ask_in_other_words(false);
}

TEST(a_call_is_reported_in_the_words_of_the_clients_tool) {
    ask_in_other_words(true);
    const char *reported = whole(ARRAY_COUNT(parts), API_FINISH_LENGTH);
    assert_non_null(strstr(reported,
                           "{\"id\":\"fc" ID "0002\",\"type\":\"function_call\",\"status\":"
                           "\"completed\",\"call_id\":\"call_0\",\"name\":\"see\","
                           "\"namespace\":\"eyes\",\"arguments\":\"{"));
    assert_non_null(strstr(reported, "{\"id\":\"ctc" ID "0005\",\"type\":\"custom_tool_call\","
                                     "\"status\":\"incomplete\",\"call_id\":\"call_2\",\"name\":"
                                     "\"tell\",\"input\":\"{\\\"a\\\": \\\"cu\"}]"));
    reported = stream_of(ARRAY_COUNT(parts), API_FINISH_LENGTH, 99);
    assert_non_null(
        strstr(reported, "\"name\":\"see\",\"namespace\":\"eyes\",\"arguments\":\"\"}}"));
    assert_non_null(strstr(reported, "\"name\":\"tell\",\"input\":\"\"}}"));
    assert_non_null(strstr(reported, "event: response.custom_tool_call_input.delta\n"));
    assert_non_null(strstr(reported, "event: response.custom_tool_call_input.done\n"));
    ask_in_other_words(false);
}

TEST(sealed_reasoning_stands_in_its_item) {
    static const char sealed[] = "\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",";
    ask_in_other_words(true);
    const char *reported = whole(1, API_FINISH_STOP);
    assert_non_null(strstr(reported, "\"status\":\"completed\",\"encrypted_content\":\""
                                     "fathom.reasoning.1:hm \\\"so\\\"\","));
    assert_non_null(strstr(reported, sealed));
    ask_in_other_words(false);
    assert_null(strstr(whole(1, API_FINISH_STOP), "encrypted_content"));
}

static void keep_token(bool reasons) {
    struct token_logprob entry = {.token = 10 + tokens.count, .logprob = -0.5f};
    assert_true(token_list_turn(&tokens, &arena, reasons));
    assert_true(token_list_add(&tokens, &arena, &entry, 1));
}

/* How often the stream tells of the token. */
static size_t times_reported(uint32_t token) {
    char name[32];
    size_t count = 0;
    (void)snprintf(name, sizeof name, "\"token_id:%u\"", token);
    for (const char *at = strstr(said, name); at; at = strstr(at + 1, name))
        count++;
    return count;
}

static void say_event(const struct api_answer *asked, struct json_writer *writer,
                      struct dialect_place *place, struct api_event event) {
    responses_words_event(writer, asked, place, &event);
    said[writer->count] = '\0';
}

/* A thought, a message whose first token makes no text, a call, and a message behind it. */
TEST(each_message_has_its_own_log_probabilities) {
    static const struct {
        enum token_stream_part part;
        const char *text;
        bool reasons;
    } steps[] = {{TOKEN_STREAM_REASONING, "hm", true},  {TOKEN_STREAM_CONTENT, "", false},
                 {TOKEN_STREAM_CONTENT, "x", false},    {TOKEN_STREAM_CALL, "look", false},
                 {TOKEN_STREAM_ARGUMENTS, "{}", false}, {TOKEN_STREAM_CONTENT, "y", false},
                 {TOKEN_STREAM_CONTENT, "", false}};
    struct api_answer asked = answer;
    struct json_writer writer = {.out = said, .room = sizeof said - 1};
    struct dialect_place place = {0};
    asked.logprobs = true;
    forget_answer();
    struct api_choice choice = choice_of(API_FINISH_STOP);
    for (size_t i = 0; i < ARRAY_COUNT(steps); i++) {
        struct bytes piece = bytes_of(steps[i].text);
        if (piece.count) keep(steps[i].part, piece, BYTES_LITERAL("call_0"));
        keep_token(steps[i].reasons);
        struct token_list one = {0};
        struct token_logprob entry = {.token = 10 + (uint32_t)i, .logprob = -0.5f};
        assert_true(token_list_turn(&one, &arena, steps[i].reasons));
        assert_true(token_list_add(&one, &arena, &entry, 1));
        say_event(&asked, &writer, &place,
                  (struct api_event){.kind = API_EVENT_PIECE,
                                     .whole = &choice,
                                     .piece = {.part = steps[i].part,
                                               .text = piece,
                                               .call_id = BYTES_LITERAL("call_0"),
                                               .tokens = &one,
                                               .to = 1}});
    }
    say_event(&asked, &writer, &place,
              (struct api_event){.kind = API_EVENT_FINISH, .whole = &choice});
    assert_int_equal(times_reported(10), 0); /* the thought's */
    assert_int_equal(times_reported(13), 0); /* the call's */
    assert_int_equal(times_reported(14), 0);
    /* in a delta, and with the ends of the text, of the part and of the item */
    assert_int_equal(times_reported(11), 4);
    assert_int_equal(times_reported(12), 4);
    assert_int_equal(times_reported(15), 4);
    assert_int_equal(times_reported(16), 4);
    say_event(&asked, &writer, &place,
              (struct api_event){.kind = API_EVENT_DONE, .whole = &choice, .usage = usage});
    assert_int_equal(times_reported(11), 5);
    assert_int_equal(times_reported(16), 5);
    const char *last = strstr(said, "\"output\":[{");
    char output[4096];
    assert_non_null(last);
    (void)snprintf(output, sizeof output, "%.*s", (int)(strstr(last, "\"usage\"") - last), last);
    writer = (struct json_writer){.out = said, .room = sizeof said - 1};
    responses_words_whole(&writer, &asked, &choice, 1, &usage);
    said[writer.count] = '\0';
    assert_non_null(strstr(said, output)); /* as a whole answer says it */
}

/* Where they are more than can be repeated, deltas alone tell them. */
TEST(log_probabilities_that_are_not_kept_come_with_deltas) {
    struct api_answer asked = answer;
    struct json_writer writer = {.out = said, .room = sizeof said - 1};
    struct dialect_place place = {0};
    struct token_list reported = {0}, none = {0};
    struct token_logprob entry = {.token = 7, .logprob = -0.5f};
    asked.logprobs = true;
    forget_answer();
    keep(TOKEN_STREAM_CONTENT, BYTES_LITERAL("x"), BYTES_LITERAL(""));
    assert_true(token_list_add(&reported, &arena, &entry, 1));
    struct api_choice choice = choice_of(API_FINISH_STOP);
    choice.tokens = &none;
    say_event(&asked, &writer, &place,
              (struct api_event){.kind = API_EVENT_PIECE,
                                 .whole = &choice,
                                 .piece = {.part = TOKEN_STREAM_CONTENT,
                                           .text = BYTES_LITERAL("x"),
                                           .tokens = &reported,
                                           .to = 1}});
    say_event(&asked, &writer, &place,
              (struct api_event){.kind = API_EVENT_FINISH, .whole = &choice});
    assert_int_equal(times_reported(7), 1);
}

TEST(a_failure_is_the_last_event) {
    struct api_error error;
    (void)api_error_set(&error, 503, NULL, "engine_failed", "broke \"down\"\xff");
    struct json_writer writer = {.out = said, .room = sizeof said - 1};
    struct dialect_place place = {0};
    struct api_event event = {.kind = API_EVENT_FAILED, .error = &error};
    responses_words_event(&writer, &answer, &place, &event);
    said[writer.count] = '\0';
    forget_answer();
    read_stream(said);
    assert_int_equal(client.events, 2); /* clients need a response to begin with */
    assert_non_null(strstr(said, "event: response.failed\n"));
    assert_non_null(strstr(said, "\"error\":{\"code\":\"server_error\",\"message\":\"broke "
                                 "\\\"down\\\"\xef\xbf\xbd\"}"));
}

TEST(a_prompt_that_is_too_long_has_its_code) {
    struct api_error error;
    (void)api_error_set(&error, 400, NULL, "context_length_exceeded", "too long");
    struct json_writer writer = {.out = said, .room = sizeof said - 1};
    struct dialect_place place = {0};
    say_event(&answer, &writer, &place,
              (struct api_event){.kind = API_EVENT_FAILED, .error = &error});
    assert_non_null(strstr(said, "\"error\":{\"code\":\"context_length_exceeded\",\"message\":"));
}

TEST(a_receipt_stands_in_the_last_event) {
    struct json_writer writer = {.out = said, .room = sizeof said - 1};
    struct dialect_place place = {.events = 9};
    forget_answer();
    struct api_choice choice = choice_of(API_FINISH_STOP);
    struct api_event event = {.kind = API_EVENT_DONE,
                              .finish = API_FINISH_STOP,
                              .whole = &choice,
                              .receipt = BYTES_LITERAL("{\"output\":1}")};
    responses_words_event(&writer, &answer, &place, &event);
    said[writer.count] = '\0';
    assert_non_null(strstr(said, "},\"receipt\":{\"output\":1}}\n\n"));
}

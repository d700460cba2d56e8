/* SPDX-License-Identifier: Apache-2.0
 * Protects calls on their way to the client: however the answer comes in tokens, whole answers and
 * streams say the same content and calls, even if their unit is lost in mid-call; an answer may end
 * with its first call; and where tools are not asked for, calls are text.
 */
#include "serving/gateway/stream_writer.h"

#include "base/check.h"
#include "dialects/speech.h"
#include "test_case.h"

#define CHAT "/beta/chat/completions"
#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define TOOLS "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"look\"}}]"

/* Hermes's way of calls, and thinking that can be switched. */
static const char template_source[] =
    "{% if tools %}{{ tools | tojson }} in <tool_call></tool_call>{% endif %}"
    "{% for m in messages %}<｜User｜>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<｜Assistant｜>"
    "{{ '<think>\n' if thinking else '</think>' }}{% endif %}";

#define CALL(place)                                                                                \
    "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"" place "\"}}\n</tool_call>"
#define TWO_CALLS "So:\n" CALL("\u00e9") "\n" CALL("b")

static struct world *open_with_tools(struct gateway_options options) {
    struct world *world = speech_open(options);
    world_use_template(world, template_source);
    return world;
}

/* ---- what a client understands ---- */

struct received {
    char content[512], finish[32];
    uint32_t calls;
    char ids[4][64], names[4][32], arguments[4][128];
};

static void append(char *to, size_t room, const struct tree *text) {
    struct bytes more;
    if (!text || !tree_get_string(text, &more)) return;
    size_t count = strlen(to);
    assert_true(count + more.count < room);
    memcpy(to + count, more.data, more.count);
    to[count + more.count] = 0;
}

static void receive_message(const struct tree *message, struct received *received) {
    const struct tree *calls = tree_member(message, "tool_calls");
    append(received->content, sizeof received->content, tree_member(message, "content"));
    for (size_t i = 0; i < tree_count(calls); i++) {
        const struct tree *call = tree_at(calls, i), *function = tree_member(call, "function");
        int64_t index = (int64_t)i;
        (void)tree_get_integer(tree_member(call, "index"), &index);
        assert_in_range(index, 0, 3);
        if (index >= received->calls) received->calls = (uint32_t)index + 1;
        append(received->ids[index], sizeof received->ids[0], tree_member(call, "id"));
        append(received->names[index], sizeof received->names[0], tree_member(function, "name"));
        append(received->arguments[index], sizeof received->arguments[0],
               tree_member(function, "arguments"));
    }
}

static void receive_object(struct bytes json, struct received *received) {
    static char memory[1 << 20];
    struct arena arena;
    struct error error;
    const struct tree *root;
    arena_over(&arena, memory, sizeof memory);
    if (tree_parse(&arena, json, "answer", &root, &error)) fail_msg("%s", error.text);
    const struct tree *choice = tree_at(tree_member(root, "choices"), 0);
    receive_message(tree_member(choice, "message"), received);
    receive_message(tree_member(choice, "delta"), received);
    append(received->finish, sizeof received->finish, tree_member(choice, "finish_reason"));
}

static struct received receive(const struct world *world, uint32_t client) {
    struct received received = {0};
    const char *data = world->clients[client].data;
    assert_int_equal(world->clients[client].http_status, 200);
    assert_true(world->clients[client].ended);
    if (data[0] == '{') receive_object(bytes_of(data), &received);
    for (const char *at = data; (at = strstr(at, "data: {")); at++) {
        at += strlen("data: ");
        receive_object((struct bytes){at, strcspn(at, "\n")}, &received);
    }
    return received;
}

/* ---- calls ---- */

TEST(calls_are_reported_however_they_come) {
    struct world *world = open_with_tools((struct gateway_options){0});
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t client = speech_ask(
            world, CHAT, i & 1 ? "{" HI "," TOOLS ",\"stream\":true}" : "{" HI "," TOOLS "}");
        speech_say(world, TWO_CALLS, i & 2);
        speech_end(world, FINISH_STOP_TOKEN);
        struct received received = receive(world, client);
        assert_string_equal(received.content, "So:");
        assert_int_equal(received.calls, 2);
        assert_string_equal(received.names[0], "look");
        assert_string_equal(received.arguments[0], "{\"at\": \"\u00e9\"}");
        assert_string_equal(received.arguments[1], "{\"at\": \"b\"}");
        assert_int_equal(strlen(received.ids[0]), strlen("call_") + 24);
        assert_string_not_equal(received.ids[0], received.ids[1]);
        assert_string_equal(received.finish, "tool_calls");
    }
    close_empty(world);
}

/* A call that goes on at another unit is the same call: wherever the first one is lost. */
TEST(calls_survive_their_unit) {
    static const char text[] = TWO_CALLS;
    struct world *world = open_with_tools((struct gateway_options){0});
    for (size_t at = 1; at < sizeof text - 1; at++) {
        char first[sizeof text];
        if ((text[at] & 0xC0) == 0x80) continue; /* within a letter */
        memcpy(first, text, at);
        first[at] = 0;
        uint32_t client = speech_ask(
            world, CHAT, at % 2 ? "{" HI "," TOOLS ",\"stream\":true}" : "{" HI "," TOOLS "}");
        speech_say(world, first, false);
        speech_move(world);
        speech_say(world, text + at, false);
        speech_end(world, FINISH_STOP_TOKEN);
        struct received received = receive(world, client);
        assert_string_equal(received.content, "So:");
        assert_int_equal(received.calls, 2);
        for (uint32_t call = 0; call < 2; call++) {
            assert_string_equal(received.names[call], "look");
            assert_int_equal(strlen(received.ids[call]), strlen("call_") + 24);
        }
        assert_string_not_equal(received.ids[0], received.ids[1]);
        assert_string_equal(received.arguments[0], "{\"at\": \"\u00e9\"}");
        assert_string_equal(received.arguments[1], "{\"at\": \"b\"}");
        assert_string_equal(received.finish, "tool_calls");
    }
    close_empty(world);
}

TEST(an_answer_may_end_with_its_first_call) {
    struct world *world = open_with_tools((struct gateway_options){0});
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t cancels = world->cancels;
        uint32_t client =
            speech_ask(world, CHAT,
                       i & 1 ? "{" HI "," TOOLS ",\"parallel_tool_calls\":false,\"stream\":true}"
                             : "{" HI "," TOOLS ",\"parallel_tool_calls\":false}");
        speech_say(world, TWO_CALLS, i & 2);
        assert_int_equal(world->cancels, cancels + 1);
        speech_end(world, FINISH_CANCELLED);
        struct received received = receive(world, client);
        assert_string_equal(received.content, "So:"); /* and nothing of the second one */
        assert_int_equal(received.calls, 1);
        assert_string_equal(received.arguments[0], "{\"at\": \"\u00e9\"}");
        assert_string_equal(received.finish, "tool_calls");
    }
    close_empty(world);
}

TEST(an_answer_cut_in_a_call_has_what_came) {
    struct world *world = open_with_tools((struct gateway_options){0});
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t client = speech_ask(
            world, CHAT, i ? "{" HI "," TOOLS ",\"stream\":true}" : "{" HI "," TOOLS "}");
        speech_say(world, "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"a", false);
        speech_end(world, FINISH_LENGTH);
        struct received received = receive(world, client);
        assert_int_equal(received.calls, 1);
        assert_string_equal(received.arguments[0], "{\"at\": \"a");
        assert_string_equal(received.finish, "length");
    }
    close_empty(world);
}

TEST(calls_that_nobody_asked_for_are_text) {
    static const char *const bodies[] = {"{" HI "}", "{" HI "," TOOLS ",\"tool_choice\":\"none\"}"};
    struct world *world = open_with_tools((struct gateway_options){0});
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        uint32_t client = speech_ask(world, CHAT, bodies[i]);
        speech_say(world, CALL("a"), false);
        speech_end(world, FINISH_STOP_TOKEN);
        struct received received = receive(world, client);
        assert_string_equal(received.content, CALL("a"));
        assert_int_equal(received.calls, 0);
        assert_string_equal(received.finish, "stop");
    }
    close_empty(world);
}

/* All of a text's tokens in one record. */
static struct record_tokens *make_tokens(const struct world *world, const char *text) {
    uint32_t text_ids[256];
    uint32_t count =
        world_encode(world, bytes_of(text), plain_text_nowhere, text_ids, ARRAY_COUNT(text_ids));
    struct record_tokens *record =
        make(RECORD_TOKENS, &(struct record_tokens){.token_count = count, .work_count = 1});
    record->request = world->last_submit->request;
    tokens_work(record)->prompt_miss_tokens = world->last_submit->prompt_count;
    memcpy(tokens_chosen(record), text_ids, count * sizeof *text_ids);
    return record;
}

/* The outbox has little room: what cannot be told now is told later, once. */
TEST(a_full_outbox_loses_and_doubles_nothing) {
    uint32_t fulls = 0;
    for (size_t room = 0; room < 40000; room = room < 200 ? 200 : 2 * room) {
        struct world *world = open_with_tools((struct gateway_options){.outbox_bytes = 1 << 20});
        struct outbox *outbox = world->gateway_machine.outbox;
        uint32_t client = speech_ask(world, CHAT, "{" HI "," TOOLS ",\"stream\":true}");
        struct record_tokens *record = make_tokens(world, TWO_CALLS);
        uint32_t count = record->token_count;
        world_report_gateway(world, record);
        while (outbox_room(outbox) >= room + machine_envelope_bytes(RECORD_CANCEL, NULL))
            machine_outbox_put_envelope(outbox, RECORD_TO_UNIT, (struct unit_id){900},
                                        RECORD_CANCEL, NULL);
        world_deliver_to_gateway(world);
        world_settle(world);
        struct record_finished *last =
            make_finished(world->last_submit->request, FINISH_STOP_TOKEN, count);
        last->work.prompt_miss_tokens = world->last_submit->prompt_count;
        report(world, 1, last);
        struct received received = receive(world, client);
        assert_string_equal(received.content, "So:");
        assert_int_equal(received.calls, 2);
        assert_string_equal(received.names[1], "look");
        assert_string_equal(received.arguments[1], "{\"at\": \"b\"}");
        fulls += world->fulls;
        close_empty(world);
    }
    assert_true(fulls > 0);
}

/* ---- what the template is told ---- */

/* The prompt that was sent last ends so, in the tokenizer's text. */
static void assert_prompt_ends(const struct world *world, const char *end) {
    static char text[1 << 14];
    size_t count;
    const uint32_t *prompt = submit_tokens(world->last_submit);
    assert_int_equal(tokenizer_decode(world->tokenizer, prompt, world->last_submit->prompt_count,
                                      false, text, sizeof text, &count),
                     STATUS_OK);
    if (count < strlen(end) || memcmp(text + count - strlen(end), end, strlen(end)) != 0)
        fail_msg("%.*s does not end with %s", (int)count, text, end);
}

TEST(thinking_is_switched_in_the_prompt) {
    static const struct {
        const char *body, *end;
    } rows[] = {
        {"{" HI "}", "</think>"},
        {"{" HI ",\"thinking\":{\"type\":\"enabled\"}}", "<think>\n"},
        {"{" HI ",\"reasoning_effort\":\"high\"}", "<think>\n"},
        {"{" HI ",\"chat_template_kwargs\":{\"enable_thinking\":false}}", "</think>"},
        {"{" HI ",\"add_generation_prompt\":false}", "hi"},
    };
    struct world *world = open_with_tools((struct gateway_options){0});
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint32_t client = speech_ask(world, CHAT, rows[i].body);
        if (world->clients[client].ended) fail_msg("%s", world->clients[client].data);
        assert_prompt_ends(world, rows[i].end);
        speech_end(world, FINISH_CANCELLED);
    }
    close_empty(world);
}

TEST(a_prefix_is_where_the_answer_begins) {
    struct world *world = open_with_tools((struct gateway_options){0});
    uint32_t client = speech_ask(world, CHAT,
                                 "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":"
                                 "\"assistant\",\"content\":\"It is\",\"prefix\":true}]}");
    assert_prompt_ends(world, "It is");
    speech_say(world, " so.", false);
    speech_end(world, FINISH_STOP_TOKEN);
    assert_string_equal(receive(world, client).content, " so.");
    close_empty(world);
}

TEST(unknown_fields_are_reported_in_a_header) {
    struct world *world = open_with_tools((struct gateway_options){0});
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t client = speech_ask(
            world, CHAT, i ? "{" HI ",\"zig\":1,\"stream\":true}" : "{" HI ",\"zig\":1}");
        speech_say(world, "a", false);
        speech_end(world, FINISH_STOP_TOKEN);
        assert_non_null(
            strstr(world->clients[client].headers, "X-Fathom-Warning: unknown fields: zig\r\n"));
    }
    close_empty(world);
}

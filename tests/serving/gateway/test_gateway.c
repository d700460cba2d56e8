/* SPDX-License-Identifier: Apache-2.0
 * What a client sees, promise by promise. Where the words matter, the test plays the unit by hand;
 * else the real unit runs over an invented engine.
 */
#include "serving/gateway/gateway.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/format.h"
#include "base/tree.h"
#include "world.h"

/* ---- reading what clients got ---- */

static char tree_memory[8 << 20];
static struct arena tree_arena;

static const struct tree *parse(struct bytes text) {
    const struct tree *root;
    struct error error;
    if (!tree_arena.start) arena_over(&tree_arena, tree_memory, sizeof tree_memory);
    if (tree_parse(&tree_arena, text, "answer", &root, &error))
        fail_msg("%s in %.*s", error.text, (int)text.count, text.data);
    return root;
}

static const struct tree *body_of(const struct world *world, uint32_t client) {
    arena_clear(&tree_arena);
    assert_true(world->clients[client].ended);
    return parse((struct bytes){world->clients[client].data, world->clients[client].count});
}

/* Walks a path like "choices.0.message.content". */
static const struct tree *at(const struct tree *value, const char *path) {
    while (value && *path) {
        char key[64];
        size_t count = strcspn(path, ".");
        format_text(key, sizeof key, "%.*s", (int)count, path);
        value = key[0] >= '0' && key[0] <= '9' ? tree_at(value, (size_t)atoi(key))
                                               : tree_member(value, key);
        path += count + (path[count] == '.');
    }
    return value;
}

static void assert_text(const struct tree *root, const char *path, const char *expected) {
    struct bytes text = {0};
    if (!at(root, path) || !tree_get_string(at(root, path), &text)) fail_msg("no text at %s", path);
    if (!bytes_equal(text, bytes_of(expected)))
        fail_msg("%s: '%.*s', expected '%s'", path, (int)text.count, text.data, expected);
}

static void assert_number(const struct tree *root, const char *path, int64_t expected) {
    int64_t number = -1;
    if (!at(root, path) || !tree_get_integer(at(root, path), &number)) fail_msg("none: %s", path);
    if (number != expected) fail_msg("%s: %lld", path, (long long)number);
}

static void assert_null_at(const struct tree *root, const char *path) {
    if (!at(root, path) || !tree_is_null(at(root, path))) fail_msg("%s is not null", path);
}

static void assert_error(const struct world *world, uint32_t client, uint32_t http_status,
                         const char *code) {
    const struct tree *root = body_of(world, client);
    if (world->clients[client].http_status != http_status)
        fail_msg("%u: %s", world->clients[client].http_status, world->clients[client].data);
    assert_text(root, "error.code", code);
    assert_true(at(root, "error.message") && at(root, "error.type") && at(root, "error.param"));
    bool again = http_status == 429 || http_status == 503;
    assert_int_equal(world->clients[client].retry_after_seconds > 0, again);
}

enum { EVENTS_MAX = 64 };
static const struct tree *events[EVENTS_MAX];
static uint32_t keep_alives;

/* Parses a whole stream: comments, JSON events, and [DONE] at its end. Returns the number of
 * events. */
static uint32_t events_of(const struct world *world, uint32_t client) {
    const char *text = world->clients[client].data;
    uint32_t count = 0;
    assert_true(world->clients[client].ended);
    arena_clear(&tree_arena);
    keep_alives = 0;
    for (;;) {
        const char *end = strstr(text, "\n\n");
        assert_non_null(end);
        struct bytes event = {text, (size_t)(end - text)};
        text = end + 2;
        if (bytes_equal(event, BYTES_LITERAL(": keep-alive"))) {
            keep_alives++;
            continue;
        }
        assert_true(bytes_start_with(event, BYTES_LITERAL("data: ")));
        event = (struct bytes){event.data + 6, event.count - 6};
        if (bytes_equal(event, BYTES_LITERAL("[DONE]"))) break;
        assert_true(count < EVENTS_MAX);
        events[count++] = parse(event);
    }
    assert_int_equal(*text, '\0');
    return count;
}

/* ---- playing the unit ---- */

static _Alignas(8) char record_memory[1 << 16];
static struct outbox records = {.memory = record_memory, .capacity = sizeof record_memory};

static void *make(enum record_kind kind, const void *fixed) {
    machine_outbox_clear(&records);
    return machine_outbox_put(&records, kind, fixed);
}

static struct world *open_by_hand(struct world_options options) {
    options.no_unit = true;
    struct world *world = world_open(&options);
    struct record_unit_hello *hello =
        make(RECORD_UNIT_HELLO, &(struct record_unit_hello){.rank_count = 1});
    hello->vocab_count = 4096;
    hello->context_tokens_max = 2048;
    hello->page_count = 100;
    hello->page_tokens = KV_BLOCK_TOKENS;
    hello->requests_max = 8;
    *hello_ranks(hello) = (struct unit_rank){.pid = 7, .page_count = 100, .requests_max = 8};
    strcpy(hello->numerics_id, "test.v1");
    world_report_gateway(world, hello);
    world_settle(world);
    return world;
}

static uint32_t said; /* tokens told so far, of the request at hand */

static void report_ids(struct world *world, const uint32_t *ids, uint32_t count) {
    struct record_tokens *record =
        make(RECORD_TOKENS, &(struct record_tokens){.token_count = count, .work_count = 1});
    record->request = world->last_submit->request;
    record->first_output_position = said;
    tokens_work(record)->prompt_miss_tokens = world->last_submit->prompt_count;
    memcpy(tokens_chosen(record), ids, count * sizeof *ids);
    said += count;
    world_report_gateway(world, record);
    world_settle(world);
}

static uint32_t encode(const struct world *world, const char *text, uint32_t *ids) {
    return world_encode(world, bytes_of(text), plain_text_nowhere, ids, 4096);
}

/* In one step, or one token a step. */
static void report_text(struct world *world, const char *text, bool at_once) {
    static uint32_t ids[4096];
    uint32_t count = encode(world, text, ids);
    if (at_once)
        report_ids(world, ids, count);
    else
        for (uint32_t i = 0; i < count; i++)
            report_ids(world, &ids[i], 1);
}

static void report_finished(struct world *world, enum finish_reason reason) {
    struct record_finished *record = make(RECORD_FINISHED, NULL);
    record->request = world->last_submit->request;
    record->reason = reason;
    record->work.prompt_miss_tokens = world->last_submit->prompt_count;
    record->output_tokens = said;
    record->work.drafts_made = said / 2; /* as if drafted ahead, all but one rightly */
    record->work.drafts_right = said / 2 ? said / 2 - 1 : 0;
    said = 0;
    world_report_gateway(world, record);
    world_settle(world);
}

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define CHAT "/v1/chat/completions"
#define COMPLETIONS "/v1/completions"

static uint32_t ask(struct world *world, const char *path, const char *body) {
    uint32_t client = world_post(world, path, body);
    world_settle(world);
    return client;
}

/* ---- metrics ---- */

static void metrics_add_up(void **state) {
    (void)state;
    struct world *world = world_open(&(struct world_options){0});
    ask(world, CHAT, "{" HI ",\"max_tokens\":5,\"ignore_eos\":true}");
    ask(world, CHAT, "{");
    world->now_ns += 1500000000;
    uint32_t client = world_get(world, "/metrics");
    world_settle(world);
    assert_int_equal(world->clients[client].content_type, CONTENT_METRICS);
    static const char *const lines[] = {
        "fathom_http_requests_total{endpoint=\"chat_completions\",status=\"200\"} 1\n",
        "fathom_http_requests_total{endpoint=\"chat_completions\",status=\"400\"} 1\n",
        "fathom_requests_ended_total{reason=\"length\"} 1\n",
        "fathom_output_tokens_total 5\n",
        "fathom_step_output_tokens_total 5\n",
        "fathom_drafts_total 0\n",
        "fathom_drafts_accepted_total 0\n",
        "fathom_requests_held 0\n",
        "fathom_kv_pages{state=\"free\"} 64\n",
        "fathom_kv_pages{state=\"held\"} 0\n",
        "fathom_kv_pages{state=\"cached\"} 0\n",
        "fathom_kv_pages_capacity 64\n",
        "fathom_uptime_seconds 1.500000\n",
        "fathom_info{model=\"tiny-r1\",version=\"0.1.0\",numerics=\"test.v1\"} 1\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++)
        if (!strstr(world->clients[client].data, lines[i]))
            fail_msg("no %s in %s", lines[i], world->clients[client].data);
    world_close(world);
}

/* ---- answers ---- */

static void a_chat_is_answered_whole(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){0});
    uint32_t client = ask(world, CHAT, "{" HI "}");
    report_text(world, "Hm, \"x\"\n</think>\n\nHi \xF0\x9F\x98\x80!", false);
    uint32_t tokens = said;
    report_finished(world, FINISH_LENGTH);
    const struct tree *root = body_of(world, client);
    assert_int_equal(world->clients[client].http_status, 200);
    assert_text(root, "object", "chat.completion");
    assert_text(root, "id", "chatcmpl-0000000000001000000000000000004d");
    assert_text(root, "model", "tiny-r1");
    assert_text(root, "system_fingerprint", "fathom-0.1.0-test.v1");
    assert_number(root, "created", 1700000001);
    assert_text(root, "choices.0.message.role", "assistant");
    assert_text(root, "choices.0.message.reasoning_content", "Hm, \"x\"");
    assert_text(root, "choices.0.message.content", "Hi \xF0\x9F\x98\x80!");
    assert_text(root, "choices.0.finish_reason", "length");
    int64_t prompt = world->last_submit->prompt_count;
    assert_number(root, "usage.prompt_tokens", prompt);
    assert_number(root, "usage.completion_tokens", tokens);
    assert_number(root, "usage.total_tokens", prompt + tokens);
    assert_number(root, "usage.prompt_cache_hit_tokens", 0);
    assert_number(root, "usage.prompt_cache_miss_tokens", prompt);
    assert_true(at(root, "usage.completion_tokens_details.reasoning_tokens") != NULL);
    assert_number(root, "usage.completion_tokens_details.accepted_prediction_tokens",
                  tokens / 2 - 1);
    assert_number(root, "usage.completion_tokens_details.rejected_prediction_tokens", 1);
    assert_int_equal(gateway_request_count(world->gateway), 0);
    world_close(world);
}

/* R1-0528: the prompt ends before "<think>", which the model writes itself, or leaves out. */
static void a_model_may_open_its_thought_itself(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){0});
    world_use_template(world, "{{ bos_token }}{% for m in messages %}<｜User｜>{{ m.content }}"
                              "<｜Assistant｜>{{ '</think>' in m.content or '' }}{% endfor %}");
    uint32_t ids[64];
    uint32_t client = ask(world, CHAT, "{" HI "}");
    size_t count = encode(world, "<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜>", ids);
    assert_int_equal(world->last_submit->prompt_count, count);
    report_text(world, "<think>\nHm\n</think>\n\nHi", false);
    report_finished(world, FINISH_STOP_TOKEN);
    const struct tree *root = body_of(world, client);
    assert_text(root, "choices.0.message.reasoning_content", "Hm");
    assert_text(root, "choices.0.message.content", "Hi");
    client = ask(world, CHAT, "{" HI "}");
    report_text(world, "Hi <think>", false);
    report_finished(world, FINISH_STOP_TOKEN);
    root = body_of(world, client);
    assert_true(at(root, "choices.0.message.reasoning_content") == NULL);
    assert_text(root, "choices.0.message.content", "Hi <think>");
    client = ask(world, CHAT, "{" HI ",\"stream\":true}");
    report_text(world, "<think>", true);
    report_text(world, "\nHm", true);
    report_text(world, "</think>\n\nHi", true);
    report_finished(world, FINISH_STOP_TOKEN);
    assert_int_equal(events_of(world, client), 4);
    assert_text(events[0], "choices.0.delta.role", "assistant");
    assert_text(events[1], "choices.0.delta.reasoning_content", "Hm");
    assert_null_at(events[1], "choices.0.delta.content");
    assert_text(events[2], "choices.0.delta.content", "Hi");
    assert_text(events[3], "choices.0.finish_reason", "stop");
    world_close(world);
}

static void a_chat_is_streamed(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){0});
    uint32_t client =
        ask(world, CHAT, "{" HI ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    assert_false(world->clients[client].begun); /* a refusal could still get its own status */
    report_text(world, "Hm", true);
    assert_true(world->clients[client].begun);
    report_text(world, " so</think>\n\nYes", true); /* one step with both parts */
    report_text(world, "!", true);
    report_finished(world, FINISH_STOP_TOKEN);
    assert_int_equal(events_of(world, client), 7);
    for (uint32_t i = 0; i < 6; i++) {
        assert_text(events[i], "object", "chat.completion.chunk");
        assert_null_at(events[i], "usage");
        if (i < 5) assert_null_at(events[i], "choices.0.finish_reason");
    }
    assert_text(events[0], "choices.0.delta.role", "assistant");
    assert_null_at(events[0], "choices.0.delta.content");
    assert_text(events[1], "choices.0.delta.reasoning_content", "Hm");
    assert_null_at(events[1], "choices.0.delta.content");
    assert_text(events[2], "choices.0.delta.reasoning_content", " so");
    assert_text(events[3], "choices.0.delta.content", "Yes");
    assert_null_at(events[3], "choices.0.delta.reasoning_content");
    assert_text(events[4], "choices.0.delta.content", "!");
    assert_text(events[5], "choices.0.finish_reason", "stop");
    assert_int_equal(tree_count(at(events[6], "choices")), 0);
    assert_number(events[6], "usage.prompt_tokens", world->last_submit->prompt_count);
    world_close(world);
}

static void plain_text_is_completed(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){0});
    uint32_t client = ask(world, COMPLETIONS, "{\"prompt\":\"Once\",\"echo\":true}");
    report_text(world, " upon</think> a", false);
    report_finished(world, FINISH_LENGTH);
    const struct tree *root = body_of(world, client);
    assert_text(root, "object", "text_completion");
    assert_text(root, "choices.0.text", "Once upon</think> a"); /* nothing is reasoning here */
    client = ask(world, COMPLETIONS, "{\"prompt\":\"Once\",\"echo\":true,\"stream\":true}");
    report_text(world, " upon", true);
    report_finished(world, FINISH_LENGTH);
    assert_int_equal(events_of(world, client), 3);
    assert_text(events[0], "choices.0.text", "Once");
    assert_text(events[1], "choices.0.text", " upon");
    assert_null_at(events[1], "choices.0.finish_reason");
    assert_null(at(events[1], "usage"));
    assert_text(events[2], "choices.0.finish_reason", "length");
    world_close(world);
}

/* The text ends before the stop string, the unit is told, and the account waits for its last word.
 */
static void stop_strings_end_the_answer(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){0});
    for (int stream = 0; stream < 2; stream++) {
        uint32_t cancels = world->cancels;
        uint32_t client =
            ask(world, COMPLETIONS,
                stream ? "{\"prompt\":\"a\",\"stop\":[\"zz\",\"END\"],\"stream\":true}"
                       : "{\"prompt\":\"a\",\"stop\":[\"zz\",\"END\"]}");
        report_text(world, "one two ENDthree", false);
        assert_int_equal(world->cancels, cancels + 1);
        assert_false(world->clients[client].ended);
        report_finished(world, FINISH_CANCELLED);
        if (stream) {
            uint32_t count = events_of(world, client);
            char text[64] = "";
            for (uint32_t i = 0; i < count; i++) {
                struct bytes piece;
                assert_true(tree_get_string(at(events[i], "choices.0.text"), &piece));
                strncat(text, piece.data, piece.count);
            }
            assert_string_equal(text, "one two ");
            assert_text(events[count - 1], "choices.0.finish_reason", "stop");
        } else {
            assert_text(body_of(world, client), "choices.0.text", "one two ");
            assert_text(body_of(world, client), "choices.0.finish_reason", "stop");
        }
    }
    world_close(world);
}

/* ---- what reaches the unit ---- */

static void the_unit_gets_what_was_asked_for(void **state) {
    (void)state;
    uint32_t ids[64];
    struct world_options options = {.gateway = {.frame = {{0}, 1, {7}, 1}}};
    struct world *world = open_by_hand(options);
    ask(world, COMPLETIONS, "{\"prompt\":\"hello there\",\"max_tokens\":9}");
    uint32_t count = encode(world, "hello there", ids);
    const struct record_submit *submit = world->last_submit;
    const uint32_t *prompt = submit_tokens(submit);
    assert_int_equal(submit->prompt_count, count + 2);
    assert_true(prompt[0] == 0 && prompt[1 + count] == 7);
    assert_memory_equal(prompt + 1, ids, count * sizeof *ids);
    assert_int_equal(submit->new_tokens_max, 9);
    assert_int_equal(submit->stop_token_count, 1);
    assert_true(submit->sampling.temperature == 0.6f && submit->sampling.top_p == 0.95f);
    uint64_t drawn = submit->sampling.seed;
    ask(world, COMPLETIONS, "{\"prompt\":\"hello there\",\"add_special_tokens\":false}");
    assert_int_equal(world->last_submit->prompt_count, count);
    assert_memory_equal(submit_tokens(world->last_submit), ids, count * sizeof *ids);

    ask(world, COMPLETIONS, "{\"prompt\":[5,6],\"seed\":42,\"ignore_eos\":true,\"temperature\":0}");
    submit = world->last_submit;
    assert_int_equal(submit->prompt_count, 2); /* ids are taken as they are */
    assert_int_equal(submit->sampling.seed, 42);
    assert_int_not_equal(drawn, 42);
    assert_int_equal(submit->stop_token_count, 0);
    assert_true(submit->sampling.temperature == 0.0f);
    assert_int_equal(submit->new_tokens_max, 2046); /* what is left of the context */

    ask(world, CHAT, "{" HI "}");
    submit = world->last_submit;
    prompt = submit_tokens(submit);
    count = encode(world, "<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜><think>\n", ids);
    assert_int_equal(submit->prompt_count, count); /* the template writes bos itself */
    assert_memory_equal(prompt, ids, count * sizeof *ids);
    world_close(world);
}

static void long_text_is_tokenized_elsewhere(void **state) {
    (void)state;
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
    assert_error(world, failed, 400, "invalid_value");
    world_close(world);
}

/* ---- refusals ---- */

/* A prompt of so many token ids. */
static uint32_t ask_ids(struct world *world, uint32_t count, const char *more) {
    static char body[16384];
    size_t at = (size_t)format_text(body, sizeof body, "{\"prompt\":[5");
    for (uint32_t i = 1; i < count; i++)
        at += (size_t)format_text(body + at, sizeof body - at, ",5");
    format_text(body + at, sizeof body - at, "]%s}", more);
    return ask(world, COMPLETIONS, body);
}

static void what_cannot_fit_is_refused_with_numbers(void **state) {
    (void)state;
    struct world_options options = {.unit = {.page_count = 10}}; /* 640 tokens */
    struct world *world = world_open(&options);
    uint32_t client = ask_ids(world, 640, "");
    assert_error(world, client, 400, "context_length_exceeded");
    assert_non_null(strstr(world->clients[client].data,
                           "maximum context length is 640 tokens here, as many as this server's KV "
                           "memory holds. However, the request has 641 tokens: 640 "));
    client = ask_ids(world, 639, "");
    assert_int_equal(world->clients[client].http_status, 200);
    world_close(world);

    world = world_open(&(struct world_options){0});
    client = ask_ids(world, 2048, "");
    assert_error(world, client, 400, "context_length_exceeded");
    assert_non_null(strstr(world->clients[client].data, "maximum context length is 2048 tokens"));
    assert_error(world, ask(world, COMPLETIONS, "{\"prompt\":\"\"}"), 400, "invalid_value");
    assert_error(world, ask(world, COMPLETIONS, "{\"prompt\":[4096]}"), 422, "out_of_range");
    assert_error(world, ask(world, CHAT, "{" HI ",\"model\":\"x\"}"), 404, "model_not_found");
    assert_int_equal(world->submits, 0);
    world_close(world);
}

/* More tokens than there is room for are as many as there is room for. */
static void long_answers_are_as_long_as_fits(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){0});
    ask_ids(world, 2000, ",\"max_tokens\":49");
    assert_int_equal(world->last_submit->new_tokens_max, 48);
    ask_ids(world, 2000, ",\"max_tokens\":2000000000");
    assert_int_equal(world->last_submit->new_tokens_max, 48);
    uint32_t client = ask_ids(world, 2000, ",\"max_tokens\":60,\"min_tokens\":49");
    assert_error(world, client, 422, "out_of_range");
    world_close(world);
}

static void too_large_bodies_are_refused(void **state) {
    (void)state;
    static char body[5000];
    struct world_options options = {.gateway = {.body_bytes_max = 4096}};
    struct world *world = world_open(&options);
    memset(body, ' ', sizeof body);
    uint32_t client = world_request(world, HTTP_POST, CHAT, body, 4097);
    world_settle(world);
    assert_error(world, client, 413, "request_too_large");
    world_close(world);
}

static void a_gateway_without_a_unit_says_so(void **state) {
    (void)state;
    struct world *world = world_open(&(struct world_options){.no_unit = true});
    uint32_t client = world_get(world, "/health");
    world_settle(world);
    assert_int_equal(world->clients[client].http_status, 503);
    assert_string_equal(world->clients[client].data, "{\"status\":\"starting\"}");
    client = world_get(world, "/live");
    world_settle(world);
    assert_int_equal(world->clients[client].http_status, 200);
    world_close(world);
}

static void full_tables_and_queues_say_try_again(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){.gateway = {.requests_max = 2}});
    ask(world, CHAT, "{" HI "}");
    uint32_t second = ask(world, CHAT, "{" HI "}");
    assert_error(world, ask(world, CHAT, "{" HI "}"), 429, "queue_full");
    report_finished(world, FINISH_REFUSED_QUEUE);
    assert_error(world, second, 429, "queue_full");
    uint32_t third = ask(world, CHAT, "{" HI ",\"stream\":true}");
    report_finished(world, FINISH_REFUSED_TOO_LARGE);
    assert_error(world, third, 400, "context_length_exceeded"); /* the stream had not begun */
    world_close(world);
}

static void a_draining_gateway_finishes_what_runs(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){0});
    uint32_t runs = ask(world, CHAT, "{" HI "}");
    world_drain(world);
    assert_error(world, ask(world, CHAT, "{" HI "}"), 503, "draining");
    uint32_t health = world_get(world, "/health");
    world_settle(world);
    assert_string_equal(world->clients[health].data, "{\"status\":\"draining\"}");
    uint32_t live = world_get(world, "/live");
    world_settle(world);
    assert_int_equal(world->clients[live].http_status, 200);
    report_text(world, "a</think>b", false);
    report_finished(world, FINISH_STOP_TOKEN);
    assert_int_equal(world->clients[runs].http_status, 200);
    assert_int_equal(gateway_request_count(world->gateway), 0);
    world_close(world);
}

/* ---- misfortunes ---- */

/* The unit fails the request as often as it is tried. */
static void fail_always(struct world *world) {
    for (uint32_t submits = 0; submits != world->submits;) {
        submits = world->submits;
        report_finished(world, FINISH_FAILED);
        world->now_ns += 5000000000;
        world_settle(world);
    }
}

static void a_failed_engine_is_reported_apart(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){0});
    uint32_t early = ask(world, COMPLETIONS, "{\"prompt\":\"a\"}");
    fail_always(world);
    assert_int_equal(world->submits, 4);
    assert_error(world, early, 503, "engine_failed");
    uint32_t late = ask(world, COMPLETIONS, "{\"prompt\":\"a\"}");
    report_text(world, "some", true);
    fail_always(world);
    assert_text(body_of(world, late), "choices.0.text", "some");
    assert_text(body_of(world, late), "choices.0.finish_reason", "insufficient_system_resource");
    world_close(world);
}

static void clients_that_leave_are_cancelled(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){0});
    uint32_t client = ask(world, CHAT, "{" HI ",\"stream\":true}");
    report_text(world, "Hm", true);
    size_t count = world->clients[client].count;
    world_hang_up(world, client);
    world_settle(world);
    assert_int_equal(world->cancels, 1);
    report_text(world, "late", true);
    report_finished(world, FINISH_CANCELLED);
    assert_int_equal(world->clients[client].count, count);
    assert_int_equal(gateway_request_count(world->gateway), 0);
    world_hang_up(world, client); /* nobody there any more */
    world_settle(world);
    world_close(world);
}

static void waiting_streams_are_kept_alive(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){.gateway = {.keep_alive_ns = 1000}});
    const struct machine *machine = &world->gateway_machine;
    uint32_t client = ask(world, CHAT, "{" HI ",\"stream\":true}");
    assert_int_equal(machine->next_wake_ns(machine->self), 1000);
    for (world->now_ns = 999; world->now_ns < 2500; world->now_ns += 500)
        world_settle(world);
    report_text(world, "Hm", true);
    assert_true(machine->next_wake_ns(machine->self) == MACHINE_NEVER);
    report_finished(world, FINISH_STOP_TOKEN);
    assert_int_equal(events_of(world, client), 3);
    assert_int_equal(keep_alives, 2);

    client = ask(world, CHAT, "{" HI ",\"stream\":true}"); /* goes before its unit says anything */
    world_hang_up(world, client);
    world_settle(world);
    assert_true(machine->next_wake_ns(machine->self) == MACHINE_NEVER);
    world->now_ns += 2000;
    world_settle(world);
    report_finished(world, FINISH_CANCELLED);

    client = ask(world, CHAT, "{" HI ",\"stream\":true}"); /* refused after it has begun */
    world->now_ns += 2000;
    world_settle(world);
    report_finished(world, FINISH_REFUSED_QUEUE);
    assert_int_equal(events_of(world, client), 1);
    assert_text(events[0], "error.code", "queue_full");
    world_close(world);
}

/* An answer that outgrows its memory is cut with a reason; it does not take the server along. */
static void endless_answers_are_cut(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){0});
    world->gateway_machine.outbox->capacity = 70768; /* 5,232 bytes of answer */
    uint32_t client = ask(world, COMPLETIONS, "{\"prompt\":\"a\"}");
    for (int i = 0; i < 2000 && world->cancels == 0; i++)
        report_text(world, "words and words ", true);
    assert_int_equal(world->cancels, 1);
    report_finished(world, FINISH_CANCELLED);
    assert_text(body_of(world, client), "choices.0.finish_reason", "insufficient_system_resource");
    assert_true(world->clients[client].count > 5000);
    world_close(world);
}

/* A late repeat of tokens (a resubmitted request) is not said twice. */
static void repeated_tokens_are_dropped(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){0});
    uint32_t client = ask(world, COMPLETIONS, "{\"prompt\":\"a\"}"), ids[16];
    uint32_t count = encode(world, "one two three", ids);
    assert_true(count >= 3);
    report_ids(world, ids, 2);
    said = 0;
    report_ids(world, ids, 2);
    said = 1;
    report_ids(world, ids + 1, count - 1);
    report_finished(world, FINISH_LENGTH);
    assert_text(body_of(world, client), "choices.0.text", "one two three");
    world_close(world);
}

/* ---- no tokenizer ---- */

static void without_a_tokenizer_ids_go_in_and_out(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){.no_tokenizer = true});
    static const uint32_t ids[] = {9, 4095, 0};
    uint32_t client = ask(world, COMPLETIONS, "{\"prompt\":[5,6]}");
    report_ids(world, ids, 1);
    report_ids(world, ids + 1, 2);
    report_finished(world, FINISH_LENGTH);
    const struct tree *root = body_of(world, client);
    assert_int_equal(tree_count(at(root, "choices.0.token_ids")), 3);
    assert_number(root, "choices.0.token_ids.1", 4095);
    client = ask(world, COMPLETIONS, "{\"prompt\":[5,6],\"stream\":true}");
    report_ids(world, ids, 1);
    report_ids(world, ids + 1, 2);
    report_finished(world, FINISH_LENGTH);
    assert_int_equal(events_of(world, client), 3);
    assert_number(events[0], "choices.0.token_ids.0", 9);
    assert_number(events[1], "choices.0.token_ids.1", 0);
    assert_error(world, ask(world, CHAT, "{" HI "}"), 400, "no_chat_template");
    assert_error(world, ask(world, COMPLETIONS, "{\"prompt\":\"a\"}"), 400, "no_tokenizer");
    assert_error(world, ask(world, COMPLETIONS, "{\"prompt\":[1],\"stop\":\"a\"}"), 400,
                 "unsupported_parameter");
    assert_error(world, ask(world, COMPLETIONS, "{\"prompt\":[1],\"echo\":true}"), 400,
                 "unsupported_parameter");
    world_close(world);
}

/* ---- choices and log probabilities ---- */

/* Tokens of one choice of a client's request, each with the two likeliest: itself and 65. */
static void report_choice(struct world *world, uint32_t client, uint32_t choice, uint32_t position,
                          const uint32_t *ids, uint32_t count, uint32_t each) {
    struct record_tokens *record =
        make(RECORD_TOKENS,
             &(struct record_tokens){.token_count = count, .logprobs_each = each, .work_count = 1});
    struct token_logprob *logprobs = tokens_logprobs(record);
    record->request = (struct request_id){.high = 0x1000 + client, .low = 77 + choice};
    record->first_output_position = position;
    tokens_work(record)->prompt_miss_tokens = world->last_submit->prompt_count;
    memcpy(tokens_chosen(record), ids, count * sizeof *ids);
    for (uint32_t i = 0; i < count * each; i++)
        logprobs[i] = (struct token_logprob){i % each < 2 ? ids[i / each] : 65,
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

static void assert_fraction(const struct tree *root, const char *path, double expected) {
    double number;
    if (!at(root, path) || !tree_get_number(at(root, path), &number)) fail_msg("none: %s", path);
    if (number != expected) fail_msg("%s: %g", path, number);
}

static void chats_report_log_probabilities(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){0});
    uint32_t ids[64], count = encode(world, "Hm</think>Good", ids);
    uint32_t reasoning = encode(world, "Hm</think>", ids);
    count = encode(world, "Hm</think>Good", ids);
    for (int stream = 0; stream < 2; stream++) {
        uint32_t client =
            ask(world, CHAT,
                stream ? "{" HI ",\"logprobs\":true,\"top_logprobs\":2,\"stream\":true}"
                       : "{" HI ",\"logprobs\":true,\"top_logprobs\":2,\"return_token_ids\":true}");
        assert_int_equal(world->last_submit->sampling.top_logprobs, 2);
        assert_int_equal(world->last_submit->sampling.flags, SAMPLING_LOGPROBS);
        for (uint32_t i = 0; i < count; i++)
            report_choice(world, client, 0, i, &ids[i], 1, 3);
        end_choice(world, client, 0, FINISH_LENGTH, count);
        if (!stream) {
            const struct tree *root = body_of(world, client);
            const struct tree *content = at(root, "choices.0.logprobs.content");
            assert_int_equal(tree_count(content), count - reasoning);
            assert_int_equal(tree_count(at(root, "choices.0.logprobs.reasoning_content")),
                             reasoning);
            assert_int_equal(tree_count(at(root, "choices.0.token_ids")), count);
            assert_fraction(content, "0.logprob", -0.25);
            assert_fraction(content, "0.top_logprobs.0.logprob", -0.25);
            assert_fraction(content, "0.top_logprobs.1.logprob", -9999);
            assert_int_equal(tree_count(at(content, "0.top_logprobs")), 2);
            struct bytes token;
            assert_true(tree_get_string(at(content, "0.token"), &token));
            assert_int_equal(tree_count(at(content, "0.bytes")), token.count);
            assert_number(content, "0.bytes.0", token.data[0]);
            assert_null_at(root, "choices.0.logprobs.refusal");
            continue;
        }
        uint32_t events_count = events_of(world, client), thought = 0, said_tokens = 0;
        for (uint32_t i = 0; i < events_count; i++) {
            const struct tree *reported = at(events[i], "choices.0.logprobs");
            if (!reported || tree_is_null(reported)) continue;
            said_tokens += (uint32_t)tree_count(at(reported, "content"));
            if (at(reported, "reasoning_content"))
                thought += (uint32_t)tree_count(at(reported, "reasoning_content"));
            assert_null(at(events[i], "choices.0.token_ids"));
        }
        assert_int_equal(thought, reasoning);
        assert_int_equal(said_tokens, count - reasoning);
    }
    world_close(world);
}

static void completions_report_log_probabilities(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){0});
    uint32_t ids[64], count = encode(world, "one two\xc3\xa9 three", ids), offsets = 0;
    for (int stream = 0; stream < 2; stream++) {
        uint32_t client =
            ask(world, COMPLETIONS,
                stream ? "{\"prompt\":\"a\",\"logprobs\":2,\"stream\":true}"
                       : "{\"prompt\":\"a\",\"logprobs\":2,\"return_token_ids\":true}");
        for (uint32_t i = 0; i < count; i += 2)
            report_choice(world, client, 0, i, &ids[i], count - i < 2 ? 1 : 2, 3);
        end_choice(world, client, 0, FINISH_LENGTH, count);
        uint32_t reported = 0, events_count = stream ? events_of(world, client) : 1;
        for (uint32_t e = 0; e < events_count; e++) {
            const struct tree *root = stream ? events[e] : body_of(world, client);
            const struct tree *logprobs = at(root, "choices.0.logprobs");
            if (tree_is_null(logprobs)) continue;
            size_t here = tree_count(at(logprobs, "tokens"));
            assert_int_equal(tree_count(at(logprobs, "token_logprobs")), here);
            assert_int_equal(tree_count(at(logprobs, "top_logprobs")), here);
            assert_int_equal(tree_count(at(logprobs, "text_offset")), here);
            assert_fraction(logprobs, "token_logprobs.0", -0.25);
            for (size_t i = 0; i < here; i++, reported++) {
                int64_t offset;
                struct bytes name;
                assert_true(tree_get_integer(tree_at(at(logprobs, "text_offset"), i), &offset));
                assert_true(tree_get_string(tree_at(at(logprobs, "tokens"), i), &name));
                const struct tree *top = tree_at(at(logprobs, "top_logprobs"), i);
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
            assert_int_equal(tree_count(at(body_of(world, client), "choices.0.token_ids")), count);
    }
    assert_true(offsets > 5 && offsets < 14);
    world_close(world);
}

static void several_answers_come_together(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){0});
    uint32_t ids[64], client = ask(world, COMPLETIONS, "{\"prompt\":\"a\",\"n\":3,\"echo\":true}");
    assert_int_equal(world->submits, 3);
    assert_int_equal(world->last_submit->sampling.choice, 2);
    assert_int_equal(gateway_request_count(world->gateway), 3);
    uint32_t count = encode(world, "xyz", ids);
    for (uint32_t choice = 0; choice < 3; choice++)
        for (uint32_t i = 0; i < choice + 1 && i < count; i++)
            report_choice(world, client, choice, i, &ids[0], 1, 0);
    static const uint32_t order[] = {1, 2, 0};
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(world->clients[client].ended);
        uint32_t reported = order[i] + 1 < count ? order[i] + 1 : count;
        end_choice(world, client, order[i], order[i] ? FINISH_LENGTH : FINISH_STOP_TOKEN, reported);
    }
    const struct tree *root = body_of(world, client);
    assert_int_equal(tree_count(at(root, "choices")), 3);
    assert_number(root, "choices.2.index", 2);
    assert_text(root, "choices.0.finish_reason", "stop");
    assert_text(root, "choices.1.finish_reason", "length");
    assert_number(root, "usage.completion_tokens", 1 + 2 + (count < 3 ? count : 3));
    assert_number(root, "usage.prompt_tokens", 1);
    for (uint32_t choice = 0; choice < 3; choice++) {
        struct bytes text;
        char path[32];
        format_text(path, sizeof path, "choices.%u.text", choice);
        assert_true(tree_get_string(at(root, path), &text));
        assert_true(bytes_start_with(text, BYTES_LITERAL("a"))); /* each echoes */
    }
    assert_int_equal(gateway_request_count(world->gateway), 0);

    client = ask(world, CHAT,
                 "{" HI ",\"n\":2,\"stream\":true,"
                 "\"stream_options\":{\"include_usage\":true}}");
    report_choice(world, client, 1, 0, ids, 1, 0);
    report_choice(world, client, 0, 0, ids, 1, 0);
    end_choice(world, client, 0, FINISH_LENGTH, 1);
    report_choice(world, client, 1, 1, ids, 1, 0);
    end_choice(world, client, 1, FINISH_LENGTH, 2);
    uint32_t roles[2] = {0}, finishes[2] = {0}, events_count = events_of(world, client);
    for (uint32_t i = 0; i + 1 < events_count; i++) {
        int64_t index;
        assert_true(tree_get_integer(at(events[i], "choices.0.index"), &index));
        roles[index] += at(events[i], "choices.0.delta.role") != NULL;
        finishes[index] += !tree_is_null(at(events[i], "choices.0.finish_reason"));
        assert_null_at(events[i], "usage");
    }
    assert_true(roles[0] == 1 && roles[1] == 1 && finishes[0] == 1 && finishes[1] == 1);
    assert_int_equal(tree_count(at(events[events_count - 1], "choices")), 0);
    assert_number(events[events_count - 1], "usage.completion_tokens", 3);
    world_close(world);
}

/* A request fails as a whole; its other choices are cancelled, and nothing is said twice. */
static void choices_fail_and_leave_together(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){.gateway = {.requests_max = 4}});
    uint32_t id = 70, client = ask(world, COMPLETIONS, "{\"prompt\":\"a\",\"n\":3}");
    assert_error(world, ask(world, COMPLETIONS, "{\"prompt\":\"a\",\"n\":2}"), 429, "queue_full");
    report_choice(world, client, 0, 0, &id, 1, 0);
    end_choice(world, client, 1, FINISH_REFUSED_QUEUE, 0);
    assert_int_equal(world->cancels, 2);
    end_choice(world, client, 0, FINISH_CANCELLED, 1);
    assert_false(world->clients[client].ended);
    end_choice(world, client, 2, FINISH_CANCELLED, 0);
    assert_error(world, client, 429, "queue_full");
    assert_int_equal(gateway_request_count(world->gateway), 0);

    client = ask(world, COMPLETIONS, "{\"prompt\":\"a\",\"n\":2,\"stream\":true}");
    report_choice(world, client, 0, 0, &id, 1, 0);
    end_choice(world, client, 1, FINISH_CANCELLED, 0);
    end_choice(world, client, 0, FINISH_CANCELLED, 1);
    uint32_t events_count = events_of(world, client);
    assert_text(events[events_count - 1], "error.code", "engine_failed");

    client = ask(world, COMPLETIONS, "{\"prompt\":\"a\",\"n\":4}");
    end_choice(world, client, 0, FINISH_LENGTH, 0); /* the leader is done and stays */
    world_hang_up(world, client);
    world_settle(world);
    assert_int_equal(world->cancels, 2 + 1 + 3);
    for (uint32_t i = 1; i < 4; i++)
        end_choice(world, client, i, FINISH_CANCELLED, 0);
    assert_int_equal(gateway_request_count(world->gateway), 0);
    world_close(world);
}

static void tokens_of_another_model_are_refused(void **state) {
    (void)state;
    struct world *world = open_by_hand((struct world_options){0});
    assert_error(world, ask(world, COMPLETIONS, "{\"prompt\":[1],\"logit_bias\":{\"4096\":1}}"),
                 422, "out_of_range");
    assert_error(world, ask(world, COMPLETIONS, "{\"prompt\":[1],\"stop_token_ids\":[4096]}"), 422,
                 "out_of_range");
    assert_error(world, ask(world, COMPLETIONS, "{\"prompt\":[1],\"min_tokens\":2048}"), 422,
                 "out_of_range");
    ask(world, COMPLETIONS,
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chats_report_log_probabilities),
        cmocka_unit_test(completions_report_log_probabilities),
        cmocka_unit_test(several_answers_come_together),
        cmocka_unit_test(choices_fail_and_leave_together),
        cmocka_unit_test(tokens_of_another_model_are_refused),
        cmocka_unit_test(metrics_add_up),
        cmocka_unit_test(a_chat_is_answered_whole),
        cmocka_unit_test(a_model_may_open_its_thought_itself),
        cmocka_unit_test(a_chat_is_streamed),
        cmocka_unit_test(plain_text_is_completed),
        cmocka_unit_test(stop_strings_end_the_answer),
        cmocka_unit_test(the_unit_gets_what_was_asked_for),
        cmocka_unit_test(long_text_is_tokenized_elsewhere),
        cmocka_unit_test(what_cannot_fit_is_refused_with_numbers),
        cmocka_unit_test(long_answers_are_as_long_as_fits),
        cmocka_unit_test(too_large_bodies_are_refused),
        cmocka_unit_test(a_gateway_without_a_unit_says_so),
        cmocka_unit_test(full_tables_and_queues_say_try_again),
        cmocka_unit_test(a_draining_gateway_finishes_what_runs),
        cmocka_unit_test(a_failed_engine_is_reported_apart),
        cmocka_unit_test(clients_that_leave_are_cancelled),
        cmocka_unit_test(waiting_streams_are_kept_alive),
        cmocka_unit_test(endless_answers_are_cut),
        cmocka_unit_test(repeated_tokens_are_dropped),
        cmocka_unit_test(without_a_tokenizer_ids_go_in_and_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

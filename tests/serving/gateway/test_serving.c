/* SPDX-License-Identifier: Apache-2.0
 * Gateway and unit together in virtual time, over many seeds: random requests, good and bad;
 * clients that leave; failed steps; outboxes so small and so rarely emptied that FULL is met
 * everywhere; a drain.
 *
 * What must hold: every client that stays gets exactly one whole answer, in the right form, whose
 * text is that of the engine's tokens; nothing is said to one that left; pages and tables are empty
 * at the end; every record is valid (world.c looks). And a seed gives the same run again, byte for
 * byte.
 */

#include "base/check.h"
#include "base/format.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/tree.h"
#include "serving/gateway/gateway_state.h"
#include "test_case.h"
#include "world.h"

enum { ANSWERS_MAX = 3, PROMPTS_MAX = 3, CHOICES_MAX = ANSWERS_MAX * PROMPTS_MAX };
enum { PLENTY_BYTES = 1 << 16 }; /* for a request */
enum { ROOMY_BODY_BYTES = 900 }; /* the smallest unit has room for more tokens than these are */

struct asked { /* what the test knows of each client's request */
    bool good, chat, stream, usage, leaves, ignore_eos, logprobs, ids;
    bool echo, prompt_only;    /* the prompt is told of, and perhaps nothing else */
    uint32_t prompts, choices; /* of all prompts */
    uint32_t max_tokens;
    size_t body_bytes; /* a long prompt may leave less room than max_tokens */
    uint64_t seed;
    const char *stop; /* NULL: none */
};

static struct asked asked[WORLD_CLIENTS_MAX];
static uint64_t seed_now;
static uint32_t draws;
static uint32_t finishes[4]; /* stop, length, insufficient, error: all must be met */
static uint64_t fulls;
static bool had_faults, had_drain, scarce; /* scarce: answers may run out of memory */

static uint32_t below(uint32_t bound) {
    return (uint32_t)(random_uniform(seed_now, 5, draws++) * bound);
}

/* ---- asking ---- */

static size_t write_text(char *body, size_t room) {
    static const char *const texts[] = {"hi", "How many r in strawberry?",
                                        "Tell me a story about a fox. ", "\\u00e9\\n\\\"x\\\""};
    const char *text = texts[below(4)];
    size_t at = format_text(body, room, "\"");
    for (uint32_t n = 1 + (below(8) ? 0 : below(200)); n; n--) /* some beyond inline_text_bytes */
        at += format_text(body + at, room - at, "%s", text);
    return at + format_text(body + at, room - at, "\"");
}

static size_t write_prompt(char *body, size_t room, const struct asked *request) {
    if (request->chat) {
        size_t at = format_text(body, room, "\"messages\":[{\"role\":\"user\",\"content\":");
        at += write_text(body + at, room - at);
        return at + format_text(body + at, room - at, "}]");
    }
    bool ids = below(2);
    size_t at = format_text(body, room, request->prompts > 1 ? "\"prompt\":[" : "\"prompt\":");
    for (uint32_t i = 0; i < request->prompts; i++) {
        if (i > 0) at += format_text(body + at, room - at, ",");
        at += ids ? format_text(body + at, room - at, "[5,6,%u]", below(4096))
                  : write_text(body + at, room - at);
    }
    return at + format_text(body + at, room - at, request->prompts > 1 ? "]" : "");
}

static void ask_good(struct world *world) {
    static char body[60000];
    static const char *const stops[] = {NULL, NULL, " ", "the", "qz"};
    struct asked request = {.good = true,
                            .chat = below(2),
                            .stream = below(2),
                            .usage = below(2),
                            .ignore_eos = below(3) == 0,
                            .max_tokens = 1 + below(40),
                            .seed = below(100000),
                            .stop = stops[below(5)],
                            .logprobs = below(3) == 0,
                            .ids = below(3) == 0,
                            .prompts = 1};
    uint32_t answers = below(3) ? 1 : 1 + below(ANSWERS_MAX);
    if (!request.chat && below(3) == 0) request.prompts = 1 + below(PROMPTS_MAX);
    request.choices = request.prompts * answers;
    request.echo = !request.chat && request.logprobs && below(2);
    request.prompt_only = request.echo && below(3) == 0;
    size_t at =
        format_text(body, sizeof body,
                    "{\"seed\":%u,\"max_tokens\":%u,\"stream\":%s,\"ignore_eos\":%s,"
                    "\"stream_options\":{\"include_usage\":%s},",
                    (uint32_t)request.seed, request.prompt_only ? 0 : request.max_tokens,
                    request.stream ? "true" : "false", request.ignore_eos ? "true" : "false",
                    request.usage ? "true" : "false");
    at += format_text(body + at, sizeof body - at, "\"n\":%u,\"return_token_ids\":%s,", answers,
                      request.ids ? "true" : "false");
    if (request.logprobs)
        at +=
            format_text(body + at, sizeof body - at,
                        request.chat ? "\"logprobs\":true,\"top_logprobs\":2," : "\"logprobs\":2,");
    if (request.echo) at += format_text(body + at, sizeof body - at, "\"echo\":true,");
    if (request.stop)
        at += format_text(body + at, sizeof body - at, "\"stop\":\"%s\",", request.stop);
    at += write_prompt(body + at, sizeof body - at - 2, &request);
    format_text(body + at, sizeof body - at, "}");
    request.body_bytes = strlen(body);
    uint32_t client =
        world_post(world, request.chat ? "/chat/completions" : "/v1/completions", body);
    asked[client] = request;
}

static void ask_bad(struct world *world) {
    static const char *const bodies[] = {"{", "{\"prompt\":[99999]}", "{\"prompt\":\"\"}",
                                         "{\"prompt\":[1],\"max_tokens\":0}", "{\"prompt\":4}"};
    static const char *const paths[] = {"/v1/completions", "/chat/completions", "/v1/models/x"};
    uint32_t client = world_post(world, paths[below(3)], bodies[below(5)]);
    asked[client] = (struct asked){0};
}

static void ask_service(struct world *world) {
    static const char *const paths[] = {"/health", "/metrics", "/v1/models"};
    asked[world_get(world, paths[below(3)])] = (struct asked){.good = true};
}

/* ---- judging ---- */

struct text {
    char bytes[1 << 16];
    size_t count;
};

static void text_add(struct text *text, struct bytes piece) {
    check(text->count + piece.count <= sizeof text->bytes);
    if (piece.count) memcpy(text->bytes + text->count, piece.data, piece.count);
    text->count += piece.count;
}

struct answer {
    struct text reasoning, content;
    char finish[64];           /* "error": an error instead of an answer */
    char code[64];             /* of the error */
    int64_t completion_tokens; /* -1: not told */
    int64_t prompt_tokens;     /* -1: not told */
    uint32_t unknown;          /* tokens told without their log probability */
    uint32_t roles;
    uint32_t ids, logprobs; /* tokens told */
};

static struct answer gots[CHOICES_MAX], expected;
static struct answer *got = gots; /* of the choice at hand */

static void sink(void *context, enum token_stream_part part, struct bytes piece) {
    struct answer *answer = context;
    text_add(part == TOKEN_STREAM_REASONING ? &answer->reasoning : &answer->content, piece);
}

/* What the engine's tokens say, straight through the token stream. */
static void expect(const struct world *world, const struct asked *request, uint32_t choice) {
    struct token_stream stream;
    struct stop_strings stops = {0};
    struct error error;
    expected = (struct answer){.finish = "length"};
    if (request->stop)
        assert_int_equal(token_stream_stop_strings_add(&stops, bytes_of(request->stop), &error), 0);
    token_stream_open(&stream, world->tokenizer, request->stop ? &stops : NULL,
                      request->chat ? TOKEN_STREAM_IN_REASONING : TOKEN_STREAM_PLAIN, NULL);
    uint32_t position = 0;
    bool ends = false;
    while (!ends && position < request->max_tokens && !request->prompt_only) {
        uint32_t answer = choice % (request->choices / request->prompts);
        uint32_t token = world_token(request->seed + answer, position++);
        ends = token_stream_push(&stream, token, sink, &expected) ||
               (token == 1 && !request->ignore_eos);
    }
    if (ends) strcpy(expected.finish, "stop");
    token_stream_finish(&stream, sink, &expected);
    expected.completion_tokens = position;
}

static char tree_memory[4 << 20];
static struct arena tree_arena;

static const struct tree *parse(struct bytes text) {
    const struct tree *root;
    struct error error;
    arena_over(&tree_arena, tree_memory, sizeof tree_memory);
    if (tree_parse(&tree_arena, text, "answer", &root, &error))
        fail_msg("%s: %.*s", error.text, (int)text.count, text.data);
    return root;
}

static bool take(const struct tree *object, const char *key, struct text *into) {
    struct bytes piece;
    if (!object || !tree_get_string(tree_member(object, key), &piece)) return false;
    text_add(into, piece);
    return true;
}

static void take_usage(const struct tree *root) {
    const struct tree *usage = tree_member(root, "usage");
    int64_t prompt = 0, completion = 0, total = 0, hit = 0, miss = 0;
    if (!usage || tree_is_null(usage)) return;
    assert_true(tree_get_integer(tree_member(usage, "prompt_tokens"), &prompt) &&
                tree_get_integer(tree_member(usage, "completion_tokens"), &completion) &&
                tree_get_integer(tree_member(usage, "total_tokens"), &total) &&
                tree_get_integer(tree_member(usage, "prompt_cache_hit_tokens"), &hit) &&
                tree_get_integer(tree_member(usage, "prompt_cache_miss_tokens"), &miss));
    assert_true(prompt > 0 && total == prompt + completion && hit + miss == prompt);
    gots[0].completion_tokens = completion;
    gots[0].prompt_tokens = prompt;
}

static uint32_t count_unknown(const struct tree *reported) {
    const struct tree *own = reported ? tree_member(reported, "token_logprobs") : NULL;
    uint32_t count = 0;
    for (size_t i = 0; own && i < tree_count(own); i++)
        count += tree_is_null(tree_at(own, i));
    return count;
}

static uint32_t count_logprobs(const struct tree *reported) {
    if (!reported || tree_is_null(reported)) return 0;
    if (tree_member(reported, "tokens"))
        return (uint32_t)tree_count(tree_member(reported, "tokens"));
    const struct tree *reasoning = tree_member(reported, "reasoning_content");
    return (uint32_t)(tree_count(tree_member(reported, "content")) +
                      (reasoning ? tree_count(reasoning) : 0));
}

static void take_choice(const struct tree *choice) {
    struct text finish = {0};
    int64_t index;
    assert_true(tree_get_integer(tree_member(choice, "index"), &index));
    assert_true(index >= 0 && index < CHOICES_MAX);
    got = &gots[index];
    if (tree_member(choice, "token_ids"))
        got->ids += (uint32_t)tree_count(tree_member(choice, "token_ids"));
    got->logprobs += count_logprobs(tree_member(choice, "logprobs"));
    got->unknown += count_unknown(tree_member(choice, "logprobs"));
    assert_string_equal(got->finish, ""); /* nothing comes after the finish */
    const struct tree *message = tree_member(choice, "message");
    const struct tree *delta = message ? message : tree_member(choice, "delta");
    got->roles += delta && tree_member(delta, "role");
    size_t content_before = got->content.count;
    bool reasons = take(delta, "reasoning_content", &got->reasoning);
    bool answers = take(delta, "content", &got->content) || take(choice, "text", &got->content);
    assert_true(reasons || answers);
    if (!message && reasons && got->reasoning.count) assert_int_equal(content_before, 0);
    if (!take(choice, "finish_reason", &finish)) return;
    format_text(got->finish, sizeof got->finish, "%.*s", (int)finish.count, finish.bytes);
}

/* One JSON text of an answer: the whole of it, or a chunk. */
static void take_json(struct bytes json) {
    const struct tree *root = parse(json);
    struct text finish = {0};
    if (tree_member(root, "error")) {
        got = gots; /* in a stream, choices that ended well before are void */
        strcpy(got->finish, "error");
        assert_true(take(tree_member(root, "error"), "code", &finish));
        format_text(got->code, sizeof got->code, "%.*s", (int)finish.count, finish.bytes);
        return;
    }
    take_usage(root);
    const struct tree *choices = tree_member(root, "choices");
    for (size_t i = 0; i < tree_count(choices); i++)
        take_choice(tree_at(choices, i));
}

static void take_stream(const struct client *client) {
    const char *text = client->data;
    bool done = false;
    while (*text) {
        const char *end = strstr(text, "\n\n");
        assert_false(done);
        assert_non_null(end);
        struct bytes event = {text, (size_t)(end - text)};
        text = end + 2;
        if (bytes_start_with(event, BYTES_LITERAL(": "))) {
            /* while nothing has been said, or the answer waits for another try, or for the
             * ledger */
            bool waits = had_faults || getenv("FATHOM_SETTLES");
            assert_true(got->reasoning.count + got->content.count == 0 || waits);
            continue;
        }
        assert_true(bytes_start_with(event, BYTES_LITERAL("data: ")));
        done = bytes_equal(event, BYTES_LITERAL("data: [DONE]"));
        if (!done) take_json((struct bytes){event.data + 6, event.count - 6});
    }
    assert_true(done);
}

static void assert_same(const struct text *a, const struct text *b) {
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->bytes, b->bytes, a->count);
}

static void drop_echo(const struct asked *request) {
    size_t prompt = got->content.count - expected.content.count;
    if (!request->echo) return;
    assert_true(got->content.count > expected.content.count);
    memmove(got->content.bytes, got->content.bytes + prompt, expected.content.count);
    got->content.count = expected.content.count;
}

/* The prompt left room for fewer tokens than were asked for. */
static bool is_shortened(const struct asked *request) {
    size_t count = got->reasoning.count + got->content.count;
    return request->body_bytes >= ROOMY_BODY_BYTES && strcmp(got->finish, "length") == 0 &&
           (strcmp(expected.finish, "length") != 0 ||
            count < expected.reasoning.count + expected.content.count);
}

/* False: it was cut, or has another length than was asked for. */
static bool verify_choice(const struct world *world, const struct asked *request, uint32_t choice) {
    expect(world, request, choice);
    got = &gots[choice];
    if (strcmp(got->finish, "insufficient_system_resource") == 0) {
        finishes[2]++;
        assert_true(had_faults || scarce || request->logprobs); /* those take much room */
        if (!request->echo) assert_true(got->content.count <= expected.content.count + 3);
        return false;
    }
    if (is_shortened(request)) return false;
    assert_string_equal(got->finish, expected.finish);
    finishes[strcmp(got->finish, "length") == 0]++;
    assert_same(&got->reasoning, &expected.reasoning);
    drop_echo(request);
    assert_same(&got->content, &expected.content);
    assert_int_equal(got->roles, request->chat);
    assert_int_equal(got->ids, request->ids ? expected.completion_tokens : 0);
    assert_int_equal(got->unknown, request->echo);
    if (!request->echo)
        assert_int_equal(got->logprobs, request->logprobs ? expected.completion_tokens : 0);
    else if (gots[0].prompt_tokens >= 0 && request->prompts == 1)
        assert_int_equal(got->logprobs, gots[0].prompt_tokens + expected.completion_tokens);
    else
        assert_true(got->logprobs > expected.completion_tokens);
    return true;
}

static void verify_answer(const struct world *world, const struct asked *request) {
    int64_t total = 0;
    for (uint32_t choice = 0; choice < request->choices; choice++) {
        if (!verify_choice(world, request, choice)) return;
        total += expected.completion_tokens;
    }
    bool reported = !request->stream || request->usage;
    assert_int_equal(gots[0].completion_tokens, reported ? total : -1);
}

/* A good request is refused only for these reasons, each with its status unless the stream has
 * begun. */
static void verify_refusal(const struct world *world, const struct client *client,
                           const struct asked *request) {
    static const struct {
        const char *code;
        uint32_t http_status;
    } reasons[] = {{"queue_full", 429},        {"context_length_exceeded", 400},
                   {"out_of_memory", 503},     {"draining", 503},
                   {"engine_failed", 503},     {"out_of_range", 422},
                   {"request_too_large", 413}, {"ledger_behind", 503}};
    size_t i = 0;
    while (i < ARRAY_COUNT(reasons) && strcmp(got->code, reasons[i].code) != 0)
        i++;
    if (i == ARRAY_COUNT(reasons)) fail_msg("refused: %s", got->code);
    assert_int_equal(client->http_status, client->begun ? 200 : reasons[i].http_status);
    if (i == 3) assert_true(had_drain);
    if (i == 4) assert_true(had_faults);
    if (i == 7) assert_non_null(getenv("FATHOM_SETTLES"));
    if (i == 5) assert_true(request->choices > world->gateway->options.requests_max);
    if (i == 6) assert_true(request->echo); /* of what an answer can hold here */
}

static void verify(const struct world *world, uint32_t index) {
    const struct client *client = &world->clients[index];
    const struct asked *request = &asked[index];
    if (client->gone) return;
    assert_true(client->ended);
    got = gots;
    for (uint32_t i = 0; i < CHOICES_MAX; i++)
        gots[i] = (struct answer){.completion_tokens = -1, .prompt_tokens = -1};
    if (client->content_type == CONTENT_EVENTS) {
        take_stream(client);
    } else if (client->content_type == CONTENT_JSON) {
        take_json((struct bytes){client->data, client->count});
    }
    bool refused = strcmp(gots[0].finish, "error") == 0;
    got = gots;
    if (!request->good) {
        assert_true(refused && client->http_status >= 400);
    } else if (refused) {
        finishes[3]++;
        verify_refusal(world, client, request);
    } else if (request->max_tokens) {
        assert_int_equal(client->http_status, 200);
        assert_int_equal(client->content_type == CONTENT_EVENTS, request->stream);
        verify_answer(world, request);
    }
}

/* ---- one life ---- */

static struct world_options random_options(void) {
    struct world_options options = {0};
    options.gateway.requests_max = 1 + below(20);
    options.gateway.inline_text_bytes = 200 + below(2000);
    options.gateway.keep_alive_ns = 1 + below(3000);
    options.gateway.request_bytes = (1 + below(20)) * PLENTY_BYTES;
    scarce = options.gateway.request_bytes < options.gateway.requests_max * PLENTY_BYTES;
    options.unit.requests_max = 1 + below(16);
    options.unit.page_count = 16 + below(60);
    options.unit.step_rows_max = 1 + below(8);
    options.unit.step_tokens_max = options.unit.step_rows_max + KV_BLOCK_TOKENS + below(400);
    return options;
}

static void act(struct world *world) {
    uint32_t what = below(100);
    if (world->client_count + 1 < WORLD_CLIENTS_MAX && what < 12)
        what < 9 ? ask_good(world) : what < 11 ? ask_bad(world) : ask_service(world);
    else if (what < 15 && world->client_count)
        world_hang_up(world, below(world->client_count));
    else if (what < 35)
        world_deliver_to_gateway(world);
    else if (what < 55)
        world_deliver_to_unit(world);
    else if (what < 75)
        world_compute(world, had_faults && below(30) == 0);
    else if (what < 80)
        world_tokenize(world);
    else
        world_step(world);
}

/* Runs one seed; digest_out sees every byte that clients got-> */
static void live(uint64_t seed, uint8_t digest_out[SHA256_BYTES]) {
    seed_now = seed;
    draws = 0;
    had_faults = below(3) == 0;
    struct world_options options = random_options();
    struct world *world = world_open(&options);
    /* Little more than one answer's frame: FULL is met all the time. */
    world->gateway_machine.outbox->capacity = 96 << 10;
    uint32_t turns = 500 + below(2500), carry_odds = 1 + below(below(2) ? 8 : 1000);
    uint32_t drain_at = below(3) ? turns : below(turns);
    had_drain = drain_at < turns;
    for (uint32_t turn = 0; turn < turns; turn++) {
        world->now_ns += below(300);
        if (turn == drain_at) world_drain(world);
        act(world);
        if (below(carry_odds) == 0) world_carry(world);
    }
    world_settle(world);
    const struct machine *machine = &world->gateway_machine;
    while (gateway_request_count(world->gateway)) { /* failed ones are tried again, later */
        assert_true(machine->next_wake_ns(machine->self) != MACHINE_NEVER);
        world->now_ns += 500000000;
        world_settle(world);
    }
    assert_int_equal(unit_request_count(world->unit), 0);
    gateway_audit(world->gateway);
    unit_audit(world->unit);
    struct sha256 hash;
    sha256_init(&hash);
    for (uint32_t i = 0; i < world->client_count; i++) {
        verify(world, i);
        sha256_update(&hash, world->clients[i].data, world->clients[i].count);
    }
    sha256_final(&hash, digest_out);
    fulls += world->fulls;
    world_close(world);
}

TEST(every_request_has_one_whole_ending) {
    const char *asked_for = getenv("FATHOM_SEEDS"); /* "first count", for longer runs */
    unsigned long first = 0, count = 120;
    if (asked_for) {
        char *rest;
        first = strtoul(asked_for, &rest, 10);
        count = strtoul(rest, NULL, 10);
    }
    for (uint64_t seed = first; seed < first + count; seed++) {
        uint8_t digest[SHA256_BYTES];
        live(seed, digest);
    }
    for (size_t i = 0; i < ARRAY_COUNT(finishes); i++)
        assert_true(finishes[i] > 0 || asked_for);
    assert_true(fulls > 100 || asked_for);
}

TEST(a_seed_gives_the_same_run_again) {
    for (uint64_t seed = 0; seed < 10; seed++) {
        uint8_t first[SHA256_BYTES], second[SHA256_BYTES];
        live(seed, first);
        live(seed, second);
        assert_memory_equal(first, second, sizeof first);
    }
}

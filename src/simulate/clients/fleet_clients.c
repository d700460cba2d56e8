/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/clients/fleet_clients.h"

#include "base/check.h"
#include "base/format.h"
#include "base/random.h"
#include "base/tree.h"
#include "contract/record_client.h"
#include "simulate/clients/fleet_chats.h"
#include "simulate/engine/fleet_engine.h"
#include "simulate/engine/fleet_token_oracle.h"

#define BODY_BYTES ((size_t)16 << 10)
#define SCRATCH_BYTES ((size_t)8 << 20)

bool fleet_clients_open(struct fleet_clients *clients, struct arena *arena,
                        const struct fleet_token_oracle *token_oracle, uint64_t seed) {
    *clients = (struct fleet_clients){.seed = seed, .token_oracle = token_oracle};
    clients->clients = arena_take_zeroed(arena, FLEET_CLIENTS_MAX * sizeof *clients->clients);
    clients->body = arena_take(arena, BODY_BYTES);
    void *scratch = arena_take(arena, SCRATCH_BYTES);
    if (!clients->clients || !clients->body || !scratch || !fleet_chats_open(clients, arena))
        return false;
    arena_over(&clients->scratch, scratch, SCRATCH_BYTES);
    return true;
}

/* ---- requests ---- */

/* Makes the next turn of an earlier client's conversation: its prompt, its answer, and a little
 * more. Returns false if none fits. */
static bool fleet_clients_go_on(const struct fleet_clients *clients, struct fleet_client *client) {
    if (clients->count == 0 || fleet_clients_below(clients, 13, 3)) return false;
    const struct fleet_client *before =
        &clients->clients[fleet_clients_below(clients, 14, clients->count)];
    const struct fleet_prompt *asked = &before->prompts[0];
    const struct fleet_choice *answer = &before->choices[0];
    struct fleet_prompt *prompt = &client->prompts[0];
    uint32_t known = asked->count + answer->expected_count;
    uint32_t more = 1 + fleet_clients_below(clients, 15, 20);
    if (known + more > FLEET_PROMPT_MAX || before->chats) return false;
    memcpy(prompt->tokens, asked->tokens, asked->count * sizeof *prompt->tokens);
    memcpy(prompt->tokens + asked->count, answer->expected,
           answer->expected_count * sizeof *prompt->tokens);
    for (uint32_t i = 0; i < more; i++)
        prompt->tokens[known + i] = 2 + (clients->count * 17 + i) % 990;
    prompt->count = known + more;
    client->tenant = before->tenant;
    return true;
}

/* Prompts start with one of four common prefixes, for all tenants. */
static void make_prompt(const struct fleet_clients *clients, struct fleet_prompt *prompt,
                        uint32_t family, uint32_t alike, uint32_t count) {
    prompt->count = count;
    for (uint32_t i = 0; i < count; i++)
        prompt->tokens[i] = 2 + (i < alike ? family * 31 + i * 7 : clients->count * 17 + i) % 990;
}

/* Makes one or several prompts, short and long, some of them equal. */
static void make_prompts(const struct fleet_clients *clients, struct fleet_client *client) {
    client->prompt_count = fleet_clients_below(clients, 18, 5)
                               ? 1
                               : 2 + fleet_clients_below(clients, 19, FLEET_PROMPTS_MAX - 1);
    if (!fleet_clients_go_on(clients, client)) {
        client->tenant = 1 + fleet_clients_below(clients, 12, FLEET_TENANTS);
        if (clients->flooder && fleet_clients_below(clients, 61, 2))
            client->tenant = clients->flooder;
        make_prompt(clients, &client->prompts[0], fleet_clients_below(clients, 1, 4),
                    80 + fleet_clients_below(clients, 11, FLEET_PROMPT_MAX),
                    1 + fleet_clients_below(clients, 0, FLEET_PROMPT_MAX - 1));
    }
    for (uint32_t p = 1; p < client->prompt_count; p++) {
        uint32_t longest = fleet_clients_below(clients, 20 + 4 * p, 2) ? FLEET_PROMPT_MAX : 20;
        make_prompt(clients, &client->prompts[p], fleet_clients_below(clients, 21 + 4 * p, 2),
                    fleet_clients_below(clients, 22 + 4 * p, 2) * FLEET_PROMPT_MAX,
                    1 + fleet_clients_below(clients, 23 + 4 * p, longest));
    }
}

/* Writes the array of all prompts, or the token ids of the only one. */
static size_t write_prompts(const struct fleet_client *client, char *out, size_t room) {
    bool several = client->prompt_count > 1;
    size_t used = format_text(out, room, several ? "[" : "");
    for (uint32_t p = 0; p < client->prompt_count; p++) {
        const struct fleet_prompt *prompt = &client->prompts[p];
        for (uint32_t i = 0; i < prompt->count; i++)
            used += format_text(out + used, room - used,
                                i   ? ",%u"
                                : p ? ",[%u"
                                    : "[%u",
                                prompt->tokens[i]);
        used += format_text(out + used, room - used, "]");
    }
    return used + format_text(out + used, room - used, several ? "]" : "");
}

/* Decides whether the next client constrains its answers. Writes the field of the request with a
 * comma before it. Returns its size in bytes; 0 without a constraint. */
static size_t fleet_clients_bind(const struct fleet_clients *clients, struct fleet_client *client,
                                 char *out, size_t room) {
    client->constraint = fleet_clients_below(clients, 41, FLEET_CONSTRAINTS);
    client->bound = clients->constraints && clients->token_oracle->tokenizer &&
                    fleet_clients_below(clients, 40, 3) == 0;
    out[0] = 0;
    if (!client->bound) return 0;
    return format_text(out, room, ",\"%s\":%s", fleet_constraints_field(client->constraint),
                       fleet_constraints_value(client->constraint));
}

const char *const fleet_numerics[2] = {"simulated", "renewed"};

/* Computes the constrained answer of an undisturbed engine. If it ends by itself, it satisfies the
 * constraint. */
static uint32_t expect_bound(struct fleet_clients *clients, struct fleet_client *client,
                             const struct fleet_prompt *prompt, const struct sampling *sampling,
                             uint32_t *tokens_out) {
    struct constrained_answer *bound =
        fleet_constraints_follow(clients->constraints, client->constraint);
    uint32_t count = fleet_engine_answer(client->numerics, prompt->tokens, prompt->count, sampling,
                                         bound, client->answer_max, tokens_out);
    if (tokens_out[count - 1] == FLEET_STOP_TOKEN &&
        !fleet_constraints_fulfilled(client->constraint, tokens_out, count - 1, &clients->scratch))
        fleet_clients_breach(clients, client, "its answer is not what its constraint says");
    return count;
}

/* Computes the answer of an undisturbed engine, unless only the scores of the prompts are
 * requested. */
static void fleet_clients_expect(struct fleet_clients *clients, struct fleet_client *client) {
    struct sampling sampling = client->sampling;
    uint32_t answer_max = client->answer_max;
    uint32_t each = client->choice_count / client->prompt_count;
    for (uint32_t i = 0; i < client->choice_count; i++) {
        struct fleet_choice *choice = &client->choices[i];
        const struct fleet_prompt *prompt = &client->prompts[i / each];
        sampling.choice = i % each;
        if (answer_max && client->bound)
            choice->expected_count =
                expect_bound(clients, client, prompt, &sampling, choice->expected);
        else if (answer_max)
            choice->expected_count =
                fleet_engine_answer(client->numerics, prompt->tokens, prompt->count, &sampling,
                                    NULL, answer_max, choice->expected);
    }
    for (uint32_t p = 0; p < client->prompt_count; p++)
        fleet_engine_scores(client->numerics, client->prompts[p].tokens, client->prompts[p].count,
                            client->prompts[p].scores);
    if (client->chats) fleet_chats_expect(clients, client);
}

/* Writes the body of a completion request and computes the expected answer. */
static size_t make_completion(struct fleet_clients *clients, struct fleet_client *client) {
    make_prompts(clients, client);
    uint32_t answer_max = 1 + fleet_clients_below(clients, 2, FLEET_ANSWER_MAX - 1);
    struct sampling sampling = {.top_p = 1, .seed = fleet_clients_below(clients, 3, 1000000)};
    if (fleet_clients_below(clients, 4, 3) == 0) sampling.frequency_penalty = 0.5f;
    if (fleet_clients_below(clients, 5, 3) == 0)
        sampling.min_tokens = fleet_clients_below(clients, 6, answer_max + 1);
    bool logprobs = fleet_clients_below(clients, 7, 5) == 0;
    client->echo = logprobs && fleet_clients_below(clients, 16, 2);
    bool prompt_only =
        client->echo && !sampling.min_tokens && fleet_clients_below(clients, 17, 3) == 0;
    client->stream = fleet_clients_below(clients, 8, 2);
    uint32_t most = client->prompt_count > 1 ? FLEET_CHOICES_MAX - 1 : FLEET_CHOICES_MAX;
    uint32_t each =
        fleet_clients_below(clients, 9, 4) ? 1 : 1 + fleet_clients_below(clients, 10, most);
    client->choice_count = client->prompt_count * each;
    if (prompt_only) answer_max = 0;
    char *out = clients->body;
    size_t used = format_text(
        out, BODY_BYTES,
        "{\"max_tokens\":%u,\"seed\":%u,\"n\":%u,\"stream\":%s,\"frequency_penalty\":%s,"
        "\"min_tokens\":%u,\"return_token_ids\":true%s%s%s,\"prompt\":",
        answer_max, (unsigned)sampling.seed, each, client->stream ? "true" : "false",
        sampling.frequency_penalty != 0 ? "0.5" : "0", sampling.min_tokens,
        logprobs ? ",\"logprobs\":2" : "", client->echo ? ",\"echo\":true" : "",
        client->stream ? ",\"stream_options\":{\"include_usage\":true}" : "");
    used += write_prompts(client, out + used, BODY_BYTES - used);
    used += fleet_clients_bind(clients, client, out + used, BODY_BYTES - used);
    used += format_text(out + used, BODY_BYTES - used, "}");
    client->sampling = sampling;
    client->answer_max = answer_max;
    fleet_clients_expect(clients, client);
    return used;
}

static size_t make_chat(struct fleet_clients *clients, struct fleet_client *client) {
    char binds[600];
    (void)fleet_clients_bind(clients, client, binds, sizeof binds);
    size_t used = fleet_chats_ask(clients, client, binds, &client->sampling, &client->answer_max,
                                  clients->body, BODY_BYTES);
    fleet_clients_expect(clients, client);
    return used;
}

size_t fleet_clients_key(uint64_t tenant, char *out, size_t room) {
    return format_text(out, room, "key-%u", (unsigned)tenant);
}

/* Writes the header with the API key of the account, or nothing if no key is required. */
static size_t authorize(const struct fleet_clients *clients, uint64_t tenant, char *out,
                        size_t room) {
    if (!clients->has_keys) return 0;
    size_t used = format_text(out, room, "Bearer ");
    return used + fleet_clients_key(tenant, out + used, room - used);
}

const struct record *fleet_clients_ask(struct fleet_clients *clients, int64_t unix_time) {
    check(clients->count < FLEET_CLIENTS_MAX);
    struct fleet_client *client = &clients->clients[clients->count];
    client->number = clients->count;
    bool chats = clients->token_oracle->tokenizer && fleet_clients_below(clients, 50, 2);
    const char *path = chats ? "/v1/chat/completions" : "/v1/completions";
    size_t body_bytes = chats ? make_chat(clients, client) : make_completion(clients, client);
    uint32_t path_bytes = (uint32_t)strlen(path);
    char *text = arena_take(&clients->scratch, body_bytes), key[32];
    size_t key_bytes = authorize(clients, client->tenant, key, sizeof key);
    check(text);
    memcpy(text, clients->body, body_bytes);
    struct outbox box = {.memory = clients->body, .capacity = BODY_BYTES};
    struct record_client_request *record =
        machine_outbox_put(&box, RECORD_CLIENT_REQUEST,
                           &(struct record_client_request){
                               .connection = {clients->count++},
                               .random = {clients->seed, (uint64_t)client->number * 64},
                               .unix_time = unix_time,
                               .method = HTTP_POST,
                               .path_bytes = path_bytes,
                               .authorization_bytes = (uint32_t)key_bytes,
                               .body_bytes = (uint32_t)body_bytes,
                           });
    check(record);
    memcpy(client_request_path(record), path, path_bytes);
    memcpy(client_request_authorization(record), key, key_bytes);
    memcpy(client_request_body(record), text, body_bytes);
    arena_clear(&clients->scratch);
    return &record->record;
}

uint64_t fleet_clients_tenant(const struct fleet_clients *clients, uint64_t number) {
    check(number < clients->count);
    return clients->clients[number].tenant;
}

/* ---- answers ---- */

/* The prompt of an answer. */
static const struct fleet_prompt *prompt_of(const struct fleet_client *client,
                                            const struct fleet_choice *choice) {
    uint32_t each = client->choice_count / client->prompt_count;
    return &client->prompts[(uint32_t)(choice - client->choices) / each];
}

/* Checks the log probabilities. Those of the prompt come first. */
static void fleet_clients_take_scores(struct fleet_clients *clients, struct fleet_client *client,
                                      struct fleet_choice *choice, const struct tree *logprobs) {
    const struct fleet_prompt *prompt = prompt_of(client, choice);
    for (size_t i = 0; client->echo && i < tree_count(logprobs); i++) {
        double logprob = 1;
        bool known = tree_get_number(tree_at(logprobs, i), &logprob);
        if (choice->echoed == prompt->count) return;
        if (choice->count) fleet_clients_breach(clients, client, "its prompt comes too late");
        if (known != (choice->echoed > 0) ||
            (known && logprob != -(double)prompt->scores[choice->echoed]))
            fleet_clients_breach(clients, client, "its prompt is scored otherwise");
        choice->echoed++;
    }
}

static void fleet_clients_take_tokens(struct fleet_clients *clients, struct fleet_client *client,
                                      struct fleet_choice *choice, const struct tree *ids) {
    for (size_t i = 0; i < tree_count(ids); i++) {
        int64_t id = -1;
        if (choice->finished || choice->count == choice->expected_count) {
            fleet_clients_breach(clients, client, "tokens behind the end");
            return;
        }
        if (!tree_get_integer(tree_at(ids, i), &id) || id != choice->expected[choice->count]) {
            fleet_clients_breach(clients, client, "another token than undisturbed");
            return;
        }
        choice->count++;
    }
}

static void fleet_clients_take_finish(struct fleet_clients *clients, struct fleet_client *client,
                                      struct fleet_choice *choice, struct bytes reason) {
    uint32_t count = choice->expected_count;
    bool stops = count && choice->expected[count - 1] == FLEET_STOP_TOKEN;
    const char *expected = client->chats ? fleet_chats_finish(choice, stops)
                           : stops       ? "stop"
                                         : "length";
    if (choice->finished) fleet_clients_breach(clients, client, "ended twice");
    choice->finished = true;
    if (bytes_equal(reason, BYTES_LITERAL("insufficient_system_resource"))) {
        client->cut = true;
        if (!clients->scarce) fleet_clients_breach(clients, client, "given up");
        return;
    }
    if (!bytes_equal(reason, bytes_of(expected)))
        fleet_clients_breach(clients, client, "another finish reason than undisturbed");
    if (client->chats) fleet_chats_end(clients, client, choice);
    if (client->echo && choice->echoed != prompt_of(client, choice)->count)
        fleet_clients_breach(clients, client, "some of its prompt is missing");
    if (choice->count != count) fleet_clients_breach(clients, client, "ended too early");
}

static void take_choices(struct fleet_clients *clients, struct fleet_client *client,
                         const struct tree *root) {
    const struct tree *choices = tree_member(root, "choices");
    for (size_t i = 0; i < tree_count(choices); i++) {
        const struct tree *from = tree_at(choices, i);
        int64_t index = -1;
        struct bytes reason;
        if (!tree_get_integer(tree_member(from, "index"), &index) || index < 0 ||
            index >= client->choice_count) {
            fleet_clients_breach(clients, client, "a choice that was not asked for");
            return;
        }
        struct fleet_choice *choice = &client->choices[index];
        fleet_clients_take_scores(clients, client, choice,
                                  tree_member(tree_member(from, "logprobs"), "token_logprobs"));
        fleet_clients_take_tokens(clients, client, choice, tree_member(from, "token_ids"));
        if (client->chats)
            fleet_chats_take(clients, client, choice,
                             tree_member(from, client->stream ? "delta" : "message"));
        if (tree_get_string(tree_member(from, "finish_reason"), &reason))
            fleet_clients_take_finish(clients, client, choice, reason);
    }
}

static int64_t fleet_clients_number_in(const struct tree *object, const char *name) {
    int64_t number = -1;
    tree_get_integer(tree_member(object, name), &number);
    return number;
}

/* Checks the usage of a complete answer. */
static void take_usage(struct fleet_clients *clients, struct fleet_client *client,
                       const struct tree *usage) {
    int64_t prompt = fleet_clients_number_in(usage, "prompt_tokens"), reported = 0, asked = 0;
    int64_t hits = fleet_clients_number_in(usage, "prompt_cache_hit_tokens");
    if (prompt < 0) return; /* null */
    client->reported_usage = true;
    client->reported_prompt = prompt;
    client->reported_hits = hits;
    client->reported_output = fleet_clients_number_in(usage, "completion_tokens");
    for (uint32_t i = 0; i < client->choice_count; i++)
        reported += client->choices[i].count;
    for (uint32_t p = 0; p < client->prompt_count; p++)
        asked += client->prompts[p].count;
    if (prompt != asked || hits < 0 || hits > prompt ||
        hits + fleet_clients_number_in(usage, "prompt_cache_miss_tokens") != prompt)
        fleet_clients_breach(clients, client, "its account of the prompt is wrong");
    if (!client->cut && fleet_clients_number_in(usage, "completion_tokens") != reported)
        fleet_clients_breach(clients, client, "its account of the answer is wrong");
}

static bool was_reported(const struct fleet_client *client) {
    for (uint32_t i = 0; i < client->choice_count; i++)
        if (client->choices[i].count || client->choices[i].echoed) return true;
    return false;
}

/* Checks the name of the numerics that computed the answer. It must be the same in all events. */
static void take_fingerprint(struct fleet_clients *clients, struct fleet_client *client,
                             struct bytes text) {
    bool renewed = bytes_contain(text, BYTES_LITERAL("\"fathom-0-renewed\""));
    bool simulated = bytes_contain(text, BYTES_LITERAL("\"fathom-0-simulated\""));
    if (renewed && !client->numerics) {
        if (was_reported(client)) fleet_clients_breach(clients, client, "its numerics change");
        client->numerics = 1;
        fleet_clients_expect(clients, client);
    }
    if (simulated && client->numerics)
        fleet_clients_breach(clients, client, "its numerics change back");
}

static void take_json(struct fleet_clients *clients, struct fleet_client *client,
                      struct bytes text) {
    take_fingerprint(clients, client, text);
    const struct tree *root;
    struct error error;
    struct bytes code;
    arena_clear(&clients->scratch);
    if (tree_parse(&clients->scratch, text, "answer", &root, &error)) {
        fleet_clients_breach(clients, client, error.text);
        return;
    }
    if (tree_get_string(tree_member(tree_member(root, "error"), "code"), &code)) {
        client->refused = true;
        format_text(client->code, sizeof client->code, "%.*s", (int)code.count, code.data);
        if (bytes_equal(code, BYTES_LITERAL("engine_failed")) && !clients->scarce)
            fleet_clients_breach(clients, client, "given up before its first token");
    }
    take_choices(clients, client, root);
    if (!client->refused && tree_member(root, "usage"))
        take_usage(clients, client, tree_member(root, "usage"));
}

/* Checks complete events. Comments and [DONE] are not JSON. */
static void take_events(struct fleet_clients *clients, struct fleet_client *client,
                        struct bytes text) {
    static const char head[] = "data: ";
    size_t at = 0;
    while (at < text.count) {
        const char *line = text.data + at, *end = memchr(line, '\n', text.count - at);
        size_t count = end ? (size_t)(end - line) : text.count - at;
        at += count + 1;
        if (count < sizeof head || memcmp(line, head, sizeof head - 1) != 0) continue;
        struct bytes json = {line + sizeof head - 1, count - (sizeof head - 1)};
        if (!bytes_equal(json, BYTES_LITERAL("[DONE]"))) take_json(clients, client, json);
    }
}

/* Takes part of a response. Blank lines precede a whole answer while it is pending. */
static void take_data(struct fleet_clients *clients, struct fleet_client *client,
                      struct bytes text) {
    if (client->stream)
        take_events(clients, client, text);
    else if (!bytes_equal(text, BYTES_LITERAL("\n")))
        take_json(clients, client, text);
}

static void fleet_clients_take_end(struct fleet_clients *clients, struct fleet_client *client) {
    client->ended = true;
    for (uint32_t i = 0; i < client->choice_count && !client->refused; i++)
        if (!client->choices[i].finished)
            fleet_clients_breach(clients, client, "its answer has no end");
}

void fleet_clients_receive(struct fleet_clients *clients, const struct record *record) {
    /* all records of a stream begin in the same way */
    const struct record_stream_begin *head = (const void *)record;
    check(head->connection.value < clients->count);
    struct fleet_client *client = &clients->clients[head->connection.value];
    if (client->gone) fleet_clients_breach(clients, client, "spoken to after it has gone");
    if (client->ended) fleet_clients_breach(clients, client, "spoken to after the end");
    if (record->kind == RECORD_RESPOND) {
        const struct record_respond *respond = (const void *)record;
        struct bytes body = {respond_body(respond), respond->body_bytes};
        if (client->begun) fleet_clients_breach(clients, client, "answered behind a stream");
        client->http_status = respond->http_status;
        take_json(clients, client, body);
        fleet_clients_take_end(clients, client);
    } else if (record->kind == RECORD_STREAM_BEGIN) {
        if (client->begun) fleet_clients_breach(clients, client, "begun twice");
        client->begun = true;
        client->http_status = 200;
    } else if (record->kind == RECORD_STREAM_DATA) {
        const struct record_stream_data *data = (const void *)record;
        if (!client->begun) fleet_clients_breach(clients, client, "data before the beginning");
        take_data(clients, client, (struct bytes){stream_data(data), data->data_bytes});
    } else {
        fleet_clients_take_end(clients, client);
    }
}

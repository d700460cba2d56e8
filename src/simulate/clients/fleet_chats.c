/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/clients/fleet_chats.h"

#include "base/check.h"
#include "base/format.h"
#include "simulate/engine/fleet_token_oracle.h"

enum { SPEECHES_MAX = FLEET_CLIENTS_MAX * FLEET_CHOICES_MAX };

bool fleet_chats_open(struct fleet_clients *clients, struct arena *arena) {
    clients->speeches = arena_take(arena, SPEECHES_MAX * sizeof *clients->speeches);
    return clients->speeches != NULL;
}

/* ---- requests ---- */

enum { FIRST_DRAW = 60 }; /* earlier draws are used by completions */

static uint32_t fleet_chats_below(const struct fleet_clients *clients, uint32_t draw,
                                  uint32_t bound) {
    return fleet_clients_below(clients, FIRST_DRAW + draw, bound);
}

/* Contents of chats; each starts with one of four common prefixes. */
static void make_content(const struct fleet_clients *clients, char *out, uint32_t count) {
    uint32_t family = fleet_chats_below(clients, 0, 4),
             alike = 80 + fleet_chats_below(clients, 1, FLEET_PROMPT_MAX);
    for (uint32_t i = 0; i < count; i++)
        out[i] = (char)('a' + (i < alike ? family * 5 + i * 7 : clients->count * 17 + i) % 26);
    out[count] = 0;
}

size_t fleet_chats_ask(struct fleet_clients *clients, struct fleet_client *client,
                       const char *binds, struct sampling *sampling, uint32_t *answer_max,
                       char *out, size_t room) {
    char content[FLEET_PROMPT_MAX];
    make_content(clients, content,
                 1 + fleet_chats_below(clients, 2, FLEET_PROMPT_MAX - FLEET_TOKEN_ORACLE_FRAME));
    bool gives_tools = fleet_chats_below(clients, 3, 7) > 0 && !client->bound;
    bool forbids = fleet_chats_below(clients, 4, 12) == 0;
    *answer_max = 1 + fleet_chats_below(clients, 5, FLEET_ANSWER_MAX - 1);
    *sampling = (struct sampling){.top_p = 1,
                                  .seed = FLEET_SPEAKS + fleet_chats_below(clients, 6, 1000000)};
    if (fleet_chats_below(clients, 7, 3) == 0) sampling->frequency_penalty = 0.5f;
    if (fleet_chats_below(clients, 8, 3) == 0)
        sampling->min_tokens = fleet_chats_below(clients, 9, *answer_max + 1);
    client->chats = true;
    client->with_tools = gives_tools && !forbids;
    client->one_call = gives_tools && fleet_chats_below(clients, 10, 5) == 0;
    client->reports_ids = fleet_chats_below(clients, 11, 3) == 0;
    client->stream = fleet_chats_below(clients, 12, 3) > 0;
    client->tenant = 1 + fleet_chats_below(clients, 13, 2);
    client->prompt_count = 1;
    client->choice_count = fleet_chats_below(clients, 14, 4)
                               ? 1
                               : 1 + fleet_chats_below(clients, 15, FLEET_CHOICES_MAX);
    client->prompts[0].count =
        fleet_token_oracle_prompt(content, client->with_tools, client->prompts[0].tokens);
    return format_text(
        out, room,
        "{\"max_tokens\":%u,\"seed\":%u,\"n\":%u,\"stream\":%s,\"frequency_penalty\":%s,"
        "\"min_tokens\":%u%s%s%s%s%s%s%s,\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}",
        *answer_max, (unsigned)sampling->seed, client->choice_count,
        client->stream ? "true" : "false", sampling->frequency_penalty != 0 ? "0.5" : "0",
        sampling->min_tokens, client->reports_ids ? ",\"return_token_ids\":true" : "",
        client->stream ? ",\"stream_options\":{\"include_usage\":true}" : "",
        gives_tools ? ",\"tools\":" : "", gives_tools ? fleet_token_oracle_tools : "",
        gives_tools && forbids ? ",\"tool_choice\":\"none\"" : "",
        client->one_call ? ",\"parallel_tool_calls\":false" : "", binds, content);
}

void fleet_chats_expect(struct fleet_clients *clients, struct fleet_client *client) {
    for (uint32_t i = 0; i < client->choice_count; i++) {
        struct fleet_choice *choice = &client->choices[i];
        if (!choice->speech) choice->speech = &clients->speeches[clients->speech_count++];
        check(clients->speech_count <= SPEECHES_MAX);
        struct fleet_speech *speech = choice->speech;
        speech->content_bytes = speech->calls_bytes = speech->call_count = 0;
        speech->one_call = client->one_call;
        speech->ended = false;
        choice->expected_count =
            fleet_token_oracle_listen(clients->token_oracle, client->with_tools, choice->expected,
                                      choice->expected_count, speech);
    }
}

/* ---- answers ---- */

/* A gateway that gives up an answer sends the text that it has held back, though it might have
 * become part of a call. Such text is recorded here and checked at the end of the answer. */
static void stray(struct fleet_clients *clients, struct fleet_client *client,
                  struct fleet_choice *choice, const char *what) {
    if (!clients->scarce) fleet_clients_breach(clients, client, what);
    choice->strays = what;
}

/* True if the text is the next part of the expected text. */
static bool comes_next(const char *expected, uint32_t count, uint32_t *reported,
                       struct bytes text) {
    if (text.count > count - *reported || memcmp(expected + *reported, text.data, text.count) != 0)
        return false;
    *reported += (uint32_t)text.count;
    return true;
}

static bool call_goes_on(struct fleet_choice *choice, struct bytes text) {
    const struct fleet_speech *speech = choice->speech;
    return comes_next(speech->calls, speech->calls_bytes, &choice->calls_reported, text);
}

/* Accepts the id that the model wrote. If it wrote none, accepts any id that differs from that of
 * the previous call. */
static bool id_is_right(struct fleet_choice *choice, struct bytes id) {
    if (call_goes_on(choice, BYTES_LITERAL("\2"))) {
        bool new = !bytes_equal(id, bytes_of(choice->last_id));
        format_text(choice->last_id, sizeof choice->last_id, "%.*s", (int)id.count, id.data);
        return new &&id.count > 0;
    }
    return call_goes_on(choice, id) && call_goes_on(choice, BYTES_LITERAL("\2"));
}

static void fleet_chats_begin_call(struct fleet_clients *clients, struct fleet_client *client,
                                   struct fleet_choice *choice, int64_t index, struct bytes id,
                                   struct bytes name) {
    if (index < choice->calls_begun)
        fleet_clients_breach(clients, client, "a call's name arrives again");
    else if (index > choice->calls_begun)
        fleet_clients_breach(clients, client, "a call is left out");
    choice->calls_begun++;
    if (choice->strays) return;
    if (!call_goes_on(choice, BYTES_LITERAL("\1")))
        stray(clients, client, choice, "a call begins too early");
    else if (!id_is_right(choice, id))
        stray(clients, client, choice, "a call has a wrong id");
    else if (!call_goes_on(choice, name) || !call_goes_on(choice, BYTES_LITERAL("\3")))
        stray(clients, client, choice, "a call has another name than undisturbed");
}

static void fleet_chats_take_call(struct fleet_clients *clients, struct fleet_client *client,
                                  struct fleet_choice *choice, const struct tree *call,
                                  int64_t index) {
    const struct tree *function = tree_member(call, "function");
    struct bytes id = {"", 0}, name = {"", 0}, arguments = {"", 0};
    bool has_id = tree_get_string(tree_member(call, "id"), &id);
    bool has_name = tree_get_string(tree_member(function, "name"), &name);
    (void)tree_get_string(tree_member(function, "arguments"), &arguments);
    if (client->stream && !tree_get_integer(tree_member(call, "index"), &index))
        fleet_clients_breach(clients, client, "a call without an index");
    if (has_id != has_name) fleet_clients_breach(clients, client, "a call without id or name");
    if (has_name) fleet_chats_begin_call(clients, client, choice, index, id, name);
    if (index + 1 != choice->calls_begun)
        fleet_clients_breach(clients, client, "arguments of another call");
    if (!choice->strays && !call_goes_on(choice, arguments))
        stray(clients, client, choice, "a call has other arguments than undisturbed");
}

void fleet_chats_take(struct fleet_clients *clients, struct fleet_client *client,
                      struct fleet_choice *choice, const struct tree *said) {
    const struct fleet_speech *speech = choice->speech;
    const struct tree *calls = tree_member(said, "tool_calls");
    struct bytes content = {"", 0}, reasoning;
    (void)tree_get_string(tree_member(said, "content"), &content);
    if (choice->finished && (content.count || tree_count(calls)))
        fleet_clients_breach(clients, client, "words behind the end");
    if (tree_get_string(tree_member(said, "reasoning_content"), &reasoning))
        fleet_clients_breach(clients, client, "unexpected reasoning text");
    if (!choice->strays &&
        !comes_next(speech->content, speech->content_bytes, &choice->content_reported, content))
        stray(clients, client, choice, "another content than undisturbed");
    for (size_t i = 0; i < tree_count(calls); i++)
        fleet_chats_take_call(clients, client, choice, tree_at(calls, i), (int64_t)i);
}

const char *fleet_chats_finish(const struct fleet_choice *choice, bool stops) {
    const struct fleet_speech *speech = choice->speech;
    if (speech->ended) return "tool_calls";
    if (!stops) return "length";
    return speech->call_count ? "tool_calls" : "stop";
}

void fleet_chats_end(struct fleet_clients *clients, struct fleet_client *client,
                     struct fleet_choice *choice) {
    const struct fleet_speech *speech = choice->speech;
    if (!client->reports_ids) choice->count = choice->expected_count;
    if (choice->strays) fleet_clients_breach(clients, client, choice->strays);
    if (choice->content_reported != speech->content_bytes)
        fleet_clients_breach(clients, client, "some of its content is missing");
    if (choice->calls_reported != speech->calls_bytes || choice->calls_begun != speech->call_count)
        fleet_clients_breach(clients, client, "some of its calls are missing");
}

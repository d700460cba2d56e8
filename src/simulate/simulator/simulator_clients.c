/* SPDX-License-Identifier: Apache-2.0
 * The clients of the simulator: the bodies of requests, their answers, and their times. The id of a
 * request contains the gateway, the client's index and the request's number, so all of them can be
 * derived from any record about it.
 *
 * Only a limited number of standing requests wait for their first token at once. The next one
 * arrives when an earlier one has got its first token.
 */
#include "base/check.h"
#include "base/format.h"
#include "base/number.h"
#include "base/tree.h"
#include "simulate/simulator/simulator_state.h"
#include "simulate/simulator/simulator_words.h"

#include <string.h>

#define PLACE_BITS 24        /* bits of a connection for the client's index */
#define STANDING_AT_ONCE 256 /* for each unit that decodes */
#define BODY_BYTES_MAX 256   /* without the token ids of the prompt */
#define TOKEN_TEXT 7         /* bytes of a token id and a comma */
#define PARSE_BYTES ((size_t)1 << 20)

/* ---- memory ---- */

/* Units measure their step costs while the fleet settles. A whole fleet should have the same steps
 * as a sample of it, so the number of standing requests that arrive at once is proportional to the
 * number of units. */
static uint32_t standing_max(const struct simulator_options *options) {
    uint32_t units = 0;
    for (uint32_t i = 0; i < options->kind_count; i++)
        if (options->kinds[i].role != UNIT_PREFILL) units += options->kinds[i].count;
    return STANDING_AT_ONCE * max_u32(1, units);
}

static uint32_t simulator_clients_max(const struct simulator_options *options) {
    return options->gateways * options->gateway_requests_max + 16;
}

static size_t client_message_bytes(const struct simulator_options *options) {
    return simulator_context_tokens(options) * (size_t)TOKEN_TEXT + 4096;
}

static size_t simulator_clients_scratch_bytes(const struct simulator_options *options) {
    return simulator_context_tokens(options) * sizeof(uint32_t) + PARSE_BYTES;
}

size_t simulator_clients_bytes(const struct simulator_options *options) {
    return simulator_clients_max(options) * (sizeof(struct simulator_client) + sizeof(uint32_t)) +
           client_message_bytes(options) + simulator_clients_scratch_bytes(options) + 64;
}

bool simulator_clients_open(struct simulator_world *world, struct arena *arena) {
    world->standing_max = standing_max(world->options);
    world->client_max = world->free_count = simulator_clients_max(world->options);
    world->scratch_bytes = simulator_clients_scratch_bytes(world->options);
    world->scratch = arena_take(arena, world->scratch_bytes);
    world->envelope = arena_take(arena, client_message_bytes(world->options));
    world->clients = arena_take_zeroed(arena, world->client_max * sizeof *world->clients);
    world->free_clients = arena_take(arena, world->client_max * sizeof *world->free_clients);
    if (!world->envelope || !world->scratch || !world->clients || !world->free_clients)
        return false;
    for (uint32_t i = 0; i < world->client_max; i++)
        world->free_clients[i] = world->client_max - 1 - i;
    return true;
}

/* ---- arrivals ---- */

static struct simulator_gateway *gateway_of(struct simulator_world *world, uint64_t number) {
    return &world->gateways[number % world->options->gateways];
}

static void expect_next(struct simulator_world *world) {
    struct simulator_gateway *gateway = gateway_of(world, world->asked + 1);
    bool standing = world->next.standing != 0;
    if (!world->has_next || (standing && world->standing_waits >= world->standing_max)) return;
    int64_t begin_ns = world->next.arrival_ns;
    if (gateway->busy_ns > begin_ns) begin_ns = gateway->busy_ns;
    if (!standing) gateway->busy_ns = begin_ns += world->request_ns;
    if (world->now_ns > begin_ns) begin_ns = world->now_ns;
    event_queue_add(&world->events,
                    (struct event){.due_ns = begin_ns, .kind = SIMULATOR_EVENT_ASK});
}

/* During a crowd, requests arrive `factor` times as fast for `lasts`. A crowd that begins during
 * another one starts after it. */
int64_t simulator_clients_arrival(const struct simulator_options *options, int64_t arrival_ns) {
    int64_t gained_ns = 0, free_ns = 0;
    for (uint32_t i = 0; i < options->fault_count; i++) {
        const struct simulator_fault *fault = &options->faults[i];
        if (fault->kind != SIMULATOR_FAULT_CROWD) continue;
        int64_t begin_ns = fault->at_ns > free_ns ? fault->at_ns : free_ns;
        int64_t within_ns = arrival_ns - gained_ns - begin_ns;
        int64_t passes_ns = (int64_t)((double)fault->lasts_ns * fault->factor);
        if (within_ns <= 0) break;
        if (within_ns < passes_ns) return begin_ns + (int64_t)((double)within_ns / fault->factor);
        gained_ns += passes_ns - fault->lasts_ns;
        free_ns = begin_ns + fault->lasts_ns;
    }
    return arrival_ns - gained_ns;
}

void simulator_clients_fetch(struct simulator_world *world) {
    const struct simulator_source *source = &world->options->source;
    world->has_next = source->next(source->self, &world->next);
    if (world->has_next && !world->next.standing)
        world->next.arrival_ns = simulator_clients_arrival(world->options, world->next.arrival_ns);
    expect_next(world);
}

static struct simulator_client *simulator_clients_claim(struct simulator_world *world) {
    const struct simulator_request *request = &world->next;
    check(world->free_count > 0);
    struct simulator_client *client = &world->clients[world->free_clients[--world->free_count]];
    *client = (struct simulator_client){
        .number = ++world->asked,
        .arrival_ns = request->arrival_ns,
        .prompt_tokens = request->prompt_tokens,
        .answer_tokens = request->answer_tokens,
        .stored_tokens = request->stored_tokens,
        .standing = request->standing != 0,
        .waits = request->standing != 0,
    };
    world->standing_waits += client->waits;
    if (world->counts && !client->standing) world->report->asked++;
    return client;
}

static size_t simulator_clients_write_prompt(struct simulator_world *world, uint64_t number,
                                             char *out, size_t room) {
    const struct simulator_request *request = &world->next;
    if (!world->options->through_api)
        return format_text(out, room, "\"#%llu\"", (unsigned long long)number);
    uint32_t *tokens = (uint32_t *)(void *)world->scratch;
    simulator_words_prompt(request, number, world->options->model->vocab, tokens);
    size_t used = format_text(out, room, "[");
    for (uint32_t i = 0; i < request->prompt_tokens; i++)
        used += format_text(out + used, room - used, i ? ",%u" : "%u", tokens[i]);
    return used + format_text(out + used, room - used, "]");
}

static const struct record *simulator_clients_make_request(struct simulator_world *world,
                                                           uint32_t gateway,
                                                           const struct simulator_client *client) {
    static const char path[] = "/v1/completions";
    uint64_t place = (uint64_t)(client - world->clients);
    struct record_client_request *record = (struct record_client_request *)(void *)world->envelope;
    *record = (struct record_client_request){
        .connection = {client->number << PLACE_BITS | place},
        .random = {(uint64_t)gateway << 32 | place, client->number},
        .unix_time = world->now_ns / 1000000000,
        .method = HTTP_POST,
        .path_bytes = sizeof path - 1,
        .body_bytes = BODY_BYTES_MAX + client->prompt_tokens * TOKEN_TEXT,
    };
    record_set_head(record, RECORD_CLIENT_REQUEST);
    char *body = client_request_body(record);
    size_t room = record->body_bytes;
    size_t used = format_text(
        body, room,
        "{\"max_tokens\":%u,\"seed\":%llu,\"stream\":%s,\"prompt\":", client->answer_tokens,
        (unsigned long long)client->number, world->options->through_api ? "true" : "false");
    used += simulator_clients_write_prompt(world, client->number, body + used, room - used);
    used += format_text(body + used, room - used, "}");
    record->body_bytes = (uint32_t)used;
    record_set_head(record, RECORD_CLIENT_REQUEST);
    memcpy(client_request_path(record), path, sizeof path - 1);
    memset(body + used, 0, (size_t)((char *)record + record->record.bytes - (body + used)));
    return &record->record;
}

const struct record *simulator_clients_ask(struct simulator_world *world,
                                           struct simulator_gateway **gateway_out) {
    struct simulator_client *client = simulator_clients_claim(world);
    *gateway_out = gateway_of(world, client->number);
    return simulator_clients_make_request(world, (*gateway_out)->index, client);
}

/* The text is "#" and the number of the request. Only the request that has just arrived can need
 * its prompt. */
const struct record *simulator_clients_tokenize(struct simulator_world *world,
                                                const struct record_tokenize *tokenize) {
    struct record_tokenized *record = (struct record_tokenized *)(void *)world->envelope;
    check(tokenize->request.low == world->asked);
    *record = (struct record_tokenized){.request = tokenize->request,
                                        .token_count = world->next.prompt_tokens};
    record_set_head(record, RECORD_TOKENIZED);
    uint32_t *tokens = tokenized_tokens(record);
    simulator_words_prompt(&world->next, world->asked, world->options->model->vocab, tokens);
    if (record->token_count % 2) tokens[record->token_count] = 0;
    return &record->record;
}

/* ---- tokens ---- */

static struct simulator_client *find(struct simulator_world *world, struct request_id id) {
    uint32_t place = (uint32_t)id.high;
    check(place < world->client_max);
    struct simulator_client *client = &world->clients[place];
    return client->number == id.low ? client : NULL;
}

uint32_t simulator_clients_stored(struct simulator_world *world, struct request_id id) {
    const struct simulator_client *client = find(world, id);
    return client ? client->stored_tokens : 0;
}

static void note_first(struct simulator_world *world, struct simulator_client *client) {
    client->first_ns = client->last_ns = world->now_ns + world->token_ns;
    if (!client->waits) return;
    client->waits = false;
    /* The next request is already scheduled, unless the limit held it back. */
    bool held_back = world->standing_waits-- == world->standing_max;
    if (held_back && world->has_next && world->next.standing) expect_next(world);
}

static void report_begun(struct simulator_world *world, const struct simulator_client *client) {
    struct simulator_ended so_far = {.arrival_ns = client->arrival_ns,
                                     .first_ns = client->first_ns,
                                     .prompt_tokens = client->prompt_tokens,
                                     .answer_tokens = 1,
                                     .hit_tokens = client->hit_tokens,
                                     .standing = client->standing};
    if (world->options->begun) world->options->begun(world->options->context, &so_far);
}

/* Counts the tokens of one step. */
static void note_more(struct simulator_world *world, struct simulator_client *client,
                      uint32_t count) {
    int64_t now_ns = world->now_ns + world->token_ns;
    double gap_s = (double)(now_ns - client->last_ns) * 1e-9;
    client->last_ns = now_ns;
    if (!world->counts || gap_s <= 0) return;
    world->report->user_speed_tokens += count * (count / gap_s);
    world->report->user_tokens += count;
}

/* Takes tokens of an answer. A request that continues on another unit may deliver tokens again. */
static void simulator_clients_take_tokens(struct simulator_world *world,
                                          struct simulator_client *client,
                                          const struct record_tokens *tokens) {
    uint32_t vocab = world->options->model->vocab, end;
    for (uint32_t i = 0; i < tokens->token_count; i++)
        if (tokens_chosen(tokens)[i] !=
            simulator_words_answer(client->number, tokens->first_output_position + i, vocab))
            simulator_breach(world, "a token is another request's, or of another place");
    end = tokens->first_output_position + tokens->token_count;
    if (tokens->first_output_position > client->reported_tokens)
        simulator_breach(world, "a token is missing in an answer");
    if (end > client->answer_tokens)
        simulator_breach(world, "an answer is longer than was asked for");
    if (end <= client->reported_tokens) return;
    uint32_t fresh = end - client->reported_tokens;
    if (client->reported_tokens == 0) {
        note_first(world, client);
        check(tokens->work_count); /* set by the first tokens */
        client->hit_tokens = tokens_work(tokens)->prompt_hit_tokens;
        report_begun(world, client);
        fresh--;
    }
    if (fresh) note_more(world, client, fresh);
    client->reported_tokens = end;
}

void simulator_clients_prefetch(const struct simulator_world *world, const struct record *record) {
    if (record->kind != RECORD_TOKENS && record->kind != RECORD_FINISHED) return;
    uint32_t place = (uint32_t)record_request(record).high;
    if (place >= world->client_max) return;
    const struct simulator_client *client = &world->clients[place];
    __builtin_prefetch(client, 1); /* most clients span two cache lines */
    __builtin_prefetch((const char *)(client + 1) - 1, 1);
}

void simulator_clients_notice(struct simulator_world *world, const struct record *record) {
    if (record->kind != RECORD_TOKENS && record->kind != RECORD_FINISHED) return;
    struct simulator_client *client = find(world, record_request(record));
    if (!client) return;
    if (record->kind == RECORD_TOKENS)
        simulator_clients_take_tokens(world, client, (const struct record_tokens *)record);
    else if (((const struct record_finished *)record)->reason == FINISH_REFUSED_QUEUE)
        client->queue_full = true;
}

/* ---- ends ---- */

static void count_answer(struct simulator_world *world, const struct simulator_client *client) {
    struct simulator_report *report = world->report;
    report->answered++;
    report->prompt_tokens += client->prompt_tokens;
    report->hit_tokens += client->hit_tokens;
    report->output_tokens += client->reported_tokens;
}

/* Checks a failed request. Engines of the simulator never fail, so an incomplete answer was refused
 * because the gateway, or the queue of a unit, was full when it arrived. */
static void verify_failure(struct simulator_world *world, const struct simulator_client *client,
                           uint32_t http_status) {
    const struct simulator_gateway *gateway = gateway_of(world, client->number);
    uint32_t held = gateway_request_count(gateway->gateway);
    bool full = held + 1 >= world->options->gateway_requests_max || client->queue_full;
    if (http_status == 200)
        simulator_breach(world, "an answer ended before its end");
    else if (http_status != 429)
        simulator_breach(world, "a request was refused for no reason of the fleet's");
    else if (!full)
        simulator_breach(world, "a request was refused, and nothing was full");
}

static void end(struct simulator_world *world, struct simulator_client *client,
                uint32_t http_status) {
    bool whole = client->reported_tokens == client->answer_tokens && http_status == 200;
    int64_t end_ns = world->now_ns + world->token_ns;
    struct simulator_ended ended = {.number = client->number,
                                    .arrival_ns = client->arrival_ns,
                                    .first_ns = client->first_ns,
                                    .last_ns = client->last_ns,
                                    .end_ns = end_ns,
                                    .prompt_tokens = client->prompt_tokens,
                                    .answer_tokens = client->reported_tokens,
                                    .hit_tokens = client->hit_tokens,
                                    .standing = client->standing,
                                    .failed = !whole};
    if (!whole) verify_failure(world, client, http_status);
    if (client->waits) note_first(world, client); /* it will get no token */
    if (world->counts && !client->standing) {
        if (whole) count_answer(world, client);
        world->report->refused += !whole && client->reported_tokens == 0;
        world->report->failed += !whole && client->reported_tokens > 0;
    }
    if (world->options->ended) world->options->ended(world->options->context, &ended);
    world->rest_ns = end_ns;
    client->number = 0;
    world->free_clients[world->free_count++] = (uint32_t)(client - world->clients);
}

static int64_t simulator_clients_number_in(const struct tree *object, const char *name) {
    int64_t number = -1;
    tree_get_integer(tree_member(object, name), &number);
    return number;
}

/* Checks the usage that the gateway reports for a complete answer. */
static void verify_answer(struct simulator_world *world, struct simulator_client *client,
                          const struct record_respond *respond) {
    struct arena scratch;
    struct error error;
    const struct tree *root;
    arena_over(&scratch, world->scratch, world->scratch_bytes);
    struct bytes body = {respond_body(respond), respond->body_bytes};
    if (tree_parse(&scratch, body, "answer", &root, &error)) {
        simulator_breach(world, "an answer is no JSON");
        return;
    }
    const struct tree *usage = tree_member(root, "usage");
    if (!usage) return;
    int64_t hits = simulator_clients_number_in(usage, "prompt_cache_hit_tokens");
    if (simulator_clients_number_in(usage, "prompt_tokens") != client->prompt_tokens ||
        hits + simulator_clients_number_in(usage, "prompt_cache_miss_tokens") !=
            client->prompt_tokens)
        simulator_breach(world, "hits and misses are not the prompt");
    if (simulator_clients_number_in(usage, "completion_tokens") != client->reported_tokens)
        simulator_breach(world, "an answer's length is not that of its tokens");
    client->hit_tokens = hits > 0 ? (uint32_t)hits : 0;
}

void simulator_clients_receive(struct simulator_world *world, const struct record *record) {
    uint64_t name = ((const struct record_stream_end *)record)->connection.value;
    uint32_t place = (uint32_t)(name & ((1u << PLACE_BITS) - 1));
    check(place < world->client_max);
    struct simulator_client *client = &world->clients[place];
    if (client->number != name >> PLACE_BITS) {
        simulator_breach(world, "a request is answered twice");
        return;
    }
    if (record->kind == RECORD_RESPOND) {
        const struct record_respond *respond = (const struct record_respond *)record;
        if (respond->http_status == 200) verify_answer(world, client, respond);
        end(world, client, respond->http_status);
    } else if (record->kind == RECORD_STREAM_END) {
        end(world, client, 200);
    }
}

void simulator_clients_verify(struct simulator_world *world) {
    if (world->free_count != world->client_max)
        simulator_breach(world, "a request was never answered");
}

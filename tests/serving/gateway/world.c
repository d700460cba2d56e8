/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/format.h"
#include "base/random.h"
#include "contract/record_client.h"
#include "contract/step_plan.h"
#include "serving/gateway/endpoint.h"

enum { CLIENT_BITS = 0x1000 }; /* in a request's id, plus the client */

struct queued {
    struct queued *next;
    struct record *record;
};

/* ---- queues ---- */

static void enqueue(struct queued **queue, const void *record) {
    const struct record *source = record;
    struct queued *queued = malloc(sizeof *queued);
    queued->record = malloc(source->bytes);
    memcpy(queued->record, source, source->bytes);
    queued->next = NULL;
    while (*queue)
        queue = &(*queue)->next;
    *queue = queued;
}

static void dequeue(struct queued **queue) {
    struct queued *first = *queue;
    *queue = first->next;
    free(first->record);
    free(first);
}

static _Alignas(8) char make_memory[20 << 20];
static struct outbox made = {.memory = make_memory, .capacity = sizeof make_memory};

static void *make(enum record_kind kind, const void *fixed) {
    machine_outbox_clear(&made);
    void *record = machine_outbox_put(&made, kind, fixed);
    check(record);
    return record;
}

/* ---- opening ---- */

static struct arena take_arena(struct world *world, size_t bytes) {
    struct arena arena;
    void *memory = malloc(bytes);
    check(memory && world->memory_count < ARRAY_COUNT(world->memories));
    world->memories[world->memory_count++] = memory;
    arena_over(&arena, memory, bytes);
    return arena;
}

static struct bytes read_whole(struct world *world, const char *name) {
    char path[512];
    const char *source = getenv("FATHOM_SOURCE");
    format_text(path, sizeof path, "%s/models/tiny-r1/%s", source ? source : ".", name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot open %s; set FATHOM_SOURCE to the source tree", path);
    struct arena arena = take_arena(world, 1 << 18);
    char *text = arena_take(&arena, 200000);
    size_t count = fread(text, 1, 200000, file);
    fclose(file);
    return (struct bytes){text, count};
}

static void open_text(struct world *world) {
    struct bytes json = read_whole(world, "tokenizer.json");
    struct bytes config = read_whole(world, "tokenizer_config.json");
    struct arena arena = take_arena(world, tokenizer_arena_bytes(json.count) + (4 << 20));
    size_t scratch_bytes = tokenizer_open_scratch_bytes(json.count) + (32 << 20);
    struct arena scratch;
    void *scratch_memory = malloc(scratch_bytes);
    struct error error;
    arena_over(&scratch, scratch_memory, scratch_bytes);
    if (tokenizer_open(&arena, &scratch, json, "tokenizer.json", &world->tokenizer, &error))
        fail_msg("%s", error.text);
    arena_clear(&scratch);
    struct chat_files files = {.config = {config, "tokenizer_config.json"}};
    if (chat_template_open(&arena, &scratch, files, &world->chat_template, &error))
        fail_msg("%s", error.text);
    free(scratch_memory);
}

void world_use_template(struct world *world, const char *source) {
    struct arena arena = take_arena(world, 4 << 20), scratch = take_arena(world, 32 << 20);
    struct bytes config = read_whole(world, "tokenizer_config.json");
    struct chat_files files = {.config = {config, "config"}, .own = {bytes_of(source), "template"}};
    struct error error;
    if (chat_template_open(&arena, &scratch, files, &world->chat_template, &error))
        fail_msg("%s", error.text);
}

static struct gateway_options gateway_defaults(const struct world *world,
                                               struct gateway_options options) {
    options.tokenizer = world->tokenizer;
    options.chat_template = world->tokenizer ? &world->chat_template : NULL;
    if (!options.model_names) options.model_names = "tiny-r1";
    options.model_created = 1700000000;
    options.version = "0.1.0";
    options.sampling = (struct sampling){.temperature = 0.6f, .top_p = 0.95f};
    options.stop_tokens[0] = 1;
    options.stop_token_count = 1;
    if (!options.requests_max) options.requests_max = 16;
    if (!options.body_bytes_max) options.body_bytes_max = 1 << 16;
    options.settles |= getenv("FATHOM_SETTLES") != NULL;
    return options;
}

static struct unit_options unit_defaults(struct unit_options options) {
    static const uint8_t model_id[32] = {1};
    options.model_id = model_id;
    options.numerics_id = "test.v1";
    options.vocab_count = 4096;
    if (!options.requests_max) options.requests_max = 8;
    if (!options.page_count) options.page_count = 64;
    if (!options.context_tokens_max) options.context_tokens_max = 2048;
    if (!options.step_rows_max) options.step_rows_max = 4;
    if (!options.step_tokens_max) options.step_tokens_max = 512;
    return options;
}

struct world *world_open(const struct world_options *options) {
    struct world *world = calloc(1, sizeof *world);
    struct error error;
    if (!options->no_tokenizer) open_text(world);
    struct gateway_options gateway = gateway_defaults(world, options->gateway);
    struct arena arena = take_arena(world, gateway_memory_bytes(&gateway));
    if (gateway_create(&arena, &gateway, &world->gateway, &error)) fail_msg("%s", error.text);
    world->gateway_machine = gateway_machine(world->gateway);
    world->settles = gateway.settles;
    world->speaker = (struct unit_id){1};
    world_join(world, 1);
    if (options->no_unit) return world;
    struct unit_options unit = unit_defaults(options->unit);
    struct rank_units *units;
    arena = take_arena(world, rank_units_memory_bytes(&unit, 1));
    if (rank_units_create(&arena, &unit, 1, &units, &error)) fail_msg("%s", error.text);
    world->unit = rank_units_unit(units, 0);
    world->unit_machine = rank_units_machine(units);
    world_settle(world);
    return world;
}

/* The number behind the name, in the last usage that the client was told; -1: there is none. */
static int64_t usage_of(const struct client *client, const char *name) {
    const char *usage = NULL, *next = client->data;
    while (next && (next = strstr(next, "\"usage\":{")))
        usage = next++;
    const char *at = usage ? strstr(usage, name) : NULL;
    return at ? strtoll(at + strlen(name), NULL, 10) : -1;
}

/* Whoever got an answer, or left, has an entry that says the same. */
static void check_entries(const struct world *world) {
    if (world->to_gateway || gateway_request_count(world->gateway)) return;
    for (uint32_t i = 0; i < world->client_count; i++) {
        const struct client *client = &world->clients[i];
        const struct record_usage *usage = client->usage;
        int64_t output = usage_of(client, "\"completion_tokens\":");
        int64_t hits = usage_of(client, "\"prompt_cache_hit_tokens\":");
        assert_int_equal(usage != NULL, client->asks);
        if (!usage || !usage->is_charged || !client->ended || output < 0 || hits < 0) continue;
        if (usage->queue_ns < 0) continue; /* it waited in vain, and is not charged its prompt */
        assert_int_equal(usage->output_tokens, output);
        assert_int_equal(usage->hit_tokens, hits);
        assert_int_equal(usage->hit_tokens + usage->miss_tokens,
                         usage_of(client, "\"prompt_tokens\":"));
    }
}

void world_close(struct world *world) {
    check_entries(world);
    while (world->to_gateway)
        dequeue(&world->to_gateway);
    while (world->to_unit)
        dequeue(&world->to_unit);
    while (world->to_engine)
        dequeue(&world->to_engine);
    while (world->to_tokenize)
        dequeue(&world->to_tokenize);
    while (world->to_constrain)
        dequeue(&world->to_constrain);
    for (uint32_t i = 0; i < world->client_count; i++)
        free(world->clients[i].data), free(world->clients[i].receipt),
            free(world->clients[i].headers), free(world->clients[i].usage);
    if (world->tokenizer) tokenizer_close(world->tokenizer);
    while (world->memory_count)
        free(world->memories[--world->memory_count]);
    free(world->last_submit);
    free(world);
}

/* ---- clients ---- */

uint32_t world_request(struct world *world, enum http_method method, const char *path,
                       const char *body, size_t body_bytes) {
    size_t path_bytes = strlen(path);
    size_t key_bytes = world->authorization ? strlen(world->authorization) : 0;
    struct record_client_request *record =
        make(RECORD_CLIENT_REQUEST,
             &(struct record_client_request){.path_bytes = (uint32_t)path_bytes,
                                             .authorization_bytes = (uint32_t)key_bytes,
                                             .body_bytes = (uint32_t)body_bytes});
    uint32_t client = world->client_count++;
    check(client < WORLD_CLIENTS_MAX);
    world->clients[client].asked_at_ns = (uint64_t)world->now_ns;
    struct bytes rest;
    const struct endpoint *endpoint = endpoint_find(bytes_of(path), &rest);
    world->clients[client].asks =
        endpoint && endpoint->dialect && !(world->swapped && endpoint->listeners);
    record->connection.value = client;
    record->random[0] = CLIENT_BITS + client;
    record->random[1] = 77;
    record->unix_time = 1700000001;
    record->method = method;
    bool for_operators = !strncmp(path, "/metrics", 8) || !strncmp(path, "/debug", 6);
    record->listener = for_operators != world->swapped ? HTTP_ADMIN : HTTP_PUBLIC;
    record->wants_receipt = world->wants_receipts;
    record->body_left = world->body_left;
    record->speaks_anthropic = world->speaks_anthropic;
    memcpy(client_request_path(record), path, path_bytes);
    if (key_bytes) memcpy(client_request_authorization(record), world->authorization, key_bytes);
    if (body_bytes) memcpy(client_request_body(record), body, body_bytes);
    world_report_gateway(world, record);
    return client;
}

uint32_t world_get(struct world *world, const char *path) {
    return world_request(world, HTTP_GET, path, NULL, 0);
}

uint32_t world_post(struct world *world, const char *path, const char *body) {
    return world_request(world, HTTP_POST, path, body, strlen(body));
}

void world_hang_up(struct world *world, uint32_t client) {
    struct record_client_gone *record = make(RECORD_CLIENT_GONE, NULL);
    record->connection.value = client;
    world_report_gateway(world, record);
}

void world_drain(struct world *world) {
    world_report_gateway(world, make(RECORD_DRAIN, NULL));
}

static void receive(struct client *client, const char *data, size_t bytes) {
    client->data = realloc(client->data, client->count + bytes + 1);
    if (bytes) memcpy(client->data + client->count, data, bytes);
    client->count += bytes;
    client->data[client->count] = '\0';
}

static void take_headers(struct client *client, const char *text, uint32_t count) {
    static const char name[] = "X-Fathom-Receipt: ";
    client->headers = strndup(text, count);
    const char *at = strstr(client->headers, name);
    if (!at) return;
    at += sizeof name - 1;
    client->receipt = strndup(at, (size_t)(strchr(at, '\r') - at));
}

/* Whatever is said to a client must fit what was said before. */
static void say_to_client(struct world *world, const struct record *record) {
    struct connection_id connection;
    memcpy(&connection, (const char *)record + sizeof *record, sizeof connection);
    assert_true(connection.value < world->client_count);
    struct client *client = &world->clients[connection.value];
    assert_false(client->ended);
    assert_false(client->gone);
    const struct record_respond *respond = (const void *)record;
    const struct record_stream_begin *begin = (const void *)record;
    const struct record_stream_data *data = (const void *)record;
    bool ends = record->kind == RECORD_RESPOND || record->kind == RECORD_STREAM_END;
    if (ends && client->asks) assert_non_null(client->usage);
    if (ends && client->asks && world->settles && client->usage->is_charged)
        assert_true(client->usage->sequence <= world->committed);
    switch (record->kind) {
    case RECORD_RESPOND:
        assert_false(client->begun);
        client->ended = true;
        client->http_status = respond->http_status;
        client->content_type = respond->content_type;
        client->retry_after_seconds = respond->retry_after_seconds;
        client->allow = respond->allow;
        receive(client, respond_body(respond), respond->body_bytes);
        take_headers(client, respond_headers(respond), respond->header_bytes);
        break;
    case RECORD_STREAM_BEGIN:
        assert_false(client->begun);
        client->begun = true;
        client->http_status = 200;
        client->content_type = begin->content_type;
        take_headers(client, stream_headers(begin), begin->header_bytes);
        break;
    case RECORD_STREAM_DATA:
        assert_true(client->begun && data->data_bytes > 0);
        receive(client, stream_data(data), data->data_bytes);
        break;
    default:
        assert_true(client->begun);
        client->ended = true;
    }
}

/* ---- the host ---- */

/* What units say comes carried, whoever says it. */
static const struct record *carry(const struct world *world, const struct record *record) {
    static _Alignas(8) char memory[1 << 20];
    static struct outbox envelope = {.memory = memory, .capacity = sizeof memory};
    if (!record_goes(record->kind, WAY_UNIT_TO_GATEWAY)) return record;
    machine_outbox_clear(&envelope);
    void *inner = machine_outbox_put_envelope(&envelope, RECORD_FROM_UNIT, world->speaker,
                                              (enum record_kind)record->kind, record);
    memcpy(inner, record, record->bytes);
    return machine_outbox_next(&envelope, NULL);
}

void world_report_gateway(struct world *world, const void *record) {
    const struct record *envelope = carry(world, record);
    assert_true(record_valid(envelope, envelope->bytes));
    enqueue(&world->to_gateway, envelope);
}

static void link_unit(struct world *world, enum record_kind kind, uint32_t unit) {
    struct record_unit_link *link = make(kind, NULL);
    link->unit.value = unit;
    world_report_gateway(world, link);
}

void world_join(struct world *world, uint32_t unit) {
    link_unit(world, RECORD_UNIT_JOINED, unit);
}

void world_lose(struct world *world, uint32_t unit) {
    link_unit(world, RECORD_UNIT_LOST, unit);
}

void world_settle_entries(struct world *world, uint64_t sequence) {
    world->committed = sequence;
    world_report_gateway(world,
                         make(RECORD_COMMITTED, &(struct record_committed){.sequence = sequence}));
}

static void take_entry(struct world *world, const struct record_usage *usage) {
    uint64_t number = usage->request.high - CLIENT_BITS;
    assert_true(number < world->client_count);
    struct client *client = &world->clients[number];
    assert_false(client->ended);
    assert_null(client->usage);
    assert_int_equal(usage->sequence, ++world->entries);
    client->usage = malloc(usage->record.bytes);
    memcpy(client->usage, usage, usage->record.bytes);
    if (world->settles && !world->ledger_sleeps) world_settle_entries(world, usage->sequence);
}

static void carry_one(struct world *world, const struct record *record) {
    assert_true(record_valid(record, record->bytes));
    if (record->kind == RECORD_TO_UNIT) {
        world->last_unit = ((const struct record_envelope *)record)->unit;
        record = envelope_inner((const struct record_envelope *)record);
    }
    switch (record->kind) {
    case RECORD_SUBMIT:
        world->submits++;
        if (world->last_unit.value < 16) world->submits_to[world->last_unit.value]++;
        free(world->last_submit);
        world->last_submit = malloc(record->bytes);
        memcpy(world->last_submit, record, record->bytes);
        if (world->unit) enqueue(&world->to_unit, record);
        break;
    case RECORD_CONTINUE:
        world->continues++;
        world->last_continue = *(const struct record_continue *)record;
        world->last_continued = *continue_tokens((const struct record_continue *)record);
        break;
    case RECORD_CANCEL:
        world->cancels++;
        if (world->last_unit.value < 32) world->cancelled_at |= 1u << world->last_unit.value;
        if (world->unit) enqueue(&world->to_unit, record);
        break;
    case RECORD_DRAIN:
        world->drains++;
        world->last_drain = *(const struct record_drain *)record;
        if (world->unit) enqueue(&world->to_unit, record);
        break;
    case RECORD_ROLE:
        world->roles++;
        world->last_role = ((const struct record_role *)record)->role;
        if (world->unit) enqueue(&world->to_unit, record);
        break;
    case RECORD_USAGE:
        take_entry(world, (const struct record_usage *)record);
        break;
    case RECORD_UNIT_TOTALS:
        world->totals++;
        world->last_totals = *(const struct record_unit_totals *)record;
        break;
    case RECORD_TOKENIZE:
        enqueue(&world->to_tokenize, record);
        break;
    case RECORD_CONSTRAIN:
        assert_null(world->to_constrain); /* one at a time */
        enqueue(&world->to_constrain, record);
        break;
    case RECORD_RUN_STEP:
        assert_null(world->to_engine);
        enqueue(&world->to_engine, record);
        break;
    case RECORD_UNIT_HELLO:
    case RECORD_UNIT_LOAD:
    case RECORD_TOKENS:
    case RECORD_PROGRESS:
    case RECORD_SCORES:
    case RECORD_FINISHED:
        world_report_gateway(world, record);
        break;
    default:
        say_to_client(world, record);
    }
}

static void carry_from(struct world *world, struct outbox *outbox) {
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));)
        carry_one(world, record);
    machine_outbox_clear(outbox);
}

void world_carry(struct world *world) {
    carry_from(world, world->gateway_machine.outbox);
    if (world->unit) carry_from(world, world->unit_machine.outbox);
}

static bool deliver(struct world *world, struct machine *machine, struct queued **queue) {
    if (!*queue) return false;
    enum status status = machine->receive(machine->self, (*queue)->record, world->now_ns);
    if (status == STATUS_FULL) { /* only ever because something lies in the outbox */
        assert_true(machine->outbox->used > 0);
        world->fulls++;
        return true;
    }
    assert_int_equal(status, STATUS_OK);
    dequeue(queue);
    return true;
}

bool world_deliver_to_gateway(struct world *world) {
    struct record *first = world->to_gateway ? world->to_gateway->record : NULL;
    bool hangs_up = first && first->kind == RECORD_CLIENT_GONE;
    uint64_t who = hangs_up ? ((struct record_client_gone *)first)->connection.value : 0;
    bool moved = deliver(world, &world->gateway_machine, &world->to_gateway);
    bool taken = hangs_up && (!world->to_gateway || world->to_gateway->record != first);
    if (taken) {
        world_carry(world); /* what was said before it left still arrives, or is lost */
        world->clients[who].gone = true;
    }
    return moved;
}

bool world_deliver_to_unit(struct world *world) {
    return world->unit && deliver(world, &world->unit_machine, &world->to_unit);
}

uint32_t world_token(uint64_t seed, uint32_t position) {
    if (random_uniform(seed, 1, position) < 0.01) return 1; /* end of sentence */
    return (uint32_t)(random_uniform(seed, 0, position) * 4096);
}

static uint32_t logprobs_wanted(const struct step_row *row) {
    bool wanted = row->sample && (row->sampling.flags & SAMPLING_LOGPROBS);
    return wanted ? 1 + row->sampling.top_logprobs : 0;
}

static uint32_t scores_wanted(const struct step_row *row) {
    return row->scored_count * (1 + row->sampling.top_logprobs);
}

static void score_row(const struct step_plan *plan, const struct step_row *row,
                      struct step_result *result, struct step_result_row *out) {
    const uint32_t *tokens = step_plan_tokens(plan) + row->token_index;
    out->scored_count = row->scored_count;
    out->score_index = result->logprob_count;
    if (row->scored_count) out->logprobs_each = 1 + row->sampling.top_logprobs;
    for (uint32_t i = 0; i < row->scored_count; i++)
        for (uint32_t k = 0; k < out->logprobs_each; k++)
            step_result_logprobs(result)[result->logprob_count++] = (struct token_logprob){
                (step_scored_token(row, tokens, i) + k) % 4096, -0.5f * (float)(k + 1)};
}

/* Log probabilities are invented: the i-th entry is token + i, at -0.5 (i + 1). */
bool world_compute(struct world *world, bool failed) {
    if (!world->to_engine) return false;
    const struct step_plan *plan = (const void *)world->to_engine->record;
    uint32_t row_count = failed ? 0 : plan->row_count;
    uint32_t logprob_count = 0;
    for (uint32_t i = 0; i < row_count; i++)
        logprob_count +=
            scores_wanted(&step_plan_rows(plan)[i]) + logprobs_wanted(&step_plan_rows(plan)[i]);
    struct step_result *result =
        make(RECORD_STEP_DONE,
             &(struct step_result){.row_count = row_count, .logprob_count = logprob_count});
    result->step = plan->step;
    result->compute_ns = 1000;
    result->failed = failed;
    result->logprob_count = 0; /* counts up again as they are told */
    struct step_result_row *rows = step_result_rows(result);
    for (uint32_t i = 0; i < row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        rows[i].slot = row->slot;
        rows[i].token_count = row->sample;
        rows[i].tokens[0] = row->sample ? world_token(row->sampling.seed + row->sampling.choice,
                                                      row->output_position)
                                        : 0;
        score_row(plan, row, result, &rows[i]);
        if (row->sample) rows[i].logprobs_each = logprobs_wanted(row);
        rows[i].logprob_index = result->logprob_count;
        for (uint32_t k = 0; k < logprobs_wanted(row); k++)
            step_result_logprobs(result)[result->logprob_count++] =
                (struct token_logprob){(rows[i].tokens[0] + k) % 4096, -0.5f * (float)(k + 1)};
    }
    enqueue(&world->to_unit, result);
    dequeue(&world->to_engine);
    return true;
}

bool world_tokenize(struct world *world) {
    if (!world->to_tokenize) return false;
    const struct record_tokenize *asked = (const void *)world->to_tokenize->record;
    struct bytes text = {tokenize_text(asked), asked->text_bytes};
    size_t bytes = tokenizer_scratch_bytes(text.count), count = 0;
    void *memory = malloc(bytes);
    uint32_t *ids = malloc((text.count + 1) * sizeof *ids);
    struct arena arena;
    arena_over(&arena, memory, bytes);
    struct tokenizer_scratch *scratch = tokenizer_scratch_create(&arena, text.count);
    enum status status = tokenizer_encode_within(
        world->tokenizer, scratch, text,
        (struct plain_text){tokenize_plain(asked), asked->plain_count}, ids,
        asked->tokens_max < text.count ? asked->tokens_max : text.count, &count);
    assert_true(status == STATUS_OK || status == STATUS_FULL);
    uint32_t too_many = status ? (uint32_t)count : 0;
    if (status) count = 0;
    struct record_tokenized *done =
        make(RECORD_TOKENIZED, &(struct record_tokenized){.token_count = (uint32_t)count});
    done->request = asked->request;
    done->too_many = too_many;
    world->last_tokenized = asked->request;
    memcpy(tokenized_tokens(done), ids, count * sizeof *ids);
    world_report_gateway(world, done);
    free(memory);
    free(ids);
    dequeue(&world->to_tokenize);
    return true;
}

bool world_constrain(struct world *world) {
    if (!world->to_constrain) return false;
    const struct record_constrain *asked = (const void *)world->to_constrain->record;
    const char *fault = world->constraint_fault;
    uint32_t bytes = fault ? (uint32_t)strlen(fault) : 0;
    struct record_constrained *done =
        make(RECORD_CONSTRAINED, &(struct record_constrained){.message_bytes = bytes});
    done->request = asked->request;
    done->took_ns = world->constraint_ns;
    done->verdict = fault ? world->constraint_verdict : CONSTRAINT_HOLDS;
    if (fault) memcpy(constrained_message(done), fault, bytes);
    world->constraints++;
    format_text(world->last_constraint, sizeof world->last_constraint, "%.*s",
                (int)asked->text_bytes, constrain_text(asked));
    world_report_gateway(world, done);
    dequeue(&world->to_constrain);
    return true;
}

void world_step(struct world *world) {
    world->gateway_machine.step(world->gateway_machine.self, world->now_ns);
    if (world->unit) world->unit_machine.step(world->unit_machine.self, world->now_ns);
    gateway_audit(world->gateway);
    if (world->unit) unit_audit(world->unit);
}

void world_deliver_all(struct world *world) {
    for (world_carry(world); world->to_gateway; world_carry(world))
        world_deliver_to_gateway(world);
    world_step(world);
    world_carry(world);
}

void world_settle(struct world *world) {
    for (int turn = 0; turn < 1000000; turn++) {
        world_carry(world);
        bool moved = world_deliver_to_gateway(world);
        moved |= world_deliver_to_unit(world);
        if (!world->to_gateway && !world->to_unit) world_step(world);
        moved |= world_compute(world, false);
        moved |= world_tokenize(world);
        moved |= world_constrain(world);
        moved |= world->gateway_machine.outbox->used > 0 ||
                 (world->unit && world->unit_machine.outbox->used > 0);
        if (!moved) return;
    }
    fail_msg("the world does not come to rest");
}

uint32_t world_encode(const struct world *world, struct bytes text, struct plain_text plain,
                      uint32_t *ids_out, size_t room) {
    static char memory[8 << 20];
    struct arena arena;
    size_t count;
    arena_over(&arena, memory, sizeof memory);
    struct tokenizer_scratch *scratch = tokenizer_scratch_create(&arena, 4096);
    assert_int_equal(
        tokenizer_encode(world->tokenizer, scratch, text, plain, ids_out, room, &count), STATUS_OK);
    return (uint32_t)count;
}

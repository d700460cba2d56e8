/* SPDX-License-Identifier: Apache-2.0 */
#include "hands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/format.h"
#include "base/tree.h"

static _Alignas(8) char record_memory[1 << 16];
static struct outbox records = {.memory = record_memory, .capacity = sizeof record_memory};

void *make(enum record_kind kind, const void *fixed) {
    machine_outbox_clear(&records);
    return machine_outbox_put(&records, kind, fixed);
}

struct world *open_empty(struct gateway_options gateway) {
    return world_open(
        &(struct world_options){.no_unit = true, .no_tokenizer = true, .gateway = gateway});
}

void report(struct world *world, uint32_t unit, const void *record) {
    world->speaker.value = unit;
    world_report_gateway(world, record);
    world_settle(world);
}

static struct record_unit_hello *make_hello(uint32_t unit, const char *numerics) {
    struct record_unit_hello *hello =
        make(RECORD_UNIT_HELLO, &(struct record_unit_hello){.rank_count = 1});
    hello->vocab_count = VOCAB;
    hello->context_tokens_max = 2048;
    hello->page_count = 100;
    hello->page_tokens = KV_BLOCK_TOKENS;
    hello->requests_max = 40;
    hello->instance = unit;
    hello->rank_count = 1;
    *hello_ranks(hello) = (struct unit_rank){.pid = 100 + unit, .page_count = 100, 40};
    strcpy(hello->numerics_id, numerics);
    return hello;
}

void say_hello(struct world *world, uint32_t unit, const char *numerics) {
    report(world, unit, make_hello(unit, numerics));
}

void say_model(struct world *world, uint32_t unit, uint8_t model) {
    struct record_unit_hello *hello = make_hello(unit, "test.v1");
    hello->model_id[0] = (char)model;
    report(world, unit, hello);
}

void say_sizes(struct world *world, uint32_t unit, uint32_t vocab, uint32_t context) {
    struct record_unit_hello *hello = make_hello(unit, "test.v1");
    hello->vocab_count = vocab;
    hello->context_tokens_max = context;
    report(world, unit, hello);
}

void join(struct world *world, uint32_t unit) {
    world_join(world, unit);
    say_hello(world, unit, "test.v1");
}

void join_again(struct world *world, uint32_t unit, uint64_t instance) {
    struct record_unit_hello *hello = make_hello(unit, "test.v1");
    hello->instance = instance;
    world_join(world, unit);
    report(world, unit, hello);
}

void join_as(struct world *world, uint32_t unit, enum unit_role role) {
    join_with(world, unit, role, "test.v1");
}

void join_with(struct world *world, uint32_t unit, enum unit_role role, const char *numerics) {
    struct record_unit_hello *hello = make_hello(unit, numerics);
    hello->role = role;
    snprintf(hello_ranks(hello)->kv_address, KV_ADDRESS_BYTES, "unit:%u", unit);
    world_join(world, unit);
    report(world, unit, hello);
}

struct world *open_with(uint32_t units, struct gateway_options gateway) {
    struct world *world = open_empty(gateway);
    for (uint32_t unit = 1; unit <= units; unit++)
        join(world, unit);
    return world;
}

void lose(struct world *world, uint32_t unit) {
    world_lose(world, unit);
    world_settle(world);
}

uint32_t ask(struct world *world, const char *more) {
    char body[512];
    snprintf(body, sizeof body, "{\"prompt\":[5,6,7],\"max_tokens\":6%s}", more);
    uint32_t client = world_post(world, COMPLETIONS, body);
    world_settle(world);
    return client;
}

void report_tokens(struct world *world, uint32_t unit, struct request_id id, uint32_t first,
                   const uint32_t *tokens, uint32_t count) {
    struct record_tokens *record =
        make(RECORD_TOKENS, &(struct record_tokens){.token_count = count, .work_count = 1});
    record->request = id;
    record->first_output_position = first;
    record->token_count = count;
    tokens_work(record)->prompt_miss_tokens = 3;
    memcpy(tokens_chosen(record), tokens, count * sizeof *tokens);
    report(world, unit, record);
}

void report_reserved(struct world *world, uint32_t unit, struct request_id id) {
    struct record_reserved *record = make(RECORD_RESERVED, NULL);
    record->request = id;
    report(world, unit, record);
}

void *make_finished(struct request_id id, enum finish_reason reason, uint32_t count) {
    struct record_finished *record = make(RECORD_FINISHED, NULL);
    record->request = id;
    record->reason = reason;
    record->output_tokens = count;
    record->work.prompt_miss_tokens = 3;
    return record;
}

void report_finished(struct world *world, uint32_t unit, struct request_id id,
                     enum finish_reason reason, uint32_t count) {
    report(world, unit, make_finished(id, reason, count));
}

void report_load(struct world *world, uint32_t unit, uint32_t waiting, uint32_t running) {
    struct record_unit_load *load =
        make(RECORD_UNIT_LOAD, &(struct record_unit_load){.rank_count = 1});
    load->rank_count = 1;
    load->requests_waiting = load_ranks(load)->requests_waiting = waiting;
    load->requests_running = load_ranks(load)->requests_running = running;
    load_ranks(load)->requests_parked = 2 * running;
    load->pages_held = load_ranks(load)->pages_held = 3 * running;
    load->pages_free = load_ranks(load)->pages_free = 100 - 3 * running;
    load->totals.transfers_arrived = 10 * unit;
    load->totals.transfers_failed = unit;
    load->kv_storage = load_ranks(load)->kv_storage = KV_STORAGE_ON;
    load->totals.loads_in_step = 100 * unit;
    load->totals.loads_in_step_lost = 7 * unit;
    report(world, unit, load);
}

static struct arena tree_arena;

static const struct tree *parse(struct bytes text) {
    const struct tree *root = NULL;
    struct error error;
    if (tree_parse(&tree_arena, text, "answer", &root, &error))
        fail_msg("%s in %.*s", error.text, (int)text.count, text.data);
    return root;
}

static void parse_anew(const struct world *world, uint32_t client) {
    static char memory[8 << 20];
    arena_over(&tree_arena, memory, sizeof memory);
    assert_true(world->clients[client].ended);
}

const struct tree *read_body(const struct world *world, uint32_t client) {
    parse_anew(world, client);
    return parse((struct bytes){world->clients[client].data, world->clients[client].count});
}

const struct tree *events[EVENTS_MAX];
uint32_t keep_alives;

uint32_t read_events(const struct world *world, uint32_t client) {
    const char *text = world->clients[client].data;
    uint32_t count = 0;
    parse_anew(world, client);
    keep_alives = 0;
    for (;;) {
        const char *end = strstr(text, "\n\n");
        assert_non_null(end);
        struct bytes event = {text, (size_t)(end - text)};
        text = end + 2;
        if (bytes_start_with(event, BYTES_LITERAL(": "))) {
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

const struct tree *tree_path(const struct tree *value, const char *path) {
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

void assert_text_at(const struct tree *root, const char *path, const char *expected) {
    struct bytes text = {0};
    if (!tree_path(root, path) || !tree_get_string(tree_path(root, path), &text))
        fail_msg("no text at %s", path);
    if (!bytes_equal(text, bytes_of(expected)))
        fail_msg("%s: '%.*s', expected '%s'", path, (int)text.count, text.data, expected);
}

void assert_number_at(const struct tree *root, const char *path, int64_t expected) {
    int64_t number = -1;
    if (!tree_path(root, path) || !tree_get_integer(tree_path(root, path), &number))
        fail_msg("none: %s", path);
    if (number != expected) fail_msg("%s: %lld", path, (long long)number);
}

void assert_fraction_at(const struct tree *root, const char *path, double expected) {
    double number;
    if (!tree_path(root, path) || !tree_get_number(tree_path(root, path), &number))
        fail_msg("none: %s", path);
    if (number != expected) fail_msg("%s: %g", path, number);
}

void assert_null_at(const struct tree *root, const char *path) {
    if (!tree_path(root, path) || !tree_is_null(tree_path(root, path)))
        fail_msg("%s is not null", path);
}

void expect(const struct world *world, uint32_t client, uint32_t status, const char *part) {
    const struct client *got = &world->clients[client];
    if (!got->ended || got->http_status != status || !strstr(got->data, part))
        fail_msg("%u %s, expected %u %s", got->http_status, got->data, status, part);
}

void assert_ids(struct world *world, uint32_t client, const uint32_t *tokens, size_t count) {
    assert_true(world->clients[client].ended);
    assert_int_equal(world->clients[client].http_status, 200);
    const struct tree *root = read_body(world, client);
    const struct tree *reported =
        tree_member(tree_at(tree_member(root, "choices"), 0), "token_ids");
    assert_int_equal(tree_count(reported), count);
    for (size_t i = 0; i < count; i++) {
        int64_t id = -1;
        assert_true(tree_get_integer(tree_at(reported, i), &id));
        assert_int_equal(id, tokens[i]);
    }
}

void assert_refused(const struct world *world, uint32_t client, uint32_t status, const char *code) {
    const struct tree *root = read_body(world, client);
    expect(world, client, status, "");
    assert_text_at(root, "error.code", code);
    assert_true(tree_path(root, "error.message") && tree_path(root, "error.type") &&
                tree_path(root, "error.param"));
    assert_int_equal(world->clients[client].retry_after_seconds > 0,
                     status == 429 || status == 503);
}

void close_empty(struct world *world) {
    assert_int_equal(gateway_request_count(world->gateway), 0);
    gateway_audit(world->gateway);
    world_close(world);
}

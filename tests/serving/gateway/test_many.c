/* SPDX-License-Identifier: Apache-2.0
 * A fleet's requests at one gateway: 100,000 are held at the same time, a unit with a third of them
 * is lost, and all of them end with their whole answers. Protects the ceiling, the memory that a
 * request takes, and the order of those that come back.
 */
#include <sys/mman.h>

#include "base/check.h"
#include "base/checksum.h"
#include "serving/gateway/gateway.h"
#include "serving/gateway/gateway_state.h"
#include "test_case.h"

#define BODY "{\"prompt\":[5,6,7],\"max_tokens\":2}"
#define PATH "/v1/completions"
#define SECOND ((int64_t)1000000000)

enum { REQUESTS = 100000, UNITS = 3, RANKS = 144, PAGES = 1 << 20, REQUESTS_OF_RANK = 1024 };

static struct held {
    struct request_id id;
    uint32_t unit;
    uint32_t submits;
    bool answered;
} all[REQUESTS];

static _Alignas(8) char said_memory[1 << 16];
static struct outbox said = {.memory = said_memory, .capacity = sizeof said_memory};
static struct gateway *gateway;
static struct machine machine;
static uint32_t bound[UNITS + 1], answered, last_resumed;
static bool in_order;

static void note_submit(const struct record_envelope *envelope) {
    const struct record_submit *submit = (const struct record_submit *)envelope_inner(envelope);
    if (submit->record.kind != RECORD_SUBMIT) return;
    uint32_t number = (uint32_t)submit->request.high - 1;
    assert_true(number < REQUESTS);
    if (submit->request.attempt) {
        in_order &= number >= last_resumed;
        last_resumed = number;
    }
    all[number] =
        (struct held){submit->request, envelope->unit.value, all[number].submits + 1, false};
    bound[envelope->unit.value]++;
}

static void drain(void) {
    for (const struct record *r = machine_outbox_next(machine.outbox, NULL); r;
         r = machine_outbox_next(machine.outbox, r)) {
        if (r->kind == RECORD_TO_UNIT) note_submit((const struct record_envelope *)r);
        if (r->kind != RECORD_RESPOND) continue;
        const struct record_respond *respond = (const struct record_respond *)r;
        assert_int_equal(respond->http_status, 200);
        assert_false(all[respond->connection.value - 1].answered);
        all[respond->connection.value - 1].answered = true;
        answered++;
    }
    machine_outbox_clear(machine.outbox);
}

/* As a host does that knows the records to come. */
static void give(const struct record *record) {
    gateway_prefetch(gateway, &record, 1, 0);
    while (!machine_pass(&machine, record, SECOND))
        drain();
}

static void step(void) {
    machine.step(machine.self, SECOND);
    drain();
}

static void give_said(void) {
    give(machine_outbox_next(&said, NULL));
    machine_outbox_clear(&said);
}

static void *say(uint32_t unit, enum record_kind kind, const void *fixed) {
    void *inner =
        machine_outbox_put_envelope(&said, RECORD_FROM_UNIT, (struct unit_id){unit}, kind, fixed);
    assert_non_null(inner);
    return inner;
}

static void link_unit(uint32_t unit, enum record_kind kind) {
    struct record_unit_link link = {.record = record_head(kind, sizeof link), .unit = {unit}};
    give(&link.record);
}

static void join(uint32_t unit) {
    link_unit(unit, RECORD_UNIT_JOINED);
    struct record_unit_hello *hello = say(unit, RECORD_UNIT_HELLO,
                                          &(struct record_unit_hello){
                                              .vocab_count = 4096,
                                              .context_tokens_max = 2048,
                                              .page_count = RANKS * PAGES,
                                              .page_tokens = KV_BLOCK_TOKENS,
                                              .requests_max = RANKS * REQUESTS_OF_RANK,
                                              .rank_count = RANKS,
                                              .numerics_id = "test.v1",
                                          });
    for (uint32_t i = 0; i < RANKS; i++)
        hello_ranks(hello)[i] =
            (struct unit_rank){.page_count = PAGES, .requests_max = REQUESTS_OF_RANK};
    give_said();
}

/* All that units have runs. */
static void say_loads(uint32_t units) {
    for (uint32_t unit = 1; unit <= units; unit++) {
        struct record_unit_load *load = say(unit, RECORD_UNIT_LOAD,
                                            &(struct record_unit_load){
                                                .rank_count = RANKS,
                                                .requests_running = bound[unit],
                                                .pages_free = RANKS * PAGES,
                                            });
        for (uint32_t i = 0; i < RANKS; i++)
            load_ranks(load)[i].pages_free = PAGES;
        load_ranks(load)->requests_running = bound[unit];
        give_said();
    }
    step();
}

static void ask(uint32_t number) {
    struct record_client_request *record = machine_outbox_put(&said, RECORD_CLIENT_REQUEST,
                                                              &(struct record_client_request){
                                                                  .connection = {number + 1},
                                                                  .random = {number + 1, 7},
                                                                  .method = HTTP_POST,
                                                                  .path_bytes = sizeof PATH - 1,
                                                                  .body_bytes = sizeof BODY - 1,
                                                              });
    assert_non_null(record);
    memcpy(client_request_path(record), PATH, sizeof PATH - 1);
    memcpy(client_request_body(record), BODY, sizeof BODY - 1);
    give_said();
}

static void say_tokens(uint32_t number, uint32_t first) {
    struct record_tokens *tokens = say(all[number].unit, RECORD_TOKENS,
                                       &(struct record_tokens){.request = all[number].id,
                                                               .first_output_position = first,
                                                               .token_count = 1,
                                                               .work_count = 1});
    tokens_work(tokens)->prompt_miss_tokens = 3;
    tokens_chosen(tokens)[0] = 10 + first;
    give_said();
}

static void say_finished(uint32_t number) {
    say(all[number].unit, RECORD_FINISHED,
        &(struct record_finished){.request = all[number].id,
                                  .reason = FINISH_LENGTH,
                                  .output_tokens = 2,
                                  .work = {.prompt_miss_tokens = 3}});
    give_said();
}

static uint64_t state_of_gateway(void) {
    return checksum_of(gateway, sizeof *gateway) ^
           checksum_of(gateway->requests.slots, REQUESTS * sizeof *gateway->requests.slots);
}

/* Neither records of requests that are there, nor of others, nor of nobody. */
static void assert_expecting_changes_nothing(void) {
    const struct record *records[GATEWAY_PREFETCH_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i + 2 < GATEWAY_PREFETCH_MAX; i++) {
        struct record_tokens *tokens =
            say(1, RECORD_TOKENS,
                &(struct record_tokens){.request = all[i * 999].id, .token_count = 1});
        if (i % 4 == 3) tokens->request.low++;
    }
    say(1, RECORD_FINISHED, &(struct record_finished){.request = all[5].id});
    say(1, RECORD_UNIT_LOAD, &(struct record_unit_load){.rank_count = 1});
    for (const struct record *r = NULL; (r = machine_outbox_next(&said, r));)
        records[count++] = r;
    assert_int_equal(count, GATEWAY_PREFETCH_MAX);
    uint64_t before = state_of_gateway();
    gateway_prefetch(gateway, records, count, 0);
    gateway_prefetch(gateway, records, 0, count);
    assert_true(state_of_gateway() == before);
    machine_outbox_clear(&said);
}

static void *open_gateway(size_t *bytes_out) {
    struct gateway_options options = {
        .model_names = "tiny", .version = "1", .prefix_blocks = 1 << 10, .requests_max = REQUESTS};
    struct arena arena;
    struct error error;
    size_t bytes = gateway_memory_bytes(&options) + 64;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(memory != MAP_FAILED);
    arena_over(&arena, memory, bytes);
    if (gateway_create(&arena, &options, &gateway, &error)) fail_msg("%s", error.text);
    machine = gateway_machine(gateway);
    *bytes_out = bytes;
    return memory;
}

static void settle(uint32_t units) {
    for (uint32_t before = UINT32_MAX; before != gateway->requests.waiting.count;) {
        before = gateway->requests.waiting.count;
        say_loads(units);
    }
    assert_int_equal(gateway->requests.waiting.count, 0);
}

TEST(a_fleets_requests_are_held_and_end) {
    size_t bytes;
    void *memory = open_gateway(&bytes);
    for (uint32_t unit = 1; unit <= UNITS; unit++)
        join(unit);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        ask(i);
        if (i % 256 == 255) say_loads(UNITS);
    }
    settle(UNITS);
    assert_int_equal(gateway_request_count(gateway), REQUESTS);
    for (uint32_t i = 0; i < REQUESTS; i++)
        say_tokens(i, 0);
    assert_expecting_changes_nothing();
    uint32_t lost = bound[UNITS];
    assert_true(lost > REQUESTS / 4);
    in_order = true;
    link_unit(UNITS, RECORD_UNIT_LOST);
    settle(UNITS - 1);
    assert_true(in_order); /* who came first goes on first */
    gateway_audit(gateway);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        assert_true(all[i].unit < UNITS);
        say_tokens(i, 1);
        say_finished(i);
        if (i % 256 == 255) step();
    }
    step();
    assert_int_equal(answered, REQUESTS);
    assert_int_equal(gateway_request_count(gateway), 0);
    assert_int_equal(gateway->pool.free_count, gateway->pool.chunk_count);
    assert_int_equal(munmap(memory, bytes), 0);
}

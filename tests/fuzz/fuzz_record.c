/* SPDX-License-Identifier: Apache-2.0
 * What comes over the wire: a run of records that claim to be whole. None may be read outside of
 * its bytes; one that is found valid is handed to the machines as the host would, a unit's to a
 * gateway that has a request under way, a gateway's to a unit whose engine answers. Whatever a
 * valid record says, both go on, and put out nothing but valid records.
 *
 * Bytes that are no record are made into one of a whole form, by the table of records: so that what
 * fields may hold is tried, too. All are of today's version, or a seed would be worth nothing from
 * the next one on.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "contract/record_client.h"
#include "contract/record_past.h"
#include "contract/step_plan.h"
#include "serving/gateway/gateway.h"
#include "serving/unit/rank_units.h"

/* The same bytes as of the version before: what comes of them goes back to the same bytes. */
static void pass_past(struct record *bytes, uint32_t count) {
    if (count >= sizeof *bytes) bytes->version = record_past.version;
    size_t room = 2 * (size_t)count + 4096;
    void *now = aligned_alloc(8, round_up(room, 8)), *again = aligned_alloc(8, round_up(room, 8));
    check(now && again);
    size_t made = record_past_from_past(&record_past, bytes, count, now, room);
    if (made && record_valid(now, made))
        check(record_past_to_past(&record_past, now, again, room) == count);
    free(now);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VOCAB 512
#define COUNTS_MAX 4 /* of elements that a shaped record counts */

struct host {
    struct machine machine;
    int64_t now_ns;
};

static void *gateway_memory, *unit_memory; /* kept from run to run: they are large */

static void *memory_of(void **kept, size_t bytes) {
    if (!*kept) *kept = malloc(bytes);
    check(*kept);
    return *kept;
}

/* ---- a gateway with one unit and one request ---- */

static const char body[] = "{\"model\":\"m\",\"prompt\":[5,6,7],\"max_tokens\":50,\"stream\":true,"
                           "\"logprobs\":2,\"seed\":1}";

static void open_gateway(struct host *host) {
    struct gateway_options options = {.model_names = "m",
                                      .version = "0",
                                      .sampling = {.temperature = 1, .top_p = 1},
                                      .requests_max = 4,
                                      .body_bytes_max = 4096};
    struct gateway *gateway;
    struct arena arena;
    struct error error;
    size_t bytes = gateway_memory_bytes(&options);
    arena_over(&arena, memory_of(&gateway_memory, bytes), bytes);
    check(gateway_create(&arena, &options, &gateway, &error) == STATUS_OK);
    host->machine = gateway_machine(gateway);
}

/* ---- a unit ---- */

static void open_unit(struct host *host) {
    static const uint8_t model_id[32] = {1};
    struct unit_options options = {.requests_max = 4,
                                   .page_count = 8,
                                   .context_tokens_max = 512,
                                   .step_rows_max = 4,
                                   .step_tokens_max = 128,
                                   .vocab_count = VOCAB,
                                   .prefix_cache = true,
                                   .prompt_bytes = 1 << 16,
                                   .model_id = model_id,
                                   .numerics_id = "n"};
    struct rank_units *units;
    struct arena arena;
    struct error error;
    size_t bytes = rank_units_memory_bytes(&options, 1);
    arena_over(&arena, memory_of(&unit_memory, bytes), bytes);
    check(rank_units_create(&arena, &options, 1, &units, &error) == STATUS_OK);
    host->machine = rank_units_machine(units);
}

/* What a constraint may make of a row: forced tokens, a late mask, the end. */
static void bind(const struct step_row *row, uint64_t step, struct step_result_row *out) {
    if (!row->constrained || !row->sample) return;
    out->lost = step % 5 == 0;
    out->stuck = step % 7 == 0 && !out->lost;
    if (out->lost || out->stuck)
        out->tokens[0] = out->token_count = 0;
    else
        out->token_count += out->forced_count = step % (LIMIT_FORCED + 1);
}

static struct step_result *answer(const struct step_plan *plan) {
    struct step_result fixed = {
        .step = plan->step, .row_count = plan->row_count, .rank = plan->rank};
    size_t bytes = record_bytes(RECORD_STEP_DONE, &fixed);
    struct step_result *result = calloc(1, bytes);
    check(result);
    *result = fixed;
    record_set_head(result, RECORD_STEP_DONE);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        step_result_rows(result)[i] =
            (struct step_result_row){.slot = row->slot,
                                     .token_count = row->sample,
                                     .tokens = {row->sample ? (7 * plan->step + i) % VOCAB : 0}};
        bind(row, plan->step, &step_result_rows(result)[i]);
    }
    /* who asked for log probabilities gets none: a step that failed */
    for (uint32_t i = 0; i < plan->row_count; i++)
        result->failed |= (step_plan_rows(plan)[i].sampling.flags & SAMPLING_LOGPROBS) != 0;
    for (uint32_t i = 0; result->failed && i < plan->row_count; i++)
        step_result_rows(result)[i] =
            (struct step_result_row){.slot = step_plan_rows(plan)[i].slot};
    return result;
}

/* ---- handing over ---- */

static struct step_result *drain(struct host *host) {
    struct step_result *result = NULL;
    struct outbox *outbox = host->machine.outbox;
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));) {
        check(record_valid(record, record->bytes));
        if (record->kind == RECORD_RUN_STEP) result = answer((const struct step_plan *)record);
    }
    machine_outbox_clear(outbox);
    return result;
}

/* The machine acts, and its engine answers, a few times. */
static void act(struct host *host) {
    for (int i = 0; i < 4; i++) {
        host->now_ns += 1000000;
        host->machine.step(host->machine.self, host->now_ns);
        struct step_result *result = drain(host);
        if (!result) return;
        check(record_valid(result, result->record.bytes));
        check(machine_pass(&host->machine, &result->record, host->now_ns));
        free(result);
        free(drain(host));
    }
}

static void hand_over(struct host *host, const struct record *record) {
    while (!machine_pass(&host->machine, record, host->now_ns))
        free(drain(host));
    free(drain(host));
    act(host);
}

static void carry(struct host *gateway, const struct record *record) {
    enum record_kind kind = (enum record_kind)record->kind;
    size_t bytes = machine_envelope_bytes(kind, record);
    struct outbox box = {.memory = malloc(bytes), .capacity = (uint32_t)bytes};
    check(box.memory);
    void *inner =
        machine_outbox_put_envelope(&box, RECORD_FROM_UNIT, (struct unit_id){1}, kind, record);
    memcpy(inner, record, record->bytes);
    check(record_valid(box.memory, bytes));
    hand_over(gateway, machine_outbox_next(&box, NULL));
    free(box.memory);
}

static void say_hello(struct host *gateway) {
    struct record_unit_link joined = {record_head(RECORD_UNIT_JOINED, sizeof joined), {1}, 0};
    hand_over(gateway, &joined.record);
    struct {
        struct record_unit_hello hello;
        struct unit_rank rank;
    } said = {.hello = {.record = record_head(RECORD_UNIT_HELLO, sizeof said),
                        .vocab_count = VOCAB,
                        .context_tokens_max = 512,
                        .page_count = 8,
                        .page_tokens = KV_BLOCK_TOKENS,
                        .requests_max = 4,
                        .rank_count = 1,
                        .numerics_id = "n"},
              .rank = {.page_count = 8, .requests_max = 4}};
    if (record_valid(&said, sizeof said)) carry(gateway, &said.hello.record);
}

static void ask(struct host *gateway) {
    static const char path[] = "/v1/completions";
    char memory[1024];
    struct outbox box = {.memory = malloc(sizeof memory), .capacity = sizeof memory};
    check(box.memory);
    struct record_client_request *request =
        machine_outbox_put(&box, RECORD_CLIENT_REQUEST,
                           &(struct record_client_request){.connection = {1},
                                                           .random = {1, 2},
                                                           .method = HTTP_POST,
                                                           .path_bytes = sizeof path - 1,
                                                           .body_bytes = sizeof body - 1});
    check(request);
    memcpy(client_request_path(request), path, sizeof path - 1);
    memcpy(client_request_body(request), body, sizeof body - 1);
    check(record_valid(request, request->record.bytes));
    hand_over(gateway, &request->record);
    free(box.memory);
}

static void take(struct host *gateway, struct host *unit, const struct record *record) {
    if (record_goes(record->kind, WAY_UNIT_TO_GATEWAY)) carry(gateway, record);
    if (record_goes(record->kind, WAY_GATEWAY_TO_UNIT)) hand_over(unit, record);
}

static void limit(char *fixed, uint16_t field, uint32_t most) {
    uint32_t value;
    memcpy(&value, fixed + field, sizeof value);
    value %= most + 1;
    memcpy(fixed + field, &value, sizeof value);
}

/* A record of one of the table's forms, filled with the data's bytes, over and over. */
static struct record *shape(const uint8_t *data, size_t size) {
    enum record_kind kind = (enum record_kind)(1 + data[0] % (RECORD_KIND_COUNT - 1));
    const struct record_form *form = &record_forms[kind];
    _Alignas(8) char fixed[4096];
    check(form->bytes <= sizeof fixed);
    for (size_t i = 0; i < form->bytes; i++)
        fixed[i] = (char)data[i % size];
    for (const struct record_tail_form *tail = form->tails; tail->element_bytes; tail++) {
        limit(fixed, tail->field, COUNTS_MAX);
        if (tail->other) limit(fixed, tail->other, COUNTS_MAX);
    }
    size_t bytes = record_bytes(kind, fixed);
    struct outbox box = {.memory = aligned_alloc(8, bytes), .capacity = (uint32_t)bytes};
    check(box.memory);
    struct record *record = machine_outbox_put(&box, kind, fixed);
    check(record && box.used == bytes);
    for (uint32_t i = 0, at = form->bytes; form->tails[i].element_bytes; i++) {
        char *tail = record_tail(record, i);
        for (size_t k = 0; k < record_tail_bytes(record, i); k++)
            tail[k] = (char)data[at++ % size];
    }
    return record;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct host gateway = {.now_ns = 1}, unit = {.now_ns = 1};
    open_gateway(&gateway);
    open_unit(&unit);
    say_hello(&gateway);
    ask(&gateway);
    act(&unit);
    for (size_t at = 0; at < size;) {
        uint32_t bytes = 0;
        if (size - at >= sizeof(struct record)) memcpy(&bytes, data + at + 4, sizeof bytes);
        if (bytes > size - at || bytes < sizeof(struct record)) bytes = (uint32_t)(size - at);
        struct record *copy = aligned_alloc(8, round_up(bytes, 8)); /* a read beyond is seen */
        check(copy);
        memcpy(copy, data + at, bytes);
        pass_past(copy, bytes);
        if (bytes >= sizeof *copy) copy->version = RECORD_VERSION;
        if (record_valid(copy, bytes)) {
            take(&gateway, &unit, copy);
        } else if (bytes > sizeof(struct record)) {
            struct record *shaped = shape((const uint8_t *)(copy + 1), bytes - sizeof *copy);
            if (record_valid(shaped, shaped->bytes)) take(&gateway, &unit, shaped);
            free(shaped);
        }
        free(copy);
        at += bytes;
    }
    return 0;
}

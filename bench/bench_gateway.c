/* SPDX-License-Identifier: Apache-2.0
 * bench_machines gateway: the gateway's machine alone, without sockets, threads and engines. Fake
 * units in memory accept its requests and send one token per record. A fake tokenizer answers its
 * TOKENIZE. The machine holds all requests at once, in two runs: whole answers, and streams. The
 * floor next to its times is the time to copy the same records.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/json_writer.h"
#include "bench/harness.h"
#include "bench/stub_unit.h"
#include "bench_machines.h"
#include "command/model_run.h"
#include "contract/record_client.h"
#include "contract/record_unit.h"
#include "host/process/lazy_memory.h"
#include "host/process/model_text.h"
#include "serving/gateway/gateway.h"

#define PATH "/v1/completions"
#define STEP_NS ((int64_t)50000000)
/* Tokens per record, for the part of an answer before the timed one. */
#define SAID_AHEAD 100
#define INLINE_BYTES 256               /* longer prompts go out as TOKENIZE */
#define RECORD_BYTES ((size_t)8 << 20) /* the longest record that the puppets send */
#define PAGE_COUNT (1u << 20)          /* of a rank */

struct gateway_bench_values {
    uint64_t requests, units, ranks, prompt_tokens, answer_tokens, steps;
    const char *model;
    bool json;
};

#define AT(field) .offset = offsetof(struct gateway_bench_values, field)

static const struct option gateway_bench_rows[] = {
    {"requests", OPTION_COUNT, "100000", "requests held at the same time", AT(requests),
     .minimum = 1, .maximum = LIMIT_GATEWAY_REQUESTS},
    {"units", OPTION_COUNT, "9", "units among which they are", AT(units), .minimum = 1,
     .maximum = LIMIT_FLEET_UNITS},
    {"ranks", OPTION_COUNT, "144", "ranks of a unit: so long are its load reports", AT(ranks),
     .minimum = 1, .maximum = LIMIT_RANKS},
    {"prompt-tokens", OPTION_COUNT, "5000", "tokens of a prompt", AT(prompt_tokens), .minimum = 128,
     .maximum = 1 << 18},
    {"answer-tokens", OPTION_COUNT, "1200", "tokens of an answer", AT(answer_tokens), .minimum = 2,
     .maximum = 1 << 18},
    {"steps", OPTION_COUNT, "20", "last tokens of each answer that are said one by one, and timed",
     AT(steps), .minimum = 1, .maximum = 1 << 16},
    {"model", OPTION_TEXT, NULL,
     "directory of a checkpoint with the tokenizer for the answers (default: the model "
     "that comes with Fathom)",
     AT(model)},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
};

const struct option_table bench_gateway_options = {
    .command = "bench_machines gateway",
    .arguments = "",
    .description =
        "Records that the gateway's machine takes a second, and its memory, with as many "
        "requests as a fleet has.",
    .options = gateway_bench_rows,
    .option_count = ARRAY_COUNT(gateway_bench_rows),
};

struct puppet_request {
    struct request_id id;
    uint32_t unit;
};

struct gateway_bench {
    const struct gateway_bench_values *values;
    struct model_text text;
    struct lazy_memory memory, said_memory;
    struct gateway *gateway;
    struct machine machine;
    struct puppet_request *requests; /* [values->requests] in the order of arrival */
    uint32_t request_count;
    uint32_t bound[LIMIT_FLEET_UNITS];
    struct request_id tokenized;
    bool tokenizes;
    uint64_t answered, put_bytes; /* clients that have received their end; bytes of all records
                                   * put */
    int64_t now_ns;
    struct outbox said; /* the puppet's next record */
    uint32_t vocab;
};

struct gateway_figures {
    double take_us, submit_us; /* per request: from its body to the tokenizer; from there to a
                                * unit */
    double token_ns, copy_ns;  /* per TOKENS record; the time to copy it and the gateway's records
                                * for it */
    double tokens_a_second, step_us, load_us, request_bytes, floor_bytes, end_us;
};

/* ---- the machine's environment ---- */

static void note_submit(struct gateway_bench *bench, const struct record_envelope *envelope) {
    const struct record *inner = envelope_inner(envelope);
    if (inner->kind != RECORD_SUBMIT) return;
    check(bench->request_count < bench->values->requests);
    bench->requests[bench->request_count++] = (struct puppet_request){
        ((const struct record_submit *)inner)->request, envelope->unit.value};
    bench->bound[envelope->unit.value]++;
}

static void drain(struct gateway_bench *bench) {
    struct outbox *outbox = bench->machine.outbox;
    bench->put_bytes += outbox->used;
    for (const struct record *r = machine_outbox_next(outbox, NULL); r;
         r = machine_outbox_next(outbox, r)) {
        if (r->kind == RECORD_TO_UNIT) note_submit(bench, (const struct record_envelope *)r);
        if (r->kind == RECORD_RESPOND || r->kind == RECORD_STREAM_END) bench->answered++;
        if (r->kind == RECORD_TOKENIZE) {
            bench->tokenized = ((const struct record_tokenize *)r)->request;
            bench->tokenizes = true;
        }
    }
    machine_outbox_clear(outbox);
}

static void give(struct gateway_bench *bench, const struct record *record) {
    while (!machine_pass(&bench->machine, record, bench->now_ns))
        drain(bench);
}

static void step(struct gateway_bench *bench) {
    bench->machine.step(bench->machine.self, bench->now_ns);
    drain(bench);
}

static struct stub_shape shape_of(const struct gateway_bench *bench) {
    return (struct stub_shape){.vocab = bench->vocab,
                               .ranks = (uint32_t)bench->values->ranks,
                               .pages_each = PAGE_COUNT,
                               .requests_each = LIMIT_UNIT_REQUESTS,
                               .step_ns = STEP_NS,
                               .numerics = "bench.v1"};
}

static void say_hello(struct gateway_bench *bench, uint32_t unit) {
    struct record_unit_link joined = {.record = record_head(RECORD_UNIT_JOINED, sizeof joined),
                                      .unit = {unit}};
    give(bench, &joined.record);
    machine_outbox_clear(&bench->said);
    const struct stub_shape shape = shape_of(bench);
    stub_unit_say_hello(&bench->said, &shape, &joined.unit);
    give(bench, machine_outbox_next(&bench->said, NULL));
}

/* Reports that everything it has is running. */
static void say_load(struct gateway_bench *bench, uint32_t unit) {
    const struct stub_shape shape = shape_of(bench);
    machine_outbox_clear(&bench->said);
    stub_unit_say_load(&bench->said, &shape, bench->bound[unit], &(struct unit_id){unit});
    give(bench, machine_outbox_next(&bench->said, NULL));
}

static void say_loads(struct gateway_bench *bench) {
    for (uint32_t unit = 1; unit <= bench->values->units; unit++)
        say_load(bench, unit);
    step(bench);
}

static const struct record *make_tokens(struct gateway_bench *bench, uint32_t first,
                                        uint32_t count) {
    struct record_tokens fixed = {.token_count = count, .work_count = first == 0};
    machine_outbox_clear(&bench->said);
    struct record_tokens *tokens = machine_outbox_put_envelope(
        &bench->said, RECORD_FROM_UNIT, (struct unit_id){1}, RECORD_TOKENS, &fixed);
    if (!tokens) return NULL;
    if (first == 0)
        tokens_work(tokens)->prompt_miss_tokens = (uint32_t)bench->values->prompt_tokens;
    return machine_outbox_next(&bench->said, NULL);
}

/* Sends one record for each request, unit after unit as their steps end. `units_step`: with each
 * unit's records also a load report and a step of the machine. */
static void say_tokens(struct gateway_bench *bench, uint32_t first, uint32_t count) {
    const struct record *record = make_tokens(bench, first, count);
    check(record);
    struct record_envelope *envelope = (struct record_envelope *)bench->said.memory;
    struct record_tokens *tokens = (struct record_tokens *)envelope_inner(envelope);
    uint32_t token = first * 7919;
    tokens->first_output_position = first;
    for (uint32_t i = 0; i < bench->request_count; i++) {
        envelope->unit.value = bench->requests[i].unit;
        tokens->request = bench->requests[i].id;
        for (uint32_t j = 0; j < count; j++)
            tokens_chosen(tokens)[j] =
                300 + (token = token * 1664525 + 1013904223) / 65536 % (bench->vocab - 300);
        give(bench, record);
        if (i % 1024 == 1023) step(bench);
    }
    step(bench);
    bench->now_ns += STEP_NS;
}

/* ---- measurements ---- */

static size_t write_body(const struct gateway_bench *bench, bool stream, char *out, size_t room) {
    struct json_writer writer = {.out = out, .room = room};
    json_writer_text(&writer, "{\"prompt\":\"");
    for (uint64_t i = 0; i < bench->values->prompt_tokens; i++)
        json_writer_text(&writer, " of a");
    json_writer_text(&writer, "\",\"ignore_eos\":true,\"stream\":");
    json_writer_text(&writer, stream ? "true" : "false");
    json_writer_text(&writer, ",\"max_tokens\":");
    json_writer_unsigned(&writer, bench->values->answer_tokens);
    json_writer_text(&writer, "}");
    check(writer.count <= room);
    return writer.count;
}

static void answer_tokenize(struct gateway_bench *bench) {
    uint32_t count = (uint32_t)bench->values->prompt_tokens;
    struct record_tokenized fixed = {.request = bench->tokenized, .token_count = count};
    machine_outbox_clear(&bench->said);
    struct record_tokenized *tokenized = machine_outbox_put(&bench->said, RECORD_TOKENIZED, &fixed);
    check(tokenized);
    for (uint32_t i = 0; i < count; i++)
        tokenized_tokens(tokenized)[i] = (uint32_t)(fixed.request.low + i) % bench->vocab;
    bench->tokenizes = false;
    give(bench, &tokenized->record);
}

static void ask_all(struct gateway_bench *bench, bool stream, struct gateway_figures *out) {
    size_t room = bench->values->prompt_tokens * 5 + 256;
    char *body = malloc(room);
    check(body);
    struct record_client_request fixed = {.method = HTTP_POST, .path_bytes = sizeof PATH - 1};
    fixed.body_bytes = (uint32_t)write_body(bench, stream, body, room);
    double taken = 0, submitted = 0;
    for (uint64_t i = 1; i <= bench->values->requests; i++) {
        machine_outbox_clear(&bench->said);
        fixed.connection.value = fixed.random[0] = i + (stream ? LIMIT_GATEWAY_REQUESTS : 0);
        struct record_client_request *record =
            machine_outbox_put(&bench->said, RECORD_CLIENT_REQUEST, &fixed);
        check(record);
        memcpy(client_request_path(record), PATH, sizeof PATH - 1);
        memcpy(client_request_body(record), body, fixed.body_bytes);
        double began = bench_machines_now();
        give(bench, &record->record);
        step(bench);
        double between = bench_machines_now();
        if (bench->tokenizes) answer_tokenize(bench);
        step(bench);
        taken += between - began;
        submitted += bench_machines_now() - between;
        if (i % 64 == 0) say_loads(bench);
    }
    free(body);
    say_loads(bench);
    check(bench->request_count == bench->values->requests);
    out->take_us = taken / (double)bench->values->requests * 1e6;
    out->submit_us = submitted / (double)bench->values->requests * 1e6;
}

static void time_copies(size_t bytes, struct gateway_figures *out) {
    static char from[1 << 14], to[1 << 14];
    uint64_t count = 1000000;
    if (bytes > sizeof from) bytes = sizeof from;
    double began = bench_machines_now();
    for (uint64_t i = 0; i < count; i++) {
        from[i % bytes]++;
        memcpy(to, from, bytes);
        __asm__ volatile("" ::"r"(to), "r"(from) : "memory");
    }
    out->copy_ns = (bench_machines_now() - began) / (double)count * 1e9;
}

static void time_steps(struct gateway_bench *bench, struct gateway_figures *out) {
    uint32_t steps = (uint32_t)bench->values->steps,
             answer = (uint32_t)bench->values->answer_tokens;
    uint64_t records = steps * (uint64_t)bench->request_count, put = bench->put_bytes;
    check(records > 0);
    double began = bench_machines_now();
    for (uint32_t i = 0; i < steps; i++)
        say_tokens(bench, answer - steps + i, 1);
    double took = bench_machines_now() - began;
    out->token_ns = took / (double)records * 1e9;
    out->tokens_a_second = (double)records / took;
    const struct record *record = make_tokens(bench, answer, 1);
    check(record);
    time_copies(record->bytes + (bench->put_bytes - put) / records, out);
    began = bench_machines_now();
    for (uint32_t i = 0; i < 1000; i++)
        step(bench);
    out->step_us = (bench_machines_now() - began) * 1e3;
    began = bench_machines_now();
    for (uint32_t i = 0; i < 1000; i++)
        say_load(bench, 1 + i % (uint32_t)bench->values->units);
    out->load_us = (bench_machines_now() - began) * 1e3;
}

static void end_all(struct gateway_bench *bench, struct gateway_figures *out) {
    uint32_t answer = (uint32_t)bench->values->answer_tokens;
    uint64_t before = bench->answered;
    double began = bench_machines_now();
    for (uint32_t i = 0; i < bench->request_count; i++) {
        struct record_finished fixed = {
            .request = bench->requests[i].id, .reason = FINISH_LENGTH, .output_tokens = answer};
        fixed.work.prompt_miss_tokens = (uint32_t)bench->values->prompt_tokens;
        machine_outbox_clear(&bench->said);
        const void *put = machine_outbox_put_envelope(&bench->said, RECORD_FROM_UNIT,
                                                      (struct unit_id){bench->requests[i].unit},
                                                      RECORD_FINISHED, &fixed);
        check(put);
        give(bench, machine_outbox_next(&bench->said, NULL));
        step(bench);
    }
    out->end_us = (bench_machines_now() - began) / (double)bench->request_count * 1e6;
    check(bench->answered - before == bench->request_count);
    check(gateway_request_count(bench->gateway) == 0);
}

/* Runs all requests from arrival to end. */
static void run_way(struct gateway_bench *bench, bool stream, struct gateway_figures *out) {
    const struct gateway_bench_values *values = bench->values;
    uint32_t ahead = (uint32_t)(values->answer_tokens - values->steps);
    bench->request_count = 0;
    memset(bench->bound, 0, sizeof bench->bound);
    double before = bench_machines_resident();
    say_loads(bench);
    ask_all(bench, stream, out);
    for (uint32_t first = 0; first < ahead; first += SAID_AHEAD)
        say_tokens(bench, first, ahead - first < SAID_AHEAD ? ahead - first : SAID_AHEAD);
    time_steps(bench, out);
    double after = bench_machines_resident();
    out->request_bytes = (after - before) / (double)values->requests;
    /* The prompt and the answer's tokens: without them a request could not continue on another
     * unit. */
    out->floor_bytes = (double)(values->prompt_tokens + values->answer_tokens) * sizeof(uint32_t);
    end_all(bench, out);
}

/* ---- opening ---- */

static enum status open_gateway(struct gateway_bench *bench, struct error *error) {
    struct gateway_options options = {.tokenizer = bench->text.tokenizer,
                                      .model_names = "bench",
                                      .version = FATHOM_VERSION,
                                      .sampling = bench->text.sampling,
                                      .inline_text_bytes = INLINE_BYTES,
                                      .prefix_blocks = 1 << 18,
                                      .requests_max = (uint32_t)bench->values->requests};
    struct arena arena;
    size_t bytes = gateway_memory_bytes(&options) + 64;
    bench->memory = lazy_memory_take(bytes);
    bench->said_memory = lazy_memory_take(RECORD_BYTES);
    bench->requests = calloc(bench->values->requests, sizeof *bench->requests);
    if (!bench->memory.start || !bench->said_memory.start || !bench->requests)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the gateway");
    bench->said = (struct outbox){.memory = bench->said_memory.start, .capacity = RECORD_BYTES};
    arena_over(&arena, bench->memory.start, bytes);
    enum status status = gateway_create(&arena, &options, &bench->gateway, error);
    if (status) return status;
    bench->machine = gateway_machine(bench->gateway);
    for (uint32_t unit = 1; unit <= bench->values->units; unit++)
        say_hello(bench, unit);
    return STATUS_OK;
}

static enum status open_all(struct gateway_bench *bench, struct error *error) {
    const char *directory;
    enum status status = model_run_directory(bench->values->model, &directory, error);
    if (!status) status = model_text_open_tokenizer(directory, &bench->text, error);
    if (status) return status;
    bench->vocab = tokenizer_vocab_count(bench->text.tokenizer);
    return open_gateway(bench, error);
}

static void close_all(struct gateway_bench *bench) {
    free(bench->requests);
    lazy_memory_free(&bench->said_memory);
    lazy_memory_free(&bench->memory);
    model_text_close(&bench->text);
}

/* Measures each way alone, in untouched memory. */
static enum status measure(const struct gateway_bench_values *values, bool stream,
                           struct gateway_figures *out, struct error *error) {
    struct gateway_bench bench = {.values = values, .now_ns = STEP_NS};
    enum status status = open_all(&bench, error);
    if (!status) run_way(&bench, stream, out);
    close_all(&bench);
    return status;
}

static void print_ways(const struct gateway_figures *ways, bool json) {
    static const struct harness_column columns[] = {
        {"answers", "answers", -12, 0, 0},
        {"body_us", "body us", 9, 1, 0},
        {"submit_us", "submit us", 9, 1, 0},
        {"tokens_records_per_s", "TOKENS/s", 8, 0, 0},
        {"tokens_record_ns", "ns each", 8, 0, 0},
        {"copy_ns", "copy ns", 8, 0, 0},
        {"step_us", "step us", 9, 2, 0},
        {"load_us", "load us", 9, 2, 0},
        {"request_bytes", "B/request", 9, 0, 0},
        {"floor_bytes", "B floor", 9, 0, 0},
        {"end_us", "end us", 8, 1, 0},
    };
    static const struct harness_table table = {columns, ARRAY_COUNT(columns)};
    static const char *const names[] = {"whole", "stream"};
    struct json_print out = json_print_begin(json);
    json_print_open(&out, "gateway", '[');
    harness_titles(&out, &table);
    for (int i = 0; i < 2; i++) {
        const struct gateway_figures *way = &ways[i];
        const double numbers[] = {
            way->take_us, way->submit_us, way->tokens_a_second, way->token_ns,    way->copy_ns,
            way->step_us, way->load_us,   way->request_bytes,   way->floor_bytes, way->end_us};
        harness_row(&out, NULL, &table, &names[i], numbers);
    }
    json_print_close(&out);
    json_print_close(&out);
}

int bench_gateway(void *given, const struct option_result *result) {
    struct gateway_bench_values *values = given;
    struct gateway_figures ways[2] = {{0}};
    struct error error;
    if (values->steps >= values->answer_tokens)
        return command_misused("--steps has to be less than --answer-tokens");
    enum status status = measure(values, false, &ways[0], &error);
    if (!status) status = measure(values, true, &ways[1], &error);
    if (!status) print_ways(ways, values->json);
    return command_end(status, &error);
}

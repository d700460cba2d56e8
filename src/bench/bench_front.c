/* SPDX-License-Identifier: Apache-2.0
 * fathom bench front: the gateway's process under load, over real sockets: clients on loopback on
 * one side, and a unit without an engine (bench/stub_unit.h) behind the real wire on the other. It
 * reports the gateway's processor time per request and per token, the delay of a token on its way
 * to the client, and the memory of a stream. The load that one core could serve is derived from the
 * processor time, since clients and unit need the other cores.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "bench/bench.h"
#include "bench/child.h"
#include "bench/harness.h"
#include "bench/stub_unit.h"
#include "command/model_run.h"
#include "compute/weights/checkpoint.h"
#include "host/http/http_client.h"
#include "host/process/file_limit.h"
#include "host/process/model_text.h"
#include "host/process/ranks/rank_health.h"

#define BODIES 64        /* different prompts */
#define FILES_BESIDE 600 /* of a process, in addition to clients; a gateway reserves 512 */
#define START_SECONDS 30
#define RAMP_SECONDS 60
#define SETTLE_SECONDS 1
#define AS_FAST_AS_IT_GOES 1000 /* tokens a second of a stream */
#define LATENCIES_MAX (1u << 20)
#define GATEWAYS_MAX 4
#define ADDRESS_BYTES 96
#define PATH "/v1/completions"

struct front_values {
    const char *model, *streams;
    uint64_t prompt_tokens, connections, tokens_a_second, gateways;
    double seconds;
    bool json;
};

#define AT(field) .offset = offsetof(struct front_values, field)

static const struct option front_rows[] = {
    {"streams", OPTION_TEXT, "1000,10000,50000",
     "streams open at the same time, a run for each number; no more than this process may have "
     "files",
     AT(streams)},
    {"tokens-a-second", OPTION_COUNT, "20000",
     "tokens per second of all streams together, while latency is measured", AT(tokens_a_second),
     .minimum = 1, .maximum = 1000000},
    {"connections", OPTION_COUNT, "64",
     "connections that send requests one after the other, while requests are counted",
     AT(connections), .minimum = 1, .maximum = 4096},
    {"gateways", OPTION_COUNT, "1", "gateways in front of the unit, on one port", AT(gateways),
     .minimum = 1, .maximum = GATEWAYS_MAX},
    {"prompt-tokens", OPTION_COUNT, "512", "tokens of a prompt, sent as text", AT(prompt_tokens),
     .minimum = 16, .maximum = 1 << 16},
    {"seconds", OPTION_NUMBER, "5", "seconds of each measurement", AT(seconds), .minimum = 0.1,
     .maximum = 600},
    {"model", OPTION_TEXT, NULL,
     "directory or GGUF file of a model with the tokenizer to use (default: the model that comes "
     "with "
     "Fathom)",
     AT(model)},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
};

const struct option_table bench_front_options = {
    .command = "bench front",
    .arguments = "",
    .description = "Measures a gateway's process under load: requests and streamed tokens per "
                   "second, added latency, memory of a stream.",
    .options = front_rows,
    .option_count = ARRAY_COUNT(front_rows),
};

/* ---- state ---- */

struct front_stream {  /* a connection */
    uint32_t reported; /* events received */
    bool asks;
    uint8_t matched; /* bytes of MARK at the end of the data received so far */
};

struct front {
    const struct front_values *values;
    struct model_text text;
    uint32_t vocab;
    uint8_t model_id[32];
    struct stub_shared *shared;
    uint32_t token; /* the token that the unit sends */
    char folder[64], url[320];
    struct child gateways[GATEWAYS_MAX];
    uint32_t gateway_count; /* number started so far */
    pid_t unit;
    struct http_client *client;
    char *bodies[BODIES];
    struct front_stream *streams; /* [stream_count] */
    uint32_t stream_count, open_count;
    uint32_t first_seed; /* so that streams left at the unit do not share seeds with those of
                     * the next run */
    bool one_token;      /* one request after another; otherwise endless streams */
    bool counts, ending;
    uint64_t requests, failed, tokens;
    double *latencies; /* seconds */
    uint32_t latency_count;
    double until;
};

struct front_cost { /* of the gateways' processes */
    double cpu, resident;
};

static void bench_front_add_cost(pid_t pid, struct front_cost *sum) {
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (machine_limits_line(path, "VmRSS", text, sizeof text))
        sum->resident += strtod(text, NULL) * 1024;
    sum->cpu += (double)rank_health_cpu_ns(pid) * 1e-9;
}

static struct front_cost bench_front_cost_of(const struct front *front) {
    struct front_cost cost = {0};
    for (uint32_t i = 0; i < front->gateway_count; i++)
        bench_front_add_cost(front->gateways[i].pid, &cost);
    return cost;
}

static char *make_body(const struct front *front, uint32_t number,
                       struct tokenizer_scratch *scratch) {
    static const char *const words[] = {"of ",  "a ",     "tree ", "stands ", "under ",  "seven ",
                                        "and ", "light ", "who ",  "reads ",  "water, ", "often. "};
    size_t room = front->values->prompt_tokens * 12 + 256, used = 0, count = 0;
    char *text = calloc(1, room);
    uint32_t *ids = malloc(room * sizeof *ids), draw = number * 7919 + 1;
    check(text && ids);
    while (count < front->values->prompt_tokens) {
        size_t before = used;
        for (uint64_t i = count; i < front->values->prompt_tokens && used + 16 < room; i++) {
            draw = draw * 1664525 + 1013904223;
            const char *word = words[(draw >> 16) % ARRAY_COUNT(words)];
            memcpy(text + used, word, strlen(word));
            used += strlen(word);
        }
        enum status status =
            tokenizer_encode(front->text.tokenizer, scratch, (struct bytes){text, used},
                             (struct plain_text){0}, ids, room, &count);
        check(status == STATUS_OK);
        if (used == before) break;
    }
    free(ids);
    return text;
}

static enum status make_bodies(struct front *front, uint32_t *token_out, struct error *error) {
    struct arena arena;
    size_t room = front->values->prompt_tokens * 12 + 256, count;
    size_t bytes = tokenizer_scratch_bytes(room);
    void *memory = malloc(bytes);
    uint32_t ids[8];
    if (!memory) return error_set(error, STATUS_NO_MEMORY, "no memory for prompts");
    arena_over(&arena, memory, bytes);
    struct tokenizer_scratch *scratch = tokenizer_scratch_create(&arena, room);
    check(scratch);
    for (uint32_t i = 0; i < BODIES; i++)
        front->bodies[i] = make_body(front, i, scratch);
    enum status status = tokenizer_encode(front->text.tokenizer, scratch, BYTES_LITERAL(" a"),
                                          (struct plain_text){0}, ids, ARRAY_COUNT(ids), &count);
    check(status == STATUS_OK && count > 0);
    *token_out = ids[0];
    free(memory);
    return STATUS_OK;
}

/* ---- the client ---- */

static void bench_front_ask(struct front *front, uint32_t index) {
    static char body[1 << 20];
    struct front_stream *stream = &front->streams[index];
    int used =
        snprintf(body, sizeof body,
                 "{\"prompt\":\"%u %s\",\"ignore_eos\":true,\"seed\":%u,\"max_tokens\":%u%s}",
                 index, front->bodies[index % BODIES], front->first_seed + index,
                 front->one_token ? 1 : 1 << 18, front->one_token ? "" : ",\"stream\":true");
    *stream = (struct front_stream){.asks = true};
    enum status status =
        http_client_send(front->client, index, PATH, (struct bytes){body, (size_t)used});
    check(status == STATUS_OK);
}

static void note_latency(struct front *front, uint32_t index, uint32_t position) {
    int64_t said =
        atomic_load(&front->shared->said_ns[front->first_seed + index][position % STUB_TIMES]);
    if (!front->counts || front->latency_count == LATENCIES_MAX) return;
    front->latencies[front->latency_count++] = (double)(clock_now_ns() - said) * 1e-9;
}

/* The beginning of each event. */
static const char MARK[] = "data: {";

static void bench_front_on_data(void *context, uint32_t index, struct bytes data) {
    struct front *front = context;
    struct front_stream *stream = &front->streams[index];
    if (front->ending) {
        http_client_leave(front->client, index);
        return;
    }
    if (front->one_token) return;
    for (size_t i = 0; i < data.count; i++) {
        if (data.data[i] != MARK[stream->matched]) {
            stream->matched = data.data[i] == MARK[0];
            continue;
        }
        if (++stream->matched < sizeof MARK - 1) continue;
        stream->matched = 0;
        note_latency(front, index, stream->reported);
        if (stream->reported++ == 0) front->open_count++;
        front->tokens++;
        atomic_fetch_add(&front->shared->received, 1);
    }
}

static void bench_front_on_head(void *context, uint32_t index, uint32_t http_status) {
    struct front *front = context;
    if (http_status != 200) front->failed++;
}

static void bench_front_on_end(void *context, uint32_t index, enum http_end end) {
    struct front *front = context;
    front->streams[index].asks = false;
    if (front->ending) return;
    if (end != HTTP_END_WHOLE || !front->one_token) front->failed++;
    if (!front->one_token) return;
    atomic_fetch_add(&front->shared->received, 1);
    front->requests++;
    bench_front_ask(front, index);
}

static void bench_front_on_wake(void *context) {
    struct front *front = context;
    http_client_stop(front->client);
}

static void run_for(struct front *front, double seconds) {
    http_client_wake_in(front->client, seconds);
    http_client_run(front->client);
}

/* ---- opening ---- */

static void bench_front_wire_address(const struct front *front, uint32_t gateway,
                                     char out[ADDRESS_BYTES]) {
    snprintf(out, ADDRESS_BYTES, "ipc://%s/%u", front->folder, gateway);
}

/* The first gateway chooses the port. */
static enum status start_gateway(struct front *front, struct error *error) {
    struct child_command command;
    char listen[ADDRESS_BYTES], port[16] = "0";
    uint32_t number = front->gateway_count;
    bench_front_wire_address(front, number, listen);
    if (number) snprintf(port, sizeof port, "%s", strrchr(front->url, ':') + 1);
    child_own(&command, "gateway", "--listen", listen, "--port", port, "--admin-port=0",
              "--share-port", "--connections-per-address=0", "--requests=60000", NULL);
    child_add_option(&command, "model", front->values->model);
    enum status status =
        child_start(command.argv, "listening on ", START_SECONDS, &front->gateways[number],
                    front->url, sizeof front->url, error);
    if (!status) front->gateway_count++;
    return status;
}

static enum status open_client(struct front *front, uint32_t streams, struct error *error) {
    struct http_client_options options = {.url = front->url,
                                          .connections_max = streams,
                                          .stall_ms_max = 120000,
                                          .head = bench_front_on_head,
                                          .data = bench_front_on_data,
                                          .end = bench_front_on_end,
                                          .wake = bench_front_on_wake,
                                          .context = front};
    front->stream_count = streams;
    front->first_seed = front->first_seed ? 0 : STUB_STREAMS_MAX / 2;
    front->open_count = 0;
    front->requests = front->failed = front->tokens = 0;
    front->latency_count = 0;
    front->ending = front->counts = false;
    front->streams = calloc(streams, sizeof *front->streams);
    if (!front->streams) return error_set(error, STATUS_NO_MEMORY, "no memory for streams");
    return http_client_open(&options, &front->client, error);
}

static void close_client(struct front *front) {
    http_client_close(front->client);
    free(front->streams);
    front->client = NULL;
    front->streams = NULL;
}

/* The gateways accept no unit of another model. */
static enum status read_front_model(struct front *front, const char *directory,
                                    struct error *error) {
    struct checkpoint *checkpoint;
    enum status status = checkpoint_open(directory, CHECKPOINT_SHAPE_ONLY, &checkpoint, error);
    if (status) return status;
    front->vocab = checkpoint_shape(checkpoint)->vocab;
    checkpoint_identity(checkpoint, front->model_id);
    checkpoint_close(checkpoint);
    return STATUS_OK;
}

/* Opens what all measurements share. */
static enum status open_front(struct front *front, struct error *error) {
    const char *directory;
    enum status status = model_run_directory(front->values->model, &directory, error);
    if (!status) status = model_text_open_tokenizer(directory, &front->text, error);
    if (!status) status = read_front_model(front, directory, error);
    if (!status) status = make_bodies(front, &front->token, error);
    if (status) return status;
    front->shared = stub_unit_shared_take();
    front->latencies = malloc(LATENCIES_MAX * sizeof *front->latencies);
    if (!front->shared || !front->latencies)
        return error_set(error, STATUS_NO_MEMORY, "no memory for what is measured");
    return STATUS_OK;
}

static void close_front(struct front *front) {
    for (uint32_t i = 0; i < BODIES; i++)
        free(front->bodies[i]);
    free(front->latencies);
    model_text_close(&front->text);
}

static enum status start_unit(struct front *front, struct error *error) {
    char addresses[GATEWAYS_MAX * ADDRESS_BYTES] = "", one[ADDRESS_BYTES];
    size_t used = 0;
    for (uint32_t i = 0; i < front->values->gateways; i++) {
        bench_front_wire_address(front, i, one);
        used += format_text(addresses + used, sizeof addresses - used, "%s%s", i ? "," : "", one);
    }
    struct stub_options options = {.addresses = addresses,
                                   .vocab = front->vocab,
                                   .token = front->token,
                                   .shared = front->shared};
    memcpy(options.model_id, front->model_id, sizeof options.model_id);
    return stub_unit_start(&options, &front->unit, error);
}

/* Starts a unit and gateways without any request. */
static enum status bench_front_open_world(struct front *front, struct error *error) {
    atomic_store(&front->shared->tokens_each, 1000);
    atomic_store(&front->shared->received, 0);
    atomic_store(&front->shared->said, 0);
    snprintf(front->folder, sizeof front->folder, "/tmp/fathom-front-XXXXXX");
    if (!mkdtemp(front->folder)) return error_set(error, STATUS_IO, "cannot make a folder in /tmp");
    enum status status = start_unit(front, error);
    for (uint32_t i = 0; i < front->values->gateways && !status; i++)
        status = start_gateway(front, error);
    return status;
}

static void close_world(struct front *front) {
    char address[ADDRESS_BYTES];
    if (front->unit > 0) {
        kill(front->unit, SIGKILL);
        waitpid(front->unit, NULL, 0);
    }
    for (uint32_t i = 0; i < front->gateway_count; i++) {
        child_stop(&front->gateways[i]);
        bench_front_wire_address(front, i, address);
        unlink(address + strlen("ipc://"));
    }
    rmdir(front->folder);
    front->unit = 0;
    front->gateway_count = 0;
}

/* ---- measurements ---- */

struct front_requests {
    double a_second, cpu_us, a_core; /* a_core: requests a second that one core would serve */
    uint64_t failed;
};

static enum status measure_requests(struct front *front, struct front_requests *out,
                                    struct error *error) {
    front->one_token = true;
    enum status status = open_client(front, (uint32_t)front->values->connections, error);
    if (status) return status;
    for (uint32_t i = 0; i < front->stream_count; i++)
        bench_front_ask(front, i);
    run_for(front, 1);
    struct front_cost before = bench_front_cost_of(front);
    uint64_t requests = front->requests;
    double began = machine_limits_now();
    run_for(front, front->values->seconds);
    double took = machine_limits_now() - began;
    struct front_cost after = bench_front_cost_of(front);
    requests = front->requests - requests;
    out->a_second = (double)requests / took;
    out->cpu_us = (after.cpu - before.cpu) / (double)requests * 1e6;
    out->a_core = 1e6 / out->cpu_us;
    out->failed = front->failed;
    front->ending = true;
    close_client(front);
    return STATUS_OK;
}

struct front_row {
    uint32_t streams;
    double each, tokens_a_second, cpu_us, a_core; /* `each`: tokens a second of a stream, offered */
    double p50_ms, p99_ms, bytes;                 /* bytes: of the gateway, for a stream */
    uint64_t failed;
};

/* Returns when all streams have begun, or the time is over. */
static void bench_front_open_streams(struct front *front) {
    double until = machine_limits_now() + RAMP_SECONDS;
    atomic_store(&front->shared->received, atomic_load(&front->shared->said));
    atomic_store(&front->shared->tokens_each, 1);
    for (uint32_t i = 0; i < front->stream_count; i++) {
        bench_front_ask(front, i);
        if (i % 256 == 255) run_for(front, 0.02);
    }
    while (front->open_count < front->stream_count && machine_limits_now() < until)
        run_for(front, 0.05);
}

static enum status measure_streams(struct front *front, uint32_t streams, double each,
                                   struct front_row *row, struct error *error) {
    front->one_token = false;
    struct front_cost idle = bench_front_cost_of(front);
    enum status status = open_client(front, streams, error);
    if (status) return status;
    bench_front_open_streams(front);
    atomic_store(&front->shared->tokens_each, each);
    run_for(front, SETTLE_SECONDS);
    struct front_cost before = bench_front_cost_of(front);
    uint64_t tokens = front->tokens;
    double began = machine_limits_now();
    front->counts = true;
    run_for(front, front->values->seconds);
    front->counts = false;
    double took = machine_limits_now() - began;
    struct front_cost after = bench_front_cost_of(front);
    *row = (struct front_row){.streams = front->open_count,
                              .each = each,
                              .tokens_a_second = (double)(front->tokens - tokens) / took,
                              .failed = front->failed};
    row->cpu_us = (after.cpu - before.cpu) / (double)(front->tokens - tokens) * 1e6;
    row->a_core = 1e6 / row->cpu_us;
    struct stats latency = stats_of(front->latencies, front->latency_count);
    row->p50_ms = latency.p50 * 1e3;
    row->p99_ms = latency.p99 * 1e3;
    row->bytes = (after.resident - idle.resident) / streams;
    front->ending = true;
    run_for(front, SETTLE_SECONDS);
    close_client(front);
    return STATUS_OK;
}

#define ROWS_MAX (1 + MODEL_RUN_SIZES_MAX)

struct front_results {
    struct front_requests requests;
    struct front_row rows[ROWS_MAX];
    uint32_t row_count;
};

/* `each`: tokens a second of a stream. */
static enum status bench_front_add_row(struct front *front, uint32_t streams, double each,
                                       struct front_results *results, struct error *error) {
    struct front_row *row = &results->rows[results->row_count++];
    enum status status = bench_front_open_world(front, error);
    if (!status) status = measure_streams(front, streams, each, row, error);
    close_world(front);
    return status;
}

/* Reduces the streams to the number of files that this process may open. */
static uint32_t possible_streams(uint32_t streams) {
    uint64_t files = file_limit_raise(UINT64_MAX), most = files - FILES_BESIDE;
    if (streams <= most) return streams;
    fprintf(stderr, "%u streams become %llu: a process may open %llu files\n", streams,
            (unsigned long long)most, (unsigned long long)files);
    return (uint32_t)most;
}

static enum status measure_all(struct front *front, struct front_results *results,
                               struct error *error) {
    struct model_run_sizes sizes = {.count = 0};
    enum status status = model_run_sizes_within("--streams", front->values->streams, 1,
                                                STUB_STREAMS_MAX / 2, &sizes, error);
    if (!status) status = open_front(front, error);
    if (!status) status = bench_front_open_world(front, error);
    if (!status) status = measure_requests(front, &results->requests, error);
    close_world(front);
    for (uint32_t i = 0; i < sizes.count && !status; i++) {
        uint32_t streams = possible_streams(sizes.values[i]);
        if (i == 0)
            status = bench_front_add_row(front, streams, AS_FAST_AS_IT_GOES, results, error);
        if (!status)
            status = bench_front_add_row(
                front, streams, (double)front->values->tokens_a_second / streams, results, error);
    }
    close_front(front);
    return status;
}

/* ---- printing ---- */

static void bench_front_print(const struct front_results *results, bool json) {
    static const struct harness_column columns[] = {
        {"streams", "streams", 8, 0, 0},
        {"offered", "offered/s", 12, 0, 0},
        {"tokens_a_second", "tokens/s", 10, 0, 0},
        {"cpu_us", "us each", 10, 2, 0},
        {NULL, "/s and core", 12, 0, 0},
        {"p50_ms", "p50 ms", 9, 2, 0},
        {"p99_ms", "p99 ms", 9, 2, 0},
        {"bytes", "kB/stream", 10, 1, 1.0 / 1024},
        {"failed", "failed", 7, 0, 0},
    };
    static const struct harness_table table = {columns, ARRAY_COUNT(columns)};
    const struct front_requests *requests = &results->requests;
    struct json_print out = json_print_begin(json);
    json_print_open(&out, "requests", '{');
    harness_number(&out, "a_second", requests->a_second);
    harness_number(&out, "cpu_us", requests->cpu_us);
    harness_number(&out, "failed", (double)requests->failed);
    json_print_close(&out);
    json_print_say(&out,
                   "requests: %.0f a second, %.0f us of the gateways' processor time each: %.0f a "
                   "second and core; %llu failed\n",
                   requests->a_second, requests->cpu_us, requests->a_core,
                   (unsigned long long)requests->failed);
    json_print_open(&out, "streams", '[');
    harness_titles(&out, &table);
    for (uint32_t i = 0; i < results->row_count; i++) {
        const struct front_row *row = &results->rows[i];
        const double offered = round(row->each * row->streams), failed = (double)row->failed;
        const double numbers[] = {row->streams, offered,     row->tokens_a_second,
                                  row->cpu_us,  row->a_core, row->p50_ms,
                                  row->p99_ms,  row->bytes,  failed};
        harness_row(&out, NULL, &table, NULL, numbers);
    }
    json_print_close(&out);
    json_print_close(&out);
}

int bench_front(void *given, const struct option_result *result) {
    struct front_values *values = given;
    struct error error;
    struct front front = {.values = values};
    struct front_results results = {.row_count = 0};
    enum status status = measure_all(&front, &results, &error);
    if (!status) bench_front_print(&results, values->json);
    return command_end(status, &error);
}

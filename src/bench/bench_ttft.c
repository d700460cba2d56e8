/* SPDX-License-Identifier: Apache-2.0
 * fathom bench ttft: time to first token (TTFT) of a prompt that is computed, loaded from the KV
 * storage's disk, loaded from its host memory, or handled by the server's own choice. With a disk
 * made slow, two more cases: loaded layer by layer during the step, and the server's choice. Each
 * case has a server. All servers run at once and get requests in turn, so that other load on the
 * machine affects them alike. Each round has a different prompt. Disk blocks are read past the page
 * cache. Several ranks take the prompts in turn.
 *
 * Before that, servers are started one after the other: the time from a start to the first token,
 * and within the first answer the longest step next to the median one.
 *
 * With --lengths it measures instead what follows a cache hit: the prompt is in memory, and some
 * tokens are new. The step of as many tokens is measured apart, with its floor.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/limits.h"
#include "bench/bench.h"
#include "bench/child.h"
#include "bench/harness.h"
#include "bench/load.h"
#include "command/model_run.h"

#define ROUNDS_MAX 99
#define WARM_PROMPTS                                                                               \
    4 /* warm-up prompts per rank, computed and loaded, for the server to learn both costs */
#define ANSWER_SECONDS_MAX 600
#define TOKEN_LOW 300
#define STARTS_MAX 99
#define START_ANSWER_TOKENS 256

enum ttft_side { COMPUTED, DISK, HOST, CHOSEN, SLOW_IN_STEP, SLOW_CHOSEN, SIDE_COUNT };

static const char *const side_names[SIDE_COUNT] = {
    "computed",
    "from disk",
    "from host memory",
    "as the server chooses",
    "slow disk: loaded in the step",
    "slow disk: as the server chooses",
};
static const char *const side_keys[SIDE_COUNT] = {"computed", "disk",         "host",
                                                  "auto",     "slow_in_step", "slow_auto"};

struct ttft_values {
    const char *model, *dir, *lengths;
    uint64_t prompt, stored, rounds, starts, kv_memory, slow_rate, ranks, threads, vocab;
    bool json;
};

#define AT(field) .offset = offsetof(struct ttft_values, field)

static const struct option ttft_rows[] = {
    {"model", OPTION_TEXT, NULL,
     "directory of a checkpoint, or GGUF file (default: the model that comes with Fathom)",
     AT(model)},
    {"dir", OPTION_TEXT, ".", "a directory on the disk to use", AT(dir)},
    {"prompt", OPTION_COUNT, "1500", "tokens of a prompt", AT(prompt),
     .minimum = 2 * KV_BLOCK_TOKENS, .maximum = LIMIT_CONTEXT},
    {"stored", OPTION_COUNT, NULL,
     "leading tokens of each prompt that were seen before, half of it at least; 0: all", AT(stored),
     .maximum = LIMIT_CONTEXT},
    {"lengths", OPTION_TEXT, NULL,
     "numbers of new tokens, such as 1,8,64: measure only these, after a prompt that is in memory, "
     "and the step of as many tokens with its floor",
     AT(lengths)},
    {"rounds", OPTION_COUNT, "9", "rounds; the result is their median", AT(rounds),
     .maximum = ROUNDS_MAX},
    {"starts", OPTION_COUNT, "3",
     "starts of a server; the result is their median; with --rounds 0 only starts are measured",
     AT(starts), .minimum = 1, .maximum = STARTS_MAX},
    {"kv-memory", OPTION_BYTES, "6MiB",
     "KV memory of each rank; small, so that most prompts move to host memory", AT(kv_memory)},
    {"slow-rate", OPTION_BYTES, "1MiB",
     "bytes a second that each rank reads of the slow disk; 0: leave it out", AT(slow_rate)},
    {"ranks", OPTION_COUNT, "1",
     "ranks of each server's unit; several ranks take prompts in turn, without host memory, which "
     "ranks do not share",
     AT(ranks), .minimum = 1, .maximum = LIMIT_RANKS},
    {"threads", OPTION_COUNT, NULL,
     "threads of each rank; 0: as many as there are CPUs, or an even share of them", AT(threads),
     .maximum = 4096},
    {"vocab", OPTION_COUNT, "1500", "prompts draw their tokens below this id", AT(vocab),
     .minimum = TOKEN_LOW + 1, .maximum = UINT32_MAX},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
};

const struct option_table bench_ttft_options = {
    .command = "bench ttft",
    .arguments = "",
    .description =
        "Measures the time from a server's start to its first token and the longest step "
        "after it, then the time to a prompt's first token: computed, from the KV "
        "storage, and as the server chooses.",
    .options = ttft_rows,
    .option_count = ARRAY_COUNT(ttft_rows),
};

struct ttft_server {
    struct child child;
    char url[CHILD_URL_BYTES];
    bool runs;
};

struct ttft_bench {
    struct ttft_values values;
    char directory[400];
    struct ttft_server servers[SIDE_COUNT];
    double seconds[SIDE_COUNT][ROUNDS_MAX];
    double ready[STARTS_MAX], first[STARTS_MAX]; /* seconds from a start */
    double step[STARTS_MAX], worst[STARTS_MAX];  /* seconds between tokens of the first answer */
    uint64_t asked;                              /* prompts so far */
    struct model_run_sizes lengths;
    struct error *error;
};

/* ---- servers ---- */

static uint64_t warm_count(const struct ttft_bench *bench) {
    return WARM_PROMPTS * bench->values.ranks;
}

/* Prompts of the rounds, followed by those for learning. */
static uint64_t prompt_count(const struct ttft_bench *bench) {
    return bench->values.rounds + warm_count(bench);
}

static bool is_slow(enum ttft_side side) {
    return side == SLOW_IN_STEP || side == SLOW_CHOSEN;
}

static bool bench_ttft_is_wanted(const struct ttft_bench *bench, enum ttft_side side) {
    if (side == HOST && bench->values.ranks > 1) return false;
    return bench->values.slow_rate > 0 || !is_slow(side);
}

static void add_storage(struct child_command *command, const struct ttft_bench *bench,
                        enum ttft_side side) {
    bool chosen = side == CHOSEN || side == SLOW_CHOSEN;
    if (side == COMPUTED) return;
    child_add_option(command, "kv-load", chosen ? "auto" : "always");
    if (side == HOST)
        child_add_count(command, "kv-host", bench->values.kv_memory * prompt_count(bench));
    else
        child_add_option(command, "kv-dir", bench->directory);
    if (is_slow(side))
        child_add_count(command, "kv-read-rate", bench->values.slow_rate * bench->values.ranks);
}

static enum status start(struct ttft_bench *bench, struct child_command *command,
                         struct ttft_server *server) {
    enum status status = child_serve(command->argv, &server->child, server->url, bench->error);
    server->runs = status == STATUS_OK;
    return status;
}

static void add_ranks(const struct ttft_bench *bench, struct child_command *command) {
    child_add_count(command, "ranks", bench->values.ranks);
    child_add_count(command, "threads", bench->values.threads);
    child_add_option(command, "model", bench->values.model);
}

static void begin_command(const struct ttft_bench *bench, struct child_command *command) {
    child_own(command, "serve", "--port=0", "--experiment=rank-balance=round-robin", NULL);
    child_add_count(command, "kv-memory", bench->values.kv_memory * bench->values.ranks);
    add_ranks(bench, command);
}

static void bench_ttft_stop(struct ttft_server *server) {
    if (server->runs) child_stop(&server->child);
    server->runs = false;
}

/* Options of a load of one request. */
static struct load_options one_request(const struct ttft_bench *bench, const char *url,
                                       uint32_t seed) {
    return (struct load_options){
        .url = url,
        .concurrency = 1,
        .ignore_eos = true,
        /* A token may be part of a character, without any text. */
        .extra = "\"return_token_ids\":true",
        .token_low = TOKEN_LOW,
        .token_high = (uint32_t)bench->values.vocab,
        .stall_ms_max = ANSWER_SECONDS_MAX * 1000,
        .seed = seed,
    };
}

/* ---- requests ---- */

#define NEVER_SEEN ((uint64_t)1 << 32) /* numbers from here on are those of tails */

/* Requests the first token of a prompt of `tokens` tokens. `number` determines its stored part. */
static enum status ask_some(struct ttft_bench *bench, const struct ttft_server *server,
                            uint64_t number, uint32_t tokens, double *seconds_out,
                            uint32_t *cached_out) {
    const uint64_t parts[] = {number, NEVER_SEEN + bench->asked++};
    struct load_request request = {.prompt_tokens = tokens,
                                   .output_tokens = 1,
                                   .blocks = parts,
                                   .block_count = ARRAY_COUNT(parts),
                                   .block_tokens = (uint32_t)bench->values.stored};
    struct load_options options = one_request(bench, server->url, 1);
    struct load_outcome outcome;
    enum status status = load_run(&options, &request, 1, &outcome, bench->error);
    if (status) return status;
    struct load_result result = outcome.results[0];
    if (result.failure != LOAD_OK)
        status = error_set(bench->error, STATUS_IO, "%s: %s: %s", server->url,
                           load_failure_name(result.failure), outcome.messages[result.failure]);
    load_outcome_free(&outcome);
    *seconds_out = result.first - result.arrival;
    *cached_out = result.cached_tokens;
    return status;
}

/* Requests the stored part of all prompts. */
static enum status ask_all(struct ttft_bench *bench, const struct ttft_server *server) {
    enum status status = STATUS_OK;
    double seconds;
    uint32_t cached;
    for (uint64_t i = 0; i < prompt_count(bench) && !status; i++)
        status = ask_some(bench, server, i, (uint32_t)bench->values.stored, &seconds, &cached);
    return status;
}

static enum status bench_ttft_ask(struct ttft_bench *bench, const struct ttft_server *server,
                                  uint64_t number, double *seconds_out, uint32_t *cached_out) {
    return ask_some(bench, server, number, (uint32_t)bench->values.prompt, seconds_out, cached_out);
}

/* Fills the disk with a server that then ends. */
static enum status fill(struct ttft_bench *bench) {
    struct child_command command;
    struct ttft_server server = {.runs = false};
    begin_command(bench, &command);
    child_add_option(&command, "kv-dir", bench->directory);
    child_add_option(&command, "kv-load", "never");
    enum status status = start(bench, &command, &server);
    if (!status) status = ask_all(bench, &server);
    bench_ttft_stop(&server);
    return status;
}

/* Makes each rank compute some prompts and load others. */
static enum status warm_up(struct ttft_bench *bench, enum ttft_side side) {
    const struct ttft_server *server = &bench->servers[side];
    enum status status = STATUS_OK;
    double seconds;
    uint32_t cached;
    if (side == HOST) return ask_all(bench, server);
    uint64_t ranks = bench->values.ranks, warm = warm_count(bench);
    for (uint64_t i = 0; i < 2 * warm && !status; i++) {
        bool fresh = i / ranks % 2 == 0;
        uint64_t number = i / (2 * ranks) * ranks + i % ranks; /* < warm */
        number += fresh ? prompt_count(bench) : bench->values.rounds;
        status = bench_ttft_ask(bench, server, number, &seconds, &cached);
    }
    return status;
}

static enum status open_server(struct ttft_bench *bench, enum ttft_side side) {
    struct child_command command;
    begin_command(bench, &command);
    add_storage(&command, bench, side);
    enum status status = start(bench, &command, &bench->servers[side]);
    return status ? status : warm_up(bench, side);
}

static enum status bench_ttft_run_round(struct ttft_bench *bench, uint32_t round) {
    uint64_t known = bench->values.stored < bench->values.prompt ? bench->values.stored
                                                                 : bench->values.prompt - 1;
    uint32_t whole = (uint32_t)known / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < SIDE_COUNT && !status; i++) {
        enum ttft_side side =
            (enum ttft_side)((i + round) % SIDE_COUNT); /* the order changes from round to round */
        uint32_t cached;
        if (!bench_ttft_is_wanted(bench, side)) continue;
        status = bench_ttft_ask(bench, &bench->servers[side], round, &bench->seconds[side][round],
                                &cached);
        bool chosen = side == CHOSEN || side == SLOW_CHOSEN;
        uint32_t expected = side == COMPUTED ? 0 : whole;
        if (!status && !chosen && cached != expected)
            status = error_set(bench->error, STATUS_CORRUPT,
                               "%s: %u tokens were cached where %u should be", side_names[side],
                               cached, expected);
    }
    return status;
}

/* ---- starts ---- */

/* Requests the first answer of a server: a prompt of one block, then many steps of one token. */
static enum status ask_first(struct ttft_bench *bench, const char *url, int64_t began_ns,
                             uint32_t index) {
    struct load_request request = {.prompt_tokens = KV_BLOCK_TOKENS,
                                   .output_tokens = START_ANSWER_TOKENS};
    struct load_options options = one_request(bench, url, 1 + index);
    struct load_outcome outcome;
    double asked = (double)(clock_now_ns() - began_ns) * 1e-9;
    enum status status = load_run(&options, &request, 1, &outcome, bench->error);
    if (status) return status;
    struct load_result result = outcome.results[0];
    if (result.failure != LOAD_OK || outcome.gap_count == 0) {
        status = error_set(bench->error, STATUS_IO, "%s: %s: %s", url,
                           load_failure_name(result.failure), outcome.messages[result.failure]);
    } else {
        struct stats_spread gaps = stats_spread(outcome.gaps, outcome.gap_count, 0);
        bench->first[index] = asked + result.first - result.arrival;
        bench->step[index] = gaps.median;
        bench->worst[index] = gaps.high;
    }
    load_outcome_free(&outcome);
    return status;
}

/* Starts servers, one after the other. */
static enum status measure_starts(struct ttft_bench *bench) {
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < bench->values.starts && !status; i++) {
        struct child_command command;
        struct ttft_server server = {.runs = false};
        begin_command(bench, &command);
        int64_t began_ns = clock_now_ns();
        status = start(bench, &command, &server);
        bench->ready[i] = (double)(clock_now_ns() - began_ns) * 1e-9;
        if (!status) status = ask_first(bench, server.url, began_ns, i);
        bench_ttft_stop(&server);
    }
    return status;
}

/* ---- the report ---- */

static void print_starts(struct ttft_bench *bench, struct json_print *out) {
    size_t count = bench->values.starts;
    double ready = stats_median(bench->ready, count), first = stats_median(bench->first, count);
    double step = stats_median(bench->step, count);
    double worst = stats_spread(bench->worst, count, 0).high;
    harness_number(out, "starts", (double)count);
    harness_number(out, "ready_ms", 1e3 * ready);
    harness_number(out, "start_to_first_token_ms", 1e3 * first);
    harness_number(out, "step_ms", 1e3 * step);
    harness_number(out, "worst_step_ms", 1e3 * worst);
    json_print_say(out,
                   "a server is ready %.0f ms after its start and sends the first token after %.0f "
                   "ms; medians of %zu starts\n"
                   "steps of the first answer: %.2f ms, the longest of all %.2f ms\n",
                   1e3 * ready, 1e3 * first, count, 1e3 * step, 1e3 * worst);
}

/* The ratio of the choice to the better of computing and loading. */
static double bench_ttft_ratio(const double *medians, enum ttft_side loaded,
                               enum ttft_side chosen) {
    return medians[chosen] / fmin(medians[COMPUTED], medians[loaded]);
}

static void bench_ttft_print_report(struct ttft_bench *bench) {
    static const struct harness_column columns[] = {
        {NULL, "", -34, 0, 0},
        {NULL, "ms", 9, 1, 1e3},
        {NULL, "least", 9, 1, 1e3},
        {NULL, "most", 9, 1, 1e3},
    };
    static const struct harness_table table = {columns, ARRAY_COUNT(columns)};
    const struct ttft_values *values = &bench->values;
    double medians[SIDE_COUNT];
    char name[32];
    struct json_print out = json_print_begin(values->json);
    print_starts(bench, &out);
    if (!values->rounds) {
        json_print_close(&out);
        return;
    }
    harness_number(&out, "prompt_tokens", (double)values->prompt);
    harness_number(&out, "stored_tokens", (double)values->stored);
    harness_number(&out, "rounds", (double)values->rounds);
    json_print_say(&out,
                   "first token of a prompt of %llu tokens, %llu of them stored; medians of %llu\n",
                   (unsigned long long)values->prompt, (unsigned long long)values->stored,
                   (unsigned long long)values->rounds);
    harness_titles(&out, &table);
    for (enum ttft_side side = 0; side < SIDE_COUNT; side++) {
        if (!bench_ttft_is_wanted(bench, side)) continue;
        struct stats_spread spread = stats_spread(bench->seconds[side], values->rounds, 0);
        const double numbers[] = {spread.median, spread.low, spread.high};
        medians[side] = spread.median;
        format_text(name, sizeof name, "%s_ms", side_keys[side]);
        harness_number(&out, name, 1e3 * spread.median);
        harness_row(&out, NULL, &table, &side_names[side], numbers);
    }
    double fast = bench_ttft_ratio(medians, DISK, CHOSEN);
    harness_number(&out, "auto_to_best", fast);
    json_print_say(&out, "the choice takes %.2f times the better of computing and loading\n", fast);
    if (values->slow_rate) {
        double slow = bench_ttft_ratio(medians, SLOW_IN_STEP, SLOW_CHOSEN);
        harness_number(&out, "slow_auto_to_best", slow);
        json_print_say(&out, "with a disk of %.1f MB/s %.2f times\n",
                       (double)values->slow_rate * 1e-6, slow);
    }
    json_print_close(&out);
}

/* ---- new tokens after a cache hit ---- */

/* Times of a number of new tokens, in seconds. */
struct ttft_length {
    double first, least, most; /* of the server's first token */
    double step, floor;        /* of a step of the model, without a server */
    double of_flops, of_read;  /* the step's shares of the machine's limits */
};

static enum status measure_length(struct ttft_bench *bench, const struct ttft_server *server,
                                  uint32_t tokens, struct ttft_length *out) {
    double seconds[ROUNDS_MAX];
    for (uint64_t round = 0; round < bench->values.rounds; round++) {
        uint32_t cached;
        enum status status = ask_some(bench, server, 0, (uint32_t)bench->values.prompt + tokens,
                                      &seconds[round], &cached);
        if (status) return status;
        if (cached != bench->values.prompt)
            return error_set(bench->error, STATUS_CORRUPT,
                             "%u tokens were cached where %lu should be: the prompt does not fit "
                             "into --kv-memory",
                             cached, (unsigned long)bench->values.prompt);
    }
    struct stats_spread spread = stats_spread(seconds, bench->values.rounds, 0);
    *out = (struct ttft_length){.first = spread.median, .least = spread.low, .most = spread.high};
    return STATUS_OK;
}

/* A step of the model alone, by bench model. */
static enum status measure_step(struct ttft_bench *bench, uint32_t tokens,
                                struct ttft_length *out) {
    struct child_command command;
    struct child_document document;
    child_own(&command, "bench", "model", "--json", "--gen=1", "--batch=1", NULL);
    child_add_count(&command, "prompt", tokens);
    child_add_count(&command, "after", bench->values.prompt);
    child_add_count(&command, "runs", bench->values.rounds);
    add_ranks(bench, &command);
    enum status status =
        child_read(command.argv, "the output of bench model", &document, bench->error);
    if (status) return status;
    const struct tree *prefill = tree_member(document.root, "prefill");
    out->step = child_number(prefill, "ttft_seconds");
    out->of_flops = child_number(prefill, "of_flops");
    out->of_read = child_number(prefill, "of_read");
    out->floor = out->step * fmax(out->of_flops, out->of_read);
    free(document.memory);
    return STATUS_OK;
}

static void bench_ttft_print_lengths(struct ttft_bench *bench, const struct ttft_length *results) {
    static const struct harness_column columns[] = {
        {"tokens", "new tokens", 10, 0, 0},
        {"first_token_ms", "first token ms", 15, 1, 1e3},
        {"least_ms", "least", 9, 1, 1e3},
        {"most_ms", "most", 9, 1, 1e3},
        {"step_ms", "its step ms", 12, 1, 1e3},
        {"floor_ms", "floor", 9, 1, 1e3},
        {"of_flops", "% of arithmetic", 16, 0, 100},
        {"of_read", "% of bandwidth", 15, 0, 100},
    };
    static const struct harness_table table = {columns, ARRAY_COUNT(columns)};
    struct json_print out = json_print_begin(bench->values.json);
    harness_number(&out, "cached_tokens", (double)bench->values.prompt);
    harness_number(&out, "rounds", (double)bench->values.rounds);
    json_print_say(&out, "after %lu cached tokens; medians of %lu\n",
                   (unsigned long)bench->values.prompt, (unsigned long)bench->values.rounds);
    json_print_open(&out, "lengths", '[');
    harness_titles(&out, &table);
    for (uint32_t i = 0; i < bench->lengths.count; i++) {
        const struct ttft_length *it = &results[i];
        const double numbers[] = {bench->lengths.values[i],
                                  it->first,
                                  it->least,
                                  it->most,
                                  it->step,
                                  it->floor,
                                  it->of_flops,
                                  it->of_read};
        harness_row(&out, NULL, &table, NULL, numbers);
    }
    json_print_close(&out);
    json_print_close(&out);
}

static enum status run_lengths(struct ttft_bench *bench) {
    struct ttft_length results[MODEL_RUN_SIZES_MAX];
    struct child_command command;
    struct ttft_server server = {.runs = false};
    double seconds;
    uint32_t cached;
    bench->values.prompt -= bench->values.prompt % KV_BLOCK_TOKENS;
    bench->values.stored = bench->values.prompt;
    child_own(&command, "serve", "--port=0", NULL);
    add_ranks(bench, &command);
    enum status status = start(bench, &command, &server);
    if (!status)
        status = ask_some(bench, &server, 0, (uint32_t)bench->values.prompt, &seconds, &cached);
    if (!status) /* the last block of a prompt is in memory once a longer one has had it */
        status = ask_some(bench, &server, 0, (uint32_t)bench->values.prompt + KV_BLOCK_TOKENS,
                          &seconds, &cached);
    for (uint32_t i = 0; i < bench->lengths.count && !status; i++)
        status = measure_length(bench, &server, bench->lengths.values[i], &results[i]);
    bench_ttft_stop(&server);
    for (uint32_t i = 0; i < bench->lengths.count && !status; i++)
        status = measure_step(bench, bench->lengths.values[i], &results[i]);
    if (!status) bench_ttft_print_lengths(bench, results);
    return status;
}

static enum status run(struct ttft_bench *bench) {
    enum status status = measure_starts(bench);
    if (status || !bench->values.rounds) return status;
    status = fill(bench);
    for (enum ttft_side side = 0; side < SIDE_COUNT && !status; side++)
        if (bench_ttft_is_wanted(bench, side)) status = open_server(bench, side);
    for (uint32_t round = 0; round < bench->values.rounds && !status; round++)
        status = bench_ttft_run_round(bench, round);
    for (enum ttft_side side = 0; side < SIDE_COUNT; side++)
        bench_ttft_stop(&bench->servers[side]);
    return status;
}

int bench_ttft(void *given, const struct option_result *result) {
    static struct ttft_bench bench;
    struct error error = {""};
    bench.values = *(const struct ttft_values *)given;
    struct ttft_values *values = &bench.values;
    if (!values->stored) values->stored = values->prompt;
    if (values->stored > values->prompt || 2 * values->stored < values->prompt)
        return command_misused("--stored is more than --prompt, or less than half of it");
    bench.error = &error;
    if (values->lengths) {
        if (!values->rounds) return command_misused("--lengths needs --rounds");
        enum status status = model_run_sizes_within("--lengths", values->lengths, 1,
                                                    KV_BLOCK_TOKENS, &bench.lengths, &error);
        if (!status) status = run_lengths(&bench);
        return command_end(status, &error);
    }
    format_text(bench.directory, sizeof bench.directory, "%.300s/fathom-bench-ttft-%d",
                bench.values.dir, (int)getpid());
    if (mkdir(bench.directory, 0700)) { /* an existing one is not ours */
        error_set(&error, STATUS_IO, "%s: cannot be made: %s", bench.directory, strerror(errno));
        return command_failed(STATUS_IO, &error);
    }
    enum status status = run(&bench);
    (void)bench_cache_clear(bench.directory, &error);
    if (!status) bench_ttft_print_report(&bench);
    return command_end(status, &error);
}

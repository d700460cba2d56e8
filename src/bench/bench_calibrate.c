/* SPDX-License-Identifier: Apache-2.0
 * fathom bench calibrate: measures the engine, the serving plane, KV transfers and the KV storage
 * on this machine, and writes a hardware file for the simulator (twin/hardware/README.md). Steps
 * are measured in separate processes, one for each number of ranks (this program again, with
 * --rows). The gap between steps and the gateway's time are measured on a server, transfers and the
 * disk by their subjects of `bench`.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "bench/bench.h"
#include "bench/calibrate_shapes.h"
#include "bench/child.h"
#include "bench/harness.h"
#include "bench/load.h"
#include "command/model_run.h"
#include "command/rank_job.h"
#include "compute/model/kv_pages.h"
#include "compute/model/model.h"
#include "host/engine/micro_batches.h"
#include "host/engine/rank_group.h"
#include "host/process/own_file.h"

#define TRANSFER_ROUNDS 3

#define CALIBRATE_ROUNDS_MAX 99

struct calibrate_step {
    struct calibrate_shape shape;
    struct stats_spread us; /* over rounds, from a step's begin to its end, with quartiles */
};

#define CALIBRATE_SERVICE_TOKENS 65 /* of an answer */
#define CALIBRATE_SERVICE_PROMPT 32 /* tokens: the mean context is 64 */

struct calibrate_service {
    struct stats_spread token_us; /* between two tokens of a lone answer, over answers */
    struct stats_spread first_us; /* from a request to its first token */
};

struct calibrate_values {
    struct model_run_values run;
    struct rank_job_values job;
    uint64_t kv_memory, context, rows_max, tokens_max, rounds, answers;
    const char *out, *dir;
    bool rows;
};

#define AT(field) .offset = offsetof(struct calibrate_values, field)

static const struct option calibrate_rows[] = {
    MODEL_RUN_OPTIONS,
    RANK_JOB_OPTIONS(struct calibrate_values),
    {"out", OPTION_TEXT, NULL, "the hardware file to write; standard output if not given", AT(out)},
    {"kv-memory", OPTION_BYTES, "1GiB",
     "memory for a unit's KV cache, for all its ranks together, as the server will have it",
     AT(kv_memory)},
    {"context", OPTION_COUNT, "1024", "positions of the longest contexts that are timed",
     AT(context), .minimum = 2 * KV_BLOCK_TOKENS, .maximum = LIMIT_CONTEXT},
    {"max-batch-rows", OPTION_COUNT, "64", "answers in a step of each rank at most", AT(rows_max),
     .minimum = 1, .maximum = LIMIT_STEP_ROWS},
    {"max-batch-tokens", OPTION_COUNT, "512", "tokens in a step of each rank at most",
     AT(tokens_max), .minimum = 128, .maximum = LIMIT_STEP_TOKENS},
    {"rounds", OPTION_COUNT, "25", "runs of each shape of step; the result is their median",
     AT(rounds), .minimum = 4, .maximum = CALIBRATE_ROUNDS_MAX},
    {"answers", OPTION_COUNT, "60", "answers of which the serving plane's times are medians",
     AT(answers), .minimum = 4, .maximum = 10000},
    {"dir", OPTION_TEXT, ".", "a directory on the disk of the KV storage", AT(dir)},
    {"rows", OPTION_FLAG, NULL, "time steps of --ranks ranks alone, and print one JSON object",
     AT(rows)},
};

const struct option_table bench_calibrate_options = {
    .command = "bench calibrate",
    .arguments = "",
    .description = "Measures this machine into a hardware file, by which `fathom sim` times steps.",
    .options = calibrate_rows,
    .option_count = ARRAY_COUNT(calibrate_rows),
};

/* ---- timed steps ---- */

/* Step plans go to all ranks' engines, which choose tokens too, as when serving. Shapes are timed
 * in turn, round by round, so that a disturbance affects all of them alike. In a round a shape runs
 * twice, and the second time counts. Tokens are random. All pages are filled with rows of such
 * prompts first, so that contexts are read from memory. */

struct step_timer {
    struct rank_group *group;
    const struct calibrate_limits *limits;
    struct micro_batches micro_batches;
    uint32_t pages_each; /* of a sequence */
    uint32_t vocab, drawn;
    struct step_plan **plans;     /* [ranks] */
    struct step_result **results; /* [ranks] */
};

/* ---- plans ---- */

static void begin_plan(struct step_timer *timer, uint32_t rank,
                       const struct calibrate_shape *shape) {
    struct step_plan *plan = timer->plans[rank];
    bool busy = rank == 0 || !shape->one_busy;
    uint32_t rows = busy ? shape->chunks + shape->rows : 0;
    *plan = (struct step_plan){
        .row_count = rows,
        .token_count = busy ? shape->chunks * shape->chunk_tokens + shape->rows : 0,
        .page_count = rows * timer->pages_each,
        .rank = (uint16_t)rank,
    };
    record_set_head(plan, RECORD_RUN_STEP);
}

/* Row `index` of a rank's plan, for this sequence. */
static void set_row(struct step_timer *timer, struct step_plan *plan, uint32_t index,
                    uint32_t sequence, struct step_row row) {
    row.slot = sequence;
    row.page_index = index * timer->pages_each;
    row.page_count = timer->pages_each;
    row.logits_count = row.sample = row.fresh = 1;
    row.next_token = STEP_NO_TOKEN;
    row.sampling = (struct sampling){.top_p = 1};
    step_plan_rows(plan)[index] = row;
    for (uint32_t i = 0; i < row.token_count; i++)
        step_plan_tokens(plan)[row.token_index + i] =
            (uint32_t)(random_uniform(1, plan->rank, timer->drawn++) * timer->vocab);
    for (uint32_t i = 0; i < timer->pages_each; i++)
        step_plan_pages(plan)[row.page_index + i].index = sequence * timer->pages_each + i;
}

static void bench_calibrate_make_plan(struct step_timer *timer, uint32_t rank,
                                      const struct calibrate_shape *shape) {
    struct step_plan *plan = timer->plans[rank];
    uint32_t token = 0;
    begin_plan(timer, rank, shape);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        bool answer = i < shape->rows; /* in the order of a unit: answers first */
        struct step_row row = {
            .form = answer ? TOKEN_GENERATED : TOKEN_PROMPT,
            .first_position = answer ? shape->context - 1 : shape->cached,
            .token_count = answer ? 1 : shape->chunk_tokens,
            .token_index = token,
            .output_position = answer,
        };
        token += row.token_count;
        set_row(timer, plan, i, i, row);
    }
}

/* ---- timed steps ---- */

static enum status bench_calibrate_run_step(struct step_timer *timer, double *us_out,
                                            struct error *error) {
    uint32_t ranks = timer->limits->ranks;
    int64_t began_ns = clock_now_ns();
    micro_batches_begin(&timer->micro_batches, timer->plans, ranks,
                        model_shape(rank_group_model(timer->group)));
    rank_group_run(timer->group, (const struct step_plan *const *)timer->plans, timer->results,
                   error);
    micro_batches_end(&timer->micro_batches, timer->results[0]->compute_ns);
    *us_out = (double)(clock_now_ns() - began_ns) * 1e-3;
    for (uint32_t rank = 0; rank < ranks; rank++)
        if (timer->results[rank]->failed) return STATUS_INVALID;
    return STATUS_OK;
}

/* Writes rows to every page of every sequence. */
static enum status bench_calibrate_fill_pages(struct step_timer *timer, struct error *error) {
    const struct calibrate_limits *limits = timer->limits;
    enum status status = STATUS_OK;
    uint32_t chunk = limits->tokens_max / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
    for (uint32_t sequence = 0; sequence < limits->rows_max; sequence++)
        for (uint32_t done = 0; done < limits->context_max && !status; done += chunk) {
            uint32_t left = limits->context_max - done;
            struct calibrate_shape shape = {
                .chunks = 1, .chunk_tokens = left < chunk ? left : chunk, .cached = done};
            double us;
            for (uint32_t rank = 0; rank < limits->ranks; rank++) {
                struct step_row row = {.form = TOKEN_PROMPT,
                                       .first_position = done,
                                       .token_count = shape.chunk_tokens};
                begin_plan(timer, rank, &shape);
                set_row(timer, timer->plans[rank], 0, sequence, row);
            }
            status = bench_calibrate_run_step(timer, &us, error);
        }
    return status;
}

/* Times the second of two steps: while serving, most steps follow one of the same kind, so its
 * weights and rows are still in the caches. */
static enum status time_shape(struct step_timer *timer, const struct calibrate_shape *shape,
                              double *us_out, struct error *error) {
    enum status status = STATUS_OK;
    for (int turn = 0; turn < 2 && !status; turn++) {
        for (uint32_t rank = 0; rank < timer->limits->ranks; rank++)
            bench_calibrate_make_plan(timer, rank, shape);
        status = bench_calibrate_run_step(timer, us_out, error);
    }
    return status;
}

/* ---- memory ---- */

static enum status open_timer(struct step_timer *timer, struct error *error) {
    const struct calibrate_limits *limits = timer->limits;
    struct step_plan largest = {.row_count = limits->rows_max,
                                .token_count = limits->tokens_max,
                                .page_count = limits->rows_max * timer->pages_each};
    timer->plans = calloc(limits->ranks, sizeof *timer->plans);
    timer->results = calloc(limits->ranks, sizeof *timer->results);
    bool whole = timer->plans && timer->results;
    for (uint32_t rank = 0; whole && rank < limits->ranks; rank++) {
        timer->plans[rank] = calloc(1, record_bytes(RECORD_RUN_STEP, &largest));
        timer->results[rank] =
            calloc(1, step_result_bytes_max(limits->rows_max, limits->tokens_max));
        whole = timer->plans[rank] && timer->results[rank];
    }
    return whole ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for steps");
}

static void close_timer(struct step_timer *timer) {
    for (uint32_t rank = 0; rank < timer->limits->ranks; rank++) {
        if (timer->plans) free(timer->plans[rank]);
        if (timer->results) free(timer->results[rank]);
    }
    free(timer->plans);
    free(timer->results);
}

static enum status time_all(struct step_timer *timer, uint32_t rounds, struct calibrate_step *steps,
                            uint32_t count, struct error *error) {
    static double us[CALIBRATE_SHAPES_MAX][CALIBRATE_ROUNDS_MAX];
    double warm;
    enum status status = bench_calibrate_fill_pages(timer, error);
    for (uint32_t i = 0; i < count && !status; i++) /* the first step of a shape touches its
                                                     * memory */
        status = time_shape(timer, &steps[i].shape, &warm, error);
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t i = 0; i < count && !status; i++)
            status = time_shape(timer, &steps[i].shape, &us[i][round], error);
    for (uint32_t i = 0; i < count && !status; i++)
        steps[i].us = stats_spread(us[i], rounds, 0.25);
    return status;
}

static enum status time_steps(struct rank_group *group, const char *schedule,
                              const struct calibrate_limits *limits, uint32_t rounds,
                              struct calibrate_step *steps_out, uint32_t *count_out,
                              struct error *error) {
    struct calibrate_shape shapes[CALIBRATE_SHAPES_MAX];
    struct step_timer timer = {
        .group = group,
        .limits = limits,
        .pages_each = (uint32_t)divide_up(limits->context_max, KV_BLOCK_TOKENS),
        .vocab = model_shape(rank_group_model(group))->vocab,
    };
    check(rounds >= 1 && rounds <= CALIBRATE_ROUNDS_MAX);
    check(limits->ranks == rank_group_count(group) &&
          micro_batches_named(schedule, &timer.micro_batches));
    *count_out = calibrate_shapes_list(limits, shapes);
    for (uint32_t i = 0; i < *count_out; i++)
        steps_out[i].shape = shapes[i];
    enum status status = open_timer(&timer, error);
    if (!status) status = time_all(&timer, rounds, steps_out, *count_out, error);
    close_timer(&timer);
    return status;
}

/* ---- steps of one number of ranks: --rows ---- */

static void print_step(struct json_print *print, const struct calibrate_step *step,
                       uint32_t ranks) {
    const struct calibrate_share share = calibrate_shapes_share(&step->shape);
    json_print_open(print, NULL, '[');
    json_print_values(print, "%u,%u,%lu,%lu,%lu,%lu,%lu,%lu,%.1f,%.1f,%.1f", ranks,
                      step->shape.one_busy ? 1 : ranks, share.prompt_tokens, share.attended,
                      share.cached, share.answer_rows, share.answer_tokens, share.context,
                      step->us.median, step->us.low, step->us.high);
    json_print_close(print);
}

static void print_rows(struct model *model, const char *kernels, const struct calibrate_step *steps,
                       uint32_t count, uint32_t ranks) {
    struct json_print print = json_print_begin(true);
    const struct kv_format *format = &model_kv_pages(model)->format;
    json_print_values(&print,
                      "\"kernels\":\"%s\",\"numerics\":\"%s\",\"weight_bytes\":%lu,"
                      "\"page_count\":%u,\"page_bytes\":%lu,\"layers\":%u,\"width\":%u,"
                      "\"vocab\":%u",
                      kernels, model_numerics_id(model), model_weight_bytes(model),
                      model_page_count(model), model_page_bytes(model), model_shape(model)->layers,
                      (uint32_t)(kv_format_token_bytes(format) / format->slice_count / 2),
                      model_shape(model)->vocab);
    json_print_open(&print, "rows", '[');
    for (uint32_t i = 0; i < count; i++)
        print_step(&print, &steps[i], ranks);
    json_print_close(&print);
    json_print_close(&print);
}

static enum status bench_calibrate_time_rows(const struct calibrate_values *values,
                                             struct rank_group *group, const char *kernels,
                                             struct error *error) {
    static struct calibrate_step steps[CALIBRATE_SHAPES_MAX];
    struct model *model = rank_group_model(group);
    struct calibrate_limits limits = {.ranks = rank_group_count(group),
                                      .rows_max = (uint32_t)values->rows_max,
                                      .tokens_max = (uint32_t)values->tokens_max,
                                      .context_max = (uint32_t)values->context};
    uint32_t count, room = model_page_count(model) / limits.rows_max * KV_BLOCK_TOKENS;
    if (limits.context_max > model_shape(model)->context_max)
        limits.context_max = model_shape(model)->context_max;
    if (limits.context_max > room) limits.context_max = room;
    if (room < 2 * KV_BLOCK_TOKENS)
        return error_set(error, STATUS_INVALID,
                         "--kv-memory: %u sequences need %u pages on each rank, and there are %u",
                         limits.rows_max, 2 * limits.rows_max, model_page_count(model));
    enum status status = time_steps(group, values->run.schedule, &limits, (uint32_t)values->rounds,
                                    steps, &count, error);
    if (status) return status;
    print_rows(model, kernels, steps, count, limits.ranks);
    return STATUS_OK;
}

static enum status measure_rows(const struct calibrate_values *values, struct error *error) {
    struct model_options options = {0};
    const struct kernels *kernels;
    struct rank_group *group;
    enum status status = model_run_options(&values->run, &options, error);
    if (!status) status = kernels_select(options.level, &kernels, error);
    if (!status) status = rank_job_options(&values->job, &options, error);
    if (status) return status;
    options.kv_bytes = values->kv_memory / values->job.ranks;
    options.step_tokens_max = (uint32_t)values->tokens_max;
    options.step_rows_max = (uint32_t)values->rows_max;
    status = rank_group_open_engines(&options, &group, error);
    if (status) return status;
    status = bench_calibrate_time_rows(values, group, kernels->name, error);
    rank_group_close(group);
    return status;
}

/* ---- a server ---- */

/* Clients send one request after another. Between two tokens of one answer there is a step and a
 * gap. Before the first token there are the gateway, the prompt's step and the way back. The client
 * runs on the same machine, so these times include it, as in `bench serve`. */

#define ANSWER_SECONDS_MAX 300
#define WARM 3 /* answers before the measured ones */
#define TOKEN_LOW 300

static enum status take_times(const struct load_outcome *outcome, struct calibrate_service *service,
                              struct error *error) {
    size_t count = outcome->request_count - WARM;
    double *first = calloc(count, sizeof *first), *token = calloc(count, sizeof *token);
    enum status status =
        first && token ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for times");
    for (size_t i = 0; i < count && !status; i++) {
        const struct load_result *result = &outcome->results[i + WARM];
        if (result->failure != LOAD_OK || result->output_tokens != CALIBRATE_SERVICE_TOKENS)
            status = error_set(error, STATUS_IO, "the server's answer %zu is not whole: %s", i,
                               outcome->messages[result->failure]);
        first[i] = (result->first - result->sent) * 1e6;
        token[i] = (result->last - result->first) * 1e6 / (CALIBRATE_SERVICE_TOKENS - 1);
    }
    if (!status) {
        service->first_us = stats_spread(first, count, 0.25);
        service->token_us = stats_spread(token, count, 0.25);
    }
    free(first);
    free(token);
    return status;
}

static enum status ask_server(const char *url, uint32_t answers, uint32_t token_high,
                              struct calibrate_service *service, struct error *error) {
    struct load_request *requests = calloc(answers + WARM, sizeof *requests);
    struct load_options options = {.url = url,
                                   .concurrency = 1,
                                   .ignore_eos = true,
                                   /* A token may be part of a character, without any text. */
                                   .extra = "\"return_token_ids\":true",
                                   .token_low = TOKEN_LOW,
                                   .token_high = token_high,
                                   .stall_ms_max = ANSWER_SECONDS_MAX * 1000,
                                   .seed = 1};
    struct load_outcome outcome;
    if (!requests) return error_set(error, STATUS_NO_MEMORY, "no memory for requests");
    for (uint32_t i = 0; i < answers + WARM; i++)
        requests[i] = (struct load_request){.prompt_tokens = CALIBRATE_SERVICE_PROMPT,
                                            .output_tokens = CALIBRATE_SERVICE_TOKENS};
    enum status status = load_run(&options, requests, answers + WARM, &outcome, error);
    free(requests);
    if (status) return status;
    status = take_times(&outcome, service, error);
    load_outcome_free(&outcome);
    return status;
}

static enum status bench_calibrate_run_server(const char *const *argv, uint32_t answers,
                                              uint32_t token_high,
                                              struct calibrate_service *service_out,
                                              struct error *error) {
    struct child child;
    char url[CHILD_URL_BYTES];
    enum status status = child_serve(argv, &child, url, error);
    if (status) return status;
    status = ask_server(url, answers, token_high, service_out, error);
    child_stop(&child);
    return status;
}

/* ---- children ---- */

struct calibration {
    const struct calibrate_values *values;
    struct child_document alone, ranks; /* output of --rows; `ranks` without a root: one rank */
    struct calibrate_service service;
    double transfer_gbps, transfer_us, memory_gbps, disk_gbps;
};

static void add_engine(struct child_command *command, const struct calibrate_values *values) {
    child_add_model(command, &values->run);
    child_add_count(command, "kv-memory", values->kv_memory);
    child_add_count(command, "max-batch-rows", values->rows_max);
    child_add_count(command, "max-batch-tokens", values->tokens_max);
}

static enum status run_rows(const struct calibration *all, uint64_t ranks,
                            struct child_document *document_out, struct error *error) {
    struct child_command command;
    child_own(&command, "bench", "calibrate", "--rows", NULL);
    add_engine(&command, all->values);
    child_add_count(&command, "ranks", ranks);
    child_add_count(&command, "context", all->values->context);
    child_add_count(&command, "rounds", all->values->rounds);
    return child_read(command.argv, "calibrate --rows", document_out, error);
}

static enum status run_service(struct calibration *all, struct error *error) {
    struct child_command command;
    child_own(&command, "serve", "--port=0", "--mtp=off", NULL);
    add_engine(&command, all->values);
    return bench_calibrate_run_server(command.argv, (uint32_t)all->values->answers,
                                      (uint32_t)child_number(all->alone.root, "vocab"),
                                      &all->service, error);
}

/* Finds the rates of the fastest cases, and the fixed time of the smallest case. */
static enum status bench_calibrate_run_transfer(struct calibration *all, struct error *error) {
    struct child_command command;
    struct child_document document;
    child_own(&command, "bench", "transfer", "--json", NULL);
    child_add_count(&command, "rounds", TRANSFER_ROUNDS);
    enum status status = child_read(command.argv, "bench transfer", &document, error);
    if (status) return status;
    const struct tree *cases = tree_member(document.root, "cases"), *least = tree_at(cases, 0);
    for (size_t i = 0; i < tree_count(cases); i++) {
        const struct tree *one = tree_at(cases, i);
        double bytes = child_number(one, "bytes");
        double rate = bytes * 8e-9 / child_number(tree_member(one, "transfer"), "seconds");
        double copied = bytes * 2e-9 / child_number(tree_member(one, "memcpy"), "seconds");
        if (rate > all->transfer_gbps) all->transfer_gbps = rate;
        if (copied > all->memory_gbps) all->memory_gbps = copied;
    }
    all->transfer_us = child_number(tree_member(least, "transfer"), "seconds") * 1e6 -
                       child_number(least, "bytes") * 8e-3 / all->transfer_gbps;
    free(document.memory);
    return STATUS_OK;
}

static enum status run_disk(struct calibration *all, struct error *error) {
    struct child_command command;
    struct child_document document;
    child_own(&command, "bench", "cache", "--json", "--size=256MiB", "--index-blocks=0", NULL);
    child_add_option(&command, "dir", all->values->dir);
    child_add_count(&command, "layers", (uint64_t)child_number(all->alone.root, "layers"));
    child_add_count(&command, "width", (uint64_t)child_number(all->alone.root, "width"));
    enum status status = child_read(command.argv, "bench cache", &document, error);
    if (status) return status;
    all->disk_gbps = child_number(document.root, "read_mb_s") * 8e-3;
    free(document.memory);
    return STATUS_OK;
}

/* ---- the file ---- */

/* The time of the row with exactly this share; 0: none. */
static double step_us(const struct tree *measured, double prompt, double rows, double context) {
    const struct tree *all = tree_member(measured, "rows");
    for (size_t i = 0; i < tree_count(all); i++) {
        double values[11];
        for (size_t j = 0; j < ARRAY_COUNT(values); j++)
            if (!tree_get_number(tree_at(tree_at(all, i), j), &values[j])) return 0;
        if (values[2] == prompt && values[4] == 0 && values[5] == rows && values[7] == context)
            return values[8];
    }
    return 0;
}

static double at_least_0(double value) {
    return value > 0 ? value : 0;
}

static void bench_calibrate_write_rows(FILE *file, const struct tree *measured) {
    const struct tree *all = tree_member(measured, "rows");
    for (size_t i = 0; i < tree_count(all); i++) {
        fprintf(file, "  - [");
        for (size_t j = 0; j < 9; j++) {
            double value = 0;
            check(tree_get_number(tree_at(tree_at(all, i), j), &value));
            fprintf(file, "%s%.12g", j ? ", " : "", value);
        }
        fprintf(file, "]\n");
    }
}

static void write_service(FILE *file, const struct calibration *all) {
    const struct calibrate_service *service = &all->service;
    double token = step_us(all->alone.root, 0, 1, KV_BLOCK_TOKENS);
    double prompt = step_us(all->alone.root, CALIBRATE_SERVICE_PROMPT, 0, 0);
    fprintf(file,
            "step_gap_us: {value: %.5g, source: \"%.5g us between an answer's tokens "
            "(%.5g..%.5g, quartiles of %" PRIu64 " answers) less the step's %.5g\"}\n",
            at_least_0(service->token_us.median - token), service->token_us.median,
            service->token_us.low, service->token_us.high, all->values->answers, token);
    fprintf(file,
            "request_us: {value: %.5g, source: \"%.5g us from a request to its first token "
            "(%.5g..%.5g) less the step's %.5g; the way back is in it\"}\n",
            at_least_0(service->first_us.median - prompt), service->first_us.median,
            service->first_us.low, service->first_us.high, prompt);
    fprintf(file, "token_us: {value: 0, source: \"in request_us and step_gap_us\"}\n");
}

static void write_file(FILE *file, const struct calibration *all) {
    const struct tree *alone = all->alone.root;
    struct bytes kernels, numerics;
    char model[256], day[32];
    time_t now = time(NULL);
    double weights = child_number(alone, "weight_bytes"), pages = child_number(alone, "page_count");
    strftime(day, sizeof day, "%Y-%m-%d", gmtime(&now));
    check(tree_get_string(tree_member(alone, "kernels"), &kernels) &&
          tree_get_string(tree_member(alone, "numerics"), &numerics));
    model_run_name(all->values->run.model ? all->values->run.model : "tiny-r1", NULL, model);
    fprintf(file,
            "# SPDX-License-Identifier: Apache-2.0\n# Written by `fathom bench calibrate`.\n");
    fprintf(file, "name: cpu-here\ngpus_per_node: %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
    fprintf(file, "hbm_bytes: {value: %.0f, source: \"weights and KV pages of a rank alone\"}\n",
            weights + pages * child_number(alone, "page_bytes"));
    fprintf(file,
            "hbm_gbps: {value: %.5g, source: \"fathom bench transfer: memcpy, read and written\"}\n"
            "nvlink_gbps: {value: %.5g, source: \"as nic_gbps: the same memory\"}\n",
            all->memory_gbps, all->transfer_gbps / 8);
    fprintf(file, "host_memory_bytes: {value: %.0f, source: \"the machine's\"}\n",
            (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE));
    fprintf(file, "nic_gbps: {value: %.5g, source: \"fathom bench transfer, the fastest\"}\n",
            all->transfer_gbps);
    fprintf(file,
            "network_latency_us: {value: %.5g, source: \"fathom bench transfer, the least\"}\n",
            at_least_0(all->transfer_us));
    fprintf(file, "storage_gbps: {value: %.5g, source: \"fathom bench cache, cold reads\"}\n",
            all->disk_gbps);
    fprintf(file,
            "storage_latency_us: {value: 0, source: \"in storage_gbps: reads of whole prompts\"}\n"
            "node_price: {value: 0, source: \"the scenario's prices say\"}\n");
    write_service(file, all);
    fprintf(file,
            "steps:\n  source: \"fathom bench calibrate, %s, kernels %.*s, numerics %.*s, "
            "%" PRIu64 " threads a rank (0: all), medians of %" PRIu64 "\"\n"
            "  model: %s\n  weight_bytes: %.0f\n  page_count: %.0f\n"
            "  columns: [ranks, busy, prompt_tokens, attended, cached, answer_rows, answer_tokens, "
            "context, us]\n  rows:\n",
            day, (int)kernels.count, kernels.data, (int)numerics.count, numerics.data,
            all->values->run.threads, all->values->rounds, model, weights, pages);
    bench_calibrate_write_rows(file, alone);
    if (all->ranks.root) bench_calibrate_write_rows(file, all->ranks.root);
}

/* The median row's interquartile range of times, in percent. */
static double bench_calibrate_spread(const struct tree *measured) {
    const struct tree *all = tree_member(measured, "rows");
    static double widths[CALIBRATE_SHAPES_MAX];
    uint32_t count = (uint32_t)tree_count(all);
    check(count >= 1 && count <= ARRAY_COUNT(widths));
    for (uint32_t i = 0; i < count; i++) {
        double us, low, high;
        const struct tree *row = tree_at(all, i);
        check(tree_get_number(tree_at(row, 8), &us) && tree_get_number(tree_at(row, 9), &low) &&
              tree_get_number(tree_at(row, 10), &high));
        widths[i] = 100 * (high - low) / us;
    }
    return stats_median(widths, count);
}

static void say_steps(const struct tree *measured, uint64_t ranks, double seconds) {
    fprintf(stderr,
            "%zu shapes of steps on %" PRIu64
            " ranks in %.0f s; half of a shape's times lie within %.1f %%\n",
            tree_count(tree_member(measured, "rows")), ranks, seconds,
            bench_calibrate_spread(measured));
}

static enum status bench_calibrate_measure(struct calibration *all, struct error *error) {
    double began = machine_limits_now();
    uint64_t ranks = all->values->job.ranks;
    enum status status = run_rows(all, 1, &all->alone, error);
    if (status) return status;
    say_steps(all->alone.root, 1, machine_limits_now() - began);
    began = machine_limits_now();
    if (ranks > 1) status = run_rows(all, ranks, &all->ranks, error);
    if (status) return status;
    if (ranks > 1) say_steps(all->ranks.root, ranks, machine_limits_now() - began);
    status = run_service(all, error);
    if (!status) status = bench_calibrate_run_transfer(all, error);
    return status ? status : run_disk(all, error);
}

static enum status write_out(const struct calibration *all, struct error *error) {
    const char *path = all->values->out;
    FILE *file = path ? own_file_report(path) : stdout;
    if (!file) return error_set(error, STATUS_IO, "%s: cannot be written", path);
    write_file(file, all);
    bool whole = !ferror(file);
    if (path) whole = fclose(file) == 0 && whole;
    return whole ? STATUS_OK : error_set(error, STATUS_IO, "%s: cannot be written", path);
}

static enum status calibrate(const struct calibrate_values *values, struct error *error) {
    struct calibration all = {.values = values};
    enum status status = engine_check_device(values->run.device, error);
    if (!status) status = bench_calibrate_measure(&all, error);
    if (!status) status = write_out(&all, error);
    free(all.alone.memory);
    free(all.ranks.memory);
    return status;
}

int bench_calibrate(void *given, const struct option_result *result) {
    struct calibrate_values *values = given;
    struct error error = {.text = ""};
    int exit_code;
    if (values->rows && rank_job_begin(RANK_JOB_DRIVEN, &values->job, &exit_code)) return exit_code;
    enum status status = values->rows ? measure_rows(values, &error) : calibrate(values, &error);
    return command_end(status, &error);
}

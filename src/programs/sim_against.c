/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/sim_against.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/tree.h"
#include "bench/harness.h"

#define RUN_BYTES_MAX ((size_t)256 << 20)
#define TREE_BYTES_EACH 64 /* upper bound of memory per byte of JSON */

struct against_seen { /* seconds; of the real run's clients, or of the simulator's */
    double *first, *token;
    size_t first_count, token_count, failed;
    uint64_t prompt_tokens, hit_tokens, answer_tokens;
    double end;
};

struct sim_against {
    void *memory; /* holds the tree and the blocks */
    struct arena arena;
    struct simulator_request *requests; /* [count], by arrival */
    size_t count, given;
    struct against_seen real, simulator;
};

/* ---- the run's file ---- */

static enum status lacks(const char *path, const char *what, struct error *error) {
    return error_set(error, STATUS_INVALID,
                     "%.200s: expected what `fathom bench serve --json --each` prints; %s", path,
                     what);
}

static bool get_count(const struct tree *object, const char *name, uint32_t *out) {
    int64_t value;
    if (!tree_get_integer(tree_member(object, name), &value) || value < 0 || value > UINT32_MAX)
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool get_seconds(const struct tree *object, const char *name, double *out) {
    return tree_get_number(tree_member(object, name), out) && *out >= 0 && *out < 1e9;
}

static bool sim_against_read_blocks(struct arena *arena, const struct tree *list,
                                    struct simulator_request *request) {
    size_t count = tree_count(list);
    uint64_t *blocks = arena_take(arena, (count + 1) * sizeof *blocks);
    if (!blocks || (count > 0 && request->block_tokens == 0)) return false;
    if (request->block_tokens > 0 && count > request->prompt_tokens / request->block_tokens)
        count = request->prompt_tokens / request->block_tokens;
    for (size_t i = 0; i < count; i++) {
        int64_t id;
        if (!tree_get_integer(tree_at(list, i), &id)) return false;
        blocks[i] = (uint64_t)id;
    }
    request->blocks = blocks;
    request->block_count = (uint32_t)count;
    if (request->block_tokens == 0) request->block_tokens = request->prompt_tokens;
    return true;
}

static void sim_against_see(struct against_seen *seen, double arrival, double first, double last,
                            uint32_t tokens) {
    seen->first[seen->first_count++] = first - arrival;
    if (tokens > 1) seen->token[seen->token_count++] = (last - first) / (tokens - 1);
    seen->answer_tokens += tokens;
    if (last > seen->end) seen->end = last;
}

static bool read_request(struct sim_against *against, const struct tree *tree) {
    struct simulator_request request = {.tenant = against->count};
    double sent, first, last;
    uint32_t hits;
    struct bytes outcome;
    bool whole = get_count(tree, "prompt_tokens", &request.prompt_tokens) &&
                 get_count(tree, "output_tokens", &request.answer_tokens) &&
                 get_count(tree, "cached_tokens", &hits) &&
                 get_count(tree, "block_tokens", &request.block_tokens) &&
                 get_seconds(tree, "sent", &sent) && get_seconds(tree, "first", &first) &&
                 get_seconds(tree, "last", &last) &&
                 tree_get_string(tree_member(tree, "outcome"), &outcome) &&
                 sim_against_read_blocks(&against->arena, tree_member(tree, "blocks"), &request);
    if (!whole) return false;
    if (!bytes_equal(outcome, bytes_of("ok")) || !request.prompt_tokens || !request.answer_tokens) {
        against->real.failed++;
        return true;
    }
    request.arrival_ns = (int64_t)(sent * 1e9);
    against->requests[against->count++] = request;
    against->real.prompt_tokens += request.prompt_tokens;
    against->real.hit_tokens += hits;
    sim_against_see(&against->real, sent, first, last, request.answer_tokens);
    return true;
}

static int compare_arrivals(const void *a, const void *b) {
    const struct simulator_request *x = a, *y = b;
    if (x->arrival_ns != y->arrival_ns) return x->arrival_ns < y->arrival_ns ? -1 : 1;
    return x->tenant < y->tenant ? -1 : x->tenant > y->tenant;
}

static bool sim_against_take_room(struct sim_against *against, size_t count) {
    struct against_seen *both[] = {&against->real, &against->simulator};
    against->requests = calloc(count + 1, sizeof *against->requests);
    bool whole = against->requests != NULL;
    for (size_t i = 0; i < ARRAY_COUNT(both); i++) {
        both[i]->first = calloc(count + 1, sizeof(double));
        both[i]->token = calloc(count + 1, sizeof(double));
        whole = whole && both[i]->first && both[i]->token;
    }
    return whole;
}

static enum status read_run(struct sim_against *against, struct bytes text, const char *path,
                            struct error *error) {
    const struct tree *tree;
    size_t room = text.count * TREE_BYTES_EACH + 65536;
    against->memory = malloc(room);
    arena_over(&against->arena, against->memory, against->memory ? room : 0);
    enum status status = tree_parse(&against->arena, text, path, &tree, error);
    if (status) return status;
    const struct tree *each = tree_member(tree, "each");
    if (!each || tree_count(each) == 0) return lacks(path, "`each` is missing", error);
    if (!sim_against_take_room(against, tree_count(each)))
        return error_set(error, STATUS_NO_MEMORY, "no memory for the requests of %.200s", path);
    for (size_t i = 0; i < tree_count(each); i++)
        if (!read_request(against, tree_at(each, i)))
            return lacks(path, "a request is not whole", error);
    if (against->count == 0) return lacks(path, "no request was answered", error);
    qsort(against->requests, against->count, sizeof *against->requests, compare_arrivals);
    return STATUS_OK;
}

enum status sim_against_open(const char *path, struct sim_against **against_out,
                             struct error *error) {
    struct bytes text;
    enum status status = file_take(path, RUN_BYTES_MAX, &text, error);
    if (status) return status;
    struct sim_against *against = calloc(1, sizeof *against);
    status = against ? read_run(against, text, path, error)
                     : error_set(error, STATUS_NO_MEMORY, "no memory for %.200s", path);
    free((void *)(uintptr_t)text.data);
    if (!status)
        *against_out = against;
    else
        sim_against_close(against);
    return status;
}

void sim_against_close(struct sim_against *against) {
    if (!against) return;
    free(against->real.first);
    free(against->real.token);
    free(against->simulator.first);
    free(against->simulator.token);
    free(against->requests);
    free(against->memory);
    free(against);
}

/* ---- the simulated run ---- */

static bool sim_against_next_request(void *self, struct simulator_request *request_out) {
    struct sim_against *against = self;
    if (against->given == against->count) return false;
    *request_out = against->requests[against->given++];
    return true;
}

static void sim_against_receive_end(void *context, const struct simulator_ended *ended) {
    struct sim_against *against = context;
    if (ended->failed) {
        against->simulator.failed++;
        return;
    }
    against->simulator.prompt_tokens += ended->prompt_tokens;
    against->simulator.hit_tokens += ended->hit_tokens;
    sim_against_see(&against->simulator, (double)ended->arrival_ns * 1e-9,
                    (double)ended->first_ns * 1e-9, (double)ended->end_ns * 1e-9,
                    ended->answer_tokens);
}

void sim_against_listen(struct sim_against *against, struct simulator_options *options) {
    options->source = (struct simulator_source){against, sim_against_next_request};
    options->settle_ns = options->warm_ns = options->measure_ns = 0;
    options->context = against;
    options->begun = NULL;
    options->ended = sim_against_receive_end;
    options->sampled = NULL;
}

/* ---- both ---- */

struct against_row {
    const char *name;
    double real, simulator, aim; /* aim: percent, or points of a share */
    bool share;
};

static void sim_against_print_row(const struct against_row *row) {
    double error = row->share ? row->simulator - row->real : 100 * (row->simulator / row->real - 1);
    printf("%-26s %10.2f %10.2f %+9.2f %-6s within %.3g: %s\n", row->name, row->real,
           row->simulator, error, row->share ? "points" : "%", row->aim,
           error <= row->aim && error >= -row->aim ? "yes" : "no");
}

static double sim_against_hits_of(const struct against_seen *seen) {
    return 100 * (double)seen->hit_tokens / (double)seen->prompt_tokens;
}

static double rate_of(const struct against_seen *seen) {
    return (double)seen->answer_tokens / seen->end;
}

static void sim_against_print_table(const struct sim_against *against) {
    const struct against_seen *real = &against->real, *simulator = &against->simulator;
    struct stats first[2] = {stats_of(real->first, real->first_count),
                             stats_of(simulator->first, simulator->first_count)};
    struct stats token[2] = {stats_of(real->token, real->token_count),
                             stats_of(simulator->token, simulator->token_count)};
    const struct against_row rows[] = {
        {"output tokens/s", rate_of(real), rate_of(simulator), 3, false},
        {"TPOT p50, ms", 1e3 * token[0].p50, 1e3 * token[1].p50, 3, false},
        {"TPOT mean, ms", 1e3 * token[0].mean, 1e3 * token[1].mean, 3, false},
        {"TTFT p50, ms", 1e3 * first[0].p50, 1e3 * first[1].p50, 6, false},
        {"TTFT p99, ms", 1e3 * first[0].p99, 1e3 * first[1].p99, 12, false},
        {"hits, % of prompt tokens", sim_against_hits_of(real), sim_against_hits_of(simulator), 0.1,
         true},
    };
    printf("%zu requests; %zu failed for real, %zu in the twin\n", against->count, real->failed,
           simulator->failed);
    printf("%-26s %10s %10s %9s\n", "", "real", "twin", "error");
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        sim_against_print_row(&rows[i]);
}

/* Uses the names of a server's metrics, which bench/twin_against.py saves with a run. */
static void print_steps(struct json_print *print, const struct simulator_report *report) {
    uint64_t steps = 0;
    double ns = 0;
    for (size_t i = 0; i < ARRAY_COUNT(report->roles); i++) {
        steps += report->roles[i].steps;
        ns += report->roles[i].step_ns;
    }
    json_print_open(print, "steps", '{');
    json_print_number(print, "fathom_step_compute_seconds_sum", 1e-9 * ns, 9);
    json_print_count(print, "fathom_step_compute_seconds_count", steps);
    json_print_close(print);
}

static void sim_against_print_json(const struct against_seen *seen,
                                   const struct simulator_report *report) {
    const struct stats first = stats_of(seen->first, seen->first_count);
    const struct stats token = stats_of(seen->token, seen->token_count);
    struct json_print out = json_print_begin(true);
    harness_number(&out, "requests", (double)(seen->first_count + seen->failed));
    harness_number(&out, "failed", (double)seen->failed);
    harness_number(&out, "seconds", seen->end);
    harness_number(&out, "prompt_tokens", (double)seen->prompt_tokens);
    harness_number(&out, "cached_tokens", (double)seen->hit_tokens);
    harness_number(&out, "output_tokens", (double)seen->answer_tokens);
    harness_stats(&out, "ttft_seconds", NULL, 0, &first);
    harness_stats(&out, "tpot_seconds", NULL, 0, &token);
    print_steps(&out, report);
    json_print_close(&out);
}

enum status sim_against_print(const struct sim_against *against,
                              const struct simulator_report *report, bool json,
                              struct error *error) {
    if (against->simulator.first_count == 0)
        return error_set(error, STATUS_CORRUPT, "the twin answered none of the run's requests");
    if (json)
        sim_against_print_json(&against->simulator, report);
    else
        sim_against_print_table(against);
    return STATUS_OK;
}

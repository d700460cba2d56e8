/* SPDX-License-Identifier: Apache-2.0
 * fathom eplb: places experts on ranks for given loads (serving/policy/balance/balance_experts.h).
 * It reports the balance of the ranks, the best possible balance, and the traffic between nodes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/file.h"
#include "base/limits.h"
#include "bench/stats.h"
#include "command/eplb_load.h"
#include "command/json_print.h"
#include "programs/programs.h"
#include "serving/policy/balance/balance_experts.h"
#include "serving/policy/balance/balance_keep.h"
#include "serving/policy/balance/balance_traffic.h"

#define FILE_BYTES_MAX ((size_t)64 << 20)
#define SOLVES 5

struct eplb_values {
    const char *load, *from, *locality;
    double keep_within;
    uint64_t slots, groups, nodes, ranks, token_groups, token_experts;
    bool greedy, json;
};

#define COUNT(field) offsetof(struct eplb_values, field), .minimum = 1, .maximum = BALANCE_SLOTS_MAX

#define AT(field) .offset = offsetof(struct eplb_values, field)

static const struct option eplb_rows[] = {
    {"load", OPTION_TEXT, NULL, "file with a JSON array of layers, each an array of experts' loads",
     AT(load)},
    {"from", OPTION_TEXT, NULL, "current placement, as printed with --json: move few experts",
     AT(from)},
    {"keep-within", OPTION_NUMBER, "0.01",
     "with --from: accept this fraction of load above the optimum to save moves", AT(keep_within),
     .minimum = 0, .maximum = 1},
    {"slots", OPTION_COUNT, "288", "expert slots on all ranks together", COUNT(slots)},
    {"groups", OPTION_COUNT, "8", "expert groups of the gate", COUNT(groups)},
    {"nodes", OPTION_COUNT, "4", "nodes; consecutive ranks form one", COUNT(nodes)},
    {"ranks", OPTION_COUNT, "32", "ranks; consecutive slots belong to one", COUNT(ranks)},
    {"locality", OPTION_CHOICE, "free", "strict: a group's experts stay on one node",
     offsetof(struct eplb_values, locality), .choices = "free|strict"},
    {"greedy", OPTION_FLAG, NULL, "place like DeepSeek's balancer, for comparison", AT(greedy)},
    {"groups-per-token", OPTION_COUNT, "4", "groups that a token chooses, for the traffic",
     COUNT(token_groups)},
    {"experts-per-token", OPTION_COUNT, "8", "experts that a token chooses, for the traffic",
     COUNT(token_experts)},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
};

const struct option_table eplb_options = {
    .command = "eplb",
    .arguments = "--load FILE",
    .description = "Chooses which slot holds which expert, layer by layer, so that no rank waits "
                   "long for the busiest. Where groups do not divide over nodes, nodes do not "
                   "matter.",
    .options = eplb_rows,
    .option_count = ARRAY_COUNT(eplb_rows),
};

struct eplb_layer {
    uint32_t moves; /* from the given placement */
    struct balance_outcome outcome;
    struct balance_traffic traffic;
    struct balance_outcome strict; /* with groups kept on nodes; only if groups divide */
    struct balance_traffic strict_traffic;
};

struct eplb_job {
    const struct eplb_values *values;
    struct eplb_load load;
    struct eplb_placement from; /* layers 0: none */
    struct balance_shape shape;
    struct balance_options options;
    struct balance_choice choice;
    bool has_traffic; /* groups are few enough, and fit a token's choice */
    void *memory;
    uint16_t *slots;           /* [layers][slots] */
    uint16_t *strict_slots;    /* [slots] */
    struct eplb_layer *layers; /* [layers] */
    double solve_seconds;
};

static const uint64_t *eplb_loads_of(const struct eplb_job *job, uint32_t layer) {
    return job->load.loads + (size_t)layer * job->load.experts;
}

static uint16_t *eplb_slots_of(const struct eplb_job *job, uint32_t layer) {
    return job->slots + (size_t)layer * job->shape.slots;
}

/* Reads the current placement, which must have this shape and every expert. */
static enum status read_from(struct eplb_job *job, struct error *error) {
    const char *name = job->values->from;
    struct bytes text;
    enum status status = file_take(name, FILE_BYTES_MAX, &text, error);
    if (status != STATUS_OK) return status;
    status = eplb_load_parse_placement(text, name, &job->from, error);
    free((char *)text.data);
    if (status != STATUS_OK) return status;
    if (job->from.layers != job->load.layers || job->from.slots != job->shape.slots)
        return error_set(error, STATUS_INVALID,
                         "%s has %u layers of %u slots: expected %u layers, as the loads, of "
                         "--slots %u",
                         name, job->from.layers, job->from.slots, job->load.layers,
                         job->shape.slots);
    for (uint32_t i = 0; i < job->from.layers; i++) {
        bool held[LIMIT_EXPERTS] = {false};
        const uint16_t *slots = job->from.slot_to_expert + (size_t)i * job->from.slots;
        for (uint32_t slot = 0; slot < job->from.slots; slot++)
            held[slots[slot]] = true;
        for (uint32_t e = 0; e < LIMIT_EXPERTS; e++)
            if (held[e] != (e < job->load.experts))
                return error_set(error, STATUS_INVALID, "%s: layer %u %s expert %u, the loads %s",
                                 name, i, held[e] ? "has" : "lacks", e,
                                 held[e] ? "do not" : "have it");
    }
    return STATUS_OK;
}

static enum status open_job(struct eplb_job *job, struct error *error) {
    const struct eplb_values *values = job->values;
    struct bytes text;
    enum status status = file_take(values->load, FILE_BYTES_MAX, &text, error);
    if (status != STATUS_OK) return status;
    status = eplb_load_parse(text, values->load, &job->load, error);
    free((char *)text.data);
    if (status != STATUS_OK) return status;
    job->shape = (struct balance_shape){.experts = job->load.experts,
                                        .groups = (uint32_t)values->groups,
                                        .slots = (uint32_t)values->slots,
                                        .ranks = (uint32_t)values->ranks,
                                        .nodes = (uint32_t)values->nodes};
    job->options.locality = strcmp(values->locality, "strict") ? BALANCE_FREE : BALANCE_STRICT;
    job->choice.groups = (uint32_t)values->token_groups;
    job->choice.experts = (uint32_t)values->token_experts;
    job->has_traffic = values->nodes > 1 && values->ranks % values->nodes == 0 &&
                       job->load.experts % values->groups == 0 &&
                       values->groups <= BALANCE_TRAFFIC_GROUPS_MAX &&
                       values->token_groups <= values->groups;
    status = balance_experts_check(&job->shape, error);
    if (status != STATUS_OK) return status;
    if (values->from) status = read_from(job, error);
    if (status != STATUS_OK) return status;
    job->memory = malloc(balance_keep_bytes(&job->shape));
    job->slots = calloc((size_t)job->load.layers * job->shape.slots, sizeof *job->slots);
    job->strict_slots = calloc(job->shape.slots, sizeof *job->strict_slots);
    job->layers = calloc(job->load.layers, sizeof *job->layers);
    if (!job->memory || !job->slots || !job->strict_slots || !job->layers)
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u layers", job->load.layers);
    return STATUS_OK;
}

static void close_job(struct eplb_job *job) {
    free(job->load.loads);
    free(job->from.slot_to_expert);
    free(job->memory);
    free(job->slots);
    free(job->strict_slots);
    free(job->layers);
}

static void solve_all(struct eplb_job *job) {
    for (uint32_t i = 0; i < job->load.layers; i++) {
        struct balance_keeping keeping = {NULL, job->values->keep_within};
        if (job->from.layers) keeping.old = job->from.slot_to_expert + (size_t)i * job->from.slots;
        if (job->values->greedy)
            balance_experts_greedy(&job->shape, eplb_loads_of(job, i), job->memory,
                                   eplb_slots_of(job, i), &job->layers[i].outcome);
        else if (keeping.old)
            balance_keep(&job->shape, &job->options, eplb_loads_of(job, i), &keeping, job->memory,
                         eplb_slots_of(job, i), &job->layers[i].outcome, &job->layers[i].moves);
        else
            balance_experts(&job->shape, &job->options, eplb_loads_of(job, i), job->memory,
                            eplb_slots_of(job, i), &job->layers[i].outcome);
    }
}

/* The thread's CPU time: the cost of a solve on one core, independent of the machine's load. */
static double eplb_cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void solve(struct eplb_job *job) {
    double seconds[SOLVES];
    for (int i = 0; i < SOLVES; i++) {
        double start = eplb_cpu_seconds();
        solve_all(job);
        seconds[i] = eplb_cpu_seconds() - start;
    }
    job->solve_seconds = stats_median(seconds, SOLVES);
}

/* Counts traffic, also for the same search with groups that must stay on their nodes. */
static void count_traffic(struct eplb_job *job) {
    const struct balance_options strict = {BALANCE_STRICT};
    for (uint32_t i = 0; job->has_traffic && i < job->load.layers; i++) {
        struct eplb_layer *layer = &job->layers[i];
        balance_traffic(&job->shape, &job->choice, eplb_loads_of(job, i), eplb_slots_of(job, i),
                        &layer->traffic);
        if (!balance_experts_divides(&job->shape)) continue;
        balance_experts(&job->shape, &strict, eplb_loads_of(job, i), job->memory, job->strict_slots,
                        &layer->strict);
        balance_traffic(&job->shape, &job->choice, eplb_loads_of(job, i), job->strict_slots,
                        &layer->strict_traffic);
    }
}

static void print_column(struct json_print *print, const struct eplb_job *job, const char *name,
                         size_t offset) {
    json_print_open(print, name, '[');
    for (uint32_t i = 0; i < job->load.layers; i++)
        json_print_number(print, NULL, *(const double *)((const char *)&job->layers[i] + offset),
                          9);
    json_print_close(print);
}

static void eplb_print_json(const struct eplb_job *job) {
    struct json_print print = json_print_begin(true);
    json_print_open(&print, "slot_to_expert", '[');
    for (uint32_t i = 0; i < job->load.layers; i++) {
        json_print_open(&print, NULL, '[');
        for (uint32_t slot = 0; slot < job->shape.slots; slot++)
            json_print_count(&print, NULL, eplb_slots_of(job, i)[slot]);
        json_print_close(&print);
    }
    json_print_close(&print);
    print_column(&print, job, "balance", offsetof(struct eplb_layer, outcome.balance));
    print_column(&print, job, "bound", offsetof(struct eplb_layer, outcome.bound));
    json_print_number(&print, "solve_ms", job->solve_seconds * 1e3, 4);
    if (job->has_traffic) {
        print_column(&print, job, "node_copies", offsetof(struct eplb_layer, traffic.copies));
        print_column(&print, job, "away", offsetof(struct eplb_layer, traffic.away));
    }
    if (job->has_traffic && balance_experts_divides(&job->shape)) {
        print_column(&print, job, "strict_balance", offsetof(struct eplb_layer, strict.balance));
        print_column(&print, job, "strict_node_copies",
                     offsetof(struct eplb_layer, strict_traffic.copies));
    }
    if (job->from.layers) {
        json_print_open(&print, "moves", '[');
        for (uint32_t i = 0; i < job->from.layers; i++)
            json_print_count(&print, NULL, job->layers[i].moves);
        json_print_close(&print);
    }
    json_print_close(&print);
}

struct summary {
    double balance, balance_min, bound, copies, away, strict, strict_copies;
};

static struct summary eplb_summarize(const struct eplb_job *job) {
    struct summary sum = {.balance_min = 1};
    for (uint32_t i = 0; i < job->load.layers; i++) {
        const struct eplb_layer *layer = &job->layers[i];
        double part = 1.0 / job->load.layers;
        sum.balance += layer->outcome.balance * part;
        sum.bound += layer->outcome.bound * part;
        sum.copies += layer->traffic.copies * part;
        sum.away += layer->traffic.away * part;
        sum.strict += layer->strict.balance * part;
        sum.strict_copies += layer->strict_traffic.copies * part;
        if (layer->outcome.balance < sum.balance_min) sum.balance_min = layer->outcome.balance;
    }
    return sum;
}

static void eplb_print_table(const struct eplb_job *job) {
    struct summary sum = eplb_summarize(job);
    printf("layer  balance   bound");
    printf(job->has_traffic ? "  node copies   away\n" : "\n");
    for (uint32_t i = 0; i < job->load.layers; i++) {
        const struct eplb_layer *layer = &job->layers[i];
        printf("%5u   %.4f  %.4f", i, layer->outcome.balance, layer->outcome.bound);
        if (job->has_traffic)
            printf("       %6.3f  %4.1f%%", layer->traffic.copies, 100 * layer->traffic.away);
        printf("\n");
    }
    printf("\nbalance (mean rank load / largest): mean %.4f, least %.4f; bound, mean %.4f\n",
           sum.balance, sum.balance_min, sum.bound);
    printf("solved %u layers in %.3g ms of one core (median of %d)\n", job->load.layers,
           job->solve_seconds * 1e3, SOLVES);
    uint64_t moves = 0;
    for (uint32_t i = 0; i < job->from.layers; i++)
        moves += job->layers[i].moves;
    if (job->from.layers)
        printf("moves: %" PRIu64 " slots of %" PRIu64 " get another expert\n", moves,
               (uint64_t)job->from.layers * job->from.slots);
    if (!job->has_traffic) return;
    printf("a token touches %.3f nodes; %.1f %% of the load is served outside its group's node\n",
           sum.copies, 100 * sum.away);
    if (!balance_experts_divides(&job->shape)) return;
    printf("strict locality: balance %.4f, %.3f nodes: the trade is %+.1f %% balance for %+.1f %% "
           "node traffic\n",
           sum.strict, sum.strict_copies, 100 * (sum.balance / sum.strict - 1),
           100 * (sum.copies / sum.strict_copies - 1));
}

int program_eplb(void *given, const struct option_result *result) {
    struct eplb_values *values = given;
    struct error error;
    if (!values->load) return command_misused("which loads? --load FILE");
    if (values->greedy && values->from)
        return command_misused("--greedy keeps nothing: it excludes --from");
    struct eplb_job job = {.values = values};
    enum status status = open_job(&job, &error);
    if (status == STATUS_OK) {
        solve(&job);
        count_traffic(&job);
        if (values->json)
            eplb_print_json(&job);
        else
            eplb_print_table(&job);
    }
    close_job(&job);
    return command_end(status, &error);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/outcome.h"

#include <math.h>

#include "base/check.h"
#include "base/number.h"

/* ---- callbacks ---- */

static bool outcome_is_measured(const struct outcome *outcome, int64_t ns) {
    return ns >= outcome->begin_ns && ns <= outcome->end_ns;
}

static void outcome_receive_first(void *context, const struct simulator_ended *begun) {
    struct outcome *outcome = context;
    if (begun->standing || !outcome_is_measured(outcome, begun->first_ns)) return;
    spread_add(&outcome->ttft, begun->first_ns - begun->arrival_ns);
}

static void outcome_receive_end(void *context, const struct simulator_ended *ended) {
    struct outcome *outcome = context;
    if (outcome->ends) fault_costs_note(outcome->ends, ended);
    if (ended->standing || ended->failed || !outcome_is_measured(outcome, ended->end_ns)) return;
    spread_add(&outcome->e2e, ended->end_ns - ended->arrival_ns);
    if (ended->answer_tokens < 2) return;
    spread_add(&outcome->tpot, (ended->end_ns - ended->first_ns) / (ended->answer_tokens - 1));
}

static void receive_sample(void *context, const struct simulator_sample *sample) {
    struct outcome *outcome = context;
    double prompt = 0, computed = 0, output = 0;
    double seconds = (double)(sample->now_ns - outcome->sampled_ns) * 1e-9;
    for (int role = 0; role < UNIT_ROLE_COUNT; role++) {
        prompt += (double)sample->so_far->roles[role].prompt_tokens;
        computed += (double)sample->so_far->roles[role].computed_tokens;
        output += (double)sample->so_far->roles[role].output_tokens;
    }
    if (outcome->point_count < OUTCOME_POINTS && seconds > 0) {
        struct outcome_point *point = &outcome->points[outcome->point_count++];
        point->at_s = (double)(sample->now_ns - outcome->begin_ns) * 1e-9;
        point->prompt_rate = (prompt - outcome->sampled_prompt) / seconds;
        point->computed_rate = (computed - outcome->sampled_computed) / seconds;
        point->output_rate = (output - outcome->sampled_output) / seconds;
        point->open = sample->open;
        for (int role = 0; role < UNIT_ROLE_COUNT; role++)
            point->pages_share[role] = sample->pages_share[role];
    }
    outcome->sampled_ns = sample->now_ns;
    outcome->sampled_prompt = prompt;
    outcome->sampled_computed = computed;
    outcome->sampled_output = output;
}

void outcome_listen(struct outcome *outcome, struct scenario *scenario) {
    struct simulator_options *options = &scenario->options;
    *outcome = (struct outcome){.scenario = scenario, .begin_ns = options->warm_ns};
    outcome->sampled_ns = options->warm_ns;
    outcome->end_ns = options->measure_ns ? options->warm_ns + options->measure_ns : INT64_MAX;
    options->context = outcome;
    options->begun = outcome_receive_first;
    options->ended = outcome_receive_end;
    options->sampled = receive_sample;
    options->sample_ns =
        options->measure_ns ? options->measure_ns / (OUTCOME_POINTS / 2) : 10 * (int64_t)1000000000;
}

uint32_t outcome_points(const struct outcome *outcome) {
    uint32_t count = 0;
    while (count < outcome->point_count &&
           (count == 0 || outcome->points[count - 1].at_s < outcome->report.measured_s))
        count++;
    return count;
}

/* ---- figures ---- */

const char *outcome_spent_name(uint32_t spent) {
    static const char *const names[STEP_SPENT_COUNT + 1] = {
        [SPENT_ATTENTION] = "attention",  [SPENT_EXPERTS] = "experts",
        [SPENT_SHARED] = "shared expert", [SPENT_COMM] = "communication",
        [SPENT_IMBALANCE] = "imbalance",  [SPENT_OTHER] = "other",
        [SPENT_MOVES] = "moved experts",  [STEP_SPENT_COUNT] = "idle",
    };
    return names[spent];
}

double outcome_spent(const struct simulator_role_counts *counts, uint32_t spent) {
    return spent < STEP_SPENT_COUNT ? counts->spent[spent] : counts->idle_s;
}

double outcome_nodes(const struct outcome *outcome, enum unit_role role) {
    return (double)outcome->report.roles[role].nodes;
}

struct outcome_money outcome_money_of(const struct outcome *outcome) {
    const struct prices *prices = &outcome->scenario->prices;
    const struct simulator_options *options = &outcome->scenario->options;
    struct outcome_money money = {0};
    double hits = 0, computed = 0, output = 0, hours = outcome->report.measured_s / 3600;
    for (uint32_t i = 0; i < options->kind_count; i++) {
        const struct simulator_unit_kind *kind = &options->kinds[i];
        double nodes = (double)kind->count * kind->ranks / max_u32(kind->ranks_per_node, 1);
        double price =
            kind->hardware->node_price > 0 ? kind->hardware->node_price : prices->node_hour;
        money.cost += nodes * price;
    }
    for (int role = 0; role < UNIT_ROLE_COUNT; role++) {
        const struct simulator_role_counts *counts = &outcome->report.roles[role];
        output += (double)counts->output_tokens;
        if (role == UNIT_DECODE) continue; /* prefill units computed its prompts */
        computed += (double)counts->computed_tokens;
        hits += (double)(counts->device_hits + counts->host_hits + counts->disk_hits);
    }
    if (hours <= 0) return money;
    struct token_prices now = prices_at(&prices->calendar, outcome->scenario->start_hour);
    money.income_list = prices_income(&prices->calendar.tokens, hits, computed, output) / hours;
    money.income = prices_income(&now, hits, computed, output) / hours;
    return money;
}

struct outcome_list {
    struct day_figure *figures;
    uint32_t count;
};

static void add(struct outcome_list *list, const char *name, const char *unit, double value) {
    check(list->count < OUTCOME_FIGURES_MAX);
    list->figures[list->count++] = (struct day_figure){
        .name = name, .unit = unit, .kind = FIGURE_PREDICTION, .simulated = value};
}

static void outcome_add_times(struct outcome_list *list, const struct outcome *outcome) {
    static const struct {
        const char *name;
        size_t offset;
        double share;
    } rows[] = {
        {"ttft_p50_ms", offsetof(struct outcome, ttft), 0.5},
        {"ttft_p90_ms", offsetof(struct outcome, ttft), 0.9},
        {"ttft_p99_ms", offsetof(struct outcome, ttft), 0.99},
        {"tpot_p50_ms", offsetof(struct outcome, tpot), 0.5},
        {"tpot_p90_ms", offsetof(struct outcome, tpot), 0.9},
        {"tpot_p99_ms", offsetof(struct outcome, tpot), 0.99},
        {"e2e_p50_ms", offsetof(struct outcome, e2e), 0.5},
        {"e2e_p99_ms", offsetof(struct outcome, e2e), 0.99},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const char *at = (const char *)outcome + rows[i].offset;
        const struct time_spread *spread = (const struct time_spread *)(const void *)at;
        add(list, rows[i].name, "ms", spread_quantile(spread, rows[i].share) * 1e-6);
    }
}

/* Adds the figures of a role. Units of the role "both" have the figures of prefill and of
 * decode. */
static void add_role(struct outcome_list *list, const struct outcome *outcome,
                     enum unit_role role) {
    static const char *const names[UNIT_ROLE_COUNT][6] = {
        [UNIT_BOTH] = {"both_computed_tokens_per_s_per_node", "both_output_tokens_per_s_per_node",
                       "both_step_ms", "both_kv_use_percent", "both_expert_balance",
                       "both_idle_percent"},
        [UNIT_PREFILL] = {"prefill_computed_tokens_per_s_per_node", NULL, "prefill_step_ms",
                          "prefill_kv_use_percent", "prefill_expert_balance",
                          "prefill_idle_percent"},
        [UNIT_DECODE] = {NULL, "decode_tokens_per_s_per_node", "decode_step_ms",
                         "decode_kv_use_percent", "decode_expert_balance", "decode_idle_percent"},
    };
    const struct simulator_role_counts *counts = &outcome->report.roles[role];
    double seconds = outcome->report.measured_s, nodes = outcome_nodes(outcome, role);
    double steps = (double)counts->steps, ranks = (double)counts->ranks;
    double values[6] = {
        words_ratio((double)counts->computed_tokens, seconds * nodes),
        words_ratio((double)counts->output_tokens, seconds * nodes),
        words_ratio(counts->step_ns * 1e-6, steps),
        100 * words_ratio((double)counts->pages_held, (double)counts->pages_total),
        counts->expert_balance,
        100 * words_ratio(counts->idle_s, seconds * ranks),
    };
    static const char *const units[6] = {"tokens/s", "tokens/s", "ms", "%", "largest/mean", "%"};
    if (counts->units == 0) return;
    if (role != UNIT_DECODE)
        add(list,
            role == UNIT_BOTH ? "both_input_tokens_per_s_per_node"
                              : "prefill_tokens_per_s_per_node",
            "tokens/s", words_ratio((double)counts->prompt_tokens, seconds * nodes));
    for (int i = 0; i < 6; i++)
        if (names[role][i]) add(list, names[role][i], units[i], values[i]);
    if (role != UNIT_PREFILL)
        add(list, role == UNIT_BOTH ? "both_requests_per_rank" : "decode_requests_per_rank",
            "requests", words_ratio((double)counts->rows, steps * ranks / (double)counts->units));
}

static void add_hits(struct outcome_list *list, const struct outcome *outcome) {
    double prompts = 0, device = 0, host = 0, disk = 0, read = 0, rows = 0;
    for (int role = 0; role < UNIT_ROLE_COUNT; role++) {
        const struct simulator_role_counts *counts = &outcome->report.roles[role];
        read += (double)counts->context;
        rows += (double)counts->rows;
        if (role == UNIT_DECODE) continue;
        prompts += (double)counts->prompt_tokens;
        device += (double)counts->device_hits;
        host += (double)counts->host_hits;
        disk += (double)counts->disk_hits;
    }
    add(list, "cache_hit_percent", "%", 100 * words_ratio(device + host + disk, prompts));
    add(list, "device_hit_percent", "%", 100 * words_ratio(device, prompts));
    add(list, "host_hit_percent", "%", 100 * words_ratio(host, prompts));
    add(list, "disk_hit_percent", "%", 100 * words_ratio(disk, prompts));
    add(list, "kv_tokens_per_output_token", "tokens", words_ratio(read, rows));
}

uint32_t outcome_figures(const struct outcome *outcome, struct day_figure *figures_out) {
    struct outcome_list list = {figures_out, 0};
    const struct simulator_report *report = &outcome->report;
    struct outcome_money money = outcome_money_of(outcome);
    add(&list, "requests_per_s", "requests/s",
        words_ratio((double)report->answered, report->measured_s));
    for (int role = 0; role < UNIT_ROLE_COUNT; role++)
        add_role(&list, outcome, (enum unit_role)role);
    outcome_add_times(&list, outcome);
    add(&list, "tokens_per_s_per_user", "tokens/s",
        words_ratio(report->user_speed_tokens, report->user_tokens));
    add_hits(&list, outcome);
    if (outcome->scenario->prices.node_hour > 0) {
        add(&list, "cost_per_hour", outcome->scenario->prices.currency, money.cost);
        add(&list, "income_per_hour", outcome->scenario->prices.currency, money.income);
        add(&list, "income_list_per_hour", outcome->scenario->prices.currency, money.income_list);
        add(&list, "margin_percent", "%", 100 * words_ratio(money.income - money.cost, money.cost));
    }
    return list.count;
}

double outcome_figure_of(const struct day_figure *figures, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(figures[i].name, name)) return figures[i].simulated;
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/plan_words.h"

#include "base/check.h"
#include "base/format.h"
#include "base/number.h"
#include "simulate/report/chart.h"
#include "simulate/report/outcome.h"

#define HOUR_S 3600
#define TEXT_SPEEDS 3 /* the text has 1 in TEXT_SPEEDS points */

static const char *const curve_names[SIZE_CURVES] = {"apart", "apart, MTP", "combined",
                                                     "combined, MTP"};
static const char *const verdict_names[] = {[SIZE_BOUND] = "bound",
                                            [SIZE_HOLDS] = "holds",
                                            [SIZE_MISSES] = "misses",
                                            [SIZE_CANNOT] = "cannot"};

/* ---- verdicts ---- */

static bool has_run(const struct size_fleet *fleet) {
    return fleet->trials > 0;
}

static int plan_words_place_of(const struct size_fleet *fleet) {
    switch (fleet->verdict) {
    case SIZE_HOLDS:
        return 0;
    case SIZE_MISSES:
        return 1;
    case SIZE_BOUND:
        return 2;
    case SIZE_CANNOT:
        return 3;
    }
    return 3;
}

static bool plan_words_is_before(const struct size_fleet *a, const struct size_fleet *b) {
    if (plan_words_place_of(a) != plan_words_place_of(b))
        return plan_words_place_of(a) < plan_words_place_of(b);
    if (a->verdict == SIZE_CANNOT) return false;
    if (has_run(a) && a->nodes != b->nodes) return a->nodes < b->nodes;
    if (a->least_nodes != b->least_nodes) return a->least_nodes < b->least_nodes;
    return a->load < b->load;
}

/* Writes how many more nodes the fleet would need, and the limit that a smaller number missed. */
static void say_bound(double more, struct size_fleet *fleet) {
    char missed[SIZE_WHY_BYTES], rest[SIZE_WHY_BYTES + 16] = "by the clock", beyond[32] = "";
    format_text(missed, sizeof missed, "%s", fleet->why);
    if (missed[0]) format_text(rest, sizeof rest, "with fewer %s", missed);
    if (more > 0) format_text(beyond, sizeof beyond, " (%.0f more)", more);
    format_text(fleet->why, sizeof fleet->why, "%sneeds at least %.0f nodes%s; %s",
                more > 0 ? "" : "no cheaper: ", fleet->least_nodes, beyond, rest);
}

static void plan_words_say_why(const struct size_fleet *best, struct size_fleet *fleet) {
    double more = (fleet->verdict == SIZE_BOUND ? fleet->least_nodes : fleet->nodes) - best->nodes;
    const char *plural = more == 1 ? "" : "s";
    if (fleet->verdict == SIZE_HOLDS && more > 0)
        format_text(fleet->why, sizeof fleet->why, "%.0f node%s more", more, plural);
    else if (fleet->verdict == SIZE_HOLDS && fleet->load == best->load)
        format_text(fleet->why, sizeof fleet->why, "as many nodes%s",
                    fleet->storage && !best->storage ? ", and storage" : "");
    else if (fleet->verdict == SIZE_HOLDS)
        format_text(fleet->why, sizeof fleet->why, "as many nodes, fuller: %.1f instead of %.1f",
                    fleet->load, best->load);
    else if (fleet->verdict == SIZE_BOUND)
        say_bound(more, fleet);
}

bool plan_words_verify(struct plan_found *found) {
    for (uint32_t i = 1; i < found->count; i++) {
        struct size_fleet fleet = found->fleets[i];
        uint32_t at = i;
        for (; at > 0 && plan_words_is_before(&fleet, &found->fleets[at - 1]); at--)
            found->fleets[at] = found->fleets[at - 1];
        found->fleets[at] = fleet;
    }
    if (found->count == 0 || found->fleets[0].verdict != SIZE_HOLDS) return false;
    for (uint32_t i = 1; i < found->count; i++)
        plan_words_say_why(&found->fleets[0], &found->fleets[i]);
    return true;
}

/* ---- money ---- */

static double income_of(const struct plan_found *found, const struct size_fleet *fleet) {
    const struct size_load *load = &found->options.load;
    double prompts = load->rate * load->prompt_mean * HOUR_S;
    double hits = prompts * fleet->trial.hit_share;
    return prices_income(&found->prices.calendar.tokens, hits, prompts - hits,
                         load->rate * load->answer_mean * HOUR_S);
}

/* ---- choices ---- */

enum plan_choice {
    CHOICE_RANKS,
    CHOICE_EXPERTS,
    CHOICE_TOKENS,
    CHOICE_MTP,
    CHOICE_STORAGE,
    CHOICES
};

/* The value of a choice for this unit. Other values follow from the choices, such as the number of
 * rows, or the tokens of a decode unit. */
static uint32_t plan_words_value_of(const struct size_unit *unit, int choice) {
    const uint32_t values[CHOICES] = {[CHOICE_RANKS] = unit->ranks,
                                      [CHOICE_EXPERTS] = unit->redundant_experts,
                                      [CHOICE_TOKENS] =
                                          unit->role == UNIT_PREFILL ? unit->step_tokens : 0,
                                      [CHOICE_MTP] = unit->mtp,
                                      [CHOICE_STORAGE] = unit->storage};
    return values[choice];
}

/* True if two units differ only in this choice. A different number of ranks needs other redundant
 * experts, so these may differ then, too. */
static bool differs_by(const struct size_unit *a, const struct size_unit *b, int choice) {
    if (a->role != b->role) return false;
    for (int i = 0; i < CHOICES; i++) {
        bool any = i == choice || (i == CHOICE_EXPERTS && choice == CHOICE_RANKS);
        if (!any && plan_words_value_of(a, i) != plan_words_value_of(b, i)) return false;
    }
    return true;
}

/* The unit with this value that needs the fewest nodes, or NULL if none can serve the load. */
static const struct size_unit *best_with(const struct plan_found *found,
                                         const struct size_unit *unit, int choice, uint32_t value) {
    const struct size_unit *best = NULL;
    for (uint32_t i = 0; i < found->search->count; i++) {
        const struct size_unit *other = &found->search->units[i];
        if (!differs_by(unit, other, choice) || plan_words_value_of(other, choice) != value)
            continue;
        if (other->lost[0] || other->capacity <= 0) continue;
        if (!best || other->nodes / other->capacity < best->nodes / best->capacity) best = other;
    }
    return best;
}

static void write_choice(struct json_writer *writer, const struct plan_found *found,
                         const struct size_unit *unit, int choice) {
    static const char *const names[CHOICES] = {"ranks", "redundant experts", "tokens of a step",
                                               "MTP", "storage"};
    uint32_t most = plan_words_value_of(unit, choice), values = 1;
    for (uint32_t i = 0; i < found->search->count; i++) {
        const struct size_unit *other = &found->search->units[i];
        if (!differs_by(unit, other, choice)) continue;
        most = max_u32(most, plan_words_value_of(other, choice));
        values += plan_words_value_of(other, choice) != plan_words_value_of(unit, choice);
    }
    if (values == 1) return;
    json_writer_print(writer, "    %-18s", names[choice]);
    for (uint32_t value = 0; value <= most; value++) {
        const struct size_unit *best = best_with(found, unit, choice, value);
        if (!best) continue;
        double nodes = found->options.load.rate / best->capacity * best->nodes;
        json_writer_print(writer, "  %u: %.3g%s", value, nodes,
                          value == plan_words_value_of(unit, choice) ? "*" : "");
    }
    json_writer_text(writer, "\n");
}

/* Writes the effect of each choice alone, for the units of the chosen fleet. */
static void plan_words_write_choices(struct json_writer *writer, const struct plan_found *found) {
    const struct size_fleet *best = &found->fleets[0];
    if (found->count == 0 || best->verdict != SIZE_HOLDS) return;
    json_writer_text(writer, "\nnodes that one choice more or less would need, by the step clock, "
                             "full and not rounded (* as chosen; what cannot be is left out):\n");
    for (uint32_t k = 0; k < best->kind_count; k++) {
        struct size_fleet alone = {.kinds = {best->kinds[k]},
                                   .counts = {best->counts[k]},
                                   .kind_count = 1,
                                   .mtp = best->kinds[k].mtp,
                                   .storage = true};
        char name[SIZE_TEXT_BYTES];
        size_fleet_name(&alone, name);
        json_writer_print(writer, "  %s\n", name);
        for (int choice = 0; choice < CHOICES; choice++)
            write_choice(writer, found, &best->kinds[k], choice);
    }
}

/* ---- text ---- */

/* Writes the line of a fleet in the table, without its verdict. */
static void plan_words_write_figures(struct json_writer *writer, const struct plan_found *found,
                                     uint32_t index) {
    const struct size_fleet *fleet = &found->fleets[index];
    bool run = has_run(fleet);
    double nodes = run ? fleet->nodes : fleet->least_nodes;
    char name[SIZE_TEXT_BYTES];
    size_fleet_name(fleet, name);
    json_writer_print(writer, "%3u %-60s %6.0f", index + 1, name, nodes);
    if (found->node_hour > 0) {
        json_writer_print(writer, " %9.0f", nodes * found->node_hour);
        if (run)
            json_writer_print(writer, " %9.0f", income_of(found, fleet));
        else
            json_writer_print(writer, " %9s", "-");
    }
    if (run)
        json_writer_print(writer, " %6.2f s %6.1f ms %8.0f %6.1f", fleet->trial.ttft_p99_s,
                          fleet->trial.tpot_p99_s * 1e3, fleet->trial.node_tokens,
                          fleet->trial.user_speed);
    else
        json_writer_print(writer, " %8s %9s %8s %6s", "-", "-", "-", "-");
}

static void write_text_curves(struct json_writer *writer, const struct plan_found *found) {
    json_writer_text(writer, "\noutput tokens/s a node, at tokens/s a user (by the step clock):\n");
    json_writer_print(writer, "%-14s", "tokens/s");
    for (int i = 0; i < SIZE_SPEEDS; i += TEXT_SPEEDS)
        json_writer_print(writer, " %7.1f", found->search->pareto.speeds[i]);
    for (int curve = 0; curve < SIZE_CURVES; curve++) {
        json_writer_print(writer, "\n%-14s", curve_names[curve]);
        for (int i = 0; i < SIZE_SPEEDS; i += TEXT_SPEEDS)
            json_writer_print(writer, " %7.0f", found->search->pareto.node_tokens[curve][i]);
    }
    json_writer_text(writer, "\n");
}

static void plan_words_write_load(struct json_writer *writer, const struct plan_found *found) {
    const struct size_options *options = &found->options;
    const struct size_load *load = &options->load;
    json_writer_print(writer,
                      "%s on %s: %s, %.4g requests/s, prompts of %.0f tokens (%.1f %% hits), ",
                      options->model->name, options->hardware->name, found->load, load->rate,
                      load->prompt_mean, load->hit_share * 100);
    json_writer_print(writer, "answers of %.0f; TTFT p99 %.3g s, TPOT p99 %.3g ms",
                      load->answer_mean, options->ttft_s, options->tpot_s * 1e3);
}

/* Writes which requests count for the limit of TTFT. */
static void write_counted(struct json_writer *writer, const struct plan_found *found) {
    const struct size_load *load = &found->options.load;
    if (!load->counted_prompt) return;
    json_writer_print(
        writer,
        "TTFT counts prompts of up to %u tokens, %.1f %% of all: one prompt in a hundred "
        "has %.0f tokens to compute or more, ",
        load->counted_prompt, load->counted_share * 100, found->long_prompt);
    json_writer_print(
        writer,
        "which takes %.1f s on an empty rank, behind one step. A limit for all prompts "
        "begins there.\n",
        found->reach.long_s);
}

void plan_words_text(struct json_writer *writer, const struct plan_found *found) {
    plan_words_write_load(writer, found);
    json_writer_text(writer, "\n");
    write_counted(writer, found);
    json_writer_print(
        writer, "%u units weighed, %u runs of the twin%s\n\n", found->candidates, found->runs,
        found->cut ? "; as many records as a plan may cost were spent: a cheaper fleet "
                     "may hold"
                   : "");
    json_writer_print(writer, "%3s %-60s %6s", "", "fleet", "nodes");
    if (found->node_hour > 0)
        json_writer_print(writer, " %5s/hour %9s", found->prices.currency, "income");
    json_writer_print(writer, " %8s %9s %8s %6s  %s\n", "TTFT p99", "TPOT p99", "t/s node", "user",
                      "verdict");
    for (uint32_t i = 0; i < found->count; i++) {
        const struct size_fleet *fleet = &found->fleets[i];
        plan_words_write_figures(writer, found, i);
        json_writer_print(writer, "  %s\n",
                          fleet->why[0]                  ? fleet->why
                          : fleet->verdict == SIZE_HOLDS ? "the cheapest"
                                                         : verdict_names[fleet->verdict]);
    }
    plan_words_write_choices(writer, found);
    write_text_curves(writer, found);
}

/* ---- JSON ---- */

static void plan_words_write_unit(struct json_writer *writer, const struct size_unit *unit,
                                  uint32_t count) {
    json_writer_text(writer, "{");
    words_member_text(writer, true, "role", bytes_of(record_unit_role_name(unit->role)));
    words_member(writer, false, "count", count);
    words_member(writer, false, "ranks", unit->ranks);
    words_member(writer, false, "redundant_experts", unit->redundant_experts);
    words_member(writer, false, "rows", unit->rows);
    words_member(writer, false, "step_tokens", unit->step_tokens);
    words_member(writer, false, "requests_per_s_most", unit->capacity);
    words_member(writer, false, "weight_bytes", unit->weight_bytes);
    json_writer_text(writer, "}");
}

static void write_trial(struct json_writer *writer, const struct plan_found *found,
                        const struct size_fleet *fleet) {
    const struct size_trial *trial = &fleet->trial;
    words_member(writer, false, "runs", fleet->trials);
    words_member(writer, false, "sampled_share", trial->share);
    words_member(writer, false, "ttft_p99_s", trial->ttft_p99_s);
    words_member(writer, false, "ttft_all_p99_s", trial->ttft_all_p99_s);
    words_member(writer, false, "tpot_p99_s", trial->tpot_p99_s);
    words_member(writer, false, "output_tokens_per_s_per_node", trial->node_tokens);
    words_member(writer, false, "tokens_per_s_per_user", trial->user_speed);
    words_member(writer, false, "hit_share", trial->hit_share);
    words_member(writer, false, "answered", (double)trial->answered);
    words_member(writer, false, "failed", (double)trial->failed);
    if (found->node_hour > 0)
        words_member(writer, false, "income_per_hour", income_of(found, fleet));
}

static void plan_words_write_fleet(struct json_writer *writer, const struct plan_found *found,
                                   uint32_t index) {
    const struct size_fleet *fleet = &found->fleets[index];
    char name[SIZE_TEXT_BYTES];
    size_fleet_name(fleet, name);
    json_writer_text(writer, index ? ",{" : "{");
    words_member(writer, true, "rank", index + 1);
    words_member_text(writer, false, "fleet", bytes_of(name));
    json_writer_text(writer, ",\"units\":[");
    for (uint32_t k = 0; k < fleet->kind_count; k++) {
        if (k) json_writer_text(writer, ",");
        plan_words_write_unit(writer, &fleet->kinds[k], fleet->counts[k]);
    }
    json_writer_print(writer, "],\"mtp\":%s,\"storage\":%s", fleet->mtp ? "true" : "false",
                      fleet->storage ? "true" : "false");
    words_member(writer, false, "nodes", fleet->nodes);
    words_member(writer, false, "nodes_least", fleet->least_nodes);
    if (found->node_hour > 0)
        words_member(writer, false, "cost_per_hour", fleet->nodes * found->node_hour);
    words_member_text(writer, false, "verdict", bytes_of(verdict_names[fleet->verdict]));
    words_member_text(writer, false, "why", bytes_of(fleet->why));
    if (has_run(fleet)) write_trial(writer, found, fleet);
    json_writer_text(writer, "}");
}

void plan_words_json(struct json_writer *writer, const struct plan_found *found) {
    const struct size_load *load = &found->options.load;
    json_writer_text(writer, "{");
    words_member_text(writer, true, "hardware", bytes_of(found->options.hardware->name));
    words_member_text(writer, false, "model", bytes_of(found->options.model->name));
    words_member_text(writer, false, "load", bytes_of(found->load));
    words_member(writer, false, "requests_per_s", load->rate);
    words_member(writer, false, "prompt_tokens", load->prompt_mean);
    words_member(writer, false, "answer_tokens", load->answer_mean);
    words_member(writer, false, "hit_share", load->hit_share);
    words_member(writer, false, "ttft_p99_s_limit", found->options.ttft_s);
    words_member(writer, false, "tpot_p99_s_limit", found->options.tpot_s);
    words_member(writer, false, "ttft_counted_prompt_tokens", load->counted_prompt);
    words_member(writer, false, "ttft_counted_share", load->counted_share);
    words_member(writer, false, "ttft_s_of_long_prompt", found->reach.long_s);
    words_member(writer, false, "units_weighed", found->candidates);
    words_member(writer, false, "runs", found->runs);
    words_member(writer, false, "records", found->records);
    json_writer_print(writer, ",\"cut\":%s", found->cut ? "true" : "false");
    words_member(writer, false, "measured_s", found->measured_s);
    json_writer_text(writer, ",\"fleets\":[");
    for (uint32_t i = 0; i < found->count; i++)
        plan_words_write_fleet(writer, found, i);
    json_writer_text(writer, "],\"pareto\":[");
    for (int curve = 0; curve < SIZE_CURVES; curve++) {
        json_writer_text(writer, curve ? ",{" : "{");
        words_member_text(writer, true, "name", bytes_of(curve_names[curve]));
        json_writer_text(writer, ",\"points\":[");
        for (int i = 0; i < SIZE_SPEEDS; i++) {
            json_writer_text(writer, i ? ",{" : "{");
            words_member(writer, true, "tokens_per_s_per_user", found->search->pareto.speeds[i]);
            words_member(writer, false, "output_tokens_per_s_per_node",
                         found->search->pareto.node_tokens[curve][i]);
            json_writer_text(writer, "}");
        }
        json_writer_text(writer, "]}");
    }
    json_writer_text(writer, "]}\n");
}

/* ---- the page ---- */

static const char plan_style[] =
    ":root{color-scheme:light dark;--ink:#1c2430;--soft:#5c6675;--line:#dfe3ea;--paper:#fff}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#9aa4b2;--line:#343b47;"
    "--paper:#14181f}}"
    "body{margin:0 auto;max-width:960px;padding:24px;background:var(--paper);color:var(--ink);"
    "font:15px/1.5 system-ui,sans-serif}pre{overflow-x:auto;font-size:12px}";

static void plan_words_write_chart(struct json_writer *writer, const struct plan_found *found) {
    double values[SIZE_CURVES][SIZE_SPEEDS];
    struct chart chart = {.title = "What a node makes at a speed of each user",
                          .x_label = "output tokens/s of a user",
                          .y_label = "output tokens/s of a node",
                          .count = SIZE_SPEEDS,
                          .x = found->search->pareto.speeds,
                          .series_count = SIZE_CURVES};
    for (int curve = 0; curve < SIZE_CURVES; curve++) {
        for (int i = 0; i < SIZE_SPEEDS; i++) {
            double value = found->search->pareto.node_tokens[curve][i];
            values[curve][i] = value > 0 ? value : (double)NAN;
        }
        chart.series[curve] = (struct chart_series){curve_names[curve], values[curve]};
    }
    chart_lines(writer, &chart);
}

/* Writes the table of the text into the page. The caller provides the memory. */
void plan_words_page(struct json_writer *writer, const struct plan_found *found) {
    json_writer_text(writer, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                             "<title>fathom plan</title><style>");
    json_writer_text(writer, plan_style);
    json_writer_text(writer, chart_style);
    json_writer_text(writer, "</style></head><body>\n<h1>A fleet for a load</h1><p>");
    plan_words_write_load(writer, found);
    json_writer_text(writer, "</p>\n<p>");
    write_counted(writer, found);
    json_writer_text(writer, "</p>\n");
    plan_words_write_chart(writer, found);
    json_writer_text(writer, "<pre>\n");
    for (uint32_t i = 0; i < found->count; i++) {
        const struct size_fleet *fleet = &found->fleets[i];
        plan_words_write_figures(writer, found, i);
        json_writer_text(writer, "  ");
        words_html(writer, bytes_of(fleet->why[0] ? fleet->why : verdict_names[fleet->verdict]));
        json_writer_text(writer, "\n");
    }
    plan_words_write_choices(writer, found);
    json_writer_text(writer, "</pre></body></html>\n");
}

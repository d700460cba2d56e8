/* SPDX-License-Identifier: Apache-2.0
 * fathom plan: finds the cheapest fleet for a load and latency limits. Candidates come from the
 * step clock (simulate/simulator/size_fleet.h). The simulator runs those that could be the
 * cheapest, and they grow until the cheapest meets the limits (simulate/simulator/size_growth.h).
 * The search is limited by a count of records, not by time, so equal arguments and seeds give equal
 * output.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/number.h"
#include "host/process/lazy_memory.h"
#include "programs/plan_load.h"
#include "programs/programs.h"
#include "programs/sim_files.h"
#include "simulate/load/load_replay.h"
#include "simulate/report/plan_words.h"
#include "simulate/report/spread.h"
#include "simulate/simulator/size_growth.h"
#include "simulate/simulator/size_window.h"

#define TREES_BYTES ((size_t)64 << 20)
#define CLOCKS_BYTES ((size_t)64 << 20)
#define RECORDS_MAX 15e6 /* of all simulated runs; the run that exceeds it is the last */
#define BAD_FEW 20       /* a run ends when more requests, and more than BAD_SHARE, were late */
#define BAD_SHARE 0.05
#define COUNTED_STEP 256 /* tokens: granularity of the limit on prompt lengths */
#define EXPERT_SKEW 0.6  /* source: twin/scenarios/ep144.yaml */
#define EXPERT_DRIFT 0.1 /* from the same file */
#define CONTEXT_TOKENS 131072
#define QUANTILE 0.99

struct plan_values {
    const char *hardware, *model, *trace, *ttft, *tpot, *prices, *report;
    double rate, prompt_mean, answer_mean, hit;
    uint64_t seed;
    bool json, verbose;
};

#define AT(field) .offset = offsetof(struct plan_values, field)

static const struct option plan_rows[] = {
    {"hardware", OPTION_TEXT, "h800", "a built-in name (`fathom sim --list`) or a YAML file",
     AT(hardware)},
    {"model", OPTION_TEXT, "deepseek-v3", "a built-in name or a YAML file", AT(model)},
    {"trace", OPTION_TEXT, NULL,
     "the load: a request trace (Mooncake's, Azure's); its five minutes with most tokens are "
     "played",
     AT(trace)},
    {"rate", OPTION_NUMBER, NULL,
     "requests per second of a steady load; with a trace, with its lengths and hits", AT(rate),
     .minimum = 0, .maximum = 1e6},
    {"prompt-mean", OPTION_NUMBER, "3900", "mean tokens of a prompt", AT(prompt_mean), .minimum = 1,
     .maximum = 60000},
    {"answer-mean", OPTION_NUMBER, "1080", "mean tokens of an answer", AT(answer_mean),
     .minimum = 2, .maximum = 8000},
    {"hit", OPTION_NUMBER, "0.5625", "share of prompt tokens that hit the cache", AT(hit),
     .minimum = 0, .maximum = 0.95},
    {"ttft-p99", OPTION_TEXT, "3s", "limit of TTFT: 3s, 800ms", AT(ttft)},
    {"tpot-p99", OPTION_TEXT, "60ms", "limit of TPOT: 60ms", AT(tpot)},
    {"prices", OPTION_TEXT, NULL,
     "cost of nodes and prices of tokens: a built-in name or a YAML file", AT(prices)},
    {"seed", OPTION_COUNT, "1", "seed of the load; the same seed gives the same plan", AT(seed)},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
    {"report", OPTION_TEXT, NULL, "also write the plan as an HTML page to this file", AT(report)},
    {"verbose", OPTION_FLAG, NULL, "print each simulated run to stderr", AT(verbose)},
};

const struct option_table plan_options = {
    .command = "plan",
    .arguments = "",
    .description =
        "Finds the cheapest fleet that serves a load within limits of TTFT and TPOT: units of "
        "each role, their ranks, redundant experts and batches, MTP, storage. Exits with 1 if "
        "no fleet does.\n\nexamples:\n"
        "  fathom plan --trace conversation_trace.jsonl\n"
        "  fathom plan --rate 1605 --prices deepseek-2025-02 --tpot-p99 60ms --report plan.html",
    .options = plan_rows,
    .option_count = ARRAY_COUNT(plan_rows),
};

struct planning {
    const struct plan_values *values;
    struct lazy_memory trees, clocks_memory;
    struct arena arena, clocks;
    struct hardware hardware;
    struct model_figures model;
    void *trace_memory;
    struct load_trace trace;
    struct plan_window window;
    bool replays; /* replays the window instead of a steady load */
    struct size_search search;
    struct plan_prompts prompts;
    struct size_growth growth;
    struct plan_found found;
    /* The current run: */
    struct time_spread ttft, ttft_all, tpot;
    struct size_sample sample;
    struct simulator_source source;        /* wrapped by next_request */
    int64_t begin_ns, end_ns, judgable_ns; /* later requests could still be in time after the end */
    uint64_t asked;                        /* requests so far that TTFT counts */
    uint64_t late, slow;
    bool enough; /* the rest of the run cannot change the result */
};

/* ---- options ---- */

static enum status read_files(struct planning *plan, struct error *error) {
    const struct plan_values *values = plan->values;
    struct sim_files files = {.scenario = "plan"};
    struct scenario_library library = sim_files_library(&files);
    struct plan_found *found = &plan->found;
    const struct tree *tree;
    enum status status = library.find(library.context, &plan->arena, "hardware",
                                      bytes_of(values->hardware), &tree, error);
    if (!status)
        status = hardware_file_read(&plan->arena, tree, values->hardware, &plan->hardware, error);
    if (!status)
        status = library.find(library.context, &plan->arena, "model", bytes_of(values->model),
                              &tree, error);
    if (!status)
        status = hardware_file_model_figures_read(tree, values->model, &plan->model, error);
    if (!status && values->prices) {
        struct tree_place place = {.file = values->prices, .error = error};
        status = library.find(library.context, &plan->arena, "prices", bytes_of(values->prices),
                              &tree, error);
        if (!status) status = prices_read(&place, tree, &found->prices);
        found->prices.calendar = *prices_of_model(&found->prices, bytes_of(plan->model.name));
        found->node_hour =
            plan->hardware.node_price > 0 ? plan->hardware.node_price : found->prices.node_hour;
    }
    if (!status && values->trace)
        status = sim_files_trace(&files, values->trace, &plan->trace_memory, &plan->trace, error);
    return status;
}

static enum status solve_lengths(const struct size_options *options, bool storage,
                                 struct day_lengths *lengths_out, struct error *error) {
    struct day_moments moments = size_window_moments(options, storage);
    if (day_load_solve(&moments, lengths_out)) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "no lengths have these means and hits");
}

/* Reads the load's means. A trace is replayed unless a rate is given: then a steady load has its
 * means. */
static enum status read_means(struct planning *plan, struct error *error) {
    const struct plan_values *values = plan->values;
    struct size_options *options = &plan->found.options;
    struct size_load *load = &options->load;
    struct day_lengths lengths;
    enum status status = STATUS_OK;
    *load = (struct size_load){.rate = values->rate,
                               .prompt_mean = values->prompt_mean,
                               .prompt_cv = 1.2,
                               .answer_mean = values->answer_mean,
                               .hit_share = values->hit,
                               .kv_mean = values->prompt_mean + values->answer_mean};
    if (values->trace) status = plan_load_window(&plan->trace, &plan->window, error);
    if (!status && values->trace)
        status = plan_load_moments(&plan->window, load, &plan->prompts, error);
    plan->replays = values->trace && values->rate == 0;
    if (status || plan->replays) return status;
    load->rate = values->rate;
    load->dry_share = 0; /* a steady load has stored amounts and no shared blocks */
    status = solve_lengths(options, true, &lengths, error);
    if (!status) plan_load_draw(&lengths, options->seed, &plan->prompts);
    return status;
}

/* If one prompt in a hundred is too long for the TTFT limit on an idle rank, TTFT counts only those
 * that can meet it. */
static enum status plan_program_read_load(struct planning *plan, struct error *error) {
    struct size_options *options = &plan->found.options;
    struct size_load *load = &options->load;
    struct size_reach *reach = &plan->found.reach;
    plan->found.load = plan->values->trace ? plan->values->trace : "a steady mix";
    enum status status = read_means(plan, error);
    if (status) return status;
    load->long_prompt[1] = spread_quantile(&plan->prompts.computed, QUANTILE);
    load->long_prompt[0] =
        plan->replays ? load->long_prompt[1] : spread_quantile(&plan->prompts.lengths, QUANTILE);
    load->counted_share = 1;
    status = size_fleet_reach(options, &plan->clocks, reach, error);
    plan->found.long_prompt = load->long_prompt[1];
    if (status || load->long_prompt[1] <= reach->tokens) return status;
    uint32_t counted = reach->tokens / COUNTED_STEP * COUNTED_STEP;
    double share = spread_below(&plan->prompts.lengths, counted);
    if (share == 0) return STATUS_OK; /* no fleet can meet it; the units have the reasons */
    load->counted_prompt = counted;
    load->counted_share = share;
    for (int storage = 0; storage < 2; storage++)
        if (load->long_prompt[storage] > counted) load->long_prompt[storage] = counted;
    return STATUS_OK;
}

/* ---- a simulated run ---- */

static bool plan_program_is_measured(const struct planning *plan, int64_t ns) {
    return ns >= plan->begin_ns && ns <= plan->end_ns;
}

static bool plan_program_is_judged(const struct planning *plan, int64_t arrival_ns) {
    return arrival_ns >= plan->begin_ns && arrival_ns <= plan->judgable_ns;
}

static bool is_counted(const struct planning *plan, uint32_t prompt_tokens) {
    uint32_t most = plan->found.options.load.counted_prompt;
    return most == 0 || prompt_tokens <= most;
}

static bool plan_program_next_request(void *context, struct simulator_request *request_out) {
    struct planning *plan = context;
    if (!plan->source.next(plan->source.self, request_out)) return false;
    if (plan->sample.focus == SIZE_PROMPTS)
        request_out->answer_tokens = min_u32(request_out->answer_tokens, 2);
    if (!request_out->standing && plan_program_is_judged(plan, request_out->arrival_ns) &&
        is_counted(plan, request_out->prompt_tokens))
        plan->asked++;
    return true;
}

static bool is_bad(uint64_t bad, const struct time_spread *all) {
    return bad > BAD_FEW && (double)bad > BAD_SHARE * (double)all->total;
}

static void plan_program_receive_first(void *context, const struct simulator_ended *begun) {
    struct planning *plan = context;
    int64_t ns = begun->first_ns - begun->arrival_ns;
    if (begun->standing || plan->sample.focus == SIZE_ANSWERS) return;
    if (plan->sample.focus == SIZE_PROMPTS && begun->first_ns > plan->judgable_ns)
        plan->enough |= plan->ttft.total == plan->asked;
    if (!plan_program_is_judged(plan, begun->arrival_ns)) return;
    spread_add(&plan->ttft_all, ns);
    if (!is_counted(plan, begun->prompt_tokens)) return;
    spread_add(&plan->ttft, ns);
    plan->late += (double)ns > plan->found.options.ttft_s * 1e9;
    plan->enough |= is_bad(plan->late, &plan->ttft);
}

/* Requests from before the window count, too: in a short window the others have short answers. */
static void plan_program_receive_end(void *context, const struct simulator_ended *ended) {
    struct planning *plan = context;
    if (ended->failed || ended->answer_tokens < 2 || !plan_program_is_measured(plan, ended->end_ns))
        return;
    if (plan->sample.focus == SIZE_PROMPTS) return;
    int64_t ns = (ended->end_ns - ended->first_ns) / (ended->answer_tokens - 1);
    spread_add(&plan->tpot, ns);
    plan->slow += (double)ns > plan->found.options.tpot_s * 1e9;
    plan->enough |= is_bad(plan->slow, &plan->tpot);
}

/* Prompts without a first token count as the latest of all. */
static double ttft_p99(const struct planning *plan) {
    if (plan->ttft.total == 0) return 0;
    double share = QUANTILE * (double)plan->asked / (double)plan->ttft.total;
    return spread_quantile(&plan->ttft, share < 1 ? share : 1) * 1e-9;
}

static struct size_trial plan_program_verify(const struct planning *plan,
                                             const struct size_fleet *fleet,
                                             const struct simulator_report *report) {
    const struct size_sample *sample = &plan->sample;
    const struct size_unit *last = &fleet->kinds[fleet->kind_count - 1];
    const struct simulator_role_counts *answers = &report->roles[last->role];
    double output = 0, nodes = 0, hits = 0, computed = 0;
    for (uint32_t k = 0; k < fleet->kind_count; k++)
        nodes += sample->counts[k] * fleet->kinds[k].nodes;
    if (sample->share < 1) nodes = fleet->nodes * sample->share;
    for (int role = 0; role < UNIT_ROLE_COUNT; role++) {
        const struct simulator_role_counts *counts = &report->roles[role];
        output += (double)counts->output_tokens;
        if (role == UNIT_DECODE) continue; /* its prompts were computed elsewhere */
        hits += (double)(counts->device_hits + counts->host_hits + counts->disk_hits);
        computed += (double)counts->computed_tokens;
    }
    double room = (double)answers->steps * last->ranks * last->rows;
    double speed = report->user_tokens > 0 ? report->user_speed_tokens / report->user_tokens : 0;
    return (struct size_trial){
        .ttft_p99_s = ttft_p99(plan),
        .ttft_all_p99_s = spread_quantile(&plan->ttft_all, QUANTILE) * 1e-9,
        .tpot_p99_s = spread_quantile(&plan->tpot, QUANTILE) * 1e-9,
        .node_tokens = output / report->measured_s / nodes,
        .user_speed = speed,
        .hit_share = computed > 0 ? hits / (hits + computed) : 0,
        .begun_share = plan->asked ? (double)plan->ttft.total / (double)plan->asked : 1,
        .answered = report->answered,
        .failed = report->failed + report->refused,
        .rows_share = room > 0 ? (double)answers->rows / room : 0,
        .share = sample->share,
    };
}

static enum status open_steady(struct planning *plan, const struct size_fleet *fleet,
                               struct day_load *load, struct simulator_options *options,
                               struct error *error) {
    const struct size_options *sizes = &plan->found.options;
    const struct size_sample *sample = &plan->sample;
    struct day_lengths lengths;
    uint32_t last = fleet->kind_count - 1;
    double rows = 0, rate = sizes->load.rate * sample->share / sample->counts[last];
    enum status status = solve_lengths(sizes, fleet->storage, &lengths, error);
    if (!status && sample->focus != SIZE_PROMPTS)
        status = size_fleet_standing(sizes, &plan->clocks, &fleet->kinds[last], rate, &rows, error);
    if (!status) size_window_set_load(sizes, fleet, sample, &lengths, rows, load, options);
    return status;
}

static enum status open_replay(struct planning *plan, struct simulator_options *options,
                               struct error *error) {
    struct load_replay *replay;
    struct load_replay_options replays = {.trace = &plan->window.trace,
                                          .block_tokens = LOAD_TRACE_BLOCK_TOKENS,
                                          .tokens_max = CONTEXT_TOKENS - 64,
                                          .speed = 1,
                                          .plays = 1,
                                          .abreast = 1,
                                          .seed = plan->values->seed};
    arena_clear(&plan->clocks);
    options->warm_ns = (int64_t)(plan->window.warm_s * 1e9);
    options->measure_ns = (int64_t)(plan->window.measure_s * 1e9);
    enum status status = load_replay_open(&plan->clocks, &replays, &replay, error);
    if (!status) options->source = load_replay_source(replay);
    return status;
}

static void listen(struct planning *plan, struct simulator_options *options) {
    memset(&plan->ttft, 0, sizeof plan->ttft);
    memset(&plan->ttft_all, 0, sizeof plan->ttft_all);
    memset(&plan->tpot, 0, sizeof plan->tpot);
    plan->asked = plan->late = plan->slow = 0;
    plan->enough = false;
    plan->begin_ns = options->warm_ns;
    plan->end_ns = options->warm_ns + options->measure_ns;
    plan->judgable_ns = plan->end_ns - (int64_t)(plan->found.options.ttft_s * 1e9);
    plan->source = options->source;
    options->source = (struct simulator_source){plan, plan_program_next_request};
    options->context = plan;
    options->begun = plan_program_receive_first;
    options->ended = plan_program_receive_end;
    options->enough = &plan->enough;
}

static enum status run_fleet(struct planning *plan, const struct size_run *run,
                             struct size_trial *trial_out, struct error *error) {
    const struct size_fleet *fleet = &run->fleet;
    struct simulator_options options;
    struct simulator_report report;
    struct day_load load;
    struct arena arena;
    plan->sample = size_window_sample(&plan->found.options.load, fleet, run->focus);
    bool replays = plan->replays && plan->sample.share == 1 && run->focus == SIZE_WHOLE;
    size_window_set_fleet(&plan->found.options, fleet, &plan->sample, &options);
    enum status status = replays ? open_replay(plan, &options, error)
                                 : open_steady(plan, fleet, &load, &options, error);
    if (status) return status;
    listen(plan, &options);
    struct lazy_memory world = lazy_memory_take(simulator_bytes(&options));
    if (!world.start) return error_set(error, STATUS_NO_MEMORY, "no memory for a fleet");
    arena_over(&arena, world.start, world.bytes);
    status = simulator_run(&options, &arena, &report, error);
    lazy_memory_free(&world);
    if (!status) status = simulator_verify(&report, "a run", error);
    if (status) return status;
    *trial_out = plan_program_verify(plan, fleet, &report);
    plan->found.runs++;
    plan->found.records += (double)report.records;
    return STATUS_OK;
}

static void plan_program_report_run(const struct planning *plan, const struct size_run *run,
                                    const struct size_trial *trial) {
    static const char *const about[] = {
        [SIZE_WHOLE] = "whole", [SIZE_PROMPTS] = "prompts", [SIZE_ANSWERS] = "answers"};
    char name[SIZE_TEXT_BYTES];
    if (!plan->values->verbose) return;
    size_fleet_name(&run->fleet, name);
    fprintf(
        stderr,
        "fathom plan: %s (%s, %.3g of the load): %.0f nodes, TTFT p99 %.2f s, TPOT p99 %.1f ms, "
        "%.1f %% of %.0f began, rows %.0f %%, %.1f %% hits; %.2f million records so far\n",
        name, about[run->focus], trial->share, run->fleet.nodes, trial->ttft_p99_s,
        trial->tpot_p99_s * 1e3, trial->begun_share * 100, (double)plan->asked,
        trial->rows_share * 100, trial->hit_share * 100, plan->found.records * 1e-6);
}

/* ---- the plan ---- */

static enum status run_fleets(struct planning *plan, struct error *error) {
    struct plan_found *found = &plan->found;
    struct size_growth *growth = &plan->growth;
    struct size_run run;
    enum status status = STATUS_OK;
    size_growth_open(&found->options, found->fleets, found->count, growth);
    while (!status && size_growth_next(growth, &run)) {
        struct size_trial trial;
        if (found->records > RECORDS_MAX) {
            found->cut = true;
            break;
        }
        status = run_fleet(plan, &run, &trial, error);
        if (status) break;
        plan_program_report_run(plan, &run, &trial);
        size_growth_take(growth, &run, &trial);
    }
    size_growth_close(growth);
    return status;
}

static enum status plan_program_make_plan(struct planning *plan, struct error *error) {
    struct plan_found *found = &plan->found;
    plan->trees = lazy_memory_take(TREES_BYTES);
    plan->clocks_memory = lazy_memory_take(CLOCKS_BYTES);
    if (!plan->trees.start || !plan->clocks_memory.start)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a plan");
    arena_over(&plan->arena, plan->trees.start, plan->trees.bytes);
    arena_over(&plan->clocks, plan->clocks_memory.start, plan->clocks_memory.bytes);
    enum status status = read_files(plan, error);
    if (status) return status;
    found->options.hardware = &plan->hardware;
    found->options.model = &plan->model;
    found->options.expert_skew = EXPERT_SKEW;
    found->options.expert_drift = EXPERT_DRIFT;
    found->options.seed = plan->values->seed;
    found->search = &plan->search;
    status = plan_program_read_load(plan, error);
    if (!status) status = size_fleet_search(&found->options, &plan->clocks, &plan->search, error);
    if (status) return status;
    found->candidates = plan->search.count;
    found->count = size_fleet_rank(&found->options, &plan->search, found->fleets);
    return run_fleets(plan, error);
}

/* ---- results ---- */

static void plan_program_text(struct json_writer *writer, const void *found) {
    plan_words_text(writer, found);
}

static void plan_program_json(struct json_writer *writer, const void *found) {
    plan_words_json(writer, found);
}

static void plan_program_page(struct json_writer *writer, const void *found) {
    plan_words_page(writer, found);
}

static enum status plan_program_show(const struct planning *plan, struct error *error) {
    const struct plan_values *values = plan->values;
    enum status status = command_write(
        "", NULL, values->json ? plan_program_json : plan_program_text, &plan->found, error);
    if (!status && values->report)
        status = command_write("--report", values->report, plan_program_page, &plan->found, error);
    return status;
}

/* The larger ratio of a p99 latency to its limit. */
static double missed_by(const struct size_options *options, const struct size_trial *trial) {
    double late = trial->ttft_p99_s / options->ttft_s, slow = trial->tpot_p99_s / options->tpot_s;
    return late > slow ? late : slow;
}

/* Reports failure with the fleet that came nearest: one that ran, or else a unit that misses a
 * limit. */
static enum status refuse(const struct plan_found *found, struct error *error) {
    char name[SIZE_TEXT_BYTES] = "none";
    const struct size_fleet *nearest = found->count ? &found->fleets[0] : NULL;
    for (uint32_t i = 0; i < found->count; i++) {
        const struct size_fleet *fleet = &found->fleets[i];
        bool nearer = !nearest->trials || missed_by(&found->options, &fleet->trial) <
                                              missed_by(&found->options, &nearest->trial);
        if (fleet->trials && nearer) nearest = fleet;
    }
    if (nearest) size_fleet_name(nearest, name);
    return error_set(error, STATUS_NOT_FOUND, "no fleet holds the limits; the nearest is %s: %s",
                     name, nearest ? nearest->why : "no unit fits the hardware");
}

static int plan_for(struct planning *plan) {
    struct error error;
    enum status status = plan_program_make_plan(plan, &error);
    if (!status) {
        bool holds = plan_words_verify(&plan->found);
        status = plan_program_show(plan, &error);
        if (!status && !holds) status = refuse(&plan->found, &error);
    }
    free(plan->trace_memory);
    lazy_memory_free(&plan->trees);
    lazy_memory_free(&plan->clocks_memory);
    return command_end(status, &error);
}

int program_plan(void *given, const struct option_result *result) {
    struct plan_values *values = given;
    int exit_code;
    struct planning *plan = calloc(1, sizeof *plan);
    if (!plan) return EXIT_CODE_FAILED;
    plan->values = values;
    struct size_options *options = &plan->found.options;
    if (!values->trace && values->rate <= 0)
        exit_code = command_misused("which load? give --trace or --rate");
    else if (!plan_load_seconds(values->ttft, &options->ttft_s) ||
             !plan_load_seconds(values->tpot, &options->tpot_s))
        exit_code = command_misused("limits are times, such as 3s or 60ms");
    else
        exit_code = plan_for(plan);
    free(plan);
    return exit_code;
}

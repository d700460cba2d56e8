/* SPDX-License-Identifier: Apache-2.0
 * Defaults are defined in one place each: next to the rows of the keys that change them.
 */
#include "simulate/scenario/scenario.h"

#include <math.h>

#include "base/check.h"
#include "base/format.h"
#include "base/limits.h"
#include "simulate/scenario/scenario_faults.h"

#define SPECULATE_NAMES "never|always|measured"
#define OVERLAP_NAMES                                                                              \
    "as-chosen|sequential|prefill-dual-batch|decode-five-stage|quad-batch|hexa-batch|octo-batch|"  \
    "decode-early"
#define BALANCE_NAMES "work|round-robin|least-requests|least-tokens|power-of-two"

/* ---- the root ---- */

#define ROOT(member) offsetof(struct scenario, member)

static const struct scenario_key root_keys[] = {
    {.name = "name", .kind = SCENARIO_TEXT, .offset = ROOT(name)},
    {.name = "about", .kind = SCENARIO_OTHER},
    {.name = "hardware", .kind = SCENARIO_OTHER, .needed = true},
    {.name = "model", .kind = SCENARIO_OTHER, .needed = true},
    {.name = "prices", .kind = SCENARIO_OTHER},
    {.name = "fleet", .kind = SCENARIO_OTHER, .needed = true},
    {.name = "load", .kind = SCENARIO_OTHER, .needed = true},
    {.name = "faults", .kind = SCENARIO_OTHER},
    {.name = "settle_s", .kind = SCENARIO_TIME, .offset = ROOT(options.settle_ns)},
    {.name = "warm_s", .kind = SCENARIO_TIME, .offset = ROOT(options.warm_ns)},
    {.name = "measure_s", .kind = SCENARIO_TIME, .offset = ROOT(options.measure_ns)},
    {.name = "start_hour", .kind = SCENARIO_NUMBER, .offset = ROOT(start_hour), .maximum = 24},
    {.name = "seed", .kind = SCENARIO_LARGE, .offset = ROOT(options.seed)},
};

/* ---- the fleet ---- */

#define FLEET(member) offsetof(struct simulator_options, member)

static const struct scenario_key fleet_keys[] = {
    {.name = "gateways",
     .kind = SCENARIO_COUNT,
     .offset = FLEET(gateways),
     .minimum = 1,
     .maximum = 1024},
    {.name = "gateway_requests",
     .kind = SCENARIO_COUNT,
     .offset = FLEET(gateway_requests_max),
     .minimum = 1,
     .maximum = 1e6},
    {.name = "prefix_blocks",
     .kind = SCENARIO_COUNT,
     .offset = FLEET(prefix_blocks),
     .minimum = 0,
     .maximum = 1e9},
    {.name = "through_api", .kind = SCENARIO_FLAG, .offset = FLEET(through_api)},
    {.name = "storage_bytes", .kind = SCENARIO_NUMBER, .offset = FLEET(storage_bytes)},
    {.name = "host_bytes", .kind = SCENARIO_NUMBER, .offset = FLEET(host_bytes)},
    {.name = "expert_skew",
     .kind = SCENARIO_NUMBER,
     .offset = FLEET(expert_skew),
     .minimum = 0,
     .maximum = 4},
    {.name = "expert_drift",
     .kind = SCENARIO_NUMBER,
     .offset = FLEET(expert_drift),
     .minimum = 0,
     .maximum = 1},
    {.name = "units", .kind = SCENARIO_OTHER, .needed = true},
};

/* A kind of units as the scenario writes it in words. The numbers are read directly into
 * simulator_unit_kind. */
struct kind_words {
    struct simulator_unit_kind kind;
    uint32_t role, overlap;
};

#define KIND(member) offsetof(struct kind_words, kind.member)

static const struct scenario_key kind_keys[] = {
    {.name = "about", .kind = SCENARIO_OTHER},
    {.name = "role",
     .kind = SCENARIO_CHOICE,
     .offset = offsetof(struct kind_words, role),
     .choices = "both|prefill|decode",
     .needed = true},
    {.name = "count", .kind = SCENARIO_COUNT, .offset = KIND(count), .minimum = 1, .maximum = 4096},
    {.name = "hardware", .kind = SCENARIO_OTHER},
    {.name = "ranks",
     .kind = SCENARIO_COUNT,
     .offset = KIND(ranks),
     .minimum = 1,
     .maximum = LIMIT_RANKS,
     .needed = true},
    {.name = "ranks_per_node",
     .kind = SCENARIO_COUNT,
     .offset = KIND(ranks_per_node),
     .minimum = 1,
     .maximum = LIMIT_RANKS},
    {.name = "redundant_experts",
     .kind = SCENARIO_COUNT,
     .offset = KIND(redundant_experts),
     .minimum = 0,
     .maximum = LIMIT_EXPERTS},
    {.name = "balance_experts", .kind = SCENARIO_FLAG, .offset = KIND(balance_experts)},
    {.name = "rows",
     .kind = SCENARIO_COUNT,
     .offset = KIND(rows_max),
     .minimum = 0,
     .maximum = 65536},
    {.name = "requests",
     .kind = SCENARIO_COUNT,
     .offset = KIND(requests_max),
     .minimum = 0,
     .maximum = 65536},
    {.name = "step_tokens",
     .kind = SCENARIO_COUNT,
     .offset = KIND(step_tokens_max),
     .minimum = 0,
     .maximum = 1e6},
    {.name = "pages", .kind = SCENARIO_COUNT, .offset = KIND(page_count)},
    {.name = "context_tokens",
     .kind = SCENARIO_COUNT,
     .offset = KIND(context_tokens_max),
     .minimum = 0,
     .maximum = LIMIT_CONTEXT},
    {.name = "speculate",
     .kind = SCENARIO_CHOICE,
     .offset = KIND(speculate),
     .choices = SPECULATE_NAMES},
    {.name = "overlap",
     .kind = SCENARIO_CHOICE,
     .offset = offsetof(struct kind_words, overlap),
     .choices = OVERLAP_NAMES},
    {.name = "rank_balance",
     .kind = SCENARIO_CHOICE,
     .offset = KIND(rank_balance),
     .choices = BALANCE_NAMES},
    {.name = "bind_on_arrival", .kind = SCENARIO_FLAG, .offset = KIND(bind_on_arrival)},
    {.name = "level_steps", .kind = SCENARIO_FLAG, .offset = KIND(level_steps)},
    {.name = "prefix_cache", .kind = SCENARIO_FLAG, .offset = KIND(prefix_cache)},
    {.name = "kv_storage", .kind = SCENARIO_FLAG, .offset = KIND(kv_storage)},
    {.name = "tpot_target_ms",
     .kind = SCENARIO_NUMBER,
     .offset = KIND(tpot_target_ms),
     .minimum = 0,
     .maximum = 1e6},
};

/* Reads hardware given at this place; else the fleet's is used. */
static enum status read_hardware(struct arena *arena, const struct scenario_place *place,
                                 const struct tree *tree, struct hardware *out) {
    struct scenario_place below = scenario_keys_below(place, "hardware");
    char name[SCENARIO_PATH_BYTES + 128];
    if (tree_kind(tree) != TREE_OBJECT)
        return scenario_keys_refuse(&below, "expected a name, a file or an object, found %s",
                                    tree_name(tree));
    format_text(name, sizeof name, "%.100s: %s", place->file, below.path);
    return hardware_file_read(arena, tree, name, out, place->error);
}

static enum status scenario_read_kind(struct arena *arena, const struct scenario_place *place,
                                      const struct tree *tree, struct scenario *scenario,
                                      uint32_t index) {
    struct kind_words words = {.kind = {.count = 1,
                                        .balance_experts = true,
                                        .speculate = 0,
                                        .prefix_cache = true,
                                        .level_steps = true,
                                        .kv_storage = true}};
    const struct tree *own = NULL;
    enum status status = scenario_keys_read(place, tree, kind_keys, ARRAY_COUNT(kind_keys), &words);
    if (status) return status;
    struct simulator_unit_kind *kind = &scenario->options.kinds[index];
    *kind = words.kind;
    kind->role = (enum unit_role)words.role;
    kind->overlap = (int)words.overlap - 1;
    kind->hardware = &scenario->hardware[0];
    if ((own = tree_member(tree, "hardware"))) {
        kind->hardware = &scenario->hardware[index + 1];
        status = read_hardware(arena, place, own, &scenario->hardware[index + 1]);
    }
    if (kind->ranks_per_node == 0) kind->ranks_per_node = kind->hardware->gpus_per_node;
    if (kind->ranks_per_node > kind->ranks) kind->ranks_per_node = kind->ranks;
    return status;
}

static enum status read_fleet(struct arena *arena, const struct scenario_place *root,
                              struct scenario *scenario) {
    struct scenario_place place = scenario_keys_below(root, "fleet");
    struct scenario_place list = scenario_keys_below(&place, "units");
    const struct tree *tree = tree_member(scenario->tree, "fleet");
    enum status status =
        scenario_keys_read(&place, tree, fleet_keys, ARRAY_COUNT(fleet_keys), &scenario->options);
    if (status) return status;
    const struct tree *units = tree_member(tree, "units");
    size_t count = tree_count(units);
    if (count < 1 || count > SIMULATOR_KINDS_MAX)
        return scenario_keys_refuse(&list, "expected a list of 1 to %d kinds of units",
                                    SIMULATOR_KINDS_MAX);
    for (size_t i = 0; !status && i < count; i++) {
        struct scenario_place below = scenario_keys_element(&list, i);
        if (tree_kind(tree_at(units, i)) != TREE_OBJECT)
            return scenario_keys_refuse(&below, "expected an object");
        status = scenario_read_kind(arena, &below, tree_at(units, i), scenario, (uint32_t)i);
    }
    scenario->options.kind_count = (uint32_t)count;
    return status;
}

/* ---- the load ---- */

#define MIX(member) offsetof(struct scenario_load, mix.member)
#define REPLAY(member) offsetof(struct scenario_load, replay.member)

static const struct scenario_key load_keys[] = {
    {.name = "about", .kind = SCENARIO_OTHER},
    {.name = "mix", .kind = SCENARIO_OTHER},
    {.name = "trace", .kind = SCENARIO_OTHER},
    {.name = "day", .kind = SCENARIO_OTHER},
};

static const struct scenario_key mix_keys[] = {
    {.name = "about", .kind = SCENARIO_OTHER},
    {.name = "requests_per_s",
     .kind = SCENARIO_NUMBER,
     .offset = MIX(requests_per_s),
     .minimum = 1e-6,
     .maximum = 1e6,
     .needed = true},
    {.name = "requests", .kind = SCENARIO_LARGE, .offset = MIX(requests)},
    {.name = "arrival_cv",
     .kind = SCENARIO_NUMBER,
     .offset = MIX(arrival_cv),
     .minimum = 0.05,
     .maximum = 20},
    {.name = "turns",
     .kind = SCENARIO_NUMBER,
     .offset = MIX(shape.turns),
     .minimum = 1,
     .maximum = 1000},
    {.name = "systems",
     .kind = SCENARIO_COUNT,
     .offset = MIX(shape.systems),
     .minimum = 1,
     .maximum = 1e6},
    {.name = "tokens_max",
     .kind = SCENARIO_COUNT,
     .offset = MIX(shape.tokens_max),
     .minimum = 128,
     .maximum = LIMIT_CONTEXT},
    {.name = "answer_cv",
     .kind = SCENARIO_NUMBER,
     .offset = MIX(shape.answer_cv),
     .minimum = 0,
     .maximum = 10},
    {.name = "text_cv",
     .kind = SCENARIO_NUMBER,
     .offset = MIX(shape.text_cv),
     .minimum = 0,
     .maximum = 10},
    {.name = "think_s",
     .kind = SCENARIO_NUMBER,
     .offset = MIX(think_s),
     .minimum = 1e-3,
     .maximum = 1e6},
    {.name = "assumed_ttft_s",
     .kind = SCENARIO_NUMBER,
     .offset = MIX(ttft_s),
     .minimum = 0,
     .maximum = 1e4},
    {.name = "assumed_tpot_s",
     .kind = SCENARIO_NUMBER,
     .offset = MIX(tpot_s),
     .minimum = 1e-6,
     .maximum = 100},
    {.name = "past", .kind = SCENARIO_FLAG, .offset = MIX(past)},
    {.name = "moments", .kind = SCENARIO_OTHER},
    {.name = "tokens", .kind = SCENARIO_OTHER},
};

static const struct scenario_key moments_keys[] = {
    {.name = "prompt_answer_ratio",
     .kind = SCENARIO_NUMBER,
     .offset = offsetof(struct mix_moments, prompt_answer_ratio),
     .minimum = 1e-3,
     .maximum = 1e6,
     .needed = true},
    {.name = "hit_share",
     .kind = SCENARIO_NUMBER,
     .offset = offsetof(struct mix_moments, hit_share),
     .minimum = 0,
     .maximum = 0.999,
     .needed = true},
    {.name = "kv_tokens",
     .kind = SCENARIO_NUMBER,
     .offset = offsetof(struct mix_moments, kv_tokens),
     .minimum = 1,
     .maximum = 1e6,
     .needed = true},
};

#define SHAPE(member) offsetof(struct load_shape, member)

static const struct scenario_key tokens_keys[] = {
    {.name = "answer",
     .kind = SCENARIO_NUMBER,
     .offset = SHAPE(answer_tokens),
     .minimum = 1,
     .maximum = LIMIT_CONTEXT,
     .needed = true},
    {.name = "text",
     .kind = SCENARIO_NUMBER,
     .offset = SHAPE(text_tokens),
     .minimum = 1,
     .maximum = LIMIT_CONTEXT,
     .needed = true},
    {.name = "system",
     .kind = SCENARIO_NUMBER,
     .offset = SHAPE(system_tokens),
     .minimum = 0,
     .maximum = LIMIT_CONTEXT},
};

static const struct scenario_key trace_keys[] = {
    {.name = "about", .kind = SCENARIO_OTHER},
    {.name = "file",
     .kind = SCENARIO_TEXT,
     .offset = offsetof(struct scenario_load, trace),
     .needed = true},
    {.name = "length_scale",
     .kind = SCENARIO_NUMBER,
     .offset = offsetof(struct scenario_load, length_scale),
     .minimum = 1.0 / 512,
     .maximum = 16},
    {.name = "tokens_max",
     .kind = SCENARIO_COUNT,
     .offset = REPLAY(tokens_max),
     .minimum = 2,
     .maximum = LIMIT_CONTEXT},
    {.name = "speed",
     .kind = SCENARIO_NUMBER,
     .offset = REPLAY(speed),
     .minimum = 1e-6,
     .maximum = 1e6},
    {.name = "requests_per_s",
     .kind = SCENARIO_NUMBER,
     .offset = REPLAY(requests_per_s),
     .minimum = 1e-6,
     .maximum = 1e6},
    {.name = "plays",
     .kind = SCENARIO_COUNT,
     .offset = REPLAY(plays),
     .minimum = 0,
     .maximum = 1e6},
    {.name = "abreast",
     .kind = SCENARIO_COUNT,
     .offset = REPLAY(abreast),
     .minimum = 1,
     .maximum = LOAD_REPLAY_ABREAST_MAX},
    {.name = "requests", .kind = SCENARIO_LARGE, .offset = REPLAY(requests)},
};

static enum status read_mix(const struct scenario_place *load_place, const struct tree *tree,
                            struct scenario_load *load) {
    struct scenario_place place = scenario_keys_below(load_place, "mix");
    struct error why;
    load->kind = SCENARIO_LOAD_MIX;
    enum status status = scenario_keys_read(&place, tree, mix_keys, ARRAY_COUNT(mix_keys), load);
    if (status) return status;
    const struct tree *moments = tree_member(tree, "moments"),
                      *tokens = tree_member(tree, "tokens");
    if (!moments == !tokens)
        return scenario_keys_refuse(&place, "expected either moments (prompt_answer_ratio, "
                                            "hit_share, kv_tokens) or tokens (answer, text, "
                                            "system)");
    struct scenario_place below = scenario_keys_below(&place, moments ? "moments" : "tokens");
    if (tokens)
        return scenario_keys_read(&below, tokens, tokens_keys, ARRAY_COUNT(tokens_keys),
                                  &load->mix.shape);
    status =
        scenario_keys_read(&below, moments, moments_keys, ARRAY_COUNT(moments_keys), &load->asked);
    if (!status && load_shape_solve(&load->asked, &load->mix.shape, &why))
        status = scenario_keys_refuse(&below, "%s", why.text);
    return status;
}

static enum status scenario_read_trace(const struct scenario_place *load_place,
                                       const struct tree *tree, struct scenario_load *load) {
    struct scenario_place place = scenario_keys_below(load_place, "trace");
    load->kind = SCENARIO_LOAD_TRACE;
    enum status status =
        scenario_keys_read(&place, tree, trace_keys, ARRAY_COUNT(trace_keys), load);
    /* blocks have whole tokens, so this is the effective scale */
    load->replay.block_tokens = (uint32_t)lround(load->length_scale * LOAD_TRACE_BLOCK_TOKENS);
    return status;
}

/* The windows' times are those of the scenario. */
static enum status read_day(const struct scenario_place *place, const struct tree *tree,
                            struct scenario *scenario) {
    struct day_options *day = &scenario->load.day;
    const struct simulator_options *options = &scenario->options;
    scenario->load.kind = SCENARIO_LOAD_DAY;
    enum status status = scenario_day_read(place, tree, day);
    day->settle_s = (double)options->settle_ns * 1e-9;
    day->warm_s = (double)options->warm_ns * 1e-9;
    day->measure_s = (double)options->measure_ns * 1e-9;
    if (status) return status;
    if (options->measure_ns == 0)
        return scenario_keys_refuse(place, "a day's windows need measure_s");
    if (options->kind_count != 2 || options->kinds[0].role != UNIT_PREFILL ||
        options->kinds[1].role != UNIT_DECODE)
        return scenario_keys_refuse(place, "a day's fleet has two kinds of units: prefill first, "
                                           "then decode");
    return STATUS_OK;
}

static enum status scenario_read_load(const struct scenario_place *root,
                                      struct scenario *scenario) {
    struct scenario_place place = scenario_keys_below(root, "load");
    const struct tree *tree = tree_member(scenario->tree, "load");
    struct scenario_load *load = &scenario->load;
    enum status status = scenario_keys_read(&place, tree, load_keys, ARRAY_COUNT(load_keys), load);
    if (status) return status;
    const struct tree *mix = tree_member(tree, "mix"), *trace = tree_member(tree, "trace");
    const struct tree *day = tree_member(tree, "day");
    if (!!mix + !!trace + !!day != 1)
        return scenario_keys_refuse(&place, "expected one of mix, trace and day");
    if (day) return read_day(&place, day, scenario);
    status = mix ? read_mix(&place, mix, load) : scenario_read_trace(&place, trace, load);
    if (status) return status;
    bool endless = mix ? load->mix.requests == 0 : load->replay.plays == 0;
    if (endless && scenario->options.measure_ns == 0 && load->replay.requests == 0)
        return scenario_keys_refuse(root, "neither the load nor the measured time ends; give "
                                          "measure_s");
    return STATUS_OK;
}

/* ---- the whole ---- */

static void set_defaults(struct scenario *scenario) {
    scenario->options.gateways = 1;
    /* A gateway's tables are written when it is created. For a million requests that is 1 GB and 3
     * s. */
    scenario->options.gateway_requests_max = 65536;
    scenario->options.seed = 1;
    scenario->load.mix = (struct load_mix_options){
        .shape = {.turns = 1, .answer_cv = 1, .text_cv = 1, .systems = 1, .tokens_max = 65536},
        .arrival_cv = 1,
        .think_s = 60,
        .ttft_s = 2,
        .tpot_s = 0.05,
    };
    scenario->load.length_scale = 1;
    scenario->load.replay = (struct load_replay_options){.speed = 1, .plays = 1, .abreast = 1};
}

/* Reads everything except the fleet: hardware, model, prices. */
static enum status scenario_read_parts(struct arena *arena, const struct scenario_place *root,
                                       struct scenario *scenario) {
    const struct tree *model = tree_member(scenario->tree, "model");
    const struct tree *prices = tree_member(scenario->tree, "prices");
    struct scenario_place place = scenario_keys_below(root, "model");
    char name[SCENARIO_PATH_BYTES + 128];
    enum status status =
        read_hardware(arena, root, tree_member(scenario->tree, "hardware"), &scenario->hardware[0]);
    if (status) return status;
    if (tree_kind(model) != TREE_OBJECT)
        return scenario_keys_refuse(&place, "expected a name, a file or an object, found %s",
                                    tree_name(model));
    format_text(name, sizeof name, "%.100s: model", root->file);
    status = hardware_file_model_figures_read(model, name, &scenario->model, root->error);
    scenario->options.model = &scenario->model;
    if (status || !prices) return status;
    place = scenario_keys_below(root, "prices");
    status = prices_read(&place, prices, &scenario->prices);
    if (!status)
        scenario->prices.calendar =
            *prices_of_model(&scenario->prices, bytes_of(scenario->model.name));
    return status;
}

enum status scenario_read(struct arena *arena, const struct tree *tree, const char *file,
                          struct scenario *scenario, struct error *error) {
    struct scenario_place root = {.file = file, .error = error};
    *scenario = (struct scenario){.tree = tree};
    set_defaults(scenario);
    enum status status =
        scenario_keys_read(&root, tree, root_keys, ARRAY_COUNT(root_keys), scenario);
    if (status) return status;
    if (scenario->options.settle_ns > scenario->options.warm_ns)
        return scenario_keys_refuse(&root, "settle_s is a part of warm_s, and longer than it");
    status = scenario_read_parts(arena, &root, scenario);
    if (!status) status = read_fleet(arena, &root, scenario);
    if (!status)
        status = scenario_faults_read(arena, &root, tree_member(tree, "faults"), &scenario->options,
                                      &scenario->limits);
    if (!status) status = scenario_read_load(&root, scenario);
    scenario->load.mix.stored = scenario->load.mix.past && scenario->options.storage_bytes > 0;
    return status;
}

/* ---- the source ---- */

static struct load_replay_options replay_of(const struct scenario *scenario,
                                            const struct load_trace *trace) {
    struct load_replay_options options = scenario->load.replay;
    options.trace = trace;
    options.seed = scenario->options.seed;
    return options;
}

static struct load_mix_options mix_of(const struct scenario *scenario) {
    struct load_mix_options options = scenario->load.mix;
    options.seed = scenario->options.seed;
    return options;
}

size_t scenario_load_bytes(const struct scenario *scenario, const struct load_trace *trace) {
    struct load_mix_options mix = mix_of(scenario);
    struct load_replay_options replay = replay_of(scenario, trace);
    if (scenario->load.kind == SCENARIO_LOAD_DAY) return 0;
    return scenario->load.kind == SCENARIO_LOAD_MIX ? load_mix_bytes(&mix)
                                                    : load_replay_bytes(&replay);
}

enum status scenario_open_load(struct arena *arena, struct scenario *scenario,
                               const struct load_trace *trace, struct error *error) {
    struct load_mix_options mix_options = mix_of(scenario);
    struct load_replay_options replay_options = replay_of(scenario, trace);
    struct load_mix *mix;
    struct load_replay *replay;
    enum status status = STATUS_OK;
    if (scenario->load.kind == SCENARIO_LOAD_DAY) return STATUS_OK;
    if (scenario->load.kind == SCENARIO_LOAD_MIX) {
        status = load_mix_open(arena, &mix_options, &mix, error);
        if (!status) scenario->options.source = load_mix_source(mix);
    } else {
        status = load_replay_open(arena, &replay_options, &replay, error);
        if (!status) scenario->options.source = load_replay_source(replay);
    }
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 * Each default is defined in one place, next to the rows of the keys that change it.
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

static const struct tree_key root_keys[] = {
    {"name", KEY_TEXT, .offset = ROOT(name)},
    {"hardware", KEY_OTHER, .needed = true},
    {"model", KEY_OTHER, .needed = true},
    {"prices", .kind = KEY_OTHER},
    {"fleet", KEY_OTHER, .needed = true},
    {"load", KEY_OTHER, .needed = true},
    {"faults", .kind = KEY_OTHER},
    {"settle_s", KEY_TIME, .offset = ROOT(options.settle_ns)},
    {"warm_s", KEY_TIME, .offset = ROOT(options.warm_ns)},
    {"measure_s", KEY_TIME, .offset = ROOT(options.measure_ns)},
    {"start_hour", KEY_NUMBER, ROOT(start_hour), .maximum = 24},
    {"seed", KEY_LARGE, .offset = ROOT(options.seed)},
};

/* ---- the fleet ---- */

#define FLEET(member) offsetof(struct simulator_options, member)

static const struct tree_key fleet_keys[] = {
    {"gateways", KEY_COUNT, FLEET(gateways), .minimum = 1, .maximum = 1024},
    {"gateway_requests", KEY_COUNT, FLEET(gateway_requests_max), .minimum = 1, .maximum = 1e6},
    {"prefix_blocks", KEY_COUNT, FLEET(prefix_blocks), .maximum = 1e9},
    {"through_api", KEY_FLAG, .offset = FLEET(through_api)},
    {"storage_bytes", KEY_NUMBER, .offset = FLEET(storage_bytes)},
    {"host_bytes", KEY_NUMBER, .offset = FLEET(host_bytes)},
    {"expert_skew", KEY_NUMBER, FLEET(expert_skew), .maximum = 4},
    {"expert_drift", KEY_NUMBER, FLEET(expert_drift), .maximum = 1},
    {"units", KEY_OTHER, .needed = true},
};

/* The words of a kind of units in a scenario. Its numbers are read directly into
 * simulator_unit_kind. */
struct kind_words {
    struct simulator_unit_kind kind;
    uint32_t role, overlap;
};

#define KIND(member) offsetof(struct kind_words, kind.member)

static const struct tree_key kind_keys[] = {
    {"role", KEY_CHOICE, offsetof(struct kind_words, role), .choices = "both|prefill|decode",
     .needed = true},
    {"count", KEY_COUNT, KIND(count), .minimum = 1, .maximum = 4096},
    {"hardware", .kind = KEY_OTHER},
    {"ranks", KEY_COUNT, KIND(ranks), .minimum = 1, .maximum = LIMIT_RANKS, .needed = true},
    {"ranks_per_node", KEY_COUNT, KIND(ranks_per_node), .minimum = 1, .maximum = LIMIT_RANKS},
    {"redundant_experts", KEY_COUNT, KIND(redundant_experts), .maximum = LIMIT_EXPERTS},
    {"balance_experts", KEY_FLAG, .offset = KIND(balance_experts)},
    {"rows", KEY_COUNT, KIND(rows_max), .maximum = 65536},
    {"requests", KEY_COUNT, KIND(requests_max), .maximum = 65536},
    {"step_tokens", KEY_COUNT, KIND(step_tokens_max), .maximum = 1e6},
    {"pages", KEY_COUNT, .offset = KIND(page_count)},
    {"context_tokens", KEY_COUNT, KIND(context_tokens_max), .maximum = LIMIT_CONTEXT},
    {"speculate", KEY_CHOICE, KIND(speculate), .choices = SPECULATE_NAMES},
    {"overlap", KEY_CHOICE, offsetof(struct kind_words, overlap), .choices = OVERLAP_NAMES},
    {"rank_balance", KEY_CHOICE, KIND(rank_balance), .choices = BALANCE_NAMES},
    {"bind_on_arrival", KEY_FLAG, .offset = KIND(bind_on_arrival)},
    {"level_steps", KEY_FLAG, .offset = KIND(level_steps)},
    {"prefix_cache", KEY_FLAG, .offset = KIND(prefix_cache)},
    {"kv_storage", KEY_FLAG, .offset = KIND(kv_storage)},
    {"tpot_target_ms", KEY_NUMBER, KIND(tpot_target_ms), .maximum = 1e6},
};

/* Reads the hardware given at this place. Without any, that of the fleet is used. */
static enum status read_hardware(struct arena *arena, const struct tree_place *place,
                                 const struct tree *tree, struct hardware *out) {
    struct tree_place below = tree_keys_below(place, "hardware");
    char name[TREE_PATH_BYTES + 128];
    if (tree_kind(tree) != TREE_OBJECT)
        return tree_keys_refuse(&below, "expected a name, a file or an object, found %s",
                                tree_name(tree));
    format_text(name, sizeof name, "%.100s: %s", place->file, below.path);
    return hardware_file_read(arena, tree, name, out, place->error);
}

static enum status scenario_read_kind(struct arena *arena, const struct tree_place *place,
                                      const struct tree *tree, struct scenario *scenario,
                                      uint32_t index) {
    struct kind_words words = {.kind = {.count = 1,
                                        .balance_experts = true,
                                        .speculate = 0,
                                        .prefix_cache = true,
                                        .level_steps = true,
                                        .kv_storage = true}};
    const struct tree *own = NULL;
    enum status status = tree_keys_read(place, tree, kind_keys, ARRAY_COUNT(kind_keys), &words);
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

static enum status read_fleet(struct arena *arena, const struct tree_place *root,
                              struct scenario *scenario) {
    struct tree_place place = tree_keys_below(root, "fleet");
    struct tree_place list = tree_keys_below(&place, "units");
    const struct tree *tree = tree_member(scenario->tree, "fleet");
    enum status status =
        tree_keys_read(&place, tree, fleet_keys, ARRAY_COUNT(fleet_keys), &scenario->options);
    if (status) return status;
    const struct tree *units = tree_member(tree, "units");
    size_t count = tree_count(units);
    if (count < 1 || count > SIMULATOR_KINDS_MAX)
        return tree_keys_refuse(&list, "expected a list of 1 to %d kinds of units",
                                SIMULATOR_KINDS_MAX);
    for (size_t i = 0; !status && i < count; i++) {
        struct tree_place below = tree_keys_element(&list, i);
        if (tree_kind(tree_at(units, i)) != TREE_OBJECT)
            return tree_keys_refuse(&below, "expected an object");
        status = scenario_read_kind(arena, &below, tree_at(units, i), scenario, (uint32_t)i);
    }
    scenario->options.kind_count = (uint32_t)count;
    return status;
}

/* ---- the load ---- */

#define MIX(member) offsetof(struct scenario_load, mix.member)
#define REPLAY(member) offsetof(struct scenario_load, replay.member)

static const struct tree_key load_keys[] = {
    {"mix", .kind = KEY_OTHER},
    {"trace", .kind = KEY_OTHER},
    {"day", .kind = KEY_OTHER},
};

static const struct tree_key mix_keys[] = {
    {"requests_per_s", KEY_NUMBER, MIX(requests_per_s), .minimum = 1e-6, .maximum = 1e6,
     .needed = true},
    {"requests", KEY_LARGE, .offset = MIX(requests)},
    {"arrival_cv", KEY_NUMBER, MIX(arrival_cv), .minimum = 0.05, .maximum = 20},
    {"turns", KEY_NUMBER, MIX(shape.turns), .minimum = 1, .maximum = 1000},
    {"systems", KEY_COUNT, MIX(shape.systems), .minimum = 1, .maximum = 1e6},
    {"tokens_max", KEY_COUNT, MIX(shape.tokens_max), .minimum = 128, .maximum = LIMIT_CONTEXT},
    {"answer_cv", KEY_NUMBER, MIX(shape.answer_cv), .maximum = 10},
    {"text_cv", KEY_NUMBER, MIX(shape.text_cv), .maximum = 10},
    {"think_s", KEY_NUMBER, MIX(think_s), .minimum = 1e-3, .maximum = 1e6},
    {"assumed_ttft_s", KEY_NUMBER, MIX(ttft_s), .maximum = 1e4},
    {"assumed_tpot_s", KEY_NUMBER, MIX(tpot_s), .minimum = 1e-6, .maximum = 100},
    {"past", KEY_FLAG, .offset = MIX(past)},
    {"moments", .kind = KEY_OTHER},
    {"tokens", .kind = KEY_OTHER},
};

static const struct tree_key moments_keys[] = {
    {"prompt_answer_ratio", KEY_NUMBER, offsetof(struct mix_moments, prompt_answer_ratio),
     .minimum = 1e-3, .maximum = 1e6, .needed = true},
    {"hit_share", KEY_NUMBER, offsetof(struct mix_moments, hit_share), .maximum = 0.999,
     .needed = true},
    {"kv_tokens", KEY_NUMBER, offsetof(struct mix_moments, kv_tokens), .minimum = 1, .maximum = 1e6,
     .needed = true},
};

#define SHAPE(member) offsetof(struct load_shape, member)

static const struct tree_key tokens_keys[] = {
    {"answer", KEY_NUMBER, SHAPE(answer_tokens), .minimum = 1, .maximum = LIMIT_CONTEXT,
     .needed = true},
    {"text", KEY_NUMBER, SHAPE(text_tokens), .minimum = 1, .maximum = LIMIT_CONTEXT,
     .needed = true},
    {"system", KEY_NUMBER, SHAPE(system_tokens), .maximum = LIMIT_CONTEXT},
};

static const struct tree_key trace_keys[] = {
    {"file", KEY_TEXT, offsetof(struct scenario_load, trace), .needed = true},
    {"length_scale", KEY_NUMBER, offsetof(struct scenario_load, length_scale), .minimum = 1.0 / 512,
     .maximum = 16},
    {"tokens_max", KEY_COUNT, REPLAY(tokens_max), .minimum = 2, .maximum = LIMIT_CONTEXT},
    {"speed", KEY_NUMBER, REPLAY(speed), .minimum = 1e-6, .maximum = 1e6},
    {"requests_per_s", KEY_NUMBER, REPLAY(requests_per_s), .minimum = 1e-6, .maximum = 1e6},
    {"plays", KEY_COUNT, REPLAY(plays), .maximum = 1e6},
    {"abreast", KEY_COUNT, REPLAY(abreast), .minimum = 1, .maximum = LOAD_REPLAY_ABREAST_MAX},
    {"requests", KEY_LARGE, .offset = REPLAY(requests)},
};

static enum status read_mix(const struct tree_place *load_place, const struct tree *tree,
                            struct scenario_load *load) {
    struct tree_place place = tree_keys_below(load_place, "mix");
    struct error why;
    load->kind = SCENARIO_LOAD_MIX;
    enum status status = tree_keys_read(&place, tree, mix_keys, ARRAY_COUNT(mix_keys), load);
    if (status) return status;
    const struct tree *moments = tree_member(tree, "moments"),
                      *tokens = tree_member(tree, "tokens");
    if (!moments == !tokens)
        return tree_keys_refuse(&place, "expected either moments (prompt_answer_ratio, "
                                        "hit_share, kv_tokens) or tokens (answer, text, "
                                        "system)");
    struct tree_place below = tree_keys_below(&place, moments ? "moments" : "tokens");
    if (tokens)
        return tree_keys_read(&below, tokens, tokens_keys, ARRAY_COUNT(tokens_keys),
                              &load->mix.shape);
    status = tree_keys_read(&below, moments, moments_keys, ARRAY_COUNT(moments_keys), &load->asked);
    if (!status && load_shape_solve(&load->asked, &load->mix.shape, &why))
        status = tree_keys_refuse(&below, "%s", why.text);
    return status;
}

static enum status scenario_read_trace(const struct tree_place *load_place, const struct tree *tree,
                                       struct scenario_load *load) {
    struct tree_place place = tree_keys_below(load_place, "trace");
    load->kind = SCENARIO_LOAD_TRACE;
    enum status status = tree_keys_read(&place, tree, trace_keys, ARRAY_COUNT(trace_keys), load);
    /* A block has whole tokens, so this is the scale that is applied. */
    load->replay.block_tokens = (uint32_t)lround(load->length_scale * LOAD_TRACE_BLOCK_TOKENS);
    return status;
}

/* Reads a day. Its windows use the times of the scenario. */
static enum status read_day(const struct tree_place *place, const struct tree *tree,
                            struct scenario *scenario) {
    struct day_options *day = &scenario->load.day;
    const struct simulator_options *options = &scenario->options;
    scenario->load.kind = SCENARIO_LOAD_DAY;
    enum status status = scenario_day_read(place, tree, day);
    day->settle_s = (double)options->settle_ns * 1e-9;
    day->warm_s = (double)options->warm_ns * 1e-9;
    day->measure_s = (double)options->measure_ns * 1e-9;
    if (status) return status;
    if (options->measure_ns == 0) return tree_keys_refuse(place, "a day's windows need measure_s");
    if (options->kind_count != 2 || options->kinds[0].role != UNIT_PREFILL ||
        options->kinds[1].role != UNIT_DECODE)
        return tree_keys_refuse(place, "a day's fleet has two kinds of units: prefill first, "
                                       "then decode");
    return STATUS_OK;
}

static enum status scenario_read_load(const struct tree_place *root, struct scenario *scenario) {
    struct tree_place place = tree_keys_below(root, "load");
    const struct tree *tree = tree_member(scenario->tree, "load");
    struct scenario_load *load = &scenario->load;
    enum status status = tree_keys_read(&place, tree, load_keys, ARRAY_COUNT(load_keys), load);
    if (status) return status;
    const struct tree *mix = tree_member(tree, "mix"), *trace = tree_member(tree, "trace");
    const struct tree *day = tree_member(tree, "day");
    if (!!mix + !!trace + !!day != 1)
        return tree_keys_refuse(&place, "expected one of mix, trace and day");
    if (day) return read_day(&place, day, scenario);
    status = mix ? read_mix(&place, mix, load) : scenario_read_trace(&place, trace, load);
    if (status) return status;
    bool endless = mix ? load->mix.requests == 0 : load->replay.plays == 0;
    if (endless && scenario->options.measure_ns == 0 && load->replay.requests == 0)
        return tree_keys_refuse(root, "neither the load nor the measured time ends; give "
                                      "measure_s");
    return STATUS_OK;
}

/* ---- the whole ---- */

static void set_defaults(struct scenario *scenario) {
    scenario->options.gateways = 1;
    /* The tables of a gateway are written when it is created. For a million requests that takes 1
     * GB and 3 s. */
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

/* Reads everything but the fleet: hardware, model and prices. */
static enum status scenario_read_parts(struct arena *arena, const struct tree_place *root,
                                       struct scenario *scenario) {
    const struct tree *model = tree_member(scenario->tree, "model");
    const struct tree *prices = tree_member(scenario->tree, "prices");
    struct tree_place place = tree_keys_below(root, "model");
    char name[TREE_PATH_BYTES + 128];
    enum status status =
        read_hardware(arena, root, tree_member(scenario->tree, "hardware"), &scenario->hardware[0]);
    if (status) return status;
    if (tree_kind(model) != TREE_OBJECT)
        return tree_keys_refuse(&place, "expected a name, a file or an object, found %s",
                                tree_name(model));
    format_text(name, sizeof name, "%.100s: model", root->file);
    status = hardware_file_model_figures_read(model, name, &scenario->model, root->error);
    scenario->options.model = &scenario->model;
    if (status || !prices) return status;
    place = tree_keys_below(root, "prices");
    status = prices_read(&place, prices, &scenario->prices);
    if (!status)
        scenario->prices.calendar =
            *prices_of_model(&scenario->prices, bytes_of(scenario->model.name));
    return status;
}

enum status scenario_read(struct arena *arena, const struct tree *tree, const char *file,
                          struct scenario *scenario, struct error *error) {
    struct tree_place root = {.file = file, .error = error};
    *scenario = (struct scenario){.tree = tree};
    set_defaults(scenario);
    enum status status = tree_keys_read(&root, tree, root_keys, ARRAY_COUNT(root_keys), scenario);
    if (status) return status;
    if (scenario->options.settle_ns > scenario->options.warm_ns)
        return tree_keys_refuse(&root, "settle_s is a part of warm_s, and longer than it");
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

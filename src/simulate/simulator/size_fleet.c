/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/size_fleet.h"

#include "base/check.h"
#include "base/format.h"
#include "base/limits.h"
#include "base/number.h"
#include "serving/policy/speculate.h"

#define SLOT_CHOICES 3 /* slots per rank: one per expert, and one or two more */
#define BEST_PREFILL 3 /* prefill candidates in a family of fleets */
#define BEST_DECODE 2
#define BEST_COMBINED 2
#define CLOCK_STEPS 2 /* number of steps to average, because expert loads vary */
#define REACH_MOST (1u << 17)
#define LOAD_MOST 0.95 /* share of a unit's capacity */
#define SECONDS 1e9
#define GIGA 1e9

static const uint32_t answer_nodes[] = {1, 2, 3, 4, 6, 8, 9, 10, 12, 16, 18};
static const uint32_t prompt_nodes[] = {1, 2, 3, 4, 6, 8};
static const uint32_t prompt_tokens[] = {2048, 4096, 8192, 16384};

struct sizing { /* the shape of a unit, with an open clock */
    const struct size_options *options;
    struct size_search *search;
    struct step_clock *clock;
    struct size_unit shape;
    double prompt_cost[2]; /* [storage] nodes for the prompts of one request per second */
    double answer_cost[SIZE_CURVES][SIZE_SPEEDS]; /* 0: none yet */
};

/* ---- steps ---- */

static double size_fleet_hits_of(const struct size_options *options, bool storage) {
    return storage ? options->load.hit_share : options->load.dry_share;
}

static double size_fleet_row_tokens(const struct size_options *options, bool mtp) {
    return mtp ? 1 + options->model->mtp_acceptance : 1;
}

/* The part of `whole` for one rank. The fractional part is spread over the ranks. */
static uint32_t size_fleet_part_of(double whole, uint32_t rank, uint32_t ranks) {
    return (uint32_t)(whole + ((double)rank + 0.5) / ranks);
}

/* The time of a step in seconds, with these rows and prompt tokens on each rank and the fastest
 * overlap. */
static double step_seconds(struct step_clock *clock, const struct size_options *options,
                           struct size_unit *unit, double rows, double prompts) {
    struct step_share shares[LIMIT_RANKS];
    const struct size_load *load = &options->load;
    double hit = size_fleet_hits_of(options, unit->storage), best = 0;
    double attended = load->prompt_mean * (1 + load->prompt_cv * load->prompt_cv) * (1 + hit) / 2;
    for (uint32_t rank = 0; rank < unit->ranks; rank++) {
        uint32_t own = size_fleet_part_of(rows, rank, unit->ranks);
        uint32_t tokens = size_fleet_part_of(prompts, rank, unit->ranks);
        shares[rank] = (struct step_share){.slowness = 1};
        step_load_add_prompts(&shares[rank].load, tokens, attended, tokens * hit / (1 - hit));
        step_load_add_answers(&shares[rank].load, own, unit->mtp ? 2 * own : own, load->kv_mean);
    }
    int kinds = unit->ranks == 1 ? OVERLAP_SEQUENTIAL + 1 : OVERLAP_KIND_COUNT;
    for (int kind = OVERLAP_SEQUENTIAL; kind < kinds; kind++) {
        double ns = 0;
        for (int step = 0; step < CLOCK_STEPS; step++)
            ns += (double)step_clock_step(clock, shares, (enum overlap_kind)kind, 0).ns;
        if (kind > OVERLAP_SEQUENTIAL && ns >= best) continue;
        best = ns;
        unit->overlap = (enum overlap_kind)kind;
    }
    return best / CLOCK_STEPS / SECONDS + options->hardware->step_gap_us * 1e-6;
}

/* The time in seconds to compute a prompt on one rank, chunk by chunk, while all other ranks
 * rest. */
static double alone_seconds(struct step_clock *clock, const struct size_unit *unit, double tokens) {
    struct step_share shares[LIMIT_RANKS] = {0};
    double chunk = tokens < unit->step_tokens ? tokens : unit->step_tokens;
    if (tokens <= 0) return 0;
    for (uint32_t rank = 0; rank < unit->ranks; rank++)
        shares[rank].slowness = 1;
    step_load_add_prompts(&shares[0].load, chunk, tokens / 2, (tokens - chunk) / 2);
    double seconds = (double)step_clock_step(clock, shares, OVERLAP_SEQUENTIAL, 0).ns / SECONDS;
    return seconds * tokens / chunk;
}

/* The number of prompt tokens for each row of a step such that prompts keep up with answers. */
static double prompts_per_row(const struct size_options *options, const struct size_unit *unit) {
    const struct size_load *load = &options->load;
    if (unit->role != UNIT_BOTH) return 0;
    return size_fleet_row_tokens(options, unit->mtp) / load->answer_mean * load->prompt_mean *
           (1 - size_fleet_hits_of(options, unit->storage));
}

/* Computes the times of the unit for this number of rows. */
static void size_fleet_time_rows(struct step_clock *clock, const struct size_options *options,
                                 double rows, struct size_unit *unit) {
    double each = size_fleet_row_tokens(options, unit->mtp);
    unit->step_s = step_seconds(clock, options, unit, rows, rows * prompts_per_row(options, unit));
    unit->tpot_s = unit->step_s / each;
    unit->capacity = rows * unit->ranks / unit->tpot_s / options->load.answer_mean;
}

/* ---- curves ---- */

static void keep_speed(struct sizing *sizing, const struct size_unit *unit) {
    enum size_curve curve = (unit->role == UNIT_BOTH ? SIZE_COMBINED : SIZE_APART) + unit->mtp;
    double *costs = sizing->answer_cost[curve], cost = unit->nodes / unit->capacity;
    if (unit->role == UNIT_BOTH && unit->storage != (sizing->options->load.hit_share > 0)) return;
    for (int i = 0; i < SIZE_SPEEDS; i++)
        if (sizing->search->pareto.speeds[i] <= 1 / unit->tpot_s &&
            (costs[i] == 0 || cost < costs[i]))
            costs[i] = cost;
}

static void finish_curves(struct sizing *sizing) {
    struct size_pareto *pareto = &sizing->search->pareto;
    double prompts = sizing->prompt_cost[sizing->options->load.hit_share > 0];
    for (int curve = 0; curve < SIZE_CURVES; curve++)
        for (int i = 0; i < SIZE_SPEEDS; i++) {
            double cost = sizing->answer_cost[curve][i];
            bool apart = curve < SIZE_COMBINED;
            if (cost == 0 || (apart && prompts == 0)) continue;
            pareto->node_tokens[curve][i] =
                sizing->options->load.answer_mean / (cost + (apart ? prompts : 0));
        }
}

/* ---- candidates ---- */

static void size_fleet_keep(struct sizing *sizing, const struct size_unit *unit) {
    check(sizing->search->count < SIZE_UNITS_MAX);
    sizing->search->units[sizing->search->count++] = *unit;
}

static bool fits(struct sizing *sizing, struct size_unit *unit) {
    const struct hardware *hardware = sizing->options->hardware;
    if (unit->page_count > 0 && unit->weight_bytes < hardware->hbm_bytes) return true;
    format_text(unit->lost, sizeof unit->lost, "weights do not fit: %.0f of %.0f GB",
                unit->weight_bytes / GIGA, hardware->hbm_bytes / GIGA);
    return false;
}

static void lose_by_long_prompt(const struct size_options *options, double alone,
                                struct size_unit *unit) {
    unit->miss = alone / options->ttft_s;
    format_text(unit->lost, sizeof unit->lost,
                "TTFT: %.0f tokens of a prompt take %.1f s on an empty rank > %.2f s",
                options->load.long_prompt[unit->storage], alone, options->ttft_s);
}

static void lose_by_steps(const struct size_options *options, double steps,
                          struct size_unit *unit) {
    unit->miss = steps * unit->step_s / options->ttft_s;
    format_text(unit->lost, sizeof unit->lost, "TTFT: a prompt takes %.0f steps of %.2f s > %.2f s",
                steps, unit->step_s, options->ttft_s);
}

/* Sizes decode and combined units, with as many rows as TPOT and memory allow. */
static void size_answers(struct sizing *sizing, enum unit_role role, bool mtp, bool storage) {
    const struct size_options *options = sizing->options;
    struct size_unit unit = sizing->shape, probe;
    unit.role = role;
    unit.mtp = mtp;
    unit.storage = storage;
    if (!fits(sizing, &unit)) {
        size_fleet_keep(sizing, &unit);
        return;
    }
    double pages = options->load.kv_mean / KV_BLOCK_TOKENS + 1;
    double most = unit.page_count / pages;
    uint32_t low = 0, high = most < LIMIT_STEP_ROWS ? (uint32_t)most : LIMIT_STEP_ROWS;
    for (uint32_t rows = high; rows > 0; rows /= 2) {
        probe = unit;
        size_fleet_time_rows(sizing->clock, options, rows, &probe);
        keep_speed(sizing, &probe);
    }
    uint32_t memory_rows = high;
    while (low < high) {
        uint32_t rows = (low + high + 1) / 2;
        probe = unit;
        size_fleet_time_rows(sizing->clock, options, rows, &probe);
        if (probe.tpot_s <= options->tpot_s)
            low = rows;
        else
            high = rows - 1;
    }
    if (low > 0) {
        size_fleet_time_rows(sizing->clock, options, low, &unit);
        keep_speed(sizing, &unit);
    } else if (memory_rows == 0) {
        format_text(unit.lost, sizeof unit.lost,
                    "no KV of %.0f tokens fits: %u pages with %.0f "
                    "GB of weights",
                    options->load.kv_mean, unit.page_count, unit.weight_bytes / GIGA);
    } else {
        unit.miss = probe.tpot_s / options->tpot_s;
        format_text(unit.lost, sizeof unit.lost, "TPOT %.1f ms > %.1f ms at any batch",
                    probe.tpot_s * 1e3, options->tpot_s * 1e3);
    }
    unit.rows = low;
    /* Leave space for requests that arrive at the same time. */
    double prompts = 1.5 * low * prompts_per_row(options, &unit);
    uint32_t tokens = (uint32_t)(low * (mtp ? 2 : 1) + prompts);
    unit.step_tokens = min_u32(LIMIT_STEP_TOKENS, (max_u32(tokens, 256) + 255) / 256 * 256);
    double computed = options->load.prompt_mean * (1 - size_fleet_hits_of(options, storage));
    double steps = computed / unit.step_tokens,
           alone = alone_seconds(sizing->clock, &unit, options->load.long_prompt[storage]);
    if (role == UNIT_BOTH && !unit.lost[0] && alone > options->ttft_s)
        lose_by_long_prompt(options, alone, &unit);
    else if (role == UNIT_BOTH && !unit.lost[0] && steps * unit.step_s > options->ttft_s)
        lose_by_steps(options, steps, &unit);
    size_fleet_keep(sizing, &unit);
}

static void size_prompts(struct sizing *sizing, uint32_t tokens, bool storage) {
    const struct size_options *options = sizing->options;
    struct size_unit unit = sizing->shape;
    unit.role = UNIT_PREFILL;
    unit.storage = storage;
    unit.step_tokens = tokens;
    unit.rows = 64;
    double computed = options->load.prompt_mean * (1 - size_fleet_hits_of(options, storage));
    if (fits(sizing, &unit)) {
        unit.step_s = step_seconds(sizing->clock, options, &unit, 0, tokens);
        unit.capacity = tokens * (double)unit.ranks / unit.step_s / computed;
        double cost = unit.nodes / unit.capacity, *best = &sizing->prompt_cost[storage];
        double alone = alone_seconds(sizing->clock, &unit, options->load.long_prompt[storage]);
        if (alone > options->ttft_s)
            lose_by_long_prompt(options, alone, &unit);
        else if (2 * unit.step_s > options->ttft_s)
            lose_by_steps(options, 2, &unit);
        else if (*best == 0 || cost < *best)
            *best = cost;
    }
    size_fleet_keep(sizing, &unit);
}

static void size_shape(struct sizing *sizing, bool prompts) {
    bool dry = sizing->options->load.hit_share <= 0; /* storage would not help */
    for (int storage = 0; storage <= !dry; storage++)
        for (size_t i = 0; prompts && i < ARRAY_COUNT(prompt_tokens); i++)
            size_prompts(sizing, prompt_tokens[i], storage);
    for (int mtp = 0; mtp < 2; mtp++) {
        if (mtp && sizing->options->model->mtp_acceptance <= 0) continue;
        size_answers(sizing, UNIT_DECODE, mtp, !dry);
        for (int storage = 0; storage <= !dry; storage++)
            size_answers(sizing, UNIT_BOTH, mtp, storage);
    }
}

static bool stands_in(uint32_t nodes, const uint32_t *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (list[i] == nodes) return true;
    return false;
}

static struct step_clock_options size_fleet_clock(const struct size_options *options,
                                                  uint32_t ranks, uint32_t redundant_experts) {
    return (struct step_clock_options){.hardware = options->hardware,
                                       .model = options->model,
                                       .ranks = ranks,
                                       .ranks_per_node = options->hardware->gpus_per_node,
                                       .redundant_experts = redundant_experts,
                                       .balance_experts = ranks > 1,
                                       .expert_skew = options->expert_skew,
                                       .expert_drift = options->expert_drift,
                                       .seed = options->seed};
}

static enum status size_fleet_open_clock(struct sizing *sizing, struct arena *arena, uint32_t nodes,
                                         uint32_t more_slots, struct error *error) {
    const struct size_options *options = sizing->options;
    uint32_t ranks = nodes * options->hardware->gpus_per_node, experts = options->model->experts;
    uint32_t slots = (experts + ranks - 1) / ranks + more_slots;
    struct step_clock_options clock = size_fleet_clock(options, ranks, slots * ranks - experts);
    arena_clear(arena);
    enum status status = step_clock_open(arena, &clock, &sizing->clock, error);
    if (status) return status;
    sizing->shape = (struct size_unit){.ranks = ranks,
                                       .redundant_experts = clock.redundant_experts,
                                       .nodes = nodes,
                                       .weight_bytes = step_clock_weight_bytes(sizing->clock),
                                       .page_count = step_clock_page_count(sizing->clock)};
    return STATUS_OK;
}

/* The time in seconds of a prompt that waits for a step of the same size. */
static double reach_seconds(const struct sizing *sizing, const struct size_unit *unit,
                            double tokens) {
    double steps = tokens > unit->step_tokens ? tokens / unit->step_tokens : 1;
    return alone_seconds(sizing->clock, unit, tokens) * (1 + 1 / steps);
}

static void reach_of(struct sizing *sizing, uint32_t tokens, struct size_reach *reach) {
    const struct size_options *options = sizing->options;
    struct size_unit unit = sizing->shape;
    uint32_t low = reach->tokens, high = REACH_MOST;
    unit.role = UNIT_PREFILL;
    unit.storage = options->load.hit_share > 0;
    unit.step_tokens = tokens;
    if (!fits(sizing, &unit)) return;
    double long_s = reach_seconds(sizing, &unit, options->load.long_prompt[1]);
    if (reach->long_s == 0 || long_s < reach->long_s) reach->long_s = long_s;
    while (low < high) {
        uint32_t middle = (low + high + 1) / 2;
        if (reach_seconds(sizing, &unit, middle) <= options->ttft_s)
            low = middle;
        else
            high = middle - 1;
    }
    reach->tokens = low;
}

/* Hardware with measured steps has no candidates with other numbers of ranks. */
enum status size_fleet_reach(const struct size_options *options, struct arena *arena,
                             struct size_reach *reach_out, struct error *error) {
    struct sizing sizing = {.options = options};
    *reach_out = (struct size_reach){0};
    for (size_t i = 0; i < ARRAY_COUNT(prompt_nodes); i++) {
        enum status status = size_fleet_open_clock(&sizing, arena, prompt_nodes[i], 0, error);
        if (status && status != STATUS_INVALID) return status;
        for (size_t t = 0; !status && t < ARRAY_COUNT(prompt_tokens); t++)
            reach_of(&sizing, prompt_tokens[t], reach_out);
    }
    return STATUS_OK;
}

enum status size_fleet_search(const struct size_options *options, struct arena *arena,
                              struct size_search *search, struct error *error) {
    struct sizing sizing = {.options = options, .search = search};
    enum status status = STATUS_OK;
    *search = (struct size_search){0};
    for (int i = 0; i < SIZE_SPEEDS; i++) /* 5 to 160 tokens/s, three points per doubling */
        search->pareto.speeds[i] = 5 * pow(2, i / 3.0);
    for (size_t i = 0; i < ARRAY_COUNT(answer_nodes); i++)
        for (uint32_t more = 0; more < SLOT_CHOICES; more++) {
            status = size_fleet_open_clock(&sizing, arena, answer_nodes[i], more, error);
            if (status == STATUS_INVALID) continue;
            if (status) return status;
            size_shape(&sizing,
                       stands_in(answer_nodes[i], prompt_nodes, ARRAY_COUNT(prompt_nodes)));
        }
    if (search->count == 0) return status;
    finish_curves(&sizing);
    return STATUS_OK;
}

/* ---- fleets ---- */

static uint32_t size_fleet_count_of(const struct size_options *options,
                                    const struct size_unit *unit) {
    return max_u32(1, (uint32_t)ceil(options->load.rate / (LOAD_MOST * unit->capacity) - 1e-9));
}

static double size_fleet_nodes_of(const struct size_options *options,
                                  const struct size_unit *unit) {
    return size_fleet_count_of(options, unit) * unit->nodes;
}

static double part_nodes(const struct size_options *options, const struct size_unit *unit) {
    return options->load.rate / unit->capacity * unit->nodes;
}

static bool is_cheaper(const struct size_options *options, const struct size_unit *a,
                       const struct size_unit *b) {
    double nodes = size_fleet_nodes_of(options, a) - size_fleet_nodes_of(options, b);
    if (nodes != 0) return nodes < 0;
    return part_nodes(options, a) < part_nodes(options, b);
}

/* True if two prefill units are too similar. They differ by their step size, since TTFT waits for
 * steps; the number of ranks hardly changes their cost. */
static bool size_fleet_is_alike(const struct size_unit *a, const struct size_unit *b) {
    return a->role == UNIT_PREFILL ? a->step_tokens == b->step_tokens : a->ranks == b->ranks;
}

/* Writes the best few units of a role and family, one of each shape. Returns their number. */
static uint32_t take_best(const struct size_options *options, const struct size_search *search,
                          enum unit_role role, bool mtp, bool storage, uint32_t most,
                          const struct size_unit **out) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->count; i++) {
        const struct size_unit *unit = &search->units[i];
        if (unit->role != role || unit->lost[0]) continue;
        if (role != UNIT_PREFILL && unit->mtp != mtp) continue;
        if (role != UNIT_DECODE && unit->storage != storage) continue;
        uint32_t at = 0, last = 0;
        while (at < count && !is_cheaper(options, unit, out[at]))
            at++;
        while (last < count && !size_fleet_is_alike(unit, out[last]))
            last++;
        if (at == most || last < at) continue;
        if (last == count && count < most) count++;
        for (uint32_t k = min_u32(last, count - 1); k > at; k--)
            out[k] = out[k - 1];
        out[at] = unit;
    }
    return count;
}

static void put(const struct size_options *options, const struct size_unit *first,
                const struct size_unit *second, struct size_fleet *fleets, uint32_t *count) {
    struct size_fleet fleet = {.kinds = {*first}, .kind_count = second ? 2 : 1};
    if (second) fleet.kinds[1] = *second;
    fleet.mtp = second ? second->mtp : first->mtp;
    fleet.storage = first->storage;
    for (uint32_t k = 0; k < fleet.kind_count; k++) {
        fleet.counts[k] = size_fleet_count_of(options, &fleet.kinds[k]);
        fleet.load += part_nodes(options, &fleet.kinds[k]);
        fleet.least_nodes += size_fleet_nodes_of(options, &fleet.kinds[k]);
    }
    fleet.nodes = fleet.least_nodes;
    uint32_t at = (*count)++;
    check(*count <= SIZE_FLEETS_MAX);
    for (; at > 0; at--) {
        double more = fleets[at - 1].least_nodes - fleet.least_nodes;
        if (more < 0 || (more == 0 && fleets[at - 1].load <= fleet.load)) break;
        fleets[at] = fleets[at - 1];
    }
    fleets[at] = fleet;
}

static void put_family(const struct size_options *options, const struct size_search *search,
                       bool mtp, bool storage, struct size_fleet *fleets, uint32_t *count) {
    const struct size_unit *prefill[BEST_PREFILL], *decode[BEST_DECODE], *both[BEST_COMBINED];
    uint32_t prefills =
        take_best(options, search, UNIT_PREFILL, mtp, storage, BEST_PREFILL, prefill);
    uint32_t decodes = take_best(options, search, UNIT_DECODE, mtp, storage, BEST_DECODE, decode);
    uint32_t boths = take_best(options, search, UNIT_BOTH, mtp, storage, BEST_COMBINED, both);
    for (uint32_t p = 0; p < prefills; p++)
        for (uint32_t d = 0; d < decodes; d++)
            put(options, prefill[p], decode[d], fleets, count);
    for (uint32_t b = 0; b < boths; b++)
        put(options, both[b], NULL, fleets, count);
}

static void put_one(const struct size_unit *unit, struct size_fleet *fleets, uint32_t *count) {
    if (!unit || *count == SIZE_FLEETS_MAX) return;
    struct size_fleet *fleet = &fleets[(*count)++];
    *fleet = (struct size_fleet){.kinds = {*unit},
                                 .counts = {1},
                                 .kind_count = 1,
                                 .mtp = unit->mtp,
                                 .storage = unit->storage,
                                 .nodes = unit->nodes,
                                 .least_nodes = unit->nodes,
                                 .verdict = SIZE_CANNOT};
    format_text(fleet->why, sizeof fleet->why, "%s", unit->lost);
}

/* Writes the largest unit with weights that do not fit in memory and, for each role, the unit that
 * misses its limit by the least. */
static void put_lost(const struct size_search *search, struct size_fleet *fleets, uint32_t *count) {
    const struct size_unit *heavy = NULL;
    for (int role = 0; role < UNIT_ROLE_COUNT; role++) {
        const struct size_unit *nearest = NULL;
        for (uint32_t i = 0; i < search->count; i++) {
            const struct size_unit *unit = &search->units[i];
            if ((int)unit->role != role || !unit->lost[0]) continue;
            if (unit->miss == 0) {
                if (!heavy || unit->ranks > heavy->ranks) heavy = unit;
            } else if (!nearest || unit->miss < nearest->miss) {
                nearest = unit;
            }
        }
        put_one(nearest, fleets, count);
    }
    put_one(heavy, fleets, count);
}

uint32_t size_fleet_rank(const struct size_options *options, const struct size_search *search,
                         struct size_fleet *fleets_out) {
    uint32_t count = 0;
    for (int storage = 1; storage >= 0; storage--)
        for (int mtp = 1; mtp >= 0; mtp--)
            put_family(options, search, mtp, storage, fleets_out, &count);
    put_lost(search, fleets_out, &count);
    return count;
}

enum status size_fleet_standing(const struct size_options *options, struct arena *arena,
                                const struct size_unit *unit, double rate, double *rows_out,
                                struct error *error) {
    struct step_clock_options clock_options =
        size_fleet_clock(options, unit->ranks, unit->redundant_experts);
    struct step_clock *clock;
    double low = 0, high = unit->rows;
    arena_clear(arena);
    enum status status = step_clock_open(arena, &clock_options, &clock, error);
    for (int i = 0; !status && i < 12; i++) {
        struct size_unit probe = *unit;
        double rows = (low + high) / 2;
        size_fleet_time_rows(clock, options, rows, &probe);
        *(probe.capacity < rate ? &low : &high) = rows;
    }
    *rows_out = (low + high) / 2;
    return status;
}

/* ---- names ---- */

void size_fleet_name(const struct size_fleet *fleet, char out[SIZE_TEXT_BYTES]) {
    static const char *const roles[UNIT_ROLE_COUNT] = {
        [UNIT_BOTH] = "combined", [UNIT_PREFILL] = "prefill", [UNIT_DECODE] = "decode"};
    size_t used = 0;
    out[0] = 0;
    for (uint32_t k = 0; k < fleet->kind_count && used < SIZE_TEXT_BYTES; k++) {
        const struct size_unit *unit = &fleet->kinds[k];
        const char *joint = k ? " + " : "", *role = roles[unit->role];
        if (unit->role == UNIT_PREFILL)
            used += format_text(out + used, SIZE_TEXT_BYTES - used, "%s%u %s EP%u+%u x %uk", joint,
                                fleet->counts[k], role, unit->ranks, unit->redundant_experts,
                                unit->step_tokens >> 10);
        else
            used += format_text(out + used, SIZE_TEXT_BYTES - used, "%s%u %s EP%u+%u x %u", joint,
                                fleet->counts[k], role, unit->ranks, unit->redundant_experts,
                                unit->rows);
    }
    if (used < SIZE_TEXT_BYTES)
        format_text(out + used, SIZE_TEXT_BYTES - used, "%s%s", fleet->mtp ? ", MTP" : "",
                    fleet->storage ? "" : ", no storage");
}

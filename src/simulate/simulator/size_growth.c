/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/size_growth.h"

#include <math.h>

#include "base/check.h"
#include "base/format.h"
#include "base/limits.h"
#include "base/number.h"

#define MISSES_MAX 8 /* after MISSES_MAX misses of a part, no larger number is tried */
/* The search of a part ends when its too small and its sufficient number of units differ by at most
 * this share of the latter. */
#define FINE 0.06
#define BEHIND 0.99  /* share of the prompts that must get a first token */
#define CROWDED 0.95 /* above this share of decode rows, TTFT waits for decode units */
#define GROWTH_LEAST 0.05
#define GROWTH_MOST 0.75
#define GROWTH_MISS 0.6 /* growth for each multiple of the limit by which it missed */

/* ---- parts ---- */

static bool size_growth_is_same(const struct size_unit *a, const struct size_unit *b) {
    return a->role == b->role && a->ranks == b->ranks &&
           a->redundant_experts == b->redundant_experts && a->rows == b->rows &&
           a->step_tokens == b->step_tokens && a->mtp == b->mtp && a->storage == b->storage;
}

static uint32_t size_growth_part_of(struct size_growth *growth, const struct size_fleet *fleet,
                                    uint32_t kind) {
    const struct size_unit *unit = &fleet->kinds[kind];
    for (uint32_t i = 0; i < growth->part_count; i++)
        if (size_growth_is_same(&growth->parts[i].unit, unit)) return i;
    check(growth->part_count < SIZE_PARTS_MAX);
    uint32_t count = fleet->counts[kind];
    growth->parts[growth->part_count] =
        (struct size_part){.unit = *unit, .least = count, .next = count};
    return growth->part_count++;
}

void size_growth_open(const struct size_options *options, struct size_fleet *fleets, uint32_t count,
                      struct size_growth *growth_out) {
    *growth_out = (struct size_growth){.options = options, .fleets = fleets, .count = count};
    check(count <= SIZE_FLEETS_MAX);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < fleets[i].kind_count && fleets[i].verdict != SIZE_CANNOT; k++)
            growth_out->parts_of[i][k] = size_growth_part_of(growth_out, &fleets[i], k);
}

static struct size_part *size_growth_part_at(struct size_growth *growth, uint32_t fleet,
                                             uint32_t kind) {
    return &growth->parts[growth->parts_of[fleet][kind]];
}

static void aim(struct size_part *part) {
    uint32_t gap = part->enough - part->least;
    part->next = gap > part->enough * FINE ? part->least + gap / 2 : part->enough;
}

static void note_enough(struct size_part *part, uint32_t count, const struct size_trial *trial) {
    part->trials++;
    if (count < part->least) return; /* it contradicts an earlier run */
    part->enough = part->enough ? min_u32(part->enough, count) : count;
    part->trial = *trial;
    aim(part);
}

/* Increases the number of units. The farther the part missed its limit, the larger the increase. */
static void note_miss(struct size_part *part, uint32_t count, double missed_by,
                      const struct size_trial *trial, const char *why) {
    double growth = GROWTH_LEAST + GROWTH_MISS * (missed_by - 1);
    part->trials++;
    part->misses++;
    format_text(part->why, sizeof part->why, "%s", why);
    part->least = max_u32(part->least, count + 1);
    if (part->enough >= part->least) {
        aim(part);
        return;
    }
    part->enough = 0;
    part->trial = *trial;
    part->lost = part->misses == MISSES_MAX;
    if (growth < GROWTH_LEAST) growth = GROWTH_LEAST; /* requests failed, or got no token */
    if (growth > GROWTH_MOST) growth = GROWTH_MOST;
    part->next = max_u32(part->least, (uint32_t)(count * (1 + growth) + 0.5));
}

/* Raises the bounds of the prefill parts without storage and with the same step size, in proportion
 * to the capacity of their units. */
static void note_dry(struct size_growth *growth, const struct size_part *wet) {
    for (uint32_t i = 0; i < growth->part_count; i++) {
        struct size_part *dry = &growth->parts[i];
        const struct size_unit *unit = &dry->unit;
        if (unit->role != UNIT_PREFILL || unit->storage || !wet->unit.storage) continue;
        if (unit->step_tokens != wet->unit.step_tokens) continue;
        double more = unit->capacity > 0 ? wet->unit.capacity / unit->capacity : 1;
        uint32_t least = (uint32_t)((wet->least - 1) * more) + 1;
        if (least <= dry->least) continue;
        format_text(dry->why, sizeof dry->why, "%s", wet->why);
        dry->least = least;
        if (!dry->enough) dry->next = max_u32(dry->next, (uint32_t)(wet->next * more));
    }
}

/* ---- the next run ---- */

static bool is_open(const struct size_growth *growth, uint32_t index) {
    const struct size_fleet *fleet = &growth->fleets[index];
    if (fleet->verdict == SIZE_CANNOT) return false;
    for (uint32_t k = 0; k < fleet->kind_count; k++)
        if (growth->parts[growth->parts_of[index][k]].lost) return false;
    return true;
}

bool size_growth_whole(const struct size_load *load, const struct size_fleet *fleet) {
    return load->rate * load->answer_mean <= SIZE_WHOLE_TOKENS &&
           fleet->counts[0] + fleet->counts[1] <= LIMIT_FLEET_UNITS;
}

/* The least number of units that is tried. */
static uint32_t bound_of(const struct size_part *part) {
    return part->enough && part->next == part->enough ? part->enough : part->least;
}

static void size_growth_weigh(struct size_fleet *fleet) {
    fleet->nodes = 0;
    for (uint32_t k = 0; k < fleet->kind_count; k++)
        fleet->nodes += fleet->counts[k] * fleet->kinds[k].nodes;
}

static const struct size_part *kind_part(const struct size_growth *growth, uint32_t index,
                                         uint32_t kind) {
    return &growth->parts[growth->parts_of[index][kind]];
}

static struct size_fleet at_bound(const struct size_growth *growth, uint32_t index) {
    struct size_fleet fleet = growth->fleets[index];
    for (uint32_t k = 0; k < fleet.kind_count; k++)
        fleet.counts[k] = bound_of(kind_part(growth, index, k));
    size_growth_weigh(&fleet);
    return fleet;
}

/* The fleet with the numbers of units that its parts run next, limited to fewer than `most` nodes.
 * The fleet at its bound has fewer. */
static struct size_fleet size_growth_grown(const struct size_growth *growth, uint32_t index,
                                           double most) {
    struct size_fleet fleet = at_bound(growth, index);
    for (uint32_t k = 0; k < fleet.kind_count; k++) {
        double each = fleet.kinds[k].nodes, room = ceil((most - fleet.nodes) / each) - 1;
        uint32_t next = kind_part(growth, index, k)->next;
        if (next <= fleet.counts[k]) continue;
        uint32_t more = next - fleet.counts[k];
        fleet.counts[k] += more < room ? more : room > 0 ? (uint32_t)room : 0;
        size_growth_weigh(&fleet);
    }
    return fleet;
}

static bool is_split(const struct size_growth *growth, const struct size_fleet *fleet) {
    return fleet->kind_count == 2 && !size_growth_whole(&growth->options->load, fleet);
}

/* Returns true if the fleet is known to meet the limits, and writes it with its numbers of
 * units. */
static bool size_growth_holds(const struct size_growth *growth, uint32_t index,
                              struct size_fleet *held_out) {
    struct size_fleet fleet = growth->fleets[index];
    bool parts = true, whole = fleet.verdict == SIZE_HOLDS;
    if (!is_open(growth, index)) return false;
    for (uint32_t k = 0; k < fleet.kind_count; k++) {
        const struct size_part *part = kind_part(growth, index, k);
        parts = parts && part->enough;
        whole = whole && fleet.counts[k] >= part->least;
        if (!whole) fleet.counts[k] = part->enough;
    }
    size_growth_weigh(&fleet);
    *held_out = fleet;
    return whole || (parts && is_split(growth, &fleet));
}

bool size_growth_next(const struct size_growth *growth, struct size_run *run_out) {
    struct size_fleet fleet, found = {0};
    bool any = false;
    double most = INFINITY;
    for (uint32_t i = 0; i < growth->count; i++)
        if (size_growth_holds(growth, i, &fleet) && fleet.nodes < most) most = fleet.nodes;
    for (uint32_t i = 0; i < growth->count; i++) {
        fleet = at_bound(growth, i);
        double more = fleet.nodes - found.nodes;
        if (!is_open(growth, i) || fleet.nodes >= most) continue;
        if (any && (more > 0 || (more == 0 && fleet.load >= found.load))) continue;
        any = true;
        found = fleet;
        run_out->index = i;
    }
    if (!any) return false;
    run_out->fleet = size_growth_grown(growth, run_out->index, most);
    /* Decode runs first: if prefill then meets its limit, too, no more expensive fleet needs to be
     * run. */
    const struct size_part *answers = kind_part(growth, run_out->index, found.kind_count - 1);
    run_out->focus = !is_split(growth, &run_out->fleet)            ? SIZE_WHOLE
                     : answers->enough == run_out->fleet.counts[1] ? SIZE_PROMPTS
                                                                   : SIZE_ANSWERS;
    return true;
}

/* ---- results of a run ---- */

static void say_late(const struct size_options *options, const struct size_trial *trial,
                     char out[SIZE_WHY_BYTES]) {
    if (trial->begun_share < BEHIND)
        format_text(out, SIZE_WHY_BYTES, "prompts fall behind: %.1f %% of them began",
                    trial->begun_share * 100);
    else if (trial->ttft_p99_s > options->ttft_s)
        format_text(out, SIZE_WHY_BYTES, "TTFT p99 %.2f s > %.2f s", trial->ttft_p99_s,
                    options->ttft_s);
    else
        format_text(out, SIZE_WHY_BYTES, "%.0f requests failed", (double)trial->failed);
}

static void say_slow(const struct size_options *options, const struct size_trial *trial,
                     char out[SIZE_WHY_BYTES]) {
    format_text(out, SIZE_WHY_BYTES, "TPOT p99 %.1f ms > %.1f ms", trial->tpot_p99_s * 1e3,
                options->tpot_s * 1e3);
}

void size_growth_take(struct size_growth *growth, const struct size_run *run,
                      const struct size_trial *trial) {
    const struct size_options *options = growth->options;
    struct size_fleet *kept = &growth->fleets[run->index];
    const struct size_fleet *fleet = &run->fleet;
    uint32_t last = fleet->kind_count - 1;
    struct size_part *prompts = size_growth_part_at(growth, run->index, 0);
    struct size_part *answers = size_growth_part_at(growth, run->index, last);
    double late_by = trial->ttft_p99_s / options->ttft_s;
    double slow_by = trial->tpot_p99_s / options->tpot_s;
    bool behind = trial->begun_share < BEHIND;
    bool late = run->focus != SIZE_ANSWERS && (trial->failed > 0 || behind || late_by > 1);
    bool slow = run->focus != SIZE_PROMPTS && slow_by > 1;
    bool crowded = late && run->focus == SIZE_WHOLE && last > 0 && trial->rows_share > CROWDED;
    bool innocent =
        run->focus == SIZE_ANSWERS || crowded; /* the prefill units did not cause the miss */
    char why[SIZE_WHY_BYTES];
    if (late) say_late(options, trial, why);
    if (late && !innocent && !(slow && last == 0)) {
        note_miss(prompts, fleet->counts[0], late_by, trial, why);
        if (last > 0) note_dry(growth, prompts);
    }
    if (slow) say_slow(options, trial, why);
    if (slow || crowded)
        note_miss(answers, fleet->counts[last], slow_by, trial, why);
    else if (last > 0 && run->focus != SIZE_PROMPTS && !(late && behind))
        note_enough(answers, fleet->counts[last], trial);
    if (!late && !innocent && !(slow && last == 0)) note_enough(prompts, fleet->counts[0], trial);
    if (run->focus != SIZE_WHOLE || (kept->verdict == SIZE_HOLDS && (late || slow))) return;
    *kept = *fleet;
    kept->verdict = late || slow ? SIZE_MISSES : SIZE_HOLDS;
    kept->trial = *trial;
    kept->trials++;
}

/* ---- the end ---- */

/* The part that prevents a smaller fleet: one that cannot grow, or else one that missed. */
static const struct size_part *culprit(struct size_growth *growth, uint32_t index) {
    const struct size_part *found = NULL;
    for (uint32_t k = 0; k < growth->fleets[index].kind_count; k++) {
        const struct size_part *part = size_growth_part_at(growth, index, k);
        if (part->lost || (part->why[0] && !found)) found = part;
        if (part->lost) break;
    }
    return found;
}

/* Combines the results of a fleet with roles that were run separately. */
static struct size_trial both_trials(const struct size_trial *prompts,
                                     const struct size_trial *answers) {
    struct size_trial both = *answers;
    both.ttft_p99_s = prompts->ttft_p99_s;
    both.ttft_all_p99_s = prompts->ttft_all_p99_s;
    both.hit_share = prompts->hit_share;
    both.begun_share = prompts->begun_share;
    both.failed += prompts->failed;
    return both;
}

static void close_fleet(struct size_growth *growth, uint32_t index) {
    struct size_fleet *fleet = &growth->fleets[index], held, bound = at_bound(growth, index);
    const struct size_part *part = culprit(growth, index);
    if (size_growth_holds(growth, index, &held)) {
        bool split = fleet->verdict != SIZE_HOLDS;
        *fleet = held;
        fleet->verdict = SIZE_HOLDS;
        fleet->least_nodes = bound.nodes;
        if (!split) return;
        const struct size_part *prompts = size_growth_part_at(growth, index, 0);
        const struct size_part *answers = size_growth_part_at(growth, index, 1);
        fleet->trial = both_trials(&prompts->trial, &answers->trial);
        fleet->trial.node_tokens =
            growth->options->load.rate * growth->options->load.answer_mean / held.nodes;
        fleet->trials = prompts->trials + answers->trials;
        return;
    }
    if (!fleet->trials) *fleet = bound;
    fleet->least_nodes = bound.nodes;
    fleet->verdict = part && part->lost ? SIZE_MISSES : SIZE_BOUND;
    if (part) format_text(fleet->why, sizeof fleet->why, "%s", part->why);
}

void size_growth_close(struct size_growth *growth) {
    for (uint32_t i = 0; i < growth->count; i++)
        if (growth->fleets[i].verdict != SIZE_CANNOT) close_fleet(growth, i);
}

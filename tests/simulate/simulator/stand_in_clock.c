/* SPDX-License-Identifier: Apache-2.0
 * A clock whose steps are simple sums, so that a test can say what a run must take.
 */
#include "simulate/hardware/step_clock.h"

#include "base/number.h"

struct step_clock {
    struct step_clock_options options;
    double heat;
};

size_t step_clock_bytes(const struct step_clock_options *options) {
    (void)options;
    return sizeof(struct step_clock) + 16;
}

enum status step_clock_open(struct arena *arena, const struct step_clock_options *options,
                            struct step_clock **clock_out, struct error *error) {
    struct step_clock *clock = arena_take(arena, sizeof *clock);
    if (!clock) return error_set(error, STATUS_NO_MEMORY, "no memory for a clock");
    clock->options = *options;
    clock->heat = 1;
    *clock_out = clock;
    return STATUS_OK;
}

/* 20 ms, and 10 us for each token of a prompt and 100 us for each answer of the largest rank. */
struct step_time step_clock_step(struct step_clock *clock, const struct step_share *shares,
                                 enum overlap_kind overlap, int64_t now_ns) {
    double most = 0;
    (void)overlap;
    (void)now_ns;
    for (uint32_t rank = 0; rank < clock->options.ranks; rank++)
        most = max_double(
            most, (shares[rank].load.prompt_tokens * 1e4 + shares[rank].load.answer_rows * 1e5) *
                      shares[rank].slowness);
    struct step_time time = {.ns = 20000000 + (int64_t)(most * clock->heat)};
    time.spent[SPENT_OTHER] = (double)time.ns * 1e-9 * clock->options.ranks;
    return time;
}

double step_clock_balance(const struct step_clock *clock, uint32_t layer) {
    (void)clock;
    return 1 + layer * 0.25;
}

double step_clock_balance_mean(const struct step_clock *clock) {
    return step_clock_balance(clock, 0);
}

uint64_t step_clock_moves(const struct step_clock *clock) {
    (void)clock;
    return 0;
}

void step_clock_heat(struct step_clock *clock, double factor, int64_t now_ns) {
    (void)now_ns;
    clock->heat = factor;
}

double step_clock_weight_bytes(const struct step_clock *clock) {
    (void)clock;
    return 1e9;
}

uint32_t step_clock_page_count(const struct step_clock *clock) {
    (void)clock;
    return 500;
}

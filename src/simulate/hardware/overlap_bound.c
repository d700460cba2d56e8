/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware/overlap_bound.h"

#include "base/bytes.h"

/* The bits of `places` are the stages of lane 0. Lane 1 begins the round with `first`; its earlier
 * stages belong to the previous layer. */
static void lay_rows(uint32_t places, uint32_t first, struct overlap_row *rows) {
    uint8_t next = 0, other = (uint8_t)first;
    for (uint32_t row = 0; row < BOUND_ROWS; row++)
        if (places >> row & 1) {
            rows[row] = (struct overlap_row){.stage = next++, .micro_batch = 0, .ahead = 1};
        } else {
            bool ahead = first == 0 || other < first;
            rows[row] = (struct overlap_row){.stage = other, .micro_batch = 1, .ahead = ahead};
            other = (uint8_t)((other + 1) % STAGE_COUNT);
        }
}

void overlap_bound_find(const struct schedule_work *work, struct overlap_bound *out) {
    struct overlap_bound tried;
    const struct overlap table = {
        .micro_batch_count = 2, .row_count = BOUND_ROWS, .rows = tried.rows, .dynamic_order = NULL};
    out->us = -1;
    for (uint32_t places = 1; places < 1u << BOUND_ROWS; places += 2) { /* lane 0 goes first */
        if (__builtin_popcount(places) != STAGE_COUNT) continue;
        for (uint32_t first = 0; first < STAGE_COUNT; first++) {
            lay_rows(places, first, tried.rows);
            tried.us = overlap_schedule(&table, work, &tried.waited);
            if (out->us < 0 || tried.us < out->us) *out = tried;
        }
    }
}

double overlap_bound_computed(const struct schedule_work *work, uint32_t micro_batches) {
    double us = 0;
    for (uint32_t micro_batch = 0; micro_batch < micro_batches; micro_batch++) {
        const struct schedule_micro_batch *times = &work->micro_batches[work->sizes[micro_batch]];
        us += work->layers * (times->attention_0 + times->attention_1);
        us += work->dense_layers * times->dense;
        for (uint32_t layer = work->dense_layers; layer < work->layers; layer++)
            us += times->send + times->shared + times->sum +
                  work->experts[work->sizes[micro_batch]][layer].mlp;
    }
    return us;
}

double overlap_bound_sent(const struct schedule_work *work, uint32_t micro_batches) {
    double us = 0;
    for (uint32_t micro_batch = 0; micro_batch < micro_batches; micro_batch++)
        for (uint32_t layer = work->dense_layers; layer < work->layers; layer++) {
            const struct schedule_layer *experts = &work->experts[work->sizes[micro_batch]][layer];
            us += experts->dispatch + experts->combine;
        }
    return us;
}

/* SPDX-License-Identifier: Apache-2.0
 * The page tables of a rank's slots, built from step plans. A row of a plan contains only the pages
 * that changed since the slot's last row (struct step_row, first_page), because a sequence has many
 * pages and gets one more every 64 tokens. The receiver keeps these tables and expands each plan to
 * a whole one, which has all pages of each row. The model accepts only whole plans. Every plan must
 * be expanded here, in order, even if its step then fails or loses rows, because the unit relies on
 * the plans that it has sent, not on their outcome.
 *
 * compute/model/plan_check.h validates the pages and the rest of the whole plan.
 */
#pragma once

#include "base/arena.h"
#include "contract/step_plan.h"

struct slot_pages {
    struct page_id
        *pages;       /* [slot_count][pages_each]; the first counts[slot] of each slot are set */
    uint32_t *counts; /* [slot_count] */
    uint32_t slot_count, pages_each;
};

/* The memory for `slot_count` slots with at most `pages_each` pages each. */
size_t slot_pages_bytes(uint32_t slot_count, uint32_t pages_each);

/* Starts with empty tables. Touches only memory that plans fill. Returns false if the arena is out
 * of memory. */
bool slot_pages_open(struct slot_pages *slots, struct arena *arena, uint32_t slot_count,
                     uint32_t pages_each);

/* Bytes of the whole plan for a valid plan. Returns 0 if a row's slot or pages are out of range, or
 * if a row relies on pages that no plan has sent. */
size_t slot_pages_whole_bytes(const struct slot_pages *slots, const struct step_plan *plan);

/* Updates the tables from the plan and writes the whole plan to whole_out, which has
 * slot_pages_whole_bytes bytes (not 0) and must not overlap the plan. */
void slot_pages_expand(struct slot_pages *slots, const struct step_plan *plan,
                       struct step_plan *whole_out);

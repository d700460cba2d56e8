/* SPDX-License-Identifier: Apache-2.0
 * The page tables of a rank's slots, built from step plans. A plan's row contains only the pages
 * that changed since its slot's last row (struct step_row, first_page), because a sequence has many
 * pages and they change once in 64 tokens. The receiver of plans keeps these tables and expands
 * each plan to a whole one, with all pages of each row; the model takes only whole plans. Every
 * plan must pass here, in order, whether its step then runs, fails or loses rows: the unit counts
 * on what it sent, not on the outcome.
 *
 * The pages themselves are not validated here; compute/model/plan_check.h validates the whole plan.
 */
#ifndef CONTRACT_SLOT_PAGES_H
#define CONTRACT_SLOT_PAGES_H

#include "base/arena.h"
#include "contract/step_plan.h"

struct slot_pages {
    struct page_id
        *pages;       /* [slot_count][pages_each], of each slot the first counts[slot] are set */
    uint32_t *counts; /* [slot_count] */
    uint32_t slot_count, pages_each;
};

/* The memory for `slot_count` slots with at most `pages_each` pages each. */
size_t slot_pages_bytes(uint32_t slot_count, uint32_t pages_each);

/* Starts with empty tables. Only the memory that plans fill is touched. Returns false if the arena
 * is out of memory. */
bool slot_pages_open(struct slot_pages *slots, struct arena *arena, uint32_t slot_count,
                     uint32_t pages_each);

/* Bytes of a valid plan once it is whole; 0 if it cannot be: a row's slot or pages are outside of
 * the tables, or a row counts on pages that no plan has sent. */
size_t slot_pages_whole_bytes(const struct slot_pages *slots, const struct step_plan *plan);

/* Takes what the plan tells and writes it as a whole one to whole_out [slot_pages_whole_bytes, not
 * 0], which is another place than the plan's. */
void slot_pages_expand(struct slot_pages *slots, const struct step_plan *plan,
                       struct step_plan *whole_out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * The pages of a rank's slots, as plans told them. A plan's row brings only the pages that changed
 * since its slot's last row (struct step_row, first_page), because an answer's pages are many and
 * change once in 64 tokens. Whoever runs plans keeps these tables where plans come in, and makes of
 * each plan a whole one, whose rows bring all of their pages; the model takes only whole ones. Every
 * plan must pass here, in its order, whether its step then runs, fails or loses rows: the unit
 * counts on what it said, not on what came of it.
 *
 * It does not judge the pages themselves; compute/model/plan_check.h does, of the whole plan.
 */
#ifndef CONTRACT_SLOT_PAGES_H
#define CONTRACT_SLOT_PAGES_H

#include "base/arena.h"
#include "contract/step_plan.h"

struct slot_pages {
    struct page_id *pages; /* [slot_count][pages_each], of each slot the first counts[slot] told */
    uint32_t *counts;      /* [slot_count] */
    uint32_t slot_count, pages_each;
};

/* Of so many slots, whose sequences have at most `pages_each` pages. */
size_t slot_pages_bytes(uint32_t slot_count, uint32_t pages_each);

/* Nothing is told yet. Of the arena's memory only what plans tell is touched. False when it is out
 * of memory. */
bool slot_pages_open(struct slot_pages *slots, struct arena *arena, uint32_t slot_count,
                     uint32_t pages_each);

/* Bytes of a valid plan once it is whole; 0 if it cannot be: a row's slot or pages are outside of
 * the tables, or a row counts on pages that were never told. */
size_t slot_pages_whole_bytes(const struct slot_pages *slots, const struct step_plan *plan);

/* Takes what the plan tells and writes it as a whole one to whole_out [slot_pages_whole_bytes, not
 * 0], which is another place than the plan's. */
void slot_pages_expand(struct slot_pages *slots, const struct step_plan *plan,
                       struct step_plan *whole_out);

#endif

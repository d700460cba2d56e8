/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/slot_pages.h"

#include "base/check.h"

size_t slot_pages_bytes(uint32_t slot_count, uint32_t pages_each) {
    size_t each = pages_each * sizeof(struct page_id) + sizeof(uint32_t);
    return slot_count * each + 2 * _Alignof(max_align_t);
}

bool slot_pages_open(struct slot_pages *slots, struct arena *arena, uint32_t slot_count,
                     uint32_t pages_each) {
    *slots = (struct slot_pages){.slot_count = slot_count, .pages_each = pages_each};
    slots->counts = arena_take_zeroed(arena, slot_count * sizeof *slots->counts);
    slots->pages = arena_take(arena, (size_t)slot_count * pages_each * sizeof *slots->pages);
    return slots->counts && slots->pages;
}

/* Counts the pages of all rows of the whole plan. Returns false if a row cannot be completed. */
static bool slot_pages_count_pages(const struct slot_pages *slots, const struct step_plan *plan,
                                   uint32_t *count_out) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        uint64_t whole = (uint64_t)row->first_page + row->page_count;
        if (row->slot >= slots->slot_count || row->first_page > slots->counts[row->slot] ||
            whole > slots->pages_each)
            return false;
        count += whole;
    }
    *count_out = (uint32_t)count;
    return count <= UINT32_MAX;
}

size_t slot_pages_whole_bytes(const struct slot_pages *slots, const struct step_plan *plan) {
    struct step_plan whole = *plan;
    return slot_pages_count_pages(slots, plan, &whole.page_count)
               ? record_bytes(RECORD_RUN_STEP, &whole)
               : 0;
}

/* The bytes of a plan from its first history token to its end. */
static size_t bytes_behind_pages(const struct step_plan *plan) {
    return plan->record.bytes -
           (size_t)((const char *)step_plan_history(plan) - (const char *)plan);
}

void slot_pages_expand(struct slot_pages *slots, const struct step_plan *plan,
                       struct step_plan *whole_out) {
    uint32_t page_count, used = 0;
    bool fits = slot_pages_count_pages(slots, plan, &page_count);
    check(fits);
    *whole_out = *plan;
    whole_out->page_count = page_count;
    record_set_head(whole_out, RECORD_RUN_STEP);
    struct step_row *rows = step_plan_rows(whole_out);
    memcpy(rows, step_plan_rows(plan),
           (size_t)((const char *)step_plan_pages(plan) - (const char *)step_plan_rows(plan)));
    for (uint32_t i = 0; i < plan->row_count; i++) {
        struct step_row *row = &rows[i];
        struct page_id *pages = slots->pages + (size_t)row->slot * slots->pages_each;
        if (row->page_count)
            memcpy(pages + row->first_page, step_plan_pages(plan) + row->page_index,
                   row->page_count * sizeof *pages);
        row->page_index = used;
        row->page_count += row->first_page;
        row->first_page = 0;
        slots->counts[row->slot] = row->page_count;
        if (row->page_count)
            memcpy(step_plan_pages(whole_out) + used, pages, row->page_count * sizeof *pages);
        used += row->page_count;
    }
    if (used % 2) step_plan_pages(whole_out)[used].index = 0; /* padding to a multiple of 8 bytes */
    memcpy(step_plan_history(whole_out), step_plan_history(plan), bytes_behind_pages(plan));
}

/* SPDX-License-Identifier: Apache-2.0
 * Protects engines from wrong pages: a plan that tells only changed pages becomes the plan that
 * tells them all, each slot by itself, and one that counts on what was never told is refused.
 */
#include "records.h"

#include "contract/slot_pages.h"
#include "test_case.h"

enum { SLOTS = 3, PAGES_EACH = 4 };

static _Alignas(16) char memory[1 << 12];
static _Alignas(16) char plan_memory[1 << 12], whole_memory[1 << 12];
static struct step_plan *const plan = (struct step_plan *)(void *)plan_memory;
static struct step_plan *const whole = (struct step_plan *)(void *)whole_memory;

static struct slot_pages open_slots(void) {
    struct slot_pages slots;
    struct arena arena;
    memset(memory, 0xEE, sizeof memory);
    assert_true(slot_pages_bytes(SLOTS, PAGES_EACH) <= sizeof memory);
    arena_over(&arena, memory, slot_pages_bytes(SLOTS, PAGES_EACH));
    assert_true(slot_pages_open(&slots, &arena, SLOTS, PAGES_EACH));
    return slots;
}

/* A row of `slot` that tells `count` pages from the `first` on: number, number + 1, … */
struct reported {
    uint32_t slot, first, count, number;
};

/* Rows of one token behind the told pages' last but one, and a history behind all pages. */
static void make_plan(const struct reported *reported, uint32_t row_count) {
    uint32_t pages = 0;
    for (uint32_t i = 0; i < row_count; i++)
        pages += reported[i].count;
    memset(plan_memory, 0, sizeof plan_memory);
    *plan = (struct step_plan){
        .row_count = row_count, .token_count = row_count, .page_count = pages, .history_count = 3};
    record_set_head(plan, RECORD_RUN_STEP);
    pages = 0;
    for (uint32_t i = 0; i < row_count; i++) {
        step_plan_rows(plan)[i] = (struct step_row){
            .slot = reported[i].slot,
            .form = TOKEN_GENERATED,
            .first_position = (reported[i].first + reported[i].count) * KV_BLOCK_TOKENS - 1,
            .token_count = 1,
            .token_index = i,
            .page_index = pages,
            .page_count = reported[i].count,
            .first_page = reported[i].first,
            .next_token = STEP_NO_TOKEN,
        };
        step_plan_tokens(plan)[i] = 100 + i;
        for (uint32_t page = 0; page < reported[i].count; page++)
            step_plan_pages(plan)[pages++].index = reported[i].number + page;
    }
    for (uint32_t i = 0; i < 3; i++)
        step_plan_history(plan)[i] = 200 + i;
    assert_true(record_valid(plan, plan->record.bytes));
}

static void expand(struct slot_pages *slots, const struct reported *reported, uint32_t row_count) {
    make_plan(reported, row_count);
    size_t bytes = slot_pages_whole_bytes(slots, plan);
    assert_true(bytes > 0 && bytes <= sizeof whole_memory);
    memset(whole_memory, 0xEE, sizeof whole_memory);
    slot_pages_expand(slots, plan, whole);
    assert_int_equal(whole->record.bytes, bytes);
    assert_true(record_valid(whole, bytes)); /* zeros between its tails, too */
}

static void assert_pages(uint32_t row_index, const uint32_t *pages, uint32_t count) {
    const struct step_row *row = &step_plan_rows(whole)[row_index];
    assert_int_equal(row->first_page, 0);
    assert_int_equal(row->page_count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(step_plan_pages(whole)[row->page_index + i].index, pages[i]);
}

TEST(rows_get_all_of_their_pages) {
    struct slot_pages slots = open_slots();
    expand(&slots, (struct reported[]){{0, 0, 2, 10}, {2, 0, 1, 20}}, 2);
    assert_pages(0, (uint32_t[]){10, 11}, 2);
    assert_pages(1, (uint32_t[]){20}, 1);
    expand(&slots, (struct reported[]){{2, 1, 1, 30}, {0, 2, 0, 0}}, 2); /* one more; none */
    assert_pages(0, (uint32_t[]){20, 30}, 2);
    assert_pages(1, (uint32_t[]){10, 11}, 2);
    expand(&slots, (struct reported[]){{0, 1, 2, 40}}, 1); /* the second is another now */
    assert_pages(0, (uint32_t[]){10, 40, 41}, 3);
    expand(&slots, (struct reported[]){{0, 0, 1, 50}, {2, 2, 0, 0}}, 2); /* another sequence */
    assert_pages(0, (uint32_t[]){50}, 1);
    assert_pages(1, (uint32_t[]){20, 30}, 2);
}

TEST(all_else_of_a_plan_stays) {
    struct slot_pages slots = open_slots();
    expand(&slots, (struct reported[]){{1, 0, 3, 10}}, 1);
    expand(&slots, (struct reported[]){{1, 3, 0, 0}, {0, 0, 2, 20}}, 2);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(step_plan_tokens(whole)[i], 100 + i);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(step_plan_history(whole)[i], 200 + i);
    struct step_row row = step_plan_rows(whole)[0];
    row.page_index = row.page_count = 0;
    row.first_page = 3;
    assert_memory_equal(&row, &step_plan_rows(plan)[0], sizeof row);
}

/* Else an engine would read what lies in memory, or in somebody else's pages. */
TEST(what_was_never_reported_is_not_made_up) {
    static const struct reported cases[] = {
        {1, 1, 1, 9},         /* nothing of that slot is known */
        {0, 3, 1, 9},         /* two are */
        {0, 2, 3, 9},         /* more than a slot has */
        {SLOTS, 0, 1, 9},     /* no such slot */
        {UINT32_MAX, 0, 1, 9} /* none could hold so many */
    };
    struct slot_pages slots = open_slots();
    expand(&slots, (struct reported[]){{0, 0, 2, 10}}, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        make_plan(&cases[i], 1);
        assert_int_equal(slot_pages_whole_bytes(&slots, plan), 0);
    }
    expand(&slots, (struct reported[]){{0, 0, 1, 10}}, 1); /* now one is */
    make_plan(&(struct reported){0, 2, 1, 9}, 1);
    assert_int_equal(slot_pages_whole_bytes(&slots, plan), 0);
}

/* SPDX-License-Identifier: Apache-2.0
 * Protects the constrained answers of a rank: each slot's follows its own tokens, from wherever its
 * fresh row says; what is not compiled yet makes it late and loses nothing; forced tokens are told
 * ahead and come back; and each loan is given back once.
 */
#include "constraint_cases.h"

#include "contract/machine.h"
#include "serving/constraint/constrained_rows.h"

enum { SLOTS = 4, CONTEXT = 100, LOANS = 64, TEXT_BYTES = 256 };

#define NUMBER "{\"form\":{\"schema\":{\"type\":\"integer\"}}}"
#define NOTHING "{\"form\":{\"schema\":{\"type\":\"null\"}}}"

struct constrained_loan {
    char text[TEXT_BYTES];
    bool is_lent;
    const struct constraint *constraint;
    struct matcher *matcher;
};

static struct {
    struct constrained_loan loans[LOANS];
    uint32_t asked, lent;
    bool is_ready, refuses, fails;
} lender;

static const struct tenant_salt tenant = {{7, 7}};

static struct constrained_loan *ask(void *context, struct bytes text, uint64_t client) {
    assert_true(client == constrained_rows_client(&(struct step_constraint){.account = tenant}));
    struct constrained_loan *loan = &lender.loans[lender.asked++];
    assert_ptr_equal(context, &lender);
    assert_true(lender.asked <= LOANS && text.count < TEXT_BYTES);
    if (lender.refuses) return NULL;
    *loan = (struct constrained_loan){.is_lent = true};
    memcpy(loan->text, text.data, text.count);
    lender.lent++;
    return loan;
}

static bool ready(void *context, struct constrained_loan *loan,
                  const struct constraint **constraint_out, struct matcher **matcher_out) {
    assert_true(loan->is_lent);
    if (!lender.is_ready) return false;
    if (!lender.fails && !loan->constraint) {
        loan->constraint = case_compile(loan->text);
        loan->matcher = case_matcher(loan->constraint);
    }
    *constraint_out = loan->constraint;
    *matcher_out = loan->matcher;
    return true;
}

static void give_back(void *context, struct constrained_loan *loan) {
    assert_true(loan->is_lent);
    loan->is_lent = false;
    lender.lent--;
}

static struct constrained_rows *rows;
static uint64_t mask[CASE_WORDS], expected[CASE_WORDS];
static _Alignas(16) char plan_memory[1 << 14];
static struct step_plan *const plan = (struct step_plan *)(void *)plan_memory;

static int open_rows(void **state) {
    static _Alignas(16) char memory[1 << 16];
    const struct constrained_lender own = {&lender, ask, ready, give_back};
    struct arena arena;
    (void)state;
    memset(&lender, 0, sizeof lender);
    memset(memory, 0xA5, sizeof memory);
    lender.is_ready = true;
    arena_clear(&case_arena);
    assert_true(constrained_rows_bytes(SLOTS, CONTEXT) <= sizeof memory);
    arena_over(&arena, memory, constrained_rows_bytes(SLOTS, CONTEXT));
    rows = constrained_rows_open(&arena, SLOTS, CONTEXT, &own);
    assert_non_null(rows);
    return 0;
}

static int close_rows(void **state) {
    (void)state;
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        constrained_rows_end(rows, slot);
    assert_int_equal(lender.lent, 0);
    return 0;
}

/* A fresh row of each slot that has a text, in this order; "": not constrained. `answer` is what
 * the constrained ones have said, byte by byte. */
static void take(const char *const texts[SLOTS], const char *answer) {
    uint32_t count = 0, answer_count = (uint32_t)strlen(answer), row_count = 0, bytes = 0;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        row_count += texts[slot] != NULL;
        count += texts[slot] && texts[slot][0];
        bytes += texts[slot] ? (uint32_t)strlen(texts[slot]) : 0;
    }
    memset(plan_memory, 0, sizeof plan_memory);
    *plan = (struct step_plan){.row_count = row_count,
                               .constraint_count = count,
                               .constraint_token_count = count * (answer_count + 1),
                               .constraint_bytes = bytes};
    record_set_head(plan, RECORD_RUN_STEP);
    assert_true(plan->record.bytes <= sizeof plan_memory);
    uint32_t *tokens = step_plan_constraint_tokens(plan);
    char *to = step_plan_constraint_texts(plan);
    for (uint32_t slot = 0, row = 0, index = 0; slot < SLOTS; slot++) {
        if (!texts[slot]) continue;
        step_plan_rows(plan)[row] =
            (struct step_row){.slot = slot, .fresh = 1, .constrained = texts[slot][0] != 0};
        if (texts[slot][0]) {
            uint32_t first = (uint32_t)(tokens - step_plan_constraint_tokens(plan));
            step_plan_constraints(plan)[index++] = (struct step_constraint){
                .row = row,
                .text_index = (uint32_t)(to - step_plan_constraint_texts(plan)),
                .text_bytes = (uint32_t)strlen(texts[slot]),
                .answer_index = first,
                .answer_count = answer_count,
                .stop_index = first + answer_count,
                .stop_count = 1,
                .slot = slot,
                .account = tenant};
            for (uint32_t i = 0; i < answer_count; i++)
                *tokens++ = case_token((const char[]){answer[i], 0});
            *tokens++ = CASE_STOP;
            memcpy(to, texts[slot], strlen(texts[slot]));
            to += strlen(texts[slot]);
        }
        row++;
    }
    constrained_rows_take(rows, plan);
}

static void take_one(uint32_t slot, const char *text, const char *answer) {
    const char *texts[SLOTS] = {NULL};
    texts[slot] = text;
    take(texts, answer);
}

/* The slot's mask is that of an answer of its own. */
static void expect_place(uint32_t slot, const char *text, const char *answer) {
    static const uint32_t stop = CASE_STOP;
    const struct constraint *constraint = case_compile(text);
    struct constrained_answer own;
    constrained_answer_begin(&own, constraint, case_matcher(constraint), &stop, 1);
    for (; *answer; answer++)
        constrained_answer_push(&own, case_token((const char[]){*answer, 0}));
    assert_true(constrained_answer_mask(&own, expected));
    assert_int_equal(constrained_rows_mask(rows, slot, mask), CONSTRAINED_MASK_SET);
    assert_memory_equal(mask, expected, sizeof mask);
}

static void push_text(uint32_t slot, const char *text) {
    for (; *text; text++)
        constrained_rows_push(rows, slot, case_token((const char[]){*text, 0}));
}

TEST_AROUND(each_slot_follows_its_own_answer, open_rows, close_rows) {
    take((const char *const[SLOTS]){NUMBER, "", NOTHING, NUMBER}, "");
    push_text(0, "1");
    push_text(2, "nu");
    expect_place(3, NUMBER, "");
    push_text(0, "2");
    expect_place(0, NUMBER, "12");
    expect_place(2, NOTHING, "nu");
    assert_int_equal(lender.lent, 3);
    assert_null(constrained_rows_loan(rows, 1));
}

TEST_AROUND(an_answer_goes_on_where_it_was, open_rows, close_rows) {
    take_one(1, NOTHING, "nu");
    expect_place(1, NOTHING, "nu");
    push_text(1, "l");
    take_one(1, NOTHING, "nul"); /* interrupted: the loan is another */
    expect_place(1, NOTHING, "nul");
    assert_int_equal(lender.asked, 2);
    assert_int_equal(lender.lent, 1);
}

TEST_AROUND(what_is_not_compiled_is_late_and_loses_nothing, open_rows, close_rows) {
    uint32_t forced[LIMIT_FORCED];
    lender.is_ready = false;
    take_one(0, NUMBER, "1");
    assert_int_equal(constrained_rows_mask(rows, 0, mask), CONSTRAINED_MASK_LATE);
    assert_int_equal(constrained_rows_forced(rows, 0, LIMIT_FORCED, forced), 0);
    push_text(0, "2");
    assert_int_equal(constrained_rows_mask(rows, 0, mask), CONSTRAINED_MASK_LATE);
    lender.is_ready = true;
    expect_place(0, NUMBER, "12");
}

TEST_AROUND(loans_are_given_back, open_rows, close_rows) {
    take_one(0, NUMBER, "");
    take_one(1, NUMBER, "");
    assert_int_equal(lender.lent, 2);
    take_one(0, "", ""); /* its next request is free */
    assert_int_equal(lender.lent, 1);
    take_one(1, NOTHING, "");
    assert_int_equal(lender.lent, 1);
    constrained_rows_end(rows, 1);
    constrained_rows_end(rows, 1);
    assert_int_equal(lender.lent, 0);
}

TEST_AROUND(free_answers_have_no_mask, open_rows, close_rows) {
    take_one(2, "{\"at\":\"<｜tool▁calls▁begin｜>\",\"form\":{\"schema\":{}}}", "so");
    assert_int_equal(constrained_rows_mask(rows, 2, mask), CONSTRAINED_MASK_FREE);
}

TEST_AROUND(what_never_will_be_is_stuck, open_rows, close_rows) {
    uint32_t forced[LIMIT_FORCED];
    char answer[CONTEXT + 2];
    assert_int_equal(constrained_rows_mask(rows, 3, mask), CONSTRAINED_MASK_STUCK); /* none came */
    lender.fails = true;
    take_one(0, NUMBER, "");
    assert_int_equal(constrained_rows_mask(rows, 0, mask), CONSTRAINED_MASK_STUCK);
    lender.fails = false;
    lender.refuses = true;
    take_one(0, NUMBER, "");
    assert_int_equal(constrained_rows_mask(rows, 0, mask), CONSTRAINED_MASK_STUCK);
    assert_int_equal(constrained_rows_forced(rows, 0, LIMIT_FORCED, forced), 0);
    push_text(0, "1");
    lender.refuses = false;
    take_one(0, NOTHING, "x"); /* what may not come */
    assert_int_equal(constrained_rows_mask(rows, 0, mask), CONSTRAINED_MASK_STUCK);
    memset(answer, '1', sizeof answer - 1);
    answer[sizeof answer - 1] = 0;
    take_one(0, NUMBER, answer); /* more than a context */
    assert_int_equal(constrained_rows_mask(rows, 0, mask), CONSTRAINED_MASK_STUCK);
}

TEST_AROUND(an_answer_may_fill_the_context, open_rows, close_rows) {
    char answer[CONTEXT + 1];
    memset(answer, '1', CONTEXT);
    answer[CONTEXT] = 0;
    take_one(0, NUMBER, answer);
    assert_int_equal(constrained_rows_mask(rows, 0, mask), CONSTRAINED_MASK_SET);
    for (uint32_t i = 0; i < 2 * STEP_ROW_TOKENS; i++)
        push_text(0, "1");
    assert_int_equal(constrained_rows_mask(rows, 0, mask), CONSTRAINED_MASK_STUCK);
}

TEST_AROUND(forced_tokens_are_reported_ahead, open_rows, close_rows) {
    uint32_t forced[LIMIT_FORCED] = {0};
    take_one(0, NOTHING, "nul");
    push_text(0, "l");
    for (uint32_t i = 0; i < 2; i++) { /* whoever did not hear it asks again */
        assert_int_equal(constrained_rows_forced(rows, 0, LIMIT_FORCED, forced), 1);
        assert_int_equal(forced[0], CASE_STOP);
    }
    assert_int_equal(constrained_rows_forced(rows, 0, 0, forced), 0);
    assert_int_equal(constrained_rows_mask(rows, 0, mask), CONSTRAINED_MASK_SET);
    assert_int_equal(case_count(mask), 1);
    assert_true(case_holds(mask, CASE_STOP));
    constrained_rows_push(rows, 0, CASE_STOP);
    assert_int_equal(constrained_rows_forced(rows, 0, LIMIT_FORCED, forced), 0);
    assert_int_equal(constrained_rows_mask(rows, 0, mask), CONSTRAINED_MASK_STUCK); /* it ended */
}

/* Answers of one tenant take its turns; where there is none, each slot stands alone. */
TEST(tenants_take_turns) {
    struct step_constraint one = {.slot = 1}, two = {.slot = 2};
    assert_true(constrained_rows_client(&one) != constrained_rows_client(&two));
    one.account.bytes[5] = two.account.bytes[5] = 9;
    assert_true(constrained_rows_client(&one) == constrained_rows_client(&two));
    two.account.bytes[31] = 1;
    assert_true(constrained_rows_client(&one) != constrained_rows_client(&two));
}

TEST_GROUP(case_open, NULL)

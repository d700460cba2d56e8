/* SPDX-License-Identifier: Apache-2.0
 * Protects the compiled constraints of a rank: who asks never waits, equal texts are compiled once
 * and while somebody may want them, what cannot be held is told, and the memory of what nobody uses
 * goes back.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "host/engine/constraint_store.h"
#include "serving/grammar/matcher.h"

enum { LOANS = 8, VOCAB = 4096 };

static char directory[4096];
static struct constraint_store *store;
static struct constrained_lender lender;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint32_t compiled_count;

static void compiled(void *context) {
    assert_ptr_equal(context, directory);
    pthread_mutex_lock(&lock);
    compiled_count++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void open_store(const char *where) {
    struct error error;
    const struct constraint_store_options options = {.directory = where,
                                                     .vocab = VOCAB,
                                                     .loans_max = LOANS,
                                                     .context = directory,
                                                     .compiled = compiled};
    compiled_count = 0;
    if (constraint_store_open(&options, &store, &error)) fail_msg("%s", error.text);
    lender = constraint_store_lender(store);
}

static int open_one(void **state) {
    (void)state;
    open_store(directory);
    return 0;
}

static int close_one(void **state) {
    (void)state;
    constraint_store_close(store);
    return 0;
}

static void await_compiled(uint32_t count) {
    pthread_mutex_lock(&lock);
    while (compiled_count < count)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static struct constrained_loan *ask(const char *text) {
    return lender.ask(lender.context, bytes_of(text));
}

static void give_back(struct constrained_loan *loan) {
    lender.give_back(lender.context, loan);
}

static struct matcher *matcher_of(struct constrained_loan *loan) {
    const struct constraint *constraint;
    struct matcher *matcher;
    assert_true(constraint_store_is_ready(loan));
    assert_true(lender.ready(lender.context, loan, &constraint, &matcher));
    assert_int_equal(constraint == NULL, matcher == NULL);
    return matcher;
}

static char *schema(uint32_t number, char out[128]) {
    snprintf(out, 128, "{\"form\":{\"schema\":{\"const\":%u}}}", number);
    return out;
}

static void equal_texts_share_what_was_compiled(void **state) {
    (void)state;
    struct constrained_loan *first = ask("{\"form\":{\"schema\":{\"type\":\"null\"}}}");
    struct constrained_loan *second = ask("{\"form\":{\"schema\":{\"type\":\"null\"}}}");
    struct constrained_loan *other = ask("{\"form\":{\"schema\":{\"type\":\"boolean\"}}}");
    assert_true(first && second && other && first != second);
    await_compiled(2);
    assert_ptr_equal(constraint_store_turn(first), constraint_store_turn(second));
    assert_ptr_not_equal(constraint_store_turn(first), constraint_store_turn(other));
    struct matcher *matcher = matcher_of(first);
    assert_true(matcher && matcher != matcher_of(second)); /* each answer has one of its own */
    assert_ptr_equal(matcher, matcher_of(first));
    assert_true(matcher_push(matcher, matcher_begin(matcher), BYTES_LITERAL("null")).number != 0);
    give_back(first);
    give_back(second);
    first = ask("{\"form\":{\"schema\":{\"type\":\"null\"}}}"); /* it was kept */
    assert_true(constraint_store_is_ready(first));
    struct constraint_store_counts counts = constraint_store_look(store);
    assert_int_equal(counts.compiled, 2);
    assert_int_equal(counts.found, 2);
    give_back(first);
    give_back(other);
}

static void what_cannot_be_held_is_told_and_tried_again(void **state) {
    (void)state;
    for (uint32_t i = 1; i < 3; i++) {
        struct constrained_loan *loan = ask("{\"form\":{\"schema\":{\"type\":\"nothing\"}}}");
        await_compiled(i);
        assert_null(matcher_of(loan));
        give_back(loan);
        assert_int_equal(constraint_store_look(store).failed, i);
        assert_int_equal(constraint_store_look(store).kept, 0);
    }
}

static void a_model_without_a_tokenizer_holds_nothing(void **state) {
    (void)state;
    open_store("/nowhere");
    struct constrained_loan *loan = ask("{\"form\":{\"schema\":{\"type\":\"null\"}}}");
    await_compiled(1);
    assert_null(matcher_of(loan));
    give_back(loan);
    constraint_store_close(store);
}

static void more_loans_than_answers_are_not_given(void **state) {
    struct constrained_loan *loans[LOANS];
    char text[128];
    (void)state;
    for (uint32_t i = 0; i < LOANS; i++)
        assert_non_null(loans[i] = ask(schema(i, text)));
    assert_null(ask(schema(0, text)));
    give_back(loans[3]); /* whether it was compiled by now or not */
    assert_non_null(loans[3] = ask(schema(100, text)));
    for (uint32_t i = 0; i < LOANS; i++)
        give_back(loans[i]);
}

static void what_was_not_asked_for_lately_goes_first(void **state) {
    char text[128];
    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        struct constrained_loan *loan = ask(schema(i, text));
        await_compiled(i + 1);
        assert_non_null(matcher_of(loan));
        give_back(loan);
        if (i == 0) continue;
        loan = ask(schema(0, text)); /* the first is asked for all the time */
        assert_true(constraint_store_is_ready(loan));
        give_back(loan);
    }
    assert_true(constraint_store_look(store).kept < 100);
    struct constrained_loan *last = ask(schema(99, text)), *second = ask(schema(1, text));
    assert_true(constraint_store_is_ready(last));
    await_compiled(101);
    assert_non_null(matcher_of(second));
    give_back(last);
    give_back(second);
}

static void a_store_closes_while_it_compiles(void **state) {
    char text[128];
    (void)state;
    for (uint32_t round = 0; round < 5; round++) {
        struct constrained_loan *loans[LOANS];
        open_store(directory);
        for (uint32_t i = 0; i < LOANS; i++)
            loans[i] = ask(schema(i, text));
        for (uint32_t i = 0; i < LOANS; i++)
            give_back(loans[i]); /* what waits is not compiled for nobody */
        assert_true(constraint_store_look(store).kept <= 2);
        constraint_store_close(store);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_texts_share_what_was_compiled, open_one, close_one),
        cmocka_unit_test_setup_teardown(what_cannot_be_held_is_told_and_tried_again, open_one,
                                        close_one),
        cmocka_unit_test(a_model_without_a_tokenizer_holds_nothing),
        cmocka_unit_test_setup_teardown(more_loans_than_answers_are_not_given, open_one, close_one),
        cmocka_unit_test_setup_teardown(what_was_not_asked_for_lately_goes_first, open_one,
                                        close_one),
        cmocka_unit_test(a_store_closes_while_it_compiles),
    };
    const char *source = getenv("FATHOM_SOURCE");
    snprintf(directory, sizeof directory, "%s/models/tiny-r1", source ? source : ".");
    return cmocka_run_group_tests(tests, NULL, NULL);
}

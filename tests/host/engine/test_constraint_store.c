/* SPDX-License-Identifier: Apache-2.0
 * Protects the compiled constraints of a rank: who asks never waits, equal texts are compiled once
 * and while somebody may want them, what cannot be held is told, and the memory of what nobody uses
 * goes back. And clients from one another: by the time that their constraints take, and by the
 * memory that they hold, used or not.
 */
#include <pthread.h>

#include "base/check.h"
#include "host/engine/constraint_store.h"
#include "serving/grammar/matcher/matcher.h"

#define TEST_OWN_MAIN
#include "test_case.h"

enum { LOANS = 8, VOCAB = 4096 };

static char directory[4096];
static struct constraint_store *store;
static struct constrained_lender lender;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint32_t compiled_count;
static struct constrained_loan *watched;
static uint32_t watched_at;   /* compiled_count, when that was first seen to be ready; 0: never */
static size_t lent_bytes_max; /* of the store that is opened */

static void compiled(void *context) {
    assert_ptr_equal(context, directory);
    pthread_mutex_lock(&lock);
    compiled_count++;
    if (watched && !watched_at && constraint_store_is_ready(watched)) watched_at = compiled_count;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void open_store(const char *where) {
    struct error error;
    const struct constraint_store_options options = {.directory = where,
                                                     .vocab = VOCAB,
                                                     .loans_max = LOANS,
                                                     .bytes_max = lent_bytes_max,
                                                     .context = directory,
                                                     .compiled = compiled};
    compiled_count = watched_at = 0;
    watched = NULL;
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

static void await_ready(const struct constrained_loan *loan) {
    pthread_mutex_lock(&lock);
    while (!constraint_store_is_ready(loan))
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static struct constrained_loan *ask_as(uint64_t client, const char *text) {
    return lender.ask(lender.context, bytes_of(text), client);
}

static struct constrained_loan *ask(const char *text) {
    return ask_as(1, text);
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

TEST_AROUND(equal_texts_share_what_was_compiled, open_one, close_one) {
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
    struct constraint_store_counts counts = constraint_store_get_counts(store);
    assert_int_equal(counts.compiled, 2);
    assert_int_equal(counts.found, 2);
    give_back(first);
    give_back(other);
}

TEST_AROUND(what_cannot_be_held_is_reported_and_tried_again, open_one, close_one) {
    for (uint32_t i = 1; i < 3; i++) {
        struct constrained_loan *loan = ask("{\"form\":{\"schema\":{\"type\":\"nothing\"}}}");
        await_compiled(i);
        assert_null(matcher_of(loan));
        give_back(loan);
        assert_int_equal(constraint_store_get_counts(store).failed, i);
        assert_int_equal(constraint_store_get_counts(store).kept, 0);
    }
}

TEST(a_model_without_a_tokenizer_holds_nothing) {
    open_store("/nowhere");
    struct constrained_loan *loan = ask("{\"form\":{\"schema\":{\"type\":\"null\"}}}");
    await_compiled(1);
    assert_null(matcher_of(loan));
    give_back(loan);
    constraint_store_close(store);
}

TEST_AROUND(more_loans_than_answers_are_not_given, open_one, close_one) {
    struct constrained_loan *loans[LOANS];
    char text[128];
    for (uint32_t i = 0; i < LOANS; i++)
        assert_non_null(loans[i] = ask(schema(i, text)));
    assert_null(ask(schema(0, text)));
    give_back(loans[3]); /* whether it was compiled by now or not */
    assert_non_null(loans[3] = ask(schema(100, text)));
    for (uint32_t i = 0; i < LOANS; i++)
        give_back(loans[i]);
}

enum { KEPT_LESS_THAN = 300 };

TEST_AROUND(what_was_not_asked_for_lately_goes_first, open_one, close_one) {
    char text[128];
    for (uint32_t i = 0; i < KEPT_LESS_THAN; i++) {
        struct constrained_loan *loan = ask(schema(i, text));
        await_compiled(i + 1);
        assert_non_null(matcher_of(loan));
        give_back(loan);
        if (i == 0) continue;
        loan = ask(schema(0, text)); /* the first is asked for all the time */
        assert_true(constraint_store_is_ready(loan));
        give_back(loan);
    }
    assert_true(constraint_store_get_counts(store).kept < KEPT_LESS_THAN);
    struct constrained_loan *last = ask(schema(KEPT_LESS_THAN - 1, text)),
                            *second = ask(schema(1, text));
    assert_true(constraint_store_is_ready(last));
    await_compiled(KEPT_LESS_THAN + 1);
    assert_non_null(matcher_of(second));
    give_back(last);
    give_back(second);
}

/* What takes 2^least states. */
static char *large(uint32_t number, uint32_t least, char out[128]) {
    snprintf(out, 128, "{\"form\":{\"regex\":\"[ab]*a[ab]{%u}%u\"}}", least, number);
    return out;
}

/* One client asks for many that take long. Another one's, which is asked for last, waits for the
 * one that is in work. */
TEST_AROUND(who_asks_for_little_waits_only_for_what_is_in_work, open_one, close_one) {
    struct constrained_loan *loans[LOANS];
    char text[128];
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i + 1 < LOANS; i++)
            loans[i] = ask_as(1, large(10 * round + i, 11, text));
        pthread_mutex_lock(&lock);
        uint32_t before = compiled_count;
        loans[LOANS - 1] = watched = ask_as(2, schema(round, text));
        watched_at = 0;
        pthread_mutex_unlock(&lock);
        await_compiled((round + 1) * LOANS);
        pthread_mutex_lock(&lock);
        watched = NULL;
        assert_true(watched_at > before && watched_at <= before + 2);
        pthread_mutex_unlock(&lock);
        for (uint32_t i = 0; i < LOANS; i++)
            give_back(loans[i]);
    }
}

/* What two ask for is compiled once, in the turn of the one who is next. */
TEST_AROUND(what_another_asked_for_before_is_no_reason_to_wait, open_one, close_one) {
    struct constrained_loan *loans[LOANS];
    char text[128];
    for (uint32_t i = 0; i + 1 < LOANS; i++)
        loans[i] = ask_as(1, large(i, 11, text));
    await_compiled(1);
    pthread_mutex_lock(&lock);
    uint32_t before = compiled_count;
    loans[LOANS - 1] = watched = ask_as(2, large(LOANS - 2, 11, text));
    pthread_mutex_unlock(&lock);
    await_compiled(LOANS - 1);
    pthread_mutex_lock(&lock);
    watched = NULL;
    assert_true(watched_at <= before + 2 || before + 2 >= LOANS - 1);
    pthread_mutex_unlock(&lock);
    assert_int_equal(constraint_store_get_counts(store).compiled, LOANS - 1);
    for (uint32_t i = 0; i < LOANS; i++)
        give_back(loans[i]);
}

/* However many one client asks for, another one's stays. */
TEST_AROUND(a_client_drops_its_own_first, open_one, close_one) {
    char text[128];
    struct constrained_loan *loan = ask_as(2, schema(0, text));
    await_compiled(1);
    give_back(loan);
    for (uint32_t i = 1; i <= 2 * KEPT_LESS_THAN; i++) {
        loan = ask_as(1, schema(i, text));
        await_compiled(i + 1);
        give_back(loan);
    }
    assert_true(constraint_store_get_counts(store).kept < KEPT_LESS_THAN);
    loan = ask_as(2, schema(0, text));
    assert_true(constraint_store_is_ready(loan));
    give_back(loan);
}

/* One client's answers hold what it may: its next one waits until a loan comes back, and meanwhile
 * another client's does not. */
TEST(what_is_lent_is_bounded_and_leaves_room_for_others) {
    struct constrained_loan *loans[LOANS];
    uint32_t ready = 0;
    char text[128];
    lent_bytes_max = (size_t)16 << 20;
    open_store(directory);
    for (uint32_t i = 0; i + 1 < LOANS; i++)
        loans[i] = ask_as(1, large(i, 13, text));
    loans[LOANS - 1] = ask_as(2, schema(1, text));
    await_ready(loans[0]);
    await_ready(loans[LOANS - 1]);
    struct constraint_store_counts counts = constraint_store_get_counts(store);
    for (uint32_t i = 0; i + 1 < LOANS; i++)
        ready += constraint_store_is_ready(loans[i]);
    print_message("# %u of %u, %zu KiB are lent\n", ready, LOANS - 1, counts.lent_bytes >> 10);
    assert_true(ready >= 1 && ready < LOANS - 1);
    assert_true(counts.lent_bytes <= lent_bytes_max);
    for (uint32_t i = 0; i + 1 < LOANS; i++) { /* as each comes back, the next are compiled */
        await_ready(loans[i]);
        give_back(loans[i]);
    }
    give_back(loans[LOANS - 1]);
    constraint_store_close(store);
    lent_bytes_max = 0;
}

TEST(a_store_closes_while_it_compiles) {
    char text[128];
    for (uint32_t round = 0; round < 5; round++) {
        struct constrained_loan *loans[LOANS];
        open_store(directory);
        for (uint32_t i = 0; i < LOANS; i++)
            loans[i] = ask(schema(i, text));
        for (uint32_t i = 0; i < LOANS; i++)
            give_back(loans[i]); /* what waits is not compiled for nobody */
        assert_true(constraint_store_get_counts(store).kept <= 2);
        constraint_store_close(store);
    }
}

int main(void) {
    const char *source = getenv("FATHOM_SOURCE");
    snprintf(directory, sizeof directory, "%s/models/tiny-r1", source ? source : ".");
    return test_cases_run();
}

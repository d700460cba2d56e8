/* SPDX-License-Identifier: Apache-2.0
 * Protects the epochs of a job of ranks: all living ranks meet in each epoch, a lost or returned
 * rank begins one, joins of earlier epochs count for nothing, and a job that loses a rank before
 * its ranks have met never begins.
 */
#include "base/rank_epochs.h"
#include "test_case.h"

#define RANKS 5

static struct rank_epochs epochs;
static uint32_t rank_of_message;

static enum rank_epochs_message next(void) {
    return rank_epochs_next(&epochs, &rank_of_message);
}

static void assert_next(enum rank_epochs_message message, uint32_t rank, uint32_t epoch) {
    assert_int_equal(next(), message);
    if (message != RANK_EPOCHS_MET) assert_int_equal(rank_of_message, rank);
    assert_int_equal(epochs.epoch, epoch);
}

/* All ranks but one join the present epoch. */
static void join_all_but(uint32_t absent) {
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (rank == absent) continue;
        assert_int_equal(next(), RANK_EPOCHS_NONE);
        assert_int_equal(rank_epochs_join(&epochs, rank, epochs.epoch), RANK_EPOCHS_JOINED);
    }
}

static void meet(void) {
    rank_epochs_open(&epochs, RANKS);
    join_all_but(RANKS);
    assert_next(RANK_EPOCHS_MET, 0, 0);
    assert_int_equal(next(), RANK_EPOCHS_NONE);
}

TEST(a_rank_joins_an_epoch_once_and_none_ahead_of_time) {
    rank_epochs_open(&epochs, RANKS);
    assert_int_equal(rank_epochs_join(&epochs, 1, 1), RANK_EPOCHS_REFUSED);
    assert_int_equal(rank_epochs_join(&epochs, 1, 0), RANK_EPOCHS_JOINED);
    assert_int_equal(rank_epochs_join(&epochs, 1, 0), RANK_EPOCHS_REFUSED);
}

TEST(living_ranks_meet_again_without_a_lost_one) {
    meet();
    assert_true(rank_epochs_leave(&epochs, 3));
    assert_false(rank_epochs_leave(&epochs, 3));
    assert_next(RANK_EPOCHS_GONE, 3, 1);
    assert_int_equal(rank_epochs_join(&epochs, 0, 0), RANK_EPOCHS_LATE);
    join_all_but(3);
    assert_next(RANK_EPOCHS_MET, 0, 1);
}

TEST(a_returned_rank_begins_an_epoch_that_all_join) {
    meet();
    rank_epochs_leave(&epochs, 2);
    assert_next(RANK_EPOCHS_GONE, 2, 1);
    assert_true(epochs.gone[2]);
    assert_int_equal(rank_epochs_join(&epochs, 2, 0), RANK_EPOCHS_RETURNED);
    assert_next(RANK_EPOCHS_BACK, 2, 2);
    assert_false(epochs.gone[2]);
    assert_int_equal(rank_epochs_join(&epochs, 0, 1), RANK_EPOCHS_LATE);
    join_all_but(RANKS);
    assert_next(RANK_EPOCHS_MET, 0, 2);
}

TEST(a_rank_that_is_lost_again_is_not_waited_for) {
    meet();
    rank_epochs_leave(&epochs, 2);
    assert_next(RANK_EPOCHS_GONE, 2, 1);
    rank_epochs_join(&epochs, 2, 0);
    assert_next(RANK_EPOCHS_BACK, 2, 2);
    rank_epochs_leave(&epochs, 2);
    assert_next(RANK_EPOCHS_GONE, 2, 3);
    join_all_but(2);
    assert_next(RANK_EPOCHS_MET, 0, 3);
}

TEST(a_job_that_was_never_whole_does_not_begin) {
    rank_epochs_open(&epochs, RANKS);
    join_all_but(1);
    rank_epochs_leave(&epochs, 1);
    assert_next(RANK_EPOCHS_GONE, 1, 1);
    assert_int_equal(rank_epochs_join(&epochs, 1, 1), RANK_EPOCHS_REFUSED);
    join_all_but(1);
    assert_int_equal(next(), RANK_EPOCHS_NONE);
    assert_false(epochs.has_met);
}

/* SPDX-License-Identifier: Apache-2.0
 * Protects the way from the engine's thread to the one that sends KV blocks: what was written
 * before it says so can be read, no last word is lost however the two cross, nobody is woken who
 * does not watch, and a step that is over is told from one that has not begun, or failed.
 */
#include <poll.h>
#include <pthread.h>

#include "host/engine/step_progress.h"

#include "test_case.h"

enum { STEPS = 2000, SLICES = 5, PATIENCE_MS = 60000 };

static struct step_progress *progress;
static uint32_t rows[STEPS + 1][SLICES]; /* plain memory, as KV pages are */

static bool is_readable(int wait_ms) {
    struct pollfd file = {step_progress_file(progress), POLLIN, 0};
    return poll(&file, 1, wait_ms) == 1;
}

/* A later step writes. */
static bool overtaken(uint64_t step) {
    for (uint64_t later = step + 1; later <= STEPS; later++)
        if (step_progress_written(progress, later)) return true;
    return false;
}

static void *write_steps(void *context) {
    struct model_follower engine = step_progress_follower(progress);
    for (uint32_t step = 1; step <= STEPS; step++)
        for (uint32_t slice = 0; slice < SLICES; slice++) {
            rows[step][slice] = step + slice;
            engine.written(engine.context, step, slice + 1);
        }
    return context;
}

/* Sleeps whenever there is nothing to read: a lost wake-up would hang here. The writer does not
 * wait, so it may be steps ahead. */
TEST(nothing_is_lost_between_two_threads) {
    pthread_t thread;
    assert_int_equal(step_progress_open(&progress, NULL), STATUS_OK);
    assert_int_equal(pthread_create(&thread, NULL, write_steps, NULL), 0);
    for (uint32_t step = 1; step <= STEPS; step++)
        for (uint32_t slice = 0; slice < SLICES; slice++) {
            step_progress_watch(progress, true);
            while (step_progress_written(progress, step) <= slice && !overtaken(step)) {
                assert_true(is_readable(PATIENCE_MS));
                step_progress_hush(progress);
            }
            if (step_progress_written(progress, step) > slice)
                assert_int_equal(rows[step][slice], step + slice);
            if (step % 3 == 0) step_progress_watch(progress, false);
        }
    pthread_join(thread, NULL);
    step_progress_close(progress);
}

TEST(steps_are_reported_apart) {
    assert_int_equal(step_progress_open(&progress, NULL), STATUS_OK);
    struct model_follower engine = step_progress_follower(progress);
    assert_int_equal(step_progress_written(progress, 1), 0);
    engine.written(engine.context, 3, 1);
    engine.written(engine.context, 3, 2);
    engine.written(engine.context, 5, 2); /* 4 has failed */
    assert_int_equal(step_progress_written(progress, 2), 0);
    assert_int_equal(step_progress_written(progress, 3), UINT32_MAX);
    assert_int_equal(step_progress_written(progress, 4), 0);
    assert_int_equal(step_progress_written(progress, 5), 2);
    assert_int_equal(step_progress_written(progress, 6), 0);
    engine.written(engine.context, 6, 1);
    assert_int_equal(step_progress_written(progress, 3), 0);
    assert_int_equal(step_progress_written(progress, 5), UINT32_MAX);
    assert_int_equal(step_progress_written(progress, 6), 1);
    assert_false(is_readable(0)); /* nobody watches */
    step_progress_watch(progress, true);
    assert_false(is_readable(0));
    engine.written(engine.context, 6, 2);
    assert_true(is_readable(0));
    step_progress_hush(progress);
    assert_false(is_readable(0));
    step_progress_hush(progress); /* does not wait */
    step_progress_close(progress);
}

/* What it had not written when it broke off is no value, though another one follows it. */
TEST(a_step_that_broke_off_is_never_whole) {
    assert_int_equal(step_progress_open(&progress, NULL), STATUS_OK);
    struct model_follower engine = step_progress_follower(progress);
    engine.written(engine.context, 3, SLICES);
    engine.written(engine.context, 4, 2);
    step_progress_break(progress);
    assert_int_equal(step_progress_written(progress, 4), 0);
    engine.written(engine.context, 5, 1);
    assert_int_equal(step_progress_written(progress, 4), 0);
    assert_int_equal(step_progress_written(progress, 5), 1);
    engine.written(engine.context, 6, 1);
    assert_int_equal(step_progress_written(progress, 5), UINT32_MAX);
    step_progress_close(progress);
}

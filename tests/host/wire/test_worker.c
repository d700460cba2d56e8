/* SPDX-License-Identifier: Apache-2.0
 * Protects worker threads and the queue they use: order, waking, back-pressure, ending in time.
 */
#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>

#include "contract/record_unit.h"
#include "host/wire/record_queue.h"
#include "host/wire/worker.h"
#include "test_case.h"

#define PATIENCE_MS INT64_C(60000)

static struct record_cancel numbered(uint64_t number) {
    return (struct record_cancel){record_head(RECORD_CANCEL, sizeof(struct record_cancel)),
                                  {number, 0, 0, 0}};
}

static void answer_twice(void *context, struct worker *worker, const struct record *record) {
    worker_answer(worker, record);
    worker_answer(worker, record);
}

static uint64_t taken[4096];
static size_t taken_count;

static void take(struct worker *worker) {
    struct record_queue answers = {0};
    worker_take(worker, &answers);
    for (; record_queue_first(&answers); record_queue_drop(&answers))
        taken[taken_count++] =
            ((const struct record_cancel *)record_queue_first(&answers))->request.high;
}

TEST(answers_come_in_order_and_wake) {
    struct worker *worker;
    assert_int_equal(worker_open("test", answer_twice, NULL, &worker, NULL), STATUS_OK);
    for (uint64_t i = 0; i < 1000; i++) {
        struct record_cancel record = numbered(i);
        worker_give(worker, &record.record);
    }
    taken_count = 0;
    while (taken_count < 2000) {
        struct pollfd file = {worker_file(worker), POLLIN, 0};
        assert_int_equal(poll(&file, 1, PATIENCE_MS), 1);
        take(worker);
    }
    for (size_t i = 0; i < 2000; i++)
        assert_int_equal(taken[i], i / 2);
    assert_true(worker_close(worker, PATIENCE_MS * 1000000));
}

static atomic_int begun;
static atomic_bool released;

static void work_until_released(void *context, struct worker *worker, const struct record *record) {
    begun++;
    while (!released)
        usleep(1000);
}

TEST(closing_forgets_what_waits) {
    struct worker *worker;
    struct record_cancel record = numbered(1);
    assert_int_equal(worker_open("test", work_until_released, NULL, &worker, NULL), STATUS_OK);
    for (int i = 0; i < 100; i++)
        worker_give(worker, &record.record);
    assert_true(worker_waiting_bytes(worker) > 0);
    while (!begun)
        usleep(1000);
    assert_false(worker_close(worker, 1000000)); /* it works still */
    released = true;
    assert_true(worker_close(worker, PATIENCE_MS * 1000000));
    assert_int_equal(begun, 1);
}

static atomic_int calls_without;

static void work_again(void *context, struct worker *worker, const struct record *record) {
    if (!record && ++calls_without == 3) return; /* asks no more */
    worker_call_again(worker, 1000000);
}

/* Without records the function is called as long as it asks for it. */
TEST(it_may_call_itself_again) {
    struct worker *worker;
    struct record_cancel record = numbered(1);
    assert_int_equal(worker_open("test", work_again, NULL, &worker, NULL), STATUS_OK);
    usleep(5000);
    assert_int_equal(calls_without, 0);
    worker_give(worker, &record.record);
    while (calls_without < 3)
        usleep(1000);
    usleep(20000);
    assert_int_equal(calls_without, 3);
    assert_true(worker_close(worker, PATIENCE_MS * 1000000));
}

/* SPDX-License-Identifier: Apache-2.0
 * Protects what an agent does for its supervisor: signs of life go out in time, and at once when
 * ranks have come or are ready; each end is reported once, behind the rank's last signs, and so is
 * a start that fails; an order of an older start is nothing; a supervisor that is silent is given
 * up.
 */

#include "serving/supervision/supervise_agent.h"
#include "test_case.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define TIMEOUT (2 * SECOND)

static struct supervise_agent agent;
static int64_t now;
static const struct supervise_how killed = {.by_signal = true, .number = 9};

static int begin(void **state) {
    (void)state;
    now = 100 * SECOND;
    agent = (struct supervise_agent){.timeout_ns = TIMEOUT, .hearing = {now, now}};
    return 0;
}

/* Ranks 2 and 3, in a start of that number. */
static void start(uint32_t number) {
    supervise_agent_launch(&agent, number, 2, 2);
    struct supervise_agent_report report = supervise_agent_launched(&agent, true);
    assert_true(report.signs && report.count == 0); /* with the processes' numbers */
}

/* Signs that are sent within the time, one look after another. */
static uint32_t watch(int64_t ns, uint32_t changes) {
    uint32_t signs = 0;
    for (const int64_t until = now + ns; now < until;) {
        agent.hearing.received_ns = now += 20 * MS;
        struct supervise_agent_next next = supervise_agent_look(&agent, changes, now);
        assert_int_equal(next.silent_ns, 0);
        signs += next.signs;
    }
    return signs;
}

TEST_AROUND(signs_go_out_in_time_and_when_something_has_changed, begin, NULL) {
    assert_int_equal(watch(SECOND, 0), 0); /* nothing runs */
    start(1);
    assert_int_equal(watch(20 * MS, 0), 1);
    uint32_t signs = watch(TIMEOUT, 0);
    assert_true(signs >= 7 && signs <= 8);
    assert_int_equal(watch(20 * MS, 1), 1); /* a rank has come */
    assert_int_equal(watch(100 * MS, 1), 0);
    assert_int_equal(watch(20 * MS, 2), 1);
}

TEST_AROUND(it_looks_more_often_while_ranks_start, begin, NULL) {
    start(1);
    assert_int_equal(supervise_agent_look(&agent, 3, now).wait_ns, 20 * MS);
    assert_int_equal(supervise_agent_look(&agent, 4, now).wait_ns, 100 * MS);
}

TEST_AROUND(an_end_is_reported_behind_the_last_signs, begin, NULL) {
    struct supervise_agent_report report = supervise_agent_ended(3, killed);
    assert_true(report.signs && report.rank == 3 && report.count == 1);
    assert_true(report.how.by_signal && report.how.number == 9);
}

/* As of ranks that refuse, which would refuse again. */
TEST_AROUND(a_start_that_fails_is_the_end_of_all_ranks, begin, NULL) {
    supervise_agent_launch(&agent, 1, 2, 2);
    struct supervise_agent_report report = supervise_agent_launched(&agent, false);
    assert_true(!report.signs && report.rank == 2 && report.count == 2);
    assert_true(!report.how.by_signal && report.how.number == 1);
    assert_int_equal(watch(SECOND, 0), 0);
    assert_false(supervise_agent_restarts(&agent, 1, 2)); /* no rank is left that could come back */
}

TEST_AROUND(a_rank_comes_back_or_has_ended_again, begin, NULL) {
    start(1);
    assert_true(supervise_agent_restarts(&agent, 1, 3));
    struct supervise_agent_report report = supervise_agent_restarted(3, true);
    assert_true(report.signs && report.count == 0);
    report = supervise_agent_restarted(3, false);
    assert_true(report.signs && report.rank == 3 && report.count == 1 && report.how.by_signal);
}

TEST_AROUND(an_order_of_an_older_start_is_nothing, begin, NULL) {
    start(1);
    start(2);
    assert_false(supervise_agent_restarts(&agent, 1, 3));
    assert_false(supervise_agent_restarts(&agent, 2, 1)); /* nor one for another host's rank */
    assert_false(supervise_agent_restarts(&agent, 2, 4));
}

/* It waits twice as long as its supervisor does. */
TEST_AROUND(a_silent_supervisor_is_given_up, begin, NULL) {
    start(1);
    for (int64_t ns = 100 * MS; ns <= 2 * TIMEOUT; ns += 100 * MS)
        assert_int_equal(supervise_agent_look(&agent, 4, now + ns).silent_ns, 0);
    assert_true(supervise_agent_look(&agent, 4, now + 2 * TIMEOUT + 1).silent_ns > 2 * TIMEOUT);
}

TEST_AROUND(without_a_timeout_no_supervisor_is_given_up, begin, NULL) {
    agent.timeout_ns = 0;
    for (int i = 0; i < 100; i++)
        assert_int_equal(supervise_agent_look(&agent, 0, now += SECOND).silent_ns, 0);
}

TEST(a_supervisor_that_asks_nothing_is_given_up) {
    now = 100 * SECOND;
    supervise_agent_open(&agent, now);
    for (const int64_t until = now + SUPERVISE_CONNECT_NS_MAX; now < until; now += 20 * MS)
        assert_int_equal(supervise_agent_look(&agent, 0, now).silent_ns, 0);
    now += 20 * MS;
    assert_true(supervise_agent_look(&agent, 0, now).silent_ns > SUPERVISE_CONNECT_NS_MAX);
}

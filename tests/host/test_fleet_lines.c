/* SPDX-License-Identifier: Apache-2.0
 * Protects what a log tells of a fleet: each unit's coming, change and going is one line,
 * and what a unit only repeats is none.
 */
#include "host/fleet_lines.h"

#include "base/check.h"
#include "contract/machine.h"

#include "heard.h"
#include "test_case.h"

static struct fleet_lines lines;

static int begin(void **state) {
    (void)state;
    lines = (struct fleet_lines){0};
    received_begin("debug");
    return 0;
}

static int end(void **state) {
    (void)state;
    fleet_lines_close(&lines);
    received_end();
    return 0;
}

static void hello(uint32_t number, enum unit_role role, int64_t pid) {
    _Alignas(8) char memory[1024];
    struct outbox box = {.memory = memory, .capacity = sizeof memory};
    struct record_unit_hello fixed = {
        .role = role, .rank_count = 1, .page_count = 16, .requests_max = 4, .numerics_id = "n1"};
    struct record_unit_hello *record = machine_outbox_put(&box, RECORD_UNIT_HELLO, &fixed);
    check(record);
    hello_ranks(record)[0] = (struct unit_rank){.pid = pid};
    fleet_lines_received(&lines, number, &record->record);
}

TEST_AROUND(a_unit_comes_changes_and_goes, begin, end) {
    hello(3, UNIT_PREFILL, 77);
    assert_string_equal(received_news(),
                        "info unit  serves unit=3 role=prefill ranks=1 pid=77 pages=16 "
                        "requests_max=4 numerics=n1\n");
    hello(3, UNIT_PREFILL, 77);
    assert_string_equal(received_news(), "");
    hello(3, UNIT_DECODE, 77);
    assert_string_equal(received_news(),
                        "info unit  has changed its role unit=3 role=decode before=prefill\n");
    fleet_lines_lost(&lines, 3, false);
    assert_string_equal(received_news(),
                        "warning unit  is gone unit=3 role=decode pid=77 requests=0\n");
    fleet_lines_lost(&lines, 3, false);
    assert_string_equal(received_news(), "");
    hello(4, UNIT_BOTH, 78);
    received_news();
    fleet_lines_lost(&lines, 4, true);
    assert_string_equal(received_news(), "info unit  is gone unit=4 role=both pid=78 requests=0\n");
}

TEST_AROUND(a_refused_unit_is_reported_of_once, begin, end) {
    const struct record first = {.kind = RECORD_UNIT_HELLO}, later = {.kind = RECORD_TOKENS};
    fleet_lines_refused(&lines, 5, &first); /* nobody knows it */
    assert_string_equal(received_news(), "");
    hello(5, UNIT_BOTH, 79);
    hello(6, UNIT_DECODE, 80);
    received_news();
    fleet_lines_refused(&lines, 5, &first);
    assert_string_equal(received_news(),
                        "warning unit  is refused unit=5 role=both pid=79 why=\"it serves another "
                        "checkpoint than this gateway's --model, or than the units here, or has "
                        "sizes that no unit has: give it the same --model\"\n");
    fleet_lines_refused(&lines, 5, &later);
    hello(5, UNIT_BOTH, 79);
    fleet_lines_refused(&lines, 5, &later);
    assert_string_equal(received_news(), "");
    fleet_lines_refused(&lines, 6, &later);
    assert_string_equal(received_news(), "warning unit  is refused unit=6 role=decode pid=80 "
                                         "why=\"what it says of a request cannot be true\"\n");
    fleet_lines_lost(&lines, 5, false);
    hello(7, UNIT_BOTH, 81); /* in its place */
    received_news();
    fleet_lines_refused(&lines, 7, &first);
    assert_non_null(strstr(received_news(), "is refused unit=7"));
}

static void notify_drain(uint32_t number, bool one_rank, bool back) {
    const struct record_drain record = {.record = record_head(RECORD_DRAIN, sizeof record),
                                        .one_rank = one_rank,
                                        .rank = one_rank ? 2 : 0,
                                        .back = back};
    fleet_lines_reported(&lines, number, &record.record);
}

TEST_AROUND(orders_are_reported_on_both_sides, begin, end) {
    notify_drain(3, false, false);
    assert_string_equal(received_news(), "info unit  drains unit=3\n");
    notify_drain(0, true, false);
    assert_string_equal(received_news(), "info unit  drains rank=2\n");
    notify_drain(3, true, true);
    assert_string_equal(received_news(), "info unit  resumes requests unit=3 rank=2\n");
    const struct record_role role = {.record = record_head(RECORD_ROLE, sizeof role),
                                     .role = UNIT_DECODE};
    fleet_lines_reported(&lines, 3, &role.record);
    assert_string_equal(received_news(), "info unit  gets its role unit=3 role=decode\n");
}

TEST_AROUND(more_units_than_are_remembered_are_reported_of_too, begin, end) {
    for (uint32_t i = 1; i <= LIMIT_FLEET_UNITS; i++)
        hello(i, UNIT_BOTH, i);
    received_news();
    hello(1000, UNIT_BOTH, 5);
    assert_non_null(strstr(received_news(), "serves unit=1000 "));
    fleet_lines_lost(&lines, 1000, false);
    assert_string_equal(received_news(), "");
}

static uint32_t job_of(void *context, int64_t pid) {
    return pid == 77 ? 2 : 0;
}

TEST_AROUND(a_unit_is_named_by_its_supervisor_as_well, begin, end) {
    lines.job_of = job_of;
    hello(3, UNIT_BOTH, 77);
    assert_string_equal(received_news(),
                        "info unit  serves unit=3 job=2 role=both ranks=1 pid=77 pages=16 "
                        "requests_max=4 numerics=n1\n");
    hello(4, UNIT_BOTH, 78); /* somebody else started it */
    assert_null(strstr(received_news(), "job="));
    notify_drain(3, false, false);
    assert_string_equal(received_news(), "info unit  drains unit=3 job=2\n");
    fleet_lines_lost(&lines, 3, false);
    assert_string_equal(received_news(),
                        "warning unit  is gone unit=3 job=2 role=both pid=77 requests=0\n");
}

static uint32_t number_of(void *context, struct unit_id unit) {
    return unit.value == 3 || unit.value == 5 ? 70 : unit.value;
}

TEST_AROUND(a_unit_is_named_by_the_gateways_number, begin, end) {
    lines.number_of = number_of;
    hello(3, UNIT_BOTH, 77);
    assert_string_equal(received_news(),
                        "info unit  serves unit=70 connection=3 role=both ranks=1 pid=77 pages=16 "
                        "requests_max=4 numerics=n1\n");
    hello(4, UNIT_BOTH, 78);
    assert_non_null(strstr(received_news(), "serves unit=4 role"));
    notify_drain(3, false, false);
    assert_string_equal(received_news(), "info unit  drains unit=70\n");
    hello(3, UNIT_DECODE, 77);
    assert_string_equal(received_news(),
                        "info unit  has changed its role unit=70 role=decode before=both\n");
    hello(5, UNIT_DECODE, 77); /* it connects again, and its old connection is not lost yet */
    const char *again = received_news();
    const char *gone = strstr(again, "is gone unit=70 role=decode pid=77 requests=0\n");
    assert_true(gone && strstr(gone, "serves unit=70 connection=5 role=decode"));
    fleet_lines_lost(&lines, 3, false);
    assert_string_equal(received_news(), "");
    fleet_lines_refused(&lines, 5, &(struct record){.kind = RECORD_TOKENS});
    assert_non_null(strstr(received_news(), "is refused unit=70 "));
    fleet_lines_lost(&lines, 5, false);
    assert_string_equal(received_news(),
                        "warning unit  is gone unit=70 role=decode pid=77 requests=0\n");
}

/* ---- requests ---- */

static void submit(uint32_t number, uint64_t low, uint32_t attempt, enum submit_task task) {
    _Alignas(8) char memory[1024];
    struct outbox box = {.memory = memory, .capacity = sizeof memory};
    struct record_submit *record = machine_outbox_put(
        &box, RECORD_SUBMIT,
        &(struct record_submit){.prompt_count = 1, .name_bytes = 3, .task = task});
    check(record);
    record->request = (struct request_id){.low = low, .attempt = attempt};
    memcpy(submit_name(record), "abc", 3);
    fleet_lines_reported(&lines, number, &record->record);
}

static void finish(uint32_t number, uint64_t low, uint32_t attempt, enum finish_reason reason) {
    struct record_finished record = {.record = record_head(RECORD_FINISHED, sizeof record),
                                     .request = {.low = low, .attempt = attempt},
                                     .reason = reason};
    fleet_lines_received(&lines, number, &record.record);
}

/* A line without the time that it tells at its end. */
static void assert_said(const char *expected) {
    char *line = (char *)(uintptr_t)received_news(), *after = strstr(line, " after_s=");
    if (after) strcpy(after, "\n");
    assert_string_equal(line, expected);
}

TEST_AROUND(requests_of_a_lost_unit_are_followed_to_where_they_go, begin, end) {
    for (uint32_t i = 1; i <= 3; i++)
        hello(i, UNIT_BOTH, i);
    for (uint64_t i = 1; i <= 5; i++)
        submit(1, i, 0, SUBMIT_ANSWER);
    finish(1, 5, 0, FINISH_LENGTH);
    received_news();
    fleet_lines_lost(&lines, 1, false);
    assert_said("warning unit  is gone unit=1 role=both pid=1 requests=4\n");
    submit(2, 1, 1, SUBMIT_ANSWER);
    assert_said("debug unit  gets what another had unit=2 "
                "request=00000000000000000000000000000001 x_request_id=abc before=1 output=0\n");
    submit(3, 2, 1, SUBMIT_RESERVE);
    received_news();
    submit(2, 3, 1, SUBMIT_ANSWER);
    received_news();
    finish(2, 4, 1, FINISH_CANCELLED); /* by nobody's wish but the gateway's: it goes on */
    assert_said("");
    fleet_lines_ended(&lines, (struct request_id){.low = 4}); /* its client has left */
    assert_said("info unit  its requests are elsewhere unit=1 requests=4 moved=3 to=2:2,3:1 "
                "ended=1\n");
    fleet_lines_lost(&lines, 2, false); /* what has moved is there */
    assert_said("warning unit  is gone unit=2 role=both pid=2 requests=2\n");
}

TEST_AROUND(what_a_silent_unit_had_is_followed_too, begin, end) {
    hello(1, UNIT_BOTH, 1);
    hello(2, UNIT_BOTH, 2);
    submit(1, 7, 0, SUBMIT_ANSWER);
    received_news();
    submit(2, 7, 1, SUBMIT_ANSWER);
    assert_said("debug unit  gets what another had unit=2 "
                "request=00000000000000000000000000000007 x_request_id=abc before=1 output=0\n");
    fleet_lines_lost(&lines, 1, false);
    assert_said("warning unit  is gone unit=1 role=both pid=1 requests=0\n");
}

TEST_AROUND(losses_beyond_those_that_are_followed_are_reported_as_they_stand, begin, end) {
    for (uint32_t i = 1; i <= FLEET_LINES_LOSSES + 1; i++) {
        hello(i, UNIT_BOTH, i);
        submit(i, i, 0, SUBMIT_ANSWER);
    }
    received_news();
    for (uint32_t i = 1; i <= FLEET_LINES_LOSSES; i++) {
        fleet_lines_lost(&lines, i, false);
        received_news();
    }
    fleet_lines_lost(&lines, FLEET_LINES_LOSSES + 1, false);
    assert_non_null(
        strstr(received_news(), "its requests are elsewhere unit=1 requests=1 moved=0 ended=1"));
}

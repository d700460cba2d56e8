/* SPDX-License-Identifier: Apache-2.0
 * Protects what a log tells of a fleet: each unit's coming, change and going is one line,
 * and what a unit only repeats is none.
 */
#include "host/fleet_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "contract/machine.h"
#include "host/process/log.h"

static FILE *file;
static char text[1 << 16];
static off_t from; /* what was not asked for yet */
static struct fleet_lines lines;

static int begin(void **state) {
    file = tmpfile();
    check(file);
    lines = (struct fleet_lines){0};
    from = 0;
    log_start("text", "debug", false);
    log_write_to(fileno(file));
    return 0;
}

static int end(void **state) {
    log_finish();
    log_write_to(STDERR_FILENO);
    fclose(file);
    return 0;
}

/* What was said since it was asked last; one line at most. */
static const char *said(void) {
    ssize_t count = pread(fileno(file), text, sizeof text - 1, from);
    check(count >= 0);
    text[count] = 0;
    from += count;
    return text[0] ? text + sizeof "2026-11-23T12:00:00.123Z" : text;
}

static void hello(uint32_t number, enum unit_role role, int64_t pid) {
    _Alignas(8) char memory[1024];
    struct outbox box = {.memory = memory, .capacity = sizeof memory};
    struct record_unit_hello fixed = {
        .role = role, .rank_count = 1, .page_count = 16, .requests_max = 4, .numerics_id = "n1"};
    struct record_unit_hello *record = outbox_put(&box, RECORD_UNIT_HELLO, &fixed);
    check(record);
    hello_ranks(record)[0] = (struct unit_rank){.pid = pid};
    fleet_lines_heard(&lines, number, &record->record);
}

static void a_unit_comes_changes_and_goes(void **state) {
    hello(3, UNIT_PREFILL, 77);
    assert_string_equal(said(), "info unit  serves unit=3 role=prefill ranks=1 pid=77 pages=16 "
                                "requests_max=4 numerics=n1\n");
    hello(3, UNIT_PREFILL, 77);
    assert_string_equal(said(), "");
    hello(3, UNIT_DECODE, 77);
    assert_string_equal(said(),
                        "info unit  has changed its role unit=3 role=decode before=prefill\n");
    fleet_lines_lost(&lines, 3, false);
    assert_string_equal(said(), "warning unit  is gone unit=3 role=decode pid=77\n");
    fleet_lines_lost(&lines, 3, false);
    assert_string_equal(said(), "");
    hello(4, UNIT_BOTH, 78);
    said();
    fleet_lines_lost(&lines, 4, true);
    assert_string_equal(said(), "info unit  is gone unit=4 role=both pid=78\n");
}

static void tell_drain(uint32_t number, bool one_rank, bool back) {
    const struct record_drain record = {.record = record_head(RECORD_DRAIN, sizeof record),
                                        .one_rank = one_rank,
                                        .rank = one_rank ? 2 : 0,
                                        .back = back};
    fleet_lines_told(number, &record.record);
}

static void orders_are_told_on_both_sides(void **state) {
    tell_drain(3, false, false);
    assert_string_equal(said(), "info unit  is told to drain unit=3\n");
    tell_drain(0, true, false);
    assert_string_equal(said(), "info unit  is told to drain rank=2\n");
    tell_drain(3, true, true);
    assert_string_equal(said(), "info unit  is told to take requests again unit=3 rank=2\n");
    const struct record_role role = {.record = record_head(RECORD_ROLE, sizeof role),
                                     .role = UNIT_DECODE};
    fleet_lines_told(3, &role.record);
    assert_string_equal(said(), "info unit  is told its role unit=3 role=decode\n");
}

static void more_units_than_are_remembered_are_told_of_too(void **state) {
    for (uint32_t i = 1; i <= LIMIT_FLEET_UNITS; i++)
        hello(i, UNIT_BOTH, i);
    said();
    hello(1000, UNIT_BOTH, 5);
    assert_non_null(strstr(said(), "serves unit=1000 "));
    fleet_lines_lost(&lines, 1000, false);
    assert_string_equal(said(), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_unit_comes_changes_and_goes, begin, end),
        cmocka_unit_test_setup_teardown(orders_are_told_on_both_sides, begin, end),
        cmocka_unit_test_setup_teardown(more_units_than_are_remembered_are_told_of_too, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

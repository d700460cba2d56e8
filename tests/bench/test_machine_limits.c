/* SPDX-License-Identifier: Apache-2.0
 * Protects what is read of the machine, for figures that are stated as shares of it: files of the
 * system, the memory that is left, the clock.
 */
#include "bench/machine_limits.h"

#include <unistd.h>

#include "test_case.h"

TEST(a_line_is_found_by_its_key) {
    char path[] = "/tmp/fathom_line_XXXXXX", text[16];
    int file = mkstemp(path);
    static const char lines[] = "model\t: none\nMemFree:   17 kB\nmodel name\t: a long processor\n";
    assert_true(file >= 0);
    assert_int_equal(write(file, lines, sizeof lines - 1), sizeof lines - 1);
    close(file);
    assert_true(machine_limits_line(path, "MemFree", text, sizeof text));
    assert_string_equal(text, "17 kB");
    assert_true(machine_limits_line(path, "model name", text, sizeof text));
    assert_string_equal(text, "a long processo"); /* cut */
    assert_true(machine_limits_line(path, "", text, sizeof text));
    assert_false(machine_limits_line(path, "MemTotal", text, sizeof text));
    unlink(path);
    assert_false(machine_limits_line(path, "", text, sizeof text));
}

TEST(memory_that_is_left_is_no_more_than_there_is) {
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t left = machine_limits_memory();
    assert_true(left > 0 && (left <= all || left == UINT64_MAX));
}

TEST(waiting_costs_time) {
    double now = machine_limits_now();
    usleep(200000);
    assert_true(machine_limits_now() - now >= 0.19);
}

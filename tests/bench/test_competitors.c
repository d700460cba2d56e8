/* SPDX-License-Identifier: Apache-2.0
 * Protects the competitors of benchmarks: the shares that they leave, the lists that are refused,
 * and that they compute until they are stopped.
 */
#include "test_case.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bench/competitors.h"

static double fair_share_of(const char *nices, uint32_t cpus) {
    struct competitors competitors;
    assert_int_equal(competitors_read(nices, &competitors, NULL), STATUS_OK);
    return competitors_fair_share(&competitors, cpus);
}

TEST(shares_of_two_cpus) {
    assert_float_equal(fair_share_of("10", 2), 0.952, 0.002);
    assert_float_equal(fair_share_of("10,10", 2), 0.903, 0.002);
    assert_float_equal(fair_share_of("0", 2), 0.75, 1e-9);
    assert_float_equal(fair_share_of("0,0", 2), 0.5, 1e-9);
    assert_float_equal(fair_share_of("0,0,0,0", 2), 1.0 / 3, 1e-9);
}

TEST(other_lists_are_refused) {
    static const char *const lists[] = {"", "x", "-1", "20", "1,", ",1", "1;2", "1 2", " 1"};
    for (size_t i = 0; i < ARRAY_COUNT(lists); i++) {
        struct competitors competitors;
        struct error error;
        assert_int_equal(competitors_read(lists[i], &competitors, &error), STATUS_INVALID);
        assert_non_null(strstr(error.text, lists[i]));
    }
}

TEST(too_many_are_refused) {
    struct competitors competitors;
    struct error error;
    char list[2 * COMPETITORS_MAX + 2];
    for (size_t i = 0; i < COMPETITORS_MAX + 1; i++)
        memcpy(list + 2 * i, "1,", 2);
    list[sizeof list - 1] = 0;
    assert_int_equal(competitors_read(list, &competitors, &error), STATUS_TOO_LARGE);
}

TEST(they_compute_until_they_are_stopped) {
    struct competitors competitors;
    assert_int_equal(competitors_read("19,19", &competitors, NULL), STATUS_OK);
    assert_int_equal(competitors_start(&competitors, NULL), STATUS_OK);
    pid_t pid = competitors.pids[1];
    double used = 0;
    for (int i = 0; i < 100 && used < 0.5; i++)
        used = competitors_of_machine(0.1);
    competitors_stop(&competitors);
    assert_true(used >= 0.5);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(competitors.pids[1], 0);
}

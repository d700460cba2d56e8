/* SPDX-License-Identifier: Apache-2.0
 * Protects the number of CPUs: a quota is rounded up and never raises it.
 */
#include "base/cpus.h"
#include "test_case.h"

TEST(a_quota_is_rounded_up) {
    assert_int_equal(cpus_of_quota("150000 100000\n", 8), 2);
    assert_int_equal(cpus_of_quota("200000 100000\n", 8), 2);
    assert_int_equal(cpus_of_quota("200001 100000\n", 8), 3);
    assert_int_equal(cpus_of_quota("1000 100000", 8), 1);
}

TEST(a_quota_never_raises_the_number) {
    assert_int_equal(cpus_of_quota("900000 100000", 2), 2);
    assert_int_equal(cpus_of_quota("1e300 1", 2), 2);
}

TEST(without_a_quota_all_are_usable) {
    static const char *const none[] = {"max 100000\n", "-1\n 100000\n", "",
                                       "100000",       "100000 0",      "nan nan"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(cpus_of_quota(none[i], 4), 4);
}

TEST(there_is_one_at_least) {
    assert_true(cpus_usable() >= 1);
}

/* SPDX-License-Identifier: Apache-2.0
 * Protects the limit of open files: it is raised as far as it goes, and a shortage of them is told
 * once.
 */
#include <errno.h>
#include <sys/resource.h>

#include "host/process/file_limit.h"

#include "test_case.h"

TEST(the_limit_is_raised) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 20;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(file_limit_raise(10), 20);
    assert_int_equal(file_limit_raise(30), 30);
    assert_int_equal(file_limit_raise(UINT64_MAX), limit.rlim_max);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(limit.rlim_cur, limit.rlim_max);
}

TEST(a_shortage_is_reported_once) {
    struct file_shortage shortage = {0}, another = {0};
    assert_true(file_limit_shortage_report(&shortage, "here", EMFILE));
    for (int i = 0; i < 1000; i++)
        assert_false(file_limit_shortage_report(&shortage, "here", i % 2 ? EMFILE : ENFILE));
    assert_true(file_limit_shortage_report(&another, "there", ENFILE));
    shortage.failed_ns -= (int64_t)60000000000; /* it was over for long */
    assert_true(file_limit_shortage_report(&shortage, "here", EMFILE));
}

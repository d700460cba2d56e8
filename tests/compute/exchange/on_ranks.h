/* SPDX-License-Identifier: Apache-2.0
 * main of a test that runs under mpirun, all ranks alike: rank 0 speaks for all. Include it behind
 * <cmocka.h>.
 */
#ifndef TESTS_EXCHANGE_ON_RANKS_H
#define TESTS_EXCHANGE_ON_RANKS_H

#include <stdio.h>

#include "base/check.h"
#include "compute/exchange/mpi_job.h"

static inline int on_ranks(const char *name, const struct CMUnitTest *tests, size_t count) {
    struct error error;
    if (mpi_job_begin(&error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    if (mpi_job_rank() && !freopen("/dev/null", "w", stdout)) return 1;
    int failed = _cmocka_run_group_tests(name, tests, count, NULL, NULL);
    mpi_job_end();
    return failed;
}

#endif

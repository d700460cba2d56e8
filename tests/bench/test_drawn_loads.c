/* SPDX-License-Identifier: Apache-2.0
 * Protects what benchmarks of placements compare: the same loads at each run, of seven kinds that
 * differ, and as uneven as their names say.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/drawn_loads.h"

static double deviation_of_logs(const double *loads) {
    double sum = 0, squares = 0;
    for (uint32_t e = 0; e < DRAWN_EXPERTS; e++) {
        double x = log(loads[e]);
        sum += x;
        squares += x * x;
    }
    double mean = sum / DRAWN_EXPERTS;
    return sqrt(squares / DRAWN_EXPERTS - mean * mean);
}

static void a_layer_has_the_same_loads_again(void **state) {
    (void)state;
    double first[DRAWN_EXPERTS], again[DRAWN_EXPERTS], other[DRAWN_EXPERTS];
    for (uint32_t kind = 0; kind < DRAWN_KINDS; kind++) {
        drawn_loads_layer(kind, 3, first);
        drawn_loads_layer(kind, 3, again);
        drawn_loads_layer(kind, 4, other);
        assert_memory_equal(first, again, sizeof first);
        assert_true(memcmp(first, other, sizeof first) != 0);
        for (uint32_t e = 0; e < DRAWN_EXPERTS; e++)
            assert_true(first[e] > 0 && isfinite(first[e]));
    }
}

static void loads_are_as_uneven_as_they_are_called(void **state) {
    (void)state;
    static const double sigmas[] = {0.35, 0.6, 0.8, 1.1};
    double loads[DRAWN_EXPERTS];
    for (uint32_t kind = 0; kind < 4; kind++) {
        drawn_loads_layer(kind, 0, loads);
        assert_true(fabs(deviation_of_logs(loads) / sigmas[kind] - 1) < 0.15);
    }
    drawn_loads_layer(4, 0, loads);
    double least = loads[0], most = loads[0];
    for (uint32_t e = 1; e < DRAWN_EXPERTS; e++) {
        least = fmin(least, loads[e]);
        most = fmax(most, loads[e]);
    }
    assert_true(fabs(log(most / least) - 0.6 * log(DRAWN_EXPERTS)) < 1e-9);
}

static void kinds_have_names_of_their_own(void **state) {
    (void)state;
    for (uint32_t kind = 1; kind < DRAWN_KINDS; kind++)
        assert_string_not_equal(drawn_loads_name(kind), drawn_loads_name(kind - 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_has_the_same_loads_again),
        cmocka_unit_test(loads_are_as_uneven_as_they_are_called),
        cmocka_unit_test(kinds_have_names_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

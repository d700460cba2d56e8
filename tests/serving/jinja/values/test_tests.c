/* SPDX-License-Identifier: Apache-2.0
 * Protects what stands behind `is`. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows_0[] = {
    {"{{ u is odd }}", NULL},
    {"{{ t is odd }}", "True"},
    {"{{ u is even }}", NULL},
    {"{{ 0 is even }}", "True"},
    {"{{ u is defined }}", "True"},
    {"{{ nope is defined }}", "False"},
    {"{{ l.pop is defined }}{{ d.pop is defined }}{{ d.update is defined }}", "FalseFalseFalse"},
    {"{{ u is undefined }}", "False"},
    {"{{ nope is undefined }}", "True"},
    {"{{ u is none }}", "False"},
    {"{{ n is none }}", "True"},
    {"{{ u is boolean }}", "False"},
    {"{{ t is boolean }}", "True"},
    {"{{ u is false }}", "False"},
    {"{{ false is false }}", "True"},
    {"{{ u is true }}", "False"},
    {"{{ t is true }}", "True"},
    {"{{ u is integer }}", "False"},
    {"{{ neg is integer }}", "True"},
    {"{{ u is float }}", "False"},
    {"{{ x is float }}", "True"},
    {"{{ u is string }}", "True"},
    {"{{ n is string }}", "False"},
    {"{{ u is mapping }}", "False"},
    {"{{ d is mapping }}", "True"},
    {"{{ u is number }}", "False"},
    {"{{ x is number }}", "True"},
    {"{{ u is sequence }}", "True"},
    {"{{ n is sequence }}", "False"},
    {"{{ u is iterable }}", "True"},
    {"{{ n is iterable }}", "False"},
    {"{{ u is callable }}", "False"},
    {"{{ nope is callable }}", "True"},
};

static void kinds_of_values_are_reported_apart(void **state) {
    AGREES(rows_0);
}

static const struct agreement rows_1[] = {
    {"{{ 1 is odd(1) }}", NULL},
    {"{{ 1 is even(1) }}", NULL},
    {"{{ 1 is defined(1) }}", NULL},
    {"{{ 1 is undefined(1) }}", NULL},
    {"{{ 1 is none(1) }}", NULL},
    {"{{ 1 is boolean(1) }}", NULL},
    {"{{ 1 is false(1) }}", NULL},
    {"{{ 1 is true(1) }}", NULL},
    {"{{ 1 is integer(1) }}", NULL},
    {"{{ 1 is float(1) }}", NULL},
    {"{{ 1 is string(1) }}", NULL},
    {"{{ 1 is mapping(1) }}", NULL},
    {"{{ 1 is number(1) }}", NULL},
    {"{{ 1 is sequence(1) }}", NULL},
    {"{{ 1 is iterable(1) }}", NULL},
    {"{{ 1 is callable(1) }}", NULL},
    {"{{ u is divisibleby(2) }}", NULL},
    {"{{ 0 is divisibleby(2) }}", "True"},
    {"{{ u is divisibleby(0) }}", NULL},
    {"{{ u is divisibleby(num=3) }}", NULL},
    {"{{ 0 is divisibleby(num=3) }}", "True"},
    {"{{ u is sameas(none) }}", "False"},
    {"{{ n is sameas(none) }}", "True"},
    {"{{ u is sameas(true) }}", "False"},
    {"{{ t is sameas(true) }}", "True"},
    {"{{ u is eq(1) }}", "False"},
    {"{{ t is eq(1) }}", "True"},
    {"{{ u is eq 'a' }}", "False"},
    {"{{ u is ne(1) }}", "True"},
    {"{{ t is ne(1) }}", "False"},
    {"{{ u is lt(2) }}", NULL},
    {"{{ x is lt(2) }}", "False"},
    {"{{ t is lt(2) }}", "True"},
    {"{{ u is gt 0 }}", NULL},
    {"{{ x is gt 0 }}", "True"},
    {"{{ neg is gt 0 }}", "False"},
    {"{{ u is ge(1) }}", NULL},
    {"{{ x is ge(1) }}", "True"},
    {"{{ neg is ge(1) }}", "False"},
    {"{{ u is le(1) }}", NULL},
    {"{{ x is le(1) }}", "False"},
    {"{{ t is le(1) }}", "True"},
    {"{{ u is in([1,'a']) }}", "False"},
    {"{{ t is in([1,'a']) }}", "True"},
    {"{{ u is in 'abc' }}", "False"},
    {"{{ n is in 'abc' }}", NULL},
    {"{{ e is in 'abc' }}", "True"},
    {"{{ u is equalto(none) }}", "False"},
    {"{{ n is equalto(none) }}", "True"},
    {"{{ u is lessthan(3) }}", NULL},
    {"{{ x is lessthan(3) }}", "False"},
    {"{{ t is lessthan(3) }}", "True"},
    {"{{ u is greaterthan 1 }}", NULL},
    {"{{ x is greaterthan 1 }}", "True"},
    {"{{ t is greaterthan 1 }}", "False"},
    {"{{ u is eq(l) }}", "False"},
    {"{{ l is eq(l) }}", "True"},
    {"{{ u is in(d) }}", "False"},
    {"{{ l is in(d) }}", NULL},
    {"{{ u is in(nope) }}", "False"},
    {"{{ u is eq() }}", NULL},
    {"{{ u is lt(none) }}", NULL},
    {"{{ u is in(5) }}", NULL},
    {"{{ u is divisibleby('a') }}", NULL},
};

static void values_are_compared(void **state) {
    AGREES(rows_1);
}

/* clang-format on */

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_values_are_reported_apart),
        cmocka_unit_test(values_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

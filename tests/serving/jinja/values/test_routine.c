/* SPDX-License-Identifier: Apache-2.0
 * Protects the binding of arguments to the parameters of filters, tests, methods and functions. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows_0[] = {
    {"{{ 'x'|replace('x') }}", NULL},
    {"{{ 'x'|replace(new='y', old='x') }}", "y"},
    {"{{ 'x'|replace(*['x', 'y']) }}", "y"},
    {"{{ 'x'|length(1) }}", NULL},
    {"{{ 'x'.upper(1) }}", NULL},
    {"{{ 4 is divisibleby(2) }}", "True"},
    {"{{ 4 is divisibleby(num=2) }}", "True"},
    {"{{ 4 is divisibleby }}", NULL},
    {"{{ 4 is eq(b=4) }}", NULL},
    {"{{ range(stop=3) }}", NULL},
    {"{{ range(1, 2, 3, 4) }}", NULL},
    {"{{ d.get() }}", NULL},
    {"{{ d.get('b', 1, 2) }}", NULL},
    {"{{ dict(a=1, b=2) }}", "{'a': 1, 'b': 2}"},
    {"{{ 'x'.startswith(nope) }}", NULL},
};

TEST(arguments_are_bound_as_python_binds_them) {
    AGREES(rows_0);
}

/* clang-format on */

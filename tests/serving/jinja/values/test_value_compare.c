/* SPDX-License-Identifier: Apache-2.0
 * Protects equality, order, hashes and `in`. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows[] = {
    {"{{ 1 == 1.0 }}{{ true == 1 }}{{ 1 == '1' }}{{ n == false }}{{ [] == () }}{{ [1, [2]] == [1.0, [2.0]] }}{{ {'a': 1} == {'a': 1.0} }}{{ {'a': 1} == {'b': 1} }}{{ range(3) == range(3) }}{{ range(0) == range(1, 1) }}{{ 'a' == 'a' }}{{ n == n }}{{ q == q }}{{ q == n }}", "TrueTrueFalseFalseFalseTrueTrueFalseTrueTrueTrueTrueTrueFalse"},
    {"{{ 1 < 'a' }}", NULL},
    {"{{ n < 1 }}", NULL},
    {"{{ [1] < (1,) }}", NULL},
    {"{{ d < d }}", NULL},
    {"{{ [1, n] < [1, 2] }}", NULL},
    {"{{ 'ell' in 'hello' }}{{ '' in '' }}{{ 'é' in 'né' }}{{ 1 in l }}{{ 1.0 in l }}{{ true in l }}{{ 'b' in d }}{{ 1 in range(5) }}{{ 1.0 in range(5) }}{{ 7 in range(0, 10, 2) }}{{ 'x' in range(3) }}{{ 'b' in d.keys() }}{{ 1 in d.values() }}{{ ('b', 1) in d.items() }}{{ n in [n] }}{{ '1' in l|map('string') }}", "TrueTrueTrueTrueTrueTrueTrueTrueTrueFalseFalseTrueTrueTrueTrueTrue"},
    {"{{ 1 in 'abc' }}", NULL},
    {"{{ 1 in 5 }}", NULL},
    {"{{ 1 in n }}", NULL},
    {"{{ [] in d }}", NULL},
    {"{{ [1, 2] in [[1, 2]] }}{{ {} in [{}] }}", "TrueTrue"},
    {"{{ 'aXbXc'.split('X') == ['a', 'b', 'c'] }}{{ l|sort == [1, 2, 3] }}{{ s.upper == s.upper }}{{ 1e4 == 1e4 }}", "TrueTrueTrueTrue"},
    {"{{ [1, 'a']|sort }}", NULL},
    {"{{ [1, 1.0, true, 'a', 'A']|unique|list }}", "[1, 'a']"},
};

/* clang-format on */

TEST(values_compare_as_in_python) {
    AGREES(rows);
}

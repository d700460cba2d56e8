/* SPDX-License-Identifier: Apache-2.0
 * Protects statements: assignments to tuples and namespaces, blocks of text, scopes. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows[] = {
    {"{% set a, b = [1, 2] %}{{ a }}{{ b }}{% set (c, (f, g)) = [3, [4, 5]] %}{{ c }}{{ f }}{{ g }}", "12345"},
    {"{% set a, b = [1] %}", NULL},
    {"{% set a, b = 'xyz' %}", NULL},
    {"{% set a, b = 5 %}", NULL},
    {"{% set a, b = q %}", NULL},
    {"{% set d.a = 1 %}", NULL},
    {"{% set q.a = 1 %}", NULL},
    {"{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns.__class__ }}{{ ns._x }}", "12"},
    {"{% set v %}abc{{ x }}{% endset %}{{ v }}{{ v|length }}", "abc3.76"},
    {"{% set v | upper | length %}abc{% endset %}{{ v + 1 }}", "4"},
    {"{% set ns = namespace() %}{% set ns.a %}text{% endset %}{{ ns.a }}", "text"},
    {"{% set a, b %}xy{% endset %}{{ a }}{{ b }}", "xy"},
    {"{% filter upper|replace('A', 'b') %}a{{ x }}{% endfilter %}", "b3.7"},
    {"{% filter length %}abc{% endfilter %}", NULL},
    {"{% if n %}1{% elif l %}2{% endif %}{% if q %}{% else %}3{% endif %}{% if '' %}{% elif 0 %}{% elif 0.0 %}{% elif {} %}{% elif () %}{% else %}4{% endif %}", "234"},
    {"{% if q is defined and q.a.b %}{% endif %}ok", "ok"},
    {"a{% generation %}b{{ x }}{% endgeneration %}c", "ab3.7c"},
    {"{% macro m() %}{% generation %}x{% endgeneration %}{% endmacro %}{{ m() }}", "x"},
    {"{% set a = 1 %}{% set a = a + 1 %}{% set a = a * 2 %}{{ a }}", "4"},
};

/* clang-format on */

TEST(statements_do_what_jinja_does) {
    AGREES(rows);
}

/* SPDX-License-Identifier: Apache-2.0
 * Protects which variable a name means. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows[] = {
    {"{% set a = 1 %}{% for i in [1, 2] %}{% set a = a + i %}{{ a }}{% endfor %}{{ a }}", "231"},
    {"{% for i in [1, 2] %}{{ z }}{% set z = i %}{{ z }}{% endfor %}{{ z }}", "12"},
    {"{% if t %}{% set q = 5 %}{% endif %}{{ q }}{% for i in [1] %}{{ q }}{% set q = 6 %}{{ q }}{% endfor %}{{ q }}", "5565"},
    {"{% if n %}{% set q = 5 %}{% endif %}[{{ q }}]", "[]"},
    {"{% if n %}{% set x = 5 %}{% endif %}[{{ x }}]", "[3.7]"},
    {"{% for i in [1, 2] %}{% if i == 1 %}{% set x = i %}{% endif %}{{ x }} {% endfor %}{{ x }}", "1 3.7 3.7"},
    {"{% for i in [1, 2] %}{% if i == 1 %}{% set w = i %}{% else %}{% set w = w %}{% endif %}[{{ w }}]{% endfor %}", "[1][]"},
    {"{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}", "2"},
    {"{% macro m() %}{{ q }}{% endmacro %}{% set q = 2 %}{{ m() }}", "2"},
    {"{% macro m() %}{% set x = 9 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}", "93.7"},
    {"{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "B"},
    {"{% for i in [1, 2] %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}{{ f }}", "12"},
    {"{% for i in [1, 2] %}{% set x = i %}{% macro f() %}{{ x }}{% endmacro %}{% set x = x * 10 %}{{ f() }}{% endfor %}", "1020"},
    {"{% set v %}{% set x = 3 %}{{ x }}{% endset %}{{ v }}{{ x }}", "33.7"},
    {"{% filter upper %}{% set q = 'a' %}{{ q }}{% endfilter %}[{{ q }}]", "A[]"},
    {"{% set q = 'a' %}{% filter replace(q, 'b') %}aaa{% endfilter %}", "bbb"},
    {"{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}", "7"},
    {"{% macro m(ns) %}{% set ns.x = 5 %}{% endmacro %}{% set n2 = namespace() %}{{ m(n2) }}{{ n2.x }}", "5"},
    {"{% block a %}{{ super() }}{% endblock %}", NULL},
    {"{% macro m(x) %}{% for x in [1] %}{{ x }}{% endfor %}{{ x }}{% endmacro %}{{ m(7) }}", "17"},
    {"{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}", "11"},
    {"{% macro m(a=x) %}{{ a }}{% endmacro %}{% set x = 1 %}{{ m() }}", "1"},
    {"{% macro m(a=b, b=1) %}[{{ a }}{{ b }}]{% endmacro %}{{ m() }}", "[1]"},
    {"{% macro outer() %}{% set v = 1 %}{% macro inner() %}{{ v }}{% endmacro %}{{ inner() }}{% set v = 2 %}{{ inner() }}{% endmacro %}{{ outer() }}", "12"},
    {"{% macro outer(v) %}{% if v > 0 %}{{ outer(v - 1) }}{% endif %}{{ v }}{% endmacro %}{{ outer(3) }}", "0123"},
    {"{% for i in [1] %}{% for i in [2] %}{{ i }}{% endfor %}{{ i }}{% endfor %}{{ i }}", "21"},
    {"{% for x in [1] %}{{ x }}{% endfor %}{{ x }}", "13.7"},
    {"{% for x in [x] %}{{ x }}{% endfor %}", "3.7"},
    {"{% for i in [1, 2] if i != x %}{{ i }}{% set x = 0 %}{% endfor %}{{ x }}", "123.7"},
    {"{% for i in [] %}{% else %}{% set q = 1 %}{{ q }}{% endfor %}{{ q }}", "1"},
    {"{% set range = 5 %}{{ range }}", "5"},
    {"{{ range(2)|list }}{% set range = 5 %}", "[0, 1]"},
    {"{% for i in [1] %}{% set range = 5 %}{{ range }}{% endfor %}{{ range(2)|list }}", "5[0, 1]"},
    {"{% call(v) m2(1) %}{{ v }}{% endcall %}", NULL},
    {"{% macro m() %}{{ caller(1) }}{% endmacro %}{% set x = 1 %}{% call(x) m() %}{{ x }}{% set x = 5 %}{{ x }}{% endcall %}{{ x }}", "151"},
    {"{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x }}", "13.7"},
    {"{% generation %}{{ loop }}{% endgeneration %}", ""},
    {"{% for i in l %}{% generation %}{{ loop.index }}{{ i }}{% endgeneration %}{% endfor %}", "132132"},
    {"{% set a = 1 %}{% if t %}{% for i in [1] %}{% set a = 2 %}{% endfor %}{% endif %}{{ a }}", "1"},
    {"{% set x, y = y, x %}{{ x }}{{ y }}", "3.7"},
    {"{% set _p = 1 %}{% macro m() %}{{ _p }}{% endmacro %}{{ m() }}", "1"},
    {"{% macro m(kwargs) %}{{ kwargs }}{% endmacro %}{{ m(1) }}", "1"},
    {"{% macro m() %}{% set caller = 1 %}{{ caller }}{% endmacro %}{{ m() }}", "1"},
    {"{% macro m(caller) %}{{ caller }}{% endmacro %}{{ m(1) }}", NULL},
    {"{% macro m(caller=1) %}{{ caller }}{% endmacro %}{{ m() }}", "1"},
};

/* clang-format on */

TEST(names_mean_what_they_do_in_jinja) {
    AGREES(rows);
}

TEST(generations_do_not_see_the_loop_that_they_are_in) {
    agreement_origins("{% for i in [1] %}{% generation %}{{ loop is defined }}{% endgeneration %}"
                      "{% endfor %}",
                      "True");
}

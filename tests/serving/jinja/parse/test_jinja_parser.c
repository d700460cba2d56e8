/* SPDX-License-Identifier: Apache-2.0
 * Protects which tags there are, and where each must end. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows[] = {
    {"{% if n %}a{% elif e %}b{% elif t %}c{% else %}d{% endif %}", "c"},
    {"{% if n %}a{% elif e %}b{% else %}d{% endif %}", "d"},
    {"{% if t: %}a{% endif %}", "a"},
    {"{% if t, n %}a{% endif %}", "a"},
    {"{% if %}a{% endif %}", NULL},
    {"{% if t %}a", NULL},
    {"{% if t %}a{% endfor %}", NULL},
    {"{% endif %}", NULL},
    {"{% else %}", NULL},
    {"{% foo %}", NULL},
    {"{% do x %}", NULL},
    {"{% trans %}x{% endtrans %}", NULL},
    {"{% 5 %}", NULL},
    {"{% for i in l %}{{ i }}{% else %}e{% endfor %}", "312"},
    {"{% for i in 1, 2 %}{{ i }}{% endfor %}", "12"},
    {"{% for i, in tup %}{{ i }}{% endfor %}", NULL},
    {"{% for (a, b) in tup %}{{ a }}{{ b }}{% endfor %}", "a1b2"},
    {"{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "123"},
    {"{% for a.b in l %}{% endfor %}", NULL},
    {"{% for 1 in l %}{% endfor %}", NULL},
    {"{% for i l %}{% endfor %}", NULL},
    {"{% for i in %}{% endfor %}", NULL},
    {"{% for i in l if i > 1 %}{{ i }}{% endfor %}", "32"},
    {"{% for i in l if i > 1 else l %}{{ i }}{% endfor %}", NULL},
    {"{% for i in (l if t else []) %}{{ i }}{% endfor %}", "312"},
    {"{% set a = 1, 2 %}{{ a }}", "(1, 2)"},
    {"{% set a = 1 if n else 2 %}{{ a }}", "2"},
    {"{% set a, b = 1, 2 %}{{ a }}{{ b }}", "12"},
    {"{% set (a, b) = 1, 2 %}{{ a }}{{ b }}", "12"},
    {"{% set none = 1 %}", NULL},
    {"{% set 'a' = 1 %}", NULL},
    {"{% set a.b.c = 1 %}", NULL},
    {"{% set a['b'] = 1 %}", NULL},
    {"{% set a %}x{% endset %}{{ a }}", "x"},
    {"{% set a | upper | replace('X', 'y') %}x{% endset %}{{ a }}", "y"},
    {"{% set %}", NULL},
    {"{% set a = %}", NULL},
    {"{% macro m(a, b=1) %}{{ a }}{{ b }}{% endmacro %}{{ m(0) }}", "01"},
    {"{% macro m(a=1, b) %}{% endmacro %}", NULL},
    {"{% macro m(a, a) %}{% endmacro %}", NULL},
    {"{% macro m %}{% endmacro %}", NULL},
    {"{% macro true() %}{% endmacro %}", NULL},
    {"{% macro m() %}{% endmacro m %}", NULL},
    {"{% call x %}{% endcall %}", NULL},
    {"{% call m() %}{% endcall %}", NULL},
    {"{% filter upper %}x{% endfilter %}", "X"},
    {"{% filter upper|lower %}x{% endfilter %}", "x"},
    {"{% filter %}x{% endfilter %}", NULL},
    {"{% with a %}{% endwith %}", NULL},
    {"{% block a %}x{% endblock b %}", NULL},
    {"{% block a %}{% endblock %}{% block a %}{% endblock %}", NULL},
    {"{% generation %}x{% endgeneration %}", "x"},
    {"{% if t %}{% break %}{% endif %}", NULL},
    {"{% continue %}", NULL},
    {"{% for i in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", NULL},
    {"{% for i in l %}{{ i }}{% else %}{% break %}{% endfor %}", NULL},
    {"{% for i in l %}{% for j in [] %}{% else %}{% break %}{% endfor %}{{ i }}{% endfor %}", ""},
    {"{% for i in l %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}", "3"},
    {"{% for i in l %}{% set loop = 1 %}{% endfor %}", NULL},
    {"{% for loop in l %}{% endfor %}", NULL},
    {"{% if t %}{% endif x %}", NULL},
    {"{{ x }} {% if t -%} {{ x }}", NULL},
    {"{% for a, in [(1,)] %}{{ a }}{% endfor %}", NULL},
    {"{% for (a,) in [(1,)] %}{{ a }}{% endfor %}", "1"},
    {"{% for i in l, recursive %}{{ i }}{% endfor %}", "[3, 1, 2]"},
};

/* clang-format on */

static void tags_are_parsed_as_jinja_does(void **state) {
    AGREES(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_are_parsed_as_jinja_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

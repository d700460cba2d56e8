/* SPDX-License-Identifier: Apache-2.0
 * Protects calls: how arguments find parameters, macros, callers, methods. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows[] = {
    {"{% macro m(a, b=2, c='z') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, c=5) }}{{ m(1, 2, 3) }}{{ m() }}{{ m(b=1, a=2) }}", "[12z][125][123][2z][21z]"},
    {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", NULL},
    {"{% macro m(a) %}{% endmacro %}{{ m(z=2) }}", NULL},
    {"{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}", NULL},
    {"{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}", NULL},
    {"{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", NULL},
    {"{% macro m() %}{% if caller %}{{ caller() }}{% else %}none{% endif %}{% endmacro %}{{ m() }}{% call m() %}C{% endcall %}", "noneC"},
    {"{% macro m() %}{{ caller('a', k='b') }}{% endmacro %}{% call(x, k) m() %}{{ x }}{{ k }}{% endcall %}", "ab"},
    {"{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(x) m() %}{{ x }}{% endcall %}", NULL},
    {"{% macro m() %}x{% endmacro %}{% call m() %}C{% endcall %}", NULL},
    {"{% call range(3) %}C{% endcall %}", NULL},
    {"{% macro m(x) %}{{ x }}{% endmacro %}{{ m(*5) }}", NULL},
    {"{% macro m(x) %}{{ x }}{% endmacro %}{{ m(**[5]) }}", NULL},
    {"{% macro m(x) %}{{ x }}{% endmacro %}{{ m(x=1, **{'x': 6}) }}", NULL},
    {"{% macro m(x) %}{{ x }}{% endmacro %}{{ m(**{1: 6}) }}", NULL},
    {"{% macro m(x) %}<{{ x }}>{% endmacro %}{{ [1, 2]|map('string')|join }}{{ m(m(m(1))) }}{{ m(1)|upper }}{{ m(1) ~ 'a' }}{{ m(1)|length }}", "12<<<1>>><1><1>a3"},
    {"{{ s.upper() }}{{ s['upper']() }}{{ s.strip().split('-') }}{{ d.get('b') }}{{ d.get('zz', 5) }}{{ d.get('zz') }}", " HELLO WORLD\tFOO-BAR  BAZ\n HELLO WORLD\tFOO-BAR  BAZ\n['Hello World\\tfoo', 'bar  baz']15None"},
    {"{{ s.upper(1) }}", NULL},
    {"{{ s.foo() }}", NULL},
    {"{{ l.foo.bar() }}", NULL},
    {"{% set f = s.upper %}{{ f() }}", " HELLO WORLD\tFOO-BAR  BAZ\n"},
    {"{{ raise_exception('boo') }}", NULL},
    {"{{ (m|map('upper'))() }}", NULL},
    {"{% macro m() %}a{% endmacro %}{{ m() is string }}{{ m is callable }}{{ range is callable }}{{ s is callable }}{{ s.upper is callable }}", "TrueTrueTrueFalseTrue"},
    {"{% macro m(n) %}{% if n %}{{ n }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(20) }}", "2019181716151413121110987654321"},
    {"{% macro a(x) %}A{{ x }}{{ caller() }}{% endmacro %}{% macro b(x) %}B{{ x }}{{ caller() }}{% endmacro %}{% call a(1) %}{% call b(2) %}in{% endcall %}{% endcall %}", "A1B2in"},
};

/* clang-format on */

TEST(calls_bind_as_in_jinja) {
    AGREES(rows);
}

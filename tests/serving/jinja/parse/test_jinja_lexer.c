/* SPDX-License-Identifier: Apache-2.0
 * Protects the text around tags, byte by byte, and literals. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows[] = {
    {"a\n  {% if t %}\n  b\n  {% endif %}\nc", "a\n  b\nc"},
    {"a {%- if t -%} b {%- endif -%} c {{- x -}} d", "abc3.7d"},
    {"{# comment #}\nx\n  {#- c -#}  y {#+ z +#}", "xy "},
    {"  {%+ if t +%}\n  z\n  {% endif %}", "  \n  z\n"},
    {"  {# c #}\n  {# d #}x", "x"},
    {"\t {% if t %}y{% endif %}  {% if t %}z{% endif %}", "y  z"},
    {"x  {% if t %}y{% endif %}", "x  y"},
    {"{% raw %}{{ x }} {% if %}{% endraw %}", "{{ x }} {% if %}"},
    {"  {% raw %}\n  {{ y }}\n  {% endraw %}\nb", "\n  {{ y }}\nb"},
    {"a {%- raw -%}  b {%- endraw -%}  c", "abc"},
    {"{% raw %}a{%+ endraw +%}\nb", "a\nb"},
    {"{{ \"\\xg1\" }}", NULL},
    {"{{ 9223372036854775807 }}", "9223372036854775807"},
    {"{{ 12a }}", NULL},
    {"{{ 1__0 }}", NULL},
    {"{{ {'a': {'b': 1}} }}{{ {'a': {}}}}", "{'a': {'b': 1}}{'a': {}}"},
    {"{{ [1, 2) }}", NULL},
    {"{{ } }}", NULL},
    {"{{ x", NULL},
    {"{% if x", NULL},
    {"{# never ends", NULL},
    {"{% raw %} never ends", NULL},
    {"{{ 'never ends }}", NULL},
    {"{{ x ! y }}", NULL},
    {"{{ x $ }}", NULL},
    {"a\nb\n", "a\nb"},
    {"\n", ""},
    {"{{ x }}\n", "3.7"},
    {"{{ x }}\ny", "3.7\ny"},
    {"{{- x }}  \n  {{ x -}}  \n  y", "3.7  \n  3.7y"},
    {"{{+ x }}{{+x}}", "3.73.7"},
    {"x {%- if t %}\n\ny{% endif -%}\n\n\nz", "x\nyz"},
    {"{% if t -%}  a  {%- else -%}  b  {%- endif %}", "a"},
    {"{%if t%}a{%endif%}{{x}}{#c#}", "a3.7"},
    {"{ {% if t %}{{ '{' }}{% endif %} } { # {% %", NULL},
    {"{{ 1 ;2 }}", NULL},
    {"{%- if t +%}\na\n{%- endif +%}\nb", "\na\nb"},
    {"{{ 5 -}}\n  x {{- 6 }}", "5x6"},
    {"{{ \"a{{b}}%}\" }}{% if '%}' %}y{% endif %}", "a{{b}}%}y"},
    {"{{ -5-}}x", "-5x"},
    {"a{% if t %}\n{% endif %}\nb", "ab"},
    {"{% for i in l %}\n{{ i }}\n{% endfor %}\nend", "3\n1\n2\nend"},
    {"<div>\n    {% for i in l -%}\n        {{ i }}\n    {%- endfor %}\n</div>", "<div>\n312</div>"},
    {"a\r\n{% if t %}\r\nb\rc\r\n{% endif %}\r\n", "a\nb\nc\n"},
};

/* clang-format on */

TEST(white_space_and_literals_are_those_of_jinja) {
    AGREES(rows);
}

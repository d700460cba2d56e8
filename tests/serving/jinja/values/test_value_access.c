/* SPDX-License-Identifier: Apache-2.0
 * Protects attributes, items, slices and iteration. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows[] = {
    {"{{ l[0:2] }}{{ l[::-1] }}{{ l[5:] }}{{ l[-100:100] }}{{ l[2:0:-1] }}{{ (1, 2, 3)[1:] }}", "[3, 1][2, 1, 3][][3, 1, 2][2, 1](2, 3)"},
    {"{{ l[0] }}{{ l[-3] }}{{ l[3] }}{{ l[-4] }}{{ u[1] }}{{ u[-1] }}{{ u[100] }}{{ tup[0][0] }}{{ range(5, 20, 3)[2] }}{{ range(3)[-1] }}{{ range(3)[5] }}", "33é.a112"},
    {"{{ u[2:8] }}{{ u[-5:-1] }}{{ u[::2] }}{{ u[10:2:-3] }}{{ u[5:2] }}{{ u[:100] }}{{ u[-100:3] }}{{ s[2:4] }}{{ s[::-1] }}", "llo Wö ΣΑΣhloWrdǅßﬁΑ Α.döohéllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.hélel\nzab  rab-oof\tdlroW olleH "},
    {"{{ l[none:none] }}{{ l[true:] }}", "[3, 1, 2][1, 2]"},
    {"{{ l['a':] }}", NULL},
    {"{{ l[::0] }}", NULL},
    {"{{ l[q:] }}", NULL},
    {"{{ d[1:] }}", NULL},
    {"{{ n[1:] }}", NULL},
    {"{{ {'items': 5}['items'] }}{{ {'items': 5}.items is callable }}{{ {'get': 1}['get'] }}{{ {'keys': 1}.keys()|list }}", "5True1['keys']"},
    {"{{ {'append': 1}.append }}{{ {'pop': 1}['pop'] }}{{ {'pop': 1}.pop }}", "11"},
    {"{{ l['append'] }}|", "|"},
    {"{{ 5|list }}", NULL},
    {"{{ (l|map('string'))|list }}{% set g = l|map('string') %}{{ g|list }}{{ g|list }}", "['3', '1', '2']['3', '1', '2'][]"},
    {"{{ 'abc'['upper']() }}{{ 'abc'['0'] }}", "ABC"},
    {"{{ ''[0] }}|{{ ''[0:1] }}|{{ [][0] }}", "||"},
    {"{{ d['a.b'] }}{{ d.a }}{{ d['A'] }}", "[1, 2]"},
    {"{{ l.0 }}{{ l.1.2 }}", "3"},
    {"{{ m.0.role }}{{ m[0].role }}{{ m[0]['role'] }}{{ m.0['role'] }}", "useruseruseruser"},
};

/* clang-format on */

TEST(parts_of_values_are_those_of_python) {
    AGREES(rows);
}

TEST(parts_of_data_are_data) {
    agreement_origins("{{ u[1:3] }}{{ ('a' ~ u ~ 'b')[0:3] }}{{ ('a' ~ u[:2] ~ 'b')[::-1] }}"
                      "{% for c in 'x' ~ u[0] %}{{ c }}.{% endfor %}",
                      "«él»a«hé»b«éh»ax.«h».");
}

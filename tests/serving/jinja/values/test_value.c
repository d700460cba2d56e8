/* SPDX-License-Identifier: Apache-2.0
 * Protects what a value is: length, truth, keys of dicts. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows[] = {
    {"{{ l|length }}{{ d|length }}{{ u|length }}{{ range(5)|length }}{{ d.keys()|length }}{{ e|length }}{{ n|length }}", NULL},
    {"{{ 5|length }}", NULL},
    {"{{ {'a': 1, 'b': 2, 'c': 3, 'd': 4, 'e': 5, 'f': 6, 'g': 7, 'h': 8, 'i': 9, 'j': 10}.j }}{{ 'z' in {'a': 1, 'b': 2, 'c': 3, 'd': 4, 'e': 5, 'f': 6, 'g': 7, 'h': 8, 'i': 9} }}", "10False"},
    {"{% set ns = namespace() %}{% set ns.a1 = 1 %}{% set ns.a2 = 1 %}{% set ns.a3 = 1 %}{% set ns.a4 = 1 %}{% set ns.a5 = 1 %}{% set ns.a6 = 1 %}{% set ns.a7 = 1 %}{% set ns.a8 = 1 %}{% set ns.a9 = 1 %}{% set ns.a10 = 10 %}{% set ns.a9 = 9 %}{{ ns.a10 }}{{ ns.a9 }}{{ ns.a1 }}", "1091"},
    {"{{ q is undefined }}{{ q.x is undefined }}", NULL},
    {"{% for v in [n, t, x, l, d, s, e, range(0), range(1), (), namespace(), joiner] %}{{ 'y' if v else 'n' }}{% endfor %}", "nyyyyynnynyy"},
    {"{{ n + 1 }}", NULL},
    {"{{ d + d }}", NULL},
    {"{{ namespace().x.y }}", NULL},
    {"{{ m[0].foo.bar }}", NULL},
    {"{{ 5[0].x }}", NULL},
};

/* clang-format on */

TEST(values_are_what_they_are_in_python) {
    AGREES(rows);
}

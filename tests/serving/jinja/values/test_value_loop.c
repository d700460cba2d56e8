/* SPDX-License-Identifier: Apache-2.0
 * Protects the variable `loop`: places, neighbours, length, cycle() and changed(). */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows[] = {
    {"{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}", "1032TrueFalse310;2121FalseFalse310;3210FalseTrue310;"},
    {"{% for i in l %}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% endfor %}", "1FalseTrue;32TrueTrue;1TrueFalse;"},
    {"{% for i in l %}{{ loop.previtem + 1 }}{% endfor %}", NULL},
    {"{% for i in l %}{{ loop.cycle() }}{% endfor %}", NULL},
    {"{% for i in l if i > 1 %}{{ i }}{{ loop.index }}{{ loop.length }}{{ loop.last }}{% else %}none{% endfor %}", "312False222True"},
    {"{% for a, b in tup if b == 2 %}{{ a }}{{ loop.previtem }}{{ loop.length }}{% endfor %}", "b1"},
    {"{% for a, b in tup %}{{ a }}{{ loop.nextitem }}{% endfor %}", "a['b', 2]b"},
    {"{% for k in d %}{{ k }}{% endfor %}{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}{% for v in d.values() %}{{ v }}{% endfor %}{% for k in d.keys() %}{{ k }}{{ loop.length }}{% endfor %}", "bAcb1A[1, 2]cNone1[1, 2]Noneb3A3c3"},
    {"{% for i in range(5, 0, -2) %}{{ i }}{{ loop.length }}{% endfor %}", "533313"},
    {"{% for i in l|map('string') %}{{ i }}{{ loop.last }}{{ loop.length }}{% endfor %}", "3False31False32True3"},
    {"{% for i in l|map('string') %}{{ loop.length }}{{ i }}{{ loop.index }}{{ loop.nextitem }}{% endfor %}", "33113122323"},
    {"{% for i in l %}{% for j in l %}{{ loop.index }}{{ i }}{{ j }}{% endfor %}{{ loop.index }}{% endfor %}", "133231332111321131221232213223"},
    {"{% for i in l %}{% set outer = loop %}{% for j in [1] %}{{ outer.index }}{{ loop.index }}{% endfor %}{% endfor %}", "112131"},
    {"{% for i in l %}{% set lp = loop %}{% if loop.last %}{{ lp.index }}{% endif %}{% endfor %}", "3"},
    {"{% for m1 in m %}{{ m1.role }}{% if not loop.last %}, {% endif %}{% endfor %}", "user, assistant, User"},
};

/* clang-format on */

TEST(the_variable_loop_has_what_jinja_gives_it) {
    AGREES(rows);
}

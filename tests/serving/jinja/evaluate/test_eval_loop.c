/* SPDX-License-Identifier: Apache-2.0
 * Protects loops: filters of loops, else, break and continue. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows[] = {
    {"{% for i in l %}{{ loop() }}{% endfor %}", NULL},
    {"{% for i in l %}{{ loop(l) }}{% endfor %}", NULL},
    {"{% for i in l if i > 5 %}{{ i }}{% else %}none{% endfor %}", "none"},
    {"{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% if i == 3 %}{% break %}{% endif %}{% else %}E{% endfor %}", "13"},
    {"{% for i in [1] %}{% continue %}{% else %}E{% endfor %}", "E"},
    {"{% for i in [1] %}{% break %}{% else %}E{% endfor %}", "E"},
    {"{% for i in [1, 2] %}{{ i }}{% else %}E{% endfor %}", "12"},
    {"{% for i in [] %}x{% else %}E{% endfor %}", "E"},
    {"{% for c in u %}{{ c }}-{% endfor %}", "h-é-l-l-o- -W-ö-r-l-d- -ǅ- -ß- -ﬁ- -Α-Σ- -Σ-Α-Σ-.-"},
    {"{% for i in 5 %}{% endfor %}", NULL},
    {"{% for i in n %}{% endfor %}", NULL},
    {"{% for a, b in [1] %}{% endfor %}", NULL},
    {"{% for a, b in [[1]] %}{% endfor %}", NULL},
    {"{% for a, b in [[1, 2, 3]] %}{% endfor %}", NULL},
    {"{% for a, b in ['xy'] %}{{ b }}{{ a }}{% endfor %}", "yx"},
    {"{% for i in l %}{% filter upper %}a{% if i == 1 %}{% continue %}{% endif %}b{% endfilter %}{% endfor %}", "ABAB"},
    {"{% for i in l %}{% set z %}a{% if i == 1 %}{% break %}{% endif %}b{% endset %}{{ z }}{% endfor %}", "ab"},
    {"{% for i in loop %}{% endfor %}", ""},
};

/* clang-format on */

TEST(loops_go_as_in_jinja) {
    AGREES(rows);
}

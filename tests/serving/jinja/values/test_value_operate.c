/* SPDX-License-Identifier: Apache-2.0
 * Protects arithmetic, and text and lists that are joined. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows[] = {
    {"{{ 5 % 0 }}", NULL},
    {"{{ 5.0 % 0 }}", NULL},
    {"{{ 'a' + 1 }}", NULL},
    {"{{ 1 + 'a' }}", NULL},
    {"{{ [1] + (2,) }}", NULL},
    {"{{ [1] + 'a' }}", NULL},
    {"{{ n + n }}", NULL},
    {"{{ 'a' - 'b' }}", NULL},
    {"{{ 'a' * 1.5 }}", NULL},
    {"{{ d + d }}", NULL},
    {"{{ l - l }}", NULL},
    {"{{ d * 2 }}", NULL},
};

/* clang-format on */

TEST(values_add_up_as_in_python) {
    AGREES(rows);
}

TEST(joined_text_remembers_where_it_came_from) {
    agreement_origins("{{ 'a' + u[:2] + 'b' }}{{ (u[:2] + 'b') * 2 }}{{ 'x' ~ u[:2] ~ 1 }}",
                      "a«hé»b«hé»b«hé»bx«hé»1");
    agreement_origins("{% set ns = namespace(a=u[:2]) %}{% for i in range(60) %}"
                      "{% set ns.a = ns.a + '-=' %}{% endfor %}{{ ns.a[:4] }}{{ ns.a[-2:] }}",
                      "«hé»-=-=");
    agreement_origins("{% set ns = namespace(a='<|') %}{% for i in range(60) %}"
                      "{% set ns.a = ns.a ~ u[0] %}{% endfor %}{{ ns.a[:3] }}{{ ns.a[-1] }}",
                      "<|«hh»");
}

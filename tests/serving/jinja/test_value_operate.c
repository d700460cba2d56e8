/* SPDX-License-Identifier: Apache-2.0
 * Protects arithmetic, and text and lists that are joined. */
#include "agreement.h"

/* clang-format off */

static const struct agreement rows[] = {
    {"{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 // -2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ 2 ** 0.5 }} {{ 2 ** 62 }} {{ (-2) ** 3 }} {{ 0 ** 0 }} {{ 0.0 ** 0 }}", "3 -4 -4 2 -2 3.5 0.5 3.0 0.5 -0.5 1.4142135623730951 4611686018427387904 -8 1 1.0"},
    {"{{ 5 / 0 }}", NULL},
    {"{{ 5 // 0 }}", NULL},
    {"{{ 5 % 0 }}", NULL},
    {"{{ 5.0 / 0 }}", NULL},
    {"{{ 5.0 // 0 }}", NULL},
    {"{{ 5.0 % 0 }}", NULL},
    {"{{ 0 ** -1 }}", NULL},
    {"{{ 10.0 ** 400 }}", NULL},
    {"{{ true + true }} {{ true * 5 }} {{ true / 2 }} {{ 1 - 2.5 }} {{ 3 * 1.5 }} {{ 10 ** 18 }} {{ 1e308 * 10 }} {{ 0.1 + 0.2 }} {{ 1e16 + 1 }} {{ 6.0 // 4 }} {{ -0.0 }} {{ 5 % 3.0 }}", "2 5 0.5 -1.5 4.5 1000000000000000000 inf 0.30000000000000004 1e+16 1.0 -0.0 2.0"},
    {"{{ 'a' + 'b' }}{{ 'a' * 3 }}{{ 3 * 'b' }}{{ 'a' * 0 }}{{ 'a' * -1 }}{{ [1] + [2] }}{{ [0] * 3 }}{{ 2 * [1, 2] }}{{ (1,) + (2,) }}{{ (1, 2) * 2 }}{{ true * 'a' }}", "abaaabbb[1, 2][0, 0, 0][1, 2, 1, 2](1, 2)(1, 2, 1, 2)a"},
    {"{{ 'a' + 1 }}", NULL},
    {"{{ 1 + 'a' }}", NULL},
    {"{{ [1] + (2,) }}", NULL},
    {"{{ [1] + 'a' }}", NULL},
    {"{{ n + n }}", NULL},
    {"{{ 'a' - 'b' }}", NULL},
    {"{{ 'a' * 1.5 }}", NULL},
    {"{{ d + d }}", NULL},
    {"{{ l - l }}", NULL},
    {"{{ 'a' / 2 }}", NULL},
    {"{{ 'a' ** 2 }}", NULL},
    {"{{ d * 2 }}", NULL},
    {"{{ q * 2 }}", NULL},
    {"{{ 2 ** q }}", NULL},
    {"{{ 'x%sy' % 5 }}{{ '%s %s' % ('a', 2) }}{{ '%5.2f|%-5d|%05d' % (x, 3, 4) }}{{ 5 % 3 }}", "x5ya 2 3.70|3    |000042"},
    {"{{ (h|e) + h }}{{ h + (h|e) }}{{ (h|e) * 2 }}{{ ((h|e) + 'x') is escaped }}", "&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;True"},
    {"{{ '' + s }}{{ s + '' }}{{ ('' + (h|e))|e }}", " Hello World\tfoo-bar  baz\n Hello World\tfoo-bar  baz\n&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;"},
    {"{{ [] + [] }}{{ [] * 5 }}{{ '' * 5 }}", "[][]"},
};

/* clang-format on */

static void values_add_up_as_in_python(void **state) {
    AGREES(rows);
}

static void joined_text_remembers_where_it_came_from(void **state) {
    agreement_origins("{{ 'a' + u[:2] + 'b' }}{{ (u[:2] + 'b') * 2 }}{{ 'x' ~ u[:2] ~ 1 }}",
                      "a«hé»b«hé»b«hé»bx«hé»1");
    agreement_origins("{% set ns = namespace(a=u[:2]) %}{% for i in range(60) %}"
                      "{% set ns.a = ns.a + '-=' %}{% endfor %}{{ ns.a[:4] }}{{ ns.a[-2:] }}",
                      "«hé»-=-=");
    agreement_origins("{% set ns = namespace(a='<|') %}{% for i in range(60) %}"
                      "{% set ns.a = ns.a ~ u[0] %}{% endfor %}{{ ns.a[:3] }}{{ ns.a[-1] }}",
                      "<|«hh»");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_add_up_as_in_python),
        cmocka_unit_test(joined_text_remembers_where_it_came_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

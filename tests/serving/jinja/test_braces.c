/* SPDX-License-Identifier: Apache-2.0
 * Protects str.format() and the formats of its fields. */
#include "agreement.h"

/* clang-format off */

static const struct agreement rows_0[] = {
    {"{{ (u).format(1) }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).format(1) }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ (e).format(1) }}", ""},
    {"{{ ('-42').format(1) }}", "-42"},
    {"{{ ('+a').format(1) }}", "+a"},
    {"{{ ((h|e)).format(1) }}", "&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;"},
    {"{{ '{}'.format(1) }}", "1"},
    {"{{ '{0}{0}'.format('a') }}", "aa"},
    {"{{ '{}{}'.format(1) }}", NULL},
    {"{{ '{a}'.format(a=2) }}", "2"},
    {"{{ '{a[b]}'.format(a=d) }}", "1"},
    {"{{ '{a[A][1]}'.format(a=d) }}", "2"},
    {"{{ '{a.c}'.format(a=d) }}", "None"},
    {"{{ '{0.nope}'.format(d) }}", ""},
    {"{{ '{:>10}'.format('x') }}", "         x"},
    {"{{ '{:*^11}'.format('é') }}", "*****é*****"},
    {"{{ '{:<5}|'.format(3) }}", "3    |"},
    {"{{ '{:05d}'.format(-42) }}", "-0042"},
    {"{{ '{:+.2f}'.format(3.14159) }}", "+3.14"},
    {"{{ '{:,}'.format(1234567) }}", "1,234,567"},
    {"{{ '{:_}'.format(1234567) }}", "1_234_567"},
    {"{{ '{:010,}'.format(1234) }}", "00,001,234"},
    {"{{ '{:x}'.format(255) }}", "ff"},
    {"{{ '{:#X}'.format(255) }}", "0XFF"},
    {"{{ '{:#b}'.format(5) }}", "0b101"},
    {"{{ '{:o}'.format(8) }}", "10"},
    {"{{ '{:e}'.format(12345.678) }}", "1.234568e+04"},
    {"{{ '{:g}'.format(1e10) }}", "1e+10"},
    {"{{ '{:g}'.format(0.0001) }}", "0.0001"},
    {"{{ '{:.3g}'.format(1234.5) }}", "1.23e+03"},
    {"{{ '{:%}'.format(0.1234) }}", "12.340000%"},
    {"{{ '{:.1%}'.format(0.5) }}", "50.0%"},
    {"{{ '{!r}'.format('a\\'b') }}", "\"a'b\""},
    {"{{ '{!s:>5}'.format(1) }}", "    1"},
    {"{{ '{:{w}}|'.format('a',w=5) }}", "a    |"},
    {"{{ '{:{}}|'.format('a',4) }}", "a   |"},
    {"{{ '{{}}'.format() }}", "{}"},
    {"{{ '{'.format(1) }}", NULL},
    {"{{ '}'.format(1) }}", NULL},
    {"{{ '{!x}'.format(1) }}", NULL},
    {"{{ '{0'.format(1) }}", NULL},
    {"{{ '{}'.format(none) }}", "None"},
    {"{{ '{:5}'.format(none) }}", NULL},
    {"{{ '{:5}'.format(true) }}", "    1"},
    {"{{ '{}'.format(true) }}", "True"},
    {"{{ '{:d}'.format(true) }}", "1"},
    {"{{ '{:d}'.format(1.5) }}", NULL},
    {"{{ '{:s}'.format(1) }}", NULL},
    {"{{ '{:=5}'.format('a') }}", NULL},
    {"{{ '{:=+8}'.format(5) }}", "+      5"},
    {"{{ '{:c}'.format(65) }}", "A"},
    {"{{ '{:.2}'.format('abc') }}", "ab"},
    {"{{ '{:5.1}|'.format('abc') }}", "a    |"},
    {"{{ '{: }'.format(5) }}", " 5"},
    {"{{ '{:10.4}'.format(3.14159265) }}", "     3.142"},
    {"{{ '{:.4}'.format(1234567.0) }}", "1.235e+06"},
    {"{{ '{:,.2f}'.format(1234567.891) }}", "1,234,567.89"},
    {"{{ '{:015,.2f}'.format(1234567.891) }}", "0,001,234,567.89"},
    {"{{ '{:n}'.format(12) }}", "12"},
    {"{{ '{:z.1f}'.format(-0.01) }}", "0.0"},
    {"{{ '{}{0}'.format(1) }}", NULL},
    {"{{ '{0}{}'.format(1) }}", NULL},
    {"{{ '{a}{}'.format(1,a=2) }}", "21"},
    {"{{ '{:>{w}.{p}f}'.format(3.14159,w=10,p=2) }}", "      3.14"},
    {"{{ '{:>{w:{v}}}'.format(1,w=3,v=2) }}", NULL},
    {"{{ '{[b]}'.format(d) }}", NULL},
    {"{{ '{0[b]}'.format(d) }}", "1"},
    {"{{ '{0.b}'.format(d) }}", "1"},
    {"{{ '{:é>5}'.format(1) }}", "éééé1"},
    {"{{ '{0!r:>8}'.format('x') }}", "     'x'"},
    {"{{ '{a[}'.format(a=1) }}", NULL},
    {"{{ '{:,x}'.format(5) }}", NULL},
    {"{{ '{:_x}'.format(123456789) }}", "75b_cd15"},
    {"{{ '{:.3d}'.format(5) }}", NULL},
    {"{{ '{:inf}'.format(1) }}", NULL},
    {"{{ '{:8}|'.format(1.5) }}", "     1.5|"},
    {"{{ '{:e}'.format(0) }}", "0.000000e+00"},
    {"{{ '{:G}'.format(1e-10) }}", "1E-10"},
    {"{{ '{:f}'.format(x) }}", "3.700000"},
    {"{{ '{:.0f}'.format(2.5) }}", "2"},
    {"{{ '{:#.0f}'.format(2.5) }}", "2."},
    {"{{ '{:.0e}'.format(25000.0) }}", "2e+04"},
    {"{{ '{:010}'.format(-1.5) }}", "-0000001.5"},
    {"{{ '{:<010}'.format(-1.5) }}", "-1.5000000"},
    {"{{ '{:^-10}'.format(5) }}", "    5     "},
    {"{{ '{:s}'.format('a') }}", "a"},
    {"{{ '{:d}'.format('a') }}", NULL},
    {"{{ '{a} {b}'.format(a=h, b=h|e)|e }}", "&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt; &amp;lt;b&amp;gt;a &amp;amp; &amp;#39;b&amp;#39; &amp;#34;c&amp;#34;&amp;lt;/b&amp;gt;"},
};

static void formats_agree_with_python(void **state) {
    AGREES(rows_0);
}

static const struct agreement rows_1[] = {
    {"{{ ('{}'|safe).format(1) }}", "1"},
    {"{{ ('{0}{0}'|safe).format('a') }}", "aa"},
    {"{{ ('{}{}'|safe).format(1) }}", NULL},
    {"{{ ('{a}'|safe).format(a=2) }}", "2"},
    {"{{ ('{a[b]}'|safe).format(a=d) }}", "1"},
    {"{{ ('{a[A][1]}'|safe).format(a=d) }}", "2"},
    {"{{ ('{a.c}'|safe).format(a=d) }}", "None"},
    {"{{ ('{0.nope}'|safe).format(d) }}", ""},
    {"{{ ('{:>10}'|safe).format('x') }}", "         x"},
    {"{{ ('{:*^11}'|safe).format('é') }}", "*****é*****"},
    {"{{ ('{:<5}|'|safe).format(3) }}", "3    |"},
    {"{{ ('{:05d}'|safe).format(-42) }}", "-0042"},
    {"{{ ('{:+.2f}'|safe).format(3.14159) }}", "+3.14"},
    {"{{ ('{:,}'|safe).format(1234567) }}", "1,234,567"},
    {"{{ ('{:_}'|safe).format(1234567) }}", "1_234_567"},
    {"{{ ('{:010,}'|safe).format(1234) }}", "00,001,234"},
    {"{{ ('{:x}'|safe).format(255) }}", "ff"},
    {"{{ ('{:#X}'|safe).format(255) }}", "0XFF"},
    {"{{ ('{:#b}'|safe).format(5) }}", "0b101"},
    {"{{ ('{:o}'|safe).format(8) }}", "10"},
    {"{{ ('{:e}'|safe).format(12345.678) }}", "1.234568e+04"},
    {"{{ ('{:g}'|safe).format(1e10) }}", "1e+10"},
    {"{{ ('{:g}'|safe).format(0.0001) }}", "0.0001"},
    {"{{ ('{:.3g}'|safe).format(1234.5) }}", "1.23e+03"},
    {"{{ ('{:%}'|safe).format(0.1234) }}", "12.340000%"},
    {"{{ ('{a} {b}'|safe).format(a=h, b=h|e) }}", "&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt; &lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;"},
    {"{{ '{a} {b}'.format(a=h, b=h|e)|e }}", "&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt; &amp;lt;b&amp;gt;a &amp;amp; &amp;#39;b&amp;#39; &amp;#34;c&amp;#34;&amp;lt;/b&amp;gt;"},
    {"{{ ('{:>3}'|safe).format(h|e) }}", NULL},
};

static void formats_of_markup_escape_what_comes_in(void **state) {
    AGREES(rows_1);
}

static const struct agreement rows_2[] = {
    {"{{ '{b}'.format_map(d) }}", "1"},
    {"{{ '{zz}'.format_map(d) }}", NULL},
    {"{{ '{0}'.format_map(d) }}", NULL},
    {"{{ '{b}'.format_map(d,1) }}", NULL},
    {"{{ '{b}'.format_map(5) }}", NULL},
    {"{{ '{x.y[z]}'.format(x={'y':{'z':7}}) }}", "7"},
    {"{{ '{0.__class__}'.format(d) }}", ""},
    {"{{ '{0!a}'.format('é\342\200\250') }}", "'\\xe9\\u2028'"},
};

static void mappings_give_names_their_values(void **state) {
    AGREES(rows_2);
}

/* clang-format on */

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_agree_with_python),
        cmocka_unit_test(formats_of_markup_escape_what_comes_in),
        cmocka_unit_test(mappings_give_names_their_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * Protects escaping, and the way back: tags, comments, entities. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows_0[] = {
    {"{{ u|e }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|e }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ u|e|list }}", "['h', 'é', 'l', 'l', 'o', ' ', 'W', 'ö', 'r', 'l', 'd', ' ', 'ǅ', ' ', 'ß', ' ', 'ﬁ', ' ', 'Α', 'Σ', ' ', 'Σ', 'Α', 'Σ', '.']"},
    {"{{ s|e|list }}", "[' ', 'H', 'e', 'l', 'l', 'o', ' ', 'W', 'o', 'r', 'l', 'd', '\\t', 'f', 'o', 'o', '-', 'b', 'a', 'r', ' ', ' ', 'b', 'a', 'z', '\\n']"},
    {"{{ u|escape }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|escape }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ u|escape|list }}", "['h', 'é', 'l', 'l', 'o', ' ', 'W', 'ö', 'r', 'l', 'd', ' ', 'ǅ', ' ', 'ß', ' ', 'ﬁ', ' ', 'Α', 'Σ', ' ', 'Σ', 'Α', 'Σ', '.']"},
    {"{{ s|escape|list }}", "[' ', 'H', 'e', 'l', 'l', 'o', ' ', 'W', 'o', 'r', 'l', 'd', '\\t', 'f', 'o', 'o', '-', 'b', 'a', 'r', ' ', ' ', 'b', 'a', 'z', '\\n']"},
    {"{{ u|safe }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|safe }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ u|safe|list }}", "['h', 'é', 'l', 'l', 'o', ' ', 'W', 'ö', 'r', 'l', 'd', ' ', 'ǅ', ' ', 'ß', ' ', 'ﬁ', ' ', 'Α', 'Σ', ' ', 'Σ', 'Α', 'Σ', '.']"},
    {"{{ s|safe|list }}", "[' ', 'H', 'e', 'l', 'l', 'o', ' ', 'W', 'o', 'r', 'l', 'd', '\\t', 'f', 'o', 'o', '-', 'b', 'a', 'r', ' ', ' ', 'b', 'a', 'z', '\\n']"},
    {"{{ 'x'*20|safe|forceescape }}", NULL},
    {"{{ ['b','a','B','A']|safe|sort }}", "[' ', ' ', ' ', \"'\", \"'\", \"'\", \"'\", \"'\", \"'\", \"'\", \"'\", ',', ',', ',', '[', ']', 'a', 'A', 'b', 'B']"},
    {"{{ ['b','a','B','A']|safe|min }}", " "},
    {"{{ ['b','a','B','A']|safe|max }}", "b"},
    {"{{ ['b','a','B','A']|safe|sum }}", NULL},
    {"{{ ['b','a','B','A']|safe|first }}", "["},
    {"{{ ['b','a','B','A']|safe|last }}", "]"},
    {"{{ ['b','a','B','A']|safe|reverse }}", "]'A' ,'B' ,'a' ,'b'["},
    {"{{ ['b','a','B','A']|safe|length }}", "20"},
    {"{{ ['b','a','B','A']|safe|count }}", "20"},
    {"{{ ['b','a','B','A']|safe|dictsort }}", NULL},
    {"{{ ['b','a','B','A']|safe|tojson }}", "\"['b', 'a', 'B', 'A']\""},
    {"{{ ['b','a','B','A']|safe|string }}", "['b', 'a', 'B', 'A']"},
    {"{{ h|e|e }}", "&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;"},
    {"{{ (h|e) ~ '<' }}", "&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;<"},
    {"{{ (h|e) + '<' }}", "&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;&lt;"},
    {"{{ '<' + (h|e) }}", "&lt;&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;"},
    {"{{ (h|e) * 2 }}", "&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;"},
    {"{{ [h|e] }}", "[Markup('&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;')]"},
    {"{{ (h|e).join(['<', '>'|safe]) }}", "&lt;&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;>"},
    {"{{ '<'.join([h|e]) }}", "&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;"},
    {"{{ (h|e).replace('b','<') }}", "&lt;&lt;&gt;a &amp; &#39;&lt;&#39; &#34;c&#34;&lt;/&lt;&gt;"},
    {"{{ (h|e).split('&')|map('e')|list }}", "[Markup(''), Markup('lt;b'), Markup('gt;a '), Markup('amp; '), Markup('#39;b'), Markup('#39; '), Markup('#34;c'), Markup('#34;'), Markup('lt;/b'), Markup('gt;')]"},
    {"{{ (h|safe)[0]|e }}", "<"},
    {"{{ ('ab'|safe).center(8,'<') }}", NULL},
};

static void escaping_happens_once(void **state) {
    AGREES(rows_0);
}

/* clang-format on */

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escaping_happens_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

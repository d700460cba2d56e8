/* SPDX-License-Identifier: Apache-2.0
 * Protects expressions: their order, their fallbacks and what they refuse. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows[] = {
    {"{{ q }}|{{ n }}|{{ t }}|{{ x }}|{{ l }}|{{ d }}|{{ e }}|{{ neg }}", "|None|True|3.7|[3, 1, 2]|{'b': 1, 'A': [1, 2], 'c': None}||-7"},
    {"{{ q.a }}", NULL},
    {"{{ d.q.a }}", NULL},
    {"{{ d['q']['a'] }}", NULL},
    {"{{ n.a }}|{{ n['a'] }}", "|"},
    {"{{ n.a.b }}", NULL},
    {"{{ q + 1 }}", NULL},
    {"{{ 1 + q }}", NULL},
    {"{{ q ~ 'a' }}{{ 'a' ~ q }}", "aa"},
    {"{{ -q }}", NULL},
    {"{{ -s }}", NULL},
    {"{{ not q }}{{ q or 'a' }}{{ q and 'a' }}{{ q == q2 }}{{ q != n }}{{ q in l }}{{ 'a' in q }}", "TrueaTrueTrueFalseFalse"},
    {"{{ q < 1 }}", NULL},
    {"{{ q[1:] }}", NULL},
    {"{{ q|length }}{{ q|list }}{% for i in q %}{% endfor %}", "0[]"},
    {"{{ (1 if n).x }}", NULL},
    {"{{ {[]: 1} }}", NULL},
    {"{{ {(1, 2): 3}[(1, 2)] }}{{ {(1, []): 3} }}", NULL},
    {"{{ d[[]] }}", ""},
    {"{{ d[l[0]:] }}", NULL},
    {"{{ -9223372036854775807 - 1 }}", "-9223372036854775808"},
    {"{{ 'x' ~ long ~ 'y' ~ long }}", "xThe quick brown-fox jumped over -- the lazy dog's back; state-of-the-art e-mail addresses: foo--bar and a_very_long_word_indeed_that_will_not_fit_on_any_line_of_the_text. Éa-bé\302\240xyThe quick brown-fox jumped over -- the lazy dog's back; state-of-the-art e-mail addresses: foo--bar and a_very_long_word_indeed_that_will_not_fit_on_any_line_of_the_text. Éa-bé\302\240x"},
    {"{% set ns = namespace(a='') %}{% for i in range(50) %}{% set ns.a = ns.a ~ 'piece ' ~ i ~ u %}{% endfor %}{{ ns.a }}", "piece 0héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 1héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 2héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 3héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 4héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 5héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 6héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 7héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 8héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 9héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 10héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 11héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 12héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 13héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 14héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 15héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 16héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 17héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 18héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 19héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 20héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 21héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 22héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 23héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 24héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 25héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 26héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 27héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 28héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 29héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 30héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 31héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 32héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 33héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 34héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 35héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 36héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 37héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 38héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 39héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 40héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 41héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 42héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 43héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 44héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 45héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 46héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 47héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 48héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece 49héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{% set ns = namespace(a='') %}{% for i in range(50) %}{% set ns.a = ns.a + 'piece ' + u %}{% endfor %}{{ ns.a }}", "piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.piece héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{% set ns = namespace(a=long) %}{% set b = ns.a + 'x' %}{% set c = ns.a + 'y' %}{{ b }}{{ c }}{{ b + '1' }}{{ b + '2' }}{{ ns.a }}", "The quick brown-fox jumped over -- the lazy dog's back; state-of-the-art e-mail addresses: foo--bar and a_very_long_word_indeed_that_will_not_fit_on_any_line_of_the_text. Éa-bé\302\240xxThe quick brown-fox jumped over -- the lazy dog's back; state-of-the-art e-mail addresses: foo--bar and a_very_long_word_indeed_that_will_not_fit_on_any_line_of_the_text. Éa-bé\302\240xyThe quick brown-fox jumped over -- the lazy dog's back; state-of-the-art e-mail addresses: foo--bar and a_very_long_word_indeed_that_will_not_fit_on_any_line_of_the_text. Éa-bé\302\240xx1The quick brown-fox jumped over -- the lazy dog's back; state-of-the-art e-mail addresses: foo--bar and a_very_long_word_indeed_that_will_not_fit_on_any_line_of_the_text. Éa-bé\302\240xx2The quick brown-fox jumped over -- the lazy dog's back; state-of-the-art e-mail addresses: foo--bar and a_very_long_word_indeed_that_will_not_fit_on_any_line_of_the_text. Éa-bé\302\240x"},
    {"{{ 1 if t }}{{ 1 if n }}{{ x if x > 3 else l }}", "13.7"},
    {"{{ m[0] }}{{ m[-1].role }}{{ m[1].tool.a[1] }}", "{'role': 'user', 'content': 'Hi'}User6"},
    {"{{ m[0].role.upper()[0] }}", "U"},
    {"{{ x.__class__ }}|{{ s.__class__.__mro__ }}", NULL},
    {"{{ s._private }}{{ d._b }}", ""},
    {"{{ d.update({'a': 1}) }}", NULL},
    {"{{ l.append(1) }}", NULL},
    {"{{ l.append }}|{{ d.pop }}|{{ l.sort is defined }}", "||False"},
    {"{{ m|map(attribute='role') is iterable }}", "True"},
    {"{{ [1, 2][true] }}{{ [1, 2][false] }}{{ 'ab'[true] }}", "21b"},
    {"{{ [1, 2][1.0] }}|{{ [1, 2]['a'] }}|{{ [1, 2][none] }}", "||"},
    {"{{ 1.5 is float }}{{ (1, 2) == (1, 2) }}{{ (1, 2) == [1, 2] }}", "TrueTrueFalse"},
};

/* clang-format on */

TEST(expressions_have_the_values_of_jinja) {
    AGREES(rows);
}

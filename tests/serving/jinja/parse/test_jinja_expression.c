/* SPDX-License-Identifier: Apache-2.0
 * Protects precedence of operators, and which expressions are none. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows[] = {
    {"{{ [1, 2, 3][1] }}{{ 'abc'[1] }}{{ {'a': 1}.a }}{{ (1, 2).0 }}{{ 'abc'.upper() }}", "2b11ABC"},
    {"{{ not x == 3.7 }} {{ not n and t }} {{ n or t and e }} {{ t or n and n }} {{ not not t }} {{ 1 if t else 2 if n else 3 }} {{ (1 if n) is defined }}", "False True  True True 1 False"},
    {"{{ 1 in l }} {{ not 1 in l }} {{ 1 not in l }} {{ 5 not in l }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 == 2 }} {{ 1 in l == true }}", "True False False True True False True False"},
    {"{{ -l[0] }} {{ -l|first }} {{ +3 }} {{ - - 3 }}", NULL},
    {"{{ l[0] }}{{ l.0 }}{{ d['b'] }}{{ d.b }}{{ l[-1] }}{{ nested[0][1] }}{{ nested.0.1 }}", "3311222"},
    {"{{ l[1:] }}{{ l[:1] }}{{ l[::2] }}{{ l[::-1] }}{{ l[:] }}{{ u[1:4] }}{{ u[::-3] }}{{ l[-2:] }}{{ l[0:-1] }}", "[1, 2][3][3, 2][2, 1, 3][3, 1, 2]éll.ΣΑ ǅlWlh[1, 2][3, 1]"},
    {"{{ () }}{{ (1,) }}{{ (1, 2) }}{{ 1, 2 }}{{ [1, 2,] }}{{ {'a': 1,} }}{{ [] }}{{ {} }}{{ (1) }}", "()(1,)(1, 2)(1, 2)[1, 2]{'a': 1}[]{}1"},
    {"{{ x is defined }} {{ q is not defined }} {{ 4 is divisibleby 2 }} {{ 4 is divisibleby(2) }} {{ x is number and t }} {{ l is iterable or q }} {{ not x is string }}", "True True True True True True True"},
    {"{{ x is string is number }}", NULL},
    {"{{ x is eq 3.7 }} {{ 3 is in [1, 3] }} {{ x is not none }} {{ 'a' is in 'abc' }}", "True True True True"},
    {"{{ 'a' 'b' \"c\" }}{{ 'a' ~ 'b' 'c' }}", "abcabc"},
    {"{{ s|upper|trim|replace('O', '0') }}{{ l|join(', ') }}{{ l|join(d=', ') }}{{ l|sort(reverse=true)|join }}", "HELL0 W0RLD\tF00-BAR  BAZ3, 1, 23, 1, 2321"},
    {"{{ dict(a=1, a=2) }}", NULL},
    {"{{ f(*l, *l) }}", NULL},
    {"{{ range(**d, 1) }}", NULL},
    {"{{ range(a=1, 2) }}", NULL},
    {"{{ range(1, 5,)|list }}", "[1, 2, 3, 4]"},
    {"{{ range(, 5) }}", NULL},
    {"{{ true }}{{ True }}{{ none }}{{ None }}{{ false }}{{ False }}{{ TRUE is defined }}", "TrueTrueNoneNoneFalseFalseFalse"},
    {"{{ }}", NULL},
    {"{{ 1 + }}", NULL},
    {"{{ (1, 2 }}", NULL},
    {"{{ l[ }}", NULL},
    {"{{ x. }}", NULL},
    {"{{ x.5.6 }}", NULL},
    {"{{ x|5 }}", NULL},
    {"{{ x|nofilter }}", NULL},
    {"{{ x is notest }}", NULL},
    {"{% if n %}{{ x|nofilter }}{% endif %}ok", "ok"},
    {"{% if t %}{{ x|nofilter }}{% endif %}ok", NULL},
    {"{{ (x|nofilter) if n else 'ok' }}", "ok"},
    {"{{ x if }}", NULL},
    {"{{ x if t else }}", NULL},
    {"{{ d.b.c.d is defined }}", NULL},
    {"{{ 'x' if n }}|{{ ('x' if n) ~ 'y' }}", "|y"},
    {"{{ 1 if t else 2, 3 }}", "(1, 3)"},
    {"{{ 1 is odd and 2 is even }} {{ 5 is odd if t else 2 }} {{ [1 is odd, 2 is odd] }}", NULL},
    {"{{ x == 3.7 and 'y' or 'n' }}{{ n and 'y' or 'n' }}", "yn"},
    {"{{ d.items() | list | first | last }}", "1"},
    {"{{ a.b.c }}", NULL},
    {"{{ a['b'] }}", NULL},
    {"{{ q() }}", NULL},
    {"{{ n() }}", NULL},
    {"{{ 'abc'() }}", NULL},
    {"{{ 1 ~ '' ~ 2.0 ~ none ~ [] ~ true }}", "12.0None[]True"},
    {"{{ 'a' if 'b' in 'abc' and not n else 'c' }}", "a"},
    {"{{ \"%d items\" % 3 }}{{ 'a%sb%s' % (1, 'x') }}", "3 itemsa1bx"},
    {"{{ m[0]['role'] == 'user' and m[0].content is string }}", "True"},
    {"{{ x.y }}{{ x['y'] }}{{ l.foo }}{{ l['foo'] }}{{ l[99] }}{{ l['0'] }}{{ d[0] }}{{ d[none] }}", ""},
};

/* clang-format on */

TEST(expressions_are_parsed_as_jinja_does) {
    AGREES(rows);
}

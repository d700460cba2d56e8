/* SPDX-License-Identifier: Apache-2.0
 * Protects text % values and text.format(values), and which of their forms are refused. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement percents[] = {
    {"{{ '%s is %d%%' % ('é', 5.9) }}", "é is 5%"},
    {"{{ '%s' % l }}|{{ '%s' % n }}|{{ '%d' % t }}|{{ '%s' % nope }}", "[3, 1, 2]|None|1|"},
    {"{{ '<%s>'|format(h) }}", "<<b>a & 'b' \"c\"</b>>"},
    {"{{ 'a' % l }}{{ 'a' % d }}", "aa"},
    {"{{ 'a' % 1 }}", NULL},
    {"{{ '%s' % (1, 2) }}", NULL},
    {"{{ '%d' % 'a' }}", NULL},
    {"{{ '%(a)s' % {'a': 1} }}", NULL},
};

static const struct agreement braces[] = {
    {"{{ '{}-{}'.format(1, 'b') }}", "1-b"},
    {"{{ '{1}{0}{{}}'.format('a', [1]) }}", "[1]a{}"},
    {"{{ '{x} {y}'.format(x='é', y=none) }}", "é None"},
    {"{{ '{}{}'.format(1) }}", NULL},
    {"{{ '{x.y}'.format(x=d) }}", NULL},
};

TEST(percent_fills_with_texts_and_decimals) {
    AGREES(percents);
}

TEST(braces_fill_by_place_and_by_name) {
    AGREES(braces);
}

TEST(what_is_filled_in_keeps_its_origin) {
    agreement_origins("{{ 'a%sb%%' % s|trim }}", "a«Hello World\tfoo-bar  baz»b%");
    agreement_origins("{{ 'a{}b'.format(words[0]) }}", "a«b»b");
}

/* clang-format on */

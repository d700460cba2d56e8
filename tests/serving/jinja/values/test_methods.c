/* SPDX-License-Identifier: Apache-2.0
 * Protects the methods of lists, dicts, numbers and cyclers. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows_0[] = {
    {"{{ range(1,10,3).index(5) }}", NULL},
    {"{{ (1,).copy() }}", NULL},
    {"{{ l.append(1) }}", NULL},
    {"{{ l.sort() }}", NULL},
    {"{{ d.pop('b') }}", NULL},
    {"{{ d.get('b') }}{{ d.get('zz') }}{{ d.get('zz',5) }}{{ d.get('c') }}", "1None5None"},
    {"{{ d.get() }}", NULL},
    {"{{ d.get('b',default=1) }}", NULL},
    {"{{ d.get(l) }}", NULL},
    {"{{ d.get(nope) }}", "None"},
    {"{{ d.keys(1) }}", NULL},
    {"{{ d.setdefault('x',1) }}", NULL},
    {"{{ d.clear() }}", NULL},
    {"{{ (1).is_integer() }}", NULL},
    {"{{ d.keys().x }}", ""},
};

TEST(methods_agree_with_python) {
    AGREES(rows_0);
}

static const struct agreement rows_1[] = {
    {"{{ l.pop is defined }}{{ d.pop is defined }}{{ d.update is defined }}", "FalseFalseFalse"},
    {"{{ d.update({}) }}", NULL},
    {"{{ l.__len__() }}", NULL},
    {"{{ {'pop': 1}.pop }}", ""},
    {"{{ {'pop': 1}['pop'] }}", "1"},
    {"{{ {'items': 1}['items'] }}", "1"},
};

TEST(what_changes_a_value_is_unsafe) {
    AGREES(rows_1);
}

/* clang-format on */

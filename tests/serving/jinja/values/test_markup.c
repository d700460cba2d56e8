/* SPDX-License-Identifier: Apache-2.0
 * Protects escaping, and the way back: tags, comments, entities. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows_0[] = {
    {"{{ u|safe }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|safe }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ ['b','a','B','A']|safe|sort }}", "[' ', ' ', ' ', \"'\", \"'\", \"'\", \"'\", \"'\", \"'\", \"'\", \"'\", ',', ',', ',', '[', ']', 'a', 'A', 'b', 'B']"},
    {"{{ ['b','a','B','A']|safe|min }}", " "},
    {"{{ ['b','a','B','A']|safe|max }}", "b"},
    {"{{ ['b','a','B','A']|safe|first }}", "["},
    {"{{ ['b','a','B','A']|safe|last }}", "]"},
    {"{{ ['b','a','B','A']|safe|reverse }}", "]'A' ,'B' ,'a' ,'b'["},
    {"{{ ['b','a','B','A']|safe|length }}", "20"},
    {"{{ ['b','a','B','A']|safe|count }}", "20"},
    {"{{ ['b','a','B','A']|safe|dictsort }}", NULL},
    {"{{ ['b','a','B','A']|safe|tojson }}", "\"['b', 'a', 'B', 'A']\""},
    {"{{ ['b','a','B','A']|safe|string }}", "['b', 'a', 'B', 'A']"},
};

TEST(escaping_happens_once) {
    AGREES(rows_0);
}

/* clang-format on */

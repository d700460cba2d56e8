/* SPDX-License-Identifier: Apache-2.0
 * Protects case and kinds of characters: title case, the final sigma, what grows when it
 * changes. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows_0[] = {
    {"{{ (u).capitalize() }}", "Héllo wörld ǆ ß ﬁ ας σας."},
    {"{{ (s).capitalize() }}", " hello world\tfoo-bar  baz\n"},
    {"{{ (e).capitalize() }}", ""},
    {"{{ (h).capitalize() }}", "<b>a & 'b' \"c\"</b>"},
    {"{{ ('ABC').capitalize() }}", "Abc"},
    {"{{ ('Abc Def').capitalize() }}", "Abc def"},
    {"{{ ('12').capitalize() }}", "12"},
    {"{{ ('²').capitalize() }}", "²"},
    {"{{ ('½').capitalize() }}", "½"},
    {"{{ ('٣').capitalize() }}", "٣"},
    {"{{ (' \\t').capitalize() }}", " \t"},
    {"{{ ('a_1').capitalize() }}", "A_1"},
    {"{{ (u).lower() }}", "héllo wörld ǆ ß ﬁ ας σας."},
    {"{{ (s).lower() }}", " hello world\tfoo-bar  baz\n"},
    {"{{ (e).lower() }}", ""},
    {"{{ (h).lower() }}", "<b>a & 'b' \"c\"</b>"},
    {"{{ ('ABC').lower() }}", "abc"},
    {"{{ ('Abc Def').lower() }}", "abc def"},
    {"{{ ('12').lower() }}", "12"},
    {"{{ ('²').lower() }}", "²"},
    {"{{ ('½').lower() }}", "½"},
    {"{{ ('٣').lower() }}", "٣"},
    {"{{ (' \\t').lower() }}", " \t"},
    {"{{ ('a_1').lower() }}", "a_1"},
    {"{{ (u).upper() }}", "HÉLLO WÖRLD Ǆ SS FI ΑΣ ΣΑΣ."},
    {"{{ (s).upper() }}", " HELLO WORLD\tFOO-BAR  BAZ\n"},
    {"{{ (e).upper() }}", ""},
    {"{{ (h).upper() }}", "<B>A & 'B' \"C\"</B>"},
    {"{{ ('ABC').upper() }}", "ABC"},
    {"{{ ('Abc Def').upper() }}", "ABC DEF"},
    {"{{ ('12').upper() }}", "12"},
    {"{{ ('²').upper() }}", "²"},
    {"{{ ('½').upper() }}", "½"},
    {"{{ ('٣').upper() }}", "٣"},
    {"{{ (' \\t').upper() }}", " \t"},
    {"{{ ('a_1').upper() }}", "A_1"},
    {"{{ (u).title() }}", "Héllo Wörld ǅ Ss Fi Ας Σας."},
    {"{{ (s).title() }}", " Hello World\tFoo-Bar  Baz\n"},
    {"{{ (e).title() }}", ""},
    {"{{ (h).title() }}", "<B>A & 'B' \"C\"</B>"},
    {"{{ ('ABC').title() }}", "Abc"},
    {"{{ ('Abc Def').title() }}", "Abc Def"},
    {"{{ ('12').title() }}", "12"},
    {"{{ ('²').title() }}", "²"},
    {"{{ ('½').title() }}", "½"},
    {"{{ ('٣').title() }}", "٣"},
    {"{{ (' \\t').title() }}", " \t"},
    {"{{ ('a_1').title() }}", "A_1"},
};

TEST(letters_change_case_as_str_does) {
    AGREES(rows_0);
}

TEST(changed_letters_keep_their_origin) {
    agreement_origins("{{ ('a' ~ e ~ u ~ 'Z')|upper }}", "A«HÉLLO WÖRLD Ǆ SS FI ΑΣ ΣΑΣ.»Z");
    agreement_origins("{{ ('ab' ~ d.keys()|first)|title }}", "Ab«b»");
}

/* clang-format on */

/* SPDX-License-Identifier: Apache-2.0
 * Protects the filters of texts. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows_0[] = {
    {"{{ u|capitalize }}", "Héllo wörld ǆ ß ﬁ ας σας."},
    {"{{ s|capitalize }}", " hello world\tfoo-bar  baz\n"},
    {"{{ u|lower }}", "héllo wörld ǆ ß ﬁ ας σας."},
    {"{{ s|lower }}", " hello world\tfoo-bar  baz\n"},
    {"{{ u|string }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|string }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ u|title }}", "Héllo Wörld Ǆ SS FI Ασ Σας."},
    {"{{ s|title }}", " Hello World\tFoo-Bar  Baz\n"},
    {"{{ u|trim }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|trim }}", "Hello World\tfoo-bar  baz"},
    {"{{ u|upper }}", "HÉLLO WÖRLD Ǆ SS FI ΑΣ ΣΑΣ."},
    {"{{ s|upper }}", " HELLO WORLD\tFOO-BAR  BAZ\n"},
    {"{{ u|replace }}", NULL},
    {"{{ u|trim('x') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|trim('x') }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ u|trim(' H') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|trim(' H') }}", "ello World\tfoo-bar  baz\n"},
    {"{{ u|trim(none) }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|trim(none) }}", "Hello World\tfoo-bar  baz"},
    {"{{ u|trim(chars='\\n') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|trim(chars='\\n') }}", " Hello World\tfoo-bar  baz"},
    {"{{ u|replace('l','L') }}", "héLLo WörLd ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|replace('l','L') }}", " HeLLo WorLd\tfoo-bar  baz\n"},
    {"{{ u|replace('l','L',1) }}", "héLlo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|replace('l','L',1) }}", " HeLlo World\tfoo-bar  baz\n"},
    {"{{ u|replace('l','L',count=2) }}", "héLLo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|replace('l','L',count=2) }}", " HeLLo World\tfoo-bar  baz\n"},
    {"{{ u|replace(old='l',new='<') }}", "hé<<o Wör<d ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|replace(old='l',new='<') }}", " He<<o Wor<d\tfoo-bar  baz\n"},
    {"{{ u|replace(1,2) }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|replace(1,2) }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ u|replace('l','L',none) }}", "héLLo WörLd ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|replace('l','L',none) }}", " HeLLo WorLd\tfoo-bar  baz\n"},
    {"{{ u|replace('l',none) }}", "héNoneNoneo WörNoned ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|replace('l',none) }}", " HeNoneNoneo WorNoned\tfoo-bar  baz\n"},
    {"{{ u|replace(none,'x') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|replace(none,'x') }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ u|upper|title }}", "Héllo Wörld Ǆ Ss Fi Ασ Σας."},
    {"{{ s|upper|title }}", " Hello World\tFoo-Bar  Baz\n"},
    {"{{ objs|string|length }}", "121"},
    {"{{ nums|string|length }}", "21"},
};

TEST(texts_of_anything_are_changed) {
    AGREES(rows_0);
}

static const struct agreement rows_1[] = {
    {"{{ u|indent }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|indent }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ n|indent }}", NULL},
    {"{{ u|indent(2) }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|indent(2) }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ n|indent(2) }}", NULL},
    {"{{ u|indent(2,true) }}", "  héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|indent(2,true) }}", "   Hello World\tfoo-bar  baz\n"},
    {"{{ n|indent(2,true) }}", NULL},
    {"{{ u|indent(2,true,true) }}", "  héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|indent(2,true,true) }}", "   Hello World\tfoo-bar  baz\n  "},
    {"{{ n|indent(2,true,true) }}", NULL},
    {"{{ u|indent('> ') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|indent('> ') }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ n|indent('> ') }}", NULL},
    {"{{ u|indent('>',first=true) }}", ">héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|indent('>',first=true) }}", "> Hello World\tfoo-bar  baz\n"},
    {"{{ n|indent('>',first=true) }}", NULL},
    {"{{ u|indent(width=1,blank=true) }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|indent(width=1,blank=true) }}", " Hello World\tfoo-bar  baz\n "},
    {"{{ n|indent(width=1,blank=true) }}", NULL},
    {"{{ u|indent(2.0) }}", NULL},
    {"{{ u|indent(true) }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|indent(true) }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ n|indent(true) }}", NULL},
    {"{{ u|indent(-1) }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|indent(-1) }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ n|indent(-1) }}", NULL},
    {"{{ u|indent(none) }}", NULL},
};

TEST(lines_are_indented_and_cut) {
    AGREES(rows_1);
}

TEST(links_are_refused_by_name) {
    struct jinja_rendering got;
    struct error error;
    assert_int_equal(agreement_render("{{ 'x'|urlize }}", &got, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "urlize"));
}

/* clang-format on */

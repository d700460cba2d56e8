/* SPDX-License-Identifier: Apache-2.0
 * Protects places in texts in characters, searching, stripping and cutting. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows_0[] = {
    {"{{ (u).find('l') }}", "2"},
    {"{{ (s).find('l') }}", "3"},
    {"{{ (u).find('') }}", "0"},
    {"{{ (u).find('zz') }}", "-1"},
    {"{{ (u).find(1) }}", NULL},
    {"{{ (u).find(n) }}", NULL},
    {"{{ (u).rfind('l') }}", "9"},
    {"{{ (s).rfind('l') }}", "10"},
    {"{{ (u).rfind('') }}", "25"},
    {"{{ (s).rfind('') }}", "26"},
    {"{{ (u).rfind('zz') }}", "-1"},
    {"{{ (u).startswith('h') }}", "True"},
    {"{{ (s).startswith('h') }}", "False"},
    {"{{ (u).startswith('') }}", "True"},
    {"{{ (u).startswith(1) }}", NULL},
    {"{{ (u).startswith(['h']) }}", NULL},
    {"{{ (u).endswith('.') }}", "True"},
    {"{{ (s).endswith('.') }}", "False"},
    {"{{ (u).endswith('\\n') }}", "False"},
    {"{{ (s).endswith('\\n') }}", "True"},
    {"{{ (u).endswith('') }}", "True"},
};

TEST(searching_counts_characters) {
    AGREES(rows_0);
}

static const struct agreement rows_1[] = {
    {"{{ (u).strip() }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).strip() }}", "Hello World\tfoo-bar  baz"},
    {"{{ (e).strip() }}", ""},
    {"{{ (u).lstrip() }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).lstrip() }}", "Hello World\tfoo-bar  baz\n"},
    {"{{ (e).lstrip() }}", ""},
    {"{{ (u).rstrip() }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).rstrip() }}", " Hello World\tfoo-bar  baz"},
    {"{{ (e).rstrip() }}", ""},
    {"{{ (u).split() }}", "['héllo', 'Wörld', 'ǅ', 'ß', 'ﬁ', 'ΑΣ', 'ΣΑΣ.']"},
    {"{{ (s).split() }}", "['Hello', 'World', 'foo-bar', 'baz']"},
    {"{{ (e).split() }}", "[]"},
    {"{{ (u).splitlines() }}", "['héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.']"},
    {"{{ (s).splitlines() }}", "[' Hello World\\tfoo-bar  baz']"},
    {"{{ (e).splitlines() }}", "[]"},
    {"{{ (u).strip('x') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).strip('x') }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ (e).strip('x') }}", ""},
    {"{{ (u).strip(none) }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).strip(none) }}", "Hello World\tfoo-bar  baz"},
    {"{{ (e).strip(none) }}", ""},
    {"{{ (u).strip(' H') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).strip(' H') }}", "ello World\tfoo-bar  baz\n"},
    {"{{ (e).strip(' H') }}", ""},
    {"{{ (u).strip('é') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).strip('é') }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ (e).strip('é') }}", ""},
    {"{{ (u).strip(1) }}", NULL},
    {"{{ (u).strip(chars='x') }}", NULL},
    {"{{ (u).lstrip(' Hh') }}", "éllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).lstrip(' Hh') }}", "ello World\tfoo-bar  baz\n"},
    {"{{ (e).lstrip(' Hh') }}", ""},
    {"{{ (u).lstrip('') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).lstrip('') }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ (e).lstrip('') }}", ""},
    {"{{ (u).rstrip('.\\n ') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ"},
    {"{{ (s).rstrip('.\\n ') }}", " Hello World\tfoo-bar  baz"},
    {"{{ (e).rstrip('.\\n ') }}", ""},
    {"{{ (u).split(',') }}", "['héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.']"},
    {"{{ (s).split(',') }}", "[' Hello World\\tfoo-bar  baz\\n']"},
    {"{{ (e).split(',') }}", "['']"},
    {"{{ (u).split(' ') }}", "['héllo', 'Wörld', 'ǅ', 'ß', 'ﬁ', 'ΑΣ', 'ΣΑΣ.']"},
    {"{{ (s).split(' ') }}", "['', 'Hello', 'World\\tfoo-bar', '', 'baz\\n']"},
    {"{{ (e).split(' ') }}", "['']"},
    {"{{ (u).split(' ',1) }}", "['héllo', 'Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.']"},
    {"{{ (s).split(' ',1) }}", "['', 'Hello World\\tfoo-bar  baz\\n']"},
    {"{{ (e).split(' ',1) }}", "['']"},
    {"{{ (u).split(none,1) }}", "['héllo', 'Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.']"},
    {"{{ (s).split(none,1) }}", "['Hello', 'World\\tfoo-bar  baz\\n']"},
    {"{{ (e).split(none,1) }}", "[]"},
    {"{{ (u).split(none,0) }}", "['héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.']"},
    {"{{ (s).split(none,0) }}", "['Hello World\\tfoo-bar  baz\\n']"},
    {"{{ (e).split(none,0) }}", "[]"},
    {"{{ (u).split('l') }}", "['hé', '', 'o Wör', 'd ǅ ß ﬁ ΑΣ ΣΑΣ.']"},
    {"{{ (s).split('l') }}", "[' He', '', 'o Wor', 'd\\tfoo-bar  baz\\n']"},
    {"{{ (e).split('l') }}", "['']"},
    {"{{ (u).split('l',maxsplit=1) }}", "['hé', 'lo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.']"},
    {"{{ (s).split('l',maxsplit=1) }}", "[' He', 'lo World\\tfoo-bar  baz\\n']"},
    {"{{ (e).split('l',maxsplit=1) }}", "['']"},
    {"{{ (u).split(sep='o') }}", "['héll', ' Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.']"},
    {"{{ (s).split(sep='o') }}", "[' Hell', ' W', 'rld\\tf', '', '-bar  baz\\n']"},
    {"{{ (e).split(sep='o') }}", "['']"},
    {"{{ (u).split(maxsplit=1) }}", "['héllo', 'Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.']"},
    {"{{ (s).split(maxsplit=1) }}", "['Hello', 'World\\tfoo-bar  baz\\n']"},
    {"{{ (e).split(maxsplit=1) }}", "[]"},
    {"{{ (u).split('',1) }}", NULL},
    {"{{ (u).split(1) }}", NULL},
    {"{{ (u).split('o',-1) }}", "['héll', ' Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.']"},
    {"{{ (s).split('o',-1) }}", "[' Hell', ' W', 'rld\\tf', '', '-bar  baz\\n']"},
    {"{{ (e).split('o',-1) }}", "['']"},
    {"{{ (u).split('o',0) }}", "['héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.']"},
    {"{{ (s).split('o',0) }}", "[' Hello World\\tfoo-bar  baz\\n']"},
    {"{{ (e).split('o',0) }}", "['']"},
    {"{{ (u).rsplit(' ') }}", "['héllo', 'Wörld', 'ǅ', 'ß', 'ﬁ', 'ΑΣ', 'ΣΑΣ.']"},
    {"{{ (s).rsplit(' ') }}", "['', 'Hello', 'World\\tfoo-bar', '', 'baz\\n']"},
    {"{{ (e).rsplit(' ') }}", "['']"},
    {"{{ (u).rsplit(' ',1) }}", "['héllo Wörld ǅ ß ﬁ ΑΣ', 'ΣΑΣ.']"},
    {"{{ (s).rsplit(' ',1) }}", "[' Hello World\\tfoo-bar ', 'baz\\n']"},
    {"{{ (e).rsplit(' ',1) }}", "['']"},
    {"{{ (u).rsplit('l',1) }}", "['héllo Wör', 'd ǅ ß ﬁ ΑΣ ΣΑΣ.']"},
    {"{{ (s).rsplit('l',1) }}", "[' Hello Wor', 'd\\tfoo-bar  baz\\n']"},
    {"{{ (e).rsplit('l',1) }}", "['']"},
    {"{{ (u).rsplit('o',-1) }}", "['héll', ' Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.']"},
    {"{{ (s).rsplit('o',-1) }}", "[' Hell', ' W', 'rld\\tf', '', '-bar  baz\\n']"},
    {"{{ (e).rsplit('o',-1) }}", "['']"},
    {"{{ (u).splitlines(true) }}", "['héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.']"},
    {"{{ (s).splitlines(true) }}", "[' Hello World\\tfoo-bar  baz\\n']"},
    {"{{ (e).splitlines(true) }}", "[]"},
    {"{{ (u).splitlines(keepends=true) }}", "['héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.']"},
    {"{{ (s).splitlines(keepends=true) }}", "[' Hello World\\tfoo-bar  baz\\n']"},
    {"{{ (e).splitlines(keepends=true) }}", "[]"},
    {"{{ (u).splitlines(false) }}", "['héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.']"},
    {"{{ (s).splitlines(false) }}", "[' Hello World\\tfoo-bar  baz']"},
    {"{{ (e).splitlines(false) }}", "[]"},
};

TEST(cutting_agrees_with_str) {
    AGREES(rows_1);
}

static const struct agreement rows_2[] = {
    {"{{ (u).replace('l','L') }}", "héLLo WörLd ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).replace('l','L') }}", " HeLLo WorLd\tfoo-bar  baz\n"},
    {"{{ (e).replace('l','L') }}", ""},
    {"{{ (u).replace('l','L',1) }}", "héLlo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).replace('l','L',1) }}", " HeLlo World\tfoo-bar  baz\n"},
    {"{{ (e).replace('l','L',1) }}", ""},
    {"{{ (u).replace('zz','y') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).replace('zz','y') }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ (e).replace('zz','y') }}", ""},
    {"{{ (u).replace('l','') }}", "héo Wörd ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).replace('l','') }}", " Heo Word\tfoo-bar  baz\n"},
    {"{{ (e).replace('l','') }}", ""},
    {"{{ (u).replace('l') }}", NULL},
    {"{{ (u).replace('l','L',-1) }}", "héLLo WörLd ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).replace('l','L',-1) }}", " HeLLo WorLd\tfoo-bar  baz\n"},
    {"{{ (e).replace('l','L',-1) }}", ""},
    {"{{ (u).replace('l','L',0) }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).replace('l','L',0) }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ (e).replace('l','L',0) }}", ""},
    {"{{ (u).replace('l','L',count=1) }}", NULL},
    {"{{ (u).replace(1,2) }}", NULL},
};

TEST(replacing_agrees_with_str) {
    AGREES(rows_2);
}

TEST(pieces_keep_the_origin_of_their_bytes) {
    agreement_origins("{{ ('<x>' ~ e ~ 'a,b').split(',')|join('-') }}", "<x>a-b");
    agreement_origins("{{ ('<' ~ s ~ '>').strip('<> ') }}", "«Hello World\tfoo-bar  baz\n»");
    agreement_origins("{{ ('[l]' ~ words[2]).replace('l', words[0]) }}", "[«b»]«c»");
    agreement_origins("{{ '%s|%s|%d' % (words[0], words[1], 3) }}", "«b»|«A»|3");
    agreement_origins("{{ '{}{}'.format('x', words[0]) }}", "x«b»");
    agreement_origins("{{ words|join('<s>') }}", "«b»<s>«A»<s>«c»<s>«B»<s>«a»<s>«Á»");
    agreement_origins("{{ '<'|safe + h }}", "<«&lt;b&gt;a &amp; &#39;b&#39; &#34;c&#34;&lt;/b&gt;»");
    agreement_origins("{{ ('a\\n' ~ words[0])|indent(2, true) }}", "  a\n  «b»");
    agreement_origins("{{ (words[0] ~ 'x')|reverse }}", "x«b»");
}

/* clang-format on */

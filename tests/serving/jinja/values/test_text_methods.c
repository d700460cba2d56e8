/* SPDX-License-Identifier: Apache-2.0
 * Protects the methods of str: those that fill and join, and what arguments they take. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows_0[] = {
    {"{{ (u).removeprefix(' ') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).removeprefix(' ') }}", "Hello World\tfoo-bar  baz\n"},
    {"{{ (u).removeprefix('h') }}", "éllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).removeprefix('h') }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ (u).removeprefix('') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).removeprefix('') }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ (u).removesuffix('.') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ"},
    {"{{ (s).removesuffix('.') }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ (u).removesuffix('\\n') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).removesuffix('\\n') }}", " Hello World\tfoo-bar  baz"},
    {"{{ (u).removesuffix('') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ (s).removesuffix('') }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ (u).join(['a','b']) }}", "ahéllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.b"},
    {"{{ (s).join(['a','b']) }}", "a Hello World\tfoo-bar  baz\nb"},
    {"{{ (u).join(l) }}", NULL},
    {"{{ (u).join('abc') }}", "ahéllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.bhéllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.c"},
    {"{{ (s).join('abc') }}", "a Hello World\tfoo-bar  baz\nb Hello World\tfoo-bar  baz\nc"},
    {"{{ (u).join(d) }}", "bhéllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.Ahéllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.c"},
    {"{{ (s).join(d) }}", "b Hello World\tfoo-bar  baz\nA Hello World\tfoo-bar  baz\nc"},
    {"{{ (u).join([]) }}", ""},
    {"{{ (u).join(m) }}", NULL},
    {"{{ (u).join(['a',1]) }}", NULL},
    {"{{ (u).join(n) }}", NULL},
    {"{{ (u).join(nope) }}", ""},
};

TEST(methods_of_texts_agree_with_str) {
    AGREES(rows_0);
}

static const struct agreement rows_1[] = {
    {"{{ s.strip(chars='x') }}", NULL},
    {"{{ s.split(sep='o', maxsplit=1) }}", "[' Hell', ' World\\tfoo-bar  baz\\n']"},
    {"{{ s.split('o', sep='o') }}", NULL},
    {"{{ s.split('o', 1, 2) }}", NULL},
    {"{{ s.split(foo=1) }}", NULL},
    {"{{ s.replace('l') }}", NULL},
    {"{{ s.nothere() }}", NULL},
    {"{{ s.nothere is defined }}", "False"},
    {"{{ s.upper(1) }}", NULL},
    {"{{ s.__class__ }}", ""},
    {"{{ s.splitlines(keepends=true) }}", "[' Hello World\\tfoo-bar  baz\\n']"},
    {"{{ s.startswith(('x',' H')) }}", "True"},
    {"{{ s.startswith(['x']) }}", NULL},
};

TEST(arguments_are_bound_as_python_binds_them) {
    AGREES(rows_1);
}

/* clang-format on */

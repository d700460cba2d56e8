/* SPDX-License-Identifier: Apache-2.0
 * A form as JSON, or else a grammar in GBNF, a byte 0xFF, and choices for a walk under it
 * (masked_walk.h).
 */
#include <stdint.h>

#include "masked_walk.h"
#include "parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const texts[] = {
    "\"a",      "\": ", "\",\"", "\"}", "{\"",  "[\"", "ab", "aa",       "ba",  "12",
    "1,",       "0.",   "e1",    "10]", "= ",   "((",  "))", " a",       "a ",  "\xC3",
    "\xE2\x82", "a\n",  "\n ",   "- ",  "true", "abc", "-1", "\xC3\xA9", "x\"", "+1"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct masked_walk walk;
    const struct tree *form = NULL;
    struct error error;
    struct bytes rest = {(const char *)data, size};
    walk_begin(&walk, texts, ARRAY_COUNT(texts));
    struct bytes text = next_part(&rest);
    if (tree_parse(&walk.arena, text, "form", &form, &error)) {
        struct tree *made = tree_make_object(&walk.arena);
        if (!made || !tree_set(&walk.arena, made, "gbnf", tree_make_string(&walk.arena, text)))
            return 0;
        form = made;
    }
    walk_under(&walk, form, rest);
    return 0;
}

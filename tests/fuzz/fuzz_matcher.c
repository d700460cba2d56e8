/* SPDX-License-Identifier: Apache-2.0
 * A schema, a byte 0xFF, and choices for a walk under it (masked_walk.h).
 */
#include <stdint.h>

#include "masked_walk.h"
#include "parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const texts[] = {"\"a",  "\":",      "\": \"", "\",\"",   "\"}",     "{\"",
                                    "[\"",  "ab",       "\\u00",  "\\u0061", "\\ud83d", "x\\",
                                    "\xC3", "\xE2\x82", "12",     "1,",      "0.",      "e1",
                                    "10]",  "true",     "tr",     "\n  ",    "},",      "[["};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct masked_walk walk;
    const struct tree *schema = NULL;
    struct error error;
    struct bytes rest = {(const char *)data, size};
    walk_begin(&walk, texts, ARRAY_COUNT(texts));
    if (tree_parse(&walk.arena, next_part(&rest), "schema", &schema, &error)) return 0;
    struct tree *form = tree_make_object(&walk.arena);
    if (!form || !tree_set(&walk.arena, form, "schema", schema)) return 0;
    walk_under(&walk, form, rest);
    return 0;
}

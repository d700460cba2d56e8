/* SPDX-License-Identifier: Apache-2.0
 * JSON texts into the reader. A tree that was read, written and read again is written the same;
 * what is read strictly is also read where keys may come again; every value is looked at, and a
 * number that says that it fits gives itself.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const struct tree *value) {
    struct tree_cursor cursor = {NULL};
    struct bytes key, text;
    const struct tree *member;
    int64_t integer;
    double number;
    bool is_number = tree_kind(value) == TREE_INTEGER || tree_kind(value) == TREE_REAL;
    check(tree_name(value) && tree_brief(value, (char[TREE_BRIEF_BYTES]){0}));
    if (tree_get_number(value, &number)) check(is_number && isfinite(number));
    if (tree_get_integer(value, &integer)) check(tree_kind(value) == TREE_INTEGER);
    if (tree_get_spelling(value, &text)) check(is_number && text.count);
    if (tree_get_string(value, &text)) check(text.data[text.count] == '\0');
    for (size_t i = 0; i < tree_count(value); i++)
        look(tree_at(value, i));
    while (tree_next_member(value, &cursor, &key, &member)) {
        check(strlen(key.data) == key.count && tree_member(value, key.data));
        look(member);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char memory[1 << 22];
    struct arena arena;
    const struct tree *strict, *loose, *again;
    struct bytes text = {(const char *)data, size};
    struct error error;
    arena_over(&arena, memory, sizeof memory);
    enum status status = tree_parse(&arena, text, "text", &strict, &error);
    if (tree_parse_repeated(&arena, text, "text", &loose, &error)) {
        check(status);
        return 0;
    }
    look(loose);
    struct bytes first = tree_text(&arena, loose);
    if (!first.data ||
        tree_parse_repeated(&arena, first, "text", &again, &error) == STATUS_NO_MEMORY)
        return 0;
    struct bytes second = tree_text(&arena, again);
    if (second.data) check(bytes_equal(first, second));
    if (!status) check(bytes_equal(first, tree_text(&arena, strict)) || !second.data);
    return 0;
}

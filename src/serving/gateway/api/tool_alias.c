/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/tool_alias.h"

const struct tool_alias *tool_alias_find(const struct tool_aliases *aliases, struct bytes name) {
    for (size_t i = 0; i < aliases->count; i++)
        if (bytes_equal(aliases->items[i].name, name)) return &aliases->items[i];
    return NULL;
}

bool tool_alias_copy(const struct tool_aliases *aliases, struct arena *arena,
                     struct tool_aliases *out) {
    struct tool_aliases copy = {0};
    if (aliases->count) {
        struct tool_alias *items = arena_take(arena, aliases->count * sizeof *items);
        if (!items) return false;
        for (size_t i = 0; i < aliases->count; i++) {
            const struct tool_alias *from = &aliases->items[i];
            items[i] = (struct tool_alias){.name = arena_copy(arena, from->name),
                                           .own = arena_copy(arena, from->own),
                                           .namespace = arena_copy(arena, from->namespace),
                                           .takes_text = from->takes_text};
            if (!items[i].name.data || !items[i].own.data || !items[i].namespace.data) return false;
        }
        copy = (struct tool_aliases){items, aliases->count};
    }
    *out = copy;
    return true;
}

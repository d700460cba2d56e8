/* SPDX-License-Identifier: Apache-2.0
 * Tools that the model sees under another name or in another form than the client, because it gets
 * only functions with distinct names. Answers name these tools as the client does. A tool without a
 * row here is the same for both.
 */
#pragma once

#include "base/arena.h"
#include "base/bytes.h"

struct tool_alias {
    struct bytes name;      /* as the model writes it */
    struct bytes own;       /* the client's name for it */
    struct bytes namespace; /* the namespace of the client's name; empty: none */
    bool takes_text;        /* its input is one text, which the model writes as the argument
                             * "input" */
};

struct tool_aliases {
    const struct tool_alias *items; /* [count] */
    size_t count;
};

/* NULL: no alias of that name. */
const struct tool_alias *tool_alias_find(const struct tool_aliases *aliases, struct bytes name);

/* Copies all of them with their texts. False: the arena is out of memory. */
bool tool_alias_copy(const struct tool_aliases *aliases, struct arena *arena,
                     struct tool_aliases *out);

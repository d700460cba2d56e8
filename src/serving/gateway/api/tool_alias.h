/* SPDX-License-Identifier: Apache-2.0
 * Tools that the model sees under another name or in another form than the client, because the
 * model gets only functions with distinct names. Answers use the client's names. A tool without an
 * alias is the same for both.
 */
#pragma once

#include "base/arena.h"
#include "base/bytes.h"

struct tool_alias {
    struct bytes name;      /* the model's name for it */
    struct bytes own;       /* the client's name for it */
    struct bytes namespace; /* the namespace of the client's name; empty: none */
    bool takes_text;        /* its input is one text, which the model writes as argument "input" */
};

struct tool_aliases {
    const struct tool_alias *items; /* [count] */
    size_t count;
};

/* Finds an alias by the model's name for it. NULL: there is none. */
const struct tool_alias *tool_alias_find(const struct tool_aliases *aliases, struct bytes name);

/* Copies all aliases with their texts. False: the arena is out of memory. */
bool tool_alias_copy(const struct tool_aliases *aliases, struct arena *arena,
                     struct tool_aliases *out);

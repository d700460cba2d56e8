/* SPDX-License-Identifier: Apache-2.0
 * Tools that the model knows by other names or in another shape than the client: it reads of
 * functions alone, each with a name of its own. Calls of such a tool are told to the client in the
 * client's words again. A tool without a row here is the same to both.
 */
#ifndef SERVING_GATEWAY_API_TOOL_ALIAS_H
#define SERVING_GATEWAY_API_TOOL_ALIAS_H

#include "base/arena.h"
#include "base/bytes.h"

struct tool_alias {
    struct bytes name;      /* as the model writes it */
    struct bytes own;       /* the client's name for it */
    struct bytes namespace; /* in which the client has that name; empty: in none */
    bool takes_text;        /* one text, which the model writes as the argument "input" */
};

struct tool_aliases {
    const struct tool_alias *items; /* [count] */
    size_t count;
};

/* NULL: none of that name. */
const struct tool_alias *tool_alias_find(const struct tool_aliases *aliases, struct bytes name);

/* All of them with their texts. False: the arena is out of memory. */
bool tool_alias_copy(const struct tool_aliases *aliases, struct arena *arena,
                     struct tool_aliases *out);

#endif

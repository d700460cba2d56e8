/* SPDX-License-Identifier: Apache-2.0
 * Outlines of recent chats: a hash of the tools and of each message. A prompt is found in the cache
 * only up to the first difference, and clients cause differences that no person sees: a date in a
 * system message, tools in another order. An outline shows in which part a prompt differs from the
 * most similar earlier one, for its receipt.
 *
 * Only requests that ask for a receipt are compared and kept, so that others pay nothing.
 */
#pragma once

#include "base/arena.h"
#include "base/tree.h"
#include "contract/record_unit.h"

#define PROMPT_OUTLINE_PARTS 64 /* the tools and the first messages */
#define PROMPT_OUTLINES 32      /* kept of all clients together */

struct prompt_outline {
    struct tenant_salt tenant;            /* prompts of other tenants are not compared */
    uint32_t count;                       /* parts; 0: an unused outline */
    uint64_t parts[PROMPT_OUTLINE_PARTS]; /* [count] hashes; the tools come first */
};

struct prompt_outlines {
    struct prompt_outline kept[PROMPT_OUTLINES]; /* a ring */
    uint32_t next;                               /* the oldest, which is replaced next */
};

/* Outlines a chat. `tools` may be NULL. False: the arena is full. */
bool prompt_outline_of(struct arena *arena, struct tenant_salt tenant, const struct tree *tools,
                       const struct tree *messages, struct prompt_outline *out);

/* Keeps the outline and returns the first part in which it differs from the kept outline of its
 * tenant that has most parts in common with it: 1 for the tools, 2 + i for messages[i]. 0: none has
 * any part in common, or one continues the other. */
uint32_t prompt_outline_compare(struct prompt_outlines *outlines,
                                const struct prompt_outline *outline);

/* SPDX-License-Identifier: Apache-2.0
 * Records on their way to one machine, in the order in which they were sent: a ring of bytes. All
 * take the same time, so the first one is due first. The ring is as long as its longest queue needs
 * (at most twice that), and grows within its capacity: the same few pages come round again while they
 * are in the caches, and memory behind them stays untouched.
 */
#ifndef SIMULATE_TWIN_TWIN_POST_H
#define SIMULATE_TWIN_TWIN_POST_H

#include "base/arena.h"
#include "contract/machine.h"

struct twin_message {
    int64_t due_ns;
    uint32_t bytes;      /* of all this */
    uint32_t connection; /* as the sender likes */
    struct record record;
};

struct twin_post {
    char *memory;
    size_t capacity, span; /* span: of it the ring has this much so far */
    size_t head, tail;     /* of the first message; behind the last */
    size_t end;            /* wrapped: behind the older messages, which go on at the start */
    size_t count;          /* messages */
    bool wrapped;          /* the tail is before the head */
};

/* False when the arena is out of memory. */
bool twin_post_open(struct twin_post *post, struct arena *arena, size_t capacity);

/* Room for a record of so many bytes, behind all others; its content is the caller's to fill in.
 * NULL: the ring is full. */
struct record *twin_post_put(struct twin_post *post, int64_t due_ns, uint32_t connection,
                             size_t bytes);

/* The first message; NULL: there is none. */
const struct twin_message *twin_post_first(const struct twin_post *post);
/* The message behind that one; NULL: it is the last. */
const struct twin_message *twin_post_behind(const struct twin_post *post,
                                            const struct twin_message *message);
void twin_post_drop(struct twin_post *post);

void twin_post_clear(struct twin_post *post);

/* MACHINE_NEVER: nothing is on its way. */
static inline int64_t twin_post_next_ns(const struct twin_post *post) {
    const struct twin_message *message = twin_post_first(post);
    return message ? message->due_ns : MACHINE_NEVER;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Records in transit to one machine, in the order of sending: a ring of bytes. All take the same
 * time, so the first one is due first. The ring is as long as its longest queue needs (twice that
 * at most), and grows within its capacity. It reuses the same few pages while they are in the
 * caches, and the memory after them stays untouched.
 */
#ifndef SIMULATE_KERNEL_SIMULATOR_POST_H
#define SIMULATE_KERNEL_SIMULATOR_POST_H

#include "base/arena.h"
#include "contract/machine.h"

struct simulator_message {
    int64_t due_ns;
    uint32_t bytes;      /* of the whole message */
    uint32_t connection; /* chosen by the sender */
    struct record record;
};

struct simulator_post {
    char *memory;
    size_t capacity, span; /* span: the part of it that the ring uses so far */
    size_t head, tail;     /* offset of the first message; offset after the last */
    size_t end;            /* wrapped: offset after the older messages, which continue at the
                            * start */
    size_t count;          /* messages */
    bool wrapped;          /* the tail is before the head */
};

/* Returns false if the arena is out of memory. */
bool simulator_post_open(struct simulator_post *post, struct arena *arena, size_t capacity);

/* Appends a record of `bytes` bytes. The caller fills in its content. Returns NULL if the ring is
 * full. */
struct record *simulator_post_put(struct simulator_post *post, int64_t due_ns, uint32_t connection,
                                  size_t bytes);

/* The first message, or NULL. */
const struct simulator_message *simulator_post_first(const struct simulator_post *post);
/* The next message, or NULL if it is the last. */
const struct simulator_message *simulator_post_behind(const struct simulator_post *post,
                                                      const struct simulator_message *message);
void simulator_post_drop(struct simulator_post *post);

void simulator_post_clear(struct simulator_post *post);

/* Returns MACHINE_NEVER if nothing is in transit. */
static inline int64_t simulator_post_next_ns(const struct simulator_post *post) {
    const struct simulator_message *message = simulator_post_first(post);
    return message ? message->due_ns : MACHINE_NEVER;
}

#endif

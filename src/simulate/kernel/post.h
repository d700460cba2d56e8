/* SPDX-License-Identifier: Apache-2.0
 * Records in transit to one machine in virtual time, in the order of arrival. What arrives last is
 * appended, what arrives earlier is inserted. The first messages leave a gap, which closes when it
 * is longer than the rest: a short queue stays in the same few pages, and the memory after them is
 * never touched.
 */
#pragma once

#include "base/arena.h"
#include "contract/machine.h"

struct post_message {
    int64_t due_ns;
    uint32_t bytes;      /* of the whole message */
    uint32_t connection; /* the sender chooses it; 0: none */
    struct record record;
};

struct post {
    char *memory; /* [capacity]; messages from `head` to `tail` */
    size_t capacity, head, tail;
    int64_t last_ns; /* no message arrives later */
};

/* Returns false if the arena is out of memory. */
bool post_open(struct post *post, struct arena *arena, size_t capacity);
void post_clear(struct post *post);

/* Adds a record of `bytes` bytes after all that arrive no later. The caller fills in its content.
 * Earlier messages do not move. Returns NULL if the post is full. */
struct record *post_put(struct post *post, int64_t due_ns, uint32_t connection, size_t bytes);

/* Adds a copy of the record. The post must not be full. */
void post_send(struct post *post, int64_t due_ns, uint32_t connection, const struct record *record);

/* The message at that distance from the first one, or NULL after the last. The next one is at `at`
 * + bytes. */
static inline struct post_message *post_at(const struct post *post, size_t at) {
    return post->head + at < post->tail
               ? (struct post_message *)(void *)(post->memory + post->head + at)
               : NULL;
}

/* The arrival time of the first message, or MACHINE_NEVER. */
static inline int64_t post_next_ns(const struct post *post) {
    const struct post_message *message = post_at(post, 0);
    return message ? message->due_ns : MACHINE_NEVER;
}

/* Removes a message. Others may move. */
void post_drop(struct post *post, size_t at);

/* Removes the connection's messages that arrive later. */
void post_lose(struct post *post, uint32_t connection, int64_t after_ns);

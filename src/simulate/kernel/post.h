/* SPDX-License-Identifier: Apache-2.0
 * Records in transit to one machine in virtual time, ordered by arrival. A record that arrives last
 * is appended; one that arrives earlier is inserted. Removing messages at the front leaves a gap,
 * which is closed when it is larger than the rest. So a short queue stays in the same few pages of
 * memory, and the memory after them is never touched.
 */
#pragma once

#include "base/arena.h"
#include "contract/machine.h"

struct post_message {
    int64_t due_ns;
    uint32_t bytes;      /* of the whole message */
    uint32_t connection; /* chosen by the sender; 0: none */
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

/* Adds a record of this size after all messages that arrive no later than it. The caller fills in
 * its contents. Earlier messages do not move. Returns NULL if there is no space. */
struct record *post_put(struct post *post, int64_t due_ns, uint32_t connection, size_t bytes);

/* Adds a copy of the record. There must be space for it. */
void post_send(struct post *post, int64_t due_ns, uint32_t connection, const struct record *record);

/* Adds a UNIT_JOINED or UNIT_LOST of a connection. */
void post_send_link(struct post *post, int64_t due_ns, uint32_t connection, enum record_kind kind);

/* Adds a copy of a unit's record for a gateway, in the envelope of its connection. */
void post_send_from_unit(struct post *post, int64_t due_ns, uint32_t connection,
                         const struct record *record);

/* The message at an offset from the first one, or NULL at the end. The next message is at the
 * offset `at` + bytes. */
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

/* Removes a message. Other messages may move. */
void post_drop(struct post *post, size_t at);

/* Removes all messages of the connection that arrive after after_ns. */
void post_lose(struct post *post, uint32_t connection, int64_t after_ns);

/* SPDX-License-Identifier: Apache-2.0
 * Records in transit in virtual time. A post holds messages in the order of arrival.
 */
#ifndef SIMULATE_KERNEL_FLEET_POST_H
#define SIMULATE_KERNEL_FLEET_POST_H

#include "base/arena.h"
#include "contract/machine.h"

struct fleet_message {
    int64_t due_ns;
    uint32_t bytes;      /* of the whole message */
    uint32_t connection; /* the sender chooses it; 0: none */
    struct record record;
};

struct fleet_post {
    char *memory;
    uint32_t used, most; /* of FLEET_POST_BYTES; the most ever */
};

#define FLEET_POST_BYTES ((uint32_t)4 << 20)

bool fleet_post_open(struct fleet_post *post, struct arena *arena);

/* The message at that offset, or NULL after the last. The next one is at `at` + bytes. */
static inline struct fleet_message *fleet_post_at(const struct fleet_post *post, uint32_t at) {
    return at < post->used ? (struct fleet_message *)(void *)(post->memory + at) : NULL;
}

/* The arrival time of the first message, or MACHINE_NEVER. */
int64_t fleet_post_next_ns(const struct fleet_post *post);

/* Inserts the message after all that arrive no later. */
void fleet_post_send(struct fleet_post *post, int64_t due_ns, uint32_t connection,
                     const struct record *record);

void fleet_post_drop(struct fleet_post *post, uint32_t at);

/* Drops the connection's messages that arrive later. */
void fleet_post_lose(struct fleet_post *post, uint32_t connection, int64_t after_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Records on their way in virtual time: a post holds messages in the order in which they arrive.
 */
#ifndef SIMULATE_FLEET_POST_H
#define SIMULATE_FLEET_POST_H

#include "base/arena.h"
#include "contract/machine.h"

struct fleet_message {
    int64_t due_ns;
    uint32_t bytes;      /* of all this */
    uint32_t connection; /* as the sender likes; 0: none */
    struct record record;
};

struct fleet_post {
    char *memory;
    uint32_t used, most; /* of FLEET_POST_BYTES; ever */
};

#define FLEET_POST_BYTES ((uint32_t)4 << 20)

bool fleet_post_open(struct fleet_post *post, struct arena *arena);

/* The message at that place; NULL behind the last. The next one is at + bytes. */
static inline struct fleet_message *fleet_post_at(const struct fleet_post *post, uint32_t at) {
    return at < post->used ? (struct fleet_message *)(void *)(post->memory + at) : NULL;
}

/* When the first one arrives; MACHINE_NEVER. */
int64_t fleet_post_next_ns(const struct fleet_post *post);

/* Behind all that arrives no later. */
void fleet_post_send(struct fleet_post *post, int64_t due_ns, uint32_t connection,
                     const struct record *record);

void fleet_post_drop(struct fleet_post *post, uint32_t at);

/* The connection's messages that arrive later are lost. */
void fleet_post_lose(struct fleet_post *post, uint32_t connection, int64_t after_ns);

#endif

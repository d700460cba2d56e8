/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/kernel/fleet_post.h"

#include "base/check.h"

bool fleet_post_open(struct fleet_post *post, struct arena *arena) {
    *post = (struct fleet_post){.memory = arena_take(arena, FLEET_POST_BYTES)};
    return post->memory != NULL;
}

int64_t fleet_post_next_ns(const struct fleet_post *post) {
    const struct fleet_message *message = fleet_post_at(post, 0);
    return message ? message->due_ns : MACHINE_NEVER;
}

void fleet_post_send(struct fleet_post *post, int64_t due_ns, uint32_t connection,
                     const struct record *record) {
    uint32_t at = 0, bytes = (uint32_t)(offsetof(struct fleet_message, record) + record->bytes);
    for (struct fleet_message *other; (other = fleet_post_at(post, at)) && other->due_ns <= due_ns;)
        at += other->bytes;
    check(post->memory && post->used + bytes <= FLEET_POST_BYTES);
    memmove(post->memory + at + bytes, post->memory + at, post->used - at);
    struct fleet_message *message = (struct fleet_message *)(void *)(post->memory + at);
    message->due_ns = due_ns;
    message->bytes = bytes;
    message->connection = connection;
    memcpy(&message->record, record, record->bytes);
    post->used += bytes;
    if (post->used > post->most) post->most = post->used;
}

void fleet_post_drop(struct fleet_post *post, uint32_t at) {
    uint32_t bytes = fleet_post_at(post, at)->bytes;
    post->used -= bytes;
    memmove(post->memory + at, post->memory + at + bytes, post->used - at);
}

void fleet_post_lose(struct fleet_post *post, uint32_t connection, int64_t after_ns) {
    uint32_t at = 0;
    for (struct fleet_message *message; (message = fleet_post_at(post, at));) {
        if (message->connection == connection && message->due_ns > after_ns)
            fleet_post_drop(post, at);
        else
            at += message->bytes;
    }
}

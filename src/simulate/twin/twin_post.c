/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/twin/twin_post.h"

#include "base/check.h"

#define MARK_BYTES offsetof(struct twin_message, record) /* of a message that says to go on */

bool twin_post_open(struct twin_post *post, struct arena *arena, size_t capacity) {
    *post = (struct twin_post){.capacity = capacity / 16 * 16};
    post->memory = arena_take(arena, post->capacity);
    return post->memory != NULL;
}

void twin_post_clear(struct twin_post *post) {
    post->head = post->tail = post->count = 0;
    post->wrapped = false;
}

static struct twin_message *at(const struct twin_post *post, size_t place) {
    return (struct twin_message *)(void *)(post->memory + place);
}

struct record *twin_post_put(struct twin_post *post, int64_t due_ns, uint32_t connection,
                             size_t bytes) {
    size_t all = MARK_BYTES + bytes;
    size_t end = post->wrapped ? post->head : post->capacity - MARK_BYTES;
    if (post->tail + all > end) {
        if (post->wrapped || all > post->head) return NULL;
        at(post, post->tail)->bytes = 0;
        post->tail = 0;
        post->wrapped = true;
    }
    struct twin_message *message = at(post, post->tail);
    message->due_ns = due_ns;
    message->bytes = (uint32_t)all;
    message->connection = connection;
    post->tail += all;
    post->count++;
    return &message->record;
}

const struct twin_message *twin_post_first(const struct twin_post *post) {
    return post->count ? at(post, post->head) : NULL;
}

void twin_post_drop(struct twin_post *post) {
    check(post->count > 0);
    post->head += at(post, post->head)->bytes;
    if (--post->count == 0) {
        twin_post_clear(post);
    } else if (post->wrapped && at(post, post->head)->bytes == 0) {
        post->head = 0;
        post->wrapped = false;
    }
}

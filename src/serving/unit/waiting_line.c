/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/unit/waiting_line.h"

#include "base/check.h"

#include <string.h>

#define BYTES_MAX ((size_t)256 << 20) /* touched when used */
#define CONSTRAINT_BYTES_EACH 4096    /* longer constraints share it */

/* The size of the pool: for each request its longest SUBMIT, with a usual constraint, and its
 * blocks, up to a limit; in addition the longest constraint of one request. */
static size_t pool_bytes(const struct unit_options *options, uint32_t ranks) {
    size_t keys = options->context_tokens_max / KV_BLOCK_TOKENS * sizeof(struct block_key);
    struct record_submit submit = {.prompt_count = options->context_tokens_max,
                                   .stop_token_count = 2 * LIMIT_STOP_TOKENS,
                                   .bias_count = LIMIT_LOGIT_BIASES,
                                   .constraint_bytes = CONSTRAINT_BYTES_EACH,
                                   .name_bytes = LIMIT_REQUEST_NAME};
    size_t longest =
        round_up(record_bytes(RECORD_SUBMIT, &submit) + keys + ranks * sizeof(uint32_t) + 32,
                 POOL_CHUNK_BYTES);
    size_t bytes = (size_t)ranks * options->requests_max * longest;
    if (bytes > BYTES_MAX) bytes = BYTES_MAX > longest ? BYTES_MAX : longest;
    return round_up(bytes + LIMIT_CONSTRAINT_BYTES, POOL_CHUNK_BYTES) + POOL_CHUNK_BYTES;
}

size_t waiting_line_bytes(const struct unit_options *options, uint32_t ranks) {
    return pool_bytes(options, ranks) +
           (size_t)ranks * options->requests_max *
               (sizeof(struct waiting_request) + sizeof(uint32_t)) +
           64;
}

enum status waiting_line_open(struct waiting_line *line, struct arena *arena,
                              const struct unit_options *options, uint32_t ranks) {
    size_t bytes = pool_bytes(options, ranks);
    uint32_t capacity = ranks * options->requests_max;
    void *memory = arena_take(arena, bytes);
    line->requests = arena_take_zeroed(arena, capacity * sizeof *line->requests);
    line->order = arena_take(arena, capacity * sizeof *line->order);
    if (!memory || !line->requests || !line->order) return STATUS_NO_MEMORY;
    line->capacity = capacity;
    line->count = 0;
    arena_pool_open(&line->pool, memory, bytes);
    for (uint32_t i = 0; i < capacity; i++) {
        line->order[i] = i;
        arena_open(&line->requests[i].arena, &line->pool);
    }
    return STATUS_OK;
}

/* Copies SUBMIT and blocks, the keys first, into one allocation. */
static bool copy_in(struct waiting_request *request, const struct record_submit *submit,
                    const struct prompt_blocks *blocks) {
    size_t submit_end = round_up(submit->record.bytes, sizeof(uint32_t));
    size_t keys_bytes = blocks->key_count * sizeof *blocks->keys;
    size_t near_bytes = blocks->near_count * sizeof *blocks->near;
    char *memory = arena_take(&request->arena, keys_bytes + submit_end + near_bytes);
    if (!memory) return false;
    request->blocks = *blocks;
    request->blocks.keys = (struct block_key *)(void *)memory;
    request->submit = (struct record_submit *)(void *)(memory + keys_bytes);
    request->blocks.near = (uint32_t *)(void *)(memory + keys_bytes + submit_end);
    if (keys_bytes) memcpy(request->blocks.keys, blocks->keys, keys_bytes);
    memcpy(request->submit, submit, submit->record.bytes);
    if (near_bytes) memcpy(request->blocks.near, blocks->near, near_bytes);
    return true;
}

bool waiting_line_add(struct waiting_line *line, const struct record_submit *submit,
                      const struct prompt_blocks *blocks, int64_t turn, int64_t now_ns) {
    if (line->count == line->capacity) return false;
    uint32_t slot = line->order[line->count], place = line->count;
    struct waiting_request *request = &line->requests[slot];
    if (!copy_in(request, submit, blocks)) {
        arena_clear(&request->arena);
        return false;
    }
    request->turn = turn;
    request->arrived_ns = now_ns;
    request->reason = UINT32_MAX;
    for (; place > 0 && waiting_line_at(line, place - 1)->submit->priority < submit->priority;
         place--)
        line->order[place] = line->order[place - 1];
    line->order[place] = slot;
    line->count++;
    return true;
}

struct waiting_request *waiting_line_at(const struct waiting_line *line, uint32_t place) {
    check(place < line->capacity);
    return &line->requests[line->order[place]];
}

uint32_t waiting_line_find(const struct waiting_line *line, struct request_id id) {
    uint32_t place = 0;
    while (place < line->count &&
           !request_id_equal(waiting_line_at(line, place)->submit->request, id))
        place++;
    check(place < line->count);
    return place;
}

void waiting_line_remove(struct waiting_line *line, uint32_t place) {
    check(place < line->count);
    uint32_t slot = line->order[place];
    arena_clear(&line->requests[slot].arena);
    line->count--;
    memmove(line->order + place, line->order + place + 1,
            (line->count - place) * sizeof *line->order);
    line->order[line->count] = slot;
}

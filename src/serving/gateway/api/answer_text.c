/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/answer_text.h"

#define BLOCK_BYTES_MIN ((size_t)1 << 10)
#define BLOCK_BYTES_MAX ((size_t)1 << 20)
#define GROWTH_PART 4 /* a block is 1/4 of all blocks before it */

struct answer_block {
    struct answer_block *next;
    size_t room, count;
    char bytes[];
};

static struct answer_block *answer_text_block_add(struct answer_text *text, struct arena *arena) {
    size_t part = text->count / GROWTH_PART;
    size_t room = part < BLOCK_BYTES_MIN   ? BLOCK_BYTES_MIN
                  : part > BLOCK_BYTES_MAX ? BLOCK_BYTES_MAX
                                           : part;
    struct answer_block *block = arena_take(arena, sizeof *block + room);
    if (!block) return NULL;
    *block = (struct answer_block){.room = room};
    if (text->last)
        text->last->next = block;
    else
        text->first = block;
    text->last = block;
    return block;
}

bool answer_text_add(struct answer_text *text, struct arena *arena, struct bytes piece) {
    text->escaped_count += json_writer_escaped_count(piece);
    while (piece.count) {
        struct answer_block *block = text->last;
        if (!block || block->count == block->room) block = answer_text_block_add(text, arena);
        if (!block) return false;
        size_t left = block->room - block->count;
        size_t count = piece.count < left ? piece.count : left;
        memcpy(block->bytes + block->count, piece.data, count);
        block->count += count;
        text->count += count;
        piece = (struct bytes){piece.data + count, piece.count - count};
    }
    return true;
}

static struct answer_run *run_add(struct answer_text *text, struct arena *arena,
                                  enum token_stream_part part, uint32_t token_at) {
    struct answer_run *run = arena_take(arena, sizeof *run);
    if (!run) return NULL;
    *run = (struct answer_run){
        .part = part, .from = text->count, .to = text->count, .token_at = token_at};
    if (text->last_run)
        text->last_run->next = run;
    else
        text->first_run = run;
    text->last_run = run;
    text->run_count++;
    text->run_ended = false;
    return run;
}

bool answer_text_add_part(struct answer_text *text, struct arena *arena,
                          enum token_stream_part part, uint32_t token_at, struct bytes piece) {
    struct answer_run *run = text->last_run;
    if (!run || run->part != part || text->run_ended) run = run_add(text, arena, part, token_at);
    if (!run) return false;
    bool added = answer_text_add(text, arena, piece);
    run->to = text->count;
    return added;
}

size_t answer_text_part_count(const struct answer_text *text, enum token_stream_part part) {
    size_t count = 0;
    for (const struct answer_run *run = text->first_run; run; run = run->next)
        if (run->part == part) count += run->to - run->from;
    return count;
}

bool answer_text_walk(const struct answer_text *text,
                      bool (*visit)(void *context, struct bytes piece), void *context) {
    for (const struct answer_block *block = text->first; block; block = block->next)
        if (!visit(context, (struct bytes){block->bytes, block->count})) return false;
    return true;
}

void answer_text_write(const struct answer_text *text, size_t from, size_t to, bool escaped,
                       struct json_writer *writer) {
    size_t start = 0; /* position of the block in the text */
    for (const struct answer_block *block = text->first; block && start < to; block = block->next) {
        size_t first = from > start ? from - start : 0;
        size_t end = to - start < block->count ? to - start : block->count;
        if (first < end) {
            struct bytes piece = {block->bytes + first, end - first};
            if (escaped)
                json_writer_escaped(writer, piece);
            else
                json_writer_bytes(writer, piece);
        }
        start += block->count;
    }
}

bool answer_text_copy(struct answer_text *text, struct arena *arena,
                      const struct answer_text *source) {
    for (const struct answer_block *block = source->first; block; block = block->next)
        if (!answer_text_add(text, arena, (struct bytes){block->bytes, block->count})) return false;
    return true;
}

void answer_text_write_part(const struct answer_text *text, enum token_stream_part part,
                            struct json_writer *writer) {
    for (const struct answer_run *run = text->first_run; run; run = run->next)
        if (run->part == part) answer_text_write(text, run->from, run->to, true, writer);
}

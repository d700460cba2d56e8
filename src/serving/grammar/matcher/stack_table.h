/* SPDX-License-Identifier: Apache-2.0
 * Stacks of frames, hash-consed: a frame is a position in a value and the frame below it,
 * and equal stacks are one frame with one number. Frames never change. They are in one block of
 * memory of fixed size, from which the youngest can be removed.
 */
#ifndef SERVING_GRAMMAR_MATCHER_STACK_TABLE_H
#define SERVING_GRAMMAR_MATCHER_STACK_TABLE_H

#include "base/arena.h"

#define STACK_NONE 0 /* no frame */

enum stack_kind {
    STACK_RULE = 1, /* subject: a rule; below it the one that called it, or none */
    STACK_LITERAL,  /* inside null, true or false; subject: which */
    STACK_NUMBER,   /* subject: a leaf */
    STACK_STRING,   /* subject: a leaf */
    STACK_KEY,      /* subject: a leaf; below it is its object */
    STACK_ARRAY,    /* subject: an array */
    STACK_OBJECT,   /* subject: an object */
    STACK_SET,      /* no part of it: stacks side by side, two numbers in a word of the tail */
    STACK_SEEN,     /* no part of the text: a list of hashes that must not come again */
};

struct stack_frame {
    uint64_t content; /* a hash of the frame and of all that it names, the same in each table */
    uint32_t below, chain;
    uint8_t kind, where, space, flags;
    uint16_t tail_words;
    uint16_t distinct; /* objects: keys, up to the least number of them */
    uint32_t subject;
    uint32_t state; /* of automata; characters; items; keys */
    uint32_t
        escape;    /* strings: of string_position; arrays: items counted; objects: 1 + the entry of
                      * the next value */
    uint32_t seen; /* arrays, objects: a STACK_SEEN frame or none */
    uint64_t hash;
    uint64_t tail[];
};

struct stack_table {
    uint64_t *words;  /* [word_count] frames, one behind the other */
    uint32_t *starts; /* [frame_max] of frames, in words */
    uint32_t *heads;  /* [head_mask + 1] of chains of equal hashes */
    uint32_t word_count, word_used, frame_max, frame_count, head_mask;
};

/* About 80 bytes for each frame. STATUS_NO_MEMORY. */
enum status stack_table_open(struct stack_table *table, struct arena *arena,
                             uint32_t frame_max) MUST_USE;
/* The number of a frame that is as `frame` (chain and content aside) with this tail; STACK_NONE:
 * the table is full. */
uint32_t stack_table_put(struct stack_table *table, const struct stack_frame *frame,
                         const uint64_t *tail);
/* Takes back all but the first `frame_count` frames. */
void stack_table_truncate(struct stack_table *table, uint32_t frame_count);

static inline const struct stack_frame *stack_table_at(const struct stack_table *table,
                                                       uint32_t number) {
    return (const struct stack_frame *)(table->words + table->starts[number]);
}

#endif

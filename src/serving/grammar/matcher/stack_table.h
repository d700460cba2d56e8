/* SPDX-License-Identifier: Apache-2.0
 * Pushdown stacks, hash-consed. A frame has a position in a rule or a JSON value, and the number of
 * the frame below it. A stack is therefore identified by its top frame, and equal stacks have equal
 * numbers. Frames are immutable. They are in one block of memory of fixed size, from which the most
 * recent ones can be removed.
 */
#pragma once

#include "base/arena.h"

#define STACK_NONE 0 /* no frame */

enum stack_kind {
    STACK_RULE = 1, /* subject: a rule; below: the calling rule, or none */
    STACK_LITERAL,  /* inside null, true or false; subject: which */
    STACK_NUMBER,   /* subject: a leaf */
    STACK_STRING,   /* subject: a leaf */
    STACK_KEY,      /* subject: a leaf; below: its object */
    STACK_ARRAY,    /* subject: an array */
    STACK_OBJECT,   /* subject: an object */
    STACK_SET,      /* not part of a stack: a set of stacks, two numbers in each word of the tail */
    STACK_SEEN,     /* not part of a stack: a linked list of hashes of items or keys seen */
};

struct stack_frame {
    uint64_t content;      /* hash of the stack's content, equal in all tables */
    uint32_t below, chain; /* chain: the next frame with the same head */
    uint8_t kind, where, space, flags;
    uint16_t tail_words;
    uint16_t distinct; /* objects: distinct keys, counted up to count_min */
    uint32_t subject;
    uint32_t state;  /* DFA state, or a count of characters, items or keys */
    uint32_t escape; /* strings: see string_position; arrays: items that count for contains;
                      * objects: 1 + the entry of the next value */
    uint32_t seen;   /* arrays, objects: a STACK_SEEN frame, or none */
    uint64_t hash;
    uint64_t tail[];
};

struct stack_table {
    uint64_t *words;  /* [word_count] frames, one after the other */
    uint32_t *starts; /* [frame_max] start of each frame, in words */
    uint32_t *heads;  /* [head_mask + 1] hash table: first frame of each chain */
    uint32_t word_count, word_used, frame_max, frame_count, head_mask;
};

/* Opens an empty table, which takes about 80 bytes for each frame. Returns STATUS_NO_MEMORY if the
 * arena is full. */
enum status stack_table_open(struct stack_table *table, struct arena *arena,
                             uint32_t frame_max) MUST_USE;
/* Finds the frame that equals `frame` (except chain and content) and has this tail, or adds it.
 * Returns its number, or STACK_NONE if the table is full. */
uint32_t stack_table_put(struct stack_table *table, const struct stack_frame *frame,
                         const uint64_t *tail);
/* Removes all but the first `frame_count` frames. */
void stack_table_truncate(struct stack_table *table, uint32_t frame_count);

static inline const struct stack_frame *stack_table_at(const struct stack_table *table,
                                                       uint32_t number) {
    return (const struct stack_frame *)(table->words + table->starts[number]);
}

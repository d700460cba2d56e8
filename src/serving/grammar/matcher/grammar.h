/* SPDX-License-Identifier: Apache-2.0
 * A grammar ready to run: a program with the leaves of its values numbered (what is read without
 * its context: strings, keys, numbers), and one step of a stack by a byte.
 *
 * Blanks between the parts of a JSON text are bounded, so that a model cannot idle: up to
 * two spaces or tabs, or one or two line ends (\n or \r\n) and then up to 40 spaces or tabs. Before
 * a value and behind it none is read here: what may stand there is the rules' choice.
 */
#ifndef SERVING_GRAMMAR_MATCHER_GRAMMAR_H
#define SERVING_GRAMMAR_MATCHER_GRAMMAR_H

#include "serving/grammar/matcher/stack_table.h"
#include "serving/grammar/matcher/string_content.h"
#include "serving/grammar/matcher/token_trie.h"
#include "serving/grammar/rules/grammar_program.h"

#define GRAMMAR_STACKS_MAX 512 /* at once; more are not followed */

enum stack_where {              /* of arrays and objects */
                   WHERE_FIRST, /* behind [ or { */
                   WHERE_NEXT,  /* behind a comma */
                   WHERE_COLON, /* behind a key */
                   WHERE_VALUE, /* behind a colon */
                   WHERE_AFTER  /* behind a value */
};

enum stack_flag {
    STACK_TRACKED = 1,    /* strings, keys, numbers: with a hash of what they say */
    STACK_CLOSES = 1,     /* objects: may end here */
    STACK_OPEN = 2,       /* objects: a key of no property may come */
    STACK_ORDERED_OUT = 4 /* objects in order: such a key has come */
};

struct mask_memory;

struct grammar {
    const struct grammar_rule *rules;    /* the first is the whole text's */
    const struct shape_program *program; /* of all values */
    bool has_tokens;                     /* rules ask for tokens */
    const struct token_trie *trie;
    const struct text_leaf *leaves; /* distinct ones */
    uint32_t leaf_count;
    const uint32_t *number_leaf, *string_leaf; /* [alternative_count] */
    const uint32_t *key_leaf;                  /* [object_count] */
    const uint32_t *listed_leaf;               /* [array_count] */
    struct mask_memory *masks;
};

/* Fills the parts of a grammar that depend on the shapes alone. STATUS_NO_MEMORY. */
enum status grammar_read(struct arena *arena, const struct shape_program *program,
                         struct grammar *out) MUST_USE;

struct stack_list {
    uint32_t count;
    uint32_t frames[GRAMMAR_STACKS_MAX];
};

/* Adds a frame once; STACK_NONE is none. */
static inline void grammar_add_stack(struct stack_list *out, uint32_t frame) {
    if (frame == STACK_NONE || out->count == GRAMMAR_STACKS_MAX) return;
    for (uint32_t i = 0; i < out->count; i++)
        if (out->frames[i] == frame) return;
    out->frames[out->count++] = frame;
}

/* Adds the frames that the frame `number` becomes by `byte`; none if it may not come. */
void grammar_step(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                  uint8_t byte, struct stack_list *out);
/* Adds what a value of a shape, on top of the frame `below`, becomes by its first byte. */
void grammar_begin_value(const struct grammar *grammar, struct stack_table *table, uint32_t shape,
                         uint8_t byte, uint32_t below, struct stack_list *out);
/* Adds what a finished value of `hash` (if the items of its array must differ; else any)
 * becomes. */
void grammar_end_value(const struct grammar *grammar, struct stack_table *table, uint32_t below,
                       uint64_t hash, struct stack_list *out);
/* Adds the effect of a key of the object at frame `number` that has led to `state` of its leaf.
 */
void grammar_end_key(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                     uint32_t state, uint64_t hash, struct stack_list *out);
/* The frame of a rule: `number` itself, or the one below a number that may end; else STACK_NONE. */
uint32_t grammar_rule_below(const struct grammar *grammar, const struct stack_table *table,
                            uint32_t number);
/* The filter of a key or of a string of a listed array; false: none is needed. */
bool grammar_filter(const struct grammar *grammar, const struct stack_table *table,
                    const struct stack_frame *leaf, struct key_filter *out);

/* ---- objects: object_step.c ---- */

/* Behind the opening brace. */
uint32_t object_step_begin(const struct grammar *grammar, struct stack_table *table,
                           uint32_t object, uint32_t below);
/* A byte that is no blank, where no value begins. */
void object_step(const struct grammar *grammar, struct stack_table *table,
                 const struct stack_frame *frame, uint8_t byte, struct stack_list *out);
/* Makes the filter of the next key in the object of this frame. */
void object_step_filter(const struct grammar *grammar, const struct stack_frame *frame,
                        struct key_filter *out);
/* Whether the text that led a key to `state` is a key of no property. */
bool object_step_key_is_open(const struct grammar *grammar, const struct stack_frame *object_frame,
                             uint32_t state);
/* The shape of the next value, and the frame below it. */
uint32_t object_step_value(const struct grammar *grammar, const struct stack_frame *frame);
uint32_t object_step_behind_value(struct stack_table *table, const struct stack_frame *frame);

/* ---- rules: rule_step.c ---- */

/* STACK_NONE where the table is full. */
uint32_t rule_step_begin(const struct grammar *grammar, struct stack_table *table);
/* Adds the frames that the frame `number` of a rule becomes by `byte`. */
void rule_step(const struct grammar *grammar, struct stack_table *table, uint32_t number,
               uint8_t byte, struct stack_list *out);
/* The same of a frame like `number`, but in `state`, and without the rule's own steps by bytes. */
void rule_step_leave(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                     uint32_t state, uint8_t byte, struct stack_list *out);
bool rule_step_may_end(const struct grammar *grammar, const struct stack_table *table,
                       uint32_t number);
/* Nothing may follow a frame but the end. */
bool rule_step_must_end(const struct grammar *grammar, const struct stack_table *table,
                        uint32_t number);

/* Whether a state is left by a byte: by a call, a value, or the rule's end. */
bool rule_step_leaves(const struct grammar *grammar, const struct grammar_rule *rule,
                      uint32_t state, uint8_t byte);

/* ---- added tokens ---- */

/* Adds what the frame becomes by the token `token`. */
void rule_step_token(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                     uint32_t token, struct stack_list *out);

/* The continuations that frames allow, collected one frame after the other. */
struct next_tokens {
    uint64_t *mask; /* gets the tokens' bits; NULL: not needed */
    bool bytes;     /* ordinary tokens may come */
    uint32_t token; /* the only added token; TOKEN_NONE: there is none */
    bool several;   /* there are others */
};
void rule_step_look(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                    struct next_tokens *outlook);

/* ---- masks: token_mask.c ---- */

/* NULL: no memory. */
struct mask_memory *token_mask_memory_create(struct arena *arena, const struct token_trie *trie);
/* Whole masks, by what they are of. */
bool token_mask_memory_find(struct mask_memory *memory, uint64_t content, uint64_t *mask);
void token_mask_memory_keep(struct mask_memory *memory, uint64_t content, const uint64_t *mask);

/* Adds to `mask` what the threads let through. Frames that it puts are left to the caller. */
void token_mask_fill(const struct grammar *grammar, struct stack_table *table,
                     const struct stack_list *threads, uint64_t *mask);

#endif

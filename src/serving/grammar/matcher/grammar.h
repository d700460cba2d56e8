/* SPDX-License-Identifier: Apache-2.0
 * The matcher's internals are a grammar prepared for a vocabulary, and the functions that advance a
 * pushdown stack by one byte. A grammar is ambiguous in general, so one byte can turn a stack into
 * several. The matcher follows all of them in parallel.
 *
 * A leaf is the DFA that matches a string, a key or a number. Equal leaves share a number, so they
 * share cache entries.
 *
 * Whitespace between the parts of a JSON text is bounded, so that a model cannot emit it for ever:
 * up to two spaces or tabs, or one or two line ends (\n or \r\n) and then up to 40 spaces or tabs.
 * Whitespace around a whole value is up to the rules.
 */
#pragma once

#include "serving/grammar/matcher/stack_table.h"
#include "serving/grammar/matcher/string_content.h"
#include "serving/grammar/matcher/token_trie.h"
#include "serving/grammar/rules/grammar_program.h"

#define GRAMMAR_STACKS_MAX 512 /* stacks in parallel; further ones are dropped */

/* Position in an array or object. */
enum stack_where {
    WHERE_FIRST, /* after [ or { */
    WHERE_NEXT,  /* after a comma */
    WHERE_COLON, /* after a key */
    WHERE_VALUE, /* after a colon */
    WHERE_AFTER  /* after a value */
};

enum stack_flag {
    STACK_TRACKED = 1,    /* strings, keys, numbers: their content is hashed */
    STACK_CLOSES = 1,     /* objects: the brace may close */
    STACK_OPEN = 2,       /* objects: a key that is not a listed property may come */
    STACK_ORDERED_OUT = 4 /* ordered objects: such a key has been read */
};

struct mask_cache;

struct grammar {
    const struct grammar_rule *rules;    /* rule 0 is the start symbol */
    const struct shape_program *program; /* shapes of all JSON values */
    bool has_tokens;                     /* rules have edges by added tokens */
    const struct token_trie *trie;
    const struct text_leaf *leaves; /* [leaf_count] */
    uint32_t leaf_count;
    const uint32_t *number_leaf, *string_leaf; /* [alternative_count] indices into leaves */
    const uint32_t *key_leaf;                  /* [object_count] */
    const uint32_t *listed_leaf;               /* [array_count] */
    struct mask_cache *masks;
};

/* Fills in the parts of a grammar that depend on the shapes only. Returns STATUS_NO_MEMORY if the
 * arena is full. */
enum status grammar_read(struct arena *arena, const struct shape_program *program,
                         struct grammar *out) MUST_USE;

/* Stacks, each given by its top frame. */
struct stack_list {
    uint32_t count;
    uint32_t frames[GRAMMAR_STACKS_MAX];
};

/* Adds a stack, given by its top frame, unless it is listed already. Ignores STACK_NONE. */
static inline void grammar_add_stack(struct stack_list *out, uint32_t frame) {
    if (frame == STACK_NONE || out->count == GRAMMAR_STACKS_MAX) return;
    for (uint32_t i = 0; i < out->count; i++)
        if (out->frames[i] == frame) return;
    out->frames[out->count++] = frame;
}

/* Advances the stack with the top frame `number` by a byte. Adds the resulting stacks, none if the
 * byte is not allowed. */
void grammar_step(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                  uint8_t byte, struct stack_list *out);
/* Returns `number` if the top frame belongs to a rule. If the top frame is a JSON number that may
 * end and the frame below belongs to a rule, returns that frame. Otherwise returns STACK_NONE. */
uint32_t grammar_rule_below(const struct grammar *grammar, const struct stack_table *table,
                            uint32_t number);

/* ---- values: value_step.c ---- */

/* Adds the stacks after the first byte of a value of a shape, on top of the frame `below`. */
void value_step_begin(const struct grammar *grammar, struct stack_table *table, uint32_t shape,
                      uint8_t byte, uint32_t below, struct stack_list *out);
/* Adds the stacks after the end of a value. `hash` identifies the value if the array below has
 * uniqueItems. */
void value_step_end(const struct grammar *grammar, struct stack_table *table, uint32_t below,
                    uint64_t hash, struct stack_list *out);
void value_step_literal(const struct grammar *grammar, struct stack_table *table,
                        const struct stack_frame *frame, uint8_t byte, struct stack_list *out);
void value_step_string(const struct grammar *grammar, struct stack_table *table,
                       const struct stack_frame *frame, uint8_t byte, struct stack_list *out);
/* Adds the stacks in which `byte` continues the number to `out`, and the stacks in which the number
 * has ended before `byte` to `ended`. */
void value_step_number(const struct grammar *grammar, struct stack_table *table,
                       const struct stack_frame *frame, uint8_t byte, struct stack_list *out,
                       struct stack_list *ended);
void value_step_array(const struct grammar *grammar, struct stack_table *table,
                      const struct stack_frame *frame, uint8_t byte, struct stack_list *out);
/* Sets *out to the filter of a key, or of a string in an array with listed items. Returns false if
 * none is needed. */
bool value_step_filter(const struct grammar *grammar, const struct stack_table *table,
                       const struct stack_frame *leaf, struct key_filter *out);

/* ---- objects: object_step.c ---- */

/* Pushes the frame of an object after its opening brace, and returns its number. */
uint32_t object_step_begin(const struct grammar *grammar, struct stack_table *table,
                           uint32_t object, uint32_t below);
/* Advances an object by a byte that is not whitespace, a closing brace, or part of a value. */
void object_step(const struct grammar *grammar, struct stack_table *table,
                 const struct stack_frame *frame, uint8_t byte, struct stack_list *out);
bool object_step_may_close(const struct stack_frame *frame);
/* Adds the stacks after the end of a key. `state` is the state of its DFA, `number` the frame of
 * the object. */
void object_step_end_key(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                         uint32_t state, uint64_t hash, struct stack_list *out);
/* The filter of the next key. */
void object_step_filter(const struct grammar *grammar, const struct stack_frame *frame,
                        struct key_filter *out);
/* True if `state` of the keys' DFA accepts a key that is not one of the listed properties. */
bool object_step_key_is_open(const struct grammar *grammar, const struct stack_frame *object_frame,
                             uint32_t state);
/* The shape of the next value, and the frame below it. */
uint32_t object_step_value(const struct grammar *grammar, const struct stack_frame *frame);
uint32_t object_step_behind_value(struct stack_table *table, const struct stack_frame *frame);

/* ---- rules: rule_step.c ---- */

/* The stack at the start of a text, or STACK_NONE if the table is full. */
uint32_t rule_step_begin(const struct grammar *grammar, struct stack_table *table);
/* Advances a stack with a rule on top by a byte. */
void rule_step(const struct grammar *grammar, struct stack_table *table, uint32_t number,
               uint8_t byte, struct stack_list *out);
/* The same for a copy of the frame `number` in `state`, but without the transitions of the rule's
 * own DFA: only by calls, values and the end of the rule. */
void rule_step_leave(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                     uint32_t state, uint8_t byte, struct stack_list *out);
bool rule_step_may_end(const struct grammar *grammar, const struct stack_table *table,
                       uint32_t number);
/* True if only the end of the text may follow. */
bool rule_step_must_end(const struct grammar *grammar, const struct stack_table *table,
                        uint32_t number);

/* True if a byte may leave the rule's DFA in `state` by a call, a value, or the rule's end. */
bool rule_step_leaves(const struct grammar *grammar, const struct grammar_rule *rule,
                      uint32_t state, uint8_t byte);

/* ---- added tokens ---- */

/* Advances a stack by an added token. */
void rule_step_token(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                     uint32_t token, struct stack_list *out);

/* The tokens that several stacks allow next. */
struct next_tokens {
    uint64_t *mask; /* receives the added tokens; NULL: not needed */
    bool bytes;     /* ordinary tokens are allowed */
    uint32_t token; /* an added token that is allowed; TOKEN_NONE: none */
    bool several;   /* more than one is allowed */
};
/* Adds the tokens that the stack `number` allows. */
void rule_step_look(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                    struct next_tokens *allowed);

/* ---- masks: token_mask.c ---- */

/* A cache of whole masks by the content hash of a position. Returns NULL if memory is out. */
struct mask_cache *token_mask_cache_create(struct arena *arena, const struct token_trie *trie);
bool token_mask_cache_find(struct mask_cache *memory, uint64_t content, uint64_t *mask);
void token_mask_cache_put(struct mask_cache *memory, uint64_t content, const uint64_t *mask);

/* Adds the tokens that the stacks allow to `mask`. The caller removes the frames that are added to
 * the table. */
void token_mask_fill(const struct grammar *grammar, struct stack_table *table,
                     const struct stack_list *stacks, uint64_t *mask);

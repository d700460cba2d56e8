/* SPDX-License-Identifier: Apache-2.0
 * Deterministic automata over bytes: sets of texts in UTF-8. They are made of patterns, formats,
 * literals and numbers, and of one another. An automaton never changes. It is in the arena
 * in which it was made.
 *
 * Every state but 0 is live: some text leads from it to an accepting state. So a text is the start
 * of a member exactly while its state is not 0.
 */
#ifndef SERVING_GRAMMAR_AUTOMATA_AUTOMATON_H
#define SERVING_GRAMMAR_AUTOMATA_AUTOMATON_H

#include "base/arena.h"
#include "base/bytes.h"

struct automaton {
    uint32_t state_count; /* with the dead state 0 */
    uint32_t start;       /* 0: no text at all is a member */
    uint32_t class_count;
    uint8_t classes[256];          /* of a byte; bytes of a class do the same in every state */
    const uint32_t *next;          /* [state_count][class_count] */
    const uint32_t *labels;        /* [state_count] 0: not accepting */
    const uint64_t *member_counts; /* [state_count] texts that lead from a state to the end of a
                                    * member, UINT64_MAX: or more; NULL: there is no end of them
                                    * from any */
};

static inline uint32_t automaton_step(const struct automaton *automaton, uint32_t state,
                                      uint8_t byte) {
    return automaton->next[(size_t)state * automaton->class_count + automaton->classes[byte]];
}

/* Limits of the work to make automata. Everything below returns STATUS_TOO_LARGE when one is used
 * up, STATUS_NO_MEMORY when an arena is full. */
struct automaton_work {
    struct arena *arena;   /* results */
    struct arena *scratch; /* cleared after each call, for no other use */
    uint32_t states_max;   /* of any automaton on the way */
    uint64_t steps_left;   /* about one for each state and class looked at */
};

/* The texts that an ECMA-262 pattern (with the flag u, as JSON Schema has it) is found in:
 * anywhere, unless ^ and $ say otherwise. Label 1. STATUS_INVALID: no pattern;
 * STATUS_UNSUPPORTED: what no automaton holds (back references); the reason in `error`. */
enum status automaton_of_pattern(struct automaton_work *work, struct bytes pattern,
                                 const struct automaton **out, struct error *error) MUST_USE;
/* The same for GBNF and for whole regular expressions (Rust's and Python's syntax as far as they
 * agree): the text matches from its first to its last byte. */
enum status automaton_of_regex(struct automaton_work *work, struct bytes pattern,
                               const struct automaton **out, struct error *error) MUST_USE;

/* Exactly these texts; the label of the i-th is i + 1. No two are equal. */
enum status automaton_of_texts(struct automaton_work *work, const struct bytes *texts, size_t count,
                               const struct automaton **out) MUST_USE;
/* All texts of UTF-8 with so many characters; UINT32_MAX: no bound. Label 1. */
enum status automaton_of_lengths(struct automaton_work *work, uint32_t min, uint32_t max,
                                 const struct automaton **out) MUST_USE;

enum automaton_operation {
    AUTOMATON_AND,     /* texts of both, with the label of the first */
    AUTOMATON_WITHOUT, /* texts of the first alone */
    AUTOMATON_OR       /* texts of any; the label is the first one's where it accepts */
};

enum status automaton_combine(struct automaton_work *work, enum automaton_operation operation,
                              const struct automaton *a, const struct automaton *b,
                              const struct automaton **out) MUST_USE;
/* The texts of any of them. Each set of languages that have a text in common gets a label of its
 * own: bit i of (*sets_out)[label - 1] is the i-th language. count <= 64. */
enum status automaton_join(struct automaton_work *work, const struct automaton *const *languages,
                           size_t count, const struct automaton **out, const uint64_t **sets_out,
                           uint32_t *set_count_out) MUST_USE;
/* The same states with other labels: new_labels[label - 1]; 0 takes the text away. */
enum status automaton_relabel(struct automaton_work *work, const struct automaton *a,
                              const uint32_t *new_labels, const struct automaton **out) MUST_USE;

/* Whether every character (in UTF-8) leads from the state back to it. */
bool automaton_takes_all(const struct automaton *automaton, uint32_t state);
/* Whether some byte leads on from the state. */
bool automaton_goes_on(const struct automaton *automaton, uint32_t state);
/* A copy in `arena`; NULL: no memory. */
struct automaton *automaton_copy(struct arena *arena, const struct automaton *automaton);

bool automaton_accepts(const struct automaton *automaton, struct bytes text, uint32_t *label_out);
/* Members, UINT64_MAX: more than that or without end. */
uint64_t automaton_member_count(const struct automaton *automaton);
/* The index'th member in the order of bytes, of a finite automaton. False: no room in `out`. */
bool automaton_member(const struct automaton *automaton, uint64_t index, char *out, size_t capacity,
                      size_t *count_out) MUST_USE;

#endif

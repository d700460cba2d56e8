/* SPDX-License-Identifier: Apache-2.0
 * Deterministic finite automata (DFAs) over bytes. A DFA represents a set of UTF-8 texts, its
 * language. DFAs are built from patterns, lists of texts and lengths, and combined with the set
 * operations. A DFA is minimal and immutable. It lives in the arena that it was built in.
 *
 * State 0 is the dead state. From every other state, some text leads to an accepting state. A text
 * is therefore a prefix of a member exactly if the DFA is not in state 0 after reading it.
 */
#pragma once

#include "base/arena.h"
#include "base/bytes.h"

struct automaton {
    uint32_t state_count; /* including the dead state 0 */
    uint32_t start;       /* 0: the language is empty */
    uint32_t class_count;
    uint8_t classes[256];          /* byte -> class; bytes of a class have equal transitions */
    const uint32_t *next;          /* [state_count][class_count] */
    const uint32_t *labels;        /* [state_count] label of an accepting state, 0: not accepting */
    const uint64_t *member_counts; /* [state_count] texts accepted from a state, at most
                                    * UINT64_MAX; NULL: infinitely many from every state */
};

static inline uint32_t automaton_step(const struct automaton *automaton, uint32_t state,
                                      uint8_t byte) {
    return automaton->next[(size_t)state * automaton->class_count + automaton->classes[byte]];
}

/* Memory and limits for building DFAs. The functions below return STATUS_TOO_LARGE if a limit is
 * reached, and STATUS_NO_MEMORY if an arena is full. */
struct automaton_work {
    struct arena *arena;   /* results */
    struct arena *scratch; /* temporary memory, cleared by each call */
    uint32_t states_max;   /* for each DFA, intermediate ones included */
    uint64_t steps_left;   /* one step visits about one state and byte class */
};

/* Divides `scratch` in two: `kept` gets `quarters` quarters, `passing` the rest. If `scratch` draws
 * from a pool, both do. */
void automaton_split_scratch(struct arena *scratch, unsigned quarters, struct arena *kept_out,
                             struct arena *passing_out);

/* The DFA of the texts in which an ECMA-262 pattern (flag u, as in JSON Schema) matches somewhere;
 * ^ and $ anchor it. The label is 1. Returns, with the reason in `error`,
 * STATUS_INVALID for a syntax error, and STATUS_UNSUPPORTED if no DFA exists (back references). */
enum status automaton_of_pattern(struct automaton_work *work, struct bytes pattern,
                                 const struct automaton **out, struct error *error) MUST_USE;
/* The DFA of the texts that a regular expression (the common syntax of Rust and Python) matches as
 * a whole. Errors as above. */
enum status automaton_of_regex(struct automaton_work *work, struct bytes pattern,
                               const struct automaton **out, struct error *error) MUST_USE;

/* The DFA of exactly these texts, which must be distinct. The label of texts[i] is i + 1. */
enum status automaton_of_texts(struct automaton_work *work, const struct bytes *texts, size_t count,
                               const struct automaton **out) MUST_USE;
/* The DFA of all UTF-8 texts of min to max characters, with label 1. max UINT32_MAX: unbounded. */
enum status automaton_of_lengths(struct automaton_work *work, uint32_t min, uint32_t max,
                                 const struct automaton **out) MUST_USE;

enum automaton_operation {
    AUTOMATON_AND,     /* intersection; labels of the first */
    AUTOMATON_WITHOUT, /* difference: the first minus the second */
    AUTOMATON_OR       /* union; labels of the first where it accepts, else of the second */
};

enum status automaton_combine(struct automaton_work *work, enum automaton_operation operation,
                              const struct automaton *a, const struct automaton *b,
                              const struct automaton **out) MUST_USE;
/* The union of count <= 64 languages. A label identifies the set of languages that contain the
 * text: bit i of (*sets_out)[label - 1] stands for languages[i]. */
enum status automaton_join(struct automaton_work *work, const struct automaton *const *languages,
                           size_t count, const struct automaton **out, const uint64_t **sets_out,
                           uint32_t *set_count_out) MUST_USE;
/* Replaces each label by new_labels[label - 1]; 0 removes the texts with that label. */
enum status automaton_relabel(struct automaton_work *work, const struct automaton *a,
                              const uint32_t *new_labels, const struct automaton **out) MUST_USE;

/* True if every UTF-8 character leads from the state back to itself. */
bool automaton_takes_all(const struct automaton *automaton, uint32_t state);
/* True if the state has a transition to a live state. */
bool automaton_goes_on(const struct automaton *automaton, uint32_t state);
/* Copies a DFA into `arena`. Returns NULL if memory is out. */
struct automaton *automaton_copy(struct arena *arena, const struct automaton *automaton);

/* True if the DFA accepts a text. *label_out is then its label. */
bool automaton_accepts(const struct automaton *automaton, struct bytes text, uint32_t *label_out);
/* The number of texts in the language. UINT64_MAX: at least that many, or infinitely many. */
uint64_t automaton_member_count(const struct automaton *automaton);
/* Writes the member at `index` in bytewise order. The language must be finite. Returns false if
 * `out` is too small. */
bool automaton_member(const struct automaton *automaton, uint64_t index, char *out, size_t capacity,
                      size_t *count_out) MUST_USE;

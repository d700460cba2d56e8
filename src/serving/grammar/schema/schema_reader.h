/* SPDX-License-Identifier: Apache-2.0
 * The reader of keywords. It is at one subschema and narrows a set of values keyword by keyword. A
 * keyword that applies only to kinds of values that are already excluded is skipped, so it cannot
 * cause a refusal.
 */
#pragma once

#include "serving/grammar/schema/schema_state.h"

struct schema_reader {
    struct schema_state *state;
    uint32_t subschema;
    const struct tree *tree;
    enum schema_draft draft; /* keywords of later drafts are ignored */
    struct value_set set;    /* the values that the keywords read so far allow */
};

/* Returns the value of a keyword, or NULL. Messages name this keyword from now on. */
const struct tree *schema_reader_keyword(struct schema_reader *reader, const char *keyword);
/* Returns STATUS_INVALID with the message "must be <what>, is ...". */
static inline enum status MUST_USE read_wrong_kind(struct schema_reader *reader,
                                                   const struct tree *value, const char *what) {
    return state_error(reader->state, STATUS_INVALID, "must be %s, is %s", what, tree_name(value));
}
/* The conjunction of a subschema below the current keyword. `key` is its property, for messages. */
enum status schema_reader_child(struct schema_reader *reader, struct bytes key,
                                const struct tree *tree, uint32_t *conjunction_out) MUST_USE;
/* The values that such a subschema allows. */
enum status schema_reader_branch(struct schema_reader *reader, struct bytes key,
                                 const struct tree *tree, struct value_set *out) MUST_USE;
/* Reads a keyword with a count as its value. Counts above UINT32_MAX become UINT32_MAX. *out is
 * unchanged if the keyword is missing. */
enum status schema_reader_count(struct schema_reader *reader, const char *keyword,
                                uint32_t *out) MUST_USE;

/* Sorts words and removes duplicates. Returns the new count. */
uint32_t schema_reader_sort(uint32_t *words, uint32_t count);

/* SPDX-License-Identifier: Apache-2.0
 * Reading a schema's keywords, and what the files that do it share. A keyword that cannot bind any
 * value left is not looked at; so it is refused only where it says something.
 */
#ifndef SERVING_GRAMMAR_SCHEMA_SCHEMA_READER_H
#define SERVING_GRAMMAR_SCHEMA_SCHEMA_READER_H

#include "serving/grammar/schema/schema_state.h"

struct schema_readering_ {
    struct schema_state *state;
    uint32_t subschema;
    const struct tree *tree;
    enum schema_draft draft; /* keywords of later drafts say nothing */
    struct value_set set;    /* what the keywords so far leave */
};

/* The value of a keyword, which is what is worked on from now on; NULL: it is not there. */
const struct tree *schema_reader_keyword(struct schema_readering_ *reader, const char *keyword);
/* STATUS_INVALID: "must be <what>, is ..." */
static inline enum status MUST_USE read_wrong_kind(struct schema_readering_ *reader,
                                                   const struct tree *value, const char *what) {
    return state_error(reader->state, STATUS_INVALID, "must be %s, is %s", what, tree_name(value));
}
/* The conjunction that a schema below the keyword worked on makes; `key` is its place there. */
enum status schema_reader_child(struct schema_readering_ *reader, struct bytes key,
                                const struct tree *tree, uint32_t *claims_out) MUST_USE;
/* Reads the set of that schema. */
enum status schema_reader_branch(struct schema_readering_ *reader, struct bytes key,
                                 const struct tree *tree, struct value_set *out) MUST_USE;
/* A count; UINT32_MAX is beyond all counts. Leaves *out alone where the keyword is not there. */
enum status schema_reader_count(struct schema_readering_ *reader, const char *keyword,
                                uint32_t *out) MUST_USE;

/* A text as JSON spells it, in the arena. */
enum status schema_constant_read_number_text(struct schema_readering_ *reader,
                                             const struct tree *value, struct bytes *out) MUST_USE;
enum status
schema_scalars_read_scalars(struct schema_readering_ *reader) MUST_USE; /* schema_scalars.c */
enum status schema_constant_read_constant(struct schema_readering_ *reader,
                                          const struct tree *value,
                                          struct value_set *out) MUST_USE; /* schema_constant.c */
enum status
schema_constant_read_constants(struct schema_readering_ *reader) MUST_USE; /* enum and const */
enum status
schema_containers_read_arrays(struct schema_readering_ *reader) MUST_USE; /* schema_containers.c */
enum status schema_containers_read_objects(struct schema_readering_ *reader) MUST_USE;
enum status schema_containers_read_unevaluated(struct schema_readering_ *reader) MUST_USE;

void schema_reader_words_sort(uint32_t *words, uint32_t count);
/* A sorted list without the second of equal ones. */
uint32_t schema_reader_words_unique(uint32_t *words, uint32_t count);

#endif

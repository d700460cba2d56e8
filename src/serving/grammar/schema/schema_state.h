/* SPDX-License-Identifier: Apache-2.0
 * The state shared by the files that compile a schema. A schema is read into a value set. For each
 * kind of value it contains scalars as one language, and arrays and objects as a union of array
 * sets and object sets. The operations and, or and without work on these. The constraint of an item
 * or a property is a set of conjunction, which is read only when needed. So recursion ends, because the
 * number of conjunction is finite. A literal is a schema of the document, a constant of it, or the
 * negation of one of them.
 */
#ifndef SERVING_GRAMMAR_SCHEMA_SCHEMA_STATE_H
#define SERVING_GRAMMAR_SCHEMA_SCHEMA_STATE_H

#include "base/tree.h"
#include "serving/grammar/automata/language.h"
#include "serving/grammar/schema/schema.h"

enum conjunction_fixed {
    CONJUNCTION_FALSE, /* nothing fulfils them */
    CONJUNCTION_TRUE,  /* everything does */
    CONJUNCTION_FIXED_COUNT
};

/* Claims of items at the indices from..to - 1; to UINT32_MAX: to the end. */
struct item_rule {
    uint32_t from, to;
    uint32_t conjunction;
    bool evaluates; /* of unevaluatedItems */
};

struct array_set {
    const struct item_rule *rules;
    uint32_t rule_count;
    uint32_t length_min, length_max;
    bool unique;
    bool counts; /* of the items from index counted_from on, as many fulfil the literal counted */
    uint32_t counted_from, counted, counted_min, counted_max;
};

/* Which keys: those of the names, languages and key_sets, or (negated) all others. */
struct key_set {
    const uint32_t *names, *languages, *key_sets; /* names ascend */
    uint32_t name_count, language_count, key_set_count;
    bool negated;
};

struct key_rule {
    uint32_t key_set;
    uint32_t conjunction;
    bool evaluates; /* of unevaluatedProperties */
};

struct key_dependency { /* where the property `name` is, there is `other` */
    uint32_t name, other;
};

struct object_set {
    const struct key_rule *rules;
    const uint32_t *required; /* names, ascending */
    const struct key_dependency *dependencies;
    uint32_t rule_count, required_count, dependency_count;
    uint32_t count_min, count_max;
};

/* A union of array sets or of object sets, in the arena. */
struct set_list {
    const void **sets;
    uint32_t count, capacity;
};

struct value_set {
    uint32_t bits;           /* of shape_kind: null, true, false */
    uint32_t number, string; /* languages */
    bool incomplete; /* strings are left out, for a format's sake (text_format_is_incomplete) */
    struct set_list arrays, objects;
};

enum reading { READING_NOT_BEGUN, READING_UNDER_WAY, READING_DONE };

struct subschema {
    const struct tree *tree;
    uint32_t resource;
    uint32_t parent; /* the subschema around it; UINT32_MAX: none */
    const char *keyword;
    struct bytes key;
    bool constant; /* the value itself, not a schema */
    enum reading reading;
    struct value_set set;
};

struct conjunction {
    const uint32_t *literals; /* 2 * subschema, + 1 where it must not be fulfilled; ascending */
    uint32_t count;
    enum reading reading;
    const struct value_set *set;
};

enum schema_draft { DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019_09, DRAFT_2020_12 };

struct schema_resource { /* a document or a part of it with an address of its own */
    struct bytes address;
    const struct tree *tree;
    enum schema_draft draft; /* as $schema says, else that of the resource around it */
};

struct schema_anchor {
    uint32_t resource;
    struct bytes name;
    const struct tree *tree;
    bool dynamic;
};

struct schema_state {
    struct arena *arena; /* of all that is only needed meanwhile */
    struct automaton_work work;
    struct language_table languages;
    const struct schema_limits *limits;
    const struct schema_options *options;
    struct error *error;

    uint32_t at; /* the subschema and its keyword that are worked on, for messages */
    const char *keyword;
    uint32_t depth;

    struct map known;
    struct bytes *names;
    struct key_set *key_sets;
    struct conjunction *conjunctions;
    struct subschema *subschemas;
    struct schema_resource *resources;
    struct schema_anchor *anchors;
    uint32_t name_count, name_capacity, key_set_count, key_set_capacity, conjunction_count,
        conjunction_capacity, subschema_count, subschema_capacity, resource_count,
        resource_capacity, anchor_count, anchor_capacity;
    uint32_t compared_count; /* conjunction that were made to compare object sets alone */
    bool unevaluated;        /* some schema speaks of unevaluated items or properties */
    struct bytes ignored;

    uint32_t number_any;   /* languages: all numbers, */
    uint32_t number_plain; /* and all without an exponent */
    uint32_t number_broken, number_spelt,
        whole_spelt; /* value_set_spell's; LANGUAGE_NONE: not made yet */
    struct array_set array_any;
    struct object_set object_any;
    const void *any_sets[2]; /* the two */
    struct value_set value_any, value_none;
};

/* Writes "#/place/keyword: ..." and returns `status`. A macro's hand: see state_error. */
size_t schema_state_error_write(struct schema_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define state_error(state, status, ...)                                                            \
    error_returned(schema_state_error_write((state), __VA_ARGS__), (status))

/* The message for a status that came from automata or memory. */
void schema_state_explain(struct schema_state *state, enum status status);
static inline enum status MUST_USE state_failed(struct schema_state *state, enum status status) {
    schema_state_explain(state, status);
    return status;
}
/* Spends steps; STATUS_TOO_LARGE. */
enum status schema_state_spend(struct schema_state *state, uint64_t steps) MUST_USE;
/* An array of elements in the arena, with room for one more. */
enum status schema_state_room(struct schema_state *state, void *array, uint32_t count,
                              uint32_t *capacity, size_t element_bytes) MUST_USE;

/* language_combine, with a message where it fails. */
enum status schema_state_combine(struct schema_state *state, enum automaton_operation operation,
                                 uint32_t a, uint32_t b, uint32_t *out) MUST_USE;
/* A copy in the arena. */
enum status schema_state_keep(struct schema_state *state, const void *item, size_t bytes,
                              void *out) MUST_USE;

/* Numbers of names, key_sets, subschemas and sets of conjunction; equal ones share theirs. */
enum status schema_state_name(struct schema_state *state, struct bytes text,
                              uint32_t *out) MUST_USE;
/* Languages of patterns and formats, each made once. */
enum status schema_state_pattern(struct schema_state *state, struct bytes pattern,
                                 uint32_t *language_out) MUST_USE;
enum status schema_state_format(struct schema_state *state, struct bytes name, bool brief,
                                uint32_t *language_out) MUST_USE;
enum status schema_state_key_set(struct schema_state *state, const struct key_set *key_set,
                                 uint32_t *out) MUST_USE;
enum status schema_state_key_set_of_name(struct schema_state *state, uint32_t name,
                                         uint32_t *out) MUST_USE;
enum status schema_state_subschema(struct schema_state *state, const struct subschema *subschema,
                                   uint32_t *out) MUST_USE;
enum status schema_state_conjunction(struct schema_state *state, const uint32_t *conjunction,
                                     uint32_t count, uint32_t *out) MUST_USE;
enum status schema_state_conjunction_and(struct schema_state *state, uint32_t a, uint32_t b,
                                         uint32_t *out) MUST_USE;
/* The contrary of a literal as a set of conjunction. */
enum status schema_state_conjunction_not(struct schema_state *state, uint32_t literal,
                                         uint32_t *out) MUST_USE;

/* The values that satisfy a set of conjunction. */
enum status schema_state_conjunction_read(struct schema_state *state, uint32_t conjunction,
                                          const struct value_set **out) MUST_USE;
/* *out: no value satisfies them, as far as can be determined yet. Fails only if compilation cannot
 * continue. */
enum status schema_state_conjunction_is_empty(struct schema_state *state, uint32_t conjunction,
                                              bool *out) MUST_USE;

/* schema_reader.c: what a schema or a constant holds. */
enum status schema_reader_source_read(struct schema_state *state, uint32_t subschema,
                                      struct value_set *out) MUST_USE;

/* schema_refs.c */
enum status schema_refs_collect(struct schema_state *state, const struct tree *root) MUST_USE;
/* The subschema that a $ref in `from` leads to. */
enum status schema_refs_find(struct schema_state *state, uint32_t from, struct bytes reference,
                             uint32_t *source_out) MUST_USE;
/* The resource of an object with a parent in `resource`. */
uint32_t schema_refs_resource_of(const struct schema_state *state, const struct tree *tree,
                                 uint32_t resource);

#endif

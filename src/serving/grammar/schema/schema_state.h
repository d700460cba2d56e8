/* SPDX-License-Identifier: Apache-2.0
 * The state and the tables of a schema's compilation.
 *
 * A schema is read into a value set. The set has one language of numbers, one language of strings,
 * a union of array sets and a union of object sets. Keywords become intersections, unions and
 * differences of value sets.
 *
 * Array sets require conjunctions of their items, and object sets of their properties. A
 * conjunction is a list of literals. A literal is a subschema of the document (or a JSON value of
 * enum or const), or the negation of one. A conjunction is read into a value set only when needed.
 * Recursive schemas terminate, because there are finitely many conjunctions and equal ones share a
 * number.
 */
#pragma once

#include "base/tree.h"
#include "serving/grammar/automata/language.h"
#include "serving/grammar/schema/schema.h"

enum conjunction_fixed {
    CONJUNCTION_FALSE, /* no value satisfies it */
    CONJUNCTION_TRUE,  /* every value satisfies it */
    CONJUNCTION_FIXED_COUNT
};

/* A requirement on the items at indices [from, to). `to` UINT32_MAX: all from `from` on. */
struct item_rule {
    uint32_t from, to;
    uint32_t conjunction;
    bool evaluates; /* counts as evaluated for unevaluatedItems */
};

struct array_set {
    const struct item_rule *rules;
    uint32_t rule_count;
    uint32_t length_min, length_max;
    bool unique;
    /* contains: counted_min to counted_max items from index counted_from on satisfy `counted` */
    bool counts;
    uint32_t counted_from, counted, counted_min, counted_max;
};

/* A set of property names: the listed names, and the names in the languages and in the other key
 * sets. If negated, all other names. */
struct key_set {
    const uint32_t *names, *languages, *key_sets; /* names are sorted */
    uint32_t name_count, language_count, key_set_count;
    bool negated;
};

struct key_rule {
    uint32_t key_set;
    uint32_t conjunction;
    bool evaluates; /* counts as evaluated for unevaluatedProperties */
};

struct key_dependency { /* dependentRequired: the property `name` requires `other` */
    uint32_t name, other;
};

struct object_set {
    const struct key_rule *rules;
    const uint32_t *required; /* names, sorted */
    const struct key_dependency *dependencies;
    uint32_t rule_count, required_count, dependency_count;
    uint32_t count_min, count_max;
};

/* A union of array sets or of object sets. */
struct set_list {
    const void **sets;
    uint32_t count, capacity;
};

struct value_set {
    uint32_t bits;           /* enum shape_kind: null, true, false */
    uint32_t number, string; /* numbers of languages */
    bool incomplete; /* strings are missing because of a format, see text_format_is_incomplete */
    struct set_list arrays, objects;
};

static inline bool value_is_none(const struct value_set *set) {
    return set->bits == 0 && set->number == LANGUAGE_NONE && set->string == LANGUAGE_NONE &&
           set->arrays.count == 0 && set->objects.count == 0;
}

enum reading { READING_NOT_BEGUN, READING_UNDER_WAY, READING_DONE };

struct subschema {
    const struct tree *tree;
    uint32_t resource;
    uint32_t parent; /* the enclosing subschema; UINT32_MAX: none */
    const char *keyword;
    struct bytes key;
    bool constant; /* tree is a value of enum or const, not a schema */
    enum reading reading;
    struct value_set set;
};

struct conjunction {
    const uint32_t *literals; /* 2 * subschema, + 1 if negated; sorted */
    uint32_t count;
    enum reading reading;
    const struct value_set *set;
};

enum schema_draft { DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019_09, DRAFT_2020_12 };

struct schema_resource { /* the document, or a part of it with its own $id */
    struct bytes address;
    const struct tree *tree;
    enum schema_draft draft; /* from $schema, or inherited from the enclosing resource */
};

struct schema_anchor {
    uint32_t resource;
    struct bytes name;
    const struct tree *tree;
    bool dynamic;
};

struct schema_state {
    /* Reads the subschemas of a conjunction (schema_keywords_read). It is a callback, because set
     * operations must know if a conjunction is empty, and reading one needs set operations. */
    enum status (*read)(struct schema_state *state, uint32_t conjunction, struct value_set *out);
    struct arena *arena; /* temporary memory of the compilation */
    struct automaton_work work;
    struct language_table languages;
    const struct schema_limits *limits;
    const struct schema_options *options;
    struct error *error;

    uint32_t at; /* the current subschema and keyword, for messages */
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
    uint32_t compared_count; /* conjunctions created only to compare object sets */
    bool unevaluated;        /* the document uses unevaluatedItems or unevaluatedProperties */
    struct bytes ignored;

    uint32_t number_any;   /* language: all numbers */
    uint32_t number_plain; /* language: all numbers without exponent */
    /* used by value_set_spell; LANGUAGE_NONE: not built yet */
    uint32_t number_broken, number_spelt, whole_spelt;
    struct array_set array_any;
    struct object_set object_any;
    const void *any_sets[2]; /* array_any, object_any */
    struct value_set value_any, value_none;
};

/* Writes "#/path/keyword: ..." as the error message. state_error also returns a status. */
size_t schema_state_error_write(struct schema_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define state_error(state, status, ...)                                                            \
    error_returned(schema_state_error_write((state), __VA_ARGS__), (status))

/* Writes the message for STATUS_TOO_LARGE or STATUS_NO_MEMORY. */
void schema_state_explain(struct schema_state *state, enum status status);
static inline enum status MUST_USE state_failed(struct schema_state *state, enum status status) {
    schema_state_explain(state, status);
    return status;
}
/* Uses up steps of the limit. Returns STATUS_TOO_LARGE if too few are left. */
enum status schema_state_spend(struct schema_state *state, uint64_t steps) MUST_USE;
/* Grows an array so that one more element fits (arena_reserve). */
enum status schema_state_room(struct schema_state *state, void *array, uint32_t count,
                              uint32_t *capacity, size_t element_bytes) MUST_USE;

/* language_combine, with an error message. */
enum status schema_state_combine(struct schema_state *state, enum automaton_operation operation,
                                 uint32_t a, uint32_t b, uint32_t *out) MUST_USE;
/* Copies an item into the arena and sets the pointer that `out` points to. */
enum status schema_state_keep(struct schema_state *state, const void *item, size_t bytes,
                              void *out) MUST_USE;

/* The functions below look up or add an entry of a table. Equal entries share a number. */
enum status schema_state_name(struct schema_state *state, struct bytes text,
                              uint32_t *out) MUST_USE;
/* The language of a pattern or a format. */
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
/* The number of a conjunction of literals, which must be in ascending order. */
enum status schema_state_conjunction(struct schema_state *state, const uint32_t *conjunction,
                                     uint32_t count, uint32_t *out) MUST_USE;
/* Adds a subschema. *conjunction_out is the conjunction that requires it. */
enum status schema_state_require(struct schema_state *state, const struct subschema *subschema,
                                 uint32_t *conjunction_out) MUST_USE;
enum status schema_state_conjunction_and(struct schema_state *state, uint32_t a, uint32_t b,
                                         uint32_t *out) MUST_USE;
/* The conjunction that requires the negation of a literal. */
enum status schema_state_conjunction_not(struct schema_state *state, uint32_t literal,
                                         uint32_t *out) MUST_USE;

/* The values that satisfy a conjunction, read when first needed. */
enum status schema_state_conjunction_read(struct schema_state *state, uint32_t conjunction,
                                          const struct value_set **out) MUST_USE;
/* Sets *out if no value satisfies a conjunction, as far as can be determined now. Fails only if the
 * compilation cannot continue. */
enum status schema_state_conjunction_is_empty(struct schema_state *state, uint32_t conjunction,
                                              bool *out) MUST_USE;

/* ---- schema_refs.c ---- */

/* Registers all resources ($id) and anchors of the document. */
enum status schema_refs_collect(struct schema_state *state, const struct tree *root) MUST_USE;
/* The subschema that a $ref in `from` refers to. */
enum status schema_refs_find(struct schema_state *state, uint32_t from, struct bytes reference,
                             uint32_t *source_out) MUST_USE;
/* The resource of a tree that has its parent in `resource`. */
uint32_t schema_refs_resource_of(const struct schema_state *state, const struct tree *tree,
                                 uint32_t resource);

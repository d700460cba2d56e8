/* SPDX-License-Identifier: Apache-2.0
 * The values of templates, which follow Python's types. A struct value is small and copied. The
 * object that it points to is immutable, except for namespaces, loops and generators. Callers of
 * jinja_render build its variables with the functions at the end of this file.
 *
 * Every byte of a text has an origin. A byte is trusted if the template's author wrote it (the
 * template's text, bos_token, eos_token), and data if it comes from users, tools or models. All
 * operations preserve origins, so that data is never tokenized as a special token.
 */
#pragma once

#include "base/arena.h"
#include "base/tree.h"

enum value_kind {
    VALUE_MISSING, /* internal: a variable without a value */
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INTEGER,
    VALUE_REAL,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_DICT,
    VALUE_RANGE,
    VALUE_VIEW, /* keys, values or items of a dict */
    VALUE_NAMESPACE,
    VALUE_GENERATOR,
    VALUE_FUNCTION,
    VALUE_METHOD,
    VALUE_MACRO,
    VALUE_LOOP,
    VALUE_KIND_COUNT
};

struct value {
    enum value_kind kind;
    uint32_t detail; /* view: enum value_view_kind; number: bytes of its spelling */
    union {
        bool truth;
        int64_t integer;
        double real;
        struct value_text *text;
        struct value_list *list; /* LIST, TUPLE */
        struct value_dict *dict; /* DICT, VIEW, NAMESPACE */
        struct value_range *range;
        struct value_undefined *undefined;
        struct value_generator *generator;
        const struct routine *function; /* jinja_machine.h */
        struct value_method *method;
        struct value_macro *macro;
        struct value_loop *loop;
    };
    const char *spelling; /* text of a number from JSON, printed verbatim; NULL: print as Python */
};

enum value_origin {
    VALUE_TRUSTED, /* special tokens in it are recognized */
    VALUE_DATA     /* always plain text */
};

struct value_text {
    const char *data;          /* UTF-8, whole characters */
    const uint8_t *marks;      /* [count] enum value_origin; NULL: all bytes have `origin` */
    struct text_builder *room; /* builder that can extend this text in place; NULL: none */
    uint64_t hash;             /* 0: not known yet */
    uint32_t count;            /* bytes */
    uint32_t length;           /* characters */
    uint8_t origin;
    bool markup; /* Markup of Python's markupsafe */
};

static inline struct bytes value_text_bytes(const struct value_text *text) {
    return (struct bytes){text->data, text->count};
}

static inline enum value_origin value_text_origin(const struct value_text *text, size_t at) {
    return (enum value_origin)(text->marks ? text->marks[at] : text->origin);
}

static inline bool value_text_equal(const struct value_text *a, const struct value_text *b) {
    return a == b || bytes_equal(value_text_bytes(a), value_text_bytes(b));
}

struct value_list {
    struct value *items;
    uint32_t count;
};

struct value_pair {
    struct value key, value;
};

struct value_dict {
    struct value_pair *pairs; /* in insertion order; keys are TEXT or INTEGER */
    uint32_t *index;          /* [index_count] 1 + place in pairs, 0: none; NULL: not built */
    uint32_t count, capacity, index_count;
};

static inline struct value value_none(void) {
    return (struct value){.kind = VALUE_NONE};
}

static inline struct value value_bool(bool truth) {
    return (struct value){.kind = VALUE_BOOL, .truth = truth};
}

static inline struct value value_integer(int64_t integer) {
    return (struct value){.kind = VALUE_INTEGER, .integer = integer};
}

static inline struct value value_real(double real) {
    return (struct value){.kind = VALUE_REAL, .real = real};
}

/* Make values that borrow `text` or the texts of the tree, which must be valid UTF-8. Return false
 * if the arena is full, or if the tree is deeper than VALUE_DEPTH_MAX. All strings of a tree, keys
 * included, are data. Its numbers are printed as they were spelled. An integer beyond 64 bits
 * counts as a real. */
#define VALUE_DEPTH_MAX 256
bool value_of_text(struct arena *arena, struct bytes text, enum value_origin origin,
                   struct value *out) MUST_USE;
bool value_of_tree(struct arena *arena, const struct tree *tree, struct value *out) MUST_USE;
/* Make a list or a dict from copies of the items or pairs. Keys must be distinct texts. */
bool value_of_items(struct arena *arena, const struct value *items, size_t count,
                    struct value *out) MUST_USE;
bool value_of_pairs(struct arena *arena, const struct value_pair *pairs, size_t count,
                    struct value *out) MUST_USE;

/* SPDX-License-Identifier: Apache-2.0
 * A rendering under way, as the evaluator (eval_*.c) and the library (filters, tests, methods,
 * functions) share it: memory, limits, failure, and what one may do with any value.
 *
 * Functions that can fail return false once machine_fail or a limit has said why; callers pass that
 * up at once. What is charged: machine_spend before work in proportion to a text or a list.
 */
#pragma once

#include "serving/jinja/values/value.h"

struct jinja_program;
struct jinja_variable;

#define MACHINE_DEPTH_MAX 1500 /* of expressions, statements, calls and values within one another */

struct jinja_machine {
    struct arena *arena;
    char *at, *end;     /* the block of the arena that is being cut up */
    size_t block_bytes; /* the next block's */
    size_t memory_left;
    uint64_t steps_left;
    uint32_t depth; /* of nested calls, values and nodes */
    uint32_t line;  /* of the statement that runs */
    enum status status;
    struct error *error;
    const char *name; /* the template's, in messages */
    int64_t unix_time;
    size_t output_bytes_max;
    const struct jinja_program *program;
    const struct jinja_variable *variables;
    size_t variable_count;
    struct text_builder *output; /* what statements write to */
};

/* ---- failing and paying ---- */

/* The reason in one line, as Python's exception words it, e.g. "'x' is undefined". Always false; a
 * macro, so that the compiler sees that. */
#define machine_fail(machine, ...) (jinja_machine_note_failure((machine), __VA_ARGS__), false)
void jinja_machine_note_failure(struct jinja_machine *machine, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Like machine_fail, for an exceeded limit. */
#define machine_exceed(machine, what) (jinja_machine_note_excess((machine), (what)), false)
void jinja_machine_note_excess(struct jinja_machine *machine, const char *what);

static inline bool machine_spend(struct jinja_machine *machine, uint64_t steps) {
    if (steps > machine->steps_left) return machine_exceed(machine, "steps");
    machine->steps_left -= steps;
    return true;
}

/* Aligned to 8, uninitialised; NULL when machine_fail's work is done. */
void *jinja_machine_take_slowly(struct jinja_machine *machine, size_t bytes);

static inline void *machine_take(struct jinja_machine *machine, size_t bytes) {
    size_t wanted = (bytes + 7) & ~(size_t)7;
    if (wanted < bytes || wanted > (size_t)(machine->end - machine->at))
        return jinja_machine_take_slowly(machine, bytes);
    char *memory = machine->at;
    machine->at += wanted;
    return memory;
}

/* The machine's depth limits the C stack: every function that may recurse enters first. Increments
 * the depth until machine_leave; false beyond MACHINE_DEPTH_MAX. */
bool jinja_machine_enter(struct jinja_machine *machine) MUST_USE;

static inline void machine_leave(struct jinja_machine *machine) {
    machine->depth--;
}

/* ---- building text ---- */

/* Starts empty (text_builder_open), never needs closing. Its origin is that of what came in. */
struct text_builder {
    struct jinja_machine *machine;
    char *data;
    uint8_t *marks; /* [capacity] enum value_origin; NULL: all of `origin` */
    size_t count, capacity;
    uint8_t origin;
    bool ascii; /* nothing but ASCII came in */
    bool is_output;
};

void text_builder_open(struct text_builder *builder, struct jinja_machine *machine);
bool text_builder_add(struct text_builder *builder, const char *data, size_t count,
                      enum value_origin origin) MUST_USE;
/* A piece of a text with the origins that its bytes have. */
bool text_builder_add_part(struct text_builder *builder, const struct value_text *text,
                           size_t start, size_t count) MUST_USE;
bool text_builder_add_text(struct text_builder *builder, const struct value_text *text) MUST_USE;
/* str() of the value, as {{ }} prints it. */
bool value_print_add_value(struct text_builder *builder, const struct value *value) MUST_USE;
/* repr() of the value. */
bool value_print_add_repr(struct text_builder *builder, const struct value *value) MUST_USE;
/* The builder's text as a value; the builder must not be used afterwards. */
bool text_builder_finish(struct text_builder *builder, bool markup, struct value *out) MUST_USE;

/* ---- making values ---- */

/* A new text: a copy of the bytes; a C string, written by us (trusted). */
bool value_make_text(struct jinja_machine *machine, const char *data, size_t count,
                     enum value_origin origin, struct value *out) MUST_USE;
bool value_make_literal(struct jinja_machine *machine, const char *text,
                        struct value *out) MUST_USE;
/* A part of a text, in bytes; shares them. Markup stays so. */
bool value_make_part(struct jinja_machine *machine, const struct value_text *text, size_t start,
                     size_t count, struct value *out) MUST_USE;
/* Room for `capacity` items, none in it; the caller fills items and count (VALUE_LIST or TUPLE). */
bool value_make_list(struct jinja_machine *machine, enum value_kind kind, size_t capacity,
                     struct value *out) MUST_USE;
/* Doubles the capacity when it is full. For a list that is not shared yet. */
bool value_list_push(struct jinja_machine *machine, struct value_list *list, uint32_t *capacity,
                     struct value item) MUST_USE;
/* An empty dict, and a pair of it set; fails on keys that are neither texts nor integers. */
bool value_make_dict(struct jinja_machine *machine, struct value *out) MUST_USE;
bool value_dict_set(struct jinja_machine *machine, struct value_dict *dict, struct value key,
                    struct value value) MUST_USE;
/* NULL in *found: no such key. Fails on keys that have no hash. */
bool value_dict_find(struct jinja_machine *machine, const struct value_dict *dict,
                     const struct value *key, struct value **found) MUST_USE;
/* An undefined value that will complain: "'name' is undefined", or in words of the caller's. */
bool value_make_undefined(struct jinja_machine *machine, const char *message,
                          struct value *out) MUST_USE;

/* The value of a missing part `name` of an object. */
bool value_make_undefined_part(struct jinja_machine *machine, const struct value *object,
                               const struct value *name, struct value *out) MUST_USE;
/* Hashes a text's bytes; never 0. */
uint64_t value_compare_text_hash(const char *data, size_t count);

enum node_operation {
    OPERATION_ADD,
    OPERATION_SUBTRACT,
    OPERATION_MULTIPLY,
    OPERATION_MODULO,
    OPERATION_EQUAL,
    OPERATION_UNEQUAL,
    OPERATION_LESS,
    OPERATION_LESS_EQUAL,
    OPERATION_GREATER,
    OPERATION_GREATER_EQUAL,
    OPERATION_IN,
    OPERATION_NOT_IN
};

/* ---- looking at values ---- */

/* Python's name of its type: "str", "int", "NoneType", "Undefined". */
const char *value_type_name(const struct value *value);
bool value_truth(const struct value *value);
/* Texts, lists, tuples, dicts, views, ranges; fails for others ("object of type 'int' has no
 * len()"). Undefined has 0. */
bool value_length(struct jinja_machine *machine, const struct value *value, int64_t *out) MUST_USE;
/* a == b; never fails but at a depth or when steps end. */
bool value_compare_equal(struct jinja_machine *machine, const struct value *a,
                         const struct value *b, bool *out) MUST_USE;
/* a < b, a in b and the like; fails where Python does. */
bool value_compare(struct jinja_machine *machine, enum node_operation operation,
                   const struct value *a, const struct value *b, bool *out) MUST_USE;
/* item in container */
bool value_compare_contains(struct jinja_machine *machine, const struct value *container,
                            const struct value *item, bool *out) MUST_USE;
/* str(value); a text is itself. */
bool value_print_string(struct jinja_machine *machine, const struct value *value,
                        struct value *out) MUST_USE;
/* Fails with what using an undefined value raises. Always false. */
#define value_complain(machine, undefined) (value_note_complaint((machine), (undefined)), false)
void value_note_complaint(struct jinja_machine *machine, const struct value *value);
/* Whether it has a `__call__`: functions, methods, macros. */
bool value_is_callable(const struct value *value);
/* Whether iter() takes it. */
bool value_is_iterable(const struct value *value);
/* Whether hash() takes it. */
static inline bool value_is_hashable(const struct value *value) {
    return value->kind != VALUE_LIST && value->kind != VALUE_DICT && value->kind != VALUE_VIEW;
}
/* Integers and bools give true. */
static inline bool value_is_whole(const struct value *value) {
    return value->kind == VALUE_INTEGER || value->kind == VALUE_BOOL;
}
static inline int64_t value_whole(const struct value *value) {
    return value->kind == VALUE_BOOL ? (int64_t)value->truth : value->integer;
}
static inline bool value_is_number(const struct value *value) {
    return value_is_whole(value) || value->kind == VALUE_REAL;
}
static inline double value_number(const struct value *value) {
    return value->kind == VALUE_REAL ? value->real : (double)value_whole(value);
}

/* ---- doing things with values ---- */

/* environment.getitem and environment.getattr, as Jinja does them in the sandbox: what is not there
 * gives an undefined value; an undefined object fails. */
bool value_access_get_item(struct jinja_machine *machine, const struct value *object,
                           const struct value *key, struct value *out) MUST_USE;
bool value_access_get_attribute(struct jinja_machine *machine, const struct value *object,
                                const struct value *name, struct value *out) MUST_USE;
/* object[start:stop:step]; VALUE_NONE: not given. */
bool value_access_slice(struct jinja_machine *machine, const struct value *object,
                        const struct value *start, const struct value *stop,
                        const struct value *step, struct value *out) MUST_USE;
/* a + b and the like. */
bool value_operate(struct jinja_machine *machine, enum node_operation operation,
                   const struct value *a, const struct value *b, struct value *out) MUST_USE;

struct named_value {
    struct value name; /* a text */
    struct value value;
};

/* markupsafe.escape: Markup stays, other values become str() with & < > ' " escaped; the result is
 * Markup. */
bool markup_value_escape(struct jinja_machine *machine, const struct value *value,
                         struct value *out) MUST_USE;

/* Walking over any iterable. *more false: the end, *out untouched. */
struct iteration {
    struct value subject;
    uint64_t place; /* bytes of a text, items of others */
};
bool value_access_iteration_open(struct jinja_machine *machine, const struct value *subject,
                                 struct iteration *out) MUST_USE;
bool value_access_iteration_next(struct jinja_machine *machine, struct iteration *iteration,
                                 struct value *out, bool *more) MUST_USE;
/* list(value): items of any iterable in a new list (or the list itself, when it is LIST or TUPLE and
 * `may_share`). */
bool value_access_items(struct jinja_machine *machine, const struct value *value, bool may_share,
                        struct value_list **out) MUST_USE;

/* The result of filters such as map: each item is made when it is first needed. */
struct value_generator {
    struct iteration source;
    bool (*next)(struct jinja_machine *machine, struct value_generator *generator,
                 struct value *out, bool *more);
    void *state; /* next's */
    bool ended;
};
bool value_make_generator(struct jinja_machine *machine, const struct value_generator *generator,
                          struct value *out) MUST_USE;

/* json.dumps(value, ensure_ascii=ascii, indent=, separators=, sort_keys=). The text is data where
 * the value is. */
struct json_style {
    const struct value_text *indent;    /* what one level is indented by; NULL: one line */
    const struct value_text *item_mark; /* NULL: ", ", or "," with an indent */
    const struct value_text *key_mark;  /* NULL: ": " */
    bool sorted;
    bool ascii;
};
bool value_print_to_json(struct jinja_machine *machine, const struct value *value,
                         const struct json_style *style, struct text_builder *out) MUST_USE;

/* ---- the library's tables ---- */

#define ROUTINE_PARAMETERS_MAX 8

struct call;

/* A filter, a test, a method or a global function. */
struct routine {
    const char *name;
    bool (*run)(struct jinja_machine *machine, const struct call *call, struct value *out);
    const char *parameters[ROUTINE_PARAMETERS_MAX]; /* behind the subject; NULL behind the last */
    uint8_t required;                               /* of them must be given, from the left */
    bool rest;                                      /* further positional ones: Python's *args */
    bool named;                                     /* further named ones: Python's **kwargs */
    bool nameless;                                  /* parameters may not be given by name */
    bool unsafe;         /* refused as it would change the subject: there is no such attribute */
    const char *refused; /* why it cannot be used; NULL: it can */
};

/* Arguments are bound to parameters before `run` is called. */
struct call {
    const struct routine *routine;
    struct value subject;                           /* before the |, the `is`, the dot */
    struct value arguments[ROUTINE_PARAMETERS_MAX]; /* VALUE_MISSING: not given */
    const struct value *rest;
    const struct named_value *named;
    uint32_t rest_count, named_count;
};

/* Binds (too many, unknown or twice given arguments fail as in Python) and runs. */
bool routine_call(struct jinja_machine *machine, const struct routine *routine,
                  const struct value *subject, const struct value *arguments,
                  uint32_t argument_count, const struct named_value *named, uint32_t named_count,
                  struct value *out) MUST_USE;

/* The rows, found by name; NULL: there is none. Helpers keep them in filters.c, tests.c, methods.c
 * and functions.c. A test's *out is a VALUE_BOOL. */
const struct routine *filters_find(struct bytes name);
const struct routine *tests_find(struct bytes name);
/* A method of a kind of value: TEXT, LIST, TUPLE, DICT */
const struct routine *methods_find(enum value_kind kind, struct bytes name);
/* range, dict, namespace, raise_exception, strftime_now; cycler, joiner, lipsum (refused). */
const struct routine *functions_find(struct bytes name);

/* A method bound to what it is a method of. */
struct value_method {
    const struct routine *routine;
    struct value subject;
};

struct value_range {
    int64_t start, stop, step; /* step is not 0 */
    int64_t count;
};

/* The variable `loop`. */
struct value_loop {
    struct iteration iteration;          /* of what is looped over, or what is left of it */
    struct value subject;                /* what is looped over; GENERATOR behind a filter */
    struct value before, current, after; /* VALUE_MISSING: none */
    int64_t place, length;               /* from 0; length -1: not known yet */
};
/* Goes to the next item; *more false: there is none. */
bool value_loop_advance(struct jinja_machine *machine, struct value_loop *loop,
                        bool *more) MUST_USE;
bool value_loop_length(struct jinja_machine *machine, struct value_loop *loop,
                       int64_t *out) MUST_USE;
/* loop.index and its like. *found false: there is no such attribute. */
bool value_loop_attribute(struct jinja_machine *machine, const struct value *loop,
                          const struct value_text *name, struct value *out, bool *found) MUST_USE;

struct value_undefined {
    const char *message; /* what using it raises; NULL: made of what follows when it is wanted */
    struct value object; /* that has no such part; VALUE_MISSING: `name` is a variable */
    struct value name;
};

enum value_view_kind { VALUE_VIEW_KEYS, VALUE_VIEW_VALUES, VALUE_VIEW_ITEMS };

/* SPDX-License-Identifier: Apache-2.0
 * The state of one rendering, shared by the evaluator (eval_*.c) and the library (filters, tests,
 * methods, functions): memory, limits, errors, and operations on values.
 *
 * Functions that can fail return false after machine_fail or machine_exceed has recorded the error.
 * Callers return false at once. Code calls machine_spend before work in proportion to the size of a
 * text or list.
 */
#pragma once

#include "serving/jinja/values/value.h"

struct jinja_program;
struct jinja_variable;

#define MACHINE_DEPTH_MAX 1500 /* nesting of expressions, statements, calls and values */

struct jinja_machine {
    struct arena *arena;
    char *at, *end;     /* unused part of the current block of the arena */
    size_t block_bytes; /* size of the next block */
    size_t memory_left;
    uint64_t steps_left;
    uint32_t depth; /* current nesting of calls, values and nodes */
    uint32_t line;  /* line of the current statement */
    enum status status;
    struct error *error;
    const char *name; /* template name for messages */
    int64_t unix_time;
    size_t output_bytes_max;
    const struct jinja_program *program;
    const struct jinja_variable *variables;
    size_t variable_count;
    struct text_builder *output; /* destination of statements */
};

/* ---- errors and limits ---- */

/* Records an error in one line, in the words of Python's exception, e.g. "'x' is undefined". Always
 * false; it is a macro so that the compiler sees that. */
#define machine_fail(machine, ...) (jinja_machine_note_failure((machine), __VA_ARGS__), false)
void jinja_machine_note_failure(struct jinja_machine *machine, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Records that a limit is exceeded. Always false. */
#define machine_exceed(machine, what) (jinja_machine_note_excess((machine), (what)), false)
void jinja_machine_note_excess(struct jinja_machine *machine, const char *what);

static inline bool machine_spend(struct jinja_machine *machine, uint64_t steps) {
    if (steps > machine->steps_left) return machine_exceed(machine, "steps");
    machine->steps_left -= steps;
    return true;
}

/* machine_take if the current block is too small. The memory is aligned to 8 and uninitialised.
 * Returns NULL after an error is recorded. */
void *jinja_machine_take_slowly(struct jinja_machine *machine, size_t bytes);

static inline void *machine_take(struct jinja_machine *machine, size_t bytes) {
    size_t wanted = (bytes + 7) & ~(size_t)7;
    if (wanted < bytes || wanted > (size_t)(machine->end - machine->at))
        return jinja_machine_take_slowly(machine, bytes);
    char *memory = machine->at;
    machine->at += wanted;
    return memory;
}

/* Increments the depth, which bounds the C stack: every function that may recurse calls this first
 * and machine_leave at its end. Returns false if MACHINE_DEPTH_MAX is exceeded. */
bool jinja_machine_enter(struct jinja_machine *machine) MUST_USE;

static inline void machine_leave(struct jinja_machine *machine) {
    machine->depth--;
}

/* ---- building text ---- */

/* A growing text that keeps the origin of each byte. It starts empty and is never closed. */
struct text_builder {
    struct jinja_machine *machine;
    char *data;
    uint8_t *marks; /* [capacity] enum value_origin; NULL: all bytes have `origin` */
    size_t count, capacity;
    uint8_t origin;
    bool ascii; /* all bytes so far are ASCII */
    bool is_output;
};

void text_builder_open(struct text_builder *builder, struct jinja_machine *machine);
bool text_builder_add(struct text_builder *builder, const char *data, size_t count,
                      enum value_origin origin) MUST_USE;
/* Appends a part of a text with the origins of its bytes. */
bool text_builder_add_part(struct text_builder *builder, const struct value_text *text,
                           size_t start, size_t count) MUST_USE;
bool text_builder_add_text(struct text_builder *builder, const struct value_text *text) MUST_USE;
/* Appends str(value), as {{ }} prints it. */
bool value_print_add_value(struct text_builder *builder, const struct value *value) MUST_USE;
/* Appends repr(value). */
bool value_print_add_repr(struct text_builder *builder, const struct value *value) MUST_USE;
/* Returns the text as a value. The builder must not be used afterwards. */
bool text_builder_finish(struct text_builder *builder, bool markup, struct value *out) MUST_USE;

/* ---- making values ---- */

/* Make a text: from a copy of the bytes, or from a C string of this code (VALUE_TRUSTED). */
bool value_make_text(struct jinja_machine *machine, const char *data, size_t count,
                     enum value_origin origin, struct value *out) MUST_USE;
bool value_make_literal(struct jinja_machine *machine, const char *text,
                        struct value *out) MUST_USE;
/* Makes a part of a text without copying. start and count are in bytes. The part of a Markup is a
 * Markup. */
bool value_make_part(struct jinja_machine *machine, const struct value_text *text, size_t start,
                     size_t count, struct value *out) MUST_USE;
/* Makes an empty VALUE_LIST or VALUE_TUPLE with room for `capacity` items. The caller sets items
 * and count. */
bool value_make_list(struct jinja_machine *machine, enum value_kind kind, size_t capacity,
                     struct value *out) MUST_USE;
/* Appends an item, doubling the capacity if the list is full. The list must not be shared yet. */
bool value_list_push(struct jinja_machine *machine, struct value_list *list, uint32_t *capacity,
                     struct value item) MUST_USE;
/* Make an empty dict, and set a pair. Fails for keys that are neither texts nor integers. */
bool value_make_dict(struct jinja_machine *machine, struct value *out) MUST_USE;
bool value_dict_set(struct jinja_machine *machine, struct value_dict *dict, struct value key,
                    struct value value) MUST_USE;
/* Sets *found to the value, or NULL if there is no such key. Fails for keys that have no hash. */
bool value_dict_find(struct jinja_machine *machine, const struct value_dict *dict,
                     const struct value *key, struct value **found) MUST_USE;
/* Makes an undefined value. Its use raises `message`. */
bool value_make_undefined(struct jinja_machine *machine, const char *message,
                          struct value *out) MUST_USE;

/* Makes the undefined value of a missing attribute or item `name` of an object. */
bool value_make_undefined_part(struct jinja_machine *machine, const struct value *object,
                               const struct value *name, struct value *out) MUST_USE;
/* The hash of a text; never 0. */
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

/* ---- properties of values ---- */

/* The name of the value's type in Python: "str", "int", "NoneType", "Undefined". */
const char *value_type_name(const struct value *value);
bool value_truth(const struct value *value);
/* len(value) of a text, list, tuple, dict, view or range; 0 for an undefined value. Fails for
 * others ("object of type 'int' has no len()"). */
bool value_length(struct jinja_machine *machine, const struct value *value, int64_t *out) MUST_USE;
/* a == b. Fails only if the limit of depth or steps is exceeded. */
bool value_compare_equal(struct jinja_machine *machine, const struct value *a,
                         const struct value *b, bool *out) MUST_USE;
/* Evaluates a comparison such as a < b or a in b. Fails where Python does. */
bool value_compare(struct jinja_machine *machine, enum node_operation operation,
                   const struct value *a, const struct value *b, bool *out) MUST_USE;
/* item in container */
bool value_compare_contains(struct jinja_machine *machine, const struct value *container,
                            const struct value *item, bool *out) MUST_USE;
/* str(value). A text is returned unchanged. */
bool value_print_string(struct jinja_machine *machine, const struct value *value,
                        struct value *out) MUST_USE;
/* Fails with the error that Python raises if the undefined value is used. Always false. */
#define value_complain(machine, undefined) (value_note_complaint((machine), (undefined)), false)
void value_note_complaint(struct jinja_machine *machine, const struct value *value);
/* True for functions, methods and macros. */
bool value_is_callable(const struct value *value);
/* True if iter() accepts the value. */
bool value_is_iterable(const struct value *value);
/* True if hash() accepts the value. */
static inline bool value_is_hashable(const struct value *value) {
    return value->kind != VALUE_LIST && value->kind != VALUE_DICT && value->kind != VALUE_VIEW;
}
/* True for integers and bools. */
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

/* ---- operations on values ---- */

/* environment.getitem and environment.getattr of Jinja's sandbox. A missing item or attribute gives
 * an undefined value. Fail if the object is undefined. */
bool value_access_get_item(struct jinja_machine *machine, const struct value *object,
                           const struct value *key, struct value *out) MUST_USE;
bool value_access_get_attribute(struct jinja_machine *machine, const struct value *object,
                                const struct value *name, struct value *out) MUST_USE;
/* object[start:stop:step]. VALUE_NONE means that a bound or the step is absent. */
bool value_access_slice(struct jinja_machine *machine, const struct value *object,
                        const struct value *start, const struct value *stop,
                        const struct value *step, struct value *out) MUST_USE;
/* a + b, a - b, a * b or a % b. */
bool value_operate(struct jinja_machine *machine, enum node_operation operation,
                   const struct value *a, const struct value *b, struct value *out) MUST_USE;

struct named_value {
    struct value name; /* a text */
    struct value value;
};

/* markupsafe.escape(value): returns a Markup unchanged. For another value, escapes & < > ' " in
 * str(value) and returns a Markup. */
bool markup_value_escape(struct jinja_machine *machine, const struct value *value,
                         struct value *out) MUST_USE;

/* An iteration over any iterable. At the end, *more is false and *out is unchanged. */
struct iteration {
    struct value subject;
    uint64_t place; /* in bytes for a text, else in items */
};
bool value_access_iteration_open(struct jinja_machine *machine, const struct value *subject,
                                 struct iteration *out) MUST_USE;
bool value_access_iteration_next(struct jinja_machine *machine, struct iteration *iteration,
                                 struct value *out, bool *more) MUST_USE;
/* list(value): the items of any iterable in a new list. With `may_share`, a LIST or TUPLE is not
 * copied. */
bool value_access_items(struct jinja_machine *machine, const struct value *value, bool may_share,
                        struct value_list **out) MUST_USE;

/* The lazy result of a filter such as map: each item is computed when it is first needed. */
struct value_generator {
    struct iteration source;
    bool (*next)(struct jinja_machine *machine, struct value_generator *generator,
                 struct value *out, bool *more);
    void *state; /* state of `next` */
    bool ended;
};
bool value_make_generator(struct jinja_machine *machine, const struct value_generator *generator,
                          struct value *out) MUST_USE;

/* The options of json.dumps: indent, separators, sort_keys, ensure_ascii. In the output, strings
 * keep the origins of their bytes. Punctuation, indents and separators count as data. */
struct json_style {
    const struct value_text *indent;    /* indentation of one level; NULL: all on one line */
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
    const char *parameters[ROUTINE_PARAMETERS_MAX]; /* after the subject; NULL after the last */
    uint8_t required;    /* number of leading parameters that must be given */
    bool rest;           /* accepts more positional arguments (*args) */
    bool named;          /* accepts more named arguments (**kwargs) */
    bool nameless;       /* parameters cannot be passed by name */
    bool unsafe;         /* changes its subject, so the sandbox hides it: not an attribute */
    const char *refused; /* error if it is unsupported; NULL: supported */
};

/* The input of `run`: a subject, and arguments bound to parameters. */
struct call {
    const struct routine *routine;
    struct value subject;                           /* value before the |, the `is` or the dot */
    struct value arguments[ROUTINE_PARAMETERS_MAX]; /* VALUE_MISSING: not given */
    const struct value *rest;
    const struct named_value *named;
    uint32_t rest_count, named_count;
};

/* Binds the arguments and runs the routine. Too many, unknown or repeated arguments fail as in
 * Python. */
bool routine_call(struct jinja_machine *machine, const struct routine *routine,
                  const struct value *subject, const struct value *arguments,
                  uint32_t argument_count, const struct named_value *named, uint32_t named_count,
                  struct value *out) MUST_USE;

/* Look up a routine by name in the tables of filters.c, tests.c, methods.c and functions.c. Return
 * NULL if there is none. The result of a test is a VALUE_BOOL. */
const struct routine *filters_find(struct bytes name);
const struct routine *tests_find(struct bytes name);
/* Looks up a method of a TEXT, LIST, TUPLE or DICT. */
const struct routine *methods_find(enum value_kind kind, struct bytes name);
/* Looks up range, dict, namespace, raise_exception, strftime_now, or one of the unsupported cycler,
 * joiner and lipsum. */
const struct routine *functions_find(struct bytes name);

/* A method bound to its subject. */
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
    struct iteration iteration;          /* iteration over the subject, or over the rest of it */
    struct value subject;                /* iterable; a GENERATOR after a filter */
    struct value before, current, after; /* VALUE_MISSING: none */
    int64_t place, length;               /* place from 0; length -1: not known yet */
};
/* Advances to the next item. *more is false if there is none. */
bool value_loop_advance(struct jinja_machine *machine, struct value_loop *loop,
                        bool *more) MUST_USE;
bool value_loop_length(struct jinja_machine *machine, struct value_loop *loop,
                       int64_t *out) MUST_USE;
/* An attribute such as loop.index. *found is false if there is no such attribute. */
bool value_loop_attribute(struct jinja_machine *machine, const struct value *loop,
                          const struct value_text *name, struct value *out, bool *found) MUST_USE;

struct value_undefined {
    const char *message; /* error if it is used; NULL: derived from the fields below on demand */
    struct value object; /* object that lacks `name`; VALUE_MISSING: `name` is a variable */
    struct value name;
};

enum value_view_kind { VALUE_VIEW_KEYS, VALUE_VIEW_VALUES, VALUE_VIEW_ITEMS };

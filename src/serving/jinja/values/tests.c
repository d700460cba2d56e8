/* SPDX-License-Identifier: Apache-2.0
 * Jinja's tests, the right-hand sides of `is`.
 */
#include "base/check.h"
#include "serving/jinja/values/routine.h"

static bool remainder_is(struct jinja_machine *machine, const struct value *value,
                         const struct value *divisor, int64_t wanted, struct value *out) {
    struct value rest, expected = value_integer(wanted);
    bool equal;
    return value_operate(machine, OPERATION_MODULO, value, divisor, &rest) &&
           value_compare_equal(machine, &rest, &expected, &equal) && routine_answer(out, equal);
}

static bool is_odd(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct value two = value_integer(2);
    return remainder_is(machine, &call->subject, &two, 1, out);
}

static bool tests_is_even(struct jinja_machine *machine, const struct call *call,
                          struct value *out) {
    struct value two = value_integer(2);
    return remainder_is(machine, &call->subject, &two, 0, out);
}

static bool is_divisibleby(struct jinja_machine *machine, const struct call *call,
                           struct value *out) {
    return remainder_is(machine, &call->subject, &call->arguments[0], 0, out);
}

/* Tests that depend only on the kind of value. */
static bool is_of_kind(struct jinja_machine *machine, const struct call *call, struct value *out);

enum kind_test {
    IS_DEFINED,
    IS_UNDEFINED,
    IS_NONE,
    IS_STRING,
    IS_MAPPING,
    IS_TRUE,
    IS_FALSE,
    IS_BOOLEAN,
    IS_INTEGER,
    IS_FLOAT,
    IS_NUMBER,
    IS_SEQUENCE,
    IS_ITERABLE,
    IS_CALLABLE
};

static const struct routine kind_rows[] = {
    [IS_DEFINED] = {.name = "defined", .run = is_of_kind},
    [IS_UNDEFINED] = {.name = "undefined", .run = is_of_kind},
    [IS_NONE] = {.name = "none", .run = is_of_kind},
    [IS_STRING] = {.name = "string", .run = is_of_kind},
    [IS_MAPPING] = {.name = "mapping", .run = is_of_kind},
    [IS_TRUE] = {.name = "true", .run = is_of_kind},
    [IS_FALSE] = {.name = "false", .run = is_of_kind},
    [IS_BOOLEAN] = {.name = "boolean", .run = is_of_kind},
    [IS_INTEGER] = {.name = "integer", .run = is_of_kind},
    [IS_FLOAT] = {.name = "float", .run = is_of_kind},
    [IS_NUMBER] = {.name = "number", .run = is_of_kind},
    [IS_SEQUENCE] = {.name = "sequence", .run = is_of_kind},
    [IS_ITERABLE] = {.name = "iterable", .run = is_of_kind},
    [IS_CALLABLE] = {.name = "callable", .run = is_of_kind, .nameless = true},
};

static bool is_sequence(enum value_kind kind) {
    return kind == VALUE_TEXT || kind == VALUE_LIST || kind == VALUE_TUPLE || kind == VALUE_DICT ||
           kind == VALUE_RANGE || kind == VALUE_UNDEFINED;
}

static bool kind_holds(const struct value *value, enum kind_test test) {
    enum value_kind kind = value->kind;
    switch (test) {
    case IS_DEFINED:
        return kind != VALUE_UNDEFINED;
    case IS_UNDEFINED:
        return kind == VALUE_UNDEFINED;
    case IS_NONE:
        return kind == VALUE_NONE;
    case IS_STRING:
        return kind == VALUE_TEXT;
    case IS_MAPPING:
        return kind == VALUE_DICT;
    case IS_TRUE:
        return kind == VALUE_BOOL && value->truth;
    case IS_FALSE:
        return kind == VALUE_BOOL && !value->truth;
    case IS_BOOLEAN:
        return kind == VALUE_BOOL;
    case IS_INTEGER:
        return kind == VALUE_INTEGER;
    case IS_FLOAT:
        return kind == VALUE_REAL;
    case IS_NUMBER:
        return value_is_number(value);
    case IS_SEQUENCE:
        return is_sequence(kind);
    case IS_ITERABLE:
        return value_is_iterable(value);
    default: /* IS_CALLABLE: an undefined value is callable, and the call fails */
        return kind == VALUE_UNDEFINED || value_is_callable(value);
    }
}

static bool is_of_kind(struct jinja_machine *machine, const struct call *call, struct value *out) {
    (void)machine;
    return routine_answer(out,
                          kind_holds(&call->subject, (enum kind_test)(call->routine - kind_rows)));
}

/* Python's `is`, for values that are unique in Python. */
static bool is_sameas(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value *other = &call->arguments[0];
    if (other->kind != VALUE_NONE && other->kind != VALUE_BOOL)
        return machine_fail(machine, "the test sameas is not supported but for none, true, false");
    return routine_answer(out, call->subject.kind == other->kind &&
                                   value_truth(&call->subject) == value_truth(other));
}

/* The comparison operators and their names, such as == and eq. */
static bool tests_compare(struct jinja_machine *machine, const struct call *call,
                          struct value *out);

static const struct {
    struct routine routine;
    enum node_operation operation;
} comparisons[] = {
#define COMPARISON(word, operation)                                                                \
    {                                                                                              \
        {.name = word,                                                                             \
         .run = tests_compare,                                                                     \
         .parameters = {"b"},                                                                      \
         .required = 1,                                                                            \
         .nameless = true},                                                                        \
            operation                                                                              \
    }
    COMPARISON("in", OPERATION_IN),
    COMPARISON("eq", OPERATION_EQUAL),
    COMPARISON("equalto", OPERATION_EQUAL),
    COMPARISON("==", OPERATION_EQUAL),
    COMPARISON("ne", OPERATION_UNEQUAL),
    COMPARISON("!=", OPERATION_UNEQUAL),
    COMPARISON("lt", OPERATION_LESS),
    COMPARISON("lessthan", OPERATION_LESS),
    COMPARISON("<", OPERATION_LESS),
    COMPARISON("le", OPERATION_LESS_EQUAL),
    COMPARISON("<=", OPERATION_LESS_EQUAL),
    COMPARISON("gt", OPERATION_GREATER),
    COMPARISON("greaterthan", OPERATION_GREATER),
    COMPARISON(">", OPERATION_GREATER),
    COMPARISON("ge", OPERATION_GREATER_EQUAL),
    COMPARISON(">=", OPERATION_GREATER_EQUAL),
};

static bool tests_compare(struct jinja_machine *machine, const struct call *call,
                          struct value *out) {
    size_t i = 0;
    bool holds;
    while (&comparisons[i].routine != call->routine)
        i++;
    return value_compare(machine, comparisons[i].operation, &call->subject, &call->arguments[0],
                         &holds) &&
           routine_answer(out, holds);
}

static const struct routine rows[] = {
    {.name = "odd", .run = is_odd},
    {.name = "even", .run = tests_is_even},
    {.name = "divisibleby", .run = is_divisibleby, .parameters = {"num"}, .required = 1},
    {.name = "sameas", .run = is_sameas, .parameters = {"other"}, .required = 1},
};

const struct routine *tests_find(struct bytes name) {
    for (size_t i = 0; i < ARRAY_COUNT(comparisons); i++)
        if (bytes_equal(name, bytes_of(comparisons[i].routine.name)))
            return &comparisons[i].routine;
    const struct routine *row = routine_find(kind_rows, ARRAY_COUNT(kind_rows), name);
    return row ? row : routine_find(rows, ARRAY_COUNT(rows), name);
}

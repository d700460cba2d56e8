/* SPDX-License-Identifier: Apache-2.0
 * Jinja's tests: what stands behind `is`.
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

/* Tests that look at the kind of value alone. */
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
    default: /* IS_CALLABLE: calling an undefined value is possible, and raises */
        return kind == VALUE_UNDEFINED || value_is_callable(value);
    }
}

static bool is_of_kind(struct jinja_machine *machine, const struct call *call, struct value *out) {
    (void)machine;
    return routine_answer(out,
                          kind_holds(&call->subject, (enum kind_test)(call->routine - kind_rows)));
}

/* Python's `is`, for the values that Python has once. */
static bool is_sameas(struct jinja_machine *machine, const struct call *call, struct value *out) {
    const struct value *other = &call->arguments[0];
    if (other->kind != VALUE_NONE && other->kind != VALUE_BOOL)
        return machine_fail(machine, "the test sameas is not supported but for none, true, false");
    return routine_answer(out, call->subject.kind == other->kind &&
                                   value_truth(&call->subject) == value_truth(other));
}

static bool is_in(struct jinja_machine *machine, const struct call *call, struct value *out) {
    bool has;
    return value_compare_contains(machine, &call->arguments[0], &call->subject, &has) &&
           routine_answer(out, has);
}

/* ==, != and their other names */
static bool is_equal(struct jinja_machine *machine, const struct call *call, struct value *out) {
    bool equal, negated = call->routine->name[0] == '!' || call->routine->name[0] == 'n';
    return value_compare_equal(machine, &call->subject, &call->arguments[0], &equal) &&
           routine_answer(out, equal != negated);
}

/* lt, le, gt, ge and their other names */
static bool is_less_or_greater(struct jinja_machine *machine, const struct call *call,
                               struct value *out) {
    const char *name = call->routine->name;
    bool less = name[0] == 'l' || name[0] == '<';
    bool loose = (name[1] == 'e' && name[2] == '\0') || name[1] == '=';
    bool truth;
    return value_compare(machine, less ? (loose ? "<=" : "<") : (loose ? ">=" : ">"),
                         &call->subject, &call->arguments[0], &truth) &&
           routine_answer(out, truth);
}

#define REFUSED(test)                                                                              \
    { .name = test, .refused = "the test " test " is not supported" }

#define COMPARISON(word, function)                                                                 \
    { .name = word, .run = function, .parameters = {"b"}, .required = 1, .nameless = true }

static const struct routine rows[] = {
    {.name = "odd", .run = is_odd},
    {.name = "even", .run = tests_is_even},
    {.name = "divisibleby", .run = is_divisibleby, .parameters = {"num"}, .required = 1},
    REFUSED("escaped"),
    REFUSED("filter"),
    REFUSED("lower"),
    REFUSED("test"),
    REFUSED("upper"),
    {.name = "sameas", .run = is_sameas, .parameters = {"other"}, .required = 1},
    {.name = "in", .run = is_in, .parameters = {"seq"}, .required = 1},
    COMPARISON("eq", is_equal),
    COMPARISON("equalto", is_equal),
    COMPARISON("==", is_equal),
    COMPARISON("ne", is_equal),
    COMPARISON("!=", is_equal),
    COMPARISON("lt", is_less_or_greater),
    COMPARISON("lessthan", is_less_or_greater),
    COMPARISON("<", is_less_or_greater),
    COMPARISON("le", is_less_or_greater),
    COMPARISON("<=", is_less_or_greater),
    COMPARISON("gt", is_less_or_greater),
    COMPARISON("greaterthan", is_less_or_greater),
    COMPARISON(">", is_less_or_greater),
    COMPARISON("ge", is_less_or_greater),
    COMPARISON(">=", is_less_or_greater),
};

const struct routine *tests_find(struct bytes name) {
    const struct routine *row = routine_find(kind_rows, ARRAY_COUNT(kind_rows), name);
    return row ? row : routine_find(rows, ARRAY_COUNT(rows), name);
}

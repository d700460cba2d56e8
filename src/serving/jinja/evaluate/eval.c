/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/evaluate/eval.h"
#include "base/format.h"

static bool eval_name(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                      struct value *out) {
    const struct value nothing = {.kind = VALUE_MISSING}, *slot = eval_slot(scope, node->place);
    if (slot->kind == VALUE_MISSING)
        return value_make_undefined_part(machine, &nothing, &node->value, out);
    *out = *slot;
    return true;
}

/* Evaluates an attribute, with a fast path for a key of a dict that is not a method's name. */
static bool eval_attribute(struct jinja_machine *machine, struct scope *scope,
                           const struct node *node, struct value *out) {
    struct value object = value_none(), *found;
    if (!eval_expression(machine, scope, node->a, &object)) return false;
    if (object.kind != VALUE_DICT || node->flag)
        return value_access_get_attribute(machine, &object, &node->value, out);
    if (!value_dict_find(machine, object.dict, &node->value, &found)) return false;
    if (!found) return value_access_get_attribute(machine, &object, &node->value, out);
    *out = *found;
    return true;
}

static bool eval_item(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                      struct value *out) {
    struct value object, key;
    return eval_expression(machine, scope, node->a, &object) &&
           eval_expression(machine, scope, node->b, &key) &&
           value_access_get_item(machine, &object, &key, out);
}

static bool eval_bound(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                       struct value *out) {
    *out = value_none();
    return !node || eval_expression(machine, scope, node, out);
}

static bool eval_slice(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                       struct value *out) {
    struct value object, start, stop, step;
    return eval_expression(machine, scope, node->a, &object) &&
           eval_bound(machine, scope, node->b, &start) &&
           eval_bound(machine, scope, node->c, &stop) &&
           eval_bound(machine, scope, node->list, &step) &&
           value_access_slice(machine, &object, &start, &stop, &step, out);
}

static bool eval_sign(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                      struct value *out) {
    struct value value;
    bool negative = node->kind == NODE_NEGATIVE;
    if (!eval_expression(machine, scope, node->a, &value)) return false;
    if (value.kind == VALUE_UNDEFINED) return value_complain(machine, &value);
    if (value.kind == VALUE_REAL) {
        *out = value_real(negative ? -value.real : value.real);
        return true;
    }
    if (!value_is_whole(&value))
        return machine_fail(machine, "bad operand type for unary %s: '%s'", negative ? "-" : "+",
                            value_type_name(&value));
    int64_t whole = value_whole(&value);
    if (negative && whole == INT64_MIN)
        return machine_fail(machine, "integers beyond 64 bits are not supported");
    *out = value_integer(negative ? -whole : whole);
    return true;
}

static bool eval_arithmetic(struct jinja_machine *machine, struct scope *scope,
                            const struct node *node, struct value *out) {
    struct value a, b;
    return eval_expression(machine, scope, node->a, &a) &&
           eval_expression(machine, scope, node->b, &b) &&
           value_operate(machine, (enum node_operation)node->operation, &a, &b, out);
}

#define LONG_TEXT 128 /* bytes; a text of at least this size is extended, not copied */

static bool without_markup(struct jinja_machine *machine, struct value *text) {
    if (!text->text->markup) return true;
    if (!value_make_part(machine, text->text, 0, text->text->count, text)) return false;
    text->text->markup = false;
    return true;
}

/* a ~ b ~ c. A long first text is extended in place if possible. */
static bool eval_concatenation(struct jinja_machine *machine, struct scope *scope,
                               const struct node *node, struct value *out) {
    struct value first, value;
    struct text_builder builder;
    const struct node *item = node->list;
    text_builder_open(&builder, machine);
    if (!eval_expression(machine, scope, item, &first)) return false;
    bool grows = first.kind == VALUE_TEXT && first.text->count >= LONG_TEXT;
    if (!grows && !value_print_add_value(&builder, &first)) return false;
    for (item = item->next; item; item = item->next)
        if (!eval_expression(machine, scope, item, &value) ||
            !value_print_add_value(&builder, &value))
            return false;
    if (!text_builder_finish(&builder, false, out)) return false;
    if (!grows) return true;
    value = *out;
    return without_markup(machine, &first) &&
           value_operate(machine, OPERATION_ADD, &first, &value, out);
}

static bool eval_comparison(struct jinja_machine *machine, struct scope *scope,
                            const struct node *node, struct value *out) {
    struct value left, right;
    bool holds = true;
    if (!eval_expression(machine, scope, node->a, &left)) return false;
    for (const struct node *operand = node->list; operand && holds; operand = operand->next) {
        if (!eval_expression(machine, scope, operand->a, &right) ||
            !value_compare(machine, (enum node_operation)operand->operation, &left, &right, &holds))
            return false;
        left = right;
    }
    *out = value_bool(holds);
    return true;
}

static bool eval_logic(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                       struct value *out) {
    if (!eval_expression(machine, scope, node->a, out)) return false;
    if (node->kind == NODE_NOT) {
        *out = value_bool(!value_truth(out));
        return true;
    }
    if (value_truth(out) == (node->kind == NODE_OR)) return true;
    return eval_expression(machine, scope, node->b, out);
}

static bool eval_condition(struct jinja_machine *machine, struct scope *scope,
                           const struct node *node, struct value *out) {
    char message[160];
    struct value test;
    if (!eval_expression(machine, scope, node->a, &test)) return false;
    if (value_truth(&test)) return eval_expression(machine, scope, node->b, out);
    if (node->c) return eval_expression(machine, scope, node->c, out);
    format_text(message, sizeof message,
                "the inline if-expression on line %u evaluated to false and no else section was "
                "defined.",
                node->line);
    return value_make_undefined(machine, message, out);
}

static bool eval_items(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                       struct value *out) {
    enum value_kind kind = node->kind == NODE_TUPLE ? VALUE_TUPLE : VALUE_LIST;
    if (!value_make_list(machine, kind, node->count, out)) return false;
    struct value_list *list = out->list;
    for (const struct node *item = node->list; item; item = item->next)
        if (!eval_expression(machine, scope, item, &list->items[list->count++])) return false;
    return true;
}

static bool eval_dict(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                      struct value *out) {
    struct value key, value;
    if (!value_make_dict(machine, out)) return false;
    for (const struct node *pair = node->list; pair; pair = pair->next)
        if (!eval_expression(machine, scope, pair->a, &key) ||
            !eval_expression(machine, scope, pair->b, &value) ||
            !value_dict_set(machine, out->dict, key, value))
            return false;
    return true;
}

static bool missing_routine(struct jinja_machine *machine, const struct node *node) {
    return machine_fail(machine, "the %s '%s' is unknown or not supported",
                        node->kind == NODE_FILTER ? "filter" : "test", node->value.text->data);
}

bool eval_filter(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                 const struct value *subject, struct value *out) {
    struct eval_arguments arguments;
    if (!node->routine) return missing_routine(machine, node);
    if (!node->list && !node->rest)
        return routine_call(machine, node->routine, subject, NULL, 0, NULL, 0, out);
    return eval_call_arguments(machine, scope, node, &arguments) &&
           routine_call(machine, node->routine, subject, arguments.positional, arguments.count,
                        arguments.named, arguments.named_count, out);
}

static bool eval_filtered(struct jinja_machine *machine, struct scope *scope,
                          const struct node *node, struct value *out) {
    struct value subject;
    return eval_expression(machine, scope, node->a, &subject) &&
           eval_filter(machine, scope, node, &subject, out);
}

static bool eval_deep(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                      struct value *out) {
    switch (node->kind) {
    case NODE_ATTRIBUTE:
        return eval_attribute(machine, scope, node, out);
    case NODE_ITEM:
        return eval_item(machine, scope, node, out);
    case NODE_SLICE:
        return eval_slice(machine, scope, node, out);
    case NODE_NOT:
    case NODE_AND:
    case NODE_OR:
        return eval_logic(machine, scope, node, out);
    case NODE_NEGATIVE:
    case NODE_POSITIVE:
        return eval_sign(machine, scope, node, out);
    case NODE_ARITHMETIC:
        return eval_arithmetic(machine, scope, node, out);
    case NODE_CONCATENATE:
        return eval_concatenation(machine, scope, node, out);
    case NODE_COMPARE:
        return eval_comparison(machine, scope, node, out);
    case NODE_CONDITION:
        return eval_condition(machine, scope, node, out);
    case NODE_TUPLE:
    case NODE_LIST:
        return eval_items(machine, scope, node, out);
    case NODE_DICT:
        return eval_dict(machine, scope, node, out);
    case NODE_FILTER:
    case NODE_TEST:
        return eval_filtered(machine, scope, node, out);
    case NODE_CALL:
        return eval_call(machine, scope, node, NULL, out);
    default:
        return machine_fail(machine, "this is no expression");
    }
}

bool eval_expression(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                     struct value *out) {
    if (!machine_spend(machine, 1)) return false;
    if (node->kind == NODE_CONSTANT) {
        *out = node->value;
        return true;
    }
    if (node->kind == NODE_NAME) return eval_name(machine, scope, node, out);
    if (!jinja_machine_enter(machine) || !eval_deep(machine, scope, node, out)) return false;
    machine_leave(machine);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0
 * The operators + - * and % on values, as in Python.
 */
#include "serving/jinja/values/jinja_machine.h"
#include "serving/jinja/values/text_fill.h"

/* ---- texts ---- */

/* Extends the left text in place if it is the latest text of its builder, so that repeated appends
 * do not copy it each time. */
static bool value_operate_join(struct jinja_machine *machine, const struct value *left,
                               const struct value *right, struct value *out) {
    const struct value_text *a = left->text, *b = right->text;
    struct text_builder *room = a->room;
    if (b->count == 0 || a->count == 0) {
        *out = b->count == 0 ? *left : *right;
        if (a->markup == b->markup || out->text->markup) return true;
    }
    if (!room || room->data != a->data || room->count != a->count) {
        room = machine_take(machine, sizeof *room);
        if (!room) return false;
        text_builder_open(room, machine);
        if (!text_builder_add_text(room, a)) return false;
    }
    struct value_text *text = machine_take(machine, sizeof *text);
    if (!text || !text_builder_add_text(room, b)) return false;
    *text = (struct value_text){
        .data = room->data,
        .marks = room->marks,
        .room = room,
        .count = (uint32_t)room->count,
        .length = a->length + b->length,
        .origin = room->origin,
        .markup = a->markup || b->markup,
    };
    *out = (struct value){.kind = VALUE_TEXT, .text = text};
    return true;
}

static bool add_texts(struct jinja_machine *machine, const struct value *a, const struct value *b,
                      struct value *out) {
    struct value escaped;
    if (a->text->markup == b->text->markup) return value_operate_join(machine, a, b, out);
    if (a->text->markup)
        return markup_value_escape(machine, b, &escaped) &&
               value_operate_join(machine, a, &escaped, out);
    return markup_value_escape(machine, a, &escaped) &&
           value_operate_join(machine, &escaped, b, out);
}

static bool repeat_text(struct jinja_machine *machine, const struct value_text *text, int64_t times,
                        struct value *out) {
    struct text_builder builder;
    text_builder_open(&builder, machine);
    if (times > 0 && text->count && (uint64_t)times > UINT32_MAX / 4 / text->count)
        return machine_exceed(machine, "bytes in a text");
    for (int64_t i = 0; i < times && text->count; i++)
        if (!machine_spend(machine, 1) || !text_builder_add_text(&builder, text)) return false;
    return text_builder_finish(&builder, text->markup, out);
}

/* ---- lists ---- */

static bool add_lists(struct jinja_machine *machine, const struct value *a, const struct value *b,
                      struct value *out) {
    const struct value_list *x = a->list, *y = b->list;
    if (!value_make_list(machine, a->kind, (size_t)x->count + y->count, out)) return false;
    if (x->count) memcpy(out->list->items, x->items, x->count * sizeof *x->items);
    if (y->count) memcpy(out->list->items + x->count, y->items, y->count * sizeof *y->items);
    out->list->count = x->count + y->count;
    return true;
}

/* ---- numbers ---- */

static bool operate_integers(struct jinja_machine *machine, enum node_operation operation,
                             int64_t a, int64_t b, struct value *out) {
    int64_t result = 0;
    bool over = false;
    if (operation == OPERATION_ADD) {
        over = __builtin_add_overflow(a, b, &result);
    } else if (operation == OPERATION_SUBTRACT) {
        over = __builtin_sub_overflow(a, b, &result);
    } else if (operation == OPERATION_MULTIPLY) {
        over = __builtin_mul_overflow(a, b, &result);
    } else {
        if (b == 0) return machine_fail(machine, "integer modulo by zero");
        result = b == -1 ? 0 : a % b;
        if (result != 0 && (result < 0) != (b < 0)) result += b;
    }
    *out = value_integer(result);
    return !over || machine_fail(machine, "integers beyond 64 bits are not supported");
}

/* ---- dispatch ---- */

static const char *const operators[] = {"+", "-", "*", "%"};

static bool value_operate_is_list(const struct value *value) {
    return value->kind == VALUE_LIST || value->kind == VALUE_TUPLE;
}

static bool cannot_operate(struct jinja_machine *machine, enum node_operation operation,
                           const struct value *a, const struct value *b) {
    if (a->kind == VALUE_UNDEFINED) return value_complain(machine, a);
    if (b->kind == VALUE_UNDEFINED) return value_complain(machine, b);
    if (operation == OPERATION_ADD && a->kind == VALUE_TEXT)
        return machine_fail(machine, "can only concatenate str (not \"%s\") to str",
                            value_type_name(b));
    if (operation == OPERATION_ADD && value_operate_is_list(a))
        return machine_fail(machine, "can only concatenate %s (not \"%s\") to %s",
                            value_type_name(a), value_type_name(b), value_type_name(a));
    return machine_fail(machine, "unsupported operand type(s) for %s: '%s' and '%s'",
                        operators[operation], value_type_name(a), value_type_name(b));
}

bool value_operate(struct jinja_machine *machine, enum node_operation operation,
                   const struct value *a, const struct value *b, struct value *out) {
    if (value_is_whole(a) && value_is_whole(b))
        return operate_integers(machine, operation, value_whole(a), value_whole(b), out);
    if (value_is_number(a) && value_is_number(b))
        return machine_fail(machine, "arithmetic with numbers that are not whole is not supported");
    if (operation == OPERATION_ADD) {
        if (a->kind == VALUE_TEXT && b->kind == VALUE_TEXT) return add_texts(machine, a, b, out);
        if (a->kind == b->kind && value_operate_is_list(a)) return add_lists(machine, a, b, out);
    }
    if (operation == OPERATION_MULTIPLY) {
        const struct value *times = value_is_whole(b) ? b : a, *many = times == b ? a : b;
        if (value_is_whole(times) && many->kind == VALUE_TEXT)
            return repeat_text(machine, many->text, value_whole(times), out);
        if (value_is_whole(times) && value_operate_is_list(many))
            return machine_fail(machine, "a list times a number is not supported");
    }
    if (operation == OPERATION_MODULO && a->kind == VALUE_TEXT)
        return text_fill_percent(machine, a->text, b, out);
    return cannot_operate(machine, operation, a, b);
}

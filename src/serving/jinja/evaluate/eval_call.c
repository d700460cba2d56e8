/* SPDX-License-Identifier: Apache-2.0
 * Evaluates calls, filters and tests, and binds the arguments of macros.
 */
#include "serving/jinja/evaluate/eval.h"

/* ---- arguments ---- */

/* Appends the items of *arguments to the positional arguments. */
static bool add_rest(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                     struct eval_arguments *out) {
    struct value value;
    struct value_list *items;
    if (!eval_expression(machine, scope, node->rest, &value) ||
        !value_access_items(machine, &value, true, &items))
        return false;
    struct value *all = machine_take(machine, ((size_t)out->count + items->count) * sizeof *all);
    if (!all || !machine_spend(machine, items->count)) return false;
    if (out->count) memcpy(all, out->positional, out->count * sizeof *all);
    if (items->count) memcpy(all + out->count, items->items, items->count * sizeof *all);
    out->positional = all;
    out->count += items->count;
    return true;
}

static bool add_named(struct jinja_machine *machine, struct eval_arguments *out, struct value name,
                      struct value value) {
    for (uint32_t i = 0; i < out->named_count; i++)
        if (value_text_equal(out->named[i].name.text, name.text))
            return machine_fail(machine, "got multiple values for keyword argument '%.*s'",
                                (int)(name.text->count > 60 ? 60 : name.text->count),
                                name.text->data);
    out->named[out->named_count++] = (struct named_value){name, value};
    return true;
}

bool eval_call_arguments(struct jinja_machine *machine, struct scope *scope,
                         const struct node *node, struct eval_arguments *out) {
    const struct node *item = node->list;
    struct value value = {.kind = VALUE_NONE};
    uint32_t named_count = 1; /* one more for `caller` */
    out->positional = out->few;
    out->named = NULL;
    out->count = out->named_count = 0;
    if (node->count > 4) out->positional = machine_take(machine, node->count * sizeof value);
    if (!out->positional) return false;
    for (; item && item->kind != NODE_KEYWORD; item = item->next)
        if (!eval_expression(machine, scope, item, &out->positional[out->count++])) return false;
    if (node->rest && !add_rest(machine, scope, node, out)) return false;
    if (!item) return true;
    for (const struct node *keyword = item; keyword; keyword = keyword->next)
        named_count++;
    out->named = machine_take(machine, named_count * sizeof *out->named);
    if (!out->named) return false;
    for (; item; item = item->next)
        if (!eval_expression(machine, scope, item->a, &value) ||
            !add_named(machine, out, item->value, value))
            return false;
    return true;
}

/* ---- macros ---- */

struct macro_call {
    const struct value *arguments;
    const struct named_value *named;
    uint32_t count, named_count;
    bool *taken; /* [named_count] */
};

/* Finds the named argument and marks it as taken. Returns NULL if it is not given. */
static const struct value *eval_call_take_named(struct macro_call *call,
                                                const struct value_text *name) {
    for (uint32_t i = 0; i < call->named_count; i++) {
        if (call->taken[i] || !value_text_equal(call->named[i].name.text, name)) continue;
        call->taken[i] = true;
        return &call->named[i].value;
    }
    return NULL;
}

static bool macro_fail(struct jinja_machine *machine, const struct node *node, const char *what,
                       const struct value_text *name) {
    const char *macro = node->value.kind == VALUE_TEXT ? node->value.text->data : "None";
    int count = !name ? 0 : name->count > 60 ? 60 : (int)name->count;
    return machine_fail(machine, "macro '%s' %s%.*s", macro, what, count, name ? name->data : "");
}

static bool bind_caller(struct jinja_machine *machine, const struct node *node, struct scope *scope,
                        struct macro_call *call) {
    static const char name[] = "caller";
    const struct value_text text = {.data = name, .count = sizeof name - 1};
    if (node->body->caller_slot == SLOT_NONE) return true;
    struct value *slot = &scope->slots[node->body->caller_slot];
    const struct value *caller = eval_call_take_named(call, &text);
    if (caller && caller->kind != VALUE_NONE) {
        *slot = *caller;
        return true;
    }
    return value_make_undefined(machine, "No caller defined", slot);
}

/* Evaluates the defaults of missing arguments. A default may use the parameters before it. */
static bool bind_defaults(struct jinja_machine *machine, const struct node *node,
                          struct scope *scope) {
    char message[200];
    uint32_t i = 0;
    for (const struct node *name = node->list; name; name = name->next, i++) {
        struct value *slot = &scope->slots[node->body->slots[i]];
        if (slot->kind != VALUE_MISSING) continue;
        if (name->a) {
            struct value value;
            if (!eval_expression(machine, scope, name->a, &value)) return false;
            *slot = value;
            continue;
        }
        size_t count = name->value.text->count > 100 ? 100 : name->value.text->count;
        memcpy(message, "parameter '", 11);
        memcpy(message + 11, name->value.text->data, count);
        memcpy(message + 11 + count, "' was not provided", 19);
        if (!value_make_undefined(machine, message, slot)) return false;
    }
    return true;
}

static bool eval_call_bind(struct jinja_machine *machine, const struct node *node,
                           struct scope *scope, struct macro_call *call) {
    uint32_t i = 0;
    for (const struct node *name = node->list; name; name = name->next, i++) {
        const struct value *given =
            i < call->count ? &call->arguments[i] : eval_call_take_named(call, name->value.text);
        scope->slots[node->body->slots[i]] = given ? *given : (struct value){.kind = VALUE_MISSING};
    }
    if (!bind_caller(machine, node, scope, call)) return false;
    for (uint32_t named = 0; named < call->named_count; named++)
        if (!call->taken[named])
            return macro_fail(machine, node, "takes no keyword argument ",
                              call->named[named].name.text);
    return call->count <= node->body->parameter_count ||
           macro_fail(machine, node, "takes fewer arguments", NULL);
}

static bool call_macro(struct jinja_machine *machine, const struct value_macro *macro,
                       struct macro_call *call, struct value *out) {
    const struct node *node = macro->node;
    enum eval_flow flow;
    struct scope *scope =
        eval_statement_scope(machine, node->body->function, macro->scope, macro->scope->context);
    call->taken = machine_take(machine, call->named_count + 1);
    if (!scope || !call->taken) return false;
    memset(call->taken, 0, call->named_count + 1);
    if (!eval_call_bind(machine, node, scope, call)) return false;
    eval_statement_enter(scope, node->body->frame);
    return bind_defaults(machine, node, scope) &&
           eval_statement_capture(machine, scope, node->body->body, &flow, out);
}

/* ---- calls ---- */

static bool call_any(struct jinja_machine *machine, const struct value *callee,
                     struct macro_call *call, struct value *out) {
    const struct value nothing = {.kind = VALUE_MISSING};
    switch (callee->kind) {
    case VALUE_FUNCTION:
        return routine_call(machine, callee->function, &nothing, call->arguments, call->count,
                            call->named, call->named_count, out);
    case VALUE_METHOD:
        return routine_call(machine, callee->method->routine, &callee->method->subject,
                            call->arguments, call->count, call->named, call->named_count, out);
    case VALUE_MACRO:
        return call_macro(machine, callee->macro, call, out);
    case VALUE_UNDEFINED:
        return value_complain(machine, callee);
    default:
        return machine_fail(machine, "'%s' object is not callable", value_type_name(callee));
    }
}

bool eval_call_value_call(struct jinja_machine *machine, const struct value *callee,
                          const struct value *arguments, uint32_t argument_count,
                          const struct named_value *named, uint32_t named_count,
                          struct value *out) {
    struct macro_call call = {.arguments = arguments,
                              .named = named,
                              .count = argument_count,
                              .named_count = named_count};
    if (!jinja_machine_enter(machine) || !call_any(machine, callee, &call, out)) return false;
    machine_leave(machine);
    return true;
}

/* The method that a call of an attribute refers to, found without creating a bound method. NULL:
 * use the general path. */
static const struct routine *direct_method(const struct node *node, const struct value *object) {
    switch (object->kind) {
    case VALUE_TEXT:
        return node->text_method;
    case VALUE_DICT:
        return node->dict_method;
    case VALUE_LIST:
        return node->list_method;
    default:
        return NULL;
    }
}

static bool add_caller(struct jinja_machine *machine, struct eval_arguments *arguments,
                       const struct value *caller) {
    struct value name;
    if (!caller) return true;
    if (!arguments->named) {
        arguments->named = machine_take(machine, sizeof *arguments->named);
        if (!arguments->named) return false;
    }
    return value_make_literal(machine, "caller", &name) &&
           add_named(machine, arguments, name, *caller);
}

bool eval_call(struct jinja_machine *machine, struct scope *scope, const struct node *node,
               const struct value *caller, struct value *out) {
    struct value callee, object;
    struct eval_arguments arguments;
    const struct routine *routine = NULL;
    if (node->a->kind == NODE_ATTRIBUTE) {
        if (!eval_expression(machine, scope, node->a->a, &object)) return false;
        routine = direct_method(node->a, &object);
        if (routine && routine->refused) routine = NULL;
        if (!routine && !value_access_get_attribute(machine, &object, &node->a->value, &callee))
            return false;
    } else if (!eval_expression(machine, scope, node->a, &callee)) {
        return false;
    }
    if (!eval_call_arguments(machine, scope, node, &arguments) ||
        !add_caller(machine, &arguments, caller))
        return false;
    if (routine)
        return routine_call(machine, routine, &object, arguments.positional, arguments.count,
                            arguments.named, arguments.named_count, out);
    return eval_call_value_call(machine, &callee, arguments.positional, arguments.count,
                                arguments.named, arguments.named_count, out);
}

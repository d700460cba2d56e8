/* SPDX-License-Identifier: Apache-2.0
 * Runs statements: assignments, captured blocks, macros and control flow.
 */
#include "serving/jinja/evaluate/eval.h"

/* ---- scopes and frames ---- */

struct scope *eval_statement_scope(struct jinja_machine *machine,
                                   const struct frame_function *function, struct scope *parent,
                                   struct value *context) {
    size_t bytes = function->slot_count * sizeof(struct value);
    struct scope *scope = machine_take(machine, sizeof *scope + bytes);
    if (!scope || !machine_spend(machine, function->slot_count)) return NULL;
    scope->parent = parent;
    scope->context = context;
    for (uint32_t i = 0; i < function->slot_count; i++)
        scope->slots[i] = (struct value){.kind = VALUE_MISSING};
    return scope;
}

void eval_statement_enter(struct scope *scope, const struct frame *frame) {
    for (uint32_t i = 0; i < frame->count; i++) {
        const struct symbol *symbol = &frame->symbols[i];
        if (symbol->action == SYMBOL_RESOLVE)
            scope->slots[symbol->slot] = scope->context[symbol->name];
        else if (symbol->action == SYMBOL_ALIAS)
            scope->slots[symbol->slot] = *eval_slot(scope, symbol->alias);
        else if (symbol->action == SYMBOL_UNDEFINED)
            scope->slots[symbol->slot] = (struct value){.kind = VALUE_MISSING};
    }
}

void eval_statement_leave(struct scope *scope, const struct frame *frame) {
    for (uint32_t i = 0; i < frame->count; i++)
        scope->slots[frame->symbols[i].slot] = (struct value){.kind = VALUE_MISSING};
}

/* ---- assignment ---- */

static bool assign_items(struct jinja_machine *machine, struct scope *scope,
                         const struct node *target, const struct value *value) {
    struct iteration iteration;
    struct value item;
    uint32_t got = 0;
    bool more;
    if (!value_is_iterable(value))
        return machine_fail(machine, "cannot unpack non-iterable %s object",
                            value_type_name(value));
    if (!value_access_iteration_open(machine, value, &iteration)) return false;
    struct value *items = machine_take(machine, target->count * sizeof *items);
    if (!items) return false;
    for (; got < target->count; got++) {
        if (!value_access_iteration_next(machine, &iteration, &items[got], &more)) return false;
        if (!more)
            return machine_fail(machine, "not enough values to unpack (expected %u, got %u)",
                                target->count, got);
    }
    if (!value_access_iteration_next(machine, &iteration, &item, &more)) return false;
    if (more)
        return machine_fail(machine, "too many values to unpack (expected %u)", target->count);
    got = 0;
    for (const struct node *part = target->list; part; part = part->next)
        if (!eval_statement_assign(machine, scope, part, &items[got++])) return false;
    return true;
}

bool eval_statement_assign(struct jinja_machine *machine, struct scope *scope,
                           const struct node *target, const struct value *value) {
    if (target->kind == NODE_NAME) {
        *eval_slot(scope, target->place) = *value;
        if (target->exported_name) scope->context[target->exported_name - 1] = *value;
        return true;
    }
    if (target->kind == NODE_TUPLE) return assign_items(machine, scope, target, value);
    const struct value *space = eval_slot(scope, target->a->place);
    return value_dict_set(machine, space->dict, target->value, *value);
}

/* Checks, before anything is evaluated, that ns.name targets refer to namespaces. */
static bool eval_statement_check_target(struct jinja_machine *machine, struct scope *scope,
                                        const struct node *target) {
    if (target->kind == NODE_MEMBER && eval_slot(scope, target->a->place)->kind != VALUE_NAMESPACE)
        return machine_fail(machine, "cannot assign attribute on non-namespace object");
    if (target->kind == NODE_TUPLE)
        for (const struct node *part = target->list; part; part = part->next)
            if (!eval_statement_check_target(machine, scope, part)) return false;
    return true;
}

static bool run_set(struct jinja_machine *machine, struct scope *scope, const struct node *node) {
    struct value value;
    return eval_statement_check_target(machine, scope, node->a) &&
           eval_expression(machine, scope, node->b, &value) &&
           eval_statement_assign(machine, scope, node->a, &value);
}

/* ---- captured output ---- */

bool eval_statement_capture(struct jinja_machine *machine, struct scope *scope,
                            const struct node *list, enum eval_flow *flow, struct value *out) {
    struct text_builder builder, *output = machine->output;
    text_builder_open(&builder, machine);
    machine->output = &builder;
    *flow = eval_statement_statements(machine, scope, list);
    machine->output = output;
    return *flow != EVAL_FAILED && text_builder_finish(&builder, false, out);
}

/* Applies the filters of a block in order. The tree has the last one first. */
static bool run_filters(struct jinja_machine *machine, struct scope *scope, const struct node *last,
                        struct value *text) {
    const struct node *filters[NODE_DEPTH_MAX];
    uint32_t count = 0;
    for (const struct node *filter = last; filter; filter = filter->a)
        filters[count++] = filter;
    while (count) {
        struct value subject = *text;
        if (!eval_filter(machine, scope, filters[--count], &subject, text)) return false;
    }
    return true;
}

/* Enters a block's frame, captures its output and applies its filters. */
static enum eval_flow capture_filtered(struct jinja_machine *machine, struct scope *scope,
                                       const struct node *block, const struct node *last_filter,
                                       struct value *text_out) {
    enum eval_flow flow;
    eval_statement_enter(scope, block->body->frame);
    if (!eval_statement_capture(machine, scope, block->body->body, &flow, text_out))
        return EVAL_FAILED;
    if (flow != EVAL_ON) return flow;
    return run_filters(machine, scope, last_filter, text_out) ? EVAL_ON : EVAL_FAILED;
}

static enum eval_flow run_set_block(struct jinja_machine *machine, struct scope *scope,
                                    const struct node *node) {
    struct value text;
    enum eval_flow flow = capture_filtered(machine, scope, node, node->b, &text);
    if (flow != EVAL_ON) return flow;
    if (!eval_statement_check_target(machine, scope, node->a) ||
        !eval_statement_assign(machine, scope, node->a, &text))
        return EVAL_FAILED;
    eval_statement_leave(scope, node->body->frame);
    return EVAL_ON;
}

/* Writes the result of a block's call or filter, which must be a text. */
static bool eval_statement_write_text(struct jinja_machine *machine, const struct value *value) {
    if (value->kind != VALUE_TEXT)
        return machine_fail(machine, "sequence item 0: expected str instance, %s found",
                            value_type_name(value));
    return text_builder_add_text(machine->output, value->text);
}

static enum eval_flow run_filter_block(struct jinja_machine *machine, struct scope *scope,
                                       const struct node *node) {
    struct value text;
    enum eval_flow flow = capture_filtered(machine, scope, node, node->a, &text);
    if (flow != EVAL_ON) return flow;
    if (!eval_statement_write_text(machine, &text)) return EVAL_FAILED;
    eval_statement_leave(scope, node->body->frame);
    return EVAL_ON;
}

static bool make_macro(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                       struct value *out) {
    struct value_macro *macro = machine_take(machine, sizeof *macro);
    if (!macro) return false;
    *macro = (struct value_macro){node, scope};
    *out = (struct value){.kind = VALUE_MACRO, .macro = macro};
    return true;
}

static bool run_macro_definition(struct jinja_machine *machine, struct scope *scope,
                                 const struct node *node) {
    struct value macro;
    if (!make_macro(machine, scope, node, &macro)) return false;
    *eval_slot(scope, node->body->place) = macro;
    if (node->body->exported) scope->context[node->count] = macro;
    return true;
}

static bool run_call_block(struct jinja_machine *machine, struct scope *scope,
                           const struct node *node) {
    struct value caller, text;
    if (!make_macro(machine, scope, node, &caller)) return false;
    return (node->b ? eval_call(machine, scope, node->b, &caller, &text)
                    : eval_call_value_call(machine, &caller, NULL, 0, NULL, 0, &text)) &&
           eval_statement_write_text(machine, &text);
}

/* ---- dispatch ---- */

static bool run_print(struct jinja_machine *machine, struct scope *scope, const struct node *node) {
    struct value value;
    return eval_expression(machine, scope, node->a, &value) &&
           value_print_add_value(machine->output, &value);
}

static enum eval_flow run_if(struct jinja_machine *machine, struct scope *scope,
                             const struct node *node) {
    struct value test;
    if (!eval_expression(machine, scope, node->a, &test)) return EVAL_FAILED;
    if (value_truth(&test)) return eval_statement_statements(machine, scope, node->body->body);
    for (const struct node *other = node->list; other; other = other->next) {
        machine->line = other->line;
        if (!eval_expression(machine, scope, other->a, &test)) return EVAL_FAILED;
        if (value_truth(&test)) return eval_statement_statements(machine, scope, other->body->body);
    }
    return eval_statement_statements(machine, scope, node->body->else_body);
}

static enum eval_flow eval_statement_run_one(struct jinja_machine *machine, struct scope *scope,
                                             const struct node *node) {
    bool done;
    machine->line = node->line;
    switch (node->kind) {
    case NODE_TEXT:
        done = text_builder_add_text(machine->output, node->value.text);
        break;
    case NODE_PRINT:
        done = run_print(machine, scope, node);
        break;
    case NODE_IF:
        return run_if(machine, scope, node);
    case NODE_FOR:
        return eval_loop(machine, scope, node);
    case NODE_SET:
        done = run_set(machine, scope, node);
        break;
    case NODE_SET_BLOCK:
        return run_set_block(machine, scope, node);
    case NODE_MACRO:
        done = run_macro_definition(machine, scope, node);
        break;
    case NODE_CALL_BLOCK:
        done = run_call_block(machine, scope, node);
        break;
    case NODE_FILTER_BLOCK:
        return run_filter_block(machine, scope, node);
    case NODE_BREAK:
        return EVAL_BREAK;
    case NODE_CONTINUE:
        return EVAL_CONTINUE;
    default:
        done = machine_fail(machine, "this is no statement");
        break;
    }
    return done ? EVAL_ON : EVAL_FAILED;
}

enum eval_flow eval_statement_statements(struct jinja_machine *machine, struct scope *scope,
                                         const struct node *list) {
    enum eval_flow flow = EVAL_ON;
    if (!list) return EVAL_ON;
    if (!jinja_machine_enter(machine)) return EVAL_FAILED;
    for (; list && flow == EVAL_ON; list = list->next)
        flow =
            machine_spend(machine, 1) ? eval_statement_run_one(machine, scope, list) : EVAL_FAILED;
    if (flow != EVAL_FAILED) machine_leave(machine);
    return flow;
}

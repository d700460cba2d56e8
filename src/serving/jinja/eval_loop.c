/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/jinja_tree.h"

/* ---- `loop` ---- */

/* The next item into `after`, if none is there; MISSING at the end. */
static bool eval_loop_peek(struct jinja_machine *machine, struct value_loop *loop) {
    bool more;
    if (loop->after.kind != VALUE_MISSING) return true;
    if (!value_access_iteration_next(machine, &loop->iteration, &loop->after, &more)) return false;
    if (!more) loop->after = (struct value){.kind = VALUE_MISSING};
    return true;
}

static bool eval_loop_advance(struct jinja_machine *machine, struct value_loop *loop, bool *more) {
    if (!eval_loop_peek(machine, loop)) return false;
    *more = loop->after.kind != VALUE_MISSING;
    if (!*more) return true;
    loop->before = loop->current;
    loop->current = loop->after;
    loop->after = (struct value){.kind = VALUE_MISSING};
    loop->place++;
    return true;
}

bool eval_loop_value_loop_length(struct jinja_machine *machine, struct value_loop *loop,
                                 int64_t *out) {
    struct value_list *rest;
    if (loop->length < 0 && loop->subject.kind != VALUE_GENERATOR &&
        !value_length(machine, &loop->subject, &loop->length))
        return false;
    if (loop->length < 0) {
        if (!value_access_items(machine, &loop->iteration.subject, false, &rest)) return false;
        loop->iteration = (struct iteration){.subject = {.kind = VALUE_LIST, .list = rest}};
        loop->length = (int64_t)rest->count + loop->place + 1 + (loop->after.kind != VALUE_MISSING);
    }
    *out = loop->length;
    return true;
}

static bool run_cycle(struct jinja_machine *machine, const struct call *call, struct value *out) {
    if (call->rest_count == 0) return machine_fail(machine, "no items for cycling given");
    *out = call->rest[call->subject.loop->place % call->rest_count];
    return true;
}

static bool run_changed(struct jinja_machine *machine, const struct call *call, struct value *out) {
    struct value_loop *loop = call->subject.loop;
    struct value now;
    bool equal = false;
    if (!value_make_list(machine, VALUE_TUPLE, call->rest_count, &now)) return false;
    if (call->rest_count)
        memcpy(now.list->items, call->rest, call->rest_count * sizeof *call->rest);
    now.list->count = call->rest_count;
    if (loop->changed.kind != VALUE_MISSING &&
        !value_compare_equal(machine, &loop->changed, &now, &equal))
        return false;
    loop->changed = now;
    *out = value_bool(!equal);
    return true;
}

static const struct routine loop_cycle = {.name = "cycle", .run = run_cycle, .rest = true};
static const struct routine loop_changed = {.name = "changed", .run = run_changed, .rest = true};

static bool bound_method(struct jinja_machine *machine, const struct routine *routine,
                         const struct value *loop, struct value *out) {
    struct value_method *method = machine_take(machine, sizeof *method);
    if (!method) return false;
    *method = (struct value_method){routine, *loop};
    *out = (struct value){.kind = VALUE_METHOD, .method = method};
    return true;
}

static bool neighbour(struct jinja_machine *machine, const struct value *item, const char *missing,
                      struct value *out) {
    *out = *item;
    return item->kind != VALUE_MISSING || value_make_undefined(machine, missing, out);
}

bool eval_loop_value_loop_attribute(struct jinja_machine *machine, const struct value *value,
                                    const struct value_text *name, struct value *out, bool *found) {
    static const char *const names[] = {"index",    "index0",    "first",   "last",   "length",
                                        "revindex", "revindex0", "depth",   "depth0", "previtem",
                                        "nextitem", "cycle",     "changed", NULL};
    struct value_loop *loop = value->loop;
    struct bytes text = value_text_bytes(name);
    int which = 0;
    int64_t length = 0;
    while (names[which] && !bytes_equal(text, bytes_of(names[which])))
        which++;
    *found = names[which] != NULL;
    if (which >= 4 && which <= 6 && !eval_loop_value_loop_length(machine, loop, &length))
        return false;
    if ((which == 3 || which == 10) && !eval_loop_peek(machine, loop)) return false;
    switch (which) {
    case 0:
        *out = value_integer(loop->place + 1);
        break;
    case 1:
        *out = value_integer(loop->place);
        break;
    case 2:
        *out = value_bool(loop->place == 0);
        break;
    case 3:
        *out = value_bool(loop->after.kind == VALUE_MISSING);
        break;
    case 4:
        *out = value_integer(length);
        break;
    case 5:
        *out = value_integer(length - loop->place);
        break;
    case 6:
        *out = value_integer(length - loop->place - 1);
        break;
    case 7:
        *out = value_integer(1);
        break;
    case 8:
        *out = value_integer(0);
        break;
    case 9:
        return neighbour(machine, &loop->before, "there is no previous item", out);
    case 10:
        return neighbour(machine, &loop->after, "there is no next item", out);
    case 11:
        return bound_method(machine, &loop_cycle, value, out);
    case 12:
        return bound_method(machine, &loop_changed, value, out);
    default:
        break;
    }
    return true;
}

/* ---- the loop's `if` ---- */

struct loop_filter {
    const struct node *node;
    struct scope *scope;
};

static bool next_filtered(struct jinja_machine *machine, struct value_generator *generator,
                          struct value *out, bool *more) {
    const struct loop_filter *filter = generator->state;
    const struct node *node = filter->node;
    struct value test;
    for (;;) {
        if (!value_access_iteration_next(machine, &generator->source, out, more)) return false;
        if (!*more) return true;
        if (!eval_statement_assign(machine, filter->scope, node->body->targets, out) ||
            !eval_expression(machine, filter->scope, node->c, &test))
            return false;
        if (!value_truth(&test)) continue;
        return node->body->targets->kind != NODE_TUPLE ||
               eval_expression(machine, filter->scope, node->body->targets, out);
    }
}

static bool filtered(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                     struct value *subject) {
    struct loop_filter *filter = machine_take(machine, sizeof *filter);
    struct value_generator generator = {.next = next_filtered, .state = filter};
    if (!filter || !value_access_iteration_open(machine, subject, &generator.source)) return false;
    *filter = (struct loop_filter){node, scope};
    eval_statement_enter(scope, node->body->test_frame);
    return value_make_generator(machine, &generator, subject);
}

/* ---- loops ---- */

/* One turn. */
static enum eval_flow run_body(struct jinja_machine *machine, struct scope *scope,
                               const struct node *node, const struct value *item) {
    if (!eval_statement_assign(machine, scope, node->a, item)) return EVAL_FAILED;
    eval_statement_enter(scope, node->body->frame);
    return eval_statement_statements(machine, scope, node->body->body);
}

/* Items without anybody who looks at `loop`. */
static bool run_plain(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                      const struct value *subject, bool *empty) {
    struct iteration iteration;
    struct value item;
    bool more;
    if (!value_access_iteration_open(machine, subject, &iteration)) return false;
    for (;;) {
        if (!value_access_iteration_next(machine, &iteration, &item, &more)) return false;
        if (!more) return true;
        enum eval_flow flow = run_body(machine, scope, node, &item);
        if (flow == EVAL_FAILED) return false;
        if (flow != EVAL_BREAK && flow != EVAL_CONTINUE) *empty = false;
        if (flow == EVAL_BREAK) return true;
    }
}

static bool run_extended(struct jinja_machine *machine, struct scope *scope,
                         const struct node *node, const struct value *subject, bool *empty) {
    struct value_loop *loop = machine_take(machine, sizeof *loop);
    bool more;
    if (!loop) return false;
    *loop = (struct value_loop){.subject = *subject, .place = -1, .length = -1};
    if (!value_access_iteration_open(machine, subject, &loop->iteration)) return false;
    for (;;) {
        if (!eval_loop_advance(machine, loop, &more)) return false;
        if (!more) return true;
        if (node->body->place.slot != SLOT_NONE)
            scope->slots[node->body->place.slot] = (struct value){.kind = VALUE_LOOP, .loop = loop};
        struct value item = loop->current;
        enum eval_flow flow = run_body(machine, scope, node, &item);
        if (flow == EVAL_FAILED) return false;
        if (flow != EVAL_BREAK && flow != EVAL_CONTINUE) *empty = false;
        if (flow == EVAL_BREAK) return true;
    }
}

enum eval_flow eval_loop(struct jinja_machine *machine, struct scope *scope,
                         const struct node *node) {
    const struct node_body *body = node->body;
    struct value subject;
    if (!eval_expression(machine, scope, node->b, &subject)) return EVAL_FAILED;
    bool empty = true; /* no turn came to its end */
    if (!value_is_iterable(&subject) || subject.kind == VALUE_LOOP) {
        jinja_machine_note_failure(machine, "'%s' object is not iterable",
                                   value_type_name(&subject));
        return EVAL_FAILED;
    }
    if (node->c && !filtered(machine, scope, node, &subject)) return EVAL_FAILED;
    bool done = body->extended ? run_extended(machine, scope, node, &subject, &empty)
                               : run_plain(machine, scope, node, &subject, &empty);
    if (!done) return EVAL_FAILED;
    eval_statement_leave(scope, body->frame);
    if (!empty || !body->else_body) return EVAL_ON;
    eval_statement_enter(scope, body->else_frame);
    enum eval_flow flow = eval_statement_statements(machine, scope, body->else_body);
    if (flow == EVAL_ON) eval_statement_leave(scope, body->else_frame);
    return flow;
}

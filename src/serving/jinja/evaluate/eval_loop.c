/* SPDX-License-Identifier: Apache-2.0
 * Runs `for` loops.
 */
#include "serving/jinja/evaluate/eval.h"

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

/* Runs one iteration. */
static enum eval_flow run_body(struct jinja_machine *machine, struct scope *scope,
                               const struct node *node, const struct value *item) {
    if (!eval_statement_assign(machine, scope, node->a, item)) return EVAL_FAILED;
    eval_statement_enter(scope, node->body->frame);
    return eval_statement_statements(machine, scope, node->body->body);
}

static bool eval_loop_run(struct jinja_machine *machine, struct scope *scope,
                          const struct node *node, const struct value *subject, bool *empty) {
    struct value_loop *loop = machine_take(machine, sizeof *loop);
    bool more;
    if (!loop) return false;
    *loop = (struct value_loop){.subject = *subject, .place = -1, .length = -1};
    if (!value_access_iteration_open(machine, subject, &loop->iteration)) return false;
    for (;;) {
        if (!value_loop_advance(machine, loop, &more)) return false;
        if (!more) return true;
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
    bool empty = true; /* no iteration has completed */
    if (!value_is_iterable(&subject) || subject.kind == VALUE_LOOP) {
        jinja_machine_note_failure(machine, "'%s' object is not iterable",
                                   value_type_name(&subject));
        return EVAL_FAILED;
    }
    if (node->c && !filtered(machine, scope, node, &subject)) return EVAL_FAILED;
    if (!eval_loop_run(machine, scope, node, &subject, &empty)) return EVAL_FAILED;
    eval_statement_leave(scope, body->frame);
    if (!empty || !body->else_body) return EVAL_ON;
    eval_statement_enter(scope, body->else_frame);
    enum eval_flow flow = eval_statement_statements(machine, scope, body->else_body);
    if (flow == EVAL_ON) eval_statement_leave(scope, body->else_frame);
    return flow;
}

/* SPDX-License-Identifier: Apache-2.0
 * The evaluator: walks the tree of a template. Expressions return values, and statements write to
 * the machine's output. Functions return false (or EVAL_FAILED) after the machine has an error.
 */
#pragma once

#include "serving/jinja/parse/jinja_tree.h"

/* The variables of one call of a function. `context`, indexed by the number of the name, has the
 * variables passed to jinja_render and those that the top level exports. */
struct scope {
    struct scope *parent;
    struct value *context;
    struct value slots[];
};

struct value_macro {
    const struct node *node; /* NODE_MACRO, NODE_CALL_BLOCK */
    struct scope *scope;     /* scope that contains the definition */
};

bool eval_expression(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                     struct value *out) MUST_USE;
/* Evaluated arguments of a call, filter or test, in the machine's memory. */
struct eval_arguments {
    struct value few[4];
    struct value *positional;
    struct named_value *named;
    uint32_t count, named_count;
};
bool eval_call_arguments(struct jinja_machine *machine, struct scope *scope,
                         const struct node *node, struct eval_arguments *out) MUST_USE;
/* Evaluates a NODE_CALL. `caller`, if not NULL, is passed as an additional named argument. */
bool eval_call(struct jinja_machine *machine, struct scope *scope, const struct node *node,
               const struct value *caller, struct value *out) MUST_USE;
/* Evaluates a NODE_FILTER on a subject that is already evaluated. */
bool eval_filter(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                 const struct value *subject, struct value *out) MUST_USE;
/* Assigns the value to the target: a name, a tuple, or a namespace member. */
bool eval_statement_assign(struct jinja_machine *machine, struct scope *scope,
                           const struct node *target, const struct value *value) MUST_USE;

enum eval_flow { EVAL_FAILED, EVAL_ON, EVAL_BREAK, EVAL_CONTINUE };

enum eval_flow eval_statement_statements(struct jinja_machine *machine, struct scope *scope,
                                         const struct node *list);
enum eval_flow eval_loop(struct jinja_machine *machine, struct scope *scope,
                         const struct node *node);
/* Runs the statements and returns their output as a text. */
bool eval_statement_capture(struct jinja_machine *machine, struct scope *scope,
                            const struct node *list, enum eval_flow *flow,
                            struct value *out) MUST_USE;
struct scope *eval_statement_scope(struct jinja_machine *machine,
                                   const struct frame_function *function, struct scope *parent,
                                   struct value *context);
/* Initialize the frame's names at its start, and clear them at its end. */
void eval_statement_enter(struct scope *scope, const struct frame *frame);
void eval_statement_leave(struct scope *scope, const struct frame *frame);

static inline struct value *eval_slot(struct scope *scope, struct node_place place) {
    for (uint32_t i = 0; i < place.hops; i++)
        scope = scope->parent;
    return &scope->slots[place.slot];
}

/* Calls a function, method or macro. Fails for other values. */
bool eval_call_value_call(struct jinja_machine *machine, const struct value *callee,
                          const struct value *arguments, uint32_t argument_count,
                          const struct named_value *named, uint32_t named_count,
                          struct value *out) MUST_USE;

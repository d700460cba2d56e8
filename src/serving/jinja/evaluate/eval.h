/* SPDX-License-Identifier: Apache-2.0
 * Runs a template's tree: expressions give values, statements write to the machine's output. Each
 * function has its variables in a scope.
 */
#pragma once

#include "serving/jinja/parse/jinja_tree.h"

/* A function's variables. `context` holds what the render was given and what the top level exports,
 * by number of the name. */
struct scope {
    struct scope *parent;
    struct value *context;
    struct value slots[];
};

struct value_macro {
    const struct node *node; /* NODE_MACRO, NODE_CALL_BLOCK */
    struct scope *scope;     /* around its definition */
};

bool eval_expression(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                     struct value *out) MUST_USE;
/* Arguments of a call, a filter, a test, in the machine's memory. */
struct eval_arguments {
    struct value few[4];
    struct value *positional;
    struct named_value *named;
    uint32_t count, named_count;
};
bool eval_call_arguments(struct jinja_machine *machine, struct scope *scope,
                         const struct node *node, struct eval_arguments *out) MUST_USE;
/* A NODE_CALL, with `caller` as one more named argument (NULL: none). */
bool eval_call(struct jinja_machine *machine, struct scope *scope, const struct node *node,
               const struct value *caller, struct value *out) MUST_USE;
/* A NODE_FILTER with an evaluated subject. */
bool eval_filter(struct jinja_machine *machine, struct scope *scope, const struct node *node,
                 const struct value *subject, struct value *out) MUST_USE;
/* Sets the target's names. */
bool eval_statement_assign(struct jinja_machine *machine, struct scope *scope,
                           const struct node *target, const struct value *value) MUST_USE;

enum eval_flow { EVAL_FAILED, EVAL_ON, EVAL_BREAK, EVAL_CONTINUE };

enum eval_flow eval_statement_statements(struct jinja_machine *machine, struct scope *scope,
                                         const struct node *list);
enum eval_flow eval_loop(struct jinja_machine *machine, struct scope *scope,
                         const struct node *node);
/* The output of the statements, as a text. */
bool eval_statement_capture(struct jinja_machine *machine, struct scope *scope,
                            const struct node *list, enum eval_flow *flow,
                            struct value *out) MUST_USE;
struct scope *eval_statement_scope(struct jinja_machine *machine,
                                   const struct frame_function *function, struct scope *parent,
                                   struct value *context);
/* Sets the frame's names to what they are at its beginning, or to nothing at its end. */
void eval_statement_enter(struct scope *scope, const struct frame *frame);
void eval_statement_leave(struct scope *scope, const struct frame *frame);

static inline struct value *eval_slot(struct scope *scope, struct node_place place) {
    for (uint32_t i = 0; i < place.hops; i++)
        scope = scope->parent;
    return &scope->slots[place.slot];
}

/* Calls a function, a method, a macro; fails on others. */
bool eval_call_value_call(struct jinja_machine *machine, const struct value *callee,
                          const struct value *arguments, uint32_t argument_count,
                          const struct named_value *named, uint32_t named_count,
                          struct value *out) MUST_USE;

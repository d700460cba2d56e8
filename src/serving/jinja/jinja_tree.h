/* SPDX-License-Identifier: Apache-2.0
 * A compiled template: its statements and expressions as a tree, in which names are resolved to
 * memory locations.
 *
 * Jinja compiles templates to Python functions, and that determines which variable a name refers
 * to. The top level and each macro is a function, with its variables in one `struct scope`. Inside a function each loop, `with` and the like is a frame: its
 * own names, initialized when it is entered. jinja_scopes.c resolves all that.
 */
#ifndef SERVING_JINJA_JINJA_TREE_H
#define SERVING_JINJA_JINJA_TREE_H

#include "serving/jinja/jinja_machine.h"

#define NODE_DEPTH_MAX 200 /* of nodes in nodes */

enum node_kind {
    /* expressions */
    NODE_CONSTANT,    /* value */
    NODE_NAME,        /* value: its text; place */
    NODE_ATTRIBUTE,   /* a . value; flag: dicts have a method of that name */
    NODE_ITEM,        /* a [b] */
    NODE_SLICE,       /* a [b : c : list] */
    NODE_NOT,         /* a */
    NODE_NEGATIVE,    /* a */
    NODE_POSITIVE,    /* a */
    NODE_AND,         /* a, b */
    NODE_OR,          /* a, b */
    NODE_ARITHMETIC,  /* a, b; operation */
    NODE_CONCATENATE, /* list */
    NODE_COMPARE,     /* a, then list of NODE_OPERAND */
    NODE_OPERAND,     /* a; operation */
    NODE_CONDITION,   /* b if a else c; c may be NULL */
    NODE_TUPLE,       /* list */
    NODE_LIST,        /* list */
    NODE_DICT,        /* list of NODE_PAIR */
    NODE_PAIR,        /* a: b */
    NODE_FILTER,      /* a | value (arguments); a is NULL for the text of a block */
    NODE_TEST,        /* a is value (arguments) */
    NODE_CALL,        /* a (arguments) */
    NODE_KEYWORD,     /* value = a */
    NODE_MEMBER,      /* as a target: namespace place . value */
    /* statements */
    NODE_TEXT,         /* value */
    NODE_PRINT,        /* a */
    NODE_FOR,          /* for a in b if c: body, else_body */
    NODE_IF,           /* a, body; list: further NODE_IF of elif; else_body */
    NODE_SET,          /* a = b */
    NODE_SET_BLOCK,    /* a = body, through filter b (NULL: none) */
    NODE_MACRO,        /* value: its name; place; list: parameters; body */
    NODE_CALL_BLOCK,   /* b: the call; as NODE_MACRO. b NULL: {% generation %} */
    NODE_FILTER_BLOCK, /* a: the filter; body */
    NODE_WITH,         /* list: of NODE_SET; body */
    NODE_BREAK,
    NODE_CONTINUE
};

enum node_operation {
    OPERATION_ADD,
    OPERATION_SUBTRACT,
    OPERATION_MULTIPLY,
    OPERATION_DIVIDE,
    OPERATION_FLOOR,
    OPERATION_MODULO,
    OPERATION_EQUAL,
    OPERATION_UNEQUAL,
    OPERATION_LESS,
    OPERATION_LESS_EQUAL,
    OPERATION_GREATER,
    OPERATION_GREATER_EQUAL,
    OPERATION_IN,
    OPERATION_NOT_IN
};

/* Where a variable lies: in a function so many outside of this one. */
struct node_place {
    uint32_t hops, slot;
};

enum symbol_action { SYMBOL_PARAMETER, SYMBOL_RESOLVE, SYMBOL_ALIAS, SYMBOL_UNDEFINED };

/* A name of a frame, and what it is set to when the frame is entered. */
struct symbol {
    uint32_t name; /* in the program's names */
    uint32_t slot;
    enum symbol_action action;
    struct node_place alias;
    bool stored;
};

struct frame {
    struct frame *parent;         /* with names that this one sees */
    struct frame_function *owner; /* the function that it is part of */
    struct symbol *symbols;
    uint32_t count, capacity;
    uint32_t *stores; /* symbols in the order in which they were stored to first */
    uint32_t store_count, store_capacity;
};

struct frame_function {
    struct frame_function *parent;
    uint32_t slot_count;
};

/* Members that only some nodes need. */
struct node_body {
    struct node *body, *else_body;
    struct frame *frame;      /* of the body */
    struct frame *else_frame; /* of a loop's else */
    struct frame *test_frame; /* of a loop's if */
    struct frame_function *function;
    struct node_place place; /* of `loop`; of a macro's name */
    struct node *targets;    /* a loop's target again, for its if: places in test_frame */
    /* macros: slots of the parameters */
    uint32_t *slots;
    uint32_t parameter_count;
    uint32_t caller_slot; /* SLOT_NONE: its body names no `caller` */
    bool extended;        /* a loop that uses `loop` */
    bool exported;        /* a macro or set of the top level */
};

#define SLOT_NONE UINT32_MAX

struct node {
    enum node_kind kind;
    uint32_t line;
    uint8_t operation;
    bool flag;
    uint16_t depth;
    uint32_t count; /* of list; of a call: positional arguments */
    struct node *next;
    struct node *a, *b, *c;
    struct node *list; /* a call's: first the positional arguments, then NODE_KEYWORD */
    struct value value;
    union {
        struct { /* of a name; behind it its number, and 1, if the top level exports what is set */
            struct node_place place;
            uint32_t exported_name;
        };
        struct {
            const struct routine *routine; /* of a filter, a test */
            struct node *rest;             /* *arguments of calls, filters, tests */
        };
        struct { /* of an attribute: the methods that have its name */
            const struct routine *text_method, *list_method, *dict_method;
        };
        struct node_body *body;
    };
};

struct jinja_program {
    const char *name;
    struct node *statements;
    struct frame *frame;
    struct frame_function *function;
    struct value *words; /* [word_count] names, attributes, literals: each once; by number */
    uint32_t *word_index;
    uint32_t word_count, word_capacity, word_index_count;
    struct node *texts; /* NODE_TEXT, linked by `a` */
};

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

/* Attributes of what only the evaluator knows. *found false: there is none. */
bool eval_loop_value_loop_attribute(struct jinja_machine *machine, const struct value *loop,
                                    const struct value_text *name, struct value *out,
                                    bool *found) MUST_USE;

/* a + b and the like. */
bool value_operate(struct jinja_machine *machine, enum node_operation operation,
                   const struct value *a, const struct value *b, struct value *out) MUST_USE;

/* ---- the evaluator (eval*.c) ---- */

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

#endif

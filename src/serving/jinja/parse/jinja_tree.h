/* SPDX-License-Identifier: Apache-2.0
 * A compiled template: its statements and expressions as a tree, in which names are resolved to
 * memory locations.
 *
 * Jinja compiles templates to Python functions, and that determines which variable a name refers
 * to. The top level and each macro is a function, with its variables in one `struct scope`. Inside a function each loop, `with` and the like is a frame: its
 * own names, initialized when it is entered. jinja_scopes.c resolves all that.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

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
    NODE_BREAK,
    NODE_CONTINUE
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
    bool stored, loaded;
};

struct frame {
    struct frame *parent;         /* with names that this one sees */
    struct frame_function *owner; /* the function that it is part of */
    struct symbol *symbols;
    uint32_t count, capacity;
    uint32_t *stores; /* symbols in the order in which they were stored to first */
    uint32_t store_count;
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
    bool exported;        /* a macro or set of the top level */
};

#define SLOT_NONE UINT32_MAX

struct node {
    enum node_kind kind;
    uint32_t line;
    uint8_t operation;
    bool flag;
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

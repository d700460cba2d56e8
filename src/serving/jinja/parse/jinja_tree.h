/* SPDX-License-Identifier: Apache-2.0
 * A compiled template: its statements and expressions as a tree, in which names are resolved to
 * memory locations.
 *
 * Jinja compiles templates to Python functions, and that determines which variable a name refers
 * to. The top level and each macro is a function, with its variables in one `struct scope`. Each
 * loop or similar block in a function is a frame: it has names of its own, which are initialized
 * when it is entered. jinja_scopes.c resolves them.
 */
#pragma once

#include "serving/jinja/values/jinja_machine.h"

#define NODE_DEPTH_MAX 200 /* nesting depth of nodes */

enum node_kind {
    /* expressions */
    NODE_CONSTANT,    /* value */
    NODE_NAME,        /* value: text of the name; place */
    NODE_ATTRIBUTE,   /* a . value; flag: dict has a method of that name */
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
    NODE_MACRO,        /* value: name; place; list: parameters; body */
    NODE_CALL_BLOCK,   /* b: the call; as NODE_MACRO. b NULL: {% generation %} */
    NODE_FILTER_BLOCK, /* a: the filter; body */
    NODE_BREAK,
    NODE_CONTINUE
};

/* The location of a variable: a slot of the function `hops` levels outside of this one. */
struct node_place {
    uint32_t hops, slot;
};

enum symbol_action { SYMBOL_PARAMETER, SYMBOL_RESOLVE, SYMBOL_ALIAS, SYMBOL_UNDEFINED };

/* A name of a frame, and how it is initialized when the frame is entered. */
struct symbol {
    uint32_t name; /* number of the word in the program */
    uint32_t slot;
    enum symbol_action action;
    struct node_place alias;
    bool stored, loaded;
};

struct frame {
    struct frame *parent;         /* enclosing frame; its names are visible here */
    struct frame_function *owner; /* function that contains the frame */
    struct symbol *symbols;
    uint32_t count, capacity;
    uint32_t *stores; /* indices of assigned symbols, by first assignment */
    uint32_t store_count;
};

struct frame_function {
    struct frame_function *parent;
    uint32_t slot_count;
};

/* Members that only some nodes need. */
struct node_body {
    struct node *body, *else_body;
    struct frame *frame;      /* frame of the body */
    struct frame *else_frame; /* frame of a loop's else */
    struct frame *test_frame; /* frame of a loop's if */
    struct frame_function *function;
    struct node_place place; /* place of `loop`, or of a macro's name */
    struct node *targets;    /* copy of a loop's target for its if, with places in test_frame */
    /* macros: slots of the parameters */
    uint32_t *slots;
    uint32_t parameter_count;
    uint32_t caller_slot; /* SLOT_NONE: the body does not use `caller` */
    bool exported;        /* true for a macro or set at the top level */
};

#define SLOT_NONE UINT32_MAX

struct node {
    enum node_kind kind;
    uint32_t line;
    uint8_t operation;
    bool flag;
    uint32_t count; /* nodes in `list`; for a call: positional arguments */
    struct node *next;
    struct node *a, *b, *c;
    struct node *list; /* for a call: positional arguments, then NODE_KEYWORD */
    struct value value;
    union {
        struct { /* for a name; exported_name: 1 + its number if the top level exports it, else 0 */
            struct node_place place;
            uint32_t exported_name;
        };
        struct {
            const struct routine *routine; /* for a filter or test */
            struct node *rest;             /* *arguments of a call, filter or test */
        };
        struct { /* for an attribute: the methods of that name */
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
    struct value *words; /* [word_count] names, attributes and literals, each once */
    uint32_t *word_index;
    uint32_t word_count, word_capacity, word_index_count;
    struct node *texts; /* NODE_TEXT, linked by `a` */
};

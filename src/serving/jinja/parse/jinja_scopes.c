/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/parse/jinja_scopes.h"
#include "serving/jinja/parse/jinja_parser.h"

#define SYMBOLS_MAX 4096

struct resolver {
    struct jinja_machine *machine;
    uint32_t caller, named, rest, loop, self; /* numbers of these words */
    uint32_t loops, depth;                    /* current nesting of loops and of nodes */
};

/* The context of the current node. */
struct place_of_code {
    struct frame *frame;
    bool top;   /* assigned names are exported */
    bool soft;  /* inside an `if`: an unknown filter fails only when it runs */
    bool leaps; /* inside a loop: `break` is allowed */
};

static bool jinja_scopes_place(struct resolver *resolver, struct place_of_code at,
                               struct node *node);

/* ---- symbols of a frame ---- */

static struct frame *frame_new(struct resolver *resolver, struct frame *parent,
                               struct frame_function *owner) {
    struct frame *frame = machine_take(resolver->machine, sizeof *frame);
    if (frame) *frame = (struct frame){.parent = parent, .owner = owner};
    return frame;
}

static struct frame_function *function_new(struct resolver *resolver,
                                           struct frame_function *parent) {
    struct frame_function *function = machine_take(resolver->machine, sizeof *function);
    if (function) *function = (struct frame_function){.parent = parent};
    return function;
}

static struct symbol *frame_own(const struct frame *frame, uint32_t name) {
    for (uint32_t i = 0; i < frame->count; i++)
        if (frame->symbols[i].name == name) return &frame->symbols[i];
    return NULL;
}

/* Finds the symbol in this frame or the nearest enclosing one; *holder is that frame. */
static struct symbol *frame_find(struct frame *frame, uint32_t name, struct frame **holder) {
    for (; frame; frame = frame->parent) {
        struct symbol *symbol = frame_own(frame, name);
        if (!symbol) continue;
        *holder = frame;
        return symbol;
    }
    return NULL;
}

static struct node_place place_from(const struct frame_function *function,
                                    const struct frame *holder, const struct symbol *symbol) {
    struct node_place place = {0, symbol->slot};
    for (; function && function != holder->owner; function = function->parent)
        place.hops++;
    return place;
}

static struct symbol *define(struct resolver *resolver, struct frame *frame, uint32_t name,
                             enum symbol_action action) {
    if (frame->count == frame->capacity) {
        uint32_t capacity = frame->capacity ? 2 * frame->capacity : 8;
        struct symbol *symbols = machine_take(resolver->machine, capacity * sizeof *symbols);
        uint32_t *stores = machine_take(resolver->machine, capacity * sizeof *stores);
        if (!symbols || !stores) return NULL;
        if (capacity > SYMBOLS_MAX) {
            jinja_machine_note_excess(resolver->machine, "names");
            return NULL;
        }
        if (frame->count) {
            memcpy(symbols, frame->symbols, frame->count * sizeof *symbols);
            memcpy(stores, frame->stores, frame->store_count * sizeof *stores);
        }
        frame->symbols = symbols;
        frame->stores = stores;
        frame->capacity = capacity;
    }
    struct symbol *symbol = &frame->symbols[frame->count++];
    *symbol = (struct symbol){.name = name, .slot = frame->owner->slot_count++, .action = action};
    return symbol;
}

static void mark_stored(struct frame *frame, struct symbol *symbol) {
    if (symbol->stored) return;
    symbol->stored = true;
    frame->stores[frame->store_count++] = (uint32_t)(symbol - frame->symbols);
}

/* Initializes the symbol from the enclosing variable of the same name, or by `otherwise` if there
 * is none. */
static void alias_or(struct frame *frame, struct symbol *symbol, enum symbol_action otherwise) {
    struct frame *holder;
    struct symbol *outer = frame_find(frame->parent, symbol->name, &holder);
    symbol->action = outer ? SYMBOL_ALIAS : otherwise;
    if (outer) symbol->alias = place_from(frame->owner, holder, outer);
}

static bool symbol_store(struct resolver *resolver, struct frame *frame, uint32_t name) {
    struct symbol *symbol = frame_own(frame, name);
    if (!symbol) {
        symbol = define(resolver, frame, name, SYMBOL_UNDEFINED);
        if (!symbol) return false;
        alias_or(frame, symbol, SYMBOL_UNDEFINED);
    }
    mark_stored(frame, symbol);
    return true;
}

static bool symbol_load(struct resolver *resolver, struct frame *frame, uint32_t name) {
    struct frame *holder;
    return frame_find(frame, name, &holder) || define(resolver, frame, name, SYMBOL_RESOLVE);
}

/* Declares a parameter or another name that is always set, and returns its slot. */
static bool symbol_declare(struct resolver *resolver, struct frame *frame, uint32_t name,
                           uint32_t *slot_out) {
    struct symbol *symbol = frame_own(frame, name);
    if (!symbol) symbol = define(resolver, frame, name, SYMBOL_PARAMETER);
    if (!symbol) return false;
    symbol->action = SYMBOL_PARAMETER;
    mark_stored(frame, symbol);
    if (slot_out) *slot_out = symbol->slot;
    return true;
}

/* ---- symbols of statements ---- */

static bool jinja_scopes_see(struct resolver *resolver, struct frame *frame,
                             const struct node *node);

/* Bounds the recursion: fails if the tree is too deep. */
static bool jinja_scopes_enter(struct resolver *resolver) {
    if (resolver->depth >= NODE_DEPTH_MAX)
        return machine_exceed(resolver->machine, "levels of nesting");
    resolver->depth++;
    return true;
}

static bool see_all(struct resolver *resolver, struct frame *frame, const struct node *list) {
    for (; list; list = list->next)
        if (!jinja_scopes_see(resolver, frame, list)) return false;
    return true;
}

static bool see_target(struct resolver *resolver, struct frame *frame, const struct node *target,
                       bool parameter) {
    if (target->kind == NODE_MEMBER) return symbol_load(resolver, frame, target->a->count);
    if (target->kind == NODE_NAME)
        return parameter ? symbol_declare(resolver, frame, target->count, NULL)
                         : symbol_store(resolver, frame, target->count);
    for (const struct node *item = target->list; item; item = item->next)
        if (!see_target(resolver, frame, item, parameter)) return false;
    return true;
}

static bool see_if(struct resolver *resolver, struct frame *frame, const struct node *node) {
    if (!jinja_scopes_enter(resolver) || !jinja_scopes_see(resolver, frame, node->a)) return false;
    uint32_t stored = frame->store_count;
    if (!see_all(resolver, frame, node->body->body) || !see_all(resolver, frame, node->list) ||
        !see_all(resolver, frame, node->body->else_body))
        return false;
    for (uint32_t i = stored; i < frame->store_count; i++)
        alias_or(frame, &frame->symbols[frame->stores[i]], SYMBOL_RESOLVE);
    resolver->depth--;
    return true;
}

static bool has_arguments(const struct node *node) {
    return node->kind == NODE_CALL || node->kind == NODE_FILTER || node->kind == NODE_TEST;
}

static bool see_expression(struct resolver *resolver, struct frame *frame,
                           const struct node *node) {
    if (!jinja_scopes_enter(resolver) || !jinja_scopes_see(resolver, frame, node->a) ||
        !jinja_scopes_see(resolver, frame, node->b) ||
        !jinja_scopes_see(resolver, frame, node->c) || !see_all(resolver, frame, node->list) ||
        (has_arguments(node) && !jinja_scopes_see(resolver, frame, node->rest)))
        return false;
    resolver->depth--;
    return true;
}

static bool jinja_scopes_see(struct resolver *resolver, struct frame *frame,
                             const struct node *node) {
    if (!node) return true;
    switch (node->kind) {
    case NODE_NAME:
        return symbol_load(resolver, frame, node->count);
    case NODE_IF:
        return see_if(resolver, frame, node);
    case NODE_FOR:
        return jinja_scopes_see(resolver, frame, node->b);
    case NODE_SET:
        return jinja_scopes_see(resolver, frame, node->b) &&
               see_target(resolver, frame, node->a, false);
    case NODE_SET_BLOCK:
        return see_target(resolver, frame, node->a, false);
    case NODE_MACRO:
        return symbol_store(resolver, frame, node->count);
    case NODE_CALL_BLOCK:
        return jinja_scopes_see(resolver, frame, node->b);
    case NODE_FILTER_BLOCK:
        return jinja_scopes_see(resolver, frame, node->a);
    case NODE_TEXT:
    case NODE_CONSTANT:
    case NODE_BREAK:
    case NODE_CONTINUE:
        return true;
    default:
        return see_expression(resolver, frame, node);
    }
}

/* ---- places ---- */

static bool jinja_scopes_place_all(struct resolver *resolver, struct place_of_code at,
                                   struct node *list) {
    for (; list; list = list->next)
        if (!jinja_scopes_place(resolver, at, list)) return false;
    return true;
}

static bool place_name(struct resolver *resolver, struct place_of_code at, uint32_t name,
                       struct node_place *out) {
    struct frame *holder;
    struct symbol *symbol = frame_find(at.frame, name, &holder);
    if (!symbol) { /* possible only in a filter of a set block */
        symbol = define(resolver, at.frame, name, SYMBOL_RESOLVE);
        if (!symbol) return false;
        holder = at.frame;
    }
    *out = place_from(at.frame->owner, holder, symbol);
    return true;
}

/* Resolves a name that is read. */
static bool place_load(struct resolver *resolver, struct place_of_code at, struct node *node) {
    struct frame *holder = at.frame;
    struct symbol *symbol = frame_find(at.frame, node->count, &holder);
    bool own = symbol && symbol->stored && holder->owner == at.frame->owner;
    bool in_macro = at.frame->owner->parent != NULL;
    if (symbol) symbol->loaded = true;
    if (!own && in_macro && (node->count == resolver->named || node->count == resolver->rest))
        return machine_fail(resolver->machine, "'%s' in a macro is not supported",
                            node->value.text->data);
    if (node->count == resolver->self && !(symbol && symbol->stored))
        return machine_fail(resolver->machine, "'self' is not supported");
    return place_name(resolver, at, node->count, &node->place);
}

static bool place_target(struct resolver *resolver, struct place_of_code at, struct node *target) {
    if (target->kind == NODE_MEMBER)
        return place_name(resolver, at, target->a->count, &target->a->place);
    if (target->kind == NODE_NAME) {
        if (target->count == resolver->loop && resolver->loops)
            return machine_fail(resolver->machine,
                                "Can't assign to special loop variable in for-loop target");
        target->exported_name = at.top ? 1 + target->count : 0;
        return place_name(resolver, at, target->count, &target->place);
    }
    for (struct node *item = target->list; item; item = item->next)
        if (!place_target(resolver, at, item)) return false;
    return true;
}

static bool place_for(struct resolver *resolver, struct place_of_code at, struct node *node) {
    struct node_body *body = node->body;
    struct frame_function *owner = at.frame->owner;
    body->frame = frame_new(resolver, at.frame, owner);
    body->test_frame = body->frame ? frame_new(resolver, at.frame, owner) : NULL;
    body->else_frame = body->test_frame ? frame_new(resolver, at.frame, owner) : NULL;
    if (!body->else_frame) return false;
    if (!symbol_declare(resolver, body->frame, resolver->loop, &body->place.slot) ||
        !see_target(resolver, body->frame, node->a, true) ||
        !see_all(resolver, body->frame, body->body) ||
        !see_all(resolver, body->else_frame, body->else_body))
        return false;
    if (node->c && (!see_target(resolver, body->test_frame, node->a, true) ||
                    !jinja_scopes_see(resolver, body->test_frame, node->c)))
        return false;
    resolver->loops++;
    struct place_of_code inner = {.frame = body->frame, .leaps = true};
    struct place_of_code test = {.frame = body->test_frame};
    struct place_of_code last = {.frame = body->else_frame, .leaps = at.leaps};
    bool done = jinja_scopes_place(resolver, at, node->b) &&
                place_target(resolver, inner, node->a) &&
                jinja_scopes_place_all(resolver, inner, body->body) &&
                jinja_scopes_place_all(resolver, last, body->else_body) &&
                (!node->c || (place_target(resolver, test, body->targets) &&
                              jinja_scopes_place(resolver, test, node->c)));
    resolver->loops--;
    return done;
}

/* Declares the parameters and `caller`, then the names of the body. */
static bool see_macro(struct resolver *resolver, struct node *node) {
    struct node_body *body = node->body;
    uint32_t i = 0;
    for (struct node *name = node->list; name; name = name->next, i++)
        if (!symbol_declare(resolver, body->frame, name->count, &body->slots[i])) return false;
    if (!frame_own(body->frame, resolver->caller) &&
        !symbol_declare(resolver, body->frame, resolver->caller, &body->caller_slot))
        return false;
    for (struct node *name = node->list; name; name = name->next)
        if (!jinja_scopes_see(resolver, body->frame, name->a)) return false;
    return see_all(resolver, body->frame, body->body);
}

/* A macro accepts `caller` if its body reads it. */
static bool check_caller(struct resolver *resolver, struct node *node) {
    struct node_body *body = node->body;
    if (!frame_own(body->frame, resolver->caller)->loaded) body->caller_slot = SLOT_NONE;
    for (struct node *name = node->list; name; name = name->next)
        if (name->count == resolver->caller && !name->a &&
            frame_own(body->frame, name->count)->loaded)
            return machine_fail(resolver->machine,
                                "When defining macros or call blocks the special \"caller\" "
                                "argument must be omitted or be given a default.");
    return true;
}

/* Resolves the body of a macro or call block, which is a function of its own. */
static bool place_macro_body(struct resolver *resolver, struct place_of_code at,
                             struct node *node) {
    struct node_body *body = node->body;
    body->function = function_new(resolver, at.frame->owner);
    body->frame = body->function ? frame_new(resolver, at.frame, body->function) : NULL;
    body->slots = machine_take(resolver->machine, (body->parameter_count + 1) * sizeof(uint32_t));
    if (!body->frame || !body->slots || !see_macro(resolver, node)) return false;
    uint32_t loops = resolver->loops;
    struct place_of_code inner = {.frame = body->frame};
    for (struct node *name = node->list; name; name = name->next)
        if (name->a && !jinja_scopes_place(resolver, inner, name->a)) return false;
    bool done = jinja_scopes_place_all(resolver, inner, body->body);
    resolver->loops = loops;
    return done && check_caller(resolver, node);
}

static bool place_macro(struct resolver *resolver, struct place_of_code at, struct node *node) {
    if (!place_macro_body(resolver, at, node)) return false;
    if (node->kind == NODE_CALL_BLOCK) return !node->b || jinja_scopes_place(resolver, at, node->b);
    node->body->exported = at.top;
    return place_name(resolver, at, node->count, &node->body->place);
}

static bool place_framed(struct resolver *resolver, struct place_of_code at, struct node *node) {
    struct node_body *body = node->body;
    body->frame = frame_new(resolver, at.frame, at.frame->owner);
    if (!body->frame) return false;
    struct place_of_code inner = {.frame = body->frame, .leaps = at.leaps};
    if (!see_all(resolver, body->frame, body->body)) return false;
    if (node->kind == NODE_FILTER_BLOCK && !jinja_scopes_see(resolver, body->frame, node->a))
        return false;
    if (node->kind == NODE_SET_BLOCK && !place_target(resolver, at, node->a)) return false;
    if (!jinja_scopes_place_all(resolver, inner, body->body)) return false;
    if (node->kind == NODE_FILTER_BLOCK) return jinja_scopes_place(resolver, inner, node->a);
    return node->kind != NODE_SET_BLOCK || !node->b || jinja_scopes_place(resolver, inner, node->b);
}

static bool place_call(struct resolver *resolver, struct place_of_code at, struct node *node) {
    if (node->kind != NODE_CALL && !node->routine && !at.soft) {
        resolver->machine->line = node->line;
        return machine_fail(resolver->machine, "the %s '%s' is unknown or not supported",
                            node->kind == NODE_FILTER ? "filter" : "test", node->value.text->data);
    }
    return (!node->a || jinja_scopes_place(resolver, at, node->a)) &&
           jinja_scopes_place_all(resolver, at, node->list) &&
           (!node->rest || jinja_scopes_place(resolver, at, node->rest));
}

static bool place_if(struct resolver *resolver, struct place_of_code at, struct node *node) {
    at.soft = true;
    return jinja_scopes_place(resolver, at, node->a) &&
           jinja_scopes_place_all(resolver, at, node->body->body) &&
           jinja_scopes_place_all(resolver, at, node->list) &&
           jinja_scopes_place_all(resolver, at, node->body->else_body);
}

static bool place_node(struct resolver *resolver, struct place_of_code at, struct node *node) {
    if (node->kind >= NODE_TEXT) resolver->machine->line = node->line;
    switch (node->kind) {
    case NODE_TEXT:
    case NODE_CONSTANT:
        return true;
    case NODE_NAME:
        return place_load(resolver, at, node);
    case NODE_CALL:
    case NODE_FILTER:
    case NODE_TEST:
        return place_call(resolver, at, node);
    case NODE_IF:
        return place_if(resolver, at, node);
    case NODE_FOR:
        return place_for(resolver, at, node);
    case NODE_SET:
        return place_target(resolver, at, node->a) && jinja_scopes_place(resolver, at, node->b);
    case NODE_MACRO:
    case NODE_CALL_BLOCK:
        return place_macro(resolver, at, node);
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
        return place_framed(resolver, at, node);
    case NODE_BREAK:
    case NODE_CONTINUE:
        return at.leaps || machine_fail(resolver->machine, "'%s' outside loop",
                                        node->kind == NODE_BREAK ? "break" : "continue");
    default:
        break;
    }
    if (node->kind == NODE_CONDITION) at.soft = true;
    return (!node->a || jinja_scopes_place(resolver, at, node->a)) &&
           (!node->b || jinja_scopes_place(resolver, at, node->b)) &&
           (!node->c || jinja_scopes_place(resolver, at, node->c)) &&
           jinja_scopes_place_all(resolver, at, node->list);
}

static bool jinja_scopes_place(struct resolver *resolver, struct place_of_code at,
                               struct node *node) {
    if (!jinja_scopes_enter(resolver) || !place_node(resolver, at, node)) return false;
    resolver->depth--;
    return true;
}

bool jinja_scopes_resolve(struct jinja_machine *machine, struct jinja_program *program) {
    struct resolver resolver = {
        .machine = machine,
        .caller = jinja_parser_number(program, BYTES_LITERAL("caller")),
        .named = jinja_parser_number(program, BYTES_LITERAL("kwargs")),
        .rest = jinja_parser_number(program, BYTES_LITERAL("varargs")),
        .loop = jinja_parser_number(program, BYTES_LITERAL("loop")),
        .self = jinja_parser_number(program, BYTES_LITERAL("self")),
    };
    program->function = function_new(&resolver, NULL);
    program->frame = program->function ? frame_new(&resolver, NULL, program->function) : NULL;
    if (!program->frame) return false;
    struct place_of_code at = {.frame = program->frame, .top = true};
    return see_all(&resolver, program->frame, program->statements) &&
           jinja_scopes_place_all(&resolver, at, program->statements);
}

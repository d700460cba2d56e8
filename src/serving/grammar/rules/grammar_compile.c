/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/rules/grammar_builder.h"

#include "base/check.h"
#include "serving/grammar/automata/automaton_builder.h"
#include "serving/grammar/automata/regex_tree.h"

#define INLINE_SIZE_MAX 512  /* size of an inlined rule */
#define COPIES_SIZE_MAX 4096 /* size of all copies that a repetition makes */
#define BEGIN_DEPTH_MAX 200  /* nested calls before the first byte */
#define UNDECIDED UINT64_MAX

enum { PRODUCTIVE = 1, NULLABLE = 2 };

struct grammar_compiler {
    struct grammar_builder *builder;
    struct arena *arena;
    struct error *error;
    uint64_t *node_sizes, *rule_sizes;
    uint8_t *node_flags, *rule_flags;
    bool *called;      /* [rules] never inlined */
    uint32_t *numbers; /* [rules] number in the program; RULE_NONE: none yet */
    uint32_t *order;   /* [rules] inverse of numbers */
    struct grammar_rule *rules;
    uint32_t rule_count;
    struct grammar_program *program;
};

static void *grammar_compile_take_words(struct grammar_compiler *compiler, size_t count,
                                        size_t item_bytes) {
    return arena_take_zeroed(compiler->builder->work->arena, (count + 1) * item_bytes);
}

static enum status grammar_compile_spend(struct grammar_compiler *compiler, uint64_t steps) {
    return automaton_spend(compiler->builder->work, steps) ? STATUS_OK : STATUS_TOO_LARGE;
}

/* ---- inlining ---- */

static uint64_t add_sizes(uint64_t a, uint64_t b) {
    return a == UNDECIDED || b == UNDECIDED ? UNDECIDED : a + b;
}

static bool is_inlined(const struct grammar_compiler *compiler, uint32_t rule) {
    return !compiler->called[rule] && compiler->rule_sizes[rule] <= INLINE_SIZE_MAX;
}

static uint64_t size_of_reference(const struct grammar_compiler *compiler, uint32_t rule) {
    if (compiler->called[rule]) return 1;
    uint64_t size = compiler->rule_sizes[rule];
    return size == UNDECIDED || size <= INLINE_SIZE_MAX ? size : 1;
}

static uint64_t size_of_repeat(struct grammar_compiler *compiler, const struct regex_node *node) {
    uint64_t copies = node->max == REGEX_UNBOUNDED ? (uint64_t)node->min + 1 : node->max;
    uint64_t body = compiler->node_sizes[node->first];
    uint32_t rule = rule_of_node(compiler->builder, node->first);
    if (body == UNDECIDED) return UNDECIDED;
    if (body > 1 && body * copies > COPIES_SIZE_MAX && rule != RULE_NONE) {
        compiler->called[rule] = true;
        body = 1;
    }
    return 1 + body * copies;
}

static uint64_t size_of(struct grammar_compiler *compiler, uint32_t number) {
    const struct grammar_builder *builder = compiler->builder;
    const struct regex_node *node = &builder->tree.nodes[number];
    uint64_t size = 1;
    if (rule_of_node(builder, number) != RULE_NONE)
        return size_of_reference(compiler, rule_of_node(builder, number));
    if (node->kind == REGEX_SET) return 1 + node->count;
    if (node->kind == REGEX_REPEAT) return size_of_repeat(compiler, node);
    for (uint32_t i = 0; i < node->count; i++)
        size = add_sizes(size, compiler->node_sizes[builder->tree.links[node->first + i]]);
    return size;
}

/* Computes sizes bottom-up. Rules that stay UNDECIDED are recursive. */
static enum status find_sizes(struct grammar_compiler *compiler) {
    const struct grammar_builder *builder = compiler->builder;
    for (size_t r = 0; r < builder->rule_count; r++) {
        compiler->rule_sizes[r] = UNDECIDED;
        compiler->called[r] = builder->rules[r].automaton != NULL;
    }
    for (bool changed = true; changed;) {
        changed = false;
        if (grammar_compile_spend(compiler, builder->tree.link_count + builder->tree.node_count))
            return STATUS_TOO_LARGE;
        for (uint32_t n = 0; n < builder->tree.node_count; n++)
            compiler->node_sizes[n] = size_of(compiler, n);
        for (size_t r = 0; r < builder->rule_count; r++) {
            if (compiler->rule_sizes[r] != UNDECIDED || builder->rules[r].automaton) continue;
            compiler->rule_sizes[r] = compiler->node_sizes[builder->rules[r].body];
            changed |= compiler->rule_sizes[r] != UNDECIDED;
        }
    }
    return STATUS_OK;
}

/* ---- productive rules (with a finite text) and nullable rules ---- */

static uint8_t flags_of(const struct grammar_compiler *compiler, uint32_t number) {
    const struct grammar_builder *builder = compiler->builder;
    const struct regex_node *node = &builder->tree.nodes[number];
    if (rule_of_node(builder, number) != RULE_NONE)
        return compiler->rule_flags[rule_of_node(builder, number)];
    if (node->kind == REGEX_SET) return node->count > 0 ? PRODUCTIVE : 0;
    if (node->kind == REGEX_REPEAT)
        return compiler->node_flags[node->first] | (node->min == 0 ? PRODUCTIVE | NULLABLE : 0);
    bool sequence = node->kind == REGEX_SEQUENCE;
    uint8_t flags = sequence ? PRODUCTIVE | NULLABLE : 0;
    for (uint32_t i = 0; i < node->count; i++) {
        uint8_t each = compiler->node_flags[builder->tree.links[node->first + i]];
        flags = sequence ? flags & each : flags | each;
    }
    return flags;
}

static enum status grammar_compile_find_productive(struct grammar_compiler *compiler) {
    const struct grammar_builder *builder = compiler->builder;
    for (size_t r = 0; r < builder->rule_count; r++) {
        const struct automaton *automaton = builder->rules[r].automaton;
        if (!automaton || !automaton->start) continue;
        compiler->rule_flags[r] =
            automaton->labels[automaton->start] ? PRODUCTIVE | NULLABLE : PRODUCTIVE;
    }
    for (bool changed = true; changed;) {
        changed = false;
        if (grammar_compile_spend(compiler, builder->tree.link_count + builder->tree.node_count))
            return STATUS_TOO_LARGE;
        for (uint32_t n = 0; n < builder->tree.node_count; n++)
            compiler->node_flags[n] = flags_of(compiler, n);
        for (size_t r = 0; r < builder->rule_count; r++) {
            if (builder->rules[r].automaton) continue;
            uint8_t flags = compiler->node_flags[builder->rules[r].body];
            changed |= flags != compiler->rule_flags[r];
            compiler->rule_flags[r] = flags;
        }
    }
    return STATUS_OK;
}

/* ---- references ---- */

static enum status put_references(struct grammar_compiler *compiler) {
    struct grammar_builder *builder = compiler->builder;
    uint32_t *calls = grammar_compile_take_words(compiler, builder->rule_count, sizeof *calls);
    size_t count = builder->tree.node_count;
    uint32_t nothing = 0, empty = 0;
    if (!calls) return STATUS_NO_MEMORY;
    enum status status = regex_tree_add_set(&builder->tree, NULL, 0, &nothing);
    if (!status)
        status =
            regex_tree_gather(&builder->tree, REGEX_SEQUENCE, builder->tree.waiting_count, &empty);
    for (uint32_t r = 0; !status && r < builder->rule_count; r++)
        status = grammar_builder_symbol(builder, RULE_CALL, r, &calls[r]);
    for (size_t n = 0; !status && n < count; n++) {
        uint32_t rule = rule_of_node(builder, n);
        if (rule == RULE_NONE) continue;
        struct regex_node *node = &builder->tree.nodes[n];
        uint8_t flags = compiler->rule_flags[rule];
        bool called = !is_inlined(compiler, rule);
        node->count = called && flags == (PRODUCTIVE | NULLABLE) ? 2 : 1;
        builder->tree.links[node->first] = !(flags & PRODUCTIVE) ? nothing
                                           : called              ? calls[rule]
                                                                 : builder->rules[rule].body;
        builder->tree.links[node->first + 1] = empty;
    }
    return status;
}

/* ---- automata ---- */

static enum status grammar_compile_fail(struct grammar_compiler *compiler, uint32_t rule,
                                        enum status status, const char *what) {
    const struct builder_rule *of = &compiler->builder->rules[rule];
    if (!of->name.count) return error_set(compiler->error, status, "the form: %s", what);
    return error_set(compiler->error, status, "gbnf: line %u: rule %.*s: %s", of->line,
                     (int)of->name.count, of->name.data, what);
}

static uint32_t grammar_compile_number_of(struct grammar_compiler *compiler, uint32_t rule) {
    if (compiler->numbers[rule] == RULE_NONE) {
        compiler->numbers[rule] = compiler->rule_count;
        compiler->order[compiler->rule_count++] = rule;
    }
    return compiler->numbers[rule];
}

static struct rule_edge edge_of(struct grammar_compiler *compiler, uint32_t symbol, uint32_t to) {
    check(symbol < compiler->builder->symbol_count);
    struct builder_symbol of = compiler->builder->symbols[symbol];
    compiler->program->has_tokens |= of.kind == RULE_TOKEN || of.kind == RULE_OTHER_TOKEN;
    if (of.kind == RULE_CALL) of.subject = grammar_compile_number_of(compiler, of.subject);
    return (struct rule_edge){of.kind, of.subject, to};
}

/* Lists the edges of a state, or only counts them if `edges` is NULL. A symbol is four transitions,
 * one for each byte of its code point. */
static uint32_t list_edges(struct grammar_compiler *compiler, const struct automaton *automaton,
                           uint32_t state, struct rule_edge *edges) {
    uint32_t count = 0, one = automaton_step(automaton, state, RULE_SYMBOL_LEAD);
    for (uint32_t symbol = 0; one && symbol < RULE_SYMBOLS_MAX;) {
        uint32_t two = automaton_step(automaton, one, (uint8_t)(0x80 | symbol >> 12));
        uint32_t three = automaton_step(automaton, two, (uint8_t)(0x80 | (symbol >> 6 & 63)));
        uint32_t to = automaton_step(automaton, three, (uint8_t)(0x80 | (symbol & 63)));
        if (to && edges) edges[count] = edge_of(compiler, symbol, to);
        count += to != 0;
        symbol += two == 0 ? 4096 : three == 0 ? 64 : 1;
    }
    return count;
}

static enum status put_edges(struct grammar_compiler *compiler, const struct automaton *automaton,
                             struct grammar_rule *rule) {
    uint32_t count = 0,
             *first = arena_take(compiler->arena, (automaton->state_count + 1) * sizeof *first);
    if (!first) return STATUS_NO_MEMORY;
    for (uint32_t s = 0; s < automaton->state_count; s++) {
        first[s] = count;
        count += s ? list_edges(compiler, automaton, s, NULL) : 0;
    }
    first[automaton->state_count] = count;
    if (grammar_compile_spend(compiler, automaton->state_count + 64 * (uint64_t)count))
        return STATUS_TOO_LARGE;
    if (count == 0) return STATUS_OK;
    struct rule_edge *edges = arena_take(compiler->arena, count * sizeof *edges);
    if (!edges) return STATUS_NO_MEMORY;
    for (uint32_t s = 1; s < automaton->state_count; s++)
        (void)list_edges(compiler, automaton, s, edges + first[s]);
    rule->first_edge = first;
    rule->edges = edges;
    return STATUS_OK;
}

/* Copies a DFA without the transitions of symbols, because no text contains their bytes. */
static const struct automaton *copy_bytes(struct arena *arena, const struct automaton *automaton) {
    struct automaton *copy = automaton_copy(arena, automaton);
    size_t states = automaton->state_count, classes = automaton->class_count;
    uint32_t *next = copy ? (uint32_t *)copy->next : NULL;
    for (size_t s = 0; copy && s < states; s++)
        next[s * classes + automaton->classes[RULE_SYMBOL_LEAD]] = 0;
    if (copy) copy->member_counts = NULL;
    return copy;
}

static enum status make_rule(struct grammar_compiler *compiler, uint32_t number) {
    struct grammar_builder *builder = compiler->builder;
    uint32_t from = compiler->order[number];
    const struct automaton *automaton = builder->rules[from].automaton;
    struct regex regex = {builder->rules[from].body, builder->tree.nodes, builder->tree.links,
                          builder->tree.ranges};
    struct grammar_rule *rule = &compiler->rules[number];
    enum status status = STATUS_OK;
    if (!automaton) {
        status = regex_dfa_make(builder->work, &regex, regex.root, &automaton);
        arena_clear(builder->work->scratch);
    }
    if (!status) status = put_edges(compiler, automaton, rule);
    if (status) return grammar_compile_fail(compiler, from, status, "its automaton is too large");
    rule->automaton = copy_bytes(compiler->arena, automaton);
    if (!rule->automaton) return STATUS_NO_MEMORY;
    for (uint32_t s = 1; s < automaton->state_count; s++) {
        uint32_t edge_count;
        (void)rule_edges(rule, s, &edge_count);
        if (automaton->labels[s] && !edge_count && !automaton_goes_on(rule->automaton, s))
            rule->last = s;
    }
    return STATUS_OK;
}

/* ---- FIRST sets ---- */

static void grammar_compile_add_all(struct byte_set *set, const struct byte_set *other) {
    for (int w = 0; w < 4; w++)
        set->words[w] |= other->words[w];
}

static void grammar_compile_add_value(const struct shape_program *shapes, uint32_t shape,
                                      struct byte_set *set) {
    uint32_t kinds = 0;
    for (uint32_t i = 0; i < shapes->shapes[shape].count; i++)
        kinds |= shapes->alternatives[shapes->shapes[shape].first + i].kinds;
    if (kinds & SHAPE_NULL) byte_set_add(set, 'n');
    if (kinds & SHAPE_TRUE) byte_set_add(set, 't');
    if (kinds & SHAPE_FALSE) byte_set_add(set, 'f');
    if (kinds & SHAPE_STRING) byte_set_add(set, '"');
    if (kinds & SHAPE_ARRAY) byte_set_add(set, '[');
    if (kinds & SHAPE_OBJECT) byte_set_add(set, '{');
    if (!(kinds & SHAPE_NUMBER)) return;
    byte_set_add(set, '-');
    for (int digit = '0'; digit <= '9'; digit++)
        byte_set_add(set, (uint8_t)digit);
}

/* Adds the bytes that may come next in a state, not including those after the rule's end. Returns
 * whether a token may come. */
static bool add_begins(const struct grammar_compiler *compiler, const struct grammar_rule *rule,
                       uint32_t state, struct byte_set *set) {
    uint32_t count;
    const struct rule_edge *edges = rule_edges(rule, state, &count);
    bool token = false;
    for (uint32_t byte = 0; byte < 256; byte++)
        if (automaton_step(rule->automaton, state, (uint8_t)byte)) byte_set_add(set, (uint8_t)byte);
    for (uint32_t i = 0; i < count; i++) {
        token |= edges[i].symbol == RULE_TOKEN || edges[i].symbol == RULE_OTHER_TOKEN;
        if (edges[i].symbol == RULE_VALUE)
            grammar_compile_add_value(compiler->program->shapes, edges[i].subject, set);
        if (edges[i].symbol != RULE_CALL) continue;
        grammar_compile_add_all(set, &compiler->rules[edges[i].subject].begins);
        token |= compiler->rules[edges[i].subject].begins_with_token;
    }
    return token;
}

/* Depth of the calls at the start of a rule; 0: the depth of rule *unknown_out is needed first. */
static uint32_t depth_of(const struct grammar_compiler *compiler, uint32_t number,
                         const uint32_t *depths, uint32_t *unknown_out) {
    const struct grammar_rule *rule = &compiler->rules[number];
    uint32_t count, depth = 1;
    const struct rule_edge *edges = rule_edges(rule, rule->automaton->start, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (edges[i].symbol != RULE_CALL) continue;
        uint32_t below = depths[edges[i].subject];
        if (below == 0) {
            *unknown_out = edges[i].subject;
            return 0;
        }
        if (below + 1 > depth) depth = below + 1;
    }
    return depth;
}

/* Reports a left-recursive rule. Each rule left begins with another one, so there is a cycle. */
static enum status refuse_circle(struct grammar_compiler *compiler, uint32_t number,
                                 const uint32_t *depths) {
    for (uint32_t i = 0; i < compiler->rule_count; i++)
        (void)depth_of(compiler, number, depths, &number);
    for (uint32_t i = 0; i < compiler->rule_count; i++) {
        if (compiler->builder->rules[compiler->order[number]].name.count) break;
        (void)depth_of(compiler, number, depths, &number);
    }
    return grammar_compile_fail(
        compiler, compiler->order[number], STATUS_INVALID,
        "begins with itself (left recursion); write what comes again behind what it "
        "begins with, like a (\",\" a)*");
}

static enum status find_begins(struct grammar_compiler *compiler) {
    uint32_t *depths = grammar_compile_take_words(compiler, compiler->rule_count, sizeof *depths);
    uint32_t left = compiler->rule_count, known = 1, undone = 0;
    if (!depths) return STATUS_NO_MEMORY;
    while (left && known) {
        known = 0;
        for (uint32_t r = 0; r < compiler->rule_count; r++) {
            uint32_t unknown = 0;
            struct grammar_rule *rule = &compiler->rules[r];
            if (grammar_compile_spend(compiler, 1)) return STATUS_TOO_LARGE;
            if (depths[r]) continue;
            depths[r] = depth_of(compiler, r, depths, &unknown);
            undone = depths[r] ? undone : r;
            if (!depths[r]) continue;
            if (depths[r] > BEGIN_DEPTH_MAX)
                return grammar_compile_fail(compiler, compiler->order[r], STATUS_TOO_LARGE,
                                            "more than 200 rules begin with one another");
            rule->begins_with_token =
                add_begins(compiler, rule, rule->automaton->start, &rule->begins);
            known++;
            left--;
        }
    }
    return left ? refuse_circle(compiler, undone, depths) : STATUS_OK;
}

/* ---- FOLLOW sets ---- */

static bool grows(struct byte_set *set, const struct byte_set *other) {
    struct byte_set before = *set;
    grammar_compile_add_all(set, other);
    return memcmp(&before, set, sizeof before) != 0;
}

static enum status find_follows(struct grammar_compiler *compiler) {
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t r = 0; r < compiler->rule_count; r++) {
            struct grammar_rule *rule = &compiler->rules[r];
            uint32_t count = rule->first_edge ? rule->first_edge[rule->automaton->state_count] : 0;
            if (grammar_compile_spend(compiler, 1 + 16 * (uint64_t)count)) return STATUS_TOO_LARGE;
            for (uint32_t i = 0; i < count; i++) {
                const struct rule_edge *edge = &rule->edges[i];
                struct byte_set behind = {{0}};
                if (edge->symbol != RULE_CALL) continue;
                (void)add_begins(compiler, rule, edge->to, &behind);
                if (rule->automaton->labels[edge->to])
                    grammar_compile_add_all(&behind, &rule->follows);
                changed |= grows(&compiler->rules[edge->subject].follows, &behind);
            }
        }
    }
    return STATUS_OK;
}

/* ---- the program ---- */

static enum status open_builder(struct grammar_compiler *compiler) {
    const struct grammar_builder *builder = compiler->builder;
    size_t nodes = builder->tree.node_count, rules = builder->rule_count;
    compiler->node_sizes =
        grammar_compile_take_words(compiler, nodes, sizeof *compiler->node_sizes);
    compiler->rule_sizes =
        grammar_compile_take_words(compiler, rules, sizeof *compiler->rule_sizes);
    compiler->node_flags = grammar_compile_take_words(compiler, nodes, 1);
    compiler->rule_flags = grammar_compile_take_words(compiler, rules, 1);
    compiler->called = grammar_compile_take_words(compiler, rules, sizeof *compiler->called);
    compiler->numbers = grammar_compile_take_words(compiler, rules, sizeof *compiler->numbers);
    compiler->order = grammar_compile_take_words(compiler, rules, sizeof *compiler->order);
    compiler->rules = arena_take_zeroed(compiler->arena, rules * sizeof *compiler->rules);
    compiler->program = arena_take_zeroed(compiler->arena, sizeof *compiler->program);
    if (!compiler->node_sizes || !compiler->rule_sizes || !compiler->node_flags ||
        !compiler->rule_flags || !compiler->called || !compiler->numbers || !compiler->order ||
        !compiler->rules || !compiler->program)
        return STATUS_NO_MEMORY;
    memset(compiler->numbers, 0xFF, rules * sizeof *compiler->numbers);
    return STATUS_OK;
}

static enum status build(struct grammar_compiler *compiler, uint32_t root,
                         const struct shape_program *shapes) {
    enum status status = open_builder(compiler);
    if (!status) status = find_sizes(compiler);
    if (!status) status = grammar_compile_find_productive(compiler);
    if (status) return status;
    compiler->program->shapes = shapes;
    if (!(compiler->rule_flags[root] & PRODUCTIVE))
        return grammar_compile_fail(compiler, root, STATUS_INVALID,
                                    "no text fulfils it: it never comes to an end");
    status = put_references(compiler);
    (void)grammar_compile_number_of(compiler, root);
    for (uint32_t r = 0; !status && r < compiler->rule_count; r++)
        status = make_rule(compiler, r);
    if (!status) status = find_begins(compiler);
    if (!status) status = find_follows(compiler);
    return status;
}

enum status grammar_compile(struct arena *arena, struct grammar_builder *builder, uint32_t root,
                            const struct shape_program *shapes, const struct grammar_program **out,
                            struct error *error) {
    struct grammar_compiler compiler = {.builder = builder, .arena = arena, .error = error};
    error->text[0] = 0;
    enum status status = build(&compiler, root, shapes);
    if (status && !error->text[0])
        return error_set(error, status,
                         status == STATUS_TOO_LARGE ? "the grammar costs too much work"
                                                    : "no memory for a grammar");
    if (status) return status;
    compiler.program->rules = compiler.rules;
    compiler.program->rule_count = compiler.rule_count;
    *out = compiler.program;
    return STATUS_OK;
}

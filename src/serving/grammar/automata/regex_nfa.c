/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/automata/regex_nfa.h"

#include "base/check.h"
#include "base/utf8.h"

#define EDGES_MAX 256 /* edges of one state */

enum status regex_nfa_add_state(struct regex_nfa *nfa, struct nfa_state state, uint32_t *out) {
    if (nfa->state_count / 8 > nfa->work->states_max) return STATUS_TOO_LARGE;
    enum status status =
        automaton_builder_room(nfa->work, nfa->work->scratch, &nfa->states, nfa->state_count,
                               &nfa->state_capacity, sizeof state);
    if (status) return status;
    *out = nfa->state_count;
    nfa->states[nfa->state_count++] = state;
    return STATUS_OK;
}

static enum status add_edge(struct regex_nfa *nfa, struct nfa_edge edge) {
    enum status status = automaton_builder_room(nfa->work, nfa->work->scratch, &nfa->edges,
                                                nfa->edge_count, &nfa->edge_capacity, sizeof edge);
    if (status) return status;
    nfa->edges[nfa->edge_count++] = edge;
    return STATUS_OK;
}

/* ---- characters as bytes ---- */

/* Splits a range of characters into byte runs, in ascending order. */
static enum status cut_range(struct regex_nfa *nfa, uint32_t first, uint32_t last) {
    static const uint32_t borders[] = {0x7F, 0x7FF, 0xD7FF, 0xDFFF, 0xFFFF};
    for (size_t i = 0; i < ARRAY_COUNT(borders); i++)
        if (first <= borders[i] && borders[i] < last) {
            enum status status = cut_range(nfa, first, borders[i]);
            return status ? status : cut_range(nfa, borders[i] + 1, last);
        }
    if (first >= 0xD800 && first <= 0xDFFF) return STATUS_OK; /* surrogates are not characters */
    uint32_t bytes = first < 0x80 ? 1 : first < 0x800 ? 2 : first < 0x10000 ? 3 : 4;
    for (uint32_t i = 1; i < bytes; i++) {
        uint32_t tails = (1u << (6 * i)) - 1, border = 0;
        if ((first & ~tails) == (last & ~tails)) continue;
        if (first & tails)
            border = first | tails;
        else if ((last & tails) != tails)
            border = (last & ~tails) - 1;
        else
            continue;
        enum status status = cut_range(nfa, first, border);
        return status ? status : cut_range(nfa, border + 1, last);
    }
    enum status status =
        automaton_builder_room(nfa->work, nfa->work->scratch, &nfa->runs, nfa->run_count,
                               &nfa->run_capacity, sizeof *nfa->runs);
    if (status) return status;
    struct byte_runs *run = &nfa->runs[nfa->run_count++];
    run->count = utf8_write(first, (char *)run->lows);
    (void)utf8_write(last, (char *)run->highs);
    return STATUS_OK;
}

static bool step_has_edges(const struct regex_nfa *nfa, uint32_t state,
                           const struct nfa_edge *edges, size_t count) {
    const struct nfa_state *there = &nfa->states[state];
    if (there->kind != REGEX_BYTES || there->count != count) return false;
    for (size_t i = 0; i < count; i++) {
        const struct nfa_edge *edge = &nfa->edges[there->first + i];
        if (edge->first != edges[i].first || edge->last != edges[i].last || edge->to != edges[i].to)
            return false;
    }
    return true;
}

/* Makes a state with these edges, or reuses an equal one with a number from `since` on. */
static enum status share_step(struct regex_nfa *nfa, size_t since, const struct nfa_edge *edges,
                              size_t count, uint32_t *out) {
    if (!automaton_spend(nfa->work, nfa->state_count - since)) return STATUS_TOO_LARGE;
    for (size_t state = since; state < nfa->state_count; state++)
        if (step_has_edges(nfa, (uint32_t)state, edges, count)) {
            *out = (uint32_t)state;
            return STATUS_OK;
        }
    struct nfa_state state = {
        .kind = REGEX_BYTES, .first = nfa->edge_count, .count = (uint32_t)count};
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < count; i++)
        status = add_edge(nfa, edges[i]);
    return status ? status : regex_nfa_add_state(nfa, state, out);
}

/* Adds the states for runs [from, to), starting with their byte `depth`. */
static enum status regex_nfa_add_runs(struct regex_nfa *nfa, size_t since, size_t from, size_t to,
                                      uint32_t depth, uint32_t next, uint32_t *out) {
    struct nfa_edge edges[EDGES_MAX];
    size_t count = 0;
    while (from < to) {
        const struct byte_runs *run = &nfa->runs[from];
        size_t behind = from + 1;
        while (behind < to && nfa->runs[behind].lows[depth] == run->lows[depth])
            behind++;
        struct nfa_edge edge = {run->lows[depth], run->highs[depth], next};
        if (depth + 1 < run->count && depth < 3) {
            enum status status =
                regex_nfa_add_runs(nfa, since, from, behind, depth + 1, next, &edge.to);
            if (status) return status;
        }
        struct nfa_edge *last = count ? &edges[count - 1] : NULL;
        if (last && last->to == edge.to && last->last + 1 == edge.first)
            last->last = edge.last;
        else
            edges[count++] = edge;
        from = behind;
    }
    return share_step(nfa, since, edges, count, out);
}

enum status regex_nfa_add_set(struct regex_nfa *nfa, const struct code_range *ranges, size_t count,
                              uint32_t to, uint32_t *out) {
    enum status status = STATUS_OK;
    nfa->run_count = 0;
    for (size_t i = 0; !status && i < count; i++)
        status = cut_range(nfa, ranges[i].first, ranges[i].last);
    uint32_t since = nfa->state_count;
    return status ? status : regex_nfa_add_runs(nfa, since, 0, nfa->run_count, 0, to, out);
}

/* ---- lookaheads ---- */

static enum status regex_nfa_add_automaton(struct regex_nfa *nfa, const struct automaton *automaton,
                                           uint32_t *out) {
    enum status status =
        automaton_builder_room(nfa->work, nfa->work->scratch, &nfa->automata, nfa->automaton_count,
                               &nfa->automaton_capacity, sizeof *nfa->automata);
    if (status) return status;
    *out = nfa->automaton_count;
    nfa->automata[nfa->automaton_count++] = automaton;
    return STATUS_OK;
}

static enum status regex_nfa_add_look(struct regex_nfa *nfa, struct regex_lookahead lookahead,
                                      uint32_t next, uint32_t *out) {
    enum status status =
        automaton_builder_room(nfa->work, nfa->work->scratch, &nfa->lookaheads,
                               nfa->lookahead_count, &nfa->lookahead_capacity, sizeof lookahead);
    if (status) return status;
    nfa->lookaheads[nfa->lookahead_count++] = lookahead;
    nfa->word_sensitive |=
        lookahead.automata[REGEX_AFTER_WORD] != lookahead.automata[REGEX_AFTER_OTHER];
    struct nfa_state state = {.kind = REGEX_IF_LOOKAHEAD, .a = next, .b = nfa->lookahead_count - 1};
    return regex_nfa_add_state(nfa, state, out);
}

/* True if matches of a node depend on the preceding character. */
static bool is_context_sensitive(const struct regex *regex, uint32_t number) {
    const struct regex_node *node = &regex->nodes[number];
    switch (node->kind) {
    case REGEX_SET:
    case REGEX_END:
        return false;
    case REGEX_BEGIN:
    case REGEX_WORD_EDGE:
        return true;
    case REGEX_REPEAT:
    case REGEX_LOOKAHEAD:
        return is_context_sensitive(regex, node->first);
    default:
        break;
    }
    for (uint32_t i = 0; i < node->count; i++)
        if (is_context_sensitive(regex, regex->links[node->first + i])) return true;
    return false;
}

/* Adds the DFA of the texts that start with a match of the node, or its complement. */
static enum status add_lookahead_automaton(struct regex_nfa *nfa, const struct regex *regex,
                                           uint32_t node, bool negative, enum regex_context context,
                                           uint32_t *out) {
    static const struct regex_node all_nodes[] = {{.kind = REGEX_SEQUENCE}};
    static const struct regex all = {.nodes = all_nodes};
    struct automaton_work *work = nfa->work;
    const struct automaton *automaton = NULL, *every = NULL;
    enum status status = nfa->make_lookahead(work, regex, node, context, &automaton);
    if (!status && negative) {
        status = nfa->make_lookahead(work, &all, 0, context, &every);
        if (!status)
            status =
                automaton_product_combine(work, AUTOMATON_WITHOUT, every, automaton, &automaton);
    }
    return status ? status : regex_nfa_add_automaton(nfa, automaton, out);
}

static enum status add_lookahead_node(struct regex_nfa *nfa, const struct regex_node *node,
                                      uint32_t next, uint32_t *out) {
    struct regex_lookahead lookahead = {{0}};
    bool minds = is_context_sensitive(nfa->regex, node->first);
    enum status status = STATUS_OK;
    for (int context = 0; !status && context < REGEX_CONTEXT_COUNT; context++) {
        lookahead.automata[context] = lookahead.automata[0];
        if (minds || context == 0)
            status =
                add_lookahead_automaton(nfa, nfa->regex, node->first, node->negative,
                                        (enum regex_context)context, &lookahead.automata[context]);
    }
    return status ? status : regex_nfa_add_look(nfa, lookahead, next, out);
}

/* Adds \b, or \B if `negative`. \b requires that no word character follows one, and that a word
 * character follows the start or another character. */
static enum status add_word_edge(struct regex_nfa *nfa, bool negative, uint32_t next,
                                 uint32_t *out) {
    static const struct code_range ranges[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const struct regex_node nodes[] = {{.kind = REGEX_SET, .count = ARRAY_COUNT(ranges)}};
    static const struct regex word = {.nodes = nodes, .ranges = ranges};
    struct regex_lookahead lookahead = {{0}};
    enum status status = STATUS_OK;
    for (int context = 0; !status && context < REGEX_CONTEXT_COUNT; context++)
        status = add_lookahead_automaton(nfa, &word, 0, (context == REGEX_AFTER_WORD) != negative,
                                         (enum regex_context)context, &lookahead.automata[context]);
    return status ? status : regex_nfa_add_look(nfa, lookahead, next, out);
}

/* ---- nodes ---- */

static enum status add_repeat(struct regex_nfa *nfa, const struct regex_node *node, uint32_t next,
                              uint32_t *out) {
    uint32_t at = next, fork = 0, body = 0;
    enum status status = STATUS_OK;
    if (node->max == REGEX_UNBOUNDED) {
        status = regex_nfa_add_state(nfa, (struct nfa_state){.kind = REGEX_FORK, .b = next}, &at);
        if (!status) status = regex_nfa_add(nfa, node->first, at, &body);
        if (!status) nfa->states[at].a = body;
    } else {
        for (uint32_t i = node->min; !status && i < node->max; i++) {
            status = regex_nfa_add(nfa, node->first, at, &body);
            struct nfa_state state = {.kind = REGEX_FORK, .a = body, .b = next};
            if (!status) status = regex_nfa_add_state(nfa, state, &fork);
            at = fork;
        }
    }
    for (uint32_t i = 0; !status && i < node->min; i++)
        status = regex_nfa_add(nfa, node->first, at, &at);
    *out = at;
    return status;
}

static enum status add_alternatives(struct regex_nfa *nfa, const struct regex_node *node,
                                    uint32_t next, uint32_t *out) {
    uint32_t at = 0;
    enum status status = STATUS_OK;
    for (uint32_t i = node->count; !status && i-- > 0;) {
        uint32_t body = 0;
        status = regex_nfa_add(nfa, nfa->regex->links[node->first + i], next, &body);
        struct nfa_state state = {.kind = REGEX_FORK, .a = body, .b = at};
        if (i + 1 == node->count)
            at = body;
        else if (!status)
            status = regex_nfa_add_state(nfa, state, &at);
    }
    *out = at;
    return status;
}

enum status regex_nfa_add(struct regex_nfa *nfa, uint32_t number, uint32_t next, uint32_t *out) {
    const struct regex_node *node = &nfa->regex->nodes[number];
    struct nfa_state state = {.a = next};
    if (!automaton_spend(nfa->work, 1)) return STATUS_TOO_LARGE;
    switch (node->kind) {
    case REGEX_SET:
        return regex_nfa_add_set(nfa, nfa->regex->ranges + node->first, node->count, next, out);
    case REGEX_SEQUENCE: {
        enum status status = STATUS_OK;
        *out = next;
        for (uint32_t i = node->count; !status && i-- > 0;)
            status = regex_nfa_add(nfa, nfa->regex->links[node->first + i], *out, out);
        return status;
    }
    case REGEX_ALTERNATE:
        return add_alternatives(nfa, node, next, out);
    case REGEX_REPEAT:
        return add_repeat(nfa, node, next, out);
    case REGEX_BEGIN:
        state.kind = REGEX_IF_BEGIN;
        break;
    case REGEX_END:
        state.kind = REGEX_IF_END;
        break;
    case REGEX_WORD_EDGE:
        return add_word_edge(nfa, node->negative, next, out);
    case REGEX_LOOKAHEAD:
        return add_lookahead_node(nfa, node, next, out);
    }
    return regex_nfa_add_state(nfa, state, out);
}

bool regex_nfa_is_anchored(const struct regex *regex, uint32_t number) {
    const struct regex_node *node = &regex->nodes[number];
    bool all = node->count > 0;
    switch (node->kind) {
    case REGEX_BEGIN:
        return true;
    case REGEX_SEQUENCE:
        return all && regex_nfa_is_anchored(regex, regex->links[node->first]);
    case REGEX_ALTERNATE:
        for (uint32_t i = 0; i < node->count; i++)
            all &= regex_nfa_is_anchored(regex, regex->links[node->first + i]);
        return all;
    default:
        return false;
    }
}

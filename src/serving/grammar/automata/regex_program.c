/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/automata/regex_program.h"

#include "base/check.h"
#include "base/utf8.h"

#define EDGES_MAX 256 /* of a step */

enum status regex_program_add_step(struct regex_program *program, struct regex_step step,
                                   uint32_t *out) {
    if (program->step_count / 8 > program->work->states_max) return STATUS_TOO_LARGE;
    enum status status = automaton_draft_room(program->work, &program->steps, program->step_count,
                                              &program->step_capacity, sizeof step);
    if (status) return status;
    *out = program->step_count;
    program->steps[program->step_count++] = step;
    return STATUS_OK;
}

static enum status add_edge(struct regex_program *program, struct regex_edge edge) {
    enum status status = automaton_draft_room(program->work, &program->edges, program->edge_count,
                                              &program->edge_capacity, sizeof edge);
    if (status) return status;
    program->edges[program->edge_count++] = edge;
    return STATUS_OK;
}

/* ---- characters as bytes ---- */

/* Cuts a range of characters into runs of bytes, ascending. */
static enum status cut_range(struct regex_program *program, uint32_t first, uint32_t last) {
    static const uint32_t borders[] = {0x7F, 0x7FF, 0xD7FF, 0xDFFF, 0xFFFF};
    for (size_t i = 0; i < ARRAY_COUNT(borders); i++)
        if (first <= borders[i] && borders[i] < last) {
            enum status status = cut_range(program, first, borders[i]);
            return status ? status : cut_range(program, borders[i] + 1, last);
        }
    if (first >= 0xD800 && first <= 0xDFFF) return STATUS_OK; /* no character */
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
        enum status status = cut_range(program, first, border);
        return status ? status : cut_range(program, border + 1, last);
    }
    enum status status = automaton_draft_room(program->work, &program->runs, program->run_count,
                                              &program->run_capacity, sizeof *program->runs);
    if (status) return status;
    struct byte_runs *run = &program->runs[program->run_count++];
    run->count = utf8_write(first, (char *)run->lows);
    (void)utf8_write(last, (char *)run->highs);
    return STATUS_OK;
}

static bool step_has_edges(const struct regex_program *program, uint32_t step,
                           const struct regex_edge *edges, size_t count) {
    const struct regex_step *there = &program->steps[step];
    if (there->kind != REGEX_BYTES || there->count != count) return false;
    for (size_t i = 0; i < count; i++) {
        const struct regex_edge *edge = &program->edges[there->first + i];
        if (edge->first != edges[i].first || edge->last != edges[i].last || edge->to != edges[i].to)
            return false;
    }
    return true;
}

/* A step with these edges: one that was added since `since`, or a new one. */
static enum status share_step(struct regex_program *program, size_t since,
                              const struct regex_edge *edges, size_t count, uint32_t *out) {
    if (!automaton_spend(program->work, program->step_count - since)) return STATUS_TOO_LARGE;
    for (size_t step = since; step < program->step_count; step++)
        if (step_has_edges(program, (uint32_t)step, edges, count)) {
            *out = (uint32_t)step;
            return STATUS_OK;
        }
    struct regex_step step = {
        .kind = REGEX_BYTES, .first = program->edge_count, .count = (uint32_t)count};
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < count; i++)
        status = add_edge(program, edges[i]);
    return status ? status : regex_program_add_step(program, step, out);
}

/* Runs [from, to) from their byte `depth` on. */
static enum status regex_program_add_runs(struct regex_program *program, size_t since, size_t from,
                                          size_t to, uint32_t depth, uint32_t next, uint32_t *out) {
    struct regex_edge edges[EDGES_MAX];
    size_t count = 0;
    while (from < to) {
        const struct byte_runs *run = &program->runs[from];
        size_t behind = from + 1;
        while (behind < to && program->runs[behind].lows[depth] == run->lows[depth])
            behind++;
        struct regex_edge edge = {run->lows[depth], run->highs[depth], next};
        if (depth + 1 < run->count && depth < 3) {
            enum status status =
                regex_program_add_runs(program, since, from, behind, depth + 1, next, &edge.to);
            if (status) return status;
        }
        struct regex_edge *last = count ? &edges[count - 1] : NULL;
        if (last && last->to == edge.to && last->last + 1 == edge.first)
            last->last = edge.last;
        else
            edges[count++] = edge;
        from = behind;
    }
    return share_step(program, since, edges, count, out);
}

enum status regex_program_add_set(struct regex_program *program, const struct code_range *ranges,
                                  size_t count, uint32_t to, uint32_t *out) {
    enum status status = STATUS_OK;
    program->run_count = 0;
    for (size_t i = 0; !status && i < count; i++)
        status = cut_range(program, ranges[i].first, ranges[i].last);
    uint32_t since = program->step_count;
    return status ? status
                  : regex_program_add_runs(program, since, 0, program->run_count, 0, to, out);
}

/* ---- looking ---- */

static enum status regex_program_watch(struct regex_program *program,
                                       const struct automaton *automaton, uint32_t *out) {
    enum status status =
        automaton_draft_room(program->work, &program->watched, program->watched_count,
                             &program->watched_capacity, sizeof *program->watched);
    if (status) return status;
    *out = program->watched_count;
    program->watched[program->watched_count++] = automaton;
    return STATUS_OK;
}

static enum status regex_program_add_look(struct regex_program *program, struct regex_look look,
                                          uint32_t next, uint32_t *out) {
    enum status status = automaton_draft_room(program->work, &program->looks, program->look_count,
                                              &program->look_capacity, sizeof look);
    if (status) return status;
    program->looks[program->look_count++] = look;
    program->minds_words |= look.watched[REGEX_BEHIND_WORD] != look.watched[REGEX_BEHIND_OTHER];
    struct regex_step step = {.kind = REGEX_IF_LOOK, .a = next, .b = program->look_count - 1};
    return regex_program_add_step(program, step, out);
}

/* Whether the automaton of a node depends on the preceding character. */
static bool minds_place(const struct regex *regex, uint32_t number) {
    const struct regex_node *node = &regex->nodes[number];
    switch (node->kind) {
    case REGEX_SET:
    case REGEX_END:
        return false;
    case REGEX_BEGIN:
    case REGEX_WORD_EDGE:
        return true;
    case REGEX_REPEAT:
    case REGEX_LOOK:
        return minds_place(regex, node->first);
    default:
        break;
    }
    for (uint32_t i = 0; i < node->count; i++)
        if (minds_place(regex, regex->links[node->first + i])) return true;
    return false;
}

/* The texts that begin with one of the node's, or those that do not. */
static enum status watch_node(struct regex_program *program, const struct regex *regex,
                              uint32_t node, bool negative, enum regex_place place, uint32_t *out) {
    static const struct regex_node all_nodes[] = {{.kind = REGEX_SEQUENCE}};
    static const struct regex all = {.nodes = all_nodes};
    struct automaton_work *work = program->work;
    const struct automaton *automaton = NULL, *every = NULL;
    enum status status = program->look_ahead(work, regex, node, place, &automaton);
    if (!status && negative) {
        status = program->look_ahead(work, &all, 0, place, &every);
        if (!status)
            status =
                automaton_product_combine(work, AUTOMATON_WITHOUT, every, automaton, &automaton);
    }
    return status ? status : regex_program_watch(program, automaton, out);
}

static enum status add_looking(struct regex_program *program, const struct regex_node *node,
                               uint32_t next, uint32_t *out) {
    struct regex_look look = {{0}};
    bool minds = minds_place(program->regex, node->first);
    enum status status = STATUS_OK;
    for (int place = 0; !status && place < REGEX_PLACE_COUNT; place++) {
        look.watched[place] = look.watched[0];
        if (minds || place == 0)
            status = watch_node(program, program->regex, node->first, node->negative,
                                (enum regex_place)place, &look.watched[place]);
    }
    return status ? status : regex_program_add_look(program, look, next, out);
}

/* \b behind a word's character: none of them follows; elsewhere: one follows. */
static enum status add_word_edge(struct regex_program *program, bool negative, uint32_t next,
                                 uint32_t *out) {
    static const struct code_range ranges[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const struct regex_node nodes[] = {{.kind = REGEX_SET, .count = ARRAY_COUNT(ranges)}};
    static const struct regex word = {.nodes = nodes, .ranges = ranges};
    struct regex_look look = {{0}};
    enum status status = STATUS_OK;
    for (int place = 0; !status && place < REGEX_PLACE_COUNT; place++)
        status = watch_node(program, &word, 0, (place == REGEX_BEHIND_WORD) != negative,
                            (enum regex_place)place, &look.watched[place]);
    return status ? status : regex_program_add_look(program, look, next, out);
}

/* ---- nodes ---- */

static enum status add_repeat(struct regex_program *program, const struct regex_node *node,
                              uint32_t next, uint32_t *out) {
    uint32_t at = next, fork = 0, body = 0;
    enum status status = STATUS_OK;
    if (node->max == REGEX_UNBOUNDED) {
        status = regex_program_add_step(program, (struct regex_step){.kind = REGEX_FORK, .b = next},
                                        &at);
        if (!status) status = regex_program_add(program, node->first, at, &body);
        if (!status) program->steps[at].a = body;
    } else {
        for (uint32_t i = node->min; !status && i < node->max; i++) {
            status = regex_program_add(program, node->first, at, &body);
            struct regex_step step = {.kind = REGEX_FORK, .a = body, .b = next};
            if (!status) status = regex_program_add_step(program, step, &fork);
            at = fork;
        }
    }
    for (uint32_t i = 0; !status && i < node->min; i++)
        status = regex_program_add(program, node->first, at, &at);
    *out = at;
    return status;
}

static enum status add_alternatives(struct regex_program *program, const struct regex_node *node,
                                    uint32_t next, uint32_t *out) {
    uint32_t at = 0;
    enum status status = STATUS_OK;
    for (uint32_t i = node->count; !status && i-- > 0;) {
        uint32_t body = 0;
        status = regex_program_add(program, program->regex->links[node->first + i], next, &body);
        struct regex_step step = {.kind = REGEX_FORK, .a = body, .b = at};
        if (i + 1 == node->count)
            at = body;
        else if (!status)
            status = regex_program_add_step(program, step, &at);
    }
    *out = at;
    return status;
}

enum status regex_program_add(struct regex_program *program, uint32_t number, uint32_t next,
                              uint32_t *out) {
    const struct regex_node *node = &program->regex->nodes[number];
    struct regex_step step = {.a = next};
    if (!automaton_spend(program->work, 1)) return STATUS_TOO_LARGE;
    switch (node->kind) {
    case REGEX_SET:
        return regex_program_add_set(program, program->regex->ranges + node->first, node->count,
                                     next, out);
    case REGEX_SEQUENCE: {
        enum status status = STATUS_OK;
        *out = next;
        for (uint32_t i = node->count; !status && i-- > 0;)
            status = regex_program_add(program, program->regex->links[node->first + i], *out, out);
        return status;
    }
    case REGEX_ALTERNATE:
        return add_alternatives(program, node, next, out);
    case REGEX_REPEAT:
        return add_repeat(program, node, next, out);
    case REGEX_BEGIN:
        step.kind = REGEX_IF_BEGIN;
        break;
    case REGEX_END:
        step.kind = REGEX_IF_END;
        break;
    case REGEX_WORD_EDGE:
        return add_word_edge(program, node->negative, next, out);
    case REGEX_LOOK:
        return add_looking(program, node, next, out);
    }
    return regex_program_add_step(program, step, out);
}

bool regex_program_is_anchored(const struct regex *regex, uint32_t number) {
    const struct regex_node *node = &regex->nodes[number];
    bool all = node->count > 0;
    switch (node->kind) {
    case REGEX_BEGIN:
        return true;
    case REGEX_SEQUENCE:
        return all && regex_program_is_anchored(regex, regex->links[node->first]);
    case REGEX_ALTERNATE:
        for (uint32_t i = 0; i < node->count; i++)
            all &= regex_program_is_anchored(regex, regex->links[node->first + i]);
        return all;
    default:
        return false;
    }
}

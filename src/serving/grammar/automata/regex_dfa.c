/* SPDX-License-Identifier: Apache-2.0
 * The subset construction determinizes the NFA of a regular expression. A DFA state stands for a
 * set of threads. A thread is an NFA state together with the states of the DFAs of its pending
 * lookaheads. It dies when one of these lookaheads fails.
 */
#include "serving/grammar/automata/regex_tree.h"

#include "base/check.h"
#include "serving/grammar/automata/regex_nfa.h"

#define LOOKAHEADS_MAX 16 /* pending lookaheads of one thread */
#define NO_LOOKAHEADS 0u
#define AT_END 0x80000000u /* flag in thread.lookaheads: the text must end here */

struct thread {
    uint32_t nfa_state, lookaheads;
};

struct subset_construction {
    struct regex_nfa nfa;
    struct automaton_builder dfa;
    struct tuple_table sets; /* a set's number + 1 is its DFA state; first word: accepts, context */
    struct tuple_table lookaheads; /* lists of pairs: lookahead DFA, its state; number 0: none */
    uint32_t *universal; /* [automaton_count] state that accepts every continuation; 0: none */
    uint32_t tail;       /* the NFA state REGEX_ANY, or UINT32_MAX */
    uint8_t bytes[256];  /* [class] one byte of the class */
    struct thread *queue, *raw, *before, *from; /* [thread_capacity] each */
    uint32_t *cursors, *words;                  /* [thread_capacity], [2 * thread_capacity + 1] */
    size_t queue_count, raw_count, before_count;
    uint32_t thread_capacity;
    /* [state_count] marks queued threads without lookaheads; stamps[1]: those with AT_END */
    uint32_t *stamps[2], stamp;
    bool accepts;
};

/* ---- lookaheads of a thread ---- */

/* The state from which every UTF-8 text is accepted; 0: none. */
static uint32_t find_universal(const struct automaton *automaton) {
    for (uint32_t s = 1; s < automaton->state_count; s++)
        if (automaton->labels[s] && automaton_takes_all(automaton, s)) return s;
    return 0;
}

struct lookahead_list {
    uint32_t pairs[LOOKAHEADS_MAX][2];
    size_t count;
};

static enum status lookahead_list_add(struct lookahead_list *list, uint32_t which, uint32_t state) {
    size_t at = list->count;
    for (size_t i = 0; i < list->count; i++)
        if (list->pairs[i][0] == which && list->pairs[i][1] == state) return STATUS_OK;
    if (at == LOOKAHEADS_MAX) return STATUS_TOO_LARGE;
    for (; at > 0 && (list->pairs[at - 1][0] > which ||
                      (list->pairs[at - 1][0] == which && list->pairs[at - 1][1] > state));
         at--)
        memcpy(list->pairs[at], list->pairs[at - 1], sizeof list->pairs[at]);
    list->pairs[at][0] = which;
    list->pairs[at][1] = state;
    list->count++;
    return STATUS_OK;
}

/* Advances the lookaheads of a thread by a byte. Clears *alive_out if one of them fails. */
static enum status step_looks(struct subset_construction *construction, uint32_t lookaheads,
                              uint8_t byte, bool *alive_out, uint32_t *out) {
    struct lookahead_list list = {.count = 0};
    size_t words = 0;
    *out = NO_LOOKAHEADS;
    *alive_out = true;
    if (lookaheads == NO_LOOKAHEADS) return STATUS_OK;
    const uint32_t *pairs = tuple_table_at(&construction->lookaheads, lookaheads, &words);
    for (size_t i = 0; i < words; i += 2) {
        uint32_t state = automaton_step(construction->nfa.automata[pairs[i]], pairs[i + 1], byte);
        if (!state) {
            *alive_out = false;
            return STATUS_OK;
        }
        if (state == construction->universal[pairs[i]]) continue;
        enum status status = lookahead_list_add(&list, pairs[i], state);
        if (status) return status;
    }
    return automaton_builder_tuples_intern(&construction->lookaheads, &list.pairs[0][0],
                                           2 * list.count, out);
}

static enum status regex_dfa_add_look(struct subset_construction *construction, uint32_t lookaheads,
                                      uint32_t which, bool *alive_out, uint32_t *out) {
    struct lookahead_list list = {.count = 0};
    size_t words = 0;
    uint32_t start = construction->nfa.automata[which]->start;
    *alive_out = start != 0;
    *out = lookaheads;
    if (!start || start == construction->universal[which]) return STATUS_OK;
    const uint32_t *pairs = tuple_table_at(&construction->lookaheads, lookaheads, &words);
    enum status status = lookahead_list_add(&list, which, start);
    for (size_t i = 0; !status && i < words; i += 2)
        status = lookahead_list_add(&list, pairs[i], pairs[i + 1]);
    return status ? status
                  : automaton_builder_tuples_intern(&construction->lookaheads, &list.pairs[0][0],
                                                    2 * list.count, out);
}

static bool looks_accept(const struct subset_construction *construction, uint32_t lookaheads) {
    size_t words = 0;
    const uint32_t *pairs = tuple_table_at(&construction->lookaheads, lookaheads, &words);
    for (size_t i = 0; i < words; i += 2)
        if (!construction->nfa.automata[pairs[i]]->labels[pairs[i + 1]]) return false;
    return true;
}

/* ---- threads ---- */

static enum status regex_dfa_widen(struct subset_construction *construction) {
    struct arena *scratch = construction->nfa.work->scratch;
    struct thread **lists[] = {&construction->queue, &construction->raw, &construction->before,
                               &construction->from};
    uint32_t old = construction->thread_capacity, capacity = old;
    bool room = arena_reserve(scratch, &construction->cursors, old, &capacity, sizeof(uint32_t));
    for (size_t i = 0; room && i < ARRAY_COUNT(lists); i++) {
        capacity = old;
        room = arena_reserve(scratch, lists[i], old, &capacity, sizeof(struct thread));
    }
    construction->words =
        arena_take(scratch, (2 * (size_t)capacity + 1) * sizeof *construction->words);
    construction->thread_capacity = capacity;
    return room && construction->words ? STATUS_OK : STATUS_NO_MEMORY;
}

/* Queues a thread, unless it is queued already. */
static enum status queue_thread(struct subset_construction *construction, uint32_t nfa_state,
                                uint32_t lookaheads) {
    if (!automaton_spend(construction->nfa.work, 1)) return STATUS_TOO_LARGE;
    if ((lookaheads & ~AT_END) == NO_LOOKAHEADS) {
        uint32_t *stamp = &construction->stamps[lookaheads != NO_LOOKAHEADS][nfa_state];
        if (*stamp == construction->stamp) return STATUS_OK;
        *stamp = construction->stamp;
    } else {
        if (!automaton_spend(construction->nfa.work, construction->queue_count))
            return STATUS_TOO_LARGE;
        for (size_t i = 0; i < construction->queue_count; i++)
            if (construction->queue[i].nfa_state == nfa_state &&
                construction->queue[i].lookaheads == lookaheads)
                return STATUS_OK;
    }
    if (construction->queue_count == construction->thread_capacity) {
        enum status status = regex_dfa_widen(construction);
        if (status) return status;
    }
    construction->queue[construction->queue_count++] = (struct thread){nfa_state, lookaheads};
    return STATUS_OK;
}

/* Queues the successors of a thread by epsilon edges. */
static enum status regex_dfa_follow(struct subset_construction *construction, struct thread thread,
                                    enum regex_context context) {
    const struct nfa_state *nfa_state = &construction->nfa.states[thread.nfa_state];
    bool ended = thread.lookaheads & AT_END, alive = true;
    uint32_t lookaheads = thread.lookaheads;
    enum status status = STATUS_OK;
    switch (nfa_state->kind) {
    case REGEX_FORK:
        status = queue_thread(construction, nfa_state->a, lookaheads);
        return status ? status : queue_thread(construction, nfa_state->b, lookaheads);
    case REGEX_IF_BEGIN:
        return context == REGEX_AT_BEGIN ? queue_thread(construction, nfa_state->a, lookaheads)
                                         : STATUS_OK;
    case REGEX_IF_END:
        return queue_thread(construction, nfa_state->a, lookaheads | AT_END);
    case REGEX_IF_LOOKAHEAD: {
        uint32_t which = construction->nfa.lookaheads[nfa_state->b].automata[context];
        const struct automaton *automaton = construction->nfa.automata[which];
        if (ended)
            alive = automaton->labels[automaton->start] != 0;
        else
            status = regex_dfa_add_look(construction, lookaheads, which, &alive, &lookaheads);
        return status || !alive ? status : queue_thread(construction, nfa_state->a, lookaheads);
    }
    default:
        construction->accepts |= looks_accept(construction, lookaheads & ~AT_END);
        return STATUS_OK;
    }
}

/* The DFA state of the epsilon closure of the raw threads. If a thread accepts every continuation,
 * it replaces all others. */
static enum status regex_dfa_state_of(struct subset_construction *construction,
                                      enum regex_context context, uint32_t *out) {
    enum status status = STATUS_OK;
    size_t kept = 0;
    bool done = false;
    construction->queue_count = 0;
    construction->accepts = false;
    construction->stamp++;
    for (size_t i = 0; !status && i < construction->raw_count; i++)
        status = queue_thread(construction, construction->raw[i].nfa_state,
                              construction->raw[i].lookaheads);
    for (size_t i = 0; !status && !done && i < construction->queue_count; i++) {
        struct thread thread = construction->queue[i];
        enum nfa_state_kind kind = construction->nfa.states[thread.nfa_state].kind;
        if (kind != REGEX_BYTES) status = regex_dfa_follow(construction, thread, context);
        done = kind == REGEX_ANY && thread.lookaheads == NO_LOOKAHEADS;
        bool eats = kind == REGEX_BYTES || kind == REGEX_ANY;
        if (eats && !(thread.lookaheads & AT_END)) construction->queue[kept++] = thread;
    }
    if (status) return status;
    if (done) {
        kept = 1;
        construction->queue[0] = (struct thread){construction->tail, NO_LOOKAHEADS};
    }
    *out = 0;
    if (!kept && !construction->accepts) return STATUS_OK;
    automaton_builder_sort((uint32_t *)construction->queue, kept, 2);
    uint32_t number = 0;
    bool context_matters = construction->nfa.word_sensitive && kept && !done;
    construction->words[0] = construction->accepts;
    if (context_matters && context == REGEX_AFTER_WORD) construction->words[0] |= 2;
    memcpy(construction->words + 1, construction->queue, kept * sizeof *construction->queue);
    status = automaton_builder_tuples_intern(&construction->sets, construction->words, 1 + 2 * kept,
                                             &number);
    *out = number + 1;
    if (!status && *out == construction->dfa.state_count) {
        status = automaton_builder_add(&construction->dfa, out);
        if (!status) construction->dfa.labels[*out] = construction->accepts;
    }
    return status;
}

/* Advances the threads in `from` by a byte, into `raw`. Calls come in ascending order of bytes:
 * cursors[i] is the first edge of thread i that does not end before the byte. */
static enum status step_threads(struct subset_construction *construction, size_t count,
                                uint8_t byte) {
    construction->raw_count = 0;
    if (!automaton_spend(construction->nfa.work, count)) return STATUS_TOO_LARGE;
    for (size_t i = 0; i < count; i++) {
        struct thread thread = construction->from[i];
        const struct nfa_state *nfa_state = &construction->nfa.states[thread.nfa_state];
        const struct nfa_edge *edges = construction->nfa.edges + nfa_state->first;
        uint32_t *cursor = &construction->cursors[i];
        while (*cursor < nfa_state->count && edges[*cursor].last < byte)
            ++*cursor;
        if (*cursor == nfa_state->count || edges[*cursor].first > byte) continue;
        bool alive = true;
        uint32_t lookaheads = NO_LOOKAHEADS;
        enum status status = step_looks(construction, thread.lookaheads, byte, &alive, &lookaheads);
        if (status) return status;
        if (alive)
            construction->raw[construction->raw_count++] =
                (struct thread){edges[*cursor].to, lookaheads};
    }
    return STATUS_OK;
}

static bool is_word_byte(uint8_t byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
           (byte >= 'a' && byte <= 'z');
}

static enum status regex_dfa_add_steps(struct subset_construction *construction, uint32_t state) {
    size_t words = 0;
    const uint32_t *set = tuple_table_at(&construction->sets, state - 1, &words);
    size_t count = words / 2;
    uint32_t next = 0;
    enum regex_context last_context = REGEX_AT_BEGIN;
    memcpy(construction->from, set + 1, count * sizeof *construction->from);
    memset(construction->cursors, 0, count * sizeof *construction->cursors);
    for (uint32_t class = 0; class < construction->dfa.class_count; class ++) {
        uint8_t byte = construction->bytes[class];
        enum status status = step_threads(construction, count, byte);
        if (status) return status;
        enum regex_context context = construction->nfa.word_sensitive && is_word_byte(byte)
                                         ? REGEX_AFTER_WORD
                                         : REGEX_AFTER_OTHER;
        bool same = class && context == last_context &&
                    construction->raw_count == construction->before_count &&
                    !memcmp(construction->raw, construction->before,
                            construction->raw_count * sizeof *construction->raw);
        if (!same) {
            memcpy(construction->before, construction->raw,
                   construction->raw_count * sizeof *construction->raw);
            construction->before_count = construction->raw_count;
            last_context = context;
            status = regex_dfa_state_of(construction, context, &next);
            if (status) return status;
        }
        automaton_builder_row(&construction->dfa, state)[class] = next;
    }
    return STATUS_OK;
}

/* ---- the construction ---- */

/* Divides the bytes into classes with equal transitions in the NFA and in all lookahead DFAs. */
static uint32_t cut_classes(struct subset_construction *construction, uint8_t *classes) {
    const struct regex_nfa *nfa = &construction->nfa;
    bool cuts[257] = {false};
    for (size_t i = 0; i < nfa->edge_count; i++)
        cuts[nfa->edges[i].first] = cuts[nfa->edges[i].last + 1] = true;
    for (size_t i = 0; i < nfa->automaton_count; i++)
        for (int byte = 1; byte < 256; byte++)
            if (nfa->automata[i]->classes[byte] != nfa->automata[i]->classes[byte - 1])
                cuts[byte] = true;
    uint32_t class_count = 0;
    for (int byte = 0; byte < 256; byte++) {
        bool word_cut = byte && nfa->word_sensitive &&
                        is_word_byte((uint8_t)byte) != is_word_byte((uint8_t)(byte - 1));
        if (byte == 0 || cuts[byte] || word_cut) construction->bytes[class_count++] = (uint8_t)byte;
        classes[byte] = (uint8_t)(class_count - 1);
    }
    return class_count;
}

static enum status open_runner(struct subset_construction *construction) {
    struct automaton_work *work = construction->nfa.work;
    uint8_t classes[256];
    uint32_t class_count = cut_classes(construction, classes), none = 0;
    size_t which = construction->nfa.automaton_count;
    construction->universal = arena_take(work->scratch, which * sizeof(uint32_t));
    for (int i = 0; i < 2; i++)
        construction->stamps[i] =
            arena_take_zeroed(work->scratch, construction->nfa.state_count * sizeof(uint32_t));
    if (!construction->universal || !construction->stamps[0] || !construction->stamps[1])
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < which; i++)
        construction->universal[i] = find_universal(construction->nfa.automata[i]);
    enum status status = automaton_builder_tuples_open(&construction->sets, work);
    if (!status) status = automaton_builder_tuples_open(&construction->lookaheads, work);
    if (!status)
        status = automaton_builder_tuples_intern(&construction->lookaheads, NULL, 0, &none);
    if (!status) status = regex_dfa_widen(construction);
    return status ? status : automaton_builder_open(&construction->dfa, work, classes, class_count);
}

/* Adds the final state. `open_end` allows any text to follow. */
static enum status add_end(struct subset_construction *construction, bool open_end, uint32_t *out) {
    static const struct code_range every[] = {{0, CODE_POINT_MAX}};
    struct regex_nfa *nfa = &construction->nfa;
    enum status status = regex_nfa_add_state(nfa, (struct nfa_state){.kind = REGEX_ACCEPT}, out);
    construction->tail = UINT32_MAX;
    if (status || !open_end) return status;
    uint32_t loop = 0;
    status = regex_nfa_add_set(nfa, every, 1, *out, &loop);
    if (status) return status;
    nfa->states[*out] = nfa->states[loop];
    nfa->states[*out].kind = REGEX_ANY;
    construction->tail = *out;
    return STATUS_OK;
}

/* Allows any characters before the match. */
static enum status add_search(struct regex_nfa *nfa, uint32_t *start) {
    static const struct code_range every[] = {{0, CODE_POINT_MAX}};
    uint32_t fork = 0, any = 0;
    struct nfa_state nfa_state = {.kind = REGEX_FORK, .a = *start};
    enum status status = regex_nfa_add_state(nfa, nfa_state, &fork);
    if (!status) status = regex_nfa_add_set(nfa, every, 1, fork, &any);
    if (!status) nfa->states[fork].b = any;
    *start = fork;
    return status;
}

/* Text may precede (open_start) or follow (open_end) a match. */
struct regex_bounds {
    bool open_start, open_end;
};

static enum status regex_dfa_look_ahead(struct automaton_work *work, const struct regex *regex,
                                        uint32_t node, enum regex_context context,
                                        const struct automaton **out);

static enum status run(struct automaton_work *work, const struct regex *regex, uint32_t node,
                       struct regex_bounds bounds, enum regex_context context,
                       const struct automaton **out) {
    struct subset_construction *construction =
        arena_take_zeroed(work->scratch, sizeof *construction);
    if (!construction) return STATUS_NO_MEMORY;
    uint32_t end = 0, start = 0;
    construction->nfa.work = work;
    construction->nfa.regex = regex;
    construction->nfa.make_lookahead = regex_dfa_look_ahead;
    enum status status = add_end(construction, bounds.open_end, &end);
    if (!status) status = regex_nfa_add(&construction->nfa, node, end, &start);
    if (!status && bounds.open_start && !regex_nfa_is_anchored(regex, node))
        status = add_search(&construction->nfa, &start);
    if (!status) status = open_runner(construction);
    if (status) return status;
    construction->raw[0] = (struct thread){start, NO_LOOKAHEADS};
    construction->raw_count = 1;
    status = regex_dfa_state_of(construction, context, &construction->dfa.start);
    for (uint32_t state = 1; !status && state < construction->dfa.state_count; state++)
        status = regex_dfa_add_steps(construction, state);
    return status ? status : automaton_builder_finish(&construction->dfa, out);
}

static enum status regex_dfa_look_ahead(struct automaton_work *work, const struct regex *regex,
                                        uint32_t node, enum regex_context context,
                                        const struct automaton **out) {
    return run(work, regex, node, (struct regex_bounds){.open_end = true}, context, out);
}

static enum status make_of_text(struct automaton_work *work, struct bytes pattern,
                                enum regex_syntax syntax, bool whole, const struct automaton **out,
                                struct error *error) {
    struct regex regex;
    struct regex_bounds bounds = {!whole, !whole};
    error_set(error, STATUS_TOO_LARGE, "the pattern's automaton is too large");
    enum status status = regex_tree_parse(work, pattern, syntax, &regex, error);
    if (!status) status = run(work, &regex, regex.root, bounds, REGEX_AT_BEGIN, out);
    arena_clear(work->scratch);
    return status;
}

enum status automaton_of_pattern(struct automaton_work *work, struct bytes pattern,
                                 const struct automaton **out, struct error *error) {
    return make_of_text(work, pattern, REGEX_ECMA, false, out, error);
}

enum status regex_dfa_make(struct automaton_work *work, const struct regex *regex, uint32_t node,
                           const struct automaton **out) {
    return run(work, regex, node, (struct regex_bounds){.open_end = false}, REGEX_AT_BEGIN, out);
}

enum status automaton_of_lengths(struct automaton_work *work, uint32_t min, uint32_t max,
                                 const struct automaton **out) {
    static const struct code_range every[] = {{0, CODE_POINT_MAX}};
    const struct regex_node nodes[] = {
        {.kind = REGEX_SET, .count = min <= max}, /* min > max: the empty set of characters */
        {.kind = REGEX_REPEAT, .min = min, .max = max >= min ? max : min}};
    const struct regex regex = {.root = 1, .nodes = nodes, .ranges = every};
    enum status status = regex_dfa_make(work, &regex, regex.root, out);
    arena_clear(work->scratch);
    return status;
}

enum status automaton_of_regex(struct automaton_work *work, struct bytes pattern,
                               const struct automaton **out, struct error *error) {
    return make_of_text(work, pattern, REGEX_TEXT, true, out, error);
}

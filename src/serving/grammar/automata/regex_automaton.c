/* SPDX-License-Identifier: Apache-2.0
 * Runs the program of a regular expression over all texts at once: a state of the automaton is a
 * set of threads. A thread is a step of the program together with the states of the automata of its
 * pending lookaheads. A thread ends when its lookahead fails.
 */
#include "serving/grammar/automata/regex_tree.h"

#include "base/check.h"
#include "serving/grammar/automata/regex_program.h"

#define LOOKS_MAX 16 /* that one thread waits for */
#define NO_LOOKS 0u
#define AT_END 0x80000000u /* of a thread's looks: nothing may follow */

struct thread {
    uint32_t step, looks;
};

struct runner {
    struct regex_program program;
    struct automaton_draft draft;
    struct sequences sets;  /* number + 1 is the draft's state; the first word: accepts, place */
    struct sequences looks; /* pairs of a watched automaton and its state; number 0: none */
    uint32_t *universal;    /* [watched_count] the state that all texts lead on from, 0: none */
    uint32_t tail;          /* the step REGEX_ANY, or UINT32_MAX */
    uint8_t bytes[256];     /* one of each class */
    struct thread *queue, *raw, *before, *from; /* [thread_capacity] each */
    uint32_t *cursors, *words;                  /* [thread_capacity], [2 * thread_capacity + 1] */
    size_t queue_count, raw_count, before_count;
    uint32_t thread_capacity;
    uint32_t *stamps[2], stamp; /* [step_count] of threads without looks; [1]: at the end */
    bool accepts;
};

/* ---- what a thread waits for ---- */

/* The state from which every text of UTF-8 is the end of a member; 0: none. */
static uint32_t find_universal(const struct automaton *automaton) {
    for (uint32_t s = 1; s < automaton->state_count; s++)
        if (automaton->labels[s] && automaton_takes_all(automaton, s)) return s;
    return 0;
}

struct look_list {
    uint32_t pairs[LOOKS_MAX][2];
    size_t count;
};

static enum status look_list_add(struct look_list *list, uint32_t watched, uint32_t state) {
    size_t at = list->count;
    for (size_t i = 0; i < list->count; i++)
        if (list->pairs[i][0] == watched && list->pairs[i][1] == state) return STATUS_OK;
    if (at == LOOKS_MAX) return STATUS_TOO_LARGE;
    for (; at > 0 && (list->pairs[at - 1][0] > watched ||
                      (list->pairs[at - 1][0] == watched && list->pairs[at - 1][1] > state));
         at--)
        memcpy(list->pairs[at], list->pairs[at - 1], sizeof list->pairs[at]);
    list->pairs[at][0] = watched;
    list->pairs[at][1] = state;
    list->count++;
    return STATUS_OK;
}

/* The looks of a thread behind `byte`. False: one has failed, the thread is gone. */
static enum status step_looks(struct runner *runner, uint32_t looks, uint8_t byte, bool *alive_out,
                              uint32_t *out) {
    struct look_list list = {.count = 0};
    size_t words = 0;
    *out = NO_LOOKS;
    *alive_out = true;
    if (looks == NO_LOOKS) return STATUS_OK;
    const uint32_t *pairs = sequences_at(&runner->looks, looks, &words);
    for (size_t i = 0; i < words; i += 2) {
        uint32_t state = automaton_step(runner->program.watched[pairs[i]], pairs[i + 1], byte);
        if (!state) {
            *alive_out = false;
            return STATUS_OK;
        }
        if (state == runner->universal[pairs[i]]) continue;
        enum status status = look_list_add(&list, pairs[i], state);
        if (status) return status;
    }
    return automaton_draft_sequences_intern(&runner->looks, &list.pairs[0][0], 2 * list.count, out);
}

static enum status regex_automaton_add_look(struct runner *runner, uint32_t looks, uint32_t watched,
                                            bool *alive_out, uint32_t *out) {
    struct look_list list = {.count = 0};
    size_t words = 0;
    uint32_t start = runner->program.watched[watched]->start;
    *alive_out = start != 0;
    *out = looks;
    if (!start || start == runner->universal[watched]) return STATUS_OK;
    const uint32_t *pairs = sequences_at(&runner->looks, looks, &words);
    enum status status = look_list_add(&list, watched, start);
    for (size_t i = 0; !status && i < words; i += 2)
        status = look_list_add(&list, pairs[i], pairs[i + 1]);
    return status ? status
                  : automaton_draft_sequences_intern(&runner->looks, &list.pairs[0][0],
                                                     2 * list.count, out);
}

static bool looks_accept(const struct runner *runner, uint32_t looks) {
    size_t words = 0;
    const uint32_t *pairs = sequences_at(&runner->looks, looks, &words);
    for (size_t i = 0; i < words; i += 2)
        if (!runner->program.watched[pairs[i]]->labels[pairs[i + 1]]) return false;
    return true;
}

/* ---- threads ---- */

static enum status regex_automaton_widen(struct runner *runner) {
    struct arena *scratch = runner->program.work->scratch;
    struct thread **lists[] = {&runner->queue, &runner->raw, &runner->before, &runner->from};
    uint32_t old = runner->thread_capacity, capacity = old;
    bool room = arena_reserve(scratch, &runner->cursors, old, &capacity, sizeof(uint32_t));
    for (size_t i = 0; room && i < ARRAY_COUNT(lists); i++) {
        capacity = old;
        room = arena_reserve(scratch, lists[i], old, &capacity, sizeof(struct thread));
    }
    runner->words = arena_take(scratch, (2 * (size_t)capacity + 1) * sizeof *runner->words);
    runner->thread_capacity = capacity;
    return room && runner->words ? STATUS_OK : STATUS_NO_MEMORY;
}

/* Queues a thread once. */
static enum status queue_thread(struct runner *runner, uint32_t step, uint32_t looks) {
    if (!automaton_spend(runner->program.work, 1)) return STATUS_TOO_LARGE;
    if ((looks & ~AT_END) == NO_LOOKS) {
        uint32_t *stamp = &runner->stamps[looks != NO_LOOKS][step];
        if (*stamp == runner->stamp) return STATUS_OK;
        *stamp = runner->stamp;
    } else {
        if (!automaton_spend(runner->program.work, runner->queue_count)) return STATUS_TOO_LARGE;
        for (size_t i = 0; i < runner->queue_count; i++)
            if (runner->queue[i].step == step && runner->queue[i].looks == looks) return STATUS_OK;
    }
    if (runner->queue_count == runner->thread_capacity) {
        enum status status = regex_automaton_widen(runner);
        if (status) return status;
    }
    runner->queue[runner->queue_count++] = (struct thread){step, looks};
    return STATUS_OK;
}

/* Queues the successors of a thread that takes no byte. */
static enum status regex_automaton_follow(struct runner *runner, struct thread thread,
                                          enum regex_place place) {
    const struct regex_step *step = &runner->program.steps[thread.step];
    bool ended = thread.looks & AT_END, alive = true;
    uint32_t looks = thread.looks;
    enum status status = STATUS_OK;
    switch (step->kind) {
    case REGEX_FORK:
        status = queue_thread(runner, step->a, looks);
        return status ? status : queue_thread(runner, step->b, looks);
    case REGEX_IF_BEGIN:
        return place == REGEX_AT_BEGIN ? queue_thread(runner, step->a, looks) : STATUS_OK;
    case REGEX_IF_END:
        return queue_thread(runner, step->a, looks | AT_END);
    case REGEX_IF_LOOK: {
        uint32_t watched = runner->program.looks[step->b].watched[place];
        const struct automaton *automaton = runner->program.watched[watched];
        if (ended)
            alive = automaton->labels[automaton->start] != 0;
        else
            status = regex_automaton_add_look(runner, looks, watched, &alive, &looks);
        return status || !alive ? status : queue_thread(runner, step->a, looks);
    }
    default:
        runner->accepts |= looks_accept(runner, looks & ~AT_END);
        return STATUS_OK;
    }
}

/* The state of all threads that the raw ones lead to before the next byte. Once all texts that
 * follow are accepted, nothing else counts. */
static enum status regex_automaton_state_of(struct runner *runner, enum regex_place place,
                                            uint32_t *out) {
    enum status status = STATUS_OK;
    size_t kept = 0;
    bool done = false;
    runner->queue_count = 0;
    runner->accepts = false;
    runner->stamp++;
    for (size_t i = 0; !status && i < runner->raw_count; i++)
        status = queue_thread(runner, runner->raw[i].step, runner->raw[i].looks);
    for (size_t i = 0; !status && !done && i < runner->queue_count; i++) {
        struct thread thread = runner->queue[i];
        enum regex_step_kind kind = runner->program.steps[thread.step].kind;
        if (kind != REGEX_BYTES) status = regex_automaton_follow(runner, thread, place);
        done = kind == REGEX_ANY && thread.looks == NO_LOOKS;
        bool eats = kind == REGEX_BYTES || kind == REGEX_ANY;
        if (eats && !(thread.looks & AT_END)) runner->queue[kept++] = thread;
    }
    if (status) return status;
    if (done) {
        kept = 1;
        runner->queue[0] = (struct thread){runner->tail, NO_LOOKS};
    }
    *out = 0;
    if (!kept && !runner->accepts) return STATUS_OK;
    automaton_draft_sort((uint32_t *)runner->queue, kept, 2);
    uint32_t number = 0;
    bool places_count = runner->program.minds_words && kept && !done;
    runner->words[0] = runner->accepts;
    if (places_count && place == REGEX_BEHIND_WORD) runner->words[0] |= 2;
    memcpy(runner->words + 1, runner->queue, kept * sizeof *runner->queue);
    status = automaton_draft_sequences_intern(&runner->sets, runner->words, 1 + 2 * kept, &number);
    *out = number + 1;
    if (!status && *out == runner->draft.state_count) {
        status = automaton_draft_add(&runner->draft, out);
        if (!status) runner->draft.labels[*out] = runner->accepts;
    }
    return status;
}

/* The threads of `from` behind a byte, into raw. Bytes come ascending: cursors[i] is the first edge
 * of thread i that does not end before the byte. */
static enum status step_threads(struct runner *runner, size_t count, uint8_t byte) {
    runner->raw_count = 0;
    if (!automaton_spend(runner->program.work, count)) return STATUS_TOO_LARGE;
    for (size_t i = 0; i < count; i++) {
        struct thread thread = runner->from[i];
        const struct regex_step *step = &runner->program.steps[thread.step];
        const struct regex_edge *edges = runner->program.edges + step->first;
        uint32_t *cursor = &runner->cursors[i];
        while (*cursor < step->count && edges[*cursor].last < byte)
            ++*cursor;
        if (*cursor == step->count || edges[*cursor].first > byte) continue;
        bool alive = true;
        uint32_t looks = NO_LOOKS;
        enum status status = step_looks(runner, thread.looks, byte, &alive, &looks);
        if (status) return status;
        if (alive) runner->raw[runner->raw_count++] = (struct thread){edges[*cursor].to, looks};
    }
    return STATUS_OK;
}

static bool is_word_byte(uint8_t byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
           (byte >= 'a' && byte <= 'z');
}

static enum status regex_automaton_add_steps(struct runner *runner, uint32_t state) {
    size_t words = 0;
    const uint32_t *set = sequences_at(&runner->sets, state - 1, &words);
    size_t count = words / 2;
    uint32_t next = 0;
    enum regex_place last_place = REGEX_AT_BEGIN;
    memcpy(runner->from, set + 1, count * sizeof *runner->from);
    memset(runner->cursors, 0, count * sizeof *runner->cursors);
    for (uint32_t class = 0; class < runner->draft.class_count; class ++) {
        uint8_t byte = runner->bytes[class];
        enum status status = step_threads(runner, count, byte);
        if (status) return status;
        enum regex_place place = runner->program.minds_words && is_word_byte(byte)
                                     ? REGEX_BEHIND_WORD
                                     : REGEX_BEHIND_OTHER;
        bool same = class && place == last_place && runner->raw_count == runner->before_count &&
                    !memcmp(runner->raw, runner->before, runner->raw_count * sizeof *runner->raw);
        if (!same) {
            memcpy(runner->before, runner->raw, runner->raw_count * sizeof *runner->raw);
            runner->before_count = runner->raw_count;
            last_place = place;
            status = regex_automaton_state_of(runner, place, &next);
            if (status) return status;
        }
        automaton_draft_row(&runner->draft, state)[class] = next;
    }
    return STATUS_OK;
}

/* ---- putting it up ---- */

/* Bytes between two cuts do the same everywhere. */
static uint32_t cut_classes(struct runner *runner, uint8_t *classes) {
    const struct regex_program *program = &runner->program;
    bool cuts[257] = {false};
    for (size_t i = 0; i < program->edge_count; i++)
        cuts[program->edges[i].first] = cuts[program->edges[i].last + 1] = true;
    for (size_t i = 0; i < program->watched_count; i++)
        for (int byte = 1; byte < 256; byte++)
            if (program->watched[i]->classes[byte] != program->watched[i]->classes[byte - 1])
                cuts[byte] = true;
    uint32_t class_count = 0;
    for (int byte = 0; byte < 256; byte++) {
        bool word_cut = byte && program->minds_words &&
                        is_word_byte((uint8_t)byte) != is_word_byte((uint8_t)(byte - 1));
        if (byte == 0 || cuts[byte] || word_cut) runner->bytes[class_count++] = (uint8_t)byte;
        classes[byte] = (uint8_t)(class_count - 1);
    }
    return class_count;
}

static enum status open_runner(struct runner *runner) {
    struct automaton_work *work = runner->program.work;
    uint8_t classes[256];
    uint32_t class_count = cut_classes(runner, classes), none = 0;
    size_t watched = runner->program.watched_count;
    runner->universal = arena_take(work->scratch, watched * sizeof(uint32_t));
    for (int i = 0; i < 2; i++)
        runner->stamps[i] =
            arena_take_zeroed(work->scratch, runner->program.step_count * sizeof(uint32_t));
    if (!runner->universal || !runner->stamps[0] || !runner->stamps[1]) return STATUS_NO_MEMORY;
    for (size_t i = 0; i < watched; i++)
        runner->universal[i] = find_universal(runner->program.watched[i]);
    enum status status = automaton_draft_sequences_open(&runner->sets, work);
    if (!status) status = automaton_draft_sequences_open(&runner->looks, work);
    if (!status) status = automaton_draft_sequences_intern(&runner->looks, NULL, 0, &none);
    if (!status) status = regex_automaton_widen(runner);
    return status ? status : automaton_draft_open(&runner->draft, work, classes, class_count);
}

/* Where all ends: either nothing may follow, or anything. */
static enum status add_end(struct runner *runner, bool open_end, uint32_t *out) {
    static const struct code_range every[] = {{0, CODE_POINT_MAX}};
    struct regex_program *program = &runner->program;
    enum status status =
        regex_program_add_step(program, (struct regex_step){.kind = REGEX_ACCEPT}, out);
    runner->tail = UINT32_MAX;
    if (status || !open_end) return status;
    uint32_t loop = 0;
    status = regex_program_add_set(program, every, 1, *out, &loop);
    if (status) return status;
    program->steps[*out] = program->steps[loop];
    program->steps[*out].kind = REGEX_ANY;
    runner->tail = *out;
    return STATUS_OK;
}

/* Before the first match: any characters, or the match. */
static enum status add_search(struct regex_program *program, uint32_t *start) {
    static const struct code_range every[] = {{0, CODE_POINT_MAX}};
    uint32_t fork = 0, any = 0;
    struct regex_step step = {.kind = REGEX_FORK, .a = *start};
    enum status status = regex_program_add_step(program, step, &fork);
    if (!status) status = regex_program_add_set(program, every, 1, fork, &any);
    if (!status) program->steps[fork].b = any;
    *start = fork;
    return status;
}

/* How a match may lie in a text. */
struct regex_bounds {
    bool open_start, open_end;
};

static enum status regex_automaton_look_ahead(struct automaton_work *work,
                                              const struct regex *regex, uint32_t node,
                                              enum regex_place place, const struct automaton **out);

static enum status run(struct automaton_work *work, const struct regex *regex, uint32_t node,
                       struct regex_bounds bounds, enum regex_place place,
                       const struct automaton **out) {
    struct runner *runner = arena_take_zeroed(work->scratch, sizeof *runner);
    if (!runner) return STATUS_NO_MEMORY;
    uint32_t end = 0, start = 0;
    runner->program.work = work;
    runner->program.regex = regex;
    runner->program.look_ahead = regex_automaton_look_ahead;
    enum status status = add_end(runner, bounds.open_end, &end);
    if (!status) status = regex_program_add(&runner->program, node, end, &start);
    if (!status && bounds.open_start && !regex_program_is_anchored(regex, node))
        status = add_search(&runner->program, &start);
    if (!status) status = open_runner(runner);
    if (status) return status;
    runner->raw[0] = (struct thread){start, NO_LOOKS};
    runner->raw_count = 1;
    status = regex_automaton_state_of(runner, place, &runner->draft.start);
    for (uint32_t state = 1; !status && state < runner->draft.state_count; state++)
        status = regex_automaton_add_steps(runner, state);
    return status ? status : automaton_draft_finish(&runner->draft, out);
}

static enum status regex_automaton_look_ahead(struct automaton_work *work,
                                              const struct regex *regex, uint32_t node,
                                              enum regex_place place,
                                              const struct automaton **out) {
    return run(work, regex, node, (struct regex_bounds){.open_end = true}, place, out);
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

enum status regex_automaton_make(struct automaton_work *work, const struct regex *regex,
                                 uint32_t node, const struct automaton **out) {
    return run(work, regex, node, (struct regex_bounds){.open_end = false}, REGEX_AT_BEGIN, out);
}

enum status automaton_of_lengths(struct automaton_work *work, uint32_t min, uint32_t max,
                                 const struct automaton **out) {
    static const struct code_range every[] = {{0, CODE_POINT_MAX}};
    const struct regex_node nodes[] = {
        {.kind = REGEX_SET, .count = min <= max}, /* no character, where nothing is so long */
        {.kind = REGEX_REPEAT, .min = min, .max = max >= min ? max : min}};
    const struct regex regex = {.root = 1, .nodes = nodes, .ranges = every};
    enum status status = regex_automaton_make(work, &regex, regex.root, out);
    arena_clear(work->scratch);
    return status;
}

enum status automaton_of_regex(struct automaton_work *work, struct bytes pattern,
                               const struct automaton **out, struct error *error) {
    return make_of_text(work, pattern, REGEX_TEXT, true, out, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/automata/automaton.h"

#include "base/check.h"
#include "serving/grammar/automata/automaton_builder.h"

bool automaton_accepts(const struct automaton *automaton, struct bytes text, uint32_t *label_out) {
    uint32_t state = automaton->start;
    for (size_t i = 0; i < text.count && state; i++)
        state = automaton_step(automaton, state, (uint8_t)text.data[i]);
    if (!automaton->labels[state]) return false;
    if (label_out) *label_out = automaton->labels[state];
    return true;
}

uint64_t automaton_member_count(const struct automaton *automaton) {
    return automaton->member_counts ? automaton->member_counts[automaton->start] : UINT64_MAX;
}

bool automaton_member(const struct automaton *automaton, uint64_t index, char *out, size_t capacity,
                      size_t *count_out) {
    const uint64_t *counts = automaton->member_counts;
    uint32_t state = automaton->start;
    size_t count = 0;
    while (index || !automaton->labels[state]) {
        index -= automaton->labels[state] != 0;
        int byte = 0;
        uint32_t next = automaton_step(automaton, state, 0);
        while (index >= counts[next]) {
            index -= counts[next];
            next = automaton_step(automaton, state, (uint8_t)++byte);
        }
        if (count == capacity) return false;
        out[count++] = (char)byte;
        state = next;
    }
    *count_out = count;
    return true;
}

static bool all_lead(const struct automaton *automaton, uint32_t from, int first, int last,
                     uint32_t to) {
    for (int byte = first; byte <= last; byte++)
        if (automaton_step(automaton, from, (uint8_t)byte) != to) return false;
    return true;
}

/* A minimal DFA has no equivalent states, so each state inside a character is determined by the
 * number of continuation bytes that follow. */
bool automaton_takes_all(const struct automaton *automaton, uint32_t state) {
    static const struct {
        uint8_t first, last, tail_first, tail_last, tails; /* bytes after the second */
    } ways[] = {                                           /* the Unicode standard, table 3-7 */
                {0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1},
                {0xE1, 0xEC, 0x80, 0xBF, 1}, {0xED, 0xED, 0x80, 0x9F, 1},
                {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
                {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};
    uint32_t behind[3] = {state}; /* index: continuation bytes still to come */
    behind[1] = automaton_step(automaton, state, 0xC2);
    behind[2] = automaton_step(automaton, state, 0xE1);
    if (!state || !all_lead(automaton, state, 0, 0x7F, state)) return false;
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        uint32_t second = automaton_step(automaton, state, ways[i].first);
        if (!all_lead(automaton, state, ways[i].first, ways[i].last, second) ||
            !all_lead(automaton, second, ways[i].tail_first, ways[i].tail_last,
                      behind[ways[i].tails]))
            return false;
    }
    return true;
}

void automaton_split_scratch(struct arena *scratch, unsigned quarters, struct arena *kept_out,
                             struct arena *passing_out) {
    if (scratch->pool) {
        arena_open(kept_out, scratch->pool);
        arena_open(passing_out, scratch->pool);
        return;
    }
    size_t bytes = (size_t)(scratch->end - scratch->at), kept = round_up(bytes / 4 * quarters, 16);
    arena_over(kept_out, scratch->at, kept);
    arena_over(passing_out, scratch->at + kept, bytes - kept);
}

bool automaton_goes_on(const struct automaton *automaton, uint32_t state) {
    const uint32_t *row = automaton->next + (size_t)state * automaton->class_count;
    for (uint32_t c = 0; c < automaton->class_count; c++)
        if (row[c]) return true;
    return false;
}

static const void *copy_items(struct arena *arena, const void *items, size_t bytes) {
    void *memory = arena_take(arena, bytes);
    return memory ? memcpy(memory, items, bytes) : NULL;
}

struct automaton *automaton_copy(struct arena *arena, const struct automaton *automaton) {
    size_t states = automaton->state_count;
    struct automaton *copy = arena_take(arena, sizeof *copy);
    if (!copy) return NULL;
    *copy = *automaton;
    copy->next = copy_items(arena, copy->next, states * copy->class_count * sizeof *copy->next);
    copy->labels = copy_items(arena, copy->labels, states * sizeof *copy->labels);
    bool counted = copy->member_counts;
    if (counted)
        copy->member_counts = copy_items(arena, copy->member_counts, states * sizeof(uint64_t));
    return copy->next && copy->labels && counted == !!copy->member_counts ? copy : NULL;
}

/* Makes one class for each byte that occurs in the texts, and one for all other bytes. */
static uint32_t classes_of_texts(const struct bytes *texts, size_t count, uint8_t *classes) {
    bool seen[256] = {false};
    uint32_t class_count = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < texts[i].count; j++)
            seen[(uint8_t)texts[i].data[j]] = true;
    for (int byte = 0; byte < 256; byte++)
        if (seen[byte]) classes[byte] = (uint8_t)class_count++;
    for (int byte = 0; byte < 256; byte++)
        if (!seen[byte]) classes[byte] = (uint8_t)(class_count == 256 ? 0 : class_count);
    return class_count < 256 ? class_count + 1 : 256;
}

static enum status automaton_add_text(struct automaton_builder *dfa, struct bytes text,
                                      uint32_t label) {
    uint32_t state = dfa->start;
    for (size_t i = 0; i < text.count; i++) {
        uint8_t class = dfa->classes[(uint8_t)text.data[i]];
        uint32_t next = automaton_builder_row(dfa, state)[class];
        if (!next) {
            enum status status = automaton_builder_add(dfa, &next);
            if (status) return status;
            automaton_builder_row(dfa, state)[class] = next;
        }
        state = next;
    }
    dfa->labels[state] = label;
    return STATUS_OK;
}

enum status automaton_of_texts(struct automaton_work *work, const struct bytes *texts, size_t count,
                               const struct automaton **out) {
    struct automaton_builder dfa;
    uint8_t classes[256];
    uint32_t class_count = classes_of_texts(texts, count, classes);
    enum status status = automaton_builder_open(&dfa, work, classes, class_count);
    if (!status) status = automaton_builder_add(&dfa, &dfa.start);
    for (size_t i = 0; !status && i < count; i++)
        status = automaton_add_text(&dfa, texts[i], (uint32_t)i + 1);
    if (!status) status = automaton_builder_finish(&dfa, out);
    arena_clear(work->scratch);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/automata/automaton.h"

#include "serving/grammar/automata/automaton_draft.h"

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

/* A class for each byte that stands in a text, and the last one for all others. */
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

static enum status automaton_add_text(struct automaton_draft *draft, struct bytes text,
                                      uint32_t label) {
    uint32_t state = draft->start;
    for (size_t i = 0; i < text.count; i++) {
        uint8_t class = draft->classes[(uint8_t)text.data[i]];
        uint32_t next = automaton_draft_row(draft, state)[class];
        if (!next) {
            enum status status = automaton_draft_add(draft, &next);
            if (status) return status;
            automaton_draft_row(draft, state)[class] = next;
        }
        state = next;
    }
    draft->labels[state] = label;
    return STATUS_OK;
}

enum status automaton_of_texts(struct automaton_work *work, const struct bytes *texts, size_t count,
                               const struct automaton **out) {
    struct automaton_draft draft;
    uint8_t classes[256];
    uint32_t class_count = classes_of_texts(texts, count, classes);
    enum status status = automaton_draft_open(&draft, work, classes, class_count);
    if (!status) status = automaton_draft_add(&draft, &draft.start);
    for (size_t i = 0; !status && i < count; i++)
        status = automaton_add_text(&draft, texts[i], (uint32_t)i + 1);
    if (!status) status = automaton_draft_finish(&draft, out);
    arena_clear(work->scratch);
    return status;
}

/* ---- lengths ---- */

/* Classes of bytes in valid UTF-8 (the Unicode standard, table 3-7). */
enum utf8_class {
    UTF8_ASCII,
    UTF8_TAIL_8, /* 80..8F */
    UTF8_TAIL_9, /* 90..9F */
    UTF8_TAIL_A, /* A0..BF */
    UTF8_LEAD_2, /* C2..DF */
    UTF8_LEAD_E0,
    UTF8_LEAD_3, /* E1..EC, EE, EF */
    UTF8_LEAD_ED,
    UTF8_LEAD_F0,
    UTF8_LEAD_4, /* F1..F3 */
    UTF8_LEAD_F4,
    UTF8_NEVER,
    UTF8_CLASS_COUNT
};

static enum utf8_class utf8_class_of(int byte) {
    if (byte < 0x80) return UTF8_ASCII;
    if (byte < 0xC0) return byte < 0x90 ? UTF8_TAIL_8 : byte < 0xA0 ? UTF8_TAIL_9 : UTF8_TAIL_A;
    if (byte < 0xE0) return byte < 0xC2 ? UTF8_NEVER : UTF8_LEAD_2;
    if (byte == 0xE0) return UTF8_LEAD_E0;
    if (byte == 0xED) return UTF8_LEAD_ED;
    if (byte < 0xF0) return UTF8_LEAD_3;
    if (byte == 0xF0) return UTF8_LEAD_F0;
    return byte < 0xF4 ? UTF8_LEAD_4 : byte == 0xF4 ? UTF8_LEAD_F4 : UTF8_NEVER;
}

/* Any one character leads from one state to the other. */
static enum status automaton_add_character(struct automaton_draft *draft, uint32_t from,
                                           uint32_t to) {
    static const struct {
        uint8_t lead, first_tail, last_tail, tails; /* the second byte's classes; bytes behind it */
    } ways[] = {
        {UTF8_LEAD_2, UTF8_TAIL_8, UTF8_TAIL_A, 0},  {UTF8_LEAD_E0, UTF8_TAIL_A, UTF8_TAIL_A, 1},
        {UTF8_LEAD_3, UTF8_TAIL_8, UTF8_TAIL_A, 1},  {UTF8_LEAD_ED, UTF8_TAIL_8, UTF8_TAIL_9, 1},
        {UTF8_LEAD_F0, UTF8_TAIL_9, UTF8_TAIL_A, 2}, {UTF8_LEAD_4, UTF8_TAIL_8, UTF8_TAIL_A, 2},
        {UTF8_LEAD_F4, UTF8_TAIL_8, UTF8_TAIL_8, 2},
    };
    uint32_t behind[3] = {to}; /* states with so many bytes to come */
    enum status status = STATUS_OK;
    for (int left = 1; !status && left < 3; left++) {
        status = automaton_draft_add(draft, &behind[left]);
        for (int class = UTF8_TAIL_8; !status && class <= UTF8_TAIL_A; class ++)
            automaton_draft_row(draft, behind[left])[class] = behind[left - 1];
    }
    if (!status) automaton_draft_row(draft, from)[UTF8_ASCII] = to;
    for (size_t i = 0; !status && i < sizeof ways / sizeof *ways; i++) {
        uint32_t second = 0;
        status = automaton_draft_add(draft, &second);
        if (status) break;
        automaton_draft_row(draft, from)[ways[i].lead] = second;
        for (int class = ways[i].first_tail; class <= ways[i].last_tail; class ++)
            automaton_draft_row(draft, second)[class] = behind[ways[i].tails];
    }
    return status;
}

enum status automaton_of_lengths(struct automaton_work *work, uint32_t min, uint32_t max,
                                 const struct automaton **out) {
    struct automaton_draft draft;
    uint8_t classes[256];
    for (int byte = 0; byte < 256; byte++)
        classes[byte] = (uint8_t)utf8_class_of(byte);
    enum status status = automaton_draft_open(&draft, work, classes, UTF8_CLASS_COUNT);
    if (!status && min <= max) status = automaton_draft_add(&draft, &draft.start);
    uint32_t last = max == UINT32_MAX ? min : max, state = draft.start;
    for (uint32_t length = 0; !status && state; length++) {
        draft.labels[state] = length >= min;
        uint32_t next = state;
        if (length == last && max != UINT32_MAX) break;
        if (length < last) status = automaton_draft_add(&draft, &next);
        if (!status) status = automaton_add_character(&draft, state, next);
        if (length == last) break;
        state = next;
    }
    if (!status) status = automaton_draft_finish(&draft, out);
    arena_clear(work->scratch);
    return status;
}

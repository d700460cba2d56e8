/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record_past.h"

#include <string.h>

#include "base/bytes.h"

/* Version 13 has no PROGRESS. All other kinds are unchanged. */
const struct record_past record_past = {.version = RECORD_VERSION - 1,
                                        .kind_count = RECORD_FLEET_JOBS + 1};

static const struct record_past_form *record_past_form_of(const struct record_past *past,
                                                          uint16_t kind) {
    static const struct record_past_form unchanged = {.kind = RECORD_NONE};
    for (uint32_t i = 0; i < past->form_count; i++)
        if (past->forms[i].kind == kind) return &past->forms[i];
    return &unchanged;
}

static size_t gap_bytes(const struct record_past_form *form) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < RECORD_PAST_GAPS; i++)
        bytes += form->gaps[i].bytes;
    return bytes;
}

/* The state of a conversion: bytes read from one version and written to the other. */
struct passage {
    const struct record_past_form *form;
    bool to_past;
    const char *from;
    char *to;
    size_t read, count; /* bytes of `from` */
    size_t written, room;
};

/* Copies bytes. Returns false if the input or the output is too short. */
static bool record_past_copy(struct passage *p, size_t bytes) {
    if (bytes > p->count - p->read || bytes > p->room - p->written) return false;
    memcpy(p->to + p->written, p->from + p->read, bytes);
    p->read += bytes;
    p->written += bytes;
    return true;
}

/* Skips bytes that the past version does not have, or writes zeros for them. */
static bool record_past_skip(struct passage *p, size_t bytes) {
    size_t left = p->to_past ? p->count - p->read : p->room - p->written;
    if (bytes > left) return false;
    if (p->to_past) {
        p->read += bytes;
    } else {
        memset(p->to + p->written, 0, bytes);
        p->written += bytes;
    }
    return true;
}

/* Advances both sides to the next multiple of 8, with zeros as padding. */
static bool align(struct passage *p) {
    size_t read = round_up(p->read, 8), written = round_up(p->written, 8);
    if (read > p->count || written > p->room) return false;
    memset(p->to + p->written, 0, written - p->written);
    p->read = read;
    p->written = written;
    return true;
}

static bool pass_fixed(struct passage *p, uint16_t kind) {
    size_t at = 0; /* offset in the present version */
    for (uint32_t i = 0; i < RECORD_PAST_GAPS && p->form->gaps[i].bytes; i++) {
        struct record_gap gap = p->form->gaps[i];
        if (!record_past_copy(p, gap.offset - at) || !record_past_skip(p, gap.bytes)) return false;
        at = gap.offset + gap.bytes;
    }
    return record_past_copy(p, record_fixed_bytes((enum record_kind)kind) - at);
}

/* `present` is the record with the counts in its fixed struct. */
static bool pass_tail(struct passage *p, const void *present, uint32_t index) {
    size_t now = record_tail_element_bytes(present, index);
    size_t then = p->form->element_bytes[index] ? p->form->element_bytes[index] : now;
    uint64_t count = record_tail_elements(present, index);
    if (!align(p)) return false;
    size_t each = p->to_past ? now : then;
    if (count > (p->count - p->read) / each) return false;
    if (now == then) return record_past_copy(p, count * now);
    for (uint64_t i = 0; i < count; i++)
        if (!record_past_copy(p, then) || !record_past_skip(p, now - then)) return false;
    return true;
}

static bool record_past_pass(struct passage *p, uint16_t kind) {
    uint32_t tails = record_tail_count((enum record_kind)kind) - p->form->tails_added;
    if (!pass_fixed(p, kind)) return false;
    const void *present = p->to_past ? p->from : p->to;
    for (uint32_t i = 0; i < tails; i++)
        if (!pass_tail(p, present, i)) return false;
    if (p->to_past) p->read = p->count; /* skip the added tails */
    return align(p) && p->read == p->count;
}

static bool record_past_is_known(const struct record_past *past, uint16_t kind) {
    return kind > RECORD_NONE && kind < past->kind_count && kind < RECORD_KIND_COUNT &&
           record_fixed_bytes((enum record_kind)kind) > 0;
}

static size_t end(const struct passage *p, uint16_t version, uint16_t kind) {
    *(struct record *)(void *)p->to = (struct record){version, kind, (uint32_t)p->written};
    return p->written;
}

size_t record_past_from_past(const struct record_past *past, const void *bytes, size_t count,
                             void *out, size_t room) {
    struct record head;
    if (count < sizeof head || count > RECORD_BYTES_MAX || room > RECORD_BYTES_MAX) return 0;
    memcpy(&head, bytes, sizeof head);
    if (head.version != past->version || head.bytes != count ||
        !record_past_is_known(past, head.kind))
        return 0;
    struct passage p = {.form = record_past_form_of(past, head.kind),
                        .from = bytes,
                        .to = out,
                        .count = count,
                        .room = room};
    if (count < record_fixed_bytes((enum record_kind)head.kind) - gap_bytes(p.form)) return 0;
    return record_past_pass(&p, head.kind) ? end(&p, RECORD_VERSION, head.kind) : 0;
}

size_t record_past_to_past(const struct record_past *past, const struct record *record, void *out,
                           size_t room) {
    if (!record_past_is_known(past, record->kind)) return 0;
    struct passage p = {.form = record_past_form_of(past, record->kind),
                        .to_past = true,
                        .from = (const char *)record,
                        .to = out,
                        .count = record->bytes,
                        .room = room};
    return record_past_pass(&p, record->kind) ? end(&p, past->version, record->kind) : 0;
}

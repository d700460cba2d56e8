/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/limits.h"

_Static_assert(RECORD_KIND_COUNT <= 64, "a set of kinds is a word");

bool record_zeros(const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (((const char *)bytes)[i]) return false;
    return true;
}

bool record_name_valid(const char *text, uint32_t count) {
    if (count > LIMIT_REQUEST_NAME) return false;
    for (uint32_t i = 0; i < count; i++)
        if (text[i] <= ' ' || text[i] > '~') return false;
    return true;
}

bool record_request_valid(const void *record) {
    return record_request(record).reserved == 0;
}

static const struct record_form *record_form_of(uint16_t kind) {
    static const struct record_form no_record = {.name = "no record"};
    return kind > RECORD_NONE && kind < RECORD_KIND_COUNT ? &record_forms[kind] : &no_record;
}

static uint64_t record_field(const void *fixed, uint16_t offset) {
    return *(const uint32_t *)(const void *)((const char *)fixed + offset);
}

/* The number of elements of a tail. A sum or product of two 32-bit fields fits 64 bits. */
static uint64_t elements(const struct record_tail_form *tail, const void *fixed) {
    switch (tail->count) {
    case COUNT_FIELD:
        return record_field(fixed, tail->field);
    case COUNT_FIELD_AND_ONE:
        return record_field(fixed, tail->field) + 1;
    case COUNT_SUM:
        return record_field(fixed, tail->field) + record_field(fixed, tail->other);
    case COUNT_PRODUCT:
        return record_field(fixed, tail->field) * record_field(fixed, tail->other);
    }
    return 0;
}

size_t record_fixed_bytes(enum record_kind kind) {
    return record_form_of(kind)->bytes;
}

size_t record_bytes(enum record_kind kind, const void *fixed) {
    const struct record_form *form = record_form_of(kind);
    size_t bytes = form->bytes;
    for (const struct record_tail_form *tail = form->tails; tail->element_bytes; tail++) {
        uint64_t count = fixed ? elements(tail, fixed) : tail->count == COUNT_FIELD_AND_ONE;
        bytes = round_up(bytes, 8) + count * tail->element_bytes;
    }
    return round_up(bytes, 8);
}

struct record record_head(enum record_kind kind, size_t bytes) {
    return (struct record){RECORD_VERSION, (uint16_t)kind, (uint32_t)bytes};
}

void record_set_head(void *record, enum record_kind kind) {
    *(struct record *)record = record_head(kind, record_bytes(kind, record));
}

uint32_t record_tail_count(enum record_kind kind) {
    uint32_t count = 0;
    while (record_form_of(kind)->tails[count].element_bytes)
        count++;
    return count;
}

static const struct record_tail_form *tail_of(const void *record, uint32_t index) {
    const struct record_form *form = record_form_of(((const struct record *)record)->kind);
    check(index < RECORD_TAILS_MAX && form->tails[index].element_bytes); /* the tail must exist */
    return &form->tails[index];
}

uint64_t record_tail_elements(const void *record, uint32_t index) {
    return elements(tail_of(record, index), record);
}

size_t record_tail_element_bytes(const void *record, uint32_t index) {
    return tail_of(record, index)->element_bytes;
}

size_t record_tail_bytes(const void *record, uint32_t index) {
    return record_tail_elements(record, index) * record_tail_element_bytes(record, index);
}

void *record_tail(const void *record, uint32_t index) {
    const struct record_form *form = record_form_of(((const struct record *)record)->kind);
    check(tail_of(record, index));
    size_t at = round_up(form->bytes, 8);
    for (uint32_t i = 0; i < index; i++)
        at = round_up(at + elements(&form->tails[i], record) * form->tails[i].element_bytes, 8);
    return (char *)(uintptr_t)record + at;
}

bool record_goes(uint16_t kind, uint32_t ways) {
    return record_form_of(kind)->ways & ways;
}

uint64_t record_kinds(uint32_t ways) {
    uint64_t kinds = 0;
    for (uint32_t kind = 1; kind < RECORD_KIND_COUNT; kind++)
        kinds |= (uint64_t)record_goes((uint16_t)kind, ways) << kind;
    return kinds;
}

const char *record_name(uint16_t kind) {
    return record_form_of(kind)->name;
}

/* True if all tails end within the record and all padding is zero. Equal records are therefore
 * equal bytes. */
static bool tails_fit(const struct record_form *form, const char *record, uint64_t bytes) {
    uint64_t at = form->bytes; /* end of the part that is known to fit */
    for (const struct record_tail_form *tail = form->tails; tail->element_bytes; tail++) {
        uint64_t start = round_up(at, 8);
        if (start > bytes || !record_zeros(record + at, start - at) ||
            elements(tail, record) > (bytes - start) / tail->element_bytes)
            return false;
        at = start + elements(tail, record) * tail->element_bytes;
    }
    return round_up(at, 8) == bytes && record_zeros(record + at, bytes - at);
}

bool record_valid(const void *bytes, size_t count) {
    const struct record *record = bytes;
    if (((uintptr_t)bytes & 7) != 0 || count < sizeof *record || count > RECORD_BYTES_MAX)
        return false;
    const struct record_form *form = record_form_of(record->kind);
    return record->version == RECORD_VERSION && form->bytes != 0 && form->bytes <= count &&
           record->bytes == count && tails_fit(form, bytes, count) &&
           (!form->fields_valid || form->fields_valid(record));
}

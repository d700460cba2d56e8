/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/recording/recording_compare.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "contract/record_kv.h"
#include "contract/record_unit.h"

#define NONE UINT32_MAX

/* ---- names ---- */

struct name_pair {
    struct block_key sides[2]; /* recorded, found */
};

struct recording_names {
    struct name_pair *pairs; /* [count] */
    uint32_t *tables[2];     /* [table_size] pairs by each side, linear probing; NONE: empty */
    uint32_t count, table_size;
};

static uint32_t *recording_compare_find_place(const struct recording_names *names, int side,
                                              const struct block_key *key) {
    uint64_t hash;
    memcpy(&hash, key->bytes, sizeof hash); /* names are hashes */
    for (uint32_t at = (uint32_t)hash;; at++) {
        uint32_t *place = &names->tables[side][at & (names->table_size - 1)];
        if (*place == NONE || memcmp(&names->pairs[*place].sides[side], key, sizeof *key) == 0)
            return place;
    }
}

static void grow(struct recording_names *names) {
    names->table_size = names->table_size ? 2 * names->table_size : 1024;
    names->pairs = realloc(names->pairs, names->table_size / 2 * sizeof *names->pairs);
    check(names->pairs);
    for (int side = 0; side < 2; side++) {
        free(names->tables[side]);
        names->tables[side] = malloc(names->table_size * sizeof(uint32_t));
        check(names->tables[side]);
        memset(names->tables[side], 0xFF, names->table_size * sizeof(uint32_t));
        for (uint32_t i = 0; i < names->count; i++)
            *recording_compare_find_place(names, side, &names->pairs[i].sides[side]) = i;
    }
}

struct recording_names *recording_compare_names_open(void) {
    struct recording_names *names = calloc(1, sizeof *names);
    check(names);
    grow(names);
    return names;
}

void recording_compare_names_close(struct recording_names *names) {
    if (!names) return;
    free(names->pairs);
    free(names->tables[0]);
    free(names->tables[1]);
    free(names);
}

/* True if one name corresponds to the other; two new names correspond from now on. */
static bool names_agree(struct recording_names *names, const struct block_key *recorded,
                        const struct block_key *found) {
    uint32_t *by_recorded = recording_compare_find_place(names, 0, recorded),
             *by_found = recording_compare_find_place(names, 1, found);
    if (*by_recorded != *by_found) return false;
    if (*by_recorded != NONE) return true;
    names->pairs[names->count] = (struct name_pair){{*recorded, *found}};
    *by_recorded = *by_found = names->count++;
    if (names->count == names->table_size / 2) grow(names);
    return true;
}

/* ---- records ---- */

/* Only these records have names, each in its first tail. */
static bool has_names(const struct record *record) {
    return record->kind == RECORD_KV_FIND || record->kind == RECORD_KV_LOAD ||
           record->kind == RECORD_KV_PUT;
}

static uint64_t recording_compare_value_at(const char *data, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, data, bytes);
    return value;
}

/* The offset of the first difference of two arrays of elements; NONE: they are equal. */
static size_t find_difference(const char *a, const char *b, size_t bytes, size_t element) {
    for (size_t at = 0; at < bytes; at += element) {
        size_t count = element < bytes - at ? element : bytes - at;
        if (memcmp(a + at, b + at, count) != 0) return at;
    }
    return SIZE_MAX;
}

static bool fixed_agree(const struct record *recorded, const struct record *found,
                        struct error *difference) {
    const char *a = (const char *)recorded, *b = (const char *)found;
    size_t bytes = record_fixed_bytes(recorded->kind), at = find_difference(a, b, bytes, 4);
    if (at == SIZE_MAX) return true;
    size_t count = bytes - at < 4 ? bytes - at : 4;
    error_set(difference, STATUS_INVALID, "bytes %zu to %zu of its fields are %llu, not %llu", at,
              at + count - 1, (unsigned long long)recording_compare_value_at(b + at, count),
              (unsigned long long)recording_compare_value_at(a + at, count));
    return false;
}

static bool names_in_tail_agree(struct recording_names *names, const struct record *recorded,
                                const struct record *found, struct error *difference) {
    const struct block_key *a = record_tail(recorded, 0), *b = record_tail(found, 0);
    size_t count = record_tail_bytes(recorded, 0) / sizeof *a;
    for (size_t i = 0; i < count; i++) {
        if (names_agree(names, &a[i], &b[i])) continue;
        error_set(difference, STATUS_INVALID, "element %zu of its tail 0 names another KV block",
                  i);
        return false;
    }
    return true;
}

static bool tail_agrees(const struct record *recorded, const struct record *found, uint32_t index,
                        struct error *difference) {
    size_t element = record_forms[recorded->kind].tails[index].element_bytes;
    const char *a = record_tail(recorded, index), *b = record_tail(found, index);
    size_t at = find_difference(a, b, record_tail_bytes(recorded, index), element);
    if (at == SIZE_MAX) return true;
    size_t within = find_difference(a + at, b + at, element, 1);
    error_set(difference, STATUS_INVALID,
              "element %zu of its tail %u differs: its byte %zu is %u, not %u", at / element, index,
              within, (uint8_t)b[at + within], (uint8_t)a[at + within]);
    return false;
}

bool recording_compare(struct recording_names *names, const struct record *recorded,
                       const struct record *found, struct error *difference) {
    if (recorded->kind != found->kind) {
        error_set(difference, STATUS_INVALID, "it is a %s", record_name(found->kind));
        return false;
    }
    if (!fixed_agree(recorded, found, difference)) return false;
    if (recorded->kind == RECORD_TO_UNIT || recorded->kind == RECORD_FROM_UNIT) {
        struct error inner;
        const struct record *a = envelope_inner((const struct record_envelope *)recorded);
        const struct record *b = envelope_inner((const struct record_envelope *)found);
        if (recording_compare(names, a, b, &inner)) return true;
        error_set(difference, STATUS_INVALID, "in the %s that it carries, %s", record_name(a->kind),
                  inner.text);
        return false;
    }
    const struct record_tail_form *tails = record_forms[recorded->kind].tails;
    for (uint32_t i = 0; tails[i].element_bytes; i++) {
        bool agrees = i == 0 && has_names(recorded)
                          ? names_in_tail_agree(names, recorded, found, difference)
                          : tail_agrees(recorded, found, i, difference);
        if (!agrees) return false;
    }
    return true;
}

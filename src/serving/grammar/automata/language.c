/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/automata/language.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/number.h"

#define KNOWN_MAX 8192 /* results; later ones are computed again */

enum known_kind { KNOWN_AUTOMATON, KNOWN_LENGTHS, KNOWN_AND, KNOWN_OR, KNOWN_WITHOUT };

static struct map_key language_key_of(enum known_kind kind, uint64_t low, uint64_t extra) {
    return (struct map_key){.high = (uint64_t)kind, .low = low, .extra = extra};
}

static void language_remember(struct language_table *table, struct map_key key, uint32_t language) {
    if (table->known.count < table->known.capacity && map_find(&table->known, key) == MAP_NONE)
        map_add(&table->known, key, language);
}

static enum status add(struct language_table *table, struct language language, uint32_t *out) {
    if (table->count == table->capacity) {
        uint32_t capacity = table->capacity * 2;
        struct language *larger =
            arena_take(table->work->arena, capacity * sizeof *table->languages);
        if (!larger) return STATUS_NO_MEMORY;
        memcpy(larger, table->languages, table->count * sizeof *larger);
        table->languages = larger;
        table->capacity = capacity;
    }
    table->languages[table->count] = language;
    *out = table->count++;
    return STATUS_OK;
}

enum status language_open(struct language_table *table, struct automaton_work *work) {
    *table = (struct language_table){.work = work, .capacity = 256};
    table->languages = arena_take(work->arena, table->capacity * sizeof *table->languages);
    if (!table->languages) return STATUS_NO_MEMORY;
    enum status status = map_open(&table->known, work->arena, KNOWN_MAX);
    if (status) return status;
    table->languages[LANGUAGE_NONE] =
        (struct language){.of_lengths = true, .length_min = 1, .length_max = 0};
    table->languages[LANGUAGE_TEXT] =
        (struct language){.of_lengths = true, .length_max = UINT32_MAX};
    table->count = LANGUAGE_FIXED_COUNT;
    return STATUS_OK;
}

static size_t language_next_bytes(const struct automaton *automaton) {
    return (size_t)automaton->state_count * automaton->class_count * sizeof *automaton->next;
}

static bool language_same(const struct automaton *a, const struct automaton *b) {
    return a->state_count == b->state_count && a->class_count == b->class_count &&
           a->start == b->start && memcmp(a->classes, b->classes, sizeof a->classes) == 0 &&
           memcmp(a->next, b->next, language_next_bytes(a)) == 0 &&
           memcmp(a->labels, b->labels, a->state_count * sizeof *a->labels) == 0;
}

enum status language_of_automaton(struct language_table *table, const struct automaton *automaton,
                                  uint32_t *out) {
    if (automaton->start == 0) {
        *out = LANGUAGE_NONE;
        return STATUS_OK;
    }
    uint64_t hash = hash_bytes(automaton->start, automaton->classes, sizeof automaton->classes);
    hash = hash_bytes(hash, automaton->labels, automaton->state_count * sizeof *automaton->labels);
    hash = hash_bytes(hash, automaton->next, language_next_bytes(automaton));
    struct map_key key = language_key_of(KNOWN_AUTOMATON, hash, automaton->state_count);
    uint32_t found = map_find(&table->known, key);
    if (found != MAP_NONE && language_same(table->languages[found].automaton, automaton)) {
        *out = found;
        return STATUS_OK;
    }
    enum status status = add(table, (struct language){.automaton = automaton}, out);
    if (!status) language_remember(table, key, *out);
    return status;
}

enum status language_of_lengths(struct language_table *table, uint32_t min, uint32_t max,
                                uint32_t *out) {
    if (min > max) {
        *out = LANGUAGE_NONE;
        return STATUS_OK;
    }
    if (min == 0 && max == UINT32_MAX) {
        *out = LANGUAGE_TEXT;
        return STATUS_OK;
    }
    struct map_key key = language_key_of(KNOWN_LENGTHS, min, max);
    uint32_t found = map_find(&table->known, key);
    if (found != MAP_NONE) {
        *out = found;
        return STATUS_OK;
    }
    enum status status = add(
        table, (struct language){.of_lengths = true, .length_min = min, .length_max = max}, out);
    if (!status) language_remember(table, key, *out);
    return status;
}

enum status language_of_texts(struct language_table *table, const struct bytes *texts, size_t count,
                              uint32_t *out) {
    const struct automaton *automaton;
    enum status status = automaton_of_texts(table->work, texts, count, &automaton);
    if (status) return status;
    uint32_t *ones = arena_take(table->work->arena, count * sizeof *ones);
    if (!ones) return STATUS_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        ones[i] = 1;
    status = automaton_relabel(table->work, automaton, ones, &automaton);
    return status ? status : language_of_automaton(table, automaton, out);
}

enum status language_automaton(struct language_table *table, uint32_t language,
                               const struct automaton **out) {
    struct language *entry = &table->languages[language];
    if (!entry->automaton) {
        enum status status =
            automaton_of_lengths(table->work, entry->length_min, entry->length_max, out);
        if (status) return status;
        table->languages[language].automaton = *out;
    }
    *out = table->languages[language].automaton;
    return STATUS_OK;
}

/* Handles cases that need no automaton: true if *out was set. */
static bool language_is_plain(struct language_table *table, enum known_kind kind, uint32_t a,
                              uint32_t b, enum status *status, uint32_t *out) {
    *status = STATUS_OK;
    uint32_t trivial = MAP_NONE;
    if (kind == KNOWN_AND) {
        if (a == b || b == LANGUAGE_TEXT || a == LANGUAGE_NONE) trivial = a;
        if (a == LANGUAGE_TEXT || b == LANGUAGE_NONE) trivial = b;
    } else if (kind == KNOWN_OR) {
        if (a == b || b == LANGUAGE_NONE || a == LANGUAGE_TEXT) trivial = a;
        if (a == LANGUAGE_NONE || b == LANGUAGE_TEXT) trivial = b;
    } else {
        if (b == LANGUAGE_NONE) trivial = a;
        if (a == b || a == LANGUAGE_NONE) trivial = LANGUAGE_NONE;
    }
    if (trivial != MAP_NONE) {
        *out = trivial;
        return true;
    }
    const struct language *first = &table->languages[a], *second = &table->languages[b];
    if (kind != KNOWN_AND || !first->of_lengths || !second->of_lengths) return false;
    *status = language_of_lengths(table, max_u32(first->length_min, second->length_min),
                                  min_u32(first->length_max, second->length_max), out);
    return true;
}

static enum status language_combine(struct language_table *table, enum known_kind kind, uint32_t a,
                                    uint32_t b, uint32_t *out) {
    enum status status;
    if (language_is_plain(table, kind, a, b, &status, out)) return status;
    struct map_key key = language_key_of(kind, a, b);
    uint32_t found = map_find(&table->known, key);
    if (found != MAP_NONE) {
        *out = found;
        return STATUS_OK;
    }
    const struct automaton *first, *second, *result;
    status = language_automaton(table, a, &first);
    if (!status) status = language_automaton(table, b, &second);
    if (status) return status;
    if (kind == KNOWN_AND)
        status = automaton_and(table->work, first, second, &result);
    else if (kind == KNOWN_OR)
        status = automaton_or(table->work, first, second, &result);
    else
        status = automaton_without(table->work, first, second, &result);
    if (!status) status = language_of_automaton(table, result, out);
    if (!status) language_remember(table, key, *out);
    return status;
}

enum status language_and(struct language_table *table, uint32_t a, uint32_t b, uint32_t *out) {
    return language_combine(table, KNOWN_AND, a < b ? a : b, a < b ? b : a, out);
}

enum status language_or(struct language_table *table, uint32_t a, uint32_t b, uint32_t *out) {
    return language_combine(table, KNOWN_OR, a < b ? a : b, a < b ? b : a, out);
}

enum status language_without(struct language_table *table, uint32_t a, uint32_t b, uint32_t *out) {
    return language_combine(table, KNOWN_WITHOUT, a, b, out);
}

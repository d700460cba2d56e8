/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/automata/language.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/number.h"

#define KNOWN_MAX 8192 /* cached results; further ones are not cached */

/* Kinds of cache keys, in addition to the values of enum automaton_operation. */
enum known_kind { KNOWN_AUTOMATON = AUTOMATON_OR + 1, KNOWN_LENGTHS };

static struct map_key language_key_of(unsigned kind, uint64_t low, uint64_t extra) {
    return (struct map_key){.high = kind, .low = low, .extra = extra};
}

static void language_remember(struct language_table *table, struct map_key key, uint32_t language) {
    if (table->known.count < table->known.capacity && map_find(&table->known, key) == MAP_NONE)
        map_add(&table->known, key, language);
}

static enum status add(struct language_table *table, struct language language, uint32_t *out) {
    if (!arena_reserve(table->work->arena, &table->languages, table->count, &table->capacity,
                       sizeof language))
        return STATUS_NO_MEMORY;
    table->languages[table->count] = language;
    *out = table->count++;
    return STATUS_OK;
}

enum status language_open(struct language_table *table, struct automaton_work *work) {
    uint32_t number;
    *table = (struct language_table){.work = work};
    enum status status = map_open(&table->known, work->arena, KNOWN_MAX);
    if (!status) /* LANGUAGE_NONE */
        status = add(table, (struct language){.of_lengths = true, .length_min = 1}, &number);
    if (!status) /* LANGUAGE_TEXT */
        status =
            add(table, (struct language){.of_lengths = true, .length_max = UINT32_MAX}, &number);
    return status;
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

/* The result of an operation if set algebra alone determines it; else MAP_NONE. */
static uint32_t language_plain(enum automaton_operation operation, uint32_t a, uint32_t b) {
    if (operation == AUTOMATON_WITHOUT)
        return b == LANGUAGE_NONE ? a : a == b || a == LANGUAGE_NONE ? LANGUAGE_NONE : MAP_NONE;
    uint32_t least = operation == AUTOMATON_AND ? LANGUAGE_NONE : LANGUAGE_TEXT;
    uint32_t most = operation == AUTOMATON_AND ? LANGUAGE_TEXT : LANGUAGE_NONE;
    if (a == b || a == least || b == most) return a;
    return b == least || a == most ? b : MAP_NONE;
}

enum status language_combine(struct language_table *table, enum automaton_operation operation,
                             uint32_t a, uint32_t b, uint32_t *out) {
    if (operation != AUTOMATON_WITHOUT && b < a)
        return language_combine(table, operation, b, a, out);
    uint32_t found = language_plain(operation, a, b);
    const struct language one = table->languages[a], other = table->languages[b];
    if (found == MAP_NONE && operation == AUTOMATON_AND && one.of_lengths && other.of_lengths)
        return language_of_lengths(table, max_u32(one.length_min, other.length_min),
                                   min_u32(one.length_max, other.length_max), out);
    struct map_key key = language_key_of(operation, a, b);
    if (found == MAP_NONE) found = map_find(&table->known, key);
    if (found != MAP_NONE) {
        *out = found;
        return STATUS_OK;
    }
    const struct automaton *first, *second, *result;
    enum status status = language_automaton(table, a, &first);
    if (!status) status = language_automaton(table, b, &second);
    if (!status) status = automaton_combine(table->work, operation, first, second, &result);
    if (!status) status = language_of_automaton(table, result, out);
    if (!status) language_remember(table, key, *out);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/schema/schema_state.h"

#include "base/format.h"
#include "base/hash.h"
#include "serving/grammar/automata/text_format.h"

enum state_known {
    KNOWN_NAME,
    KNOWN_PATTERN,
    KNOWN_FORMAT,
    KNOWN_FORMAT_BRIEF,
    KNOWN_KEY_SET,
    KNOWN_SUBSCHEMA,
    KNOWN_CONJUNCTION,
    KNOWN_BOTH
};

#define PATH_PARTS_MAX 12 /* parts of a message's path; outer parts are omitted */

size_t schema_state_error_write(struct schema_state *state, const char *format, ...) {
    if (!state->error) return 0;
    const struct subschema *parts[PATH_PARTS_MAX];
    uint32_t count = 0;
    uint32_t at = state->at;
    while (at != UINT32_MAX && count < PATH_PARTS_MAX) {
        parts[count++] = &state->subschemas[at];
        at = state->subschemas[at].parent;
    }
    char *text = state->error->text;
    size_t room = sizeof state->error->text;
    size_t used = format_text(text, room, at == UINT32_MAX ? "#" : "...");
    while (count--) {
        const struct subschema *part = parts[count];
        if (part->keyword) used += format_text(text + used, room - used, "/%.40s", part->keyword);
        if (part->key.count)
            used += format_text(text + used, room - used, "/%.*s",
                                (int)(part->key.count < 40 ? part->key.count : 40), part->key.data);
    }
    if (state->keyword) used += format_text(text + used, room - used, "/%.40s", state->keyword);
    used += format_text(text + used, room - used, ": ");
    va_list arguments;
    va_start(arguments, format);
    used += format_va(text + used, room - used, format, arguments);
    va_end(arguments);
    return used;
}

void schema_state_explain(struct schema_state *state, enum status status) {
    if (status == STATUS_TOO_LARGE)
        schema_state_error_write(state, "takes more work than a schema may; make it smaller");
    if (status == STATUS_NO_MEMORY)
        schema_state_error_write(state, "takes more memory than a schema may; make it smaller");
}

enum status schema_state_spend(struct schema_state *state, uint64_t steps) {
    if (state->work.steps_left < steps) {
        state->work.steps_left = 0;
        return state_failed(state, STATUS_TOO_LARGE);
    }
    state->work.steps_left -= steps;
    return STATUS_OK;
}

enum status schema_state_room(struct schema_state *state, void *array, uint32_t count,
                              uint32_t *capacity, size_t element_bytes) {
    bool room = arena_reserve(state->arena, array, count, capacity, element_bytes);
    return room ? STATUS_OK : state_failed(state, STATUS_NO_MEMORY);
}

enum status schema_state_combine(struct schema_state *state, enum automaton_operation operation,
                                 uint32_t a, uint32_t b, uint32_t *out) {
    enum status status = language_combine(&state->languages, operation, a, b, out);
    return status ? state_failed(state, status) : STATUS_OK;
}

enum status schema_state_keep(struct schema_state *state, const void *item, size_t bytes,
                              void *out) {
    void *kept = arena_take(state->arena, bytes);
    if (!kept) return state_failed(state, STATUS_NO_MEMORY);
    memcpy(kept, item, bytes);
    memcpy(out, &kept, sizeof kept);
    return STATUS_OK;
}

/* The key of an entry by the hash of its content. The caller compares the content of the entry
 * found. If two contents have the same hash, only the first one is shared. */
static struct map_key schema_state_key_of(enum state_known kind, uint64_t low, uint64_t extra) {
    return (struct map_key){.high = (uint64_t)kind, .low = low, .extra = extra};
}

static void schema_state_remember(struct schema_state *state, struct map_key key, uint32_t value) {
    if (state->known.count < state->known.capacity && map_find(&state->known, key) == MAP_NONE)
        map_add(&state->known, key, value);
}

enum status schema_state_name(struct schema_state *state, struct bytes text, uint32_t *out) {
    struct map_key key =
        schema_state_key_of(KNOWN_NAME, hash_bytes(0, text.data, text.count), text.count);
    uint32_t found = map_find(&state->known, key);
    for (uint32_t i = found == MAP_NONE ? state->name_count : found; i < state->name_count; i++) {
        if (!bytes_equal(state->names[i], text)) continue;
        *out = i;
        return STATUS_OK;
    }
    enum status status = schema_state_room(state, &state->names, state->name_count,
                                           &state->name_capacity, sizeof *state->names);
    if (status) return status;
    if (state->known.count == state->known.capacity) return state_failed(state, STATUS_TOO_LARGE);
    state->names[state->name_count] = text;
    *out = state->name_count++;
    schema_state_remember(state, key, *out);
    return schema_state_spend(state, 1 + text.count);
}

static enum status language_of(struct schema_state *state, enum state_known kind, struct bytes text,
                               uint32_t *out) {
    uint32_t name;
    enum status status = schema_state_name(state, text, &name);
    if (status) return status;
    struct map_key key = schema_state_key_of(kind, name, 0);
    uint32_t found = map_find(&state->known, key);
    if (found != MAP_NONE) {
        *out = found;
        return STATUS_OK;
    }
    const struct automaton *automaton = NULL;
    struct error error = {0};
    status = kind == KNOWN_PATTERN
                 ? automaton_of_pattern(&state->work, text, &automaton, &error)
                 : text_format_automaton_of_format(&state->work, text, kind == KNOWN_FORMAT_BRIEF,
                                                   &automaton);
    if (status == STATUS_INVALID || status == STATUS_UNSUPPORTED)
        return state_error(state, status, "%.300s", error.text);
    if (!status) status = language_of_automaton(&state->languages, automaton, out);
    if (status) return state_failed(state, status);
    schema_state_remember(state, key, *out);
    return STATUS_OK;
}

enum status schema_state_pattern(struct schema_state *state, struct bytes pattern,
                                 uint32_t *language_out) {
    return language_of(state, KNOWN_PATTERN, pattern, language_out);
}

enum status schema_state_format(struct schema_state *state, struct bytes name, bool brief,
                                uint32_t *language_out) {
    return language_of(state, brief ? KNOWN_FORMAT_BRIEF : KNOWN_FORMAT, name, language_out);
}

static bool same_words(const uint32_t *a, const uint32_t *b, uint32_t count) {
    return count == 0 || memcmp(a, b, count * sizeof *a) == 0;
}

static bool same_key_set(const struct key_set *a, const struct key_set *b) {
    return a->negated == b->negated && a->name_count == b->name_count &&
           a->language_count == b->language_count && a->key_set_count == b->key_set_count &&
           same_words(a->names, b->names, a->name_count) &&
           same_words(a->languages, b->languages, a->language_count) &&
           same_words(a->key_sets, b->key_sets, a->key_set_count);
}

enum status schema_state_key_set(struct schema_state *state, const struct key_set *key_set,
                                 uint32_t *out) {
    uint64_t hash = key_set->negated ? 1 : 0;
    hash = hash_bytes(hash, key_set->names, key_set->name_count * sizeof *key_set->names);
    hash = hash_bytes(hash, key_set->languages, key_set->language_count * sizeof(uint32_t));
    hash = hash_bytes(hash, key_set->key_sets, key_set->key_set_count * sizeof(uint32_t));
    struct map_key key = schema_state_key_of(KNOWN_KEY_SET, hash, key_set->name_count);
    uint32_t found = map_find(&state->known, key);
    if (found != MAP_NONE && same_key_set(&state->key_sets[found], key_set)) {
        *out = found;
        return STATUS_OK;
    }
    enum status status = schema_state_room(state, &state->key_sets, state->key_set_count,
                                           &state->key_set_capacity, sizeof *state->key_sets);
    if (status) return status;
    state->key_sets[state->key_set_count] = *key_set;
    *out = state->key_set_count++;
    schema_state_remember(state, key, *out);
    return schema_state_spend(state, 1 + key_set->name_count);
}

enum status schema_state_key_set_of_name(struct schema_state *state, uint32_t name, uint32_t *out) {
    struct key_set key_set = {.names = &name, .name_count = 1};
    uint32_t before = state->key_set_count;
    enum status status = schema_state_key_set(state, &key_set, out);
    if (status || *out != before || state->key_set_count == before) return status;
    uint32_t *kept = arena_take(state->arena, sizeof *kept);
    if (!kept) return state_failed(state, STATUS_NO_MEMORY);
    *kept = name;
    state->key_sets[*out].names = kept;
    return STATUS_OK;
}

enum status schema_state_subschema(struct schema_state *state, const struct subschema *subschema,
                                   uint32_t *out) {
    struct map_key key = schema_state_key_of(KNOWN_SUBSCHEMA, (uint64_t)(uintptr_t)subschema->tree,
                                             subschema->constant);
    uint32_t found = map_find(&state->known, key);
    if (found != MAP_NONE) {
        *out = found;
        return STATUS_OK;
    }
    enum status status = schema_state_room(state, &state->subschemas, state->subschema_count,
                                           &state->subschema_capacity, sizeof *state->subschemas);
    if (status) return status;
    if (state->known.count == state->known.capacity || state->subschema_count == UINT32_MAX / 4)
        return state_failed(state, STATUS_TOO_LARGE);
    state->subschemas[state->subschema_count] = *subschema;
    *out = state->subschema_count++;
    schema_state_remember(state, key, *out);
    return schema_state_spend(state, 1);
}

enum status schema_state_conjunction(struct schema_state *state, const uint32_t *conjunction,
                                     uint32_t count, uint32_t *out) {
    if (count == 0) {
        *out = CONJUNCTION_TRUE;
        return STATUS_OK;
    }
    for (uint32_t i = 1; i < count; i++) {
        if ((conjunction[i] ^ 1) != conjunction[i - 1]) continue;
        *out = CONJUNCTION_FALSE;
        return STATUS_OK;
    }
    uint64_t hash = hash_bytes(0, conjunction, count * sizeof *conjunction);
    struct map_key key = schema_state_key_of(KNOWN_CONJUNCTION, hash, count);
    uint32_t found = map_find(&state->known, key);
    if (found != MAP_NONE && state->conjunctions[found].count == count &&
        same_words(state->conjunctions[found].literals, conjunction, count)) {
        *out = found;
        return STATUS_OK;
    }
    enum status status =
        schema_state_room(state, &state->conjunctions, state->conjunction_count,
                          &state->conjunction_capacity, sizeof *state->conjunctions);
    if (status) return status;
    if (state->conjunction_count >= state->limits->shapes_max)
        return state_failed(state, STATUS_TOO_LARGE);
    uint32_t *kept = arena_take(state->arena, count * sizeof *kept);
    if (!kept) return state_failed(state, STATUS_NO_MEMORY);
    memcpy(kept, conjunction, count * sizeof *kept);
    state->conjunctions[state->conjunction_count] =
        (struct conjunction){.literals = kept, .count = count};
    *out = state->conjunction_count++;
    schema_state_remember(state, key, *out);
    return schema_state_spend(state, count);
}

enum status schema_state_require(struct schema_state *state, const struct subschema *subschema,
                                 uint32_t *conjunction_out) {
    uint32_t number;
    enum status status = schema_state_subschema(state, subschema, &number);
    uint32_t literal = 2 * number;
    return status ? status : schema_state_conjunction(state, &literal, 1, conjunction_out);
}

enum status schema_state_conjunction_and(struct schema_state *state, uint32_t a, uint32_t b,
                                         uint32_t *out) {
    if (a == b || b == CONJUNCTION_TRUE || a == CONJUNCTION_FALSE) {
        *out = a;
        return STATUS_OK;
    }
    if (a == CONJUNCTION_TRUE || b == CONJUNCTION_FALSE) {
        *out = b;
        return STATUS_OK;
    }
    struct map_key key = schema_state_key_of(KNOWN_BOTH, a < b ? a : b, a < b ? b : a);
    uint32_t found = map_find(&state->known, key);
    if (found != MAP_NONE) {
        *out = found;
        return STATUS_OK;
    }
    const struct conjunction *first = &state->conjunctions[a], *second = &state->conjunctions[b];
    uint32_t *all = arena_take(state->arena, (first->count + second->count) * sizeof *all);
    if (!all) return state_failed(state, STATUS_NO_MEMORY);
    uint32_t i = 0, k = 0, count = 0;
    while (i < first->count || k < second->count) {
        bool take_second =
            i == first->count || (k < second->count && second->literals[k] < first->literals[i]);
        uint32_t literal = take_second ? second->literals[k++] : first->literals[i++];
        if (count == 0 || all[count - 1] != literal) all[count++] = literal;
    }
    enum status status = schema_state_conjunction(state, all, count, out);
    if (!status) schema_state_remember(state, key, *out);
    return status;
}

enum status schema_state_conjunction_not(struct schema_state *state, uint32_t literal,
                                         uint32_t *out) {
    uint32_t other = literal ^ 1;
    return schema_state_conjunction(state, &other, 1, out);
}

enum status schema_state_conjunction_read(struct schema_state *state, uint32_t conjunction,
                                          const struct value_set **out) {
    struct conjunction *entry = &state->conjunctions[conjunction];
    if (entry->reading != READING_DONE) {
        if (entry->reading == READING_UNDER_WAY)
            return state_error(state, STATUS_INVALID, "leads back to itself before any value");
        entry->reading = READING_UNDER_WAY;
        struct value_set *set = arena_take(state->arena, sizeof *set);
        if (!set) return state_failed(state, STATUS_NO_MEMORY);
        uint32_t at = state->at;
        const char *keyword = state->keyword;
        if (entry->count) state->at = entry->literals[entry->count - 1] / 2;
        state->keyword = NULL;
        enum status status = state->read(state, conjunction, set);
        entry = &state->conjunctions[conjunction]; /* the table may have moved */
        entry->reading = status ? READING_NOT_BEGUN : READING_DONE;
        if (status) return status;
        entry->set = set;
        state->at = at;
        state->keyword = keyword;
    }
    *out = entry->set;
    return STATUS_OK;
}

enum status schema_state_conjunction_is_empty(struct schema_state *state, uint32_t conjunction,
                                              bool *out) {
    *out = false;
    const struct value_set *set;
    struct error *kept = state->error;
    uint32_t at = state->at;
    const char *keyword = state->keyword;
    state->error = NULL; /* failures are expected, and their messages not needed */
    enum status status = schema_state_conjunction_read(state, conjunction, &set);
    state->error = kept;
    state->at = at;
    state->keyword = keyword;
    if (!status) *out = value_is_none(set);
    if (status == STATUS_NO_MEMORY || state->work.steps_left == 0)
        return state_failed(state, status);
    return STATUS_OK;
}

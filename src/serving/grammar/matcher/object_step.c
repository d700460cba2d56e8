/* SPDX-License-Identifier: Apache-2.0
 * Matches JSON objects: determines which keys are allowed next, and whether the brace may close.
 * The frame of an object has the set of properties read so far and the set of those still allowed.
 * Both follow from the keys. A property is allowed once. Other keys may repeat, but count once for
 * minProperties.
 */
#include "serving/grammar/matcher/grammar.h"

#include "base/check.h"
#include "base/number.h"

static const struct shape_object *object_step_shape_of(const struct grammar *grammar,
                                                       const struct stack_frame *frame) {
    return &grammar->program->objects[frame->subject];
}

static bool object_step_has(const uint64_t *set, uint32_t bit) {
    return set[bit / 64] >> bit % 64 & 1;
}

/* ---- allowed keys ---- */

/* Finds the properties that are still required in addition to `seen`: the required ones, and those
 * that dependentRequired adds. Returns their number. */
static uint32_t find_missing(const struct shape_program *program, const struct shape_object *object,
                             const uint64_t *seen, uint64_t *missing) {
    const uint64_t *words = program->words;
    uint32_t count = 0;
    for (uint32_t w = 0; w < object->word_count; w++)
        missing[w] = words[object->required + w] & ~seen[w];
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t d = 0; d < object->dependency_count; d++) {
            struct shape_dependency rule = program->dependencies[object->dependency + d];
            if (!object_step_has(seen, rule.bit) && !object_step_has(missing, rule.bit)) continue;
            for (uint32_t w = 0; w < object->word_count; w++) {
                uint64_t new = words[rule.needs + w] & ~seen[w] & ~missing[w];
                missing[w] |= new;
                changed |= new != 0;
            }
        }
    }
    for (uint32_t w = 0; w < object->word_count; w++)
        count += (uint32_t)__builtin_popcountll(missing[w]);
    return count;
}

static uint32_t keys_left(const struct shape_object *object, const struct stack_frame *frame) {
    return object->count_max == SHAPE_UNBOUNDED ? UINT32_MAX : object->count_max - frame->state;
}

/* True if all elements of `set` are at least `bit`. */
static bool all_behind(const uint64_t *set, uint32_t bit) {
    for (uint32_t w = 0; w < bit / 64; w++)
        if (set[w]) return false;
    return !(set[bit / 64] & ((UINT64_C(1) << bit % 64) - 1));
}

static bool may_stand(const struct shape_program *program, const struct shape_object *object,
                      const struct stack_frame *frame, const uint64_t *seen, uint32_t bit) {
    uint64_t with[SHAPE_WORDS_MAX], missing[SHAPE_WORDS_MAX];
    check(bit / 64 < object->word_count);
    memcpy(with, seen, object->word_count * sizeof *with);
    with[bit / 64] |= UINT64_C(1) << bit % 64;
    uint32_t missing_count = find_missing(program, object, with, missing);
    if (keys_left(object, frame) < 1 + missing_count) return false;
    if (!object->in_order) return true;
    uint32_t distinct = min_u32(frame->distinct + 1u, object->count_min);
    bool others = object->entry_count > object->bit_count; /* unlisted keys are allowed */
    if (!others && object->bit_count - 1 - bit < object->count_min - distinct) return false;
    for (uint32_t other = bit + 1; other < object->bit_count; other++)
        if (object_step_has(seen, other)) return false;
    return all_behind(missing, bit);
}

/* Computes the second half of `sets`, the allowed properties, and the flags from the first half,
 * the properties seen. */
static void find_allowed(const struct grammar *grammar, struct stack_frame *frame, uint64_t *sets) {
    const struct shape_program *program = grammar->program;
    const struct shape_object *object = object_step_shape_of(grammar, frame);
    uint64_t *allowed = sets + object->word_count, missing[SHAPE_WORDS_MAX];
    uint32_t missing_count = find_missing(program, object, sets, missing);
    uint32_t left = keys_left(object, frame);
    memset(allowed, 0, object->word_count * sizeof *allowed);
    frame->flags &= STACK_ORDERED_OUT;
    if (missing_count == 0 && frame->distinct >= object->count_min) frame->flags |= STACK_CLOSES;
    if (left > missing_count && !(object->in_order && missing_count)) frame->flags |= STACK_OPEN;
    if (frame->flags & STACK_ORDERED_OUT) return;
    bool free_of_rules = left == UINT32_MAX && !object->in_order && object->dependency_count == 0;
    for (uint32_t bit = 0; bit < object->bit_count; bit++)
        if (!object_step_has(sets, bit) &&
            (free_of_rules || may_stand(program, object, frame, sets, bit)))
            allowed[bit / 64] |= UINT64_C(1) << bit % 64;
}

void object_step_filter(const struct grammar *grammar, const struct stack_frame *frame,
                        struct key_filter *out) {
    const struct shape_object *object = object_step_shape_of(grammar, frame);
    const uint64_t *words = grammar->program->words;
    *out = (struct key_filter){
        .reaches = words + object->reaches,
        .allowed = frame->tail + object->word_count,
        .open = frame->flags & STACK_OPEN ? words + object->reaches_open : NULL,
        .word_count = object->word_count,
    };
}

static bool may_take_key(const struct grammar *grammar, const struct stack_frame *frame) {
    const struct shape_object *object = object_step_shape_of(grammar, frame);
    struct key_filter filter;
    if (!object->keys) return false;
    object_step_filter(grammar, frame, &filter);
    return string_content_is_live(&filter, object->keys->start);
}

bool object_step_key_is_open(const struct grammar *grammar, const struct stack_frame *object_frame,
                             uint32_t state) {
    const struct shape_object *object = object_step_shape_of(grammar, object_frame);
    uint32_t label = object->keys->labels[state];
    return label && grammar->program->entries[object->entry + label - 1].bit == SHAPE_NO_BIT;
}

/* ---- frames ---- */

uint32_t object_step_begin(const struct grammar *grammar, struct stack_table *table,
                           uint32_t object, uint32_t below) {
    uint64_t sets[2 * SHAPE_WORDS_MAX] = {0};
    struct stack_frame frame = {.below = below, .kind = STACK_OBJECT, .subject = object};
    frame.tail_words = (uint16_t)(2 * grammar->program->objects[object].word_count);
    find_allowed(grammar, &frame, sets);
    return stack_table_put(table, &frame, sets);
}

uint32_t object_step_value(const struct grammar *grammar, const struct stack_frame *frame) {
    return grammar->program
        ->entries[object_step_shape_of(grammar, frame)->entry + frame->escape - 1]
        .shape;
}

uint32_t object_step_behind_value(struct stack_table *table, const struct stack_frame *frame) {
    struct stack_frame after = *frame;
    after.where = WHERE_AFTER;
    after.space = 0;
    after.escape = 0;
    return stack_table_put(table, &after, frame->tail);
}

static void begin_key(const struct grammar *grammar, struct stack_table *table,
                      const struct stack_frame *frame, struct stack_list *out) {
    const struct shape_object *object = object_step_shape_of(grammar, frame);
    struct stack_frame below = *frame;
    if (!may_take_key(grammar, frame)) return;
    below.where = WHERE_NEXT;
    below.space = 0;
    struct stack_frame key = {.kind = STACK_KEY,
                              .subject = grammar->key_leaf[frame->subject],
                              .state = object->keys->start};
    if (frame->distinct < object->count_min) {
        key.flags = STACK_TRACKED;
        key.hash = CONTENT_HASH_START;
    }
    key.below = stack_table_put(table, &below, frame->tail);
    if (key.below) grammar_add_stack(out, stack_table_put(table, &key, NULL));
}

bool object_step_may_close(const struct stack_frame *frame) {
    return (frame->where == WHERE_FIRST || frame->where == WHERE_AFTER) &&
           (frame->flags & STACK_CLOSES);
}

void object_step(const struct grammar *grammar, struct stack_table *table,
                 const struct stack_frame *frame, uint8_t byte, struct stack_list *out) {
    struct stack_frame next = *frame;
    next.space = 0;
    if (byte == '"' && (frame->where == WHERE_FIRST || frame->where == WHERE_NEXT)) {
        begin_key(grammar, table, frame, out);
    } else if (byte == ',' && frame->where == WHERE_AFTER && may_take_key(grammar, frame)) {
        next.where = WHERE_NEXT;
        grammar_add_stack(out, stack_table_put(table, &next, frame->tail));
    } else if (byte == ':' && frame->where == WHERE_COLON) {
        next.where = WHERE_VALUE;
        grammar_add_stack(out, stack_table_put(table, &next, frame->tail));
    }
}

/* Records another key while minProperties is not met. Returns false for a duplicate. */
static bool note_key(struct stack_table *table, struct stack_frame *frame, uint64_t hash) {
    for (uint32_t at = frame->seen; at; at = stack_table_at(table, at)->below)
        if (stack_table_at(table, at)->hash == hash) return false;
    struct stack_frame seen = {.below = frame->seen, .kind = STACK_SEEN, .hash = hash};
    frame->seen = stack_table_put(table, &seen, NULL);
    frame->distinct++;
    return true;
}

void object_step_end_key(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                         uint32_t state, uint64_t hash, struct stack_list *out) {
    const struct stack_frame *frame = stack_table_at(table, number);
    const struct shape_object *object = object_step_shape_of(grammar, frame);
    uint32_t label = object->keys->labels[state];
    struct shape_entry entry = grammar->program->entries[object->entry + label - 1];
    struct stack_frame next = *frame;
    uint64_t sets[2 * SHAPE_WORDS_MAX];
    memcpy(sets, frame->tail, frame->tail_words * sizeof *sets);
    next.where = WHERE_COLON;
    next.escape = label;
    if (entry.bit == SHAPE_NO_BIT) {
        if (!(frame->flags & STACK_OPEN)) return;
        if (object->in_order) next.flags |= STACK_ORDERED_OUT;
        if (frame->distinct < object->count_min && !note_key(table, &next, hash) &&
            keys_left(object, frame) <= (uint32_t)(object->count_min - frame->distinct))
            return; /* a duplicate key that would leave too few keys for minProperties */
    } else {
        if (!object_step_has(sets + object->word_count, entry.bit)) return;
        sets[entry.bit / 64] |= UINT64_C(1) << entry.bit % 64;
        next.distinct += frame->distinct < object->count_min;
    }
    if (object->count_max != SHAPE_UNBOUNDED) next.state++;
    if (next.distinct >= object->count_min) next.seen = STACK_NONE;
    find_allowed(grammar, &next, sets);
    grammar_add_stack(out, stack_table_put(table, &next, sets));
}

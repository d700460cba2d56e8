/* SPDX-License-Identifier: Apache-2.0
 * Matches JSON values: how a value begins and ends, and the steps inside arrays, strings, numbers
 * and literals. Objects are in object_step.c. uniqueItems is checked by hashes of the items seen,
 * or for items from a short list by the set of those left.
 */
#include "base/hash.h"
#include "base/number.h"
#include "serving/grammar/matcher/grammar.h"

static void put(struct stack_table *table, const struct stack_frame *frame, const uint64_t *tail,
                struct stack_list *out) {
    grammar_add_stack(out, stack_table_put(table, frame, tail));
}

/* ---- values ---- */

static enum shape_unique unique_of(const struct grammar *grammar, const struct stack_table *table,
                                   uint32_t below) {
    const struct stack_frame *frame = stack_table_at(table, below);
    return frame->kind == STACK_ARRAY ? grammar->program->arrays[frame->subject].unique
                                      : SHAPE_REPEATS;
}

static const char *const literals[3] = {"null", "true", "false"};

static void begin_literals(struct stack_table *table, uint32_t kinds, uint8_t byte, uint32_t below,
                           struct stack_list *out) {
    for (uint32_t i = 0; i < 3; i++)
        if ((kinds & 1u << i) && byte == (uint8_t)literals[i][0])
            put(table,
                &(struct stack_frame){
                    .below = below, .kind = STACK_LITERAL, .subject = i, .state = 1},
                NULL, out);
}

/* These flags and two fields of a frame identify a number's value for uniqueItems while it is read.
 * `hash` covers the digits up to the last nonzero one. `escape` packs the flags, the number of
 * zeros after that digit, and the number of digits after the point. */
#define NUMBER_NEGATIVE 1u
#define NUMBER_FRACTION 2u

static bool track_number(struct stack_frame *frame, uint8_t byte) {
    uint32_t zeros = frame->escape >> 2 & 0x3FFF, scale = frame->escape >> 16 & 0x3FFF;
    uint32_t bits = frame->escape & 3;
    if (byte == '-') bits |= NUMBER_NEGATIVE;
    if (byte == '.') bits |= NUMBER_FRACTION;
    if (byte == 'e' || byte == 'E' || zeros == 0x3FFF || scale == 0x3FFF) return false;
    if (byte >= '0' && byte <= '9') {
        scale += (bits & NUMBER_FRACTION) != 0;
        if (byte == '0') {
            zeros += frame->hash != 0;
        } else {
            for (; zeros; zeros--)
                frame->hash = hash_word(frame->hash, '0');
            frame->hash = hash_word(frame->hash, byte);
        }
    }
    frame->escape = bits | zeros << 2 | scale << 16;
    return true;
}

static uint64_t number_hash(const struct stack_frame *frame) {
    uint32_t zeros = frame->escape >> 2 & 0x3FFF, scale = frame->escape >> 16 & 0x3FFF;
    if (!frame->hash) return 1;
    return hash_word(frame->hash, zeros - scale) ^ (frame->escape & NUMBER_NEGATIVE) << 8;
}

/* ---- uniqueItems ---- */

static bool was_seen(const struct stack_table *table, const struct stack_frame *array,
                     uint64_t hash) {
    for (uint32_t at = array->seen; at; at = stack_table_at(table, at)->below)
        if (stack_table_at(table, at)->hash == hash) return true;
    return false;
}

/* True if an item that starts like this one was not seen yet. The item's language must be finite.
 * Tries all continuations; there are at most as many as items seen. */
static bool finds_unseen(const struct stack_table *table, const struct stack_frame *array,
                         const struct automaton *automaton, const struct stack_frame *item) {
    bool number = item->kind == STACK_NUMBER;
    uint64_t hash = number ? number_hash(item) : item->hash;
    if (automaton->labels[item->state] && !was_seen(table, array, hash)) return true;
    for (uint32_t byte = 0; byte < 256; byte++) {
        struct stack_frame next = *item;
        next.state = automaton_step(automaton, item->state, (uint8_t)byte);
        if (!next.state) continue;
        if (!number) string_content_hash(&next.hash, (uint8_t)byte);
        if (number && !track_number(&next, (uint8_t)byte)) continue;
        if (finds_unseen(table, array, automaton, &next)) return true;
    }
    return false;
}

/* True if the item being read can still differ from all items seen. */
static bool may_differ(const struct grammar *grammar, const struct stack_table *table,
                       const struct stack_frame *item) {
    const struct automaton *automaton = grammar->leaves[item->subject].automaton;
    const struct stack_frame *array = stack_table_at(table, item->below);
    uint64_t count = 0;
    if (!(item->flags & STACK_TRACKED) || !automaton || !automaton->member_counts) return true;
    if (item->kind == STACK_STRING && item->escape) return true;
    for (uint32_t at = array->seen; at; at = stack_table_at(table, at)->below)
        count++;
    return automaton->member_counts[item->state] > count ||
           finds_unseen(table, array, automaton, item);
}

static void begin_number(const struct grammar *grammar, struct stack_table *table,
                         uint32_t alternative, uint8_t byte, uint32_t below,
                         struct stack_list *out) {
    uint32_t leaf = grammar->number_leaf[alternative];
    const struct automaton *automaton = grammar->leaves[leaf].automaton;
    struct stack_frame frame = {.below = below, .kind = STACK_NUMBER, .subject = leaf};
    frame.state = automaton_step(automaton, automaton->start, byte);
    if (!frame.state) return;
    if (unique_of(grammar, table, below) == SHAPE_UNIQUE_FREELY) {
        frame.flags = STACK_TRACKED;
        if (!track_number(&frame, byte) || !may_differ(grammar, table, &frame)) return;
    }
    put(table, &frame, NULL, out);
}

static void begin_string(const struct grammar *grammar, struct stack_table *table,
                         uint32_t alternative, uint32_t below, struct stack_list *out) {
    enum shape_unique unique = unique_of(grammar, table, below);
    struct stack_frame frame = {.below = below, .kind = STACK_STRING};
    frame.subject = grammar->string_leaf[alternative];
    if (unique == SHAPE_UNIQUE_FREELY) {
        frame.flags = STACK_TRACKED;
        frame.hash = CONTENT_HASH_START;
    }
    if (unique == SHAPE_UNIQUE_LISTED)
        frame.subject = grammar->listed_leaf[stack_table_at(table, below)->subject];
    frame.state = string_content_begin(&grammar->leaves[frame.subject]).state;
    struct key_filter filter;
    if (value_step_filter(grammar, table, &frame, &filter) &&
        !string_content_is_live(&filter, frame.state))
        return;
    put(table, &frame, NULL, out);
}

static void begin_array(const struct grammar *grammar, struct stack_table *table, uint32_t array,
                        uint32_t below, struct stack_list *out);

void value_step_begin(const struct grammar *grammar, struct stack_table *table, uint32_t shape,
                      uint8_t byte, uint32_t below, struct stack_list *out) {
    const struct value_shape *of = &grammar->program->shapes[shape];
    if (below == STACK_NONE) return;
    for (uint32_t i = of->first; i < of->first + of->count; i++) {
        const struct shape_alternative *alternative = &grammar->program->alternatives[i];
        if (byte == '"' && (alternative->kinds & SHAPE_STRING))
            begin_string(grammar, table, i, below, out);
        else if (byte == '{' && (alternative->kinds & SHAPE_OBJECT))
            grammar_add_stack(out, object_step_begin(grammar, table, alternative->object, below));
        else if (byte == '[' && (alternative->kinds & SHAPE_ARRAY))
            begin_array(grammar, table, alternative->array, below, out);
        else if ((byte == '-' || (byte >= '0' && byte <= '9')) &&
                 (alternative->kinds & SHAPE_NUMBER))
            begin_number(grammar, table, i, byte, below, out);
        else if (byte >= 'a')
            begin_literals(table, alternative->kinds, byte, below, out);
    }
}

/* ---- arrays ---- */

static struct shape_item item_at(const struct grammar *grammar, const struct shape_array *array,
                                 uint32_t index) {
    return index < array->prefix_count ? grammar->program->items[array->prefix + index]
                                       : array->rest;
}

static bool no_item(struct shape_item item) {
    return item.plain == SHAPE_NONE && item.counted == SHAPE_NONE;
}

/* True if an array with `count` items can be completed; `counted` of them count for contains. */
static bool can_finish(const struct grammar *grammar, const struct shape_array *array,
                       uint32_t count, uint32_t counted) {
    uint64_t low = counted, high = counted;
    if (count > array->length_max) return false;
    for (;; count++) {
        if (count >= array->length_min && low <= array->counted_max && high >= array->counted_min)
            return true;
        if (count >= array->prefix_count) break;
        struct shape_item item = item_at(grammar, array, count);
        if (count == array->length_max || no_item(item)) return false;
        low += item.plain == SHAPE_NONE;
        high += item.counted != SHAPE_NONE;
    }
    if (no_item(array->rest)) return false;
    uint64_t more = array->length_min > count ? array->length_min - count : 0;
    if (high < array->counted_min) {
        if (array->rest.counted == SHAPE_NONE) return false;
        if (more < array->counted_min - high) more = array->counted_min - high;
    }
    if (array->length_max != SHAPE_UNBOUNDED && count + more > array->length_max) return false;
    if (array->rest.plain == SHAPE_NONE) low += more;
    return array->counted_max == SHAPE_UNBOUNDED || low <= array->counted_max;
}

static bool may_take_item(const struct grammar *grammar, const struct shape_array *array,
                          const struct stack_frame *frame, bool counted) {
    struct shape_item item = item_at(grammar, array, frame->state);
    if ((counted ? item.counted : item.plain) == SHAPE_NONE) return false;
    if (array->length_max != SHAPE_UNBOUNDED && frame->state >= array->length_max) return false;
    return can_finish(grammar, array, frame->state + 1, frame->escape + counted);
}

static bool array_may_go_on(const struct grammar *grammar, const struct shape_array *array,
                            const struct stack_frame *frame) {
    if (array->unique == SHAPE_UNIQUE_LISTED) {
        bool any = false;
        for (uint32_t i = 0; i < frame->tail_words; i++)
            any |= frame->tail[i] != 0;
        if (!any) return false;
    }
    return may_take_item(grammar, array, frame, false) ||
           may_take_item(grammar, array, frame, true);
}

static bool array_may_close(const struct shape_array *array, const struct stack_frame *frame) {
    return frame->state >= array->length_min && frame->escape >= array->counted_min &&
           frame->escape <= array->counted_max;
}

static void begin_array(const struct grammar *grammar, struct stack_table *table, uint32_t array,
                        uint32_t below, struct stack_list *out) {
    const struct shape_array *shape = &grammar->program->arrays[array];
    struct stack_frame frame = {.below = below, .kind = STACK_ARRAY, .subject = array};
    const uint64_t *all = NULL;
    if (shape->unique == SHAPE_UNIQUE_LISTED) {
        frame.tail_words = (uint16_t)shape->word_count;
        all = grammar->program->words + shape->reaches +
              (size_t)shape->listed->start * shape->word_count;
    }
    put(table, &frame, all, out);
}

static void begin_item(const struct grammar *grammar, struct stack_table *table,
                       const struct stack_frame *frame, uint8_t byte, struct stack_list *out) {
    const struct shape_array *array = &grammar->program->arrays[frame->subject];
    struct shape_item item = item_at(grammar, array, frame->state);
    for (uint32_t counted = 0; counted < 2; counted++) {
        if (!may_take_item(grammar, array, frame, counted)) continue;
        struct stack_frame after = *frame;
        after.where = WHERE_AFTER;
        after.space = 0;
        uint32_t enough = max_u32(array->length_min, array->prefix_count);
        if (array->length_max != SHAPE_UNBOUNDED || after.state < enough) after.state++;
        if (array->counted_max != SHAPE_UNBOUNDED || after.escape < array->counted_min)
            after.escape += counted;
        value_step_begin(grammar, table, counted ? item.counted : item.plain, byte,
                         stack_table_put(table, &after, frame->tail), out);
    }
}

void value_step_array(const struct grammar *grammar, struct stack_table *table,
                      const struct stack_frame *frame, uint8_t byte, struct stack_list *out) {
    const struct shape_array *array = &grammar->program->arrays[frame->subject];
    struct stack_frame next = *frame;
    if (byte == ']' && frame->where != WHERE_NEXT) {
        if (array_may_close(array, frame)) value_step_end(grammar, table, frame->below, 0, out);
    } else if (frame->where != WHERE_AFTER) {
        begin_item(grammar, table, frame, byte, out);
    } else if (byte == ',' && array_may_go_on(grammar, array, frame)) {
        next.where = WHERE_NEXT;
        next.space = 0;
        put(table, &next, frame->tail, out);
    }
}

void value_step_end(const struct grammar *grammar, struct stack_table *table, uint32_t below,
                    uint64_t hash, struct stack_list *out) {
    enum shape_unique unique = unique_of(grammar, table, below);
    if (unique == SHAPE_REPEATS) {
        grammar_add_stack(out, below);
        return;
    }
    const struct stack_frame *array = stack_table_at(table, below);
    struct stack_frame next = *array;
    uint64_t left[64];
    if (unique == SHAPE_UNIQUE_LISTED) { /* here the hash is the label of the item */
        memcpy(left, array->tail, array->tail_words * sizeof *left);
        left[(hash - 1) / 64] &= ~(UINT64_C(1) << (hash - 1) % 64);
        put(table, &next, left, out);
        return;
    }
    if (was_seen(table, array, hash)) return;
    struct stack_frame seen = {.below = array->seen, .kind = STACK_SEEN, .hash = hash};
    next.seen = stack_table_put(table, &seen, NULL);
    if (next.seen) put(table, &next, NULL, out);
}

/* ---- leaves ---- */

bool value_step_filter(const struct grammar *grammar, const struct stack_table *table,
                       const struct stack_frame *leaf, struct key_filter *out) {
    const struct stack_frame *below = stack_table_at(table, leaf->below);
    if (leaf->kind == STACK_KEY) {
        object_step_filter(grammar, below, out);
        return true;
    }
    if (leaf->kind != STACK_STRING || below->kind != STACK_ARRAY || !below->tail_words)
        return false;
    *out = (struct key_filter){.reaches = grammar->program->words +
                                          grammar->program->arrays[below->subject].reaches,
                               .allowed = below->tail,
                               .word_count = below->tail_words};
    return true;
}

static void end_string(const struct grammar *grammar, struct stack_table *table,
                       const struct stack_frame *frame, struct stack_list *out) {
    const struct text_leaf *leaf = &grammar->leaves[frame->subject];
    if (!string_content_may_end(leaf, (struct string_position){frame->state, frame->escape}))
        return;
    if (frame->kind == STACK_KEY) {
        object_step_end_key(grammar, table, frame->below, frame->state, frame->hash, out);
        return;
    }
    struct key_filter filter;
    uint64_t hash = frame->hash;
    if (value_step_filter(grammar, table, frame, &filter)) {
        hash = leaf->automaton->labels[frame->state];
        if (!(filter.allowed[(hash - 1) / 64] >> (hash - 1) % 64 & 1)) return;
    }
    value_step_end(grammar, table, frame->below, hash, out);
}

void value_step_string(const struct grammar *grammar, struct stack_table *table,
                       const struct stack_frame *frame, uint8_t byte, struct stack_list *out) {
    struct string_position position = {frame->state, frame->escape};
    if (byte == '"' && (position.escape == 0)) {
        end_string(grammar, table, frame, out);
        return;
    }
    struct key_filter filter;
    struct stack_frame next = *frame;
    bool filtered = value_step_filter(grammar, table, frame, &filter);
    if (!string_content_step(&grammar->leaves[frame->subject], filtered ? &filter : NULL, &position,
                             byte, frame->flags & STACK_TRACKED ? &next.hash : NULL))
        return;
    next.state = position.state;
    next.escape = position.escape;
    if (frame->kind == STACK_KEY || may_differ(grammar, table, &next)) put(table, &next, NULL, out);
}

void value_step_number(const struct grammar *grammar, struct stack_table *table,
                       const struct stack_frame *frame, uint8_t byte, struct stack_list *out,
                       struct stack_list *ended) {
    const struct automaton *automaton = grammar->leaves[frame->subject].automaton;
    struct stack_frame next = *frame;
    next.state = automaton_step(automaton, frame->state, byte);
    if (next.state && (!(frame->flags & STACK_TRACKED) ||
                       (track_number(&next, byte) && may_differ(grammar, table, &next))))
        put(table, &next, NULL, out);
    if (automaton->labels[frame->state])
        value_step_end(grammar, table, frame->below,
                       frame->flags & STACK_TRACKED ? number_hash(frame) : 0, ended);
}

void value_step_literal(const struct grammar *grammar, struct stack_table *table,
                        const struct stack_frame *frame, uint8_t byte, struct stack_list *out) {
    struct stack_frame next = *frame;
    const char *text = literals[frame->subject];
    if (byte != (uint8_t)text[frame->state]) return;
    next.state++;
    if (text[next.state])
        put(table, &next, NULL, out);
    else
        value_step_end(grammar, table, frame->below, 2 + frame->subject, out);
}

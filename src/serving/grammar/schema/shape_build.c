/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/schema/shape_graph.h"

#include "base/number.h"

#define COPIES_MAX 4096 /* DFAs that are remembered, so that they are copied only once */

struct shape_builder {
    enum status status; /* the first failure; afterwards nothing is added */
    struct shape_graph *graph;
    struct schema_state *state;
    struct arena *arena;
    uint32_t *shape_of; /* [nodes] SHAPE_NONE: not referenced yet */
    uint32_t *order;    /* nodes in the order of their shapes */
    struct map copies;
    const struct automaton **copied;
    struct value_shape *shapes;
    struct shape_alternative *alternatives;
    struct shape_array *arrays;
    struct shape_item *items;
    struct shape_object *objects;
    struct shape_entry *entries;
    struct shape_dependency *dependencies;
    uint64_t *words;
    uint32_t copied_count, copied_capacity, shape_count, shape_capacity, alternative_count,
        alternative_capacity, array_count, array_capacity, item_count, item_capacity, object_count,
        object_capacity, entry_count, entry_capacity, dependency_count, dependency_capacity,
        word_count, word_capacity;
};

static bool has_room(struct shape_builder *builder, void *array, uint32_t count, uint32_t *capacity,
                     size_t element_bytes) {
    if (!builder->status)
        builder->status = schema_state_room(builder->state, array, count, capacity, element_bytes);
    return !builder->status;
}

/* Takes zeroed temporary memory. Returns NULL after a failure. */
static void *take(struct shape_builder *builder, size_t count, size_t element_bytes) {
    void *memory =
        builder->status ? NULL : arena_take_zeroed(builder->state->arena, count * element_bytes);
    if (!memory && !builder->status)
        builder->status = state_failed(builder->state, STATUS_NO_MEMORY);
    return memory;
}

/* Copies a DFA into the program's arena, unless it was copied before. NULL after a failure. */
static const struct automaton *copy_automaton(struct shape_builder *builder,
                                              const struct automaton *from) {
    struct map_key key = {.high = (uint64_t)(uintptr_t)from};
    uint32_t found = map_find(&builder->copies, key);
    if (builder->status) return NULL;
    if (found != MAP_NONE) return builder->copied[found];
    const struct automaton *copy = automaton_copy(builder->arena, from);
    if (!copy) builder->status = state_failed(builder->state, STATUS_NO_MEMORY);
    if (!has_room(builder, &builder->copied, builder->copied_count, &builder->copied_capacity,
                  sizeof *builder->copied) ||
        builder->copies.count == builder->copies.capacity)
        return copy;
    map_add(&builder->copies, key, builder->copied_count);
    builder->copied[builder->copied_count++] = copy;
    return copy;
}

static uint32_t shape_build_ask_for(struct shape_builder *builder, uint32_t node) {
    if (!node_is_live(builder->graph, node)) return SHAPE_NONE;
    if (builder->shape_of[node] == SHAPE_NONE) {
        builder->order[builder->shape_count] = node;
        builder->shape_of[node] = builder->shape_count++;
    }
    return builder->shape_of[node];
}

/* Adds `count` zero words. Returns the index of the first. */
static uint32_t shape_build_add_words(struct shape_builder *builder, uint32_t count) {
    uint32_t first = builder->word_count;
    for (uint32_t i = 0; i < count && has_room(builder, &builder->words, builder->word_count,
                                               &builder->word_capacity, sizeof *builder->words);
         i++)
        builder->words[builder->word_count++] = 0;
    if (!builder->status) builder->status = schema_state_spend(builder->state, count);
    return first;
}

static void shape_build_set_bit(struct shape_builder *builder, uint32_t first, uint32_t bit) {
    builder->words[first + bit / 64] |= (uint64_t)1 << bit % 64;
}

static bool has_bit(const struct shape_builder *builder, uint32_t first, uint32_t bit) {
    return builder->words[first + bit / 64] >> bit % 64 & 1;
}

/* Propagates sets backwards. Each state's set gets the elements of all states reachable from it.
 * sets: [state_count][width] */
static void shape_build_spread(const struct automaton *automaton, uint64_t *sets, uint32_t width) {
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t from = automaton->state_count; from-- > 1;) {
            uint64_t *mine = sets + (size_t)from * width;
            for (uint32_t class = 0; class < automaton->class_count; class ++) {
                uint32_t to = automaton->next[(size_t)from * automaton->class_count + class];
                const uint64_t *theirs = sets + (size_t)to * width;
                for (uint32_t i = 0; to && i < width; i++) {
                    changed |= (theirs[i] & ~mine[i]) != 0;
                    mine[i] |= theirs[i];
                }
            }
        }
    }
}

/* ---- arrays ---- */

static void shape_build_add_item(struct shape_builder *builder, const struct shape_item *item) {
    if (has_room(builder, &builder->items, builder->item_count, &builder->item_capacity,
                 sizeof *builder->items))
        builder->items[builder->item_count++] = (struct shape_item){
            shape_build_ask_for(builder, item->plain), shape_build_ask_for(builder, item->counted)};
}

/* The largest possible length of an array. */
static uint32_t shape_build_longest(const struct shape_graph *graph,
                                    const struct array_node *node) {
    uint32_t counted = 0;
    for (uint32_t i = 0; i <= node->prefix_count; i++) {
        if (i >= node->length_max) return node->length_max;
        bool plain = node_is_live(graph, node->items[i].plain);
        if (!plain && !node_is_live(graph, node->items[i].counted)) return i;
        if (!plain && i == node->prefix_count && node->counted_max - counted < UINT32_MAX - i)
            return min_u32(node->length_max, i + node->counted_max - counted);
        if (!plain && counted++ == node->counted_max) return i;
    }
    return node->length_max;
}

/* Fills in an array's list of items. `listed` has the labels 1 to its number of texts. */
static void build_listed(struct shape_builder *builder, const struct automaton *listed,
                         struct shape_array *array) {
    array->word_count = (uint32_t)divide_up(automaton_member_count(listed), 64);
    array->listed = copy_automaton(builder, listed);
    array->reaches = shape_build_add_words(builder, listed->state_count * array->word_count);
    if (builder->status) return;
    for (uint32_t at = 1; at < listed->state_count; at++)
        if (listed->labels[at])
            shape_build_set_bit(builder, array->reaches + at * array->word_count,
                                listed->labels[at] - 1);
    shape_build_spread(listed, builder->words + array->reaches, array->word_count);
}

/* Builds an array and returns its index. */
static uint32_t build_array(struct shape_builder *builder, const struct array_node *node) {
    struct shape_array array = {
        .prefix = builder->item_count,
        .prefix_count = node->prefix_count,
        .length_min = node->length_min,
        .length_max = shape_build_longest(builder->graph, node),
        .counted_min = node->counted_min,
        .counted_max = node->counted_max,
        .unique = node->unique,
    };
    array.prefix_count = min_u32(array.prefix_count, array.length_max);
    for (uint32_t i = 0; i < array.prefix_count; i++)
        shape_build_add_item(builder, &node->items[i]);
    array.rest = (struct shape_item){SHAPE_NONE, SHAPE_NONE};
    if (array.length_max > node->prefix_count) {
        array.rest.plain = shape_build_ask_for(builder, node->items[node->prefix_count].plain);
        array.rest.counted = shape_build_ask_for(builder, node->items[node->prefix_count].counted);
    }
    if (node->listed) build_listed(builder, node->listed, &array);
    if (has_room(builder, &builder->arrays, builder->array_count, &builder->array_capacity,
                 sizeof *builder->arrays))
        builder->arrays[builder->array_count++] = array;
    return builder->array_count - 1;
}

/* ---- objects ---- */

static void add_entry(struct shape_builder *builder, uint32_t node, uint32_t bit) {
    if (has_room(builder, &builder->entries, builder->entry_count, &builder->entry_capacity,
                 sizeof *builder->entries))
        builder->entries[builder->entry_count++] =
            (struct shape_entry){.shape = shape_build_ask_for(builder, node), .bit = bit};
}

/* Builds the entries and the DFA of keys: possible listed properties and other live keys. */
static void build_keys(struct shape_builder *builder, const struct object_node *node,
                       struct shape_object *object, uint32_t *bits) {
    struct schema_state *state = builder->state;
    uint32_t count = node->name_count + node->class_count;
    uint32_t *labels = take(builder, count, sizeof *labels);
    uint32_t *shifted = take(builder, node->class_count, sizeof *shifted);
    struct bytes *texts = take(builder, node->name_count, sizeof *texts);
    if (builder->status) return;
    object->entry = builder->entry_count;
    for (uint32_t i = 0; i < node->name_count; i++) {
        texts[i] = state->names[node->names[i]];
        bits[i] = SHAPE_NO_BIT;
        if (!node->possible[i]) continue;
        bits[i] = object->bit_count++;
        labels[i] = builder->entry_count - object->entry + 1;
        add_entry(builder, node->name_nodes[i], bits[i]);
    }
    for (uint32_t i = 0; i < node->class_count; i++) {
        shifted[i] = node->name_count + i + 1;
        if (!node->rest || !node_is_live(builder->graph, node->class_nodes[i])) continue;
        labels[node->name_count + i] = builder->entry_count - object->entry + 1;
        add_entry(builder, node->class_nodes[i], SHAPE_NO_BIT);
    }
    object->entry_count = builder->entry_count - object->entry;
    if (builder->status || object->entry_count == 0) return;
    const struct automaton *keys = NULL, *rest = NULL;
    enum status status = STATUS_OK;
    if (node->rest) status = automaton_relabel(&state->work, node->rest, shifted, &rest);
    if (!status && node->name_count)
        status = automaton_of_texts(&state->work, texts, node->name_count, &keys);
    if (!status && keys && rest)
        status = automaton_combine(&state->work, AUTOMATON_OR, keys, rest, &keys);
    if (!status) status = automaton_relabel(&state->work, keys ? keys : rest, labels, &keys);
    if (status)
        builder->status = state_failed(state, status);
    else
        object->keys = copy_automaton(builder, keys);
}

static void build_reaches(struct shape_builder *builder, struct shape_object *object) {
    const struct automaton *keys = object->keys;
    if (builder->status || !keys) return;
    uint32_t states = keys->state_count, words = object->word_count, width = words + 1;
    uint64_t *sets = take(builder, (size_t)states * width, sizeof *sets);
    if (!builder->status)
        builder->status = schema_state_spend(builder->state, (uint64_t)states * keys->class_count);
    object->reaches = shape_build_add_words(builder, states * words);
    object->reaches_open = shape_build_add_words(builder, (states + 63) / 64);
    if (builder->status) return;
    for (uint32_t at = 1; at < states; at++) {
        if (keys->labels[at] == 0) continue;
        uint32_t bit = builder->entries[object->entry + keys->labels[at] - 1].bit;
        if (bit == SHAPE_NO_BIT) bit = 64 * words;
        sets[(size_t)at * width + bit / 64] |= (uint64_t)1 << bit % 64;
    }
    shape_build_spread(keys, sets, width);
    for (uint32_t at = 1; at < states; at++) {
        const uint64_t *set = sets + (size_t)at * width;
        memcpy(builder->words + object->reaches + at * words, set, words * sizeof *set);
        if (set[words]) shape_build_set_bit(builder, object->reaches_open, at);
    }
}

static uint32_t bit_of(const struct object_node *node, const uint32_t *bits, uint32_t name) {
    uint32_t i = 0;
    while (node->names[i] != name)
        i++;
    return bits[i];
}

/* Transitive closure of dependentRequired over a set of properties. */
static void close_needs(struct shape_builder *builder, const struct object_node *node,
                        const uint32_t *bits, uint32_t first) {
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < node->set->dependency_count; i++) {
            uint32_t bit = bit_of(node, bits, node->set->dependencies[i].name);
            uint32_t other = bit_of(node, bits, node->set->dependencies[i].other);
            if (bit == SHAPE_NO_BIT || !has_bit(builder, first, bit)) continue;
            if (has_bit(builder, first, other)) continue;
            shape_build_set_bit(builder, first, other);
            changed = true;
        }
    }
}

static void build_needs(struct shape_builder *builder, const struct object_node *node,
                        struct shape_object *object, const uint32_t *bits) {
    object->required = shape_build_add_words(builder, object->word_count);
    object->dependency = builder->dependency_count;
    if (builder->status) return;
    for (uint32_t i = 0; i < node->set->required_count; i++)
        shape_build_set_bit(builder, object->required, bit_of(node, bits, node->set->required[i]));
    close_needs(builder, node, bits, object->required);
    for (uint32_t i = 0; i < node->set->dependency_count; i++) {
        uint32_t bit = bit_of(node, bits, node->set->dependencies[i].name), k = object->dependency;
        if (bit == SHAPE_NO_BIT || has_bit(builder, object->required, bit)) continue;
        while (k < builder->dependency_count && builder->dependencies[k].bit != bit)
            k++;
        if (k < builder->dependency_count) continue;
        struct shape_dependency one = {.bit = bit};
        one.needs = shape_build_add_words(builder, object->word_count);
        if (!has_room(builder, &builder->dependencies, builder->dependency_count,
                      &builder->dependency_capacity, sizeof *builder->dependencies))
            return;
        shape_build_set_bit(builder, one.needs, bit);
        close_needs(builder, node, bits, one.needs);
        builder->dependencies[builder->dependency_count++] = one;
    }
    object->dependency_count = builder->dependency_count - object->dependency;
}

/* Checks limits of the matcher, because its frames have fixed sizes. */
static enum status check_object(struct shape_builder *builder, const struct shape_object *object) {
    struct schema_state *state = builder->state;
    if (object->word_count > SHAPE_WORDS_MAX) {
        state->keyword = "properties";
        return state_error(state, STATUS_TOO_LARGE, "has %u of one object, expected at most %d",
                           object->bit_count, 64 * SHAPE_WORDS_MAX);
    }
    if (object->count_min <= UINT16_MAX) return STATUS_OK;
    state->keyword = "minProperties";
    return state_error(state, STATUS_TOO_LARGE, "is %u, expected at most %d", object->count_min,
                       UINT16_MAX);
}

/* Builds an object and returns its index. */
static uint32_t build_object(struct shape_builder *builder, struct object_node *node) {
    struct shape_object object = {.count_min = node->set->count_min,
                                  .count_max = node->set->count_max,
                                  .in_order = builder->state->options->in_order};
    uint32_t *bits = take(builder, node->name_count, sizeof *bits);
    build_keys(builder, node, &object, bits);
    object.word_count = max_u32(1, (object.bit_count + 63) / 64);
    if (!builder->status) builder->status = check_object(builder, &object);
    build_reaches(builder, &object);
    build_needs(builder, node, &object, bits);
    if (has_room(builder, &builder->objects, builder->object_count, &builder->object_capacity,
                 sizeof *builder->objects))
        builder->objects[builder->object_count++] = object;
    return builder->object_count - 1;
}

/* ---- shapes ---- */

static void build_scalars(struct shape_builder *builder, const struct value_set *set,
                          struct shape_alternative *out) {
    const struct language *languages = builder->state->languages.languages;
    out->kinds = set->bits;
    if (set->number != LANGUAGE_NONE) {
        out->kinds |= SHAPE_NUMBER;
        out->number = copy_automaton(builder, languages[set->number].automaton);
    }
    if (set->string == LANGUAGE_NONE) return;
    const struct language *strings = &languages[set->string];
    out->kinds |= SHAPE_STRING;
    out->length_min = strings->length_min;
    out->length_max = strings->length_max;
    if (!strings->of_lengths) out->string = copy_automaton(builder, strings->automaton);
}

/* Builds a shape. The first alternative has the scalars, the first array and the first object. The
 * others pair the remaining arrays and objects. */
static void build_shape(struct shape_builder *builder, uint32_t node_index,
                        struct value_shape *out) {
    const struct shape_node *node = &builder->graph->nodes[node_index];
    struct shape_alternative next = {0};
    uint32_t array = 0, object = 0;
    build_scalars(builder, node->set, &next);
    out->first = builder->alternative_count;
    for (;; next = (struct shape_alternative){0}) {
        while (array < node->set->arrays.count &&
               !shape_graph_array_is_live(builder->graph, &node->arrays[array]))
            array++;
        bool lives = false;
        while (!builder->status && !lives && object < node->set->objects.count) {
            builder->status =
                shape_graph_object_is_live(builder->graph, &node->objects[object], &lives);
            object += !lives;
        }
        if (builder->status) return;
        if (array < node->set->arrays.count) {
            next.kinds |= SHAPE_ARRAY;
            next.array = build_array(builder, &node->arrays[array++]);
        }
        if (lives) {
            next.kinds |= SHAPE_OBJECT;
            next.object = build_object(builder, &node->objects[object++]);
        }
        if (next.kinds == 0) break;
        if (!has_room(builder, &builder->alternatives, builder->alternative_count,
                      &builder->alternative_capacity, sizeof *builder->alternatives))
            return;
        builder->alternatives[builder->alternative_count++] = next;
    }
    out->count = builder->alternative_count - out->first;
}

static const void *shape_build_keep(struct shape_builder *builder, const void *from, uint32_t count,
                                    size_t element_bytes) {
    void *memory = arena_take(builder->arena, count * element_bytes);
    if (!memory) builder->status = state_failed(builder->state, STATUS_NO_MEMORY);
    if (memory && count) memcpy(memory, from, count * element_bytes);
    return memory;
}

static const struct shape_program *keep_program(struct shape_builder *builder) {
#define KEEP(list, number)                                                                         \
    .list = shape_build_keep(builder, builder->list, builder->number, sizeof *builder->list),      \
    .number = builder->number
    struct shape_program program = {
        .root_bare = true,
        KEEP(shapes, shape_count),
        KEEP(alternatives, alternative_count),
        KEEP(arrays, array_count),
        KEEP(items, item_count),
        KEEP(objects, object_count),
        KEEP(entries, entry_count),
        KEEP(dependencies, dependency_count),
        KEEP(words, word_count),
    };
#undef KEEP
    return shape_build_keep(builder, &program, 1, sizeof program);
}

enum status shape_build(struct arena *arena, struct shape_graph *graph, uint32_t root,
                        const struct shape_program **out) {
    struct shape_builder builder = {.graph = graph, .state = graph->state, .arena = arena};
    builder.shape_of = take(&builder, graph->node_count, sizeof *builder.shape_of);
    builder.order = take(&builder, graph->node_count, sizeof *builder.order);
    builder.shapes = take(&builder, graph->node_count, sizeof *builder.shapes);
    if (builder.status) return builder.status;
    memset(builder.shape_of, 0xFF, graph->node_count * sizeof *builder.shape_of);
    if (map_open(&builder.copies, graph->state->arena, COPIES_MAX))
        return state_failed(graph->state, STATUS_NO_MEMORY);
    shape_build_ask_for(&builder, root);
    for (uint32_t i = 0; i < builder.shape_count && !builder.status; i++)
        build_shape(&builder, builder.order[i], &builder.shapes[i]);
    const struct shape_program *program = builder.status ? NULL : keep_program(&builder);
    if (!builder.status) *out = program;
    return builder.status;
}

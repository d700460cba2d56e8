/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/schema/shape_graph.h"

#include "base/number.h"
#include "serving/grammar/schema/value_set.h"

#define PREFIX_MAX 4096      /* items with individual rules */
#define KEY_LANGUAGES_MAX 63 /* patterns of an object */
#define LISTED_MAX 256       /* keys or items that are listed individually */
#define LISTED_BYTES_MAX 512

static void *shape_graph_take(struct shape_graph *graph, size_t count, size_t element_bytes) {
    return arena_take_zeroed(graph->state->arena, count * element_bytes);
}

static enum status shape_graph_add_node(struct shape_graph *graph, uint32_t conjunction,
                                        const struct value_set *set, uint32_t *out) {
    struct schema_state *state = graph->state;
    uint32_t count = graph->node_count;
    enum status status =
        schema_state_room(state, &graph->nodes, count, &graph->node_capacity, sizeof *graph->nodes);
    if (!status)
        status = schema_state_room(state, &graph->conjunctions, count, &graph->conjunction_capacity,
                                   sizeof *graph->conjunctions);
    if (status) return status;
    graph->nodes[count] = (struct shape_node){.set = set};
    graph->conjunctions[count] = conjunction;
    graph->node_count++;
    *out = count;
    return STATUS_OK;
}

static enum status shape_graph_node_of(struct shape_graph *graph, uint32_t conjunction,
                                       uint32_t *out) {
    struct schema_state *state = graph->state;
    *out = NODE_NONE;
    if (conjunction == CONJUNCTION_FALSE) return STATUS_OK;
    if (conjunction >= graph->node_of_count) {
        uint32_t count = 2 * state->conjunction_count;
        uint32_t *larger = shape_graph_take(graph, count, sizeof *larger);
        if (!larger) return state_failed(graph->state, STATUS_NO_MEMORY);
        memset(larger, 0xFF, count * sizeof *larger);
        if (graph->node_of_count)
            memcpy(larger, graph->node_of, graph->node_of_count * sizeof *larger);
        graph->node_of = larger;
        graph->node_of_count = count;
    }
    if (graph->node_of[conjunction] == NODE_NONE) {
        enum status status =
            shape_graph_add_node(graph, conjunction, NULL, &graph->node_of[conjunction]);
        if (status) return status;
    }
    *out = graph->node_of[conjunction];
    return STATUS_OK;
}

/* ---- arrays ---- */

static enum status grow_item(struct shape_graph *graph, const struct array_set *array,
                             uint32_t index, struct shape_item *out) {
    struct schema_state *state = graph->state;
    uint32_t conjunction, plain, counted;
    enum status status = array_set_conjunction_of(state, array, index, &conjunction);
    plain = conjunction;
    out->counted = NODE_NONE;
    if (!status && array->counts && index >= array->counted_from) {
        uint32_t other;
        status = schema_state_conjunction(state, &array->counted, 1, &counted);
        if (!status) status = schema_state_conjunction_and(state, conjunction, counted, &counted);
        if (!status) status = shape_graph_node_of(graph, counted, &out->counted);
        if (!status && array->counted_max < UINT32_MAX) {
            status = schema_state_conjunction_not(state, array->counted, &other);
            if (!status) status = schema_state_conjunction_and(state, conjunction, other, &plain);
        }
    }
    return status ? status : shape_graph_node_of(graph, plain, &out->plain);
}

static enum status refuse_unique(struct shape_graph *graph) {
    graph->state->keyword = "uniqueItems";
    return state_error(graph->state, STATUS_UNSUPPORTED,
                       "can only be held where all items are strings, or all are numbers, and "
                       "follow one schema");
}

/* Lists the strings individually. */
static enum status list_strings(struct shape_graph *graph, const struct automaton *strings,
                                uint32_t count, struct array_node *node) {
    struct schema_state *state = graph->state;
    struct bytes texts[LISTED_MAX];
    for (uint32_t i = 0; i < count; i++) {
        char text[LISTED_BYTES_MAX];
        size_t length;
        if (!automaton_member(strings, i, text, sizeof text, &length)) return refuse_unique(graph);
        texts[i] = arena_copy(state->arena, (struct bytes){text, length});
        if (!texts[i].data) return state_failed(graph->state, STATUS_NO_MEMORY);
    }
    enum status status = automaton_of_texts(&state->work, texts, count, &node->listed);
    if (status) return state_failed(state, status);
    node->unique = SHAPE_UNIQUE_LISTED;
    node->length_max = min_u32(node->length_max, count);
    return STATUS_OK;
}

/* Reduces each number to one spelling, because the matcher compares spellings. */
static enum status spell_one_way(struct shape_graph *graph, const struct value_set *set,
                                 struct value_set *out) {
    struct schema_state *state = graph->state;
    const struct automaton *automaton;
    uint32_t canonical;
    struct error error;
    enum status status = automaton_of_regex(
        &state->work, BYTES_LITERAL("0|-?[1-9][0-9]*|-?(0|[1-9][0-9]*)\\.[0-9]*[1-9]"), &automaton,
        &error);
    if (!status) status = language_of_automaton(&state->languages, automaton, &canonical);
    *out = *set;
    if (!status)
        status = schema_state_combine(state, AUTOMATON_AND, set->number, canonical, &out->number);
    return status ? state_failed(state, status) : STATUS_OK;
}

static enum status grow_unique(struct shape_graph *graph, const struct array_set *array,
                               struct array_node *node) {
    struct schema_state *state = graph->state;
    if (!array->unique || node->length_max <= 1) return STATUS_OK;
    uint32_t conjunction;
    const struct value_set *set;
    if (node->prefix_count || array->counts) return refuse_unique(graph);
    enum status status = array_set_conjunction_of(state, array, 0, &conjunction);
    if (!status) status = schema_state_conjunction_read(state, conjunction, &set);
    if (status) return status;
    bool numbers = set->number != LANGUAGE_NONE, strings = set->string != LANGUAGE_NONE;
    if (!numbers && !strings && !set->bits && !set->arrays.count && !set->objects.count)
        return STATUS_OK;
    if (numbers == strings || set->bits || set->arrays.count || set->objects.count)
        return refuse_unique(graph);
    node->unique = SHAPE_UNIQUE_FREELY;
    const struct automaton *automaton;
    if (numbers) {
        struct value_set *spelt = shape_graph_take(graph, 1, sizeof *spelt);
        if (!spelt) return state_failed(graph->state, STATUS_NO_MEMORY);
        status = spell_one_way(graph, set, spelt);
        if (!status)
            status = shape_graph_add_node(graph, CONJUNCTION_TRUE, spelt, &node->items[0].plain);
        if (!status) status = language_automaton(&state->languages, spelt->number, &automaton);
    } else {
        const struct language *language = &state->languages.languages[set->string];
        if (!language->automaton && language->length_max > 2) return STATUS_OK;
        status = language_automaton(&state->languages, set->string, &automaton);
    }
    if (status) return state_failed(state, status);
    uint64_t members = automaton_member_count(automaton);
    if (strings && members <= LISTED_MAX)
        return list_strings(graph, automaton, (uint32_t)members, node);
    if (members < node->length_max) node->length_max = (uint32_t)members;
    return STATUS_OK;
}

static enum status grow_array(struct shape_graph *graph, const struct array_set *array,
                              struct array_node *node) {
    uint32_t prefix = array->counts ? array->counted_from : 0;
    for (uint32_t i = 0; i < array->rule_count; i++) {
        uint32_t end = array->rules[i].to == UINT32_MAX ? array->rules[i].from : array->rules[i].to;
        prefix = max_u32(prefix, end);
    }
    prefix = min_u32(prefix, array->length_max);
    if (prefix > PREFIX_MAX)
        return state_error(graph->state, STATUS_TOO_LARGE, "has more than %d items of their own",
                           PREFIX_MAX);
    *node = (struct array_node){
        .prefix_count = prefix,
        .length_min = array->length_min,
        .length_max = array->length_max,
        .counted_min = array->counts ? array->counted_min : 0,
        .counted_max = array->counts ? array->counted_max : UINT32_MAX,
    };
    node->items = shape_graph_take(graph, (size_t)prefix + 1, sizeof *node->items);
    if (!node->items) return state_failed(graph->state, STATUS_NO_MEMORY);
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i <= prefix && !status; i++) {
        node->items[i] = (struct shape_item){NODE_NONE, NODE_NONE};
        if (i < array->length_max) status = grow_item(graph, array, i, &node->items[i]);
    }
    return status ? status : grow_unique(graph, array, node);
}

/* ---- objects ---- */

struct key_sorts { /* the names and patterns that an object set mentions */
    uint32_t *names;
    uint32_t name_count, name_capacity;
    uint32_t languages[KEY_LANGUAGES_MAX + 1];
    uint32_t language_count;
};

static enum status note_name(struct shape_graph *graph, struct key_sorts *sorts, uint32_t name) {
    struct schema_state *state = graph->state;
    if (name >= graph->seen_count) {
        uint32_t count = 2 * state->name_count;
        uint32_t *larger = shape_graph_take(graph, count, sizeof *larger);
        if (!larger) return state_failed(graph->state, STATUS_NO_MEMORY);
        if (graph->seen_count) memcpy(larger, graph->seen, graph->seen_count * sizeof *larger);
        graph->seen = larger;
        graph->seen_count = count;
    }
    if (graph->seen[name] == graph->object_count) return STATUS_OK;
    graph->seen[name] = graph->object_count;
    enum status status = schema_state_room(state, &sorts->names, sorts->name_count,
                                           &sorts->name_capacity, sizeof *sorts->names);
    if (!status) sorts->names[sorts->name_count++] = name;
    return status;
}

static enum status note_condition(struct shape_graph *graph, struct key_sorts *sorts,
                                  uint32_t key_set) {
    struct schema_state *state = graph->state;
    const struct key_set keys = state->key_sets[key_set];
    enum status status = schema_state_spend(state, 1 + keys.name_count);
    for (uint32_t i = 0; i < keys.name_count && !status; i++)
        status = note_name(graph, sorts, keys.names[i]);
    for (uint32_t i = 0; i < keys.language_count && !status; i++) {
        uint32_t k = 0;
        while (k < sorts->language_count && sorts->languages[k] != keys.languages[i])
            k++;
        if (k == KEY_LANGUAGES_MAX) {
            state->keyword = "patternProperties";
            return state_error(state, STATUS_TOO_LARGE, "has more than %d patterns",
                               KEY_LANGUAGES_MAX);
        }
        sorts->languages[k] = keys.languages[i];
        if (k == sorts->language_count) sorts->language_count++;
    }
    for (uint32_t i = 0; i < keys.key_set_count && !status; i++)
        status = note_condition(graph, sorts, keys.key_sets[i]);
    return status;
}

static enum status note_all(struct shape_graph *graph, const struct object_set *object,
                            struct key_sorts *sorts) {
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < object->rule_count && !status; i++)
        status = note_condition(graph, sorts, object->rules[i].key_set);
    for (uint32_t i = 0; i < object->required_count && !status; i++)
        status = note_name(graph, sorts, object->required[i]);
    for (uint32_t i = 0; i < object->dependency_count && !status; i++) {
        status = note_name(graph, sorts, object->dependencies[i].name);
        if (!status) status = note_name(graph, sorts, object->dependencies[i].other);
    }
    return status;
}

static enum status conjunction_of_class(struct shape_graph *graph, const struct object_set *object,
                                        const struct key_sorts *sorts, uint64_t inside,
                                        uint32_t *out) {
    struct schema_state *state = graph->state;
    uint32_t conjunction = CONJUNCTION_TRUE;
    enum status status = schema_state_spend(state, object->rule_count);
    for (uint32_t i = 0; i < object->rule_count && !status; i++)
        if (object_set_keys_have_other(state, object->rules[i].key_set, sorts->languages,
                                       sorts->language_count, inside))
            status = schema_state_conjunction_and(state, conjunction, object->rules[i].conjunction,
                                                  &conjunction);
    *out = conjunction;
    return status;
}

/* Divides the keys that are not listed into classes by what the rules require of them: label - 1 of
 * node->rest is an index into node->class_nodes. */
static enum status grow_classes(struct shape_graph *graph, const struct object_set *object,
                                const struct key_sorts *sorts, struct object_node *node) {
    struct schema_state *state = graph->state;
    const struct automaton *parts[KEY_LANGUAGES_MAX + 1];
    const uint64_t every = 1, *sets = &every;
    uint32_t set_count = 1;
    enum status status = language_automaton(&state->languages, LANGUAGE_TEXT, &node->rest);
    for (uint32_t i = 0; i < sorts->language_count && !status; i++)
        status = language_automaton(&state->languages, sorts->languages[i], &parts[i]);
    parts[sorts->language_count] = node->rest;
    if (!status && sorts->language_count)
        status = automaton_join(&state->work, parts, sorts->language_count + 1, &node->rest, &sets,
                                &set_count);
    if (status) return state_failed(state, status);
    node->class_nodes = shape_graph_take(graph, set_count, sizeof *node->class_nodes);
    uint32_t *labels = shape_graph_take(graph, set_count, sizeof *labels);
    if (!node->class_nodes || !labels) return state_failed(graph->state, STATUS_NO_MEMORY);
    for (uint32_t i = 0; i < set_count; i++) {
        uint32_t conjunction, value, k = 0;
        status = conjunction_of_class(graph, object, sorts, sorts->language_count ? sets[i] : 0,
                                      &conjunction);
        if (!status) status = shape_graph_node_of(graph, conjunction, &value);
        if (status) return status;
        if (value == NODE_NONE) continue;
        while (k < node->class_count && node->class_nodes[k] != value)
            k++;
        node->class_nodes[k] = value;
        if (k == node->class_count) node->class_count++;
        labels[i] = k + 1;
    }
    status = automaton_relabel(&state->work, node->rest, labels, &node->rest);
    if (status) return state_failed(state, status);
    if (node->rest->start == 0) node->rest = NULL;
    return STATUS_OK;
}

/* Lists the other keys individually if there are only few. */
static enum status name_rest(struct shape_graph *graph, struct key_sorts *sorts,
                             struct object_node *node) {
    struct schema_state *state = graph->state;
    if (!node->rest || sorts->language_count == 0) return STATUS_OK;
    uint64_t members = automaton_member_count(node->rest);
    if (members > LISTED_MAX) return STATUS_OK;
    for (uint64_t i = 0; i < members; i++) {
        char text[LISTED_BYTES_MAX];
        size_t length;
        uint32_t name;
        if (!automaton_member(node->rest, i, text, sizeof text, &length)) return STATUS_OK;
        struct bytes key = arena_copy(state->arena, (struct bytes){text, length});
        if (!key.data) return state_failed(graph->state, STATUS_NO_MEMORY);
        enum status status = schema_state_name(state, key, &name);
        if (!status) status = note_name(graph, sorts, name);
        if (status) return status;
    }
    node->rest = NULL;
    return STATUS_OK;
}

/* If minProperties exceeds the required properties and there is a maximum, duplicate keys or keys
 * with dependencies could use up all places. The matcher avoids this only if infinitely many other
 * keys are reachable from every state of their DFA. */
static enum status check_count(struct shape_graph *graph, const struct object_node *node) {
    const struct object_set *set = node->set;
    bool bounded = set->count_max < UINT32_MAX, in_order = graph->state->options->in_order;
    bool runs_out = bounded && node->rest && node->rest->member_counts;
    bool dependencies = set->dependency_count && (bounded || in_order);
    if (set->count_min <= set->required_count || (!runs_out && !dependencies)) return STATUS_OK;
    graph->state->keyword = "minProperties";
    return state_error(graph->state, STATUS_UNSUPPORTED, "cannot be held together with %s",
                       dependencies ? "properties that need others"
                                    : "maxProperties and these patterns of keys");
}

static enum status grow_object(struct shape_graph *graph, const struct object_set *object,
                               struct object_node *node) {
    struct key_sorts sorts = {0};
    *node = (struct object_node){.set = object};
    graph->object_count++;
    enum status status = note_all(graph, object, &sorts);
    if (!status) status = grow_classes(graph, object, &sorts, node);
    if (!status) status = name_rest(graph, &sorts, node);
    if (!status) status = check_count(graph, node);
    if (status) return status;
    node->names = sorts.names;
    node->name_count = sorts.name_count;
    node->name_nodes = shape_graph_take(graph, node->name_count, sizeof *node->name_nodes);
    node->possible = shape_graph_take(graph, node->name_count, sizeof *node->possible);
    if (!node->name_nodes || !node->possible) return state_failed(graph->state, STATUS_NO_MEMORY);
    for (uint32_t i = 0; i < node->name_count && !status; i++) {
        uint32_t conjunction;
        status = object_set_conjunction_of(graph->state, object, node->names[i], &conjunction);
        if (!status) status = shape_graph_node_of(graph, conjunction, &node->name_nodes[i]);
    }
    return status;
}

/* ---- the graph ---- */

/* The matcher follows each object set in parallel, so redundant ones are removed. */
static enum status thin_out(struct shape_graph *graph, const struct value_set **set) {
    const struct set_list *all = &(*set)->objects;
    struct value_set *thin = shape_graph_take(graph, 1, sizeof *thin);
    const void **objects = shape_graph_take(graph, all->count, sizeof *objects);
    if (!thin || !objects) return state_failed(graph->state, STATUS_NO_MEMORY);
    for (uint32_t i = 0; i < all->count; i++)
        objects[i] = all->sets[i];
    *thin = **set;
    thin->objects = (struct set_list){objects, all->count, all->count};
    enum status status = object_set_thin(graph->state, &thin->objects);
    *set = thin;
    return status;
}

static enum status grow_node(struct shape_graph *graph, uint32_t index) {
    struct schema_state *state = graph->state;
    uint32_t conjunction = graph->conjunctions[index];
    if (state->conjunctions[conjunction].count)
        state->at = state->conjunctions[conjunction].literals[0] / 2;
    state->keyword = NULL;
    const struct value_set *set = graph->nodes[index].set;
    enum status status = set ? STATUS_OK : schema_state_conjunction_read(state, conjunction, &set);
    if (status) return status;
    status = thin_out(graph, &set);
    struct value_set *spelt = status ? NULL : shape_graph_take(graph, 1, sizeof *spelt);
    if (!status && !spelt) return state_failed(graph->state, STATUS_NO_MEMORY);
    if (!status) *spelt = *set;
    if (!status) status = value_set_spell(state, spelt);
    if (status) return status;
    struct array_node *arrays = shape_graph_take(graph, set->arrays.count, sizeof *arrays);
    struct object_node *objects = shape_graph_take(graph, set->objects.count, sizeof *objects);
    if (!arrays || !objects) return state_failed(graph->state, STATUS_NO_MEMORY);
    for (uint32_t i = 0; i < set->arrays.count && !status; i++)
        status = grow_array(graph, set->arrays.sets[i], &arrays[i]);
    for (uint32_t i = 0; i < set->objects.count && !status; i++)
        status = grow_object(graph, set->objects.sets[i], &objects[i]);
    struct shape_node *node = &graph->nodes[index];
    node->set = spelt;
    node->arrays = arrays;
    node->objects = objects;
    return status;
}

enum status shape_graph_grow(struct shape_graph *graph, struct schema_state *state,
                             uint32_t root_conjunction, uint32_t *root_out) {
    *graph = (struct shape_graph){.state = state};
    enum status status = shape_graph_node_of(graph, root_conjunction, root_out);
    for (uint32_t i = 0; i < graph->node_count && !status; i++)
        status = grow_node(graph, i);
    return status;
}

bool shape_graph_array_is_live(const struct shape_graph *graph, const struct array_node *node) {
    uint32_t counted_least = 0, counted_most = 0, length = 0;
    for (; length < node->length_max; length++) {
        const struct shape_item *item =
            &node->items[length < node->prefix_count ? length : node->prefix_count];
        bool plain = node_is_live(graph, item->plain), counted = node_is_live(graph, item->counted);
        bool enough = length >= node->length_min && counted_most >= node->counted_min;
        if (enough || (!plain && !counted)) break;
        if (length >= node->prefix_count) { /* add as many items as are wanted */
            uint32_t more = node->length_max - length;
            if (!plain) more = min_u32(more, node->counted_max - counted_least);
            length += more;
            counted_most += counted ? more : 0; /* at most the length */
            break;
        }
        if (!plain && counted_least == node->counted_max) break;
        counted_least += !plain;
        counted_most += counted;
    }
    return length >= node->length_min && counted_most >= node->counted_min;
}

enum status shape_graph_object_rest(const struct shape_graph *graph, const struct object_node *node,
                                    const struct automaton **out) {
    struct schema_state *state = graph->state;
    *out = NULL;
    if (!node->rest) return STATUS_OK;
    uint32_t *labels = arena_take(state->arena, node->class_count * sizeof *labels);
    if (!labels) return state_failed(state, STATUS_NO_MEMORY);
    uint32_t live = 0;
    for (uint32_t i = 0; i < node->class_count; i++) {
        labels[i] = node_is_live(graph, node->class_nodes[i]) ? i + 1 : 0;
        live += labels[i] > 0;
    }
    *out = node->rest;
    if (live == node->class_count) return STATUS_OK;
    *out = NULL;
    if (live == 0) return STATUS_OK;
    enum status status = automaton_relabel(&state->work, node->rest, labels, out);
    return status ? state_failed(state, status) : STATUS_OK;
}

static uint32_t name_index(const struct object_node *node, uint32_t name) {
    uint32_t i = 0;
    while (node->names[i] != name)
        i++;
    return i;
}

/* Finds the possible properties: their node is live, and all that they require is possible. */
static void find_possible(const struct shape_graph *graph, struct object_node *node) {
    for (uint32_t i = 0; i < node->name_count; i++)
        node->possible[i] = node_is_live(graph, node->name_nodes[i]);
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < node->set->dependency_count; i++) {
            uint32_t name = name_index(node, node->set->dependencies[i].name);
            uint32_t other = name_index(node, node->set->dependencies[i].other);
            if (!node->possible[name] || node->possible[other]) continue;
            node->possible[name] = false;
            changed = true;
        }
    }
}

enum status shape_graph_object_is_live(const struct shape_graph *graph, struct object_node *node,
                                       bool *out) {
    *out = false;
    find_possible(graph, node);
    bool *wanted = arena_take_zeroed(graph->state->arena, node->name_count + 1);
    if (!wanted) return state_failed(graph->state, STATUS_NO_MEMORY);
    uint32_t least = 0, most = 0;
    for (uint32_t i = 0; i < node->set->required_count; i++)
        wanted[name_index(node, node->set->required[i])] = true;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < node->set->dependency_count; i++) {
            uint32_t name = name_index(node, node->set->dependencies[i].name);
            uint32_t other = name_index(node, node->set->dependencies[i].other);
            if (!wanted[name] || wanted[other]) continue;
            changed = wanted[other] = true;
        }
    }
    for (uint32_t i = 0; i < node->name_count; i++) {
        if (wanted[i] && !node->possible[i]) return STATUS_OK;
        least += wanted[i];
        most += node->possible[i];
    }
    if (least > node->set->count_max) return STATUS_OK;
    if (most < node->set->count_min) {
        const struct automaton *rest;
        enum status status = shape_graph_object_rest(graph, node, &rest);
        if (status || !rest) return status;
        uint64_t others = automaton_member_count(rest), /* may include listed names */
            wanted_others = (uint64_t)node->set->count_min + node->name_count;
        if (others < wanted_others) return STATUS_OK;
    }
    *out = true;
    return STATUS_OK;
}

static enum status node_becomes_live(struct shape_graph *graph, struct shape_node *node) {
    const struct value_set *set = node->set;
    node->live = set->bits || set->number != LANGUAGE_NONE || set->string != LANGUAGE_NONE;
    for (uint32_t i = 0; i < set->arrays.count && !node->live; i++)
        node->live = shape_graph_array_is_live(graph, &node->arrays[i]);
    for (uint32_t i = 0; i < set->objects.count && !node->live; i++) {
        enum status status = shape_graph_object_is_live(graph, &node->objects[i], &node->live);
        if (status) return status;
    }
    return STATUS_OK;
}

enum status shape_graph_find_live(struct shape_graph *graph) {
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = graph->node_count;
             i-- > 0;) { /* mostly bottom-up: inner nodes have larger numbers */
            struct shape_node *node = &graph->nodes[i];
            if (node->live) continue;
            enum status status = node_becomes_live(graph, node);
            if (!status) status = schema_state_spend(graph->state, 1);
            if (status) return status;
            changed |= node->live;
        }
    }
    return STATUS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/scenario/scenario_edit.h"

#include "base/check.h"

#define KEY_BYTES 64

static const char *const references[] = {"hardware", "model", "prices"};

/* The state of applying one setting. */
struct edit {
    struct arena *arena;
    const char *setting;
    const struct tree *value;
    struct error *error;
};

static enum status no_path(const struct edit *edit, const char *why) {
    return error_set(edit->error, STATUS_INVALID, "--set %.200s: %s", edit->setting, why);
}

static enum status scenario_edit_no_memory(const struct edit *edit) {
    return error_set(edit->error, STATUS_NO_MEMORY, "--set %.200s: no memory", edit->setting);
}

/* A copy of the object with one member replaced. The other members are shared. */
static struct tree *with_member(struct arena *arena, const struct tree *object, const char *key,
                                const struct tree *value) {
    struct tree *copy = tree_make_object(arena);
    struct tree_cursor cursor = {0};
    struct bytes name;
    const struct tree *member;
    bool found = false, fits = copy != NULL;
    while (fits && tree_next_member(object, &cursor, &name, &member)) {
        struct bytes copied = arena_copy(arena, name);
        bool here = bytes_equal(name, bytes_of(key));
        found |= here;
        fits = copied.data && tree_set(arena, copy, copied.data, here ? value : member);
    }
    if (fits && !found) fits = tree_set(arena, copy, key, value);
    return fits ? copy : NULL;
}

static struct tree *with_element(struct arena *arena, const struct tree *array, size_t index,
                                 const struct tree *value) {
    struct tree *copy = tree_make_array(arena);
    bool fits = copy != NULL;
    for (size_t i = 0; fits && i < tree_count(array); i++)
        fits = tree_append(arena, copy, i == index ? value : tree_at(array, i));
    return fits ? copy : NULL;
}

static bool takes_a_value(const struct tree *place) {
    return place && tree_kind(place) == TREE_OBJECT && tree_member(place, "value");
}

/* Sets the value at the end of the path: the plain value, or {value, source} around it. */
static enum status set_leaf(const struct edit *edit, const struct tree *old,
                            const struct tree **out) {
    *out = edit->value;
    if (!takes_a_value(old) || tree_kind(edit->value) == TREE_OBJECT) return STATUS_OK;
    struct tree *figure = tree_make_object(edit->arena);
    const struct tree *source = tree_make_string(edit->arena, BYTES_LITERAL("--set"));
    if (!figure || !tree_set(edit->arena, figure, "value", edit->value) ||
        !tree_set(edit->arena, figure, "source", source))
        return scenario_edit_no_memory(edit);
    *out = figure;
    return STATUS_OK;
}

/* One step of a path, "key" or "[3]". `rest` is what follows it. */
struct path_step {
    char key[KEY_BYTES]; /* "": an index */
    size_t index;
    struct bytes rest;
};

static bool scenario_edit_read_index(struct bytes *path, size_t *index_out) {
    size_t at = 1, index = 0;
    while (at < path->count && at < 8 && path->data[at] >= '0' && path->data[at] <= '9')
        index = 10 * index + (size_t)(path->data[at++] - '0');
    if (at == 1 || at == path->count || path->data[at] != ']') return false;
    at++;
    if (at < path->count && path->data[at] == '.') at++;
    *path = (struct bytes){path->data + at, path->count - at};
    *index_out = index;
    return true;
}

static bool scenario_edit_read_step(struct bytes path, struct path_step *step_out) {
    *step_out = (struct path_step){.rest = path};
    if (path.count && path.data[0] == '[')
        return scenario_edit_read_index(&step_out->rest, &step_out->index);
    size_t at = 0;
    while (at < path.count && path.data[at] != '.' && path.data[at] != '[')
        at++;
    if (at == 0 || at >= KEY_BYTES) return false;
    memcpy(step_out->key, path.data, at);
    if (at < path.count && path.data[at] == '.') at++;
    step_out->rest = (struct bytes){path.data + at, path.count - at};
    return true;
}

/* The maximum depth of a path. No tree is deeper. */
#define STEPS_MAX 16

struct path_walk {
    struct path_step steps[STEPS_MAX];
    const struct tree *places[STEPS_MAX]; /* the tree in which each step starts */
    size_t count;
};

static enum status walk_down(const struct edit *edit, const struct tree *root, struct bytes path,
                             struct path_walk *walk, const struct tree **leaf_out) {
    const struct tree *place = root;
    while (path.count) {
        struct path_step *step = &walk->steps[walk->count];
        if (walk->count == STEPS_MAX - 1 || !scenario_edit_read_step(path, step))
            return no_path(edit, "expected a path such as fleet.units[0].count");
        walk->places[walk->count++] = place;
        if (step->key[0]) {
            if (!place || tree_kind(place) != TREE_OBJECT)
                return no_path(edit, "no such path: what is before a '.' must have keys");
            place = tree_member(place, step->key);
        } else {
            if (!place || step->index >= tree_count(place))
                return no_path(edit, "no such path: the list has no such element");
            place = tree_at(place, step->index);
        }
        path = step->rest;
        if (!place && path.count) return no_path(edit, "no such path");
    }
    *leaf_out = place;
    return STATUS_OK;
}

static enum status set_path(const struct edit *edit, const struct tree *root, struct bytes path,
                            const struct tree **root_out) {
    struct path_walk walk = {.count = 0};
    const struct tree *leaf, *now;
    enum status status = walk_down(edit, root, path, &walk, &leaf);
    if (!status) status = set_leaf(edit, leaf, &now);
    if (status) return status;
    while (walk.count-- > 0) {
        const struct path_step *step = &walk.steps[walk.count];
        const struct tree *place = walk.places[walk.count];
        now = step->key[0] ? with_member(edit->arena, place, step->key, now)
                           : with_element(edit->arena, place, step->index, now);
        if (!now) return scenario_edit_no_memory(edit);
    }
    *root_out = now;
    return STATUS_OK;
}

static enum status read_setting(struct edit *edit, struct bytes *path_out) {
    const char *equals = strchr(edit->setting, '=');
    if (!equals || equals == edit->setting) return no_path(edit, "expected NAME=VALUE");
    struct bytes text = bytes_of(equals + 1);
    *path_out = (struct bytes){edit->setting, (size_t)(equals - edit->setting)};
    if (tree_parse(edit->arena, text, "value", &edit->value, NULL) != STATUS_OK)
        edit->value = tree_make_string(edit->arena, text);
    return edit->value ? STATUS_OK : no_path(edit, "the value is no text");
}

enum status scenario_edit_set(struct arena *arena, const struct tree *root, const char *setting,
                              const struct tree **root_out, struct error *error) {
    struct edit edit = {.arena = arena, .setting = setting, .error = error};
    struct bytes path;
    enum status status = read_setting(&edit, &path);
    return status ? status : set_path(&edit, root, path, root_out);
}

/* ---- names ---- */

/* Replaces the names in an object by the objects that they refer to. */
static enum status resolve_in(struct arena *arena, const struct tree *object,
                              const struct scenario_library *library, const struct tree **out,
                              struct error *error) {
    for (size_t i = 0; i < ARRAY_COUNT(references); i++) {
        const struct tree *found;
        struct bytes name;
        if (!tree_get_string(tree_member(object, references[i]), &name)) continue;
        enum status status =
            library->find(library->context, arena, references[i], name, &found, error);
        if (status) return status;
        object = with_member(arena, object, references[i], found);
        if (!object) return error_set(error, STATUS_NO_MEMORY, "no memory for a scenario");
    }
    *out = object;
    return STATUS_OK;
}

static enum status scenario_edit_resolve(struct arena *arena, const struct tree *root,
                                         const struct scenario_library *library,
                                         const struct tree **root_out, struct error *error) {
    enum status status = resolve_in(arena, root, library, &root, error);
    const struct tree *fleet = tree_member(root, "fleet");
    const struct tree *units = tree_member(fleet, "units"), *now = units;
    for (size_t i = 0; !status && i < tree_count(units); i++) {
        const struct tree *unit;
        if (tree_kind(tree_at(units, i)) != TREE_OBJECT) continue;
        status = resolve_in(arena, tree_at(units, i), library, &unit, error);
        if (status || unit == tree_at(units, i)) continue;
        now = with_element(arena, now, i, unit);
        if (!now) status = error_set(error, STATUS_NO_MEMORY, "no memory for a scenario");
    }
    if (!status && now != units) {
        fleet = with_member(arena, fleet, "units", now);
        root = fleet ? with_member(arena, root, "fleet", fleet) : NULL;
        if (!root) status = error_set(error, STATUS_NO_MEMORY, "no memory for a scenario");
    }
    *root_out = root;
    return status;
}

/* True if the path of the setting ends with a name that refers to an object. */
static bool sets_a_name(const char *setting) {
    size_t bytes = strcspn(setting, "=");
    for (size_t i = 0; i < ARRAY_COUNT(references); i++) {
        size_t key = strlen(references[i]);
        if (bytes < key || memcmp(setting + bytes - key, references[i], key)) continue;
        if (bytes == key || setting[bytes - key - 1] == '.') return true;
    }
    return false;
}

enum status scenario_edit_prepare(struct arena *arena, const struct tree *root,
                                  const char *const *settings, size_t setting_count,
                                  const struct scenario_library *library,
                                  const struct tree **root_out, struct error *error) {
    enum status status = STATUS_OK;
    if (tree_kind(root) != TREE_OBJECT)
        return error_set(error, STATUS_INVALID, "a scenario is an object, found %s",
                         tree_name(root));
    for (size_t i = 0; !status && i < setting_count; i++)
        if (sets_a_name(settings[i]))
            status = scenario_edit_set(arena, root, settings[i], &root, error);
    if (!status) status = scenario_edit_resolve(arena, root, library, &root, error);
    for (size_t i = 0; !status && i < setting_count; i++)
        if (!sets_a_name(settings[i]))
            status = scenario_edit_set(arena, root, settings[i], &root, error);
    if (!status) *root_out = root;
    return status;
}

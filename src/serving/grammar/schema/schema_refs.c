/* SPDX-License-Identifier: Apache-2.0
 * Resolves $ref: relative URIs (RFC 3986, section 5), JSON pointers (RFC 6901) and anchors. A URI
 * refers to the part of the document with that $id. Nothing is fetched.
 */
#include "serving/grammar/automata/regex_tree.h"
#include "serving/grammar/schema/schema_state.h"

#define ADDRESS_BYTES_MAX 1024

struct address_parts { /* including the colon, slashes and question mark */
    struct bytes scheme, authority, path, query;
};

static struct bytes schema_refs_part_of(struct bytes text, size_t from, size_t to) {
    return (struct bytes){text.data ? text.data + from : NULL, to - from};
}

static struct address_parts schema_refs_split(struct bytes text) {
    struct address_parts parts = {0};
    size_t at = 0;
    while (at < text.count && !memchr(":/?#", text.data[at], 4))
        at++;
    if (at > 0 && at < text.count && text.data[at] == ':')
        parts.scheme = schema_refs_part_of(text, 0, ++at);
    else
        at = 0;
    size_t start = at;
    if (at + 1 < text.count && text.data[at] == '/' && text.data[at + 1] == '/') {
        at += 2;
        while (at < text.count && text.data[at] != '/' && text.data[at] != '?')
            at++;
        parts.authority = schema_refs_part_of(text, start, at);
    }
    start = at;
    while (at < text.count && text.data[at] != '?')
        at++;
    parts.path = schema_refs_part_of(text, start, at);
    parts.query = schema_refs_part_of(text, at, text.count);
    return parts;
}

static size_t put(char *out, size_t used, struct bytes text) {
    if (text.count) memcpy(out + used, text.data, text.count);
    return used + text.count;
}

/* Removes "." and ".." from the path out[start..used). Returns its new end. */
static size_t remove_dots(char *out, size_t start, size_t used) {
    size_t at = start, end = start;
    while (at < used) {
        size_t next = at + 1;
        while (next < used && out[next] != '/')
            next++;
        size_t name = at + (out[at] == '/'), count = next - name;
        bool last = next == used;
        if (count == 2 && out[name] == '.' && out[name + 1] == '.') {
            while (end > start && out[--end] != '/') {
            }
            if (last) out[end++] = '/';
        } else if (count == 1 && out[name] == '.') {
            if (last) out[end++] = '/';
        } else {
            memmove(out + end, out + at, next - at);
            end += next - at;
        }
        at = next;
    }
    return end;
}

/* Resolves `reference`, which has no fragment, against `base`. STATUS_TOO_LARGE. */
static enum status schema_refs_resolve(struct schema_state *state, struct bytes base,
                                       struct bytes reference, struct bytes *out) {
    if (reference.count == 0) {
        *out = base;
        return STATUS_OK;
    }
    if (base.count + reference.count + 2 > ADDRESS_BYTES_MAX)
        return state_error(state, STATUS_TOO_LARGE, "an address has more than %d bytes",
                           ADDRESS_BYTES_MAX);
    char *text = arena_take(state->arena, base.count + reference.count + 2);
    if (!text) return state_failed(state, STATUS_NO_MEMORY);
    struct address_parts from = schema_refs_split(base), to = schema_refs_split(reference);
    size_t used = 0;
    if (to.scheme.count) {
        *out = reference;
        return STATUS_OK;
    }
    used = put(text, used, from.scheme);
    used = put(text, used, to.authority.data ? to.authority : from.authority);
    size_t path = used;
    if (!to.authority.data && to.path.count && to.path.data[0] != '/') {
        size_t slash = from.path.count;
        while (slash > 0 && from.path.data[slash - 1] != '/')
            slash--;
        used = put(text, used, schema_refs_part_of(from.path, 0, slash));
        if (slash == 0 && from.authority.count) text[used++] = '/';
    }
    used = put(text, used, to.path.count || to.authority.data ? to.path : from.path);
    used = remove_dots(text, path, used);
    used = put(text, used, to.query);
    *out = (struct bytes){text, used};
    return STATUS_OK;
}

/* Splits a text at its first '#'. fragment_out->data is NULL if there is none. */
static struct bytes cut_fragment(struct bytes text, struct bytes *fragment_out) {
    const char *mark = text.count ? memchr(text.data, '#', text.count) : NULL;
    *fragment_out = (struct bytes){0};
    if (!mark) return text;
    size_t at = (size_t)(mark - text.data);
    *fragment_out = schema_refs_part_of(text, at + 1, text.count);
    return schema_refs_part_of(text, 0, at);
}

/* "id" in draft 4, "$id" in later drafts. */
static bool schema_refs_find_id(const struct tree *tree, struct bytes *out) {
    if (tree_get_string(tree_member(tree, "$id"), out)) return true;
    return tree_get_string(tree_member(tree, "id"), out) && !tree_member(tree, "enum");
}

uint32_t schema_refs_resource_of(const struct schema_state *state, const struct tree *tree,
                                 uint32_t resource) {
    struct bytes id;
    if (!schema_refs_find_id(tree, &id)) return resource;
    for (uint32_t i = 0; i < state->resource_count; i++)
        if (state->resources[i].tree == tree) return i;
    return resource;
}

static enum status add_anchor(struct schema_state *state, uint32_t resource, struct bytes name,
                              const struct tree *tree, bool dynamic) {
    enum status status = schema_state_room(state, &state->anchors, state->anchor_count,
                                           &state->anchor_capacity, sizeof *state->anchors);
    if (status) return status;
    state->anchors[state->anchor_count++] = (struct schema_anchor){
        .resource = resource, .name = name, .tree = tree, .dynamic = dynamic};
    return STATUS_OK;
}

static enum schema_draft draft_of(const struct tree *tree, enum schema_draft inherited) {
    static const struct {
        const char *name;
        enum schema_draft draft;
    } known[] = {
        {"draft-03", DRAFT_4}, {"draft-04", DRAFT_4}, {"draft-05", DRAFT_4},
        {"draft-06", DRAFT_6}, {"draft-07", DRAFT_7}, {"draft/2019-09", DRAFT_2019_09},
    };
    struct bytes name;
    if (!tree_get_string(tree_member(tree, "$schema"), &name)) return inherited;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (memmem(name.data, name.count, known[i].name, strlen(known[i].name)))
            return known[i].draft;
    return DRAFT_2020_12;
}

static enum status add_resource(struct schema_state *state, const struct tree *tree,
                                struct bytes address, enum schema_draft draft, uint32_t *out) {
    enum status status = schema_state_room(state, &state->resources, state->resource_count,
                                           &state->resource_capacity, sizeof *state->resources);
    if (status) return status;
    *out = state->resource_count;
    state->resources[state->resource_count++] =
        (struct schema_resource){.address = address, .tree = tree, .draft = draft};
    return STATUS_OK;
}

static enum status collect_names(struct schema_state *state, const struct tree *tree,
                                 uint32_t *resource) {
    struct bytes id, name, fragment;
    enum status status = STATUS_OK;
    enum schema_draft draft = state->resources[*resource].draft;
    bool ref = tree_member(tree, "$ref") && draft < DRAFT_2019_09; /* other keywords are ignored */
    if (!ref && schema_refs_find_id(tree, &id)) {
        struct bytes address = cut_fragment(id, &fragment);
        if (address.count && tree != state->resources[*resource].tree) {
            struct bytes whole;
            status =
                schema_refs_resolve(state, state->resources[*resource].address, address, &whole);
            if (!status) status = add_resource(state, tree, whole, draft_of(tree, draft), resource);
        }
        if (!status && fragment.count && fragment.data[0] != '/')
            status = add_anchor(state, *resource, fragment, tree, false);
    }
    if (!status && tree_get_string(tree_member(tree, "$anchor"), &name))
        status = add_anchor(state, *resource, name, tree, false);
    if (!status && tree_get_string(tree_member(tree, "$dynamicAnchor"), &name))
        status = add_anchor(state, *resource, name, tree, true);
    if (tree_member(tree, "unevaluatedItems") || tree_member(tree, "unevaluatedProperties"))
        state->unevaluated = true;
    return status;
}

static enum status schema_refs_collect_each(struct schema_state *state, const struct tree *tree,
                                            uint32_t resource, uint32_t depth) {
    if (depth > state->limits->depth_max)
        return state_error(state, STATUS_TOO_LARGE, "the schema is nested more than %u deep",
                           state->limits->depth_max);
    enum status status = schema_state_spend(state, 1);
    if (!status && tree_kind(tree) == TREE_ARRAY)
        for (size_t i = 0; i < tree_count(tree) && !status; i++)
            status = schema_refs_collect_each(state, tree_at(tree, i), resource, depth + 1);
    if (status || tree_kind(tree) != TREE_OBJECT) return status;
    status = collect_names(state, tree, &resource);
    struct tree_cursor cursor = {0};
    struct bytes key;
    const struct tree *value;
    while (!status && tree_next_member(tree, &cursor, &key, &value)) {
        bool data = bytes_equal(key, BYTES_LITERAL("const")) ||
                    (bytes_equal(key, BYTES_LITERAL("enum")) && tree_kind(value) == TREE_ARRAY);
        if (!data) status = schema_refs_collect_each(state, value, resource, depth + 1);
    }
    return status;
}

enum status schema_refs_collect(struct schema_state *state, const struct tree *root) {
    struct bytes id = {0}, fragment;
    if (tree_kind(root) == TREE_OBJECT && schema_refs_find_id(root, &id))
        id = cut_fragment(id, &fragment);
    uint32_t resource;
    enum schema_draft draft =
        tree_kind(root) == TREE_OBJECT ? draft_of(root, DRAFT_2020_12) : DRAFT_2020_12;
    enum status status = add_resource(state, root, id, draft, &resource);
    return status ? status : schema_refs_collect_each(state, root, resource, 0);
}

/* Decodes a part of a JSON pointer and terminates it. */
static char *schema_refs_decode(struct schema_state *state, struct bytes part) {
    char *out = arena_take(state->arena, part.count + 1);
    if (!out) return NULL;
    size_t used = 0, plain = 0;
    for (size_t i = 0; i < part.count; i++) {
        int high = -1, low = -1;
        if (part.data[i] == '%' && i + 2 < part.count) {
            high = regex_tree_digit_value(part.data[i + 1], 16);
            low = regex_tree_digit_value(part.data[i + 2], 16);
        }
        bool coded = high >= 0 && low >= 0;
        out[used++] = coded ? (char)(high * 16 + low) : part.data[i];
        if (coded) i += 2;
    }
    for (size_t i = 0; i < used; i++) {
        bool tilde = out[i] == '~' && i + 1 < used && (out[i + 1] == '0' || out[i + 1] == '1');
        out[plain++] = !tilde ? out[i] : out[i + 1] == '0' ? '~' : '/';
        if (tilde) i++;
    }
    out[plain] = '\0';
    return out;
}

/* Follows a JSON pointer from a resource's root. NULL: it refers to nothing. */
static const struct tree *schema_refs_follow(struct schema_state *state, struct bytes pointer,
                                             uint32_t *resource) {
    const struct tree *tree = state->resources[*resource].tree;
    size_t at = 0;
    while (tree && at < pointer.count) {
        if (pointer.data[at] != '/') return NULL;
        size_t end = at + 1;
        while (end < pointer.count && pointer.data[end] != '/')
            end++;
        char *part = schema_refs_decode(state, schema_refs_part_of(pointer, at + 1, end));
        if (!part) return NULL;
        at = end;
        if (tree_kind(tree) == TREE_OBJECT) {
            tree = tree_member(tree, part);
        } else {
            size_t index = 0;
            bool digits = *part != '\0';
            for (const char *c = part; *c && digits; c++) {
                digits = *c >= '0' && *c <= '9' && index < UINT32_MAX;
                index = index * 10 + (size_t)(*c - '0');
            }
            tree = digits ? tree_at(tree, index) : NULL;
        }
        if (tree && tree_kind(tree) == TREE_OBJECT)
            *resource = schema_refs_resource_of(state, tree, *resource);
    }
    return tree;
}

static const struct tree *find_anchor(const struct schema_state *state, struct bytes name,
                                      uint32_t resource) {
    for (uint32_t i = 0; i < state->anchor_count; i++)
        if (state->anchors[i].resource == resource && bytes_equal(state->anchors[i].name, name))
            return state->anchors[i].tree;
    return NULL;
}

enum status schema_refs_find(struct schema_state *state, uint32_t from, struct bytes reference,
                             uint32_t *source_out) {
    struct bytes fragment, address = cut_fragment(reference, &fragment), whole;
    uint32_t resource = state->subschemas[from].resource;
    enum status status = schema_state_spend(state, 1 + state->resource_count + reference.count);
    if (!status)
        status = schema_refs_resolve(state, state->resources[resource].address, address, &whole);
    if (status) return status;
    if (address.count) {
        for (resource = 0; resource < state->resource_count; resource++)
            if (bytes_equal(state->resources[resource].address, whole)) break;
        if (resource == state->resource_count)
            return state_error(state, STATUS_UNSUPPORTED,
                               "leads out of the schema to \"%.*s\"; put that schema into $defs",
                               (int)(reference.count < 200 ? reference.count : 200),
                               reference.data);
    }
    const struct tree *tree;
    if (fragment.count && fragment.data[0] != '/')
        tree = find_anchor(state, fragment, resource);
    else
        tree = schema_refs_follow(state, fragment, &resource);
    if (!tree)
        return state_error(state, STATUS_INVALID, "\"%.*s\" leads to nothing in the schema",
                           (int)(reference.count < 200 ? reference.count : 200), reference.data);
    if (tree_kind(tree) == TREE_OBJECT) resource = schema_refs_resource_of(state, tree, resource);
    struct subschema subschema = {
        .tree = tree, .resource = resource, .parent = UINT32_MAX, .key = reference};
    if (subschema.key.count && subschema.key.data[0] == '#') {
        subschema.key.data++;
        subschema.key.count--;
        if (subschema.key.count && subschema.key.data[0] == '/') {
            subschema.key.data++;
            subschema.key.count--;
        }
    }
    return schema_state_subschema(state, &subschema, source_out);
}

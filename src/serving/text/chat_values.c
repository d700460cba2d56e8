/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/chat_values.h"

#include "base/limits.h"
#include "base/tree_extent.h"

/* The state of a conversion. A step that cannot continue sets `status` and returns false. */
struct build {
    const struct chat_facts *facts;
    struct arena *arena;
    struct tree_extent left; /* remaining parts for arguments of later calls */
    enum status status;
};

/* Members of a new object. */
struct members {
    struct value_pair *pairs;
    size_t count;
};

static bool open_members(struct build *build, const struct tree *object, size_t more,
                         struct members *out) {
    struct tree_cursor cursor = {NULL};
    struct bytes key;
    const struct tree *value;
    size_t count = more;
    while (tree_next_member(object, &cursor, &key, &value))
        count++;
    *out = (struct members){arena_take(build->arena, (count + 1) * sizeof *out->pairs), 0};
    return out->pairs != NULL;
}

/* Returns the slot for a member's value, or NULL if memory is out. */
static struct value *chat_values_add_member(struct build *build, struct members *members,
                                            struct bytes key) {
    struct value_pair *pair = &members->pairs[members->count];
    if (!value_of_text(build->arena, key, VALUE_DATA, &pair->key)) return NULL;
    members->count++;
    return &pair->value;
}

static bool chat_values_add_value(struct build *build, struct members *members, struct bytes key,
                                  struct value value) {
    struct value *out = chat_values_add_member(build, members, key);
    if (out) *out = value;
    return out != NULL;
}

static bool chat_values_add_text(struct build *build, struct members *members, const char *key,
                                 struct bytes text) {
    struct value *out = chat_values_add_member(build, members, bytes_of(key));
    return out && value_of_text(build->arena, text, VALUE_DATA, out);
}

static bool close_members(struct build *build, const struct members *members, struct value *out) {
    return value_of_pairs(build->arena, members->pairs, members->count, out);
}

static bool chat_values_is_key(struct bytes key, const char *name) {
    return bytes_equal(key, bytes_of(name));
}

/* ---- calls ---- */

/* Parses the text of arguments. *out is NULL if it is not an object. */
static bool chat_values_parse_arguments(struct build *build, struct bytes text,
                                        const struct tree **out) {
    struct tree_extent extent;
    struct error ignored;
    if (tree_extent_measure(text, &build->left, &extent) != TREE_PART_COUNT) {
        build->status = STATUS_TOO_LARGE;
        return false;
    }
    for (enum tree_part part = 0; part < TREE_PART_COUNT; part++)
        if (part != TREE_PART_DEPTH) build->left.counts[part] -= extent.counts[part];
    enum status status = tree_parse_repeated(build->arena, text, "arguments", out, &ignored);
    if (status || tree_kind(*out) != TREE_OBJECT) *out = NULL;
    return status != STATUS_NO_MEMORY;
}

/* Wraps a text that is not an object in one, under the name that Anthropic's API uses. A malformed
 * or truncated call of a model must not end the conversation. */
static const struct tree *wrapped(struct build *build, struct bytes text) {
    struct tree *object = tree_make_object(build->arena);
    const struct tree *said = tree_make_string(build->arena, text);
    return object && tree_set(build->arena, object, "INVALID_JSON", said) ? object : NULL;
}

static bool take_arguments(struct build *build, const struct tree *arguments, struct value *out) {
    struct bytes text = BYTES_LITERAL("{}");
    const struct tree *object = NULL;
    if (!tree_get_string(arguments, &text) && !tree_is_null(arguments))
        return value_of_tree(build->arena, arguments, out);
    if (build->facts->wants_objects &&
        !chat_values_parse_arguments(build, text.count ? text : BYTES_LITERAL("{}"), &object))
        return false;
    if (build->facts->wants_objects && !object && !(object = wrapped(build, text))) return false;
    return object ? value_of_tree(build->arena, object, out)
                  : value_of_text(build->arena, text, VALUE_DATA, out);
}

static bool take_function(struct build *build, const struct tree *function, struct value *out) {
    struct members members;
    struct tree_cursor cursor = {NULL};
    struct bytes key;
    const struct tree *member;
    if (tree_kind(function) != TREE_OBJECT) return value_of_tree(build->arena, function, out);
    if (!open_members(build, function, 1, &members)) return false;
    while (tree_next_member(function, &cursor, &key, &member)) {
        struct value *place = chat_values_add_member(build, &members, key);
        if (!place ||
            !(chat_values_is_key(key, "arguments") ? take_arguments(build, member, place)
                                                   : value_of_tree(build->arena, member, place)))
            return false;
    }
    if (!tree_member(function, "arguments") &&
        !chat_values_add_text(build, &members, "arguments", BYTES_LITERAL("{}")))
        return false;
    return close_members(build, &members, out);
}

static bool chat_values_take_call(struct build *build, const struct tree *call, struct value *out) {
    struct members members;
    struct tree_cursor cursor = {NULL};
    struct bytes key;
    const struct tree *member;
    if (tree_kind(call) != TREE_OBJECT) return value_of_tree(build->arena, call, out);
    const struct tree *type = tree_member(call, "type");
    if (!open_members(build, call, 1, &members)) return false;
    while (tree_next_member(call, &cursor, &key, &member)) {
        if (tree_is_null(member)) continue;
        struct value *place = chat_values_add_member(build, &members, key);
        if (!place ||
            !(chat_values_is_key(key, "function") ? take_function(build, member, place)
                                                  : value_of_tree(build->arena, member, place)))
            return false;
    }
    if ((!type || tree_is_null(type)) &&
        !chat_values_add_text(build, &members, "type", BYTES_LITERAL("function")))
        return false;
    return close_members(build, &members, out);
}

static bool take_calls(struct build *build, const struct tree *calls, struct value *out) {
    size_t count = tree_count(calls);
    struct value *items = arena_take(build->arena, (count + 1) * sizeof *items);
    if (!items) return false;
    for (size_t i = 0; i < count; i++)
        if (!chat_values_take_call(build, tree_at(calls, i), &items[i])) return false;
    return value_of_items(build->arena, items, count, out);
}

/* ---- contents ---- */

static struct bytes part_text(const struct tree *part) {
    struct bytes text = {"", 0};
    if (!tree_get_string(part, &text)) (void)tree_get_string(tree_member(part, "text"), &text);
    return text;
}

/* Joins the texts of parts without separators, as most templates with parts do, and appends `tail`.
 * `data` is NULL if memory is out. */
static struct bytes joined(struct arena *arena, const struct tree *parts, struct bytes tail) {
    struct bytes text = {NULL, tail.count};
    for (size_t i = 0; i < tree_count(parts); i++)
        text.count += part_text(tree_at(parts, i)).count;
    char *at = arena_take(arena, text.count + 1);
    text.data = at;
    for (size_t i = 0; at && i < tree_count(parts); i++) {
        struct bytes part = part_text(tree_at(parts, i));
        memcpy(at, part.data, part.count);
        at += part.count;
    }
    if (at) memcpy(at, tail.data, tail.count);
    return text;
}

bool chat_values_text(const struct tree *content, struct arena *arena, struct bytes *out) {
    *out = (struct bytes){"", 0};
    if (tree_kind(content) == TREE_ARRAY) *out = joined(arena, content, *out);
    (void)tree_get_string(content, out);
    return out->data != NULL;
}

static bool chat_values_take_text(struct build *build, struct bytes text, enum chat_parts parts,
                                  struct value *out) {
    struct members part = {arena_take(build->arena, 2 * sizeof *part.pairs), 0};
    struct value item;
    if (!text.data) return false;
    if (parts != CHAT_PARTS_ONLY) return value_of_text(build->arena, text, VALUE_DATA, out);
    return part.pairs && chat_values_add_text(build, &part, "type", BYTES_LITERAL("text")) &&
           chat_values_add_text(build, &part, "text", text) && close_members(build, &part, &item) &&
           value_of_items(build->arena, &item, 1, out);
}

static bool chat_values_is_empty(const struct tree *content) {
    struct bytes text;
    if (tree_get_string(content, &text)) return text.count == 0;
    return !content || tree_is_null(content) ||
           (tree_kind(content) == TREE_ARRAY && tree_count(content) == 0);
}

static bool chat_values_take_content(struct build *build, const struct tree *message,
                                     enum chat_parts parts, bool goes_on, struct value *out) {
    const struct tree *content = tree_member(message, "content");
    enum chat_silence silence = build->facts->silence;
    struct bytes text = {"", 0};
    *out = value_none();
    if (goes_on) {
        static const struct bytes mark = {CHAT_CUT_MARK " ", sizeof CHAT_CUT_MARK};
        if (!tree_get_string(content, &text))
            return chat_values_take_text(build, joined(build->arena, content, mark), parts, out);
        char *marked = arena_take(build->arena, text.count + mark.count);
        if (!marked) return false;
        memcpy(marked, text.data, text.count);
        memcpy(marked + text.count, mark.data, mark.count);
        return chat_values_take_text(build, (struct bytes){marked, text.count + mark.count}, parts,
                                     out);
    }
    if (tree_count(tree_member(message, "tool_calls")) && chat_values_is_empty(content)) {
        if (silence == CHAT_SILENCE_NULL) return true;
        if (silence == CHAT_SILENCE_EMPTY) return chat_values_take_text(build, text, parts, out);
    }
    if (!content || tree_is_null(content)) return true;
    if (tree_get_string(content, &text)) return chat_values_take_text(build, text, parts, out);
    if (tree_kind(content) != TREE_ARRAY || parts != CHAT_PARTS_JOINED)
        return value_of_tree(build->arena, content, out);
    return chat_values_take_text(build, joined(build->arena, content, text), parts, out);
}

/* ---- messages ---- */

static enum chat_speaker speaker_of(struct bytes role) {
    if (chat_values_is_key(role, "system") || chat_values_is_key(role, "developer"))
        return CHAT_SPEAKER_SYSTEM;
    if (chat_values_is_key(role, "assistant")) return CHAT_SPEAKER_ASSISTANT;
    return chat_values_is_key(role, "tool") ? CHAT_SPEAKER_TOOL : CHAT_SPEAKER_USER;
}

static bool take_member(struct build *build, struct members *members, struct bytes key,
                        const struct tree *member) {
    struct bytes role;
    bool calls = chat_values_is_key(key, "tool_calls") && tree_kind(member) == TREE_ARRAY;
    if (calls && tree_count(member) == 0) return true;
    struct value *place = chat_values_add_member(build, members, key);
    if (!place) return false;
    if (calls) return take_calls(build, member, place);
    if (chat_values_is_key(key, "role") && tree_get_string(member, &role) &&
        chat_values_is_key(role, "developer") && !build->facts->knows_developer)
        return value_of_text(build->arena, BYTES_LITERAL("system"), VALUE_DATA, place);
    return value_of_tree(build->arena, member, place);
}

static bool take_message(struct build *build, const struct tree *message, bool goes_on,
                         struct value *out) {
    struct members members;
    struct tree_cursor cursor = {NULL};
    struct bytes key, role = {"", 0};
    const struct tree *member;
    if (tree_kind(message) != TREE_OBJECT) return value_of_tree(build->arena, message, out);
    (void)tree_get_string(tree_member(message, "role"), &role);
    struct value content;
    if (!open_members(build, message, 1, &members) ||
        !chat_values_take_content(build, message, build->facts->parts[speaker_of(role)], goes_on,
                                  &content))
        return false;
    while (tree_next_member(message, &cursor, &key, &member)) {
        bool is_content = chat_values_is_key(key, "content");
        if (tree_is_null(member) && !is_content) continue;
        if (is_content ? !chat_values_add_value(build, &members, key, content)
                       : !take_member(build, &members, key, member))
            return false;
    }
    if (!tree_member(message, "content") &&
        !chat_values_add_value(build, &members, BYTES_LITERAL("content"), content))
        return false;
    return close_members(build, &members, out);
}

static bool chat_values_take_messages(struct build *build, const struct chat_ask *ask,
                                      struct value *out) {
    const struct tree *messages;
    if (!chat_turns_fold(&build->facts->turns, ask->messages, build->arena, &messages))
        return false;
    size_t count = tree_count(messages);
    struct value *items = arena_take(build->arena, (count + 1) * sizeof *items);
    if (!items) return false;
    for (size_t i = 0; i < count; i++)
        if (!take_message(build, tree_at(messages, i), ask->continues && i + 1 == count, &items[i]))
            return false;
    return value_of_items(build->arena, items, count, out);
}

/* ---- variables ---- */

struct variables {
    struct jinja_variable *list;
    size_t count;
};

static void add_variable(struct variables *variables, const char *name, struct value value) {
    variables->list[variables->count++] = (struct jinja_variable){bytes_of(name), value};
}

static bool chat_values_add_list(struct build *build, struct variables *variables, const char *name,
                                 const struct tree *list) {
    struct value value = value_none();
    if (tree_count(list) && !value_of_tree(build->arena, list, &value)) return false;
    add_variable(variables, name, value);
    return true;
}

/* Adds the client's variables, which have priority. */
static bool chat_values_add_given(struct build *build, struct variables *variables,
                                  const struct tree *given) {
    struct tree_cursor cursor = {NULL};
    const struct tree *member;
    struct jinja_variable *variable = &variables->list[variables->count];
    while (tree_next_member(given, &cursor, &variable->name, &member)) {
        if (!value_of_tree(build->arena, member, &variable->value)) return false;
        variable = &variables->list[++variables->count];
    }
    return true;
}

static bool chat_values_add_all(struct build *build, const struct chat_source *source,
                                const struct chat_ask *ask, struct variables *variables) {
    struct value messages, effort;
    if (!chat_values_take_messages(build, ask, &messages)) return false;
    for (size_t i = 0; i < source->token_count; i++)
        variables->list[variables->count++] = source->tokens[i];
    add_variable(variables, "messages", messages);
    if (!chat_values_add_list(build, variables, "tools", ask->tools) ||
        !chat_values_add_list(build, variables, "documents", ask->documents))
        return false;
    add_variable(variables, "add_generation_prompt", value_bool(ask->prompts && !ask->continues));
    if (ask->thinking != CHAT_THINKING_DEFAULT) {
        struct value thinking = value_bool(ask->thinking == CHAT_THINKING_ON);
        add_variable(variables, "thinking", thinking);
        add_variable(variables, "enable_thinking", thinking);
    }
    if (ask->effort.count) {
        if (!value_of_text(build->arena, ask->effort, VALUE_DATA, &effort)) return false;
        add_variable(variables, "reasoning_effort", effort);
    }
    return chat_values_add_given(build, variables, ask->variables);
}

enum status chat_values_take(const struct chat_source *source, const struct chat_facts *facts,
                             const struct chat_ask *ask, struct arena *arena,
                             const struct jinja_variable **out, size_t *count_out) {
    struct build build = {.facts = facts,
                          .arena = arena,
                          .left = {{[TREE_PART_DEPTH] = LIMIT_BODY_DEPTH,
                                    [TREE_PART_KEYS] = LIMIT_BODY_KEYS,
                                    [TREE_PART_INTEGERS] = LIMIT_BODY_INTEGERS,
                                    [TREE_PART_VALUES] = LIMIT_BODY_VALUES}},
                          .status = STATUS_NO_MEMORY};
    struct tree_cursor cursor = {NULL};
    struct bytes key;
    const struct tree *member;
    size_t count = CHAT_VARIABLES_OWN;
    while (tree_next_member(ask->variables, &cursor, &key, &member))
        count++;
    struct variables variables = {arena_take(arena, (count + 1) * sizeof *variables.list), 0};
    if (!variables.list || !chat_values_add_all(&build, source, ask, &variables))
        return build.status;
    *out = variables.list;
    *count_out = variables.count;
    return STATUS_OK;
}

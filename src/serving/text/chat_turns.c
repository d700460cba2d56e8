/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/chat_turns.h"

struct folding {
    const struct chat_turns *turns;
    struct arena *arena;
    struct tree *messages;
    const struct tree *last; /* what is to be added next; NULL: nothing yet */
    bool failed;
};

/* ---- messages ---- */

static bool speaks(const struct tree *message, const char *role) {
    struct bytes text;
    return tree_get_string(tree_member(message, "role"), &text) &&
           bytes_equal(text, bytes_of(role));
}

static bool is_system(const struct tree *message) {
    return speaks(message, "system") || speaks(message, "developer");
}

static bool calls(const struct tree *message) {
    return tree_count(tree_member(message, "tool_calls")) > 0;
}

/* Of a string or of text parts, one after the other. data NULL: no memory. */
static struct bytes text_of(struct arena *arena, const struct tree *content) {
    struct bytes text = {"", 0}, part;
    if (tree_get_string(content, &text)) return text;
    size_t count = 0;
    for (size_t i = 0; i < tree_count(content); i++)
        count += tree_get_string(tree_member(tree_at(content, i), "text"), &part) ? part.count : 0;
    char *joined = arena_take(arena, count + 1), *at = joined;
    for (size_t i = 0; joined && i < tree_count(content); i++)
        if (tree_get_string(tree_member(tree_at(content, i), "text"), &part) && part.count) {
            memcpy(at, part.data, part.count);
            at += part.count;
        }
    return (struct bytes){joined, count};
}

/* The texts of both contents, an empty line between; either alone where the other has none. */
static const struct tree *join_contents(struct arena *arena, const struct tree *first,
                                        const struct tree *second) {
    struct bytes front = text_of(arena, first), back = text_of(arena, second);
    if (!front.data || !back.data) return NULL;
    size_t blank = front.count && back.count ? 2 : 0;
    char *joined = arena_take(arena, front.count + blank + back.count + 1);
    if (!joined) return NULL;
    memcpy(joined, front.data, front.count);
    memcpy(joined + front.count, "\n\n", blank);
    memcpy(joined + front.count + blank, back.data, back.count);
    return tree_make_string(arena, (struct bytes){joined, front.count + blank + back.count});
}

/* Under a key that is no C string. */
static bool set(struct arena *arena, struct tree *object, struct bytes key,
                const struct tree *value) {
    char *name = arena_take(arena, key.count + 1);
    if (!name) return false;
    memcpy(name, key.data, key.count);
    name[key.count] = '\0';
    return tree_member(object, name) || tree_set(arena, object, name, value);
}

/* The source's members that are not null and that `made` lacks. */
static bool copy_members(struct arena *arena, struct tree *made, const struct tree *source) {
    struct tree_cursor cursor = {0};
    struct bytes key;
    const struct tree *value;
    while (tree_next_member(source, &cursor, &key, &value))
        if (!tree_is_null(value) && !set(arena, made, key, value)) return false;
    return true;
}

/* A new message with this role and content; all else is the message's own, and where it has
 * nothing (or null) what `more` has. NULL: no memory. */
static struct tree *message_of(struct arena *arena, const struct tree *role,
                               const struct tree *content, const struct tree *message,
                               const struct tree *more) {
    struct tree *made = tree_make_object(arena);
    bool done = made && tree_set(arena, made, "role", role) &&
                (!content || tree_set(arena, made, "content", content)) &&
                copy_members(arena, made, message) && copy_members(arena, made, more);
    return done ? made : NULL;
}

/* The assistant's message with one of its calls; what else it says comes with the first. NULL: no
 * memory. */
static struct tree *call_of(struct arena *arena, const struct tree *message, size_t index) {
    struct tree *made = tree_make_object(arena), *list = tree_make_array(arena);
    const struct tree *call = tree_at(tree_member(message, "tool_calls"), index);
    if (!made || !list || !tree_append(arena, list, call) ||
        !tree_set(arena, made, "role", tree_member(message, "role")) ||
        !tree_set(arena, made, "tool_calls", list))
        return NULL;
    bool done = index ? tree_set(arena, made, "content", tree_make_null())
                      : copy_members(arena, made, message);
    return done ? made : NULL;
}

/* ---- turns ---- */

/* Whether the next message becomes a part of the last one. */
static bool joins(const struct folding *fold, const struct tree *next) {
    const struct chat_turns *turns = fold->turns;
    const struct tree *last = fold->last;
    if (!last) return false;
    if (is_system(last) && is_system(next)) return turns->systems != CHAT_SYSTEMS_ANYWHERE;
    if (speaks(last, "user") && speaks(next, "user")) return turns->joins_users;
    if (speaks(last, "tool") && speaks(next, "user")) return turns->joins_result;
    return turns->joins_assistants && speaks(last, "assistant") && speaks(next, "assistant") &&
           !calls(last);
}

/* Whose message it is in these turns: a user's, where the template takes no system message there. */
static bool is_users(const struct folding *fold, const struct tree *message) {
    switch (fold->turns->systems) {
    case CHAT_SYSTEMS_ANYWHERE:
        return false;
    case CHAT_SYSTEMS_IN_FRONT:
        return is_system(message) && fold->last && !is_system(fold->last);
    case CHAT_SYSTEMS_NOWHERE:
        return is_system(message);
    }
    return false;
}

static const struct tree *users_own(struct arena *arena, const struct tree *message) {
    const struct tree *role = tree_make_string(arena, BYTES_LITERAL("user"));
    return role ? message_of(arena, role, tree_member(message, "content"), message, NULL) : NULL;
}

static const struct tree *joined(struct arena *arena, const struct tree *last,
                                 const struct tree *next) {
    const struct tree *content =
        join_contents(arena, tree_member(last, "content"), tree_member(next, "content"));
    return content ? message_of(arena, tree_member(last, "role"), content, last, next) : NULL;
}

static void add(struct folding *fold, const struct tree *next) {
    if (is_users(fold, next)) next = users_own(fold->arena, next);
    if (next && joins(fold, next))
        next = joined(fold->arena, fold->last, next);
    else if (fold->last && !tree_append(fold->arena, fold->messages, fold->last))
        next = NULL;
    fold->last = next;
    fold->failed |= !next;
}

static size_t count_results(const struct tree *messages, size_t from) {
    size_t count = 0;
    while (speaks(tree_at(messages, from + count), "tool"))
        count++;
    return count;
}

/* Whether the result is that call's: by its id, or by its place where it has none. */
static bool answers(const struct tree *result, size_t index, const struct tree *call,
                    size_t call_index) {
    struct bytes id, of;
    if (tree_get_string(tree_member(result, "tool_call_id"), &id) &&
        tree_get_string(tree_member(call, "id"), &of))
        return bytes_equal(id, of);
    return index == call_index;
}

/* Each call with its results behind it; results of none of them come last. Returns how many results
 * there were. */
static size_t add_calls(struct folding *fold, const struct tree *messages, size_t at) {
    const struct tree *message = tree_at(messages, at), *list = tree_member(message, "tool_calls");
    size_t count = count_results(messages, at + 1), calls_count = tree_count(list);
    for (size_t c = 0; c < calls_count && !fold->failed; c++) {
        const struct tree *one = call_of(fold->arena, message, c);
        fold->failed |= !one;
        if (one) add(fold, one);
        for (size_t r = 0; r < count && !fold->failed; r++)
            if (answers(tree_at(messages, at + 1 + r), r, tree_at(list, c), c))
                add(fold, tree_at(messages, at + 1 + r));
    }
    for (size_t r = 0; r < count && !fold->failed; r++) {
        const struct tree *result = tree_at(messages, at + 1 + r);
        bool told = false;
        for (size_t c = 0; c < calls_count; c++)
            told |= answers(result, r, tree_at(list, c), c);
        if (!told) add(fold, result);
    }
    return count;
}

bool chat_turns_fold(const struct chat_turns *turns, const struct tree *messages,
                     struct arena *arena, const struct tree **out) {
    struct folding fold = {.turns = turns, .arena = arena, .messages = tree_make_array(arena)};
    if (turns->systems == CHAT_SYSTEMS_ANYWHERE && !turns->joins_users &&
        !turns->joins_assistants && !turns->joins_result && !turns->splits_calls) {
        *out = messages;
        return true;
    }
    if (!fold.messages) return false;
    for (size_t i = 0; i < tree_count(messages) && !fold.failed; i++)
        if (turns->splits_calls && tree_count(tree_member(tree_at(messages, i), "tool_calls")) > 1)
            i += add_calls(&fold, messages, i);
        else
            add(&fold, tree_at(messages, i));
    if (fold.failed || (fold.last && !tree_append(arena, fold.messages, fold.last))) return false;
    *out = fold.messages;
    return true;
}

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

/* A new message with this role and content; all else is the message's own, and where it has
 * nothing (or null) what `more` has. NULL: no memory. */
static struct tree *message_of(struct arena *arena, const struct tree *role,
                               const struct tree *content, const struct tree *message,
                               const struct tree *more) {
    struct tree *made = tree_make_object(arena);
    const struct tree *sources[] = {message, more}, *value;
    if (!made || !tree_set(arena, made, "role", role)) return NULL;
    if (content && !tree_set(arena, made, "content", content)) return NULL;
    for (size_t i = 0; i < 2; i++) {
        struct tree_cursor cursor = {0};
        struct bytes key;
        while (tree_next_member(sources[i], &cursor, &key, &value))
            if (!tree_is_null(value) && !set(arena, made, key, value)) return NULL;
    }
    return made;
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

bool chat_turns_fold(const struct chat_turns *turns, const struct tree *messages,
                     struct arena *arena, const struct tree **out) {
    struct folding fold = {.turns = turns, .arena = arena, .messages = tree_make_array(arena)};
    if (turns->systems == CHAT_SYSTEMS_ANYWHERE && !turns->joins_users &&
        !turns->joins_assistants && !turns->joins_result) {
        *out = messages;
        return true;
    }
    if (!fold.messages) return false;
    for (size_t i = 0; i < tree_count(messages) && !fold.failed; i++)
        add(&fold, tree_at(messages, i));
    if (fold.failed || (fold.last && !tree_append(arena, fold.messages, fold.last))) return false;
    *out = fold.messages;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/chat_turns.h"

#include <string.h>

/* A text to which others are appended. */
struct joined_text {
    char *data;
    size_t count, room;
};

struct folding {
    const struct chat_turns *turns;
    struct arena *arena;
    struct tree *messages;
    const struct tree *last; /* message to be added next; NULL: none yet */
    struct tree *grown;      /* the last message, if others were joined to it; else NULL */
    struct joined_text text; /* content of `grown` */
    bool failed;
};

/* ---- messages ---- */

static bool chat_turns_speaks(const struct tree *message, const char *role) {
    struct bytes text;
    return tree_get_string(tree_member(message, "role"), &text) &&
           bytes_equal(text, bytes_of(role));
}

static bool is_system(const struct tree *message) {
    return chat_turns_speaks(message, "system") || chat_turns_speaks(message, "developer");
}

static bool calls(const struct tree *message) {
    return tree_count(tree_member(message, "tool_calls")) > 0;
}

/* ---- texts ---- */

static bool chat_turns_append(struct arena *arena, struct joined_text *text, struct bytes more) {
    if (text->count + more.count > text->room) {
        size_t room = 2 * (text->count + more.count);
        char *data = arena_take(arena, room);
        if (!data) return false;
        if (text->count) memcpy(data, text->data, text->count);
        *text = (struct joined_text){data, text->count, room};
    }
    if (more.count) memcpy(text->data + text->count, more.data, more.count);
    text->count += more.count;
    return true;
}

/* Appends a string or text parts. An empty line precedes them if there is text already. */
static bool append_content(struct arena *arena, struct joined_text *text,
                           const struct tree *content) {
    struct bytes part, blank = text->count ? BYTES_LITERAL("\n\n") : BYTES_LITERAL("");
    size_t parts = tree_kind(content) == TREE_STRING ? 1 : tree_count(content);
    for (size_t i = 0; i < parts; i++) {
        const struct tree *from =
            tree_kind(content) == TREE_STRING ? content : tree_member(tree_at(content, i), "text");
        if (!tree_get_string(from, &part) || part.count == 0) continue;
        if (!chat_turns_append(arena, text, blank) || !chat_turns_append(arena, text, part))
            return false;
        blank.count = 0;
    }
    return true;
}

/* ---- members ---- */

/* Sets a member unless the object has one of that key. */
static bool chat_turns_set(struct arena *arena, struct tree *object, struct bytes key,
                           const struct tree *value) {
    const char *name = arena_copy(arena, key).data; /* keys must be terminated */
    return name && (tree_member(object, name) || tree_set(arena, object, name, value));
}

/* Copies members of the source that are not null and that `made` lacks. */
static bool copy_members(struct arena *arena, struct tree *made, const struct tree *source) {
    struct tree_cursor cursor = {0};
    struct bytes key;
    const struct tree *value;
    while (tree_next_member(source, &cursor, &key, &value))
        if (!tree_is_null(value) && !chat_turns_set(arena, made, key, value)) return false;
    return true;
}

/* Makes an assistant message with one of the message's calls. Only the first one has the rest of
 * the message's content. Returns NULL if memory is out. */
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

/* True if the next message is joined to the last one. */
static bool joins(const struct folding *fold, const struct tree *next) {
    const struct chat_turns *turns = fold->turns;
    const struct tree *last = fold->last;
    if (!last) return false;
    if (is_system(last) && is_system(next)) return turns->systems != CHAT_SYSTEMS_ANYWHERE;
    if (chat_turns_speaks(last, "user") && chat_turns_speaks(next, "user"))
        return turns->joins_users;
    if (chat_turns_speaks(last, "tool") && chat_turns_speaks(next, "user"))
        return turns->joins_result;
    return turns->joins_assistants && chat_turns_speaks(last, "assistant") &&
           chat_turns_speaks(next, "assistant") && !calls(last);
}

/* True if the message counts as a user's in these turns, because the template does not support a
 * system message there. */
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
    struct tree *made = tree_make_object(arena);
    const struct tree *role = tree_make_string(arena, BYTES_LITERAL("user"));
    bool done = made && tree_set(arena, made, "role", role) && copy_members(arena, made, message);
    return done ? made : NULL;
}

/* Prepares the last message for joining: its content as one text, which is set at the end. */
static bool begin_growing(struct folding *fold) {
    struct arena *arena = fold->arena;
    fold->text.count = 0;
    fold->grown = tree_make_object(arena);
    return fold->grown && tree_set(arena, fold->grown, "role", tree_member(fold->last, "role")) &&
           tree_set(arena, fold->grown, "content", tree_make_null()) &&
           copy_members(arena, fold->grown, fold->last) &&
           append_content(arena, &fold->text, tree_member(fold->last, "content"));
}

/* Joins the next message to the last one, with an empty line between their texts. Other members
 * come from the last message, or from the next one where they are absent or null. */
static bool chat_turns_join(struct folding *fold, const struct tree *next) {
    if (!fold->grown && !begin_growing(fold)) return false;
    if (!append_content(fold->arena, &fold->text, tree_member(next, "content")) ||
        !copy_members(fold->arena, fold->grown, next))
        return false;
    fold->last = fold->grown;
    return true;
}

static bool end_last(struct folding *fold) {
    struct bytes text = {fold->text.count ? fold->text.data : "", fold->text.count};
    if (fold->grown &&
        !tree_set(fold->arena, fold->grown, "content", tree_make_string(fold->arena, text)))
        return false;
    fold->grown = NULL;
    return !fold->last || tree_append(fold->arena, fold->messages, fold->last);
}

static void add(struct folding *fold, const struct tree *next) {
    if (is_users(fold, next)) next = users_own(fold->arena, next);
    if (next && joins(fold, next)) {
        fold->failed |= !chat_turns_join(fold, next);
        return;
    }
    fold->failed |= !next || !end_last(fold);
    fold->last = next;
}

/* ---- calls ---- */

static size_t count_results(const struct tree *messages, size_t from) {
    size_t count = 0;
    while (chat_turns_speaks(tree_at(messages, from + count), "tool"))
        count++;
    return count;
}

#define NO_RESULT UINT32_MAX

/* The results after a turn with calls, by call. */
struct call_results {
    const struct tree *messages, *calls;
    size_t from;      /* index of the first result */
    uint32_t *firsts; /* [calls + 1] first result of each call; last: of no call; or NO_RESULT */
    uint32_t *nexts;  /* [results] next result of the same call */
};

/* Maps ids to indices of calls. Returns NULL if memory is out. */
static struct tree *number_calls(struct arena *arena, const struct tree *calls) {
    struct tree *numbers = tree_make_object(arena);
    bool done = numbers != NULL;
    struct bytes id;
    for (size_t c = 0; done && c < tree_count(calls); c++)
        if (tree_get_string(tree_member(tree_at(calls, c), "id"), &id))
            done = chat_turns_set(arena, numbers, id, tree_make_integer(arena, (int64_t)c));
    return done ? numbers : NULL;
}

/* The index of a result's call. It is the same index if the ids are equal (they may be only names)
 * or the result has none. Otherwise it is the first call with the result's id. If there is no such
 * call, it is the same index if that call has no id, and else the number of calls. */
static size_t find_call(struct arena *arena, const struct call_results *results,
                        const struct tree *numbers, size_t index) {
    const struct tree *result = tree_at(results->messages, results->from + index);
    const struct tree *call = tree_at(results->calls, index);
    struct bytes id, of;
    int64_t number;
    bool has_id = tree_get_string(tree_member(result, "tool_call_id"), &id);
    bool is_asked = tree_get_string(tree_member(call, "id"), &of);
    if (call && (has_id && is_asked ? bytes_equal(id, of) : !has_id)) return index;
    const char *key = has_id ? arena_copy(arena, id).data : NULL;
    if (key && tree_get_integer(tree_member(numbers, key), &number)) return (size_t)number;
    return call && !is_asked ? index : tree_count(results->calls);
}

static bool sort_results(struct arena *arena, struct call_results *results, size_t count) {
    const struct tree *numbers = number_calls(arena, results->calls);
    size_t calls = tree_count(results->calls);
    results->firsts = arena_take(arena, (calls + 1) * sizeof *results->firsts);
    results->nexts = arena_take(arena, (count + 1) * sizeof *results->nexts);
    if (!numbers || !results->firsts || !results->nexts) return false;
    for (size_t c = 0; c <= calls; c++)
        results->firsts[c] = NO_RESULT;
    for (size_t r = count; r-- > 0;) {
        uint32_t *first = &results->firsts[find_call(arena, results, numbers, r)];
        results->nexts[r] = *first;
        *first = (uint32_t)r;
    }
    return true;
}

static void add_results(struct folding *fold, const struct call_results *results, size_t call) {
    for (uint32_t r = results->firsts[call]; r != NO_RESULT && !fold->failed; r = results->nexts[r])
        add(fold, tree_at(results->messages, results->from + r));
}

/* Adds each call followed by its results, and then results without a call. Returns the number of
 * results. */
static size_t chat_turns_add_calls(struct folding *fold, const struct tree *messages, size_t at) {
    const struct tree *message = tree_at(messages, at);
    struct call_results results = {messages, tree_member(message, "tool_calls"), .from = at + 1};
    size_t count = count_results(messages, at + 1), calls = tree_count(results.calls);
    fold->failed |= !sort_results(fold->arena, &results, count);
    for (size_t c = 0; c < calls && !fold->failed; c++) {
        const struct tree *one = call_of(fold->arena, message, c);
        fold->failed |= !one;
        if (one) add(fold, one);
        add_results(fold, &results, c);
    }
    if (!fold->failed) add_results(fold, &results, calls);
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
            i += chat_turns_add_calls(&fold, messages, i);
        else
            add(&fold, tree_at(messages, i));
    if (fold.failed || !end_last(&fold)) return false;
    *out = fold.messages;
    return true;
}

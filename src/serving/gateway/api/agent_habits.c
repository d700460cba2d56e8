/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/agent_habits.h"

#include "base/check.h"
#include "serving/gateway/api/api_body.h"
#include "serving/gateway/api/dialect.h"

#define CACHE_MARK "cache_control"

enum { USER_ID_BYTES_MAX = 1024 }; /* of an agent's; a longer one stays as it is */

static const struct {
    const char *name, *place, *what; /* `place` and `what` are the warning */
} habits[] = {
    [AGENT_HABIT_BILLING_LINE] = {"billing_line", "system",
                                  "began with a billing line, which was left out "
                                  "(--agent-habits)"},
    [AGENT_HABIT_CACHE_MARKS] = {"cache_control", "cache_control", "was left out (--agent-habits)"},
    [AGENT_HABIT_SESSION_ID] = {"session_id", "metadata.user_id",
                                "named a session, which was left out (--agent-habits)"},
};

const char *agent_habits_name(enum agent_habit habit) {
    check(habit < AGENT_HABIT_COUNT);
    return habits[habit].name;
}

struct habit_edit {
    struct arena *arena;
    uint32_t found; /* bits of enum agent_habit */
    bool failed;    /* memory ran out; trees are unchanged from then on */
};

/* ---- changed copies of trees ---- */

/* Copies an object with another value for a member, or without the member (NULL). */
static const struct tree *edited(struct habit_edit *edit, const struct tree *object,
                                 const char *name, const struct tree *value) {
    struct tree *made = tree_make_object(edit->arena);
    struct tree_cursor cursor = {0};
    struct bytes key;
    const struct tree *member;
    bool done = made != NULL;
    while (done && tree_next_member(object, &cursor, &key, &member)) {
        bool same = bytes_equal(key, bytes_of(name));
        if (same && !value) continue;
        struct bytes copy = arena_copy(edit->arena, key); /* keys must be terminated */
        done = copy.data && tree_set(edit->arena, made, copy.data, same ? value : member);
    }
    if (!done) edit->failed = true;
    return done ? made : object;
}

/* Applies a change to each element. Returns the array itself if none changes. */
static const struct tree *edited_each(struct habit_edit *edit, const struct tree *array,
                                      const struct tree *(*change)(struct habit_edit *edit,
                                                                   const struct tree *element)) {
    struct tree *made = NULL;
    for (size_t i = 0; i < tree_count(array) && !edit->failed; i++) {
        const struct tree *element = tree_at(array, i), *changed = change(edit, element);
        if (changed == element && !made) continue;
        if (!made) made = tree_make_array(edit->arena);
        for (size_t before = tree_count(made); made && before < i; before++)
            if (!tree_append(edit->arena, made, tree_at(array, before))) edit->failed = true;
        if (!made || !tree_append(edit->arena, made, changed)) edit->failed = true;
    }
    return made && !edit->failed ? made : array;
}

/* ---- cache marks ---- */

static const struct tree *unmarked(struct habit_edit *edit, const struct tree *object) {
    if (!tree_member(object, CACHE_MARK)) return object;
    edit->found |= 1u << AGENT_HABIT_CACHE_MARKS;
    return edited(edit, object, CACHE_MARK, NULL);
}

/* Replaces a list in an object by its changed copy. */
static const struct tree *with_unmarked(struct habit_edit *edit, const struct tree *object,
                                        const char *name) {
    const struct tree *list = tree_member(object, name);
    const struct tree *changed = edited_each(edit, list, unmarked);
    return changed == list ? object : edited(edit, object, name, changed);
}

static const struct tree *unmarked_message(struct habit_edit *edit, const struct tree *message) {
    message = with_unmarked(edit, unmarked(edit, message), "content");
    return with_unmarked(edit, message, "tool_calls");
}

static const struct tree *unmarked_tool(struct habit_edit *edit, const struct tree *tool) {
    tool = unmarked(edit, tool);
    const struct tree *function = tree_member(tool, "function");
    const struct tree *changed = unmarked(edit, function);
    return changed == function ? tool : edited(edit, tool, "function", changed);
}

/* ---- the billing line ---- */

static bool is_pair_name_byte(char c) {
    return (c >= 'a' && c <= 'z') || c == '_';
}

static bool is_pair_value_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._-+", c));
}

/* Returns the bytes of " NAME=VALUE;" at the start of the text; 0: it is none. */
static size_t pair_bytes(struct bytes text) {
    size_t at = 1, name_end, value_end;
    if (text.count == 0 || text.data[0] != ' ') return 0;
    while (at < text.count && is_pair_name_byte(text.data[at]))
        at++;
    name_end = at;
    if (name_end == 1 || at == text.count || text.data[at] != '=') return 0;
    for (at++; at < text.count && is_pair_value_byte(text.data[at]);)
        at++;
    value_end = at;
    bool whole = value_end > name_end + 1 && at < text.count && text.data[at] == ';';
    return whole ? at + 1 : 0;
}

/* Returns the bytes of a billing line at the start of the text, with its end; 0: there is none. */
static size_t billing_line_bytes(struct bytes text) {
    const struct bytes start = BYTES_LITERAL("x-anthropic-billing-header: cc_version=");
    if (!bytes_start_with(text, start)) return 0;
    size_t at = strlen("x-anthropic-billing-header:"), more;
    while ((more = pair_bytes((struct bytes){text.data + at, text.count - at})))
        at += more;
    bool any = text.data[at - 1] == ';';
    if (at == text.count) return any ? at : 0;
    return any && text.data[at] == '\n' ? at + 1 : 0;
}

/* The text of a system message's content, a string or parts: that of the first part. */
static const struct tree *first_text(const struct tree *content) {
    return tree_kind(content) == TREE_ARRAY ? tree_member(tree_at(content, 0), "text") : content;
}

/* Copies the content with another first text. Without text its part goes, and one part that is left
 * becomes its string, as if the other had never been there. */
static const struct tree *with_first_text(struct habit_edit *edit, const struct tree *content,
                                          struct bytes text) {
    const struct tree *string = tree_make_string(edit->arena, text);
    struct tree *parts = tree_make_array(edit->arena);
    size_t from = text.count ? 0 : 1;
    if (!string || !parts) edit->failed = true;
    if (edit->failed || tree_kind(content) != TREE_ARRAY || tree_count(content) == 1) return string;
    if (from && tree_count(content) == 2) return tree_member(tree_at(content, 1), "text");
    for (size_t i = from; i < tree_count(content); i++) {
        const struct tree *part = tree_at(content, i);
        if (i == 0) part = edited(edit, part, "text", string);
        if (!tree_append(edit->arena, parts, part)) edit->failed = true;
    }
    return parts;
}

/* Leaves a billing line out of the first message. A message of nothing else goes, if others
 * follow. */
static const struct tree *unbilled(struct habit_edit *edit, const struct tree *messages) {
    const struct tree *first = tree_at(messages, 0), *role = tree_member(first, "role");
    const struct tree *content = tree_member(first, "content");
    struct tree *made = tree_make_array(edit->arena);
    struct bytes text, left;
    if (!api_reader_is(role, "system") && !api_reader_is(role, "developer")) return messages;
    if (!content || !tree_get_string(first_text(content), &text)) return messages;
    size_t count = billing_line_bytes(text);
    if (count == 0) return messages;
    edit->found |= 1u << AGENT_HABIT_BILLING_LINE;
    content = with_first_text(edit, content, (struct bytes){text.data + count, text.count - count});
    bool is_empty = tree_get_string(content, &left) && left.count == 0;
    if (!is_empty || tree_count(messages) == 1) first = edited(edit, first, "content", content);
    if (!made) edit->failed = true;
    for (size_t i = is_empty && tree_count(messages) > 1; i < tree_count(messages); i++)
        if (edit->failed || !tree_append(edit->arena, made, i ? tree_at(messages, i) : first))
            edit->failed = true;
    return made;
}

/* ---- the session ---- */

/* Leaves the session out of a user id that is a JSON object and says more than that. */
static struct bytes user_without_session(struct habit_edit *edit, struct bytes user_id) {
    const struct tree *user;
    struct error error;
    struct bytes session;
    if (user_id.count == 0 || user_id.count > USER_ID_BYTES_MAX || user_id.data[0] != '{')
        return user_id;
    if (tree_parse(edit->arena, user_id, "user_id", &user, &error)) return user_id;
    if (!tree_get_string(tree_member(user, "session_id"), &session)) return user_id;
    struct bytes text = tree_text(edit->arena, edited(edit, user, "session_id", NULL));
    if (!text.data) edit->failed = true;
    if (bytes_equal(text, BYTES_LITERAL("{}"))) return user_id;
    edit->found |= 1u << AGENT_HABIT_SESSION_ID;
    return text;
}

/* ---- all of them ---- */

bool agent_habits_apply(struct api_reader *reader, struct api_request *out) {
    struct habit_edit edit = {.arena = reader->arena};
    if (!out->messages) return true;
    const struct tree *messages = unbilled(&edit, out->messages), *tools = out->tools;
    if (reader->dialect->number == DIALECT_CHAT) {
        messages = edited_each(&edit, messages, unmarked_message);
        tools = edited_each(&edit, tools, unmarked_tool);
    }
    struct bytes user_id = out->user_id;
    if (reader->dialect->number == DIALECT_ANTHROPIC)
        user_id = user_without_session(&edit, user_id);
    if (edit.failed) return api_reader_no_memory(reader);
    out->user_id = user_id;
    out->messages = messages;
    out->tools = tools;
    out->left_out = edit.found;
    for (size_t i = 0; i < ARRAY_COUNT(habits); i++)
        if ((edit.found >> i & 1) && !api_body_warn(reader, out, habits[i].place, habits[i].what))
            return false;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/conversation.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/tree.h"
#include "base/utf8.h"
#include "command/command.h"

#define TREE_BYTES_EACH 8 /* of a tree, for each byte of its text */
#define TREE_BYTES_MORE ((size_t)64 << 10)

enum status conversation_add(struct chat_conversation *conversation, const char *role,
                             struct bytes content, struct error *error) {
    size_t capacity = 3 * content.count + 1, count = 0; /* an invalid byte may become three */
    if (conversation->count == CONVERSATION_MESSAGES_MAX)
        return error_set(error, STATUS_FULL, "the conversation has %d messages: /new begins one",
                         CONVERSATION_MESSAGES_MAX);
    char *copy = malloc(capacity);
    if (!copy) return error_set(error, STATUS_NO_MEMORY, "no memory for the conversation");
    check(!utf8_repair(content, copy, capacity, &count));
    conversation->messages[conversation->count++] = (struct chat_turn){role, {copy, count}};
    return STATUS_OK;
}

void conversation_drop_last(struct chat_conversation *conversation) {
    free((void *)(uintptr_t)conversation->messages[--conversation->count].content.data);
}

void conversation_clear(struct chat_conversation *conversation) {
    while (conversation->count)
        conversation_drop_last(conversation);
}

/* ---- as a file ---- */

void conversation_write(struct json_writer *writer, const struct chat_conversation *conversation) {
    json_writer_text(writer, "\"messages\":[");
    for (size_t i = 0; i < conversation->count; i++)
        json_writer_print(writer, "%s\n{\"role\":\"%s\",\"content\":\"%.*s\"}", i ? "," : "",
                          conversation->messages[i].role,
                          PRINT_BYTES(conversation->messages[i].content));
    json_writer_text(writer, "\n]");
}

static void conversation_write_file(struct json_writer *writer, const void *subject) {
    json_writer_text(writer, "{");
    conversation_write(writer, subject);
    json_writer_text(writer, "}\n");
}

enum status conversation_save(const struct chat_conversation *conversation, const char *path,
                              bool replaces, struct error *error) {
    return command_write_private("/save", path, replaces, conversation_write_file, conversation,
                                 error);
}

static const char *role_named(struct bytes name) {
    static const char *const roles[] = {"system", "user", "assistant"};
    for (size_t i = 0; i < ARRAY_COUNT(roles); i++)
        if (bytes_equal(name, bytes_of(roles[i]))) return roles[i];
    return NULL;
}

static enum status read_messages(const struct tree *root, const char *path,
                                 struct chat_conversation *conversation, struct error *error) {
    const struct tree *list = tree_member(root, "messages");
    if (!list || tree_kind(list) != TREE_ARRAY)
        return error_set(error, STATUS_INVALID,
                         "%.300s: expected {\"messages\": [...]}, as /save writes it", path);
    for (size_t i = 0; i < tree_count(list); i++) {
        struct bytes role = {0}, content;
        const struct tree *message = tree_at(list, i);
        if (!tree_get_string(tree_member(message, "role"), &role) || !role_named(role) ||
            !tree_get_string(tree_member(message, "content"), &content))
            return error_set(error, STATUS_INVALID,
                             "%.300s: messages[%zu]: expected the role \"system\", \"user\" or "
                             "\"assistant\", and a content that is a string",
                             path, i);
        enum status status = conversation_add(conversation, role_named(role), content, error);
        if (status) return status;
    }
    return STATUS_OK;
}

enum status conversation_load(struct chat_conversation *conversation, const char *path,
                              struct error *error) {
    struct bytes text;
    struct arena arena;
    const struct tree *root;
    enum status status = file_take(path, CONVERSATION_FILE_BYTES_MAX, &text, error);
    if (status) return status;
    struct chat_conversation *loaded = calloc(1, sizeof *loaded);
    size_t room = TREE_BYTES_EACH * text.count + TREE_BYTES_MORE;
    char *memory = malloc(room);
    if (!memory || !loaded) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for %.300s", path);
    } else {
        arena_over(&arena, memory, room);
        status = tree_parse(&arena, text, path, &root, error);
        if (!status) status = read_messages(root, path, loaded, error);
    }
    if (!status) {
        conversation_clear(conversation);
        *conversation = *loaded;
    } else if (loaded) {
        conversation_clear(loaded);
    }
    free(loaded);
    free(memory);
    free((void *)(uintptr_t)text.data);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load_answer.h"

#include <stdio.h>

#include "base/tree.h"

/* Copies one line of whole characters. Control characters become blanks. */
static void copy_line(struct bytes text, char *out, size_t out_bytes) {
    size_t count = text.count < out_bytes ? text.count : out_bytes - 1;
    while (count && count < text.count && (text.data[count] & 0xC0) == 0x80)
        count--;
    for (size_t i = 0; i < count; i++)
        out[i] = (unsigned char)text.data[i] < ' ' || text.data[i] == 0x7F ? ' ' : text.data[i];
    out[count] = 0;
}

/* {"error": {"message": …}}, {"error": …}, {"message": …} or {"detail": …}. */
static bool find_message(const struct tree *root, char *out, size_t out_bytes) {
    const struct tree *error = tree_member(root, "error");
    const struct tree *places[] = {tree_member(error, "message"), error,
                                   tree_member(root, "message"), tree_member(root, "detail")};
    struct bytes text;
    for (size_t i = 0; i < 4; i++)
        if (tree_get_string(places[i], &text)) {
            copy_line(text, out, out_bytes);
            return true;
        }
    return false;
}

static bool has_text(const struct tree *object, const char *key) {
    struct bytes text;
    return tree_get_string(tree_member(object, key), &text) && text.count > 0;
}

static void load_answer_read_choice(const struct tree *choice, struct load_answer *answer) {
    const struct tree *delta = tree_member(choice, "delta"), *text = tree_member(choice, "text");
    size_t ids = tree_count(tree_member(choice, "token_ids"));
    struct bytes reason;
    answer->finished |= tree_get_string(tree_member(choice, "finish_reason"), &reason);
    answer->token_ids += ids > UINT32_MAX ? UINT32_MAX : (uint32_t)ids;
    answer->has_tokens |= ids > 0 || has_text(delta, "content") ||
                          has_text(delta, "reasoning_content") || has_text(delta, "reasoning");
    /* A token may be part of a character, which has no text yet. */
    if (text && !answer->finished) answer->has_tokens = true;
    if (has_text(choice, "text")) answer->has_tokens = true;
}

enum status load_answer_read(struct bytes data, void *memory, size_t memory_bytes,
                             struct load_answer *answer_out, struct error *error) {
    struct load_answer answer = {0};
    struct arena arena;
    const struct tree *root;
    if (bytes_equal(data, BYTES_LITERAL("[DONE]"))) {
        *answer_out = (struct load_answer){.done = true};
        return STATUS_OK;
    }
    arena_over(&arena, memory, memory_bytes);
    enum status status = tree_parse(&arena, data, "event", &root, error);
    if (status) return status;
    if (tree_kind(root) != TREE_OBJECT)
        return error_set(error, STATUS_INVALID, "event: expected an object, found %s",
                         tree_name(root));
    const struct tree *failure = tree_member(root, "error");
    if (failure && !tree_is_null(failure)) {
        answer.failed = true;
        if (!find_message(root, answer.message, sizeof answer.message))
            snprintf(answer.message, sizeof answer.message, "an error without a message");
    }
    const struct tree *choices = tree_member(root, "choices");
    for (size_t i = 0; i < tree_count(choices); i++)
        load_answer_read_choice(tree_at(choices, i), &answer);
    const struct tree *usage = tree_member(root, "usage");
    int64_t prompt, output;
    if (tree_get_integer(tree_member(usage, "prompt_tokens"), &prompt) &&
        tree_get_integer(tree_member(usage, "completion_tokens"), &output) && prompt >= 0 &&
        output >= 0) {
        answer.has_usage = true;
        answer.prompt_tokens = (uint64_t)prompt;
        answer.output_tokens = (uint64_t)output;
        const struct tree *details = tree_member(usage, "prompt_tokens_details");
        int64_t cached = 0;
        if ((tree_get_integer(tree_member(details, "cached_tokens"), &cached) ||
             tree_get_integer(tree_member(usage, "prompt_cache_hit_tokens"), &cached)) &&
            cached > 0)
            answer.cached_tokens = (uint64_t)cached;
    }
    *answer_out = answer;
    return STATUS_OK;
}

enum status load_answer_model(struct bytes body, void *memory, size_t memory_bytes, char *id_out,
                              size_t id_bytes, struct error *error) {
    struct arena arena;
    const struct tree *root;
    struct bytes id;
    arena_over(&arena, memory, memory_bytes);
    enum status status = tree_parse(&arena, body, "list of models", &root, error);
    if (status) return status;
    if (!tree_get_string(tree_member(tree_at(tree_member(root, "data"), 0), "id"), &id))
        return error_set(error, STATUS_INVALID, "the list of models has no data[0].id");
    copy_line(id, id_out, id_bytes);
    return STATUS_OK;
}

bool load_answer_error(struct bytes body, void *memory, size_t memory_bytes, char *message_out,
                       size_t message_bytes) {
    struct arena arena;
    const struct tree *root;
    arena_over(&arena, memory, memory_bytes);
    return !tree_parse(&arena, body, "answer", &root, NULL) &&
           find_message(root, message_out, message_bytes);
}

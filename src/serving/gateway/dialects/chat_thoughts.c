/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/chat_thoughts.h"

#include "base/check.h"
#include "serving/gateway/dialects/chat_builder.h"

/* ---- reasoning in blocks ---- */

/* Returns the member that has the reasoning text of a block of this type; NULL: it has none, or it
 * is encrypted. */
static const char *chat_thoughts_text_member(const struct tree *block) {
    static const struct {
        const char *type, *member;
    } kinds[] = {
        {"reasoning.text", "text"}, {"reasoning.summary", "summary"}, {"thinking", "thinking"}};
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++)
        if (api_reader_is_type(block, kinds[i].type)) return kinds[i].member;
    return NULL;
}

/* Joins the texts of all blocks with newlines. *out stays NULL if there are none. */
static bool join_blocks(struct api_reader *reader, const char *place, const struct tree *blocks,
                        const struct tree **out) {
    struct tree *texts = tree_make_array(reader->arena);
    if (tree_kind(blocks) != TREE_ARRAY)
        return api_reader_wrong_type(reader, place, "an array", blocks);
    for (size_t i = 0; i < tree_count(blocks); i++) {
        const struct tree *block = tree_at(blocks, i);
        const char *member = chat_thoughts_text_member(block);
        const struct tree *text = member ? api_reader_string(block, member) : NULL;
        if (text && !tree_append(reader->arena, texts, text)) return api_reader_no_memory(reader);
    }
    if (tree_count(texts) == 0) return true;
    *out = chat_builder_join(reader->arena, texts);
    return *out || api_reader_no_memory(reader);
}

/* ---- messages ---- */

/* Finds the reasoning of a message. *out NULL: it has none, or has it under this server's own
 * name. */
static bool find_thoughts(struct api_reader *reader, const struct tree *message, size_t index,
                          const struct tree **out) {
    static const struct {
        const char *name, *rest;
        bool blocks;
    } names[] = {{"reasoning", ".reasoning", false},
                 {"reasoning_details", ".reasoning_details", true},
                 {"thinking_blocks", ".thinking_blocks", true}};
    *out = NULL;
    if (!api_reader_is(tree_member(message, "role"), "assistant")) return true;
    if (api_reader_given(message, "reasoning_content")) return true;
    for (size_t i = 0; i < ARRAY_COUNT(names) && !*out; i++) {
        const struct tree *value = api_reader_given(message, names[i].name);
        struct api_place place = api_reader_place_of("messages", index, names[i].rest);
        struct bytes text;
        if (!value) continue;
        if (names[i].blocks) {
            if (!join_blocks(reader, place.text, value, out)) return false;
            continue;
        }
        if (!tree_get_string(value, &text))
            return api_reader_wrong_type(reader, place.text, "a string", value);
        if (text.count) *out = value;
    }
    return true;
}

bool chat_thoughts_messages(struct api_reader *reader, const struct tree *messages,
                            const struct tree **out) {
    struct tree *made = NULL;
    size_t count = tree_count(messages);
    *out = messages;
    for (size_t i = 0; i < count; i++) {
        const struct tree *message = tree_at(messages, i), *thoughts;
        if (!find_thoughts(reader, message, i, &thoughts)) return false;
        if (!thoughts && !made) continue;
        if (!made) made = tree_make_array(reader->arena);
        for (size_t before = tree_count(made); made && before < i; before++)
            if (!tree_append(reader->arena, made, tree_at(messages, before)))
                return api_reader_no_memory(reader);
        if (thoughts)
            message = chat_builder_with(reader->arena, message, "reasoning_content", thoughts);
        if (!made || !message || !tree_append(reader->arena, made, message))
            return api_reader_no_memory(reader);
    }
    if (made) *out = made;
    return true;
}

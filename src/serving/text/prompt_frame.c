/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/prompt_frame.h"

#define PROCESSORS_DEPTH_MAX 4 /* limit of nested Sequences */

static bool frame_has_type(const struct tree *value, const char *type) {
    struct bytes text = {"", 0};
    return tree_get_string(tree_member(value, "type"), &text) && bytes_equal(text, bytes_of(type));
}

static enum status frame_refuse(const char *name, const char *expected, struct error *error) {
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: post_processor of type 'TemplateProcessing': expected %s", name,
                     expected);
}

/* Inserts a token at index `place`. Returns false if the list is full. */
static bool frame_insert(uint32_t *tokens, uint32_t *count, uint32_t place, uint32_t token) {
    if (*count == LIMIT_PROMPT_FRAME) return false;
    memmove(tokens + place + 1, tokens + place, (*count - place) * sizeof *tokens);
    tokens[place] = token;
    *count += 1;
    return true;
}

static bool frame_switch(uint32_t *tokens, uint32_t *count, uint32_t token, bool on, bool first) {
    uint32_t kept = 0;
    bool there = false;
    for (uint32_t i = 0; i < *count; i++) {
        there |= tokens[i] == token;
        if (on || tokens[i] != token) tokens[kept++] = tokens[i];
    }
    *count = kept;
    return !on || there || frame_insert(tokens, count, first ? 0 : *count, token);
}

bool prompt_frame_begin(struct prompt_frame *frame, uint32_t token, bool on) {
    return frame_switch(frame->front, &frame->front_count, token, on, true);
}

bool prompt_frame_end(struct prompt_frame *frame, uint32_t token, bool on) {
    return frame_switch(frame->back, &frame->back_count, token, on, false);
}

/* ---- post-processors ---- */

/* Appends the ids of a special token of the template to those before the text, or (`behind`) to
 * those after it. */
static enum status add_special(const struct tree *template, const struct tree *piece, bool behind,
                               const char *name, struct prompt_frame *frame, struct error *error) {
    struct bytes label;
    const struct tree *ids = NULL;
    if (tree_get_string(tree_member(piece, "id"), &label) && strlen(label.data) == label.count)
        ids = tree_member(tree_member(tree_member(template, "special_tokens"), label.data), "ids");
    if (!tree_count(ids))
        return frame_refuse(name, "each SpecialToken to have ids in special_tokens", error);
    for (size_t i = 0; i < tree_count(ids); i++) {
        int64_t id;
        if (!tree_get_integer(tree_at(ids, i), &id) || id < 0 || id >= LIMIT_VOCAB)
            return frame_refuse(name, "ids of special_tokens to be token ids", error);
        uint32_t *tokens = behind ? frame->back : frame->front;
        uint32_t *count = behind ? &frame->back_count : &frame->front_count;
        if (!frame_insert(tokens, count, *count, (uint32_t)id))
            return frame_refuse(name, "at most 8 tokens on either side of the text", error);
    }
    return STATUS_OK;
}

static enum status read_template(const struct tree *template, const char *name,
                                 struct prompt_frame *frame, struct error *error) {
    const struct tree *pieces = tree_member(template, "single");
    struct bytes text = {"", 0};
    bool behind = false;
    for (size_t i = 0; i < tree_count(pieces); i++) {
        const struct tree *special = tree_member(tree_at(pieces, i), "SpecialToken");
        const struct tree *sequence = tree_member(tree_at(pieces, i), "Sequence");
        if (special) {
            enum status status = add_special(template, special, behind, name, frame, error);
            if (status) return status;
            continue;
        }
        if (behind || !tree_get_string(tree_member(sequence, "id"), &text) ||
            !bytes_equal(text, BYTES_LITERAL("A")))
            return frame_refuse(name, "\"single\" to have the Sequence A once", error);
        behind = true;
    }
    return behind ? STATUS_OK : frame_refuse(name, "\"single\" to have the Sequence A once", error);
}

/* Wraps the frame in that of a later processor. */
static enum status frame_wrap(struct prompt_frame *frame, const struct prompt_frame *outer,
                              const char *name, struct error *error) {
    bool fits = true;
    for (uint32_t i = 0; i < outer->front_count; i++)
        fits &= frame_insert(frame->front, &frame->front_count, i, outer->front[i]);
    for (uint32_t i = 0; i < outer->back_count; i++)
        fits &= frame_insert(frame->back, &frame->back_count, frame->back_count, outer->back[i]);
    return fits ? STATUS_OK
                : frame_refuse(name, "at most 8 tokens on either side of the text", error);
}

static enum status read_processor(const struct tree *processor, const char *name, int depth,
                                  struct prompt_frame *frame, struct error *error) {
    struct bytes type = {"?", 1};
    struct prompt_frame outer = {0};
    enum status status = STATUS_OK;
    if (!processor || tree_is_null(processor) || frame_has_type(processor, "ByteLevel"))
        return STATUS_OK;
    if (frame_has_type(processor, "TemplateProcessing")) {
        status = read_template(processor, name, &outer, error);
        return status ? status : frame_wrap(frame, &outer, name, error);
    }
    if (frame_has_type(processor, "Sequence") && depth < PROCESSORS_DEPTH_MAX) {
        const struct tree *all = tree_member(processor, "processors");
        for (size_t i = 0; i < tree_count(all) && !status; i++)
            status = read_processor(tree_at(all, i), name, depth + 1, frame, error);
        return status;
    }
    (void)tree_get_string(tree_member(processor, "type"), &type);
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: post_processor of type '%.*s' is not supported, expected ByteLevel, "
                     "TemplateProcessing or a Sequence of them",
                     name, (int)(type.count < 64 ? type.count : 64), type.data);
}

enum status prompt_frame_read(const struct tree *post_processor, const char *name,
                              struct prompt_frame *out, struct error *error) {
    struct prompt_frame frame = {0};
    enum status status = read_processor(post_processor, name, 0, &frame, error);
    if (!status) *out = frame;
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 * The tokens that a tokenizer adds around a plain prompt. Usually this is only the
 * begin-of-sentence token in front. Around a chat, the template writes them instead. The
 * post_processor of tokenizer.json defines them, and tokenizer_config.json may switch its bos and
 * eos on and off.
 */
#pragma once

#include "base/limits.h"
#include "base/tree.h"

struct prompt_frame {
    uint32_t front[LIMIT_PROMPT_FRAME], front_count;
    uint32_t back[LIMIT_PROMPT_FRAME], back_count;
};

/* Reads a post_processor: none, ByteLevel (which changes no ids), TemplateProcessing, or a Sequence
 * of them. Only the template of a single text counts. Returns STATUS_UNSUPPORTED for another type,
 * which the error names, or for a template that does not contain the text exactly once. Messages
 * use `name` for the file. */
enum status prompt_frame_read(const struct tree *post_processor, const char *name,
                              struct prompt_frame *out, struct error *error) MUST_USE;

/* If `on`, adds `token` as the first (last) token unless it is present. Otherwise removes it.
 * Returns false if the frame is full. */
bool prompt_frame_begin(struct prompt_frame *frame, uint32_t token, bool on) MUST_USE;
bool prompt_frame_end(struct prompt_frame *frame, uint32_t token, bool on) MUST_USE;

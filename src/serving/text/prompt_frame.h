/* SPDX-License-Identifier: Apache-2.0
 * The tokens that a tokenizer puts around a plain prompt (never around a chat, since its template
 * writes them): most often one in front, the begin-of-sentence token. The post_processor of
 * tokenizer.json says which, and tokenizer_config.json may switch its bos and eos on and off.
 */
#ifndef SERVING_TEXT_PROMPT_FRAME_H
#define SERVING_TEXT_PROMPT_FRAME_H

#include "base/limits.h"
#include "base/tree.h"

struct prompt_frame {
    uint32_t front[LIMIT_PROMPT_FRAME], front_count;
    uint32_t back[LIMIT_PROMPT_FRAME], back_count;
};

/* Reads a post_processor: none, ByteLevel (which changes no ids), TemplateProcessing, or a Sequence
 * of them. Only the template of a single text counts. UNSUPPORTED: another type, by its name, or a
 * template that has not the text once. `name` stands for the file in messages. */
enum status prompt_frame_read(const struct tree *post_processor, const char *name,
                              struct prompt_frame *out, struct error *error) MUST_USE;

/* Puts `token` first if the front has none of it, or takes it out of there; the same at the end.
 * False: the frame is full. */
bool prompt_frame_begin(struct prompt_frame *frame, uint32_t token, bool on) MUST_USE;
bool prompt_frame_end(struct prompt_frame *frame, uint32_t token, bool on) MUST_USE;

#endif

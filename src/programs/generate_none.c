/* SPDX-License-Identifier: Apache-2.0
 * generate_text.h and generate_form.h in builds without serving, which have no tokenizer and no
 * grammars: prompts and answers are token ids.
 */
#include <string.h>

#include "programs/generate_form.h"
#include "programs/generate_text.h"

enum status generate_text_open(const char *directory, const char *chat_template,
                               struct generate_text **text_out, struct error *error) {
    return error_set(error, STATUS_UNSUPPORTED,
                     "this build has no tokenizer; give the prompt as --tokens");
}

void generate_text_close(struct generate_text *text) {
}

enum status generate_text_prompt(struct generate_text *text, const char *prompt,
                                 bool content_specials, const uint32_t **tokens_out,
                                 uint32_t *count_out, struct error *error) {
    return STATUS_UNSUPPORTED;
}

enum status generate_text_ends(struct generate_text *text, const char *directory,
                               const struct shape *shape, struct answer_ends *out,
                               struct error *error) {
    out->count = shape->eos_token_count;
    memcpy(out->tokens, shape->eos_tokens, sizeof out->tokens);
    return STATUS_OK;
}

void generate_text_push(struct generate_text *text, uint32_t token) {
}

void generate_text_finish(struct generate_text *text) {
}

enum status generate_form_open(const struct generate_form_values *values, const char *directory,
                               const struct generate_text *text, struct generate_form **form_out,
                               struct error *error) {
    return error_set(error, STATUS_UNSUPPORTED,
                     "this build has no grammars; --schema, --regex and --grammar need serving");
}

void generate_form_close(struct generate_form *form) {
}

enum status generate_form_begin(struct generate_form *form, uint32_t rows, uint32_t answer_count,
                                const uint32_t *stops, uint32_t stop_count, struct error *error) {
    return STATUS_UNSUPPORTED;
}

bool generate_form_mask(struct generate_form *form, uint32_t answer, const uint64_t **mask_out) {
    return true;
}

void generate_form_push(struct generate_form *form, uint32_t answer, uint32_t token) {
}

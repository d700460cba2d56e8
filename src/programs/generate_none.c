/* SPDX-License-Identifier: Apache-2.0
 * Implements generate_text.h for builds without serving, which have no tokenizer and no grammars.
 * Prompts and answers are token ids.
 */
#include <string.h>

#include "programs/generate_text.h"

enum status generate_text_open(const struct generate_text_values *values, const char *directory,
                               const char *prompt, struct generate_text **text_out,
                               struct error *error) {
    if (prompt)
        return error_set(error, STATUS_UNSUPPORTED,
                         "this build has no tokenizer; give the prompt as --tokens");
    if (generate_text_constraint_count(values))
        return error_set(
            error, STATUS_UNSUPPORTED,
            "this build has no grammars; --schema, --regex and --grammar need serving");
    return STATUS_OK;
}

void generate_text_close(struct generate_text *text) {
}

const uint32_t *generate_text_prompt(const struct generate_text *text, uint32_t *count_out) {
    return NULL;
}

enum status generate_text_begin(struct generate_text *text, const struct shape *shape,
                                uint32_t answer_count, struct answer_ends *ends_out,
                                struct error *error) {
    ends_out->count = shape->eos_token_count;
    memcpy(ends_out->tokens, shape->eos_tokens, sizeof ends_out->tokens);
    return STATUS_OK;
}

/* This build reads no generation_config.json. */
enum status generate_text_sampling(const char *directory, struct sampling *out,
                                   struct error *error) {
    *out = (struct sampling){.temperature = 1, .top_p = 1};
    return STATUS_OK;
}

bool generate_text_mask(struct generate_text *text, uint32_t answer, const uint64_t **mask_out) {
    *mask_out = NULL;
    return true;
}

void generate_text_push(struct generate_text *text, uint32_t answer, uint32_t token) {
}

void generate_text_print(struct generate_text *text, uint32_t token) {
}

void generate_text_finish(struct generate_text *text) {
}

void generate_text_print_json(struct generate_text *text, const uint32_t *tokens, uint32_t count,
                              struct json_print *print) {
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/generate_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/utf8.h"
#include "host/process/model_prompt.h"

#define ADDED_BY_TEMPLATE_BYTES ((size_t)1 << 20)

struct generate_text {
    struct model_text model;
    struct model_prompt prompt;
    struct token_stream stream;
    char *text; /* of the prompt */
    bool shows_reasoning;
};

enum status generate_text_open(const char *directory, const char *chat_template,
                               struct generate_text **text_out, struct error *error) {
    struct generate_text *text = calloc(1, sizeof *text);
    if (!text) return error_set(error, STATUS_NO_MEMORY, "no memory");
    text->shows_reasoning = isatty(STDERR_FILENO);
    enum status status = model_text_open(directory, NULL, chat_template, &text->model, error);
    if (status == STATUS_OK && !text->model.tokenizer)
        status = error_set(error, STATUS_NOT_FOUND,
                           "%.300s has no tokenizer.json; give the prompt as --tokens", directory);
    if (status != STATUS_OK) {
        generate_text_close(text);
        return status;
    }
    *text_out = text;
    return STATUS_OK;
}

void generate_text_close(struct generate_text *text) {
    if (!text) return;
    model_prompt_close(&text->prompt);
    model_text_close(&text->model);
    free(text->text);
    free(text);
}

/* A conversation of one message; without a template the prompt as a completion has it. */
static enum status generate_text_encode(struct generate_text *text, struct bytes prompt,
                                        bool content_specials, struct error *error) {
    const struct chat_template *chat = &text->model.chat_template;
    struct chat_turn turn = {"user", prompt};
    if (chat->present) return model_prompt_turns(&text->prompt, &turn, 1, content_specials, error);
    return model_prompt_framed(&text->prompt, prompt, error);
}

enum status generate_text_prompt(struct generate_text *text, const char *prompt,
                                 bool content_specials, const uint32_t **tokens_out,
                                 uint32_t *count_out, struct error *error) {
    size_t prompt_max = 3 * strlen(prompt) + 1, count = 0; /* an invalid byte may become three */
    text->text = malloc(prompt_max);
    if (!text->text) return error_set(error, STATUS_NO_MEMORY, "no memory for the prompt");
    check(!utf8_repair(bytes_of(prompt), text->text, prompt_max, &count));
    enum status status =
        model_prompt_open(&text->prompt, &text->model, prompt_max + ADDED_BY_TEMPLATE_BYTES, error);
    if (!status)
        status =
            generate_text_encode(text, (struct bytes){text->text, count}, content_specials, error);
    if (status) return status;
    token_stream_open(&text->stream, text->model.tokenizer, NULL, text->prompt.stream, NULL);
    *tokens_out = text->prompt.tokens;
    *count_out = (uint32_t)text->prompt.token_count;
    return STATUS_OK;
}

enum status generate_text_ends(struct generate_text *text, const char *directory,
                               const struct shape *shape, struct answer_ends *out,
                               struct error *error) {
    struct model_text words = {0};
    struct model_text *model = text ? &text->model : &words;
    enum status status = text ? STATUS_OK : model_text_open_words(directory, &words, error);
    if (!status) status = model_text_find_stops(model, shape, error);
    if (!status) {
        out->count = model->stop_token_count;
        memcpy(out->tokens, model->stop_tokens, sizeof out->tokens);
    }
    model_text_close(&words);
    return status;
}

const struct tokenizer *generate_text_tokenizer(const struct generate_text *text) {
    return text->model.tokenizer;
}

enum token_stream_mode generate_text_mode(const struct generate_text *text) {
    return text->prompt.stream;
}

static void print_part(void *context, enum token_stream_part part, struct bytes piece) {
    const struct generate_text *text = context;
    if (part == TOKEN_STREAM_CONTENT) {
        fwrite(piece.data, 1, piece.count, stdout);
        fflush(stdout);
    } else if (text->shows_reasoning) {
        fprintf(stderr, "\033[2m%.*s\033[0m", (int)piece.count, piece.data);
    }
}

void generate_text_push(struct generate_text *text, uint32_t token) {
    token_stream_push(&text->stream, token, print_part, text);
}

void generate_text_finish(struct generate_text *text) {
    token_stream_finish(&text->stream, print_part, text);
    printf("\n");
}

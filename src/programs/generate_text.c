/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/generate_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "host/process/model_text.h"
#include "serving/text/utf8.h"

#define ADDED_BY_TEMPLATE_BYTES 4096

struct generate_text {
    struct model_text model;
    struct token_stream stream;
    void *encode_memory;
    char *prompt, *rendered;
    uint32_t *tokens;
    bool shows_reasoning;
};

enum status generate_text_open(const char *directory, struct generate_text **text_out,
                               struct error *error) {
    struct generate_text *text = calloc(1, sizeof *text);
    if (!text) return error_set(error, STATUS_NO_MEMORY, "no memory");
    text->shows_reasoning = isatty(STDERR_FILENO);
    enum status status = model_text_open(directory, NULL, &text->model, error);
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
    model_text_close(&text->model);
    free(text->encode_memory);
    free(text->prompt);
    free(text->rendered);
    free(text->tokens);
    free(text);
}

/* What stands before the answer, as text: a conversation of one message, whose content is noted, or
 * the prompt as it is. */
static enum status render(struct generate_text *text, struct bytes prompt,
                          struct chat_rendering *rendering, struct error *error) {
    const struct chat_template *chat = &text->model.chat_template;
    struct chat_message message = {.role = CHAT_USER, .has_content = true, .content = prompt};
    enum status status = STATUS_OK;
    if (chat->present) {
        status = chat_template_render(chat, &message, 1, true, rendering, error);
    } else {
        int length = snprintf(rendering->text, rendering->capacity, "%.*s%.*s",
                              chat->adds_bos ? (int)chat->bos.count : 0, chat->bos.data,
                              (int)prompt.count, prompt.data);
        rendering->count = (size_t)length;
    }
    token_stream_open(&text->stream, text->model.tokenizer, NULL, rendering->stream, NULL);
    return status;
}

enum status generate_text_prompt(struct generate_text *text, const char *prompt,
                                 bool content_specials, const uint32_t **tokens_out,
                                 uint32_t *count_out, struct error *error) {
    size_t prompt_max = 3 * strlen(prompt) + 1; /* an invalid byte may become three */
    size_t capacity = prompt_max + ADDED_BY_TEMPLATE_BYTES, prompt_bytes = 0, count = 0;
    size_t scratch_bytes = tokenizer_scratch_bytes(capacity);
    text->prompt = malloc(prompt_max);
    text->rendered = malloc(capacity);
    text->tokens = malloc(capacity * sizeof *text->tokens);
    text->encode_memory = malloc(scratch_bytes);
    if (!text->prompt || !text->rendered || !text->tokens || !text->encode_memory)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the prompt");
    check(!utf8_repair(bytes_of(prompt), text->prompt, prompt_max, &prompt_bytes));
    struct text_span content;
    struct chat_rendering rendering = {.text = text->rendered,
                                       .capacity = capacity,
                                       .contents = content_specials ? NULL : &content,
                                       .content_capacity = 1,
                                       .stream = TOKEN_STREAM_PLAIN};
    enum status status =
        render(text, (struct bytes){text->prompt, prompt_bytes}, &rendering, error);
    if (status != STATUS_OK) return status;
    struct arena arena;
    arena_over(&arena, text->encode_memory, scratch_bytes);
    struct tokenizer_scratch *scratch = tokenizer_scratch_create(&arena, capacity);
    if (!scratch) return error_set(error, STATUS_NO_MEMORY, "no memory for the prompt");
    struct plain_text plain = {&content, content_specials ? 0 : rendering.content_count};
    status = tokenizer_encode(text->model.tokenizer, scratch,
                              (struct bytes){text->rendered, rendering.count}, plain, text->tokens,
                              capacity, &count);
    if (status != STATUS_OK)
        return error_set(error, status, "cannot tokenize this prompt: a pattern gave up");
    *tokens_out = text->tokens;
    *count_out = (uint32_t)count;
    return STATUS_OK;
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

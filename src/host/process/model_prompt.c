/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/model_prompt.h"

#include <time.h>

#include "base/json_writer.h"

#define ARENA_BYTES ((size_t)128 << 20)
#define ARENA_BYTES_PER_BYTE 64

static enum status model_prompt_no_memory(struct error *error) {
    return error_set(error, STATUS_NO_MEMORY, "no memory for the prompt");
}

enum status model_prompt_open(struct model_prompt *prompt, const struct model_text *text,
                              size_t text_bytes_max, struct error *error) {
    size_t tokens_max = text_bytes_max + (size_t)2 * LIMIT_PROMPT_FRAME;
    size_t scratch_bytes = tokenizer_scratch_bytes(text_bytes_max);
    struct model_prompt opened = {
        .text = text,
        .text_bytes_max = text_bytes_max,
        .memory = lazy_memory_take(scratch_bytes + (tokens_max + 4) * sizeof(uint32_t)),
        .arena_memory = lazy_memory_take(ARENA_BYTES + ARENA_BYTES_PER_BYTE * text_bytes_max)};
    struct arena arena;
    *prompt = opened;
    if (!opened.memory.start || !opened.arena_memory.start) return model_prompt_no_memory(error);
    arena_over(&arena, opened.memory.start, opened.memory.bytes);
    arena_over(&prompt->arena, opened.arena_memory.start, opened.arena_memory.bytes);
    prompt->tokens = arena_take(&arena, tokens_max * sizeof *prompt->tokens);
    prompt->scratch = tokenizer_scratch_create(&arena, text_bytes_max);
    return prompt->scratch && prompt->tokens ? STATUS_OK : model_prompt_no_memory(error);
}

void model_prompt_close(struct model_prompt *prompt) {
    lazy_memory_free(&prompt->memory);
    lazy_memory_free(&prompt->arena_memory);
    *prompt = (struct model_prompt){0};
}

enum status model_prompt_text(struct model_prompt *prompt, struct bytes text,
                              struct plain_text plain, struct error *error) {
    enum status status = text.count > prompt->text_bytes_max ? STATUS_TOO_LARGE : STATUS_OK;
    if (!status)
        status = tokenizer_encode(prompt->text->tokenizer, prompt->scratch, text, plain,
                                  prompt->tokens, prompt->text_bytes_max, &prompt->token_count);
    if (status == STATUS_FULL || (status && text.count > prompt->text_bytes_max))
        return error_set(error, STATUS_TOO_LARGE, "the prompt has more than %zu bytes",
                         prompt->text_bytes_max);
    if (status == STATUS_INVALID) return error_set(error, status, "the prompt is not valid UTF-8");
    if (status) return error_set(error, status, "cannot tokenize this prompt: a pattern gave up");
    prompt->stream = TOKEN_STREAM_PLAIN;
    return STATUS_OK;
}

enum status model_prompt_framed(struct model_prompt *prompt, struct bytes text,
                                struct error *error) {
    const struct prompt_frame *frame = &prompt->text->frame;
    enum status status = model_prompt_text(prompt, text, plain_text_nowhere, error);
    if (status) return status;
    memmove(prompt->tokens + frame->front_count, prompt->tokens,
            prompt->token_count * sizeof *prompt->tokens);
    memcpy(prompt->tokens, frame->front, frame->front_count * sizeof *prompt->tokens);
    prompt->token_count += frame->front_count;
    memcpy(prompt->tokens + prompt->token_count, frame->back,
           frame->back_count * sizeof *prompt->tokens);
    prompt->token_count += frame->back_count;
    return STATUS_OK;
}

static enum status model_prompt_encode(struct model_prompt *prompt, const struct tree *messages,
                                       bool specials, struct error *error) {
    struct chat_ask ask = {.messages = messages, .prompts = true, .unix_time = time(NULL)};
    struct chat_rendering rendering;
    enum status status =
        chat_template_render(&prompt->text->chat_template, &ask, &prompt->arena, &rendering, error);
    struct plain_text plain = {rendering.contents, specials ? 0 : rendering.content_count};
    if (!status) status = model_prompt_text(prompt, rendering.text, plain, error);
    if (!status) prompt->stream = rendering.stream;
    return status;
}

static void write_turns(struct json_writer *writer, const struct chat_turn *turns, size_t count) {
    json_writer_text(writer, "[");
    for (size_t i = 0; i < count; i++) {
        json_writer_text(writer, i ? ",{\"role\":" : "{\"role\":");
        json_writer_string(writer, bytes_of(turns[i].role));
        json_writer_text(writer, ",\"content\":");
        json_writer_string(writer, turns[i].content);
        json_writer_text(writer, "}");
    }
    json_writer_text(writer, "]");
}

enum status model_prompt_turns(struct model_prompt *prompt, const struct chat_turn *turns,
                               size_t turn_count, bool specials, struct error *error) {
    struct json_writer writer = {0};
    const struct tree *messages;
    arena_clear(&prompt->arena);
    write_turns(&writer, turns, turn_count);
    writer =
        (struct json_writer){.out = arena_take(&prompt->arena, writer.count), .room = writer.count};
    if (!writer.out)
        return error_set(error, STATUS_TOO_LARGE, "the prompt has more than %zu bytes",
                         prompt->text_bytes_max);
    write_turns(&writer, turns, turn_count);
    enum status status = tree_parse(&prompt->arena, (struct bytes){writer.out, writer.count},
                                    "the conversation", &messages, error);
    return status ? status : model_prompt_encode(prompt, messages, specials, error);
}

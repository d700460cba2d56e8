/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/generate_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/json_writer.h"
#include "base/utf8.h"
#include "host/process/model_prompt.h"
#include "programs/answer_view.h"
#include "serving/constraint/constrained_answer.h"

#define ADDED_BY_TEMPLATE_BYTES ((size_t)1 << 20)
#define GRAMMAR_BYTES ((size_t)256 << 20) /* token trie, grammar and mask */
#define ANSWER_BYTES ((size_t)8 << 20)    /* one answer's matcher */

struct generate_text_part {
    char *data;
    size_t count, room;
};

struct generate_text {
    struct model_text model;
    struct model_prompt prompt; /* if the prompt is text, not token ids */
    struct token_stream stream;
    char *prompt_text; /* NULL: the prompt is token ids */
    struct answer_view view;
    bool kept;                                   /* the answer's parts are kept, not printed */
    struct generate_text_part answer, reasoning; /* kept: whole UTF-8 */
    /* the compiled constraint, temporary data, the state of constrained answers */
    struct lazy_memory compiled, scratch, running;
    const struct constraint *constraint; /* NULL: none */
    struct constrained_answer *answers;  /* [answer_count] */
    uint64_t *mask;
};

/* ---- the prompt ---- */

/* Encodes the prompt as a conversation of one message. Without a chat template it is encoded as the
 * prompt of a completion. */
static enum status generate_text_encode(struct generate_text *text, struct bytes prompt,
                                        bool content_specials, struct error *error) {
    const struct chat_template *chat = &text->model.chat_template;
    struct chat_turn turn = {"user", prompt};
    if (chat->present) return model_prompt_turns(&text->prompt, &turn, 1, content_specials, error);
    return model_prompt_framed(&text->prompt, prompt, error);
}

static enum status generate_text_read_prompt(struct generate_text *text,
                                             const struct generate_text_values *values,
                                             const char *directory, const char *prompt,
                                             struct error *error) {
    size_t prompt_max = 3 * strlen(prompt) + 1, count = 0; /* invalid bytes become U+FFFD */
    struct template_choice choice = {.chat_template = values->chat_template};
    enum status status = model_text_open(directory, NULL, &choice, &text->model, error);
    if (status) return status;
    if (!text->model.tokenizer)
        return error_set(error, STATUS_NOT_FOUND,
                         "%.300s has neither tokenizer.json nor tiktoken.model; give the prompt as "
                         "--tokens",
                         directory);
    text->prompt_text = malloc(prompt_max);
    if (!text->prompt_text) return error_set(error, STATUS_NO_MEMORY, "no memory for the prompt");
    check(!utf8_repair(bytes_of(prompt), text->prompt_text, prompt_max, &count));
    status =
        model_prompt_open(&text->prompt, &text->model, prompt_max + ADDED_BY_TEMPLATE_BYTES, error);
    if (!status)
        status = generate_text_encode(text, (struct bytes){text->prompt_text, count},
                                      !strcmp(values->content_specials, "on"), error);
    if (!status)
        token_stream_open(&text->stream, text->model.tokenizer, NULL, text->prompt.stream, NULL);
    return status;
}

const uint32_t *generate_text_prompt(const struct generate_text *text, uint32_t *count_out) {
    *count_out = (uint32_t)text->prompt.token_count;
    return text->prompt.tokens;
}

/* ---- the constraint ---- */

/* The name of the constraint in error messages. */
static const char *generate_text_constraint_name(const struct generate_text_values *values) {
    return values->schema ? values->schema : values->grammar ? values->grammar : "--regex";
}

/* Gets the constraint's source: the option's text, or the content of a file. The caller frees
 * `file_out`, which stays unchanged without a file. */
static enum status read_constraint_text(const struct generate_text_values *values,
                                        struct bytes *source_out, void **file_out,
                                        struct error *error) {
    *source_out = bytes_of(values->regex ? values->regex : "");
    if (values->regex) return STATUS_OK;
    enum status status =
        file_take(generate_text_constraint_name(values), LIMIT_CONSTRAINT_BYTES, source_out, error);
    if (!status) *file_out = (void *)(uintptr_t)source_out->data;
    return status;
}

/* Checks that a schema is JSON, because it is copied into the constraint as it is. Any other source
 * must be UTF-8. */
static enum status check_constraint_text(struct generate_text *text,
                                         const struct generate_text_values *values,
                                         struct bytes source, struct error *error) {
    const struct tree *root;
    struct arena scratch;
    arena_over(&scratch, text->scratch.start, text->scratch.bytes);
    if (values->schema) return tree_parse(&scratch, source, values->schema, &root, error);
    if (utf8_valid_prefix(source) == source.count) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%.300s: byte %zu is no UTF-8",
                     generate_text_constraint_name(values), utf8_valid_prefix(source));
}

/* Writes the constraint in the form that a gateway sends (serving/constraint/constraint.h). */
static void generate_text_write_constraint(struct json_writer *writer,
                                           const struct generate_text_values *values,
                                           struct bytes source, enum token_stream_mode stream) {
    json_writer_text(writer, "{");
    bool may_think = stream == TOKEN_STREAM_MAY_THINK || stream == TOKEN_STREAM_BEHIND_TOOL;
    if (may_think) json_writer_text(writer, "\"opens\":\"<think>\",");
    if (may_think || stream == TOKEN_STREAM_IN_REASONING)
        json_writer_text(writer, "\"behind\":\"</think>\",");
    json_writer_text(writer, values->schema    ? "\"form\":{\"schema\":"
                             : values->grammar ? "\"form\":{\"gbnf\":"
                                               : "\"form\":{\"regex\":");
    if (values->schema)
        json_writer_bytes(writer, source);
    else
        json_writer_string(writer, source);
    json_writer_text(writer, "}}");
}

static enum status generate_text_compile(struct generate_text *text,
                                         const struct generate_text_values *values,
                                         struct bytes source, struct error *error) {
    struct arena compiled, scratch;
    struct json_writer writer = {NULL, 0, 0};
    struct error cause = {""};
    enum token_stream_mode stream = text->prompt_text ? text->prompt.stream : TOKEN_STREAM_PLAIN;
    arena_over(&compiled, text->compiled.start, text->compiled.bytes);
    arena_over(&scratch, text->scratch.start, text->scratch.bytes);
    generate_text_write_constraint(&writer, values, source, stream);
    writer = (struct json_writer){arena_take(&scratch, writer.count), writer.count, 0};
    if (!writer.out) return error_set(error, STATUS_NO_MEMORY, "no memory for a constraint");
    generate_text_write_constraint(&writer, values, source, stream);
    enum status status =
        constraint_compile(&compiled, &scratch, (struct bytes){writer.out, writer.count},
                           text->model.tokenizer, &text->constraint, &cause);
    if (!status) return STATUS_OK;
    return error_set(error, status, "%.200s: %s", generate_text_constraint_name(values),
                     cause.text);
}

static enum status generate_text_open_constraint(struct generate_text *text,
                                                 const struct generate_text_values *values,
                                                 struct error *error) {
    struct bytes source;
    void *file = NULL;
    text->compiled = lazy_memory_take(CONSTRAINT_RESULT_BYTES);
    text->scratch = lazy_memory_take(CONSTRAINT_SCRATCH_BYTES);
    if (!text->compiled.start || !text->scratch.start)
        return error_set(error, STATUS_NO_MEMORY, "no memory to compile a constraint");
    enum status status = read_constraint_text(values, &source, &file, error);
    if (!status) status = check_constraint_text(text, values, source, error);
    if (!status) status = generate_text_compile(text, values, source, error);
    free(file);
    lazy_memory_free(&text->scratch);
    return status;
}

static enum status begin_answers(struct generate_text *text, struct grammar *grammar,
                                 struct arena *arena, uint32_t answer_count,
                                 const struct answer_ends *ends) {
    text->answers = arena_take(arena, answer_count * sizeof *text->answers);
    enum status status = text->answers ? STATUS_OK : STATUS_NO_MEMORY;
    for (uint32_t i = 0; !status && i < answer_count; i++) {
        struct matcher *matcher;
        status = matcher_open(arena, grammar, &matcher);
        if (!status)
            constrained_answer_begin(&text->answers[i], text->constraint, matcher, ends->tokens,
                                     ends->count);
    }
    return status;
}

static enum status generate_text_begin_constraint(struct generate_text *text, uint32_t vocab,
                                                  uint32_t answer_count,
                                                  const struct answer_ends *ends,
                                                  struct error *error) {
    const struct token_trie *trie = NULL;
    struct grammar *grammar = NULL;
    struct arena running, scratch;
    text->running = lazy_memory_take(GRAMMAR_BYTES + answer_count * ANSWER_BYTES);
    text->scratch = lazy_memory_take(CONSTRAINT_SCRATCH_BYTES);
    if (!text->running.start || !text->scratch.start)
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u constrained answers",
                         answer_count);
    arena_over(&running, text->running.start, text->running.bytes);
    arena_over(&scratch, text->scratch.start, text->scratch.bytes);
    enum status status =
        token_trie_of_tokenizer(&running, &scratch, text->model.tokenizer, vocab, &trie);
    lazy_memory_free(&text->scratch);
    if (status) return error_set(error, status, "no memory for the tokens' tree");
    status = matcher_grammar_open(&running, text->constraint->form, trie, &grammar, error);
    if (status) return status;
    text->mask = arena_take(&running, trie->word_count * sizeof *text->mask);
    if (text->mask) status = begin_answers(text, grammar, &running, answer_count, ends);
    if (text->mask && !status) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for %u constrained answers", answer_count);
}

bool generate_text_mask(struct generate_text *text, uint32_t answer, const uint64_t **mask_out) {
    *mask_out = NULL;
    if (!text->constraint) return true;
    bool constrained = constrained_answer_mask(&text->answers[answer], text->mask);
    if (constrained) *mask_out = text->mask;
    return text->answers[answer].place != CONSTRAINED_STUCK;
}

void generate_text_push(struct generate_text *text, uint32_t answer, uint32_t token) {
    if (text->constraint) constrained_answer_push(&text->answers[answer], token);
}

/* ---- prompt and constraint ---- */

enum status generate_text_open(const struct generate_text_values *values, const char *directory,
                               const char *prompt, struct generate_text **text_out,
                               struct error *error) {
    struct generate_text *text = calloc(1, sizeof *text);
    if (!text) return error_set(error, STATUS_NO_MEMORY, "no memory");
    answer_view_open(&text->view);
    enum status status = prompt ? generate_text_read_prompt(text, values, directory, prompt, error)
                                : model_text_open_words(directory, &text->model, error);
    bool constrained = generate_text_constraint_count(values) > 0;
    if (!status && constrained && !text->model.tokenizer)
        status = model_text_open_tokenizer(directory, &text->model, error);
    if (!status && constrained) status = generate_text_open_constraint(text, values, error);
    if (status)
        generate_text_close(text);
    else
        *text_out = text;
    return status;
}

enum status generate_text_sampling(const char *directory, struct sampling *out,
                                   struct error *error) {
    return model_text_read_sampling(directory, out, error);
}

enum status generate_text_begin(struct generate_text *text, const struct shape *shape,
                                uint32_t answer_count, struct answer_ends *ends_out,
                                struct error *error) {
    enum status status = model_text_find_stops(&text->model, shape, error);
    if (status) return status;
    ends_out->count = text->model.stop_token_count;
    memcpy(ends_out->tokens, text->model.stop_tokens, sizeof ends_out->tokens);
    if (!text->constraint) return STATUS_OK;
    return generate_text_begin_constraint(text, shape->vocab, answer_count, ends_out, error);
}

void generate_text_close(struct generate_text *text) {
    if (!text) return;
    model_prompt_close(&text->prompt);
    model_text_close(&text->model);
    lazy_memory_free(&text->compiled);
    lazy_memory_free(&text->scratch);
    lazy_memory_free(&text->running);
    free(text->prompt_text);
    free(text->answer.data);
    free(text->reasoning.data);
    free(text);
}

/* ---- printing ---- */

static void keep_part(struct generate_text_part *part, struct bytes piece) {
    if (part->count + piece.count > part->room) {
        part->room = 2 * (part->count + piece.count);
        part->data = realloc(part->data, part->room);
        check(part->data);
    }
    memcpy(part->data + part->count, piece.data, piece.count);
    part->count += piece.count;
}

static void take_part(void *context, enum token_stream_part part, struct bytes piece) {
    struct generate_text *text = context;
    bool content = part == TOKEN_STREAM_CONTENT;
    if (!piece.count) return;
    if (text->kept)
        keep_part(content ? &text->answer : &text->reasoning, piece);
    else
        answer_view_push(&text->view, content ? ANSWER_TEXT : ANSWER_THOUGHT, piece);
}

void generate_text_print(struct generate_text *text, uint32_t token) {
    token_stream_push(&text->stream, token, take_part, text);
}

void generate_text_finish(struct generate_text *text) {
    token_stream_finish(&text->stream, take_part, text);
    answer_view_finish(&text->view);
    printf("\n");
}

static void print_kept(struct json_print *print, const char *name,
                       const struct generate_text_part *part) {
    size_t room = 3 * part->count + 1, count = 0; /* an invalid byte may become three */
    char *repaired = malloc(room);
    check(repaired &&
          !utf8_repair((struct bytes){part->data, part->count}, repaired, room, &count));
    json_print_string(print, name, (struct bytes){repaired, count});
    free(repaired);
}

void generate_text_print_json(struct generate_text *text, const uint32_t *tokens, uint32_t count,
                              struct json_print *print) {
    text->kept = true;
    for (uint32_t i = 0; i < count; i++)
        token_stream_push(&text->stream, tokens[i], take_part, text);
    token_stream_finish(&text->stream, take_part, text);
    print_kept(print, "text", &text->answer);
    print_kept(print, "reasoning", &text->reasoning);
}

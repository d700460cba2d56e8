/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/generate_form.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/json_writer.h"
#include "base/limits.h"
#include "base/tree.h"
#include "base/utf8.h"
#include "host/process/model_text.h"
#include "programs/generate_text.h"
#include "serving/constraint/constrained_answer.h"

#define GRAMMAR_BYTES ((size_t)256 << 20)
#define ANSWER_BYTES ((size_t)8 << 20) /* a matcher */

struct generate_form {
    struct model_text own; /* of a prompt of token ids */
    const struct tokenizer *tokenizer;
    struct lazy_memory compiled, scratch, running;
    const struct constraint *constraint;
    struct constrained_answer *answers; /* [answer_count] */
    uint64_t *mask;
};

/* The constraint's name in errors. */
static const char *generate_form_name_of(const struct generate_form_values *values) {
    return values->schema ? values->schema : values->grammar ? values->grammar : "--regex";
}

/* A file is taken into memory that the caller frees as `taken_out`. */
static enum status take_given(const struct generate_form_values *values, struct bytes *given_out,
                              void **taken_out, struct error *error) {
    *given_out = bytes_of(values->regex ? values->regex : "");
    if (values->regex) return STATUS_OK;
    enum status status =
        file_take(generate_form_name_of(values), LIMIT_CONSTRAINT_BYTES, given_out, error);
    if (!status) *taken_out = (void *)(uintptr_t)given_out->data;
    return status;
}

/* Checks the schema, which is copied into the constraint and may not be JSON. */
static enum status check_given(struct generate_form *form,
                               const struct generate_form_values *values, struct bytes given,
                               struct error *error) {
    const struct tree *root;
    struct arena scratch;
    arena_over(&scratch, form->scratch.start, form->scratch.bytes);
    if (values->schema) return tree_parse(&scratch, given, values->schema, &root, error);
    if (utf8_valid_prefix(given) == given.count) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%.300s: byte %zu is no UTF-8",
                     generate_form_name_of(values), utf8_valid_prefix(given));
}

/* The constraint's text, as a gateway makes it of a request. */
static void generate_form_write_text(struct json_writer *writer,
                                     const struct generate_form_values *values, struct bytes given,
                                     enum token_stream_mode stream) {
    json_writer_text(writer, "{");
    bool may = stream == TOKEN_STREAM_MAY_THINK || stream == TOKEN_STREAM_BEHIND_TOOL;
    if (may) json_writer_text(writer, "\"opens\":\"<think>\",");
    if (may || stream == TOKEN_STREAM_IN_REASONING)
        json_writer_text(writer, "\"behind\":\"</think>\",");
    json_writer_text(writer, values->schema    ? "\"form\":{\"schema\":"
                             : values->grammar ? "\"form\":{\"gbnf\":"
                                               : "\"form\":{\"regex\":");
    if (values->schema)
        json_writer_bytes(writer, given);
    else
        json_writer_string(writer, given);
    json_writer_text(writer, "}}");
}

static enum status generate_form_compile(struct generate_form *form,
                                         const struct generate_form_values *values,
                                         struct bytes given, enum token_stream_mode stream,
                                         struct error *error) {
    struct arena compiled, scratch;
    struct json_writer writer = {NULL, 0, 0};
    struct error found = {""};
    arena_over(&compiled, form->compiled.start, form->compiled.bytes);
    arena_over(&scratch, form->scratch.start, form->scratch.bytes);
    generate_form_write_text(&writer, values, given, stream);
    writer = (struct json_writer){arena_take(&scratch, writer.count), writer.count, 0};
    if (!writer.out) return error_set(error, STATUS_NO_MEMORY, "no memory for a constraint");
    generate_form_write_text(&writer, values, given, stream);
    enum status status =
        constraint_compile(&compiled, &scratch, (struct bytes){writer.out, writer.count},
                           form->tokenizer, &form->constraint, &found);
    if (!status) return STATUS_OK;
    return error_set(error, status, "%.200s: %s", generate_form_name_of(values), found.text);
}

static enum status generate_form_open_given(struct generate_form *form,
                                            const struct generate_form_values *values,
                                            enum token_stream_mode stream, struct error *error) {
    struct bytes given;
    void *taken = NULL;
    form->compiled = lazy_memory_take(CONSTRAINT_RESULT_BYTES);
    form->scratch = lazy_memory_take(CONSTRAINT_SCRATCH_BYTES);
    if (!form->compiled.start || !form->scratch.start)
        return error_set(error, STATUS_NO_MEMORY, "no memory to compile a constraint");
    enum status status = take_given(values, &given, &taken, error);
    if (!status) status = check_given(form, values, given, error);
    if (!status) status = generate_form_compile(form, values, given, stream, error);
    free(taken);
    lazy_memory_free(&form->scratch);
    return status;
}

enum status generate_form_open(const struct generate_form_values *values, const char *directory,
                               const struct generate_text *text, struct generate_form **form_out,
                               struct error *error) {
    struct generate_form *form = calloc(1, sizeof *form);
    if (!form) return error_set(error, STATUS_NO_MEMORY, "no memory");
    enum status status = STATUS_OK;
    if (!text) status = model_text_open_tokenizer(directory, &form->own, error);
    form->tokenizer = text ? generate_text_tokenizer(text) : form->own.tokenizer;
    if (!status)
        status = generate_form_open_given(
            form, values, text ? generate_text_mode(text) : TOKEN_STREAM_PLAIN, error);
    if (status)
        generate_form_close(form);
    else
        *form_out = form;
    return status;
}

void generate_form_close(struct generate_form *form) {
    if (!form) return;
    model_text_close(&form->own);
    lazy_memory_free(&form->compiled);
    lazy_memory_free(&form->scratch);
    lazy_memory_free(&form->running);
    free(form);
}

static enum status begin_answers(struct generate_form *form, struct grammar *grammar,
                                 struct arena *arena, uint32_t answer_count, const uint32_t *stops,
                                 uint32_t stop_count) {
    form->answers = arena_take(arena, answer_count * sizeof *form->answers);
    enum status status = form->answers ? STATUS_OK : STATUS_NO_MEMORY;
    for (uint32_t i = 0; !status && i < answer_count; i++) {
        struct matcher *matcher;
        status = matcher_open(arena, grammar, &matcher);
        if (!status)
            constrained_answer_begin(&form->answers[i], form->constraint, matcher, stops,
                                     stop_count);
    }
    return status;
}

enum status generate_form_begin(struct generate_form *form, uint32_t rows, uint32_t answer_count,
                                const uint32_t *stops, uint32_t stop_count, struct error *error) {
    const struct token_trie *trie = NULL;
    struct grammar *grammar = NULL;
    struct arena running, scratch;
    form->running = lazy_memory_take(GRAMMAR_BYTES + answer_count * ANSWER_BYTES);
    form->scratch = lazy_memory_take(CONSTRAINT_SCRATCH_BYTES);
    if (!form->running.start || !form->scratch.start)
        return error_set(error, STATUS_NO_MEMORY, "no memory for %u constrained answers",
                         answer_count);
    arena_over(&running, form->running.start, form->running.bytes);
    arena_over(&scratch, form->scratch.start, form->scratch.bytes);
    enum status status = token_trie_of_tokenizer(&running, &scratch, form->tokenizer, rows, &trie);
    lazy_memory_free(&form->scratch);
    if (status) return error_set(error, status, "no memory for the tokens' tree");
    status = matcher_grammar_open(&running, form->constraint->form, trie, &grammar, error);
    if (status) return status;
    form->mask = arena_take(&running, trie->word_count * sizeof *form->mask);
    if (form->mask)
        status = begin_answers(form, grammar, &running, answer_count, stops, stop_count);
    if (form->mask && !status) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for %u constrained answers", answer_count);
}

bool generate_form_mask(struct generate_form *form, uint32_t answer, const uint64_t **mask_out) {
    bool bound = constrained_answer_mask(&form->answers[answer], form->mask);
    *mask_out = bound ? form->mask : NULL;
    return form->answers[answer].place != CONSTRAINED_STUCK;
}

void generate_form_push(struct generate_form *form, uint32_t answer, uint32_t token) {
    constrained_answer_push(&form->answers[answer], token);
}

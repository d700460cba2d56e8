/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/chat_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/number.h"
#include "programs/line_editor.h"

#define CONTEXT_LEAST 4096 /* if memory has no room for the model's own context */

struct chat_model {
    struct solo *solo;
    struct model_text text;
    struct sampler sampler;
    uint64_t seed; /* --seed of the current series of seeds */
    bool seeded;
    struct shape shape;
    uint32_t context_max;
    float *logits; /* [vocab] */
    struct model_prompt prompt;
    uint32_t *computed; /* [computed_count] the last prompt's tokens, in KV memory */
    uint32_t computed_count;
};

static void push_part(void *context, enum token_stream_part part, struct bytes text) {
    const struct chat_sink *sink = context;
    sink->push(sink->context, part == TOKEN_STREAM_REASONING ? ANSWER_THOUGHT : ANSWER_TEXT, text);
}

/* ---- an answer ---- */

static enum status encode_conversation(struct chat_model *model, const struct chat_values *values,
                                       const struct chat_conversation *conversation,
                                       struct error *error) {
    enum status status =
        model_prompt_turns(&model->prompt, conversation->messages, conversation->count,
                           !strcmp(values->content_specials, "on"), error);
    if (status == STATUS_TOO_LARGE || (!status && model->prompt.token_count >= model->context_max))
        return error_set(error, STATUS_TOO_LARGE,
                         "the conversation is longer than %u tokens: /new begins another, or "
                         "start with a larger --max-context",
                         model->context_max);
    if (status) return status;
    return model_run_tokens_check(model->prompt.tokens, model->prompt.token_count, &model->shape,
                                  error);
}

static enum status choose_sampling(struct chat_model *model, const struct chat_values *values,
                                   struct error *error) {
    struct sampling *sampling = &model->sampler.sampling;
    uint64_t seed = sampling->seed + 1;
    if (!model->seeded || model->seed != values->seed) {
        seed = values->seed + 1;
        if (values->seed == 0) check(getrandom(&seed, sizeof seed, 0) == sizeof seed);
    }
    model->seed = values->seed;
    model->seeded = true;
    *sampling = model->text.sampling;
    if (values->temperature >= 0) sampling->temperature = (float)values->temperature;
    if (values->top_p >= 0) sampling->top_p = (float)values->top_p;
    if (values->top_k) sampling->top_k = (uint32_t)values->top_k;
    sampling->seed = seed;
    return sampler_apply(&model->sampler, &values->sampler, model->text.stop_tokens,
                         model->text.stop_token_count, error);
}

/* Computes the prompt in the chunks of solo_prefill, so that Ctrl-C need not wait for its end. What
 * it shares with the last prompt is there already, with the same bits. */
static enum status chat_model_prefill(struct chat_model *model, const struct chat_sink *sink,
                                      struct error *error) {
    const uint32_t *tokens = model->prompt.tokens;
    uint32_t count = (uint32_t)model->prompt.token_count, done = 0;
    uint32_t shared = min_u32(model->computed_count, count - 1); /* the last one has the logits */
    while (done < shared && tokens[done] == model->computed[done])
        done++;
    done = done / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS; /* steps begin at whole blocks */
    solo_truncate(model->solo, 0, done);
    memcpy(model->computed, tokens, count * sizeof *tokens);
    while (done < count && !line_editor_interrupted()) {
        uint32_t chunk = solo_chunk(model->solo, count, done, 0);
        struct solo_row row = {.form = TOKEN_PROMPT,
                               .tokens = tokens + done,
                               .token_count = chunk,
                               .logits_count = done + chunk == count};
        model->computed_count = 0;
        enum status status = solo_step(model->solo, &row, 1, model->logits, NULL, error);
        if (status) return status;
        done += chunk;
        if (done < count) chat_report_prompt(sink, done, count);
    }
    model->computed_count = done;
    return STATUS_OK;
}

/* Generates an answer, from the prompt's last logits to its end. */
static enum status generate_answer(struct chat_model *model, uint32_t count_max,
                                   struct token_stream *stream, const struct chat_sink *sink,
                                   enum chat_end *end_out, struct error *error) {
    *end_out = CHAT_END_LENGTH;
    for (uint32_t count = 0; count < count_max; count++) {
        *end_out = CHAT_END_INTERRUPTED;
        if (line_editor_interrupted()) return STATUS_OK;
        uint32_t token = sampler_choose(&model->sampler, model->logits, NULL);
        *end_out = CHAT_END_STOP;
        if (sampler_ends(&model->sampler, token)) return STATUS_OK;
        *end_out = CHAT_END_LENGTH;
        token_stream_push(stream, token, push_part, (void *)(uintptr_t)sink);
        struct solo_row row = {
            .form = TOKEN_GENERATED, .tokens = &token, .token_count = 1, .logits_count = 1};
        enum status status = solo_step(model->solo, &row, 1, model->logits, NULL, error);
        if (status) return status;
    }
    return STATUS_OK;
}

enum status chat_model_answer(struct chat_model *model, const struct chat_values *values,
                              const struct chat_conversation *conversation,
                              const struct chat_sink *sink, enum chat_end *end_out,
                              struct error *error) {
    struct token_stream stream;
    enum status status = choose_sampling(model, values, error);
    if (!status) status = encode_conversation(model, values, conversation, error);
    if (status) return status;
    uint32_t prompt_count = (uint32_t)model->prompt.token_count;
    uint32_t count_max = model->context_max - prompt_count;
    if (values->max_new && values->max_new < count_max) count_max = (uint32_t)values->max_new;
    sampler_begin(&model->sampler, model->prompt.tokens, prompt_count);
    token_stream_open(&stream, model->text.tokenizer, NULL, model->prompt.stream, NULL);
    status = chat_model_prefill(model, sink, error);
    if (!status) status = generate_answer(model, count_max, &stream, sink, end_out, error);
    token_stream_finish(&stream, push_part, (void *)(uintptr_t)sink);
    return status;
}

/* ---- opening ---- */

static enum status take_room(struct chat_model *model, struct error *error) {
    model->logits = malloc(model->shape.vocab * sizeof(float));
    model->computed = calloc(model->context_max, sizeof *model->computed);
    if (!model->logits || !model->computed)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the conversation");
    /* the average token is rarely longer */
    enum status status =
        model_prompt_open(&model->prompt, &model->text, (size_t)model->context_max * 64, error);
    if (status) return status;
    return sampler_open(&model->sampler, model->shape.vocab, model->context_max, error);
}

/* Opens the model with its own context, or, if memory is short, with half of it, or a quarter, and
 * so on. With --max-context only with that. */
static enum status open_solo(struct chat_model *model, const struct chat_values *values,
                             struct solo_options *options, struct error *error) {
    uint32_t whole = model->context_max;
    for (;;) {
        options->context_max = model->context_max;
        enum status status = model_run_open(options, &model->solo, error);
        bool smaller = !values->max_context && model->context_max > CONTEXT_LEAST;
        if (!status && model->context_max < whole)
            fprintf(stderr,
                    "fathom chat: memory has room for %u tokens of conversation, not for the "
                    "model's %u\n",
                    model->context_max, whole);
        if (status != STATUS_NO_MEMORY || !smaller) return status;
        model->context_max = max_u32(model->context_max / 2, CONTEXT_LEAST);
    }
}

static enum status open_model(struct chat_model *model, const struct chat_values *values,
                              struct error *error) {
    struct solo_options options = {.sequences = 1, .schedule = values->run.schedule};
    enum status status = model_run_options(&values->run, &options.model, error);
    if (status) return status;
    options.model.step_tokens_max = MODEL_RUN_STEP_TOKENS;
    struct shape shape;
    status = model_run_shape(options.model.directory, &shape, error);
    if (status) return status;
    if (values->max_context > shape.context_max)
        return error_set(error, STATUS_TOO_LARGE,
                         "--max-context %" PRIu64 ": the model has at most %u tokens "
                         "(max_position_embeddings of %.300s/config.json); give that or less",
                         values->max_context, shape.context_max, options.model.directory);
    model->shape = shape;
    model->context_max = values->max_context ? (uint32_t)values->max_context
                                             : min_u32(shape.context_max, LIMIT_CONTEXT);
    struct template_choice choice = {.chat_template = values->chat_template};
    status = model_text_open(options.model.directory, &shape, &choice, &model->text, error);
    if (status) return status;
    if (!model->text.stop_token_count)
        fprintf(stderr, "fathom chat: %s " MODEL_RUN_ENDLESS "\n", options.model.directory);
    if (!model->text.tokenizer || !model->text.chat_template.present)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%.300s has no tokenizer.json or tiktoken.model, or no chat template: `fathom generate "
            "--tokens` needs neither",
            options.model.directory);
    status = open_solo(model, values, &options, error);
    if (!status) status = take_room(model, error);
    return status ? status : choose_sampling(model, values, error);
}

enum status chat_model_open(const struct chat_values *values, struct chat_model **model_out,
                            struct error *error) {
    struct chat_model *model = calloc(1, sizeof *model);
    if (!model) return error_set(error, STATUS_NO_MEMORY, "no memory for the chat");
    enum status status = open_model(model, values, error);
    model->seeded = false;
    if (status)
        chat_model_close(model);
    else
        *model_out = model;
    return status;
}

void chat_model_close(struct chat_model *model) {
    if (!model) return;
    if (model->solo) solo_close(model->solo);
    model_prompt_close(&model->prompt);
    model_text_close(&model->text);
    free(model->logits);
    free(model->computed);
    sampler_close(&model->sampler);
    free(model);
}

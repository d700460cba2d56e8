/* SPDX-License-Identifier: Apache-2.0
 * fathom generate: one answer, straight from the model: to token ids, or (in builds with serving)
 * to a prompt in words, printed as it comes. There it may be bound to a schema or a grammar, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/model_run.h"
#include "command/rank_job.h"
#include "programs/generate_form.h"
#include "programs/generate_text.h"
#include "programs/programs.h"
#include "programs/sampler.h"

#define STEP_TOKENS 512

struct generate_values {
    struct model_run_values run;
    struct rank_job_values job;
    const char *tokens, *content_specials, *chat_template;
    uint64_t max_new, top_k, seed, logprobs;
    double temperature, top_p;
    struct sampler_values sampler;
    struct generate_form_values form;
    bool greedy, ignore_eos, json;
};

static const struct option generate_rows[] = {
    MODEL_RUN_OPTIONS,
    RANK_JOB_OPTIONS(struct generate_values),
    {"tokens", OPTION_TEXT, NULL,
     "the prompt as token ids, separated by commas; several prompts are separated by ;",
     .offset = offsetof(struct generate_values, tokens)},
    CONTENT_SPECIALS_OPTION(struct generate_values, content_specials),
    CHAT_TEMPLATE_OPTION(struct generate_values, chat_template),
    {"max-new", OPTION_COUNT, "1024", "maximum tokens to generate",
     .offset = offsetof(struct generate_values, max_new), .minimum = 1,
     .maximum = 0.5 * LIMIT_CONTEXT},
    {"greedy", OPTION_FLAG, NULL, "always take the most likely token (as --temperature 0)",
     .offset = offsetof(struct generate_values, greedy)},
    {"temperature", OPTION_NUMBER, "0.6", "flattens (above 1) or sharpens the choice",
     .offset = offsetof(struct generate_values, temperature), .needs = "=greedy", .minimum = 0,
     .maximum = 2},
    {"top-p", OPTION_NUMBER, "0.95",
     "sample from the likeliest tokens with this total probability; 1: all",
     .offset = offsetof(struct generate_values, top_p), .needs = "=greedy", .minimum = 0,
     .maximum = 1},
    {"top-k", OPTION_COUNT, NULL, "sample from this many tokens; 0: all",
     .offset = offsetof(struct generate_values, top_k), .needs = "=greedy", .maximum = LIMIT_VOCAB},
    SAMPLER_OPTIONS(struct generate_values),
    GENERATE_FORM_OPTIONS(struct generate_values),
    {"seed", OPTION_COUNT, NULL, "the same seed gives the same answer",
     .offset = offsetof(struct generate_values, seed), .needs = "=greedy"},
    {"logprobs", OPTION_COUNT, NULL,
     "with --json: print each token's log probability, and those of this many likeliest tokens",
     .offset = offsetof(struct generate_values, logprobs), .maximum = LIMIT_TOP_LOGPROBS},
    {"ignore-eos", OPTION_FLAG, NULL, "continue after the end-of-sentence token",
     .offset = offsetof(struct generate_values, ignore_eos)},
    {"json", OPTION_FLAG, NULL,
     "print {\"tokens\":[...]}; for several prompts {\"prompts\":[{\"tokens\":[...]},...]}",
     .offset = offsetof(struct generate_values, json)},
};

const struct option_table generate_options = {
    .command = "generate",
    .arguments = "[PROMPT]",
    .description = "Prints a model's answer to a prompt, or what follows the given tokens.",
    .options = generate_rows,
    .option_count = sizeof generate_rows / sizeof generate_rows[0],
    .positional_max = 1,
};

struct generate_answer {
    const uint32_t *prompt;
    uint32_t prompt_count;
    uint32_t done;                  /* tokens of the prompt that are computed */
    uint32_t *tokens;               /* [max_new] */
    struct token_logprob *logprobs; /* [max_new][1 + --logprobs]; NULL: not asked for */
    uint32_t count;
    bool ended;
    struct sampler sampler;
};

struct generation {
    struct generate_values values;
    struct json_print print;
    struct solo *solo;
    const struct shape *shape;
    struct model_run_prompts given;  /* --tokens */
    struct generate_answer *answers; /* [answer_count] */
    uint32_t answer_count;
    struct solo_row *rows; /* [answer_count] of one step */
    float *logits;         /* [answer_count][vocab] of one step */
    struct generate_text *text;
    struct answer_ends ends;    /* tokens that end an answer */
    struct generate_form *form; /* NULL: answers are free */
};

static enum status generate_read_prompt(struct generation *generation, const char *directory,
                                        const char *prompt, const uint32_t **tokens_out,
                                        uint32_t *count_out, struct error *error) {
    enum status status =
        generate_text_open(directory, generation->values.chat_template, &generation->text, error);
    if (status != STATUS_OK) return status;
    return generate_text_prompt(generation->text, prompt,
                                !strcmp(generation->values.content_specials, "on"), tokens_out,
                                count_out, error);
}

/* Prints a token: of a single answer at once, of several answers one after the other at the end. */
static void print_token(struct generation *generation, uint32_t index, uint32_t token) {
    bool json = !generation->print.off;
    json_print_count(&generation->print, NULL, token);
    if (!json && generation->text) generate_text_push(generation->text, token);
    if (!json && !generation->text) printf("%s%u", index ? "," : "", token);
    fflush(stdout);
}

static bool is_end(const struct generation *generation, uint32_t token) {
    for (uint32_t i = 0; i < generation->ends.count; i++)
        if (generation->ends.tokens[i] == token) return !generation->values.ignore_eos;
    return false;
}

static enum status begin_answer(const struct generation *generation, struct generate_answer *answer,
                                struct error *error) {
    const struct generate_values *values = &generation->values;
    answer->sampler.sampling = (struct sampling){
        .temperature = values->greedy ? 0 : (float)values->temperature,
        .top_p = (float)values->top_p,
        .top_k = (uint32_t)values->top_k,
        .seed = values->seed,
    };
    sampler_begin(&answer->sampler, answer->prompt, answer->prompt_count);
    return sampler_apply(&answer->sampler, &values->sampler, generation->ends.tokens,
                         generation->ends.count, error);
}

static void generate_add_token(struct generation *generation, struct generate_answer *answer,
                               const float *logits) {
    uint32_t index = (uint32_t)(answer - generation->answers);
    const uint64_t *mask = NULL;
    if (generation->form && !generate_form_mask(generation->form, index, &mask)) {
        answer->ended = true;
        return;
    }
    uint32_t token = sampler_choose(&answer->sampler, logits, mask);
    if (generation->form) generate_form_push(generation->form, index, token);
    uint32_t top = (uint32_t)generation->values.logprobs;
    if (answer->logprobs)
        sample_logprobs(logits, generation->shape->vocab, token, top,
                        answer->logprobs + (size_t)answer->count * (1 + top));
    answer->tokens[answer->count++] = token;
    if (generation->answer_count == 1) print_token(generation, answer->count - 1, token);
    answer->ended = is_end(generation, token) || answer->count == generation->values.max_new;
}

/* Prompts first, a chunk of one on each rank at a time; then a token of every answer. */
static uint32_t generate_form_step(const struct generation *generation) {
    struct solo_row *rows = generation->rows;
    uint32_t ranks = rank_group_count(solo_group(generation->solo)), count = 0;
    for (uint32_t rank = 0; rank < ranks; rank++)
        for (uint32_t i = rank; i < generation->answer_count; i += ranks) {
            const struct generate_answer *answer = &generation->answers[i];
            uint32_t left = answer->prompt_count - answer->done;
            if (!left) continue;
            uint32_t chunk = solo_chunk(generation->solo, answer->prompt_count, answer->done, 0);
            rows[count++] = (struct solo_row){.sequence = i,
                                              .form = TOKEN_PROMPT,
                                              .tokens = answer->prompt + answer->done,
                                              .token_count = chunk,
                                              .logits_count = chunk == left};
            break;
        }
    for (uint32_t i = 0; !count || rows[0].form == TOKEN_GENERATED; i++) {
        if (i == generation->answer_count) break;
        const struct generate_answer *answer = &generation->answers[i];
        if (answer->ended) continue;
        rows[count++] = (struct solo_row){.sequence = i,
                                          .form = TOKEN_GENERATED,
                                          .tokens = answer->tokens + answer->count - 1,
                                          .token_count = 1,
                                          .logits_count = 1};
    }
    return count;
}

static enum status generate_run_tokens(struct generation *generation, struct error *error) {
    for (uint32_t count; (count = generate_form_step(generation)) > 0;) {
        enum status status =
            solo_step(generation->solo, generation->rows, count, generation->logits, NULL, error);
        if (status != STATUS_OK) return status;
        const float *logits = generation->logits;
        for (uint32_t i = 0; i < count; i++) {
            const struct solo_row *row = &generation->rows[i];
            struct generate_answer *answer = &generation->answers[row->sequence];
            if (row->form == TOKEN_PROMPT) answer->done += row->token_count;
            if (!row->logits_count) continue;
            generate_add_token(generation, answer, logits);
            logits += generation->shape->vocab;
        }
    }
    return STATUS_OK;
}

static enum status generate_take_room(struct generation *generation, uint32_t longest,
                                      struct error *error) {
    size_t count = generation->answer_count, vocab = generation->shape->vocab;
    enum status status = STATUS_OK;
    generation->rows = calloc(count, sizeof *generation->rows);
    generation->logits = malloc(count * vocab * sizeof(float));
    bool whole = generation->rows && generation->logits;
    for (uint32_t i = 0; whole && status == STATUS_OK && i < count; i++) {
        struct generate_answer *answer = &generation->answers[i];
        answer->tokens = calloc(generation->values.max_new, sizeof *answer->tokens);
        size_t each = 1 + generation->values.logprobs;
        if (generation->values.logprobs)
            answer->logprobs = calloc(generation->values.max_new * each, sizeof *answer->logprobs);
        whole = answer->tokens && (answer->logprobs || !generation->values.logprobs);
        status = sampler_open(&answer->sampler, (uint32_t)vocab, longest, error);
    }
    if (whole) return status;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the logits of %zu answers", count);
}

static enum status generate_open_model(struct generation *generation,
                                       const struct model_options *model, uint32_t longest_prompt,
                                       struct error *error) {
    struct solo_options options = {.model = *model,
                                   .sequences = generation->answer_count,
                                   .schedule = generation->values.run.schedule};
    uint32_t longest = longest_prompt + (uint32_t)generation->values.max_new;
    if (longest > LIMIT_CONTEXT)
        return error_set(error, STATUS_TOO_LARGE, "%u tokens are more than the limit of %d",
                         longest, LIMIT_CONTEXT);
    options.context_max = longest;
    enum status status = rank_job_options(&generation->values.job, &options.model, error);
    options.rebalance = rank_job_rebalance(&generation->values.job);
    if (status != STATUS_OK) return status;
    options.model.step_tokens_max = longest_prompt < STEP_TOKENS ? longest_prompt : STEP_TOKENS;
    if (options.model.step_tokens_max < options.sequences)
        options.model.step_tokens_max = options.sequences;
    status = model_run_open(&options, &generation->solo, error);
    if (status != STATUS_OK) return status;
    generation->shape = model_shape(solo_model(generation->solo));
    if (generation->values.tokens)
        status = model_run_prompts_check(&generation->given, generation->shape->vocab, error);
    return status == STATUS_OK ? generate_take_room(generation, longest, error) : status;
}

static enum status open_answers(struct generation *generation, const char *prompt,
                                const char *directory, uint32_t *longest_out, struct error *error) {
    const uint32_t *tokens = NULL;
    uint32_t count = 0;
    struct model_run_prompts *given = &generation->given;
    enum status status =
        prompt ? generate_read_prompt(generation, directory, prompt, &tokens, &count, error)
               : model_run_prompts_read(generation->values.tokens, given, error);
    if (status != STATUS_OK) return status;
    generation->answer_count = prompt ? 1 : given->count;
    generation->answers = calloc(generation->answer_count, sizeof *generation->answers);
    if (!generation->answers) return error_set(error, STATUS_NO_MEMORY, "no memory");
    generation->answers[0] = (struct generate_answer){.prompt = tokens, .prompt_count = count};
    for (uint32_t i = 0; !prompt && i < given->count; i++)
        generation->answers[i] =
            (struct generate_answer){.prompt = given->tokens + given->first[i],
                                     .prompt_count = given->first[i + 1] - given->first[i]};
    *longest_out = prompt ? count : given->longest;
    return STATUS_OK;
}

#define LOGPROB_DIGITS 7

/* The member "logprobs" of an answer. */
static void print_logprobs(struct generation *generation, const struct generate_answer *answer) {
    struct json_print *print = &generation->print;
    uint32_t top = (uint32_t)generation->values.logprobs;
    if (!answer->logprobs) return;
    json_print_open(print, "logprobs", '[');
    for (uint32_t i = 0; i < answer->count; i++) {
        const struct token_logprob *own = answer->logprobs + (size_t)i * (1 + top);
        json_print_open(print, NULL, '{');
        json_print_count(print, "token", own->token);
        json_print_number(print, "logprob", (double)own->logprob, LOGPROB_DIGITS);
        json_print_open(print, "top", '[');
        for (uint32_t k = 1; k <= top && k <= generation->shape->vocab; k++) {
            json_print_open(print, NULL, '[');
            json_print_count(print, NULL, own[k].token);
            json_print_number(print, NULL, (double)own[k].logprob, LOGPROB_DIGITS);
            json_print_close(print);
        }
        json_print_close(print);
        json_print_close(print);
    }
    json_print_close(print);
}

static void print_several(struct generation *generation) {
    struct json_print *print = &generation->print;
    for (uint32_t i = 0; i < generation->answer_count; i++) {
        const struct generate_answer *answer = &generation->answers[i];
        json_print_open(print, NULL, '{');
        json_print_open(print, "tokens", '[');
        for (uint32_t k = 0; k < answer->count; k++)
            print_token(generation, k, answer->tokens[k]);
        json_print_close(print);
        print_logprobs(generation, answer);
        json_print_close(print);
        if (print->off && i + 1 < generation->answer_count) printf("\n");
    }
}

static enum status run(struct generation *generation, const char *prompt, struct error *error) {
    struct model_options model;
    uint32_t longest = 0;
    enum status status = model_run_options(&generation->values.run, &model, error);
    if (status == STATUS_OK)
        status = open_answers(generation, prompt, model.directory, &longest, error);
    if (status == STATUS_OK && generate_form_count(&generation->values.form))
        status = generate_form_open(&generation->values.form, model.directory, generation->text,
                                    &generation->form, error);
    if (status == STATUS_OK) status = generate_open_model(generation, &model, longest, error);
    if (status == STATUS_OK)
        status = generate_text_ends(generation->text, model.directory, generation->shape,
                                    &generation->ends, error);
    if (status == STATUS_OK && !generation->ends.count && !generation->values.ignore_eos)
        fprintf(stderr, "fathom generate: %s " MODEL_RUN_ENDLESS "\n", model.directory);
    if (status == STATUS_OK && generation->form)
        status = generate_form_begin(generation->form, generation->shape->vocab,
                                     generation->answer_count, generation->ends.tokens,
                                     generation->ends.count, error);
    for (uint32_t i = 0; status == STATUS_OK && i < generation->answer_count; i++)
        status = begin_answer(generation, &generation->answers[i], error);
    if (status != STATUS_OK) return status;
    bool several = generation->answer_count > 1;
    struct json_print *print = &generation->print;
    *print = json_print_begin(generation->values.json);
    json_print_open(print, several ? "prompts" : "tokens", '[');
    status = generate_run_tokens(generation, error);
    if (several && status == STATUS_OK) print_several(generation);
    json_print_close(print);
    if (!several) print_logprobs(generation, &generation->answers[0]);
    rank_job_print_json(&generation->values.job, solo_group(generation->solo), print);
    json_print_close(print);
    if (print->off && generation->text)
        generate_text_finish(generation->text);
    else if (print->off)
        printf("\n");
    if (status != STATUS_OK) return status;
    return rank_job_write_trace(&generation->values.job, solo_group(generation->solo), error);
}

static void close_generation(struct generation *generation) {
    solo_close(generation->solo);
    generate_form_close(generation->form);
    generate_text_close(generation->text);
    for (uint32_t i = 0; generation->answers && i < generation->answer_count; i++) {
        free(generation->answers[i].tokens);
        free(generation->answers[i].logprobs);
        sampler_close(&generation->answers[i].sampler);
    }
    model_run_prompts_close(&generation->given);
    free(generation->answers);
    free(generation->rows);
    free(generation->logits);
}

int program_generate(void *given, const struct option_result *result) {
    struct generation generation = {.solo = NULL};
    struct error error = {.text = ""};
    int exit_code;
    generation.values = *(const struct generate_values *)given;
    if ((result->positional_count == 1) == (generation.values.tokens != NULL))
        return command_misused("expected either a prompt or --tokens");
    if (generation.values.logprobs && !generation.values.json)
        return command_misused("--logprobs needs --json");
    if (generate_form_count(&generation.values.form) > 1)
        return command_misused("expected one of --schema, --regex and --grammar");
    if (generate_form_count(&generation.values.form) && generation.values.ignore_eos)
        return command_misused("a bound answer ends where its --schema, --regex "
                               "or --grammar does; leave out --ignore-eos");
    if (rank_job_begin(RANK_JOB_DRIVEN, &generation.values.job, &exit_code)) return exit_code;
    const char *prompt = generation.values.tokens ? NULL : result->positional[0];
    enum status status = run(&generation, prompt, &error);
    close_generation(&generation);
    return command_end(status, &error);
}

/* SPDX-License-Identifier: Apache-2.0
 * fathom generate: one answer, straight from the model: to token ids, or (in builds with serving)
 * to a prompt in words, printed as it comes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "programs/model_run.h"
#include "programs/rank_job.h"
#include "programs/sampler.h"

#ifdef FATHOM_SERVING
#include "programs/generate_text.h"
#endif

#define STEP_TOKENS 512

struct generate_values {
    struct model_run_values run;
    struct rank_job_values job;
    const char *tokens;
    uint64_t max_new, top_k, seed;
    double temperature, top_p;
    struct sampler_values sampler;
    bool greedy, ignore_eos, json;
};

static const struct option generate_rows[] = {
    MODEL_RUN_OPTIONS,
    RANK_JOB_OPTIONS(struct generate_values),
    {.name = "tokens",
     .type = OPTION_TEXT,
     .help = "the prompt as token ids, with commas between",
     .offset = offsetof(struct generate_values, tokens)},
    {.name = "max-new",
     .type = OPTION_COUNT,
     .fallback = "1024",
     .help = "tokens to generate at most",
     .offset = offsetof(struct generate_values, max_new),
     .minimum = 1,
     .maximum = 0.5 * LIMIT_CONTEXT},
    {.name = "greedy",
     .type = OPTION_FLAG,
     .help = "always take the most likely token (as --temperature 0)",
     .offset = offsetof(struct generate_values, greedy)},
    {.name = "temperature",
     .type = OPTION_NUMBER,
     .fallback = "0.6",
     .help = "flattens (above 1) or sharpens the choice",
     .offset = offsetof(struct generate_values, temperature),
     .minimum = 0,
     .maximum = 2},
    {.name = "top-p",
     .type = OPTION_NUMBER,
     .fallback = "0.95",
     .help = "choose among the likeliest tokens that share this probability; 1: all",
     .offset = offsetof(struct generate_values, top_p),
     .minimum = 0,
     .maximum = 1},
    {.name = "top-k",
     .type = OPTION_COUNT,
     .help = "choose among this many tokens; 0: all",
     .offset = offsetof(struct generate_values, top_k),
     .maximum = LIMIT_VOCAB},
    SAMPLER_OPTIONS(struct generate_values),
    {.name = "seed",
     .type = OPTION_COUNT,
     .help = "the same seed gives the same answer",
     .offset = offsetof(struct generate_values, seed)},
    {.name = "ignore-eos",
     .type = OPTION_FLAG,
     .help = "go on after the end-of-sentence token",
     .offset = offsetof(struct generate_values, ignore_eos)},
    {.name = "json",
     .type = OPTION_FLAG,
     .help = "print {\"tokens\":[...]}",
     .offset = offsetof(struct generate_values, json)},
};

const struct option_table generate_options[1] = {
    {.command = "generate",
     .arguments = "[PROMPT]",
     .description = "Prints a model's answer to a prompt, or what follows the given tokens.",
     .options = generate_rows,
     .option_count = sizeof generate_rows / sizeof generate_rows[0],
     .positional_max = 1},
};

struct answer {
    struct generate_values values;
    struct solo *solo;
    const struct shape *shape;
    uint32_t *given; /* --tokens */
    const uint32_t *prompt;
    uint32_t prompt_count;
    float *logits; /* [vocab] */
    struct sampler sampler;
    uint32_t count; /* tokens printed */
    struct generate_text *text;
};

#ifdef FATHOM_SERVING
static enum status read_prompt(struct answer *answer, const char *directory, const char *prompt,
                               struct error *error) {
    enum status status = generate_text_open(directory, &answer->text, error);
    if (status != STATUS_OK) return status;
    return generate_text_prompt(answer->text, prompt, &answer->prompt, &answer->prompt_count,
                                error);
}
static void push_text(struct answer *answer, uint32_t token) {
    generate_text_push(answer->text, token);
}
static void finish_text(struct answer *answer) {
    generate_text_finish(answer->text);
}
static void close_text(struct answer *answer) {
    generate_text_close(answer->text);
}
#else
static enum status read_prompt(struct answer *answer, const char *directory, const char *prompt,
                               struct error *error) {
    return error_set(error, STATUS_UNSUPPORTED,
                     "this build has no tokenizer; give the prompt as --tokens");
}
static void push_text(struct answer *answer, uint32_t token) {
}
static void finish_text(struct answer *answer) {
}
static void close_text(struct answer *answer) {
}
#endif

static void print_token(struct answer *answer, uint32_t token) {
    if (answer->values.json || !answer->text) {
        printf("%s%u", answer->count ? "," : "", token);
        fflush(stdout);
    } else {
        push_text(answer, token);
    }
    answer->count++;
}

static bool is_end(const struct answer *answer, uint32_t token) {
    for (uint32_t i = 0; i < answer->shape->eos_token_count; i++)
        if (answer->shape->eos_tokens[i] == token) return !answer->values.ignore_eos;
    return false;
}

static enum status run_tokens(struct answer *answer, struct error *error) {
    const struct generate_values *values = &answer->values;
    answer->sampler.sampling = (struct sampling){
        .temperature = values->greedy ? 0 : (float)values->temperature,
        .top_p = (float)values->top_p,
        .top_k = (uint32_t)values->top_k,
        .seed = values->seed,
    };
    sampler_apply(&answer->sampler, &values->sampler);
    sampler_begin(&answer->sampler, answer->prompt, answer->prompt_count);
    enum status status = solo_prefill(answer->solo, 0, answer->prompt, answer->prompt_count, 0,
                                      answer->logits, error);
    for (uint32_t i = 0; status == STATUS_OK; i++) {
        uint32_t token = sampler_choose(&answer->sampler, answer->logits);
        print_token(answer, token);
        if (is_end(answer, token) || i + 1 == values->max_new) return STATUS_OK;
        struct solo_row row = {
            .form = TOKEN_GENERATED, .tokens = &token, .token_count = 1, .logits_count = 1};
        status = solo_step(answer->solo, &row, 1, answer->logits, NULL, error);
    }
    return status;
}

static enum status open_model(struct answer *answer, const struct model_options *model,
                              struct error *error) {
    struct solo_options options = {.model = *model, .sequences = 1};
    uint32_t longest = answer->prompt_count + (uint32_t)answer->values.max_new;
    if (longest > LIMIT_CONTEXT)
        return error_set(error, STATUS_TOO_LARGE, "%u tokens are more than the limit of %d",
                         longest, LIMIT_CONTEXT);
    options.context_max = longest;
    rank_job_options(&answer->values.job, &options.model);
    options.model.step_tokens_max =
        answer->prompt_count < STEP_TOKENS ? answer->prompt_count : STEP_TOKENS;
    enum status status = model_run_open(&options, &answer->solo, error);
    if (status != STATUS_OK) return status;
    answer->shape = model_shape(solo_model(answer->solo));
    for (uint32_t i = 0; i < answer->prompt_count; i++)
        if (answer->prompt[i] >= answer->shape->vocab)
            return error_set(error, STATUS_INVALID, "%u is no token, the model has %u",
                             answer->prompt[i], answer->shape->vocab);
    answer->logits = malloc(answer->shape->vocab * sizeof(float));
    if (!answer->logits) return error_set(error, STATUS_NO_MEMORY, "no memory for the logits");
    return sampler_open(&answer->sampler, answer->shape->vocab, longest, error);
}

static enum status run(struct answer *answer, const char *prompt, struct error *error) {
    struct model_options model;
    enum status status = model_run_options(&answer->values.run, &model, error);
    if (status != STATUS_OK) return status;
    if (answer->values.tokens) {
        status =
            model_run_tokens(answer->values.tokens, &answer->given, &answer->prompt_count, error);
        answer->prompt = answer->given;
    } else {
        status = read_prompt(answer, model.directory, prompt, error);
    }
    if (status == STATUS_OK) status = open_model(answer, &model, error);
    if (status != STATUS_OK) return status;
    if (answer->values.json) printf("{\"tokens\":[");
    status = run_tokens(answer, error);
    if (answer->values.json) {
        printf("]");
        rank_job_print_json(&answer->values.job, solo_group(answer->solo));
        printf("}\n");
    } else if (answer->text)
        finish_text(answer);
    else
        printf("\n");
    return status;
}

int program_generate(int argc, char **argv) {
    struct answer answer = {0};
    struct option_result result;
    struct error error = {0};
    int exit_code;
    if (!command_begin(generate_options, argc, argv, &answer.values, &result, &exit_code))
        return exit_code;
    if ((result.positional_count == 1) == (answer.values.tokens != NULL))
        return command_misused(generate_options, "expected either a prompt or --tokens");
    if (rank_job_begin(generate_options, &answer.values.job, &exit_code)) return exit_code;
    enum status status = run(&answer, result.positional[0], &error);
    solo_close(answer.solo);
    close_text(&answer);
    free(answer.given);
    free(answer.logits);
    sampler_close(&answer.sampler);
    return status == STATUS_OK ? command_end(generate_options)
                               : command_failed(generate_options, status, &error);
}

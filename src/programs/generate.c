/* SPDX-License-Identifier: Apache-2.0
 * fathom generate: runs the model directly and prints its answer as it is generated. The prompt is
 * token ids or, in builds with serving, text. There a schema or grammar can constrain the answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"
#include "command/rank_job.h"
#include "programs/generate_text.h"
#include "programs/programs.h"
#include "programs/sampler.h"

struct generate_values {
    struct model_run_values run;
    struct rank_job_values job;
    struct generate_text_values text;
    const char *tokens;
    uint64_t max_new, top_k, seed, logprobs;
    double temperature, top_p;
    struct sampler_values sampler;
    bool greedy, ignore_eos, json;
};

#define AT(field) .offset = offsetof(struct generate_values, field)

static const struct option generate_rows[] = {
    MODEL_RUN_OPTIONS,
    RANK_JOB_OPTIONS(struct generate_values),
    {"tokens", OPTION_TEXT, NULL,
     "the prompt as token ids, separated by commas; several prompts are separated by ;",
     AT(tokens)},
    CONTENT_SPECIALS_OPTION(struct generate_values, text.content_specials),
    CHAT_TEMPLATE_OPTION(struct generate_values, text.chat_template),
    {"max-new", OPTION_COUNT, "1024", "maximum tokens to generate", AT(max_new), .minimum = 1,
     .maximum = 0.5 * LIMIT_CONTEXT},
    {"greedy", OPTION_FLAG, NULL, "always take the most likely token (as --temperature 0)",
     AT(greedy)},
    {"temperature", OPTION_NUMBER, "-1",
     "flattens (above 1) or sharpens the choice; -1: the model's own (generation_config.json)",
     AT(temperature), .needs = "=greedy", .minimum = -1, .maximum = 2},
    {"top-p", OPTION_NUMBER, "-1",
     "sample from the likeliest tokens with this total probability; 1: all; -1: the model's own",
     AT(top_p), .needs = "=greedy", .minimum = -1, .maximum = 1},
    {"top-k", OPTION_COUNT, NULL, "sample from this many tokens; 0: the model's own", AT(top_k),
     .needs = "=greedy", .maximum = LIMIT_VOCAB},
    SAMPLER_OPTIONS(struct generate_values),
    {"schema", OPTION_TEXT, NULL, "a file with a JSON schema for the answer", AT(text.schema)},
    {"regex", OPTION_TEXT, NULL, "a regular expression (ECMA) for the whole answer",
     AT(text.regex)},
    {"grammar", OPTION_TEXT, NULL, "a file with a grammar (GBNF) for the answer", AT(text.grammar)},
    {"seed", OPTION_COUNT, NULL,
     "the same seed gives the same answer; without this option it is 0, and a prompt gets the same "
     "answer each time",
     AT(seed), .needs = "=greedy"},
    {"logprobs", OPTION_COUNT, NULL,
     "with --json: print each token's log probability, and those of this many likeliest tokens",
     AT(logprobs), .maximum = LIMIT_TOP_LOGPROBS},
    {"ignore-eos", OPTION_FLAG, NULL, "continue after the end-of-sentence token", AT(ignore_eos)},
    {"json", OPTION_FLAG, NULL,
     "print one JSON object: the answer's tokens, its text and reasoning if the prompt is text, "
     "the reason of its end, and times; several prompts are in its array \"prompts\"",
     AT(json)},
};

const struct option_table generate_options = {
    .command = "generate",
    .arguments = "[PROMPT]",
    .description =
        "Prints a model's answer to a prompt, or what follows the given tokens. Without a "
        "prompt\nand --tokens, the prompt is read from standard input.",
    .options = generate_rows,
    .option_count = sizeof generate_rows / sizeof generate_rows[0],
    .positional_max = 1,
};

struct generate_answer {
    uint32_t *tokens;               /* [max_new] */
    struct token_logprob *logprobs; /* [max_new][1 + --logprobs]; NULL: not requested */
    uint32_t count;
    bool ended;
    bool cut; /* by --max-new */
    struct sampler sampler;
};

struct generation {
    struct generate_values values;
    struct json_print print;
    struct solo *solo;
    const struct shape *shape;
    struct model_run_prompts prompts;
    struct generate_answer *answers; /* [prompts.count] */
    struct solo_row *rows;           /* [prompts.count] of one step */
    float *logits;                   /* [prompts.count][vocab] of one step */
    bool words;                      /* prompt and answer are text; otherwise ids */
    struct generate_text *text;
    struct sampling sampling;            /* the model's own */
    struct answer_ends ends;             /* tokens that end an answer */
    int64_t begin_ns, prompt_ns, end_ns; /* prompt_ns: all prompts were computed */
};

/* Prints a token of a single answer at once. Several answers are printed one by one at the end. */
static void print_token(struct generation *generation, uint32_t index, uint32_t token) {
    struct json_print *print = &generation->print;
    json_print_count(print, NULL, token);
    if (print->off && generation->words)
        generate_text_print(generation->text, token);
    else
        json_print_say(print, "%s%u", index ? "," : "", token);
    fflush(stdout);
}

static enum status begin_answer(const struct generation *generation, uint32_t index,
                                struct error *error) {
    const struct generate_values *values = &generation->values;
    const struct model_run_prompt *prompt = &generation->prompts.list[index];
    struct sampler *sampler = &generation->answers[index].sampler;
    struct sampling *sampling = &sampler->sampling;
    *sampling = generation->sampling;
    if (values->temperature >= 0) sampling->temperature = (float)values->temperature;
    if (values->greedy) sampling->temperature = 0;
    if (values->top_p >= 0) sampling->top_p = (float)values->top_p;
    if (values->top_k) sampling->top_k = (uint32_t)values->top_k;
    sampling->seed = values->seed;
    sampler_begin(sampler, prompt->tokens, prompt->count);
    return sampler_apply(sampler, &values->sampler, generation->ends.tokens, generation->ends.count,
                         error);
}

static void generate_add_token(struct generation *generation, uint32_t index, const float *logits) {
    struct generate_answer *answer = &generation->answers[index];
    const uint64_t *mask;
    if (!generate_text_mask(generation->text, index, &mask)) {
        answer->ended = true;
        return;
    }
    uint32_t token = sampler_choose(&answer->sampler, logits, mask);
    generate_text_push(generation->text, index, token);
    uint32_t top = (uint32_t)generation->values.logprobs;
    if (answer->logprobs)
        sample_logprobs(logits, generation->shape->vocab, token, top,
                        answer->logprobs + (size_t)answer->count * (1 + top));
    answer->tokens[answer->count++] = token;
    if (generation->prompts.count == 1) print_token(generation, answer->count - 1, token);
    answer->ended = !generation->values.ignore_eos && sampler_ends(&answer->sampler, token);
    answer->cut = !answer->ended && answer->count == generation->values.max_new;
    answer->ended |= answer->cut;
}

/* Forms the next step: first prompts, later one token of every answer. */
static uint32_t generate_form_step(const struct generation *generation) {
    struct solo_row *rows = generation->rows;
    uint32_t answers = generation->prompts.count;
    uint32_t count =
        model_run_prompts_step(&generation->prompts, generation->solo, 0, rows, answers);
    if (count) return count;
    for (uint32_t i = 0; i < answers; i++) {
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
            if (row->form == TOKEN_PROMPT)
                generation->prompts.list[row->sequence].done += row->token_count;
            if (!row->logits_count) continue;
            generate_add_token(generation, row->sequence, logits);
            logits += generation->shape->vocab;
        }
        bool prompt = generation->rows[0].form == TOKEN_PROMPT;
        generation->end_ns = clock_now_ns();
        if (prompt) generation->prompt_ns = generation->end_ns;
    }
    return STATUS_OK;
}

static enum status generate_take_room(struct generation *generation, uint32_t longest,
                                      struct error *error) {
    size_t count = generation->prompts.count, vocab = generation->shape->vocab;
    enum status status = STATUS_OK;
    generation->answers = calloc(count, sizeof *generation->answers);
    generation->rows = calloc(count, sizeof *generation->rows);
    generation->logits = malloc(count * vocab * sizeof(float));
    bool whole = generation->answers && generation->rows && generation->logits;
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

static enum status generate_open_model(struct generation *generation, struct solo_options *options,
                                       struct error *error) {
    uint32_t prompt = generation->prompts.longest;
    uint32_t longest = prompt + (uint32_t)generation->values.max_new;
    if (longest > LIMIT_CONTEXT)
        return error_set(error, STATUS_TOO_LARGE, "%u tokens are more than the limit of %d",
                         longest, LIMIT_CONTEXT);
    options->sequences = generation->prompts.count;
    options->context_max = longest;
    options->model.step_tokens_max =
        max_u32(min_u32(prompt, MODEL_RUN_STEP_TOKENS), options->sequences);
    enum status status = model_run_open(options, &generation->solo, error);
    if (status != STATUS_OK) return status;
    generation->shape = model_shape(solo_model(generation->solo));
    if (!generation->words)
        status = model_run_prompts_check(&generation->prompts, generation->shape, error);
    return status == STATUS_OK ? generate_take_room(generation, longest, error) : status;
}

static enum status open_prompts(struct generation *generation, const char *prompt,
                                const char *directory, struct error *error) {
    uint32_t count;
    enum status status =
        generate_text_open(&generation->values.text, directory, prompt, &generation->text, error);
    if (status) return status;
    generation->words = prompt != NULL;
    if (!prompt)
        return model_run_prompts_read(generation->values.tokens, &generation->prompts, error);
    const uint32_t *tokens = generate_text_prompt(generation->text, &count);
    return model_run_prompts_one(tokens, count, &generation->prompts, error);
}

#define LOGPROB_DIGITS 7
#define TIME_DIGITS 6

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

/* Why an answer ended: as the API's finish_reason. */
static void generate_print_end(struct generation *generation,
                               const struct generate_answer *answer) {
    json_print_text(&generation->print, "finish_reason", answer->cut ? "length" : "stop");
}

static void print_times(struct generation *generation) {
    struct json_print *print = &generation->print;
    uint64_t prompt_tokens = 0, answer_tokens = 0;
    for (uint32_t i = 0; i < generation->prompts.count; i++) {
        prompt_tokens += generation->prompts.list[i].count;
        answer_tokens += generation->answers[i].count;
    }
    json_print_open(print, "times", '{');
    json_print_count(print, "prompt_tokens", prompt_tokens);
    json_print_number(print, "prompt_seconds",
                      (double)(generation->prompt_ns - generation->begin_ns) / 1e9, TIME_DIGITS);
    json_print_count(print, "answer_tokens", answer_tokens);
    json_print_number(print, "answer_seconds",
                      (double)(generation->end_ns - generation->prompt_ns) / 1e9, TIME_DIGITS);
    json_print_close(print);
}

static void print_several(struct generation *generation) {
    struct json_print *print = &generation->print;
    for (uint32_t i = 0; i < generation->prompts.count; i++) {
        const struct generate_answer *answer = &generation->answers[i];
        json_print_open(print, NULL, '{');
        json_print_open(print, "tokens", '[');
        for (uint32_t k = 0; k < answer->count; k++)
            print_token(generation, k, answer->tokens[k]);
        json_print_close(print);
        print_logprobs(generation, answer);
        generate_print_end(generation, answer);
        json_print_close(print);
        if (i + 1 < generation->prompts.count) json_print_say(print, "\n");
    }
}

/* Opens the model and begins the answers. */
static enum status generate_begin(struct generation *generation, const char *prompt,
                                  struct error *error) {
    struct solo_options options;
    enum status status =
        rank_job_solo_options(&generation->values.run, &generation->values.job, &options, error);
    if (!status) status = open_prompts(generation, prompt, options.model.directory, error);
    if (!status)
        status = generate_text_sampling(options.model.directory, &generation->sampling, error);
    if (!status) status = generate_open_model(generation, &options, error);
    if (!status)
        status = generate_text_begin(generation->text, generation->shape, generation->prompts.count,
                                     &generation->ends, error);
    if (!status && !generation->ends.count && !generation->values.ignore_eos)
        fprintf(stderr, "fathom generate: %s " MODEL_RUN_ENDLESS "\n", options.model.directory);
    for (uint32_t i = 0; !status && i < generation->prompts.count; i++)
        status = begin_answer(generation, i, error);
    return status;
}

/* Prints what follows the tokens of a single answer. */
static void finish_answer(struct generation *generation) {
    struct json_print *print = &generation->print;
    const struct generate_answer *answer = &generation->answers[0];
    print_logprobs(generation, answer);
    if (print->off) return;
    if (generation->words)
        generate_text_print_json(generation->text, answer->tokens, answer->count, print);
    generate_print_end(generation, answer);
}

static enum status run(struct generation *generation, const char *prompt, struct error *error) {
    const struct rank_job_values *job = &generation->values.job;
    enum status status = generate_begin(generation, prompt, error);
    if (status) return status;
    bool several = generation->prompts.count > 1;
    struct json_print *print = &generation->print;
    *print = json_print_begin(generation->values.json);
    json_print_open(print, several ? "prompts" : "tokens", '[');
    generation->begin_ns = generation->prompt_ns = generation->end_ns = clock_now_ns();
    status = generate_run_tokens(generation, error);
    if (several && status == STATUS_OK) print_several(generation);
    json_print_close(print);
    if (!several) finish_answer(generation);
    print_times(generation);
    rank_job_print_json(job, solo_group(generation->solo), print);
    json_print_close(print);
    if (print->off && generation->words)
        generate_text_finish(generation->text);
    else
        json_print_say(print, "\n");
    if (print->off && generation->words && generation->answers[0].cut)
        fprintf(stderr, "fathom generate: the answer was cut off at --max-new %u\n",
                generation->answers[0].count);
    return status ? status : rank_job_write_trace(job, solo_group(generation->solo), error);
}

#define NO_PROMPT "expected either a prompt or --tokens; a prompt may also come through a pipe"

/* Reads the prompt from standard input, without its last line end. The caller frees it. */
static enum status generate_read_input(char **prompt_out, struct error *error) {
    struct bytes input;
    enum status status = command_read_input(&input, error);
    if (status) return status;
    if (input.count && input.data[input.count - 1] == '\n') input.count--;
    if (input.count && memchr(input.data, 0, input.count))
        status =
            error_set(error, STATUS_INVALID, "standard input: expected text, found a zero byte");
    else if (!(*prompt_out = strndup(input.count ? input.data : "", input.count)))
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the prompt");
    free((void *)(uintptr_t)input.data);
    return status;
}

static void close_generation(struct generation *generation) {
    solo_close(generation->solo);
    generate_text_close(generation->text);
    for (uint32_t i = 0; generation->answers && i < generation->prompts.count; i++) {
        free(generation->answers[i].tokens);
        free(generation->answers[i].logprobs);
        sampler_close(&generation->answers[i].sampler);
    }
    model_run_prompts_close(&generation->prompts);
    free(generation->answers);
    free(generation->rows);
    free(generation->logits);
}

int program_generate(void *given, const struct option_result *result) {
    struct generation generation = {.solo = NULL};
    struct error error = {.text = ""};
    int exit_code;
    generation.values = *(const struct generate_values *)given;
    bool reads_input = !result->positional_count && !generation.values.tokens;
    if ((result->positional_count && generation.values.tokens) ||
        (reads_input && isatty(STDIN_FILENO)))
        return command_misused(NO_PROMPT);
    if (generation.values.logprobs && !generation.values.json)
        return command_misused("--logprobs needs --json");
    if (generate_text_constraint_count(&generation.values.text) > 1)
        return command_misused("expected one of --schema, --regex and --grammar");
    if (generate_text_constraint_count(&generation.values.text) && generation.values.ignore_eos)
        return command_misused("a bound answer ends where its --schema, --regex "
                               "or --grammar does; leave out --ignore-eos");
    if (rank_job_begin(RANK_JOB_DRIVEN, &generation.values.job, &exit_code)) return exit_code;
    char *input = NULL;
    const char *prompt = result->positional_count ? result->positional[0] : NULL;
    enum status status = reads_input ? generate_read_input(&input, &error) : STATUS_OK;
    if (!status && reads_input && !*input) {
        free(input);
        return command_misused(NO_PROMPT);
    }
    if (reads_input) prompt = input;
    if (!status) status = run(&generation, prompt, &error);
    close_generation(&generation);
    free(input);
    return command_end(status, &error);
}

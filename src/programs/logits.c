/* SPDX-License-Identifier: Apache-2.0
 * fathom logits: what the model makes of given tokens: the largest logits at the last positions,
 * the experts chosen, the MTP head's predictions. For comparison with other implementations.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/model_run.h"
#include "command/rank_job.h"
#include "programs/programs.h"

#define STEP_TOKENS 512

struct logits_values {
    struct model_run_values run;
    struct rank_job_values job;
    const char *tokens;
    uint64_t top, last, chunk;
    bool routing, mtp, json;
};

static const struct option logits_rows[] = {
    MODEL_RUN_OPTIONS,
    RANK_JOB_OPTIONS(struct logits_values),
    {"tokens", OPTION_TEXT, NULL,
     "token ids, separated by commas (required); several prompts are separated by ;",
     .offset = offsetof(struct logits_values, tokens)},
    {"top", OPTION_COUNT, "20", "number of largest logits to print for each position",
     .offset = offsetof(struct logits_values, top), .minimum = 1, .maximum = LIMIT_VOCAB},
    {"last", OPTION_COUNT, "1", "number of last positions to print",
     .offset = offsetof(struct logits_values, last), .minimum = 1, .maximum = LIMIT_CONTEXT},
    {"chunk", OPTION_COUNT, NULL,
     "tokens computed in one step, a multiple of 64; 0: 512. Never changes a result",
     .offset = offsetof(struct logits_values, chunk), .maximum = STEP_TOKENS},
    {"routing", OPTION_FLAG, NULL, "add the experts chosen at the last position",
     .offset = offsetof(struct logits_values, routing)},
    {"mtp", OPTION_FLAG, NULL, "add the MTP head's prediction at every position",
     .offset = offsetof(struct logits_values, mtp)},
    {"json", OPTION_FLAG, NULL, "print one JSON object instead of lines",
     .offset = offsetof(struct logits_values, json)},
};

const struct option_table logits_options = {
    .command = "logits",
    .description = "Prints the logits of a model at the last positions of a run of tokens.",
    .arguments = "",
    .options = logits_rows,
    .option_count = sizeof logits_rows / sizeof logits_rows[0],
};

/* The view of one prompt. */
struct logits_view {
    const uint32_t *tokens;
    uint32_t token_count;
    uint32_t done, printed; /* tokens computed, rows of logits so far */
    uint32_t last;          /* positions to print, at most token_count */
    float *logits;          /* [last][vocab] */
    uint32_t *routing;      /* [layers][experts_per_token] */
    uint32_t *mtp;          /* [token_count] */
};

#define LOGIT_DIGITS 9 /* that tell any two floats apart */

struct study {
    struct json_print print;
    struct logits_values values;
    struct solo *solo;
    const struct shape *shape;
    struct model_run_prompts prompts;
    struct logits_view *views; /* [prompts.count] */
    float *logits;             /* [prompts in a step * STEP_TOKENS at most][vocab] of one step */
    uint32_t *order;           /* [vocab] */
};

static enum status logits_take_room(struct study *study, struct error *error) {
    size_t vocab = study->shape->vocab, rows = 0;
    size_t routed = (size_t)study->shape->layers * study->shape->experts_per_token;
    study->views = calloc(study->prompts.count, sizeof *study->views);
    study->order = malloc(vocab * sizeof(uint32_t));
    bool whole = study->views && study->order;
    for (uint32_t i = 0; whole && i < study->prompts.count; i++) {
        struct logits_view *view = &study->views[i];
        view->tokens = study->prompts.tokens + study->prompts.first[i];
        view->token_count = study->prompts.first[i + 1] - study->prompts.first[i];
        view->last = study->values.last < view->token_count ? (uint32_t)study->values.last
                                                            : view->token_count;
        view->logits = malloc(view->last * vocab * sizeof(float));
        view->routing = malloc((routed + 1) * sizeof(uint32_t));
        view->mtp = malloc(view->token_count * sizeof(uint32_t));
        whole = view->logits && view->routing && view->mtp;
        rows += view->last < STEP_TOKENS ? view->last : STEP_TOKENS;
    }
    if (whole) whole = (study->logits = malloc(rows * vocab * sizeof(float))) != NULL;
    return whole ? STATUS_OK
                 : error_set(error, STATUS_NO_MEMORY, "no memory for the logits of %u prompts",
                             study->prompts.count);
}

static struct solo_row logits_next_chunk(const struct study *study, uint32_t index) {
    const struct logits_view *view = &study->views[index];
    uint32_t count =
        solo_chunk(study->solo, view->token_count, view->done, (uint32_t)study->values.chunk);
    uint32_t end = view->done + count, first_wanted = view->token_count - view->last;
    uint32_t from = view->done > first_wanted ? view->done : first_wanted;
    return (struct solo_row){.sequence = index,
                             .form = TOKEN_PROMPT,
                             .tokens = view->tokens + view->done,
                             .token_count = count,
                             .logits_count = end > from ? end - from : 0};
}

/* The next chunk of one prompt on each rank; with a look inside (one probe a step), of one prompt.
 * Returns how many. */
static uint32_t logits_form_step(const struct study *study, struct solo_row *rows) {
    uint32_t ranks = rank_group_count(solo_group(study->solo)), count = 0;
    bool probes = study->values.routing || study->values.mtp;
    for (uint32_t rank = 0; rank < ranks; rank++)
        for (uint32_t i = rank; i < study->prompts.count; i += ranks)
            if (study->views[i].done < study->views[i].token_count) {
                rows[count++] = logits_next_chunk(study, i);
                break;
            }
    return probes && count ? 1 : count;
}

static enum status logits_run_step(struct study *study, const struct solo_row *rows,
                                   uint32_t row_count, struct error *error) {
    struct logits_view *first = &study->views[rows[0].sequence];
    uint32_t end = first->done + rows[0].token_count;
    struct model_probe probe = {
        .routing = study->values.routing ? first->routing : NULL,
        .mtp_argmax = study->values.mtp ? first->mtp + first->done : NULL,
        .mtp_next_token = end < first->token_count ? first->tokens[end] : UINT32_MAX,
    };
    enum status status = solo_step(study->solo, rows, row_count, study->logits, &probe, error);
    const float *logits = study->logits;
    size_t vocab = study->shape->vocab;
    for (uint32_t i = 0; status == STATUS_OK && i < row_count; i++) {
        struct logits_view *view = &study->views[rows[i].sequence];
        memcpy(view->logits + view->printed * vocab, logits,
               rows[i].logits_count * vocab * sizeof *logits);
        logits += rows[i].logits_count * vocab;
        view->printed += rows[i].logits_count;
        view->done += rows[i].token_count;
    }
    return status;
}

static enum status run_prompts(struct study *study, struct error *error) {
    static struct solo_row rows[LIMIT_RANKS];
    enum status status = STATUS_OK;
    for (uint32_t count; status == STATUS_OK && (count = logits_form_step(study, rows)) > 0;)
        status = logits_run_step(study, rows, count, error);
    return status;
}

static const float *sort_logits;

static int by_logit(const void *a, const void *b) {
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    if (sort_logits[first] != sort_logits[second])
        return sort_logits[first] > sort_logits[second] ? -1 : 1;
    return first < second ? -1 : 1;
}

static double log_sum_exp(const float *logits, uint32_t count) {
    double largest = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < count; i++)
        largest = fmax(largest, (double)logits[i]);
    for (uint32_t i = 0; i < count; i++)
        sum += exp((double)logits[i] - largest);
    return largest + log(sum);
}

static void print_position(struct study *study, const struct logits_view *view, uint32_t index) {
    uint32_t vocab = study->shape->vocab, position = view->token_count - view->last + index;
    const float *logits = view->logits + (size_t)index * vocab;
    uint32_t top = study->values.top < vocab ? (uint32_t)study->values.top : vocab;
    struct json_print *print = &study->print;
    double sum = log_sum_exp(logits, vocab);
    for (uint32_t i = 0; i < vocab; i++)
        study->order[i] = i;
    sort_logits = logits;
    qsort(study->order, vocab, sizeof *study->order, by_logit);
    json_print_say(print, "position %u, logsumexp %.9g\n", position, sum);
    json_print_open(print, NULL, '{');
    json_print_count(print, "pos", position);
    json_print_number(print, "logsumexp", sum, LOGIT_DIGITS);
    json_print_open(print, "top", '[');
    for (uint32_t i = 0; i < top; i++) {
        uint32_t token = study->order[i];
        json_print_say(print, "%8u  %.9g\n", token, (double)logits[token]);
        json_print_open(print, NULL, '[');
        json_print_count(print, NULL, token);
        json_print_number(print, NULL, (double)logits[token], LOGIT_DIGITS);
        json_print_close(print);
    }
    json_print_close(print);
    json_print_close(print);
}

/* A member, or a line. */
static void logits_print_list(struct json_print *print, const char *name, const char *title,
                              const uint32_t *values, uint32_t count) {
    json_print_say(print, "%s: ", title);
    json_print_open(print, name, '[');
    for (uint32_t i = 0; i < count; i++) {
        json_print_say(print, "%s%u", i ? "," : "", values[i]);
        json_print_count(print, NULL, values[i]);
    }
    json_print_close(print);
    json_print_say(print, "\n");
}

static void print_routing(struct study *study, const struct logits_view *view) {
    uint32_t per_token = study->shape->experts_per_token;
    char name[16], title[40];
    json_print_open(&study->print, "routing", '{');
    for (uint32_t layer = 0; per_token && layer < study->shape->layers; layer++) {
        const uint32_t *experts = view->routing + (size_t)layer * per_token;
        if (experts[0] == UINT32_MAX) continue; /* dense */
        snprintf(name, sizeof name, "%u", layer);
        snprintf(title, sizeof title, "experts of layer %u", layer);
        logits_print_list(&study->print, name, title, experts, per_token);
    }
    json_print_close(&study->print);
}

static void print_view(struct study *study, const struct logits_view *view) {
    json_print_open(&study->print, "positions", '[');
    for (uint32_t i = 0; i < view->last; i++)
        print_position(study, view, i);
    json_print_close(&study->print);
    if (study->values.routing) print_routing(study, view);
    if (study->values.mtp)
        logits_print_list(&study->print, "mtp_argmax", "MTP predictions", view->mtp,
                          view->token_count);
}

static void print_study(struct study *study) {
    struct json_print *print = &study->print;
    bool several = study->prompts.count > 1;
    *print = json_print_begin(study->values.json);
    if (several) json_print_open(print, "prompts", '[');
    /* The analyzer thinks that their number may change. NOLINTNEXTLINE(clang-analyzer-*) */
    for (uint32_t i = 0; i < study->prompts.count; i++) {
        if (several) json_print_say(print, "prompt %u\n", i);
        if (several) json_print_open(print, NULL, '{');
        print_view(study, &study->views[i]);
        if (several) json_print_close(print);
    }
    if (several) json_print_close(print);
    rank_job_print_json(&study->values.job, solo_group(study->solo), print);
    json_print_close(print);
}

static enum status run(struct study *study, struct error *error) {
    struct solo_options options = {.schedule = study->values.run.schedule};
    enum status status = model_run_prompts_read(study->values.tokens, &study->prompts, error);
    if (status == STATUS_OK) status = model_run_options(&study->values.run, &options.model, error);
    if (status != STATUS_OK) return status;
    uint32_t longest = study->prompts.longest;
    options.sequences = study->prompts.count;
    options.context_max = longest;
    options.model.step_tokens_max = longest < STEP_TOKENS ? longest : STEP_TOKENS;
    options.model.mtp = study->values.mtp;
    status = rank_job_options(&study->values.job, &options.model, error);
    options.rebalance = rank_job_rebalance(&study->values.job);
    if (status == STATUS_OK) status = model_run_open(&options, &study->solo, error);
    if (status != STATUS_OK) return status;
    study->shape = model_shape(solo_model(study->solo));
    if (study->values.mtp && !study->shape->mtp_layers)
        return error_set(error, STATUS_UNSUPPORTED, "--mtp: this checkpoint has no MTP layer");
    status = model_run_prompts_check(&study->prompts, study->shape->vocab, error);
    if (status == STATUS_OK) status = logits_take_room(study, error);
    if (status == STATUS_OK) status = run_prompts(study, error);
    if (status != STATUS_OK) return status;
    print_study(study);
    return rank_job_write_trace(&study->values.job, solo_group(study->solo), error);
}

static void close_study(struct study *study) {
    solo_close(study->solo);
    for (uint32_t i = 0; study->views && i < study->prompts.count; i++) {
        free(study->views[i].logits);
        free(study->views[i].routing);
        free(study->views[i].mtp);
    }
    model_run_prompts_close(&study->prompts);
    free(study->views);
    free(study->logits);
    free(study->order);
}

int program_logits(void *given, const struct option_result *result) {
    struct study study = {.solo = NULL};
    struct error error = {.text = ""};
    int exit_code;
    study.values = *(const struct logits_values *)given;
    if (!study.values.tokens) return command_misused("--tokens is missing");
    if (rank_job_begin(RANK_JOB_DRIVEN, &study.values.job, &exit_code)) return exit_code;
    enum status status = run(&study, &error);
    close_study(&study);
    return command_end(status, &error);
}

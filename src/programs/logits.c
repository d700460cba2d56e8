/* SPDX-License-Identifier: Apache-2.0
 * fathom logits: prints the model's results for given tokens: the largest logits at the last
 * positions, the chosen experts, and the MTP head's predictions. For comparison with other
 * implementations.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "command/rank_job.h"
#include "programs/programs.h"

struct logits_values {
    struct model_run_values run;
    struct rank_job_values job;
    const char *tokens;
    uint64_t top, last, chunk;
    bool routing, index, mtp, json;
};

#define AT(field) .offset = offsetof(struct logits_values, field)

static const struct option logits_rows[] = {
    MODEL_RUN_OPTIONS,
    RANK_JOB_OPTIONS(struct logits_values),
    {"tokens", OPTION_TEXT, NULL,
     "token ids, separated by commas (required); several prompts are separated by ;", AT(tokens)},
    {"top", OPTION_COUNT, "20", "number of largest logits to print for each position", AT(top),
     .minimum = 1, .maximum = LIMIT_VOCAB},
    {"last", OPTION_COUNT, "1", "number of last positions to print", AT(last), .minimum = 1,
     .maximum = LIMIT_CONTEXT},
    {"chunk", OPTION_COUNT, NULL,
     "tokens computed in one step, a multiple of 64; 0: 512. Never changes a result", AT(chunk),
     .maximum = MODEL_RUN_STEP_TOKENS},
    {"routing", OPTION_FLAG, NULL, "add the experts chosen at the last position", AT(routing)},
    {"index", OPTION_FLAG, NULL,
     "add the positions that sparse attention chose at the last position, by layer", AT(index)},
    {"mtp", OPTION_FLAG, NULL, "add the MTP head's prediction at every position", AT(mtp)},
    {"json", OPTION_FLAG, NULL, "print one JSON object instead of lines", AT(json)},
};

const struct option_table logits_options = {
    .command = "logits",
    .description = "Prints the logits of a model at the last positions of a run of tokens.",
    .arguments = "",
    .options = logits_rows,
    .option_count = sizeof logits_rows / sizeof logits_rows[0],
};

/* The results for one prompt. */
struct logits_view {
    const struct model_run_prompt *prompt;
    uint32_t printed;  /* rows of logits so far */
    float *logits;     /* [prompt->last][vocab] */
    uint32_t *routing; /* [layers][experts_per_token] */
    uint32_t *index;   /* [layers][index_top_k] */
    uint32_t *mtp;     /* [prompt->count] */
};

#define LOGIT_DIGITS 9 /* enough to distinguish any two floats */

struct study {
    struct json_print print;
    struct logits_values values;
    struct solo *solo;
    const struct shape *shape;
    struct model_run_prompts prompts;
    struct logits_view *views; /* [prompts.count] */
    float *logits;   /* [at most MODEL_RUN_STEP_TOKENS * prompts in a step][vocab] of one step */
    uint32_t *order; /* [vocab] */
};

static enum status logits_take_room(struct study *study, struct error *error) {
    size_t vocab = study->shape->vocab, rows = 0;
    size_t routed = (size_t)study->shape->layers * study->shape->experts_per_token;
    size_t indexed = (size_t)study->shape->layers * study->shape->index_top_k;
    study->views = calloc(study->prompts.count, sizeof *study->views);
    study->order = malloc(vocab * sizeof(uint32_t));
    bool whole = study->views && study->order;
    for (uint32_t i = 0; whole && i < study->prompts.count; i++) {
        struct logits_view *view = &study->views[i];
        struct model_run_prompt *prompt = &study->prompts.list[i];
        view->prompt = prompt;
        prompt->last = min_u32((uint32_t)study->values.last, prompt->count);
        view->logits = malloc(prompt->last * vocab * sizeof(float));
        view->routing = malloc((routed + 1) * sizeof(uint32_t));
        view->index = malloc((indexed + 1) * sizeof(uint32_t));
        view->mtp = malloc(prompt->count * sizeof(uint32_t));
        whole = view->logits && view->routing && view->index && view->mtp;
        rows += min_u32(prompt->last, MODEL_RUN_STEP_TOKENS);
    }
    if (whole) whole = (study->logits = malloc(rows * vocab * sizeof(float))) != NULL;
    return whole ? STATUS_OK
                 : error_set(error, STATUS_NO_MEMORY, "no memory for the logits of %u prompts",
                             study->prompts.count);
}

static enum status logits_run_step(struct study *study, const struct solo_row *rows,
                                   uint32_t row_count, struct error *error) {
    const struct logits_view *first = &study->views[rows[0].sequence];
    const struct model_run_prompt *prompt = first->prompt;
    uint32_t end = prompt->done + rows[0].token_count;
    struct model_probe probe = {
        .routing = study->values.routing ? first->routing : NULL,
        .attended = study->values.index ? first->index : NULL,
        .mtp_argmax = study->values.mtp ? first->mtp + prompt->done : NULL,
        .mtp_next_token = end < prompt->count ? prompt->tokens[end] : UINT32_MAX,
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
        study->prompts.list[rows[i].sequence].done += rows[i].token_count;
    }
    return status;
}

/* Runs all prompts. A step has one probe, so with probes each step has one prompt. */
static enum status run_prompts(struct study *study, struct error *error) {
    static struct solo_row rows[LIMIT_RANKS];
    bool probes = study->values.routing || study->values.index || study->values.mtp;
    enum status status = STATUS_OK;
    for (uint32_t count; status == STATUS_OK;) {
        count = model_run_prompts_step(&study->prompts, study->solo, (uint32_t)study->values.chunk,
                                       rows, probes ? 1 : LIMIT_RANKS);
        if (!count) break;
        status = logits_run_step(study, rows, count, error);
    }
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
    uint32_t vocab = study->shape->vocab,
             position = view->prompt->count - view->prompt->last + index;
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

/* Prints a JSON member or a line of text. */
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

static void logits_print_index(struct study *study, const struct logits_view *view) {
    const uint32_t top_k = study->shape->index_top_k;
    char name[16], title[48];
    json_print_open(&study->print, "index", '{');
    for (uint32_t layer = 0; top_k && layer < study->shape->layers; layer++) {
        const uint32_t *positions = view->index + (size_t)layer * top_k;
        uint32_t count = 0;
        while (count < top_k && positions[count] != UINT32_MAX)
            count++;
        if (!count && study->shape->layer_kinds[layer].attention == ATTENTION_COMPRESSED)
            continue; /* without a choice of its own, or without any entry yet */
        snprintf(name, sizeof name, "%u", layer);
        snprintf(title, sizeof title, "positions chosen in layer %u", layer);
        logits_print_list(&study->print, name, title, positions, count);
    }
    json_print_close(&study->print);
}

static void print_view(struct study *study, const struct logits_view *view) {
    json_print_open(&study->print, "positions", '[');
    for (uint32_t i = 0; i < view->prompt->last; i++)
        print_position(study, view, i);
    json_print_close(&study->print);
    if (study->values.routing) print_routing(study, view);
    if (study->values.index) logits_print_index(study, view);
    if (study->values.mtp)
        logits_print_list(&study->print, "mtp_argmax", "MTP predictions", view->mtp,
                          view->prompt->count);
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
    const struct rank_job_values *job = &study->values.job;
    struct solo_options options;
    enum status status = model_run_prompts_read(study->values.tokens, &study->prompts, error);
    if (!status) status = rank_job_solo_options(&study->values.run, job, &options, error);
    if (status != STATUS_OK) return status;
    options.sequences = study->prompts.count;
    options.context_max = study->prompts.longest;
    options.model.step_tokens_max = min_u32(study->prompts.longest, MODEL_RUN_STEP_TOKENS);
    options.model.mtp = study->values.mtp;
    status = model_run_open(&options, &study->solo, error);
    if (status != STATUS_OK) return status;
    study->shape = model_shape(solo_model(study->solo));
    if (study->values.mtp && !study->shape->mtp_layers)
        return error_set(error, STATUS_UNSUPPORTED, "--mtp: this checkpoint has no MTP layer");
    status = model_run_prompts_check(&study->prompts, study->shape, error);
    if (status == STATUS_OK) status = logits_take_room(study, error);
    if (status == STATUS_OK) status = run_prompts(study, error);
    if (status != STATUS_OK) return status;
    print_study(study);
    return rank_job_write_trace(job, solo_group(study->solo), error);
}

static void close_study(struct study *study) {
    solo_close(study->solo);
    for (uint32_t i = 0; study->views && i < study->prompts.count; i++) {
        free(study->views[i].logits);
        free(study->views[i].routing);
        free(study->views[i].index);
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

/* SPDX-License-Identifier: Apache-2.0
 * fathom logits: what the model makes of given tokens: the largest logits at the last positions,
 * the experts chosen, the MTP head's predictions. For comparison with other implementations.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/model_run.h"
#include "programs/rank_job.h"

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
    {.name = "tokens",
     .type = OPTION_TEXT,
     .help = "token ids, with commas between (required)",
     .offset = offsetof(struct logits_values, tokens)},
    {.name = "top",
     .type = OPTION_COUNT,
     .fallback = "20",
     .help = "how many of the largest logits to print for a position",
     .offset = offsetof(struct logits_values, top),
     .minimum = 1,
     .maximum = LIMIT_VOCAB},
    {.name = "last",
     .type = OPTION_COUNT,
     .fallback = "1",
     .help = "how many of the last positions to print",
     .offset = offsetof(struct logits_values, last),
     .minimum = 1,
     .maximum = LIMIT_CONTEXT},
    {.name = "chunk",
     .type = OPTION_COUNT,
     .help = "tokens computed in one step, a multiple of 64; 0: 512. Never changes a result",
     .offset = offsetof(struct logits_values, chunk),
     .maximum = STEP_TOKENS},
    {.name = "routing",
     .type = OPTION_FLAG,
     .help = "add the experts chosen at the last position",
     .offset = offsetof(struct logits_values, routing)},
    {.name = "mtp",
     .type = OPTION_FLAG,
     .help = "add the MTP head's prediction at every position",
     .offset = offsetof(struct logits_values, mtp)},
    {.name = "json",
     .type = OPTION_FLAG,
     .help = "print one JSON object instead of lines",
     .offset = offsetof(struct logits_values, json)},
};

const struct option_table logits_options[1] = {
    {.command = "logits",
     .description = "Prints the logits of a model at the last positions of a run of tokens.",
     .arguments = "",
     .options = logits_rows,
     .option_count = sizeof logits_rows / sizeof logits_rows[0]},
};

struct study {
    struct logits_values values;
    struct solo *solo;
    const struct shape *shape;
    uint32_t *tokens, token_count;
    uint32_t last;     /* positions to print, at most token_count */
    float *logits;     /* [last][vocab] */
    uint32_t *routing; /* [layers][experts_per_token] */
    uint32_t *mtp;     /* [token_count] */
    uint32_t *order;   /* [vocab] */
};

static enum status take_room(struct study *study, struct error *error) {
    size_t vocab = study->shape->vocab;
    size_t routed = (size_t)study->shape->layers * study->shape->experts_per_token;
    study->logits = malloc(study->last * vocab * sizeof(float));
    study->routing = malloc((routed + 1) * sizeof(uint32_t));
    study->mtp = malloc(study->token_count * sizeof(uint32_t));
    study->order = malloc(vocab * sizeof(uint32_t));
    if (study->logits && study->routing && study->mtp && study->order) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the logits of %u positions",
                     study->last);
}

static enum status check_tokens(const struct study *study, struct error *error) {
    for (uint32_t i = 0; i < study->token_count; i++)
        if (study->tokens[i] >= study->shape->vocab)
            return error_set(error, STATUS_INVALID, "--tokens: %u is no token, the model has %u",
                             study->tokens[i], study->shape->vocab);
    return STATUS_OK;
}

static enum status run_chunks(struct study *study, struct error *error) {
    uint32_t first_wanted = study->token_count - study->last, printed = 0;
    for (uint32_t done = 0; done < study->token_count;) {
        uint32_t count =
            solo_chunk(study->solo, study->token_count, done, (uint32_t)study->values.chunk);
        uint32_t end = done + count;
        uint32_t wanted =
            end <= first_wanted ? 0 : end - (done > first_wanted ? done : first_wanted);
        struct model_probe probe = {
            .routing = study->values.routing ? study->routing : NULL,
            .mtp_argmax = study->values.mtp ? study->mtp + done : NULL,
            .mtp_next_token = end < study->token_count ? study->tokens[end] : UINT32_MAX,
        };
        struct solo_row row = {.form = TOKEN_PROMPT,
                               .tokens = study->tokens + done,
                               .token_count = count,
                               .logits_count = wanted};
        enum status status =
            solo_step(study->solo, &row, 1, study->logits + (size_t)printed * study->shape->vocab,
                      &probe, error);
        if (status != STATUS_OK) return status;
        printed += wanted;
        done = end;
    }
    return STATUS_OK;
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

static void print_position(struct study *study, uint32_t index) {
    uint32_t vocab = study->shape->vocab, position = study->token_count - study->last + index;
    const float *logits = study->logits + (size_t)index * vocab;
    uint32_t top = study->values.top < vocab ? (uint32_t)study->values.top : vocab;
    bool json = study->values.json;
    for (uint32_t i = 0; i < vocab; i++)
        study->order[i] = i;
    sort_logits = logits;
    qsort(study->order, vocab, sizeof *study->order, by_logit);
    printf(json ? "%s{\"pos\":%u,\"logsumexp\":%.9g,\"top\":[" : "%sposition %u, logsumexp %.9g\n",
           json && index ? "," : "", position, log_sum_exp(logits, vocab));
    for (uint32_t i = 0; i < top; i++)
        printf(json ? "%s[%u,%.9g]" : "%s%8u  %.9g\n", json && i ? "," : "", study->order[i],
               (double)logits[study->order[i]]);
    if (json) printf("]}");
}

static void print_list(const uint32_t *values, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        printf("%s%u", i ? "," : "", values[i]);
}

static void print_routing(const struct study *study) {
    uint32_t per_token = study->shape->experts_per_token;
    const char *gap = "";
    if (study->values.json) printf(",\"routing\":{");
    for (uint32_t layer = 0; per_token && layer < study->shape->layers; layer++) {
        const uint32_t *experts = study->routing + (size_t)layer * per_token;
        if (experts[0] == UINT32_MAX) continue; /* dense */
        printf(study->values.json ? "%s\"%u\":[" : "%sexperts of layer %u: ", gap, layer);
        print_list(experts, per_token);
        printf(study->values.json ? "]" : "\n");
        gap = study->values.json ? "," : "";
    }
    if (study->values.json) printf("}");
}

static void print_study(struct study *study) {
    if (study->values.json) printf("{\"positions\":[");
    for (uint32_t i = 0; i < study->last; i++)
        print_position(study, i);
    if (study->values.json) printf("]");
    if (study->values.routing) print_routing(study);
    if (study->values.mtp) {
        printf(study->values.json ? ",\"mtp_argmax\":[" : "MTP predictions: ");
        print_list(study->mtp, study->token_count);
        printf(study->values.json ? "]" : "\n");
    }
    if (!study->values.json) return;
    rank_job_print_json(&study->values.job, solo_group(study->solo));
    printf("}\n");
}

static enum status run(struct study *study, struct error *error) {
    struct solo_options options = {.sequences = 1};
    enum status status =
        model_run_tokens(study->values.tokens, &study->tokens, &study->token_count, error);
    if (status == STATUS_OK) status = model_run_options(&study->values.run, &options.model, error);
    if (status != STATUS_OK) return status;
    options.context_max = study->token_count;
    options.model.step_tokens_max =
        study->token_count < STEP_TOKENS ? study->token_count : STEP_TOKENS;
    options.model.mtp = study->values.mtp;
    rank_job_options(&study->values.job, &options.model);
    status = model_run_open(&options, &study->solo, error);
    if (status != STATUS_OK) return status;
    study->shape = model_shape(solo_model(study->solo));
    study->last =
        study->values.last < study->token_count ? (uint32_t)study->values.last : study->token_count;
    if (study->values.mtp && !study->shape->mtp_layers)
        return error_set(error, STATUS_UNSUPPORTED, "--mtp: this checkpoint has no MTP layer");
    status = check_tokens(study, error);
    if (status == STATUS_OK) status = take_room(study, error);
    if (status == STATUS_OK) status = run_chunks(study, error);
    if (status == STATUS_OK) print_study(study);
    return status;
}

int program_logits(int argc, char **argv) {
    struct study study = {0};
    struct option_result result;
    struct error error = {0};
    int exit_code;
    if (!command_begin(logits_options, argc, argv, &study.values, &result, &exit_code))
        return exit_code;
    if (!study.values.tokens) return command_misused(logits_options, "--tokens is missing");
    if (rank_job_begin(logits_options, &study.values.job, &exit_code)) return exit_code;
    enum status status = run(&study, &error);
    solo_close(study.solo);
    free(study.tokens);
    free(study.logits);
    free(study.routing);
    free(study.mtp);
    free(study.order);
    return status == STATUS_OK ? command_end(logits_options)
                               : command_failed(logits_options, status, &error);
}

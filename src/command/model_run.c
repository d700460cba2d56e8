/* SPDX-License-Identifier: Apache-2.0 */
#include "command/model_run.h"

#include "base/clock.h"
#include "base/cpus.h"
#include "base/limits.h"
#include "base/number.h"
#include "compute/weights/checkpoint.h"
#include "host/engine/engine.h"
#include "host/process/configuration/model_path.h"
#include "host/process/log/log.h"
#include "host/process/memory_fit.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REPORT_NS ((int64_t)10000000000) /* interval of progress lines in the log */
#define SHORT_NS 1000000000              /* stages of a shorter loading are not reported */

enum status model_run_directory(const char *given, const char **directory_out,
                                struct error *error) {
    static char found[PATH_MAX];
    char path[PATH_MAX];
    enum status status = model_path_find(given, path, error);
    if (status) return status;
    /* Other threads may read the text. */
    if (strcmp(found, path) != 0) snprintf(found, sizeof found, "%s", path);
    *directory_out = found;
    return STATUS_OK;
}

enum status model_run_shape(const char *directory, struct shape *shape_out, struct error *error) {
    struct checkpoint *checkpoint;
    enum status status = checkpoint_open(directory, CHECKPOINT_CONFIG_ONLY, &checkpoint, error);
    if (status) return status;
    *shape_out = *checkpoint_shape(checkpoint);
    checkpoint_close(checkpoint);
    return STATUS_OK;
}

void model_run_name(const char *directory, const char *given, char name_out[static 256]) {
    if (given)
        snprintf(name_out, 256, "%.255s", given);
    else
        model_path_name(directory, name_out);
}

static struct memory_fit fit; /* of the process's model */

enum status model_run_options(const struct model_run_values *values, struct model_options *out,
                              struct error *error) {
    struct model_options options = {.threads = min_u32((uint32_t)values->threads, cpus_usable()),
                                    .kv_exact = strcmp(values->kv_rounding, "off") == 0};
    enum status status = engine_find_device(values->device, &options.device, error);
    if (status == STATUS_OK) status = model_run_directory(values->model, &options.directory, error);
    if (status == STATUS_OK)
        status = activations_named(values->activations, &options.activations, error);
    if (status == STATUS_OK)
        status = expert_sum_named(values->expert_sum, &options.expert_sum, error);
    if (status == STATUS_OK) status = kernels_level_masked(values->cpu_mask, &options.level, error);
    if (status != STATUS_OK) return status;
    if (strcmp(values->device, "cpu") == 0) {
        fit.model = options.directory;
        fit.force = values->force;
        options.fits = memory_fit_check;
        options.fits_context = &fit;
    }
    *out = options;
    return STATUS_OK;
}

static void log_progress(void *context, enum load_stage stage, uint64_t done, uint64_t total) {
    struct model_run_progress *progress = context;
    int64_t now_ns = clock_now_ns();
    bool first = !progress->reported_ns, new = stage != progress->stage;
    if (stage == LOAD_WEIGHTS) progress->total_bytes = total;
    progress->stage = stage;
    if (first && stage != LOAD_WEIGHTS && now_ns - progress->began_ns < SHORT_NS) return;
    if (!first && !(new &&now_ns - progress->began_ns > SHORT_NS) &&
        now_ns - progress->reported_ns < REPORT_NS)
        return;
    const char *directory = first ? progress->directory : "";
    if (stage == LOAD_HEADERS)
        log_say(LOG_INFO, "model",
                "is being opened shards=%" PRIu64 " total_shards=%" PRIu64 " directory=%s", done,
                total, directory);
    else if (stage == LOAD_SCALES)
        log_say(LOG_INFO, "model",
                "is being checked tensors=%" PRIu64 " total_tensors=%" PRIu64 " directory=%s", done,
                total, directory);
    else
        log_say(LOG_INFO, "model",
                "is being loaded bytes=%" PRIu64 " total_bytes=%" PRIu64 " directory=%s", done,
                total, directory);
    progress->reported_ns = now_ns;
}

static void model_run_show_progress(void *context, enum load_stage stage, uint64_t done,
                                    uint64_t total) {
    struct model_run_progress *progress = context;
    if (clock_now_ns() - progress->began_ns < SHORT_NS && !progress->shown) return;
    progress->shown = true;
    if (stage == LOAD_WEIGHTS)
        fprintf(stderr, "\r\033[Kloading %.1f of %.1f GB", (double)done / 1e9, (double)total / 1e9);
    else
        fprintf(stderr, "\r\033[K%s %" PRIu64 " of %" PRIu64 " %s",
                stage == LOAD_HEADERS ? "opening" : "checking", done, total,
                stage == LOAD_HEADERS ? "shards" : "tensors");
    fflush(stderr);
}

static void model_run_progress_begin(struct model_run_progress *progress,
                                     struct model_options *options) {
    *progress = (struct model_run_progress){.began_ns = clock_now_ns()};
    if (!isatty(STDERR_FILENO)) return;
    options->progress = model_run_show_progress;
    options->progress_context = progress;
}

void model_run_progress_begin_logged(struct model_run_progress *progress,
                                     struct model_options *options) {
    model_run_progress_begin(progress, options);
    if (options->progress && log_form() != LOG_JSON) return;
    options->progress = log_progress;
    options->progress_context = progress;
    progress->logs = true;
    progress->directory = options->directory;
}

void model_run_progress_end(struct model_run_progress *progress) {
    if (progress->shown) fprintf(stderr, "\r\033[K");
    if (progress->logs)
        log_say(LOG_INFO, "model", "is loaded bytes=%" PRIu64 " after_s=%.2f",
                progress->total_bytes, (double)(clock_now_ns() - progress->began_ns) * 1e-9);
}

enum status model_run_open(struct solo_options *options, struct solo **solo_out,
                           struct error *error) {
    struct model_run_progress progress;
    model_run_progress_begin(&progress, &options->model);
    enum status status = solo_open(options, solo_out, error);
    model_run_progress_end(&progress);
    return status;
}

/* Parses "5,9,12" to ids below LIMIT_VOCAB, which the caller frees. */
static enum status model_run_tokens(const char *text, uint32_t **tokens_out, uint32_t *count_out,
                                    struct error *error) {
    size_t capacity = strlen(text) / 2 + 1, count = 0;
    uint32_t *tokens = malloc(capacity * sizeof *tokens);
    if (!tokens) return error_set(error, STATUS_NO_MEMORY, "no memory for the tokens");
    const char *at = text;
    for (;;) {
        char *end;
        unsigned long id = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : LIMIT_VOCAB;
        if (id >= LIMIT_VOCAB || (*end != ',' && *end != 0)) break;
        tokens[count++] = (uint32_t)id;
        if (*end == 0) {
            *tokens_out = tokens;
            *count_out = (uint32_t)count;
            return STATUS_OK;
        }
        at = end + 1;
    }
    free(tokens);
    return error_set(error, STATUS_INVALID,
                     "--tokens: expected ids below %d with commas between, found '%.40s'",
                     LIMIT_VOCAB, at);
}

enum status model_run_sizes_read(const char *option, const char *text,
                                 struct model_run_sizes *sizes_out, struct error *error) {
    return model_run_sizes_within(option, text, 1, LIMIT_STEP_ROWS, sizes_out, error);
}

enum status model_run_sizes_within(const char *option, const char *text, uint32_t least,
                                   uint32_t most, struct model_run_sizes *sizes_out,
                                   struct error *error) {
    struct model_run_sizes sizes = {.count = 0};
    uint32_t *values, count;
    enum status status = model_run_tokens(text, &values, &count, error);
    if (status == STATUS_NO_MEMORY) return status;
    bool good = status == STATUS_OK && count <= MODEL_RUN_SIZES_MAX;
    for (uint32_t i = 0; good && i < count; i++) {
        good = values[i] >= least && values[i] <= most;
        sizes.values[sizes.count++] = values[i];
        if (values[i] > sizes.largest) sizes.largest = values[i];
    }
    if (status == STATUS_OK) free(values);
    if (!good)
        return error_set(
            error, STATUS_INVALID,
            "%s: expected up to %d numbers of %u to %u with commas between, found '%s'", option,
            MODEL_RUN_SIZES_MAX, least, most, text);
    *sizes_out = sizes;
    return STATUS_OK;
}

enum status model_run_prompts_read(const char *text, struct model_run_prompts *prompts,
                                   struct error *error) {
    size_t bytes = strlen(text) + 1, used = 0;
    char *copy = malloc(bytes);
    *prompts = (struct model_run_prompts){.count = 0};
    prompts->list = calloc(bytes, sizeof *prompts->list);
    prompts->tokens = calloc(bytes, sizeof *prompts->tokens);
    enum status status = STATUS_OK;
    if (!copy || !prompts->list || !prompts->tokens)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the prompts");
    else
        memcpy(copy, text, bytes);
    for (char *part = copy, *next; status == STATUS_OK && part; part = next) {
        uint32_t *tokens, count;
        next = strchr(part, ';');
        if (next) *next++ = 0;
        status = model_run_tokens(part, &tokens, &count, error);
        if (status != STATUS_OK) break;
        memcpy(prompts->tokens + used, tokens, count * sizeof *tokens);
        free(tokens);
        prompts->list[prompts->count++] =
            (struct model_run_prompt){.tokens = prompts->tokens + used, .count = count, .last = 1};
        used += count;
        if (count > prompts->longest) prompts->longest = count;
    }
    free(copy);
    return status;
}

enum status model_run_prompts_one(const uint32_t *tokens, uint32_t count,
                                  struct model_run_prompts *prompts, struct error *error) {
    *prompts = (struct model_run_prompts){
        .list = calloc(1, sizeof *prompts->list), .count = 1, .longest = count};
    if (!prompts->list) return error_set(error, STATUS_NO_MEMORY, "no memory for the prompt");
    *prompts->list = (struct model_run_prompt){.tokens = tokens, .count = count, .last = 1};
    return STATUS_OK;
}

void model_run_prompts_close(struct model_run_prompts *prompts) {
    free(prompts->list);
    free(prompts->tokens);
    *prompts = (struct model_run_prompts){.count = 0};
}

enum status model_run_tokens_check(const uint32_t *tokens, size_t count, const struct shape *shape,
                                   struct error *error) {
    for (size_t i = 0; i < count; i++) {
        if (tokens[i] >= shape->vocab)
            return error_set(error, STATUS_INVALID, "%u is not a token id: the model has %u tokens",
                             tokens[i], shape->vocab);
        if (tokens[i] && tokens[i] == shape->image_token)
            return error_set(
                error, STATUS_UNSUPPORTED,
                "token %u of the prompt is %u, which stands for an image (config.json: "
                "image_token_id); only text is computed",
                (unsigned)i, tokens[i]);
    }
    return STATUS_OK;
}

enum status model_run_prompts_check(const struct model_run_prompts *prompts,
                                    const struct shape *shape, struct error *error) {
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < prompts->count && !status; i++)
        status =
            model_run_tokens_check(prompts->list[i].tokens, prompts->list[i].count, shape, error);
    return status;
}

static struct solo_row model_run_next_chunk(const struct model_run_prompts *prompts,
                                            uint32_t sequence, const struct solo *solo,
                                            uint32_t chunk) {
    const struct model_run_prompt *prompt = &prompts->list[sequence];
    uint32_t count = solo_chunk(solo, prompt->count, prompt->done, chunk);
    uint32_t end = prompt->done + count, first_wanted = prompt->count - prompt->last;
    uint32_t from = prompt->done > first_wanted ? prompt->done : first_wanted;
    return (struct solo_row){.sequence = sequence,
                             .form = TOKEN_PROMPT,
                             .tokens = prompt->tokens + prompt->done,
                             .token_count = count,
                             .logits_count = end > from ? end - from : 0};
}

uint32_t model_run_prompts_step(const struct model_run_prompts *prompts, const struct solo *solo,
                                uint32_t chunk, struct solo_row *rows_out, uint32_t rows_max) {
    uint32_t ranks = rank_group_count(solo_group(solo)), count = 0;
    for (uint32_t rank = 0; rank < ranks && count < rows_max; rank++)
        for (uint32_t i = rank; i < prompts->count; i += ranks)
            if (prompts->list[i].done < prompts->list[i].count) {
                rows_out[count++] = model_run_next_chunk(prompts, i, solo, chunk);
                break;
            }
    return count;
}

/* SPDX-License-Identifier: Apache-2.0
 * Logits are kept for as many rows as a plan may have, which is what sampling needs: a row that
 * asks for more than its last token's logits is refused here (programs that study logits use the
 * model).
 */
#include "host/engine_cpu.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct engine_cpu {
    struct model *model;
    float *logits;         /* [step_rows_max][vocab] */
    float *sample_scratch; /* [2 * vocab] */
    uint32_t rows_max;
};

enum status engine_cpu_open(const struct model_options *options, struct engine_cpu **engine_out,
                            struct error *error) {
    struct engine_cpu *engine = calloc(1, sizeof *engine);
    if (!engine) return error_set(error, STATUS_NO_MEMORY, "no memory for the engine");
    enum status status = model_open(options, &engine->model, error);
    if (status != STATUS_OK) {
        engine_cpu_close(engine);
        return status;
    }
    size_t vocab = model_shape(engine->model)->vocab;
    engine->rows_max = options->step_rows_max;
    engine->logits = malloc(engine->rows_max * vocab * sizeof(float));
    engine->sample_scratch = malloc(2 * vocab * sizeof(float));
    if (!engine->logits || !engine->sample_scratch) {
        engine_cpu_close(engine);
        return error_set(error, STATUS_NO_MEMORY, "no memory for the logits of %u rows",
                         options->step_rows_max);
    }
    *engine_out = engine;
    return STATUS_OK;
}

void engine_cpu_close(struct engine_cpu *engine) {
    if (!engine) return;
    model_close(engine->model);
    free(engine->logits);
    free(engine->sample_scratch);
    free(engine);
}

const struct model *engine_cpu_model(const struct engine_cpu *engine) {
    return engine->model;
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static enum status run(struct engine_cpu *engine, const struct step_plan *plan,
                       struct step_result_row *results, struct error *error) {
    const struct step_row *rows = step_plan_rows(plan);
    uint32_t vocab = model_shape(engine->model)->vocab;
    if (plan->row_count > engine->rows_max)
        return error_set(error, STATUS_INVALID, "a plan of %u rows, the engine takes %u",
                         plan->row_count, engine->rows_max);
    for (uint32_t i = 0; i < plan->row_count; i++)
        if (rows[i].logits_count > 1)
            return error_set(error, STATUS_INVALID,
                             "row %u asks for the logits of %u tokens; serving computes the last "
                             "one's only",
                             i, rows[i].logits_count);
    enum status status = model_step(engine->model, plan, engine->logits, NULL, error);
    if (status != STATUS_OK) return status;
    const float *logits = engine->logits;
    for (uint32_t i = 0; i < plan->row_count; i++) {
        results[i] = (struct step_result_row){.slot = rows[i].slot, .token = UINT32_MAX};
        if (rows[i].sample)
            results[i].token = sample_token(logits, vocab, &rows[i].sampling,
                                            rows[i].output_position, engine->sample_scratch);
        logits += (size_t)rows[i].logits_count * vocab;
    }
    return STATUS_OK;
}

void engine_cpu_run(struct engine_cpu *engine, const struct step_plan *plan,
                    struct step_result *result, struct error *error) {
    int64_t began_ns = now_ns();
    size_t bytes = step_result_bytes(plan->row_count);
    memset(result, 0, bytes);
    result->record = (struct record){
        .version = RECORD_VERSION, .kind = RECORD_STEP_DONE, .bytes = (uint32_t)bytes};
    result->step = plan->step;
    result->row_count = plan->row_count;
    result->failed = run(engine, plan, step_result_rows(result), error) != STATUS_OK;
    if (result->failed)
        for (uint32_t i = 0; i < plan->row_count; i++)
            step_result_rows(result)[i] =
                (struct step_result_row){.slot = step_plan_rows(plan)[i].slot, .token = UINT32_MAX};
    result->compute_ns = now_ns() - began_ns;
}

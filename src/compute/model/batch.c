/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/batch.h"

#include <stdlib.h>

enum status batch_open(struct batch *batch, uint32_t tokens_max, uint32_t runs_max,
                       struct error *error) {
    *batch = (struct batch){
        .runs = calloc(runs_max, sizeof *batch->runs),
        .token_ids = calloc(tokens_max, sizeof *batch->token_ids),
        .positions = calloc(tokens_max, sizeof *batch->positions),
        .token_run = calloc(tokens_max, sizeof *batch->token_run),
        .outputs = calloc(tokens_max, sizeof *batch->outputs),
    };
    if (batch->runs && batch->token_ids && batch->positions && batch->token_run && batch->outputs)
        return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for batches of %u tokens", tokens_max);
}

void batch_close(struct batch *batch) {
    free(batch->runs);
    free(batch->token_ids);
    free(batch->positions);
    free(batch->token_run);
    free(batch->outputs);
    *batch = (struct batch){0};
}

void batch_clear(struct batch *batch) {
    batch->token_count = batch->prompt_tokens = batch->run_count = batch->prompt_runs = 0;
}

void batch_begin_run(struct batch *batch, struct run run) {
    run.first = batch->token_count;
    run.token_count = 0;
    batch->runs[batch->run_count++] = run;
}

void batch_add(struct batch *batch, uint32_t token_id) {
    struct run *run = &batch->runs[batch->run_count - 1];
    batch->token_ids[batch->token_count] = token_id;
    batch->positions[batch->token_count] = run->first_position + run->token_count++;
    batch->token_run[batch->token_count++] = batch->run_count - 1;
}

void batch_add_output(struct batch *batch, uint32_t token_id, struct output_ref output) {
    batch->outputs[batch->token_count] = output;
    batch_add(batch, token_id);
}

void batch_end_prompts(struct batch *batch) {
    batch->prompt_tokens = batch->token_count;
    batch->prompt_runs = batch->run_count;
}

void batch_take(struct batch *part, const struct batch *whole, uint32_t first, uint32_t count) {
    uint32_t end = first + count;
    batch_clear(part);
    for (uint32_t i = 0; i < whole->run_count; i++) {
        struct run run = whole->runs[i];
        uint32_t from = run.first > first ? run.first : first;
        uint32_t to = run.first + run.token_count < end ? run.first + run.token_count : end;
        if (from < to) {
            run.first_position += from - run.first;
            batch_begin_run(part, run);
            for (uint32_t token = from; token < to; token++)
                batch_add(part, whole->token_ids[token]);
        }
        if (i < whole->prompt_runs) batch_end_prompts(part);
    }
}

const struct run *batch_run_of_row(const struct batch *batch, uint32_t plan_row) {
    for (uint32_t i = 0; i < batch->run_count; i++)
        if (batch->runs[i].plan_row == plan_row) return &batch->runs[i];
    return NULL;
}

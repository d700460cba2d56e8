/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/fleet_engine.h"

#include <math.h>

#include "base/check.h"

#define STOP_ODDS 90      /* one token in so many is the stop token */
#define DRAFTS_RIGHT_OF 3 /* all but one draft in so many are right */

size_t fleet_engine_bytes(uint32_t page_count) {
    return (size_t)page_count * KV_BLOCK_TOKENS * sizeof(uint64_t) + 16;
}

bool fleet_engine_open(struct fleet_engine *engine, struct arena *arena, uint32_t page_count) {
    engine->page_count = page_count;
    engine->rows = arena_take_zeroed(arena, fleet_engine_bytes(page_count) - 16);
    return engine->rows != NULL;
}

size_t fleet_engine_result_bytes(const struct step_plan *plan) {
    return step_result_bytes(plan->row_count,
                             plan->row_count * (1 + LIMIT_DRAFTS) * STEP_ROW_LOGPROBS_MAX);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* A KV row behind another. */
static uint64_t row_behind(uint64_t row, uint32_t token, uint32_t form) {
    return mix(row * 3 + token * 2 + form + 1) | 1;
}

/* What penalties would see. */
static uint64_t sum_history(const uint32_t *tokens, uint32_t count, uint32_t prompt_count) {
    uint64_t sum = prompt_count;
    for (uint32_t i = 0; i < count; i++)
        sum = mix(sum + tokens[i] + 1);
    return sum;
}

static uint32_t choose(uint64_t row, const struct sampling *sampling, uint32_t position,
                       uint64_t history, bool may_stop) {
    uint64_t number = mix(row ^ mix(sampling->seed + 7) ^ mix(sampling->choice * 13 + 5) ^
                          mix(position + 3) ^ history);
    if (may_stop && number % STOP_ODDS == 0) return FLEET_STOP_TOKEN;
    return 2 + (uint32_t)((number >> 20) % (FLEET_VOCAB - 2));
}

uint32_t fleet_engine_answer(const uint32_t *prompt, uint32_t prompt_count,
                             const struct sampling *sampling, uint32_t new_tokens_max,
                             uint32_t *tokens_out) {
    uint64_t row = 0, history = prompt_count;
    for (uint32_t i = 0; i < prompt_count; i++) {
        row = row_behind(row, prompt[i], TOKEN_PROMPT);
        history = mix(history + prompt[i] + 1);
    }
    for (uint32_t i = 0; i < new_tokens_max; i++) {
        uint64_t seen = sampling_needs_history(sampling) ? history : 0;
        tokens_out[i] = choose(row, sampling, i, seen, i >= sampling->min_tokens);
        if (tokens_out[i] == FLEET_STOP_TOKEN) return i + 1;
        row = row_behind(row, tokens_out[i], TOKEN_GENERATED);
        history = mix(history + tokens_out[i] + 1);
    }
    return new_tokens_max;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static uint64_t *row_at(struct fleet_engine *engine, const struct step_plan *plan,
                        const struct step_row *row, uint32_t position) {
    uint32_t page = step_plan_pages(plan)[row->page_index + position / KV_BLOCK_TOKENS].index;
    check(page < engine->page_count);
    return &engine->rows[(size_t)page * KV_BLOCK_TOKENS + position % KV_BLOCK_TOKENS];
}

static bool may_stop(const struct step_plan *plan, const struct step_row *row) {
    const struct token_bias *biases = step_plan_biases(plan) + row->bias_index;
    for (uint32_t i = 0; i < row->bias_count; i++)
        if (biases[i].token == FLEET_STOP_TOKEN && biases[i].bias == -INFINITY) return false;
    return true;
}

static void tell_logprobs(const struct step_row *row, struct step_result *result,
                          struct step_result_row *out) {
    if (!(row->sampling.flags & SAMPLING_LOGPROBS)) return;
    struct token_logprob *logprobs = step_result_logprobs(result) + result->logprob_count;
    out->logprobs_each = 1 + row->sampling.top_logprobs;
    out->logprob_index = result->logprob_count;
    for (uint32_t i = 0; i < out->token_count; i++)
        for (uint32_t k = 0; k < out->logprobs_each; k++)
            *logprobs++ =
                (struct token_logprob){(out->tokens[i] + k) % FLEET_VOCAB, -0.5f * (float)(k + 1)};
    result->logprob_count += out->token_count * out->logprobs_each;
}

/* The token behind `last`, a KV row, and perhaps one more behind a guess. */
static void sample(struct fleet_engine *engine, const struct step_plan *plan,
                   const struct step_row *row, uint64_t last, struct step_result_row *out) {
    const uint32_t *tokens = step_plan_history(plan) + row->history_index;
    uint64_t history =
        row->history_count ? sum_history(tokens, row->history_count, row->history_prompt_count) : 0;
    bool stops = may_stop(plan, row);
    out->token_count = 1;
    out->tokens[0] = choose(last, &row->sampling, row->output_position, history, stops);
    if (row->draft_count == 0) return;
    uint32_t draft = mix(last) % DRAFTS_RIGHT_OF ? out->tokens[0] : 2;
    uint64_t next = row_behind(last, draft, TOKEN_GENERATED);
    *row_at(engine, plan, row, row->first_position + 1) = next;
    out->draft_count = 1;
    if (draft != out->tokens[0]) return;
    if (row->history_count) history = mix(history + draft + 1);
    out->tokens[out->token_count++] =
        choose(next, &row->sampling, row->output_position + 1, history, stops);
}

static void spoil(struct fleet_engine *engine, const struct step_plan *plan,
                  const struct step_row *row) {
    for (uint32_t i = 0; i < row->token_count + row->draft_count; i++)
        *row_at(engine, plan, row, row->first_position + i) = 0;
}

void fleet_engine_run(struct fleet_engine *engine, const struct step_plan *plan, bool fails,
                      struct step_result *result) {
    memset(result, 0, fleet_engine_result_bytes(plan));
    result->record = (struct record){RECORD_VERSION, RECORD_STEP_DONE, 0};
    result->step = plan->step;
    result->rank = plan->rank;
    result->failed = fails;
    result->row_count = fails ? 0 : plan->row_count;
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        const uint32_t *tokens = step_plan_tokens(plan) + row->token_index;
        uint64_t last =
            row->first_position ? *row_at(engine, plan, row, row->first_position - 1) : 0;
        if (fails) {
            spoil(engine, plan, row);
            continue;
        }
        for (uint32_t t = 0; t < row->token_count; t++) {
            last = row_behind(last, tokens[t], row->form);
            *row_at(engine, plan, row, row->first_position + t) = last;
        }
        struct step_result_row *out = &step_result_rows(result)[i];
        out->slot = row->slot;
        if (row->sample) sample(engine, plan, row, last, out);
        tell_logprobs(row, result, out);
    }
    result->record.bytes = (uint32_t)step_result_bytes(result->row_count, result->logprob_count);
}

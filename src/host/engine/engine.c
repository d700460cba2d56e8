/* SPDX-License-Identifier: Apache-2.0
 * The engine stores logits for as many rows as a plan may have, enough for sampling. A row that
 * requests logits of more than its last token is rejected (programs that study logits use the
 * model). The logits of a row's speculative drafts follow its own. A draft's logits are used only
 * if the draft before it was accepted, as if they came from the next step. Logits that only score
 * known tokens are reduced to the reported scores as they arrive, and never stored.
 *
 * A constrained row samples under its grammar mask. If its mask is late, the row samples nothing
 * and is scheduled again once a result has reported the mask ready. A draft with a late mask counts
 * as rejected. Masks and forced tokens that follow the sampled ones are requested when all rows
 * have sampled, so they are computed between steps.
 */
#include "host/engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/heartbeat.h"
#include "compute/exchange/job.h"
#include "compute/gpu/compute_gpu.h"
#include "compute/model/draft.h"
#include "compute/model/forward.h"
#include "compute/model/plan_check.h"
#include "compute/model/sample.h"

struct engine {
    struct model *model;
    struct step_progress *progress;
    struct engine_loads loads;
    struct engine_masks masks;
    int64_t awaited_ns; /* total wait in this step */
    bool in_vain;       /* a wait has failed: this step waits for nothing more */
    float *logits;      /* [step_rows_max * (1 + LIMIT_DRAFTS)][vocab] of rows that need them */
    struct model_draws draws; /* of all other rows: [step_rows_max * (1 + LIMIT_DRAFTS)] tokens */
    bool *drawn;              /* [step_rows_max] draws.rows */
    float *sample_scratch;    /* [2 * vocab] */
    float *adjusted;          /* [vocab] a row's logits with penalties and biases */
    uint32_t *history;        /* [LIMIT_HISTORY_TOKENS] tokens of a row, including this step's */
    uint32_t rows_max;
    struct { /* destination of the running step's scores */
        const struct step_plan *plan;
        struct step_result *result;
    } scoring;
};

static void engine_written(void *context, uint64_t step, uint32_t slices) {
    const struct engine *engine = context;
    struct model_follower follower = step_progress_follower(engine->progress);
    if (job_broken()) return; /* results of other ranks' experts are invalid */
    follower.written(follower.context, step, slices);
}

static void engine_await(void *context, uint32_t slot, uint32_t slices) {
    struct engine *engine = context;
    if (!engine->loads.await || engine->in_vain) return;
    int64_t began_ns = clock_now_ns();
    heartbeat_set(HEARTBEAT_WAITS);
    engine->in_vain = !engine->loads.await(engine->loads.context, slot, slices);
    heartbeat_set(HEARTBEAT_COMPUTES);
    engine->awaited_ns += clock_now_ns() - began_ns;
}

/* Reports the result of the load that a row waited for, with all slices. */
static void end_load(struct engine *engine, struct step_result_row *out) {
    engine_await(engine, out->slot, UINT32_MAX);
    out->load_ended = engine->loads.take_end &&
                      engine->loads.take_end(engine->loads.context, out->slot, &out->load_end);
    out->lost = engine->in_vain || !out->load_ended;
    if (out->lost) out->scored_count = 0;
}

/* Called by several threads, each for different tokens. */
static void engine_score(void *context, uint32_t row, uint32_t index, const float *logits) {
    const struct engine *engine = context;
    const struct step_plan *plan = engine->scoring.plan;
    const struct step_row *of = &step_plan_rows(plan)[row];
    const struct step_result_row *out = &step_result_rows(engine->scoring.result)[row];
    const uint32_t *tokens = step_plan_tokens(plan) + of->token_index;
    struct token_logprob *to = step_result_logprobs(engine->scoring.result) + out->score_index;
    sample_logprobs(logits, model_shape(engine->model)->vocab, step_scored_token(of, tokens, index),
                    of->sampling.top_logprobs, to + (size_t)index * out->logprobs_each);
}

void engine_set_loads(struct engine *engine, const struct engine_loads *loads) {
    engine->loads = *loads;
}

void engine_set_masks(struct engine *engine, const struct engine_masks *masks) {
    engine->masks = *masks;
}

enum status engine_check_device(const char *device, struct error *error) {
    return compute_gpu_check(device, error);
}

enum status engine_find_device(const char *device, const struct model_device **device_out,
                               struct error *error) {
    enum status status = engine_check_device(device, error);
    return status ? status : compute_gpu_find(device, device_out, error);
}

enum status engine_open(const struct model_options *options, struct engine **engine_out,
                        struct error *error) {
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine) return error_set(error, STATUS_NO_MEMORY, "no memory for the engine");
    enum status status = model_open(options, &engine->model, error);
    if (status == STATUS_OK) status = step_progress_open(&engine->progress, error);
    if (status != STATUS_OK) {
        engine_close(engine);
        return status;
    }
    const struct model_follower follower = {engine, engine_written, engine_await, engine_score};
    model_set_follower(engine->model, &follower);
    size_t vocab = model_shape(engine->model)->vocab;
    engine->rows_max = options->step_rows_max;
    size_t outputs = (size_t)engine->rows_max * (1 + LIMIT_DRAFTS);
    engine->drawn = calloc(engine->rows_max, sizeof *engine->drawn);
    engine->draws = (struct model_draws){.rows = engine->drawn,
                                         .rules = malloc(outputs * sizeof(struct draw_rule)),
                                         .tokens = malloc(outputs * sizeof(uint32_t))};
    engine->logits = malloc(outputs * vocab * sizeof(float));
    engine->history = malloc(LIMIT_HISTORY_TOKENS * sizeof *engine->history);
    engine->sample_scratch = malloc(2 * vocab * sizeof(float));
    engine->adjusted = malloc(vocab * sizeof(float));
    if (!engine->logits || !engine->drawn || !engine->draws.rules || !engine->draws.tokens ||
        !engine->sample_scratch || !engine->adjusted || !engine->history) {
        engine_close(engine);
        return error_set(error, STATUS_NO_MEMORY, "no memory for the logits of %u rows",
                         options->step_rows_max);
    }
    *engine_out = engine;
    return STATUS_OK;
}

void engine_close(struct engine *engine) {
    if (!engine) return;
    model_close(engine->model);
    step_progress_close(engine->progress);
    free(engine->logits);
    free(engine->drawn);
    free(engine->draws.rules);
    free(engine->draws.tokens);
    free(engine->sample_scratch);
    free(engine->adjusted);
    free(engine->history);
    free(engine);
}

struct model *engine_model(const struct engine *engine) {
    return engine->model;
}

struct step_progress *engine_progress(const struct engine *engine) {
    return engine->progress;
}

/* True if [index, index + count) lies within [0, total). */
static bool engine_inside(uint32_t index, uint32_t count, uint32_t total) {
    return index <= total && count <= total - index;
}

static enum status engine_check_rows(const struct engine *engine, const struct step_plan *plan,
                                     struct error *error) {
    const struct step_row *rows = step_plan_rows(plan);
    if (plan->row_count > engine->rows_max)
        return error_set(error, STATUS_INVALID, "a plan has %u rows; expected at most %u",
                         plan->row_count, engine->rows_max);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        if (rows[i].logits_count > 1)
            return error_set(error, STATUS_INVALID,
                             "row %u requests the logits of %u tokens; serving computes those of "
                             "the last token only",
                             i, rows[i].logits_count);
        if (!engine_inside(rows[i].history_index, rows[i].history_count, plan->history_count) ||
            !engine_inside(rows[i].bias_index, rows[i].bias_count, plan->bias_count))
            return error_set(error, STATUS_INVALID,
                             "row %u's history or biases lie outside the plan", i);
        if (rows[i].sampling.top_logprobs > LIMIT_TOP_LOGPROBS)
            return error_set(error, STATUS_INVALID,
                             "row %u requests %u log probabilities; expected at most %d", i,
                             rows[i].sampling.top_logprobs, LIMIT_TOP_LOGPROBS);
        if (rows[i].constrained && !engine->masks.begin)
            return error_set(error, STATUS_INVALID,
                             "row %u is constrained, but this engine has no grammar masks", i);
    }
    return STATUS_OK;
}

enum status engine_check(const struct engine *engine, const struct step_plan *plan,
                         struct error *error) {
    enum status status = engine_check_rows(engine, plan, error);
    return status == STATUS_OK ? plan_check(engine->model, plan, error) : status;
}

/* Samples one token; with a mask, an allowed one. */
static uint32_t engine_choose(struct engine *engine, const struct step_row *row,
                              const struct sample_past *past, uint32_t output_position,
                              const uint64_t *mask, const float *logits) {
    uint32_t vocab = model_shape(engine->model)->vocab;
    const float *chosen_from = logits;
    if (sample_adjusts(&row->sampling, past)) {
        memcpy(engine->adjusted, logits, vocab * sizeof(float));
        sample_adjust(engine->adjusted, vocab, &row->sampling, past,
                      (uint32_t *)(void *)engine->sample_scratch);
        if (!mask || sample_leaves_any(engine->adjusted, vocab, mask))
            chosen_from = engine->adjusted;
    }
    return sample_token(chosen_from, vocab, &row->sampling, output_position, mask,
                        engine->sample_scratch);
}

/* Appends a token to the history, as the unit's history would get it: when it is full, the oldest
 * token is removed. */
static void past_add(struct engine *engine, struct sample_past *past, uint32_t token) {
    if (past->history_count == 0) return;
    uint32_t dropped = past->history_count == LIMIT_HISTORY_TOKENS;
    uint32_t kept = past->history_count - dropped;
    memmove(engine->history, past->history + dropped, kept * sizeof *engine->history);
    engine->history[kept] = token;
    past->history = engine->history;
    past->history_count = kept + 1;
    if (dropped && past->prompt_count) past->prompt_count--;
}

/* *mask_out NULL: all tokens are allowed. Returns false if no token can be sampled now, or ever. */
static bool engine_take_mask(struct engine *engine, const struct step_row *row,
                             const uint64_t **mask_out, struct step_result_row *out) {
    *mask_out = NULL;
    if (!row->constrained) return true;
    enum engine_mask outcome = engine->masks.await(engine->masks.context, row->slot, mask_out);
    if (outcome == ENGINE_MASK_FREE) *mask_out = NULL;
    if (outcome == ENGINE_MASK_FREE || outcome == ENGINE_MASK_SET) return true;
    if (out->token_count) return false; /* the draft counts as rejected */
    out->lost = out->late = outcome == ENGINE_MASK_LATE;
    out->stuck = outcome == ENGINE_MASK_STUCK;
    if (out->lost) out->scored_count = 0;
    return false;
}

static bool may_be_forced(const struct step_row *row) {
    return row->constrained && !(row->sampling.flags & SAMPLING_LOGPROBS);
}

/* True if the draft guessed the last token. */
static bool engine_is_right(const struct model_draft *draft, const struct step_result_row *out) {
    uint32_t last = out->token_count - 1;
    return last < draft->count && out->tokens[last] == draft->tokens[last];
}

/* Reports the last token to the row's constraint. */
static void push_chosen(struct engine *engine, const struct step_row *row,
                        const struct model_draft *draft, const struct step_result_row *out) {
    enum engine_mask_want want = ENGINE_WANTS_NOTHING;
    if (engine_is_right(draft, out))
        want = ENGINE_WANTS_MASK;
    else if (may_be_forced(row))
        want = ENGINE_WANTS_FORCED;
    engine->masks.push(engine->masks.context, row->slot, out->tokens[out->token_count - 1], want);
}

/* Stores the scores of the last token. Scores of a row's tokens are contiguous: the first token
 * reserves room for those that may follow it. */
static void engine_report_logprobs(const struct engine *engine, const struct step_row *row,
                                   const struct model_draft *draft, const float *logits,
                                   struct step_result *result, struct step_result_row *out) {
    uint32_t last = out->token_count - 1;
    struct token_logprob *logprobs = step_result_logprobs(result) + out->logprob_index;
    if (!(row->sampling.flags & SAMPLING_LOGPROBS)) return;
    out->logprobs_each =
        sample_logprobs(logits, model_shape(engine->model)->vocab, out->tokens[last],
                        row->sampling.top_logprobs, logprobs + (size_t)last * out->logprobs_each);
    if (last > 0) return;
    uint32_t more = engine_is_right(draft, out) ? draft->count * out->logprobs_each : 0;
    memset(logprobs + out->logprobs_each, 0, more * sizeof *logprobs);
    result->logprob_count += out->logprobs_each + more;
}

static struct sample_past past_of(const struct step_plan *plan, const struct step_row *row) {
    return (struct sample_past){.history = step_plan_history(plan) + row->history_index,
                                .history_count = row->history_count,
                                .prompt_count = row->history_prompt_count,
                                .biases = step_plan_biases(plan) + row->bias_index,
                                .bias_count = row->bias_count};
}

/* True if the row's tokens depend only on the logits and its sampling rule, and nothing else of
 * them is reported. */
static bool needs_no_logits(const struct step_plan *plan, const struct step_row *row) {
    struct sample_past past = past_of(plan, row);
    return row->sample && !row->constrained && !(row->sampling.flags & SAMPLING_LOGPROBS) &&
           !sample_adjusts(&row->sampling, &past);
}

/* If the model samples tokens itself, the logits of such rows are not copied. */
static void want_draws(struct engine *engine, const struct step_plan *plan) {
    if (!model_want_draws(engine->model, engine->draws)) return;
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        engine->drawn[i] = needs_no_logits(plan, row);
        for (uint32_t k = 0; engine->drawn[i] && k <= LIMIT_DRAFTS; k++)
            engine->draws.rules[i * (1 + LIMIT_DRAFTS) + k] =
                sample_rule(&row->sampling, row->output_position + k);
    }
}

struct row_outputs {       /* outputs for the row's last token and the drafts after it */
    const float *logits;   /* NULL if the model sampled the row's tokens */
    const uint32_t *drawn; /* otherwise NULL */
};

/* Samples the row's next token, after those that it has sampled in this step. */
static void choose_next(struct engine *engine, const struct step_plan *plan,
                        const struct step_row *row, const struct model_draft *draft,
                        const struct row_outputs *outputs, struct step_result *result,
                        struct step_result_row *out) {
    struct sample_past past = past_of(plan, row);
    const float *logits = outputs->logits;
    const uint64_t *mask;
    uint32_t count = out->token_count;
    if (!engine_take_mask(engine, row, &mask, out)) return;
    for (uint32_t i = 0; i < count; i++)
        past_add(engine, &past, out->tokens[i]);
    if (!outputs->drawn) logits += (size_t)count * model_shape(engine->model)->vocab;
    if (count == 0) out->logprob_index = result->logprob_count;
    out->draft_count = draft->count;
    out->tokens[out->token_count++] =
        outputs->drawn
            ? outputs->drawn[count]
            : engine_choose(engine, row, &past, row->output_position + count, mask, logits);
    if (row->constrained) push_chosen(engine, row, draft, out);
    engine_report_logprobs(engine, row, draft, logits, result, out);
}

/* Samples all rows' first tokens, and then those after accepted drafts, so that their masks are
 * computed while other rows sample. */
static void choose_all(struct engine *engine, const struct step_plan *plan,
                       struct step_result *result) {
    for (uint32_t count = 0; count <= LIMIT_DRAFTS; count++) {
        const float *logits = engine->logits;
        const uint32_t *drawn = engine->draws.tokens;
        for (uint32_t i = 0; i < plan->row_count; i++) {
            const struct step_row *row = &step_plan_rows(plan)[i];
            struct step_result_row *out = &step_result_rows(result)[i];
            struct model_draft draft = draft_of_row(engine->model, i);
            const struct row_outputs of_row = {logits, engine->drawn[i] ? drawn : NULL};
            if (row->loads && count == 0) end_load(engine, out);
            if (row->sample && !out->lost && out->token_count == count &&
                (count == 0 || engine_is_right(&draft, out)))
                choose_next(engine, plan, row, &draft, &of_row, result, out);
            uint32_t outputs = row->logits_count + draft.count;
            if (engine->drawn[i])
                drawn += outputs;
            else
                logits += (size_t)outputs * model_shape(engine->model)->vocab;
        }
    }
}

static void add_forced(struct engine *engine, const struct step_row *row,
                       struct step_result_row *out) {
    if (!may_be_forced(row) || out->token_count == 0) return;
    out->forced_count =
        engine->masks.take_forced(engine->masks.context, row->slot, out->tokens + out->token_count);
    out->token_count += out->forced_count;
}

/* Reserves room for the scores of the plan's rows, before those of sampled tokens. */
static void begin_results(struct engine *engine, const struct step_plan *plan,
                          struct step_result *result) {
    uint32_t vocab = model_shape(engine->model)->vocab;
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        struct step_result_row *out = &step_result_rows(result)[i];
        *out = (struct step_result_row){.slot = row->slot};
        if (row->scored_count == 0) continue;
        uint32_t top = row->sampling.top_logprobs < vocab ? row->sampling.top_logprobs : vocab;
        out->logprobs_each = 1 + top;
        out->score_index = result->logprob_count;
        out->scored_count = row->scored_count;
        result->logprob_count += out->scored_count * out->logprobs_each;
    }
    engine->scoring.plan = plan;
    engine->scoring.result = result;
}

/* Reports ready constraints and masks that requests wait for: those without a row yet, and those
 * with a late mask. */
static void engine_report_ready(struct engine *engine, const struct step_plan *plan,
                                struct step_result *result) {
    result->constraint_count = plan->constraint_count;
    if (engine->masks.take_ready)
        result->ready_count = engine->masks.take_ready(engine->masks.context, plan->awaits,
                                                       step_result_ready(result));
    else /* their rows will be rejected */
        for (uint32_t i = 0; i < plan->constraint_count; i++)
            step_result_ready(result)[result->ready_count++] = step_plan_constraints(plan)[i].slot;
    if (result->ready_count % 2) step_result_ready(result)[result->ready_count] = 0; /* 8 bytes */
}

static enum status run(struct engine *engine, const struct step_plan *plan,
                       struct step_result *result, struct error *error) {
    const struct step_row *rows = step_plan_rows(plan);
    struct step_result_row *results = step_result_rows(result);
    enum status status = engine_check(engine, plan, error);
    if (status != STATUS_OK) return status;
    begin_results(engine, plan, result);
    if (engine->masks.begin) engine->masks.begin(engine->masks.context, plan);
    if (plan->awaits) return STATUS_OK;
    want_draws(engine, plan);
    status = forward_run(engine->model, plan, engine->logits, NULL, error);
    (void)model_want_draws(engine->model, (struct model_draws){NULL, NULL, NULL});
    if (!status && job_broken()) {
        step_progress_break(engine->progress);
        status = error_set(error, STATUS_GONE, "a rank has died");
    }
    if (status != STATUS_OK) return status;
    result->awaited_ns = engine->awaited_ns; /* so far: later waits delay no other rank */
    choose_all(engine, plan, result);
    for (uint32_t i = 0; i < plan->row_count; i++)
        add_forced(engine, &rows[i], &results[i]);
    return STATUS_OK;
}

void engine_run(struct engine *engine, const struct step_plan *plan, struct step_result *result,
                struct error *error) {
    int64_t began_ns = clock_now_ns();
    heartbeat_set(HEARTBEAT_COMPUTES);
    engine->awaited_ns = 0;
    engine->in_vain = false;
    *result = (struct step_result){.record = record_head(RECORD_STEP_DONE, 0),
                                   .step = plan->step,
                                   .row_count = plan->row_count,
                                   .rank = plan->rank};
    memset(step_result_rows(result), 0, plan->row_count * sizeof(struct step_result_row));
    result->failed = run(engine, plan, result, error) != STATUS_OK;
    if (!result->failed) {
        engine_report_ready(engine, plan, result);
    } else {
        result->logprob_count = 0;
        for (uint32_t i = 0; i < plan->row_count; i++)
            step_result_rows(result)[i] =
                (struct step_result_row){.slot = step_plan_rows(plan)[i].slot};
    }
    record_set_head(result, RECORD_STEP_DONE);
    result->compute_ns = clock_now_ns() - began_ns - engine->awaited_ns;
    heartbeat_set(HEARTBEAT_WAITS); /* for the other ranks' results, or for the next order */
}

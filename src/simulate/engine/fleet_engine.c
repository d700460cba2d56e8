/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/engine/fleet_engine.h"

#include <math.h>

#include "base/check.h"
#include "base/hash.h"
#include "simulate/engine/fleet_token_oracle.h"

#define STOP_ODDS 90 /* 1 in STOP_ODDS tokens is the stop token */
#define SPOILT_SALT 0xEEEEEEEEEEEEEEEEu
#define KEY_FACTOR 0x9E3779B97F4A7C15u
#define DRAFTS_RIGHT_OF 3 /* 1 in DRAFTS_RIGHT_OF drafts is rejected */

#define ENDS_OF 4 /* 1 in ENDS_OF answers that may end does so */

size_t fleet_engine_bytes(uint32_t page_count, uint32_t slots, uint32_t context_tokens_max) {
    return page_count * sizeof(struct fleet_page) +
           slot_pages_bytes(slots, (uint32_t)divide_up(context_tokens_max, KV_BLOCK_TOKENS)) +
           constrained_rows_bytes(slots, context_tokens_max) +
           slots * sizeof(struct fleet_awaited) + 32;
}

bool fleet_engine_open(struct fleet_engine *engine, struct arena *arena, uint32_t page_count,
                       uint32_t slots, uint32_t context_tokens_max) {
    uint32_t pages_each = (uint32_t)divide_up(context_tokens_max, KV_BLOCK_TOKENS);
    *engine = (struct fleet_engine){.page_count = page_count};
    engine->pages = arena_take_zeroed(arena, page_count * sizeof *engine->pages);
    return engine->pages && slot_pages_open(&engine->slots, arena, slots, pages_each);
}

bool fleet_engine_bind(struct fleet_engine *engine, struct arena *arena,
                       struct fleet_constraints *constraints, uint32_t slots,
                       uint32_t context_tokens_max) {
    struct constrained_lender lender = fleet_constraints_lender(constraints);
    engine->constraints = constraints;
    engine->slot_count = slots;
    engine->bound = constrained_rows_open(arena, slots, context_tokens_max, &lender);
    engine->awaited = arena_take_zeroed(arena, slots * sizeof *engine->awaited);
    return engine->bound && engine->awaited;
}

void fleet_engine_unbind(struct fleet_engine *engine) {
    for (uint32_t slot = 0; engine->bound && slot < engine->slot_count; slot++)
        constrained_rows_end(engine->bound, slot);
}

void fleet_engine_page_spoil(struct fleet_page *page) {
    memset(page, 0xEE, sizeof *page);
}

void fleet_engine_spoil(struct fleet_engine *engine) {
    for (uint32_t page = 0; page < engine->page_count; page++)
        fleet_engine_page_spoil(&engine->pages[page]);
    if (engine->bound) memset(engine->awaited, 0, engine->slot_count * sizeof *engine->awaited);
}

size_t fleet_engine_result_bytes(const struct step_plan *plan) {
    return step_result_bytes_max(plan->row_count, plan->token_count);
}

/* ---- numbers ---- */

uint64_t fleet_engine_checksum(const struct fleet_slice *slice, uint32_t row_count) {
    uint64_t sum = row_count;
    for (uint32_t group = 0; group < FLEET_GROUPS; group++)
        for (uint32_t i = 0; i < row_count; i++)
            sum = hash_mix(sum ^ slice->groups[group][i]);
    return sum;
}

void fleet_engine_copy(struct fleet_slice *to, const struct fleet_slice *slice, uint32_t from,
                       uint32_t end) {
    for (uint32_t group = 0; group < FLEET_GROUPS; group++)
        memcpy(&to->groups[group][from], &slice->groups[group][from],
               (end - from) * sizeof slice->groups[group][0]);
}

/* The value of a row in a slice. */
static uint64_t in_slice(uint64_t row, uint32_t slice) {
    return row * (2 * slice + 3) + slice;
}

/* The index key of a token whose row in the slice is `number`. */
static uint64_t index_key(uint64_t number) {
    return number * KEY_FACTOR + 1;
}

static void put_row_and_key(struct fleet_slice *slice, uint32_t position, uint64_t number) {
    slice->groups[FLEET_GROUP_ROWS][position % KV_BLOCK_TOKENS] = number;
    slice->groups[FLEET_GROUP_KEYS][position % KV_BLOCK_TOKENS] = index_key(number);
}

static bool has_row_and_key(const struct fleet_slice *slice, uint32_t position, uint64_t number) {
    uint32_t at = position % KV_BLOCK_TOKENS;
    return slice->groups[FLEET_GROUP_ROWS][at] == number &&
           slice->groups[FLEET_GROUP_KEYS][at] == index_key(number);
}

/* Adds the row at `position`, with all its slices, to the sum of the rows before it. */
static uint64_t sum_with(uint64_t sum, uint64_t row, uint32_t position) {
    for (uint32_t slice = 0; slice < FLEET_SLICES; slice++)
        sum += in_slice(row, slice) * (2 * ((uint64_t)position * FLEET_SLICES + slice) + 1);
    return sum;
}

/* The KV row of a token that follows the rows that add up to `sum`. */
static uint64_t row_behind(uint64_t sum, uint32_t token, uint32_t form) {
    return hash_mix(sum * 3 + token * 2 + form + 1) | 1;
}

/* A hash of the token history that penalties depend on. */
static uint64_t sum_history(const uint32_t *tokens, uint32_t count, uint32_t prompt_count) {
    uint64_t sum = prompt_count;
    for (uint32_t i = 0; i < count; i++)
        sum = hash_mix(sum + tokens[i] + 1);
    return sum;
}

static bool fleet_engine_is_set(const uint64_t *mask, uint32_t token) {
    return mask[token / 64] >> token % 64 & 1;
}

/* Chooses a token of the mask. If nothing else is allowed, it is the stop token, even if that is
 * forbidden otherwise. */
static uint32_t choose_of(const uint64_t *mask, uint64_t number, bool may_stop) {
    uint32_t tokens[FLEET_VOCAB], count = 0;
    bool ends = fleet_engine_is_set(mask, FLEET_STOP_TOKEN);
    for (uint32_t token = FLEET_STOP_TOKEN + 1; token < FLEET_VOCAB; token++)
        if (fleet_engine_is_set(mask, token)) tokens[count++] = token;
    if (ends && (count == 0 || (may_stop && number % ENDS_OF == 0))) return FLEET_STOP_TOKEN;
    check(count > 0);
    return tokens[(number >> 20) % count];
}

/* Samples a token after the rows that add up to `sum`. `mask` [FLEET_MASK_WORDS] has the allowed
 * tokens; NULL allows all. */
static uint32_t fleet_engine_choose(uint64_t sum, const struct sampling *sampling,
                                    uint32_t position, uint32_t last, uint64_t history,
                                    bool may_stop, const uint64_t *mask) {
    uint64_t number =
        hash_mix(sum ^ hash_mix(sampling->seed + 7) ^ hash_mix(sampling->choice * 13 + 5) ^
                 hash_mix(position + 3) ^ history);
    if (mask) return choose_of(mask, number, may_stop);
    if (sampling->seed >= FLEET_SPEAKS)
        return fleet_token_oracle_follow(number >> 20, last, FLEET_STOP_TOKEN, may_stop);
    if (may_stop && number % STOP_ODDS == 0) return FLEET_STOP_TOKEN;
    return 2 + (uint32_t)((number >> 20) % (FLEET_VOCAB - 2));
}

/* The log probability of a token after the rows that add up to `sum`. */
static uint32_t score_of(uint64_t sum, uint32_t token) {
    return (uint32_t)(hash_mix(sum * 5 + token) % 9000);
}

void fleet_engine_scores(uint32_t numerics, const uint32_t *prompt, uint32_t prompt_count,
                         uint32_t *scores_out) {
    uint64_t sum = numerics;
    for (uint32_t i = 0; i < prompt_count; i++) {
        scores_out[i] = score_of(sum, prompt[i]);
        sum = sum_with(sum, row_behind(sum, prompt[i], TOKEN_PROMPT), i);
    }
}

uint32_t fleet_engine_answer(uint32_t numerics, const uint32_t *prompt, uint32_t prompt_count,
                             const struct sampling *sampling, struct constrained_answer *bound,
                             uint32_t new_tokens_max, uint32_t *tokens_out) {
    uint64_t sum = numerics, history = prompt_count, mask[FLEET_MASK_WORDS];
    for (uint32_t i = 0; i < prompt_count; i++) {
        sum = sum_with(sum, row_behind(sum, prompt[i], TOKEN_PROMPT), i);
        history = hash_mix(history + prompt[i] + 1);
    }
    for (uint32_t i = 0; i < new_tokens_max; i++) {
        uint64_t seen = sampling_needs_history(sampling) ? history : 0;
        uint32_t last = i ? tokens_out[i - 1] : prompt[prompt_count - 1];
        bool held = bound && constrained_answer_mask(bound, mask);
        tokens_out[i] = fleet_engine_choose(sum, sampling, i, last, seen, i >= sampling->min_tokens,
                                            held ? mask : NULL);
        if (bound) constrained_answer_push(bound, tokens_out[i]);
        if (tokens_out[i] == FLEET_STOP_TOKEN) return i + 1;
        sum = sum_with(sum, row_behind(sum, tokens_out[i], TOKEN_GENERATED), prompt_count + i);
        history = hash_mix(history + tokens_out[i] + 1);
    }
    return new_tokens_max;
}

/* ---- steps ---- */

static struct fleet_page *fleet_engine_page_of(struct fleet_engine *engine,
                                               const struct step_plan *plan,
                                               const struct step_row *row, uint32_t position) {
    uint32_t page = step_plan_pages(plan)[row->page_index + position / KV_BLOCK_TOKENS].index;
    check(page < engine->page_count);
    return &engine->pages[page];
}

static void fleet_engine_write_row(struct fleet_engine *engine, const struct step_plan *plan,
                                   const struct step_row *row, uint32_t position, uint64_t value) {
    struct fleet_page *page = fleet_engine_page_of(engine, plan, row, position);
    for (uint32_t slice = 0; slice < FLEET_SLICES; slice++)
        put_row_and_key(&page->slices[slice], position, in_slice(value, slice));
}

/* The sum of the rows before the first row of the step in one slice, read from the pages. */
static uint64_t read_slice(struct fleet_engine *engine, const struct step_plan *plan,
                           const struct step_row *row, uint32_t slice) {
    uint64_t sum = 0;
    for (uint32_t first = 0; first < row->first_position; first += KV_BLOCK_TOKENS) {
        const struct fleet_page *page = fleet_engine_page_of(engine, plan, row, first);
        uint32_t count = row->first_position - first;
        if (count > KV_BLOCK_TOKENS) count = KV_BLOCK_TOKENS;
        const uint64_t(*groups)[KV_BLOCK_TOKENS] = page->slices[slice].groups;
        for (uint32_t i = 0; i < count; i++) {
            uint64_t number = groups[FLEET_GROUP_ROWS][i];
            uint64_t wrong = groups[FLEET_GROUP_KEYS][i] - index_key(number); /* normally 0 */
            sum += (number + wrong * KEY_FACTOR) *
                   (2 * ((uint64_t)(first + i) * FLEET_SLICES + slice) + 1);
        }
    }
    return sum;
}

/* The sum of the rows before the first row of the step, in all slices. They are read now or, for a
 * row that waits for its load, were read when each slice arrived. */
static uint64_t read_rows(struct fleet_engine *engine, const struct step_plan *plan,
                          const struct step_row *row) {
    uint64_t sum = engine->numerics;
    for (uint32_t slice = 0; slice < FLEET_SLICES; slice++)
        sum += row->loads ? engine->read[slice] : read_slice(engine, plan, row, slice);
    return sum;
}

static bool may_stop(const struct step_plan *plan, const struct step_row *row) {
    const struct token_bias *biases = step_plan_biases(plan) + row->bias_index;
    for (uint32_t i = 0; i < row->bias_count; i++)
        if (biases[i].token == FLEET_STOP_TOKEN && biases[i].bias == -INFINITY) return false;
    return true;
}

static void fleet_engine_report_logprobs(const struct step_row *row, struct step_result *result,
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

/* ---- constraints ---- */

/* Fills the engine's mask with the allowed tokens. The mask may be late, as if another thread
 * computed it. */
static enum constrained_mask fleet_engine_take_mask(struct fleet_engine *engine,
                                                    const struct step_row *row) {
    if (!row->constrained || !row->sample) return CONSTRAINED_MASK_FREE;
    if (fleet_constraints_is_late(engine->constraints)) return CONSTRAINED_MASK_LATE;
    return constrained_rows_mask(engine->bound, row->slot, engine->mask);
}

static void push(struct fleet_engine *engine, const struct step_row *row,
                 struct step_result_row *out, uint32_t token) {
    out->tokens[out->token_count++] = token;
    if (row->constrained) constrained_rows_push(engine->bound, row->slot, token);
}

/* True if the mask allows exactly one token. */
static bool is_alone(const uint64_t *mask, uint32_t *token_out) {
    uint32_t count = 0;
    for (uint32_t token = 0; token < FLEET_VOCAB; token++)
        if (fleet_engine_is_set(mask, token)) {
            *token_out = token;
            count++;
        }
    return count == 1;
}

/* Finds a token that is the only one in the mask. This finds more tokens than
 * constrained_rows_forced. */
static bool find_forced(struct fleet_engine *engine, const struct step_row *row,
                        uint32_t *token_out) {
    if (!engine->constraints->looks_ahead)
        return constrained_rows_forced(engine->bound, row->slot, 1, token_out) == 1;
    return constrained_rows_mask(engine->bound, row->slot, engine->mask) == CONSTRAINED_MASK_SET &&
           is_alone(engine->mask, token_out);
}

static void force(struct fleet_engine *engine, const struct step_row *row,
                  struct step_result_row *out) {
    uint32_t token;
    bool goes_on = row->constrained && !(row->sampling.flags & SAMPLING_LOGPROBS);
    while (goes_on && out->forced_count < LIMIT_FORCED && find_forced(engine, row, &token)) {
        push(engine, row, out, token);
        out->forced_count++;
        engine->constraints->forced++;
        goes_on = token != FLEET_STOP_TOKEN;
    }
}

/* Samples the token after the rows that add up to `sum`, and perhaps a second one after a draft. If
 * the mask after the draft is late, the draft is rejected. */
static void fleet_engine_sample(struct fleet_engine *engine, const struct step_plan *plan,
                                const struct step_row *row, uint64_t sum,
                                enum constrained_mask outcome, struct step_result_row *out) {
    const uint32_t *past = step_plan_history(plan) + row->history_index;
    const uint32_t *tokens = step_plan_tokens(plan) + row->token_index;
    uint64_t history =
        row->history_count ? sum_history(past, row->history_count, row->history_prompt_count) : 0;
    const uint64_t *mask = outcome == CONSTRAINED_MASK_SET ? engine->mask : NULL;
    bool stops = may_stop(plan, row);
    push(engine, row, out,
         fleet_engine_choose(sum, &row->sampling, row->output_position,
                             tokens[row->token_count - 1], history, stops, mask));
    if (row->draft_count == 0) return;
    uint32_t draft = hash_mix(sum) % DRAFTS_RIGHT_OF ? out->tokens[0] : 2;
    uint32_t position = row->first_position + 1;
    uint64_t next = row_behind(sum, draft, TOKEN_GENERATED);
    fleet_engine_write_row(engine, plan, row, position, next);
    out->draft_count = 1;
    if (draft != out->tokens[0]) return;
    outcome = fleet_engine_take_mask(engine, row);
    if (outcome == CONSTRAINED_MASK_LATE || outcome == CONSTRAINED_MASK_STUCK) return;
    mask = outcome == CONSTRAINED_MASK_SET ? engine->mask : NULL;
    if (row->history_count) history = hash_mix(history + draft + 1);
    push(engine, row, out,
         fleet_engine_choose(sum_with(sum, next, position), &row->sampling,
                             row->output_position + 1, draft, history, stops, mask));
}

/* Clears the row's place. If the row itself wrote it, in a step that was interrupted, it is kept,
 * because the same bits are written again. */
static void fleet_engine_clear_row(struct fleet_engine *engine, const struct step_plan *plan,
                                   const struct step_row *row, uint64_t salt) {
    const uint32_t *tokens = step_plan_tokens(plan) + row->token_index;
    bool repeats = engine->repeats && row->form == TOKEN_PROMPT && !row->loads;
    uint64_t sum = repeats ? read_rows(engine, plan, row) : 0;
    for (uint32_t t = 0; t < row->token_count + row->draft_count; t++) {
        uint32_t position = row->first_position + t;
        struct fleet_page *page = fleet_engine_page_of(engine, plan, row, position);
        uint64_t value =
            repeats && t < row->token_count ? row_behind(sum, tokens[t], row->form) : 0;
        for (uint32_t slice = 0; slice < FLEET_SLICES; slice++)
            if (!repeats || page->salt != salt ||
                !has_row_and_key(&page->slices[slice], position, in_slice(value, slice)))
                put_row_and_key(&page->slices[slice], position, in_slice(plan->step, slice));
        page->salt = salt;
        sum = sum_with(sum, value, position);
    }
}

static void fleet_engine_await(struct fleet_engine *engine, uint32_t slot) {
    struct fleet_awaited *awaited = &engine->awaited[slot];
    awaited->is_wanted = true;
    awaited->is_reported = false;
    awaited->wait = fleet_constraints_wait(engine->constraints);
}

/* Takes the constraints that are sent ahead of rows, and the constrained rows. */
static void take_bindings(struct fleet_engine *engine, const struct step_plan *plan) {
    const struct step_constraint *rows = step_plan_row_constraints(plan);
    for (const struct step_constraint *it = step_plan_constraints(plan); it < rows; it++) {
        constrained_rows_end(engine->bound, it->slot);
        engine->awaited[it->slot] = (struct fleet_awaited){.has_constraint = it->text_bytes > 0};
        if (it->text_bytes) fleet_engine_await(engine, it->slot);
    }
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        struct fleet_awaited *awaited = &engine->awaited[row->slot];
        if (row->fresh && !row->constrained) *awaited = (struct fleet_awaited){.wait = 0};
        if (!row->constrained) continue;
        engine->early_rows += !awaited->has_constraint || !awaited->is_reported;
        awaited->is_wanted = false;
    }
}

static void fleet_engine_report_ready(struct fleet_engine *engine, const struct step_plan *plan,
                                      struct step_result *result) {
    if (!engine->bound) return;
    result->constraint_count = plan->constraint_count;
    for (uint32_t slot = 0; slot < engine->slot_count; slot++) {
        struct fleet_awaited *awaited = &engine->awaited[slot];
        if (!awaited->is_wanted) continue;
        if (awaited->wait) {
            awaited->wait--;
            engine->constraints->late++;
            continue;
        }
        awaited->is_reported = true;
        step_result_ready(result)[result->ready_count++] = slot;
    }
}

void fleet_engine_begin(struct fleet_engine *engine, const struct step_plan *plan,
                        const uint64_t *salts) {
    if (engine->bound) take_bindings(engine, plan);
    if (engine->bound) constrained_rows_take(engine->bound, plan);
    for (uint32_t i = 0; i < plan->row_count; i++)
        fleet_engine_clear_row(engine, plan, &step_plan_rows(plan)[i], salts[i]);
}

void fleet_engine_read(struct fleet_engine *engine, const struct step_plan *plan, uint32_t slice) {
    for (uint32_t i = 0; i < plan->row_count; i++)
        if (step_plan_rows(plan)[i].loads)
            engine->read[slice] = read_slice(engine, plan, &step_plan_rows(plan)[i], slice);
}

void fleet_engine_write(struct fleet_engine *engine, const struct step_plan *plan, uint32_t slice) {
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        const uint32_t *tokens = step_plan_tokens(plan) + row->token_index;
        /* the waiting row may still be reading this page */
        bool writes = row->form == TOKEN_PROMPT && !row->loads;
        uint64_t sum = writes ? read_rows(engine, plan, row) : 0;
        for (uint32_t t = 0; writes && t < row->token_count; t++) {
            uint32_t position = row->first_position + t;
            uint64_t value = row_behind(sum, tokens[t], row->form);
            struct fleet_page *page = fleet_engine_page_of(engine, plan, row, position);
            put_row_and_key(&page->slices[slice], position, in_slice(value, slice));
            sum = sum_with(sum, value, position);
        }
    }
}

/* Scores requested token `index`, which follows the rows that add up to `sum`. */
static void fleet_engine_score(const struct step_row *row, const uint32_t *tokens, uint32_t index,
                               uint64_t sum, struct step_result *result,
                               struct step_result_row *out) {
    uint32_t token = step_scored_token(row, tokens, index);
    if (index == 0) {
        out->logprobs_each = 1 + row->sampling.top_logprobs;
        out->score_index = result->logprob_count;
        out->scored_count = row->scored_count;
    }
    for (uint32_t k = 0; k < out->logprobs_each; k++)
        step_result_logprobs(result)[result->logprob_count++] = (struct token_logprob){
            (token + k) % FLEET_VOCAB, -(float)score_of(sum, (token + k) % FLEET_VOCAB)};
}

static void fleet_engine_run_row(struct fleet_engine *engine, const struct step_plan *plan,
                                 const struct step_row *row, uint64_t salt, bool in_vain,
                                 struct step_result *result, struct step_result_row *out) {
    const uint32_t *tokens = step_plan_tokens(plan) + row->token_index;
    enum constrained_mask outcome =
        in_vain ? CONSTRAINED_MASK_LATE : fleet_engine_take_mask(engine, row);
    uint64_t sum = read_rows(engine, plan, row);
    out->lost = outcome == CONSTRAINED_MASK_LATE;
    out->late = out->lost && !in_vain;
    if (out->late) fleet_engine_await(engine, row->slot);
    out->stuck = outcome == CONSTRAINED_MASK_STUCK;
    for (uint32_t first = 0; first < row->first_position; first += KV_BLOCK_TOKENS) {
        uint64_t of = fleet_engine_page_of(engine, plan, row, first)->salt;
        engine->foreign_reads += of != salt && of != SPOILT_SALT;
    }
    for (uint32_t t = 0; t < row->token_count; t++) {
        uint32_t position = row->first_position + t;
        uint64_t value = row_behind(sum, tokens[t], row->form);
        fleet_engine_write_row(engine, plan, row, position, value);
        sum = sum_with(sum, value, position);
        uint32_t first = step_scored_first(row);
        if (!out->lost && t >= first && t - first < row->scored_count)
            fleet_engine_score(row, tokens, t - first, sum, result, out);
    }
    out->slot = row->slot;
    if (!row->sample || out->lost || out->stuck) return;
    fleet_engine_sample(engine, plan, row, sum, outcome, out);
    force(engine, row, out);
}

void fleet_engine_end(struct fleet_engine *engine, const struct step_plan *plan,
                      const uint64_t *salts, enum fleet_step_end end, struct step_result *result) {
    bool fails = end == FLEET_STEP_FAILS;
    memset(result, 0, fleet_engine_result_bytes(plan));
    result->record = record_head(RECORD_STEP_DONE, 0);
    result->step = plan->step;
    result->rank = plan->rank;
    result->failed = fails;
    result->row_count = fails ? 0 : plan->row_count;
    for (uint32_t i = 0; i < result->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        struct step_result_row *out = &step_result_rows(result)[i];
        if (end == FLEET_STEP_BREAKS) { /* the pages stay unchanged */
            engine->repeats = true;
            *out = (struct step_result_row){.slot = row->slot, .lost = 1};
            continue;
        }
        fleet_engine_run_row(engine, plan, row, salts[i], row->loads && end == FLEET_STEP_LOSES,
                             result, out);
        fleet_engine_report_logprobs(row, result, out);
    }
    if (end == FLEET_STEP_WHOLE || end == FLEET_STEP_LOSES)
        fleet_engine_report_ready(engine, plan, result);
    record_set_head(result, RECORD_STEP_DONE);
}

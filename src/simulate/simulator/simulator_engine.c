/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator_engine.h"

#include "base/check.h"
#include "base/number.h"
#include "simulate/simulator/simulator_words.h"

#include <string.h>

size_t simulator_engine_bytes(uint32_t ranks, uint32_t rows_max) {
    return ranks *
               (sizeof(struct step_share) + sizeof(double) + sizeof(struct simulator_engine_plan) +
                rows_max * sizeof(struct simulator_row)) +
           64;
}

bool simulator_engine_open(struct simulator_engine *engine, struct arena *arena,
                           struct step_clock *clock, const struct model_figures *model,
                           uint32_t ranks, uint32_t rows_max, int overlap) {
    *engine = (struct simulator_engine){.model = model,
                                        .clock = clock,
                                        .rank_count = ranks,
                                        .rows_max = rows_max,
                                        .overlap = overlap};
    engine->shares = arena_take_zeroed(arena, ranks * sizeof *engine->shares);
    engine->slowness = arena_take(arena, ranks * sizeof *engine->slowness);
    engine->plans = arena_take_zeroed(arena, ranks * sizeof *engine->plans);
    engine->rows = arena_take(arena, (size_t)ranks * rows_max * sizeof *engine->rows);
    if (!engine->shares || !engine->slowness || !engine->plans || !engine->rows) return false;
    for (uint32_t rank = 0; rank < ranks; rank++)
        engine->slowness[rank] = 1;
    return true;
}

void simulator_engine_forget(struct simulator_engine *engine) {
    engine->reported = 0;
    for (uint32_t rank = 0; rank < engine->rank_count; rank++)
        engine->plans[rank].reported = false;
}

static void add_row(struct step_load *load, const struct step_row *row) {
    if (row->form == TOKEN_PROMPT)
        step_load_add_chunk(load, row->token_count, row->first_position);
    else
        step_load_add_answers(load, 1, row->token_count + row->draft_count,
                              row->first_position + row->token_count);
}

bool simulator_engine_take(struct simulator_engine *engine, const struct step_plan *plan) {
    check(plan->rank < engine->rank_count && plan->row_count <= engine->rows_max);
    struct simulator_engine_plan *kept = &engine->plans[plan->rank];
    struct step_share *share = &engine->shares[plan->rank];
    struct simulator_row *rows = engine->rows + (size_t)plan->rank * engine->rows_max;
    check(!kept->reported);
    *kept = (struct simulator_engine_plan){plan->step, plan->row_count, true};
    *share = (struct step_share){.slowness = engine->slowness[plan->rank]};
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        add_row(&share->load, row);
        rows[i] = (struct simulator_row){row->sampling.seed, row->slot, row->output_position,
                                         row->sample, row->draft_count};
    }
    return ++engine->reported == engine->rank_count;
}

struct step_load simulator_engine_begin(struct simulator_engine *engine, int64_t now_ns,
                                        bool prompts_free) {
    struct step_load load = {0};
    uint32_t most = 0;
    check(engine->reported == engine->rank_count);
    for (uint32_t rank = 0; rank < engine->rank_count; rank++) {
        step_load_add(&load, &engine->shares[rank].load, 1);
        most = max_u32(most, (uint32_t)step_load_tokens(&engine->shares[rank].load));
    }
    engine->size = (struct choose_overlap_step){engine->rank_count, most,
                                                load.prompt_tokens > load.answer_tokens};
    engine->kind = engine->overlap >= 0 ? (enum overlap_kind)engine->overlap
                                        : choose_overlap(&engine->choose, &engine->size).kind;
    engine->time = step_clock_step(engine->clock, engine->shares, engine->kind, now_ns);
    engine->reported_ns = engine->time.ns;
    if (prompts_free && load.prompt_tokens > 0) {
        for (uint32_t rank = 0; rank < engine->rank_count; rank++)
            step_load_remove_prompts(&engine->shares[rank].load);
        engine->time = step_clock_step(engine->clock, engine->shares, engine->kind, now_ns);
    }
    simulator_engine_forget(engine);
    return load;
}

void simulator_engine_observe(struct simulator_engine *engine, int64_t ns) {
    if (engine->overlap < 0)
        choose_overlap_observe(&engine->choose, &engine->size, engine->kind, ns);
}

size_t simulator_engine_result_bytes(uint32_t rows_max) {
    return record_bytes(RECORD_STEP_DONE, &(struct step_result){.row_count = rows_max});
}

uint32_t simulator_engine_end(struct simulator_engine *engine, uint32_t rank, int64_t compute_ns,
                              struct step_result *result) {
    const struct simulator_engine_plan *plan = &engine->plans[rank];
    const struct simulator_row *rows = engine->rows + (size_t)rank * engine->rows_max;
    uint32_t tokens = 0, vocab = engine->model->vocab;
    *result = (struct step_result){
        .step = plan->step, .compute_ns = compute_ns, .row_count = plan->row_count, .rank = rank};
    record_set_head(result, RECORD_STEP_DONE);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct simulator_row *row = &rows[i];
        struct step_result_row *out = &step_result_rows(result)[i];
        *out = (struct step_result_row){.slot = row->slot, .draft_count = row->drafts};
        if (!row->samples) continue;
        out->token_count = 1;
        out->tokens[0] = simulator_words_answer(row->request, row->output_position, vocab);
        if (row->drafts && simulator_words_draft(row->request, row->output_position + 1,
                                                 engine->model->mtp_acceptance)) {
            out->tokens[out->token_count++] =
                simulator_words_answer(row->request, row->output_position + 1, vocab);
        }
        tokens += out->token_count;
    }
    return tokens;
}

/* SPDX-License-Identifier: Apache-2.0
 * The order of work in a plan matters. Pages for growth come first, because running answers have
 * priority. Drafts are next, because the tokens after them would need pages anyway. Then the first
 * few waiting requests are looked up in the prefix cache, and the policy (serving/policy/schedule)
 * decides. Finally the starting requests lease their cached blocks, all of them before any of them
 * allocates a page, so that no eviction removes a cached block of another one.
 */
#include "serving/unit/plan.h"

#include <math.h>

#include "base/check.h"
#include "base/number.h"
#include "serving/policy/preempt.h"
#include "serving/unit/account.h"
#include "serving/unit/binding.h"
#include "serving/unit/handoff.h"
#include "serving/unit/kv_offload.h"
#include "serving/unit/level.h"
#include "serving/unit/pages.h"
#include "serving/unit/unit_request.h"

#define LOOK_UPS_MAX 4 /* requests that may start in one step */

size_t plan_bytes_max(const struct unit_options *options) {
    uint32_t pages = (uint32_t)divide_up(options->context_tokens_max, KV_BLOCK_TOKENS);
    /* the sum counts shared pages once per request */
    if (pages > options->page_count) pages = options->page_count;
    uint32_t context = options->context_tokens_max;
    uint32_t history = context < LIMIT_HISTORY_TOKENS ? context : LIMIT_HISTORY_TOKENS;
    uint32_t rows = options->step_rows_max;
    return record_bytes(
        RECORD_RUN_STEP,
        &(struct step_plan){.row_count = rows,
                            .token_count = options->step_tokens_max,
                            .page_count = rows * pages,
                            .history_count = rows * history,
                            .bias_count = rows * LIMIT_ROW_BIASES,
                            .constraint_count = rows + BINDING_ASKS_MAX + options->requests_max,
                            .constraint_token_count = context + rows * 2 * LIMIT_STOP_TOKENS,
                            .constraint_bytes = LIMIT_CONSTRAINT_BYTES});
}

/* ---- the view ---- */

/* True if the token is computed in the mode GENERATED. These are all tokens after the prompt, and
 * prompt tokens that were found only by their text. */
static bool is_generated(const struct unit_request *request, uint32_t position) {
    return position >= request->prompt_count ||
           position % KV_BLOCK_TOKENS >= request->block_prompt[position / KV_BLOCK_TOKENS];
}

/* The latest end of a row from `position` on. Its tokens must be known and of one mode. */
static uint32_t row_end(const struct unit_request *request, uint32_t position) {
    uint32_t known = request_known(request), end = position;
    bool generated = is_generated(request, position);
    if (position >= request->prompt_count) return known;
    while (end < known && is_generated(request, end) == generated) {
        uint32_t block = end / KV_BLOCK_TOKENS, prompt = request->block_prompt[block];
        end = block * KV_BLOCK_TOKENS + (generated ? KV_BLOCK_TOKENS : prompt);
    }
    return end < known ? end : known;
}

/* True if the request's next row is fresh: it sends the constraint and the answer so far. */
static bool brings_constraint(const struct unit_request *request) {
    return request->constraint_bytes && (request->fresh || request->state == UNIT_REQUEST_WAITING);
}

bool plan_brings_constraints(const struct unit *unit) {
    if (unit->unasked_count + unit->over_count > 0) return true;
    for (uint32_t slot = 0; slot < unit->slot_end; slot++)
        if (brings_constraint(&unit->requests[slot])) return true;
    return false;
}

/* Builds the item of an answer's next token, the usual row of a decode unit. Sets all fields,
 * because zeroing the item first would build it elsewhere and copy it. */
static void view_answer(const struct unit_request *request, uint32_t slot,
                        struct schedule_item *out) {
    uint32_t known = request_known(request);
    *out = (struct schedule_item){.slot = slot,
                                  .phase = SCHEDULE_DECODE,
                                  .priority = request->priority,
                                  .computed_tokens = request->computed_count,
                                  .row_end = known,
                                  .known_tokens = known,
                                  .pages_needed = 0,
                                  .draft_tokens = 0,
                                  .generated = true,
                                  .unseen = false,
                                  .constraint_bytes = 0,
                                  .constraint_tokens = 0,
                                  .turn = request->turn,
                                  .arrival = request->arrival};
}

static void view_request(const struct unit_request *request, uint32_t slot,
                         struct schedule_item *out) {
    if (request->state == UNIT_REQUEST_DECODE && !request->constraint_bytes &&
        request->computed_count >= request->prompt_count) {
        view_answer(request, slot, out);
        return;
    }
    *out = (struct schedule_item){
        .slot = slot,
        .phase = request->state == UNIT_REQUEST_WAITING   ? SCHEDULE_WAITING
                 : request->state == UNIT_REQUEST_PREFILL ? SCHEDULE_PREFILL
                                                          : SCHEDULE_DECODE,
        .priority = request->priority,
        .computed_tokens = request->computed_count,
        .row_end = row_end(request, request->computed_count),
        .known_tokens = request_known(request),
        .generated = is_generated(request, request->computed_count),
        .unseen = request->state == UNIT_REQUEST_WAITING,
        .turn = request->turn,
        .arrival = request->arrival,
        .constraint_bytes = brings_constraint(request) ? request->constraint_bytes : 0,
        .constraint_tokens = brings_constraint(request) ? request->output_count : 0,
    };
}

/* Builds the items in the order of the last plan, so that sorting has little to do: the order
 * changes only when requests enter or leave. */
static uint32_t view_requests(struct unit *unit, int64_t now_ns) {
    uint32_t count = 0, asking = 0, end = unit->options.requests_max;
    unit->kv_offload.answer_by_ns = MACHINE_NEVER;
    unit->held_count = unit->held_running = 0;
    for (uint32_t i = 0; i < unit->line_count; i++) {
        uint32_t slot = unit->line[i];
        struct unit_request *request = &unit->requests[slot];
        if (i + UNIT_AHEAD < unit->line_count)
            request_prefetch_to_plan(&unit->requests[unit->line[i + UNIT_AHEAD]]);
        if (!request_steps(request)) {
            request->listed = false;
            continue;
        }
        if (binding_holds(request)) {
            unit->scratch.order[end - ++asking] = slot;
            unit->held_count++;
            unit->held_running += request_runs(request);
            continue;
        }
        int64_t answer_by_ns = kv_offload_answer_by_ns(unit, request, now_ns);
        if (answer_by_ns <= now_ns) {
            view_request(request, slot, &unit->scratch.items[count++]);
            continue;
        }
        unit->scratch.order[end - ++asking] = slot; /* after all items of the view */
        if (answer_by_ns < unit->kv_offload.answer_by_ns)
            unit->kv_offload.answer_by_ns = answer_by_ns;
    }
    check(count + asking == unit_active_count(unit));
    schedule_order(unit->scratch.items, count, unit->scratch.order);
    for (uint32_t i = 0; i < count; i++)
        unit->line[i] = unit->scratch.items[unit->scratch.order[i]].slot;
    for (uint32_t i = 0; i < asking; i++)
        unit->line[count + i] = unit->scratch.order[end - 1 - i];
    unit->line_count = count + asking;
    return count;
}

/* Looks up the first waiting requests in the prefix cache. */
static void look_up_waiting(struct unit *unit, uint32_t count) {
    if (unit->counts[UNIT_REQUEST_WAITING] == 0) return;
    if (unit_rows_and_pages(unit).rows_running == unit->options.step_rows_max) return;
    uint32_t looked_up = 0;
    for (uint32_t i = 0; i < count && looked_up < LOOK_UPS_MAX; i++) {
        struct schedule_item *item = &unit->scratch.items[unit->scratch.order[i]];
        if (item->phase != SCHEDULE_WAITING) continue;
        const struct unit_request *request = &unit->requests[item->slot];
        struct pages_hit hit = pages_look_up(unit, request);
        uint64_t pages = admit_start_pages(request_need(request), item->known_tokens);
        item->computed_tokens = hit.block_count * KV_BLOCK_TOKENS;
        item->row_end = row_end(request, item->computed_tokens);
        item->generated = is_generated(request, item->computed_tokens);
        item->pages_needed = (uint32_t)pages - hit.block_count + hit.unleased_count;
        item->unseen = false;
        looked_up++;
    }
}

/* ---- pages for growing answers ---- */

static void interrupt(struct unit *unit, struct schedule_item *item, int64_t now_ns) {
    struct unit_request *request = &unit->requests[item->slot];
    check(request_runs(request));
    if (request->pushes) handoff_interrupt(unit, request);
    unit_request_wait_again(unit, request, now_ns);
    kv_offload_ask_later(unit, request);
    item->phase = SCHEDULE_WAITING;
    request_work(request)->preemptions++;
    unit->totals.preemptions++;
}

/* Allocates pages for growing answers. Returns true if a request was interrupted. */
static bool grow_answers(struct unit *unit, uint32_t count, int64_t now_ns) {
    bool interrupted = false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t needy = unit->scratch.order[i];
        struct schedule_item *item = &unit->scratch.items[needy];
        uint32_t pages = (uint32_t)divide_up(item->known_tokens, KV_BLOCK_TOKENS);
        while (item->phase != SCHEDULE_WAITING && pages > unit->requests[item->slot].page_count &&
               !pages_claim(unit, &unit->requests[item->slot], pages)) {
            uint32_t last = preempt_choose(unit->scratch.items, count, needy);
            interrupt(unit, &unit->scratch.items[last], now_ns);
            interrupted = true;
        }
    }
    return interrupted;
}

/* ---- drafts ---- */

/* The number of stop tokens that are masked at this position of the answer. */
static uint32_t mask_count(const struct unit_request *request, uint32_t output_position) {
    bool masks = request->adjusts && output_position < request->sampling.min_tokens;
    return masks ? request->stop_token_count : 0;
}

/* True if the answer may grow by two tokens. There must be space for both, both positions must
 * allow the same tokens, a draft must be possible at the first one, and the engine must have the
 * sequence except for its last token. */
static bool may_draft(const struct unit_request *request) {
    uint32_t next = request->output_count;
    bool one = request->computed_count + 1 == request_known(request);
    return one && !request->fresh && next + 2 <= request->new_tokens_max &&
           step_drafts_fit(request_known(request), 1) &&
           mask_count(request, next) == mask_count(request, next + 1);
}

/* Chooses drafts. A draft may take a free or cached page, but does not preempt a request for it. */
static void choose_drafts(struct unit *unit, uint32_t count) {
    uint32_t row_count = 0, able_count = 0;
    if (unit->options.speculate == SPECULATE_NEVER) return;
    for (uint32_t i = 0; i < count; i++) {
        if (unit->scratch.items[i].phase != SCHEDULE_DECODE) continue;
        row_count++;
        able_count += may_draft(&unit->requests[unit->scratch.items[i].slot]);
    }
    struct speculate_choice choice =
        speculate_choose(&unit->speculate, unit->options.speculate, row_count, able_count,
                         unit->options.step_tokens_max - KV_BLOCK_TOKENS);
    for (uint32_t i = 0; i < count && choice.drafts; i++) {
        struct schedule_item *item = &unit->scratch.items[i];
        struct unit_request *request = &unit->requests[item->slot];
        uint32_t pages = (uint32_t)divide_up((size_t)item->known_tokens + 1, KV_BLOCK_TOKENS);
        item->draft_tokens = item->phase == SCHEDULE_DECODE && may_draft(request) &&
                             pages_claim(unit, request, pages);
    }
}

/* ---- the plan ---- */

static void start_requests(struct unit *unit, uint32_t row_count, int64_t now_ns) {
    if (unit->counts[UNIT_REQUEST_WAITING] == 0) return;
    for (uint32_t i = 0; i < row_count; i++)
        if (unit->scratch.choices[i].starts)
            unit_request_start(
                unit, &unit->requests[unit->scratch.items[unit->scratch.choices[i].item].slot],
                now_ns);
    for (uint32_t i = 0; i < row_count; i++) {
        if (!unit->scratch.choices[i].starts) continue;
        const struct schedule_item *item = &unit->scratch.items[unit->scratch.choices[i].item];
        struct unit_request *request = &unit->requests[item->slot];
        check(request->computed_count == item->computed_tokens);
        bool claimed = pages_claim(
            unit, request, (uint32_t)admit_start_pages(request_need(request), item->known_tokens));
        check(claimed);
    }
}

static uint32_t row_page_count(const struct unit_request *request, uint32_t token_count) {
    return (uint32_t)divide_up(request->computed_count + token_count, KV_BLOCK_TOKENS);
}

static bool row_samples(const struct unit_request *request, uint32_t token_count) {
    return request->computed_count + token_count == request_known(request);
}

struct extras { /* counts of the rows so far, or of all */
    uint32_t history, biases;
    uint32_t constraints, constraint_tokens, constraint_bytes;
};

/* The index of the first page that the request's next row sends. The engine has the earlier
 * ones. */
static uint32_t first_reported(const struct unit_request *request, uint32_t page_count) {
    return request->fresh ? 0 : min_u32(request->reported_count, page_count);
}

/* Counts the data of a row besides its tokens and its sampling: past tokens, biases and masked stop
 * tokens if it samples, and its constraint if it is fresh. */
static void plan_add_extras(struct extras *sum, const struct unit_request *request,
                            uint32_t token_count) {
    if (request->adjusts && row_samples(request, token_count)) {
        sum->history += request->history.count;
        sum->biases += request->bias_count + mask_count(request, request->output_count);
    }
    if (!brings_constraint(request)) return;
    sum->constraints++;
    sum->constraint_tokens += request->output_count + request->stop_token_count;
    sum->constraint_bytes += request->constraint_bytes;
}

static void put_extras(struct step_plan *plan, struct step_row *row,
                       const struct unit_request *request, struct extras *used) {
    const struct history *history = &request->history;
    if (!request->adjusts) return; /* the usual case */
    struct token_bias *biases = step_plan_biases(plan) + used->biases;
    uint32_t masked = mask_count(request, request->output_count);
    row->history_count = history->count;
    row->history_prompt_count = history->prompt_count;
    row->bias_count = request->bias_count + masked;
    if (history->count)
        memcpy(step_plan_history(plan) + used->history, history->tokens,
               history->count * sizeof *history->tokens);
    if (request->bias_count) memcpy(biases, request->biases, request->bias_count * sizeof *biases);
    for (uint32_t i = 0; i < masked; i++)
        biases[request->bias_count + i] = (struct token_bias){request->stop_tokens[i], -INFINITY};
    used->history += row->history_count;
    used->biases += row->bias_count;
}

static void put_constraint(const struct unit *unit, struct step_plan *plan, uint32_t row,
                           struct unit_request *request, struct extras *used) {
    request_fill_tokens(request);
    uint32_t *tokens = step_plan_constraint_tokens(plan) + used->constraint_tokens;
    uint32_t answer_count = request->output_count, stop_count = request->stop_token_count;
    step_plan_constraints(plan)[used->constraints++] =
        (struct step_constraint){.row = row,
                                 .text_index = used->constraint_bytes,
                                 .text_bytes = request->constraint_bytes,
                                 .answer_index = used->constraint_tokens,
                                 .answer_count = answer_count,
                                 .stop_index = used->constraint_tokens + answer_count,
                                 .stop_count = stop_count,
                                 .slot = (uint32_t)(request - unit->requests),
                                 .account = request->account};
    memcpy(tokens, request->tokens + request->prompt_count, answer_count * sizeof *tokens);
    memcpy(tokens + answer_count, request->stop_tokens, stop_count * sizeof *tokens);
    memcpy(step_plan_constraint_texts(plan) + used->constraint_bytes, request->constraint,
           request->constraint_bytes);
    used->constraint_tokens += answer_count + stop_count;
    used->constraint_bytes += request->constraint_bytes;
}

/* Requests scores for the prompt tokens of the row that have none yet. The row may repeat tokens
 * from before an interruption. */
static void plan_put_scores(struct step_row *row, const struct unit_request *request) {
    uint32_t end = row->first_position + row->token_count;
    bool ends = end >= request->prompt_count;
    uint32_t scored_end = ends ? request->prompt_count : end + 1;
    if (!state_request_scores(request) || scored_end <= request->scored_count) return;
    check(row->first_position < request->scored_count); /* no token is skipped */
    row->next_token = ends ? STEP_NO_TOKEN : request->tokens[end];
    row->scored_count = scored_end - request->scored_count;
}

/* Where a plan's next row is written. */
struct row_place {
    struct step_row *row;
    uint32_t *tokens;
    struct page_id *pages;
    uint32_t tokens_used, pages_used;
    struct extras used;
};

static void put_row_tokens(const struct row_place *place, struct unit_request *request,
                           uint32_t first, uint32_t count) {
    request_fill_tokens(request);
    memcpy(place->tokens + place->tokens_used, request->tokens + first,
           count * sizeof *request->tokens);
}

/* Writes one row after the previous ones. */
static void put_row(struct unit *unit, struct step_plan *plan, uint32_t index,
                    const struct schedule_choice *choice, struct row_place *place) {
    const struct schedule_item *item = &unit->scratch.items[choice->item];
    struct unit_request *request = &unit->requests[item->slot];
    struct step_row *row = place->row++;
    uint32_t token_count = choice->token_count, first = request->computed_count;
    bool samples = row_samples(request, token_count);
    uint32_t page_count = row_page_count(request, token_count + item->draft_tokens);
    uint32_t first_page = first_reported(request, page_count);
    check(first >= request->shared_count * KV_BLOCK_TOKENS); /* shared pages are read-only */
    check(page_count <= request->page_count);
    /* Sets all fields: zeroing the row first makes planning a tenth slower. */
    *row = (struct step_row){.slot = item->slot,
                             .form = item->generated ? TOKEN_GENERATED : TOKEN_PROMPT,
                             .first_position = first,
                             .token_count = token_count,
                             .token_index = place->tokens_used,
                             .page_index = place->pages_used,
                             .page_count = page_count - first_page,
                             .first_page = first_page,
                             .logits_count = samples,
                             .sample = samples,
                             .output_position = request->output_count,
                             .history_index = samples ? place->used.history : 0,
                             .history_count = 0,
                             .history_prompt_count = 0,
                             .bias_index = samples ? place->used.biases : 0,
                             .bias_count = 0,
                             .scored_count = 0,
                             .next_token = 0,
                             .draft_count = item->draft_tokens,
                             .fresh = request->fresh,
                             .loads = request->kv_offload && kv_offload_is_loading(request),
                             .constrained = request->constraint_bytes > 0,
                             .sampling = request->sampling};
    if (token_count == 1 && samples)
        place->tokens[place->tokens_used] = request->last_token;
    else
        put_row_tokens(place, request, first, token_count);
    if (row->page_count)
        memcpy(place->pages + place->pages_used, request->pages + first_page,
               row->page_count * sizeof *request->pages);
    place->pages_used += row->page_count;
    request->reported_count = page_count;
    place->tokens_used += token_count;
    plan_put_scores(row, request);
    if (samples) put_extras(plan, row, request, &place->used);
    if (brings_constraint(request)) put_constraint(unit, plan, index, request, &place->used);
    request->in_step = true;
    request->fresh = false;
    request->row_tokens = token_count;
    unit->step_slots[index] = item->slot;
}

static void plan_add_work(struct step_work *work, const struct schedule_item *item,
                          uint32_t token_count) {
    work->drafts += item->draft_tokens;
    if (item->phase == SCHEDULE_DECODE) {
        work->answer_rows++;
        work->drafts += token_count - 1;
    } else {
        step_cost_work_add(work, item->computed_tokens, token_count);
    }
}

/* The work of the first row_count choices, which are the rows of the step. */
static struct step_work plan_work_of(const struct unit *unit, uint32_t row_count) {
    struct step_work work = {0};
    for (uint32_t i = 0; i < row_count; i++) {
        const struct schedule_choice *choice = &unit->scratch.choices[i];
        plan_add_work(&work, &unit->scratch.items[choice->item], choice->token_count);
    }
    return work;
}

/* Prefetches the data that the request's row will copy. */
static void prefetch_row(const struct unit_request *request) {
    const char *end = (const char *)(request->pages + request->page_count);
    const char *reported =
        (const char *)(request->pages + first_reported(request, request->page_count));
    for (const char *at = reported; at < end; at += 64)
        __builtin_prefetch(at);
}

/* The totals of a plan's rows. */
struct plan_sum {
    struct step_work work;
    struct extras extras;
    struct binding_asks asks;
    uint32_t tokens, drafts, pages;
    bool pushes;
};

static struct plan_sum plan_sum_rows(const struct unit *unit, uint32_t row_count) {
    const struct schedule_item *items = unit->scratch.items;
    struct plan_sum sum = {0};
    for (uint32_t i = 0; i < row_count; i++) {
        const struct schedule_choice *choice = &unit->scratch.choices[i];
        const struct schedule_item *item = &items[choice->item];
        const struct unit_request *request = &unit->requests[item->slot];
        uint32_t pages = row_page_count(request, choice->token_count + item->draft_tokens);
        sum.tokens += choice->token_count;
        sum.drafts += item->draft_tokens;
        sum.pages += pages - first_reported(request, pages);
        sum.pushes |= request->pushes;
        plan_add_work(&sum.work, item, choice->token_count);
        plan_add_extras(&sum.extras, request, choice->token_count);
        prefetch_row(request);
    }
    binding_choose(unit, LIMIT_CONSTRAINT_BYTES - sum.extras.constraint_bytes, &sum.asks);
    return sum;
}

static void put_plan(struct unit *unit, uint32_t row_count, const struct plan_sum *sum) {
    uint32_t ahead = sum->asks.count + sum->asks.over_count;
    struct step_plan *plan = machine_outbox_put_bare(
        unit->outbox, RECORD_RUN_STEP,
        &(struct step_plan){.step = ++unit->step,
                            .row_count = row_count,
                            .token_count = sum->tokens,
                            .page_count = sum->pages,
                            .history_count = sum->extras.history,
                            .bias_count = sum->extras.biases,
                            .awaits = row_count == 0,
                            .constraint_count = sum->extras.constraints + ahead,
                            .constraint_token_count = sum->extras.constraint_tokens,
                            .constraint_bytes = sum->extras.constraint_bytes + sum->asks.bytes});
    check(plan);
    struct row_place place = {.row = step_plan_rows(plan),
                              .tokens = step_plan_tokens(plan),
                              .pages = step_plan_pages(plan),
                              .used.constraints = ahead,
                              .used.constraint_bytes = sum->asks.bytes};
    unit->work = sum->work;
    binding_put(unit, plan, &sum->asks);
    for (uint32_t i = 0; i < row_count; i++)
        put_row(unit, plan, i, &unit->scratch.choices[i], &place);
    check(place.tokens_used == sum->tokens && place.pages_used == sum->pages);
    place.used.constraints -= ahead;
    place.used.constraint_bytes -= sum->asks.bytes;
    check(memcmp(&place.used, &sum->extras, sizeof sum->extras) == 0);
    unit->step_in_flight = true;
    unit->step_row_count = row_count;
    unit->drafts = sum->drafts > 0;
    if (row_count == 0) return;
    unit->last_step_rows = row_count;
    unit->last_step_tokens = sum->tokens + sum->drafts;
}

/* The time that prompts may add to the next step. It is 0 until enough is saved for the next
 * portion of the first prompt in turn (schedule_earn), and unlimited if no answer would wait. */
static double earn_prompt_ns(struct unit *unit, uint32_t count, int64_t now_ns) {
    struct step_work answers = {0};
    bool drafts = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct schedule_item *item = &unit->scratch.items[i];
        if (item->phase != SCHEDULE_DECODE) continue;
        answers.answer_rows++;
        answers.drafts += item->draft_tokens + item->row_end - item->computed_tokens - 1;
        drafts |= item->draft_tokens > 0;
    }
    if (answers.answer_rows == 0) {
        unit->prompt_saved_ns = 0;
        return SCHEDULE_UNBOUND;
    }
    double tokens_each = 1 + (drafts ? unit->speculate.right : 0);
    double answers_ns = step_cost_ns(&unit->cost, &answers), first_ns = 0, dearest_ns = 0;
    int64_t waited_ns = 0;
    for (uint32_t i = count; i-- > 0;) {
        const struct schedule_item *item = &unit->scratch.items[unit->scratch.order[i]];
        if (item->phase == SCHEDULE_DECODE || item->unseen) continue;
        uint32_t tokens = schedule_portion(&unit->cost, item, answers_ns);
        first_ns = step_cost_run_ns(&unit->cost, item->computed_tokens, tokens);
        if (first_ns > dearest_ns) dearest_ns = first_ns;
        int64_t since_ns = unit->requests[item->slot].waits_since_ns;
        if (now_ns - since_ns > waited_ns) waited_ns = now_ns - since_ns;
    }
    struct schedule_pace pace = {.target_ns =
                                     (int64_t)((double)unit->options.tpot_target_ns * tokens_each),
                                 .stretch_percent = unit->options.tpot_stretch_percent,
                                 .patience_ns = unit->options.prompt_patience_ns};
    unit->prompt_saved_ns =
        schedule_earn(&pace, unit->prompt_saved_ns, answers_ns, dearest_ns, waited_ns);
    return unit->prompt_saved_ns < first_ns ? 0 : unit->prompt_saved_ns;
}

static void spend_prompt_ns(struct unit *unit, uint32_t row_count) {
    if (unit->prompt_saved_ns == 0) return;
    for (uint32_t i = 0; i < row_count; i++) {
        const struct schedule_item *item = &unit->scratch.items[unit->scratch.choices[i].item];
        if (item->phase != SCHEDULE_DECODE)
            unit->prompt_saved_ns -= step_cost_run_ns(&unit->cost, item->computed_tokens,
                                                      unit->scratch.choices[i].token_count);
    }
    if (unit->prompt_saved_ns < 0) unit->prompt_saved_ns = 0;
}

/* Chooses the rows of the step. Returns their number; they are the first choices. */
static uint32_t choose_rows(struct unit *unit, uint32_t count, int64_t now_ns) {
    choose_drafts(unit, count);
    look_up_waiting(unit, count);
    struct schedule_limits limits = {
        .rows_max =
            unit->options.step_rows_max - unit->counts[UNIT_REQUEST_PARKED] - unit->held_running,
        .tokens_max = unit->options.step_tokens_max,
        .chunk_tokens_max = unit->options.chunk_tokens_max,
        .prompt_tokens_max = level_tokens(unit, count),
        .pages_available = unit->pages.free_count + unit->pages.cached_count,
        .constraint_bytes_max = LIMIT_CONSTRAINT_BYTES,
        .constraint_tokens_max = unit->options.context_tokens_max,
        .cost = &unit->cost,
        .prompt_ns_max = earn_prompt_ns(unit, count, now_ns),
    };
    return schedule_step(unit->scratch.items, count, &limits, unit->scratch.order,
                         unit->scratch.choices);
}

/* True if the request `loading` has a row, and the step may wait for the blocks that are loaded
 * before it. */
static bool may_stay(const struct unit *unit, const struct unit_request *loading,
                     uint32_t row_count) {
    uint32_t row = 0;
    while (row < row_count &&
           &unit->requests[unit->scratch.items[unit->scratch.choices[row].item].slot] != loading)
        row++;
    struct step_work work = plan_work_of(unit, row_count);
    return row < row_count && kv_offload_may_wait(unit, loading, step_cost_ns(&unit->cost, &work));
}

void plan_step(struct unit *unit, int64_t now_ns) {
    unit->plan_wanted = false;
    struct unit_request *loading = NULL;
    uint32_t count = view_requests(unit, now_ns);
    if (grow_answers(unit, count, now_ns)) count = view_requests(unit, now_ns);
    if (unit->counts[UNIT_REQUEST_WAITING] > 0 && kv_offload_load(unit, count, &loading))
        count = view_requests(unit, now_ns);
    double saved_ns = unit->prompt_saved_ns;
    uint32_t row_count = choose_rows(unit, count, now_ns);
    if (loading && !may_stay(unit, loading, row_count)) { /* plan again without it */
        kv_offload_leave_step(unit, loading);
        loading = NULL;
        unit->prompt_saved_ns = saved_ns;
        count = view_requests(unit, now_ns);
        row_count = choose_rows(unit, count, now_ns);
    }
    /* At least one row was chosen. A running request has a row, or waits for one that has. If
     * nothing runs, a waiting request starts, unless its pages are held by parked requests, by
     * requests that wait for masks, or by blocks that are being copied. */
    check(row_count > 0 || count == 0 || unit->held_running > 0 ||
          unit_parked_count(unit) + unit->kv_offload.keeping_count > 0);
    if (row_count == 0 && unit->held_count + unit->unasked_count == 0) return;
    spend_prompt_ns(unit, row_count);
    start_requests(unit, row_count, now_ns);
    struct plan_sum sum = plan_sum_rows(unit, row_count);
    put_plan(unit, row_count, &sum);
    if (loading) account_begins(loading, now_ns);
    for (uint32_t i = 0; i < row_count && sum.pushes; i++)
        if (unit->requests[unit->step_slots[i]].pushes)
            handoff_push(unit, &unit->requests[unit->step_slots[i]]);
}

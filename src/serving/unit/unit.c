/* SPDX-License-Identifier: Apache-2.0
 * The life of a request in the unit: SUBMIT -> waiting -> (pages allocated) prefill -> decode ->
 * end. It may return from prefill or decode to waiting when pages run out (serving/unit/plan.c),
 * and it may be parked while its KV blocks are transferred (serving/unit/handoff.c). Requests of a
 * step in flight are not changed, because the engine still writes to their pages: a cancellation is
 * recorded, and takes effect when the step is done. serving/unit/pages.c manages the pages. A
 * request always leaves through serving/unit/unit_request.c.
 */
#include "serving/unit/unit.h"

#include "base/check.h"
#include "base/number.h"
#include "contract/kv_block.h"
#include "serving/policy/balance/balance.h"
#include "serving/unit/account.h"
#include "serving/unit/arrival.h"
#include "serving/unit/binding.h"
#include "serving/unit/handoff.h"
#include "serving/unit/kv_offload.h"
#include "serving/unit/pages.h"
#include "serving/unit/plan.h"
#include "serving/unit/state.h"
#include "serving/unit/unit_request.h"

/* ---- creation ---- */

/* The size in bytes of the scores of a step's tokens, in records that each have a limited number of
 * tokens of one row. */
static size_t scores_bytes_max(const struct unit_options *options) {
    size_t records = options->step_tokens_max / SCORES_TOKENS_MAX + options->step_rows_max;
    return records * record_bytes(RECORD_SCORES, NULL) +
           options->step_tokens_max * TOKEN_LOGPROBS_MAX * sizeof(struct token_logprob);
}

/* The maximum output of one STEP_DONE in bytes: scores, tokens and an end for each row. */
static size_t reaction_bytes(const struct unit_options *options) {
    struct record_tokens tokens = {
        .token_count = STEP_ROW_TOKENS, .logprobs_each = TOKEN_LOGPROBS_MAX, .work_count = 1};
    size_t row = record_bytes(RECORD_TOKENS, &tokens) + record_bytes(RECORD_FINISHED, NULL);
    return options->step_rows_max * (row + handoff_bytes_max(options)) + scores_bytes_max(options) +
           kv_offload_step_bytes_max(options);
}

static size_t outbox_bytes_min(const struct unit_options *options) {
    size_t step = plan_bytes_max(options) + kv_offload_plan_bytes_max(options) +
                  handoff_give_up_bytes_max() +
                  options->step_rows_max * handoff_plan_bytes_max(options);
    size_t reaction = reaction_bytes(options);
    return round_up(step > reaction ? step : reaction, 16);
}

/* True if the outbox has space for the next plan. A step without constraints needs less. */
static bool has_step_room(const struct unit *unit) {
    size_t bytes = outbox_bytes_min(&unit->options);
    if (unit_can_put(unit, bytes)) return true;
    return unit_can_put(unit, bytes - LIMIT_CONSTRAINT_BYTES) && !plan_brings_constraints(unit);
}

size_t unit_outbox_bytes(const struct unit_options *options) {
    return options->outbox_bytes ? options->outbox_bytes / 16 * 16 : outbox_bytes_min(options);
}

size_t unit_memory_bytes(const struct unit_options *options) {
    size_t per_request = sizeof(struct unit_request) + 3 * sizeof(uint32_t);
    return sizeof(struct unit) + page_table_bytes(options->page_count) +
           prefix_tree_bytes(options->page_count, options->reuse_generated) +
           map_bytes(options->requests_max) + options->requests_max * per_request +
           options->step_rows_max * sizeof(uint32_t) + 256 + ARENA_LINE_BYTES;
}

size_t unit_scratch_bytes(const struct unit_options *options) {
    size_t per_request = sizeof(struct schedule_item) + sizeof(struct schedule_choice) +
                         sizeof(uint32_t) + sizeof(struct decode_running);
    return options->requests_max * per_request +
           options->page_count * sizeof(struct evict_candidate) + 128;
}

enum status unit_scratch_open(struct arena *arena, const struct unit_options *options,
                              struct unit_scratch *scratch_out) {
    uint32_t requests = options->requests_max;
    *scratch_out = (struct unit_scratch){
        .items = arena_take(arena, requests * sizeof *scratch_out->items),
        .choices = arena_take(arena, requests * sizeof *scratch_out->choices),
        .order = arena_take(arena, requests * sizeof *scratch_out->order),
        .leavers = arena_take(arena, requests * sizeof *scratch_out->leavers),
        .candidates = arena_take(arena, options->page_count * sizeof *scratch_out->candidates)};
    return scratch_out->items && scratch_out->choices && scratch_out->order &&
                   scratch_out->leavers && scratch_out->candidates
               ? STATUS_OK
               : STATUS_NO_MEMORY;
}

static enum status unit_out_of_range(struct error *error, const char *name, uint64_t value,
                                     uint64_t low, uint64_t high) {
    return error_set(error, STATUS_INVALID, "unit: %s is %llu, must be %llu to %llu", name,
                     (unsigned long long)value, (unsigned long long)low, (unsigned long long)high);
}

static enum status unit_options_check(const struct unit_options *o, struct error *error) {
    const struct {
        const char *name;
        uint64_t value, low, high;
    } ranges[] = {
        {"requests_max", o->requests_max, 1, LIMIT_UNIT_REQUESTS},
        {"page_count", o->page_count, 1, UINT32_MAX / KV_BLOCK_TOKENS},
        {"context_tokens_max", o->context_tokens_max, 2, LIMIT_CONTEXT},
        {"step_rows_max", o->step_rows_max, 1, LIMIT_STEP_ROWS},
        {"step_tokens_max", o->step_tokens_max, (uint64_t)o->step_rows_max + KV_BLOCK_TOKENS,
         LIMIT_STEP_TOKENS},
        {"chunk_tokens_max", o->chunk_tokens_max ? o->chunk_tokens_max : KV_BLOCK_TOKENS,
         KV_BLOCK_TOKENS, UINT32_MAX},
        {"vocab_count", o->vocab_count, 1, LIMIT_VOCAB},
        {"tpot_stretch_percent", o->tpot_stretch_percent ? o->tpot_stretch_percent : 100, 100,
         UINT32_MAX},
        {"evict_rule", o->evict_rule, 0, EVICT_RULE_COUNT - 1},
        {"speculate", o->speculate, 0, SPECULATE_MODE_COUNT - 1},
        {"role", o->role, 0, UNIT_ROLE_COUNT - 1},
        {"rank_balance", o->rank_balance, 0, BALANCE_METHOD_COUNT - 1},
        {"kv_choice", o->kv_choice, 0, KV_CHOICE_COUNT - 1},
        {"page_bytes", o->kv_storage ? o->page_bytes : 1, 1, UINT64_MAX},
        {"outbox_bytes", unit_outbox_bytes(o), outbox_bytes_min(o), RECORD_BYTES_MAX},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ranges); i++)
        if (ranges[i].value < ranges[i].low || ranges[i].value > ranges[i].high)
            return unit_out_of_range(error, ranges[i].name, ranges[i].value, ranges[i].low,
                                     ranges[i].high);
    return STATUS_OK;
}

static enum status unit_take_tables(struct unit *unit, struct arena *arena) {
    const struct unit_options *o = &unit->options;
    unit->requests = arena_take_lines(arena, o->requests_max * sizeof *unit->requests);
    unit->free_slots = arena_take(arena, o->requests_max * sizeof *unit->free_slots);
    unit->step_slots = arena_take(arena, o->step_rows_max * sizeof *unit->step_slots);
    unit->line = arena_take(arena, o->requests_max * sizeof *unit->line);
    unit->over_slots = arena_take(arena, o->requests_max * sizeof *unit->over_slots);
    if (!unit->requests || !unit->free_slots || !unit->step_slots || !unit->line ||
        !unit->over_slots)
        return STATUS_NO_MEMORY;
    unit_request_open_all(unit);
    enum status status = map_open(&unit->slots, arena, o->requests_max);
    if (!status) status = prefix_tree_open(&unit->tree, arena, o->page_count, o->reuse_generated);
    return status ? status : page_table_open(&unit->pages, arena, o->page_count, &unit->tree);
}

enum status unit_create(struct arena *arena, const struct unit_options *options,
                        const struct unit_shared *shared, struct unit **unit_out,
                        struct error *error) {
    enum status status = unit_options_check(options, error);
    if (status) return status;
    struct unit *unit = arena_take_zeroed(arena, sizeof *unit);
    if (!unit) return error_set(error, STATUS_NO_MEMORY, "unit: not enough memory");
    unit->options = *options;
    unit->outbox = shared->outbox;
    unit->prompts = shared->prompts;
    unit->scratch = shared->scratch;
    unit->token_bytes = record_bytes(RECORD_TOKENS, &(struct record_tokens){.token_count = 1});
    unit->give_up_ns = MACHINE_NEVER;
    unit->kv_offload.answer_by_ns = MACHINE_NEVER;
    if (!unit->options.chunk_tokens_max) unit->options.chunk_tokens_max = UINT32_MAX;
    if (!unit->options.tpot_stretch_percent) unit->options.tpot_stretch_percent = 150;
    if (!unit->options.prompt_patience_ns) unit->options.prompt_patience_ns = 1000000000;
    if (!unit->options.priority_ns) unit->options.priority_ns = 10000000000;
    memcpy(unit->model_id, options->model_id, sizeof unit->model_id);
    size_t id_bytes = strlen(options->numerics_id);
    if (id_bytes >= sizeof unit->numerics_id) id_bytes = sizeof unit->numerics_id - 1;
    memcpy(unit->numerics_id, options->numerics_id, id_bytes);
    if (options->pids) unit->pid = options->pids[0];
    if (options->kv_addresses)
        memcpy(unit->kv_address, options->kv_addresses[0], sizeof unit->kv_address);
    unit->options.pids = NULL;
    unit->options.kv_addresses = NULL;
    unit->options.model_id = unit->model_id;
    unit->options.numerics_id = unit->numerics_id;
    if (unit_take_tables(unit, arena))
        return error_set(error, STATUS_NO_MEMORY, "unit: %zu bytes of memory are not enough",
                         unit_memory_bytes(options));
    *unit_out = unit;
    return STATUS_OK;
}

/* ---- a request's beginning and end ---- */

static void put_refused(struct unit *unit, const struct record_submit *submit, enum admit refusal) {
    struct record_finished *finished = unit_put(unit, RECORD_FINISHED, NULL);
    finished->request = submit->request;
    finished->reason = admit_finish_reason(refusal);
    finished->work.prompt_miss_tokens = submit->prompt_count;
    finished->work.queue_ns = -1;
}

static struct unit_capacity capacity_of(const struct unit *unit) {
    return (struct unit_capacity){
        .context_tokens_max = unit->options.context_tokens_max,
        .page_count = unit->pages.page_count,
        .pages_available = unit->pages.free_count + unit->pages.cached_count,
        .requests_max = unit->options.requests_max,
        .requests_held = unit_held_count(unit),
        .rows_max = unit->options.step_rows_max,
        .rows_running = unit_running_count(unit) + unit->counts[UNIT_REQUEST_PARKED],
        .waits = unit->counts[UNIT_REQUEST_WAITING] > binding_held_waiting(unit),
        .draining = unit->abandoned,
    };
}

/* The pages by which a request, running or not, is expected to grow. */
static uint32_t pages_expected(const struct unit_request *request,
                               const struct predict_length *lengths) {
    uint32_t left = request->tokens_here_max - request->output_count;
    return predict_length_left(lengths, request->output_count, left) / KV_BLOCK_TOKENS;
}

/* ---- moving a request to another rank ---- */

/* The number of pages that are missing for the next tokens of the answers. An answer needs at most
 * one: it has the pages of all earlier tokens, and a step adds fewer tokens than a page holds. */
static uint32_t pages_short(const struct unit *unit) {
    uint64_t wanted = 0, available = unit->pages.free_count + unit->pages.cached_count;
    if (available >= unit_running_count(unit)) return 0; /* the usual case: no request is read */
    for (uint32_t slot = 0; slot < unit->slot_end; slot++) {
        const struct unit_request *request = &unit->requests[slot];
        uint32_t pages = (uint32_t)divide_up(request_known(request), KV_BLOCK_TOKENS);
        if (request_runs(request) && pages > request->page_count)
            wanted += pages - request->page_count;
    }
    return wanted > available ? (uint32_t)(wanted - available) : 0;
}

bool unit_relieve(const struct unit *unit, const struct predict_length *lengths,
                  struct unit_leaver *leaver_out) {
    uint32_t wanted = unit->abandoned ? 0 : pages_short(unit);
    if (wanted == 0) return false;
    for (uint32_t slot = 0; slot < unit->slot_end; slot++) {
        const struct unit_request *request = &unit->requests[slot];
        uint32_t pages = arrival_may_move(request) ? request->page_count : 0;
        unit->scratch.leavers[slot] = (struct decode_running){pages, request->turn};
    }
    uint32_t slot = balance_decode_relieve(unit->scratch.leavers, unit->slot_end, wanted);
    const struct unit_request *request = &unit->requests[slot];
    if (unit->scratch.leavers[slot].pages == 0) return false; /* no request may move */
    *leaver_out = (struct unit_leaver){
        .request = request->id,
        .page_count = (uint32_t)admit_start_pages(request_need(request), request_known(request)),
        .pages_expected = pages_expected(request, lengths)};
    return true;
}

/* The maximum output in bytes for a record about one request. */
static size_t answer_bytes(const struct unit_options *options) {
    return record_bytes(RECORD_FINISHED, NULL) + handoff_bytes_max(options) +
           kv_offload_submit_bytes_max(options);
}

static enum status unit_receive_submit(struct unit *unit, const struct record_submit *submit,
                                       int64_t now_ns) {
    if (!unit_can_put(unit, answer_bytes(&unit->options))) return STATUS_FULL;
    if (unit_request_of(unit, submit->request)) return STATUS_OK; /* a repeat */
    struct unit_capacity capacity = capacity_of(unit);
    bool load_changed = unit->load_changed;
    enum admit admit = admit_arrival(admit_need_of(submit), &capacity);
    if (submit->task == SUBMIT_RESERVE && admit == ADMIT_WAIT_TURN) admit = ADMIT_REFUSE_QUEUE;
    if (!admit_refuses(admit) && !arrival_begin(unit, submit, now_ns)) admit = ADMIT_REFUSE_QUEUE;
    if (admit_refuses(admit)) {
        put_refused(unit, submit, admit);
    } else if (submit->task == SUBMIT_RESERVE) {
        struct unit_request *request = unit_request_of(unit, submit->request);
        if (handoff_reserve(unit, request)) return STATUS_OK;
        unit_request_end(unit, request, FINISH_REFUSED_QUEUE);
        unit->load_changed = load_changed; /* it entered and left: the report is unchanged */
    } else {
        kv_offload_ask(unit, unit_request_of(unit, submit->request));
    }
    return STATUS_OK;
}

static enum status receive_cancel(struct unit *unit, const struct record_cancel *cancel) {
    if (!unit_can_put(unit, answer_bytes(&unit->options))) return STATUS_FULL;
    struct unit_request *request = unit_request_of(unit, cancel->request);
    if (!request) return STATUS_OK; /* already ended */
    if (request->in_step || kv_offload_is_loading(request))
        request->cancelled = true;
    else
        handoff_leave(unit, request, FINISH_CANCELLED);
    unit->plan_wanted = true; /* free pages may let a waiting request start */
    return STATUS_OK;
}

static enum status receive_continue(struct unit *unit, const struct record_continue *record,
                                    int64_t now_ns) {
    if (!unit_can_put(unit, answer_bytes(&unit->options))) return STATUS_FULL;
    struct unit_request *request = unit_request_of(unit, record->request);
    if (request) handoff_continue(unit, request, record, now_ns);
    return STATUS_OK;
}

static enum status receive_kv_done(struct unit *unit, const struct record_kv_done *record,
                                   int64_t now_ns) {
    if (!unit_can_put(unit, answer_bytes(&unit->options))) return STATUS_FULL;
    struct unit_request *request = unit_request_of(unit, record->request);
    check(request); /* a request stays until its transfer ends */
    handoff_done(unit, request, record, now_ns);
    return STATUS_OK;
}

static enum status receive_kv_found(struct unit *unit, const struct record_kv_found *record,
                                    int64_t now_ns) {
    struct unit_request *request = unit_request_of(unit, record->request);
    if (request) kv_offload_found(unit, request, record, now_ns);
    return STATUS_OK;
}

static enum status receive_kv_loaded(struct unit *unit, const struct record_kv_loaded *record,
                                     int64_t now_ns) {
    if (!unit_can_put(unit, answer_bytes(&unit->options))) return STATUS_FULL;
    struct unit_request *request = unit_request_of(unit, record->request);
    check(request); /* a request stays while its pages are being written */
    kv_offload_loaded(unit, request, record, now_ns);
    if (request->cancelled && !request->in_step) handoff_leave(unit, request, FINISH_CANCELLED);
    return STATUS_OK;
}

/* ---- the result of a step ---- */

static bool is_stop_token(const struct unit_request *request, uint32_t token) {
    for (uint32_t i = 0; i < request->stop_token_count; i++)
        if (request->stop_tokens[i] == token) return true;
    return false;
}

/* The number of the row's tokens that have KV rows: accepted drafts. */
static uint32_t drafts_right(const struct step_result_row *row) {
    return row->token_count ? row->token_count - 1 - row->forced_count : 0;
}

/* The number of chosen and forced tokens that belong to the answer, or to the part of it that is
 * generated here. It may end before the last of them. */
static uint32_t count_wanted(const struct unit_request *request,
                             const struct step_result_row *row) {
    uint32_t left = request->tokens_here_max - request->output_count;
    uint32_t most = row->token_count < left ? row->token_count : left;
    for (uint32_t i = 0; i < most; i++)
        if (is_stop_token(request, row->tokens[i])) return i + 1;
    return most;
}

/* Begins a TOKENS record, without its tokens. It is written in place, field by field. These
 * records, one per row, are most of the cost of processing results, and copying a new one would
 * wait for its stores. */
static struct record_tokens *begin_tokens(struct unit *unit, struct unit_request *request,
                                          uint32_t count, uint32_t each) {
    struct record_tokens counts = {
        .token_count = count, .logprobs_each = each, .work_count = !request->work_reported};
    bool plain = count == 1 && each == 0 && request->work_reported;
    size_t bytes = plain ? unit->token_bytes : record_bytes(RECORD_TOKENS, &counts);
    struct record_tokens *tokens = machine_outbox_put_head(unit->outbox, RECORD_TOKENS, bytes);
    check(tokens); /* the outbox had space */
    tokens->request = request->id;
    tokens->first_output_position = request->output_count;
    tokens->token_count = count;
    tokens->logprobs_each = each;
    tokens->work_count = counts.work_count;
    for (size_t at = sizeof *tokens; at < bytes; at += 8)
        memset((char *)tokens + at, 0, 8);
    if (counts.work_count) account_report(request, tokens_work(tokens));
    request->work_reported = true;
    return tokens;
}

static void unit_put_tokens(struct unit *unit, struct unit_request *request,
                            const struct step_result *result, const struct step_result_row *row,
                            int64_t now_ns) {
    uint32_t count = count_wanted(request, row), each = row->logprobs_each;
    if (request->output_count == request->resumed_count)
        request_work(request)->prefill_ns = now_ns - request->began_ns;
    uint32_t *chosen = tokens_chosen(begin_tokens(unit, request, count, each));
    if (each)
        memcpy(chosen + round_up(count, 2), step_result_logprobs(result) + row->logprob_index,
               (size_t)count * each * sizeof(struct token_logprob));
    for (uint32_t i = 0; i < count; i++) {
        check(row->tokens[i] < unit->options.vocab_count);
        chosen[i] = row->tokens[i];
        request_add_token(request, row->tokens[i]);
    }
    unit->totals.output_tokens += count;
}

static void unit_put_scores(struct unit *unit, struct unit_request *request,
                            const struct step_result *result, const struct step_result_row *row) {
    uint32_t each = row->logprobs_each, end = request->scored_count + row->scored_count;
    if (row->scored_count == 0) return;
    const struct token_logprob *logprobs = step_result_logprobs(result) + row->score_index;
    check(end <= request->prompt_count);
    while (request->scored_count < end) {
        uint32_t left = end - request->scored_count;
        uint32_t count = left < SCORES_TOKENS_MAX ? left : SCORES_TOKENS_MAX;
        struct record_scores *scores =
            unit_put(unit, RECORD_SCORES,
                     &(struct record_scores){.request = request->id,
                                             .first_position = request->scored_count,
                                             .token_count = count,
                                             .logprobs_each = each});
        memcpy(scores_logprobs(scores), logprobs, (size_t)count * each * sizeof *logprobs);
        logprobs += (size_t)count * each;
        request->scored_count += count;
    }
}

/* Counts the tokens before `end` as computed. */
static void tokens_count(struct unit *unit, struct unit_request *request, uint32_t end) {
    uint32_t computed = request->work.computed_tokens, again = request->work.recomputed_tokens;
    account_obtained(request, ACCOUNT_COMPUTED, request->computed_count, end);
    unit->totals.prompt_tokens += request->work.computed_tokens - computed;
    unit->totals.recomputed_tokens += request->work.recomputed_tokens - again;
}

static void tokens_computed(struct unit *unit, struct unit_request *request, uint32_t count) {
    uint32_t end = request->computed_count + count, blocks = end / KV_BLOCK_TOKENS;
    uint32_t known_blocks = request->shared_count;
    tokens_count(unit, request, end);
    request->computed_count = end;
    if (blocks <= known_blocks) return;
    pages_share(unit, request);
    kv_offload_put(unit, request, known_blocks);
}

/* Reports the progress of a prompt that needs more steps, at most once in PROGRESS_NS. A resumed
 * answer is computed behind its prompt, and is no longer part of the progress. An interrupted
 * answer computes its prompt again unreported. */
static void unit_put_progress(struct unit *unit, struct unit_request *request, int64_t now_ns) {
    if (request->output_count > request->resumed_count ||
        request->computed_count >= request->prompt_count)
        return;
    if (now_ns - request->progress_ns < PROGRESS_NS) return;
    request->progress_ns = now_ns;
    unit_put(unit, RECORD_PROGRESS,
             &(struct record_progress){
                 .request = request->id,
                 .ready_tokens = request->computed_count,
                 .cached_tokens = min_u32(request->work.prompt_hit_tokens, request->computed_count),
                 .prefill_ns = now_ns - request->began_ns});
}

/* Handles a row that chose no token. If only its mask was late, its computation counts: whole
 * blocks stay, and the rest is computed again. If a rank died before it received the constraint,
 * the constraint is sent again. */
static void row_lost(struct unit *unit, struct unit_request *request,
                     const struct step_result *result, const struct step_result_row *row) {
    uint32_t end = request->computed_count + request->row_tokens;
    uint32_t whole_end = (end - 1) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
    bool keeps = row->late && !request->pushes && !state_request_scores(request);
    if (request->constraint_bytes && !binding_is_taken(unit, result)) request->fresh = true;
    if (keeps && whole_end > request->computed_count)
        tokens_computed(unit, request, whole_end - request->computed_count);
    if (row->late) tokens_count(unit, request, end);
    if (request->cancelled) handoff_leave(unit, request, FINISH_CANCELLED);
}

static void row_done(struct unit *unit, struct unit_request *request,
                     const struct step_result *result, const struct step_result_row *row,
                     int64_t now_ns) {
    uint32_t right = drafts_right(row);
    if (row->late) binding_late(unit, request, now_ns);
    if (kv_offload_is_loading(request) && !kv_offload_step_done(unit, request, row)) {
        if (request->cancelled && !kv_offload_is_loading(request))
            handoff_leave(unit, request, FINISH_CANCELLED);
        return;
    }
    if (row->lost) {
        row_lost(unit, request, result, row);
        return;
    }
    if (row->draft_count) account_drafted(request, row->draft_count, right);
    unit->totals.drafts += row->draft_count;
    unit->totals.drafts_right += right;
    tokens_computed(unit, request, request->row_tokens);
    if (request->pushes) handoff_made(unit, request);
    if (request->cancelled) {
        handoff_leave(unit, request, FINISH_CANCELLED);
        return;
    }
    unit_put_scores(unit, request, result, row);
    if (request->computed_count < request_known(request)) {
        unit_put_progress(unit, request, now_ns);
        return;
    }
    check(!state_request_scores(request));
    if (row->stuck) {
        handoff_leave(unit, request, FINISH_LENGTH);
        return;
    }
    check(row->token_count > 0);
    unit_request_answer(unit, request);
    unit_put_tokens(unit, request, result, row, now_ns);
    if (is_stop_token(request, request->last_token))
        handoff_leave(unit, request, FINISH_STOP_TOKEN);
    else if (request->output_count == request->new_tokens_max)
        handoff_leave(unit, request, FINISH_LENGTH);
    else if (request->output_count == request->tokens_here_max)
        handoff_pass_on(unit, request);
    else if (right)
        tokens_computed(unit, request, right);
}

void unit_load(const struct unit *unit, struct record_unit_load *load,
               struct unit_rank_load *rank) {
    uint32_t held = binding_held_waiting(unit); /* these wait for the rank, not for a turn */
    *load = (struct record_unit_load){
        .requests_waiting = unit->counts[UNIT_REQUEST_WAITING] - held,
        .requests_running = unit_running_count(unit) + held,
        .pages_free = unit->pages.free_count,
        .pages_held = unit->pages.held_count,
        .pages_cached = unit->pages.cached_count,
        .rank_count = 1,
        .last_step_rows = unit->last_step_rows,
        .last_step_tokens = unit->last_step_tokens,
        .last_step_ns = unit->last_step_ns,
        .totals = unit->totals,
        .kv_storage = kv_offload_storage_state(unit),
    };
    check(load->pages_free + load->pages_held + load->pages_cached == unit->options.page_count);
    *rank = (struct unit_rank_load){.requests_waiting = load->requests_waiting,
                                    .requests_running = load->requests_running,
                                    .pages_free = load->pages_free,
                                    .pages_held = load->pages_held,
                                    .pages_cached = load->pages_cached,
                                    .requests_parked = unit_parked_count(unit),
                                    .kv_storage = load->kv_storage};
}

/* Learns from the step's time and results, before its rows are processed. */
static void observe_step(struct unit *unit, const struct step_result *result,
                         const struct step_result_row *rows) {
    uint32_t made = 0, right = 0;
    unit->last_step_ns = result->compute_ns;
    unit->totals.steps++;
    if (result->failed) return;
    for (uint32_t i = 0; i < result->row_count; i++) {
        if (rows[i].lost) continue;
        made += rows[i].draft_count;
        right += drafts_right(&rows[i]);
    }
    int64_t alone_ns = unit->work.prompt_tokens ? 0 : result->compute_ns;
    step_cost_observe(&unit->cost, &unit->work, result->compute_ns);
    speculate_observe(&unit->speculate, unit->work.answer_rows, made, right, alone_ns);
}

/* Prefetches the requests of the rows after row i. */
static void prefetch_rows(const struct unit *unit, uint32_t i, uint32_t row_count) {
    if (i + UNIT_AHEAD < row_count)
        request_prefetch_for_result(&unit->requests[unit->step_slots[i + UNIT_AHEAD]]);
}

static enum status receive_step_done(struct unit *unit, const struct step_result *result,
                                     int64_t now_ns) {
    if (!unit_can_put(unit, reaction_bytes(&unit->options))) return STATUS_FULL;
    check(unit->step_in_flight && result->step == unit->step);
    check(result->failed || result->row_count == unit->step_row_count);
    const struct step_result_row *rows = step_result_rows(result);
    uint32_t row_count = unit->step_row_count;
    unit->step_row_count = 0;
    unit->step_in_flight = false;
    if (row_count) observe_step(unit, result, rows);
    for (uint32_t i = 0; i < row_count; i++) {
        struct unit_request *request = &unit->requests[unit->step_slots[i]];
        prefetch_rows(unit, i, row_count);
        check(request->in_step);
        request->in_step = false;
        if (result->failed) {
            if (kv_offload_is_loading(request)) { /* a load is writing to its pages */
                (void)kv_offload_step_done(unit, request, NULL);
                continue;
            }
            handoff_leave(unit, request, request->cancelled ? FINISH_CANCELLED : FINISH_FAILED);
            continue;
        }
        check(rows[i].slot == unit->step_slots[i]);
        row_done(unit, request, result, &rows[i], now_ns);
    }
    binding_take(unit, result, now_ns);
    unit->plan_wanted = unit_active_count(unit) > 0;
    unit->load_changed |= row_count > 0;
    return STATUS_OK;
}

/* ---- the machine ---- */

void unit_hello(const struct unit *unit, struct record_unit_hello *hello, struct unit_rank *rank) {
    *hello = (struct record_unit_hello){
        .vocab_count = unit->options.vocab_count,
        .context_tokens_max = unit->options.context_tokens_max,
        .page_count = unit->options.page_count,
        .page_tokens = KV_BLOCK_TOKENS,
        .requests_max = unit->options.requests_max,
        .rank_count = 1,
    };
    *rank = (struct unit_rank){
        .pid = unit->pid, .page_count = hello->page_count, .requests_max = hello->requests_max};
    memcpy(rank->kv_address, unit->kv_address, sizeof rank->kv_address);
    memcpy(hello->model_id, unit->model_id, sizeof hello->model_id);
    hello->instance = unit->options.instance;
    memcpy(hello->numerics_id, unit->numerics_id, sizeof hello->numerics_id);
}

static bool has_work(const struct unit *unit) {
    bool ends = unit->abandoned && handoff_may_any_end(unit);
    return ends || (unit->plan_wanted && !unit->abandoned && !unit->step_in_flight);
}

static void unit_step(void *self, int64_t now_ns) {
    struct unit *unit = self;
    if (now_ns >= unit->kv_offload.answer_by_ns) unit->plan_wanted = true;
    if (!has_work(unit) && now_ns < unit->give_up_ns) return;
    if (!has_step_room(unit)) return;
    handoff_give_up(unit, now_ns);
    if (unit->abandoned)
        handoff_end_all(unit, answer_bytes(&unit->options));
    else if (unit->plan_wanted && !unit->step_in_flight)
        plan_step(unit, now_ns);
}

static enum status unit_receive(void *self, const struct record *record, int64_t now_ns) {
    struct unit *unit = self;
    switch ((enum record_kind)record->kind) {
    case RECORD_SUBMIT:
        return unit_receive_submit(unit, (const struct record_submit *)record, now_ns);
    case RECORD_CANCEL:
        return receive_cancel(unit, (const struct record_cancel *)record);
    case RECORD_CONTINUE:
        return receive_continue(unit, (const struct record_continue *)record, now_ns);
    case RECORD_KV_DONE:
        return receive_kv_done(unit, (const struct record_kv_done *)record, now_ns);
    case RECORD_KV_FOUND:
        return receive_kv_found(unit, (const struct record_kv_found *)record, now_ns);
    case RECORD_KV_LOADED:
        return receive_kv_loaded(unit, (const struct record_kv_loaded *)record, now_ns);
    case RECORD_KV_STORED:
        kv_offload_stored(unit, (const struct record_kv_stored *)record);
        return STATUS_OK;
    case RECORD_KV_HELLO:
        memcpy(unit->kv_address, ((const struct record_kv_hello *)record)->address,
               sizeof unit->kv_address);
        return STATUS_OK;
    case RECORD_STEP_DONE:
        return receive_step_done(unit, (const struct step_result *)record, now_ns);
    default:
        check(!"a kind that ranks take");
        return STATUS_INVALID;
    }
}

/* Without work, only a record can create some, unless a transfer or the storage's reply takes too
 * long. */
static int64_t unit_next_wake_ns(const void *self) {
    const struct unit *unit = self;
    if (has_work(unit)) return 0;
    bool plans = !unit->step_in_flight && !unit->abandoned;
    int64_t found_ns = plans ? unit->kv_offload.answer_by_ns : MACHINE_NEVER;
    return found_ns < unit->give_up_ns ? found_ns : unit->give_up_ns;
}

struct machine unit_machine(struct unit *unit) {
    return (struct machine){.self = unit,
                            .outbox = unit->outbox,
                            .receive = unit_receive,
                            .step = unit_step,
                            .next_wake_ns = unit_next_wake_ns};
}

uint32_t unit_request_count(const struct unit *unit) {
    return unit_held_count(unit);
}

/* The number of tokens that a request takes from the next step while others wait. */
static uint32_t step_share(const struct unit *unit, const struct unit_request *request) {
    uint32_t left = request_known(request) - request->computed_count;
    uint32_t share = unit->options.step_tokens_max / 4 * 3;
    if (request->state != UNIT_REQUEST_WAITING && request->state != UNIT_REQUEST_PREFILL) return 0;
    if (binding_holds(request)) return 0;
    return left < share ? left : share;
}

/* The turn of the request that takes the last of `tokens` tokens if requests take theirs in
 * turn. */
static int64_t turn_of_last(const struct unit *unit, uint64_t tokens) {
    int64_t turn = INT64_MIN; /* all turns up to here are counted */
    for (uint64_t taken = 0; taken < tokens;) {
        int64_t next = INT64_MAX;
        uint64_t takes = 0; /* tokens of requests with the turn `next` */
        for (uint32_t slot = 0; slot < unit->slot_end; slot++) {
            const struct unit_request *request = &unit->requests[slot];
            uint32_t share = step_share(unit, request);
            if (share == 0 || request->turn > next || (taken && request->turn <= turn)) continue;
            takes = request->turn < next ? share : takes + share;
            next = request->turn;
        }
        check(takes > 0);
        taken += takes;
        turn = next;
    }
    return turn;
}

struct unit_offer unit_offer(const struct unit *unit, const struct predict_length *lengths) {
    uint32_t most = unit->options.step_tokens_max, answers = 0;
    uint64_t taken = 0, promised = 0;
    struct unit_offer offer = {.requests = unit_held_count(unit),
                               .pages_held = unit->pages.held_count,
                               .rows = unit_active_count(unit) + unit->counts[UNIT_REQUEST_PARKED],
                               .full_turn = INT64_MAX};
    for (uint32_t slot = 0; slot < unit->slot_end; slot++) {
        const struct unit_request *request = &unit->requests[slot];
        unit_prefetch_slot(unit, slot);
        bool waits = request->state == UNIT_REQUEST_WAITING;
        if (request->state == UNIT_REQUEST_FREE || (waits && binding_holds(request))) continue;
        offer.pages_expected += pages_expected(request, lengths);
        answers += request->state == UNIT_REQUEST_DECODE;
        if (waits) promised += admit_start_pages(request_need(request), request_known(request));
        if (request->state != UNIT_REQUEST_WAITING && request->state != UNIT_REQUEST_PREFILL)
            continue;
        offer.tokens_ahead += request_known(request) - request->computed_count;
        taken += step_share(unit, request);
    }
    uint64_t available = unit->pages.free_count + unit->pages.cached_count;
    offer.pages_available = available > promised ? (uint32_t)(available - promised) : 0;
    if (answers + taken >= most)
        offer.full_turn = answers >= most ? INT64_MIN : turn_of_last(unit, most - answers);
    return offer;
}

static void audit_request(const struct unit *unit, uint32_t slot) {
    const struct unit_request *request = &unit->requests[slot];
    check(request->page_count == 0 || request->state > UNIT_REQUEST_WAITING);
    check(request->shared_count * KV_BLOCK_TOKENS <= request->computed_count);
    check((request->constraint_bytes > 0) == (request->constraint != NULL));
    if (request->state == UNIT_REQUEST_DECODE) /* plan.c: only forced tokens may follow it */
        check(request_known(request) - request->computed_count <=
              (request->constraint_bytes ? 1 + LIMIT_FORCED : 1));
    if (request_runs(request)) /* pages_short */
        check(divide_up(request_known(request), KV_BLOCK_TOKENS) <= request->page_count + 1);
    /* the request has the blocks of the prompt, and none for the answer yet */
    uint32_t here = !request_runs(request) && request->state != UNIT_REQUEST_WAITING;
    check(request->computed_count < request_known(request) + here);
    pages_audit_request(unit, request, handoff_sent_count(request));
}

void unit_audit(const struct unit *unit) {
    page_table_audit(&unit->pages);
    pages_audit(unit);
    unit_request_audit(unit);
    binding_audit(unit);
    uint32_t in_step = 0;
    uint64_t leases = 0;
    for (uint32_t slot = 0; slot < unit->slot_end; slot++) {
        const struct unit_request *request = &unit->requests[slot];
        in_step += request->in_step;
        leases += request->page_count + handoff_sent_count(request);
        if (request->state != UNIT_REQUEST_FREE)
            audit_request(unit, slot);
        else
            check(request->arena.chunk_count == 0);
    }
    check(in_step == unit->step_row_count);
    check(leases + unit->kv_offload.keep_leases == unit->pages.leases);
}

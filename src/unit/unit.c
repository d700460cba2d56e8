/* SPDX-License-Identifier: Apache-2.0
 * A request's way through the unit: SUBMIT -> waiting -> (pages reserved) prefill -> decode ->
 * ends. While a step is in flight its requests are not touched: a cancellation is noted and takes
 * effect when the step is done, because the engine still writes to the request's pages. Pages are
 * reserved when a request starts and go back in one place, request_end, whatever the reason.
 */
#include "unit/unit.h"

#include <math.h>

#include "base/check.h"
#include "base/map.h"
#include "cache/page_table.h"
#include "contract/step_plan.h"
#include "policy/schedule.h"
#include "unit/history.h"

enum request_state { REQUEST_FREE, REQUEST_WAITING, REQUEST_PREFILL, REQUEST_DECODE };

struct unit_request {
    struct request_id id;
    uint8_t state; /* enum request_state */
    bool in_step;  /* a row of the step in flight; row_tokens is its length */
    bool cancelled;
    uint32_t row_tokens;
    struct sampling sampling;
    int32_t priority;
    uint32_t prompt_count;
    uint32_t computed_count; /* of the prompt */
    uint32_t new_tokens_max;
    uint32_t output_count;
    uint32_t last_token; /* chosen, not yet computed */
    uint32_t stop_token_count;
    uint32_t stop_tokens[2 * LIMIT_STOP_TOKENS];
    uint32_t bias_count;
    struct token_bias *biases; /* [bias_count] in arena */
    struct history history;    /* empty unless the sampling needs it */
    uint32_t *prompt;          /* [prompt_count] in arena */
    struct page_id *pages;     /* [page_count] in arena, once it has started */
    uint32_t page_count;
    uint64_t arrival;
    int64_t arrived_ns;
    int64_t queue_ns; /* until its first step; -1: it has not begun */
    struct arena arena;
};

struct unit {
    struct unit_options options;
    char numerics_id[32];
    uint8_t model_id[32];
    struct outbox outbox;
    struct page_table pages;
    struct pool pool;
    struct map slots;                /* request id -> slot */
    struct unit_request *requests;   /* [requests_max] */
    uint32_t *free_slots;            /* [requests_max - held] stack */
    uint32_t *step_slots;            /* [step_row_count] of the step in flight, in row order */
    struct schedule_item *items;     /* [requests_max] scratch of one plan */
    struct schedule_choice *choices; /* [requests_max] scratch */
    uint32_t *order;                 /* [requests_max] scratch */
    uint32_t held_count, waiting_count, running_count;
    uint32_t step_row_count; /* of the step in flight; 0: none */
    uint32_t last_step_rows, last_step_tokens;
    int64_t last_step_ns;
    uint64_t step; /* number of the last step planned */
    uint64_t steps_total, prompt_tokens_total, output_tokens_total;
    uint64_t arrivals;
    bool hello_sent, load_changed, plan_wanted, draining;
};

/* ---- creation ------------------------------------------------------------------------------- */

/* What one STEP_DONE may put out at once: a token and an end for each row, and a load report. */
static size_t reaction_bytes(const struct unit_options *options) {
    size_t row = record_tail(tokens_bytes(1, STEP_ROW_LOGPROBS_MAX)) +
                 record_tail(sizeof(struct record_finished));
    return options->step_rows_max * row + sizeof(struct record_unit_load);
}

static size_t plan_bytes_max(const struct unit_options *options) {
    uint32_t context = options->context_tokens_max;
    uint32_t history = context < LIMIT_HISTORY_TOKENS ? context : LIMIT_HISTORY_TOKENS;
    return step_plan_bytes(options->step_rows_max, options->step_tokens_max, options->page_count) +
           step_plan_extra_bytes(options->step_rows_max * history,
                                 options->step_rows_max * LIMIT_ROW_BIASES);
}

static size_t outbox_bytes_min(const struct unit_options *options) {
    size_t step = plan_bytes_max(options) + sizeof(struct record_unit_hello) +
                  sizeof(struct record_unit_load);
    size_t reaction = reaction_bytes(options);
    return round_up(step > reaction ? step : reaction, 16);
}

static size_t outbox_bytes(const struct unit_options *options) {
    return options->outbox_bytes ? options->outbox_bytes / 16 * 16 : outbox_bytes_min(options);
}

/* Default: one chunk for each request and eight full contexts, at most 1 GiB (touched when used).
 */
static size_t prompt_bytes(const struct unit_options *options) {
    size_t context = round_up(options->context_tokens_max * sizeof(uint32_t), POOL_CHUNK_BYTES);
    size_t bytes = options->prompt_bytes;
    if (!bytes) bytes = (options->requests_max + (size_t)2) * POOL_CHUNK_BYTES + 8 * context;
    if (!options->prompt_bytes && bytes > (size_t)1 << 30) bytes = (size_t)1 << 30;
    return round_up(bytes, POOL_CHUNK_BYTES) + POOL_CHUNK_BYTES;
}

size_t unit_memory_bytes(const struct unit_options *options) {
    size_t per_request = sizeof(struct unit_request) + 2 * sizeof(uint32_t) +
                         sizeof(struct schedule_item) + sizeof(struct schedule_choice);
    return sizeof(struct unit) + outbox_bytes(options) + page_table_bytes(options->page_count) +
           prompt_bytes(options) + map_bytes(options->requests_max) +
           options->requests_max * per_request + options->step_rows_max * sizeof(uint32_t) + 256;
}

static enum status out_of_range(struct error *error, const char *name, uint64_t value, uint64_t low,
                                uint64_t high) {
    return error_set(error, STATUS_INVALID, "unit: %s is %llu, must be %llu to %llu", name,
                     (unsigned long long)value, (unsigned long long)low, (unsigned long long)high);
}

static enum status options_check(const struct unit_options *o, struct error *error) {
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
        {"outbox_bytes", outbox_bytes(o), outbox_bytes_min(o), RECORD_BYTES_MAX},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ranges); i++)
        if (ranges[i].value < ranges[i].low || ranges[i].value > ranges[i].high)
            return out_of_range(error, ranges[i].name, ranges[i].value, ranges[i].low,
                                ranges[i].high);
    return STATUS_OK;
}

static enum status take_tables(struct unit *unit, struct arena *arena) {
    const struct unit_options *o = &unit->options;
    size_t pool_bytes = prompt_bytes(o);
    void *pool = arena_take(arena, pool_bytes);
    unit->outbox = (struct outbox){.memory = arena_take(arena, outbox_bytes(o)),
                                   .capacity = (uint32_t)outbox_bytes(o)};
    unit->requests = arena_take_zeroed(arena, o->requests_max * sizeof *unit->requests);
    unit->free_slots = arena_take(arena, o->requests_max * sizeof *unit->free_slots);
    unit->step_slots = arena_take(arena, o->step_rows_max * sizeof *unit->step_slots);
    unit->items = arena_take(arena, o->requests_max * sizeof *unit->items);
    unit->choices = arena_take(arena, o->requests_max * sizeof *unit->choices);
    unit->order = arena_take(arena, o->requests_max * sizeof *unit->order);
    if (!pool || !unit->outbox.memory || !unit->requests || !unit->free_slots ||
        !unit->step_slots || !unit->items || !unit->choices || !unit->order)
        return STATUS_NO_MEMORY;
    pool_open(&unit->pool, pool, pool_bytes);
    for (uint32_t i = 0; i < o->requests_max; i++) {
        unit->free_slots[i] = o->requests_max - 1 - i;
        arena_open(&unit->requests[i].arena, &unit->pool);
    }
    enum status status = map_open(&unit->slots, arena, o->requests_max);
    return status ? status : page_table_open(&unit->pages, arena, o->page_count);
}

enum status unit_create(struct arena *arena, const struct unit_options *options,
                        struct unit **unit_out, struct error *error) {
    enum status status = options_check(options, error);
    if (status) return status;
    struct unit *unit = arena_take_zeroed(arena, sizeof *unit);
    if (!unit) return error_set(error, STATUS_NO_MEMORY, "unit: not enough memory");
    unit->options = *options;
    if (!unit->options.chunk_tokens_max) unit->options.chunk_tokens_max = UINT32_MAX;
    memcpy(unit->model_id, options->model_id, sizeof unit->model_id);
    size_t id_bytes = strlen(options->numerics_id);
    if (id_bytes >= sizeof unit->numerics_id) id_bytes = sizeof unit->numerics_id - 1;
    memcpy(unit->numerics_id, options->numerics_id, id_bytes);
    unit->options.model_id = unit->model_id;
    unit->options.numerics_id = unit->numerics_id;
    if (take_tables(unit, arena))
        return error_set(error, STATUS_NO_MEMORY, "unit: %zu bytes of memory are not enough",
                         unit_memory_bytes(options));
    *unit_out = unit;
    return STATUS_OK;
}

/* ---- a request's beginning and end -------------------------------------------------------- */

static struct map_key key_of(struct request_id id) {
    return (struct map_key){id.high, id.low, id.attempt};
}

static bool can_put(const struct unit *unit, size_t bytes) {
    return outbox_room(&unit->outbox) >= bytes;
}

/* Room has been checked before. */
static void *put(struct unit *unit, enum record_kind kind, size_t bytes) {
    void *record = outbox_put(&unit->outbox, kind, bytes);
    check(record);
    return record;
}

static void put_refused(struct unit *unit, const struct record_submit *submit, enum admit refusal) {
    struct record_finished *finished = put(unit, RECORD_FINISHED, sizeof *finished);
    finished->request = submit->request;
    finished->reason = admit_finish_reason(refusal);
    finished->prompt_miss_tokens = submit->prompt_count;
    finished->queue_ns = -1;
}

static uint32_t slot_of(const struct unit *unit, const struct unit_request *request) {
    return (uint32_t)(request - unit->requests);
}

/* The one place where a request leaves: last word, pages, memory, slot. */
static void request_end(struct unit *unit, struct unit_request *request,
                        enum finish_reason reason) {
    check(request->state != REQUEST_FREE && !request->in_step);
    struct record_finished *finished = put(unit, RECORD_FINISHED, sizeof *finished);
    finished->request = request->id;
    finished->reason = reason;
    finished->prompt_miss_tokens = request->prompt_count;
    finished->output_tokens = request->output_count;
    finished->queue_ns = request->queue_ns;
    if (request->state == REQUEST_WAITING)
        unit->waiting_count--;
    else
        unit->running_count--;
    if (request->page_count)
        page_table_release(&unit->pages, slot_of(unit, request), request->pages,
                           request->page_count);
    map_remove(&unit->slots, key_of(request->id));
    arena_clear(&request->arena);
    struct arena arena = request->arena;
    *request = (struct unit_request){.arena = arena};
    unit->held_count--;
    unit->free_slots[unit->options.requests_max - unit->held_count - 1] = slot_of(unit, request);
    unit->load_changed = true;
}

static struct admit_house house_of(const struct unit *unit) {
    return (struct admit_house){
        .context_tokens_max = unit->options.context_tokens_max,
        .page_count = unit->pages.page_count,
        .pages_free = unit->pages.free_count,
        .requests_max = unit->options.requests_max,
        .requests_held = unit->held_count,
        .rows_max = unit->options.step_rows_max,
        .rows_running = unit->running_count,
        .waits = unit->waiting_count > 0,
        .draining = unit->draining,
    };
}

/* How the request's tokens are to be chosen; false when memory is out. */
static bool take_sampling(struct unit_request *request, const struct record_submit *submit) {
    const char *stops = (const char *)submit + submit_stops_at(submit->prompt_count);
    const char *biases =
        (const char *)submit + submit_biases_at(submit->prompt_count, submit->stop_token_count);
    size_t bias_bytes = submit->bias_count * sizeof *request->biases;
    request->sampling = submit->sampling;
    request->stop_token_count = submit->stop_token_count;
    memcpy(request->stop_tokens, stops, submit->stop_token_count * sizeof *request->stop_tokens);
    if (submit->bias_count) {
        request->biases = arena_take(&request->arena, bias_bytes);
        if (!request->biases) return false;
        memcpy(request->biases, biases, bias_bytes);
        request->bias_count = submit->bias_count;
    }
    if (!sampling_needs_history(&submit->sampling)) return true;
    return history_open(&request->history, &request->arena, record_tail_at(submit, sizeof *submit),
                        submit->prompt_count, submit->new_tokens_max);
}

/* Copies the submission into a free slot; false when the prompts' memory is out. */
static bool request_begin(struct unit *unit, const struct record_submit *submit, int64_t now_ns) {
    uint32_t slot = unit->free_slots[unit->options.requests_max - unit->held_count - 1];
    struct unit_request *request = &unit->requests[slot];
    check(request->state == REQUEST_FREE);
    uint64_t page_count =
        admit_pages((struct admit_need){submit->prompt_count, submit->new_tokens_max});
    size_t prompt_bytes = submit->prompt_count * sizeof(uint32_t);
    request->prompt = arena_take(&request->arena, prompt_bytes);
    request->pages = arena_take(&request->arena, page_count * sizeof *request->pages);
    if (!request->prompt || !request->pages || !take_sampling(request, submit)) {
        struct arena arena = request->arena;
        arena_clear(&arena);
        *request = (struct unit_request){.arena = arena};
        return false;
    }
    const uint32_t *prompt = record_tail_at(submit, sizeof *submit);
    memcpy(request->prompt, prompt, prompt_bytes);
    request->id = submit->request;
    request->state = REQUEST_WAITING;
    request->priority = submit->priority;
    request->prompt_count = submit->prompt_count;
    request->new_tokens_max = submit->new_tokens_max;
    request->arrival = unit->arrivals++;
    request->arrived_ns = now_ns;
    request->queue_ns = -1;
    map_add(&unit->slots, key_of(request->id), slot);
    unit->held_count++;
    unit->waiting_count++;
    unit->load_changed = unit->plan_wanted = true;
    return true;
}

static enum status receive_submit(struct unit *unit, const struct record_submit *submit,
                                  int64_t now_ns) {
    if (!can_put(unit, sizeof(struct record_finished))) return STATUS_FULL;
    if (map_find(&unit->slots, key_of(submit->request)) != MAP_NONE)
        return STATUS_OK; /* a repeat */
    struct admit_house house = house_of(unit);
    enum admit admit =
        admit_arrival((struct admit_need){submit->prompt_count, submit->new_tokens_max}, &house);
    if (!admit_refuses(admit) && !request_begin(unit, submit, now_ns)) admit = ADMIT_REFUSE_QUEUE;
    if (admit_refuses(admit)) put_refused(unit, submit, admit);
    return STATUS_OK;
}

static enum status receive_cancel(struct unit *unit, const struct record_cancel *cancel) {
    if (!can_put(unit, sizeof(struct record_finished))) return STATUS_FULL;
    uint32_t slot = map_find(&unit->slots, key_of(cancel->request));
    if (slot == MAP_NONE) return STATUS_OK; /* it has ended meanwhile */
    struct unit_request *request = &unit->requests[slot];
    if (request->in_step)
        request->cancelled = true;
    else
        request_end(unit, request, FINISH_CANCELLED);
    unit->plan_wanted = true; /* its pages may let a waiting one start */
    return STATUS_OK;
}

/* ---- a step comes back --------------------------------------------------------------------- */

static bool is_stop_token(const struct unit_request *request, uint32_t token) {
    for (uint32_t i = 0; i < request->stop_token_count; i++)
        if (request->stop_tokens[i] == token) return true;
    return false;
}

static void put_token(struct unit *unit, struct unit_request *request, uint32_t token,
                      const struct token_logprob *logprobs, uint32_t logprob_count) {
    check(token < unit->options.vocab_count && logprob_count <= STEP_ROW_LOGPROBS_MAX);
    struct record_tokens *tokens = put(unit, RECORD_TOKENS, tokens_bytes(1, logprob_count));
    tokens->request = request->id;
    tokens->first_output_position = request->output_count;
    tokens->token_count = 1;
    tokens->logprobs_each = logprob_count;
    memcpy(record_tail_at(tokens, sizeof *tokens), &token, sizeof token);
    memcpy((char *)tokens + tokens_logprobs_at(1), logprobs, logprob_count * sizeof *logprobs);
    history_add(&request->history, token);
    request->last_token = token;
    request->output_count++;
    unit->output_tokens_total++;
}

static void row_done(struct unit *unit, struct unit_request *request,
                     const struct step_result *result, const struct step_result_row *row) {
    if (request->state == REQUEST_PREFILL) {
        request->computed_count += request->row_tokens;
        unit->prompt_tokens_total += request->row_tokens;
    }
    if (request->cancelled) {
        request_end(unit, request, FINISH_CANCELLED);
        return;
    }
    if (request->computed_count < request->prompt_count) return;
    request->state = REQUEST_DECODE;
    put_token(unit, request, row->token, step_result_logprobs(result) + row->logprob_index,
              row->logprob_count);
    if (is_stop_token(request, row->token))
        request_end(unit, request, FINISH_STOP_TOKEN);
    else if (request->output_count == request->new_tokens_max)
        request_end(unit, request, FINISH_LENGTH);
}

static void put_load(struct unit *unit) {
    struct record_unit_load *load = put(unit, RECORD_UNIT_LOAD, sizeof *load);
    load->requests_waiting = unit->waiting_count;
    load->requests_running = unit->running_count;
    load->pages_free = unit->pages.free_count;
    load->pages_held = unit->pages.held_count;
    load->last_step_rows = unit->last_step_rows;
    load->last_step_tokens = unit->last_step_tokens;
    load->last_step_ns = unit->last_step_ns;
    load->steps_total = unit->steps_total;
    load->prompt_tokens_total = unit->prompt_tokens_total;
    load->output_tokens_total = unit->output_tokens_total;
    unit->load_changed = false;
}

static enum status receive_step_done(struct unit *unit, const struct step_result *result) {
    if (!can_put(unit, reaction_bytes(&unit->options))) return STATUS_FULL;
    check(unit->step_row_count > 0 && result->step == unit->step);
    check(result->failed || result->row_count == unit->step_row_count);
    const struct step_result_row *rows = record_tail_at(result, sizeof *result);
    uint32_t row_count = unit->step_row_count;
    unit->step_row_count = 0;
    unit->last_step_ns = result->compute_ns;
    unit->steps_total++;
    for (uint32_t i = 0; i < row_count; i++) {
        struct unit_request *request = &unit->requests[unit->step_slots[i]];
        check(request->in_step);
        request->in_step = false;
        if (result->failed) {
            request_end(unit, request, request->cancelled ? FINISH_CANCELLED : FINISH_FAILED);
            continue;
        }
        check(rows[i].slot == unit->step_slots[i]);
        row_done(unit, request, result, &rows[i]);
    }
    unit->plan_wanted = unit->held_count > 0;
    put_load(unit);
    return STATUS_OK;
}

/* ---- a step goes out ------------------------------------------------------------------------ */

static uint32_t view_requests(struct unit *unit) {
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < unit->options.requests_max; slot++) {
        const struct unit_request *request = &unit->requests[slot];
        if (request->state == REQUEST_FREE) continue;
        unit->items[count++] = (struct schedule_item){
            .slot = slot,
            .phase = request->state == REQUEST_WAITING   ? SCHEDULE_WAITING
                     : request->state == REQUEST_PREFILL ? SCHEDULE_PREFILL
                                                         : SCHEDULE_DECODE,
            .priority = request->priority,
            .prompt_tokens = request->prompt_count,
            .computed_tokens = request->computed_count,
            .new_tokens_max = request->new_tokens_max,
            .arrival = request->arrival,
        };
    }
    check(count == unit->held_count);
    return count;
}

static void request_start(struct unit *unit, struct unit_request *request) {
    check(request->state == REQUEST_WAITING);
    request->page_count =
        (uint32_t)admit_pages((struct admit_need){request->prompt_count, request->new_tokens_max});
    bool claimed =
        page_table_claim(&unit->pages, slot_of(unit, request), request->page_count, request->pages);
    check(claimed);
    request->state = REQUEST_PREFILL;
    unit->waiting_count--;
    unit->running_count++;
    unit->load_changed = true;
}

/* Where the row's tokens stand in its sequence. */
static uint32_t row_first_position(const struct unit_request *request) {
    return request->state == REQUEST_DECODE ? request->prompt_count + request->output_count - 1
                                            : request->computed_count;
}

static uint32_t row_page_count(const struct unit_request *request, uint32_t token_count) {
    return (uint32_t)divide_up(row_first_position(request) + token_count, KV_BLOCK_TOKENS);
}

static bool row_samples(const struct unit_request *request, uint32_t token_count) {
    return request->state == REQUEST_DECODE ||
           request->computed_count + token_count == request->prompt_count;
}

struct extras { /* counts, of rows so far or of all */
    uint32_t history, biases;
};

/* Stop tokens that may not be chosen yet. */
static uint32_t mask_count(const struct unit_request *request) {
    bool masks = request->output_count < request->sampling.min_tokens;
    return masks ? request->stop_token_count : 0;
}

/* What a row that samples brings beyond its sampling: past tokens, biases, masked stop tokens. */
static struct extras row_extras(const struct unit_request *request, uint32_t token_count) {
    if (!row_samples(request, token_count)) return (struct extras){0, 0};
    return (struct extras){request->history.count, request->bias_count + mask_count(request)};
}

static void put_extras(struct step_plan *plan, struct step_row *row,
                       const struct unit_request *request, struct extras *used) {
    const struct history *history = &request->history;
    struct token_bias *biases = step_plan_biases(plan) + used->biases;
    row->history_index = used->history;
    row->history_count = history->count;
    row->history_prompt_count = history->prompt_count;
    row->bias_index = used->biases;
    row->bias_count = request->bias_count + mask_count(request);
    if (history->count)
        memcpy(step_plan_history(plan) + used->history, history->tokens,
               history->count * sizeof *history->tokens);
    if (request->bias_count) memcpy(biases, request->biases, request->bias_count * sizeof *biases);
    for (uint32_t i = 0; i < mask_count(request); i++)
        biases[request->bias_count + i] = (struct token_bias){request->stop_tokens[i], -INFINITY};
    used->history += row->history_count;
    used->biases += row->bias_count;
}

/* Writes one row behind those already written (tokens and pages so far); returns its form. */
static void put_row(struct unit *unit, struct step_plan *plan, uint32_t row, uint32_t slot,
                    uint32_t token_count, uint32_t *tokens_used, uint32_t *pages_used,
                    struct extras *extras_used) {
    struct unit_request *request = &unit->requests[slot];
    bool decodes = request->state == REQUEST_DECODE;
    bool samples = row_samples(request, token_count);
    uint32_t page_count = row_page_count(request, token_count);
    step_plan_rows(plan)[row] = (struct step_row){
        .slot = slot,
        .form = decodes ? TOKEN_GENERATED : TOKEN_PROMPT,
        .first_position = row_first_position(request),
        .token_count = token_count,
        .token_index = *tokens_used,
        .page_index = *pages_used,
        .page_count = page_count,
        .logits_count = samples,
        .sample = samples,
        .output_position = request->output_count,
        .sampling = request->sampling,
    };
    const uint32_t *tokens =
        decodes ? &request->last_token : request->prompt + request->computed_count;
    memcpy(step_plan_tokens(plan) + *tokens_used, tokens, token_count * sizeof *tokens);
    memcpy(step_plan_pages(plan) + *pages_used, request->pages,
           page_count * sizeof *request->pages);
    *tokens_used += token_count;
    *pages_used += page_count;
    if (samples) put_extras(plan, &step_plan_rows(plan)[row], request, extras_used);
    request->in_step = true;
    request->row_tokens = token_count;
    unit->step_slots[row] = slot;
}

static void put_plan(struct unit *unit, uint32_t row_count, int64_t now_ns) {
    uint32_t token_count = 0, page_count = 0;
    struct extras extras = {0, 0}, used = {0, 0};
    for (uint32_t i = 0; i < row_count; i++) {
        const struct schedule_choice *choice = &unit->choices[i];
        struct unit_request *request = &unit->requests[unit->items[choice->item].slot];
        if (choice->starts) request_start(unit, request);
        if (request->queue_ns < 0) request->queue_ns = now_ns - request->arrived_ns;
        token_count += choice->token_count;
        page_count += row_page_count(request, choice->token_count);
        extras.history += row_extras(request, choice->token_count).history;
        extras.biases += row_extras(request, choice->token_count).biases;
    }
    struct step_plan *plan = put(unit, RECORD_RUN_STEP,
                                 step_plan_bytes(row_count, token_count, page_count) +
                                     step_plan_extra_bytes(extras.history, extras.biases));
    plan->step = ++unit->step;
    plan->row_count = row_count;
    plan->token_count = token_count;
    plan->page_count = page_count;
    plan->history_count = extras.history;
    plan->bias_count = extras.biases;
    uint32_t tokens_used = 0, pages_used = 0;
    for (uint32_t i = 0; i < row_count; i++)
        put_row(unit, plan, i, unit->items[unit->choices[i].item].slot,
                unit->choices[i].token_count, &tokens_used, &pages_used, &used);
    check(tokens_used == token_count && pages_used == page_count);
    check(used.history == extras.history && used.biases == extras.biases);
    unit->step_row_count = unit->last_step_rows = row_count;
    unit->last_step_tokens = token_count;
}

static void plan_step(struct unit *unit, int64_t now_ns) {
    unit->plan_wanted = false;
    struct schedule_limits limits = {
        .rows_max = unit->options.step_rows_max,
        .tokens_max = unit->options.step_tokens_max,
        .chunk_tokens_max = unit->options.chunk_tokens_max,
        .pages_free = unit->pages.free_count,
    };
    uint32_t row_count = schedule_step(unit->items, view_requests(unit), &limits, now_ns,
                                       unit->order, unit->choices);
    /* A request always fits an empty unit, so an idle step means that somebody else runs: never. */
    check(row_count > 0 || unit->held_count == 0);
    if (row_count) put_plan(unit, row_count, now_ns);
}

/* ---- the machine --------------------------------------------------------------------------- */

static void put_hello(struct unit *unit) {
    struct record_unit_hello *hello = put(unit, RECORD_UNIT_HELLO, sizeof *hello);
    hello->vocab_count = unit->options.vocab_count;
    hello->context_tokens_max = unit->options.context_tokens_max;
    hello->page_count = unit->options.page_count;
    hello->page_tokens = KV_BLOCK_TOKENS;
    hello->requests_max = unit->options.requests_max;
    memcpy(hello->model_id, unit->model_id, sizeof hello->model_id);
    memcpy(hello->numerics_id, unit->numerics_id, sizeof hello->numerics_id);
    unit->hello_sent = true;
    unit->load_changed = true;
}

static bool has_work(const struct unit *unit) {
    return !unit->hello_sent || unit->load_changed ||
           (unit->plan_wanted && unit->step_row_count == 0);
}

static void unit_step(void *self, int64_t now_ns) {
    struct unit *unit = self;
    if (!has_work(unit) || !can_put(unit, outbox_bytes_min(&unit->options))) return;
    if (!unit->hello_sent) put_hello(unit);
    if (unit->plan_wanted && unit->step_row_count == 0) plan_step(unit, now_ns);
    if (unit->load_changed) put_load(unit);
}

static enum status unit_receive(void *self, const struct record *record, int64_t now_ns) {
    struct unit *unit = self;
    switch ((enum record_kind)record->kind) {
    case RECORD_SUBMIT:
        return receive_submit(unit, (const struct record_submit *)record, now_ns);
    case RECORD_CANCEL:
        return receive_cancel(unit, (const struct record_cancel *)record);
    case RECORD_STEP_DONE:
        return receive_step_done(unit, (const struct step_result *)record);
    case RECORD_DRAIN:
        unit->draining = true;
        return STATUS_OK;
    default:
        check(!"a kind that units take");
        return STATUS_INVALID;
    }
}

/* Nothing here happens by time alone: either there is work now, or a record must come first. */
static int64_t unit_next_wake_ns(const void *self) {
    return has_work(self) ? 0 : MACHINE_NEVER;
}

struct machine unit_machine(struct unit *unit) {
    return (struct machine){.self = unit,
                            .outbox = &unit->outbox,
                            .receive = unit_receive,
                            .step = unit_step,
                            .next_wake_ns = unit_next_wake_ns};
}

uint32_t unit_request_count(const struct unit *unit) {
    return unit->held_count;
}

bool unit_step_in_flight(const struct unit *unit) {
    return unit->step_row_count > 0;
}

void unit_audit(const struct unit *unit) {
    page_table_audit(&unit->pages);
    uint32_t waiting = 0, running = 0, in_step = 0, pages = 0;
    for (uint32_t slot = 0; slot < unit->options.requests_max; slot++) {
        const struct unit_request *request = &unit->requests[slot];
        waiting += request->state == REQUEST_WAITING;
        running += request->state > REQUEST_WAITING;
        in_step += request->in_step;
        pages += request->page_count;
        if (request->state != REQUEST_FREE)
            check(map_find(&unit->slots, key_of(request->id)) == slot);
        else
            check(request->arena.run_count == 0);
        check(request->page_count == 0 || request->state > REQUEST_WAITING);
    }
    check(waiting == unit->waiting_count && running == unit->running_count);
    check(waiting + running == unit->held_count && unit->slots.count == unit->held_count);
    check(in_step == unit->step_row_count && pages == unit->pages.held_count);
    if (unit->held_count == 0) check(unit->pool.free_count == unit->pool.chunk_count);
}

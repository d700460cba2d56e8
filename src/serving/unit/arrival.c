/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/unit/arrival.h"

#include "base/check.h"
#include "base/number.h"
#include "contract/kv_block.h"
#include "serving/unit/binding.h"
#include "serving/unit/handoff.h"
#include "serving/unit/kv_offload.h"
#include "serving/unit/unit_request.h"

/* ---- memory ---- */

/* per request, in the memory for prompts; longer constraints share it */
#define CONSTRAINT_BYTES_EACH 4096

/* The default size of the memory for prompts, at most 1 GiB (only touched when used). Each request
 * has space for the longest prompt and answer, biases, a history for penalties and a usual
 * constraint. One request has space for the longest constraint. */
static size_t prompt_bytes(const struct unit_options *options) {
    size_t pages = divide_up(options->context_tokens_max, KV_BLOCK_TOKENS);
    size_t context = round_up(options->context_tokens_max * sizeof(uint32_t) +
                                  kv_offload_request_bytes_max(options) +
                                  LIMIT_HISTORY_TOKENS * sizeof(uint32_t) +
                                  LIMIT_LOGIT_BIASES * sizeof(struct token_bias) +
                                  pages * (sizeof(struct page_id) + 1) + CONSTRAINT_BYTES_EACH + 64,
                              POOL_CHUNK_BYTES);
    size_t bytes = options->prompt_bytes;
    if (!bytes) bytes = (options->requests_max + (size_t)1) * context + LIMIT_CONSTRAINT_BYTES;
    if (!options->prompt_bytes && bytes > (size_t)1 << 30) bytes = (size_t)1 << 30;
    return round_up(bytes, POOL_CHUNK_BYTES) + POOL_CHUNK_BYTES;
}

size_t unit_prompts_bytes(const struct unit_options *options, uint32_t ranks) {
    return ranks * prompt_bytes(options) + 16;
}

enum status unit_prompts_open(struct arena *arena, const struct unit_options *options,
                              uint32_t ranks, struct pool *prompts_out) {
    size_t bytes = ranks * prompt_bytes(options);
    void *memory = arena_take(arena, bytes);
    if (!memory) return STATUS_NO_MEMORY;
    arena_pool_open(prompts_out, memory, bytes);
    return STATUS_OK;
}

/* ---- from a SUBMIT ---- */

/* Copies the request's sampling. Returns false if memory is out. */
static bool take_sampling(struct unit_request *request, const struct record_submit *submit) {
    size_t bias_bytes = submit->bias_count * sizeof *request->biases;
    request->sampling = submit->sampling;
    request->stop_token_count = submit->stop_token_count;
    memcpy(request->stop_tokens, submit_stop_tokens(submit),
           submit->stop_token_count * sizeof *request->stop_tokens);
    if (submit->bias_count) {
        request->biases = arena_take(&request->arena, bias_bytes);
        if (!request->biases) return false;
        memcpy(request->biases, submit_biases(submit), bias_bytes);
        request->bias_count = submit->bias_count;
    }
    request->adjusts = submit->bias_count > 0 || submit->sampling.min_tokens > 0 ||
                       sampling_needs_history(&submit->sampling);
    if (!sampling_needs_history(&submit->sampling)) return true;
    return history_open(&request->history, &request->arena, submit_tokens(submit),
                        submit->prompt_count, submit->resumed_count, submit->new_tokens_max);
}

/* Copies the answer's constraint. Returns false if memory is out. */
static bool take_constraint(struct unit_request *request, const char *text, uint32_t bytes) {
    request->constraint = bytes ? arena_take(&request->arena, bytes) : NULL;
    if (bytes && !request->constraint) return false;
    if (bytes) memcpy(request->constraint, text, bytes);
    request->constraint_bytes = bytes;
    return true;
}

/* Allocates the request's sequence. Returns false if memory is out. */
static bool take_sequence(struct unit_request *request, struct admit_need need) {
    uint64_t page_count = admit_pages(need);
    request->tokens = arena_take(
        &request->arena, ((size_t)need.prompt_tokens + need.new_tokens_max) * sizeof(uint32_t));
    request->pages = arena_take(&request->arena, page_count * sizeof *request->pages);
    request->block_prompt = arena_take(&request->arena, page_count);
    return request->tokens && request->pages && request->block_prompt;
}

int64_t unit_turn(const struct unit *unit, const struct record_submit *submit, int64_t now_ns) {
    double work_ns = step_cost_run_ns(&unit->cost, 0, submit->prompt_count + submit->resumed_count);
    return schedule_turn(now_ns, (int64_t)work_ns, submit->priority, unit->options.priority_ns);
}

bool arrival_begin(struct unit *unit, const struct record_submit *submit, int64_t now_ns) {
    struct unit_request *request = unit_request_free(unit);
    struct admit_need need = admit_need_of(submit);
    uint64_t page_count = admit_pages(need);
    uint32_t known_count = submit->prompt_count + submit->resumed_count;
    if (!take_sequence(request, need) || !take_sampling(request, submit) ||
        !take_constraint(request, submit_constraint(submit), submit->constraint_bytes) ||
        !handoff_open(request, submit)) {
        unit_request_clear(request);
        return false;
    }
    for (uint32_t i = 0; i < page_count; i++)
        request->block_prompt[i] = (uint8_t)kv_block_rows(submit->prompt_count, i);
    memcpy(request->tokens, submit_tokens(submit), known_count * sizeof(uint32_t));
    request->last_token = request->tokens[known_count - 1];
    request->id = submit->request;
    request->priority = submit->priority;
    request->prompt_count = submit->prompt_count;
    request->resumed_count = request->output_count = submit->resumed_count;
    request->new_tokens_max = submit->new_tokens_max;
    request->tokens_here_max = need.new_tokens_max;
    request->scored_count = submit->sampling.flags & SAMPLING_SCORES ? 1 : submit->prompt_count;
    request->tenant = submit->tenant;
    request->account = submit->account;
    request->node = PREFIX_NONE;
    request->turn = unit_turn(unit, submit, now_ns);
    request->arrived_ns = now_ns;
    request->work.queue_ns = -1;
    unit_request_enter(unit, request, now_ns);
    return true;
}

/* ---- from another rank ---- */

bool arrival_may_move(const struct unit_request *request) {
    return request_runs(request) && !request->in_step && !request->cancelled &&
           handoff_is_over(request) && !kv_offload_is_asked(request);
}

/* Copies everything of the request except its pages. Returns false if memory is out. */
static bool copy_request(struct unit_request *copy, const struct unit_request *request) {
    struct admit_need need = request_need(request);
    struct arena arena = copy->arena;
    bool listed = copy->listed;
    size_t bias_bytes = request->bias_count * sizeof *request->biases;
    const struct history *history = &request->history;
    *copy = *request;
    copy->arena = arena;
    copy->listed = listed;
    if (!take_sequence(copy, need) ||
        !take_constraint(copy, request->constraint, request->constraint_bytes))
        return false;
    memcpy(copy->tokens, request->tokens, request_known(request) * sizeof *request->tokens);
    memcpy(copy->block_prompt, request->block_prompt, admit_pages(need));
    if (bias_bytes) {
        copy->biases = arena_take(&copy->arena, bias_bytes);
        if (!copy->biases) return false;
        memcpy(copy->biases, request->biases, bias_bytes);
    }
    if (history->capacity) {
        copy->history.tokens =
            arena_take(&copy->arena, history->capacity * sizeof *history->tokens);
        if (!copy->history.tokens) return false;
        memcpy(copy->history.tokens, history->tokens, history->count * sizeof *history->tokens);
    }
    copy->node = PREFIX_NONE;
    copy->state = UNIT_REQUEST_FREE;
    copy->bind = BIND_NONE;
    copy->page_count = copy->shared_count = copy->computed_count = 0;
    copy->handoff = NULL;
    copy->kv_offload = NULL;
    copy->keys = NULL;
    copy->key_count = 0;
    return true;
}

bool unit_move(struct unit *from, struct request_id id, struct unit *to, int64_t now_ns) {
    struct unit_request *request = unit_request_of(from, id), *moved = unit_request_free(to);
    check(request && arrival_may_move(request));
    request_fill_tokens(request);
    if (!copy_request(moved, request)) {
        unit_request_clear(moved);
        return false;
    }
    request_work(moved)->preemptions++;
    unit_request_enter(to, moved, now_ns);
    kv_offload_ask_later(to, moved);
    from->totals.preemptions++;
    unit_request_drop(from, request);
    return true;
}

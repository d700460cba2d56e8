/* SPDX-License-Identifier: Apache-2.0
 * record_valid: the one place that judges bytes which claim to be a record. It checks form only:
 * that every field can be used without looking outside the record, that enums are in range, that
 * padding is zero (so that equal records are equal bytes). What a record means is for its receiver
 * to judge.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "contract/machine.h"
#include "contract/step_plan.h"

/* Walks the tails: `at` is where the record's known part ends, `whole` turns false at the first
 * lie. */
struct walk {
    const char *start;
    uint64_t bytes; /* the record's own */
    uint64_t at;
    bool whole;
};

static bool zeroed(const char *bytes, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i]) return false;
    return true;
}

static void walk_tail(struct walk *walk, uint64_t tail_bytes) {
    uint64_t start = (walk->at + 7) & ~(uint64_t)7;
    walk->whole = walk->whole && start <= walk->bytes && tail_bytes <= walk->bytes - start &&
                  zeroed(walk->start + walk->at, start - walk->at);
    if (walk->whole) walk->at = start + tail_bytes;
}

static bool walk_ends(const struct walk *walk) {
    return walk->whole && ((walk->at + 7) & ~(uint64_t)7) == walk->bytes &&
           zeroed(walk->start + walk->at, walk->bytes - walk->at);
}

/* False for NaN. */
static bool within(float value, float low, float high) {
    return value >= low && value <= high;
}

static bool sampling_valid(const struct sampling *sampling) {
    return within(sampling->temperature, 0, 100) && within(sampling->top_p, 0, 1) &&
           within(sampling->min_p, 0, 1) && within(sampling->frequency_penalty, -2, 2) &&
           within(sampling->presence_penalty, -2, 2) &&
           within(sampling->repetition_penalty, 0, 100) &&
           sampling->top_logprobs <= LIMIT_TOP_LOGPROBS &&
           (sampling->flags & ~SAMPLING_FLAGS) == 0 && sampling->flags != SAMPLING_SCORES &&
           sampling->reserved == 0;
}

static bool biases_valid(const struct token_bias *biases, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!within(biases[i].bias, -100, 100) && biases[i].bias != -INFINITY) return false;
    return true;
}

static bool logprobs_valid(const struct token_logprob *logprobs, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (!within(logprobs[i].logprob, -FLT_MAX, 0)) return false;
    return true;
}

static bool request_valid(struct request_id request) {
    return request.reserved == 0;
}

static bool client_request_valid(struct walk *walk, const struct record_client_request *record) {
    walk_tail(walk, record->path_bytes);
    walk_tail(walk, record->authorization_bytes);
    walk_tail(walk, record->body_bytes);
    return record->method < HTTP_METHOD_COUNT && record->wants_receipt <= 1 &&
           record->listener < HTTP_LISTENER_COUNT && record->body_left <= 1 &&
           record->reserved == 0 && walk_ends(walk);
}

/* What may stand in a header's value. */
static bool visible(const char *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (bytes[i] < ' ' || bytes[i] > '~') return false;
    return true;
}

static bool respond_valid(struct walk *walk, const struct record_respond *record) {
    walk_tail(walk, record->body_bytes);
    walk_tail(walk, record->receipt_bytes);
    return walk_ends(walk) && record->http_status >= 200 && record->http_status <= 599 &&
           record->content_type < CONTENT_TYPE_COUNT && record->allow < 1u << HTTP_OTHER &&
           visible((const char *)record + respond_receipt_at(record->body_bytes),
                   record->receipt_bytes);
}

static bool stream_data_valid(struct walk *walk, const struct record_stream_data *record) {
    walk_tail(walk, record->data_bytes);
    return record->reserved == 0 && walk_ends(walk);
}

static bool tokenize_valid(struct walk *walk, const struct record_tokenize *record) {
    walk_tail(walk, record->text_bytes);
    walk_tail(walk, (uint64_t)record->plain_count * sizeof(struct text_span));
    if (!request_valid(record->request) || record->reserved || !walk_ends(walk)) return false;
    const struct text_span *plain = tokenize_plain(record);
    for (uint32_t i = 0, last = 0; i < record->plain_count; last = plain[i++].end)
        if (plain[i].start < last || plain[i].end <= plain[i].start ||
            plain[i].end > record->text_bytes)
            return false;
    return true;
}

static bool tokenized_valid(struct walk *walk, const struct record_tokenized *record) {
    walk_tail(walk, (uint64_t)record->token_count * sizeof(uint32_t));
    return request_valid(record->request) && (record->too_many == 0 || record->token_count == 0) &&
           walk_ends(walk);
}

static bool account_valid(const struct account *account) {
    size_t count = strnlen(account->name, sizeof account->name);
    for (size_t i = 0; i < count; i++)
        if (account->name[i] <= ' ' || account->name[i] > '~' || account->name[i] == '"' ||
            account->name[i] == '\\')
            return false;
    return count > 0 && count < sizeof account->name && account->is_operator <= 1 &&
           zeroed(account->name + count, sizeof account->name - count);
}

static bool accounts_valid(struct walk *walk, const struct record_accounts *record) {
    walk_tail(walk, (uint64_t)record->account_count * sizeof(struct account));
    walk_tail(walk, (uint64_t)record->key_count * sizeof(struct account_key));
    if (!walk_ends(walk) || record->account_count > LIMIT_ACCOUNTS ||
        record->key_count > LIMIT_ACCOUNT_KEYS)
        return false;
    const struct account *accounts = record_tail_at(record, sizeof *record);
    const struct account_key *keys =
        (const void *)(walk->start + accounts_keys_at(record->account_count));
    for (uint32_t i = 0; i < record->account_count; i++)
        if (!account_valid(&accounts[i])) return false;
    for (uint32_t i = 0; i < record->key_count; i++)
        if (keys[i].account >= record->account_count || keys[i].reserved) return false;
    return true;
}

static bool zeros(const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (((const char *)bytes)[i]) return false;
    return true;
}

static bool address_valid(const char address[KV_ADDRESS_BYTES]) {
    const char *end = memchr(address, 0, KV_ADDRESS_BYTES);
    return end && zeros(end, (size_t)(address + KV_ADDRESS_BYTES - end));
}

static bool task_valid(const struct record_submit *record) {
    const struct kv_route *route = &record->route;
    if (record->task != SUBMIT_PREFILL && record->first_block) return false;
    switch ((enum submit_task)record->task) {
    case SUBMIT_ANSWER:
        return zeros(route, sizeof *route);
    case SUBMIT_PREFILL:
        return record->resumed_count == 0 &&
               (uint64_t)record->first_block * KV_BLOCK_TOKENS < record->prompt_count &&
               route->address[0] && address_valid(route->address);
    case SUBMIT_RESERVE:
        return record->resumed_count == 0 && zeros(route->address, sizeof route->address);
    case SUBMIT_TASK_COUNT:
        break;
    }
    return false;
}

static bool submit_valid(struct walk *walk, const struct record_submit *record) {
    uint64_t token_count = (uint64_t)record->prompt_count + record->resumed_count;
    walk_tail(walk, token_count * sizeof(uint32_t));
    walk_tail(walk, (uint64_t)record->stop_token_count * sizeof(uint32_t));
    walk_tail(walk, (uint64_t)record->bias_count * sizeof(struct token_bias));
    if (!walk_ends(walk)) return false;
    const struct token_bias *biases =
        (const void *)(walk->start +
                       submit_biases_at((uint32_t)token_count, record->stop_token_count));
    return request_valid(record->request) && sampling_valid(&record->sampling) &&
           record->prompt_count > 0 && record->new_tokens_max > record->resumed_count &&
           record->stop_token_count <= 2 * LIMIT_STOP_TOKENS &&
           record->bias_count <= LIMIT_LOGIT_BIASES && biases_valid(biases, record->bias_count) &&
           task_valid(record);
}

static bool continue_valid(struct walk *walk, const struct record_continue *record) {
    walk_tail(walk, (uint64_t)record->token_count * sizeof(uint32_t));
    return request_valid(record->request) && record->token_count > 0 && record->reserved == 0 &&
           walk_ends(walk);
}

/* The pages are those of blocks first_block and on, up to token_count tokens. */
static bool blocks_valid(struct walk *walk, uint32_t first_block, uint32_t token_count,
                         uint32_t page_count) {
    walk_tail(walk, (uint64_t)page_count * sizeof(struct page_id));
    return walk_ends(walk) &&
           divide_up(token_count, KV_BLOCK_TOKENS) == (uint64_t)first_block + page_count;
}

static bool kv_push_valid(struct walk *walk, const struct record_kv_push *record) {
    return address_valid(record->route.address) && record->last <= 1 && record->first <= 1 &&
           record->making_count <= record->page_count && record->reserved == 0 &&
           (record->making_count == 0) == (record->step == 0) &&
           (record->making_count == 0 || !record->last) &&
           blocks_valid(walk, record->first_block, record->token_count, record->page_count);
}

static bool kv_done_valid(struct walk *walk, const struct record_kv_done *record) {
    return record->arrived <= 1 && record->reserved == 0 && walk_ends(walk);
}

static bool kv_find_valid(struct walk *walk, const struct record_kv_find *record) {
    walk_tail(walk, (uint64_t)record->key_count * sizeof(struct block_key));
    return record->fresh <= 1 && record->reserved == 0 && walk_ends(walk);
}

static bool kv_found_valid(struct walk *walk, const struct record_kv_found *record) {
    return record->host_blocks <= record->blocks && record->reserved == 0 && walk_ends(walk);
}

static bool kv_load_valid(struct walk *walk, const struct record_kv_load *record) {
    walk_tail(walk, (uint64_t)record->block_count * sizeof(struct block_key));
    walk_tail(walk, (uint64_t)record->block_count * sizeof(struct page_id));
    return record->slot < LIMIT_UNIT_REQUESTS && record->number > 0 && record->reserved == 0 &&
           walk_ends(walk);
}

static bool kv_loaded_valid(struct walk *walk, const struct record_kv_loaded *record) {
    return record->host_blocks <= record->blocks && record->slot < LIMIT_UNIT_REQUESTS &&
           record->number > 0 && record->reserved == 0 && record->ns >= 0 && walk_ends(walk);
}

static bool kv_keep_valid(struct walk *walk, const struct record_kv_keep *record) {
    walk_tail(walk, (1 + (uint64_t)record->block_count) * sizeof(struct block_key));
    walk_tail(walk, (uint64_t)record->block_count * sizeof(struct page_id));
    return zeros(&record->request, sizeof record->request) && record->block_count > 0 &&
           walk_ends(walk);
}

static bool kv_kept_valid(struct walk *walk, const struct record_kv_kept *record) {
    return zeros(&record->request, sizeof record->request) && record->writable <= 1 &&
           walk_ends(walk);
}

static bool kv_hello_valid(struct walk *walk, const struct record_kv_hello *record) {
    return zeros(&record->request, sizeof record->request) && record->reserved == 0 &&
           address_valid(record->address) && walk_ends(walk);
}

static bool kv_kind_valid(struct walk *walk, const struct record *record) {
    switch ((enum record_kind)record->kind) {
    case RECORD_KV_EXPECT: {
        const struct record_kv_expect *expect = (const void *)record;
        return blocks_valid(walk, expect->first_block, expect->token_count, expect->page_count);
    }
    case RECORD_KV_PUSH:
        return kv_push_valid(walk, (const void *)record);
    case RECORD_KV_CANCEL:
        return ((const struct record_kv_cancel *)record)->reserved == 0 && walk_ends(walk);
    case RECORD_KV_DONE:
        return kv_done_valid(walk, (const void *)record);
    case RECORD_KV_FIND:
        return kv_find_valid(walk, (const void *)record);
    case RECORD_KV_FOUND:
        return kv_found_valid(walk, (const void *)record);
    case RECORD_KV_LOAD:
        return kv_load_valid(walk, (const void *)record);
    case RECORD_KV_LOADED:
        return kv_loaded_valid(walk, (const void *)record);
    case RECORD_KV_KEEP:
        return kv_keep_valid(walk, (const void *)record);
    case RECORD_KV_KEPT:
        return kv_kept_valid(walk, (const void *)record);
    case RECORD_KV_HELLO:
        return kv_hello_valid(walk, (const void *)record);
    default:
        return false;
    }
}

/* What passes between a unit and the host of its KV pages. */
static bool kv_valid(struct walk *walk, const struct record *record) {
    return request_valid(record_request(record)) && record_kv_rank(record) < LIMIT_RANKS &&
           kv_kind_valid(walk, record);
}

static bool reserved_valid(struct walk *walk, const struct record_reserved *record) {
    return request_valid(record->request) && record->rank < LIMIT_RANKS && walk_ends(walk);
}

static bool hello_valid(struct walk *walk, const struct record_unit_hello *record) {
    uint64_t pages = 0, requests = 0;
    walk_tail(walk, (uint64_t)record->rank_count * sizeof(struct unit_rank));
    if (!walk_ends(walk) || record->rank_count == 0 || record->rank_count > LIMIT_RANKS)
        return false;
    for (uint32_t i = 0; i < record->rank_count; i++) {
        if (!address_valid(hello_ranks(record)[i].kv_address)) return false;
        pages += hello_ranks(record)[i].page_count;
        requests += hello_ranks(record)[i].requests_max;
    }
    return pages == record->page_count && requests == record->requests_max &&
           record->role < UNIT_ROLE_COUNT && record->vocab_count > 0 &&
           record->context_tokens_max > 0 && record->page_tokens == KV_BLOCK_TOKENS &&
           record->reserved == 0 &&
           memchr(record->numerics_id, 0, sizeof record->numerics_id) != NULL;
}

static bool work_valid(const struct unit_work *work) {
    return work->drafts_right <= work->drafts_made && work->rank < LIMIT_RANKS &&
           work->reserved == 0 && work->queue_ns >= -1 && work->load_ns >= 0 &&
           work->prefill_ns >= 0 && work->transfer_ns >= 0;
}

static bool tokens_valid(struct walk *walk, const struct record_tokens *record) {
    if (record->logprobs_each > STEP_ROW_LOGPROBS_MAX) return false;
    uint64_t logprob_count = (uint64_t)record->token_count * record->logprobs_each;
    walk_tail(walk, (uint64_t)record->token_count * sizeof(uint32_t));
    walk_tail(walk, logprob_count * sizeof(struct token_logprob));
    return walk_ends(walk) && request_valid(record->request) && record->token_count > 0 &&
           record->reserved == 0 && work_valid(&record->work) &&
           logprobs_valid((const void *)(walk->start + tokens_logprobs_at(record->token_count)),
                          logprob_count);
}

static bool scores_valid(struct walk *walk, const struct record_scores *record) {
    if (record->logprobs_each == 0 || record->logprobs_each > STEP_ROW_LOGPROBS_MAX ||
        record->token_count == 0 || record->token_count > SCORES_TOKENS_MAX)
        return false;
    uint32_t logprob_count = record->token_count * record->logprobs_each;
    walk_tail(walk, logprob_count * sizeof(struct token_logprob));
    return walk_ends(walk) && request_valid(record->request) && record->first_position > 0 &&
           record->reserved == 0 &&
           logprobs_valid(record_tail_at(record, sizeof *record), logprob_count);
}

static bool load_valid(struct walk *walk, const struct record_unit_load *record) {
    walk_tail(walk, (uint64_t)record->rank_count * sizeof(struct unit_rank_load));
    if (!walk_ends(walk) || record->rank_count > LIMIT_RANKS) return false;
    for (uint32_t i = 0; i < record->rank_count; i++)
        if (load_ranks(record)[i].kv_storage >= KV_STORAGE_COUNT || load_ranks(record)[i].reserved)
            return false;
    return record->last_step_ns >= 0 && record->kv_storage < KV_STORAGE_COUNT &&
           record->reserved == 0;
}

static bool finished_valid(struct walk *walk, const struct record_finished *record) {
    return request_valid(record->request) && record->reason < FINISH_REASON_COUNT &&
           work_valid(&record->work) && walk_ends(walk);
}

/* True if [index, index + count) lies within [0, total). */
static bool inside(uint32_t index, uint32_t count, uint32_t total) {
    return index <= total && count <= total - index;
}

static bool row_extras_valid(const struct step_plan *plan, const struct step_row *row) {
    return inside(row->history_index, row->history_count, plan->history_count) &&
           row->history_count <= LIMIT_HISTORY_TOKENS &&
           row->history_prompt_count <= row->history_count &&
           inside(row->bias_index, row->bias_count, plan->bias_count) &&
           row->bias_count <= LIMIT_ROW_BIASES;
}

static bool row_drafts_valid(const struct step_row *row) {
    if (row->fresh > 1 || row->draft_count > LIMIT_DRAFTS) return false;
    return row->draft_count == 0 ||
           (row->sample && row->form == TOKEN_GENERATED && row->token_count == 1 &&
            step_drafts_fit(row->first_position + 1, row->draft_count));
}

static bool row_scores_valid(const struct step_row *row) {
    bool next = row->next_token != STEP_NO_TOKEN;
    return row->scored_count == 0 ||
           (row->scored_count <= row->token_count - !next && row->draft_count == 0 &&
            (row->sampling.flags & SAMPLING_LOGPROBS));
}

/* A row may name only tokens, pages and positions that the plan holds. */
static bool row_valid(const struct step_plan *plan, const struct step_row *row) {
    uint64_t end = (uint64_t)row->first_position + row->token_count + row->draft_count;
    return row->form < TOKEN_FORM_COUNT && row->token_count > 0 && end <= LIMIT_CONTEXT &&
           inside(row->token_index, row->token_count, plan->token_count) &&
           inside(row->page_index, row->page_count, plan->page_count) &&
           end <= (uint64_t)row->page_count * KV_BLOCK_TOKENS &&
           row->logits_count <= row->token_count && row->sample <= 1 &&
           row->sample <= row->logits_count && sampling_valid(&row->sampling) &&
           row_extras_valid(plan, row) && row_drafts_valid(row) && row_scores_valid(row);
}

static bool plan_valid(struct walk *walk, const struct step_plan *plan) {
    walk_tail(walk, (uint64_t)plan->row_count * sizeof(struct step_row));
    walk_tail(walk, (uint64_t)plan->token_count * sizeof(uint32_t));
    walk_tail(walk, (uint64_t)plan->page_count * sizeof(struct page_id));
    walk_tail(walk, (uint64_t)plan->history_count * sizeof(uint32_t));
    walk_tail(walk, (uint64_t)plan->bias_count * sizeof(struct token_bias));
    if (!walk_ends(walk) || plan->overlap >= OVERLAP_KIND_COUNT || plan->rank >= LIMIT_RANKS ||
        plan->others_draft > 1 || plan->row_count > LIMIT_STEP_ROWS ||
        plan->token_count > LIMIT_STEP_TOKENS)
        return false;
    for (uint32_t i = 0; i < plan->row_count; i++)
        if (!row_valid(plan, &step_plan_rows(plan)[i])) return false;
    return biases_valid(step_plan_biases(plan), plan->bias_count);
}

static bool result_row_valid(const struct step_result *result, const struct step_result_row *row) {
    if (row->draft_count > LIMIT_DRAFTS || row->token_count > 1 + row->draft_count ||
        row->logprobs_each > STEP_ROW_LOGPROBS_MAX || row->lost > 1 ||
        (row->lost && (row->token_count || row->loaded || row->scored_count)) || row->reserved ||
        row->scored_count > LIMIT_STEP_TOKENS ||
        !inside(row->score_index, row->scored_count * row->logprobs_each, result->logprob_count))
        return false;
    for (uint32_t i = row->token_count; i < 1 + LIMIT_DRAFTS; i++)
        if (row->tokens[i]) return false;
    return inside(row->logprob_index, row->token_count * row->logprobs_each, result->logprob_count);
}

static bool result_valid(struct walk *walk, const struct step_result *result) {
    walk_tail(walk, (uint64_t)result->row_count * sizeof(struct step_result_row));
    walk_tail(walk, (uint64_t)result->logprob_count * sizeof(struct token_logprob));
    if (!walk_ends(walk) || result->failed > 1 || result->rank >= LIMIT_RANKS ||
        result->row_count > LIMIT_STEP_ROWS || result->awaited_ns < 0)
        return false;
    for (uint32_t i = 0; i < result->row_count; i++) {
        if (!result_row_valid(result, &step_result_rows(result)[i])) return false;
    }
    return logprobs_valid(step_result_logprobs(result), result->logprob_count);
}

static bool drain_valid(struct walk *walk, const struct record_drain *record) {
    return record->one_rank <= 1 && record->back <= 1 && record->dead <= record->one_rank &&
           record->dead + record->back <= 1 &&
           (record->one_rank ? record->rank < LIMIT_RANKS : record->rank == 0) && walk_ends(walk);
}

static bool role_valid(struct walk *walk, const struct record_role *record) {
    return record->role < UNIT_ROLE_COUNT && record->reserved == 0 && walk_ends(walk);
}

static bool experts_valid(struct walk *walk, const struct record_experts *record) {
    for (uint32_t layer = 0; layer < LIMIT_LAYERS; layer++)
        if (record->layer_balance[layer] > (layer < record->layer_count ? 1000000 : 0))
            return false;
    return record->experts <= LIMIT_EXPERTS && record->ranks >= 1 && record->ranks <= LIMIT_RANKS &&
           record->slots_per_rank <= LIMIT_EXPERTS && record->layer_count <= LIMIT_LAYERS &&
           record->stall_ns_total >= 0 && record->stall_ns_max >= 0 && record->balance <= 1000000 &&
           record->balance_before <= 1000000 && record->balance_after <= 1000000 &&
           record->reserved == 0 && walk_ends(walk);
}

bool record_may_be_carried(uint16_t kind, uint16_t inner_kind) {
    if (kind == RECORD_TO_UNIT)
        return inner_kind == RECORD_SUBMIT || inner_kind == RECORD_CANCEL ||
               inner_kind == RECORD_CONTINUE || inner_kind == RECORD_DRAIN ||
               inner_kind == RECORD_ROLE;
    return inner_kind == RECORD_UNIT_HELLO || inner_kind == RECORD_TOKENS ||
           inner_kind == RECORD_SCORES || inner_kind == RECORD_FINISHED ||
           inner_kind == RECORD_UNIT_LOAD || inner_kind == RECORD_RESERVED ||
           inner_kind == RECORD_EXPERTS;
}

/* No record that may be carried carries another: this goes one level deep. */
static bool carried_valid(struct walk *walk, const struct record_carried *record) {
    walk_tail(walk, record->inner_bytes);
    if (!walk_ends(walk) || record->inner_bytes < sizeof(struct record)) return false;
    const struct record *inner = carried_inner(record);
    return record_may_be_carried(record->record.kind, inner->kind) &&
           record_valid(inner, record->inner_bytes);
}

/* Bytes of each kind's fixed struct; 0: no such kind. */
static const uint16_t fixed_bytes[RECORD_KIND_COUNT] = {
    [RECORD_CLIENT_REQUEST] = sizeof(struct record_client_request),
    [RECORD_CLIENT_GONE] = sizeof(struct record_client_gone),
    [RECORD_TOKENIZED] = sizeof(struct record_tokenized),
    [RECORD_ACCOUNTS] = sizeof(struct record_accounts),
    [RECORD_DRAIN] = sizeof(struct record_drain),
    [RECORD_RESPOND] = sizeof(struct record_respond),
    [RECORD_STREAM_BEGIN] = sizeof(struct record_stream_begin),
    [RECORD_STREAM_DATA] = sizeof(struct record_stream_data),
    [RECORD_STREAM_END] = sizeof(struct record_stream_end),
    [RECORD_TOKENIZE] = sizeof(struct record_tokenize),
    [RECORD_UNIT_JOINED] = sizeof(struct record_unit_link),
    [RECORD_UNIT_LOST] = sizeof(struct record_unit_link),
    [RECORD_FROM_UNIT] = sizeof(struct record_carried),
    [RECORD_TO_UNIT] = sizeof(struct record_carried),
    [RECORD_SUBMIT] = sizeof(struct record_submit),
    [RECORD_CANCEL] = sizeof(struct record_cancel),
    [RECORD_CONTINUE] = sizeof(struct record_continue),
    [RECORD_ROLE] = sizeof(struct record_role),
    [RECORD_UNIT_HELLO] = sizeof(struct record_unit_hello),
    [RECORD_TOKENS] = sizeof(struct record_tokens),
    [RECORD_SCORES] = sizeof(struct record_scores),
    [RECORD_FINISHED] = sizeof(struct record_finished),
    [RECORD_UNIT_LOAD] = sizeof(struct record_unit_load),
    [RECORD_RESERVED] = sizeof(struct record_reserved),
    [RECORD_EXPERTS] = sizeof(struct record_experts),
    [RECORD_RUN_STEP] = sizeof(struct step_plan),
    [RECORD_STEP_DONE] = sizeof(struct step_result),
    [RECORD_KV_EXPECT] = sizeof(struct record_kv_expect),
    [RECORD_KV_PUSH] = sizeof(struct record_kv_push),
    [RECORD_KV_CANCEL] = sizeof(struct record_kv_cancel),
    [RECORD_KV_DONE] = sizeof(struct record_kv_done),
    [RECORD_KV_FIND] = sizeof(struct record_kv_find),
    [RECORD_KV_FOUND] = sizeof(struct record_kv_found),
    [RECORD_KV_LOAD] = sizeof(struct record_kv_load),
    [RECORD_KV_LOADED] = sizeof(struct record_kv_loaded),
    [RECORD_KV_KEEP] = sizeof(struct record_kv_keep),
    [RECORD_KV_KEPT] = sizeof(struct record_kv_kept),
    [RECORD_KV_HELLO] = sizeof(struct record_kv_hello),
};

static bool parts_valid(struct walk *walk, const struct record *record) {
    switch ((enum record_kind)record->kind) {
    case RECORD_CLIENT_REQUEST:
        return client_request_valid(walk, (const void *)record);
    case RECORD_RESPOND:
        return respond_valid(walk, (const void *)record);
    case RECORD_STREAM_DATA:
        return stream_data_valid(walk, (const void *)record);
    case RECORD_TOKENIZE:
        return tokenize_valid(walk, (const void *)record);
    case RECORD_TOKENIZED:
        return tokenized_valid(walk, (const void *)record);
    case RECORD_ACCOUNTS:
        return accounts_valid(walk, (const void *)record);
    case RECORD_UNIT_JOINED:
    case RECORD_UNIT_LOST:
        return ((const struct record_unit_link *)record)->reserved == 0 && walk_ends(walk);
    case RECORD_FROM_UNIT:
    case RECORD_TO_UNIT:
        return carried_valid(walk, (const void *)record);
    case RECORD_SUBMIT:
        return submit_valid(walk, (const void *)record);
    case RECORD_CANCEL:
        return request_valid(((const struct record_cancel *)record)->request) && walk_ends(walk);
    case RECORD_UNIT_HELLO:
        return hello_valid(walk, (const void *)record);
    case RECORD_TOKENS:
        return tokens_valid(walk, (const void *)record);
    case RECORD_SCORES:
        return scores_valid(walk, (const void *)record);
    case RECORD_FINISHED:
        return finished_valid(walk, (const void *)record);
    case RECORD_UNIT_LOAD:
        return load_valid(walk, (const void *)record);
    case RECORD_RUN_STEP:
        return plan_valid(walk, (const void *)record);
    case RECORD_STEP_DONE:
        return result_valid(walk, (const void *)record);
    case RECORD_CONTINUE:
        return continue_valid(walk, (const void *)record);
    case RECORD_RESERVED:
        return reserved_valid(walk, (const void *)record);
    case RECORD_EXPERTS:
        return experts_valid(walk, (const void *)record);
    case RECORD_KV_EXPECT:
    case RECORD_KV_PUSH:
    case RECORD_KV_CANCEL:
    case RECORD_KV_DONE:
    case RECORD_KV_FIND:
    case RECORD_KV_FOUND:
    case RECORD_KV_LOAD:
    case RECORD_KV_LOADED:
    case RECORD_KV_KEEP:
    case RECORD_KV_KEPT:
    case RECORD_KV_HELLO:
        return kv_valid(walk, record);
    case RECORD_ROLE:
        return role_valid(walk, (const void *)record);
    case RECORD_DRAIN:
        return drain_valid(walk, (const void *)record);
    case RECORD_CLIENT_GONE:
    case RECORD_STREAM_BEGIN:
    case RECORD_STREAM_END:
        return walk_ends(walk);
    case RECORD_NONE:
    case RECORD_KIND_COUNT:
        break;
    }
    return false;
}

bool record_valid(const void *bytes, size_t count) {
    const struct record *record = bytes;
    if (((uintptr_t)bytes & 7) != 0 || count < sizeof *record || count > RECORD_BYTES_MAX)
        return false;
    if (record->version != RECORD_VERSION || record->kind >= RECORD_KIND_COUNT ||
        record->bytes != count || record->bytes % 8 != 0)
        return false;
    size_t fixed = fixed_bytes[record->kind];
    if (fixed == 0 || fixed > count) return false;
    struct walk walk = {.start = bytes, .bytes = count, .at = fixed, .whole = true};
    return parts_valid(&walk, record);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record_unit.h"

#include <string.h>

#include "base/check.h"
#include "contract/kv_block.h"

#define BALANCE_MAX 1000000            /* millionths; all ranks have the same load */
#define TIME_NS_MAX ((int64_t)1 << 56) /* two years: sums of a few of them fit */

const char *record_unit_finish_reason_name(enum finish_reason reason) {
    static const char *const names[FINISH_REASON_COUNT] = {
        [FINISH_STOP_TOKEN] = "stop_token",
        [FINISH_LENGTH] = "length",
        [FINISH_CANCELLED] = "cancelled",
        [FINISH_REFUSED_QUEUE] = "refused_queue",
        [FINISH_REFUSED_TOO_LARGE] = "refused_too_large",
        [FINISH_REFUSED_DRAINING] = "refused_draining",
        [FINISH_FAILED] = "failed",
        [FINISH_HANDED_OVER] = "handed_over",
    };
    return names[reason];
}

const char *record_unit_role_name(uint32_t role) {
    static const char *const names[UNIT_ROLE_COUNT] = {
        [UNIT_BOTH] = "both", [UNIT_PREFILL] = "prefill", [UNIT_DECODE] = "decode"};
    check(role < UNIT_ROLE_COUNT);
    return names[role];
}

#define NAMED ((uint64_t)1 << 15) /* bit of an instance: its first 48 bits are a name */

uint64_t record_unit_instance(const uint64_t *name, uint64_t random_bits) {
    return name ? *name << 16 | NAMED | (random_bits & (NAMED - 1)) : random_bits & ~NAMED;
}

uint32_t record_unit_number(uint64_t instance) {
    return instance & NAMED ? instance >> 16 & 0xffffff : 0;
}

bool record_unit_link_valid(const void *record) {
    return ((const struct record_unit_link *)record)->reserved == 0;
}

/* Calls record_valid for the inner record. This recursion has one level, because FROM_UNIT and
 * TO_UNIT cannot be inner records. */
bool record_unit_envelope_valid(const void *record) {
    const struct record_envelope *envelope = record;
    const struct record *inner = envelope_inner(envelope);
    uint32_t way =
        envelope->record.kind == RECORD_TO_UNIT ? WAY_GATEWAY_TO_UNIT : WAY_UNIT_TO_GATEWAY;
    return envelope->inner_bytes >= sizeof *inner && record_goes(inner->kind, way) &&
           record_valid(inner, envelope->inner_bytes);
}

/* `dead` is valid only for a single rank. */
bool record_unit_drain_valid(const void *record) {
    const struct record_drain *drain = record;
    bool is_new = drain->back && drain->dead;
    return drain->one_rank <= 1 && drain->back <= 1 && drain->dead <= drain->one_rank &&
           (is_new ? drain->pid > 0 : drain->pid == 0) &&
           (drain->one_rank ? drain->rank < LIMIT_RANKS : drain->rank == 0);
}

/* The fields of a SUBMIT that depend on its task. */
static bool task_valid(const struct record_submit *record) {
    const struct kv_route *route = &record->route;
    if (record->task != SUBMIT_PREFILL && record->first_block) return false;
    switch ((enum submit_task)record->task) {
    case SUBMIT_ANSWER:
        return record_zeros(route, sizeof *route);
    case SUBMIT_PREFILL:
        return record->resumed_count == 0 &&
               (uint64_t)record->first_block * KV_BLOCK_TOKENS < record->prompt_count &&
               route->address[0] && record_kv_address_valid(route->address);
    case SUBMIT_RESERVE:
        return record->resumed_count == 0 && record_zeros(route->address, sizeof route->address);
    case SUBMIT_TASK_COUNT:
        break;
    }
    return false;
}

bool record_unit_submit_valid(const void *record) {
    const struct record_submit *submit = record;
    return record_request_valid(submit) && sampling_valid(&submit->sampling) &&
           submit->prompt_count > 0 && submit->new_tokens_max > submit->resumed_count &&
           submit->stop_token_count <= 2 * LIMIT_STOP_TOKENS &&
           submit->bias_count <= LIMIT_LOGIT_BIASES &&
           submit->constraint_bytes <= LIMIT_CONSTRAINT_BYTES &&
           record_name_valid(submit_name(submit), submit->name_bytes) &&
           sampling_token_biases_valid(submit_biases(submit), submit->bias_count) &&
           task_valid(submit);
}

bool record_unit_continue_valid(const void *record) {
    const struct record_continue *go_on = record;
    return record_request_valid(go_on) && go_on->token_count > 0 && go_on->reserved == 0;
}

bool record_unit_role_valid(const void *record) {
    const struct record_role *role = record;
    return role->role < UNIT_ROLE_COUNT && role->reserved == 0;
}

bool record_unit_hello_valid(const void *record) {
    const struct record_unit_hello *hello = record;
    if (hello->rank_count == 0 || hello->rank_count > LIMIT_RANKS) return false;
    uint64_t pages = 0, requests = 0;
    for (uint32_t i = 0; i < hello->rank_count; i++) {
        if (!record_kv_address_valid(hello_ranks(hello)[i].kv_address)) return false;
        pages += hello_ranks(hello)[i].page_count;
        requests += hello_ranks(hello)[i].requests_max;
    }
    return pages == hello->page_count && requests == hello->requests_max &&
           hello->role < UNIT_ROLE_COUNT && hello->vocab_count > 0 &&
           hello->context_tokens_max > 0 && hello->page_tokens == KV_BLOCK_TOKENS &&
           hello->reserved == 0 && memchr(hello->numerics_id, 0, sizeof hello->numerics_id) != NULL;
}

static bool is_time(int64_t ns) {
    return ns >= 0 && ns <= TIME_NS_MAX;
}

static bool work_valid(const struct unit_work *work) {
    return work->drafts_right <= work->drafts_made && work->rank < LIMIT_RANKS &&
           work->reserved == 0 && work->queue_ns >= -1 && work->queue_ns <= TIME_NS_MAX &&
           is_time(work->load_ns) && is_time(work->prefill_ns) && is_time(work->transfer_ns);
}

bool record_unit_tokens_valid(const void *record) {
    const struct record_tokens *tokens = record;
    return record_request_valid(tokens) && tokens->token_count > 0 &&
           tokens->logprobs_each <= TOKEN_LOGPROBS_MAX && tokens->work_count <= 1 &&
           (!tokens->work_count || work_valid(tokens_work(tokens))) &&
           sampling_token_logprobs_valid(tokens_logprobs(tokens),
                                         (uint64_t)tokens->token_count * tokens->logprobs_each);
}

bool record_unit_progress_valid(const void *record) {
    const struct record_progress *progress = record;
    return record_request_valid(progress) && progress->cached_tokens <= progress->ready_tokens &&
           is_time(progress->prefill_ns);
}

bool record_unit_scores_valid(const void *record) {
    const struct record_scores *scores = record;
    return record_request_valid(scores) && scores->first_position > 0 && scores->token_count > 0 &&
           scores->token_count <= SCORES_TOKENS_MAX && scores->logprobs_each > 0 &&
           scores->logprobs_each <= TOKEN_LOGPROBS_MAX && scores->reserved == 0 &&
           sampling_token_logprobs_valid(scores_logprobs(scores),
                                         (uint64_t)scores->token_count * scores->logprobs_each);
}

bool record_unit_finished_valid(const void *record) {
    const struct record_finished *finished = record;
    return record_request_valid(finished) && finished->reason < FINISH_REASON_COUNT &&
           work_valid(&finished->work);
}

bool record_unit_reserved_valid(const void *record) {
    return record_request_valid(record) &&
           ((const struct record_reserved *)record)->rank < LIMIT_RANKS;
}

bool record_unit_load_valid(const void *record) {
    const struct record_unit_load *load = record;
    if (load->rank_count > LIMIT_RANKS) return false;
    for (uint32_t i = 0; i < load->rank_count; i++)
        if (load_ranks(load)[i].kv_storage >= KV_STORAGE_COUNT || load_ranks(load)[i].reserved)
            return false;
    return is_time(load->last_step_ns) && load->kv_storage < KV_STORAGE_COUNT &&
           load->draining <= 1;
}

bool record_unit_experts_valid(const void *record) {
    const struct record_experts *experts = record;
    for (uint32_t layer = 0; layer < LIMIT_LAYERS; layer++)
        if (experts->layer_balance[layer] > (layer < experts->layer_count ? BALANCE_MAX : 0))
            return false;
    return experts->experts <= LIMIT_EXPERTS && experts->ranks >= 1 &&
           experts->ranks <= LIMIT_RANKS && experts->slots_per_rank <= LIMIT_EXPERTS &&
           experts->layer_count <= LIMIT_LAYERS && experts->stall_ns_total >= 0 &&
           experts->stall_ns_max >= 0 && experts->balance <= BALANCE_MAX &&
           experts->balance_before <= BALANCE_MAX && experts->balance_after <= BALANCE_MAX &&
           experts->reserved == 0;
}

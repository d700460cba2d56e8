/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dispatch.h"

#include "base/check.h"
#include "base/checksum.h"
#include "serving/gateway/answer.h"
#include "serving/gateway/handover.h"
#include "serving/gateway/intake.h"
#include "serving/policy/admit.h"

#define LOSSES_MAX 8                  /* units that a request may lose without a token in between */
#define ROLE_RESTS 5                  /* times role_hold_ns, from one change to the next */
#define RETRIES_MAX 3                 /* times that units may fail it, and refuse it, likewise */
#define RETRY_NS ((int64_t)500000000) /* before the same unit is tried again; doubles each time */

/* ---- the queue ---- */

static void insert_behind(struct gateway *gateway, struct request *before,
                          struct request *request) {
    struct request_queue *queue = &gateway->queue;
    check(!request->queued);
    request->queued = true;
    request->before = before;
    request->behind = before ? before->behind : queue->first;
    *(before ? &before->behind : &queue->first) = request;
    *(request->behind ? &request->behind->before : &queue->last) = request;
    queue->count++;
    queue->wanted = true;
}

void dispatch_remove(struct gateway *gateway, struct request *request) {
    struct request_queue *queue = &gateway->queue;
    if (!request->queued) return;
    *(request->before ? &request->before->behind : &queue->first) = request->behind;
    *(request->behind ? &request->behind->before : &queue->last) = request->before;
    request->before = request->behind = NULL;
    request->queued = false;
    queue->count--;
}

void dispatch_add(struct gateway *gateway, struct request *request, int64_t now_ns) {
    struct request *before = gateway->queue.last;
    while (before && !before->must_end && before->arrival > request->arrival)
        before = before->before;
    request->waits_since_ns = now_ns;
    insert_behind(gateway, before, request);
}

/* Those to be ended stand first: their memory is wanted. */
void dispatch_end(struct gateway *gateway, struct request *request, enum finish_reason reason) {
    check(request->unit == FLEET_NONE);
    dispatch_remove(gateway, request);
    request->state = REQUEST_ENDING;
    request->must_end = true;
    request->reason = (uint8_t)reason;
    insert_behind(gateway, NULL, request);
}

/* ---- to a unit and away ---- */

void dispatch_progress(struct gateway *gateway, struct request *request, uint32_t unit) {
    uint64_t *promised = unit == request->unit ? &request->promised_pages : &request->prefill_pages;
    gateway->fleet.units[unit].promised_pages -= *promised;
    *promised = 0;
    request->losses = request->retries = request->refusals = 0;
    gateway->queue.wanted = true;
}

void dispatch_part(struct gateway *gateway, struct request *request) {
    handover_part(gateway, request);
    receipt_leave(gateway, request, RECEIPT_ANSWER);
    request->task = TASK_ANSWER;
    request->has_last_word = false;
    if (request->unit == FLEET_NONE) return;
    struct fleet_unit *unit = &gateway->fleet.units[request->unit];
    unit->promised_pages -= request->promised_pages;
    unit->bound--;
    request->promised_pages = 0;
    request->unit = FLEET_NONE;
    gateway->queue.wanted = true;
}

/* How much of everything the request's SUBMIT brings. */
static struct record_submit submit_counts(const struct request *request) {
    return (struct record_submit){.prompt_count = request->prompt_tokens,
                                  .resumed_count = request->output_tokens,
                                  .stop_token_count = request->leader->stop_token_count,
                                  .bias_count = request->leader->bias_count};
}

size_t dispatch_submit_bytes(const struct request *request) {
    struct record_submit counts = submit_counts(request);
    return carried_bytes(RECORD_SUBMIT, &counts);
}

static void write_token(void *context, uint32_t index, const struct token_logprob *entries) {
    ((uint32_t *)context)[index] = entries->token;
}

struct record_submit *dispatch_put_submit(struct gateway *gateway, const struct request *request,
                                          uint32_t unit, enum submit_task task) {
    const struct request *leader = request->leader;
    struct record_submit counts = submit_counts(request);
    struct record_submit *submit = outbox_put_carried(
        &gateway->outbox, RECORD_TO_UNIT, gateway->fleet.units[unit].id, RECORD_SUBMIT, &counts);
    check(submit);
    submit->task = task;
    submit->request = request->id;
    submit->sampling = request->sampling;
    if (task == SUBMIT_RESERVE || !request_scores(request))
        submit->sampling.flags &= ~SAMPLING_SCORES;
    submit->new_tokens_max = request->new_tokens_max;
    submit->tenant = leader->tenant;
    uint32_t *tokens = submit_tokens(submit);
    memcpy(tokens, leader->prompt, request->prompt_tokens * sizeof *tokens);
    token_list_visit(&request->tokens, 0, request->output_tokens, write_token,
                     tokens + request->prompt_tokens);
    memcpy(submit_stop_tokens(submit), leader->stop_tokens,
           leader->stop_token_count * sizeof *leader->stop_tokens);
    if (leader->bias_count)
        memcpy(submit_biases(submit), leader->biases, leader->bias_count * sizeof *leader->biases);
    return submit;
}

static void bind(struct gateway *gateway, struct request *request, uint32_t unit, uint64_t pages) {
    dispatch_remove(gateway, request);
    request->unit = unit;
    request->state = REQUEST_SUBMITTED;
    request->receipt.attempts++;
    request->promised_pages = pages;
    gateway->fleet.units[unit].promised_pages += pages;
    gateway->fleet.units[unit].bound++;
    gateway->resumed_total +=
        request->losses || request->retries || request->refusals || request->output_tokens;
}

/* ---- again ---- */

bool dispatch_is_whole(const struct request *request, enum finish_reason *reason_out) {
    const struct request *leader = request->leader;
    *reason_out = FINISH_STOP_TOKEN;
    for (uint32_t i = 0; request->output_tokens && i < leader->stop_token_count; i++)
        if (request->last_token == leader->stop_tokens[i]) return true;
    *reason_out = FINISH_LENGTH;
    return request->output_tokens == request->new_tokens_max;
}

/* No unit has it any more: another gets it, or it ends. */
static void send_again(struct gateway *gateway, struct request *request, int64_t now_ns) {
    enum finish_reason reason = FINISH_CANCELLED;
    dispatch_part(gateway, request);
    if (request->state == REQUEST_ENDING || dispatch_is_whole(request, &reason)) {
        dispatch_end(gateway, request, reason);
        return;
    }
    bool forgotten = request->tokens.count != request->output_tokens;
    if (forgotten || request->losses > LOSSES_MAX || request->retries > RETRIES_MAX ||
        dispatch_submit_bytes(request) > gateway->outbox.capacity) {
        dispatch_end(gateway, request, FINISH_FAILED);
        return;
    }
    struct request *leader = request->leader;
    request->id.attempt++;
    request->state = REQUEST_WAITING;
    if (request->stream && !leader->client_gone) /* the pause is no silence */
        gateway->wake_ns[request_slot(gateway, leader)] = now_ns + gateway->options.keep_alive_ns;
    dispatch_add(gateway, request, now_ns);
}

static bool others_serve(const struct gateway *gateway, uint32_t unit) {
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (i != unit && fleet_takes(&gateway->fleet, i)) return true;
    return false;
}

/* A unit that has no room to reserve says so, and is asked again when it has moved. */
static bool wait_for_room(struct gateway *gateway, struct request *request, uint32_t unit,
                          enum finish_reason reason, int64_t now_ns) {
    if (request->task != TASK_RESERVING || reason != FINISH_REFUSED_QUEUE) return false;
    gateway->fleet.units[unit].full = true;
    dispatch_part(gateway, request);
    send_again(gateway, request, now_ns);
    return true;
}

bool dispatch_retry(struct gateway *gateway, struct request *request, uint32_t unit,
                    enum finish_reason reason, int64_t now_ns) {
    if (wait_for_room(gateway, request, unit, reason, now_ns)) return true;
    bool refused = reason == FINISH_REFUSED_DRAINING || reason == FINISH_REFUSED_QUEUE;
    uint8_t *count = refused ? &request->refusals : &request->retries;
    /* A unit that drains is not asked again, so that this alone never goes on for ever. */
    bool again = reason == FINISH_REFUSED_DRAINING && !gateway->draining;
    if (request->state != REQUEST_SUBMITTED || (*count >= RETRIES_MAX && !again)) return false;
    if (reason == FINISH_REFUSED_DRAINING) gateway->fleet.units[unit].draining = true;
    if (refused) again |= others_serve(gateway, unit);
    if (!again && reason != FINISH_FAILED) return false;
    request->avoided_unit = unit;
    request->retry_ns = now_ns + (RETRY_NS << *count);
    if (*count < RETRIES_MAX) ++*count;
    if (request->prefill != FLEET_NONE) handover_cancel(gateway, request); /* at the other one */
    send_again(gateway, request, now_ns);
    return true;
}

/* True if nothing more is needed of the unit. */
static bool does_without(struct gateway *gateway, struct request *request, uint32_t unit) {
    if (request->has_last_word) {
        enum finish_reason reason = (enum finish_reason)request->last_word.reason;
        dispatch_part(gateway, request);
        dispatch_end(gateway, request, reason);
        return true;
    }
    if (request->prefill != unit) return false;
    if (request->task != TASK_CONTINUED && request->state != REQUEST_ENDING) return false;
    handover_part(gateway, request);
    return true;
}

enum status dispatch_lose(struct gateway *gateway, uint32_t unit, int64_t now_ns) {
    size_t room = gateway->fleet.units[unit].bound * HANDOVER_CANCEL_BYTES;
    if (outbox_room(&gateway->outbox) < room && gateway->outbox.used) return STATUS_FULL;
    for (uint32_t slot = 0; slot < gateway->options.requests_max; slot++) {
        struct request *request = &gateway->requests[slot];
        if (request->state == REQUEST_FREE) continue;
        if (request->avoided_unit == unit)
            request->avoided_unit = FLEET_NONE; /* its place may be taken */
        if (request->unit != unit && request->prefill != unit) continue;
        if (does_without(gateway, request, unit)) continue;
        if (request->prefill != FLEET_NONE) handover_cancel(gateway, request);
        request->losses++;
        send_again(gateway, request, now_ns);
    }
    return STATUS_OK;
}

/* What it has is finished as it was asked for: a role is the choice of who gets what comes. */
enum status dispatch_assign(struct gateway *gateway, uint32_t unit, enum unit_role role) {
    if (!outbox_put_carried(&gateway->outbox, RECORD_TO_UNIT, gateway->fleet.units[unit].id,
                            RECORD_ROLE, &(struct record_role){.role = role}))
        return STATUS_FULL;
    fleet_assign(&gateway->fleet, unit, role);
    gateway->queue.wanted = true;
    return STATUS_OK;
}

/* ---- silence ---- */

/* Its requests are cancelled there, should it ever get the record. False: no room to say so. */
static bool give_up(struct gateway *gateway, uint32_t index, int64_t now_ns) {
    struct fleet_unit *unit = &gateway->fleet.units[index];
    if (outbox_room(&gateway->outbox) < 2 * unit->bound * HANDOVER_CANCEL_BYTES) return false;
    for (uint32_t slot = 0; slot < gateway->options.requests_max; slot++) {
        const struct request *request = &gateway->requests[slot];
        if (request->state == REQUEST_FREE) continue;
        if (request->unit == index && request->prefill == FLEET_NONE)
            handover_cancel(gateway, request);
    }
    unit->state = FLEET_SILENT;
    gateway->fleet.losses_total++;
    enum status status = dispatch_lose(gateway, index, now_ns);
    check(status == STATUS_OK);
    return true;
}

static int64_t silent_at_ns(const struct gateway *gateway, uint32_t index) {
    const struct fleet_unit *unit = &gateway->fleet.units[index];
    if (unit->state != FLEET_SERVING || !gateway->options.unit_silence_ns) return MACHINE_NEVER;
    return unit->last_seen_ns + gateway->options.unit_silence_ns;
}

static void watch(struct gateway *gateway, int64_t now_ns) {
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (silent_at_ns(gateway, i) <= now_ns && !give_up(gateway, i, now_ns)) return;
}

/* ---- from the queue ---- */

/* When a request that no unit can take gives up. */
static int64_t gives_up_ns(const struct gateway *gateway, const struct request *request,
                           bool any_serves) {
    int64_t since = request->waits_since_ns;
    if (gateway->draining) return 0; /* none is going to come */
    if (!any_serves && gateway->queue.served_ns > since) since = gateway->queue.served_ns;
    return since + gateway->options.unit_wait_ns;
}

enum outcome {
    OUTCOME_WENT_ON,
    OUTCOME_BOUND,
    OUTCOME_NO_ROOM,
    OUTCOME_ALL_FULL,
    OUTCOME_NOT_FOR_TWO
};

static struct balance_units_need need_of(const struct request *request) {
    struct admit_need need = {request->prompt_tokens, request->new_tokens_max};
    uint32_t known = request->prompt_tokens + request->output_tokens;
    return (struct balance_units_need){
        .tokens = (uint64_t)request->prompt_tokens + request->new_tokens_max,
        .page_count = admit_pages(need),
        .start_pages = admit_start_pages(need, known),
        .partner = request->leader->unit,
        .avoided_unit = request->avoided_unit,
        .roles = BALANCE_ROLE(UNIT_BOTH) |
                 BALANCE_ROLE(request->prompt_only ? UNIT_PREFILL : UNIT_DECODE),
    };
}

/* Of the tenant. The keys are the gateway's own: nothing but a choice of units hangs on them. */
static void make_prefix_keys(struct gateway *gateway, struct request *leader) {
    uint32_t count = (leader->prompt_tokens - 1) / KV_BLOCK_TOKENS;
    if (!gateway->options.prefix_blocks || leader->prefix_keys || count == 0) return;
    uint64_t *keys = arena_take(&leader->arena, count * sizeof *keys);
    if (!keys) return; /* then without */
    prefix_affinity_keys(checksum_of(&leader->tenant, sizeof leader->tenant), leader->prompt, count,
                         keys);
    leader->prefix_keys = keys;
    leader->prefix_key_count = count;
}

/* hits_out[LIMIT_FLEET_UNITS]: what each unit need not compute of the prompt, as far as is known
 * here; what another one computed counts a little less where units share a storage. */
static void find_hits(struct gateway *gateway, struct request *request,
                      struct balance_units_need *need, uint32_t *hits_out) {
    struct request *leader = request->leader;
    make_prefix_keys(gateway, leader);
    if (!leader->prefix_keys || request_scores(request)) return;
    uint32_t known = prefix_affinity_find(&gateway->affinity, leader->prefix_keys,
                                          leader->prefix_key_count, hits_out);
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++) {
        bool loads = gateway->fleet.units[i].load.kv_storage != KV_STORAGE_NONE;
        double more = loads ? BALANCE_UNITS_LOADED * (known - hits_out[i]) : 0;
        hits_out[i] = hits_out[i] * KV_BLOCK_TOKENS + (uint32_t)(more * KV_BLOCK_TOKENS);
    }
    need->prompt_tokens = request->prompt_tokens;
    need->hit_tokens = hits_out;
}

/* Notes the reason, and what the unit will have of the prompt. */
static void note_choice(struct gateway *gateway, struct request *request,
                        const struct units_choice *choice) {
    const struct request *leader = request->leader;
    if (request->choice_reason != 1 + choice->reason || choice->unit != BALANCE_NO_RANK)
        gateway->unit_choices[choice->reason]++;
    request->choice_reason = (uint8_t)(1 + choice->reason);
    if (choice->unit != BALANCE_NO_RANK && leader->prefix_keys)
        prefix_affinity_note(&gateway->affinity, choice->unit, leader->prefix_keys,
                             leader->prefix_key_count);
}

/* Two units: the one that makes the answer is asked first whether it has room. */
static enum outcome place_at_two(struct gateway *gateway, struct request *request,
                                 const struct balance_unit *units) {
    struct balance_units_need need = need_of(request), prefill = need;
    need.roles = BALANCE_ROLE(UNIT_DECODE);
    prefill.roles = BALANCE_ROLE(UNIT_PREFILL);
    prefill.partner = request->leader->prefill;
    prefill.tokens = (uint64_t)request->prompt_tokens + 1;
    prefill.page_count = prefill.start_pages =
        admit_pages((struct admit_need){request->prompt_tokens, 1});
    struct units_choice second = balance_units(&need, units, LIMIT_FLEET_UNITS);
    uint32_t hits[LIMIT_FLEET_UNITS];
    find_hits(gateway, request, &prefill, hits);
    struct units_choice first = balance_units(&prefill, units, LIMIT_FLEET_UNITS);
    if (second.reason == UNITS_WAITS_SIZE || first.reason == UNITS_WAITS_SIZE)
        return OUTCOME_NOT_FOR_TWO;
    if (second.unit == BALANCE_NO_RANK || first.unit == BALANCE_NO_RANK) return OUTCOME_ALL_FULL;
    if (outbox_room(&gateway->outbox) < dispatch_submit_bytes(request)) return OUTCOME_NO_ROOM;
    bind(gateway, request, second.unit, need.start_pages);
    handover_bind(gateway, request, first.unit);
    note_choice(gateway, request, &first);
    request->task = TASK_RESERVING;
    struct record_submit *submit =
        dispatch_put_submit(gateway, request, request->unit, SUBMIT_RESERVE);
    submit->route = handover_route(request);
    return OUTCOME_BOUND;
}

/* One request that waits; `units` as fleet_view. */
static enum outcome place(struct gateway *gateway, struct request *request,
                          const struct balance_unit *units, int64_t now_ns) {
    struct balance_units_need need = need_of(request);
    if (handover_is_possible(gateway, request)) {
        enum outcome outcome = place_at_two(gateway, request, units);
        if (outcome != OUTCOME_NOT_FOR_TWO) return outcome;
    }
    uint32_t hits[LIMIT_FLEET_UNITS];
    find_hits(gateway, request, &need, hits);
    struct units_choice choice = balance_units(&need, units, LIMIT_FLEET_UNITS);
    if (choice.unit != BALANCE_NO_RANK && choice.unit == request->avoided_unit &&
        now_ns < request->retry_ns) {
        if (request->retry_ns < gateway->queue.retry_ns)
            gateway->queue.retry_ns = request->retry_ns;
        return OUTCOME_WENT_ON;
    }
    if (choice.unit != BALANCE_NO_RANK) {
        if (outbox_room(&gateway->outbox) < dispatch_submit_bytes(request)) return OUTCOME_NO_ROOM;
        bind(gateway, request, choice.unit, need.start_pages);
        note_choice(gateway, request, &choice);
        dispatch_put_submit(gateway, request, request->unit, SUBMIT_ANSWER);
        return OUTCOME_BOUND;
    }
    note_choice(gateway, request, &choice);
    if (choice.reason == UNITS_WAITS_ROOM) return OUTCOME_ALL_FULL;
    if (now_ns < gives_up_ns(gateway, request, choice.reason == UNITS_WAITS_SIZE))
        return OUTCOME_WENT_ON;
    request->ending = gateway->draining ? ENDING_DRAINING : ENDING_NO_UNIT;
    dispatch_end(gateway, request, FINISH_CANCELLED);
    return OUTCOME_WENT_ON;
}

/* A request that came before any unit: what it asks for can be judged only now. */
static enum outcome settle(struct gateway *gateway, struct request *leader, int64_t now_ns) {
    enum status status = STATUS_OK;
    if (fleet_knows_model(&gateway->fleet))
        status = intake_settle(gateway, leader, now_ns);
    else if (now_ns >= gives_up_ns(gateway, leader, false))
        status = intake_give_up(gateway, leader);
    return status ? OUTCOME_NO_ROOM : OUTCOME_WENT_ON;
}

static bool has_room(const struct balance_unit *units) {
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (units[i].takes && units[i].requests < units[i].requests_max &&
            units[i].waiting < units[i].rank_count * BALANCE_UNITS_WAITING)
            return true;
    return false;
}

/* Walks the queue once; false when the outbox has no room for what comes next. */
static bool walk(struct gateway *gateway, int64_t now_ns) {
    struct balance_unit units[LIMIT_FLEET_UNITS];
    fleet_view(&gateway->fleet, units);
    for (struct request *request = gateway->queue.first, *next; request; request = next) {
        enum outcome outcome;
        next = request->behind;
        if (request->must_end) {
            outcome = answer_end(gateway, request, now_ns) ? OUTCOME_NO_ROOM : OUTCOME_WENT_ON;
        } else if (request->state == REQUEST_UNSETTLED) {
            outcome = settle(gateway, request, now_ns);
        } else {
            outcome = place(gateway, request, units, now_ns);
            if (outcome == OUTCOME_BOUND) fleet_view(&gateway->fleet, units);
        }
        if (outcome == OUTCOME_NO_ROOM) return false;
        if (outcome == OUTCOME_ALL_FULL && !has_room(units)) return true;
    }
    return true;
}

/* Load reports come often enough to look again. */
static void change_roles(struct gateway *gateway, int64_t now_ns) {
    struct choose_roles_rule rule = {.hold_ns = gateway->options.role_hold_ns,
                                     .rest_ns = ROLE_RESTS * gateway->options.role_hold_ns};
    struct balance_unit units[LIMIT_FLEET_UNITS];
    size_t room = carried_bytes(RECORD_ROLE, NULL);
    if (!rule.hold_ns || outbox_room(&gateway->outbox) < room) return;
    fleet_view(&gateway->fleet, units);
    struct roles_choice choice = choose_roles(&gateway->roles, &rule, units, LIMIT_FLEET_UNITS,
                                              gateway->queue.count, now_ns);
    if (choice.unit == BALANCE_NO_RANK) return;
    enum status status = dispatch_assign(gateway, choice.unit, (enum unit_role)choice.role);
    check(status == STATUS_OK);
    gateway->role_changes_total++;
}

void dispatch_run(struct gateway *gateway, int64_t now_ns) {
    struct request_queue *queue = &gateway->queue;
    watch(gateway, now_ns);
    change_roles(gateway, now_ns);
    if (fleet_serves(&gateway->fleet)) queue->served_ns = now_ns;
    for (bool room = true; room && queue->first;) {
        queue->wanted = false;
        queue->retry_ns = MACHINE_NEVER;
        room = walk(gateway, now_ns);
        if (room && !queue->wanted)
            return; /* else who ended has ended others: they stand in front */
        queue->wanted = true;
    }
}

int64_t dispatch_wake_ns(const struct gateway *gateway) {
    const struct request_queue *queue = &gateway->queue;
    int64_t wake_ns = MACHINE_NEVER;
    if (queue->first && queue->wanted) return 0;
    if (queue->first) wake_ns = queue->retry_ns;
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (silent_at_ns(gateway, i) < wake_ns) wake_ns = silent_at_ns(gateway, i);
    if (fleet_serves(&gateway->fleet)) return wake_ns;
    for (const struct request *request = queue->first; request; request = request->behind)
        if (gives_up_ns(gateway, request, false) < wake_ns)
            wake_ns = gives_up_ns(gateway, request, false);
    return wake_ns;
}

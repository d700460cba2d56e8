/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dispatch.h"

#include "base/check.h"
#include "base/checksum.h"
#include "base/number.h"
#include "serving/gateway/request_lines.h"
#include "serving/policy/admit.h"
#include "serving/policy/fair_queue.h"

#define LOOKS_MAX                                                                                  \
    1024             /* consecutive requests without a unit after which the search stops for this
                      * step, so that the time of a step does not grow with the queue */
#define ROLE_RESTS 5 /* multiple of role_hold_ns between two role changes */

/* ---- records to units ---- */

/* The SUBMIT with the counts of its tail only. */
static struct record_submit submit_counts(const struct request *request) {
    return (struct record_submit){.prompt_count = request->asked.prompt_tokens,
                                  .resumed_count = request->answered.output_tokens,
                                  .stop_token_count = request->asked.stop_token_count,
                                  .bias_count = request->asked.bias_count,
                                  .constraint_bytes = (uint32_t)request->asked.constraint.count,
                                  .name_bytes = (uint32_t)request->asked.name.count};
}

size_t dispatch_submit_bytes(const struct request *request) {
    struct record_submit counts = submit_counts(request);
    return machine_envelope_bytes(RECORD_SUBMIT, &counts);
}

static void write_token(void *context, uint32_t index, const struct token_logprob *entries) {
    ((uint32_t *)context)[index] = entries->token;
}

struct record_submit *dispatch_put_submit(struct gateway *gateway, const struct request *request,
                                          enum request_part part, enum submit_task task) {
    const struct request_asked *asked = &request->asked;
    struct unit_id unit = gateway->fleet.units[request->life.at[part].unit].id;
    struct record_submit counts = submit_counts(request);
    struct record_submit *submit =
        machine_outbox_put_envelope(&gateway->outbox, RECORD_TO_UNIT, unit, RECORD_SUBMIT, &counts);
    check(submit);
    submit->task = task;
    submit->request = request->id;
    submit->sampling = asked->sampling;
    if (task == SUBMIT_RESERVE || !request_scores(request))
        submit->sampling.flags &= ~SAMPLING_SCORES;
    submit->new_tokens_max = asked->new_tokens_max;
    submit->tenant = asked->tenant;
    submit->account = accounts_salt(&gateway->accounts, asked->account);
    uint32_t *tokens = submit_tokens(submit);
    memcpy(tokens, asked->prompt, asked->prompt_tokens * sizeof *tokens);
    token_list_visit(&request->answered.tokens, 0, submit->resumed_count, write_token,
                     tokens + asked->prompt_tokens);
    memcpy(submit_stop_tokens(submit), asked->stop_tokens,
           asked->stop_token_count * sizeof *asked->stop_tokens);
    if (asked->bias_count)
        memcpy(submit_biases(submit), asked->biases, asked->bias_count * sizeof *asked->biases);
    if (asked->constraint.count)
        memcpy(submit_constraint(submit), asked->constraint.data, asked->constraint.count);
    if (asked->name.count) memcpy(submit_name(submit), asked->name.data, asked->name.count);
    return submit;
}

/* ---- the choice of a unit ---- */

enum outcome {
    OUTCOME_WENT_ON,
    OUTCOME_BOUND,
    OUTCOME_NO_ROOM,
    OUTCOME_ALL_FULL,
    OUTCOME_NOT_FOR_TWO
};

/* A bit mask of the numerics that the request's units may have; 0: any. An answer must not mix
 * tokens of two numerics. */
static uint64_t numerics_of(const struct request *request) {
    uint32_t numerics = request->leader->life.numerics;
    return numerics == FLEET_NONE ? 0 : (uint64_t)1 << numerics;
}

static struct balance_units_need need_of(const struct request *request) {
    const struct request_asked *asked = &request->asked;
    struct admit_need need = {asked->prompt_tokens, asked->new_tokens_max};
    uint32_t known = asked->prompt_tokens + request->answered.output_tokens;
    return (struct balance_units_need){
        .tokens = (uint64_t)asked->prompt_tokens + asked->new_tokens_max,
        .page_count = admit_pages(need),
        .start_pages = admit_start_pages(need, known),
        .partner = request->head->life.at[PART_ANSWER].unit,
        .avoided_unit = request->placing.avoided_unit,
        .numerics = numerics_of(request),
        .roles =
            BALANCE_ROLE(UNIT_BOTH) | BALANCE_ROLE(asked->prompt_only ? UNIT_PREFILL : UNIT_DECODE),
    };
}

/* Makes the prefix-affinity keys of the prompt. They include the tenant, and affect only the choice
 * of units. */
static void make_prefix_keys(struct gateway *gateway, struct request *head) {
    const struct request_asked *asked = &head->asked;
    uint32_t count = (asked->prompt_tokens - 1) / KV_BLOCK_TOKENS;
    if (!gateway->options.prefix_blocks || head->placing.prefix_keys || count == 0) return;
    uint64_t *keys = arena_take(&head->arena, count * sizeof *keys);
    if (!keys) return; /* route without affinity */
    prefix_affinity_keys(checksum_of(&asked->tenant, sizeof asked->tenant), asked->prompt, count,
                         keys);
    head->placing.prefix_keys = keys;
    head->placing.prefix_key_count = count;
}

/* Counts the prefix blocks that a shared KV storage may have for the unit: those computed with its
 * numerics. */
static uint32_t known_for(const struct fleet *fleet, uint32_t unit, const uint32_t *hits) {
    uint32_t known = hits[unit];
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (fleet_is_member(fleet, i) && fleet->units[i].numerics == fleet->units[unit].numerics)
            known = max_u32(known, hits[i]);
    return known;
}

/* hits_out[LIMIT_FLEET_UNITS]: predicted prefix-cache hits, in tokens, at each unit. If units share
 * a storage, blocks that another unit computed count slightly less. */
static void find_hits(struct gateway *gateway, struct request *request,
                      struct balance_units_need *need, uint32_t *hits_out) {
    const struct request_placing *heads = &request->head->placing;
    make_prefix_keys(gateway, request->head);
    if (!heads->prefix_keys || request_scores(request)) return;
    const struct fleet *fleet = &gateway->fleet;
    uint32_t hits[LIMIT_FLEET_UNITS];
    uint32_t all =
        prefix_affinity_find(&gateway->affinity, heads->prefix_keys, heads->prefix_key_count, hits);
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++) {
        bool loads = fleet->units[i].load.kv_storage != KV_STORAGE_NONE;
        uint32_t known = loads && fleet->is_mixed ? known_for(fleet, i, hits) : all;
        double more = loads ? BALANCE_UNITS_LOADED * (known - hits[i]) : 0;
        hits_out[i] = hits[i] * KV_BLOCK_TOKENS + (uint32_t)(more * KV_BLOCK_TOKENS);
    }
    need->prompt_tokens = request->asked.prompt_tokens;
    need->hit_tokens = hits_out;
}

/* Counts the reason of the choice, and notes the prompt blocks that the unit will have. */
static void dispatch_note_choice(struct gateway *gateway, struct request *request,
                                 const struct units_choice *choice) {
    const struct request_placing *heads = &request->head->placing;
    if (request->placing.choice_reason != 1 + choice->reason || choice->unit != BALANCE_NO_RANK)
        gateway->unit_choices[choice->reason]++;
    request->placing.choice_reason = (uint8_t)(1 + choice->reason);
    if (choice->unit != BALANCE_NO_RANK && heads->prefix_keys)
        prefix_affinity_note(&gateway->affinity, choice->unit, heads->prefix_keys,
                             heads->prefix_key_count);
}

/* Prompt tokens that some unit has in its prefix cache or can load. */
static uint32_t hit_tokens_of(struct gateway *gateway, struct request *head) {
    uint32_t hits[LIMIT_FLEET_UNITS];
    make_prefix_keys(gateway, head);
    if (!head->placing.prefix_keys || request_scores(head)) return 0;
    return KV_BLOCK_TOKENS * prefix_affinity_find(&gateway->affinity, head->placing.prefix_keys,
                                                  head->placing.prefix_key_count, hits);
}

struct request_work dispatch_work(struct gateway *gateway, struct request *leader) {
    uint64_t prompt_tokens = 0, answer_tokens = 0;
    bool has_account = leader->asked.account != ACCOUNT_NONE;
    if (!has_account && !gateway->options.ttft_limit_ns) return (struct request_work){0};
    for (uint32_t i = 0; i < leader->prompt_count; i++) {
        struct request *head = request_head(leader, i);
        prompt_tokens += head->asked.prompt_tokens - hit_tokens_of(gateway, head);
    }
    for (uint32_t i = 0; i < leader->choice_count; i++)
        answer_tokens +=
            predict_length_left(&gateway->lengths, 0, leader->choices[i]->asked.new_tokens_max);
    uint64_t tokens = prompt_tokens + FAIR_QUEUE_ANSWER * answer_tokens;
    if (!has_account) return (struct request_work){.tokens = tokens};
    const struct account *account = &gateway->accounts.slots[leader->asked.account].is;
    return (struct request_work){
        tokens, fair_queue_work(tokens, account->weight, (enum account_priority)account->priority)};
}

/* ---- disaggregated prefill and decode ---- */

/* A bit mask of the numerics that the request may have and for which the fleet has both prefill and
 * decode units. 0: none, or the request cannot be split. */
static uint64_t may_be_shared(const struct gateway *gateway, const struct request *request) {
    const struct request_placing *placing = &request->placing;
    uint64_t computes = 0, answers = 0, wanted = numerics_of(request);
    if (request->asked.prompt_only || request->answered.output_tokens || placing->retries ||
        placing->refusals || placing->losses)
        return 0;
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++) {
        const struct fleet_unit *unit = &gateway->fleet.units[i];
        uint64_t numerics = (uint64_t)1 << unit->numerics;
        if (!fleet_accepts(&gateway->fleet, i)) continue;
        if (unit->hello.role == UNIT_PREFILL) computes |= numerics;
        if (unit->hello.role == UNIT_DECODE && fleet_moves_blocks(&gateway->fleet, i))
            answers |= numerics;
    }
    return computes & answers & (wanted ? wanted : UINT64_MAX);
}

struct kv_route dispatch_route(const struct request *request) {
    uint64_t attempt = (uint64_t)(request->id.attempt + 1) << 32;
    return (struct kv_route){.grant = {request->id.high, request->id.low ^ attempt}};
}

/* Chooses both units and first asks the decode unit for pages. `numerics` is the result of
 * may_be_shared. */
static enum outcome place_at_two(struct gateway *gateway, struct request *request,
                                 const struct balance_unit *units, uint64_t numerics) {
    uint32_t prompt_tokens = request->asked.prompt_tokens;
    struct balance_units_need need = need_of(request), prefill = need;
    need.roles = BALANCE_ROLE(UNIT_DECODE);
    need.numerics = numerics;
    prefill.roles = BALANCE_ROLE(UNIT_PREFILL);
    prefill.partner = request->head->life.at[PART_PROMPT].unit;
    prefill.tokens = (uint64_t)prompt_tokens + 1;
    prefill.page_count = prefill.start_pages = admit_pages((struct admit_need){prompt_tokens, 1});
    struct units_choice second = balance_units(&need, units, LIMIT_FLEET_UNITS);
    prefill.numerics = second.unit == BALANCE_NO_RANK
                           ? numerics
                           : (uint64_t)1 << gateway->fleet.units[second.unit].numerics;
    uint32_t hits[LIMIT_FLEET_UNITS];
    find_hits(gateway, request, &prefill, hits);
    struct units_choice first = balance_units(&prefill, units, LIMIT_FLEET_UNITS);
    if (second.reason == UNITS_WAITS_SIZE || first.reason == UNITS_WAITS_SIZE)
        return OUTCOME_NOT_FOR_TWO;
    if (second.unit == BALANCE_NO_RANK || first.unit == BALANCE_NO_RANK) return OUTCOME_ALL_FULL;
    if (!gateway_can_put(gateway, dispatch_submit_bytes(request))) return OUTCOME_NO_ROOM;
    request_reserve(gateway, request, second.unit, need.start_pages, first.unit,
                    prefill.start_pages);
    dispatch_note_choice(gateway, request, &first);
    struct record_submit *submit =
        dispatch_put_submit(gateway, request, PART_ANSWER, SUBMIT_RESERVE);
    submit->route = dispatch_route(request);
    struct fleet_unit *asked = &gateway->fleet.units[second.unit];
    asked->full = asked->scarce; /* until it has reserved pages, or its next load report */
    return OUTCOME_BOUND;
}

/* ---- waiting requests ---- */

int64_t dispatch_gives_up_ns(const struct gateway *gateway, const struct request *request,
                             bool any_serves) {
    int64_t since = request->life.waits_since_ns;
    if (gateway->draining) return 0; /* no unit will connect any more */
    if (!any_serves && gateway->served_ns > since) since = gateway->served_ns;
    return since + gateway->options.unit_wait_ns;
}

/* Places one request; `units` is from fleet_view. */
static enum outcome dispatch_place(struct gateway *gateway, struct request *request,
                                   const struct balance_unit *units, int64_t now_ns) {
    struct balance_units_need need = need_of(request);
    int64_t retry_ns = request->placing.retry_ns;
    uint64_t shared = may_be_shared(gateway, request);
    if (shared) {
        enum outcome outcome = place_at_two(gateway, request, units, shared);
        if (outcome != OUTCOME_NOT_FOR_TWO) return outcome;
    }
    uint32_t hits[LIMIT_FLEET_UNITS];
    find_hits(gateway, request, &need, hits);
    struct units_choice choice = balance_units(&need, units, LIMIT_FLEET_UNITS);
    if (choice.unit != BALANCE_NO_RANK && choice.unit == request->placing.avoided_unit &&
        now_ns < retry_ns) {
        gateway->retry_ns = min_i64(gateway->retry_ns, retry_ns);
        return OUTCOME_WENT_ON;
    }
    if (choice.unit != BALANCE_NO_RANK) {
        if (!gateway_can_put(gateway, dispatch_submit_bytes(request))) return OUTCOME_NO_ROOM;
        request_bind(gateway, request, choice.unit, need.start_pages);
        dispatch_note_choice(gateway, request, &choice);
        dispatch_put_submit(gateway, request, PART_ANSWER, SUBMIT_ANSWER);
        return OUTCOME_BOUND;
    }
    dispatch_note_choice(gateway, request, &choice);
    if (choice.reason == UNITS_WAITS_ROOM) return OUTCOME_ALL_FULL;
    /* Units may serve that are too small for the request or have other numerics. */
    bool any_serves = fleet_serves(&gateway->fleet);
    int64_t gives_up_ns = dispatch_gives_up_ns(gateway, request, any_serves);
    bool is_bound = any_serves && choice.reason == UNITS_WAITS_UNIT;
    if (now_ns < gives_up_ns) {
        if (any_serves) gateway->retry_ns = min_i64(gateway->retry_ns, gives_up_ns);
        return OUTCOME_WENT_ON;
    }
    request_cancel(gateway, request,
                   gateway->draining ? CAUSE_DRAINING
                   : is_bound        ? CAUSE_NUMERICS_GONE
                                     : CAUSE_NO_UNIT);
    return OUTCOME_WENT_ON;
}

static bool dispatch_has_room(const struct balance_unit *units) {
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (units[i].accepts && units[i].requests < units[i].requests_max &&
            units[i].waiting < units[i].rank_count * BALANCE_UNITS_WAITING)
            return true;
    return false;
}

static void end_late(struct gateway *gateway, int64_t now_ns) {
    uint32_t slot = 0;
    while (due_heap_first(&gateway->requests.queue_ends, &slot) <= now_ns)
        request_cancel(gateway, &gateway->requests.slots[slot], CAUSE_QUEUED_LONG);
}

/* The earliest time at which a waiting request gives up while no unit serves. */
static int64_t first_gives_up_ns(const struct gateway *gateway, uint32_t *slot_out) {
    const struct request_table *requests = &gateway->requests;
    if (due_heap_first(&requests->waits_since, slot_out) == DUE_NEVER) return MACHINE_NEVER;
    return dispatch_gives_up_ns(gateway, &requests->slots[*slot_out], false);
}

static void end_hopeless(struct gateway *gateway, int64_t now_ns) {
    uint32_t slot = 0;
    if (fleet_serves(&gateway->fleet)) return;
    while (first_gives_up_ns(gateway, &slot) <= now_ns)
        request_cancel(gateway, &gateway->requests.slots[slot],
                       gateway->draining ? CAUSE_DRAINING : CAUSE_NO_UNIT);
}

static void view_again(const struct gateway *gateway, const struct request *request, int64_t now_ns,
                       struct balance_unit *units) {
    for (uint32_t part = 0; part < PART_COUNT; part++)
        if (request->life.at[part].unit != FLEET_NONE)
            fleet_view_unit(&gateway->fleet, request->life.at[part].unit, now_ns, units);
}

static bool dispatch_place_all(struct gateway *gateway, int64_t now_ns) {
    struct request_lines *lines = &gateway->requests.waiting;
    struct balance_unit units[LIMIT_FLEET_UNITS];
    struct request *request;
    uint32_t looks = 0;
    fleet_view(&gateway->fleet, now_ns, units);
    gateway->retry_ns = MACHINE_NEVER;
    while ((request = request_lines_next(lines))) {
        enum outcome outcome = dispatch_place(gateway, request, units, now_ns);
        if (outcome == OUTCOME_NO_ROOM) return false;
        if (outcome == OUTCOME_BOUND) view_again(gateway, request, now_ns, units);
        if (outcome == OUTCOME_ALL_FULL) request_lines_pass(lines, request);
        if (outcome != OUTCOME_BOUND && ++looks == LOOKS_MAX) return true;
        if (outcome == OUTCOME_ALL_FULL && !dispatch_has_room(units)) return true;
    }
    return true;
}

bool dispatch_run(struct gateway *gateway, int64_t now_ns) {
    struct request_lines *lines = &gateway->requests.waiting;
    end_late(gateway, now_ns);
    end_hopeless(gateway, now_ns);
    if (!lines->count) return true;
    request_lines_begin(lines);
    bool room = dispatch_place_all(gateway, now_ns);
    request_lines_end(lines);
    return room;
}

int64_t dispatch_wake_ns(const struct gateway *gateway) {
    const struct request_table *requests = &gateway->requests;
    uint32_t slot;
    int64_t wake_ns = requests->waiting.count ? gateway->retry_ns : MACHINE_NEVER;
    wake_ns = min_i64(wake_ns, due_heap_first(&requests->queue_ends, &slot));
    if (fleet_serves(&gateway->fleet)) return wake_ns;
    if (requests->unchecked.first) /* the list is in the order in which they give up */
        wake_ns = min_i64(wake_ns, dispatch_gives_up_ns(gateway, requests->unchecked.first, false));
    return min_i64(wake_ns, first_gives_up_ns(gateway, &slot));
}

/* ---- roles ---- */

/* The unit finishes its current requests as they were submitted. The role affects only later
 * ones. */
enum status dispatch_assign(struct gateway *gateway, uint32_t unit, enum unit_role role) {
    if (!machine_outbox_put_envelope(&gateway->outbox, RECORD_TO_UNIT,
                                     gateway->fleet.units[unit].id, RECORD_ROLE,
                                     &(struct record_role){.role = role}))
        return STATUS_FULL;
    fleet_assign(&gateway->fleet, unit, role);
    gateway->changed = true;
    return STATUS_OK;
}

void dispatch_change_roles(struct gateway *gateway, int64_t now_ns) {
    struct choose_roles_rule rule = {.hold_ns = gateway->options.role_hold_ns,
                                     .rest_ns = ROLE_RESTS * gateway->options.role_hold_ns};
    struct balance_unit units[LIMIT_FLEET_UNITS];
    size_t room = machine_envelope_bytes(RECORD_ROLE, NULL);
    if (!rule.hold_ns || !gateway_can_put(gateway, room)) return;
    fleet_view(&gateway->fleet, now_ns, units);
    struct roles_choice choice = choose_roles(&gateway->roles, &rule, units, LIMIT_FLEET_UNITS,
                                              gateway_queued_count(gateway), now_ns);
    if (choice.unit == BALANCE_NO_RANK) return;
    enum status status = dispatch_assign(gateway, choice.unit, (enum unit_role)choice.role);
    check(status == STATUS_OK);
    gateway->role_changes_total++;
}

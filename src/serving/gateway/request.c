/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/request.h"

#include "base/check.h"
#include "serving/gateway/gateway_state.h"
#include "serving/gateway/request_lines.h"
#include "serving/gateway/request_list.h"

#define LINE_BYTES 64u /* bytes of a CPU cache line */

/* ---- states and lists ---- */

static uint32_t request_slot_of(const struct gateway *gateway, const struct request *request) {
    return (uint32_t)(request - gateway->requests.slots);
}

#define IN(state) (1u << REQUEST_##state)
#define BEFORE_WAITING (IN(READING) | IN(TOKENIZING) | IN(UNCHECKED))
#define UNDISTURBED (IN(ANSWERING) | IN(RESERVING) | IN(PREFILLING) | IN(CONTINUED))
#define AT_UNITS (UNDISTURBED | IN(ANSWERED) | IN(CANCELLED))
#define LEADERS_LISTED (IN(UNCHECKED) | IN(COMMITTING)) /* only leaders are in these lists */

static void require(const struct request *request, uint32_t states) {
    check(1u << request->life.state & states);
}

static bool request_is_listed(const struct request *request) {
    uint32_t state = 1u << request->life.state;
    if (state & LEADERS_LISTED) return request->leader == request;
    return state & (IN(WAITING) | IN(FINISHING));
}

/* The list of a state with a list, except WAITING. */
static struct request_list *request_list_of(struct gateway *gateway, enum request_state state) {
    struct request_table *requests = &gateway->requests;
    if (state == REQUEST_UNCHECKED) return &requests->unchecked;
    return state == REQUEST_COMMITTING ? &requests->committing : &requests->finishing;
}

static void add_to_list(struct gateway *gateway, struct request *request) {
    enum request_state state = (enum request_state)request->life.state;
    if (state == REQUEST_WAITING)
        request_lines_add(&gateway->requests.waiting, request);
    else /* FINISHING is last in, first out */
        request_list_add(request_list_of(gateway, state), request, state == REQUEST_FINISHING);
}

static void take_from_list(struct gateway *gateway, struct request *request) {
    enum request_state state = (enum request_state)request->life.state;
    if (state == REQUEST_WAITING)
        request_lines_take_out(&gateway->requests.waiting, request);
    else
        request_list_take_out(request_list_of(gateway, state), request);
}

/* The deadline for a request to begin; DUE_NEVER: it has begun before. */
static int64_t queue_ends_ns(const struct gateway *gateway, const struct request *request) {
    bool begun = request->answered.output_tokens || request->answered.scored_count;
    return begun ? DUE_NEVER : request->times.arrived_ns + gateway->options.queue_ns;
}

static void note_wait(struct gateway *gateway, const struct request *request) {
    struct request_table *requests = &gateway->requests;
    uint32_t slot = request_slot_of(gateway, request);
    bool waits = request->life.state == REQUEST_WAITING;
    due_heap_set(&requests->queue_ends, slot, waits ? queue_ends_ns(gateway, request) : DUE_NEVER);
    due_heap_set(&requests->waits_since, slot, waits ? request->life.waits_since_ns : DUE_NEVER);
}

static void request_set_state(struct gateway *gateway, struct request *request,
                              enum request_state state) {
    enum request_state before = (enum request_state)request->life.state;
    if (request_is_listed(request)) take_from_list(gateway, request);
    gateway->requests.counts[before]--;
    gateway->requests.counts[state]++;
    request->life.state = (uint8_t)state;
    if (before == REQUEST_WAITING || state == REQUEST_WAITING) note_wait(gateway, request);
    if (!request_is_listed(request)) return;
    add_to_list(gateway, request);
    gateway->changed = true;
}

static void set_all(struct gateway *gateway, struct request *leader, enum request_state state) {
    check(leader->leader == leader);
    for (uint32_t i = 0; i < leader->choice_count; i++)
        request_set_state(gateway, leader->choices[i], state);
}

/* ---- tables ---- */

size_t request_table_bytes(uint32_t requests_max) {
    size_t each = sizeof(struct request) + sizeof(uint32_t);
    return requests_max * each + 2 * map_bytes(requests_max) + 3 * due_heap_bytes(requests_max) +
           request_lines_bytes(accounts_slots(requests_max)) + 64;
}

enum status request_open_all(struct gateway *gateway, struct arena *arena) {
    struct request_table *requests = &gateway->requests;
    uint32_t count = gateway->options.requests_max;
    requests->slots = arena_take(arena, count * sizeof *requests->slots);
    requests->free_slots = arena_take(arena, count * sizeof *requests->free_slots);
    if (!requests->slots || !requests->free_slots) return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        requests->free_slots[i] = count - 1 - i;
    requests->counts[REQUEST_FREE] = count;
    enum status status = due_heap_open(&requests->keep_alive, arena, count);
    if (!status) status = due_heap_open(&requests->queue_ends, arena, count);
    if (!status) status = due_heap_open(&requests->waits_since, arena, count);
    if (!status) status = request_lines_open(&requests->waiting, arena, accounts_slots(count));
    if (!status) status = map_open(&requests->by_id, arena, count);
    return status ? status : map_open(&requests->by_connection, arena, count);
}

/* The map's key omits the attempt, so only the latest attempt is found. */
static struct map_key key_of_id(struct request_id id) {
    return (struct map_key){id.high, id.low, 0};
}

static struct map_key key_of_connection(struct connection_id connection) {
    return (struct map_key){0, connection.value, 0};
}

struct request *request_find(struct gateway *gateway, struct request_id id) {
    struct request_table *requests = &gateway->requests;
    uint32_t slot = map_find(&requests->by_id, key_of_id(id));
    if (slot == MAP_NONE || requests->slots[slot].id.attempt != id.attempt) return NULL;
    return &requests->slots[slot];
}

/* Prefetches line by line. The first and the last line may be shared with neighbouring data. */
static void prefetch_from(const void *first, const void *behind) {
    const char *at = (const char *)first - (uintptr_t)first % LINE_BYTES;
    for (; at < (const char *)behind; at += LINE_BYTES)
        __builtin_prefetch(at, 1);
}

/* Prefetches the parts of a request that handling a unit's TOKENS reads and writes. */
static void prefetch_request(const struct request *request) {
    const struct request_answered *answered = &request->answered;
    prefetch_from(&answered->words.calls.set, &answered->receipt.parts[PART_ANSWER].work);
    prefetch_from(&request->id, &request->asked.answer.tokenizer);
}

void request_prefetch_places(const struct gateway *gateway, const struct request_id *ids,
                             uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        map_prefetch(&gateway->requests.by_id, key_of_id(ids[i]));
}

void request_prefetch(const struct gateway *gateway, const struct request_id *ids, uint32_t count) {
    const struct request_table *requests = &gateway->requests;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = map_find(&requests->by_id, key_of_id(ids[i]));
        if (slot != MAP_NONE) prefetch_request(&requests->slots[slot]);
    }
}

struct request *request_of_connection(struct gateway *gateway, struct connection_id connection) {
    uint32_t slot = map_find(&gateway->requests.by_connection, key_of_connection(connection));
    return slot == MAP_NONE ? NULL : &gateway->requests.slots[slot];
}

void request_keep_alive(struct gateway *gateway, const struct request *leader, int64_t at_ns) {
    due_heap_set(&gateway->requests.keep_alive, request_slot_of(gateway, leader), at_ns);
}

void request_forget_connection(struct gateway *gateway, struct request *leader) {
    if (leader->unreported.gone) return;
    map_remove(&gateway->requests.by_connection, key_of_connection(leader->unreported.connection));
    leader->unreported.gone = true;
    request_keep_alive(gateway, leader, MACHINE_NEVER);
}

/* ---- from the claim to the wait for a unit ---- */

/* Opens a slot that is used for the first time. Free slots are taken lowest first. */
static void request_open_slot(struct gateway *gateway, uint32_t slot) {
    struct request *request = &gateway->requests.slots[slot];
    check(slot == gateway->requests.slots_used);
    gateway->requests.slots_used++;
    memset(request, 0, sizeof *request);
    arena_open(&request->arena, &gateway->pool);
    tokenize_queue_open_waiting(&gateway->tokenize_queue, &request->waiting_text);
    tokenize_queue_open_waiting(&gateway->constraints, &request->waiting_constraint);
}

static struct request *claim_slot(struct gateway *gateway, struct request_id id) {
    struct request_table *requests = &gateway->requests;
    uint32_t slot = requests->free_slots[requests->counts[REQUEST_FREE] - 1];
    struct request *request = &requests->slots[slot];
    if (slot >= requests->slots_used) request_open_slot(gateway, slot);
    require(request, IN(FREE));
    while (map_find(&requests->by_id, key_of_id(id)) != MAP_NONE)
        id.low++;
    request->id = id;
    for (uint32_t part = 0; part < PART_COUNT; part++)
        request->life.at[part].unit = FLEET_NONE;
    request->placing.avoided_unit = request->life.numerics = FLEET_NONE;
    request->asked.account = request->asked.key = ACCOUNT_NONE;
    map_add(&requests->by_id, key_of_id(id), slot);
    request_set_state(gateway, request, REQUEST_READING);
    return request;
}

static void release_slot(struct gateway *gateway, struct request *request) {
    struct request_table *requests = &gateway->requests;
    uint32_t slot = request_slot_of(gateway, request);
    require(request, BEFORE_WAITING | IN(DONE) | IN(COMMITTING));
    request_keep_alive(gateway, request, MACHINE_NEVER);
    map_remove(&requests->by_id, key_of_id(request->id));
    tokenize_queue_forget(&gateway->tokenize_queue, &request->waiting_text);
    tokenize_queue_forget(&gateway->constraints, &request->waiting_constraint);
    arena_clear(&request->arena);
    request_set_state(gateway, request, REQUEST_FREE);
    struct arena arena = request->arena, text = request->waiting_text.arena,
                 constraint = request->waiting_constraint.arena;
    *request = (struct request){.arena = arena,
                                .waiting_text = {.arena = text},
                                .waiting_constraint = {.arena = constraint}};
    requests->free_slots[requests->counts[REQUEST_FREE] - 1] = slot;
}

static bool open_choices(struct request *leader, uint32_t choice_count) {
    leader->alone = leader;
    leader->choices = &leader->alone;
    if (choice_count > 1)
        leader->choices = arena_take(&leader->arena, choice_count * sizeof *leader->choices);
    return leader->choices != NULL;
}

struct request *request_claim(struct gateway *gateway, const struct record_client_request *record,
                              uint32_t prompt_count, uint32_t answers_each) {
    uint32_t choice_count = prompt_count * answers_each;
    check(choice_count >= 1 && choice_count <= LIMIT_ANSWERS);
    if (gateway->requests.counts[REQUEST_FREE] < choice_count) return NULL;
    struct request *leader = NULL;
    for (uint32_t i = 0; i < choice_count; i++) {
        struct request *request = claim_slot(
            gateway, (struct request_id){.high = record->random[0], .low = record->random[1]});
        if (i == 0 && !open_choices(leader = request, choice_count)) {
            release_slot(gateway, leader);
            return NULL;
        }
        request->leader = leader;
        request->head = i % answers_each ? leader->choices[i - i % answers_each] : request;
        request->index = i;
        request->unreported.connection = record->connection;
        leader->choices[i] = request;
    }
    leader->choice_count = choice_count;
    leader->prompt_count = prompt_count;
    map_add(&gateway->requests.by_connection, key_of_connection(record->connection),
            request_slot_of(gateway, leader));
    return leader;
}

void request_tokenize(struct gateway *gateway, struct request *leader) {
    require(leader, IN(READING));
    set_all(gateway, leader, REQUEST_TOKENIZING);
}

static void request_arrive(struct gateway *gateway, struct request *leader, int64_t now_ns) {
    bool again = leader->life.state == REQUEST_UNCHECKED;
    uint64_t arrival = again ? leader->life.arrival : gateway->requests.arrivals++;
    for (uint32_t i = 0; i < leader->choice_count; i++) {
        leader->choices[i]->life.arrival = arrival;
        leader->choices[i]->life.waits_since_ns = now_ns;
    }
}

void request_mark_unchecked(struct gateway *gateway, struct request *leader, int64_t now_ns) {
    require(leader, IN(READING) | IN(TOKENIZING));
    request_arrive(gateway, leader, now_ns);
    set_all(gateway, leader, REQUEST_UNCHECKED);
}

void request_wait(struct gateway *gateway, struct request *leader, struct request_work work,
                  int64_t now_ns) {
    require(leader, BEFORE_WAITING);
    request_arrive(gateway, leader, now_ns);
    uint64_t turn =
        request_lines_turn(&gateway->requests.waiting, leader->asked.account, work.turn);
    for (uint32_t i = 0; i < leader->choice_count; i++) {
        leader->choices[i]->life.turn = turn;
        leader->choices[i]->life.work_tokens =
            work.tokens / leader->choice_count + (i < work.tokens % leader->choice_count);
    }
    set_all(gateway, leader, REQUEST_WAITING);
}

/* ---- at units ---- */

/* Counts the request as work ahead of others until its first token. */
static void begin_work(struct gateway *gateway, struct request *request) {
    if (request->answered.output_tokens || request->life.is_begun) return;
    request->life.is_begun = true;
    gateway->begun_tokens += request->life.work_tokens;
}

static void end_work(struct gateway *gateway, struct request *request) {
    if (!request->life.is_begun) return;
    request->life.is_begun = false;
    gateway->begun_tokens -= request->life.work_tokens;
}

/* Sets the request's numerics, which answers report as fingerprint. */
static void keep_numerics(struct gateway *gateway, struct request *leader, uint32_t numerics) {
    if (leader->life.numerics == numerics) return;
    check(leader->life.numerics == FLEET_NONE);
    leader->life.numerics = numerics;
    for (uint32_t i = 0; i < leader->choice_count; i++)
        leader->choices[i]->asked.answer.fingerprint = bytes_of(gateway->fingerprints[numerics]);
}

static bool request_has_begun(const struct request *request) {
    return request->life.at[PART_ANSWER].unit != FLEET_NONE || request_is_shared(request) ||
           request->answered.output_tokens || request->answered.scored_count;
}

static void free_numerics(struct request *leader) {
    for (uint32_t i = 0; i < leader->choice_count; i++)
        if (request_has_begun(leader->choices[i])) return;
    leader->life.numerics = FLEET_NONE;
}

static void bind_part(struct gateway *gateway, struct request *request, enum request_part part,
                      struct request_binding binding) {
    struct fleet_unit *unit = &gateway->fleet.units[binding.unit];
    keep_numerics(gateway, request->leader, unit->numerics);
    request->life.at[part] = binding;
    unit->promised_pages += binding.promised_pages;
    unit->bound++;
    unit->fresh++;
}

static struct receipt_stay stay_of(const struct gateway *gateway,
                                   const struct request_binding *binding) {
    const struct fleet_unit *unit = &gateway->fleet.units[binding->unit];
    return (struct receipt_stay){
        .instance = unit->hello.instance, .unit = unit->number, .role = binding->role};
}

struct receipt request_receipt(const struct gateway *gateway, const struct request *request) {
    struct receipt receipt = request->answered.receipt;
    for (uint32_t part = PART_COUNT; part-- > 0;) {
        const struct request_binding *binding = &request->life.at[part];
        if (binding->unit != FLEET_NONE)
            receipt_leave(&receipt, (enum request_part)part, stay_of(gateway, binding));
    }
    return receipt;
}

/* True if the unit may do more work for the request than it has reported. A unit that was only
 * asked for pages does none. */
static bool may_go_on(const struct request *request, enum request_part part) {
    const struct request_binding *binding = &request->life.at[part];
    bool only_reserves =
        request->life.state == REQUEST_RESERVING || request->life.state == REQUEST_PREFILLING;
    return binding->reported && !binding->ended && !(part == PART_ANSWER && only_reserves);
}

/* Unbinds the unit and adds its reported work to the receipt. */
static void unbind_part(struct gateway *gateway, struct request *request, enum request_part part) {
    struct request_binding *binding = &request->life.at[part];
    if (binding->unit == FLEET_NONE) return;
    struct fleet_unit *unit = &gateway->fleet.units[binding->unit];
    receipt_leave(&request->answered.receipt, part, stay_of(gateway, binding));
    unit->promised_pages -= binding->promised_pages;
    unit->bound--;
    if (part == PART_ANSWER) end_work(gateway, request);
    unit->given_up |= may_go_on(request, part);
    *binding = (struct request_binding){.unit = FLEET_NONE};
    gateway->changed = true;
}

static void unbind_parts(struct gateway *gateway, struct request *request) {
    unbind_part(gateway, request, PART_PROMPT);
    unbind_part(gateway, request, PART_ANSWER);
}

static void count_attempt(struct gateway *gateway, struct request *request) {
    const struct request_placing *placing = &request->placing;
    request->answered.receipt.attempts++;
    gateway->resumed_total +=
        placing->losses || placing->retries || placing->refusals || request->answered.output_tokens;
}

void request_bind(struct gateway *gateway, struct request *request, uint32_t unit, uint64_t pages) {
    require(request, IN(WAITING));
    struct request_binding binding = {.unit = unit,
                                      .role = UNIT_BOTH,
                                      .reported = true,
                                      .known_tokens = request->answered.output_tokens,
                                      .promised_pages = pages};
    bind_part(gateway, request, PART_ANSWER, binding);
    count_attempt(gateway, request);
    request->life.turn = request_lines_serve(&gateway->requests.waiting, request);
    begin_work(gateway, request);
    request_set_state(gateway, request, REQUEST_ANSWERING);
}

void request_reserve(struct gateway *gateway, struct request *request, uint32_t unit,
                     uint64_t pages, uint32_t prompt_unit, uint64_t prompt_pages) {
    require(request, IN(WAITING));
    struct request_binding answers = {
        .unit = unit, .role = UNIT_DECODE, .reported = true, .promised_pages = pages};
    struct request_binding computes = {
        .unit = prompt_unit, .role = UNIT_PREFILL, .promised_pages = prompt_pages};
    bind_part(gateway, request, PART_ANSWER, answers);
    bind_part(gateway, request, PART_PROMPT, computes);
    count_attempt(gateway, request);
    request->life.turn = request_lines_serve(&gateway->requests.waiting, request);
    begin_work(gateway, request);
    request_set_state(gateway, request, REQUEST_RESERVING);
}

void request_prefill(struct gateway *gateway, struct request *request) {
    require(request, IN(RESERVING));
    request->life.at[PART_PROMPT].reported = true;
    request_set_state(gateway, request, REQUEST_PREFILLING);
}

void request_continue(struct gateway *gateway, struct request *request) {
    require(request, IN(PREFILLING));
    gateway->handed_over_total++;
    request->life.at[PART_ANSWER].known_tokens = request->answered.output_tokens;
    request_set_state(gateway, request, REQUEST_CONTINUED);
}

void request_progress(struct gateway *gateway, struct request *request) {
    require(request, IN(ANSWERING) | IN(PREFILLING) | IN(CONTINUED));
    bool computes = request->life.state == REQUEST_PREFILLING;
    struct request_binding *binding = &request->life.at[computes ? PART_PROMPT : PART_ANSWER];
    gateway->fleet.units[binding->unit].promised_pages -= binding->promised_pages;
    fleet_prompt_done(&gateway->fleet, binding->unit, binding->promised_pages);
    binding->promised_pages = 0;
    binding->progress = (struct api_progress){0};
    end_work(gateway, request);
    request->placing.losses = request->placing.retries = request->placing.refusals = 0;
    gateway->changed = true;
}

/* A stream that has begun, or has asked for progress, reports it now: its keep-alive is due. */
void request_note_prompt(struct gateway *gateway, struct request *request,
                         const struct record_progress *record, int64_t now_ns) {
    require(request, IN(ANSWERING) | IN(PREFILLING) | IN(CONTINUED));
    bool computes = request->life.state == REQUEST_PREFILLING;
    request->life.at[computes ? PART_PROMPT : PART_ANSWER].progress =
        (struct api_progress){.prompt_tokens = request->asked.prompt_tokens,
                              .ready_tokens = record->ready_tokens,
                              .cached_tokens = record->cached_tokens,
                              .ns = record->prefill_ns};
    bool reports = request->unreported.begun || request->asked.answer.progress;
    bool waits = due_heap_time(&gateway->requests.keep_alive, request_slot_of(gateway, request)) !=
                 DUE_NEVER;
    if (request->asked.stream && reports && waits) request_keep_alive(gateway, request, now_ns);
}

void request_note(struct gateway *gateway, struct request *request, enum request_part part,
                  const struct unit_work *work, uint32_t output_tokens) {
    struct request_binding *binding = &request->life.at[part];
    struct unit_books *sum = &gateway->fleet.units[binding->unit].books;
    struct unit_books books = {
        .made_tokens =
            output_tokens > binding->known_tokens ? output_tokens - binding->known_tokens : 0,
        .computed_tokens = work ? (uint64_t)work->computed_tokens + work->recomputed_tokens
                                : binding->books.computed_tokens};
    sum->made_tokens += books.made_tokens - binding->books.made_tokens;
    sum->computed_tokens += books.computed_tokens - binding->books.computed_tokens;
    request->answered.made_tokens += books.made_tokens - binding->books.made_tokens;
    binding->books = books;
    if (work) receipt_note(&request->answered.receipt, part, work);
}

void request_note_end(struct request *request, enum request_part part) {
    check(request->life.at[part].unit != FLEET_NONE);
    request->life.at[part].ended = true;
}

void request_unbind_prompt(struct gateway *gateway, struct request *request) {
    require(request, IN(CONTINUED) | IN(CANCELLED));
    unbind_part(gateway, request, PART_PROMPT);
}

bool request_is_whole(const struct request *request, enum finish_reason *reason_out) {
    const struct request_asked *asked = &request->asked;
    const struct request_answered *answered = &request->answered;
    *reason_out = FINISH_STOP_TOKEN;
    for (uint32_t i = 0; answered->output_tokens && i < asked->stop_token_count; i++)
        if (answered->last_token == asked->stop_tokens[i]) return true;
    *reason_out = FINISH_LENGTH;
    return answered->output_tokens == asked->new_tokens_max;
}

void request_wait_again(struct gateway *gateway, struct request *request, int64_t now_ns) {
    require(request, UNDISTURBED);
    struct request *leader = request->leader;
    unbind_parts(gateway, request);
    free_numerics(leader);
    request->id.attempt++;
    request->life.waits_since_ns = now_ns;
    bool waits =
        due_heap_time(&gateway->requests.keep_alive, request_slot_of(gateway, leader)) != DUE_NEVER;
    if (request->asked.stream && !leader->unreported.gone && !waits)
        request_keep_alive(gateway, leader, now_ns + gateway->options.keep_alive_ns);
    request_set_state(gateway, request, REQUEST_WAITING);
}

/* ---- the end ---- */

static void request_put_cancel_each(struct gateway *gateway, const struct request *request,
                                    enum request_part part) {
    const struct request_binding *binding = &request->life.at[part];
    if (binding->unit == FLEET_NONE || !binding->reported) return;
    const void *record = machine_outbox_put_envelope(
        &gateway->outbox, RECORD_TO_UNIT, gateway->fleet.units[binding->unit].id, RECORD_CANCEL,
        &(struct record_cancel){.request = request->id});
    check(record);
}

void request_put_cancel(struct gateway *gateway, const struct request *request) {
    request_put_cancel_each(gateway, request, PART_ANSWER);
    request_put_cancel_each(gateway, request, PART_PROMPT);
}

void request_answer(struct gateway *gateway, struct request *request, enum finish_reason reason) {
    require(request, IN(CONTINUED) | IN(CANCELLED));
    check(request_is_shared(request));
    request->unreported.reason = (uint8_t)reason;
    request_set_state(gateway, request, REQUEST_ANSWERED);
}

void request_unbind_answer(struct gateway *gateway, struct request *request) {
    require(request, IN(CANCELLED));
    check(request_is_shared(request) && request->life.at[PART_PROMPT].reported);
    unbind_part(gateway, request, PART_ANSWER);
    request_answer(gateway, request, FINISH_CANCELLED);
}

void request_cancel(struct gateway *gateway, struct request *request, enum request_cause cause) {
    check(request_is_under_way(request));
    request->unreported.cause = (uint8_t)cause;
    if (request->asked.stream) request_keep_alive(gateway, request, MACHINE_NEVER);
    if (request->life.state == REQUEST_WAITING) {
        request_end(gateway, request, FINISH_CANCELLED);
        return;
    }
    request_put_cancel(gateway, request);
    if (request->life.state != REQUEST_ANSWERED)
        request_set_state(gateway, request, REQUEST_CANCELLED);
}

void request_end(struct gateway *gateway, struct request *request, enum finish_reason reason) {
    require(request, IN(WAITING) | AT_UNITS);
    unbind_parts(gateway, request);
    request->unreported.reason = (uint8_t)reason;
    request_set_state(gateway, request, REQUEST_FINISHING);
}

void request_done(struct gateway *gateway, struct request *request) {
    require(request, AT_UNITS | IN(FINISHING));
    unbind_parts(gateway, request);
    request_set_state(gateway, request, REQUEST_DONE);
}

void request_await_commit(struct gateway *gateway, struct request *leader, int64_t now_ns) {
    require(leader, IN(DONE));
    check(!leader->unreported.gone);
    leader->unreported.usage = gateway->entries.said;
    request_keep_alive(gateway, leader, now_ns + gateway->options.keep_alive_ns);
    set_all(gateway, leader, REQUEST_COMMITTING);
}

void request_release(struct gateway *gateway, struct request *leader) {
    check(leader->leader == leader);
    request_forget_connection(gateway, leader);
    accounts_release(&gateway->accounts, leader->asked.account, leader->asked.key,
                     leader->choice_count, leader->asked.rate_tokens, leader->asked.set_aside);
    for (uint32_t i = leader->choice_count; i-- > 0;)
        release_slot(gateway, leader->choices[i]);
}

/* ---- audit ---- */

static void audit_list(const struct request_list *list, enum request_state state) {
    const struct request *before = NULL;
    uint32_t count = 0;
    for (const struct request *r = list->first; r; before = r, r = r->life.behind, count++) {
        check(r->life.state == state && r->life.before == before);
        check(!(1u << state & LEADERS_LISTED) || r->leader == r);
        check(state == REQUEST_FINISHING || state == REQUEST_COMMITTING || list->unsorted ||
              !before || before->life.arrival <= r->life.arrival);
        check(state != REQUEST_COMMITTING || !before ||
              before->unreported.usage < r->unreported.usage);
    }
    check(list->last == before && list->count == count);
}

/* Checks that the bound units match the state. */
static void audit_bindings(const struct request *request) {
    uint32_t state = 1u << request->life.state;
    bool may_lack = state & IN(ANSWERED); /* the decode unit may have been lost */
    bool answers = request->life.at[PART_ANSWER].unit != FLEET_NONE || may_lack;
    check(answers == ((state & AT_UNITS) != 0));
    if (state & (IN(RESERVING) | IN(PREFILLING) | IN(ANSWERED))) check(request_is_shared(request));
    if (!request_is_shared(request)) return;
    check(answers && !(state & IN(ANSWERING)));
    check(request->life.at[PART_ANSWER].unit != request->life.at[PART_PROMPT].unit);
    check((state & IN(CANCELLED)) ||
          request->life.at[PART_PROMPT].reported == !(state & IN(RESERVING)));
}

/* Checks a unit's counts against the requests that it has. */
static void audit_unit(const struct gateway *gateway, uint32_t index) {
    const struct fleet_unit *unit = &gateway->fleet.units[index];
    uint64_t bound = 0, pages = 0;
    for (uint32_t slot = 0; slot < gateway->requests.slots_used; slot++) {
        const struct request *request = &gateway->requests.slots[slot];
        for (uint32_t part = 0; part < PART_COUNT; part++) {
            const struct request_binding *binding = &request->life.at[part];
            if (request->life.state == REQUEST_FREE || binding->unit != index) continue;
            check(request->leader->life.numerics == unit->numerics);
            pages += binding->promised_pages;
            bound++;
        }
    }
    check(bound == unit->bound && pages == unit->promised_pages);
    check(bound == 0 || unit->state == FLEET_SERVING);
}

static void audit_slot(const struct gateway *gateway, uint32_t slot) {
    const struct request_table *requests = &gateway->requests;
    const struct request *request = &requests->slots[slot];
    if (request->life.state == REQUEST_FREE) {
        check(request->arena.run_count == 0);
        check(!request->waiting_text.waits && !request->waiting_constraint.waits);
        check(due_heap_time(&requests->keep_alive, slot) == DUE_NEVER);
        return;
    }
    check(request->leader->choices[request->index] == request);
    check(request->head->head == request->head && request->head->leader == request->leader);
    check(request->life.state == request->leader->life.state ||
          !(1u << request->life.state & BEFORE_WAITING));
    check(request->life.state < REQUEST_WAITING || request->asked.prompt);
    check(map_find(&requests->by_id, key_of_id(request->id)) == slot);
    check(request->life.state < REQUEST_UNCHECKED || !request->leader->constraint_pending);
    check((!request->waiting_text.waits && !request->waiting_constraint.waits) ||
          request->life.state == REQUEST_TOKENIZING);
    audit_bindings(request);
}

void request_audit(const struct gateway *gateway) {
    const struct request_table *requests = &gateway->requests;
    uint32_t counts[REQUEST_STATE_COUNT] = {0}, connected = 0, unchecked = 0, committing = 0;
    uint64_t begun_tokens = 0;
    counts[REQUEST_FREE] = gateway->options.requests_max - requests->slots_used;
    for (uint32_t slot = 0; slot < requests->slots_used; slot++) {
        const struct request *request = &requests->slots[slot];
        bool leads = request->leader == request;
        counts[request->life.state]++;
        connected += leads && !request->unreported.gone;
        unchecked += leads && request->life.state == REQUEST_UNCHECKED;
        committing += leads && request->life.state == REQUEST_COMMITTING;
        begun_tokens += request->life.is_begun ? request->life.work_tokens : 0;
        audit_slot(gateway, slot);
    }
    for (uint32_t state = 0; state < REQUEST_STATE_COUNT; state++)
        check(counts[state] == requests->counts[state]);
    check(requests->by_id.count == gateway_held_count(gateway));
    check(requests->by_connection.count == connected);
    check(requests->unchecked.count == unchecked);
    check(requests->committing.count == committing);
    check(gateway->begun_tokens == begun_tokens);
    check(requests->waiting.count == counts[REQUEST_WAITING]);
    check(requests->waits_since.count == counts[REQUEST_WAITING]);
    due_heap_audit(&requests->keep_alive);
    due_heap_audit(&requests->queue_ends);
    due_heap_audit(&requests->waits_since);
    check(requests->finishing.count == counts[REQUEST_FINISHING]);
    audit_list(&requests->unchecked, REQUEST_UNCHECKED);
    request_lines_audit(&requests->waiting);
    audit_list(&requests->finishing, REQUEST_FINISHING);
    audit_list(&requests->committing, REQUEST_COMMITTING);
    for (uint32_t unit = 0; unit < LIMIT_FLEET_UNITS; unit++)
        audit_unit(gateway, unit);
}

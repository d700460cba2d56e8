/* SPDX-License-Identifier: Apache-2.0
 * All units put their records into the common outbox. After every call of a unit, its new records
 * are marked with its rank. A unit is called only if the outbox has space for the maximum output of
 * one unit.
 */
#include "serving/unit/rank_units.h"

#include "base/check.h"
#include "base/number.h"
#include "contract/step_plan.h"
#include "serving/policy/admit.h"
#include "serving/unit/level.h"
#include "serving/unit/rank_binding.h"

#include <string.h>

#define PATIENCE_NS 1000000000
/* positions of the waiting line that are checked per step and rank: twice the number that a gateway
 * lets wait */
#define LOOKS_OF_RANK 16
#define LOOKS_MAX 512                /* checks in total; each visits all ranks */
#define MEMORY_BLOCKS_MAX (1u << 20) /* blocks in the estimate for all storages: 90 MB */
#define IN_LINE LIMIT_RANKS          /* instead of a rank: the request is in the waiting line */

_Static_assert(LOAD_PREFILL_REASONS == PREFILL_REASON_COUNT &&
                   LOAD_DECODE_REASONS == DECODE_REASON_COUNT,
               "a load report counts all reasons");

static struct map_key rank_units_key_of(struct request_id id) {
    return (struct map_key){id.high, id.low, id.attempt};
}

/* ---- records from units ---- */

static void *put_kind(struct rank_units *units, enum record_kind kind, const void *fixed) {
    void *record = machine_outbox_put(&units->outbox, kind, fixed);
    check(record);
    return record;
}

static void *put(struct rank_units *units, const struct record *record) {
    struct record *copy = put_kind(units, (enum record_kind)record->kind, record);
    memcpy(copy, record, record->bytes);
    return copy;
}

static void rank_units_put_hello(struct rank_units *units) {
    struct record_unit_hello all = {0}, one;
    struct unit_rank rank;
    for (uint32_t i = 0; i < units->rank_count; i++) {
        unit_hello(units->ranks[i].unit, &one, &rank);
        one.page_count += all.page_count;
        one.requests_max += all.requests_max;
        all = one;
    }
    all.role = units->role;
    all.rank_count = units->rank_count;
    struct record_unit_hello *hello = put_kind(units, RECORD_UNIT_HELLO, &all);
    for (uint32_t i = 0; i < units->rank_count; i++)
        unit_hello(units->ranks[i].unit, &one, &hello_ranks(hello)[i]);
}

static void say_hello(struct rank_units *units) {
    rank_units_put_hello(units);
    if (units->experts.ranks) put(units, &units->experts.record);
    units->hello_sent = units->load_changed = true;
}

static void learn_length(struct rank_units *units, const struct record_finished *finished) {
    if (finished->reason != FINISH_STOP_TOKEN && finished->reason != FINISH_LENGTH) return;
    predict_length_learn(&units->lengths, finished->output_tokens);
    units->offer_round++;
}

/* Notes stored and loaded blocks, which pass through the storage's memory and stay there for a
 * while. */
static void note_memory(struct recent_blocks *memory, const struct record *record) {
    if (record->kind == RECORD_KV_PUT) {
        const struct record_kv_put *keep = (const struct record_kv_put *)record;
        recent_blocks_note(memory, kv_keep_keys(keep) + 1, keep->block_count);
    } else if (record->kind == RECORD_KV_LOAD) {
        const struct record_kv_load *load = (const struct record_kv_load *)record;
        recent_blocks_note(memory, kv_load_keys(load), load->block_count);
    }
}

/* Notes that a rank received a record or stepped, so its offer and its load have changed. */
static void rank_units_note_change(struct rank_units *units, uint32_t rank) {
    units->offer_rounds[rank] = 0;
    if (units->has_changed[rank]) return;
    units->has_changed[rank] = true;
    units->changed[units->changed_count++] = rank;
}

/* Marks a record of a unit with its rank. */
static void rank_units_take_record(struct rank_units *units, uint32_t rank, struct record *record) {
    switch ((enum record_kind)record->kind) {
    case RECORD_RUN_STEP:
        units->ranks[rank].plan = (struct step_plan *)record;
        units->ranks[rank].plan->rank = (uint16_t)rank;
        units->ranks[rank].planned = true;
        return;
    case RECORD_FINISHED:
        learn_length(units, (const struct record_finished *)record);
        map_remove(&units->rank_of,
                   rank_units_key_of(((const struct record_finished *)record)->request));
        ((struct record_finished *)record)->work.rank = rank;
        return;
    case RECORD_TOKENS:
        if (((struct record_tokens *)record)->work_count)
            tokens_work((struct record_tokens *)record)->rank = rank;
        return;
    case RECORD_RESERVED:
        ((struct record_reserved *)record)->rank = rank;
        return;
    default:
        note_memory(&units->ranks[rank].memory, record);
        if (record_is_kv(record)) ((struct record_kv *)record)->rank = rank;
    }
}

/* Processes the records of a unit after a call, before which the outbox had `used` bytes. */
static void take_records(struct rank_units *units, uint32_t rank, uint32_t used) {
    while (used < units->outbox.used) {
        struct record *record = (struct record *)(void *)(units->outbox.memory + used);
        rank_units_take_record(units, rank, record);
        used += record->bytes;
    }
    struct unit *unit = units->ranks[rank].unit;
    units->load_changed |= unit->load_changed;
    unit->load_changed = false;
    units->requests[rank] = unit_held_count(unit);
    rank_units_note_change(units, rank);
}

/* Updates the sums: subtracts the last report of a rank and adds its new one. */
static void sum_load(struct record_unit_load *sums, const struct record_unit_load *before,
                     const struct record_unit_load *now) {
    sums->requests_waiting += now->requests_waiting - before->requests_waiting;
    sums->requests_running += now->requests_running - before->requests_running;
    sums->pages_free += now->pages_free - before->pages_free;
    sums->pages_held += now->pages_held - before->pages_held;
    sums->pages_cached += now->pages_cached - before->pages_cached;
    unit_counters_renew_rank(&sums->totals, &before->totals, &now->totals);
}

static void view_loads(struct rank_units *units) {
    struct record_unit_load *sums = &units->load_sums;
    uint32_t rows = 0, tokens = 0, stepped = 0;
    for (uint32_t i = 0; i < units->changed_count; i++) {
        uint32_t rank = units->changed[i];
        struct record_unit_load load;
        unit_load(units->ranks[rank].unit, &load, &units->rank_loads[rank]);
        sum_load(sums, &units->loads_reported[rank], &load);
        if (load.totals.steps != units->loads_reported[rank].totals.steps) {
            rows += load.last_step_rows;
            tokens += load.last_step_tokens;
            stepped++;
        }
        units->loads_reported[rank] = load;
        units->has_changed[rank] = false;
    }
    units->changed_count = 0;
    if (stepped) { /* ranks without a step since the last report had no row in the last one */
        sums->last_step_rows = rows;
        sums->last_step_tokens = tokens;
    }
    sums->last_step_ns = 0;
    sums->kv_storage = 0;
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        int64_t step_ns = units->loads_reported[rank].last_step_ns;
        if (step_ns > sums->last_step_ns) sums->last_step_ns = step_ns;
        sums->kv_storage = max_u32(sums->kv_storage, units->rank_loads[rank].kv_storage);
    }
}

static bool any_accepts(const struct rank_units *units) {
    for (uint32_t rank = 0; rank < units->rank_count; rank++)
        if (!units->ranks[rank].masked) return true;
    return false;
}

static bool is_draining(const struct rank_units *units) {
    return units->capacity.draining || !any_accepts(units);
}

static void rank_units_put_load(struct rank_units *units) {
    if (!units->hello_sent) return;
    view_loads(units);
    struct record_unit_load fixed = units->load_sums;
    fixed.rank_count = units->rank_count;
    fixed.requests_waiting += units->line.count;
    fixed.draining = is_draining(units);
    memcpy(fixed.prefill_choices_total, units->prefill_choices, sizeof units->prefill_choices);
    memcpy(fixed.decode_choices_total, units->decode_choices, sizeof units->decode_choices);
    struct record_unit_load *all =
        machine_outbox_put_bare(&units->outbox, RECORD_UNIT_LOAD, &fixed);
    check(all);
    memcpy(load_ranks(all), units->rank_loads, units->rank_count * sizeof *units->rank_loads);
    units->load_changed = false;
}

/* ---- records to units ---- */

/* The bytes of the records that represent all ranks together. */
static size_t own_bytes(uint32_t ranks) {
    return record_bytes(RECORD_UNIT_HELLO, &(struct record_unit_hello){.rank_count = ranks}) +
           2 * record_bytes(RECORD_UNIT_LOAD, &(struct record_unit_load){.rank_count = ranks}) +
           record_bytes(RECORD_EXPERTS, NULL);
}

static bool rank_units_has_room(const struct rank_units *units) {
    return outbox_room(&units->outbox) >= units->unit_bytes + own_bytes(units->rank_count);
}

static void pass_on(struct rank_units *units, uint32_t rank, const struct record *record,
                    int64_t now_ns) {
    struct machine *machine = &units->ranks[rank].machine;
    uint32_t used = units->outbox.used;
    check(machine_pass(machine, record, now_ns)); /* the outbox had space */
    take_records(units, rank, used);
}

/* Passes a SUBMIT to a rank. `blocks` are from rank_binding_view_blocks; NULL: not computed. */
static void pass_submit(struct rank_units *units, uint32_t rank, const struct record_submit *submit,
                        const struct prompt_blocks *blocks, int64_t now_ns) {
    struct unit *unit = units->ranks[rank].unit;
    unit->lent_keys = blocks ? blocks->keys : NULL;
    unit->lent_key_count = blocks ? blocks->key_count : 0;
    pass_on(units, rank, &submit->record, now_ns);
    unit->lent_keys = NULL;
}

/* ---- requests without a rank ---- */

static void put_end(struct rank_units *units, const struct record_submit *submit,
                    enum finish_reason reason) {
    struct record_finished *finished = put_kind(units, RECORD_FINISHED, NULL);
    finished->request = submit->request;
    finished->reason = reason;
    finished->output_tokens = submit->resumed_count;
    finished->work.prompt_miss_tokens = submit->prompt_count;
    finished->work.queue_ns = -1;
}

static void leave_line(struct rank_units *units, uint32_t place, enum finish_reason reason) {
    struct request_id id = waiting_line_at(&units->line, place)->submit->request;
    put_end(units, waiting_line_at(&units->line, place)->submit, reason);
    waiting_line_remove(&units->line, place);
    map_remove(&units->rank_of, rank_units_key_of(id));
    units->load_changed = true;
}

/* Decides about admission on arrival. Context and pages are limited by one rank, and slots by all
 * ranks that accept requests. */
static enum admit rank_units_verify(const struct rank_units *units,
                                    const struct record_submit *submit) {
    struct unit_capacity capacity = units->capacity;
    capacity.requests_held = units->line.count;
    capacity.requests_max = 0;
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        if (units->ranks[rank].masked) continue;
        capacity.requests_held += units->requests[rank];
        capacity.requests_max += units->capacity.requests_max;
    }
    capacity.pages_available = capacity.page_count;
    capacity.draining = is_draining(units);
    return admit_arrival(admit_need_of(submit), &capacity);
}

/* Binds a request of the line to a rank. Its times in the unit start with its arrival in the
 * line. */
static void rank_units_bind(struct rank_units *units, uint32_t place, uint32_t rank) {
    struct waiting_request *request = waiting_line_at(&units->line, place);
    map_remove(&units->rank_of, rank_units_key_of(request->submit->request));
    map_add(&units->rank_of, rank_units_key_of(request->submit->request), rank);
    pass_submit(units, rank, request->submit, &request->blocks, request->arrived_ns);
    waiting_line_remove(&units->line, place);
    units->load_changed = true;
}

static uint32_t looks_max(const struct rank_units *units) {
    uint32_t looks = LOOKS_OF_RANK * units->rank_count;
    return looks < LOOKS_MAX ? looks : LOOKS_MAX;
}

/* Binds requests of the line, in turn, to ranks with space in their next step. A request that waits
 * for the rank that has its prefix cached, or for pages, lets others pass until its patience
 * ends. */
static void walk_line(struct rank_units *units, int64_t now_ns) {
    uint32_t place = 0;
    units->line_wanted = false;
    units->retry_ns = MACHINE_NEVER;
    if (units->line.count > 0) rank_binding_view_room(units);
    for (uint32_t looks = 0; place < units->line.count && looks < looks_max(units); looks++) {
        struct waiting_request *request = waiting_line_at(&units->line, place);
        int64_t patient_until_ns = request->arrived_ns + units->patience_ns;
        bool patient = now_ns < patient_until_ns;
        if (!rank_units_has_room(units)) break;
        if (!any_accepts(units)) {
            leave_line(units, place, FINISH_REFUSED_DRAINING);
            continue;
        }
        struct prefill_choice choice =
            rank_binding_by_work(units, request->submit, &request->blocks, request->turn, patient);
        if (choice.reason != request->reason) units->prefill_choices[choice.reason]++;
        request->reason = choice.reason;
        if (choice.rank != BALANCE_NO_RANK) {
            rank_units_bind(units, place, choice.rank);
            rank_binding_view_room(units);
            continue;
        }
        if (choice.reason == PREFILL_WAITS_PAGES && !patient) break;
        if (patient && patient_until_ns < units->retry_ns) units->retry_ns = patient_until_ns;
        place++;
    }
    units->line_wanted = units->outbox.used > 0 && units->line.count > 0;
}

/* ---- records ---- */

static bool enter_line(struct rank_units *units, const struct record_submit *submit,
                       int64_t now_ns) {
    int64_t turn = unit_turn(units->ranks[0].unit, submit, now_ns);
    rank_binding_view_blocks(units, submit);
    return waiting_line_add(&units->line, submit, &units->blocks, turn, now_ns);
}

static void take_submit(struct rank_units *units, const struct record_submit *submit,
                        int64_t now_ns) {
    uint32_t rank = map_find(&units->rank_of, rank_units_key_of(submit->request));
    if (rank != MAP_NONE) return; /* a repeat */
    enum admit admit = rank_units_verify(units, submit);
    if (admit_refuses(admit)) {
        put_end(units, submit, admit_finish_reason(admit));
        return;
    }
    bool binds = submit->task == SUBMIT_RESERVE || units->on_arrival;
    if (binds) {
        rank_binding_view_offers(units);
        rank = submit->task == SUBMIT_RESERVE ? rank_binding_to_reserve(units, submit)
                                              : rank_binding_on_arrival(units, submit);
    }
    if (binds && rank != BALANCE_NO_RANK) {
        map_add(&units->rank_of, rank_units_key_of(submit->request), rank);
        pass_submit(units, rank, submit, NULL, now_ns);
    } else if (!binds && enter_line(units, submit, now_ns)) {
        map_add(&units->rank_of, rank_units_key_of(submit->request), IN_LINE);
        units->load_changed = true;
    } else {
        put_end(units, submit, FINISH_REFUSED_QUEUE);
    }
}

/* Handles a record about one request, which may still be in the line. */
static void take_about(struct rank_units *units, const struct record *record, int64_t now_ns) {
    struct request_id id = record_request(record);
    uint32_t rank = map_find(&units->rank_of, rank_units_key_of(id));
    if (rank < units->rank_count) pass_on(units, rank, record, now_ns);
    if (rank == IN_LINE && record->kind == RECORD_CANCEL)
        leave_line(units, waiting_line_find(&units->line, id), FINISH_CANCELLED);
}

static bool is_dearer(const struct step_cost *cost, const struct step_work *a,
                      const struct step_work *b) {
    double a_ns = step_cost_ns(cost, a), b_ns = step_cost_ns(cost, b);
    if (a_ns != b_ns) return a_ns > b_ns;
    return a->prompt_tokens + a->answer_rows > b->prompt_tokens + b->answer_rows;
}

/* Learns the cost of the step from its most expensive rank, because all others waited for that
 * rank. */
static void learn_cost(struct rank_units *units) {
    const struct step_work *dearest = &units->ranks[0].work;
    for (uint32_t rank = 1; rank < units->rank_count; rank++)
        if (is_dearer(&units->cost, &units->ranks[rank].work, dearest))
            dearest = &units->ranks[rank].work;
    step_cost_observe(&units->cost, dearest, units->step_ns);
}

static void take_result(struct rank_units *units, const struct step_result *result,
                        int64_t now_ns) {
    check(units->missing > 0 && result->rank < units->rank_count);
    struct rank_unit *rank = &units->ranks[result->rank];
    units->missing--;
    rank->work = rank->planned ? rank->unit->work : (struct step_work){0};
    if (result->compute_ns > units->step_ns) units->step_ns = result->compute_ns;
    units->step_failed |= result->failed;
    if (units->levels && units->missing == 0 && !units->step_failed && !units->awaits)
        learn_cost(units);
    if (!rank->planned) return;
    rank->planned = false;
    pass_on(units, result->rank, &result->record, now_ns);
}

static void rank_units_take_role(struct rank_units *units, const struct record_role *record) {
    units->role = record->role;
    if (units->rank_count > 1)
        put(units, &record->record); /* the placement of experts may differ */
    if (units->hello_sent) rank_units_put_hello(units);
}

static void expect_back(struct rank_units *units, struct rank_unit *rank, int64_t pid) {
    units->returning += rank->pid == 0;
    units->returning -= pid == 0;
    rank->pid = pid;
}

/* Handles a DRAIN of one rank: masks it or unmasks it, after it died or returned, or on an order.
 * The engine handles its experts. */
static void mask(struct rank_units *units, const struct record_drain *record) {
    if (record->rank >= units->rank_count) return;
    struct rank_unit *rank = &units->ranks[record->rank];
    units->load_changed = true;
    if (record->dead && record->back) {
        expect_back(units, rank, record->pid);
        return;
    }
    rank->masked = !record->back;
    rank->unit->abandoned |= record->dead;
    if (record->dead && rank->pid) expect_back(units, rank, 0);
    put(units, &record->record);
}

/* True if the unit is abandoned and its requests have ended. */
static bool rank_units_is_over(const struct unit *unit) {
    return unit->abandoned && unit_held_count(unit) == 0 && unit->pages.held_count == 0;
}

/* Restarts a unit with empty pages. */
static void restart(struct unit *unit, int64_t pid) {
    pages_forget(unit);
    unit->abandoned = false;
    unit->pid = pid;
    unit->load_changed = true;
}

/* Lets restarted ranks accept requests, once the requests of their previous process have ended.
 * Reports the new processes to the gateways. */
static void rank_units_take_back(struct rank_units *units) {
    bool any = false;
    for (uint32_t i = 0; i < units->rank_count && units->returning; i++) {
        struct rank_unit *rank = &units->ranks[i];
        if (!rank->pid || !rank_units_is_over(rank->unit)) continue;
        restart(rank->unit, rank->pid);
        expect_back(units, rank, 0);
        rank->masked = false;
        rank_units_note_change(units, i);
        any = true;
    }
    if (any && units->hello_sent) rank_units_put_hello(units);
    units->load_changed |= any;
    units->line_wanted |= any;
}

static enum status units_receive(void *self, const struct record *record, int64_t now_ns) {
    struct rank_units *units = self;
    uint32_t rank;
    if (!rank_units_has_room(units)) return STATUS_FULL;
    units->line_wanted = units->line.count > 0 || record->kind == RECORD_SUBMIT;
    switch ((enum record_kind)record->kind) {
    case RECORD_SUBMIT:
        take_submit(units, (const struct record_submit *)record, now_ns);
        break;
    case RECORD_CANCEL:
    case RECORD_CONTINUE:
    case RECORD_KV_DONE:
    case RECORD_KV_FOUND:
    case RECORD_KV_LOADED:
        take_about(units, record, now_ns);
        break;
    case RECORD_KV_STORED:
    case RECORD_KV_HELLO:
        rank = record_kv_rank(record);
        check(rank < units->rank_count);
        pass_on(units, rank, record, now_ns);
        if (record->kind == RECORD_KV_HELLO && units->hello_sent) rank_units_put_hello(units);
        break;
    case RECORD_STEP_DONE:
        take_result(units, (const struct step_result *)record, now_ns);
        break;
    case RECORD_EXPERTS:
        put(units, record);
        break;
    case RECORD_ROLE:
        rank_units_take_role(units, (const struct record_role *)record);
        break;
    case RECORD_DRAIN:
        if (((const struct record_drain *)record)->one_rank) {
            mask(units, (const struct record_drain *)record);
            break;
        }
        /* Requests in the line are still assigned to ranks. */
        units->capacity.draining = !((const struct record_drain *)record)->back;
        units->load_changed = true; /* notify all gateways, not only the sender of the order */
        break;
    default:
        check(!"a kind that units take");
    }
    bool ends_step = record->kind == RECORD_STEP_DONE && units->missing == 0;
    if (units->load_changed && ends_step) rank_units_put_load(units);
    return STATUS_OK;
}

/* Sets the fields of a plan that must be equal on all ranks: whether any plan has drafts, and the
 * overlap schedule. */
static void agree(struct step_plan *plan, bool drafts, bool awaits, uint32_t overlap) {
    plan->others_draft = drafts;
    plan->awaits = awaits;
    if (plan->overlap == overlap) return;
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES - 1; i++)
        plan->cuts[i].row = UINT32_MAX; /* one micro-batch is enough */
    plan->overlap = overlap;
}

/* Adds plans without rows for ranks that have no work, and sets the common fields of all plans. */
static void complete_step(struct rank_units *units) {
    bool drafts = false;
    uint32_t overlap = OVERLAP_SEQUENTIAL, rows = 0;
    for (uint32_t i = 0; i < units->rank_count; i++) {
        struct rank_unit *rank = &units->ranks[i];
        if (rank->planned) {
            drafts |= rank->unit->drafts;
        } else {
            rank->plan = put_kind(units, RECORD_RUN_STEP, NULL);
            rank->plan->rank = (uint16_t)i;
        }
        rows += rank->plan->row_count;
        if (rank->plan->overlap > overlap) overlap = rank->plan->overlap;
    }
    for (uint32_t i = 0; i < units->rank_count; i++)
        agree(units->ranks[i].plan, drafts, rows == 0, overlap);
    units->awaits = rows == 0;
    units->missing = units->rank_count;
    units->step_ns = 0;
    units->step_failed = false;
}

/* Reduces the prompt tokens of ranks that would take longer than the average rank. */
static void level_steps(struct rank_units *units) {
    double least_ns = 0;
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        struct level_view view = level_look(units->ranks[rank].unit, &units->cost);
        units->ranks[rank].unit->level_cost = NULL;
        units->full_ns[rank] = view.full_ns > view.answers_ns ? view.full_ns : 0;
        if (view.least_ns > least_ns) least_ns = view.least_ns;
    }
    double level_ns = balance_prefill_level(units->full_ns, units->rank_count, least_ns);
    for (uint32_t rank = 0; rank < units->rank_count && level_ns > 0; rank++) {
        units->ranks[rank].unit->level_cost = &units->cost;
        units->ranks[rank].unit->level_ns = level_ns;
    }
}

/* Called before the unit of a rank would preempt a request because pages run out. Moves the
 * cheapest request to a rank that has enough pages for it and for all growth expected there,
 * because otherwise that rank would soon move it again. If there is no such rank, the unit chooses
 * a request to preempt. */
static void relieve(struct rank_units *units, uint32_t rank, int64_t now_ns) {
    struct unit *unit = units->ranks[rank].unit;
    struct unit_leaver leaver;
    if (units->method != BALANCE_WORK || units->rank_count == 1) return;
    while (unit_relieve(unit, &units->lengths, &leaver)) {
        rank_binding_view_offers(units);
        struct decode_need need = {leaver.page_count, leaver.pages_expected};
        struct decode_choice choice = rank_binding_to_decode(units, &need, rank);
        if (choice.reason == DECODE_BOUND_TIGHT)
            choice = (struct decode_choice){BALANCE_NO_RANK, DECODE_WAITS_PAGES};
        units->decode_choices[choice.reason]++;
        if (choice.rank == BALANCE_NO_RANK ||
            !unit_move(unit, leaver.request, units->ranks[choice.rank].unit, now_ns))
            return;
        rank_units_note_change(units, rank);
        rank_units_note_change(units, choice.rank);
        units->requests[rank]--;
        units->requests[choice.rank]++;
        map_remove(&units->rank_of, rank_units_key_of(leaver.request));
        map_add(&units->rank_of, rank_units_key_of(leaver.request), choice.rank);
    }
}

/* Plans a step for each rank, if any has work. */
static void plan_ranks(struct rank_units *units, int64_t now_ns) {
    bool any = false;
    uint32_t busy = 0; /* ranks that may have rows in the step */
    if (units->levels) level_steps(units);
    for (uint32_t rank = 0; rank < units->rank_count; rank++)
        busy += unit_active_count(units->ranks[rank].unit) > 0;
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        struct machine *machine = &units->ranks[rank].machine;
        struct unit *unit = units->ranks[rank].unit;
        uint32_t used = units->outbox.used;
        busy -= unit_active_count(unit) > 0;
        unit->others = busy + units->line.count > 0;
        machine->step(machine->self, now_ns);
        take_records(units, rank, used);
        busy += unit_active_count(unit) > 0;
        any |= units->ranks[rank].planned;
    }
    if (any) complete_step(units);
}

static void units_step(void *self, int64_t now_ns) {
    struct rank_units *units = self;
    if (units->outbox.used) return; /* all plans of a step are sent together */
    if (units->missing) {
        if (units->load_changed) rank_units_put_load(units);
        return;
    }
    if (units->returning) rank_units_take_back(units);
    if (!units->hello_sent) say_hello(units);
    for (uint32_t rank = 0; rank < units->rank_count; rank++)
        relieve(units, rank, now_ns);
    uint32_t used = units->outbox.used;
    walk_line(units, now_ns);
    /* records from binding are sent first */
    if (units->outbox.used == used) plan_ranks(units, now_ns);
    if (units->load_changed) rank_units_put_load(units);
}

static int64_t units_next_wake_ns(const void *self) {
    const struct rank_units *units = self;
    int64_t earliest = units->missing ? MACHINE_NEVER : units->retry_ns;
    if (!units->hello_sent || units->load_changed) return 0;
    if (units->line_wanted && !units->missing) return 0;
    for (uint32_t rank = 0; rank < units->rank_count && !units->missing; rank++) {
        const struct machine *machine = &units->ranks[rank].machine;
        if (units->ranks[rank].pid && rank_units_is_over(units->ranks[rank].unit)) return 0;
        int64_t wake_ns = machine->next_wake_ns(machine->self);
        if (wake_ns < earliest) earliest = wake_ns;
    }
    return earliest;
}

/* ---- creation ---- */

static size_t rank_units_outbox_bytes(const struct rank_units *units) {
    size_t one = units->unit_bytes + sizeof(struct step_plan);
    return round_up(units->rank_count * one + own_bytes(units->rank_count), 16);
}

/* The number of blocks in the estimate for each rank's storage. */
static uint32_t rank_units_memory_blocks(const struct unit_options *options, uint32_t ranks) {
    uint32_t most = MEMORY_BLOCKS_MAX / ranks;
    if (!options->kv_storage || ranks == 1) return 0;
    return options->kv_memory_blocks < most ? options->kv_memory_blocks : most;
}

static size_t keys_bytes(const struct unit_options *options) {
    return options->context_tokens_max / KV_BLOCK_TOKENS * sizeof(struct block_key);
}

size_t rank_units_memory_bytes(const struct unit_options *options, uint32_t ranks) {
    size_t one = unit_memory_bytes(options) + 64;
    size_t outbox =
        ranks * (unit_outbox_bytes(options) + sizeof(struct step_plan)) + own_bytes(ranks) + 16;
    return ranks * (one + sizeof(struct rank_unit) + sizeof(struct balance_rank) +
                    sizeof(struct prefill_rank) + sizeof(struct prefill_hit) +
                    sizeof(struct decode_rank) + sizeof(struct unit_offer) + sizeof(double) +
                    sizeof(uint64_t) + 2 * sizeof(uint32_t) + sizeof(bool) +
                    sizeof(struct record_unit_load) + sizeof(struct unit_rank_load)) +
           ranks *
               (recent_blocks_bytes(rank_units_memory_blocks(options, ranks)) + sizeof(uint32_t)) +
           keys_bytes(options) + unit_prompts_bytes(options, ranks) + unit_scratch_bytes(options) +
           waiting_line_bytes(options, ranks) + sizeof(struct rank_units) +
           map_bytes(ranks * options->requests_max + 1) + outbox + 512;
}

static void set_rules(struct rank_units *units, const struct unit_options *options,
                      uint32_t ranks) {
    units->rank_count = ranks;
    units->offer_round = 1;
    units->capacity = (struct unit_capacity){.context_tokens_max = options->context_tokens_max,
                                             .page_count = options->page_count,
                                             .requests_max = options->requests_max,
                                             .rows_max = options->step_rows_max};
    units->patience_ns = options->prompt_patience_ns ? options->prompt_patience_ns : PATIENCE_NS;
    units->retry_ns = MACHINE_NEVER;
    units->on_arrival =
        ranks == 1 || options->bind_on_arrival || options->rank_balance != BALANCE_WORK;
    units->levels = options->level_steps && ranks > 1;
    units->role = options->role;
    if (options->experts) units->experts = *options->experts;
    units->method = (enum balance_method)options->rank_balance;
    units->near_count = rank_units_memory_blocks(options, ranks) ? ranks : 0;
}

/* Allocates everything except the units and the outbox. */
static bool rank_units_take_tables(struct rank_units *units, struct arena *arena,
                                   const struct unit_options *options, uint32_t ranks) {
    units->ranks = arena_take_zeroed(arena, ranks * sizeof *units->ranks);
    units->loads = arena_take_zeroed(arena, ranks * sizeof *units->loads);
    units->prefills = arena_take_zeroed(arena, ranks * sizeof *units->prefills);
    units->hits = arena_take_zeroed(arena, ranks * sizeof *units->hits);
    units->decodes = arena_take_zeroed(arena, ranks * sizeof *units->decodes);
    units->offers = arena_take_zeroed(arena, ranks * sizeof *units->offers);
    units->full_ns = arena_take_zeroed(arena, ranks * sizeof *units->full_ns);
    units->offer_rounds = arena_take_zeroed(arena, ranks * sizeof *units->offer_rounds);
    units->requests = arena_take_zeroed(arena, ranks * sizeof *units->requests);
    units->loads_reported = arena_take_zeroed(arena, ranks * sizeof *units->loads_reported);
    units->rank_loads = arena_take_zeroed(arena, ranks * sizeof *units->rank_loads);
    units->changed = arena_take(arena, ranks * sizeof *units->changed);
    units->has_changed = arena_take_zeroed(arena, ranks * sizeof *units->has_changed);
    units->blocks.keys = arena_take(arena, keys_bytes(options));
    units->blocks.near = arena_take(arena, ranks * sizeof *units->blocks.near);
    if (!units->ranks || !units->loads || !units->prefills || !units->hits || !units->decodes ||
        !units->offers || !units->full_ns || !units->blocks.keys || !units->blocks.near ||
        !units->offer_rounds || !units->requests || !units->loads_reported || !units->rank_loads ||
        !units->changed || !units->has_changed ||
        waiting_line_open(&units->line, arena, options, ranks) ||
        map_open(&units->rank_of, arena, ranks * options->requests_max + 1))
        return false;
    for (uint32_t i = 0; i < ranks; i++)
        if (recent_blocks_open(&units->ranks[i].memory, arena,
                               rank_units_memory_blocks(options, ranks)))
            return false;
    return true;
}

enum status rank_units_create(struct arena *arena, const struct unit_options *options,
                              uint32_t ranks, struct rank_units **units_out, struct error *error) {
    check(ranks > 0 && ranks <= LIMIT_RANKS);
    struct rank_units *units = arena_take_zeroed(arena, sizeof *units);
    if (!units || !rank_units_take_tables(units, arena, options, ranks) ||
        unit_prompts_open(arena, options, ranks, &units->prompts) ||
        unit_scratch_open(arena, options, &units->shared.scratch))
        return error_set(error, STATUS_NO_MEMORY, "no memory for the units of %u ranks", ranks);
    units->shared.outbox = &units->outbox;
    units->shared.prompts = &units->prompts;
    set_rules(units, options, ranks);
    for (uint32_t i = 0; i < ranks; i++) {
        struct unit_options own = *options;
        if (own.pids) own.pids += i;
        if (own.kv_addresses) own.kv_addresses += i;
        enum status status = unit_create(arena, &own, &units->shared, &units->ranks[i].unit, error);
        if (status) return status;
        units->ranks[i].machine = unit_machine(units->ranks[i].unit);
        rank_units_note_change(units, i);
    }
    units->unit_bytes = unit_outbox_bytes(options);
    size_t bytes = rank_units_outbox_bytes(units);
    if (bytes > UINT32_MAX)
        return error_set(error, STATUS_INVALID,
                         "unit: the plans of %u ranks may take %zu bytes, at most 4 GiB", ranks,
                         bytes);
    units->outbox.capacity = (uint32_t)bytes;
    units->outbox.memory = arena_take(arena, units->outbox.capacity);
    if (!units->outbox.memory)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the units of %u ranks", ranks);
    *units_out = units;
    return STATUS_OK;
}

struct machine rank_units_machine(struct rank_units *units) {
    return (struct machine){.self = units,
                            .outbox = &units->outbox,
                            .receive = units_receive,
                            .step = units_step,
                            .next_wake_ns = units_next_wake_ns};
}

struct unit *rank_units_unit(const struct rank_units *units, uint32_t rank) {
    check(rank < units->rank_count);
    return units->ranks[rank].unit;
}

/* SPDX-License-Identifier: Apache-2.0
 * Units put their records into the common outbox. After every call of a unit, its new records are marked
 * with its rank. A unit is called only if the outbox has space for everything that one unit can put.
 */
#include "serving/unit/rank_units.h"

#include "base/check.h"
#include "base/map.h"
#include "base/number.h"
#include "contract/step_plan.h"
#include "serving/cache/recent_blocks.h"
#include "serving/policy/admit.h"
#include "serving/policy/balance/balance_decode.h"
#include "serving/policy/balance/balance_prefill.h"
#include "serving/unit/level.h"
#include "serving/unit/pages.h"
#include "serving/unit/waiting_line.h"

#include <string.h>

#define REQUEST_TOKENS 64 /* tokens of a prompt that weigh as much as a request's future steps */
#define REQUEST_PAGES 4   /* pages that weigh as much as a row, in addition to its context */
#define PATIENCE_NS 1000000000
/* positions in the line checked per step and rank: twice the number that a gateway lets wait */
#define LOOKS_OF_RANK 16
#define LOOKS_MAX 512                /* in total: each check visits all ranks */
#define MEMORY_BLOCKS_MAX (1u << 20) /* blocks of all ranks' storages in the estimate: 90 MB */
#define IN_LINE LIMIT_RANKS          /* in place of a rank: the request has none yet */

_Static_assert(LOAD_PREFILL_REASONS == PREFILL_REASON_COUNT &&
                   LOAD_DECODE_REASONS == DECODE_REASON_COUNT,
               "a load report counts all reasons");

struct rank_unit {
    struct unit *unit;
    struct machine machine;
    struct recent_blocks memory; /* estimated contents of its storage's memory */
    struct step_work work;       /* work of the step in flight, when it is done */
    struct step_plan *plan;      /* in the outbox, while a step is planned */
    bool planned;
    bool masked; /* accepts no new request */
    /* process id of its new process, until the requests of the old one have ended; 0: none */
    int64_t pid;
};

struct rank_units {
    struct rank_unit *ranks; /* [rank_count] */
    /* The input of the choice of a rank: [rank_count] each. */
    struct balance_rank *loads;
    struct prefill_rank *prefills;
    struct prefill_hit *hits;
    struct decode_rank *decodes;
    struct unit_offer *offers; /* set by view_offers */
    uint64_t *offer_rounds;    /* offers[rank] is of this round */
    uint32_t *requests;        /* requests in each rank */
    /* The load reports of ranks; only ranks with a change are asked again. */
    struct record_unit_load *loads_reported; /* report of each rank, included in the sums */
    struct unit_rank_load *rank_loads;
    struct record_unit_load load_sums;
    uint32_t *changed; /* [changed_count] ranks */
    bool *has_changed; /* true for ranks in `changed` */
    uint32_t changed_count;
    /* no rank has space for this turn or a later one; INT64_MAX: a rank has space for all. Set by
     * view_room */
    int64_t room_turn;
    uint64_t offer_round;        /* incremented when all offers have changed; starts at 1 */
    struct prompt_blocks blocks; /* scratch for the current SUBMIT */
    uint32_t near_count;         /* rank_count, or 0: capacity of blocks.near */
    struct waiting_line line;
    struct predict_length lengths;
    struct unit_capacity capacity; /* limits of a rank; requests of all ranks */
    uint64_t prefill_choices[PREFILL_REASON_COUNT], decode_choices[DECODE_REASON_COUNT];
    int64_t patience_ns, retry_ns; /* time at which the first patience in the line ends */
    bool line_wanted;              /* something has changed since the line was last processed */
    enum balance_method method;
    struct step_cost cost;    /* cost of a step of all ranks, learnt from the most expensive one */
    double *full_ns;          /* [rank_count] scratch */
    int64_t step_ns;          /* duration of this step, the longest that a rank has reported */
    bool step_failed, awaits; /* awaits: no rank has a row in this step */
    bool on_arrival, levels;
    uint64_t choices;
    uint32_t rank_count;
    uint32_t missing;   /* STEP_DONEs that have not arrived */
    struct map rank_of; /* request id -> rank, or IN_LINE */
    struct outbox outbox;
    struct pool prompts;
    struct unit_shared shared; /* outbox and prompts, and scratch of the unit that is called */
    size_t unit_bytes;         /* space in the outbox for the largest output of one unit */
    uint32_t role;             /* enum unit_role */
    bool hello_sent, load_changed;
    uint32_t returning;            /* ranks with a pid */
    struct record_experts experts; /* initial state; zeros: nothing to report */
};

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

/* Stored and loaded blocks pass through the storage's memory and stay there for a while. */
static void note_memory(struct recent_blocks *memory, const struct record *record) {
    if (record->kind == RECORD_KV_PUT) {
        const struct record_kv_put *keep = (const struct record_kv_put *)record;
        recent_blocks_note(memory, kv_keep_keys(keep) + 1, keep->block_count);
    } else if (record->kind == RECORD_KV_LOAD) {
        const struct record_kv_load *load = (const struct record_kv_load *)record;
        recent_blocks_note(memory, kv_load_keys(load), load->block_count);
    }
}

/* Notes that a rank received a record or stepped: its offer and load change. */
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
    if (unit_take_load_change(units->ranks[rank].unit)) units->load_changed = true;
    units->requests[rank] = unit_request_count(units->ranks[rank].unit);
    rank_units_note_change(units, rank);
}

/* Replaces a rank's last report by its new one in the sums. */
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

static bool any_takes(const struct rank_units *units) {
    for (uint32_t rank = 0; rank < units->rank_count; rank++)
        if (!units->ranks[rank].masked) return true;
    return false;
}

static bool is_draining(const struct rank_units *units) {
    return units->capacity.draining || !any_takes(units);
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

/* The bytes of the records for all ranks together. */
static size_t own_bytes(uint32_t ranks) {
    return record_bytes(RECORD_UNIT_HELLO, &(struct record_unit_hello){.rank_count = ranks}) +
           2 * record_bytes(RECORD_UNIT_LOAD, &(struct record_unit_load){.rank_count = ranks}) +
           record_bytes(RECORD_EXPERTS, NULL);
}

static bool rank_units_has_room(const struct rank_units *units) {
    return outbox_room(&units->outbox) >= units->unit_bytes + own_bytes(units->rank_count);
}

/* Updates the offers of ranks that have changed. Called before a choice. */
static void view_offers(struct rank_units *units) {
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        if (units->offer_rounds[rank] == units->offer_round) continue;
        units->offers[rank] = unit_offer(units->ranks[rank].unit, &units->lengths);
        units->offer_rounds[rank] = units->offer_round;
    }
}

static bool rank_units_takes(const struct rank_units *units, uint32_t rank) {
    return units->offers[rank].requests < units->capacity.requests_max &&
           !units->ranks[rank].masked;
}

/* True if the rank's next step has space for a request of any turn. */
static bool has_row(const struct rank_units *units, uint32_t rank) {
    return units->offers[rank].rows < units->capacity.rows_max;
}

/* Updates the turn for which ranks have space: before the line, and after a rank has changed. */
static void view_room(struct rank_units *units) {
    view_offers(units);
    units->room_turn = INT64_MIN;
    for (uint32_t rank = 0; rank < units->rank_count; rank++)
        if (rank_units_takes(units, rank) && has_row(units, rank) &&
            units->offers[rank].full_turn > units->room_turn)
            units->room_turn = units->offers[rank].full_turn;
}

/* True if a rank has space for a prompt of that turn. All offers must be current. */
static bool any_room(const struct rank_units *units, int64_t turn) {
    return units->on_arrival || turn < units->room_turn || units->room_turn == INT64_MAX;
}

/* Builds the view for a prompt of that turn. Returns true if any rank has space. */
static bool view_prefills(struct rank_units *units, int64_t turn) {
    bool any = false;
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        const struct unit_offer *offer = &units->offers[rank];
        bool masked = units->ranks[rank].masked;
        bool room =
            has_row(units, rank) && (turn < offer->full_turn || offer->full_turn == INT64_MAX);
        if (units->on_arrival) room = true;
        units->prefills[rank] = (struct prefill_rank){
            .takes = rank_units_takes(units, rank) && room,
            .pages_free = offer->pages_available,
            .bound_cost =
                masked ? 1e300 /* no request shall wait for it */
                       : (double)offer->tokens_ahead + REQUEST_TOKENS * (double)offer->requests};
        any |= units->prefills[rank].takes;
    }
    return any;
}

/* Computes the keys of a prompt's blocks. Called once, when the prompt arrives. */
static void view_blocks(struct rank_units *units, const struct record_submit *submit) {
    struct prompt_blocks *blocks = &units->blocks;
    blocks->key_count = 0;
    if (units->rank_count == 1) return; /* the only rank gets the prompt in any case */
    /* equal for all ranks */
    blocks->key_count = unit_keys(units->ranks[0].unit, submit, blocks->keys);
    blocks->near_count = units->near_count;
    for (uint32_t rank = 0; rank < blocks->near_count; rank++) {
        const struct rank_unit *of = &units->ranks[rank];
        uint32_t cached =
            unit_hit_tokens(of->unit, blocks->keys, blocks->key_count) / KV_BLOCK_TOKENS;
        blocks->near[rank] = cached + recent_blocks_count(&of->memory, blocks->keys + cached,
                                                          blocks->key_count - cached);
    }
}

/* The hit of a prompt at a rank: from its storage's memory, then from the shared disk, as far as
 * that is faster than computing. */
static struct prefill_hit rank_units_hit_of(const struct unit *unit, uint32_t cached, uint32_t near,
                                            uint32_t most) {
    const uint32_t ends[] = {most, near}; /* end on disk, end in memory */
    struct prefill_hit hit = {.cached_tokens = cached};
    for (int memory = 1; memory >= 0; memory--) {
        uint32_t first = hit.cached_tokens, end = ends[memory];
        if (end <= first) continue;
        double fetch = unit_fetch_tokens(unit, memory, first, end - first);
        if (fetch >= end - first) continue;
        hit.cached_tokens = end;
        hit.fetch_cost += fetch;
    }
    return hit;
}

/* Finds the blocks of the prompt in the ranks' pages and in their storages' memory. Blocks of any
 * other rank are also on the shared disk. */
static void view_hits(struct rank_units *units, const struct prompt_blocks *blocks) {
    uint32_t most = 0;
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        uint32_t cached = unit_hit_tokens(units->ranks[rank].unit, blocks->keys, blocks->key_count);
        uint32_t near = blocks->near_count ? blocks->near[rank] * KV_BLOCK_TOKENS : 0;
        units->hits[rank] = (struct prefill_hit){.cached_tokens = cached};
        units->prefills[rank].pages_free += cached / KV_BLOCK_TOKENS;
        if (cached > most) most = cached;
        if (near > most) most = near;
    }
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        uint32_t near = blocks->near_count ? blocks->near[rank] * KV_BLOCK_TOKENS : 0;
        units->hits[rank] =
            rank_units_hit_of(units->ranks[rank].unit, units->hits[rank].cached_tokens, near, most);
    }
}

/* The rank that would finish the prompt first: waiting work is ahead of it, and the blocks in the
 * rank's cache need not be computed. Costs are in tokens, because times are unknown before the
 * first step. */
static struct prefill_choice choose_by_work(struct rank_units *units,
                                            const struct record_submit *submit,
                                            const struct prompt_blocks *blocks, int64_t turn,
                                            bool patient) {
    static const struct prefill_costs costs = {.token = 1, .attended = 1.0 / 8192};
    uint32_t known = submit->prompt_count + submit->resumed_count;
    struct prefill_need need = {.prompt_tokens = known,
                                .page_count =
                                    (uint32_t)admit_start_pages(admit_need_of(submit), known),
                                .patient = patient};
    if (!any_room(units, turn) || !view_prefills(units, turn))
        return (struct prefill_choice){BALANCE_NO_RANK, PREFILL_WAITS_ROOM, 0};
    view_hits(units, blocks);
    struct prefill_choice choice =
        balance_prefill(&costs, &need, units->prefills, units->hits, units->rank_count);
    if (!units->on_arrival || choice.reason != PREFILL_WAITS_PAGES) return choice;
    need.page_count = 0; /* the prompt waits for pages there */
    return balance_prefill(&costs, &need, units->prefills, units->hits, units->rank_count);
}

/* `answers`: the prompt is computed elsewhere, so the request needs pages but no computation. */
static uint32_t choose_simply(struct rank_units *units, bool answers) {
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        const struct unit_offer *offer = &units->offers[rank];
        units->loads[rank] = (struct balance_rank){
            offer->requests, answers ? offer->pages_held : offer->tokens_ahead,
            rank_units_takes(units, rank)};
    }
    return balance_simply(units->method, units->loads, units->rank_count, units->choices++);
}

/* The rank that continues an answer; not the rank `but`. */
static struct decode_choice choose_to_decode(struct rank_units *units,
                                             const struct decode_need *need, uint32_t but) {
    static const struct decode_costs costs = {.request_ns = REQUEST_PAGES, .page_ns = 1};
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        const struct unit_offer *offer = &units->offers[rank];
        units->decodes[rank] = (struct decode_rank){
            .requests = offer->rows,
            .requests_max =
                rank != but && rank_units_takes(units, rank) ? units->capacity.rows_max : 0,
            .pages_total = units->capacity.page_count,
            .pages_held = offer->pages_held,
            .pages_reserved =
                units->capacity.page_count - offer->pages_held - offer->pages_available,
            .pages_expected = offer->pages_expected};
    }
    return balance_decode(&costs, need, units->decodes, units->rank_count);
}

/* The rank that will generate the answer to a prompt that is computed elsewhere. */
static uint32_t choose_to_reserve(struct rank_units *units, const struct record_submit *submit) {
    uint32_t grows = predict_length_left(&units->lengths, 1, submit->new_tokens_max);
    struct decode_need need = {
        .page_count = (uint32_t)admit_start_pages(admit_need_of(submit), submit->prompt_count + 1),
        .pages_expected = grows / KV_BLOCK_TOKENS};
    if (units->method != BALANCE_WORK) return choose_simply(units, true);
    struct decode_choice choice = choose_to_decode(units, &need, BALANCE_NO_RANK);
    units->decode_choices[choice.reason]++;
    return choice.rank;
}

static uint32_t choose_on_arrival(struct rank_units *units, const struct record_submit *submit) {
    if (units->method != BALANCE_WORK) return choose_simply(units, false);
    view_blocks(units, submit);
    struct prefill_choice choice = choose_by_work(units, submit, &units->blocks, INT64_MAX, false);
    units->prefill_choices[choice.reason]++;
    return choice.rank;
}

static void pass_on(struct rank_units *units, uint32_t rank, const struct record *record,
                    int64_t now_ns) {
    struct machine *machine = &units->ranks[rank].machine;
    uint32_t used = units->outbox.used;
    enum status status = machine->receive(machine->self, record, now_ns);
    check(status == STATUS_OK); /* the outbox had space */
    take_records(units, rank, used);
}

/* `blocks`: of the SUBMIT, from view_blocks; NULL: not computed. */
static void pass_submit(struct rank_units *units, uint32_t rank, const struct record_submit *submit,
                        const struct prompt_blocks *blocks, int64_t now_ns) {
    struct unit *unit = units->ranks[rank].unit;
    if (blocks) unit_lend_keys(unit, blocks->keys, blocks->key_count);
    pass_on(units, rank, &submit->record, now_ns);
    unit_lend_keys(unit, NULL, 0);
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

/* Admission on arrival: limits are those of a rank, slots those of all ranks that accept
 * requests. */
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

/* The unit's times start with the request's arrival. */
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

/* Moves requests in turn from the line to ranks with space in their next step. A request that waits
 * for the rank that caches its prompt, or for pages, lets others pass until its patience ends. */
static void walk_line(struct rank_units *units, int64_t now_ns) {
    uint32_t place = 0;
    units->line_wanted = false;
    units->retry_ns = MACHINE_NEVER;
    if (units->line.count > 0) view_room(units);
    for (uint32_t looks = 0; place < units->line.count && looks < looks_max(units); looks++) {
        struct waiting_request *request = waiting_line_at(&units->line, place);
        int64_t patient_until_ns = request->arrived_ns + units->patience_ns;
        bool patient = now_ns < patient_until_ns;
        if (!rank_units_has_room(units)) break;
        if (!any_takes(units)) {
            leave_line(units, place, FINISH_REFUSED_DRAINING);
            continue;
        }
        struct prefill_choice choice =
            choose_by_work(units, request->submit, &request->blocks, request->turn, patient);
        if (choice.reason != request->reason) units->prefill_choices[choice.reason]++;
        request->reason = choice.reason;
        if (choice.rank != BALANCE_NO_RANK) {
            rank_units_bind(units, place, choice.rank);
            view_room(units);
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
    view_blocks(units, submit);
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
        view_offers(units);
        rank = submit->task == SUBMIT_RESERVE ? choose_to_reserve(units, submit)
                                              : choose_on_arrival(units, submit);
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

/* All ranks have waited for the most expensive one. */
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
    rank->work = rank->planned ? level_work(rank->unit) : (struct step_work){0};
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

/* Stops or resumes the requests of a rank. The engine handles its experts. */
static void mask(struct rank_units *units, const struct record_drain *record) {
    if (record->rank >= units->rank_count) return;
    struct rank_unit *rank = &units->ranks[record->rank];
    units->load_changed = true;
    if (record->dead && record->back) {
        expect_back(units, rank, record->pid);
        return;
    }
    rank->masked = !record->back;
    if (record->dead) unit_abandon(rank->unit);
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
    unit->abandoned = unit->draining = false;
    unit->pid = pid;
    unit->load_changed = true;
}

/* Ranks that have returned accept requests once the requests of the previous process have ended.
 * Reports their processes to the gateways. */
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

/* Adds to each plan what depends on all plans: whether any has drafts, and the common schedule. */
static void agree(struct step_plan *plan, bool drafts, bool awaits, uint32_t overlap) {
    plan->others_draft = drafts;
    plan->awaits = awaits;
    if (plan->overlap == overlap) return;
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES - 1; i++)
        plan->cuts[i].row = UINT32_MAX; /* one micro-batch is enough */
    plan->overlap = overlap;
}

/* Adds plans without rows for ranks that have none, and makes all plans agree. */
static void complete_step(struct rank_units *units) {
    bool drafts = false;
    uint32_t overlap = OVERLAP_SEQUENTIAL, rows = 0;
    for (uint32_t i = 0; i < units->rank_count; i++) {
        struct rank_unit *rank = &units->ranks[i];
        if (rank->planned) {
            drafts |= unit_drafts(rank->unit);
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
        level_free(units->ranks[rank].unit);
        units->full_ns[rank] = view.full_ns > view.answers_ns ? view.full_ns : 0;
        if (view.least_ns > least_ns) least_ns = view.least_ns;
    }
    double level_ns = balance_prefill_level(units->full_ns, units->rank_count, least_ns);
    for (uint32_t rank = 0; rank < units->rank_count && level_ns > 0; rank++)
        level_bound(units->ranks[rank].unit, &units->cost, level_ns);
}

/* Before a rank's unit would interrupt a request for pages, moves the cheapest request to a rank
 * with enough pages for it and for all growth it expects; otherwise that rank would move it again.
 * If there is no such rank, the unit chooses a request to interrupt. */
static void relieve(struct rank_units *units, uint32_t rank, int64_t now_ns) {
    struct unit *unit = units->ranks[rank].unit;
    struct unit_leaver leaver;
    if (units->method != BALANCE_WORK || units->rank_count == 1) return;
    while (unit_relieve(unit, &units->lengths, &leaver)) {
        view_offers(units);
        struct decode_need need = {leaver.page_count, leaver.pages_expected};
        struct decode_choice choice = choose_to_decode(units, &need, rank);
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
        busy += unit_could_run(units->ranks[rank].unit);
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        struct machine *machine = &units->ranks[rank].machine;
        uint32_t used = units->outbox.used;
        busy -= unit_could_run(units->ranks[rank].unit);
        unit_set_others(units->ranks[rank].unit, busy + units->line.count > 0);
        machine->step(machine->self, now_ns);
        take_records(units, rank, used);
        busy += unit_could_run(units->ranks[rank].unit);
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

/* The number of blocks of each rank's storage in the estimate. */
static uint32_t rank_units_memory_blocks(const struct unit_options *options, uint32_t ranks) {
    uint32_t most = MEMORY_BLOCKS_MAX / ranks;
    if (!options->kv_storage || ranks == 1) return 0;
    return options->kv_memory_blocks < most ? options->kv_memory_blocks : most;
}

static size_t keys_bytes(const struct unit_options *options) {
    return options->context_tokens_max / KV_BLOCK_TOKENS * sizeof(struct block_key);
}

size_t rank_units_memory_bytes(const struct unit_options *options, uint32_t ranks) {
    size_t one = unit_rank_memory_bytes(options) + 64;
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

/* Allocates all except the units and the outbox. */
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
        enum status status =
            unit_create_rank(arena, &own, &units->shared, &units->ranks[i].unit, error);
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

/* SPDX-License-Identifier: Apache-2.0
 * Every call into a unit is followed by emptying its outbox into ours, so a unit never has to wait
 * for room: a call is made only while ours has room for all that one unit can say.
 */
#include "unit/rank_units.h"

#include "base/check.h"
#include "base/map.h"
#include "contract/step_plan.h"
#include "policy/admit.h"
#include "policy/balance_prefill.h"

#include <string.h>

#define REQUEST_TOKENS 64 /* of a prompt: as much as a request's steps to come weigh */

struct rank_unit {
    struct unit *unit;
    struct machine machine;
    struct unit_rank hello;
    struct record_unit_load load;
    struct unit_rank_load own_load; /* its tail */
    bool planned, has_load;
    bool masked; /* takes no new request */
};

struct rank_units {
    struct rank_unit *ranks; /* [rank_count] */
    /* What the choice of a rank looks at: [rank_count] each. */
    struct balance_rank *loads;
    struct prefill_rank *prefills;
    struct prefill_hit *hits;
    enum balance_method method;
    uint64_t choices;
    uint32_t rank_count;
    uint32_t requests_max; /* of one rank */
    uint32_t missing;      /* STEP_DONEs that have not come back */
    struct map rank_of;    /* request id -> rank */
    struct outbox outbox;
    struct record_unit_hello hello;
    uint32_t hellos; /* units that have said hello */
    uint32_t role;   /* enum unit_role */
    bool load_changed;
    struct record_experts experts; /* at first; zeros: nothing is to be told */
};

static struct map_key key_of(struct request_id id) {
    return (struct map_key){id.high, id.low, id.attempt};
}

/* --- what units say ------------------------------------------------------------------------------
 */

static void *put_kind(struct rank_units *units, enum record_kind kind, size_t bytes) {
    void *record = outbox_put(&units->outbox, kind, bytes);
    check(record);
    return record;
}

static void *put(struct rank_units *units, const struct record *record) {
    struct record *copy = put_kind(units, (enum record_kind)record->kind, record->bytes);
    memcpy(copy, record, record->bytes);
    return copy;
}

static void put_hello(struct rank_units *units) {
    size_t bytes = hello_bytes(units->rank_count);
    struct record_unit_hello *hello = put_kind(units, RECORD_UNIT_HELLO, bytes);
    struct record head = hello->record;
    *hello = units->hello;
    hello->record = head;
    hello->role = units->role;
    hello->rank_count = units->rank_count;
    for (uint32_t rank = 0; rank < units->rank_count; rank++)
        hello_ranks(hello)[rank] = units->ranks[rank].hello;
}

static void take_hello(struct rank_units *units, uint32_t rank,
                       const struct record_unit_hello *hello) {
    units->ranks[rank].hello = *hello_ranks(hello);
    if (units->hellos++ == 0) {
        units->hello = *hello;
    } else {
        units->hello.page_count += hello->page_count;
        units->hello.requests_max += hello->requests_max;
    }
    if (units->hellos < units->rank_count) return;
    put_hello(units);
    if (units->experts.ranks) put(units, &units->experts.record);
}

static void take_record(struct rank_units *units, uint32_t rank, const struct record *record) {
    switch ((enum record_kind)record->kind) {
    case RECORD_UNIT_HELLO:
        take_hello(units, rank, (const struct record_unit_hello *)record);
        return;
    case RECORD_UNIT_LOAD:
        units->ranks[rank].load = *(const struct record_unit_load *)record;
        units->ranks[rank].own_load = *load_ranks((const struct record_unit_load *)record);
        units->ranks[rank].has_load = units->load_changed = true;
        return;
    case RECORD_RUN_STEP: {
        struct step_plan *plan = put(units, record);
        plan->rank = (uint16_t)rank;
        units->ranks[rank].planned = true;
        return;
    }
    case RECORD_FINISHED:
        map_remove(&units->rank_of, key_of(((const struct record_finished *)record)->request));
        ((struct record_finished *)put(units, record))->work.rank = rank;
        return;
    case RECORD_TOKENS:
        ((struct record_tokens *)put(units, record))->work.rank = rank;
        return;
    case RECORD_RESERVED:
        ((struct record_reserved *)put(units, record))->rank = rank;
        return;
    default:
        if (record_is_kv(record))
            ((struct record_kv *)put(units, record))->rank = rank;
        else
            put(units, record);
    }
}

static void drain(struct rank_units *units, uint32_t rank) {
    struct outbox *outbox = units->ranks[rank].machine.outbox;
    for (const struct record *record = NULL; (record = outbox_next(outbox, record));)
        take_record(units, rank, record);
    outbox_clear(outbox);
}

static void put_load(struct rank_units *units) {
    for (uint32_t rank = 0; rank < units->rank_count; rank++)
        if (!units->ranks[rank].has_load) return; /* the first ones come together */
    struct record_unit_load *all = put_kind(units, RECORD_UNIT_LOAD, load_bytes(units->rank_count));
    all->rank_count = units->rank_count;
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        const struct record_unit_load *load = &units->ranks[rank].load;
        all->requests_waiting += load->requests_waiting;
        all->requests_running += load->requests_running;
        all->pages_free += load->pages_free;
        all->pages_held += load->pages_held;
        all->pages_cached += load->pages_cached;
        all->last_step_rows += load->last_step_rows;
        all->last_step_tokens += load->last_step_tokens;
        if (load->last_step_ns > all->last_step_ns) all->last_step_ns = load->last_step_ns;
        if (load->steps_total > all->steps_total) all->steps_total = load->steps_total;
        all->prompt_tokens_total += load->prompt_tokens_total;
        all->output_tokens_total += load->output_tokens_total;
        all->recomputed_tokens_total += load->recomputed_tokens_total;
        all->preemptions_total += load->preemptions_total;
        all->evicted_pages_total += load->evicted_pages_total;
        all->drafts_total += load->drafts_total;
        all->drafts_right_total += load->drafts_right_total;
        all->loaded_disk_tokens_total += load->loaded_disk_tokens_total;
        all->loaded_host_tokens_total += load->loaded_host_tokens_total;
        all->kept_blocks_total += load->kept_blocks_total;
        all->dropped_blocks_total += load->dropped_blocks_total;
        if (load->kv_storage > all->kv_storage) all->kv_storage = load->kv_storage;
        load_ranks(all)[rank] = units->ranks[rank].own_load;
    }
    units->load_changed = false;
}

/* --- what they hear ------------------------------------------------------------------------------
 */

static bool has_room(const struct rank_units *units) {
    return outbox_room(&units->outbox) >= units->ranks[0].machine.outbox->capacity +
                                              load_bytes(units->rank_count) +
                                              hello_bytes(units->rank_count) +
                                              sizeof(struct record_experts);
}

/* Where the prompt would be done first: what waits there is ahead of it, what the rank's cache
 * holds need not be computed. In tokens rather than times, which do not exist before the first
 * step; a rank has pages for it, if any has. */
static uint32_t choose_by_work(struct rank_units *units, const struct record_submit *submit) {
    static const struct prefill_costs costs = {.token_ns = 1, .attended_ns = 1.0 / 8192};
    uint32_t known = submit->prompt_count + submit->resumed_count;
    struct admit_need pages = {submit->prompt_count, submit->new_tokens_max};
    struct prefill_need need = {.prompt_tokens = known,
                                .page_count = (uint32_t)admit_start_pages(pages, known)};
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        struct unit_offer offer = unit_offer(units->ranks[rank].unit, submit);
        bool takes = offer.requests < units->requests_max && !units->ranks[rank].masked;
        units->prefills[rank] = (struct prefill_rank){
            .room_tokens = takes,
            .pages_free = offer.pages_available + offer.hit_tokens / KV_BLOCK_TOKENS,
            .bound_ns = (double)offer.tokens_ahead + REQUEST_TOKENS * (double)offer.requests};
        units->hits[rank] = (struct prefill_hit){.cached_tokens = offer.hit_tokens};
    }
    struct prefill_choice choice =
        balance_prefill(&costs, &need, units->prefills, units->hits, units->rank_count);
    need.page_count = 0; /* then it waits for pages */
    if (choice.reason == PREFILL_WAITS_PAGES)
        choice = balance_prefill(&costs, &need, units->prefills, units->hits, units->rank_count);
    return choice.rank;
}

static uint32_t choose_simply(struct rank_units *units, const struct record_submit *submit) {
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        struct unit_offer offer = unit_offer(units->ranks[rank].unit, submit);
        units->loads[rank] = (struct balance_rank){.requests = offer.requests,
                                                   .tokens = offer.tokens_ahead,
                                                   .takes = offer.requests < units->requests_max &&
                                                            !units->ranks[rank].masked};
    }
    return balance_simply(units->method, units->loads, units->rank_count, units->choices++);
}

static uint32_t choose_rank(struct rank_units *units, const struct record_submit *submit) {
    uint32_t known = map_find(&units->rank_of, key_of(submit->request));
    if (known != MAP_NONE) return known;
    uint32_t rank = units->method == BALANCE_WORK ? choose_by_work(units, submit)
                                                  : choose_simply(units, submit);
    for (uint32_t other = 0; rank == BALANCE_NO_RANK; other++) /* the first that may will refuse */
        if (!units->ranks[other].masked || other + 1 == units->rank_count) rank = other;
    map_add(&units->rank_of, key_of(submit->request), rank);
    return rank;
}

static void pass_on(struct rank_units *units, uint32_t rank, const struct record *record,
                    int64_t now_ns) {
    struct machine *machine = &units->ranks[rank].machine;
    enum status status = machine->receive(machine->self, record, now_ns);
    check(status == STATUS_OK); /* its outbox is empty */
    drain(units, rank);
}

static void take_result(struct rank_units *units, const struct step_result *result,
                        int64_t now_ns) {
    check(units->missing > 0 && result->rank < units->rank_count);
    struct rank_unit *rank = &units->ranks[result->rank];
    units->missing--;
    if (!rank->planned) return;
    rank->planned = false;
    pass_on(units, result->rank, &result->record, now_ns);
}

static void take_role(struct rank_units *units, const struct record_role *record) {
    units->role = record->role;
    if (units->hellos == units->rank_count) put_hello(units);
}

/* Its experts are the engine's business. */
static void mask(struct rank_units *units, const struct record_drain *record) {
    if (record->rank >= units->rank_count) return;
    units->ranks[record->rank].masked = !record->back;
    if (record->dead) unit_abandon(units->ranks[record->rank].unit);
    put(units, &record->record);
}

static enum status units_receive(void *self, const struct record *record, int64_t now_ns) {
    struct rank_units *units = self;
    uint32_t rank;
    if (!has_room(units)) return STATUS_FULL;
    switch ((enum record_kind)record->kind) {
    case RECORD_SUBMIT:
        rank = choose_rank(units, (const struct record_submit *)record);
        pass_on(units, rank, record, now_ns);
        break;
    case RECORD_CANCEL:
    case RECORD_CONTINUE:
        rank = map_find(&units->rank_of, key_of(record_request(record)));
        if (rank != MAP_NONE) pass_on(units, rank, record, now_ns);
        break;
    case RECORD_KV_DONE:
    case RECORD_KV_FOUND:
    case RECORD_KV_LOADED:
    case RECORD_KV_KEPT:
        rank = record_kv_rank(record);
        check(rank < units->rank_count);
        pass_on(units, rank, record, now_ns);
        break;
    case RECORD_STEP_DONE:
        take_result(units, (const struct step_result *)record, now_ns);
        break;
    case RECORD_EXPERTS:
        put(units, record);
        break;
    case RECORD_ROLE:
        take_role(units, (const struct record_role *)record);
        break;
    case RECORD_DRAIN:
        if (((const struct record_drain *)record)->one_rank) {
            mask(units, (const struct record_drain *)record);
            break;
        }
        for (rank = 0; rank < units->rank_count; rank++)
            pass_on(units, rank, record, now_ns);
        break;
    default:
        check(!"a kind that units take");
    }
    if (units->load_changed) put_load(units);
    return STATUS_OK;
}

/* What all ranks must know of one another's plans: whether any has drafts, and one schedule. */
static void agree(struct step_plan *plan, bool drafts, uint32_t overlap) {
    plan->others_draft = drafts;
    if (plan->overlap == overlap) return;
    for (uint32_t i = 0; i < OVERLAP_LANES - 1; i++)
        plan->cuts[i].row = UINT32_MAX; /* one lane is enough */
    plan->overlap = overlap;
}

/* Plans without rows for the ranks that have none, and agreement among all. */
static void complete_step(struct rank_units *units) {
    bool drafts = false;
    uint32_t overlap = OVERLAP_SEQUENTIAL;
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        if (units->ranks[rank].planned) continue;
        struct step_plan *plan = put_kind(units, RECORD_RUN_STEP, step_plan_bytes(0, 0, 0));
        plan->rank = (uint16_t)rank;
    }
    for (int again = 0; again < 2; again++)
        for (const struct record *record = NULL; (record = outbox_next(&units->outbox, record));) {
            struct step_plan *plan = (struct step_plan *)(uintptr_t)record;
            if (record->kind != RECORD_RUN_STEP) continue;
            for (uint32_t i = 0; i < plan->row_count; i++)
                drafts |= step_plan_rows(plan)[i].draft_count > 0;
            if (plan->overlap > overlap) overlap = plan->overlap;
            if (again) agree(plan, drafts, overlap);
        }
    units->missing = units->rank_count;
}

static void units_step(void *self, int64_t now_ns) {
    struct rank_units *units = self;
    bool any = false;
    if (units->outbox.used || units->missing) return; /* all plans of a step go out together */
    for (uint32_t rank = 0; rank < units->rank_count; rank++) {
        struct machine *machine = &units->ranks[rank].machine;
        machine->step(machine->self, now_ns);
        drain(units, rank);
        any |= units->ranks[rank].planned;
    }
    if (any) complete_step(units);
    if (units->load_changed) put_load(units);
}

static int64_t units_next_wake_ns(const void *self) {
    const struct rank_units *units = self;
    int64_t earliest = MACHINE_NEVER;
    for (uint32_t rank = 0; rank < units->rank_count && !units->missing; rank++) {
        const struct machine *machine = &units->ranks[rank].machine;
        int64_t wake_ns = machine->next_wake_ns(machine->self);
        if (wake_ns < earliest) earliest = wake_ns;
    }
    return earliest;
}

/* --- creation ------------------------------------------------------------------------------------
 */

/* What speaks for all ranks. */
static size_t own_bytes(uint32_t ranks) {
    return hello_bytes(ranks) + 2 * load_bytes(ranks) + sizeof(struct record_experts);
}

static size_t outbox_bytes(const struct rank_units *units) {
    size_t one = units->ranks[0].machine.outbox->capacity + sizeof(struct step_plan);
    return round_up(units->rank_count * one + own_bytes(units->rank_count), 16);
}

size_t rank_units_memory_bytes(const struct unit_options *options, uint32_t ranks) {
    size_t one = unit_memory_bytes(options) + 64;
    size_t outbox =
        ranks * (unit_outbox_bytes(options) + sizeof(struct step_plan)) + own_bytes(ranks) + 16;
    return ranks * (one + sizeof(struct rank_unit) + sizeof(struct balance_rank) +
                    sizeof(struct prefill_rank) + sizeof(struct prefill_hit)) +
           sizeof(struct rank_units) + map_bytes(ranks * options->requests_max + 1) + outbox + 256;
}

enum status rank_units_create(struct arena *arena, const struct unit_options *options,
                              uint32_t ranks, struct rank_units **units_out, struct error *error) {
    enum status status = STATUS_OK;
    struct rank_units *units = arena_take_zeroed(arena, sizeof *units);
    check(ranks > 0 && ranks <= LIMIT_RANKS);
    if (units) {
        units->rank_count = ranks;
        units->requests_max = options->requests_max;
        units->role = options->role;
        if (options->experts) units->experts = *options->experts;
        units->ranks = arena_take_zeroed(arena, ranks * sizeof *units->ranks);
        units->loads = arena_take_zeroed(arena, ranks * sizeof *units->loads);
        units->prefills = arena_take_zeroed(arena, ranks * sizeof *units->prefills);
        units->hits = arena_take_zeroed(arena, ranks * sizeof *units->hits);
        units->method = (enum balance_method)options->rank_balance;
    }
    for (uint32_t i = 0; status == STATUS_OK && units && units->ranks && i < ranks; i++) {
        struct unit_options own = *options;
        if (own.pids) own.pids += i;
        if (own.kv_addresses) own.kv_addresses += i;
        status = unit_create(arena, &own, &units->ranks[i].unit, error);
        if (status == STATUS_OK) units->ranks[i].machine = unit_machine(units->ranks[i].unit);
    }
    if (status != STATUS_OK) return status;
    if (units && units->ranks && units->loads && units->prefills && units->hits &&
        map_open(&units->rank_of, arena, ranks * options->requests_max + 1) == STATUS_OK) {
        units->outbox.capacity = (uint32_t)outbox_bytes(units);
        units->outbox.memory = arena_take(arena, units->outbox.capacity);
        if (units->outbox.memory) {
            *units_out = units;
            return STATUS_OK;
        }
    }
    return error_set(error, STATUS_NO_MEMORY, "no memory for the units of %u ranks", ranks);
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

/* SPDX-License-Identifier: Apache-2.0
 * The hosts of units in virtual time. They deliver the records of a unit to gateways, to its
 * engines, and to the models of transfers and storage. A step takes a while, and its results are
 * available at its end.
 */
#include "base/check.h"
#include "base/number.h"
#include "simulate/world/fleet_state.h"

#define STEP_NS_MAX (30 * FLEET_MS)
/* The longest time that a step is prolonged while it waits for a load. */
#define WAIT_NS (FLEET_SECOND / 2)
#define WAIT_NS_LEAST (20 * FLEET_MS)        /* the least value of that limit */
#define OF_SLICE (UINT32_MAX - FLEET_SLICES) /* not a connection: messages for the end of a slice */

/* ---- records to the gateway ---- */

static void notify_gateway(struct world *world, struct fleet_unit_host *unit, uint32_t gateway,
                           const struct record *record) {
    struct fleet_gateway_link *link = &unit->links[gateway];
    check(record_valid(record, record->bytes));
    if (link->connection)
        post_send_from_unit(&world->gateways[gateway].inbox, world_arrival_ns(world, &link->out_ns),
                            link->connection, record);
}

/* Sends a record about the unit to all gateways. */
static void fleet_units_report_all(struct world *world, struct fleet_unit_host *unit,
                                   const struct record *record) {
    for (uint32_t i = 0; i < world->gateway_count; i++)
        notify_gateway(world, unit, i, record);
}

/* Sends a record about a request to the gateway of the request. Drops it if that gateway is
 * gone. */
static void fleet_units_notify_owner(struct world *world, struct fleet_unit_host *unit,
                                     const struct record *record) {
    struct request_id request = record_request(record);
    for (uint32_t i = 0; i < unit->open_count; i++) {
        const struct fleet_submitted *open = &unit->open[i];
        if (!request_id_equal(open->id, request)) continue;
        for (uint32_t k = 0; k < world->gateway_count; k++)
            if (open->connection && unit->links[k].connection == open->connection)
                notify_gateway(world, unit, k, record);
        return;
    }
    world_breach(world, "a unit speaks of a request that it does not have");
}

static void check_work(struct world *world, const struct unit_work *work, uint32_t prompt_count) {
    uint32_t cached = work->device_tokens + work->host_tokens + work->disk_tokens;
    uint32_t obtained = cached + work->transferred_tokens + work->computed_tokens;
    if (work->prompt_hit_tokens + work->prompt_miss_tokens != prompt_count)
        world_breach(world, "hits and misses are not the prompt");
    if (work->prefill_ns ? obtained != prompt_count : obtained > prompt_count)
        world_breach(world, "a prompt's tokens are not all accounted for");
}

/* Handles the FINISHED of a request. There must be exactly one. */
static void take_finished(struct world *world, struct fleet_unit_host *unit,
                          const struct record_finished *finished) {
    for (uint32_t i = 0; i < unit->open_count; i++) {
        struct fleet_submitted submitted = unit->open[i];
        if (!request_id_equal(submitted.id, finished->request)) continue;
        unit->open[i] = unit->open[--unit->open_count];
        check_work(world, &finished->work, submitted.prompt_count);
        return;
    }
    world_breach(world, "a unit ended a request that it does not have");
}

/* ---- steps ---- */

/* The row of the plan that waits for a load, if there is one. The load was requested together with
 * the plan. */
static struct fleet_wait wait_of(struct world *world, const struct fleet_unit_host *unit,
                                 const struct step_plan *plan) {
    struct fleet_wait wait = {0};
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < plan->row_count; i++) {
        if (!step_plan_rows(plan)[i].loads) continue;
        wait.slot = step_plan_rows(plan)[i].slot;
        waiting++;
    }
    const struct outbox *outbox = unit->machine.outbox;
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));) {
        const struct record_kv_load *load = (const void *)record;
        if (record->kind != RECORD_KV_LOAD || !load->in_step || load->rank != plan->rank) continue;
        if (load->slot != wait.slot) world_breach(world, "a load waits for no row");
        wait.asked = load->block_count;
    }
    if (waiting > 1) world_breach(world, "two rows of a step wait for loads");
    if (waiting != (wait.asked > 0)) world_breach(world, "a row waits for no load");
    return wait;
}

/* Takes the plan of a rank and adds all pages of its rows, as an engine needs them. */
static const struct step_plan *fleet_units_take_plan(struct world *world,
                                                     struct fleet_unit_host *unit,
                                                     const struct step_plan *plan) {
    struct slot_pages *slots = &unit->engines[plan->rank].slots;
    struct step_plan *whole = (struct step_plan *)(void *)world->envelope;
    check(record_valid(plan, plan->record.bytes));
    size_t bytes = slot_pages_whole_bytes(slots, plan);
    check(bytes > 0 && bytes <= RESULT_BYTES);
    slot_pages_expand(slots, plan, whole);
    check(record_valid(whole, bytes));
    return whole;
}

/* Puts the plan into the unit's own inbox, due when the step's time has passed. Adds a message for
 * the end of each slice if the step reports progress or has a row that waits for its load. */
static void fleet_units_begin_step(struct world *world, struct fleet_unit_host *unit,
                                   const struct step_plan *reported, int64_t done_ns) {
    uint64_t salts[LIMIT_STEP_ROWS];
    const struct step_plan *plan = fleet_units_take_plan(world, unit, reported);
    check(fleet_engine_result_bytes(plan) <= RESULT_BYTES);
    fleet_inside_salts(rank_units_unit(unit->units, plan->rank), plan, salts);
    bool is_dead = unit->dead[plan->rank];
    world->report->worked_again += unit->was_dead[plan->rank] && !is_dead && plan->row_count > 0;
    if (!is_dead) fleet_engine_begin(&unit->engines[plan->rank], plan, salts);
    post_send(&unit->inbox, done_ns, 0, &plan->record);
    unit->waits[plan->rank] = wait_of(world, unit, plan);
    unit->reports[plan->rank] = fleet_dice_below(&world->dice, 3) && unit->role == UNIT_PREFILL;
    unit->step_rows += plan->row_count;
    uint32_t slices = unit->reports[plan->rank] || unit->waits[plan->rank].asked ? FLEET_SLICES : 0;
    for (uint32_t slice = 0; slice < slices; slice++)
        post_send(&unit->inbox,
                  world->now_ns + (done_ns - world->now_ns) * (slice + 1) / FLEET_SLICES - 1,
                  OF_SLICE + slice, &plan->record);
}

/* Writes a slice. A failing step stops long before its last slice. */
static void write_slice(struct world *world, struct fleet_unit_host *unit,
                        const struct step_plan *plan, uint32_t slice) {
    bool fails = unit->failing && slice == FLEET_SLICES - 1;
    fleet_engine_read(&unit->engines[plan->rank], plan, slice);
    if (!unit->reports[plan->rank] || unit->dead[plan->rank] || fails) return;
    fleet_engine_write(&unit->engines[plan->rank], plan, slice);
    fleet_carriers_progress(&world->carriers, unit->index, plan->rank, plan->step, slice + 1,
                            world->now_ns);
}

/* Determines how the waiting row ends. The engine may leave the check for missing blocks to the
 * unit. */
static enum fleet_step_end end_wait(struct world *world, struct fleet_unit_host *unit,
                                    uint32_t rank, struct load_end *load_out, bool *ended_out) {
    struct fleet_wait wait = unit->waits[rank];
    unit->waits[rank] = (struct fleet_wait){0};
    *ended_out = false;
    if (unit->failing)
        return unit->breaks && !unit->dead[rank] ? FLEET_STEP_BREAKS : FLEET_STEP_FAILS;
    if (wait.asked == 0) return FLEET_STEP_WHOLE;
    *ended_out = fleet_storage_take_end(&world->storage, unit->index, rank, wait.slot, load_out);
    bool whole = *ended_out && load_out->blocks == wait.asked;
    bool lost = wait.in_vain || !*ended_out || (unit->looks && !whole);
    world->report->in_step += !lost && whole;
    world->report->in_step_lost += lost || !whole;
    world->report->in_shared_step += unit->step_rows > 1;
    world_log(world, lost ? "row waited in vain" : "row waited", unit->index, rank, wait.slot,
              whole);
    return lost ? FLEET_STEP_LOSES : FLEET_STEP_WHOLE;
}

static void fleet_units_report_load(const struct step_plan *plan, const struct load_end *load,
                                    struct step_result *result) {
    for (uint32_t i = 0; i < result->row_count; i++) {
        if (!step_plan_rows(plan)[i].loads) continue;
        step_result_rows(result)[i].load_ended = 1;
        step_result_rows(result)[i].load_end = *load;
    }
}

static const struct record *fleet_units_end_step(struct world *world, struct fleet_unit_host *unit,
                                                 const struct step_plan *plan, int64_t due_ns) {
    uint64_t salts[LIMIT_STEP_ROWS];
    struct load_end load;
    bool ended;
    enum fleet_step_end end = end_wait(world, unit, plan->rank, &load, &ended);
    struct step_result *result = (struct step_result *)(void *)world->result;
    struct fleet_engine *engine = &unit->engines[plan->rank];
    fleet_inside_salts(rank_units_unit(unit->units, plan->rank), plan, salts);
    fleet_engine_end(engine, plan, salts, end, result);
    if (ended) fleet_units_report_load(plan, &load, result);
    result->compute_ns = due_ns - unit->step_began_ns;
    result->awaited_ns = world->now_ns - due_ns;
    check(record_valid(result, result->record.bytes));
    if (engine->foreign_reads) world_breach(world, "a tenant's page was read for another");
    if (engine->early_rows) world_breach(world, "a row came before its constraint, or its mask");
    return &result->record;
}

/* Loses the process of a rank. The step in which a rank dies fails on all ranks, and the death is
 * reported after it. The rank's pages are lost. */
static void bury_rank(struct world *world, struct fleet_unit_host *unit, uint32_t rank,
                      int64_t done_ns) {
    struct record_drain drain = {
        .record = record_head(RECORD_DRAIN, sizeof drain), .one_rank = 1, .rank = rank, .dead = 1};
    unit->dead[rank] = unit->was_dead[rank] = true;
    fleet_engine_spoil(&unit->engines[rank]);
    fleet_carriers_bury(&world->carriers, unit->index, rank, world->now_ns);
    fleet_storage_bury(&world->storage, unit->index, rank);
    world_log(world, "rank dies", unit->index, rank, 0, 0);
    world->report->rank_deaths++;
    post_send(&unit->inbox, done_ns, 0, &drain.record);
}

/* True for the message of a step, false for that of a slice. */
static bool is_step(const struct post_message *message) {
    return message->record.kind == RECORD_RUN_STEP && message->connection < OF_SLICE;
}

/* Interrupts the current step and returns its new end. Reports about ranks follow it. */
static int64_t fleet_units_break_step(struct world *world, struct fleet_unit_host *unit) {
    const struct post_message *message;
    int64_t due_ns = world->now_ns;
    for (size_t at = 0; (message = post_at(&unit->inbox, at)); at += message->bytes) {
        if (!is_step(message)) continue;
        world->report->failed_steps += !unit->failing;
        unit->breaks |= !unit->failing;
        unit->failing = true;
        if (due_ns < message->due_ns) due_ns = message->due_ns;
    }
    return due_ns;
}

void fleet_units_bury(struct world *world, uint32_t index, uint32_t rank) {
    struct fleet_unit_host *unit = &world->units[index];
    bury_rank(world, unit, rank, fleet_units_break_step(world, unit));
}

/* The rank returns with empty pages. */
void fleet_units_take_back(struct world *world, uint32_t index, uint32_t rank) {
    struct fleet_unit_host *unit = &world->units[index];
    struct record_drain drain = {.record = record_head(RECORD_DRAIN, sizeof drain),
                                 .one_rank = 1,
                                 .rank = rank,
                                 .back = 1,
                                 .dead = 1,
                                 .pid = (int64_t)++world->report->returned};
    unit->dead[rank] = false;
    fleet_engine_spoil(&unit->engines[rank]);
    fleet_carriers_return(&world->carriers, index, rank);
    world_log(world, "rank is back", index, rank, (uint64_t)drain.pid, 0);
    post_send(&unit->inbox, fleet_units_break_step(world, unit), 0, &drain.record);
}

/* ---- the unit's records ---- */

static void fleet_units_say(char *said, const struct record *record) {
    check(record->bytes <= SAID_BYTES);
    memcpy(said, record, record->bytes);
}

/* Reports to the KV agent of a rank. Rank 0's pages belong to the unit's own process; messages to
 * other ranks take time. */
static void fleet_units_report_pages(struct world *world, struct fleet_unit_host *unit,
                                     const struct record *record) {
    uint32_t rank = record_kv_rank(record);
    check(rank < world->ranks && record_valid(record, record->bytes));
    int64_t due_ns = world->now_ns;
    if (rank) due_ns += fleet_dice_time(&world->dice, FLEET_MS / 100, 2 * FLEET_MS);
    if (due_ns < unit->wire_ns[rank]) due_ns = unit->wire_ns[rank];
    unit->wire_ns[rank] = due_ns;
    post_send(&unit->wires, due_ns, rank, record);
}

static void deliver_to_pages(struct world *world, struct fleet_unit_host *unit) {
    const struct post_message *message;
    uint32_t index = unit->index;
    while ((message = post_at(&unit->wires, 0)) && message->due_ns <= world->now_ns) {
        uint16_t kind = message->record.kind;
        if (kind == RECORD_KV_EXPECT || kind == RECORD_KV_PUSH || kind == RECORD_KV_CANCEL)
            fleet_carriers_take(&world->carriers, index, message->connection, &message->record,
                                world->now_ns);
        else
            fleet_storage_take(&world->storage, index, message->connection, &message->record,
                               world->now_ns);
        post_drop(&unit->wires, 0);
    }
}

static void log_said(struct world *world, const struct fleet_unit_host *unit,
                     const struct record *record) {
    const struct record_finished *finished = (const void *)record;
    const struct record_tokens *tokens = (const void *)record;
    bool ends = record->kind == RECORD_FINISHED;
    if (!ends && record->kind != RECORD_TOKENS && record->kind != RECORD_SCORES &&
        record->kind != RECORD_RESERVED)
        return;
    fleet_log_request(world->log, world->now_ns, record_name(record->kind), unit->index,
                      FLEET_LOG_NOWHERE, record_request(record),
                      ends ? finished->reason : tokens->first_output_position,
                      ends ? finished->work.prompt_hit_tokens : tokens->token_count);
}

/* Cuts the unit from all gateways. */
static void fleet_units_cut_all(struct world *world, struct fleet_unit_host *unit) {
    for (uint32_t i = 0; i < world->gateway_count; i++)
        fleet_units_cut(world, unit->index, i, true);
    world->report->cuts++;
}

/* Begins a step on all ranks. If a row waits for a load, faults are more likely. */
static void set_out(struct world *world, struct fleet_unit_host *unit, int64_t done_ns) {
    struct fleet_dice *dice = &world->dice;
    bool faulty = world->options.faults && world->now_ns < world->healed_ns, waiting = false;
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        waiting |= unit->waits[rank].asked > 0;
    bool patient = !faulty || fleet_dice_below(dice, 4);
    unit->looks = fleet_dice_below(dice, 2);
    unit->step_began_ns = world->now_ns;
    unit->wait_until_ns = done_ns + (patient ? WAIT_NS : fleet_dice_time(dice, 0, WAIT_NS_LEAST));
    unit->failing = (faulty && fleet_dice_below(dice, waiting ? 16 : 400) == 0) || unit->dies;
    unit->breaks = false;
    world->report->failed_steps += unit->failing;
    if (unit->dies) bury_rank(world, unit, unit->dies - 1, done_ns);
    unit->dies = 0;
    if (!waiting || !faulty || fleet_dice_below(dice, 12)) return;
    fleet_units_cut_all(world, unit);
    if (unit->looks) unit->wait_until_ns = done_ns; /* the load takes longer than the step */
}

static void fleet_units_drain(struct world *world, struct fleet_unit_host *unit) {
    struct outbox *outbox = unit->machine.outbox;
    int64_t done_ns = world->now_ns + fleet_dice_time(&world->dice, 2 * FLEET_MS, STEP_NS_MAX);
    bool stepped = false;
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));) {
        if (record_is_kv(record)) {
            fleet_log_request(world->log, world->now_ns, record_name(record->kind), unit->index,
                              record_kv_rank(record), record_request(record), 0, 0);
            fleet_units_report_pages(world, unit, record);
            continue;
        }
        switch (record->kind) {
        case RECORD_RUN_STEP:
            if (!stepped) unit->step_rows = 0;
            fleet_units_begin_step(world, unit, (const struct step_plan *)record, done_ns);
            stepped = true;
            continue;
        case RECORD_UNIT_HELLO:
            fleet_units_say(unit->hello, record);
            break;
        case RECORD_UNIT_LOAD:
            fleet_units_say(unit->load, record);
            unit->sign_ns = world->now_ns + SIGN_NS;
            break;
        case RECORD_FINISHED:
            log_said(world, unit, record);
            fleet_units_notify_owner(world, unit, record);
            take_finished(world, unit, (const struct record_finished *)record);
            continue;
        case RECORD_DRAIN: /* the other ranks adopt its experts */
        case RECORD_ROLE:  /* its experts may be placed differently */
            continue;
        default:
            check(record->kind == RECORD_TOKENS || record->kind == RECORD_SCORES ||
                  record->kind == RECORD_PROGRESS || record->kind == RECORD_RESERVED);
            log_said(world, unit, record);
            fleet_units_notify_owner(world, unit, record);
            continue;
        }
        fleet_units_report_all(world, unit, record);
    }
    machine_outbox_clear(outbox);
    if (stepped) set_out(world, unit, done_ns);
}

/* ---- the unit's inbox ---- */

static void fleet_units_hand_over(struct world *world, struct fleet_unit_host *unit,
                                  const struct record *record) {
    while (!machine_pass(&unit->machine, record, world->now_ns))
        fleet_units_drain(world, unit);
}

/* True unless the message is from a connection that is gone. */
static bool fleet_units_is_known(const struct world *world, const struct fleet_unit_host *unit,
                                 const struct post_message *message) {
    if (message->connection == 0) return true;
    for (uint32_t i = 0; i < world->gateway_count; i++)
        if (unit->links[i].connection == message->connection) return true;
    return false;
}

static void note_submit(struct fleet_unit_host *unit, const struct post_message *message) {
    const struct record_submit *submit = (const void *)&message->record;
    check(unit->open_count < OPEN_MAX);
    unit->open[unit->open_count++] =
        (struct fleet_submitted){submit->request, submit->prompt_count, message->connection};
}

/* ---- rows that wait ---- */

static struct fleet_load_state fleet_units_look(const struct world *world,
                                                const struct fleet_unit_host *unit, uint32_t rank) {
    return fleet_storage_look(&world->storage, unit->index, rank, unit->waits[rank].slot);
}

static bool fleet_units_waits(const struct world *world, const struct fleet_unit_host *unit,
                              uint32_t rank) {
    const struct fleet_wait *wait = &unit->waits[rank];
    return wait->asked && !wait->in_vain && !fleet_units_look(world, unit, rank).over;
}

/* Stops waiting after a limit or if a load is broken. The row then computes the remaining layers,
 * no matter what arrives later. */
static void give_up_waiting(struct world *world, struct fleet_unit_host *unit) {
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        struct fleet_wait *wait = &unit->waits[rank];
        if (!fleet_units_waits(world, unit, rank)) continue;
        wait->in_vain = (unit->looks && fleet_units_look(world, unit, rank).broken) ||
                        world->now_ns >= unit->wait_until_ns;
        if (wait->in_vain)
            unit->behind_ns = world->now_ns + fleet_dice_time(&world->dice, 0, STEP_NS_MAX);
    }
}

/* True if the end of a slice or step that is due must wait for a load, on any rank. */
static bool fleet_units_is_held(const struct world *world, const struct fleet_unit_host *unit,
                                const struct post_message *message) {
    if (message->record.kind != RECORD_RUN_STEP || unit->failing) return false;
    if (fleet_network_holds(world, unit->index)) return true;
    if (message->connection >= OF_SLICE) {
        uint32_t rank = ((const struct step_plan *)(const void *)&message->record)->rank;
        return fleet_units_waits(world, unit, rank) &&
               fleet_units_look(world, unit, rank).slices <= message->connection - OF_SLICE;
    }
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        if (fleet_units_waits(world, unit, rank)) return true;
    return unit->behind_ns > world->now_ns;
}

/* A rank dies while the step waits. */
static void fail_step(struct world *world, struct fleet_unit_host *unit) {
    unit->failing = true;
    world->report->failed_steps++;
    bury_rank(world, unit, unit->dies - 1, world->now_ns);
    unit->dies = 0;
}

/* Notes that the unit drains. A drained unit ends when it has no requests; some wait and may be
 * called back. */
static void note_drain(struct world *world, struct fleet_unit_host *unit,
                       const struct record_drain *drain) {
    unit->draining = !drain->back;
    if (world->managers.present) {
        unit->goes = unit->ends;
        return;
    }
    unit->goes = unit->draining &&
                 (world->now_ns >= world->healed_ns || fleet_dice_below(&world->drains, 3) == 0);
}

static void fleet_units_deliver(struct world *world, struct fleet_unit_host *unit) {
    const struct post_message *message;
    size_t at = 0;
    give_up_waiting(world, unit);
    while ((message = post_at(&unit->inbox, at)) && message->due_ns <= world->now_ns) {
        const struct record *record = &message->record;
        if (fleet_units_is_held(world, unit, message)) {
            if (unit->dies) {
                fail_step(world, unit);
                continue;
            }
            at += message->bytes;
            continue;
        }
        bool known = fleet_units_is_known(world, unit, message);
        if (known && record->kind == RECORD_SUBMIT) note_submit(unit, message);
        if (known && (record->kind == RECORD_SUBMIT || record->kind == RECORD_CANCEL ||
                      record->kind == RECORD_CONTINUE))
            fleet_log_request(world->log, world->now_ns, record_name(record->kind), unit->index,
                              FLEET_LOG_NOWHERE, record_request(record), 0, 0);
        const struct record_drain *drain = (const void *)record;
        if (record->kind == RECORD_DRAIN && unit->ends && drain->back) known = false;
        if (known && record->kind == RECORD_DRAIN && !drain->one_rank)
            note_drain(world, unit, drain);
        if (message->connection >= OF_SLICE) {
            write_slice(world, unit, (const void *)record, message->connection - OF_SLICE);
        } else if (known && record->kind == RECORD_RUN_STEP) {
            const struct step_plan *plan = (const void *)record;
            fleet_units_hand_over(world, unit,
                                  fleet_units_end_step(world, unit, plan, message->due_ns));
        } else if (known) {
            fleet_units_hand_over(world, unit, record);
        }
        post_drop(&unit->inbox, at);
    }
}

void fleet_units_receive(void *context, uint32_t unit, const struct record *record) {
    struct world *world = context;
    struct fleet_unit_host *host = &world->units[unit];
    uint32_t rank = record_kv_rank(record);
    int64_t due_ns = world->now_ns;
    check(host->up && record_valid(record, record->bytes));
    if (rank) due_ns += fleet_dice_time(&world->dice, FLEET_MS / 100, 2 * FLEET_MS);
    fleet_log_request(world->log, world->now_ns, record_name(record->kind), unit, rank,
                      record_request(record),
                      ((const struct record_kv *)(const void *)record)->value, 0);
    post_send(&host->inbox, due_ns, 0, record);
}

struct fleet_engine *fleet_units_engine(void *context, uint32_t unit, uint32_t rank) {
    struct world *world = context;
    return world->units[unit].dead[rank] ? NULL : &world->units[unit].engines[rank];
}

/* ---- incarnations ---- */

/* In an upgrade of the fleet, some units start with the new numerics, and each later incarnation
 * may. */
static void renew(struct world *world, struct fleet_unit_host *unit) {
    if (world->report->renewed && fleet_dice_below(&world->renewals, 3) == 0) unit->numerics = 1;
}

static void start(struct world *world, struct fleet_unit_host *unit) {
    struct arena arena;
    struct error error;
    uint32_t index = unit->index;
    char addresses[FLEET_RANKS_MAX][KV_ADDRESS_BYTES];
    struct unit_options options = world->unit_options;
    unit->life++;
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        fleet_carriers_address((struct fleet_place){(uint8_t)index, (uint8_t)rank, unit->life},
                               addresses[rank]);
    options.role = unit->role;
    renew(world, unit);
    options.numerics_id = fleet_numerics[unit->numerics];
    options.instance =
        (uint64_t)(world->managers.present ? unit->number : index + 1) << 32 | unit->life;
    unit->gateway_lives = world->gateway_lives;
    unit->gateways_found = 0;
    for (uint32_t i = 0; i < world->gateway_count; i++)
        unit->gateways_found += world->gateways[i].gateway != NULL;
    options.kv_addresses = (const char(*)[KV_ADDRESS_BYTES])addresses;
    arena_over(&arena, unit->memory, world->unit_bytes);
    enum status status = rank_units_create(&arena, &options, world->ranks, &unit->units, &error);
    check(status == STATUS_OK);
    unit->machine = rank_units_machine(unit->units);
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        bool opened =
            fleet_engine_open(&unit->engines[rank], &arena, world->unit_options.page_count,
                              options.requests_max, options.context_tokens_max);
        if (opened && world->options.constraints)
            opened = fleet_engine_bind(&unit->engines[rank], &arena, world->options.constraints,
                                       options.requests_max, options.context_tokens_max);
        check(opened);
        unit->engines[rank].numerics = unit->numerics;
        fleet_carriers_start(&world->carriers,
                             (struct fleet_place){(uint8_t)index, (uint8_t)rank, unit->life},
                             &unit->engines[rank]);
    }
    post_clear(&unit->inbox);
    post_clear(&unit->wires);
    unit->open_count = 0;
    unit->up = true;
    unit->draining = unit->goes = unit->ends = false;
    unit->dies = 0;
    memset(unit->dead, 0, sizeof unit->dead);
    memset(unit->was_dead, 0, sizeof unit->was_dead);
    memset(unit->waits, 0, sizeof unit->waits);
    unit->behind_ns = 0;
    unit->step_rows = 0;
    unit->up_ns = MACHINE_NEVER;
    unit->sign_ns = world->now_ns + SIGN_NS;
    memset(unit->hello, 0, sizeof unit->hello);
    memset(unit->load, 0, sizeof unit->load);
    for (uint32_t i = 0; i < world->gateway_count; i++)
        unit->links[i].connect_ns = world->now_ns;
    world_log(world, "unit starts", index, FLEET_LOG_NOWHERE, unit->life, unit->role);
}

static void fleet_units_connect(struct world *world, struct fleet_unit_host *unit,
                                uint32_t gateway) {
    const struct record *hello = (const struct record *)(void *)unit->hello;
    struct fleet_gateway_link *link = &unit->links[gateway];
    if (!world->gateways[gateway].gateway) { /* retries when there is a gateway */
        link->connect_ns = world->gateways[gateway].up_ns + FLEET_MS;
        return;
    }
    *link = (struct fleet_gateway_link){.connection = ++world->connections,
                                        .connect_ns = MACHINE_NEVER};
    post_send_link(&world->gateways[gateway].inbox, world_arrival_ns(world, &link->out_ns),
                   link->connection, RECORD_UNIT_JOINED);
    if (hello->bytes == 0) return; /* the hello is sent later */
    notify_gateway(world, unit, gateway, hello);
    notify_gateway(world, unit, gateway, (const struct record *)(void *)unit->load);
}

/* Disconnects a unit. The host of the gateway detects that late. Messages in transit are lost from
 * a random moment on. */
static void fleet_units_disconnect(struct world *world, struct fleet_unit_host *unit,
                                   uint32_t gateway) {
    struct fleet_dice *dice = &world->dice;
    struct fleet_gateway_link *link = &unit->links[gateway];
    if (!link->connection) return;
    int64_t lost_ns = world->now_ns + fleet_dice_time(dice, 0, 3 * FLEET_SECOND / 2);
    post_lose(&world->gateways[gateway].inbox, link->connection,
              world->now_ns + fleet_dice_time(dice, 0, 3 * FLEET_MS));
    if (lost_ns < link->out_ns) lost_ns = link->out_ns;
    post_send_link(&world->gateways[gateway].inbox, lost_ns, link->connection, RECORD_UNIT_LOST);
    link->connection = 0;
}

void fleet_units_kill(struct world *world, uint32_t index) {
    struct fleet_unit_host *unit = &world->units[index];
    for (uint32_t i = 0; i < world->gateway_count; i++) {
        fleet_units_disconnect(world, unit, i);
        unit->links[i].connect_ns = MACHINE_NEVER;
    }
    fleet_carriers_stop(&world->carriers, index, world->now_ns);
    fleet_storage_stop(&world->storage, index);
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        fleet_engine_unbind(&unit->engines[rank]);
    unit->up = false;
    unit->frozen_ns = 0;
    unit->up_ns =
        world->now_ns + fleet_dice_time(&world->dice, FLEET_SECOND / 10, 8 * FLEET_SECOND);
    /* its supervisor restarts it, or its manager starts another unit */
    if (world->hosts.present || world->managers.present) unit->up_ns = MACHINE_NEVER;
    world->report->deaths++;
    world_log(world, "unit dies", index, FLEET_LOG_NOWHERE, 0, 0);
}

/* Cancels everything that the connection submitted. The unit continues and connects again. */
void fleet_units_cut(struct world *world, uint32_t index, uint32_t gateway, bool reported) {
    struct fleet_unit_host *unit = &world->units[index];
    struct fleet_gateway_link *link = &unit->links[gateway];
    uint32_t connection = link->connection;
    if (reported) fleet_units_disconnect(world, unit, gateway);
    link->connection = 0;
    for (uint32_t i = 0; i < unit->open_count; i++) {
        struct record_cancel cancel = {record_head(RECORD_CANCEL, sizeof cancel), unit->open[i].id};
        if (!connection || unit->open[i].connection != connection) continue;
        post_send(&unit->inbox, world->now_ns, 0, &cancel.record);
        unit->open[i].connection = 0;
    }
    link->connect_ns =
        world->now_ns + fleet_dice_time(&world->dice, FLEET_SECOND / 20, 2 * FLEET_SECOND);
    world_log(world, "unit loses a gateway", index, FLEET_LOG_NOWHERE, gateway, 0);
}

void fleet_units_part(struct world *world, uint32_t index, uint32_t gateway, int64_t until_ns) {
    struct fleet_gateway_link *link = &world->units[index].links[gateway];
    uint32_t connection = link->connection;
    if (!connection) return;
    post_lose(&world->gateways[gateway].inbox, connection, world->now_ns);
    fleet_units_cut(world, index, gateway, false);
    post_send_link(&world->gateways[gateway].inbox, until_ns, connection, RECORD_UNIT_LOST);
    link->connect_ns = until_ns + fleet_dice_time(&world->dice, 0, FLEET_SECOND);
}

bool fleet_units_is_connected(const struct world *world, uint32_t index) {
    for (uint32_t i = 0; i < world->gateway_count; i++)
        if (!world->units[index].links[i].connection) return false;
    return true;
}

void fleet_units_ask_drain(struct world *world, uint32_t unit) {
    struct record_drain drain = {.record = record_head(RECORD_DRAIN, sizeof drain)};
    post_send(&world->units[unit].inbox, world->now_ns, 0, &drain.record);
    world->report->drains++;
}

uint32_t fleet_units_held(const struct world *world, const struct fleet_unit_host *unit) {
    uint32_t held = 0;
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        held += unit_request_count(rank_units_unit(unit->units, rank));
    return held;
}

bool fleet_units_quiet(const struct world *world, uint32_t index) {
    const struct fleet_unit_host *unit = &world->units[index];
    const struct post_message *message;
    for (size_t at = 0; (message = post_at(&unit->inbox, at)); at += message->bytes)
        if (message->record.kind == RECORD_RUN_STEP || record_is_kv(&message->record)) return false;
    return !post_at(&unit->wires, 0) && fleet_carriers_open_count(&world->carriers, index) == 0 &&
           fleet_storage_open_count(&world->storage, index) == 0;
}

void fleet_units_run(struct world *world, uint32_t index) {
    struct fleet_unit_host *unit = &world->units[index];
    if (unit->up_ns <= world->now_ns) start(world, unit);
    if (!unit->up || unit->frozen_ns > world->now_ns) return;
    for (uint32_t i = 0; i < world->gateway_count; i++)
        if (unit->links[i].connect_ns <= world->now_ns) fleet_units_connect(world, unit, i);
    fleet_units_deliver(world, unit);
    fleet_units_drain(world, unit);
    unit->machine.step(unit->machine.self, world->now_ns);
    fleet_units_drain(world, unit);
    deliver_to_pages(world, unit);
    if (unit->sign_ns <= world->now_ns) {
        unit->sign_ns = world->now_ns + SIGN_NS;
        const struct record *load = (const struct record *)(void *)unit->load;
        if (load->bytes) fleet_units_report_all(world, unit, load);
    }
    if (!unit->goes || unit->open_count) return;
    if (world->hosts.present) /* it may end now */
        fleet_network_finish(world, index);
    else
        fleet_units_kill(world, index);
}

/* The time of the first message that is not held. Held messages are checked at every event. */
static int64_t next_message_ns(const struct world *world, const struct fleet_unit_host *unit) {
    const struct post_message *message;
    int64_t next_ns = MACHINE_NEVER;
    for (size_t at = 0; (message = post_at(&unit->inbox, at)); at += message->bytes) {
        bool held = message->due_ns <= world->now_ns && fleet_units_is_held(world, unit, message);
        if (!held) return min_i64(next_ns, message->due_ns);
        bool waits_yet = unit->wait_until_ns > world->now_ns;
        next_ns = min_i64(next_ns, waits_yet ? unit->wait_until_ns : MACHINE_NEVER);
        if (unit->behind_ns > world->now_ns) next_ns = min_i64(next_ns, unit->behind_ns);
    }
    return next_ns;
}

int64_t fleet_units_wake_ns(const struct world *world, uint32_t index) {
    const struct fleet_unit_host *unit = &world->units[index];
    if (!unit->up) return unit->up_ns;
    int64_t wake_ns = unit->sign_ns;
    for (uint32_t i = 0; i < world->gateway_count; i++)
        wake_ns = min_i64(wake_ns, unit->links[i].connect_ns);
    wake_ns = min_i64(wake_ns, unit->machine.next_wake_ns(unit->machine.self));
    wake_ns = min_i64(wake_ns, next_message_ns(world, unit));
    wake_ns = min_i64(wake_ns, post_next_ns(&unit->wires));
    return wake_ns > unit->frozen_ns ? wake_ns : unit->frozen_ns;
}

/* SPDX-License-Identifier: Apache-2.0
 * Virtual time advances from one due event to the next.
 */
#include "simulate/world/fleet_world.h"

#include "base/check.h"
#include "base/number.h"
#include "serving/gateway/gateway.h"
#include "serving/policy/balance/balance.h"
#include "serving/policy/evict_pages.h"
#include "serving/policy/speculate.h"
#include "simulate/world/fleet_state.h"

#define MEMORY_STEP ((size_t)64 << 10)
/* The largest number of units without a manager; with a manager, of nodes. */
#define STANDING_MAX 4
#define NODES_LEAST 4
#define POST_BYTES ((size_t)4 << 20)

/* ---- time ---- */

static void pass_time(struct world *world) {
    int64_t next_ns =
        min_i64(fleet_gateway_wake_ns(world), fault_timetable_next_ns(&world->faults));
    next_ns = min_i64(next_ns, fleet_hosts_wake_ns(world));
    next_ns = min_i64(next_ns, fleet_managers_wake_ns(world));
    next_ns = min_i64(next_ns, fleet_carriers_next_ns(&world->carriers));
    next_ns = min_i64(next_ns, fleet_storage_next_ns(&world->storage));
    for (uint32_t i = 0; i < world->unit_count; i++)
        next_ns = min_i64(next_ns, fleet_units_wake_ns(world, i));
    world->now_ns = next_ns > world->now_ns ? next_ns : world->now_ns + 1;
}

static bool is_at_rest(const struct world *world) {
    if (world->ask_ns != MACHINE_NEVER) return false;
    if (world->options.faults && world->now_ns < world->healed_ns) return false;
    for (uint32_t i = 0; i < world->gateway_count; i++) {
        const struct gateway *gateway = world->gateways[i].gateway;
        if (!gateway || gateway_request_count(gateway)) return false;
    }
    for (uint32_t i = 0; i < world->unit_count; i++) {
        const struct fleet_unit_host *unit = &world->units[i];
        if (world->managers.present && !unit->up) continue; /* nothing requires a unit there */
        if (!unit->up || !fleet_units_is_connected(world, i) || unit->open_count) return false;
        if (fleet_units_held(world, unit)) return false;
        if (!fleet_units_quiet(world, i)) return false;
    }
    return !fleet_hosts_awaits(world) && !fleet_managers_awaits(world);
}

/* True if the fleet has been idle for so long that every report has arrived. */
static bool fleet_world_is_over(struct world *world) {
    if (!is_at_rest(world))
        world->rest_ns = MACHINE_NEVER;
    else if (world->rest_ns == MACHINE_NEVER)
        world->rest_ns = world->now_ns;
    return world->rest_ns != MACHINE_NEVER && world->now_ns >= world->rest_ns + SETTLED_NS;
}

static void fleet_world_audit(struct world *world) {
    fleet_gateway_audit(world);
    fleet_carriers_audit(&world->carriers);
    for (uint32_t i = 0; i < world->unit_count; i++)
        for (uint32_t rank = 0; world->units[i].up && rank < world->ranks; rank++) {
            const char *wrong = fleet_inside_audit(world, i, rank);
            if (wrong) world_breach(world, wrong);
        }
}

/* ---- runs ---- */

/* Gives units roles in two of three runs with several units. Each role is present, and sometimes
 * combined units, too. */
static void fleet_world_choose_roles(struct world *world) {
    if (world->options.manager) return; /* the manager chooses the roles */
    if (world->unit_count < 2 || fleet_dice_below(&world->dice, 3) == 0) return;
    world->report->has_roles = true;
    for (uint32_t i = 0; i < world->unit_count; i++) {
        uint32_t any = fleet_dice_below(&world->dice, 5);
        world->units[i].role = i == 0   ? UNIT_PREFILL
                               : i == 1 ? UNIT_DECODE
                               : any    ? UNIT_PREFILL + any % 2
                                        : UNIT_BOTH;
    }
}

static void choose_unit_options(struct world *world) {
    static const uint8_t model_id[32] = {1};
    struct fleet_dice *dice = &world->dice;
    world->ranks = 1 + fleet_dice_below(dice, FLEET_RANKS_MAX);
    world->unit_count = 1 + fleet_dice_below(dice, STANDING_MAX);
    if (world->options.hosts && world->ranks == 1) world->ranks = FLEET_RANKS_MAX;
    if (world->options.manager)
        world->unit_count = NODES_LEAST + fleet_dice_below(dice, FLEET_UNITS_MAX - NODES_LEAST + 1);
    uint32_t rows = 2 + fleet_dice_below(dice, 5);
    world->report->has_storage = fleet_dice_below(dice, 3) > 0;
    world->unit_options = (struct unit_options){
        .requests_max = 2 + fleet_dice_below(dice, 10),
        .page_count = (uint32_t)fleet_dice_time(dice, 9, FLEET_PAGES_MAX),
        .context_tokens_max = 500,
        .step_rows_max = rows,
        .step_tokens_max = rows + KV_BLOCK_TOKENS + fleet_dice_below(dice, 300),
        .chunk_tokens_max =
            fleet_dice_below(dice, 2) * (KV_BLOCK_TOKENS + fleet_dice_below(dice, 200)),
        .prompt_bytes =
            fleet_dice_below(dice, 4) ? 0 : (1 + fleet_dice_below(dice, 6)) * MEMORY_STEP,
        .vocab_count = FLEET_VOCAB,
        .evict_rule = fleet_dice_below(dice, EVICT_RULE_COUNT),
        .rank_balance = fleet_dice_below(dice, BALANCE_METHOD_COUNT),
        .level_steps = rows % 2,
        .prefix_cache = fleet_dice_below(dice, 3) > 0,
        .speculate = fleet_dice_below(dice, SPECULATE_MODE_COUNT),
        .kv_storage = world->report->has_storage,
        .kv_choice = fleet_dice_below(dice, KV_CHOICE_COUNT),
        .page_bytes = sizeof(struct fleet_page),
        .kv_memory_blocks = 24,
        .kv_load_parts = fleet_dice_below(dice, 4) ? FLEET_SLICES : 0,
        .model_id = model_id,
        .numerics_id = "simulated",
    };
}

#define TEXT_BYTES ((size_t)4 << 10) /* of a chat's text */
#define REQUESTS_MAX 66

static void choose_gateway_options(struct world *world) {
    struct fleet_dice *dice = &world->dice;
    world->report->scarce = fleet_dice_below(dice, 3) == 0;
    *world->gateway_options = (struct gateway_options){
        .tokenizer = world->token_oracle.tokenizer,
        .chat_template = world->token_oracle.tokenizer ? &world->token_oracle.chat_template : NULL,
        .inline_text_bytes = TEXT_BYTES,
        .prefix_blocks = 1 << 10,
        .model_names = "fleet",
        .version = "0",
        .sampling = {.temperature = 1, .top_p = 1},
        .stop_tokens = {FLEET_STOP_TOKEN},
        .stop_token_count = 1,
        .requests_max = 6 + fleet_dice_below(dice, 60),
        .body_bytes_max = 16 << 10,
        .request_bytes =
            (world->report->scarce ? 8 + fleet_dice_below(dice, 60) : 400) * MEMORY_STEP,
        .outbox_bytes = 1 << 20,
        .keep_alive_ns = FLEET_SECOND,
        .unit_silence_ns = 2 * FLEET_SECOND,
        .unit_wait_ns = (3 + fleet_dice_below(dice, 8)) * FLEET_SECOND, /* units start within 2 */
        .settles = world->ledger.kept,
        .totals_ns = FLEET_SECOND,
        .ttft_limit_ns = fleet_dice_below(&world->crowds, 4)
                             ? 0
                             : (1 + fleet_dice_below(&world->crowds, 5)) * FLEET_SECOND,
    };
}

/* Opens the models of transfers and storage. */
static void choose_hosts(struct world *world) {
    struct fleet_dice *dice = &world->dice;
    struct fleet_carriers *carriers = &world->carriers;
    struct fleet_storage *storage = &world->storage;
    carriers->log = storage->log = world->log;
    carriers->context = storage->context = world;
    carriers->say = storage->say = fleet_units_receive;
    carriers->faults = storage->faults = world->options.faults;
    carriers->slice_ns_max = fleet_dice_time(dice, FLEET_MS / 10, 20 * FLEET_MS);
    carriers->latency_ns_max = fleet_dice_time(dice, FLEET_MS / 5, 20 * FLEET_MS);
    carriers->transfer_ns_max = fleet_dice_time(dice, FLEET_SECOND / 5, 5 * FLEET_SECOND);
    storage->engine_of = fleet_units_engine;
    storage->capacity = 16 + fleet_dice_below(dice, 300);
    storage->queue_max = 2 + fleet_dice_below(dice, 60);
    storage->read_ns_max = fleet_dice_below(dice, 3)
                               ? fleet_dice_time(dice, FLEET_MS / 10, 50 * FLEET_MS)
                               /* fast enough for steps with other rows */
                               : fleet_dice_time(dice, FLEET_MS / 20, FLEET_MS);
    storage->write_ns_max = fleet_dice_time(dice, FLEET_MS, FLEET_SECOND);
}

static void fleet_world_open_units(struct world *world, struct arena *arena) {
    const struct unit_options *options = &world->unit_options;
    world->unit_bytes = rank_units_memory_bytes(options, world->ranks) +
                        world->ranks * fleet_engine_bytes(FLEET_PAGES_MAX, options->requests_max,
                                                          options->context_tokens_max) +
                        64;
    for (uint32_t i = 0; i < world->unit_count; i++) {
        struct fleet_unit_host *unit = &world->units[i];
        unit->index = i;
        unit->memory = arena_take(arena, world->unit_bytes);
        bool opened = post_open(&unit->inbox, arena, POST_BYTES) &&
                      post_open(&unit->wires, arena, POST_BYTES);
        check(unit->memory && opened);
        for (uint32_t k = 0; k < FLEET_GATEWAYS_MAX; k++)
            unit->links[k].connect_ns = MACHINE_NEVER;
        unit->up_ns = fleet_dice_time(&world->dice, 0, 2 * FLEET_SECOND);
        if (world->options.manager) unit->up_ns = MACHINE_NEVER;
    }
    fleet_world_choose_roles(world);
}

static void open_gateways(struct world *world, struct arena *arena) {
    for (uint32_t i = 0; i < world->gateway_count; i++) {
        struct fleet_gateway_host *host = &world->gateways[i];
        host->memory = arena_take(arena, gateway_memory_bytes(world->gateway_options));
        bool opened = post_open(&host->inbox, arena, POST_BYTES);
        check(host->memory && opened);
    }
}

/* Chooses the number of gateways: several in two of three runs. */
static void choose_gateways(struct world *world) {
    struct fleet_dice dice = {.seed = world->options.seed, .stream = 9};
    world->gateway_count = fleet_dice_below(&dice, 3) ? 2 + (fleet_dice_below(&dice, 3) == 0) : 1;
    world->report->gateways = world->gateway_count;
}

/* Opens the token oracle, in every other run. */
static void choose_token_oracle(struct world *world, struct arena *arena) {
    struct fleet_dice dice = {.seed = world->options.seed, .stream = 3};
    if (fleet_dice_below(&dice, 2)) return;
    bool opened = fleet_token_oracle_open(&world->token_oracle, arena,
                                          fleet_dice_below(&dice, FLEET_TONGUES));
    check(opened);
}

static struct world *fleet_world_open_world(const struct fleet_world_options *options,
                                            struct arena *arena,
                                            struct fleet_world_report *report) {
    arena_clear(arena);
    struct world *world = arena_take_zeroed(arena, sizeof *world);
    check(world);
    world->options = *options;
    world->report = report;
    world->log = options->log;
    world->log->count = 0;
    world->dice = (struct fleet_dice){.seed = options->seed};
    world->crowds = (struct fleet_dice){.seed = options->seed, .stream = 6};
    world->healed_ns = (options->manager ? 50 : 20) * FLEET_SECOND;
    world->asked_ns = (options->manager ? 60 : 24) * FLEET_SECOND;
    world->drains = (struct fleet_dice){.seed = options->seed, .stream = 11};
    choose_gateways(world);
    choose_unit_options(world);
    world->renewals = (struct fleet_dice){.seed = options->seed, .stream = 14};
    report->renewed = world->unit_count > 1 && fleet_dice_below(&world->renewals, 5) == 0;
    choose_token_oracle(world, arena);
    bool kept = fleet_ledger_open(&world->ledger, arena, options->seed, options->faults);
    check(kept);
    world->gateway_options = arena_take(arena, sizeof *world->gateway_options);
    check(world->gateway_options);
    choose_gateway_options(world);
    world->result = arena_take(arena, RESULT_BYTES);
    world->envelope = arena_take(arena, RESULT_BYTES);
    bool opened = fleet_clients_open(&world->clients, arena, &world->token_oracle, options->seed) &&
                  fleet_carriers_open(&world->carriers, arena, options->seed) &&
                  fleet_storage_open(&world->storage, arena, options->seed);
    check(world->result && world->envelope && opened);
    world->clients.scarce = report->scarce;
    fleet_accounts_open(&world->accounts, options->seed, world->gateway_count);
    world->clients.has_keys = world->accounts.present;
    world->clients.flooder = world->accounts.flooder;
    if (world->accounts.flooder) world->gateway_options->requests_max = REQUESTS_MAX;
    world->clients.constraints = options->constraints;
    if (options->constraints) fleet_constraints_begin(options->constraints, options->seed);
    choose_hosts(world);
    open_gateways(world, arena);
    fleet_world_open_units(world, arena);
    if (options->hosts) fleet_hosts_open(world, arena);
    if (options->manager) fleet_managers_open(world, arena);
    world->stall_ns = world->rest_ns = MACHINE_NEVER;
    fleet_faults_open(world);
    world->leave_ns = options->faults ? FLEET_SECOND : MACHINE_NEVER;
    for (uint32_t i = 0; i < world->gateway_count; i++)
        fleet_gateway_start(world, i);
    return world;
}

/* True if the refusal is allowed. Clients may be refused at any time for lack of space, for lack of
 * units only under faults, and by accounts only in runs that have them. The last unit of a numerics
 * may end under faults, or for promised nodes, even if clients wait for it. */
static bool may_refuse(const struct world *world, const struct fleet_client *client) {
    static const char *const codes[FLEET_REFUSALS] = {
        [FLEET_QUEUE_FULL] = "queue_full",      [FLEET_NO_MEMORY] = "out_of_memory",
        [FLEET_RATE] = "rate_limit_exceeded",   [FLEET_UNPAID] = FLEET_UNPAID_CODE,
        [FLEET_NO_UNIT] = "starting",           [FLEET_FAILED] = "engine_failed",
        [FLEET_LEDGER] = "ledger_behind",       [FLEET_OVERLOADED] = "overloaded",
        [FLEET_NUMERICS_GONE] = "numerics_gone"};
    for (uint32_t i = 0; i < FLEET_REFUSALS; i++)
        if (bytes_equal(bytes_of(client->code), bytes_of(codes[i]))) {
            world->report->refused_by[i]++;
            if (i == FLEET_NUMERICS_GONE)
                return world->report->renewed &&
                       (world->options.faults || world->managers.promised);
            if (i == FLEET_RATE || i == FLEET_UNPAID) return world->accounts.present;
            return i <= FLEET_NO_MEMORY || world->options.faults ||
                   (i == FLEET_LEDGER && world->ledger.kept) ||
                   (i == FLEET_OVERLOADED && world->gateway_options->ttft_limit_ns);
        }
    return false;
}

static void fleet_world_verify(struct world *world) {
    struct fleet_world_report *report = world->report;
    struct fleet_clients *clients = &world->clients;
    report->asked = clients->count;
    if (world->ledger.breach[0]) world_breach(world, world->ledger.breach);
    for (uint32_t i = 0; i < clients->count; i++) {
        const struct fleet_client *client = &clients->clients[i];
        if (client->gone) {
            report->abandoned += client->abandoned;
            report->left += !client->abandoned;
            continue;
        }
        if (!client->ended) fleet_clients_breach(clients, client, "never answered");
        if (client->refused && !may_refuse(world, client))
            fleet_clients_breach(clients, client, client->code);
        report->refused += client->refused;
        report->cut += client->cut && !client->refused;
        report->answered += !client->refused && !client->cut;
        report->answered_renewed += client->numerics && !client->refused && !client->cut;
        report->chats += client->chats && !client->refused && !client->cut;
        report->constrained += client->bound && !client->refused && !client->cut;
        for (uint32_t c = 0; c < client->choice_count; c++)
            report->calls += client->choices[c].calls_begun;
    }
    fleet_accounts_verify(&world->accounts, clients);
    fleet_ledger_verify(&world->ledger, clients);
    if (clients->breach[0]) world_breach(world, clients->breach);
    if (world->ledger.breach[0]) world_breach(world, world->ledger.breach);
}

/* Checks that no work is left. */
static void verify_rest(struct world *world) {
    struct fleet_world_report *report = world->report;
    fleet_world_audit(world);
    fleet_gateway_verify(world);
    fleet_hosts_verify(world);
    fleet_managers_verify(world);
    for (uint32_t i = 0; i < world->unit_count; i++) {
        const struct fleet_unit_host *unit = &world->units[i];
        const struct record_unit_load *load = (const void *)unit->load;
        if (!unit->up) continue; /* nothing requires a unit there */
        report->preempted += load->totals.preemptions;
        if (load->pages_held || load->requests_waiting || load->requests_running)
            world_breach(world, "a unit at rest holds pages or requests");
        for (uint32_t rank = 0; load->rank_count && rank < world->ranks; rank++)
            if (load_ranks(load)[rank].requests_parked)
                world_breach(world, "a unit at rest has a request parked");
    }
    if (world->options.constraints) {
        report->constrained_starts = world->options.constraints->begun;
        report->late = world->options.constraints->late;
        report->forced = world->options.constraints->forced;
    }
    report->entries = world->ledger.entries;
    report->rewritten = world->ledger.again;
    report->arrived = world->carriers.counts.arrived;
    report->not_arrived = world->carriers.counts.failed;
    report->late_slices = world->carriers.counts.late;
    report->loaded = world->storage.counts.loaded;
    report->kept = world->storage.counts.kept;
    report->dropped = world->storage.counts.dropped;
    report->refused_blocks = world->storage.counts.refused;
}

static void fleet_world_live(struct world *world) {
    struct fleet_world_report *report = world->report;
    bool healed = false;
    while (!fleet_world_is_over(world) && world->now_ns < REST_NS && !world->clients.breach[0] &&
           !world->ledger.breach[0] && !report->breach[0]) {
        if (!healed && world->now_ns >= world->healed_ns) fleet_faults_heal(world);
        healed = world->now_ns >= world->healed_ns;
        fault_timetable_strike(&world->faults, world, world->now_ns);
        fleet_hosts_run(world);
        fleet_managers_run(world);
        fleet_carriers_run(&world->carriers, world->now_ns);
        fleet_storage_run(&world->storage, world->now_ns);
        for (uint32_t i = 0; i < world->unit_count; i++)
            fleet_units_run(world, i);
        fleet_gateway_run(world);
        if (world->turns++ % 128 == 0) fleet_world_audit(world);
        pass_time(world);
    }
    if (!fleet_world_is_over(world) && !world->clients.breach[0] && !world->ledger.breach[0])
        world_breach(world, "no rest is found");
}

void fleet_world_run(const struct fleet_world_options *options, struct arena *arena,
                     struct fleet_world_report *report_out) {
    *report_out = (struct fleet_world_report){.digest = 1};
    struct world *world = fleet_world_open_world(options, arena, report_out);
    fleet_world_live(world);
    fleet_world_verify(world);
    if (!report_out->breach[0]) verify_rest(world);
    report_out->rest_ns = world->rest_ns;
    fleet_token_oracle_close(&world->token_oracle);
}

/* SPDX-License-Identifier: Apache-2.0
 * The hosts of the simulator's units. They deliver the records of a unit to gateways, to its
 * engines, and to the models of transfers and storage. The results of a step arrive when the
 * clock's duration has passed.
 */
#include "base/check.h"
#include "base/format.h"
#include "base/number.h"
#include "contract/kv_block.h"
#include "simulate/simulator/simulator_state.h"

#include <string.h>

#define POST_BYTES ((size_t)512 << 20)   /* for records from gateways; little of it is touched */
#define PROMPT_BYTES ((size_t)128 << 10) /* approximate memory of a rank per request */
#define ROWS_DEFAULT 64                  /* defaults of `fathom unit`, like the next ones */
#define STEP_TOKENS_DEFAULT 512
#define CONTEXT_DEFAULT 131072
#define NO_STEP_NS 1000 /* duration of a step while prompts take no time */
#define SECOND 1e9

/* ---- options ---- */

static uint32_t pages_most(const struct simulator_options *options,
                           const struct simulator_unit_kind *kind) {
    double block_bytes = KV_BLOCK_TOKENS * options->model->kv_bytes_per_token;
    if (kind->page_count) return kind->page_count;
    return (uint32_t)(kind->hardware->hbm_bytes / block_bytes) + 1;
}

/* The number of KV blocks that fit in the host memory of a rank. */
static uint32_t simulator_units_memory_blocks(const struct simulator_options *options,
                                              const struct simulator_unit_kind *kind) {
    double block_bytes = KV_BLOCK_TOKENS * options->model->kv_bytes_per_token;
    return kind->kv_storage ? (uint32_t)(options->host_bytes / block_bytes) : 0;
}

static uint32_t disk_blocks(const struct simulator_options *options) {
    double blocks = options->storage_bytes / (KV_BLOCK_TOKENS * options->model->kv_bytes_per_token);
    return blocks < SIMULATOR_DISK_BLOCKS_MAX ? (uint32_t)blocks : SIMULATOR_DISK_BLOCKS_MAX;
}

static struct unit_options unit_options(const struct simulator_options *options,
                                        const struct simulator_unit_kind *kind,
                                        uint32_t page_count) {
    static const uint8_t model_id[32] = {1};
    struct unit_options own = {
        .step_rows_max = kind->rows_max ? kind->rows_max : ROWS_DEFAULT,
        .step_tokens_max = kind->step_tokens_max ? kind->step_tokens_max : STEP_TOKENS_DEFAULT,
        .requests_max = kind->requests_max,
        .page_count = page_count,
        .context_tokens_max = kind->context_tokens_max ? kind->context_tokens_max : CONTEXT_DEFAULT,
        .vocab_count = options->model->vocab,
        .prefix_cache = kind->prefix_cache,
        .speculate = kind->speculate,
        .tpot_target_ns = (int64_t)(kind->tpot_target_ms * 1e6),
        .rank_balance = kind->rank_balance,
        .level_steps = kind->level_steps,
        .bind_on_arrival = kind->bind_on_arrival,
        .role = kind->role,
        .kv_storage = kind->kv_storage,
        .page_bytes = (uint64_t)(KV_BLOCK_TOKENS * options->model->kv_bytes_per_token),
        .kv_memory_blocks = simulator_units_memory_blocks(options, kind),
        .model_id = model_id,
        .numerics_id = "twin",
    };
    if (!own.requests_max) own.requests_max = 2 * own.step_rows_max;
    own.prompt_bytes =
        own.requests_max * PROMPT_BYTES + 4 * sizeof(uint32_t) * (size_t)own.context_tokens_max;
    return own;
}

static struct step_clock_options
simulator_units_clock_options(const struct simulator_options *options,
                              const struct simulator_unit_kind *kind, uint32_t index) {
    return (struct step_clock_options){
        .hardware = kind->hardware,
        .model = options->model,
        .ranks = kind->ranks,
        .ranks_per_node = kind->ranks_per_node,
        .redundant_experts = kind->redundant_experts,
        .balance_experts = kind->balance_experts,
        .makes_answers = kind->role == UNIT_DECODE,
        .expert_skew = options->expert_skew,
        .expert_drift = options->expert_drift,
        .seed = options->seed * 1000003 + index,
    };
}

/* ---- open requests ---- */

/* A unit may refuse a whole batch of arrivals before any refusal is processed. */
static uint32_t requests_max(const struct unit_options *own, uint32_t ranks) {
    return ranks * own->requests_max + 4096;
}

static size_t requests_bytes(const struct unit_options *own, uint32_t ranks) {
    uint32_t most = requests_max(own, ranks);
    return most * sizeof(struct request_id) + map_bytes(most) + 64;
}

static bool open_requests(struct simulator_unit *unit, struct arena *arena) {
    unit->open_max = requests_max(&unit->options, unit->kind->ranks);
    unit->open = arena_take(arena, unit->open_max * sizeof *unit->open);
    unit->open_memory = arena_take(arena, map_bytes(unit->open_max));
    return unit->open && unit->open_memory;
}

static void forget_requests(struct simulator_unit *unit) {
    struct arena arena;
    arena_over(&arena, unit->open_memory, map_bytes(unit->open_max));
    unit->open_count = 0;
    enum status status = map_open(&unit->open_places, &arena, unit->open_max);
    check(status == STATUS_OK);
}

static struct map_key simulator_units_key_of(struct request_id id) {
    return (struct map_key){id.high, id.low, id.attempt};
}

static void simulator_units_add_request(struct simulator_unit *unit, struct request_id id) {
    if (map_find(&unit->open_places, simulator_units_key_of(id)) != MAP_NONE)
        return; /* it is known already */
    check(unit->open_count < unit->open_max);
    map_add(&unit->open_places, simulator_units_key_of(id), unit->open_count);
    unit->open[unit->open_count++] = id;
}

static void remove_request(struct simulator_world *world, struct simulator_unit *unit,
                           struct request_id id) {
    uint32_t place = map_find(&unit->open_places, simulator_units_key_of(id));
    if (place == MAP_NONE) {
        simulator_breach(world, "a unit ended a request that it does not have");
        return;
    }
    struct request_id last = unit->open[--unit->open_count];
    map_remove(&unit->open_places, simulator_units_key_of(id));
    if (place == unit->open_count) return;
    map_remove(&unit->open_places, simulator_units_key_of(last));
    map_add(&unit->open_places, simulator_units_key_of(last), place);
    unit->open[place] = last;
}

/* ---- memory ---- */

static size_t said_bytes(uint32_t ranks) {
    return record_bytes(RECORD_UNIT_HELLO, &(struct record_unit_hello){.rank_count = ranks}) +
           record_bytes(RECORD_UNIT_LOAD, &(struct record_unit_load){.rank_count = ranks});
}

static size_t machine_bytes(const struct unit_options *own, uint32_t ranks) {
    return rank_units_memory_bytes(own, ranks) + 64;
}

static size_t kind_bytes(const struct simulator_options *options,
                         const struct simulator_unit_kind *kind) {
    struct unit_options own = unit_options(options, kind, pages_most(options, kind));
    struct step_clock_options clock = simulator_units_clock_options(options, kind, 0);
    return sizeof(struct simulator_unit) + machine_bytes(&own, kind->ranks) + POST_BYTES +
           simulator_engine_bytes(kind->ranks, own.step_rows_max) + step_clock_bytes(&clock) +
           said_bytes(kind->ranks) + sizeof(struct simulator_nic) +
           SIMULATOR_SIDES * kind->ranks * sizeof(int64_t) + sizeof(struct simulator_store) +
           simulator_storage_unit_bytes(simulator_units_memory_blocks(options, kind), kind->ranks) +
           options->gateways * sizeof(uint32_t) + requests_bytes(&own, kind->ranks) + 256;
}

/* The limit of unanswered lookups, loads and stores. */
static uint32_t jobs_max(const struct simulator_options *options) {
    uint32_t jobs = 64;
    for (uint32_t i = 0; i < options->kind_count; i++) {
        const struct simulator_unit_kind *kind = &options->kinds[i];
        struct unit_options own = unit_options(options, kind, 1);
        if (kind->kv_storage)
            jobs += kind->count * kind->ranks * (2 * own.requests_max + own.step_rows_max);
    }
    return jobs;
}

static uint32_t transfers_max(const struct simulator_options *options) {
    return 2 * options->gateways * options->gateway_requests_max + 64;
}

static uint32_t rows_most(const struct simulator_options *options) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < options->kind_count; i++)
        most = max_u32(most, unit_options(options, &options->kinds[i], 1).step_rows_max);
    return most;
}

size_t simulator_units_bytes(const struct simulator_options *options) {
    size_t units = simulator_unit_count(options);
    size_t bytes = simulator_transfer_bytes(transfers_max(options)) +
                   units * units * sizeof(int64_t) +
                   simulator_engine_result_bytes(rows_most(options)) +
                   simulator_storage_bytes(disk_blocks(options), jobs_max(options)) + 256;
    for (uint32_t i = 0; i < options->kind_count; i++)
        bytes += options->kinds[i].count * kind_bytes(options, &options->kinds[i]);
    return bytes;
}

/* ---- counting ---- */

static struct simulator_role_counts *simulator_units_counts_of(struct simulator_world *world,
                                                               const struct simulator_unit *unit) {
    return &world->report->roles[unit->kind->role];
}

static void simulator_units_count_pages(struct simulator_world *world,
                                        struct simulator_unit *unit) {
    struct simulator_page_sums *sums = &world->pages[unit->kind->role];
    double ns = (double)(world->now_ns - unit->load_ns);
    unit->load_ns = world->now_ns;
    if (!world->counts) return;
    sums->held += ns * (double)unit->pages_held;
    sums->cached += ns * (double)unit->pages_cached;
    sums->total += ns * unit->options.page_count * unit->kind->ranks;
}

static void count_step(struct simulator_world *world, struct simulator_unit *unit,
                       uint64_t output_tokens) {
    struct simulator_role_counts *counts = simulator_units_counts_of(world, unit);
    if (!world->counts) return;
    counts->steps++;
    counts->step_ns += (double)(unit->done_ns - unit->step_ns);
    for (int i = 0; i < STEP_SPENT_COUNT; i++)
        counts->spent[i] += unit->engine.time.spent[i];
    counts->computed_tokens += (uint64_t)unit->sum.prompt_tokens;
    counts->rows += (uint64_t)unit->sum.answer_rows;
    counts->context += (uint64_t)unit->sum.context;
    counts->output_tokens += output_tokens;
    counts->answered_tokens += (uint64_t)unit->sum.answer_tokens;
    counts->expert_balance += step_clock_balance_mean(unit->clock);
}

static void count_finished(struct simulator_world *world, struct simulator_unit *unit,
                           const struct unit_work *work) {
    struct simulator_role_counts *counts = simulator_units_counts_of(world, unit);
    if (!world->counts || work->prefill_ns == 0) return;
    counts->hit_tokens += work->prompt_hit_tokens;
    counts->device_hits += work->device_tokens;
    counts->host_hits += work->host_tokens;
    counts->disk_hits += work->disk_tokens;
    counts->prompt_tokens += work->device_tokens + work->host_tokens + work->disk_tokens +
                             work->transferred_tokens + work->computed_tokens;
}

static const struct record_unit_load *load_of(const struct simulator_unit *unit) {
    return (const struct record_unit_load *)(const void *)unit->load;
}

/* ---- incarnations ---- */

static void name_address(const struct simulator_unit *unit, uint32_t rank,
                         char address[KV_ADDRESS_BYTES]) {
    memset(address, 0, KV_ADDRESS_BYTES);
    format_text(address, KV_ADDRESS_BYTES, "unit%u.rank%u.life%u", unit->index, rank, unit->life);
}

/* Connects a unit to a gateway. If the unit has no hello yet, it is sent later. */
void simulator_units_connect(struct simulator_world *world, struct simulator_unit *unit,
                             uint32_t gateway) {
    if (!unit->up || unit->connections[gateway]) return;
    uint32_t connection = ++unit->connected * world->unit_count + unit->index;
    unit->connections[gateway] = connection;
    simulator_gateways_report(world, gateway, RECORD_UNIT_JOINED, connection);
    if (unit->hello->bytes) simulator_gateways_send(world, gateway, connection, unit->hello);
    if (unit->load->bytes) simulator_gateways_send(world, gateway, connection, unit->load);
}

static void simulator_units_disconnect(struct simulator_world *world, struct simulator_unit *unit,
                                       uint32_t gateway, int64_t after_ns) {
    uint32_t connection = unit->connections[gateway];
    unit->connections[gateway] = 0;
    if (connection == 0) return;
    event_queue_add(&world->events, (struct event){.due_ns = world->now_ns + after_ns,
                                                   .stamp = connection,
                                                   .kind = SIMULATOR_EVENT_NOTICE,
                                                   .index = gateway});
}

void simulator_units_kill(struct simulator_world *world, struct simulator_unit *unit,
                          bool noticed) {
    int64_t after_ns = noticed ? 0 : SIMULATOR_NOTICE_NS;
    simulator_units_count_pages(world, unit);
    unit->pages_held = unit->pages_cached = 0;
    unit->preempted += load_of(unit)->totals.preemptions;
    unit->up = unit->in_step = false;
    unit->alarm.due_ns = MACHINE_NEVER;
    post_clear(&unit->inbox);
    for (uint32_t i = 0; i < world->options->gateways; i++)
        simulator_units_disconnect(world, unit, i, after_ns);
    simulator_transfer_lose(&world->transfers, unit->index, world->network_ns + after_ns,
                            world->now_ns);
    simulator_storage_stop(&world->storage, unit->index);
}

/* Creates a new machine in the memory of the previous one. It sends its hello with its first
 * step. */
static enum status start(struct simulator_world *world, struct simulator_unit *unit,
                         struct error *error) {
    static char addresses[LIMIT_RANKS][KV_ADDRESS_BYTES];
    struct arena arena;
    struct unit_options own = unit->options;
    unit->life++;
    for (uint32_t rank = 0; rank < unit->kind->ranks; rank++)
        name_address(unit, rank, addresses[rank]);
    own.kv_addresses = (const char(*)[KV_ADDRESS_BYTES])addresses;
    arena_over(&arena, unit->memory, unit->memory_bytes);
    enum status status = rank_units_create(&arena, &own, unit->kind->ranks, &unit->units, error);
    if (status) return status;
    unit->machine = rank_units_machine(unit->units);
    simulator_engine_forget(&unit->engine);
    world->storage.stores[unit->index].connection = unit->life;
    unit->up = true;
    unit->in_step = unit->begins = false;
    unit->done_ns = MACHINE_NEVER;
    memset(unit->hello, 0, sizeof *unit->hello);
    memset(unit->load, 0, record_bytes(RECORD_UNIT_LOAD, NULL));
    forget_requests(unit);
    unit->pages_held = unit->pages_cached = 0;
    unit->load_ns = world->now_ns;
    post_clear(&unit->inbox);
    for (uint32_t i = 0; i < world->options->gateways; i++)
        simulator_units_connect(world, unit, i);
    simulator_wake(world, &unit->alarm, world->now_ns);
    return STATUS_OK;
}

void simulator_units_start(struct simulator_world *world, struct simulator_unit *unit) {
    struct error error;
    enum status status = start(world, unit, &error);
    check(status == STATUS_OK); /* because it succeeded before */
}

/* ---- opening ---- */

static bool open_nic(struct simulator_world *world, struct simulator_unit *unit,
                     struct arena *arena) {
    struct simulator_nic *nic = &world->transfers.nics[unit->index];
    for (int side = 0; side < SIMULATOR_SIDES; side++) {
        nic->ns_each[side] = 8 / unit->kind->hardware->nic_gbps;
        nic->free_ns[side] =
            arena_take_zeroed(arena, unit->kind->ranks * sizeof *nic->free_ns[side]);
        if (!nic->free_ns[side]) return false;
    }
    return true;
}

static bool simulator_units_open_store(struct simulator_world *world, struct simulator_unit *unit,
                                       struct arena *arena) {
    const struct simulator_unit_kind *kind = unit->kind;
    struct simulator_store *store = &world->storage.stores[unit->index];
    if (!simulator_storage_open_unit(store, arena,
                                     simulator_units_memory_blocks(world->options, kind),
                                     kind->ranks, kind->ranks_per_node))
        return false;
    store->memory_byte_ns = 8 / kind->hardware->nic_gbps;
    store->disk_byte_ns = kind->hardware->storage_gbps > 0 ? 8 / kind->hardware->storage_gbps : 0;
    store->latency_ns = (int64_t)(kind->hardware->storage_latency_us * 1000);
    return true;
}

static enum status simulator_units_open_unit(struct simulator_world *world,
                                             struct simulator_unit *unit, struct arena *arena,
                                             struct error *error) {
    const struct simulator_options *options = world->options;
    const struct simulator_unit_kind *kind = unit->kind;
    struct step_clock_options clock = simulator_units_clock_options(options, kind, unit->index);
    enum status status = step_clock_open(arena, &clock, &unit->clock, error);
    if (status) return status;
    uint32_t pages = kind->page_count ? kind->page_count : step_clock_page_count(unit->clock);
    unit->options = unit_options(options, kind, pages);
    unit->memory_bytes = machine_bytes(&unit->options, kind->ranks);
    unit->memory = arena_take(arena, unit->memory_bytes);
    unit->hello = arena_take_zeroed(arena, said_bytes(kind->ranks));
    bool opened = unit->memory && unit->hello && post_open(&unit->inbox, arena, POST_BYTES) &&
                  simulator_engine_open(&unit->engine, arena, unit->clock, options->model,
                                        kind->ranks, unit->options.step_rows_max, kind->overlap) &&
                  open_nic(world, unit, arena) && simulator_units_open_store(world, unit, arena);
    if (!opened) return error_set(error, STATUS_NO_MEMORY, "twin: no memory for the units");
    struct record_unit_hello hello = {.rank_count = kind->ranks};
    unit->load =
        (struct record *)(void *)((char *)unit->hello + record_bytes(RECORD_UNIT_HELLO, &hello));
    unit->connections = arena_take_zeroed(arena, options->gateways * sizeof *unit->connections);
    if (!unit->connections || !open_requests(unit, arena))
        return error_set(error, STATUS_NO_MEMORY, "twin: no memory for the units");
    unit->alarm = event_queue_alarm_of(SIMULATOR_EVENT_UNIT, unit->index);
    return STATUS_OK;
}

static void transfer_due(void *context, uint32_t transfer, enum simulator_side side, int64_t due_ns,
                         uint64_t stamp) {
    struct simulator_world *world = context;
    event_queue_add(&world->events,
                    (struct event){.due_ns = due_ns,
                                   .stamp = stamp,
                                   .kind = side == SIMULATOR_OUT ? SIMULATOR_EVENT_TRANSFER_OUT
                                                                 : SIMULATOR_EVENT_TRANSFER_IN,
                                   .index = transfer});
}

static enum status open_transfers(struct simulator_world *world, struct arena *arena,
                                  struct error *error) {
    struct simulator_transfers *transfers = &world->transfers;
    bool opened = simulator_transfer_open(transfers, arena, transfers_max(world->options));
    transfers->nics = arena_take_zeroed(arena, world->unit_count * sizeof *transfers->nics);
    transfers->unit_count = world->unit_count;
    transfers->notice_ns = SIMULATOR_NOTICE_NS;
    transfers->cut_ns =
        arena_take_zeroed(arena, world->unit_count * world->unit_count * sizeof *transfers->cut_ns);
    if (!opened || !transfers->nics || !transfers->cut_ns)
        return error_set(error, STATUS_NO_MEMORY, "twin: no memory for transfers");
    transfers->block_bytes = world->block_bytes;
    transfers->layers = world->options->model->layers;
    transfers->latency_ns = world->network_ns;
    transfers->context = world;
    transfers->due = transfer_due;
    return STATUS_OK;
}

static void storage_due(void *context, uint32_t job, int64_t due_ns, uint64_t stamp) {
    struct simulator_world *world = context;
    event_queue_add(&world->events, (struct event){.due_ns = due_ns,
                                                   .stamp = stamp,
                                                   .kind = SIMULATOR_EVENT_STORAGE,
                                                   .index = job});
}

static enum status open_storage(struct simulator_world *world, struct arena *arena,
                                struct error *error) {
    struct simulator_disks *storage = &world->storage;
    struct simulator_store *stores = storage->stores; /* those of units that are open already */
    bool opened = simulator_storage_open(storage, arena, disk_blocks(world->options),
                                         jobs_max(world->options));
    if (!opened) return error_set(error, STATUS_NO_MEMORY, "twin: no memory for the storage");
    storage->stores = stores;
    storage->block_bytes = world->block_bytes;
    storage->context = world;
    storage->due = storage_due;
    return STATUS_OK;
}

/* Opens the units from the last to the first, then the storage. Its tables are proportional to
 * the number of units, so a fleet with fewer units of the first kind has the same memory layout as
 * the start of a larger one. */
enum status simulator_units_open(struct simulator_world *world, struct arena *arena,
                                 struct error *error) {
    const struct simulator_options *options = world->options;
    world->unit_count = simulator_unit_count(options);
    world->rows_max = rows_most(options);
    world->units = arena_take_zeroed(arena, world->unit_count * sizeof *world->units);
    world->result = arena_take(arena, simulator_engine_result_bytes(world->rows_max));
    world->storage.stores =
        arena_take_zeroed(arena, world->unit_count * sizeof *world->storage.stores);
    if (!world->units || !world->result || !world->storage.stores)
        return error_set(error, STATUS_NO_MEMORY, "twin: no memory for the units");
    enum status status = open_transfers(world, arena, error);
    uint32_t index = world->unit_count;
    for (uint32_t kind = options->kind_count; kind-- > 0;)
        for (uint32_t i = 0; i < options->kinds[kind].count && !status; i++) {
            struct simulator_unit *unit = &world->units[--index];
            unit->kind = &options->kinds[kind];
            unit->index = index;
            status = simulator_units_open_unit(world, unit, arena, error);
        }
    if (!status) status = open_storage(world, arena, error);
    for (index = 0; index < world->unit_count && !status; index++)
        status = start(world, &world->units[index], error);
    return status;
}

/* ---- the unit's records ---- */

static void take_load(struct simulator_world *world, struct simulator_unit *unit,
                      const struct record_unit_load *load) {
    simulator_units_count_pages(world, unit);
    unit->pages_held = load->pages_held;
    unit->pages_cached = load->pages_cached;
    memcpy(unit->load, load, load->record.bytes);
}

/* Sends a record to the gateway of its request, or to all gateways. */
static void simulator_units_notify_gateways(struct simulator_world *world,
                                            struct simulator_unit *unit,
                                            const struct record *record) {
    uint32_t gateway = UINT32_MAX;
    switch (record->kind) {
    case RECORD_UNIT_HELLO:
        memcpy(unit->hello, record, record->bytes);
        break;
    case RECORD_UNIT_LOAD:
        take_load(world, unit, (const struct record_unit_load *)record);
        break;
    case RECORD_FINISHED:
        remove_request(world, unit, record_request(record));
        count_finished(world, unit, &((const struct record_finished *)record)->work);
        gateway = (uint32_t)(record_request(record).high >> 32);
        break;
    default:
        check(record->kind == RECORD_TOKENS || record->kind == RECORD_PROGRESS ||
              record->kind == RECORD_RESERVED);
        gateway = (uint32_t)(record_request(record).high >> 32);
    }
    for (uint32_t i = 0; i < world->options->gateways; i++)
        if (gateway == i || gateway == UINT32_MAX)
            simulator_gateways_send(world, i, unit->connections[i], record);
}

static void report_storage(struct simulator_world *world, struct simulator_unit *unit,
                           const struct record *record) {
    struct simulator_disks *storage = &world->storage;
    bool free = simulator_settles(world);
    switch (record->kind) {
    case RECORD_KV_FIND:
        simulator_storage_find(storage, unit->index, (const struct record_kv_find *)record,
                               simulator_clients_stored(world, record_request(record)) /
                                   KV_BLOCK_TOKENS,
                               world->now_ns);
        break;
    case RECORD_KV_LOAD:
        simulator_storage_load(storage, unit->index, (const struct record_kv_load *)record, free,
                               world->now_ns);
        break;
    default:
        check(record->kind == RECORD_KV_PUT);
        simulator_storage_keep(storage, unit->index, (const struct record_kv_put *)record, free,
                               world->now_ns);
    }
}

static void simulator_units_report_pages(struct simulator_world *world, struct simulator_unit *unit,
                                         const struct record *record) {
    struct simulator_transfers *transfers = &world->transfers;
    switch (record->kind) {
    case RECORD_KV_EXPECT:
        simulator_transfer_expect(transfers, unit->index, (const struct record_kv_expect *)record,
                                  world->now_ns);
        break;
    case RECORD_KV_PUSH:
        simulator_transfer_push(transfers, unit->index, (const struct record_kv_push *)record,
                                simulator_settles(world), unit->done_ns, world->now_ns);
        break;
    case RECORD_KV_CANCEL:
        simulator_transfer_cancel(transfers, unit->index, (const struct record_kv_cancel *)record,
                                  world->now_ns);
        break;
    default:
        report_storage(world, unit, record);
    }
}

/* Begins a step when the plans of all ranks are there. While the fleet settles, prompts take no
 * time. */
static void simulator_units_begin_step(struct simulator_world *world, struct simulator_unit *unit) {
    struct simulator_engine *engine = &unit->engine;
    bool settles = simulator_settles(world);
    unit->sum = simulator_engine_begin(engine, world->now_ns, settles);
    if (settles && unit->sum.answer_rows == 0) engine->time.ns = NO_STEP_NS;
    if (!settles) simulator_engine_observe(engine, engine->time.ns);
    /* Units learn the cost of prompts from their steps, including these steps. */
    unit->reported_ns = settles ? engine->reported_ns : engine->time.ns;
    unit->in_step = true;
    unit->step_ns = world->now_ns;
    unit->done_ns =
        world->now_ns + engine->time.ns + (int64_t)(unit->kind->hardware->step_gap_us * 1000);
    simulator_wake(world, &unit->alarm, unit->done_ns);
}

/* Sends the records of the unit. Plans are handled first, because the duration of a step must be
 * known when the blocks that it computes are sent. */
static void simulator_units_drain(struct simulator_world *world, struct simulator_unit *unit) {
    struct outbox *outbox = unit->machine.outbox;
    bool begins = false;
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));)
        if (record->kind == RECORD_RUN_STEP)
            begins |= simulator_engine_take(&unit->engine, (const struct step_plan *)record);
    if (begins) simulator_units_begin_step(world, unit);
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));) {
        if (record_is_kv(record))
            simulator_units_report_pages(world, unit, record);
        else if (record->kind != RECORD_RUN_STEP && record->kind != RECORD_ROLE)
            simulator_units_notify_gateways(world, unit, record);
    }
    machine_outbox_clear(outbox);
}

/* ---- the unit's inbox ---- */

static void simulator_units_hand_over(struct simulator_world *world, struct simulator_unit *unit,
                                      const struct record *record) {
    simulator_note(world, record);
    while (!machine_pass(&unit->machine, record, world->now_ns))
        simulator_units_drain(world, unit);
}

void simulator_units_end_transfer(struct simulator_world *world, const struct event *event) {
    enum simulator_side side =
        event->kind == SIMULATOR_EVENT_TRANSFER_OUT ? SIMULATOR_OUT : SIMULATOR_IN;
    struct record_kv_done done;
    uint32_t index;
    if (!simulator_transfer_end(&world->transfers, event->index, side, event->stamp, &index, &done))
        return;
    simulator_units_hand_over(world, &world->units[index], &done.record);
    simulator_wake(world, &world->units[index].alarm, world->now_ns);
}

void simulator_units_end_job(struct simulator_world *world, const struct event *event) {
    uint32_t index;
    const struct record *record =
        simulator_storage_end(&world->storage, event->index, event->stamp, &index);
    if (!record) return;
    simulator_units_hand_over(world, &world->units[index], record);
    simulator_wake(world, &world->units[index].alarm, world->now_ns);
}

static void simulator_units_end_step(struct simulator_world *world, struct simulator_unit *unit) {
    uint64_t tokens = 0;
    unit->in_step = false;
    for (uint32_t rank = 0; rank < unit->kind->ranks; rank++) {
        tokens += simulator_engine_end(&unit->engine, rank, unit->reported_ns, world->result);
        simulator_units_hand_over(world, unit, &world->result->record);
    }
    count_step(world, unit, tokens);
    unit->done_ns = MACHINE_NEVER;
}

/* ---- time ---- */

static bool is_connected(const struct simulator_world *world, const struct simulator_unit *unit,
                         uint32_t connection) {
    for (uint32_t i = 0; i < world->options->gateways; i++)
        if (unit->connections[i] == connection) return true;
    return false;
}

/* Delivers a record, unless it was in transit when the network was cut. */
static void simulator_units_deliver(struct simulator_world *world, struct simulator_unit *unit,
                                    const struct post_message *message) {
    if (!is_connected(world, unit, message->connection)) return;
    if (message->record.kind == RECORD_SUBMIT) {
        if (unit->open_count == unit->open_max) simulator_units_drain(world, unit);
        simulator_units_add_request(unit, record_request(&message->record));
    }
    simulator_units_hand_over(world, unit, &message->record);
}

/* Cuts a unit from a gateway, like the host of a unit that loses the gateway. */
void simulator_units_cut(struct simulator_world *world, struct simulator_unit *unit,
                         uint32_t gateway) {
    if (!unit->up || !unit->connections[gateway]) return;
    simulator_units_disconnect(world, unit, gateway, SIMULATOR_NOTICE_NS);
    for (uint32_t i = unit->open_count; i > 0; i--) {
        if (i > unit->open_count) continue; /* other requests have ended meanwhile */
        struct record_cancel cancel = {record_head(RECORD_CANCEL, sizeof cancel),
                                       unit->open[i - 1]};
        if (cancel.request.high >> 32 == gateway)
            simulator_units_hand_over(world, unit, &cancel.record);
    }
    simulator_wake(world, &unit->alarm, world->now_ns);
}

void simulator_units_run(struct simulator_world *world, struct simulator_unit *unit) {
    struct machine *machine = &unit->machine;
    const struct post_message *message;
    if (!unit->up) return;
    while ((message = post_at(&unit->inbox, 0)) && message->due_ns <= world->now_ns) {
        simulator_units_deliver(world, unit, message);
        post_drop(&unit->inbox, 0);
    }
    if (unit->in_step && unit->done_ns <= world->now_ns) simulator_units_end_step(world, unit);
    simulator_units_drain(world, unit);
    machine->step(machine->self, world->now_ns);
    simulator_units_drain(world, unit);
    simulator_wake(world, &unit->alarm, machine->next_wake_ns(machine->self));
    simulator_wake(world, &unit->alarm, post_next_ns(&unit->inbox));
    if (unit->in_step) simulator_wake(world, &unit->alarm, unit->done_ns);
}

/* ---- begin and end of counting ---- */

void simulator_units_begin(struct simulator_world *world) {
    for (uint32_t i = 0; i < world->unit_count; i++) {
        struct simulator_unit *unit = &world->units[i];
        simulator_units_count_pages(world,
                                    unit); /* resets the counters, since counting begins now */
        unit->preempted_before = unit->preempted + load_of(unit)->totals.preemptions;
        unit->moves = step_clock_moves(unit->clock);
    }
}

static void simulator_units_count_layers(const struct simulator_world *world,
                                         const struct simulator_unit *unit,
                                         struct simulator_role_counts *counts) {
    for (uint32_t layer = 0; layer < world->options->model->layers; layer++)
        counts->layer_balance[layer] += step_clock_balance(unit->clock, layer);
}

static void count_unit(struct simulator_world *world, struct simulator_unit *unit) {
    struct simulator_role_counts *counts = simulator_units_counts_of(world, unit);
    simulator_units_count_pages(world, unit);
    counts->units++;
    counts->ranks += unit->kind->ranks;
    counts->nodes += divide_up(unit->kind->ranks, max_u32(1, unit->kind->ranks_per_node));
    counts->idle_s += world->report->measured_s * unit->kind->ranks;
    counts->preemptions +=
        unit->preempted + load_of(unit)->totals.preemptions - unit->preempted_before;
    counts->moves += step_clock_moves(unit->clock) - unit->moves;
    simulator_units_count_layers(world, unit, counts);
}

static void count_role(struct simulator_world *world, enum unit_role role) {
    struct simulator_role_counts *counts = &world->report->roles[role];
    const struct simulator_page_sums *sums = &world->pages[role];
    double ns = world->report->measured_s * SECOND * (double)counts->ranks;
    for (int i = 0; i < STEP_SPENT_COUNT; i++)
        counts->idle_s -= counts->spent[i];
    if (counts->steps) counts->expert_balance /= (double)counts->steps;
    for (uint32_t i = 0; i < world->options->model->layers && counts->units; i++)
        counts->layer_balance[i] /= (double)counts->units;
    if (ns <= 0) return;
    counts->pages_held = (uint64_t)(sums->held / ns + 0.5);
    counts->pages_cached = (uint64_t)(sums->cached / ns + 0.5);
    counts->pages_total = (uint64_t)(sums->total / ns + 0.5);
}

void simulator_units_count(struct simulator_world *world) {
    for (uint32_t i = 0; i < world->unit_count; i++)
        count_unit(world, &world->units[i]);
    for (int role = 0; role < UNIT_ROLE_COUNT; role++)
        count_role(world, (enum unit_role)role);
}

void simulator_units_sample(const struct simulator_world *world,
                            double shares_out[UNIT_ROLE_COUNT]) {
    for (int role = 0; role < UNIT_ROLE_COUNT; role++) {
        double held = 0, total = 0;
        for (uint32_t i = 0; i < world->unit_count; i++) {
            const struct simulator_unit *unit = &world->units[i];
            if (unit->kind->role != (enum unit_role)role) continue;
            held += unit->up ? (double)unit->pages_held : 0;
            total += (double)unit->options.page_count * unit->kind->ranks;
        }
        shares_out[role] = total > 0 ? held / total : 0;
    }
}

void simulator_units_verify(struct simulator_world *world) {
    for (uint32_t i = 0; i < world->unit_count; i++) {
        struct simulator_unit *unit = &world->units[i];
        if (!unit->up) continue;
        for (uint32_t rank = 0; rank < unit->kind->ranks; rank++) {
            unit_audit(rank_units_unit(unit->units, rank));
            if (unit_request_count(rank_units_unit(unit->units, rank)))
                simulator_breach(world, "a unit at rest holds requests");
        }
        if (unit->open_count)
            simulator_breach(world, "a unit has not ended a request that it was given");
        if (unit->pages_held) simulator_breach(world, "a unit at rest holds pages");
    }
    if (simulator_transfer_open_count(&world->transfers))
        simulator_breach(world, "a transfer has not ended at rest");
    if (simulator_storage_open_count(&world->storage))
        simulator_breach(world, "the storage has not answered at rest");
}

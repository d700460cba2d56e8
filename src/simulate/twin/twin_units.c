/* SPDX-License-Identifier: Apache-2.0
 * The hosts of the simulator's units. They deliver a unit's records to gateways, to its engines and
 * to the hosts of its pages. A step's results arrive when the clock's duration has passed.
 */
#include "base/check.h"
#include "base/format.h"
#include "base/number.h"
#include "contract/kv_block.h"
#include "simulate/twin/twin_state.h"

#include <string.h>

#define POST_BYTES ((size_t)512 << 20)   /* from gateways; little of it is touched */
#define PROMPT_BYTES ((size_t)128 << 10) /* approximate bytes that a rank stores per request */
#define ROWS_DEFAULT 64                  /* defaults of `fathom unit`, as the following */
#define STEP_TOKENS_DEFAULT 512
#define CONTEXT_DEFAULT 131072
#define NO_STEP_NS 1000 /* duration of a step with prompts that take no time */
#define SECOND 1e9

/* ---- options ---- */

static uint32_t pages_most(const struct twin_options *options, const struct twin_unit_kind *kind) {
    double block_bytes = KV_BLOCK_TOKENS * options->model->kv_bytes_per_token;
    if (kind->page_count) return kind->page_count;
    return (uint32_t)(kind->hardware->hbm_bytes / block_bytes) + 1;
}

/* The blocks that fit in a rank's memory in addition to its pages. */
static uint32_t memory_blocks(const struct twin_options *options,
                              const struct twin_unit_kind *kind) {
    double block_bytes = KV_BLOCK_TOKENS * options->model->kv_bytes_per_token;
    return kind->kv_storage ? (uint32_t)(options->host_bytes / block_bytes) : 0;
}

static uint32_t disk_blocks(const struct twin_options *options) {
    double blocks = options->storage_bytes / (KV_BLOCK_TOKENS * options->model->kv_bytes_per_token);
    return blocks < TWIN_DISK_BLOCKS_MAX ? (uint32_t)blocks : TWIN_DISK_BLOCKS_MAX;
}

static struct unit_options unit_options(const struct twin_options *options,
                                        const struct twin_unit_kind *kind, uint32_t page_count) {
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
        .kv_memory_blocks = memory_blocks(options, kind),
        .model_id = model_id,
        .numerics_id = "twin",
    };
    if (!own.requests_max) own.requests_max = 2 * own.step_rows_max;
    own.prompt_bytes =
        own.requests_max * PROMPT_BYTES + 4 * sizeof(uint32_t) * (size_t)own.context_tokens_max;
    return own;
}

static uint32_t unit_count(const struct twin_options *options) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < options->kind_count; i++)
        count += options->kinds[i].count;
    return count;
}

static struct step_clock_options clock_options(const struct twin_options *options,
                                               const struct twin_unit_kind *kind, uint32_t index) {
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

/* The unit may refuse a whole batch of arrivals before its refusals are processed. */
static uint32_t requests_max(const struct unit_options *own, uint32_t ranks) {
    return ranks * own->requests_max + 4096;
}

static size_t requests_bytes(const struct unit_options *own, uint32_t ranks) {
    uint32_t most = requests_max(own, ranks);
    return most * sizeof(struct request_id) + map_bytes(most) + 64;
}

static bool open_requests(struct twin_unit *unit, struct arena *arena) {
    unit->open_max = requests_max(&unit->options, unit->kind->ranks);
    unit->open = arena_take(arena, unit->open_max * sizeof *unit->open);
    unit->open_memory = arena_take(arena, map_bytes(unit->open_max));
    return unit->open && unit->open_memory;
}

static void forget_requests(struct twin_unit *unit) {
    struct arena arena;
    arena_over(&arena, unit->open_memory, map_bytes(unit->open_max));
    unit->open_count = 0;
    enum status status = map_open(&unit->open_places, &arena, unit->open_max);
    check(status == STATUS_OK);
}

static struct map_key key_of(struct request_id id) {
    return (struct map_key){id.high, id.low, id.attempt};
}

static void add_request(struct twin_unit *unit, struct request_id id) {
    if (map_find(&unit->open_places, key_of(id)) != MAP_NONE) return; /* a repeated request */
    check(unit->open_count < unit->open_max);
    map_add(&unit->open_places, key_of(id), unit->open_count);
    unit->open[unit->open_count++] = id;
}

static void remove_request(struct twin_world *world, struct twin_unit *unit, struct request_id id) {
    uint32_t place = map_find(&unit->open_places, key_of(id));
    if (place == MAP_NONE) {
        twin_breach(world, "a unit ended a request that it does not have");
        return;
    }
    struct request_id last = unit->open[--unit->open_count];
    map_remove(&unit->open_places, key_of(id));
    if (place == unit->open_count) return;
    map_remove(&unit->open_places, key_of(last));
    map_add(&unit->open_places, key_of(last), place);
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

static size_t kind_bytes(const struct twin_options *options, const struct twin_unit_kind *kind) {
    struct unit_options own = unit_options(options, kind, pages_most(options, kind));
    struct step_clock_options clock = clock_options(options, kind, 0);
    return sizeof(struct twin_unit) + machine_bytes(&own, kind->ranks) + POST_BYTES +
           twin_engine_bytes(kind->ranks, own.step_rows_max) + step_clock_bytes(&clock) +
           said_bytes(kind->ranks) + sizeof(struct twin_nic) +
           TWIN_SIDES * kind->ranks * sizeof(int64_t) + sizeof(struct twin_store) +
           twin_storage_unit_bytes(memory_blocks(options, kind), kind->ranks) +
           options->gateways * sizeof(uint32_t) + requests_bytes(&own, kind->ranks) + 256;
}

/* Lookups and stores that are not answered. */
static uint32_t jobs_max(const struct twin_options *options) {
    uint32_t jobs = 64;
    for (uint32_t i = 0; i < options->kind_count; i++) {
        const struct twin_unit_kind *kind = &options->kinds[i];
        struct unit_options own = unit_options(options, kind, 1);
        if (kind->kv_storage)
            jobs += kind->count * kind->ranks * (2 * own.requests_max + own.step_rows_max);
    }
    return jobs;
}

static uint32_t transfers_max(const struct twin_options *options) {
    return 2 * options->gateways * options->gateway_requests_max + 64;
}

static uint32_t rows_most(const struct twin_options *options) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < options->kind_count; i++)
        most = max_u32(most, unit_options(options, &options->kinds[i], 1).step_rows_max);
    return most;
}

size_t twin_units_bytes(const struct twin_options *options) {
    size_t units = unit_count(options);
    size_t bytes = twin_transfer_bytes(transfers_max(options)) + units * units * sizeof(int64_t) +
                   twin_engine_result_bytes(rows_most(options)) +
                   twin_storage_bytes(disk_blocks(options), jobs_max(options)) + 256;
    for (uint32_t i = 0; i < options->kind_count; i++)
        bytes += options->kinds[i].count * kind_bytes(options, &options->kinds[i]);
    return bytes;
}

/* ---- counting ---- */

static struct twin_role_counts *counts_of(struct twin_world *world, const struct twin_unit *unit) {
    return &world->report->roles[unit->kind->role];
}

static void count_pages(struct twin_world *world, struct twin_unit *unit) {
    struct twin_page_sums *sums = &world->pages[unit->kind->role];
    double ns = (double)(world->now_ns - unit->load_ns);
    unit->load_ns = world->now_ns;
    if (!world->counts) return;
    sums->held += ns * (double)unit->pages_held;
    sums->cached += ns * (double)unit->pages_cached;
    sums->total += ns * unit->options.page_count * unit->kind->ranks;
}

static void count_loads(struct twin_role_counts *counts, const struct twin_unit *unit) {
    double seconds = (double)(unit->done_ns - unit->step_ns) / SECOND;
    for (int i = 0; i < TWIN_LOAD_COUNT; i++) {
        counts->load_most[i] += seconds * (double)unit->sum.load_most[i];
        counts->load_mean[i] += seconds * (double)unit->sum.load[i] / unit->kind->ranks;
    }
}

static void count_step(struct twin_world *world, struct twin_unit *unit, uint64_t output_tokens) {
    struct twin_role_counts *counts = counts_of(world, unit);
    if (!world->counts) return;
    counts->steps++;
    counts->step_ns += (double)(unit->done_ns - unit->step_ns);
    for (int i = 0; i < STEP_SPENT_COUNT; i++)
        counts->spent[i] += unit->engine.time.spent[i];
    counts->computed_tokens += unit->sum.load[TWIN_LOAD_TOKENS];
    counts->rows += unit->sum.load[TWIN_LOAD_ROWS];
    counts->context += unit->sum.load[TWIN_LOAD_CONTEXT];
    count_loads(counts, unit);
    unit->computed += unit->sum.load[TWIN_LOAD_TOKENS];
    counts->output_tokens += output_tokens;
    counts->answered_tokens += unit->sum.answered_tokens;
    counts->expert_balance += step_clock_balance_mean(unit->clock);
}

static void count_finished(struct twin_world *world, struct twin_unit *unit,
                           const struct unit_work *work) {
    struct twin_role_counts *counts = counts_of(world, unit);
    if (!world->counts || work->prefill_ns == 0) return;
    counts->hit_tokens += work->prompt_hit_tokens;
    counts->device_hits += work->device_tokens;
    counts->host_hits += work->host_tokens;
    counts->disk_hits += work->disk_tokens;
    counts->prompt_tokens += work->device_tokens + work->host_tokens + work->disk_tokens +
                             work->transferred_tokens + work->computed_tokens;
}

static const struct record_unit_load *load_of(const struct twin_unit *unit) {
    return (const struct record_unit_load *)(const void *)unit->load;
}

/* ---- incarnations ---- */

static void name_address(const struct twin_unit *unit, uint32_t rank,
                         char address[KV_ADDRESS_BYTES]) {
    memset(address, 0, KV_ADDRESS_BYTES);
    format_text(address, KV_ADDRESS_BYTES, "unit%u.rank%u.life%u", unit->index, rank, unit->life);
}

/* If the unit has not said hello yet, it does so itself. */
void twin_units_connect(struct twin_world *world, struct twin_unit *unit, uint32_t gateway) {
    if (!unit->up || unit->connections[gateway]) return;
    uint32_t connection = ++unit->connected * world->unit_count + unit->index;
    unit->connections[gateway] = connection;
    twin_gateways_tell(world, gateway, RECORD_UNIT_JOINED, connection);
    if (unit->hello->bytes) twin_gateways_send(world, gateway, connection, unit->hello);
    if (unit->load->bytes) twin_gateways_send(world, gateway, connection, unit->load);
}

static void disconnect(struct twin_world *world, struct twin_unit *unit, uint32_t gateway,
                       int64_t after_ns) {
    uint32_t connection = unit->connections[gateway];
    unit->connections[gateway] = 0;
    if (connection == 0) return;
    event_queue_add(&world->events, (struct event){.due_ns = world->now_ns + after_ns,
                                                   .stamp = connection,
                                                   .kind = TWIN_EVENT_NOTICE,
                                                   .index = gateway});
}

void twin_units_kill(struct twin_world *world, struct twin_unit *unit, bool noticed) {
    int64_t after_ns = noticed ? 0 : TWIN_NOTICE_NS;
    count_pages(world, unit);
    unit->pages_held = unit->pages_cached = 0;
    unit->preempted += load_of(unit)->totals.preemptions;
    unit->up = unit->in_step = false;
    unit->alarm.due_ns = MACHINE_NEVER;
    twin_post_clear(&unit->inbox);
    for (uint32_t i = 0; i < world->options->gateways; i++)
        disconnect(world, unit, i, after_ns);
    twin_transfer_lose(&world->transfers, unit->index, world->network_ns + after_ns, world->now_ns);
    twin_storage_stop(&world->storage, unit->index);
}

/* Creates a new machine in the old one's memory. It says hello with its first step. */
static enum status start(struct twin_world *world, struct twin_unit *unit, struct error *error) {
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
    twin_engine_forget(&unit->engine);
    world->storage.stores[unit->index].connection = unit->life;
    unit->up = true;
    unit->in_step = unit->begins = false;
    unit->done_ns = MACHINE_NEVER;
    memset(unit->hello, 0, sizeof *unit->hello);
    memset(unit->load, 0, record_bytes(RECORD_UNIT_LOAD, NULL));
    forget_requests(unit);
    unit->pages_held = unit->pages_cached = 0;
    unit->load_ns = world->now_ns;
    twin_post_clear(&unit->inbox);
    for (uint32_t i = 0; i < world->options->gateways; i++)
        twin_units_connect(world, unit, i);
    twin_units_wake(world, unit, world->now_ns);
    return STATUS_OK;
}

void twin_units_start(struct twin_world *world, struct twin_unit *unit) {
    struct error error;
    enum status status = start(world, unit, &error);
    check(status == STATUS_OK); /* it succeeded before */
}

/* ---- opening ---- */

static bool open_nic(struct twin_world *world, struct twin_unit *unit, struct arena *arena) {
    struct twin_nic *nic = &world->transfers.nics[unit->index];
    for (int side = 0; side < TWIN_SIDES; side++) {
        nic->ns_each[side] = 8 / unit->kind->hardware->nic_gbps;
        nic->free_ns[side] =
            arena_take_zeroed(arena, unit->kind->ranks * sizeof *nic->free_ns[side]);
        if (!nic->free_ns[side]) return false;
    }
    return true;
}

static bool open_store(struct twin_world *world, struct twin_unit *unit, struct arena *arena) {
    const struct twin_unit_kind *kind = unit->kind;
    struct twin_store *store = &world->storage.stores[unit->index];
    if (!twin_storage_open_unit(store, arena, memory_blocks(world->options, kind), kind->ranks,
                                kind->ranks_per_node))
        return false;
    store->memory_byte_ns = 8 / kind->hardware->nic_gbps;
    store->disk_byte_ns = kind->hardware->storage_gbps > 0 ? 8 / kind->hardware->storage_gbps : 0;
    store->latency_ns = (int64_t)(kind->hardware->storage_latency_us * 1000);
    return true;
}

static enum status open_unit(struct twin_world *world, struct twin_unit *unit, struct arena *arena,
                             struct error *error) {
    const struct twin_options *options = world->options;
    const struct twin_unit_kind *kind = unit->kind;
    struct step_clock_options clock = clock_options(options, kind, unit->index);
    enum status status = step_clock_open(arena, &clock, &unit->clock, error);
    if (status) return status;
    uint32_t pages = kind->page_count ? kind->page_count : step_clock_page_count(unit->clock);
    unit->options = unit_options(options, kind, pages);
    unit->memory_bytes = machine_bytes(&unit->options, kind->ranks);
    unit->memory = arena_take(arena, unit->memory_bytes);
    unit->hello = arena_take_zeroed(arena, said_bytes(kind->ranks));
    bool opened = unit->memory && unit->hello && twin_post_open(&unit->inbox, arena, POST_BYTES) &&
                  twin_engine_open(&unit->engine, arena, unit->clock, options->model, kind->ranks,
                                   unit->options.step_rows_max, kind->overlap) &&
                  open_nic(world, unit, arena) && open_store(world, unit, arena);
    if (!opened) return error_set(error, STATUS_NO_MEMORY, "twin: no memory for the units");
    struct record_unit_hello hello = {.rank_count = kind->ranks};
    unit->load =
        (struct record *)(void *)((char *)unit->hello + record_bytes(RECORD_UNIT_HELLO, &hello));
    unit->connections = arena_take_zeroed(arena, options->gateways * sizeof *unit->connections);
    if (!unit->connections || !open_requests(unit, arena))
        return error_set(error, STATUS_NO_MEMORY, "twin: no memory for the units");
    unit->alarm = event_alarm_of(TWIN_EVENT_UNIT, unit->index);
    return STATUS_OK;
}

static void transfer_due(void *context, uint32_t transfer, enum twin_side side, int64_t due_ns,
                         uint64_t stamp) {
    struct twin_world *world = context;
    event_queue_add(
        &world->events,
        (struct event){.due_ns = due_ns,
                       .stamp = stamp,
                       .kind = side == TWIN_OUT ? TWIN_EVENT_TRANSFER_OUT : TWIN_EVENT_TRANSFER_IN,
                       .index = transfer});
}

static enum status open_transfers(struct twin_world *world, struct arena *arena,
                                  struct error *error) {
    struct twin_transfers *transfers = &world->transfers;
    bool opened = twin_transfer_open(transfers, arena, transfers_max(world->options));
    transfers->nics = arena_take_zeroed(arena, world->unit_count * sizeof *transfers->nics);
    transfers->unit_count = world->unit_count;
    transfers->notice_ns = TWIN_NOTICE_NS;
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
    struct twin_world *world = context;
    event_queue_add(
        &world->events,
        (struct event){.due_ns = due_ns, .stamp = stamp, .kind = TWIN_EVENT_STORAGE, .index = job});
}

static enum status open_storage(struct twin_world *world, struct arena *arena,
                                struct error *error) {
    struct twin_disks *storage = &world->storage;
    struct twin_store *stores = storage->stores; /* of units that are already open */
    bool opened =
        twin_storage_open(storage, arena, disk_blocks(world->options), jobs_max(world->options));
    if (!opened) return error_set(error, STATUS_NO_MEMORY, "twin: no memory for the storage");
    storage->stores = stores;
    storage->block_bytes = world->block_bytes;
    storage->context = world;
    storage->due = storage_due;
    return STATUS_OK;
}

/* Opens units from the last to the first, and then the storage, with tables proportional to the
 * number of units. A fleet with fewer units of the first kind thus has the same memory layout as a
 * larger one before it. */
enum status twin_units_open(struct twin_world *world, struct arena *arena, struct error *error) {
    const struct twin_options *options = world->options;
    world->unit_count = unit_count(options);
    world->rows_max = rows_most(options);
    world->units = arena_take_zeroed(arena, world->unit_count * sizeof *world->units);
    world->result = arena_take(arena, twin_engine_result_bytes(world->rows_max));
    world->storage.stores =
        arena_take_zeroed(arena, world->unit_count * sizeof *world->storage.stores);
    if (!world->units || !world->result || !world->storage.stores)
        return error_set(error, STATUS_NO_MEMORY, "twin: no memory for the units");
    enum status status = open_transfers(world, arena, error);
    uint32_t index = world->unit_count;
    for (uint32_t kind = options->kind_count; kind-- > 0;)
        for (uint32_t i = 0; i < options->kinds[kind].count && !status; i++) {
            struct twin_unit *unit = &world->units[--index];
            unit->kind = &options->kinds[kind];
            unit->index = index;
            status = open_unit(world, unit, arena, error);
        }
    if (!status) status = open_storage(world, arena, error);
    for (index = 0; index < world->unit_count && !status; index++)
        status = start(world, &world->units[index], error);
    return status;
}

/* ---- the unit's records ---- */

static void take_load(struct twin_world *world, struct twin_unit *unit,
                      const struct record_unit_load *load) {
    count_pages(world, unit);
    unit->pages_held = load->pages_held;
    unit->pages_cached = load->pages_cached;
    memcpy(unit->load, load, load->record.bytes);
}

/* Sends a record to the request's gateway, or to all gateways. */
static void tell_gateways(struct twin_world *world, struct twin_unit *unit,
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
        check(record->kind == RECORD_TOKENS || record->kind == RECORD_RESERVED);
        gateway = (uint32_t)(record_request(record).high >> 32);
    }
    for (uint32_t i = 0; i < world->options->gateways; i++)
        if (gateway == i || gateway == UINT32_MAX)
            twin_gateways_send(world, i, unit->connections[i], record);
}

static void tell_storage(struct twin_world *world, struct twin_unit *unit,
                         const struct record *record) {
    struct twin_disks *storage = &world->storage;
    bool free = twin_settles(world);
    switch (record->kind) {
    case RECORD_KV_FIND:
        twin_storage_find(storage, unit->index, (const struct record_kv_find *)record,
                          twin_clients_stored(world, record_request(record)) / KV_BLOCK_TOKENS,
                          world->now_ns);
        break;
    case RECORD_KV_LOAD:
        twin_storage_load(storage, unit->index, (const struct record_kv_load *)record, free,
                          world->now_ns);
        break;
    default:
        check(record->kind == RECORD_KV_KEEP);
        twin_storage_keep(storage, unit->index, (const struct record_kv_keep *)record, free,
                          world->now_ns);
    }
}

static void tell_pages(struct twin_world *world, struct twin_unit *unit,
                       const struct record *record) {
    struct twin_transfers *transfers = &world->transfers;
    switch (record->kind) {
    case RECORD_KV_EXPECT:
        twin_transfer_expect(transfers, unit->index, (const struct record_kv_expect *)record,
                             world->now_ns);
        break;
    case RECORD_KV_PUSH:
        twin_transfer_push(transfers, unit->index, (const struct record_kv_push *)record,
                           twin_settles(world), unit->done_ns, world->now_ns);
        break;
    case RECORD_KV_CANCEL:
        twin_transfer_cancel(transfers, unit->index, (const struct record_kv_cancel *)record,
                             world->now_ns);
        break;
    default:
        tell_storage(world, unit, record);
    }
}

/* Begins a step when all ranks' plans are there. While the fleet settles, prompts take no time. */
static void begin_step(struct twin_world *world, struct twin_unit *unit) {
    struct twin_engine *engine = &unit->engine;
    bool settles = twin_settles(world);
    unit->sum = twin_engine_begin(engine, world->now_ns, settles);
    if (settles && unit->sum.load[TWIN_LOAD_ROWS] == 0) engine->time.ns = NO_STEP_NS;
    if (!settles) twin_engine_observe(engine, engine->time.ns);
    /* Units learn the cost of prompts from their steps, including these. */
    unit->told_ns = settles ? engine->told_ns : engine->time.ns;
    unit->in_step = true;
    unit->step_ns = world->now_ns;
    unit->done_ns =
        world->now_ns + engine->time.ns + (int64_t)(unit->kind->hardware->step_gap_us * 1000);
    twin_units_wake(world, unit, unit->done_ns);
}

/* Plans are handled first: the duration of a step that computes blocks must be known when the
 * blocks are sent. */
static void drain(struct twin_world *world, struct twin_unit *unit) {
    struct outbox *outbox = unit->machine.outbox;
    bool begins = false;
    for (const struct record *record = NULL; (record = outbox_next(outbox, record));)
        if (record->kind == RECORD_RUN_STEP)
            begins |= twin_engine_take(&unit->engine, (const struct step_plan *)record);
    if (begins) begin_step(world, unit);
    for (const struct record *record = NULL; (record = outbox_next(outbox, record));) {
        if (record_is_kv(record))
            tell_pages(world, unit, record);
        else if (record->kind != RECORD_RUN_STEP && record->kind != RECORD_ROLE)
            tell_gateways(world, unit, record);
    }
    outbox_clear(outbox);
}

/* ---- the unit's inbox ---- */

static void hand_over(struct twin_world *world, struct twin_unit *unit,
                      const struct record *record) {
    struct machine *machine = &unit->machine;
    twin_note(world, record);
    enum status status = machine->receive(machine->self, record, world->now_ns);
    if (status == STATUS_OK) return;
    check(status == STATUS_FULL && machine->outbox->used > 0);
    drain(world, unit);
    status = machine->receive(machine->self, record, world->now_ns);
    check(status == STATUS_OK);
}

void twin_units_send(struct twin_world *world, uint32_t gateway, uint32_t connection,
                     const struct record *record) {
    struct twin_unit *unit = &world->units[connection % world->unit_count];
    if (!unit->up || unit->connections[gateway] != connection) return;
    int64_t due_ns = world->now_ns + world->network_ns;
    struct record *copy = twin_post_put(&unit->inbox, due_ns, connection, record->bytes);
    check(copy); /* fails if more than POST_BYTES are in transit to a unit */
    memcpy(copy, record, record->bytes);
    twin_units_wake(world, unit, due_ns);
}

void twin_units_end_transfer(struct twin_world *world, const struct event *event) {
    enum twin_side side = event->kind == TWIN_EVENT_TRANSFER_OUT ? TWIN_OUT : TWIN_IN;
    struct record_kv_done done;
    uint32_t index;
    if (!twin_transfer_end(&world->transfers, event->index, side, event->stamp, &index, &done))
        return;
    hand_over(world, &world->units[index], &done.record);
    twin_units_wake(world, &world->units[index], world->now_ns);
}

void twin_units_end_job(struct twin_world *world, const struct event *event) {
    uint32_t index;
    const struct record *record =
        twin_storage_end(&world->storage, event->index, event->stamp, &index);
    if (!record) return;
    hand_over(world, &world->units[index], record);
    twin_units_wake(world, &world->units[index], world->now_ns);
}

static void end_step(struct twin_world *world, struct twin_unit *unit) {
    uint64_t tokens = 0;
    unit->in_step = false;
    for (uint32_t rank = 0; rank < unit->kind->ranks; rank++) {
        tokens += twin_engine_end(&unit->engine, rank, unit->told_ns, world->result);
        hand_over(world, unit, &world->result->record);
    }
    count_step(world, unit, tokens);
    unit->done_ns = MACHINE_NEVER;
}

/* ---- time ---- */

void twin_units_wake(struct twin_world *world, struct twin_unit *unit, int64_t due_ns) {
    if (due_ns < world->now_ns) due_ns = world->now_ns;
    event_alarm_set(&unit->alarm, &world->events, due_ns);
}

static bool is_connected(const struct twin_world *world, const struct twin_unit *unit,
                         uint32_t connection) {
    for (uint32_t i = 0; i < world->options->gateways; i++)
        if (unit->connections[i] == connection) return true;
    return false;
}

/* Records in transit when the network was cut do not arrive. */
static void deliver(struct twin_world *world, struct twin_unit *unit,
                    const struct twin_message *message) {
    if (!is_connected(world, unit, message->connection)) return;
    if (message->record.kind == RECORD_SUBMIT) {
        if (unit->open_count == unit->open_max) drain(world, unit);
        add_request(unit, record_request(&message->record));
    }
    hand_over(world, unit, &message->record);
}

/* The unit's host does the same when it loses its gateway. */
void twin_units_cut(struct twin_world *world, struct twin_unit *unit, uint32_t gateway) {
    if (!unit->up || !unit->connections[gateway]) return;
    disconnect(world, unit, gateway, TWIN_NOTICE_NS);
    for (uint32_t i = unit->open_count; i > 0; i--) {
        if (i > unit->open_count) continue; /* others have ended meanwhile */
        struct record_cancel cancel = {record_head(RECORD_CANCEL, sizeof cancel),
                                       unit->open[i - 1]};
        if (cancel.request.high >> 32 == gateway) hand_over(world, unit, &cancel.record);
    }
    twin_units_wake(world, unit, world->now_ns);
}

void twin_units_run(struct twin_world *world, struct twin_unit *unit) {
    struct machine *machine = &unit->machine;
    const struct twin_message *message;
    if (!unit->up) return;
    while ((message = twin_post_first(&unit->inbox)) && message->due_ns <= world->now_ns) {
        deliver(world, unit, message);
        twin_post_drop(&unit->inbox);
    }
    if (unit->in_step && unit->done_ns <= world->now_ns) end_step(world, unit);
    drain(world, unit);
    machine->step(machine->self, world->now_ns);
    drain(world, unit);
    twin_units_wake(world, unit, machine->next_wake_ns(machine->self));
    twin_units_wake(world, unit, twin_post_next_ns(&unit->inbox));
    if (unit->in_step) twin_units_wake(world, unit, unit->done_ns);
}

/* ---- begin and end of counting ---- */

void twin_units_begin(struct twin_world *world) {
    for (uint32_t i = 0; i < world->unit_count; i++) {
        struct twin_unit *unit = &world->units[i];
        count_pages(world, unit); /* resets the counters: counting begins now */
        unit->preempted_before = unit->preempted + load_of(unit)->totals.preemptions;
        unit->moves = step_clock_moves(unit->clock);
    }
}

static void count_layers(const struct twin_world *world, const struct twin_unit *unit,
                         struct twin_role_counts *counts) {
    for (uint32_t layer = 0; layer < world->options->model->layers; layer++)
        counts->layer_balance[layer] += step_clock_balance(unit->clock, layer);
}

static void count_unit(struct twin_world *world, struct twin_unit *unit) {
    struct twin_role_counts *counts = counts_of(world, unit);
    count_pages(world, unit);
    counts->units++;
    counts->ranks += unit->kind->ranks;
    counts->nodes += divide_up(unit->kind->ranks, max_u32(1, unit->kind->ranks_per_node));
    counts->idle_s += world->report->measured_s * unit->kind->ranks;
    counts->preemptions +=
        unit->preempted + load_of(unit)->totals.preemptions - unit->preempted_before;
    counts->moves += step_clock_moves(unit->clock) - unit->moves;
    if (unit->computed > counts->unit_computed_most) counts->unit_computed_most = unit->computed;
    count_layers(world, unit, counts);
}

static void count_role(struct twin_world *world, enum unit_role role) {
    struct twin_role_counts *counts = &world->report->roles[role];
    const struct twin_page_sums *sums = &world->pages[role];
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

void twin_units_count(struct twin_world *world) {
    for (uint32_t i = 0; i < world->unit_count; i++)
        count_unit(world, &world->units[i]);
    for (int role = 0; role < UNIT_ROLE_COUNT; role++)
        count_role(world, (enum unit_role)role);
}

void twin_units_sample(const struct twin_world *world, double shares_out[UNIT_ROLE_COUNT]) {
    for (int role = 0; role < UNIT_ROLE_COUNT; role++) {
        double held = 0, total = 0;
        for (uint32_t i = 0; i < world->unit_count; i++) {
            const struct twin_unit *unit = &world->units[i];
            if (unit->kind->role != (enum unit_role)role) continue;
            held += unit->up ? (double)unit->pages_held : 0;
            total += (double)unit->options.page_count * unit->kind->ranks;
        }
        shares_out[role] = total > 0 ? held / total : 0;
    }
}

void twin_units_judge(struct twin_world *world) {
    for (uint32_t i = 0; i < world->unit_count; i++) {
        struct twin_unit *unit = &world->units[i];
        if (!unit->up) continue;
        for (uint32_t rank = 0; rank < unit->kind->ranks; rank++) {
            unit_audit(rank_units_unit(unit->units, rank));
            if (unit_request_count(rank_units_unit(unit->units, rank)))
                twin_breach(world, "a unit at rest holds requests");
        }
        if (unit->open_count)
            twin_breach(world, "a unit has not ended a request that it was given");
        if (unit->pages_held) twin_breach(world, "a unit at rest holds pages");
    }
    if (twin_transfer_open_count(&world->transfers))
        twin_breach(world, "a transfer has not ended at rest");
    if (twin_storage_open_count(&world->storage))
        twin_breach(world, "the storage has not answered at rest");
}

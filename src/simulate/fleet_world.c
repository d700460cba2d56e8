/* SPDX-License-Identifier: Apache-2.0
 * Time goes from one thing that is due to the next. Letters (records on their way) lie in posts,
 * sorted by when they arrive; one connection's letters never overtake each other.
 */
#include "simulate/fleet_world.h"

#include "base/check.h"
#include "base/format.h"
#include "base/random.h"
#include "gateway/gateway.h"
#include "gateway/request.h"
#include "policy/speculate.h"
#include "simulate/fleet_clients.h"
#include "simulate/fleet_engine.h"
#include "unit/rank_units.h"

#define MS ((int64_t)1000000)
#define SECOND (1000 * MS)
#define HEALED_NS (20 * SECOND) /* no fault behind it */
#define ASKED_NS (24 * SECOND)  /* no client behind it */
#define REST_NS (300 * SECOND)  /* nothing to do behind it */
#define SIGN_NS (SECOND / 2)

enum { UNITS_MAX = 4, RANKS = 3, OPEN_MAX = 128, PAGES_MAX = 40, SAID_BYTES = 1024 };

#define POST_BYTES ((uint32_t)4 << 20)
#define RESULT_BYTES ((size_t)256 << 10)

struct letter {
    int64_t due_ns;
    uint32_t bytes;      /* of all this */
    uint32_t connection; /* 0: none */
    struct record record;
};

struct post {
    char *memory;
    uint32_t used; /* of POST_BYTES */
};

struct sim_unit {
    char *memory; /* of the machine and the engines of its present life */
    struct rank_units *units;
    struct machine machine;
    struct fleet_engine engines[RANKS];
    struct post inbox;
    bool up, draining;
    bool dead[RANKS];          /* ranks whose unit goes on without them */
    uint32_t dies;             /* 1 + the rank that does not live to see the end of the next step */
    uint32_t connection;       /* 0: none */
    int64_t in_ns, out_ns;     /* when the last letter each way arrives */
    int64_t frozen_ns;         /* until then it does nothing */
    int64_t up_ns, connect_ns; /* when that happens next; MACHINE_NEVER */
    int64_t sign_ns;           /* when it repeats its load */
    struct request_id open[OPEN_MAX]; /* what its connection submitted and has not ended */
    uint32_t open_count;
    _Alignas(8) char hello[SAID_BYTES], load[SAID_BYTES]; /* the last ones */
};

struct world {
    struct fleet_world_options options;
    struct fleet_world_report *report;
    int64_t now_ns;
    uint32_t draws, connections, turns;
    struct unit_options unit_options;
    size_t unit_bytes;
    uint32_t ranks, unit_count;
    struct sim_unit units[UNITS_MAX];
    struct gateway *gateway;
    struct machine gateway_machine;
    struct post inbox; /* of the gateway */
    struct fleet_clients clients;
    int64_t ask_ns, leave_ns, fault_ns; /* the next ones */
    char *result;                       /* [RESULT_BYTES] */
};

static double draw(struct world *world) {
    return random_uniform(world->options.seed, 0, world->draws++);
}

static uint32_t below(struct world *world, uint32_t bound) {
    return (uint32_t)(draw(world) * bound);
}

/* Between the two, and more often nearer to the first. */
static int64_t time_between(struct world *world, int64_t least_ns, int64_t most_ns) {
    double share = draw(world);
    return least_ns + (int64_t)(share * share * (double)(most_ns - least_ns));
}

static void breach(struct world *world, const char *text) {
    struct fleet_world_report *report = world->report;
    if (!report->breach[0])
        format_text(report->breach, sizeof report->breach, "%s (after %lld ms)", text,
                    (long long)(world->now_ns / MS));
}

/* ---- posts ----------------------------------------------------------------------------------- */

static struct letter *letter_at(const struct post *post, uint32_t at) {
    return at < post->used ? (struct letter *)(post->memory + at) : NULL;
}

/* Behind all that arrives no later. */
static void send(struct post *post, int64_t due_ns, uint32_t connection,
                 const struct record *record) {
    uint32_t at = 0, bytes = (uint32_t)(offsetof(struct letter, record) + record->bytes);
    for (struct letter *other; (other = letter_at(post, at)) && other->due_ns <= due_ns;)
        at += other->bytes;
    check(post->used + bytes <= POST_BYTES);
    memmove(post->memory + at + bytes, post->memory + at, post->used - at);
    struct letter *letter = (struct letter *)(post->memory + at);
    letter->due_ns = due_ns;
    letter->bytes = bytes;
    letter->connection = connection;
    memcpy(&letter->record, record, record->bytes);
    post->used += bytes;
}

static void drop_at(struct post *post, uint32_t at) {
    uint32_t bytes = letter_at(post, at)->bytes;
    post->used -= bytes;
    memmove(post->memory + at, post->memory + at + bytes, post->used - at);
}

/* The connection's letters that arrive later are lost. */
static void lose_letters(struct post *post, uint32_t connection, int64_t after_ns) {
    uint32_t at = 0;
    for (struct letter *letter; (letter = letter_at(post, at));) {
        if (letter->connection == connection && letter->due_ns > after_ns)
            drop_at(post, at);
        else
            at += letter->bytes;
    }
}

/* ---- from a unit ----------------------------------------------------------------------------- */

static int64_t arrives(struct world *world, int64_t *last_ns) {
    int64_t due_ns = world->now_ns + time_between(world, MS / 10, 3 * MS);
    if (due_ns < *last_ns) due_ns = *last_ns;
    return *last_ns = due_ns;
}

static void send_link(struct world *world, enum record_kind kind, uint32_t connection,
                      int64_t due_ns) {
    struct record_unit_link link = {.record = {RECORD_VERSION, (uint16_t)kind, sizeof link},
                                    .unit = {connection}};
    send(&world->inbox, due_ns, connection, &link.record);
}

static void tell_gateway(struct world *world, struct sim_unit *unit, const struct record *record) {
    static const size_t most = 64 << 10;
    if (!unit->connection) return;
    check(record->bytes <= most);
    struct outbox box = {.memory = world->result, .capacity = RESULT_BYTES};
    void *inner = outbox_put_carried(&box, RECORD_FROM_UNIT, (struct unit_id){unit->connection},
                                     (enum record_kind)record->kind, record->bytes);
    check(inner);
    memcpy(inner, record, record->bytes);
    check(record_valid(box.memory, box.used));
    send(&world->inbox, arrives(world, &unit->out_ns), unit->connection, outbox_next(&box, NULL));
}

static void forget_open(struct sim_unit *unit, struct request_id request) {
    for (uint32_t i = 0; i < unit->open_count; i++)
        if (request_id_equal(unit->open[i], request))
            unit->open[i--] = unit->open[--unit->open_count];
}

static void compute(struct world *world, struct sim_unit *unit, const struct step_plan *plan,
                    int64_t done_ns, bool fails) {
    check(fleet_engine_result_bytes(plan) <= RESULT_BYTES &&
          record_valid(plan, plan->record.bytes));
    struct step_result *result = (struct step_result *)world->result;
    fleet_engine_run(&unit->engines[plan->rank], plan, fails, result);
    result->compute_ns = done_ns - world->now_ns;
    check(record_valid(result, result->record.bytes));
    send(&unit->inbox, done_ns, 0, &result->record);
}

static void say(struct sim_unit *unit, char *said, const struct record *record) {
    (void)unit;
    check(record->bytes <= SAID_BYTES);
    memcpy(said, record, record->bytes);
}

/* The step that a rank dies in fails on all, and behind its news comes that of the death. Whatever
 * stood in its pages is gone. */
static void bury_rank(struct world *world, struct sim_unit *unit, int64_t done_ns) {
    uint32_t rank = unit->dies - 1;
    struct record_drain drain = {.record = {RECORD_VERSION, RECORD_DRAIN, sizeof drain},
                                 .one_rank = 1,
                                 .rank = rank,
                                 .dead = 1};
    struct fleet_engine *engine = &unit->engines[rank];
    memset(engine->rows, 0xEE, (size_t)engine->page_count * KV_BLOCK_TOKENS * sizeof *engine->rows);
    unit->dead[rank] = true;
    unit->dies = 0;
    world->report->rank_deaths++;
    send(&unit->inbox, done_ns, 0, &drain.record);
}

static void drain_unit(struct world *world, struct sim_unit *unit) {
    struct outbox *outbox = unit->machine.outbox;
    int64_t done_ns = world->now_ns + time_between(world, 2 * MS, 30 * MS);
    bool faulty = world->options.faults && world->now_ns < HEALED_NS;
    bool fails = (faulty && below(world, 400) == 0) || unit->dies, stepped = false;
    for (const struct record *record = NULL; (record = outbox_next(outbox, record));) {
        switch (record->kind) {
        case RECORD_RUN_STEP:
            compute(world, unit, (const struct step_plan *)record, done_ns, fails);
            stepped = true;
            continue;
        case RECORD_UNIT_HELLO:
            say(unit, unit->hello, record);
            break;
        case RECORD_UNIT_LOAD:
            say(unit, unit->load, record);
            unit->sign_ns = world->now_ns + SIGN_NS;
            break;
        case RECORD_FINISHED:
            forget_open(unit, record_request(record));
            break;
        case RECORD_DRAIN: /* its experts go to the others */
            continue;
        default:
            check(record->kind == RECORD_TOKENS);
        }
        tell_gateway(world, unit, record);
    }
    world->report->failed_steps += fails && stepped;
    if (unit->dies && stepped) bury_rank(world, unit, done_ns);
    outbox_clear(outbox);
}

/* ---- to a unit ------------------------------------------------------------------------------- */

static void hand_to_unit(struct world *world, struct sim_unit *unit, const struct record *record) {
    struct machine *machine = &unit->machine;
    enum status status = machine->receive(machine->self, record, world->now_ns);
    if (status == STATUS_OK) return;
    check(status == STATUS_FULL && machine->outbox->used > 0);
    drain_unit(world, unit);
    status = machine->receive(machine->self, record, world->now_ns);
    check(status == STATUS_OK); /* an empty outbox takes anything */
}

static void deliver_to_unit(struct world *world, struct sim_unit *unit) {
    const struct letter *letter;
    while ((letter = letter_at(&unit->inbox, 0)) && letter->due_ns <= world->now_ns) {
        bool heard = letter->connection == 0 || letter->connection == unit->connection;
        if (heard && letter->record.kind == RECORD_SUBMIT) {
            check(unit->open_count < OPEN_MAX);
            unit->open[unit->open_count++] = record_request(&letter->record);
        }
        if (heard && letter->record.kind == RECORD_DRAIN)
            unit->draining |= !((const struct record_drain *)&letter->record)->one_rank;
        if (heard) hand_to_unit(world, unit, &letter->record);
        drop_at(&unit->inbox, 0);
    }
}

/* ---- lives of units -------------------------------------------------------------------------- */

static void start_unit(struct world *world, struct sim_unit *unit) {
    struct arena arena;
    struct error error;
    arena_over(&arena, unit->memory, world->unit_bytes);
    enum status status =
        rank_units_create(&arena, &world->unit_options, world->ranks, &unit->units, &error);
    check(status == STATUS_OK);
    unit->machine = rank_units_machine(unit->units);
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        bool opened =
            fleet_engine_open(&unit->engines[rank], &arena, world->unit_options.page_count);
        check(opened);
    }
    unit->inbox.used = 0;
    unit->open_count = 0;
    unit->up = true;
    unit->draining = false;
    unit->dies = 0;
    memset(unit->dead, 0, sizeof unit->dead);
    unit->up_ns = MACHINE_NEVER;
    unit->sign_ns = world->now_ns + SIGN_NS;
    memset(unit->hello, 0, sizeof unit->hello);
    unit->connect_ns = world->now_ns;
}

static void connect_unit(struct world *world, struct sim_unit *unit) {
    const struct record *hello = (const struct record *)unit->hello;
    unit->connect_ns = MACHINE_NEVER;
    unit->connection = ++world->connections;
    unit->in_ns = unit->out_ns = 0;
    send_link(world, RECORD_UNIT_JOINED, unit->connection, arrives(world, &unit->out_ns));
    if (hello->bytes == 0) return; /* it will say it */
    tell_gateway(world, unit, hello);
    tell_gateway(world, unit, (const struct record *)unit->load);
}

/* The gateway's host hears of it late; what was on the way is lost from some moment on. */
static void disconnect_unit(struct world *world, struct sim_unit *unit) {
    if (!unit->connection) return;
    int64_t heard_ns = world->now_ns + time_between(world, 0, 3 * SECOND / 2);
    lose_letters(&world->inbox, unit->connection, world->now_ns + time_between(world, 0, 3 * MS));
    if (heard_ns < unit->out_ns) heard_ns = unit->out_ns;
    send_link(world, RECORD_UNIT_LOST, unit->connection, heard_ns);
    unit->connection = 0;
}

static void kill_unit(struct world *world, struct sim_unit *unit) {
    disconnect_unit(world, unit);
    unit->up = false;
    unit->frozen_ns = 0;
    unit->connect_ns = MACHINE_NEVER;
    unit->up_ns = world->now_ns + time_between(world, SECOND / 10, 8 * SECOND);
    world->report->deaths++;
}

/* What the connection submitted is cancelled; the unit goes on, and connects again. */
static void cut_unit(struct world *world, struct sim_unit *unit) {
    disconnect_unit(world, unit);
    for (uint32_t i = 0; i < unit->open_count; i++) {
        struct record_cancel cancel = {{RECORD_VERSION, RECORD_CANCEL, sizeof cancel},
                                       unit->open[i]};
        send(&unit->inbox, world->now_ns, 0, &cancel.record);
    }
    unit->open_count = 0;
    unit->connect_ns = world->now_ns + time_between(world, SECOND / 20, 2 * SECOND);
    world->report->cuts++;
}

static uint32_t count_held(const struct world *world, const struct sim_unit *unit) {
    uint32_t held = 0;
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        held += unit_request_count(rank_units_unit(unit->units, rank));
    return held;
}

/* An operator's wish: over the API, as any client's. */
static void ask_to_drain(struct world *world, const struct sim_unit *unit) {
    static const char path[] = "/debug/fleet/drain";
    struct outbox box = {.memory = world->result, .capacity = RESULT_BYTES};
    char body[32];
    size_t bytes = format_text(body, sizeof body, "{\"unit\":%u}", unit->connection);
    size_t path_at = record_tail(sizeof(struct record_client_request));
    size_t body_at = record_tail(path_at + sizeof path - 1);
    struct record_client_request *record = outbox_put(&box, RECORD_CLIENT_REQUEST, body_at + bytes);
    record->connection.value = UINT32_MAX; /* nobody listens */
    record->method = HTTP_POST;
    record->path_bytes = sizeof path - 1;
    record->body_bytes = (uint32_t)bytes;
    memcpy((char *)record + path_at, path, sizeof path - 1);
    memcpy((char *)record + body_at, body, bytes);
    send(&world->inbox, world->now_ns, 0, &record->record);
    world->report->drains++;
}

/* One of those that are left, but not the last. */
static void doom_rank(struct world *world, struct sim_unit *unit) {
    uint32_t rank = below(world, world->ranks), left = 0;
    for (uint32_t i = 0; i < world->ranks; i++)
        left += !unit->dead[i];
    if (left > 1 && !unit->dead[rank]) unit->dies = 1 + rank;
}

static void strike(struct world *world) {
    struct sim_unit *unit = &world->units[below(world, world->unit_count)];
    uint32_t what = below(world, 13);
    world->fault_ns = world->now_ns + time_between(world, 0, 3 * SECOND);
    if (!unit->up) return;
    if (what < 4) {
        kill_unit(world, unit);
    } else if (what < 6) {
        unit->frozen_ns = world->now_ns + time_between(world, SECOND / 20, 6 * SECOND);
        world->report->freezes++;
    } else if (what < 9) {
        cut_unit(world, unit);
    } else if (what < 12) {
        doom_rank(world, unit);
    } else if (unit->connection) {
        ask_to_drain(world, unit);
    }
}

static void run_unit(struct world *world, struct sim_unit *unit) {
    if (unit->up_ns <= world->now_ns) start_unit(world, unit);
    if (!unit->up || unit->frozen_ns > world->now_ns) return;
    if (unit->connect_ns <= world->now_ns) connect_unit(world, unit);
    deliver_to_unit(world, unit);
    drain_unit(world, unit);
    unit->machine.step(unit->machine.self, world->now_ns);
    drain_unit(world, unit);
    if (unit->sign_ns <= world->now_ns) {
        unit->sign_ns = world->now_ns + SIGN_NS;
        if (((struct record *)unit->load)->bytes) tell_gateway(world, unit, (void *)unit->load);
    }
    if (unit->draining && count_held(world, unit) == 0) kill_unit(world, unit); /* it may go */
}

/* ---- the gateway ----------------------------------------------------------------------------- */

static void carry(struct world *world, const struct record_carried *carried) {
    for (uint32_t i = 0; i < world->unit_count; i++) {
        struct sim_unit *unit = &world->units[i];
        if (!unit->up || unit->connection != carried->unit.value) continue;
        send(&unit->inbox, arrives(world, &unit->in_ns), unit->connection, carried_inner(carried));
    }
}

static void drain_gateway(struct world *world) {
    struct outbox *outbox = world->gateway_machine.outbox;
    for (const struct record *record = NULL; (record = outbox_next(outbox, record));) {
        check(record_valid(record, record->bytes));
        for (uint32_t i = 0; i < record->bytes; i++)
            world->report->digest =
                (world->report->digest ^ (uint8_t)((const char *)record)[i]) * 0x100000001B3u;
        if (record->kind == RECORD_TO_UNIT)
            carry(world, (const struct record_carried *)record);
        else if (((const struct record_stream_end *)record)->connection.value != UINT32_MAX)
            fleet_clients_hear(&world->clients, record);
    }
    outbox_clear(outbox);
}

static void hand_to_gateway(struct world *world, const struct record *record) {
    struct machine *machine = &world->gateway_machine;
    enum status status = machine->receive(machine->self, record, world->now_ns);
    if (status == STATUS_OK) return;
    check(status == STATUS_FULL && machine->outbox->used > 0);
    drain_gateway(world);
    status = machine->receive(machine->self, record, world->now_ns);
    check(status == STATUS_OK);
}

static void leave(struct world *world) {
    struct fleet_clients *clients = &world->clients;
    world->leave_ns = world->now_ns + time_between(world, 0, 6 * SECOND);
    if (clients->count == 0) return;
    struct fleet_client *client = &clients->clients[below(world, clients->count)];
    if (client->ended || client->gone) return;
    struct record_client_gone gone = {{RECORD_VERSION, RECORD_CLIENT_GONE, sizeof gone},
                                      {client->number}};
    hand_to_gateway(world, &gone.record);
    drain_gateway(world); /* what was said before it left is lost, or arrives */
    client->gone = true;
}

static void run_gateway(struct world *world) {
    const struct letter *letter;
    if (world->ask_ns <= world->now_ns) {
        hand_to_gateway(world, fleet_clients_ask(&world->clients));
        world->ask_ns = world->now_ns + time_between(world, 0, 400 * MS);
        if (world->ask_ns > ASKED_NS || world->clients.count == FLEET_CLIENTS_MAX)
            world->ask_ns = MACHINE_NEVER;
    }
    if (world->leave_ns <= world->now_ns) leave(world);
    while ((letter = letter_at(&world->inbox, 0)) && letter->due_ns <= world->now_ns) {
        hand_to_gateway(world, &letter->record);
        drop_at(&world->inbox, 0);
    }
    drain_gateway(world);
    world->gateway_machine.step(world->gateway_machine.self, world->now_ns);
    drain_gateway(world);
}

/* ---- time ------------------------------------------------------------------------------------ */

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t unit_wake_ns(const struct sim_unit *unit) {
    const struct letter *letter = letter_at(&unit->inbox, 0);
    if (!unit->up) return unit->up_ns;
    int64_t wake_ns = earlier(unit->connect_ns, unit->sign_ns);
    wake_ns = earlier(wake_ns, unit->machine.next_wake_ns(unit->machine.self));
    if (letter) wake_ns = earlier(wake_ns, letter->due_ns);
    return wake_ns > unit->frozen_ns ? wake_ns : unit->frozen_ns;
}

static void pass_time(struct world *world) {
    const struct letter *letter = letter_at(&world->inbox, 0);
    const struct machine *gateway = &world->gateway_machine;
    int64_t next_ns = earlier(world->ask_ns, gateway->next_wake_ns(gateway->self));
    next_ns = earlier(next_ns, earlier(world->leave_ns, world->fault_ns));
    if (letter) next_ns = earlier(next_ns, letter->due_ns);
    for (uint32_t i = 0; i < world->unit_count; i++)
        next_ns = earlier(next_ns, unit_wake_ns(&world->units[i]));
    world->now_ns = next_ns > world->now_ns ? next_ns : world->now_ns + 1;
}

static void heal(struct world *world) {
    world->fault_ns = MACHINE_NEVER;
    for (uint32_t i = 0; i < world->unit_count; i++) {
        struct sim_unit *unit = &world->units[i];
        unit->frozen_ns = earlier(unit->frozen_ns, world->now_ns);
        if (!unit->up) unit->up_ns = earlier(unit->up_ns, world->now_ns + SECOND);
    }
}

static bool is_at_rest(const struct world *world) {
    if (world->ask_ns != MACHINE_NEVER || gateway_request_count(world->gateway)) return false;
    for (uint32_t i = 0; i < world->unit_count; i++) {
        const struct sim_unit *unit = &world->units[i];
        if (!unit->up || !unit->connection || count_held(world, unit)) return false;
        for (uint32_t at = 0; letter_at(&unit->inbox, at); at += letter_at(&unit->inbox, at)->bytes)
            if (letter_at(&unit->inbox, at)->record.kind == RECORD_STEP_DONE) return false;
    }
    return true;
}

static void audit(struct world *world) {
    gateway_audit(world->gateway);
    for (uint32_t i = 0; i < world->unit_count; i++)
        for (uint32_t rank = 0; world->units[i].up && rank < world->ranks; rank++)
            unit_audit(rank_units_unit(world->units[i].units, rank));
}

/* ---- a life ---------------------------------------------------------------------------------- */

static void choose_options(struct world *world, struct gateway_options *gateway) {
    static const uint8_t model_id[32] = {1};
    world->ranks = 1 + below(world, RANKS);
    world->unit_count = 1 + below(world, UNITS_MAX);
    uint32_t rows = 2 + below(world, 5);
    world->unit_options = (struct unit_options){
        .requests_max = 2 + below(world, 10),
        .page_count = 10 + below(world, PAGES_MAX - 10),
        .context_tokens_max = 500,
        .step_rows_max = rows,
        .step_tokens_max = rows + KV_BLOCK_TOKENS + below(world, 300),
        .vocab_count = FLEET_VOCAB,
        .prefix_cache = below(world, 3) > 0,
        .speculate = below(world, SPECULATE_MODE_COUNT),
        .model_id = model_id,
        .numerics_id = "simulated",
    };
    world->report->scarce = below(world, 3) == 0;
    *gateway = (struct gateway_options){
        .model_name = "fleet",
        .version = "0",
        .sampling = {.temperature = 1, .top_p = 1},
        .stop_tokens = {FLEET_STOP_TOKEN},
        .stop_token_count = 1,
        .requests_max = 6 + below(world, 60),
        .body_bytes_max = 16 << 10,
        .request_bytes = (world->report->scarce ? 8 + below(world, 60) : 400) * POOL_CHUNK_BYTES,
        .outbox_bytes = 1 << 20,
        .keep_alive_ns = SECOND,
        .unit_silence_ns = 2 * SECOND,
        .unit_wait_ns = (1 + below(world, 10)) * SECOND,
    };
}

static size_t unit_bytes_max(uint32_t ranks, const struct unit_options *options) {
    return rank_units_memory_bytes(options, ranks) + ranks * fleet_engine_bytes(PAGES_MAX) + 64;
}

/* Of the largest unit that choose_options can come to. */
static struct unit_options largest_unit(void) {
    return (struct unit_options){.requests_max = 12,
                                 .page_count = PAGES_MAX,
                                 .context_tokens_max = 500,
                                 .step_rows_max = 7,
                                 .step_tokens_max = 7 + KV_BLOCK_TOKENS + 300,
                                 .vocab_count = FLEET_VOCAB,
                                 .numerics_id = "simulated"};
}

static struct gateway_options largest_gateway(void) {
    return (struct gateway_options){.requests_max = 66,
                                    .body_bytes_max = 16 << 10,
                                    .request_bytes = 400 * POOL_CHUNK_BYTES,
                                    .outbox_bytes = 1 << 20};
}

size_t fleet_world_bytes(void) {
    struct unit_options unit = largest_unit();
    struct gateway_options gateway = largest_gateway();
    return sizeof(struct world) + gateway_memory_bytes(&gateway) + fleet_clients_bytes() +
           UNITS_MAX * unit_bytes_max(RANKS, &unit) + (UNITS_MAX + 1) * POST_BYTES + RESULT_BYTES +
           4096;
}

static struct world *open_world(const struct fleet_world_options *options, struct arena *arena,
                                struct fleet_world_report *report) {
    struct gateway_options gateway;
    struct error error;
    arena_clear(arena);
    struct world *world = arena_take_zeroed(arena, sizeof *world);
    check(world);
    world->options = *options;
    world->report = report;
    choose_options(world, &gateway);
    enum status status = gateway_create(arena, &gateway, &world->gateway, &error);
    bool opened = fleet_clients_open(&world->clients, arena, options->seed);
    check(status == STATUS_OK && opened);
    world->gateway_machine = gateway_machine(world->gateway);
    world->inbox.memory = arena_take(arena, POST_BYTES);
    world->result = arena_take(arena, RESULT_BYTES);
    world->unit_bytes = unit_bytes_max(world->ranks, &world->unit_options);
    check(world->inbox.memory && world->result);
    for (uint32_t i = 0; i < world->unit_count; i++) {
        struct sim_unit *unit = &world->units[i];
        unit->memory = arena_take(arena, world->unit_bytes);
        unit->inbox.memory = arena_take(arena, POST_BYTES);
        check(unit->memory && unit->inbox.memory);
        unit->connect_ns = MACHINE_NEVER;
        unit->up_ns = time_between(world, 0, 2 * SECOND);
    }
    world->fault_ns = options->faults ? SECOND : MACHINE_NEVER;
    world->leave_ns = options->faults ? SECOND : MACHINE_NEVER;
    return world;
}

/* Clients may be refused for want of room at any time, for want of units only under faults. */
static bool may_refuse(const struct world *world, const struct fleet_client *client) {
    static const char *const codes[FLEET_REFUSALS] = {[FLEET_QUEUE_FULL] = "queue_full",
                                                      [FLEET_NO_MEMORY] = "out_of_memory",
                                                      [FLEET_NO_UNIT] = "no_unit",
                                                      [FLEET_FAILED] = "engine_failed"};
    for (uint32_t i = 0; i < FLEET_REFUSALS; i++)
        if (bytes_equal(bytes_of(client->code), bytes_of(codes[i]))) {
            world->report->refused_by[i]++;
            return i <= FLEET_NO_MEMORY || world->options.faults;
        }
    return false;
}

static void judge(struct world *world) {
    struct fleet_world_report *report = world->report;
    struct fleet_clients *clients = &world->clients;
    report->asked = clients->count;
    for (uint32_t i = 0; i < clients->count; i++) {
        const struct fleet_client *client = &clients->clients[i];
        if (client->gone) {
            report->left++;
            continue;
        }
        if (!client->ended) fleet_clients_breach(clients, client, "never answered");
        if (client->refused && !may_refuse(world, client))
            fleet_clients_breach(clients, client, client->code);
        bool failed =
            client->refused && bytes_equal(bytes_of(client->code), BYTES_LITERAL("engine_failed"));
        if ((client->cut || failed) && !report->scarce) /* it could have gone on elsewhere */
            fleet_clients_breach(clients, client, "given up");
        report->refused += client->refused;
        report->cut += client->cut && !client->refused;
        report->answered += !client->refused && !client->cut;
    }
    if (clients->breach[0]) breach(world, clients->breach);
}

/* Nothing is left of anything. */
static void judge_rest(struct world *world) {
    audit(world);
    world->report->losses = world->gateway->fleet.losses_total;
    world->report->resumed = world->gateway->resumed_total;
    for (uint32_t i = 0; i < world->unit_count; i++) {
        const struct record_unit_load *load = (const void *)world->units[i].load;
        world->report->preempted += load->preemptions_total;
        world->report->recomputed += load->recomputed_tokens_total;
        if (load->pages_held || load->requests_waiting || load->requests_running)
            breach(world, "a unit at rest holds pages or requests");
    }
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (world->gateway->fleet.units[i].bound)
            breach(world, "a unit at rest has requests bound");
}

void fleet_world_run(const struct fleet_world_options *options, struct arena *arena,
                     struct fleet_world_report *report_out) {
    *report_out = (struct fleet_world_report){.digest = 0xCBF29CE484222325u};
    struct world *world = open_world(options, arena, report_out);
    bool healed = false;
    while (!is_at_rest(world) && world->now_ns < REST_NS && !world->clients.breach[0]) {
        if (!healed && world->now_ns >= HEALED_NS) heal(world);
        healed = world->now_ns >= HEALED_NS;
        if (world->fault_ns <= world->now_ns) strike(world);
        for (uint32_t i = 0; i < world->unit_count; i++)
            run_unit(world, &world->units[i]);
        run_gateway(world);
        if (world->turns++ % 128 == 0) audit(world);
        pass_time(world);
    }
    if (!is_at_rest(world) && !world->clients.breach[0]) breach(world, "no rest is found");
    judge(world);
    if (!report_out->breach[0]) judge_rest(world);
    report_out->rest_ns = world->now_ns;
}

/* SPDX-License-Identifier: Apache-2.0
 * The host of the gateway in virtual time. A gateway may die: its clients get nothing more, its
 * units cancel what it had and connect to the next one, which knows nothing of either.
 */
#include "serving/gateway/gateway.h"

#include "base/check.h"
#include "base/format.h"
#include "base/number.h"
#include "serving/gateway/gateway_state.h"
#include "simulate/fleet_state.h"

enum { RECENT = 12 }; /* the clients of whom one leaves */

#define OPERATOR UINT32_MAX /* a connection to whose answers nobody listens */

#define CROWDED_OF 32           /* one message of so many finds the outbox nearly full */
#define CROWDED_BYTES_MAX 20000 /* that are then left */

static void carry(struct world *world, const struct record_carried *carried) {
    for (uint32_t i = 0; i < world->unit_count; i++) {
        struct fleet_unit_host *unit = &world->units[i];
        struct record *inner = carried_inner(carried);
        if (!unit->up || unit->connection != carried->unit.value) continue;
        if (inner->kind == RECORD_SUBMIT && !world->accounts.present) { /* as if it had one */
            struct record_submit *submit = (struct record_submit *)(void *)inner;
            uint64_t salt = fleet_clients_tenant(&world->clients, submit->request.low / 64);
            memcpy(submit->tenant.bytes, &salt, sizeof salt);
        }
        fleet_post_send(&unit->inbox, world_arrival_ns(world, &unit->in_ns), unit->connection,
                        inner);
    }
}

/* Nobody here asks for a constraint that cannot be held. */
static void judge_constraint(struct world *world, const struct record *record) {
    struct record_constrained verdict = {
        .record = record_head(RECORD_CONSTRAINED, sizeof verdict),
        .request = record_request(record),
        .verdict = CONSTRAINT_HOLDS,
    };
    fleet_post_send(&world->inbox, world->now_ns, 0, &verdict.record);
}

/* Now and then its outbox is nearly full, of what nobody listens to. */
static void crowd(struct world *world) {
    struct outbox *outbox = world->gateway_machine.outbox;
    uint32_t left = (uint32_t)fleet_dice_time(&world->crowds, 0, CROWDED_BYTES_MAX);
    struct record_stream_data fixed = {.connection = {OPERATOR}};
    if (fleet_dice_below(&world->crowds, CROWDED_OF) || outbox_room(outbox) < 2 * CROWDED_BYTES_MAX)
        return;
    fixed.data_bytes = (outbox_room(outbox) - left) / 8 * 8 - (uint32_t)sizeof fixed;
    void *data = outbox_put_bare(outbox, RECORD_STREAM_DATA, &fixed);
    check(data);
}

static bool is_crowd(const struct record *record) {
    return record->kind == RECORD_STREAM_DATA &&
           ((const struct record_stream_data *)record)->connection.value == OPERATOR;
}

static void tell_client(struct world *world, const struct record *record) {
    uint64_t client = ((const struct record_stream_end *)record)->connection.value;
    if (client == OPERATOR) return;
    fleet_clients_hear(&world->clients, record);
    fleet_ledger_check(&world->ledger, &world->clients.clients[client]);
}

static void drain(struct world *world) {
    struct outbox *outbox = world->gateway_machine.outbox;
    for (const struct record *record = NULL; (record = outbox_next(outbox, record));) {
        check(record_valid(record, record->bytes));
        if (is_crowd(record)) continue;
        for (uint32_t i = 0; i < record->bytes; i++)
            world->report->digest =
                (world->report->digest ^ (uint8_t)((const char *)record)[i]) * 0x100000001B3u;
        if (record->kind == RECORD_TO_UNIT)
            carry(world, (const struct record_carried *)record);
        else if (record->kind == RECORD_CONSTRAIN)
            judge_constraint(world, record);
        else if (record->kind == RECORD_ENTRY)
            fleet_ledger_hear(&world->ledger, (const struct record_entry *)record, world->now_ns);
        else if (record->kind == RECORD_UNIT_TALLY)
            world->report->tallies++;
        else
            tell_client(world, record);
    }
    outbox_clear(outbox);
}

static void hand_over(struct world *world, const struct record *record) {
    struct machine *machine = &world->gateway_machine;
    enum status status = machine->receive(machine->self, record, world->now_ns);
    if (status == STATUS_OK) return;
    check(status == STATUS_FULL && machine->outbox->used > 0);
    drain(world);
    status = machine->receive(machine->self, record, world->now_ns);
    check(status == STATUS_OK);
}

/* An operator's wish: over the API, as any client's. */
static void ask_operator(struct world *world, const char *path, const char *body) {
    struct outbox box = {.memory = world->envelope, .capacity = RESULT_BYTES};
    char key[32] = "Bearer ";
    fleet_clients_key(0, key + strlen(key), sizeof key - strlen(key));
    if (!world->accounts.present) key[0] = 0;
    struct record_client_request fixed = {.connection = {OPERATOR},
                                          .method = HTTP_POST,
                                          .path_bytes = (uint32_t)strlen(path),
                                          .authorization_bytes = (uint32_t)strlen(key),
                                          .body_bytes = (uint32_t)strlen(body),
                                          .listener = HTTP_ADMIN};
    struct record_client_request *record = outbox_put(&box, RECORD_CLIENT_REQUEST, &fixed);
    memcpy(client_request_path(record), path, fixed.path_bytes);
    memcpy(client_request_authorization(record), key, fixed.authorization_bytes);
    memcpy(client_request_body(record), body, fixed.body_bytes);
    fleet_post_send(&world->inbox, world->now_ns, 0, &record->record);
}

void fleet_gateway_ask_drain(struct world *world, const struct fleet_unit_host *unit) {
    char body[64];
    format_text(body, sizeof body, "{\"unit\":%u}", unit->connection);
    ask_operator(world, "/debug/fleet/drain", body);
    world->report->drains++;
}

void fleet_gateway_ask_role(struct world *world, const struct fleet_unit_host *unit) {
    static const char *const names[UNIT_ROLE_COUNT] = {"both", "prefill", "decode"};
    char body[64];
    format_text(body, sizeof body, "{\"unit\":%u,\"role\":\"%s\"}", unit->connection,
                names[fleet_dice_below(&world->dice, UNIT_ROLE_COUNT)]);
    ask_operator(world, "/debug/fleet/role", body);
    world->report->roles++;
}

/* ---- clients ---- */

/* Others of its account are under way, and what they may come to is set aside. */
static void note_beside(struct world *world, struct fleet_client *client) {
    for (uint32_t i = 0; i + 1 < world->clients.count; i++) {
        struct fleet_client *other = &world->clients.clients[i];
        if (other->tenant != client->tenant || (other->ended && !other->gone)) continue;
        other->beside = client->beside = true;
    }
}

static void ask(struct world *world) {
    const struct record *asked = fleet_clients_ask(&world->clients);
    struct fleet_client *client = &world->clients.clients[world->clients.count - 1];
    client->asked_ns = world->now_ns;
    client->gateway_life = world->report->gateway_deaths;
    client->lacks =
        fleet_accounts_lack(&world->accounts, &world->ledger, &world->clients, client->tenant);
    note_beside(world, client);
    hand_over(world, asked);
    world->ask_ns = world->now_ns + fleet_dice_time(&world->dice, 0, 400 * FLEET_MS);
    if (world->ask_ns > ASKED_NS || world->clients.count == FLEET_CLIENTS_MAX)
        world->ask_ns = MACHINE_NEVER;
}

static void lose_client(struct world *world, struct fleet_client *client) {
    if (client->ended || client->gone) return;
    struct record_client_gone gone = {record_head(RECORD_CLIENT_GONE, sizeof gone),
                                      {client->number}};
    hand_over(world, &gone.record);
    drain(world); /* what was said before it left is lost, or arrives */
    client->gone = true;
    fleet_log_add(world->log, world->now_ns, "client goes", FLEET_LOG_NOWHERE, FLEET_LOG_NOWHERE,
                  client->number, 0);
}

/* One goes, or stops reading: then its host buffers what it is told, and gives it up a while later.
 */
static void leave(struct world *world) {
    struct fleet_clients *clients = &world->clients;
    world->leave_ns = world->now_ns + fleet_dice_time(&world->dice, 0, 3 * FLEET_SECOND);
    if (clients->count == 0) return;
    uint32_t last = clients->count < RECENT ? clients->count : RECENT;
    struct fleet_client *client =
        &clients->clients[clients->count - 1 - fleet_dice_below(&world->dice, last)];
    if (fleet_dice_below(&world->dice, 2) || world->stall_ns != MACHINE_NEVER) {
        lose_client(world, client);
    } else {
        world->stalled = client;
        world->stall_ns =
            world->now_ns + fleet_dice_time(&world->dice, FLEET_SECOND / 10, 10 * FLEET_SECOND);
    }
}

static void tell_accounts(struct world *world) {
    hand_over(world, fleet_accounts_tell(&world->accounts, &world->ledger, &world->clients,
                                         world->now_ns));
    if (world->accounts.tell_ns > ASKED_NS) world->accounts.tell_ns = MACHINE_NEVER;
}

static void give_up_stalled(struct world *world) {
    world->stall_ns = MACHINE_NEVER;
    lose_client(world, world->stalled);
}

/* ---- lives ---- */

void fleet_gateway_start(struct world *world) {
    struct arena arena;
    struct error error;
    fleet_accounts_settle(&world->accounts, &world->ledger, &world->clients);
    arena_over(&arena, world->gateway_memory, gateway_memory_bytes(world->gateway_options));
    enum status status = gateway_create(&arena, world->gateway_options, &world->gateway, &error);
    check(status == STATUS_OK);
    world->gateway_machine = gateway_machine(world->gateway);
    world->gateway_ns = MACHINE_NEVER;
    world->inbox.used = 0;
    fleet_log_add(world->log, world->now_ns, "gateway starts", FLEET_LOG_NOWHERE, FLEET_LOG_NOWHERE,
                  0, 0);
}

static void take_account(struct world *world) {
    world->report->losses += world->gateway->fleet.losses_total;
    world->report->resumed += world->gateway->resumed_total;
    world->report->handed_over += world->gateway->handed_over_total;
}

void fleet_gateway_kill(struct world *world) {
    struct fleet_clients *clients = &world->clients;
    take_account(world);
    world->gateway = NULL;
    world->gateway_ns =
        world->now_ns + fleet_dice_time(&world->dice, FLEET_SECOND / 10, 3 * FLEET_SECOND);
    for (uint32_t i = 0; i < clients->count; i++) {
        struct fleet_client *client = &clients->clients[i];
        if (client->ended || client->gone) continue;
        client->gone = client->abandoned = true;
    }
    for (uint32_t i = 0; i < world->unit_count; i++)
        if (world->units[i].up) fleet_units_cut(world, i, false);
    world->inbox.used = 0;
    fleet_ledger_forget(&world->ledger);
    world->report->gateway_deaths++;
    fleet_log_add(world->log, world->now_ns, "gateway dies", FLEET_LOG_NOWHERE, FLEET_LOG_NOWHERE,
                  0, 0);
}

void fleet_gateway_run(struct world *world) {
    const struct fleet_message *message;
    struct record_settled settled;
    if (world->gateway_ns <= world->now_ns) fleet_gateway_start(world);
    if (!world->gateway) return;
    if (fleet_ledger_run(&world->ledger, world->now_ns, &settled))
        hand_over(world, &settled.record);
    if (world->accounts.tell_ns <= world->now_ns) tell_accounts(world);
    if (world->ask_ns <= world->now_ns) ask(world);
    if (world->leave_ns <= world->now_ns) leave(world);
    if (world->stall_ns <= world->now_ns) give_up_stalled(world);
    while ((message = fleet_post_at(&world->inbox, 0)) && message->due_ns <= world->now_ns) {
        crowd(world);
        hand_over(world, &message->record);
        fleet_post_drop(&world->inbox, 0);
    }
    drain(world);
    world->gateway_machine.step(world->gateway_machine.self, world->now_ns);
    drain(world);
}

int64_t fleet_gateway_wake_ns(const struct world *world) {
    const struct machine *gateway = &world->gateway_machine;
    if (!world->gateway) return world->gateway_ns;
    int64_t wake_ns = min_i64(world->ask_ns, gateway->next_wake_ns(gateway->self));
    wake_ns = min_i64(wake_ns, min_i64(world->leave_ns, world->stall_ns));
    wake_ns = min_i64(wake_ns, world->accounts.tell_ns);
    wake_ns = min_i64(wake_ns, world->ledger.done_ns);
    return min_i64(wake_ns, fleet_post_next_ns(&world->inbox));
}

void fleet_gateway_audit(struct world *world) {
    const struct gateway *gateway = world->gateway;
    if (!gateway) return;
    gateway_audit(gateway);
    const char *wrong =
        fleet_accounts_audit(&world->accounts, &world->ledger, &world->clients, gateway);
    if (wrong) world_breach(world, wrong);
    if (gateway_queued_count(gateway) > gateway->options.requests_max ||
        gateway_held_count(gateway) > gateway->options.requests_max)
        world_breach(world, "the gateway's queue is longer than it may be");
}

/* Where nothing went wrong, all that units have counted stands in entries, and in the gateway's
 * books. */
static void judge_books(struct world *world) {
    struct unit_books entries = fleet_ledger_books(&world->ledger), books = {0}, counted = {0};
    if (world->options.faults) return;
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++) {
        const struct fleet_unit *unit = &world->gateway->fleet.units[i];
        books.made_tokens += unit->books.made_tokens;
        books.computed_tokens += unit->books.computed_tokens;
    }
    for (uint32_t i = 0; i < world->unit_count; i++) {
        const struct record_unit_load *load = (const void *)world->units[i].load;
        counted.made_tokens += load->totals.output_tokens;
        counted.computed_tokens += load->totals.prompt_tokens + load->totals.recomputed_tokens;
    }
    if (books.made_tokens != counted.made_tokens || entries.made_tokens != counted.made_tokens)
        world_breach(world, "units have made other tokens than entries say");
    if (books.computed_tokens != counted.computed_tokens ||
        entries.computed_tokens != counted.computed_tokens)
        world_breach(world, "units have computed other tokens than entries say");
}

void fleet_gateway_judge(struct world *world) {
    take_account(world);
    judge_books(world);
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (world->gateway->fleet.units[i].bound)
            world_breach(world, "a unit at rest has requests bound");
}

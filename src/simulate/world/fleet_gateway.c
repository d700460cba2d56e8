/* SPDX-License-Identifier: Apache-2.0
 * The hosts of gateways in virtual time, and their clients, which use any living gateway. If a
 * gateway dies, its clients receive nothing more. Units cancel its requests and connect to its
 * successor, which knows neither the requests nor the clients. The other gateways continue.
 */
#include <math.h>

#include "base/check.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/number.h"
#include "serving/gateway/gateway.h"
#include "serving/gateway/gateway_state.h"
#include "simulate/world/fleet_state.h"

#define ASKED_APART_NS (400 * FLEET_MS) /* longest time between two clients */
#define FLOODED_NS (100 * FLEET_MS)     /* the same if an account floods */
#define NIGHT 0.3                       /* with a manager: load at night over the load at noon */

enum { RECENT = 12 }; /* the client that disconnects is one of the last RECENT */

#define OPERATOR UINT32_MAX /* connection of operators, who ignore the responses */

#define CROWDED_OF 32           /* before one message in this many, the outbox is nearly full */
#define CROWDED_BYTES_MAX 20000 /* free bytes in it then */

static void fleet_gateway_forward(struct world *world, uint32_t index,
                                  const struct record_envelope *envelope) {
    for (uint32_t i = 0; i < world->unit_count; i++) {
        struct fleet_unit_host *unit = &world->units[i];
        struct fleet_gateway_link *link = &unit->links[index];
        struct record *inner = envelope_inner(envelope);
        if (!unit->up || link->connection != envelope->unit.value) continue;
        /* as if it had an account */
        if (inner->kind == RECORD_SUBMIT && !world->accounts.present) {
            struct record_submit *submit = (struct record_submit *)(void *)inner;
            uint64_t salt = fleet_clients_tenant(&world->clients, submit->request.low / 64);
            memcpy(submit->tenant.bytes, &salt, sizeof salt);
        }
        post_send(&unit->inbox, world_arrival_ns(world, &link->in_ns), link->connection, inner);
    }
}

/* Answers the check of a constraint. Clients here only use constraints that units can enforce. */
static void verify_constraint(struct world *world, struct fleet_gateway_host *host,
                              const struct record *record) {
    struct record_constrained verdict = {
        .record = record_head(RECORD_CONSTRAINED, sizeof verdict),
        .request = record_request(record),
        .verdict = CONSTRAINT_HOLDS,
    };
    post_send(&host->inbox, world->now_ns, 0, &verdict.record);
}

/* Sometimes fills the outbox of a gateway almost completely with records that are ignored. */
static void crowd(struct world *world, struct fleet_gateway_host *host) {
    struct outbox *outbox = host->machine.outbox;
    uint32_t left = (uint32_t)fleet_dice_time(&world->crowds, 0, CROWDED_BYTES_MAX);
    struct record_stream_data fixed = {.connection = {OPERATOR}};
    if (fleet_dice_below(&world->crowds, CROWDED_OF) || outbox_room(outbox) < 2 * CROWDED_BYTES_MAX)
        return;
    fixed.data_bytes = (outbox_room(outbox) - left) / 8 * 8 - (uint32_t)sizeof fixed;
    void *data = machine_outbox_put_bare(outbox, RECORD_STREAM_DATA, &fixed);
    check(data);
}

static bool is_crowd(const struct record *record) {
    return record->kind == RECORD_STREAM_DATA &&
           ((const struct record_stream_data *)record)->connection.value == OPERATOR;
}

static void notify_client(struct world *world, const struct record *record) {
    uint64_t client = ((const struct record_stream_end *)record)->connection.value;
    if (client == OPERATOR) return;
    fleet_clients_receive(&world->clients, record);
    fleet_ledger_check(&world->ledger, &world->clients.clients[client]);
}

static void take_entry(struct world *world, uint32_t index, const struct record_usage *entry) {
    fleet_ledger_receive(&world->ledger, index,
                         &world->accounts.reported[index].record->prices.others, entry,
                         world->now_ns);
}

static void verify_share(struct world *world, struct fleet_gateway_host *host,
                         const struct record *record) {
    const struct record *inner = envelope_inner((const struct record_envelope *)record);
    if (inner->kind != RECORD_SUBMIT) return;
    const char *wrong = fleet_shares_give(&host->shares, host->gateway,
                                          (const struct record_submit *)(const void *)inner);
    if (wrong) world_breach(world, wrong);
}

static void fleet_gateway_drain(struct world *world, uint32_t index) {
    struct fleet_gateway_host *host = &world->gateways[index];
    struct outbox *outbox = host->machine.outbox;
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));) {
        check(record_valid(record, record->bytes));
        if (is_crowd(record)) continue;
        world->report->digest = hash_bytes(world->report->digest, record, record->bytes);
        if (record->kind == RECORD_TO_UNIT) verify_share(world, host, record);
        if (record->kind == RECORD_TO_UNIT)
            fleet_gateway_forward(world, index, (const struct record_envelope *)record);
        else if (record->kind == RECORD_CONSTRAIN)
            verify_constraint(world, host, record);
        else if (record->kind == RECORD_USAGE)
            take_entry(world, index, (const struct record_usage *)record);
        else if (record->kind == RECORD_UNIT_TOTALS)
            fleet_ledger_totals(&world->ledger, index, (const struct record_unit_totals *)record);
        else
            notify_client(world, record);
    }
    machine_outbox_clear(outbox);
    fleet_shares_look(&host->shares, host->gateway);
}

static void fleet_gateway_hand_over(struct world *world, uint32_t index,
                                    const struct record *record) {
    struct fleet_gateway_host *host = &world->gateways[index];
    while (!machine_pass(&host->machine, record, world->now_ns))
        fleet_gateway_drain(world, index);
    fleet_shares_look(&host->shares, host->gateway);
}

/* Sends an operator's request over the API. */
static void ask_operator(struct world *world, uint32_t index, const char *path, const char *body) {
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
    struct record_client_request *record = machine_outbox_put(&box, RECORD_CLIENT_REQUEST, &fixed);
    memcpy(client_request_path(record), path, fixed.path_bytes);
    memcpy(client_request_authorization(record), key, fixed.authorization_bytes);
    memcpy(client_request_body(record), body, fixed.body_bytes);
    post_send(&world->gateways[index].inbox, world->now_ns, 0, &record->record);
}

void fleet_gateway_ask_drain(struct world *world, uint32_t gateway, uint32_t connection,
                             bool back) {
    char body[64];
    format_text(body, sizeof body, "{\"unit\":%u,\"back\":%s}", connection,
                back ? "true" : "false");
    ask_operator(world, gateway, "/debug/fleet/drain", body);
    world->report->drains += !back;
    world->report->undrains += back;
}

void fleet_gateway_ask_role(struct world *world, uint32_t gateway, uint32_t connection,
                            uint32_t role) {
    char body[64];
    format_text(body, sizeof body, "{\"unit\":%u,\"role\":\"%s\"}", connection,
                record_unit_role_name(role));
    ask_operator(world, gateway, "/debug/fleet/role", body);
    world->report->roles++;
}

/* ---- clients ---- */

/* Chooses a random living gateway. There must be at least one. */
static uint32_t choose_gateway(const struct world *world) {
    uint32_t living[FLEET_GATEWAYS_MAX], count = 0;
    for (uint32_t i = 0; i < world->gateway_count; i++)
        if (world->gateways[i].gateway) living[count++] = i;
    return living[fleet_clients_below(&world->clients, 60, count)];
}

/* Marks requests of the same account that run at the same time, because the highest cost of each is
 * reserved. */
static void note_other(struct world *world, struct fleet_client *client) {
    for (uint32_t i = 0; i + 1 < world->clients.count; i++) {
        struct fleet_client *other = &world->clients.clients[i];
        if (other->tenant != client->tenant || (other->ended && !other->gone)) continue;
        other->shares = client->shares = true;
    }
}

/* The longest time between two clients. With a manager it is shorter near noon. */
static int64_t apart_ns(const struct world *world) {
    int64_t most_ns = world->clients.flooder ? FLOODED_NS : ASKED_APART_NS;
    if (!world->managers.present) return most_ns;
    double noon = 0.5 - 0.5 * cos(2 * M_PI * (double)(world->now_ns % DAY_NS) / (double)DAY_NS);
    return (int64_t)((double)most_ns / (NIGHT + (1 - NIGHT) * noon));
}

static void fleet_gateway_ask(struct world *world) {
    uint32_t gateway = choose_gateway(world);
    const struct record *asked =
        fleet_clients_ask(&world->clients, fleet_ledger_unix_time(world->now_ns));
    struct fleet_client *client = &world->clients.clients[world->clients.count - 1];
    client->asked_ns = world->now_ns;
    client->gateway = gateway;
    client->gateway_life = world->ledger.writers[gateway].life;
    client->lacks = fleet_accounts_lack(&world->accounts, &world->ledger, &world->clients, gateway,
                                        client->tenant);
    note_other(world, client);
    fleet_gateway_hand_over(world, gateway, asked);
    world->ask_ns = world->now_ns + fleet_dice_time(&world->dice, 0, apart_ns(world));
    if (world->ask_ns > world->asked_ns || world->clients.count == FLEET_CLIENTS_MAX)
        world->ask_ns = MACHINE_NEVER;
}

static void lose_client(struct world *world, struct fleet_client *client) {
    if (client->ended || client->gone) return;
    struct record_client_gone gone = {record_head(RECORD_CLIENT_GONE, sizeof gone),
                                      {client->number}};
    fleet_gateway_hand_over(world, client->gateway, &gone.record);
    fleet_gateway_drain(world,
                        client->gateway); /* output sent before it left may arrive or be lost */
    client->gone = true;
    world_log(world, "client goes", FLEET_LOG_NOWHERE, FLEET_LOG_NOWHERE, client->number, 0);
}

/* Makes one client leave or stop reading. If it stops, its host buffers its output for a while and
 * then drops the client. */
static void fleet_gateway_leave(struct world *world) {
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

static void fleet_gateway_notify_accounts(struct world *world, uint32_t index) {
    struct fleet_reported *reported = &world->accounts.reported[index];
    fleet_gateway_hand_over(world, index,
                            fleet_accounts_report(&world->accounts, &world->ledger, &world->clients,
                                                  index, world->now_ns));
    if (reported->report_ns > world->asked_ns) reported->report_ns = MACHINE_NEVER;
}

static void give_up_stalled(struct world *world) {
    world->stall_ns = MACHINE_NEVER;
    lose_client(world, world->stalled);
}

/* ---- incarnations ---- */

void fleet_gateway_start(struct world *world, uint32_t index) {
    struct fleet_gateway_host *host = &world->gateways[index];
    struct gateway_options *options = world->gateway_options;
    struct arena arena;
    struct error error;
    fleet_ledger_begin(&world->ledger, index, world->gateway_lives++);
    if (world->accounts.present)
        options->accounts = fleet_accounts_read(&world->accounts, &world->ledger, &world->clients,
                                                index, world->now_ns);
    arena_over(&arena, host->memory, gateway_memory_bytes(options));
    enum status status = gateway_create(&arena, options, &host->gateway, &error);
    check(status == STATUS_OK);
    host->machine = gateway_machine(host->gateway);
    host->up_ns = MACHINE_NEVER;
    post_clear(&host->inbox);
    host->shares = (struct fleet_shares){.waiting_count = 0};
    world_log(world, "gateway starts", FLEET_LOG_NOWHERE, FLEET_LOG_NOWHERE, index,
              world->ledger.writers[index].life);
}

static void fleet_gateway_take_account(struct world *world, uint32_t index) {
    const struct gateway *gateway = world->gateways[index].gateway;
    world->report->losses += gateway->fleet.losses_total;
    world->report->resumed += gateway->resumed_total;
    world->report->handed_over += gateway->handed_over_total;
    world->report->compared += world->gateways[index].shares.compared;
}

void fleet_gateway_kill(struct world *world, uint32_t index) {
    struct fleet_gateway_host *host = &world->gateways[index];
    struct fleet_clients *clients = &world->clients;
    fleet_gateway_take_account(world, index);
    host->gateway = NULL;
    host->up_ns =
        world->now_ns + fleet_dice_time(&world->dice, FLEET_SECOND / 10, 3 * FLEET_SECOND);
    for (uint32_t i = 0; i < clients->count; i++) {
        struct fleet_client *client = &clients->clients[i];
        if (client->gateway != index || client->ended || client->gone) continue;
        client->gone = client->abandoned = true;
    }
    for (uint32_t i = 0; i < world->unit_count; i++)
        if (world->units[i].up) fleet_units_cut(world, i, index, false);
    post_clear(&host->inbox);
    fleet_ledger_forget(&world->ledger, index, clients);
    world->report->gateway_deaths++;
    world_log(world, "gateway dies", FLEET_LOG_NOWHERE, FLEET_LOG_NOWHERE, index, 0);
}

static bool any_lives(const struct world *world) {
    for (uint32_t i = 0; i < world->gateway_count; i++)
        if (world->gateways[i].gateway) return true;
    return false;
}

/* Sends the ledger's confirmations to the gateway. */
static void receive_ledger(struct world *world, uint32_t index) {
    struct record_committed committed;
    if (!world->gateways[index].gateway) return;
    if (fleet_ledger_run(&world->ledger, index, world->now_ns, &world->clients, &committed))
        fleet_gateway_hand_over(world, index, &committed.record);
    if (world->accounts.reported[index].report_ns <= world->now_ns)
        fleet_gateway_notify_accounts(world, index);
}

static void receive_units(struct world *world, uint32_t index) {
    struct fleet_gateway_host *host = &world->gateways[index];
    const struct post_message *message;
    if (!host->gateway) return;
    while ((message = post_at(&host->inbox, 0)) && message->due_ns <= world->now_ns) {
        crowd(world, host);
        fleet_gateway_hand_over(world, index, &message->record);
        post_drop(&host->inbox, 0);
    }
    fleet_gateway_drain(world, index);
    host->machine.step(host->machine.self, world->now_ns);
    fleet_gateway_drain(world, index);
}

void fleet_gateway_run(struct world *world) {
    for (uint32_t i = 0; i < world->gateway_count; i++) {
        if (world->gateways[i].up_ns <= world->now_ns) fleet_gateway_start(world, i);
        receive_ledger(world, i);
    }
    if (!any_lives(world)) return; /* new clients wait */
    if (world->ask_ns <= world->now_ns) fleet_gateway_ask(world);
    if (world->leave_ns <= world->now_ns) fleet_gateway_leave(world);
    if (world->stall_ns <= world->now_ns) give_up_stalled(world);
    for (uint32_t i = 0; i < world->gateway_count; i++)
        receive_units(world, i);
}

int64_t fleet_gateway_wake_ns(const struct world *world) {
    int64_t wake_ns = MACHINE_NEVER;
    for (uint32_t i = 0; i < world->gateway_count; i++) {
        const struct fleet_gateway_host *host = &world->gateways[i];
        if (!host->gateway) {
            wake_ns = min_i64(wake_ns, host->up_ns);
            continue;
        }
        wake_ns = min_i64(wake_ns, host->machine.next_wake_ns(host->machine.self));
        wake_ns = min_i64(wake_ns, world->accounts.reported[i].report_ns);
        wake_ns = min_i64(wake_ns, world->ledger.writers[i].done_ns);
        wake_ns = min_i64(wake_ns, post_next_ns(&host->inbox));
    }
    if (!any_lives(world)) return wake_ns;
    return min_i64(wake_ns, min_i64(world->ask_ns, min_i64(world->leave_ns, world->stall_ns)));
}

static void audit_one(struct world *world, uint32_t index) {
    const struct gateway *gateway = world->gateways[index].gateway;
    if (!gateway) return;
    gateway_audit(gateway);
    const char *wrong =
        fleet_accounts_audit(&world->accounts, &world->ledger, &world->clients, index, gateway);
    if (wrong) world_breach(world, wrong);
    if (gateway_queued_count(gateway) > gateway->options.requests_max ||
        gateway_held_count(gateway) > gateway->options.requests_max)
        world_breach(world, "a gateway's queue is longer than it may be");
}

void fleet_gateway_audit(struct world *world) {
    for (uint32_t i = 0; i < world->gateway_count; i++)
        audit_one(world, i);
}

/* ---- at the end ---- */

static struct unit_books books_of(const struct gateway *gateway) {
    struct unit_books sum = {0};
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++) {
        sum.made_tokens += gateway->fleet.units[i].books.made_tokens;
        sum.computed_tokens += gateway->fleet.units[i].books.computed_tokens;
    }
    return sum;
}

/* Checks, in runs without faults, that all the work counted by units is in usage records or in the
 * open books of gateways. */
static void verify_books(struct world *world) {
    struct unit_books entries = fleet_ledger_books(&world->ledger), books = {0}, counted = {0};
    /* the books of units that a manager has ended are gone */
    if (world->options.faults || world->managers.present) return;
    for (uint32_t i = 0; i < world->gateway_count; i++) {
        struct unit_books own = books_of(world->gateways[i].gateway);
        books.made_tokens += own.made_tokens;
        books.computed_tokens += own.computed_tokens;
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

/* Compares the totals of each unit with its own counters, as far as faults allow. */
static void verify_totals(struct world *world) {
    for (uint32_t i = 0; i < world->unit_count; i++) {
        const struct fleet_unit_host *unit = &world->units[i];
        const struct record_unit_hello *hello = (const void *)unit->hello;
        if (!unit->up) continue; /* no node runs this unit */
        const struct unit_counters *totals =
            &((const struct record_unit_load *)(const void *)unit->load)->totals;
        struct unit_books counted = {totals->output_tokens,
                                     totals->prompt_tokens + totals->recomputed_tokens};
        uint32_t lives = unit->gateways_found + world->gateway_lives - unit->gateway_lives;
        world->report->totals_match +=
            fleet_ledger_verify_unit(&world->ledger, hello->instance, &counted, lives);
    }
    if (world->ledger.breach[0]) world_breach(world, world->ledger.breach);
}

/* Checks that serving units are available to every gateway, no matter which one drained them and
 * called them back. */
static void verify_fleet(struct world *world, const struct fleet *fleet) {
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (fleet->units[i].bound) world_breach(world, "a unit at rest has requests bound");
    for (uint32_t i = 0; i < world->unit_count; i++) {
        const struct fleet_unit_host *unit = &world->units[i];
        for (uint32_t k = 0; k < world->gateway_count; k++) {
            uint32_t known = fleet_find(fleet, (struct unit_id){unit->links[k].connection});
            if (known != FLEET_NONE && !unit->draining && !fleet_accepts(fleet, known))
                world_breach(world, "a gateway gives nothing to a unit that serves");
        }
    }
}

void fleet_gateway_verify(struct world *world) {
    verify_books(world);
    verify_totals(world);
    for (uint32_t i = 0; i < world->gateway_count; i++) {
        fleet_gateway_take_account(world, i);
        verify_fleet(world, &world->gateways[i].gateway->fleet);
    }
}

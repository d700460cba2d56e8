/* SPDX-License-Identifier: Apache-2.0
 * The hosts of the simulator's gateways.
 */
#include "base/check.h"
#include "base/number.h"
#include "serving/policy/fair_queue.h"
#include "simulate/simulator/simulator_state.h"
#include "simulate/simulator/simulator_words.h"

#define POST_BYTES ((size_t)256 << 20) /* for records from units; little of it is touched */
#define BODY_BYTES_LEAST ((size_t)64 << 10)
#define TOKEN_TEXT 8     /* bytes of a token id in a body */
#define EXPECTED_LEAST 8 /* minimum of messages that are prefetched while one is received */

static struct gateway_options gateway_options(const struct simulator_options *options,
                                              const struct tokenizer *tokenizer) {
    size_t tokens = simulator_context_tokens(options);
    size_t body = options->through_api ? tokens * TOKEN_TEXT : 0;
    size_t outbox = 4 * (tokens * sizeof(uint32_t) + body) + ((size_t)4 << 20);
    return (struct gateway_options){
        .tokenizer = options->through_api ? NULL : tokenizer,
        .model_names = "twin",
        .version = "0",
        .sampling = {.top_p = 1},
        .requests_max = options->gateway_requests_max,
        .body_bytes_max = BODY_BYTES_LEAST + body,
        .inline_text_bytes = 1, /* every text is sent out to be tokenized */
        .outbox_bytes = outbox < RECORD_BYTES_MAX ? outbox : RECORD_BYTES_MAX,
        .prefix_blocks = options->prefix_blocks,
        /* Answers are sent whole, so no keep-alives are needed. */
        .keep_alive_ns = options->through_api ? 0 : INT64_MAX / 4,
    };
}

size_t simulator_gateways_bytes(const struct simulator_options *options) {
    static const char any;
    struct gateway_options own =
        gateway_options(options, (const struct tokenizer *)(const void *)&any);
    return options->gateways *
               (gateway_memory_bytes(&own) + sizeof(struct simulator_gateway) + POST_BYTES + 64) +
           simulator_words_bytes() + 64;
}

static enum status simulator_gateways_no_memory(struct error *error) {
    return error_set(error, STATUS_NO_MEMORY, "twin: no memory for the gateways");
}

enum status simulator_gateways_open(struct simulator_world *world, struct arena *arena,
                                    struct error *error) {
    uint32_t count = world->options->gateways;
    enum status status = simulator_words_open(arena, &world->tokenizer, error);
    world->gateways = arena_take_zeroed(arena, count * sizeof *world->gateways);
    if (!status && !world->gateways) return simulator_gateways_no_memory(error);
    struct gateway_options own = gateway_options(world->options, world->tokenizer);
    for (uint32_t i = 0; i < count && !status; i++) {
        struct simulator_gateway *gateway = &world->gateways[i];
        gateway->index = i;
        gateway->alarm = event_queue_alarm_of(SIMULATOR_EVENT_GATEWAY, i);
        status = gateway_create(arena, &own, &gateway->gateway, error);
        if (status) return status;
        gateway->machine = gateway_machine(gateway->gateway);
        if (!post_open(&gateway->inbox, arena, POST_BYTES))
            return simulator_gateways_no_memory(error);
    }
    return status;
}

/* ---- records to and from the machine ---- */

/* Sends a record to the unit with that connection. */
static void send_to_unit(struct simulator_world *world, uint32_t gateway, uint32_t connection,
                         const struct record *record) {
    struct simulator_unit *unit = &world->units[connection % world->unit_count];
    if (!unit->up || unit->connections[gateway] != connection) return;
    int64_t due_ns = world->now_ns + world->network_ns;
    post_send(&unit->inbox, due_ns, connection, record);
    simulator_wake(world, &unit->alarm, due_ns);
}

/* Sends the records of the machine. A prompt that it requested is delivered as soon as the outbox
 * is empty. */
static void simulator_gateways_drain(struct simulator_world *world,
                                     struct simulator_gateway *gateway) {
    struct outbox *outbox = gateway->machine.outbox;
    const struct record *wanted = NULL;
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));) {
        if (record->kind == RECORD_TO_UNIT) {
            const struct record_envelope *envelope = (const struct record_envelope *)record;
            send_to_unit(world, gateway->index, envelope->unit.value, envelope_inner(envelope));
        } else if (record->kind == RECORD_TOKENIZE) {
            check(!wanted);
            wanted = simulator_clients_tokenize(world, (const struct record_tokenize *)record);
        } else if (record_goes(record->kind, WAY_GATEWAY_TO_CLIENT)) {
            simulator_clients_receive(world, record);
        }
    }
    machine_outbox_clear(outbox);
    if (!wanted) return;
    simulator_note(world, wanted);
    check(machine_pass(&gateway->machine, wanted, world->now_ns)); /* because its outbox is empty */
    simulator_gateways_drain(world, gateway);
}

static void simulator_gateways_hand_over(struct simulator_world *world,
                                         struct simulator_gateway *gateway,
                                         const struct record *record) {
    simulator_note(world, record);
    while (!machine_pass(&gateway->machine, record, world->now_ns))
        simulator_gateways_drain(world, gateway);
}

void simulator_gateways_ask(struct simulator_world *world, struct simulator_gateway *gateway,
                            const struct record *request) {
    simulator_gateways_hand_over(world, gateway, request);
    simulator_gateways_drain(world, gateway);
    simulator_wake(world, &gateway->alarm, world->now_ns);
}

/* ---- records from units ---- */

void simulator_gateways_send(struct simulator_world *world, uint32_t index, uint32_t connection,
                             const struct record *record) {
    struct simulator_gateway *gateway = &world->gateways[index];
    int64_t due_ns = world->now_ns + world->network_ns;
    if (connection == 0) return;
    post_send_from_unit(&gateway->inbox, due_ns, connection, record);
    simulator_wake(world, &gateway->alarm, due_ns);
}

void simulator_gateways_report(struct simulator_world *world, uint32_t index, enum record_kind kind,
                               uint32_t connection) {
    struct simulator_gateway *gateway = &world->gateways[index];
    int64_t due_ns = world->now_ns + world->network_ns;
    post_send_link(&gateway->inbox, due_ns, connection, kind);
    simulator_wake(world, &gateway->alarm, due_ns);
}

/* ---- time ---- */

/* Lists the arrived messages from *at_io on, at most GATEWAY_PREFETCH_MAX. Returns their number. */
static uint32_t list_next(const struct simulator_world *world,
                          const struct simulator_gateway *gateway, size_t *at_io,
                          const struct record **records_out) {
    const struct post_message *message;
    uint32_t count = 0;
    for (; count < GATEWAY_PREFETCH_MAX; *at_io += message->bytes) {
        message = post_at(&gateway->inbox, *at_io);
        if (!message || message->due_ns > world->now_ns) break;
        records_out[count++] = &message->record;
    }
    return count;
}

/* Announces the messages from *ahead_io on, which are delivered next. Returns their number. */
static uint32_t simulator_gateways_expect(const struct simulator_world *world,
                                          const struct simulator_gateway *gateway,
                                          size_t *ahead_io) {
    const struct record *records[2 * GATEWAY_PREFETCH_MAX];
    uint32_t count = list_next(world, gateway, ahead_io, records);
    size_t behind = *ahead_io;
    for (uint32_t i = 0; i < count; i++)
        if (records[i]->kind == RECORD_FROM_UNIT)
            simulator_clients_prefetch(world,
                                       envelope_inner((const struct record_envelope *)records[i]));
    gateway_prefetch(gateway->gateway, records, count,
                     list_next(world, gateway, &behind, records + count));
    return count;
}

void simulator_gateways_run(struct simulator_world *world, struct simulator_gateway *gateway) {
    struct machine *machine = &gateway->machine;
    const struct post_message *message;
    size_t ahead = 0;      /* offset of the first message that is not announced yet */
    uint32_t expected = 0; /* number of announced messages that are not delivered yet */
    while ((message = post_at(&gateway->inbox, 0)) && message->due_ns <= world->now_ns) {
        if (expected <= EXPECTED_LEAST)
            expected += simulator_gateways_expect(world, gateway, &ahead);
        expected--;
        if (message->record.kind == RECORD_FROM_UNIT)
            simulator_clients_notice(
                world, envelope_inner((const struct record_envelope *)&message->record));
        simulator_gateways_hand_over(world, gateway, &message->record);
        ahead -= message->bytes;
        post_drop(&gateway->inbox, 0);
    }
    simulator_gateways_drain(world, gateway);
    machine->step(machine->self, world->now_ns);
    simulator_gateways_drain(world, gateway);
    simulator_wake(world, &gateway->alarm, machine->next_wake_ns(machine->self));
    simulator_wake(world, &gateway->alarm, post_next_ns(&gateway->inbox));
}

void simulator_gateways_verify(struct simulator_world *world) {
    for (uint32_t i = 0; i < world->options->gateways; i++) {
        gateway_audit(world->gateways[i].gateway);
        if (gateway_request_count(world->gateways[i].gateway))
            simulator_breach(world, "a gateway at rest holds requests");
    }
}

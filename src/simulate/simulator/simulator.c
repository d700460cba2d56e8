/* SPDX-License-Identifier: Apache-2.0
 * Virtual time advances from event to event.
 */
#include "simulate/simulator/simulator.h"

#include "base/check.h"
#include "base/number.h"
#include "contract/kv_block.h"
#include "simulate/simulator/simulator_state.h"
#include "simulate/simulator/simulator_words.h"

#define WAKES_AT_ONCE 100000 /* events at one time; more mean that a machine never rests */

/* ---- opening ---- */

static uint32_t events_max(const struct simulator_options *options) {
    return 32 * options->gateways * options->gateway_requests_max + (1u << 18);
}

size_t simulator_bytes(const struct simulator_options *options) {
    return sizeof(struct simulator_world) + event_queue_bytes(events_max(options)) +
           simulator_clients_bytes(options) + simulator_gateways_bytes(options) +
           simulator_units_bytes(options) + 4096;
}

static enum status simulator_out_of_range(struct error *error, const char *name) {
    return error_set(error, STATUS_INVALID, "twin: %s is out of range", name);
}

static enum status check_kind(const struct simulator_unit_kind *kind, struct error *error) {
    if (!kind->hardware) return simulator_out_of_range(error, "a unit's hardware");
    if (kind->ranks == 0 || kind->ranks > LIMIT_RANKS)
        return simulator_out_of_range(error, "ranks");
    if (kind->role >= UNIT_ROLE_COUNT) return simulator_out_of_range(error, "role");
    if (kind->overlap >= OVERLAP_KIND_COUNT) return simulator_out_of_range(error, "overlap");
    return STATUS_OK;
}

static enum status simulator_check_options(const struct simulator_options *options,
                                           struct error *error) {
    enum status status = STATUS_OK;
    if (options->gateways == 0) return simulator_out_of_range(error, "gateways");
    if (options->kind_count == 0 || options->kind_count > SIMULATOR_KINDS_MAX)
        return simulator_out_of_range(error, "kind_count");
    for (uint32_t i = 0; i < options->kind_count && !status; i++)
        status = check_kind(&options->kinds[i], error);
    if (status) return status;
    uint32_t units = simulator_unit_count(options);
    if (units == 0 || units > LIMIT_FLEET_UNITS)
        return simulator_out_of_range(error, "the number of units");
    for (uint32_t i = 0; i < options->kind_count; i++)
        if (options->kinds[i].kv_storage && options->storage_bytes > 0 &&
            !(options->kinds[i].hardware->storage_gbps > 0))
            return simulator_out_of_range(error, "the hardware's storage_gbps");
    const struct simulator_fault *wrong = simulator_faults_wrong(options);
    if (wrong)
        return error_set(error, STATUS_INVALID, "twin: a fault, %s, names what is not there",
                         wrong->kind < SIMULATOR_FAULT_KIND_COUNT
                             ? simulator_faults_name((enum simulator_fault_kind)wrong->kind)
                             : "of no known kind");
    if (options->model->vocab <= SIMULATOR_WORDS_FIRST)
        return simulator_out_of_range(error, "the vocabulary");
    if (options->sampled && options->sample_ns <= 0)
        return simulator_out_of_range(error, "sample_ns");
    return STATUS_OK;
}

static enum status simulator_open_world(struct simulator_world *world, struct arena *arena,
                                        struct error *error) {
    const struct simulator_options *options = world->options;
    const struct hardware *hardware = options->kinds[0].hardware;
    world->network_ns = (int64_t)(hardware->network_latency_us * 1000);
    world->request_ns = (int64_t)(hardware->request_us * 1000);
    world->token_ns = (int64_t)(hardware->token_us * 1000);
    world->block_bytes = KV_BLOCK_TOKENS * options->model->kv_bytes_per_token;
    world->end_ns = options->measure_ns ? options->warm_ns + options->measure_ns : MACHINE_NEVER;
    if (!event_queue_open(&world->events, arena, events_max(options)) ||
        !simulator_clients_open(world, arena))
        return error_set(error, STATUS_NO_MEMORY, "twin: no memory for the events");
    enum status status = simulator_gateways_open(world, arena, error);
    return status ? status : simulator_units_open(world, arena, error);
}

/* ---- a run ---- */

static void begin_counting(struct simulator_world *world) {
    simulator_units_begin(world);
    world->transfers.bytes = 0;
    world->storage.read_bytes = world->storage.written_bytes = 0;
    world->counts = true;
}

static void simulator_happen(struct simulator_world *world, const struct event *event) {
    struct simulator_unit *unit = &world->units[event->index];
    struct simulator_gateway *gateway = &world->gateways[event->index];
    const struct record *asked;
    switch ((enum simulator_event)event->kind) {
    case SIMULATOR_EVENT_UNIT:
        if (event_queue_alarm_rings(&unit->alarm, &world->events, world->now_ns))
            simulator_units_run(world, unit);
        break;
    case SIMULATOR_EVENT_GATEWAY:
        if (event_queue_alarm_rings(&gateway->alarm, &world->events, world->now_ns))
            simulator_gateways_run(world, gateway);
        break;
    case SIMULATOR_EVENT_ASK:
        asked = simulator_clients_ask(world, &gateway);
        simulator_gateways_ask(world, gateway, asked);
        simulator_clients_fetch(world);
        break;
    case SIMULATOR_EVENT_TRANSFER_OUT:
    case SIMULATOR_EVENT_TRANSFER_IN:
        simulator_units_end_transfer(world, event);
        break;
    case SIMULATOR_EVENT_STORAGE:
        simulator_units_end_job(world, event);
        break;
    case SIMULATOR_EVENT_FAULT:
        simulator_faults_happen(world, event);
        break;
    case SIMULATOR_EVENT_NOTICE:
        simulator_gateways_report(world, event->index, RECORD_UNIT_LOST, (uint32_t)event->stamp);
        break;
    case SIMULATOR_EVENT_WARM:
        begin_counting(world);
    }
}

/* True if no request is open or expected. Gateways may still have timers in the distant future. */
static bool rests(const struct simulator_world *world) {
    return world->end_ns == MACHINE_NEVER && !world->has_next &&
           world->free_count == world->client_max;
}

/* Calls `sampled` for each sample time up to now_ns, unless the fleet is idle. */
static void simulator_sample(struct simulator_world *world) {
    const struct simulator_options *options = world->options;
    struct simulator_sample sample = {.so_far = world->report,
                                      .open = world->client_max - world->free_count};
    if (!options->sampled || !world->counts) return;
    while (world->sample_ns <= world->now_ns) {
        sample.now_ns = world->sample_ns;
        simulator_units_sample(world, sample.pages_share);
        options->sampled(options->context, &sample);
        world->sample_ns += options->sample_ns;
        if (rests(world) && sample.now_ns >= world->rest_ns) world->sample_ns = MACHINE_NEVER;
    }
}

static void simulator_live(struct simulator_world *world) {
    struct event event;
    uint32_t at_once = 0;
    world->sample_ns = world->options->warm_ns + world->options->sample_ns;
    event_queue_add(&world->events, (struct event){.due_ns = world->options->warm_ns,
                                                   .kind = SIMULATOR_EVENT_WARM});
    simulator_faults_plan(world);
    simulator_clients_fetch(world);
    while (!world->report->breach[0] && event_queue_take(&world->events, &event)) {
        if (event.due_ns > world->end_ns) break;
        at_once = event.due_ns == world->now_ns ? at_once + 1 : 0;
        if (at_once > WAKES_AT_ONCE) simulator_breach(world, "a machine does not rest");
        world->now_ns = event.due_ns;
        simulator_sample(world);
        world->report->events++;
        simulator_happen(world, &event);
        if (world->options->enough && *world->options->enough) world->end_ns = world->now_ns;
    }
}

static void simulator_finish(struct simulator_world *world) {
    struct simulator_report *report = world->report;
    bool to_the_end = world->end_ns == MACHINE_NEVER;
    world->now_ns = to_the_end ? world->rest_ns : world->end_ns;
    simulator_sample(world);
    report->measured_s = (double)(world->now_ns - world->options->warm_ns) * 1e-9;
    if (report->measured_s < 0) report->measured_s = 0;
    report->transfer_bytes = world->transfers.bytes;
    report->storage_read_bytes = world->storage.read_bytes;
    report->storage_written_bytes = world->storage.written_bytes;
    simulator_units_count(world);
    if (!to_the_end || report->breach[0]) return;
    simulator_clients_verify(world);
    simulator_gateways_verify(world);
    simulator_units_verify(world);
}

enum status simulator_run(const struct simulator_options *options, struct arena *arena,
                          struct simulator_report *report_out, struct error *error) {
    *report_out = (struct simulator_report){.breach = ""};
    enum status status = simulator_check_options(options, error);
    if (status) return status;
    struct simulator_world *world = arena_take_zeroed(arena, sizeof *world);
    if (!world) return error_set(error, STATUS_NO_MEMORY, "twin: no memory");
    world->options = options;
    world->report = report_out;
    status = simulator_open_world(world, arena, error);
    if (!status) {
        simulator_live(world);
        simulator_finish(world);
    }
    if (world->tokenizer) simulator_words_close(world->tokenizer);
    return status;
}

enum status simulator_verify(const struct simulator_report *report, const char *what,
                             struct error *error) {
    if (!report->breach[0]) return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "%s breaks what must hold: %.200s", what,
                     report->breach);
}

/* SPDX-License-Identifier: Apache-2.0
 * Protects the keeper of a fleet's units: it merges its launcher's and its gateways' reports,
 * adopts units and keeps them in the book, reports to the manager only what it can see, and asks
 * each gateway that knows a unit.
 */

#include "serving/fleet/fleet_keeper.h"
#include "test_case.h"

#define S ((int64_t)1000000000)

static char memory[2 << 20];
static struct fleet_keeper *keeper;
static struct machine machine;
static struct fleet_book book;

static void open_keeper(uint32_t gateways) {
    struct scale_rule_side side = {
        .unit_rate = 100, .unit_nodes = 1, .least = 1, .most = 3, .group = 1};
    const struct fleet_keeper_options options = {
        .manager = {.rule = {.sides = {side, side}, .start_ns = S},
                    .calendar = {.period_ns = 86400 * S},
                    .nodes = 8,
                    .decide_ns = S,
                    .drain_ns_max = 60 * S,
                    .start_ns_max = 60 * S,
                    .starts_at_once = 8},
        .gateway_count = gateways,
        .list_delay_max_ns = S / 2,
        .wall_ns = 1000000 * S};
    struct arena arena;
    assert_true(fleet_keeper_bytes() <= sizeof memory);
    arena_over(&arena, memory, fleet_keeper_bytes());
    assert_int_equal(fleet_keeper_create(&arena, &options, &book, 0, &keeper), STATUS_OK);
    machine = fleet_keeper_machine(keeper);
}

static int open_empty(void **state) {
    (void)state;
    book = (struct fleet_book){.pinned = {SCALE_FREE, SCALE_FREE}};
    open_keeper(2);
    return 0;
}

static void receive(void *record, enum record_kind kind, int64_t now_ns) {
    record_set_head(record, kind);
    assert_true(record_valid(record, ((struct record *)record)->bytes));
    assert_int_equal(machine.receive(machine.self, record, now_ns), STATUS_OK);
}

/* The launcher has one job for each number that is not 0. */
static void jobs(int64_t now_ns, uint32_t a, uint32_t b) {
    struct {
        struct record_fleet_jobs fixed;
        struct launcher_job jobs[2];
    } record = {.fixed = {.responds = 1}};
    const uint32_t numbers[] = {a, b};
    for (uint32_t i = 0; i < 2; i++)
        if (numbers[i])
            record.jobs[record.fixed.job_count++] =
                (struct launcher_job){.number = numbers[i], .role = UNIT_DECODE};
    receive(&record, RECORD_FLEET_JOBS, now_ns);
}

static void gateway(int64_t now_ns, uint32_t index, struct fleet_gateway_unit unit) {
    struct {
        struct record_fleet_gateway fixed;
        struct fleet_gateway_unit units[1];
    } record = {.fixed = {.gateway = index, .responds = 1, .unit_count = unit.connection != 0},
                .units = {unit}};
    receive(&record, RECORD_FLEET_GATEWAY, now_ns);
}

static void silent_gateway(int64_t now_ns, uint32_t index) {
    struct record_fleet_gateway record = {.gateway = index};
    receive(&record, RECORD_FLEET_GATEWAY, now_ns);
}

/* The action on a unit in the outbox, the index-th; NULL: none. */
static const struct record_fleet_action *action_on(uint32_t number, uint32_t index) {
    for (const struct record *record = NULL;
         (record = machine_outbox_next(machine.outbox, record));) {
        const struct record_fleet_action *action = (const struct record_fleet_action *)record;
        if (record->kind == RECORD_FLEET_ACTION && action->number == number && index-- == 0)
            return action;
    }
    return NULL;
}

static struct managed_unit managed(uint32_t number) {
    struct managed_unit units[MANAGED_UNITS_MAX];
    uint32_t count = fleet_manager_units(fleet_keeper_manager(keeper), units);
    for (uint32_t i = 0; i < count; i++)
        if (units[i].number == number) return units[i];
    return (struct managed_unit){.state = MANAGED_NONE};
}

static void step(int64_t now_ns) {
    machine_outbox_clear(machine.outbox);
    machine.step(machine.self, now_ns);
}

static const struct fleet_gateway_unit nothing = {0};

TEST_AROUND(a_unit_is_what_the_gateway_says_that_would_use_it, open_empty, NULL) {
    struct fleet_gateway_unit unit = {.number = 5,
                                      .connection = 7,
                                      .role = UNIT_PREFILL,
                                      .observed_state = FLEET_UNIT_DRAINING,
                                      .requests = 2};
    jobs(S, 5, 0);
    gateway(S, 0, unit);
    unit.observed_state = FLEET_UNIT_SERVING;
    unit.requests = 3;
    gateway(S, 1, unit);
    step(S);
    assert_int_equal(managed(5).observed_state, FLEET_UNIT_SERVING);
    assert_int_equal(managed(5).role, UNIT_PREFILL);
    assert_int_equal(managed(5).requests, 5);
    assert_true(managed(5).stranded); /* no other unit serves */
}

TEST_AROUND(requests_count_on_while_a_gateway_does_not_answer, open_empty, NULL) {
    const struct fleet_gateway_unit unit = {.number = 5,
                                            .connection = 7,
                                            .role = UNIT_DECODE,
                                            .observed_state = FLEET_UNIT_SERVING,
                                            .requests = 2};
    jobs(S, 5, 0);
    gateway(S, 0, unit);
    gateway(S, 1, nothing);
    assert_true(fleet_keeper_has_load(keeper));
    silent_gateway(2 * S, 0);
    assert_false(fleet_keeper_has_load(keeper));
    step(2 * S);
    assert_int_equal(managed(5).requests, 2);
    assert_int_equal(managed(5).observed_state, FLEET_UNIT_STARTING); /* its launcher has it */
    gateway(3 * S, 0, nothing);
    step(3 * S);
    assert_int_equal(managed(5).requests, 0);
}

TEST_AROUND(a_unit_is_gone_when_its_launcher_had_the_time_to_show_it, open_empty, NULL) {
    jobs(S, 5, 0);
    step(S);
    jobs(S + S / 4, 0, 0);
    step(S + S / 4);
    assert_non_null(fleet_keeper_find(keeper, 5));
    jobs(S + S / 2, 0, 0);
    step(S + S / 2);
    assert_null(fleet_keeper_find(keeper, 5));
    const struct record_fleet_unit *gone =
        (const struct record_fleet_unit *)machine_outbox_next(machine.outbox, NULL);
    assert_int_equal(gone->record.kind, RECORD_FLEET_UNIT);
    assert_int_equal(gone->number, 5);
    assert_int_equal(gone->observed_state, FLEET_UNIT_GONE);
}

TEST_AROUND(a_launcher_that_does_not_answer_loses_nothing, open_empty, NULL) {
    struct record_fleet_jobs record = {.responds = 0};
    jobs(S, 5, 6);
    step(S);
    receive(&record, RECORD_FLEET_JOBS, 100 * S);
    step(100 * S);
    assert_non_null(fleet_keeper_find(keeper, 5));
    assert_non_null(fleet_keeper_find(keeper, 6));
}

TEST_AROUND(an_operators_drain_goes_to_each_gateway_that_knows_the_unit, open_empty, NULL) {
    struct fleet_gateway_unit unit = {
        .number = 5, .connection = 7, .role = UNIT_DECODE, .observed_state = FLEET_UNIT_SERVING};
    struct record_fleet_command command = {.kind = FLEET_COMMAND_DRAIN, .number = 5};
    jobs(S, 5, 0);
    gateway(S, 0, unit);
    unit.connection = 9;
    gateway(S, 1, unit);
    receive(&command, RECORD_FLEET_COMMAND,
            S); /* before any step: the manager learns of the unit first */
    step(S);
    for (uint32_t i = 0; i < 2; i++) {
        const struct record_fleet_action *action = action_on(5, i);
        assert_non_null(action);
        assert_int_equal(action->act, FLEET_ACT_DRAIN);
        assert_int_equal(action->gateway, i);
        assert_int_equal(action->connection, i ? 9 : 7);
    }
    assert_null(action_on(5, 2));
    fleet_keeper_book(keeper, &book);
    assert_true(book.units[0].drained_by_operator);
    open_keeper(2); /* the next manager */
    assert_true(fleet_keeper_find(keeper, 5)->drained_by_operator);
}

TEST_AROUND(a_role_of_both_counts_as_decode, open_empty, NULL) {
    gateway(
        S, 0,
        (struct fleet_gateway_unit){
            .number = 5, .connection = 7, .role = UNIT_BOTH, .observed_state = FLEET_UNIT_SERVING});
    gateway(S, 1, nothing);
    step(S);
    assert_int_equal(managed(5).role, UNIT_DECODE);
}

TEST_AROUND(a_start_is_in_the_book_and_a_failed_launch_is_forgotten, open_empty, NULL) {
    gateway(S, 0, nothing);
    gateway(S, 1, nothing);
    jobs(S, 0, 0);
    step(S);
    gateway(2 * S, 0, nothing);
    gateway(2 * S, 1, nothing);
    step(2 * S);
    fleet_keeper_book(keeper, &book);
    assert_true(book.count > 0);
    uint32_t number = book.units[0].number;
    assert_int_equal(action_on(number, 0)->act, FLEET_ACT_START);
    assert_int_equal(action_on(number, 0)->connection, 0);
    struct record_fleet_unit refused = {
        .number = number, .role = book.units[0].role, .observed_state = FLEET_UNIT_LAUNCH_FAILED};
    machine_outbox_clear(machine.outbox);
    receive(&refused, RECORD_FLEET_UNIT, 2 * S);
    assert_null(fleet_keeper_find(keeper, number));
    assert_int_equal(managed(number).state, MANAGED_NONE);
    fleet_keeper_book(keeper, &book);
    assert_true(book.last_number >= number); /* which is never given again */
}

TEST_AROUND(commands_beyond_what_can_be_acted_on_wait, open_empty, NULL) {
    struct record_fleet_command command = {.kind = FLEET_COMMAND_DRAIN, .number = 5};
    enum status status = STATUS_OK;
    jobs(S, 5, 0);
    gateway(S, 0,
            (struct fleet_gateway_unit){.number = 5,
                                        .connection = 7,
                                        .role = UNIT_DECODE,
                                        .observed_state = FLEET_UNIT_SERVING});
    step(S);
    record_set_head(&command, RECORD_FLEET_COMMAND);
    for (uint32_t i = 0; i < 4096 && !status; i++) {
        command.kind = i % 2 ? FLEET_COMMAND_RESUME : FLEET_COMMAND_DRAIN;
        status = machine.receive(machine.self, &command.record, S);
    }
    assert_int_equal(status, STATUS_FULL);
    step(S);
    assert_int_equal(machine.receive(machine.self, &command.record, S), STATUS_OK);
}

/* SPDX-License-Identifier: Apache-2.0
 * Protects clients from who sends many large requests: theirs pass them and find room, and a client
 * who is gone is not waited for.
 */
#include "host/request_turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"

#define KIB ((uint32_t)1 << 10)
#define MIB ((uint32_t)1 << 20)

static enum status put(struct request_turns *turns, uint64_t client, uint64_t connection,
                       uint32_t body_bytes) {
    struct record_client_request fixed = {.connection = {connection}, .body_bytes = body_bytes};
    struct record_client_request *request = calloc(1, record_bytes(RECORD_CLIENT_REQUEST, &fixed));
    assert_non_null(request);
    *request = fixed;
    record_set_head(request, RECORD_CLIENT_REQUEST);
    enum status status = request_turns_put(turns, client, request);
    free(request);
    return status;
}

/* The connection of the next one. */
static uint64_t give(struct request_turns *turns) {
    struct record_queue queue = {.bytes_max = 1};
    request_turns_give(turns, &queue);
    const struct record_client_request *request = (const void *)record_queue_first(&queue);
    uint64_t connection = request->connection.value;
    record_queue_clear(&queue);
    return connection;
}

static void a_flood_is_passed(void **state) {
    struct request_turns turns = {.bytes_max = 256 * (size_t)MIB};
    for (uint64_t i = 1; i <= 5; i++)
        assert_int_equal(put(&turns, 1, i, 8 * MIB), STATUS_OK);
    assert_int_equal(give(&turns), 1);
    assert_int_equal(put(&turns, 2, 20, 20 * KIB), STATUS_OK);
    assert_int_equal(give(&turns), 20);
    assert_int_equal(put(&turns, 2, 21, 8 * MIB), STATUS_OK);
    assert_int_equal(put(&turns, 2, 22, 8 * MIB), STATUS_OK);
    assert_int_equal(give(&turns), 2); /* in turn */
    assert_int_equal(give(&turns), 21);
    assert_int_equal(give(&turns), 3);
    assert_int_equal(give(&turns), 22);
    assert_int_equal(give(&turns), 4);
    assert_int_equal(give(&turns), 5);
    assert_false(request_turns_any(&turns));
    assert_int_equal(turns.bytes, 0);
}

static void nobody_waits_for_ever(void **state) {
    struct request_turns turns = {.bytes_max = 256 * (size_t)MIB};
    assert_int_equal(put(&turns, 1, 1, 8 * MIB), STATUS_OK);
    uint32_t passed = 0;
    do
        assert_int_equal(put(&turns, 2, 2, MIB), STATUS_OK);
    while (give(&turns) != 1 && ++passed < 100);
    assert_true(passed <= 8);
    request_turns_clear(&turns);
}

static void a_flood_does_not_take_all_room(void **state) {
    struct request_turns turns = {.bytes_max = 256 * (size_t)MIB};
    uint64_t count = 0;
    while (put(&turns, 1, count, 8 * MIB) == STATUS_OK)
        count++;
    assert_true(count >= 8 && count <= 16);
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(put(&turns, 2, 100 + i, MIB), STATUS_OK);
    request_turns_clear(&turns);
    assert_int_equal(turns.bytes, 0);
}

/* Those whom nobody knows are not one client. */
static void a_stranger_stands_for_himself(void **state) {
    struct request_turns turns = {.bytes_max = 256 * (size_t)MIB};
    for (uint64_t i = 1; i <= 12; i++)
        assert_int_equal(put(&turns, REQUEST_TURNS_NOBODY, i, 8 * MIB), STATUS_OK);
    assert_int_equal(put(&turns, REQUEST_TURNS_NOBODY, 13, MIB), STATUS_OK);
    assert_int_equal(give(&turns), 13);
    for (uint64_t i = 1; i <= 12; i++)
        assert_int_equal(give(&turns), i);
}

static void a_client_who_goes_takes_its_request_along(void **state) {
    struct request_turns turns = {.bytes_max = 256 * (size_t)MIB};
    for (uint64_t i = 1; i <= 3; i++)
        assert_int_equal(put(&turns, 1, i, MIB), STATUS_OK);
    assert_false(request_turns_drop(&turns, (struct connection_id){7}));
    assert_true(request_turns_drop(&turns, (struct connection_id){3}));
    assert_false(request_turns_drop(&turns, (struct connection_id){3}));
    assert_int_equal(put(&turns, 1, 4, MIB), STATUS_OK);
    assert_true(request_turns_drop(&turns, (struct connection_id){1}));
    assert_int_equal(give(&turns), 2);
    assert_int_equal(give(&turns), 4);
    assert_int_equal(turns.bytes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_is_passed),
        cmocka_unit_test(nobody_waits_for_ever),
        cmocka_unit_test(a_flood_does_not_take_all_room),
        cmocka_unit_test(a_stranger_stands_for_himself),
        cmocka_unit_test(a_client_who_goes_takes_its_request_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

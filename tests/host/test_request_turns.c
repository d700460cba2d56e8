/* SPDX-License-Identifier: Apache-2.0
 * Protects clients from one that sends many requests: the others' pass them and find room, a burst
 * of one client alone has all the room, and a request whose client has left is dropped.
 */
#include "host/request_turns.h"

#include "base/check.h"
#include "test_case.h"

#define KIB ((uint32_t)1 << 10)
#define MIB ((uint32_t)1 << 20)

static struct connection_id dropped; /* by the last put */

static enum status put(struct request_turns *turns, uint64_t client, uint64_t connection,
                       uint32_t body_bytes) {
    struct record_client_request fixed = {.connection = {connection}, .body_bytes = body_bytes};
    struct record_client_request *request = calloc(1, record_bytes(RECORD_CLIENT_REQUEST, &fixed));
    assert_non_null(request);
    *request = fixed;
    record_set_head(request, RECORD_CLIENT_REQUEST);
    enum status status = request_turns_put(turns, client, request, &dropped);
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

TEST(a_flood_is_passed) {
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
    request_turns_clear(&turns);
}

TEST(nobody_waits_for_ever) {
    struct request_turns turns = {.bytes_max = 256 * (size_t)MIB};
    assert_int_equal(put(&turns, 1, 1, 8 * MIB), STATUS_OK);
    uint32_t passed = 0;
    do
        assert_int_equal(put(&turns, 2, 2, MIB), STATUS_OK);
    while (give(&turns) != 1 && ++passed < 100);
    assert_true(passed <= 8);
    request_turns_clear(&turns);
}

/* Until it is in, or refused for good; counts those of others that made way. */
static enum status press_in(struct request_turns *turns, uint64_t client, uint64_t connection,
                            uint32_t body_bytes, uint32_t *dropped_count) {
    enum status status;
    while ((status = put(turns, client, connection, body_bytes)) && dropped.value)
        ++*dropped_count;
    return status;
}

TEST(one_client_alone_has_all_the_room) {
    struct request_turns turns = {.bytes_max = 64 * (size_t)MIB, .bytes_least = 16 * KIB};
    for (uint64_t i = 1; i <= 4096; i++)
        assert_int_equal(put(&turns, 1, i, KIB), STATUS_OK);
    assert_int_equal(put(&turns, 1, 4097, KIB), STATUS_FULL);
    assert_int_equal(dropped.value, 0);
    for (uint64_t i = 1; i <= 4096; i++)
        assert_int_equal(give(&turns), i);
    request_turns_clear(&turns);
}

/* The client with most waiting loses its last ones, down to what the others have. */
TEST(a_flood_makes_room_for_others) {
    struct request_turns turns = {.bytes_max = 64 * (size_t)KIB * 16, .bytes_least = 16 * KIB};
    uint32_t count = 0;
    for (uint64_t i = 1; i <= 64; i++)
        assert_int_equal(put(&turns, 1, i, KIB), STATUS_OK);
    assert_int_equal(put(&turns, 2, 100, KIB), STATUS_FULL);
    assert_int_equal(dropped.value, 64);
    assert_int_equal(put(&turns, 2, 100, KIB), STATUS_OK);
    for (uint64_t i = 101; i <= 131; i++)
        assert_int_equal(press_in(&turns, 2, i, KIB, &count), STATUS_OK);
    assert_int_equal(count, 31);
    assert_int_equal(put(&turns, 2, 132, KIB), STATUS_FULL); /* each has half */
    assert_int_equal(dropped.value, 0);
    assert_int_equal(press_in(&turns, 3, 200, KIB, &count), STATUS_OK);
    assert_int_equal(give(&turns), 1);
    assert_int_equal(give(&turns), 100);
    assert_int_equal(give(&turns), 200);
    assert_int_equal(give(&turns), 2);
    request_turns_clear(&turns);
    assert_int_equal(turns.bytes, 0);
}

TEST(small_ones_of_a_client_pass_its_large_ones) {
    struct request_turns turns = {.bytes_max = 256 * (size_t)MIB};
    for (uint64_t i = 1; i <= 12; i++)
        assert_int_equal(put(&turns, 1, i, 8 * MIB), STATUS_OK);
    assert_int_equal(put(&turns, 1, 13, MIB), STATUS_OK);
    assert_int_equal(give(&turns), 13);
    for (uint64_t i = 1; i <= 12; i++)
        assert_int_equal(give(&turns), i);
    request_turns_clear(&turns);
}

/* 4,000 small requests of one client wait: each other client's next one is served within a
 * round. */
TEST(clients_take_turns_with_small_requests) {
    struct request_turns turns = {.bytes_max = 128 * (size_t)MIB, .bytes_least = 16 * KIB};
    for (uint64_t i = 1; i <= 4000; i++)
        assert_int_equal(put(&turns, 1, i, (uint32_t)(i % 15) * KIB), STATUS_OK);
    for (uint64_t i = 0; i < 5; i++)
        (void)give(&turns);
    for (uint64_t client = 2; client <= 5; client++)
        assert_int_equal(put(&turns, client, 10000 + client, 8 * KIB), STATUS_OK);
    uint32_t of_others = 0;
    for (uint32_t i = 0; i < 6; i++)
        of_others += give(&turns) > 10000;
    assert_int_equal(of_others, 4);
    request_turns_clear(&turns);
}

TEST(a_client_who_goes_takes_its_request_along) {
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
    request_turns_clear(&turns);
}

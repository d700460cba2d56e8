/* SPDX-License-Identifier: Apache-2.0
 * Protects clients who ask properly from those who only hold places and memory: these leave first,
 * and nobody leaves who has just come or whose request is being worked on.
 */
#include "host/process/connection_eviction.h"

#include "base/check.h"
#include "test_case.h"

#define SECOND ((int64_t)1000000000)
#define NOW (1000 * SECOND)

static int64_t ago(int64_t seconds) {
    return NOW - seconds * SECOND;
}

TEST(bytes_pay_for_time) {
    size_t rate = EVICT_BYTES_PER_SECOND;
    assert_int_equal(connection_eviction_credit(ago(5), 0, NOW), ago(5));
    assert_int_equal(connection_eviction_credit(ago(5), rate, NOW), ago(4));
    assert_int_equal(connection_eviction_credit(ago(5), rate / 2, NOW), ago(5) + SECOND / 2);
    /* A burst pays for what was, not for what comes. */
    assert_int_equal(connection_eviction_credit(ago(5), 1 << 20, NOW), NOW);
    assert_int_equal(connection_eviction_credit(ago(5), SIZE_MAX, NOW), NOW);
    /* A byte a second for a minute is a minute of idling. */
    int64_t since = 0;
    for (int64_t second = 1; second <= 60; second++)
        since = connection_eviction_credit(since, 1, second * SECOND);
    assert_true(since < SECOND / 100);
    /* Bytes at the rate are no idling, in pieces that are late either. */
    since = 0;
    for (int64_t second = 3; second <= 60; second += 3)
        since = connection_eviction_credit(since, 3 * rate, second * SECOND);
    assert_int_equal(since, 60 * SECOND);
}

TEST(the_idlest_leaves) {
    struct evict_client clients[] = {{.idle_since_ns = EVICT_BUSY},
                                     {.idle_since_ns = ago(0)},
                                     {.idle_since_ns = ago(3)},
                                     {.idle_since_ns = ago(30), .body_bytes = 9},
                                     {.idle_since_ns = ago(9)}};
    assert_int_equal(connection_eviction_idlest(clients, 5, NOW), 3);
    assert_int_equal(connection_eviction_idlest(clients, 3, NOW), 2);
    clients[2].idle_since_ns = NOW - EVICT_IDLE_NS + 1; /* too young */
    assert_int_equal(connection_eviction_idlest(clients, 3, NOW), EVICT_NONE);
    clients[2].idle_since_ns--;
    assert_int_equal(connection_eviction_idlest(clients, 3, NOW), 2);
    assert_int_equal(connection_eviction_idlest(clients, 1, INT64_MAX), EVICT_NONE);
    assert_int_equal(connection_eviction_idlest(clients, 0, NOW), EVICT_NONE);
    clients[0].idle_since_ns = ago(40); /* the first place is like any other */
    assert_int_equal(connection_eviction_idlest(clients, 5, NOW), 0);
}

/* Others' idling is their own business, and what works is not counted. */
TEST(a_network_is_bound_by_its_own) {
    struct evict_client clients[] = {
        {.idle_since_ns = ago(90), .network = 8, .is_bound = true},
        {.idle_since_ns = ago(50), .network = 7, .is_bound = true},
        {.idle_since_ns = ago(60), .network = 7, .is_bound = true},
        {.idle_since_ns = ago(80), .network = 7}, /* sends a body, and has a key */
        {.idle_since_ns = EVICT_BUSY, .network = 7},
        {.idle_since_ns = ago(0), .network = 7, .is_bound = true}};
    assert_int_equal(connection_eviction_of_network(clients, 6, 7, 3, NOW), EVICT_NONE);
    assert_int_equal(connection_eviction_of_network(clients, 6, 7, 2, NOW), 2);
    assert_int_equal(connection_eviction_of_network(clients, 6, 8, 0, NOW), 0);
    assert_int_equal(connection_eviction_of_network(clients, 6, 9, 0, NOW), EVICT_NONE);
    clients[1].idle_since_ns = clients[2].idle_since_ns = ago(0); /* many come at once */
    assert_int_equal(connection_eviction_of_network(clients, 6, 7, 2, NOW), EVICT_NONE);
}

TEST(bodies_that_stand_still_give_way) {
    struct evict_client clients[] = {{.idle_since_ns = ago(90)},
                                     {.idle_since_ns = ago(0), .body_bytes = 8 << 20},
                                     {.idle_since_ns = ago(2), .body_bytes = 1},
                                     {.idle_since_ns = ago(4), .body_bytes = 4 << 20}};
    assert_int_equal(connection_eviction_body(clients, 4, EVICT_NONE, NOW), 3);
    assert_int_equal(connection_eviction_body(clients, 4, 3, NOW),
                     2); /* not the one that needs it */
    assert_int_equal(connection_eviction_body(clients, 2, EVICT_NONE, NOW), EVICT_NONE);
    clients[0].body_bytes = 1;
    assert_int_equal(connection_eviction_body(clients, 4, EVICT_NONE, NOW), 0);
}

TEST(answers_that_are_not_taken_give_way) {
    struct evict_client clients[] = {{.idle_since_ns = ago(90), .body_bytes = 1},
                                     {.idle_since_ns = EVICT_BUSY, .answer_bytes = 1},
                                     {.idle_since_ns = ago(2), .answer_bytes = 8 << 20},
                                     {.idle_since_ns = ago(3), .answer_bytes = 1},
                                     {.idle_since_ns = ago(0), .answer_bytes = 1}};
    assert_int_equal(connection_eviction_answer(clients, 5, EVICT_NONE, NOW), 3);
    assert_int_equal(connection_eviction_answer(clients, 5, 3, NOW),
                     2); /* not the one that comes */
    assert_int_equal(connection_eviction_answer(clients, 2, EVICT_NONE, NOW), EVICT_NONE);
}

TEST(small_bodies_find_room_when_large_ones_do_not) {
    const size_t all = (size_t)256 << 20, large = all - all / EVICT_SMALL_SHARE, mib = 1 << 20;
    assert_true(connection_eviction_has_room(0, all, 8 * mib, 8 * mib));
    assert_true(connection_eviction_has_room(large - mib, all, mib, 8 * mib));
    assert_false(connection_eviction_has_room(large - mib, all, mib + 1, 8 * mib));
    /* What counts is what it will be. */
    assert_false(connection_eviction_has_room(large, all, 1, EVICT_SMALL_BODY_BYTES + 1));
    assert_true(connection_eviction_has_room(large, all, 1, EVICT_SMALL_BODY_BYTES));
    assert_true(connection_eviction_has_room(all - 1, all, 1, 1));
    assert_false(connection_eviction_has_room(all, all, 1, 1));
}

TEST(networks_are_reported_apart) {
    static const uint8_t four[] = {192, 0, 2, 7}, next[] = {192, 0, 2, 8};
    static const uint8_t mapped[16] = {[10] = 0xFF, 0xFF, 192, 0, 2, 7};
    static const uint8_t six[16] = {0x20, 1, 0xD, 0xB8, 1, 2, 3, 4, 5};
    static const uint8_t same[16] = {0x20, 1, 0xD, 0xB8, 1, 2, 3, 4, 6};
    static const uint8_t other[16] = {0x20, 1, 0xD, 0xB8, 1, 2, 3, 5, 5};
    for (int i = 0; i < 8; i++) { /* each byte of a network counts, and each of an address */
        uint8_t far[16], away[4];
        memcpy(far, six, sizeof far);
        memcpy(away, four, sizeof away);
        far[i] ^= 0x80;
        away[i % 4] ^= 0x80;
        assert_true(connection_eviction_network(far, 16) != connection_eviction_network(six, 16));
        assert_true(connection_eviction_network(away, 4) != connection_eviction_network(four, 4));
    }
    assert_true(connection_eviction_network(four, 4) != connection_eviction_network(next, 4));
    assert_true(connection_eviction_network(four, 4) == connection_eviction_network(mapped, 16));
    assert_true(connection_eviction_network(six, 16) == connection_eviction_network(same, 16));
    assert_true(connection_eviction_network(six, 16) != connection_eviction_network(other, 16));
}

TEST(a_crowd_makes_way_for_others) {
    struct evict_client clients[] = {
        {.idle_since_ns = EVICT_BUSY, .owner = 7, .body_bytes = 1},
        {.idle_since_ns = ago(0), .owner = 8, .body_bytes = 6 << 20},
        {.idle_since_ns = ago(2), .owner = 7, .answer_bytes = 1},
        {.idle_since_ns = NOW - 5, .owner = 7, .body_bytes = 2},
        {.idle_since_ns = EVICT_BUSY}, /* a free place */
    };
    assert_int_equal(connection_eviction_of_crowd(clients, 5, EVICT_PLACES, 8), 3);
    assert_int_equal(connection_eviction_of_crowd(clients, 5, EVICT_PLACES, 9), 3);
    assert_int_equal(connection_eviction_of_crowd(clients, 5, EVICT_PLACES, 7), EVICT_NONE);
    assert_int_equal(connection_eviction_of_crowd(clients, 5, EVICT_BODIES, 7), 1);
    assert_int_equal(connection_eviction_of_crowd(clients, 5, EVICT_BODIES, 8), EVICT_NONE);
    clients[2].owner = 9; /* half is no crowd */
    assert_int_equal(connection_eviction_of_crowd(clients, 5, EVICT_PLACES, 9), EVICT_NONE);
    assert_int_equal(connection_eviction_of_crowd(clients, 1, EVICT_PLACES, 9), EVICT_NONE);
    assert_int_equal(connection_eviction_of_crowd(clients, 0, EVICT_PLACES, 9), EVICT_NONE);
}

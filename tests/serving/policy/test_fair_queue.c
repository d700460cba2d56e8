/* SPDX-License-Identifier: Apache-2.0
 * Turns at the tokenizer: a short text passes long ones, however many; a long one is done in time
 * whatever short ones come; clients who share get equal parts, however many texts each has; and
 * long texts never take the room of short ones. Turns at the units: a weight and a priority say
 * what share of them an account has.
 */
#include "serving/policy/fair_queue.h"

#include "base/check.h"
#include "base/random.h"
#include "test_case.h"

enum { TEXTS_MAX = 4096 };

static struct text {
    uint32_t client;
    size_t bytes;
    uint64_t turn;
    bool done;
} texts[TEXTS_MAX];
static uint32_t text_count;
static uint64_t now;
static uint32_t clients_max;

static void begin(void) {
    text_count = 0;
    now = clients_max = 0;
}

static uint32_t come(uint32_t client, size_t bytes) {
    uint64_t before = 0;
    for (uint32_t i = 0; i < text_count; i++)
        if (!texts[i].done && texts[i].client == client && texts[i].turn > before)
            before = texts[i].turn;
    check(text_count < TEXTS_MAX);
    texts[text_count] = (struct text){client, bytes, fair_queue_turn(now, before, bytes), false};
    return text_count++;
}

/* Serves the next one; TEXTS_MAX: nobody waits. */
static uint32_t serve(void) {
    uint32_t next = TEXTS_MAX, clients = 0;
    for (uint32_t i = 0; i < text_count; i++) {
        if (texts[i].done) continue;
        if (next == TEXTS_MAX || texts[i].turn < texts[next].turn) next = i;
        bool first = true;
        for (uint32_t k = 0; k < i; k++)
            first &= texts[k].done || texts[k].client != texts[i].client;
        clients += first;
    }
    if (next == TEXTS_MAX) return next;
    if (clients > clients_max) clients_max = clients;
    texts[next].done = true;
    now = fair_queue_after(now, texts[next].bytes, clients_max);
    return next;
}

TEST(a_short_text_passes_long_ones) {
    begin();
    for (uint32_t client = 0; client < 20; client++)
        come(client, 8 << 20);
    for (uint32_t served = 0; served < 19; served++) {
        serve();
        uint32_t small = come(100 + served, 20000);
        assert_int_equal(serve(), small);
    }
}

/* All that comes after a long text and passes it is shorter, and together it is no more than the
 * bytes of the long one for each client that asks. */
TEST(no_text_waits_for_ever) {
    for (uint32_t seed = 0; seed < 50; seed++) {
        begin();
        come(0, 20000);
        uint32_t clients = 1 + seed % 7, served = 0;
        size_t passed = 0, bytes = (size_t)1 << 19;
        uint32_t big = come(1000, bytes);
        while (!texts[big].done) {
            for (uint32_t c = 1; c <= clients; c++) /* each always has one that waits */
                come(c, 17000 + (size_t)(random_uniform(seed, served, c) * 40000));
            passed += texts[serve()].bytes;
            served++;
        }
        assert_true(passed <= (clients + 2) * (bytes + 60000));
    }
}

TEST(clients_have_equal_parts) {
    begin();
    size_t bytes[2] = {0, 0};
    for (uint32_t i = 0; i < 300; i++)
        come(0, 50000);
    for (uint32_t i = 0; i < 20; i++)
        come(1, 200000);
    for (uint32_t i = 0; i < 60; i++) {
        const struct text *text = &texts[serve()];
        bytes[text->client] += text->bytes;
    }
    assert_true(bytes[0] > 0 && bytes[1] > 0);
    size_t more = bytes[0] > bytes[1] ? bytes[0] - bytes[1] : bytes[1] - bytes[0];
    assert_true(more <= 250000);
}

TEST(long_texts_leave_room) {
    size_t room = (size_t)32 << 20, text = (size_t)8 << 20;
    assert_true(fair_queue_admits(text, 0, room)); /* the longest there is, into an empty one */
    size_t left = room;
    while (fair_queue_admits(text, 0, left))
        left -= text;
    assert_true(left >= text);
    for (text = (size_t)1 << 20; text >= 1 << 16; text /= 2) /* shorter ones always find some */
        assert_true(fair_queue_admits(text, 0, left));
    left = room;
    size_t own = 0; /* of one client */
    while (fair_queue_admits(100000, own, left))
        own += 100000, left -= 100000;
    assert_true(own <= room / 3 + 100000 && fair_queue_admits(100000, 0, left));
    assert_false(fair_queue_admits(SIZE_MAX, SIZE_MAX, left));
    assert_false(fair_queue_admits(1, SIZE_MAX, left));
    assert_false(fair_queue_admits(1, 0, 0));
}

TEST(half_of_the_room_is_a_client_s) {
    assert_true(fair_queue_admits(50, 0, 100));
    assert_false(fair_queue_admits(51, 0, 100));
    assert_true(fair_queue_admits(30, 20, 100));
    assert_false(fair_queue_admits(30, 21, 100));
}

/* Work is what a turn is made of: half of it is twice the share. */
TEST(a_weight_and_a_priority_are_shares) {
    uint64_t work = fair_queue_work(1000, 100, ACCOUNT_NORMAL) - 1;
    assert_in_range(work, 1000 * 65536 / 400 - 1, 1000 * 65536 / 400);
    assert_in_range(fair_queue_work(2000, 200, ACCOUNT_NORMAL), work, work + 1);
    assert_in_range(fair_queue_work(1000, 100, ACCOUNT_LOW), 4 * work, 4 * work + 4);
    assert_in_range(fair_queue_work(4000, 100, ACCOUNT_HIGH), work, work + 1);
    assert_int_equal(fair_queue_work(0, 1, ACCOUNT_LOW), 1); /* no turn stands still */
    assert_int_equal(fair_queue_after(7, 0, 3), 8);
}

/* ---- requests that wait for the gateway ---- */

TEST(clients_are_served_in_turn_and_their_shortest_first) {
    struct fair_queue_client clients[] = {{.start = 100}, {.start = 100}};
    struct fair_queue_item items[] = {
        {.client = 0, .turn = 50, .serial = 1, .bytes = 50},
        {.client = 0, .turn = 10, .serial = 2, .bytes = 10},
        {.client = 1, .turn = 20, .serial = 3, .bytes = 20},
        {.client = 1, .turn = 20, .serial = 4, .bytes = 20},
    };
    uint64_t turn;
    assert_int_equal(fair_queue_next(items, 4, clients, 2, &turn), 1);
    assert_int_equal(turn, 110);
    clients[0].start = turn; /* served */
    items[1] = items[3];
    assert_int_equal(fair_queue_next(items, 3, clients, 2, &turn), 2);
    assert_int_equal(turn, 120);
    clients[1].start = turn;
    assert_int_equal(items[2].serial, 3);
    items[2] = items[1];
    assert_int_equal(fair_queue_next(items, 2, clients, 2, &turn), 1);
    assert_int_equal(turn, 140);
    assert_int_equal(fair_queue_next(items, 1, clients, 2, &turn), 0);
    assert_int_equal(fair_queue_next(items, 0, clients, 2, &turn), FAIR_QUEUE_NONE);
}

TEST(the_longest_queue_loses_its_last) {
    struct fair_queue_client clients[] = {{.bytes = 60}, {.bytes = 30}, {.bytes = 0}};
    struct fair_queue_item items[] = {
        {.client = 0, .turn = 30, .serial = 1, .bytes = 30},
        {.client = 0, .turn = 30, .serial = 3, .bytes = 30},
        {.client = 1, .turn = 99, .serial = 4, .bytes = 30},
    };
    assert_int_equal(fair_queue_dropped(items, 3, clients, 3, 2, 10), 1);
    assert_int_equal(fair_queue_dropped(items, 3, clients, 3, 1, 10), 1);
    assert_int_equal(fair_queue_dropped(items, 3, clients, 3, 1, 30), FAIR_QUEUE_NONE);
    assert_int_equal(fair_queue_dropped(items, 3, clients, 3, 0, 1), FAIR_QUEUE_NONE);
    assert_int_equal(fair_queue_dropped(items, 0, clients, 3, 2, 70), FAIR_QUEUE_NONE);
}

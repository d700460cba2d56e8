/* SPDX-License-Identifier: Apache-2.0
 * Protects who asks for little from who asks for much, where nobody knows before what work takes.
 */

#include "serving/policy/share_time.h"
#include "test_case.h"

enum { CLIENTS = 3 };

/* Who of those that always have work is next; the lowest number among equals. */
static uint64_t next_of(const struct share_time *share, uint64_t clients) {
    uint64_t best = 0;
    for (uint64_t client = 1; client < clients; client++)
        if (share_time_turn(share, client) < share_time_turn(share, best)) best = client;
    return best;
}

TEST(all_get_the_same_time_whatever_their_work_takes) {
    static const int64_t takes[CLIENTS] = {1000000, 30000, 500};
    struct share_time share = {0};
    int64_t spent[CLIENTS] = {0};
    for (uint32_t i = 0; i < 100000; i++) {
        uint64_t client = next_of(&share, CLIENTS);
        spent[client] += takes[client];
        share_time_spend(&share, client, takes[client]);
    }
    assert_true(spent[0] - spent[1] <= takes[0] && spent[1] - spent[0] <= takes[0]);
    assert_true(spent[0] - spent[2] <= takes[0] && spent[2] - spent[0] <= takes[0]);
}

/* A small one that comes at any time is next, as long as its client has had less. */
TEST(who_comes_with_little_is_next) {
    struct share_time share = {0};
    for (uint32_t i = 0; i < 50; i++) {
        share_time_spend(&share, 7, 1000000000);
        for (uint32_t small = 0; small < 20; small++) {
            assert_true(share_time_turn(&share, 8) < share_time_turn(&share, 7));
            share_time_spend(&share, 8, 1000000);
        }
    }
}

/* Who was idle for long has saved nothing: it does not keep the others away afterwards. */
TEST(nobody_saves_turns) {
    struct share_time share = {0};
    for (uint32_t i = 0; i < 1000; i++)
        share_time_spend(&share, 1, 1000000000);
    share_time_spend(&share, 2, 2000000000);
    share_time_spend(&share, 2, 1000000000);
    assert_true(share_time_turn(&share, 1) < share_time_turn(&share, 2));
}

/* More clients than are remembered: the table is full and nobody gets all of the time. */
TEST(more_clients_than_are_remembered_take_turns) {
    static int64_t spent[2 * SHARE_TIME_CLIENTS];
    struct share_time share = {0};
    for (uint32_t i = 0; i < 20 * 2 * SHARE_TIME_CLIENTS; i++) {
        uint64_t client = next_of(&share, 2 * SHARE_TIME_CLIENTS);
        spent[client] += 1000;
        share_time_spend(&share, client, 1000);
        assert_true(share.count <= SHARE_TIME_CLIENTS);
        for (uint32_t k = 0; k < share.count; k++)
            assert_true(share.ahead[k].turn > share.now);
    }
    uint32_t served = 0;
    for (uint32_t i = 0; i < 2 * SHARE_TIME_CLIENTS; i++)
        served += spent[i] > 0;
    assert_true(served > SHARE_TIME_CLIENTS / 2);
}

/* A clock that goes back, or work of no time, is work all the same. */
TEST(work_that_took_no_time_passes_the_turn_on) {
    struct share_time share = {0};
    share_time_spend(&share, 1, -5);
    assert_true(share_time_turn(&share, 2) < share_time_turn(&share, 1));
    share_time_spend(&share, 2, 0);
    assert_true(share_time_turn(&share, 1) <= share_time_turn(&share, 2));
}

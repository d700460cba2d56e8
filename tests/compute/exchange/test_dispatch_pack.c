/* SPDX-License-Identifier: Apache-2.0
 * Protects how a list of tokens is packed for peers. Each peer gets its pairs, and each of its
 * tokens' rows once. Pairs of a sum stay marked if one other peer has all of them. All results have
 * distinct rows, peer after peer.
 */
#include "test_case.h"

#include "base/bytes.h"
#include "compute/exchange/dispatch_pack.h"
#include "compute/exchange/exchange.h"

#define ROW 16u
#define J DISPATCH_SAME_SUM

/* Three peers of four slots each; two tokens of four pairs. */
static const uint32_t slots[8] = {0, 5, 7 | J, 9, 8, 9 | J, 1, 4 | J};
static const float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};
static const char rows[2 * ROW] = "the first row  \0the second row ";

static char out[1024] __attribute__((aligned(DISPATCH_ALIGN)));
static char own[1024] __attribute__((aligned(DISPATCH_ALIGN)));
static struct dispatch_peer peers[3];
static uint32_t own_row[2], token_rows[8];

static struct dispatch_pack forward_tokens(bool forwards_own, uint32_t own_peer,
                                           uint32_t *returned_out) {
    const struct dispatch_tokens list = {
        .tokens = 2, .each = 4, .slot = slots, .weight = weights, .rows = rows};
    struct dispatch_pack pack = {.peer_count = 3,
                                 .slots_each = 4,
                                 .own = own_peer,
                                 .row_bytes = ROW,
                                 .has_weights = true,
                                 .forwards_own = forwards_own,
                                 .peers = peers,
                                 .own_row = own_row};
    *returned_out = dispatch_pack_count(&pack, &list, 10);
    assert_true(dispatch_pack_fill(&pack, &list, out, own, token_rows) <= sizeof out);
    return pack;
}

TEST(each_peer_gets_its_pairs_and_each_row_once) {
    uint32_t returned;
    forward_tokens(false, 0, &returned);
    const struct dispatch_message *one = &peers[1].out, *two = &peers[2].out;
    assert_int_equal(one->tokens, 2);
    assert_int_equal(one->pairs, 3);
    assert_true(one->count[0] == 2 && one->count[1] == 1);
    assert_true(one->slot[0] == 1 && one->slot[1] == (3 | J)); /* they go together */
    assert_int_equal(one->slot[2], 0);                         /* its sum's other part does not */
    assert_true(one->weight[0] == 2 && one->weight[1] == 3 && one->weight[2] == 8);
    assert_memory_equal(one->rows, rows, 2 * ROW);
    assert_true(two->tokens == 2 && two->pairs == 3);
    assert_true(two->slot[1] == 0 && two->slot[2] == (1 | J));
    assert_true(peers[0].tokens == 2 && own_row[0] == 0 && own_row[1] == 1);
}

static void expect_alike(const struct dispatch_message *one, const struct dispatch_message *two) {
    assert_true(one->tokens == two->tokens && one->pairs == two->pairs);
    assert_memory_equal(one->count, two->count, one->tokens * sizeof *one->count);
    assert_memory_equal(one->slot, two->slot, one->pairs * sizeof *one->slot);
    assert_memory_equal(one->weight, two->weight, one->pairs * sizeof *one->weight);
    assert_memory_equal(one->rows, two->rows, one->tokens * ROW);
}

/* As where the peer's memory is at hand: no more than a head is sent, and the rest lies there. */
TEST(what_a_peer_can_be_given_in_place_is_not_sent) {
    static char there[1024] __attribute__((aligned(DISPATCH_ALIGN)));
    const struct dispatch_tokens list = {
        .tokens = 2, .each = 4, .slot = slots, .weight = weights, .rows = rows};
    struct dispatch_pack pack = {.peer_count = 3,
                                 .slots_each = 4,
                                 .row_bytes = ROW,
                                 .has_weights = true,
                                 .from = {.name = 77},
                                 .peers = peers,
                                 .own_row = own_row};
    struct dispatch_message sent[3];
    memset(there, 0xEE, sizeof there);
    dispatch_pack_count(&pack, &list, 10);
    size_t all_bytes = dispatch_pack_fill(&pack, &list, out, own, token_rows);
    for (uint32_t i = 0; i < 3; i++)
        sent[i] = peers[i].out;
    assert_int_equal(peers[2].head_bytes, sent[2].bytes);
    dispatch_pack_count(&pack, &list, 10);
    peers[2].target = there;
    char *before = out + 512;
    assert_int_equal(dispatch_pack_fill(&pack, &list, before, own, token_rows),
                     all_bytes - round_up(sent[2].bytes, DISPATCH_ALIGN) + DISPATCH_ALIGN);
    assert_int_equal(peers[2].head_bytes, sizeof(struct dispatch_header));
    assert_true(peers[2].head->tokens == 2 && peers[2].head->pairs == 3);
    assert_int_equal(peers[2].head->from.name, 77);
    assert_int_equal(peers[2].out.bytes, sent[2].bytes);
    assert_true(peers[2].out.count == (uint32_t *)(void *)(there + sizeof(struct dispatch_header)));
    expect_alike(&peers[2].out, &sent[2]);
    for (size_t i = 0; i < sizeof(struct dispatch_header); i++)
        assert_int_equal((unsigned char)there[i], 0xEE); /* the head comes by message alone */
    expect_alike(&peers[1].out, &sent[1]);
}

TEST(results_have_rows_of_their_own_or_are_summed) {
    static const uint32_t wanted[8] = {10, 12, EXCHANGE_SUMMED, 14, 15, EXCHANGE_SUMMED, 11, 13};
    uint32_t returned;
    forward_tokens(false, 0, &returned);
    assert_int_equal(returned, 6);
    assert_memory_equal(token_rows, wanted, sizeof wanted);
}

TEST(what_is_ones_own_is_joined_only_if_it_goes_on) {
    uint32_t returned;
    forward_tokens(false, 2, &returned);
    assert_int_equal(returned, 7);
    assert_false(peers[2].out.slot[2] & J);
    forward_tokens(true, 2, &returned);
    assert_int_equal(returned, 4);
    assert_true(peers[2].out.slot[2] & J);
    assert_true(token_rows[3] == DISPATCH_OWN_ROW && token_rows[4] == DISPATCH_OWN_ROW &&
                token_rows[5] == DISPATCH_OWN_ROW);
    assert_true(token_rows[2] == EXCHANGE_SUMMED);
}

TEST(a_message_can_be_dealt_again) {
    static char again[1024] __attribute__((aligned(DISPATCH_ALIGN)));
    uint32_t returned;
    forward_tokens(true, 2, &returned);
    const struct dispatch_message *kept = &peers[2].out;
    const struct dispatch_tokens list = {.tokens = kept->tokens,
                                         .count = kept->count,
                                         .slot = kept->slot,
                                         .weight = kept->weight,
                                         .rows = rows,
                                         .row = (const uint32_t[]){own_row[0], own_row[1]}};
    struct dispatch_peer places[2];
    struct dispatch_pack pack = {.peer_count = 2,
                                 .slots_each = 2,
                                 .row_bytes = ROW,
                                 .has_weights = true,
                                 .peers = places,
                                 .own_row = own_row};
    assert_int_equal(dispatch_pack_count(&pack, &list, 0), 3);
    assert_true(dispatch_pack_fill(&pack, &list, out, again, token_rows) <= sizeof out);
    assert_true(places[0].pairs == 3 && places[1].pairs == 0); /* slots 8 and 9 are one place's */
    assert_true(own_row[0] == 0 && own_row[1] == 1);
}

#define MANY DISPATCH_EXPERT_BATCH_PAIRS

/* Token after token to slots 0 to 3 of peer 1, in turn; `each` pairs of a token, which are one sum
 * with what is in the last slot. */
static void deal_many(uint32_t tokens, bool sums, uint32_t *rows_out) {
    static uint32_t many[2 * MANY];
    static float ones[2 * MANY];
    static char many_rows[MANY * ROW], room[MANY * (ROW + 20) + 4 * DISPATCH_ALIGN];
    static uint32_t own_rows[MANY];
    uint32_t each = sums ? 2 : 1;
    for (uint32_t i = 0; i < tokens; i++) {
        many[each * i] = 4 + (sums ? i % 3 : i % 4);
        if (sums) many[each * i + 1] = 7 | J;
    }
    const struct dispatch_tokens list = {
        .tokens = tokens, .each = each, .slot = many, .weight = ones, .rows = many_rows};
    struct dispatch_pack pack = {.peer_count = 3,
                                 .slots_each = 4,
                                 .row_bytes = ROW,
                                 .has_weights = true,
                                 .in_expert_batches = true,
                                 .peers = peers,
                                 .own_row = own_rows};
    assert_int_equal(dispatch_pack_count(&pack, &list, 10), tokens);
    assert_true(dispatch_pack_fill(&pack, &list, room, own, rows_out) <= sizeof room);
}

/* Both sides take a message's results in the same order: by the wave of their slots. */
TEST(results_of_many_pairs_come_back_by_waves) {
    uint32_t got[2 * MANY];
    deal_many(MANY, false, got);
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(got[i], 10 + i % 4 * (MANY / 4) + i / 4);
    for (uint32_t expert_batch = 0; expert_batch < EXCHANGE_EXPERT_BATCHES; expert_batch++)
        assert_int_equal(peers[1].expert_batch_returns[expert_batch],
                         MANY / EXCHANGE_EXPERT_BATCHES);
}

TEST(few_come_back_at_once_and_sums_with_their_last_slot) {
    uint32_t got[2 * MANY];
    deal_many(MANY - 1, false, got);
    assert_int_equal(peers[1].expert_batch_returns[EXCHANGE_EXPERT_BATCHES - 1], MANY - 1);
    for (uint32_t i = 0; i < MANY - 1; i++)
        assert_int_equal(got[i], 10 + i);
    deal_many(MANY, true, got);
    assert_int_equal(peers[1].expert_batch_returns[EXCHANGE_EXPERT_BATCHES - 1], MANY);
    assert_int_equal(peers[1].expert_batch_returns[0], 0);
}

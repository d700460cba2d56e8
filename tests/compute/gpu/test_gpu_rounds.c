/* SPDX-License-Identifier: Apache-2.0
 * Protects how ranks divide rows into rounds. For any choices of experts, a sender's chunk of a
 * round is what the receiver expects in that round, pair by pair and row by row; no chunk exceeds
 * its limit; and all pairs are sent once. With two levels a rank that forwards another rank's rows
 * cuts the same chunks as that rank.
 */
#include "test_case.h"

#include "compute/exchange/exchange.h"
#include "compute/gpu/gpu_rounds.h"

enum { RANKS = 4, SLOTS_EACH = 5, PER_TOKEN = 4, TOKENS = 60, PAIRS = TOKENS * PER_TOKEN };
enum { FIRST_ROW = 8, ROWS_MAX = FIRST_ROW + TOKENS };

static uint32_t dice = 1;
static uint32_t draw(uint32_t below) {
    dice = dice * 1664525 + 1013904223;
    return (dice >> 8) % below;
}

static struct {
    struct gpu_rounds rounds;
    uint32_t tokens, slots[PAIRS], node_ranks[PAIRS];
} ranks[RANKS];

static void open_ranks(uint32_t chunk_pairs) {
    struct error error;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        ranks[rank].rounds = (struct gpu_rounds){.ranks = RANKS,
                                                 .slots_each = SLOTS_EACH,
                                                 .rows_max = ROWS_MAX,
                                                 .chunk_pairs = chunk_pairs};
        assert_int_equal(gpu_rounds_open(&ranks[rank].rounds, PAIRS, &error), STATUS_OK);
    }
}

static void close_ranks(void) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
        gpu_rounds_close(&ranks[rank].rounds);
}

/* Distinct slots for each token; some ranks choose from few, so that most goes to one rank. */
static void draw_choices(uint32_t rank) {
    uint32_t among = draw(3) ? RANKS * SLOTS_EACH : SLOTS_EACH;
    ranks[rank].tokens = draw(TOKENS + 1);
    for (uint32_t token = 0; token < ranks[rank].tokens; token++)
        for (uint32_t k = 0; k < PER_TOKEN; k++) {
            uint32_t *of = &ranks[rank].slots[token * PER_TOKEN], slot;
            bool again;
            do {
                slot = draw(among);
                again = false;
                for (uint32_t i = 0; i < k; i++)
                    again |= of[i] == slot;
            } while (again);
            of[k] = slot;
        }
    gpu_rounds_sort(&ranks[rank].rounds, ranks[rank].slots, ranks[rank].tokens * PER_TOKEN,
                    ranks[rank].node_ranks);
}

/* What came to a rank, as an exchange says it: slot by slot, in a slot rank by rank, then by
 * token. */
static uint32_t list_received(uint32_t own, uint32_t *senders, uint32_t *pairs) {
    uint32_t count = 0;
    for (uint32_t slot = own * SLOTS_EACH; slot < (own + 1) * SLOTS_EACH; slot++)
        for (uint32_t sender = 0; sender < RANKS; sender++)
            for (uint32_t pair = 0; pair < ranks[sender].tokens * PER_TOKEN; pair++)
                if (ranks[sender].slots[pair] == slot) {
                    senders[count] = sender;
                    pairs[count++] = pair;
                }
    return count;
}

/* What one rank gives another in a round, and what that takes; returns its pairs. */
static uint32_t expect_alike(uint32_t from, uint32_t to, uint32_t round) {
    static uint32_t senders[RANKS * PAIRS], pairs[RANKS * PAIRS];
    struct gpu_rounds *gives = &ranks[from].rounds, *takes = &ranks[to].rounds;
    uint32_t received = list_received(to, senders, pairs), first = 0, rows[PAIRS], number;
    gpu_rounds_begin(gives, round);
    uint32_t given = gpu_rounds_to_send(gives, to, &first);
    assert_true(given <= gives->chunk_pairs);
    for (uint32_t i = 0; i < given; i++) {
        uint32_t row = FIRST_ROW + gives->pair_at[first + i] / PER_TOKEN;
        if (gpu_rounds_row(gives, to, row, &number)) rows[number] = row;
    }
    gpu_rounds_begin(takes, round);
    for (uint32_t i = 0; i < received; i++) {
        uint32_t row = FIRST_ROW + pairs[i] / PER_TOKEN;
        uint32_t place = gpu_rounds_receive(takes, senders[i]);
        if (place == UINT32_MAX) continue;
        gpu_rounds_row(takes, senders[i], row, &number);
        if (senders[i] != from) continue;
        assert_int_equal(gives->pair_at[first + place], pairs[i]);
        assert_int_equal(rows[number], row);
    }
    assert_int_equal(takes->pairs[from], given);
    assert_int_equal(takes->rows[from], gives->rows[to]);
    return given;
}

TEST(both_sides_cut_alike) {
    static const uint32_t sizes[] = {1, 3, 16, 37, PAIRS};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        open_ranks(sizes[i]);
        for (uint32_t times = 0; times < 6; times++) {
            for (uint32_t rank = 0; rank < RANKS; rank++)
                draw_choices(rank);
            for (uint32_t from = 0; from < RANKS; from++) {
                uint32_t all = 0;
                struct gpu_rounds *rounds = &ranks[from].rounds;
                uint32_t count = gpu_rounds_count(rounds, gpu_rounds_most_pairs(rounds));
                for (uint32_t to = 0; to < RANKS; to++)
                    for (uint32_t round = 0; round < count; round++)
                        all += expect_alike(from, to, round);
                assert_int_equal(all, ranks[from].tokens * PER_TOKEN);
            }
        }
        close_ranks();
    }
}

/* Of a sender's tokens, those that go to a node, and which of its slots compute them, as an
 * exchange says it to the rank that passes them on. */
static uint32_t list_relayed(uint32_t from, uint32_t node, uint32_t node_ranks, uint32_t *tokens,
                             uint32_t *slots) {
    uint32_t count = 0, node_slots = node_ranks * SLOTS_EACH;
    for (uint32_t token = 0; token < ranks[from].tokens; token++) {
        const uint32_t *of = &ranks[from].slots[token * PER_TOKEN];
        uint32_t *to = &slots[count * PER_TOKEN], taken = 0;
        if (!gpu_rounds_goes_to_node(of, PER_TOKEN, node_slots, node)) continue;
        tokens[count++] = token;
        for (uint32_t k = 0; k < PER_TOKEN; k++)
            to[k] = EXCHANGE_NO_SLOT;
        for (uint32_t k = 0; k < PER_TOKEN; k++)
            if (of[k] / node_slots == node) to[taken++] = of[k] % node_slots;
        assert_true(taken > 0);
    }
    return count;
}

/* In each round, for each rank of a node: the sender's tokens, pair by pair. Returns the pairs. */
static uint32_t expect_passed_on(uint32_t from, uint32_t node, struct gpu_rounds *relay) {
    static uint32_t tokens[TOKENS], slots[PAIRS];
    struct gpu_rounds *sender = &ranks[from].rounds;
    uint32_t count = list_relayed(from, node, relay->ranks, tokens, slots), all = 0;
    assert_true(count <= gpu_rounds_rows_to_nodes(2, TOKENS, PER_TOKEN));
    gpu_rounds_sort(relay, slots, count * PER_TOKEN, NULL);
    uint32_t rounds = gpu_rounds_count(relay, gpu_rounds_most_pairs(relay));
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t rows = 0, number;
        gpu_rounds_begin(sender, round);
        gpu_rounds_begin(relay, round);
        for (uint32_t place = 0; place < relay->ranks; place++) {
            uint32_t to = node * relay->ranks + place, first = 0, first_relayed = 0;
            uint32_t given = gpu_rounds_to_send(sender, to, &first);
            assert_int_equal(gpu_rounds_to_send(relay, place, &first_relayed), given);
            for (uint32_t i = 0; i < given; i++, all++) {
                uint32_t pair = relay->pair_at[first_relayed + i];
                assert_int_equal(tokens[pair / PER_TOKEN], sender->pair_at[first + i] / PER_TOKEN);
                rows += gpu_rounds_row(relay, place, pair / PER_TOKEN, &number);
            }
        }
        assert_true(rows <= gpu_rounds_rows_in_round(2, relay->ranks + 1, TOKENS, PER_TOKEN,
                                                     relay->chunk_pairs));
    }
    return all;
}

TEST(who_passes_rows_on_cuts_as_their_sender_would) {
    static const uint32_t sizes[] = {1, 3, 16, PAIRS};
    struct error error;
    for (uint32_t node_ranks = 1; node_ranks < RANKS; node_ranks *= 2)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct gpu_rounds relay = {.ranks = node_ranks,
                                       .slots_each = SLOTS_EACH,
                                       .rows_max = TOKENS,
                                       .chunk_pairs = sizes[i]};
            open_ranks(sizes[i]);
            assert_int_equal(gpu_rounds_open(&relay, PAIRS, &error), STATUS_OK);
            for (uint32_t from = 0; from < RANKS; from++) {
                uint32_t all = 0;
                draw_choices(from);
                for (uint32_t node = 0; node < RANKS / node_ranks; node++)
                    all += expect_passed_on(from, node, &relay);
                assert_int_equal(all, ranks[from].tokens * PER_TOKEN);
            }
            gpu_rounds_close(&relay);
            close_ranks();
        }
}

TEST(rows_come_by_the_rank_of_their_senders_place) {
    assert_int_equal(gpu_rounds_relay_of(1, 6, 4), 5); /* two nodes of four */
    assert_int_equal(gpu_rounds_relay_of(6, 1, 4), 2);
    assert_int_equal(gpu_rounds_relay_of(1, 5, 4), 5); /* who has the place itself */
    assert_int_equal(gpu_rounds_relay_of(7, 5, 4), 7); /* a node's own */
    assert_int_equal(gpu_rounds_relay_of(7, 5, 8), 7); /* one level */
    assert_int_equal(gpu_rounds_relay_of(7, 5, 1), 5); /* nodes of one */
}

TEST(nodes_of_one_rank_are_one_node) {
    assert_int_equal(gpu_rounds_nodes_of(32, 8), 4);
    assert_int_equal(gpu_rounds_nodes_of(32, 32), 1);
    assert_int_equal(gpu_rounds_nodes_of(32, 1), 1);
}

TEST(room_for_what_leaves_is_bounded_by_tokens_and_by_pieces) {
    assert_int_equal(gpu_rounds_rows_to_nodes(1, 128, 8), 0);
    assert_int_equal(gpu_rounds_rows_to_nodes(4, 128, 8), 3 * 128);
    assert_int_equal(gpu_rounds_rows_to_nodes(18, 128, 8), 8 * 128);
    assert_int_equal(gpu_rounds_rows_in_round(1, 32, 128, 8, 128), 8 * 128);
    assert_int_equal(gpu_rounds_rows_in_round(4, 8, 4096, 8, 128), 31 * 128);
    assert_int_equal(gpu_rounds_rows_in_round(4, 8, 16, 8, 128), 8 * 16 + 3 * 16 * 7);
}

TEST(pairs_have_their_places_rank_by_rank) {
    open_ranks(16);
    draw_choices(0);
    const struct gpu_rounds *rounds = &ranks[0].rounds;
    for (uint32_t pair = 0; pair < ranks[0].tokens * PER_TOKEN; pair++) {
        uint32_t rank = ranks[0].slots[pair] / SLOTS_EACH, place = ranks[0].node_ranks[pair];
        assert_int_equal(rounds->pair_at[place], pair);
        assert_in_range(place, rounds->first[rank], rounds->first[rank + 1] - 1);
    }
    close_ranks();
}

TEST(marks_that_have_gone_round_say_nothing) {
    uint32_t number;
    open_ranks(16);
    struct gpu_rounds *rounds = &ranks[0].rounds;
    gpu_rounds_begin(rounds, 0);
    assert_true(gpu_rounds_row(rounds, 1, 5, &number));
    rounds->mark = UINT32_MAX;
    gpu_rounds_begin(rounds, 0);
    assert_true(gpu_rounds_row(rounds, 1, 5, &number));
    assert_false(gpu_rounds_row(rounds, 1, 5, &number));
    assert_int_equal(number, 0);
    close_ranks();
}

TEST(a_piece_is_its_share_of_a_round_and_not_too_small) {
    assert_int_equal(gpu_rounds_chunk_pairs(8, 4352, 100000), 544);
    assert_int_equal(gpu_rounds_chunk_pairs(32, 384, 100000), GPU_CHUNK_PAIRS);
    assert_int_equal(gpu_rounds_chunk_pairs(32, 384, 100), 100);
}

/* SPDX-License-Identifier: Apache-2.0
 * Protects the moves of experts, run by all ranks: pieces of many sizes between all pairs of ranks
 * arrive unchanged, no call blocks, a corrupt piece is detected and the next one is complete, and
 * the rate limit is kept.
 */
#define TEST_OWN_MAIN
#include "test_case.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "compute/exchange/job.h"
#include "compute/exchange/move_transport.h"
#include "on_ranks.h"

#define PIECES 60
#define BYTES_MAX (5 * MOVE_CHUNK_BYTES)

struct piece {
    uint32_t from, to;
    size_t bytes;
};

static struct piece pieces[PIECES];
static char *given[PIECES], *taken[PIECES];

static double uniform(uint32_t i, uint32_t what) {
    return random_uniform(5, i, what);
}

static void fill(char *data, size_t bytes, uint32_t seed) {
    for (size_t i = 0; i < bytes; i++)
        data[i] = (char)(i * 31 + seed * 7 + i / 251);
}

static void open_pieces(void) {
    static const size_t sizes[] = {1, 31, MOVE_CHUNK_BYTES, MOVE_CHUNK_BYTES + 8};
    for (uint32_t i = 0; i < PIECES; i++) {
        struct piece *piece = &pieces[i];
        piece->from = (uint32_t)(uniform(i, 0) * job_count());
        piece->to = (piece->from + 1 + (uint32_t)(uniform(i, 1) * (job_count() - 1))) % job_count();
        piece->bytes = i < 4 ? sizes[i] : 1 + (size_t)(uniform(i, 2) * (BYTES_MAX - 1));
        given[i] = malloc(piece->bytes);
        taken[i] = calloc(1, piece->bytes);
        check(given[i] && taken[i]);
        fill(given[i], piece->bytes, i);
    }
}

static uint32_t next_piece(uint32_t at, bool mine_to_give) {
    while (at < PIECES && (mine_to_give ? pieces[at].from : pieces[at].to) != job_rank())
        at++;
    return at;
}

/* Carries the list out; returns how many pieces came damaged. */
static uint32_t carry(struct move_transport *transport) {
    uint32_t giving = next_piece(0, true), taking = next_piece(0, false), damaged = 0;
    bool gives = false, takes = false;
    while (giving < PIECES || taking < PIECES) {
        move_transport_progress(transport);
        if (gives && move_transport_sent(transport) != MOVE_IN_PROGRESS) {
            gives = false;
            giving = next_piece(giving + 1, true);
        }
        if (takes && move_transport_received(transport) != MOVE_IN_PROGRESS) {
            takes = false;
            damaged += move_transport_received(transport) == MOVE_CORRUPT;
            taking = next_piece(taking + 1, false);
        }
        if (!gives && giving < PIECES) {
            move_transport_send(transport, pieces[giving].to, given[giving], pieces[giving].bytes);
            gives = true;
        }
        if (!takes && taking < PIECES) {
            move_transport_receive(transport, pieces[taking].from, taken[taking],
                                   pieces[taking].bytes);
            takes = true;
        }
    }
    return damaged;
}

static uint32_t count_wrong(void) {
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < PIECES; i++)
        if (pieces[i].to == job_rank()) wrong += memcmp(taken[i], given[i], pieces[i].bytes) != 0;
    return wrong;
}

TEST(pieces_arrive_whole_and_damage_is_noticed) {
    struct move_transport *transport;
    struct error error;
    open_pieces();
    if (move_transport_open(&transport, &error) != STATUS_OK) fail_msg("%s", error.text);
    assert_int_equal(move_transport_sent(transport), MOVE_COMPLETE);
    assert_int_equal(carry(transport), 0);
    assert_int_equal(count_wrong(), 0);
    move_transport_corrupt_next(transport);
    assert_int_equal(carry(transport), next_piece(0, false) < PIECES);
    assert_int_equal(count_wrong(), next_piece(0, false) < PIECES);
    assert_int_equal(carry(transport), 0);
    assert_int_equal(count_wrong(), 0);
    move_transport_close(transport);
    for (uint32_t i = 0; i < PIECES; i++) {
        free(given[i]);
        free(taken[i]);
    }
}

TEST(bytes_go_no_faster_than_the_limit) {
    struct move_transport *transport;
    struct error error;
    size_t through = 0;
    assert_int_equal(move_transport_open(&transport, &error), STATUS_OK);
    assert_true(move_transport_allows(transport, SIZE_MAX)); /* no limit */
    int64_t begin_ns = clock_now_ns();
    move_transport_limit(transport, 4 << 20);
    assert_false(move_transport_allows(transport, MOVE_CHUNK_BYTES)); /* nothing is saved up */
    while (through < (1 << 18))
        if (move_transport_allows(transport, 4096)) through += 4096;
    assert_true(clock_now_ns() - begin_ns > 62400000); /* 1/16 s */
    move_transport_close(transport);
}

int main(int argc, char **argv) {
    return on_ranks(argv, "move_transport", test_cases, test_case_count);
}

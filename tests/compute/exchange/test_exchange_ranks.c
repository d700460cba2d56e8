/* SPDX-License-Identifier: Apache-2.0
 * Run by all ranks: random tokens and experts through the exchange, with random placements and
 * replicas, compared with the expected result of every (token, expert) pair. An "expert" here
 * writes its own id and its input, so a row in the wrong place, or bytes of another token, are
 * detected. If results are summed by groups, a "sum" writes the ids of its results, and their
 * weights must be those of the pairs. Rank 0 prints the results.
 */
#define TEST_OWN_MAIN
#include "test_case.h"

#include <sys/resource.h>

#include "base/check.h"
#include "base/random.h"
#include "compute/exchange/exchange.h"
#include "compute/exchange/job.h"
#include "on_ranks.h"

#define TOKENS_MAX 40
#define LAYERS 3
#define ROW_BYTES 48
#define RESULT_BYTES 32
#define ROUNDS 30

struct activation {
    uint32_t rank, round, token, filler[9];
};
struct answer {
    uint32_t rank, round, token, expert, layer;
    uint32_t summed, mask; /* a sum's results, and which of the group they are of */
    uint32_t filler;
};
_Static_assert(sizeof(struct activation) == ROW_BYTES && sizeof(struct answer) == RESULT_BYTES,
               "rows are whole");

struct round {
    uint32_t number, layer, tokens, experts, per_token;
    uint32_t chosen[TOKENS_MAX * 8];
    float weights[TOKENS_MAX * 8];
    struct activation rows[TOKENS_MAX];
};

static uint32_t group_experts;  /* of the exchange at hand; 0: no sums */
static uint32_t ranks_per_node; /* of the placement at hand */
static uint32_t sums_made;
static bool every_other_is_apart; /* nobody else gets at the memory of odd ranks */

static float weight_of(uint32_t rank, uint32_t round, uint32_t token, uint32_t expert) {
    return (float)(((rank * 64 + round) * 64 + token) * 64 + expert);
}

static uint32_t draw(uint64_t seed, uint32_t a, uint32_t b, uint32_t below) {
    return (uint32_t)(random_uniform(seed, a, b) * below);
}

static void draw_round(struct round *round, uint32_t number, uint32_t experts, uint32_t per_token) {
    uint32_t rank = job_rank(), at = 0;
    *round = (struct round){
        .number = number, .layer = number % LAYERS, .experts = experts, .per_token = per_token};
    round->tokens = number % 4 == 1 ? 0 : draw(number, rank, 0, TOKENS_MAX + 1);
    if (number % 5 == 2 && rank) round->tokens = 0; /* one rank works, all step */
    for (uint32_t token = 0; token < round->tokens; token++) {
        round->rows[token] = (struct activation){.rank = rank, .round = number, .token = token};
        uint32_t wanted = per_token;
        for (uint32_t expert = 0; expert < experts; expert++) /* ascending, each set as likely */
            if (draw(number + 1000, rank * TOKENS_MAX + token, expert, experts - expert) < wanted) {
                round->weights[at] = weight_of(rank, number, token, expert);
                round->chosen[at++] = expert;
                wanted--;
            }
    }
    check(at == round->tokens * per_token);
}

/* Results of one token and one group, ascending; their weights are those of the pairs. */
static void sum_up(const struct exchange_sum *sum) {
    struct answer of, last = {0}, all;
    memcpy(&all, sum->results[0], sizeof all);
    check(sum->count > 1 && group_experts);
    for (uint32_t i = 0; i < sum->count; i++, last = of) {
        memcpy(&of, sum->results[i], sizeof of);
        check(of.rank == all.rank && of.token == all.token && of.rank != job_rank());
        check(of.expert / group_experts == all.expert / group_experts);
        check(i == 0 || of.expert > last.expert);
        check(sum->weights[i] == weight_of(of.rank, of.round, of.token, of.expert));
        all.mask |= 1u << of.expert % group_experts;
    }
    all.summed = sum->count;
    memcpy(sum->sum, &all, sizeof all);
    sums_made++;
}

static void sum_all(void *context, const struct exchange_sum *sums, uint32_t count) {
    assert_true(count > 0 && context == &sums_made);
    for (uint32_t i = 0; i < count; i++)
        sum_up(&sums[i]);
}

static void compute(struct exchange *exchange, const struct round *round,
                    const struct placement *placement, const struct exchange_received *received) {
    const uint32_t *experts = placement_of_rank(placement, round->layer, job_rank());
    uint32_t rows = 0, previous = 0, half;
    for (uint32_t g = 0; g < received->group_count; g++) {
        const struct exchange_group *group = &received->groups[g];
        check(group->first_row == rows && group->row_count && (g == 0 || group->slot > previous));
        previous = group->slot;
        for (uint32_t i = 0; i < group->row_count; i++, rows++) {
            struct activation given;
            memcpy(&given, received->token_data[received->row_token[rows]], sizeof given);
            check(given.round == round->number);
            struct answer answer = {.rank = given.rank,
                                    .round = given.round,
                                    .token = given.token,
                                    .expert = experts[group->slot],
                                    .layer = round->layer};
            memcpy(exchange_result(exchange, rows), &answer, sizeof answer);
        }
        exchange_progress(exchange);
    }
    check(rows == received->row_count);
    half = rows / 2; /* in two shares, as waves do */
    if (half) exchange_combine_begin(exchange, 0, half);
    if (rows - half) exchange_combine_begin(exchange, half, rows - half);
}

/* What this rank passes on by nodes: rows of the rank of its place on another node, ascending, each
 * for some slots of this node. Returns how many pairs are for this rank itself. */
static uint32_t check_relayed_of(struct exchange *exchange, const struct round *round,
                                 uint32_t node, uint32_t places, uint32_t slots_each) {
    static uint32_t slots[TOKENS_MAX * 8];
    const char *rows;
    struct activation row, last = {0};
    uint32_t own = 0, tokens = exchange_relayed(exchange, node, slots, &rows);
    check(tokens <= TOKENS_MAX);
    for (uint32_t i = 0; i < tokens; i++, last = row) {
        const uint32_t *of = slots + i * round->per_token;
        memcpy(&row, rows + (size_t)i * ROW_BYTES, sizeof row);
        check(row.rank == node * places + job_rank() % places && row.round == round->number);
        check((i == 0 || row.token > last.token) && of[0] != EXCHANGE_NO_SLOT);
        for (uint32_t k = 0; k < round->per_token; k++) {
            if (of[k] == EXCHANGE_NO_SLOT) continue;
            check(of[k] < places * slots_each && (k == 0 || of[k - 1] != EXCHANGE_NO_SLOT));
            own += of[k] / slots_each == job_rank() % places;
        }
    }
    return own;
}

static void check_relayed(struct exchange *exchange, const struct round *round,
                          const struct placement *placement,
                          const struct exchange_received *received) {
    uint32_t nodes = exchange_nodes(exchange), places = job_count() / nodes, pairs = 0;
    for (uint32_t node = 0; node < nodes && nodes > 1; node++)
        if (node != job_rank() / places)
            pairs += check_relayed_of(exchange, round, node, places, placement->slots_per_rank);
    for (uint32_t i = 0; i < received->row_count && nodes > 1; i++) {
        struct activation given;
        memcpy(&given, received->token_data[received->row_token[i]], sizeof given);
        pairs -= given.rank != job_rank() && given.rank % places == job_rank() % places;
    }
    check(pairs == 0);
}

/* The group's pairs from this one on, as a sum has them. */
static void check_sum(const struct round *round, uint32_t pair, const struct answer *answer) {
    uint32_t run = exchange_group_run(round->chosen + pair,
                                      round->per_token - pair % round->per_token, group_experts);
    uint32_t mask = 0;
    for (uint32_t i = 0; i < run; i++)
        mask |= 1u << round->chosen[pair + i] % group_experts;
    check(answer->summed == run && answer->mask == mask);
}

static void check_returned(const struct round *round, const struct exchange_returned *returned) {
    struct answer answer = {0};
    for (uint32_t pair = 0; pair < round->tokens * round->per_token; pair++) {
        if (returned->token_rows[pair] == EXCHANGE_SUMMED) {
            check(pair % round->per_token && answer.summed);
            continue;
        }
        memcpy(&answer, returned->results + (size_t)returned->token_rows[pair] * RESULT_BYTES,
               sizeof answer);
        check(answer.rank == job_rank() && answer.round == round->number);
        check(answer.token == pair / round->per_token && answer.layer == round->layer);
        check(answer.expert == round->chosen[pair]);
        if (answer.summed) check_sum(round, pair, &answer);
    }
}

/* Of all ranks' pairs: told by each to rank 0, and back. */
static uint32_t most_pairs(uint32_t own) {
    uint32_t most = own, of;
    for (uint32_t rank = 1; rank < job_count() && job_rank() == 0; rank++) {
        job_receive(rank, &of, sizeof of);
        if (of > most) most = of;
    }
    for (uint32_t rank = 1; rank < job_count() && job_rank() == 0; rank++)
        job_send(rank, &most, sizeof most);
    if (job_rank()) job_send(0, &own, sizeof own);
    if (job_rank()) job_receive(0, &most, sizeof most);
    return most;
}

static void open_placement(struct placement *placement, uint32_t experts, uint32_t redundant,
                           uint64_t seed) {
    struct error error;
    uint32_t ranks = job_count();
    uint32_t slots = placement_slots_per_rank(experts, ranks, redundant);
    if (placement_open(placement, LAYERS, experts, ranks, slots, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    if (ranks_per_node) placement->node_ranks = ranks_per_node;
    placement_spread(placement, seed);
    if (placement_index(placement, &error) != STATUS_OK) fail_msg("%s", error.text);
}

static struct exchange *open_exchange(const struct placement *placement, uint32_t per_token,
                                      uint32_t channel, struct exchange_link *link) {
    struct exchange *exchange;
    struct error error;
    struct exchange_options options = {.tokens_max = TOKENS_MAX,
                                       .experts = placement->experts,
                                       .experts_per_token = per_token,
                                       .placement = placement,
                                       .rank = job_rank(),
                                       .dispatch_bytes = ROW_BYTES,
                                       .combine_bytes = RESULT_BYTES,
                                       .group_experts = group_experts,
                                       .sum = sum_all,
                                       .sum_context = &sums_made,
                                       .channel = channel,
                                       .link = link};
    struct rlimit files, none;
    check(getrlimit(RLIMIT_NOFILE, &files) == 0);
    none = (struct rlimit){.rlim_max = files.rlim_max};
    if (every_other_is_apart && job_rank() % 2) check(setrlimit(RLIMIT_NOFILE, &none) == 0);
    if (exchange_open_ranks(&options, &exchange, &error) != STATUS_OK) fail_msg("%s", error.text);
    check(setrlimit(RLIMIT_NOFILE, &files) == 0);
    assert_true(exchange_moves_rows(exchange));
    return exchange;
}

static void begin_round(struct exchange *exchange, struct round *round, uint32_t number,
                        uint32_t experts, uint32_t per_token) {
    draw_round(round, number, experts, per_token);
    exchange_dispatch_begin(exchange, round->layer, round->chosen, round->weights, round->tokens,
                            (const char *)round->rows);
}

static void run_case(uint32_t experts, uint32_t per_token, uint32_t redundant, uint64_t seed) {
    struct placement placement;
    static struct round round;
    uint32_t better = 0;
    open_placement(&placement, experts, redundant, seed);
    struct exchange *exchange = open_exchange(&placement, per_token, 0, NULL);
    for (uint32_t number = 0; number < ROUNDS; number++) {
        struct exchange_received received;
        struct exchange_returned returned;
        uint32_t most[2];
        for (int splits = 0; splits < 2; splits++) { /* by turns, then by flow: never worse */
            exchange_split_replicas(exchange, splits);
            exchange_set_two_levels(exchange, number % 3 != 0);
            begin_round(exchange, &round, number, experts, per_token);
            exchange_dispatch_finish(exchange, &received);
            bool has_nodes = number % 3 && ranks_per_node > 1;
            assert_int_equal(exchange_nodes(exchange),
                             has_nodes ? job_count() / ranks_per_node : 1);
            check_relayed(exchange, &round, &placement, &received);
            most[splits] = most_pairs(received.row_count);
            compute(exchange, &round, &placement, &received);
            exchange_combine_finish(exchange, &returned);
            check_returned(&round, &returned);
        }
        assert_true(most[1] <= most[0]);
        better += most[1] < most[0];
    }
    assert_true(better > 0 || !redundant);
    struct exchange_counts counts = exchange_counts(exchange);
    assert_true(counts.tokens_dispatched > 0 && counts.pairs >= counts.tokens_dispatched);
    exchange_close(exchange);
    placement_close(&placement);
}

static void run_cases(void) {
    run_case(12, 3, 0, 0);
    run_case(12, 3, 5, 3);
    run_case(7, 7, 20, 1);
    run_case(64, 8, 1, 2);
    run_case(1, 1, 0, 0);
}

static void run_cases_with_sums(void) {
    sums_made = 0;
    group_experts = 4;
    run_case(12, 3, 0, 0);
    run_case(12, 3, 5, 3);
    group_experts = 8;
    run_case(64, 8, 1, 2);
    group_experts = 2; /* most groups that a token needs lie on one rank, of a few */
    run_case(8, 8, 24, 5);
    assert_true(sums_made > 0 || job_count() > 5);
    group_experts = 7; /* a model without groups: all experts are one */
    run_case(7, 7, 20, 1);
    group_experts = 0;
}

TEST(every_row_reaches_its_expert_and_comes_back) {
    run_cases();
}

TEST(a_group_that_lies_on_one_rank_comes_back_as_one_row) {
    run_cases_with_sums();
}

TEST(nodes_of_any_size_pass_rows_on) {
    for (ranks_per_node = 1; ranks_per_node < job_count(); ranks_per_node++) {
        if (job_count() % ranks_per_node) continue;
        run_cases();
        run_cases_with_sums();
    }
    ranks_per_node = 0;
}

TEST(ranks_whose_memory_is_their_own_are_sent_all_of_it) {
    every_other_is_apart = true;
    run_cases();
    ranks_per_node = job_count() % 2 ? 1 : job_count() / 2;
    run_cases_with_sums();
    ranks_per_node = 0;
    every_other_is_apart = false;
}

#define LANES 3

static uint32_t leave_out(struct exchange **exchanges, uint32_t count, const struct exchange *one) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++)
        if (exchanges[i] != one) exchanges[left++] = exchanges[i];
    return left;
}

/* Several exchanges on one slow link. Each rank takes them in the order in which they come to it,
 * and none has to wait for what has arrived. */
TEST(lanes_share_a_slow_link_in_their_order) {
    static struct round rounds[LANES];
    struct exchange_link link = {.ns_per_byte = 20, .latency_ns = 20000};
    struct exchange *exchanges[LANES], *open[LANES];
    struct placement placement;
    bool combines[LANES] = {false};
    uint32_t left = LANES;
    open_placement(&placement, 12, 3, 4);
    for (uint32_t i = 0; i < LANES; i++) {
        open[i] = exchanges[i] = open_exchange(&placement, 3, i, &link);
        begin_round(open[i], &rounds[i], i, 12, 3);
    }
    while (left) {
        struct exchange_received received;
        struct exchange_returned returned;
        struct exchange *come = exchange_wait_any(exchanges, left);
        uint32_t channel = 0;
        while (open[channel] != come)
            channel++;
        assert_true(exchange_arrived(come));
        if (combines[channel])
            exchange_combine_finish(come, &returned);
        else
            exchange_dispatch_finish(come, &received);
        struct exchange_transfer last = exchange_last_transfer(come);
        assert_true(last.ended_ns - last.began_ns >= (int64_t)last.bytes_received * 20);
        assert_true(last.waited_ns >= 0);
        if (combines[channel]) {
            check_returned(&rounds[channel], &returned);
            if (rounds[channel].number + LANES < ROUNDS)
                begin_round(come, &rounds[channel], rounds[channel].number + LANES, 12, 3);
            else
                left = leave_out(exchanges, left, come);
        } else {
            compute(come, &rounds[channel], &placement, &received);
        }
        combines[channel] = !combines[channel];
    }
    for (uint32_t i = 0; i < LANES; i++)
        exchange_close(open[i]);
    placement_close(&placement);
}

int main(int argc, char **argv) {
    return on_ranks(argv, "ranks", test_cases, test_case_count);
}

/* SPDX-License-Identifier: Apache-2.0
 * Protects the memory of an exchange among ranks: each array lies in the mapping, aligned and as
 * long as the header says, and no two overlap, with one node and with several, with sums and
 * without.
 */
#include "test_case.h"

#include "compute/exchange/exchange_buffers.h"

#define TOKENS 5u
#define PER_TOKEN 4u
#define PAIRS (TOKENS * PER_TOKEN)
#define SLOTS 3u /* of a rank: fewer than a token's experts */
#define ROWS_MAX (TOKENS * RANKS * SLOTS)
#define RANKS 6u
#define ROW 48u
#define RESULT 32u

struct part {
    const char *start;
    size_t bytes;
};

static struct part parts[64];
static size_t part_count;

static void has(const void *start, size_t bytes) {
    assert_non_null(start);
    assert_int_equal((uintptr_t)start % DISPATCH_ALIGN, 0);
    parts[part_count++] = (struct part){start, bytes};
}

static int by_start(const void *a, const void *b) {
    const struct part *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static void expect_apart(const struct ranks_exchange *ranks) {
    const char *free_from = ranks->memory;
    qsort(parts, part_count, sizeof *parts, by_start);
    for (size_t i = 0; i < part_count; i++) {
        assert_true(parts[i].start >= free_from);
        free_from = parts[i].start + parts[i].bytes;
    }
    assert_true(free_from <= (const char *)ranks->memory + ranks->mapped_bytes);
    part_count = 0;
}

static void list_relays(const struct ranks_exchange *ranks) {
    for (uint32_t node = 0; node < ranks->node_count; node++) {
        const struct relay *relay = &ranks->relays[node];
        bool passes_on = node != ranks->rank / (RANKS / ranks->node_count);
        has(relay->out, ranks->out_bytes);
        has(relay->own_row, TOKENS * sizeof(uint32_t));
        has(relay->token_rows, PAIRS * sizeof(uint32_t));
        if (!passes_on) continue;
        has(relay->received_list, ranks->node_message_bytes);
        has(relay->results_out, PAIRS * RESULT);
    }
}

static void check_memory(uint32_t node_ranks, uint32_t group_experts) {
    struct placement placement = {.ranks = RANKS, .node_ranks = node_ranks};
    struct ranks_exchange ranks = {.rank = 3,
                                   .rank_count = RANKS,
                                   .slots_per_rank = SLOTS,
                                   .node_count = RANKS / node_ranks,
                                   .exchange.options = {.tokens_max = TOKENS,
                                                        .experts_per_token = PER_TOKEN,
                                                        .placement = &placement,
                                                        .dispatch_bytes = ROW,
                                                        .combine_bytes = RESULT,
                                                        .group_experts = group_experts}};
    struct error error;
    if (exchange_buffers_open(&ranks, &error) != STATUS_OK) fail_msg("%s", error.text);
    assert_true(exchange_buffers_sums_groups(&ranks) == (group_experts != 0));
    assert_true(ranks.in_bytes >=
                dispatch_pack_rows_offset(TOKENS, TOKENS * SLOTS, group_experts) + TOKENS * ROW);
    assert_true(ranks.node_message_bytes >= ranks.in_bytes && ranks.out_bytes >= PAIRS * ROW);
    has(ranks.pair_slot, PAIRS * sizeof(uint32_t));
    has(ranks.token_rows, PAIRS * sizeof(uint32_t));
    assert_true(ranks.results_bytes >= PAIRS * RESULT && ranks.results_bytes % DISPATCH_ALIGN == 0);
    assert_true(ranks.window.bytes >=
                RANKS * ranks.in_bytes +
                    (node_ranks < RANKS ? 1 + RANKS / node_ranks : 1) * ranks.results_bytes);
    has(ranks.token_data, RANKS * TOKENS * sizeof(char *));
    has(ranks.row_token, ROWS_MAX * sizeof(uint32_t));
    has(ranks.row_result, ROWS_MAX * sizeof(char *));
    has(ranks.results_out, ROWS_MAX * RESULT);
    if (group_experts) {
        has(ranks.summands, ROWS_MAX * RESULT);
        has(ranks.sums, ROWS_MAX * sizeof(struct exchange_sum));
        has(ranks.sum_rows, ROWS_MAX * sizeof(char *));
    }
    if (ranks.node_count > 1) {
        has(ranks.own_token, TOKENS * sizeof(uint32_t));
        has(ranks.own_list, ranks.node_message_bytes);
        has(ranks.out, ranks.out_bytes);
    }
    list_relays(&ranks);
    expect_apart(&ranks);
    exchange_buffers_close(&ranks);
}

TEST(no_array_touches_another) {
    for (uint32_t node_ranks = 1; node_ranks <= RANKS; node_ranks++) {
        if (RANKS % node_ranks) continue;
        check_memory(node_ranks, 0);
        check_memory(node_ranks, 2);
    }
}
